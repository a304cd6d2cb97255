"""Reports as one HTML page, for pull requests and colleagues: the dashboard with charts, or the tables of a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.dashboard import GpuTimeUse, iteration_courses_with_uses
from tui.analysis.dashboard_facts import definition
from tui.analysis.devices import peaks_by_device
from tui.analysis.expert.finding_text import percent as sentence_percent
from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import answers, clean_rules, expert_rows, findings_summary, first_findings
from tui.analysis.expert.rule import State
from tui.analysis.gpu_time.breakdown import Category, busy_over_time
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.iterations.times import BarRows, scale_ns
from tui.analysis.notes_table import NOTES
from tui.analysis.roofline import op_work_by_shape
from tui.fmt import brief_duration, count
from tui.model.columns import ColumnKind
from tui.output.check import IfFaster
from tui.output.export import About, profile_name
from tui.output.html_page import (
    BarPart,
    Dot,
    area_svg,
    axis,
    bars,
    color_legend,
    escape_text,
    first_rows,
    html_table,
    log_plot,
    page,
    paragraph,
    plain_table,
    prose,
    stacked_bar,
)
from tui.output.report import (
    PICTURES,
    Style,
    empty_report_reason,
    issue_lines,
    table_heading,
    tables_for,
    tables_with_rows,
    view_notes,
    written_columns,
)
from tui.output.report_annotations import marked_title
from tui.output.report_dashboard import MEANINGS_HEADING, MISSING_HEADING, SPLIT_HEADING, DashboardReport

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.dashboard_facts import Fact
    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec
    from tui.output.report_annotations import MarksReport, NotesReport

USE_COLORS: Final = dict(
    zip(
        GpuTimeUse,
        ("kind-tensor", "kind-other", "kind-unknown", "kind-memory", "kind-memset", "kind-um", "kind-whole"),
        strict=True,
    )
)
_CATEGORIES: Final = ("tensor", "other", "unknown", "memory", "dataloader", "io", "cpu", "idle")
CATEGORY_COLORS: Final = dict(zip(Category, (f"kind-{name}" for name in _CATEGORIES), strict=True))
"""The colors of the categories of wall time, and of the uses of iterations, in the same order."""
GROUPS: Final = 8
"""The number of colors of parts by size."""
MAX_CHARTS: Final = 4
"""The number of sessions or GPUs that are drawn; the tables have all."""
MAX_BARS: Final = 120
"""The maximum number of columns of the chart of iterations; with more iterations, a column is a mean."""
STEPS: Final = 200
"""The number of steps of utilization over time."""
PICTURE_CELLS: Final = 120
MAX_DOTS: Final = 200
"""The maximum number of marks of the roofline; the table has all."""
_BOUND_LABELS: Final = {
    "bound by compute": "kind-tensor",
    "bound by memory": "kind-memory",
    "peak unknown": "kind-unknown",
}
_BOUNDS: Final = dict(zip(("compute", "memory", None), _BOUND_LABELS.values(), strict=True))

Section = tuple[str, str]
"""A heading and the markup below it."""


class HtmlDashboard(DashboardReport):
    """The dashboard as a page: figures, charts, all findings, tables.

    Args:
        profile: The profile.
    """

    def as_html(self, annotations: Sequence[Section] = ()) -> str:
        """Return the page.

        Args:
            annotations: From `annotation_sections`, where they are asked for.
        """
        sections = [
            ("Performance summary", self._figures_markup()),
            ("Where the time goes", self._charts()),
            (
                f"Findings ({self._advice.summary})",
                findings_markup(self._profile, findings(self._profile)),
            ),
            *((part.spec.title, table_markup(part.spec, part.rows)) for part in self._sections_with_rows()),
            *annotations,
            ("System configuration", _facts_table((fact.label, fact.written()) for fact in self._figures.system)),
            ("Issues", self._issues_markup()),
            (MISSING_HEADING, self._missing()),
            (MEANINGS_HEADING, self._meanings()),
        ]
        return _page(self._profile, sections, self._notes())

    def _notes(self) -> list[str]:
        figures = self._figures
        notes = [f"Restricted to {self._iterations}."] if self._iterations else []
        notes += [f"Partial results: {figures.partial}."] if figures.partial else []
        return notes + ([f"Note: {figures.left_out}."] if figures.left_out else [])

    def _figures_markup(self) -> str:
        """Return the guidance, the known figures as tiles, and why others are unknown."""
        known_facts = [fact for fact in self._figures.performance if fact.value is not None]
        tiles = "".join(
            f'<div title="{escape_text(f"{fact.written()}. {definition(fact.name).means}")}">'
            f"<dt>{escape_text(fact.label)}</dt><dd>{escape_text(_brief(fact))}</dd></div>"
            for fact in known_facts
        )
        labels_by_reason: dict[str, list[str]] = {}
        for fact in self._figures.performance:
            if fact.value is None:
                labels_by_reason.setdefault(fact.source, []).append(fact.label)
        reasons = "".join(
            paragraph(f"Unknown: {', '.join(labels)} ({reason}).", muted=True)
            for reason, labels in labels_by_reason.items()
        )
        start = f'<p class="start">{escape_text(self._advice.guidance)}</p>\n' if self._advice.guidance else ""
        return f'{start}<dl class="figures">{tiles}</dl>\n{reasons}'

    # --- charts ------------------------------------------------------------------------------------------------------

    def _charts(self) -> str:
        return "".join(
            f"<h3>{escape_text(heading)}</h3>\n{markup}"
            for heading, markup in (
                *(*self._wall_time(), *self._utilization(), *self._iteration_charts(), *self._work()),
                ("Roofline", roofline_plot(self._profile)),
            )
            if markup
        )

    def _wall_time(self) -> Iterator[tuple[str, str]]:
        rows = next(part.rows for part in self._sections if part.spec.name == "breakdown")
        for index, ((session,), session_rows) in enumerate(
            rows.partition_by("session", as_dict=True, maintain_order=True).items()
        ):
            if index == MAX_CHARTS:
                yield "", paragraph("For the other sessions, see the table of the wall time.", muted=True)
                return
            parts = [
                BarPart(
                    row["category"],
                    row["time_ns"],
                    f"{brief_duration(row['time_ns'])}, {sentence_percent(row['wall_pct'])}",
                    CATEGORY_COLORS[Category(row["category"])],
                )
                for row in session_rows.drop_nulls("time_ns").iter_rows(named=True)
            ]
            unknown_categories = session_rows.filter(session_rows["time_ns"].is_null())["category"].to_list()
            note = (
                f"Not recorded: {', '.join(unknown_categories)}. This time counts as Other."
                if unknown_categories
                else ""
            )
            title = f"Wall time{self._session_suffix(session)}: {brief_duration(session_rows['wall_ns'][0])}"
            yield title, stacked_bar(parts, title) + paragraph(note, muted=True)

    def _utilization(self) -> Iterator[tuple[str, str]]:
        gpu_timelines = timelines(self._profile)
        for timeline in gpu_timelines[:MAX_CHARTS]:
            first, last = int(timeline.starts.min()), int(timeline.ends.max())
            shares = busy_over_time(
                self._profile,
                session=timeline.session,
                device=timeline.device,
                first_ns=first,
                last_ns=last,
                bins=STEPS,
            )
            gpu = "GPU" if timeline.device is None else f"GPU {timeline.device}"
            title = f"{gpu} utilization over time{self._session_suffix(timeline.session)}"
            markup = area_svg(shares.tolist(), title, "bar")
            yield title, markup + axis("0", f"{brief_duration(last - first)} (first start to last end)")
        if len(gpu_timelines) > MAX_CHARTS:
            yield "", paragraph(f"{count(len(gpu_timelines) - MAX_CHARTS)} more GPUs are not shown.", muted=True)

    def _iteration_charts(self) -> Iterator[tuple[str, str]]:
        courses = iteration_courses_with_uses(self._profile)
        for course in courses[:MAX_CHARTS]:
            times = course.times
            drawn = BarRows(times).bars(0, times.height, MAX_BARS)
            numbers = times["iteration"].to_list()
            columns: list[list[BarPart]] = []
            legend: dict[str, BarPart] = {}
            for bar in drawn:
                name = f"iteration {numbers[bar.first]}" + (
                    f" to {numbers[bar.last]} (mean)" if bar.last > bar.first else ""
                )
                mean = bar.mean_ns or 0.0
                parts = [BarPart(f"{name}:", 0.0, brief_duration(mean), "kind-whole")]
                if bar.parts_ns:
                    for part_ns, (category, color) in zip(bar.parts_ns, CATEGORY_COLORS.items(), strict=True):
                        if part_ns > 0:
                            parts.append(BarPart(str(category), part_ns, brief_duration(part_ns), color))
                            legend[color] = BarPart(str(category), 0.0, "", color)
                else:
                    parts.append(BarPart("", mean, "", "kind-whole"))
                columns.append(parts)
            spread: dict[str, Any] = course.spread
            scale = 1.05 * scale_ns(drawn)
            title = f"Iterations{self._session_suffix(course.session)}: median {brief_duration(spread['median_ns'])}"
            markup = bars(columns, title, scale=scale, reference=spread["median_ns"])
            ends = (f"iteration {numbers[0]}", f"full height {brief_duration(scale)}", f"iteration {numbers[-1]}")
            in_order = [legend[color] for color in CATEGORY_COLORS.values() if color in legend]
            yield title, markup + axis(*ends) + color_legend(in_order)
        if len(courses) > MAX_CHARTS:
            yield "", paragraph(f"{count(len(courses) - MAX_CHARTS)} more sessions are not shown.", muted=True)

    def _work(self) -> Iterator[tuple[str, str]]:
        """Return the uses of GPU time, and its kinds of work."""
        uses, split = self._figures.gpu_uses, self._figures.split
        colors = [USE_COLORS[GpuTimeUse(use)] for use in uses["use"]]
        groups = [f"group-{index % GROUPS}" for index in range(split.height)]
        for title, names, rows, bar_colors in (
            ("GPU time by use", uses["use"].to_list(), uses, colors),
            (SPLIT_HEADING, split["group"].to_list(), split, groups),
        ):
            parts = [
                BarPart(name, total or 0, _time_and_share(total, share), color)
                for name, total, share, color in zip(
                    names, rows["total_ns"].to_list(), rows["time_pct"].to_list(), bar_colors, strict=True
                )
            ]
            yield title, stacked_bar(parts, title)

    def _session_suffix(self, session: object) -> str:
        return f", session {session}" if self._several else ""

    # --- texts -------------------------------------------------------------------------------------------------------

    def _issues_markup(self) -> str:
        lines = issue_lines(self._worst, Style(PICTURE_CELLS)) if self._worst.height else []
        return paragraph(self._issues()) + _preformatted(lines)

    def _missing(self) -> str:
        rows = [(need.name, need.gives, need.record) for need in self._figures.missing]
        return plain_table(["Not recorded", "Shows", "Record it with"], rows) if rows else ""

    def _meanings(self) -> str:
        known_facts = (fact for fact in self._figures.performance if fact.value is not None)
        return _facts_table((fact.label, fact.formula) for fact in known_facts)


def roofline_plot(profile: Profile) -> str:
    """Return a plot of TFLOP/s over FLOP/byte of the ops with most GPU time, and the roofs of their types."""
    work = op_work_by_shape(profile)
    rows = work.filter(work["flops"] > 0).head(MAX_DOTS)
    gpus = {peaks.name: peaks for peaks in peaks_by_device(profile).values()}
    gpu = next(iter(gpus.values())) if len(gpus) == 1 else None
    if rows.is_empty():
        return ""
    total_ns = rows["gpu_ns"].sum()
    dots = [
        Dot(
            row["flops_per_byte"], row["tflops_per_s"], row["gpu_ns"] / total_ns, _dot_words(row), _BOUNDS[row["bound"]]
        )
        for row in rows.iter_rows(named=True)
    ]
    lines = []
    for name in sorted({name for name in rows["peak"].cast(str) if name}):
        if gpu is None or gpu.bytes_per_s is None or name not in gpu.flops_per_s:
            continue
        peak, bandwidth = gpu.flops_per_s[name] / 1e12, gpu.bytes_per_s / 1e12
        ridge = peak / bandwidth
        first, last = min(ridge, *(dot.x for dot in dots)) / 2, max(4 * ridge, *(dot.x for dot in dots))
        corners = [(first, first * bandwidth), (ridge, peak), (last, peak)]
        lines.append((f"{name} {peak:g} TFLOP/s, {bandwidth:g} TB/s", corners))
    title = "TFLOP/s over FLOP/byte by op and shape; larger marks took more GPU time"
    used_colors = {mark.color for mark in dots}
    entries = [BarPart(label, 0.0, "", color) for label, color in _BOUND_LABELS.items() if color in used_colors]
    note = f"{title}. Inferred from shapes and types; " + (f"peaks: {gpu.source}." if gpu else "peaks unknown.")
    return log_plot(dots, lines, title) + color_legend(entries) + paragraph(note, muted=True)


def _dot_words(row: dict[str, Any]) -> str:
    roof = f", {row['roof_pct']:.0f}% of the roof" if row["roof_pct"] is not None else ""
    time = f"{brief_duration(row['gpu_ns'])} in {count(row['calls'])} calls"
    return f"{row['op']} {row['shapes']}: {row['tflops_per_s']:.3g} TFLOP/s{roof}, {time}"


def findings_markup(profile: Profile, rows: pl.DataFrame) -> str:
    """Return a finding per cause with advice, cost and savings; then inapplicable and clean rules."""
    has_sessions, if_faster, items = profile["sessions"].height > 1, IfFaster(profile), []
    for row in first_findings(rows).iter_rows(named=True):
        severity = row["severity"] or ""
        prefix = f"Session {row['session']}: " if has_sessions and row["session"] is not None else ""
        cost = ""
        if row["cost_ns"] is not None:
            share = f" ({sentence_percent(row['cost_pct'])} of {row['cost_of']})" if row["cost_pct"] is not None else ""
            cost = f"Costs at most {brief_duration(row['cost_ns'])}{share}: {row['cost_basis']}. "
        cause = f"Cause: {row['cause']} ({row['all_rules'].replace(' ', ', ')})." if row["cause"] else ""
        items.append(
            f'<div class="finding {escape_text(severity)}"><b>{escape_text(severity or row["tool"])}</b> '
            f"{prose(prefix + (row['problem'] or ''))}\n{paragraph(row['recommendation'] or '')}"
            f"{paragraph(cost + cause, muted=True)}{paragraph(if_faster.sentence(row), muted=True)}</div>\n"
        )
    for row in answers(rows).iter_rows(named=True):
        prefix = f"Session {row['session']}: " if has_sessions and row["session"] is not None else ""
        items.append(f'<div class="finding"><b>clean</b> {prose(prefix + row["message"])}</div>\n')
    shown = expert_rows(rows, unfolded=True)
    reasons = shown.filter(shown["state"] == State.NOT_APPLICABLE.value)
    clean = clean_rules(rows)
    folded = ""
    if reasons.height:
        reason_rows = [(row["message"] or "", row["all_rules"] or "") for row in reasons.iter_rows(named=True)]
        folded += f"<details><summary>Not applicable</summary>{plain_table(['Why', 'Rules'], reason_rows)}</details>\n"
    if clean:
        folded += f"<details><summary>Clean</summary>{paragraph(' '.join(clean))}</details>\n"
    return "".join(items) + folded


def view_html(profile: Profile, report: str, *, annotations: Sequence[Section] = ()) -> str:
    """Return the tables of a view as a page.

    Args:
        profile: The profile.
        report: One of `tui.tables.REPORTS`.
        annotations: From `annotation_sections`, where they are asked for.
    """
    main, *others = tables_for(profile, report)
    rows = main.rows(profile)
    body = paragraph(empty_report_reason(profile, report))
    if rows.height:
        picture = PICTURES[report](profile, Style(PICTURE_CELLS)) if report in PICTURES else []
        body = _preformatted(picture) + table_markup(main.table_spec(profile), rows)
        body = (roofline_plot(profile) if report == "roofline" else "") + body
    further_tables = [
        (spec.title, table_markup(spec, further_rows)) for spec, further_rows in tables_with_rows(profile, others)
    ]
    return _page(
        profile,
        [(table_heading(profile, main, rows), body), *further_tables, *annotations],
        view_notes(profile, report),
    )


def findings_html(profile: Profile, *, annotations: Sequence[Section] = ()) -> str:
    """Return all findings as a page."""
    rows = findings(profile)
    sections = [(f"Findings ({findings_summary(rows)})", findings_markup(profile, rows)), *annotations]
    return _page(profile, sections, view_notes(profile, "findings"))


def notes_html(profile: Profile, notes: NotesReport) -> str:
    """Return the user's notes as a page."""
    return _page(profile, annotation_sections(notes, None) or [("Notes", paragraph("none"))], [])


def annotation_sections(notes: NotesReport, marks: MarksReport | None) -> list[Section]:
    """Return the user's notes and marked rows as sections of a page."""
    sections = [("Notes", table_markup(NOTES, notes.rows))] if notes.rows.height else []
    if marks is not None:
        sections += [(marked_title(marked), table_markup(marked.spec, marked.rows)) for marked in marks.marked]
        remarks = "".join(paragraph(note, muted=True) for note in marks.remarks)
        sections += [("Marked rows", remarks)] if remarks else []
    return sections


def table_markup(spec: TableSpec, rows: pl.DataFrame) -> str:
    """Return a table with the columns and texts of the other formats."""
    if rows.is_empty():
        return ""
    shown, omitted_note = first_rows(rows)
    return html_table(written_columns(spec, shown), shown, pinned=spec.pinned) + paragraph(omitted_note, muted=True)


def _time_and_share(time_ns: int | None, share_pct: float | None) -> str:
    time = brief_duration(time_ns)
    return time if share_pct is None else f"{time}, {sentence_percent(share_pct)}"


def _page(profile: Profile, sections: Iterable[Section], notes: Iterable[str]) -> str:
    about = About(profile_name(profile.sources), "")
    lead = "".join(paragraph(note, muted=True) for note in (_recording(profile), *notes))
    return page(about.profile, sections, lead=lead, footer=about.date)


def _recording(profile: Profile) -> str:
    """Return the GPUs and the tool, as far as they are recorded."""
    devices = profile["devices"]
    # Each rank can record every GPU of its host.
    busy = devices.join(profile["activities"], on=("session", "device"), how="semi", nulls_equal=True)
    gpus = (busy if busy.height else devices)["name"].drop_nulls().value_counts(sort=True)
    named = [name if number == 1 else f"{number} × {name}" for name, number in gpus.rows()]
    tools = profile["sessions"]["tool"].drop_nulls().unique(maintain_order=True).to_list()
    sessions = profile["sessions"].height
    return ", ".join([*named, *tools, *([f"{count(sessions)} sessions"] if sessions > 1 else [])])


def _brief(fact: Fact) -> str:
    """Return the value of a figure with three digits."""
    if fact.kind is ColumnKind.DURATION and isinstance(fact.value, int | float):
        return brief_duration(fact.value)
    if fact.kind is ColumnKind.PERCENT and isinstance(fact.value, int | float):
        return sentence_percent(fact.value)
    return fact.written()


def _facts_table(facts: Iterable[tuple[str, str]]) -> str:
    rows = list(facts)
    return plain_table((), rows) if rows else ""


def _preformatted(lines: Sequence[str]) -> str:
    shown = "\n".join(escape_text(line) for line in lines)
    return f"<pre>{shown}</pre>\n" if shown else ""
