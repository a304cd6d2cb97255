"""How the result of a query is shown: columns that the program knows as everywhere, others by type and unit."""

from __future__ import annotations

from typing import Final

import polars as pl

from tui.model.columns import COLUMNS, Column, ColumnKind
from tui.model.view import TableSpec

ROW: Final = "#"
"""The column that numbers the rows of a result."""
_UNITS: Final = {"_ns": ColumnKind.DURATION, "_bytes": ColumnKind.SIZE, "_pct": ColumnKind.PERCENT}
"""Endings of names that say a unit."""
_TEXTS: Final = (ColumnKind.TEXT, ColumnKind.SYMBOL)
_UNSUITED: Final = (ColumnKind.MEASURE,)
"""Kinds whose values need another column of the row, which a result need not have."""


def numbered(result: pl.DataFrame) -> pl.DataFrame:
    """A result with its rows numbered from 1 in the column `ROW`, and what no table shows (lists) as text."""
    flat = result.with_columns(pl.col(pl.Categorical).cast(pl.String))
    nested = [name for name, dtype in flat.schema.items() if dtype.is_nested() or dtype.is_temporal()]
    texts = [pl.Series(name, [None if one is None else str(one) for one in flat[name].to_list()]) for name in nested]
    return flat.with_columns(texts).drop(ROW, strict=False).with_row_index(ROW, offset=1)


def result_spec(result: pl.DataFrame) -> TableSpec:
    """A table for a numbered result."""
    columns = tuple(_column(name, dtype, place) for place, (name, dtype) in enumerate(result.schema.items()))
    texts = [column.name for column in columns if column.kind in _TEXTS]
    pinned = "name" if "name" in result.columns else texts[0] if texts else ROW
    return TableSpec("sql", "Result", columns, (ROW,), pinned=pinned)


def _column(name: str, dtype: pl.DataType, place: int) -> Column:
    if name == ROW:
        return Column(ROW, ROW, ColumnKind.NUMBER, "The row of the result, from 1.", 9)
    known = COLUMNS.get(name)
    priority = min(2 + place, 9)
    if known is not None and _suits(known.kind, dtype):
        return Column(name, known.title, known.kind, known.help, priority, known.aliases)
    unit = next((kind for ending, kind in _UNITS.items() if name.endswith(ending) and dtype.is_numeric()), None)
    about = f"The column {name} of the query."
    return Column(name, name, unit or _kind(dtype), about, priority)


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
