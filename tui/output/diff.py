"""Two profiles compared, as text, Markdown or JSON, and whether the second fails a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tui.analysis.compare.headline import Figure, headline, slower
from tui.analysis.compare.parts import PARTS, How
from tui.fmt import count, format_value
from tui.model.errors import ProftuiError
from tui.output.export import json_line, markdown_cell, markdown_table
from tui.output.report import json_rows, table_lines, table_markdown
from tui.text import plain

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.compare.sides import Sides
    from tui.model.view import TableSpec
    from tui.output.report import Style

ROWS: Final = 15
"""Rows of each table in a text or Markdown; JSON has all."""


class Diff:
    """A comparison, and what is written of it.

    Args:
        sides: What is compared.
        tolerant: Match kernels without what versions change in their names.
        gpu: The name of the GPU, as the user gives it.
    """

    def __init__(self, sides: Sides, *, tolerant: bool = False, gpu: str | None = None) -> None:
        self.sides = sides
        self.figures = headline(sides)
        self._tables = [(part.spec, part.rows(sides, How(tolerant, gpu))) for part in PARTS]

    def verdict(self, than_pct: float) -> tuple[str, bool]:
        """One line that says whether the second profile took longer by more than so many per cent, and the answer.

        Raises:
            ProftuiError: Nothing that both profiles hold tells.
        """
        judged, fails = slower(self.sides, than_pct)
        if judged is None:
            raise ProftuiError(
                "nothing that both profiles hold tells which is slower",
                "iterations, a span or GPU time of both would; inspect says what each holds",
            )
        before, now = (format_value(judged.kind, value) for value in (judged.before, judged.now))
        change = f"{judged.label.lower()}: {before} before, {now} now ({judged.delta_pct:+.2f}%)"
        return f"{change}, {'more' if fails else 'not more'} than {than_pct:g}%", fails

    def as_text(self, style: Style) -> str:
        """The figures, then each table with what changed most."""
        a, b = self.sides.a, self.sides.b
        safe = [plain(side.label, ascii_only=style.ascii_only) for side in (a, b)]
        lines = [style.heading(f"{safe[0]}  >  {safe[1]}"), "", *style.wrapped(f"Times {self.sides.why}."), ""]
        lines += [*style.wrapped(self.sides.left_out), ""] if self.sides.left_out else []
        width = max((len(figure.label) for figure in self.figures), default=0)
        for figure in self.figures:
            before, now, delta, share = _cells(figure, ascii_only=style.ascii_only)
            lines.append(f"{figure.label:{width}}  {before:>12}  {now:>12}  {delta:>12}  {share:>9}".rstrip())
        for spec, rows in self._tables:
            if rows.is_empty():
                continue
            lines += ["", style.heading(_title(spec, rows)), ""]
            lines += table_lines(spec, rows.head(ROWS), style, notes=False)
        return "\n".join(lines) + "\n"

    def as_markdown(self) -> str:
        """The same for a pull request."""
        a, b = (markdown_cell(side.label) for side in (self.sides.a, self.sides.b))
        text = f"## {a} → {b}\n\nTimes {markdown_cell(self.sides.why)}.\n\n"
        text += f"{markdown_cell(self.sides.left_out)}\n\n" if self.sides.left_out else ""
        rows = [[figure.label, *_cells(figure)] for figure in self.figures]
        text += markdown_table(["", "Before", "Now", "Diff", "Diff%"], rows, [False, True, True, True, True])
        for spec, table in self._tables:
            if table.height:
                text += f"\n### {_title(spec, table)}\n\n{table_markdown(spec, table.head(ROWS))}"
        return text

    def as_json(self) -> str:
        """All of it as one object on a line: before, now, per_iteration, figures, and the tables by name."""
        content: dict[str, Any] = {
            "before": self.sides.a.label,
            "now": self.sides.b.label,
            "per_iteration": self.sides.per_iteration,
            "iterations": [dict(self.sides.a.iterations), dict(self.sides.b.iterations)],
            "left_out_ns": [self.sides.a.left_out_ns, self.sides.b.left_out_ns],
            "figures": [
                {
                    "name": figure.name,
                    "before": figure.before,
                    "now": figure.now,
                    "delta": figure.delta,
                    "delta_pct": figure.delta_pct,
                }
                for figure in self.figures
            ],
        }
        content |= {spec.name.removeprefix("changed_"): json_rows(rows) for spec, rows in self._tables}
        return json_line(content)


def _title(spec: TableSpec, rows: pl.DataFrame) -> str:
    shown = f"first {ROWS} of {count(rows.height)}" if rows.height > ROWS else count(rows.height)
    changes = rows["change"].to_list()
    of = [f"{changes.count(word)} {word}" for word in ("new", "gone") if word in changes]
    return f"{spec.title} ({', '.join([shown, *of])})"


def _cells(figure: Figure, *, ascii_only: bool = False) -> tuple[str, str, str, str]:
    texts = (text.replace("µ", "u") if ascii_only else text for text in figure.texts)
    before, now, delta = (plain(text, ascii_only=ascii_only) for text in texts)
    return before, now, delta, "" if figure.delta_pct is None else f"{figure.delta_pct:+.2f}%"
