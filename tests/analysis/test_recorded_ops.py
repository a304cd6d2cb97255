"""Recorded ops: their times, counted once or twice as documented, and no GPU time is lost."""

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
RED = "void at::native::reduce_kernel<512>(float)"


def op(name: str, start_ns: int, duration_ns: int | None, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    """Return a call of an op, on thread 1 of process 9."""
    columns = {"pid": 9, "tid": 1, "op_source": "recorded"}
    return {**columns, "name": name, "start_ns": start_ns, "duration_ns": duration_ns, "parent": parent, **fields}


def call(name: str, start_ns: int, duration_ns: int, **fields: Any) -> dict[str, Any]:
    """Return a CUDA call, on the same thread."""
    return {"pid": 9, "tid": 1, "name": name, "start_ns": start_ns, "duration_ns": duration_ns, **fields}


def launch_of(by: int | None, name: str, duration_ns: int | None, **fields: Any) -> dict[str, Any]:
    """Return a kernel that an op launched; without an op, with the reason as ``op_join``."""
    return kernel(name, duration_ns, op=by, **({"op_join": "launch"} if by is not None else {}), **fields)


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
"""Two calls of linear, that each call addmm; relu; and an op that launches nothing."""


def linear(**frames: Any) -> Profile:
    return profile_of_ops(
        LINEAR,
        launch_of(1, GEMM, 500),
        launch_of(1, "[CUDA memset]", 20, kind="memset"),
        launch_of(2, RELU, 100),
        launch_of(4, GEMM, 300),
        launch_of(None, RELU, 40, op_join="launch not recorded"),
        launch_of(None, RED, 30, op_join="launched outside any op"),
        launch_of(None, RED, 10, op_join="launched outside any op"),
        **frames,
    )


def test_each_call_has_self_and_total_time() -> None:
    found = op_instances(linear())
    assert found.select("op", "launches", "gpu_self_ns", "gpu_total_ns", "cpu_total_ns", "cpu_self_ns").rows() == [
        (0, 0, 0, 520, 100, 40),
        (1, 2, 520, 520, 60, 60),
        (2, 1, 100, 100, 30, 30),
        (3, 0, 0, 300, 50, 30),
        (4, 1, 300, 300, 20, 20),
        (5, 0, 0, 0, 5, 5),
    ]
    # No CUDA calls are recorded: how long they took is not known.
    assert found["api_ns"].to_list() == found["api_calls"].to_list() == [None] * 6


def test_ops_by_name_and_unattributed_work_add_up_to_the_gpu_time() -> None:
    found = recorded_ops(linear())
    columns = ("op", "calls", "gpu_self_ns", "gpu_total_ns", "cpu_total_ns", "cpu_self_ns", "launches", "kernels")
    assert found.select(columns).rows() == [
        ("aten::addmm", 2, 820, 820, 80, 80, 3, 2),
        ("aten::relu", 1, 100, 100, 30, 30, 1, 1),
        ("(unattributed: launch not recorded)", None, 40, None, None, None, 1, 1),
        ("(unattributed: launched outside any op)", None, 40, None, None, None, 2, 1),
        ("aten::linear", 2, 0, 820, 150, 70, 0, 0),
        ("aten::empty", 1, 0, 0, 5, 5, 0, 0),
    ]
    assert found["time_pct"].to_list() == [82.0, 10.0, 4.0, 4.0, 0.0, 0.0]
    assert found["gpu_self_ns"].sum() == 1000 == kernels(linear())["total_ns"].sum()
    assert found.select("gpu_avg_ns", "gpu_min_ns", "gpu_max_ns", "cpu_avg_ns").row(0) == (410, 300, 520, 40)
    assert found.select("op_type", "group", "op_source").rows()[:3] == [
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
    found = op_instances(linear(api_calls=calls)).select("cpu_self_ns", "api_ns", "api_calls").rows()
    # The driver call lies in the runtime call; the last two lie in no op; the third lies in linear, after addmm.
    assert found == [(37, 3, 1), (50, 10, 1), (26, 4, 1), (30, 0, 0), (20, 0, 0), (5, 0, 0)]


def test_recursive_calls_count_once_and_others_each_time() -> None:
    found = profile_of_ops(
        (
            op("aten::layer_norm", 0, 50),
            op("aten::layer_norm", 5, 40, 0),
            op("aten::native_layer_norm", 10, 30, 1),
            op("aten::linear", 100, 90),
            op("aten::to", 105, 10, 3),
            op("aten::linear", 120, 60, 3),
        ),
        launch_of(2, GEMM, 7),
        launch_of(5, GEMM, 11),
    )
    rows = {row["op"]: row for row in recorded_ops(found).to_dicts()}
    norm, dense = rows["aten::layer_norm"], rows["aten::linear"]
    assert (norm["calls"], norm["cpu_total_ns"], norm["cpu_self_ns"], norm["gpu_total_ns"]) == (1, 50, 20, 7)
    assert (dense["calls"], dense["cpu_total_ns"], dense["cpu_self_ns"]) == (2, 150, 80)
    assert (dense["gpu_self_ns"], dense["gpu_total_ns"]) == (11, 22)
    assert op_instances(found)["call"].to_list() == [0, 0, 2, 3, 4, 5]
    # Where the outer call did something itself, the two are not one.
    own = profile_of_ops((op("f", 0, 50), op("f", 5, 40, 0)), launch_of(0, GEMM, 7), launch_of(1, GEMM, 2))
    assert recorded_ops(own).select("calls", "gpu_self_ns", "gpu_total_ns").rows() == [(2, 9, 11)]
    # Kernels of the op are told once, whatever calls whatever.
    assert recorded_op_kernels(found, session=0, op="aten::linear")["total_ns"].to_list() == [11]


def test_an_inner_call_of_equal_name_keeps_its_time() -> None:
    found = profile_of_ops(
        (op("f", 0, 50), op("f", 5, 40, 0), op("f", 6, 20, 1)), launch_of(2, GEMM, 7), launch_of(2, RELU, 2)
    )
    row = recorded_ops(found).row(0, named=True)
    assert (row["calls"], row["gpu_self_ns"], row["gpu_total_ns"], row["gpu_max_ns"]) == (1, 9, 9, 9)
    assert (row["cpu_total_ns"], row["cpu_self_ns"], row["launches"], row["kernels"]) == (50, 50, 2, 2)


def test_ops_of_other_threads_take_no_time_from_their_parent() -> None:
    found = profile_of_ops((op("f", 0, 50), op("g", 5, 40, 0, tid=2), op("h", 6, 10, 1, tid=2)), launch_of(2, GEMM, 7))
    assert op_instances(found).select("gpu_total_ns", "cpu_self_ns").rows() == [(7, 50), (7, 30), (7, 10)]


def test_unknown_values_are_null() -> None:
    found = profile_of_ops((op("f", 0, None), op("g", 5, 10)))
    assert recorded_ops(found).select("op", "calls", "gpu_self_ns", "time_pct", "cpu_total_ns", "launches").rows() == [
        ("g", 1, None, None, 10, None),
        ("f", 1, None, None, None, None),
    ]
    empty = make_profile(api_calls=[call("cudaMalloc", 0, 5)])
    assert (recorded_ops(empty).height, ops(empty).height, all_ops_by_name(empty).height) == (0, 0, 0)
    assert (gpu_time_by_op_type(empty).height, op_types(empty).height, kernels_with_ops(empty).height) == (0, 0, 0)


def test_work_of_a_missing_op_is_not_lost() -> None:
    found = profile_of_ops(
        (op("f", 0, 10),),
        launch_of(7, GEMM, 5),
        kernel(GEMM, 3),
        launch_of(0, GEMM, 2),
    )
    assert recorded_ops(found).select("op", "gpu_self_ns", "launches").rows() == [
        ("(unattributed: reason not recorded)", 8, 2),
        ("f", 2, 1),
    ]


def test_invalid_parents_are_ignored() -> None:
    found = profile_of_ops(
        (op("a", 0, 10, 1), op("b", 0, 10, 0), op("c", 0, 10, 2), op("d", 0, 10, 99), op("e", 0, 10, 1)),
        launch_of(4, GEMM, 5),
    )
    assert op_instances(found)["gpu_total_ns"].to_list() == [0, 0, 0, 0, 5]
    assert op_tree(found["ops"]).parent.tolist() == [-1] * 5


def two_sessions() -> Profile:
    """Return a session with ops, one without, and one whose GPU work is known as totals only."""
    first = profile_of_ops((op("f", 0, 50), op("aten::mm", 5, 40, 0)), launch_of(1, GEMM, 70), copy("HtoD", 30, op=0))
    second = make_profile(activities=[kernel(GEMM, 60), kernel(RELU, 40)])
    third = profile_of_ops((op("g", 0, 9),), summary=[summary_row("gpu", RELU, 3, 90, time_pct=100.0)])
    return merge_profiles([first, second, third])


def test_sessions_with_and_without_ops_are_listed_together() -> None:
    found = two_sessions()
    assert ops_spec(found) is RECORDED_OPS
    assert all_ops_by_name(found).select("session", "op", "gpu_self_ns", "time_pct", "op_source").rows() == [
        (2, "(unattributed: totals only)", 90, 100.0, None),
        (0, "aten::mm", 70, 70.0, "recorded"),
        (1, "gemm", 60, 60.0, "inferred"),
        (1, "activation", 40, 40.0, "inferred"),
        (0, "f", 30, 30.0, "recorded"),
        (2, "g", None, None, "recorded"),
    ]
    assert ops(found).rows() == all_ops_by_name(found).rows()
    assert inferred_ops(found)["session"].unique().to_list() == [1]
    alone = found.only_session(1)
    assert ops_spec(alone) is OPS
    assert ops(alone)["total_ns"].to_list() == [60, 40]
    # A session by itself says the same, though its ops do not begin at 0.
    for session in (0, 2):
        assert ops(found.only_session(session)).rows() == ops(found).filter(pl.col("session") == session).rows()
    totals = all_ops_by_name(found).group_by("session").agg(pl.col("gpu_self_ns").sum()).sort("session").rows()
    assert totals == [(0, 100), (1, 100), (2, 90)]


def test_kinds_of_work_add_up_and_follow_the_op_first() -> None:
    found = profile_of_ops(
        (op("aten::layer_norm", 0, 50), op("training step", 60, 40)),
        launch_of(0, RED, 5),
        launch_of(0, "[CUDA memcpy HtoD]", 3, kind="memcpy"),
        launch_of(1, RED, 2),
        launch_of(None, GEMM, 1, op_join="launch not recorded"),
    )
    assert gpu_time_by_op_type(found).select("op_type", "group", "calls", "total_ns").rows() == [
        ("layer norm", "normalization", 1, 5),
        ("memcpy HtoD", "memory", 1, 3),
        ("reduction", "reduction", 1, 2),
        ("gemm", "gemm", 1, 1),
    ]
    board = dashboard(found)
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
        # What not attributed to any op has launches, and no calls.
        ("(unattributed: launch not recorded)", 1, None, 1, None),
    ]
    # The name of the range says nothing, so it is what its kernels are.
    assert all_ops_by_name(found).select("op", "op_type", "group").rows() == [
        ("aten::layer_norm", "layer norm", "normalization, memory"),
        ("training step", "reduction", "reduction"),
        ("(unattributed: launch not recorded)", "gemm", "gemm"),
    ]
    rules = {row["name"]: row["rule"] for row in classified_work(found).to_dicts() if row["op"] != "aten::layer_norm"}
    assert all(rules.values())


def test_the_same_op_of_several_sessions_is_one_on_the_dashboard() -> None:
    one = profile_of_ops((op("aten::mm", 0, 50),), launch_of(0, GEMM, 5))
    two = profile_of_ops(
        (op("aten::mm", 0, 50),), launch_of(0, GEMM, 3), launch_of(0, "[CUDA memset]", 2, kind="memset")
    )
    board = dashboard(merge_profiles([one, two, make_profile(activities=[kernel(RELU, 10)])]))
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
    found = profile_of_ops(
        (
            op("layer1/Conv", 0, 9, op_type="Conv2D", direction="fprop", tc_eligible=True),
            op("layer1/Conv", 10, 9, op_type="Conv2D", direction="bprop", tc_eligible=True),
            op("AddmmBackward0", 20, 9),
        ),
        launch_of(0, "void kernel(float)", 5, uses_tensor_core=True),
        launch_of(0, "void other(float)", 5),
        launch_of(2, "void other(float)", 1, uses_tensor_core=False),
        launch_of(2, "[CUDA memset]", 1, kind="memset"),
    )
    columns = ("op", "op_type", "group", "direction", "tc_eligible", "uses_tensor_core")
    assert recorded_ops(found).select(columns).rows() == [
        ("layer1/Conv", "Conv2D", "convolution", "mixed", True, True),
        ("AddmmBackward0", "gemm", "gemm, memory", "bprop", True, False),
    ]


def test_op_types_sum_the_ops_of_a_type() -> None:
    found = op_types(linear())
    columns = ("op", "op_type", "group", "ops", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "cpu_self_ns")
    assert found.select(columns).rows() == [
        ("gemm", "gemm", "gemm", 2, 4, 820, 205, 0, 520, 150),
        ("activation", "activation", "activation", 1, 1, 100, 100, 100, 100, 30),
        ("(unattributed: launch not recorded)", None, "activation", None, None, 40, None, None, None, None),
        ("(unattributed: launched outside any op)", None, "reduction", None, None, 40, None, None, None, None),
        ("allocation", "allocation", "data movement", 1, 1, 0, 0, 0, 0, 5),
    ]
    assert op_types(two_sessions())["total_ns"].sum() == 290
    plain = make_profile(activities=[kernel(GEMM, 5)])
    assert op_types(plain).columns == found.columns


def test_ops_can_be_distinguished_by_their_shapes() -> None:
    found = profile_of_ops(
        (op("f", 0, 9, input_shapes="[[1]]"), op("f", 10, 9, input_shapes="[[2]]"), op("f", 20, 9)),
        launch_of(0, GEMM, 5),
        launch_of(1, GEMM, 3),
    )
    rows = recorded_by_name(found, "input_shapes").sort("gpu_self_ns", descending=True)
    assert rows.select("op", "input_shapes", "calls", "gpu_self_ns").rows() == [
        ("f", "[[1]]", 1, 5),
        ("f", "[[2]]", 1, 3),
        ("f", None, 1, 0),
    ]


def test_kernels_of_an_op_and_their_launches() -> None:
    found = linear()
    rows = recorded_op_kernels(found, session=0, op="aten::linear")
    columns = ("launched_by", "name", "calls", "total_ns", "time_pct", "op_type", "group")
    assert rows.select(columns).rows() == [
        ("aten::addmm", GEMM, 2, 800, 80.0, "gemm", "gemm"),
        ("aten::addmm", "[CUDA memset]", 1, 20, 2.0, "memset", "memory"),
    ]
    of_gemm: dict[str, Any] = {"session": 0, "kind": "kernel", "name": GEMM, "launched_by": "aten::addmm"}
    assert recorded_op_launches(found, **of_gemm, op="aten::linear")["duration_ns"].to_list() == [500, 300]
    assert recorded_op_launches(found, **of_gemm, op="aten::relu").is_empty()
    reason = "launched outside any op"
    rest = recorded_op_kernels(found, session=0, why_no_op=reason)
    assert rest.select("launched_by", "name", "calls", "total_ns").rows() == [(None, RED, 2, 40)]
    behind = recorded_op_launches(found, session=0, kind="kernel", name=RED, launched_by=None, why_no_op=reason)
    assert behind["duration_ns"].to_list() == [30, 10]
    totals = recorded_op_kernels(two_sessions(), session=2, why_no_op="totals only")
    assert totals.select("name", "calls", "total_ns", "launched_by").rows() == [(RELU, 3, 90, None)]
    assert recorded_op_kernels(found, session=0, op="aten::empty").is_empty()
    assert kernels_with_ops(found)["total_ns"].sum() == 1000


def test_variants_of_the_calls_of_an_op() -> None:
    found = profile_of_ops(
        (
            op("outer", 0, 100, group="model"),
            op("f", 1, 9, 0, input_shapes="[[1]]", dtype="float", stack="a.py(1);b.py(2)", direction="fprop"),
            op("f", 11, 9, 0, input_shapes="[[1]]", dtype="half", tid=2),
            op("f", 21, 9, input_shapes="[[2]]"),
            op("g", 22, 1, 3),
            op("FBackward0", 50, 9, forward=1),
        )
    )
    result = op_calls(found, session=0, op="f", limit=1)
    assert (result.input_shapes.frequent, result.input_shapes.others) == ((Value("[[1]]", 2),), 1)
    assert result.stack.frequent == (Value("a.py(1);b.py(2)", 1),)
    assert (result.parent.frequent, result.children.frequent) == ((Value("outer", 2),), (Value("g", 1),))
    assert (result.backward.frequent, result.forward.frequent) == ((Value("FBackward0", 1),), ())
    assert result.thread.frequent == (Value("1", 2),)
    assert op_calls(found, session=0, op="FBackward0").forward.frequent == (Value("f", 1),)
    assert op_calls(found, session=0, op="missing").dtype.frequent == ()


TREES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=40)
WORK = st.lists(st.tuples(st.integers(-1, 45), st.integers(0, 1000)), max_size=60)


@given(tree=TREES, work=WORK)
def test_parts_add_up_in_any_tree(tree: list[tuple[int, int, int]], work: list[tuple[int, int]]) -> None:
    # Every op but the first may lie in any op before it.
    rows = [
        op(f"op{name}", number, 10 * weight, above if above < number else None)
        for number, (above, name, weight) in enumerate(tree)
    ]
    found = profile_of_ops(rows, *(launch_of(None if by < 0 else by, GEMM, duration) for by, duration in work))
    instances = op_instances(found)
    linked = sum(duration for by, duration in work if 0 <= by < len(rows))
    own = instances["gpu_self_ns"].fill_null(0).to_list()
    assert sum(own) == linked
    roots = instances.filter(pl.col("parent").is_null())
    assert roots["gpu_total_ns"].fill_null(0).sum() == linked
    for row in instances.to_dicts():
        below = [other["op"] for other in instances.to_dicts() if row["op"] in _ancestors(rows, other["op"])]
        assert (row["gpu_total_ns"] or 0) == sum(own[number] for number in below)
    by_op = recorded_ops(found)
    assert by_op["gpu_self_ns"].fill_null(0).sum() == sum(duration for _by, duration in work)
    assert by_op["launches"].fill_null(0).sum() == len(work)
    assert work_by_op(found)["launches"].sum() == len(work)
    assert by_op["cpu_self_ns"].fill_null(0).sum() == roots["cpu_total_ns"].sum()
    assert gpu_time_by_op_type(found)["total_ns"].sum() == sum(duration for _by, duration in work)


def _ancestors(rows: list[dict[str, Any]], number: int) -> list[int]:
    """Return an op and all ops that it is nested in, found one by one."""
    chain = []
    at: int | None = number
    while at is not None:
        chain.append(at)
        at = rows[at]["parent"]
    return chain


@pytest.mark.parametrize("depth", [1, 300])
def test_deep_nesting_is_summed_all_the_way(depth: int) -> None:
    rows = [op(f"op{number}", number, 1000 - number, number - 1 if number else None) for number in range(depth)]
    found = op_instances(profile_of_ops(rows, launch_of(depth - 1, GEMM, 7)))
    assert found["gpu_total_ns"].to_list() == [7] * depth


def untimed() -> Profile:
    """Return two calls of linear: no launch of the first is timed, some of the second are."""
    return profile_of_ops(
        LINEAR,
        launch_of(1, GEMM, None, start_ns=1000),
        launch_of(2, RELU, 100, start_ns=2000),
        launch_of(4, GEMM, 300, start_ns=3000),
        launch_of(4, RED, None, start_ns=4000),
    )


def test_work_without_a_duration_is_counted_and_takes_an_unknown_time() -> None:
    found = op_instances(untimed())
    assert found.select("launches", "untimed_launches", "gpu_self_ns", "gpu_total_ns").rows() == [
        (0, 0, 0, None),
        (1, 1, None, None),
        (1, 0, 100, 100),
        (0, 0, 0, 300),
        (2, 1, 300, 300),
        (0, 0, 0, 0),
    ]
    own = self_times(untimed())
    assert own.select("gpu_ns", "gpu_busy_ns", "gpu_idle_ns").rows() == [
        (0, 0, 0),
        (None, None, None),
        (100, 100, 0),
        (0, 0, 0),
        (300, 300, None),
        (0, 0, 0),
    ]
    assert op_overheads(untimed())["gpu_idle_ns"].to_list() == [None, None, 0, None, None, 0]


def test_sums_count_the_launches_that_they_leave_out() -> None:
    columns = ("op", "calls", "launches", "untimed_launches", "gpu_self_ns", "gpu_avg_ns", "gpu_total_ns")
    assert recorded_ops(untimed()).select(columns).rows() == [
        ("aten::addmm", 2, 3, 2, 300, 300, 300),
        ("aten::relu", 1, 1, 0, 100, 100, 100),
        ("aten::linear", 2, 0, 0, 0, 0, 300),
        ("aten::empty", 1, 0, 0, 0, 0, 0),
    ]
    assert ops(linear())["untimed_launches"].to_list() == [0] * 6
    types = op_types(untimed()).filter(pl.col("total_ns") > 0).select("op_type", "total_ns", "avg_ns")
    assert types.rows() == [("gemm", 300, 100), ("activation", 100, 100)]


def test_sums_of_unknown_work_are_not_zero() -> None:
    profile = profile_of_ops((op("a", 0, 9), op("b", 10, 9), op("b", 20, 9)), launch_of(1, GEMM, None))
    found = recorded_ops(profile).sort("op")
    assert found.select("op", "launches", "untimed_launches", "gpu_self_ns", "gpu_total_ns").rows() == [
        ("a", 0, 0, 0, 0),
        ("b", 1, 1, None, None),
    ]
    tree = by_path(profile).select("node", "gpu_ns", "gpu_self_ns")
    assert tree.rows() == [("all", None, None), ("b", None, None), ("a", 0, 0)]
    summary = op_type_summary(profile)
    assert summary.select("op_type", "launches", "gpu_ns").rows() == [("unknown", 0, 0), ("gemm", 1, None)]


def test_types_and_trees_count_the_launches_that_their_times_leave_out() -> None:
    result = op_type_summary(untimed()).filter(pl.col("launches") > 0).select("op_type", "launches", "untimed_launches")
    assert result.rows() == [("gemm", 3, 2), ("activation", 1, 0)]
    nodes = by_path(untimed()).filter(pl.col("launches") > 0).select("node", "launches", "untimed_launches")
    assert nodes.rows() == [("all", 4, 2), ("aten::addmm", 3, 2), ("aten::relu", 1, 0)]
    shapes = by_shapes(untimed()).filter(pl.col("launches") > 0).select("op", "launches", "untimed_launches")
    assert shapes.rows() == [("aten::addmm", 3, 2), ("aten::relu", 1, 0)]
    # Of sessions without ops, too; where all durations are known there are none.
    inferred = make_profile(activities=[kernel(GEMM, 10), kernel(GEMM, None)])
    for rows in (op_type_summary(inferred), by_path(inferred).tail(1), by_shapes(inferred)):
        assert rows.select("launches", "untimed_launches").rows() == [(2, 1)]
    for rows in (op_type_summary(linear()), by_path(linear()), by_shapes(linear())):
        assert set(rows["untimed_launches"]) == {0}


def test_an_inner_call_of_equal_name_keeps_unknown_time() -> None:
    twice = (op("aten::norm", 0, 100), op("aten::norm", 10, 60, 0))
    found = recorded_ops(profile_of_ops(twice, launch_of(1, RELU, None)))
    assert found.select("calls", "launches", "untimed_launches", "gpu_self_ns").row(0) == (1, 1, 1, None)
    half = recorded_ops(profile_of_ops(twice, launch_of(1, RELU, None), launch_of(1, RELU, 5)))
    assert half.select("calls", "launches", "untimed_launches", "gpu_self_ns").row(0) == (1, 2, 1, 5)


def test_cpu_self_is_unknown_if_a_nested_op_has_no_duration() -> None:
    found = op_instances(profile_of_ops((op("a", 0, 100), op("b", 10, None, 0), op("c", 20, 5, 0))))
    assert found["cpu_self_ns"].to_list() == [None, None, 5]


def test_averages_over_several_names_are_of_the_launches_with_a_duration() -> None:
    gemms = (GEMM, "volta_sgemm_64x64_nn")
    work = [kernel(gemms[0], 40), kernel(gemms[0], None), kernel(gemms[1], 20), kernel(gemms[1], None)]
    found = inferred_ops(make_profile(activities=work))
    assert found.select("kernels", "calls", "timed_calls", "total_ns", "avg_ns").rows() == [(2, 4, 2, 60, 30)]
    board = dashboard(make_profile(activities=work)).ops
    assert board.select("launches", "total_ns", "avg_ns").rows() == [(4, 60, 30)]
    two = make_profile(activities=[*work, *({**row, "session": 1} for row in work)])
    assert dashboard(two).ops.select("launches", "total_ns", "avg_ns").rows() == [(8, 120, 30)]
    of_ops = profile_of_ops((op("a", 0, 9),), launch_of(0, GEMM, None), launch_of(0, GEMM, 40))
    assert kernels_with_ops(of_ops).select("calls", "total_ns", "avg_ns").rows() == [(2, 40, 40)]


def test_a_sum_of_calls_is_unknown_if_one_row_has_none() -> None:
    rows = [summary_row("gpu", GEMM, None, 40), summary_row("gpu", "volta_sgemm_64x64_nn", 3, 20)]
    assert inferred_ops(make_profile(summary=rows)).select("calls", "total_ns", "avg_ns").rows() == [(None, 60, None)]
    assert dashboard(make_profile(summary=rows)).split["calls"].to_list() == [None]


def training_ops() -> Profile:
    """Return a step: a module, its backward, a recomputed part, the optimizer and a hook; each op launches a kernel."""
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
    ]
    ops = [
        {"op": at, "name": name, "group": group or None, "direction": way, "forward": forward, "start_ns": 100 * at,
         "duration_ns": 50, "pid": 1, "tid": 1}
        for at, (name, group, way, forward, _) in enumerate(table)
    ]  # fmt: skip
    work = [kernel("k", row[-1], op=at, op_join="launch", start_ns=100 * at) for at, row in enumerate(table)]
    return make_profile(ops=ops, activities=[*work, kernel("x", 7, start_ns=2000, op_join="launch not recorded")])


def test_backward_is_placed_at_its_forward_op() -> None:
    tree = by_path(training_ops())
    rows = {row["path"]: tuple(row[name] for name in PASSES) for row in tree.iter_rows(named=True)}
    assert rows[""] == (13, 41, 10, 6, 12)
    assert rows["Net_0"] == (13, 26, 10, 0, 0)
    assert rows["Net_0/Linear_0"] == (10, 20, 10, 0, 0)
    assert rows["Net_0/aten::threshold_backward"] == (0, 6, 0, 0, 0)
    engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert rows[f"(autograd engine, no forward op)/{engine}"] == (0, 2, 0, 0, 0)
    assert rows["Optimizer.step#SGD.step"] == (0, 0, 0, 4, 0)
    assert rows["aten::copy_"] == (0, 0, 0, 0, 5)
    assert rows["(gradient clipping)"] == (0, 0, 0, 2, 0)
    hooks = "(DDP and FSDP hooks)"
    assert rows[hooks] == (0, 13, 0, 0, 0)
    assert rows[f"{hooks}/torch.distributed.ddp.reducer::copy_bucket_to_grad"] == (0, 2, 0, 0, 0)
    assert rows[f"{hooks}/FSDP::post_backward_reduce"] == (0, 3, 0, 0, 0)
    assert tree["gpu_self_ns"].sum() == 82


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
    tree, trains = by_path(profile), "bprop" in profile["ops"]["direction"].cast(pl.String).to_list()
    for grouping in (tree, by_caller(profile), by_type(profile)):
        assert grouping["gpu_self_ns"].sum() == grouping["gpu_ns"][0] == profile["activities"]["duration_ns"].sum()
        assert grouping["gpu_ns"][0] == ops_by_name(profile)["gpu_self_ns"].sum()
        assert grouping["launches"][0] == profile["activities"].height
        assert grouping.filter(pl.sum_horizontal(PASSES) != pl.col("gpu_ns")).is_empty() or not trains
        assert grouping.select(PASSES).head(1).rows() == tree.select(PASSES).head(1).rows()
    if trains:
        of_reducer = pl.col("group").cast(pl.String).str.contains("ddp.reducer::", literal=True).fill_null(False)
        backward = profile["ops"].filter((pl.col("direction") == "bprop") | of_reducer)["op"]
        launched = profile["activities"].filter(pl.col("op").is_in(backward.implode()))["duration_ns"].sum()
        assert tree["backward_gpu_ns"][0] == launched


def test_rows_get_the_columns_of_a_schema_in_its_order_and_types() -> None:
    schema = {"missing": pl.String(), "calls": pl.Int64(), "time_pct": pl.Float64()}
    rows = with_schema(pl.DataFrame({"time_pct": [50], "calls": [2], "more": ["x"]}), schema)
    assert rows.schema == schema
    assert rows.rows() == [(None, 2, 50.0)]
