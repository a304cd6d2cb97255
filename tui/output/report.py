"""The views without a screen: the same numbers, from the same functions, as text, Markdown or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.inputs.capabilities import OK
from tui.analysis.inputs.capabilities import views as capabilities
from tui.analysis.inputs.replayed import replayed_sessions
from tui.analysis.iterations import tables as iterations
from tui.analysis.iterations.aggregation import words
from tui.analysis.ops import claimed, trees
from tui.analysis.ranks import tables as ranks
from tui.analysis.ranks.clocks import clocks
from tui.fmt import count, duration, metric
from tui.model.columns import ColumnKind
from tui.output.export import json_line, markdown_cell, markdown_table
from tui.output.report_views import VIEWS, Table, TableView
from tui.output.text_table import WrittenColumn, laid_out, written
from tui.query.telling import weighed, worth_showing
from tui.text import plain

if TYPE_CHECKING:
    from tui.model.profile import Profile
    from tui.model.view import TableSpec


OF_ITERATIONS: Final = frozenset({"iterations", "kernels-by-iteration", "kernels-by-op"})
"""Views that say how iterations were found."""


TREE: Final = {"parent", "level"}
"""Columns of rows that lie in each other: as text, their names are indented."""

MARKDOWN_WIDTH: Final = 100
"""Characters of a line of what is drawn in Markdown."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a text report is written."""

    width: int
    """Cells of a line."""
    ascii_only: bool = False
    """ASCII characters alone."""
    bold: bool = False
    """Headings are bold, with terminal sequences."""

    def heading(self, text: str) -> str:
        """A heading."""
        safe = plain(text, ascii_only=self.ascii_only)
        return f"\x1b[1m{safe}\x1b[0m" if self.bold else safe

    def wrapped(self, text: str, *, first: str = "", indent: str = "") -> list[str]:
        """A text of a profile or of ours in lines that fit."""
        return textwrap.wrap(
            plain(text, ascii_only=self.ascii_only),
            max(self.width, len(indent) + 20),
            initial_indent=first or indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )


def view_of(profile: Profile, view: str) -> TableView:
    """A view with the table that suits the profile."""
    shown = VIEWS[view]
    suited = shown.table.spec_for
    return shown if suited is None else replace(shown, table=replace(shown.table, spec=suited(profile)))


def as_text(profile: Profile, view: str, style: Style, *, gpu: str | None = None) -> str:
    """A view as text.

    Args:
        profile: What was read.
        view: One of `VIEWS`.
        style: How to write it.
        gpu: The name of the GPU, as the user gives it.
    """
    shown = view_of(profile, view)
    rows = shown.table.rows(profile, gpu)
    lines = [style.heading(title(profile, shown.table, rows, ascii_only=style.ascii_only)), ""]
    for note in _notes(profile, view):
        lines += [*style.wrapped(note), ""]
    if rows.is_empty():
        lines += style.wrapped(_why_empty(profile, shown))
    elif view == "issues":
        lines += issue_lines(rows, style)
    else:
        if shown.picture is not None:
            lines += [*shown.picture(profile, style), ""]
        lines += table_lines(shown.table.spec, rows, style)
    for table, others in _others(profile, shown, gpu):
        lines += ["", style.heading(table.spec.title), "", *table_lines(table.spec, others, style)]
    return "\n".join(lines) + "\n"


def as_markdown(profile: Profile, view: str, *, gpu: str | None = None) -> str:
    """A view as Markdown."""
    shown = view_of(profile, view)
    rows = shown.table.rows(profile, gpu)
    text = f"## {title(profile, shown.table, rows)}\n\n"
    text += "".join(f"{markdown_cell(note)}\n\n" for note in _notes(profile, view))
    if shown.picture is not None and rows.height:
        text += "\n".join(["```text", *shown.picture(profile, Style(MARKDOWN_WIDTH)), "```", "", ""])
    text += f"{_why_empty(profile, shown)}\n" if rows.is_empty() else table_markdown(shown.table.spec, rows)
    for table, others in _others(profile, shown, gpu):
        text += f"\n### {table.spec.title}\n\n{table_markdown(table.spec, others)}"
    return text


def _others(profile: Profile, view: TableView, gpu: str | None) -> Iterator[tuple[Table, pl.DataFrame]]:
    """The further tables of a view that have rows."""
    for table in view.others:
        rows = table.rows(profile, gpu)
        if rows.height:
            yield table, rows


def as_json(profile: Profile, view: str, *, gpu: str | None = None) -> str:
    """A view as one JSON object on a line: ``view``, ``sources``, ``rows``, and further tables by their names."""
    shown = view_of(profile, view)
    content: dict[str, Any] = {"view": view, "sources": list(profile.sources)}
    if profile.partial:
        content["partial"] = profile.partial
    if words(profile):
        content["aggregation"] = words(profile)
    if view in OF_ITERATIONS:
        content["sources"] = {
            str(session): iterations.reasons(profile).get(session, source)
            for session, source in iterations.sources(profile).items()
        }
    content["rows"] = json_rows(shown.table.rows(profile, gpu))
    content |= {table.spec.name: json_rows(table.rows(profile, gpu)) for table in shown.others}
    return json_line(content)


def json_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows as objects; what is not a number in JSON (NaN, infinity) is null."""
    finite = pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64))
    return rows.with_columns(finite).to_dicts()


def table_lines(spec: TableSpec, rows: pl.DataFrame, style: Style, *, notes: bool = True) -> list[str]:
    """A table as lines of text.

    Args:
        spec: Its columns.
        rows: Its rows, at least one.
        style: How to write it.
        notes: Say which columns are left out, and why.
    """
    _shown, unknown = worth_showing(spec, rows)
    texts = _written(spec, rows, ascii_only=style.ascii_only)
    table = laid_out(texts, name=spec.pinned, width=style.width, ascii_only=style.ascii_only)
    lines = list(table.lines)
    if notes and table.left_out:
        lines += style.wrapped(f"No room for: {', '.join(table.left_out)}.")
    if notes and unknown:
        lines += style.wrapped(f"Not in this input: {', '.join(column.title for column in unknown)}.")
    return lines


def table_markdown(spec: TableSpec, rows: pl.DataFrame) -> str:
    """A table as Markdown; the columns that are unknown in every row are left out."""
    texts = _written(spec, rows)
    return markdown_table(
        [column.heading for column in texts],
        [list(cells) for cells in zip(*(column.cells for column in texts), strict=True)],
        [not column.is_text for column in texts],
    )


def _written(spec: TableSpec, rows: pl.DataFrame, *, ascii_only: bool = False) -> list[WrittenColumn]:
    """The columns worth showing as texts; each metric in a unit of its own, which then needs no column."""
    if set(rows.columns) >= TREE:
        before = pl.lit("  ").repeat_by(pl.col("level") - 1).list.join("")
        rows = rows.with_columns(pl.concat_str(before, spec.pinned).alias(spec.pinned))
    telling = {column.name for column in worth_showing(spec, rows)[0]}
    columns = [column for column in weighed(spec, rows) if column.name in telling]
    texts = written(columns, rows, ascii_only=ascii_only)
    measures = [text for text in texts if text.column.kind is ColumnKind.MEASURE]
    if not measures:
        return texts
    units = [None if unit is None else plain(unit, ascii_only=ascii_only) for unit in rows["unit"].to_list()]
    for index, text in enumerate(texts):
        if text in measures:
            values = zip(rows[text.column.name].to_list(), units, strict=True)
            texts[index] = replace(text, cells=[metric(value, unit, ascii_only=ascii_only) for value, unit in values])
    return [text for text in texts if text.column.name != "unit"]


def issue_lines(rows: pl.DataFrame, style: Style) -> list[str]:
    """Issues as text: sentences do not fit into columns."""
    several = rows["session"].n_unique() > 1
    lines = []
    for row in rows.iter_rows(named=True):
        where = [f"session {row['session']}"] if several and row["session"] is not None else []
        if row["line"] is not None:
            where.append(f"line {row['line']}" + (f", column {row['column']}" if row["column"] else ""))
        lines += style.wrapped(
            (f"{', '.join(where)}: " if where else "") + row["reason"], first=f"{row['severity']:9}", indent=" " * 9
        )
        if row["text"]:
            lines += style.wrapped(row["text"], first=" " * 9 + "| ", indent=" " * 9 + "| ")
    return lines


def title(profile: Profile, table: Table, rows: pl.DataFrame, *, ascii_only: bool = False) -> str:
    """A table's heading with the number of its rows, and their sum where that has a meaning."""
    facts = [f"{count(rows.height)} row{'' if rows.height == 1 else 's'}"]
    if table.summed:
        replayed = replayed_sessions(profile)
        counted = rows.filter(~pl.col("session").is_in(replayed))
        total = counted[table.spec.weight].sum() if counted[table.spec.weight].count() else None
        without = f" without session {', '.join(map(str, replayed))}" if counted.height < rows.height else ""
        if isinstance(total, int):
            facts.append(duration(total, ascii_only=ascii_only) + without)
    return f"{table.spec.title} ({', '.join(facts)})"


def _notes(profile: Profile, view: str) -> list[str]:
    """What is said before a table: which iterations it is of, and how those were found."""
    notes = [f"Of {words(profile)} only."] if words(profile) else []
    if view in ("op-types", "group-ops", "ops") and (said := claimed.claimed_words(profile)):
        notes.append(f"{said}.")
    if view == "group-ops":
        notes.append(f"Grouped {trees.first_tree(profile).title}{_sessions_apart(profile)}.{_other_trees(profile)}")
    if view in OF_ITERATIONS:
        reasons = iterations.reasons(profile)
        several = profile["sessions"].height > 1
        notes += [f"Session {session}: {text}." if several else f"{text[:1].upper()}{text[1:]}."
                  for session, text in reasons.items()]  # fmt: skip
    if view in ("gpus", "ranks") and ranks.several_ranks(profile):
        verdict = ranks.straggler_words(profile)
        notes.append(f"{verdict.said[:1].upper()}{verdict.said[1:]}{f': {verdict.how}' if verdict.how else ''}.")
        notes += [f"{clocks(profile).said[:1].upper()}{clocks(profile).said[1:]}."] if view == "ranks" else []
    return notes


def _other_trees(profile: Profile) -> str:
    """The trees that are left out."""
    others = [tree.title for tree in trees.TREES if not tree.why_not(profile) and tree != trees.first_tree(profile)]
    if not others:
        return ""
    words = "tree" if len(others) == 1 else "trees"
    return f" Left out: the {words} {', '.join(others)} (b in Group Ops of the explorer)."


def _sessions_apart(profile: Profile) -> str:
    return ", each session on its own" if profile["sessions"].height > 1 else ""


def _why_empty(profile: Profile, view: TableView) -> str:
    """Why a view has no rows, in words."""
    reason = capabilities(profile).get(view.capability, OK)
    if reason != OK:
        return reason
    return (ranks.why_no_ranks(profile) if view.table.spec is ranks.RANKS else "") or "none"
