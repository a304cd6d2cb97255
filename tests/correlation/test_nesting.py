"""Nested intervals, compared with a plain stack."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tui.correlation.nesting
from tui.correlation.nesting import NONE, inherit, nest_intervals


def int_array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Draw properly nested intervals of some threads, as (thread, start, end), in any order."""
    intervals = []

    def fill(thread: int, start: int, end: int, depth: int) -> None:
        earliest_start = start
        while earliest_start < end and depth < 5 and draw(st.integers(0, 3)):
            child_start = draw(st.integers(earliest_start, end - 1))
            child_end = draw(st.integers(child_start + 1, end))
            intervals.append((thread, child_start, child_end))
            fill(thread, child_start, child_end, depth + 1)
            earliest_start = child_end

    for thread in draw(st.lists(st.integers(-3, 3), max_size=3, unique=True)):
        fill(thread, 100, 160, 0)
    return draw(st.permutations(intervals))


def innermost_by_search(intervals: list[tuple[int, int, int]], thread: int, time: int) -> tuple[int, int] | None:
    """Return the innermost interval around a time: the last to start and, of several, the first to end."""
    containing = [(start, end) for t, start, end in intervals if t == thread and start <= time <= end]
    return max(containing, key=lambda pair: (pair[0], -pair[1]), default=None)


@given(trees(), st.lists(st.tuples(st.integers(-4, 4), st.integers(90, 170)), max_size=20))
# The end of an interval belongs to it.
@example([(1, 100, 140), (1, 110, 120)], [(1, 120), (1, 121), (1, 140), (1, 141)])
def test_innermost_and_parents_agree_with_a_search(
    intervals: list[tuple[int, int, int]], thread_times: list[tuple[int, int]]
) -> None:
    thread, start, end = (int_array([interval[column] for interval in intervals]) for column in range(3))
    nesting = nest_intervals(thread, start, end - start)
    innermost = nesting.innermost(
        int_array([t for t, _ in thread_times]), int_array([time for _, time in thread_times])
    )
    for (t, time), index in zip(thread_times, innermost, strict=True):
        expected = innermost_by_search(intervals, t, time)
        assert (None if index == NONE else (int(start[index]), int(end[index]))) == expected
    for child, parent in enumerate(nesting.parent):
        containing = [
            pair
            for pair in intervals
            if pair[0] == thread[child]
            and pair[1] <= start[child]
            and pair[2] >= end[child]
            and pair != intervals[child]
        ]
        if parent == NONE:
            assert not containing
        elif containing:
            assert (start[parent], end[parent]) in [(pair[1], pair[2]) for pair in (*containing, intervals[child])]


def test_a_child_that_ends_late_by_rounding_is_a_child() -> None:
    nesting = nest_intervals(int_array([1, 1]), int_array([0, 5]), int_array([10, 6]), slack=1)
    assert nesting.parent.tolist() == [NONE, 0]


def test_an_overlapping_interval_is_not_a_child() -> None:
    nesting = nest_intervals(int_array([1, 1, 1, 1]), int_array([0, 2, 9, 12]), int_array([10, 8, 11, 1]), slack=1)
    assert nesting.parent.tolist() == [NONE, 0, NONE, 2]
    assert nesting.innermost(int_array([1, 1, 1]), int_array([3, 10, 20])).tolist() == [1, 2, 2]


def test_no_intervals() -> None:
    nesting = nest_intervals(int_array([]), int_array([]), int_array([]))
    assert nesting.parent.tolist() == []
    assert nesting.innermost(int_array([1]), int_array([5])).tolist() == [NONE]


def test_times_after_the_end_and_of_other_threads() -> None:
    nesting = nest_intervals(int_array([1, 2]), int_array([0, 0]), int_array([10, 30]))
    assert nesting.innermost(int_array([1, 1, 2, 3, 1]), int_array([10, 11, 10**15, 5, -1])).tolist() == [
        0,
        NONE,
        NONE,
        NONE,
        NONE,
    ]


def test_the_innermost_of_intervals_with_the_same_start() -> None:
    nesting = nest_intervals(int_array([1, 1, 1, 2]), int_array([0, 0, 0, 0]), int_array([10, 5, 7, 4]))
    mask = np.array([True, False, True, False])
    # Interval 1 is within 2 but not in the mask; thread 2 has none in the mask, and nothing starts at 5.
    assert nesting.innermost_starting(int_array([1, 1, 2, 3]), int_array([0, 5, 0, 0]), mask).tolist() == [
        2,
        NONE,
        NONE,
        NONE,
    ]
    assert nesting.innermost_starting(int_array([1, 2]), int_array([0, 0]), ~mask).tolist() == [1, 3]
    assert nesting.innermost_starting(int_array([1]), int_array([0]), np.zeros(4, np.bool_)).tolist() == [NONE]


@pytest.mark.parametrize("slack", [0, 3])
def test_parallel_nesting_agrees_with_nesting_in_one_block(slack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    count = 4000
    thread = random.integers(0, 3, count)
    start = random.integers(0, 20 * count, count)
    duration = random.integers(0, 60, count)  # many overlap
    single_block = nest_intervals(thread, start, duration, slack=slack)
    monkeypatch.setattr(tui.correlation.nesting, "thread_limit", lambda: 8)
    monkeypatch.setattr(tui.correlation.nesting, "_MIN_PARALLEL", 1)
    blocks = nest_intervals(thread, start, duration, slack=slack)
    assert (blocks.parent == single_block.parent).all()
    assert (blocks.depth == single_block.depth).all()
    assert (blocks.innermost(thread, start + duration) == single_block.innermost(thread, start + duration)).all()


@pytest.mark.parametrize("is_sorted", [True, False])
@given(trees(), st.lists(st.tuples(st.integers(-4, 4), st.integers(90, 170)), max_size=20), st.integers(1, 6))
def test_nesting_in_blocks_agrees_with_nesting_in_one_block(
    is_sorted: bool, intervals: list[tuple[int, int, int]], thread_times: list[tuple[int, int]], size: int
) -> None:
    intervals = sorted(intervals, key=lambda interval: interval[1]) if is_sorted else intervals
    thread, start, end = (int_array([interval[column] for interval in intervals]) for column in range(3))
    threads, times = int_array([t for t, _ in thread_times]), int_array([time for _, time in thread_times])
    mask = start % 2 == 0
    with pytest.MonkeyPatch.context() as patch:
        single_block = nest_intervals(thread, start, end - start)
        patch.setattr(tui.correlation.nesting, "_MAX_SINGLE_BLOCK", 0)
        patch.setattr(tui.correlation.nesting, "_BLOCK_SIZE", size)
        blocks = nest_intervals(thread, start, end - start)
        assert blocks.innermost(threads, times).tolist() == single_block.innermost(threads, times).tolist()

    assert blocks.parent.tolist() == single_block.parent.tolist()
    assert blocks.depth.tolist() == single_block.depth.tolist()
    starting = (nesting.innermost_starting(threads, times, mask).tolist() for nesting in (blocks, single_block))
    assert next(starting) == next(starting)


def test_an_interval_that_contains_all_others_is_their_parent_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.correlation.nesting, "_MAX_SINGLE_BLOCK", 0)
    monkeypatch.setattr(tui.correlation.nesting, "_BLOCK_SIZE", 3)
    nesting = nest_intervals(int_array([5] * 11), int_array([0, *range(0, 90, 9)]), int_array([100, *[5] * 10]))

    assert nesting.parent.tolist() == [NONE, *[0] * 10]
    assert nesting.depth.tolist() == [0, *[1] * 10]
    assert nesting.innermost(int_array([5, 5]), int_array([84, 90])).tolist() == [10, 0]


def test_an_interval_that_overlaps_the_next_block_ends_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.correlation.nesting, "_MAX_SINGLE_BLOCK", 0)
    monkeypatch.setattr(tui.correlation.nesting, "_BLOCK_SIZE", 2)
    nesting = nest_intervals(int_array([1] * 4), int_array([0, 2, 9, 12]), int_array([10, 8, 11, 1]))

    assert nesting.parent.tolist() == [NONE, 0, NONE, 2]
    assert nesting.innermost(int_array([1, 1, 1]), int_array([3, 10, 20])).tolist() == [1, 2, 2]


def test_an_interval_without_a_value_inherits_that_of_its_parent() -> None:
    thread, start, end = (int_array(values) for values in ([1, 1, 1, 2], [0, 1, 2, 0], [9, 8, 3, 9]))
    nesting = nest_intervals(thread, start, end - start)
    assert inherit(nesting, int_array([5, 7, NONE, NONE])).tolist() == [5, 7, 7, NONE]
    assert inherit(nesting, int_array([5, NONE, NONE, NONE])).tolist() == [5, 5, 5, NONE]
