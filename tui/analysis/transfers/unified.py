"""Unified memory: what moved between host and device by itself, and the page faults that made it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.model.columns import ColumnKind, columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

UNIFIED: Final = TableSpec(
    "unified_memory",
    "Unified memory",
    (
        replace(columns("name")[0], kind=ColumnKind.TEXT, help="Migration or page fault, as the input names it."),
        *columns("calls", "total_ns", "size_bytes", "avg_ns", "min_ns", "max_ns", "line", "device", "session"),
    ),
    # The input's own sums do not tell the GPU: of several, their lines tell them apart.
    key=("session", "device", "name", "line"),
)


def unified_memory(profile: Profile) -> pl.DataFrame:
    """Unified memory by name, most time first: from single work, else as the input summed it up.

    Columns: session, device, name, calls, total_ns, size_bytes, avg_ns, min_ns, max_ns, line. A session that has single
    work of unified memory has its rows from that alone.
    """
    by = ("session", "device", "name")
    single = (
        profile["activities"]
        .filter(pl.col("kind") == "um")
        .group_by(by)
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total().alias("total_ns"),
            total("size_bytes").alias("size_bytes"),
            pl.col("duration_ns").mean().round().cast(pl.Int64).alias("avg_ns"),
            pl.col("duration_ns").min().alias("min_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
            pl.col("line").min(),
        )
    )
    summed = (
        profile["summary"]
        .filter(pl.col("section") == "um", ~pl.col("session").is_in(single["session"].unique().implode()))
        .select("session", "name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "line")
    )
    return (
        pl.concat([single, summed], how="diagonal")
        .select(*by, "calls", "total_ns", "size_bytes", "avg_ns", "min_ns", "max_ns", "line")
        .sort("total_ns", *by, descending=[True, False, False, False], nulls_last=True)
    )
