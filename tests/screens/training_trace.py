"""A small trace of two training steps, as PyTorch's profiler writes it; every figure is made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.loaders.kineto.traces import PROCESS, Event, call, document, flow, gpu, kernel, op

if TYPE_CHECKING:
    from pathlib import Path

NAME = "train.pt.trace.json"
GEMM = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_functor<float>>(int, float*)"
STACK = "torch/nn/modules/linear.py(130): forward;model.py(21): forward;train.py(40): step;train.py(55): <module>"
BACKWARD_THREAD = PROCESS + 1
CONFIG = {"grid": [64, 1, 1], "block": [256, 1, 1], "registers_per_thread": 96, "shared_memory": 49152}


def write_training_trace(folder: Path) -> str:
    """Write the trace into a folder; its path."""
    path = folder / NAME
    path.write_bytes(document(training_events(), deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]))
    return str(path)


def training_events() -> list[Event]:
    """Its events."""
    return [item for step in range(2) for item in _step(step)]


def _step(step: int) -> list[Event]:
    """One step: linear and relu forward, linear backward, the loss copied back, and a kernel launched before."""
    at, first = 10_000.0 * (step + 1), 100 * step
    call_site = {"Call_stack": STACK, "Module_Hierarchy": "Linear_0"}
    linear = {"Input_Dims": [[64, 512], [1024, 512], [1024]], "Input_type": ["float", "float", "float"], **call_site}
    backward = {"tid": BACKWARD_THREAD, "Fwd_thread_id": 1, "Sequence_number": 5 + step}
    return [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 3}", "pid": PROCESS, "tid": PROCESS}
        | {"ts": at, "dur": 4_000.0, "args": {}},
        op("aten::linear", at + 100, 300, **linear),
        op("aten::t", at + 110, 20),
        op("aten::addmm", at + 140, 200, Sequence_number=5 + step, Fwd_thread_id=0, **linear),
        call(first + 1, at + 150, 10),
        flow("s", first + 50, at + 140),
        op("aten::relu", at + 420, 80, Input_Dims=[[64, 1024]], Input_type=["float"]),
        call(first + 2, at + 430, 8),
        op("autograd::engine::evaluate_function: AddmmBackward0", at + 600, 500, **backward),
        op("AddmmBackward0", at + 620, 450, **backward),
        flow("f", first + 50, at + 620, tid=BACKWARD_THREAD),
        op(
            "aten::mm", at + 640, 180, tid=BACKWARD_THREAD, Input_Dims=[[512, 64], [64, 1024]], Input_type=["float"] * 2
        ),
        call(first + 3, at + 660, 10, tid=BACKWARD_THREAD),
        op(
            "aten::mm",
            at + 840,
            180,
            tid=BACKWARD_THREAD,
            Input_Dims=[[64, 1024], [1024, 512]],
            Input_type=["float"] * 2,
        ),
        call(first + 4, at + 860, 10, tid=BACKWARD_THREAD),
        op("aten::item", at + 1_200, 900),
        op("aten::_local_scalar_dense", at + 1_210, 880),
        call(first + 5, at + 1_220, 12, name="cudaMemcpyAsync"),
        call(first + 6, at + 2_500, 9),
        kernel(first + 1, at + 170, 400, name=GEMM, **CONFIG),
        kernel(first + 2, at + 580, 60 + step, name=RELU, **CONFIG),
        kernel(first + 3, at + 700, 310, name=GEMM, **CONFIG),
        kernel(first + 4, at + 1_015, 290, name=GEMM, **CONFIG),
        gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", at + 1_400, 2, correlation=first + 5, bytes=4),
        kernel(first + 6, at + 2_520, 45, name="void my_own_kernel(float*)", **CONFIG),
        kernel(
            first + 7, at + 20, 30, name="void at::native::vectorized_elementwise_kernel<4, CopyFunctor>(int)", **CONFIG
        ),
    ]
