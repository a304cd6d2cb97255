"""Collectives matched across ranks by their order within a process group: stragglers, clocks, waiting and transfer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.gpu_time.timelines import WorkKind, work_kinds
from tui.analysis.iterations.iteration_table import iterations
from tui.analysis.memo import once_per_profile
from tui.analysis.sessions import session_name_column
from tui.fmt import brief_duration, count
from tui.model.columns import COLUMNS, columns
from tui.model.table_spec import TableSpec
from tui.text import number_in, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

LONG_PCT: Final = 1.0
"""Only collectives that take more than this share of a mean iteration on some rank identify the straggler, and only
where another rank is in them longer by as much."""
METHOD: Final = "by durations: the rank that arrives last spends the least time in a collective"
"""A text on how the straggler is found."""

TURN: Final = ("iteration", "communicator", "turn")
"""What identifies a collective: its sequence number in the process group, where that is recorded; else the n-th of a
process group in an iteration is the same on all its ranks."""

_NAME: Final = r"(?:nccl|rccl)(?:Dev)?Kernel_(?:Generic_)?([A-Za-z]+)"
_OLD_NAME: Final = r"nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)\w*Kernel_"
"""Kernel names of NCCL up to 2.7: ``ncclAllReduceRingLLKernel_sum_f32``."""
_LEAVE_TOGETHER: Final = "(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier"


@once_per_profile("activities", "sessions")
def collectives(profile: Profile) -> pl.DataFrame:
    """Return kernels of communication whose times are known, by session and start.

    Columns: session, device, name, start_ns, duration_ns, iteration, arguments, collective (as recorded, else inferred
    from the kernel's name), communicator (the process group with its ranks; empty if not recorded), group_size (its
    ranks), seq (its number in the process group; null if not recorded).
    """
    communicates = pl.Series(work_kinds(profile) == WorkKind.COMMUNICATION)
    rows = (
        profile["activities"]
        .filter(communicates)
        .select("session", "device", "name", "start_ns", "duration_ns", "iteration", "arguments", "activity")
        .drop_nulls(["start_ns", "duration_ns"])
        .sort("session", "start_ns", "activity")
    )
    arguments = pl.DataFrame({"arguments": rows["arguments"].unique().drop_nulls()}).with_columns(
        pl.col("arguments").cast(pl.String).alias("said")
    )
    group = pl.col("said").str.extract(r"Process group name: ([^;]+)")
    members = pl.col("said").str.extract(r"Process group ranks: ([^;]+)")
    arguments = arguments.select(
        "arguments",
        pl.col("said").str.extract(r"Collective name: ([^;]+)").alias("recorded"),
        pl.concat_str(group, members, separator=" ", ignore_nulls=True).alias("communicator"),
        number_in(pl.col("said"), r"Group size: ([0-9]{1,9})").alias("group_size"),
        number_in(pl.col("said"), r"(?:^|; )Seq: ([0-9]{1,15})").alias("seq"),
    )
    by_name = pl.DataFrame({"name": rows["name"].unique()}).with_columns(
        pl.coalesce(pl.col("name").cast(pl.String).str.extract(pattern) for pattern in (_NAME, _OLD_NAME)).alias(
            "of_name"
        )
    )
    return (
        rows.join(arguments, on="arguments", how="left", maintain_order="left")
        .join(by_name, on="name", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("recorded", pl.col("of_name").str.to_lowercase()).alias("collective"),
            pl.col("communicator").fill_null(""),
        )
        .drop("recorded", "of_name")
    )


def is_synchronizing() -> pl.Expr:
    """Return the condition for collectives that end only after all ranks have joined: not broadcast or send."""
    return pl.col("collective").str.contains(_LEAVE_TOGETHER).fill_null(False)


@once_per_profile("activities", "sessions")
def matched_times(profile: Profile) -> pl.DataFrame:
    """Return the collectives that every rank of their group took part in, with the time of each rank.

    Where all of a process group have sequence numbers, equal numbers match. Else the n-th collective of a process group
    in an iteration is the n-th on all its ranks; iterations in which their numbers differ, or which a rank of the group
    does not have, are omitted, as are collectives whose kind differs between ranks.

    Columns: iteration, communicator, turn, session, activity, collective, group_size, start_ns, duration_ns,
    shortest_ns, longest_ns (over the ranks).
    """
    rows = collectives(profile).drop_nulls("iteration").join(_ranks(profile), on="session", how="left")
    members = collectives(profile).join(_ranks(profile), on="session", how="left")
    expected = members.group_by("communicator").agg(pl.col("who").n_unique().alias("expected"))
    key = ("iteration", "communicator")
    # Collectives that start at the same time on two streams keep the order of recording.
    by_order = pl.int_range(pl.len()).over("session", *key)
    has_seq = pl.col("seq").is_not_null().all().over("communicator")
    numbered = rows.sort("session", "start_ns", "activity").with_columns(
        pl.when(has_seq).then("seq").otherwise(by_order).alias("turn"), has_seq.alias("has_seq")
    )
    complete = numbered.filter("has_seq").join(expected, on="communicator", how="left", maintain_order="left")
    complete = complete.filter(
        pl.len().over(TURN) == pl.col("expected"), pl.col("who").n_unique().over(TURN) == pl.col("expected")
    ).filter(pl.col("expected") > 1)
    numbered = numbered.filter(~pl.col("has_seq"))
    same = (
        numbered.group_by("session", "who", *key)
        .len()
        .group_by(key)
        .agg(pl.col("len").n_unique().alias("kinds"), pl.len().alias("ranks"), pl.col("who").n_unique())
        .join(expected, on="communicator", how="left")
        .filter(
            pl.col("kinds") == 1,
            pl.col("ranks") > 1,
            pl.col("ranks") == pl.col("expected"),
            pl.col("who") == pl.col("expected"),
        )
    )
    by_turn = numbered.join(same.select(key), on=key, how="semi")
    return (
        pl.concat([by_turn, complete.select(by_turn.columns)])
        .filter(pl.col("collective").n_unique().over(TURN) == 1)
        .with_columns(
            pl.col("duration_ns").min().over(TURN).alias("shortest_ns"),
            pl.col("duration_ns").max().over(TURN).alias("longest_ns"),
        )
        .sort(*TURN, "session")
        .select(
            *TURN,
            *("session", "activity", "collective", "group_size"),
            *("start_ns", "duration_ns", "shortest_ns", "longest_ns"),
        )
    )


def _ranks(profile: Profile) -> pl.DataFrame:
    """Return session and who: the rank, else the session; a rank that was recorded twice counts once."""
    session = pl.col("session").cast(pl.Int64)
    return profile["sessions"].select("session", pl.coalesce(pl.col("rank").cast(pl.Int64), -1 - session).alias("who"))


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Who arrived last to the long collectives."""

    by_iteration: pl.DataFrame
    """One row per iteration with long collectives: iteration, session (the one that arrived last; null if no rank
    waited for more than the share of a mean iteration), wait_ns (what the rank that waited longest was in them above
    the shortest time)."""
    by_session: pl.DataFrame
    """One row per session that ever arrived last, the most frequent first: session, times, wait_ns."""
    waits: pl.DataFrame
    """One row per iteration and session: wait_ns, what it was in long collectives above the shortest time."""
    matched: int
    """How many collectives could be matched that all ranks leave together."""
    long: int
    """How many of them took long on some rank."""
    unknown_reason: str
    """Why there are none of them; empty if there are."""

    @property
    def iterations(self) -> int:
        """The number of iterations with long collectives."""
        return self.by_iteration.height


def stragglers(profile: Profile, *, long_pct: float = LONG_PCT) -> Stragglers:
    """Return which ranks arrived last at collectives, iteration by iteration.

    Args:
        profile: All sessions.
        long_pct: Only collectives that take more than this share of a mean iteration on some rank count, and a rank
            arrived last where another one was in those of an iteration longer by more than that.
    """
    rows = matched_times(profile).filter(is_synchronizing())
    times = iterations(profile).drop_nulls(["iteration", "duration_ns"])["duration_ns"]
    mean = times.mean()
    min_ns = long_pct / 100 * mean if isinstance(mean, float) else 0.0
    long_collectives = rows.filter(pl.col("longest_ns") > min_ns)
    waits = long_collectives.with_columns((pl.col("duration_ns") - pl.col("shortest_ns")).alias("wait_ns"))
    by_step = (
        waits.group_by("iteration", "session").agg(pl.col("wait_ns").sum()).sort("iteration", "wait_ns", "session")
    )
    spread = pl.col("wait_ns").last() - pl.col("wait_ns").first()
    last = by_step.group_by("iteration", maintain_order=True).agg(
        pl.when(spread > min_ns).then(pl.col("session").first()).alias("session"), pl.col("wait_ns").last()
    )
    last_counts = (
        last.drop_nulls("session")
        .group_by("session")
        .agg(pl.len().cast(pl.Int64).alias("times"), pl.col("wait_ns").sum())
        .sort("times", "session", descending=[True, False])
    )
    unknown_reason = "" if rows.height else "no iteration has the same number of collectives on all ranks"
    if matched_times(profile).height and not rows.height:
        unknown_reason = "the ranks have no common all-reduce, all-gather, reduce-scatter, all-to-all or barrier"
    return Stragglers(last, last_counts, by_step, _count(rows), _count(long_collectives), unknown_reason)


def unloaded_ranks_note(profile: Profile) -> str:
    """Return how many ranks of a process group are open if others are not; empty if all are or none is known."""
    rows = collectives(profile).join(_ranks(profile), on="session", how="left")
    sizes = profile["sessions"].select("session", world=pl.col("world_size").cast(pl.Int64))
    groups = (
        rows.join(sizes, on="session", how="left")
        .with_columns(pl.coalesce("group_size", pl.when(pl.col("communicator") == "").then("world")).alias("size"))
        .group_by("communicator")
        .agg(pl.col("who").n_unique().cast(pl.Int64).alias("open"), pl.col("size").max())
        .filter(pl.col("open") > 1, pl.col("open") < pl.col("size"))
        .sort("size", "open", "communicator", descending=[True, False, False])
    )
    if groups.is_empty():
        return ""
    first = groups.row(0, named=True)
    return f"only {count(first['open'])} of {count(first['size'])} ranks of a process group are loaded"


def _count(rows: pl.DataFrame) -> int:
    return rows.select(TURN).n_unique() if rows.height else 0


AGREE_NS: Final = 100_000
"""The largest time between ranks leaving one collective for clocks that agree, or the part below."""
AGREE_PART: Final = 0.05
"""The same limit as a part of the median time of the longest rank."""


@dataclass(frozen=True, slots=True)
class ClockAlignment:
    """Whether the clocks of the ranks agree."""

    sentence: str
    """How far the clocks agree, or why they cannot be compared."""
    agree: frozenset[int]
    """The sessions whose clocks can be compared with those of all others of them."""
    apart_ns: int | None = None
    """The time between ranks leaving one collective: the median; None if that is not known."""


@once_per_profile("activities", "sessions")
def clock_alignment(profile: Profile) -> ClockAlignment:
    """Return whether times of different ranks can be compared.

    Times of one file have one clock; those of several files are Unix times, if recorded. Two clocks agree if the ends
    of collectives do.
    """
    rows = matched_start_times(profile)
    if collectives(profile)["session"].n_unique() < 2:
        return ClockAlignment("fewer than two ranks recorded NCCL or RCCL kernels", frozenset())
    if rows.is_empty():
        return ClockAlignment(
            "no collective matched: no iteration has the same number of collectives on all ranks", frozenset()
        )
    untimed_sessions = rows.filter(pl.col("begin_ns").is_null())["session"].n_unique()
    if untimed_sessions:
        return ClockAlignment(
            f"clocks are not comparable: {count(untimed_sessions)} of {count(rows['session'].n_unique())} files do not "
            "record the wall-clock time of their start",
            frozenset(),
        )
    # A float keeps times since 1970 to a quarter of a microsecond only: subtract before taking medians.
    end = pl.col("begin_ns") + pl.col("duration_ns")
    leave_delay_ns = end - end.min().over(TURN)
    synchronizing = rows.filter(is_synchronizing()).with_columns(leave_delay_ns.alias("leave_delay_ns"))
    ends = (
        synchronizing.with_columns(
            (pl.col("leave_delay_ns") - pl.col("leave_delay_ns").median().over(TURN)).abs().alias("off_ns")
        )
        .group_by("session")
        .agg(pl.col("off_ns").median(), pl.col("longest_ns").median())
        .sort("session")
    )
    if ends.is_empty():
        return ClockAlignment("clocks are not comparable: no collective ends on all ranks together", frozenset())
    max_off_ns = pl.max_horizontal(pl.lit(float(AGREE_NS)), AGREE_PART * pl.col("longest_ns"))
    agreeing = ends.filter(2 * pl.col("off_ns") <= max_off_ns)
    spread = int(synchronizing.group_by(TURN).agg(pl.col("leave_delay_ns").max())["leave_delay_ns"].median())  # type: ignore[arg-type]
    if agreeing.height == ends.height:
        note = f"clocks agree: ranks leave collectives within {brief_duration(spread)} of each other"
        if unloaded_note := unloaded_ranks_note(profile):
            note += f"; {unloaded_note}: waiting for the other ranks counts as transfer"
        return ClockAlignment(note, frozenset(rows["session"].unique()), spread)
    disagreeing = ends.height - agreeing.height
    if agreeing.height < 2:
        note = f"clocks differ by about {brief_duration(spread)}: the same collective ends that far apart on the ranks"
        return ClockAlignment(note, frozenset(), spread)
    furthest = int(float(ends["off_ns"].max()))  # type: ignore[arg-type]
    note = (
        f"the clocks of {count(disagreeing)} of {count(ends.height)} ranks differ from the others by up to "
        f"{brief_duration(furthest)}: the same collective ends that far apart"
    )
    return ClockAlignment(note, frozenset(agreeing["session"]), spread)


def matched_start_times(profile: Profile) -> pl.DataFrame:
    """Return `matched_times` with begin_ns: the start on a clock that the ranks share, or null."""
    rows = matched_times(profile)
    sessions = profile["sessions"].filter(pl.col("session").is_in(rows["session"].unique().implode()))
    shifts = sessions.select("session", pl.col("origin_ns").alias("shift_ns"))
    if sessions["source"].n_unique() == 1 and sessions["origin_ns"].null_count():
        shifts = sessions.select("session", pl.lit(0, pl.Int64).alias("shift_ns"))
    return rows.join(shifts, on="session", how="left", maintain_order="left").with_columns(
        (pl.col("start_ns") + pl.col("shift_ns")).alias("begin_ns")
    )


COLLECTIVE_KINDS: Final = TableSpec(
    "collective_kinds",
    "Kinds of collectives",
    (
        *columns("collective", "comm_wait_ns", "comm_transfer_ns", "comm_wait_pct", "all_comm_ns", "comm_unmatched_ns"),
        *columns("collectives", "ranks", "group_size", "communicator"),
    ),
    key=("collective", "communicator"),
    pinned="collective",
    min_pinned_cells=10,
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
    min_pinned_cells=10,
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
    min_pinned_cells=8,
)


@once_per_profile("activities", "sessions")
def wait_and_transfer_times(profile: Profile) -> pl.DataFrame:
    """Return `matched_times` with the waiting and the transfer time of each rank.

    Columns: those of `matched_times`, arrival_ns (start after the first rank's), comm_wait_ns (from its start to that
    of the last rank, at most its duration), comm_transfer_ns (the rest of its duration). These are null if the clocks
    of any of its ranks cannot be compared (`clock_alignment`), and for collectives that a rank may leave before the
    last one arrives.
    """
    rows = matched_start_times(profile)
    is_comparable = (
        pl.col("session").is_in(sorted(clock_alignment(profile).agree)).all().over(TURN) & is_synchronizing()
    )
    begin = pl.when(is_comparable).then("begin_ns")
    delay = begin.max().over(TURN) - begin
    wait = pl.when(delay.is_not_null()).then(pl.min_horizontal(delay, "duration_ns"))
    return rows.with_columns(
        (begin - begin.min().over(TURN)).alias("arrival_ns"),
        wait.alias("comm_wait_ns"),
        (pl.col("duration_ns") - wait).alias("comm_transfer_ns"),
    ).drop("begin_ns", "shift_ns")


def collective_ranks(profile: Profile, *, row: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Return `wait_and_transfer_times`, the last rank to arrive first; without clocks the shortest one first.

    Args:
        profile: All ranks.
        row: The iteration, communicator and turn of one collective; None: all collectives.
    """
    rows = wait_and_transfer_times(profile)
    if row is not None:
        rows = rows.filter(pl.col(name) == row[name] for name in TURN)
    return (
        rows.with_columns(session_name_column(profile, "session", "who"))
        .sort(*TURN, "arrival_ns", "duration_ns", "session", descending=[False] * 3 + [True, False, False])
        .select(column.name for column in COLLECTIVE_RANKS.columns)
    )


def collective_kinds(profile: Profile) -> pl.DataFrame:
    """Return one row per kind of collective and process group, most waiting first; empty for a single rank.

    Columns: collective, communicator, collectives (matched ones, each counted once), ranks (that recorded any of it),
    group_size; all_comm_ns (summed over the ranks), comm_wait_ns, comm_transfer_ns and comm_unmatched_ns, which add up
    to it as in `rank_waits`; comm_wait_pct.
    """
    rows = collectives(profile)
    keys = ("collective", "communicator")
    if rows["session"].n_unique() < 2:
        rows = rows.clear()
    totals = rows.group_by(keys).agg(
        pl.col("duration_ns").sum().alias("all_comm_ns"),
        pl.col("session").n_unique().cast(pl.Int64).alias("ranks"),
        pl.col("group_size").max(),
    )
    matched = wait_and_transfer_times(profile)
    counted = matched.group_by(keys).agg(pl.struct(TURN).n_unique().cast(pl.Int64).alias("collectives"))
    sums = matched.drop_nulls("comm_wait_ns").group_by(keys).agg(pl.col("comm_wait_ns", "comm_transfer_ns").sum())
    return (
        totals.join(counted, on=keys, how="left", nulls_equal=True)
        .join(sums, on=keys, how="left", nulls_equal=True)
        .with_columns(pl.col("collectives").fill_null(0), *_shares())
        .with_columns(
            comm_unmatched_ns=pl.when(pl.col("collectives") == 0).then("all_comm_ns").otherwise("comm_unmatched_ns")
        )
        .sort("comm_wait_ns", "all_comm_ns", *keys, descending=[True, True, False, False], nulls_last=True)
        .select(column.name for column in COLLECTIVE_KINDS.columns)
    )


def unmatched_note(profile: Profile) -> str:
    """Return how much communication matches no other rank, and why; empty if all matches, or for one rank."""
    rows = collectives(profile)
    if rows["session"].n_unique() < 2:
        return ""
    unmatched = rows.join(matched_times(profile), on=("session", "activity"), how="anti")
    if unmatched.is_empty():
        return ""
    outside = unmatched["iteration"].is_null()
    shared = rows.group_by("communicator").agg(pl.col("session").n_unique().alias("ranks"))
    is_alone = ~outside & (unmatched.join(shared, on="communicator", how="left", maintain_order="left")["ranks"] == 1)
    differ = ~(outside | is_alone)
    kinds = (
        (int(outside.sum()), "outside iterations"),
        (int(is_alone.sum()), "no other rank of their process group is loaded"),
        (int(differ.sum()), "number or kind differs between ranks in their iteration"),
    )
    counts = [(number, text) for number, text in kinds if number]
    reason = counts[0][1] if len(counts) == 1 else ", ".join(f"{count(number)} {text}" for number, text in counts)
    spent = brief_duration(int(unmatched["duration_ns"].sum()))
    kernels = plural(unmatched.height, "communication kernel")
    return f"unmatched: {kernels} ({spent}): {reason}"


def _shares() -> tuple[pl.Expr, pl.Expr]:
    total = pl.col("comm_wait_ns") + pl.col("comm_transfer_ns")
    return (
        (pl.col("all_comm_ns") - total).alias("comm_unmatched_ns"),
        pl.when(total > 0).then(100 * pl.col("comm_wait_ns") / total).alias("comm_wait_pct"),
    )


def matched_collectives(
    profile: Profile, *, collective: str | None = None, communicator: str | None = None
) -> pl.DataFrame:
    """Return one row per collective that was matched over ranks, most waiting first.

    Columns: iteration, communicator, turn, collective, ranks (that took part), group_size, late_ns (from the first
    arrival to the last), last_rank (the rank that arrived last; the one with the shortest time if clocks cannot be
    compared; null if ranks may leave before the last one arrives), comm_wait_ns and comm_transfer_ns (summed over the
    ranks), comm_wait_pct, longest_ns, shortest_ns.

    Args:
        profile: All ranks.
        collective: The kind, where a communicator is given.
        communicator: Only those of this process group and kind; None: all.
    """
    rows = wait_and_transfer_times(profile)
    if communicator is not None:
        rows = rows.filter(pl.col("communicator") == communicator, pl.col("collective").eq_missing(collective))
    is_known = pl.col("comm_wait_ns").null_count() == 0
    by_clock = pl.col("session").sort_by("arrival_ns", descending=True, maintain_order=True).first()
    by_length = pl.col("session").sort_by("duration_ns", maintain_order=True).first()
    matched = rows.group_by(TURN, maintain_order=True).agg(
        pl.col("collective").drop_nulls().first(),
        pl.col("group_size").max(),
        pl.len().cast(pl.Int64).alias("ranks"),
        pl.col("arrival_ns").max().alias("late_ns"),
        pl.when(is_synchronizing().all()).then(pl.when(is_known).then(by_clock).otherwise(by_length)).alias("last"),
        *(pl.when(is_known).then(pl.col(name).sum()).alias(name) for name in ("comm_wait_ns", "comm_transfer_ns")),
        pl.col("longest_ns").first(),
        pl.col("shortest_ns").first(),
    )
    total = pl.col("comm_wait_ns") + pl.col("comm_transfer_ns")
    return (
        matched.with_columns(
            session_name_column(profile, "last", "last_rank"),
            pl.when(total > 0).then(100 * pl.col("comm_wait_ns") / total).alias("comm_wait_pct"),
            (pl.col("longest_ns") - pl.col("shortest_ns")).alias("apart"),
        )
        .sort("comm_wait_ns", "apart", *TURN, descending=[True, True, False, False, False], nulls_last=True)
        .select(column.name for column in COLLECTIVES.columns)
    )


def rank_waits(profile: Profile) -> pl.DataFrame:
    """Return one row per session with collectives: how its communication time divides into wait and transfer.

    Columns: session, all_comm_ns (summed durations of its communication), comm_wait_ns, comm_transfer_ns and
    comm_unmatched_ns, which add up to it (matched collectives with unknown waiting count as unmatched); comm_wait_pct
    (of wait and transfer). All but all_comm_ns are null if wait and transfer are unknown.
    """
    totals = collectives(profile).group_by("session").agg(pl.col("duration_ns").sum().alias("all_comm_ns"))
    sums = (
        wait_and_transfer_times(profile)
        .drop_nulls("comm_wait_ns")
        .group_by("session")
        .agg(pl.col("comm_wait_ns", "comm_transfer_ns").sum())
    )
    return totals.join(sums, on="session", how="left").with_columns(*_shares()).sort("session")
