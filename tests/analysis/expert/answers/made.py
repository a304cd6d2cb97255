"""What a rule must say, and profiles that rules are asked about."""

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
    SUMMED,
    US,
    call,
    launched,
    moved,
    run,
    step,
    traced,
    with_calls,
)
from tests.analysis.frames import kernel, make_profile

if TYPE_CHECKING:
    from tui.analysis.expert.rule import Severity
    from tui.model.profile import Profile


@dataclass(frozen=True)
class Answer:
    """What a rule must say of three profiles; None if a rule can always tell, or is never clean."""

    rule: str
    found: Profile
    numbers: dict[str, Any]
    clean: Profile | None
    inapplicable: Profile | None = SUMMED
    says: str = ""
    """Part of the problem."""
    severity: Severity | None = None
    lacks: str = ""
    """Part of the reason."""
    more: dict[str, Any] = field(default_factory=dict)


SPARSE = traced(run(0, 10 * MS), run(90 * MS, 10 * MS))
"""10 ms of work, a hole of 80 ms, and 10 ms of work."""
QUIET = with_calls(
    launched(0, 10 * MS, 0, 10 * US, 1),
    launched(90 * MS, 10 * MS, 80 * MS, 10 * US, 2),
    launched(100 * MS, MS, 85 * MS, 9, 3),
)
NO_DEVICE = make_profile(sessions=[SESSION], activities=[run(0, MS)], devices=[])
NAMES_ONLY = make_profile(sessions=[SESSION], activities=[kernel(GEMM, MS, start_ns=0)])
AMONG_COPIES = traced(moved(0, 30 * MS), run(30 * MS, 10 * MS))
TALKING = traced(run(0, 10 * MS), run(10 * MS, 10 * MS, NCCL, stream=9), run(15 * MS, 15 * MS))
CALLS_ONLY = make_profile(sessions=[SESSION], api_calls=[call(0, 1)])
SMALL = {**SHAPE, "grid_x": 27}
STEPS = [step(n, n * 10 * MS, 10 * MS) for n in range(8)]


def stepped(*durations: int, **frames: Any) -> Profile:
    """Iterations one after the other, each with a kernel as long as half of it."""
    begin, marks, work = 0, [], []
    for number, length in enumerate(durations):
        marks.append(step(number, begin, length))
        work.append(run(begin, length // 2, iteration=number))
        begin += length
    return traced(*work, ranges=marks, **frames)


def serving(
    *steps: tuple[str, int, int],
    gap: int = 0,
    kernel: str = GEMM,
    op: dict[str, Any] | None = None,
    launches: bool = True,
) -> Profile:
    """Steps of a server: name, duration and GPU time of each; each runs an op, which launches its work or not."""
    begin, marks, work, ops = 0, [], [], []
    for number, (name, length, busy) in enumerate(steps):
        marks.append({**step(number, begin, length), "name": name})
        joined = {"op": number, "op_join": "launch"} if op and launches else {}
        work.append(run(begin, busy, kernel, iteration=number, correlation=number, **joined))
        if op:
            ops.append({"op": number, "start_ns": begin + 1, "duration_ns": length // 2, "pid": 1, "tid": 1,
                        "iteration": number, "op_source": "recorded", **op})  # fmt: skip
        begin += length + gap
    calls = [{"name": "cudaLaunchKernel", "start_ns": row["start_ns"], "duration_ns": 1, "pid": 1, "tid": 1,
              "correlation": row["correlation"]} for row in work] if op else []  # fmt: skip
    return traced(*work, ranges=marks, ops=ops, api_calls=calls)


def chains(gap: int) -> Profile:
    """Ten times a chain of three short kernels with gaps between, and a long kernel."""
    work = []
    for n in range(10):
        at = n * 1000 * US
        names = (ADD, SGEMM, "softmax_warp_forward")
        work += [run(at + i * (10 * US + gap), 10 * US, name) for i, name in enumerate(names)]
        work.append(run(at + 300 * US, 690 * US, f"unlike_{n}"))
    return traced(*work)


def figures(**values: float) -> list[dict[str, Any]]:
    """DLProf's model configuration."""
    return [
        {"tool": "DLProf", "section": "Model Config", "name": name, "value": value} for name, value in values.items()
    ]


def memory(used: int) -> Profile:
    """What DLProf says of the memory of a GPU of 40 GiB."""
    rows = [
        {"tool": "DLProf", "section": "GPUs", "name": f"GPU memory 1: {name}", "value": float(value), "unit": "B"}
        for name, value in (("Total", 40 << 30), ("Used", used))
    ]
    return traced(run(0, MS), tool_figures=rows)


def allocating(*held: int) -> Profile:
    """Iterations at the end of which so much of 40 GiB of memory stays allocated."""
    events, before = [], held[0]
    for number, total in enumerate(held):
        events.append({"place": "GPU", "device": 0, "start_ns": number * MS + 1, "delta_bytes": total - before,
                       "allocated_bytes": total})  # fmt: skip
        before = total
    return stepped(*[MS] * len(held), memory_events=events, devices=[{**A100, "memory_bytes": 40 << 30}])


def ranks(first: int, second: int) -> Profile:
    """Two ranks of three iterations: in each a kernel, and a collective that ends when the slower one is ready."""
    sessions = [{**SESSION, "session": rank, "rank": rank, "world_size": 2} for rank in range(2)]
    activities, marks = [], []
    for rank, length in enumerate((first, second)):
        for n in range(3):
            at, end = n * 100 * MS, n * 100 * MS + max(first, second) + MS
            work = run(at, length, iteration=n)
            talk = run(at + length, end - at - length, NCCL, stream=9, iteration=n)
            activities += [{**work, "session": rank}, {**talk, "session": rank}]
            marks.append({**step(n, at, 100 * MS), "session": rank})
    return make_profile(sessions=sessions, devices=[A100, {**A100, "session": 1}], activities=activities, ranges=marks)


def message(start: int, duration: int, elements: int, **more: Any) -> dict[str, Any]:
    """A collective of which the input tells the size."""
    return run(start, duration, NCCL, stream=9, arguments=f"In msg nelems: {elements}; Dtype: Float", **more)
