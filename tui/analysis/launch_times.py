"""GPU work by when and where it was launched: what falls into stretches of time of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.memo import once_per_profile
from tui.loaders.linking.launches import with_launch

if TYPE_CHECKING:
    from tui.model.profile import Profile

THREAD: Final = ("session", "pid", "tid")
"""Columns that tell threads apart."""


@once_per_profile("activities", "api_calls")
def launched(profile: Profile) -> pl.DataFrame:
    """Every GPU activity whose launching call and thread are known, by the time of that call.

    Columns: session, pid, tid, launch_ns, duration_ns, is_kernel, and running totals within the thread up to and
    including the row: gpu_ns and kernels.
    """
    parts = [
        with_launch(
            activities.select("session", "kind", "duration_ns", "correlation"),
            profile["api_calls"].filter(pl.col("session") == session),
        )
        for (session,), activities in profile["activities"].group_by("session")
    ]
    if not parts:
        return pl.DataFrame(schema=_SCHEMA)
    is_kernel = (pl.col("kind") == "kernel") | (pl.col("kind") == "graph")
    return (
        pl.concat(parts)
        .rename({"launch_pid": "pid", "launch_tid": "tid"})
        .drop_nulls(["launch_ns", "tid"])
        .sort("launch_ns")
        .with_columns(
            pl.col("duration_ns").fill_null(0).cum_sum().over(THREAD).alias("gpu_ns"),
            is_kernel.cast(pl.Int64).cum_sum().over(THREAD).alias("kernels"),
        )
        .select(_SCHEMA.names())
        .cast(_SCHEMA)
    )


_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "pid": pl.Int64,
        "tid": pl.Int64,
        "launch_ns": pl.Int64,
        "gpu_ns": pl.Int64,
        "kernels": pl.Int64,
    }
)


def with_launched_within(stretches: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Add ``gpu_ns`` and ``kernels``: the GPU work that was launched in each stretch of time, on its own thread.

    Both are null where the thread or the times of a stretch are not known, and in sessions of which no launch is.

    Args:
        stretches: With the columns of `THREAD`, start_ns and duration_ns.
        work: `launched` of the same profile.
    """
    known = (
        pl.col("tid").is_not_null()
        & pl.col("start_ns").is_not_null()
        & pl.col("duration_ns").is_not_null()
        & pl.col("session").is_in(work["session"].unique().implode())
    )
    rows = stretches.with_row_index("_row").with_columns(
        (pl.col("start_ns") - 1).alias("_from"), (pl.col("start_ns") + pl.col("duration_ns")).alias("_to")
    )
    sums = rows.select("_row")
    for edge in ("_from", "_to"):
        reached = (
            rows.filter(known)
            .sort(edge)
            .join_asof(
                work.rename({"gpu_ns": f"gpu{edge}", "kernels": f"kernels{edge}"}),
                left_on=edge,
                right_on="launch_ns",
                by=THREAD,
                strategy="backward",
                check_sortedness=False,
            )
            .select("_row", pl.col(f"gpu{edge}").fill_null(0), pl.col(f"kernels{edge}").fill_null(0))
        )
        sums = sums.join(reached, on="_row", how="left", maintain_order="left")
    return (
        pl.concat([rows.drop("_row", "_from", "_to"), sums.drop("_row")], how="horizontal")
        .with_columns(
            (pl.col("gpu_to") - pl.col("gpu_from")).alias("gpu_ns"),
            (pl.col("kernels_to") - pl.col("kernels_from")).alias("kernels"),
        )
        .drop("gpu_to", "gpu_from", "kernels_to", "kernels_from")
    )
