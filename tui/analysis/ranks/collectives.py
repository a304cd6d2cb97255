"""Collectives that several ranks took part in, matched by their order: the clocks of ranks are never compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.gpu_time.communication import WorkKind, work_kinds
from tui.analysis.iterations.tables import iterations
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    from tui.model.profile import Profile

LONG_PCT: Final = 1.0
"""Only collectives that take more than this share of a mean iteration on some rank tell who is waited for."""
HOW: Final = (
    "a collective ends on all ranks together, so the rank that comes last is in it for the shortest time; "
    "durations are compared, never clocks"
)
"""How the straggler is told, in words."""


@once_per_profile("activities", "sessions")
def collectives(profile: Profile) -> pl.DataFrame:
    """Kernels of communication whose times are known, by session and start.

    Columns: session, device, name, start_ns, duration_ns, iteration, arguments.
    """
    talks = pl.Series(work_kinds(profile) == WorkKind.COMMUNICATION)
    return (
        profile["activities"]
        .filter(talks)
        .select("session", "device", "name", "start_ns", "duration_ns", "iteration", "arguments")
        .drop_nulls(["start_ns", "duration_ns"])
        .sort("session", "start_ns")
    )


def matched(profile: Profile) -> pl.DataFrame:
    """Collectives that every rank took part in: iteration, place, and for each session how long it was in it.

    The n-th collective of an iteration on one rank is the n-th on all others; iterations in which their numbers differ
    are left out. Columns: iteration, place, session, duration_ns, shortest_ns, longest_ns (over the ranks).
    """
    rows = collectives(profile).drop_nulls("iteration")
    ranks = collectives(profile)["session"].n_unique()
    placed = rows.with_columns(pl.int_range(pl.len()).over("session", "iteration").alias("place"))
    counts = placed.group_by("session", "iteration").len()
    same = (
        counts.group_by("iteration")
        .agg(pl.col("len").n_unique().alias("kinds"), pl.len().alias("ranks"))
        .filter(pl.col("kinds") == 1, pl.col("ranks") == ranks)
    )
    by = ("iteration", "place")
    return (
        placed.join(same.select("iteration"), on="iteration", how="semi")
        .with_columns(
            pl.col("duration_ns").min().over(by).alias("shortest_ns"),
            pl.col("duration_ns").max().over(by).alias("longest_ns"),
        )
        .sort("iteration", "place", "session")
        .select(*by, "session", "duration_ns", "shortest_ns", "longest_ns")
    )


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Who came last to the long collectives."""

    by_iteration: pl.DataFrame
    """One row per iteration with long collectives: iteration, session (the one that came last), wait_ns (what the rank
    that waited longest was in them above the shortest time)."""
    by_session: pl.DataFrame
    """One row per session that ever came last, the most frequent first: session, times, wait_ns."""
    waits: pl.DataFrame
    """One row per iteration and session: wait_ns, what it was in long collectives above the shortest time."""
    matched: int
    """How many collectives could be matched."""
    long: int
    """How many of them took long on some rank."""

    @property
    def iterations(self) -> int:
        """In how many iterations collectives took long."""
        return self.by_iteration.height


def stragglers(profile: Profile, *, long_pct: float = LONG_PCT) -> Stragglers:
    """Which ranks came last to collectives, iteration by iteration.

    Args:
        profile: All sessions.
        long_pct: Only collectives that take more than this share of a mean iteration on some rank count.
    """
    rows = matched(profile)
    times = iterations(profile).drop_nulls(["iteration", "duration_ns"])["duration_ns"]
    mean = times.mean()
    least = long_pct / 100 * mean if isinstance(mean, float) else 0.0
    long = rows.filter(pl.col("longest_ns") > least)
    waits = long.with_columns((pl.col("duration_ns") - pl.col("shortest_ns")).alias("wait_ns"))
    by_step = (
        waits.group_by("iteration", "session").agg(pl.col("wait_ns").sum()).sort("iteration", "wait_ns", "session")
    )
    last = by_step.group_by("iteration", maintain_order=True).agg(pl.col("session").first(), pl.col("wait_ns").last())
    often = (
        last.group_by("session")
        .agg(pl.len().cast(pl.Int64).alias("times"), pl.col("wait_ns").sum())
        .sort("times", "session", descending=[True, False])
    )
    return Stragglers(last, often, by_step, _count(rows), _count(long))


def _count(rows: pl.DataFrame) -> int:
    return rows.select("iteration", "place").n_unique() if rows.height else 0
