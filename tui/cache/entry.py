"""An entry of the cache: the frames of one file, digests to verify them, and fingerprints to invalidate them."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl
import xxhash

import tui
from tui.cache.frame_files import FrameReader, FrameWriter
from tui.cache.secure_files import (
    UNFINISHED_SUFFIX,
    DamagedError,
    EntryFile,
    StoppedError,
    StoredFrame,
    cache_folder,
    entry_names,
    is_abandoned,
    new_file,
    open_cache_folder,
    open_entry,
    open_file,
    open_verified,
    read_all,
    remove_entry,
    seal_file,
)
from tui.loaders.text.stored_text import LineRange, StoredText
from tui.model.profile import Profile
from tui.model.schema import FRAMES, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

EDGE: Final = 1 << 16
"""Bytes at the beginning and at the end that are hashed."""

_FINGERPRINTED_PACKAGES: Final = ("analysis", "cache", "correlation", "data", "loaders", "model")
"""Packages whose code affects loaded or computed frames, besides the modules directly in `tui`."""

_JOURNAL_SUFFIXES: Final = ("-wal", "-journal")
"""Suffixes of files that hold a part of a database's content."""


class FileFingerprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


def file_fingerprint(path: str) -> FileFingerprint | None:
    """Return the fingerprint of a file; None if it is not regular, is unreadable, or has parts in other files."""
    real = os.path.realpath(path)
    # Opening and closing a named pipe would end the process that writes to it.
    if not os.path.isfile(path):  # noqa: PTH113 (a name may be no valid text)
        return None
    if any(os.path.exists(real + suffix) for suffix in _JOURNAL_SUFFIXES):  # noqa: PTH110 (a name may be no valid text)
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        return open_file_fingerprint(real, descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def open_file_fingerprint(real: str, descriptor: int) -> FileFingerprint | None:
    """Return the fingerprint of an open file.

    Raises:
        OSError: It cannot be read.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return None
    edges = hashlib.sha256(os.pread(descriptor, EDGE, 0))
    edges.update(os.pread(descriptor, EDGE, max(0, status.st_size - EDGE)))
    return FileFingerprint(
        # Hexadecimal, since JSON cannot hold a path that is no valid text.
        os.fsencode(real).hex(),
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        edges.hexdigest(),
    )


def entry_name(path: str, format_in: str | None) -> str:
    """Return the name of a file's entry: a digest of its path, the path as given, and the options."""
    digest = hashlib.sha256()
    for part in (os.fsencode(os.path.realpath(path)), os.fsencode(path), (format_in or "").encode()):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()[:32]


@cache
def program_fingerprint() -> str:
    """Return the fingerprint of the program: versions, and the files of `tui` and of `_FINGERPRINTED_PACKAGES`."""
    digest = hashlib.sha256(f"{tui.__version__} {pl.__version__} {sys.byteorder}".encode())
    root = Path(tui.__file__).parent
    lines = [*_files(str(root), recursive=False)]
    for package in _FINGERPRINTED_PACKAGES:
        lines += _files(str(root / package))
    for line in sorted(lines):
        digest.update(line.encode(errors="replace"))
    return digest.hexdigest()


def _files(folder: str, *, recursive: bool = True) -> Iterator[str]:
    """Yield a line for each file in a folder, or also below it: path, size and modification time."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if recursive and entry.name != "__pycache__":
                    yield from _files(entry.path)
            elif not entry.name.endswith(".pyc"):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}\n"


LAYOUT: Final = 2
"""The version of the layout of entries."""

MANIFEST: Final = "entry.json"
_POLARS_ERRORS: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_MAX_BYTES: Final = 64 << 20
"""A larger manifest was not written by this program."""


class CachedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The positions of the lines of a text."""

    name: str
    ranges: tuple[LineRange, ...]
    copy: EntryFile | None
    """The copy of the text; None if the lines are read from the input itself."""


class EntryManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest of an entry: its files and their source."""

    layout: int
    program: str
    fingerprint: FileFingerprint
    source: str
    frames: dict[str, StoredFrame]
    results: dict[str, EntryFile]
    """Results computed from it, as frames of the caller."""
    names: EntryFile | None
    text: CachedText | None
    bytes: int
    """The size of its other files."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an entry, and its source."""

    path: str
    """The path of the file, as given."""
    fingerprint: FileFingerprint
    """The fingerprint of the file before it was read."""
    profile: Profile
    results: Mapping[str, pl.DataFrame]
    """Results computed from it."""


def write_entry(name: str, content: Content, stopped: Callable[[], bool]) -> None:
    """Write an entry: all of it or nothing.

    Args:
        name: The name; an existing entry with that name is replaced.
        content: The content.
        stopped: Whether to stop.

    Raises:
        OSError: It cannot be written.
        StoppedError: It was stopped.
        polars.exceptions.PolarsError: It cannot be written.
    """
    with open_cache_folder(make=True) as folder:
        unfinished = f"{name}.{os.getpid()}.{os.urandom(4).hex()}{UNFINISHED_SUFFIX}"
        os.mkdir(unfinished, 0o700, dir_fd=folder)
        try:
            with open_entry(folder, unfinished) as entry:
                _write(entry, content, stopped)
            remove_entry(folder, name)
            os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            remove_entry(folder, unfinished)
            raise


def _write(entry: int, content: Content, stopped: Callable[[], bool]) -> None:
    """Write the files of an entry, the manifest last."""
    writer, profile = FrameWriter(entry, stopped), content.profile
    frames = {name: writer.write_frame(name, data) for name, data in profile.frames.items() if data.height}
    results = {name: writer.write_unmapped(f"results.{name}", data) for name, data in content.results.items()}
    names = writer.write_names()
    text = next((_cached_text(entry, text, stopped) for text in profile.texts.values()), None)
    write_manifest(entry, content.path, content.fingerprint, frames, names, results=results, text=text)


def _write_manifest(entry: int, manifest: EntryManifest) -> int:
    """Write the manifest, the last file of an entry, and return its bytes."""
    body = msgspec.json.encode(manifest)
    unfinished = f"{MANIFEST}.{os.getpid()}.{os.urandom(4).hex()}{UNFINISHED_SUFFIX}"
    with os.fdopen(new_file(entry, unfinished), "wb") as file:
        file.write(xxhash.xxh3_128(body).hexdigest().encode() + b"\n" + body)
    os.rename(unfinished, MANIFEST, src_dir_fd=entry, dst_dir_fd=entry)
    return len(body)


def write_manifest(
    entry: int,
    path: str,
    fingerprint: FileFingerprint,
    frames: dict[str, StoredFrame],
    names: EntryFile | None,
    *,
    results: Mapping[str, EntryFile] = MappingProxyType({}),
    text: CachedText | None = None,
) -> int:
    """Make an entry of files that are already in its folder.

    Returns:
        Its size in bytes.

    Raises:
        OSError: It cannot be written.
    """
    files = [file for frame in frames.values() for file in (frame.read, *(piece.file for piece in frame.mapped))]
    files += [*results.values(), names, text.copy if text else None]
    size = sum(file.size for file in files if file is not None)
    manifest = EntryManifest(LAYOUT, program_fingerprint(), fingerprint, path, frames, dict(results), names, text, size)
    return size + _write_manifest(entry, manifest)


def add_results(name: str, results: Mapping[str, pl.DataFrame], stopped: Callable[[], bool]) -> None:
    """Add computed frames to an entry.

    Raises:
        OSError: It cannot be written.
        DamagedError: There is no valid entry.
        StoppedError: It was stopped.
    """
    with open_cache_folder() as folder, open_entry(folder, name) as entry:
        manifest, writer = entry_manifest(entry), FrameWriter(entry, stopped)
        # Unfinished files of another process must not collide.
        unique = f"{os.getpid()}.{os.urandom(4).hex()}"
        names = {result: f"results.{result}.{unique}" for result in results}
        try:
            files = {result: writer.write_unmapped(names[result], data) for result, data in results.items()}
            size = manifest.bytes + _total_bytes(files) - _total_bytes(manifest.results)
            _write_manifest(entry, msgspec.structs.replace(manifest, results=files, bytes=size))
        except BaseException:
            _remove_files(entry, (f"{name}.arrow" for name in names.values()))
            raise
        _remove_files(entry, (file.name for file in manifest.results.values()))


def _total_bytes(files: Mapping[str, EntryFile]) -> int:
    return sum(file.size for file in files.values())


def _remove_files(entry: int, names: Iterable[str]) -> None:
    """Remove files of an entry, as far as they exist."""
    for name in names:
        with suppress(OSError):
            os.unlink(name, dir_fd=entry)


def _cached_text(entry: int, text: object, stopped: Callable[[], bool]) -> CachedText:
    assert isinstance(text, StoredText), "checked by can_cache"
    copy = None
    if text.is_copy:
        with os.fdopen(new_file(entry, "text"), "wb") as file:
            for piece in text.copied_chunks():
                if stopped():
                    raise StoppedError
                file.write(piece)
        copy = seal_file(entry, "text", stopped)
    return CachedText(text.name, tuple(text.ranges), copy)


def can_cache(profile: Profile) -> bool:
    """Return whether an entry can represent the whole profile."""
    texts = list(profile.texts.values())
    return (
        len(profile.sources) == 1
        and not profile.partial
        and len(texts) <= 1
        and all(isinstance(text, StoredText) and not text.not_copied for text in texts)
    )


def read_entry(name: str, path: str, fingerprint: FileFingerprint, results: Mapping[str, pl.Schema]) -> Content | None:
    """Return the cached content of a file; None if there is no valid entry.

    Args:
        name: The name of the entry.
        path: The file, as given.
        fingerprint: The fingerprint of the file now.
        results: The computed frames that the entry can have.
    """
    try:
        with open_cache_folder() as folder, open_entry(folder, name) as entry:
            manifest = entry_manifest(entry)
            if manifest.layout != LAYOUT or manifest.program != program_fingerprint() or manifest.source != path:
                return None
            if manifest.fingerprint != fingerprint:
                return None
            content = _content(entry, manifest, results)
            with suppress(OSError):
                # The time of the last use, for eviction.
                os.utime(MANIFEST, dir_fd=entry, follow_symlinks=False)
            return content
    except (OSError, DamagedError, ValueError, msgspec.MsgspecError, *_POLARS_ERRORS):
        return None


def entry_manifest(entry: int) -> EntryManifest:
    """Return the manifest of an entry.

    Raises:
        DamagedError: It differs from what was written.
        OSError: It cannot be read, or another user could have written it.
        msgspec.MsgspecError: It is no manifest.
    """
    with open_file(entry, MANIFEST) as descriptor:
        if os.fstat(descriptor).st_size > _MAX_BYTES:
            raise DamagedError("the manifest is too large")
        digest, _, body = read_all(descriptor).partition(b"\n")
    if digest != xxhash.xxh3_128(body).hexdigest().encode():
        raise DamagedError("the manifest differs from what was written")
    return msgspec.json.decode(body, type=EntryManifest)


def _content(entry: int, manifest: EntryManifest, results: Mapping[str, pl.Schema]) -> Content:
    reader = FrameReader(entry, manifest.names)
    frames = {
        name: reader.read_frame(manifest.frames[name], schema) if name in manifest.frames else empty(name)
        for name, schema in FRAMES.items()
    }
    texts = {} if manifest.text is None else {manifest.source: _text(entry, manifest, manifest.text)}
    read_results = {
        name: reader.read_unmapped(file, results[name]) for name, file in manifest.results.items() if name in results
    }
    return Content(manifest.source, manifest.fingerprint, Profile(frames, (manifest.source,), texts), read_results)


def _text(entry: int, manifest: EntryManifest, stored: CachedText) -> StoredText:
    """Return the text of an entry: its copy, or the unchanged input."""
    if stored.copy is not None:
        with open_verified(entry, stored.copy) as descriptor:
            return StoredText.from_ranges(stored.name, os.dup(descriptor), stored.ranges, is_copy=True)
    real = os.fsdecode(bytes.fromhex(manifest.fingerprint.path))
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if open_file_fingerprint(real, descriptor) != manifest.fingerprint:
            raise DamagedError("the file changed while it was opened")
        return StoredText.from_ranges(stored.name, os.dup(descriptor), stored.ranges, is_copy=False)
    finally:
        os.close(descriptor)


MAX_BYTES: Final = 5 << 30
"""The maximum size of the cache."""

FREE_SPACE_DIVISOR: Final = 10
"""The cache takes at most this fraction (1/n) of the free disk space, not counting itself."""


@dataclass(frozen=True, slots=True)
class CachedEntry:
    """An entry of the cache, for listing and eviction."""

    name: str
    bytes: int
    """Its size on disk."""
    used_s: float
    """The time of its last use, in seconds since 1970."""
    manifest: EntryManifest | None
    """None if it is invalid."""


def entries() -> list[CachedEntry]:
    """Return all entries, most recently used first, invalid ones included."""
    with suppress(OSError), open_cache_folder() as folder:
        stored_entries = [_entry(folder, name) for name in entry_names(folder) if not name.endswith(UNFINISHED_SUFFIX)]
        return sorted(stored_entries, key=lambda stored: (-stored.used_s, stored.name))
    return []


def _entry(folder: int, name: str) -> CachedEntry:
    """Return the size, last use and manifest of an entry."""
    size, used_s = 0, 0.0
    manifest = None
    try:
        with open_entry(folder, name) as entry:
            for file in entry_names(entry):
                status = os.stat(file, dir_fd=entry, follow_symlinks=False)
                size += status.st_size
                used_s = max(used_s, status.st_mtime)
            used_s = os.stat(MANIFEST, dir_fd=entry, follow_symlinks=False).st_mtime
            manifest = entry_manifest(entry)
    except (OSError, DamagedError, msgspec.MsgspecError):
        pass
    return CachedEntry(name, size, used_s, manifest)


def size_limit() -> int:
    """Return the current size limit of the cache in bytes.

    Raises:
        OSError: There is no cache folder.
    """
    with open_cache_folder() as folder:
        disk = os.fstatvfs(folder)
    return min(
        MAX_BYTES, (disk.f_bavail * disk.f_frsize + sum(stored.bytes for stored in entries())) // FREE_SPACE_DIVISOR
    )


def evict(*, max_bytes: int, keep: str = "") -> None:
    """Remove the least recently used entries above a size, and unfinished ones.

    Args:
        max_bytes: The size to reach, in bytes.
        keep: An entry that is removed last.
    """
    with suppress(OSError), open_cache_folder() as folder:
        size = 0
        for stored in sorted(entries(), key=lambda stored: stored.name != keep):
            size += stored.bytes
            if size > max_bytes:
                remove_entry(folder, stored.name)
                size -= stored.bytes
        remove_abandoned_entries()


def remove_abandoned_entries() -> None:
    """Remove unfinished entries of processes that have ended."""
    with suppress(OSError), open_cache_folder() as within:
        for name in entry_names(within):
            with suppress(OSError):
                if name.endswith(UNFINISHED_SUFFIX) and is_abandoned(within, name):
                    remove_entry(within, name)


def clear() -> tuple[int, int]:
    """Remove all entries.

    Returns:
        The number of entries, and the bytes that could not be removed.

    Raises:
        OSError: Other users can write to the folder.
    """
    before = entries()
    if not cache_folder().is_symlink() and not cache_folder().exists():
        return 0, 0
    with open_cache_folder() as within:
        for name in entry_names(within):
            remove_entry(within, name)
    return len(before), sum(stored.bytes for stored in entries())
