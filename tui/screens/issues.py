"""Issues: what in the input could not be used as it stood, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.issues import ISSUES, issues
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class IssuesScreen(TableScreen):
    """One row per issue, the gravest first."""

    VIEW = "issues"
    SPEC: ClassVar = ISSUES
    EMPTY: ClassVar = "no issues: all that looked like a profile was read"
    HELP: ClassVar = (
        "What was repaired, left out or only partly read, and what the profiler itself warned of.\n"
        "L shows its line, where the input has lines.\n"
        "Totals leave out what is listed here as error; what is listed as info was put right."
    )

    def rows(self) -> pl.DataFrame:
        """Every issue."""
        return issues(self.profile)
