"""Which iteration something on the CPU belongs to, by its times."""

from __future__ import annotations

import numpy as np
import polars as pl

from tui.analysis.iterations.cutting import NO_PIECE


def iteration_at(table: pl.DataFrame, session: pl.Series, at_ns: pl.Series) -> pl.Series:
    """The iteration in which something began on the CPU; null where it is in none.

    Args:
        table: As `Profile.steps`.
        session: Of each thing.
        at_ns: When it began.
    """
    found = np.full(len(session), NO_PIECE, np.int64)
    sessions, moments = session.to_numpy(), at_ns.fill_null(np.iinfo(np.int64).min).to_numpy()
    unknown = at_ns.is_null().to_numpy()
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for (number,), rows in table.group_by("session", maintain_order=True):
        # Without a time of their own only the first and the last piece reach to the ends.
        spans = rows.filter(pl.col("cpu_start_ns").is_not_null() | pl.col("cpu_end_ns").is_not_null() | (pl.len() == 1))
        spans = spans.with_columns(pl.col("cpu_start_ns").fill_null(low), pl.col("cpu_end_ns").fill_null(high))
        spans = spans.sort("cpu_start_ns", maintain_order=True)
        if spans.is_empty():
            continue
        here = np.flatnonzero((sessions == number) & ~unknown)
        place = np.searchsorted(spans["cpu_start_ns"].to_numpy(), moments[here], side="right") - 1
        inside = (place >= 0) & (moments[here] < spans["cpu_end_ns"].to_numpy()[place])
        found[here] = np.where(inside, spans["iteration"].fill_null(NO_PIECE).to_numpy()[place], NO_PIECE)
    numbers = pl.Series("iteration", found, dtype=pl.Int32)
    return numbers.set(numbers == NO_PIECE, None)


def iteration_between(table: pl.DataFrame, session: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
    """The iteration between whose start and end something lies whole; null where it lies in none or in several.

    Args:
        table: As `Profile.steps`. A whole run that is not cut is no iteration.
        session: Of each thing.
        start_ns: When it began.
        end_ns: When it ended.
    """
    cut = table.filter(pl.col("source") != "whole run")
    first = iteration_at(cut, session, start_ns)
    # An end is the moment after the last one; what has no length has its start alone.
    moment = pl.select(pl.when(end_ns.is_not_null()).then(pl.max_horizontal(start_ns, end_ns - 1))).to_series()
    return first.set((first != iteration_at(cut, session, moment)).fill_null(True), None)
