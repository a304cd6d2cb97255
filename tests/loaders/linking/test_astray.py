"""Times that cannot be of the same recording as the others."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.linking.astray import without_astray
from tui.loaders.possible_times import LONGEST_NS

TIMES = {"start_ns": pl.Int64, "duration_ns": pl.Int64}


def timed(*rows: tuple[int | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=TIMES, orient="row")


def test_times_of_one_run_stay_as_they_are() -> None:
    work, calls = timed((0, 5), (LONGEST_NS, LONGEST_NS)), timed((None, 3), (7, None))
    kept, count = without_astray(work, calls)
    assert count == 0
    assert kept[0] is work
    assert kept[1] is calls
    assert without_astray(timed(), timed((None, None)))[1] == 0


def test_far_and_endless_times_become_unknown_and_are_counted() -> None:
    work = timed((10, 5), (20, 5), (LONGEST_NS + 20, 5), (30, LONGEST_NS + 1))
    calls = timed((15, 1), (None, 4), (-(1 << 63), 2), ((1 << 63) - 1, 0))
    (work, calls), count = without_astray(work, calls)
    assert count == 3
    assert work.rows() == [(10, 5), (20, 5), (LONGEST_NS + 20, 5), (30, None)]
    assert calls.rows() == [(15, 1), (None, 4), (None, None), (None, None)]


@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, (1 << 63) - 1)), max_size=8))
def test_what_is_left_fits_into_two_weeks(times: list[tuple[int, int]]) -> None:
    (kept,), count = without_astray(timed(*times))
    starts = kept["start_ns"].drop_nulls().to_list()
    assert not starts or max(starts) - min(starts) <= 2 * LONGEST_NS
    assert all(lasting <= LONGEST_NS for lasting in kept["duration_ns"].drop_nulls())
    assert count == sum(before != after for before, after in zip(times, kept.rows(), strict=True))
