"""Inferred op instances: consecutive launches of one type and direction, with IDs that match across iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import sample_path
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.ops.inferred_ops import inferred_instances
from tui.analysis.ops.op_instances import OUTSIDE, UNATTRIBUTED, by_instance, instances
from tui.analysis.ops.op_types import op_type_summary
from tui.loaders import registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.profile import Profile

GEMM, RELU, POOL = "volta_sgemm_128x32_nn", "void relu_kernel(float*)", "maxpool_bwd_nchw"


def load_with_iterations(path: str) -> Profile:
    profile, errors = registry.load((path,), format_in=None, on_progress=lambda *_args, **_more: True)
    assert profile is not None, errors
    return with_iterations(profile)


def profile_of_launches(*names: str | None, **fields: Any) -> Profile:
    """Return consecutive launches; None stands for an unclassified one."""
    work = [
        kernel(name or "qqq", 10, start_ns=100 * index, device=0, stream=7, **fields)
        for index, name in enumerate(names)
    ]
    return make_profile(activities=work)


def ids(profile: Profile) -> list[tuple[Any, ...]]:
    return inferred_instances(profile).select("op_id", "launches", "gpu_ns").rows()


def test_consecutive_launches_of_one_type_and_direction_are_one_op() -> None:
    assert ids(profile_of_launches(GEMM, GEMM, RELU, GEMM, POOL)) == [
        ("GEMM_1", 2, 20),
        ("ACTIVATION_1", 1, 10),
        ("GEMM_2", 1, 10),
        ("POOLING_1_BPROP", 1, 10),
    ]


def test_unclassified_launches_end_an_op_and_are_unattributed() -> None:
    profile = profile_of_launches(GEMM, None, GEMM)
    assert ids(profile) == [("GEMM_1", 1, 10), ("GEMM_2", 1, 10)]
    unattributed = instances(profile).filter(pl.col("op_source").is_null())
    assert unattributed.select("op", "launches", "gpu_ns").rows() == [(UNATTRIBUTED, 1, 10)]


def test_streams_do_not_interrupt_ops_of_other_streams() -> None:
    work = [
        kernel(GEMM, 10, start_ns=0, device=0, stream=7),
        kernel("ncclDevKernel_AllReduce", 90, start_ns=5, device=0, stream=9),
        kernel(GEMM, 10, start_ns=20, device=0, stream=7),
    ]
    rows = inferred_instances(make_profile(activities=work))
    assert rows.select("op_id", "stream", "launches", "gpu_ns").rows() == [
        ("GEMM_1", 7, 2, 20),
        ("COMMUNICATION_1", 9, 1, 90),
    ]


def test_idle_time_within_inferred_ops_is_unknown() -> None:
    work = [kernel(GEMM, 10, start_ns=0, stream=7), kernel(GEMM, 10, start_ns=60, stream=7)]
    profile = make_profile(activities=work)
    assert inferred_instances(profile).select("launches", "gpu_ns", "gpu_idle_ns").rows() == [(2, 20, None)]
    assert op_type_summary(profile).select("gpu_ns", "gpu_idle_ns", "gpu_idle_max_ns").rows() == [(20, None, None)]


def test_op_ids_restart_in_each_iteration() -> None:
    work = [
        kernel(name, 10, start_ns=100 * index, stream=7, iteration=iteration)
        for index, (name, iteration) in enumerate(
            [(GEMM, None), (GEMM, 0), (RELU, 0), (GEMM, 0), (GEMM, 1), (RELU, 1), (GEMM, 1)]
        )
    ]
    profile = make_profile(activities=work)
    rows = by_instance(profile).select("op_id", "calls", "total_ns", "same_kernels").sort("op_id").rows()
    assert rows == [
        (OUTSIDE.format("gemm"), 1, 10, None),
        ("ACTIVATION_1", 2, 20, True),
        ("GEMM_1", 2, 20, True),
        ("GEMM_2", 2, 20, True),
    ]


def test_an_op_with_different_kernels_in_another_iteration_is_marked() -> None:
    work = [
        kernel(name, 10, start_ns=100 * index, stream=7, iteration=index)
        for index, name in enumerate((GEMM, "sgemm_x"))
    ]
    assert by_instance(make_profile(activities=work))["same_kernels"].to_list() == [False]


def test_whether_an_op_of_a_single_call_repeats_its_kernels_is_unknown() -> None:
    names = [(GEMM, 0), (RELU, 0), (GEMM, 1)]
    work = [
        kernel(name, 10, start_ns=100 * index, stream=7, iteration=iteration)
        for index, (name, iteration) in enumerate(names)
    ]
    rows = by_instance(make_profile(activities=work)).select("op_id", "calls", "same_kernels").sort("op_id").rows()
    assert rows == [("ACTIVATION_1", 1, None), ("GEMM_1", 2, True)]


def test_recorded_ops_are_unchanged() -> None:
    profile = make_profile(
        ops=[{"op": 0, "name": "aten::mm", "op_id": "MM_1", "start_ns": 0, "duration_ns": 5, "op_source": "recorded"}],
        activities=[
            kernel(GEMM, 10, start_ns=0, op=0, op_join="launch"),
            kernel(RELU, 7, start_ns=20, op_join="launch not recorded"),
        ],
    )
    assert inferred_instances(profile).is_empty()
    assert by_instance(profile).select("op_id", "op", "op_source", "total_ns").rows() == [
        ("MM_1", "aten::mm", "recorded", 10),
        ("(unattributed: launch not recorded)", None, None, 7),
    ]


ALIGNED_LOGS = {"resnet50_training.nvprof.log": (5, 669), "gpt_cudagraph.nsys.sqlite.gz": (6, 1)}


@pytest.mark.parametrize("name", ALIGNED_LOGS)
def test_ops_are_aligned_across_iterations_of_real_logs(name: str) -> None:
    assert_ops_are_aligned(load_with_iterations(sample_path(name)), *ALIGNED_LOGS[name])


ALIGNED_CORPUS_LOGS = {
    "nvprof_rendered/resnet50_amp.gputrace.txt": (5, 669),
    "nvprof_rendered/ddp_rank0.gputrace.txt": (4, 349),
}


@pytest.mark.parametrize("path", ALIGNED_CORPUS_LOGS)
def test_ops_are_aligned_across_iterations_of_other_logs(path: str, corpus: Callable[[str], str]) -> None:
    assert_ops_are_aligned(load_with_iterations(corpus(path)), *ALIGNED_CORPUS_LOGS[path])


def assert_ops_are_aligned(profile: Profile, iterations: int, ops: int) -> None:
    """Check that every op is in every iteration, and launches the same kernels in all of them."""
    by_id = by_instance(profile).filter(pl.col("calls").is_not_null(), ~pl.col("op_id").str.starts_with("(outside"))
    assert by_id.height == ops
    assert set(by_id["calls"].to_list()) == {iterations}
    assert by_id["same_kernels"].all()


def convolution_at(name: str, start_ns: int, duration_ns: int, **fields: Any) -> dict[str, Any]:
    return kernel(name, duration_ns, start_ns=start_ns, device=0, stream=7, **fields)


def caffe_layer(position: int, layer: str, phase: str, time_ns: int) -> dict[str, Any]:
    return {"position": position, "layer": layer, "op_type": "Convolution", "phase": phase, "time_ns": time_ns,
            "measured": True, "executor": "caffe"}  # fmt: skip


FORWARD, BACKWARD = "implicit_convolve_sgemm_fprop", "cudnn_wgrad_alg0_engine"


def test_layers_have_the_names_in_the_log_of_caffe() -> None:
    instance_rows = inferred_instances(load_with_iterations(sample_path("caffe_conv1.nvprof.log")))
    op_types_by_layer = (
        instance_rows.group_by("layer")
        .agg(pl.col("op_type").cast(pl.String).unique().sort())
        .sort("layer", nulls_last=True)
    )
    assert op_types_by_layer.rows()[0] == (
        "conv1",
        ["convolution", "convolution backward bias", "convolution backward data", "convolution backward filter"],
    )
    assert "memset" in op_types_by_layer["op_type"][1].to_list()


def layers_of_launches(*names: str, time_ns: int = 100) -> list[str | None]:
    """Return the layers of launches, in a log of two iterations and a network of two convolutions."""
    work, start_ns = [], 0
    for iteration in range(2):
        for name in names:
            work.append(convolution_at(name, start_ns, 50, iteration=iteration))
            start_ns += 100
    layers = [caffe_layer(position, layer, phase, time_ns) for phase in ("forward", "backward")
              for position, layer in enumerate(("conv1", "conv2"))]  # fmt: skip
    return inferred_instances(make_profile(activities=work, layers=layers))["layer"].to_list()


def test_layers_are_matched_in_order_and_backward_in_reverse_order() -> None:
    steps = (FORWARD, RELU, FORWARD, RELU, BACKWARD, RELU, BACKWARD)
    assert layers_of_launches(*steps)[:7] == ["conv1", None, "conv2", None, "conv2", None, "conv1"]


def test_layers_are_not_guessed() -> None:
    # Three convolutions for two layers, or more GPU time than the layer took.
    assert set(layers_of_launches(FORWARD, RELU, FORWARD, RELU, FORWARD)) == {None}
    assert set(layers_of_launches(FORWARD, RELU, FORWARD, time_ns=20)) == {None}
