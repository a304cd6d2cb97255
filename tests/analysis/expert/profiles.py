"""Small profiles that a rule finds something in, or nothing, or that it cannot tell from."""

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


def run(start: int, duration: int, name: str = GEMM, **more: Any) -> Rows:
    """A launch of a kernel that fills the GPU."""
    return kernel(name, duration, **{**SHAPE, "start_ns": start, "device": 0, "stream": 7, **more})


def moved(start: int, duration: int, direction: str = "HtoD", size: int = 8 * MS, **more: Any) -> Rows:
    """A copy."""
    return copy(direction, duration, **{"start_ns": start, "device": 0, "stream": 7, "size_bytes": size, **more})


def call(start: int, duration: int, name: str = "cudaLaunchKernel", **more: Any) -> Rows:
    """A CUDA call."""
    return {"name": name, "start_ns": start, "duration_ns": duration, "pid": 1, "tid": 1, **more}


def launched(start: int, duration: int, at: int, took: int, number: int, **more: Any) -> tuple[Rows, Rows]:
    """A launch and its call."""
    return run(start, duration, correlation=number, **more), call(at, took, correlation=number)


def step(number: int, start: int, duration: int, **more: Any) -> Rows:
    """A range that marks an iteration."""
    return {
        "name": f"step {number}", "start_ns": start, "duration_ns": duration, "iteration": number, "pid": 1, "tid": 1,
        **more,
    }  # fmt: skip


def traced(*activities: Rows, **frames: Any) -> Profile:
    """One session with these activities on an A100."""
    rows = {"sessions": [SESSION], "devices": [A100], "activities": list(activities), **frames}
    return make_profile(**{name: given for name, given in rows.items() if given})


def with_calls(*pairs: tuple[Rows, Rows], calls: tuple[Rows, ...] = (), **frames: Any) -> Profile:
    """Launches with their calls, and further calls."""
    return traced(*(work for work, _ in pairs), api_calls=[*(made for _, made in pairs), *calls], **frames)


SUMMED: Final = make_profile(summary=[summary_row("gpu", GEMM, 10, 10 * MS, avg_ns=MS, min_ns=MS, max_ns=MS)])
"""Totals alone."""

HEALTHY: Final = with_calls(
    *(launched(n * 1000 * US, 995 * US, n * 100 * US, 5 * US, n) for n in range(40)),
    ranges=[step(n, n * 10_000 * US, 10_000 * US) for n in range(4)],
)
"""A GPU that always has work, launched well ahead."""

MIXED: Final = make_profile(
    sessions=[SESSION, {**SESSION, "session": 1}],
    devices=[A100],
    activities=[moved(0, 30 * MS), run(30 * MS, 10 * MS), {**run(0, MS), "session": 1}],
    tool_findings=[{"tool": "DLProf", "problem": "No DALI ops detected", "recommendation": "Consider DALI"}],
)
"""Copies in one session, a kernel in another, and a finding of the tool."""
