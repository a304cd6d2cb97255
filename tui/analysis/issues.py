"""Issues: parts of the input that could not be used as recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.columns import columns
from tui.model.schema import SEVERITIES
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

ISSUES: Final = TableSpec(
    "issues",
    "Issues",
    columns("severity", "line", "reason", "text", "column", "session"),
    key=("session", "line", "column", "reason", "text"),
    pinned="reason",
    pinned_least=56,
)


def issues(profile: Profile) -> pl.DataFrame:
    """The frame ``issues``: errors first, then warnings, then what is only worth knowing; each by line.

    ``text`` is null where an issue is of no line: what is empty in all rows takes room from the reasons.
    Its blanks count for one each.
    """
    rank = pl.col("severity").replace_strict({name: rank for rank, name in enumerate(SEVERITIES)}, default=-1)
    return (
        profile["issues"]
        .sort(rank, "session", "line", descending=[True, False, False], maintain_order=True)
        .with_columns(pl.col("text").str.strip_chars().str.replace_all(r"\s+", " ").replace("", None))
    )


def issue_counts(profile: Profile) -> dict[str, int]:
    """How many issues there are of each severity, the worst first.

    >>> from tui.model.profile import profile_of
    >>> issue_counts(profile_of({}, source="run.log"))
    {'error': 0, 'warning': 0, 'info': 0}
    """
    counts = dict(profile["issues"].group_by("severity").len().iter_rows())
    return {severity: counts.get(severity, 0) for severity in reversed(SEVERITIES)}
