"""Reads nvprof's GPU and API traces (``--print-gpu-trace``, ``--print-api-trace``) as text, plain rows in bulk."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.digits import WORD_BYTES
from tui.loaders.nvprof import damaged_rows
from tui.loaders.nvprof.numbers import NS_PER_UNIT, time_ns, time_step_ns
from tui.loaders.nvprof.reader_state import is_message
from tui.loaders.nvprof.trace_bulk import (
    IRREGULAR,
    BulkRows,
    Dictionary,
    Figures,
    TraceBulkReader,
    are_blank,
    fixed_width_cells,
    is_next_row,
    read_dimensions,
    read_numbers,
    strings,
    trailing_ids,
)
from tui.loaders.nvprof.trace_cells import (
    MISSING_SECOND_HEADER,
    NUMBER,
    SIZE_UNITS,
    RowError,
    TextLayout,
    api_name,
    csv_header,
    fits_by_kinds,
    headerless_layout,
    is_api,
    parse_cells,
    repeated_units,
    split_correlation,
    text_header,
    text_values,
)
from tui.loaders.nvprof.trace_csv import CsvTrace
from tui.loaders.nvprof.trace_table import TraceTable
from tui.loaders.text.block import Line
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tui.loaders.digits import Bytes, Mask, Positions
    from tui.loaders.nvprof.reader_state import NvprofState
    from tui.loaders.text.block import Block
    from tui.loaders.text.section import Section


_MIN_COLUMN_WIDTH: Final = 5
"""The minimum width of a column: a blank, a digit and a unit such as ``B/s``."""

_INTEGER_COLUMNS: Final = ("registers", "context", "stream")
_NUMBER_COLUMNS: Final = ("grid", "block", *_INTEGER_COLUMNS, "static", "dynamic", "size", "throughput")
_WORD_COLUMNS: Final = ("src_memory", "dst_memory", "device")


def can_read_text_bulk(layout: TextLayout) -> bool:
    """Return whether `TextBulk` can read a layout."""
    widths = np.diff((len(layout.line_prefix) - 1, *layout.edges))
    words = [position for position, column in enumerate(layout.columns) if column in _WORD_COLUMNS]
    are_adjacent = not words or (words[0] > 1 and words[-1] - words[0] == len(words) - 1)
    return (
        layout.line_prefix.isascii()
        and int(widths.min()) >= _MIN_COLUMN_WIDTH
        and layout.edges[0] >= WORD_BYTES
        and are_adjacent
    )


class TextBulk(TraceBulkReader):
    """Reads the plain rows of one text table."""

    def __init__(self, layout: TextLayout, table: TraceTable) -> None:
        super().__init__(table)
        self._layout = layout
        self._line_prefix = layout.line_prefix.encode()
        self._edges = layout.edges
        self._name_start = layout.name_start
        self._api_names = Dictionary()
        self._names = ActivityNames()
        self._words = Words(layout)
        # Characters before the cells that are read with them: figures are parsed in words of eight.
        self._shift = WORD_BYTES
        # API calls in a table of GPU activities have a dash in every other column.
        dashes = "".join("-".rjust(width) for width in np.diff(layout.edges)[1:])
        self._empty_cells = dashes + " " * (layout.name_start - layout.edges[-1])

    def _rows(self, data: Bytes, begins: Positions, ends: Positions, ascii_lines: Mask | None) -> BulkRows:
        """Read the times in their columns, the id at the end, and look up all between them."""
        is_long = ends - begins > self._name_start
        if ascii_lines is not None:
            # Columns are counted in characters.
            is_long &= ascii_lines
        index = np.flatnonzero(is_long)
        if len(index) < len(is_long):
            begins, ends = begins[index], ends[index]
        ids, name_ends = self._ids(data, begins, ends)
        cell_starts = begins + self._edges[1]
        looked_up = self._start_lookup(data, cell_starts, name_ends)
        start, duration, has_times = self._times(data, begins)
        codes = self._row_codes(data, cell_starts, name_ends, has_times, looked_up)
        is_api = codes & 1 == 1
        return BulkRows(
            index, start.nanoseconds(), duration.nanoseconds(), ids, is_api, codes >> 1, start.last_digit_power()
        )

    def _times(self, data: Bytes, begins: Positions) -> tuple[Figures, Figures, Mask]:
        """Return start and duration of all rows, and which rows have both in their columns."""
        start_edge, duration_edge = self._edges[:2]
        cells = fixed_width_cells(data, begins, duration_edge)
        units = self._layout.units
        columns = ((len(self._line_prefix), start_edge), (start_edge, duration_edge))
        numbers = read_numbers(cells, columns, b"" if units else b"s")
        start, duration = numbers.column(0), numbers.column(1)
        # Only the start may begin without a blank: it is the first column.
        is_valid = start.is_valid & duration.is_valid & ~start.is_dash & (cells[:, start_edge] == ord(" "))
        for position, sign in enumerate(self._line_prefix):
            is_valid &= cells[:, position] == sign
        if units:
            start.unit[:], duration.unit[:] = (len(str(NS_PER_UNIT[units[name]])) - 1 for name in ("start", "duration"))
        return start, duration, is_valid

    def _ids(self, data: Bytes, begins: Positions, ends: Positions) -> tuple[Positions, Positions]:
        """Return correlation ids, -1 for none, and the index after each name."""
        # The id of an API call is within the brackets around the kernel's name.
        bracketed = np.flatnonzero(data[ends - 1] == ord(")"))
        if len(bracketed):
            begins, bracket_positions = begins[bracketed] + self._edges[1], ends[bracketed] - 1
            bracketed = bracketed[(data[bracket_positions - 1] == ord("]")) & self._is_api(self._cells(data, begins))]
        id_ends = ends
        if len(bracketed):
            id_ends = ends.copy()
            id_ends[bracketed] -= 1
        ids, name_ends = trailing_ids(data, id_ends)
        if len(bracketed):
            name_ends[ids < 0] = ends[ids < 0]
        return ids, name_ends

    def _cells(self, data: Bytes, cell_starts: Positions) -> Bytes:
        """Return the cells between the times and the name, with the name's first character."""
        return fixed_width_cells(data, cell_starts - self._shift, self._name_start - self._edges[1] + self._shift + 1)

    def _is_api(self, cells: Bytes) -> Mask:
        """Return which rows are API calls: without a grid, and with a name that is not one of nvprof's own."""
        if self._layout.is_api:
            return np.ones(len(cells), np.bool_)
        is_api: Mask = cells[:, -1] != ord("[")
        for column in ("grid", "device"):
            if column in self._layout.columns:
                edge = self._edges[self._layout.columns.index(column)] - self._edges[1] + self._shift
                is_api &= cells[:, edge - 1] == ord("-")
        return is_api

    def _parse_codes(self, data: Bytes, begins: Positions, ends: Positions) -> npt.NDArray[np.int32]:
        """Parse GPU activities and API calls separately."""
        cells = self._cells(data, begins)
        is_api = self._is_api(cells)
        name_gap = self._layout.edges[-1] - self._edges[1] + self._shift
        is_plain = (
            are_blank(cells, name_gap, cells.shape[1] - 1)
            & (cells[:, name_gap - 1] != ord(" "))
            & (cells[:, -1] != ord(" "))
        )
        is_plain &= (cells[:, self._shift] == ord(" ")) & (data[ends - 1] != ord("\t"))
        # A name such as "[7]" looks like an id.
        is_plain &= ends > begins + (self._name_start - self._edges[1])
        codes = np.full(len(ends), IRREGULAR, np.int32)
        for wants_api, read in ((False, self._gpu_codes), (True, self._api_codes)):
            selected = np.flatnonzero(is_plain & (is_api == wants_api))
            if len(selected):
                read_codes = read(data, cells[selected], begins[selected], ends[selected])
                codes[selected] = np.where(read_codes >= 0, 2 * read_codes + wants_api, IRREGULAR)
        return codes

    def _api_codes(self, data: Bytes, _: Bytes, begins: Positions, ends: Positions) -> npt.NDArray[np.int32]:
        texts = strings(data, begins, ends)
        text_codes, codes, first_rows = self._api_names.encode(texts)
        if len(first_rows):
            new = [self._api_code(text) for text in texts[first_rows]]
            self._api_names.assign(text_codes[first_rows], np.array(new, np.int32))
            codes = self._api_names.decode(text_codes)
        return codes

    def _api_code(self, text: str) -> int:
        if not text.startswith(self._empty_cells) or "  " in text[len(self._empty_cells) :]:
            return IRREGULAR
        return self._table.api_code(api_name(text[len(self._empty_cells) :]))

    def _gpu_codes(self, data: Bytes, cells: Bytes, begins: Positions, ends: Positions) -> npt.NDArray[np.int32]:
        """Return the codes of GPU activities, parsed column by column."""
        columns, is_regular = read_cells(self._layout, cells, self._shift - self._edges[1], self._words)
        columns["name"], has_plain_name = self._names.read(
            strings(data, begins + (self._name_start - self._edges[1]), ends)
        )
        is_regular &= has_plain_name
        codes = np.full(len(ends), IRREGULAR, np.int32)
        count = int(np.count_nonzero(is_regular))
        if count:
            if count < len(is_regular):
                columns = {
                    name: values.filter(is_regular) if isinstance(values, pl.Series) else values[is_regular]
                    for name, values in columns.items()
                }
            first_code = self._table.add_columns(columns, count)
            codes[is_regular] = np.arange(first_code, first_code + count)
        return codes


class ActivityNames:
    """Names of GPU activities; each distinct name is examined once."""

    def __init__(self) -> None:
        self._dictionary = Dictionary()
        self._names = pl.Series([""], dtype=NAME)

    def read(self, texts: pl.Series) -> tuple[pl.Series, Mask]:
        """Return the names as a column of `CELLS`, and which rows have plain ones."""
        text_codes, codes, first_rows = self._dictionary.encode(texts)
        if len(first_rows):
            new = texts[first_rows]
            # Two blanks in a name may precede another row, if a newline is missing.
            is_irregular = new.str.contains("  ", literal=True).to_numpy()
            name_codes = np.where(is_irregular, IRREGULAR, len(self._names) + np.arange(len(new)))
            self._dictionary.assign(text_codes[first_rows], name_codes.astype(np.int32))
            self._names.extend(new.cast(NAME))
            codes = self._dictionary.decode(text_codes)
        return self._names[pl.Series(np.maximum(codes, 0).astype(np.uint32))], codes >= 0


class Words:
    """Adjacent columns of words (kinds of memory, the device); each distinct text is parsed once."""

    def __init__(self, layout: TextLayout) -> None:
        positions = [position for position, column in enumerate(layout.columns[:-1]) if column in _WORD_COLUMNS]
        self.columns = tuple(layout.columns[position] for position in positions)
        self._edges = [layout.edges[position] for position in positions]
        self._left_edge = layout.edges[positions[0] - 1] if positions else 0
        self._dictionary = Dictionary()
        self._rows: list[tuple[str | None, ...]] = []
        self._frame = pl.DataFrame()

    def read(self, cells: Bytes, shift: int) -> tuple[dict[str, pl.Series], Mask]:
        """Return the columns, and which rows are plain in all of them; cells as for `read_cells`."""
        if not self.columns:
            return {}, np.ones(len(cells), np.bool_)
        begins = np.arange(self._left_edge + shift, cells.size, cells.shape[1])
        texts = strings(cells.reshape(-1), begins, begins + (self._edges[-1] - self._left_edge))
        text_codes, codes, first_rows = self._dictionary.encode(texts)
        if len(first_rows):
            self._dictionary.assign(
                text_codes[first_rows], np.array([self._parse(text) for text in texts[first_rows]], np.int32)
            )
            codes = self._dictionary.decode(text_codes)
            rows = self._rows or [(None,) * len(self.columns)]
            self._frame = pl.DataFrame(rows, dict.fromkeys(self.columns, NAME), orient="row")
        is_regular: Mask = codes >= 0
        row_indices = pl.Series(np.maximum(codes, 0).astype(np.uint32))
        return {column.name: column[row_indices] for column in self._frame.get_columns()}, is_regular

    def _parse(self, text: str) -> int:
        cells, start = [], 0
        for column, edge in zip(self.columns, self._edges, strict=True):
            cell = text[start : edge - self._left_edge]
            start = edge - self._left_edge
            word = cell.strip(" ")
            if cell[0] != " " or cell[-1] == " " or (column != "device" and not (word == "-" or word.isalpha())):
                return IRREGULAR
            cells.append(None if word == "-" else word if column == "device" else word.lower())
        self._rows.append(tuple(cells))
        return len(self._rows) - 1


def read_cells(
    layout: TextLayout, cells: Bytes, shift: int, words: Words
) -> tuple[dict[str, pl.Series | npt.NDArray[np.generic]], Mask]:
    """Return the cells between times and names as columns of `CELLS`, and which rows are plain in all of them.

    Args:
        layout: The table's columns.
        cells: The rows, from `WORD_BYTES` characters before the first column.
        shift: The offset of the layout's positions in ``cells``.
        words: The word columns of the table.
    """
    columns: dict[str, pl.Series | npt.NDArray[np.generic]] = {}
    read_words, is_regular = words.read(cells, shift)
    columns.update(read_words)
    positions = {
        column: (left + shift, edge + shift)
        for column, left, edge in zip(layout.columns[2:-1], layout.edges[1:], layout.edges[2:], strict=False)
    }
    for column, (begin, end) in positions.items():
        if column not in _WORD_COLUMNS:
            is_regular &= cells[:, begin] == ord(" ")
            if column in ("um", "address"):
                is_regular &= (cells[:, end - 1] == ord("-")) & are_blank(cells, begin, end - 1)
            elif column not in _NUMBER_COLUMNS:
                is_regular &= cells[:, end - 1] != ord(" ")
    grids = [column for column in ("grid", "block") if column in positions]
    if grids:
        parts, is_valid = read_dimensions(cells, [positions[column] for column in grids])
        is_regular &= is_valid.all(axis=0)
        columns.update({f"{grid}_{axis}": parts[i, j] for i, grid in enumerate(grids) for j, axis in enumerate("xyz")})
    # Columns with the same kind of unit are read together.
    columns_by_suffix: dict[bytes, list[str]] = {}
    for column in _NUMBER_COLUMNS:
        if column in positions and column not in ("grid", "block"):
            suffix = (
                b""
                if column in _INTEGER_COLUMNS or column in layout.units
                else b"B/s"
                if column == "throughput"
                else b"B"
            )
            columns_by_suffix.setdefault(suffix, []).append(column)
    for suffix, names in columns_by_suffix.items():
        numbers_ = read_numbers(cells, [positions[column] for column in names], suffix)
        for position, column in enumerate(names):
            column_numbers = numbers_.column(position)
            is_regular &= column_numbers.is_valid
            if column in _INTEGER_COLUMNS:
                is_regular &= column_numbers.decimals == 0
                columns[column] = column_numbers.integers()
                continue
            columns[column] = column_numbers.floats()
            unit = layout.units.get(column, "").removesuffix("/s")
            power = np.int8(SIZE_UNITS.index(unit)) if unit else column_numbers.unit
            columns[f"{column}_power"] = np.where(column_numbers.is_dash, np.int8(-1), power)
    return columns, is_regular


_TIME: Final = re.compile(rf"{NUMBER}(?:ns|us|ms|s)")
_UNITLESS_TIME: Final = re.compile(NUMBER)
_TIMES: Final = re.compile(rf"[ \t]*({NUMBER}(?:ns|us|ms|s))[ \t]+({NUMBER}(?:ns|us|ms|s)|-)[ \t]+(?=\S)")
_UNITLESS_TIMES: Final = re.compile(rf"[ \t]*({NUMBER})[ \t]+({NUMBER}|-)[ \t]+(?=\S)")
_TRUNCATED_ROW: Final = re.compile(r"[ \t]*([0-9][0-9.]*(?:ns|us|ms|s))(?:[ \t]+[0-9.]*(?:[num]?s?))?[ \t]*")
_INVALID_DURATION: Final = re.compile(
    rf"[ \t]*(?P<start>{NUMBER}(?:ns|us|ms|s))[ \t]+(?P<duration>[^\s()]+)[ \t]+"
    r"(?:(?:-|\([0-9]+ [0-9]+ [0-9]+\))[ \t]+(?:-|\([0-9]+ [0-9]+ [0-9]+\))[ \t].*|cu(?:da)?[A-Z]\w+(?: \(.*)?[ \t]*)"
)
"""A row with an invalid duration."""

_ELISION: Final = re.compile(r"[ \t]*(?:\[?\.{2,}(?:[^.]*\.{2,})?\]?|…|.*<[ \t]*snip[ \t]*>.*)[ \t]*")


def open_trace(line: Line, state: NvprofState) -> Section | None:
    """Return the trace that a line begins or continues; None if it is neither a header nor a row."""
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
        continued = interrupted.new_trace_without_header(line, partial(_new_table, state, line))
        if continued is not None:
            return continued
    layout = headerless_layout(line.text)
    if layout is None:
        return None
    trace = TextTrace(layout, state, _new_table(state, line, layout.is_api))
    trace.take(line)
    return trace


def _new_table(state: NvprofState, line: Line, is_api_only: bool) -> TraceTable:
    """Return the table that begins at a line; a second trace of one kind in a result belongs to another run."""
    section = "api trace" if is_api_only else "gpu trace"
    session = state.ensure_session(line.number)
    if section in state.sections_seen:
        session = state.next_session(line.number)
    state.sections_seen.add(section)
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
        self._is_below_header = True
        self._last_start_ns = 0
        self._bulk: TextBulk | None = None
        self._block: Block | None = None

    def take(self, line: Line) -> bool:
        """Read a row; the layout's units, if it is the line below the header."""
        text = line.text
        if self._is_below_header:
            if not text.strip():
                return True
            self._is_below_header = False
            layout_with_units = self._layout.units_from(text)
            if layout_with_units is not None:
                self._layout = layout_with_units
                return True
        times = self._times(text)
        if times is not None:
            self._read_row(line, times)
            return True
        if repeated_units(self._layout, text) is not None:
            return False
        if _ELISION.fullmatch(text) and text.strip():
            return True
        if self._is_truncated(text):
            self.table.damaged(line.number, text, "the row is truncated after its start: row skipped")
            return True
        prefix = self._layout.line_prefix
        invalid = _INVALID_DURATION.fullmatch(text, len(prefix)) if text.startswith(prefix) else None
        if invalid is not None and not self._layout.units:
            self._read(line, invalid["start"], "-")
            reason = f"expected a duration such as 1.5ms, found {invalid['duration']!r}; shown as unknown"
            self.table.damaged(line.number, text, reason)
            return True
        if self._is_repeated_header(text):
            return not self._state.has_waiting_processes()
        if not is_message(text) and text_header(text) is None and damaged_rows.looks_like_trace_row(text):
            self.table.damaged(line.number, text, damaged_rows.TRACE)
            return True
        return is_next_row(self._block, line, self._is_row)

    def take_block(self, block: Block, start: int) -> int:
        """Read rows in bulk, and rows that are not plain one by one."""
        self._block = block
        if self._is_below_header or not can_read_text_bulk(self._layout):
            return start
        if self._bulk is None:
            self._bulk = TextBulk(self._layout, self.table)
        return self._bulk.take(block, start, self.take)

    def close(self) -> None:
        """Keep the table open: rows may continue after program output."""
        self._state.interrupted_trace = self

    def new_trace_without_header(self, line: Line, new_table: Callable[[bool], TraceTable]) -> TextTrace | None:
        """Return the next trace, if the line is its row of units and its header, equal to this one's, is missing."""
        layout = repeated_units(self._layout, line.text)
        if layout is None:
            return None
        table = new_table(layout.is_api)
        table.damaged(line.number, line.text, MISSING_SECOND_HEADER)
        return TextTrace(layout, self._state, table)

    def resume(self, line: Line) -> bool:
        """Read a row after other text, if it can only be of this table."""
        times = self._times(line.text)
        if times is None or self._state.collector.session is not self.table.session or not self._is_row(line.text):
            return False
        if self._start_ns(times[0]) < self._last_start_ns:
            return False
        self._read(line, *times)
        return True

    def _is_row(self, text: str) -> bool:
        """Return whether a line is an undamaged row."""
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
        """Return start and duration, by the columns of the header or as the first two times of the line."""
        prefix, (start_edge, duration_edge) = self._layout.line_prefix, self._layout.edges[:2]
        if not text.startswith(prefix):
            return None
        start, duration = text[len(prefix) : start_edge].strip(), text[start_edge:duration_edge].strip()
        time = _UNITLESS_TIME if self._layout.units else _TIME
        if time.fullmatch(start) and (duration == "-" or time.fullmatch(duration)) and text[duration_edge:][:1] == " ":
            return start, duration
        match = (_UNITLESS_TIMES if self._layout.units else _TIMES).match(text, len(prefix))
        # Without units, two numbers at the beginning of a line are not enough: all cells must match.
        if match is None or (self._layout.units and not fits_by_kinds(self._layout, text)):
            return None
        return match[1], match[2]

    def _is_truncated(self, text: str) -> bool:
        """Return whether a line is a row that is truncated inside its times."""
        match = _TRUNCATED_ROW.fullmatch(text, len(self._layout.line_prefix))
        return match is not None and match.end(1) == self._layout.edges[0] and not self._layout.units

    def _start_ns(self, cell: str) -> int:
        return time_ns(cell, self._layout.units.get("start"))

    def _read_row(self, line: Line, times: tuple[str, str]) -> None:
        """Read a row, and a second one on the same line if a newline is missing."""
        second_start = damaged_rows.second_row_position(line.text, self._layout.edges[-1])
        if second_start is None:
            self._read(line, *times)
            return
        self._read(Line(line.text[:second_start].rstrip(), line.number), *times)
        start, blanks, second_text = line.text[second_start:].partition(" ")
        width = self._layout.edges[0] - len(self._layout.line_prefix)
        second_line = Line(f"{self._layout.line_prefix}{start:>{width}}{blanks}{second_text}", line.number)
        second_times = self._times(second_line.text)
        self.table.damaged(line.number, line.text, "missing newline between two rows: both are read")
        if second_times is not None:
            self._read_row(second_line, second_times)

    def _read(self, line: Line, start: str, duration: str) -> None:
        """Add the row of a line with these times, or report why it is skipped."""
        units = self._layout.units
        try:
            values, problem = text_values(self._layout, line.text)
            start_ns = self._start_ns(start)
            duration_ns = None if duration == "-" else time_ns(duration, units.get("duration"))
            is_api_call = self._layout.is_api or is_api(values)
            name, correlation = split_correlation(values.get("name", ""), api=is_api_call)
            cells = None if is_api_call else parse_cells({**values, "name": name}, units)
            code = self.table.api_code(name) if cells is None else self.table.cell_code(cells)
        except ValueError as error:
            self.table.damaged(line.number, line.text, f"{error}: row skipped")
            return
        if problem:
            self.table.damaged(line.number, line.text, f"{problem}: the rest of the row is used")
        self._last_start_ns = start_ns
        self.table.note_step(time_step_ns(start, units.get("start")))
        (self.table.api if is_api_call else self.table.gpu).add(line.number, start_ns, duration_ns, correlation, code)
