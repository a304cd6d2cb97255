"""An entry of the cache: what was read of one file, in a folder of its own, with digests that prove it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl
import xxhash

from tui.cache.fingerprint import Identity, identity_of_open, program
from tui.cache.frame_files import FrameReader, FrameWriter
from tui.cache.secure_files import (
    PART,
    DamagedError,
    File,
    Frame,
    StoppedError,
    checked,
    folder,
    is_abandoned,
    names,
    new_file,
    opened_entry,
    opened_file,
    opened_folder,
    remove,
    seal,
    whole,
)
from tui.loaders.text.stored_text import StoredText, Stretch
from tui.model.profile import Profile
from tui.model.schema import FRAMES, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


LAYOUT: Final = 2
"""Another for entries that are laid out otherwise."""

MANIFEST: Final = "entry.json"
_MOST_BYTES: Final = 64 << 20
"""A larger manifest was not written by this program."""


class CachedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the lines of a text lie."""

    name: str
    stretches: tuple[Stretch, ...]
    copy: File | None
    """The copy that was made of the text; None where they lie in the input itself."""


class EntryManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an entry holds, and of what."""

    layout: int
    program: str
    identity: Identity
    source: str
    frames: dict[str, Frame]
    results: dict[str, File]
    """What was worked out of it, as frames of the caller's."""
    names: File | None
    text: CachedText | None
    bytes: int
    """Of all its files but this."""


@dataclass(frozen=True, slots=True)
class Content:
    """What an entry is of, and what it holds."""

    path: str
    """The file, as it was given."""
    identity: Identity
    """The file as it was before it was read."""
    profile: Profile
    results: Mapping[str, pl.DataFrame]
    """What was worked out of it."""


def write(name: str, content: Content, stopped: Callable[[], bool]) -> int:
    """Write an entry: all of it or nothing.

    Args:
        name: What it is called; another of that name is replaced.
        content: What it is to hold.
        stopped: Whether to stop.

    Returns:
        Its bytes.

    Raises:
        OSError: It cannot be written.
        StoppedError: It was stopped.
        polars.exceptions.PolarsError: It cannot be written.
    """
    with opened_folder(make=True) as folder:
        making = f"{name}.{os.getpid()}.{os.urandom(4).hex()}{PART}"
        os.mkdir(making, 0o700, dir_fd=folder)
        try:
            with opened_entry(folder, making) as entry:
                size = _write(entry, content, stopped)
            remove(folder, name)
            os.rename(making, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            remove(folder, making)
            raise
        return size


def _write(entry: int, content: Content, stopped: Callable[[], bool]) -> int:
    writer, profile = FrameWriter(entry, stopped), content.profile
    frames = {name: writer.frame(name, data) for name, data in profile.frames.items() if data.height}
    results = {name: writer.whole(f"results.{name}", data) for name, data in content.results.items()}
    names = writer.names()
    text = next((_kept_text(entry, text, stopped) for text in profile.texts.values()), None)
    files = [file for frame in frames.values() for file in (frame.read, *(piece.file for piece in frame.mapped))]
    files += [*results.values(), names, text.copy if text else None]
    size = sum(file.size for file in files if file is not None)
    return size + _sign(
        entry, EntryManifest(LAYOUT, program(), content.identity, content.path, frames, results, names, text, size)
    )


def _sign(entry: int, manifest: EntryManifest) -> int:
    """Write the manifest, the last file of an entry; its bytes."""
    body = msgspec.json.encode(manifest)
    making = f"{MANIFEST}.{os.getpid()}.{os.urandom(4).hex()}{PART}"
    with os.fdopen(new_file(entry, making), "wb") as file:
        file.write(xxhash.xxh3_128(body).hexdigest().encode() + b"\n" + body)
    os.rename(making, MANIFEST, src_dir_fd=entry, dst_dir_fd=entry)
    return len(body)


def sign(entry: int, path: str, identity: Identity, frames: dict[str, Frame], names: File | None) -> int:
    """Make an entry of files that are in its folder already.

    Returns:
        Its bytes.

    Raises:
        OSError: It cannot be written.
    """
    files = [names, *(frame.read for frame in frames.values())]
    files += [piece.file for frame in frames.values() for piece in frame.mapped]
    size = sum(file.size for file in files if file is not None)
    return size + _sign(entry, EntryManifest(LAYOUT, program(), identity, path, frames, {}, names, None, size))


def add_results(name: str, results: Mapping[str, pl.DataFrame], stopped: Callable[[], bool]) -> None:
    """Keep also what was worked out of what an entry holds.

    Raises:
        OSError: It cannot be written.
        DamagedError: There is no entry that could be believed.
        StoppedError: It was stopped.
    """
    with opened_folder() as folder, opened_entry(folder, name) as entry:
        manifest, writer = manifest_of(entry), FrameWriter(entry, stopped)
        # What another process began and did not end would be in the way.
        own = f"{os.getpid()}.{os.urandom(4).hex()}"
        files = {result: writer.whole(f"results.{result}.{own}", data) for result, data in results.items()}
        size = manifest.bytes + sum(file.size for file in files.values())
        _sign(entry, msgspec.structs.replace(manifest, results=files, bytes=size))


def _kept_text(entry: int, text: object, stopped: Callable[[], bool]) -> CachedText:
    assert isinstance(text, StoredText), "can_keep has seen to it"
    copy = None
    if text.is_copy:
        with os.fdopen(new_file(entry, "text"), "wb") as file:
            for piece in text.copied():
                if stopped():
                    raise StoppedError
                file.write(piece)
        copy = seal(entry, "text", stopped)
    return CachedText(text.name, tuple(text.stretches), copy)


def can_keep(profile: Profile) -> bool:
    """Whether an entry can hold all of what was read."""
    texts = list(profile.texts.values())
    return (
        len(profile.sources) == 1
        and not profile.partial
        and len(texts) <= 1
        and all(isinstance(text, StoredText) and not text.not_kept for text in texts)
    )


def read(name: str, path: str, identity: Identity, results: Mapping[str, pl.Schema]) -> Content | None:
    """What was read of a file and worked out of it; None where there is no entry of it, or one that cannot be believed.

    Args:
        name: What the entry is called.
        path: The file, as it is given.
        identity: The file as it is now.
        results: The frames that can have been worked out of it.
    """
    try:
        with opened_folder() as folder, opened_entry(folder, name) as entry:
            manifest = manifest_of(entry)
            if manifest.layout != LAYOUT or manifest.program != program() or manifest.source != path:
                return None
            if manifest.identity != identity:
                return None
            found = _content(entry, manifest, results)
            with suppress(OSError):
                # The last use, which decides what goes first.
                os.utime(MANIFEST, dir_fd=entry, follow_symlinks=False)
            return found
    except (OSError, DamagedError, ValueError, msgspec.MsgspecError, pl.exceptions.PolarsError):
        return None
    except pl.exceptions.PanicException:
        return None


def manifest_of(entry: int) -> EntryManifest:
    """What an entry says that it holds.

    Raises:
        DamagedError: It is not what was written.
        OSError: It cannot be read, or somebody else could have written it.
        msgspec.MsgspecError: It is none.
    """
    with opened_file(entry, MANIFEST) as descriptor:
        if os.fstat(descriptor).st_size > _MOST_BYTES:
            raise DamagedError("the manifest is too large")
        digest, _, body = whole(descriptor).partition(b"\n")
    if digest != xxhash.xxh3_128(body).hexdigest().encode():
        raise DamagedError("the manifest is not what was written")
    return msgspec.json.decode(body, type=EntryManifest)


def _content(entry: int, manifest: EntryManifest, results: Mapping[str, pl.Schema]) -> Content:
    if not set(manifest.frames) <= set(FRAMES):
        raise DamagedError("a frame that the model lacks")
    reader = FrameReader(entry, manifest.names)
    frames = {
        name: reader.frame(manifest.frames[name], schema) if name in manifest.frames else empty(name)
        for name, schema in FRAMES.items()
    }
    texts = {} if manifest.text is None else {manifest.source: _text(entry, manifest, manifest.text)}
    found = {name: reader.whole(file, results[name]) for name, file in manifest.results.items() if name in results}
    return Content(manifest.source, manifest.identity, Profile(frames, (manifest.source,), texts), found)


def _text(entry: int, manifest: EntryManifest, kept: CachedText) -> StoredText:
    if kept.copy is not None:
        with checked(entry, kept.copy) as descriptor:
            return StoredText.again(kept.name, os.dup(descriptor), kept.stretches, is_copy=True)
    real = os.fsdecode(bytes.fromhex(manifest.identity.path))
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if identity_of_open(real, descriptor) != manifest.identity:
        os.close(descriptor)
        raise DamagedError("the file has changed just now")
    return StoredText.again(kept.name, descriptor, kept.stretches, is_copy=False)


MOST_BYTES: Final = 5 << 30
"""Of all entries together."""

MOST_OF_FREE: Final = 10
"""They take at most the tenth part of what is free without them."""


@dataclass(frozen=True, slots=True)
class CachedEntry:
    """An entry."""

    name: str
    bytes: int
    """On the disk."""
    used_s: float
    """When it was last used, in seconds since 1970."""
    manifest: EntryManifest | None
    """None of what cannot be believed."""


def entries() -> list[CachedEntry]:
    """All entries, the last used first, and what is no entry any more."""
    with suppress(OSError), opened_folder() as within:
        found = [_entry(within, name) for name in names(within) if not name.endswith(PART)]
        return sorted(found, key=lambda kept: (-kept.used_s, kept.name))
    return []


def _entry(within: int, name: str) -> CachedEntry:
    size, used = 0, 0.0
    manifest = None
    try:
        with opened_entry(within, name) as entry:
            for file in names(entry):
                status = os.stat(file, dir_fd=entry, follow_symlinks=False)
                size += status.st_size
                used = max(used, status.st_mtime)
            used = os.stat(MANIFEST, dir_fd=entry, follow_symlinks=False).st_mtime
            manifest = manifest_of(entry)
    except (OSError, DamagedError, msgspec.MsgspecError):
        pass
    return CachedEntry(name, size, used, manifest)


def limit() -> int:
    """How many bytes all entries may have now.

    Raises:
        OSError: There is no folder of entries.
    """
    with opened_folder() as within:
        disk = os.fstatvfs(within)
    return min(MOST_BYTES, (disk.f_bavail * disk.f_frsize + sum(kept.bytes for kept in entries())) // MOST_OF_FREE)


def evict(*, most: int, keep: str = "") -> None:
    """Take away what was not used for longest, and what was left half written.

    Args:
        most: Bytes that may stay.
        keep: An entry that stays as long as it alone is not larger.
    """
    with suppress(OSError), opened_folder() as within:
        size = 0
        for kept in sorted(entries(), key=lambda kept: kept.name != keep):
            size += kept.bytes
            if size > most:
                remove(within, kept.name)
                size -= kept.bytes
        clear_abandoned()


def clear_abandoned() -> None:
    """Take away what was left half written."""
    with suppress(OSError), opened_folder() as within:
        for name in names(within):
            with suppress(OSError):
                if name.endswith(PART) and is_abandoned(within, name):
                    remove(within, name)


def clear() -> tuple[int, int]:
    """Take all entries away.

    Returns:
        How many there were, and how many of their bytes could not be taken away.

    Raises:
        OSError: The folder is not the user's alone.
    """
    before = entries()
    if not folder().is_symlink() and not folder().exists():
        return 0, 0
    with opened_folder() as within:
        for name in names(within):
            remove(within, name)
    return len(before), sum(kept.bytes for kept in entries())
