"""GPU activities of an nvprof database, with its strings and times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.plausible_times import drop_outlier_times
from tui.loaders.cupti import COPY_KINDS, MEMORY_KINDS, UNIFIED_MEMORY
from tui.loaders.demangle import demangled
from tui.model.names import short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.sqlite.database import Database


def absolute(start: str = "start", end: str = "end") -> tuple[pl.Expr, pl.Expr]:
    """Columns ``start_ns``, still as Unix time, and ``duration_ns``; null where they are not known."""
    started = pl.when(pl.col(start) > 0).then(start)
    lasted = pl.when(pl.col(end) > 0).then(pl.col(end) - started)
    return started.alias("start_ns"), lasted.alias("duration_ns")


def relative(frames: tuple[pl.DataFrame, ...]) -> tuple[tuple[pl.DataFrame, ...], int | None, int]:
    """Count the times of frames from the earliest of them; implausible ones are dropped.

    Returns:
        The frames, the Unix time that they now count from (None without any), and how many rows had a time dropped.
    """
    kept, dropped = drop_outlier_times(*frames)
    origin = pl.concat([frame["start_ns"] for frame in kept]).min()
    if not isinstance(origin, int):
        return kept, None, dropped
    return tuple(frame.with_columns(pl.col("start_ns") - origin) for frame in kept), origin, dropped


_TABLE: Final = "CUPTI_ACTIVITY_KIND_"

TIMELINE: Final = "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
"""Kernels as they ran."""
SERIAL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
"""Kernels one after another, as metrics are measured."""
CHILDREN: Final = "CUPTI_ACTIVITY_KIND_CDP_KERNEL"
"""Kernels that kernels launched."""

_WORK: Final = {
    "start": pl.Int64,
    "end": pl.Int64,
    "deviceId": pl.Int64,
    "contextId": pl.Int64,
    "streamId": pl.Int64,
    "correlationId": pl.Int64,
    "graphNodeId": pl.Int64,
}
_KERNEL: Final = {
    **_WORK,
    "name": pl.Int64,
    "registersPerThread": pl.Int64,
    "staticSharedMemory": pl.Int64,
    "dynamicSharedMemory": pl.Int64,
    **{f"{what}{axis}": pl.Int64 for what in ("grid", "block") for axis in "XYZ"},
}
_COPY: Final = {**_WORK, "copyKind": pl.Int64, "srcKind": pl.Int64, "dstKind": pl.Int64, "bytes": pl.Int64}
_MEMSET: Final = {**_WORK, "bytes": pl.Int64, "memoryKind": pl.Int64}
_GRAPH: Final = {**_WORK, "graphId": pl.Int64}
_COUNTER: Final = {
    "counterKind": pl.Int64,
    "value": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "srcId": pl.Int64,
    "dstId": pl.Int64,
    "streamId": pl.Int64,
    "processId": pl.Int64,
}
_BYTES_MOVED: Final = (1, 2, 8)
"""Kinds of unified memory counters whose value is bytes; that of the others is how often."""
_AT_SOURCE: Final = (2, 4)
"""Kinds whose GPU is the source: copies to the host, and its page faults."""


def read_kernels(database: Database, strings: StringTable, table: str) -> pl.DataFrame:
    """The kernels of one table, columns of the model, times still absolute."""
    rows = database.frame(table, _KERNEL)
    names = strings.kernel_names(rows["name"])
    distinct = names.unique().drop_nulls()
    short = pl.Series([short_name(name) for name in distinct.cast(pl.String)], dtype=pl.String).cast(NAME)
    return rows.with_columns(full=names).select(
        pl.lit("kernel").cast(NAME).alias("kind"),
        pl.col("full").alias("name"),
        pl.col("full").replace_strict(distinct, short, default=None, return_dtype=NAME).alias("short_name")
        if len(distinct)
        else pl.lit(None, NAME).alias("short_name"),
        *_common(),
        *(pl.col(f"{what}{axis.upper()}").alias(f"{what}_{axis}") for what in ("grid", "block") for axis in "xyz"),
        registers=pl.col("registersPerThread"),
        static_shared_bytes=pl.col("staticSharedMemory"),
        dynamic_shared_bytes=pl.col("dynamicSharedMemory"),
    )


def read_copies(database: Database) -> pl.DataFrame:
    """Copies, those between GPUs among them."""
    rows = pl.concat([database.frame(f"{_TABLE}{name}", _COPY) for name in ("MEMCPY", "MEMCPY2")])
    kind = _memory_kinds("copyKind", COPY_KINDS)
    return rows.select(
        pl.lit("memcpy").cast(NAME).alias("kind"),
        *_named(pl.format("[CUDA memcpy {}]", kind.fill_null("unknown"))),
        *_common(),
        size_bytes=pl.col("bytes"),
        copy_kind=kind.cast(NAME),
        src_memory=_memory_kinds("srcKind", MEMORY_KINDS).cast(NAME),
        dst_memory=_memory_kinds("dstKind", MEMORY_KINDS).cast(NAME),
    )


def read_memsets(database: Database) -> pl.DataFrame:
    """Memsets."""
    return database.frame(f"{_TABLE}MEMSET", _MEMSET).select(
        pl.lit("memset").cast(NAME).alias("kind"),
        *_named(pl.lit("[CUDA memset]")),
        *_common(),
        size_bytes=pl.col("bytes"),
        dst_memory=_memory_kinds("memoryKind", MEMORY_KINDS).cast(NAME),
    )


def read_graphs(database: Database) -> pl.DataFrame:
    """CUDA graphs that were recorded as a whole."""
    return database.frame(f"{_TABLE}GRAPH_TRACE", _GRAPH).select(
        pl.lit("graph").cast(NAME).alias("kind"),
        *_named(pl.format("CUDA graph {}", pl.col("graphId"))),
        *_common(),
    )


def read_unified_memory(database: Database) -> pl.DataFrame:
    """Counters of unified memory, which know a process and no call."""
    rows = database.frame(f"{_TABLE}UNIFIED_MEMORY_COUNTER", _COUNTER)
    kind = pl.col("counterKind")
    name = pl.coalesce(_memory_kinds("counterKind", UNIFIED_MEMORY), pl.format("[Unified Memory counter {}]", kind))
    is_bytes = kind.is_in(_BYTES_MOVED)
    return rows.select(
        pl.lit("um").cast(NAME).alias("kind"),
        *_named(name),
        *absolute(),
        _fitting("device", pl.when(kind.is_in(_AT_SOURCE)).then("srcId").otherwise("dstId"), pl.Int32),
        _id(pl.col("streamId")).alias("stream"),
        size_bytes=pl.when(is_bytes).then("value"),
        copy_kind=name.str.extract(r"Memcpy (\w+)").cast(NAME),
        arguments=pl.when(~is_bytes).then(pl.format("count: {}", "value")).cast(NAME),
        owner=pl.col("processId"),
    )


def _common() -> tuple[pl.Expr, ...]:
    return (
        *absolute(),
        _fitting("device", pl.col("deviceId"), pl.Int32),
        _fitting("context", pl.col("contextId"), pl.Int32),
        _id(pl.col("streamId")).alias("stream"),
        pl.col("correlationId").alias("correlation"),
        # Work that is of no graph has node 0.
        pl.when(pl.col("graphNodeId") != 0).then("graphNodeId").alias("graph_node"),
    )


def _fitting(name: str, value: pl.Expr, dtype: type[pl.DataType]) -> pl.Expr:
    return _id(value).cast(dtype, strict=False).alias(name)


def _id(value: pl.Expr) -> pl.Expr:
    """A number that CUPTI stores without a sign; all bits set means that there is none."""
    return pl.when(value >= 0, value < 0xFFFFFFFF).then(value)


def _named(name: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    return name.cast(NAME).alias("name"), name.cast(NAME).alias("short_name")


def _memory_kinds(column: str, words: Mapping[int, str]) -> pl.Expr:
    return pl.col(column).replace_strict(dict(words), default=None, return_dtype=pl.String)


_NO_STRING: Final = "-- null --"


class StringTable:
    """Table ``StringTable``."""

    def __init__(self, database: Database) -> None:
        self._table = (
            database.frame("StringTable", {"_id_": pl.Int64, "value": pl.String})
            .rename({"_id_": "number", "value": "text"})
            .filter(pl.col("text") != _NO_STRING)
            .unique("number", keep="first")
        )

    def texts(self, numbers: pl.Series) -> pl.Series:
        """The strings as names; null where there is none of a number."""
        return self._named(numbers, self._of(numbers))

    def kernel_names(self, numbers: pl.Series) -> pl.Series:
        """The strings as names, those of C++ spelt out."""
        found = self._of(numbers)
        spelt = demangled(found["text"])
        return self._named(numbers, found.with_columns(pl.col("text").replace(spelt) if spelt else pl.col("text")))

    def text(self, number: int | None) -> str | None:
        """One string."""
        return next(iter(self._of(pl.Series([number], dtype=pl.Int64))["text"]), None)

    def _of(self, numbers: pl.Series) -> pl.DataFrame:
        return self._table.filter(pl.col("number").is_in(numbers.unique().drop_nulls().implode()))

    def _named(self, numbers: pl.Series, found: pl.DataFrame) -> pl.Series:
        names = found.with_columns(pl.col("text").cast(NAME))
        return numbers.to_frame("number").join(names, on="number", how="left", maintain_order="left")["text"]
