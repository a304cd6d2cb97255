"""The kernels of each iteration, by launch and by op."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tests.profiles import load_one
from tests.screens.explorer import sample_path
from tui.analysis.iterations.candidate_keys import key_choices, rows_containing
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import iterations, with_iterations
from tui.analysis.iterations.work import (
    iteration_launches,
    iteration_op_launches,
    iteration_ops,
    iteration_work,
    slowest_iteration,
    slowest_iteration_launches,
    slowest_iteration_ops,
)
from tui.model.aggregation import Aggregation


def profile_with_steps() -> Any:
    """Return steps 3 and 4 on two GPUs, a step without work, and work outside steps."""
    return make_profile(
        ranges=[
            {"name": f"step {number}", "start_ns": 100 * number, "duration_ns": 80, "iteration": number}
            for number in (3, 4, 5)
        ],
        ops=[{"op": 0, "name": "aten::mm", "start_ns": 300, "duration_ns": 9, "dtype": "float", "tid": 1,
              "op_source": "recorded", "input_shapes": "[[2, 3], [3, 4]]"}],
        activities=[
            kernel("gemm", 40, start_ns=310, iteration=3, device=0, uses_tensor_core=True, op=0, op_join="launch"),
            kernel("relu", 20, start_ns=350, iteration=3, device=1, uses_tensor_core=False),
            copy("HtoD", 10, start_ns=300, iteration=3, device=0),
            kernel("odd_name", 30, start_ns=420, iteration=4, device=0),
            kernel("gemm", 7, start_ns=700, device=0, uses_tensor_core=True),
        ],
    )  # fmt: skip


def test_kernel_counts_and_shares_of_each_iteration() -> None:
    rows = iteration_work(profile_with_steps())
    names = ["iteration", "duration_ns", "kernels_launched", "tc_kernels", "tc_unknown", "kernel_ns", "tc_ns", "gpu_ns"]
    assert rows.select(names).rows() == [
        (3, 80, 2, 1, 0, 60, 40, 70),
        # The tensor-core use of its only kernel is unknown: null, not 0.
        (4, 80, 1, None, 1, 30, None, 30),
        (5, 80, 0, 0, 0, 0, 0, 0),
        (None, None, 1, 1, 0, 7, 7, 7),
    ]
    # The mean of two GPUs.
    assert rows["kernel_pct"].to_list() == [pytest.approx(37.5), pytest.approx(18.75), 0.0, None]
    assert rows["tc_pct"].to_list() == [pytest.approx(25.0), None, 0.0, None]


def test_a_chosen_iteration_without_work_has_none_not_an_unknown_amount() -> None:
    chosen = select_iterations(profile_with_steps(), Aggregation(5, 5))
    rows = iteration_work(chosen)
    assert rows.select("iteration", "kernels_launched", "tc_kernels", "kernel_ns", "gpu_ns", "kernel_pct").rows() == [
        (5, 0, 0, 0, 0, 0.0)
    ]


def test_shares_of_an_iteration_count_overlapping_kernels_once() -> None:
    rows = iteration_work(
        make_profile(
            ranges=[
                {"name": f"step {number}", "start_ns": 100 * number, "duration_ns": 100, "iteration": number}
                for number in (0, 1)
            ],
            activities=[
                kernel("gemm", 90, start_ns=10, iteration=0, stream=1, uses_tensor_core=True),
                kernel("relu", 80, start_ns=20, iteration=0, stream=2, uses_tensor_core=False),
                # It ends after the step on the CPU, and the iteration lasts until then.
                kernel("relu", 20, start_ns=90, iteration=0, stream=3, uses_tensor_core=False),
            ],
        )
    )
    assert rows.select("kernel_ns", "kernel_pct", "tc_pct").rows() == [
        (190, pytest.approx(100 * 100 / 110), pytest.approx(100 * 90 / 110)),
        (0, 0.0, 0.0),
    ]


def test_kernels_without_durations_take_an_unknown_time_not_zero() -> None:
    profile = make_profile(
        ranges=[{"name": "step", "start_ns": 0, "duration_ns": 100, "iteration": 0}],
        activities=[
            kernel("gemm", None, start_ns=10, iteration=0, device=0, uses_tensor_core=True),
            kernel("relu", None, start_ns=20, iteration=0, device=0, uses_tensor_core=False),
            copy("HtoD", 5, start_ns=60, iteration=0, device=0),
        ],
    )
    names = ["kernels_launched", "tc_kernels", "kernel_ns", "tc_ns", "gpu_ns", "kernel_pct", "tc_pct"]
    assert iteration_work(profile).select(names).rows() == [(2, 1, None, None, 5, None, None)]
    rows = iteration_ops(profile, session=0, iteration=0)
    assert rows.select("op", "tc_kernels", "gpu_ns", "tc_ns").rows() == [
        ("memcpy HtoD", 0, 5, 0),
        ("activation", 0, None, 0),
        ("gemm", 1, None, None),
    ]


def test_an_iteration_whose_work_has_no_durations_is_not_reported_as_idle() -> None:
    profile = make_profile(
        ranges=[
            {"name": f"step {number}", "start_ns": 100 * number, "duration_ns": 100, "iteration": number}
            for number in (0, 1, 2)
        ],
        activities=[
            kernel("gemm", None, start_ns=10, iteration=0, device=0),
            kernel("gemm", 50, start_ns=110, iteration=1, device=0),
        ],
    )
    rows = iterations(profile).select("iteration", "kernels_launched", "gpu_ns", "busy_ns", "busy_pct", "idle_ns")
    assert rows.rows() == [(0, 1, None, None, None, None), (1, 1, 50, 50, 50.0, 50), (2, 0, 0, 0, 0.0, 100)]


def test_without_gpu_work_its_figures_are_unknown() -> None:
    rows = iteration_work(make_profile(ranges=[{"name": "s", "start_ns": 0, "duration_ns": 5, "iteration": 0}]))
    assert rows.select("iteration", "kernels_launched", "kernel_ns", "kernel_pct").rows() == [(0, None, None, None)]
    assert iteration_work(make_profile()).is_empty()
    assert slowest_iteration(make_profile()) is None
    assert slowest_iteration_launches(make_profile()).is_empty()
    assert slowest_iteration_ops(make_profile()).is_empty()


def test_the_slowest_iteration_has_the_longest_duration() -> None:
    ranges = [
        {"name": f"step {number}", "start_ns": 100 * number, "duration_ns": length_ns, "iteration": number}
        for number, length_ns in ((3, 70), (4, 90), (5, 80), (6, 90))
    ]
    profile = make_profile(ranges=ranges, activities=[kernel("k", 5, start_ns=410, iteration=4)])
    assert slowest_iteration(profile) == (0, 4)
    assert slowest_iteration_launches(profile)["name"].to_list() == ["k"]


def test_launches_of_an_iteration_are_sorted_by_time() -> None:
    rows = iteration_launches(profile_with_steps(), session=0, iteration=3)
    assert rows["name"].to_list() == ["[CUDA memcpy HtoD]", "gemm", "relu"]
    assert rows["launched_by"].to_list() == [None, "aten::mm", None]
    assert iteration_launches(profile_with_steps(), session=0, iteration=5).is_empty()
    assert iteration_launches(profile_with_steps(), session=0, iteration=None)["start_ns"].to_list() == [700]
    assert iteration_launches(profile_with_steps(), session=1, iteration=3).is_empty()


def test_a_run_without_repetition_is_one_iteration_with_all_its_work() -> None:
    profile = make_profile(activities=[kernel("a", 5, start_ns=0, device=0), kernel("b", 6, start_ns=9, device=0)])
    assert iteration_work(profile).select("iteration", "kernels_launched", "gpu_ns").rows() == [(0, 2, 11)]
    assert iteration_launches(profile, session=0, iteration=0).height == 2


def test_ops_of_an_iteration_are_recorded_and_unattributed_work_has_a_reason() -> None:
    rows = iteration_ops(profile_with_steps(), session=0, iteration=3)
    assert rows.select("op", "op_source", "why_no_op", "gpu_ns", "tc_ns", "data_type", "input_shapes").rows() == [
        ("aten::mm", "recorded", None, 40, 40, "float", "[[2, 3], [3, 4]]"),
        ("(unattributed: reason not recorded)", None, "reason not recorded", 30, 0, None, None),
    ]
    assert rows["time_pct"].sum() == pytest.approx(100)


def test_ops_that_are_not_recorded_are_inferred_and_marked() -> None:
    profile = with_iterations(load_one(sample_path("resnet50_training.nvprof.log")))
    row = iteration_work(profile).row(0, named=True)
    ops = iteration_ops(profile, session=0, iteration=row["iteration"])
    assert set(ops["op_source"].to_list()) == {"inferred", "recorded"}
    assert ops.filter(ops["op_source"] == "recorded")["kernels_launched"].sum() == 0
    assert ops["gpu_ns"].sum() == row["gpu_ns"]
    assert ops["kernels_launched"].sum() == row["kernels_launched"]
    work = [
        kernel("[CUDA graph 1]", 5, start_ns=2, kind="graph", iteration=1),
        kernel("sgemm", 3, start_ns=8, iteration=1),
    ]
    graph_profile = make_profile(
        ranges=[{"name": "step", "start_ns": 0, "duration_ns": 20, "iteration": 1}], activities=work
    )
    op_rows = iteration_ops(graph_profile, session=0, iteration=1).select("op_type", "op_source").rows()
    assert op_rows == [("whole CUDA graph", "recorded"), ("gemm", "inferred")]


@pytest.mark.parametrize(
    "name", ["resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz", "gpt_cudagraph.nsys.sqlite.gz"]
)
def test_iterations_ops_and_launches_add_up_to_all_work(name: str) -> None:
    profile = with_iterations(load_one(sample_path(name)))
    work = iteration_work(profile)
    iteration_rows = iterations(profile)
    assert work["gpu_ns"].sum() == iteration_rows["gpu_ns"].sum() == profile["activities"]["duration_ns"].sum()
    assert work["kernels_launched"].sum() == iteration_rows["kernels_launched"].sum()
    row = work.row(1, named=True)
    iteration = {"session": row["session"], "iteration": row["iteration"]}
    ops = iteration_ops(profile, **iteration)
    assert ops["gpu_ns"].sum() == row["gpu_ns"]
    assert (ops["tc_kernels"].sum() or None) == row["tc_kernels"]
    launch_count = 0
    for op in ops.iter_rows(named=True):
        op_key = {column: op[column] for column in ("op", "op_type", "direction", "why_no_op")}
        rows = iteration_op_launches(profile, **iteration, **op_key)
        assert (rows.height, rows["duration_ns"].sum()) == (op["launches"], op["gpu_ns"])
        launch_count += rows.height
    assert launch_count == iteration_launches(profile, **iteration).height


@given(
    st.lists(
        st.tuples(st.sampled_from([None, 0, 1, 7]), st.integers(0, 50), st.sampled_from([True, False, None])),
        min_size=1,
        max_size=25,
    )
)
def test_kernels_in_and_outside_iterations_add_up(work: list[tuple[int | None, int, bool | None]]) -> None:
    profile = make_profile(
        ranges=[
            {"name": f"s{index}", "start_ns": 100 * index, "duration_ns": 90, "iteration": index} for index in (0, 1, 7)
        ],
        activities=[
            kernel("k", duration_ns, start_ns=10 * index, iteration=number, uses_tensor_core=uses, device=0)
            for index, (number, duration_ns, uses) in enumerate(work)
        ],
    )
    rows = iteration_work(profile)
    assert rows["gpu_ns"].sum() == sum(duration_ns for _, duration_ns, _ in work)
    assert rows["kernels_launched"].sum() == len(work)
    assert rows["tc_unknown"].sum() == sum(uses is None for *_, uses in work)
    assert (rows["tc_kernels"].sum() or 0) == sum(uses is True for *_, uses in work)
    assert (rows["tc_ns"].sum() or 0) == sum(duration_ns for _, duration_ns, uses in work if uses is True)


def test_an_ambiguous_name_is_listed_once_with_the_kind_that_it_selects() -> None:
    profile = make_profile(
        ranges=[{"name": "step", "start_ns": 100 * index, "duration_ns": 90, "tid": 1} for index in range(5)],
        activities=[kernel("step", 5, start_ns=100 * index, device=0, stream=7) for index in range(5)]
        + [kernel("Gemm big", 5, start_ns=100 * index + 9, device=0, stream=7) for index in range(5)],
    )
    rows = key_choices(profile).filter(pl.col("key_kind") != "loop")
    assert sorted(rows.select("key_kind", "name", "ended").rows()) == [("kernel", "Gemm big", 5), ("range", "step", 5)]
    assert rows_containing(rows, "BIG gem")["name"].to_list() == ["Gemm big"]
    assert rows_containing(rows, "range")["name"].to_list() == ["step"]
    assert rows_containing(rows, "none[").is_empty()


def test_a_loop_whose_launches_have_one_time_has_no_coverage() -> None:
    launches = [kernel("abc"[number % 3], 0, start_ns=5, device=0, stream=7) for number in range(60)]
    loop = key_choices(make_profile(activities=launches)).row(0, named=True)
    assert (loop["name"], loop["spacing_ns"], loop["coverage_pct"]) == ("loop of 3 launches", 0, None)


def test_keys_are_listed_with_their_iterations_and_coverage() -> None:
    profile = make_profile(
        ranges=[
            {"name": "step", "start_ns": 1000 * index + offset, "duration_ns": 500 - 2 * offset, "tid": 1}
            for index in range(10)
            for offset in (0, 100)
        ],
        activities=[kernel("k", 5, start_ns=9000 + 100 * index, device=0, stream=7) for index in range(5)],
    )
    rows = key_choices(profile)
    # A nested step ends no iteration; the kernels run only in the last part of the run from 0 to 9,500.
    assert rows.select("name", "ended", "spacing_ns").rows() == [("step", 10, 1000), ("k", 5, 100)]
    assert rows["coverage_pct"].to_list() == [pytest.approx(100 * 9000 / 9500), pytest.approx(100 * 400 / 9500)]
    by_key = iterations(with_iterations(profile, "step"))
    assert by_key["iteration"].drop_nulls().to_list() == list(range(10))
