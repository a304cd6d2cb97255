"""Grouping of millions of rows by many columns, most of which say the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def grouped(rows: pl.DataFrame, keys: Sequence[str], aggregations: Sequence[pl.Expr]) -> pl.DataFrame:
    """What ``group_by(keys).agg(aggregations)`` gives, in no particular order.

    Columns that hold one value only (a session, a device, a verdict that no row has) are left out of the grouping and
    put back: each key costs as much as all of the sums.

    >>> frame = pl.DataFrame({"session": [0, 0], "name": ["a", "a"], "calls": [2, 3]})
    >>> grouped(frame, ["session", "name"], [pl.col("calls").sum()]).rows()
    [(0, 'a', 5)]
    """
    if rows.is_empty():
        return rows.group_by(keys).agg(*aggregations)
    constant = [key for key in keys if _is_constant(rows[key])]
    varying = [key for key in keys if key not in constant]
    by = varying or [constant.pop()]
    found = rows.lazy().group_by(by).agg(*aggregations).collect()
    values = rows.select(constant).head(1)
    return found.with_columns(pl.lit(values[key].first(), rows.schema[key]).alias(key) for key in constant).select(
        *keys, pl.exclude(keys)
    )


def distinct(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The distinct values of some columns together, in no particular order, as cheaply as `grouped`."""
    return grouped(rows.select(keys), keys, ())


def _is_constant(column: pl.Series) -> bool:
    missing = column.null_count()
    if missing:
        return missing == column.len()
    numbers = column.to_physical() if column.dtype == pl.Categorical else column
    if column.dtype == pl.Boolean:
        return bool(column.all()) or not column.any()
    return bool(numbers.min() == numbers.max())
