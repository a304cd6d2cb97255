"""Sort orders equal those of a stable sort in Python, however they are computed."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.query import apply, facts
from tui.query.apply import shown_positions, sorted_rows

INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMNS = {
    "small": (pl.Int64, st.integers(-3, 3)),
    "wide": (pl.Int64, INT64),
    "unsigned": (pl.UInt64, st.integers(0, 2**64 - 1)),
    "float": (pl.Float64, st.floats(width=64)),
    "flag": (pl.Boolean, st.booleans()),
    "text": (pl.String, st.sampled_from(["a", "A", "b", "B", "ab", "aB", ""])),
    "name": (pl.Categorical, st.sampled_from(["gemm", "GEMM", "memcpy", "Memset", ""])),
}


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    """Draw frames with nulls in every column."""
    height = draw(st.integers(0, 12))
    columns = {
        name: pl.Series(name, draw(st.lists(values | st.none(), min_size=height, max_size=height)), dtype=dtype)
        for name, (dtype, values) in COLUMNS.items()
    }
    return pl.DataFrame(columns)


def rows_sorted_by_python(frame: pl.DataFrame, sort: tuple[tuple[str, bool], ...]) -> list[int]:
    """Return the rows sorted by Python."""
    rows = list(range(frame.height))
    for name, descending in reversed(sort):
        values = [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in frame[name].to_list()]

        def key(row: int, values: list[Any] = values) -> Any:
            value = values[row]
            return (value.lower(), value) if isinstance(value, str) else value

        known = sorted((row for row in rows if values[row] is not None), key=key)
        if descending:
            # Reversing alone would reverse rows of equal value too.
            reversed_rows = sorted((row for row in reversed(rows) if values[row] is not None), key=key)
            known = reversed_rows[::-1]
        rows = known + [row for row in rows if values[row] is None]
    return rows


@given(frames(), st.lists(st.tuples(st.sampled_from(sorted(COLUMNS)), st.booleans()), min_size=1, max_size=3))
def test_rows_are_sorted_stably(frame: pl.DataFrame, sort: list[tuple[str, bool]]) -> None:
    rows = sorted_rows(frame, tuple(sort), None)
    assert rows is not None
    assert rows.to_list() == rows_sorted_by_python(frame, tuple(sort))


def test_sorting_by_nothing_keeps_the_rows() -> None:
    assert sorted_rows(pl.DataFrame({"a": [1, 2]}), (), None) is None
    rows = sorted_rows(pl.DataFrame({"a": [1, 2]}), (), pl.Series([False, True]))
    assert rows is not None
    assert rows.to_list() == [1]


@pytest.mark.parametrize("step", [2, 30], ids=["most rows", "few rows"])
def test_filtered_rows_keep_their_order(step: int) -> None:
    random = np.random.default_rng(1)
    frame = pl.DataFrame({"a": random.integers(0, 50, 30_000), "b": random.integers(0, 10**12, 30_000)})
    sort = (("a", True), ("b", False))
    mask = pl.Series(np.arange(30_000) % step == 0)
    uncached = sorted_rows(frame, sort, mask)
    all_rows = sorted_rows(frame, sort, None)
    filtered = sorted_rows(frame, sort, mask)
    assert uncached is not None
    assert all_rows is not None
    assert filtered is not None
    assert uncached.to_list() == filtered.to_list() == [row for row in all_rows.to_list() if row % step == 0]
    assert all_rows.to_list() == rows_sorted_by_python(frame, sort)


@pytest.mark.parametrize("step", [1, 2, 30, 40_000], ids=["all rows", "most rows", "few rows", "the first row"])
@pytest.mark.parametrize("filtered", [False, True], ids=["of all", "of those that a filter leaves"])
def test_matches_are_at_their_shown_positions(step: int, filtered: bool) -> None:
    random = np.random.default_rng(2)
    frame = pl.DataFrame({"a": random.integers(0, 50, 30_000), "b": random.integers(0, 50, 30_000)})
    matches = pl.Series(np.arange(30_000) % step == 0)
    mask = pl.Series(np.arange(30_000) % 3 == 0) if filtered else None
    for sort in ((), (("a", True),), (("b", False), ("a", False)), (("a", True),)):
        shown = sorted_rows(frame, sort, mask)
        row_order = range(30_000) if shown is None else shown.to_list()
        positions = shown_positions(frame, matches, shown)
        assert positions.dtype == pl.UInt32
        assert positions.to_list() == [position for position, row in enumerate(row_order) if row % step == 0]


def test_an_order_is_computed_once_and_freed_with_its_frame() -> None:
    frame = pl.DataFrame({"a": np.random.default_rng(0).integers(0, 9, apply.MIN_CACHED_ROWS)})
    first = sorted_rows(frame, (("a", True),), None)
    assert sorted_rows(frame, (("a", True),), None) is first
    cached_frames = len(facts._FACTS_BY_FRAME)
    del frame
    gc.collect()
    assert len(facts._FACTS_BY_FRAME) < cached_frames


def test_least_recently_used_orders_are_dropped() -> None:
    columns = {
        str(seed): np.random.default_rng(seed).integers(0, 9, apply.MIN_CACHED_ROWS)
        for seed in range(facts.MAX_CACHED_ORDERS + 1)
    }
    frame = pl.DataFrame(columns)
    first = sorted_rows(frame, (("0", True),), None)
    for name in columns:
        sorted_rows(frame, ((name, True),), None)
    recomputed = sorted_rows(frame, (("0", True),), None)
    assert recomputed is not first
    assert first is not None
    assert recomputed is not None
    assert (recomputed == first).all()


def test_many_texts_are_sorted_like_few() -> None:
    texts = ["b", "B", "a", "A", None] * 5_000
    many = pl.DataFrame({"text": texts})
    few = pl.DataFrame({"text": texts[:10]})
    rows = sorted_rows(many, (("text", False),), None)
    assert rows is not None
    few_rows = sorted_rows(few, (("text", False),), None)
    assert few_rows is not None
    assert [many["text"][row] for row in rows[::5_000]] == [few["text"][row] for row in few_rows[::2]]
