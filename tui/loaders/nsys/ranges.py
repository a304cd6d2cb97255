"""NVTX ranges of an export."""

from __future__ import annotations

from typing import Final

import polars as pl

from tui.loaders.nsys.tables import RANGES, Strings, Tables, process_of, tid_of
from tui.model.schema import NAME

_PUSH_POP: Final = (59, 70)
"""``eventType`` of a range that one thread pushed and popped: such ranges lie within each other.

The second number is of a text file of NVTX events (NVTXT) that was imported; so it is below.
"""
_START_END: Final = (60, 71)
"""Of a range that may begin on one thread and end on another."""
_MARKS: Final = (34, 65)
"""Of a mark, which is a moment."""
_DOMAIN: Final = 75
"""Of the event that names a domain."""
_NAMES: Final = (33, 39, 64, 72, 73, 74, _DOMAIN, 76, 97, 98, 99)
"""Of events that name or end something: categories, threads, processes, files, domains, GPUs, contexts and streams."""
_MOST_TYPES: Final = 6


class NvtxEvents:
    """The ranges among them, and how many events are none."""

    ranges: pl.DataFrame
    """Columns of ``ranges``, ``process`` and ``push_pop`` (whether such, else start/end)."""

    def __init__(self, tables: Tables, strings: Strings) -> None:
        """Read them."""
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
        self._others = (
            rows.filter(~pl.col("eventType").is_in([*_PUSH_POP, *_START_END, *_NAMES]).fill_null(False))
            .group_by("eventType")
            .len()
            .sort("eventType", nulls_last=True)
        )
        self.ranges = _ranges(rows, strings)

    def left_out(self) -> list[str]:
        """What to say of events that are no ranges and name nothing."""
        marks = self._others.filter(pl.col("eventType").is_in(_MARKS))["len"]
        rest = self._others.filter(~pl.col("eventType").is_in(_MARKS).fill_null(False))
        said = [f"{_are_left_out(int(marks.sum()), 'NVTX mark')}: moments, which no view shows"] if len(marks) else []
        if rest.height:
            types = ["none" if one is None else str(one) for one in rest["eventType"].head(_MOST_TYPES)]
            named = ", ".join(types) + (", ..." if rest.height > _MOST_TYPES else "")
            count = int(rest["len"].sum())
            said.append(f"{_are_left_out(count, 'NVTX event')}: not known as ranges (event types: {named})")
        return said


def _are_left_out(count: int, what: str) -> str:
    return f"1 {what} is left out" if count == 1 else f"{count:,} {what}s are left out"


def _ranges(rows: pl.DataFrame, strings: Strings) -> pl.DataFrame:
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
        rows.filter(pl.col("eventType").is_in([*_PUSH_POP, *_START_END]))
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
            pl.col("eventType").is_in(_PUSH_POP).alias("push_pop"),
        )
    )
