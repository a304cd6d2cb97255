"""Precision, fusion and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.analysis.expert.answers.made import CALLS_ONLY, STEPS, Answer, chains, figures
from tests.analysis.expert.profiles import (
    ADD,
    GEMM,
    HEALTHY,
    MS,
    SESSION,
    SGEMM,
    US,
    run,
    traced,
)
from tests.analysis.frames import make_profile

if TYPE_CHECKING:
    from tui.model.profile import Profile


def multiplied(took_ns: int) -> Profile:
    """A product of 4096 x 4096 matrices in BF16 that took so long on an A100."""
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
    return traced(run(0, took_ns, op=0, op_join="launch"), ops=[op])


def inferred(**layers_us: int) -> Profile:
    """Layers of TensorRT with these times."""
    rows = [
        {"layer": name, "phase": "forward", "executor": "tensorrt", "time_ns": time * US, "measured": True}
        for name, time in layers_us.items()
    ]
    return make_profile(sessions=[{**SESSION, "format": "tensorrt-json", "tool": "trtexec"}], layers=rows)


ANSWERS: Final = (
    Answer(
        "P1",
        traced(run(0, 6 * MS, SGEMM), run(6 * MS, 4 * MS, ADD)),
        {"eligible_ns": 6 * MS, "using_ns": 0, "kernel_ns": 10 * MS},
        HEALTHY,
        make_profile(sessions=[SESSION], activities=[run(0, MS, "maxwell_sgemm_128x64_tn")]),
        more={"cost_ns": 3 * MS},
    ),
    Answer(
        "P2",
        traced(run(0, 6 * MS, SGEMM), run(6 * MS, 4 * MS, GEMM)),
        {"efficiency_pct": 40.0, "eligible_ns": 10 * MS, "using_ns": 4 * MS},
        HEALTHY,
        make_profile(sessions=[SESSION], activities=[run(0, MS, SGEMM)]),
    ),
    Answer(
        "P3",
        traced(run(0, 6 * MS, "volta_dgemm_128x64_nn"), run(6 * MS, 4 * MS, ADD)),
        {"time_ns": 6 * MS, "time_pct": 60.0},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "P4",
        traced(run(0, 2 * MS, "void nchwToNhwcKernel<float>(int)"), run(2 * MS, 8 * MS)),
        {"time_ns": 2 * MS, "time_pct": 20.0},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "P5",
        traced(run(0, MS, "redzone_checker"), *(run((n + 1) * MS, MS, SGEMM) for n in range(5))),
        {"kernels": 1, "time_ns": MS},
        HEALTHY,
    ),
    Answer(
        "P6",
        traced(run(0, MS, "implicit_convolve_sgemm"), tool_figures=figures(cudnn_benchmark_disabled=1)),
        {"disabled": 1.0, "convolutions": 1},
        traced(run(0, MS, "implicit_convolve_sgemm"), tool_figures=figures(cudnn_benchmark_disabled=0)),
        HEALTHY,
    ),
    Answer(
        "P7",
        traced(*(run(n * 20 * US, 10 * US, ADD) for n in range(6)), run(MS, 40 * US)),
        {"time_ns": 60 * US, "time_pct": 60.0, "launches": 6, "mean_ns": 10_000.0},
        HEALTHY,
        CALLS_ONLY,
        says="60% of GPU time: 6 launches of 10 µs on average",
    ),
    Answer(
        "P8",
        traced(
            *(run(n * 10 * US, 2 * US, "multi_tensor_apply_kernel_adam", iteration=n // 150) for n in range(300)),
            ranges=STEPS[:2],
        ),
        {"per_iteration": 150.0, "mean_ns": 2000.0, "iterations": 2},
        traced(
            *(run(n * MS, 2 * US, "multi_tensor_apply_kernel_adam", iteration=n) for n in range(3)), ranges=STEPS[:3]
        ),
        HEALTHY,
    ),
    Answer(
        "P9",
        traced(run(0, MS), tool_figures=figures(detect_anomaly=1)),
        {"modes": 1},
        HEALTHY,
        traced(run(0, MS)),
    ),
    Answer(
        "P10",
        traced(run(0, 6 * MS), run(6 * MS, 4 * MS, ADD)),
        {"time_pct": 60.0, "total_ns": 6 * MS, "calls": 1},
        traced(run(0, 5 * MS), run(6 * MS, 5 * MS, ADD)),
        CALLS_ONLY,
    ),
    Answer(
        "P11",
        chains(60 * US),
        {"kernels": 3, "repeats": 10, "chain_ns": 10 * 150 * US, "idle_ns": 10 * 120 * US, "busy_pct": 20.0},
        HEALTHY,
    ),
    Answer(
        "P12",
        traced(
            run(0, MS, "redzone_checker", iteration=0),
            *(run((n + 1) * MS, MS, SGEMM, grid_x=n + 1, iteration=n // 3) for n in range(15)),
        ),
        {"names": 1, "shapes": 12},
        # Each iteration has the same twelve.
        traced(
            run(0, MS, "redzone_checker", iteration=0),
            *(run((n + 1) * MS, MS, SGEMM, grid_x=n % 12 + 1, iteration=n // 12) for n in range(36)),
        ),
    ),
    Answer(
        "P13",
        traced(
            run(0, MS),
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
        traced(
            run(0, MS), ops=[{"op": 0, "name": "aten::mm", "start_ns": 0, "duration_ns": 1, "op_source": "recorded"}]
        ),
    ),
    Answer(
        "P14",
        multiplied(5 * MS),
        {"saved_pct": pytest.approx(87.4, abs=0.1), "covered_pct": 100.0},
        multiplied(500 * US),
        says="At 70% of the roof, ops would take 4.",
    ),
    Answer(
        "P15",
        inferred(conv=90, **{"Reformatting CopyNode for Input Tensor 0 to conv": 10}),
        {"layers": 1, "reformat_ns": 10 * US, "reformat_pct": 10.0},
        inferred(conv=96, **{"Reformatting CopyNode for Input Tensor 0 to conv": 4}),
        says="1 reformat layer takes 10% (10 of 100 µs) of the inference time, to convert the type or layout",
        lacks="no measured times of layers",
    ),
    Answer(
        "P16",
        inferred(conv=40, pool=30, fc=20, softmax=10),
        {"layers": 4, "slowest_pct": 40.0, "slowest_ns": 40 * US},
        inferred(**{f"conv{n}": 10 for n in range(10)}),
        says="`conv` takes 40% of the time of all layers (40 of 100 µs); the slowest 3 take 90%.",
        lacks="no measured times of layers",
    ),
)
