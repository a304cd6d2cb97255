"""Issues: parts of the input that could not be used as recorded; the source of rows that the Log view cannot show."""

from __future__ import annotations

from pathlib import PurePath
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.model.columns import columns
from tui.model.profile import column_view
from tui.model.schema import SEVERITIES
from tui.model.table_spec import TableSpec
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

ISSUES: Final = TableSpec(
    "issues",
    "Issues",
    columns("severity", "line", "reason", "text", "column", "session"),
    key=("session", "line", "column", "reason", "text"),
    pinned="reason",
    min_pinned_cells=56,
)


def issues(profile: Profile) -> pl.DataFrame:
    """Return the frame ``issues``: errors, then warnings, then infos; each by line.

    ``text`` is null if an issue has no line. Runs of blanks are collapsed.
    """
    rank = pl.col("severity").replace_strict({name: rank for rank, name in enumerate(SEVERITIES)}, default=-1)
    return (
        profile["issues"]
        .sort(rank, "session", "line", descending=[True, False, False], maintain_order=True)
        .with_columns(pl.col("text").str.strip_chars().str.replace_all(r"\s+", " ").replace("", None))
    )


def issue_counts(profile: Profile) -> dict[str, int]:
    """Count issues by severity, the most severe first.

    >>> from tui.model.profile import build_profile
    >>> issue_counts(build_profile({}, source="run.log"))
    {'error': 0, 'warning': 0, 'info': 0}
    """
    counts = dict(profile["issues"].group_by("severity").len().iter_rows())
    return {severity: counts.get(severity, 0) for severity in reversed(SEVERITIES)}


def severity_counts(counts: Mapping[str, int]) -> str:
    """Return the numbers of issues by severity as text.

    >>> severity_counts({"error": 1, "warning": 2, "info": 3}), severity_counts({"error": 0})
    ('1 error, 2 warnings, 3 info', '')
    """
    return ", ".join(plural(number, name, "info" * (name == "info")) for name, number in counts.items() if number)


EVENTS: Final = "this input has events, not text: L on a row shows the line number of its event"
TABLES: Final = "this input is not text: i on a row shows its details"
NO_LINE: Final = "this row has no single source line"

_ROWS: Final = (("activity", "GPU work"), ("op", "op"), ("number", "row"))
"""Columns with numbers of rows, and the name of the numbered rows."""
_PACKED: Final = {".gz": "zcat", ".bz2": "bzcat", ".xz": "xzcat", ".zst": "zstdcat", ".zip": "unzip -p"}


def missing_text_reason(profile: Profile) -> str:
    """Return why the Log view has nothing to show, and what there is instead; empty if there is a text."""
    if profile.texts:
        return ""
    lines = (
        column_view(frame, "line")
        for name, frame in profile.frames.items()
        if "line" in frame.columns and name != "issues"
    )
    return EVENTS if any(column.null_count() < column.len() for column in lines) else TABLES


def row_source(profile: Profile, row: Mapping[str, Any]) -> str:
    """Return a text about where a row comes from; empty if the Log view can show its line.

    Args:
        profile: The whole profile.
        row: A row of any table; a sum of several rows has the line of the first, or none.
    """
    line, source = row.get("line"), _source(profile, row.get("session"))
    if isinstance(line, int):
        if source is None or source in profile.texts:
            return ""
        name = PurePath(source).name
        command = _PACKED.get(PurePath(source).suffix, "cat")
        return f"line {line:,} of {name}; to see it: {command} {quote(name)} | sed -n {line},+12p"
    if source is None or source in profile.texts or missing_text_reason(profile) == EVENTS:
        return NO_LINE
    numbered = [f"{detail} {row[column]:,}" for column, detail in _ROWS if isinstance(row.get(column), int)]
    detail = f": {numbered[0]}, in input order" if numbered else ""
    return f"{PurePath(source).name} has tables, not lines{detail}"


def _source(profile: Profile, session: object) -> str | None:
    """Return the file of a session, or of all sessions."""
    sessions = profile["sessions"]
    if isinstance(session, int):
        sessions = sessions.filter(pl.col("session") == session)
    names = sessions["source"].unique().to_list()
    return names[0] if len(names) == 1 else None
