"""What a user should know of a trace beside its figures, as issues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.loaders.kineto.categories import matching
from tui.loaders.kineto.facts import TOOL
from tui.loaders.kineto.memory import EVENT, OUT_OF_MEMORY, is_far
from tui.loaders.linking.one_recording import far_in_words
from tui.loaders.linking.overhead import add_overhead
from tui.loaders.sizes import size_in_words

if TYPE_CHECKING:
    from tui.loaders.chrome.trace import Trace
    from tui.loaders.collector import Collector
    from tui.loaders.kineto.events import Events
    from tui.loaders.kineto.ops import Ops
    from tui.loaders.kineto.roles import Roles

_LAUNCH: Final = r"Launch|hipModuleLaunch|Memcpy|Memset"


_MOST_NAMED: Final = 5
"""Categories that are named in a message."""


def tell_of(trace: Trace, roles: Roles, events: Events, ops: Ops, collector: Collector) -> None:
    """Note what is missing from a trace and why, and what was left out of it."""
    if events.far:
        collector.issue("warning", None, "", far_in_words(events.far))
    if events.gpu.is_empty():
        _tell_of_no_gpu_work(roles, events, collector)
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
        collector.issue("warning", None, "[memory]", far_in_words(far))
    _tell_of_failed_allocations(trace, collector)
    lost = memory["bytes"].null_count()
    if lost:
        collector.issue("warning", None, "[memory]", f"{_left_out(lost, 'memory event')}: no size is told")


def _tell_of_failed_allocations(trace: Trace, collector: Collector) -> None:
    failed = trace.instants.filter(matching(trace.instants["name"], OUT_OF_MEMORY))
    if failed.is_empty():
        return
    first = failed.row(0, named=True)
    asked = f", first for {size_in_words(first['bytes'])}" if (first["bytes"] or 0) > 0 else ""
    reason = f"memory ran out: {_counted(failed.height, 'allocation', 'allocations')} failed{asked}"
    collector.issue("warning", first["line"], str(first["name"]), reason)


def tell_of_not_read(roles: Roles, collector: Collector) -> None:
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


def _tell_of_no_gpu_work(roles: Roles, events: Events, collector: Collector) -> None:
    launches = events.calls.filter(matching(events.calls["name"], _LAUNCH))
    if launches.height:
        collector.issue(
            "warning",
            None,
            str(launches["name"][0]),
            f"the trace has {_counted(launches.height, 'launch or copy', 'launches and copies')} but no work of the "
            "GPU: another profiler may have held the GPU's counters (nsys, ncu, DCGM, a second profiler), or the "
            "recording ended before the work did; end the other one, or call torch.cuda.synchronize() before "
            "the profiler stops, and record again",
        )
    elif roles.not_read():
        reason = (
            "no work of a GPU is known in the trace: events that are left out may be of an accelerator of another kind"
        )
        collector.issue("warning", None, "", reason)
    elif events.ops.height or events.ranges.height:
        collector.issue(
            "info",
            None,
            "",
            "nothing ran on a GPU while this was recorded, or the profiler was not asked for it: "
            "pass activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] to torch.profiler.profile",
        )
