"""Comparing the numbers of a column, exactly: integers stay integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import polars as pl

Bound = Fraction | float
"""A float only where it is not finite."""

_BEYOND: Final = 2**200
"""More than any integer type holds: what an infinite bound is among integers."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from one bound to another; None is no bound."""

    low: Bound | None = None
    high: Bound | None = None
    low_open: bool = False
    """The low bound itself is outside."""
    high_open: bool = False
    """The high bound itself is outside."""

    def holds(self, values: pl.Series) -> pl.Series:
        """Which values lie in it; never null, and false for unknown ones and NaN."""
        if values.dtype.is_integer():
            return self._holds_integers(values)
        return self._holds_floats(values.cast(pl.Float64))

    def _holds_integers(self, values: pl.Series) -> pl.Series:
        smallest, largest = _limits(values.dtype)
        low = smallest if self.low is None else _integer(self.low, math.ceil)
        high = largest if self.high is None else _integer(self.high, math.floor)
        if self.low_open and low == self.low:
            low += 1
        if self.high_open and high == self.high:
            high -= 1
        # The bounds are brought into the range of the type: then neither side of the comparison is converted.
        if low > high or low > largest or high < smallest:
            return pl.repeat(False, len(values), eager=True)
        known = values.is_not_null() if values.null_count() else None
        if low > smallest:
            known = values >= low if known is None else known & (values >= low)
        if high < largest:
            known = values <= high if known is None else known & (values <= high)
        return pl.repeat(True, len(values), eager=True) if known is None else known.fill_null(False)

    def _holds_floats(self, values: pl.Series) -> pl.Series:
        known = values.is_not_null() & ~values.is_nan()
        if self.low is not None:
            low = _nearest(self.low)
            known &= values > low if self.low_open else values >= low
        if self.high is not None:
            high = _nearest(self.high)
            known &= values < high if self.high_open else values <= high
        return known.fill_null(False)


def unknown(values: pl.Series) -> pl.Series:
    """Which values are null or NaN."""
    return values.is_null() | values.is_nan().fill_null(False) if values.dtype.is_float() else values.is_null()


def _integer(bound: Bound, rounded: Callable[[Fraction], int]) -> int:
    if isinstance(bound, float):
        return _BEYOND if bound > 0 else -_BEYOND
    return rounded(bound)


def _limits(dtype: pl.DataType) -> tuple[int, int]:
    """The smallest and largest integer of a type."""
    bits = int("".join(character for character in str(dtype) if character.isdigit()))
    return (0, 2**bits - 1) if dtype.is_unsigned_integer() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _nearest(bound: Bound) -> float:
    """The float that a typed number stands for: the nearest one, as when the column itself was read."""
    try:
        return float(bound)
    except OverflowError:
        return math.copysign(math.inf, bound)
