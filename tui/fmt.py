"""Formats values: durations, sizes, rates, counts, shares.

Pure functions, shared by the screens and the text reports, so that both write the same value the same way.
A value that is not 0 is never written as 0, an unknown value never as a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tui.model.columns import ColumnKind

NULL: Final = "–"
"""The text for an unknown value."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit that a column of values, or a single value, is written in."""

    symbol: str
    """The symbol after a value or in a heading: ``ms``, ``%``; empty for plain numbers."""
    scale: float = 1.0
    """Base units (nanoseconds, bytes) in one of it."""
    decimals: int = 0
    """Digits behind the point, unless the value is too small for them."""


NANOSECONDS: Final = Unit("ns", 1.0, 0)
MICROSECONDS: Final = Unit("µs", 1e3, 3)
MILLISECONDS: Final = Unit("ms", 1e6, 3)
SECONDS: Final = Unit("s", 1e9, 3)
_TIMES: Final = (SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS)
_TIMES_BY_NAME: Final = {"s": SECONDS, "ms": MILLISECONDS, "us": MICROSECONDS, "µs": MICROSECONDS, "ns": NANOSECONDS}

UNITS: Final = ("auto", "s", "ms", "us", "ns")
"""The choices of a unit of time."""

PERCENT: Final = Unit("%", 1.0, 2)
RATIO: Final = Unit("×", 1.0, 2)
NUMBER: Final = Unit("")

_SIZES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_TIME_KINDS: Final = (ColumnKind.DURATION, ColumnKind.TIME)
_SECONDS_THRESHOLD_NS: Final = 10e9
"""Columns whose largest value is below 10 s are written in ms: the small values keep more digits."""

_SMALLEST_DECIMALS: Final = 4
"""The maximum number of decimals of a value that is too small for the decimals of its column."""


def column_unit(kind: ColumnKind, largest: float | None, *, unit: str = "auto") -> Unit | None:
    """Return the unit for all values of a column, so that they compare at a glance.

    Args:
        kind: The kind of the column.
        largest: Its largest absolute value in base units; None if it has no value.
        unit: For times, one of `UNITS`.

    Returns:
        None where each value has a unit of its own: sizes and rates, which range from bytes to gigabytes in one column.

    >>> column_unit(ColumnKind.DURATION, 353_980_000).symbol
    'ms'
    """
    if kind in _TIME_KINDS:
        magnitude = abs(largest or 0)
        if unit != "auto":
            chosen = _TIMES_BY_NAME[unit]
        elif magnitude >= _SECONDS_THRESHOLD_NS:
            chosen = SECONDS
        else:
            chosen = next((time for time in _TIMES[1:] if magnitude >= time.scale), NANOSECONDS)
        if kind is ColumnKind.TIME:
            # Start times in seconds keep microseconds, because they distinguish rows.
            return Unit(chosen.symbol, chosen.scale, 6) if chosen is SECONDS else chosen
        # Five significant digits are what profilers measure.
        return Unit(chosen.symbol, chosen.scale, 2) if chosen.decimals and magnitude >= 100 * chosen.scale else chosen
    if kind in (ColumnKind.SIZE, ColumnKind.RATE):
        return None
    return {ColumnKind.PERCENT: PERCENT, ColumnKind.RATIO: RATIO}.get(kind, NUMBER)


def format_value(
    kind: ColumnKind,
    value: object,
    *,
    unit: Unit | None = None,
    suffix: bool = True,
) -> str:
    """Write one value.

    Args:
        kind: The kind of the value.
        value: In base units; None if unknown.
        unit: From `column_unit`; None chooses one for this value.
        suffix: Write the unit of times, shares and ratios behind the value; off where the heading shows it.

    >>> format_value(ColumnKind.DURATION, 753_580_086), format_value(ColumnKind.DURATION, 24)
    ('753.58 ms', '24 ns')
    >>> format_value(ColumnKind.SIZE, 684_392_448), format_value(ColumnKind.COUNT, 4096)
    ('652.69 MiB', '4,096')
    >>> format_value(ColumnKind.DURATION, 1_025, unit=column_unit(ColumnKind.DURATION, 353_980_000), suffix=False)
    '0.0010'
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "?" if kind is ColumnKind.FLAG else NULL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    return _number(kind, value, unit, suffix)


def format_column(kind: ColumnKind, values: Iterable[object], *, largest: float | None = None) -> tuple[str, list[str]]:
    """Write the values of a column in their common unit.

    Args:
        kind: The kind of the values.
        values: In base units; None if unknown.
        largest: The absolute value that decides the unit; None: the largest of these.

    Returns:
        The unit for the heading (empty if the values carry their own or need none), and the values.

    >>> format_column(ColumnKind.DURATION, [2_776_060_000, 1_500_000, 1_025, None])
    ('ms', ['2,776.06', '1.50', '0.0010', '–'])
    """
    items = list(values)
    if largest is None:
        largest = max((abs(value) for value in items if isinstance(value, int | float)), default=None)
    common = column_unit(kind, largest)
    heading = common.symbol if common is not None else ""
    return heading, [format_value(kind, value, unit=common, suffix=False) for value in items]


def signed(text: str, value: float) -> str:
    """Format a difference, with a plus sign if it is positive.

    >>> signed("5.00%", 5.0), signed("-5.00%", -5.0), signed("<0.01%", 0.004), signed("0 ns", 0)
    ('+5.00%', '-5.00%', '~0%', '0 ns')
    """
    if match := _BOUND.match(text):
        return f"{_NEARLY_NOTHING}{text[match.end() :]}"
    return f"+{text}" if value > 0 and text[:1].isdecimal() else text


_BOUND: Final = re.compile(r"<[0-9.]+")
_NEARLY_NOTHING: Final = "~0"
"""A difference that is not 0 and too small to be shown; only differences are negative."""


def heading(title: str, symbol: str) -> str:
    """Return a column's heading with its unit; a ratio needs none, nor does a title with the unit.

    >>> heading("Total", "ms"), heading("Time%", "%"), heading("Share", "%"), heading("Pred/Meas", "×")
    ('Total ms', 'Time%', 'Share%', 'Pred/Meas')
    """
    if symbol in ("", "×", "x") or title.startswith(symbol) or title.endswith(symbol):
        return title
    return title + symbol if symbol == "%" else f"{title} {symbol}"


def duration(value_ns: float | None, *, unit: str = "auto") -> str:
    """Format a duration with its unit, five significant digits.

    >>> duration(2_723_649_313), duration(1_025), duration(0), duration(None)
    ('2.7236 s', '1.025 µs', '0 ns', '–')
    """
    chosen = None if unit == "auto" else column_unit(ColumnKind.DURATION, value_ns, unit=unit)
    return format_value(ColumnKind.DURATION, value_ns, unit=chosen)


def step(value_ns: int) -> str:
    """Format the resolution of times.

    >>> step(10_000), step(1), step(1_500)
    ('10 µs', '1 ns', '1.5 µs')
    """
    unit = column_unit(ColumnKind.DURATION, value_ns) or NANOSECONDS
    return f"{value_ns / unit.scale:g} {unit.symbol}"


def size(value_bytes: float | None) -> str:
    """Format a size in bytes or powers of 1024.

    >>> size(16_384), size(4), size(38_535)
    ('16 KiB', '4 B', '37.632 KiB')
    """
    return format_value(ColumnKind.SIZE, value_bytes)


def rate(bytes_per_second: float | None) -> str:
    """Format a throughput in bytes or powers of 1024 per second.

    >>> rate(187.33 * 2**30)
    '187.33 GiB/s'
    """
    return format_value(ColumnKind.RATE, bytes_per_second)


def count(value: float | None) -> str:
    """Format a number of things with thousands separators.

    >>> count(1_000_000)
    '1,000,000'
    """
    return format_value(ColumnKind.COUNT, value)


def percent(value: float | None) -> str:
    """Format a percentage; only exact 0 and 100 are written as such.

    >>> percent(35.186), percent(0.0004), percent(99.9999), percent(100)
    ('35.19%', '<0.01%', '>99.99%', '100.00%')
    """
    return format_value(ColumnKind.PERCENT, value)


def brief(text: str) -> str:
    """Round a formatted number with unit to three significant digits, for sentences and dashboards.

    >>> brief("132.07 ms"), brief("80.128 ms"), brief("1,205.5 s"), brief("37.69%"), brief("–"), brief("<0.01%")
    ('132 ms', '80.1 ms', '1,206 s', '37.7%', '–', '<0.01%')
    >>> brief("4,453"), brief("640.00 ms"), brief("100.00%"), brief("99.996%")
    ('4,453', '640 ms', '100%', '>99.9%')
    """
    match = _NUMBER.match(text)
    if match is None:
        return text
    value = float(match[0].replace(",", ""))
    digits = max(0, _BRIEF_DIGITS - 1 - math.floor(math.log10(abs(value)))) if value else 0
    unit = text[match.end() :]
    if unit == "%" and _NEARLY_ALL < value < 100:
        return f">{_NEARLY_ALL}%"
    return f"{_shortest(f'{value:,.{digits}f}') if digits else f'{value:,.0f}'}{unit}"


def brief_value(kind: ColumnKind, value: object) -> str:
    """Format a value with the three significant digits of dashboards.

    >>> brief_value(ColumnKind.PERCENT, 80.2518), brief_value(ColumnKind.PERCENT, 3.708)
    ('80.3%', '3.71%')
    """
    if kind is ColumnKind.PERCENT and isinstance(value, float) and 10 <= value <= _NEARLY_ALL:
        return f"{_shortest(f'{value:.1f}')}%"
    return brief(format_value(kind, value))


def brief_duration(value_ns: float | None) -> str:
    """Format a duration with three significant digits.

    >>> brief_duration(132_070_000), brief_duration(None)
    ('132 ms', '–')
    """
    return brief(duration(value_ns))


def brief_change(before_ns: float | None, after_ns: float | None) -> str:
    """Format two durations that are compared, in three significant digits each.

    >>> brief_change(12_000_000, 23_210_000), brief_change(1_620_000, 26_400_000), brief_change(0, 800_000)
    ('12.0 ms to 23.2 ms', '1.62 ms to 26.4 ms', '0 ns to 800 µs')
    """
    return " to ".join(_three_digits(duration(value)) for value in (before_ns, after_ns))


def _three_digits(text: str) -> str:
    """Round a number with its unit to three significant digits, zeros at the end included."""
    number, _, unit = text.partition(" ")
    if not unit or number == "0" or ("." not in number and len(number) < _BRIEF_DIGITS):
        return text
    value = float(number.replace(",", ""))
    return f"{value:,.{max(0, _BRIEF_DIGITS - 1 - math.floor(math.log10(abs(value))))}f} {unit}"


def brief_percent(value: float | None) -> str:
    """Format a percentage with one decimal, for columns; only exact 0 and 100 are written as such.

    >>> brief_percent(37.69), brief_percent(0.01), brief_percent(99.99), brief_percent(100), brief_percent(None)
    ('37.7%', '<0.1%', '>99.9%', '100.0%', '–')
    """
    if value is None or not math.isfinite(value):
        return percent(value)
    if 0 < value < 0.05:
        return "<0.1%"
    return ">99.9%" if 99.95 <= value < 100 else f"{value:,.1f}%"


def brief_size(value_bytes: float | None) -> str:
    """Format a size with three significant digits."""
    return brief(size(value_bytes))


def brief_rate(bytes_per_second: float | None) -> str:
    """Format a throughput with three significant digits."""
    return brief(rate(bytes_per_second))


_NUMBER: Final = re.compile(r"-?[0-9][0-9,]*\.[0-9]+")
_BRIEF_DIGITS: Final = 3
_NEARLY_ALL: Final = 99.9
_KIND_BY_UNIT: Final = {
    "B": ColumnKind.SIZE,
    "B/s": ColumnKind.RATE,
    "%": ColumnKind.PERCENT,
    "ns": ColumnKind.DURATION,
}


_SCALED_UNITS: Final = {
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
}
"""Units of large numbers, with their multiples."""

_COUNTABLE_UNITS: Final = frozenset(
    {"block", "byte", "cycle", "inst", "register", "request", "sector", "thread", "warp"}
)
"""Units of Nsight Compute that are words."""
LEVEL_SUFFIX: Final = "of 10"
"""Levels of use go from 0 (idle) to 10 (max)."""


def metric(value: float | None, unit: str | None) -> str:
    """Format the value of a metric or event with its unit.

    >>> metric(429_496_729_600.0, "B/s"), metric(98.4375, "%"), metric(9.0, "level"), metric(32768.0, None)
    ('400 GiB/s', '98.44%', '9 of 10', '32,768')
    >>> metric(1_500_000.0, "ns"), metric(152_916_666_667.0, "Hz"), metric(2.0, "block"), metric(1.0, "warp")
    ('1.5000 ms', '152.92 GHz', '2 blocks', '1 warp')
    >>> metric(986_990_027_130_942.0, "FLOP/s"), metric(12.0, "FLOP/s")
    ('986.99 TFLOP/s', '12 FLOP/s')
    """
    if unit in _SCALED_UNITS and value is not None:
        # Just below a unit, five digits would be rounded to 1,000 of the smaller one.
        scale, unit = next(
            ((scale, name) for scale, name in _SCALED_UNITS[unit] if abs(value) >= scale * (1 - 5e-6)), (1, unit)
        )
        value = value / scale if scale > 1 else value
    kind = _KIND_BY_UNIT.get(unit or "", ColumnKind.COUNT)
    text = format_value(kind, value)
    if value is None or not unit or kind is not ColumnKind.COUNT:
        return text
    if unit == "level":
        return f"{text} {LEVEL_SUFFIX}"
    return f"{text} {unit}{'s' if unit in _COUNTABLE_UNITS and value != 1 else ''}"


def _number(kind: ColumnKind, value: float, unit: Unit | None, suffix: bool) -> str:
    """Write a known number."""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if kind in (ColumnKind.SIZE, ColumnKind.RATE):
        return _bytes(value) + ("/s" if kind is ColumnKind.RATE else "")
    if kind in _TIME_KINDS:
        chosen = unit or _single_duration_unit(value)
        return _scaled(value, chosen) + (f" {chosen.symbol}" if suffix else "")
    if kind is ColumnKind.PERCENT:
        return _percent(value) + ("%" if suffix else "")
    if kind is ColumnKind.RATIO:
        return _scaled(value, unit or RATIO) + ("×" if suffix else "")
    if isinstance(value, int):
        return f"{value:,}" if kind is ColumnKind.COUNT else str(value)
    return _plain_number(value)


def _single_duration_unit(value_ns: float) -> Unit:
    """Return the unit of a single duration, with decimals for five significant digits."""
    magnitude = abs(value_ns)
    chosen = next((time for time in _TIMES if magnitude >= time.scale), NANOSECONDS)
    # 999.996 ms would be rounded to 1000.00 ms.
    for larger, smaller in pairwise(_TIMES):
        if chosen is smaller and round(magnitude / smaller.scale, 2) >= 1000:
            chosen = larger
    if chosen is NANOSECONDS:
        return NANOSECONDS
    digits = len(str(int(magnitude / chosen.scale))) if magnitude else 1
    # A microsecond has three decimals: times are whole nanoseconds.
    max_decimals = 3 if chosen is MICROSECONDS else 4
    return Unit(chosen.symbol, chosen.scale, max(1, min(max_decimals, 5 - digits)))


def _scaled(value: float, unit: Unit) -> str:
    """Format a value in a unit; small values get two significant digits, or a bound."""
    scaled = value / unit.scale
    if value == 0 and unit.scale != 1:
        return "0"
    if value == 0 or round(abs(scaled), unit.decimals) >= 10 ** (1 - unit.decimals) or float(scaled).is_integer():
        return f"{scaled:,.{unit.decimals}f}"
    if abs(scaled) < 10**-_SMALLEST_DECIMALS:
        return _NEARLY_NOTHING if scaled < 0 else f"<{10**-_SMALLEST_DECIMALS:.{_SMALLEST_DECIMALS}f}"
    decimals = min(max(unit.decimals, 1 - math.floor(math.log10(abs(scaled)))), _SMALLEST_DECIMALS)
    return f"{scaled:,.{decimals}f}"


def _percent(value: float) -> str:
    if 0 < abs(value) < 0.005:
        return "<0.01" if value > 0 else _NEARLY_NOTHING
    if 99.995 <= abs(value) < 100:
        return ">99.99" if value > 0 else "<-99.99"
    return f"{value:,.2f}"


def _bytes(value: float) -> str:
    """Format bytes in the largest unit that gives at least 1; exact sizes without decimals."""
    magnitude = abs(value)
    for scale, symbol in _SIZES:
        # 1023.999 KiB would be rounded to 1,024 KiB.
        if magnitude >= scale * (1 - 5e-6):
            return f"{_significant(value / scale)} {symbol}"
    return f"{value if isinstance(value, int) else _plain_number(value)} B"


def _significant(value: float) -> str:
    """Format a number with five significant digits, without trailing zeros."""
    digits = len(str(int(abs(value))))
    return _shortest(f"{value:,.{max(0, 5 - digits)}f}")


def _plain_number(value: float) -> str:
    """Format a number of unknown range: five significant digits, or all digits of an integer."""
    if value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.4e}"
    return _shortest(f"{value:,.{max(0, 4 - math.floor(math.log10(abs(value))))}f}")


def _shortest(text: str) -> str:
    """Remove trailing zeros of decimals."""
    return text.rstrip("0").rstrip(".") if "." in text else text
