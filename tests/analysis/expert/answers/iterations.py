"""Iterations, input data and memory."""

from __future__ import annotations

from typing import Final

import pytest

from tests.analysis.expert.answers.expected_answers import (
    LONG_GAP,
    Answer,
    dlprof_figures,
    dlprof_memory,
    iterations_of,
    profile_of_allocations,
    serving_profile,
)
from tests.analysis.expert.profiles import (
    A100,
    HEALTHY,
    MS,
    NCCL,
    launch,
    step_range,
    trace_of,
)

DECODE: Final = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"
PAGED: Final = {
    "name": "vllm::unified_attention_with_output",
    "input_shapes": "[[32, 64, 64], [32, 8, 64], [32, 8, 64], [32, 64, 64]]",
    "input_types": '["bfloat16", "bfloat16", "bfloat16", "bfloat16"]',
}
KV_BYTES: Final = 2 * (32 * 64 * 128 + 55086 * 8 * 128)
"""Queries and output, and the cache of all requests."""
BANDWIDTH: Final = A100["memory_bandwidth"] / 1e9
"""Bytes per nanosecond."""


def replayed_product(tokens: int) -> dict[str, str]:
    """Return the fields of a matrix product that a graph replays."""
    return {"name": "aten::mm", "op_source": "graph", "input_shapes": f"[[{tokens}, 8], [8, 8]]"}


ANSWERS: Final = (
    Answer(
        "I1", trace_of(*(launch(n * MS, MS // 9, f"step {n}") for n in range(20))), {"iterations": 0}, HEALTHY, LONG_GAP
    ),
    Answer(
        "I2",
        iterations_of(90 * MS, 10 * MS, 10 * MS, 10 * MS),
        {"varies_pct": pytest.approx(133.3333333), "iterations": 4, "from": 1, "to": 3},
        HEALTHY,
        LONG_GAP,
        says="Iteration times vary from 10 ms to 90 ms: the standard deviation is 133% of the mean of 4 iterations.",
    ),
    Answer(
        "I3",
        iterations_of(10 * MS, 10 * MS, 40 * MS, 10 * MS, 10 * MS),
        {"slow": 1, "iterations": 5, "median_ns": 10 * MS, "bound_ns": 15 * MS},
        HEALTHY,
        LONG_GAP,
        says="Iteration 2 takes 40 ms",
        more={"cost_ns": 30 * MS},
    ),
    Answer(
        "I4",
        iterations_of(*(10 * MS + n * MS for n in range(10))),
        {"slope_ns": 1e6, "iterations": 10, "drift_pct": pytest.approx(100 * 10 / 14.5)},
        iterations_of(*[10 * MS] * 10),
        HEALTHY,
        lacks="not enough data",
    ),
    Answer(
        "I5",
        trace_of(
            launch(0, 10 * MS),
            launch(90 * MS, 10 * MS),
            ranges=[{**step_range(0, 20 * MS, 50 * MS), "name": "load_batch"}],
        ),
        {"wait_ns": 50 * MS, "wait_pct": 50.0, "load_ns": 50 * MS},
        trace_of(
            launch(0, 10 * MS),
            launch(10 * MS, 90 * MS),
            ranges=[{**step_range(0, 20 * MS, 50 * MS), "name": "load_batch"}],
        ),
        HEALTHY,
        lacks="no op or range has the name of a data loader",
    ),
    Answer(
        "I6",
        trace_of(launch(0, MS), tool_figures=dlprof_figures(num_workers=0, pin_memory=1)),
        {"num_workers": 0.0, "pin_memory": 1.0},
        trace_of(launch(0, MS), tool_figures=dlprof_figures(num_workers=4, pin_memory=1)),
        HEALTHY,
    ),
    Answer("I7", dlprof_memory(4 << 30), {"memory_pct": 10.0, "factor": 4}, dlprof_memory(20 << 30), HEALTHY),
    Answer("I8", dlprof_memory(38 << 30), {"memory_pct": 95.0}, dlprof_memory(20 << 30), HEALTHY),
    Answer(
        "I9",
        profile_of_allocations(*range(0, 20 << 30, 1 << 30)),
        {"rise_pct": 25.0, "growth_bytes": 19 << 30, "iterations": 20},
        profile_of_allocations(*[1 << 30] * 20),
        HEALTHY,
        lacks="profile_memory",
        says="by 19 GiB in 20 iterations",
    ),
    Answer(
        "I10",
        iterations_of(900 * MS, 10 * MS, 10 * MS, 10 * MS),
        {"lead_ns": 0, "first_per_median": 90.0},
        HEALTHY,
        LONG_GAP,
        more={"cost_ns": 890 * MS},
    ),
    Answer(
        "I11",
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 4 * MS)] * 4),
        {"idle_pct": 60.0, "idle_ns": 24 * MS, "steps": 4},
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9 * MS)] * 4),
        HEALTHY,
        lacks="no steps of an inference server",
        more={"cost_ns": 24 * MS},
    ),
    Answer(
        "I12",
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9 * MS)] * 4, ("step[MIXED bs=5 toks=900]", 60 * MS, 59 * MS)),
        {"steps": 1, "median_ns": 10 * MS, "delay_ns": 50 * MS, "delay_pct": 50.0},
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9 * MS)] * 4),
        HEALTHY,
        lacks="no steps of an inference server",
    ),
    Answer(
        "I13",
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9 * MS)] * 4, gap_ns=10 * MS),
        {"gaps": 3, "gap_ns": 30 * MS, "gap_pct": pytest.approx(300 / 7)},
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9 * MS)] * 4),
        HEALTHY,
        lacks="no steps of an inference server",
        more={"cost_ns": 30 * MS},
    ),
    Answer(
        "I14",
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9 * MS)] * 2, kernel=NCCL),
        {"comm_ns": 18 * MS, "comm_pct": 100.0, "steps": 2},
        serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9 * MS)] * 2),
        HEALTHY,
        lacks="no steps of an inference server",
    ),
    Answer(
        "I15",
        serving_profile(*[("step[DECODE bs=3]", 10 * MS, 9 * MS)] * 2, op=replayed_product(32)),
        {"steps": 2, "steps_pct": 100.0, "replaying": 2},
        serving_profile(*[("step[DECODE bs=30]", 10 * MS, 9 * MS)] * 2, op=replayed_product(32)),
        HEALTHY,
        says="3 tokens in a graph for 32",
    ),
    Answer(
        "I16",
        serving_profile(*[(DECODE, 10 * MS, 9 * MS)] * 2, op=PAGED),
        {
            "roof_pct": pytest.approx(100 * KV_BYTES / BANDWIDTH / (9 * MS)),
            "attention_pct": 100.0,
            "tb_per_s": pytest.approx(KV_BYTES / (9 * MS) / 1e3),
        },
        serving_profile(*[(DECODE, 10 * MS, 60_000)] * 2, op=PAGED),
        HEALTHY,
    ),
    Answer(
        "I17",
        serving_profile(*[("step[DECODE bs=3]", 10 * MS, MS)] * 2, op={"name": "aten::multinomial"}, launches=False),
        {"ops": 2, "cpu_ns": 10 * MS, "cpu_pct": 50.0},
        serving_profile(*[("step[DECODE bs=3]", 10 * MS, MS)] * 2, op={"name": "aten::multinomial"}),
        HEALTHY,
        more={"cost_ns": 10 * MS},
    ),
)
