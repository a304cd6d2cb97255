"""Results computed block by block equal those of the whole, wherever the blocks are split."""

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
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval_sets, "BLOCK", 4)
    monkeypatch.setattr(forest, "_BLOCK", 4)


def timeline_of(work: list[tuple[int, int, int]], resolution_ns: int = 1) -> tuple[Timeline, np.ndarray]:
    """Return a timeline of (start, duration, class), and the classes."""
    rows = sorted(work)
    starts = np.array([start for start, _, _ in rows], np.int64)
    ends = starts + np.array([duration for _, duration, _ in rows], np.int64)
    classes = np.array([found for _, _, found in rows], np.int8)
    return Timeline(0, 0, resolution_ns, 0, starts, ends), classes


@given(WORK)
def test_lengths_by_class(work: list[tuple[int, int, int]]) -> None:
    line, classes = timeline_of(work)
    sets = [{0}, {1, 2}, {0, 1, 2, 3}, {9}]
    expected = []
    for classes_of_set in sets:
        on = np.isin(classes, list(classes_of_set))
        expected.append(interval_union(line.starts[on], line.ends[on]).length_ns)
    assert lengths_by_class(line, classes, sets) == expected


@given(WORK, st.integers(1, 4))
def test_concurrency(work: list[tuple[int, int, int]], resolution_ns: int) -> None:
    line, classes = timeline_of(work, resolution_ns)
    chosen = classes != 3
    starts = line.starts[chosen]
    ends = np.maximum(starts, line.ends[chosen] - (resolution_ns - 1))
    found = concurrency(line, chosen)
    assert found.length_ns == covered_by_at_least(starts, ends, 2).length_ns
    assert found.max_concurrent == max_concurrent(starts, ends)


@given(WORK)
def test_unions_by_class(work: list[tuple[int, int, int]]) -> None:
    line, classes = timeline_of(work)
    found = unions_by_class(line.starts, line.ends, classes - 1)
    assert sorted(found) == sorted({int(number) - 1 for number in classes} - {-1})
    for number, spans in found.items():
        own = interval_union(line.starts[classes - 1 == number], line.ends[classes - 1 == number])
        assert spans.starts.tolist() == own.starts.tolist()
        assert spans.ends.tolist() == own.ends.tolist()
        assert spans.length_before.tolist() == own.length_before.tolist()


@given(WORK, WORK)
def test_joint_length(one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]) -> None:
    first, second = (interval_union(line.starts, line.ends) for line, _ in (timeline_of(one), timeline_of(other)))
    assert combined_length(first, second) == (first | second).length_ns


@given(WORK, st.integers(1, 5))
def test_gaps_of_at_least_a_length(work: list[tuple[int, int, int]], least: int) -> None:
    line, _ = timeline_of(work)
    reached = np.maximum.accumulate(line.ends)
    expected = np.flatnonzero(line.starts[1:] - reached[:-1] >= least) + 1
    places, begun = find_gaps(line.starts, line.ends, least)
    assert places.tolist() == expected.tolist()
    assert begun.tolist() == [*reached[expected - 1].tolist(), reached[-1]]


def test_values_of_selected_rows_in_order_of_occurrence() -> None:
    column = np.array([7, 7, 20, 7, 5, 20, 9, 7], np.int64)
    assert list(distinct_values(column, column != 5)) == [7, 20, 9]


def test_an_interval_that_lasts_longer_than_a_block_counts_once_in_the_joint_length() -> None:
    starts = np.arange(0, 20, 2)
    dotted, long = interval_union(starts, starts + 1), interval_union(np.array([3]), np.array([17]))
    assert combined_length(dotted, long) == combined_length(long, dotted) == 1 + 15 + 1


@given(st.lists(st.tuples(st.integers(-1, 28), st.integers(0, 9), st.booleans()), min_size=1, max_size=30))
def test_sums_over_children(rows: list[tuple[int, int, bool]]) -> None:
    parents = [min(parent, row - 1) for row, (parent, _, _) in enumerate(rows)]
    expected = [0] * len(rows)
    for parent, (_, value, is_counted) in zip(parents, rows, strict=True):
        if parent != forest.NONE and is_counted:
            expected[parent] += value
    values, counted = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    assert forest.build_forest(np.array(parents)).child_sums(values, counted).tolist() == expected
