"""How the result of a query is shown: columns that the program knows as everywhere, others by type and unit."""

from __future__ import annotations

import re
from typing import Final

import polars as pl
from polars import selectors

from tui.model.columns import COLUMNS, Column, ColumnKind
from tui.model.view import TableSpec
from tui.text import plain

ROW: Final = "#"
"""The column that numbers the rows of a result; where the result has one of this name, the next is `ROW` twice."""
_UNITS: Final = {"_ns": ColumnKind.DURATION, "_bytes": ColumnKind.SIZE, "_pct": ColumnKind.PERCENT}
"""Endings of names that say a unit."""
_DATES: Final = selectors.temporal() - selectors.duration()
_TEXTS: Final = (ColumnKind.TEXT, ColumnKind.SYMBOL)
_ONE_OF_THEM: Final = ("min", "max", "first", "last")
"""What is worked out of moments and is one; a sum of them is none."""
_MEASURED: Final = (ColumnKind.DURATION, ColumnKind.SIZE, ColumnKind.PERCENT, ColumnKind.RATE)
_KEEPS_UNIT: Final = re.compile(
    r"(sum|min|max|avg|mean|median|stddev\w*|quantile\w*|first|last|abs|round|floor|ceil)"
    r"\(\s*(?:distinct\s+)?(?:\w+\.)?(\w+)\s*(?:,[^()]*)?\)",
    re.IGNORECASE,
)
"""What is worked out of a column in its own unit, as a query without a name for it calls it."""
_UNSUITED: Final = (ColumnKind.MEASURE,)
"""Kinds whose values need another column of the row, which a result need not have."""


def numbered(result: pl.DataFrame) -> pl.DataFrame:
    """A result with its rows numbered from 1 in its first column, and what no table shows (dates, lists) as text."""
    flat = result.with_columns(pl.col(pl.Categorical).cast(pl.String), _DATES.cast(pl.String))
    nested = [name for name, dtype in flat.schema.items() if dtype.is_nested() or dtype == pl.Duration]
    texts = [pl.Series(name, [None if one is None else str(one) for one in flat[name].to_list()]) for name in nested]
    row = ROW
    while row in flat.columns:
        row += ROW
    return flat.with_columns(texts).with_row_index(row, offset=1)


def result_spec(result: pl.DataFrame) -> TableSpec:
    """A table for a numbered result."""
    columns = tuple(_column(name, dtype, place) for place, (name, dtype) in enumerate(result.schema.items()))
    texts = [column.name for column in columns if column.kind in _TEXTS]
    row = result.columns[0]
    pinned = "name" if "name" in result.columns else texts[0] if texts else row
    return TableSpec("sql", "Result", columns, (row,), pinned=pinned)


def _column(name: str, dtype: pl.DataType, place: int) -> Column:
    if not place:
        return Column(name, name, ColumnKind.NUMBER, "The row of the result, from 1.", 9)
    known = COLUMNS.get(name)
    priority = min(2 + place, 9)
    if known is not None and _suits(known.kind, dtype):
        return Column(name, known.title, known.kind, known.help, priority, known.aliases)
    # Its name is whatever the query says.
    title = plain(name)
    about = f"The column {title} of the query."
    return Column(name, title, (_unit(name) if dtype.is_numeric() else None) or _kind(dtype), about, priority)


def _unit(name: str) -> ColumnKind | None:
    """The unit that the name of a column of numbers says."""
    within = _KEEPS_UNIT.fullmatch(name)
    column = within[2] if within else name
    known = COLUMNS[column].kind if within and column in COLUMNS else None
    if known in _MEASURED or (known is ColumnKind.TIME and within and within[1].lower() in _ONE_OF_THEM):
        return known
    if not re.fullmatch(r"\w+", column):
        return None
    return next((kind for ending, kind in _UNITS.items() if column.endswith(ending)), None)


def _suits(kind: ColumnKind, dtype: pl.DataType) -> bool:
    if kind in _UNSUITED:
        return False
    if kind in _TEXTS:
        return dtype == pl.String
    return dtype == pl.Boolean if kind is ColumnKind.FLAG else dtype.is_numeric()


def _kind(dtype: pl.DataType) -> ColumnKind:
    if dtype == pl.Boolean:
        return ColumnKind.FLAG
    if dtype.is_integer():
        return ColumnKind.COUNT
    return ColumnKind.RATIO if dtype.is_numeric() else ColumnKind.TEXT
