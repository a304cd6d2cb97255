"""Single GPU activities of any kind, as shown below streams, copies, API calls, ranges and metrics; rows by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.cache.spill import filter_rows
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile


ACTIVITY_TABLE: Final = TableSpec(
    "gpu_work",
    "GPU work",
    columns(
        "name",
        "start_ns",
        "duration_ns",
        "stream",
        "kind",
        "size_bytes",
        "throughput",
        "copy_kind",
        "src_memory",
        "dst_memory",
        "iteration",
        "device",
        "correlation",
        "session",
        "line",
        "activity",
    ),
    key=("session", "activity"),
    weight="duration_ns",
)


def filtered_activities(profile: Profile, *conditions: pl.Expr) -> pl.DataFrame:
    """Return the activities that meet all conditions, in time order, with the columns of the frame.

    Args:
        profile: The profile.
        *conditions: Conditions on the frame ``activities``; none: no rows.
    """
    if not conditions:
        return profile["activities"].clear()
    return filter_rows(profile["activities"], *conditions)


def launched_activities(profile: Profile, *, session: int, correlations: Sequence[int]) -> pl.DataFrame:
    """Return the activities that API calls of a session launched, by the numbers that link them."""
    numbers = pl.Series(correlations, dtype=pl.Int64)
    return filtered_activities(profile, pl.col("session") == session, pl.col("correlation").is_in(numbers.implode()))


def activity_rows(profile: Profile, activity: int) -> pl.DataFrame:
    """Return the row of ``activities`` with a number, as a frame of one row.

    Args:
        profile: The profile.
        activity: Its number, the column ``activity``.

    Raises:
        KeyError: There is no such activity.
    """
    activities = profile["activities"]
    # Numbers are consecutive, but start above 0 in a profile of one session: try the computed row first.
    first = activities.head(1)["activity"]
    if len(first) and (index := activity - int(first[0])) >= 0:
        rows = activities.slice(index, 1)
        if rows["activity"].to_list() == [activity]:
            return rows
    rows = activities.filter(pl.col("activity") == activity)
    if rows.is_empty():
        raise KeyError(f"there is no activity {activity}")
    return rows


def activity_row(profile: Profile, activity: int) -> dict[str, Any]:
    """Return the row of ``activities`` with a number, as values by column name."""
    return activity_rows(profile, activity).row(0, named=True)


def with_shapes(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``grid`` and ``block`` as text, as ``(27848 1 1)``; null if the input has none.

    Each distinct shape is formatted once.
    """
    for shape in ("grid", "block"):
        axes = [f"{shape}_{axis}" for axis in "xyz"]
        texts = rows.select(axes).unique().drop_nulls().with_columns(pl.format("({} {} {})", *axes).alias(shape))
        rows = rows.join(texts, on=axes, how="left", maintain_order="left")
    return rows
