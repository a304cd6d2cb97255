"""Views made of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on

from tui.analysis.inputs import needs
from tui.analysis.inputs.capabilities import why_none
from tui.analysis.notes import NOTES, notes_frame
from tui.analysis.sessions import replayed_sessions
from tui.screens.base import ViewScreen
from tui.tables import Table, table, tables_of_report
from tui.views import view
from tui.widgets.details.pane import Details, sections
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    from textual.widget import Widget

    from tui.model.view import TableSpec


class TableScreen(ViewScreen):
    """One table; ``enter`` shows the details of a row."""

    TABLE: ClassVar[Table | None] = None
    """The table of the registry that it shows; None: it has its own ``SPEC`` and ``rows``."""
    SPEC: ClassVar[TableSpec]
    EMPTY: ClassVar[str] = ""
    """What to say where there are no rows: why, and what would record them."""

    @classmethod
    def of_view(cls, name: str) -> type[ViewScreen]:
        """This class; of `TableScreen` itself, a class that shows the main table of a view."""
        if cls is not TableScreen:
            return cls
        attributes = {"VIEW": name, "TABLE": tables_of_report(name)[0], "HELP": view(name).help}
        return type(f"{cls.__name__}_{name}", (cls,), attributes)

    def compose_body(self) -> Iterable[Widget]:
        """The table."""
        yield TablePane(self.SPEC if self.TABLE is None else self.TABLE.table_spec(), id="table")

    def rows(self) -> pl.DataFrame:
        """The rows to show."""
        if self.TABLE is None:
            raise NotImplementedError
        return self.TABLE.rows(self.profile)

    def empty(self) -> str:
        """What to say where there are no rows: ``EMPTY``, else what would have to be recorded."""
        if self.EMPTY or self.TABLE is None or not self.TABLE.needs:
            return self.EMPTY
        return why_none(self.profile, getattr(needs, self.TABLE.needs))

    def populate(self) -> None:
        """Fill the table."""
        pane = self.query_one("#table", TablePane)
        rows = self.rows()
        pane.model.excluded_sessions = replayed_sessions(self.profile)
        pane.show(rows, empty=self.empty() if rows.is_empty() else "")
        pane.focus_table()

    @on(TablePane.RowOpened)
    def _open_details(self, event: TablePane.RowOpened) -> None:
        event.pane.post_message(TablePane.DetailRequested(event.pane, event.row))


class IssuesScreen(TableScreen):
    """One row per issue, the gravest first."""

    VIEW = "issues"
    TABLE: ClassVar = table("issue_list")
    EMPTY: ClassVar = "no issues: all that looked like a profile was read"
    HELP: ClassVar = (
        "What was repaired, left out or only partly read, and what the profiler itself warned of.\n"
        "L shows its line, where the input has lines.\n"
        "Totals leave out what is listed here as error; what is listed as info was put right."
    )


class NotesScreen(TableScreen):
    """One row a note; ``enter`` goes to the row that it is on."""

    VIEW = "notes"
    SPEC: ClassVar = NOTES
    EMPTY: ClassVar = "no notes: M on a row of any view writes one; a # stands before rows that have one"
    HELP: ClassVar = (
        "What you wrote on rows; enter goes to the row, M changes the note, an empty text deletes it.\n"
        "They are kept under ~/.local/state/proftui (XDG_STATE_HOME), readable by you alone, never beside your files.\n"
        ":forget deletes all of this file; proftui report --notes prints them, and marked rows, below their view."
    )

    def rows(self) -> pl.DataFrame:
        """Every note."""
        return notes_frame(self.explorer.notes.store.all, self.explorer.session_restore.files)

    @on(TablePane.RowOpened)
    def _open_details(self, event: TablePane.RowOpened) -> None:
        self.explorer.notes.go_to_note(str(event.row["note_id"]))

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """The whole text of a note."""
        first, *rest = row["note"].splitlines() or [""]
        return sections(
            [
                ("", [("Note", first, ""), *(("", line, "") for line in rest)]),
                ("On", [("View", row["view"], ""), ("Row", row["row"], "")]),
                ("Written", [("At", row["written"], ""), ("Of the file", row["written_of"], "")]),
            ]
        )


class SummariesScreen(TableScreen):
    """One row per line of such a summary, in the order of the input."""

    VIEW = "summaries"
    TABLE: ClassVar = table("other_summaries")
    EMPTY: ClassVar = "no other summaries in this input: they come with OpenACC, NVTX, unified memory or CPU profiling"
    HELP: ClassVar = (
        "Summaries of the profiler: unified memory, OpenACC, OpenMP, NVTX ranges, CPU samples, dependencies.\n"
        "Rows of different sections overlap in time, as nested ranges do: do not add up their times.\n"
        "Press L to show the line of a row, where the input has lines."
    )
