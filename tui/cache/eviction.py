"""Eviction: how large the cache may be, and what is removed first (least recently used)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from tui.cache.entry import MANIFEST, EntryManifest, manifest_of
from tui.cache.secure_files import PART, DamagedError, folder, is_abandoned, names, opened_entry, opened_folder, remove

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
