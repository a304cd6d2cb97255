"""Events in the layout that PyTorch writes: the parts of an event on lines of their own, which numpy finds at once.

Nothing is taken for granted: a line is either compared byte by byte with what PyTorch writes, or it is parsed as JSON
(by `tui.loaders.chrome.decoding`), so that all together is a proof of each event. What is laid out otherwise is left
to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tui.loaders.chrome.lined_flows import LinedFlows, lined_flows
from tui.loaders.chrome.lined_text import cut, nanoseconds, stands

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]

_NEWLINE, _COMMA = b"\n,"
_OPENS, _CLOSES, _CLOSES_ARGS = b"  {\n", b"  },", b"    }\n"
_HEAD, _TIME, _DURATION, _ARGS = b'    "ph": "X", "', b'    "ts": ', b', "dur": ', b'    "args": {\n'
_LEAST_LINES: Final = 6
"""Of an event with a duration and arguments: two braces, the head, the times, and two lines around the arguments."""
_MOST_WIDTHS: Final = 4
"""Widths of start times among the events of a text: they grow by a digit, seldom."""


@dataclass(slots=True)
class Args:
    """Where the arguments of events lie, which end with `CLOSES` and the end of an event."""

    data: bytes
    text: Bytes
    """The same."""
    begins: Ints
    ends: Ints

    def of(self, rows: Ints) -> Args:
        """Those of some events."""
        return Args(self.data, self.text, self.begins[rows], self.ends[rows])

    def cut(self) -> list[bytes]:
        """Their texts."""
        return cut(self.data, self.begins, self.ends)


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
    args: Args
    """Of each its arguments with their braces, not parsed."""
    flows: LinedFlows
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
    opens = opens[stands(text, begins[opens], _OPENS)]
    closes = np.append(opens[1:], len(begins)) - 1
    if not (length[closes] == len(_CLOSES)).all() or not stands(text, begins[closes], _CLOSES).all():
        return None
    at = _of_lines(text, begins, length, opens, closes)
    times = begins[opens[at] + 2]
    start_ns, duration_ns, good = _times(text, times, begins[opens[at] + 3] - 2)
    at, start_ns, duration_ns = at[good], start_ns[good], duration_ns[good]
    is_other = np.ones(len(opens), np.bool_)
    is_other[at] = False
    flows = lined_flows(data, text, begins, opens, closes)
    is_other[flows.at] = False
    others_at = np.flatnonzero(is_other)
    first = opens[at]
    return Lined(
        lines=opens + 2,
        newlines=len(begins),
        at=at,
        heads=cut(data, begins[first + 1], begins[first + 2] - 2),
        start_ns=start_ns,
        duration_ns=duration_ns,
        args=Args(data, text, begins[first + 3] + len(_ARGS) - 2, begins[closes[at]] - 1),
        flows=flows,
        others_at=others_at,
        others=cut(data, begins[opens[others_at]], begins[closes[others_at]] + len(_CLOSES) - 1),
    )


def _of_lines(text: Bytes, begins: Ints, length: Ints, opens: Ints, closes: Ints) -> Ints:
    """Which events have a head, a line of times and arguments, as far as the ends of their lines tell."""
    at = np.flatnonzero(closes - opens >= _LEAST_LINES - 1)
    head, args, last = opens[at] + 1, opens[at] + 3, closes[at] - 1
    good = (length[head] > len(_HEAD)) & (length[args] == len(_ARGS) - 1) & (length[last] == len(_CLOSES_ARGS) - 1)
    good &= stands(text, begins[head], _HEAD) & (text[begins[head + 1] - 2] == _COMMA)
    good &= stands(text, begins[args], _ARGS) & (text[begins[args] - 2] == _COMMA)
    good &= stands(text, begins[last], _CLOSES_ARGS)
    whole: Ints = at[good]
    return whole


def _times(text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Mask]:
    """Start and duration on lines, and which lines are such a pair; ``ends`` are the places of the commas."""
    begins = begins + len(_TIME)
    middle = np.zeros(len(begins), np.int64)
    left = np.flatnonzero(stands(text, begins - len(_TIME), _TIME))
    for _ in range(_MOST_WIDTHS):
        if not len(left):
            break
        width = int(np.argmax(text[begins[left[0]] : ends[left[0]] + 1] == _COMMA))
        at = np.minimum(begins[left] + width, ends[left])
        fits = stands(text, at, _DURATION)
        middle[left[fits]] = at[fits]
        left = left[~fits]
    good = middle > 0
    middle[~good] = begins[~good]
    start_ns, is_start = nanoseconds(text, begins, middle)
    duration_ns, is_duration = nanoseconds(text, np.minimum(middle + len(_DURATION), ends), ends)
    return start_ns, duration_ns, good & is_start & is_duration
