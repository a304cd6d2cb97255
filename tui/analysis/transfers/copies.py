"""Copies between host and devices: how many, how large, how fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.durations import share, total, whole
from tui.analysis.kernels import aggregated
from tui.analysis.transfers.directions import direction_of_name, with_directions

if TYPE_CHECKING:
    from tui.model.profile import Profile


def copies(profile: Profile) -> pl.DataFrame:
    """Copies by direction, the longest first: one row per session, kind (memcpy or um) and copy_kind.

    Columns: session, kind, copy_kind (HtoD, DtoH, ...; null where the input does not say), calls, total_ns, time_pct
    (share of the session's copy time), size_bytes, throughput (size / duration over the copies of which both are known,
    in bytes per second). A session without single activities has its rows from the log's own table: without sizes.
    """
    activities = profile["activities"]
    both = pl.col("size_bytes").is_not_null() & (pl.col("duration_ns") > 0)
    # By name first: what tells the direction is looked at once for each.
    by_name = (
        activities.lazy()
        .select("session", "kind", "copy_kind", "name", "duration_ns", "size_bytes")
        .filter((pl.col("kind") == "memcpy") | (pl.col("kind") == "um"))
        .group_by("session", "kind", "copy_kind", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total().alias("total_ns"),
            total("size_bytes").alias("size_bytes"),
            pl.when(both.any()).then(pl.col("size_bytes").filter(both).sum()).alias("moved_bytes"),
            pl.col("duration_ns").filter(both).sum().alias("moving_ns"),
        )
        .collect()
    )
    single = (
        with_directions(by_name)
        .filter((pl.col("kind") == "memcpy") | pl.col("copy_kind").is_not_null())
        .group_by("session", "kind", "copy_kind")
        .agg(
            pl.col("calls").sum(),
            total("total_ns").alias("total_ns"),
            total("size_bytes").alias("size_bytes"),
            (1e9 * total("moved_bytes") / pl.col("moving_ns").sum()).alias("throughput"),
        )
    )
    recorded = (
        aggregated(profile, "gpu", without=activities["session"])
        .filter(pl.col("kind") == "memcpy")
        .with_columns(direction_of_name().alias("copy_kind"))
        .group_by("session", "kind", "copy_kind")
        .agg(
            whole("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            pl.lit(None, pl.Int64).alias("size_bytes"),
            pl.lit(None, pl.Float64).alias("throughput"),
        )
    )
    return (
        pl.concat([single, recorded])
        .with_columns(share())
        .sort("total_ns", "copy_kind", "kind", "session", descending=[True, False, False, False], nulls_last=True)
    )
