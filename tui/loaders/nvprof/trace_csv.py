"""Reads nvprof's traces in CSV (``--csv``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.csv_cells import csv_cells
from tui.loaders.nvprof.numbers import time_ns, time_step_ns
from tui.loaders.nvprof.trace_bulk import goes_on
from tui.loaders.nvprof.trace_cells import cells_of, is_api, split_correlation
from tui.loaders.nvprof.trace_csv_bulk import CsvBulk, bulk_reads
from tui.loaders.nvprof.trace_layout import HEADLESS_AGAIN, CsvLayout, csv_header, units_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.nvprof.trace_table import TraceTable
    from tui.loaders.text.block import Block
    from tui.loaders.text.section import Line

_MANY_CELLS: Final = 8
_NUMBER: Final = re.compile(r"\d+(?:\.\d*)?(?:e[+-]?\d+)?")


class CsvTrace:
    """The rows of a trace in CSV."""

    def __init__(self, layout: CsvLayout, state: NvprofState, table: TraceTable) -> None:
        self.table = table
        self._layout = layout
        self._state = state
        self._at_header = True
        self._is_over = False
        self._last_start = 0
        self._bulk: CsvBulk | None = None
        self._block: Block | None = None

    def take(self, line: Line) -> bool:
        """Read a row; the layout's units, if it is the line below the header."""
        if self._at_header:
            if not line.text.strip():
                return True
            self._at_header = False
            with_units = self._layout.with_units(line.text)
            if with_units is not None:
                self._layout = with_units
                return True
        cells = self._layout.cells(line.text)
        if cells is None:
            return self._is_damaged(line) or goes_on(self._block, line, self._is_row)
        values = dict(zip(self._layout.columns, cells, strict=True))
        if not _NUMBER.fullmatch(values["start"]):
            again = csv_header(line.text)
            if again is not None and again.columns == self._layout.columns and not self._layout.units:
                return True
            if self._layout.with_units(line.text) is not None:
                # Those of another table, whose header is lost: its rows are not to be read by the units of this one.
                self._is_over = True
                return False
            return self._is_damaged(line) or goes_on(self._block, line, self._is_row)
        self._read(line, values)
        return True

    def take_block(self, block: Block, start: int) -> int:
        """Read rows in bulk, those between that need it one by one."""
        self._block = block
        if self._at_header or not bulk_reads(self._layout):
            return start
        if self._bulk is None:
            self._bulk = CsvBulk(self._layout, self.table)
        return self._bulk.take(block, start, self.take)

    def close(self) -> None:
        """Rows may go on behind program output; the table is complete when the text ends or another begins."""
        self._state.interrupted_trace = self

    def headless_again(self, line: Line, new_table: Callable[[bool], TraceTable]) -> CsvTrace | None:
        """The trace whose row of units is a line, and whose header, the same as this one's, is lost."""
        layout = units_again(self._layout, line.text)
        if layout is None:
            return None
        table = new_table(layout.is_api)
        table.damaged(line.number, line.text, HEADLESS_AGAIN)
        return CsvTrace(layout, self._state, table)

    def resume(self, line: Line) -> bool:
        """Take a row behind other text, where it cannot be but a row of this table."""
        cells = None if self._is_over else self._layout.cells(line.text)
        if cells is None or self._state.collector.session is not self.table.session:
            return False
        values = dict(zip(self._layout.columns, cells, strict=True))
        if not _NUMBER.fullmatch(values["start"]) or self._start_ns(values) < self._last_start:
            return False
        self._read(line, values)
        return True

    def _is_row(self, text: str) -> bool:
        """Whether a line is an undamaged row."""
        cells = self._layout.cells(text)
        if cells is None:
            return False
        values = dict(zip(self._layout.columns, cells, strict=True))
        return bool(_NUMBER.fullmatch(values["start"])) and (
            not values["duration"] or bool(_NUMBER.fullmatch(values["duration"]))
        )

    def _start_ns(self, values: dict[str, str]) -> int:
        return time_ns(values["start"], self._layout.units.get("start"))

    def _is_damaged(self, line: Line) -> bool:
        """Whether a line that is no whole row is one that was cut off or damaged; it is left out."""
        lead = self._layout.lead.match(line.text)
        cells = csv_cells(line.text[lead.end() :]) if lead else []
        wanted = len(self._layout.columns)
        begins = len(cells) >= 3 and _NUMBER.fullmatch(cells[0]) and (_NUMBER.fullmatch(cells[1]) or not cells[1])
        # So many cells as a row of a GPU trace has, no program prints by chance, and begins with a digit.
        is_wide = wanted // 2 >= _MANY_CELLS <= len(cells) and cells[0][:1].isdigit()
        if not begins and not is_wide:
            return False
        what = f"the row has {len(cells)} cells, not {wanted}" if len(cells) != wanted else "the start is no number"
        self.table.damaged(line.number, line.text, f"{what}; it is left out")
        return True

    def _read(self, line: Line, values: dict[str, str]) -> None:
        units = self._layout.units
        try:
            start_ns = self._start_ns(values)
            duration = values["duration"]
            duration_ns = time_ns(duration, units.get("duration")) if duration else None
            api = self._layout.is_api or is_api(values)
            name, correlation = split_correlation(values["name"], api=api)
            if values.get("correlation"):
                correlation = int(values["correlation"])
            if not name and not values.get("grid_x"):
                raise ValueError("the row is cut off before its name")
            cells = None if api else cells_of({**values, "name": name}, units)
            code = self.table.api_code(name) if cells is None else self.table.cell_code(cells)
        except ValueError as error:
            self.table.damaged(line.number, line.text, f"{error}; the row is left out")
            return
        self._last_start = start_ns
        self.table.note_step(time_step_ns(values["start"], units.get("start")))
        (self.table.api if api else self.table.gpu).add(line.number, start_ns, duration_ns, correlation, code)
