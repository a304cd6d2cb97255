"""What the launching thread waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.rules.launch_calls import LAUNCH_CALLS
from tui.analysis.expert.words import behind, called, counted, largest, named, ranked, rounded, tallied
from tui.analysis.gpu_time.blocks import Reached, blocks
from tui.analysis.gpu_time.interval_sets import EMPTY, spans_of
from tui.analysis.gpu_time.timelines import classes_of
from tui.analysis.inputs import needs as held
from tui.fmt import duration, percent

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet

WAITS: Final = r"(?i)(?:device|stream|event|ctx|thread)_?synchronize"
ANY_WAIT: Final = "(?i)synchronize"
COLLECTIONS: Final = r"(?i)^(?:python\s*)?gc(?:$|\W|\.collect)|garbage"


@rule("A1", "sync-calls", Family.LAUNCHES, needs.gpu_work, needs.api_work, link=links.ROOT_CAUSES)
def waits(case: Case) -> Verdict:
    """The CPU waits for the GPU in synchronizing calls."""
    rows, longest = case.api_named(WAITS), EMPTY
    single = case.calls_named(WAITS, "pid", "tid", "line")
    threads = single.partition_by("pid", "tid", maintain_order=True) if single.height else []
    if threads:
        longest, of_thread = max(((spans_of(part), part) for part in threads), key=lambda found: found[0].length)
        by_name = tallied(of_thread, "calls", "duration_ns").rename({"duration_ns": "total_ns"})
        rows = ranked(by_name.with_columns(pl.col("name").cast(pl.String)), "total_ns")
    taken = longest.length if threads else total(rows["total_ns"])
    share = case.share(taken)
    lost = _idle_after(case, longest) if threads and case.span_ns else None
    numbers = {"wait_ns": taken, "share_pct": share, "calls": total(rows["calls"]), "idle_ns": lost}
    if share > 100 and not threads:
        return CannotTell(
            f"the calls add up to {duration(taken)}, more than the GPU time, as where several threads wait, and the "
            f"input holds totals alone: {case.lacks.get(held.API_TRACE.name, '').partition(': ')[2]}"
        )
    if share < case.limit("A1", "share_pct") or taken < case.limit("A1", "least_ns"):
        return Clean(f"waits take {duration(taken)}, {percent(share)} of the GPU time", numbers)
    first = rows.row(0, named=True)
    # From totals nobody can tell waiting for a GPU that works from keeping it waiting.
    small = lost is None or 100 * lost <= case.limit("A1", "idle_pct") * case.span_ns
    bound = small and lost is not None and 10 * lost <= taken
    after = (
        " Whether a GPU idles after them the input does not tell."
        if lost is None
        else f" A GPU idles for {duration(lost)} right after them."
    )
    return Found(
        f"{called(first['name'])} and the like keep {'a thread' if threads else 'the CPU'} waiting for "
        f"{duration(taken)}, {percent(share)} of the GPU time: {counted(first['calls'] or 0, 'call')} of the first."
        + (" The GPU has work until they end and soon after: it is what is waited for." if bound else after),
        "Hardly anything is lost: the GPU has work meanwhile; shorten its kernels."
        if bound
        else "Wait with events and stream waits instead; .item(), .cpu() and print wait too: read results back later.",
        numbers,
        lost,
        "not estimated: work on the GPU goes on while the CPU waits"
        if lost is None
        else "the idle time of a GPU right after each wait, which is no longer than the wait itself",
        *behind(rows, "calls", "total_ns", "line", view="api-calls"),
        Severity.INFO if small else None,
    )


def _idle_after(case: Case, waits: IntervalSet) -> int:
    """How much sooner work could have come without some waits, ns: of the GPU of which that is most.

    A wait that ends while the GPU has work delays nothing. One that ends in a hole made the program late by what it
    took itself, and the GPU by no more than the hole.
    """
    lost = [0]
    for _, holes in case.holes:
        if not len(holes.starts):
            continue
        at = np.searchsorted(holes.starts, waits.ends, side="right") - 1
        here = np.maximum(at, 0)
        inside = (at >= 0) & (waits.ends < holes.ends[here])
        hole, first = np.unique(here[inside], return_index=True)
        waited = np.add.reduceat((waits.ends - waits.starts)[inside], first) if len(first) else np.zeros(0, np.int64)
        lost.append(int(np.minimum(waited, holes.lengths[hole]).sum()))
    return max(lost)


@rule("A13", "launch-blocking", Family.LAUNCHES, needs.api_trace, link=links.ADVISOR)
def launch_blocking(case: Case) -> Verdict:
    """Nearly every launch is followed by a wait."""
    waiting = case.names("api_calls", ANY_WAIT)
    calls = case.profile["api_calls"].select("pid", "tid", "start_ns", "duration_ns", does=pl.Series(_does(case)))
    known = ("start_ns", "duration_ns", "tid")
    if any(calls.select(pl.col(known).null_count()).row(0)):
        calls = calls.drop_nulls(known)
    threads = calls.partition_by("pid", "tid", maintain_order=True) if _several_threads(calls) else [calls]
    launches, followed = (sum(column) for column in zip((0, 0), *map(_followed, threads), strict=True))
    if not launches:
        return CannotTell(
            "the input does not tell which thread made which call, or when"
            if (_does(case) & _LAUNCHES).any()
            else "no calls that launch single kernels are recorded"
        )
    share, most = 100 * followed / launches, case.limit("A13", "launches_pct")
    numbers = {"launches": launches, "followed_pct": share}
    if share <= most:
        return Clean(f"{percent(share)} of the launches have a wait as the next call", numbers)
    return Found(
        f"{percent(share)} of {counted(launches, 'launch is', 'launches are')} followed by a wait: the CPU and the GPU "
        "take turns.",
        "Unset CUDA_LAUNCH_BLOCKING, and take synchronize calls for debugging out.",
        numbers,
        total(case.api_named(ANY_WAIT)["total_ns"]),
        "all waits",
        view="api-calls",
        filter=named(waiting),
    )


_LAUNCHES, _WAITS = 1, 2
"""What a call does; one whose name says both does both."""


def _does(case: Case) -> npt.NDArray[np.int8]:
    """What each API call does, by its name."""

    def found(names: pl.Series) -> npt.NDArray[np.int8]:
        told = ((_LAUNCHES, LAUNCH_CALLS), (_WAITS, ANY_WAIT))
        does = [(names.str.contains(pattern) & (names != "")).cast(pl.Int8) * flag for flag, pattern in told]
        return (does[0] + does[1]).to_numpy()

    return classes_of(case.profile["api_calls"]["name"], found)


def _several_threads(calls: pl.DataFrame) -> bool:
    """Whether it is worth the time to take them apart."""
    unnamed, *differ = calls.select(
        pl.col("pid").null_count() > 0,
        *((pl.col(name).min() != pl.col(name).max()).alias(f"{name}s") for name in ("pid", "tid")),
    ).row(0)
    return bool(unnamed) or any(differ)


def _followed(calls: pl.DataFrame) -> tuple[int, int]:
    """How many launches a thread makes, and after how many of them its next call is a wait."""
    if not calls["start_ns"].is_sorted():
        calls = calls.sort("start_ns", maintain_order=True)
    starts, lengths, does = (calls[name].to_numpy() for name in ("start_ns", "duration_ns", "does"))
    reached = Reached()
    launches = followed = 0
    last = np.zeros(1, np.bool_)
    for block in blocks(len(starts)):
        before, _ = reached.before(starts[block] + lengths[block])
        # A driver call within a runtime call is not what comes next.
        outer = starts[block] >= before
        own = does[block][outer]
        launching = np.concatenate((last, own & _LAUNCHES != 0))
        launches += int(launching[1:].sum())
        followed += int((launching[:-1] & (own & _WAITS != 0)).sum())
        last = launching[-1:]
    return launches, followed


@rule("A14", "garbage-collection", Family.LAUNCHES, needs.ops_or_ranges, link=links.ADVISOR)
def garbage_collection(case: Case) -> Verdict:
    """Python collects garbage while the GPU waits."""
    shown = ("name", "start_ns", "duration_ns", "line")
    rows = pl.concat([case.rows_named(frame, COLLECTIONS, *shown) for frame in ("ranges", "ops")])
    if rows.is_empty():
        return CannotTell("the input records no garbage collection: mark it as ranges (gc.callbacks)")
    long = rows.filter(pl.col("duration_ns") >= case.limit("A14", "least_ns"))
    if long.is_empty():
        return Clean(f"no collection takes {rounded(case.limit('A14', 'least_ns'))} or more")
    taken, worst = total(long["duration_ns"]), largest(long, "duration_ns", *shown)
    return Found(
        f"Python's garbage collection stops the program {counted(long.height, 'time')} for {duration(taken)} in all, "
        f"the longest {duration(worst['duration_ns'][0])}.",
        "Call gc.freeze() after set-up, and collect by hand between steps (gc.disable, gc.collect).",
        {"collections": long.height, "collect_ns": taken},
        taken,
        "all of these collections",
        worst,
        "ranges",
        named(long["name"].unique(maintain_order=True)),
    )
