"""The syntax tree of a query, and its values: numbers with units and exact comparisons."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import polars as pl

from tui.model.columns import ColumnKind
from tui.model.errors import ProftuiError
from tui.text_width import clip

Span = tuple[int, int]
"""Start and end in the text, in characters from 0."""


class Operator(StrEnum):
    """The comparison between a column and a value."""

    CONTAINS = ":"
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class MatchAll:
    """The empty query."""


@dataclass(frozen=True, slots=True)
class Contains:
    """A bare word or a phrase: any visible text column contains it."""

    text: str
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """The characters occur in this order in any visible text column."""

    text: str
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression in Rust's syntax; in one column, or in any visible text column where that is empty.

    A slash in the pattern is literal (it is escaped in the text only).
    """

    pattern: str
    column: str = ""
    span: Span = field(default=(0, 0), compare=False)
    column_span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a column with a value, as typed."""

    column: str
    operator: Operator
    value: str
    quoted: bool = False
    """Whether it is in quotes: then it is case-sensitive, never "unknown" and never a range."""
    span: Span = field(default=(0, 0), compare=False)
    """The position of the value."""
    column_span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Rows that the term does not match, including rows with unknown values."""

    term: Node


@dataclass(frozen=True, slots=True)
class And:
    """Rows that all terms match."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Rows that any of the terms matches."""

    terms: tuple[Node, ...]


Node = MatchAll | Contains | Fuzzy | Regex | Compare | Not | And | Or


class QueryError(ProftuiError):
    """An invalid query.

    Args:
        message: One short line.
        start: The start of the invalid part, in characters from 0.
        end: Its end, at least ``start``.
        hint: What to write instead, or empty.
    """

    def __init__(self, message: str, start: int, end: int, *, hint: str = "") -> None:
        super().__init__(message, hint)
        self.start = start
        self.end = max(start, end)

    @property
    def column(self) -> int:
        """The start of the invalid part, counted from 1."""
        return self.start + 1


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
"""The units of each kind of column in lower case, with their size in base units."""

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
"""The most digits of a number; a longer number is a mistake."""

_SHOWN: Final = 40
"""Cells of what was typed that an error repeats."""

_INFINITE: Final = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a query."""

    value: Fraction | float
    """The value in base units; a float only if it is not finite."""

    reading: str
    """How it was understood: ``1.5 ms``."""


@dataclass(frozen=True, slots=True)
class Share:
    """The total that ``%`` refers to in a column that is not a percentage."""

    total: int | float
    """The total in base units."""
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
    """Parse a number with or without a unit.

    Args:
        text: As typed: ``1.5ms``, ``4 MiB``, ``10k``, ``5%``, ``1,024``.
        kind: The kind of the column.
        span: Its position in the query, for errors.
        unit: The unit of a bare number; empty or ``auto``: the base unit.
        share: The total that a percentage refers to; None if there is none.
        title: The title of the column, for errors.

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
    unit_name = (match["unit"] or "").strip() or (unit if unit not in ("", "auto") else BASE_UNIT.get(kind, ""))
    if unit_name == "%" and kind is not ColumnKind.PERCENT:
        return _percentage(number, digits, share, span, title)
    if not unit_name:
        return Quantity(number, digits)
    scale = UNITS[kind].get(unit_name.lower())
    if scale is None:
        raise QueryError(f"{clip(unit_name, _SHOWN)} is not a unit of {title}", *span, hint=f"use {_OFFERED[kind]}")
    value = number * scale
    reading = f"{digits}%" if unit_name == "%" else f"{digits} {unit_name}"
    if kind in (ColumnKind.SIZE, ColumnKind.RATE) and scale % 1000 == 0:
        reading += f" ({_grouped(value)} {BASE_UNIT[kind]})"
    return Quantity(value, reading)


def typed_unit(text: str) -> str:
    """Return the unit after a number, or an empty text."""
    match = _NUMBER.fullmatch(text.strip())
    return (match["unit"] or "").strip() if match else ""


def _percentage(number: Fraction, digits: str, share: Share | None, span: Span, title: str) -> Quantity:
    if share is None:
        raise QueryError(f"% needs a total, and {title} has none", *span)
    total = Fraction(share.total)
    return Quantity(number / 100 * total, f"{digits}% of all {_grouped(total)}{' ' * bool(share.unit)}{share.unit}")


def _grouped(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.3f}"


Bound = Fraction | float
"""A float only where it is not finite."""

_MAX_MAGNITUDE: Final = 2**200
"""The replacement of an infinite bound for integers: more than any integer type holds."""


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers from one bound to another; None is no bound."""

    low: Bound | None = None
    high: Bound | None = None
    low_open: bool = False
    """The low bound itself is outside."""
    high_open: bool = False
    """The high bound itself is outside."""

    def holds(self, values: pl.Series) -> pl.Series:
        """Return which values are in the range; false for nulls and NaN."""
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
        mask = values.is_not_null() if values.null_count() else None
        if low > smallest:
            mask = values >= low if mask is None else mask & (values >= low)
        if high < largest:
            mask = values <= high if mask is None else mask & (values <= high)
        return pl.repeat(True, len(values), eager=True) if mask is None else mask.fill_null(False)

    def _holds_floats(self, values: pl.Series) -> pl.Series:
        mask = values.is_not_null() & ~values.is_nan()
        if self.low is not None:
            low = _nearest(self.low)
            mask &= values > low if self.low_open else values >= low
        if self.high is not None:
            high = _nearest(self.high)
            mask &= values < high if self.high_open else values <= high
        return mask.fill_null(False)


def unknown_mask(values: pl.Series) -> pl.Series:
    """Return which values are null or NaN."""
    return values.is_null() | values.is_nan().fill_null(False) if values.dtype.is_float() else values.is_null()


def _as_integer(bound: Bound, rounded: Callable[[Fraction], int]) -> int:
    if isinstance(bound, float):
        return _MAX_MAGNITUDE if bound > 0 else -_MAX_MAGNITUDE
    return rounded(bound)


def _limits(dtype: pl.DataType) -> tuple[int, int]:
    """Return the smallest and largest integer of a type."""
    bits = int("".join(character for character in str(dtype) if character.isdecimal()))
    return (0, 2**bits - 1) if dtype.is_unsigned_integer() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _nearest(bound: Bound) -> float:
    """Return the float nearest to a typed number, as used when the column was read."""
    try:
        return float(bound)
    except OverflowError:
        return math.copysign(math.inf, bound)
