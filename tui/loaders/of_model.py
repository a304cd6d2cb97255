"""Rows of a database as columns of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.model.schema import FRAMES

if TYPE_CHECKING:
    from tui.loaders.collector import Collector


def of_model(frame: str, data: pl.DataFrame, collector: Collector) -> pl.DataFrame:
    """The columns of some rows that are the model's; numbers too large for them become null, which is told.

    Args:
        frame: A frame of the model.
        data: Its columns, of any types, and others.
        collector: Gets an issue where numbers do not fit.
    """
    schema = FRAMES[frame]
    kept = data.select(name for name in schema if name in data.columns)
    fitted = kept.with_columns(pl.col(name).cast(schema[name], strict=False) for name in kept.columns)
    lost = sum(fitted.null_count().row(0)) - sum(kept.null_count().row(0)) if kept.width else 0
    if lost:
        collector.issue("warning", None, "", f"numbers too large to be true were left out ({lost})")
    return fitted
