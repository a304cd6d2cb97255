"""When each GPU had work and when it had none: worked out once, what all figures about idle time begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tui.analysis.gpu_time.blocks import apart_by
from tui.analysis.gpu_time.interval_sets import IntervalSet, apart, union_of
from tui.analysis.gpu_time.placed import placed_timelines
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Holes:
    """The idle gaps of a timeline, in order of time."""

    starts: Ints
    ends: Ints
    after: Ints
    """Place in the timeline of the work that began after each."""

    @property
    def lengths(self) -> Ints:
        """How long each is, ns."""
        lengths: Ints = self.ends - self.starts
        return lengths

    @property
    def spans(self) -> IntervalSet:
        """All of them as a set of time."""
        return apart(self.starts, self.ends)

    def some(self, places: Ints) -> Holes:
        """Those at some places."""
        return Holes(self.starts[places], self.ends[places], self.after[places])


@dataclass(frozen=True, slots=True)
class _Edges:
    """Where the gaps of a timeline begin and end: kept once, though they are the edges of its work as well."""

    opened: Ints
    """When the first work began, and that after each gap."""
    closed: Ints
    """The latest end of all before each gap, and of all."""
    after: Ints
    """As in `Holes`."""


@once_per_profile("activities", "sessions")
def _edges(profile: Profile) -> tuple[_Edges, ...]:
    return tuple(_edges_of(line) for line in timelines(profile))


def _edges_of(line: Timeline) -> _Edges:
    after, closed, last = apart_by(line.starts, line.ends, line.resolution_ns)
    opened = np.concatenate((line.starts[:1], line.starts[after]))
    return _Edges(opened, np.concatenate((closed, [last])), after)


def holes(profile: Profile) -> tuple[Holes, ...]:
    """For each of `timelines` where the device had nothing to do between its first and last work.

    From the latest end of all before to the next start. What is shorter than the resolution of the start times cannot
    be told and is left out.
    """
    return tuple(Holes(edges.closed[:-1], edges.opened[1:], edges.after) for edges in _edges(profile))


@once_per_profile("activities", "sessions")
def busy_sets(profile: Profile) -> tuple[IntervalSet, ...]:
    """For each of `timelines` when the device had work, of rounded starts as `placed_timelines` has it."""
    return tuple(_busy(line, edges) for line, edges in zip(placed_timelines(profile), _edges(profile), strict=True))


def _busy(line: Timeline, edges: _Edges) -> IntervalSet:
    if line.resolution_ns > 1:
        # Gaps that are too short to be told are none of the holes.
        return union_of(line.starts, line.ends)
    return apart(edges.opened, edges.closed)
