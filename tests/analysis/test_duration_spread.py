"""The spread of the durations of a kernel, and its slow launches."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tui.analysis.durations import SlowPart, duration_spread, log_bins, variants
from tui.analysis.kernels import kernels


def test_slow_launches_by_iteration_and_stream() -> None:
    rows = [
        *(kernel("k", 100, iteration=1, stream=7) for _ in range(6)),
        kernel("k", 150, iteration=2, stream=7),  # not more than 1.5 x 100
        kernel("k", 400, iteration=2, stream=7),
        kernel("k", 200, iteration=3, stream=20),
        kernel("k", 151, iteration=3, stream=None),
        kernel("k", None, iteration=9),
    ]
    profile = make_profile(activities=rows)
    spread = duration_spread(profile["activities"])
    assert spread is not None
    assert (spread.launches, spread.min_ns, spread.median_ns, spread.max_ns) == (10, 100, 100, 400)
    assert (spread.slow, spread.slow_ns) == (3, 400 + 200 + 151 - 300)
    assert spread.slow_iterations == (SlowPart(3, 2, 2), SlowPart(2, 2, 1))
    assert spread.slow_streams == (SlowPart(7, 8, 1), SlowPart(20, 1, 1), SlowPart(None, 1, 1))
    row = kernels(profile).row(0, named=True)
    assert (spread.p90_ns, spread.p99_ns, spread.total_ns) == (row["p90_ns"], row["p99_ns"], row["total_ns"])


def test_steady_launches_have_no_slow_ones() -> None:
    spread = duration_spread(make_profile(activities=[kernel("k", 7) for _ in range(5)])["activities"])
    assert spread is not None
    assert (spread.slow, spread.slow_ns, spread.slow_iterations, spread.slow_streams) == (0, 0, (), ())


def test_without_durations_there_is_no_spread() -> None:
    assert duration_spread(make_profile(activities=[kernel("k", None)])["activities"]) is None


def test_variants_by_grid_block_and_shapes() -> None:
    shape = {"grid_x": 2, "grid_y": 1, "grid_z": 1, "block_x": 64, "block_y": 1, "block_z": 1}
    profile = make_profile(
        activities=[
            kernel("k", 10, op=0, **shape),
            kernel("k", 30, op=0, **shape),
            kernel("k", 50, op=1, **shape),
            kernel("k", 5, **{**shape, "grid_x": 4}),
            kernel("k", 1),
        ],
        ops=[{"op": 0, "name": "mm", "input_shapes": "[8, 8]"}, {"op": 1, "name": "mm", "input_shapes": "[9, 9]"}],
    )
    rows = variants(profile, profile["activities"])
    assert rows.select("grid", "block", "input_shapes", "calls", "total_ns", "median_ns").rows() == [
        ("(2 1 1)", "(64 1 1)", "[9, 9]", 1, 50, 50),
        ("(2 1 1)", "(64 1 1)", "[8, 8]", 2, 40, 20),
        ("(4 1 1)", "(64 1 1)", None, 1, 5, 5),
        (None, None, None, 1, 1, 1),
    ]
    without_shapes = make_profile(activities=[kernel("k", 3)])
    assert variants(without_shapes, without_shapes["activities"])["input_shapes"].to_list() == [None]


@pytest.mark.parametrize(("durations", "expected"), [([], []), ([5, 5, None], [3 - 1]), ([0, 0], [2])])
def test_bins_of_few_durations(durations: list[int | None], expected: list[int]) -> None:
    assert [bin_.launches for bin_ in log_bins(pl.Series(durations, dtype=pl.Int64), 4)] == expected


@given(st.lists(st.integers(0, 10**12), min_size=1), st.integers(1, 30))
def test_every_duration_is_in_one_bin(durations: list[int], bin_count: int) -> None:
    histogram = log_bins(pl.Series(durations, dtype=pl.Int64), bin_count)
    assert sum(bin_.launches for bin_ in histogram) == len(durations)
    assert (histogram[0].from_ns, histogram[-1].to_ns) == (max(1, min(durations)), max(1, *durations))
    assert all(first.to_ns == second.from_ns for first, second in pairwise(histogram))
