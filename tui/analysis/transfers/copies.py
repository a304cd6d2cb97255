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
    return (
        copy_sums(profile)
        .select("session", "kind", "copy_kind", "calls", "total_ns", "size_bytes", throughput())
        .with_columns(share())
        .sort("total_ns", "copy_kind", "kind", "session", descending=[True, False, False, False], nulls_last=True)
    )


def throughput() -> pl.Expr:
    """Bytes per second of the columns moved_bytes and moving_ns; null where no copy has both."""
    return (1e9 * pl.col("moved_bytes") / pl.col("moving_ns")).alias("throughput")


def copy_sums(profile: Profile) -> pl.DataFrame:
    """What adds up over rows of `copies`: one row per session, kind and copy_kind, in no order.

    Columns: those, calls, total_ns, size_bytes, moved_bytes and moving_ns (size and duration of the copies of which
    both are known; null where there are none).
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
            *(
                pl.when(both.any()).then(pl.col(name).filter(both).sum()).alias(moved)
                for name, moved in (("size_bytes", "moved_bytes"), ("duration_ns", "moving_ns"))
            ),
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
            total("moved_bytes").alias("moved_bytes"),
            total("moving_ns").alias("moving_ns"),
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
            *(pl.lit(None, pl.Int64).alias(name) for name in ("size_bytes", "moved_bytes", "moving_ns")),
        )
    )
    return pl.concat([single, recorded])
