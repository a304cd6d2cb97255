"""Loads traces of the PyTorch profiler (Kineto), in Chrome's trace event format; one session per rank."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.correlation.iteration_ranges import Steps, mark_steps
from tui.correlation.launches import add_wait_columns, iterations_at_times, link_ops, nest, parents
from tui.correlation.plausible_times import drop_outlier_events
from tui.loaders.ascend_csv import MSPROF, NPU_TOOL
from tui.loaders.base import Format, ProgressCallback, keep_going, sum_by_name
from tui.loaders.chrome_trace.stream import looks_like_trace
from tui.loaders.collector import Collector
from tui.loaders.kineto.events import (
    CALL_TO_WORK,
    FLOWS,
    GPU_ROLES,
    LEGACY,
    SPLIT,
    UNCATEGORIZED,
    WANTED_ARGS,
    Era,
    KinetoEvents,
    Roles,
    events_by_role,
    memory_events,
)
from tui.loaders.kineto.kineto_activities import (
    FORMAT_NAME,
    add_flow_launches,
    build_activities,
    device_numbers,
    is_of_cuda,
    is_of_hip,
    main_process,
    numbers_agents,
    nvprof_name,
    recorded_devices,
    report_issues,
    report_unread,
    session_facts,
    without_impossible_durations,
)
from tui.loaders.kineto.ops import Ops, build_ops
from tui.model.errors import ProftuiError
from tui.model.names import kind_by_prefix, short_name
from tui.model.schema import NAME, RANGES
from tui.runtime import BLOCK_BYTES, keep_freed_memory, run_concurrently
from tui.text import map_distinct, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.collector import Value
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile


_PROCESS: Final = re.compile(r"\[([^\[\]]{1,100})\] (.{1,100})")
_RANK: Final = re.compile(r"(?:TP|rank)[-_ ]?([0-9]{1,6})", re.IGNORECASE)
"""A label that is only a rank. A label with several kinds of parallelism holds no global rank."""


def split_by_rank(trace: Trace) -> Iterator[tuple[str | None, Trace]]:
    """Yield the part of each rank in a merged trace, with its label; an unmerged trace unchanged, with None.

    Correlation ids restart in each rank, so ids of two ranks must not be compared. Events of processes without a label
    belong to no rank.

    Args:
        trace: The trace; its ``parts`` are emptied.
    """
    processes = pl.concat(rows["pid"].unique() for rows in trace.parts.values() if "pid" in rows.columns).unique()
    labels = {match[1] for process in processes.cast(pl.String).drop_nulls() if (match := _PROCESS.fullmatch(process))}
    if not labels:
        yield None, trace
        return
    rank_parts = dict(trace.parts)
    trace.parts.clear()
    for label in sorted(labels):
        yield (
            label,
            replace(
                trace,
                metadata=_metadata_of_rank(trace.metadata, label),
                parts={role: _rows_of_rank(rows, label) for role, rows in rank_parts.items()},
                instants=_rows_of_rank(trace.instants, label),
                flows=_rows_of_rank(trace.flows, label),
                names=_rows_of_rank(trace.names, label),
            ),
        )


def _rows_of_rank(rows: pl.DataFrame, label: str) -> pl.DataFrame:
    """Return the rows of a rank, with their original processes."""

    def process(pid: str) -> str | None:
        match = _PROCESS.fullmatch(pid)
        return match[2] if match and match[1] == label else None

    rank_rows = rows.with_columns(map_distinct(rows["pid"], process, NAME).alias("pid"))
    return rank_rows.filter(pl.col("pid").is_not_null())


def _metadata_of_rank(metadata: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the metadata with the rank in the label; a merged trace records only the rank of the first part."""
    recorded = metadata.get("distributedInfo")
    info = {key: value for key, value in recorded.items() if key != "rank"} if isinstance(recorded, dict) else {}
    rank = _RANK.fullmatch(label)
    return {**metadata, "distributedInfo": info | ({"rank": int(rank[1])} if rank else {})}


_MIN_CORRECT: Final = 0.95
"""The minimum share of correct ids, among those that launches can verify, for ids to be used."""
_SLICE: Final = 1 << 16
"""Rows that are checked at once."""
_MIN_CORRECT_IDS: Final = 20
"""This number of correct ids, without a wrong one, proves that ids are those of ops."""


def convert(trace: Trace, roles: Roles, collector: Collector, *, display_name: str) -> None:
    """Add a trace to the collector: one session, or one for each rank of a merged trace.

    Args:
        trace: The trace; its ``parts`` are emptied.
        roles: Facts about all of its events.
        collector: Receives frames and issues.
        display_name: The name of the file in messages.

    Raises:
        ProftuiError: The trace holds no events of PyTorch's profiler.
    """
    if not roles.is_ascend:
        trace.parts.pop(UNCATEGORIZED)
    if is_legacy(trace):
        convert_legacy(trace, collector, display_name=display_name)
        return
    if not any(rows.height for role, rows in trace.parts.items() if role != "overhead"):
        if trace.metadata.keys() & {"schemaVersion", "deviceProperties"}:
            description = "a trace of PyTorch's profiler without ops and GPU work"
            hint = "record while the program runs: with torch.profiler.profile() as p: step()"
        else:
            description, hint = roles.describe()
        raise ProftuiError(f"{display_name}: no profile found: {description}", hint)
    count = sum(rows.height for rows in trace.parts.values())
    for label, rank_trace in split_by_rank(trace):
        count -= sum(rows.height for rows in rank_trace.parts.values())
        _convert_rank(rank_trace, roles, collector, display_name=display_name)
        if label is not None:
            reason = f"the file has several ranks, one session each: this is `{label}`"
            collector.issue("info", None, "", reason)
    if count:
        reason = f"{plural(count, 'event')} skipped: the file has several ranks, and their process names none"
        collector.issue("warning", None, "", reason)
    report_unread(roles, collector)


def _convert_rank(trace: Trace, roles: Roles, collector: Collector, *, display_name: str) -> None:
    """Add the events of one rank to the collector, as one session."""
    events = events_by_role(trace, roles, display_name=display_name)
    begin_ns = trace.origin_ns + events.begin_ns
    steps = _ranges(events)
    step_ranges = steps.ranges.filter(pl.col("iteration").is_not_null())
    flows = trace.flows.with_columns(pl.col("start_ns") - events.begin_ns)
    is_step = steps.ranges["iteration"].is_not_null()
    ops, work, iterations, pid = run_concurrently(
        lambda: build_ops(events, flows, is_step),
        lambda: build_activities(events, is_of_cuda=is_of_cuda(trace.metadata, events.calls)),
        lambda: iterations_at_times(step_ranges, events.ops["start_ns"]),
        lambda: main_process(events),
    )
    assert isinstance(ops, Ops)
    assert isinstance(work, pl.DataFrame)
    assert isinstance(iterations, pl.Series)
    assert pid is None or isinstance(pid, int)
    session = collector.open_session(FORMAT_NAME, None, pid=pid)
    session.facts = session_facts(trace.metadata, name=collector.source, pid=pid, begin_ns=begin_ns)
    session.facts["iteration_source"] = steps.source
    if roles.is_ascend:
        work = add_flow_launches(work, flows)
        session.facts["tool"] = NPU_TOOL
        if events.ops.is_empty():
            session.facts.update(tool=MSPROF, framework=None)
    elif roles.devices:
        session.facts["framework"] = f"{session.facts['framework']} ({roles.devices})"
    collector.resolution(_resolution(events, begin_ns))
    if is_of_hip(trace.metadata, events.calls):
        work = _without_impossible_durations(work, collector)
    activities = _join_ops(work, ops, events.era)
    devices = recorded_devices(trace.metadata)
    if numbers_agents(trace.metadata):
        activities = _with_listed_devices(activities, events, devices, collector)
    activities = activities.with_columns(iterations_at_times(step_ranges, activities["launch_ns"]))
    collector.add_frames(
        {
            "activities": activities.drop("launch_ns", "launch_pid", "launch_tid", "external_id"),
            "api_calls": add_wait_columns(
                events.calls.select("name", "start_ns", "duration_ns", "pid", "tid", "correlation", "kernel", "line"),
                events.waits,
            ),
            "ops": ops.frame.with_columns(iterations),
            "ranges": pl.concat([steps.ranges, events.collectives], how="diagonal"),
            "memory_events": memory_events(trace.instants, events.begin_ns),
        }
    )
    for row in devices:
        collector.add("devices", row)
    report_issues(trace, roles, events, ops, collector)


def _without_impossible_durations(work: pl.DataFrame, collector: Collector) -> pl.DataFrame:
    """Drop impossible durations and report them."""
    possible, lines = without_impossible_durations(work)
    if not lines.is_empty():
        ends = plural(len(lines), "GPU activity ends", "GPU activities end")
        reason = (
            f"{ends} after several later ones of the same stream, which the profiler of AMD writes at times: the "
            "duration is wrong and shown as unknown"
        )
        collector.issue("warning", lines[0], "", reason)
    return possible


def _with_listed_devices(
    activities: pl.DataFrame, events: KinetoEvents, devices: Sequence[Mapping[str, Value]], collector: Collector
) -> pl.DataFrame:
    """Change the device numbers of GPU work on AMD to those of the list of devices."""
    listed = [row["device"] for row in devices if isinstance(row["device"], int)]
    numbers = device_numbers(activities, events.calls, listed)
    if not numbers:
        return activities
    pairs = ", ".join(f"{agent} as GPU {number}" for agent, number in numbers.items())
    collector.issue(
        "info",
        None,
        "",
        f"the trace numbers agents, not GPUs: agents are numbered in order, {pairs}",
    )
    return activities.with_columns(pl.col("device").replace(numbers))


def _ranges(events: KinetoEvents) -> Steps:
    """Return ``ranges`` from the annotations of a trace; those that mark iterations are numbered."""
    ranges = events.ranges
    depth = nest(ranges).depth
    frame = ranges.select(
        "name", "start_ns", "duration_ns", "pid", "tid", "line", depth=pl.Series(depth, dtype=pl.Int32)
    )
    return mark_steps(
        frame.with_columns(domain=pl.lit(None, NAME), iteration=pl.lit(None, RANGES["iteration"])), kind="annotation"
    )


def _resolution(events: KinetoEvents, begin_ns: int) -> int:
    """Return the resolution of times: some versions write whole microseconds."""
    for rows in (events.ops, events.gpu, events.calls, events.ranges):
        # Usually the first rows decide.
        for block in rows.select("start_ns").iter_slices(_SLICE):
            if block.select(((pl.col("start_ns") + begin_ns) % 1000 != 0).any()).item():
                return 1
    return 1000


def _join_ops(activities: pl.DataFrame, ops: Ops, era: Era) -> pl.DataFrame:
    """Join activities with the ops that launched them: by the launch, otherwise by the id if ids are reliable."""
    if ops.frame.is_empty():
        return activities
    linked_by_launch = link_ops(activities, ops.frame, ops.nesting)
    ops_by_id = (
        ops.frame.select(by_id="op", external_id=ops.external_ids)
        .filter(
            pl.col("external_id") > 0, pl.col("external_id").is_in(linked_by_launch["external_id"].unique().implode())
        )
        .unique("external_id", keep="first", maintain_order=True)
    )
    joined = linked_by_launch.join(ops_by_id, on="external_id", how="left", maintain_order="left")
    if not _are_op_ids(joined, era):
        return linked_by_launch
    # Before the newest versions, the id of work without a known op is its correlation id.
    is_correlation = pl.col("external_id").eq_missing(pl.col("correlation"))
    uses_id = pl.col("launch_ns").is_null() & pl.col("by_id").is_not_null() & ~is_correlation
    return joined.with_columns(
        pl.when(uses_id).then("by_id").otherwise("op").alias("op"),
        pl.when(uses_id).then(pl.lit("external id", NAME)).otherwise("op_join").alias("op_join"),
    ).drop("by_id")


def _are_op_ids(joined: pl.DataFrame, era: Era) -> bool:
    """Return whether the ids of GPU work are those of its ops, as verified by launches.

    Args:
        joined: GPU work with ``op`` (by the launch) and ``by_id``.
        era: The version of the profiler.
    """
    comparable = joined.filter(pl.col("by_id").is_not_null(), pl.col("op").is_not_null())
    equal = comparable.filter(pl.col("by_id") == pl.col("op")).height
    if era is Era.MIDDLE:
        # The last of these versions writes the ids of ops; many correct ids without a wrong one prove it.
        return equal == comparable.height >= _MIN_CORRECT_IDS
    return equal >= _MIN_CORRECT * comparable.height


FORMAT: Final = Format(
    name=FORMAT_NAME,
    title="PyTorch profiler trace",
    recognized_by='a JSON document with "traceEvents" in categories of the PyTorch profiler, or events of '
    '"Ascend Hardware"',
    feeds=("devices", "activities", "api_calls", "ops", "ranges", "tool_figures", "memory_events"),
    record_with="torch.profiler.profile(activities=[CPU, CUDA], record_shapes=True), then export_chrome_trace(FILE)",
)

_TORCH_KEYS: Final = re.compile(
    rb'"(?:schemaVersion|deviceProperties|baseTimeNanoseconds|traceName)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|user_annotation|python_function|cuda_runtime|gpu_memcpy|Operator|Runtime|Kernel)"'
    rb'|"pid"\s*:\s*"(?:CPU|CUDA) functions"'
    rb'|"Physic Stream Id"\s*:|"args"\s*:\s*\{\s*"name"\s*:\s*"(?:CANN|Ascend Hardware)"\s*\}'
)


_PREVIEWED: Final = MappingProxyType({"op": "CPU ops", "python": "Python functions", "call": "API calls"})
"""Other rows that the preview counts; they usually precede GPU work."""


class KinetoLoader:
    """Reads the traces that PyTorch's profiler writes."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence for keys and categories of PyTorch's profiler, a low one for other trace events."""
        if head.lstrip()[:1] in (b"{", b"[") and _TORCH_KEYS.search(head):
            return 0.95
        return 0.3 if looks_like_trace(head) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the trace.

        Raises:
            ProftuiError: The trace holds no events of PyTorch's profiler.
        """

        def add_to_preview(role: str, rows: pl.DataFrame) -> None:
            if role in GPU_ROLES:
                source.preview.add(sum_by_name(rows))
            elif role in _PREVIEWED:
                source.preview.count(_PREVIEWED[role], rows.height)

        from tui.loaders.chrome_trace.read_trace import read_trace  # not needed to recognize a file

        is_watched = source.preview.is_wanted
        trace = read_trace(
            source,
            WANTED_ARGS,
            on_progress,
            split=SPLIT,
            flow_categories=FLOWS,
            watch=add_to_preview if is_watched else None,
        )
        collector = Collector(source.name)
        with keep_freed_memory(BLOCK_BYTES):
            convert(trace, Roles(trace), collector, display_name=source.display_name)
        collector.add_issues([*source.notes, *trace.notes])
        return collector.profile(partial=trace.partial)


_CPU, _GPU = LEGACY
_PYTHON_CALL: Final = r"^(?:<built-in (?:function|method) .*>|[^:]+\.py\([0-9]+\): .+|nn\.Module: .+)$"
"""Names of functions and modules: with their call stacks, PyTorch exports these among the ops."""


def is_legacy(trace: Trace) -> bool:
    """Return whether the trace is an export of PyTorch's first profiler."""
    return trace.parts["legacy"].height > 0


def convert_legacy(trace: Trace, collector: Collector, *, display_name: str) -> None:
    """Add an export of PyTorch's first profiler to the collector, as one session.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    plausible, begin_ns = drop_outlier_events({"all": _legacy_events(trace)}, display_name=display_name)
    rows = plausible["all"]
    collector.open_session(FORMAT_NAME, None).facts = {"tool": "PyTorch autograd profiler", "framework": "PyTorch"}
    calls = rows.filter(pl.col("pid") == _CPU).with_columns(pid=pl.lit(None, pl.Int64))
    cpu = calls.filter(~pl.col("name").cast(pl.String).str.contains(_PYTHON_CALL).fill_null(value=False))
    if calls.height > cpu.height:
        collector.issue("info", None, "", f"{plural(calls.height - cpu.height, 'Python function call')} skipped")
    cpu = cpu.sort("start_ns", "duration_ns", descending=[False, True], maintain_order=True)
    gpu = rows.filter(pl.col("pid") == _GPU)
    ops = cpu.select(
        "name",
        "start_ns",
        "duration_ns",
        "tid",
        "line",
        op=pl.int_range(pl.len(), dtype=pl.UInt32),
        parent=parents(nest(cpu)),
        op_source=pl.lit("recorded", NAME),
    )
    names = gpu["name"]
    activities = gpu.select(
        map_distinct(names, lambda name: kind_by_prefix(nvprof_name(name)), NAME)
        .fill_null(pl.lit("kernel", NAME))
        .alias("kind"),
        map_distinct(names, nvprof_name, NAME).alias("name"),
        map_distinct(names, lambda name: short_name(nvprof_name(name)), NAME).alias("short_name"),
        "start_ns",
        "duration_ns",
        "line",
        # In this export, the thread id is the number of the GPU.
        device=pl.col("tid").cast(pl.Int32, strict=False),
    )
    collector.add_frames(
        {
            "ops": ops,
            "activities": _link_to_ops(activities, ops, trace.flows.with_columns(pl.col("start_ns") - begin_ns)),
        }
    )
    collector.issue(
        "info",
        None,
        "",
        "torch.autograd.profiler exports ops and GPU times, but no launch configurations, streams or API calls; "
        "for those, record with torch.profiler.profile",
    )


def _legacy_events(trace: Trace) -> pl.DataFrame:
    return trace.parts.pop("legacy").with_columns(
        pl.col("pid").cast(pl.String), pl.col("tid").cast(pl.String).cast(pl.Int64, strict=False)
    )


def _link_to_ops(activities: pl.DataFrame, ops: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Link GPU work to ops by the flow events from the start of an op to the start of its GPU work."""
    if ops.is_empty():
        return activities
    arrows = flows.filter(pl.col("cat").cast(pl.String) == CALL_TO_WORK).select(
        "id", "start_ns", pl.col("ph").cast(pl.String), tid=pl.col("tid").cast(pl.String).cast(pl.Int64, strict=False)
    )
    innermost = ops.select("op", "tid", "start_ns").unique(("tid", "start_ns"), keep="last")
    flow_starts = arrows.filter(pl.col("ph") == "s").join(innermost, on=("tid", "start_ns")).unique("id", keep="first")
    gpu_flows = (
        arrows.filter(pl.col("ph") == "f")
        .join(flow_starts.select("id", "op"), on="id")
        .select("start_ns", "op", device=pl.col("tid").cast(pl.Int32, strict=False))
        .unique(("device", "start_ns"), keep="first")
    )
    activities_with_op = activities.join(gpu_flows, on=("device", "start_ns"), how="left", maintain_order="left")
    op_join = pl.when(pl.col("op").is_not_null()).then(pl.lit("recorded")).otherwise(pl.lit("launch not recorded"))
    return activities_with_op.with_columns(op_join.cast(NAME).alias("op_join"))
