"""NVTX ranges of an export."""

from __future__ import annotations

from typing import Final

import polars as pl

from tui.loaders.nsys.tables import RANGES, Strings, Tables, process_of, tid_of
from tui.model.schema import NAME

PUSH_POP: Final = 59
"""``eventType`` of a range that one thread pushed and popped: such ranges lie within each other."""
START_END: Final = 60
"""Of a range that may begin on one thread and end on another."""
_DOMAIN: Final = 75
"""Of the event that names a domain."""


def nvtx_ranges(tables: Tables, strings: Strings) -> pl.DataFrame:
    """All ranges: columns of ``ranges``, ``process`` and ``push_pop`` (whether such, else start/end)."""
    rows = tables.frame(
        RANGES,
        {
            "start": pl.Int64,
            "end": pl.Int64,
            "eventType": pl.Int64,
            "text": pl.String,
            "textId": pl.Int64,
            "globalTid": pl.Int64,
            "domainId": pl.Int64,
        },
    )
    rows = rows.with_columns(
        process_of("globalTid"),
        pl.coalesce(pl.col("text").cast(NAME), strings.of(rows["textId"]).alias("registered")).alias("name"),
    ).drop("text")
    domains = (
        rows.filter(pl.col("eventType") == _DOMAIN, pl.col("name").is_not_null())
        .select("process", "domainId", domain="name")
        .unique(["process", "domainId"], keep="first", maintain_order=True)
    )
    length = pl.col("end") - pl.col("start")
    return (
        rows.filter(pl.col("eventType").is_in([PUSH_POP, START_END]))
        .join(domains, on=["process", "domainId"], how="left", maintain_order="left", nulls_equal=True)
        .select(
            "process",
            "name",
            # A domain that was made before the recording began has a number alone.
            pl.when(pl.col("domain").is_null() & (pl.col("domainId") != 0))
            .then("domain " + pl.col("domainId").cast(pl.String))
            .otherwise(pl.col("domain").cast(pl.String))
            .cast(NAME)
            .alias("domain"),
            pl.col("start").alias("start_ns"),
            pl.when(length >= 0).then(length).alias("duration_ns"),
            tid_of("globalTid"),
            (pl.col("eventType") == PUSH_POP).alias("push_pop"),
        )
    )
