"""Parses many integers in a text at once: eight digits are one 64-bit integer.

The bytes of eight characters are one little-endian integer: the first character is the lowest byte.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

# As in `numpy.typing`, which is slow to import.
Bytes = np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]
Places = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Words = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]
Mask = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]

CELL: Final = 8
"""Characters that are processed at once."""


def every(byte: int) -> np.uint64:
    """A word of eight equal bytes."""
    return np.uint64(int.from_bytes(bytes([byte]) * CELL, "little"))


_ONE: Final = np.uint64(1)
_THREE, _SEVEN, _EIGHT, _SIXTEEN, _THIRTY_TWO, _TOP, _ALL = (np.uint64(bits) for bits in (3, 7, 8, 16, 32, 56, 64))
_HIGH_BITS, _VALUE_BITS, _BELOW_HIGH = (every(byte) for byte in (0x80, 0x0F, 0x7F))
_ZEROS: Final = every(ord("0"))
_TO_HIGH: Final = every(0x80 - 10)
_TEN: Final = np.uint64(10)
# Steps that combine digits, pairs and groups of four: shift, mask of the sums, and the base of the next step.
_JOINED: Final = (
    (_EIGHT, np.uint64(0x00FF00FF00FF00FF), np.uint64(100)),
    (_SIXTEEN, np.uint64(0x0000FFFF0000FFFF), np.uint64(10_000)),
    (_THIRTY_TWO, np.uint64(0xFFFFFFFF), np.uint64(0)),
)
_POWERS: Final = 10 ** np.arange(CELL + 1, dtype=np.int64)
TO_MASK: Final = np.uint64(0x0102040810204080)
"""Multiplied by flags of eight bytes, the product has them in its highest byte."""

# For each set of bytes (bit 0 is the first character): how many consecutive bytes at the end are not in it.
CLEAR_AT_END: Final = np.array([next((n for n in range(8) if found >> (7 - n) & 1), 8) for found in range(256)])
KEEP_LAST: Final = np.array([(2**64 - 1) & ~(2 ** (8 * (8 - count)) - 1) for count in range(9)], np.uint64)


def words_at(data: Bytes, at: Places) -> Words:
    """The eight bytes from each offset, in ascending order; bytes before the data are zero."""
    if not len(at):
        return np.empty(0, np.uint64)
    every_word: Words = np.ndarray((len(data) - CELL + 1,), "<u8", data, strides=(1,))
    words = every_word[at]
    # Only cells of the first rows can begin before the data.
    for row in np.flatnonzero(at[:4] < 0):
        missing = -int(at[row])
        words[row] = every_word[0] << np.uint64(8 * missing) if missing < CELL else 0
    return words


def not_digits(words: Words) -> Words:
    """A word with 1 in every byte that is no digit."""
    differs = words ^ _ZEROS
    flags: Words = ((((differs & _BELOW_HIGH) + _TO_HIGH) | differs) & _HIGH_BITS) >> _SEVEN
    return flags


def eight_digits(words: Words) -> Places:
    """Parse eight digits; zero bytes count as the digit 0."""
    words = words & _VALUE_BITS
    higher = words * _TEN
    for distance, mask, base in _JOINED:
        # In place: allocating memory costs more than a step.
        words >>= distance
        words += higher
        words &= mask
        if base:
            np.multiply(words, base, out=higher)
    return words.view(np.int64)


def final_digits(data: Bytes, ends: Places) -> tuple[Places, Places]:
    """The integers that end at offsets, and their number of digits: 0 to 16."""
    words = words_at(data, ends - CELL)
    count = CLEAR_AT_END[(not_digits(words) * TO_MASK) >> _TOP]
    numbers = eight_digits(words & KEEP_LAST[count])
    full = np.flatnonzero(count == CELL)
    if len(full):
        words = words_at(data, ends[full] - 2 * CELL)
        further = CLEAR_AT_END[(not_digits(words) * TO_MASK) >> _TOP]
        numbers[full] += eight_digits(words & KEEP_LAST[further]) * 10**CELL
        count[full] += further
    return numbers, count


def first_digits(data: Bytes, begins: Places) -> tuple[Places, Places]:
    """The integers that begin at offsets, and their number of digits: 0 to 16.

    Sixteen bytes of the text follow each position.
    """
    numbers, count = _leading(data, begins)
    full = np.flatnonzero(count == CELL)
    if len(full):
        further, more = _leading(data, begins[full] + CELL)
        numbers[full] = numbers[full] * _POWERS[more] + further
        count[full] += more
    return numbers, count


def _leading(data: Bytes, begins: Places) -> tuple[Places, Places]:
    words = words_at(data, begins)
    others = not_digits(words)
    # A mask of the bytes below the lowest byte that is no digit.
    below = (others & (~others + _ONE)) - _ONE
    bits = np.bitwise_count(below).astype(np.uint64)
    return eight_digits((words & below) << (_ALL - bits)), (bits >> _THREE).astype(np.int64)
