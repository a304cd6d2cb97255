"""The roofline plot: arithmetic intensity against TFLOP/s, both logarithmic, in cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import RenderResult

Roof = tuple[str, float, float]
"""Name, peak in TFLOP/s, memory bandwidth in TB/s."""

MARKS: Final = ("·", "•", "●")
"""A mark by its share of the GPU time: below 1%, below 10%, more."""
ROOF: Final = "─"
LABEL_CELLS: Final = 8
_LEAST_LINES: Final = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """One op and shape."""

    flops_per_byte: float
    tflops_per_s: float
    gpu_ns: int


def plot_lines(marks: Sequence[Mark], roofs: Sequence[Roof], width: int, height: int) -> list[str]:
    """The plot as lines of text; none where there is nothing to plot or no room.

    >>> lines = plot_lines([Mark(100, 50, 9)], [("bf16", 100, 1)], 40, 6)
    >>> len(lines), "●" in "".join(lines), lines[-1].strip()[:6]
    (6, True, 'FLOP/B')
    """
    body, columns = height - 1, width - LABEL_CELLS
    if not marks or body < _LEAST_LINES - 1 or columns < 10:
        return []
    ridges = [peak / bandwidth for _, peak, bandwidth in roofs]
    xs = [mark.flops_per_byte for mark in marks] + [ridge * 4 for ridge in ridges]
    ys = [mark.tflops_per_s for mark in marks] + [peak for _, peak, _ in roofs]
    x_low, x_high = _decades(xs)
    y_low, y_high = _decades(ys)
    cells = [[" "] * columns for _ in range(body)]

    def row_of(tflops_per_s: float) -> int:
        return body - 1 - round((math.log10(tflops_per_s) - y_low) / (y_high - y_low) * (body - 1))

    for _, peak, bandwidth in roofs:
        for column in range(columns):
            intensity = 10 ** (x_low + (x_high - x_low) * column / (columns - 1))
            row = row_of(min(peak, intensity * bandwidth))
            if 0 <= row < body:
                cells[row][column] = ROOF if intensity * bandwidth >= peak else "/"
    whole = sum(mark.gpu_ns for mark in marks) or 1
    for mark in sorted(marks, key=lambda one: one.gpu_ns):
        column = round((math.log10(mark.flops_per_byte) - x_low) / (x_high - x_low) * (columns - 1))
        row = row_of(mark.tflops_per_s)
        if 0 <= row < body and 0 <= column < columns:
            share = mark.gpu_ns / whole
            cells[row][column] = MARKS[2 if share >= 0.1 else 1 if share >= 0.01 else 0]
    labels = {row_of(10.0**power): f"{10.0**power:g}" for power in range(math.ceil(y_low), math.floor(y_high) + 1)}
    lines = [f"{labels.get(row, ''):>{LABEL_CELLS - 1}} {''.join(line)}" for row, line in enumerate(cells)]
    return [*lines, _axis(x_low, x_high, columns)]


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around all values."""
    logs = [math.log10(value) for value in values if value > 0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low, max(high, low + 1)


def _axis(x_low: int, x_high: int, columns: int) -> str:
    line = [" "] * (columns + LABEL_CELLS)
    for power in range(x_low, x_high + 1):
        text = f"{10.0**power:g}"
        begin = LABEL_CELLS + min(round((power - x_low) / (x_high - x_low) * (columns - 1)), columns - len(text))
        line[begin : begin + len(text)] = text
    unit = "FLOP/B"
    line[: len(unit)] = unit
    return "".join(line).rstrip()


class RooflinePlot(Widget):
    """The plot with a line of words above; on a short screen the line alone."""

    DEFAULT_CSS = """
    RooflinePlot { height: 12; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._marks: Sequence[Mark] = ()
        self._roofs: Sequence[Roof] = ()
        self._words = ""

    def show(self, marks: Sequence[Mark], roofs: Sequence[Roof], words: str) -> None:
        """Show other marks.

        Args:
            marks: One for each op and shape with FLOPs.
            roofs: One for each element type in use.
            words: The whole in a line.
        """
        self._marks, self._roofs, self._words = marks, roofs, words
        self.refresh()

    def render(self) -> RenderResult:
        """The line of words, and the plot where there is room."""
        width, height = self.size.width, self.size.height
        roofs = "  ".join(f"{name} {peak:g} TFLOP/s" for name, peak, _ in self._roofs)
        lines = [Content(f"{self._words}{'   ' if roofs else ''}{roofs}"[:width])]
        lines += [Content(line) for line in plot_lines(self._marks, self._roofs, width, height - 1)]
        return Content("\n").join(lines[:height])
