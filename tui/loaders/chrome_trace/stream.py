"""The bytes of a trace, unpacked in a process of its own where they are compressed, cut between events.

The process cuts the text into blocks of whole events and writes them into the slots of an unnamed file in memory, from
which decoders read them. Through the pipes go numbers alone. A slot is used again when its block has been decoded, so
the text takes no more memory than the slots, however large the trace is.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tui.loaders.chrome_trace.tolerant_parser import BOUNDARY_IN_BYTES, TOLERANT, cleaned
from tui.loaders.source import DamagedStreamError, decompressed
from tui.loaders.worker_process import FileRange, WorkerLostError, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tui.loaders.source import Source
    from tui.loaders.worker_process import Channel

SLOT_BYTES: Final = (4 << 20) + (1 << 16)
_LOOK_BACK: Final = (1 << 14, 1 << 19, SLOT_BYTES)
"""So many bytes before the end of a slot the end of an event is looked for, at first and later."""
_TEXT_BYTES: Final = 1 << 20
_SERVE: Final = f"{__name__}:serve"


@dataclass(frozen=True, slots=True)
class Order:
    """What to unpack, and where to."""

    file: FileRange
    """The compressed file, from beginning to end."""
    compression: str
    skip: int
    """Bytes of text that have been read otherwise."""
    ring: str
    """The path of the file with the slots."""
    slots: int
    slot_bytes: int


@dataclass(frozen=True, slots=True)
class Filled:
    """A slot holds the next block."""

    slot: int
    size: int
    bytes_read: int
    """Of the compressed file."""


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of text, which is no block: the end, or an event that is longer than a slot."""

    data: bytes
    bytes_read: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more comes."""

    bytes_read: int
    damage: str = ""
    """Why it ended early."""


class _Counted:
    """A file that counts what is read of it."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.bytes_read = 0

    def read(self, size: int, /) -> bytes:
        data = os.read(self._file, size)
        self.bytes_read += len(data)
        return data


def serve(channel: Channel) -> None:
    """Unpack for another process: an `Order` comes first, then the numbers of slots that are free again."""
    order: Order = channel.receive()
    file = order.file.open()
    ring = os.open(order.ring, os.O_RDWR)
    counted = _Counted(file)
    free = list(range(order.slots))
    text = bytearray()
    skip = order.skip
    damage = ""
    try:
        for piece in decompressed(order.compression, counted):
            if skip:
                text += piece[skip:]
                skip = max(0, skip - len(piece))
            else:
                text += piece
            while len(text) >= order.slot_bytes:
                end = _end_of_block(text, order.slot_bytes)
                if not end:
                    channel.send(Text(bytes(text[:_TEXT_BYTES]), counted.bytes_read))
                    del text[:_TEXT_BYTES]
                    continue
                slot = free.pop() if free else channel.receive()
                with memoryview(text) as view:
                    os.pwrite(ring, view[:end], slot * order.slot_bytes)
                del text[:end]
                channel.send(Filled(slot, end, counted.bytes_read))
    except DamagedStreamError as error:
        damage = str(error)
    except OSError as error:
        damage = f"reading failed ({error.strerror or error})"
    for begin in range(0, len(text), _TEXT_BYTES):
        channel.send(Text(bytes(text[begin : begin + _TEXT_BYTES]), counted.bytes_read))
    channel.send(Ended(counted.bytes_read, damage))
    channel.receive()  # stay until the rest is not needed


def _end_of_block(text: bytearray, most: int) -> int:
    """Where an event ends that ends within a slot; 0 where none does."""
    for back in _LOOK_BACK:
        found = BOUNDARY_IN_BYTES.search(text, max(0, most - back))
        if found is not None and found.end() <= most:
            return found.end()
    return 0


@dataclass(frozen=True, slots=True)
class Slot(FileRange):
    """A block in a slot."""

    number: int


class Unpacker:
    """The program's side: blocks of a compressed trace, one after the other, and at last its end as text."""

    def __init__(self, source: Source, skip: int, slots: int) -> None:
        """Start the process.

        Args:
            source: A compressed file that others can open, too.
            skip: Bytes of its text that have been read.
            slots: How many blocks there can be at a time.

        Raises:
            OSError: It cannot be started, or the system has no unnamed files in memory.
        """
        packed = source.packed_file()
        if packed is None or source.compression is None or not hasattr(os, "memfd_create"):
            raise OSError("the file cannot be unpacked by another process")
        self._source = source
        self._packed = packed
        self._compression = source.compression
        self._size = skip
        """Bytes of text that have been read."""
        self._is_lost = False
        self._ring = os.memfd_create("proftui-blocks")
        self._path = f"/proc/{os.getpid()}/fd/{self._ring}"
        self._text: Text | Ended | None = None
        try:
            status = os.fstat(self._ring)
            self._device, self._inode = status.st_dev, status.st_ino
            self._process = WorkerProcess(_SERVE)
        except OSError:
            os.close(self._ring)
            raise
        with suppress(WorkerLostError):  # the first answer shows it
            self._process.send(Order(packed, source.compression, skip, self._path, slots, SLOT_BYTES))

    def next(self) -> Slot | None:
        """The next block; None where text follows, or the end."""
        if self._text is None:
            answer = self._receive()
            if isinstance(answer, Filled):
                begin = answer.slot * SLOT_BYTES
                return Slot(self._path, self._device, self._inode, begin, begin + answer.size, answer.slot)
            self._text = answer
        return None

    def free(self, slot: Slot) -> None:
        """Let a slot be used again."""
        with suppress(WorkerLostError):
            self._process.send(slot.number)

    def texts(self) -> Iterator[bytes]:
        """All that follows, as text."""
        answer: Filled | Text | Ended = self._text or self._receive()
        while not isinstance(answer, Ended):
            if isinstance(answer, Text):
                yield answer.data
            else:
                yield os.pread(self._ring, answer.size, answer.slot * SLOT_BYTES)
                with suppress(WorkerLostError):
                    self._process.send(answer.slot)
            answer = self._receive()
        if self._is_lost:
            yield from self._unpacked_here()
        elif answer.damage:
            self._source.end_early(answer.damage)
        self._source.note_change()

    def close(self) -> None:
        """End the process."""
        self._process.close()
        os.close(self._ring)

    def _unpacked_here(self) -> Iterator[bytes]:
        """The rest of the text, where the process is gone."""
        skip = self._size
        file = -1
        try:
            file = self._packed.open()
            counted = _Counted(file)
            for piece in decompressed(self._compression, counted):
                self._source.set_bytes_read(counted.bytes_read)
                if len(piece) > skip:
                    yield piece[skip:]
                    self._size += len(piece) - skip
                skip = max(0, skip - len(piece))
                if reason := self._source.unpacks_too_far(self._size):
                    raise DamagedStreamError(reason)
        except DamagedStreamError as error:
            self._source.end_early(str(error))
        except OSError as error:
            self._source.end_early(f"reading failed ({error.strerror or error})")
        finally:
            if file >= 0:
                os.close(file)

    def _receive(self) -> Filled | Text | Ended:
        try:
            answer: Filled | Text | Ended = self._process.receive()
        except WorkerLostError:
            self._is_lost = True
            answer = Ended(self._source.bytes_read)
        self._source.set_bytes_read(answer.bytes_read)
        if not isinstance(answer, Ended):
            self._size += answer.size if isinstance(answer, Filled) else len(answer.data)
            if reason := self._source.unpacks_too_far(self._size):
                self._process.kill()
                return Ended(answer.bytes_read, reason)
        return answer


LIST: Final = re.compile(rb'"traceEvents"\s*+:\s*+\[')
"""What opens the list of events."""
BARE_LIST: Final = re.compile(rb"\s*+\[")
"""A document that is the list and nothing else."""

_MOST_FAILURES: Final = 200
"""Members that cannot be read; where there are more, what follows is no document."""
_PROBED_KEY: Final = re.compile(rb'"traceEvents"\s*:')
_PROBED_EVENT: Final = re.compile(rb'\s*\[\s*(?:\{\s*\}\s*,\s*)*\{[^\]]{0,4000}?"ph"\s*:\s*"', re.DOTALL)
_MEMBER: Final = re.compile(r'"((?:[^"\\]|\\.){0,200})"\s*+:\s*+')
LONGEST_BESIDE: Final = 64 << 20
"""Bytes of what stands beside the events; of more than that, nothing is read."""


def looks_like_trace(head: bytes) -> bool:
    """Whether an input that begins so is a document of trace events.

    >>> looks_like_trace(b'{"schemaVersion": 1, "traceEvents": ['), looks_like_trace(b'[{"name": "a", "ph": "X"')
    (True, True)
    >>> looks_like_trace(b'{"nodes": []}')
    False
    """
    start = head.lstrip()[:1]
    if start == b"{":
        return _PROBED_KEY.search(head) is not None
    return start == b"[" and _PROBED_EVENT.match(head) is not None


def members(data: bytes) -> tuple[dict[str, Any], bool]:
    """The members of an object, of which the text is only a part.

    Args:
        data: What stands before or after a member that was taken out; its braces, quotes or commas may be missing.

    Returns:
        The members, and whether nothing of the text was lost.
    """
    if len(data) > LONGEST_BESIDE:
        return {}, False
    text = data.decode("utf-8", "replace").strip().removeprefix("{").removesuffix("}").strip().strip(",").strip()
    if not text:
        return {}, True
    try:
        found, is_whole = dict(json.loads("{" + text + "}", strict=False, parse_constant=lambda _: None)), True
    except (ValueError, RecursionError):
        found, is_whole = _one_by_one(text), False
    return cleaned(found), is_whole


def _one_by_one(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = failures = 0
    while member := _MEMBER.search(text, at):
        try:
            value, at = TOLERANT.raw_decode(text, member.end())
        except (ValueError, RecursionError):
            failures += 1
            if failures == _MOST_FAILURES:
                break
            at = member.end()
            continue
        found[member[1]] = value
    return found


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
        self._read = 0
        self.is_at_end = False
        """Whether nothing more comes after what has been given out."""
        self.is_all_read = False
        """Whether no text is left that could be read again from elsewhere: what is held here is the end."""

    def push_back(self, data: bytes) -> None:
        """Give out this text first, again."""
        self._text = bytearray(data) + self._text
        self.is_at_end = False

    @property
    def position(self) -> int:
        """Bytes of the text before what is given out next."""
        return self._read - len(self._text)

    def continue_from(self, chunks: Iterable[bytes]) -> None:
        """Give out other text from here on."""
        self._text.clear()
        self._chunks = iter(chunks)

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
        self._read += len(chunk)
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
        """Where the list begins: where what stands before it makes sense, or at the first position that looks so."""
        matches = [found.span() for found in islice(LIST.finditer(self._text, at), _TRIES)]
        for start, end in matches if len(matches) > 1 else ():
            if members(bytes(self._text[:start]))[1]:
                return end
        return matches[0][1] if matches else None

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


_FIRST_LOOK: Final = 1 << 14
_LAST_LOOK: Final = 1 << 22
"""Bytes in which the end of an event is looked for, at first and at most."""


class Ranges:
    """Cuts what is left of a file, from its end of what has been read on."""

    def __init__(self, source: Source, begin: int, *, seam: int) -> None:
        """Cut from a position on, which is the beginning of an event.

        Args:
            source: Of which `Source.position` is known.
            begin: The position.
            seam: How many bytes before the size that is wanted a range may end.
        """
        self._source = source
        self._seam = seam
        self.end = begin
        """Where the next range begins."""

    def next(self, size: int) -> FileRange | None:
        """The next range, of about so many bytes; None where the rest has to be read otherwise, from `end` on."""
        status = self._source.status
        if status is None or self.end + size > status.st_size:
            return None
        look = self.end + size - self._seam
        width = _FIRST_LOOK
        while width <= _LAST_LOOK:
            found = BOUNDARY_IN_BYTES.search(self._source.read_at(look, look + width))
            if found is not None:
                begin, self.end = self.end, look + found.end()
                return FileRange(self._source.name, status.st_dev, status.st_ino, begin, self.end)
            width *= 4
        return None


_MOST_EVENTS: Final = 100_000
_LEAST_SIZE, _LARGEST_SIZE = 1 << 16, 1 << 30


@dataclass(frozen=True, slots=True)
class Block:
    """The next events of a list."""

    content: bytes | FileRange | Lost
    is_last: bool

    @property
    def size(self) -> int:
        """Bytes of its text."""
        if isinstance(self.content, FileRange):
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
        self._ranges: Ranges | Unpacker | None = None

    def use_file_ranges(self, size: int) -> None:
        """Give larger ones: ranges if they lie in a file that others can open."""
        self._largest = size
        position = self._source.position
        # The stream holds the end of the file already, and would not read it again.
        if position is not None and not self._stream.is_all_read:
            begin = position - self._stream.forget()
            self._source.go_to(begin)
            self._ranges = Ranges(self._source, begin, seam=SEAM)

    def use_unpacker(self, slots: int) -> Unpacker | None:
        """Give blocks of a compressed file that another process unpacks, so many at a time, where that can be."""
        if self._stream.is_all_read:
            return None
        try:
            unpacker = Unpacker(self._source, self._source.mark_size + self._stream.position, slots)
        except OSError:
            return None
        self._stream.continue_from(unpacker.texts())
        self._ranges = unpacker
        return unpacker

    def learn(self, size: int, events: int) -> None:
        """Give blocks of no more events than fit into the memory, after one of such a size with so many."""
        self._fitting = max(_LEAST_SIZE, _MOST_EVENTS * size // max(events, 1))

    def _size(self) -> int:
        return min(self._largest, self._fitting)

    def next(self) -> Block | None:
        """The next block, if there is one."""
        if self._ranges is not None:
            content = self._next_range(self._ranges)
            if content is not None:
                return Block(content, is_last=False)
            self.come_from_stream()
        found = next(self._texts, None)
        return None if found is None else Block(*found)

    def _next_range(self, ranges: Ranges | Unpacker) -> FileRange | None:
        if isinstance(ranges, Unpacker):
            return ranges.next()
        content = ranges.next(self._size())
        if content is not None:
            self._source.go_to(content.end)
        return content

    def come_from_stream(self) -> None:
        """Give no more ranges: the stream goes on where the last of them ended."""
        self._ranges = None
