"""Times too far from the others to be of the same recording."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.correlation.plausible_times import MAX_NS, drop_outlier_events, drop_outlier_times
from tui.model.errors import ProftuiError

TIMES = {"start_ns": pl.Int64, "duration_ns": pl.Int64}


def frame_of_times(*rows: tuple[int | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=TIMES, orient="row")


def test_times_of_one_run_are_unchanged() -> None:
    work, calls = frame_of_times((0, 5), (MAX_NS, MAX_NS)), frame_of_times((None, 3), (7, None))
    remaining, count = drop_outlier_times(work, calls)
    assert count == 0
    assert remaining[0] is work
    assert remaining[1] is calls
    assert drop_outlier_times(frame_of_times(), frame_of_times((None, None)))[1] == 0


def test_outlying_and_endless_times_become_unknown_and_are_counted() -> None:
    work = frame_of_times((10, 5), (20, 5), (MAX_NS + 20, 5), (30, MAX_NS + 1))
    calls = frame_of_times((15, 1), (None, 4), (-(1 << 63), 2), ((1 << 63) - 1, 0))
    (work, calls), count = drop_outlier_times(work, calls)
    assert count == 3
    assert work.rows() == [(10, 5), (20, 5), (MAX_NS + 20, 5), (30, None)]
    assert calls.rows() == [(15, 1), (None, 4), (None, 2), (None, 0)]


@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, (1 << 63) - 1)), max_size=8))
def test_remaining_times_fit_into_two_weeks(times: list[tuple[int, int]]) -> None:
    (remaining,), count = drop_outlier_times(frame_of_times(*times))
    starts = remaining["start_ns"].drop_nulls().to_list()
    assert not starts or max(starts) - min(starts) <= 2 * MAX_NS
    assert all(duration_ns <= MAX_NS for duration_ns in remaining["duration_ns"].drop_nulls())
    assert count == sum(before != after for before, after in zip(times, remaining.rows(), strict=True))


WEEK_NS = 7 * 24 * 3600 * 10**9


def events(*starts_ns: int, threads: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        {"start_ns": starts_ns, "duration_ns": [1] * len(starts_ns), "pid": 1, "tid": range(len(starts_ns))}
    ).with_columns(pl.col("tid") % threads)


def test_times_are_rebased_after_removals() -> None:
    frames, base_ns = drop_outlier_events(
        {"a": events(0, 5 * WEEK_NS, 5 * WEEK_NS + 7), "b": events(5 * WEEK_NS + 3)}, display_name="x"
    )
    assert base_ns == 5 * WEEK_NS
    assert frames["a"]["start_ns"].to_list() == [0, 7]
    assert frames["b"]["start_ns"].to_list() == [3]


def test_one_of_two_distant_halves_is_kept() -> None:
    frames, base_ns = drop_outlier_events({"a": events(0, 3, 9 * WEEK_NS, 9 * WEEK_NS + 4)}, display_name="x")
    assert (frames["a"]["start_ns"].to_list(), base_ns) == ([0, 3], 0)


def test_too_many_threads_over_too_long_a_time_are_an_error() -> None:
    starts = [*range(2000), WEEK_NS - 1]
    assert drop_outlier_events({"a": events(*starts)}, display_name="x")[0]["a"].height == len(starts)
    with pytest.raises(ProftuiError, match="x: 2001 threads over"):
        drop_outlier_events({"a": events(*starts, threads=2001)}, display_name="x")


def test_events_without_threads_count_as_none() -> None:
    collectives = events(*range(3000)).drop("pid", "tid")
    frames = {"a": events(*range(1500), WEEK_NS - 1, threads=1501), "collectives": collectives}
    assert drop_outlier_events(frames, display_name="x")[0]["collectives"].height == 3000
