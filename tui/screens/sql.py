"""SQL: queries over the frames of the profile; the result is a table like any other."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from textual import on, work
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Static
from textual.worker import get_current_worker

from tui.analysis.capabilities import OK
from tui.analysis.notes_table import notes_frame
from tui.fmt import brief_duration
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES
from tui.query.sql.run import SqlTables, result_spec, run, sql_tables, with_row_numbers
from tui.query.sql.sql_text import suggestion
from tui.query.sql.statement import SHOW_TABLES
from tui.screens.base import WORKING, ViewScreen
from tui.text import plain, plural
from tui.widgets.input_bars import PendingEntry, PlainEditor
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.binding import BindingType
    from textual.widget import Widget

    from tui.model.history import Place
    from tui.model.profile import Profile


MAX_HISTORY = 100
EXAMPLE: Final = "SELECT name, total_ns FROM kernels ORDER BY total_ns DESC LIMIT 10"
"""The placeholder of the query, unless there are no kernels."""


class SqlEditor(PlainEditor):
    """A few lines of SQL.

    Args:
        id: The widget's id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "run", "run", key_display="enter"),
        Binding("right", "cursor_right", "complete", key_display="right"),
        Binding("up", "cursor_up", "previous", key_display="up"),
        Binding("escape", "leave", "results", key_display="esc"),
        Binding("tab", "leave", "results", show=False),
    ]
    DEFAULT_CSS = """
    SqlEditor {
        height: auto; min-height: 3; max-height: 8; border: none; border-top: solid $panel;
        &:focus { border: none; border-top: solid $primary; }
        border-title-color: $accent; border-title-style: bold;
    }
    """

    class Run(Message):
        """The user wants the text run."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Posted when the focus moves to the rows."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__("", placeholder=EXAMPLE, id=id)
        self.entry = PendingEntry(self)
        self.border_title = "SQL"
        self.tables: SqlTables | None = None
        """What can be named, for completion."""
        self.queries: list[str] = []
        """What was run, the latest last."""
        self._recalled: int | None = None
        self._typed = ""

    def remember(self, text: str) -> None:
        """Add a text to the history."""
        self.queries = [*[earlier for earlier in self.queries if earlier != text][-MAX_HISTORY + 1 :], text]
        self._recalled = None

    def put(self, text: str) -> None:
        """Replace the text, and move the cursor to its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def update_suggestion(self) -> None:
        """Suggest completions of the word before the cursor; the right arrow accepts them."""
        is_at_end = self.cursor_location == self.document.end
        self.suggestion = suggestion(self.text, self.tables) if self.tables is not None and is_at_end else ""

    async def _on_key(self, event: events.Key) -> None:
        if self.entry.is_pending and event.key == "escape":
            self.entry.cancel()
        elif event.key in ("enter", "tab") and not self.entry.is_pending:
            # Handled directly: as bindings they would overtake earlier keys, or come after later ones.
            event.stop()
            event.prevent_default()
            if event.key == "enter":
                self.action_run()
            else:
                self.action_leave()

    def on_focus(self) -> None:
        """Enable typing."""
        self.entry.cancel()

    def action_run(self) -> None:
        """Run the text, or the example if it is empty."""
        if not self.text.strip():
            self.text = str(self.placeholder)
            self.move_cursor(self.document.end)
        text = self.text.strip()
        self.remember(text)
        self.post_message(self.Run(text))

    def action_leave(self) -> None:
        """Go to the rows; `entry.release_keys` is called when they have arrived."""
        self.entry.block_keys()
        self.post_message(self.Left())

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up a line; on the first, recall the previous query."""
        if self.cursor_location[0] == 0 and not select and self.queries:
            self._recall(-1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down a line; on the last, recall the next query."""
        if self.cursor_location[0] == self.document.line_count - 1 and not select and self._recalled is not None:
            self._recall(1)
        else:
            super().action_cursor_down(select)

    def _recall(self, step: int) -> None:
        if self._recalled is None:
            self._typed = self.text
        index = (len(self.queries) if self._recalled is None else self._recalled) + step
        if 0 <= index <= len(self.queries):
            self.put(self._typed if index == len(self.queries) else self.queries[index])
            self._recalled = None if index == len(self.queries) else index


TABLE_PREVIEW_ROWS: Final = 100
"""The limit of the query that enter on a table's name runs."""
NO_RESULT: Final = f"no result: {SHOW_TABLES} lists the tables"


class SqlScreen(ViewScreen):
    """The query above, its result below; before the first query, the list of tables."""

    VIEW = "sql"
    AUTO_FOCUS = ""
    HELP: ClassVar = (
        "SELECT over the tables of the profile; times are in ns, sizes in bytes.\n"
        "enter runs the query, or the example where nothing is typed; tab switches to its rows and back.\n"
        "up and down recall queries, right completes.\n"
        "SHOW TABLES lists tables and columns; enter on a table shows its first rows. Queries only read."
    )

    def __init__(self) -> None:
        super().__init__()
        self.tables: SqlTables | None = None
        self._shown_query = SHOW_TABLES

    def compose_body(self) -> Iterable[Widget]:
        """Yield the query, its status, and the rows."""
        yield SqlEditor(id="sql")
        yield Static(id="sql-answer", markup=False)
        empty = with_row_numbers(SqlTables({}, (), lambda _name: pl.DataFrame()).overview())
        yield TablePane(result_spec(empty), id="result")

    @property
    def shown_query(self) -> str:
        """The query whose result is shown."""
        return self._shown_query

    def populate(self) -> None:
        """Run the query again on the current profile."""
        self.tables = sql_tables(self.profile, self._notes)
        editor = self.query_one(SqlEditor)
        editor.tables = self.tables
        has_kernels = self.explorer.navigator.availability.get("kernels", OK) == OK
        editor.placeholder = EXAMPLE if has_kernels else _example(self.profile)
        if not editor.queries:
            editor.queries = self.explorer.session_restore.queries.texts()
        self._show_no_rows(WORKING, is_loading=True)
        self._run(self._shown_query)
        if self.focused is None:
            editor.focus()

    def _notes(self) -> pl.DataFrame:
        return notes_frame(self.explorer.notes.store.by_name, self.explorer.session_restore.files)

    def run(self, text: str) -> None:
        """Put a query into the editor and run it."""
        editor = self.query_one(SqlEditor)
        editor.put(text)
        editor.action_run()

    @on(SqlEditor.Run)
    def _entered(self, event: SqlEditor.Run) -> None:
        if event.text.startswith(":"):
            self._failed("Here : is part of the query. Press esc, then : for a command.")
            return
        self.explorer.session_restore.keep_query(event.text)
        self._run(event.text)

    def _run(self, text: str) -> None:
        self._shown_query = text
        self._show_status("running, esc stops" if text != SHOW_TABLES else "")
        assert self.tables is not None
        self._compute(text, self.tables)

    @work(thread=True, exclusive=True, group="sql", description="sql")
    def _compute(self, text: str, tables: SqlTables) -> None:
        worker = get_current_worker()
        start_s = time.monotonic()
        try:
            rows = with_row_numbers(run(text, tables))
            tables.learn_columns()
        except ProftuiError as error:
            message = f"{error}"
            if not worker.is_cancelled:
                self.app.call_from_thread(self._failed, message)
            return
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show, text, rows, time.monotonic() - start_s)

    def _show(self, text: str, rows: pl.DataFrame, seconds: float) -> None:
        pane = self.query_one("#result", TablePane)
        pane.show(rows, spec=result_spec(rows), empty="The query returned no rows.")
        row_count = plural(rows.height, "row")
        self._show_status(
            "enter on a table shows its first rows"
            if _is_overview(text)
            else f"{row_count} in {brief_duration(seconds * 1e9)}"
        )
        self.query_one(SqlEditor).entry.release_keys()

    def _show_no_rows(self, reason: str, *, is_loading: bool = False) -> None:
        """Show why there are no rows."""
        pane = self.query_one("#result", TablePane)
        if pane.is_loading:
            pane.show(pane.frame, empty=reason, is_loading=is_loading)

    def _failed(self, message: str) -> None:
        self._show_no_rows(NO_RESULT)
        self._show_status(f"! {message}", is_error=True)
        self.focus_query()
        self.query_one(SqlEditor).entry.release_keys()

    def focus_query(self) -> None:
        """Focus the query."""
        self.set_focus(self.query_one(SqlEditor))

    def _show_status(self, text: str, *, is_error: bool = False) -> None:
        line = self.query_one("#sql-answer", Static)
        line.set_class(is_error, "-wrong")
        line.update(plain(text))

    @on(SqlEditor.Left)
    def _focus_rows(self) -> None:
        self.query_one("#result", TablePane).focus_table()
        if not self._is_running():
            self.query_one(SqlEditor).entry.release_keys()

    def _is_running(self) -> bool:
        return any(worker.group == "sql" and not worker.is_finished for worker in self.workers)

    def undo_smallest(self) -> bool:
        """Cancel a running query; otherwise as in every view."""
        if self._is_running():
            self.workers.cancel_group(self, "sql")
            # Polars cannot be interrupted; the memory of joins is bounded.
            self._show_no_rows(NO_RESULT)
            self._show_status("stopped waiting: the query continues in the background until it ends or you quit")
            self.query_one(SqlEditor).entry.release_keys()
            return True
        return super().undo_smallest()

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Show the first rows of a table if tables are listed; else the details of the row."""
        if _is_overview(self._shown_query):
            self.run(f"SELECT * FROM {row['table']} LIMIT {TABLE_PREVIEW_ROWS}")
        else:
            super().open_row(pane, row)

    # --- place -------------------------------------------------------------------------------------------------------

    def place(self) -> Place:
        """Return the query, and the arrangement of its result."""
        return replace(super().place(), text="" if _is_overview(self._shown_query) else self._shown_query)

    def restore(self, place: Place) -> None:
        """Run the query again."""
        if place.text and place.text != self._shown_query:
            self.run(place.text)
        super().restore(place)


def _example(profile: Profile) -> str:
    """Return a query of the frame with most rows."""
    name = max(FRAMES, key=lambda frame: profile[frame].height)
    columns = [column for column in profile[name].columns if column != "session"]
    return f"SELECT {', '.join(columns[:3])} FROM {name} LIMIT 10"


def _is_overview(text: str) -> bool:
    return " ".join(text.rstrip("; \n").split()).upper() == SHOW_TABLES
