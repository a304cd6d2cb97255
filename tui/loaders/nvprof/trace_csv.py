"""Reads nvprof's traces in CSV (``--csv``), plain rows in bulk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.digits import Bytes, Mask, Positions, trailing_digits
from tui.loaders.nvprof.numbers import NS_PER_UNIT, csv_cells, time_ns, time_step_ns
from tui.loaders.nvprof.trace_bulk import (
    IRREGULAR,
    BulkRows,
    TraceBulkReader,
    fixed_width_cells,
    is_next_row,
    read_millionths,
    strings,
    trailing_ids,
)
from tui.loaders.nvprof.trace_cells import (
    CELLS,
    MISSING,
    MISSING_SECOND_HEADER,
    NUMBER,
    SIZE_UNITS,
    CsvLayout,
    api_name,
    csv_header,
    is_api,
    parse_cells,
    parse_integer,
    repeated_units,
    split_correlation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tui.loaders.nvprof.reader_state import NvprofState
    from tui.loaders.nvprof.trace_table import TraceTable
    from tui.loaders.text.block import Block, Line


_TIMES_WIDTH: Final = 40
"""The maximum number of characters of start and duration."""

_SIZE_COLUMNS: Final = ("static", "dynamic", "size", "throughput")
_INTEGER_COLUMNS: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers", "context", "stream"),
)
_BULK_NUMBER: Final = f"^{NUMBER}$"


def can_read_csv_bulk(layout: CsvLayout) -> bool:
    """Return whether `CsvBulk` can read a layout: as nvprof prints it, without a prefix before the rows."""
    names = layout.columns[2:-1] if layout.columns[-1] == "correlation" else layout.columns[2:]
    return (
        layout.columns[:2] == ("start", "duration")
        and bool(names)
        and names[-1] == "name"
        and layout.line_prefix.fullmatch("") is not None
        and layout.line_prefix.fullmatch("0") is None
        and {"start", "duration"} <= set(layout.units)
    )


class CsvBulk(TraceBulkReader):
    """Reads the plain rows of one CSV table.

    Whether cells are of an API call is known only after parsing: the codes of the dictionary have it in their
    lowest bit.
    """

    def __init__(self, layout: CsvLayout, table: TraceTable) -> None:
        super().__init__(table)
        self._layout = layout
        self._has_ids = layout.columns[-1] == "correlation"
        self._columns = layout.columns[2:-1] if self._has_ids else layout.columns[2:]
        # Rows that every CSV parser splits in the same way.
        self._regular = rf'^(?:(?:"[^"]*"|[^",]*),){{{len(self._columns) - 1}}}"[^"]*"$'

    def _rows(self, data: Bytes, begins: Positions, ends: Positions, ascii_lines: Mask | None) -> BulkRows:
        """Read rows that begin with two plain numbers, and look up the cells between them and the id."""
        # Never read beyond the data: a last row that is too short is not plain.
        row_count = int(np.searchsorted(begins, len(data) - _TIMES_WIDTH, "right"))
        begins, ends = begins[:row_count], ends[:row_count]
        times = fixed_width_cells(data, begins, _TIMES_WIDTH)
        commas = times == ord(",")
        first_comma = commas.argmax(axis=1)
        commas[np.arange(row_count), first_comma] = False
        second_comma = commas.argmax(axis=1)
        is_plain = (
            (first_comma > 0)
            & (second_comma > first_comma)
            & (begins + second_comma < ends - 1)
            & (len(data) > 2 * _TIMES_WIDTH)
        )
        if ascii_lines is not None:
            is_plain &= ascii_lines[:row_count]
        index = np.flatnonzero(is_plain)
        if len(index) < row_count:
            begins, ends, first_comma, second_comma = (
                begins[index],
                ends[index],
                first_comma[index],
                second_comma[index],
            )
        cell_starts = begins + second_comma + 1
        ids, cell_ends, is_regular = self._ids(data, cell_starts, ends)
        looked_up = self._start_lookup(data, cell_starts, cell_ends)
        # The times of a block are read together, so that they stay in the CPU cache.
        times, offsets = times.reshape(-1), index * _TIMES_WIDTH
        start, is_number = read_millionths(times, offsets, offsets + first_comma)
        is_regular &= is_number
        duration, is_number = read_millionths(times, offsets + first_comma + 1, offsets + second_comma)
        no_duration = second_comma == first_comma + 1
        is_regular &= is_number | no_duration
        codes = self._row_codes(data, cell_starts, cell_ends, is_regular, looked_up)
        is_api = (codes >= 0) & (codes & 1 == 1)
        units = self._layout.units
        return BulkRows(
            index,
            _millionths_to_ns(start, units["start"]),
            np.where(no_duration, -1, _millionths_to_ns(duration, units["duration"])),
            ids,
            is_api,
            np.where(codes >= 0, codes >> 1, IRREGULAR),
            np.full(len(index), len(str(NS_PER_UNIT[units["start"]])) - 1 - 6),
        )

    def _ids(self, data: Bytes, cell_starts: Positions, ends: Positions) -> tuple[Positions, Positions, Mask]:
        """Return correlation ids, the end of the name before each (without its quotation mark), and the plain rows."""
        ids = np.full(len(ends), -1, np.int64)
        is_regular: Mask = np.ones(len(ends), np.bool_)
        if self._has_ids:
            ids, count = trailing_digits(data, ends)
            ids[count == 0] = -1
            ends = ends - count - 1
            is_regular = data[ends] == ord(",")
        is_regular &= data[ends - 1] == ord('"')
        # An API call, which has no grid, has the id within the brackets around the kernel's name.
        last_char = data[ends - 2]
        bracket = (last_char == ord(")")) & (data[ends - 3] == ord("]"))
        if not self._layout.is_api:
            bracket &= data[cell_starts] == ord(",")
        name_ends = ends - 1
        candidates = np.flatnonzero(bracket | (last_char == ord("]")))
        if len(candidates):
            ids_in_name, ends_before = trailing_ids(data, name_ends[candidates] - bracket[candidates])
            has_id = ids_in_name >= 0
            rows = candidates[has_id]
            name_ends[rows] = ends_before[has_id]
            ids[rows] = np.where(ids[rows] < 0, ids_in_name[has_id], ids[rows])
        return ids, name_ends, is_regular & (name_ends > cell_starts)

    def _parse_codes(self, data: Bytes, cell_starts: Positions, ends: Positions) -> npt.NDArray[np.int32]:
        """Parse the cells as CSV; rows that other parsers might split differently are irregular."""
        codes = np.full(len(ends), IRREGULAR, np.int32)
        # The name's closing quotation mark follows the id.
        rows = strings(data, cell_starts, ends) + '"'
        is_regular = rows.str.contains(self._regular)
        if not is_regular.all():
            regular_rows = np.flatnonzero(is_regular)
            if len(regular_rows):
                codes[regular_rows] = self._parse_codes(data, cell_starts[regular_rows], ends[regular_rows])
            return codes
        frame = pl.read_csv("\n".join(rows).encode(), has_header=False, schema=dict.fromkeys(self._columns, pl.String))
        is_plain = frame.select(pl.all_horizontal(self._checks()).fill_null(False)).to_series()
        is_api = frame.select(self._is_api()).to_series()
        names = frame["name"].filter(is_plain & is_api)
        codes[(is_plain & is_api).to_numpy()] = [2 * self._table.api_code(api_name(name)) + 1 for name in names]
        cells = frame.filter(is_plain & ~is_api).select(self._cells())
        if cells.height:
            first_code = self._table.add_cells(cells)
            codes[(is_plain & ~is_api).to_numpy()] = 2 * np.arange(first_code, first_code + cells.height)
        return codes

    def _is_api(self) -> pl.Expr:
        if self._layout.is_api:
            return pl.col("name").is_not_null()
        is_named = ~pl.col("name").str.starts_with("[")
        return pl.all_horizontal(
            is_named, *(pl.col(column).is_null() for column in ("grid_x", "device") if column in self._columns)
        )

    def _checks(self) -> list[pl.Expr]:
        """Return the conditions on the cells of a plain row."""
        checks = [pl.col("name").is_not_null(), pl.col("name").str.strip_chars() == pl.col("name")]
        for column in self._columns[:-1]:
            cell = pl.col(column)
            if column in _INTEGER_COLUMNS:
                checks.append(cell.is_null() | cell.str.contains("^[0-9]{1,9}$"))
            elif column in _SIZE_COLUMNS:
                checks.append(cell.is_null() | (cell.str.contains(_BULK_NUMBER) & (column in self._layout.units)))
            elif column == "um":
                checks.append(cell.is_null() | ~cell.str.contains("[B.]") | cell.str.contains(_BULK_NUMBER))
            else:
                checks.append(cell.is_null() | ((cell.str.strip_chars() == cell) & (cell != "-")))
        return checks

    def _cells(self) -> list[pl.Expr]:
        """Return the columns of `CELLS`."""
        columns = {column: pl.col(column) for column in self._columns if column in CELLS}
        units = self._layout.units
        for column in _SIZE_COLUMNS:
            if column in columns:
                position = SIZE_UNITS.index(units.get(column, "B").removesuffix("/s"))
                columns[f"{column}_power"] = pl.when(columns[column].is_not_null()).then(position)
        if "um" in self._columns and "um" in units:
            # The column also holds program counters and counts of pages.
            size = pl.when(pl.col("um").str.contains(".", literal=True)).then("um")
            power = pl.when(size.is_not_null()).then(SIZE_UNITS.index(units["um"]))
            columns["size"] = pl.coalesce(columns["size"], size) if "size" in columns else size
            columns["size_power"] = pl.coalesce(columns["size_power"], power) if "size_power" in columns else power
        for column in ("src_memory", "dst_memory"):
            if column in columns:
                columns[column] = columns[column].str.to_lowercase()
        return [
            columns[name].cast(dtype).alias(name) if name in columns else pl.lit(MISSING[name], dtype).alias(name)
            for name, dtype in CELLS.items()
        ]


def _millionths_to_ns(millionths: Positions, unit: str) -> Positions:
    factor = NS_PER_UNIT[unit]
    if factor >= 10**6:
        return millionths * (factor // 10**6)
    return np.rint(millionths / (10**6 // factor)).astype(np.int64)


_MIN_BULK_CELLS: Final = 8
_NUMBER: Final = re.compile(NUMBER)


class CsvTrace:
    """The rows of a trace in CSV."""

    def __init__(self, layout: CsvLayout, state: NvprofState, table: TraceTable) -> None:
        self.table = table
        self._layout = layout
        self._state = state
        self._is_below_header = True
        self._is_over = False
        self._last_start_ns = 0
        self._bulk: CsvBulk | None = None
        self._block: Block | None = None

    def take(self, line: Line) -> bool:
        """Read a row; the layout's units, if it is the line below the header."""
        if self._is_below_header:
            if not line.text.strip():
                return True
            self._is_below_header = False
            with_units = self._layout.units_from(line.text)
            if with_units is not None:
                self._layout = with_units
                return True
        cells = self._layout.cells(line.text)
        if cells is None:
            return self._is_damaged(line) or is_next_row(self._block, line, self._is_row)
        values = dict(zip(self._layout.columns, cells, strict=True))
        if not _NUMBER.fullmatch(values["start"]):
            again = csv_header(line.text)
            if again is not None and again.columns == self._layout.columns and not self._layout.units:
                return True
            if self._layout.units_from(line.text) is not None:
                # The units of another table, whose header is missing: this one's units do not apply to its rows.
                self._is_over = True
                return False
            return self._is_damaged(line) or is_next_row(self._block, line, self._is_row)
        self._read(line, values)
        return True

    def take_block(self, block: Block, start: int) -> int:
        """Read rows in bulk, and rows that are not plain one by one."""
        self._block = block
        if self._is_below_header or not can_read_csv_bulk(self._layout):
            return start
        if self._bulk is None:
            self._note_unit()
            self._bulk = CsvBulk(self._layout, self.table)
        return self._bulk.take(block, start, self.take)

    def _note_unit(self) -> None:
        self.table.duration_step_ns = NS_PER_UNIT.get(self._layout.units.get("duration", ""), 0) // 10**6

    def close(self) -> None:
        """Keep the table open: rows may continue after program output."""
        self._state.interrupted_trace = self

    def new_trace_without_header(self, line: Line, new_table: Callable[[bool], TraceTable]) -> CsvTrace | None:
        """Return the next trace, if the line is its row of units and its header, equal to this one's, is missing."""
        layout = repeated_units(self._layout, line.text)
        if layout is None:
            return None
        table = new_table(layout.is_api)
        table.damaged(line.number, line.text, MISSING_SECOND_HEADER)
        return CsvTrace(layout, self._state, table)

    def resume(self, line: Line) -> bool:
        """Read a row after other text, if it can only be of this table."""
        cells = None if self._is_over else self._layout.cells(line.text)
        if cells is None or self._state.collector.session is not self.table.session:
            return False
        values = dict(zip(self._layout.columns, cells, strict=True))
        if not _NUMBER.fullmatch(values["start"]) or self._start_ns(values) < self._last_start_ns:
            return False
        self._read(line, values)
        return True

    def _is_row(self, text: str) -> bool:
        """Return whether a line is an undamaged row."""
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
        """Report a line that is a truncated or damaged row; returns whether it is one."""
        prefix = self._layout.line_prefix.match(line.text)
        cells = csv_cells(line.text[prefix.end() :]) if prefix else []
        wanted = len(self._layout.columns)
        begins = len(cells) >= 3 and _NUMBER.fullmatch(cells[0]) and (_NUMBER.fullmatch(cells[1]) or not cells[1])
        # No program output has as many cells as a row of a GPU trace and begins with a digit.
        is_wide = wanted // 2 >= _MIN_BULK_CELLS <= len(cells) and cells[0][:1].isdecimal()
        if not begins and not is_wide:
            return False
        problem = (
            f"the row has {len(cells)} cells, not {wanted}" if len(cells) != wanted else "the start is not a number"
        )
        self.table.damaged(line.number, line.text, f"{problem}: row skipped")
        return True

    def _read(self, line: Line, values: dict[str, str]) -> None:
        """Add the row of a line, or report why it is skipped."""
        units = self._layout.units
        self._note_unit()
        try:
            start_ns = self._start_ns(values)
            duration = values["duration"]
            duration_ns = time_ns(duration, units.get("duration")) if duration else None
            api = self._layout.is_api or is_api(values)
            name, correlation = split_correlation(values["name"], api=api)
            if values.get("correlation"):
                correlation = parse_integer(values["correlation"])
            if not name and not values.get("grid_x"):
                raise ValueError("the row is truncated before its name")
            cells = None if api else parse_cells({**values, "name": name}, units)
            code = self.table.api_code(name) if cells is None else self.table.cell_code(cells)
        except ValueError as error:
            self.table.damaged(line.number, line.text, f"{error}: row skipped")
            return
        self._last_start_ns = start_ns
        self.table.note_step(time_step_ns(values["start"], units.get("start")))
        (self.table.api if api else self.table.gpu).add(line.number, start_ns, duration_ns, correlation, code)
