"""Idle time of GPUs: its share, its gaps, and the concurrent CPU activity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis import needs as data_needs
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    ADVISOR,
    HTA,
    NSIGHT,
    SAGEMAKER,
    TENSORBOARD,
    VISUAL_PROFILER,
    duration,
    evidence_by_name,
    float_or_zero,
    gpu_label,
    int_or_zero,
    known_sum,
    label,
    name_filter,
    percent,
    select_iterations_advice,
    share_text,
)
from tui.analysis.expert.in_use import fewer_launches, larger_batch, larger_kernels
from tui.analysis.expert.rule import EVIDENCE_ROWS, Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.blocking_calls import idle_after_waits, longest_waits
from tui.analysis.expert.rules.communication import (
    communication_cause,
    communication_ranges,
    less_communication,
    step_parts,
    step_share_text,
)
from tui.analysis.expert.rules.framework import load_faster, loading_within
from tui.analysis.expert.rules.launch_costs import WAITING_KERNELS, late_by_name, launch_waits
from tui.analysis.expert.rules.one_time_costs import (
    ONE_TIME,
    as_start_up,
    idle_before_first_kernel,
    loading_and_captures,
    longest_start_up_call,
    steady_iterations,
    steady_iterations_advice,
    warm_start,
)
from tui.analysis.expert.rules.short_kernels import short_kernel_cause
from tui.analysis.gpu_time.breakdown import CHUNKS, low_utilization, utilization_in_chunks
from tui.analysis.gpu_time.host_calls import NO_CALL
from tui.analysis.gpu_time.idle_gaps import longest_gaps
from tui.analysis.gpu_time.interval_sets import interval_union, row_intervals
from tui.analysis.gpu_time.timelines import COMMUNICATION
from tui.analysis.needs import Tool
from tui.model.schema import NAME
from tui.text import plural

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet
    from tui.analysis.gpu_time.timelines import Timeline


_PAUSES: Final = pl.Schema({"device": pl.Int32, "start_ns": pl.Int64, "gap_ns": pl.Int64, "after": NAME})


@rule("U2", "gpu-gaps", Family.UTILIZATION, needs.kernel_starts, link=NSIGHT)
def long_gaps(case: Case) -> Verdict:
    """Long gaps between GPU work."""
    min_ns = case.limit("U2", "gap_ns")
    lengths = np.concatenate([gaps.lengths_ns for _, gaps in case.device_gaps])
    lengths = lengths[lengths >= min_ns]
    number, idle, longest = len(lengths), int(lengths.sum()), int(lengths.max(initial=0))
    share, longest_pct = case.wall_pct(idle), 100 * longest / case.wall_ns
    numbers = {"gaps": number, "idle_ns": idle, "idle_pct": share, "longest_ns": longest, "longest_pct": longest_pct}
    has_many = number >= case.limit("U2", "gaps") and share >= case.limit("U2", "idle_pct")
    if not has_many and longest < case.limit("U2", "one_ns") and longest_pct < case.limit("U2", "one_pct"):
        return Clean(
            f"{plural(number, 'gap')} of {duration(min_ns)} or more"
            + (f"; the longest is {duration(longest)}, {percent(longest_pct)} of the wall time" if number else ""),
            numbers,
        )
    evidence = _gap_evidence(case, longest_gaps(case.profile, EVIDENCE_ROWS).filter(pl.col("duration_ns") >= min_ns))
    first = evidence.row(0, named=True)
    running = _running_in(case, first["start_ns"], first["gap_ns"]) if first["cpu_in"] == NO_CALL else ""
    cause, advice, sentence = _long_gap_cause(case, _long_gap_advice(case, first["cpu_in"], running))
    return Found(
        f"GPU idle {duration(idle)} ({percent(share)} of the {case.wall_words}) in "
        f"{plural(number, 'gap')} of {duration(min_ns)} or more. "
        f"{f'The longest, {duration(longest)},' if number > 1 else 'It'} is before {label(first['after'])}"
        f"{_cpu_clause(case, first['cpu_in'], first['call'], running)}. {sentence}".rstrip(),
        advice,
        numbers,
        idle,
        "all of these gaps",
        evidence,
        "kernels",
        name_filter(evidence["after"]),
        cause=cause,
        is_summed_over_gpus=True,
    )


def _long_gap_cause(case: Case, default_advice: str) -> tuple[str, str, str]:
    """Return the main cause of long gaps, by time, what to do about it, and a sentence on what happens in them."""
    gap_sets = [
        gaps.take(np.flatnonzero(gaps.lengths_ns >= case.limit("U2", "gap_ns"))).intervals
        for _, gaps in case.device_gaps
    ]
    lengths = sum(gaps_.length_ns for gaps_ in gap_sets)
    if (start := warm_start(case)) is not None:
        first, warm_ns, last = start
        if 2 * sum(int(gaps_.covered_before(np.array([warm_ns]))[0]) for gaps_ in gap_sets) > lengths:
            return Cause.START_UP, steady_iterations_advice(case, first, last), ""
    start_up_ns = sum(
        idle_before_first_kernel(case, timeline, gaps_)
        for (timeline, _), gaps_ in zip(case.device_gaps, gap_sets, strict=True)
    )
    if 2 * start_up_ns > lengths:
        return Cause.START_UP, ONE_TIME, f"{duration(start_up_ns)} of it is before the first kernel."
    communicating = sum((communication_ranges(case) & gaps_).length_ns for gaps_ in gap_sets)
    if 2 * communicating > lengths:
        return Cause.COMMUNICATION, less_communication(case), ""
    loading = sum(loading_within(case, gaps_) for gaps_ in gap_sets)
    if 2 * loading > lengths:
        return Cause.INPUT, f"{load_faster(case)} Input loading takes {duration(loading)} of the idle time.", ""
    if needs.api_trace(case):
        return Cause.IDLE, default_advice, ""
    loads, captures = (sum((calls & gaps_).length_ns for gaps_ in gap_sets) for calls in loading_and_captures(case))
    if 2 * max(loads, captures) > lengths:
        if loads >= captures:
            sentence, advice = f"For {duration(loads)} of it the CPU loaded kernels.", "Warm up before you measure."
        else:
            sentence = f"For {duration(captures)} of it the CPU captured graphs."
            advice = "Graphs are captured once, at start-up: record the run after it."
        return Cause.START_UP, f"{advice} {_later_iterations_advice(case)}".strip(), sentence
    queued = sum(int(gaps_.queued_ns[gaps_.is_long].sum()) for gaps_ in launch_waits(case))
    if 2 * queued > lengths:
        return Cause.DELAYS, WAITING_KERNELS, f"For {duration(queued)} of it the next kernel was already launched."
    return Cause.PAUSES, default_advice, ""


def _later_iterations_advice(case: Case) -> str:
    """Return how to select the iterations after the first, if they have GPU work."""
    steps = case.iterations
    if steps.height < 2 or case.profile.aggregation.is_part or not known_sum(steps["gpu_ns"][1:]):
        return ""
    return f"Or look at the others: {select_iterations_advice(steps['iteration'][1], steps['iteration'][-1])}."


def _record_cpu_advice(case: Case) -> str:
    """Return how to record what the CPU does while a GPU is idle; empty if unknown."""
    advice = case.missing.get(data_needs.API_TRACE.name, "").partition(": ")[2]
    return f"To see what the CPU does in the gaps, {advice}." if advice.startswith(("record", "export")) else ""


_RANGES: Final = {
    Tool.PYTORCH: "record_function ranges",
    Tool.ASCEND: "record_function ranges",
    Tool.XLA: "TraceAnnotation ranges",
}
"""The ranges with which a program names its phases for each recording tool; the others take those of the vendor."""


def _running_in(case: Case, start_ns: int, gap_ns: int) -> str:
    """Return the innermost op or range that runs for most of a gap, for a sentence; empty if there is none."""
    end_ns = pl.col("start_ns") + pl.col("duration_ns")
    overlap = pl.min_horizontal(end_ns, start_ns + gap_ns) - pl.max_horizontal(pl.col("start_ns"), start_ns)
    rows = [
        case.profile[frame].filter(condition, end_ns.is_not_null(), 2 * overlap > gap_ns).select("name", "duration_ns")
        for frame, condition in (("ops", pl.lit(True)), ("ranges", pl.col("iteration").is_null()))
    ]
    innermost = pl.concat(rows, how="vertical_relaxed").sort("duration_ns").head(1)
    return label(innermost["name"][0]) if innermost.height else ""


def _long_gap_advice(case: Case, host: str | None, running: str) -> str:
    """Return how to find out why a long gap is there, by what the CPU did in the longest."""
    if running:
        return f"Check what {running} does on the CPU in the longest gap."
    if host not in (None, NO_CALL):
        return "Check why this call takes long: it waits, allocates, or launches a kernel for the first time."
    ranges = _RANGES.get(case.tool, "NVTX ranges" if case.vendor else "Ranges")
    names = f"{ranges} name it." if needs.api_trace(case) == "" else f"{ranges} and recorded API calls name it."
    return f"Check what the CPU does during the longest gap: input, logging, checkpoints, allocation. {names}"


def _cpu_clause(case: Case, host: str | None, call: str | None, running: str) -> str:
    """Return a text about what the CPU did in a gap."""
    if host != NO_CALL:
        return f"; the CPU was in {label(call)}" if host else ""
    return f"; the CPU was outside {case.api_name} calls{running and f', mostly in {running}'}"


def _gap_evidence(case: Case, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return gaps as evidence: start_ns, gap_ns, cpu_in and call (on the CPU), after (the work after it), line."""
    source_lines = case.profile["activities"].select("activity", "line")
    return gaps.join(source_lines, on="activity", how="left", maintain_order="left").select(
        "device",
        "start_ns",
        pl.col("duration_ns").alias("gap_ns"),
        "cpu_in",
        pl.when(pl.col("cpu_in") != NO_CALL).then("call").alias("call"),
        "after",
        "activity",
        "line",
    )


@rule("U6", "host-bound", Family.UTILIZATION, needs.launches_linked, link=HTA)
def host_bound(case: Case) -> Verdict:
    """A GPU waits for the CPU to launch."""
    by_name = late_by_name(case).sort("gap_ns", "name", descending=[True, False])
    idle, waits = min(known_sum(by_name["gap_ns"]), case.total_span_ns), known_sum(by_name["waits"])
    share = case.wall_pct(idle)
    long_ns = min(known_sum(by_name["long_ns"]), idle)
    numbers = {"host_wait_ns": idle, "host_wait_pct": share, "waits": waits, "long_ns": long_ns}
    bound_text = "partly launch-bound" if share >= case.limit("U6", "partly_pct") else "not launch-bound"
    if share <= case.limit("U6", "host_wait_pct"):
        return Clean(f"{bound_text}: GPU idle {percent(share)} of the {case.wall_words} waiting for launches", numbers)
    default_advice = (
        "Look at the long gaps first (U2)."
        if case.has_finding("U2")
        else "Check what the program does in the long gaps."
    )
    cause, advice, _ = _long_gap_cause(case, default_advice)
    problem = (
        f"GPU idle {duration(idle)} ({percent(share)} of the {case.wall_words}) waiting for launches: "
        f"{plural(waits, 'time')}, most often before {label(by_name['name'][0])}."
    ) + (f" Gaps of {duration(case.limit('U2', 'gap_ns'))} or more are {duration(long_ns)} of it." if long_ns else "")
    is_mostly_long = 2 * long_ns > idle
    synchronizing = row_intervals(longest_waits(case))
    if not is_mostly_long and 2 * idle_after_waits(case, synchronizing) > idle:
        return Found(
            f"{problem} Most of it follows synchronizing calls: while the CPU waits, it launches nothing ahead.",
            "Wait less first: see A1 for the calls.",
            numbers,
            None,
            "counted by A1",
            *evidence_by_name(by_name),
            cause=Cause.WAITS,
        )
    return Found(
        problem,
        advice if is_mostly_long else fewer_launches(case),
        numbers,
        idle,
        "all idle time before launches that came late",
        *evidence_by_name(by_name),
        cause=cause if is_mostly_long else "",
        is_summed_over_gpus=True,
    )


@rule("U7", "micro-idle", Family.UTILIZATION, needs.fine_clock)
def micro_gaps(case: Case) -> Verdict:
    """Many tiny gaps between GPU work."""
    max_ns = case.limit("U7", "gap_ns")
    tiny = [gaps.lengths_ns[gaps.lengths_ns < max_ns] for _, gaps in case.device_gaps]
    idle, number = sum(int(lengths.sum()) for lengths in tiny), sum(map(len, tiny))
    share = case.wall_pct(idle)
    numbers = {"gaps": number, "idle_ns": idle, "idle_pct": share}
    if share <= case.limit("U7", "idle_pct"):
        return Clean(f"gaps below {duration(max_ns)} are {percent(share)} of the {case.wall_words}", numbers)
    in_graphs = " Most kernels are replayed by CUDA graphs, which leave such gaps." if case.in_use.cuda_graphs else ""
    return Found(
        f"GPU idle {duration(idle)} ({percent(share)} of the {case.wall_words}) in {plural(number, 'gap')} below "
        f"{duration(max_ns)}.{in_graphs}",
        larger_kernels(case, are_launches_late=not case.is_clean("U6")),
        numbers,
        idle,
        "all of these gaps",
        view="kernels",
        filter="kind=kernel",
        cause=short_kernel_cause(case),
        is_summed_over_gpus=True,
    )


@rule("U9", "host-silent", Family.UTILIZATION, needs.kernel_starts, needs.api_trace, link=ADVISOR)
def silent_pauses(case: Case) -> Verdict:
    """Neither the GPU nor CUDA calls are active."""
    min_ns = case.limit("U9", "gap_ns")
    names = case.profile["activities"]["name"]
    frames = [pl.DataFrame(schema=_PAUSES)]
    for timeline, gaps in case.device_gaps:
        gap_indices = np.flatnonzero(gaps.lengths_ns >= min_ns)
        if not len(gap_indices):
            continue
        starts, lengths = gaps.starts[gap_indices], gaps.lengths_ns[gap_indices]
        in_calls_ns = case.in_calls.covered_within(starts, starts + lengths)
        calls = np.searchsorted(case.call_starts, starts + lengths) - np.searchsorted(case.call_starts, starts)
        is_silent = (in_calls_ns * 100 < case.limit("U9", "api_pct") * lengths) & (
            calls * case.limit("U9", "call_every_ns") < lengths
        )
        next_rows = pl.Series(timeline.rows_at(gaps.next_work[gap_indices[is_silent]]))
        device = pl.Series([timeline.device] * len(next_rows))
        columns = (device, starts[is_silent], lengths[is_silent], names.gather(next_rows))
        frames.append(pl.DataFrame(dict(zip(_PAUSES, columns, strict=True)), schema=_PAUSES))
    pauses = pl.concat(frames).sort("gap_ns", "start_ns", descending=[True, False])
    if pauses.is_empty():
        return Clean(f"no gap of {duration(min_ns)} or more without API calls")
    idle, longest = known_sum(pauses["gap_ns"]), pauses.row(0, named=True)
    start_up_ns = 0
    if (start := warm_start(case)) is not None:
        ends = pl.min_horizontal(pl.col("start_ns") + pl.col("gap_ns"), start[1])
        start_up_ns = int_or_zero(pauses.select((ends - pl.col("start_ns")).clip(0).sum()).item())
    starts_ns = pauses["start_ns"].to_numpy()
    loading = loading_within(case, interval_union(starts_ns, starts_ns + pauses["gap_ns"].to_numpy()))
    cause, advice = "", "Check for garbage collection (gc.freeze), checkpoints, logging, locks or slow input."
    if start is not None and 2 * start_up_ns > idle:
        cause, advice = Cause.START_UP.value, steady_iterations_advice(case, start[0], start[2])
    elif 2 * loading > idle:
        cause = Cause.INPUT.value
        advice = f"{load_faster(case)} Input loading takes {duration(loading)} of the idle time."
    elif (gap_cause := _long_gap_cause(case, advice))[0] in (Cause.DELAYS, Cause.START_UP):
        cause, advice, _ = gap_cause
    return Found(
        f"The GPU and {case.api_name} calls were both idle for {duration(idle)} in "
        f"{plural(pauses.height, 'pause')} of {duration(min_ns)} or more. "
        + (f"The longest, {duration(longest['gap_ns'])}, starts at " if pauses.height > 1 else "It starts at ")
        + f"{duration(longest['start_ns'])}.",
        advice,
        {"pauses": pauses.height, "idle_ns": idle},
        idle,
        "all of these pauses",
        pauses,
        "kernels",
        name_filter(pauses["after"].head(EVIDENCE_ROWS)),
        cause=cause,
        is_summed_over_gpus=True,
    )


FINE_CHUNKS: Final = 100
MIN_USE_DIVISOR: Final = 10
"""A GPU is hardly used if its busy time is below that of the busiest GPU divided by this."""
FEW_GAPS: Final = 10
"""If this number of gaps is most of the idle time, the GPU does not wait for launches."""


@rule("U1", "gpu-low-util", Family.UTILIZATION, needs.kernel_starts, link=TENSORBOARD)
def low_gpu_utilization(case: Case) -> Verdict:
    """A GPU is busy for too little of the time."""
    begin, end = case.wall
    wall = end - begin
    rows = (
        case.busy.with_columns(
            (100 * pl.col("busy_ns") / wall).alias("busy_pct"),
            (wall - pl.col("busy_ns")).alias("idle_ns"),
            pl.lit(wall).alias("wall_ns"),
        )
        .sort("busy_pct", "device")
        .select("device", "busy_pct", "busy_ns", "idle_ns", "wall_ns")
    )
    # A GPU with little work of its own is not one that waits: U5 compares them.
    worst = rows.filter(pl.col("busy_ns") * MIN_USE_DIVISOR >= pl.col("busy_ns").max()).row(0, named=True)
    busy, gpu = worst["busy_pct"], gpu_label(worst["device"], rows.height)
    gpu = "GPU" if rows.height == 1 else f"{gpu[0].upper()}{gpu[1:]}"
    numbers = {"busy_pct": busy, "busy_ns": worst["busy_ns"], "wall_ns": wall, "device": worst["device"]}
    busy_text = f"{gpu} busy {share_text(worst['busy_ns'], wall)}"
    if busy >= case.limit("U1", "enough_pct"):
        return Clean(busy_text, numbers)
    cause = _idle_cause(case, worst["device"])
    return Found(
        f"{busy_text}. {cause.sentence}".strip(),
        cause.advice,
        numbers,
        worst["idle_ns"],
        "all of its idle time",
        rows,
        "gpus",
        severity=None if busy < case.limit("U1", "busy_pct") else Severity.INFO,
        cause=cause.cause,
    )


@dataclass(frozen=True, slots=True)
class _IdleCause:
    """Why a GPU was idle."""

    sentence: str
    """A sentence about the largest part of the idle time."""
    advice: str
    cause: str = ""
    """The cause, if it is another than the rule's own."""


def _idle_cause(case: Case, device: int | None) -> _IdleCause:
    """Return why a GPU was idle for most of the time in which it was."""
    timeline = next(timeline for timeline in case.gpu_timelines if timeline.device == device)
    busy = case.busy_intervals(timeline)
    idle = busy.gaps(*case.wall)
    for explain in (_collectives, _start_up, _shut_down, _input_data, _long_gaps_in_all):
        if (cause := explain(case, timeline, idle)) is not None:
            return cause
    return _short_gaps(case, idle)


def _collectives(case: Case, timeline: Timeline, idle: IntervalSet) -> _IdleCause | None:
    """Return collectives that are recorded as ranges as the cause."""
    communicating = (communication_ranges(case) & idle).length_ns
    if 2 * communicating <= idle.length_ns:
        return None
    sentence = f"For {duration(communicating)} of the idle time collectives ran, which are not recorded as kernels."
    return _IdleCause(sentence, less_communication(case), Cause.COMMUNICATION)


def _start_up(case: Case, timeline: Timeline, idle: IntervalSet) -> _IdleCause | None:
    """Return start-up as the cause: iterations that warm up, or the time before the first kernel."""
    if (start := warm_start(case)) is not None:
        first, warm_ns, last = start
        start_up_ns = int(idle.covered_before(np.array([warm_ns]))[0])
        if 2 * start_up_ns > idle.length_ns:
            sentence = (
                f"For {duration(start_up_ns)} of the idle time the run was starting up, before iteration {first}. "
                f"{_busy_when_warm(case, timeline, first, last)}"
            )
            return _IdleCause(sentence, steady_iterations_advice(case, first, last), Cause.START_UP)
    start_up_ns = idle_before_first_kernel(case, timeline, idle)
    if 2 * start_up_ns <= idle.length_ns:
        return None
    first_ns = int(timeline.starts[0])
    sentence = f"{duration(start_up_ns)} of the idle time is before the first kernel."
    if 2 * (first_ns - case.wall[0]) > idle.length_ns:
        call = longest_start_up_call(case, first_ns)
        sentence = f"For {duration(first_ns - case.wall[0])} of the idle time no GPU work had started yet." + (
            f" {call}." if call else ""
        )
    return _IdleCause(sentence, ONE_TIME, Cause.START_UP)


def _busy_when_warm(case: Case, timeline: Timeline, first: int, last: int) -> str:
    """Return how busy a GPU is in the iterations to look at, as a sentence."""
    first, last = steady_iterations(case, first, last)
    rows = case.iterations.filter(pl.col("iteration").is_between(first, last))
    begin, end = int_or_zero(rows["start_ns"].min()), int_or_zero((rows["start_ns"] + rows["duration_ns"]).max())
    busy_ns = int(case.busy_intervals(timeline).covered_within(np.array([begin]), np.array([end]))[0])
    return f"In iterations {first} to {last} the GPU is busy {share_text(busy_ns, end - begin)}."


def _shut_down(case: Case, timeline: Timeline, idle: IntervalSet) -> _IdleCause | None:
    """Return shutdown as the cause."""
    last_ns = int(case.busy_intervals(timeline).ends[-1])
    shut_down_ns = case.wall[1] - last_ns
    if 2 * shut_down_ns <= idle.length_ns:
        return None
    sentence = f"For {duration(shut_down_ns)} of the idle time the CPU kept running after the last GPU work."
    after_ns = pl.col("start_ns") + pl.col("duration_ns") - last_ns
    steps = case.iterations.filter(pl.col("start_ns") <= last_ns, 2 * after_ns > shut_down_ns)
    if case.iterations_note or steps.is_empty():
        return _IdleCause(sentence, "Shutdown is a one-time cost. Exclude it from comparisons.", Cause.START_UP)
    advice = f"Check what the program does after its GPU work in iteration {steps['iteration'][0]}."
    return _IdleCause(sentence, advice, Cause.PAUSES)


def _input_data(case: Case, timeline: Timeline, idle: IntervalSet) -> _IdleCause | None:
    """Return the data loader as the cause."""
    loading = loading_within(case, idle)
    if 2 * loading <= idle.length_ns:
        return None
    sentence = f"For {duration(loading)} of the idle time it waited for input data."
    return _IdleCause(sentence, load_faster(case), Cause.INPUT)


def _long_gaps_in_all(case: Case, timeline: Timeline, idle: IntervalSet) -> _IdleCause | None:
    """Return the cause of long gaps, if they are most of the idle time."""
    min_ns = case.limit("U2", "gap_ns")
    lengths = idle.ends - idle.starts
    long_lengths = lengths[lengths >= min_ns]
    if 2 * int(long_lengths.sum()) <= idle.length_ns:
        return None
    is_in_calls = 2 * (case.in_calls & idle).length_ns > idle.length_ns
    longest = int(np.argmax(lengths))
    running = "" if is_in_calls else _running_in(case, int(idle.starts[longest]), int(lengths[longest]))
    cause, advice, sentence = _long_gap_cause(case, _long_gaps_advice(case, running, in_calls=is_in_calls))
    if not sentence and not needs.api_trace(case):
        in_longest = f"; in the longest gap it was mostly in {running}" if running else ""
        sentence = f"The CPU was mostly {'in' if is_in_calls else 'outside'} {case.api_name} calls{in_longest}."
    in_gaps = f"{plural(len(long_lengths), 'gap')} of {duration(min_ns)} or more"
    return _IdleCause(
        f"{duration(int(long_lengths.sum()))} of the idle time is in {in_gaps}. {sentence}".strip(), advice, cause
    )


def _short_gaps(case: Case, idle: IntervalSet) -> _IdleCause:
    """Return the cause of many short gaps: late launches, or kernels that are too short."""
    if needs.api_trace(case):
        batch_advice = f"If kernels are launched late, give each more work{larger_batch(case)}."
        return _IdleCause(
            "API calls are not recorded, so the reason is unknown.",
            f"{_record_cpu_advice(case)} {batch_advice}".strip(),
            Cause.IDLE,
        )
    launches = [(int(waits.late_ns.sum()), int(waits.gap_ns.sum())) for waits in launch_waits(case)]
    late_ns, gap_ns = (sum(column) for column in zip((0, 0), *launches, strict=True))
    if 2 * late_ns < gap_ns:
        return _IdleCause(
            "Most of the idle time is between kernels that were launched ahead.",
            larger_kernels(case, are_launches_late=False),
            Cause.SHORT_KERNELS,
        )
    in_calls = (case.in_calls & idle).length_ns
    if 2 * in_calls > idle.length_ns:
        return _IdleCause(
            f"For {duration(in_calls)} of the idle time the CPU was in {case.api_name} calls.",
            f"{fewer_launches(case)} Avoid synchronize calls in the loop.",
        )
    return _IdleCause(
        f"For {duration(idle.length_ns - in_calls)} of the idle time the CPU was outside {case.api_name} calls.",
        f"{fewer_launches(case)} Move input and logging off the launching thread.",
    )


def _long_gaps_advice(case: Case, running: str, *, in_calls: bool) -> str:
    """Return how to find out why long gaps are there, by what the CPU did in most of them."""
    if needs.api_trace(case):
        return f"Look at the longest gaps first. {_record_cpu_advice(case)}".strip()
    if running:
        return f"Check what {running} does on the CPU in the longest gap."
    if in_calls:
        return (
            "Look at the longest gaps first: the CPU waits, allocates memory, or launches kernels for the first time."
        )
    return "Look at the longest gaps first: input, logging, checkpoints, or other work of the CPU."


@rule("U3", "util-chunks", Family.UTILIZATION, needs.kernel_starts, severity=Severity.INFO, link=NSIGHT)
def low_stretches(case: Case) -> Verdict:
    """A GPU is little used in parts of the run."""
    if reason := case.short_span_reason(CHUNKS):
        return NotApplicable(reason)
    min_pct = case.limit("U3", "busy_pct")
    stretches = (
        low_utilization(case.profile, min_pct)
        .select("device", "start_ns", "duration_ns", "busy_pct", idle_ns=pl.col("duration_ns") - pl.col("busy_ns"))
        .sort("idle_ns", "device", "start_ns", descending=[True, False, False])
    )
    if stretches.is_empty():
        return Clean(f"every GPU is busy {min_pct:g}% or more in each of {CHUNKS} equal parts of the run")
    worst, idle = stretches.row(0, named=True), known_sum(stretches["idle_ns"])
    numbers = {"stretches": stretches.height, "idle_ns": idle, "busy_pct": worst["busy_pct"]}
    if case.wall_pct(idle) < case.limit("U3", "idle_pct"):
        return Clean(
            f"stretches in which the GPU is little used cost {percent(case.wall_pct(idle))} of the {case.wall_words}",
            numbers,
        )
    cause = _stretches_cause(case)
    if known_sum(stretches["duration_ns"]) >= case.total_span_ns:
        gpus = "GPU" if case.busy.height == 1 else "Every GPU"
        return Found(
            f"{gpus} busy less than {min_pct:g}% in each of {CHUNKS} equal parts of the run.",
            "The whole run is like this: see U1 for the reason.",
            numbers,
            None,
            "counted by U1",
            stretches,
            "gpus",
            cause=cause,
        )
    return Found(
        f"GPU busy less than {min_pct:g}% in {plural(stretches.height, 'stretch', 'stretches')} of the run. "
        f"The idlest starts at {duration(worst['start_ns'])}: busy {percent(worst['busy_pct'])} of "
        f"{duration(worst['duration_ns'])}.",
        "Exclude start-up and shutdown from comparisons. Check what the program does in the other stretches.",
        numbers,
        idle,
        "the idle time in these stretches",
        stretches,
        "gpus",
        cause=cause,
        is_summed_over_gpus=True,
    )


def _stretches_cause(case: Case) -> str:
    """Return why the GPU is little used: as U1 or U2 found, else whether it waits in a few gaps or in many."""
    for rule_id in ("U1", "U2"):
        if case.has_finding(rule_id):
            return case.cause(rule_id)
    lengths = np.concatenate([gaps.lengths_ns for _, gaps in case.device_gaps] or [np.zeros(0, np.int64)])
    longest = int(np.sort(lengths)[-FEW_GAPS:].sum())
    if 2 * longest <= int(lengths.sum()):
        return short_kernel_cause(case)
    return Cause.IDLE if needs.api_trace(case) else Cause.PAUSES


@rule("U8", "low-compute", Family.UTILIZATION, needs.gpu_work, link=VISUAL_PROFILER)
def low_compute(case: Case) -> Verdict:
    """The GPU is busy, but not with computing."""
    if case.is_table_cut:
        return NotApplicable("rows of the printed table are missing")
    if not case.kernel_ns:
        return NotApplicable("no kernels are recorded")
    if case.span_ns:
        compute, busy, basis = case.overlap_ns("compute_ns"), case.overlap_ns("busy_ns"), "of its busy time"
    else:
        compute = known_sum(case.computing["total_ns"]) + case.kind_time_ns("graph", "memset")
        busy, basis = case.gpu_ns, "of all GPU time"
    if not busy:
        return NotApplicable("durations of GPU work are not recorded")
    share = 100 * compute / busy
    numbers = {"compute_pct": share, "compute_ns": compute, "busy_ns": busy}
    if share >= case.limit("U8", "compute_pct"):
        if missing := needs.copies_recorded(case):
            return NotApplicable(missing)
        return Clean(f"the GPU computes for {percent(share)} {basis}", numbers)
    other_work = case.work.filter(pl.col("kind").is_in(["memcpy", "um"]) | (pl.col("op_type") == COMMUNICATION))
    first = other_work.row(0, named=True) if other_work.height else None
    communicates = first is not None and first["op_type"] == COMMUNICATION
    finding = Found(
        f"The GPU computes for only {percent(share)} {basis}"
        + (f". {label(first['name'])} takes {duration(first['total_ns'])}." if first else "."),
        less_communication(case) if communicates else "Keep data on the device, and overlap copies with kernels.",
        numbers,
        busy - compute,
        "all busy time without a kernel that computes",
        *evidence_by_name(other_work, "calls", "total_ns"),
        cause=communication_cause(case) if communicates else "",
        is_summed_over_gpus=True,
    )
    return finding if communicates else as_start_up(case, finding, case.copies)


@rule("U10", "fluctuating", Family.UTILIZATION, needs.kernel_starts, severity=Severity.INFO, link=SAGEMAKER)
def fluctuating(case: Case) -> Verdict:
    """GPU use comes in bursts."""
    if reason := case.short_span_reason(FINE_CHUNKS):
        return NotApplicable(reason)
    use = pl.col("busy_pct")
    fluctuations = (
        utilization_in_chunks(case.profile, FINE_CHUNKS)
        .group_by("device")
        .agg(
            use.quantile(0.05, "linear").alias("p5_pct"),
            use.median().alias("p50_pct"),
            use.quantile(0.95, "linear").alias("p95_pct"),
        )
        .sort(pl.col("p5_pct") - pl.col("p95_pct"), "device")
    )
    worst = fluctuations.row(0, named=True)
    low, high = float_or_zero(worst["p5_pct"]), float_or_zero(worst["p95_pct"])
    gpu = gpu_label(worst["device"], fluctuations.height)
    numbers = {name: worst[name] for name in ("p5_pct", "p50_pct", "p95_pct")}
    if high < case.limit("U10", "high_pct") or low >= case.limit("U10", "low_pct"):
        return Clean(
            f"{gpu} is busy {percent(low)} to {percent(high)} (p5 to p95 of {FINE_CHUNKS} equal parts)",
            numbers,
        )
    return Found(
        f"GPU work comes in bursts: {gpu} is busy {percent(low)} to {percent(high)} (p5 to p95 of {FINE_CHUNKS} equal "
        "parts of the run).",
        "Check in Iterations whether input, synchronization or checkpoints interrupt the GPU work.",
        numbers,
        None,
        "not estimated: the idle time is counted by the rules on gaps",
        fluctuations,
        "gpus",
        cause=_stretches_cause(case),
    )


@rule("U11", "step-idle", Family.UTILIZATION, step_parts, link=ADVISOR)
def idle_steps(case: Case) -> Verdict:
    """The device neither computes nor communicates for much of the steps."""
    total_ns, free = known_sum(case.steps["total_ns"]), known_sum(case.steps["free_ns"])
    share = 100 * free / total_ns
    numbers = {"free_ns": free, "free_pct": share}
    if share <= case.limit("U11", "free_pct"):
        return Clean(f"free for {step_share_text(case, free)}", numbers)
    return Found(
        f"Devices neither compute nor communicate for {step_share_text(case, free)}.",
        "Launch more work at a time (larger batch) and load input ahead. Record the timeline to see what the CPU does.",
        numbers,
        free,
        "all of this time",
        case.steps.sort("free_ns", descending=True, maintain_order=True),
        view="tool-report",
    )
