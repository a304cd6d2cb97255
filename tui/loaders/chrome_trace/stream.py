"""The bytes of a trace, unpacked in a thread where they are compressed, cut between events.

The thread cuts the text into blocks of whole events and writes them into the slots of an unnamed file in memory, from
which decoders read them. A slot is used again when its block has been decoded, so the text takes no more memory than
the slots, however large the trace is.
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

from tui.loaders.chrome_trace.tolerant_parser import BOUNDARY_IN_BYTES, TOLERANT, cleaned
from tui.loaders.input_file import DamagedStreamError, decompressed
from tui.loaders.worker_process import FileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tui.loaders.input_file import InputFile

SLOT_BYTES: Final = (4 << 20) + (1 << 16)
_LOOK_BACK: Final = (1 << 14, 1 << 19, SLOT_BYTES)
"""So many bytes before the end of a slot the end of an event is looked for, at first and later."""
_TEXT_BYTES: Final = 1 << 20


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

    slot: int
    """It is in none, but no other may take its place before it is read."""
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
    """Blocks of a compressed trace, one after the other, and at last its end as text."""

    def __init__(self, source: InputFile, skip: int, slots: int) -> None:
        """Start to unpack.

        Args:
            source: A compressed file that can be opened again.
            skip: Bytes of its text that have been read.
            slots: How many blocks there can be at a time.

        Raises:
            OSError: It cannot be opened, or the system has no unnamed files in memory.
        """
        packed = source.packed_file()
        if packed is None or source.compression is None or not hasattr(os, "memfd_create"):
            raise OSError("the file cannot be unpacked in a thread")
        self._source = source
        self._compression = source.compression
        self._skip = self._size = skip
        """Bytes of text that have been read."""
        self._file = packed.open()
        try:
            self._ring = os.memfd_create("proftui-blocks")
        except OSError:
            os.close(self._file)
            raise
        self._path = f"/proc/{os.getpid()}/fd/{self._ring}"
        status = os.fstat(self._ring)
        self._device, self._inode = status.st_dev, status.st_ino
        self._text: Text | Ended | None = None
        self._answers: SimpleQueue[Filled | Text | Ended] = SimpleQueue()
        self._free: SimpleQueue[int] = SimpleQueue()
        for slot in range(slots):
            self._free.put(slot)
        self._is_closed = False
        self._thread = Thread(target=self._unpack, name="unpack", daemon=True)
        self._thread.start()

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
        self._free.put(slot.number)

    def texts(self) -> Iterator[bytes]:
        """All that follows, as text."""
        answer: Filled | Text | Ended = self._text or self._receive()
        while not isinstance(answer, Ended):
            if isinstance(answer, Text):
                yield answer.data
            else:
                yield os.pread(self._ring, answer.size, answer.slot * SLOT_BYTES)
            self._free.put(answer.slot)
            answer = self._receive()
        if answer.damage:
            self._source.end_early(answer.damage)
        self._source.note_change()

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self._free.put(0)
        self._thread.join()
        os.close(self._ring)
        os.close(self._file)

    def _receive(self) -> Filled | Text | Ended:
        answer = self._answers.get()
        self._source.set_bytes_read(answer.bytes_read)
        if not isinstance(answer, Ended):
            self._size += answer.size if isinstance(answer, Filled) else len(answer.data)
            if reason := self._source.unpacks_too_far(self._size):
                self._is_closed = True
                return Ended(answer.bytes_read, reason)
        return answer

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _unpack(self) -> None:
        counted = _Counted(self._file)
        damage = "unpacking failed"
        try:
            self._give_blocks(counted)
            damage = ""
        except DamagedStreamError as error:
            damage = str(error)
        except OSError as error:
            damage = f"reading failed ({error.strerror or error})"
        finally:
            self._answers.put(Ended(counted.bytes_read, damage))

    def _give_blocks(self, counted: _Counted) -> None:
        text = bytearray()
        skip = self._skip
        try:
            for piece in decompressed(self._compression, counted):
                text += piece[skip:] if skip else piece
                skip = max(0, skip - len(piece))
                while len(text) >= SLOT_BYTES:
                    end = _end_of_block(text, SLOT_BYTES)
                    slot = self._free.get()
                    if self._is_closed:
                        return
                    if end:
                        with memoryview(text) as view:
                            os.pwrite(self._ring, view[:end], slot * SLOT_BYTES)
                        self._answers.put(Filled(slot, end, counted.bytes_read))
                    else:
                        end = _TEXT_BYTES
                        self._answers.put(Text(slot, bytes(text[:end]), counted.bytes_read))
                    del text[:end]
        finally:  # what came before damage is good
            for begin in range(0, len(text), _TEXT_BYTES):
                if self._is_closed:
                    break
                slot = self._free.get()
                self._answers.put(Text(slot, bytes(text[begin : begin + _TEXT_BYTES]), counted.bytes_read))


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

    def __init__(self, source: InputFile, begin: int, *, seam: int) -> None:
        """Cut from a position on, which is the beginning of an event.

        Args:
            source: Of which `InputFile.position` is known.
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

    def __init__(self, stream: Stream, source: InputFile, size: int) -> None:
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
        """Give blocks of a compressed file that a thread unpacks, so many at a time, where that can be."""
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
