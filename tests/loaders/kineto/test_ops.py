"""The ops of a trace: parents, forward ops, directions, groups, stacks, types and shapes."""

from __future__ import annotations

import polars as pl
import pytest

from tests.loaders.kineto.traces import BASE_NS, PROCESS, call, event, flow, kernel, op, read, texts

ENGINE = 200
"""The thread of the autograd engine."""


def test_ops_nest_within_their_thread_and_have_a_group() -> None:
    profile = read(
        [
            op("aten::mm", 12, 4),
            op("aten::linear", 10, 10),
            op("aten::linear", 10, 10, tid=ENGINE),
            event("user_annotation", "forward", 5, 100),
            op("aten::relu", 30, 5),
        ]
    )
    assert texts(profile, "ops", "name") == ["aten::linear", "aten::linear", "aten::mm", "aten::relu"]
    assert profile["ops"].select("op", "start_ns", "duration_ns", "pid", "tid", "parent").rows() == [
        (0, 5000, 10000, PROCESS, PROCESS, None),
        (1, 5000, 10000, PROCESS, ENGINE, None),
        (2, 7000, 4000, PROCESS, PROCESS, 0),
        (3, 25000, 5000, PROCESS, PROCESS, None),
    ]
    assert texts(profile, "ops", "group") == ["forward", None, "forward/aten::linear", "forward"]
    assert texts(profile, "ops", "op_source") == ["recorded"] * 4
    assert profile["sessions"]["origin_ns"].to_list() == [BASE_NS + 5000]


def test_the_first_recorded_of_simultaneous_ops_encloses_the_other() -> None:
    inner = op("aten::_to_copy", 10, 10, External_id=6)
    profile = read([inner, op("aten::to", 10, 10, External_id=5)])
    assert texts(profile, "ops", "name") == ["aten::to", "aten::_to_copy"]
    assert profile["ops"]["parent"].to_list() == [None, 0]


def test_groups_do_not_contain_steps() -> None:
    steps = [event("user_annotation", f"ProfilerStep#{number}", 100 * number, 90) for number in (3, 4)]
    inner = [event("user_annotation", "batch", 100 * number + 5, 80) for number in (3, 4)]
    profile = read([*steps, *inner, *(op("aten::mm", 100 * number + 10, 10) for number in (3, 4))])
    assert texts(profile, "ops", "group") == ["batch", "batch"]
    assert profile["ops"]["iteration"].to_list() == [3, 4]
    assert profile["ranges"].select("iteration", "depth").rows() == [(3, 0), (None, 1), (4, 0), (None, 1)]


def test_modules_are_the_group_and_python_functions_the_stack() -> None:
    profile = read(
        [
            event("python_function", "train.py(7): <module>", 0, 100),
            event("python_function", "nn.Module: Net_0", 10, 80),
            event("python_function", "net.py(3): forward", 12, 70),
            event("python_function", "nn.Module: Linear_1", 20, 30),
            op("aten::linear", 25, 20),
            op("aten::mm", 30, 5),
            op("aten::ones", 95, 2),
            op("aten::zeros", 0, 2, tid=ENGINE, Call_stack="a.py(1): f;b.py(2): g;"),
        ]
    )
    assert dict(zip(texts(profile, "ops", "name"), texts(profile, "ops", "group"), strict=True)) == {
        "aten::linear": "Net_0/Linear_1",
        "aten::mm": "Net_0/Linear_1",
        "aten::ones": None,
        "aten::zeros": None,
    }
    assert dict(zip(texts(profile, "ops", "name"), texts(profile, "ops", "stack"), strict=True)) == {
        "aten::linear": "nn.Module: Linear_1;net.py(3): forward;nn.Module: Net_0;train.py(7): <module>",
        "aten::mm": "nn.Module: Linear_1;net.py(3): forward;nn.Module: Net_0;train.py(7): <module>",
        "aten::ones": "train.py(7): <module>",
        "aten::zeros": "a.py(1): f;b.py(2): g",
    }


def test_a_listed_module_hierarchy_is_reversed() -> None:
    profile = read([op("aten::mm", 0, 5, Module_Hierarchy="Linear_1;Net_0;")])
    assert texts(profile, "ops", "group") == ["Net_0/Linear_1"]


def test_backward_ops_have_a_forward_op_by_flow_or_sequence_number() -> None:
    profile = read(
        [
            op("aten::linear", 10, 10, Sequence_number=41, Fwd_thread_id=0),
            op("aten::addmm", 12, 5, Sequence_number=41, Fwd_thread_id=0),
            op("aten::relu", 30, 5, Sequence_number=42, Fwd_thread_id=0),
            op("aten::clamp_min", 31, 2),
            op(
                "autograd::engine::evaluate_function: ReluBackward0",
                50,
                20,
                tid=ENGINE,
                Sequence_number=42,
                Fwd_thread_id=1,
            ),
            op("ReluBackward0", 52, 10, tid=ENGINE, Sequence_number=42, Fwd_thread_id=1),
            op("aten::threshold_backward", 54, 5, tid=ENGINE),
            op(
                "autograd::engine::evaluate_function: AddmmBackward0",
                80,
                20,
                tid=ENGINE,
                Sequence_number=41,
                Fwd_thread_id=1,
            ),
            op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 110, 5, tid=ENGINE),
            op("aten::add_", 200, 5),
            flow("s", 9, 30),
            flow("f", 9, 52, tid=ENGINE),
        ]
    )
    names = texts(profile, "ops", "name")
    forward = [None if row is None else names[row] for row in profile["ops"]["forward"].to_list()]
    assert list(zip(names, texts(profile, "ops", "direction"), forward, strict=True)) == [
        ("aten::linear", "fprop", None),
        ("aten::addmm", "fprop", None),
        ("aten::relu", "fprop", None),
        ("aten::clamp_min", "fprop", None),
        ("autograd::engine::evaluate_function: ReluBackward0", "bprop", "aten::relu"),
        ("ReluBackward0", "bprop", "aten::relu"),
        ("aten::threshold_backward", "bprop", "aten::relu"),
        ("autograd::engine::evaluate_function: AddmmBackward0", "bprop", "aten::addmm"),
        ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "bprop", None),
        ("aten::add_", None, None),
    ]


def test_a_sequence_number_of_two_threads_gives_no_forward_op() -> None:
    profile = read(
        [
            op("aten::mul", 10, 5, Sequence_number=7, Fwd_thread_id=0),
            op("aten::div", 10, 5, tid=300, Sequence_number=7, Fwd_thread_id=0),
            op("MulBackward0", 50, 5, tid=ENGINE, Sequence_number=7, Fwd_thread_id=1),
        ]
    )
    assert profile["ops"]["forward"].to_list() == [None, None, None]


@pytest.mark.parametrize(
    ("reported", "dtype"),
    [
        (["c10::BFloat16", "float", "Scalar", "c10::BFloat16"], "bfloat16, float32"),
        (["long int", "", "ScalarList", "TensorList"], "int64"),
        (["c10::Float8_e8m0fnu"], "Float8_e8m0fnu"),
        (["Scalar", ""], None),
        ("junk", None),
        ([], None),
    ],
    ids=["two types", "lists are none", "a new type", "no tensor", "junk", "empty"],
)
def test_types_of_inputs(reported: object, dtype: str | None) -> None:
    assert texts(read([op("aten::mm", 0, 5, Input_type=reported)]), "ops", "dtype") == [dtype]


@pytest.mark.parametrize(
    ("reported", "shapes"),
    [
        ([[2, 3], []], "[[2, 3], []]"),
        ([[[2, 3], [4]], []], "[[[2, 3], [4]], []]"),
        ([[], []], None),
        (7, None),
    ],
    ids=["tensor and scalar", "tensor lists", "scalars", "junk"],
)
def test_shapes_of_inputs_in_both_spellings(reported: object, shapes: str | None) -> None:
    profile = read([op("a", 0, 5, Input_Dims=reported), op("b", 10, 5, Input_dims=reported)])
    assert texts(profile, "ops", "input_shapes") == [shapes, shapes]


def test_kernels_belong_to_the_innermost_op_and_the_step_of_their_launch() -> None:
    profile = read(
        [
            event("user_annotation", "ProfilerStep#8", 0, 50),
            event("user_annotation", "ProfilerStep#9", 60, 50),
            op("aten::linear", 10, 20),
            op("aten::mm", 12, 10),
            call(1, 14),
            call(2, 25),
            call(3, 70),
            kernel(1, 40),
            # It ran in the next step, and belongs to the one that launched it.
            kernel(2, 65),
            kernel(3, 80),
            kernel(4, 90),
        ]
    )
    assert profile["activities"].select("op", pl.col("op_join").cast(pl.String), "iteration").rows() == [
        (1, "launch", 8),
        (0, "launch", 8),
        (None, "launched outside any op", 9),
        (None, "launch not recorded", None),
    ]
    assert profile["sessions"]["iteration_source"].to_list() == ["PyTorch's ProfilerStep"]


def lost_launch(*, external_id: int, lost: int = 2, **metadata: object) -> list[tuple[int | None, str | None]]:
    """Return op and reason of two kernels with ids: the launch of one is recorded, that of the other is lost."""
    profile = read(
        [
            op("aten::mm", 10, 10, External_id=5),
            op("aten::add", 30, 10, External_id=6),
            call(1, 12),
            kernel(1, 50, External_id=5),
            kernel(lost, 60, External_id=external_id),
        ],
        **metadata,
    )
    return profile["activities"].select("op", pl.col("op_join").cast(pl.String)).rows()


def test_a_missing_launch_is_replaced_by_the_op_id() -> None:
    assert lost_launch(external_id=6) == [(0, "launch"), (1, "external id")]
    assert lost_launch(external_id=7) == [(0, "launch"), (None, "launch not recorded")]


def test_a_correlation_id_is_not_used_as_an_op_id() -> None:
    assert lost_launch(external_id=6, lost=6) == [(0, "launch"), (None, "launch not recorded")]


def test_unreliable_ids_are_never_used_to_join() -> None:
    assert lost_launch(external_id=6, baseTimeNanoseconds=None) == [(0, "launch"), (None, "launch not recorded")]


def test_ids_verified_by_all_launches_are_used_in_any_version() -> None:
    ops = [op("aten::mm", 10 * number, 5, External_id=100 + number) for number in range(1, 23)]
    launches = [call(number, 10 * number + 1) for number in range(1, 22)]
    kernels = [kernel(number, 500 + 10 * number, External_id=100 + number) for number in range(1, 23)]
    joins = texts(read([*ops, *launches, *kernels], baseTimeNanoseconds=None), "activities", "op_join")
    assert joins == ["launch"] * 21 + ["external id"]


def test_ids_that_contradict_the_launches_are_ignored() -> None:
    profile = read(
        [
            op("aten::mm", 10, 10, External_id=5),
            op("aten::add", 30, 10, External_id=6),
            call(1, 12),
            kernel(1, 50, External_id=6),
            kernel(2, 60, External_id=6),
        ]
    )
    assert texts(profile, "activities", "op_join") == ["launch", "launch not recorded"]


def test_all_kernels_of_a_graph_belong_to_the_op_that_launched_it() -> None:
    nodes = [kernel(1, 50 + number, 1, **{"graph node id": number, "graph id": 3}) for number in (1, 2, 3)]
    profile = read([op("replay", 10, 10), call(1, 12, name="cudaGraphLaunch"), *nodes])
    assert profile["activities"].select("op", "graph_node", "correlation").rows() == [(0, 1, 1), (0, 2, 1), (0, 3, 1)]
