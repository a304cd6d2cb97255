"""Counters that were collected of the kernels of a rocpd recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.rocpd.tables import Recording

_VALUE: Final = {"event_id": pl.Int64, "pmc_id": pl.Int64, "value": pl.Float64}
_COUNTER: Final = {"id": pl.Int64, "name": pl.String, "description": pl.String, "units": pl.String}
_KERNEL: Final = ["device", "kernel", *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")]


def read_counters(recording: Recording, kernels: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Counters by kernel, grid and block: columns of the model, and ``process_row``; null of what is no kernel's.

    Those of the parts of a GPU are summed up.
    """
    values = recording.frame("pmc_event", _VALUE)
    counters = recording.frame("info_pmc", _COUNTER).unique("id", keep="first").rename({"id": "pmc_id"})
    called = agents.select("device", called=pl.format("{} ({})", "name", "device")).unique("device", keep="first")
    of_launch = kernels.select(
        "event_id", "process_row", "device", pl.col("name").alias("kernel"), *_KERNEL[2:]
    ).unique("event_id", keep="first")
    return (
        values.join(counters, on="pmc_id", how="left", maintain_order="left")
        .with_columns(metric=pl.coalesce("name", pl.format("counter {}", "pmc_id")))
        .group_by("event_id", "metric", maintain_order=True)
        .agg(pl.col("value").sum(), pl.col("description").first())
        .join(of_launch, on="event_id", how="left", maintain_order="left")
        .join(called, on="device", how="left", maintain_order="left")
        .with_columns(device=pl.col("called"))
        .group_by("process_row", *_KERNEL, "metric", "description", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            pl.col("value").min().alias("min"),
            pl.col("value").max().alias("max"),
            pl.col("value").mean().alias("avg"),
        )
        .with_columns(pl.col("metric", "description").cast(NAME))
    )
