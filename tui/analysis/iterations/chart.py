"""The chart of iterations: which rows it draws, and the bars of so many cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.iterations.uses import USES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

CUT_FROM: Final = 4.0
"""What is longer than so many times the median is cut, and marked as cut: the others could not be told apart."""


@dataclass(frozen=True, slots=True)
class Bar:
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
    # Of iterations without times of their own the numbers tell the order.
    return own.filter(pl.col("start_ns").is_not_null() | pl.col("iteration").is_not_null()).sort(
        pl.col("start_ns").fill_null(pl.col("start_ns").max()), "iteration", nulls_last=True, maintain_order=True
    )


def bars(rows: pl.DataFrame, first: int, count: int, most: int) -> list[Bar]:
    """The bars of some of the rows: one a row where there is room, else each of about as many rows.

    Args:
        rows: As `chart_rows` gives them.
        first: The first row to draw.
        count: How many.
        most: So many bars there may be.
    """
    count = min(count, rows.height - first)
    if count <= 0 or most <= 0:
        return []
    number = min(count, most)
    edges = np.arange(number) * count // number
    ends = np.append(edges[1:], count)
    part = rows.slice(first, count)
    known = part["duration_ns"].is_not_null().to_numpy()
    times = part["duration_ns"].fill_null(0).to_numpy()
    # A row without a time is never the slowest of several.
    ordered = np.where(known, times, -1)
    times_known = np.add.reduceat(known.astype(np.int64), edges)
    sums = np.add.reduceat(times, edges)
    largest = np.maximum.reduceat(ordered, edges)
    at = np.arange(count)
    slowest = np.minimum.reduceat(np.where(ordered == np.repeat(largest, ends - edges), at, count), edges)
    told = part[USES[0]].is_not_null().to_numpy()
    tellers = np.add.reduceat(told.astype(np.int64), edges)
    parts = np.stack([np.add.reduceat(part[use].fill_null(0).to_numpy(), edges) for use in USES], axis=1)
    numbered = np.add.reduceat(part["iteration"].is_not_null().to_numpy().astype(np.int64), edges)
    chosen = np.add.reduceat(part["aggregated"].fill_null(True).to_numpy().astype(np.int64), edges)
    parts_ns = (parts / np.maximum(tellers, 1)[:, None]).tolist()
    return [
        Bar(
            first + edge,
            first + end - 1,
            first + longest_at,
            longest if of else None,
            total / of if of else None,
            tuple(uses) if told_of else (),
            bool(iterations),
            bool(taken),
        )
        for edge, end, longest_at, longest, of, total, uses, told_of, iterations, taken in zip(
            edges.tolist(),
            ends.tolist(),
            slowest.tolist(),
            largest.tolist(),
            times_known.tolist(),
            sums.tolist(),
            parts_ns,
            tellers.tolist(),
            numbered.tolist(),
            chosen.tolist(),
            strict=True,
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
