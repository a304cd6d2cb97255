"""Grouping by packed keys agrees with grouping by the columns."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.analysis.grouping import distinct_rows, group_rows, unique_values

ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.sampled_from([None, -3, 4_000_000_000]),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, True, False]),
        st.integers(0, 99),
    ),
    max_size=20,
)
SCHEMA = {"session": pl.UInt32, "stream": pl.Int64, "name": pl.Categorical, "told": pl.Boolean, "duration_ns": pl.Int64}


@given(ROWS, st.sampled_from([["session", "name"], ["stream", "name", "session"], ["told", "name"], ["session"]]))
def test_grouping_by_packed_keys_equals_group_by(rows: list[tuple[object, ...]], keys: list[str]) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    sums = [pl.len().alias("calls"), pl.col("duration_ns").sum()]
    grouped, expected = group_rows(frame, keys, sums), frame.group_by(keys).agg(*sums)
    assert grouped.schema == expected.schema
    assert sorted(grouped.rows(), key=str) == sorted(expected.rows(), key=str)
    assert sorted(distinct_rows(frame, keys).rows(), key=str) == sorted(frame.select(keys).unique().rows(), key=str)


@pytest.mark.parametrize("values", [[], [None], [1, 1], [1, None], [2, 1, 2]])
def test_unique_values_of_short_columns(values: list[int | None]) -> None:
    column = pl.Series(values, dtype=pl.Int64)
    assert sorted(unique_values(column).to_list(), key=str) == sorted(column.unique().to_list(), key=str)


@pytest.mark.parametrize(
    "values",
    [
        pl.Series(["b", "a", "c", "a"] * 60_000, dtype=pl.Categorical),
        pl.Series([-7, 65_528, 3] * 80_000, dtype=pl.Int32),
        pl.Series([-7, 65_529, 3] * 80_000, dtype=pl.Int64),
        pl.Series([0, 2**64 - 1, 2**63] * 80_000, dtype=pl.UInt64),
        pl.Series([1, None, 3] * 80_000, dtype=pl.Int64),
        pl.Series([0.5, 1.5, 2.5] * 80_000),
    ],
    ids=["names", "close", "too far apart", "large", "one is missing", "no whole numbers"],
)
def test_each_value_of_a_long_column_is_found_once(values: pl.Series) -> None:
    """For long columns with few values, a row of each value is looked up instead of grouping all rows."""
    expected = sorted(values.unique().to_list(), key=str)
    unique = unique_values(values)
    assert (unique.dtype, sorted(unique.to_list(), key=str)) == (values.dtype, expected)
    frame = pl.DataFrame({"session": pl.repeat(4, len(values), dtype=pl.UInt32, eager=True), "value": values})
    rows = distinct_rows(frame, ("session", "value"))
    assert rows.schema == frame.schema
    assert sorted(rows.rows(), key=str) == [(4, value) for value in expected]
