"""Busy time and idle gaps of each GPU: their durations, the work around them, and the concurrent CPU activity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.host_calls import HostCalls, host_calls
from tui.analysis.gpu_time.interval_sets import IntervalSet, blocks, find_gaps, from_disjoint, interval_union
from tui.analysis.gpu_time.timelines import Timeline, adjusted_timelines, timelines
from tui.analysis.grouping import partition_by_session
from tui.analysis.launch_calls import launch_calls
from tui.analysis.memo import once_per_profile
from tui.correlation.nesting import take
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IdleGaps:
    """The idle gaps of a timeline, in time order."""

    starts: Ints
    ends: Ints
    next_work: npt.NDArray[np.int32]
    """Index in the timeline of the work that follows each gap."""

    @property
    def lengths_ns(self) -> Ints:
        """Length of each gap, ns."""
        lengths: Ints = self.ends - self.starts
        return lengths

    @property
    def intervals(self) -> IntervalSet:
        """The gaps as an interval set."""
        return from_disjoint(self.starts, self.ends)

    def take(self, indices: Ints) -> IdleGaps:
        """Return the gaps at some indices."""
        return IdleGaps(self.starts[indices], self.ends[indices], self.next_work[indices])


@dataclass(frozen=True, slots=True)
class _Edges:
    """Edges of the gaps of a timeline, which are the edges of its busy intervals as well."""

    opened: Ints
    """Start of the first work, and of the work after each gap."""
    closed: Ints
    """Latest end of all work before each gap, and of all work."""
    next_work: npt.NDArray[np.int32]
    """The index of the following work, as in `IdleGaps`."""


@once_per_profile("activities", "sessions")
def _edges(profile: Profile) -> tuple[_Edges, ...]:
    return tuple(_timeline_edges(timeline) for timeline in timelines(profile))


def _timeline_edges(timeline: Timeline) -> _Edges:
    next_work, gap_ends = find_gaps(timeline.starts, timeline.ends, timeline.resolution_ns)
    opened = np.empty_like(gap_ends)
    opened[0], opened[1:] = timeline.starts[0], take(timeline.starts, next_work)
    return _Edges(opened, gap_ends, next_work)


def device_gaps(profile: Profile) -> tuple[IdleGaps, ...]:
    """Return the idle gaps of each of `timelines`, between its first and last work.

    A gap reaches from the latest end of all previous work to the next start. Gaps shorter than the resolution of the
    start times are unknown and omitted.
    """
    return tuple(IdleGaps(edges.closed[:-1], edges.opened[1:], edges.next_work) for edges in _edges(profile))


@once_per_profile("activities", "sessions")
def busy_sets(profile: Profile) -> tuple[IntervalSet, ...]:
    """Return the busy intervals of each of `timelines`; where starts are rounded, those of `adjusted_timelines`."""
    return tuple(
        _busy(timeline, edges) for timeline, edges in zip(adjusted_timelines(profile), _edges(profile), strict=True)
    )


def _busy(timeline: Timeline, edges: _Edges) -> IntervalSet:
    if timeline.resolution_ns > 1:
        # Gaps shorter than the resolution have no edges.
        return interval_union(timeline.starts, timeline.ends)
    return from_disjoint(edges.opened, edges.closed)


_BUSY_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "activities": pl.Int64,
        "first_ns": pl.Int64,
        "last_ns": pl.Int64,
        "busy_ns": pl.Int64,
    }
)


@once_per_profile("activities", "sessions")
def busy_time(profile: Profile) -> pl.DataFrame:
    """Return busy and idle time of each GPU of each session, from the activities whose start and duration are known.

    Columns: session, device, activities (how many were counted), first_ns (first start on this device), last_ns (last
    end), span_ns (first start to last end on any device of the session), busy_ns (union of the intervals of kernels,
    copies, memsets, unified memory work and whole CUDA graphs), idle_ns (span - busy), busy_pct.

    Start times are rounded to ``sessions.start_resolution_ns``: an overlap shorter than that may be none, and is
    counted as none. ``busy_ns`` is at most the time from the first start to the last end on the device.
    """
    rows = [
        (
            timeline.session,
            timeline.device,
            len(timeline.starts),
            int(timeline.starts[0]),
            int(timeline.ends.max()),
            busy.length_ns,
        )
        for timeline, busy in zip(timelines(profile), busy_sets(profile), strict=True)
    ]
    return (
        pl.DataFrame(rows, schema=_BUSY_SCHEMA, orient="row")
        .with_columns((pl.col("last_ns").max() - pl.col("first_ns").min()).over("session").alias("span_ns"))
        .select(
            "session",
            "device",
            "activities",
            "first_ns",
            "last_ns",
            "span_ns",
            "busy_ns",
            (pl.col("span_ns") - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(pl.col("span_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("span_ns")).alias("busy_pct"),
        )
    )


def busy_contributions(timeline: Timeline) -> tuple[Ints, Ints]:
    """Return the interval that each activity adds to the busy time of its device: starts and ends.

    `busy_time` is the sum of these intervals. They are disjoint, except for overlaps shorter than the resolution.
    """
    previous_ends = np.concatenate((timeline.starts[:1], timeline.latest_ends()[:-1]))
    is_new = previous_ends - timeline.starts < timeline.resolution_ns
    starts = np.where(is_new, timeline.starts, np.maximum(timeline.starts, previous_ends))
    return starts, np.maximum(timeline.ends, starts)


HOST_WAIT: Final = "host wait"
"""The next work was launched after the previous work ended: the GPU waited for the CPU."""
KERNEL_WAIT: Final = "kernel wait"
"""The next work was already launched, and the gap is shorter than `KERNEL_WAIT_NS`."""
OTHER_CAUSE: Final = "other"
"""The next work was already launched and waited for a dependency, or its launch was in flight."""

KERNEL_WAIT_NS: Final = 30
"""The limit of Holistic Trace Analysis."""
MAX_SEARCHED_GAPS: Final = 64
"""Up to this number of gaps, the previous work is searched for each."""
MICRO_NS: Final = 10_000
"""Shorter gaps are micro gaps, the others macro gaps."""

GAPS: Final = TableSpec(
    "gaps",
    "Idle gaps",
    (
        replace(columns("start_ns")[0], help="End of the work before the gap, since the clock zero of the input."),
        replace(columns("duration_ns")[0], help="From the latest end of previous work to the next start."),
        *columns("span_pct", "wait", "cpu_in", "call", "call_ns", "before", "after", "iteration"),
        *columns("api_ns", "api_calls_begun", "device", "session", "activity"),
    ),
    key=("session", "activity"),
    sort=(("duration_ns", True),),
    weight="duration_ns",
    pinned="start_ns",
)

_GAP_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "span_pct": pl.Float64,
        "before": NAME,
        "after": NAME,
        "iteration": pl.Int32,
        "wait": NAME,
        "cpu_in": NAME,
        "call": NAME,
        "call_ns": pl.Int64,
        "api_ns": pl.Int64,
        "api_calls_begun": pl.Int64,
        "activity": pl.UInt32,
    }
)


def _previous_work(timeline: Timeline, gap_set: IdleGaps) -> Ints:
    """Return the index in the timeline of the work that ended last before each gap."""
    if len(gap_set.next_work) <= MAX_SEARCHED_GAPS:
        return np.array(
            [_last_ended(timeline, *gap) for gap in zip(gap_set.next_work, gap_set.starts, strict=True)], np.int64
        )
    ended = np.flatnonzero(timeline.ends == timeline.latest_ends())
    latest: Ints = ended[np.searchsorted(ended, gap_set.next_work) - 1]
    return latest


def _last_ended(timeline: Timeline, next_index: int, moment: int) -> int:
    """Return the last index, below another index, of work that ended at a given time; there is such work."""
    back = MAX_SEARCHED_GAPS
    while True:
        first = max(0, next_index - back)
        matches = np.flatnonzero(timeline.ends[first:next_index] == moment)
        if len(matches):
            return first + int(matches[-1])
        back *= 8


@once_per_profile("activities", "api_calls", "sessions")
def gaps(profile: Profile) -> pl.DataFrame:
    """Return every idle gap of every GPU, the longest first.

    Columns: session, device, start_ns, duration_ns (`device_gaps`), span_pct (its share of the time from the device's
    first start to its last end), before and after (the work around it), iteration (that the work after it was launched
    in), wait, cpu_in, call, call_ns, api_ns, api_calls_begun, activity (the work after it).

    - wait is `HOST_WAIT`, `KERNEL_WAIT` or `OTHER_CAUSE`, null if the call that launched the next work is not known.
    - cpu_in is the main CPU activity in the gap: the class of API calls (`tui.analysis.gpu_time.host_calls.TITLES`) on
      any thread of the session, or `host_calls.NO_CALL` if no call was active in most of it. It is null in a session
      without timed calls, as are the columns after it.
    - call and call_ns are the call of that class with most time in the gap, and that time. In a session with very many
      different calls, calls with little time are ignored (`tui.analysis.gpu_time.host_calls.NAMES_LIMIT`).
    - api_ns is the time in the gap in which any call was active, api_calls_begun the number of calls that started in
      it.
    """
    frames = []
    host: dict[int, HostCalls | None] = {}
    calls = partition_by_session(profile["api_calls"])
    launched = launch_calls(profile)["launch_ns"]
    for timeline, gap_set in zip(timelines(profile), device_gaps(profile), strict=True):
        if timeline.session not in host:
            host[timeline.session] = host_calls(calls.get(timeline.session))
        frames.append(_gaps(profile, timeline, gap_set, host[timeline.session], launched))
    if not frames:
        return pl.DataFrame(schema=_GAP_SCHEMA)
    return pl.concat(frames).sort("duration_ns", descending=True, maintain_order=True)


def longest_gaps(profile: Profile, limit: int) -> pl.DataFrame:
    """Return the first ``limit`` rows of `gaps`; the others are not computed."""
    frames = []
    calls = partition_by_session(profile["api_calls"])
    launched = launch_calls(profile)["launch_ns"]
    for timeline, gap_set in zip(timelines(profile), device_gaps(profile), strict=True):
        longest = gap_set.take(_longest(gap_set, limit))
        intervals = list(zip(longest.starts.tolist(), longest.ends.tolist(), strict=True))
        frames.append(_gaps(profile, timeline, longest, host_calls(calls.get(timeline.session), intervals), launched))
    if not frames:
        return pl.DataFrame(schema=_GAP_SCHEMA)
    return pl.concat(frames).sort("duration_ns", descending=True, maintain_order=True).head(limit)


def _longest(gap_set: IdleGaps, limit: int) -> Ints:
    """Return the indices of the ``limit`` longest gaps, in time order; the first ones of equal length."""
    indices, lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for block in blocks(len(gap_set.starts)):
        indices = np.append(indices, np.arange(block.start, block.stop))
        lengths = np.append(lengths, gap_set.ends[block] - gap_set.starts[block])
        if len(lengths) > limit:
            longest = np.flatnonzero(lengths >= np.partition(lengths, len(lengths) - limit)[-limit])
            longest = np.sort(longest[np.argsort(-lengths[longest], kind="stable")[:limit]])
            indices, lengths = indices[longest], lengths[longest]
    return indices


def _gaps(
    profile: Profile, timeline: Timeline, gap_set: IdleGaps, calls: HostCalls | None, launched: pl.Series
) -> pl.DataFrame:
    activities = profile["activities"]
    span = int(timeline.ends.max() - timeline.starts[0])
    previous_rows, next_rows = (
        pl.Series(timeline.rows_at(places)) for places in (_previous_work(timeline, gap_set), gap_set.next_work)
    )
    gap, launch = pl.col("duration_ns"), pl.col("launch_ns")
    wait = (
        pl.when(launch > pl.col("start_ns"))
        .then(pl.lit(HOST_WAIT))
        .when(launch.is_not_null() & (gap < KERNEL_WAIT_NS))
        .then(pl.lit(KERNEL_WAIT))
        .when(launch.is_not_null())
        .then(pl.lit(OTHER_CAUSE))
    )
    rows = pl.DataFrame(
        {
            "start_ns": gap_set.starts,
            "duration_ns": gap_set.lengths_ns,
            "before": activities["name"].gather(previous_rows),
            "after": activities["name"].gather(next_rows),
            "iteration": activities["iteration"].gather(next_rows),
            "activity": activities["activity"].gather(next_rows),
            "launch_ns": launched.gather(next_rows),
        }
    ).with_columns(
        pl.lit(timeline.session, pl.UInt32).alias("session"),
        pl.lit(timeline.device, pl.Int32).alias("device"),
        (100 * gap / span).alias("span_pct") if span else pl.lit(None, pl.Float64).alias("span_pct"),
        wait.cast(NAME).alias("wait"),
    )
    if calls is not None:
        rows = pl.concat([rows, calls.in_intervals(gap_set.intervals)], how="horizontal")
    missing = {name: dtype for name, dtype in _GAP_SCHEMA.items() if name not in rows.columns}
    return rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in missing.items()).select(*_GAP_SCHEMA)


def gap_summary(profile: Profile) -> pl.DataFrame:
    """Group gaps by wait and CPU activity, the most time first.

    One row per session, device, size (macro, or micro: shorter than `MICRO_NS`), wait and cpu_in, see `gaps`. Columns:
    those, and gaps (how many), total_ns, span_pct, max_ns.
    """
    span = (100 * pl.col("duration_ns") / pl.col("span_pct")).round()
    return (
        gaps(profile)
        .lazy()
        .with_columns(
            pl.when(pl.col("duration_ns") < MICRO_NS).then(pl.lit("micro")).otherwise(pl.lit("macro")).alias("size")
        )
        .group_by("session", "device", "size", "wait", "cpu_in")
        .agg(
            pl.len().cast(pl.Int64).alias("gaps"),
            pl.col("duration_ns").sum().alias("total_ns"),
            # The last digits of a sum of shares would depend on the order of the rows.
            (100 * pl.col("duration_ns").sum() / span.first()).alias("span_pct"),
            pl.col("duration_ns").max().alias("max_ns"),
        )
        .sort("total_ns", "session", "device", "size", "wait", "cpu_in", descending=[True] + [False] * 5)
        .collect()
    )


@once_per_profile("activities", "api_calls", "sessions")
def idle_time(profile: Profile) -> pl.DataFrame:
    """Return components of the idle time of each GPU: one row per session and device.

    Columns: session, device, span_ns (first start to last end on this device), busy_ns (as in
    `tui.analysis.gpu_time.idle_gaps.busy_time`), idle_ns (span - busy), gaps (how many), macro_ns and micro_ns (gaps of
    `MICRO_NS` or more, and shorter ones), longest_ns, host_wait_ns, kernel_wait_ns, other_wait_ns, unknown_wait_ns
    (gaps of unknown cause), unresolved_ns.

    macro + micro + unresolved = idle; the four waits + unresolved = idle. ``unresolved_ns`` is 0 where starts are
    exact. If they are rounded, it is the time of gaps too short to measure, less what rounding adds to the others: it
    can be negative.
    """
    calls = launch_calls(profile)["launch_ns"]
    rows = []
    for timeline, gap_set in zip(timelines(profile), device_gaps(profile), strict=True):
        length = gap_set.lengths_ns
        launch = calls.gather(pl.Series(timeline.rows_at(gap_set.next_work)))
        is_launch_known = launch.is_not_null().to_numpy()
        by_host = is_launch_known & (launch.fill_null(0).to_numpy() > gap_set.starts)
        by_kernel = is_launch_known & ~by_host & (length < KERNEL_WAIT_NS)
        micro = length < MICRO_NS
        chosen = (~micro, micro, by_host, by_kernel, is_launch_known & ~by_host & ~by_kernel, ~is_launch_known)
        rows.append(
            (
                timeline.session,
                timeline.device,
                int(timeline.ends.max() - timeline.starts[0]),
                len(length),
                int(length.max()) if len(length) else None,
                *(int(length[mask].sum()) for mask in chosen),
            )
        )
    names = ("macro_ns", "micro_ns", "host_wait_ns", "kernel_wait_ns", "other_wait_ns", "unknown_wait_ns")
    schema = pl.Schema(
        {"session": pl.UInt32, "device": pl.Int32}
        | dict.fromkeys(("span_ns", "gaps", "longest_ns", *names), pl.Int64())
    )
    return (
        pl.DataFrame(rows, schema=schema, orient="row")
        .join(
            busy_time(profile).select("session", "device", "busy_ns"),
            on=["session", "device"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(pl.min_horizontal("busy_ns", "span_ns").alias("busy_ns"))
        .with_columns((pl.col("span_ns") - pl.col("busy_ns")).alias("idle_ns"))
        .with_columns((pl.col("idle_ns") - pl.col("macro_ns") - pl.col("micro_ns")).alias("unresolved_ns"))
        .select("session", "device", "span_ns", "busy_ns", "idle_ns", "gaps", "longest_ns", *names, "unresolved_ns")
    )
