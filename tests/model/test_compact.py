"""Columns of one value are kept as one value, and stay what they were."""

from __future__ import annotations

import math

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tui.model.compact import compact
from tui.model.schema import NAME

ROWS = 100_000


def frame() -> pl.DataFrame:
    numbers = pl.Series(range(ROWS))
    return pl.DataFrame(
        {
            "same": pl.Series([7] * ROWS, dtype=pl.Int32),
            "name": pl.Series(["f(int)"] * ROWS, dtype=NAME),
            "flag": [True] * ROWS,
            "null": pl.Series([None] * ROWS, dtype=pl.Int64),
            "number": numbers,
            "same_ends": [1, 2, *([1] * (ROWS - 2))],
            "a_null": pl.Series([1, None, *([1] * (ROWS - 2))], dtype=pl.Int64),
            "mostly_null": pl.Series([None, 3, *([None] * (ROWS - 2))], dtype=pl.Int64),
            "rate": [1.0, math.nan, *([1.0] * (ROWS - 2))],
            "text": ["a", "b", *(["a"] * (ROWS - 2))],
        }
    )


def test_the_frame_stays_the_same() -> None:
    data = frame()
    assert_frame_equal(compact(data), data)
    assert compact(data).schema == data.schema


@pytest.mark.parametrize("column", ["same", "name", "flag", "null"])
def test_one_value_takes_no_memory(column: str) -> None:
    data = frame().select(column)
    assert data.estimated_size() >= ROWS / 8
    assert compact(data).estimated_size() <= 100


def test_few_rows_are_left_alone() -> None:
    data = frame().head(10)
    assert compact(data) is data
