from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.analysis.gpu_time import interval_sets
from tui.analysis.gpu_time.interval_sets import (
    EMPTY,
    IntervalSet,
    combined_length,
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
    return {instant for start, length in intervals for instant in range(start, start + length)}


def instants_of_set(intervals: IntervalSet) -> set[int]:
    return {
        instant
        for start, end in zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True)
        for instant in range(start, end)
    }


def is_sorted_and_disjoint(intervals: IntervalSet) -> bool:
    return bool((intervals.starts[1:] > intervals.ends[:-1]).all()) and bool((intervals.ends >= intervals.starts).all())


@given(INTERVALS, INTERVALS, st.sampled_from([1, 2, interval_sets.BLOCK]))
def test_set_operations_agree_with_sets_of_instants(
    first: list[tuple[int, int]], second: list[tuple[int, int]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_sets, "BLOCK", block)
        assert_set_operations_agree(first, second)


def assert_set_operations_agree(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, b = interval_set(first), interval_set(second)
    assert instants_of_set(a) == covered_instants(first)
    for result, expected in (
        (a | b, covered_instants(first) | covered_instants(second)),
        (a & b, covered_instants(first) & covered_instants(second)),
        (a - b, covered_instants(first) - covered_instants(second)),
    ):
        assert instants_of_set(result) == expected
        assert result.length_ns == len(expected)
    assert is_sorted_and_disjoint(a | b)
    assert (a | b).length_ns == combined_length(a, b)
    assert a.length_ns + b.length_ns == (a | b).length_ns + (a & b).length_ns
    assert a.length_ns == (a - b).length_ns + (a & b).length_ns


@given(INTERVALS, st.integers(-30, END), st.integers(-30, END))
def test_covered_and_uncovered_time_add_up_to_the_interval(
    intervals: list[tuple[int, int]], first_bound: int, second_bound: int
) -> None:
    first, last = sorted((first_bound, second_bound))
    covered = interval_set(intervals)
    covered_ns = int(covered.covered_within(np.array([first]), np.array([last]))[0])
    assert covered_ns == len({instant for instant in covered_instants(intervals) if first <= instant < last})
    assert covered_ns + covered.gaps(first, last).length_ns == last - first


@given(INTERVALS, st.integers(1, 4))
def test_counts_of_concurrent_intervals(intervals: list[tuple[int, int]], count: int) -> None:
    starts = np.array([start for start, _ in intervals], np.int64)
    ends = starts + np.array([length for _, length in intervals], np.int64)
    expected = {
        instant
        for instant in range(-20, END)
        if sum(start <= instant < start + length for start, length in intervals) >= count
    }
    assert instants_of_set(covered_by_at_least(starts, ends, count)) == expected
    counts = [sum(start <= instant < start + length for start, length in intervals) for instant in range(-20, END)]
    assert max_concurrent(starts, ends) == max(*counts, min(1, len(intervals)))
    assert union_length(starts, ends) == len(covered_instants(intervals))


@given(INTERVALS, st.integers(-30, END), st.integers(-30, END))
def test_clipped_sets_agree_with_instants(
    intervals: list[tuple[int, int]], first_bound: int, second_bound: int
) -> None:
    first, last = sorted((first_bound, second_bound))
    clipped = interval_set(intervals).clip_to(first, last)
    assert instants_of_set(clipped) == {instant for instant in covered_instants(intervals) if first <= instant < last}


def test_overlapping_pairs_share_time() -> None:
    a, b = interval_set([(0, 10), (20, 10)]), interval_set([(5, 3), (9, 15), (28, 9)])
    first_rows, second_rows = overlapping_pairs(a, b)
    assert list(zip(first_rows.tolist(), second_rows.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_intervals_that_touch_do_not_overlap() -> None:
    earlier, later = interval_set([(0, 10)]), interval_set([(10, 5)])
    assert [len(rows) for rows in overlapping_pairs(earlier, later)] == [0, 0]
    assert [len(rows) for rows in overlapping_pairs(later, earlier)] == [0, 0]


def test_empty_sets() -> None:
    interval = interval_set([(3, 4)])
    assert (EMPTY | interval, interval | EMPTY, interval - EMPTY) == (interval, interval, interval)
    assert ((EMPTY & interval).length_ns, (EMPTY - interval).length_ns, (interval & EMPTY).length_ns) == (0, 0, 0)
    assert EMPTY.gaps(2, 9).length_ns == 7
    assert EMPTY.covered_before(np.array([5])).tolist() == [0]
    assert covered_by_at_least(EMPTY.starts, EMPTY.ends, 1).length_ns == 0
