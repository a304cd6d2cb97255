"""What the profiler and the driver did beside the program: the table of overhead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nvprof_db.times import absolute

if TYPE_CHECKING:
    from tui.loaders.sqlite.database import Database

_KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "Driver compiler",
        1 << 16: "CUPTI buffer flush",
        2 << 16: "CUPTI instrumentation",
        3 << 16: "CUPTI resource creation and destruction",
    }
)
"""CUPTI's numbers of what overhead is; 0 is unknown."""

_COLUMNS: Final = {"overheadKind": pl.Int64, "objectId": pl.Binary, "start": pl.Int64, "end": pl.Int64}


def read_overhead(database: Database) -> pl.DataFrame:
    """Overhead with ``pid``, ``name``, ``line`` (null) and times, which are still absolute."""
    rows = database.frame("CUPTI_ACTIVITY_KIND_OVERHEAD", _COLUMNS)
    process = pl.col("objectId").bin.slice(0, 4)
    return rows.select(
        pl.when(process.bin.size() == 4)
        .then(process.bin.reinterpret(dtype=pl.UInt32, endianness="little"))
        .cast(pl.Int64)
        .alias("pid"),
        pl.col("overheadKind").replace_strict(dict(_KINDS), default="Unknown", return_dtype=pl.String).alias("name"),
        *absolute(),
        pl.lit(None, pl.UInt32).alias("line"),
    )
