"""Times that follow each other as columns, as high as each is long."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from tui.fitting import cell_width
from tui.fmt import duration
from tui.widgets.busy_chart import TALL, area

if TYPE_CHECKING:
    from textual.geometry import Size


class TimesChart(Widget):
    """Columns from zero to the longest time; where there are more times than cells, a column is the longest of its."""

    DEFAULT_CSS = """
    TimesChart { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._times: tuple[int, ...] = ()
        self._ends = ("", "")

    def show(self, times_ns: Sequence[int], *, first: str, last: str) -> None:
        """Show other times.

        Args:
            times_ns: In order.
            first: What the first of them is called.
            last: What the last is called.
        """
        self._times = tuple(times_ns)
        self._ends = (first, last)
        self.display = len(self._times) > 1
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The columns, and a line below them."""
        return TALL + 1

    def render(self) -> Content:
        """Draw the columns with the longest time at their left, and the ends below."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        most = max(self._times, default=0)
        head = duration(most, ascii_only=ascii_only)
        label = cell_width(head)
        room = max(8, self.content_size.width - label - 1)
        heights = columns_of([time / most if most else 0.0 for time in self._times], room)
        lines = area(heights, TALL, ascii_only=ascii_only)
        texts = [head, *[" " * label] * (TALL - 1)]
        drawn = [
            Content.assemble((text, "$text-muted"), " ", (line, "$secondary"))
            for text, line in zip(texts, lines, strict=True)
        ]
        first, last = self._ends
        axis = first + last.rjust(max(0, len(heights) - cell_width(first)))
        return Content("\n").join([*drawn, Content.styled(" " * (label + 1) + axis, "$text-muted")])


def columns_of(shares: Sequence[float], cells: int) -> list[float]:
    """The height of each cell: few numbers take several cells each, with one between; of many the largest counts.

    >>> columns_of([0.5, 1.0], 7), columns_of([0.1, 0.9, 0.2, 0.3], 2)
    ([0.5, 0.5, 0.0, 1.0, 1.0], [0.9, 0.3])
    """
    wide = min(6, cells // len(shares)) if shares else 0
    if wide >= 3:
        drawn = list(itertools.chain.from_iterable([*[share] * (wide - 1), 0.0] for share in shares))
        return drawn[:-1]
    if wide >= 1:
        return list(shares)
    edges = [place * len(shares) // cells for place in range(cells + 1)]
    return [max(shares[start:stop]) for start, stop in itertools.pairwise(edges)]
