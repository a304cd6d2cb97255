"""Marked rows and notes of the user, in reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.notes_table import AS_NOW, BEFORE_CHANGE, NOTES, notes_frame
from tui.output.export import json_line
from tui.output.json_document import Bounds, JsonTable, document, schema_fields
from tui.output.report import table_lines, table_markdown, tables_for
from tui.tables import REPORTS, view_of_report
from tui.text import plain, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec
    from tui.output.report import Style
    from tui.state.notes import Note
    from tui.state.store import Files, Key
    from tui.state.workspace import SavedTable, Workspace


PANES: Final = {
    "functions": "api",
    "threads": "api_threads",
    "errors": "api_errors",
    "iterations": "iteration_work",
    "ranges": "ranges_by_name",
    "depths": "range_depths",
    "unified": "unified_memory",
}
"""Panes whose table has another name."""
FIRST_PANES: Final = ("table", "tree")
"""The panes of the first table of any view."""
CHANGED: Final = "The file has changed since these rows were marked."


@dataclass(frozen=True, slots=True)
class Marked:
    """The marked rows of a table."""

    view: str
    """The name of the report."""
    spec: TableSpec
    rows: pl.DataFrame
    total: int
    """How many rows the table has."""


class MarksReport:
    """The marked rows of a view, or of all.

    Args:
        profile: The profile.
        workspace: The saved workspace; None: there is none.
        stamp: The current stamp of the files, to detect changes.
        view: One of `REPORTS`; None: all.
    """

    def __init__(self, profile: Profile, workspace: Workspace | None, view: str | None, *, stamp: str) -> None:
        self.marked: list[Marked] = []
        requested_views = {view_of_report(name) for name in REPORTS if view in (None, name)}
        marked_tables = [
            (place.view, table)
            for place in (workspace.places if workspace is not None else ())
            for table in place.tables
            if table.marks and (view is None or place.view in requested_views)
        ]
        for name in [view] if view is not None else REPORTS:
            view_tables = [table for view_name, table in marked_tables if view_name == view_of_report(name)]
            # The ranks are a table of two reports of one view.
            reported = {(view_of_report(marked.view), marked.spec.name) for marked in self.marked}
            new_marked = _marked_rows(profile, name, view_tables)
            self.marked += [marked for marked in new_marked if (view_of_report(name), marked.spec.name) not in reported]
        shown = sum(marked.rows.height for marked in self.marked)
        self.elsewhere = max(0, sum(len(table.marks) for _, table in marked_tables) - shown)
        """Marked rows of tables that the report does not have, or that are not there any more."""
        self.is_of_now = workspace is None or not marked_tables or workspace.stamp == stamp
        """Whether the files are still what the rows were marked in."""

    def as_text(self, style: Style) -> str:
        """Return the marked rows of each table below its heading."""
        lines: list[str] = []
        for marked in self.marked:
            lines += [
                "",
                style.heading(marked_title(marked)),
                "",
                *table_lines(marked.spec, marked.rows, style, notes=False),
            ]
        for note in self.remarks:
            lines += ["", *style.wrapped(note)]
        return "".join(f"{line}\n" for line in lines)

    def as_markdown(self) -> str:
        """Return a Markdown table per table with marked rows."""
        sections = [
            f"\n### {marked_title(marked)}\n\n{table_markdown(marked.spec, marked.rows)}" for marked in self.marked
        ]
        return "".join([*sections, *(f"\n{note}\n" for note in self.remarks)])

    @property
    def remarks(self) -> list[str]:
        """The notes about the marked rows."""
        return [*([] if self.is_of_now else [CHANGED]), *([_elsewhere_note(self.elsewhere)] if self.elsewhere else [])]


def with_marks(written: str, report: MarksReport, format_name: str, style: Style) -> str:
    """Return a report with the marked rows of its view below it.

    Args:
        written: The report.
        report: The marked rows.
        format_name: text, markdown or json.
        style: How text is written.
    """
    if format_name == "json":
        marked = [
            {"view": table.view, "table": table.spec.name, "rows": JsonTable(table.rows, table.spec.key).objects(None)}
            for table in report.marked
        ]
        mark_fields = {"marked_elsewhere": report.elsewhere, "marked_of": AS_NOW if report.is_of_now else BEFORE_CHANGE}
        return json_line({**json.loads(written), "marked": marked, **mark_fields})
    return written + (report.as_text(style) if format_name == "text" else report.as_markdown())


def _marked_rows(profile: Profile, name: str, tables: list[SavedTable]) -> Iterator[Marked]:
    if not tables:
        return
    for index, table in enumerate(tables_for(profile, name)):
        spec = table.table_spec(profile)
        keys = [
            key
            for candidate in tables
            if PANES.get(candidate.pane, candidate.pane) == spec.name or (index == 0 and candidate.pane in FIRST_PANES)
            for key in candidate.marks
        ]
        if keys:
            rows = table.rows(profile)
            matching = _with_keys(rows, spec.key, keys)
            if matching.height:
                yield Marked(name, spec, matching, rows.height)


def _with_keys(rows: pl.DataFrame, columns: tuple[str, ...], keys: list[Key]) -> pl.DataFrame:
    """Return the rows with these keys, in the order of the keys."""
    schema = rows.select(columns).schema
    try:
        key_rows = pl.DataFrame([key for key in keys if len(key) == len(columns)], schema=schema, orient="row")
    except (pl.exceptions.PolarsError, TypeError, OverflowError):
        # Keys of an earlier content of the file.
        return rows.clear()
    return rows.join(key_rows, on=list(columns), how="semi", nulls_equal=True, maintain_order="left")


def marked_title(marked: Marked) -> str:
    """Return the heading of marked rows, with their number."""
    return f"Marked in {marked.spec.title} ({marked.rows.height:,} of {marked.total:,} rows)"


def _elsewhere_note(number: int) -> str:
    rows, are = ("row is", "it") if number == 1 else ("rows are", "them")
    return f"{number:,} more marked {rows} in tables outside this report: export {are} with e in the explorer."


INDENT = " " * 4


@dataclass(frozen=True, slots=True)
class SavedNotes:
    """The notes on rows of some files."""

    notes: Mapping[str, Note]
    """Notes by the ids of their rows."""
    files: Files | None

    def rows(self, view: str | None = None) -> pl.DataFrame:
        """Return the frame ``notes`` of one view, or of all."""
        return notes_frame(self.notes, self.files, view)


class NotesReport:
    """Notes by themselves.

    Args:
        saved: The notes.
        view: Only those of this view; None: all, each with its view.
    """

    def __init__(self, saved: SavedNotes, view: str | None = None) -> None:
        self.rows = saved.rows(view)
        self._names_views = view is None
        count = self.rows.height
        self._title = f"Notes ({plural(count, 'note')})"

    def as_text(self, style: Style) -> str:
        """Return each row with its note below it: sentences do not fit into columns."""
        lines = [style.heading(self._title), ""]
        for row in self.rows.iter_rows(named=True):
            view = f"{row['view']}: " if self._names_views else ""
            version_note = f", {BEFORE_CHANGE}" if row["written_of"] == BEFORE_CHANGE else ""
            lines += style.wrapped(f"{view}{row['row']} ({row['written']}{version_note})")
            for line in row["note"].splitlines():
                lines += style.wrapped(line, first=INDENT, indent=INDENT)
        return "\n".join(lines if self.rows.height else [*lines, "none"]) + "\n"

    def as_markdown(self, heading: str = "##") -> str:
        """Return a Markdown table of the notes."""
        body = table_markdown(NOTES, self.rows) if self.rows.height else "none\n"
        return f"{heading} {plain(self._title)}\n\n{body}"

    def as_json(self, bounds: Bounds | None = None) -> str:
        """Return one JSON object on a line: ``view`` and ``rows``."""
        return document({**schema_fields("report"), "view": "notes"}, {"rows": JsonTable(self.rows, NOTES.key)}, bounds)


def with_notes(written: str, saved: SavedNotes, view: str, format_name: str, style: Style) -> str:
    """Return a report with the notes on rows of its view below it; the dashboard has those of all views.

    Args:
        written: The report.
        saved: The notes.
        view: The view of the report, as on the command line.
        format_name: text, markdown or json.
        style: How text is written.
    """
    notes = NotesReport(saved, None if view == "dashboard" else view_of_report(view))
    if format_name == "json":
        content = json.loads(written)
        content["total_rows"]["notes"] = notes.rows.height
        return json_line({**content, "notes": JsonTable(notes.rows, NOTES.key).objects(None)})
    if not notes.rows.height:
        return written
    return f"{written}\n{notes.as_text(style) if format_name == 'text' else notes.as_markdown('###')}"
