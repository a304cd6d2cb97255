"""Time in collectives: waiting for the last rank, and the transfer after it arrived."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.memo import once_per_profile
from tui.analysis.ranks.collectives import TURN, clocks, collectives, leave_together, matched, with_times
from tui.analysis.sessions import named
from tui.fmt import brief_duration, count
from tui.model.columns import COLUMNS, columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile


COLLECTIVE_KINDS: Final = TableSpec(
    "collective_kinds",
    "Kinds of collectives",
    (
        *columns("collective", "comm_wait_ns", "comm_transfer_ns", "comm_wait_pct", "all_comm_ns", "comm_unmatched_ns"),
        *columns("collectives", "ranks", "group_size", "communicator"),
    ),
    key=("collective", "communicator"),
    pinned="collective",
    pinned_least=10,
    weight="all_comm_ns",
)

COLLECTIVES: Final = TableSpec(
    "collectives",
    "Collectives",
    (
        *columns("collective", "late_ns", "last_rank", "comm_wait_ns", "comm_transfer_ns", "comm_wait_pct"),
        *columns("iteration", "turn", "longest_ns", "shortest_ns", "ranks", "group_size", "communicator"),
    ),
    key=TURN,
    pinned="collective",
    pinned_least=10,
)

COLLECTIVE_RANKS: Final = TableSpec(
    "collective_ranks",
    "Ranks in the collective",
    (
        *columns("who", "arrival_ns"),
        replace(COLUMNS["duration_ns"], priority=2),
        *columns("comm_wait_ns", "comm_transfer_ns", "iteration", "turn", "collective", "session", "activity"),
        *columns("communicator"),
    ),
    key=("session", *TURN),
    pinned="who",
    pinned_least=8,
)


@once_per_profile("activities", "sessions")
def in_collectives(profile: Profile) -> pl.DataFrame:
    """`matched` collectives, one row for each rank: how long it waited there, and how long it transferred.

    Columns: those of `matched`, arrival_ns (start after the first rank's), comm_wait_ns (from its start to that of the
    last rank, at most its duration), comm_transfer_ns (the rest of its duration). These are null where the clocks of
    any of its ranks cannot be compared (`clocks`), and of what a rank may leave before the last has come.
    """
    rows = with_times(profile)
    good = pl.col("session").is_in(sorted(clocks(profile).agree)).all().over(TURN) & leave_together()
    begin = pl.when(good).then("begin_ns")
    late = begin.max().over(TURN) - begin
    wait = pl.when(late.is_not_null()).then(pl.min_horizontal(late, "duration_ns"))
    return rows.with_columns(
        (begin - begin.min().over(TURN)).alias("arrival_ns"),
        wait.alias("comm_wait_ns"),
        (pl.col("duration_ns") - wait).alias("comm_transfer_ns"),
    ).drop("begin_ns", "shift_ns")


def collective_ranks(profile: Profile, *, of: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """`in_collectives`, the last to arrive first, else the one that is in it shortest.

    Args:
        profile: All ranks.
        of: The iteration, communicator and turn of one collective; None: all.
    """
    rows = in_collectives(profile)
    if of is not None:
        rows = rows.filter(pl.col(name) == of[name] for name in TURN)
    return (
        rows.with_columns(named(profile, "session", "who"))
        .sort(*TURN, "arrival_ns", "duration_ns", "session", descending=[False] * 3 + [True, False, False])
        .select(column.name for column in COLLECTIVE_RANKS.columns)
    )


def collective_kinds(profile: Profile) -> pl.DataFrame:
    """One row per kind of collective and process group, the one that cost most waiting first; empty for one rank alone.

    Columns: collective, communicator, collectives (matched ones, each counted once), ranks (that recorded any of it),
    group_size; all_comm_ns (summed over the ranks), comm_wait_ns, comm_transfer_ns and comm_unmatched_ns, which add up
    to it as in `waits_of_ranks`; comm_wait_pct. Of a kind of which none was matched, all is unmatched.
    """
    rows = collectives(profile)
    by = ("collective", "communicator")
    if rows["session"].n_unique() < 2:
        rows = rows.clear()
    own = rows.group_by(by).agg(
        pl.col("duration_ns").sum().alias("all_comm_ns"),
        pl.col("session").n_unique().cast(pl.Int64).alias("ranks"),
        pl.col("group_size").max(),
    )
    matched = in_collectives(profile)
    counted = matched.group_by(by).agg(pl.struct(TURN).n_unique().cast(pl.Int64).alias("collectives"))
    sums = matched.drop_nulls("comm_wait_ns").group_by(by).agg(pl.col("comm_wait_ns", "comm_transfer_ns").sum())
    return (
        own.join(counted, on=by, how="left", nulls_equal=True)
        .join(sums, on=by, how="left", nulls_equal=True)
        .with_columns(pl.col("collectives").fill_null(0), *_shares())
        .with_columns(
            comm_unmatched_ns=pl.when(pl.col("collectives") == 0).then("all_comm_ns").otherwise("comm_unmatched_ns")
        )
        .sort("comm_wait_ns", "all_comm_ns", *by, descending=[True, True, False, False], nulls_last=True)
        .select(column.name for column in COLLECTIVE_KINDS.columns)
    )


def unmatched_note(profile: Profile) -> str:
    """How much communication is matched with no other rank, and why; empty where all of it is, or for one rank."""
    rows = collectives(profile)
    if rows["session"].n_unique() < 2:
        return ""
    left = rows.join(matched(profile), on=("session", "activity"), how="anti")
    if left.is_empty():
        return ""
    outside = left["iteration"].is_null()
    shared = rows.group_by("communicator").agg(pl.col("session").n_unique().alias("ranks"))
    alone = ~outside & (left.join(shared, on="communicator", how="left", maintain_order="left")["ranks"] == 1)
    differ = ~(outside | alone)
    kinds = (
        (int(outside.sum()), "outside iterations"),
        (int(alone.sum()), "no other rank of their process group is open"),
        (int(differ.sum()), "number or kind differs between ranks in their iteration"),
    )
    parts = [(number, text) for number, text in kinds if number]
    why = parts[0][1] if len(parts) == 1 else ", ".join(f"{count(number)} {text}" for number, text in parts)
    spent = brief_duration(int(left["duration_ns"].sum()))
    kernels = f"{count(left.height)} communication kernel{'s' if left.height != 1 else ''}"
    return f"unmatched: {kernels} ({spent}): {why}"


def _shares() -> tuple[pl.Expr, pl.Expr]:
    whole = pl.col("comm_wait_ns") + pl.col("comm_transfer_ns")
    return (
        (pl.col("all_comm_ns") - whole).alias("comm_unmatched_ns"),
        pl.when(whole > 0).then(100 * pl.col("comm_wait_ns") / whole).alias("comm_wait_pct"),
    )


def matched_collectives(
    profile: Profile, *, collective: str | None = None, communicator: str | None = None
) -> pl.DataFrame:
    """One row per collective that was matched over ranks, the one that cost most waiting first.

    Columns: iteration, communicator, turn, collective, ranks (that took part), group_size, late_ns (from the first
    arrival to the last), last_rank (who arrived last; where clocks cannot be compared, who was in it shortest; null of
    what a rank may leave before the last has come), comm_wait_ns and comm_transfer_ns (summed over the ranks),
    comm_wait_pct, longest_ns, shortest_ns.

    Args:
        profile: All ranks.
        collective: The kind, where a communicator is given.
        communicator: Only those of this process group and kind; None: all.
    """
    rows = in_collectives(profile)
    if communicator is not None:
        rows = rows.filter(pl.col("communicator") == communicator, pl.col("collective").eq_missing(collective))
    known = pl.col("comm_wait_ns").null_count() == 0
    by_clock = pl.col("session").sort_by("arrival_ns", descending=True, maintain_order=True).first()
    by_length = pl.col("session").sort_by("duration_ns", maintain_order=True).first()
    found = rows.group_by(TURN, maintain_order=True).agg(
        pl.col("collective").drop_nulls().first(),
        pl.col("group_size").max(),
        pl.len().cast(pl.Int64).alias("ranks"),
        pl.col("arrival_ns").max().alias("late_ns"),
        pl.when(leave_together().all()).then(pl.when(known).then(by_clock).otherwise(by_length)).alias("last"),
        *(pl.when(known).then(pl.col(name).sum()).alias(name) for name in ("comm_wait_ns", "comm_transfer_ns")),
        pl.col("longest_ns").first(),
        pl.col("shortest_ns").first(),
    )
    whole = pl.col("comm_wait_ns") + pl.col("comm_transfer_ns")
    return (
        found.with_columns(
            named(profile, "last", "last_rank"),
            pl.when(whole > 0).then(100 * pl.col("comm_wait_ns") / whole).alias("comm_wait_pct"),
            (pl.col("longest_ns") - pl.col("shortest_ns")).alias("apart"),
        )
        .sort("comm_wait_ns", "apart", *TURN, descending=[True, True, False, False, False], nulls_last=True)
        .select(column.name for column in COLLECTIVES.columns)
    )


def waits_of_ranks(profile: Profile) -> pl.DataFrame:
    """One row per session with collectives: what its time in them went for.

    Columns: session, all_comm_ns (summed durations of its communication), comm_wait_ns, comm_transfer_ns and
    comm_unmatched_ns, which add up to it: what is matched and of which waiting
    is unknown counts as unmatched;
    comm_wait_pct (of wait and transfer). All but the first are null where wait and transfer are unknown.
    """
    own = collectives(profile).group_by("session").agg(pl.col("duration_ns").sum().alias("all_comm_ns"))
    sums = (
        in_collectives(profile)
        .drop_nulls("comm_wait_ns")
        .group_by("session")
        .agg(pl.col("comm_wait_ns", "comm_transfer_ns").sum())
    )
    return own.join(sums, on="session", how="left").with_columns(*_shares()).sort("session")
