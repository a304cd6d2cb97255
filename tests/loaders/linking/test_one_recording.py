"""Events far from all others are left out, whatever else is lost."""

from __future__ import annotations

import polars as pl
import pytest

from tui.loaders.linking.one_recording import of_one_recording
from tui.model.errors import ProftuiError

WEEK_NS = 7 * 24 * 3600 * 10**9


def rows(*starts_ns: int, threads: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        {"start_ns": starts_ns, "duration_ns": [1] * len(starts_ns), "pid": 1, "tid": range(len(starts_ns))}
    ).with_columns(pl.col("tid") % threads)


def test_times_begin_anew_where_something_was_left_out() -> None:
    parts, begin_ns = of_one_recording(
        {"a": rows(0, 5 * WEEK_NS, 5 * WEEK_NS + 7), "b": rows(5 * WEEK_NS + 3)}, called="x"
    )
    assert begin_ns == 5 * WEEK_NS
    assert parts["a"]["start_ns"].to_list() == [0, 7]
    assert parts["b"]["start_ns"].to_list() == [3]


def test_of_two_halves_far_apart_one_stays() -> None:
    parts, begin_ns = of_one_recording({"a": rows(0, 3, 9 * WEEK_NS, 9 * WEEK_NS + 4)}, called="x")
    assert (parts["a"]["start_ns"].to_list(), begin_ns) == ([0, 3], 0)


def test_more_threads_over_more_time_than_can_be_are_declined() -> None:
    starts = [*range(2000), WEEK_NS - 1]
    assert of_one_recording({"a": rows(*starts)}, called="x")[0]["a"].height == len(starts)
    with pytest.raises(ProftuiError, match="x: 2001 threads over"):
        of_one_recording({"a": rows(*starts, threads=2001)}, called="x")
