"""Many numbers on one line: how they follow each other, and how they are distributed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tui.analysis.duration_spread import log_bins
from tui.fitting import cell_width
from tui.fmt import duration

if TYPE_CHECKING:
    import polars as pl

LEVELS: Final = "▁▂▃▄▅▆▇█"
ASCII_LEVELS: Final = ".:-=+*#@"


def sparkline(values: Sequence[float | None], width: int, *, ascii_only: bool = False) -> str:
    """Numbers as columns of one line, from zero to the largest; an unknown one is a blank.

    Where there are more numbers than cells, a cell shows the largest of its numbers: a peak is never lost.

    >>> sparkline([0, 1, 2, 4], 4), sparkline([1, None, 8], 3), sparkline([1, 9, 1, 1], 2)
    ('▁▃▅█', '▂ █', '█▁')
    """
    levels = ASCII_LEVELS if ascii_only else LEVELS
    if width <= 0 or not values:
        return ""
    cells = min(width, len(values))
    edges = [place * len(values) // cells for place in range(cells + 1)]
    largest_of = [
        max((value for value in values[start:stop] if value is not None), default=None)
        for start, stop in itertools.pairwise(edges)
    ]
    top = max((value for value in largest_of if value is not None), default=0)
    return "".join(
        " " if value is None else levels[_level(value, top, len(levels))] if top > 0 else levels[0]
        for value in largest_of
    )


def _level(value: float, top: float, levels: int) -> int:
    return max(0, min(levels - 1, int(value / top * levels)))


def histogram(durations_ns: pl.Series, bins: int) -> list[int]:
    """How many of the durations fall into each of ``bins`` equal steps of a logarithmic scale.

    The scale runs from the shortest to the longest; durations of 0 count as 1 ns.
    """
    return [part.launches for part in log_bins(durations_ns, bins)]


def histogram_line(durations_ns: pl.Series, width: int, *, ascii_only: bool = False) -> str:
    """The distribution of durations with the shortest and the longest at its ends, on a logarithmic scale.

    >>> import polars as pl
    >>> histogram_line(pl.Series([1000, 1000, 1000, 30_000, 1_000_000]), 30)
    '1.000 µs █    ▃    ▃ 1.0000 ms'
    """
    known = durations_ns.drop_nulls()
    if not len(known):
        return "-" if ascii_only else "–"
    shortest, longest = known.min(), known.max()
    if not isinstance(shortest, (int, float)) or not isinstance(longest, (int, float)):
        return "-" if ascii_only else "–"
    low, high = duration(shortest, ascii_only=ascii_only), duration(longest, ascii_only=ascii_only)
    if shortest == longest:
        return low
    cells = width - cell_width(low) - cell_width(high) - 2
    if cells < 4:
        return f"{low} … {high}" if not ascii_only else f"{low} .. {high}"
    counts = [count or None for count in histogram(known, cells)]
    return f"{low} {sparkline(counts, cells, ascii_only=ascii_only)} {high}"
