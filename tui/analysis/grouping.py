"""Fast grouping of millions of rows: constant columns are omitted, keys are packed into one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import blocks
from tui.cache.spill import release_mapped
from tui.model.profile import column_view


def group_rows(rows: pl.DataFrame, keys: Sequence[str], aggregations: Sequence[pl.Expr]) -> pl.DataFrame:
    """Return the result of ``group_by(keys).agg(aggregations)``, in no particular order.

    Constant columns are excluded from the grouping and added again, and the others are packed into one number if they
    fit: each further key takes as long as all aggregations.

    >>> frame = pl.DataFrame({"session": [0, 0], "name": ["a", "a"], "calls": [2, 3]})
    >>> group_rows(frame, ["session", "name"], [pl.col("calls").sum()]).rows()
    [(0, 'a', 5)]
    """
    if rows.is_empty():
        return rows.group_by(keys).agg(*aggregations)
    constant = [key for key in keys if is_constant(column_view(rows, key))]
    varying = [key for key in keys if key not in constant]
    values = rows.select(constant).head(1)
    if not varying:
        sums = rows.lazy().select(*aggregations).collect() if aggregations else pl.DataFrame(height=1)
        return pl.concat([values.select(keys), sums], how="horizontal")
    packed = _pack_keys(rows, varying) if len(varying) > 1 else None
    group_columns = varying if packed is None else [packed.expression()]
    groups = rows.lazy().group_by(group_columns).agg(*aggregations).collect()
    groups = groups if packed is None else packed.unpacked(groups)
    return groups.with_columns(pl.lit(values[key].first(), rows.schema[key]).alias(key) for key in constant).select(
        *keys, pl.exclude(keys)
    )


def distinct_rows(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the distinct combinations of some columns, in no particular order, as fast as `group_rows`."""
    varying = [key for key in keys if not is_constant(column_view(rows, key))]
    if len(varying) == 1 and (firsts := _distinct_value_rows(rows[varying[0]])) is not None:
        return rows.select(pl.col(keys).gather(firsts))
    return group_rows(rows.select(keys), keys, ())


def unique_values(column: pl.Series) -> pl.Series:
    """Return the unique values of a column; fast for constant columns, such as the session of many rows.

    >>> unique_values(pl.Series([3, 3, 3])).to_list()
    [3]
    """
    if is_constant(column):
        return column.head(1)
    firsts = _distinct_value_rows(column)
    return column.unique() if firsts is None else column.gather(firsts)


def _distinct_value_rows(column: pl.Series) -> pl.Series | None:
    """Return a row for each distinct value of a long integer or categorical column with few values; else None."""
    if (
        column.len() < _MIN_LONG_ROWS
        or column.null_count()
        or not (column.dtype.is_integer() or column.dtype == pl.Categorical)
    ):
        return None
    low, high = _bounds(column)
    if high - low >= _MAX_FEW_VALUES:
        return None
    numbers, rows = column.to_physical().to_numpy(), np.full(high - low + 1, -1, np.int64)
    for block in blocks(len(numbers)):
        rows[numbers[block].astype(np.int64) - low] = np.arange(block.start, block.stop)
    return pl.Series(rows[rows >= 0])


def is_constant(column: pl.Series) -> bool:
    """Return whether a column has exactly one distinct value."""
    missing = column.null_count()
    if missing:
        return missing == column.len()
    if column.dtype == pl.Boolean:
        return column.len() > 0 and (bool(column.all()) or not column.any())
    low, high = _bounds(column)
    return low is not None and bool(low == high)


def _bounds(column: pl.Series) -> tuple[Any, Any]:
    numbers = column.to_physical() if column.dtype == pl.Categorical else column
    bounds = numbers.min(), numbers.max()
    release_mapped()
    return bounds


_MIN_LONG_ROWS: Final = 200_000
"""The minimum number of rows for which this is faster."""
_MAX_FEW_VALUES: Final = 1 << 16
"""The most values: a table of more would not fit the CPU cache."""
_KEY_LIMIT: Final = 1 << 62
_SMALL: Final = 1 << 32
"""Smaller keys take half the memory."""


@dataclass(frozen=True, slots=True)
class _Digit:
    """A column as one digit of a packed key."""

    name: str
    dtype: pl.DataType
    low: int
    values: int
    """The number of values from the lowest to the highest, plus one for null."""
    scale: int

    def expression(self) -> pl.Expr:
        """Return the part of this column in the key."""
        number = pl.col(self.name).to_physical().cast(pl.Int64) - self.low
        return number.fill_null(self.values - 1) * self.scale

    def extract(self, keys: pl.Expr) -> pl.Expr:
        """Return the values of this column in keys."""
        digit = (keys // self.scale) % self.values
        number = pl.when(digit != self.values - 1).then(digit.cast(pl.Int64) + self.low)
        if self.dtype == pl.Categorical:
            return number.cast(pl.UInt32).cat.to(self.dtype).alias(self.name)
        return number.cast(self.dtype).alias(self.name)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Several columns as one number."""

    digits: Sequence[_Digit]

    def expression(self) -> pl.Expr:
        """Return the key of each row."""
        key = pl.sum_horizontal(digit.expression() for digit in self.digits)
        largest = self.digits[-1].scale * self.digits[-1].values
        return (key.cast(pl.UInt32) if largest <= _SMALL else key).alias(_KEY)

    def unpacked(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return groups with the original columns in place of the key."""
        return groups.with_columns(digit.extract(pl.col(_KEY)) for digit in self.digits).drop(_KEY)


_KEY: Final = "packed key"


def _pack_keys(rows: pl.DataFrame, keys: Sequence[str]) -> _Packed | None:
    """Return the columns as digits of one key; None if they are not integers or categories, or exceed the range."""
    digits, scale = [], 1
    for key in keys:
        dtype = rows.schema[key]
        if not (dtype.is_integer() or dtype == pl.Categorical):
            return None
        low, high = _bounds(rows[key])
        if low is None:
            return None
        values = int(high) - int(low) + 2
        digits.append(_Digit(key, dtype, int(low), values, scale))
        scale *= values
        if scale > _KEY_LIMIT:
            return None
    return _Packed(digits)


def partition_by_session(frame: pl.DataFrame) -> dict[int, pl.DataFrame]:
    """Return the rows of each session of a frame, in the frame's order.

    Filtering by session takes one pass for each session; this takes one in all.

    >>> import polars as pl
    >>> {key: rows.height for key, rows in partition_by_session(pl.DataFrame({"session": [1, 0, 1]})).items()}
    {1: 2, 0: 1}
    """
    if frame.is_empty():
        return {}
    sessions = column_view(frame, "session")
    if is_constant(sessions):
        return {sessions[0]: frame}
    if not sessions.null_count() and sessions.is_sorted():
        # Contiguous rows of a session are slices, not copies.
        numbers = sessions.unique(maintain_order=True)
        firsts = [*sessions.set_sorted().search_sorted(numbers, side="left"), frame.height]
        return {
            number: frame.slice(first, end - first)
            for number, (first, end) in zip(numbers, pairwise(firsts), strict=True)
        }
    frames = frame.partition_by("session", as_dict=True, maintain_order=True)
    return {key[0]: rows for key, rows in frames.items()}
