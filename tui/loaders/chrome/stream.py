"""The text of a document of trace events, cut into blocks of whole events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tui.loaders.chrome.document import BARE_LIST, LIST, LONGEST_BESIDE, members
from tui.loaders.chrome.scanning import BOUNDARY_IN_BYTES

SEAM: Final = 4096
"""Bytes; nothing that is looked for is longer."""
_TRIES: Final = 8
"""Places that look like the beginning of the list of events."""
_LAST: Final = 1 << 16
"""Bytes at the end, among which the list is expected to end."""
LONGEST: Final = 64 << 20
"""Bytes of an event; of a longer one nothing is kept."""
_END: Final = re.compile(rb"\}\s*+(?=\]\s*+(?:[,}]|\Z))")
"""The end of an event that is the last, most likely."""
_SHOWN: Final = 200


@dataclass(slots=True)
class Lost:
    """A part of an event that is longer than any; its end may come in the next block."""

    newlines: int
    text: bytes
    """How it begins."""


class Stream:
    """The text of a document: first what stands before its list of events, then the list in blocks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._text = bytearray()
        self.is_at_end = False
        """Whether nothing more comes after what has been given out."""
        self.is_all_read = False
        """Whether no text is left that could be read again from elsewhere: what is held here is the end."""

    def push_back(self, data: bytes) -> None:
        """Give out this text first, again."""
        self._text = bytearray(data) + self._text
        self.is_at_end = False

    def forget(self) -> int:
        """Give out no more of what has been read; how many bytes that was."""
        size = len(self._text)
        self._text.clear()
        return size

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            self.is_all_read = True
            return False
        self._text += chunk
        return True

    def before_list(self, *, may_be_bare: bool) -> tuple[bytes, bool]:
        """All up to the next list of events, or to the end.

        Args:
            may_be_bare: The document may be nothing but the list.

        Returns:
            The text, with what opens the list, and whether there is one. Of a text that is longer than anybody needs
            only the end.
        """
        seen = 0
        dropped = False
        while True:
            if may_be_bare and not dropped and (bare := BARE_LIST.match(self._text)):
                return self._given(bare.end()), True
            end = None if may_be_bare and not self._text.strip() else self._opening(seen)
            if end is not None:
                return self._given(end), True
            seen = max(0, len(self._text) - SEAM)
            if len(self._text) > LONGEST_BESIDE + SEAM:
                dropped = True
                del self._text[: len(self._text) - SEAM]
                seen = 0
            if not self._more():
                self.is_at_end = True
                return self._given(len(self._text)), False

    def _opening(self, at: int) -> int | None:
        """Where the list begins: where what stands before it makes sense, or at the first place that looks so."""
        places = [found.span() for found in islice(LIST.finditer(self._text, at), _TRIES)]
        for start, end in places if len(places) > 1 else ():
            if members(bytes(self._text[:start]))[1]:
                return end
        return places[0][1] if places else None

    def blocks(self, size: Callable[[], int]) -> Iterator[tuple[bytes | Lost, bool]]:
        """The list in blocks that end after an event, most likely, and whether one is the last.

        Args:
            size: How large the next block may be.
        """
        seen = 0
        while True:
            wanted = size()
            while len(self._text) < wanted and self._more():
                pass
            if len(self._text) < wanted:
                break
            end = self._boundary(max(seen, wanted - SEAM))
            if end is not None:
                yield self._given(end), False
                seen = 0
                continue
            seen = max(seen, len(self._text) - SEAM)
            if len(self._text) > LONGEST:
                yield from self._before_endless()
                yield self._endless(), False
                seen = 0
            elif not self._more():
                break
        yield from self._last_blocks()

    def _boundary(self, at: int) -> int | None:
        found = BOUNDARY_IN_BYTES.search(self._text, at)
        # What was found holds the text fast, so that nothing could be added to it.
        return None if found is None else found.end()

    def _before_endless(self) -> Iterator[tuple[bytes, bool]]:
        """The events before one that is longer than any."""
        end = 0
        while (further := self._boundary(end)) is not None:
            end = further
        if end:
            yield self._given(end), False

    def _endless(self) -> Lost:
        """Pass over an event up to the next, or to the end of the list."""
        lost = Lost(0, bytes(self._text[:_SHOWN]))
        while True:
            end = self._boundary(0)
            if end is None:
                end = len(self._text) - SEAM
                lost.newlines += self._given(max(end, 0)).count(b"\n")
                if self._more():
                    continue
                closes = _END.search(self._text)
                end = len(self._text) if closes is None else closes.end()
                del closes
            lost.newlines += self._given(end).count(b"\n")
            return lost

    def _last_blocks(self) -> Iterator[tuple[bytes | Lost, bool]]:
        """What is left, of which the end is apart: it holds more than events."""
        end = self._boundary(max(0, len(self._text) - _LAST))
        if end is not None:
            yield self._given(end), False
        self.is_at_end = True
        yield self._given(len(self._text)), True

    def _given(self, end: int) -> bytes:
        data = bytes(self._text[:end])
        del self._text[:end]
        return data
