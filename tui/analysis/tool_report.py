"""Results of the recording tool itself: its findings, its figures and its other summaries, never mixed with ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.columns import ColumnKind, columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


FINDING: Final = "finding"
"""The ``section`` of findings of the tool's own advisor."""

_SECTION: Final = replace(columns("section")[0], help="Section of the report; finding: advice of the tool.")
_SEVERITY: Final = replace(columns("severity")[0], priority=3, help="Severity given by the tool.")
_TEXT: Final = replace(columns("text")[0], title="Text", help="Statement or advice of the tool.", priority=1)
# Values are written with a unit that suits each of them.
_BASE_UNIT: Final = replace(columns("unit")[0], title="Base unit")

HEADLINE_SECTIONS: Final = ("Performance Summary", "Resource Usage Breakdown")
"""The first sections of a report, which are on the dashboard."""

HEADLINES: Final = 12
"""The number of their figures on the dashboard."""
HEADLINE_FINDINGS: Final = 3
"""The number of their findings on the dashboard."""

TOOL_REPORT: Final = TableSpec(
    "tool_report",
    "Profiler report",
    (
        *columns("tool_name"),
        _SEVERITY,
        _TEXT,
        *columns("tool_value"),
        _SECTION,
        *columns("tool"),
        _BASE_UNIT,
        *columns("session", "line"),
    ),
    key=("session", "number"),
    pinned="tool_name",
)


def tool_report(profile: Profile) -> pl.DataFrame:
    """Return the tool's findings, then its figures, `HEADLINE_SECTIONS` first, else in input order.

    Columns: session, number (of the row), tool, section (`FINDING`, or the part of the report that a figure is in),
    tool_name (the problem, or the name of the figure), tool_value and unit (of a figure; base units), text (the
    recommendation, or a figure that is not a number), severity (null if the tool gives none), line.
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
    """Return the rows of `tool_report` for the dashboard: the first figures, then the first findings.

    Figures of other sections than `HEADLINE_SECTIONS` are among them if the profile has no times of its own.
    """
    rows = tool_report(profile)
    has_times = any(profile[frame].height for frame in ("activities", "api_calls", "ops", "summary"))
    is_headline = pl.col("section").is_in(HEADLINE_SECTIONS) if has_times else pl.col("section") != FINDING
    # Times and shares; the number of iterations alone is not informative.
    is_time_or_share = pl.col("tool_value").is_not_null() & pl.col("unit").is_in(["%", "ns"])
    figures = rows.filter(is_headline, is_time_or_share)
    findings = rows.filter(pl.col("section") == FINDING)
    return pl.concat([figures.head(HEADLINES), findings.head(HEADLINE_FINDINGS)])


# These names are words of the profiler and the program, not C++ names to shorten.
_NAME: Final = replace(columns("name")[0], kind=ColumnKind.TEXT)
_RANGE: Final = replace(columns("range")[0], priority=2)
"""The column that identifies a row of an NVTX range."""
_FIGURES: Final = ("total_ns", "time_pct", "calls", "avg_ns", "min_ns", "max_ns", "repaired", "session", "line")
_OP_SUMMARIES: Final = (
    "cpu_self_ns",
    "gpu_total_ns",
    "gpu_self_ns",
    "cpu_memory_bytes",
    "cpu_self_memory_bytes",
    "gpu_memory_bytes",
    "gpu_self_memory_bytes",
    "flops",
    "input_shapes",
    "stack",
)
"""Further columns of PyTorch's tables."""

_SECTION_WORDS: Final = {
    "um": "unified memory",
    "os": "operating system",
    "openacc": "OpenACC",
    "openmp": "OpenMP",
    "nvtx": "NVTX",
    "cpu": "CPU samples",
}
"""What the user reads for a section of the model; the others are words already."""

EXTRA_SUMMARIES_SPEC: Final = TableSpec(
    "other_summaries",
    "Other summaries",
    (_NAME, columns("section")[0], _RANGE, *columns(*_FIGURES, *_OP_SUMMARIES)),
    key=("session", "section", "line"),
    weight="",
)


def extra_summaries(profile: Profile) -> pl.DataFrame:
    """Return the rows of ``summary`` that are neither GPU work nor API calls, in the order of the input.

    Rows of different sections overlap in time, as do nested NVTX ranges: their times must not be added up.
    """
    section = pl.col("section").cast(pl.String)
    return profile["summary"].filter(~section.is_in(["gpu", "api"])).with_columns(section.replace(_SECTION_WORDS))
