"""Grids and blocks as text."""

from __future__ import annotations

import polars as pl


def with_shapes(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``grid`` and ``block`` as text, as ``(27848 1 1)``; null where the input has none.

    Each distinct shape is written once, so that a million rows are cheap.
    """
    for shape in ("grid", "block"):
        axes = [f"{shape}_{axis}" for axis in "xyz"]
        texts = rows.select(axes).unique().drop_nulls().with_columns(pl.format("({} {} {})", *axes).alias(shape))
        rows = rows.join(texts, on=axes, how="left", maintain_order="left")
    return rows
