"""Tables below each other: one with few rows leaves the lines that it has no use for to those below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.widget import Widget

from tui.widgets.table_state import ArrangedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.layout import ArrangeResult


UNFED_LINES: Final = 6
"""Lines of a table that has had no rows so far: its heading, why, and what would record them."""


def shared_heights(room: int, wanted: Sequence[tuple[float, int | None]]) -> list[int]:
    """The lines of each table, which together take all the room.

    What one does not need goes to those below it alone: going through the rows of a table must not move its edge,
    however many rows the next table shows of each.

    Args:
        room: Lines that there are.
        wanted: For each table its share, and how many lines are of use to it; None: as many as there are.

    >>> shared_heights(30, [(2, None), (2, None), (1, None)]), shared_heights(30, [(2, 4), (2, 4), (2, None)])
    ([12, 12, 6], [4, 4, 22])
    """
    heights = []
    for place, (share, most) in enumerate(wanted):
        height = round(room * share / sum(other for other, _ in wanted[place:]))
        heights.append(height if most is None else min(height, most))
        room -= heights[-1]
    return heights


class _StackLayout(Layout):
    name = "stack"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        parent.pre_layout(self)
        tables = [child for child in children if isinstance(child, ArrangedTable)]
        unfed = [table for table in tables if table.is_unfed] if not all(table.is_unfed for table in tables) else []
        heights: dict[Widget, int] = dict.fromkeys(unfed, min(UNFED_LINES, size.height // max(1, len(tables))))
        fed = [table for table in tables if table not in unfed]
        wanted = [(_share(table), table.lines_of_use if table is not fed[-1] else None) for table in fed]
        heights |= zip(fed, shared_heights(size.height - sum(heights.values()), wanted), strict=True)
        placements = []
        y = 0
        for table in tables:
            region = Region(0, y, size.width, heights[table])
            placements.append(WidgetPlacement(region, NULL_OFFSET, Spacing(), table))
            y += heights[table]
        return placements


def _share(table: ArrangedTable) -> float:
    height = table.styles.height
    return height.value if height is not None else 1.0


class TableStack(Widget):
    """Holds tables alone; those that are shown share its lines, by the ``fr`` of their heights."""

    DEFAULT_CSS = """
    TableStack { height: 1fr; width: 1fr; }
    """

    def __init__(self, *children: Widget, id: str | None = None) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        # Textual finds layouts that are named in CSS in a table of its own.
        self._stack = _StackLayout()

    @property
    def layout(self) -> Layout:
        """One below the other."""
        return self._stack
