"""Converts the microseconds of trace events to integer nanoseconds, exactly."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

NULL: Final = -(1 << 63)
"""What stands for null among whole numbers."""

EXACT_BELOW_US: Final = float(1 << 43)
"""Below it a float64 of microseconds distinguishes nanoseconds; the epoch in microseconds is far above."""

_LARGEST_US: Final = 9 * 10**15
"""About 285 years; what is later does not fit into 64 bits of nanoseconds."""
_LONGEST_NUMBER: Final = 64
"""The most characters of a time: a hostile file cannot force arithmetic with millions of digits."""
_MOST_DIGITS: Final = 18
_DECIMALS: Final = 3
_MINUS, _DOT, _ZERO, _NEWLINE = b"-.0\n"


def ns_of(value: object) -> int:
    """Nanoseconds of one value of microseconds: a number, or the text of one. `NULL` where it is none.

    >>> ns_of("1712195495519689.123"), ns_of(1.5), ns_of(True) == NULL
    (1712195495519689123, 1500, True)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return NULL
    # The text of a float is what stood in the file, as far as it can be known.
    text = str(value) if not isinstance(value, int) or abs(value) < _LARGEST_US else ""
    try:
        microseconds = Decimal(text) if 0 < len(text) <= _LONGEST_NUMBER else None
    except InvalidOperation:
        return NULL
    if microseconds is None or not microseconds.is_finite() or microseconds.copy_abs() >= _LARGEST_US:
        return NULL
    if microseconds.adjusted() < -_LONGEST_NUMBER:
        return 0
    return int((microseconds * 1000).to_integral_value(ROUND_HALF_EVEN))


def ns_of_floats(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Nanoseconds of floats below `EXACT_BELOW_US`: exact where the file has up to three decimals."""
    whole = np.floor(microseconds)
    fraction = np.rint((microseconds - whole) * 1000)
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)


def ns_of_texts(texts: Sequence[bytes]) -> Ints:
    """Nanoseconds of the texts of numbers, as they stand in the file; `NULL` where one is no number.

    >>> ns_of_texts([b"1712195495519689.123", b"-7", b"1.25", b"2e3", b'"8"', b"null"]).tolist()[:5]
    [1712195495519689123, -7000, 1250, 2000000, 8000]
    """
    count = len(texts)
    if not count:
        return np.empty(0, np.int64)
    data = np.frombuffer(b"\n".join([*texts, b""]), np.uint8)
    end = np.flatnonzero(data == _NEWLINE)
    if len(end) != count:  # a text holds a newline
        return np.array([_ns_of_text(bytes(text)) for text in texts], np.int64)
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
    plain = (
        (digits > 0)
        & (digits <= _MOST_DIGITS)
        & (digits + negative + dots_in_row == end - start)
        & (dots_in_row <= 1)
        & (decimals <= _DECIMALS)
    )
    # Each digit times its power of ten, added up for each row.
    row_of_digit = np.repeat(np.arange(count), digits)
    value = data[is_digit].astype(np.int64) - _ZERO
    power = np.minimum(digits_before[end][row_of_digit] - 1 - np.arange(len(value)), _MOST_DIGITS)
    parts = value * _POWERS[power]
    total = np.zeros(count, np.int64)
    some = np.flatnonzero(digits)
    if len(some):
        total[some] = np.add.reduceat(parts, digits_before[start][some])
    scale = _POWERS[np.clip(_DECIMALS - decimals, 0, _DECIMALS)]
    plain &= total < _LARGEST_US * 1000 // scale
    ns = np.where(negative, -total, total) * scale
    for row in np.flatnonzero(~plain).tolist():
        ns[row] = _ns_of_text(bytes(texts[row]))
    return ns


_POWERS: Final = 10 ** np.arange(_MOST_DIGITS + 1, dtype=np.int64)


def _ns_of_text(text: bytes) -> int:
    return ns_of(text.decode("latin-1").strip(' "\n\r\t')) if len(text) <= _LONGEST_NUMBER else NULL
