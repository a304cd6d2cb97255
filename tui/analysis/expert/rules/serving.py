"""Steps of an inference server: decode without graphs, prefill that delays decode, gaps, communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert import words
from tui.analysis.expert.in_use import GRAPH_LAUNCHES
from tui.analysis.expert.rule import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.rules.communication import communication_of
from tui.analysis.expert.words import counted, duration, percent, whole
from tui.analysis.iterations.segments import iteration_at
from tui.analysis.iterations.serving import steps_of_server
from tui.correlation.iteration_ranges import DECODE, MIXED, PREFILL

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

FEW: Final = 3
"""Of fewer decode steps, no usual time is known."""
_LOOK: Final = ("iteration", "phase", "requests", "query_tokens", "duration_ns", "busy_pct")


def server_steps(case: Case) -> str:
    """Steps of an inference server, whose phases are known."""
    return "" if _steps(case).height else "no steps of an inference server (annotations of vLLM or SGLang)"


def _steps(case: Case, *phases: str) -> pl.DataFrame:
    """The steps of the server in order, those of some phases alone where these are given."""
    rows = (
        steps_of_server(case.profile).drop_nulls(["phase_by", "iteration", "duration_ns", "start_ns"]).sort("start_ns")
    )
    return rows.filter(pl.col("phase").is_in(phases)) if phases else rows


@rule("I11", "decode-launch-bound", Family.ITERATIONS, needs.start_times, server_steps, link=words.ROOT_CAUSES)
def decode_launch_bound(case: Case) -> Verdict:
    """Decode steps wait for kernel launches that a CUDA graph would make at once."""
    steps = _steps(case, DECODE).drop_nulls("busy_ns")
    if steps.is_empty():
        return CannotTell("no decode steps")
    took, idle = whole(steps["duration_ns"].sum()), whole(steps["idle_ns"].sum())
    idle_pct = 100 * idle / took if took else 0.0
    calls = case.calls_named(GRAPH_LAUNCHES, "session")
    numbers: dict[str, float] = {"steps": steps.height, "idle_pct": idle_pct, "idle_ns": idle}
    if calls.height and case.profile.steps is not None:
        of = iteration_at(case.profile.steps, calls["session"], calls["start_ns"]).drop_nulls().unique()
        replayed = steps.filter(pl.col("iteration").is_in(of.implode())).height
        if replayed:
            return Clean(f"{replayed} of {counted(steps.height, 'decode step')} replay CUDA graphs", numbers)
    if idle_pct < case.limit("I11", "idle_pct"):
        return Clean(f"GPU idle {percent(idle_pct)} of the time of decode steps", numbers)
    return Found(
        f"{counted(steps.height, 'decode step')} replay no CUDA graph: GPU idle {percent(idle_pct)} of their time.",
        "Let the server capture CUDA graphs for decode (vLLM: without --enforce-eager; SGLang: without "
        "--disable-cuda-graph).",
        numbers,
        idle,
        "GPU idle time in decode steps",
        steps.sort("idle_ns", descending=True).select(*_LOOK, "idle_ns").head(10),
        "iterations",
    )


@rule("I12", "prefill-delays-decode", Family.ITERATIONS, needs.start_times, server_steps, link=words.ROOT_CAUSES)
def prefill_delays_decode(case: Case) -> Verdict:
    """Steps that read prompts make requests wait that generate tokens."""
    steps = _steps(case)
    decode = steps.filter(pl.col("phase") == DECODE)
    if decode.height < FEW:
        return CannotTell(f"fewer than {FEW} decode steps")
    usual = whole(decode["duration_ns"].median())
    # A step of prompts alone delays those that are decoded before and after it.
    first, last = whole(decode["start_ns"].min()), whole(decode["start_ns"].max())
    within = (pl.col("start_ns") > first) & (pl.col("start_ns") < last)
    slow = steps.filter(
        (pl.col("phase") == MIXED) | ((pl.col("phase") == PREFILL) & within),
        pl.col("duration_ns") > case.limit("I12", "median") * usual,
    )
    lost = whole(slow["duration_ns"].sum()) - usual * slow.height
    took = whole(steps["duration_ns"].sum())
    share = 100 * lost / took if took else 0.0
    numbers = {"steps": slow.height, "median_ns": usual, "delay_ns": lost, "delay_pct": share}
    if share < case.limit("I12", "delay_pct"):
        return Clean(f"prefill delays decode for {percent(share)} of the time of steps", numbers)
    longest = slow.sort("duration_ns", descending=True)
    return Found(
        f"Prefill delays decode: {counted(slow.height, 'step')} with prompts take up to "
        f"{duration(whole(longest['duration_ns'][0]))}; a decode step takes {duration(usual)}.",
        "Make the chunks of prefill smaller (vLLM: --max-num-batched-tokens; SGLang: --chunked-prefill-size), or "
        "prefill on other GPUs.",
        numbers,
        None,
        "none: prompts must be read; the delay is what single requests wait",
        longest.select(_LOOK).head(10),
        "iterations",
    )


@rule("I13", "gaps-between-steps", Family.ITERATIONS, needs.start_times, server_steps, link=words.ROOT_CAUSES)
def gaps_between_steps(case: Case) -> Verdict:
    """The GPU idles while the server prepares the next step."""
    end = pl.col("start_ns") + pl.col("duration_ns")
    steps = _steps(case).with_columns((pl.col("start_ns").shift(-1) - end).clip(0).alias("gap_ns"))
    if steps.height < 2:
        return CannotTell("only one step of the server")
    gaps = steps.filter(pl.col("gap_ns").is_between(1, case.limit("I13", "wait_ns")))
    lost = whole(gaps["gap_ns"].sum())
    span = whole((steps["start_ns"] + steps["duration_ns"]).max()) - whole(steps["start_ns"].min())
    share = 100 * lost / span if span else 0.0
    numbers = {"gaps": gaps.height, "gap_ns": lost, "gap_pct": share}
    if share < case.limit("I13", "gap_pct"):
        return Clean(f"gaps between steps take {percent(share)} of the time", numbers)
    return Found(
        f"Between steps the GPU waits for the CPU: {counted(gaps.height, 'gap')} take {percent(share)} of the time, "
        f"{duration(whole(gaps['gap_ns'].median()))} at the median.",
        "Schedule the next step while this one runs (vLLM: --async-scheduling; SGLang: the overlap scheduler), and "
        "keep detokenization and sampling off the server's main thread.",
        numbers,
        lost,
        "time between steps; longer waits for requests are left out",
        gaps.sort("gap_ns", descending=True).select(*_LOOK, "gap_ns").head(10),
        "iterations",
    )


@rule(
    "I14",
    "decode-communication",
    Family.ITERATIONS,
    needs.kernels,
    server_steps,
    severity=Severity.INFO,
    link=words.HTA,
)
def decode_communication(case: Case) -> Verdict:
    """Collectives take much of the GPU time of decode steps."""
    steps = _steps(case, DECODE)
    if steps.is_empty():
        return CannotTell("no decode steps")
    names = communication_of(case)["name"].cast(pl.String)
    of_steps = case.profile["activities"].filter(pl.col("iteration").is_in(steps["iteration"].implode()))
    work = of_steps.select(pl.col("name").cast(pl.String), "duration_ns").drop_nulls()
    talking = work.filter(pl.col("name").is_in(names.implode()))
    total, comm = whole(work["duration_ns"].sum()), whole(talking["duration_ns"].sum())
    share = 100 * comm / total if total else 0.0
    numbers = {"comm_ns": comm, "comm_pct": share, "steps": steps.height}
    if share < case.limit("I14", "comm_pct"):
        return Clean(f"communication takes {percent(share)} of the GPU time of decode steps", numbers)
    return Found(
        f"Collectives take {percent(share)} of the GPU time of {counted(steps.height, 'decode step')}.",
        "Messages of decode are small: use a custom or one-shot all-reduce, fuse it with the norm after it, or split "
        "the model over fewer GPUs.",
        numbers,
        comm,
        "GPU time of collectives in decode steps",
        talking.group_by("name")
        .agg(pl.len().alias("calls"), pl.col("duration_ns").sum().alias("total_ns"))
        .sort("total_ns", "name", descending=[True, False])
        .head(10),
        "kernels",
    )
