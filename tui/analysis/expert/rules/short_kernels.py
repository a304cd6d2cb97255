"""Kernels that are too short, or launched again and again where one launch would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called, counted, most_often, ranked, rounded, tallied
from tui.analysis.gpu_time.blocks import blocks
from tui.analysis.grouping import grouped
from tui.fmt import percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case
    from tui.analysis.expert.sequences import KernelSequence
    from tui.analysis.gpu_time.interval_sets import IntervalSet


@rule("A2", "short-kernels", Family.LAUNCHES, needs.gpu_work, needs.kernels, link=links.TRACELENS)
def short_kernels(case: Case) -> Verdict:
    """Most kernels are too short."""
    short = case.limit("A2", "short_ns")
    if case.profile["activities"].height:
        is_kernel, took = pl.col("kind") == "kernel", pl.col("duration_ns")
        work = case.profile["activities"].lazy()
        launches = int(work.select((is_kernel & took.is_not_null()).sum()).collect().item())
        brief = work.filter(took < short, is_kernel).select("name", "duration_ns").collect()
        sums = [pl.len().cast(pl.Int64).alias("launches"), pl.col("duration_ns").sum().alias("total_ns")]
        by_name = grouped(brief, ("name",), sums)
        number, taken, how = total(by_name["launches"]), total(by_name["total_ns"]), ""
    else:
        rows = case.kernels.drop_nulls("calls")
        launches = total(rows["calls"])
        few = rows.filter(pl.col("avg_ns") < short)
        number, taken, how = total(few["calls"]), total(few["total_ns"]), " on average"
        by_name = few.select("name", pl.col("calls").alias("launches"), "total_ns")
    if not launches:
        return CannotTell("the input does not say how often kernels ran")
    share, of_time = 100 * number / launches, case.share(taken)
    idle = case.of_span(total(case.busy["idle_ns"])) if case.span_ns else None
    numbers = {"short": number, "launches": launches, "short_pct": share, "time_pct": of_time, "idle_pct": idle}
    matters = case.limit("A2", "time_pct")
    if share <= case.limit("A2", "launches_pct") or (of_time <= matters and (idle is None or idle <= matters)):
        return Clean(
            f"{percent(share)} of {counted(launches, 'launch', 'launches')} take less than {rounded(short)}{how}: "
            f"{percent(of_time)} of the GPU time",
            numbers,
        )
    by_name = ranked(by_name, "launches", "total_ns")
    return Found(
        f"{number:,} of {counted(launches, 'launch', 'launches')} ({percent(share)}) take less than "
        f"{rounded(short)}{how}: {percent(of_time)} of the GPU time{most_often(by_name, 'launches')}.",
        f"Fuse short kernels ({case.compiler}, fused optimizers), replay them as a CUDA graph, or give each more work.",
        numbers,
        _idle_before(case, short) if case.span_ns else None,
        f"the idle time before them, without holes of {rounded(case.limit('U2', 'gap_ns'))} or more (U2)"
        f"{case.together_words}"
        if case.span_ns
        else "not estimated: the input has no start times",
        *behind(by_name),
    )


def _idle_before(case: Case, short: float) -> int:
    """How long GPUs idle right before short kernels, without holes so long that they have reasons of their own."""
    kernel, idle = case.is_kernel_timed, 0
    for line, holes in case.holes:
        for block in blocks(len(holes.after)):
            after, lengths = holes.after[block], holes.ends[block] - holes.starts[block]
            brief = (line.ends[after] - line.starts[after] < short) & kernel[line.rows_at(after)]
            idle += int(lengths[brief & (lengths < case.limit("U2", "gap_ns"))].sum())
    return idle


@rule(
    "A7", "mergeable", Family.LAUNCHES, needs.start_times, needs.kernels, severity=Severity.INFO, link=links.RATELPROF
)
def mergeable(case: Case) -> Verdict:
    """One short kernel runs many times in a row."""
    if not any((~sequence.talks).any() for sequence in case.sequences):
        return CannotTell("no kernels that compute ran")
    short, least = case.limit("A7", "short_ns"), int(case.limit("A7", "run"))
    work = case.profile["activities"].select("name", "line")
    runs = pl.concat([_runs(sequence, case.working(sequence.line), work, short, least) for sequence in case.sequences])
    taken = total(runs["duration_ns"])
    share = case.share(taken)
    numbers = {"runs": runs.height, "launches": total(runs["launches"]), "time_ns": taken, "time_pct": share}
    if share <= case.limit("A7", "time_pct"):
        return Clean(f"runs of one short kernel take {percent(share)} of the GPU time", numbers)
    by_name = ranked(tallied(runs, "runs", "launches", "duration_ns"), "duration_ns")
    first = by_name.row(0, named=True)
    return Found(
        f"{called(first['name'])} runs {first['launches'] / first['runs']:.0f} times in a row "
        f"({counted(first['runs'], 'such run')}); all runs of one short kernel take {percent(share)} of the GPU time.",
        "Replace runs of one kernel by one launch: batched or grouped GEMM, foreach and fused optimizers, one kernel "
        "over a list of tensors.",
        numbers,
        total(runs["idle_ns"]),
        f"the idle time of the GPU between the launches of these runs{case.together_words}",
        *behind(by_name),
    )


def _runs(sequence: KernelSequence, working: IntervalSet, work: pl.DataFrame, short: float, least: int) -> pl.DataFrame:
    """Runs of one short kernel in a stream: name, line, launches, duration_ns, idle_ns (without work of any stream).

    Args:
        sequence: The kernels of the stream; those that communicate make no runs.
        working: When the GPU had any work.
        work: name and line of each row of ``activities``.
        short: Kernels, and gaps between them, that are shorter make a run.
        least: So many of them.
    """
    names, starts, ends = sequence.names, sequence.starts, sequence.ends
    # Most kernels are followed by another one: only the few places where one goes on are looked at further.
    again = np.flatnonzero(names[1:] == names[:-1])
    goes_on = again[
        (starts[again + 1] - ends[again] < short) & (ends[again + 1] - starts[again + 1] < short)
        & (ends[again] - starts[again] < short)
        & ~sequence.talks[again]
    ]  # fmt: skip
    cuts = np.flatnonzero(np.diff(goes_on) > 1) + 1
    first = goes_on[np.concatenate(([0], cuts))] if len(goes_on) else goes_on
    last = goes_on[np.concatenate((cuts - 1, [-1]))] + 1 if len(goes_on) else goes_on
    long = last - first + 1 >= least
    first, last = first[long], last[long]
    sums = np.concatenate(([0], np.cumsum(ends - starts))) if len(first) else np.zeros(1, np.int64)
    rows = sequence.line.rows_at(sequence.places[first])
    return work.select(pl.all().gather(pl.Series(rows))).with_columns(
        pl.Series("launches", last - first + 1, pl.Int64),
        pl.Series("duration_ns", sums[last + 1] - sums[first], pl.Int64),
        pl.Series("idle_ns", ends[last] - starts[first] - working.within(starts[first], ends[last]), pl.Int64),
    )
