"""Every rule finds what it is for, with exact figures; is clean where that is not there; and says what it lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.analysis.expert.judging import BY_ID, ask
from tests.analysis.expert.profiles import (
    A100,
    ADD,
    GEMM,
    HEALTHY,
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
from tests.analysis.frames import kernel, printed, profile
from tui.analysis.expert.model import CannotTell, Clean, Found, Severity

if TYPE_CHECKING:
    from tui.model.profile import Profile


@dataclass(frozen=True)
class Answer:
    """What a rule must say of three profiles; None where a rule can always tell, or is never clean."""

    rule: str
    found: Profile
    numbers: dict[str, Any]
    clean: Profile | None
    untold: Profile | None = SUMMED
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
NO_DEVICE = profile(sessions=[SESSION], activities=[run(0, MS)], devices=[])
NAMES_ONLY = profile(sessions=[SESSION], activities=[kernel(GEMM, MS, start_ns=0)])
AMONG_COPIES = traced(moved(0, 30 * MS), run(30 * MS, 10 * MS))
TALKING = traced(run(0, 10 * MS), run(10 * MS, 10 * MS, NCCL, stream=9), run(15 * MS, 15 * MS))
CALLS_ONLY = profile(sessions=[SESSION], api_calls=[call(0, 1)])
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
    return profile(sessions=sessions, devices=[A100, {**A100, "session": 1}], activities=activities, ranges=marks)


def message(start: int, duration: int, elements: int, **more: Any) -> dict[str, Any]:
    """A collective of which the input tells the size."""
    return run(start, duration, NCCL, stream=9, arguments=f"In msg nelems: {elements}; Dtype: Float", **more)


ANSWERS: Final = (
    # --- utilisation
    Answer(
        "U1", SPARSE, {"busy_pct": 20.0, "busy_ns": 20 * MS, "span_ns": 100 * MS}, HEALTHY, says="20.00% of 100.00 ms"
    ),
    Answer(
        "U2",
        SPARSE,
        {"holes": 1, "idle_ns": 80 * MS, "longest_ns": 80 * MS, "longest_pct": 80.0},
        HEALTHY,
        says="80.000 ms",
    ),
    Answer("U3", SPARSE, {"stretches": 1, "idle_ns": 80 * MS}, HEALTHY, untold=traced(run(0, 10), run(15, 5))),
    Answer(
        "U4",
        traced(run(0, MS), devices=[A100, {**A100, "device": 1}]),
        {"gpus": 2, "unused": 1},
        HEALTHY,
        NO_DEVICE,
        says="1 of 2 GPUs did nothing: 1",
    ),
    Answer(
        "U5",
        traced(run(0, 10 * MS), run(0, 5 * MS, device=1), devices=[A100, {**A100, "device": 1}]),
        {"spread_pct": 50.0, "most_ns": 10 * MS, "least_ns": 5 * MS},
        HEALTHY,
    ),
    Answer(
        "U6",
        with_calls(launched(0, 10 * MS, 0, 10, 1), launched(30 * MS, 10 * MS, 29 * MS, 10, 2)),
        {"host_wait_ns": 20 * MS, "host_wait_pct": 50.0, "waits": 1},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "U7",
        traced(*(run(n * 15 * US, 10 * US) for n in range(20))),
        {"gaps": 19, "idle_ns": 95 * US},
        SPARSE,
        profile(sessions=[{**SESSION, "start_resolution_ns": 10_000}], activities=[run(0, 10 * US), run(MS, 10 * US)]),
        lacks="10.000 µs only",
    ),
    Answer("U8", AMONG_COPIES, {"compute_pct": 25.0, "compute_ns": 10 * MS, "busy_ns": 40 * MS}, HEALTHY, CALLS_ONLY),
    Answer("U9", QUIET, {"pauses": 1, "idle_ns": 80 * MS}, HEALTHY, SPARSE, says="1 pause of 20 ms"),
    Answer("U10", SPARSE, {"p5_pct": 0.0, "p50_pct": 0.0, "p95_pct": 100.0}, HEALTHY, traced(run(0, 10), run(15, 5))),
    # --- transfers
    Answer(
        "T1",
        AMONG_COPIES,
        {"copy_ns": 30 * MS, "kernel_ns": 10 * MS, "copy_pct": 75.0, "kernel_per_copy": pytest.approx(1 / 3)},
        HEALTHY,
        CALLS_ONLY,
        says="`[CUDA memcpy HtoD]` takes 75.00% of GPU time: 1 copy, 30.000 ms each",
    ),
    Answer("T2", AMONG_COPIES, {"exposed_ns": 30 * MS, "exposed_pct": 75.0, "copy_ns": 30 * MS}, HEALTHY),
    Answer("T3", AMONG_COPIES, {"overlap_ns": 0, "overlap_pct": 0.0, "copy_pct": 75.0}, HEALTHY),
    Answer(
        "T4",
        traced(moved(0, 10 * MS), moved(10 * MS, 10 * MS, "DtoH")),
        {"overlap_ns": 0, "up_pct": 50.0, "down_pct": 50.0},
        traced(moved(0, 10 * MS), moved(0, 10 * MS, "DtoH", stream=8)),
    ),
    Answer(
        "T5",
        traced(moved(0, 2 * MS, size=12 * MS), run(0, MS)),
        {"rate": 6e9, "ceiling": 24e9, "of_ceiling_pct": 25.0},
        traced(moved(0, 1 * MS, size=20 * MS), run(0, MS)),
        profile(sessions=[SESSION], activities=[moved(0, 2 * MS, size=12 * MS)]),
        lacks="name it with --gpu",
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
    # --- waits, calls, launches
    Answer(
        "A1",
        with_calls(
            launched(0, 10 * MS, 0, 10, 1),
            launched(30 * MS, 10 * MS, 29 * MS, 9, 2),
            calls=(call(MS, 9 * MS, "cudaDeviceSynchronize"),),
        ),
        {"wait_ns": 9 * MS, "share_pct": 45.0, "calls": 1},
        HEALTHY,
        profile(summary=[printed("gpu", GEMM, 1, MS), printed("api", "cudaDeviceSynchronize", 2, 2 * MS)]),
        lacks="more than the GPU time",
    ),
    Answer(
        "A2",
        traced(*(run(n * 20 * US, 5 * US, ADD) for n in range(9)), run(180 * US, 10 * US)),
        {"short": 9, "launches": 10, "short_pct": 90.0, "time_pct": pytest.approx(100 * 45 / 55)},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "A3",
        with_calls(*(launched(n * MS, 2 * US, n * MS - 9 * US, 6 * US, n) for n in range(1, 5))),
        {"launches": 4, "bound": 4, "bound_pct": 100.0},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "A4",
        with_calls(launched(0, MS, 0, 60 * US, 1), launched(MS, MS, 70 * US, 5 * US, 2)),
        {"slow": 1, "calls": 2, "slow_pct": 50.0, "slow_ns": 60 * US},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "A5",
        with_calls(launched(0, MS, 0, 10, 1), launched(5 * MS, MS, MS, 10 * US, 2)),
        {"late": 1, "launches": 2, "late_pct": 50.0, "late_ns": 5 * MS - MS - 10 * US},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "A6",
        with_calls(*(launched(10 * MS + n * MS, MS, n * US, 500, n) for n in range(1500))),
        {"waiting": 1500},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "A7",
        traced(*(run(n * 20 * US, 10 * US, ADD) for n in range(5)), run(MS, 20 * US)),
        {"runs": 1, "launches": 5, "time_ns": 50 * US},
        SPARSE,
    ),
    Answer(
        "A8",
        with_calls(
            launched(0, MS, 0, 10, 1),
            launched(30 * MS, MS, 29 * MS, 9, 2),
            calls=tuple(call(n * 10 * MS + MS, 2 * MS, "cudaMalloc") for n in range(4)),
            ranges=STEPS[:4],
        ),
        {"calls": 3, "per_iteration": 1.0, "call_ns": 6 * MS, "share_pct": 20.0},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "A9",
        with_calls(
            launched(0, MS, 0, 10, 1),
            launched(9 * MS, MS, 8 * MS, 9, 2),
            calls=(call(2 * MS, 5 * MS, "cuModuleLoadDataEx"),),
        ),
        {"load_ns": 5 * MS, "share_pct": 50.0},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "A10",
        profile(
            summary=[
                printed("api", "cudaFree", 4, 90 * MS, avg_ns=22 * MS, max_ns=89 * MS, min_ns=US),
                printed("api", "cudaLaunch", 100, 10 * MS, avg_ns=100 * US, max_ns=200 * US, min_ns=US),
            ]
        ),
        {"api_pct": 90.0, "calls": 4, "max_ns": 89 * MS},
        HEALTHY,
        SPARSE,
    ),
    Answer("A11", AMONG_COPIES, {"gpus": 1, "one_stream": 1}, HEALTHY),
    Answer(
        "A12",
        traced(run(0, MS, **{"grid_x": 27}), run(MS, MS, grid_x=27, stream=8)),
        {"together_pct": 0.0, "fill_pct": 25.0, "streams": 2},
        HEALTHY,
        NO_DEVICE,
    ),
    Answer(
        "A13",
        with_calls(
            *(launched(n * MS, MS, n * MS, 10, n) for n in range(4)),
            calls=tuple(call(n * MS + 20, 30, "cudaDeviceSynchronize") for n in range(4)),
        ),
        {"launches": 4, "followed_pct": 100.0},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "A14",
        traced(run(0, MS), ranges=[{**step(0, 0, 5 * MS), "name": "gc"}]),
        {"collections": 1, "collect_ns": 5 * MS},
        traced(run(0, MS), ranges=[{**step(0, 0, 5 * US), "name": "gc"}]),
    ),
    # --- launch configuration
    Answer(
        "L1",
        traced(run(0, MS, registers=255), run(MS, MS, SGEMM, registers=255)),
        {"mean_pct": 12.5, "low_time_pct": 100.0, "low_kernels": 2},
        HEALTHY,
        NO_DEVICE,
        lacks="name it with --gpu",
    ),
    Answer(
        "L2",
        traced(run(0, MS, **SMALL)),
        {"kernels": 1, "time_pct": 100.0},
        HEALTHY,
        NO_DEVICE,
        more={"cost_ns": 750 * US},
    ),
    Answer("L3", traced(run(0, MS, **SMALL)), {"kernels": 1, "time_pct": 100.0}, HEALTHY, NO_DEVICE),
    Answer(
        "L4",
        traced(run(0, MS, grid_x=900)),
        {"kernels": 1},
        traced(run(0, MS, grid_x=864)),
        NO_DEVICE,
        says="1.04 waves",
    ),
    Answer("L5", traced(run(0, MS, block_x=48)), {"kernels": 1}, HEALTHY, NAMES_ONLY, more={"cost_ns": 250 * US}),
    Answer("L6", traced(run(0, MS, block_x=32)), {"kernels": 1}, HEALTHY, NO_DEVICE),
    Answer("L7", traced(run(0, MS, registers=255)), {"kernels": 1}, HEALTHY, NO_DEVICE),
    Answer(
        "L8",
        traced(run(0, 10 * MS), run(90 * MS, 10 * MS)),
        {"sm_efficiency_pct": 20.0, "fill_pct": 100.0, "kernel_time_pct": 20.0},
        HEALTHY,
        NO_DEVICE,
    ),
    Answer("L9", traced(run(0, MS, **SMALL)), {"achieved_pct": 3.125}, HEALTHY, NO_DEVICE),
    Answer(
        "L10",
        traced(*(run(n * 10 * MS, MS) for n in range(10)), run(100 * MS, 9 * MS)),
        {"kernels": 1},
        HEALTHY,
        traced(*({**kernel(GEMM, MS), "start_ns": n * 2 * MS} for n in range(10))),
        more={"cost_ns": 8 * MS},
    ),
    # --- precision, fusion, layout
    Answer(
        "P1",
        traced(run(0, 6 * MS, SGEMM), run(6 * MS, 4 * MS, ADD)),
        {"eligible_ns": 6 * MS, "using_ns": 0, "kernel_ns": 10 * MS},
        HEALTHY,
        profile(sessions=[SESSION], activities=[run(0, MS, SGEMM)]),
        more={"cost_ns": 3 * MS},
    ),
    Answer(
        "P2",
        traced(run(0, 6 * MS, SGEMM), run(6 * MS, 4 * MS, GEMM)),
        {"efficiency_pct": 40.0, "eligible_ns": 10 * MS, "using_ns": 4 * MS},
        HEALTHY,
        profile(sessions=[SESSION], activities=[run(0, MS, SGEMM)]),
    ),
    Answer(
        "P3",
        traced(run(0, 6 * MS, "volta_dgemm_128x64_nn"), run(6 * MS, 4 * MS, ADD)),
        {"time_ns": 6 * MS, "time_pct": 60.0},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "P4",
        traced(run(0, 2 * MS, "void nchwToNhwcKernel<float>(int)"), run(2 * MS, 8 * MS)),
        {"time_ns": 2 * MS, "time_pct": 20.0},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "P5",
        traced(run(0, MS, "redzone_checker"), *(run((n + 1) * MS, MS, SGEMM) for n in range(5))),
        {"kernels": 1, "time_ns": MS},
        HEALTHY,
    ),
    Answer(
        "P6",
        traced(run(0, MS, "implicit_convolve_sgemm"), tool_figures=figures(cudnn_benchmark_disabled=1)),
        {"disabled": 1.0, "convolutions": 1},
        traced(run(0, MS, "implicit_convolve_sgemm"), tool_figures=figures(cudnn_benchmark_disabled=0)),
        HEALTHY,
    ),
    Answer(
        "P7",
        traced(*(run(n * 20 * US, 10 * US, ADD) for n in range(6)), run(MS, 40 * US)),
        {"time_ns": 60 * US, "time_pct": 60.0, "launches": 6, "mean_ns": 10_000.0},
        HEALTHY,
        CALLS_ONLY,
    ),
    Answer(
        "P8",
        traced(
            *(run(n * 10 * US, 2 * US, "multi_tensor_apply_kernel_adam", iteration=n // 150) for n in range(300)),
            ranges=STEPS[:2],
        ),
        {"per_iteration": 150.0, "mean_ns": 2000.0, "iterations": 2},
        traced(
            *(run(n * MS, 2 * US, "multi_tensor_apply_kernel_adam", iteration=n) for n in range(3)), ranges=STEPS[:3]
        ),
        HEALTHY,
    ),
    Answer(
        "P9",
        traced(run(0, MS), tool_figures=figures(detect_anomaly=1)),
        {"modes": 1},
        HEALTHY,
        traced(run(0, MS)),
    ),
    Answer(
        "P10",
        traced(run(0, 6 * MS), run(6 * MS, 4 * MS, ADD)),
        {"time_pct": 60.0, "total_ns": 6 * MS, "calls": 1},
        traced(run(0, 5 * MS), run(6 * MS, 5 * MS, ADD)),
        CALLS_ONLY,
    ),
    Answer(
        "P11",
        chains(60 * US),
        {"kernels": 3, "repeats": 10, "chain_ns": 10 * 150 * US, "idle_ns": 10 * 120 * US, "busy_pct": 20.0},
        HEALTHY,
    ),
    Answer(
        "P12",
        traced(run(0, MS, "redzone_checker"), *(run((n + 1) * MS, MS, SGEMM, grid_x=n + 1) for n in range(12))),
        {"names": 1, "shapes": 12},
        HEALTHY,
    ),
    Answer(
        "P13",
        traced(
            run(0, MS),
            ops=[
                {
                    "op": n,
                    "name": "SyncBatchNorm",
                    "start_ns": n,
                    "duration_ns": 1,
                    "iteration": 0,
                    "op_source": "recorded",
                }
                for n in range(25)
            ],
        ),
        {"ops": 25, "per_iteration": 25.0},
        traced(
            run(0, MS), ops=[{"op": 0, "name": "aten::mm", "start_ns": 0, "duration_ns": 1, "op_source": "recorded"}]
        ),
    ),
    # --- iterations, input, memory
    Answer("I1", SPARSE, {"iterations": 0}, HEALTHY),
    Answer(
        "I2",
        stepped(90 * MS, 10 * MS, 10 * MS, 10 * MS),
        {"varies_pct": pytest.approx(133.3333333), "iterations": 4, "from": 1, "to": 3},
        HEALTHY,
        SPARSE,
    ),
    Answer(
        "I3",
        stepped(10 * MS, 10 * MS, 40 * MS, 10 * MS, 10 * MS),
        {"slow": 1, "iterations": 5, "median_ns": 10 * MS, "bound_ns": 15 * MS},
        HEALTHY,
        SPARSE,
        says="iteration 2 takes 40.000 ms",
        more={"cost_ns": 30 * MS},
    ),
    Answer(
        "I4",
        stepped(*(10 * MS + n * MS for n in range(10))),
        {"slope_ns": 1e6, "iterations": 10, "drift_pct": pytest.approx(100 * 10 / 14.5)},
        stepped(*[10 * MS] * 10),
        HEALTHY,
        lacks="too few",
    ),
    Answer(
        "I5",
        traced(run(0, 10 * MS), run(90 * MS, 10 * MS), ranges=[{**step(0, 20 * MS, 50 * MS), "name": "load_batch"}]),
        {"wait_ns": 50 * MS, "wait_pct": 50.0, "load_ns": 50 * MS},
        traced(run(0, 10 * MS), run(10 * MS, 90 * MS), ranges=[{**step(0, 20 * MS, 50 * MS), "name": "load_batch"}]),
        HEALTHY,
        lacks="no op or range is named",
    ),
    Answer(
        "I6",
        traced(run(0, MS), tool_figures=figures(num_workers=0, pin_memory=1)),
        {"num_workers": 0.0, "pin_memory": 1.0},
        traced(run(0, MS), tool_figures=figures(num_workers=4, pin_memory=1)),
        HEALTHY,
    ),
    Answer("I7", memory(4 << 30), {"memory_pct": 10.0, "factor": 4}, memory(20 << 30), HEALTHY),
    Answer("I8", memory(38 << 30), {"memory_pct": 95.0}, memory(20 << 30), HEALTHY),
    Answer(
        "I9",
        allocating(*range(0, 20 << 30, 1 << 30)),
        {"rise_pct": 25.0, "growth_bytes": 19 << 30, "iterations": 20},
        allocating(*[1 << 30] * 20),
        HEALTHY,
        lacks="profile_memory",
        says="by 19 GiB in 20 iterations",
    ),
    Answer(
        "I10",
        stepped(900 * MS, 10 * MS, 10 * MS, 10 * MS),
        {"lead_ns": 0, "first_per_median": 90.0},
        HEALTHY,
        SPARSE,
        more={"cost_ns": 890 * MS},
    ),
    # --- communication
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
        says="Rank 1 comes last to collectives in 3 of 3 iterations",
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
    # --- quality
    Answer(
        "Q1",
        traced(
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
        AMONG_COPIES,
    ),
    Answer(
        "Q2",
        profile(sessions=[SESSION], issues=[{"severity": "error", "line": 3, "reason": "the row is cut"}]),
        {"errors": 1, "warnings": 0},
        HEALTHY,
        None,
        severity=Severity.ERROR,
    ),
    Answer("Q3", SUMMED, {"calls": 10}, HEALTHY, CALLS_ONLY),
    Answer(
        "Q4",
        traced(run(0, 10 * MS), ranges=[{**step(0, 0, MS), "name": "PROFILER_OVERHEAD"}]),
        {"overhead_ns": MS, "overhead_pct": 10.0},
        traced(run(0, 10 * MS), ranges=[{**step(0, 0, 10), "name": "PROFILER_OVERHEAD"}]),
        HEALTHY,
    ),
    Answer(
        "Q5",
        profile(summary=[printed("gpu", GEMM, 1, MS, time_pct=60.0), printed("gpu", ADD, 1, MS, time_pct=20.0)]),
        {"gpu_pct": 80.0},
        profile(summary=[printed("gpu", GEMM, 1, MS, time_pct=60.0), printed("gpu", ADD, 1, MS, time_pct=40.0)]),
        HEALTHY,
    ),
    Answer(
        "Q6",
        traced(
            {"kind": "graph", "name": "[CUDA graph 1]", "start_ns": 0, "duration_ns": 3 * MS, "device": 0},
            run(3 * MS, MS),
        ),
        {"replays": 1, "graph_ns": 3 * MS, "graph_pct": 75.0},
        HEALTHY,
        CALLS_ONLY,
    ),
)
IDS: Final = [answer.rule for answer in ANSWERS]


def test_every_rule_is_asked_here() -> None:
    assert sorted(IDS) == sorted(BY_ID)


@pytest.mark.parametrize("answer", ANSWERS, ids=IDS)
def test_a_rule_finds_what_it_is_for(answer: Answer) -> None:
    verdict = ask(answer.rule, answer.found)
    assert isinstance(verdict, Found), verdict
    assert {name: verdict.numbers.get(name) for name in answer.numbers} == pytest.approx(answer.numbers)
    assert answer.says in verdict.problem
    assert verdict.problem.endswith(".")
    assert verdict.advice.endswith(".")
    assert verdict.cost_ns is None or verdict.cost_ns >= 0
    assert verdict.basis
    if answer.severity is not None:
        assert verdict.severity is answer.severity
    for name, value in answer.more.items():
        assert getattr(verdict, name) == value


@pytest.mark.parametrize("answer", [a for a in ANSWERS if a.clean], ids=[a.rule for a in ANSWERS if a.clean])
def test_a_rule_is_clean_where_there_is_nothing(answer: Answer) -> None:
    assert answer.clean is not None
    verdict = ask(answer.rule, answer.clean)
    assert isinstance(verdict, Clean), verdict
    assert verdict.why


@pytest.mark.parametrize("answer", [a for a in ANSWERS if a.untold], ids=[a.rule for a in ANSWERS if a.untold])
def test_a_rule_says_what_it_lacks(answer: Answer) -> None:
    assert answer.untold is not None
    verdict = ask(answer.rule, answer.untold)
    assert isinstance(verdict, CannotTell), verdict
    assert verdict.reason
    assert answer.lacks in verdict.reason
