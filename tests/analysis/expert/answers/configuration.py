"""Grids, blocks, registers and occupancy."""

from __future__ import annotations

from typing import Final

from tests.analysis.expert.answers.expected_answers import NAMES_ONLY, NO_DEVICE, SMALL, Answer
from tests.analysis.expert.profiles import (
    GEMM,
    HEALTHY,
    MS,
    SGEMM,
    US,
    launch,
    step_range,
    trace_of,
)
from tests.analysis.frames import kernel

STEPS_OF_10: Final = [step_range(n, n * 10 * MS, 10 * MS) for n in range(10)]

ANSWERS: Final = (
    Answer(
        "L1",
        trace_of(launch(0, MS, registers=255), launch(MS, MS, SGEMM, registers=255)),
        {"mean_pct": 12.5, "low_time_pct": 100.0, "low_kernels": 2},
        HEALTHY,
        NO_DEVICE,
        lacks="choose it with --gpu",
    ),
    Answer(
        "L2",
        trace_of(launch(0, MS, **SMALL)),
        {"kernels": 1, "time_pct": 100.0},
        HEALTHY,
        NO_DEVICE,
        more={"cost_ns": 750 * US},
    ),
    Answer("L3", trace_of(launch(0, MS, **SMALL)), {"kernels": 1, "time_pct": 100.0}, HEALTHY, NO_DEVICE),
    Answer(
        "L4",
        trace_of(launch(0, MS, grid_x=900)),
        {"kernels": 1},
        trace_of(launch(0, MS, grid_x=864)),
        NO_DEVICE,
        says="1.04 waves",
    ),
    Answer("L5", trace_of(launch(0, MS, block_x=48)), {"kernels": 1}, HEALTHY, NAMES_ONLY, more={"cost_ns": 250 * US}),
    Answer(
        "L6",
        trace_of(launch(0, MS, "solve", block_x=32)),
        {"kernels": 1},
        trace_of(launch(0, MS, block_x=32)),
        NO_DEVICE,
    ),
    Answer(
        "L7",
        trace_of(launch(0, MS, "solve", registers=255)),
        {"kernels": 1},
        trace_of(launch(0, MS, registers=255)),
        NO_DEVICE,
    ),
    Answer(
        "L8",
        trace_of(launch(0, 10 * MS), launch(90 * MS, 10 * MS)),
        {"sm_efficiency_pct": 20.0, "fill_pct": 100.0, "kernel_time_pct": 20.0},
        HEALTHY,
        NO_DEVICE,
        says="the GPU computes for 20% of the wall time, and grids reach 100% of the SMs",
    ),
    Answer("L9", trace_of(launch(0, MS, **SMALL)), {"achieved_pct": 3.125}, HEALTHY, NO_DEVICE),
    Answer(
        "L10",
        trace_of(*(launch(n * 10 * MS, (9 if n == 7 else 1) * MS, iteration=n) for n in range(10)), ranges=STEPS_OF_10),
        {"kernels": 1},
        # The second launch of each iteration has more to do.
        trace_of(
            *(launch(n * 10 * MS, MS, iteration=n) for n in range(10)),
            *(launch(n * 10 * MS + MS, 9 * MS, iteration=n) for n in range(10)),
            ranges=STEPS_OF_10,
        ),
        trace_of(*({**kernel(GEMM, MS), "start_ns": n * 2 * MS} for n in range(10)), ranges=STEPS_OF_10),
        more={"cost_ns": 8 * MS},
    ),
)
