"""The distribution of the values of a column, and sums over the values of two columns (pivot)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.fmt import count, format_value
from tui.model.columns import ColumnKind
from tui.query.parse import equals_filter

if TYPE_CHECKING:
    from tui.model.columns import Column

BINS: Final = 12
"""Bins of numbers."""
MAX_VALUES: Final = 200
"""The maximum number of values of texts."""
LOGARITHMIC_FROM: Final = 100
"""If the largest number is this multiple of the smallest, the widths of bins grow by a constant factor."""
COUNTED: Final = (ColumnKind.TEXT, ColumnKind.SYMBOL, ColumnKind.FLAG, ColumnKind.NUMBER)
"""Kinds whose distinct values are counted."""


@dataclass(frozen=True, slots=True)
class ValueBin:
    """Rows with the same value, or with a number in an interval."""

    label: str
    """The value, or the interval."""
    rows: int
    weight: float | None
    """The sum of the table's weight; None if it has none."""
    query: str
    """The filter that keeps these rows."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of a column."""

    summary: str
    """Minimum, p50, p90, p99 and maximum of numbers; the number of distinct texts."""
    bins: tuple[ValueBin, ...]


def distribution(rows: pl.DataFrame, column: Column, weight: str = "") -> Distribution:
    """Compute the distribution of the values of a column.

    Args:
        rows: The rows.
        column: The column.
        weight: The column that is summed for each value; empty: none.
    """
    values = rows[column.name]
    weight = weight if weight in rows.columns and rows[weight].dtype.is_numeric() else ""
    if column.kind in COUNTED or not values.dtype.is_numeric():
        return _text_distribution(rows, column, weight)
    return _number_distribution(rows, column, weight)


def _aggregations(weight: str) -> list[pl.Expr]:
    return [pl.len().alias("_rows"), (pl.col(weight).sum() if weight else pl.lit(None)).alias("_weight")]


def _text_distribution(rows: pl.DataFrame, column: Column, weight: str) -> Distribution:
    value = pl.col(column.name)
    value = value.cast(pl.String) if rows[column.name].dtype == pl.Categorical else value
    wanted = rows.select(value.alias("_value"), *([weight] if weight and weight != column.name else []))
    if weight == column.name:
        wanted = wanted.with_columns(pl.col("_value").alias(weight))
    order = "_weight" if weight else "_rows"
    found = (
        wanted.group_by("_value", maintain_order=True)
        .agg(*_aggregations(weight))
        .sort(order, "_rows", descending=True, nulls_last=True, maintain_order=True)
    )
    bins = tuple(
        ValueBin(format_value(column.kind, value), number, total, equals_filter(column.name, value, column.kind))
        for value, number, total in found.head(MAX_VALUES).iter_rows()
    )
    more = f"; the first {MAX_VALUES} are listed" if found.height > MAX_VALUES else ""
    what = "value" if found.height == 1 else "values"
    return Distribution(f"{count(found.height)} {what} in {count(rows.height)} rows{more}", bins)


def _number_distribution(rows: pl.DataFrame, column: Column, weight: str) -> Distribution:
    value = pl.col(column.name)
    known = rows.filter(value.is_not_null() & value.cast(pl.Float64).is_finite())
    unknown = rows.height - known.height
    if known.is_empty():
        return Distribution("all values unknown", ())
    values = known[column.name].cast(pl.Float64)
    least, largest = float(values.min()), float(values.max())  # type: ignore[arg-type]
    figures = [("min", least), *((f"p{p}", _quantile(values, p)) for p in (50, 90, 99)), ("max", largest)]
    words = "  ".join(f"{name} {_text(column, number)}" for name, number in figures)
    edges = _edges(least, largest, whole=known[column.name].dtype.is_integer())
    place = pl.lit(0)
    for edge in edges[1:-1]:
        place = place + (value >= edge).cast(pl.Int64)
    found = {
        row[0]: (row[1], row[2])
        for row in known.with_columns(place.alias("_bin")).group_by("_bin").agg(*_aggregations(weight)).iter_rows()
    }
    bins = []
    for at, (first, last) in enumerate(pairwise(edges)):
        number, total = found.get(at, (0, 0 if weight else None))
        is_last = at == len(edges) - 2
        from_, to = (equals_filter(column.name, edge, column.kind).partition("=")[2] for edge in (first, last))
        query = f"{column.name}>={from_} {column.name}{'<=' if is_last else '<'}{to}"
        bins.append(ValueBin(f"{_text(column, first)} to {_text(column, last)}", number, total, query))
    lacking = f"  {count(unknown)} unknown" if unknown else ""
    return Distribution(words + lacking, tuple(bins))


def _quantile(values: pl.Series, percent: int) -> float:
    found = values.quantile(percent / 100, "linear")
    assert found is not None
    return float(found)


def _text(column: Column, number: float) -> str:
    return format_value(column.kind, int(number) if number == int(number) else number)


def _edges(least: float, largest: float, *, whole: bool) -> list[float]:
    """Return the edges of the bins, one more than there are bins.

    >>> _edges(5, 5, whole=True), _edges(0, 3, whole=True)
    ([5, 5], [0, 1, 2, 3])
    >>> [round(edge) for edge in _edges(1, 10**12, whole=True)][:4]
    [1, 10, 100, 1000]
    """
    if least == largest:
        return [least, largest]
    number = min(BINS, int(largest - least)) if whole else BINS
    if least > 0 and largest / least >= LOGARITHMIC_FROM:
        step = (math.log(largest) - math.log(least)) / BINS
        edges = [math.exp(math.log(least) + step * at) for at in range(1, BINS)]
    else:
        edges = [least + (largest - least) * at / number for at in range(1, number)]
    inner = [float(round(edge)) for edge in edges] if whole else edges
    inner = sorted({edge for edge in inner if least < edge < largest})
    plain = [int(edge) if whole else edge for edge in (least, *inner, largest)]
    return list(plain)


MAX_ACROSS: Final = 12
"""The maximum number of columns of a pivot; the others are summed as one."""
OTHER: Final = "(other)"
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class PivotRow:
    """A value of the first column, with the sums by the values of the second."""

    label: str
    sums: tuple[float, ...]
    total: float
    query: str
    """The filter that keeps the rows of this value; empty if it is of several."""


@dataclass(frozen=True, slots=True)
class Pivot:
    """Sums over the values of two columns."""

    across: tuple[str, ...]
    """The values of the second column, the largest first."""
    rows: tuple[PivotRow, ...]
    """The largest first; the last one has the totals."""


def pivot(rows: pl.DataFrame, by: Column, across: Column, weight: str = "") -> Pivot:
    """Return sum over the values of two columns; the sums add up to the totals in both directions.

    Args:
        rows: The rows.
        by: The column whose values are the rows of the pivot.
        across: The column whose values are its columns.
        weight: The column that is summed; empty: rows are counted.
    """
    summed = pl.col(weight).fill_null(0) if weight else pl.lit(1, pl.Int64)
    wanted = rows.select(_plain_values(rows, by.name).alias("by"), _plain_values(rows, across.name).alias("across"),
                         summed.alias("sum"))  # fmt: skip
    total = pl.col("sum").sum()

    def largest(name: str, most: int) -> list[object]:
        found = wanted.group_by(name, maintain_order=True).agg(total)
        return found.sort("sum", descending=True, maintain_order=True)[name].head(most).to_list()

    columns, values = largest("across", MAX_ACROSS), largest("by", MAX_VALUES)
    cells = {
        (row, column): number
        for row, column, number in wanted.group_by("by", "across").agg(total).iter_rows()
        if row in values and column in columns
    }
    of_rows = dict(wanted.group_by("by").agg(total).iter_rows())
    of_columns = dict(wanted.group_by("across").agg(total).iter_rows())
    whole = sum(of_rows.values())
    has_other = len(of_columns) > len(columns)

    def line(label: str, sums: list[float], all_: float, query: str = "") -> PivotRow:
        return PivotRow(label, (*sums, all_ - sum(sums)) if has_other else tuple(sums), all_, query)

    made = [
        line(
            format_value(by.kind, value),
            [cells.get((value, column), 0) for column in columns],
            of_rows[value],
            equals_filter(by.name, value, by.kind),
        )
        for value in values
    ]
    if len(of_rows) > len(values):
        listed = [sum(row.sums[at] for row in made) for at in range(len(columns))]
        rest = [of_columns[column] - part for column, part in zip(columns, listed, strict=True)]
        made.append(line(OTHER, rest, whole - sum(row.total for row in made)))
    made.append(line(ALL, [of_columns[column] for column in columns], whole))
    names = [format_value(across.kind, column) for column in columns]
    return Pivot((*names, OTHER) if has_other else tuple(names), tuple(made))


def _plain_values(rows: pl.DataFrame, name: str) -> pl.Expr:
    return (
        pl.col(name)
        if rows[name].dtype.is_numeric() or rows[name].dtype == pl.Boolean
        else pl.col(name).cast(pl.String)
    )
