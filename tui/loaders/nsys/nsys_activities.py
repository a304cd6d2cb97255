"""GPU activities of an Nsight Systems export, and its CPU events: API calls, NVTX ranges, profiler overhead."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import sum_by_name
from tui.loaders.cupti import COPY_KINDS
from tui.loaders.nsys.export_tables import (
    CALLS,
    COPIES,
    CPU_PAGE_FAULTS,
    CUPTI_OVERHEAD,
    EVENT_RECORDS,
    GPU_PAGE_FAULTS,
    GRAPHS,
    KERNELS,
    MEMSETS,
    OVERHEAD,
    RANGES,
    SYNCS,
    StringIds,
    Tables,
    Types,
    process_expr,
    tid_expr,
    times,
)
from tui.model.names import short_name
from tui.model.schema import NAME
from tui.text import map_distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.base import PreviewBuilder

_COPY_KINDS: Final[Mapping[int, str]] = MappingProxyType({**COPY_KINDS, 11: "HtoD", 12: "DtoH", 13: "DtoD"})
"""Directions by ``copyKind``: CUPTI's numbers, and Nsight's own for copies by unified memory; 0 is unknown.

The tables with their names are missing in older exports.
"""

_MANAGED_COPIES: Final = (11, 12, 13)
"""Copies by unified memory."""

_MEMORY_KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "pageable",
        1: "pinned",
        2: "device",
        3: "array",
        4: "managed",
        5: "device static",
        6: "managed static",
    }
)
"""Nsight's numbers of ``srcKind``, ``dstKind`` and ``memKind``, which are not CUPTI's; 7 is unknown."""

_LOCATION: Final[Types] = {
    "start": pl.Int64,
    "end": pl.Int64,
    "deviceId": pl.Int32,
    "contextId": pl.Int32,
    "streamId": pl.Int64,
    "correlationId": pl.Int64,
    "globalPid": pl.Int64,
}
"""Columns that all GPU work has."""

_COMMON: Final = (
    *times(),
    process_expr("globalPid"),
    pl.col("deviceId").alias("device"),
    pl.col("contextId").alias("context"),
    pl.col("streamId").alias("stream"),
    pl.col("correlationId").alias("correlation"),
)

_AXES: Final = ("X", "Y", "Z")

CPU_PAGE_FAULT: Final = "[Unified Memory CPU page faults]"
"""An instant event: exports have no duration for it."""


def gpu_work(tables: Tables, strings: StringIds, preview: PreviewBuilder) -> pl.DataFrame:
    """Return all GPU work: columns of ``activities``, and ``process``; unsorted. ``preview`` gets the rows."""
    kernels = _kernels(tables, strings, preview)
    parts = [kernels] if kernels.height else []
    for read in (_copies, _memsets, _graphs, _gpu_page_faults, _cpu_page_faults):
        part = read(tables)
        if part.height:
            parts.append(part)
            if preview.is_wanted:
                preview.add(sum_by_name(part))
    if not parts:
        return _kernels_of(pl.DataFrame(schema={**_LOCATION, **_LAUNCH}), strings)
    return pl.concat(parts, how="diagonal") if len(parts) > 1 else parts[0]


_LAUNCH: Final[Types] = {
    **{f"{size}{axis}": pl.Int32 for size in ("grid", "block") for axis in _AXES},
    "registersPerThread": pl.Int32,
    "staticSharedMemory": pl.Int32,
    "dynamicSharedMemory": pl.Int32,
    "graphNodeId": pl.Int64,
    "demangledName": pl.Int64,
}


def _kernels(tables: Tables, strings: StringIds, preview: PreviewBuilder) -> pl.DataFrame:
    name = next(
        (column for column in ("demangledName", "mangledName", "shortName") if tables.has(KERNELS, column)), None
    )
    launch = {column: dtype for column, dtype in _LAUNCH.items() if column != "demangledName"}
    columns = {**_LOCATION, **launch, **({name: pl.Int64} if name else {})}

    def seen(part: pl.DataFrame) -> None:
        sums = sum_by_name(part.select(pl.col(name or "").alias("name"), *times()))
        preview.add(sums.with_columns(strings.of(sums["name"]).alias("name")))

    is_shown = preview.is_wanted and name is not None and tables.has(KERNELS, "start", "end")
    rows = tables.frame(KERNELS, columns, seen if is_shown else None)
    if name is None:
        rows = rows.with_columns(pl.lit(None, pl.Int64).alias("demangledName"))
    elif name != "demangledName":
        rows = rows.rename({name: "demangledName"})
    return _kernels_of(rows, strings)


def _kernels_of(rows: pl.DataFrame, strings: StringIds) -> pl.DataFrame:
    names = strings.of(rows["demangledName"])
    return rows.select(
        pl.lit("kernel").cast(NAME).alias("kind"),
        names.alias("name"),
        map_distinct(names, short_name, NAME).alias("short_name"),
        *_COMMON,
        *(pl.col(f"{size}{axis}").alias(f"{size}_{axis.lower()}") for size in ("grid", "block") for axis in _AXES),
        pl.col("registersPerThread").alias("registers"),
        pl.col("staticSharedMemory").cast(pl.Int64).alias("static_shared_bytes"),
        pl.col("dynamicSharedMemory").cast(pl.Int64).alias("dynamic_shared_bytes"),
        pl.col("graphNodeId").alias("graph_node"),
    )


def _copies(tables: Tables) -> pl.DataFrame:
    rows = tables.frame(
        COPIES,
        {
            **_LOCATION,
            "bytes": pl.Int64,
            "copyKind": pl.Int64,
            "srcKind": pl.Int64,
            "dstKind": pl.Int64,
            "graphNodeId": pl.Int64,
        },
    )
    managed = pl.col("copyKind").is_in(_MANAGED_COPIES).fill_null(False)
    prefix = pl.when(managed).then(pl.lit("[Unified Memory Memcpy")).otherwise(pl.lit("[CUDA memcpy"))
    direction = _enum_name("copyKind", _COPY_KINDS)
    name = pl.when(direction.is_null()).then(prefix + "]").otherwise(prefix + " " + direction.cast(pl.String) + "]")
    return rows.select(
        pl.when(managed).then(pl.lit("um")).otherwise(pl.lit("memcpy")).cast(NAME).alias("kind"),
        name.cast(NAME).alias("name"),
        name.cast(NAME).alias("short_name"),
        *_COMMON,
        pl.col("bytes").alias("size_bytes"),
        direction.alias("copy_kind"),
        _enum_name("srcKind", _MEMORY_KINDS).alias("src_memory"),
        _enum_name("dstKind", _MEMORY_KINDS).alias("dst_memory"),
        pl.col("graphNodeId").alias("graph_node"),
    )


def _memsets(tables: Tables) -> pl.DataFrame:
    rows = tables.frame(MEMSETS, {**_LOCATION, "bytes": pl.Int64, "memKind": pl.Int64, "graphNodeId": pl.Int64})
    return rows.select(
        *_kind_and_name_literals("memset", "[CUDA memset]"),
        *_COMMON,
        pl.col("bytes").alias("size_bytes"),
        _enum_name("memKind", _MEMORY_KINDS).alias("src_memory"),
        pl.col("graphNodeId").alias("graph_node"),
    )


def _graphs(tables: Tables) -> pl.DataFrame:
    """Return the CUDA graphs that were traced as a whole: their kernels are not in the export."""
    rows = tables.frame(GRAPHS, {**_LOCATION, "graphId": pl.Int64, "graphExecId": pl.Int64})
    number = pl.coalesce("graphId", "graphExecId").cast(pl.String)
    name = pl.when(number.is_null()).then(pl.lit("[CUDA graph]")).otherwise("[CUDA graph " + number + "]").cast(NAME)
    return rows.select(pl.lit("graph").cast(NAME).alias("kind"), name.alias("name"), name.alias("short_name"), *_COMMON)


def _gpu_page_faults(tables: Tables) -> pl.DataFrame:
    return tables.frame(GPU_PAGE_FAULTS, _LOCATION).select(
        *_kind_and_name_literals("um", "[Unified Memory GPU page faults]"), *_COMMON
    )


def _cpu_page_faults(tables: Tables) -> pl.DataFrame:
    return tables.frame(CPU_PAGE_FAULTS, _LOCATION).select(*_kind_and_name_literals("um", CPU_PAGE_FAULT), *_COMMON)


def _kind_and_name_literals(kind: str, name: str) -> tuple[pl.Expr, ...]:
    return tuple(
        pl.lit(text).cast(NAME).alias(column) for column, text in (("kind", kind), ("name", name), ("short_name", name))
    )


def _enum_name(column: str, names: Mapping[int, str]) -> pl.Expr:
    return pl.col(column).replace_strict(
        pl.Series(list(names), dtype=pl.Int64),
        pl.Series(list(names.values()), dtype=pl.String).cast(NAME),
        default=None,
        return_dtype=NAME,
    )


_VERSION: Final = re.compile(r"_v[0-9]+$")
"""The suffix that CUPTI adds to the name of a call: the version of CUDA or of the call."""

NOT_READY: Final = 600
"""The result of cudaEventQuery and cudaStreamQuery for unfinished work: no error."""


def api_calls(tables: Tables, strings: StringIds) -> pl.DataFrame:
    """Return all API calls: columns of ``api_calls``, ``process`` and ``result`` (the code returned)."""
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
        process_expr("globalTid"),
        strings.of(rows["nameId"], strip_version).alias("name"),
        *times(),
        tid_expr(),
        pl.col("correlationId").alias("correlation"),
        pl.col("returnValue").alias("result"),
    )


_NO_ID: Final = (1 << 32) - 1
"""The value for no stream or no event."""
_STREAM_WAIT: Final = r"^(?:cuda|cu)StreamWaitEvent"


def waits(tables: Tables, calls: pl.DataFrame) -> pl.DataFrame:
    """Return what calls waited for: ``process`` and columns of `tui.correlation.launches.add_wait_columns`.

    The numbers in ``syncType`` differ between versions, so the kind of wait follows from stream, event and call.

    Args:
        tables: The export.
        calls: Of `api_calls`.
    """
    columns: Types = {"deviceId": pl.Int32, "streamId": pl.Int64, "correlationId": pl.Int64, "globalPid": pl.Int64}
    event: Types = {"eventId": pl.Int64, "eventSyncId": pl.Int64}
    rows = tables.frame(SYNCS, {**columns, **event}).with_columns(process_expr("globalPid"))
    records = tables.frame(EVENT_RECORDS, {**columns, **event}).select(
        process_expr("globalPid"), *event, awaited_call="correlationId", awaited="streamId"
    )
    call, recorded_call = ["process", "correlation"], ["process", "correlationId"]
    waiting = calls.select(*call, "name").join(rows, left_on=call, right_on=recorded_call, how="semi")
    rows = rows.join(
        waiting.unique(call, keep="first", maintain_order=True), left_on=recorded_call, right_on=call, how="left"
    )
    has_turns = tables.has(EVENT_RECORDS, "eventSyncId")
    if has_turns:
        key = ["process", "eventId", "eventSyncId"]
        rows = rows.join(records.unique(key, keep="last"), on=key, how="left")
    else:
        # An event is recorded again and again: the last record before the wait counts.
        rows = rows.sort("correlationId").join_asof(
            records.drop("eventSyncId").drop_nulls().sort("awaited_call"),
            left_on="correlationId",
            right_on="awaited_call",
            by=["process", "eventId"],
            coalesce=False,
            check_sortedness=False,
        )
    stream = pl.when(pl.col("streamId") != _NO_ID).then("streamId")
    is_stream_wait = pl.col("name").cast(pl.String).str.contains(_STREAM_WAIT).fill_null(False)
    is_event = is_stream_wait | (pl.col("eventId") != _NO_ID).fill_null(False)
    return rows.filter(~is_event | pl.col("awaited_call").is_not_null()).select(
        "process",
        pl.col("correlationId").alias("correlation"),
        pl.col("deviceId").alias("wait_device"),
        pl.when(is_stream_wait).then(stream).alias("waiting_stream"),
        pl.when(is_event).then("awaited").otherwise(stream).alias("awaited_stream"),
        pl.when(is_event).then("awaited_call").alias("awaited_call"),
    )


def strip_version(name: str) -> str:
    """Return the name of a call without suffix.

    >>> strip_version("cudaLaunchKernel_v7000"), strip_version("cuMemcpyHtoD_v2"), strip_version("cuLaunchKernel")
    ('cudaLaunchKernel', 'cuMemcpyHtoD', 'cuLaunchKernel')
    """
    return _VERSION.sub("", name)


def failures(calls: pl.DataFrame) -> list[tuple[str, int, int]]:
    """Return name, code and count of calls that returned an error, the most frequent first."""
    failed = (
        calls.filter(pl.col("result").is_not_null(), ~pl.col("result").is_in([0, NOT_READY]))
        .group_by(pl.col("name").cast(pl.String).fill_null("unnamed call"), "result")
        .len()
        .sort("len", "name", "result", descending=[True, False, False])
    )
    return [(name, code, count) for name, code, count in failed.iter_rows()]


_PUSH_POP: Final = (59, 70)
"""The ``eventType`` of push/pop ranges, which are nested per thread.

The second number, here and below, is for events imported from a text file (NVTXT).
"""
_START_END: Final = (60, 71)
"""The event type of start/end ranges, which may begin on one thread and end on another."""
_MARKS: Final = (34, 65)
"""The event type of marks (instant events)."""
_DOMAIN: Final = 75
"""The event type that names a domain."""
_NAMES: Final = (33, 39, 64, 72, 73, 74, _DOMAIN, 76, 97, 98, 99)
"""Event types that name things: categories, threads, processes, files, domains, GPUs, contexts and streams."""
_MAX_TYPES: Final = 6


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
        self._other_events = (
            rows.filter(~pl.col("eventType").is_in([*_PUSH_POP, *_START_END, *_NAMES]).fill_null(False))
            .group_by("eventType")
            .len()
            .sort("eventType", nulls_last=True)
        )
        self.ranges = _ranges(rows, strings)

    def skipped_texts(self) -> list[str]:
        """Return texts of issues about events that are neither ranges nor names."""
        marks = self._other_events.filter(pl.col("eventType").is_in(_MARKS))["len"]
        unread = self._other_events.filter(~pl.col("eventType").is_in(_MARKS).fill_null(False))
        texts = (
            [f"{_skipped_text(int(marks.sum()), 'NVTX mark')}: instant events, not shown in any view"]
            if len(marks)
            else []
        )
        if unread.height:
            types = ["none" if number is None else str(number) for number in unread["eventType"].head(_MAX_TYPES)]
            type_names = ", ".join(types) + (", ..." if unread.height > _MAX_TYPES else "")
            count = int(unread["len"].sum())
            texts.append(f"{_skipped_text(count, 'NVTX event')}: not recognized as ranges (event types: {type_names})")
        return texts


def _skipped_text(count: int, kind: str) -> str:
    return f"1 {kind} skipped" if count == 1 else f"{count:,} {kind}s skipped"


def _ranges(rows: pl.DataFrame, strings: StringIds) -> pl.DataFrame:
    rows = rows.with_columns(
        process_expr("globalTid"),
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
            tid_expr(),
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
    """Return all overhead: ``process``, ``name``, ``start_ns``, ``duration_ns``, ``line`` (null).

    The profiler's own is in one table, that of CUDA in another, which only newer versions have.
    """
    frames = []
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
        frames.append(
            rows.select(
                process_expr("globalTid"),
                pl.coalesce(strings.of(rows["nameId"]).cast(pl.String), kind).cast(NAME).alias("name"),
                *times(),
                pl.lit(None, pl.UInt32).alias("line"),
            )
        )
    return pl.concat(frames)
