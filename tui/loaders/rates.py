"""Rates of copies and memsets, where the input tells sizes and durations alone."""

from __future__ import annotations

import polars as pl


def with_rates(activities: pl.DataFrame) -> pl.DataFrame:
    """Add ``throughput`` (bytes a second) where the input does not say it but size and duration tell it.

    What a kernel has of a size is not what it moves.
    """
    told = (pl.col("duration_ns") > 0) & (pl.col("size_bytes") >= 0)
    lacks = told & pl.col("throughput").is_null() & (pl.col("kind") != "kernel")
    if not activities.select(lacks.any()).item():
        return activities
    rate = 1e9 * pl.col("size_bytes") / pl.col("duration_ns")
    return activities.with_columns(pl.when(lacks).then(rate).otherwise("throughput").alias("throughput"))
