"""Fingerprints of an input file and of the program, which tell whether an entry of the cache is still valid."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

import tui

if TYPE_CHECKING:
    from collections.abc import Iterator

EDGE: Final = 1 << 16
"""Bytes at the beginning and at the end that are looked at."""

_READERS: Final = ("analysis", "cache", "correlation", "data", "loaders", "model")
"""Packages whose change can change what is read, or worked out of it."""

_BESIDE: Final = ("-wal", "-journal")
"""Files that hold a part of a database that lies beside them."""


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was at a moment; any change of it changes this."""

    path: str
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """When its content, name or permissions changed, which no program can set."""
    edges: str
    """A digest of its first and last 64 KiB."""


def identity_of(path: str) -> Identity | None:
    """What a path leads to now; None of what is no plain file, cannot be read or has a part of it elsewhere."""
    real = os.path.realpath(path)
    # A named pipe that is opened and closed again ends whoever waits to write to it.
    if not os.path.isfile(path):  # noqa: PTH113 (a name that is no text stays as it is)
        return None
    if any(os.path.exists(real + ending) for ending in _BESIDE):  # noqa: PTH110 (a name that is no text stays as it is)
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        return identity_of_open(real, descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def identity_of_open(real: str, descriptor: int) -> Identity | None:
    """The same of a file that is open.

    Raises:
        OSError: It cannot be read.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return None
    edges = hashlib.sha256(os.pread(descriptor, EDGE, 0))
    edges.update(os.pread(descriptor, EDGE, max(0, status.st_size - EDGE)))
    return Identity(
        # A name that is no text, as JSON can hold it.
        os.fsencode(real).hex(),
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        edges.hexdigest(),
    )


def name_of(path: str, format_in: str | None) -> str:
    """What the entry of a file is called: a digest of its path, of how it was given, and of the options."""
    digest = hashlib.sha256()
    for part in (os.fsencode(os.path.realpath(path)), os.fsencode(path), (format_in or "").encode()):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()[:32]


@cache
def program() -> str:
    """A digest of what reads files: another version, or a file of it that was touched, gives another."""
    digest = hashlib.sha256(f"{tui.__version__} {pl.__version__} {sys.byteorder}".encode())
    root = Path(tui.__file__).parent
    for package in _READERS:
        for line in sorted(_files(str(root / package))):
            digest.update(line.encode(errors="replace"))
    return digest.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """A line for each file in a folder and those within it: its path, size and when it was written."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            elif not entry.name.endswith(".pyc"):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}\n"
