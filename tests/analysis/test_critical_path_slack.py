"""Critical paths of iterations: what faster work would save, and the slack of other work."""

from __future__ import annotations

from operator import itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.path_profiles import (
    US,
    assert_recorded_times_are_reproduced,
    launch,
    op,
    profile_with_iterations,
    serial_profile,
    step,
    work,
)
from tui.analysis.critical_path import IterationPeriod, critical_paths, path_segments
from tui.analysis.critical_path_slack import _half_savings, critical_path, half_as_long
from tui.analysis.critical_path_trace import KIND_COLUMNS, TITLES

if TYPE_CHECKING:
    from tui.model.profile import Profile

MOMENTS, LENGTHS = st.integers(0, 40), st.integers(0, 12)

CALLS = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaStreamWaitEvent")


@st.composite
def profiles_of_an_iteration(draw: st.DrawFn) -> Profile:
    """Draw a profile whose calls and work may overlap, take no time or reach over the iteration."""
    calls = [
        launch(number, draw(MOMENTS), draw(LENGTHS), name=draw(st.sampled_from(CALLS)), tid=draw(st.integers(1, 2)))
        for number in range(1, draw(st.integers(0, 6)) + 1)
    ]
    activities = [
        work(
            draw(st.sampled_from("ab")),
            draw(MOMENTS),
            draw(LENGTHS),
            draw(st.integers(1, 8)),
            stream=draw(st.integers(7, 8)),
            iteration=draw(st.sampled_from((0, 0, 1, None))),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]
    return profile_with_iterations(
        ranges=[step(draw(st.integers(0, 20)), draw(st.integers(5, 30)))],
        ops=[
            op("op", draw(MOMENTS), draw(LENGTHS), tid=draw(st.integers(1, 2))) for _ in range(draw(st.integers(0, 3)))
        ],
        api_calls=calls,
        activities=sorted(activities, key=itemgetter("start_ns")),
    )


@given(profiles_of_an_iteration())
def test_all_figures_of_a_path_agree(profile: Profile) -> None:
    assert_recorded_times_are_reproduced(profile)
    segments = path_segments(profile)
    for row in critical_paths(profile).iter_rows(named=True):
        of_iteration = segments.filter(pl.col("iteration") == row["iteration"])
        for kind, column in KIND_COLUMNS.items():
            assert of_iteration.filter(pl.col("path_kind") == TITLES[kind])["duration_ns"].sum() == row[column] >= 0
        work_rows = critical_path(profile, 0, row["iteration"])
        assert of_iteration["duration_ns"].sum() == work_rows["path_ns"].sum() == row["duration_ns"]
        assert work_rows.filter(pl.col("path_ns") > pl.col("work_ns")).is_empty()
        assert work_rows.filter(2 * pl.col("half_saves_ns") > pl.col("work_ns")).is_empty()
        assert work_rows.filter(pl.col("half_saves_ns") < 0).is_empty()


def test_savings_of_halving_each_segment() -> None:
    rows = {(row["path_kind"], row["name"]): row for row in critical_path(serial_profile()).iter_rows(named=True)}
    # b was launched at 14 and can start 5 us later at the earliest: half of a saves all of its 10 us.
    assert rows["kernel", "a"]["half_saves_ns"] == 10 * US
    assert rows["kernel", "b"]["half_saves_ns"] == 10_500
    assert rows["CPU op", "first"]["half_saves_ns"] == 5 * US
    assert rows["launch delay", "c"]["half_saves_ns"] == 3 * US
    waited = rows["synchronization", "cudaDeviceSynchronize"]
    assert (waited["work_count"], waited["work_ns"], waited["half_saves_ns"]) == (1, 3 * US, 1500)
    assert sum(row["path_ns"] for row in rows.values()) == 100 * US
    assert rows["kernel", "c"]["path_pct"] == pytest.approx(24)


def test_the_part_of_a_delay_that_is_in_the_iteration_is_halved() -> None:
    """The kernel was launched before the iteration; where nothing is recorded, nothing is known to be saved."""
    profile = profile_with_iterations(
        ranges=[step(10, 60)], api_calls=[launch(1, 6)], activities=[work("a", 20, 20, 1), work("b", 45, 25, 2)]
    )
    rows = critical_path(profile).select("path_kind", "name", "path_ns", "work_ns", "half_saves_ns").rows()
    assert rows == [
        ("kernel", "b", 25 * US, 25 * US, 12_500),
        ("kernel", "a", 20 * US, 20 * US, 10 * US),
        ("launch delay", "a", 10 * US, 10 * US, 5 * US),
        ("kernel gap", "b", 5 * US, 5 * US, 2500),
    ]
    unlaunched = profile_with_iterations(ranges=[step(10, 60)], activities=[work("b", 45, 25, 2)])
    assert critical_path(unlaunched).select("path_kind", "path_ns", "half_saves_ns").rows() == [
        ("not recorded", 35 * US, None),
        ("kernel", 25 * US, 12_500),
    ]


def test_what_a_thread_did_before_its_first_call_saves_nothing() -> None:
    profile = profile_with_iterations(
        ranges=[step(0, 100)],
        api_calls=[launch(1, 40), launch(2, 52)],
        activities=[work("a", 45, 2, 1), work("b", 57, 43, 2)],
    )
    rows = critical_path(profile).filter(pl.col("path_ns") > 0)
    assert rows.select("path_kind", "path_ns", "work_ns", "half_saves_ns").rows() == [
        ("kernel", 43 * US, 43 * US, 21_500),
        ("not recorded", 40 * US, None, None),
        ("CPU outside ops", 10 * US, 10 * US, 5 * US),
        ("launch delay", 5 * US, 5 * US, 2500),
        ("API call", 2 * US, 4 * US, 1 * US),
    ]


def test_kernels_that_overlap_do_not_shorten_the_gaps_of_others() -> None:
    profile = profile_with_iterations(
        activities=[
            work(name, start, 10, number, iteration=None)
            for number, (name, start) in enumerate([("a", 0), ("b", 8), ("b", 21)])
        ]
    )
    gap = critical_path(profile).filter(pl.col("path_kind") == "kernel gap")
    assert gap.select("name", "path_ns", "work_ns", "half_saves_ns").rows() == [("b", 3 * US, 3 * US, 1500)]


def test_cpu_work_that_ends_an_iteration_saves_time() -> None:
    """Thread 2 is idle after its launch, and the GPU after its kernel: neither keeps the iteration from ending."""
    profile = profile_with_iterations(
        ranges=[step(0, 100)],
        ops=[op("forward", 0, 30), op("backward", 32, 10, tid=2), op("save", 60, 36)],
        api_calls=[launch(1, 10), launch(2, 34, tid=2)],
        activities=[work("a", 15, 10, 1), work("b", 36, 14, 2)],
    )
    columns = ("path_kind", "name", "path_ns", "work_ns", "half_saves_ns")
    rows = critical_path(profile).filter(pl.col("path_ns") > 0).select(columns).rows()
    assert rows == [
        ("CPU op", "save", 36 * US, 36 * US, 18 * US),
        ("CPU op", "forward", 28 * US, 28 * US, 14 * US),
        ("CPU outside ops", None, 24 * US, 24 * US, 12 * US),
        ("CPU op", "backward", 8 * US, 8 * US, 4 * US),
        ("API call", "cudaLaunchKernel", 4 * US, 4 * US, 2 * US),
    ]
    assert_recorded_times_are_reproduced(profile)


def test_totals_are_of_the_time_in_the_iteration() -> None:
    later = [work("later", start, 20, number, stream=8, iteration=1) for number, start in ((2, 30), (3, 40))]
    profile = profile_with_iterations(ranges=[step(0, 40)], activities=[work("a", 10, 30, 1), *later])
    rows = critical_path(profile, 0, 0).filter(pl.col("path_kind") == "kernel")
    assert rows.select("name", "work_count", "work_ns").rows() == [("a", 1, 30 * US), ("later", 1, 10 * US)]


def test_work_without_a_duration_can_end_an_iteration() -> None:
    profile = profile_with_iterations(
        ranges=[step(0, 20)],
        api_calls=[launch(1, 2), launch(2, 4)],
        activities=[work("a", 10, 20, 1), work("end", 40, 0, 2)],
    )
    rows = critical_path(profile).select("path_kind", "name", "path_ns", "half_saves_ns").rows()
    assert rows == [
        ("kernel", "a", 20 * US, 10 * US),
        ("kernel gap", "end", 10 * US, 5 * US),
        ("launch delay", "a", 8 * US, 4 * US),
        ("not recorded", None, 2 * US, None),
        ("kernel", "end", 0, 0),
    ]
    assert_recorded_times_are_reproduced(profile)


def test_of_a_name_of_a_kernel_and_of_its_op_only_the_kernel_is_halved() -> None:
    """An op of Triton has the name of its kernel."""
    profile = profile_with_iterations(
        ranges=[step(0, 60)],
        ops=[op("triton_add", 0, 40)],
        api_calls=[launch(1, 10)],
        activities=[work("triton_add", 15, 45, 1)],
    )
    halved = half_as_long(critical_path(profile), ["triton_add"])
    assert halved.select("name", "work_ns", "path_ns", "half_saves_ns").rows() == [
        ("triton_add", 45 * US, 45 * US, 22_500)
    ]
    of_ops = half_as_long(critical_path(serial_profile()), ["first"])
    assert of_ops.select("name", "half_saves_ns").rows() == [("first", 5 * US)]


def test_work_off_the_path_has_slack_and_saves_nothing() -> None:
    profile = profile_with_iterations(
        ranges=[step(0, 100)],
        ops=[op("first", 0, 30)],
        api_calls=[launch(1, 10), launch(2, 14)],
        activities=[work("long", 15, 85, 1), work("beside", 20, 30, 2, stream=8)],
    )
    rows = {row["name"]: row for row in critical_path(profile).iter_rows(named=True) if row["path_kind"] == "kernel"}
    assert (rows["beside"]["path_ns"], rows["beside"]["slack_ns"], rows["beside"]["half_saves_ns"]) == (0, 50 * US, 0)
    assert (rows["long"]["path_ns"], rows["long"]["slack_ns"], rows["long"]["half_saves_ns"]) == (85 * US, None, 42_500)
    assert_recorded_times_are_reproduced(profile)


def test_an_iteration_without_recorded_times_saves_nothing() -> None:
    graph: Any = SimpleNamespace(
        times=[0], edges=[], sink=0, period=IterationPeriod(0, 0, 0, 100, None), order=lambda: [0]
    )
    no_rows = pl.DataFrame(schema={"path_kind": pl.String, "name": pl.String, "path_ns": pl.Int64})
    segments = no_rows.with_columns(edge=pl.lit(0), piece_ns=pl.lit(0))
    assert _half_savings(graph, segments, no_rows).is_empty()
