"""GPU work with rounded start times: overlaps that only the rounding makes are removed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tui.analysis.gpu_time.blocks import is_nondecreasing
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.profile import Profile


@once_per_profile("activities", "sessions")
def adjusted_timelines(profile: Profile) -> tuple[Timeline, ...]:
    """`timelines` to ask how long some work was active, or any in a time interval; those of exact times as they are.

    An overlap that is shorter than the resolution of the starts counts as none: the later work starts when the earlier
    one ends, and what follows without a gap moves with it. All of it stays between the first start and the last end,
    and the union of it is as long as `tui.analysis.gpu_time.idle_gaps.busy_time` says.
    """
    return tuple(_adjusted(line) for line in timelines(profile))


def _adjusted(line: Timeline) -> Timeline:
    if line.resolution_ns == 1:
        return line
    starts, ends = line.starts, line.ends
    before = np.concatenate((starts[:1], line.reached()[:-1]))
    overlap = before - starts
    rounded = overlap < line.resolution_ns
    if not (rounded & (overlap > 0)).any():
        return line
    first, last = int(starts[0]), int(ends.max())
    # What each one adds to the time with work; these parts are laid in a row.
    begun = np.where(rounded, starts, before)
    ended = np.maximum(ends, begun)
    until = np.cumsum(ended - begun)
    closed = until + np.maximum.accumulate(ended - until)
    # Those at the end make room before the last end.
    np.minimum(closed, last - (until[-1] - until), out=closed)
    closed -= ended
    starts, ends = np.maximum(starts + closed, first), np.maximum(ends + closed, first)
    if is_nondecreasing(starts):
        return replace(line, starts=starts, ends=ends)
    order = np.argsort(starts, kind="stable")
    return replace(line, held=line.rows[order], starts=starts[order], ends=ends[order])
