"""Arrows in the layout that PyTorch writes, which is two lines: numbers first, then what hardly changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.chrome.event import Event, NotProvenError
from tui.loaders.chrome.lined_text import is_number, nanoseconds, stands
from tui.loaders.chrome.pieces import FLOW, LONGEST_TEXT, Rows, Texts
from tui.loaders.digits import first_digits

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.digits import Bytes, Mask

    Ints = npt.NDArray[np.int64]

_LINES: Final = 4
_PHASE: Final = b'    "ph": "'
_NUMBERS: Final = (b'", "id": ', b', "pid": ', b', "tid": ')
_TIME: Final = b', "ts": '
_COMMA: Final = ord(",")
_MOST_TAILS: Final = 8
"""Distinct second lines that are looked for in a text."""
_SMALL: Final = 1 << 20
_OF_THE_FIRST_LINE: Final = frozenset(("ph", "id", "pid", "tid", "ts"))
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw])
_EVENT: Final = msgspec.json.Decoder(Event)


@dataclass(slots=True)
class LinedFlows:
    """The arrows of a text that are laid out so."""

    at: Ints
    """Which of all events they are."""
    phase: Bytes
    """The letter of each."""
    number: Ints
    pid: Ints
    tid: Ints
    start_ns: Ints
    tails: list[bytes]
    """The distinct second lines, not parsed."""
    tail: Ints
    """Which of them each has."""

    def rows(self, lines: Ints, texts: Texts) -> Rows:
        """Them as rows.

        Args:
            lines: In which line of the text each event begins.
            texts: Gets the codes of texts.

        Raises:
            msgspec.DecodeError: A second line is no JSON.
            UnicodeDecodeError: One is not UTF-8.
            RecursionError: One is nested too deep.
            NotProvenError: One is not what it seems.
        """
        cats, names = np.array([_tail(one, texts) for one in self.tails], np.int32).reshape(-1, 2).T
        phases = np.zeros(256, np.int32)
        for letter in np.unique(self.phase).tolist():
            phases[letter] = texts[chr(letter)]
        return Rows(
            cats[self.tail],
            names[self.tail],
            _codes(self.pid, texts),
            _codes(self.tid, texts),
            self.start_ns,
            None,
            lines[self.at],
            phase=phases[self.phase],
            number=self.number,
        )


def lined_flows(data: bytes, text: Bytes, begins: Ints, opens: Ints, closes: Ints) -> LinedFlows:
    """Find the arrows of a text.

    Args:
        data: The text.
        text: The same.
        begins: Where its lines begin.
        opens: The first line of each event.
        closes: The last line of each event.
    """
    at = np.flatnonzero(closes - opens == _LINES - 1)
    first = begins[opens[at] + 1]
    good = stands(text, first, _PHASE)
    at, first = at[good], first[good]
    phase = text[first + len(_PHASE)]
    good = _one_of(phase, FLOW)
    place = first + len(_PHASE) + 1
    numbers = []
    for before in _NUMBERS:
        good &= stands(text, place, before)
        place = place + len(before)
        number, digits = first_digits(text, np.minimum(place, len(text) - 16))
        good &= is_number(text, place, digits)
        place = place + digits
        numbers.append(number)
    end = begins[opens[at] + 2] - 2
    good &= stands(text, place, _TIME) & (text[end] == _COMMA) & (place + len(_TIME) <= end)
    start_ns, is_time = nanoseconds(text, np.minimum(place + len(_TIME), end), end)
    found = np.flatnonzero(good & is_time)
    second = opens[at[found]] + 2
    tail, tails = _tails(data, text, begins[second], begins[second + 1])
    found, tail = found[tail >= 0], tail[tail >= 0]
    number, pid, tid = (one[found] for one in numbers)
    return LinedFlows(at[found], phase[found], number, pid, tid, start_ns[found], tails, tail)


def _one_of(letters: Bytes, wanted: frozenset[str]) -> Mask:
    table = np.zeros(256, np.bool_)
    table[[ord(one) for one in wanted]] = True
    return table[letters]


def _tails(data: bytes, text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, list[bytes]]:
    """The distinct lines, and which of them each is; -1 where there are more than anybody looks for."""
    which = np.full(len(begins), -1, np.int64)
    tails: list[bytes] = []
    left = np.arange(len(begins))
    while len(left) and len(tails) < _MOST_TAILS:
        tail = data[begins[left[0]] : ends[left[0]]]
        same = (ends[left] - begins[left] == len(tail)) & stands(text, begins[left], tail)
        which[left[same]] = len(tails)
        tails.append(tail)
        left = left[~same]
    return which, tails


def _tail(tail: bytes, texts: Texts) -> tuple[int, int]:
    """The codes of category and name."""
    members = b"{%s}" % tail
    if len(tail) > LONGEST_TEXT or _OF_THE_FIRST_LINE & _MEMBERS.decode(members).keys():
        raise NotProvenError
    event = _EVENT.decode(members)
    return texts[event.cat], texts[event.name]


def _codes(values: Ints, texts: Texts) -> npt.NDArray[np.int32]:
    """The codes of numbers as texts."""
    largest = int(values.max(initial=0))
    if largest < _SMALL:
        distinct = np.flatnonzero(np.bincount(values))
        codes = np.zeros(largest + 1, np.int32)
        codes[distinct] = [texts[one] for one in distinct.tolist()]
        return codes[values]
    distinct, which = np.unique(values, return_inverse=True)
    return np.array([texts[one] for one in distinct.tolist()], np.int32)[which]
