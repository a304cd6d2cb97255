"""Ranks side by side: which one the others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import real, total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Verdict, rule
from tui.analysis.expert.words import counted, named
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.ranks.collectives import collectives, open_ranks_words, stragglers
from tui.analysis.ranks.tables import labels
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


def several_ranks(case: Case) -> str:
    """At least two sessions that communicate."""
    if collectives(case.profile)["session"].n_unique() < 2:
        return "needs the recordings of two ranks or more: open them together"
    return ""


@rule("C5", "straggler", Family.COMMUNICATION, several_ranks, needs.iterations, link=links.HTA, across=True)
def straggler(case: Case) -> Verdict:
    """The ranks wait for one of them."""
    told = stragglers(case.profile, long_pct=case.limit("C5", "last_pct"))
    if not told.matched:
        return CannotTell(told.untold)
    if not told.long:
        return Clean("no collective takes long")
    if told.by_session.is_empty():
        least = f"{case.limit('C5', 'last_pct'):g}% of a mean iteration"
        return Clean(f"no rank waits for more than {least} in the collectives of any iteration")
    first, steps = told.by_session.row(0, named=True), counted(told.iterations, "iteration")
    share = 100 * first["times"] / told.iterations
    numbers = {
        "session": first["session"],
        "times": first["times"],
        "iterations": told.iterations,
        "wait_ns": first["wait_ns"],
    }
    who = labels(case.profile)[first["session"]]
    if first["times"] < case.limit("C5", "times") or share < case.limit("C5", "share_pct"):
        return Clean(f"no rank is last again and again; {who} is in {first['times']} of {steps}", numbers)
    names, part = collectives(case.profile)["name"].unique(maintain_order=True), open_ranks_words(case.profile)
    others = [label for session, label in labels(case.profile).items() if session != first["session"]]
    waiting = f"{others[0]} waits" if len(others) == 1 else "the others wait"
    return Found(
        f"{who[0].upper()}{who[1:]} comes last to collectives in {first['times']} of {steps}: {waiting} for it, "
        f"up to {duration(first['wait_ns'])} in all."
        + (f" {part[0].upper()}{part[1:]}: another may come later still." if part else ""),
        f"Look at what {who} does longer: its input, its share of the data, other work on its host, its clocks.",
        numbers,
        first["wait_ns"],
        "what the rank that waits longest is in these collectives above the shortest time",
        told.by_session.select("session", "times", "wait_ns"),
        "kernels",
        named(names),
    )


@rule("C7", "rank-spread", Family.COMMUNICATION, several_ranks, link=links.ADVISOR, across=True)
def rank_spread(case: Case) -> Verdict:
    """The ranks have unequal work."""
    talking = collectives(case.profile)["session"].unique()
    table = (
        overlap(case.profile)
        .filter(pl.col("session").is_in(talking.implode()))
        .group_by("session")
        .agg(pl.col("compute_ns", "exposed_comm_ns", "idle_ns").sum(), pl.col("total_span_ns").max().alias("span_ns"))
        .sort("compute_ns", "session", descending=[True, False])
    )
    computing, mean = table["compute_ns"], real(table["compute_ns"].mean())
    if not total(computing):
        return CannotTell("no rank computes")
    spread = 100 * (computing[0] - computing[-1]) / mean
    numbers = {"spread_pct": spread, "ranks": table.height}
    if spread <= case.limit("C7", "spread_pct"):
        return Clean(f"ranks compute for times that differ by {percent(spread)}", numbers)
    names = labels(case.profile)
    return Found(
        f"Ranks compute for different times ({percent(spread)} of the mean): {names[table['session'][0]]} for "
        f"{duration(computing[0])}, {names[table['session'][-1]]} for {duration(computing[-1])}.",
        "Divide batches, experts or stages by the time they take; the recordings have to cover the same iterations.",
        numbers,
        int(computing[0] - mean),
        "what the rank with most work computes above the mean",
        table,
        "gpus",
    )
