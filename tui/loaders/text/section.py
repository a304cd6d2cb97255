"""The interfaces of text formats, and what their tables share: cells as numbers and times.

A text log is read once, top to bottom, by `text_log.py`. Each line goes to the open `Section` (a table) until it
declines; then to each format's `TextReader`, which may read the line, open a section with it, or decline: lines that
all decline are program output, shown only in the Log view.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.loaders.base import Format
    from tui.loaders.collector import Collector
    from tui.loaders.text.block import Block, Line


class Section(Protocol):
    """A table, or another group of lines, that is being read."""

    def take(self, line: Line) -> bool:
        """Read a line; False if it does not belong to this section, which is then closed."""

    def close(self) -> None:
        """End the section: add its rows to the collector."""


@runtime_checkable
class BulkSection(Section, Protocol):
    """A section that reads many rows at once."""

    def take_block(self, block: Block, start: int) -> int:
        """Read lines of a block from index ``start``, as long as they are plain rows of this section.

        Returns:
            The index of the first line that was not read; ``start`` if that line needs `take`.
        """


class TextReader(Protocol):
    """Reads the lines of one format in one text."""

    def begin(self, line: Line) -> Section | bool:
        """Read a line that no section took.

        Returns:
            The section that the line opens; True if the line was read; False if it is not of this format.
        """

    def finish(self) -> None:
        """Finish at the end of the text, after every section is closed."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format of text logs."""

    format: Format
    """The description of the format."""
    cue: bytes
    """A regular expression that matches in every line that `TextReader.begin` could read.

    Lines without a match are skipped at the speed of the regular expression engine, so it must miss nothing and should
    match little else. It is case-sensitive and searched in cleaned lines, with ``^`` and ``$`` at line ends, by Rust's
    engine: no look-around, no back-references.
    """
    reader: Callable[[Collector], TextReader]
    """Makes a reader for one text."""


MAX_STRAY_LINES: Final = 20
"""The most consecutive lines of program output within a table; after more, the table has ended."""

TRAILING_COMMENT: Final = re.compile(r"(?<=\S)\s+(?:#|//|<-+|\N{LEFTWARDS ARROW}) .*")
"""A comment that someone added to a row, which is then longer than the line of dashes."""

LINE_COLUMN: Final = "line"
"""The name of the column with the line of each row."""


class TableSink(Protocol):
    """Receives the rows of a table."""

    def add(self, cells: pl.DataFrame) -> None:
        """Add rows: a column of strings (null if empty) for each column of the table, and ``line``.

        Columns of integers may have an integer type.
        """

    def damaged(self, line: Line, reason: str) -> None:
        """Report a line that looks like a row and cannot be parsed."""

    def close(self) -> None:
        """Finish at the end of the table."""


def split_cells(text: str, separator: str = ",") -> list[str]:
    """Return the cells of a line; empty if it is not separated values.

    >>> split_cells('1,"f<int, 4>",')
    ['1', 'f<int, 4>', '']
    """
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return []


def unique_names(names: Sequence[str]) -> list[str]:
    """Return distinct names for columns: empty names, duplicates and ``line`` get a number.

    >>> unique_names(["name", "", "name", "line"])
    ['name', 'column 1', 'name 2', 'line 3']
    """
    unique_list: list[str] = []
    used = {LINE_COLUMN}
    for position, name in enumerate(names):
        unique = name or f"column {position}"
        if unique in used:
            unique = f"{unique} {position}"
        while unique in used:
            unique += "'"
        used.add(unique)
        unique_list.append(unique)
    return unique_list


_MARKUP: Final = re.compile(r"(`|\*\*)(.*)\1")


def markdown_cells(text: str) -> list[str]:
    """Return the cells of a row of a Markdown table, without the marks of code and bold text.

    >>> markdown_cells("| **9.5** | `f(int*)` | ProfilerStep* |")
    ['9.5', 'f(int*)', 'ProfilerStep*']
    """
    cells = [cell.strip() for cell in text.strip().removeprefix("|").removesuffix("|").split("|")]
    return [match[2] if (match := _MARKUP.fullmatch(cell)) else cell for cell in cells]


EMPTY_CELLS: Final = ("", "None", "-", "--", "N/A", "n/a", "NULL")
"""Placeholders that tools print for a missing value."""

NS_PER_UNIT: Final = MappingProxyType(
    {
        **{"ns": 1, "nsec": 1, "nsecond": 1, "nanosecond": 1},
        **{"us": 10**3, "usec": 10**3, "usecond": 10**3, "microsecond": 10**3},
        **{"\N{MICRO SIGN}s": 10**3, "\N{GREEK SMALL LETTER MU}s": 10**3},
        **{"ms": 10**6, "msec": 10**6, "msecond": 10**6, "millisecond": 10**6},
        **{"s": 10**9, "sec": 10**9, "second": 10**9},
        **{"min": 60 * 10**9, "minute": 60 * 10**9, "h": 3600 * 10**9, "hour": 3600 * 10**9},
    }
)
"""Nanoseconds per unit of time, by the names in tools."""

_THOUSANDS: Final = r"^[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?$"
_LARGEST: Final = 9.2e18
"""The largest integer, within 64 bits."""
_REPORTED: Final = 5
"""The most invalid cells of a column that are reported one by one; further ones are counted."""


class CellValues:
    """The cells of some rows of a table, parsed by column."""

    def __init__(self, cells: pl.DataFrame, collector: Collector) -> None:
        self.cells = cells
        self._collector = collector

    def __contains__(self, column: str) -> bool:
        return column in self.cells.columns

    def first_column(self, *columns: str) -> str:
        """Return the first of some columns that the table has; if it has none, the first of them."""
        return next((column for column in columns if column in self), columns[0])

    @property
    def line(self) -> pl.Series:
        """The line of each row."""
        return self.cells[LINE_COLUMN]

    def text(self, column: str) -> pl.Series:
        """Return a column of text; null if empty."""
        if column not in self:
            return pl.Series(column, [None] * self.cells.height, pl.String)
        texts = self._strings(column)
        is_empty = texts.is_in(EMPTY_CELLS)
        return texts.set(is_empty, None) if is_empty.any() else texts

    def name(self, column: str) -> pl.Series:
        """Return a column of names, categorical."""
        return self.text(column).cast(NAME)

    def number(self, column: str) -> pl.Series:
        """Return a column of numbers, with or without thousands separators (commas)."""
        return self._read(column, pl.Float64())

    def integer(self, column: str, dtype: pl.DataType | None = None) -> pl.Series:
        """Return a column of integers, cast to ``dtype``; null, with an issue, if out of range."""
        values = self._read(column, pl.Int64())
        if dtype is None:
            return values
        narrow = values.cast(dtype, strict=False)
        self._report(column, values.is_not_null() & narrow.is_null(), "a number out of range")
        return narrow

    def time_ns(self, column: str, unit: str | None) -> pl.Series:
        """Return a column of times in a unit (default: nanoseconds), as whole nanoseconds."""
        factor = NS_PER_UNIT.get(unit or "ns")
        if factor is None:
            return pl.Series(column, [None] * self.cells.height, pl.Int64)
        return self.scale(column, factor)

    def scale(self, column: str, factor: int) -> pl.Series:
        """Return a column of numbers times a factor, rounded to whole numbers."""
        exact = self.cells[column].cast(pl.Int64, strict=False) if column in self else pl.Series([], dtype=pl.Int64)
        if factor == 1 and column in self and exact.null_count() == self.cells[column].null_count():
            return exact
        values = self.number(column) * factor
        fits = values.is_finite() & (values.abs() < _LARGEST)
        self._report(column, values.is_not_null() & ~fits, "a number out of range")
        rounded = values.set(~fits, None).round().cast(pl.Int64)
        if factor != 1 or column not in self:
            return rounded
        # An integer is exact, also beyond the precision of a float.
        return exact.fill_null(rounded) if exact.len() else rounded

    def decimals(self, column: str) -> int:
        """Return the largest number of decimals in a column of numbers."""
        if column not in self or self.cells.schema[column] != pl.String:
            return 0
        found = self._strings(column).str.extract(r"\.([0-9]+)\s*$").str.len_chars().max()
        return found if isinstance(found, int) else 0

    def _read(self, column: str, dtype: pl.DataType) -> pl.Series:
        """Return a column parsed as numbers, without thousands separators; others become null and are reported."""
        if column not in self:
            return pl.Series(column, [None] * self.cells.height, dtype)
        texts = self.cells[column]
        values = texts.cast(dtype, strict=False)
        if values.null_count() == texts.null_count():
            return values
        texts = self._strings(column).str.strip_chars()
        grouped = texts.str.contains(_THOUSANDS)
        plain = texts.str.replace_all(",", "").zip_with(grouped.fill_null(False), texts)
        values = plain.cast(dtype, strict=False)
        if dtype == pl.Int64:
            floats = plain.cast(pl.Float64, strict=False)
            integral = (floats == floats.round()) & (floats.abs() < _LARGEST)
            values = values.fill_null(floats.set(~integral.fill_null(False), None).cast(pl.Int64))
        bad = texts.is_not_null() & values.is_null() & ~texts.is_in(EMPTY_CELLS)
        self._report(column, bad, "not a number")
        return values

    def _strings(self, column: str) -> pl.Series:
        return self.cells[column].cast(pl.String)

    def _report(self, column: str, is_bad: pl.Series, problem: str) -> None:
        """Report the rows where ``is_bad`` is true."""
        if not is_bad.any():
            return
        rows = self.cells.filter(is_bad).select(pl.col(column).cast(pl.String), LINE_COLUMN)
        for text, line in rows.head(_REPORTED).iter_rows():
            self._collector.issue("warning", line, text, f"{problem} in the column {column!r}: shown as unknown")
        if rows.height > _REPORTED:
            text, line = rows.row(_REPORTED)
            reason = f"{rows.height - _REPORTED} more cells like this in the column {column!r} below: shown as unknown"
            self._collector.issue("warning", line, text, reason)


def decimal_separator(texts: pl.Series) -> str | None:
    """Return the decimal separator of a text's numbers; None if they do not prove one.

    ``1,234.5`` and ``0.5`` prove a point, ``1.234,5`` and ``9,00`` a comma; ``1,024`` proves nothing. Contradictory
    numbers prove nothing either.
    """
    point = texts.str.contains(
        r"^[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]*|[0-9]{1,3}(?:,[0-9]{3}){2,}|[0-9]+\.(?:[0-9]{1,2}|[0-9]{4,})(?:[eE][+-]?[0-9]+)?|0\.[0-9]+|[0-9]{4,}\.[0-9]+)$"
    ).any()
    comma = texts.str.contains(
        r"^[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]*|[0-9]{1,3}(?:\.[0-9]{3}){2,}|[0-9]+,(?:[0-9]{1,2}|[0-9]{4,})(?:[eE][+-]?[0-9]+)?|0,[0-9]+|[0-9]{4,},[0-9]+)$"
    ).any()
    return None if point == comma else "." if point else ","
