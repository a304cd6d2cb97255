"""Parses the numbers and CSV cells of nvprof's text, exactly: decimal arithmetic, no floats."""

from __future__ import annotations

import csv
import re
from decimal import ROUND_HALF_EVEN, Decimal
from types import MappingProxyType
from typing import Final

NS_PER_UNIT: Final = MappingProxyType({"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000})

_NUMBER: Final = r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?)"
_TIME: Final = re.compile(_NUMBER + r"(ns|us|ms|s)?")
_PERCENT: Final = re.compile(_NUMBER + r"%?")
_COUNT: Final = re.compile(r"[0-9]{1,18}")


def time_ns(text: str, unit: str | None = None) -> int:
    """Return a time in nanoseconds, rounded to a whole one.

    Args:
        text: ``2.77606s``, ``274ns``, ``2.4e+03s``; without a unit only where `unit` gives it.
        unit: The unit of the column (``ms``), for cells that have none.

    Raises:
        ValueError: It is not a time, or its unit is unknown.

    >>> time_ns("2.77606s"), time_ns("1.32e+03", "ms"), time_ns("5.251200e-05", "s")
    (2776060000, 1320000000, 52512)
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a time such as 1.5ms, found {text!r}")
    factor = NS_PER_UNIT.get(match[2] or unit or "")
    if factor is None:
        raise ValueError(f"expected a time with its unit (s, ms, us or ns), found {text!r}")
    value = Decimal(match[1]) * factor
    if value.adjusted() > 17:
        raise ValueError(f"{text!r} is too large")
    return int(value.to_integral_value(ROUND_HALF_EVEN))


def time_step_ns(text: str, unit: str | None = None) -> Decimal:
    """Return the value of the last digit of a time, in nanoseconds.

    >>> [int(time_step_ns(text)) for text in ("2.77606s", "2.4e+03s", "274ns")]
    [10000, 100000000000, 1]
    """
    match = _TIME.fullmatch(text)
    if match is None or (match[2] or unit) not in NS_PER_UNIT:
        raise ValueError(f"expected a time with its unit (s, ms, us or ns), found {text!r}")
    exponent = Decimal(match[1]).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal((0, (1,), exponent)) * NS_PER_UNIT[match[2] or unit or ""]


def parse_percent(text: str) -> float:
    """Parse a percentage, with or without its sign.

    >>> parse_percent("52.28%"), parse_percent("49.52")
    (52.28, 49.52)
    """
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a percentage such as 12.5%, found {text!r}")
    return float(match[1])


def parse_count(text: str) -> int:
    """Parse an integer.

    >>> parse_count("1678")
    1678
    """
    if _COUNT.fullmatch(text) is None:
        raise ValueError(f"expected a whole number, found {text!r}")
    return int(text)


def csv_cells(text: str) -> list[str]:
    """Return the cells of a line, stripped; empty if it cannot be split.

    >>> csv_cells('1.5,, "f(int, int) [7]"')
    ['1.5', '', 'f(int, int) [7]']
    """
    try:
        return [cell.strip() for cell in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error:
        return []
