"""Two profiles compared, as text, Markdown or JSON, and whether the second fails a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.compare.findings import CHANGED_FINDINGS
from tui.analysis.compare.headline import Figure, Judgement, headline, judged, tensor_cores_apart
from tui.analysis.compare.matching import HOW_ALIKE
from tui.analysis.compare.parts import PARTS, How
from tui.analysis.compare.tables import ALIKE, CHANGED_API, CHANGED_KERNELS, CHANGED_OPS, GONE, NEW, ops_apart
from tui.fitting import cell_width, pad, shorten_symbol
from tui.fmt import count, duration, format_value, signed
from tui.labels import tell_symbols_apart
from tui.model.columns import ColumnKind
from tui.model.errors import ProftuiError
from tui.output.export import json_line, markdown_cell, markdown_table
from tui.output.report import json_rows, table_lines, table_markdown
from tui.output.text_table import GAP
from tui.text import plain

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Sides
    from tui.model.view import TableSpec
    from tui.output.report import Style

ROWS: Final = 15
"""Rows of each table in a text or Markdown; JSON has all."""
HEADINGS: Final = ("Before", "Now", "Diff", "Diff%")
NAME_MOST: Final = 60
"""Cells of a name in a sentence, and in Markdown, which does not cut it."""
_FIGURE: Final = pl.Schema({"name": pl.String, **dict.fromkeys(("before", "now", "delta", "delta_pct"), pl.Float64)})
"""Of a figure that sums a profile up: nanoseconds, per cent or a number of things, as its name says."""
_GROWING: Final = {CHANGED_KERNELS.name: "kernel", CHANGED_OPS.name: "op", CHANGED_API.name: "API call"}


class Diff:
    """A comparison, and what is written of it.

    Args:
        sides: What is compared.
        tolerant: Match kernels, ops and API calls also without what versions change in their names.
        gpu: The name of the GPU, as the user gives it.
        than_pct: Judge whether the second profile took longer by more than so many per cent.
    """

    def __init__(
        self, sides: Sides, *, tolerant: bool = False, gpu: str | None = None, than_pct: float | None = None
    ) -> None:
        self.sides = sides
        self.tolerant = tolerant
        self.figures = headline(sides)
        self.judgement: Judgement | None = None if than_pct is None else judged(self.figures, than_pct)
        """None where none was asked for, and where nothing that both profiles hold tells."""
        self._tables = [(part.spec, part.rows(sides, How(tolerant, gpu))) for part in PARTS]

    def table(self, name: str) -> pl.DataFrame:
        """One table, as a program takes it: all rows, in base units.

        Args:
            name: One of `tui.cli.arguments.DIFF_FRAMES`: figures, or a table as `as_json` names it.
        """
        if name == "figures":
            return pl.DataFrame(self._figure_rows(), schema=_FIGURE, orient="row")
        return next(rows for spec, rows in self._tables if _name(spec) == name)

    def verdict(self) -> tuple[str, ...]:
        """Lines on what was judged and how; on other times that are longer; on what grew, however the figure is.

        Raises:
            ProftuiError: Nothing that both profiles hold tells, or nothing was asked for.
        """
        judgement = self.judgement
        if judgement is None:
            raise ProftuiError(
                "nothing that both profiles hold tells which is slower",
                "iterations, a span or GPU time of both would; inspect says what each holds",
            )
        than = f"than {judgement.than_pct:g}%"
        before, now, _, share = _cells(judgement.figure)
        change = f"judged by {judgement.figure.words} alone: {before} before, {now} now ({share})"
        lines = [f"{change}, {'more' if judgement.fails else 'not more'} {than}"]
        if judgement.others:
            longer = ", ".join(f"{figure.words} ({_cells(figure)[3]})" for figure in judgement.others)
            lines.append(f"not judged, and longer by more {than}: {longer}")
        return (*lines, *filter(None, (self._grown, self._evened_out)))

    @property
    def _evened_out(self) -> str:
        """How much longer and shorter GPU work took in all, where one hides the other."""
        changed = next(
            rows["delta_ns"].drop_nulls().to_list() for spec, rows in self._tables if spec is CHANGED_KERNELS
        )
        longer, shorter = [one for one in changed if one > 0], [one for one in changed if one < 0]
        if not longer or not shorter:
            return ""
        what = "of kernels, copies and sets"
        per = " per iteration" * self.sides.per_iteration
        more, less = (f"{count(len(some))} took {duration(abs(sum(some)))}" for some in (longer, shorter))
        return f"{what} {more} more{per}, {less} less"

    @property
    def _grown(self) -> str:
        """What takes longest of what takes longer, of each kind; empty where nothing does."""
        words = []
        for spec, rows in self._tables:
            if spec.name in _GROWING:
                for row in rows.filter(pl.col("delta_ns") > 0).head(1).iter_rows(named=True):
                    name = shorten_symbol(plain(row[spec.pinned]), NAME_MOST)
                    of = row["change"] or f"{format_value(ColumnKind.PERCENT, row['delta_pct'])} more"
                    what = row.get("kind") or _GROWING[spec.name]
                    words.append(f"{what} {name} by {duration(row['delta_ns'])} ({of})")
        return f"grew most{' per iteration' * self.sides.per_iteration}: {'; '.join(words)}" if words else ""

    def as_text(self, style: Style) -> str:
        """The figures, then each table with what changed most."""
        a, b = self.sides.a, self.sides.b
        safe = [plain(side.label, ascii_only=style.ascii_only) for side in (a, b)]
        lines = [style.heading(f"{safe[0]}  >  {safe[1]}"), "", *style.wrapped(f"Times {self.sides.why}."), ""]
        lines += [*style.wrapped(self.sides.left_out), ""] if self.sides.left_out else []
        lines += [*style.wrapped(HOW_ALIKE), ""] if self.tolerant else []
        if self.judgement is not None:
            lines += [*(line for said in self.verdict() for line in style.wrapped(_sentence(said))), ""]
        figures = [(figure.label, *_cells(figure, ascii_only=style.ascii_only)) for figure in self.figures]
        lines += _aligned([("", *HEADINGS), *figures]) if figures else []
        untold = tensor_cores_apart(self.sides)
        lines += ["", *style.wrapped(untold)] if untold else []
        apart = ops_apart(self.sides)
        for spec, rows in self._tables:
            if rows.is_empty():
                continue
            lines += ["", style.heading(_title(spec, rows)), ""]
            lines += [*style.wrapped(apart), ""] if apart and spec is CHANGED_OPS else []
            if spec is CHANGED_FINDINGS:
                lines += _finding_lines(rows.head(ROWS), style)
            else:
                lines += table_lines(spec, rows.head(ROWS), style, notes=False)
        return "\n".join(lines) + "\n"

    def as_markdown(self) -> str:
        """The same for a pull request."""
        a, b = (markdown_cell(side.label) for side in (self.sides.a, self.sides.b))
        text = f"## {a} → {b}\n\nTimes {markdown_cell(self.sides.why)}.\n\n"
        text += f"{markdown_cell(self.sides.left_out)}\n\n" if self.sides.left_out else ""
        text += f"{HOW_ALIKE}\n\n" if self.tolerant else ""
        if self.judgement is not None:
            text += "".join(f"- {markdown_cell(_sentence(said))}\n" for said in self.verdict()) + "\n"
        rows = [[figure.label, *_cells(figure)] for figure in self.figures]
        text += markdown_table(["", *HEADINGS], rows, [False, True, True, True, True])
        untold = tensor_cores_apart(self.sides)
        text += f"\n{markdown_cell(untold)}\n" if untold else ""
        apart = ops_apart(self.sides)
        for spec, table in self._tables:
            if table.height:
                text += f"\n### {_title(spec, table)}\n\n"
                text += f"{apart}\n\n" if apart and spec is CHANGED_OPS else ""
                text += table_markdown(spec, _short(spec, table.head(ROWS)))
        return text

    def as_json(self) -> str:
        """All of it as one object on a line: before, now, per_iteration, tolerant, figures, judged, and the tables."""
        content: dict[str, Any] = {
            "before": self.sides.a.label,
            "now": self.sides.b.label,
            "per_iteration": self.sides.per_iteration,
            "tolerant": self.tolerant,
            "iterations": [dict(self.sides.a.iterations), dict(self.sides.b.iterations)],
            "left_out_ns": [self.sides.a.left_out_ns, self.sides.b.left_out_ns],
            "figures": [dict(zip(_FIGURE, row, strict=True)) for row in self._figure_rows()],
        }
        if self.judgement is not None:
            content["judged"] = {
                "figure": self.judgement.figure.name,
                "than_pct": self.judgement.than_pct,
                "fails": self.judgement.fails,
                "longer_too": [figure.name for figure in self.judgement.others],
            }
        content |= {_name(spec): json_rows(rows) for spec, rows in self._tables}
        return json_line(content)

    def _figure_rows(self) -> list[tuple[str, float | None, float | None, float | None, float | None]]:
        return [(one.name, one.before, one.now, one.delta, one.delta_pct) for one in self.figures]


def _name(spec: TableSpec) -> str:
    return spec.name.removeprefix("changed_")


def _sentence(said: str) -> str:
    return f"{said[:1].upper()}{said[1:]}."


def _title(spec: TableSpec, rows: pl.DataFrame) -> str:
    shown = f"first {ROWS} of {count(rows.height)}" if rows.height > ROWS else count(rows.height)
    changes = rows["change"].to_list()
    of = [f"{changes.count(word)} {word}" for word in (NEW, GONE, ALIKE) if word in changes]
    return f"{spec.title} ({', '.join([shown, *of])})"


def _short(spec: TableSpec, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with C++ names that leave a pull request room for the figures, and are told apart all the same."""
    if next(column for column in spec.columns if column.name == spec.pinned).kind is not ColumnKind.SYMBOL:
        return rows
    told = tell_symbols_apart([plain(name) for name in rows[spec.pinned].to_list()], NAME_MOST)
    names = [told.get(plain(name), name) for name in rows[spec.pinned].to_list()]
    return rows.with_columns(pl.Series(spec.pinned, names, pl.String))


def _cells(figure: Figure, *, ascii_only: bool = False) -> tuple[str, str, str, str]:
    pct = figure.delta_pct
    share = "" if pct is None else signed(format_value(ColumnKind.PERCENT, pct), pct)
    texts = (text.replace("µ", "u") if ascii_only else text for text in (*figure.texts, share))
    before, now, delta, share = (plain(text, ascii_only=ascii_only) for text in texts)
    return before, now, delta, share


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows of a label and figures, in columns."""
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            pad(cell, width, right=place > 0) for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _finding_lines(rows: pl.DataFrame, style: Style) -> list[str]:
    """Findings as text: sentences do not fit into columns."""
    lines = []
    for row in rows.iter_rows(named=True):
        said = {NEW: [row["now"]], GONE: [row["before"]]}.get(row["change"])
        if said is None:
            same = row["before"] == row["now"]
            said = [row["now"]] if same else [f"before: {row['before']}", f"now: {row['now']}"]
        first = f"{row['change']:4}{GAP}{row['severity']:7}{GAP}{row['rule']:3}{GAP}"
        for text in said:
            lines += style.wrapped(text, first=first, indent=" " * len(first))
            first = " " * len(first)
    return lines
