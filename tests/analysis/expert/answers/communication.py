"""Communication and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.analysis.expert.answers.expected_answers import (
    CALLS_ONLY,
    PARTLY_HIDDEN_COLLECTIVE,
    Answer,
    profile_of_ranks,
    sized_collective,
)
from tests.analysis.expert.profiles import (
    HEALTHY,
    MS,
    NCCL,
    SESSION,
    US,
    launch,
    trace_of,
)
from tests.analysis.frames import make_profile
from tui.analysis.expert.rule import Severity

if TYPE_CHECKING:
    from tui.model.profile import Profile


def ascend_steps(*times_by_rank: tuple[int, int], total_ms: int = 200) -> Profile:
    """Return the step trace of Ascend, by milliseconds of computing and exposed communication of each rank."""
    names = ("Computing", "Communication(Not Overlapped)", "Free")
    figures = [
        {"section": "Step trace", "name": f"rank {rank}: {name}", "value": value * 1e6, "unit": "ns", "line": rank + 2}
        for rank, (compute_ms, comm_ms) in enumerate(times_by_rank)
        for name, value in zip(names, (compute_ms, comm_ms, total_ms - compute_ms - comm_ms), strict=True)
    ]
    return make_profile(sessions=[{**SESSION, "format": "ascend-csv", "tool": "Ascend"}], tool_figures=figures)


CLUSTER = ascend_steps((40, 90), (40, 10))
"""Two ranks; the first waits 80 ms for the other."""

ANSWERS: Final = (
    Answer(
        "C1", PARTLY_HIDDEN_COLLECTIVE, {"comm_ns": 10 * MS, "comm_pct": pytest.approx(100 / 3)}, HEALTHY, CALLS_ONLY
    ),
    Answer(
        "C2",
        PARTLY_HIDDEN_COLLECTIVE,
        {"exposed_ns": 5 * MS, "exposed_pct": pytest.approx(100 / 6), "overlap_pct": 50.0},
        HEALTHY,
    ),
    Answer(
        "C3",
        trace_of(launch(0, 10 * MS), launch(10 * MS, 10 * MS, NCCL)),
        {"streams": 1},
        PARTLY_HIDDEN_COLLECTIVE,
    ),
    Answer(
        "C4",
        trace_of(launch(0, 3 * MS), launch(3 * MS, 10 * MS, NCCL)),
        {"ratio": 0.3, "compute_ns": 3 * MS, "comm_ns": 10 * MS},
        HEALTHY,
        severity=Severity.WARNING,
    ),
    Answer(
        "C5",
        profile_of_ranks(10 * MS, 40 * MS),
        {"session": 1, "times": 3, "iterations": 3, "wait_ns": 90 * MS},
        profile_of_ranks(10 * MS, 10 * MS),
        HEALTHY,
        says="Rank 1 is the straggler: it arrives last in 3 of 3 iterations, and rank 0 waits up to 90 ms in total",
    ),
    Answer(
        "C6",
        trace_of(
            launch(0, MS),
            launch(0, MS, device=1),
            ops=[{"op": 0, "name": "DataParallel.forward", "op_source": "recorded"}],
        ),
        {"gpus": 2},
        HEALTHY,
    ),
    Answer(
        "C7",
        profile_of_ranks(10 * MS, 40 * MS),
        {"spread_pct": 120.0, "ranks": 2},
        profile_of_ranks(10 * MS, 10 * MS),
        HEALTHY,
    ),
    Answer(
        "C8",
        trace_of(launch(0, 20 * MS), *(sized_collective(n * MS, US, 1000) for n in range(3))),
        {"small": 3, "messages": 3, "small_pct": 100.0},
        trace_of(launch(0, 20 * MS), *(sized_collective(n * MS, US, 10_000_000) for n in range(3))),
        PARTLY_HIDDEN_COLLECTIVE,
    ),
    Answer(
        "C9",
        trace_of(
            *(sized_collective(n * 10 * MS, MS, 1000) for n in range(5)),
            launch(50 * MS, 50 * MS),
            *(sized_collective(50 * MS + n * 5 * MS, 2 * MS, 1000) for n in range(5)),
        ),
        {"rate_pct": 50.0, "bytes": 4000},
        trace_of(
            *(sized_collective(n * 10 * MS, MS, 1000) for n in range(5)),
            launch(50 * MS, 50 * MS),
            *(sized_collective(50 * MS + n * 5 * MS, MS, 1000) for n in range(5)),
        ),
        PARTLY_HIDDEN_COLLECTIVE,
    ),
    Answer(
        "C10",
        CLUSTER,
        {"exposed_ns": 100 * MS, "exposed_pct": 25.0, "compute_ns": 80 * MS},
        ascend_steps((95, 5)),
        says="Exposed communication takes 25% of the step time of 2 ranks (100 of 400 ms), computing 20%.",
        lacks="only Ascend's step_trace_time.csv",
        more={
            "advice": "Look at rank 1 first: the others wait for it (C11). Otherwise communicate less often "
            "(gradient accumulation, larger batch) or less (compression, half precision)."
        },
    ),
    Answer(
        "C11",
        CLUSTER,
        {"wait_ns": 80 * MS, "least_ns": 10 * MS, "most_ns": 90 * MS},
        ascend_steps((40, 90), (40, 92)),
        ascend_steps((40, 90)),
        says="The other ranks wait for rank 1: its exposed communication takes 10 ms, theirs up to 90 ms. It computes "
        "as long as they do, but neither computes nor communicates for 150 ms.",
        lacks="the steps of one rank",
    ),
)
