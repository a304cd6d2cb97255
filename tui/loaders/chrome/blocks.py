"""The blocks of a list of events: texts, or ranges of a file that others can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.loaders.chrome.file_range import Range
from tui.loaders.chrome.ranges import Ranges
from tui.loaders.chrome.stream import SEAM, Lost, Stream

if TYPE_CHECKING:
    from tui.loaders.source import Source


_MOST_EVENTS: Final = 100_000
_LEAST_SIZE, _LARGEST_SIZE = 1 << 16, 1 << 30


@dataclass(frozen=True, slots=True)
class Block:
    """The next events of a list."""

    content: bytes | Range | Lost
    is_last: bool

    @property
    def size(self) -> int:
        """Bytes of its text."""
        if isinstance(self.content, Range):
            return self.content.end - self.content.begin
        return len(self.content) if isinstance(self.content, bytes) else 0


class Blocks:
    """Gives the blocks of a list one by one."""

    def __init__(self, stream: Stream, source: Source, size: int) -> None:
        """Give texts of a stream, each of about so many bytes."""
        self._stream = stream
        self._source = source
        self._largest = size
        self._fitting = _LARGEST_SIZE
        self._texts = stream.blocks(self._size)
        self._ranges: Ranges | None = None

    def are_for_others(self, size: int) -> None:
        """Give larger ones: ranges if they lie in a file that others can open."""
        self._largest = size
        position = self._source.position
        # The stream holds the end of the file already, and would not read it again.
        if position is not None and not self._stream.is_all_read:
            begin = position - self._stream.forget()
            self._source.go_to(begin)
            self._ranges = Ranges(self._source, begin, seam=SEAM)

    def learn(self, size: int, events: int) -> None:
        """Give blocks of no more events than fit into the memory, after one of such a size with so many."""
        self._fitting = max(_LEAST_SIZE, _MOST_EVENTS * size // max(events, 1))

    def _size(self) -> int:
        return min(self._largest, self._fitting)

    def next(self) -> Block | None:
        """The next block, if there is one."""
        if self._ranges is not None:
            content = self._ranges.next(self._size())
            if content is not None:
                self._source.go_to(content.end)
                return Block(content, is_last=False)
            self.come_from_stream()
        found = next(self._texts, None)
        return None if found is None else Block(*found)

    def come_from_stream(self) -> None:
        """Give no more ranges: the stream goes on where the last of them ended."""
        self._ranges = None
