"""Issues of a Kineto trace that users should know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.correlation.plausible_times import dropped_events_text
from tui.loaders.cupti import add_overhead
from tui.loaders.input_issues import size_text
from tui.loaders.kineto.events import EVENT, OUT_OF_MEMORY, is_far, matching
from tui.loaders.kineto.kineto_facts import TOOL

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.collector import Collector
    from tui.loaders.kineto.event_roles import Roles
    from tui.loaders.kineto.events import KinetoEvents
    from tui.loaders.kineto.ops import Ops

_LAUNCH: Final = r"Launch|hipModuleLaunch|Memcpy|Memset"


_MOST_NAMED: Final = 5
"""Categories that are named in a message."""


def report_issues(trace: Trace, roles: Roles, events: KinetoEvents, ops: Ops, collector: Collector) -> None:
    """Note what is missing from a trace and why, and what was left out of it."""
    if events.far:
        collector.issue("warning", None, "", dropped_events_text(events.far))
    if events.gpu.is_empty():
        _report_no_gpu_work(roles, events, collector)
    if ops.paths_are_cut:
        collector.issue(
            "info",
            None,
            "",
            "some stacks or groups are longer than 16 KB or 1000 levels; their innermost part was left out",
        )
    add_overhead(events.overhead, events.gpu, TOOL, collector)
    memory = trace.instants.filter(matching(trace.instants["name"], EVENT))
    far = memory.filter(is_far(events.begin_ns)).height
    if far:
        collector.issue("warning", None, "[memory]", dropped_events_text(far))
    _report_failed_allocations(trace, collector)
    lost = memory["bytes"].null_count()
    if lost:
        collector.issue("warning", None, "[memory]", f"{_left_out(lost, 'memory event')}: no size recorded")


def _report_failed_allocations(trace: Trace, collector: Collector) -> None:
    failed = trace.instants.filter(matching(trace.instants["name"], OUT_OF_MEMORY))
    if failed.is_empty():
        return
    first = failed.row(0, named=True)
    asked = f", first for {size_text(first['bytes'])}" if (first["bytes"] or 0) > 0 else ""
    reason = f"memory ran out: {_counted(failed.height, 'allocation', 'allocations')} failed{asked}"
    collector.issue("warning", first["line"], str(first["name"]), reason)


def report_unread(roles: Roles, collector: Collector) -> None:
    """Note of which events nothing was made."""
    left = roles.not_read()
    if not left:
        return
    count = sum(events for _, events in left)
    names = [f"`{name[:40]}`" for name, _ in left if name is not None]
    others = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    none = ["no category"] if len(names) < len(left) else []
    told = ", ".join(names[:_MOST_NAMED] + others + none)
    reason = f"{_left_out(count, 'event')}: not known as ops, calls or work of a GPU ({told})"
    collector.issue("info", None, "", reason)


def _counted(count: int, one: str, several: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {several}"


def _left_out(count: int, one: str) -> str:
    return f"{_counted(count, one, one + 's')} {'is' if count == 1 else 'are'} left out"


def _report_no_gpu_work(roles: Roles, events: KinetoEvents, collector: Collector) -> None:
    launches = events.calls.filter(matching(events.calls["name"], _LAUNCH))
    if launches.height:
        collector.issue(
            "warning",
            None,
            str(launches["name"][0]),
            f"the trace has {_counted(launches.height, 'launch or copy', 'launches and copies')} but no GPU "
            "work: another profiler was active (nsys, ncu, DCGM, a second profiler), or recording stopped "
            "before the GPU finished; stop the other profiler, or call torch.cuda.synchronize() before the "
            "profiler stops, and record again",
        )
    elif roles.not_read():
        reason = "no GPU work in the trace: events left out may belong to another kind of accelerator"
        collector.issue("warning", None, "", reason)
    elif events.ops.height or events.ranges.height:
        collector.issue(
            "info",
            None,
            "",
            "no GPU work: nothing ran on a GPU, or the profiler was not asked to record it: pass "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] to torch.profiler.profile",
        )
