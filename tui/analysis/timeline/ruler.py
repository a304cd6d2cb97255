"""The ruler above the lanes: moments at round distances, written in the unit that fits."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.analysis.timeline.window import step_above
from tui.fmt import MICROSECONDS, MILLISECONDS, NANOSECONDS, SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tui.analysis.timeline.window import Window
    from tui.fmt import Unit

TICK_CELLS: Final = 14
"""Cells from one label to the next, at least."""
DIGITS: Final = 7
"""A moment of more digits is written as the distance from one that is said once."""
_UNITS: Final = (SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS)


@dataclass(frozen=True, slots=True)
class Ruler:
    """What stands above the lanes."""

    base_ns: int
    """What the labels count from; 0: the clock's own zero."""
    ticks: tuple[tuple[int, str], ...]
    """Cells and their labels, from left to right."""


def ruler(window: Window, *, ascii_only: bool = False) -> Ruler:
    """The labels of a window, and what they count from.

    >>> from tui.analysis.timeline.window import whole_window
    >>> ruler(whole_window(0, 50_000_000, 50, least_ns=1)).ticks
    ((0, '0 ms'), (20, '20 ms'), (40, '40 ms'))
    """
    step = step_above(TICK_CELLS * window.cell_ns - 1)
    unit = next((unit for unit in _UNITS if step >= unit.scale / 10), NANOSECONDS)
    base = 0
    if max(abs(window.first_ns), abs(window.last_ns)) // step >= 10**DIGITS // 100:
        coarse = 10 ** (len(str(window.last_ns - window.first_ns)))
        base = window.first_ns // coarse * coarse
    first = -(-(window.first_ns - base) // step) * step + base
    ticks = []
    for at in range(first, window.last_ns, step):
        label = _written(at - base, unit, step, ascii_only=ascii_only)
        ticks.append((window.cell_of(at), f"+{label}" if base else label))
    return Ruler(base, tuple(ticks))


def _written(value_ns: int, unit: Unit, step: int, *, ascii_only: bool) -> str:
    decimals = 0
    while step * 10**decimals % unit.scale and decimals < 3:
        decimals += 1
    symbol = unit.ascii().symbol if ascii_only else unit.symbol
    return f"{value_ns / unit.scale:,.{decimals}f} {symbol}"


def exactly(value_ns: int) -> str:
    """A moment with all its digits.

    >>> exactly(8_355_600_000), exactly(120)
    ('8.3556 s', '120 ns')
    """
    return exactly_alike([value_ns])[0]


def exactly_alike(values_ns: Sequence[int]) -> list[str]:
    """Moments with all their digits, in one unit and with as many decimals each: for lines below each other.

    >>> exactly_alike([157_456_833, 69_471_840]), exactly_alike([8_000_000_000, 120_000])
    (['157.456833 ms', '69.471840 ms'], ['8.00000 s', '0.00012 s'])
    """
    largest = max(map(abs, values_ns), default=0)
    unit = next((unit for unit in _UNITS if largest >= unit.scale), NANOSECONDS)
    scale = int(unit.scale)
    digits = len(str(scale)) - 1
    wholes = [f"{'-' if value < 0 else ''}{abs(value) // scale:,}" for value in values_ns]
    rests = [f"{abs(value) % scale:0{digits}d}" if digits else "" for value in values_ns]
    decimals = max((len(rest.rstrip("0")) for rest in rests), default=0)
    point = "." if decimals else ""
    return [f"{whole}{point}{rest[:decimals]} {unit.symbol}" for whole, rest in zip(wholes, rests, strict=True)]


def to_cells(value_ns: int, cell_ns: int) -> str:
    """A moment as exactly as cells of so much time tell it.

    >>> to_cells(8_355_612_345, 20_000)
    '8.35561 s'
    >>> to_cells(3_769_892_000, 20_000_000)
    '3.77 s'
    """
    step = 10 ** (len(str(cell_ns)) - 1)
    return exactly((value_ns + step // 2) // step * step)


def labelled(
    labels: Iterable[tuple[int, str]], cells: int, *, tick: str, signs: Mapping[int, str] = MappingProxyType({})
) -> list[str]:
    """Labels on a line, each behind a tick in its cell; one that has no room is left out, its tick stays.

    Args:
        labels: Cells and texts, from left to right.
        cells: Length of the line.
        tick: What stands in the cell of a label.
        signs: Cells in which something else stands, which no label covers.

    >>> "".join(labelled([(0, "0 ms"), (2, "1 ms"), (8, "2 ms")], 16, tick="|"))
    '|0 ms   |2 ms   '
    >>> "".join(labelled([(0, "0 ms"), (8, "2 ms")], 16, tick="|", signs={3: "v"}))
    '|  v    |2 ms   '
    """
    line = [" "] * cells
    free = 0
    for cell, text in labels:
        if cell < free or not 0 <= cell < cells:
            continue
        line[cell] = tick
        end = cell + 1 + len(text)
        if end <= cells and not any(cell < sign < end for sign in signs):
            line[cell + 1 : end] = text
            free = end + 1
    for cell, sign in signs.items():
        if 0 <= cell < cells:
            line[cell] = sign
    return line
