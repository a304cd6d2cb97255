"""Where entries lie: folders that are the user's alone; what anybody else could have written is not opened."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Iterator

PART: Final = ".part"
"""The ending of what is being written, or taken away."""

_ABANDONED_SECONDS: Final = 3600
"""Where a file system knows no locks: what is being written for so long is being written no more."""

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = 0o077


class NotOursError(OSError):
    """Somebody else could have written it."""


def folder() -> Path:
    """The folder of all entries; it need not exist."""
    return platformdirs.user_cache_path("proftui", appauthor=False) / "frames"


@contextmanager
def opened_folder(*, make: bool = False) -> Iterator[int]:
    """The folder of all entries, as a descriptor.

    Raises:
        OSError: There is none, it cannot be made, or it is not the user's alone.
    """
    if make:
        folder().parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder().mkdir(mode=0o700)
    descriptor = os.open(folder(), _FOLDER_FLAGS)
    try:
        yield _ours(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def opened_entry(within: int, name: str) -> Iterator[int]:
    """An entry of the folder, as a descriptor; one that is being written is held until the end of it.

    Raises:
        OSError: There is none, or it is not the user's alone.
    """
    descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=within)
    try:
        _ours(descriptor)
        if name.endswith(PART):
            with suppress(OSError):  # not every file system knows locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_file(entry: int, name: str) -> Iterator[int]:
    """A file of an entry, to be read.

    Raises:
        OSError: There is none, it is no plain file, or it is not the user's alone.
    """
    descriptor = os.open(name, _READ_FLAGS, dir_fd=entry)
    try:
        status = os.fstat(_ours(descriptor))
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise NotOursError(f"{name} is no plain file with one name")
        yield descriptor
    finally:
        os.close(descriptor)


def new_file(entry: int, name: str) -> int:
    """A file that was not there before, to be written, as a descriptor that the caller closes.

    Raises:
        OSError: It cannot be made.
    """
    return os.open(name, _NEW_FLAGS, 0o600, dir_fd=entry)


def names(descriptor: int) -> list[str]:
    """What lies in a folder.

    Raises:
        OSError: It cannot be listed.
    """
    return os.listdir(descriptor)


def remove(within: int, name: str) -> bool:
    """Take an entry away: it is out of sight at once. False where that is not possible."""
    gone = name
    if not name.endswith(PART):
        gone = f"{name}.{os.getpid()}.{os.urandom(4).hex()}{PART}"
        try:
            os.rename(name, gone, src_dir_fd=within, dst_dir_fd=within)
        except OSError:
            return False
    try:
        if stat.S_ISDIR(os.stat(gone, dir_fd=within, follow_symlinks=False).st_mode):
            shutil.rmtree(gone, dir_fd=within)
        else:
            os.unlink(gone, dir_fd=within)
    except OSError:
        return False
    return True


def is_abandoned(within: int, name: str) -> bool:
    """Whether nobody writes what is half written any more: the process that held it has ended."""
    status = os.stat(name, dir_fd=within, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=within)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
        else:
            return True
        finally:
            os.close(descriptor)
    return time.time() - status.st_mtime > _ABANDONED_SECONDS


def _ours(descriptor: int) -> int:
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
        raise NotOursError("not the user's alone")
    return descriptor


def unnamed_file() -> IO[bytes]:
    """A file that goes with whoever has it open, on the disk of what is kept: temporary folders may be memory.

    Raises:
        OSError: There is no place for it.
    """
    try:
        return tempfile.TemporaryFile(dir=folder())
    except OSError:
        return tempfile.TemporaryFile()
