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

BEFORE_ALL: Final = int(np.iinfo(np.int64).min)
FOREVER: Final = int(np.iinfo(np.int64).max)


def blocks(length: int) -> Iterator[slice]:
    """Return slices that divide ``length`` rows into blocks."""
    return (slice(first, min(first + BLOCK, length)) for first in range(0, length, BLOCK))


class RunningLatestEnd:
    """The latest end of all intervals so far, carried from block to block."""

    def __init__(self) -> None:
        self.latest = BEFORE_ALL

    def latest_before(self, ends: Ints) -> tuple[Ints, Ints]:
        """Return the latest end before each interval of the next block, and the latest end including it."""
        latest = np.empty(len(ends) + 1, np.int64)
        latest[0] = self.latest
        latest[1:] = ends
        np.maximum.accumulate(latest, out=latest)
        self.latest = int(latest[-1])
        return latest[:-1], latest[1:]


def distinct_values(column: Ints, chosen: npt.NDArray[np.bool_]) -> Iterator[int]:
    """Yield the distinct values of the chosen rows of a column, as each is met first; quick if there are few."""
    yielded: set[int] = set()
    for block in blocks(len(column)):
        remaining = column[block][chosen[block]]
        for value in yielded:
            remaining = remaining[remaining != value]
        while len(remaining):
            value = int(remaining[0])
            yielded.add(value)
            yield value
            remaining = remaining[remaining != value]


def find_gaps(starts: Ints, ends: Ints, min_ns: int) -> tuple[npt.NDArray[np.int32], Ints]:
    """Return the gaps of at least a given length between intervals, which are sorted by start.

    Args:
        starts: The starts of one interval or more.
        ends: Their ends.
        min_ns: The minimum length, above 0.

    Returns:
        The index of the first interval after each gap; the latest end before each, and the end of all intervals.
    """
    latest_end = RunningLatestEnd()
    # Unwritten pages take no memory, while joining parts would take twice the memory.
    next_work, gap_starts = np.empty(len(starts), np.int32), np.empty(len(starts) + 1, np.int64)
    number = 0
    for block in blocks(len(starts)):
        opened = starts[block]
        previous_ends, _ = latest_end.latest_before(ends[block])
        if block.start == 0:
            # Nothing was active before the first one.
            previous_ends[0] = opened[0]
        indices = np.flatnonzero(opened - previous_ends >= min_ns)
        written = slice(number, number + len(indices))
        np.add(indices, block.start, out=next_work[written])
        gap_starts[written] = previous_ends[indices]
        number = written.stop
    gap_starts[number] = latest_end.latest
    return next_work[:number], gap_starts[: number + 1]


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
    length_before: Ints
    """How long all intervals before each one are together."""

    @property
    def length_ns(self) -> int:
        """The total length of the intervals."""
        return int(self.length_before[-1] + self.ends[-1] - self.starts[-1]) if len(self.starts) else 0

    def sliced(self, selection: slice) -> IntervalSet:
        """Return a slice of the intervals."""
        return IntervalSet(
            self.starts[selection],
            self.ends[selection],
            self.length_before[selection] - self.length_before[selection][:1],
        )

    def around(self, first: int, last: int) -> IntervalSet:
        """Return the intervals that touch an interval: sufficient for `covered_within` in it, and faster to search."""
        low, high = np.searchsorted(self.ends, first, side="left"), np.searchsorted(self.starts, last, side="right")
        return IntervalSet(self.starts[low:high], self.ends[low:high], self.length_before[low:high])

    def covered_before(self, moments: Ints) -> Ints:
        """Return how much of the time before each moment the set covers.

        >>> intervals = interval_union(np.array([0, 5, 30]), np.array([10, 20, 40]))
        >>> intervals.covered_before(np.array([-3, 7, 25, 35, 99])).tolist()
        [0, 7, 20, 25, 30]
        """
        if not len(self.starts):
            return np.zeros(len(moments), np.int64)
        indices = np.searchsorted(self.starts, moments, side="right") - 1
        clipped = np.maximum(indices, 0)
        covered: Ints = self.length_before[clipped] + np.clip(
            np.minimum(moments, self.ends[clipped]) - self.starts[clipped], 0, None
        )
        return covered

    def covered_within(self, starts: Ints, ends: Ints) -> Ints:
        """Return how much of each given interval the set covers."""
        covered: Ints = self.covered_before(ends) - self.covered_before(starts)
        return covered

    def __or__(self, other: IntervalSet) -> IntervalSet:
        """Return the union.

        >>> first = interval_union(np.array([0]), np.array([5]))
        >>> (first | interval_union(np.array([3, 9]), np.array([6, 10]))).length_ns
        7
        """
        if not len(self.starts):
            return other
        if not len(other.starts):
            return self
        # Unwritten pages take no memory.
        size, number = len(self.starts) + len(other.starts), 0
        opened, closed = np.empty(size, np.int64), np.empty(size, np.int64)
        for starts, ends in _pieces(self, other):
            part = interval_union(starts, ends)
            # An interval of the other set may be divided between two pieces.
            continued = int(number > 0 and bool(part.starts[0] <= closed[number - 1]))
            if continued:
                closed[number - 1] = max(closed[number - 1], part.ends[0])
            added = slice(number, number + len(part.starts) - continued)
            opened[added], closed[added] = part.starts[continued:], part.ends[continued:]
            number = added.stop
        return from_disjoint(opened[:number], closed[:number])

    def __and__(self, other: IntervalSet) -> IntervalSet:
        """Return the intersection.

        >>> first = interval_union(np.array([0]), np.array([5]))
        >>> (first & interval_union(np.array([3, 9]), np.array([6, 10]))).length_ns
        2
        """
        rows, other_rows = overlapping_pairs(self, other)
        return from_disjoint(
            np.maximum(self.starts[rows], other.starts[other_rows]), np.minimum(self.ends[rows], other.ends[other_rows])
        )

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        """Return the difference.

        >>> first = interval_union(np.array([0]), np.array([5]))
        >>> (first - interval_union(np.array([3, 9]), np.array([6, 10]))).length_ns
        3
        """
        if not len(self.starts) or not len(other.starts):
            return self
        return self & other.gaps(int(self.starts[0]), int(self.ends[-1]))

    def clip_to(self, first: int, last: int) -> IntervalSet:
        """Return the part of the set between two moments.

        >>> interval_union(np.array([0, 8]), np.array([5, 20])).clip_to(3, 10).length_ns
        4
        """
        if not len(self.starts) or (self.starts[0] >= first and self.ends[-1] <= last):
            return self
        inside = (self.starts < last) & (self.ends > first)
        return from_disjoint(np.maximum(self.starts[inside], first), np.minimum(self.ends[inside], last))

    def gaps(self, first: int, last: int) -> IntervalSet:
        """Return the time from ``first`` to ``last`` that the intervals do not cover.

        >>> interval_union(np.array([2]), np.array([3])).gaps(0, 10).length_ns
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
    covered, total = np.empty(len(starts), np.int64), 0
    for block in blocks(len(starts)):
        lengths = ends[block] - starts[block]
        block_totals = np.cumsum(lengths)
        np.subtract(block_totals, lengths - total, out=covered[block])
        total += int(block_totals[-1])
    return IntervalSet(starts, ends, covered)


def sorted_values(values: Ints) -> Ints:
    """Return the values sorted; unchanged if they are in order."""
    return values if is_nondecreasing(values) else np.sort(values, kind="stable")


def interval_union(starts: Ints, ends: Ints) -> IntervalSet:
    """Return the union of intervals in any order; intervals of zero length add nothing."""
    if not len(starts):
        return EMPTY
    if not is_nondecreasing(starts):
        # An interval of the union begins at the i-th start if i ends precede it.
        starts, ends = sorted_values(starts), sorted_values(ends)
    return _sorted_union(starts, lambda block: ends[block])


def _sorted_union(starts: Ints, ends_of: Callable[[slice], Ints]) -> IntervalSet:
    """Return the union of one interval or more in order of their starts.

    Args:
        starts: The sorted starts.
        ends_of: Returns the ends of a slice of the intervals.
    """
    opened, closed = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    latest_end, number = RunningLatestEnd(), 0
    for block in blocks(len(starts)):
        block_starts = starts[block]
        previous_ends, _ = latest_end.latest_before(ends_of(block))
        opens = np.flatnonzero(block_starts > previous_ends)
        opened[number : number + len(opens)] = block_starts[opens]
        # An interval of the union begins where all previous intervals have ended.
        ended = previous_ends[opens] if number else previous_ends[opens[1:]]
        number += len(opens)
        closed[number - 1 - len(ended) : number - 1] = ended
    closed[number - 1] = latest_end.latest
    return from_disjoint(opened[:number], closed[:number])


def row_intervals(rows: pl.DataFrame) -> IntervalSet:
    """Return when any of some rows was active: the union of their intervals with known times."""
    timed = rows.select("start_ns", "duration_ns")
    if any(timed[name].null_count() for name in timed.columns):
        timed = timed.drop_nulls()
    if timed.is_empty():
        return EMPTY
    starts, lengths = timed["start_ns"].to_numpy(), timed["duration_ns"].to_numpy()
    if not is_nondecreasing(starts):
        return interval_union(starts, starts + lengths)
    return _sorted_union(starts, lambda block: starts[block] + lengths[block])


def union_length(starts: Ints, ends: Ints) -> int:
    """Return the length of the union of intervals, without building it.

    >>> union_length(np.array([0, 5, 30]), np.array([10, 20, 40]))
    30
    """
    if not len(starts):
        return 0
    starts, ends = sorted_values(starts), sorted_values(ends)
    return int(ends[-1] - starts[0] - np.maximum(starts[1:] - ends[:-1], 0).sum())


def combined_length(left: IntervalSet, right: IntervalSet) -> int:
    """Return the length of the union of two sets, without building it.

    >>> left = interval_union(np.array([0]), np.array([5]))
    >>> combined_length(left, interval_union(np.array([3, 9]), np.array([6, 10])))
    7
    """
    if not len(left.starts):
        return right.length_ns
    return sum(union_length(starts, ends) for starts, ends in _pieces(left, right))


def _pieces(left: IntervalSet, right: IntervalSet) -> Iterator[tuple[Ints, Ints]]:
    """Yield starts and ends of the intervals of two sets, piece by piece in order of time.

    Args:
        left: A set that is not empty; each piece begins with one of its intervals, except the first.
        right: Its intervals are divided where a piece begins.
    """
    edges = [BEFORE_ALL, *left.starts[BLOCK::BLOCK].tolist(), FOREVER]
    for block, first, last in zip(blocks(len(left.starts)), edges, edges[1:], strict=False):
        # No interval of the first set contains the start of another one of it.
        low, high = np.searchsorted(right.ends, first, side="right"), np.searchsorted(right.starts, last, side="left")
        starts, ends = np.maximum(right.starts[low:high], first), np.minimum(right.ends[low:high], last)
        yield np.concatenate((left.starts[block], starts)), np.concatenate((left.ends[block], ends))


def overlapping_pairs(first: IntervalSet, second: IntervalSet) -> tuple[Ints, Ints]:
    """Return the pairs of overlapping intervals of two sets, as positions, by the first set, then the second.

    There are at most as many pairs as the two have intervals.
    """
    low = np.searchsorted(second.ends, first.starts, side="right")
    high = np.searchsorted(second.starts, first.ends, side="left")
    counts = np.maximum(high - low, 0)
    rows = np.repeat(np.arange(len(first.starts)), counts)
    offsets = np.cumsum(counts) - counts
    second_rows = np.arange(int(counts.sum())) - np.repeat(offsets - low, counts)
    return rows, second_rows


def covered_by_at_least(starts: Ints, ends: Ints, count: int) -> IntervalSet:
    """Return the time in which at least ``count`` intervals are active.

    >>> covered_by_at_least(np.array([0, 5, 8]), np.array([10, 9, 12]), 2).length_ns
    5
    """
    if len(starts) < count:
        return EMPTY
    # ``count`` intervals are active from the start at index (number of ends so far) + count - 1, to the next end.
    opened, closed = sorted_values(starts)[count - 1 :], sorted_values(ends)[: len(ends) - count + 1]
    overlaps = opened < closed
    return interval_union(opened[overlaps], closed[overlaps])


def max_concurrent(starts: Ints, ends: Ints) -> int:
    """Return the maximum number of concurrent intervals; one that ends as another starts does not overlap it.

    >>> max_concurrent(np.array([0, 5, 8]), np.array([10, 9, 12]))
    3
    """
    if not all((ends[block] > starts[block]).all() for block in blocks(len(starts))):
        has_length = ends > starts
        starts, ends = starts[has_length], ends[has_length]
        if not len(starts):
            return min(1, len(has_length))
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
