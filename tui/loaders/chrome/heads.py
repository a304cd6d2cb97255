"""The members of an event before its times: few are distinct, and each of those is parsed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from tui.loaders.chrome.event import Event, NotProvenError
from tui.loaders.chrome.pieces import LONGEST_TEXT, Rows, Texts

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_MOST_BYTES: Final = 16 << 20
"""Of all heads that are known; where there are more, they do not repeat."""


class Heads(dict[bytes, int]):
    """Numbers the distinct heads of complete events."""

    def __init__(self) -> None:
        super().__init__()
        self._decoder = msgspec.json.Decoder(Event)
        self._events: list[Event] = []
        self._bytes = 0

    def __missing__(self, head: bytes) -> int:
        event = self._decoder.decode(b"".join((b"{", head, b"}")))
        if event.ph != "X" or len(head) > LONGEST_TEXT:
            raise NotProvenError
        number = self[head] = len(self._events)
        self._events.append(event)
        self._bytes += len(head)
        return number

    def rows(self, heads: list[bytes], start_ns: Ints, duration_ns: Ints, lines: Ints, texts: Texts) -> Rows:
        """Rows with these heads; their arguments are missing.

        Raises:
            msgspec.DecodeError: A head is no JSON.
            UnicodeDecodeError: A head is not UTF-8.
            RecursionError: A head is nested too deep.
            NotProvenError: A head is that of another event, or longer than any.
        """
        if self._bytes > _MOST_BYTES:
            self.clear()
            self._events.clear()
            self._bytes = 0
        numbers = np.fromiter(map(self.__getitem__, heads), np.int64, len(heads))
        used = np.flatnonzero(np.bincount(numbers, minlength=1))
        place = np.zeros(len(self._events) or 1, np.int64)
        place[used] = np.arange(len(used))
        which = place[numbers]
        events = [self._events[number] for number in used.tolist()]
        cat, name, pid, tid = (
            np.array([texts[getattr(event, column)] for event in events], np.int32)[which]
            for column in ("cat", "name", "pid", "tid")
        )
        return Rows(cat, name, pid, tid, start_ns, duration_ns, lines)
