"""How ranges lie within each other: what there is at each depth, and the GPU work of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.durations import figures, total
from tui.analysis.gpu_work import gpu_work, work_of_calls
from tui.analysis.memo import once_per_profile
from tui.analysis.range_work import WORK, work_while_open
from tui.analysis.ranges import OF_A_NAME, RANGES
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

RANGE_DEPTHS: Final = TableSpec(
    "range_depths",
    "Ranges by depth",
    columns("depth", "calls", "names", "total_ns", "self_ns", "avg_ns", "max_ns", *WORK, "session"),
    key=("session", "depth"),
    pinned="depth",
    pinned_least=6,
)

NAMES_AT_DEPTH: Final = TableSpec(
    "names_at_depth",
    "Names at this depth",
    tuple(column for column in RANGES.columns if column.name != "line"),
    key=("session", "domain", "name"),
    sort=(("total_ns", True),),
)


@once_per_profile("ranges", "activities", "api_calls")
def ranges_by_depth(profile: Profile) -> pl.DataFrame:
    """One row per session and depth (ranges of the same thread around a range): outermost first.

    Columns: session, depth (null: not known), calls (ranges), names (distinct), total_ns, self_ns (total less that of
    the next depth: time in which no range lies within), avg_ns, max_ns, and the GPU work of
    `tui.analysis.range_work.work_while_open`. Ranges of one depth do not overlap on a thread, so their times add up;
    over several depths they do not, but all self times add up to the total of the outermost depth.
    """
    rows = profile["ranges"]
    deeper = (
        rows.drop_nulls("depth")
        .group_by("session", (pl.col("depth") - 1).alias("depth"))
        .agg(pl.col("duration_ns").sum().alias("inside_ns"))
    )
    return (
        rows.group_by("session", "depth")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.struct("domain", "name").n_unique().cast(pl.Int64).alias("names"),
            total().alias("total_ns"),
            pl.col("duration_ns").mean().round().cast(pl.Int64).alias("avg_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
        )
        .join(deeper, on=["session", "depth"], how="left")
        .join(
            work_while_open(rows, ("session", "depth"), profile), on=["session", "depth"], how="left", nulls_equal=True
        )
        .with_columns(
            # Ranges that are not nested have no time of their own that could be told.
            pl.when(pl.col("depth").is_not_null() & (pl.col("total_ns") >= pl.col("inside_ns").fill_null(0)))
            .then(pl.col("total_ns") - pl.col("inside_ns").fill_null(0))
            .alias("self_ns")
        )
        .select(column.name for column in RANGE_DEPTHS.columns)
        .sort("session", "depth", nulls_last=True)
    )


def at_depth(depth: int | None) -> pl.Expr:
    """The ranges of a depth."""
    return pl.col("depth").eq_missing(pl.lit(depth, pl.Int32))


def names_at_depth(profile: Profile, *, session: int, depth: int | None) -> pl.DataFrame:
    """The ranges of one depth by name, most time first: columns as `tui.analysis.ranges.ranges_by_name`, less line."""
    rows = profile["ranges"].filter(pl.col("session") == session, at_depth(depth))
    return (
        rows.group_by(OF_A_NAME, maintain_order=True)
        .agg(*figures())
        .join(work_while_open(rows, OF_A_NAME, profile), on=OF_A_NAME, how="left", nulls_equal=True)
        .sort("total_ns", "name", descending=[True, False], nulls_last=True)
    )


def work_in_range(profile: Profile, row: Mapping[str, Any], *, meanwhile: bool = False) -> pl.DataFrame:
    """The GPU work that the thread of a range launched between its start and its end, whenever it ran.

    Args:
        profile: Where to look.
        row: Of `tui.analysis.ranges.range_instances`.
        meanwhile: What the other threads of its process launched in that time instead.
    """
    if any(row[name] is None for name in ("pid", "tid", "start_ns", "duration_ns")):
        return gpu_work(profile)
    own = pl.col("tid") == row["tid"]
    calls = profile["api_calls"].filter(
        pl.col("session") == row["session"],
        pl.col("pid") == row["pid"],
        ~own if meanwhile else own,
        pl.col("start_ns").is_between(row["start_ns"], row["start_ns"] + row["duration_ns"]),
    )
    numbers = calls["correlation"].drop_nulls().unique().to_list()
    return work_of_calls(profile, session=row["session"], correlations=numbers)


def ranges_around(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """The ranges of the same thread that a range lies in, outermost first.

    Args:
        profile: Where to look.
        row: Of `tui.analysis.ranges.range_instances`.
    """
    if any(row[name] is None for name in ("start_ns", "duration_ns", "depth")):
        return profile["ranges"].clear()
    end = pl.col("start_ns") + pl.col("duration_ns")
    return (
        profile["ranges"]
        .filter(
            pl.col("session") == row["session"],
            pl.col("pid").eq_missing(pl.lit(row["pid"], pl.Int64)),
            pl.col("tid").eq_missing(pl.lit(row["tid"], pl.Int64)),
            pl.col("depth") < row["depth"],
            pl.col("start_ns") <= row["start_ns"],
            end >= row["start_ns"] + row["duration_ns"],
        )
        .sort("depth", "start_ns")
    )
