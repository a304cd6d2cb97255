"""Two profiles compared, as text, Markdown or JSON, with PASS, FAIL or NO CHANGE and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.compare.changes import (
    CHANGED_API,
    CHANGED_FINDINGS,
    CHANGED_KERNELS,
    CHANGED_LAYERS,
    CHANGED_OPS,
    COMPARE_TABLES,
    NEW,
    REMOVED,
    SIMILAR,
    SIMILAR_NAMES_NOTE,
    memory_sentence,
    ops_compared_separately,
)
from tui.analysis.compare.headline import (
    DEFAULT_PCT,
    ITERATION_FIGURE,
    MIN_SPREAD,
    UNCHANGED_PCT,
    Judgment,
    headline,
    iteration_spread,
    judge,
    unknown_sentences,
    verdict_sentences,
)
from tui.analysis.ops.op_type_rules import UNKNOWN
from tui.fmt import brief_change, count, duration, format_value, signed
from tui.labels import distinct_symbols
from tui.model.columns import ColumnKind
from tui.model.errors import ProftuiError
from tui.output.export import markdown_cell, markdown_table
from tui.output.json_document import Bounds, JsonTable, document, document_head, source_facts
from tui.output.report import table_lines, table_markdown
from tui.output.text_table import GAP, align_columns
from tui.text import plain
from tui.text_width import shorten_symbol

if TYPE_CHECKING:
    from tui.analysis.compare.changes import CompareTable
    from tui.analysis.compare.headline import Figure
    from tui.analysis.compare.sides import Sides
    from tui.model.table_spec import TableSpec
    from tui.output.report import Style


MAX_NAME: Final = 60
"""The maximum width of a name in a sentence and in Markdown."""
_GROWING: Final = {
    CHANGED_KERNELS.name: "kernel",
    CHANGED_OPS.name: "op",
    CHANGED_API.name: "API call",
    CHANGED_LAYERS.name: "layer",
}


def no_judgment(sides: Sides) -> ProftuiError:
    """Return the text for a comparison without a verdict."""
    if sides.partial_sentence and not sides.per_iteration:
        return ProftuiError(
            "no verdict: part of a run is missing, and times of whole runs are not comparable",
            f"{sides.partial_sentence} Record again, or compare iterations",
        )
    return ProftuiError(
        "no verdict: the profiles have no common time to compare",
        "both need iterations, a time span or GPU time; proftui inspect shows their contents",
    )


def verdict(
    judgment: Judgment,
    sides: Sides,
    figures: Sequence[Figure],
    tables: Sequence[tuple[TableSpec, pl.DataFrame]],
) -> tuple[str, ...]:
    """Return lines about the judged figure, other times that are longer, and what grew.

    Args:
        judgment: From `tui.analysis.compare.headline.judge`.
        sides: The two sides.
        figures: From `tui.analysis.compare.headline.headline`.
        tables: The changes, by kind of row.
    """
    baseline, candidate, _, share = figure_cells(judgment.figure)
    change = f"{judgment.outcome}: {judgment.figure.sentence_label} {baseline} to {candidate} ({share})"
    lines = [f"{change}; limit +{judgment.limit_pct:g}%"]
    if judgment.figure.name == ITERATION_FIGURE:
        lines.append(_spread(judgment, sides))
    if judgment.others:
        longer = ", ".join(f"{figure.sentence_label} ({figure_cells(figure)[3]})" for figure in judgment.others)
        lines.append(f"also longer by more than {judgment.limit_pct:g}%: {longer}")
    is_faster = (judgment.figure.delta_pct or 0) <= -UNCHANGED_PCT
    cause = _idle(judgment, sides, figures) or _largest_change_sentence(sides, tables, is_faster=is_faster)
    return (*lines, *filter(None, (cause, _offsetting_changes(sides, tables))))


def _idle(judgment: Judgment, sides: Sides, figures: Sequence[Figure]) -> str:
    """Return how much longer the GPU is idle, if the time grew although GPU work shrank; else empty."""
    by_name = {figure.name: figure for figure in figures}
    work, idle = by_name.get("gpu_ns"), by_name.get("idle_ns")
    if work is None or (work.delta_pct or 0) > -UNCHANGED_PCT or (judgment.figure.delta_pct or 0) < UNCHANGED_PCT:
        return ""
    if idle is None or idle.delta is None:
        return ""
    per = " per iteration" * sides.per_iteration
    idle_text = brief_change(idle.baseline, idle.candidate)
    return f"GPU idle {idle_text}{per}: GPU work shrank, and the time was lost between kernels"


def figure_cells(figure: Figure) -> tuple[str, str, str, str]:
    """Return baseline, candidate, difference and relative difference; the last is empty if there is none."""
    pct = figure.delta_pct
    share = "" if pct is None else signed(format_value(ColumnKind.PERCENT, pct), pct)
    texts = (*figure.texts, share)
    baseline, candidate, delta, share = (plain(text) for text in texts)
    return baseline, candidate, delta, share


def _spread(judgment: Judgment, sides: Sides) -> str:
    """Return the spread of iterations on each side, and whether the difference is within it."""
    spreads = {"baseline": iteration_spread(sides.a), "candidate": iteration_spread(sides.b)}
    too_few = [
        f"{count(spread.iterations)} {side_name}" for side_name, spread in spreads.items() if spread.low_ns is None
    ]
    if too_few:
        return f"too few iterations to estimate noise ({', '.join(too_few)}; {MIN_SPREAD} needed)"
    halves = ", ".join(
        f"{side_name} {duration(spread.low_ns)} to {duration(spread.high_ns)}" for side_name, spread in spreads.items()
    )
    noise = spreads["baseline"].overlaps(spreads["candidate"]) and judgment.figure.delta != 0
    overlap = "; they overlap, so the difference may be noise" if noise else ""
    return f"25th to 75th percentile of the iterations: {halves}{overlap}"


def _offsetting_changes(sides: Sides, tables: Sequence[tuple[TableSpec, pl.DataFrame]]) -> str:
    """Return the total increase and decrease of GPU work if one hides the other."""
    changed = next(rows["delta_ns"].drop_nulls().to_list() for spec, rows in tables if spec is CHANGED_KERNELS)
    longer, shorter = [delta for delta in changed if delta > 0], [delta for delta in changed if delta < 0]
    if not longer or not shorter:
        return ""
    per = " per iteration" * sides.per_iteration
    increase, decrease = (f"{count(len(deltas))} took {duration(abs(sum(deltas)))}" for deltas in (longer, shorter))
    return f"of kernels, copies and memsets, {increase} more{per}, {decrease} less"


def _largest_change_sentence(sides: Sides, tables: Sequence[tuple[TableSpec, pl.DataFrame]], *, is_faster: bool) -> str:
    """Return the largest increase of each kind, or decrease if the total is faster; empty if there is none."""
    texts = []
    for spec, rows in tables:
        if spec.name in _GROWING:
            delta = rows["delta_ns"]
            changed = rows.filter(delta < 0 if is_faster else delta > 0)
            # Ops without a name are uninformative; kernels are not.
            for row in changed.filter(pl.col(spec.pinned).cast(pl.String) != UNKNOWN).head(1).iter_rows(named=True):
                name = shorten_symbol(plain(row[spec.pinned]), MAX_NAME)
                pct = row["delta_pct"]
                share = "" if pct is None else signed(format_value(ColumnKind.PERCENT, pct), pct)
                change = signed(duration(row["delta_ns"]), row["delta_ns"])
                noun = row.get("kind") or _GROWING[spec.name]
                note = row["change"] or share
                texts.append(f"{noun} {name} {change}" + (f" ({note})" if note else ""))
    changes = "largest decreases" if is_faster else "largest increases"
    return f"{changes}{' per iteration' * sides.per_iteration}: {'; '.join(texts)}" if texts else ""


ROWS: Final = 15
"""The number of rows of each table in text and Markdown; JSON has all."""
HEADINGS: Final = ("Baseline", "Candidate", "Diff", "Diff%")
_FIGURE: Final = pl.Schema(
    {
        "name": pl.String,
        **dict.fromkeys(("baseline", "candidate", "delta", "delta_pct"), pl.Float64),
        "unknown_reason": pl.String,
    }
)
"""Of a figure that summarizes a profile: nanoseconds, percent or a number of things, by its name; and why a side
of it is unknown, or what it omits."""


class Diff:
    """A comparison, and its output formats.

    Args:
        sides: The two sides.
        tolerant: Also match kernels, ops and API calls whose names differ only by version.
        than_pct: The candidate fails if it is slower by more than this percentage; None: it cannot fail.
    """

    def __init__(self, sides: Sides, *, tolerant: bool = False, than_pct: float | None = None) -> None:
        self.sides = sides
        self.tolerant = tolerant
        self.figures = headline(sides)
        is_comparable = sides.per_iteration or not sides.partial_sentence
        self._shown = judge(self.figures, DEFAULT_PCT if than_pct is None else than_pct) if is_comparable else None
        self.judgment: Judgment | None = None if than_pct is None else self._shown
        """None without a limit, and where the profiles have no time in common."""

    @cached_property
    def _tables(self) -> list[tuple[TableSpec, pl.DataFrame]]:
        """All tables that can have rows."""
        return [
            (part.spec, part.rows(self.sides, self.tolerant))
            for part in COMPARE_TABLES
            if part.can_have_rows(self.sides)
        ]

    @cached_property
    def _sentences(self) -> tuple[str, ...]:
        return verdict_sentences(self.sides, self.figures)

    def table(self, name: str) -> pl.DataFrame:
        """Return one table: all rows, in base units.

        Args:
            name: One of `tui.cli.arguments.DIFF_FRAMES`: figures, or a table as `as_json` names it.
        """
        if name == "figures":
            return pl.DataFrame(self._figure_rows(), schema=_FIGURE, orient="row")
        return _part(name).rows(self.sides, self.tolerant)

    def key(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row of a table."""
        return ("name",) if name == "figures" else _part(name).spec.key

    def verdict(self) -> tuple[str, ...]:
        """Return lines about the verdict, as `tui.output.diff.verdict` writes them.

        Raises:
            ProftuiError: No time is known on both sides, or no verdict was requested.
        """
        if self.judgment is None:
            raise no_judgment(self.sides)
        return verdict(self.judgment, self.sides, self.figures, self._tables)

    def _conclusion(self) -> tuple[str, ...]:
        """Return PASS, FAIL or NO CHANGE with the reason, and the changes; or why there is no verdict."""
        if self._shown is None:
            return (memory_sentence(self.sides) or no_judgment(self.sides).message,)
        first, *reasons = verdict(self._shown, self.sides, self.figures, self._tables)
        return (first, *self._sentences[1:], *reasons)

    def as_text(self, style: Style) -> str:
        """Return the figures, then each table with the largest changes."""
        a, b = self.sides.a, self.sides.b
        labels = [plain(side.label) for side in (a, b)]
        lines = [style.heading(f"{labels[0]}  >  {labels[1]}"), ""]
        lines += [*(line for sentence in self._conclusion() for line in style.wrapped(_sentence(sentence))), ""]
        lines += [*style.wrapped(f"Times {self.sides.basis}."), ""]
        for sentence in filter(None, (self.sides.partial_sentence, self.sides.left_out_sentence)):
            lines += [*style.wrapped(sentence), ""]
        lines += [*style.wrapped(SIMILAR_NAMES_NOTE), ""] if self.tolerant else []
        figures = [(figure.label, *figure_cells(figure)) for figure in self.figures]
        lines += align_columns([("", *HEADINGS), *figures]) if figures else []
        unknown_reason = unknown_sentences(self.figures)
        lines += (
            ["", *(line for sentence in unknown_reason for line in style.wrapped(sentence))] if unknown_reason else []
        )
        ops_note = ops_compared_separately(self.sides)
        for spec, rows in self._tables:
            if rows.is_empty():
                continue
            lines += ["", style.heading(_title(spec, rows)), ""]
            lines += [*style.wrapped(ops_note), ""] if ops_note and spec is CHANGED_OPS else []
            if spec is CHANGED_FINDINGS:
                lines += _finding_lines(rows.head(ROWS), style)
            else:
                lines += table_lines(spec, rows.head(ROWS), style, notes=False)
                lines += style.wrapped(_remaining_sums_text(rows))
        return "\n".join(lines) + "\n"

    def as_markdown(self) -> str:
        """Return the same as Markdown, for a pull request."""
        a, b = (markdown_cell(side.label) for side in (self.sides.a, self.sides.b))
        text = f"## {a} → {b}\n\n"
        text += "".join(f"- {markdown_cell(_sentence(sentence))}\n" for sentence in self._conclusion())
        text += f"\nTimes {markdown_cell(self.sides.basis)}.\n\n"
        for sentence in filter(None, (self.sides.partial_sentence, self.sides.left_out_sentence)):
            text += f"{markdown_cell(sentence)}\n\n"
        text += f"{SIMILAR_NAMES_NOTE}\n\n" if self.tolerant else ""
        rows = [[figure.label, *figure_cells(figure)] for figure in self.figures]
        text += markdown_table(["", *HEADINGS], rows, [False, True, True, True, True])
        unknown_reason = unknown_sentences(self.figures)
        text += "\n" * bool(unknown_reason) + "".join(f"- {markdown_cell(sentence)}\n" for sentence in unknown_reason)
        ops_note = ops_compared_separately(self.sides)
        for spec, table in self._tables:
            if table.height:
                text += f"\n### {_title(spec, table)}\n\n"
                text += f"{ops_note}\n\n" if ops_note and spec is CHANGED_OPS else ""
                text += table_markdown(spec, _with_short_names(spec, table.head(ROWS)))
                remaining = "" if spec is CHANGED_FINDINGS else _remaining_sums_text(table)
                text += f"\n{remaining}\n" if remaining else ""
        return text

    def as_json(self, bounds: Bounds | None = None) -> str:
        """Return one JSON object on a line: labels, per_iteration, tolerant, figures, judged, and the tables."""
        content: dict[str, Any] = {
            **self.head(),
            "baseline": self.sides.a.label,
            "candidate": self.sides.b.label,
            "per_iteration": self.sides.per_iteration,
            "tolerant": self.tolerant,
            "iterations": [dict(self.sides.a.iterations), dict(self.sides.b.iterations)],
            "left_out_ns": [self.sides.a.left_out_ns, self.sides.b.left_out_ns],
            "partial": [self.sides.a.full_profile.partial, self.sides.b.full_profile.partial],
            "verdict": {
                "outcome": self._shown and self._shown.outcome.value,
                "sentence": " ".join(self._sentences) or None,
            },
        }
        if self.judgment is not None:
            content["judged"] = {
                "figure": self.judgment.figure.name,
                "than_pct": self.judgment.limit_pct,
                "fails": self.judgment.fails,
                "longer_too": [figure.name for figure in self.judgment.others],
                "middle_half_ns": self._middle_halves(),
            }
        tables = {"figures": JsonTable(self.table("figures"), self.key("figures"))}
        tables |= {_name(spec): JsonTable(rows, spec.key) for spec, rows in self._tables}
        return document(content, tables, bounds)

    def head(self) -> dict[str, Any]:
        """Return the fields at the start of its documents: the sources are those of both sides."""
        a, b = self.sides.a.full_profile, self.sides.b.full_profile
        sources = [source_facts(source) for source in (*a.sources, *b.sources)]
        return {**document_head("diff", a, view="compare"), "sources": sources, "session": None, "iterations": None}

    def _middle_halves(self) -> list[list[float | None]] | None:
        """Return the range of the middle half of the iterations of each side, if these are judged."""
        if self.judgment is None or self.judgment.figure.name != ITERATION_FIGURE:
            return None
        return [
            [spread.low_ns, spread.high_ns]
            for spread in (iteration_spread(self.sides.a), iteration_spread(self.sides.b))
        ]

    def _figure_rows(self) -> list[tuple[str | float | None, ...]]:
        return [
            (figure.name, figure.baseline, figure.candidate, figure.delta, figure.delta_pct, figure.unknown_reason)
            for figure in self.figures
        ]


def _name(spec: TableSpec) -> str:
    return spec.name.removeprefix("changed_")


def _part(name: str) -> CompareTable:
    return next(part for part in COMPARE_TABLES if _name(part.spec) == name)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _title(spec: TableSpec, rows: pl.DataFrame) -> str:
    shown = f"first {ROWS} of {count(rows.height)}" if rows.height > ROWS else count(rows.height)
    changes = rows["change"].to_list()
    counts = [f"{changes.count(word)} {word}" for word in (NEW, REMOVED, SIMILAR) if word in changes]
    return f"{spec.title} ({', '.join([shown, *counts])})"


def _remaining_sums_text(rows: pl.DataFrame) -> str:
    """Return the sums of the rows that are not shown, and of all rows; empty if all are shown or a sum is unknown."""
    remaining = rows.slice(ROWS)
    if remaining.is_empty() or "delta_ns" not in rows.columns or rows["delta_ns"].null_count():
        return ""
    texts = []
    for label, selected in ((f"The other {count(remaining.height)}", remaining), (f"all {count(rows.height)}", rows)):
        baseline, candidate, delta = (float(selected[name].sum()) for name in ("a_total_ns", "b_total_ns", "delta_ns"))
        texts.append(
            f"{label}: baseline {duration(baseline)}, candidate {duration(candidate)} "
            f"({signed(duration(delta), delta)})"
        )
    return f"{'; '.join(texts)}."


def _with_short_names(spec: TableSpec, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with C++ names shortened for a pull request, but still distinct."""
    if next(column for column in spec.columns if column.name == spec.pinned).kind is not ColumnKind.SYMBOL:
        return rows
    labels = distinct_symbols([plain(name) for name in rows[spec.pinned].to_list()], MAX_NAME)
    names = [labels.get(plain(name), name) for name in rows[spec.pinned].to_list()]
    return rows.with_columns(pl.Series(spec.pinned, names, pl.String))


def _finding_lines(rows: pl.DataFrame, style: Style) -> list[str]:
    """Return findings as lines of text: sentences do not fit into columns."""
    lines = []
    for row in rows.iter_rows(named=True):
        texts = {NEW: [row["candidate"]], REMOVED: [row["baseline"]]}.get(row["change"])
        if texts is None:
            same = row["baseline"] == row["candidate"]
            texts = [row["candidate"]] if same else [f"baseline: {row['baseline']}", f"candidate: {row['candidate']}"]
        first = f"{row['change']:7}{GAP}{row['severity']:7}{GAP}{row['rule']:3}{GAP}"
        for text in texts:
            lines += style.wrapped(text, first=first, indent=" " * len(first))
            first = " " * len(first)
    return lines
