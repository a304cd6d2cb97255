"""The events of a trace by role, for all versions of PyTorch; sorting them, and memory events."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.correlation.nesting import outer_first_order
from tui.correlation.plausible_times import MAX_NS, drop_outlier_events
from tui.loaders.ascend_csv import HCCL, kind_of_task
from tui.loaders.chrome_trace.event_batches import Arg, ArgKind, EventSplit
from tui.loaders.digits import NULL
from tui.model.errors import FORMATS_HINT
from tui.model.schema import NAME, empty
from tui.runtime import run_concurrently
from tui.text import map_distinct, map_distinct_texts, matching, number_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tui.loaders.chrome_trace.event_batches import Trace

    Indices = npt.NDArray[np.int32]


def by_nesting_order(rows: pl.DataFrame) -> Indices | None:
    """Return the order of rows by start, then longer rows first, then by id.

    Args:
        rows: Rows with ``start_ns`` and ``duration_ns``, without nulls, and ``external_id``.

    Returns:
        The positions of the rows; None if they are in order already.
    """
    return outer_first_order(
        rows["start_ns"].to_numpy(),
        rows["duration_ns"].to_numpy(),
        lambda positions: rows["external_id"].gather(pl.Series(positions)).fill_null(NULL).to_numpy(),
    )


def reorder_columns(columns: list[pl.Series], order: Indices | None) -> pl.DataFrame:
    """Return a frame of the columns in another order, each in one chunk; this empties ``columns``.

    With few cores, at most one column exists twice, if nothing else refers to them. At least one column has values.
    """
    positions = None if order is None else pl.Series(order.astype(np.uint32))
    names = [column.name for column in columns]

    def reordered() -> pl.Series | pl.Expr:
        column = columns.pop()
        if len(column) and column.null_count() == len(column):  # a literal takes no memory
            return pl.lit(None, column.dtype).alias(column.name)
        return column.rechunk() if positions is None else column.gather(positions)

    results = run_concurrently(*[reordered] * len(names))
    filled_columns = [column for column in results if isinstance(column, pl.Series)]
    null_columns = [column for column in results if isinstance(column, pl.Expr)]
    return pl.DataFrame(filled_columns).with_columns(null_columns).select(names)


STEP: Final = "ProfilerStep#"
"""The prefix of the annotation of a profiler step."""

_RANGE_AMONG_OPERATORS: Final = rf"^(?:{STEP}[0-9]|Optimizer\.\w+#|enumerate\(DataLoader\)#)"
"""Annotations that the oldest versions, and torch_npu, record as operators."""


@dataclass(frozen=True, slots=True)
class KinetoEvents:
    """The events of a trace by role.

    Each frame has the columns of `Trace.complete` that its role needs, with pid and tid as Int64 (null if they are not
    numbers).
    """

    era: Era
    ops: pl.DataFrame
    """Ops by start, enclosing ops first."""
    ranges: pl.DataFrame
    """Annotations of the user and of PyTorch itself, in the same order."""
    python: pl.DataFrame
    """Python functions and modules, in the same order."""
    calls: pl.DataFrame
    """CUDA or HIP API calls, in file order."""
    gpu: pl.DataFrame
    """GPU work with its ``kind``; each kind in file order."""
    overhead: pl.DataFrame
    """Work of the profiler itself."""
    collectives: pl.DataFrame
    """Collective operations of NPUs: columns of ``ranges``."""
    skipped_tasks: int
    """The number of tasks of NPUs that are no kernels or copies."""
    waits: pl.DataFrame
    """What calls and streams waited for: columns of `tui.correlation.launches.add_wait_columns`."""
    implausible: int
    """The number of events omitted because of implausible times."""
    unlinked_calls: int
    """The number of calls without their correlation id, because another process uses it too."""
    shared_gpu: int | None
    """The first GPU with a stream that several processes of the trace use, as in merged traces."""
    begin_ns: int
    """Time 0 of these frames in the times of the trace."""


def events_by_role(trace: Trace, roles: Roles, *, display_name: str) -> KinetoEvents:
    """Sort the events of a trace by role.

    Args:
        trace: The trace; its ``parts`` are emptied, because they take the most memory.
        roles: Facts about all of its events.
        display_name: The name of the file in messages.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    era = roles.era(trace.metadata)
    labels = _gpu_labels(trace.names)
    skipped_tasks = _sort_npu_events(trace) if roles.is_ascend else 0
    known = sum(rows.height for rows in trace.parts.values())
    parts, begin_ns = drop_outlier_events(trace.parts, display_name=display_name)
    trace.parts.clear()
    implausible = known - sum(rows.height for rows in parts.values())
    if era is Era.FIRST or roles.is_ascend:
        is_range = matching(parts["op"]["name"], _RANGE_AMONG_OPERATORS)
        parts["range"] = pl.concat([parts["range"], parts["op"].filter(is_range).select(parts["range"].columns)])
        parts["op"] = parts["op"].filter(~is_range)
    parts["op"], _ = _without_shared_ids(parts["op"], "external_id")
    parts["call"], unlinked_calls = _without_shared_ids(parts["call"], "correlation")
    shared_gpu = _shared_gpu(parts["kernel"])
    by_role = dict(zip(ROLES, run_concurrently(*(partial(_converted, parts, role) for role in ROLES)), strict=True))
    work = [by_role.pop(kind).with_columns(kind=pl.lit(kind, NAME)) for kind in ("kernel", "memcpy", "memset")]
    return KinetoEvents(
        era=era,
        ops=by_role["op"],
        ranges=by_role["range"],
        python=by_role["python"],
        calls=by_role["call"],
        gpu=_with_device_and_stream(pl.concat(work), labels),
        overhead=by_role["overhead"],
        collectives=parts.pop(_COLLECTIVES, empty("ranges")),
        skipped_tasks=skipped_tasks,
        waits=_waits(by_role["sync"]),
        implausible=implausible,
        unlinked_calls=unlinked_calls,
        shared_gpu=shared_gpu,
        begin_ns=begin_ns,
    )


_NPU_PROCESS: Final = "Ascend Hardware"
_NPU_CALLS: Final = "CANN"
_NPU_COLLECTIVES: Final = ("Communication", "HCCL")
"""Processes of NPUs. Their numbers are made of that of the program (from bit 10), a layer, and the device (5 bits)."""
_COLLECTIVES: Final = "collectives"
_COPY_TASK: Final = "MEMCPY"


def _sort_npu_events(trace: Trace) -> int:
    """Sort the events without a category of a trace of NPUs into its parts: work, calls and collective operations.

    The other processes repeat the work: its overlap, and the parts of collective operations.

    Returns:
        The number of tasks of NPUs that are no kernels or copies.
    """
    rows = trace.parts.pop(UNCATEGORIZED)
    processes = trace.names.filter(pl.col("name").cast(pl.String) == "process_name")
    number = pl.lit(integer_column(rows["pid"]))
    is_made = number >= 1 << 10
    rows = rows.join(
        processes.select("pid", process="value").unique("pid", keep="first"),
        on="pid",
        how="left",
        maintain_order="left",
    ).with_columns(
        kind=map_distinct(rows["task_type"], kind_of_task, NAME).cast(pl.String),
        text=pl.col("name").cast(pl.String),
        device=pl.when(is_made).then(number % 32),
        pid=pl.when(is_made).then(number // 1024).cast(pl.String).cast(NAME),
        stream=integer_column(rows["tid"]),
    )
    is_collective = pl.col("text").str.starts_with("hcom_")
    on_npu = rows.filter(pl.col("process") == _NPU_PROCESS, pl.col("task_type").is_not_null())
    work = on_npu.filter(~is_collective).with_columns(
        pl.when(pl.col("text").str.starts_with(_COPY_TASK)).then(pl.lit("memcpy")).otherwise("kind").alias("kind")
    )
    new_rows = {
        **{kind: work.filter(pl.col("kind") == kind) for kind in ("kernel", "memcpy")},
        "call": rows.filter(pl.col("process") == _NPU_CALLS),
    }
    for role, added in new_rows.items():
        part = trace.parts[role]
        columns = (pl.col(name).cast(dtype) for name, dtype in part.schema.items() if name in _NPU_COLUMNS)
        trace.parts[role] = pl.concat([part, added.select(columns)], how="diagonal")
    collectives = rows.filter(pl.col("process").is_in(_NPU_COLLECTIVES), is_collective)
    trace.parts[_COLLECTIVES] = collectives.select(
        "name", "start_ns", "duration_ns", "line", domain=pl.lit(HCCL, NAME), depth=pl.lit(0, pl.Int32)
    )
    return int(work["kind"].null_count())


def _without_shared_ids(rows: pl.DataFrame, column: str) -> tuple[pl.DataFrame, int]:
    """Set ids that several processes use to null: each process counts its own, and GPU work names no process.

    Returns:
        The rows, and the number of those with such an id.
    """
    if rows["pid"].n_unique() < 2:
        return rows, 0
    shared = (
        rows.lazy()
        .filter(pl.col(column) > 0)
        .group_by(column)
        .agg(pl.col("pid").n_unique())
        .filter(pl.col("pid") > 1)
        .collect()
    )
    is_shared = rows[column].is_in(shared[column].implode()).fill_null(False)
    return rows.with_columns(pl.when(~is_shared).then(column).alias(column)), int(is_shared.sum())


def _shared_gpu(kernels: pl.DataFrame) -> int | None:
    """Return the first GPU with a stream in several processes; a GPU of a single trace is one process of it."""
    if kernels["pid"].n_unique() < 2:
        return None
    streams = kernels.select("device", "stream", "pid").drop_nulls().unique()
    shared = streams.filter(pl.struct("device", "stream").is_duplicated())
    first = shared["device"].min()
    return first if isinstance(first, int) else None


_NO_STREAM: Final = (1 << 32) - 1
"""What CUPTI writes if there is no stream; -1 in later versions."""


def _waits(syncs: pl.DataFrame) -> pl.DataFrame:
    """Return what calls and streams waited for, without waits for an event whose record is unknown."""

    def stream(name: str) -> pl.Expr:
        return pl.when(pl.col(name).is_between(0, _NO_STREAM - 1)).then(name)

    kind = syncs["name"].cast(pl.String)
    is_stream_wait = (kind == "Stream Wait Event").fill_null(False)
    is_event = kind.is_in(["Event Sync", "Stream Wait Event"])
    return syncs.select(
        "correlation",
        pl.col("device").cast(pl.Int32, strict=False).alias("wait_device"),
        pl.when(is_stream_wait).then(stream("stream")).alias("waiting_stream"),
        pl.when(is_event).then(stream("wait_on_stream")).otherwise(stream("stream")).alias("awaited_stream"),
        pl.when(is_event & (pl.col("event_record") > 0)).then("event_record").alias("awaited_call"),
    ).filter(pl.col("correlation") > 0, ~is_event | pl.col("awaited_call").is_not_null())


def _gpu_labels(names: pl.DataFrame) -> pl.DataFrame:
    """Return the GPUs among the processes of the trace, by their labels: gpu and pid."""
    return (
        names.filter(pl.col("name").cast(pl.String) == "process_labels")
        .select(
            pl.col("pid").cast(pl.String).cast(pl.Int64, strict=False),
            gpu=number_in(pl.col("value"), r"^GPU ([0-9]{1,4})$"),
        )
        .drop_nulls()
        .unique("pid", keep="first")
    )


def _with_device_and_stream(gpu: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Fill missing device and stream of GPU work from its process and thread."""
    return (
        gpu.join(labels, on="pid", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("device", "gpu").alias("device"),
            pl.when(pl.col("stream").is_null() & pl.col("gpu").is_not_null())
            .then("tid")
            .otherwise("stream")
            .alias("stream"),
        )
        .drop("gpu")
    )


_NESTED: Final = ("op", "range", "python")


def _converted(parts: dict[str, pl.DataFrame], role: str) -> pl.DataFrame:
    """Take the rows of a role out of ``parts``; processes and threads become numbers, and enclosing rows come first."""
    rows = parts.pop(role)
    pid, tid, order = run_concurrently(
        partial(integer_column, rows["pid"]),
        partial(integer_column, rows["tid"]),
        partial(by_nesting_order, rows) if role in _NESTED else lambda: None,
    )
    assert isinstance(pid, pl.Series)
    assert isinstance(tid, pl.Series)
    assert not isinstance(order, pl.Series)
    columns = rows.with_columns(pid, tid).get_columns()
    del rows
    return reorder_columns(columns, order) if role in _NESTED else pl.DataFrame(columns)


MEMORY_EVENT: Final = r"^\[memory\]$"
"""The name of an allocation or release."""

OUT_OF_MEMORY: Final = r"^\[OutOfMemory\]$"
"""The name of a failed allocation."""

CPU: Final = 0
"""PyTorch's device type of the CPU; all others count as GPUs."""


def is_implausible_start(begin_ns: int) -> pl.Expr:
    """Return whether an event starts more than a week from the beginning of the recording."""
    return ~(pl.col("start_ns") - begin_ns).is_between(-MAX_NS, MAX_NS)


def memory_events(instants: pl.DataFrame, begin_ns: int) -> pl.DataFrame:
    """Return the allocations and releases of a trace, by time: columns of ``memory_events``.

    Events without a size, and events with implausible times, are omitted.

    Args:
        instants: `tui.loaders.chrome_trace.event_batches.Trace.instants`.
        begin_ns: Time 0 of the result in the times of the trace.
    """
    is_cpu = pl.col("device_type") == CPU
    return (
        instants.filter(matching(instants["name"], MEMORY_EVENT), ~is_implausible_start(begin_ns))
        .drop_nulls("bytes")
        .select(
            pl.when(is_cpu)
            .then(pl.lit("CPU"))
            .when(is_cpu.is_not_null())
            .then(pl.lit("GPU"))
            .cast(NAME)
            .alias("place"),
            pl.when(~is_cpu & (pl.col("device_id") >= 0))
            .then("device_id")
            .cast(pl.Int32, strict=False)
            .alias("device"),
            pl.col("start_ns") - begin_ns,
            pl.col("bytes").alias("delta_bytes"),
            # The first versions record no totals.
            *(
                pl.when(pl.col(column) >= 0).then(column).alias(name)
                for column, name in (("total_allocated", "allocated_bytes"), ("total_reserved", "reserved_bytes"))
            ),
            "address",
            "line",
        )
        .sort("start_ns", maintain_order=True)
    )


def integer_column(values: pl.Series) -> pl.Series:
    """Parse a categorical column as Int64; a value that is no integer becomes null."""
    return map_distinct_texts(values, lambda texts: texts.cast(pl.Int64, strict=False), pl.Int64())


def no_names(rows: int) -> pl.Series:
    """Return a categorical column of nulls."""
    return pl.repeat(None, rows, dtype=NAME, eager=True)


COLLECTIVE: Final = (
    Arg("collective", ("collective name",), ArgKind.TEXT),
    Arg("in_elements", ("in msg nelems",), ArgKind.TEXT),
    Arg("out_elements", ("out msg nelems",), ArgKind.TEXT),
    Arg("collective_dtype", ("dtype",), ArgKind.TEXT),
    Arg("group_size", ("group size",), ArgKind.TEXT),
    Arg("in_split", ("in split size",), ArgKind.TEXT),
    Arg("out_split", ("out split size",), ArgKind.TEXT),
    Arg("process_group", ("process group name",), ArgKind.TEXT),
    Arg("process_group_description", ("process group description",), ArgKind.TEXT),
    Arg("process_group_ranks", ("process group ranks",), ArgKind.TEXT),
    Arg("collective_seq", ("seq",), ArgKind.TEXT),
)
"""Arguments of NCCL kernels about their collective operation."""

WANTED_ARGS: Final = (
    Arg("correlation", ("correlation", "connection_id"), ArgKind.INTEGER),
    Arg("external_id", ("external id",), ArgKind.INTEGER),
    Arg("record_function", ("record function id",), ArgKind.INTEGER),
    Arg("sequence", ("sequence number",), ArgKind.INTEGER),
    Arg("forward_thread", ("fwd thread id",), ArgKind.INTEGER),
    Arg("input_shapes", ("input dims",), ArgKind.TEXT),
    Arg("input_types", ("input type",), ArgKind.TEXT),
    Arg("input_values", ("concrete inputs",), ArgKind.TEXT),
    Arg("call_stack", ("call stack",), ArgKind.TEXT),
    Arg("modules", ("module hierarchy",), ArgKind.TEXT),
    Arg("device", ("device",), ArgKind.INTEGER),
    Arg("context", ("context",), ArgKind.INTEGER),
    # Intel GPUs have queues.
    Arg("stream", ("stream", "sycl queue"), ArgKind.INTEGER),
    Arg("registers", ("registers per thread",), ArgKind.INTEGER),
    Arg("shared_bytes", ("shared memory",), ArgKind.INTEGER),
    Arg("grid", ("grid",), ArgKind.TRIPLE),
    Arg("block", ("block",), ArgKind.TRIPLE),
    # Older AMD traces record ``size`` on the call.
    Arg("bytes", ("bytes", "size"), ArgKind.INTEGER),
    Arg("bandwidth", ("memory bandwidth (gb/s)",), ArgKind.NUMBER),
    Arg("graph_node", ("graph node id",), ArgKind.INTEGER),
    # Of synchronization.
    Arg("wait_on_stream", ("wait_on_stream",), ArgKind.INTEGER),
    Arg("event_record", ("wait_on_cuda_event_record_corr_id",), ArgKind.INTEGER),
    # AMD: the kernel that a call launches.
    Arg("kernel", ("kernel",), ArgKind.TEXT),
    # Of NPUs.
    Arg("task_type", ("task type",), ArgKind.TEXT),
    # Of memory events.
    Arg("device_type", ("device type",), ArgKind.INTEGER),
    Arg("device_id", ("device id",), ArgKind.INTEGER),
    Arg("total_allocated", ("total allocated",), ArgKind.INTEGER),
    Arg("total_reserved", ("total reserved",), ArgKind.INTEGER),
    Arg("address", ("addr",), ArgKind.INTEGER),
    *COLLECTIVE,
)
"""The arguments to read."""

FORWARD_TO_BACKWARD: Final = "fwdbwd"
CALL_TO_WORK: Final = "cpu_to_cuda"
"""The category of flow events from ops to GPU work in PyTorch's first profiler."""
OP_TO_NPU: Final = "async_npu"
"""The category of flow events from ops to the work of NPUs."""
FLOWS: Final = frozenset((FORWARD_TO_BACKWARD, CALL_TO_WORK, OP_TO_NPU))
"""The categories of flow events that are read."""


LEGACY: Final = ("CPU functions", "CUDA functions")
"""The processes in exports of PyTorch's first profiler."""
_LEGACY_ROLE: Final = "legacy"
UNCATEGORIZED: Final = "uncategorized"
"""The part of events without a category, which are those of NPUs."""
_NPU_COLUMNS: Final = (
    *("name", "start_ns", "duration_ns", "pid", "tid", "line", "correlation", "task_type", "device", "stream"),
)

_ROLES: Final = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "range",
    "python_function": "python",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "overhead": "overhead",
}
_ROLES_BY_SUFFIX: Final = {"runtime": "call", "driver": "call", "memcpy": "memcpy", "memset": "memset", "sync": "sync"}
"""The role by the last word of the category: ``gpu_memcpy``, ``xpu_runtime``, ``mlu_memset``."""
_REPEATED: Final = re.compile(r"trace|external_correlation|(?:\w+_)?(?:user_annotation|event)")
"""Categories without further information: annotations repeated on the GPU's rows."""
_CALLS_OF_DEVICE: Final = re.compile(r"(?!glow_)([a-z][a-z0-9]*)_(?:runtime|driver|ccp_events)")
"""The category of calls, which names the kind of devices; calls of HIP have that of CUDA."""
_CUDA_DEVICES: Final = frozenset(("cuda", "hip"))
_FIRST_PROFILER_CATEGORIES: Final = frozenset(("Kernel", "Operator", "Runtime", "Memcpy", "Memset"))

GRID: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")

_COMMON_COLUMNS: Final = ("name", "start_ns", "duration_ns", "pid", "tid", "external_id")
_CALL_COLUMNS: Final = (*_COMMON_COLUMNS, "line", "correlation", "shared_bytes", "bytes", "grid", "block")
_GPU_COLUMNS: Final = (
    *_CALL_COLUMNS,
    *("device", "context", "stream", "registers", "bandwidth", "graph_node"),
    *(arg.column for arg in COLLECTIVE),
)
_COLUMNS: Final = {
    "op": (
        *(*_COMMON_COLUMNS, "line", "sequence", "forward_thread", "call_stack", "modules"),
        *("input_shapes", "input_types", "input_values"),
    ),
    "range": (*_COMMON_COLUMNS, "line"),
    "python": _COMMON_COLUMNS,
    "call": (*_CALL_COLUMNS, "kernel"),
    "kernel": _GPU_COLUMNS,
    "memcpy": _GPU_COLUMNS,
    "memset": _GPU_COLUMNS,
    "overhead": (*_COMMON_COLUMNS, "line"),
    "sync": (*_COMMON_COLUMNS, "correlation", "device", "stream", "wait_on_stream", "event_record"),
}
"""The columns that each role needs; unneeded ones would take much memory."""

GPU_ROLES: Final = ("kernel", "memcpy", "memset")
"""The roles of GPU work."""

ROLES: Final = tuple(_COLUMNS)
"""All roles of events."""


class Era(Enum):
    """The versions of the profiler, which differ in the meaning of ids."""

    FIRST = "PyTorch 1.8 and 1.9"
    """Operators and their GPU work have the same id; 0 means none."""
    MIDDLE = "PyTorch 1.10 to 2.1"
    """The id of GPU work is its correlation id, not that of an op (except in the last of these versions)."""
    LATE = "PyTorch 2.2 or later"
    """The id of GPU work is the id of its op."""


SPLIT: Final = EventSplit(
    _COLUMNS
    | {
        _LEGACY_ROLE: ("name", "start_ns", "duration_ns", "pid", "tid", "line"),
        UNCATEGORIZED: ("name", "start_ns", "duration_ns", "pid", "tid", "line", "correlation", "task_type"),
    },
    _ROLES | {"": UNCATEGORIZED},
    _ROLES_BY_SUFFIX,
    dict.fromkeys(LEGACY, _LEGACY_ROLE),
)
"""Splits events by role; ``legacy`` is for PyTorch's first profiler."""


class Roles:
    """Facts about all events of a trace, over all roles."""

    def __init__(self, trace: Trace) -> None:
        self._events = Counter(trace.categories)
        self._has_record_functions = "record_function" in trace.seen
        processes = trace.names.filter(pl.col("name").cast(pl.String) == "process_name")["value"].cast(pl.String)
        self.is_ascend = bool((processes == _NPU_PROCESS).any())
        """Whether torch_npu wrote the trace, for NPUs of Ascend."""

    def era(self, metadata: Mapping[str, Any]) -> Era:
        """Return the version that wrote the trace, by its events and metadata."""
        if _FIRST_PROFILER_CATEGORIES & self._events.keys():
            return Era.FIRST
        is_late = "baseTimeNanoseconds" in metadata or self._has_record_functions
        return Era.LATE if is_late else Era.MIDDLE

    @property
    def devices(self) -> str:
        """PyTorch's name for the kind of devices, if it is not CUDA: XPU, MLU, PrivateUse1; empty if unknown."""
        matches = (_CALLS_OF_DEVICE.fullmatch((category or "").lower()) for category in self._events)
        names = {match[1] for match in matches if match}
        if len(names) != 1 or names <= _CUDA_DEVICES:
            return ""
        return names.pop().upper().replace("PRIVATEUSE", "PrivateUse")

    def unread_categories(self) -> list[tuple[str | None, int]]:
        """Return categories of events that are not read but may hold information, with their number of events."""
        unread_parts = {None} if self.is_ascend else {None, UNCATEGORIZED}
        return [
            (category, count)
            for category, count in sorted(self._events.items(), key=lambda item: (-item[1], item[0] or ""))
            if SPLIT.part_of_category(category) in unread_parts
            and _REPEATED.fullmatch((category or "").lower()) is None
        ]

    def describe(self) -> tuple[str, str]:
        """Return a description of the events for the message that they are no profile, and a hint."""
        if not self._events:
            return "a trace without complete events (ph X)", FORMATS_HINT
        categories = [str(category)[:40] for category, _ in self._events.most_common(5) if category is not None]
        hint = f"if it was converted (nsys2json, nvprof2json, traceconv), open the profile itself; {FORMATS_HINT}"
        if not categories:
            return "trace events without categories, not from the PyTorch profiler", hint
        return f"trace events of {', '.join(categories)}, none from the PyTorch profiler", hint
