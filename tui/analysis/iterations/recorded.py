"""Iterations that the input records: the ranges that mark them, and the work that was launched in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.grouping import grouped, present
from tui.analysis.iterations.cutting import OUTSIDE, RECORDED
from tui.model.compact import looked_at

if TYPE_CHECKING:
    from tui.model.profile import Profile

OUTSIDE_WORDS: Final = "outside of iterations"
"""The name of the row of what was launched before, between or after the iterations."""

KEYS: Final = ("session", "iteration")


def recorded_iterations(profile: Profile) -> pl.DataFrame:
    """One row per iteration, by session and number; a last row of each session for what lies in none.

    Columns: session, iteration (as recorded: it can start anywhere; null in the last row), piece (`RECORDED` or
    `OUTSIDE`), name (of the range that marks it, or `OUTSIDE_WORDS`), start_ns and duration_ns (of that range),
    cpu_start_ns and cpu_end_ns (between which calls and ranges belong to it: those of the range, else of its ops),
    kernels_launched, gpu_ns (null where no duration of such work is known). Of sessions that record none there is
    nothing.
    """
    marks = (
        profile["ranges"]
        .drop_nulls("iteration")
        .group_by(KEYS)
        .agg(
            pl.col("name").first(),
            pl.col("start_ns").min(),
            ((pl.col("start_ns") + pl.col("duration_ns")).max() - pl.col("start_ns").min()).alias("duration_ns"),
        )
    )
    of_ops = (
        profile["ops"]
        .lazy()
        .drop_nulls("iteration")
        .group_by(KEYS)
        .agg(
            pl.col("start_ns").min().alias("op_start_ns"),
            (pl.col("start_ns") + pl.col("duration_ns")).max().alias("op_end_ns"),
        )
        .collect()
    )
    activities = profile["activities"]
    numbered = present(looked_at(activities, "session").filter(looked_at(activities, "iteration").is_not_null()))
    recorded = pl.concat([frame["session"] for frame in (marks, of_ops)] + [numbered]).unique()
    work = grouped(
        activities,
        KEYS,
        [
            ((pl.col("kind") == "kernel") | (pl.col("kind") == "graph")).sum().cast(pl.Int64).alias("kernels_launched"),
            total().alias("gpu_ns"),
        ],
    ).filter(pl.col("session").is_in(recorded.implode()))
    named = pl.concat([frame.select(KEYS).drop_nulls("iteration") for frame in (marks, of_ops, work)]).unique()
    outside = work.filter(pl.col("iteration").is_null()).select(KEYS)
    has_work = pl.col("session").is_in(present(looked_at(profile["activities"], "session")).implode())
    none = pl.col("iteration").is_null()
    return (
        pl.concat([named, outside])
        .join(marks, on=KEYS, how="left", nulls_equal=True)
        .join(of_ops, on=KEYS, how="left", nulls_equal=True)
        .join(work, on=KEYS, how="left", nulls_equal=True)
        .sort(*KEYS, nulls_last=True)
        .select(
            *KEYS,
            pl.when(none).then(pl.lit(OUTSIDE)).otherwise(pl.lit(RECORDED)).alias("piece"),
            pl.when(none).then(pl.lit(OUTSIDE_WORDS)).otherwise(pl.col("name").cast(pl.String)).alias("name"),
            "start_ns",
            "duration_ns",
            pl.coalesce("start_ns", "op_start_ns").alias("cpu_start_ns"),
            pl.coalesce(pl.col("start_ns") + pl.col("duration_ns"), "op_end_ns").alias("cpu_end_ns"),
            *(
                pl.when(has_work & pl.col("kernels_launched").is_null()).then(0).otherwise(column).alias(column)
                for column in ("kernels_launched", "gpu_ns")
            ),
        )
    )
