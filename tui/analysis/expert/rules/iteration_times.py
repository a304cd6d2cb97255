"""Iterations: whether there are any, whether they are even and steady; steps of an inference server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis import needs as data_needs
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    DLPROF,
    HTA,
    ROOT_CAUSES,
    SAGEMAKER,
    duration,
    float_or_zero,
    int_or_zero,
    known_sum,
    percent,
    select_iterations_advice,
    share_text,
)
from tui.analysis.expert.in_use import GRAPH_LAUNCHES
from tui.analysis.expert.rule import Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.communication import communication_kernels
from tui.analysis.expert.rules.one_time_costs import steady_iterations_advice, warm_start
from tui.analysis.gpu_time.interval_sets import row_intervals
from tui.analysis.iterations.segments import iteration_at
from tui.analysis.iterations.serving import captured_tokens, serving_steps
from tui.analysis.ops.op_costs import op_instances
from tui.analysis.roofline import op_work
from tui.correlation.iteration_ranges import DECODE, MIXED, PREFILL
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tui.analysis.expert.case import Case

MIN_FOR_QUARTILES: Final = 4
"""The minimum number of iterations for quartiles."""
_RECORDED: Final = {"activities": "GPU work", "api_calls": "API call", "ops": "op", "ranges": "range"}
"""The names of what a recording can begin with."""


@rule("I1", "no-iterations", Family.ITERATIONS, needs.start_times, severity=Severity.INFO, link=DLPROF)
def no_iterations(case: Case) -> Verdict:
    """The run is not divided into iterations."""
    number = case.iterations.height
    if case.profile.aggregation.is_part:
        return Clean(f"{case.profile.aggregation.text} chosen")
    if number > 1:
        return Clean(f"{plural(number, 'iteration')}, {case.session_row['iteration_source'] or 'as recorded'}")
    missing = case.missing.get(data_needs.ITERATIONS.name, "")
    if not number and not missing:
        return NotApplicable(needs.iterations(case))
    launches = known_sum(case.kernels["calls"])
    if not number and launches < case.limit("I1", "launches"):
        return NotApplicable(
            f"not enough data: {plural(launches, 'launch', 'launches')}" if launches else "no kernels are recorded"
        )
    return Found(
        "No iterations recorded or detected, so start-up cannot be separated from steady state."
        if not number
        else "Only one iteration: there is nothing to compare it with.",
        _with_period(missing.partition(": ")[2] or "record several steps"),
        {"iterations": number},
        None,
        "none",
        view="iterations" if number else "",
    )


def _with_period(text: str) -> str:
    """End a text with a period."""
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))


@rule("I2", "uneven-range", Family.ITERATIONS, needs.iterations, severity=Severity.INFO, link=DLPROF)
def uneven_range(case: Case) -> Verdict:
    """Iterations differ in length."""
    values = iteration_durations(case)
    varies = variation_pct(values)
    numbers = {"varies_pct": varies, "iterations": len(values)}
    if len(values) < 2:
        return NotApplicable("only one iteration")
    if varies <= case.limit("I2", "varies_pct"):
        return Clean(f"the standard deviation of iterations is {percent(varies)} of their mean", numbers)
    steady = case.steady
    advice = (
        "No three consecutive iterations take about the same time: compare slow ones with others in Iterations."
        if len(values) > 2
        else "Record more iterations: two do not show what is normal."
    )
    if steady is not None:
        numbers |= {"from": steady["steady_first"], "to": steady["steady_last"]}
        # The view proposes a range of all iterations, not of the chosen ones.
        is_proposed = not case.profile.aggregation.is_part
        command = select_iterations_advice(steady["steady_first"], steady["steady_last"], proposed=is_proposed)
        advice = (
            f"Look at the steady ones ({steady['steady_iterations']:,} of {len(values):,}, std "
            f"{percent(100 * steady['steady_cv'])} of the mean): {command}."
        )
    return Found(
        f"Iteration times vary from {duration(values.min())} to {duration(values.max())}: the standard deviation is "
        f"{percent(varies)} of the mean of {len(values):,} iterations.",
        advice,
        numbers,
        None,
        "none: it shows which iterations to look at",
        case.iterations.sort("duration_ns", descending=True).select("iteration", "duration_ns", "gpu_ns").head(10),
        "iterations",
    )


def iteration_durations(case: Case) -> npt.NDArray[np.float64]:
    """Return the duration of each iteration, in order."""
    return case.iterations["duration_ns"].to_numpy().astype(float)


def variation_pct(values: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation as a percentage of the mean."""
    mean = float(values.mean()) if len(values) else 0.0
    return 100 * float(values.std(ddof=1)) / mean if len(values) > 1 and mean else 0.0


@rule("I3", "slow-iterations", Family.ITERATIONS, needs.iterations, link=ROOT_CAUSES)
def slow_iterations(case: Case) -> Verdict:
    """Some iterations take much longer than the others."""
    values = iteration_durations(case)
    if len(values) < 2:
        return NotApplicable("only one iteration")
    median = float(np.median(values))
    if len(values) < MIN_FOR_QUARTILES:
        threshold = case.limit("I3", "few_median") * median
    else:
        low, high = np.percentile(values, [25, 75])
        threshold = max(high + case.limit("I3", "iqr") * (high - low), case.limit("I3", "median") * median)
    slow = case.iterations.filter(pl.col("duration_ns") > threshold).sort("duration_ns", descending=True)
    numbers = {"slow": slow.height, "iterations": len(values), "median_ns": int(median), "bound_ns": int(threshold)}
    if slow.is_empty():
        return Clean(f"no iteration takes longer than {duration(threshold)} (median {duration(median)})", numbers)
    first = slow.row(0, named=True)
    excess = int((slow["duration_ns"] - int(median)).sum())
    note = ""
    if first["busy_ns"] is not None and first["idle_ns"] is not None:
        note = _busy_or_idle_clause(first, case.iterations.filter(pl.col("duration_ns") <= threshold))
    warm = warm_start(case)
    in_start_up = warm is not None and first["start_ns"] < warm[1]
    numbered = case.iterations["iteration"]
    warms_up = slow.height == 1 and first["iteration"] == numbered[0] and not case.profile.aggregation.is_part
    return Found(
        f"Iteration {first['iteration']} takes {duration(first['duration_ns'])}; the median is {duration(median)}. "
        f"{note}"
        f"{slow.height} of {plural(len(values), 'iteration')} {'takes' if slow.height == 1 else 'take'} longer than "
        f"{duration(threshold)}.",
        steady_iterations_advice(case, warm[0], warm[2])
        if in_start_up and warm is not None
        else f"The first iteration warms up. Leave it out: {select_iterations_advice(numbered[1], numbered[-1])}."
        if warms_up
        else f"Compare what runs in iteration {first['iteration']} with the others.",
        numbers,
        excess,
        "time of slow iterations beyond the median",
        slow.select("iteration", "duration_ns", "gpu_ns", "busy_pct").head(10),
        "iterations",
        " | ".join(f"iteration={number}" for number in slow["iteration"].head(10)),
        cause=Cause.START_UP if in_start_up or warms_up else "",
    )


def _busy_or_idle_clause(slow: Mapping[str, Any], others: pl.DataFrame) -> str:
    """Return a text about whether a slow iteration is busy or idle for longer than others."""
    known_times = others.select("busy_ns", "idle_ns").drop_nulls()
    if known_times.is_empty():
        return ""
    more_busy = slow["busy_ns"] - float_or_zero(known_times["busy_ns"].median())
    more_idle = slow["idle_ns"] - float_or_zero(known_times["idle_ns"].median())
    return "The extra time is GPU idle time. " if more_idle > more_busy else "Its GPU work takes longer. "


@rule("I4", "drift", Family.ITERATIONS, needs.iterations)
def drift(case: Case) -> Verdict:
    """Iterations get slower over the run."""
    values = iteration_durations(case)
    if len(values) < 2 * MIN_FOR_QUARTILES:
        return NotApplicable(
            f"not enough data: a trend needs {2 * MIN_FOR_QUARTILES} iterations, "
            f"there {'is' if len(values) == 1 else 'are'} {len(values)}"
        )
    half = len(values) // 2
    # The slope between each iteration and the one half the run later: their median is robust to outliers.
    slope = float(np.median((values[half:] - values[: len(values) - half]) / half))
    median = float(np.median(values))
    rise = 100 * slope * len(values) / median if median else 0.0
    numbers = {"drift_pct": rise, "slope_ns": slope, "iterations": len(values)}
    if rise <= case.limit("I4", "drift_pct"):
        return Clean(
            f"iterations change by {percent(rise) if rise >= 0 else '-' + percent(-rise)} over the run", numbers
        )
    lost = float(slope * len(values) * (len(values) - 1) / 2)
    return Found(
        f"Iterations get {percent(rise)} slower over the run: each takes {duration(slope)} longer than the one before.",
        "Check for growing or fragmented memory, lists that keep growing, and throttling"
        + (" (nvidia-smi -q -d CLOCK)." if case.vendor == "NVIDIA" else "."),
        numbers,
        int(lost),
        "what the rise adds to all iterations",
        view="iterations",
    )


@rule("I10", "long-start-up", Family.ITERATIONS, needs.iterations, severity=Severity.INFO, link=SAGEMAKER)
def long_start(case: Case) -> Verdict:
    """Start-up takes long."""
    if case.profile.aggregation.is_part:
        return NotApplicable("not applicable to chosen iterations")
    steps = case.iterations
    begins, ends = [], []
    for frame, event in _RECORDED.items():
        end = pl.col("start_ns") + pl.col("duration_ns")
        first, last = (
            case.profile[frame].lazy().select(pl.col("start_ns").min(), end.max().alias("end_ns")).collect().row(0)
        )
        begins.append((first, event))
        ends.append(last)
    first_event, first_event_name = min((int_or_zero(value), event) for value, event in begins if value is not None)
    last_event = max(int_or_zero(value) for value in ends if value is not None)
    lead, length = int(steps["start_ns"][0]) - first_event, last_event - first_event
    values = iteration_durations(case)
    others = float(np.median(values[1:])) if len(values) > 1 else None
    ratio = float(values[0]) / others if others else None
    share = 100 * lead / length if length > 0 else 0.0
    numbers = {"lead_ns": lead, "lead_pct": share, "first_per_median": ratio}
    is_late = lead > case.limit("I10", "first_ns")
    is_slow = ratio is not None and ratio > case.limit("I10", "median")
    if not is_late and share <= case.limit("I10", "file_pct") and not is_slow:
        ratio_text = f" and takes {ratio:.1f}x the median" if ratio is not None else ""
        return Clean(
            f"the first iteration begins {duration(lead)} after the first {first_event_name}{ratio_text}", numbers
        )
    label = steps["iteration"][0]
    note = (
        f"The first iteration begins {duration(lead)} after the first {first_event_name} ({percent(share)} of the "
        "recording)"
    )
    if is_slow and ratio is not None:
        note = f"Iteration {label} takes {duration(float(values[0]))}, {ratio:.1f}x the median of the others"
    warm = warm_start(case)
    return Found(
        f"{note}.",
        "Start recording later." if warm is None else steady_iterations_advice(case, warm[0], warm[2]),
        numbers,
        lead + max(0, int(values[0] - (others or values[0]))),
        "all before the first iteration, and what that one takes beyond the median; paid once",
        steps.select("iteration", "start_ns", "duration_ns").head(3),
        "iterations",
        f"iteration={label}",
        Severity.WARNING if is_late else None,
    )


FEW_STEPS: Final = 3
"""The minimum number of decode steps for a typical time."""
_LOOK: Final = ("iteration", "phase", "requests", "query_tokens", "duration_ns", "busy_pct")


def needs_server_steps(case: Case) -> str:
    """Require steps of an inference server with known phases."""
    return "" if _steps(case).height else "no steps of an inference server (annotations of vLLM or SGLang)"


def _steps(case: Case, *phases: str) -> pl.DataFrame:
    """Return the steps of the server in order, optionally of some phases only."""
    rows = serving_steps(case.profile).drop_nulls(["phase_by", "iteration", "duration_ns", "start_ns"]).sort("start_ns")
    return rows.filter(pl.col("phase").is_in(phases)) if phases else rows


@rule(
    "I11",
    "decode-launch-bound",
    Family.ITERATIONS,
    needs.start_times,
    needs_server_steps,
    link=ROOT_CAUSES,
)
def decode_launch_bound(case: Case) -> Verdict:
    """Decode is launch-bound: the GPU waits for the CPU within decode steps."""
    steps = _steps(case, DECODE).drop_nulls("busy_ns")
    if steps.is_empty():
        return NotApplicable("no decode steps")
    total_ns, busy = int_or_zero(steps["duration_ns"].sum()), int_or_zero(steps["busy_ns"].sum())
    idle_pct = 100 * (total_ns - busy) / total_ns if total_ns else 0.0
    replayed = _replaying_count(case, steps)
    numbers = {"steps": steps.height, "idle_pct": idle_pct, "idle_ns": total_ns - busy, "replayed": replayed}
    number = plural(steps.height, "decode step")
    graphs = f", {replayed if steps.height > 1 else 'which'} {'replay' if replayed > 1 else 'replays'} CUDA graphs"
    if idle_pct < case.limit("I11", "idle_pct"):
        busy_text = f"GPU busy {share_text(busy, total_ns)} of {number}"
        return Clean(f"decode is not launch-bound: {busy_text}{graphs if replayed else ''}", numbers)
    idle = f"GPU idle {share_text(total_ns - busy, total_ns)} of {number}"
    if replayed:
        problem = f"Decode is launch-bound although {_replaying_clause(replayed, steps.height)} CUDA graphs: {idle}."
        advice = (
            "Shorten the CPU's work between replays: inputs, sampling, scheduling (vLLM: --async-scheduling; SGLang: "
            "the overlap scheduler). Capture graphs for all batch sizes in use."
        )
    elif case.profile["api_calls"].is_empty():
        problem = f"{idle}. API calls are not recorded, so whether decode is launch-bound is unknown."
        advice = f"Check that the server captures CUDA graphs for decode {_CAPTURE}."
    else:
        graph_clause = "none of which replays" if steps.height > 1 else "without"
        problem = f"Decode is launch-bound: {idle}, {graph_clause} a CUDA graph."
        advice = f"Let the server capture CUDA graphs for decode {_CAPTURE}."
    return Found(
        problem,
        advice,
        numbers,
        total_ns - busy,
        "GPU idle time in decode steps",
        steps.sort("idle_ns", descending=True).select(*_LOOK, "idle_ns").head(10),
        "iterations",
    )


_CAPTURE: Final = "(vLLM: without --enforce-eager; SGLang: without --disable-cuda-graph)"


def _replaying_clause(replaying: int, steps: int) -> str:
    """Return how many steps replay graphs, as the subject of a sentence with its verb."""
    if replaying < steps:
        return f"{replaying:,} of {steps:,} steps replay"
    return "the step replays" if steps == 1 else "all steps replay"


def _replaying_count(case: Case, steps: pl.DataFrame) -> int:
    """Return how many steps replay CUDA graphs."""
    calls = case.calls_named(GRAPH_LAUNCHES, "session")
    if calls.is_empty() or case.profile.steps is None:
        return 0
    step_numbers = iteration_at(case.profile.steps, calls["session"], calls["start_ns"]).drop_nulls().unique()
    return steps.filter(pl.col("iteration").is_in(step_numbers.implode())).height


@rule(
    "I12",
    "prefill-delays-decode",
    Family.ITERATIONS,
    needs.start_times,
    needs_server_steps,
    link=ROOT_CAUSES,
)
def prefill_delays_decode(case: Case) -> Verdict:
    """Prefill steps delay requests that are decoding."""
    steps = _steps(case)
    decode = steps.filter(pl.col("phase") == DECODE)
    if decode.height < FEW_STEPS:
        return NotApplicable(f"fewer than {FEW_STEPS} decode steps")
    usual = int_or_zero(decode["duration_ns"].median())
    # A prefill step delays the decode steps around it.
    first, last = int_or_zero(decode["start_ns"].min()), int_or_zero(decode["start_ns"].max())
    is_between = (pl.col("start_ns") > first) & (pl.col("start_ns") < last)
    slow = steps.filter(
        (pl.col("phase") == MIXED) | ((pl.col("phase") == PREFILL) & is_between),
        pl.col("duration_ns") > case.limit("I12", "median") * usual,
    )
    lost = int_or_zero(slow["duration_ns"].sum()) - usual * slow.height
    total_ns = int_or_zero(steps["duration_ns"].sum())
    share = 100 * lost / total_ns if total_ns else 0.0
    numbers = {"steps": slow.height, "median_ns": usual, "delay_ns": lost, "delay_pct": share}
    if share < case.limit("I12", "delay_pct"):
        return Clean(f"prefill delays decode for {percent(share)} of the time of steps", numbers)
    longest = slow.sort("duration_ns", descending=True)
    return Found(
        f"Prefill delays decode: {plural(slow.height, 'step')} with prompts take up to "
        f"{duration(int_or_zero(longest['duration_ns'][0]))}; a decode step takes {duration(usual)}.",
        "Make the chunks of prefill smaller (vLLM: --max-num-batched-tokens; SGLang: --chunked-prefill-size), or "
        "prefill on other GPUs.",
        numbers,
        None,
        "none: prompts must be read; the delay is what single requests wait",
        longest.select(_LOOK).head(10),
        "iterations",
    )


@rule("I13", "gaps-between-steps", Family.ITERATIONS, needs.start_times, needs_server_steps, link=ROOT_CAUSES)
def gaps_between_steps(case: Case) -> Verdict:
    """The GPU idles while the server prepares the next step."""
    end = pl.col("start_ns") + pl.col("duration_ns")
    steps = _steps(case).with_columns((pl.col("start_ns").shift(-1) - end).clip(0).alias("gap_ns"))
    if steps.height < 2:
        return NotApplicable("only one step of the server")
    gaps = steps.filter(pl.col("gap_ns").is_between(1, case.limit("I13", "wait_ns")))
    lost = int_or_zero(gaps["gap_ns"].sum())
    span = int_or_zero((steps["start_ns"] + steps["duration_ns"]).max()) - int_or_zero(steps["start_ns"].min())
    share = 100 * lost / span if span else 0.0
    numbers = {"gaps": gaps.height, "gap_ns": lost, "gap_pct": share}
    if share < case.limit("I13", "gap_pct"):
        return Clean(f"gaps between steps take {percent(share)} of the time", numbers)
    return Found(
        f"Between steps the GPU waits for the CPU: {plural(gaps.height, 'gap')} take {percent(share)} of the time, "
        f"{duration(int_or_zero(gaps['gap_ns'].median()))} (median).",
        "Schedule the next step while this one runs (vLLM: --async-scheduling; SGLang: the overlap scheduler), and "
        "keep detokenization and sampling off the server's main thread.",
        numbers,
        lost,
        "time between steps; longer waits for requests are excluded",
        gaps.sort("gap_ns", descending=True).select(*_LOOK, "gap_ns").head(10),
        "iterations",
    )


@rule(
    "I14",
    "decode-communication",
    Family.ITERATIONS,
    needs.kernels,
    needs_server_steps,
    severity=Severity.INFO,
    link=HTA,
)
def decode_communication(case: Case) -> Verdict:
    """Collectives take much of the GPU time of decode steps."""
    steps = _steps(case, DECODE)
    if steps.is_empty():
        return NotApplicable("no decode steps")
    names = communication_kernels(case)["name"].cast(pl.String)
    step_work = case.profile["activities"].filter(pl.col("iteration").is_in(steps["iteration"].implode()))
    work = step_work.select(pl.col("name").cast(pl.String), "duration_ns").drop_nulls()
    communicating = work.filter(pl.col("name").is_in(names.implode()))
    total, comm = int_or_zero(work["duration_ns"].sum()), int_or_zero(communicating["duration_ns"].sum())
    share = 100 * comm / total if total else 0.0
    numbers = {"comm_ns": comm, "comm_pct": share, "steps": steps.height}
    if share < case.limit("I14", "comm_pct"):
        return Clean(f"communication takes {percent(share)} of the GPU time of decode steps", numbers)
    return Found(
        f"Collectives take {percent(share)} of the GPU time of {plural(steps.height, 'decode step')}.",
        "Messages of decode are small: use a custom or one-shot all-reduce, fuse it with the norm after it, or split "
        "the model over fewer GPUs.",
        numbers,
        comm,
        "GPU time of collectives in decode steps",
        communicating.group_by("name")
        .agg(pl.len().alias("calls"), pl.col("duration_ns").sum().alias("total_ns"))
        .sort("total_ns", "name", descending=[True, False])
        .head(10),
        "kernels",
        is_summed_over_gpus=True,
    )


@rule("I15", "graph-padding", Family.ITERATIONS, needs.shapes, needs_server_steps, severity=Severity.INFO)
def graph_padding(case: Case) -> Verdict:
    """CUDA graphs replay heavily padded batches."""
    steps = _steps(case).drop_nulls("query_tokens").filter(pl.col("query_tokens") > 0)
    captured = captured_tokens(case.profile).filter(pl.col("captured") > 1)
    rows = steps.join(captured, on=["session", "iteration"]).with_columns(
        (100 * (1 - pl.col("query_tokens") / pl.col("captured"))).clip(0).alias("padding_pct")
    )
    if rows.is_empty():
        return NotApplicable("the size that replayed graphs are captured for is not known: open the capture trace too")
    wide = rows.filter(pl.col("padding_pct") >= case.limit("I15", "padding_pct"))
    wide_ns, all_ns = int_or_zero(wide["duration_ns"].sum()), int_or_zero(rows["duration_ns"].sum())
    share = 100 * wide_ns / all_ns if all_ns else 0.0
    numbers = {"steps": wide.height, "steps_pct": share, "replaying": rows.height}
    if share < case.limit("I15", "steps_pct"):
        return Clean(f"steps with heavily padded graphs take {percent(share)} of the time of steps", numbers)
    worst = wide.sort("padding_pct", descending=True).row(0, named=True)
    return Found(
        f"{plural(wide.height, 'step')} replay graphs for larger batches: {worst['query_tokens']} tokens in a graph "
        f"for {worst['captured']}.",
        "Capture graphs for sizes in between (vLLM: --cudagraph-capture-sizes; SGLang: --cuda-graph-bs).",
        numbers,
        None,
        "none: a padded batch takes longer only where it is not bound by reading weights",
        wide.sort("padding_pct", descending=True).select(*_LOOK, "captured", "padding_pct").head(10),
        "iterations",
    )


@rule("I16", "kv-bandwidth", Family.ITERATIONS, needs.shapes, needs_server_steps)
def kv_bandwidth(case: Case) -> Verdict:
    """Attention of decode steps reads the cache of keys and values far below the memory bandwidth."""
    decode = _steps(case, DECODE).select("session", "iteration").unique()
    if decode.is_empty():
        return NotApplicable("no decode steps")
    attention = op_work(case.profile).filter(pl.col("op").cast(pl.String).str.contains(r"(?i)attention|flash_attn"))
    calls = attention.join(decode, on=["session", "iteration"], how="semi")
    if calls.is_empty():
        return NotApplicable("bytes of attention not known: that needs shapes, and steps that sum up their requests")
    if calls["roof_ns"].null_count():
        return NotApplicable("the peaks of this GPU are not known")
    gpu_ns, roof = int_or_zero(calls["gpu_ns"].sum()), float_or_zero(calls["roof_ns"].sum())
    step_work = case.profile["activities"].join(decode, on=["session", "iteration"], how="semi")
    share = 100 * gpu_ns / max(int_or_zero(step_work["duration_ns"].sum()), 1)
    rate = float_or_zero(calls["bytes"].sum()) / gpu_ns / 1e3
    numbers = {"roof_pct": 100 * roof / gpu_ns, "attention_pct": share, "tb_per_s": rate}
    if numbers["roof_pct"] >= case.limit("I16", "roof_pct") or share < case.limit("I16", "attention_pct"):
        return Clean(
            f"attention of decode steps runs at {percent(numbers['roof_pct'])} of the roofline and takes "
            f"{percent(share)} of their GPU time",
            numbers,
        )
    return Found(
        f"Attention of decode steps reads its cache at {percent(numbers['roof_pct'])} of the memory bandwidth "
        f"({rate:.3g} TB/s).",
        "Use an attention kernel that splits long requests over the GPU (FlashInfer, FlashDecoding), larger blocks of "
        "the cache, or more requests in a batch.",
        numbers,
        round(gpu_ns - roof),
        "GPU time of attention in decode steps over the roofline, inferred",
        calls.sort("gpu_ns", descending=True)
        .select("iteration", "op", "gpu_ns", "roof_ns", "roof_pct", "tb_per_s")
        .head(10),
        "roofline",
        is_summed_over_gpus=True,
    )


_SAMPLING: Final = r"^aten::(?:multinomial|exponential_|argmax|topk|sort|argsort|_?softmax|cumsum)$"
"""Ops that sample tokens."""


@rule("I17", "cpu-sampling", Family.ITERATIONS, needs.launches_linked, needs.ops, needs_server_steps)
def cpu_sampling(case: Case) -> Verdict:
    """Tokens are sampled on the CPU in and between steps."""
    steps = _steps(case)
    costs = op_instances(case.profile)
    ops = case.profile["ops"].with_columns(
        costs["launches"].alias("launched"), costs["gpu_total_ns"].fill_null(0).alias("on_gpu_ns")
    )
    first, last = int_or_zero(steps["start_ns"].min()), int_or_zero((steps["start_ns"] + steps["duration_ns"]).max())
    name = pl.col("name").cast(pl.String)
    sampling = ops.filter(
        name.str.contains(_SAMPLING),
        pl.col("start_ns").is_between(first, last),
        pl.col("launched").fill_null(0) == 0,
        pl.col("on_gpu_ns") == 0,
        pl.col("duration_ns") >= case.limit("I17", "op_ns"),
    )
    # Some of these ops call others of them.
    sampling_ns = row_intervals(sampling).length_ns
    share = 100 * sampling_ns / max(last - first, 1)
    numbers = {"ops": sampling.height, "cpu_ns": sampling_ns, "cpu_pct": share}
    if share < case.limit("I17", "cpu_pct"):
        return Clean(f"sampling on the CPU takes {percent(share)} of the time of steps", numbers)
    return Found(
        f"Tokens are sampled on the CPU: {plural(sampling.height, 'op')} without GPU work take {percent(share)} of "
        "the time of steps.",
        "Keep logits on the GPU and sample there (FlashInfer's sampling, or torch on the GPU); copy only the chosen "
        "tokens.",
        numbers,
        sampling_ns,
        "CPU time of ops that choose tokens and launch nothing",
        sampling.group_by(name.alias("op"))
        .agg(pl.len().alias("calls"), pl.col("duration_ns").sum().alias("total_ns"))
        .sort("total_ns", "op", descending=[True, False])
        .head(10),
        "ops-and-kernels",
    )
