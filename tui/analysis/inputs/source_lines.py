"""The source of a row in inputs whose lines the Log view cannot show: event traces, databases."""

from __future__ import annotations

from pathlib import PurePath
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.model.profile import column_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

EVENTS: Final = "this input holds events, not text: L on a row shows the line number of its event"
TABLES: Final = "this input has no lines of text: i on a row shows its details"
NO_LINE: Final = "this row does not come from a single line of the input"

_ROWS: Final = (("activity", "GPU work"), ("op", "op"), ("number", "row"))
"""Columns that number rows of the input, and what they number."""
_PACKED: Final = {".gz": "zcat", ".bz2": "bzcat", ".xz": "xzcat", ".zst": "zstdcat"}


def no_text(profile: Profile) -> str:
    """Why the Log view has nothing to show, and what there is instead; empty where there is a text."""
    if profile.texts:
        return ""
    lines = (
        column_view(frame, "line")
        for name, frame in profile.frames.items()
        if "line" in frame.columns and name != "issues"
    )
    return EVENTS if any(column.null_count() < column.len() for column in lines) else TABLES


def where_from(profile: Profile, row: Mapping[str, Any]) -> str:
    """Where a row comes from, in words; empty where the Log view can show its line.

    Args:
        profile: Everything that was read.
        row: Of any table; one that is summed up of several has the line of the first, or none.
    """
    line, source = row.get("line"), _source(profile, row.get("session"))
    if isinstance(line, int):
        if source is None or source in profile.texts:
            return ""
        name = PurePath(source).name
        command = _PACKED.get(PurePath(source).suffix, "cat")
        return f"line {line:,} of {name}; to see it: {command} {quote(name)} | sed -n {line},+12p"
    if source is None or source in profile.texts or no_text(profile) == EVENTS:
        return NO_LINE
    numbered = [f"{what} {row[column]:,}" for column, what in _ROWS if isinstance(row.get(column), int)]
    what = f": {numbered[0]}, in input order" if numbered else ""
    return f"{PurePath(source).name} has tables, not lines{what}"


def _source(profile: Profile, session: object) -> str | None:
    """The file of a session, or of all sessions."""
    sessions = profile["sessions"]
    if isinstance(session, int):
        sessions = sessions.filter(pl.col("session") == session)
    names = sessions["source"].unique().to_list()
    return names[0] if len(names) == 1 else None
