"""The blocks of a list of events: texts, or ranges of a file that others can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.loaders.chrome.ranges import Range, Ranges
from tui.loaders.chrome.stream import SEAM, Stream

if TYPE_CHECKING:
    from tui.loaders.source import Source


@dataclass(frozen=True, slots=True)
class Block:
    """The next events of a list."""

    content: bytes | Range
    is_last: bool


class Blocks:
    """Gives the blocks of a list one by one."""

    def __init__(self, stream: Stream, source: Source, size: int) -> None:
        """Give texts of a stream, each of about so many bytes."""
        self._stream = stream
        self._source = source
        self._size = size
        self._texts = stream.blocks(lambda: self._size)
        self._ranges: Ranges | None = None

    def are_for_others(self, size: int) -> None:
        """Give larger ones: ranges if they lie in a file that others can open."""
        self._size = size
        position = self._source.position
        if position is not None:
            begin = position - self._stream.forget()
            self._source.go_to(begin)
            self._ranges = Ranges(self._source, begin, seam=SEAM)

    def next(self) -> Block | None:
        """The next block, if there is one."""
        if self._ranges is not None:
            content = self._ranges.next(self._size)
            if content is not None:
                self._source.go_to(content.end)
                return Block(content, is_last=False)
            self.come_from_stream()
        found = next(self._texts, None)
        return None if found is None else Block(*found)

    def come_from_stream(self) -> None:
        """Give no more ranges: the stream goes on where the last of them ended."""
        self._ranges = None
