"""Values of a query: numbers with units, and exact comparisons (integers stay integers)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.fitting import clip
from tui.model.columns import ColumnKind
from tui.query.nodes import QueryError

if TYPE_CHECKING:
    from tui.query.nodes import Span


UNKNOWN: Final = frozenset({"?", "unknown"})
"""What is written for a value that the input does not hold."""

YES: Final = frozenset({"yes", "true", "y", "1"})
NO: Final = frozenset({"no", "false", "n", "0"})

_TIMES: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_SIZES: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_COUNTS: Final = {"k": 10**3, "m": 10**6, "g": 10**9}

UNITS: Final[Mapping[ColumnKind, Mapping[str, int]]] = MappingProxyType(
    {
        ColumnKind.DURATION: _TIMES,
        ColumnKind.TIME: _TIMES,
        ColumnKind.SIZE: _SIZES,
        ColumnKind.RATE: _SIZES | {f"{unit}/s": scale for unit, scale in _SIZES.items()},
        ColumnKind.COUNT: _COUNTS,
        ColumnKind.NUMBER: _COUNTS,
        ColumnKind.MEASURE: _COUNTS,
        ColumnKind.PERCENT: {"%": 1},
        ColumnKind.RATIO: {"x": 1, "×": 1},
    }
)
"""For each kind of column its units in lower case, with what one of them is in base units."""

BASE_UNIT: Final[Mapping[ColumnKind, str]] = MappingProxyType(
    {
        ColumnKind.DURATION: "ns",
        ColumnKind.TIME: "ns",
        ColumnKind.SIZE: "B",
        ColumnKind.RATE: "B/s",
        ColumnKind.PERCENT: "%",
    }
)
"""The unit that a frame holds a kind in, where it has one."""

_OFFERED: Final = {
    ColumnKind.DURATION: "ns, us, ms or s",
    ColumnKind.TIME: "ns, us, ms or s",
    ColumnKind.SIZE: "B, KB, MB, GB, KiB, MiB or GiB",
    ColumnKind.RATE: "B/s, KB/s, MB/s, GB/s, KiB/s, MiB/s or GiB/s",
    ColumnKind.COUNT: "k or M",
    ColumnKind.NUMBER: "k or M",
    ColumnKind.MEASURE: "k or M",
    ColumnKind.PERCENT: "%",
    ColumnKind.RATIO: "x",
}

_NUMBER: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?)"
    r"\s*(?P<unit>[^\s0-9.,+-].*)?",
    re.DOTALL,
)
_MAX_DIGITS: Final = 400
"""More than any float of the frames needs; a longer number is a mistake."""

_SHOWN: Final = 40
"""Cells of what was typed that an error repeats."""

_INFINITE: Final = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a query."""

    value: Fraction | float
    """In base units; a float only where it is not finite."""

    reading: str
    """How it was understood: ``1.5 ms``."""


@dataclass(frozen=True, slots=True)
class Share:
    """What ``%`` is taken of in a column that is no percentage itself."""

    total: int | float
    """In base units."""
    unit: str
    """Their name, as ``ns``; empty for counts."""


def quantity(
    text: str,
    kind: ColumnKind,
    span: Span,
    *,
    unit: str = "",
    share: Share | None = None,
    title: str = "the column",
) -> Quantity:
    """Read a number with or without a unit.

    Args:
        text: As typed: ``1.5ms``, ``4 MiB``, ``10k``, ``5%``, ``1,024``.
        kind: What it is compared with.
        span: Where it stands, for errors.
        unit: Of a bare number; empty or ``auto``: the base unit.
        share: What a percentage is taken of; None where there is nothing to take it of.
        title: What the column is called, for errors.

    Raises:
        QueryError: It is not a number, or the unit is not one of this kind.

    >>> quantity("1.5ms", ColumnKind.DURATION, (0, 5)).value
    Fraction(1500000, 1)
    >>> quantity("4MB", ColumnKind.SIZE, (0, 3)).reading
    '4 MB (4,000,000 B)'
    """
    stripped = text.strip()
    if stripped.lower() in _INFINITE:
        return Quantity(_INFINITE[stripped.lower()], stripped)
    match = _NUMBER.fullmatch(stripped) if len(stripped) <= _MAX_DIGITS else None
    digits = match["number"] if match else ""
    if match is None or not any(character.isdecimal() for character in digits.lower().partition("e")[0]):
        hint = f"{title} takes numbers, with {_OFFERED[kind]}"
        raise QueryError(f"{clip(stripped, _SHOWN) or 'nothing'} is not a number", *span, hint=hint)
    number = Fraction(digits.replace(",", ""))
    used = (match["unit"] or "").strip() or (unit if unit not in ("", "auto") else BASE_UNIT.get(kind, ""))
    if used == "%" and kind is not ColumnKind.PERCENT:
        return _percentage(number, digits, share, span, title)
    if not used:
        return Quantity(number, digits)
    scale = UNITS[kind].get(used.lower())
    if scale is None:
        raise QueryError(f"{clip(used, _SHOWN)} is not a unit of {title}", *span, hint=f"use {_OFFERED[kind]}")
    value = number * scale
    reading = f"{digits}%" if used == "%" else f"{digits} {used}"
    if kind in (ColumnKind.SIZE, ColumnKind.RATE) and scale % 1000 == 0:
        reading += f" ({_grouped(value)} {BASE_UNIT[kind]})"
    return Quantity(value, reading)


def unit_of(text: str) -> str:
    """The unit behind the number, or empty."""
    match = _NUMBER.fullmatch(text.strip())
    return (match["unit"] or "").strip() if match else ""


def _percentage(number: Fraction, digits: str, share: Share | None, span: Span, title: str) -> Quantity:
    if share is None:
        raise QueryError(f"{title} has no total to take % of", *span)
    total = Fraction(share.total)
    return Quantity(number / 100 * total, f"{digits}% of all {_grouped(total)}{' ' * bool(share.unit)}{share.unit}")


def _grouped(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.3f}"


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
        low = smallest if self.low is None else _as_integer(self.low, math.ceil)
        high = largest if self.high is None else _as_integer(self.high, math.floor)
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


def _as_integer(bound: Bound, rounded: Callable[[Fraction], int]) -> int:
    if isinstance(bound, float):
        return _BEYOND if bound > 0 else -_BEYOND
    return rounded(bound)


def _limits(dtype: pl.DataType) -> tuple[int, int]:
    """The smallest and largest integer of a type."""
    bits = int("".join(character for character in str(dtype) if character.isdecimal()))
    return (0, 2**bits - 1) if dtype.is_unsigned_integer() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _nearest(bound: Bound) -> float:
    """The float that a typed number stands for: the nearest one, as when the column itself was read."""
    try:
        return float(bound)
    except OverflowError:
        return math.copysign(math.inf, bound)
