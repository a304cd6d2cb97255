"""The tables of an nvprof database: GPU activities, CUDA calls, devices, NVTX markers, metrics, overhead."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.plausible_times import drop_outlier_times
from tui.loaders.cupti import COPY_KINDS, MEMORY_KINDS, UNIFIED_MEMORY, call_names
from tui.loaders.demangle import demangled
from tui.model.names import short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.sqlite.database import Database


def absolute_times(start: str = "start") -> tuple[pl.Expr, pl.Expr]:
    """Return columns ``start_ns``, as Unix time, and ``duration_ns``; null if unknown."""
    started = pl.when(pl.col(start) > 0).then(start)
    duration = pl.when(pl.col("end") > 0).then(pl.col("end") - started)
    return started.alias("start_ns"), duration.alias("duration_ns")


def relative_times(frames: tuple[pl.DataFrame, ...]) -> tuple[tuple[pl.DataFrame, ...], int | None, int]:
    """Count the times of frames from the earliest of them; implausible ones are dropped.

    Returns:
        The frames, the Unix time that they now count from (None without any), and how many rows had a time dropped.
    """
    plausible, dropped = drop_outlier_times(*frames)
    origin = pl.concat([frame["start_ns"] for frame in plausible]).min()
    if not isinstance(origin, int):
        return plausible, None, dropped
    return tuple(frame.with_columns(pl.col("start_ns") - origin) for frame in plausible), origin, dropped


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
    **{f"{size}{axis}": pl.Int64 for size in ("grid", "block") for axis in "XYZ"},
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
_SOURCE_GPU_KINDS: Final = (2, 4)
"""Kinds whose GPU is the source: copies to the host, and its page faults."""


def read_kernels(database: Database, strings: StringTable, table: str) -> pl.DataFrame:
    """Return the kernels of one table, columns of the model, times still absolute."""
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
        *(pl.col(f"{size}{axis.upper()}").alias(f"{size}_{axis}") for size in ("grid", "block") for axis in "xyz"),
        registers=pl.col("registersPerThread"),
        static_shared_bytes=pl.col("staticSharedMemory"),
        dynamic_shared_bytes=pl.col("dynamicSharedMemory"),
    )


def read_copies(database: Database) -> pl.DataFrame:
    """Return the copies, including those between GPUs."""
    rows = pl.concat([database.frame(f"{_TABLE}{name}", _COPY) for name in ("MEMCPY", "MEMCPY2")])
    kind = _memory_kinds("copyKind", COPY_KINDS)
    return rows.select(
        pl.lit("memcpy").cast(NAME).alias("kind"),
        *_name_columns(pl.format("[CUDA memcpy {}]", kind.fill_null("unknown"))),
        *_common(),
        size_bytes=pl.col("bytes"),
        copy_kind=kind.cast(NAME),
        src_memory=_memory_kinds("srcKind", MEMORY_KINDS).cast(NAME),
        dst_memory=_memory_kinds("dstKind", MEMORY_KINDS).cast(NAME),
    )


def read_memsets(database: Database) -> pl.DataFrame:
    """Return the memsets."""
    return database.frame(f"{_TABLE}MEMSET", _MEMSET).select(
        pl.lit("memset").cast(NAME).alias("kind"),
        *_name_columns(pl.lit("[CUDA memset]")),
        *_common(),
        size_bytes=pl.col("bytes"),
        dst_memory=_memory_kinds("memoryKind", MEMORY_KINDS).cast(NAME),
    )


def read_graphs(database: Database) -> pl.DataFrame:
    """Return the CUDA graphs that were recorded as a whole."""
    return database.frame(f"{_TABLE}GRAPH_TRACE", _GRAPH).select(
        pl.lit("graph").cast(NAME).alias("kind"),
        *_name_columns(pl.format("CUDA graph {}", pl.col("graphId"))),
        *_common(),
    )


def read_unified_memory(database: Database) -> pl.DataFrame:
    """Return counters of unified memory, which have a process but no call."""
    rows = database.frame(f"{_TABLE}UNIFIED_MEMORY_COUNTER", _COUNTER)
    kind = pl.col("counterKind")
    name = pl.coalesce(_memory_kinds("counterKind", UNIFIED_MEMORY), pl.format("[Unified Memory counter {}]", kind))
    is_bytes = kind.is_in(_BYTES_MOVED)
    return rows.select(
        pl.lit("um").cast(NAME).alias("kind"),
        *_name_columns(name),
        *absolute_times(),
        _value_in_range("device", pl.when(kind.is_in(_SOURCE_GPU_KINDS)).then("srcId").otherwise("dstId"), pl.Int32),
        _id(pl.col("streamId")).alias("stream"),
        size_bytes=pl.when(is_bytes).then("value"),
        copy_kind=name.str.extract(r"Memcpy (\w+)").cast(NAME),
        arguments=pl.when(~is_bytes).then(pl.format("count: {}", "value")).cast(NAME),
        owner=pl.col("processId"),
    )


def _common() -> tuple[pl.Expr, ...]:
    return (
        *absolute_times(),
        _value_in_range("device", pl.col("deviceId"), pl.Int32),
        _value_in_range("context", pl.col("contextId"), pl.Int32),
        _id(pl.col("streamId")).alias("stream"),
        pl.col("correlationId").alias("correlation"),
        # Work outside of graphs has node 0.
        pl.when(pl.col("graphNodeId") != 0).then("graphNodeId").alias("graph_node"),
    )


def _value_in_range(name: str, value: pl.Expr, dtype: type[pl.DataType]) -> pl.Expr:
    return _id(value).cast(dtype, strict=False).alias(name)


def _id(value: pl.Expr) -> pl.Expr:
    """Return an unsigned number of CUPTI; all bits set means none."""
    return pl.when(value >= 0, value < 0xFFFFFFFF).then(value)


def _name_columns(name: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
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
        """Return the strings as names; null if there is none."""
        return self._as_names(numbers, self._lookup(numbers))

    def kernel_names(self, numbers: pl.Series) -> pl.Series:
        """Return the strings as names, C++ names demangled."""
        strings = self._lookup(numbers)
        demangled_names = demangled(strings["text"])
        return self._as_names(
            numbers,
            strings.with_columns(pl.col("text").replace(demangled_names) if demangled_names else pl.col("text")),
        )

    def text(self, number: int | None) -> str | None:
        """Return one string."""
        return next(iter(self._lookup(pl.Series([number], dtype=pl.Int64))["text"]), None)

    def _lookup(self, numbers: pl.Series) -> pl.DataFrame:
        return self._table.filter(pl.col("number").is_in(numbers.unique().drop_nulls().implode()))

    def _as_names(self, numbers: pl.Series, found: pl.DataFrame) -> pl.Series:
        names = found.with_columns(pl.col("text").cast(NAME))
        return numbers.to_frame("number").join(names, on="number", how="left", maintain_order="left")["text"]


_CALL_COLUMNS: Final = {
    "cbid": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "processId": pl.Int64,
    "threadId": pl.Int64,
    "correlationId": pl.Int64,
    "returnValue": pl.Int64,
}
_TABLES: Final = {"runtime": "CUPTI_ACTIVITY_KIND_RUNTIME", "driver": "CUPTI_ACTIVITY_KIND_DRIVER"}


def read_calls(database: Database) -> pl.DataFrame:
    """Return API calls with columns of the model, times still absolute; an unknown call is named by its number."""
    frames = []
    for api, table in _TABLES.items():
        rows = database.frame(table, _CALL_COLUMNS)
        known = call_names(api)
        numbers = rows["cbid"].unique().drop_nulls()
        names = pl.DataFrame(
            {"cbid": numbers, "name": [known.get(number, f"{api} call {number}") for number in numbers]},
            schema={"cbid": pl.Int64, "name": pl.String},
        ).with_columns(pl.col("name").cast(NAME))
        frames.append(
            rows.join(names, on="cbid", how="left", maintain_order="left").select(
                "name",
                *absolute_times(),
                pid=pl.col("processId"),
                # The number is stored with a sign.
                tid=pl.col("threadId") & 0xFFFFFFFF,
                correlation=pl.col("correlationId"),
                result=pl.col("returnValue"),
            )
        )
    return pl.concat(frames)


_DEVICE: Final = dict.fromkeys(
    (
        "id",
        "name",
        "computeCapabilityMajor",
        "computeCapabilityMinor",
        "numMultiprocessors",
        "globalMemorySize",
        "globalMemoryBandwidth",
        "maxWarpsPerMultiprocessor",
        "numThreadsPerWarp",
        "maxRegistersPerMultiprocessor",
        "maxSharedMemoryPerMultiprocessor",
    ),
    pl.Int64,
)
_NAME: Final = {"objectKind": pl.Int64, "objectId": pl.Binary, "name": pl.Int64}
_PROCESS: Final = 1
MIN_BANDWIDTH: Final = 1_000_000
"""The minimum plausible bandwidth of GPU memory, in kB/s."""


def read_devices(database: Database, strings: StringTable) -> pl.DataFrame:
    """Return the GPUs: columns of the model."""
    rows = database.frame("CUPTI_ACTIVITY_KIND_DEVICE", _DEVICE).unique("id", keep="first", maintain_order=True)
    threads = pl.col("maxWarpsPerMultiprocessor") * pl.col("numThreadsPerWarp")
    return rows.with_columns(strings.texts(rows["name"]).cast(pl.String).alias("text")).select(
        pl.col("id").cast(pl.Int32, strict=False).alias("device"),
        pl.col("text").alias("name"),
        pl.format("{}.{}", "computeCapabilityMajor", "computeCapabilityMinor").alias("compute_capability"),
        pl.col("numMultiprocessors").cast(pl.Int32, strict=False).alias("sm_count"),
        pl.col("globalMemorySize").alias("memory_bytes"),
        # In kB/s; boards that share the CPU's memory (Jetson) have a figure that is no bandwidth.
        pl.when(pl.col("globalMemoryBandwidth") >= MIN_BANDWIDTH)
        .then(pl.col("globalMemoryBandwidth") * 1000.0)
        .alias("memory_bandwidth"),
        threads.cast(pl.Int32, strict=False).alias("max_threads_per_sm"),
        pl.col("maxRegistersPerMultiprocessor").cast(pl.Int32, strict=False).alias("registers_per_sm"),
        pl.col("maxSharedMemoryPerMultiprocessor").alias("shared_memory_per_sm_bytes"),
    )


def read_commands(database: Database, strings: StringTable) -> dict[int, str]:
    """Return the command of each process."""
    rows = database.frame("CUPTI_ACTIVITY_KIND_NAME", _NAME).filter(pl.col("objectKind") == _PROCESS).head(1000)
    commands: dict[int, str] = {}
    for blob, name in rows.select("objectId", "name").iter_rows():
        command = strings.text(name)
        if blob is not None and len(blob) >= 4 and command:
            commands.setdefault(int.from_bytes(blob[:4], "little"), command)
    return commands


_MARKER_COLUMNS: Final = {
    "flags": pl.Int64,
    "timestamp": pl.Int64,
    "id": pl.Int64,
    "objectKind": pl.Int64,
    "objectId": pl.Binary,
    "name": pl.Int64,
    "domain": pl.Int64,
}
_INSTANT: Final = 1
_START: Final = 2
_END: Final = 4
_THREAD: Final = 2
"""Kind of the object that a marker belongs to; others are processes and devices."""


def read_ranges(database: Database, strings: StringTable) -> tuple[pl.DataFrame, int]:
    """Return ranges with columns of the model, times still absolute, and the number of ends without a start.

    Starts and ends are paired by id; the name is that of the start. A mark and a
    range that was not closed have no duration.
    """
    rows = database.frame("CUPTI_ACTIVITY_KIND_MARKER", _MARKER_COLUMNS)
    words = pl.col("objectId").bin.slice(0, 8)
    text_id = pl.when(words.bin.size() == 8).then(words.bin.reinterpret(dtype=pl.UInt64, endianness="little"))
    rows = rows.with_columns(
        pid=(text_id & 0xFFFFFFFF).cast(pl.Int64),
        tid=pl.when(pl.col("objectKind") == _THREAD).then(text_id // (1 << 32)).cast(pl.Int64),
    )
    starts = rows.filter((pl.col("flags") & (_START | _INSTANT)) != 0)
    ends = rows.filter((pl.col("flags") & _END) != 0, (pl.col("flags") & _START) == 0)
    # A reused id pairs starts and ends in order.
    occurrence = pl.int_range(pl.len()).over("id", "pid").alias("again")
    keys = ["id", "pid", "again", "is_range"]
    starts = starts.with_columns(is_range=(pl.col("flags") & _START) != 0).with_columns(
        pl.int_range(pl.len()).over("id", "pid", "is_range").alias("again")
    )
    ends = ends.with_columns(occurrence, is_range=pl.lit(True)).select(*keys, end="timestamp")
    paired = starts.join(ends, on=keys, how="left", nulls_equal=True, maintain_order="left")
    unpaired = ends.height - int(paired["end"].is_not_null().sum())
    ranges = paired.select(
        strings.texts(paired["name"]).alias("name"),
        strings.texts(paired["domain"]).alias("domain"),
        *absolute_times("timestamp"),
        "pid",
        "tid",
    )
    return ranges, max(unpaired, 0)


_MAX_EXACT_INTEGER: Final = 1 << 52

_METRIC: Final = {"id": pl.Int64, "value": pl.Binary, "correlationId": pl.Int64}
_EVENT: Final = {"id": pl.Int64, "value": pl.Int64, "correlationId": pl.Int64}
_METRIC_KEYS: Final = ["device", "kernel", *(f"{size}_{axis}" for size in ("grid", "block") for axis in "xyz")]


def read_metrics(database: Database, kernels: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return metrics and events by kernel, grid, block and number.

    Args:
        database: What to read.
        kernels: Its kernels, columns of the model.
        devices: Its GPUs, columns of the model.
    """
    overall = database.frame(f"{_TABLE}METRIC", _METRIC)
    instances = database.frame(f"{_TABLE}METRIC_INSTANCE", _METRIC)
    # A metric with a value for the whole GPU is not computed from those of its units again.
    instances = instances.join(overall, on=["id", "correlationId"], how="anti", nulls_equal=True, maintain_order="left")
    events = database.frame(f"{_TABLE}EVENT", _EVENT)
    values = pl.concat(
        [
            _decode(overall).with_columns(what=pl.lit("metric"), note=pl.lit(None, pl.String)),
            _decode(instances).with_columns(what=pl.lit("metric"), note=pl.lit("of the units of the GPU")),
            events.with_columns(pl.col("value").cast(pl.Float64), what=pl.lit("event"), note=pl.lit(None, pl.String)),
        ]
    )
    if values.is_empty():
        return values.clear().select()
    kernel_columns = kernels.select(
        "correlation",
        pl.col("name").alias("kernel"),
        *_METRIC_KEYS[2:],
        device=pl.col("device").cast(pl.Int32, strict=False),
    ).unique("correlation", keep="first", maintain_order=True)
    device_names = devices.select("device", device_name=pl.format("{} ({})", "name", "device"))
    keys = [*_METRIC_KEYS, "what", "id", "note"]
    return (
        values.join(kernel_columns, left_on="correlationId", right_on="correlation", how="left", maintain_order="left")
        .join(device_names, on="device", how="left", maintain_order="left")
        .with_columns(device=pl.col("device_name"))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("correlationId").n_unique().cast(pl.Int64).alias("invocations"),
            pl.col("value").min().alias("min"),
            pl.col("value").max().alias("max"),
            pl.col("value").mean().alias("avg"),
            pl.when(pl.col("what").first() == "event", pl.col("value").count() > 0)
            .then(pl.col("value").sum())
            .alias("total"),
        )
        .select(
            *_METRIC_KEYS,
            "invocations",
            pl.format("{} {}", "what", "id").cast(NAME).alias("metric"),
            pl.col("note").cast(NAME).alias("description"),
            "min",
            "max",
            "avg",
            "total",
        )
    )


def _decode(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with ``value`` as a number: as float if any value of the metric is one."""
    integer = pl.when(pl.col("value").bin.size() == 8)
    bits = integer.then(pl.col("value").bin.reinterpret(dtype=pl.UInt64, endianness="little"))
    floating = integer.then(pl.col("value").bin.reinterpret(dtype=pl.Float64, endianness="little"))
    return rows.with_columns(bits=bits, floating=pl.when(floating.is_finite()).then(floating)).select(
        "id",
        pl.when((pl.col("bits") >= _MAX_EXACT_INTEGER).any().over("id"))
        .then("floating")
        .otherwise(pl.col("bits").cast(pl.Float64))
        .alias("value"),
        "correlationId",
    )


_KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "Driver compiler",
        1 << 16: "CUPTI buffer flush",
        2 << 16: "CUPTI instrumentation",
        3 << 16: "CUPTI resource creation and destruction",
    }
)
"""Kinds of overhead by CUPTI's number; 0 is unknown."""

_OVERHEAD_COLUMNS: Final = {"overheadKind": pl.Int64, "objectId": pl.Binary, "start": pl.Int64, "end": pl.Int64}


def read_overhead(database: Database) -> pl.DataFrame:
    """Return overhead with ``pid``, ``name``, ``line`` (null) and times, which are still absolute."""
    rows = database.frame("CUPTI_ACTIVITY_KIND_OVERHEAD", _OVERHEAD_COLUMNS)
    process = pl.col("objectId").bin.slice(0, 4)
    return rows.select(
        pl.when(process.bin.size() == 4)
        .then(process.bin.reinterpret(dtype=pl.UInt32, endianness="little"))
        .cast(pl.Int64)
        .alias("pid"),
        pl.col("overheadKind").replace_strict(dict(_KINDS), default="Unknown", return_dtype=pl.String).alias("name"),
        *absolute_times(),
        pl.lit(None, pl.UInt32).alias("line"),
    )
