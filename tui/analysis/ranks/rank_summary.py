"""Ranks side by side: breakdown of time, iteration times, and which rank arrives last at collectives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.gpu_time.breakdown import utilization
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.iterations.iteration_table import iterations
from tui.analysis.iterations.times import iteration_times
from tui.analysis.ranks.collectives import (
    HOW,
    LONG_PCT,
    collectives,
    leave_together,
    matched,
    ongoing_ranks_note,
    stragglers,
)
from tui.analysis.ranks.spread import last_ranks
from tui.analysis.ranks.waits import waits_of_ranks
from tui.analysis.sessions import labels as labels
from tui.analysis.sessions import named
from tui.fmt import brief_duration, count
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


RANKS: Final = TableSpec(
    "ranks",
    "Ranks",
    (
        *columns("who", "iteration_avg_ns"),
        replace(columns("busy_pct")[0], help="Busy time as a share of the wall time, averaged over its GPUs."),
        *columns("compute_ns", "exposed_comm_ns", "exposed_copy_ns"),
        replace(columns("idle_ns")[0], help="Wall time without GPU work."),
        *columns("came_last", "waited_ns", "comm_wait_ns", "comm_transfer_ns", "comm_wait_pct"),
        replace(columns("iteration_std_ns")[0]),
        *columns("iteration_max_ns", "iterations", "gpus", "busy_ns", "wall_ns", "comm_ns", "all_comm_ns"),
        *columns("comm_unmatched_ns", "host", "rank_source", "session"),
    ),
    key=("session",),
    pinned="who",
    pinned_least=8,
)

ONE_RANK: Final = "only one rank recorded: open the recordings of several ranks together"
ONE_SHOWN: Final = "one session of {} is shown"
FEW_TIMED: Final = "fewer than two of {} sessions have GPU work with start times"

RANK_ITERATIONS: Final = TableSpec(
    "rank_iterations",
    "Iterations over ranks",
    (
        *columns("iteration", "duration_ns", "behind_ns", "mean_ns", "spread_pct", "longest_rank", "last_rank"),
        *columns("wait_ns", "shortest_ns", "longest_ns", "ranks", "session"),
    ),
    key=("session", "iteration"),
    pinned="iteration",
    pinned_least=10,
)


ITERATION_RANKS: Final = TableSpec(
    "iteration_ranks",
    "Ranks in the iteration",
    columns("who", "duration_ns", "behind_ns", "mean_ns", "shortest_ns", "longest_ns", "iteration", "session"),
    key=("session", "iteration"),
    pinned="who",
    pinned_least=8,
)


def iteration_ranks(profile: Profile, *, iteration: int) -> pl.DataFrame:
    """`rank_iterations` of one iteration by rank, the one that takes longest first."""
    rows = rank_iterations(profile).filter(pl.col("iteration") == iteration)
    return (
        rows.with_columns(named(profile, "session", "who"))
        .sort("duration_ns", "session", descending=[True, False])
        .select(column.name for column in ITERATION_RANKS.columns)
    )


def several_ranks(profile: Profile) -> bool:
    """Whether two sessions or more have GPU work with its times."""
    return profile["activities"].filter(pl.col("start_ns").is_not_null())["session"].n_unique() > 1


def why_no_ranks(profile: Profile) -> str:
    """Why there are no ranks to compare; empty where there are."""
    if several_ranks(profile):
        return ""
    shown = profile["sessions"].height
    if profile.other_sessions and shown == 1:
        return ONE_SHOWN.format(count(1 + profile.other_sessions))
    return ONE_RANK if shown <= 1 else FEW_TIMED.format(count(shown))


def ranks(profile: Profile) -> pl.DataFrame:
    """One row per session that has GPU work with its times, where there are two or more; nothing compares clocks.

    Columns: session, who (`labels`), host, gpus (how many it used), wall_ns (of all its GPUs together),
    compute_ns, exposed_comm_ns, exposed_copy_ns, busy_ns, idle_ns, comm_ns
    (`gpu_time.overlap.overlap`, all over its GPUs: compute, exposed communication, exposed copies and idle add up
    to the wall time), busy_pct (of the wall time), iterations, iteration_avg_ns, iteration_std_ns, iteration_max_ns
    (`iterations.times.iteration_times`), came_last (in how many iterations it arrived last to the long collectives;
    null where that is unknown), waited_ns (time that it was in long collectives above the rank that arrived last);
    all_comm_ns, comm_wait_ns, comm_transfer_ns, comm_unmatched_ns and comm_wait_pct (`waits.waits_of_ranks`). Whom
    the others wait for most often comes first, then whose iterations take longest.
    """
    if not several_ranks(profile):
        return _empty(RANKS)
    sums = ("total_span_ns", "compute_ns", "exposed_comm_ns", "exposed_copy_ns", "busy_ns", "idle_ns", "comm_ns")
    walls = utilization(profile).group_by("session").agg(wall_ns=pl.col("wall_ns").sum())
    by_session = (
        overlap(profile)
        .group_by("session", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("gpus"), *(pl.col(name).sum() for name in sums))
        .join(walls, on="session", how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("wall_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("wall_ns")).alias("busy_pct"),
            idle_ns=pl.col("idle_ns") + pl.col("wall_ns") - pl.col("total_span_ns"),
        )
    )
    times = iteration_times(profile).select(
        "session",
        "iterations",
        iteration_avg_ns="avg_ns",
        iteration_std_ns="std_ns",
        iteration_max_ns="max_ns",
    )
    waited = _waited(profile)
    return (
        by_session.join(times, on="session", how="left", maintain_order="left")
        .join(waited, on="session", how="left", maintain_order="left")
        .join(waits_of_ranks(profile), on="session", how="left", maintain_order="left")
        .join(
            profile["sessions"].select("session", "host", "rank_source"),
            on="session",
            how="left",
            maintain_order="left",
        )
        .with_columns(named(profile, "session", "who"))
        .select(column.name for column in RANKS.columns)
        .sort("came_last", "iteration_avg_ns", "session", descending=[True, True, False], nulls_last=True)
    )


def _empty(spec: TableSpec) -> pl.DataFrame:
    """No rows."""
    return pl.DataFrame(schema={column.name: pl.String for column in spec.columns} | {"session": pl.UInt32})


def _waited(profile: Profile) -> pl.DataFrame:
    """session, came_last, waited_ns: 0 for those that never arrived last, or waited; no rows where nothing is known."""
    schema = {"session": pl.UInt32, "came_last": pl.Int64, "waited_ns": pl.Int64}
    if collectives(profile)["session"].n_unique() < 2:
        return pl.DataFrame(schema=schema)
    answer = stragglers(profile)
    if not answer.matched:
        return pl.DataFrame(schema=schema)
    sums = answer.waits.group_by("session").agg(pl.col("wait_ns").sum().alias("waited_ns"))
    return (
        matched(profile)
        .filter(leave_together())
        .select(pl.col("session").unique())
        .join(sums, on="session", how="left")
        .join(answer.by_session.select("session", came_last="times"), on="session", how="left")
        .select("session", pl.col("came_last").fill_null(0), pl.col("waited_ns").fill_null(0))
    )


def rank_iterations(profile: Profile, *, session: int | None = None) -> pl.DataFrame:
    """Iterations that several ranks have, by number: the spread between ranks.

    Columns: session, iteration, duration_ns (of the rank), mean_ns, shortest_ns, longest_ns (over the ranks), behind_ns
    (duration - mean), spread_pct (100 x (longest - shortest) / mean), ranks (how many have it), longest_rank (whose
    iteration is the longest), last_rank (who arrived last to its long collectives; null where none did), wait_ns
    (what the rank that waited longest was in them above the one that arrived last).

    Args:
        profile: All ranks.
        session: The rank; None: one row for each.
    """
    rows = iterations(profile).drop_nulls(["iteration", "duration_ns"]).select("session", "iteration", "duration_ns")
    time, by = pl.col("duration_ns"), "iteration"
    found = (
        rows.with_columns(
            time.mean().over(by).round().cast(pl.Int64).alias("mean_ns"),
            time.min().over(by).alias("shortest_ns"),
            time.max().over(by).alias("longest_ns"),
            pl.col("session").n_unique().over(by).cast(pl.Int64).alias("ranks"),
            pl.col("session").sort_by(time, descending=True, maintain_order=True).first().over(by).alias("longest"),
        )
        .filter(pl.col("ranks") > 1)
        .join(last_ranks(profile), on="iteration", how="left", maintain_order="left")
        .with_columns(
            (time - pl.col("mean_ns")).alias("behind_ns"),
            pl.when(pl.col("mean_ns") > 0)
            .then(100 * (pl.col("longest_ns") - pl.col("shortest_ns")) / pl.col("mean_ns"))
            .alias("spread_pct"),
            named(profile, "longest", "longest_rank"),
            named(profile, "last", "last_rank"),
        )
        .select(column.name for column in RANK_ITERATIONS.columns)
        .sort("session", "iteration")
    )
    return found if session is None else found.filter(pl.col("session") == session)


@dataclass(frozen=True, slots=True)
class StragglerVerdict:
    """Who the ranks wait for, in words."""

    sentence: str
    """The answer, or why there is none."""
    how: str
    """How it was found; empty where it was not."""
    session: int | None = None
    """The straggler."""


def straggler_verdict(profile: Profile) -> StragglerVerdict:
    """Which rank the others wait for, where one can be named.

    A rank that arrives last in more than half of the iterations, and in two at least, is named; the rule C5 of the
    Expert Systems has thresholds of its own.
    """
    if collectives(profile)["session"].n_unique() < 2:
        return StragglerVerdict("straggler not applicable: fewer than two ranks recorded kernels of NCCL or RCCL", "")
    answer = stragglers(profile)
    if not answer.matched:
        return StragglerVerdict(f"straggler unknown: {answer.unknown_reason}", "")
    if not answer.long:
        return StragglerVerdict(f"no straggler: none of {count(answer.matched)} matched collectives takes long", HOW)
    if answer.by_session.is_empty():
        least = f"{LONG_PCT:g}% of a mean iteration"
        return StragglerVerdict(f"no straggler: no rank waits more than {least} in any iteration", HOW)
    first = answer.by_session.row(0, named=True)
    steps = f"{count(answer.iterations)} iteration{'' if answer.iterations == 1 else 's'}"
    who = labels(profile)[first["session"]]
    if first["times"] < 2 or 2 * first["times"] <= answer.iterations:
        return StragglerVerdict(f"no single straggler: {who} arrives last in {count(first['times'])} of {steps}", HOW)
    return StragglerVerdict(
        f"{who[0].upper()}{who[1:]} is the straggler: it arrives last at the long collectives "
        f"in {count(first['times'])} of {steps}; other ranks wait up to {brief_duration(first['wait_ns'])} for it"
        + (f"; {part}: another rank may arrive later" if (part := ongoing_ranks_note(profile)) else ""),
        HOW,
        first["session"],
    )
