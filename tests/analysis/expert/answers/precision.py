"""Precision, fusion and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.analysis.expert.answers.expected_answers import CALLS_ONLY, STEPS, Answer, dlprof_figures, repeated_chains
from tests.analysis.expert.profiles import (
    ADD,
    GEMM,
    HEALTHY,
    MS,
    MUL,
    SESSION,
    SGEMM,
    US,
    launch,
    trace_of,
)
from tests.analysis.frames import make_profile

if TYPE_CHECKING:
    from tui.model.profile import Profile


def matrix_product(duration_ns: int) -> Profile:
    """Return a product of 4096 x 4096 matrices in BF16 with this duration on an A100."""
    op = {
        "op": 0,
        "name": "aten::mm",
        "start_ns": 0,
        "duration_ns": 10,
        "pid": 1,
        "tid": 1,
        "input_shapes": "[[4096, 4096], [4096, 4096]]",
        "input_types": '["bfloat16", "bfloat16"]',
        "op_source": "recorded",
    }
    return trace_of(launch(0, duration_ns, op=0, op_join="launch"), ops=[op])


def tensorrt_layers(**layers_us: int) -> Profile:
    """Return layers of TensorRT with these times."""
    rows = [
        {"layer": name, "phase": "forward", "executor": "tensorrt", "time_ns": time * US, "measured": True}
        for name, time in layers_us.items()
    ]
    return make_profile(sessions=[{**SESSION, "format": "tensorrt-json", "tool": "trtexec"}], layers=rows)


def measured(kernels: dict[str, tuple[float, float, float | None, int]]) -> Profile:
    """Return kernels that Nsight Compute measured: SM, memory and DRAM throughput in percent, and duration.

    None is a metric that was not collected.
    """
    names = (
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("gpu__time_duration.sum", "ns"),
    )
    rows = [
        {"kernel": kernel, "metric": metric, "unit": unit, "avg": float(value), "invocations": 1}
        for kernel, values in kernels.items()
        for (metric, unit), value in zip(names, values, strict=True)
        if value is not None
    ]
    stall = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    rows += [{"kernel": kernel, "metric": stall, "avg": 2.0, "invocations": 1} for kernel in kernels]
    return make_profile(sessions=[{**SESSION, "format": "ncu-csv", "tool": "Nsight Compute"}], metrics=rows)


def efficiencies(**kernels: dict[str, float]) -> Profile:
    """Return kernels whose efficiencies nvprof measured, in percent."""
    rows = [
        {"kernel": kernel, "metric": f"{metric}_efficiency", "unit": "%", "avg": value, "invocations": 3}
        for kernel, values in kernels.items()
        for metric, value in values.items()
    ]
    return make_profile(sessions=[{**SESSION, "format": "nvprof-text", "tool": "nvprof"}], metrics=rows)


ANSWERS: Final = (
    Answer(
        "P1",
        trace_of(launch(0, 6 * MS, SGEMM), launch(6 * MS, 4 * MS, ADD)),
        {"eligible_ns": 6 * MS, "using_ns": 0, "kernel_ns": 10 * MS},
        HEALTHY,
        make_profile(sessions=[SESSION], activities=[launch(0, MS, "maxwell_sgemm_128x64_tn")]),
        more={"cost_ns": 3 * MS},
    ),
    Answer(
        "P2",
        trace_of(launch(0, 6 * MS, SGEMM), launch(6 * MS, 4 * MS, GEMM)),
        {"efficiency_pct": 40.0, "eligible_ns": 10 * MS, "using_ns": 4 * MS},
        HEALTHY,
        make_profile(sessions=[SESSION], activities=[launch(0, MS, SGEMM)]),
    ),
    Answer(
        "P3",
        trace_of(launch(0, 6 * MS, "volta_dgemm_128x64_nn"), launch(6 * MS, 4 * MS, ADD)),
        {"time_ns": 6 * MS, "time_pct": 60.0},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "P4",
        trace_of(launch(0, 2 * MS, "void nchwToNhwcKernel<float>(int)"), launch(2 * MS, 8 * MS)),
        {"time_ns": 2 * MS, "time_pct": 20.0},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "P5",
        trace_of(launch(0, MS, "redzone_checker"), *(launch((n + 1) * MS, MS, SGEMM) for n in range(5))),
        {"kernels": 1, "time_ns": MS},
        HEALTHY,
    ),
    Answer(
        "P6",
        trace_of(launch(0, MS, "implicit_convolve_sgemm"), tool_figures=dlprof_figures(cudnn_benchmark_disabled=1)),
        {"disabled": 1.0, "convolutions": 1},
        trace_of(launch(0, MS, "implicit_convolve_sgemm"), tool_figures=dlprof_figures(cudnn_benchmark_disabled=0)),
        HEALTHY,
    ),
    Answer(
        "P7",
        trace_of(*(launch(n * 20 * US, 10 * US, (ADD, MUL)[n % 2]) for n in range(6)), launch(MS, 40 * US)),
        {"time_ns": 60 * US, "time_pct": 60.0, "launches": 6, "mean_ns": 10_000.0},
        HEALTHY,
        CALLS_ONLY,
        says="60% of GPU time: 6 launches of 10 µs on average",
    ),
    Answer(
        "P8",
        trace_of(
            *(launch(n * 10 * US, 2 * US, "multi_tensor_apply_kernel_adam", iteration=n // 150) for n in range(300)),
            ranges=STEPS[:2],
        ),
        {"per_iteration": 150.0, "mean_ns": 2000.0, "iterations": 2},
        trace_of(
            *(launch(n * MS, 2 * US, "multi_tensor_apply_kernel_adam", iteration=n) for n in range(3)), ranges=STEPS[:3]
        ),
        HEALTHY,
    ),
    Answer(
        "P9",
        trace_of(launch(0, MS), tool_figures=dlprof_figures(detect_anomaly=1)),
        {"modes": 1},
        HEALTHY,
        trace_of(launch(0, MS)),
    ),
    Answer(
        "P10",
        trace_of(launch(0, 6 * MS), launch(6 * MS, 4 * MS, ADD)),
        {"time_pct": 60.0, "total_ns": 6 * MS, "calls": 1},
        trace_of(launch(0, 5 * MS), launch(6 * MS, 5 * MS, ADD)),
        CALLS_ONLY,
    ),
    Answer(
        "P11",
        repeated_chains(60 * US),
        {"kernels": 3, "repeats": 10, "chain_ns": 10 * 150 * US, "idle_ns": 10 * 120 * US, "busy_pct": 20.0},
        HEALTHY,
    ),
    Answer(
        "P12",
        trace_of(
            launch(0, MS, "redzone_checker", iteration=0),
            *(launch((n + 1) * MS, MS, SGEMM, grid_x=n + 1, iteration=n // 3) for n in range(15)),
        ),
        {"names": 1, "shapes": 12},
        # Each iteration has the same twelve.
        trace_of(
            launch(0, MS, "redzone_checker", iteration=0),
            *(launch((n + 1) * MS, MS, SGEMM, grid_x=n % 12 + 1, iteration=n // 12) for n in range(36)),
        ),
    ),
    Answer(
        "P13",
        trace_of(
            launch(0, MS),
            ops=[
                {
                    "op": n,
                    "name": "SyncBatchNorm",
                    "start_ns": n,
                    "duration_ns": 1,
                    "iteration": 0,
                    "op_source": "recorded",
                }
                for n in range(25)
            ],
        ),
        {"ops": 25, "per_iteration": 25.0},
        trace_of(
            launch(0, MS), ops=[{"op": 0, "name": "aten::mm", "start_ns": 0, "duration_ns": 1, "op_source": "recorded"}]
        ),
    ),
    Answer(
        "P14",
        matrix_product(5 * MS),
        {"saved_pct": pytest.approx(87.4, abs=0.1), "covered_pct": 100.0},
        matrix_product(500 * US),
        says="At 70%, all ops would take 4.",
    ),
    Answer(
        "P15",
        tensorrt_layers(conv=90, **{"Reformatting CopyNode for Input Tensor 0 to conv": 10}),
        {"layers": 1, "reformat_ns": 10 * US, "reformat_pct": 10.0},
        tensorrt_layers(conv=96, **{"Reformatting CopyNode for Input Tensor 0 to conv": 4}),
        says="1 reformat layer takes 10% (10 of 100 µs) of the inference time, to convert the type or layout of "
        "tensors. It is `Reformatting",
        lacks="no measured times of layers",
    ),
    Answer(
        "P16",
        tensorrt_layers(conv=40, pool=30, fc=20, softmax=10),
        {"layers": 4, "slowest_pct": 40.0, "slowest_ns": 40 * US},
        tensorrt_layers(**{f"conv{n}": 10 for n in range(10)}),
        says="`conv` takes 40% of the time of all layers (40 of 100 µs); the slowest 3 take 90%.",
        lacks="no measured times of layers",
    ),
    Answer(
        "P17",
        measured({"gemm": (30, 80, 79, 3 * MS), "relu": (90, 10, 5, MS)}),
        {"sm_pct": 30.0, "memory_pct": 80.0, "dram_pct": 79.0},
        None,
        says="`gemm` is limited by memory: compute throughput is 30% of the peak, memory "
        "throughput 80%. Its warps stall mostly on `long scoreboard`.",
        lacks="no metrics",
    ),
    Answer(
        "P18",
        efficiencies(
            # 0 is written for a kernel without such accesses.
            solve={"gld": 24.04, "gst": 5.54, "shared": 0.0, "branch": 10.0},
            advect={"warp_execution": 49.9, "gld": 50.0},
            volta_sgemm_128x64_nt={"gld": 3.0},
        ),
        {"lowest_pct": 5.54, "kernels": 2},
        efficiencies(solve={"gld": 50.0, "shared": 0.0}, volta_sgemm_128x64_nt={"gld": 3.0}),
        says="`solve` has low efficiency: global stores 5.5%, global loads 24%. 1 more kernel has less than 50%.",
        lacks="no metrics",
    ),
)
