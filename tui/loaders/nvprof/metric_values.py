"""The values of metrics and events as nvprof prints them: counts, ratios, percentages, rates, levels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Final

import polars as pl

OVERFLOW: Final = "<OVERFLOW>"

_NUMBER: Final = r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_SUFFIX: Final = r"%|[KMGT]?B(?:/s)?"
_LEVEL: Final = r"(?:Idle|Low|Mid|High|Max) \(\d{1,2}\)"
_NONE: Final = rf"{OVERFLOW}|-?nan%?|-?inf%?|[nN]/[aA]"

VALUE: Final = rf"(?:{_LEVEL}|(?:{_NUMBER})(?:{_SUFFIX})?|{_NONE})"
"""A regular expression of a value, without groups. A level has a blank in it: ``Low (1)``."""

_PARTS: Final = re.compile(rf"(?P<number>{_NUMBER})(?P<suffix>{_SUFFIX})?|[A-Z][a-z]+ \((?P<level>\d{{1,2}})\)|{_NONE}")
_POWERS: Final = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, slots=True)
class Measured:
    """A value in base units."""

    value: float | None
    unit: str | None
    """``%``, ``B/s``, ``B``, ``level`` (0 idle to 10 max), or null for counts and ratios."""

    @property
    def unknown(self) -> bool:
        """Whether nvprof says itself that it has no value."""
        return self.value is None


def measured(text: str) -> Measured:
    """A value in base units: bytes per second, percent from 0 to 100, the number of a level.

    Metrics are younger than nvprof's change from decimal to binary prefixes: KB, MB and GB are powers of 1024.

    Raises:
        ValueError: It is no value.

    >>> measured("7.5000KB/s"), measured("Low (2)")
    (Measured(value=7680.0, unit='B/s'), Measured(value=2.0, unit='level'))
    """
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a number, a level or a rate, found {text!r}")
    if match["level"]:
        return Measured(float(match["level"]), "level")
    if match["number"] is None:
        return Measured(None, None)
    suffix = match["suffix"] or ""
    value = float(match["number"]) * 1024.0 ** _POWERS.get(suffix[:1], 0)
    return Measured(value if isfinite(value) else None, suffix.lstrip("KMGT") or None)


def values_of(column: str) -> tuple[pl.Expr, pl.Expr]:
    """The same for a column of texts: expressions ``value`` and ``unit``; null where it is no value."""
    text = pl.col(column)
    parts = text.str.extract_groups(rf"^(?P<number>{_NUMBER})(?P<suffix>{_SUFFIX})?$")
    number = parts.struct.field("number").cast(pl.Float64)
    suffix = parts.struct.field("suffix").fill_null("")
    power = suffix.str.slice(0, 1).replace_strict(_POWERS, default=0, return_dtype=pl.Int64)
    level = text.str.extract(r"^(?:Idle|Low|Mid|High|Max) \((\d{1,2})\)$").cast(pl.Float64)
    value = pl.coalesce(level, number * pl.lit(1024.0).pow(power))
    value = pl.when(value.is_finite()).then(value)
    unit = (
        pl.when(level.is_not_null())
        .then(pl.lit("level"))
        .when(number.is_not_null() & (suffix != ""))
        .then(suffix.str.strip_chars_start("KMGT"))
    )
    return value.alias("value"), unit.alias("unit")
