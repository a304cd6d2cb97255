"""Operations on columns of names that run once per distinct name: a million rows have a few hundred."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_SPARSE: Final = 8
"""With more categories than so many for each row, most of a table of them would be empty."""


def map_names(values: pl.Series, function: Callable[[str], str | None]) -> pl.Series:
    """A categorical column, each of its values replaced by what a function says of it."""
    distinct, place = _distinct(values)
    texts = pl.Series([function(text) for text in distinct], dtype=pl.String).cast(NAME)
    return _placed(values.name, texts, place)


def matching(values: pl.Series, pattern: str) -> pl.Series:
    """Which values of a categorical column a regular expression is found in; not the missing ones."""
    distinct, place = _distinct(values)
    found = np.append(distinct.str.contains(pattern).to_numpy(), False)
    return pl.Series(values.name, found[place])


def whole_numbers(values: pl.Series) -> pl.Series:
    """A categorical column as whole numbers (Int64), null where it is none."""
    distinct, place = _distinct(values)
    return _placed(values.name, distinct.cast(pl.Int64, strict=False), place)


def no_names(rows: int) -> pl.Series:
    """A categorical column without a value."""
    return pl.repeat(None, rows, dtype=NAME, eager=True)


def _distinct(values: pl.Series) -> tuple[pl.Series, npt.NDArray[np.uint32]]:
    """The distinct texts of a categorical column, and of each row which it has: behind the last where it is null."""
    if values.null_count() == len(values):
        return pl.Series([], dtype=pl.String), np.zeros(len(values), np.uint32)
    codes = values.to_physical()
    beyond = int(codes.max()) + 1  # type: ignore[arg-type]
    if codes.min() == beyond - 1 and not values.null_count():
        return values.head(1).cast(pl.String), np.zeros(len(values), np.uint32)
    numbers = codes.fill_null(beyond).to_numpy()
    if beyond > _SPARSE * len(values):
        used, rows, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        return values.gather(pl.Series(rows[used < beyond])).cast(pl.String), inverse.astype(np.uint32)
    row = np.full(beyond + 1, len(numbers), np.uint32)
    row[numbers] = np.arange(len(numbers), dtype=np.uint32)
    used = np.flatnonzero(row < len(numbers))
    place = np.zeros(beyond + 1, np.uint32)
    place[used] = np.arange(len(used))
    return values.gather(pl.Series(row[used[used < beyond]])).cast(pl.String), place[numbers]


def _placed(name: str, of_distinct: pl.Series, place: npt.NDArray[np.uint32]) -> pl.Series:
    if len(of_distinct) == 1 and not place.any():
        return pl.repeat(of_distinct[0], len(place), dtype=of_distinct.dtype, eager=True).alias(name)
    return of_distinct.extend_constant(None, 1).gather(pl.Series(place)).alias(name)
