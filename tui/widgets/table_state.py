"""What a table shows and how it is arranged, as values; cursor and marks are kept by key when the frame changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl
from textual.containers import Vertical
from textual.widgets import Input

from tui.model.view import Sort, TableSpec, TableState
from tui.text import plain
from tui.widgets.frame_table import FrameTable
from tui.widgets.frame_view import HEADER
from tui.widgets.status_line import StatusLine
from tui.widgets.table_rows import Key, Row, TableRows

if TYPE_CHECKING:
    from collections.abc import Collection

    from textual.app import ComposeResult
    from textual.events import Resize
    from textual.widget import Widget

APPLIED: Final = frozenset(
    {"filter", "find", "sort", "most_rows", "hides_small", "as_share", "share_of_shown", "hidden"}
)
"""The parts of the state that decide which rows are shown, in which order, and what shares are taken of."""
FOLDED_BELOW: Final = 3
"""With fewer lines than these there is none for a row: the status line stands for the table."""


class ArrangedTable(Vertical):
    """A table, its status line, and its state; `tui.widgets.table_view` applies the state.

    Args:
        spec: What the table shows.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    ArrangedTable.-folded FrameTable { height: 0; }
    """

    def __init__(self, spec: TableSpec, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.spec = spec
        self.frame = pl.DataFrame()
        self.apart: Collection[int] = ()
        """Sessions whose times are added to those of no other."""
        self.table = FrameTable(spec)
        """The table itself: what gets the focus."""
        self.status_line = StatusLine()
        self.is_unfed = False
        """It was to show rows, and of whatever there have been none so far."""
        self.is_folded = False
        """Its status line is all that there is room for."""
        self.folded_at = ""
        """What is selected in it, for when it is folded."""
        self.folded_way = ""
        """The keys that lead to it, for when it is folded."""
        self._state = TableState()
        self._wanted_cursor: Key | None = None
        """The key of a row to return to, until there is a frame that has it."""
        self._wanted_marks: frozenset[Key] = frozenset()
        self._empty = ""
        self.is_coming = True
        """Its rows are being worked out: before any are shown how many there are is not known."""

    def compose(self) -> ComposeResult:
        """Table above status line."""
        yield from self._missing()

    def _missing(self) -> list[Widget]:
        return [widget for widget in (self.table, self.status_line) if not widget.is_attached]

    def mount_in(self, parent: Widget) -> None:
        """Mount it with all it needs at once: it can be filled before the next message is looked at."""
        parent.mount(self)
        self.mount(*self._missing())

    def on_resize(self, event: Resize) -> None:
        """Where there is no room for a row, say what the table holds, and the way to it."""
        is_folded = 0 < event.size.height < FOLDED_BELOW
        if is_folded != self.is_folded:
            self.is_folded = is_folded
            self.set_class(is_folded, "-folded")
            self.show_status()

    def tell_folded(self, *, at: str, way: str) -> None:
        """What its status line says while that is all of it.

        Args:
            at: What is selected in it, or nothing.
            way: The keys that lead to it.
        """
        at = plain(at)
        if (at, way) != (self.folded_at, self.folded_way):
            self.folded_at, self.folded_way = at, way
            self.show_status()

    def focus_table(self) -> None:
        """Give the focus to the table, once it is there; not where the user has begun to type something since."""
        screen = self.screen
        before = screen.focused

        def focus() -> None:
            typed_into = screen.focused is not before and isinstance(screen.focused, Input)
            if not typed_into and self.is_attached:
                screen.set_focus(self.table)

        self.app.call_later(focus)

    # --- rows --------------------------------------------------------------------------------------------------------

    def show(
        self, frame: pl.DataFrame, *, empty: str = "", is_coming: bool = False, spec: TableSpec | None = None
    ) -> None:
        """Show a frame; filter, order, columns, marks and the place of the cursor stay.

        Args:
            frame: The rows, with the columns of the spec and those of its key.
            empty: What stands in place of the rows when there are none: why, and what to record.
            is_coming: There are rows or not: they are being worked out.
            spec: How it is to be shown from now on; None: as before.
        """
        if spec is not None:
            self.spec = self.table.spec = spec
        self._state = self.arranged(self._state)
        cursor, marks = self._cursor_key() or self._wanted_cursor, self._mark_keys() or self._wanted_marks
        lines = self.lines_of_use
        was_bare = self.is_bare
        self.frame = frame
        if self.lines_of_use != lines:
            self.refresh(layout=True)
        self._empty, self.is_coming = plain(empty), is_coming
        if self.is_bare != was_bare:
            self.refresh_bindings()
        self._place(cursor, marks)
        self.show_notes()
        self.apply_state()

    @property
    def is_bare(self) -> bool:
        """Whether it has no rows, and none are to come."""
        return self.frame.is_empty() and not self.is_coming

    @property
    def lines_of_use(self) -> int | None:
        """The lines that it takes to see every row; None where it has none and says why."""
        if self.frame.is_empty():
            return None
        beside = sum(child.display for child in self.children if child is not self.table)
        return HEADER + self.frame.height + beside

    @property
    def current_row(self) -> Row | None:
        """The row under the cursor."""
        rows = self.table.rows
        return rows.record(self.table.cursor_row) if len(rows) else None

    def shown_frame(self, *, all_columns: bool = True) -> pl.DataFrame:
        """The rows as they are shown: filtered and in order.

        Args:
            all_columns: All columns of the frame, or only those that the user has not hidden, in the user's order.
        """
        return self._with_columns(self.table.rows.shown(), all_columns=all_columns)

    def marked_rows(self, *, all_columns: bool = True) -> pl.DataFrame:
        """The marked rows, in the order of the frame."""
        picked = pl.Series(sorted(self.table.marks), dtype=pl.UInt32)
        return self._with_columns(self.frame[picked], all_columns=all_columns)

    def _with_columns(self, frame: pl.DataFrame, *, all_columns: bool) -> pl.DataFrame:
        return frame if all_columns else frame.select(column.name for column in self.table.columns())

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> TableState:
        """How the user has arranged the table; setting it restores all of it."""
        return replace(
            self._state,
            cursor_key=self._cursor_key() or self._wanted_cursor,
            cursor_column=self.table.cursor_column,
            marks=self._mark_keys() or self._wanted_marks,
        )

    @state.setter
    def state(self, state: TableState) -> None:
        self._state = state
        if state.cursor_column:
            self.table.cursor_column = state.cursor_column
        self._place(state.cursor_key, state.marks)
        self.table.arrange_columns(state)
        self.apply_state()

    def change(self, *, keep_row: bool = False, **changes: object) -> None:
        """Change some of the state, by the names of `TableState`.

        Args:
            keep_row: Where the row under the cursor goes away, stay at the same height of the table.
            **changes: The new values.
        """
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]
        if changes.keys() & APPLIED:
            self.apply_state(keep_row=keep_row)
        else:
            self.table.arrange_columns(self._state)
            self.show_status()
        self.state_changed()

    def set_sort(self, by: Sort | None) -> None:
        """Sort by these columns; None restores the order that the table comes in."""
        self.change(sort=by)

    def state_changed(self) -> None:
        """Called when the user has changed the state."""

    def arranged(self, state: TableState) -> TableState:
        """Called before rows are shown: the state as it is to be from now on."""
        return state

    def noted_keys(self) -> Collection[Key]:
        """Called when rows are shown: the keys of those that have notes."""
        return ()

    def show_notes(self) -> None:
        """Put signs before the rows that have notes."""
        keys = self.noted_keys()
        rows = TableRows(self.frame).find_keys(keys, self._key_columns()) if keys else ()
        self.table.note(rows)

    def missing_of(self, state: TableState) -> tuple[bool, int]:
        """Whether the row of the cursor, and how many marked ones, of a state are not in the frame."""
        cursor = [state.cursor_key] if state.cursor_key is not None else []
        rows, columns = TableRows(self.frame), self._key_columns()
        return (
            len(rows.find_keys(cursor, columns)) < len(cursor),
            len(state.marks) - len(rows.find_keys(state.marks, columns)),
        )

    def reach(self, key: Key) -> bool | None:
        """Put the cursor on the row of a key; False where it is not in the frame, None where it is left out."""
        found = TableRows(self.frame).find_keys([key], self._key_columns())
        if not found:
            return False
        place = self.table.rows.shown_row(found[0]) if self.table.rows.frame is self.frame else None
        if place is None:
            return None
        self.table.move_to(place)
        return True

    def _cursor_key(self) -> Key | None:
        anchor = self.table.kept_row
        if anchor is None or anchor >= self.frame.height:
            return None
        return TableRows(self.frame).key(anchor, self._key_columns())

    def _mark_keys(self) -> frozenset[Key]:
        return TableRows(self.frame).keys(self.table.marks, self._key_columns()) if self.table.marks else frozenset()

    def _key_columns(self) -> tuple[str, ...]:
        return tuple(column for column in self.spec.key if column in self.frame.columns)

    def _place(self, cursor: Key | None, marks: frozenset[Key]) -> None:
        """Find cursor and marks in the frame; what it does not hold is kept for one that does."""
        rows = TableRows(self.frame)
        columns = self._key_columns()
        places = rows.find_keys([cursor], columns) if cursor is not None else []
        self.table.kept_row = places[0] if places else None
        self._wanted_cursor = None if places else cursor
        marked = rows.find_keys(marks, columns)
        self.table.mark(marked)
        self._wanted_marks = frozenset() if marked else marks

    @property
    def carried(self) -> str:
        """The filter that the user carries from view to view."""
        return str(getattr(self.app, "carried", ""))

    def apply_again(self) -> None:
        """What is carried has changed: filter anew."""
        self.apply_state()

    def apply_state(self, *, keep_row: bool = False) -> None:
        """Called to filter, search and order as the state says.

        Args:
            keep_row: Where the row under the cursor goes away, stay at the same height of the table.
        """

    def show_status(self) -> None:
        """Called to write the status line anew."""
