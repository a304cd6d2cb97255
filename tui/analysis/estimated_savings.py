"""Estimated time savings if some GPU work were twice as fast, or absent.

Only the time in which nothing else keeps the GPU busy counts: work that overlaps other work saves nothing. All other
work is assumed to run when it did. A program that waits for the GPU therefore saves at least this much; one whose GPU
waits for the CPU may save less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import interval_union
from tui.analysis.gpu_time.timelines import adjusted_timelines
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    from tui.analysis.gpu_time.timelines import Flags, Timeline
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Saving:
    """The time that one GPU would save, in nanoseconds."""

    session: int
    device: int | None
    launches: int
    """The number of launches of the work, with a known start and duration."""
    time_ns: int
    """Summed durations of that work."""
    alone_ns: int
    """Time in which only that work kept the GPU busy: what the GPU would gain if it were not there."""
    half_ns: int
    """What the GPU would gain if each launch took half as long, from its start on."""
    busy_ns: int
    """The time in which the GPU had any work."""
    span_ns: int
    """The time from the first start to the last end of work on this GPU."""
    stream: int | None
    """The stream that most of the work ran on."""
    iterations: int | None
    """How many iterations the work was launched in; None if none is known."""
    alone_per_iteration_ns: float | None
    """What an iteration would gain, on average over those that the work was launched in, without the work of them."""
    half_per_iteration_ns: float | None
    """The same for work of half the duration."""


def estimated_savings(profile: Profile, activities: pl.Series) -> tuple[Saving, ...]:
    """Return what each GPU would save without these activities, and with them twice as fast; largest saving first.

    Empty if no start times are known. ``alone_ns`` is the union of the intervals of all work on the GPU less the union
    of those of all other work. It is at most the time of the work and the busy time of the GPU; savings of overlapping
    work do not add up. Overlaps that are only due to rounded starts are ignored (`tui.analysis.gpu_time.timelines`).

    Args:
        profile: The profile.
        activities: The numbers of the activities, the column ``activity``.
    """
    work = profile["activities"].select("activity", "duration_ns", "stream", "iteration")
    is_selected = work["activity"].is_in(activities.implode()).to_numpy()
    gains = (
        _saving(timeline, work, mask, busy_ns)
        for timeline, busy_ns in zip(adjusted_timelines(profile), _busy_ns(profile), strict=True)
        if (mask := timeline.take(is_selected)).any()
    )
    return tuple(sorted(gains, key=lambda gain: -gain.alone_ns))


@once_per_profile("activities", "sessions")
def _busy_ns(profile: Profile) -> tuple[int, ...]:
    """Return the busy time of each GPU, in the order of `adjusted_timelines`."""
    return tuple(interval_union(timeline.starts, timeline.ends).length_ns for timeline in adjusted_timelines(profile))


def _saving(timeline: Timeline, work: pl.DataFrame, mask: Flags, busy_ns: int) -> Saving:
    selected = work[timeline.rows_at(np.flatnonzero(mask))]
    streams = (
        selected.group_by("stream").agg(pl.col("duration_ns").sum()).sort("duration_ns", "stream", descending=True)
    )
    iterations = selected["iteration"].drop_nulls().n_unique()
    alone_ns, half_ns = inside = _saved_ns(timeline, mask)
    if iterations and selected["iteration"].null_count():
        in_iterations = timeline.take(work["iteration"].is_not_null().to_numpy())
        inside = _saved_ns(timeline, mask & in_iterations)
    return Saving(
        session=timeline.session,
        device=timeline.device,
        launches=selected.height,
        time_ns=int(selected["duration_ns"].sum()),
        alone_ns=alone_ns,
        half_ns=half_ns,
        busy_ns=busy_ns,
        span_ns=int(timeline.ends.max() - timeline.starts.min()),
        stream=streams["stream"][0],
        iterations=iterations or None,
        alone_per_iteration_ns=inside[0] / iterations if iterations else None,
        half_per_iteration_ns=inside[1] / iterations if iterations else None,
    )


def _saved_ns(timeline: Timeline, mask: Flags) -> tuple[int, int]:
    """Return the time saved without some work, and with half of it; only work that overlaps it matters."""
    first_ns, last_ns = timeline.starts[mask].min(), timeline.ends[mask].max()
    is_affected = mask | ((timeline.starts < last_ns) & (timeline.ends > first_ns))
    starts, ends, chosen = timeline.starts[is_affected], timeline.ends[is_affected], mask[is_affected]
    halved = np.where(chosen, ends - (ends - starts) // 2, ends)
    with_all, with_half = (interval_union(starts, stops).length_ns for stops in (ends, halved))
    return with_all - interval_union(starts[~chosen], ends[~chosen]).length_ns, with_all - with_half
