"""When each GPU had work and when it had none: worked out once, what all figures about idle time begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tui.analysis.gpu_time.blocks import apart_by
from tui.analysis.gpu_time.interval_sets import IntervalSet, apart, union_of
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
    lengths: Ints
    """How long each is, ns."""

    @property
    def spans(self) -> IntervalSet:
        """All of them as a set of time."""
        return apart(self.starts, self.ends)

    def some(self, places: Ints) -> Holes:
        """Those at some places."""
        return Holes(self.starts[places], self.ends[places], self.after[places], self.lengths[places])


@once_per_profile("activities", "sessions")
def holes(profile: Profile) -> tuple[Holes, ...]:
    """For each of `timelines` where the device had nothing to do between its first and last work.

    From the latest end of all before to the next start. What is shorter than the resolution of the start times cannot
    be told and is left out.
    """
    return tuple(_holes(line) for line in timelines(profile))


def _holes(line: Timeline) -> Holes:
    after, starts, _ = apart_by(line.starts, line.ends, line.resolution_ns)
    ends = line.starts[after]
    return Holes(starts, ends, after, ends - starts)


@once_per_profile("activities", "sessions")
def busy_sets(profile: Profile) -> tuple[IntervalSet, ...]:
    """For each of `timelines` when the device had work."""
    return tuple(_busy(line, own) for line, own in zip(timelines(profile), holes(profile), strict=True))


def _busy(line: Timeline, own: Holes) -> IntervalSet:
    if line.resolution_ns > 1:
        # Gaps that are too short to be told are none of the holes.
        return union_of(line.starts, line.ends)
    return apart(np.concatenate((line.starts[:1], own.ends)), np.concatenate((own.starts, [line.ends.max()])))
