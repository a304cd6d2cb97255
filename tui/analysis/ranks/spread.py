"""Spread between ranks: by iteration, op and op type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.iterations.iteration_table import iterations
from tui.analysis.iterations.work import iteration_of_activities
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import classified_work
from tui.analysis.ops.op_type_rules import UNKNOWN
from tui.analysis.ops.ops_by_name import inferred_ops
from tui.analysis.ranks.collectives import collectives, stragglers
from tui.analysis.sessions import named
from tui.model.columns import COLUMNS, columns
from tui.model.table_spec import TableSpec

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
    pinned_least=10,
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
RANKS_OF_OP: Final = TableSpec(
    "ranks_of_op",
    "Ranks in the op",
    columns("who", "rank_op_ns", "rank_gpu_ns", "rank_launches", "iterations", "op", "op_type", "session"),
    key=("session", "op", "op_type"),
    pinned="who",
    pinned_least=8,
    weight="rank_gpu_ns",
)


def slowest_ranks(profile: Profile) -> pl.DataFrame:
    """One row per iteration that several ranks have, the one in which a rank is furthest above the median first.

    Columns: iteration, longest_rank and longest_ns, above_median_ns (longest - median), rank_median_ns, spread_pct
    (100 x (longest - shortest) / mean), fastest_rank and shortest_ns, ranks (how many have it), last_rank and wait_ns
    (as `tables.rank_iterations`).
    """
    rows = iterations(profile).drop_nulls(["iteration", "duration_ns"]).select("session", "iteration", "duration_ns")
    time, session = pl.col("duration_ns"), pl.col("session")
    found = (
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
        found.join(last_ranks(profile), on="iteration", how="left", maintain_order="left")
        .with_columns(
            (pl.col("longest_ns") - pl.col("rank_median_ns")).alias("above_median_ns"),
            named(profile, "longest", "longest_rank"),
            named(profile, "shortest", "fastest_rank"),
            named(profile, "last", "last_rank"),
        )
        .sort("above_median_ns", "iteration", descending=[True, False])
        .select(column.name for column in SLOWEST_RANKS.columns)
    )


def last_ranks(profile: Profile) -> pl.DataFrame:
    """For each iteration with long collectives: iteration, last (the session that arrived last to them), wait_ns."""
    if collectives(profile)["session"].n_unique() < 2:
        return pl.DataFrame(schema={"iteration": pl.Int32, "last": pl.UInt32, "wait_ns": pl.Int64})
    return stragglers(profile).by_iteration.select("iteration", last="session", wait_ns="wait_ns")


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "ranges", "summary")
def ops_of_ranks(profile: Profile) -> pl.DataFrame:
    """GPU work that was launched in iterations, by session, op and op type; it adds up to all of that work.

    Columns: session, op (the recorded one, else the type that the kernel's name implies; where a session records ops
    and the work has none, the reason), op_type, rank_launches, rank_gpu_ns, iterations (of the session), rank_op_ns
    (rank_gpu_ns by iteration, rounded; both null where no duration is known). Sessions without numbered iterations are
    left out.
    """
    counted = (
        iterations(profile)
        .drop_nulls("iteration")
        .group_by("session")
        .agg(pl.col("iteration").n_unique().cast(pl.Int64).alias("iterations"))
    )
    inside = profile["activities"].filter(iteration_of_activities(profile).is_not_null())
    within = replace(
        profile, frames={**profile.frames, "activities": inside, "summary": profile["summary"].clear()}, steps=None
    )
    name = pl.coalesce(pl.col("op").cast(pl.String), "why_no_op").alias("op")
    op_type = pl.col("op_type").cast(pl.String).fill_null(UNKNOWN)
    recorded = classified_work(within).select(
        "session", name, op_type, rank_launches="launches", rank_gpu_ns="total_ns"
    )
    inferred = inferred_ops(within).select(
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
    """One row per op type: the spread between the ranks that have it, the largest difference first.

    Columns: op_type, op_least_ns, op_middle_ns, op_most_ns (GPU time by iteration, over the ranks), apart_ns (most -
    least), op_spread_pct (100 x spread / mean), most_rank, least_rank, ranks (that have it), ranks_total_ns (GPU time
    in all iterations of all ranks). Empty where not two ranks have iterations.
    """
    by_type = (
        ops_of_ranks(profile)
        .group_by("session", "op_type")
        .agg(total("rank_gpu_ns").alias("rank_gpu_ns"), pl.col("iterations").first())
        .with_columns((pl.col("rank_gpu_ns") / pl.col("iterations")).round().cast(pl.Int64).alias("rank_op_ns"))
    )
    return _spread(profile, by_type, ("op_type",)).select(column.name for column in OP_TYPE_RANKS.columns)


def op_ranks(profile: Profile, *, op_type: str | None = None) -> pl.DataFrame:
    """The same for each op.

    Args:
        profile: All ranks.
        op_type: Only those of this type.
    """
    rows = ops_of_ranks(profile)
    if op_type is not None:
        rows = rows.filter(pl.col("op_type") == op_type)
    return _spread(profile, rows, ("op", "op_type")).select(column.name for column in OP_RANKS.columns)


def ranks_of_op(profile: Profile, *, op: str | None = None, op_type: str | None = None) -> pl.DataFrame:
    """What each rank takes for each op, the one that takes most first.

    Args:
        profile: All ranks.
        op: Only that op of that type; None: every op.
        op_type: Its type.
    """
    rows = ops_of_ranks(profile)
    if op is not None:
        rows = rows.filter(pl.col("op") == op, pl.col("op_type") == op_type)
    return (
        rows.with_columns(named(profile, "session", "who"))
        .sort("op_type", "op", "rank_op_ns", "session", descending=[False, False, True, False], nulls_last=True)
        .select(column.name for column in RANKS_OF_OP.columns)
    )


def _spread(profile: Profile, rows: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    if ops_of_ranks(profile)["session"].n_unique() < 2:
        rows = rows.clear()
    time, session = pl.col("rank_op_ns"), pl.col("session")
    return (
        rows.sort("session")
        .group_by(by)
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
        .with_columns(named(profile, "most", "most_rank"), named(profile, "least", "least_rank"))
        .sort("apart_ns", *by, descending=[True, *(False for _ in by)], nulls_last=True)
    )
