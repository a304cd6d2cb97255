"""Views of one table, and rows that take a while to make."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on
from textual.content import Content
from textual.widgets import Static

from tui.analysis import needs
from tui.analysis.capabilities import missing_data_text
from tui.analysis.notes_table import NOTES, notes_frame
from tui.analysis.sessions import replayed_sessions
from tui.screens.base import WORKING, ViewBody, ViewScreen
from tui.tables import table, tables_of_report
from tui.text import plain
from tui.views import view
from tui.widgets.details import Details, sections
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import polars as pl
    from textual.app import ComposeResult
    from textual.widget import Widget

    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec


class SingleTable(ViewBody):
    """One table; ``enter`` shows the details of a row.

    Args:
        spec: The table.
        rows: Returns its rows.
        empty: Returns the text if there are no rows: why, and what would record them.
    """

    def __init__(
        self, spec: TableSpec, rows: Callable[[Profile], pl.DataFrame], empty: str | Callable[[Profile], str]
    ) -> None:
        super().__init__()
        self._rows, self._empty = rows, empty
        self.pane = TablePane(spec, id="table")

    def compose(self) -> ComposeResult:
        """Yield the table."""
        yield self.pane

    def populate(self) -> None:
        """Fill the table."""
        profile = self.view.profile
        rows = self._rows(profile)
        self.pane.model.excluded_sessions = replayed_sessions(profile)
        self.pane.show(rows, empty=self.empty_reason() if rows.is_empty() else "")
        self.pane.focus_table()

    def empty_reason(self) -> str:
        """Return why there are no rows."""
        return self._empty if isinstance(self._empty, str) else self._empty(self.view.profile)


class FullText(Static):
    """The whole texts of the row under the cursor, if there is no room for its details."""

    def show(self, *texts: str | None) -> None:
        """Show texts, a line each; without any it takes no room."""
        present = [plain(text) for text in texts if text]
        self.set_class(bool(present), "-fed")
        self.update(Content("\n").join(Content(text) for text in present))


def registered_table(name: str, empty: str = "") -> SingleTable:
    """Return a widget for a table of `tui.tables`.

    Args:
        name: The name of the table.
        empty: The text if there are no rows; by default, what would have to be recorded.
    """
    registered = table(name)

    def empty_reason(profile: Profile) -> str:
        return missing_data_text(profile, getattr(needs, registered.needs)) if registered.needs else ""

    return SingleTable(registered.table_spec(), registered.rows, empty or empty_reason)


class RowsInBackground:
    """Computes rows of many launches in a thread, then fills the view again.

    The functions that make rows must be memoized.

    Args:
        view: The view.
    """

    def __init__(self, view: ViewScreen) -> None:
        self._view = view
        self._computed: tuple[Profile, str] | None = None
        """The kinds of rows that are computed, by profile."""

    def ensure_computed(self, pane: TablePane, kind: str, compute: Callable[[Profile], object]) -> bool:
        """Return whether rows are available at once; otherwise compute them, then fill the view again.

        Args:
            pane: The table, which says meanwhile that its rows are being computed.
            kind: A name of the rows.
            compute: A memoized function that makes them.
        """
        profile = self._view.profile
        if not self._view.is_large:
            return True
        if self._computed is not None and self._computed[0] is profile and self._computed[1] == kind:
            return True
        pane.show(pane.frame.clear(), empty=WORKING, is_loading=True)
        pane.focus_table()
        self._view.run_worker(
            partial(self._compute, profile, kind, compute), thread=True, exclusive=True, group="make rows"
        )
        return False

    def _compute(self, profile: Profile, kind: str, compute: Callable[[Profile], object]) -> None:
        compute(profile)
        self._view.app.call_from_thread(self._show_computed, profile, kind)

    def _show_computed(self, profile: Profile, kind: str) -> None:
        if self._view.is_attached and profile is self._view.profile:
            self._computed = (profile, kind)
            self._view.populate()
            self._view.show_crumbs()


class TableScreen(ViewScreen):
    """The main table of a view that has no screen of its own.

    Args:
        name: The view's name.
    """

    def __init__(self, name: str) -> None:
        self.VIEW = name  # type: ignore[misc]
        self.HELP = view(name).help  # type: ignore[misc]
        super().__init__()

    @classmethod
    def for_view(cls, name: str) -> ViewScreen:
        """Return the screen of a view."""
        return cls(name)

    def make_body(self) -> ViewBody:
        """Return the table."""
        return registered_table(tables_of_report(self.VIEW)[0].name)

    def compose_body(self) -> Iterable[Widget]:
        """Yield the table, and the text under the cursor."""
        yield from super().compose_body()
        yield FullText()

    @on(TablePane.RowHighlighted)
    def _show_full_text(self, event: TablePane.RowHighlighted) -> None:
        row: dict[str, Any] = event.row or {}
        text = row.get("text")
        self.query_one(FullText).show(row["tool_name"] if text else None, text)

    def opens_details(self, pane: TablePane) -> bool:
        """Return whether there are findings of the profiler: details show their full text."""
        return "severity" in pane.frame.columns and pane.frame["severity"].count() > 0


class IssuesScreen(ViewScreen):
    """One row per issue, the most severe first."""

    VIEW = "issues"
    HELP = (
        "Input that was repaired, skipped or only partly read, and warnings of the profiler.\nL shows the line, if "
        "the input is text.\nTotals exclude input listed as error; input listed as info was repaired."
    )

    def make_body(self) -> ViewBody:
        """Return the issues."""
        return registered_table("issue_list", "No issues: all of the profile was read.")

    def compose_body(self) -> Iterable[Widget]:
        """Yield the table, and the issue under the cursor."""
        yield from super().compose_body()
        yield FullText()

    @on(TablePane.RowHighlighted)
    def _show_full_issue(self, event: TablePane.RowHighlighted) -> None:
        row: dict[str, Any] = event.row or {}
        self.query_one(FullText).show(row.get("reason"), row.get("text"))

    def opens_details(self, pane: TablePane) -> bool:
        """Return whether there are issues: details show their full text."""
        return not pane.frame.is_empty()


class NotesScreen(ViewScreen):
    """One row per note; ``enter`` opens the row of the note."""

    VIEW = "notes"
    HELP = (
        "Your notes on rows. enter goes to the row, M edits the note; save an empty note to delete it.\nNotes are "
        "saved in ~/.local/state/proftui (XDG_STATE_HOME), readable only by you, never next to your "
        "files.\n:forget deletes all notes on this file. proftui report --notes prints notes and marked rows below "
        "their view."
    )

    def make_body(self) -> ViewBody:
        """Return the notes."""
        return SingleTable(
            NOTES,
            lambda _profile: notes_frame(self.explorer.notes.store.by_name, self.explorer.session_restore.files),
            "No notes. Press M on a row of any view to write a note. Rows with notes are marked #.",
        )

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Go to the row that the note is on."""
        self.explorer.notes.go_to_note(str(row["note_id"]))

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the full text of a note."""
        first_line, *further_lines = row["note"].splitlines() or [""]
        return sections(
            [
                ("", [("Note", first_line, ""), *(("", line, "") for line in further_lines)]),
                ("On", [("View", row["view"], ""), ("Row", row["row"], "")]),
                ("Written", [("At", row["written"], ""), ("Of the file", row["written_of"], "")]),
            ]
        )


class SummariesScreen(ViewScreen):
    """One row per line of such a summary, in the order of the input."""

    VIEW = "summaries"
    HELP = (
        "Summaries of the profiler: unified memory, OpenACC, OpenMP, NVTX ranges, CPU samples, "
        "dependencies.\nSections overlap in time, and so do nested ranges: do not add up their times.\nPress L to "
        "show the line of a row, if the input is text."
    )

    def make_body(self) -> ViewBody:
        """Return the summaries."""
        return registered_table(
            "other_summaries",
            "no other summaries in this input: they come with OpenACC, NVTX, unified memory or CPU profiling",
        )
