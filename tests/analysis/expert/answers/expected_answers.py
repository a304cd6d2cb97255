"""Expected answers of rules, and profiles for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.analysis.expert.profiles import (
    A100,
    ADD,
    GEMM,
    MS,
    NCCL,
    SESSION,
    SGEMM,
    SHAPE,
    TOTALS,
    US,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.frames import kernel, make_profile

if TYPE_CHECKING:
    from tui.analysis.expert.rule import Severity
    from tui.model.profile import Profile


@dataclass(frozen=True)
class Answer:
    """The expected verdicts of a rule on three profiles; None: the rule never has this verdict."""

    rule: str
    found: Profile
    numbers: dict[str, Any]
    clean: Profile | None
    inapplicable: Profile | None = TOTALS
    says: str = ""
    """Part of the problem."""
    severity: Severity | None = None
    lacks: str = ""
    """Part of the reason."""
    more: dict[str, Any] = field(default_factory=dict)


LONG_GAP = trace_of(launch(0, 10 * MS), launch(90 * MS, 10 * MS))
"""10 ms of work, a gap of 80 ms, and 10 ms of work."""
PAUSED = with_calls(
    launch_with_call(0, 10 * MS, 0, 10 * US, 1),
    launch_with_call(90 * MS, 10 * MS, 80 * MS, 10 * US, 2),
    launch_with_call(100 * MS, MS, 85 * MS, 9, 3),
)
NO_DEVICE = make_profile(sessions=[SESSION], activities=[launch(0, MS)], devices=[])
NAMES_ONLY = make_profile(sessions=[SESSION], activities=[kernel(GEMM, MS, start_ns=0)])
MOSTLY_COPIES = trace_of(transfer(0, 30 * MS), launch(30 * MS, 10 * MS))
PARTLY_HIDDEN_COLLECTIVE = trace_of(
    launch(0, 10 * MS), launch(10 * MS, 10 * MS, NCCL, stream=9), launch(15 * MS, 15 * MS)
)
CALLS_ONLY = make_profile(sessions=[SESSION], api_calls=[call(0, 1)])
SMALL = {**SHAPE, "grid_x": 27}
STEPS = [step_range(n, n * 10 * MS, 10 * MS) for n in range(8)]


def iterations_of(*durations: int, **frames: Any) -> Profile:
    """Return consecutive iterations, each with a kernel of half its duration."""
    start_ns, ranges, work = 0, [], []
    for number, duration_ns in enumerate(durations):
        ranges.append(step_range(number, start_ns, duration_ns))
        work.append(launch(start_ns, duration_ns // 2, iteration=number))
        start_ns += duration_ns
    return trace_of(*work, ranges=ranges, **frames)


def serving_profile(
    *steps: tuple[str, int, int],
    gap_ns: int = 0,
    kernel: str = GEMM,
    op: dict[str, Any] | None = None,
    launches: bool = True,
) -> Profile:
    """Return steps of a server by name, duration and GPU time, each with an op that launches its work or not."""
    start_ns, ranges, work, ops = 0, [], [], []
    for number, (name, duration_ns, gpu_ns) in enumerate(steps):
        ranges.append({**step_range(number, start_ns, duration_ns), "name": name})
        op_fields = {"op": number, "op_join": "launch"} if op and launches else {}
        work.append(launch(start_ns, gpu_ns, kernel, iteration=number, correlation=number, **op_fields))
        if op:
            ops.append({"op": number, "start_ns": start_ns + 1, "duration_ns": duration_ns // 2, "pid": 1, "tid": 1,
                        "iteration": number, "op_source": "recorded", **op})  # fmt: skip
        start_ns += duration_ns + gap_ns
    calls = [{"name": "cudaLaunchKernel", "start_ns": row["start_ns"], "duration_ns": 1, "pid": 1, "tid": 1,
              "correlation": row["correlation"]} for row in work] if op else []  # fmt: skip
    return trace_of(*work, ranges=ranges, ops=ops, api_calls=calls)


def repeated_chains(gap_ns: int) -> Profile:
    """Return ten repeats of a chain of three short kernels with gaps, followed by a long kernel."""
    work = []
    for number in range(10):
        start_ns = number * 1000 * US
        names = (ADD, SGEMM, "softmax_warp_forward")
        work += [launch(start_ns + index * (10 * US + gap_ns), 10 * US, name) for index, name in enumerate(names)]
        work.append(launch(start_ns + 300 * US, 690 * US, f"unlike_{number}"))
    return trace_of(*work)


def dlprof_figures(**values: float) -> list[dict[str, Any]]:
    """Return a model configuration of DLProf."""
    return [
        {"tool": "DLProf", "section": "Model Config", "name": name, "value": value} for name, value in values.items()
    ]


def dlprof_memory(used_bytes: int) -> Profile:
    """Return DLProf's figures of the memory of a GPU with 40 GiB."""
    rows = [
        {"tool": "DLProf", "section": "GPUs", "name": f"GPU memory 1: {name}", "value": float(value), "unit": "B"}
        for name, value in (("Total", 40 << 30), ("Used", used_bytes))
    ]
    return trace_of(launch(0, MS), tool_figures=rows)


def profile_of_allocations(*allocated_bytes: int) -> Profile:
    """Return iterations with these allocated bytes at their ends, on a GPU with 40 GiB."""
    events, previous = [], allocated_bytes[0]
    for number, total in enumerate(allocated_bytes):
        events.append({"place": "GPU", "device": 0, "start_ns": number * MS + 1, "delta_bytes": total - previous,
                       "allocated_bytes": total})  # fmt: skip
        previous = total
    return iterations_of(
        *[MS] * len(allocated_bytes), memory_events=events, devices=[{**A100, "memory_bytes": 40 << 30}]
    )


def profile_of_ranks(first: int, second: int) -> Profile:
    """Return two ranks with three iterations of a kernel and a collective, which ends after the slower kernel."""
    sessions = [{**SESSION, "session": rank, "rank": rank, "world_size": 2} for rank in range(2)]
    activities, ranges = [], []
    for rank, duration_ns in enumerate((first, second)):
        for iteration in range(3):
            start_ns, end_ns = iteration * 100 * MS, iteration * 100 * MS + max(first, second) + MS
            gemm = launch(start_ns, duration_ns, iteration=iteration)
            collective = launch(
                start_ns + duration_ns, end_ns - start_ns - duration_ns, NCCL, stream=9, iteration=iteration
            )
            activities += [{**gemm, "session": rank}, {**collective, "session": rank}]
            ranges.append({**step_range(iteration, start_ns, 100 * MS), "session": rank})
    return make_profile(sessions=sessions, devices=[A100, {**A100, "session": 1}], activities=activities, ranges=ranges)


def sized_collective(start: int, duration: int, elements: int, **fields: Any) -> dict[str, Any]:
    """Return a collective with a recorded size."""
    return launch(start, duration, NCCL, stream=9, arguments=f"In msg nelems: {elements}; Dtype: Float", **fields)
