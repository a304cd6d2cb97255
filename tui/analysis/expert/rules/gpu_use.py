"""How much of the time the GPUs have work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import real, total, whole
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.rules.communication import less_communication
from tui.analysis.expert.rules.input_data import LOAD_FASTER, loading_within
from tui.analysis.expert.start_up import first_warm, judge_what_repeats
from tui.analysis.expert.words import behind, called, counted, gpu_called
from tui.analysis.gpu_time.communication import COMMUNICATION
from tui.analysis.gpu_time.low_use import CHUNKS, low_use, use_in_chunks
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

FINE_CHUNKS: Final = 100


@rule("U1", "gpu-low-util", Family.UTILISATION, needs.start_times, link=links.TENSORBOARD)
def low_utilisation(case: Case) -> Verdict:
    """A GPU has work for too little of the time."""
    rows = case.busy.sort("busy_pct", "device")
    worst = rows.row(0, named=True)
    busy, gpu = worst["busy_pct"], gpu_called(worst["device"], rows.height)
    numbers = {"busy_pct": busy, "busy_ns": worst["busy_ns"], "span_ns": worst["span_ns"], "device": worst["device"]}
    if busy >= case.limit("U1", "busy_pct"):
        return Clean(f"{gpu} has work for {percent(busy)} of its span of {duration(worst['span_ns'])}", numbers)
    cause, advice = _idle_cause(case, worst["device"])
    return Found(
        f"{gpu[0].upper()}{gpu[1:]} has work for {percent(busy)} of its span of {duration(worst['span_ns'])}: it "
        f"idles for {duration(worst['idle_ns'])}{cause}.",
        advice,
        numbers,
        worst["idle_ns"],
        "all of its idle time",
        rows.select("device", "busy_pct", "busy_ns", "idle_ns", "span_ns"),
        "gpus",
    )


def _idle_cause(case: Case, device: int | None) -> tuple[str, str]:
    """What the CPU did while a GPU was idle: the largest part in words, and what to do about it."""
    idle = next(holes.spans for line, holes in case.holes if line.device == device)
    warm = first_warm(case)
    if warm is not None and warm[1] < whole(case.busy["last_ns"].max()):
        first, begins, last = warm
        before = int(idle.until(np.array([begins]))[0])
        if before > idle.length / 2:
            return (
                f", {duration(before)} of them before iteration {first}, in start-up and warm-up",
                judge_what_repeats(case, first, last),
            )
    loading = loading_within(case, idle)
    if 2 * loading > idle.length:
        return f", {duration(loading)} of them while it waits for input data", LOAD_FASTER
    if not len(case.in_calls.starts):
        return "", "Give it more work at a time (larger batch), and load and copy input while it computes."
    in_calls = (case.in_calls & idle).length
    if in_calls > idle.length / 2:
        return (
            f", {duration(in_calls)} of them while the CPU is in API calls",
            "Launch less often and wait less: larger batches, CUDA graphs, no synchronize in the loop (see api-calls).",
        )
    return (
        f", {duration(idle.length - in_calls)} of them while the CPU is in no API call",
        f"The program itself is slow to launch: {case.compiler} or CUDA graphs take Python and the framework out of "
        "it; move input data and logging off the launching thread.",
    )


def _too_short(case: Case, chunks: int) -> str:
    """Why a run cannot be cut into so many parts, or nothing."""
    if case.span_ns >= chunks * case.resolution_ns:
        return ""
    return f"the span of {duration(case.span_ns)} is too short to be cut into {chunks} parts"


@rule("U3", "util-chunks", Family.UTILISATION, needs.start_times, severity=Severity.INFO, link=links.NSIGHT)
def low_stretches(case: Case) -> Verdict:
    """Parts of the run use a GPU little."""
    if reason := _too_short(case, CHUNKS):
        return CannotTell(reason)
    least = case.limit("U3", "busy_pct")
    stretches = (
        low_use(case.profile, below_pct=least)
        .select("device", "start_ns", "duration_ns", "busy_pct", idle_ns=pl.col("duration_ns") - pl.col("busy_ns"))
        .sort("idle_ns", "device", "start_ns", descending=[True, False, False])
    )
    if stretches.is_empty():
        return Clean(f"in each of {CHUNKS} equal parts of the run every GPU has work for {least:g}% or more")
    worst, idle = stretches.row(0, named=True), total(stretches["idle_ns"])
    numbers = {"stretches": stretches.height, "idle_ns": idle, "busy_pct": worst["busy_pct"]}
    if total(stretches["duration_ns"]) >= case.span_of_all_ns:
        of_all = "the GPU is" if case.busy.height == 1 else "every GPU is"
        return Found(
            f"In each of {CHUNKS} equal parts of the run {of_all} busy less than {least:g}%.",
            "The whole run is like that, no part of it stands out: begin with U1.",
            numbers,
            None,
            "counted by U1",
            stretches,
            "gpus",
        )
    return Found(
        f"{counted(stretches.height, 'stretch', 'stretches')} of the run with a GPU busy less than {least:g}%: the "
        f"one that idles longest takes {duration(worst['duration_ns'])} from {duration(worst['start_ns'])} on, "
        f"{percent(worst['busy_pct'])} busy.",
        "Leave start-up and shut-down out of what you judge; look at what the program does in the rest.",
        numbers,
        idle,
        f"the idle time in these stretches{case.together_words}",
        stretches,
        "gpus",
    )


@rule("U8", "low-compute", Family.UTILISATION, needs.gpu_work, link=links.VISUAL_PROFILER)
def low_compute(case: Case) -> Verdict:
    """The GPU is busy, and not with computing."""
    if case.span_ns:
        compute, busy, how = case.together("compute_ns"), case.together("busy_ns"), "of the busy time"
    else:
        compute = total(case.computing["total_ns"]) + case.time_of("graph", "memset")
        busy, how = case.gpu_ns, "of the summed durations"
    if not busy:
        return CannotTell("no GPU work took any time")
    share = 100 * compute / busy
    numbers = {"compute_pct": share, "compute_ns": compute, "busy_ns": busy}
    if share >= case.limit("U8", "compute_pct"):
        return Clean(f"kernels that compute, and memsets, run in {percent(share)} {how}", numbers)
    other = case.work.filter(pl.col("kind").is_in(["memcpy", "um"]) | (pl.col("op_type") == COMMUNICATION))
    first = other.row(0, named=True) if other.height else None
    return Found(
        f"Kernels that compute, and memsets, run in only {percent(share)} {how}"
        + (f"; {called(first['name'])} takes {duration(first['total_ns'])}." if first else "."),
        less_communication(case)
        if first and first["op_type"] == COMMUNICATION
        else "Take copies off the path: keep data on the device, overlap them with kernels.",
        numbers,
        busy - compute,
        f"all busy time without a kernel that computes{case.together_words}",
        *behind(other, "calls", "total_ns"),
    )


@rule("U10", "fluctuating", Family.UTILISATION, needs.start_times, severity=Severity.INFO, link=links.SAGEMAKER)
def fluctuating(case: Case) -> Verdict:
    """GPU use comes in bursts."""
    if reason := _too_short(case, FINE_CHUNKS):
        return CannotTell(reason)
    use = pl.col("busy_pct")
    swings = (
        use_in_chunks(case.profile, FINE_CHUNKS)
        .group_by("device")
        .agg(
            use.quantile(0.05, "linear").alias("p5_pct"),
            use.median().alias("p50_pct"),
            use.quantile(0.95, "linear").alias("p95_pct"),
        )
        .sort(pl.col("p5_pct") - pl.col("p95_pct"), "device")
    )
    worst = swings.row(0, named=True)
    low, high = real(worst["p5_pct"]), real(worst["p95_pct"])
    gpu = gpu_called(worst["device"], swings.height)
    numbers = {name: worst[name] for name in ("p5_pct", "p50_pct", "p95_pct")}
    if high < case.limit("U10", "high_pct") or low >= case.limit("U10", "low_pct"):
        return Clean(
            f"use of {gpu} is between {percent(low)} and {percent(high)} in nine of ten of {FINE_CHUNKS} equal parts",
            numbers,
        )
    return Found(
        f"Use of {gpu} swings between {percent(low)} and {percent(high)} (5th and 95th percentile of {FINE_CHUNKS} "
        "equal parts of the run).",
        "Work comes in bursts: look whether input, synchronization or checkpoints come between (see iterations).",
        numbers,
        None,
        "not estimated: the idle time is counted by the rules on gaps",
        swings,
        "gpus",
    )
