"""Reads the summaries that nvprof writes with ``--csv``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.csv_cells import csv_cells
from tui.loaders.nvprof.figures import LABELS, Row, Units
from tui.loaders.nvprof.numbers import NS_PER_UNIT
from tui.loaders.nvprof.state import NvprofState, is_lead, is_message
from tui.loaders.nvprof.summary_rows import add_rows

if TYPE_CHECKING:
    from tui.loaders.text.section import Line

_SUMMARY: Final = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")

_FIGURE: Final = r"\d[\d.]*(?:e[+-]?\d+)?"
_ROW: Final = re.compile(rf'(?:"[^"]*",)?{_FIGURE},{_FIGURE},\d+,{_FIGURE},{_FIGURE},{_FIGURE},')
"""A row by its looks; blanks before it are a paste's."""

_CUT_ROW: Final = re.compile(rf'"[^"]*",{_FIGURE},{_FIGURE},\d+(?:,{_FIGURE})*,?')
"""A row that ends before its name."""

_BETWEEN_ROWS: Final = re.compile(rf'(?<=")(?=(?:"[A-Z]\w+ [^"]*",)?{_FIGURE},{_FIGURE},\d+,{_FIGURE},{_FIGURE},)')
_LEAST_CELLS: Final = 4
"""Of a damaged row; lines of fewer cells are program output."""


def open_summary_csv(line: Line, state: NvprofState) -> SummaryCsvSection | None:
    """Begin a table with its header, quoted as nvprof writes it or not."""
    text = state.bare(line.text)
    start = min((at for at in (text.find('"'), text.find("Time(%)"), text.find("Type,")) if at >= 0), default=-1)
    if start < 0 or "," not in text or not is_lead(text[:start]):
        return None
    columns = tuple(csv_cells(text[start:]))
    if columns not in (_SUMMARY, ("Type", *_SUMMARY)):
        return None
    state.note_lead(line.text, len(line.text) - len(text) + start)
    return SummaryCsvSection(line, state, columns)


def go_on_summary_csv(line: Line, state: NvprofState) -> SummaryCsvSection | None:
    """Go on with a table behind program output; rows without a header above them are told and left out."""
    if state.collector.session is None or not _ROW.match(state.bare(line.text)):
        return None
    section = SummaryCsvSection(line, state, state.csv_columns, state.csv_units, has_header=False)
    section.take(line)
    return section


class SummaryCsvSection:
    """One summary table in CSV; the second line gives a unit for each column."""

    def __init__(
        self,
        line: Line,
        state: NvprofState,
        columns: Sequence[str],
        units: Units | None = None,
        *,
        has_header: bool = True,
    ) -> None:
        self._state = state
        self._first_line = line.number
        self._columns = columns
        self._units = units
        self._has_header = has_header
        self._rows: list[Row] = []
        self._damaged: list[Line] = []
        self._open_names: list[Line] = []
        state.csv_columns = columns

    def take(self, line: Line) -> bool:
        """Read a row, or two where the end of a line was lost."""
        text = self._state.bare(line.text).strip()
        if is_message(line.text):
            return False
        if not text:
            return True
        taken = [self._take_row(part, line) for part in _BETWEEN_ROWS.split(text)]
        return any(taken)

    def _take_row(self, text: str, line: Line) -> bool:
        cells = csv_cells(text)
        width = len(self._columns)
        if width and len(cells) > width:
            # Names that were not quoted are cut at their commas; the name is the last column.
            cells[width - 1 :] = [",".join(text.split(",")[width - 1 :])]
        cell = dict(zip(self._columns, cells, strict=False)) if len(cells) == width else {}
        if cell and self._units is None and not self._rows and not cell["Name"] and cell["Time"] in NS_PER_UNIT:
            self._units = Units(cell["Time"], *(cell[column] or None for column in ("Avg", "Min", "Max")))
            self._state.csv_units = self._units
            return True
        if not cell or not (cell["Calls"].isdigit() and cell["Time"][:1].isdigit()):
            is_row = _ROW.match(text) or _CUT_ROW.fullmatch(text) or text.count(",") >= width - 1 > 0
            if len(cells) < _LEAST_CELLS or not is_row:
                return False
            self._damaged.append(line)
            return True
        if text.count('"') % 2:
            self._open_names.append(line)
        label = LABELS.get(cell.get("Type", ""), "")
        self._rows.append(
            Row(
                cell["Time(%)"],
                cell["Time"],
                cell["Calls"],
                cell["Avg"],
                cell["Min"],
                cell["Max"],
                cell["Name"],
                line.number,
                label or self._state.heading,
            )
        )
        return True

    def close(self) -> None:
        """Hand over the rows."""
        units = self._units or Units()
        add_rows(self._state, self._rows, units, first_line=self._first_line, has_header=self._has_header)
        for line in self._open_names:
            reason = "the name of this row has no quotation mark at its end: it is cut off; its figures are read"
            self._state.collector.issue("warning", line.number, line.text.strip(), reason)
        if self._damaged:
            first = self._damaged[0]
            self._state.ensure_session(first.number)
            rows = "this row of a summary" if len(self._damaged) == 1 else f"{len(self._damaged)} rows of a summary"
            reason = (
                f"{rows} in CSV could not be read: a cell is damaged"
                if self._columns
                else f"{rows} in CSV stand without the header above them that says what they are; left out"
            )
            self._state.collector.issue("warning", first.number, first.text.strip(), reason)
