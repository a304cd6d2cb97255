"""Reads tables of separated values in a text, in bulk; converts semicolons and decimal commas of spreadsheets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tui.loaders.text.block import Block
from tui.loaders.text.section import (
    LINE_COLUMN,
    MAX_STRAY_LINES,
    TableSink,
    decimal_separator,
    split_cells,
    unique_names,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from tui.loaders.text.block import Cues, Line


_QUOTE: Final = ord('"')
_MAX_ROW_LINES: Final = 400
"""The maximum number of lines of a quoted cell, such as a stack; beyond it the closing quotation mark is missing."""

_FIRST_CHUNK: Final = 64
_GROWTH: Final = 16
"""The first chunk of lines, and the factor by which chunks grow while all lines are rows."""

_MIN_WIDE_COLUMNS: Final = 5
"""In a table of this many columns, a line with all cells is a row even after an open quotation mark."""

_MIN_SEPARATORS: Final = 3
"""A line with at least this many separators among rows is a damaged row; with fewer it is program output."""

_ROW_START: Final = re.compile(r'\s*(?:"?-?[0-9][0-9.]*"?\s*(?:[,;\t]|$)|"[^"]*"[,;\t])')
"""The beginning of a row: a number or a quoted cell."""


class CsvTable:
    """The rows below a header, as a `tui.loaders.text.section.BulkSection`."""

    def __init__(
        self,
        columns: Sequence[str],
        sink: TableSink,
        *,
        separator: str = ",",
        header: re.Pattern[str],
        end_pattern: re.Pattern[str],
        widths: Collection[int] = (),
        last_is_text: bool = False,
        integer_columns: Collection[str] = (),
    ) -> None:
        """Read rows of a table.

        Args:
            columns: A name for each column; they are made distinct.
            sink: Gets the rows.
            separator: One character.
            header: Matches the whole first cell of a header: such a row begins another table.
            end_pattern: Matches the beginning of a line that is not of this table.
            widths: Other numbers of cells that rows can have; missing cells are null.
            last_is_text: The last cell may contain separators without being quoted.
            integer_columns: Columns of integers, which the sink may get as such if all cells of a chunk are.
        """
        self._columns = unique_names(columns)
        self._sink = sink
        self._separator = separator
        self._header = header
        self._end_pattern = end_pattern
        self._widths = {len(self._columns), *widths}
        self._last_is_text = last_is_text
        self._types = [
            {name: pl.Int64() if use_integers and name in integer_columns else pl.String() for name in self._columns}
            for use_integers in ((True, False) if integer_columns else (False,))
        ]
        self._rows: list[list[str | None]] = []
        self._line_numbers: list[int] = []
        self._pending: list[Line] = []
        self._chunk_lines = _FIRST_CHUNK
        self._stray = 0
        self._blank = False

    def take(self, line: Line) -> bool:
        """Read a line: a row, a part of one, a damaged row, or program output between rows."""
        if self._end_pattern.match(line.text):
            return False
        if self._pending:
            return self._continue_row(line)
        if not line.text.strip():
            self._blank = True
            return True
        if line.text.count('"') % 2:
            self._pending = [line]
            return True
        return self._take_row(line.text, line)

    def _continue_row(self, line: Line) -> bool:
        """Continue a row whose quoted cell contains newlines."""
        if self._separator in line.text and self._is_header(line.text):
            while self._pending:
                self._drop_first_pending()
            return False
        self._pending.append(line)
        if (
            len(self._columns) >= _MIN_WIDE_COLUMNS
            and _ROW_START.match(line.text)
            and line.text.count(self._separator) >= len(self._columns) - 1
        ):
            # This line is a row itself, so the closing quotation mark above is missing.
            return self._drop_first_pending()
        if line.text.count('"') % 2:
            text = "\n".join(part.text for part in self._pending)
            cells = split_cells(text, self._separator)
            if len(cells) in self._widths:
                first_line, self._pending = self._pending[0], []
                return self._take_cells(cells, first_line)
        elif len(self._pending) <= _MAX_ROW_LINES:
            return True
        return self._drop_first_pending()

    def _drop_first_pending(self) -> bool:
        """Read the lines of an unclosed quoted cell one by one; its first line is damaged."""
        first_line, *other_lines = self._pending
        self._pending = []
        self._sink.damaged(first_line, "unclosed quotation mark: row skipped")
        is_read = True
        for line in other_lines:
            is_read &= self.take(line)
        return is_read

    def _take_row(self, text: str, line: Line) -> bool:
        """Read a line that begins no quoted cell: a row, a damaged row, or program output."""
        # Blanks around a line are those of a comment, or of the terminal that it was copied from.
        cells = split_cells(text.strip(" "), self._separator)
        width = len(self._columns)
        if len(cells) > width and self._last_is_text:
            cells[width - 1 :] = [self._separator.join(cells[width - 1 :])]
        if len(cells) in self._widths:
            return self._take_cells(cells, line)
        separators = text.count(self._separator)
        if cells and self._header.fullmatch(cells[0].strip()) and separators:
            return False
        if separators >= _MIN_SEPARATORS or _ROW_START.match(text):
            self._sink.damaged(line, f"expected {width} cells, found {len(cells)}: row skipped")
            return True
        self._stray += 1
        return not self._blank and self._stray <= MAX_STRAY_LINES

    def _take_cells(self, cells: list[str], line: Line) -> bool:
        if self._header.fullmatch(cells[0].strip()):
            return False
        padded: list[str | None] = [cell or None for cell in cells]
        self._rows.append(padded + [None] * (len(self._columns) - len(cells)))
        self._line_numbers.append(line.number)
        self._stray, self._blank = 0, False
        return True

    def take_block(self, block: Block, start: int) -> int:
        """Read plain rows: each on a line of its own, with as many cells as the header has.

        A table may end soon, so chunks of lines grow from a small one.
        """
        if self._pending or self._is_header(block.raw(start).decode("utf-8", "replace")):
            return start
        while start < block.line_count:
            stop = min(start + self._chunk_lines, block.line_count)
            read = self._take_chunk(block, start, stop)
            if read < stop:
                self._chunk_lines = _FIRST_CHUNK
                return read
            start = stop
            self._chunk_lines *= _GROWTH
        return start

    def _is_header(self, text: str) -> bool:
        return self._header.fullmatch(text.split(self._separator, 1)[0].strip().strip('"')) is not None

    def _take_chunk(self, block: Block, start: int, stop: int) -> int:
        """Read the plain rows of some lines; the index of the first line that is no plain row."""
        cells = self._read(block, start, stop)
        if cells is None:
            stop = self._plain_stop(block, start, stop)
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
            first_number = block.first_line + start
            lines = pl.int_range(first_number, first_number + cells.height, dtype=pl.UInt32, eager=True)
            self._sink.add(cells.with_columns(lines.alias(LINE_COLUMN)))
            self._stray, self._blank = 0, False
        return stop

    def _read(self, block: Block, start: int, stop: int) -> pl.DataFrame | None:
        """Return the cells of some lines; None unless each line is one row with all cells.

        Polars accepts newlines within quotes, and pads short rows: both are detected here.
        """
        data = block.data[block.starts[start] : block.starts[stop]]
        if not block.is_ascii:
            # An invalid character must not affect the other rows of the block.
            data = data.decode("utf-8", "replace").encode()
        cells = self._parse(data)
        if cells is None or cells.height != stop - start:
            return None
        last_column = cells[self._columns[-1]]
        if last_column.null_count() and not (self._is_plain_row(block, start, stop)).all():
            return None
        return cells

    def _parse(self, data: bytes) -> pl.DataFrame | None:
        """Return the cells of some lines; None if Polars cannot read them."""
        while True:
            schema = pl.Schema(self._types[0])
            try:
                return pl.read_csv(
                    data, has_header=False, separator=self._separator, schema=schema, null_values=["", "None"]
                )
            except PolarsError:
                if len(self._types) == 1:
                    return None
                # A column is not of the expected type: all are strings from here on.
                del self._types[0]

    def _plain_stop(self, block: Block, start: int, stop: int) -> int:
        """Return the index of the first line that is no plain row, by its quotation marks and separators."""
        is_plain = self._is_plain_row(block, start, stop)
        return stop if is_plain.all() else start + int(is_plain.argmin())

    def _is_plain_row(self, block: Block, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Return which lines are rows with all cells, and without a newline in a quoted cell."""
        begin, end = int(block.starts[start]), int(block.starts[stop])
        if begin == end:
            return np.zeros(0, np.bool_)
        data = block.array[begin:end]
        line_offsets = block.starts[start:stop] - begin
        in_quotes = np.cumsum(data == _QUOTE, dtype=np.uint8) & 1
        is_separator = (data == ord(self._separator)) & (in_quotes == 0)
        separators = np.add.reduceat(is_separator, line_offsets, dtype=np.int32)
        # All quotes before this newline are closed, so it is outside of quotes.
        is_closed = in_quotes[block.starts[start + 1 : stop + 1] - begin - 1] == 0
        fits = (
            np.isin(separators + 1, list(self._widths))
            if len(self._widths) > 1
            else separators + 1 == len(self._columns)
        )
        return np.asarray(is_closed & fits, np.bool_)

    def _add_rows(self) -> None:
        if self._rows:
            cells = pl.DataFrame(self._rows, schema=dict.fromkeys(self._columns, pl.String), orient="row")
            self._sink.add(cells.with_columns(pl.Series(LINE_COLUMN, self._line_numbers, pl.UInt32)))
            self._rows, self._line_numbers = [], []

    def close(self) -> None:
        """Pass the last rows to the sink."""
        while self._pending:
            self._drop_first_pending()
        self._add_rows()
        self._sink.close()


_MIN_SEMICOLONS: Final = 3
"""The minimum number of semicolons in a line of a table."""
_MAX_HEADERS: Final = 50
"""The maximum number of lines at the beginning that are tried as a header."""
_TITLE: Final = re.compile(r"[^,]{1,60}|[^,\s]{1,160}")
"""A column title: a few words, or the name of a metric."""
_NUMBER: Final = r"^[+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?$"
_DECIMAL_COMMA_NUMBER: Final = (
    r"^[+-]?(?:[0-9]+|[0-9]{1,3}(?:\.[0-9]{3})+)(?:,[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
    r"|^[0-9]+,[0-9]+\t$"
)
"""A number with a decimal comma, optionally with points between thousands; times of Ascend's tools end in a tab."""


@dataclass(frozen=True, slots=True)
class Semicolons:
    """The decimal separator of tables whose cells are separated by semicolons."""

    has_comma: bool | None
    """Whether numbers have a decimal comma; None if ambiguous: then they are not read."""

    @property
    def issue_text(self) -> str:
        """The text of the issue."""
        if self.has_comma is None:
            return (
                "cells are separated by semicolons, and the decimal separator is ambiguous: save the table with "
                "comma-separated cells and decimal points"
            )
        numbers = "a decimal comma" if self.has_comma else "a decimal point"
        return f"read as a spreadsheet export: cells separated by semicolons, numbers with {numbers}"

    def convert(self, block: Block) -> Block:
        """Return the block, its tables converted to commas between cells and decimal points."""
        if self.has_comma is None:
            return block
        lines = block.data.split(b"\n")[:-1]
        counts = np.array([line.count(b";") for line in lines])
        for count in np.unique(counts[counts >= _MIN_SEMICOLONS]):
            positions = np.flatnonzero(counts == count)
            for position, line in zip(
                positions, self._converted_lines([lines[position] for position in positions]), strict=True
            ):
                lines[position] = line
        converted = Block.from_data(b"".join(line + b"\n" for line in lines), block.first_line)
        converted.bytes_read = block.bytes_read
        return converted

    def _converted_lines(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Convert lines with the same number of semicolons; lines that are no cells stay unchanged."""
        cells = _cells(lines)
        if cells is None:
            # One of the lines is damaged: convert them one by one.
            halves = (lines[: len(lines) // 2], lines[len(lines) // 2 :])
            return lines if len(lines) == 1 else [line for half in halves for line in self._converted_lines(half)]
        if self.has_comma:
            normalized = pl.all().str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
            cells = cells.with_columns(
                pl.when(pl.all().str.contains(_DECIMAL_COMMA_NUMBER)).then(normalized).otherwise(pl.all())
            )
        is_row = cells.select(pl.any_horizontal(pl.all().str.contains(_NUMBER).fill_null(False))).to_series()
        written = [
            cells.write_csv(include_header=False, quote_style=style).encode().split(b"\n")[:-1]
            for style in ("always", "necessary")
        ]
        if any(len(written_lines) != len(lines) for written_lines in written):
            return lines
        # Quoted, as tools write headers.
        return [rows if row else headers for headers, rows, row in zip(*written, is_row, strict=True)]


def detect_semicolons(head: bytes, cues: Cues) -> Semicolons | None:
    """Return the format of a text's tables if a header with semicolons proves it, otherwise None.

    Args:
        head: The beginning of the text.
        cues: The cues of headers, with commas.
    """
    if head.count(b";") < _MIN_SEMICOLONS:
        return None
    lines = [line for line in head.splitlines() if line.count(b";") >= _MIN_SEMICOLONS]
    for position, line in enumerate(lines[:_MAX_HEADERS]):
        cells = split_cells(line.decode("utf-8", "replace"), ";")
        header = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells).encode()
        names = {cell for cell in cells if _TITLE.fullmatch(cell)}
        if not _MIN_SEMICOLONS < len(names) == len(cells) or line.startswith(b"==") or not cues.match(header):
            continue
        # The last line may be cut off.
        complete_lines = lines if head.endswith(b"\n") else lines[:-1]
        rows = [
            split_cells(row.decode("utf-8", "replace"), ";")
            for row in complete_lines[position + 1 :] or lines[position + 1 :]
        ]
        texts = pl.Series([cell for row in rows for cell in row], dtype=pl.String)
        numbers = texts.filter(texts.str.contains(_NUMBER))
        separator = decimal_separator(numbers)
        is_ambiguous = separator is None and numbers.str.contains(r"[.,]").any()
        return Semicolons(None if is_ambiguous else separator == ",")
    return None


def _cells(lines: Sequence[bytes]) -> pl.DataFrame | None:
    """Return the cells of lines as text columns; None unless each line is a row with all cells."""
    width = len(split_cells(lines[0].decode("utf-8", "replace"), ";"))
    if width <= _MIN_SEMICOLONS:
        return None
    data = b"".join(line + b"\n" for line in lines).decode("utf-8", "replace").encode()
    schema = {f"cell {number}": pl.String() for number in range(width)}
    try:
        cells = pl.read_csv(data, has_header=False, separator=";", schema=schema)
    except pl.exceptions.PolarsError:
        return None
    # An open quotation mark swallows lines, and a name may contain a semicolon.
    is_whole = cells.height == len(lines) and not data.count(b'"') % 2
    return cells if is_whole and cells.to_series(width - 1).null_count() < max(len(lines), 2) else None
