"""Communication between GPUs: how much there is, and whether kernels hide it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total, whole
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called
from tui.analysis.gpu_time.communication import COMMUNICATION
from tui.analysis.ranks.waits import waits_of_ranks
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

NONE: Final = "no kernels of NCCL, RCCL or NVSHMEM ran"
_LESS: Final = "communicate less often (gradient accumulation, larger batches) or less (compression, half precision)."


def communication_of(case: Case) -> pl.DataFrame:
    """Kernels of communication by name, longest first."""
    return case.kernels.filter(pl.col("op_type") == COMMUNICATION)


def communicates(case: Case) -> str:
    """Kernels of communication with their times, none of them hidden in a graph that is recorded whole."""
    return needs.start_times(case) or needs.kernels(case)


@rule("C1", "comm-share", Family.COMMUNICATION, needs.gpu_work, needs.kernels, link=links.TENSORBOARD)
def much_communication(case: Case) -> Verdict:
    """Communication takes much of the time."""
    rows = communication_of(case)
    if rows.is_empty():
        return Clean(NONE)
    if case.span_ns:
        taken, of_what = case.together("comm_ns"), case.spans
        share = case.of_span(taken)
    else:
        taken, of_what = total(rows["total_ns"]), "GPU time"
        share = case.share(taken)
    numbers = {"comm_ns": taken, "comm_pct": share}
    if share <= case.limit("C1", "comm_pct"):
        return Clean(f"communication takes {percent(share)} of the {of_what}", numbers)
    return Found(
        f"Communication takes {duration(taken)}, {percent(share)} of the {of_what}; most of it "
        f"{called(rows['name'][0])}.",
        less_communication(case),
        numbers,
        case.together("exposed_comm_ns") if case.span_ns else taken,
        ("the part that no kernel hides" if case.span_ns else "all communication, hidden or not")
        + f", waits for other ranks included{case.together_words}",
        *_shown(case),
    )


def less_communication(case: Case) -> str:
    """What to do about communication: first of all about ranks that are waited for, whether they are open or not."""
    own = waits_of_ranks(case.whole).filter(session=case.session)
    if own.height and 2 * (waited := whole(own["comm_wait_ns"][0])) > own["all_comm_ns"][0]:
        last = f"{duration(waited)} of the communication is waiting for the last rank: look at that one first (C5)"
        return f"{last}. Else {_LESS}"
    if (case.about["world_size"] or 1) > 1 and case.whole["sessions"].height == 1:
        return (
            f"Open the recordings of all ranks together first: this one may wait for a slower rank (C5). Else {_LESS}"
        )
    return _LESS[0].upper() + _LESS[1:]


def _shown(case: Case) -> tuple[pl.DataFrame, str, str]:
    return behind(communication_of(case), "calls", "total_ns", "line")


@rule("C2", "exposed-comm", Family.COMMUNICATION, communicates, link=links.TRACELENS)
def exposed_communication(case: Case) -> Verdict:
    """Communication that no kernel hides."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    taken, exposed = case.together("comm_ns"), case.together("exposed_comm_ns")
    share, overlap = case.of_span(exposed), 100 * (taken - exposed) / taken if taken else 0.0
    numbers = {"exposed_ns": exposed, "exposed_pct": share, "overlap_pct": overlap}
    if share <= case.limit("C2", "exposed_pct") or overlap >= case.limit("C2", "overlap_pct"):
        return Clean(
            f"kernels hide {percent(overlap)} of the communication; "
            f"the rest takes {percent(share)} of the {case.spans}",
            numbers,
        )
    return Found(
        f"Communication runs alone for {duration(exposed)}, {percent(share)} of the {case.spans}: kernels hide "
        f"{percent(overlap)} of it.",
        "Begin communication while the backward pass still computes (DDP buckets, their size), in a stream of its own.",
        numbers,
        exposed,
        f"all of the time in which only communication ran{case.together_words}",
        *_shown(case),
    )


@rule("C3", "comm-stream", Family.COMMUNICATION, communicates, needs.streams, link=links.ROOT_CAUSES)
def communication_on_compute_stream(case: Case) -> Verdict:
    """Communication shares a stream with kernels that compute."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    streams = case.profile["activities"].select("device", "stream")
    mixed = pl.DataFrame(
        [
            (*streams.row(sequence.first_row), int(sequence.talks.sum()), len(sequence))
            for sequence in case.sequences
            if sequence.talks.any() and not sequence.talks.all()
        ],
        schema={"device": pl.Int32, "stream": pl.Int64, "communication": pl.Int64, "kernels": pl.Int64},
        orient="row",
    ).sort("communication", "stream", descending=[True, False])
    numbers = {"streams": mixed.height}
    if mixed.is_empty():
        return Clean("communication has streams of its own", numbers)
    if not case.found("C2"):
        return Clean("communication shares a stream with kernels, and is not exposed", numbers)
    return Found(
        f"Stream {mixed['stream'][0]} holds {mixed['communication'][0]:,} kernels of communication among "
        f"{mixed['kernels'][0]:,}: they cannot overlap.",
        "Put communication into a stream of its own.",
        numbers,
        None,
        "counted by C2",
        mixed,
        "kernels",
        _shown(case)[2],
    )


@rule("C4", "comm-ratio", Family.COMMUNICATION, communicates, severity=Severity.INFO, link=links.ROOT_CAUSES)
def computing_per_communication(case: Case) -> Verdict:
    """There is little computing for each communication."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    talking, computing = case.together("comm_ns"), case.together("compute_ns")
    if not talking:
        return CannotTell("the kernels of communication took no time")
    ratio = computing / talking
    numbers = {"ratio": ratio, "compute_ns": computing, "comm_ns": talking}
    if ratio >= case.limit("C4", "ratio"):
        return Clean(f"computing takes {ratio:.1f} times as long as communication", numbers)
    return Found(
        f"Computing takes {duration(computing)}, communication {duration(talking)}: {ratio:.2f} times as long.",
        "Give each GPU more to compute: larger batches, less tensor parallelism, fewer GPUs.",
        numbers,
        None,
        "counted by C2",
        *_shown(case),
        severity=Severity.WARNING if ratio < case.limit("C4", "critical") else None,
    )
