"""The page that adds up all launches of a kernel (``ncu --print-summary per-kernel``), or of a GPU (``per-gpu``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from tui.loaders.collector import Collector

_DURATIONS: Final = ("gpu__time_duration.sum", "Duration")


def add_summary(rows: pl.DataFrame, collector: Collector) -> None:
    """Add its metrics, and the durations of each kernel, where it names kernels, as rows of ``summary``."""
    shapes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    figures = [pl.col(f"{column}_number").alias(column) for column in ("min", "max", "avg")]
    invocations = pl.col("invocations").str.replace_all(r"[.,]", "").cast(pl.Int64, strict=False)
    rows = rows.filter(pl.col("metric").is_not_null())
    collector.add_frame(
        "metrics",
        rows.filter(pl.col("avg_number").is_not_null()).select(
            pl.col("device").cast(pl.String),
            "kernel",
            *shapes,
            invocations,
            "metric",
            pl.col("section").alias("description"),
            *figures,
            pl.col("base_unit").alias("unit"),
            "line",
        ),
    )
    if rows.height and rows["kernel"].null_count() == rows.height:
        reason = (
            "this page adds up all kernels of a GPU and names none: its times are among the metrics; for those of each "
            "kernel: ncu --import run.ncu-rep --csv --print-summary per-kernel"
        )
        collector.issue("info", int(rows["line"][0]), "", reason)
        return
    times = rows.filter(
        pl.col("metric").is_in(_DURATIONS), pl.col("avg_number").is_not_null(), pl.col("base_unit") == "ns"
    )
    if times.is_empty():
        return
    collector.add_frame(
        "summary",
        times.select(
            pl.lit("gpu").alias("section"),
            pl.col("kernel").alias("name"),
            invocations.alias("calls"),
            (pl.col("avg_number") * invocations).round().cast(pl.Int64, strict=False).alias("total_ns"),
            *(
                pl.col(f"{column}_number").round().cast(pl.Int64, strict=False).alias(f"{column}_ns")
                for column in ("avg", "min", "max")
            ),
            "line",
        ),
    )
    reason = "the totals are invocations times average, which Nsight Compute rounds: it prints no totals"
    collector.issue("info", int(times["line"][0]), "", reason)
