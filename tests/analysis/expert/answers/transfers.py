"""Memcpy and memset."""

from __future__ import annotations

from typing import Final

import pytest

from tests.analysis.expert.answers.made import AMONG_COPIES, CALLS_ONLY, STEPS, Answer
from tests.analysis.expert.profiles import (
    HEALTHY,
    MS,
    SESSION,
    US,
    call,
    launched,
    moved,
    run,
    traced,
    with_calls,
)
from tests.analysis.frames import make_profile

ANSWERS: Final = (
    Answer(
        "T1",
        AMONG_COPIES,
        {"copy_ns": 30 * MS, "kernel_ns": 10 * MS, "copy_pct": 75.0, "kernel_per_copy": pytest.approx(1 / 3)},
        HEALTHY,
        CALLS_ONLY,
        says="Copies take 75% of GPU time: 1 copy of 30 ms.",
    ),
    Answer("T2", AMONG_COPIES, {"exposed_ns": 30 * MS, "exposed_pct": 75.0, "copy_ns": 30 * MS}, HEALTHY),
    Answer(
        "T3",
        AMONG_COPIES,
        {"overlap_ns": 0, "overlap_pct": 0.0, "copy_pct": 75.0},
        HEALTHY,
        says="0% of what could overlap.",
    ),
    Answer(
        "T4",
        traced(*(moved(n * 5 * MS, 5 * MS, "HtoD" if n < 2 else "DtoH") for n in range(4))),
        {"overlap_ns": 0, "up_pct": 50.0, "down_pct": 50.0},
        traced(moved(0, 10 * MS), moved(0, 10 * MS, "DtoH", stream=8)),
    ),
    Answer(
        "T5",
        traced(moved(0, 2 * MS, size=12 * MS), run(0, MS)),
        {"rate": 6e9, "ceiling": 24e9, "of_ceiling_pct": 25.0},
        traced(moved(0, 1 * MS, size=20 * MS), run(0, MS)),
        make_profile(sessions=[SESSION], activities=[moved(0, 2 * MS, size=12 * MS)]),
        says="25% of the 22.4 GiB/s typical for this GPU's link.",
        lacks="name the GPU with --gpu",
    ),
    Answer(
        "T6",
        traced(*(moved(n * 10 * US, US, size=64) for n in range(150)), run(0, MS)),
        {"tiny": 150, "copies": 150, "tiny_pct": 100.0, "tiny_ns": 150 * US},
        AMONG_COPIES,
        traced({**moved(0, MS), "size_bytes": None}),
    ),
    Answer(
        "T7",
        with_calls(
            (
                moved(0, 10 * MS, src_memory="pageable", dst_memory="device", correlation=1),
                call(0, 5 * MS, "cudaMemcpyAsync_v3020", correlation=1),
            )
        ),
        {"copies": 1, "copy_ns": 10 * MS},
        with_calls(
            (
                moved(0, 10 * MS, src_memory="pinned", dst_memory="device", correlation=1),
                call(0, 5 * MS, "cudaMemcpyAsync_v3020", correlation=1),
            )
        ),
        AMONG_COPIES,
    ),
    Answer(
        "T8",
        with_calls((moved(0, 10 * MS, correlation=1), call(0, 10 * MS, "cudaMemcpy", correlation=1))),
        {"calls": 1, "call_ns": 10 * MS, "share_pct": 100.0},
        HEALTHY,
        AMONG_COPIES,
    ),
    Answer(
        "T9",
        with_calls(
            (
                {
                    "kind": "memset",
                    "name": "[CUDA memset]",
                    "start_ns": 0,
                    "duration_ns": MS,
                    "device": 0,
                    "size_bytes": 8,
                    "dst_memory": "pinned",
                    "correlation": 1,
                },
                call(0, MS, "cudaMemset", correlation=1),
            ),
        ),
        {"sets": 1, "set_ns": MS},
        HEALTHY,
        AMONG_COPIES,
    ),
    Answer(
        "T10",
        traced(*(moved(n * 10 * MS, MS, iteration=n) for n in range(4)), ranges=STEPS[:4]),
        {"bytes": 8e6, "varies_pct": 0.0, "iterations": 4},
        traced(*(moved(n * 10 * MS, MS, size=(n + 1) * 8 * MS, iteration=n) for n in range(4)), ranges=STEPS[:4]),
        AMONG_COPIES,
        says="uploads 7.63 MiB in 1 copy of the same sizes: 4 ms in all",
    ),
    Answer(
        "T11",
        with_calls(
            *(
                (
                    moved(n * 10 * MS, US, "DtoH", 4, correlation=n),
                    call(n * 10 * MS, US, "cudaMemcpyAsync", correlation=n),
                )
                for n in range(4)
            ),
            launched(50 * MS, MS, 45 * MS, 5, 9),
            calls=tuple(call(n * 10 * MS + 2 * US, 3 * MS, "cudaStreamSynchronize") for n in range(4)),
            ranges=STEPS[:4],
        ),
        {"readbacks": 4, "per_iteration": 1.0, "wait_ns": 12 * MS},
        HEALTHY,
        AMONG_COPIES,
    ),
    Answer(
        "T12",
        traced(run(0, 6 * MS), moved(6 * MS, 4 * MS, "DtoD")),
        {"copy_ns": 4 * MS, "copy_pct": 40.0},
        AMONG_COPIES,
        CALLS_ONLY,
    ),
    Answer(
        "T13",
        traced(
            run(0, 10 * MS),
            {
                "kind": "um",
                "name": "[Unified Memory GPU page faults]",
                "start_ns": 0,
                "duration_ns": 5 * MS,
                "device": 0,
            },
        ),
        {"fault_ns": 5 * MS, "moved_ns": 0, "share_pct": 50.0},
        HEALTHY,
    ),
)
