"""Notes: what the user wrote on rows of this file, in every view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on

from tui.analysis.notes import NOTES, notes_frame
from tui.screens.single import TableScreen
from tui.widgets.details import Details, sections
from tui.widgets.table_pane import TablePane

if TYPE_CHECKING:
    import polars as pl


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
        return notes_frame(self.program.notes.all, self.program.files)

    @on(TablePane.RowOpened)
    def _open_details(self, event: TablePane.RowOpened) -> None:
        self.program.go_to_note(str(event.row["note_id"]))

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
