"""The row of one GPU activity, by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from tui.model.profile import Profile


def activity_rows(profile: Profile, activity: int) -> pl.DataFrame:
    """The one row of ``activities`` that has a number, as a frame.

    Args:
        profile: Where it is.
        activity: Its number, the column ``activity``.

    Raises:
        KeyError: There is no such activity.
    """
    activities = profile["activities"]
    # Numbers count up, from another one than 0 where a session of many is looked at: most stand where that puts them.
    first = activities.head(1)["activity"]
    if len(first) and (place := activity - int(first[0])) >= 0:
        rows = activities.slice(place, 1)
        if rows["activity"].to_list() == [activity]:
            return rows
    rows = activities.filter(pl.col("activity") == activity)
    if rows.is_empty():
        raise KeyError(f"there is no activity {activity}")
    return rows


def activity_row(profile: Profile, activity: int) -> dict[str, Any]:
    """The same by the names of its columns."""
    return activity_rows(profile, activity).row(0, named=True)
