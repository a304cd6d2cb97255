"""What the input says of GPUs: one row for each, and no figure that none can have."""

from __future__ import annotations

from typing import Final

import polars as pl

_FIGURES: Final = (
    "sm_count",
    "memory_bytes",
    "memory_bandwidth",
    "max_threads_per_sm",
    "registers_per_sm",
    "shared_memory_per_sm_bytes",
)


def one_row_a_gpu(devices: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``devices`` with one row per session and GPU, in order: of several that say something the first.

    Tools write 0, or a compute capability of 0.0, for what they do not know.
    """
    return (
        devices.with_columns(
            *(pl.when(pl.col(name) > 0).then(name).alias(name) for name in _FIGURES),
            pl.when(pl.col("compute_capability") != "0.0").then("compute_capability").alias("compute_capability"),
        )
        .group_by("session", "device", maintain_order=True)
        .agg(pl.exclude("session", "device").drop_nulls().first())
    )
