"""API calls of an export: of the runtime and of the driver, which are in one table."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tui.loaders.nsys.tables import CALLS, Strings, Tables, process_of, tid_of, times

_VERSION: Final = re.compile(r"_v\d+$")
"""What CUPTI adds to the name of a call: the version of CUDA that it is of, or of the call itself."""

NOT_READY: Final = 600
"""What cudaEventQuery and cudaStreamQuery return while the work goes on: no error."""


def api_calls(tables: Tables, strings: Strings) -> pl.DataFrame:
    """All API calls: columns of ``api_calls``, ``process`` and ``result`` (the code returned)."""
    rows = tables.frame(
        CALLS,
        {
            "start": pl.Int64,
            "end": pl.Int64,
            "globalTid": pl.Int64,
            "correlationId": pl.Int64,
            "nameId": pl.Int64,
            "returnValue": pl.Int64,
        },
    )
    return rows.select(
        process_of("globalTid"),
        strings.of(rows["nameId"], bare_name).alias("name"),
        *times(),
        tid_of("globalTid"),
        pl.col("correlationId").alias("correlation"),
        pl.col("returnValue").alias("result"),
    )


def bare_name(name: str) -> str:
    """The name of a call as a program writes it.

    >>> bare_name("cudaLaunchKernel_v7000"), bare_name("cuMemcpyHtoD_v2"), bare_name("cuLaunchKernel")
    ('cudaLaunchKernel', 'cuMemcpyHtoD', 'cuLaunchKernel')
    """
    return _VERSION.sub("", name)


def failures(calls: pl.DataFrame) -> list[tuple[str, int, int]]:
    """Name, code and count of calls that returned an error, the most frequent first."""
    failed = (
        calls.filter(pl.col("result").is_not_null(), ~pl.col("result").is_in([0, NOT_READY]))
        .group_by(pl.col("name").cast(pl.String).fill_null("an unnamed call"), "result")
        .len()
        .sort("len", "name", "result", descending=[True, False, False])
    )
    return [(name, code, count) for name, code, count in failed.iter_rows()]
