"""Memcpy and memset."""

from __future__ import annotations

from typing import Final

import pytest

from tests.analysis.expert.answers.expected_answers import CALLS_ONLY, MOSTLY_COPIES, STEPS, Answer
from tests.analysis.expert.profiles import (
    HEALTHY,
    MS,
    SESSION,
    US,
    call,
    launch,
    launch_with_call,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.frames import make_profile

ANSWERS: Final = (
    Answer(
        "T1",
        MOSTLY_COPIES,
        {"copy_ns": 30 * MS, "kernel_ns": 10 * MS, "copy_pct": 75.0, "kernel_per_copy": pytest.approx(1 / 3)},
        HEALTHY,
        CALLS_ONLY,
        says="Copies take 75% of GPU time: 1 copy of 30 ms.",
    ),
    Answer("T2", MOSTLY_COPIES, {"exposed_ns": 30 * MS, "exposed_pct": 75.0, "copy_ns": 30 * MS}, HEALTHY),
    Answer(
        "T3",
        MOSTLY_COPIES,
        {"overlap_ns": 0, "overlap_pct": 0.0, "copy_pct": 75.0},
        HEALTHY,
        says="0% of what could overlap.",
    ),
    Answer(
        "T4",
        trace_of(*(transfer(n * 5 * MS, 5 * MS, "HtoD" if n < 2 else "DtoH") for n in range(4))),
        {"overlap_ns": 0, "up_pct": 50.0, "down_pct": 50.0},
        trace_of(transfer(0, 10 * MS), transfer(0, 10 * MS, "DtoH", stream=8)),
    ),
    Answer(
        "T5",
        trace_of(transfer(0, 2 * MS, size=12 * MS), launch(0, MS)),
        {"rate": 6e9, "ceiling": 24e9, "of_ceiling_pct": 25.0},
        trace_of(transfer(0, 1 * MS, size=20 * MS), launch(0, MS)),
        make_profile(sessions=[SESSION], activities=[transfer(0, 2 * MS, size=12 * MS)]),
        says="25% of the 22.4 GiB/s typical for this GPU's link.",
        lacks="name the GPU with --gpu",
    ),
    Answer(
        "T6",
        trace_of(*(transfer(n * 10 * US, US, size=64) for n in range(150)), launch(0, MS)),
        {"tiny": 150, "copies": 150, "tiny_pct": 100.0, "tiny_ns": 150 * US},
        MOSTLY_COPIES,
        trace_of({**transfer(0, MS), "size_bytes": None}),
    ),
    Answer(
        "T7",
        with_calls(
            (
                transfer(0, 10 * MS, src_memory="pageable", dst_memory="device", correlation=1),
                call(0, 5 * MS, "cudaMemcpyAsync_v3020", correlation=1),
            )
        ),
        {"copies": 1, "copy_ns": 10 * MS},
        with_calls(
            (
                transfer(0, 10 * MS, src_memory="pinned", dst_memory="device", correlation=1),
                call(0, 5 * MS, "cudaMemcpyAsync_v3020", correlation=1),
            )
        ),
        MOSTLY_COPIES,
    ),
    Answer(
        "T8",
        with_calls((transfer(0, 10 * MS, correlation=1), call(0, 10 * MS, "cudaMemcpy", correlation=1))),
        {"calls": 1, "call_ns": 10 * MS, "share_pct": 100.0},
        HEALTHY,
        MOSTLY_COPIES,
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
        MOSTLY_COPIES,
    ),
    Answer(
        "T10",
        trace_of(*(transfer(n * 10 * MS, MS, iteration=n) for n in range(4)), ranges=STEPS[:4]),
        {"bytes": 8e6, "varies_pct": 0.0, "iterations": 4},
        trace_of(*(transfer(n * 10 * MS, MS, size=(n + 1) * 8 * MS, iteration=n) for n in range(4)), ranges=STEPS[:4]),
        MOSTLY_COPIES,
        says="copies 7.63 MiB to the GPU in 1 copy of the same sizes (4 ms in total)",
    ),
    Answer(
        "T11",
        with_calls(
            *(
                (
                    transfer(n * 10 * MS, US, "DtoH", 4, correlation=n),
                    call(n * 10 * MS, US, "cudaMemcpyAsync", correlation=n),
                )
                for n in range(4)
            ),
            launch_with_call(50 * MS, MS, 45 * MS, 5, 9),
            calls=tuple(call(n * 10 * MS + 2 * US, 3 * MS, "cudaStreamSynchronize") for n in range(4)),
            ranges=STEPS[:4],
        ),
        {"readbacks": 4, "per_iteration": 1.0, "wait_ns": 12 * MS},
        HEALTHY,
        MOSTLY_COPIES,
    ),
    Answer(
        "T12",
        trace_of(launch(0, 6 * MS), transfer(6 * MS, 4 * MS, "DtoD")),
        {"copy_ns": 4 * MS, "copy_pct": 40.0},
        MOSTLY_COPIES,
        CALLS_ONLY,
    ),
    Answer(
        "T13",
        trace_of(
            launch(0, 10 * MS),
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
