"""Notes of the user on rows, as a table."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.model.columns import COLUMNS, ColumnKind, columns
from tui.model.table_spec import TableSpec
from tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.state.notes import Note
    from tui.state.store import Files

NOTES: Final = TableSpec(
    "notes",
    "Notes",
    columns("note", "row", "view", "written_of", "written"),
    key=("note_id",),
    pinned="note",
    min_pinned_cells=36,
)
AS_NOW: Final = "now"
BEFORE_CHANGE: Final = "before it changed"
_SCHEMA: Final = {
    "view": pl.String,
    "row": pl.String,
    "note": pl.String,
    "written": pl.String,
    "written_of": pl.String,
    "note_id": pl.String,
}


def notes_frame(notes: Mapping[str, Note], files: Files | None, view: str | None = None) -> pl.DataFrame:
    """Return the frame ``notes``: one row per note, by view in the order of the menu, the oldest first.

    Columns: ``view`` (title), ``row`` (as text), ``note``, ``written`` (local time), ``written_of`` (whether the file
    has changed since), ``note_id``.

    Args:
        notes: The notes by their ids.
        files: The open files.
        view: Only those of this view.
    """
    view_order = {known_view.name: (index, known_view.title) for index, known_view in enumerate(VIEWS)}
    stamp = None if files is None else files.stamp
    chosen = [(name, note) for name, note in notes.items() if view is None or note.place.view == view]
    chosen.sort(key=lambda entry: (view_order.get(entry[1].place.view, (len(view_order), ""))[0], entry[1].at))
    rows = [
        (
            view_order.get(note.place.view, (0, note.place.view))[1],
            note.words,
            note.text,
            written_at(note),
            AS_NOW if note.stamp == stamp else BEFORE_CHANGE,
            name,
        )
        for name, note in chosen
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def written_at(note: Note) -> str:
    """Return when a note was written."""
    return datetime.fromtimestamp(note.at).strftime("%Y-%m-%d %H:%M")


def note_title(spec: TableSpec, row: Mapping[str, Any], *, with_session: bool = False) -> str:
    """Return the title of a row outside of its table: its name, and the numbers that distinguish it from others.

    >>> note_title(NOTES, {"note": "slow", "note_id": "x"})
    'slow'
    """
    name = row.get(spec.pinned)
    titled = {**COLUMNS, **{column.name: column for column in spec.columns}}
    texts = [str(name)] if isinstance(name, str) else []
    for column in dict.fromkeys((spec.pinned, *spec.key)):
        value = row.get(column)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if column == "session" and not with_session:
            continue
        if is_number and column in titled and titled[column].kind in (ColumnKind.NUMBER, ColumnKind.COUNT):
            texts.append(f"{titled[column].title.lower()} {value}")
    return ", ".join(texts) or spec.title
