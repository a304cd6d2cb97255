"""Comparison of ranks: breakdown of time, iteration times, last arrivals, and spread by iteration and op."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.collectives import (
    LONG_PCT,
    METHOD,
    collectives,
    is_synchronizing,
    matched_times,
    rank_waits,
    stragglers,
    unloaded_ranks_note,
)
from tui.analysis.durations import total
from tui.analysis.gpu_time.breakdown import utilization
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.iterations.iteration_table import iterations
from tui.analysis.iterations.times import iteration_times
from tui.analysis.iterations.work import activity_iterations
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import classified_work
from tui.analysis.ops.op_type_rules import UNKNOWN
from tui.analysis.ops.ops_by_name import inferred_ops
from tui.analysis.sessions import session_labels as session_labels
from tui.analysis.sessions import session_name_column
from tui.fmt import brief_duration, count
from tui.model.columns import COLUMNS, columns
from tui.model.table_spec import TableSpec
from tui.text import plural

if TYPE_CHECKING:
    from tui.model.profile import Profile

SLOWEST_RANKS: Final = TableSpec(
    "slowest_ranks",
    "Slowest rank of each iteration",
    (
        COLUMNS["iteration"],
        replace(COLUMNS["longest_rank"], priority=2),
        replace(COLUMNS["longest_ns"], title="Slowest rank", help="Time of the slowest rank.", priority=2),
        *columns("above_median_ns", "spread_pct", "last_rank", "wait_ns", "rank_median_ns"),
        *columns("fastest_rank"),
        replace(COLUMNS["shortest_ns"], title="Fastest time", help="Time of the fastest rank."),
        *columns("ranks"),
    ),
    key=("iteration",),
    pinned="iteration",
    min_pinned_cells=10,
)

_SPREAD: Final = (
    *("op_most_ns", "apart_ns", "most_rank", "op_spread_pct", "op_middle_ns", "op_least_ns"),
    *("ranks_total_ns", "least_rank", "ranks"),
)
OP_TYPE_RANKS: Final = TableSpec(
    "op_type_ranks",
    "Op types over ranks",
    (replace(COLUMNS["op_type"], priority=1), *columns(*_SPREAD)),
    key=("op_type",),
    pinned="op_type",
    weight="ranks_total_ns",
)
OP_RANKS: Final = TableSpec(
    "op_ranks",
    "Ops over ranks",
    (replace(COLUMNS["op"], priority=1), *columns(*_SPREAD, "op_type")),
    key=("op", "op_type"),
    pinned="op",
    weight="ranks_total_ns",
)
OP_RANKS_SPEC: Final = TableSpec(
    "ranks_of_op",
    "Ranks in the op",
    columns("who", "rank_op_ns", "rank_gpu_ns", "rank_launches", "iterations", "op", "op_type", "session"),
    key=("session", "op", "op_type"),
    pinned="who",
    min_pinned_cells=8,
    weight="rank_gpu_ns",
)


def slowest_ranks(profile: Profile) -> pl.DataFrame:
    """Return one row per iteration of several ranks, the largest distance of a rank from the median first.

    Columns: iteration, longest_rank and longest_ns, above_median_ns (longest - median), rank_median_ns, spread_pct
    (100 x (longest - shortest) / mean), fastest_rank and shortest_ns, ranks (how many have it), last_rank and wait_ns
    (as `rank_iterations`).
    """
    rows = iterations(profile).drop_nulls(["iteration", "duration_ns"]).select("session", "iteration", "duration_ns")
    time, session = pl.col("duration_ns"), pl.col("session")
    spreads = (
        rows.sort("session")
        .group_by("iteration")
        .agg(
            session.n_unique().cast(pl.Int64).alias("ranks"),
            time.max().alias("longest_ns"),
            time.min().alias("shortest_ns"),
            time.median().round().cast(pl.Int64).alias("rank_median_ns"),
            pl.when(time.mean() > 0).then(100 * (time.max() - time.min()) / time.mean()).alias("spread_pct"),
            session.get(time.arg_max()).alias("longest"),
            session.get(time.arg_min()).alias("shortest"),
        )
        .filter(pl.col("ranks") > 1)
    )
    return (
        spreads.join(last_ranks(profile), on="iteration", how="left", maintain_order="left")
        .with_columns(
            (pl.col("longest_ns") - pl.col("rank_median_ns")).alias("above_median_ns"),
            session_name_column(profile, "longest", "longest_rank"),
            session_name_column(profile, "shortest", "fastest_rank"),
            session_name_column(profile, "last", "last_rank"),
        )
        .sort("above_median_ns", "iteration", descending=[True, False])
        .select(column.name for column in SLOWEST_RANKS.columns)
    )


def last_ranks(profile: Profile) -> pl.DataFrame:
    """Return for each iteration with long collectives: iteration, last (the session that arrived last), wait_ns."""
    if collectives(profile)["session"].n_unique() < 2:
        return pl.DataFrame(schema={"iteration": pl.Int32, "last": pl.UInt32, "wait_ns": pl.Int64})
    return stragglers(profile).by_iteration.select("iteration", last="session", wait_ns="wait_ns")


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "ranges", "summary")
def rank_ops(profile: Profile) -> pl.DataFrame:
    """Return the GPU work launched in iterations, by session, op and op type; the rows add up to all of it.

    Columns: session, op (as recorded, else the type that the kernel's name implies; the reason if the session records
    ops and the work has none), op_type, rank_launches, rank_gpu_ns, iterations (of the session), rank_op_ns
    (rank_gpu_ns by iteration, rounded; both null if no duration is known). Sessions without numbered iterations are
    omitted.
    """
    counted = (
        iterations(profile)
        .drop_nulls("iteration")
        .group_by("session")
        .agg(pl.col("iteration").n_unique().cast(pl.Int64).alias("iterations"))
    )
    inside = profile["activities"].filter(activity_iterations(profile).is_not_null())
    in_iterations = replace(
        profile, frames={**profile.frames, "activities": inside, "summary": profile["summary"].clear()}, steps=None
    )
    name = pl.coalesce(pl.col("op").cast(pl.String), "why_no_op").alias("op")
    op_type = pl.col("op_type").cast(pl.String).fill_null(UNKNOWN)
    recorded = classified_work(in_iterations).select(
        "session", name, op_type, rank_launches="launches", rank_gpu_ns="total_ns"
    )
    inferred = inferred_ops(in_iterations).select(
        "session", pl.col("op").cast(pl.String), op_type, rank_launches="calls", rank_gpu_ns="total_ns"
    )
    return (
        pl.concat([recorded, inferred])
        .group_by("session", "op", "op_type")
        .agg(total(name).alias(name) for name in ("rank_launches", "rank_gpu_ns"))
        .join(counted, on="session", how="inner")
        .with_columns((pl.col("rank_gpu_ns") / pl.col("iterations")).round().cast(pl.Int64).alias("rank_op_ns"))
        .sort("session", "op", "op_type")
    )


def op_type_ranks(profile: Profile) -> pl.DataFrame:
    """Return one row per op type: the spread between the ranks that have it, the largest difference first.

    Columns: op_type, op_least_ns, op_middle_ns, op_most_ns (GPU time by iteration, over the ranks), apart_ns (most -
    least), op_spread_pct (100 x spread / mean), most_rank, least_rank, ranks (that have it), ranks_total_ns (GPU time
    in all iterations of all ranks). Empty where not two ranks have iterations.
    """
    by_type = (
        rank_ops(profile)
        .group_by("session", "op_type")
        .agg(total("rank_gpu_ns").alias("rank_gpu_ns"), pl.col("iterations").first())
        .with_columns((pl.col("rank_gpu_ns") / pl.col("iterations")).round().cast(pl.Int64).alias("rank_op_ns"))
    )
    return _spread(profile, by_type, ("op_type",)).select(column.name for column in OP_TYPE_RANKS.columns)


def op_ranks(profile: Profile, *, op_type: str | None = None) -> pl.DataFrame:
    """Return the columns of `op_type_ranks` for each op.

    Args:
        profile: All ranks.
        op_type: Only those of this type.
    """
    rows = rank_ops(profile)
    if op_type is not None:
        rows = rows.filter(pl.col("op_type") == op_type)
    return _spread(profile, rows, ("op", "op_type")).select(column.name for column in OP_RANKS.columns)


def ranks_by_op(profile: Profile, *, op: str | None = None, op_type: str | None = None) -> pl.DataFrame:
    """Return the time of each rank for each op, the slowest rank first.

    Args:
        profile: All ranks.
        op: Only that op of that type; None: every op.
        op_type: Its type.
    """
    rows = rank_ops(profile)
    if op is not None:
        rows = rows.filter(pl.col("op") == op, pl.col("op_type") == op_type)
    return (
        rows.with_columns(session_name_column(profile, "session", "who"))
        .sort("op_type", "op", "rank_op_ns", "session", descending=[False, False, True, False], nulls_last=True)
        .select(column.name for column in OP_RANKS_SPEC.columns)
    )


def _spread(profile: Profile, rows: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    if rank_ops(profile)["session"].n_unique() < 2:
        rows = rows.clear()
    time, session = pl.col("rank_op_ns"), pl.col("session")
    return (
        rows.sort("session")
        .group_by(keys)
        .agg(
            time.min().alias("op_least_ns"),
            time.median().round().cast(pl.Int64).alias("op_middle_ns"),
            time.max().alias("op_most_ns"),
            (time.max() - time.min()).alias("apart_ns"),
            pl.when((time.len() > 1) & (time.mean() > 0))
            .then(100 * (time.max() - time.min()) / time.mean())
            .alias("op_spread_pct"),
            session.get(time.arg_max()).alias("most"),
            session.get(time.arg_min()).alias("least"),
            pl.len().cast(pl.Int64).alias("ranks"),
            total("rank_gpu_ns").alias("ranks_total_ns"),
        )
        .with_columns(
            session_name_column(profile, "most", "most_rank"), session_name_column(profile, "least", "least_rank")
        )
        .sort("apart_ns", *keys, descending=[True, *(False for _ in keys)], nulls_last=True)
    )


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
    min_pinned_cells=8,
)

ONE_RANK: Final = "only one rank recorded: open the profiles of several ranks together"
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
    min_pinned_cells=10,
)


ITERATION_RANKS: Final = TableSpec(
    "iteration_ranks",
    "Ranks in the iteration",
    columns("who", "duration_ns", "behind_ns", "mean_ns", "shortest_ns", "longest_ns", "iteration", "session"),
    key=("session", "iteration"),
    pinned="who",
    min_pinned_cells=8,
)


def iteration_ranks(profile: Profile, *, iteration: int) -> pl.DataFrame:
    """Return `rank_iterations` of one iteration by rank, the longest first."""
    rows = rank_iterations(profile).filter(pl.col("iteration") == iteration)
    return (
        rows.with_columns(session_name_column(profile, "session", "who"))
        .sort("duration_ns", "session", descending=[True, False])
        .select(column.name for column in ITERATION_RANKS.columns)
    )


def has_several_ranks(profile: Profile) -> bool:
    """Return whether two sessions or more have GPU work with its times."""
    return profile["activities"].filter(pl.col("start_ns").is_not_null())["session"].n_unique() > 1


def missing_ranks_reason(profile: Profile) -> str:
    """Return why there are no ranks to compare; empty if there are."""
    if has_several_ranks(profile):
        return ""
    shown = profile["sessions"].height
    if profile.other_sessions and shown == 1:
        return ONE_SHOWN.format(count(1 + profile.other_sessions))
    return ONE_RANK if shown <= 1 else FEW_TIMED.format(count(shown))


def ranks(profile: Profile) -> pl.DataFrame:
    """Return one row per session with timed GPU work, if there are at least two; clocks are not compared.

    Columns: session, who (`session_labels`), host, gpus (how many it used), wall_ns (of all its GPUs together),
    compute_ns, exposed_comm_ns, exposed_copy_ns, busy_ns, idle_ns, comm_ns (`gpu_time.overlap.overlap`, summed over its
    GPUs: compute, exposed communication, exposed copies and idle add up to the wall time), busy_pct (of the wall time),
    iterations, iteration_avg_ns, iteration_std_ns, iteration_max_ns (`iterations.times.iteration_times`), came_last
    (the number of iterations in which it arrived last at the long collectives; null if unknown), waited_ns (its time in
    long collectives beyond that of the rank that arrived last); all_comm_ns, comm_wait_ns, comm_transfer_ns,
    comm_unmatched_ns and comm_wait_pct (`collectives.rank_waits`). The rank that arrives last most often comes first,
    then the one with the longest iterations.
    """
    if not has_several_ranks(profile):
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
    waited = _collective_waits(profile)
    return (
        by_session.join(times, on="session", how="left", maintain_order="left")
        .join(waited, on="session", how="left", maintain_order="left")
        .join(rank_waits(profile), on="session", how="left", maintain_order="left")
        .join(
            profile["sessions"].select("session", "host", "rank_source"),
            on="session",
            how="left",
            maintain_order="left",
        )
        .with_columns(session_name_column(profile, "session", "who"))
        .select(column.name for column in RANKS.columns)
        .sort("came_last", "iteration_avg_ns", "session", descending=[True, True, False], nulls_last=True)
    )


def _empty(spec: TableSpec) -> pl.DataFrame:
    """Return an empty table."""
    return pl.DataFrame(schema={column.name: pl.String for column in spec.columns} | {"session": pl.UInt32})


def _collective_waits(profile: Profile) -> pl.DataFrame:
    """Return session, came_last, waited_ns: 0 for ranks that never arrived last or waited; empty if unknown."""
    schema = {"session": pl.UInt32, "came_last": pl.Int64, "waited_ns": pl.Int64}
    if collectives(profile)["session"].n_unique() < 2:
        return pl.DataFrame(schema=schema)
    answer = stragglers(profile)
    if not answer.matched:
        return pl.DataFrame(schema=schema)
    sums = answer.waits.group_by("session").agg(pl.col("wait_ns").sum().alias("waited_ns"))
    return (
        matched_times(profile)
        .filter(is_synchronizing())
        .select(pl.col("session").unique())
        .join(sums, on="session", how="left")
        .join(answer.by_session.select("session", came_last="times"), on="session", how="left")
        .select("session", pl.col("came_last").fill_null(0), pl.col("waited_ns").fill_null(0))
    )


def rank_iterations(profile: Profile, *, session: int | None = None) -> pl.DataFrame:
    """Return iterations that several ranks have, by number: the spread between ranks.

    Columns: session, iteration, duration_ns (of the rank), mean_ns, shortest_ns, longest_ns (over the ranks), behind_ns
    (duration - mean), spread_pct (100 x (longest - shortest) / mean), ranks (how many have it), longest_rank (the rank
    with the longest iteration), last_rank (the rank that arrived last at its long collectives; null if none did),
    wait_ns (the longest time of a rank in them beyond that of the last one).

    Args:
        profile: All ranks.
        session: The rank; None: one row for each.
    """
    rows = iterations(profile).drop_nulls(["iteration", "duration_ns"]).select("session", "iteration", "duration_ns")
    time, key = pl.col("duration_ns"), "iteration"
    spreads = (
        rows.with_columns(
            time.mean().over(key).round().cast(pl.Int64).alias("mean_ns"),
            time.min().over(key).alias("shortest_ns"),
            time.max().over(key).alias("longest_ns"),
            pl.col("session").n_unique().over(key).cast(pl.Int64).alias("ranks"),
            pl.col("session").sort_by(time, descending=True, maintain_order=True).first().over(key).alias("longest"),
        )
        .filter(pl.col("ranks") > 1)
        .join(last_ranks(profile), on="iteration", how="left", maintain_order="left")
        .with_columns(
            (time - pl.col("mean_ns")).alias("behind_ns"),
            pl.when(pl.col("mean_ns") > 0)
            .then(100 * (pl.col("longest_ns") - pl.col("shortest_ns")) / pl.col("mean_ns"))
            .alias("spread_pct"),
            session_name_column(profile, "longest", "longest_rank"),
            session_name_column(profile, "last", "last_rank"),
        )
        .select(column.name for column in RANK_ITERATIONS.columns)
        .sort("session", "iteration")
    )
    return spreads if session is None else spreads.filter(pl.col("session") == session)


@dataclass(frozen=True, slots=True)
class StragglerVerdict:
    """A sentence about the straggler."""

    sentence: str
    """The answer, or why there is none."""
    method: str
    """How it was found; empty if it was not."""
    session: int | None = None
    """The straggler."""


def straggler_verdict(profile: Profile) -> StragglerVerdict:
    """Return the straggler: the rank that the others wait for, if there is a clear one.

    It arrives last in more than half of the iterations, and in at least two; rule C5 of the Expert Systems has its own
    thresholds.
    """
    if collectives(profile)["session"].n_unique() < 2:
        return StragglerVerdict("straggler not applicable: fewer than two ranks recorded NCCL or RCCL kernels", "")
    answer = stragglers(profile)
    if not answer.matched:
        return StragglerVerdict(f"straggler unknown: {answer.unknown_reason}", "")
    if not answer.long:
        return StragglerVerdict(
            f"no straggler: all of the {count(answer.matched)} matched collectives are short", METHOD
        )
    if answer.by_session.is_empty():
        min_wait = f"{LONG_PCT:g}% of a mean iteration"
        return StragglerVerdict(f"no straggler: no rank waits more than {min_wait} in any iteration", METHOD)
    first = answer.by_session.row(0, named=True)
    steps = plural(answer.iterations, "iteration")
    rank_label = session_labels(profile)[first["session"]]
    if first["times"] < 2 or 2 * first["times"] <= answer.iterations:
        return StragglerVerdict(
            f"no single straggler: {rank_label} arrives last in {count(first['times'])} of {steps}", METHOD
        )
    return StragglerVerdict(
        f"{rank_label[0].upper()}{rank_label[1:]} is the straggler: it arrives last at the long collectives "
        f"in {count(first['times'])} of {steps}; other ranks wait up to {brief_duration(first['wait_ns'])} for it"
        + (
            f"; {incomplete_note}: a missing rank may arrive later"
            if (incomplete_note := unloaded_ranks_note(profile))
            else ""
        ),
        METHOD,
        first["session"],
    )
