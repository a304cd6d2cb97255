"""A table whose arrangement is a value: filter, search, order, cursor and marks, kept by key when the frame changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl
from textual import on, work
from textual.containers import Vertical
from textual.worker import Worker, WorkerState

from tui.fmt import count, format_value, percent
from tui.model.columns import ColumnKind
from tui.model.view import Sort, TableSpec, TableState
from tui.query.apply import Applied, apply
from tui.text import plain
from tui.widgets.cells import units_of
from tui.widgets.frame_table import FrameTable
from tui.widgets.status_line import StatusLine, TableStatus
from tui.widgets.table_rows import Key, TableRows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from textual.app import ComposeResult
    from textual.timer import Timer

SETTLED_AFTER: Final = 0.05
"""Seconds that the cursor rests before others are told of the row: holding a key down must not cost a query a row."""
BUSY_AFTER: Final = 0.15
"""Seconds before the status line says that something takes a while."""
ROWS_AT_ONCE: Final = 50_000
"""Up to so many rows a filter or a sort is done before the next key is looked at; more go to a thread."""

APPLY: Final = "apply"
"""The group of the threads that filter and sort."""
NO_MATCH: Final = "No row matches the filter. esc takes it away."

Row = dict[str, object]


class TableView(Vertical):
    """A table, its status line, and the state that decides what they show.

    Args:
        spec: What the table shows.
        id: The widget's id.
        title: What it holds, for the status line, where several tables stand on one screen.
    """

    DEFAULT_CSS = """
    TableView { height: 1fr; }
    """

    def __init__(self, spec: TableSpec, *, id: str | None = None, title: str = "") -> None:  # noqa: A002
        super().__init__(id=id)
        self.spec = spec
        self.frame = pl.DataFrame()
        self.apart: Collection[int] = ()
        """Sessions whose times are added to those of no other."""
        self.table = FrameTable(spec)
        """The table itself: what gets the focus."""
        self.status_line = StatusLine()
        self._state = TableState()
        self.applied: Applied | None = None
        """What came of the latest filter, search and order."""
        self.is_pending = False
        """Whether a filter, a search or an order is being applied."""
        self._shown_pct: float | None = None
        self._taken_state = self._state
        """The state whose rows are on the screen."""
        self._marks_said: tuple[set[int], pl.DataFrame, tuple[str, str]] | None = None
        self._good_filter = ""
        """The latest filter that could be understood."""
        self._wanted_cursor: Key | None = None
        """The key of a row to return to, until there is a frame that has it."""
        self._wanted_marks: frozenset[Key] = frozenset()
        self._empty = ""
        self._request = 0
        self._busy = ""
        self._busy_timer: Timer | None = None
        self._settle_timer: Timer | None = None
        self._title = title

    def compose(self) -> ComposeResult:
        """Table above status line."""
        yield self.table
        yield self.status_line

    def focus_table(self) -> None:
        """Give the focus to the table."""
        self.table.focus()

    # --- rows --------------------------------------------------------------------------------------------------------

    def show(self, frame: pl.DataFrame, *, empty: str = "", spec: TableSpec | None = None) -> None:
        """Show a frame; filter, order, columns, marks and the place of the cursor stay.

        Args:
            frame: The rows, with the columns of the spec and those of its key.
            empty: What stands in place of the rows when there are none: why, and what to record.
            spec: How it is to be shown from now on; None: as before.
        """
        if spec is not None:
            self.spec = self.table.spec = spec
        cursor, marks = self._cursor_key() or self._wanted_cursor, self._mark_keys() or self._wanted_marks
        self.frame = frame
        self._empty = plain(empty)
        self._place(cursor, marks)
        self._apply()

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
        self._apply()

    def change(self, *, keep_row: bool = False, **changes: object) -> None:
        """Change some of the state, by the names of `TableState`.

        Args:
            keep_row: Where the row under the cursor goes away, stay at the same height of the table.
            **changes: The new values.
        """
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]
        if changes.keys() & {"filter", "find", "sort"}:
            self._apply(keep_row=keep_row)
        else:
            self.table.arrange_columns(self._state)
            self.show_status()
        self.state_changed()

    def set_sort(self, by: Sort | None) -> None:
        """Sort by these columns; None restores the order that the table comes in."""
        self.change(sort=by)

    def state_changed(self) -> None:
        """Called when the user has changed the state."""

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

    # --- applying filter, search and order ---------------------------------------------------------------------------

    def units(self) -> Mapping[str, str]:
        """For each column of times the unit that it is shown in: a bare number in a filter is read in it."""
        return units_of(self.spec.columns, self.frame, self._state)

    def _apply(self, *, keep_row: bool = False) -> None:
        self._request += 1
        self.is_pending = True
        if self.frame.height <= ROWS_AT_ONCE or not (self._state.filter or self._state.find or self._state.sort):
            self._take(
                apply(self.frame, self.spec, self._state, units=self.units(), apart=self.apart), keep_row=keep_row
            )
            return
        if self._busy_timer is None and not self._busy:
            self._busy_timer = self.set_timer(BUSY_AFTER, self._show_busy)
        self._apply_in_thread(self._request, self.frame, self._state, dict(self.units()), keep_row)

    @work(thread=True, exclusive=True, group=APPLY, exit_on_error=False)
    def _apply_in_thread(
        self, request: int, frame: pl.DataFrame, state: TableState, units: dict[str, str], keep_row: bool
    ) -> None:
        applied = apply(frame, self.spec, state, units=units, apart=self.apart)
        self.app.call_from_thread(self._take_if_wanted, request, applied, keep_row)

    def _take_if_wanted(self, request: int, applied: Applied, keep_row: bool) -> None:
        # A later key has asked for something else in the meantime: this result must not flash up.
        if request == self._request and self.is_mounted:
            self._take(applied, keep_row=keep_row)

    def cancel_pending(self) -> None:
        """Give up what takes a while, and go back to the state of the rows on the screen."""
        self._request += 1
        self._state = self._taken_state
        self._end_busy()
        self.show_status()

    def _end_busy(self) -> None:
        if self._busy_timer is not None:
            self._busy_timer.stop()
            self._busy_timer = None
        self._busy = ""
        self.is_pending = False

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A filter that broke down must not look like one that is still at work."""
        if event.state is WorkerState.ERROR and event.worker.group == APPLY:
            event.stop()
            self.cancel_pending()
            self.notify(plain(f"that did not work: {event.worker.error}"), severity="error", markup=False)

    def _show_busy(self) -> None:
        self._busy_timer = None
        self._busy = f"working on {count(self.frame.height)} rows… esc cancels"
        self.show_status()

    def _take(self, applied: Applied, *, keep_row: bool) -> None:
        self._end_busy()
        self.applied = applied
        self.answered(applied)
        if applied.error is None:
            self._good_filter = self._state.filter
        elif self.frame is self.table.rows.frame:
            # The last good result stays on the screen while the text is being mended.
            self.show_status()
            return
        else:
            good = replace(self._state, filter=self._good_filter)
            applied = apply(self.frame, self.spec, good, units=self.units(), apart=self.apart)
        self._taken_state = self._state
        self._shown_pct = applied.weight_shown_pct
        rows = TableRows(self.frame, applied.rows)
        place = rows.shown_row(self.table.kept_row) if self.table.kept_row is not None else 0
        if place is None:
            place = self.table.cursor_row if keep_row else 0
        self.table.arrange_columns(self._state)
        self.table.empty_text = NO_MATCH if self.frame.height else self._empty
        self.table.set_rows(rows, cursor_row=place, found=applied.matches)
        self.rows_taken()
        self.show_status()

    def rows_taken(self) -> None:
        """Called when the table shows the rows of the latest filter, search and order."""

    def answered(self, applied: Applied) -> None:
        """Called with what came of the latest filter, search and order."""

    # --- status ------------------------------------------------------------------------------------------------------

    def show_status(self) -> None:
        """Write the status line anew."""
        table = self.table
        layout = table.table_layout
        if self._marks_said is None or self._marks_said[0] is not table.marks or self._marks_said[1] is not self.frame:
            self._marks_said = (table.marks, self.frame, self._marks_in_words())
        marks, average = self._marks_said[2]
        self.status_line.status = TableStatus(
            title=self._title,
            shown=len(table.rows),
            total=self.frame.height,
            weight_share=self._shown_pct,
            weight_title="time",
            filter=plain(self._good_filter),
            find=plain(self._state.find),
            found=table.found_count,
            found_at=table.found_at(table.cursor_row),
            sorted_by=self._sorted_by(),
            marks=marks,
            marks_average=average,
            busy=self._busy,
            columns_before=layout.before,
            columns_after=layout.after,
        )

    def _sorted_by(self) -> str:
        titles = {column.name: column.title for column in self.spec.columns}
        down, up = ("v", "^") if self.table.ascii_only else ("▼", "▲")
        return ", ".join(f"{titles.get(name, name)} {down if falls else up}" for name, falls in self.table.sort)

    def _marks_in_words(self) -> tuple[str, str]:
        """How many rows are marked with the sum of their weight and its share; and their average."""
        marks, weight = self.table.marks, self.spec.weight
        if not marks:
            return "", ""
        said = f"{count(len(marks))} marked"
        if weight not in self.frame.columns:
            return said, ""
        values = self.frame[weight][pl.Series(sorted(marks), dtype=pl.UInt32)].drop_nulls().to_list()
        if not values:
            return said, ""
        kind = next((column.kind for column in self.spec.columns if column.name == weight), ColumnKind.COUNT)
        whole = self.frame[weight].sum()
        total, average = (
            format_value(kind, value, ascii_only=self.table.ascii_only)
            for value in (sum(values), sum(values) / len(values))
        )
        share = f", {percent(100 * sum(values) / whole)}" if isinstance(whole, (int, float)) and whole else ""
        return f"{said}: {total}{share}", average if len(values) > 1 else ""

    # --- messages of the table ---------------------------------------------------------------------------------------

    @on(FrameTable.CursorMoved)
    def _cursor_moved(self, event: FrameTable.CursorMoved) -> None:
        event.stop()
        self.show_status()
        if self._settle_timer is not None:
            self._settle_timer.stop()
        self._settle_timer = self.set_timer(SETTLED_AFTER, self.cursor_settled)

    def cursor_settled(self) -> None:
        """Called when the cursor has come to rest."""

    @on(FrameTable.LayoutChanged)
    def _layout_changed(self, event: FrameTable.LayoutChanged) -> None:
        event.stop()
        self.show_status()
