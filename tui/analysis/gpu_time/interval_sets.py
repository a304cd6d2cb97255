"""Sets of time intervals: union, intersection, difference, length and concurrency, computed block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt
    import polars as pl

    Ints = npt.NDArray[np.int64]

BLOCK: Final = 1 << 16
"""Rows that are examined together."""

FEW_STREAMS: Final = 16
"""With more streams, rows are sorted by stream instead of searched once per stream."""

NEVER: Final = int(np.iinfo(np.int64).min)
FOREVER: Final = int(np.iinfo(np.int64).max)


def blocks(length: int) -> Iterator[slice]:
    """Return slices that divide ``length`` rows into blocks."""
    return (slice(first, min(first + BLOCK, length)) for first in range(0, length, BLOCK))


class RunningLatestEnd:
    """The latest end of all intervals so far, carried from block to block."""

    def __init__(self) -> None:
        self.latest = NEVER

    def before(self, ends: Ints) -> tuple[Ints, Ints]:
        """Return the latest end before each interval of the next block, and the latest end including it."""
        reached = np.empty(len(ends) + 1, np.int64)
        reached[0] = self.latest
        reached[1:] = ends
        np.maximum.accumulate(reached, out=reached)
        self.latest = int(reached[-1])
        return reached[:-1], reached[1:]


def distinct_values(column: Ints, chosen: npt.NDArray[np.bool_]) -> Iterator[int]:
    """Yield the distinct values of the chosen rows of a column, as each is met first; quick if there are few."""
    seen: set[int] = set()
    for block in blocks(len(column)):
        left = column[block][chosen[block]]
        for value in seen:
            left = left[left != value]
        while len(left):
            value = int(left[0])
            seen.add(value)
            yield value
            left = left[left != value]


def find_gaps(starts: Ints, ends: Ints, min_ns: int) -> tuple[npt.NDArray[np.int32], Ints]:
    """Return the gaps of at least a given length between intervals, which are sorted by start.

    Args:
        starts: The starts of one interval or more.
        ends: Their ends.
        min_ns: The minimum length, above 0.

    Returns:
        The index of the first interval after each gap; the latest end before each, and the end of all intervals.
    """
    reached = RunningLatestEnd()
    # Unwritten pages take no memory, while joining parts would take twice the memory.
    places, begun = np.empty(len(starts), np.int32), np.empty(len(starts) + 1, np.int64)
    number = 0
    for block in blocks(len(starts)):
        opened = starts[block]
        before, _ = reached.before(ends[block])
        if block.start == 0:
            # Nothing was active before the first one.
            before[0] = opened[0]
        found = np.flatnonzero(opened - before >= min_ns)
        here = slice(number, number + len(found))
        np.add(found, block.start, out=places[here])
        begun[here] = before[found]
        number = here.stop
    begun[number] = reached.latest
    return places[:number], begun[: number + 1]


def is_nondecreasing(values: Ints) -> bool:
    """Return whether no value is below the previous one."""
    return not any(
        (values[block.start + 1 : block.stop + 1] < values[block]).any() for block in blocks(len(values) - 1)
    )


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """Sorted disjoint intervals: the times in which at least one of many intervals was active."""

    starts: Ints
    ends: Ints
    before: Ints
    """How long all intervals before each one are together."""

    @property
    def length_ns(self) -> int:
        """The total length of the intervals."""
        return int(self.before[-1] + self.ends[-1] - self.starts[-1]) if len(self.starts) else 0

    def part(self, places: slice) -> IntervalSet:
        """Return a slice of the intervals."""
        return IntervalSet(self.starts[places], self.ends[places], self.before[places] - self.before[places][:1])

    def around(self, first: int, last: int) -> IntervalSet:
        """Return the intervals that touch an interval: sufficient for `within` in it, and faster to search."""
        low, high = np.searchsorted(self.ends, first, side="left"), np.searchsorted(self.starts, last, side="right")
        return IntervalSet(self.starts[low:high], self.ends[low:high], self.before[low:high])

    def until(self, moments: Ints) -> Ints:
        """Return how much of the time before each moment the set covers.

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
        """Return how much of each given interval the set covers."""
        covered: Ints = self.until(ends) - self.until(starts)
        return covered

    def __or__(self, other: IntervalSet) -> IntervalSet:
        """Return the union.

        >>> (union_of(np.array([0]), np.array([5])) | union_of(np.array([3, 9]), np.array([6, 10]))).length_ns
        7
        """
        if not len(self.starts):
            return other
        if not len(other.starts):
            return self
        return union_of(np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends)))

    def __and__(self, other: IntervalSet) -> IntervalSet:
        """Return the intersection.

        >>> (union_of(np.array([0]), np.array([5])) & union_of(np.array([3, 9]), np.array([6, 10]))).length_ns
        2
        """
        rows, other_rows = overlapping_pairs(self, other)
        return from_disjoint(
            np.maximum(self.starts[rows], other.starts[other_rows]), np.minimum(self.ends[rows], other.ends[other_rows])
        )

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        """Return the difference.

        >>> (union_of(np.array([0]), np.array([5])) - union_of(np.array([3, 9]), np.array([6, 10]))).length_ns
        3
        """
        if not len(self.starts) or not len(other.starts):
            return self
        return self & other.gaps(int(self.starts[0]), int(self.ends[-1]))

    def clip_to(self, first: int, last: int) -> IntervalSet:
        """Return the part of the set between two moments.

        >>> union_of(np.array([0, 8]), np.array([5, 20])).clip_to(3, 10).length_ns
        4
        """
        if not len(self.starts) or (self.starts[0] >= first and self.ends[-1] <= last):
            return self
        inside = (self.starts < last) & (self.ends > first)
        return from_disjoint(np.maximum(self.starts[inside], first), np.minimum(self.ends[inside], last))

    def gaps(self, first: int, last: int) -> IntervalSet:
        """Return the time from ``first`` to ``last`` that the intervals do not cover.

        >>> union_of(np.array([2]), np.array([3])).gaps(0, 10).length_ns
        9
        """
        starts = np.concatenate((np.array([first], np.int64), self.ends))
        ends = np.concatenate((self.starts, np.array([last], np.int64)))
        starts, ends = np.maximum(starts, first), np.minimum(ends, last)
        is_gap = ends > starts
        return from_disjoint(starts[is_gap], ends[is_gap])


EMPTY = IntervalSet(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def from_disjoint(starts: Ints, ends: Ints) -> IntervalSet:
    """Return a set of intervals that are in order and do not overlap."""
    before, total = np.empty(len(starts), np.int64), 0
    for block in blocks(len(starts)):
        lengths = ends[block] - starts[block]
        until = np.cumsum(lengths)
        np.subtract(until, lengths - total, out=before[block])
        total += int(until[-1])
    return IntervalSet(starts, ends, before)


def sorted_values(values: Ints) -> Ints:
    """Return the values sorted; unchanged if they are in order."""
    return values if is_nondecreasing(values) else np.sort(values, kind="stable")


def union_of(starts: Ints, ends: Ints) -> IntervalSet:
    """Return the union of intervals in any order; intervals of zero length add nothing."""
    if not len(starts):
        return EMPTY
    if not is_nondecreasing(starts):
        # An interval of the union begins at the i-th start if i ends precede it.
        starts, ends = sorted_values(starts), sorted_values(ends)
    return _union_of_sorted(starts, lambda block: ends[block])


def _union_of_sorted(starts: Ints, ends_of: Callable[[slice], Ints]) -> IntervalSet:
    """Return the union of one interval or more in order of their starts.

    Args:
        starts: The sorted starts.
        ends_of: Returns the ends of a slice of the intervals.
    """
    opened, closed = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    reached, number = RunningLatestEnd(), 0
    for block in blocks(len(starts)):
        begun = starts[block]
        before, _ = reached.before(ends_of(block))
        opens = np.flatnonzero(begun > before)
        opened[number : number + len(opens)] = begun[opens]
        # An interval of the union begins where all previous intervals have ended.
        ended = before[opens] if number else before[opens[1:]]
        number += len(opens)
        closed[number - 1 - len(ended) : number - 1] = ended
    closed[number - 1] = reached.latest
    return from_disjoint(opened[:number], closed[:number])


def intervals_of_rows(rows: pl.DataFrame) -> IntervalSet:
    """Return when any of some rows was active: the union of their intervals with known times."""
    timed = rows.select("start_ns", "duration_ns")
    if any(timed[name].null_count() for name in timed.columns):
        timed = timed.drop_nulls()
    if timed.is_empty():
        return EMPTY
    starts, lengths = timed["start_ns"].to_numpy(), timed["duration_ns"].to_numpy()
    if not is_nondecreasing(starts):
        return union_of(starts, starts + lengths)
    return _union_of_sorted(starts, lambda block: starts[block] + lengths[block])


def union_length(starts: Ints, ends: Ints) -> int:
    """Return the length of the union of intervals, without building it.

    >>> union_length(np.array([0, 5, 30]), np.array([10, 20, 40]))
    30
    """
    if not len(starts):
        return 0
    starts, ends = sorted_values(starts), sorted_values(ends)
    return int(ends[-1] - starts[0] - np.maximum(starts[1:] - ends[:-1], 0).sum())


def length_of_union(one: IntervalSet, other: IntervalSet) -> int:
    """Return the length of the union of two sets, without building it.

    >>> length_of_union(union_of(np.array([0]), np.array([5])), union_of(np.array([3, 9]), np.array([6, 10])))
    7
    """
    if not len(one.starts):
        return other.length_ns
    found = 0
    edges = [NEVER, *one.starts[BLOCK::BLOCK].tolist(), FOREVER]
    for block, first, last in zip(blocks(len(one.starts)), edges, edges[1:], strict=False):
        # No interval of the first set contains the start of another one of it.
        low, high = np.searchsorted(other.ends, first, side="right"), np.searchsorted(other.starts, last, side="left")
        starts, ends = np.maximum(other.starts[low:high], first), np.minimum(other.ends[low:high], last)
        found += union_length(np.concatenate((one.starts[block], starts)), np.concatenate((one.ends[block], ends)))
    return found


def overlapping_pairs(one: IntervalSet, other: IntervalSet) -> tuple[Ints, Ints]:
    """Return the pairs of overlapping intervals of two sets, as positions, by the first set, then the second.

    There are at most as many pairs as the two have intervals.
    """
    low = np.searchsorted(other.ends, one.starts, side="right")
    high = np.searchsorted(other.starts, one.ends, side="left")
    counts = np.maximum(high - low, 0)
    rows = np.repeat(np.arange(len(one.starts)), counts)
    behind = np.cumsum(counts) - counts
    other_rows = np.arange(int(counts.sum())) - np.repeat(behind - low, counts)
    return rows, other_rows


def covered_at_least(starts: Ints, ends: Ints, count: int) -> IntervalSet:
    """Return the time in which at least ``count`` intervals are active.

    >>> covered_at_least(np.array([0, 5, 8]), np.array([10, 9, 12]), 2).length_ns
    5
    """
    if len(starts) < count:
        return EMPTY
    # ``count`` intervals are active from the start at index (number of ends so far) + count - 1, to the next end.
    opened, closed = sorted_values(starts)[count - 1 :], sorted_values(ends)[: len(ends) - count + 1]
    overlaps = opened < closed
    return union_of(opened[overlaps], closed[overlaps])


def max_concurrent(starts: Ints, ends: Ints) -> int:
    """Return the maximum number of concurrent intervals; one that ends as another starts does not overlap it.

    >>> max_concurrent(np.array([0, 5, 8]), np.array([10, 9, 12]))
    3
    """
    if not all((ends[block] > starts[block]).all() for block in blocks(len(starts))):
        long = ends > starts
        starts, ends = starts[long], ends[long]
        if not len(starts):
            return min(1, len(long))
    if not len(starts):
        return 0
    opened, closed = sorted_values(starts), sorted_values(ends)

    def reaches(count: int) -> bool:
        later = opened[count - 1 :]
        return any((later[block] < closed[block]).any() for block in blocks(len(later)))

    high = 2
    while reaches(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return low
