"""Builders of small profiles for tests of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.analysis.frames import copy, kernel, make_profile, summary_row

if TYPE_CHECKING:
    from tui.model.profile import Profile

US: Final = 1_000
MS: Final = 1_000_000
S: Final = 1_000_000_000

GEMM: Final = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn"
SGEMM: Final = "ampere_sgemm_128x64_tn"
NCCL: Final = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ADD: Final = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
MUL: Final = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int)"
A100: Final = {
    "device": 0,
    "name": "NVIDIA A100-SXM4-40GB",
    "compute_capability": "8.0",
    "sm_count": 108,
    "memory_bandwidth": 1.555e12,
}
SHAPE: Final = {
    "grid_x": 8640, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1, "registers": 32,
    "static_shared_bytes": 0, "dynamic_shared_bytes": 0,
}  # fmt: skip
SESSION: Final = {"session": 0, "format": "nsys-sqlite", "tool": "Nsight Systems", "start_resolution_ns": 1}

Rows = dict[str, Any]


def launch(start: int, duration: int, name: str = GEMM, **fields: Any) -> Rows:
    """Return a launch of a kernel that fills the GPU."""
    return kernel(name, duration, **{**SHAPE, "start_ns": start, "device": 0, "stream": 7, **fields})


def transfer(start: int, duration: int, direction: str = "HtoD", size: int = 8 * MS, **fields: Any) -> Rows:
    """Return a copy."""
    return copy(direction, duration, **{"start_ns": start, "device": 0, "stream": 7, "size_bytes": size, **fields})


def call(start: int, duration: int, name: str = "cudaLaunchKernel", **fields: Any) -> Rows:
    """Return a CUDA call."""
    return {"name": name, "start_ns": start, "duration_ns": duration, "pid": 1, "tid": 1, **fields}


def launch_with_call(
    start: int, duration: int, call_start: int, call_duration: int, correlation: int, **fields: Any
) -> tuple[Rows, Rows]:
    """Return a launch and its call."""
    return launch(start, duration, correlation=correlation, **fields), call(
        call_start, call_duration, correlation=correlation
    )


def step_range(number: int, start: int, duration: int, **fields: Any) -> Rows:
    """Return a range that marks an iteration."""
    return {
        "name": f"step {number}", "start_ns": start, "duration_ns": duration, "iteration": number, "pid": 1, "tid": 1,
        **fields,
    }  # fmt: skip


def trace_of(*activities: Rows, **frames: Any) -> Profile:
    """Return a profile of one session with these activities on an A100."""
    rows = {"sessions": [SESSION], "devices": [A100], "activities": list(activities), **frames}
    return make_profile(**{name: frame for name, frame in rows.items() if frame})


def with_calls(*pairs: tuple[Rows, Rows], calls: tuple[Rows, ...] = (), **frames: Any) -> Profile:
    """Return a profile of launches with their calls, and further calls."""
    return trace_of(
        *(kernel_row for kernel_row, _ in pairs), api_calls=[*(call_row for _, call_row in pairs), *calls], **frames
    )


TOTALS: Final = make_profile(summary=[summary_row("gpu", GEMM, 10, 10 * MS, avg_ns=MS, min_ns=MS, max_ns=MS)])
"""Printed totals only."""

HEALTHY: Final = with_calls(
    *(launch_with_call(n * 1000 * US, 995 * US, n * 100 * US, 5 * US, n) for n in range(40)),
    ranges=[step_range(n, n * 10_000 * US, 10_000 * US) for n in range(4)],
)
"""A busy GPU with kernels launched well ahead."""

MIXED: Final = make_profile(
    sessions=[SESSION, {**SESSION, "session": 1}],
    devices=[A100],
    activities=[transfer(0, 30 * MS), launch(30 * MS, 10 * MS), {**launch(0, MS), "session": 1}],
    tool_findings=[{"tool": "DLProf", "problem": "No DALI ops detected", "recommendation": "Consider DALI"}],
)
"""Copies in one session, a kernel in another, and a finding of the recording tool."""
