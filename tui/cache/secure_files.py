"""Files of the cache, in folders to which only the user has access; files of other users are never read."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final, Self

import msgspec
import platformdirs
import xxhash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


UNFINISHED_SUFFIX: Final = ".part"
"""The ending of entries that are being written or removed."""

_ABANDONED_SECONDS: Final = 3600
"""Without file locks, an entry this old that is still being written counts as abandoned."""

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class InsecureFileError(OSError):
    """Other users have access to the file, or it is not a regular one."""


def make_private_folder(folder: Path) -> None:
    """Make a folder with access for the user alone, or restrict an existing one.

    Raises:
        OSError: It cannot be made, or belongs to another user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = os.open(folder, _FOLDER_FLAGS)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the folder belongs to another user", str(folder))
        if not is_private(status):
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def is_private(status: os.stat_result) -> bool:
    """Return whether only the user has access to a file or folder."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def cache_folder() -> Path:
    """Return the folder of all entries; it may not exist yet."""
    return platformdirs.user_cache_path("proftui", appauthor=False) / "frames"


@contextmanager
def open_cache_folder(*, make: bool = False) -> Iterator[int]:
    """Open the folder of all entries.

    Args:
        make: Make it if it does not exist, and restrict access to the user.

    Raises:
        OSError: It does not exist, cannot be made, or other users have access to it.
    """
    if make:
        make_private_folder(cache_folder())
    descriptor = os.open(cache_folder(), _FOLDER_FLAGS)
    try:
        yield _check_access(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_entry(folder: int, name: str) -> Iterator[int]:
    """Open an entry of the folder; an entry that is being written is locked meanwhile.

    Raises:
        OSError: It does not exist, or other users have access to it.
    """
    descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    try:
        _check_access(descriptor)
        if name.endswith(UNFINISHED_SUFFIX):
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_file(entry: int, name: str) -> Iterator[int]:
    """Open a file of an entry for reading.

    Raises:
        OSError: It does not exist, is no regular file, or other users have access to it.
    """
    descriptor = os.open(name, _READ_FLAGS, dir_fd=entry)
    try:
        status = os.fstat(_check_access(descriptor))
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise InsecureFileError(f"{name} is not a regular file with one link")
        yield descriptor
    finally:
        os.close(descriptor)


def new_file(entry: int, name: str) -> int:
    """Open a new file to write; the caller closes the descriptor.

    Raises:
        OSError: It cannot be made.
    """
    return os.open(name, _NEW_FLAGS, 0o600, dir_fd=entry)


def entry_names(descriptor: int) -> list[str]:
    """Return the names in a folder.

    Raises:
        OSError: It cannot be listed.
    """
    return os.listdir(descriptor)


def remove_entry(folder: int, name: str) -> bool:
    """Remove an entry, renaming it first so that no process opens it; False on failure."""
    renamed = name
    if not name.endswith(UNFINISHED_SUFFIX):
        renamed = f"{name}.{os.getpid()}.{os.urandom(4).hex()}{UNFINISHED_SUFFIX}"
        try:
            os.rename(name, renamed, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            return False
    try:
        if stat.S_ISDIR(os.stat(renamed, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(renamed, dir_fd=folder)
        else:
            os.unlink(renamed, dir_fd=folder)
    except OSError:
        return False
    return True


def is_abandoned(folder: int, name: str) -> bool:
    """Return whether the process that wrote an unfinished entry has ended."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
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


def _check_access(descriptor: int) -> int:
    if not is_private(os.fstat(descriptor)):
        raise InsecureFileError("accessible to other users")
    return descriptor


def unnamed_file() -> IO[bytes]:
    """Open an unnamed temporary file on the disk of the cache; the folder for temporary files may be in memory.

    Raises:
        OSError: It cannot be made.
    """
    try:
        return tempfile.TemporaryFile(dir=cache_folder())
    except OSError:
        return tempfile.TemporaryFile()


_BLOCK: Final = 1 << 20


class DamagedError(Exception):
    """A file of the cache differs from what was written."""


class StoppedError(Exception):
    """Writing was stopped."""


class EntryFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of an entry."""

    name: str
    size: int
    digest: str


class MappedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The position of a column in a mapped file."""

    name: str
    values: int
    valid: int | None
    nulls: int


class MappedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of mapped columns."""

    file: EntryFile
    columns: tuple[MappedColumn, ...]


class StoredFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frame: columns that are in none of its files are null in every row."""

    rows: int
    read: EntryFile | None
    mapped: tuple[MappedFile, ...]


def seal_file(entry: int, name: str, stopped: Callable[[], bool]) -> EntryFile:
    """Return the size and digest of a written file."""
    with open_file(entry, name) as descriptor:
        return EntryFile(name, os.fstat(descriptor).st_size, file_digest(descriptor, stopped))


class HashedFile:
    """A new file of an entry, whose digest is computed while it is written."""

    def __init__(self, entry: int, name: str) -> None:
        self._name = name
        self._file = os.fdopen(new_file(entry, name), "wb")
        self._digest = xxhash.xxh3_128()
        self._size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self._file.write(data)
        self._digest.update(data)
        self._size += len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._size

    def finish(self) -> EntryFile:
        """Return the size and digest of the complete file."""
        self._file.close()
        return EntryFile(self._name, self._size, self._digest.hexdigest())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@contextmanager
def open_verified(entry: int, file: EntryFile) -> Iterator[int]:
    """Open a file and verify its content.

    Raises:
        DamagedError: The content differs from what was written.
        OSError: It cannot be read, or another user could have written it.
    """
    if "/" in file.name:
        raise DamagedError(f"{file.name} is not a name within the entry")
    with open_file(entry, file.name) as descriptor:
        if os.fstat(descriptor).st_size != file.size or file_digest(descriptor) != file.digest:
            raise DamagedError(f"{file.name} differs from what was written")
        yield descriptor


def file_digest(descriptor: int, stopped: Callable[[], bool] = lambda: False) -> str:
    """Return a digest of a file's content."""
    digest = xxhash.xxh3_128()
    # One byte more than a small file has, so that one read reaches its end.
    block = memoryview(bytearray(min(_BLOCK, os.fstat(descriptor).st_size + 1)))
    offset = 0
    while size := os.preadv(descriptor, [block], offset):
        digest.update(block[:size])
        offset += size
        if stopped():
            raise StoppedError
    return digest.hexdigest()


def map_file(descriptor: int) -> mmap.mmap:
    """Map a file into memory."""
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def read_all(descriptor: int) -> bytes:
    """Read all bytes of a file."""
    blocks: list[bytes] = []
    offset = 0
    while block := os.pread(descriptor, _BLOCK, offset):
        blocks.append(block)
        offset += len(block)
    return b"".join(blocks)
