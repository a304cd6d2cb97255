"""The tables of an Nsight Systems export, in SQLite or Parquet, and its string table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import polars as pl

from tui.model.schema import NAME

Types = Mapping[str, pl.DataType | type[pl.DataType]]

OnRows = Callable[[pl.DataFrame], None]
"""Called with parts of a table while the rest is read."""

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
EVENT_RECORDS: Final = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
SYNCS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
RANGES: Final = "NVTX_EVENTS"
STRINGS: Final = "StringIds"
OVERHEAD: Final = "PROFILER_OVERHEAD"
CUPTI_OVERHEAD: Final = "CUPTI_ACTIVITY_KIND_OVERHEAD"
GPU_PAGE_FAULTS: Final = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
CPU_PAGE_FAULTS: Final = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"

SHOWN: Final = (
    *(KERNELS, COPIES, MEMSETS, GRAPHS, GPU_PAGE_FAULTS, CPU_PAGE_FAULTS, CALLS, RANGES),
    *(OVERHEAD, CUPTI_OVERHEAD, EVENT_RECORDS, SYNCS),
)
"""The tables whose rows become rows of a profile."""


REQUIRED_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
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
    def display_name(self) -> str:
        """The name of the export, for messages."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""

    def has(self, table: str, *columns: str) -> bool:
        """Return whether a table exists with these columns."""

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 if it does not exist."""

    def frame(self, table: str, schema: Types, seen: OnRows | None = None) -> pl.DataFrame:
        """Return columns of a table in row order; missing columns and values of another type become null."""


class StringIds:
    """The table of strings, to whose ids most tables refer."""

    def __init__(self, tables: Tables) -> None:
        """Read it."""
        read = tables.frame(STRINGS, {"id": pl.Int64, "value": pl.String})
        self._texts = read.filter(pl.col("id").is_not_null()).unique("id", keep="first")

    def of(self, numbers: pl.Series, change: Callable[[str], str | None] | None = None) -> pl.Series:
        """Return the text of each id, or a function of it; null if there is none."""
        used = pl.DataFrame({"id": numbers.unique().drop_nulls()}).join(self._texts, on="id").sort("id")
        texts = used["value"]
        if change is not None:
            texts = pl.Series([None if text is None else change(text) for text in texts], dtype=pl.String)
        table = pl.DataFrame({"id": used["id"], "text": texts.cast(NAME)})
        return pl.DataFrame({"id": numbers}).join(table, on="id", how="left", maintain_order="left")["text"]


def process_expr(column: str) -> pl.Expr:
    """Return the machine and process id of a ``globalTid``, without the thread: identifies a process."""
    return (pl.col(column) & ~0xFFFFFF).alias("process")


def pid_of_process(process: int) -> int:
    """Return the process id in a value of `process_expr`.

    >>> pid_of_process(281496904531968)
    1307
    """
    return (process >> 24) & 0xFFFFFF


def tid_expr() -> pl.Expr:
    """Return the thread id in a ``globalTid``."""
    return (pl.col("globalTid") & 0xFFFFFF).alias("tid")


def times() -> tuple[pl.Expr, pl.Expr]:
    """Return ``start_ns`` and ``duration_ns``; the duration is null if the end is before the start.

    CUPTI writes 0 for both if it could not measure the times.
    """
    known = ~((pl.col("start") == 0) & (pl.col("end") == 0)).fill_null(False)
    length = pl.col("end") - pl.col("start")
    return (
        pl.when(known).then("start").alias("start_ns"),
        pl.when(known & (length >= 0)).then(length).alias("duration_ns"),
    )
