"""The distribution of the values of a column, and sums over the values of two columns (pivot)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis import durations
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
    """The sum of the table's weight; None if it has none, or none is known."""
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
    return [pl.len().alias("_rows"), (durations.total(weight) if weight else pl.lit(None)).alias("_weight")]


def _text_distribution(rows: pl.DataFrame, column: Column, weight: str) -> Distribution:
    value = pl.col(column.name)
    value = value.cast(pl.String) if rows[column.name].dtype == pl.Categorical else value
    values_frame = rows.select(value.alias("_value"), *([weight] if weight and weight != column.name else []))
    if weight == column.name:
        values_frame = values_frame.with_columns(pl.col("_value").alias(weight))
    order = "_weight" if weight else "_rows"
    groups = (
        values_frame.group_by("_value", maintain_order=True)
        .agg(*_aggregations(weight))
        .sort(order, "_rows", descending=True, nulls_last=True, maintain_order=True)
    )
    bins = tuple(
        ValueBin(format_value(column.kind, value), number, total, equals_filter(column.name, value, column.kind))
        for value, number, total in groups.head(MAX_VALUES).iter_rows()
    )
    limit_note = f"; the first {MAX_VALUES} are listed" if groups.height > MAX_VALUES else ""
    noun = "value" if groups.height == 1 else "values"
    return Distribution(f"{count(groups.height)} {noun} in {count(rows.height)} rows{limit_note}", bins)


def _number_distribution(rows: pl.DataFrame, column: Column, weight: str) -> Distribution:
    value = pl.col(column.name)
    finite = rows.filter(value.is_not_null() & value.cast(pl.Float64).is_finite())
    unknown_count = rows.height - finite.height
    if finite.is_empty():
        return Distribution("all values unknown", ())
    values = finite[column.name].cast(pl.Float64)
    smallest, largest = float(values.min()), float(values.max())  # type: ignore[arg-type]
    figures = [("min", smallest), *((f"p{p}", _quantile(values, p)) for p in (50, 90, 99)), ("max", largest)]
    summary = "  ".join(f"{name} {_text(column, number)}" for name, number in figures)
    edges = _edges(smallest, largest, are_integers=finite[column.name].dtype.is_integer())
    bin_index = pl.lit(0)
    for edge in edges[1:-1]:
        bin_index = bin_index + (value >= edge).cast(pl.Int64)
    bins_by_index = {
        row[0]: (row[1], row[2])
        for row in finite.with_columns(bin_index.alias("_bin")).group_by("_bin").agg(*_aggregations(weight)).iter_rows()
    }
    bins = []
    for index, (first, last) in enumerate(pairwise(edges)):
        number, total = bins_by_index.get(index, (0, 0 if weight else None))
        is_last = index == len(edges) - 2
        start, stop = (equals_filter(column.name, edge, column.kind).partition("=")[2] for edge in (first, last))
        query = f"{column.name}>={start} {column.name}{'<=' if is_last else '<'}{stop}"
        bins.append(ValueBin(f"{_text(column, first)} to {_text(column, last)}", number, total, query))
    unknown_text = f"  {count(unknown_count)} unknown" if unknown_count else ""
    return Distribution(summary + unknown_text, tuple(bins))


def _quantile(values: pl.Series, percent: int) -> float:
    value = values.quantile(percent / 100, "linear")
    assert value is not None
    return float(value)


def _text(column: Column, number: float) -> str:
    return format_value(column.kind, int(number) if number == int(number) else number)


def _edges(smallest: float, largest: float, *, are_integers: bool) -> list[float]:
    """Return the edges of the bins, one more than there are bins.

    >>> _edges(5, 5, are_integers=True), _edges(0, 3, are_integers=True)
    ([5, 5], [0, 1, 2, 3])
    >>> [round(edge) for edge in _edges(1, 10**12, are_integers=True)][:4]
    [1, 10, 100, 1000]
    """
    if smallest == largest:
        return [smallest, largest]
    number = min(BINS, int(largest - smallest)) if are_integers else BINS
    if smallest > 0 and largest / smallest >= LOGARITHMIC_FROM:
        step = (math.log(largest) - math.log(smallest)) / BINS
        edges = [math.exp(math.log(smallest) + step * index) for index in range(1, BINS)]
    else:
        edges = [smallest + (largest - smallest) * index / number for index in range(1, number)]
    inner = [float(round(edge)) for edge in edges] if are_integers else edges
    inner = sorted({edge for edge in inner if smallest < edge < largest})
    plain = [int(edge) if are_integers else edge for edge in (smallest, *inner, largest)]
    return list(plain)


MAX_ACROSS: Final = 12
"""The maximum number of columns of a pivot; the others are summed as one."""
OTHERS_LABEL: Final = "(other)"
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class PivotRow:
    """A value of the first column, with the sums by the values of the second."""

    label: str
    sums: tuple[float | None, ...]
    """0 where there are no rows; None where there are and no value is known."""
    total: float | None
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
    """Return sums over the values of two columns; they add up to the totals in both directions.

    Args:
        rows: The rows.
        by: The column whose values are the rows of the pivot.
        across: The column whose values are its columns.
        weight: The column that is summed; empty: rows are counted.
    """
    selected = rows.select(
        _plain_values(rows, by.name).alias("by"),
        _plain_values(rows, across.name).alias("across"),
        (pl.col(weight) if weight else pl.lit(1, pl.Int64)).alias("sum"),
    )
    total = durations.total("sum")
    selected, columns, has_other_columns = _numbered(selected, "across", MAX_ACROSS)
    selected, values, has_other_values = _numbered(selected, "by", MAX_VALUES)
    keys = ("by", "across")
    cells = {cell[:2]: cell[2] for cell in selected.group_by(keys).agg(total).iter_rows()}
    row_sums, column_sums = (dict(selected.group_by(key).agg(total).iter_rows()) for key in keys)
    labels = [(format_value(by.kind, value), equals_filter(by.name, value, by.kind)) for value in values]
    labels += [(OTHERS_LABEL, "")] if has_other_values else []
    numbers = range(len(columns) + has_other_columns)
    pivot_rows = [
        PivotRow(label, tuple(cells.get((row, column), 0) for column in numbers), row_sums[row], query)
        for row, (label, query) in enumerate(labels)
    ]
    grand_total = selected.select(total).item() if rows.height else 0
    pivot_rows.append(PivotRow(ALL, tuple(column_sums[column] for column in numbers), grand_total, ""))
    names = [format_value(across.kind, column) for column in columns]
    return Pivot((*names, OTHERS_LABEL) if has_other_columns else tuple(names), tuple(pivot_rows))


def _numbered(rows: pl.DataFrame, name: str, limit: int) -> tuple[pl.DataFrame, list[Any], bool]:
    """Replace the values of a column by their positions in order of their sums, all after the limit by the limit.

    Returns:
        The rows, the values up to the limit, and whether there are others.
    """
    totals = rows.group_by(name, maintain_order=True).agg(durations.total("sum"))
    ordered = totals.sort("sum", descending=True, nulls_last=True, maintain_order=True).select(name)
    positions = ordered.with_columns(pl.int_range(pl.len()).clip(upper_bound=limit).alias("position"))
    numbered = rows.join(positions, on=name, how="left", nulls_equal=True, maintain_order="left")
    return (
        numbered.with_columns(pl.col("position").alias(name)).drop("position"),
        ordered[name].head(limit).to_list(),
        ordered.height > limit,
    )


def _plain_values(rows: pl.DataFrame, name: str) -> pl.Expr:
    return (
        pl.col(name)
        if rows[name].dtype.is_numeric() or rows[name].dtype == pl.Boolean
        else pl.col(name).cast(pl.String)
    )
