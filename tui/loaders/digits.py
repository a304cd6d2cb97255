"""Digits in bytes as numbers, many at a time; decimal microseconds as exact nanoseconds.

The bytes of eight characters are one little-endian integer: the first character is the lowest byte.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import numpy as np

# As in `numpy.typing`, which is slow to import.
Bytes = np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]
Positions = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Words = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]
Mask = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]

WORD_BYTES: Final = 8
"""Characters that are processed at once."""


def repeat_byte(byte: int) -> np.uint64:
    """Return a word of eight equal bytes."""
    return np.uint64(int.from_bytes(bytes([byte]) * WORD_BYTES, "little"))


_ONE: Final = np.uint64(1)
_THREE, _SEVEN, _EIGHT, _SIXTEEN, _THIRTY_TWO, _TOP, _ALL = (np.uint64(bits) for bits in (3, 7, 8, 16, 32, 56, 64))
_HIGH_BITS, _VALUE_BITS, _BELOW_HIGH = (repeat_byte(byte) for byte in (0x80, 0x0F, 0x7F))
_ZEROS: Final = repeat_byte(ord("0"))
_DIGIT_CARRY: Final = repeat_byte(0x80 - 10)
_TEN: Final = np.uint64(10)
# Steps that combine digits, pairs and groups of four: shift, mask of the sums, and the base of the next step.
_COMBINE_STEPS: Final = (
    (_EIGHT, np.uint64(0x00FF00FF00FF00FF), np.uint64(100)),
    (_SIXTEEN, np.uint64(0x0000FFFF0000FFFF), np.uint64(10_000)),
    (_THIRTY_TWO, np.uint64(0xFFFFFFFF), np.uint64(0)),
)
_POWERS: Final = 10 ** np.arange(WORD_BYTES + 1, dtype=np.int64)
GATHER_FLAGS: Final = np.uint64(0x0102040810204080)
"""Multiplied by flags of eight bytes, the product has them in its highest byte."""

# For each set of bytes (bit 0 is the first character): how many consecutive bytes at the end are not in it.
TRAILING_DIGIT_COUNTS: Final = np.array(
    [next((n for n in range(8) if found >> (7 - n) & 1), 8) for found in range(256)]
)
LAST_BYTES_MASKS: Final = np.array([(2**64 - 1) & ~(2 ** (8 * (8 - count)) - 1) for count in range(9)], np.uint64)


def words_at(data: Bytes, offsets: Positions) -> Words:
    """Return the eight bytes from each offset, in ascending order; bytes before the data are zero."""
    if not len(offsets):
        return np.empty(0, np.uint64)
    words_by_offset: Words = np.ndarray((len(data) - WORD_BYTES + 1,), "<u8", data, strides=(1,))
    words = words_by_offset[offsets]
    # Only cells of the first rows can begin before the data.
    for row in np.flatnonzero(offsets[:4] < 0):
        missing = -int(offsets[row])
        words[row] = words_by_offset[0] << np.uint64(8 * missing) if missing < WORD_BYTES else 0
    return words


def non_digit_flags(words: Words) -> Words:
    """Return a word with 1 in every byte that is no digit."""
    differs = words ^ _ZEROS
    flags: Words = ((((differs & _BELOW_HIGH) + _DIGIT_CARRY) | differs) & _HIGH_BITS) >> _SEVEN
    return flags


def eight_digits(words: Words) -> Positions:
    """Parse eight digits; zero bytes count as the digit 0."""
    words = words & _VALUE_BITS
    tens = words * _TEN
    for distance, mask, base in _COMBINE_STEPS:
        # In place: allocating memory costs more than a step.
        words >>= distance
        words += tens
        words &= mask
        if base:
            np.multiply(words, base, out=tens)
    return words.view(np.int64)


def trailing_digits(data: Bytes, ends: Positions) -> tuple[Positions, Positions]:
    """Return the integers that end at offsets, and their number of digits: 0 to 16."""
    words = words_at(data, ends - WORD_BYTES)
    count = TRAILING_DIGIT_COUNTS[(non_digit_flags(words) * GATHER_FLAGS) >> _TOP]
    numbers = eight_digits(words & LAST_BYTES_MASKS[count])
    full_rows = np.flatnonzero(count == WORD_BYTES)
    if len(full_rows):
        words = words_at(data, ends[full_rows] - 2 * WORD_BYTES)
        more_digits = TRAILING_DIGIT_COUNTS[(non_digit_flags(words) * GATHER_FLAGS) >> _TOP]
        numbers[full_rows] += eight_digits(words & LAST_BYTES_MASKS[more_digits]) * 10**WORD_BYTES
        count[full_rows] += more_digits
    return numbers, count


def leading_digits(data: Bytes, begins: Positions) -> tuple[Positions, Positions]:
    """Return the integers that begin at offsets, and their number of digits: 0 to 16.

    Sixteen bytes of the text follow each position.
    """
    numbers, count = _leading_digits(data, begins)
    full_rows = np.flatnonzero(count == WORD_BYTES)
    if len(full_rows):
        lower, more_digits = _leading_digits(data, begins[full_rows] + WORD_BYTES)
        numbers[full_rows] = numbers[full_rows] * _POWERS[more_digits] + lower
        count[full_rows] += more_digits
    return numbers, count


def _leading_digits(data: Bytes, begins: Positions) -> tuple[Positions, Positions]:
    words = words_at(data, begins)
    flags = non_digit_flags(words)
    # A mask of the bytes below the lowest byte that is no digit.
    digit_mask = (flags & (~flags + _ONE)) - _ONE
    bits = np.bitwise_count(digit_mask).astype(np.uint64)
    return eight_digits((words & digit_mask) << (_ALL - bits)), (bits >> _THREE).astype(np.int64)


if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

NULL: Final = -(1 << 63)
"""Null among whole numbers."""

EXACT_BELOW_US: Final = float(1 << 43)
"""Below it a float64 of microseconds distinguishes nanoseconds; the epoch in microseconds is far above."""

_LARGEST_US: Final = 9 * 10**15
"""About 285 years; what is later does not fit into 64 bits of nanoseconds."""
_LONGEST_NUMBER: Final = 64
"""The maximum number of characters of a time: a hostile file cannot force arithmetic with millions of digits."""
_MAX_DIGITS: Final = 18
_DECIMALS: Final = 3
_MINUS, _DOT, _ZERO, _NEWLINE = b"-.0\n"


def us_to_ns(value: object) -> int:
    """Convert microseconds, given as a number or as text, to nanoseconds; `NULL` for other values.

    >>> us_to_ns("1712195495519689.123"), us_to_ns(1.5), us_to_ns(True) == NULL
    (1712195495519689123, 1500, True)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return NULL
    # The shortest text of a float is most likely the text in the file.
    text = str(value) if not isinstance(value, int) or abs(value) < _LARGEST_US else ""
    try:
        microseconds = Decimal(text) if 0 < len(text) <= _LONGEST_NUMBER else None
    except InvalidOperation:
        return NULL
    if microseconds is None or not microseconds.is_finite() or microseconds.copy_abs() >= _LARGEST_US:
        return NULL
    return int((microseconds * 1000).to_integral_value(ROUND_HALF_EVEN))


def us_floats_to_ns(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Convert floats below `EXACT_BELOW_US` to nanoseconds: exact if the file has up to three decimals."""
    integral = np.floor(microseconds)
    fraction = np.rint((microseconds - integral) * 1000)
    return integral.astype(np.int64) * 1000 + fraction.astype(np.int64)


def us_texts_to_ns(texts: Sequence[bytes]) -> Ints:
    """Convert microseconds as text to nanoseconds; `NULL` for other text.

    >>> us_texts_to_ns([b"1712195495519689.123", b"-7", b"1.25", b"2e3", b'"8"', b"null"]).tolist()[:5]
    [1712195495519689123, -7000, 1250, 2000000, 8000]
    """
    count = len(texts)
    if not count:
        return np.empty(0, np.int64)
    data = np.frombuffer(b"\n".join([*texts, b""]), np.uint8)
    end = np.flatnonzero(data == _NEWLINE)
    if len(end) != count:  # a text holds a newline
        return np.array([_us_text_to_ns(bytes(text)) for text in texts], np.int64)
    start = np.concatenate([[0], end[:-1] + 1])
    is_digit = (data - np.uint8(_ZERO)) < 10
    digits_before = np.concatenate([[0], np.cumsum(is_digit)])
    digits = digits_before[end] - digits_before[start]
    negative = data[start] == _MINUS
    dots = np.flatnonzero(data == _DOT)
    dot_row = np.searchsorted(end, dots)
    decimals = np.zeros(count, np.int64)
    decimals[dot_row] = end[dot_row] - dots - 1
    dots_in_row = np.bincount(dot_row, minlength=count)
    is_plain = (
        (digits > 0)
        & (digits <= _MAX_DIGITS)
        & (digits + negative + dots_in_row == end - start)
        & (dots_in_row <= 1)
        & (decimals <= _DECIMALS)
    )
    # Each digit times its power of ten, added up for each row.
    row_of_digit = np.repeat(np.arange(count), digits)
    value = data[is_digit].astype(np.int64) - _ZERO
    power = np.minimum(digits_before[end][row_of_digit] - 1 - np.arange(len(value)), _MAX_DIGITS)
    digit_values = value * _POWERS_OF_TEN[power]
    total = np.zeros(count, np.int64)
    with_digits = np.flatnonzero(digits)
    if len(with_digits):
        total[with_digits] = np.add.reduceat(digit_values, digits_before[start][with_digits])
    scale = _POWERS_OF_TEN[np.clip(_DECIMALS - decimals, 0, _DECIMALS)]
    is_plain &= total < _LARGEST_US * 1000 // scale
    ns = np.where(negative, -total, total) * scale
    for row in np.flatnonzero(~is_plain).tolist():
        ns[row] = _us_text_to_ns(bytes(texts[row]))
    return ns


_POWERS_OF_TEN: Final = 10 ** np.arange(_MAX_DIGITS + 1, dtype=np.int64)


def _us_text_to_ns(text: bytes) -> int:
    return us_to_ns(text.decode("latin-1").strip(' "\n\r\t')) if len(text) <= _LONGEST_NUMBER else NULL
