"""What the recording tool itself worked out and advises: as it says it, never mixed with figures of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

FINDING: Final = "finding"
"""The ``section`` of what the tool's own advisor says."""

_SECTION: Final = replace(columns("section")[0], help="Part of the tool's report; finding: its advisor's words.")
_SEVERITY: Final = replace(columns("severity")[0], priority=5, help="As the tool's advisor gives it.")
_TEXT: Final = replace(columns("text")[0], title="In words", help="What it says, or advises.", priority=2)
# Values are written with a unit that suits each of them.
_BASE_UNIT: Final = replace(columns("unit")[0], title="Base unit")

HEADLINE_SECTIONS: Final = ("Performance Summary", "Resource Usage Breakdown")
"""The parts of a report that are told first, and on the dashboard."""

HEADLINES: Final = 12
"""So many figures the dashboard tells of them,"""
HEADLINE_FINDINGS: Final = 3
"""and so many findings."""

TOOL_REPORT: Final = TableSpec(
    "tool_report",
    "Tool's report",
    (
        *columns("tool_name", "tool_value"),
        _TEXT,
        _SECTION,
        _SEVERITY,
        *columns("tool"),
        _BASE_UNIT,
        *columns("session", "line"),
    ),
    key=("session", "number"),
    pinned="tool_name",
    pinned_least=36,
)


def tool_report(profile: Profile) -> pl.DataFrame:
    """The tool's findings, then its figures, those of `HEADLINE_SECTIONS` first; otherwise in the order of the input.

    Columns: session, number (of the row), tool, section (`FINDING`, or the part of the report that a figure is of),
    tool_name (the problem, or what the figure is called), tool_value and unit (of a figure; base units), text (the
    recommendation, or a figure that is no number), severity (null where the tool gives none), line.
    """
    findings = profile["tool_findings"].select(
        "session",
        "tool",
        pl.lit(FINDING).alias("section"),
        pl.col("problem").alias("tool_name"),
        pl.lit(None, pl.Float64).alias("tool_value"),
        pl.lit(None, pl.String).alias("unit"),
        pl.col("recommendation").alias("text"),
        "severity",
        "line",
    )
    figures = profile["tool_figures"].select(
        "session",
        "tool",
        "section",
        pl.col("name").alias("tool_name"),
        pl.col("value").alias("tool_value"),
        "unit",
        "text",
        pl.lit(None, pl.String).alias("severity"),
        "line",
    )
    is_later = ~pl.col("section").is_in(HEADLINE_SECTIONS).fill_null(False)
    return pl.concat([findings, figures.sort(is_later, maintain_order=True)]).with_row_index("number")


def headlines(profile: Profile) -> pl.DataFrame:
    """The rows of `tool_report` that the dashboard tells: its first figures, then its first findings."""
    rows = tool_report(profile)
    # Times and shares; the numbers of the iterations that were counted say little by themselves.
    telling = pl.col("tool_value").is_not_null() & pl.col("unit").is_in(["%", "ns"])
    figures = rows.filter(pl.col("section").is_in(HEADLINE_SECTIONS), telling)
    findings = rows.filter(pl.col("section") == FINDING)
    return pl.concat([figures.head(HEADLINES), findings.head(HEADLINE_FINDINGS)])
