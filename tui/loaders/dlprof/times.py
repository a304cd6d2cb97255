"""Times of a DLProf database: nanoseconds since its recording began."""

from __future__ import annotations

from typing import Final

import polars as pl

LONGEST_NS: Final = 7 * 24 * 3600 * 10**9
"""A week: what seems to last longer is damage."""


def duration(start: str, stop: str) -> pl.Expr:
    """Column ``duration_ns``; null where the two cannot be the start and the stop of one thing."""
    ns = pl.col(stop) - pl.col(start)
    return pl.when(ns.is_between(0, LONGEST_NS)).then(ns).alias("duration_ns")
