"""Unpacking a compressed trace in a process of its own, beside those that decode it.

The process cuts the text into blocks of whole events and writes them into the slots of an unnamed file in memory, from
which decoders read them. Through the pipes go numbers alone. A slot is used again when its block has been decoded, so
the text takes no more memory than the slots, however large the trace is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.loaders.chrome_trace.tolerant_parser import BOUNDARY_IN_BYTES
from tui.loaders.decompress import DamagedStreamError, decompressed
from tui.loaders.worker_process import FileRange, WorkerLostError, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    channel.receive()  # stay until nobody needs the rest


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
        with suppress(WorkerLostError):  # the first answer tells
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
