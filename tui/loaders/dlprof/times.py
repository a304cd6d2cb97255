"""Times of a DLProf database: nanoseconds since its recording began."""

from __future__ import annotations

import polars as pl

from tui.loaders.possible_times import LONGEST_NS


def duration(start: str, stop: str) -> pl.Expr:
    """Column ``duration_ns``; null where the two cannot be the start and the stop of one thing."""
    ns = pl.col(stop) - pl.col(start)
    return pl.when(ns.is_between(0, LONGEST_NS)).then(ns).alias("duration_ns")
