"""Whether the clocks of ranks can be compared: ranks leave a collective together, which the times have to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.memo import once_per_profile
from tui.analysis.ranks.collectives import TURN, collectives, leave_together, matched, open_ranks_words
from tui.fmt import count, duration

if TYPE_CHECKING:
    from tui.model.profile import Profile

AGREE_NS: Final = 100_000
"""Clocks agree where ranks leave collectives no further apart than this, or than the part below."""
AGREE_PART: Final = 0.05
"""Of the time that the longest rank is in them, as medians."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """What is known of the clocks of the ranks."""

    said: str
    """In words: how far they agree, or why they cannot be compared."""
    agree: frozenset[int]
    """The sessions whose clocks can be compared with those of all others of them."""
    apart_ns: int | None = None
    """How far apart ranks leave collectives: the median; None where that is not known."""


@once_per_profile("activities", "sessions")
def clocks(profile: Profile) -> Clocks:
    """Whether times of ranks can be compared.

    Times of one file have one clock; those of several are Unix times, where the input tells them. Whether two clocks
    agree the collectives show: their ends.
    """
    rows = with_times(profile)
    if collectives(profile)["session"].n_unique() < 2:
        return Clocks("fewer than two ranks recorded kernels of NCCL or RCCL", frozenset())
    if rows.is_empty():
        return Clocks(
            "no collective could be matched: no iteration has the same number of them on all ranks", frozenset()
        )
    unknown = rows.filter(pl.col("begin_ns").is_null())["session"].n_unique()
    if unknown:
        return Clocks(
            f"clocks cannot be compared: {count(unknown)} of {count(rows['session'].n_unique())} files do not tell the "
            "time of day that their times count from",
            frozenset(),
        )
    # Of times since 1970 a float would keep a quarter of a microsecond: differences are taken before medians.
    end = pl.col("begin_ns") + pl.col("duration_ns")
    left = end - end.min().over(TURN)
    together = rows.filter(leave_together()).with_columns(left.alias("left_ns"))
    ends = (
        together.with_columns((pl.col("left_ns") - pl.col("left_ns").median().over(TURN)).abs().alias("off_ns"))
        .group_by("session")
        .agg(pl.col("off_ns").median(), pl.col("longest_ns").median())
        .sort("session")
    )
    if ends.is_empty():
        return Clocks(
            "clocks cannot be compared: no collective is of a kind that all ranks leave together", frozenset()
        )
    most = pl.max_horizontal(pl.lit(float(AGREE_NS)), AGREE_PART * pl.col("longest_ns"))
    good = ends.filter(2 * pl.col("off_ns") <= most)
    apart = int(together.group_by(TURN).agg(pl.col("left_ns").max())["left_ns"].median())  # type: ignore[arg-type]
    if good.height == ends.height:
        said = f"clocks agree: ranks leave collectives within {duration(apart)} of each other"
        if part := open_ranks_words(profile):
            said += f"; {part}: waits for the others count as transfer"
        return Clocks(said, frozenset(rows["session"].unique()), apart)
    off = ends.height - good.height
    if good.height < 2:
        said = f"clocks differ by about {duration(apart)}: so far apart ranks leave collectives, which end together"
        return Clocks(said, frozenset(), apart)
    furthest = int(float(ends["off_ns"].max()))  # type: ignore[arg-type]
    said = (
        f"the clocks of {count(off)} of {count(ends.height)} ranks differ from the others' by up to "
        f"{duration(furthest)}: so far apart they leave collectives, which end together"
    )
    return Clocks(said, frozenset(good["session"]), apart)


def with_times(profile: Profile) -> pl.DataFrame:
    """`matched` with begin_ns: the start by a clock that others may have, too; null where there is none."""
    rows = matched(profile)
    sessions = profile["sessions"].filter(pl.col("session").is_in(rows["session"].unique().implode()))
    told = sessions.select("session", pl.col("origin_ns").alias("shift_ns"))
    if sessions["source"].n_unique() == 1 and sessions["origin_ns"].null_count():
        told = sessions.select("session", pl.lit(0, pl.Int64).alias("shift_ns"))
    return rows.join(told, on="session", how="left", maintain_order="left").with_columns(
        (pl.col("start_ns") + pl.col("shift_ns")).alias("begin_ns")
    )
