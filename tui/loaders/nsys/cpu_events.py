"""CPU events of an Nsight Systems export: API calls, NVTX ranges and profiler overhead."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nsys.export_tables import (
    CALLS,
    CUPTI_OVERHEAD,
    OVERHEAD,
    RANGES,
    StringIds,
    Tables,
    process_of,
    tid_of,
    times,
)
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION: Final = re.compile(r"_v[0-9]+$")
"""The suffix that CUPTI adds to the name of a call: the version of CUDA or of the call."""

NOT_READY: Final = 600
"""The result of cudaEventQuery and cudaStreamQuery for unfinished work: no error."""


def api_calls(tables: Tables, strings: StringIds) -> pl.DataFrame:
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
    """The name of a call without suffix.

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


_PUSH_POP: Final = (59, 70)
"""The ``eventType`` of push/pop ranges, which are nested per thread.

The second number, here and below, is for events imported from a text file (NVTXT).
"""
_START_END: Final = (60, 71)
"""Of start/end ranges, which may begin on one thread and end on another."""
_MARKS: Final = (34, 65)
"""Of a mark (an instant event)."""
_DOMAIN: Final = 75
"""Of the event that names a domain."""
_NAMES: Final = (33, 39, 64, 72, 73, 74, _DOMAIN, 76, 97, 98, 99)
"""Of events that name or end something: categories, threads, processes, files, domains, GPUs, contexts and streams."""
_MOST_TYPES: Final = 6


class NvtxEvents:
    """The ranges among the NVTX events, and counts of the other events."""

    ranges: pl.DataFrame
    """Columns of ``ranges``, ``process`` and ``push_pop`` (false for start/end ranges)."""

    def __init__(self, tables: Tables, strings: StringIds) -> None:
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
        """Texts of issues about events that are neither ranges nor names."""
        marks = self._others.filter(pl.col("eventType").is_in(_MARKS))["len"]
        rest = self._others.filter(~pl.col("eventType").is_in(_MARKS).fill_null(False))
        texts = (
            [f"{_are_left_out(int(marks.sum()), 'NVTX mark')}: instant events, not shown in any view"]
            if len(marks)
            else []
        )
        if rest.height:
            types = ["none" if one is None else str(one) for one in rest["eventType"].head(_MOST_TYPES)]
            named = ", ".join(types) + (", ..." if rest.height > _MOST_TYPES else "")
            count = int(rest["len"].sum())
            texts.append(f"{_are_left_out(count, 'NVTX event')}: not known as ranges (event types: {named})")
        return texts


def _are_left_out(count: int, what: str) -> str:
    return f"1 {what} is left out" if count == 1 else f"{count:,} {what}s are left out"


def _ranges(rows: pl.DataFrame, strings: StringIds) -> pl.DataFrame:
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
            # A domain created before the recording has no name, only a number.
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
"""Kinds of overhead by ``overheadType`` (since 2025), as the export labels them."""


def overhead(tables: Tables, strings: StringIds) -> pl.DataFrame:
    """All overhead: ``process``, ``name``, ``start_ns``, ``duration_ns``, ``line`` (null).

    The profiler's own is in one table, that of CUDA in another, which only newer versions have.
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
