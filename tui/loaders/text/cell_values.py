"""Parses the cells of a table as numbers and times, and reports cells that cannot be parsed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.text.section import LINE
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.loaders.collector import Collector

NOTHING: Final = ("", "None", "-", "--", "N/A", "n/a", "NULL")
"""Placeholders that tools print for a missing value."""

NS_PER_UNIT: Final = MappingProxyType(
    {
        **{"ns": 1, "nsec": 1, "nsecond": 1, "nanosecond": 1},
        **{"us": 10**3, "usec": 10**3, "usecond": 10**3, "microsecond": 10**3, "µs": 10**3},
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

    @property
    def line(self) -> pl.Series:
        """The line of each row."""
        return self.cells[LINE]

    def text(self, column: str) -> pl.Series:
        """A column of text; null if empty."""
        if column not in self:
            return pl.Series(column, [None] * self.cells.height, pl.String)
        texts = self._strings(column)
        nothing = texts.is_in(NOTHING)
        return texts.set(nothing, None) if nothing.any() else texts

    def name(self, column: str) -> pl.Series:
        """A column of names, categorical."""
        return self.text(column).cast(NAME)

    def number(self, column: str) -> pl.Series:
        """A column of numbers, with or without thousands separators (commas)."""
        return self._read(column, pl.Float64())

    def whole(self, column: str, dtype: pl.DataType | None = None) -> pl.Series:
        """A column of integers, cast to ``dtype``; null, with an issue, if out of range."""
        values = self._read(column, pl.Int64())
        if dtype is None:
            return values
        narrow = values.cast(dtype, strict=False)
        self._report(column, values.is_not_null() & narrow.is_null(), "a number out of range")
        return narrow

    def time_ns(self, column: str, unit: str | None) -> pl.Series:
        """A column of times in a unit (default: nanoseconds), as whole nanoseconds."""
        factor = NS_PER_UNIT.get(unit or "ns")
        if factor is None:
            return pl.Series(column, [None] * self.cells.height, pl.Int64)
        return self.scaled(column, factor)

    def scaled(self, column: str, factor: int) -> pl.Series:
        """A column of numbers times a factor, rounded to whole numbers."""
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
        """The largest number of decimals in a column of numbers."""
        if column not in self or self.cells.schema[column] != pl.String:
            return 0
        found = self._strings(column).str.extract(r"\.([0-9]+)\s*$").str.len_chars().max()
        return found if isinstance(found, int) else 0

    def _read(self, column: str, dtype: pl.DataType) -> pl.Series:
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
        bad = texts.is_not_null() & values.is_null() & ~texts.is_in(NOTHING)
        self._report(column, bad, "not a number")
        return values

    def _strings(self, column: str) -> pl.Series:
        return self.cells[column].cast(pl.String)

    def _report(self, column: str, bad: pl.Series, what: str) -> None:
        """Report the rows where ``bad`` is true."""
        if not bad.any():
            return
        rows = self.cells.filter(bad).select(pl.col(column).cast(pl.String), LINE)
        for text, line in rows.head(_REPORTED).iter_rows():
            self._collector.issue("warning", line, text, f"{what} in the column {column!r}: shown as unknown")
        if rows.height > _REPORTED:
            text, line = rows.row(_REPORTED)
            reason = f"{rows.height - _REPORTED} more such cells in the column {column!r} below: shown as unknown"
            self._collector.issue("warning", line, text, reason)


def decimal_sign(texts: pl.Series) -> str | None:
    """The decimal sign of a text's numbers; None if they do not prove one.

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


def by_value(values: pl.Series, function: Callable[[str], str | int | bool | None], dtype: pl.DataType) -> pl.Series:
    """Apply a function to each distinct value of a column."""
    distinct = values.unique().drop_nulls()
    if distinct.is_empty():
        return pl.Series(values.name, [None] * len(values), dtype)
    results = pl.Series([function(text) for text in distinct.cast(pl.String)], dtype=_plain_type(dtype)).cast(dtype)
    return values.replace_strict(distinct, results, default=None, return_dtype=dtype)


def _plain_type(dtype: pl.DataType) -> pl.DataType:
    return pl.String() if isinstance(dtype, pl.Categorical) else dtype
