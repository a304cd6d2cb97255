"""Conversion of NVTX ranges to ops."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tui.correlation.iteration_ranges import mark_steps
from tui.correlation.launches import link_ops
from tui.loaders.nvtx_ops import RangeOps, ops_from_ranges
from tui.model.schema import OPS, RANGES, conform

SITE = "{'traceMarker': ['train.py:34', 'conv.py:446'], 'funcStack': '/<module>/Net::forward/Conv2d::forward/conv2d'}"
CALL = "{'mod': 'torch', 'op': 'conv2d', 'args': [{'name': '', 'type': 'tensor', 'shape': (1, 3), 'dtype': 'float16'}]}"


def ranges(
    *rows: tuple[str | None, int, int | None, int] | tuple[str | None, int, int | None, int, str],
) -> pl.DataFrame:
    """Return name, start, end, thread and perhaps domain of each range."""
    return conform(
        "ranges",
        pl.DataFrame(
            [
                {
                    "name": name,
                    "start_ns": start,
                    "duration_ns": None if end is None else end - start,
                    "pid": 1,
                    "tid": tid,
                    "domain": rest[0] if rest else None,
                }
                for name, start, end, tid, *rest in rows
            ],
            schema_overrides={"domain": pl.String, "name": pl.String, "duration_ns": pl.Int64},
        ),
    )


def ops_of_ranges(
    *rows: tuple[str | None, int, int | None, int] | tuple[str | None, int, int | None, int, str],
) -> RangeOps:
    return ops_from_ranges(mark_steps(ranges(*rows)).ranges)


def columns(result: RangeOps, *names: str) -> list[tuple[object, ...]]:
    return result.ops.select(pl.col(names)).rows()


def test_ops_of_pytorch_have_plain_names_parent_group_and_direction() -> None:
    result = ops_of_ranges(
        ("aten::linear, seq = 4, op_id = 2, sizes = [[2, 3], [4, 3], []], input_op_ids = [(1,0)]", 0, 100, 7),
        ("aten::addmm, seq = 5", 10, 90, 7),
        ("aten::empty", 20, 30, 7),
        ("aten::t", 200, 210, 7),
        ("autograd::engine::evaluate_function: AddmmBackward0", 300, 400, 8),
        ("AddmmBackward0, seq = 5", 310, 390, 8),
        ("aten::mm", 320, 330, 8),
    )
    assert result.ops.schema == OPS
    assert columns(result, "op", "name", "parent", "group", "direction", "forward") == [
        (0, "aten::linear", None, None, "fprop", None),
        (1, "aten::addmm", 0, "aten::linear", "fprop", None),
        (2, "aten::empty", 1, "aten::linear/aten::addmm", "fprop", None),
        (3, "aten::t", None, None, None, None),
        (4, "autograd::engine::evaluate_function: AddmmBackward0", None, None, "bprop", None),
        (5, "AddmmBackward0", 4, "autograd::engine::evaluate_function: AddmmBackward0", "bprop", 1),
        (6, "aten::mm", 5, "autograd::engine::evaluate_function: AddmmBackward0/AddmmBackward0", "bprop", None),
    ]
    assert columns(result, "input_shapes", "start_ns", "duration_ns", "pid", "tid", "op_source")[0] == (
        "[[2, 3], [4, 3], []]",
        0,
        100,
        1,
        7,
        "nvtx",
    )


def test_a_backward_op_belongs_to_the_last_forward_op_of_its_number() -> None:
    result = ops_of_ranges(
        ("dropout, seq = 69", 0, 10, 7),
        ("_fused_dropout, seq = 69", 2, 8, 7),
        ("FusedDropoutBackward, seq = 69", 20, 30, 8),
        # Ops in the backward pass have numbers of their own thread.
        ("mul, seq = 69", 22, 25, 8),
        ("FusedDropoutBackward, seq = 70", 40, 50, 8),
    )
    assert result.ops["forward"].to_list() == [None, None, 1, None, None]


def test_sequence_numbers_are_per_thread_and_process() -> None:
    rows = ranges(("mul, seq = 1", 0, 1, 7), ("add, seq = 1", 2, 3, 9), ("MulBackward0, seq = 1", 4, 5, 8))
    assert ops_from_ranges(rows).ops["forward"].to_list() == [None, None, None]
    two_processes = rows.with_columns(pid=pl.Series([1, 2, 1], dtype=pl.Int64))
    assert ops_from_ranges(two_processes).ops["forward"].to_list() == [None, None, 0]


def test_iterations_their_parents_and_unclosed_ranges_are_not_ops() -> None:
    result = ops_of_ranges(
        ("epoch 0", 0, 100, 7),
        ("iteration 0", 10, 40, 7),
        ("forward", 15, 20, 7),
        ("iteration 1", 50, 80, 7),
        ("forward", 55, None, 7),
        ("aten::mm", 60, 70, 8),
        (None, 61, 62, 8),
    )
    assert columns(result, "name", "parent", "group", "iteration") == [
        ("forward", None, None, 0),
        ("aten::mm", None, None, 1),
    ]
    assert result.ranges["depth"].to_list() == [0, 1, 2, 1, None, 0, 1]
    assert result.ranges.schema == RANGES


def test_wrapped_calls_get_stack_and_modules_of_the_call_site() -> None:
    result = ops_of_ranges(
        ('{"model_config": {"emit_nvtx": true}}', 0, 3, 7),
        (SITE, 10, 50, 7),
        (CALL, 11, 49, 7),
        ("aten::conv2d, seq = 0", 12, 48, 7),
        (SITE.replace("conv2d", "relu"), 60, 70, 7),
    )
    assert columns(result, "name", "parent", "group", "stack", "dtype", "input_shapes", "direction") == [
        (
            "torch.conv2d",
            None,
            "Net::forward/Conv2d::forward",
            "conv.py:446;train.py:34",
            "float16",
            "[[1, 3]]",
            "fprop",
        ),
        ("aten::conv2d", 0, "Net::forward/Conv2d::forward", "conv.py:446;train.py:34", None, None, "fprop"),
    ]


def test_library_calls_are_ops_only_outside_framework_ops() -> None:
    result = ops_of_ranges(
        ("nccl:all_reduce, op_id = 3", 0, 10, 7),
        ("ncclAllReduce", 1, 9, 7, "NCCL"),
        ("ncclAllReduce", 20, 30, 7, "NCCL"),
        ("train", 40, 50, 7),
        ("cublasSgemm_v2", 41, 45, 7),
        ("aten::mm", 60, 70, 7),
        ("conv1 + relu1", 61, 69, 7, "TensorRT"),
    )
    assert result.ops["name"].to_list() == [
        "nccl:all_reduce",
        "ncclAllReduce",
        "train",
        "cublasSgemm_v2",
        "aten::mm",
        "conv1 + relu1",
    ]


def test_activities_have_the_op_that_encloses_their_launch() -> None:
    result = ops_of_ranges(("b", 20, 30, 7), ("a", 0, 50, 7), ("c", 60, 70, 7))
    launches = pl.DataFrame({"launch_pid": [1, 1, 1], "launch_tid": [7, 7, 7], "launch_ns": [25, 45, 55]})
    assert result.ops["name"].to_list() == ["a", "b", "c"]
    assert link_ops(launches, result.ops, result.nesting)["op"].to_list() == [1, 0, None]


def test_ranges_without_a_thread_are_ops_only_if_no_range_has_one() -> None:
    rows = ranges(("load", 0, 50, 7), ("anywhere", 10, 90, 7)).with_columns(tid=pl.Series([7, None], dtype=pl.Int64))
    result = ops_from_ranges(rows)
    assert result.ops["name"].to_list() == ["load"]
    assert result.ranges["depth"].to_list() == [0, None]
    unknown = ops_from_ranges(rows.with_columns(tid=pl.lit(None, pl.Int64)))
    assert unknown.ops["name"].to_list() == ["load", "anywhere"]


def test_no_ranges_give_no_ops() -> None:
    result = ops_from_ranges(ranges(("never closed", 3, None, 7)))
    assert result.ops.is_empty()
    assert result.ops.schema == OPS
    assert result.ranges["name"].to_list() == ["never closed"]


def test_paths_are_limited_at_any_depth() -> None:
    depth = 300
    result = ops_of_ranges(*((f"range {start}", start, 1000 - start, 7) for start in range(depth)))
    assert result.ops.height == depth
    assert result.ops["parent"].to_list() == [None, *range(depth - 1)]
    groups = result.ops["group"].cast(pl.String)
    assert groups[2] == "range 0/range 1"
    assert groups[12] == groups[depth - 1] == "/".join(f"range {start}" for start in range(12))


names = st.sampled_from(
    ["iteration 1", "step", SITE, CALL, "aten::mm, seq = 1", "MmBackward0, seq = 1", "ncclSend", ""]
)


@given(st.lists(st.tuples(names, st.integers(0, 50), st.integers(0, 60), st.integers(1, 2))))
def test_parents_of_ops_are_earlier_enclosing_ops(rows: list[tuple[str, int, int, int]]) -> None:
    given_ranges = ranges(*((name, start, start + length, tid) for name, start, length, tid in rows))
    result = ops_from_ranges(mark_steps(given_ranges).ranges)
    ops = result.ops
    assert ops["op"].to_list() == list(range(ops.height))
    assert ops["start_ns"].is_sorted()
    assert ops.height <= given_ranges.height
    assert result.ranges.drop("depth", "iteration").equals(given_ranges.drop("depth", "iteration"))
    for row in ops.drop_nulls("parent").iter_rows(named=True):
        parent = ops.row(row["parent"], named=True)
        assert parent["op"] != row["op"]
        assert parent["tid"] == row["tid"]
        assert parent["start_ns"] <= row["start_ns"]
    for row in ops.drop_nulls("forward").iter_rows(named=True):
        assert ops.row(row["forward"], named=True)["start_ns"] <= row["start_ns"]
