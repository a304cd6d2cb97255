"""Panels in as many columns as there is room for, each below the shortest column so far."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from textual.geometry import NULL_OFFSET, Region, Size
from textual.layout import Layout, WidgetPlacement
from textual.widget import Widget

if TYPE_CHECKING:
    from textual.layout import ArrangeResult

LEAST: Final = 56
"""Cells that a column has at least, where there are several."""
MOST: Final = 3
"""More columns than this are narrower than they are of use."""
APART: Final = 1
"""Cells between columns."""


def column_widths(width: int) -> list[int]:
    """The cells of each column.

    >>> column_widths(78), column_widths(118), column_widths(198)
    ([78], [59, 58], [66, 65, 65])
    """
    number = max(1, min(MOST, (width + APART) // (LEAST + APART)))
    room = width - APART * (number - 1)
    return [room // number + (1 if place < room % number else 0) for place in range(number)]


class ColumnsLayout(Layout):
    """In the order of the widgets, each goes to the top of the shortest column: what comes first stays above."""

    name = "columns"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Where each widget stands."""
        parent.pre_layout(self)
        viewport = parent.app.viewport_size
        widths = column_widths(size.width)
        filled = [0] * len(widths)
        placements = []
        for child in children:
            column = filled.index(min(filled))
            width = widths[column]
            box = child._get_box_model(
                Size(width, size.height), viewport, Fraction(width), Fraction(size.height), greedy=greedy
            )
            left = sum(widths[:column]) + APART * column
            height = int(box.height)
            region = Region(left + box.margin.left, filled[column] + box.margin.top, int(box.width), height)
            placements.append(WidgetPlacement(region, NULL_OFFSET, box.margin, child))
            filled[column] += height + box.margin.height
        return placements


class Columns(Widget):
    """As high as its longest column."""

    DEFAULT_CSS = """
    Columns { height: auto; width: 1fr; }
    """

    def __init__(self, *children: Widget, id: str | None = None) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        # Textual finds layouts that are named in CSS in a table of its own.
        self._columns = ColumnsLayout()

    @property
    def layout(self) -> Layout:
        """Its children stand in columns."""
        return self._columns
