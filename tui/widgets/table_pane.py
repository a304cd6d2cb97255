"""A table with everything around it: query bar, status line, dialogs, and the state that can be kept and restored."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

import polars as pl
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from tui.keys import Scope, bindings_for
from tui.model.view import TableSpec, TableState
from tui.widgets.frame_table import MOVE_IDS, FrameTable
from tui.widgets.table_rows import TableRows

SETTLED_AFTER: Final = 0.05
"""Seconds that the cursor rests before others are told of the row: holding a key down must not cost a query a row."""

Row = dict[str, object]


class TablePane(Vertical):
    """A table that can be searched, filtered, sorted, arranged, copied and exported.

    Args:
        spec: What the table shows.
        id: The widget's id.
        title: Its heading on the border, or empty.
    """

    BINDINGS: ClassVar = [
        binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") not in MOVE_IDS
    ]
    DEFAULT_CSS = """
    TablePane {
        height: 1fr;
        & > .tablepane--status { height: 1; padding: 0 1; color: $text-muted; }
    }
    """

    class _OfRow(Message):
        def __init__(self, pane: TablePane, row: Row | None) -> None:
            super().__init__()
            self.pane = pane
            self.row = row

        @property
        def control(self) -> TablePane:
            """The pane."""
            return self.pane

    class RowOpened(_OfRow):
        """The user goes into a row."""

        row: Row

    class RowHighlighted(_OfRow):
        """The cursor has come to rest on a row, or there is none."""

    class DetailRequested(_OfRow):
        """The user wants the details of a row."""

        row: Row

    class SourceLineRequested(_OfRow):
        """The user wants to see the line of the input that a row comes from."""

        row: Row

        def __init__(self, pane: TablePane, line: int, row: Row) -> None:
            super().__init__(pane, row)
            self.line = line

    class StateChanged(Message):
        """Filter, search, order, columns or marks have changed."""

        def __init__(self, pane: TablePane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> TablePane:
            """The pane."""
            return self.pane

    def __init__(self, spec: TableSpec, *, id: str | None = None, title: str = "") -> None:  # noqa: A002
        super().__init__(id=id)
        self.spec = spec
        self.frame = pl.DataFrame()
        self._state = TableState()
        self._table = FrameTable(spec)
        self._settle_timer: Timer | None = None
        if title:
            self.border_title = Content(title)

    def compose(self) -> ComposeResult:
        """Table above status line."""
        yield self._table
        yield Static(classes="tablepane--status")

    # --- what the screens use ----------------------------------------------------------------------------------------

    @property
    def table(self) -> FrameTable:
        """The table itself: what gets the focus."""
        return self._table

    def focus(self, scroll_visible: bool = True) -> TablePane:
        """Give the focus to the table."""
        self._table.focus(scroll_visible)
        return self

    def show(self, frame: pl.DataFrame, *, empty: str = "") -> None:
        """Show a frame; filter, order, columns and the place of the cursor stay.

        Args:
            frame: The rows, with the columns of the spec and those of its key.
            empty: What stands in place of the rows when there are none: why, and what to record.
        """
        self.frame = frame
        self._table.empty_text = empty
        self._table.set_rows(TableRows(frame))

    @property
    def state(self) -> TableState:
        """How the user has arranged the table; setting it restores all of it."""
        return replace(self._state, cursor_column=self._table.cursor_column)

    @state.setter
    def state(self, state: TableState) -> None:
        self._state = state
        self._table.arrange(state)

    @property
    def current_row(self) -> Row | None:
        """The row under the cursor."""
        rows = self._table.rows
        return rows.record(self._table.cursor_row) if len(rows) else None

    def undo_smallest(self) -> bool:
        """Undo the smallest thing that the user did here; False when there is nothing left."""
        return False

    # --- messages ----------------------------------------------------------------------------------------------------

    @on(FrameTable.CursorMoved)
    def _cursor_moved(self, event: FrameTable.CursorMoved) -> None:
        event.stop()
        if self._settle_timer is not None:
            self._settle_timer.stop()
        self._settle_timer = self.set_timer(SETTLED_AFTER, self._cursor_settled)

    def _cursor_settled(self) -> None:
        self.post_message(self.RowHighlighted(self, self.current_row))

    @on(FrameTable.RowClicked)
    def action_open_row(self) -> None:
        """Go into the row under the cursor."""
        row = self.current_row
        if row is not None:
            self.post_message(self.RowOpened(self, row))

    def action_toggle_detail(self) -> None:
        """Ask for the details of the row under the cursor."""
        row = self.current_row
        if row is not None:
            self.post_message(self.DetailRequested(self, row))

    def action_source_line(self) -> None:
        """Ask for the line of the input that the row comes from."""
        row = self.current_row
        if row is None:
            return
        line = row.get("line")
        if isinstance(line, int):
            self.post_message(self.SourceLineRequested(self, line, row))
        else:
            self.notify("This row has no single line in the input.", markup=False)
