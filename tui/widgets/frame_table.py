"""The table that every view stands on: a frame with a cursor that keys and mouse move."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.geometry import Region

from tui.keys import Scope, actions_of, bindings_for
from tui.widgets.frame_view import HEADER, FrameView

if TYPE_CHECKING:
    from textual import events

MOVE_IDS: Final = frozenset(action.id for action in actions_of(Scope.TABLE) if action.group == "Movement")


class FrameTable(FrameView):
    """A table over a frame, with a cell cursor."""

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") in MOVE_IDS]

    class RowClicked(FrameView._OfTable):
        """A row was clicked twice."""

    class HeaderClicked(FrameView._OfTable):
        """A heading was clicked."""

        def __init__(self, table: FrameTable, column: str) -> None:
            super().__init__(table)
            self.column = column

    def move_to(self, row: int) -> None:
        """Put the cursor on a row and bring it onto the screen."""
        row = max(0, min(row, len(self.rows) - 1))
        if row == self.cursor_row:
            self._scroll_to_cursor()
            return
        previous, self.cursor_row = self.cursor_row, row
        self.kept_row = self.rows.source_row(row)
        self._refresh_row(previous)
        self._refresh_row(row)
        self._scroll_to_cursor()
        self.post_message(self.CursorMoved(self))

    def move_to_column(self, name: str) -> None:
        """Put the cursor on a column and bring it onto the screen."""
        layout = self.table_layout
        if name not in layout.sequence:
            return
        left, self.cursor_column = self.cursor_column, name
        if self.arrangement.name_last and self.spec.pinned in (left, name) and left != name:
            # The names are whole while the cursor is on them, and make way for the others when it leaves.
            self._redraw()
            layout = self.table_layout
        if layout.find(name) is None:
            place = layout.sequence.index(name) - layout.still
            if place < layout.before:
                self._first_column = max(0, place)
                self._redraw()
            while self.table_layout.find(name) is None and self._first_column < place:
                self._first_column += 1
                self._redraw()
        self._refresh_row(self.cursor_row)
        self.refresh(Region(0, 0, self.size.width, HEADER))
        self.post_message(self.CursorMoved(self))

    def _step_column(self, step: int) -> None:
        sequence = self.table_layout.sequence
        if sequence:
            place = sequence.index(self.cursor_column) + step
            self.move_to_column(sequence[max(0, min(place, len(sequence) - 1))])

    def action_cursor_down(self) -> None:
        """Row down."""
        self.move_to(self.cursor_row + 1)

    def action_cursor_up(self) -> None:
        """Row up."""
        self.move_to(self.cursor_row - 1)

    def action_cursor_left(self) -> None:
        """Column left."""
        self._step_column(-1)

    def action_cursor_right(self) -> None:
        """Column right."""
        self._step_column(1)

    def action_cursor_top(self) -> None:
        """First row."""
        self.move_to(0)

    def action_cursor_bottom(self) -> None:
        """Last row."""
        self.move_to(len(self.rows) - 1)

    def action_cursor_first_column(self) -> None:
        """First column."""
        self._step_column(-len(self.table_layout.sequence))

    def action_cursor_last_column(self) -> None:
        """Last column."""
        self._step_column(len(self.table_layout.sequence))

    def _page(self, rows: int) -> None:
        top = self.scroll_offset.y
        self.scroll_to(y=max(0, min(top + rows, self.max_scroll_y)), animate=False, immediate=True)
        self.move_to(self.cursor_row + rows)

    def action_half_page_down(self) -> None:
        """Half a page down."""
        self._page(max(1, self.page_rows // 2))

    def action_half_page_up(self) -> None:
        """Half a page up."""
        self._page(-max(1, self.page_rows // 2))

    def action_page_down(self) -> None:
        """Page down."""
        self._page(self.page_rows)

    def action_page_up(self) -> None:
        """Page up."""
        self._page(-self.page_rows)

    def on_click(self, event: events.Click) -> None:
        """Select the cell, sort by the heading, or open the row on a double click."""
        placed = self.table_layout.column_at(event.x)
        if placed is None:
            return
        if event.y < HEADER:
            self.post_message(self.HeaderClicked(self, placed.column.name))
            return
        row = self.scroll_offset.y + event.y - HEADER
        if row >= len(self.rows):
            return
        self.move_to_column(placed.column.name)
        self.move_to(row)
        if event.chain == 2:
            self.post_message(self.RowClicked(self))
