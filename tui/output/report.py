"""Reports: the same numbers as the screens, from the same functions, as text, Markdown or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis import rank_summary as ranks
from tui.analysis.capabilities import OK
from tui.analysis.capabilities import views as capabilities
from tui.analysis.collectives import clock_alignment
from tui.analysis.iterations import iteration_table as iterations
from tui.analysis.iterations.chosen_iterations import iterations_text
from tui.analysis.ops import ops_by_name
from tui.analysis.sessions import replayed_sessions
from tui.fmt import duration, metric
from tui.model.columns import ColumnKind
from tui.output.export import markdown_cell, markdown_table
from tui.output.json_document import Bounds, JsonTable, document, document_head
from tui.output.text_table import WrittenColumn, lay_out_table, write_columns
from tui.query.facts import informative_columns, prioritize
from tui.tables import Table, tables_of_report, view_of_report
from tui.text import begin_sentence, plain, plural
from tui.text_width import cell_width, pad

if TYPE_CHECKING:
    from tui.analysis.timeline.shown import ShownLanes
    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec


ITERATION_REPORTS: Final = frozenset({"iterations", "kernels-by-iteration", "kernels-by-op"})
"""Views that show how iterations were found."""


TREE: Final = {"parent", "level"}
"""Columns of trees: as text, their names are indented."""

MARKDOWN_WIDTH: Final = 100
"""The width of drawings in Markdown."""


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a text report."""

    width: int
    """Cells of a line."""
    bold: bool = False
    """Headings are bold, with terminal sequences."""

    def heading(self, text: str) -> str:
        """Return a heading."""
        safe = plain(text)
        return f"\x1b[1m{safe}\x1b[0m" if self.bold else safe

    def wrapped(self, text: str, *, first: str = "", indent: str = "") -> list[str]:
        """Wrap a text of a profile or of the program."""
        return textwrap.wrap(
            plain(text),
            max(self.width, len(indent) + 20),
            initial_indent=first or indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )


MAX_LANES: Final = 40
"""The most lanes of a session in a picture; the deepest ranges and ops are dropped first."""
MAX_LABEL: Final = 0.35
MIN_CELLS: Final = 20


def lane_picture(profile: Profile, style: Style) -> list[str]:
    """Draw the lanes as on the screen, in the width of the report; one picture per incomparable session."""
    from tui.analysis.timeline.shown import shown_lanes  # Imported here: other reports need no timeline.

    shown = shown_lanes(profile)
    if not shown.lanes:
        return []
    lines = _drawn_lanes(profile, shown, style)
    for session in shown.sessions:
        if session not in shown.shifts:
            lines += ["", *_drawn_lanes(profile, shown_lanes(profile, session), style)]
    return lines


def _drawn_lanes(profile: Profile, shown: ShownLanes, style: Style) -> list[str]:
    from tui.analysis.timeline.drawing import integer_percent, lane_cells, legend
    from tui.analysis.timeline.lookup import item_name
    from tui.analysis.timeline.shown import fit_label, fitting_lanes, iteration_marks, lane_label
    from tui.analysis.timeline.window import full_window, place_labels, ruler

    lane_indices = fitting_lanes(shown.lanes, MAX_LANES)[:MAX_LANES]
    labels, previous_lane = [], None
    for index in lane_indices:
        lane = shown.lanes[index]
        label = lane_label(lane, previous_lane)
        has_session_prefix = len(shown.shifts) > 1 and not label.startswith(" ")
        labels.append(plain(f"{lane.session}: {label}" if has_session_prefix else label))
        previous_lane = lane
    room = min(max(map(cell_width, labels)), int(style.width * MAX_LABEL))
    cells = max(MIN_CELLS, style.width - room - 6)
    window = full_window(shown.begin_ns, shown.window_end_ns, cells, min_cell_ns=shown.resolution_ns)
    lines = [*style.wrapped(shown.note)] if shown.note else []
    lines.append(_lane_line("", "", place_labels(ruler(window).ticks, cells), room))
    session = shown.lanes[lane_indices[0]].session
    iteration_starts = iteration_marks(profile, session, shown.shifts[session])
    marks = [(window.cell_at(time_ns), text) for time_ns, text in iteration_starts if text]
    if marks:
        lines.append(_lane_line("iterations", "", place_labels(marks, cells), room))
    for index, label in zip(lane_indices, labels, strict=True):
        lane = shown.lanes[index]
        edges = window.edges() - shown.shifts[lane.session]
        drawn = lane_cells(lane, edges, partial(item_name, profile, lane))
        share = integer_percent(lane.segments.length_ns, shown.end_ns - shown.begin_ns)
        shown_words = fit_label(label, lane.tid, room)
        lines.append(_lane_line(shown_words, share, drawn.texts, room))
    entries = legend(shown.lanes[index] for index in lane_indices)
    lines += style.wrapped("  ".join(f"{glyph} {label}" for _look, glyph, label in entries))
    omitted = len(shown.lanes) - len(lane_indices)
    if omitted:
        lines += style.wrapped(f"Not shown: {omitted} more lanes of nested ranges and ops, or of other threads.")
    return lines


def _lane_line(label: str, share: str, cells: list[str], room: int) -> str:
    return f"{pad(label, room)} {pad(share, 4, right=True)} {''.join(cells)}".rstrip()


PICTURES: Final = {"timeline": lane_picture}
"""The drawings above the tables of a report."""


ALLOCATOR_TABLES: Final = frozenset(
    {"memory_devices", "memory_peak", "memory_allocations", "segments_held", "allocators", "allocator_iterations"}
)
"""Tables of the memory report about the framework's allocator."""


def tables_for(profile: Profile, report: str) -> tuple[Table, ...]:
    """Return the tables of a report; for a memory snapshot, those of the allocator."""
    tables = tables_of_report(report)
    if report == "memory" and profile["memory_segments"].height and profile["activities"].is_empty():
        return tuple(table for table in tables if table.name in ALLOCATOR_TABLES)
    return tables


def as_text(profile: Profile, report: str, style: Style) -> str:
    """Return a report as text.

    Args:
        profile: The profile.
        report: One of `tui.tables.REPORTS`.
        style: The style of the text.
    """
    main, *others = tables_for(profile, report)
    spec, rows = main.table_spec(profile), main.rows(profile)
    lines = [style.heading(table_heading(profile, main, rows)), ""]
    for note in view_notes(profile, report):
        lines += [*style.wrapped(note), ""]
    if rows.is_empty():
        lines += style.wrapped(empty_report_reason(profile, report))
    elif report == "issues":
        lines += issue_lines(rows, style)
    else:
        if report in PICTURES:
            lines += [*PICTURES[report](profile, style), ""]
        lines += table_lines(spec, rows, style)
    for table, other_rows in tables_with_rows(profile, others):
        lines += ["", style.heading(table.title), "", *table_lines(table, other_rows, style)]
    return "\n".join(lines) + "\n"


def as_markdown(profile: Profile, report: str) -> str:
    """Return a report as Markdown."""
    main, *others = tables_for(profile, report)
    rows = main.rows(profile)
    text = f"## {table_heading(profile, main, rows)}\n\n"
    text += "".join(f"{markdown_cell(note)}\n\n" for note in view_notes(profile, report))
    if report in PICTURES and rows.height:
        text += "\n".join(["```text", *PICTURES[report](profile, Style(MARKDOWN_WIDTH)), "```", "", ""])
    if rows.is_empty():
        text += f"{empty_report_reason(profile, report)}\n"
    else:
        text += table_markdown(main.table_spec(profile), rows)
    for spec, other_rows in tables_with_rows(profile, others):
        text += f"\n### {spec.title}\n\n{table_markdown(spec, other_rows)}"
    return text


def tables_with_rows(profile: Profile, tables: list[Table]) -> Iterator[tuple[TableSpec, pl.DataFrame]]:
    """Yield the tables that have rows."""
    for table in tables:
        rows = table.rows(profile)
        if rows.height:
            yield table.table_spec(profile), rows


def as_json(profile: Profile, report: str, *, bounds: Bounds | None = None) -> str:
    """Return a report as one JSON object on a line: ``rows``, and further tables by name."""
    main, *others = tables_for(profile, report)
    fields = document_head("report", profile, view=report)
    if report in ITERATION_REPORTS:
        fields["iteration_sources"] = {
            str(session): iterations.reasons(profile).get(session, source)
            for session, source in iterations.sources(profile).items()
        }
    tables = {"rows": main} | {table.table_spec().name: table for table in others}
    tables_by_name = {
        name: JsonTable(table.rows(profile), table.table_spec(profile).key) for name, table in tables.items()
    }
    return document(fields, tables_by_name, bounds)


def table_lines(spec: TableSpec, rows: pl.DataFrame, style: Style, *, notes: bool = True) -> list[str]:
    """Return a table as lines of text.

    Args:
        spec: Its columns.
        rows: Its rows, at least one.
        style: The style of the text.
        notes: Name the columns that are omitted, and why.
    """
    _shown, unknown_columns = informative_columns(spec, rows)
    texts = written_columns(spec, rows)
    table = lay_out_table(texts, name=spec.pinned, width=style.width)
    lines = list(table.lines)
    if notes and table.left_out:
        lines += style.wrapped(f"Columns omitted: {', '.join(table.left_out)}.")
    if notes and unknown_columns:
        lines += style.wrapped(f"Not recorded: {', '.join(column.title for column in unknown_columns)}.")
    return lines


def table_markdown(spec: TableSpec, rows: pl.DataFrame) -> str:
    """Return a table as Markdown, without columns that are unknown in every row."""
    texts = written_columns(spec, rows)
    return markdown_table(
        [column.heading for column in texts],
        [list(cells) for cells in zip(*(column.cells for column in texts), strict=True)],
        [not column.is_text for column in texts],
    )


def written_columns(spec: TableSpec, rows: pl.DataFrame) -> list[WrittenColumn]:
    """Return the informative columns as texts; each metric has its own unit, so the unit column is dropped."""
    if set(rows.columns) >= TREE:
        indent = pl.lit("  ").repeat_by(pl.col("level") - 1).list.join("")
        rows = rows.with_columns(pl.concat_str(indent, spec.pinned).alias(spec.pinned))
    informative = {column.name for column in informative_columns(spec, rows)[0]}
    columns = [column for column in prioritize(spec, rows) if column.name in informative]
    texts = write_columns(columns, rows)
    measures = [text for text in texts if text.column.kind is ColumnKind.MEASURE]
    if not measures:
        return texts
    units = [None if unit is None else plain(unit) for unit in rows["unit"].to_list()]
    for index, text in enumerate(texts):
        if text in measures:
            values = zip(rows[text.column.name].to_list(), units, strict=True)
            texts[index] = replace(text, cells=[metric(value, unit) for value, unit in values])
    return [text for text in texts if text.column.name != "unit"]


def issue_lines(rows: pl.DataFrame, style: Style) -> list[str]:
    """Return issues as lines of text: sentences do not fit into columns."""
    has_sessions = rows["session"].n_unique() > 1
    lines = []
    for row in rows.iter_rows(named=True):
        location = [f"session {row['session']}"] if has_sessions and row["session"] is not None else []
        if row["line"] is not None:
            location.append(f"line {row['line']}" + (f", column {row['column']}" if row["column"] else ""))
        lines += style.wrapped(
            (f"{', '.join(location)}: " if location else "") + row["reason"],
            first=f"{row['severity']:9}",
            indent=" " * 9,
        )
        if row["text"]:
            lines += style.wrapped(row["text"], first=" " * 9 + "| ", indent=" " * 9 + "| ")
    return lines


def table_heading(profile: Profile, table: Table, rows: pl.DataFrame) -> str:
    """Return a table's heading with the number of rows, and their sum if it is meaningful."""
    spec = table.table_spec(profile)
    facts = [plural(rows.height, "row")]
    if table.is_summed:
        replayed = replayed_sessions(profile)
        counted = rows.filter(~pl.col("session").is_in(replayed))
        total = counted[spec.weight].sum() if counted[spec.weight].count() else None
        exclusion = f" without session {', '.join(map(str, replayed))}" if counted.height < rows.height else ""
        if isinstance(total, int):
            facts.append(duration(total) + exclusion)
    return f"{spec.title} ({', '.join(facts)})"


def view_notes(profile: Profile, view: str) -> list[str]:
    """Return the notes above a table: its iterations, and how they were found."""
    notes = [f"Restricted to {iterations_text(profile)}."] if iterations_text(profile) else []
    if view in ("op-types", "group-ops", "ops") and (note := ops_by_name.coverage_note(profile)):
        notes.append(f"{note}.")
    if view == "group-ops":
        notes.append(_grouping_note(profile))
    if view in ITERATION_REPORTS:
        reasons = iterations.reasons(profile)
        has_sessions = profile["sessions"].height > 1
        notes += [f"Session {session}: {text}." if has_sessions else f"{text[:1].upper()}{text[1:]}."
                  for session, text in reasons.items()]  # fmt: skip
    if view in ("gpus", "ranks") and ranks.has_several_ranks(profile):
        verdict = ranks.straggler_verdict(profile)
        notes.append(
            f"{verdict.sentence[:1].upper()}{verdict.sentence[1:]}."
            + (f" {verdict.method[:1].upper()}{verdict.method[1:]}." if verdict.method else "")
        )
        notes += (
            [f"{clock_alignment(profile).sentence[:1].upper()}{clock_alignment(profile).sentence[1:]}."]
            if view == "ranks"
            else []
        )
    return notes


def _grouping_note(profile: Profile) -> str:
    """Return a note on the grouping of Group Ops, and the trees that are omitted."""
    from tui.analysis.ops.op_trees import TREES, first_tree  # Imported here: other reports need no trees.

    first = first_tree(profile)
    grouped = f"Grouped {first.title}{', separately for each session' if profile['sessions'].height > 1 else ''}."
    others = [tree.title for tree in TREES if not tree.unavailable_reason(profile) and tree != first]
    if not others:
        return grouped
    noun = "tree" if len(others) == 1 else "trees"
    return f"{grouped} Other {noun}: {', '.join(others)} (. in Group Ops)."


def empty_report_reason(profile: Profile, report: str) -> str:
    """Return why a report has no rows."""
    if report == "ranks":
        return begin_sentence(ranks.missing_ranks_reason(profile) or "none")
    reason = capabilities(profile).get(view_of_report(report), OK)
    return begin_sentence("none" if reason == OK else reason)
