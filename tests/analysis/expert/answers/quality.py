"""The quality of a profile."""

from __future__ import annotations

from typing import Final

import pytest

from tests.analysis.expert.answers.expected_answers import CALLS_ONLY, MOSTLY_COPIES, Answer
from tests.analysis.expert.profiles import (
    ADD,
    GEMM,
    HEALTHY,
    MS,
    SESSION,
    TOTALS,
    launch,
    step_range,
    trace_of,
)
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.rule import Severity

ANSWERS: Final = (
    Answer(
        "Q1",
        trace_of(
            {
                "kind": "memset",
                "name": "[CUDA memset]",
                "start_ns": 0,
                "duration_ns": 1025,
                "device": 0,
                "size_bytes": 24 << 20,
            }
        ),
        {"rows": 1, "checked": 1, "largest_rate": pytest.approx(24.552e12, rel=1e-3)},
        MOSTLY_COPIES,
    ),
    Answer(
        "Q2",
        make_profile(sessions=[SESSION], issues=[{"severity": "error", "line": 3, "reason": "the row is truncated"}]),
        {"errors": 1, "warnings": 0},
        HEALTHY,
        None,
        severity=Severity.ERROR,
    ),
    Answer("Q3", TOTALS, {"calls": 10}, HEALTHY, CALLS_ONLY),
    Answer(
        "Q4",
        trace_of(launch(0, 10 * MS), ranges=[{**step_range(0, 0, MS), "name": "PROFILER_OVERHEAD"}]),
        {"overhead_ns": MS, "overhead_pct": 10.0},
        trace_of(launch(0, 10 * MS), ranges=[{**step_range(0, 0, 10), "name": "PROFILER_OVERHEAD"}]),
        HEALTHY,
    ),
    Answer(
        "Q5",
        make_profile(
            summary=[summary_row("gpu", GEMM, 1, MS, time_pct=60.0), summary_row("gpu", ADD, 1, MS, time_pct=20.0)]
        ),
        {"gpu_pct": 80.0},
        make_profile(
            summary=[summary_row("gpu", GEMM, 1, MS, time_pct=60.0), summary_row("gpu", ADD, 1, MS, time_pct=40.0)]
        ),
        HEALTHY,
    ),
    Answer(
        "Q6",
        trace_of(
            {"kind": "graph", "name": "[CUDA graph 1]", "start_ns": 0, "duration_ns": 3 * MS, "device": 0},
            launch(3 * MS, MS),
        ),
        {"replays": 1, "graph_ns": 3 * MS, "graph_pct": 75.0},
        HEALTHY,
        CALLS_ONLY,
    ),
)
