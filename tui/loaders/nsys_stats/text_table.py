"""Reads the tables that ``nsys stats`` prints for people: in columns below a rule of dashes, or in boxes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nsys_stats.header import header_of
from tui.loaders.text.table_rows import LINE, MAX_STRAY_LINES, TableSink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.text.section import Line

_RULE: Final = re.compile(r"[\s|+\u2500-\u257f-]*[-\u2500\u2501]{2,}[\s|+\u2500-\u257f-]*")
_DASHES: Final = re.compile(r"-+")
_GAP: Final = re.compile(r"\s{2,}")
_NUMBER: Final = re.compile(r"\s*[|]?\s*-?\d[\d.,]*(?:\s|$|\|)")
_WHOLE_NUMBER_COLUMNS: Final = ("time", "totaltime", "start", "apistart", "total", "pid")
"""Columns of numbers that stand first: a row without one there is none."""

_WITH_BLANKS: Final = frozenset({"gridxyz", "blockxyz"})
"""Columns whose cells have blanks in them: without edges they cannot be told apart."""


class TextTable:
    """One table: the edges of its columns are those of the dashes below its header."""

    def __init__(self, columns: Sequence[str], sink: TableSink, *, boxed: bool, ends: re.Pattern[str]) -> None:
        """Read rows below a header.

        Args:
            columns: Their names.
            sink: Where rows go.
            boxed: Bars stand between the cells.
            ends: Matches the beginning of a line that is not of this table.
        """
        self._columns = tuple(columns)
        self._sink = sink
        self._boxed = boxed
        self._ends = ends
        self._edges: list[tuple[int, int]] = []
        self._rows: list[list[str | None]] = []
        self._lines: list[int] = []
        self._stray = 0
        self._blank = False

    def take(self, line: Line) -> bool:
        """Read one line."""
        text = line.text
        if self._ends.match(text):
            return False
        if not text.strip():
            self._blank = bool(self._rows)
            return True
        if _RULE.fullmatch(text):
            if not self._boxed and not self._rows:
                edges = [match.span() for match in _DASHES.finditer(text)]
                self._edges = edges if len(edges) == len(self._columns) else []
            return True
        cells = self._cells(text)
        if cells is not None:
            self._rows.append([cell.strip() or None for cell in cells])
            self._lines.append(line.number)
            self._stray, self._blank = 0, False
            return True
        if header_of(text) is not None:
            return False
        if _NUMBER.match(text) and self._columns[0] in _WHOLE_NUMBER_COLUMNS:
            reason = (
                f"expected a row of {len(self._columns)} columns; its cells do not stand below them, it is left out"
            )
            self._sink.damaged(line, reason)
            return True
        self._stray += 1
        return not self._blank and self._stray <= MAX_STRAY_LINES

    def _cells(self, text: str) -> list[str] | None:
        """The cells of a row; None where the line is none."""
        width = len(self._columns)
        if self._columns[0] in _WHOLE_NUMBER_COLUMNS and not _NUMBER.match(text):
            return None
        if self._boxed:
            cells = text.strip().removeprefix("|").removesuffix("|").split("|")
            cells[width - 1 :] = ["|".join(cells[width - 1 :])] if len(cells) >= width else []
            return cells if len(cells) == width else None
        if self._edges:
            by_edges = self._by_edges(text)
            if by_edges is not None:
                return by_edges
        if _WITH_BLANKS & set(self._columns):
            return None
        cells = _GAP.split(text.strip(), width - 1)
        return cells if len(cells) == width else None

    def _by_edges(self, text: str) -> list[str] | None:
        last = self._edges[-1][0]
        if len(text) <= last or text[: self._edges[0][0]].strip():
            return None
        for (_, end), (begin, _) in zip(self._edges, self._edges[1:], strict=False):
            if text[end:begin].strip():
                return None
        return [*(text[begin:end] for begin, end in self._edges[:-1]), text[last:]]

    def close(self) -> None:
        """Hand over the rows."""
        if self._rows:
            cells = pl.DataFrame(self._rows, schema=dict.fromkeys(self._columns, pl.String), orient="row")
            self._sink.add(cells.with_columns(pl.Series(LINE, self._lines, pl.UInt32)))
        self._sink.close()
