"""Files of an entry, and what is to be known of them to know them again."""

from __future__ import annotations

import mmap
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import xxhash

from tui.cache.place import opened_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BLOCK: Final = 1 << 20


class DamagedError(Exception):
    """What was kept is not what was written."""


class StoppedError(Exception):
    """Nobody waits for the rest of the writing."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of an entry."""

    name: str
    size: int
    digest: str


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a column lies in a mapped file."""

    name: str
    values: int
    valid: int | None
    nulls: int


class Mapped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of mapped columns."""

    file: File
    columns: tuple[Column, ...]


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frame: columns that are in none of its files are null in every row."""

    rows: int
    read: File | None
    mapped: tuple[Mapped, ...]


def seal(entry: int, name: str, stopped: Callable[[], bool]) -> File:
    """What is to be known of a file that is written."""
    with opened_file(entry, name) as descriptor:
        return File(name, os.fstat(descriptor).st_size, digest_of(descriptor, stopped))


@contextmanager
def checked(entry: int, file: File) -> Iterator[int]:
    """A file whose bytes are those that were written, as a descriptor.

    Raises:
        DamagedError: They are others.
        OSError: It cannot be read, or somebody else could have written it.
    """
    if "/" in file.name:
        raise DamagedError(f"{file.name} is elsewhere")
    with opened_file(entry, file.name) as descriptor:
        if os.fstat(descriptor).st_size != file.size or digest_of(descriptor) != file.digest:
            raise DamagedError(f"{file.name} is not what was written")
        yield descriptor


def digest_of(descriptor: int, stopped: Callable[[], bool] = lambda: False) -> str:
    """A digest of a file's content."""
    digest = xxhash.xxh3_128()
    # One byte more than a small file has: its end is then met at once.
    block = memoryview(bytearray(min(_BLOCK, os.fstat(descriptor).st_size + 1)))
    offset = 0
    while size := os.preadv(descriptor, [block], offset):
        digest.update(block[:size])
        offset += size
        if stopped():
            raise StoppedError
    return digest.hexdigest()


def mapped(descriptor: int) -> mmap.mmap:
    """A file's bytes where they lie."""
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def whole(descriptor: int) -> bytes:
    """A file's bytes, read."""
    parts: list[bytes] = []
    offset = 0
    while part := os.pread(descriptor, _BLOCK, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
