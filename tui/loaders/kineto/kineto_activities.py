"""GPU activities of a trace, facts of the recording, and issues about both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.correlation.launches import add_launch_columns
from tui.correlation.plausible_times import dropped_events_text
from tui.fmt import brief_size
from tui.loaders.ascend_csv import HCCL
from tui.loaders.cupti import add_overhead
from tui.loaders.kineto.events import (
    COLLECTIVE,
    GRID,
    MEMORY_EVENT,
    OP_TO_NPU,
    OUT_OF_MEMORY,
    integer_column,
    is_implausible_start,
)
from tui.loaders.multi_file.ranks import RANK_FROM_FILE_NAME, ranks_in_names
from tui.model.names import copy_kind, short_name, without_descriptor
from tui.model.schema import NAME
from tui.text import map_distinct, matching, plural, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.collector import Collector, Value
    from tui.loaders.kineto.events import KinetoEvents, Roles
    from tui.loaders.kineto.ops import Ops

_COPY: Final = re.compile(r"Memcpy (\w+)(?: \((?:(\w[\w ]*?) -> (\w[\w ]*?)|[^()]*)\))?")
_INTEL_DIRECTION: Final = re.compile(r"([MHD])2([MHD])")
"""A direction as traces of Intel's GPUs have it; M is memory of the system, H such that the GPU reaches."""
_MEMSET: Final = re.compile(r"Memset(?: \(([\w ]+)\))?")
_LARGEST_RATE: Final = 1e15
"""Bytes per second; a higher rate is the result of a rounded duration."""


def build_activities(events: KinetoEvents, *, is_of_cuda: bool) -> pl.DataFrame:
    """Build ``activities`` from the GPU work of a trace, with the columns of `add_launch_columns` and ``external_id``.

    Args:
        events: Of the trace.
        is_of_cuda: Whether copies and memsets are CUDA's.
    """
    name_function = nvprof_name if is_of_cuda else without_descriptor
    work = add_launch_columns(_null_invalid_values(events.gpu), events.calls)
    if events.calls["bytes"].count() or events.calls["grid_x"].count():
        work = add_launch_facts(work, events.calls)
    else:
        work = work.with_columns(dynamic_shared_bytes=pl.lit(None, pl.Int64))
    names = work["name"]
    return work.select(
        "kind",
        map_distinct(names, name_function, NAME).alias("name"),
        map_distinct(names, lambda name: _short(name_function(name)), NAME).alias("short_name"),
        "start_ns",
        "duration_ns",
        pl.col("device", "context").cast(pl.Int32, strict=False),
        "stream",
        pl.col(*GRID, "registers").cast(pl.Int32, strict=False),
        "dynamic_shared_bytes",
        "shared_bytes",
        pl.col("bytes").alias("size_bytes"),
        _rate().alias("throughput"),
        map_distinct(names, copy_kind, NAME).alias("copy_kind"),
        map_distinct(names, lambda name: _memory(name, 2), NAME).alias("src_memory"),
        map_distinct(names, lambda name: _memory(name, 3), NAME).alias("dst_memory"),
        "correlation",
        pl.when(pl.col("graph_node") > 0).then("graph_node").alias("graph_node"),
        _arguments(work),
        "line",
        "launch_ns",
        "launch_pid",
        "launch_tid",
        "external_id",
    )


def add_flow_launches(work: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Set the launch of NPU work to the op from which a flow event leads to it: calls of CANN run in other threads.

    Args:
        work: The result of `build_activities`.
        flows: The flow events of the trace.
    """
    arrows = flows.filter(pl.col("cat").cast(pl.String) == OP_TO_NPU).with_columns(
        pl.col("ph").cast(pl.String), integer_column(flows["pid"]), integer_column(flows["tid"])
    )
    begins = arrows.filter(pl.col("ph") == "s").select("id", op_ns="start_ns", op_pid="pid", op_tid="tid")
    ends = (
        arrows.filter(pl.col("ph") == "f")
        .select("id", "start_ns", stream="tid")
        .join(begins.unique("id", keep="first"), on="id")
        .unique(("start_ns", "stream"), keep="first")
    )
    return (
        work.join(ends.drop("id"), on=("start_ns", "stream"), how="left", maintain_order="left")
        .with_columns(
            pl.coalesce(f"op_{name}", f"launch_{name}").alias(f"launch_{name}") for name in ("ns", "pid", "tid")
        )
        .drop("op_ns", "op_pid", "op_tid")
    )


_LATER_WORK: Final = 4
"""The later work of a stream that begins within work with an impossible duration."""
_LONG_NS: Final = 10_000_000
"""The shortest duration that is checked: shorter ones hardly change a sum."""


def without_impossible_durations(work: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Drop the durations of work that seems to run on while several later kernels of its stream ran.

    The work of a stream on AMD runs one after another. The profiler writes such durations if the end of work is
    noticed late: seconds for a kernel that takes microseconds.

    Returns:
        The work, and the lines of that with a dropped duration.
    """
    is_long = pl.col("duration_ns") >= _LONG_NS
    if not work.select(is_long.any()).item():
        return work, work["line"].clear()
    later_start = pl.col("start_ns").shift(-_LATER_WORK).over("device", "stream", order_by="start_ns")
    is_impossible = work.select(
        (is_long & (later_start < pl.col("start_ns") + pl.col("duration_ns"))).fill_null(False)
    ).to_series()
    possible = work.with_columns(work[column].set(is_impossible, None) for column in ("duration_ns", "throughput"))
    return possible, work["line"].filter(is_impossible)


def nvprof_name(name: str) -> str:
    """Return nvprof's name of a copy or memset, as in all other formats; other names unchanged.

    >>> nvprof_name("Memcpy HtoD (Pageable -> Device)"), nvprof_name("Memset (Device)"), nvprof_name("Memcpy M2D")
    ('[CUDA memcpy HtoD]', '[CUDA memset]', 'Memcpy M2D')
    """
    copy = _COPY.fullmatch(name)
    if copy is not None and not _INTEL_DIRECTION.fullmatch(copy[1]):
        return f"[CUDA memcpy {copy[1]}]"
    return "[CUDA memset]" if _MEMSET.fullmatch(name) else name


def _short(name: str) -> str:
    return name if _COPY.fullmatch(name) or _MEMSET.fullmatch(name) else short_name(name)


def _memory(name: str, group: int) -> str | None:
    """Return the kind of memory that a copy reads (group 2) or writes (group 3), or that a memset writes."""
    copy = _COPY.fullmatch(name)
    if copy is not None:
        memory: str | None = copy[group]
    else:
        memset = _MEMSET.fullmatch(name) if group == 3 else None
        memory = None if memset is None else memset[1]
    return None if memory is None else memory.lower()


def _null_invalid_values(gpu: pl.DataFrame) -> pl.DataFrame:
    """Return the GPU work with invalid values set to null.

    These are negative durations, sizes and ids, correlation ids below 1, and launch sizes out of range.
    """
    return gpu.with_columns(
        pl.col("kind").cast(NAME),
        pl.when(pl.col("duration_ns") >= 0).then("duration_ns").alias("duration_ns"),
        pl.when(pl.col("correlation") >= 1).then("correlation").alias("correlation"),
        *launch_sizes(),
        *(
            pl.when(pl.col(name) >= 0).then(name).alias(name)
            for name in ("device", "context", "stream", "registers", "shared_bytes", "bytes")
        ),
    )


def _rate() -> pl.Expr:
    rate = pl.col("bandwidth") * 1e9
    return pl.when(rate.is_finite() & (rate >= 0) & (rate < _LARGEST_RATE)).then(rate)


def _arguments(work: pl.DataFrame) -> pl.Series:
    """Return the arguments of collective operations, as ``key: value; ...``."""
    columns = [arg.column for arg in COLLECTIVE]
    operations = work.select(columns).with_row_index("row").filter(pl.col("collective").is_not_null())
    distinct = operations.select(columns).unique()
    titles = {arg.column: arg.keys[0].capitalize() for arg in COLLECTIVE}
    texts = [
        "; ".join(f"{titles[column]}: {value}" for column, value in row.items() if value not in (None, "", "[]"))
        for row in distinct.cast(pl.String).iter_rows(named=True)
    ]
    lines = operations.join(
        distinct.with_columns(pl.Series("arguments", texts, dtype=pl.String).cast(NAME)), on=columns, nulls_equal=True
    ).select("row", "arguments")
    rows = pl.DataFrame({"row": pl.int_range(work.height, dtype=pl.UInt32, eager=True)})
    return rows.join(lines, on="row", how="left", maintain_order="left")["arguments"]


_GRID_IN_THREADS: Final = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
"""The HIP launches whose grid counts threads, not blocks."""
_MAX_GRID_AXIS: Final = (1 << 31) - 1
"""The largest grid size along one axis that CUDA and HIP allow."""


def launch_sizes() -> list[pl.Expr]:
    """Return grid and block columns; all three axes become null when one is outside the valid range."""
    return [
        pl.when(pl.all_horizontal(pl.col(axis).is_between(1, _MAX_GRID_AXIS) for axis in axes)).then(name).alias(name)
        for axes in (GRID[:3], GRID[3:])
        for name in axes
    ]


def add_launch_facts(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Fill grid, block, dynamic shared memory and bytes from the HIP call, where older AMD traces record them.

    Newer traces copy grid and block from the call to the kernel, so there too the grid may count threads.
    """
    axes = [pl.col(name) for name in GRID]
    launches = (
        calls.filter(pl.col("correlation") >= 1)
        .sort("start_ns", maintain_order=True)
        .unique("correlation", keep="first", maintain_order=True)
        .with_columns(launch_sizes())
        .select(
            "correlation",
            *(pl.col(name).alias(f"launch_{name}") for name in GRID),
            pl.col("name").cast(pl.String).is_in(_GRID_IN_THREADS).alias("grid_is_in_threads"),
            # A launch sets dynamic shared memory only; static shared memory is not recorded.
            pl.when(pl.col("shared_bytes") >= 0).then("shared_bytes").alias("dynamic_shared_bytes"),
            pl.when(pl.col("bytes") >= 0).then("bytes").alias("launch_bytes"),
        )
    )
    is_kernel = pl.col("kind") == "kernel"
    # A graph launch runs many kernels; its grid is not that of any of them.
    is_single = pl.col("correlation").is_first_distinct() & pl.col("correlation").is_last_distinct()
    takes_launch_grid = is_kernel & is_single & pl.all_horizontal(axis.is_null() for axis in axes)
    work = work.join(launches, on="correlation", how="left", maintain_order="left").with_columns(
        pl.when(takes_launch_grid).then(f"launch_{name}").otherwise(name).alias(name) for name in GRID
    )
    return work.with_columns(
        *(
            pl.when(is_kernel & is_single & pl.col("grid_is_in_threads"))
            .then((pl.col(f"grid_{axis}") + pl.col(f"block_{axis}") - 1) // pl.col(f"block_{axis}"))
            .otherwise(f"grid_{axis}")
            .alias(f"grid_{axis}")
            for axis in "xyz"
        ),
        pl.when(is_kernel & is_single & pl.col("shared_bytes").is_null())
        .then("dynamic_shared_bytes")
        .alias("dynamic_shared_bytes"),
        pl.when(~is_kernel).then(pl.coalesce("bytes", "launch_bytes")).otherwise("bytes").alias("bytes"),
    )


def device_numbers(work: pl.DataFrame, calls: pl.DataFrame, listed_numbers: Sequence[int]) -> dict[int, int]:
    """Map agent numbers of AMD traces to the device numbers in ``deviceProperties``; empty if they agree.

    The runtime numbers CPUs and GPUs together: GPU 0 may be agent 2. A trace with grids on its launch calls uses agent
    numbers; they are matched to device numbers in ascending order.

    Args:
        work: The GPU work, with ``device``.
        calls: The API calls.
        listed_numbers: The numbers in ``deviceProperties``.
    """
    used_numbers = sorted(work["device"].unique().drop_nulls().to_list())
    is_agent = calls["grid_x"].count() > 0 or not set(used_numbers) <= set(listed_numbers)
    if not is_agent or len(used_numbers) > len(listed_numbers):
        return {}
    numbers = dict(zip(used_numbers, sorted(listed_numbers), strict=False))
    return {} if all(agent == number for agent, number in numbers.items()) else numbers


FORMAT_NAME: Final = "pytorch-trace"
TOOL: Final = "PyTorch profiler"

_HOST_IN_NAME: Final = re.compile(r"([\w.-]+?)_([0-9]+)\.(?:[0-9]+\.)?pt\.trace\.json")
_INT32: Final = range(1 << 31)
_INT64: Final = range(1 << 63)
_EPOCH_NS: Final = range(946_684_800_000_000_000, 4_102_444_800_000_000_000)
"""2000 to 2100; a time outside does not count from 1970."""
_TEXT_LIMIT: Final = 200
_MAX_DEVICES: Final = 1024
"""The most plausible GPUs of a machine."""

_DEVICE_COLUMNS: Final = (
    ("sm_count", _INT32, "numSms"),
    ("memory_bytes", _INT64, "totalGlobalMem"),
    ("max_threads_per_sm", _INT32, "maxThreadsPerMultiprocessor"),
    ("registers_per_sm", _INT32, "regsPerMultiprocessor"),
    # The second key is that of AMD GPUs.
    ("shared_memory_per_sm_bytes", _INT64, "sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
)
"""The columns of ``devices``, with the allowed values and the keys of the trace."""
_CUDA_CALL: Final = r"^cu(?:da)?[A-Z]"
_HIP_CALL: Final = r"^hip[A-Z]"
_AMD: Final = re.compile(r"\bAMD\b|Radeon|Instinct|\bgfx[0-9]", re.IGNORECASE)


def main_process(events: KinetoEvents) -> int | None:
    """Return the process with the most ops, ranges and calls."""
    counts = (
        pl.concat(rows["pid"].value_counts() for rows in (events.ops, events.ranges, events.calls))
        .drop_nulls("pid")
        .group_by("pid")
        .agg(pl.col("count").sum())
        .sort("count", "pid", descending=[True, False])
    )
    return None if counts.is_empty() else int(counts["pid"][0])


def session_facts(metadata: Mapping[str, Any], *, name: str, pid: int | None, begin_ns: int) -> dict[str, Value]:
    """Return columns of ``sessions`` from the metadata of a trace.

    Args:
        metadata: The members outside the list of events.
        name: The path of the file.
        pid: The process.
        begin_ns: Time 0 in the file's own clock.
    """
    distributed = metadata.get("distributedInfo")
    distributed = distributed if isinstance(distributed, Mapping) else {}
    file_name = name.rpartition("/")[2]
    version = _text(metadata.get("torch_version")) or _text(metadata.get("pytorch_version"))
    rank = _integer_in_range(distributed.get("rank"), _INT32)
    rank_in_name = ranks_in_names([file_name])[0] if rank is None else None
    return {
        "tool": TOOL,
        "framework": f"PyTorch {version}" if version else "PyTorch",
        "rank": rank if rank_in_name is None else rank_in_name,
        "rank_source": None if rank_in_name is None else RANK_FROM_FILE_NAME,
        "world_size": _integer_in_range(distributed.get("world_size"), _INT32),
        "host": _text(metadata.get("host_name")) or _text(metadata.get("hostname")) or _host(file_name, pid),
        "cuda_version": _cuda_version(metadata.get("cuda_runtime_version")),
        "driver_version": _driver(metadata),
        "origin_ns": _origin(metadata.get("baseTimeNanoseconds"), begin_ns),
    }


def is_amd(metadata: Mapping[str, Any]) -> bool:
    """Return whether the trace was recorded on AMD GPUs."""
    if any(key.startswith(("hip_", "roctracer", "rocprofiler")) for key in metadata):
        return True
    return any(_AMD.search(str(gpu.get("name"))) or gpu.get("warpSize") == 64 for gpu in _properties(metadata))


def is_of_hip(metadata: Mapping[str, Any], calls: pl.DataFrame) -> bool:
    """Return whether the GPU work is HIP's, on AMD GPUs."""
    return is_amd(metadata) or bool(matching(calls["name"], _HIP_CALL).any())


def is_of_cuda(metadata: Mapping[str, Any], calls: pl.DataFrame) -> bool:
    """Return whether the GPU work is CUDA's, as far as known; PyTorch for HIP keeps some names of CUDA calls."""
    if is_of_hip(metadata, calls):
        return False
    return calls.is_empty() or matching(calls["name"], _CUDA_CALL).any()


def numbers_agents(metadata: Mapping[str, Any]) -> bool:
    """Return whether GPU work may have agent numbers, which include CPUs, instead of GPU numbers.

    roctracer writes agent numbers; rocprofiler-sdk, its successor, writes GPU numbers.
    """
    return is_amd(metadata) and not any(key.startswith("rocprofiler") for key in metadata)


def recorded_devices(metadata: Mapping[str, Any]) -> list[dict[str, Value]]:
    """Return rows of ``devices`` as recorded in the trace; 0 means unknown."""
    amd = is_amd(metadata)
    rows: dict[int, dict[str, Value]] = {}
    for gpu in _properties(metadata):
        device = _integer_in_range(gpu.get("id"), _INT32)
        if device is None or device in rows:
            continue
        major, minor = (
            _integer_in_range(gpu.get("computeMajor"), range(1, 100)),
            _integer_in_range(gpu.get("computeMinor"), range(100)),
        )
        row: dict[str, Value] = {"device": device, "name": _text(gpu.get("name"))}
        # On AMD GPUs, major and minor are not a compute capability.
        if not amd and major is not None and minor is not None:
            row["compute_capability"] = f"{major}.{minor}"
        for column, allowed_range, *keys in _DEVICE_COLUMNS:
            numbers = (_integer_in_range(gpu.get(key), allowed_range) for key in keys)
            row[column] = next(filter(None, numbers), None)
        rows[device] = row
    return list(rows.values())


def _properties(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = metadata.get("deviceProperties")
    return [gpu for gpu in listed[:_MAX_DEVICES] if isinstance(gpu, Mapping)] if isinstance(listed, list) else []


def _integer_in_range(value: object, allowed: range) -> int | None:
    """Return a whole number, also from text; None if it is not in the allowed range."""
    if isinstance(value, str):
        value = whole_number(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in allowed else None


def _text(value: object) -> str | None:
    return value.strip()[:_TEXT_LIMIT] or None if isinstance(value, str) else None


def _host(file_name: str, pid: int | None) -> str | None:
    """Return the host in a file name that PyTorch chose, which is followed by the process id."""
    match = _HOST_IN_NAME.match(file_name)
    return match[1] if match and pid is not None and match[2] == str(pid) else None


def _cuda_version(version: object) -> str | None:
    """Return a version as ``major.minor``.

    >>> _cuda_version(12040), _cuda_version("12.4"), _cuda_version(4)
    ('12.4', '12.4', None)
    """
    if isinstance(version, str) and re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", version):
        return version
    number = _integer_in_range(version, range(1000, 1_000_000))
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _driver(metadata: Mapping[str, Any]) -> str | None:
    """Return the newest CUDA or HIP version that the driver supports; its own version is not recorded."""
    cuda = _cuda_version(metadata.get("cuda_driver_version"))
    if cuda is not None:
        return f"for CUDA {cuda}"
    hip = _integer_in_range(metadata.get("hip_driver_version"), range(10_000_000, 1_000_000_000))
    return None if hip is None else f"for HIP {hip // 10_000_000}.{hip // 100_000 % 100}.{hip % 100_000}"


def _origin(base: object, begin_ns: int) -> int | None:
    base_ns = _integer_in_range(base, _INT64) or 0
    origin = base_ns + begin_ns
    return origin if origin in _EPOCH_NS else None


_LAUNCH: Final = r"Launch|hipModuleLaunch|Memcpy|Memset"


_MAX_LISTED_CATEGORIES: Final = 5
"""Categories listed in a message."""


def report_issues(trace: Trace, roles: Roles, events: KinetoEvents, ops: Ops, collector: Collector) -> None:
    """Report what is missing from a trace and why, and what was omitted."""
    if events.implausible:
        collector.issue("warning", None, "", dropped_events_text(events.implausible))
    if events.unlinked_calls:
        reason = (
            f"{plural(events.unlinked_calls, 'API call')} not linked to GPU work: several processes in the file use "
            "the same correlation ids; open one trace for each process"
        )
        collector.issue("warning", None, "", reason)
    if events.shared_gpu is not None:
        reason = (
            f"several processes of the file have work on GPU {events.shared_gpu}, as if ranks were merged into one "
            "file: their GPUs count as one, so its busy and idle times are wrong; open the traces of the ranks instead"
        )
        collector.issue("warning", None, "", reason)
    if events.gpu.is_empty():
        _report_no_gpu_work(roles, events, collector)
    if events.skipped_tasks:
        reason = f"{plural(events.skipped_tasks, 'task')} of the NPU skipped: not kernels or copies"
        collector.issue("info", None, "", reason)
    if events.collectives.height:
        count = f"{events.collectives.height:,}"
        reason = f"collective operations ({count}) overlap the kernels: shown as {HCCL} ranges, not kernels"
        collector.issue("info", None, "", reason)
    if ops.paths_are_cut:
        collector.issue(
            "info",
            None,
            "",
            "some stacks or groups exceed 16 KiB or 1000 levels: their innermost part is omitted",
        )
    add_overhead(events.overhead, events.gpu, TOOL, collector)
    memory = trace.instants.filter(matching(trace.instants["name"], MEMORY_EVENT))
    implausible = memory.filter(is_implausible_start(events.begin_ns)).height
    if implausible:
        collector.issue("warning", None, "[memory]", dropped_events_text(implausible))
    _report_failed_allocations(trace, collector)
    lost = memory["bytes"].null_count()
    if lost:
        collector.issue("warning", None, "[memory]", f"{plural(lost, 'memory event')} skipped: no size recorded")


def _report_failed_allocations(trace: Trace, collector: Collector) -> None:
    failed = trace.instants.filter(matching(trace.instants["name"], OUT_OF_MEMORY))
    if failed.is_empty():
        return
    first_failure = failed.row(0, named=True)
    size_clause = f", first for {brief_size(first_failure['bytes'])}" if (first_failure["bytes"] or 0) > 0 else ""
    reason = f"memory ran out: {plural(failed.height, 'allocation')} failed{size_clause}"
    collector.issue("warning", first_failure["line"], str(first_failure["name"]), reason)


def report_unread(roles: Roles, collector: Collector) -> None:
    """Report the events that were not read."""
    unread = roles.unread_categories()
    if not unread:
        return
    count = sum(events for _, events in unread)
    names = [f"`{name[:40]}`" for name, _ in unread if name is not None]
    more_text = [f"{len(names) - _MAX_LISTED_CATEGORIES} more"] if len(names) > _MAX_LISTED_CATEGORIES else []
    unnamed = ["no category"] if len(names) < len(unread) else []
    listed = ", ".join(names[:_MAX_LISTED_CATEGORIES] + more_text + unnamed)
    reason = f"{plural(count, 'event')} skipped: not recognized as ops, API calls or GPU work ({listed})"
    collector.issue("info", None, "", reason)


def _report_no_gpu_work(roles: Roles, events: KinetoEvents, collector: Collector) -> None:
    launches = events.calls.filter(matching(events.calls["name"], _LAUNCH))
    if launches.height:
        collector.issue(
            "warning",
            None,
            str(launches["name"][0]),
            f"the trace has {plural(launches.height, 'launch or copy', 'launches and copies')} but no GPU work: "
            "another profiler was active (nsys, ncu, DCGM), or recording stopped before the GPU finished; stop the "
            "other profiler, or call torch.cuda.synchronize() before the profiler stops, and record again",
        )
    elif roles.is_ascend:
        reason = (
            "no work of the NPU in this trace: open kernel_details.csv or ascend_pytorch_profiler*.db of the same run"
        )
        collector.issue("warning", None, "", reason)
    elif roles.unread_categories():
        reason = "no GPU work in the trace: the skipped events may belong to another kind of accelerator"
        collector.issue("warning", None, "", reason)
    elif events.ops.height or events.ranges.height:
        collector.issue(
            "info",
            None,
            "",
            "no GPU work: nothing ran on a GPU, or GPU recording was off; to turn it on, pass "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] to torch.profiler.profile",
        )
