"""Statistics by name computed from sorted numbers agree with those that Polars computes by groups."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tui.analysis import durations
from tui.analysis.durations import MIN_ROWS_TO_SORT, call_statistics, call_statistics_by, timed_count
from tui.analysis.grouping import group_rows

KEYS = ("session", "kind", "name")


def calls_frame(calls: list[tuple[int, str, str, int | None]], lines: list[int | None] | None = None) -> pl.DataFrame:
    schema = {"session": pl.UInt32, "kind": pl.Categorical, "name": pl.Categorical, "duration_ns": pl.Int64}
    rows = pl.DataFrame(calls, schema=schema, orient="row")
    line = pl.Series("line", lines if lines is not None else range(1, rows.height + 1), pl.UInt32)
    return rows.with_columns(line, pl.format("{} {}", "name", line).alias("short_name"))


def statistics_by_group(rows: pl.DataFrame) -> pl.DataFrame:
    return group_rows(
        rows, KEYS, [*call_statistics(), timed_count(), pl.col("line").min(), pl.col("short_name").first()]
    )


def assert_same_statistics(rows: pl.DataFrame) -> None:
    statistics = call_statistics_by(rows, KEYS, "short_name", min_rows_to_sort=0)
    assert_frame_equal(statistics.sort(KEYS), statistics_by_group(rows).sort(KEYS), check_exact=True)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from(("kernel", "memcpy")), st.sampled_from("abc"), st.integers(0, 10**9)
        ),
        min_size=1,
        max_size=80,
    )
)
def test_statistics_of_sorted_numbers_agree_with_group_by(calls: list[tuple[int, str, str, int | None]]) -> None:
    assert_same_statistics(calls_frame(calls))


def test_quantiles_lie_between_two_calls() -> None:
    rows = calls_frame([(0, "kernel", "a", duration) for duration in (40, 10, 20, 30)] + [(0, "kernel", "b", 7)])
    statistics = call_statistics_by(rows, KEYS, min_rows_to_sort=0).sort("name")
    assert statistics.select(
        "calls", "total_ns", "min_ns", "max_ns", "median_ns", "p90_ns", "p99_ns", "line"
    ).rows() == [
        (4, 100, 10, 40, 25, 37, 40, 1),
        (1, 7, 7, 7, 7, 7, 7, 5),
    ]
    assert statistics["std_ns"].to_list() == [13, None]


@pytest.mark.parametrize(
    "rows",
    [
        calls_frame([(0, "kernel", "a", 5), (0, "kernel", "a", None), (0, "kernel", "b", None)]),
        calls_frame([(0, "kernel", "a", -5), (0, "kernel", "b", 3)]),
        calls_frame([(0, "kernel", "a", 5), (0, "kernel", "a", 6)], [9, 3]),
        calls_frame([(0, "kernel", "a", 5), (0, "kernel", "a", 6)], [None, 3]),
        calls_frame([(0, "kernel", "a", 1 << 61), (7, "kernel", "b", 6)]),
        calls_frame([]),
    ],
    ids=["no duration", "below zero", "lines out of order", "no line", "too long", "no rows"],
)
def test_rows_that_cannot_be_packed_into_one_number_are_grouped(rows: pl.DataFrame) -> None:
    assert_same_statistics(rows)


def test_many_rows_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [("kernel", "abcde"[index * index % 5], index * 7919 % 1013) for index in range(MIN_ROWS_TO_SORT)]
    rows = calls_frame([(0, *call) for call in calls])
    monkeypatch.delattr(durations, "group_rows")
    assert_frame_equal(
        call_statistics_by(rows, KEYS, "short_name").sort(KEYS), statistics_by_group(rows).sort(KEYS), check_exact=True
    )
