"""Use of GPUs and gaps."""

from __future__ import annotations

from typing import Final

from tests.analysis.expert.answers.communication import CLUSTER, ascend_steps
from tests.analysis.expert.answers.expected_answers import (
    CALLS_ONLY,
    LONG_GAP,
    MOSTLY_COPIES,
    NO_DEVICE,
    PAUSED,
    Answer,
)
from tests.analysis.expert.profiles import (
    A100,
    HEALTHY,
    MS,
    SESSION,
    US,
    launch,
    launch_with_call,
    trace_of,
    with_calls,
)
from tests.analysis.frames import make_profile

ANSWERS: Final = (
    Answer(
        "U1",
        LONG_GAP,
        {"busy_pct": 20.0, "busy_ns": 20 * MS, "wall_ns": 100 * MS},
        HEALTHY,
        says="GPU busy 20% (20 of 100 ms).",
    ),
    Answer(
        "U2",
        LONG_GAP,
        {"gaps": 1, "idle_ns": 80 * MS, "longest_ns": 80 * MS, "longest_pct": 80.0},
        HEALTHY,
        says="GPU idle 80 ms (80% of the wall time) in 1 gap of 1 ms or more.",
    ),
    Answer(
        "U3",
        LONG_GAP,
        {"stretches": 1, "idle_ns": 80 * MS},
        HEALTHY,
        inapplicable=trace_of(launch(0, 10), launch(15, 5)),
    ),
    Answer(
        "U4",
        trace_of(launch(0, MS), devices=[A100, {**A100, "device": 1}]),
        {"gpus": 2, "unused": 1},
        HEALTHY,
        NO_DEVICE,
        says="1 of 2 GPUs did nothing: 1",
        lacks="the GPUs that the program saw",
    ),
    Answer(
        "U5",
        trace_of(launch(0, 10 * MS), launch(0, 5 * MS, device=1), devices=[A100, {**A100, "device": 1}]),
        {"spread_pct": 50.0, "most_ns": 10 * MS, "least_ns": 5 * MS},
        HEALTHY,
    ),
    Answer(
        "U6",
        with_calls(launch_with_call(0, 10 * MS, 0, 10, 1), launch_with_call(30 * MS, 10 * MS, 30 * MS - 9 * US, 10, 2)),
        {"host_wait_ns": 20 * MS, "host_wait_pct": 50.0, "waits": 1},
        HEALTHY,
        LONG_GAP,
    ),
    Answer(
        "U7",
        trace_of(*(launch(n * 15 * US, 10 * US) for n in range(20))),
        {"gaps": 19, "idle_ns": 95 * US},
        LONG_GAP,
        make_profile(
            sessions=[{**SESSION, "start_resolution_ns": 10_000}], activities=[launch(0, 10 * US), launch(MS, 10 * US)]
        ),
        lacks="rounded to 10 µs",
    ),
    Answer("U8", MOSTLY_COPIES, {"compute_pct": 25.0, "compute_ns": 10 * MS, "busy_ns": 40 * MS}, HEALTHY, CALLS_ONLY),
    Answer("U9", PAUSED, {"pauses": 1, "idle_ns": 80 * MS}, HEALTHY, LONG_GAP, says="or more. It starts at 10 ms."),
    Answer(
        "U10",
        LONG_GAP,
        {"p5_pct": 0.0, "p50_pct": 0.0, "p95_pct": 100.0},
        HEALTHY,
        trace_of(launch(0, 10), launch(15, 5)),
    ),
    Answer(
        "U11",
        CLUSTER,
        {"free_ns": 220 * MS, "free_pct": 55.0},
        ascend_steps((95, 5), total_ms=110),
        says="Devices neither compute nor communicate for 55% of the step time of 2 ranks (220 of 400 ms).",
        lacks="only Ascend's step_trace_time.csv",
    ),
)
