"""Figures of columns as plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def whole(value: Any) -> int:
    """A sum or extreme of a column of whole numbers; 0 where there is none.

    >>> import polars as pl
    >>> whole(pl.Series([1, None]).sum()), whole(pl.Series([], dtype=pl.Int64).max())
    (1, 0)
    """
    return 0 if value is None else int(value)


def real(value: Any) -> float:
    """A figure of a column as a number; 0 where there is none."""
    return 0.0 if value is None else float(value)


def total(column: pl.Series) -> int:
    """The sum of the known values of a column."""
    return whole(column.sum())
