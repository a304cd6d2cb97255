"""Iterations: how long each step of a training or inference loop took, and the GPU work that was launched in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import share, total
from tui.analysis.interval_sets import union_of
from tui.analysis.memo import once_per_profile
from tui.model.columns import ColumnKind, columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

OUTSIDE: Final = "outside of iterations"
"""The name of the row of what was launched before, between or after the iterations."""

# These names are words of the program, not C++ to be shortened.
_NAME: Final = replace(
    columns("name")[0],
    title="Marked by",
    kind=ColumnKind.TEXT,
    help="The range or annotation that marks it.",
    priority=2,
)

ITERATIONS: Final = TableSpec(
    "iterations",
    "Iterations",
    (
        *columns(
            "iteration",
            "session",
            "duration_ns",
            "gpu_ns",
            "time_pct",
            "kernels_launched",
            "busy_ns",
            "busy_pct",
            "idle_ns",
        ),
        _NAME,
        replace(columns("start_ns")[0], priority=5),
        *columns("rank"),
    ),
    key=("session", "iteration"),
    weight="gpu_ns",
    pinned="iteration",
    pinned_least=10,
)


@once_per_profile("sessions", "ranges", "activities", "ops")
def iterations(profile: Profile) -> pl.DataFrame:
    """One row per iteration, by session and number; a last row of each session for what lies in none.

    Columns: session, rank, iteration (as recorded: it can start anywhere; null in the last row), name (of the range
    that marks it, or `OUTSIDE`), start_ns and duration_ns (of that range), kernels_launched, gpu_ns (summed durations
    of the GPU work that was launched in it, whenever it ran), time_pct (its share of the session's GPU time), busy_ns
    (time from its start to its end in which any GPU of the session had work, of whatever iteration), idle_ns (the rest
    of its duration), busy_pct. Kernels and GPU time of the rows of a session add up to those of the session. Empty
    where the input records no iterations.
    """
    keys = ("session", "iteration")
    marks = (
        profile["ranges"]
        .drop_nulls("iteration")
        .group_by(keys)
        .agg(
            pl.col("name").first(),
            pl.col("start_ns").min(),
            ((pl.col("start_ns") + pl.col("duration_ns")).max() - pl.col("start_ns").min()).alias("duration_ns"),
        )
    )
    of_ops = profile["ops"].select(keys).drop_nulls("iteration").unique()
    work = (
        profile["activities"]
        .group_by(keys)
        .agg(
            ((pl.col("kind") == "kernel") | (pl.col("kind") == "graph")).sum().cast(pl.Int64).alias("kernels_launched"),
            total().alias("gpu_ns"),
        )
    )
    named = pl.concat([frame.select(keys).drop_nulls("iteration") for frame in (marks, of_ops, work)]).unique()
    sessions = named["session"].unique().implode()
    outside = work.filter(pl.col("iteration").is_null() & pl.col("session").is_in(sessions)).select(keys)
    has_work = pl.col("session").is_in(profile["activities"]["session"].unique().implode())
    rows = (
        pl.concat([named, outside])
        .join(marks, on=keys, how="left", nulls_equal=True)
        .join(work, on=keys, how="left", nulls_equal=True)
        .join(profile["sessions"].select("session", "rank"), on="session", how="left")
        .with_columns(pl.when(has_work).then(pl.col(column).fill_null(0)) for column in ("kernels_launched", "gpu_ns"))
        .with_columns(
            share("gpu_ns"),
            pl.when(pl.col("iteration").is_null())
            .then(pl.lit(OUTSIDE))
            .otherwise(pl.col("name").cast(pl.String))
            .cast(NAME)
            .alias("name"),
        )
        .sort(*keys, nulls_last=True)
    )
    return _with_busy(profile, rows).select(
        "session",
        "rank",
        "iteration",
        "name",
        "start_ns",
        "duration_ns",
        "kernels_launched",
        "gpu_ns",
        "time_pct",
        "busy_ns",
        "busy_pct",
        "idle_ns",
    )


def _with_busy(profile: Profile, rows: pl.DataFrame) -> pl.DataFrame:
    """Add busy_ns, busy_pct and idle_ns."""
    parts = []
    for (session,), part in rows.group_by("session", maintain_order=True):
        timed = (
            profile["activities"]
            .lazy()
            .filter(pl.col("session") == session)
            .select("start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
            .drop_nulls()
            .sort("start_ns")
            .collect()
        )
        union = union_of(timed["start_ns"].to_numpy(), timed["end_ns"].to_numpy())
        starts = part["start_ns"].fill_null(0).to_numpy()
        ends = starts + part["duration_ns"].fill_null(0).to_numpy()
        busy = pl.Series("busy_ns", union.until(ends) - union.until(starts), dtype=pl.Int64)
        known = pl.lit(timed.height > 0) & pl.col("start_ns").is_not_null() & pl.col("duration_ns").is_not_null()
        parts.append(part.with_columns(busy).with_columns(pl.when(known).then("busy_ns").alias("busy_ns")))
    with_busy = pl.concat(parts) if parts else rows.with_columns(pl.lit(None, pl.Int64).alias("busy_ns"))
    return with_busy.with_columns(
        (pl.col("duration_ns") - pl.col("busy_ns")).alias("idle_ns"),
        pl.when(pl.col("duration_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("duration_ns")).alias("busy_pct"),
    )
