"""Waits for input data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Verdict, rule
from tui.analysis.expert.words import named, ranked, tallied
from tui.analysis.gpu_time.host_phases import HostPhase, host_phases, phases_of
from tui.analysis.gpu_time.interval_sets import EMPTY, union_of
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet


LOAD_FASTER: Final = "Load data in more workers, prefetch the next batch, and copy it with pin_memory and non_blocking."


def loading_within(case: Case, idle: IntervalSet) -> int:
    """How much of a set of time the program loads input data in, by the names of ops and ranges, ns."""
    return (host_phases(case.profile, case.session or 0).get(HostPhase.DATALOADER, EMPTY) & idle).length


@rule("I5", "dataloader", Family.ITERATIONS, needs.start_times, needs.ops_or_ranges, link=links.TENSORBOARD)
def dataloader(case: Case) -> Verdict:
    """The GPU waits for input data."""
    loading = host_phases(case.profile, case.session or 0).get(HostPhase.DATALOADER)
    if loading is None:
        return CannotTell("no op or range is named as a data loader's")
    busy = EMPTY
    for line in case.lines:
        busy = busy | union_of(line.starts, line.ends)
    waited = (loading & busy.gaps(int(busy.starts[0]), int(busy.ends[-1]))).length
    share = 100 * waited / case.span_ns
    numbers = {"wait_ns": waited, "wait_pct": share, "load_ns": loading.length}
    if share <= case.limit("I5", "span_pct"):
        return Clean(f"waits for input while the GPU idles take {percent(share)} of the span", numbers)
    return Found(
        f"The program loads input for {duration(waited)} while no GPU has work: {percent(share)} of the span.",
        "More workers (num_workers), prefetch_factor, pinned memory; decode and augment on the GPU (DALI).",
        numbers,
        waited,
        "loading while no GPU has work",
        *_loads(case),
    )


def _loads(case: Case) -> tuple[pl.DataFrame, str, str]:
    """Evidence, view and filter: the ranges that load data, by name, longest first; where there are none, the ops."""
    found = case.profile["ranges"].clear(), "ranges", ""
    for frame, view, column in (("ops", "ops-and-kernels", "op"), ("ranges", "ranges", "name")):
        names = case.names(frame, "")
        loads = names.filter(pl.Series(phases_of(names) == HostPhase.DATALOADER))
        if loads.len():
            rows = case.profile[frame].filter(pl.col("name").is_in(loads.implode()))
            by_name = ranked(tallied(rows, "calls", "duration_ns"), "duration_ns")
            found = by_name, view, named(by_name["name"], column)
    return found
