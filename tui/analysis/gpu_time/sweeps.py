"""Sweeps over the work of a device in time order: covered time, time by class, concurrency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tui.analysis.gpu_time.blocks import RunningLatestEnd, blocks
from tui.analysis.gpu_time.interval_sets import IntervalSet, from_disjoint, max_concurrent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from tui.analysis.gpu_time.timelines import Timeline

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]
    Classes = npt.NDArray[np.int8]


class _Union:
    """The length of a union of intervals that are given in order of their starts.

    Args:
        resolution_ns: To what the starts are rounded: an overlap that is shorter is counted as none.
    """

    def __init__(self, resolution_ns: int = 1) -> None:
        self._reached = RunningLatestEnd()
        self._resolution_ns = resolution_ns
        self.length = 0

    def add(self, starts: Ints, ends: Ints) -> Ints:
        """Count the next ones; the latest end before each of them."""
        before, reached = self._reached.before(ends)
        if self._resolution_ns == 1:
            self.length += int((reached - np.maximum(before, starts)).sum())
            return before
        begun = np.where(before < starts + self._resolution_ns, starts, before)
        self.length += int((np.maximum(ends, begun) - begun).sum())
        return before


def covered_time(starts: Ints, ends: Ints, resolution_ns: int) -> int:
    """How long any of some intervals was active.

    Args:
        starts: Of intervals in order of their starts.
        ends: Of the same.
        resolution_ns: To what the starts are rounded: an overlap that is shorter is counted as none.
    """
    union = _Union(resolution_ns)
    for block in blocks(len(starts)):
        union.add(starts[block], ends[block])
    return union.length


def lengths_by_class(
    line: Timeline, classes: Classes, sets: Sequence[Collection[int]], *, resolution_ns: int = 1
) -> list[int]:
    """For each set of classes how long the union of the work of these classes is.

    Args:
        line: The work.
        classes: The class of each activity of the line, from 0.
        sets: The classes.
        resolution_ns: As in `covered_time`; with more than 1, lengths of sets need not add up to that of all.
    """
    all_of_them = range(int(classes.max(initial=-1)) + 1)
    present = frozenset(
        found for found in all_of_them if any((classes[block] == found).any() for block in blocks(len(classes)))
    )
    held = [present.intersection(wanted) for wanted in sets]
    unions = {wanted: _Union(resolution_ns) for wanted in held if wanted}
    for block in blocks(len(line.starts)):
        starts, ends, own = line.starts[block], line.ends[block], classes[block]
        for wanted, union in unions.items():
            if wanted == present:
                union.add(starts, ends)
            else:
                # To compare with each is quicker than to look up in a table.
                on = np.logical_or.reduce([own == found for found in wanted])
                union.add(starts[on], ends[on])
    return [unions[wanted].length if wanted else 0 for wanted in held]


def unions_by_class(starts: Ints, ends: Ints, classes: Classes) -> dict[int, IntervalSet]:
    """When any interval of each class was active; those of class -1 are left out.

    Args:
        starts: Of intervals in order of their starts.
        ends: Of the same.
        classes: The class of each, from 0.
    """
    reached: dict[int, RunningLatestEnd] = {}
    opened: dict[int, list[Ints]] = {}
    closed: dict[int, list[Ints]] = {}
    for block in blocks(len(starts)):
        own = classes[block]
        for found in np.flatnonzero(np.bincount(own + 1)[1:]).tolist():
            of_class = own == found
            begun, ended = starts[block][of_class], ends[block][of_class]
            is_first = found not in reached
            before, _ = reached.setdefault(found, RunningLatestEnd()).before(ended)
            places = np.flatnonzero(begun > before)
            opened.setdefault(found, []).append(begun[places])
            closed.setdefault(found, []).append(before[places[1:] if is_first else places])
    return {
        found: from_disjoint(
            np.concatenate(opened[found]), np.append(np.concatenate(closed[found]), reached[found].latest)
        )
        for found in sorted(reached)
    }


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How much of some work was active at once."""

    length: int
    """How long two or more were active."""
    most: int
    """The most that were active at once; one that ends as another starts is not on with it."""


def concurrency(line: Timeline, chosen: Flags) -> Concurrency:
    """How much of the chosen work of a line was active at once; what only rounding makes overlap was not.

    Args:
        line: The work.
        chosen: Which activities of the line.
    """
    twice, reached = _Union(), RunningLatestEnd()
    crowd = []
    waiting = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
    for block in blocks(len(line.starts)):
        starts, ends = line.starts[block][chosen[block]], line.ends[block][chosen[block]]
        if line.resolution_ns > 1:
            ends = ends - (line.resolution_ns - 1)
        long = ends > starts
        starts, ends = starts[long], ends[long]
        before, _ = reached.before(ends)
        late = before > starts
        # From its start on an activity overlaps with another until the latest end of those before.
        twice.add(starts[late], np.minimum(ends[late], before[late]))
        # The last one waits for the next block: only that shows what overlaps with it.
        starts, ends, late = (np.concatenate(parts) for parts in zip(waiting, (starts, ends, late), strict=True))
        beside = late[:-1] | (starts[1:] < ends[:-1])
        crowd.append((starts[:-1][beside], ends[:-1][beside]))
        waiting = starts[-1:], ends[-1:], late[-1:]
    if not twice.length:
        return Concurrency(0, int(chosen.any()))
    crowd.append((waiting[0], waiting[1]))
    return Concurrency(twice.length, max_concurrent(*(np.concatenate(column) for column in zip(*crowd, strict=True))))
