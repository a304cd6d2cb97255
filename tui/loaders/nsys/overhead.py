"""What Nsight Systems recorded of its own work, and CUPTI of CUDA's, in an export."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from tui.loaders.nsys.tables import CUPTI_OVERHEAD, OVERHEAD, Strings, Tables, process_of, times
from tui.model.schema import NAME

_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        2: "Driver JIT compiler",
        3: "CUPTI buffer flush",
        4: "CUPTI instrumentation",
        5: "CUPTI resource creation and destruction",
        6: "Runtime module loading",
        7: "Lazy function loading",
        8: "Command buffer full",
    }
)
"""``overheadType``, since 2025: CUPTI's kinds of overhead, as the export labels them."""


def overhead(tables: Tables, strings: Strings) -> pl.DataFrame:
    """All overhead: ``process``, ``name``, ``start_ns``, ``duration_ns``, ``line`` (null).

    The profiler's own is in one table, what CUPTI tells of CUDA's in another, which only newer versions have.
    """
    parts = []
    for table in (OVERHEAD, CUPTI_OVERHEAD):
        rows = tables.frame(
            table,
            {
                "start": pl.Int64,
                "end": pl.Int64,
                "globalTid": pl.Int64,
                "nameId": pl.Int64,
                "overheadType": pl.Int64,
            },
        )
        kind = pl.col("overheadType").replace_strict(dict(_TYPES), default="Unknown", return_dtype=pl.String)
        parts.append(
            rows.select(
                process_of("globalTid"),
                pl.coalesce(strings.of(rows["nameId"]).cast(pl.String), kind).cast(NAME).alias("name"),
                *times(),
                pl.lit(None, pl.UInt32).alias("line"),
            )
        )
    return pl.concat(parts)
