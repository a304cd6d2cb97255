"""Pieces of a text at many places at once: literals and numbers, compared byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tui.loaders.digits import final_digits

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.digits import Bytes, Mask

    Ints = npt.NDArray[np.int64]

_WIDTHS: Final = (1, 2, 4, 8)
"""Bytes of integers."""
_WIDEST: Final = 64
"""Bytes that are compared at once."""
_ZERO: Final = ord("0")
_MOST_DIGITS: Final = 15
"""What both `first_digits` and a float can tell for sure."""
_LARGEST_US: Final = 9 * 10**15


def cut(data: bytes, begins: Ints, ends: Ints) -> list[bytes]:
    """The pieces of a text between places."""
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def stands(text: Bytes, at: Ints, what: bytes) -> Mask:
    """Whether something stands at places."""
    last = len(text) - len(what)
    if len(at) and int(at.max()) > last:
        found: Mask = at <= last
        found[found] = stands(text, at[found], what)
        return found
    found = _stands(text, at, what[:_WIDEST])
    for offset in range(_WIDEST, len(what), _WIDEST):
        found &= _stands(text, at + offset, what[offset : offset + _WIDEST])
    return found


def _stands(text: Bytes, at: Ints, what: bytes) -> Mask:
    # What has the width of an integer is compared as one, which takes half the time.
    dtype = np.dtype(f"<u{len(what)}" if len(what) in _WIDTHS else f"V{len(what)}")
    pieces = np.ndarray((max(len(text) - len(what) + 1, 0),), dtype, text, strides=(1,))
    found: Mask = pieces[at] == np.frombuffer(what, dtype)[0]
    return found


def is_number(text: Bytes, begins: Ints, digits: Ints) -> Mask:
    """Which places begin a whole number as JSON has it, of which so many digits were found."""
    first = text[np.minimum(begins, len(text) - 1)]
    good: Mask = (digits > 0) & (digits <= _MOST_DIGITS) & ((digits == 1) | (first != _ZERO))
    return good


def nanoseconds(text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, Mask]:
    """Numbers of microseconds with no decimals or three, and which pieces of the text are such numbers."""
    words = np.ndarray((len(text) - 3,), "<u4", text, strides=(1,))
    last = words[ends - 4]
    # A point and three digits, each of which becomes a byte of its value.
    has_decimals = (last & np.uint32(0xF0F0F0FF)) == np.uint32(0x3030302E)
    values = (last >> np.uint32(8)) & np.uint32(0x0F0F0F)
    has_decimals &= (values + np.uint32(0x060606)) & np.uint32(0x101010) == 0
    thousandths = (
        (values & np.uint32(15)) * np.uint32(100)
        + ((values >> np.uint32(8)) & np.uint32(15)) * np.uint32(10)
        + (values >> np.uint32(16))
    )
    point = np.where(has_decimals, ends - 4, ends)
    whole, digits = final_digits(text, point)
    good = (digits == point - begins) & (digits > 0) & (whole < _LARGEST_US)
    good &= (digits == 1) | (text[begins] != _ZERO)
    return whole * 1000 + np.where(has_decimals, thousandths, 0), good
