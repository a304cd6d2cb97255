"""Events in the layout that PyTorch writes: the parts of an event on lines of their own, which numpy finds at once.

Nothing is taken for granted: a line is either compared byte by byte with what PyTorch writes, or it is parsed as JSON
(by `tui.loaders.chrome.decoding`), so that all together is a proof of each event. What is laid out otherwise is left
to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tui.loaders.digits import final_digits

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]

_NEWLINE, _COMMA, _BRACE, _ZERO = b"\n,}0"
_OPENS, _CLOSES, _CLOSES_ARGS = b"  {\n", b"  },", b"    }\n"
_HEAD, _TIME, _DURATION, _ARGS = b'    "ph": "X", "', b'    "ts": ', b', "dur": ', b'    "args": {\n'
_LEAST_LINES: Final = 6
"""Of an event with a duration and arguments: two braces, the head, the times, and two lines around the arguments."""
_MOST_WIDTHS: Final = 4
"""Widths of start times among the events of a text: they grow by a digit, seldom."""
_MOST_DIGITS: Final = 16
_LARGEST_US: Final = 9 * 10**15


@dataclass(slots=True)
class Lined:
    """Events of a text, where most are in that layout."""

    lines: Ints
    """In which line of the text each event begins, from 1."""
    newlines: int
    at: Ints
    """The complete events: which of all they are."""
    heads: list[bytes]
    """Of each the members before its times, not parsed."""
    start_ns: Ints
    duration_ns: Ints
    args: list[bytes]
    """Of each its arguments with their braces, not parsed."""
    others_at: Ints
    """The other events."""
    others: list[bytes]
    """Their texts, not parsed."""


def lined(data: bytes) -> Lined | None:
    """Find the parts of events.

    Args:
        data: Events with a comma after each.

    Returns:
        None where they are laid out otherwise.
    """
    if not data.startswith(b"\n" + _OPENS) or not data.endswith(b"\n" + _CLOSES):
        return None
    text = np.frombuffer(data, np.uint8)
    begins = np.flatnonzero(text == _NEWLINE) + 1
    length = np.diff(begins, append=len(data) + 1) - 1
    opens = np.flatnonzero(length == len(_OPENS) - 1)
    opens = opens[_stands(text, begins[opens], _OPENS)]
    closes = np.append(opens[1:], len(begins)) - 1
    if not (length[closes] == len(_CLOSES)).all() or not _stands(text, begins[closes], _CLOSES).all():
        return None
    at = _of_lines(text, begins, length, opens, closes)
    times = begins[opens[at] + 2]
    start_ns, duration_ns, good = _times(text, times, begins[opens[at] + 3] - 2)
    at, start_ns, duration_ns = at[good], start_ns[good], duration_ns[good]
    if not len(at):
        return None
    is_other = np.ones(len(opens), np.bool_)
    is_other[at] = False
    others_at = np.flatnonzero(is_other)
    first = opens[at]
    return Lined(
        lines=opens + 2,
        newlines=len(begins),
        at=at,
        heads=_cut(data, begins[first + 1], begins[first + 2] - 2),
        start_ns=start_ns,
        duration_ns=duration_ns,
        args=_cut(data, begins[first + 3] + len(_ARGS) - 2, begins[closes[at]] - 1),
        others_at=others_at,
        others=_cut(data, begins[opens[others_at]], begins[closes[others_at]] + len(_CLOSES) - 1),
    )


def _cut(data: bytes, begins: Ints, ends: Ints) -> list[bytes]:
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _of_lines(text: Bytes, begins: Ints, length: Ints, opens: Ints, closes: Ints) -> Ints:
    """Which events have a head, a line of times and arguments, as far as the ends of their lines tell."""
    at = np.flatnonzero(closes - opens >= _LEAST_LINES - 1)
    head, args, last = opens[at] + 1, opens[at] + 3, closes[at] - 1
    good = (length[head] > len(_HEAD)) & (length[args] == len(_ARGS) - 1) & (length[last] == len(_CLOSES_ARGS) - 1)
    good &= _stands(text, begins[head], _HEAD) & (text[begins[head + 1] - 2] == _COMMA)
    good &= _stands(text, begins[args], _ARGS) & (text[begins[args] - 2] == _COMMA)
    good &= _stands(text, begins[last], _CLOSES_ARGS)
    whole: Ints = at[good]
    return whole


def _stands(text: Bytes, at: Ints, what: bytes) -> Mask:
    """Whether something stands at places, eight bytes or four at a time."""
    width = 8 if len(what) >= 8 else 4
    words = np.ndarray((max(len(text) - width + 1, 0),), f"<u{width}", text, strides=(1,))
    found = np.ones(len(at), np.bool_)
    for offset in sorted({*range(0, len(what) - width + 1, width), len(what) - width}):
        wanted = words.dtype.type(int.from_bytes(what[offset : offset + width], "little"))
        found &= words[np.minimum(at + offset, len(words) - 1)] == wanted
    return found


def _times(text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Mask]:
    """Start and duration on lines, and which lines are such a pair; ``ends`` are the places of the commas."""
    begins = begins + len(_TIME)
    middle = np.zeros(len(begins), np.int64)
    left = np.flatnonzero(_stands(text, begins - len(_TIME), _TIME))
    for _ in range(_MOST_WIDTHS):
        if not len(left):
            break
        width = int(np.argmax(text[begins[left[0]] : ends[left[0]] + 1] == _COMMA))
        at = np.minimum(begins[left] + width, ends[left])
        fits = _stands(text, at, _DURATION)
        middle[left[fits]] = at[fits]
        left = left[~fits]
    good = middle > 0
    middle[~good] = begins[~good]
    start_ns, is_start = _nanoseconds(text, begins, middle)
    duration_ns, is_duration = _nanoseconds(text, np.minimum(middle + len(_DURATION), ends), ends)
    return start_ns, duration_ns, good & is_start & is_duration


def _nanoseconds(text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, Mask]:
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
