"""Notes that the user wrote on rows, in reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.analysis.notes import BEFORE, NOTES, notes_frame
from tui.output.export import json_line
from tui.output.report import json_rows, table_markdown
from tui.output.report_views import VIEWS
from tui.text import plain

if TYPE_CHECKING:
    import polars as pl

    from tui.output.report import Style
    from tui.state.files import Files
    from tui.state.notes import Note

INDENT = " " * 4


@dataclass(frozen=True, slots=True)
class Saved:
    """What was written on rows of some files."""

    notes: Mapping[str, Note]
    """By the ids of their rows."""
    files: Files | None

    def rows(self, view: str | None = None) -> pl.DataFrame:
        """The frame ``notes``, of one view or of all."""
        return notes_frame(self.notes, self.files, view)


class NotesReport:
    """Notes by themselves.

    Args:
        saved: The notes.
        view: Only those of this view; None: all, each with its view.
    """

    def __init__(self, saved: Saved, view: str | None = None) -> None:
        self.rows = saved.rows(view)
        self._names_views = view is None
        count = self.rows.height
        self._title = f"Notes ({count} note{'' if count == 1 else 's'})"

    def as_text(self, style: Style) -> str:
        """Each row with its note below it: sentences do not fit into columns."""
        lines = [style.heading(self._title), ""]
        for row in self.rows.iter_rows(named=True):
            view = f"{row['view']}: " if self._names_views else ""
            before = f", {BEFORE}" if row["written_of"] == BEFORE else ""
            lines += style.wrapped(f"{view}{row['row']} ({row['written']}{before})")
            for line in row["note"].splitlines():
                lines += style.wrapped(line, first=INDENT, indent=INDENT)
        return "\n".join(lines if self.rows.height else [*lines, "none"]) + "\n"

    def as_markdown(self, heading: str = "##") -> str:
        """A table."""
        body = table_markdown(NOTES, self.rows) if self.rows.height else "none\n"
        return f"{heading} {plain(self._title)}\n\n{body}"

    def as_json(self) -> str:
        """One JSON object on a line: ``view`` and ``rows``."""
        return json_line({"view": "notes", "rows": json_rows(self.rows)})


def with_notes(written: str, saved: Saved, view: str, format_name: str, style: Style) -> str:
    """A report with the notes on rows of its view below it; the dashboard has those of all views.

    Args:
        written: The report.
        saved: The notes.
        view: What the report is of, as on the command line.
        format_name: text, markdown or json.
        style: How text is written.
    """
    of_screen = {name: known.capability for name, known in VIEWS.items()} | {"findings": "expert-systems"}
    notes = NotesReport(saved, of_screen.get(view))
    if format_name == "json":
        return json_line({**json.loads(written), "notes": json_rows(notes.rows)})
    if not notes.rows.height:
        return written
    return f"{written}\n{notes.as_text(style) if format_name == 'text' else notes.as_markdown('###')}"
