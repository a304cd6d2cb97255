"""The chart of iterations: which rows it draws, and the bars of so many cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from tui.analysis.iterations.times import USES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

CUT_FROM: Final = 4.0
"""Bars longer than so many times the median are cut and marked, so that the others stay distinguishable."""


class Bar(NamedTuple):
    """One bar of the chart: an iteration, or several where there are more of them than cells."""

    first: int
    """Its first row, counted from the first of the chart."""
    last: int
    """Its last row."""
    slowest: int
    """The row that took longest."""
    max_ns: int | None
    """How long that took; None where no time is known."""
    mean_ns: float | None
    """The mean over its rows."""
    parts_ns: tuple[float, ...]
    """The mean time of each of `USES`; empty where that is not known."""
    is_numbered: bool
    """Whether it holds an iteration, not only work before or after them."""
    is_chosen: bool = True
    """Whether the other views show any of it."""


def chart_rows(rows: pl.DataFrame, session: int) -> pl.DataFrame:
    """The rows of a session that the chart draws: those with a place in time, in its order.

    Args:
        rows: As `iterations_with_uses` gives them.
        session: Which session.
    """
    own = rows.filter(pl.col("session") == session)
    # Of iterations without times of their own the numbers give the order.
    return own.filter(pl.col("start_ns").is_not_null() | pl.col("iteration").is_not_null()).sort(
        pl.col("start_ns").fill_null(pl.col("start_ns").max()), "iteration", nulls_last=True, maintain_order=True
    )


class BarRows:
    """The rows of the chart, as the columns that its bars are made of."""

    def __init__(self, rows: pl.DataFrame) -> None:
        """Take rows as `chart_rows` gives them."""
        self._height = rows.height
        if rows.is_empty():
            return
        self._known = rows["duration_ns"].is_not_null().to_numpy().astype(np.int64)
        self._times = rows["duration_ns"].fill_null(0).to_numpy()
        # A row without a time is never the slowest of several.
        self._ordered = np.where(self._known, self._times, -1)
        self._told = rows[USES[-1]].is_not_null().to_numpy().astype(np.int64)
        self._parts = np.stack([rows[use].fill_null(0).to_numpy() for use in USES], axis=1)
        self._numbered = rows["iteration"].is_not_null().to_numpy().astype(np.int64)
        self._chosen = rows["aggregated"].fill_null(True).to_numpy().astype(np.int64)

    def bars(self, first: int, count: int, most: int) -> list[Bar]:
        """The bars of some of the rows: one a row where there is room, else each of about as many rows.

        Args:
            first: The first row to draw.
            count: How many.
            most: So many bars there may be.
        """
        count = min(count, self._height - first)
        if count <= 0 or most <= 0:
            return []
        number = min(count, most)
        edges = np.arange(number) * count // number
        ends = np.append(edges[1:], count)
        rows = slice(first, first + count)

        def sums(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.add.reduceat(column[rows], edges)

        ordered = self._ordered[rows]
        largest = np.maximum.reduceat(ordered, edges)
        at = np.arange(count)
        slowest = np.minimum.reduceat(np.where(ordered == np.repeat(largest, ends - edges), at, count), edges)
        tellers = sums(self._told)
        parts_ns = sums(self._parts) / np.maximum(tellers, 1)[:, None]
        columns = edges, ends, slowest, largest, sums(self._known), sums(self._times), parts_ns, tellers
        return [
            Bar(
                first + edge,
                first + end - 1,
                first + longest_at,
                longest if of else None,
                total / of if of else None,
                tuple(uses) if has_uses else (),
                bool(iterations),
                bool(taken),
            )
            for edge, end, longest_at, longest, of, total, uses, has_uses, iterations, taken in zip(
                *(column.tolist() for column in (*columns, sums(self._numbered), sums(self._chosen))), strict=True
            )
        ]


def scale_ns(shown: Sequence[Bar]) -> int:
    """What the height of the chart stands for: the longest iteration, unless it is far longer than nearly all others.

    Work before and after the iterations never sets the scale where there are iterations.
    """
    times = [bar.max_ns for bar in shown if bar.max_ns is not None and bar.is_numbered]
    times = times or [bar.max_ns for bar in shown if bar.max_ns is not None]
    if not times:
        return 0
    values: npt.NDArray[np.float64] = np.array(times, float)
    usual = values[values <= CUT_FROM * np.median(values)]
    return int(values.max()) if len(usual) == len(values) else round(1.1 * float(usual.max()))
