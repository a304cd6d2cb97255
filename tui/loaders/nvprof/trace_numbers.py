"""Figures of many rows at once: right-aligned cells at one place of every row, eight bytes of each in one integer.

A cell is taken only where every byte of it is as nvprof prints it; all others are left to the tolerant reader.
The bytes of eight characters are one little-endian integer: the first character is the lowest byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tui.loaders.digits import (
    CELL,
    CLEAR_AT_END,
    KEEP_LAST,
    TO_MASK,
    Bytes,
    Mask,
    Places,
    eight_digits,
    every,
    final_digits,
    not_digits,
    words_at,
)
from tui.loaders.nvprof.trace_layout import SIZE_UNITS

_ONE: Final = np.uint64(1)
_SEVEN, _EIGHT, _TOP = (np.uint64(bits) for bits in (7, 8, 56))
_BYTE: Final = np.uint64(0xFF)
_LOW_BITS, _HIGH_BITS = every(0x01), every(0x80)
_POINTS, _BLANKS = every(ord(".")), every(ord(" "))
_SECOND_BYTE, _SECOND_BYTE_BITS = np.uint64(0x0100), np.uint64(0xFF00)
_POWERS: Final = 10 ** np.arange(19, dtype=np.int64)
_FLOAT_POWERS: Final = 10.0 ** np.arange(19)

_SECOND: Final = 9
_NO_UNIT: Final = -1


def _codes(units: dict[str, int]) -> npt.NDArray[np.int8]:
    table = np.full(256, _NO_UNIT, np.int8)
    for sign, code in units.items():
        table[ord(sign)] = code
    return table


_TIME_PREFIX: Final = _codes({"n": 0, "u": 3, "m": 6})
_SIZE_PREFIX: Final = _codes({unit[0]: power for power, unit in enumerate(SIZE_UNITS) if power})


@dataclass(slots=True)
class Figures:
    """The numbers of one column; rows that are not ``good`` hold nothing of meaning."""

    digits: Places
    """All digits as one whole number."""
    decimals: Places
    """How many of them stand behind the point."""
    unit: npt.NDArray[np.int8]
    """The power that the unit stands for: of ten for times, of the base for sizes."""
    dash: Mask
    """The cell is ``-``."""
    good: Mask
    """The cell is a number with its unit, or ``-``."""

    def as_float(self) -> npt.NDArray[np.float64]:
        """The numbers without their units, NaN for ``-``."""
        value: npt.NDArray[np.float64] = np.where(self.dash, np.nan, self.digits / _FLOAT_POWERS[self.decimals])
        return value

    def as_whole(self) -> Places:
        """Whole numbers, -1 for ``-``."""
        return np.where(self.dash, -1, self.digits)

    def as_ns(self) -> Places:
        """Times in nanoseconds, half to even; -1 for ``-``."""
        power = self.unit - self.decimals
        value: Places = self.digits * _POWERS[np.maximum(power, 0)]
        fine = np.flatnonzero(power < 0)
        if len(fine):
            value[fine] = np.rint(value[fine] / _FLOAT_POWERS[-power[fine]]).astype(np.int64)
        value[self.dash] = -1
        return value

    def last_digit(self) -> Places:
        """The power of ten, in nanoseconds, of the last digit of times."""
        return self.unit - self.decimals


def blank(data: Bytes, at: Places, width: int) -> Mask:
    """Whether ``width`` characters from each place on are blanks."""
    result = np.ones(len(at), np.bool_)
    for place in range(width):
        result &= data[at + place] == ord(" ")
    return result


def figures(data: Bytes, edges: Places, width: int, suffix: bytes) -> Figures:
    """Read right-aligned numbers with a unit that ends as ``suffix`` says: ``s``, ``B``, ``B/s``, or none.

    Args:
        data: The text.
        edges: The index after each cell.
        width: How many characters a cell has.
        suffix: What a unit ends with; one of its prefixes (``u``, ``K``) may stand before it.
    """
    words = words_at(data, edges - len(suffix) - CELL)
    if width - len(suffix) < CELL:
        own = KEEP_LAST[width - len(suffix)]
        words = (words & own) | (_BLANKS & ~own)
    good = blank(data, edges - width, width - len(suffix) - CELL)
    unit = np.zeros(len(words), np.int8)
    numbers = words
    if suffix:
        dash = good & (data[edges - 1] == ord("-")) & (words == _BLANKS)
        for place, sign in enumerate(suffix):
            at_place = data[edges - len(suffix) + place]
            good &= at_place == sign
            if place < len(suffix) - 1:
                dash &= at_place == ord(" ")
        unit = (_TIME_PREFIX if suffix == b"s" else _SIZE_PREFIX)[numbers >> _TOP]
        prefixed = unit != _NO_UNIT
        numbers = np.where(prefixed, numbers << _EIGHT, numbers)
        unit[~prefixed] = _SECOND if suffix == b"s" else 0
    else:
        dash = good & (words == _DASH)
    # The lowest point: found as the lowest byte that is zero.
    differs = numbers ^ _POINTS
    point = (differs - _LOW_BITS) & ~differs & _HIGH_BITS
    point &= ~point + _ONE
    before = (point >> _SEVEN) - _ONE
    has_point = point != 0
    # What stands before the point moves up to where the point is.
    numbers = np.where(has_point, (numbers & ~((before << _EIGHT) | _BYTE)) | ((numbers & before) << _EIGHT), numbers)
    decimals = CLEAR_AT_END[((point >> _SEVEN) * TO_MASK) >> _TOP] % CELL
    filler = not_digits(numbers) * _BYTE
    # Nothing but blanks, and they stand before the digits.
    good &= (filler & (filler + _ONE) == 0) & (numbers & filler & ~_BLANKS == 0) & (filler >> _TOP == 0)
    return Figures(eight_digits(numbers & ~filler), decimals, unit, dash, good | dash)


_DASH: Final = np.frombuffer(b"       -", "<u8")[0]


def final_ids(data: Bytes, ends: Places) -> tuple[Places, Places]:
    """The ids in ``name [123]`` at the end of rows.

    Args:
        data: The text.
        ends: The index after each row's last character; at least 20 characters lie before it.

    Returns:
        The ids, -1 where there is none, and the index after each row's last character without the id.
    """
    ids, count = final_digits(data, ends - 1)
    before = ends - 2 - count
    found = (data[ends - 1] == ord("]")) & (count > 0) & (data[before] == ord("[")) & (data[before - 1] == ord(" "))
    return np.where(found, ids, -1), np.where(found, before - 1, ends)


def six_decimals(data: Bytes, begins: Places, ends: Places) -> tuple[Places, Mask]:
    """Numbers such as ``215155.715000`` in millionths, and which of the pieces of a text are such numbers."""
    length = ends - begins
    words = words_at(data, ends - CELL)
    good = (length >= CELL) & (length <= 2 * CELL) & (not_digits(words) == _SECOND_BYTE)
    good &= (words ^ _POINTS) & _SECOND_BYTE_BITS == 0
    last = eight_digits(words & ~_SECOND_BYTE_BITS)
    keep = KEEP_LAST[np.clip(length - CELL, 0, CELL)]
    words = words_at(data, ends - 2 * CELL)
    good &= not_digits(words) & keep == 0
    ones, decimals = np.divmod(last, 10**7)
    return eight_digits(words & keep) * 10**7 + ones * 10**6 + decimals, good


def dimensions(data: Bytes, at: Places, width: int) -> tuple[Places, Places, Places, Mask]:
    """Right-aligned ``(x y z)`` in cells of a width; -1 for ``-``; and which cells are one of both."""
    cells = np.take(data, at + np.arange(width)[:, None])
    dash = (cells[-1] == ord("-")) & (cells[:-1] == ord(" ")).all(axis=0)
    good = (cells[0] == ord(" ")) & (cells[-1] == ord(")"))
    end = at + width - 1
    parts = []
    for opening in b"  (":
        words = words_at(data, end - CELL)
        count = CLEAR_AT_END[(not_digits(words) * TO_MASK) >> _TOP]
        parts.append(np.where(dash, -1, eight_digits(words & KEEP_LAST[count])))
        end = np.maximum(end - count - 1, at)
        good &= (count > 0) & (count < CELL) & (data[end] == opening)
    good &= (end > at) & (np.where(np.arange(width)[:, None] < end - at, cells, ord(" ")) == ord(" ")).all(axis=0)
    z, y, x = parts
    return x, y, z, good | dash
