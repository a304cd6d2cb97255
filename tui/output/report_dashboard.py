"""The dashboard without a screen, as text, Markdown or JSON; the specs of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.allocator import MEMORY_DEVICES, MEMORY_PEAK, memory_devices, peak_by_call_site, peak_words
from tui.analysis.dashboard import REMAINING, TOP, Dashboard, advice, dashboard, idle_gaps, iteration_spreads, wall_time
from tui.analysis.expert.finding_text import percent as sentence_percent
from tui.analysis.gpu_time.breakdown import BREAKDOWN
from tui.analysis.gpu_time.idle_gaps import GAPS
from tui.analysis.issues import issues, severity_counts
from tui.analysis.iterations.chosen_iterations import iterations_text
from tui.analysis.layers import LAYER_TOTALS, layer_totals
from tui.fmt import brief_duration, count, duration, percent
from tui.model.columns import Column, ColumnKind, columns
from tui.model.table_spec import TableSpec
from tui.output.export import markdown_cell, markdown_table
from tui.output.json_document import Bounds, JsonTable, document, document_head
from tui.output.report import Style, issue_lines, table_lines, table_markdown
from tui.text import plain, plural
from tui.text_width import bar, cell_width, pad

if TYPE_CHECKING:
    from tui.analysis.dashboard_facts import Fact
    from tui.analysis.needs import Need
    from tui.model.profile import Profile


OPS: Final = TableSpec(
    "top_ops",
    "Top ops",
    columns(
        "op",
        "total_ns",
        "time_pct",
        "calls",
        "launches",
        "avg_ns",
        "kernels",
        "op_type",
        "direction",
        "tc_eligible",
        "uses_tensor_core",
    ),
    key=("op",),
    pinned="op",
)
KERNELS: Final = TableSpec(
    "top_kernels",
    "Top kernels",
    columns("total_ns", "time_pct", "calls", "avg_ns", "uses_tensor_core", "name"),
    key=("name",),
)
API_TABLE: Final = TableSpec(
    "top_api", "Top API calls", columns("total_ns", "time_pct", "calls", "avg_ns", "name"), key=("name",)
)
COPIES: Final = TableSpec(
    "copies",
    "Copies",
    (
        *columns("copy_kind", "total_ns"),
        replace(columns("time_pct")[0], title="Copy time", help="Share of the time of all copies, without memsets."),
        *columns("calls", "size_bytes"),
        replace(columns("throughput")[0], help="Size / duration, if both are known."),
        *columns("kind"),
    ),
    key=("kind", "copy_kind"),
    pinned="copy_kind",
)
DEVICES: Final = TableSpec(
    "devices",
    "GPUs",
    (
        *columns("session", "device", "compute_capability", "sm_count"),
        Column("busy_ns", "Busy", ColumnKind.DURATION, "Time in which the GPU had any work.", 2),
        Column("idle_ns", "Idle", ColumnKind.DURATION, "Wall time in which the GPU had no work.", 3),
        Column("busy_pct", "Busy%", ColumnKind.PERCENT, "Busy time as a share of the wall time.", 2),
        *columns("name"),
    ),
    key=("session", "device"),
)
USES: Final = TableSpec(
    "gpu_uses",
    "Total GPU time",
    (Column("use", "Work", ColumnKind.TEXT, "Use of the GPU time.", 1), *columns("total_ns", "time_pct")),
    key=("use",),
    pinned="use",
)
ITERATIONS: Final = TableSpec(
    "iteration_times",
    "Iteration times",
    (
        *columns("session"),
        Column("iterations", "Iterations", ColumnKind.COUNT, "How many.", 1),
        Column("first", "First", ColumnKind.NUMBER, "Number of the first.", 2),
        Column("last", "Last", ColumnKind.NUMBER, "Number of the last.", 2),
        *columns("avg_ns", "median_ns"),
        Column("p95_ns", "p95", ColumnKind.DURATION, "95% took no longer.", 2),
        *columns("min_ns", "max_ns", "std_ns"),
        Column("steady_first", "Steady from", ColumnKind.NUMBER, "Start of the longest steady interval.", 6),
        Column("steady_last", "to", ColumnKind.NUMBER, "End of the longest steady interval.", 6),
        Column("steady_avg_ns", "Steady mean", ColumnKind.DURATION, "Mean iteration time of the steady interval.", 6),
    ),
    key=("session",),
    pinned="iterations",
)
LONGEST: Final = replace(GAPS, name="longest_gaps", title="Longest idle gaps")
TOOL: Final = TableSpec(
    "tool_headlines",
    "Profiler report",
    columns("tool_name", "tool_value", "unit", "text"),
    key=("number",),
    pinned="tool_name",
)
LAYERS: Final = replace(LAYER_TOTALS, title="Layer times by phase")


BAR_WIDTH: Final = 30


def fact_lines(facts: Sequence[Fact], style: Style) -> list[str]:
    """Return facts one per line, numbers aligned; then unknown ones by reason."""
    known_facts = [(fact, _value(fact)) for fact in facts if fact.value is not None]
    labels = max((cell_width(fact.label) for fact, _text in known_facts), default=0)
    widest = max((cell_width(text) for fact, text in known_facts if fact.kind is not ColumnKind.TEXT), default=0)
    lines: list[str] = []
    for fact, text in known_facts:
        start = f"  {pad(fact.label, labels)}  "
        if fact.kind is ColumnKind.TEXT:
            lines += style.wrapped(text, first=start, indent=" " * len(start))
        else:
            lines.append(start + pad(text, widest, right=True))
    for reason, unknown_labels in _labels_by_reason(facts).items():
        lines += style.wrapped(f"Not available: {', '.join(unknown_labels)} ({reason})", first="  ", indent="    ")
    return lines


def split_lines(split: pl.DataFrame, style: Style) -> list[str]:
    """Return a bar for each kind of work, as long as its share."""
    names = [plain(str(name)) for name in split["group"].to_list()]
    totals = [duration(value) for value in split["total_ns"].to_list()]
    shares = [percent(value) for value in split["time_pct"].to_list()]
    names = [
        f"{name} ({members} ops)" if name == REMAINING else name
        for name, members in zip(names, split["members"].to_list(), strict=True)
    ]
    widths = [max(map(cell_width, texts)) for texts in (names, shares, totals)]
    return [
        f"  {pad(name, widths[0])}  {pad(share, widths[1], right=True)}  {pad(total, widths[2], right=True)}  "
        + bar((value or 0) / 100, BAR_WIDTH)
        for name, share, total, value in zip(names, shares, totals, split["time_pct"].to_list(), strict=True)
    ]


def need_lines(needs: Sequence[Need], style: Style) -> list[str]:
    """Return each command with the data that it would add."""
    by_command: dict[str, list[Need]] = {}
    for need in needs:
        by_command.setdefault(need.record, []).append(need)
    lines: list[str] = []
    for command, gained in by_command.items():
        lines += style.wrapped(command, indent="  ")
        for need in gained:
            lines += style.wrapped(f"{need.name}: {need.gives}", first="      ", indent="        ")
    return lines


def meanings_text(facts: Sequence[Fact], style: Style) -> list[str]:
    """Return the formula of each known figure."""
    lines: list[str] = []
    for fact in facts:
        if fact.value is not None:
            lines += style.wrapped(f"{fact.label} = {fact.formula}", first="  ", indent="      ")
    return lines


def fact_markdown(facts: Sequence[Fact]) -> str:
    """Return facts as a table; then unknown ones with the reason."""
    rows = [[fact.label, _value(fact)] for fact in facts if fact.value is not None]
    rows += [[label, f"unknown: {reason}"] for reason, labels in _labels_by_reason(facts).items() for label in labels]
    numbers = all(fact.kind is not ColumnKind.TEXT for fact in facts)
    return markdown_table(["What", "Value"], rows, [False, numbers])


def _labels_by_reason(facts: Sequence[Fact]) -> dict[str, list[str]]:
    """Return the labels of unknown facts by reason."""
    reasons: dict[str, list[str]] = {}
    for fact in facts:
        if fact.value is None:
            reasons.setdefault(fact.source, []).append(fact.label)
    return reasons


def _value(fact: Fact) -> str:
    text = fact.written()
    return plain(text) if fact.kind is ColumnKind.TEXT else text


SESSIONS_SHOWN: Final = 8
"""The number of sessions of which a table prints rows; JSON has all."""
WORST_ISSUES: Final = 3
"""The number of errors and warnings printed in full; the others are counted."""

SPLIT_HEADING: Final = "GPU time by kind of work"
MEANINGS_HEADING: Final = "How these metrics are computed"
FINDING_COLUMNS: Final = (
    "rule", "cause", "severity", "session", "tool", "problem", "recommendation", "cost_ns", "cost_pct", "cost_of",
    "all_rules",
)  # fmt: skip
MISSING_HEADING: Final = "Not recorded in this profile, and how to record it"


@dataclass(frozen=True, slots=True)
class _ReportSection:
    """A table of the dashboard with the rows that it has."""

    spec: TableSpec
    rows: pl.DataFrame

    def first_sessions(self) -> tuple[pl.DataFrame, str]:
        """Return the rows of the first `SESSIONS_SHOWN` sessions, and a sentence about the others."""
        if "session" not in self.rows.columns:
            return self.rows, ""
        omitted = self.rows["session"].unique().sort()[SESSIONS_SHOWN:]
        if omitted.is_empty():
            return self.rows, ""
        shown = self.rows.filter(pl.col("session") < omitted[0])
        return shown, f"{plural(omitted.len(), 'more session')}: --session N shows one."


def _memory_sections(profile: Profile) -> list[_ReportSection]:
    """Return what each device of a memory snapshot holds, and the largest call sites at the peak."""
    if profile["memory_segments"].is_empty():
        return []
    return [
        _ReportSection(replace(MEMORY_DEVICES, title="Memory held at the end"), memory_devices(profile)),
        _ReportSection(
            replace(MEMORY_PEAK, title=f"Memory {peak_words(profile)}, by call site"),
            peak_by_call_site(profile).head(TOP),
        ),
    ]


class DashboardReport:
    """The dashboard of a profile, to be written.

    Args:
        profile: The profile.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._sources = list(profile.sources)
        self._figures = dashboard(profile)
        self._several = profile["sessions"].height > 1
        self._iterations = iterations_text(profile)
        figures = self._figures
        rows = issues(profile)
        self._worst = rows.filter(rows["severity"] != "info").head(WORST_ISSUES)
        self._advice = advice(profile)
        self._sections = [
            _ReportSection(BREAKDOWN, wall_time(profile)),
            _ReportSection(ITERATIONS, iteration_spreads(profile)),
            _ReportSection(USES, figures.gpu_uses),
            _ReportSection(replace(OPS, title=_ops_title(figures)), figures.top_ops),
            _ReportSection(KERNELS, figures.top_kernels),
            _ReportSection(API_TABLE, figures.top_api),
            _ReportSection(LONGEST, idle_gaps(profile)),
            _ReportSection(COPIES, figures.copies),
            *_memory_sections(profile),
            _ReportSection(LAYERS, layer_totals(profile)),
            _ReportSection(DEVICES, figures.devices),
            _ReportSection(_tool_table(figures.tool_headlines), figures.tool_headlines),
        ]

    def as_text(self, style: Style) -> str:
        """Return the dashboard as text, for people and the logs of build machines."""
        figures = self._figures
        lines = [style.heading(", ".join(self._sources))]
        if self._iterations:
            lines += style.wrapped(f"Restricted to {self._iterations}.")
        if figures.partial:
            lines += style.wrapped(f"Partial results: {figures.partial}.")
        if figures.left_out:
            lines += style.wrapped(f"Note: {figures.left_out}.")
        lines += self._section_lines(f"Expert Systems ({self._advice.summary})", self._advice_lines(style), style)
        lines += self._section_lines("Performance summary", fact_lines(figures.performance, style), style)
        if not figures.split.is_empty():
            lines += self._section_lines(SPLIT_HEADING, split_lines(figures.split, style), style)
        for section in self._sections_with_rows():
            rows, note = section.first_sessions()
            table = table_lines(section.spec, rows, style, notes=False)
            lines += self._section_lines(section.spec.title, [*table, *style.wrapped(note)], style)
        lines += self._section_lines("System configuration", fact_lines(figures.system, style), style)
        worst = issue_lines(self._worst, replace(style, width=style.width - 2)) if self._worst.height else []
        issues_text = [*style.wrapped(self._issues(), indent="  "), *(f"  {line}" for line in worst)]
        lines += self._section_lines("Issues", issues_text, style)
        if figures.missing:
            needs = need_lines(figures.missing, style)
            lines += self._section_lines(MISSING_HEADING, needs, style)
        lines += self._section_lines(MEANINGS_HEADING, meanings_text(figures.performance, style), style)
        return "\n".join(lines) + "\n"

    def as_markdown(self) -> str:
        """Return the dashboard as Markdown, for a merge request or a wiki."""
        figures = self._figures
        sections = [f"# {markdown_cell(', '.join(self._sources))}\n"]
        if self._iterations:
            sections.append(f"Restricted to {markdown_cell(self._iterations)}.\n")
        if figures.partial:
            sections.append(f"Partial results: {markdown_cell(figures.partial)}.\n")
        if figures.left_out:
            sections.append(f"Note: {figures.left_out}.\n")
        if self._advice.guidance:
            rows = [[severity, problem, cost, rules] for severity, rules, problem, cost in self._findings()]
            table = markdown_table(["Severity", "Finding", "Cost", "Rules"], rows, [False, False, True, False])
            heading = f"## Expert Systems ({markdown_cell(self._advice.summary)})"
            sections.append(f"{heading}\n\n{markdown_cell(self._advice.guidance)}\n" + (f"\n{table}" if rows else ""))
        sections.append(f"## Performance summary\n\n{fact_markdown(figures.performance)}")
        if not figures.split.is_empty():
            rows = [
                [str(row["group"]), percent(row["time_pct"]), duration(row["total_ns"]), count(row["calls"])]
                for row in figures.split.iter_rows(named=True)
            ]
            table = markdown_table(["Kind of work", "Time%", "Total", "Calls"], rows, [False, True, True, True])
            sections.append(f"## {SPLIT_HEADING}\n\n{table}")
        for section in self._sections_with_rows():
            shown_rows, note = section.first_sessions()
            table = table_markdown(section.spec, shown_rows)
            sections.append(f"## {markdown_cell(section.spec.title)}\n\n{table}" + (f"\n{note}\n" if note else ""))
        if figures.system:
            sections.append(f"## System configuration\n\n{fact_markdown(figures.system)}")
        sections.append(f"## Issues\n\n{self._issues()}\n")
        if figures.missing:
            rows = [[need.name, need.gives, need.record] for need in figures.missing]
            table = markdown_table(["Not recorded", "Shows", "Record it with"], rows, [False] * 3)
            sections.append(f"## {MISSING_HEADING}\n\n{table}")
        return "\n".join(sections)

    def as_json(self, bounds: Bounds | None = None) -> str:
        """Return the dashboard as one JSON object on a line, in base units."""
        figures = self._figures
        content: dict[str, Any] = document_head("report", self._profile, view="dashboard")
        content["left_out"] = figures.left_out or None
        content["expert"] = {"counts": dict(self._advice.counts), "guidance": self._advice.guidance or None}
        content["performance"] = {fact.name: fact.value for fact in figures.performance}
        content["unknown"] = {fact.name: fact.source for fact in figures.performance if fact.value is None}
        content["system"] = {fact.name: fact.value for fact in figures.system}
        content["issues"] = dict(figures.issues)
        content["missing"] = [
            {"name": need.name, "gives": need.gives, "record": need.record} for need in figures.missing
        ]
        findings = self._advice.top_findings.select(*FINDING_COLUMNS)
        tables = {"top_findings": JsonTable(findings, ("rule", "tool", "session", "problem"))}
        tables["split"] = JsonTable(figures.split, ("group",))
        tables |= {section.spec.name: JsonTable(section.rows, section.spec.key) for section in self._sections}
        return document(content, tables, bounds)

    def _findings(self) -> list[tuple[str, str, str, str]]:
        """Return severity, rules, problem and cost of the most expensive findings."""
        return [
            (
                row["severity"] or row["tool"],
                (row["all_rules"] or "").replace(" ", ", "),
                self._advice.with_session(row),
                _cost(row),
            )
            for row in self._advice.top_findings.iter_rows(named=True)
        ]

    def _advice_lines(self, style: Style) -> list[str]:
        lines = style.wrapped(self._advice.guidance, indent="  ") if self._advice.guidance else []
        for severity, rules, problem, cost in self._findings():
            first = f"  {severity:8} "
            sentence = f"{problem} Costs at most {cost}." if cost else problem
            lines += style.wrapped(f"{sentence} {f'({rules})' if rules else ''}", first=first, indent=" " * len(first))
        return lines

    def _sections_with_rows(self) -> list[_ReportSection]:
        return [section for section in self._sections if not section.rows.is_empty()]

    def _issues(self) -> str:
        counts = severity_counts(self._figures.issues)
        return f"{counts}: proftui report --view issues lists them" if counts else "none"

    @staticmethod
    def _section_lines(heading: str, lines: Sequence[str], style: Style) -> list[str]:
        return ["", style.heading(heading), *lines] if lines else []


def _cost(row: Mapping[str, Any]) -> str:
    """Return the cost of a finding and what share of the time it is; empty if unknown."""
    if row["cost_ns"] is None:
        return ""
    cost = brief_duration(row["cost_ns"])
    return f"{cost} ({sentence_percent(row['cost_pct'])} of {row['cost_of']})" if row["cost_pct"] is not None else cost


def _ops_title(figures: Dashboard) -> str:
    """Return the heading of the ops with their source."""
    if not figures.ops_recorded:
        return f"{OPS.title} (inferred from kernel names)"
    if not figures.ops_inferred:
        return f"{OPS.title} (recorded; GPU self time)"
    sessions = figures.ops_recorded + figures.ops_inferred
    return f"{OPS.title} (recorded in {figures.ops_recorded} of {sessions} sessions, else inferred from kernel names)"


def _tool_table(rows: pl.DataFrame) -> TableSpec:
    """Return the table of the tool's figures, headed by the tool's name."""
    tools = ", ".join(rows["tool"].drop_nulls().unique(maintain_order=True).to_list())
    return replace(TOOL, title=f"Reported by {plain(tools)}") if tools else TOOL
