"""The tables of an Nsight Systems export, in SQLite or Parquet, and its string table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import polars as pl

from tui.model.schema import NAME

Types = Mapping[str, pl.DataType | type[pl.DataType]]

Seen = Callable[[pl.DataFrame], None]
"""Is given the columns of a table that are there, some rows at a time, while the others are read."""

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES: Final = "NVTX_EVENTS"
STRINGS: Final = "StringIds"
OVERHEAD: Final = "PROFILER_OVERHEAD"
CUPTI_OVERHEAD: Final = "CUPTI_ACTIVITY_KIND_OVERHEAD"
GPU_PAGE_FAULTS: Final = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
CPU_PAGE_FAULTS: Final = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"

SHOWN: Final = (
    *(KERNELS, COPIES, MEMSETS, GRAPHS, GPU_PAGE_FAULTS, CPU_PAGE_FAULTS, CALLS, RANGES),
    *(OVERHEAD, CUPTI_OVERHEAD),
)
"""The tables whose rows become rows of a profile."""


ALWAYS_THERE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(
            (KERNELS, COPIES, MEMSETS, GRAPHS),
            ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        ),
        CALLS: ("start", "end", "globalTid", "correlationId", "nameId"),
        RANGES: ("start", "end", "eventType", "globalTid", "text"),
        OVERHEAD: ("start", "end", "globalTid", "nameId"),
        STRINGS: ("id", "value"),
    }
)
"""Columns that the tables of every version have, from 2020 on."""


class Tables(Protocol):
    """Tables with columns and rows, of a database or of a folder."""

    @property
    def called(self) -> str:
        """What messages call the export."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with these columns."""

    def count(self, table: str) -> int:
        """Rows of a table; 0 where there is no such table."""

    def frame(self, table: str, schema: Types, seen: Seen | None = None) -> pl.DataFrame:
        """Columns of a table in the order of its rows; what is missing or of another type becomes null."""


class StringIds:
    """The table of texts: most tables have numbers of it."""

    def __init__(self, tables: Tables) -> None:
        """Read it."""
        read = tables.frame(STRINGS, {"id": pl.Int64, "value": pl.String})
        self._texts = read.filter(pl.col("id").is_not_null()).unique("id", keep="first")

    def of(self, numbers: pl.Series, change: Callable[[str], str | None] | None = None) -> pl.Series:
        """The text of each number, or what a function makes of it; null where there is none."""
        used = pl.DataFrame({"id": numbers.unique().drop_nulls()}).join(self._texts, on="id").sort("id")
        texts = used["value"]
        if change is not None:
            texts = pl.Series([None if text is None else change(text) for text in texts], dtype=pl.String)
        table = pl.DataFrame({"id": used["id"], "text": texts.cast(NAME)})
        return pl.DataFrame({"id": numbers}).join(table, on="id", how="left", maintain_order="left")["text"]


def mapped(names: pl.Series, change: Callable[[str], str | None]) -> pl.Series:
    """What a function makes of each name of a categorical column; it is asked once for each distinct name."""
    distinct = names.unique().drop_nulls()
    texts = [change(text) for text in distinct.cast(pl.String)]
    return names.replace_strict(distinct, pl.Series(texts, dtype=pl.String).cast(NAME), default=None, return_dtype=NAME)


def process_of(column: str) -> pl.Expr:
    """What tells processes apart: machine and process id, without the thread that a ``globalTid`` also has."""
    return (pl.col(column) & ~0xFFFFFF).alias("process")


def pid_of(process: int) -> int:
    """The process id in a number of `process_of`.

    >>> pid_of(281496904531968)
    1307
    """
    return (process >> 24) & 0xFFFFFF


def tid_of(column: str) -> pl.Expr:
    """The thread id in a ``globalTid``."""
    return (pl.col(column) & 0xFFFFFF).alias("tid")


def times() -> tuple[pl.Expr, pl.Expr]:
    """``start_ns`` and ``duration_ns`` of ``start`` and ``end``; no duration where it ends before it begins.

    CUPTI writes 0 for both where it could not take the times.
    """
    known = ~((pl.col("start") == 0) & (pl.col("end") == 0)).fill_null(False)
    length = pl.col("end") - pl.col("start")
    return (
        pl.when(known).then("start").alias("start_ns"),
        pl.when(known & (length >= 0)).then(length).alias("duration_ns"),
    )
