"""Grouping by packed keys gives what grouping by the columns gives."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.analysis.grouping import distinct, grouped, present

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
def test_grouped_is_group_by(rows: list[tuple[object, ...]], keys: list[str]) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    sums = [pl.len().alias("calls"), pl.col("duration_ns").sum()]
    found, expected = grouped(frame, keys, sums), frame.group_by(keys).agg(*sums)
    assert found.schema == expected.schema
    assert sorted(found.rows(), key=str) == sorted(expected.rows(), key=str)
    assert sorted(distinct(frame, keys).rows(), key=str) == sorted(frame.select(keys).unique().rows(), key=str)


@pytest.mark.parametrize("values", [[], [None], [1, 1], [1, None], [2, 1, 2]])
def test_present_is_unique(values: list[int | None]) -> None:
    column = pl.Series(values, dtype=pl.Int64)
    assert sorted(present(column).to_list(), key=str) == sorted(column.unique().to_list(), key=str)
