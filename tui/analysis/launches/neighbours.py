"""What ran just before and just after a GPU activity on its stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.launches.row import activity_row

if TYPE_CHECKING:
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An activity next to another one on the same stream."""

    activity: int
    """Its number, the column ``activity``."""
    name: str
    duration_ns: int | None
    """None where the input does not say."""
    gap_ns: int | None
    """Time between the two; None where it is below what the start times of the log can tell, or they overlap."""


def neighbours(profile: Profile, activity: int) -> tuple[Neighbour | None, Neighbour | None]:
    """The activities before and after one on its session, device and stream; None at the ends, or without a stream.

    Raises:
        KeyError: There is no such activity.
    """
    activities = profile["activities"]
    row = activity_row(profile, activity)
    if row["stream"] is None or row["start_ns"] is None or row["duration_ns"] is None:
        return None, None
    same = activities.lazy().filter(
        pl.col("session") == row["session"],
        pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32)),
        pl.col("stream") == row["stream"],
        pl.col("start_ns").is_not_null(),
    )
    chosen = ("activity", "name", "start_ns", "duration_ns")
    before = same.filter(pl.col("activity") < activity).last().select(chosen).collect()
    after = same.filter(pl.col("activity") > activity).first().select(chosen).collect()
    resolution = profile["sessions"].filter(pl.col("session") == row["session"])["start_resolution_ns"].item() or 1

    def neighbour(found: pl.DataFrame, *, earlier: bool) -> Neighbour | None:
        if found.is_empty():
            return None
        other = found.row(0, named=True)
        first, second = (other, row) if earlier else (row, other)
        gap = None if first["duration_ns"] is None else second["start_ns"] - first["start_ns"] - first["duration_ns"]
        told = gap if gap is not None and gap >= resolution else None
        return Neighbour(other["activity"], other["name"], other["duration_ns"], told)

    return neighbour(before, earlier=True), neighbour(after, earlier=False)
