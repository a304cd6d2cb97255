from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.corpus import recording_file
from tests.profiles import load_one
from tui.analysis.gpu_time.breakdown import utilization
from tui.analysis.gpus import gpu_summary
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import OUTSIDE_WORDS, iterations
from tui.analysis.iterations.times import iteration_times
from tui.analysis.iterations.work import iteration_work
from tui.analysis.kernels import kernels
from tui.analysis.ranges import (
    RANGE_INSTANCES,
    RANGES,
    RANGES_MEANWHILE,
    range_instances,
    ranges_by_depth,
    ranges_by_name,
    ranges_with_name,
    work_in_range,
)
from tui.model.aggregation import Aggregation
from tui.query.facts import informative_columns

MS = 1_000_000


def launch_at(at_ns: int, correlation: int, tid: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a launch of 2 ns."""
    return {
        "name": "cudaLaunchKernel",
        "start_ns": at_ns,
        "duration_ns": 2,
        "pid": 7,
        "tid": tid,
        "correlation": correlation,
        **fields,
    }


def range_at(name: str, start_ns: int, duration_ns: int | None, tid: int | None = 1, **fields: Any) -> dict[str, Any]:
    """Return a range of a thread."""
    return {"name": name, "start_ns": start_ns, "duration_ns": duration_ns, "pid": 7, "tid": tid, **fields}


FRAMES: dict[str, list[dict[str, Any]]] = {
    "api_calls": [launch_at(10, 1), launch_at(30, 2), launch_at(35, 3, tid=2), launch_at(60, 4)],
    "activities": [
        kernel("a", 100, start_ns=50, correlation=1),
        kernel("b", 10, start_ns=160, correlation=2),
        kernel("c", 1000, start_ns=170, correlation=3),
        copy("HtoD", 5, start_ns=1200, correlation=4),
        kernel("never launched in this file", 3, start_ns=1300),
    ],
    "ranges": [
        range_at("step", 0, 40),
        range_at("inner", 25, 10),
        range_at("step", 50, 20),
        range_at("inner", 30, 10, tid=2, domain="NCCL"),
        range_at("open", 5, None),
        range_at("nobody's", 5, 100, tid=None),
    ],
}
TWO_THREADS = make_profile(**FRAMES)


def test_the_gpu_time_of_other_threads_has_priority() -> None:
    columns = sorted(RANGES_MEANWHILE.columns[1:], key=lambda column: column.priority)
    assert (columns[0].name, columns[0].title) == ("meanwhile_gpu_ns", "Other threads")


def test_work_of_other_threads_is_not_shown_if_one_thread_launches_all() -> None:
    columns = {"meanwhile_gpu_ns", "meanwhile_kernels"}
    one_thread = make_profile(**{name: [row for row in rows if row.get("tid") != 2] for name, rows in FRAMES.items()})
    for profile, expected in ((TWO_THREADS, columns), (one_thread, set())):
        for spec, rows in ((RANGES, ranges_by_name(profile)), (RANGE_INSTANCES, range_instances(profile))):
            assert {column.name for column in informative_columns(spec, rows)[0]} & columns == expected


def test_nested_ranges_of_equal_name_are_both_counted() -> None:
    """JAX records PjitFunction(f) around PjitFunction(f); the help says so."""
    rows = ranges_by_name(make_profile(ranges=[range_at("f", 0, 40), range_at("f", 10, 20)]))
    assert rows.select("calls", "total_ns").rows() == [(2, 60)]
    for spec in (RANGES, RANGES_MEANWHILE):
        (total,) = (column.help for column in spec.columns if column.name == "total_ns")
        assert total.endswith("including nested ranges of the same name.")


def test_gpu_work_belongs_to_ranges_open_in_its_thread_at_the_launch() -> None:
    rows = {(row["domain"], row["name"]): row for row in ranges_by_name(TWO_THREADS).iter_rows(named=True)}
    figures = {
        key: (row["calls"], row["total_ns"], row["range_gpu_ns"], row["range_kernels"]) for key, row in rows.items()
    }
    assert figures == {
        (None, "step"): (2, 60, 115, 2),
        (None, "inner"): (1, 10, 10, 1),
        ("NCCL", "inner"): (1, 10, 1000, 1),
        (None, "open"): (1, None, None, None),
        (None, "nobody's"): (1, 100, None, None),
    }
    steps = ranges_with_name(TWO_THREADS, session=0, domain=None, name="step")
    assert steps.select("number", "start_ns", "range_gpu_ns", "range_kernels").rows() == [
        (0, 0, 110, 2),
        (2, 50, 5, 0),
    ]


def test_the_gpu_time_of_a_range_is_unknown_if_no_launch_of_it_has_a_duration() -> None:
    untimed = [{**row, "duration_ns": None} if row["name"] in "abc" else row for row in FRAMES["activities"]]
    profile = make_profile(**{**FRAMES, "activities": untimed})
    columns = ("range_gpu_ns", "range_kernels", "meanwhile_gpu_ns", "meanwhile_kernels")
    assert range_instances(profile).select("name", *columns).rows()[:3] == [
        ("step", None, 2, None, 1),
        ("inner", None, 1, None, 1),
        ("step", 5, 0, 0, 0),
    ]
    rows = {name: figures for name, *figures in ranges_by_name(profile).select("name", *columns).rows()}
    assert rows["step"] == [5, 2, 0, 1]


def test_work_of_other_threads_during_a_range_is_a_separate_figure() -> None:
    columns = ("range_gpu_ns", "range_kernels", "meanwhile_gpu_ns", "meanwhile_kernels")
    rows = {(row["domain"], row["name"]): row for row in ranges_by_name(TWO_THREADS).iter_rows(named=True)}
    assert {key: tuple(row[column] for column in columns) for key, row in rows.items()} == {
        (None, "step"): (115, 2, 1000, 1),
        (None, "inner"): (10, 1, 1000, 1),
        ("NCCL", "inner"): (1000, 1, 10, 1),
        (None, "open"): (None, None, None, None),
        (None, "nobody's"): (None, None, None, None),
    }
    first = range_instances(TWO_THREADS).row(0, named=True)
    assert [
        work_in_range(TWO_THREADS, first, meanwhile=meanwhile)["name"].to_list() for meanwhile in (False, True)
    ] == [
        ["a", "b"],
        ["c"],
    ]
    # At one depth each launch is counted once, for the range of its thread, although ranges of two threads are open.
    depths = ranges_by_depth(make_profile(**{**FRAMES, "ranges": [{**row, "depth": 0} for row in FRAMES["ranges"]]}))
    assert depths.select(columns).rows() == [(1115, 3, 0, 0)]


def test_work_of_another_process_is_not_counted() -> None:
    profile = make_profile(
        api_calls=[launch_at(10, 1, pid=8, tid=2)],
        activities=[kernel("a", 100, start_ns=50, correlation=1)],
        ranges=[range_at("r", 0, 40)],
    )
    assert ranges_by_name(profile).select("range_gpu_ns", "meanwhile_gpu_ns").row(0) == (0, 0)


def test_a_range_belongs_to_the_iteration_of_its_time() -> None:
    profile = make_profile(
        ranges=[
            range_at("step 4", 100, 100, iteration=4),
            range_at("step 5", 200, 100, iteration=5),
            range_at("backward", 150, 50),
            range_at("backward", 210, 20, tid=2),
            range_at("epoch", 100, 200),
            range_at("before", 10, 20),
            range_at("open", 150, None),
        ],
    )
    rows = range_instances(profile)
    assert rows["iteration"].to_list() == [4, 5, 4, 5, None, None, None]
    assert rows["iteration_by"].to_list() == ["recorded", "recorded", "time", "time", None, None, None]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3)), max_size=20),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(1, 3), st.sampled_from("ab")), max_size=8),
)
def test_own_and_concurrent_work_add_up_to_all_launches_during_the_range(
    calls: list[tuple[int, int]], ranges: list[tuple[int, int, int, str]]
) -> None:
    profile = make_profile(
        api_calls=[launch_at(launch_ns, number, tid=tid) for number, (launch_ns, tid) in enumerate(calls)],
        activities=[kernel("a", 1 << number, start_ns=99, correlation=number) for number in range(len(calls))],
        ranges=[range_at(name, start, length, tid=tid) for start, length, tid, name in ranges],
    )
    for row in ranges_by_name(profile).iter_rows(named=True):
        intervals = [(start, start + length, tid) for start, length, tid, name in ranges if name == row["name"]]
        thread_launches = {
            n
            for n, (launch_ns, tid) in enumerate(calls)
            if any(
                interval_start <= launch_ns <= interval_end and tid == thread
                for interval_start, interval_end, thread in intervals
            )
        }
        all_launches = {
            n
            for n, (launch_ns, _) in enumerate(calls)
            if any(interval_start <= launch_ns <= interval_end for interval_start, interval_end, _ in intervals)
        }
        expected = (
            (sum(1 << n for n in thread_launches), sum(1 << n for n in all_launches - thread_launches))
            if calls
            else (None, None)
        )
        assert (row["range_gpu_ns"], row["meanwhile_gpu_ns"]) == expected


def test_nested_ranges_of_equal_name_count_their_work_once() -> None:
    profile = make_profile(
        api_calls=[launch_at(10, 1)],
        activities=[kernel("a", 100, start_ns=50, correlation=1)],
        ranges=[range_at("r", 0, 40), range_at("r", 5, 10), range_at("r", 8, 60)],
    )
    assert ranges_by_name(profile).select("calls", "range_gpu_ns", "range_kernels").row(0) == (3, 100, 1)
    assert range_instances(profile)["range_gpu_ns"].to_list() == [100, 100, 100]


def test_sessions_of_the_same_threads_and_correlations_are_kept_separate() -> None:
    profile = make_profile(
        api_calls=[launch_at(10, 1), launch_at(10, 1, session=1)],
        activities=[
            kernel("a", 100, start_ns=50, correlation=1),
            kernel("a", 7, start_ns=50, correlation=1, session=1),
        ],
        ranges=[range_at("r", 0, 40), range_at("r", 0, 40, session=1), range_at("r", 0, 40, session=2)],
    )
    rows = ranges_by_name(profile).sort("session")
    assert rows["range_gpu_ns"].to_list() == [100, 7, None]


def test_printed_sums_of_ranges_are_listed() -> None:
    profile = make_profile(
        summary=[
            summary_row("nvtx", "step", 3, 90, avg_ns=30, min_ns=10, max_ns=50),
            summary_row("nvtx", "gemm", 3, 80, range="step"),
            summary_row("gpu", "gemm", 3, 80),
        ]
    )
    rows = ranges_by_name(profile)
    assert rows.select("name", "calls", "total_ns", "max_ns", "range_gpu_ns").rows() == [("step", 3, 90, 50, None)]


def test_iterations_keep_their_numbers_and_the_last_row_is_outside_work() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "rank": 3}],
        ranges=[
            range_at("ProfilerStep#17", 100, 100, iteration=17),
            range_at("ProfilerStep#18", 200, 100, iteration=18),
            range_at("ProfilerStep#19", 300, 100, iteration=19),
        ],
        activities=[
            kernel("before", 20, start_ns=10),
            kernel("a", 50, start_ns=150, iteration=17),
            kernel("a", 30, start_ns=190, iteration=17, stream=2),
            copy("HtoD", 100, start_ns=250, iteration=18),
            {"kind": "graph", "name": "CUDA graph 4", "duration_ns": 5, "start_ns": 395, "iteration": 18},
        ],
    )
    rows = iterations(profile)
    assert rows.select("rank", "iteration", "name", "start_ns", "duration_ns").rows() == [
        # Its GPU work ends 20 after the step on the CPU; that of the next one ends with the step after it.
        (3, 17, "ProfilerStep#17", 100, 120),
        (3, 18, "ProfilerStep#18", 220, 180),
        (3, 19, "ProfilerStep#19", 300, 100),
        (3, None, OUTSIDE_WORDS, None, None),
    ]
    assert rows.select("kernels_launched", "gpu_ns", "busy_ns", "idle_ns", "busy_pct").rows() == [
        (2, 80, 70, 50, pytest.approx(100 * 70 / 120)),
        (1, 105, 105, 75, pytest.approx(100 * 105 / 180)),
        (0, 0, 55, 45, 55.0),
        (1, 20, None, None, None),
    ]
    assert rows["time_pct"].sum() == 100.0


def test_an_iteration_known_only_from_kernels_has_no_recorded_times() -> None:
    profile = make_profile(
        activities=[kernel("a", 50, start_ns=0, iteration=2), kernel("a", 70, start_ns=60, iteration=2)]
    )
    rows = iterations(profile)
    assert rows.select("iteration", "name", "start_ns", "duration_ns", "gpu_ns", "busy_ns").rows() == [
        (2, None, None, None, 120, None)
    ]


def test_the_time_of_work_without_durations_is_unknown() -> None:
    work = [kernel("k", None, start_ns=0, iteration=0), kernel("k", 5, start_ns=9, iteration=1)]
    ranges = [
        {"name": "s", "start_ns": 20 * number, "duration_ns": 9, "iteration": number, "pid": 1, "tid": 1}
        for number in range(3)
    ]
    rows = iterations(make_profile(activities=work, ranges=ranges))
    assert rows.select("iteration", "kernels_launched", "gpu_ns").rows() == [(0, 1, None), (1, 1, 5), (2, 0, 0)]
    one_iteration = iterations(make_profile(activities=[kernel("k", None, start_ns=0)]))
    assert one_iteration.select("iteration", "kernels_launched", "gpu_ns").rows() == [(0, 1, None)]


def test_gpu_work_of_iterations_is_unknown_if_no_launch_is_recorded() -> None:
    work = [kernel("k", 6, start_ns=2, correlation=1), kernel("k", 2, start_ns=12, correlation=2)]
    ranges = [range_at(f"step {number}", 10 * number, 10, iteration=number) for number in range(2)]
    calls = [launch_at(30, 1), launch_at(40, 2)]
    columns = ("iteration", "kernels_launched", "gpu_ns", "busy_ns", "idle_ns", "busy_pct")
    unknown = make_profile(activities=work, ranges=ranges)
    assert iterations(unknown).select(columns).rows() == [
        (0, None, None, 6, 4, 60.0),
        (1, None, None, 2, 8, 20.0),
        (None, 2, 8, None, None, None),
    ]
    assert iteration_work(unknown).select("kernels_launched", "kernel_ns", "tc_kernels", "gpu_ns").rows() == [
        (None, None, None, None),
        (None, None, None, None),
        (2, 8, None, 8),
    ]
    outside = iterations(make_profile(activities=work, ranges=ranges, api_calls=calls))
    assert outside.select(columns[:3]).rows() == [(0, 0, 0), (1, 0, 0), (None, 2, 8)]


def test_iterations_without_gpu_work_have_unknown_gpu_figures() -> None:
    rows = iterations(make_profile(ranges=[range_at("step 0", 0, 10, iteration=0)]))
    assert rows.select("duration_ns", "kernels_launched", "gpu_ns", "busy_ns").rows() == [(10, None, None, None)]
    assert iterations(make_profile(activities=[kernel("a", 5)])).is_empty()
    assert iterations(make_profile()).is_empty()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["kernel", "memcpy", "graph"]),
            st.integers(0, 50),
            st.none() | st.integers(0, 4),
        ),
        max_size=40,
    )
)
def test_iterations_and_work_outside_add_up_to_the_total(
    launches: list[tuple[int, str, int, int | None]],
) -> None:
    profile = make_profile(
        ranges=[range_at("step 0", 0, 10, iteration=0, session=number) for number in range(3)],
        activities=[
            {
                "session": session,
                "kind": kind,
                "name": kind,
                "start_ns": start,
                "duration_ns": start + 1,
                "iteration": iteration,
            }
            for session, kind, start, iteration in sorted(launches, key=lambda launch: (launch[0], launch[2]))
        ],
    )
    rows = iterations(profile)
    assert (rows["gpu_ns"].sum() or 0) == (kernels(profile)["total_ns"].sum() or 0)
    assert (rows["kernels_launched"].sum() or 0) == sum(kind != "memcpy" for _, kind, _, _ in launches)


def test_gpus_have_recorded_properties_and_utilization() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "rank": 1, "host": "node7"}],
        devices=[
            {"device": 0, "name": "NVIDIA H100 80GB HBM3", "sm_count": 66, "memory_bytes": 1 << 36},
            {"device": 1, "name": "Tesla K40c"},
        ],
        activities=[
            kernel("a", 50, start_ns=0, device=0),
            kernel("a", 50, start_ns=25, device=0, stream=2),
            copy("HtoD", 25, start_ns=75, device=0),
        ],
    )
    first, second = gpu_summary(profile).iter_rows(named=True)
    assert (first["rank"], first["host"], first["sm_count"], first["compute_capability"]) == (1, "node7", 66, "9.0")
    assert (first["gpu_ns"], first["kernel_ns"], first["copy_ns"], first["kernels_launched"]) == (125, 100, 25, 2)
    assert (first["busy_ns"], first["idle_ns"], first["busy_pct"]) == (100, 0, 100.0)
    # Nothing ran on the second GPU: its utilization is unknown, not 0%.
    assert (first["gpu_activity"], second["gpu_activity"]) == ("recorded", "none recorded")
    assert (second["gpu_ns"], second["busy_ns"], second["busy_pct"], second["sm_count"]) == (None, None, None, 15)
    assert gpu_summary(make_profile(devices=[{"device": 0, "name": "Tesla K40c"}]))["gpu_ns"].to_list() == [None]
    assert gpu_summary(profile)["gpu_ns"].sum() == kernels(profile)["total_ns"].sum()
    assert gpu_summary(make_profile()).schema["gpu_ns"] == pl.Int64


def test_an_iteration_lasts_until_its_gpu_work_ends_if_the_cpu_runs_ahead() -> None:
    profile = make_profile(
        ranges=[range_at(f"ProfilerStep#{number}", 100 * number, 90, iteration=number) for number in range(3)],
        activities=[kernel("warm-up", 40, start_ns=10)]
        + [kernel("gemm", 380, start_ns=50 + 400 * number, iteration=number) for number in range(3)],
    )
    rows = iterations(profile).drop_nulls("iteration")
    # The first iteration waits until the end of the warm-up at 50.
    assert rows.select("start_ns", "duration_ns", "iteration_cpu_ns", "gpu_ns", "busy_ns").rows() == [
        (50, 380, 90, 380, 380),
        (430, 400, 90, 380, 380),
        (830, 400, 90, 380, 380),
    ]
    times = iteration_times(profile).row(0, named=True)
    assert (times["median_ns"], times["cpu_avg_ns"], times["gpu_avg_ns"], times["runs_ahead"]) == (400, 90, 380, True)


def test_a_step_with_late_gpu_work_lasts_as_long_as_its_gpu_work() -> None:
    """The GPU was busy with an earlier step, which is not in the recording."""
    profile = make_profile(
        ranges=[range_at("ProfilerStep#7", 0, 2 * MS, iteration=7)],
        activities=[kernel("gemm", 10 * MS, start_ns=8 * MS, iteration=7)],
    )
    rows = iterations(profile).drop_nulls("iteration")
    assert rows.select("start_ns", "duration_ns", "iteration_cpu_ns").rows() == [(8 * MS, 10 * MS, 2 * MS)]
    assert utilization(profile).row(0, named=True)["busy_pct"] == 100.0
    short_delay = make_profile(
        ranges=[range_at("ProfilerStep#7", 0, 2 * MS, iteration=7)],
        activities=[kernel("gemm", 10 * MS, start_ns=2 * MS + 5_000, iteration=7)],
    )
    assert iterations(short_delay).drop_nulls("iteration")["start_ns"].to_list() == [0]


def test_steps_of_replayed_graphs_last_as_long_as_their_gpu_work() -> None:
    profile = load_one(recording_file("gpt_cudagraph.pt.trace.json.gz"))
    assert iterations(profile).drop_nulls("iteration").select("duration_ns", "iteration_cpu_ns", "gpu_ns").rows() == [
        (4_771_079, 1_742_683, 3_826_592),
        (4_786_982, 1_757_039, 3_843_151),
        (4_777_158, 1_734_775, 3_831_748),
    ]
    assert iteration_times(profile)["runs_ahead"].to_list() == [True]
    # The wall time of selected iterations is the sum of their durations.
    selected = select_iterations(profile, Aggregation(3, 5))
    busy = utilization(selected).row(0, named=True)
    assert busy["wall_ns"] == 4_771_079 + 4_786_982 + 4_777_158
    assert busy["busy_pct"] == pytest.approx(80.23, abs=0.01)


def test_an_iteration_has_its_recorded_times_if_the_cpu_waits_for_the_gpu() -> None:
    profile = make_profile(
        ranges=[range_at(f"ProfilerStep#{number}", 100 * number, 90, iteration=number) for number in range(3)],
        activities=[kernel("gemm", 50, start_ns=30 + 100 * number, iteration=number) for number in range(3)],
    )
    rows = iterations(profile).drop_nulls("iteration")
    assert rows.select("start_ns", "duration_ns", "iteration_cpu_ns").rows() == [
        (0, 90, 90),
        (100, 90, 90),
        (200, 90, 90),
    ]
    assert iteration_times(profile)["runs_ahead"].to_list() == [False]
