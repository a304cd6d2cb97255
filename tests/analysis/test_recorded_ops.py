"""Recorded ops: self and total times, and sums that contain all GPU time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.corpus import recording_file
from tui.analysis.dashboard import dashboard
from tui.analysis.kernels import kernels
from tui.analysis.ops.groupings import by_shapes
from tui.analysis.ops.op_attribution import PASSES, classified_work, op_tree, work_by_op
from tui.analysis.ops.op_costs import costs_by_name as recorded_by_name
from tui.analysis.ops.op_costs import op_instances, op_overheads, recorded_ops, self_times
from tui.analysis.ops.op_instances import Value, op_calls, recorded_op_kernels, recorded_op_launches
from tui.analysis.ops.op_trees import by_caller, by_path, by_type
from tui.analysis.ops.op_types import gpu_time_by_op_type, op_type_summary, op_types
from tui.analysis.ops.ops_by_name import (
    OPS,
    RECORDED_OPS,
    all_ops_by_name,
    inferred_ops,
    kernels_with_ops,
    ops,
    ops_spec,
    with_schema,
)
from tui.analysis.ops.ops_by_name import all_ops_by_name as ops_by_name
from tui.loaders.registry import load_input
from tui.model.profile import Profile, merge_profiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GEMM, RELU = "volta_sgemm_128x32_nn", "void relu_kernel(float*)"
REDUCE = "void at::native::reduce_kernel<512>(float)"


def op(name: str, start_ns: int, duration_ns: int | None, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    """Return a call of an op, on thread 1 of process 9."""
    columns = {"pid": 9, "tid": 1, "op_source": "recorded"}
    return {**columns, "name": name, "start_ns": start_ns, "duration_ns": duration_ns, "parent": parent, **fields}


def call(name: str, start_ns: int, duration_ns: int, **fields: Any) -> dict[str, Any]:
    """Return a CUDA call, on the same thread."""
    return {"pid": 9, "tid": 1, "name": name, "start_ns": start_ns, "duration_ns": duration_ns, **fields}


def launch(op: int | None, name: str, duration_ns: int | None, **fields: Any) -> dict[str, Any]:
    """Return a kernel that an op launched; without an op, with the reason as ``op_join``."""
    return kernel(name, duration_ns, op=op, **({"op_join": "launch"} if op is not None else {}), **fields)


def profile_of_ops(ops: Sequence[Mapping[str, Any]], *activities: Mapping[str, Any], **frames: Any) -> Profile:
    """Return a profile with these ops, numbered in order."""
    numbered = [{**row, "op": number} for number, row in enumerate(ops)]
    return make_profile(ops=numbered, activities=list(activities), **frames)


LINEAR = (
    op("aten::linear", 0, 100),
    op("aten::addmm", 10, 60, 0),
    op("aten::relu", 110, 30),
    op("aten::linear", 200, 50),
    op("aten::addmm", 210, 20, 3),
    op("aten::empty", 300, 5),
)
"""Two calls of linear that each call addmm, a call of relu, and an op that launches nothing."""


def linear_profile(**frames: Any) -> Profile:
    return profile_of_ops(
        LINEAR,
        launch(1, GEMM, 500),
        launch(1, "[CUDA memset]", 20, kind="memset"),
        launch(2, RELU, 100),
        launch(4, GEMM, 300),
        launch(None, RELU, 40, op_join="launch not recorded"),
        launch(None, REDUCE, 30, op_join="launched outside any op"),
        launch(None, REDUCE, 10, op_join="launched outside any op"),
        **frames,
    )


def test_each_call_has_self_and_total_time() -> None:
    instances = op_instances(linear_profile())
    assert instances.select("op", "launches", "gpu_self_ns", "gpu_total_ns", "cpu_total_ns", "cpu_self_ns").rows() == [
        (0, 0, 0, 520, 100, 40),
        (1, 2, 520, 520, 60, 60),
        (2, 1, 100, 100, 30, 30),
        (3, 0, 0, 300, 50, 30),
        (4, 1, 300, 300, 20, 20),
        (5, 0, 0, 0, 5, 5),
    ]
    # No CUDA calls are recorded, so their time is unknown.
    assert instances["api_ns"].to_list() == instances["api_calls"].to_list() == [None] * 6
    for unknown in ({"tid": None}, {"duration_ns": None}, {"start_ns": None}):
        calls = [{**call("cudaLaunchKernel", 5, 10), **unknown}]
        assert op_instances(linear_profile(api_calls=calls))["api_ns"].to_list() == [None] * 6


def test_ops_by_name_and_unattributed_work_add_up_to_the_gpu_time() -> None:
    rows = recorded_ops(linear_profile())
    columns = ("op", "calls", "gpu_self_ns", "gpu_total_ns", "cpu_total_ns", "cpu_self_ns", "launches", "kernels")
    assert rows.select(columns).rows() == [
        ("aten::addmm", 2, 820, 820, 80, 80, 3, 2),
        ("aten::relu", 1, 100, 100, 30, 30, 1, 1),
        ("(unattributed: launch not recorded)", None, 40, None, None, None, 1, 1),
        ("(unattributed: launched outside any op)", None, 40, None, None, None, 2, 1),
        ("aten::linear", 2, 0, 820, 150, 70, 0, 0),
        ("aten::empty", 1, 0, 0, 5, 5, 0, 0),
    ]
    assert rows["time_pct"].to_list() == [82.0, 10.0, 4.0, 4.0, 0.0, 0.0]
    assert rows["gpu_self_ns"].sum() == 1000 == kernels(linear_profile())["total_ns"].sum()
    assert rows.select("gpu_avg_ns", "gpu_min_ns", "gpu_max_ns", "cpu_avg_ns").row(0) == (410, 300, 520, 40)
    assert rows.select("op_type", "group", "op_source").rows()[:3] == [
        ("gemm", "gemm, memory", "recorded"),
        ("activation", "activation", "recorded"),
        ("activation", "activation", None),
    ]


def test_cpu_self_leaves_out_the_cuda_calls_of_the_op() -> None:
    calls = [
        call("cudaLaunchKernel", 20, 10),
        call("cuLaunchKernel", 22, 6),
        call("cudaMemsetAsync", 80, 3),
        call("cudaLaunchKernel", 115, 4),
        call("cudaDeviceSynchronize", 500, 9),
        call("cudaLaunchKernel", 25, 2, tid=2),
    ]
    rows = op_instances(linear_profile(api_calls=calls)).select("cpu_self_ns", "api_ns", "api_calls").rows()
    # The driver call is nested in the runtime call; the last two are outside ops; the third is in linear, after addmm.
    assert rows == [(37, 3, 1), (50, 10, 1), (26, 4, 1), (30, 0, 0), (20, 0, 0), (5, 0, 0)]


def test_recursive_calls_count_once_and_others_each_time() -> None:
    profile = profile_of_ops(
        (
            op("aten::layer_norm", 0, 50),
            op("aten::layer_norm", 5, 40, 0),
            op("aten::native_layer_norm", 10, 30, 1),
            op("aten::linear", 100, 90),
            op("aten::to", 105, 10, 3),
            op("aten::linear", 120, 60, 3),
        ),
        launch(2, GEMM, 7),
        launch(5, GEMM, 11),
    )
    rows = {row["op"]: row for row in recorded_ops(profile).to_dicts()}
    norm_row, linear_row = rows["aten::layer_norm"], rows["aten::linear"]
    assert (norm_row["calls"], norm_row["cpu_total_ns"], norm_row["cpu_self_ns"], norm_row["gpu_total_ns"]) == (
        1,
        50,
        20,
        7,
    )
    assert (linear_row["calls"], linear_row["cpu_total_ns"], linear_row["cpu_self_ns"]) == (2, 150, 80)
    assert (linear_row["gpu_self_ns"], linear_row["gpu_total_ns"]) == (11, 22)
    assert op_instances(profile)["call"].to_list() == [0, 0, 2, 3, 4, 5]
    # If the outer call launched work itself, both calls count.
    with_outer_work = profile_of_ops((op("f", 0, 50), op("f", 5, 40, 0)), launch(0, GEMM, 7), launch(1, GEMM, 2))
    assert recorded_ops(with_outer_work).select("calls", "gpu_self_ns", "gpu_total_ns").rows() == [(2, 9, 11)]
    # Kernels of nested calls of the op are listed once.
    assert recorded_op_kernels(profile, session=0, op="aten::linear")["total_ns"].to_list() == [11]


def test_an_inner_call_of_equal_name_keeps_its_time() -> None:
    profile = profile_of_ops(
        (op("f", 0, 50), op("f", 5, 40, 0), op("f", 6, 20, 1)), launch(2, GEMM, 7), launch(2, RELU, 2)
    )
    row = recorded_ops(profile).row(0, named=True)
    assert (row["calls"], row["gpu_self_ns"], row["gpu_total_ns"], row["gpu_max_ns"]) == (1, 9, 9, 9)
    assert (row["cpu_total_ns"], row["cpu_self_ns"], row["launches"], row["kernels"]) == (50, 50, 2, 2)


def test_ops_of_other_threads_take_no_time_from_their_parent() -> None:
    profile = profile_of_ops((op("f", 0, 50), op("g", 5, 40, 0, tid=2), op("h", 6, 10, 1, tid=2)), launch(2, GEMM, 7))
    assert op_instances(profile).select("gpu_total_ns", "cpu_self_ns").rows() == [(7, 50), (7, 30), (7, 10)]


def test_unknown_values_are_null() -> None:
    profile = profile_of_ops((op("f", 0, None), op("g", 5, 10)))
    assert recorded_ops(profile).select(
        "op", "calls", "gpu_self_ns", "time_pct", "cpu_total_ns", "launches"
    ).rows() == [
        ("g", 1, None, None, 10, None),
        ("f", 1, None, None, None, None),
    ]
    empty = make_profile(api_calls=[call("cudaMalloc", 0, 5)])
    assert (recorded_ops(empty).height, ops(empty).height, all_ops_by_name(empty).height) == (0, 0, 0)
    assert (gpu_time_by_op_type(empty).height, op_types(empty).height, kernels_with_ops(empty).height) == (0, 0, 0)


def test_work_of_a_missing_op_is_not_lost() -> None:
    profile = profile_of_ops(
        (op("f", 0, 10),),
        launch(7, GEMM, 5),
        kernel(GEMM, 3),
        launch(0, GEMM, 2),
    )
    assert recorded_ops(profile).select("op", "gpu_self_ns", "launches").rows() == [
        ("(unattributed: reason not recorded)", 8, 2),
        ("f", 2, 1),
    ]


def test_replays_of_a_graph_without_its_capture_say_so() -> None:
    reasons = ("graph replay: capture not recorded", "graph replay: several captures match", "graph capture")
    profile = profile_of_ops((op("f", 0, 10),), *(launch(None, GEMM, 1, op_join=reason) for reason in reasons))
    assert sorted(recorded_ops(profile)["op"].drop_nulls().to_list()) == [
        "(unattributed: graph replay: capture not recorded)",
        "(unattributed: graph replay: several captures match)",
        "(unattributed: reason not recorded)",
        "f",
    ]


def test_invalid_parents_are_ignored() -> None:
    profile = profile_of_ops(
        (op("a", 0, 10, 1), op("b", 0, 10, 0), op("c", 0, 10, 2), op("d", 0, 10, 99), op("e", 0, 10, 1)),
        launch(4, GEMM, 5),
    )
    assert op_instances(profile)["gpu_total_ns"].to_list() == [0, 0, 0, 0, 5]
    assert op_tree(profile["ops"]).parent.tolist() == [-1] * 5


def two_sessions() -> Profile:
    """Return a session with ops, one without, and one with printed totals of GPU work only."""
    first = profile_of_ops((op("f", 0, 50), op("aten::mm", 5, 40, 0)), launch(1, GEMM, 70), copy("HtoD", 30, op=0))
    second = make_profile(activities=[kernel(GEMM, 60), kernel(RELU, 40)])
    third = profile_of_ops((op("g", 0, 9),), summary=[summary_row("gpu", RELU, 3, 90, time_pct=100.0)])
    return merge_profiles([first, second, third])


def test_sessions_with_and_without_ops_are_listed_together() -> None:
    profile = two_sessions()
    assert ops_spec(profile) is RECORDED_OPS
    assert all_ops_by_name(profile).select("session", "op", "gpu_self_ns", "time_pct", "op_source").rows() == [
        (2, "(unattributed: totals only)", 90, 100.0, None),
        (0, "aten::mm", 70, 70.0, "recorded"),
        (1, "gemm", 60, 60.0, "inferred"),
        (1, "activation", 40, 40.0, "inferred"),
        (0, "f", 30, 30.0, "recorded"),
        (2, "g", None, None, "recorded"),
    ]
    assert ops(profile).rows() == all_ops_by_name(profile).rows()
    assert inferred_ops(profile)["session"].unique().to_list() == [1]
    without_ops = profile.only_session(1)
    assert ops_spec(without_ops) is OPS
    assert ops(without_ops)["total_ns"].to_list() == [60, 40]
    # A single session has the same rows, although its op numbers do not start at 0.
    for session in (0, 2):
        assert ops(profile.only_session(session)).rows() == ops(profile).filter(pl.col("session") == session).rows()
    totals = all_ops_by_name(profile).group_by("session").agg(pl.col("gpu_self_ns").sum()).sort("session").rows()
    assert totals == [(0, 100), (1, 100), (2, 90)]


def test_types_of_work_follow_the_op_before_the_kernel() -> None:
    profile = profile_of_ops(
        (op("aten::layer_norm", 0, 50), op("training step", 60, 40)),
        launch(0, REDUCE, 5),
        launch(0, "[CUDA memcpy HtoD]", 3, kind="memcpy"),
        launch(1, REDUCE, 2),
        launch(None, GEMM, 1, op_join="launch not recorded"),
    )
    assert gpu_time_by_op_type(profile).select("op_type", "group", "calls", "total_ns").rows() == [
        ("layer norm", "normalization", 1, 5),
        ("memcpy HtoD", "memory", 1, 3),
        ("reduction", "reduction", 1, 2),
        ("gemm", "gemm", 1, 1),
    ]
    board = dashboard(profile)
    assert board.split.select("group", "total_ns").rows() == [
        ("normalization", 5),
        ("memory", 3),
        ("reduction", 2),
        ("gemm", 1),
    ]
    assert (board.ops_recorded, board.ops_inferred) == (1, 0)
    assert board.counted_ops == "calls"
    assert board.top_ops.select("op", "total_ns", "calls", "launches", "op_source").rows() == [
        ("aten::layer_norm", 8, 1, 2, "recorded"),
        ("training step", 2, 1, 1, "recorded"),
        # Unattributed work has launches and no calls.
        ("(unattributed: launch not recorded)", 1, None, 1, None),
    ]
    # The name of the range has no type, so the kernels determine it.
    assert all_ops_by_name(profile).select("op", "op_type", "group").rows() == [
        ("aten::layer_norm", "layer norm", "normalization, memory"),
        ("training step", "reduction", "reduction"),
        ("(unattributed: launch not recorded)", "gemm", "gemm"),
    ]
    rules = {row["name"]: row["rule"] for row in classified_work(profile).to_dicts() if row["op"] != "aten::layer_norm"}
    assert all(rules.values())


def test_the_dashboard_sums_an_op_over_sessions() -> None:
    first = profile_of_ops((op("aten::mm", 0, 50),), launch(0, GEMM, 5))
    second = profile_of_ops((op("aten::mm", 0, 50),), launch(0, GEMM, 3), launch(0, "[CUDA memset]", 2, kind="memset"))
    board = dashboard(merge_profiles([first, second, make_profile(activities=[kernel(RELU, 10)])]))
    assert board.top_ops.select("op", "total_ns", "calls", "launches", "time_pct", "op_source").rows() == [
        ("activation", 10, None, 1, 50.0, "inferred"),
        ("aten::mm", 10, 2, 3, 50.0, "recorded"),
    ]
    inferred = dashboard(make_profile(activities=[kernel(RELU, 10), kernel(RELU, 20)]))
    assert inferred.counted_ops == "launches"
    assert inferred.top_ops.select("op", "calls", "launches", "avg_ns").rows() == [("activation", None, 2, 15)]
    assert (board.ops_recorded, board.ops_inferred) == (2, 1)
    assert board.split["total_ns"].sum() == 20


def test_recorded_op_types_take_precedence_over_names() -> None:
    profile = profile_of_ops(
        (
            op("layer1/Conv", 0, 9, op_type="Conv2D", direction="fprop", tc_eligible=True),
            op("layer1/Conv", 10, 9, op_type="Conv2D", direction="bprop", tc_eligible=True),
            op("AddmmBackward0", 20, 9),
        ),
        launch(0, "void kernel(float)", 5, uses_tensor_core=True),
        launch(0, "void other(float)", 5),
        launch(2, "void other(float)", 1, uses_tensor_core=False),
        launch(2, "[CUDA memset]", 1, kind="memset"),
    )
    columns = ("op", "op_type", "group", "direction", "tc_eligible", "uses_tensor_core")
    assert recorded_ops(profile).select(columns).rows() == [
        ("layer1/Conv", "Conv2D", "convolution", "mixed", True, True),
        ("AddmmBackward0", "gemm", "gemm, memory", "bprop", True, False),
    ]


def test_op_types_sum_the_ops_of_a_type() -> None:
    rows = op_types(linear_profile())
    columns = ("op", "op_type", "group", "ops", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "cpu_self_ns")
    assert rows.select(columns).rows() == [
        ("gemm", "gemm", "gemm", 2, 4, 820, 205, 0, 520, 150),
        ("activation", "activation", "activation", 1, 1, 100, 100, 100, 100, 30),
        ("(unattributed: launch not recorded)", None, "activation", None, None, 40, None, None, None, None),
        ("(unattributed: launched outside any op)", None, "reduction", None, None, 40, None, None, None, None),
        ("allocation", "allocation", "data movement", 1, 1, 0, 0, 0, 0, 5),
    ]
    assert op_types(two_sessions())["total_ns"].sum() == 290
    without_ops = make_profile(activities=[kernel(GEMM, 5)])
    assert op_types(without_ops).columns == rows.columns


def test_ops_can_be_distinguished_by_their_shapes() -> None:
    profile = profile_of_ops(
        (op("f", 0, 9, input_shapes="[[1]]"), op("f", 10, 9, input_shapes="[[2]]"), op("f", 20, 9)),
        launch(0, GEMM, 5),
        launch(1, GEMM, 3),
    )
    rows = recorded_by_name(profile, "input_shapes").sort("gpu_self_ns", descending=True)
    assert rows.select("op", "input_shapes", "calls", "gpu_self_ns").rows() == [
        ("f", "[[1]]", 1, 5),
        ("f", "[[2]]", 1, 3),
        ("f", None, 1, 0),
    ]


def test_kernels_of_an_op_and_their_launches() -> None:
    profile = linear_profile()
    rows = recorded_op_kernels(profile, session=0, op="aten::linear")
    columns = ("launched_by", "name", "calls", "total_ns", "time_pct", "op_type", "group")
    assert rows.select(columns).rows() == [
        ("aten::addmm", GEMM, 2, 800, 80.0, "gemm", "gemm"),
        ("aten::addmm", "[CUDA memset]", 1, 20, 2.0, "memset", "memory"),
    ]
    gemm_row: dict[str, Any] = {"session": 0, "kind": "kernel", "name": GEMM, "launched_by": "aten::addmm"}
    assert recorded_op_launches(profile, **gemm_row, op="aten::linear")["duration_ns"].to_list() == [500, 300]
    assert recorded_op_launches(profile, **gemm_row, op="aten::relu").is_empty()
    reason = "launched outside any op"
    unattributed = recorded_op_kernels(profile, session=0, why_no_op=reason)
    assert unattributed.select("launched_by", "name", "calls", "total_ns").rows() == [(None, REDUCE, 2, 40)]
    unattributed_launches = recorded_op_launches(
        profile, session=0, kind="kernel", name=REDUCE, launched_by=None, why_no_op=reason
    )
    assert unattributed_launches["duration_ns"].to_list() == [30, 10]
    totals = recorded_op_kernels(two_sessions(), session=2, why_no_op="totals only")
    assert totals.select("name", "calls", "total_ns", "launched_by").rows() == [(RELU, 3, 90, None)]
    assert recorded_op_kernels(profile, session=0, op="aten::empty").is_empty()
    assert kernels_with_ops(profile)["total_ns"].sum() == 1000


def test_kernels_of_an_op_include_nested_ones_that_add_no_known_time() -> None:
    profile = profile_of_ops(
        (op("outer", 0, 90), op("inner", 10, 60, 0)), launch(0, GEMM, 50), launch(1, RELU, None), launch(1, REDUCE, 0)
    )
    rows = recorded_op_kernels(profile, session=0, op="outer").select("launched_by", "name", "calls", "total_ns")
    assert rows.rows() == [("outer", GEMM, 1, 50), ("inner", REDUCE, 1, 0), ("inner", RELU, 1, None)]


def test_variants_of_the_calls_of_an_op() -> None:
    profile = profile_of_ops(
        (
            op("outer", 0, 100, group="model"),
            op("f", 1, 9, 0, input_shapes="[[1]]", dtype="float", stack="a.py(1);b.py(2)", direction="fprop"),
            op("f", 11, 9, 0, input_shapes="[[1]]", dtype="half", tid=2),
            op("f", 21, 9, input_shapes="[[2]]"),
            op("g", 22, 1, 3),
            op("FBackward0", 50, 9, forward=1),
        )
    )
    calls = op_calls(profile, session=0, op="f", limit=1)
    assert (calls.input_shapes.frequent, calls.input_shapes.others) == ((Value("[[1]]", 2),), 1)
    assert calls.stack.frequent == (Value("a.py(1);b.py(2)", 1),)
    assert (calls.parent.frequent, calls.children.frequent) == ((Value("outer", 2),), (Value("g", 1),))
    assert (calls.backward.frequent, calls.forward.frequent) == ((Value("FBackward0", 1),), ())
    assert calls.thread.frequent == (Value("1", 2),)
    assert op_calls(profile, session=0, op="FBackward0").forward.frequent == (Value("f", 1),)
    assert op_calls(profile, session=0, op="missing").dtype.frequent == ()


TREES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=40)
WORK = st.lists(st.tuples(st.integers(-1, 45), st.integers(0, 1000)), max_size=60)


@given(tree=TREES, work=WORK)
def test_self_times_add_up_in_any_tree(tree: list[tuple[int, int, int]], work: list[tuple[int, int]]) -> None:
    # Every op may be nested in any earlier op.
    rows = [
        op(f"op{name}", number, 10 * weight, parent if parent < number else None)
        for number, (parent, name, weight) in enumerate(tree)
    ]
    profile = profile_of_ops(
        rows, *(launch(None if op_number < 0 else op_number, GEMM, duration) for op_number, duration in work)
    )
    instances = op_instances(profile)
    attributed_ns = sum(duration for op_number, duration in work if 0 <= op_number < len(rows))
    self_ns = instances["gpu_self_ns"].fill_null(0).to_list()
    assert sum(self_ns) == attributed_ns
    roots = instances.filter(pl.col("parent").is_null())
    assert roots["gpu_total_ns"].fill_null(0).sum() == attributed_ns
    for row in instances.to_dicts():
        descendants = [
            instance["op"] for instance in instances.to_dicts() if row["op"] in ancestors(rows, instance["op"])
        ]
        assert (row["gpu_total_ns"] or 0) == sum(self_ns[number] for number in descendants)
    op_rows = recorded_ops(profile)
    assert op_rows["gpu_self_ns"].fill_null(0).sum() == sum(duration for _op, duration in work)
    assert op_rows["launches"].fill_null(0).sum() == len(work)
    assert work_by_op(profile)["launches"].sum() == len(work)
    assert op_rows["cpu_self_ns"].fill_null(0).sum() == roots["cpu_total_ns"].sum()
    assert gpu_time_by_op_type(profile)["total_ns"].sum() == sum(duration for _op, duration in work)


def ancestors(rows: list[dict[str, Any]], number: int) -> list[int]:
    """Return an op and all ops that it is nested in, found one by one."""
    numbers = []
    current: int | None = number
    while current is not None:
        numbers.append(current)
        current = rows[current]["parent"]
    return numbers


@pytest.mark.parametrize("depth", [1, 300])
def test_times_of_deeply_nested_ops_are_summed(depth: int) -> None:
    rows = [op(f"op{number}", number, 1000 - number, number - 1 if number else None) for number in range(depth)]
    instances = op_instances(profile_of_ops(rows, launch(depth - 1, GEMM, 7)))
    assert instances["gpu_total_ns"].to_list() == [7] * depth


def untimed_profile() -> Profile:
    """Return two calls of linear: no launch of the first is timed, some of the second are."""
    return profile_of_ops(
        LINEAR,
        launch(1, GEMM, None, start_ns=1000),
        launch(2, RELU, 100, start_ns=2000),
        launch(4, GEMM, 300, start_ns=3000),
        launch(4, REDUCE, None, start_ns=4000),
    )


def test_work_without_a_duration_is_counted_and_its_time_is_unknown() -> None:
    instances = op_instances(untimed_profile())
    assert instances.select("launches", "untimed_launches", "gpu_self_ns", "gpu_total_ns").rows() == [
        (0, 0, 0, None),
        (1, 1, None, None),
        (1, 0, 100, 100),
        (0, 0, 0, 300),
        (2, 1, 300, 300),
        (0, 0, 0, 0),
    ]
    times = self_times(untimed_profile())
    assert times.select("gpu_ns", "gpu_busy_ns", "gpu_idle_ns").rows() == [
        (0, 0, 0),
        (None, None, None),
        (100, 100, 0),
        (0, 0, 0),
        (300, 300, None),
        (0, 0, 0),
    ]
    assert op_overheads(untimed_profile())["gpu_idle_ns"].to_list() == [None, None, 0, None, None, 0]


def test_sums_count_the_launches_that_they_leave_out() -> None:
    columns = ("op", "calls", "launches", "untimed_launches", "gpu_self_ns", "gpu_avg_ns", "gpu_total_ns")
    assert recorded_ops(untimed_profile()).select(columns).rows() == [
        ("aten::addmm", 2, 3, 2, 300, 300, 300),
        ("aten::relu", 1, 1, 0, 100, 100, 100),
        ("aten::linear", 2, 0, 0, 0, 0, 300),
        ("aten::empty", 1, 0, 0, 0, 0, 0),
    ]
    assert ops(linear_profile())["untimed_launches"].to_list() == [0] * 6
    types = op_types(untimed_profile()).filter(pl.col("total_ns") > 0).select("op_type", "total_ns", "avg_ns")
    assert types.rows() == [("gemm", 300, 100), ("activation", 100, 100)]


def test_sums_of_unknown_work_are_not_zero() -> None:
    profile = profile_of_ops((op("a", 0, 9), op("b", 10, 9), op("b", 20, 9)), launch(1, GEMM, None))
    rows = recorded_ops(profile).sort("op")
    assert rows.select("op", "launches", "untimed_launches", "gpu_self_ns", "gpu_total_ns").rows() == [
        ("a", 0, 0, 0, 0),
        ("b", 1, 1, None, None),
    ]
    tree = by_path(profile).select("node", "gpu_ns", "gpu_self_ns")
    assert tree.rows() == [("all", None, None), ("b", None, None), ("a", 0, 0)]
    summary = op_type_summary(profile)
    assert summary.select("op_type", "launches", "gpu_ns").rows() == [("unknown", 0, 0), ("gemm", 1, None)]


def test_types_and_trees_count_the_launches_that_their_times_leave_out() -> None:
    types = (
        op_type_summary(untimed_profile())
        .filter(pl.col("launches") > 0)
        .select("op_type", "launches", "untimed_launches")
    )
    assert types.rows() == [("gemm", 3, 2), ("activation", 1, 0)]
    nodes = by_path(untimed_profile()).filter(pl.col("launches") > 0).select("node", "launches", "untimed_launches")
    assert nodes.rows() == [("all", 4, 2), ("aten::addmm", 3, 2), ("aten::relu", 1, 0)]
    shapes = by_shapes(untimed_profile()).filter(pl.col("launches") > 0).select("op", "launches", "untimed_launches")
    assert shapes.rows() == [("aten::addmm", 3, 2), ("aten::relu", 1, 0)]
    # Sessions without ops count them too; if all durations are known, there are none.
    inferred = make_profile(activities=[kernel(GEMM, 10), kernel(GEMM, None)])
    for rows in (op_type_summary(inferred), by_path(inferred).tail(1), by_shapes(inferred)):
        assert rows.select("launches", "untimed_launches").rows() == [(2, 1)]
    for rows in (op_type_summary(linear_profile()), by_path(linear_profile()), by_shapes(linear_profile())):
        assert set(rows["untimed_launches"]) == {0}


def test_an_inner_call_of_equal_name_keeps_unknown_time() -> None:
    nested = (op("aten::norm", 0, 100), op("aten::norm", 10, 60, 0))
    untimed_call = recorded_ops(profile_of_ops(nested, launch(1, RELU, None)))
    assert untimed_call.select("calls", "launches", "untimed_launches", "gpu_self_ns").row(0) == (1, 1, 1, None)
    partly_timed = recorded_ops(profile_of_ops(nested, launch(1, RELU, None), launch(1, RELU, 5)))
    assert partly_timed.select("calls", "launches", "untimed_launches", "gpu_self_ns").row(0) == (1, 2, 1, 5)


def test_cpu_self_is_unknown_if_a_nested_op_has_no_duration() -> None:
    instances = op_instances(profile_of_ops((op("a", 0, 100), op("b", 10, None, 0), op("c", 20, 5, 0))))
    assert instances["cpu_self_ns"].to_list() == [None, None, 5]


def test_averages_over_several_names_are_of_the_launches_with_a_duration() -> None:
    gemms = (GEMM, "volta_sgemm_64x64_nn")
    work = [kernel(gemms[0], 40), kernel(gemms[0], None), kernel(gemms[1], 20), kernel(gemms[1], None)]
    rows = inferred_ops(make_profile(activities=work))
    assert rows.select("kernels", "calls", "timed_calls", "total_ns", "avg_ns").rows() == [(2, 4, 2, 60, 30)]
    board = dashboard(make_profile(activities=work)).ops
    assert board.select("launches", "total_ns", "avg_ns").rows() == [(4, 60, 30)]
    two_sessions = make_profile(activities=[*work, *({**row, "session": 1} for row in work)])
    assert dashboard(two_sessions).ops.select("launches", "total_ns", "avg_ns").rows() == [(8, 120, 30)]
    with_op = profile_of_ops((op("a", 0, 9),), launch(0, GEMM, None), launch(0, GEMM, 40))
    assert kernels_with_ops(with_op).select("calls", "total_ns", "avg_ns").rows() == [(2, 40, 40)]


def test_a_sum_of_calls_is_unknown_if_one_row_has_none() -> None:
    rows = [summary_row("gpu", GEMM, None, 40), summary_row("gpu", "volta_sgemm_64x64_nn", 3, 20)]
    assert inferred_ops(make_profile(summary=rows)).select("calls", "total_ns", "avg_ns").rows() == [(None, 60, None)]
    assert dashboard(make_profile(summary=rows)).split["calls"].to_list() == [None]


def training_ops() -> Profile:
    """Return a step of forward, backward, recomputed, optimizer and hook ops that launch one kernel each."""
    engine = "autograd::engine::evaluate_function: "
    recomputed = f"{engine}CheckpointFunctionBackward/CheckpointFunctionBackward"
    table = [
        ("aten::addmm", "Net_0/Linear_0", "fprop", None, 10),
        ("aten::relu", "Net_0", "fprop", None, 3),
        ("aten::mm", f"{engine}AddmmBackward0/AddmmBackward0", "bprop", 0, 20),
        ("aten::threshold_backward", f"{engine}ReluBackward0/ReluBackward0", "bprop", 1, 6),
        ("aten::addmm", f"{recomputed}/Linear_0", "fprop", None, 10),
        ("aten::add_", f"{engine}torch::autograd::AccumulateGrad", "bprop", None, 2),
        ("aten::_foreach_add_", "Optimizer.step#SGD.step", None, None, 4),
        ("aten::_foreach_norm", "", None, None, 1),
        ("aten::copy_", "", None, None, 5),
        ("record_param_comms", f"{engine}torch::autograd::AccumulateGrad/c10d::allreduce_", "bprop", None, 8),
        ("aten::copy_", "torch.distributed.ddp.reducer::copy_bucket_to_grad", None, None, 2),
        ("c10d::_reduce_scatter_base_", "FSDP::post_backward_reduce", None, None, 3),
        ("aten::_foreach_mul_", "", None, None, 1),
        ("c10d::allreduce_", f"{engine}torch::autograd::AccumulateGrad", "bprop", None, 9),
    ]
    ops = [
        {"op": number, "name": name, "group": group or None, "direction": direction, "forward": forward,
         "start_ns": 100 * number, "duration_ns": 50, "pid": 1, "tid": 1}
        for number, (name, group, direction, forward, _) in enumerate(table)
    ]  # fmt: skip
    work = [
        kernel("k", row[-1], op=number, op_join="launch", start_ns=100 * number) for number, row in enumerate(table)
    ]
    return make_profile(ops=ops, activities=[*work, kernel("x", 7, start_ns=2000, op_join="launch not recorded")])


def test_backward_time_is_counted_at_its_forward_op() -> None:
    tree = by_path(training_ops())
    rows = {row["path"]: tuple(row[name] for name in PASSES) for row in tree.iter_rows(named=True)}
    assert rows[""] == (13, 50, 10, 6, 12)
    assert rows["Net_0"] == (13, 26, 10, 0, 0)
    assert rows["Net_0/Linear_0"] == (10, 20, 10, 0, 0)
    assert rows["Net_0/aten::threshold_backward"] == (0, 6, 0, 0, 0)
    engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert rows[f"(autograd engine, no forward op)/{engine}"] == (0, 2, 0, 0, 0)
    assert rows["Optimizer.step#SGD.step"] == (0, 0, 0, 4, 0)
    assert rows["aten::copy_"] == (0, 0, 0, 0, 5)
    assert rows["(gradient clipping)"] == (0, 0, 0, 2, 0)
    hooks = "(DDP and FSDP hooks)"
    assert rows[hooks] == (0, 22, 0, 0, 0)
    assert rows[f"{hooks}/torch.distributed.ddp.reducer::copy_bucket_to_grad"] == (0, 2, 0, 0, 0)
    assert rows[f"{hooks}/FSDP::post_backward_reduce"] == (0, 3, 0, 0, 0)
    assert tree["gpu_self_ns"].sum() == 91


def test_without_backward_there_are_no_passes() -> None:
    profile = training_ops()
    ops = profile["ops"].filter(pl.col("op") < 2)
    inference = replace(profile, frames={**profile.frames, "ops": ops, "activities": profile["activities"].head(2)})
    assert by_path(inference).select(PASSES).null_count().row(0) == (by_path(inference).height,) * len(PASSES)


@pytest.mark.parametrize(
    "name",
    ["ddp_rank0", "ddp_rank1", "gpt_bf16_stacks", "gpt_cudagraph", "resnet50_amp", "resnet50_fp32", "tiny_kernels"],
)
def test_passes_of_recordings_add_up_to_the_flat_totals(name: str) -> None:
    profile = load_input(recording_file(f"{name}.pt.trace.json.gz"))
    tree, has_backward = by_path(profile), "bprop" in profile["ops"]["direction"].cast(pl.String).to_list()
    for grouping in (tree, by_caller(profile), by_type(profile)):
        assert grouping["gpu_self_ns"].sum() == grouping["gpu_ns"][0] == profile["activities"]["duration_ns"].sum()
        assert grouping["gpu_ns"][0] == ops_by_name(profile)["gpu_self_ns"].sum()
        assert grouping["launches"][0] == profile["activities"].height
        assert grouping.filter(pl.sum_horizontal(PASSES) != pl.col("gpu_ns")).is_empty() or not has_backward
        assert grouping.select(PASSES).head(1).rows() == tree.select(PASSES).head(1).rows()
    if has_backward:
        is_reducer = pl.col("group").cast(pl.String).str.contains("ddp.reducer::", literal=True).fill_null(False)
        backward_ops = profile["ops"].filter((pl.col("direction") == "bprop") | is_reducer)["op"]
        backward_ns = profile["activities"].filter(pl.col("op").is_in(backward_ops.implode()))["duration_ns"].sum()
        assert tree["backward_gpu_ns"][0] == backward_ns


def test_with_schema_selects_orders_and_casts_columns() -> None:
    schema = {"missing": pl.String(), "calls": pl.Int64(), "time_pct": pl.Float64()}
    rows = with_schema(pl.DataFrame({"time_pct": [50], "calls": [2], "more": ["x"]}), schema)
    assert rows.schema == schema
    assert rows.rows() == [(None, 2, 50.0)]
