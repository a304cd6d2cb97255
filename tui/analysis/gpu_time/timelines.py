"""The GPU work of each device in time order, as arrays: the input of all figures about GPU time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from tui.analysis.gpu_time.blocks import blocks, is_nondecreasing
from tui.analysis.grouping import distinct_rows, partition_by_session
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The activities of one device whose start and duration are known, by start."""

    session: int
    device: int | None
    """None: the input does not name it."""
    resolution_ns: int
    """The coarsest step of its start times, at least 1: nothing shorter is known."""
    held: Ints | int
    """The row of each in ``activities``; of rows that follow each other the first one."""
    starts: Ints
    ends: Ints

    @property
    def rows(self) -> Ints:
        """The row of each in ``activities``: as long as the timeline, so rather `of` and `rows_at`."""
        return np.arange(self.held, self.held + len(self.starts)) if isinstance(self.held, int) else self.held

    def rows_at(self, places: Ints) -> Ints:
        """The row in ``activities`` of each of some places."""
        found: Ints = places + self.held if isinstance(self.held, int) else self.held[places]
        return found

    def of(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Of values for all rows of ``activities`` those of this device, in its order; of a run they are no copy."""
        if isinstance(self.held, int):
            return values[self.held : self.held + len(self.starts)]
        return values[self.held]

    def gathered(self, values: pl.Series) -> pl.Series:
        """As `of`, of a column."""
        if isinstance(self.held, int):
            return values.slice(self.held, len(self.starts))
        return values.gather(pl.Series(self.held))

    def reached(self) -> Ints:
        """The latest end of each and all before it."""
        ends: Ints = np.maximum.accumulate(self.ends)
        return ends


@once_per_profile("activities", "sessions")
def timelines(profile: Profile) -> tuple[Timeline, ...]:
    """One for each device of each session that has work with known times, by session and device."""
    resolutions = dict(profile["sessions"].select("session", "start_resolution_ns").iter_rows())
    found = []
    for (session, device), rows, part in _parts(profile["activities"]):
        starts = part["start_ns"].to_numpy()
        ends = starts + part["duration_ns"].to_numpy()
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends, rows = starts[order], ends[order], rows[order]
            follow = False
        else:
            follow = int(rows[-1]) - int(rows[0]) == len(rows) - 1
        held = int(rows[0]) if follow else rows
        found.append(Timeline(session, device, max(1, resolutions.get(session) or 1), held, starts, ends))
    return tuple(sorted(found, key=lambda line: (line.session, -1 if line.device is None else line.device)))


def _parts(activities: pl.DataFrame) -> Iterator[tuple[tuple[int, int | None], Ints, pl.DataFrame]]:
    """For each GPU the rows whose times are known: session and device, where they are, their times."""
    rows = activities.select("session", "device", "start_ns", "duration_ns", row=pl.int_range(pl.len()))
    for times in partition_by_session(rows).values():
        known = not times["start_ns"].null_count() and not times["duration_ns"].null_count()
        # Where all are known the times are those of the frame, not a copy.
        timed = times if known else times.drop_nulls(["start_ns", "duration_ns"])
        gpus = distinct_rows(timed, ("session", "device"))
        if gpus.height == 1:
            yield gpus.row(0), timed["row"].to_numpy(), timed
        elif gpus.height:
            parts = timed.partition_by("session", "device", as_dict=True)
            for (session, device), part in parts.items():
                yield (session, device), part["row"].to_numpy(), part


def classify_values(names: pl.Series, classify: Callable[[pl.Series], npt.NDArray[np.int8]]) -> npt.NDArray[np.int8]:
    """A number for each name of a column, computed once for each distinct name.

    Args:
        names: A categorical column.
        classify: From distinct names, as texts, to one number each; a missing name is an empty text.
    """
    codes = names.to_physical()
    # A missing name has the place after all others.
    last = int(codes.max() or 0) + 1  # type: ignore[arg-type]
    places = (codes.fill_null(last) if codes.null_count() else codes).to_numpy()
    if not len(places):
        return np.zeros(0, np.int8)
    is_used = np.zeros(last + 1, np.bool_)
    for block in blocks(len(places)):
        # Places of 64 bits are looked up in a third of the time, and made for all at once would be large.
        is_used[places[block].astype(np.int64)] = True
    used = np.flatnonzero(is_used)
    texts = pl.Series(used, dtype=pl.UInt32).set(pl.Series(used == last), None).cat.to(names.dtype)
    table = np.zeros(last + 1, np.int8)
    table[used] = classify(texts.cast(pl.String).fill_null(""))
    found = np.empty(len(places), np.int8)
    for block in blocks(len(places)):
        table.take(places[block].astype(np.int64), out=found[block], mode="clip")
    return found


@once_per_profile("activities", "sessions")
def adjusted_timelines(profile: Profile) -> tuple[Timeline, ...]:
    """`timelines` to ask how long some work was active, or any in a time interval; those of exact times as they are.

    An overlap that is shorter than the resolution of the starts counts as none: the later work starts when the earlier
    one ends, and what follows without a gap moves with it. All of it stays between the first start and the last end,
    and the union of it is as long as in `tui.analysis.gpu_time.idle_gaps.busy_time`.
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
