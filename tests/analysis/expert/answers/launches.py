"""Waits, calls and launches."""

from __future__ import annotations

from typing import Final

import pytest

from tests.analysis.expert.answers.expected_answers import CALLS_ONLY, LONG_GAP, MOSTLY_COPIES, NO_DEVICE, STEPS, Answer
from tests.analysis.expert.profiles import (
    ADD,
    GEMM,
    HEALTHY,
    MS,
    US,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    with_calls,
)
from tests.analysis.frames import make_profile, summary_row

ANSWERS: Final = (
    Answer(
        "A1",
        with_calls(
            launch_with_call(0, 10 * MS, 0, 10, 1),
            launch_with_call(30 * MS, 10 * MS, 29 * MS, 9, 2),
            calls=(call(MS, 9 * MS, "cudaDeviceSynchronize"),),
        ),
        {"wait_ns": 9 * MS, "share_pct": 45.0, "calls": 1},
        HEALTHY,
        make_profile(summary=[summary_row("gpu", GEMM, 1, MS), summary_row("api", "cudaDeviceSynchronize", 2, 2 * MS)]),
        lacks="more than the GPU time",
    ),
    Answer(
        "A2",
        trace_of(*(launch(n * 20 * US, 5 * US, ADD) for n in range(9)), launch(180 * US, 10 * US)),
        {"short": 9, "launches": 10, "short_pct": 90.0, "time_pct": pytest.approx(100 * 45 / 55)},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "A3",
        with_calls(*(launch_with_call(n * MS, 2 * US, n * MS - 9 * US, 6 * US, n) for n in range(1, 5))),
        {"launches": 4, "bound": 4, "bound_pct": 100.0},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "A4",
        with_calls(launch_with_call(0, MS, 0, 60 * US, 1), launch_with_call(2 * MS, MS, 2 * MS - 10 * US, 5 * US, 2)),
        {"slow": 1, "calls": 2, "slow_pct": 50.0, "slow_ns": 60 * US},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "A5",
        with_calls(launch_with_call(0, MS, 0, 10, 1), launch_with_call(5 * MS, MS, MS, 10 * US, 2)),
        {"late": 1, "launches": 2, "late_pct": 50.0, "late_ns": 5 * MS - MS - 10 * US},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "A6",
        with_calls(*(launch_with_call(10 * MS + n * MS, MS, n * US, 500, n) for n in range(1500))),
        {"waiting": 1500},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "A7",
        trace_of(*(launch(n * 20 * US, 10 * US, ADD) for n in range(5)), launch(MS, 20 * US)),
        {"runs": 1, "launches": 5, "time_ns": 50 * US},
        LONG_GAP,
    ),
    Answer(
        "A8",
        with_calls(
            launch_with_call(0, MS, 0, 10, 1),
            launch_with_call(30 * MS, MS, 29 * MS, 9, 2),
            calls=tuple(call(n * 10 * MS + MS, 2 * MS, "cudaMalloc") for n in range(4)),
            ranges=STEPS[:4],
        ),
        {"calls": 3, "per_iteration": 1.0, "call_ns": 6 * MS, "share_pct": 20.0},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "A9",
        with_calls(
            launch_with_call(0, MS, 0, 10, 1),
            launch_with_call(9 * MS, MS, 8 * MS, 9, 2),
            calls=(call(2 * MS, 5 * MS, "cuModuleLoadDataEx"),),
        ),
        {"load_ns": 5 * MS, "share_pct": 50.0},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "A10",
        make_profile(
            summary=[
                summary_row("api", "cudaFree", 4, 90 * MS, avg_ns=22 * MS, max_ns=89 * MS, min_ns=US),
                summary_row("api", "cudaLaunch", 100, 10 * MS, avg_ns=100 * US, max_ns=200 * US, min_ns=US),
            ]
        ),
        {"api_pct": 90.0, "calls": 4, "max_ns": 89 * MS},
        HEALTHY,
        LONG_GAP,
        says="CUDA initialization: `cudaFree` takes 90 ms in 4 calls, 90% of the API time. The longest takes 89 ms.",
        more={"cost_ns": 90 * MS},
    ),
    Answer("A11", MOSTLY_COPIES, {"gpus": 1, "one_stream": 1}, HEALTHY),
    Answer(
        "A12",
        trace_of(launch(0, MS, **{"grid_x": 27}), launch(MS, MS, grid_x=27, stream=8)),
        {"together_pct": 0.0, "fill_pct": 25.0, "streams": 2},
        HEALTHY,
        NO_DEVICE,
    ),
    Answer(
        "A13",
        with_calls(
            *(launch_with_call(n * MS, MS, n * MS, 10, n) for n in range(4)),
            calls=tuple(call(n * MS + 20, 30, "cudaDeviceSynchronize") for n in range(4)),
        ),
        {"launches": 4, "followed_pct": 100.0},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "A14",
        trace_of(launch(0, MS), ranges=[{**step_range(0, 0, 5 * MS), "name": "gc"}]),
        {"collections": 1, "collect_ns": 5 * MS},
        trace_of(launch(0, MS), ranges=[{**step_range(0, 0, 5 * US), "name": "gc"}]),
    ),
)
