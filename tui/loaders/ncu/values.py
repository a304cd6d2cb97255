"""From the values that Nsight Compute prints, by unit and by the locale of the machine, to numbers in base units."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

import polars as pl

from tui.loaders.text.cell_values import NS_PER_UNIT

_SIZES: Final = MappingProxyType(
    {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
)
"""Nsight Compute counts thousands in Kbyte (32.768 Kbyte are 32,768 bytes)."""

_SIZE: Final = re.compile(r"(?P<prefix>[kmgtp]i?)?b(?:yte)?s?(?P<per>/.+)?", re.IGNORECASE)
_FREQUENCY: Final = re.compile(r"(?P<prefix>[kmgt])?hz", re.IGNORECASE)
_CYCLES: Final = re.compile(r"cycle/(?P<time>\w+)")

_PLAIN: Final = r"^[+-]?\d+(?:[eE][+-]?\d+)?$"
_GROUPS: Final = {",": r"^[+-]?\d{1,3}(?:,\d{3})+$", ".": r"^[+-]?\d{1,3}(?:\.\d{3})+$"}


def base_unit(unit: str | None) -> tuple[float, str | None]:
    """The factor to the base unit of a unit, and what that is called in ``metrics.unit``.

    >>> base_unit("usecond"), base_unit("Kbyte/block"), base_unit("cycle/nsecond"), base_unit("")
    ((1000.0, 'ns'), (1000.0, 'B'), (1000000000.0, 'Hz'), (1.0, None))
    """
    if not unit:
        return 1.0, None
    if unit in NS_PER_UNIT:
        return float(NS_PER_UNIT[unit]), "ns"
    if size := _SIZE.fullmatch(unit):
        factor, per = float(_SIZES[(size["prefix"] or "").lower()]), size["per"]
        if per is None or per == "/block":
            return factor, "B"
        time = NS_PER_UNIT.get(per[1:])
        return (factor * 1e9 / time, "B/s") if time else (factor, f"B{per}")
    if frequency := _FREQUENCY.fullmatch(unit):
        return float(_SIZES[(frequency["prefix"] or "").lower()]), "Hz"
    if (cycles := _CYCLES.fullmatch(unit)) and cycles["time"] in NS_PER_UNIT:
        return 1e9 / NS_PER_UNIT[cycles["time"]], "Hz"
    return 1.0, unit


def numbers(texts: pl.Series, sign: str | None) -> pl.Series:
    """Texts as numbers, by the decimal sign; without one, only those in which it makes no difference."""
    if sign is None:
        return texts.set(~texts.str.contains(_PLAIN).fill_null(False), None).cast(pl.Float64, strict=False)
    other = "," if sign == "." else "."
    grouped = texts.str.split(sign).list.first().str.contains(_GROUPS[other])
    ungrouped = texts.str.replace_all(other, "", literal=True).zip_with(grouped.fill_null(False), texts)
    if sign == ",":
        # What still has a point is no number of this locale.
        ungrouped = ungrouped.set(ungrouped.str.contains(".", literal=True).fill_null(False), None)
        ungrouped = ungrouped.str.replace(",", ".", literal=True)
    return ungrouped.cast(pl.Float64, strict=False)


def looks_like_number(texts: pl.Series) -> pl.Series:
    """Which texts are numbers in some locale."""
    return texts.str.contains(r"^[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?$").fill_null(False)
