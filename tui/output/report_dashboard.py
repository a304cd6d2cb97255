"""The dashboard without a screen: the figures of `tui.analysis.dashboard` as text, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.dashboard import REST, Dashboard, Fact, dashboard
from tui.analysis.issues import issues
from tui.analysis.iterations.aggregation import words
from tui.analysis.layers import LAYER_TOTALS, layer_totals
from tui.fitting import bar, cell_width, pad
from tui.fmt import count, duration, format_value, percent
from tui.model.columns import Column, ColumnKind, columns
from tui.model.view import TableSpec
from tui.output.export import json_line, markdown_cell, markdown_table
from tui.output.report import Style, issue_lines, json_rows, table_lines, table_markdown
from tui.text import plain

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.inputs.recording import Need
    from tui.model.profile import Profile

BAR_WIDTH: Final = 30
WORST_ISSUES: Final = 3
"""So many errors and warnings are told in full; the rest is counted."""

OPS: Final = TableSpec(
    "top_ops",
    "Top ops",
    columns("op", "total_ns", "time_pct", "calls", "avg_ns", "kernels"),
    key=("op",),
    pinned="op",
)
KERNELS: Final = TableSpec(
    "top_kernels", "Top kernels", columns("total_ns", "time_pct", "calls", "avg_ns", "name"), key=("name",)
)
API: Final = TableSpec(
    "top_api", "Top API calls", columns("total_ns", "time_pct", "calls", "avg_ns", "name"), key=("name",)
)
COPIES: Final = TableSpec(
    "copies",
    "Copies",
    columns("copy_kind", "total_ns", "time_pct", "calls", "size_bytes", "throughput", "kind"),
    key=("kind", "copy_kind"),
    pinned="copy_kind",
)
DEVICES: Final = TableSpec(
    "devices",
    "GPUs",
    (
        *columns("session", "device", "compute_capability", "sm_count"),
        Column("busy_ns", "Busy", ColumnKind.DURATION, "Time in which the GPU had any work.", 2),
        Column("idle_ns", "Idle", ColumnKind.DURATION, "Time of the span in which it had none.", 3),
        Column("busy_pct", "Busy%", ColumnKind.PERCENT, "Busy time as a share of the span.", 2),
        *columns("name"),
    ),
    key=("session", "device"),
)
TOOL: Final = TableSpec(
    "tool_says",
    "As the recording tool says",
    columns("tool_name", "tool_value", "unit", "text"),
    key=("number",),
    pinned="tool_name",
)
LAYERS: Final = replace(LAYER_TOTALS, title="Layer times by phase")
SPLIT_HEADING: Final = "GPU time by kind of work"
MISSING_HEADING: Final = "What this log cannot say, and what would record it"


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
        self._figures = dashboard(profile, gpu=gpu)
        self._iterations = words(profile)
        figures = self._figures
        told = issues(profile)
        self._worst = told.filter(told["severity"] != "info").head(WORST_ISSUES)
        self._sections = [
            _Section(replace(OPS, title=_ops_title(figures)), figures.top_ops),
            _Section(KERNELS, figures.top_kernels),
            _Section(API, figures.top_api),
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
        lines += self._part("Performance summary", _fact_lines(figures.performance, style), style)
        if not figures.split.is_empty():
            lines += self._part(SPLIT_HEADING, _split_lines(figures.split, style), style)
        for section in self._filled():
            table = table_lines(section.spec, section.rows, style, notes=False)
            lines += self._part(section.spec.title, table, style)
        lines += self._part("System configuration", _fact_lines(figures.system, style), style)
        worst = issue_lines(self._worst, replace(style, width=style.width - 2)) if self._worst.height else []
        told = [*style.wrapped(self._issues(), indent="  "), *(f"  {line}" for line in worst)]
        lines += self._part("Issues", told, style)
        if figures.missing:
            needs = _need_lines(figures.missing, style)
            lines += self._part(MISSING_HEADING, needs, style)
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
        parts.append(f"## Performance summary\n\n{_fact_markdown(figures.performance)}")
        if not figures.split.is_empty():
            rows = [
                [str(row["group"]), percent(row["time_pct"]), duration(row["total_ns"]), count(row["calls"])]
                for row in figures.split.iter_rows(named=True)
            ]
            table = markdown_table(["Kind of work", "Time%", "Total", "Calls"], rows, [False, True, True, True])
            parts.append(f"## {SPLIT_HEADING}\n\n{table}")
        parts += [f"## {part.spec.title}\n\n{table_markdown(part.spec, part.rows)}" for part in self._filled()]
        if figures.system:
            parts.append(f"## System configuration\n\n{_fact_markdown(figures.system)}")
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


def _fact_lines(facts: Sequence[Fact], style: Style) -> list[str]:
    """Facts one below the other, numbers aligned; then what is unknown, by the reason."""
    known = [(fact, _value(fact, style.ascii_only)) for fact in facts if fact.value is not None]
    labels = max((cell_width(fact.label) for fact, _text in known), default=0)
    widest = max((cell_width(text) for fact, text in known if fact.kind is not ColumnKind.TEXT), default=0)
    lines: list[str] = []
    for fact, text in known:
        start = f"  {pad(fact.label, labels)}  "
        if fact.kind is ColumnKind.TEXT:
            lines += style.wrapped(text, first=start, indent=" " * len(start))
        else:
            lines.append(start + pad(text, widest, right=True))
    for reason, labels_of in _unknown(facts).items():
        lines += style.wrapped(f"unknown: {', '.join(labels_of)} ({reason})", first="  ", indent="    ")
    return lines


def _split_lines(split: pl.DataFrame, style: Style) -> list[str]:
    """A bar for each kind of work, as long as its share."""
    names = [plain(str(name), ascii_only=style.ascii_only) for name in split["group"].to_list()]
    totals = [duration(value, ascii_only=style.ascii_only) for value in split["total_ns"].to_list()]
    shares = [percent(value, ascii_only=style.ascii_only) for value in split["time_pct"].to_list()]
    names = [
        f"{name} ({members} ops)" if name == REST else name
        for name, members in zip(names, split["members"].to_list(), strict=True)
    ]
    widths = [max(map(cell_width, texts)) for texts in (names, shares, totals)]
    return [
        f"  {pad(name, widths[0])}  {pad(share, widths[1], right=True)}  {pad(total, widths[2], right=True)}  "
        + bar((value or 0) / 100, BAR_WIDTH, ascii_only=style.ascii_only)
        for name, share, total, value in zip(names, shares, totals, split["time_pct"].to_list(), strict=True)
    ]


def _need_lines(needs: Sequence[Need], style: Style) -> list[str]:
    """Each command, and below it what it would add."""
    by_command: dict[str, list[Need]] = {}
    for need in needs:
        by_command.setdefault(need.record, []).append(need)
    lines: list[str] = []
    for command, gained in by_command.items():
        lines += style.wrapped(command, indent="  ")
        for need in gained:
            lines += style.wrapped(f"{need.name}: {need.gives}", first="      ", indent="        ")
    return lines


def _fact_markdown(facts: Sequence[Fact]) -> str:
    rows = [[fact.label, _value(fact, ascii_only=False)] for fact in facts if fact.value is not None]
    rows += [[label, f"unknown: {reason}"] for reason, labels in _unknown(facts).items() for label in labels]
    numbers = all(fact.kind is not ColumnKind.TEXT for fact in facts)
    return markdown_table(["What", "Value"], rows, [False, numbers])


def _unknown(facts: Sequence[Fact]) -> dict[str, list[str]]:
    """The labels of the facts that are not known, by the reason."""
    reasons: dict[str, list[str]] = {}
    for fact in facts:
        if fact.value is None:
            reasons.setdefault(fact.source, []).append(fact.label)
    return reasons


def _value(fact: Fact, ascii_only: bool) -> str:
    text = format_value(fact.kind, fact.value, ascii_only=ascii_only)
    return plain(text, ascii_only=ascii_only) if fact.kind is ColumnKind.TEXT else text
