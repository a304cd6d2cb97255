"""The columns of the chart of iterations: characters and what they stand for, without colours or keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.widgets.part_looks import LOOKS
from tui.widgets.spark import LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.iterations.chart import Bar

PARTS: Final = ("tensor", "other", "unknown", "memory", "dataloader", "io", "cpu", "idle")
"""The parts of a bar from below, as `tui.analysis.iterations.uses.USES`."""
WHISKER, ASCII_WHISKER = "│", "|"
"""From the mean of several iterations to the longest of them."""
CUT, ASCII_CUT = "↑", "^"
"""Longer than the scale."""
UNKNOWN, ASCII_UNKNOWN = "·", "?"
"""No time is known."""

STEPS: Final = len(LEVELS)
SMOOTH: Final = ("truecolor", "256")
"""Of fewer colours, those of two parts can be one: a top that ends within a cell would be of any."""
WIDEST: Final = 12
"""Cells of a bar with the blank beside it."""

Cell = tuple[str, str]
"""A character, and the part that it shows: one of `PARTS`, ``whole``, ``sign`` or empty."""


@dataclass(frozen=True, slots=True)
class Look:
    """How bars are drawn."""

    lines: int
    """The height of the chart."""
    scale_ns: int
    """What it stands for."""
    ascii_only: bool = False
    smooth: bool = True
    """The top of a bar ends within a cell: only where colours tell its part."""


def bar_width(number: int, cells: int) -> int:
    """Cells of each of so many bars, with the blank beside them where there is room.

    >>> bar_width(5, 100), bar_width(40, 100), bar_width(90, 100)
    (12, 2, 1)
    """
    return max(1, min(WIDEST, cells // number)) if number else 1


def column(bar: Bar, look: Look) -> list[Cell]:
    """The cells of a bar, from below."""
    if bar.mean_ns is None or bar.max_ns is None:
        return [(ASCII_UNKNOWN if look.ascii_only else UNKNOWN, "sign")] + [(" ", "")] * (look.lines - 1)
    whole = look.lines * STEPS
    height = _height(bar.mean_ns, look)
    longest = _height(bar.max_ns, look)
    filled = height // STEPS if look.smooth else _rounded(height)
    parts = _parts_of_cells(_edges(bar, look), filled + 1)
    cells: list[Cell] = [(LOOKS[part].sign(ascii_only=look.ascii_only), part) for part in parts[:filled]]
    if look.smooth and height % STEPS:
        cells.append((LEVELS[height % STEPS - 1], parts[filled]))
    if bar.last > bar.first:
        cells += [(ASCII_WHISKER if look.ascii_only else WHISKER, "sign")] * (-(-longest // STEPS) - len(cells))
    cells += [(" ", "")] * (look.lines - len(cells))
    if bar.max_ns > look.scale_ns and longest >= whole:
        cells[-1] = (ASCII_CUT if look.ascii_only else CUT, "sign")
    return cells


def tone(cell: Cell) -> int:
    """How much of its colour a cell has, in percent: the top of a bar looks like the pattern that it goes on with.

    >>> tone(("▄", "cpu")), tone(("▚", "cpu")), tone((" ", ""))
    (50, 100, 100)
    """
    character, part = cell
    return LOOKS[part].tone if part in LOOKS and character in LEVELS[:-1] else 100


def _height(time_ns: float, look: Look) -> int:
    """Steps of a cell; what takes time has one at least."""
    if look.scale_ns <= 0 or time_ns <= 0:
        return 0
    whole = look.lines * STEPS
    return max(1, min(whole, round(time_ns / look.scale_ns * whole)))


def _rounded(height: int) -> int:
    """How many cells are drawn where none is in part; the lowest one always is."""
    return max(int(height > 0), (height + STEPS // 2) // STEPS)


def _edges(bar: Bar, look: Look) -> list[tuple[float, str]]:
    """Up to where each part reaches, in steps of a cell."""
    if not bar.parts_ns or look.scale_ns <= 0:
        return []
    edges, so_far = [], 0.0
    for part, time in zip(PARTS, bar.parts_ns, strict=True):
        so_far += time
        if time > 0:
            edges.append((so_far / look.scale_ns * look.lines * STEPS, part))
    return edges


def _parts_of_cells(edges: Sequence[tuple[float, str]], cells: int) -> list[str]:
    """The part that has most of each cell, from below; above the last edge the last one seen.

    >>> _parts_of_cells([(9, "tensor"), (13.4, "memory"), (20, "cpu")], 3)
    ['tensor', 'memory', 'cpu']
    >>> _parts_of_cells([(11.9, "tensor"), (12.1, "memory"), (16, "cpu")], 3)
    ['tensor', 'tensor', 'cpu']
    """
    found: list[str] = []
    below, most, chosen = 0.0, 0.0, "whole"
    for edge, part in edges:
        while len(found) < cells and edge >= (top := (len(found) + 1) * STEPS):
            found.append(part if top - below > most else chosen)
            below, most = top, 0.0
        if edge - below > most:
            most, chosen = edge - below, part
        below = edge
    last = chosen if most else edges[-1][1] if edges else "whole"
    return [*found, *[last] * (cells - len(found))]
