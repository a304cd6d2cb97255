"""Which views an input has data for, what to record for the others, and the output of ``proftui inspect``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis import needs
from tui.analysis.devices import VENDORS, session_vendor, tools_to_record
from tui.analysis.durations import total
from tui.analysis.grouping import unique_values
from tui.analysis.issues import issue_counts, missing_text_reason
from tui.analysis.iterations.iteration_table import iterations, reasons, sources
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.memo import once_per_profile
from tui.analysis.needs import (
    API_TRACE,
    API_WORK,
    COPIES,
    DEVICES,
    EXTRA_SUMMARIES,
    GPU_WORK,
    ITERATIONS,
    LAUNCH_CONFIGS,
    LAYERS,
    METRICS,
    NEEDS_OTHER_TOOL,
    OPS,
    RANGES,
    RECORDABLE,
    SHAPES,
    STACKS,
    START_TIMES,
    TEXT,
    TOOL_REPORT,
    Need,
    Tool,
    records_copies,
)
from tui.analysis.ops.ops_by_name import has_recorded_ops
from tui.model.names import kind_by_name
from tui.tables import needs_of_views
from tui.views import VIEWS

if TYPE_CHECKING:
    from tui.model.profile import Profile

OK: Final = "ok"
"""The value of a view that can be shown."""

_NVIDIA_TOOL: Final = re.compile(r"(?:open a text log of )?(?:nvprof|nsys|ncu|dlprof)\b")
"""Instructions that record only GPUs of NVIDIA."""
_GPU_NEEDS: Final = frozenset({GPU_WORK, START_TIMES, LAUNCH_CONFIGS, DEVICES, API_WORK, API_TRACE, COPIES})
_FED_BY_OPS: Final = frozenset({"op-types", "group-ops", "ops-and-kernels"})
"""Views that recorded ops suffice for: without GPU work they show CPU times."""


def views(profile: Profile) -> dict[str, str]:
    """Return ``ok`` for every view of the program, or why it cannot be shown and what to record."""
    lacks = set(missing_needs(profile))
    if profile["activities"].height or profile["devices"].height:
        # Utilization and facts of a GPU need no name of it; the dashboard still asks for it.
        lacks.discard(DEVICES)
    fed = set(_FED_BY_OPS) if has_recorded_ops(profile) else set()
    if sources(profile):
        # Recorded, or inferred from start times; a run without repetition is one iteration.
        fed.add("iterations")
    if profile["memory_events"].height or profile["memory_segments"].height:
        fed.add("memory")
    if any(_any(profile[frame]["start_ns"]) for frame in ("api_calls", "ops", "ranges")):
        # Threads are lanes without any GPU work, too.
        fed.add("timeline")
    if not {API_WORK, TOOL_REPORT, LAYERS} <= lacks:
        # Rules on API calls and layers, and findings of the recording tool, need no GPU work.
        fed.add("expert-systems")
    issues = issue_counts(profile)
    if METRICS not in lacks or issues["warning"] or issues["error"] or profile["memory_events"].height:
        # Nor do rules on memory and on the quality of the recording, whose findings the dashboard shows.
        fed.add("expert-systems")
    answers, needed = {}, needs_of_views()
    for view in VIEWS:
        name = "" if view.name in fed else needed.get(view.name, "")
        need = getattr(needs, name) if name else None
        answers[view.name] = OK if need is None or need not in lacks else missing_data_text(profile, need)
    if not profile.texts:
        answers["log"] = missing_text_reason(profile)
    return answers


def missing_needs(profile: Profile) -> list[Need]:
    """Return the data that no session of an input has, with the command of its own tool that records each."""
    activities, summary = profile["activities"], profile["summary"]
    sections = set(summary["section"].unique().to_list())
    kinds = set(unique_values(activities["kind"]).to_list())
    gpu_totals = summary.filter(section="gpu").select(kind=kind_by_name())
    copies = (
        kinds & {"memcpy", "memset", "um"}
        or "um" in sections
        or not gpu_totals.filter(pl.col("kind") != "kernel").is_empty()
    )
    has_kernels = bool(kinds & {"kernel", "graph"} or not gpu_totals.filter(kind="kernel").is_empty())
    holds = {
        GPU_WORK: _has_gpu_work(profile),
        START_TIMES: _any(activities["start_ns"]),
        # Copies and memsets have none.
        LAUNCH_CONFIGS: _any(activities["block_x"]) or (_has_gpu_work(profile) and not has_kernels),
        DEVICES: _any(profile["devices"]["name"]),
        API_WORK: profile["api_calls"].height > 0 or "api" in sections,
        API_TRACE: _any(profile["api_calls"]["start_ns"]),
        METRICS: profile["metrics"].height > 0,
        LAYERS: any(_any(profile["layers"][column]) for column in ("time_ns", "predicted_ns")),
        RANGES: profile["ranges"].height > 0 or "nvtx" in sections,
        COPIES: bool(copies),
        EXTRA_SUMMARIES: bool(sections - {"gpu", "api"}),
        OPS: has_recorded_ops(profile),
        SHAPES: _any(profile["ops"]["input_shapes"]),
        STACKS: _any(profile["ops"]["stack"]),
        ITERATIONS: any(source != WHOLE_RUN for source in sources(profile).values()),
        TOOL_REPORT: profile["tool_figures"].height + profile["tool_findings"].height > 0,
        TEXT: bool(profile.texts),
    }
    return [need_for_tools(profile, need) for need, is_recorded in holds.items() if not is_recorded]


def recordable_needs(profile: Profile) -> list[Need]:
    """Return the missing data that the input's own tool can record."""
    tools, lacks = tools_to_record(profile), missing_needs(profile)
    # Without any API calls, do not ask for single calls.
    excluded = {API_TRACE} if API_WORK in lacks else set()
    return [
        _in_words_of_tool(profile, need)
        for need in lacks
        if need in RECORDABLE
        and need.record
        and need not in excluded
        and (need not in NEEDS_OTHER_TOOL or need.is_recordable(tools))
    ]


def missing_data_text(profile: Profile, need: Need) -> str:
    """Return the text of an empty table: what is not recorded, and the command that records it."""
    if need is START_TIMES and not _has_gpu_work(profile):
        need = GPU_WORK
    if need == COPIES and profile["activities"].height and records_copies(profile):
        # Recorded again in the same way, it would not have any either.
        return "the recorded GPU work has no copies"
    return _in_words_of_tool(profile, need_for_tools(profile, need)).missing


def _in_words_of_tool(profile: Profile, need: Need) -> Need:
    """Return a need with the name that the recording tool has for it; it is equal to no other need."""
    tools = tools_to_record(profile)
    vendor = session_vendor(profile)
    vendors = (vendor, *(vendor for vendor in VENDORS if vendor.tool in tools))
    if need != RANGES or not any(vendor.name for vendor in vendors):
        return need
    words = next((vendor.ranges for vendor in vendors if vendor.ranges), "")
    return replace(need, name=f"{words} ranges".lstrip())


def recording_advice(profile: Profile, need: Need) -> str:
    """Return the command that records a need, as ``record with ...``."""
    return need_for_tools(profile, need).advice


def need_for_tools(profile: Profile, need: Need) -> Need:
    """Return a need with the command of a tool that records it on these GPUs: NVIDIA's tools record only its own."""
    tools = tools_to_record(profile)
    tool_need = need.with_tools(tools)
    if need in (OPS, SHAPES) and _is_tensorrt(profile):
        # No framework runs the layers of an engine.
        return replace(tool_need, record="")
    if need in _GPU_NEEDS and tools == (Tool.XLA,) and _has_tpu(profile):
        return replace(tool_need, record="open Ranges, which shows the TPU work")
    vendor = session_vendor(profile)
    is_of_nvidia = _NVIDIA_TOOL.match(tool_need.record) is not None
    if not vendor.name:
        is_useless = is_of_nvidia and tools == (Tool.XLA,) and _has_tpu(profile)
        return replace(tool_need, record="") if is_useless else tool_need
    record = tool_need.record
    if is_of_nvidia:
        record = need.with_tools((vendor.tool,)).record if vendor.tool else ""
        return replace(need, record="" if _NVIDIA_TOOL.match(record) else record)
    for word, term in vendor.torch_terms:
        if word in record:
            record = record.replace(word, term) if term else ""
    return replace(tool_need, record=record)


@once_per_profile("sessions")
def _is_tensorrt(profile: Profile) -> bool:
    """Return whether all sessions are of trtexec."""
    frameworks = profile["sessions"]["framework"].cast(pl.String)
    is_tensorrt = frameworks.str.contains("^TensorRT(?: |$)").fill_null(value=False)
    return bool(is_tensorrt.all()) and frameworks.len() > 0


@once_per_profile("ranges")
def _has_tpu(profile: Profile) -> bool:
    """Return whether the profile has TPU work, which does not count as GPU work."""
    lanes = unique_values(profile["ranges"]["domain"])
    return bool(lanes.cast(pl.String).str.starts_with("TPU").any())


def _has_gpu_work(profile: Profile) -> bool:
    """Return whether single activities or totals of GPU work are recorded."""
    return profile["activities"].height > 0 or bool((profile["summary"]["section"] == "gpu").any())


def _any(column: pl.Series) -> bool:
    return column.len() > column.null_count()


_COUNTED: Final = ("metrics", "layers", "ops", "ranges", "memory_events", "memory_segments", "memory_blocks")
"""Frames of which only the number of rows is reported."""


def inspect(profile: Profile) -> dict[str, Any]:
    """Return the contents of a profile, by session, as values that JSON can represent.

    Keys: source, sessions (session, format, pid, command, first_line, last_line, frames, memory), issues (number by
    severity), views (``ok`` or the reason, see `views`); ``partial`` where not all was read. ``frames`` names only what
    is not empty. ``launches`` of ``metrics`` is how many launches its best covered metric is of. Sums are of the known
    values, null if none is known.
    """
    frames_by_session = _frames_by_session(profile)
    memory = _memory_by_session(profile)
    sessions = profile["sessions"].select("session", "format", "pid", "command", "first_line", "last_line")
    answer: dict[str, Any] = {
        "source": profile.sources[0],
        "sessions": [
            {**row, "frames": frames_by_session.get(row["session"], {}), **memory.get(row["session"], {})}
            for row in sessions.iter_rows(named=True)
        ],
        "issues": issue_counts(profile),
        "views": views(profile),
    }
    if len(profile.sources) > 1:
        answer["sources"] = list(profile.sources)
    if profile.partial:
        answer["partial"] = profile.partial
    return answer


def _memory_by_session(profile: Profile) -> dict[int, dict[str, Any]]:
    """Return ``memory`` of sessions that record the allocator: reserved and allocated bytes by device."""
    sums = (
        profile["memory_segments"]
        .group_by("session", "device")
        .agg(total("reserved_bytes").alias("reserved_bytes"), total("allocated_bytes").alias("allocated_bytes"))
    )
    memory_by_session: dict[int, dict[str, Any]] = {}
    for row in sums.sort("session", "device").iter_rows(named=True):
        session_memory = memory_by_session.setdefault(row.pop("session"), {"memory": {}})
        session_memory["memory"][str(row.pop("device"))] = row
    return memory_by_session


def _frames_by_session(profile: Profile) -> dict[int, dict[str, Any]]:
    frames_by_session: dict[int, dict[str, Any]] = {}

    def frame_facts(session: int, frame: str) -> dict[str, Any]:
        facts: dict[str, Any] = frames_by_session.setdefault(session, {}).setdefault(frame, {})
        return facts

    by_metric = profile["metrics"].group_by("session", "metric").agg(pl.col("invocations").sum())
    for row in by_metric.group_by("session").agg(launches=pl.col("invocations").max()).iter_rows(named=True):
        frame_facts(row.pop("session"), "metrics").update(row)
    timed = (pl.len().alias("rows"), total("duration_ns").alias("duration_ns"))
    for row in profile["activities"].group_by("session").agg(*timed).sort("session").iter_rows(named=True):
        frame_facts(row.pop("session"), "activities").update(row)
    kinds = profile["activities"].group_by("session", "kind").agg(*timed).sort("session", "kind")
    for row in kinds.iter_rows(named=True):
        frame_facts(row.pop("session"), "activities").setdefault("by_kind", {})[row.pop("kind")] = row
    for row in profile["api_calls"].group_by("session").agg(*timed).iter_rows(named=True):
        frame_facts(row.pop("session"), "api_calls").update(row)
    sections = (
        profile["summary"]
        .group_by("session", "section", maintain_order=True)
        .agg(pl.len().alias("rows"), total("calls").alias("calls"), total("total_ns").alias("total_ns"))
    )
    for row in sections.iter_rows(named=True):
        summary = frame_facts(row.pop("session"), "summary")
        section = row.pop("section")
        summary[section] = {**row, "duration_ns": row["total_ns"]}
        summary["rows"] = summary.get("rows", 0) + row["rows"]
    for frame in _COUNTED:
        for session, rows in profile[frame].group_by("session").len().iter_rows():
            frame_facts(session, frame)["rows"] = rows
    counted = iterations(profile).drop_nulls("iteration").group_by("session").len()
    named = dict(profile["sessions"].select("session", "iteration_source").iter_rows())
    session_sources, session_reasons = sources(profile), reasons(profile)
    for session, rows in counted.sort("session").iter_rows():
        source = session_sources[session]
        answer = {"rows": rows, "source": named[session] or source if source == "recorded" else source}
        if session in session_reasons:
            answer["reason"] = session_reasons[session].removeprefix(f"{source}: ")
        frame_facts(session, "iterations").update(answer)
    return frames_by_session
