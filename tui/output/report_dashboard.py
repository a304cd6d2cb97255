"""The dashboard without a screen: the figures of `tui.analysis.dashboard` as text, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.dashboard import Dashboard, dashboard
from tui.analysis.dashboard.advice import advice
from tui.analysis.dashboard.times import idle_gaps, iteration_spreads, wall_time
from tui.analysis.gpu_time.breakdown import BREAKDOWN
from tui.analysis.issues import issues
from tui.analysis.iterations.aggregation import words
from tui.analysis.layers import layer_totals
from tui.fmt import count, duration, percent
from tui.output.dashboard_lines import fact_lines, fact_markdown, meaning_lines, need_lines, split_lines
from tui.output.dashboard_tables import API, COPIES, DEVICES, ITERATIONS, KERNELS, LAYERS, LONGEST, OPS, TOOL, USES
from tui.output.export import json_line, markdown_cell, markdown_table
from tui.output.report import Style, issue_lines, json_rows, table_lines, table_markdown
from tui.text import plain

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile
    from tui.model.view import TableSpec

WORST_ISSUES: Final = 3
"""So many errors and warnings are told in full; the rest is counted."""

SPLIT_HEADING: Final = "GPU time by kind of work"
MEANINGS_HEADING: Final = "How these figures are worked out"
GRAVEST_COLUMNS: Final = ("rule", "severity", "session", "tool", "problem", "recommendation", "cost_ns")
MISSING_HEADING: Final = "What this input cannot say, and what would record it"


@dataclass(frozen=True, slots=True)
class _Section:
    """A table of the dashboard with the rows that it has."""

    spec: TableSpec
    rows: pl.DataFrame


class DashboardReport:
    """The dashboard of a profile, to be written.

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.
    """

    def __init__(self, profile: Profile, *, gpu: str | None = None) -> None:
        self._sources = list(profile.sources)
        self._several = profile["sessions"].height > 1
        self._figures = dashboard(profile, gpu=gpu)
        self._iterations = words(profile)
        figures = self._figures
        told = issues(profile)
        self._worst = told.filter(told["severity"] != "info").head(WORST_ISSUES)
        self._advice = advice(profile, gpu=gpu)
        self._sections = [
            _Section(BREAKDOWN, wall_time(profile)),
            _Section(ITERATIONS, iteration_spreads(profile)),
            _Section(USES, figures.gpu_uses),
            _Section(replace(OPS, title=_ops_title(figures)), figures.top_ops),
            _Section(KERNELS, figures.top_kernels),
            _Section(API, figures.top_api),
            _Section(LONGEST, idle_gaps(profile)),
            _Section(COPIES, figures.copies),
            _Section(LAYERS, layer_totals(profile)),
            _Section(DEVICES, figures.devices),
            _Section(_of_tool(figures.tool_says), figures.tool_says),
        ]

    def as_text(self, style: Style) -> str:
        """As text, for people and the logs of build machines."""
        figures = self._figures
        lines = [style.heading(", ".join(self._sources))]
        if self._iterations:
            lines += style.wrapped(f"Of {self._iterations} only.")
        if figures.partial:
            lines += style.wrapped(f"Of a part of the input only: {figures.partial}.")
        if figures.left_out:
            lines += style.wrapped(f"Note: {figures.left_out}.")
        lines += self._part(f"Expert Systems ({self._advice.summary})", self._advice_lines(style), style)
        lines += self._part("Performance summary", fact_lines(figures.performance, style), style)
        if not figures.split.is_empty():
            lines += self._part(SPLIT_HEADING, split_lines(figures.split, style), style)
        for section in self._filled():
            table = table_lines(section.spec, section.rows, style, notes=False)
            lines += self._part(section.spec.title, table, style)
        lines += self._part("System configuration", fact_lines(figures.system, style), style)
        worst = issue_lines(self._worst, replace(style, width=style.width - 2)) if self._worst.height else []
        told = [*style.wrapped(self._issues(), indent="  "), *(f"  {line}" for line in worst)]
        lines += self._part("Issues", told, style)
        if figures.missing:
            needs = need_lines(figures.missing, style)
            lines += self._part(MISSING_HEADING, needs, style)
        lines += self._part(MEANINGS_HEADING, meaning_lines(figures.performance, style), style)
        return "\n".join(lines) + "\n"

    def as_markdown(self) -> str:
        """As Markdown, for a merge request or a wiki."""
        figures = self._figures
        parts = [f"# {markdown_cell(', '.join(self._sources))}\n"]
        if self._iterations:
            parts.append(f"Of {markdown_cell(self._iterations)} only.\n")
        if figures.partial:
            parts.append(f"Of a part of the input only: {markdown_cell(figures.partial)}.\n")
        if figures.left_out:
            parts.append(f"Note: {figures.left_out}.\n")
        if self._advice.guidance:
            rows = [[severity, rule, told, cost] for severity, rule, told, cost in self._findings()]
            table = markdown_table(["Severity", "Rule", "What", "Cost"], rows, [False, False, False, True])
            heading = f"## Expert Systems ({self._advice.summary})"
            parts.append(f"{heading}\n\n{markdown_cell(self._advice.guidance)}\n" + (f"\n{table}" if rows else ""))
        parts.append(f"## Performance summary\n\n{fact_markdown(figures.performance)}")
        if not figures.split.is_empty():
            rows = [
                [str(row["group"]), percent(row["time_pct"]), duration(row["total_ns"]), count(row["calls"])]
                for row in figures.split.iter_rows(named=True)
            ]
            table = markdown_table(["Kind of work", "Time%", "Total", "Calls"], rows, [False, True, True, True])
            parts.append(f"## {SPLIT_HEADING}\n\n{table}")
        parts += [
            f"## {markdown_cell(part.spec.title)}\n\n{table_markdown(part.spec, part.rows)}" for part in self._filled()
        ]
        if figures.system:
            parts.append(f"## System configuration\n\n{fact_markdown(figures.system)}")
        parts.append(f"## Issues\n\n{self._issues()}\n")
        if figures.missing:
            rows = [[need.name, need.gives, need.record] for need in figures.missing]
            table = markdown_table(["Not in it", "What it would show", "Record it with"], rows, [False] * 3)
            parts.append(f"## {MISSING_HEADING}\n\n{table}")
        return "\n".join(parts)

    def as_json(self) -> str:
        """As one JSON object on a line, in base units."""
        figures = self._figures
        content: dict[str, Any] = {"view": "dashboard", "sources": self._sources}
        if self._iterations:
            content["aggregation"] = self._iterations
        if figures.partial:
            content["partial"] = figures.partial
        if figures.left_out:
            content["left_out"] = figures.left_out
        content["expert"] = {
            "counts": dict(self._advice.counts),
            "guidance": self._advice.guidance,
            "gravest": json_rows(self._advice.gravest.select(*GRAVEST_COLUMNS)),
        }
        content["performance"] = {fact.name: fact.value for fact in figures.performance}
        content["unknown"] = {fact.name: fact.source for fact in figures.performance if fact.value is None}
        content["split"] = json_rows(figures.split)
        content |= {section.spec.name: json_rows(section.rows) for section in self._sections}
        content["system"] = {fact.name: fact.value for fact in figures.system}
        content["issues"] = dict(figures.issues)
        content["missing"] = [
            {"name": need.name, "gives": need.gives, "record": need.record} for need in figures.missing
        ]
        return json_line(content)

    def _findings(self, *, ascii_only: bool = False) -> list[tuple[str, str, str, str]]:
        """Severity, rule, problem and cost of the gravest findings."""
        return [
            (
                row["severity"] or row["tool"],
                row["rule"] or "",
                f"session {row['session']}: {row['problem']}"
                if self._several and row["session"] is not None
                else row["problem"],
                duration(row["cost_ns"], ascii_only=ascii_only) if row["cost_ns"] is not None else "",
            )
            for row in self._advice.gravest.iter_rows(named=True)
        ]

    def _advice_lines(self, style: Style) -> list[str]:
        lines = style.wrapped(self._advice.guidance, indent="  ") if self._advice.guidance else []
        for severity, rule, told, cost in self._findings(ascii_only=style.ascii_only):
            first = f"  {severity:8} {rule:4}"
            lines += style.wrapped(f"{told} {f'({cost})' if cost else ''}", first=first, indent=" " * len(first))
        return lines

    def _filled(self) -> list[_Section]:
        return [section for section in self._sections if not section.rows.is_empty()]

    def _issues(self) -> str:
        told = [f"{count(number)} {severity}" for severity, number in self._figures.issues.items() if number]
        return f"{', '.join(told)}: proftui report --view issues lists them" if told else "none"

    @staticmethod
    def _part(heading: str, lines: Sequence[str], style: Style) -> list[str]:
        return ["", style.heading(heading), *lines] if lines else []


def _ops_title(figures: Dashboard) -> str:
    """The heading of the ops with where they are from."""
    if not figures.ops_recorded:
        return f"{OPS.title} (inferred from the names of the kernels)"
    if not figures.ops_inferred:
        return f"{OPS.title} (recorded; GPU time that each launched itself)"
    sessions = figures.ops_recorded + figures.ops_inferred
    return f"{OPS.title} (recorded in {figures.ops_recorded} of {sessions} sessions, else inferred from kernel names)"


def _of_tool(rows: pl.DataFrame) -> TableSpec:
    """The table of what the tool says, headed by its name."""
    tools = ", ".join(rows["tool"].drop_nulls().unique(maintain_order=True).to_list())
    return replace(TOOL, title=f"As {plain(tools)} says") if tools else TOOL
