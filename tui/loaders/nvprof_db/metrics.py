"""Metrics and events of kernels, which a database holds by number.

The numbers are those of the profiling library that was at work, and the database has no names for them; nor does it
say whether the eight bytes of a value are a whole number or a floating one. The two cannot be mixed up: whole numbers,
even bytes per second, stay below 2^52, where no floating one begins but those next to zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.sqlite.database import Database

_TABLE: Final = "CUPTI_ACTIVITY_KIND_"
_WHOLE_BELOW: Final = 1 << 52

_METRIC: Final = {"id": pl.Int64, "value": pl.Binary, "correlationId": pl.Int64}
_EVENT: Final = {"id": pl.Int64, "value": pl.Int64, "correlationId": pl.Int64}
_KERNEL: Final = ["device", "kernel", *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")]


def read_metrics(database: Database, kernels: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Metrics and events by kernel, grid, block and number.

    Args:
        database: What to read.
        kernels: Its kernels, columns of the model.
        devices: Its GPUs, columns of the model.
    """
    overall = database.frame(f"{_TABLE}METRIC", _METRIC)
    by_unit = database.frame(f"{_TABLE}METRIC_INSTANCE", _METRIC)
    # What there is one value of for the whole GPU is not worked out from those of its units once more.
    by_unit = by_unit.join(overall, on=["id", "correlationId"], how="anti", nulls_equal=True, maintain_order="left")
    events = database.frame(f"{_TABLE}EVENT", _EVENT)
    values = pl.concat(
        [
            _decoded(overall).with_columns(what=pl.lit("metric"), note=pl.lit(None, pl.String)),
            _decoded(by_unit).with_columns(what=pl.lit("metric"), note=pl.lit("of the units of the GPU")),
            events.with_columns(pl.col("value").cast(pl.Float64), what=pl.lit("event"), note=pl.lit(None, pl.String)),
        ]
    )
    if values.is_empty():
        return values.clear().select()
    of_launch = kernels.select(
        "correlation",
        pl.col("name").alias("kernel"),
        *_KERNEL[2:],
        device=pl.col("device").cast(pl.Int32, strict=False),
    ).unique("correlation", keep="first", maintain_order=True)
    named = devices.select("device", called=pl.format("{} ({})", "name", "device"))
    keys = [*_KERNEL, "what", "id", "note"]
    return (
        values.join(of_launch, left_on="correlationId", right_on="correlation", how="left", maintain_order="left")
        .join(named, on="device", how="left", maintain_order="left")
        .with_columns(device=pl.col("called"))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("correlationId").n_unique().cast(pl.Int64).alias("invocations"),
            pl.col("value").min().alias("min"),
            pl.col("value").max().alias("max"),
            pl.col("value").mean().alias("avg"),
            pl.when(pl.col("what").first() == "event").then(pl.col("value").sum()).alias("total"),
        )
        .select(
            *_KERNEL,
            "invocations",
            pl.format("{} {}", "what", "id").cast(NAME).alias("metric"),
            pl.col("note").cast(NAME).alias("description"),
            "min",
            "max",
            "avg",
            "total",
        )
    )


def _decoded(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``value`` as a number: floating where the bytes of any value of the metric say so."""
    whole = pl.when(pl.col("value").bin.size() == 8)
    bits = whole.then(pl.col("value").bin.reinterpret(dtype=pl.UInt64, endianness="little"))
    floating = whole.then(pl.col("value").bin.reinterpret(dtype=pl.Float64, endianness="little"))
    return rows.with_columns(bits=bits, floating=pl.when(floating.is_finite()).then(floating)).select(
        "id",
        pl.when((pl.col("bits") >= _WHOLE_BELOW).any().over("id"))
        .then("floating")
        .otherwise(pl.col("bits").cast(pl.Float64))
        .alias("value"),
        "correlationId",
    )
