from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tui.analysis.gpu_time.interval_sets import (
    EMPTY,
    IntervalSet,
    covered_by_at_least,
    interval_union,
    max_concurrent,
    overlapping_pairs,
    union_length,
)

INTERVALS = st.lists(st.tuples(st.integers(-20, 60), st.integers(0, 15)), max_size=12)
END = 80


def interval_set(intervals: list[tuple[int, int]]) -> IntervalSet:
    starts = np.array([start for start, _ in intervals], np.int64)
    return interval_union(starts, starts + np.array([length for _, length in intervals], np.int64))


def covered_instants(intervals: list[tuple[int, int]]) -> set[int]:
    return {moment for start, length in intervals for moment in range(start, start + length)}


def instants_of_set(found: IntervalSet) -> set[int]:
    return {
        moment
        for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True)
        for moment in range(start, end)
    }


def is_sorted_and_disjoint(found: IntervalSet) -> bool:
    return bool((found.starts[1:] > found.ends[:-1]).all()) and bool((found.ends >= found.starts).all())


@given(INTERVALS, INTERVALS)
def test_set_operations_agree_with_sets_of_instants(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    a, b = interval_set(first), interval_set(second)
    assert instants_of_set(a) == covered_instants(first)
    for found, expected in (
        (a | b, covered_instants(first) | covered_instants(second)),
        (a & b, covered_instants(first) & covered_instants(second)),
        (a - b, covered_instants(first) - covered_instants(second)),
    ):
        assert instants_of_set(found) == expected
        assert found.length_ns == len(expected)
    assert is_sorted_and_disjoint(a | b)
    assert a.length_ns + b.length_ns == (a | b).length_ns + (a & b).length_ns
    assert a.length_ns == (a - b).length_ns + (a & b).length_ns


@given(INTERVALS, st.integers(-30, END), st.integers(-30, END))
def test_covered_and_uncovered_time_add_up_to_the_interval(intervals: list[tuple[int, int]], x: int, y: int) -> None:
    first, last = sorted((x, y))
    found = interval_set(intervals)
    here = int(found.covered_within(np.array([first]), np.array([last]))[0])
    assert here == len({moment for moment in covered_instants(intervals) if first <= moment < last})
    assert here + found.gaps(first, last).length_ns == last - first


@given(INTERVALS, st.integers(1, 4))
def test_counts_of_concurrent_intervals(intervals: list[tuple[int, int]], count: int) -> None:
    starts = np.array([start for start, _ in intervals], np.int64)
    ends = starts + np.array([length for _, length in intervals], np.int64)
    expected = {
        moment
        for moment in range(-20, END)
        if sum(start <= moment < start + length for start, length in intervals) >= count
    }
    assert instants_of_set(covered_by_at_least(starts, ends, count)) == expected
    depths = [sum(start <= moment < start + length for start, length in intervals) for moment in range(-20, END)]
    assert max_concurrent(starts, ends) == max(*depths, min(1, len(intervals)))
    assert union_length(starts, ends) == len(covered_instants(intervals))


@given(INTERVALS, st.integers(-30, END), st.integers(-30, END))
def test_parts_between_two_times(intervals: list[tuple[int, int]], x: int, y: int) -> None:
    first, last = sorted((x, y))
    found = interval_set(intervals).clip_to(first, last)
    assert instants_of_set(found) == {moment for moment in covered_instants(intervals) if first <= moment < last}


def test_overlapping_pairs_share_time() -> None:
    a, b = interval_set([(0, 10), (20, 10)]), interval_set([(5, 3), (9, 15), (28, 9)])
    mine, theirs = overlapping_pairs(a, b)
    assert list(zip(mine.tolist(), theirs.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_intervals_that_touch_do_not_overlap() -> None:
    before, after = interval_set([(0, 10)]), interval_set([(10, 5)])
    assert [len(rows) for rows in overlapping_pairs(before, after)] == [0, 0]
    assert [len(rows) for rows in overlapping_pairs(after, before)] == [0, 0]


def test_empty_sets() -> None:
    some = interval_set([(3, 4)])
    assert (EMPTY | some, some | EMPTY, some - EMPTY) == (some, some, some)
    assert ((EMPTY & some).length_ns, (EMPTY - some).length_ns, (some & EMPTY).length_ns) == (0, 0, 0)
    assert EMPTY.gaps(2, 9).length_ns == 7
    assert EMPTY.covered_before(np.array([5])).tolist() == [0]
    assert covered_by_at_least(EMPTY.starts, EMPTY.ends, 1).length_ns == 0
