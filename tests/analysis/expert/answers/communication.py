"""Communication and ranks."""

from __future__ import annotations

from typing import Final

import pytest

from tests.analysis.expert.answers.made import CALLS_ONLY, TALKING, Answer, message, ranks
from tests.analysis.expert.profiles import (
    HEALTHY,
    MS,
    NCCL,
    US,
    run,
    traced,
)
from tui.analysis.expert.rule import Severity

ANSWERS: Final = (
    Answer("C1", TALKING, {"comm_ns": 10 * MS, "comm_pct": pytest.approx(100 / 3)}, HEALTHY, CALLS_ONLY),
    Answer("C2", TALKING, {"exposed_ns": 5 * MS, "exposed_pct": pytest.approx(100 / 6), "overlap_pct": 50.0}, HEALTHY),
    Answer(
        "C3",
        traced(run(0, 10 * MS), run(10 * MS, 10 * MS, NCCL)),
        {"streams": 1},
        TALKING,
    ),
    Answer(
        "C4",
        traced(run(0, 3 * MS), run(3 * MS, 10 * MS, NCCL)),
        {"ratio": 0.3, "compute_ns": 3 * MS, "comm_ns": 10 * MS},
        HEALTHY,
        severity=Severity.WARNING,
    ),
    Answer(
        "C5",
        ranks(10 * MS, 40 * MS),
        {"session": 1, "times": 3, "iterations": 3, "wait_ns": 90 * MS},
        ranks(10 * MS, 10 * MS),
        HEALTHY,
        says="Rank 1 is the straggler: it arrives last in 3 of 3 iterations, and rank 0 waits up to 90 ms in all",
    ),
    Answer(
        "C6",
        traced(
            run(0, MS), run(0, MS, device=1), ops=[{"op": 0, "name": "DataParallel.forward", "op_source": "recorded"}]
        ),
        {"gpus": 2},
        HEALTHY,
    ),
    Answer("C7", ranks(10 * MS, 40 * MS), {"spread_pct": 120.0, "ranks": 2}, ranks(10 * MS, 10 * MS), HEALTHY),
    Answer(
        "C8",
        traced(run(0, 20 * MS), *(message(n * MS, US, 1000) for n in range(3))),
        {"small": 3, "messages": 3, "small_pct": 100.0},
        traced(run(0, 20 * MS), *(message(n * MS, US, 10_000_000) for n in range(3))),
        TALKING,
    ),
    Answer(
        "C9",
        traced(
            *(message(n * 10 * MS, MS, 1000) for n in range(5)),
            run(50 * MS, 50 * MS),
            *(message(50 * MS + n * 5 * MS, 2 * MS, 1000) for n in range(5)),
        ),
        {"rate_pct": 50.0, "bytes": 4000},
        traced(
            *(message(n * 10 * MS, MS, 1000) for n in range(5)),
            run(50 * MS, 50 * MS),
            *(message(50 * MS + n * 5 * MS, MS, 1000) for n in range(5)),
        ),
        TALKING,
    ),
)
