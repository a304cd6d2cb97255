"""A bar chart whose lines can be gone into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from rich.segment import Segment
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.keys import Scope, bindings_for
from tui.text import plain
from tui.widgets.bars import BarRow, bar_columns, bar_lines
from tui.widgets.panel import EdgePassed

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Size
    from textual.visual import Visual

KEYS: Final = frozenset({"table.down", "table.up", "table.top", "table.bottom", "table.open", "table.detail"})


class BarList(Widget, can_focus=True):
    """Lines of label, bar, value and share; every line is a door: ``enter`` goes through it.

    Args:
        rows: The lines.
        empty: What stands there when there are none.
        id: The widget's id.
    """

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") in KEYS]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"barlist--cursor"}
    DEFAULT_CSS = """
    BarList {
        height: auto;
        & > .barlist--cursor { color: $primary; text-style: reverse; }
    }
    """

    class _OfRow(Message):
        def __init__(self, bars: BarList, key: str) -> None:
            super().__init__()
            self.bars = bars
            self.key = key
            """The key of the line."""

        @property
        def control(self) -> BarList:
            """The chart."""
            return self.bars

    class RowOpened(_OfRow):
        """The user goes into a line."""

    class RowHighlighted(_OfRow):
        """The cursor is on another line."""

    class DetailRequested(_OfRow):
        """The user wants the details of a line."""

    def __init__(self, rows: Sequence[BarRow] = (), *, empty: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rows = tuple(rows)
        self._empty = empty
        self.cursor = 0
        """The line that the cursor is on."""
        self.is_waiting = False
        """The lines are still being worked out."""

    @property
    def rows(self) -> tuple[BarRow, ...]:
        """The lines."""
        return self._rows

    @property
    def has_lines(self) -> bool:
        """Whether there is anything that the cursor can be on."""
        return bool(self._rows)

    def wait(self, sign: str) -> None:
        """Show a sign until there are lines; a chart that waits can keep the focus."""
        self.show([], empty=sign)
        self.is_waiting = True

    def show(self, rows: Sequence[BarRow], *, empty: str = "") -> None:
        """Show other lines; the cursor stays on the line of the same key."""
        key = self._rows[self.cursor].key if self._rows else ""
        self.is_waiting = False
        self._rows = tuple(rows)
        self._empty = empty
        self.cursor = next((place for place, row in enumerate(self._rows) if row.key == key), 0)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A line a row."""
        return len(self._rows) or len(self._empty.splitlines())

    def render(self) -> Visual:
        """The lines, the one under the cursor in reverse while the chart has the focus."""
        if not self._rows:
            return Content("\n").join(Content.styled(plain(line), "$text-muted") for line in self._empty.splitlines())
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        columns = bar_columns(self._rows, self.content_size.width)
        return Content("\n").join(bar_lines(self._rows, columns, ascii_only=ascii_only))

    def render_line(self, y: int) -> Strip:
        """Draw one line; the one under the cursor stands out."""
        strip = super().render_line(y)
        if not (self._rows and self.has_focus and self.row_at(y) == self.cursor):
            return strip
        style = self.rich_style + self.get_component_rich_style("barlist--cursor", partial=True)
        words_and_drawn = strip.divide([*self.drawn_cells(), strip.cell_length])
        return Strip.join(
            part if at % 2 else Strip([Segment(segment.text, style) for segment in part], part.cell_length)
            for at, part in enumerate(words_and_drawn)
        )

    def drawn_cells(self) -> list[int]:
        """Where on the line under the cursor what would be another in reverse begins and ends, in turns."""
        return bar_columns(self._rows, self.content_size.width).drawn(self._rows[self.cursor])

    def row_at(self, line: int) -> int:
        """The row that a line shows."""
        return line

    def cursor_seen(self) -> None:
        """Called when the cursor is on another line."""

    def _move_to(self, row: int) -> None:
        before = self.cursor
        self.cursor = max(0, min(row, len(self._rows) - 1))
        self.refresh()
        self.cursor_seen()
        if self._rows and self.cursor != before:
            self.post_message(self.RowHighlighted(self, self._rows[self.cursor].key))

    def action_cursor_down(self) -> None:
        """Line down; from the last one to what stands below."""
        if self.cursor + 1 >= len(self._rows):
            self.post_message(EdgePassed(1))
        self._move_to(self.cursor + 1)

    def action_cursor_up(self) -> None:
        """Line up; from the first one to what stands above."""
        if not self.cursor:
            self.post_message(EdgePassed(-1))
        self._move_to(self.cursor - 1)

    def action_cursor_top(self) -> None:
        """First line."""
        self._move_to(0)

    def action_cursor_bottom(self) -> None:
        """Last line."""
        self._move_to(len(self._rows) - 1)

    def action_open_row(self) -> None:
        """Go into the line under the cursor."""
        if self._rows:
            self.post_message(self.RowOpened(self, self._rows[self.cursor].key))

    def action_toggle_detail(self) -> None:
        """Ask for the details of the line under the cursor."""
        if self._rows:
            self.post_message(self.DetailRequested(self, self._rows[self.cursor].key))

    def on_click(self, event: events.Click) -> None:
        """Select a line; go into it on a double click."""
        at = event.get_content_offset(self)
        if at is not None and (row := self.row_at(at.y)) < len(self._rows):
            self._move_to(row)
            if event.chain == 2:
                self.action_open_row()


class SortableBarList(BarList):
    """A bar chart whose lines can be had in several orders."""

    BINDINGS: ClassVar = [b for b in bindings_for(Scope.TABLE) if getattr(b, "id", "") == "table.sort"]

    class SortRequested(Message):
        """The user wants the lines in another order."""

    def action_sort_column(self) -> None:
        """Ask for the lines in another order."""
        self.post_message(self.SortRequested())
