"""Tool's Report: what the recording tool itself worked out and advises."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import TOOL_REPORT as NEEDED
from tui.analysis.tool_report import TOOL_REPORT, tool_report
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class ToolReportScreen(TableScreen):
    """Findings first, then figures."""

    VIEW = "tool-report"
    SPEC: ClassVar = TOOL_REPORT
    HELP: ClassVar = (
        "What the recording tool says itself: its advisor's findings first, then its figures, as it worked them out.\n"
        "None of it is proftui's: figures of the same name elsewhere are computed from the single records.\n"
        "enter shows a row whole."
    )

    def rows(self) -> pl.DataFrame:
        """All of it."""
        return tool_report(self.profile)

    def empty(self) -> str:
        """Why there is none."""
        return why_none(self.profile, NEEDED)
