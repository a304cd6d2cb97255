"""Reads nvprof's GPU and API traces (``--print-gpu-trace``, ``--print-api-trace``), alone or in one table."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof import damage
from tui.loaders.nvprof.numbers import time_ns, time_step_ns
from tui.loaders.nvprof.state import is_message
from tui.loaders.nvprof.trace_bulk import goes_on
from tui.loaders.nvprof.trace_cells import RowError, cells_of, fits_by_kinds, is_api, split_correlation, text_values
from tui.loaders.nvprof.trace_csv import CsvTrace
from tui.loaders.nvprof.trace_layout import HEADLESS_AGAIN, TextLayout, bare_row, csv_header, text_header, units_again
from tui.loaders.nvprof.trace_table import TraceTable
from tui.loaders.nvprof.trace_text_bulk import TextBulk, bulk_reads
from tui.loaders.text.section import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.text.block import Block
    from tui.loaders.text.section import Section

_NUMBER: Final = r"\d+(?:\.\d*)?(?:e[+-]?\d+)?"
_TIME: Final = re.compile(rf"{_NUMBER}(?:ns|us|ms|s)")
_BARE_TIME: Final = re.compile(_NUMBER)
_TIMES: Final = re.compile(rf"[ \t]*({_NUMBER}(?:ns|us|ms|s))[ \t]+({_NUMBER}(?:ns|us|ms|s)|-)[ \t]+(?=\S)")
_BARE_TIMES: Final = re.compile(rf"[ \t]*({_NUMBER})[ \t]+({_NUMBER}|-)[ \t]+(?=\S)")
_CUT: Final = re.compile(r"[ \t]*(\d[\d.]*(?:ns|us|ms|s))(?:[ \t]+[\d.]*(?:[num]?s?))?[ \t]*")
_ODD_DURATION: Final = re.compile(
    rf"[ \t]*(?P<start>{_NUMBER}(?:ns|us|ms|s))[ \t]+(?P<duration>[^\s()]+)[ \t]+"
    r"(?:(?:-|\(\d+ \d+ \d+\))[ \t]+(?:-|\(\d+ \d+ \d+\))[ \t].*|cu(?:da)?[A-Z]\w+(?: \(.*)?[ \t]*)"
)
"""A row by all but its duration."""

_ELISION: Final = re.compile(r"[ \t]*(?:\[?\.{2,}(?:[^.]*\.{2,})?\]?|…|.*<[ \t]*snip[ \t]*>.*)[ \t]*")


def open_trace(line: Line, state: NvprofState) -> Section | None:
    """The trace that a line begins, or goes on with; None where it is neither a header nor a row."""
    layout = text_header(line.text)
    if layout is not None:
        return TextTrace(layout, state, _new_table(state, line, layout.is_api))
    csv_layout = csv_header(line.text)
    if csv_layout is not None:
        return CsvTrace(csv_layout, state, _new_table(state, line, csv_layout.is_api))
    interrupted = state.interrupted_trace
    if interrupted is not None:
        if interrupted.resume(line):
            return interrupted
        again = interrupted.headless_again(line, partial(_new_table, state, line))
        if again is not None:
            return again
    layout = bare_row(line.text)
    if layout is None:
        return None
    trace = TextTrace(layout, state, _new_table(state, line, layout.is_api))
    trace.take(line)
    return trace


def _new_table(state: NvprofState, line: Line, api_alone: bool) -> TraceTable:
    """The table that begins at a line; a second trace of the same kind in one result is another run's."""
    what = "api trace" if api_alone else "gpu trace"
    session = state.ensure_session(line.number)
    if what in state.sections_seen:
        session = state.next_session(line.number)
    state.sections_seen.add(what)
    if state.interrupted_trace is not None:
        state.interrupted_trace.table.finish()
        state.interrupted_trace = None
    return TraceTable(state.collector, session)


class TextTrace:
    """The rows of a trace in text."""

    def __init__(self, layout: TextLayout, state: NvprofState, table: TraceTable) -> None:
        self.table = table
        self._layout = layout
        self._state = state
        self._at_header = True
        self._last_start = 0
        self._bulk: TextBulk | None = None
        self._block: Block | None = None

    def take(self, line: Line) -> bool:
        """Read a row; the layout's units, if it is the line below the header."""
        text = line.text
        if self._at_header:
            if not text.strip():
                return True
            self._at_header = False
            with_units = self._layout.with_units(text)
            if with_units is not None:
                self._layout = with_units
                return True
        times = self._times(text)
        if times is not None:
            self._read_row(line, times)
            return True
        if units_again(self._layout, text) is not None:
            return False
        if _ELISION.fullmatch(text) and text.strip():
            return True
        if self._is_cut(text):
            self.table.damaged(line.number, text, "the row is cut off behind its start; it is left out")
            return True
        odd = _ODD_DURATION.fullmatch(text, len(self._layout.lead)) if text.startswith(self._layout.lead) else None
        if odd is not None and not self._layout.units:
            self._read(line, odd["start"], "-")
            reason = f"expected a duration such as 1.5ms, found {odd['duration']!r}; it stays unknown"
            self.table.damaged(line.number, text, reason)
            return True
        if self._is_repeated_header(text):
            return not self._state.others_wait()
        if not is_message(text) and text_header(text) is None and damage.like_trace_row(text):
            self.table.damaged(line.number, text, damage.TRACE)
            return True
        return goes_on(self._block, line, self._is_row)

    def take_block(self, block: Block, start: int) -> int:
        """Read rows in bulk, those between that need it one by one."""
        self._block = block
        if self._at_header or not bulk_reads(self._layout):
            return start
        if self._bulk is None:
            self._bulk = TextBulk(self._layout, self.table)
        return self._bulk.take(block, start, self.take)

    def close(self) -> None:
        """Rows may go on behind program output; the table is complete when the text ends or another begins."""
        self._state.interrupted_trace = self

    def headless_again(self, line: Line, new_table: Callable[[bool], TraceTable]) -> TextTrace | None:
        """The trace whose row of units is a line, and whose header, the same as this one's, is lost."""
        layout = units_again(self._layout, line.text)
        if layout is None:
            return None
        table = new_table(layout.is_api)
        table.damaged(line.number, line.text, HEADLESS_AGAIN)
        return TextTrace(layout, self._state, table)

    def resume(self, line: Line) -> bool:
        """Take a row behind other text, where it cannot be but a row of this table."""
        times = self._times(line.text)
        if times is None or self._state.collector.session is not self.table.session or not self._is_row(line.text):
            return False
        if self._start_ns(times[0]) < self._last_start:
            return False
        self._read(line, *times)
        return True

    def _is_row(self, text: str) -> bool:
        """Whether a line is an undamaged row."""
        try:
            return self._times(text) is not None and not text_values(self._layout, text)[1]
        except RowError:
            return False

    def _is_repeated_header(self, text: str) -> bool:
        header = text_header(text)
        if header is None or header.columns != self._layout.columns:
            return False
        return header.edges == self._layout.edges and not self._layout.units

    def _times(self, text: str) -> tuple[str, str] | None:
        """Start and duration, where the header says or else as the first two times of the line."""
        lead, (start_edge, duration_edge) = self._layout.lead, self._layout.edges[:2]
        if not text.startswith(lead):
            return None
        start, duration = text[len(lead) : start_edge].strip(), text[start_edge:duration_edge].strip()
        time = _BARE_TIME if self._layout.units else _TIME
        if time.fullmatch(start) and (duration == "-" or time.fullmatch(duration)) and text[duration_edge:][:1] == " ":
            return start, duration
        match = (_BARE_TIMES if self._layout.units else _TIMES).match(text, len(lead))
        # Without units, two numbers at the front of a line prove nothing: all cells have to fit.
        if match is None or (self._layout.units and not fits_by_kinds(self._layout, text)):
            return None
        return match[1], match[2]

    def _is_cut(self, text: str) -> bool:
        """Whether a line is the beginning of a row that ends within its times."""
        match = _CUT.fullmatch(text, len(self._layout.lead))
        return match is not None and match.end(1) == self._layout.edges[0] and not self._layout.units

    def _start_ns(self, cell: str) -> int:
        return time_ns(cell, self._layout.units.get("start"))

    def _read_row(self, line: Line, times: tuple[str, str]) -> None:
        """Read a row, and another that stands behind it because the end of a line was lost."""
        second = damage.second_row(line.text, self._layout.edges[-1])
        if second is None:
            self._read(line, *times)
            return
        self._read(Line(line.text[:second].rstrip(), line.number), *times)
        start, blank, rest = line.text[second:].partition(" ")
        width = self._layout.edges[0] - len(self._layout.lead)
        again = Line(f"{self._layout.lead}{start:>{width}}{blank}{rest}", line.number)
        again_times = self._times(again.text)
        self.table.damaged(
            line.number, line.text, "the end of a line is lost, and two rows stand on one: both are read"
        )
        if again_times is not None:
            self._read_row(again, again_times)

    def _read(self, line: Line, start: str, duration: str) -> None:
        units = self._layout.units
        try:
            values, wrong = text_values(self._layout, line.text)
            start_ns = self._start_ns(start)
            duration_ns = None if duration == "-" else time_ns(duration, units.get("duration"))
            api = self._layout.is_api or is_api(values)
            name, correlation = split_correlation(values.get("name", ""), api=api)
            cells = None if api else cells_of({**values, "name": name}, units)
            code = self.table.api_code(name) if cells is None else self.table.cell_code(cells)
        except ValueError as error:
            self.table.damaged(line.number, line.text, f"{error}; the row is left out")
            return
        if wrong:
            self.table.damaged(line.number, line.text, f"{wrong}; the rest of the row is used")
        self._last_start = start_ns
        self.table.note_step(time_step_ns(start, units.get("start")))
        (self.table.api if api else self.table.gpu).add(line.number, start_ns, duration_ns, correlation, code)
