"""Reads tables of separated values out of a text in bulk; shared by the formats that print CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tui.loaders.text.block import Block
from tui.loaders.text.cell_values import decimal_sign
from tui.loaders.text.section import LINE, MAX_STRAY_LINES, TableSink, split_cells, unique_names

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from tui.loaders.text.block import Cues, Line


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


_LEAST: Final = 3
"""Semicolons in a line of a table."""
_MOST_HEADERS: Final = 50
"""So many lines of the beginning that may be a header are looked at."""
_TITLE: Final = re.compile(r"[^,]{1,60}|[^,\s]{1,160}")
"""The title of a column: a few words, or the name of a metric."""
_NUMBER: Final = r"^[+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?$"
_OF_COMMA: Final = r"^[+-]?(?:[0-9]+|[0-9]{1,3}(?:\.[0-9]{3})+)(?:,[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
"""A number with a decimal comma, maybe with points between thousands."""


@dataclass(frozen=True, slots=True)
class Semicolons:
    """How a text writes its tables."""

    has_comma: bool | None
    """Whether numbers have a decimal comma; None where they prove neither: nothing is read of them then."""

    @property
    def words(self) -> str:
        """What to say of it."""
        if self.has_comma is None:
            return (
                "cells are separated by semicolons, and it is ambiguous whether numbers have a decimal comma: save the "
                "table with commas between cells and decimal points"
            )
        numbers = "a decimal comma" if self.has_comma else "a decimal point"
        return f"cells are separated by semicolons, as spreadsheets save them, and numbers have {numbers}: read as such"

    def with_commas(self, block: Block) -> Block:
        """The same lines, those of tables with commas between cells and decimal points."""
        if self.has_comma is None:
            return block
        lines = block.data.split(b"\n")[:-1]
        counts = np.array([line.count(b";") for line in lines])
        for count in np.unique(counts[counts >= _LEAST]):
            places = np.flatnonzero(counts == count)
            for place, line in zip(places, self._rewritten([lines[place] for place in places]), strict=True):
                lines[place] = line
        made = Block.of(b"".join(line + b"\n" for line in lines), block.first_line)
        made.bytes_read = block.bytes_read
        return made

    def _rewritten(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Lines with as many semicolons; as they are where they are no cells."""
        cells = _cells(lines)
        if cells is None:
            # One of them is damaged, which costs it alone.
            halves = (lines[: len(lines) // 2], lines[len(lines) // 2 :])
            return lines if len(lines) == 1 else [line for half in halves for line in self._rewritten(half)]
        if self.has_comma:
            plain = pl.all().str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
            cells = cells.with_columns(pl.when(pl.all().str.contains(_OF_COMMA)).then(plain).otherwise(pl.all()))
        is_row = cells.select(pl.any_horizontal(pl.all().str.contains(_NUMBER).fill_null(False))).to_series()
        written = [
            cells.write_csv(include_header=False, quote_style=style).encode().split(b"\n")[:-1]
            for style in ("always", "necessary")
        ]
        if any(len(one) != len(lines) for one in written):
            return lines
        # Headers are quoted, as tools write them.
        return [rows if row else headers for headers, rows, row in zip(*written, is_row, strict=True)]


def semicolons_in(head: bytes, cues: Cues) -> Semicolons | None:
    """How the tables of a text are written, where a header with semicolons proves it; None elsewhere.

    Args:
        head: The beginning of the text.
        cues: Find headers with commas.
    """
    if head.count(b";") < _LEAST:
        return None
    lines = [line for line in head.splitlines() if line.count(b";") >= _LEAST]
    for place, line in enumerate(lines[:_MOST_HEADERS]):
        cells = split_cells(line.decode("utf-8", "replace"), ";")
        header = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells).encode()
        names = {cell for cell in cells if _TITLE.fullmatch(cell)}
        if not _LEAST < len(names) == len(cells) or line.startswith(b"==") or not cues.are_in(header):
            continue
        # The last line may be cut.
        whole = lines if head.endswith(b"\n") else lines[:-1]
        rows = [split_cells(row.decode("utf-8", "replace"), ";") for row in whole[place + 1 :] or lines[place + 1 :]]
        texts = pl.Series([cell for row in rows for cell in row], dtype=pl.String)
        numbers = texts.filter(texts.str.contains(_NUMBER))
        sign = decimal_sign(numbers)
        is_open = sign is None and numbers.str.contains(r"[.,]").any()
        return Semicolons(None if is_open else sign == ",")
    return None


def _cells(lines: Sequence[bytes]) -> pl.DataFrame | None:
    """The cells of lines, a column each, all text; None where not each line is a row with all cells."""
    width = len(split_cells(lines[0].decode("utf-8", "replace"), ";"))
    if width <= _LEAST:
        return None
    data = b"".join(line + b"\n" for line in lines).decode("utf-8", "replace").encode()
    schema = {f"cell {number}": pl.String() for number in range(width)}
    try:
        cells = pl.read_csv(data, has_header=False, separator=";", schema=schema)
    except pl.exceptions.PolarsError:
        return None
    # Quotation marks that have no end take other lines in, and a name may hold a semicolon.
    is_whole = cells.height == len(lines) and not data.count(b'"') % 2
    return cells if is_whole and cells.to_series(width - 1).null_count() < max(len(lines), 2) else None
