"""Columns that say the same in every row (the only device, what the input does not record), kept as one value."""

from __future__ import annotations

from typing import Final

import polars as pl

_WORTH_IT: Final = 100_000
"""Rows; fewer take no memory to speak of."""


def compact(data: pl.DataFrame, least: int = _WORTH_IT) -> pl.DataFrame:
    """The same frame: a column whose values are all equal, or all null, costs nothing for a row.

    Args:
        data: Any frame.
        least: Rows, at least 1; a frame of fewer is left as it is.

    >>> data = pl.DataFrame({"device": [0] * 100_000})
    >>> compact(data).equals(data)
    True
    """
    if data.height < least:
        return data
    # Nearly every other column shows at once that it has several values.
    ends = data.select(pl.col(column).first().eq_missing(pl.col(column).last()) for column in data.columns).row(0)
    candidates = [column for column, equal in zip(data.columns, ends, strict=True) if equal]
    if not candidates:
        return data
    same = data.select(_is_one_value(column, data.schema[column]) for column in candidates).row(0)
    return data.with_columns(
        pl.lit(data.item(0, column), data.schema[column]).alias(column)
        for column, holds in zip(candidates, same, strict=True)
        if holds
    )


def looked_at(data: pl.DataFrame, column: str) -> pl.Series:
    """A column to look at once: a frame that is asked for it by its name keeps it at full size from then on.

    >>> looked_at(pl.DataFrame({"device": [0, 1]}), "device").to_list()
    [0, 1]
    """
    return data.select(column).to_series()


def _is_one_value(column: str, dtype: pl.DataType) -> pl.Expr:
    values = pl.col(column)
    same = values.null_count() == pl.len()
    if dtype.is_integer() or dtype in (pl.Boolean, pl.Categorical):
        codes = values.to_physical()
        same |= (values.null_count() == 0) & (codes.min() == codes.max())
    return same.alias(column)
