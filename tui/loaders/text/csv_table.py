"""Reads tables of separated values out of a text in bulk; shared by the formats that print CSV."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tui.loaders.text.section import LINE, MAX_STRAY_LINES, TableSink, split_cells, unique_names

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from tui.loaders.text.block import Block, Line

_QUOTE: Final = ord('"')
_MAX_LINES_OF_A_ROW: Final = 400
"""A quoted cell can hold line ends, as a stack does; one that goes on for longer is a quotation mark that was lost."""

_FIRST_CHUNK: Final = 64
_GROWTH: Final = 16
"""So many lines are read at once at first, and so many times more each time that all were rows."""

_WIDE: Final = 5
"""A line with as many cells as a table of so many columns is a row, also where a quotation mark above has no end."""

_LEAST_SEPARATORS: Final = 3
"""A line with so many among the rows of a table is one of them, damaged; one with fewer is program output."""

_ROW_START: Final = re.compile(r'\s*(?:"?-?[0-9][0-9.]*"?\s*(?:[,;\t]|$)|"[^"]*"[,;\t])')
"""How a row with a number or a quoted cell in front begins, and all that may be left of one."""


class CsvTable:
    """The rows below a header, as a `tui.loaders.text.section.BulkSection`."""

    def __init__(
        self,
        columns: Sequence[str],
        sink: TableSink,
        *,
        separator: str = ",",
        header: re.Pattern[str],
        ends: re.Pattern[str],
        widths: Collection[int] = (),
        last_is_text: bool = False,
        whole: Collection[str] = (),
    ) -> None:
        """Read rows of a table.

        Args:
            columns: A name for each column; they are made distinct.
            sink: Where rows go.
            separator: One character.
            header: Matches the whole first cell of a header: a row that has such a cell begins another table.
            ends: Matches the beginning of a line that is not of this table.
            widths: How many cells rows can have beside all; those that are missing are null.
            last_is_text: The last cell may hold separators without quotation marks around it.
            whole: Columns of whole numbers: the sink can get them as such where all of many rows are.
        """
        self._columns = unique_names(columns)
        self._sink = sink
        self._separator = separator
        self._header = header
        self._ends = ends
        self._widths = {len(self._columns), *widths}
        self._last_is_text = last_is_text
        self._types = [
            {name: pl.Int64() if typed and name in whole else pl.String() for name in self._columns}
            for typed in ((True, False) if whole else (False,))
        ]
        self._rows: list[list[str | None]] = []
        self._lines: list[int] = []
        self._pending: list[Line] = []
        self._chunk = _FIRST_CHUNK
        self._stray = 0
        self._blank = False

    def take(self, line: Line) -> bool:
        """Read one line: a row, a part of one, a damaged one, or output of the program between rows."""
        if self._ends.match(line.text):
            return False
        if self._pending:
            return self._go_on(line)
        if not line.text.strip():
            self._blank = True
            return True
        if line.text.count('"') % 2:
            self._pending = [line]
            return True
        return self._take_row(line.text, line)

    def _go_on(self, line: Line) -> bool:
        """Go on with a row whose quoted cell holds line ends."""
        if self._separator in line.text and self._is_header(line.text):
            while self._pending:
                self._give_up()
            return False
        self._pending.append(line)
        if (
            len(self._columns) >= _WIDE
            and _ROW_START.match(line.text)
            and line.text.count(self._separator) >= len(self._columns) - 1
        ):
            # What goes on is a row itself, so the quotation mark above was lost.
            return self._give_up()
        if line.text.count('"') % 2:
            text = "\n".join(part.text for part in self._pending)
            cells = split_cells(text, self._separator)
            if len(cells) in self._widths:
                first, self._pending = self._pending[0], []
                return self._take_cells(cells, first)
        elif len(self._pending) <= _MAX_LINES_OF_A_ROW:
            return True
        return self._give_up()

    def _give_up(self) -> bool:
        """A quotation mark was lost: its line is damaged, and those below are read on their own."""
        first, *others = self._pending
        self._pending = []
        self._sink.damaged(first, "a quotation mark of this row has no end; it is left out")
        goes_on = True
        for line in others:
            goes_on &= self.take(line)
        return goes_on

    def _take_row(self, text: str, line: Line) -> bool:
        cells = split_cells(text, self._separator)
        width = len(self._columns)
        if len(cells) > width and self._last_is_text:
            cells[width - 1 :] = [self._separator.join(cells[width - 1 :])]
        if len(cells) in self._widths:
            return self._take_cells(cells, line)
        separators = text.count(self._separator)
        if cells and self._header.fullmatch(cells[0].strip()) and separators:
            return False
        if separators >= _LEAST_SEPARATORS or _ROW_START.match(text):
            self._sink.damaged(line, f"expected a row of {width} cells, found {len(cells)}; it is left out")
            return True
        self._stray += 1
        return not self._blank and self._stray <= MAX_STRAY_LINES

    def _take_cells(self, cells: list[str], line: Line) -> bool:
        if self._header.fullmatch(cells[0].strip()):
            return False
        padded: list[str | None] = [cell or None for cell in cells]
        self._rows.append(padded + [None] * (len(self._columns) - len(cells)))
        self._lines.append(line.number)
        self._stray, self._blank = 0, False
        return True

    def take_block(self, block: Block, start: int) -> int:
        """Read plain rows: each on a line of its own, with as many cells as the header has.

        A table may end soon, so few lines are looked at first, and then more and more.
        """
        if self._pending or self._is_header(block.raw(start).decode("utf-8", "replace")):
            return start
        while start < block.line_count:
            stop = min(start + self._chunk, block.line_count)
            read = self._take_chunk(block, start, stop)
            if read < stop:
                self._chunk = _FIRST_CHUNK
                return read
            start = stop
            self._chunk *= _GROWTH
        return start

    def _is_header(self, text: str) -> bool:
        return self._header.fullmatch(text.split(self._separator, 1)[0].strip().strip('"')) is not None

    def _take_chunk(self, block: Block, start: int, stop: int) -> int:
        """Read the plain rows of some lines; the index of the first that is none."""
        cells = self._read(block, start, stop)
        if cells is None:
            stop = self._plain_until(block, start, stop)
            cells = self._read(block, start, stop) if stop > start else None
        if cells is None:
            return start
        if cells.schema[self._columns[0]] == pl.String:
            headers = cells[self._columns[0]].str.contains(f"^(?:{self._header.pattern})$").fill_null(False)
            if headers.any():
                stop = start + int(headers.arg_max() or 0)
                cells = cells.head(stop - start)
        if cells.height:
            self._add_rows()
            first = block.first_line + start
            lines = pl.int_range(first, first + cells.height, dtype=pl.UInt32, eager=True)
            self._sink.add(cells.with_columns(lines.alias(LINE)))
            self._stray, self._blank = 0, False
        return stop

    def _read(self, block: Block, start: int, stop: int) -> pl.DataFrame | None:
        """The cells of some lines; None where they are not a row each, with all cells.

        Polars takes line ends within quotes into a cell, and fills rows up that are too short: neither goes unseen.
        """
        data = block.data[block.starts[start] : block.starts[stop]]
        if not block.is_ascii:
            # In a block with other characters, a damaged one must not spoil the rest.
            data = data.decode("utf-8", "replace").encode()
        cells = self._parse(data)
        if cells is None or cells.height != stop - start:
            return None
        last = cells[self._columns[-1]]
        if last.null_count() and not (self._plain(block, start, stop)).all():
            return None
        return cells

    def _parse(self, data: bytes) -> pl.DataFrame | None:
        while True:
            schema = pl.Schema(self._types[0])
            try:
                return pl.read_csv(
                    data, has_header=False, separator=self._separator, schema=schema, null_values=["", "None"]
                )
            except PolarsError:
                if len(self._types) == 1:
                    return None
                # A column is not what it was thought to be: all are strings from here on.
                del self._types[0]

    def _plain_until(self, block: Block, start: int, stop: int) -> int:
        """The index of the first line that is no plain row by its quotation marks and separators."""
        plain = self._plain(block, start, stop)
        return stop if plain.all() else start + int(plain.argmin())

    def _plain(self, block: Block, start: int, stop: int) -> npt.NDArray[np.bool_]:
        begin, end = int(block.starts[start]), int(block.starts[stop])
        if begin == end:
            return np.zeros(0, np.bool_)
        data = block.array[begin:end]
        begins = block.starts[start:stop] - begin
        in_quotes = np.cumsum(data == _QUOTE, dtype=np.uint8) & 1
        outside = (data == ord(self._separator)) & (in_quotes == 0)
        separators = np.add.reduceat(outside, begins, dtype=np.int32)
        # Every line up to here has ended its quotes: the newline is outside of them.
        closed = in_quotes[block.starts[start + 1 : stop + 1] - begin - 1] == 0
        fits = (
            np.isin(separators + 1, list(self._widths))
            if len(self._widths) > 1
            else separators + 1 == len(self._columns)
        )
        return np.asarray(closed & fits, np.bool_)

    def _add_rows(self) -> None:
        if self._rows:
            cells = pl.DataFrame(self._rows, schema=dict.fromkeys(self._columns, pl.String), orient="row")
            self._sink.add(cells.with_columns(pl.Series(LINE, self._lines, pl.UInt32)))
            self._rows, self._lines = [], []

    def close(self) -> None:
        """Hand over the last rows."""
        while self._pending:
            self._give_up()
        self._add_rows()
        self._sink.close()
