"""Sets of stretches of time: their union, intersection and difference, how much they cover, how many are on at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """Stretches of time that do not touch, in order: when at least one of many intervals was on."""

    starts: Ints
    ends: Ints
    before: Ints
    """How long all stretches before each one are together."""

    @property
    def length(self) -> int:
        """How long all stretches are together."""
        return int(self.before[-1] + self.ends[-1] - self.starts[-1]) if len(self.starts) else 0

    def until(self, moments: Ints) -> Ints:
        """How much of the time up to each moment the stretches cover.

        >>> union_of(np.array([0, 5, 30]), np.array([10, 20, 40])).until(np.array([-3, 7, 25, 35, 99])).tolist()
        [0, 7, 20, 25, 30]
        """
        if not len(self.starts):
            return np.zeros(len(moments), np.int64)
        at = np.searchsorted(self.starts, moments, side="right") - 1
        here = np.maximum(at, 0)
        covered: Ints = self.before[here] + np.clip(np.minimum(moments, self.ends[here]) - self.starts[here], 0, None)
        return covered

    def within(self, starts: Ints, ends: Ints) -> Ints:
        """How much of each of the given intervals the stretches cover."""
        covered: Ints = self.until(ends) - self.until(starts)
        return covered

    def __or__(self, other: IntervalSet) -> IntervalSet:
        """The time that is in either.

        >>> (union_of(np.array([0]), np.array([5])) | union_of(np.array([3, 9]), np.array([6, 10]))).length
        7
        """
        if not len(self.starts):
            return other
        if not len(other.starts):
            return self
        starts = np.concatenate((self.starts, other.starts))
        # Two sorted runs: a stable sort merges them.
        order = np.argsort(starts, kind="stable")
        return union_of(starts[order], np.concatenate((self.ends, other.ends))[order])

    def __and__(self, other: IntervalSet) -> IntervalSet:
        """The time that is in both.

        >>> (union_of(np.array([0]), np.array([5])) & union_of(np.array([3, 9]), np.array([6, 10]))).length
        2
        """
        mine, theirs = overlaps(self, other)
        return _apart(
            np.maximum(self.starts[mine], other.starts[theirs]), np.minimum(self.ends[mine], other.ends[theirs])
        )

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        """The time that is in this one and not in the other.

        >>> (union_of(np.array([0]), np.array([5])) - union_of(np.array([3, 9]), np.array([6, 10]))).length
        3
        """
        if not len(self.starts) or not len(other.starts):
            return self
        return self & other.gaps(int(self.starts[0]), int(self.ends[-1]))

    def gaps(self, first: int, last: int) -> IntervalSet:
        """The time from ``first`` to ``last`` that the stretches do not cover.

        >>> union_of(np.array([2]), np.array([3])).gaps(0, 10).length
        9
        """
        starts = np.concatenate((np.array([first], np.int64), self.ends))
        ends = np.concatenate((self.starts, np.array([last], np.int64)))
        starts, ends = np.maximum(starts, first), np.minimum(ends, last)
        there = ends > starts
        return _apart(starts[there], ends[there])


EMPTY = IntervalSet(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _apart(starts: Ints, ends: Ints) -> IntervalSet:
    """A set of stretches that are in order and do not overlap."""
    lengths = ends - starts
    return IntervalSet(starts, ends, np.cumsum(lengths) - lengths)


def union_of(starts: Ints, ends: Ints) -> IntervalSet:
    """The union of intervals, in any order; those without length count as moments and add none."""
    if not len(starts):
        return EMPTY
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.concatenate(([True], starts[1:] > reached[:-1])))
    return _apart(starts[first], reached[np.append(first[1:] - 1, len(ends) - 1)])


def overlaps(one: IntervalSet, other: IntervalSet) -> tuple[Ints, Ints]:
    """Which stretches of two sets overlap: pairs of positions, by the first set and then by the second.

    There are at most as many pairs as the two have stretches.
    """
    low = np.searchsorted(other.ends, one.starts, side="right")
    high = np.searchsorted(other.starts, one.ends, side="left")
    counts = np.maximum(high - low, 0)
    mine = np.repeat(np.arange(len(one.starts)), counts)
    behind = np.cumsum(counts) - counts
    theirs = np.arange(int(counts.sum())) - np.repeat(behind - low, counts)
    return mine, theirs


def at_least(starts: Ints, ends: Ints, count: int) -> IntervalSet:
    """The time in which so many intervals or more are on.

    >>> at_least(np.array([0, 5, 8]), np.array([10, 9, 12]), 2).length
    5
    """
    moments, on = depth(starts, ends)
    enough = on >= count
    return union_of(moments[:-1][enough], moments[1:][enough])


def depth(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """How many intervals are on between each moment and the next.

    Returns:
        Moments in order, and for each but the last how many intervals are on from it to the next one.
    """
    if not len(starts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    moments = np.concatenate((starts, ends))
    order = np.argsort(moments, kind="stable")
    steps = np.concatenate((np.ones(len(starts), np.int64), np.full(len(ends), -1, np.int64)))
    return moments[order], np.cumsum(steps[order])[:-1]
