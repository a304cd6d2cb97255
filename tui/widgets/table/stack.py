"""Tables below each other: one with few rows leaves the lines that it has no use for to those below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement

from tui.widgets.table.pane import FOLDED_BELOW, TablePane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.layout import ArrangeResult
    from textual.widget import Widget


CURRENT: Final = "-current"
"""The class of the table that the user is in."""
UNFED_LINES: Final = 6
"""Lines of a table that has had no rows so far: its heading, why, and what would record them."""
ENOUGH_LINES: Final = 26
"""With fewer, one of the tables stands open and the others make way for it."""
PEEK_LINES: Final = 5
"""Lines of the table below the open one: its heading, three rows, how many there are."""
PEEK_FROM: Final = 16
"""With fewer lines in all there are none for that."""


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


def folded_heights(room: int, wanted: Sequence[int | None], current: int) -> list[int]:
    """The lines of each table where they are too few for all: most for the current one, a line for each of the others.

    The table below shows its first rows, if there is room, so that going through the current one shows what belongs to
    each row. What the current one does not need goes to those below it, and then to those above.

    Args:
        room: Lines that there are.
        wanted: For each table how many lines are of use to it; None: as many as there are.
        current: The place of the table that the user is in.

    >>> folded_heights(20, [None, None, None], 0), folded_heights(20, [None, 6, None], 1)
    ([14, 5, 1], [1, 6, 13])
    >>> folded_heights(20, [None, 9, 8], 2), folded_heights(11, [None, None, None], 0)
    ([3, 9, 8], [9, 1, 1])
    """
    spare = room - len(wanted)
    if spare < 0:
        return [room if place == current else 0 for place in range(len(wanted))]
    heights = [1] * len(wanted)

    def open_up(place: int, most: int) -> int:
        """Give it what it can use of so many lines more; none where that is not enough for a row."""
        use = wanted[place]
        more = most if use is None else min(most, use - heights[place])
        if more <= 0 or heights[place] + more < FOLDED_BELOW:
            return 0
        heights[place] += more
        return more

    below = range(current + 1, len(wanted))
    peek = PEEK_LINES - 1 if below and room >= PEEK_FROM else 0
    if peek and (use := wanted[below[0]]) is not None:
        peek = min(peek, use - 1)
    spare -= open_up(current, spare - peek)
    for place in (*below, *reversed(range(current))):
        spare -= open_up(place, spare)
    # What nobody has a use for stays empty below the last rows.
    heights[-1 if heights[-1] > 1 else current] += spare
    return heights


class StackLayout(Layout):
    """Tables that are shown share the lines, by the ``fr`` of their heights."""

    name = "stack"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Place the tables."""
        parent.pre_layout(self)
        tables = [child for child in children if isinstance(child, TablePane)]
        heights = _folded(tables, size.height) if size.height < ENOUGH_LINES else _shared(tables, size.height)
        placements = []
        y = 0
        for table in tables:
            region = Region(0, y, size.width, heights[table])
            placements.append(WidgetPlacement(region, NULL_OFFSET, Spacing(), table))
            y += heights[table]
        return placements


def _shared(tables: Sequence[TablePane], room: int) -> dict[TablePane, int]:
    unfed = (
        [table for table in tables if table.has_had_no_rows]
        if not all(table.has_had_no_rows for table in tables)
        else []
    )
    heights = dict.fromkeys(unfed, min(UNFED_LINES, room // max(1, len(tables))))
    fed = [table for table in tables if table not in unfed]
    wanted = [(_share(table), table.lines_of_use if table is not fed[-1] else None) for table in fed]
    return heights | dict(zip(fed, shared_heights(room - sum(heights.values()), wanted), strict=True))


def _folded(tables: Sequence[TablePane], room: int) -> dict[TablePane, int]:
    current = next((place for place, table in enumerate(tables) if table.has_class(CURRENT)), 0)
    wanted = [UNFED_LINES if table.has_had_no_rows else table.lines_of_use for table in tables]
    return dict(zip(tables, folded_heights(room, wanted, current), strict=True))


def _share(table: TablePane) -> float:
    height = table.styles.height
    return height.value if height is not None else 1.0
