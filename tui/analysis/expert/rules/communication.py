"""Communication between GPUs: its share, its overlap, message sizes, and ranks that wait for each other."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.collective_details import message_sizes
from tui.analysis.collectives import collectives, rank_waits, stragglers, unloaded_ranks_note
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    ADVISOR,
    HTA,
    ROOT_CAUSES,
    TENSORBOARD,
    TRACELENS,
    duration,
    evidence_by_name,
    float_or_zero,
    int_or_zero,
    known_sum,
    label,
    name_filter,
    percent,
    rate,
    share_text,
    size,
    sort_by_largest,
    totals_by_name,
)
from tui.analysis.expert.rule import Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.gpu_time.breakdown import collective_ranges
from tui.analysis.gpu_time.interval_sets import interval_union, row_intervals
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.gpu_time.timelines import COMMUNICATION, WorkKind, work_kinds
from tui.analysis.memo import once_per_profile
from tui.analysis.rank_summary import session_labels
from tui.text import begin_sentence, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet
    from tui.model.profile import Profile


NONE: Final = "no NCCL, RCCL or NVSHMEM kernels"
COLLECTIVES_UNKNOWN: Final = "the names of collectives on these GPUs are unknown"
_LESS_COMMUNICATION: Final = (
    "communicate less often (gradient accumulation, larger batch) or less (compression, half precision)."
)


def communication_kernels(case: Case) -> pl.DataFrame:
    """Return kernels of communication by name, longest first."""
    return case.kernels.filter(pl.col("op_type") == COMMUNICATION)


def no_communication(case: Case) -> Verdict:
    """Return the verdict on GPUs without kernels of communication: clean only if the names of these are known."""
    return Clean(NONE) if knows_collectives(case) else NotApplicable(COLLECTIVES_UNKNOWN)


def knows_collectives(case: Case) -> bool:
    """Return whether the names of collective operations on the GPUs are known."""
    return case.vendor in ("NVIDIA", "AMD", "Huawei")


def communication_ranges(case: Case) -> IntervalSet:
    """Return when collectives ran that are recorded as ranges."""
    return row_intervals(collective_ranges(case.profile))


def _communication_in_ranges(case: Case, during: IntervalSet) -> Verdict:
    """C1 of collectives that are recorded as ranges."""
    exposed = max(
        0, during.length_ns - sum((during & case.busy_intervals(timeline)).length_ns for timeline in case.gpu_timelines)
    )
    share = case.wall_pct(during.length_ns)
    numbers = {"comm_ns": during.length_ns, "comm_pct": share, "exposed_ns": exposed}
    if share <= case.limit("C1", "comm_pct"):
        return Clean(f"communication takes {percent(share)} of the {case.wall_words}", numbers)
    by_name = sort_by_largest(totals_by_name(collective_ranges(case.profile), "calls", "duration_ns"), "duration_ns")
    return Found(
        f"Communication takes {duration(during.length_ns)} ({percent(share)} of the {case.wall_words}), mostly "
        f"{label(by_name['name'][0])}.",
        less_communication(case),
        numbers,
        exposed,
        "the exposed part, waits for other ranks included",
        *evidence_by_name(by_name, view="ranges"),
    )


def needs_single_communication(case: Case) -> str:
    """Require communication kernels with their times, not hidden in graphs that are recorded whole."""
    return needs.start_times(case) or needs.kernels(case)


@rule("C1", "comm-share", Family.COMMUNICATION, needs.gpu_work, needs.kernels, link=TENSORBOARD)
def much_communication(case: Case) -> Verdict:
    """Communication takes much of the time."""
    rows = communication_kernels(case)
    if rows.is_empty() and (during := communication_ranges(case)).length_ns:
        return _communication_in_ranges(case, during)
    if rows.is_empty():
        return no_communication(case)
    if case.span_ns:
        communication_ns, basis = case.overlap_ns("comm_ns"), case.wall_words
        share = case.wall_pct(communication_ns)
    else:
        communication_ns, basis = known_sum(rows["total_ns"]), "GPU time"
        share = case.share(communication_ns)
    numbers = {"comm_ns": communication_ns, "comm_pct": share}
    if share <= case.limit("C1", "comm_pct"):
        return Clean(f"communication takes {percent(share)} of the {basis}", numbers)
    return Found(
        f"Communication takes {duration(communication_ns)} ({percent(share)} of the {basis}), mostly "
        f"{label(rows['name'][0])}.",
        less_communication(case),
        numbers,
        case.overlap_ns("exposed_comm_ns") if case.span_ns else communication_ns,
        ("the exposed part" if case.span_ns else "all communication, hidden or not")
        + ", waits for other ranks included",
        *_communication_evidence(case),
        cause=communication_cause(case),
        is_summed_over_gpus=True,
    )


def _waited_ns(case: Case) -> int:
    """Return how long this rank waits in collectives for the last one, if that is most of their time; else 0."""
    waits = rank_waits(case.full_profile).filter(session=case.session)
    waited_ns = int_or_zero(waits["comm_wait_ns"][0]) if waits.height else 0
    return waited_ns if waited_ns and 2 * waited_ns > waits["all_comm_ns"][0] else 0


def communication_cause(case: Case) -> Cause:
    """Return the cause of time in collectives: a rank that is a straggler, if most of it is waiting for one."""
    late = _late_rank(case) if _waited_ns(case) else None
    return Cause.RANKS if late is not None and late["session"] != case.session else Cause.COMMUNICATION


def _late_rank(case: Case) -> dict[str, Any] | None:
    """Return the row of `Stragglers.by_session` of the rank that the others wait for; None if there is none."""
    limits = (case.limit("C5", name) for name in ("last_pct", "times", "share_pct"))
    return _find_late_rank(*limits)(case.full_profile)


@lru_cache(maxsize=4)
def _find_late_rank(
    last_pct: float, min_times: float, min_share_pct: float
) -> Callable[[Profile], dict[str, Any] | None]:
    """Return a function that finds the late rank of a profile, memoized: every rank asks for it."""

    @once_per_profile("activities", "sessions")
    def find_late_rank(profile: Profile) -> dict[str, Any] | None:
        answer = stragglers(profile, long_pct=last_pct)
        if not answer.matched or not answer.long or answer.by_session.is_empty():
            return None
        first = answer.by_session.row(0, named=True)
        is_late = first["times"] >= min_times and 100 * first["times"] >= min_share_pct * answer.iterations
        return first if is_late else None

    return find_late_rank


def less_communication(case: Case) -> str:
    """Return advice on communication: first about ranks that the others wait for."""
    if (waited_ns := _waited_ns(case)) and case.session is not None:
        rank = begin_sentence(session_labels(case.full_profile)[case.session])
        straggler_advice = f"{rank} waits {duration(waited_ns)} for the last rank: look at the last rank first (C5)"
        return f"{straggler_advice}. Otherwise {_LESS_COMMUNICATION}"
    ranks = case.session_row["world_size"]
    if (ranks or 2) > 1 and case.full_profile["sessions"].height == 1 and case.busy.height < 2:
        all_ranks_advice = (
            "Open all ranks together first" if ranks else "If other ranks were recorded, open all together first"
        )
        return f"{all_ranks_advice}: this one may wait for a slower rank (C5). Otherwise {_LESS_COMMUNICATION}"
    return _LESS_COMMUNICATION[0].upper() + _LESS_COMMUNICATION[1:]


def _communication_evidence(case: Case) -> tuple[pl.DataFrame, str, str]:
    return evidence_by_name(communication_kernels(case), "calls", "total_ns", "line")


@rule("C2", "exposed-comm", Family.COMMUNICATION, needs_single_communication, link=TRACELENS)
def exposed_communication(case: Case) -> Verdict:
    """Exposed communication: no kernel overlaps with it."""
    if communication_kernels(case).is_empty():
        ranges = communication_ranges(case).length_ns
        return NotApplicable("collectives are recorded as ranges: see C1") if ranges else no_communication(case)
    communication_ns, exposed = case.overlap_ns("comm_ns"), case.overlap_ns("exposed_comm_ns")
    share, overlap = (
        case.wall_pct(exposed),
        100 * (communication_ns - exposed) / communication_ns if communication_ns else 0.0,
    )
    numbers = {"exposed_ns": exposed, "exposed_pct": share, "overlap_pct": overlap}
    if share <= case.limit("C2", "exposed_pct") or overlap >= case.limit("C2", "overlap_pct"):
        return Clean(
            f"kernels hide {percent(overlap)} of the communication; the rest is {percent(share)} of the "
            f"{case.wall_words}",
            numbers,
        )
    return Found(
        f"Exposed communication takes {duration(exposed)} ({percent(share)} of the {case.wall_words}). "
        + (f"Kernels hide {percent(overlap)} of all communication." if overlap else "No kernel overlaps with it."),
        "Send and receive in a stream of their own while other kernels compute."
        if "sendrecv" in str(communication_kernels(case)["name"][0]).lower()
        else "Start communication during the backward pass (DDP bucket size), in a stream of its own.",
        numbers,
        exposed,
        "all of the time in which only communication ran",
        *_communication_evidence(case),
        cause=communication_cause(case),
        is_summed_over_gpus=True,
    )


@rule("C3", "comm-stream", Family.COMMUNICATION, needs_single_communication, needs.streams, link=ROOT_CAUSES)
def communication_on_compute_stream(case: Case) -> Verdict:
    """Communication shares a stream with compute kernels."""
    if communication_kernels(case).is_empty():
        return no_communication(case)
    streams = case.profile["activities"].select("device", "stream")
    mixed = pl.DataFrame(
        [
            (*streams.row(sequence.first_row), int(sequence.is_communication.sum()), len(sequence))
            for sequence in case.sequences
            if sequence.is_communication.any() and not sequence.is_communication.all()
        ],
        schema={"device": pl.Int32, "stream": pl.Int64, "communication": pl.Int64, "kernels": pl.Int64},
        orient="row",
    ).sort("communication", "stream", descending=[True, False])
    numbers = {"streams": mixed.height}
    kernel_count = sum(int(sequence.is_communication.sum()) for sequence in case.sequences)
    if 100 * known_sum(mixed["communication"]) < case.limit("C3", "kernels_pct") * kernel_count:
        return Clean("communication has streams of its own", numbers)
    if not case.has_finding("C2"):
        return Clean("communication shares a stream with kernels, but is not exposed", numbers)
    return Found(
        f"Stream {mixed['stream'][0]} runs both communication ({mixed['communication'][0]:,} of "
        f"{mixed['kernels'][0]:,} kernels) and computing, which cannot overlap.",
        "Put communication into a stream of its own.",
        numbers,
        None,
        "counted by C2",
        mixed,
        "kernels",
        _communication_evidence(case)[2],
    )


@rule(
    "C4",
    "comm-ratio",
    Family.COMMUNICATION,
    needs_single_communication,
    severity=Severity.INFO,
    link=ROOT_CAUSES,
)
def computing_per_communication(case: Case) -> Verdict:
    """Little computing per communication."""
    if communication_kernels(case).is_empty():
        return no_communication(case)
    communication, computing = case.overlap_ns("comm_ns"), case.overlap_ns("compute_ns")
    if not communication:
        return NotApplicable("communication kernels have no durations")
    ratio = computing / communication
    numbers = {"ratio": ratio, "compute_ns": computing, "comm_ns": communication}
    if ratio >= case.limit("C4", "ratio"):
        return Clean(f"computing takes {ratio:.1f}x as long as communication", numbers)
    return Found(
        f"Computing takes {duration(computing)}, communication {duration(communication)}: a ratio of {ratio:.2f}.",
        "Give each GPU more to compute: larger batch, less tensor parallelism, fewer GPUs.",
        numbers,
        None,
        "counted by C2",
        *_communication_evidence(case),
        severity=Severity.WARNING if ratio < case.limit("C4", "critical") else None,
        cause=communication_cause(case),
    )


MIN_EACH: Final = 5
"""The minimum number of collectives, both overlapped and alone, to compare their rates."""


def sized_collectives(case: Case) -> pl.DataFrame:
    """Return collectives whose size is recorded: activity, name, device, start_ns, duration_ns, line, bytes."""
    rows = case.profile["activities"].filter(pl.col("arguments").is_not_null())
    sizes = message_sizes(rows["arguments"]).filter(pl.col("message_bytes") > 0)
    return (
        rows.join(sizes, on="arguments", how="inner", maintain_order="left")
        .filter(pl.col("duration_ns") > 0)
        .select("activity", "name", "device", "start_ns", "duration_ns", "line", bytes="message_bytes")
    )


def needs_message_sizes(case: Case) -> str:
    """Require sizes of messages."""
    missing = needs_single_communication(case)
    if missing or communication_kernels(case).is_empty():
        return missing
    return "" if sized_collectives(case).height else "message sizes are not recorded"


@rule("C8", "tiny-messages", Family.COMMUNICATION, needs_message_sizes, severity=Severity.INFO, link=ADVISOR)
def tiny_messages(case: Case) -> Verdict:
    """Collectives move little at a time."""
    if communication_kernels(case).is_empty():
        return no_communication(case)
    rows = sized_collectives(case)
    small = rows.filter(pl.col("bytes") < case.limit("C8", "message_bytes"))
    share = 100 * small.height / rows.height
    numbers = {"small": small.height, "messages": rows.height, "small_pct": share}
    if share <= case.limit("C8", "messages_pct"):
        return Clean(f"{percent(share)} of {plural(rows.height, 'message is', 'messages are')} small", numbers)
    by_name = small.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("messages"),
        pl.col("bytes").mean().alias("mean_bytes"),
        pl.col("duration_ns").sum(),
    )
    by_name = sort_by_largest(by_name, "messages")
    return Found(
        f"{percent(share)} of {plural(rows.height, 'collective moves', 'collectives move')} less than "
        f"{size(int(case.limit('C8', 'message_bytes')))}, mostly {label(by_name['name'][0])} with "
        f"{size(int(by_name['mean_bytes'][0]))} on average.",
        "Use larger buckets (bucket_cap_mb of DDP), gradient accumulation, or coarser sharding.",
        numbers,
        known_sum(small["duration_ns"]),
        "all of these collectives, waits for other ranks included",
        *evidence_by_name(by_name),
        is_summed_over_gpus=True,
    )


@rule("C9", "contention", Family.COMMUNICATION, needs_message_sizes, severity=Severity.INFO, link=ADVISOR)
def contention(case: Case) -> Verdict:
    """Communication is slower while kernels compute."""
    if communication_kernels(case).is_empty():
        return no_communication(case)
    frames = []
    for timeline in case.gpu_timelines:
        computes = timeline.take(work_kinds(case.profile)) == WorkKind.COMPUTE
        compute = interval_union(timeline.starts[computes], timeline.ends[computes])
        rows = (
            sized_collectives(case)
            .filter(pl.col("device").eq_missing(pl.lit(timeline.device, pl.Int32)))
            .drop_nulls("start_ns")
        )
        start = rows["start_ns"].to_numpy()
        overlapped_ns = compute.covered_within(start, start + rows["duration_ns"].to_numpy())
        frames.append(
            rows.with_columns(pl.Series("beside", 2 * overlapped_ns > rows["duration_ns"].to_numpy(), pl.Boolean))
        )
    rows = pl.concat(frames)
    rates = (
        rows.group_by("name", "bytes")
        .agg(
            pl.col("duration_ns").filter("beside").median().alias("beside_ns"),
            pl.col("duration_ns").filter(~pl.col("beside")).median().alias("alone_ns"),
            pl.col("beside").sum().alias("beside"),
            (~pl.col("beside")).sum().alias("alone"),
        )
        .filter(pl.col("beside") >= MIN_EACH, pl.col("alone") >= MIN_EACH)
        .with_columns((100 * pl.col("alone_ns") / pl.col("beside_ns")).alias("rate_pct"))
        .sort("rate_pct", "bytes")
    )
    if rates.is_empty():
        return NotApplicable("not enough data: too few messages of one size with and without computing")
    worst = rates.row(0, named=True)
    numbers = {"rate_pct": worst["rate_pct"], "bytes": worst["bytes"]}
    if worst["rate_pct"] >= case.limit("C9", "rate_pct"):
        reached_pct = percent(min(worst["rate_pct"], 100.0))
        return Clean(f"while kernels compute, messages reach {reached_pct} of their rate alone", numbers)
    alone = 1e9 * worst["bytes"] / worst["alone_ns"]
    return Found(
        f"{label(worst['name'])} of {size(worst['bytes'])} reaches {rate(alone * worst['rate_pct'] / 100)} while "
        f"kernels compute, {rate(alone)} alone.",
        "Compare step times with and without overlap. Fewer channels (NCCL_MAX_CTAS) leave more SMs for computing.",
        numbers,
        int((worst["beside_ns"] - worst["alone_ns"]) * worst["beside"]),
        "what these messages take longer than alone, waits for other ranks included",
        rates,
        "kernels",
        name_filter([worst["name"]]),
        is_summed_over_gpus=True,
    )


def needs_several_ranks(case: Case) -> str:
    """Require at least two sessions that communicate."""
    if collectives(case.profile)["session"].n_unique() < 2:
        return "needs two ranks or more: open their profiles together"
    return ""


@rule("C5", "straggler", Family.COMMUNICATION, needs_several_ranks, needs.iterations, link=HTA, across=True)
def straggler(case: Case) -> Verdict:
    """The other ranks wait for one of them."""
    answer = stragglers(case.profile, long_pct=case.limit("C5", "last_pct"))
    if not answer.matched:
        return NotApplicable(answer.unknown_reason)
    if not answer.long:
        return Clean("no straggler: no collective takes long")
    if answer.by_session.is_empty():
        min_wait = f"{case.limit('C5', 'last_pct'):g}% of a mean iteration"
        return Clean(f"no straggler: no rank waits for more than {min_wait} in the collectives of any iteration")
    first, steps = answer.by_session.row(0, named=True), plural(answer.iterations, "iteration")
    numbers = {
        "session": first["session"],
        "times": first["times"],
        "iterations": answer.iterations,
        "wait_ns": first["wait_ns"],
    }
    rank_label = session_labels(case.profile)[first["session"]]
    if _late_rank(case) is None:
        when = f"most often, in {first['times']} of {steps}"
        if answer.iterations == 1:
            when = "in the only iteration with long collectives"
        return Clean(f"no straggler: {rank_label} arrives last {when}", numbers)
    names, incomplete_note = (
        collectives(case.profile)["name"].unique(maintain_order=True),
        unloaded_ranks_note(case.profile),
    )
    others = [name for session, name in session_labels(case.profile).items() if session != first["session"]]
    waiting = f"{others[0]} waits" if len(others) == 1 else "the others wait"
    return Found(
        f"{rank_label[0].upper()}{rank_label[1:]} is the straggler: it arrives last in {first['times']} of {steps}, "
        f"and {waiting} "
        f"up to {duration(first['wait_ns'])} in total."
        + (
            f" {incomplete_note[0].upper()}{incomplete_note[1:]}: another may be slower still."
            if incomplete_note
            else ""
        ),
        _straggler_advice(case, first["session"], rank_label, first["wait_ns"]),
        numbers,
        first["wait_ns"],
        "longest minus shortest time of a rank in these collectives",
        answer.by_session.select("session", "times", "wait_ns"),
        "kernels",
        name_filter(names),
    )


def _straggler_advice(case: Case, session: int, rank_label: str, wait_ns: int) -> str:
    """Return what to examine in a rank that the others wait for: the kernel that explains most of it."""
    is_straggler = pl.col("session") == session
    others = case.profile["sessions"].height - 1
    extra_ns = pl.col("total_ns").filter(is_straggler).sum() - pl.col("total_ns").filter(~is_straggler).sum() / max(
        others, 1
    )
    largest_excess = case.computing.group_by("name").agg(extra_ns.alias("extra_ns")).top_k(1, by="extra_ns")
    if largest_excess.height and 2 * largest_excess["extra_ns"][0] >= wait_ns:
        kernel, longer = label(largest_excess["name"][0]), duration(largest_excess["extra_ns"][0])
        reference = "the other rank" if others == 1 else "the other ranks on average"
        return f"Check why {rank_label} runs {kernel} {longer} longer than {reference}: its input, data shard or code."
    return f"Check what {rank_label} does longer: its input, its share of the data, other work on its host, its clocks."


@rule("C7", "rank-spread", Family.COMMUNICATION, needs_several_ranks, link=ADVISOR, across=True)
def rank_spread(case: Case) -> Verdict:
    """Ranks have unequal work."""
    communicating = collectives(case.profile)["session"].unique()
    table = (
        overlap(case.profile)
        .filter(pl.col("session").is_in(communicating.implode()))
        .group_by("session")
        .agg(pl.col("compute_ns", "exposed_comm_ns", "idle_ns").sum(), pl.col("total_span_ns").max().alias("span_ns"))
        .sort("compute_ns", "session", descending=[True, False])
    )
    computing, mean = table["compute_ns"], float_or_zero(table["compute_ns"].mean())
    if not known_sum(computing):
        return NotApplicable("no rank computes")
    spread = 100 * (computing[0] - computing[-1]) / mean
    numbers = {"spread_pct": spread, "ranks": table.height}
    if spread <= case.limit("C7", "spread_pct"):
        return Clean(f"compute times of ranks differ by {percent(spread)}", numbers)
    names = session_labels(case.profile)
    return Found(
        f"Compute times of ranks differ by {percent(spread)} of the mean: {names[table['session'][0]]} "
        f"{duration(computing[0])}, {names[table['session'][-1]]} {duration(computing[-1])}.",
        "Rebalance batches, experts or stages. The profiles have to cover the same iterations.",
        numbers,
        int(computing[0] - mean),
        "what the rank with most work computes beyond the mean",
        table,
        "gpus",
    )


def step_parts(case: Case) -> str:
    """Return the profiler's breakdown of steps, for a run whose kernels have no times."""
    if case.steps.is_empty():
        return "only Ascend's step_trace_time.csv has the parts of steps"
    return "start times are recorded: C1 and U1 use them" if case.span_ns else ""


def step_share_text(case: Case, part_ns: float) -> str:
    """Format a part of the steps: its share, its time and the total."""
    ranks = _ranks(case).height
    share, _, times = share_text(part_ns, known_sum(case.steps["total_ns"])).partition(" ")
    return f"{share} of the step time {f'of {ranks} ranks ' if ranks > 1 else ''}{times}"


def _ranks(case: Case) -> pl.DataFrame:
    """Return the rows of `Case.steps` that belong to a rank."""
    return case.steps.filter(pl.col("name").str.contains("rank "))


@rule("C10", "step-communication", Family.COMMUNICATION, step_parts, link=ADVISOR)
def step_communication(case: Case) -> Verdict:
    """Exposed communication takes much of the steps."""
    steps, total_ns = case.steps, known_sum(case.steps["total_ns"])
    exposed, computing = known_sum(steps["exposed_comm_ns"]), known_sum(steps["compute_ns"])
    share = 100 * exposed / total_ns
    numbers = {"exposed_ns": exposed, "exposed_pct": share, "compute_ns": computing}
    if share <= case.limit("C10", "exposed_pct"):
        return Clean(f"exposed communication takes {step_share_text(case, exposed)}", numbers)
    late_rank = _rank_waited_for(case)
    return Found(
        f"Exposed communication takes {step_share_text(case, exposed)}, computing "
        f"{percent(100 * computing / total_ns)}.",
        f"Look at {late_rank['name']} first: the others wait for it (C11). Otherwise {_LESS_COMMUNICATION}"
        if late_rank
        else _LESS_COMMUNICATION[0].upper() + _LESS_COMMUNICATION[1:],
        numbers,
        exposed,
        "all exposed communication, waits for other ranks included",
        steps.sort("exposed_comm_ns", descending=True, maintain_order=True),
        view="tool-report",
    )


def _rank_waited_for(case: Case) -> dict[str, Any] | None:
    """Return the rank that waits least, if the others wait much longer: they wait for it."""
    ranks = _ranks(case)
    if ranks.height < 2:
        return None
    shortest = ranks.sort("exposed_comm_ns", maintain_order=True).row(0, named=True)
    spread = int_or_zero(ranks["exposed_comm_ns"].max()) - shortest["exposed_comm_ns"]
    is_far = 100 * spread > case.limit("C11", "spread_pct") * float_or_zero(ranks["total_ns"].mean())
    return shortest if is_far else None


@rule("C11", "step-straggler", Family.COMMUNICATION, step_parts, link=ADVISOR)
def step_straggler(case: Case) -> Verdict:
    """The others wait for one rank."""
    ranks = _ranks(case)
    if ranks.height < 2:
        return NotApplicable("the steps of one rank: open cluster_step_trace_time.csv")
    late_rank = _rank_waited_for(case)
    if late_rank is None:
        return Clean("all ranks communicate about as long")
    others = ranks.filter(pl.col("name") != late_rank["name"])["exposed_comm_ns"]
    lost = known_sum(others - late_rank["exposed_comm_ns"])
    numbers = {"wait_ns": lost, "least_ns": late_rank["exposed_comm_ns"], "most_ns": int_or_zero(others.max())}
    mean = float_or_zero(ranks["compute_ns"].mean())
    name = str(late_rank["name"]).removeprefix("step ")
    is_slow = late_rank["compute_ns"] > mean * (1 + case.limit("C11", "spread_pct") / 100)
    sentence = (
        f"It computes for {duration(late_rank['compute_ns'])}, the mean is {duration(mean)}."
        if is_slow
        else "It computes as long as they do, but neither computes nor communicates for "
        f"{duration(late_rank['free_ns'])}."
    )
    return Found(
        f"The other ranks wait for {name}: its exposed communication takes {duration(late_rank['exposed_comm_ns'])}, "
        f"theirs up to {duration(int_or_zero(others.max()))}. {sentence}",
        f"Check {name}: its share of the data, its device."
        if is_slow
        else f"Record {name} with CPU activities and check its input, its launches and its host.",
        numbers,
        lost,
        "what the others communicate longer than this rank",
        ranks.sort("exposed_comm_ns", maintain_order=True),
        view="tool-report",
    )
