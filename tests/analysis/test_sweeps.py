"""Results that are computed in blocks agree with those of one block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.analysis.gpu_time import interval_sets
from tui.analysis.gpu_time.interval_sets import (
    combined_length,
    covered_by_at_least,
    distinct_values,
    find_gaps,
    interval_union,
    max_concurrent,
)
from tui.analysis.gpu_time.timelines import Timeline, concurrency, lengths_by_class, unions_by_class
from tui.model import forest

WORK = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=30)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval_sets, "BLOCK", 4)
    monkeypatch.setattr(forest, "_BLOCK", 4)


def timeline_of(work: list[tuple[int, int, int]], resolution_ns: int = 1) -> tuple[Timeline, np.ndarray]:
    """Return a timeline of (start, duration, class), and the classes."""
    rows = sorted(work)
    starts = np.array([start for start, _, _ in rows], np.int64)
    ends = starts + np.array([duration for _, duration, _ in rows], np.int64)
    classes = np.array([class_ for _, _, class_ in rows], np.int8)
    return Timeline(0, 0, resolution_ns, 0, starts, ends), classes


@given(WORK)
def test_lengths_by_class(work: list[tuple[int, int, int]]) -> None:
    timeline, classes = timeline_of(work)
    class_sets = [{0}, {1, 2}, {0, 1, 2, 3}, {9}]
    expected = []
    for class_set in class_sets:
        mask = np.isin(classes, list(class_set))
        expected.append(interval_union(timeline.starts[mask], timeline.ends[mask]).length_ns)
    assert lengths_by_class(timeline, classes, class_sets) == expected


@given(WORK, st.integers(1, 4))
def test_concurrency(work: list[tuple[int, int, int]], resolution_ns: int) -> None:
    timeline, classes = timeline_of(work, resolution_ns)
    mask = classes != 3
    starts = timeline.starts[mask]
    ends = np.maximum(starts, timeline.ends[mask] - (resolution_ns - 1))
    result = concurrency(timeline, mask)
    assert result.length_ns == covered_by_at_least(starts, ends, 2).length_ns
    assert result.max_concurrent == max_concurrent(starts, ends)


@given(WORK)
def test_unions_by_class(work: list[tuple[int, int, int]]) -> None:
    timeline, classes = timeline_of(work)
    unions = unions_by_class(timeline.starts, timeline.ends, classes - 1)
    assert sorted(unions) == sorted({int(number) - 1 for number in classes} - {-1})
    for number, union in unions.items():
        expected = interval_union(timeline.starts[classes - 1 == number], timeline.ends[classes - 1 == number])
        assert union.starts.tolist() == expected.starts.tolist()
        assert union.ends.tolist() == expected.ends.tolist()
        assert union.length_before.tolist() == expected.length_before.tolist()


@given(WORK, WORK)
def test_combined_length(first_work: list[tuple[int, int, int]], second_work: list[tuple[int, int, int]]) -> None:
    first, second = (
        interval_union(timeline.starts, timeline.ends)
        for timeline, _ in (timeline_of(first_work), timeline_of(second_work))
    )
    assert combined_length(first, second) == (first | second).length_ns


@given(WORK, st.integers(1, 5))
def test_gaps_of_at_least_a_length(work: list[tuple[int, int, int]], min_ns: int) -> None:
    timeline, _ = timeline_of(work)
    latest_ends = np.maximum.accumulate(timeline.ends)
    expected = np.flatnonzero(timeline.starts[1:] - latest_ends[:-1] >= min_ns) + 1
    positions, gap_starts = find_gaps(timeline.starts, timeline.ends, min_ns)
    assert positions.tolist() == expected.tolist()
    assert gap_starts.tolist() == [*latest_ends[expected - 1].tolist(), latest_ends[-1]]


def test_values_of_selected_rows_in_order_of_occurrence() -> None:
    column = np.array([7, 7, 20, 7, 5, 20, 9, 7], np.int64)
    assert list(distinct_values(column, column != 5)) == [7, 20, 9]


def test_an_interval_longer_than_a_block_counts_once_in_the_combined_length() -> None:
    starts = np.arange(0, 20, 2)
    short, long = interval_union(starts, starts + 1), interval_union(np.array([3]), np.array([17]))
    assert combined_length(short, long) == combined_length(long, short) == 1 + 15 + 1


@given(st.lists(st.tuples(st.integers(-1, 28), st.integers(0, 9), st.booleans()), min_size=1, max_size=30))
def test_sums_over_children(rows: list[tuple[int, int, bool]]) -> None:
    parents = [min(parent, row - 1) for row, (parent, _, _) in enumerate(rows)]
    expected = [0] * len(rows)
    for parent, (_, value, is_counted) in zip(parents, rows, strict=True):
        if parent != forest.NONE and is_counted:
            expected[parent] += value
    values, mask = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    assert forest.build_forest(np.array(parents)).child_sums(values, mask).tolist() == expected
