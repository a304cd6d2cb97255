"""Stretches in which a GPU has no work, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import EVIDENCE_ROWS, Clean, Family, Found, Verdict, rule
from tui.analysis.expert.rules.input_data import LOAD_FASTER, loading_within
from tui.analysis.expert.words import behind, called, counted, named, rounded
from tui.analysis.gpu_time.blocks import blocks
from tui.analysis.gpu_time.gaps import longest_gaps
from tui.analysis.gpu_time.host_calls import NO_CALL
from tui.analysis.launches.delays import launch_calls
from tui.fmt import duration, percent
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

_PAUSES: Final = pl.Schema({"device": pl.Int32, "start_ns": pl.Int64, "gap_ns": pl.Int64, "after": NAME})


@rule("U2", "gpu-gaps", Family.UTILISATION, needs.start_times, link=links.NSIGHT)
def long_gaps(case: Case) -> Verdict:
    """A GPU stands still for long."""
    least = case.limit("U2", "gap_ns")
    lengths = np.concatenate([holes.lengths for _, holes in case.holes])
    lengths = lengths[lengths >= least]
    holes, idle, longest = len(lengths), int(lengths.sum()), int(lengths.max(initial=0))
    share, of_one = case.of_span(idle), 100 * longest / case.span_ns
    numbers = {"holes": holes, "idle_ns": idle, "idle_pct": share, "longest_ns": longest, "longest_pct": of_one}
    many = holes >= case.limit("U2", "holes") and share >= case.limit("U2", "idle_pct")
    if not many and longest < case.limit("U2", "one_ns") and of_one < case.limit("U2", "one_pct"):
        return Clean(
            f"{counted(holes, 'hole')} of {rounded(least)} or more"
            + (f", the longest {duration(longest)}: {percent(of_one)} of the span" if holes else ""),
            numbers,
        )
    evidence = _with_lines(case, longest_gaps(case.profile, EVIDENCE_ROWS).filter(pl.col("duration_ns") >= least))
    first = evidence.row(0, named=True)
    host = _meanwhile(first["cpu_in"], first["call"])
    in_all = f"{percent(share)} of the {case.spans}"
    if holes > 1:
        in_all = (
            f"{duration(idle)} in all ({in_all}); the longest is {duration(longest)} "
            f"({percent(of_one)}{' of the span' if case.together_words else ''})"
        )
    else:
        in_all = f"{duration(idle)} ({in_all})"
    more = " and record API calls" if needs.api_trace(case) else ""
    return Found(
        f"{counted(holes, 'hole')} of {rounded(least)} or more between GPU work, {in_all}, before "
        f"{called(first['after'])}{host}.",
        _about_long_holes(
            case,
            "Look at what the program does in long holes (input, logging, checkpoints, allocation); name its phases "
            f"with NVTX ranges{more} to see it here.",
        ),
        numbers,
        idle,
        f"all of these holes{case.together_words}",
        evidence,
        "kernels",
        named(evidence["after"]),
    )


def _about_long_holes(case: Case, otherwise: str) -> str:
    """What to do about the holes that U2 counts: load input faster where that is what most of their time goes to."""
    lengths = loading = 0
    for _, holes in case.holes:
        long = holes.some(np.flatnonzero(holes.lengths >= case.limit("U2", "gap_ns"))).spans
        lengths, loading = lengths + long.length, loading + loading_within(case, long)
    if 2 * loading <= lengths:
        return otherwise
    return f"The program loads input data for {duration(loading)} of the long holes. {LOAD_FASTER}"


def _meanwhile(host: str | None, call: str | None) -> str:
    """What the CPU did in a gap, in words."""
    if host is None:
        return ""
    return "; meanwhile the CPU is in no API call" if host == NO_CALL else f"; meanwhile the CPU is in {called(call)}"


def _with_lines(case: Case, gaps: pl.DataFrame) -> pl.DataFrame:
    """Gaps as rows of evidence: start_ns, gap_ns, cpu_in and call (on the CPU), after (the work after it), line."""
    lines = case.profile["activities"].select("activity", "line")
    return gaps.join(lines, on="activity", how="left", maintain_order="left").select(
        "device",
        "start_ns",
        pl.col("duration_ns").alias("gap_ns"),
        "cpu_in",
        pl.when(pl.col("cpu_in") != NO_CALL).then("call").alias("call"),
        "after",
        "activity",
        "line",
    )


@rule("U6", "host-bound", Family.UTILISATION, needs.launches_linked, link=links.HTA)
def host_bound(case: Case) -> Verdict:
    """A GPU waits for the CPU to launch."""
    by_name = _late_by_name(case).sort("gap_ns", "name", descending=[True, False])
    idle, waits = min(total(by_name["gap_ns"]), case.span_of_all_ns), total(by_name["waits"])
    share = case.of_span(idle)
    long = min(total(by_name["long_ns"]), idle)
    numbers = {"host_wait_ns": idle, "host_wait_pct": share, "waits": waits, "long_ns": long}
    if share <= case.limit("U6", "host_wait_pct"):
        return Clean(
            f"{percent(share)} of the {case.spans} is spent idle before work that was not launched yet", numbers
        )
    return Found(
        f"GPUs idle for {duration(idle)} ({percent(share)} of the {case.spans}) before work that the CPU had not "
        f"launched yet: {counted(waits, 'time')}, most before {called(by_name['name'][0])}"
        + (
            f"; {duration(long)} of that is in holes of {rounded(case.limit('U2', 'gap_ns'))} or more." if long else "."
        ),
        f"Make launches cheaper or fewer: CUDA graphs, {case.compiler}, fused kernels, larger batches, less Python "
        "between."
        if 2 * long <= idle
        else _about_long_holes(case, "Look at the long holes first (U2): the program does something else there."),
        numbers,
        idle,
        f"all idle time before late launches{case.together_words}",
        *behind(by_name),
    )


def _late_by_name(case: Case) -> pl.DataFrame:
    """Gaps before work that had not been launched when the work before it had ended: name, waits, gap_ns, long_ns.

    The last is the part of ``gap_ns`` in gaps so long that U2 counts them.
    """
    least = case.limit("U2", "gap_ns")
    launch = launch_calls(case.profile)["launch_ns"].fill_null(-1).to_numpy()
    names = case.profile["activities"]["name"]
    parts = []
    for line, holes in case.holes:
        for block in blocks(len(holes.after)):
            rows, begun = line.rows_at(holes.after[block]), holes.starts[block]
            late = launch[rows] > begun
            gap_ns = (holes.ends[block] - begun)[late]
            parts.append(
                pl.DataFrame({"name": names.gather(pl.Series(rows[late])), "gap_ns": gap_ns})
                .group_by("name")
                .agg(
                    pl.len().cast(pl.Int64).alias("waits"),
                    pl.col("gap_ns").sum(),
                    pl.col("gap_ns").filter(pl.col("gap_ns") >= least).sum().alias("long_ns"),
                )
            )
    none = pl.DataFrame(schema={"name": NAME, "waits": pl.Int64, "gap_ns": pl.Int64, "long_ns": pl.Int64})
    return pl.concat([none, *parts]).group_by("name").sum()


@rule("U7", "micro-idle", Family.UTILISATION, needs.fine_clock)
def micro_gaps(case: Case) -> Verdict:
    """Many tiny gaps between GPU work."""
    most = case.limit("U7", "gap_ns")
    tiny = [holes.lengths[holes.lengths < most] for _, holes in case.holes]
    idle, number = sum(int(lengths.sum()) for lengths in tiny), sum(map(len, tiny))
    share = case.of_span(idle)
    numbers = {"gaps": number, "idle_ns": idle, "idle_pct": share}
    if share <= case.limit("U7", "idle_pct"):
        return Clean(f"gaps below {rounded(most)} take {percent(share)} of the {case.spans}", numbers)
    return Found(
        f"{counted(number, 'gap')} of less than {rounded(most)} take {duration(idle)}: {percent(share)} of the "
        f"{case.spans}.",
        "Fewer, larger kernels: capture the step in a CUDA graph, compile or fuse chains of small kernels.",
        numbers,
        idle,
        f"all of these gaps{case.together_words}",
        view="kernels",
        filter="kind=kernel",
    )


@rule("U9", "host-silent", Family.UTILISATION, needs.start_times, needs.api_trace, link=links.ADVISOR)
def silent_pauses(case: Case) -> Verdict:
    """GPU and API calls are both quiet: the program does something else."""
    least = case.limit("U9", "gap_ns")
    names = case.profile["activities"]["name"]
    parts = [pl.DataFrame(schema=_PAUSES)]
    for line, holes in case.holes:
        long = np.flatnonzero(holes.lengths >= least)
        if not len(long):
            continue
        starts, lengths = holes.starts[long], holes.lengths[long]
        inside = case.in_calls.within(starts, starts + lengths)
        calls = np.searchsorted(case.calls_begun, starts + lengths) - np.searchsorted(case.calls_begun, starts)
        quiet = (inside * 100 < case.limit("U9", "api_pct") * lengths) & (
            calls * case.limit("U9", "call_every_ns") < lengths
        )
        after = pl.Series(line.rows_at(holes.after[long[quiet]]))
        device = pl.Series([line.device] * len(after))
        columns = (device, starts[quiet], lengths[quiet], names.gather(after))
        parts.append(pl.DataFrame(dict(zip(_PAUSES, columns, strict=True)), schema=_PAUSES))
    pauses = pl.concat(parts).sort("gap_ns", "start_ns", descending=[True, False])
    if pauses.is_empty():
        return Clean(f"no hole of {rounded(least)} or more in which the CPU made no API calls either")
    idle = total(pauses["gap_ns"])
    longest = duration(pauses["gap_ns"][0])
    if pauses.height > 1:
        longest = f"{duration(idle)} in all; the longest is {longest}"
    return Found(
        f"{counted(pauses.height, 'pause')} of {rounded(least)} or more in which neither a GPU nor API calls were "
        f"active, {longest} at {duration(pauses['start_ns'][0])}.",
        "Look for garbage collection (gc.freeze), checkpoints, logging, locks or slow input in the pauses; CPU "
        "stacks show it.",
        {"pauses": pauses.height, "idle_ns": idle},
        idle,
        f"all of these pauses{case.together_words}",
        pauses,
        "kernels",
        named(pauses["after"].head(EVIDENCE_ROWS)),
    )
