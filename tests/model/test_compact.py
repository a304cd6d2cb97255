"""Constant columns are stored as one value, and do not change."""

from __future__ import annotations

import math

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tui.model.profile import compact_constants
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
            "kernels_alone": pl.Series([1, None] * (ROWS // 2), dtype=pl.Int32),
            "kernels_too": pl.Series([1, None] * (ROWS // 2), dtype=pl.Int32),
            "copies_alone": pl.Series([None, 1] * (ROWS // 2), dtype=pl.Int32),
            "one_and_two": pl.Series([1, None, 2, None] * (ROWS // 4), dtype=pl.Int32),
            "nothing_shared": pl.Series([0, None] * (ROWS // 2), dtype=pl.Int64),
            "rate": [1.0, math.nan, *([1.0] * (ROWS - 2))],
            "text": ["a", "b", *(["a"] * (ROWS - 2))],
        }
    )


def test_the_frame_is_unchanged() -> None:
    data = frame()
    assert_frame_equal(compact_constants(data), data)
    assert compact_constants(data).schema == data.schema


@pytest.mark.parametrize("column", ["same", "name", "flag", "null"])
def test_a_constant_column_takes_no_memory(column: str) -> None:
    data = frame().select(column)
    assert data.estimated_size() >= ROWS / 8
    assert compact_constants(data).estimated_size() <= 100


def buffer_addresses(data: pl.DataFrame, column: str) -> int:
    """Return the memory addresses of the values of a column."""
    row = data[column].is_not_null().arg_max() or 0
    known = data[column].slice(row, 1).to_numpy(allow_copy=False)
    return int(known.ctypes.data) - row * known.itemsize


def test_columns_of_equal_known_numbers_share_memory() -> None:
    data = compact_constants(frame())
    assert (
        buffer_addresses(data, "kernels_alone")
        == buffer_addresses(data, "kernels_too")
        == buffer_addresses(data, "copies_alone")
    )
    assert buffer_addresses(data, "one_and_two") != buffer_addresses(data, "kernels_alone")
    assert data.filter(pl.col("kernels_alone") == 1).height == ROWS // 2
    assert data["copies_alone"].sum() == ROWS // 2
    assert_frame_equal(data[::2], frame()[::2])
    assert_frame_equal(data.sort("number", descending=True), frame().sort("number", descending=True))


def test_small_frames_are_not_compacted() -> None:
    data = frame().head(10)
    assert compact_constants(data) is data
