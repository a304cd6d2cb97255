"""What would be gained if some GPU work were twice as fast, or were not there at all.

What runs beside other work gains nothing: only the time counts in which nothing else keeps the GPU busy. Everything
else is taken to run when it did, so that a program which waits for the GPU gains so much at least of what it waits, and
one whose GPU waits for the CPU may gain less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.intervals import union_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gain:
    """What one GPU would gain, in nanoseconds."""

    session: int
    device: int | None
    launches: int
    """Of the work in question, with a known start and duration."""
    time_ns: int
    """Summed durations of that work."""
    alone_ns: int
    """Time in which only that work kept the GPU busy: what the GPU would gain if it were not there."""
    half_ns: int
    """What the GPU would gain if each launch took half as long, from its start on."""
    busy_ns: int
    """Time in which the GPU had any work."""
    span_ns: int
    """From the first start to the last end of work on this GPU."""
    stream: int | None
    """The stream that most of the work ran on."""
    iterations: int | None
    """How many iterations the work was launched in; None where none is known."""

    @property
    def alone_per_iteration_ns(self) -> float | None:
        """What an iteration would gain, on average over those that the work was launched in."""
        return self.alone_ns / self.iterations if self.iterations else None

    @property
    def half_per_iteration_ns(self) -> float | None:
        """The same for work of half the duration."""
        return self.half_ns / self.iterations if self.iterations else None


def what_if(profile: Profile, activities: pl.Series) -> tuple[Gain, ...]:
    """What each GPU would gain without these activities, and with them twice as fast; most gain first.

    Empty where no start times are known. ``alone_ns`` is the union of the intervals of all work on the GPU less the
    union of those of all other work. It is never more than the time of the work, nor than the GPU was busy; of several
    pieces of work the gains do not add up where they overlap.

    Args:
        profile: Where they are.
        activities: Their numbers, the column ``activity``.
    """
    all_work = profile["activities"]
    wanted = all_work.select("session", "device", "activity").filter(pl.col("activity").is_in(activities.implode()))
    gains = []
    for session, device in wanted.select("session", "device").unique().sort("session", "device").iter_rows():
        work = (
            all_work.lazy()
            .filter(pl.col("session") == session, pl.col("device").eq_missing(pl.lit(device, pl.Int32)))
            .select("activity", "start_ns", "duration_ns", "stream", "iteration")
            .drop_nulls(["start_ns", "duration_ns"])
            .collect()
        )
        gain = _gain(session, device, work, activities)
        if gain is not None:
            gains.append(gain)
    return tuple(sorted(gains, key=lambda gain: -gain.alone_ns))


def _gain(session: int, device: int | None, work: pl.DataFrame, activities: pl.Series) -> Gain | None:
    if not work["start_ns"].is_sorted():
        work = work.sort("start_ns", maintain_order=True)
    chosen = work["activity"].is_in(activities.implode())
    if not chosen.any():
        return None
    mask = chosen.to_numpy()
    starts = work["start_ns"].to_numpy()
    durations = work["duration_ns"].to_numpy()
    ends = starts + durations
    busy = _length(starts, ends)
    halved = np.where(mask, starts + durations - durations // 2, ends)
    own = work.filter(chosen)
    streams = own.group_by("stream").agg(pl.col("duration_ns").sum()).sort("duration_ns", "stream", descending=True)
    iterations = own["iteration"].drop_nulls().n_unique()
    return Gain(
        session=session,
        device=device,
        launches=own.height,
        time_ns=int(own["duration_ns"].sum()),
        alone_ns=busy - _length(starts[~mask], ends[~mask]),
        half_ns=busy - _length(starts, halved),
        busy_ns=busy,
        span_ns=int(ends.max() - starts.min()),
        stream=streams["stream"][0],
        iterations=iterations or None,
    )


def _length(starts: Ints, ends: Ints) -> int:
    """How long the union of intervals, given by start, is."""
    union = union_of(starts, ends)
    return int(union.ends.sum() - union.starts.sum()) if len(starts) else 0
