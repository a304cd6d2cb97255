"""Figures of many rows at once: right-aligned cells at one place of every row, read as columns of bytes.

A cell is taken only where every byte of it is as nvprof prints it; all others are left to the tolerant reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tui.loaders.nvprof.trace_layout import SIZE_UNITS

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MOST_DIGITS: Final = 9
"""Figures of more digits do not fit the arithmetic; nvprof prints at most eight."""

_BLANK, _DIGIT, _LETTER, _OTHER = 0, 1, 2, 3

_CLASS: Final = np.full(256, _OTHER, np.uint8)
_CLASS[ord(" ")] = _BLANK
_CLASS[[*b"0123456789."]] = _DIGIT
_CLASS[[*b"numsKMGTB/"]] = _LETTER

_VALUE: Final = np.zeros(256, np.int64)
_VALUE[[*b"0123456789"]] = range(10)
_SHIFT: Final = np.ones(256, np.int64)
_SHIFT[[*b"0123456789"]] = 10

_TEN: Final = 10 ** np.arange(19, dtype=np.int64)
_FLOAT_TEN: Final = 10.0 ** np.arange(19)


def _codes(units: dict[str, int]) -> npt.NDArray[np.int8]:
    table = np.full(256, -1, np.int8)
    for sign, code in units.items():
        table[ord(sign)] = code
    return table


_TIME_PREFIX: Final = _codes({"n": 0, "u": 3, "m": 6})
_SECOND: Final = 9
_SIZE_PREFIX: Final = _codes({unit[0]: power for power, unit in enumerate(SIZE_UNITS) if power})


@dataclass(slots=True)
class Figures:
    """The numbers of one column; rows that are not ``good`` hold nothing of meaning."""

    digits: Places
    """All digits as one whole number."""
    decimals: npt.NDArray[np.intp]
    """How many of them stand behind the point."""
    unit: npt.NDArray[np.int8]
    """The power that the unit stands for: of ten for times, of the base for sizes."""
    dash: Mask
    """The cell is ``-``."""
    good: Mask
    """The cell is a number with its unit, or ``-``."""

    def as_float(self) -> npt.NDArray[np.float64]:
        """The numbers without their units, NaN for ``-``."""
        value = self.digits / _FLOAT_TEN[self.decimals]
        value[self.dash] = np.nan
        return value

    def as_ns(self) -> Places:
        """Times in nanoseconds, half to even; -1 for ``-``."""
        power = self.unit - self.decimals
        value = self.digits * _TEN[np.maximum(power, 0)]
        fine = power < 0
        if fine.any():
            value[fine] = np.rint(value[fine] / _FLOAT_TEN[-power[fine]]).astype(np.int64)
        value[self.dash] = -1
        return value

    def coarsest_step_ns(self) -> int:
        """The value of the last digit of the least precise time, in nanoseconds; at least 1."""
        known = self.good & ~self.dash
        power = int((self.unit - self.decimals)[known].max(initial=0))
        return int(_TEN[max(0, power)])


def window(data: Bytes, at: Places, width: int) -> Bytes:
    """The bytes of one cell of every row, a row of the result for each byte of the cell."""
    return np.take(data, at + np.arange(width)[:, None])


def figures(cells: Bytes, suffix: bytes) -> Figures:
    """Read right-aligned numbers with a unit that ends as ``suffix`` says: ``s``, ``B``, ``B/s``, or none.

    Args:
        cells: As `window` gives them; the first byte of a cell must be a blank.
        suffix: What a unit ends with; one of its prefixes (``u``, ``K``) may stand before it.
    """
    width = len(cells)
    kind = _CLASS[cells]
    # Blanks, then digits, then the unit: classes only ever rise from left to right.
    good = (kind[0] == _BLANK) & (kind[-1] != _OTHER)
    good &= (kind[1:] >= kind[:-1]).all(axis=0)
    letters = (kind == _LETTER).sum(axis=0, dtype=np.int8)
    points = cells == ord(".")
    digit_count = (kind == _DIGIT).sum(axis=0, dtype=np.int8) - points.sum(axis=0, dtype=np.int8)
    good &= (digit_count > 0) & (digit_count <= MOST_DIGITS) & (points.sum(axis=0, dtype=np.int8) <= 1)
    unit = np.zeros(cells.shape[1], np.int8)
    if suffix:
        for place, sign in enumerate(reversed(suffix), 1):
            good &= cells[-place] == sign
        prefix_letter = cells[-len(suffix) - 1]
        prefix = (_TIME_PREFIX if suffix == b"s" else _SIZE_PREFIX)[prefix_letter]
        has_prefix = letters == len(suffix) + 1
        good &= np.where(has_prefix, prefix >= 0, letters == len(suffix))
        unit = np.where(has_prefix, prefix, _SECOND if suffix == b"s" else 0).astype(np.int8)
    else:
        good &= letters == 0
    digits = np.zeros(cells.shape[1], np.int64)
    for row in cells:
        digits *= _SHIFT[row]
        digits += _VALUE[row]
    point_at = np.where(points.any(axis=0), points.argmax(axis=0), width - letters - 1)
    decimals = np.clip(width - letters - 1 - point_at, 0, MOST_DIGITS)
    dash = (cells[-1] == ord("-")) & (kind[:-1] == _BLANK).all(axis=0)
    good |= dash
    return Figures(digits, decimals, unit, dash, good)


def whole_numbers(cells: Bytes) -> tuple[Places, Mask]:
    """Right-aligned whole numbers; -1 for ``-``; and which cells are one of both."""
    read = figures(cells, b"")
    good = read.good & (read.dash | (cells != ord(".")).all(axis=0))
    return np.where(read.dash, -1, read.digits), good


def dimensions(cells: Bytes) -> tuple[Places, Places, Places, Mask]:
    """Right-aligned ``(x y z)``; -1 for ``-``; and which cells are one of both."""
    count = cells.shape[1]
    opened = np.zeros(count, np.int8)
    blanks = np.zeros(count, np.int8)
    in_number = np.zeros(count, np.int8)
    good = (cells[0] == ord(" ")) & (cells[-1] == ord(")"))
    x, y, z = (np.zeros(count, np.int64) for _ in range(3))
    for row in cells[:-1]:
        is_open, is_blank = row == ord("("), row == ord(" ")
        is_digit = _SHIFT[row] == 10
        separates = is_blank & (opened == 1)
        # A blank within the brackets stands between two numbers, everything else before them.
        good &= is_digit & (opened == 1) | is_open & (opened == 0) | is_blank & ((opened == 0) | (in_number > 0))
        x = np.where(separates, y, x)
        y = np.where(separates, z, y)
        z = np.where(separates, 0, z * _SHIFT[row] + _VALUE[row])
        blanks += separates
        opened += is_open
        in_number = np.where(is_digit, in_number + 1, 0).astype(np.int8)
        good &= in_number <= MOST_DIGITS
    good &= (opened == 1) & (blanks == 2) & (in_number > 0)
    dash = (cells[-1] == ord("-")) & (cells[:-1] == ord(" ")).all(axis=0)
    return np.where(dash, -1, x), np.where(dash, -1, y), np.where(dash, -1, z), good | dash


def final_ids(data: Bytes, ends: Places) -> tuple[Places, Places]:
    """The ids in ``name [123]`` at the end of rows.

    Args:
        data: The text.
        ends: The index after each row's last character; at least 16 bytes must lie before it.

    Returns:
        The ids, -1 where there is none, and the index after each row's last character without the id.
    """
    window_size = 14
    cells = window(data, ends - window_size, window_size)
    found = cells[-1] == ord("]")
    value = np.zeros(len(ends), np.int64)
    count = np.zeros(len(ends), np.int64)
    going = found.copy()
    scale = 1
    for row in cells[-2:1:-1]:
        going &= _SHIFT[row] == 10
        value += np.where(going, _VALUE[row] * scale, 0)
        count += going
        scale *= 10
    before = ends - 2 - count
    found &= (count > 0) & (data[before] == ord("[")) & (data[before - 1] == ord(" "))
    return np.where(found, value, -1), np.where(found, before - 1, ends)
