"""Fingerprints of an input file and of the program, by which an entry of the cache is valid or not."""

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
"""Bytes at the beginning and at the end that are hashed."""

_READERS: Final = ("analysis", "cache", "correlation", "data", "loaders", "model")
"""Packages whose code affects loaded or computed frames."""

_DATABASE_PARTS: Final = ("-wal", "-journal")
"""Endings of files beside a database that hold a part of its content."""


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fingerprint of a file; any change of the file changes it."""

    path: str
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """The time of the last change of content, name or permissions, which programs cannot set."""
    edges: str
    """A digest of its first and last 64 KiB."""


def identity_of(path: str) -> Identity | None:
    """The fingerprint of a file now; None if it is no regular file, is unreadable, or has parts in other files."""
    real = os.path.realpath(path)
    # Opening and closing a named pipe would end the process that writes to it.
    if not os.path.isfile(path):  # noqa: PTH113 (a name may be no valid text)
        return None
    if any(os.path.exists(real + ending) for ending in _DATABASE_PARTS):  # noqa: PTH110 (a name may be no valid text)
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
    """The fingerprint of an open file.

    Raises:
        OSError: It cannot be read.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return None
    edges = hashlib.sha256(os.pread(descriptor, EDGE, 0))
    edges.update(os.pread(descriptor, EDGE, max(0, status.st_size - EDGE)))
    return Identity(
        # Hexadecimal, since JSON cannot hold a path that is no valid text.
        os.fsencode(real).hex(),
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        edges.hexdigest(),
    )


def name_of(path: str, format_in: str | None) -> str:
    """The name of a file's entry: a digest of its path, the path as given, and the options."""
    digest = hashlib.sha256()
    for part in (os.fsencode(os.path.realpath(path)), os.fsencode(path), (format_in or "").encode()):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()[:32]


@cache
def program() -> str:
    """The fingerprint of the program: versions, and the files of `_READERS`."""
    digest = hashlib.sha256(f"{tui.__version__} {pl.__version__} {sys.byteorder}".encode())
    root = Path(tui.__file__).parent
    for package in _READERS:
        for line in sorted(_files(str(root / package))):
            digest.update(line.encode(errors="replace"))
    return digest.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """A line for each file below a folder: path, size and modification time."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            elif not entry.name.endswith(".pyc"):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}\n"
