"""Splits the text of a trace into blocks of whole events; a thread decompresses compressed files.

The thread writes the blocks into the slots of an unnamed file in memory, from
which decoders read them. A slot is reused when its block has been decoded, so the memory for text does not
grow with the trace.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from tui.loaders.chrome_trace.event_batches import MAX_EVENT_TEXT
from tui.loaders.chrome_trace.tolerant_parser import BOUNDARY_IN_BYTES, TOLERANT, replace_surrogates
from tui.loaders.input_file import DamagedStreamError, decompress
from tui.loaders.worker_process import FileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tui.loaders.input_file import InputFile

SLOT_BYTES: Final = (4 << 20) + (1 << 16)
_LOOK_BACK_BYTES: Final = (1 << 14, 1 << 19, SLOT_BYTES)
"""Distances from the end of a slot at which the search for the end of an event begins; tried in this order."""
_TEXT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FilledSlot:
    """The next block is in a slot."""

    slot: int
    size: int
    bytes_read: int
    """Bytes of the compressed file."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The next piece of text that is no block: the end, or a part of an event that is longer than a slot."""

    slot: int
    """Kept reserved until the piece is read; the text is not in it."""
    data: bytes
    bytes_read: int


@dataclass(frozen=True, slots=True)
class EndOfText:
    """The end of the text."""

    bytes_read: int
    damage: str = ""
    """Why it ended early, or empty."""


class _CountingFile:
    """A file that counts the bytes read."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.bytes_read = 0

    def read(self, size: int, /) -> bytes:
        data = os.read(self._file, size)
        self.bytes_read += len(data)
        return data


def _end_of_block(text: bytearray, max_bytes: int) -> int:
    """Return the end of the last event found within ``max_bytes`` bytes; 0 if there is none."""
    for window_bytes in _LOOK_BACK_BYTES:
        match = BOUNDARY_IN_BYTES.search(text, max(0, max_bytes - window_bytes))
        if match is not None and match.end() <= max_bytes:
            return match.end()
    return 0


@dataclass(frozen=True, slots=True)
class Slot(FileRange):
    """A block in a slot."""

    number: int


class Decompressor:
    """Decompresses a trace in a thread, into blocks; the end of the trace follows as text."""

    def __init__(self, source: InputFile, skip: int, slots: int) -> None:
        """Start the thread.

        Args:
            source: A compressed file that can be opened again.
            skip: Bytes of its text that have been read already.
            slots: The number of blocks in memory at a time.

        Raises:
            OSError: It cannot be opened, or the system has no unnamed files in memory.
        """
        packed = source.compressed_file()
        if packed is None or source.compression is None or not hasattr(os, "memfd_create"):
            raise OSError("the file cannot be decompressed in a thread")
        self._source = source
        self._compression = source.compression
        self._skip = self._size = skip
        """Bytes of text read."""
        self._file = packed.open()
        try:
            self._ring = os.memfd_create("proftui-blocks")
        except OSError:
            os.close(self._file)
            raise
        self._path = f"/proc/{os.getpid()}/fd/{self._ring}"
        status = os.fstat(self._ring)
        self._device, self._inode = status.st_dev, status.st_ino
        self._text: TextPiece | EndOfText | None = None
        self._messages: SimpleQueue[FilledSlot | TextPiece | EndOfText] = SimpleQueue()
        self._free: SimpleQueue[int] = SimpleQueue()
        for slot in range(slots):
            self._free.put(slot)
        self._is_closed = False
        self._thread = Thread(target=self._decompress, name="decompress", daemon=True)
        self._thread.start()

    def next(self) -> Slot | None:
        """Return the next block; None if text or the end follows."""
        if self._text is None:
            message = self._receive()
            if isinstance(message, FilledSlot):
                begin = message.slot * SLOT_BYTES
                return Slot(self._path, self._device, self._inode, begin, begin + message.size, message.slot)
            self._text = message
        return None

    def free(self, slot: Slot) -> None:
        """Allow a slot to be reused."""
        self._free.put(slot.number)

    def texts(self) -> Iterator[bytes]:
        """Yield the rest, as text."""
        message: FilledSlot | TextPiece | EndOfText = self._text or self._receive()
        while not isinstance(message, EndOfText):
            if isinstance(message, TextPiece):
                yield message.data
            else:
                yield os.pread(self._ring, message.size, message.slot * SLOT_BYTES)
            self._free.put(message.slot)
            message = self._receive()
        if message.damage:
            self._source.end_early(message.damage)
        self._source.note_change()

    def close(self) -> None:
        """Stop the thread."""
        self._is_closed = True
        self._free.put(0)
        self._thread.join()
        os.close(self._ring)
        os.close(self._file)

    def _receive(self) -> FilledSlot | TextPiece | EndOfText:
        """Return the next message of the thread; the end, too, if the text is implausibly large."""
        message = self._messages.get()
        self._source.set_bytes_read(message.bytes_read)
        if not isinstance(message, EndOfText):
            self._size += message.size if isinstance(message, FilledSlot) else len(message.data)
            if reason := self._source.bomb_reason(self._size):
                self._is_closed = True
                return EndOfText(message.bytes_read, reason)
        return message

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _decompress(self) -> None:
        """Decompress the file to its end or to damage; the last message is always the end."""
        file = _CountingFile(self._file)
        damage = "decompression failed"
        try:
            self._write_blocks(file)
            damage = ""
        except DamagedStreamError as error:
            damage = str(error)
        except OSError as error:
            damage = f"reading failed ({error.strerror or error})"
        finally:
            self._messages.put(EndOfText(file.bytes_read, damage))

    def _write_blocks(self, file: _CountingFile) -> None:
        """Write blocks into slots as they become free; send an event longer than a slot, and the end, as text."""
        text = bytearray()
        bytes_to_skip = self._skip
        try:
            for chunk in decompress(self._compression, file):
                text += chunk[bytes_to_skip:] if bytes_to_skip else chunk
                bytes_to_skip = max(0, bytes_to_skip - len(chunk))
                while len(text) >= SLOT_BYTES:
                    end = _end_of_block(text, SLOT_BYTES)
                    slot = self._free.get()
                    if self._is_closed:
                        return
                    if end:
                        with memoryview(text) as view:
                            os.pwrite(self._ring, view[:end], slot * SLOT_BYTES)
                        self._messages.put(FilledSlot(slot, end, file.bytes_read))
                    else:
                        end = _TEXT_BYTES
                        self._messages.put(TextPiece(slot, bytes(text[:end]), file.bytes_read))
                    del text[:end]
        finally:  # the text before damage is valid
            for begin in range(0, len(text), _TEXT_BYTES):
                if self._is_closed:
                    break
                slot = self._free.get()
                self._messages.put(TextPiece(slot, bytes(text[begin : begin + _TEXT_BYTES]), file.bytes_read))


LIST: Final = re.compile(rb'"traceEvents"\s*+:\s*+\[')
"""The beginning of the list of events."""
LIST_DOCUMENT: Final = re.compile(rb"\s*+\[")
"""The beginning of a document that is only the list."""

_MAX_FAILURES: Final = 200
"""Unreadable members after which the rest is not searched."""
_PROBED_KEY: Final = re.compile(rb'"traceEvents"\s*:')
_PROBED_EVENT: Final = re.compile(rb'\s*\[\s*(?:\{\s*\}\s*,\s*)*\{[^\]]{0,4000}?"ph"\s*:\s*"', re.DOTALL)
_MEMBER: Final = re.compile(r'"((?:[^"\\]|\\.){0,200})"\s*+:\s*+')
MAX_METADATA_BYTES: Final = 64 << 20
"""Bytes of the text outside the list of events; a longer text is ignored."""


def looks_like_trace(head: bytes) -> bool:
    """Return whether an input that begins with ``head`` is a document of trace events.

    >>> looks_like_trace(b'{"schemaVersion": 1, "traceEvents": ['), looks_like_trace(b'[{"name": "a", "ph": "X"')
    (True, True)
    >>> looks_like_trace(b'{"nodes": []}')
    False
    """
    start = head.lstrip()[:1]
    if start == b"{":
        return _PROBED_KEY.search(head) is not None
    return start == b"[" and _PROBED_EVENT.match(head) is not None


def object_members(data: bytes) -> tuple[dict[str, Any], bool]:
    """Return the members of an object from a part of its text.

    Args:
        data: The text before or after the list of events; braces, quotes or commas may be missing.

    Returns:
        The members, and whether the whole text was parsed.
    """
    if len(data) > MAX_METADATA_BYTES:
        return {}, False
    text = data.decode("utf-8", "replace").strip().removeprefix("{").removesuffix("}").strip().strip(",").strip()
    if not text:
        return {}, True
    try:
        members, is_complete = dict(json.loads("{" + text + "}", strict=False, parse_constant=lambda _: None)), True
    except (ValueError, RecursionError):
        members, is_complete = _salvage_members(text), False
    return replace_surrogates(members), is_complete


def _salvage_members(text: str) -> dict[str, Any]:
    """Return the members of a damaged object that can be parsed."""
    members: dict[str, Any] = {}
    position = failures = 0
    while member := _MEMBER.search(text, position):
        try:
            value, position = TOLERANT.raw_decode(text, member.end())
        except (ValueError, RecursionError):
            failures += 1
            if failures == _MAX_FAILURES:
                break
            position = member.end()
            continue
        members[member[1]] = value
    return members


OVERLAP_BYTES: Final = 4096
"""Bytes; longer than any text that is searched for."""
_MAX_LIST_CANDIDATES: Final = 8
"""Candidates for the beginning of the list of events that are checked."""
_TAIL_BYTES: Final = 1 << 16
"""Bytes at the end of the file within which the list is expected to end."""
MAX_EVENT_BYTES: Final = 64 << 20
"""Bytes of an event; a longer one is skipped."""
_END: Final = re.compile(rb"\}\s*+(?=\]\s*+(?:[,}]|\Z))")
"""The likely end of the last event."""


@dataclass(slots=True)
class OverlongEvent:
    """A skipped part of an event above `MAX_EVENT_BYTES`; the event may end in the next block."""

    newlines: int
    text: bytes
    """Its first characters."""


class Stream:
    """The text of a document: first the part before the list of events, then the list in blocks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._text = bytearray()
        self.text_read = 0
        """Bytes of text read."""
        self.is_at_end = False
        """Whether all text has been returned."""
        self.is_all_read = False
        """Whether all chunks have been read: this object holds the end of the text."""

    def push_back(self, data: bytes) -> None:
        """Return this text again, before the rest."""
        self._text = bytearray(data) + self._text
        self.is_at_end = False

    @property
    def position(self) -> int:
        """The offset in the text of the next byte to return."""
        return self.text_read - len(self._text)

    def continue_with(self, chunks: Iterable[bytes]) -> None:
        """Continue with other text."""
        self._text.clear()
        self._chunks = iter(chunks)

    def discard_buffered(self) -> int:
        """Discard text that was read but not returned; return its number of bytes."""
        size = len(self._text)
        self._text.clear()
        return size

    def _read_more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            self.is_all_read = True
            return False
        self._text += chunk
        self.text_read += len(chunk)
        return True

    def read_to_list(self, *, may_be_list_only: bool) -> tuple[bytes, bool]:
        """Return the text up to the next list of events, or to the end.

        Args:
            may_be_list_only: Whether the document may be only the list.

        Returns:
            The text up to and including the bracket of the list, and whether there is one. Of a text above
            `MAX_METADATA_BYTES` only the end.
        """
        search_start = 0
        has_dropped = False
        while True:
            if may_be_list_only and not has_dropped and (match := LIST_DOCUMENT.match(self._text)):
                return self._take_text(match.end()), True
            end = None if may_be_list_only and not self._text.strip() else self._list_start(search_start)
            if end is not None:
                return self._take_text(end), True
            search_start = max(0, len(self._text) - OVERLAP_BYTES)
            if len(self._text) > MAX_METADATA_BYTES + OVERLAP_BYTES:
                has_dropped = True
                del self._text[: len(self._text) - OVERLAP_BYTES]
                search_start = 0
            if not self._read_more():
                self.is_at_end = True
                return self._take_text(len(self._text)), False

    def _list_start(self, position: int) -> int | None:
        """Return the start of the list: the first candidate after valid JSON, otherwise the first candidate."""
        matches = [match.span() for match in islice(LIST.finditer(self._text, position), _MAX_LIST_CANDIDATES)]
        for start, end in matches if len(matches) > 1 else ():
            if object_members(bytes(self._text[:start]))[1]:
                return end
        return matches[0][1] if matches else None

    def blocks(self, size: Callable[[], int]) -> Iterator[tuple[bytes | OverlongEvent, bool]]:
        """Yield the list in blocks that very likely end after an event, and whether each is the last.

        Args:
            size: The size of the next block.
        """
        search_start = 0
        while True:
            wanted_bytes = size()
            while len(self._text) < wanted_bytes and self._read_more():
                pass
            if len(self._text) < wanted_bytes:
                break
            end = self._boundary(max(search_start, wanted_bytes - OVERLAP_BYTES))
            if end is not None:
                yield self._take_text(end), False
                search_start = 0
                continue
            search_start = max(search_start, len(self._text) - OVERLAP_BYTES)
            if len(self._text) > MAX_EVENT_BYTES:
                yield from self._events_before_overlong()
                yield self._skip_overlong(), False
                search_start = 0
            elif not self._read_more():
                break
        yield from self._final_blocks()

    def _boundary(self, position: int) -> int | None:
        match = BOUNDARY_IN_BYTES.search(self._text, position)
        # A match holds a buffer of the bytearray, which could not grow meanwhile.
        return None if match is None else match.end()

    def _events_before_overlong(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the events before an overlong one."""
        end = 0
        while (boundary := self._boundary(end)) is not None:
            end = boundary
        if end:
            yield self._take_text(end), False

    def _skip_overlong(self) -> OverlongEvent:
        """Skip an event up to the next one, or to the end of the list."""
        overlong = OverlongEvent(0, bytes(self._text[:MAX_EVENT_TEXT]))
        while True:
            end = self._boundary(0)
            if end is None:
                end = len(self._text) - OVERLAP_BYTES
                overlong.newlines += self._take_text(max(end, 0)).count(b"\n")
                if self._read_more():
                    continue
                end_match = _END.search(self._text)
                end = len(self._text) if end_match is None else end_match.end()
                del end_match
            overlong.newlines += self._take_text(end).count(b"\n")
            return overlong

    def _final_blocks(self) -> Iterator[tuple[bytes | OverlongEvent, bool]]:
        """Yield the rest; its end is a separate block because it holds more than events."""
        end = self._boundary(max(0, len(self._text) - _TAIL_BYTES))
        if end is not None:
            yield self._take_text(end), False
        self.is_at_end = True
        yield self._take_text(len(self._text)), True

    def _take_text(self, end: int) -> bytes:
        data = bytes(self._text[:end])
        del self._text[:end]
        return data


_MIN_SEARCH_BYTES: Final = 1 << 14
_MAX_SEARCH_BYTES: Final = 1 << 22
"""Bytes in which the end of an event is searched, at first and at most."""


class RangeCutter:
    """Cuts the rest of a file into ranges that end between events."""

    def __init__(self, source: InputFile, begin: int) -> None:
        """Start at a position, which is the beginning of an event.

        Args:
            source: An input whose `InputFile.position` is known.
            begin: The position.
        """
        self._source = source
        self.end = begin
        """The beginning of the next range."""

    def next(self, size: int) -> FileRange | None:
        """Return the next range of about ``size`` bytes; None if the rest, from `end`, must be read otherwise."""
        status = self._source.status
        if status is None or self.end + size > status.st_size:
            return None
        search_start = self.end + size - OVERLAP_BYTES
        width = _MIN_SEARCH_BYTES
        while width <= _MAX_SEARCH_BYTES:
            match = BOUNDARY_IN_BYTES.search(self._source.read_at(search_start, search_start + width))
            if match is not None:
                begin, self.end = self.end, search_start + match.end()
                return FileRange(self._source.name, status.st_dev, status.st_ino, begin, self.end)
            width *= 4
        return None


_MAX_EVENTS: Final = 100_000
_MIN_SIZE, _LARGEST_SIZE = 1 << 16, 1 << 30


@dataclass(frozen=True, slots=True)
class EventBlock:
    """The next events of a list."""

    content: bytes | FileRange | OverlongEvent
    is_last: bool

    @property
    def size(self) -> int:
        """The number of bytes of its text."""
        if isinstance(self.content, FileRange):
            return self.content.end - self.content.begin
        return len(self.content) if isinstance(self.content, bytes) else 0


class BlockReader:
    """Returns the blocks of a list one by one."""

    def __init__(self, stream: Stream, source: InputFile, size: int) -> None:
        """Read blocks of about ``size`` bytes from a stream."""
        self._stream = stream
        self._source = source
        self._max_block_bytes = size
        self._event_limited_bytes = _LARGEST_SIZE
        self._texts = stream.blocks(self._size)
        self._ranges: RangeCutter | Decompressor | None = None

    def use_file_ranges(self, size: int) -> None:
        """Return larger blocks, as ranges of the file if other processes can open it."""
        self._max_block_bytes = size
        position = self._source.position
        # Otherwise the stream holds the end of the file already.
        if position is not None and not self._stream.is_all_read:
            begin = position - self._stream.discard_buffered()
            self._source.seek(begin)
            self._ranges = RangeCutter(self._source, begin)

    def use_decompressor(self, slots: int) -> Decompressor | None:
        """Have a thread decompress the blocks of a compressed file; None if that is impossible."""
        if self._stream.is_all_read:
            return None
        try:
            decompressor = Decompressor(self._source, self._source.mark_size + self._stream.position, slots)
        except OSError:
            return None
        self._stream.continue_with(decompressor.texts())
        self._ranges = decompressor
        return decompressor

    def note_event_density(self, size: int, events: int) -> None:
        """Limit the size of blocks by the number of events in a block of ``size`` bytes."""
        self._event_limited_bytes = max(_MIN_SIZE, _MAX_EVENTS * size // max(events, 1))

    def _size(self) -> int:
        return min(self._max_block_bytes, self._event_limited_bytes)

    def next(self) -> EventBlock | None:
        """Return the next block; None at the end."""
        if self._ranges is not None:
            content = self._next_content(self._ranges)
            if content is not None:
                return EventBlock(content, is_last=False)
            self.resume_stream()
        block = next(self._texts, None)
        return None if block is None else EventBlock(*block)

    def _next_content(self, ranges: RangeCutter | Decompressor) -> FileRange | None:
        if isinstance(ranges, Decompressor):
            return ranges.next()
        content = ranges.next(self._size())
        if content is not None:
            self._source.seek(content.end)
        return content

    def resume_stream(self) -> None:
        """Return no more ranges; the stream continues after the last one."""
        self._ranges = None
