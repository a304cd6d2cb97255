"""The interface of the cache: profiles of files, from the cache or loaded, and writing loaded ones to it."""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.cache.entry import (
    Content,
    FileFingerprint,
    add_results,
    can_cache,
    entry_name,
    evict,
    file_fingerprint,
    read_entry,
    remove_abandoned_entries,
    size_limit,
    write_entry,
    write_manifest,
)
from tui.cache.frame_files import spool_frames
from tui.cache.secure_files import DamagedError, EntryFile, StoppedError, StoredFrame, open_cache_folder, remove_entry
from tui.cache.spill import set_low_memory
from tui.model.errors import ProftuiError
from tui.model.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tui.cache.frame_files import FrameSpool

MIN_BYTES: Final = 8 << 20
"""Smaller files are not cached: they load quickly."""

MIN_SECONDS: Final = 0.25
"""Files that load faster are not cached."""

_SETTLED_NS: Final = 2 * 10**9
"""A file modified this recently is not cached: a further change might not alter its modification time."""

_UNCACHED_FORMATS: Final = ("nsys-report",)
"""Formats whose content is in another file than the one opened."""

_NICE: Final = 10
_EXIT_TIMEOUT_S: Final = 1.0
"""The longest time that the program waits at exit for an entry that is being written."""


class Cache:
    """The cache during one opening of files.

    Args:
        results: The computed frames that can be cached with a profile.
        renew: Ignore existing entries and replace them.
        min_bytes: Smaller files are not cached.
        min_seconds: Files that load faster are not cached.
    """

    def __init__(
        self,
        results: Mapping[str, pl.Schema] = MappingProxyType({}),
        *,
        renew: bool = False,
        min_bytes: int = MIN_BYTES,
        min_seconds: float = MIN_SECONDS,
    ) -> None:
        self._results = results
        self._renew = renew
        self._min_bytes = min_bytes
        self._min_seconds = min_seconds
        self._unwritten_profiles: dict[str, Content] = {}
        self._unwritten_results: dict[str, Content] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.used: dict[str, Content] = {}
        """The cached content in use, by path as given."""

    def profile(self, path: str, format_in: str | None, load: Callable[[], Profile]) -> Profile:
        """Return the profile of a file: from a valid entry of the cache, otherwise loaded.

        Args:
            path: The file.
            format_in: The name of the format, if the user chose it.
            load: Reads the file; its exceptions are passed on.
        """
        fingerprint = file_fingerprint(path)
        if fingerprint is None or fingerprint.size < self._min_bytes:
            return load()
        name = entry_name(path, format_in)
        if not self._renew and (cached := read_entry(name, path, fingerprint, self._results)) is not None:
            self.used[path] = cached
            return cached.profile
        began, began_ns = time.monotonic(), time.time_ns()
        profile = load()
        is_slow = time.monotonic() - began >= self._min_seconds
        is_settled = began_ns - max(fingerprint.modified_ns, fingerprint.changed_ns) > _SETTLED_NS
        if is_slow and is_settled and _is_reproducible(profile) and file_fingerprint(path) == fingerprint:
            self._unwritten_profiles[name] = Content(path, fingerprint, profile, {})
        return profile

    def large_frames(
        self, path: str, fingerprint: FileFingerprint, rows: Mapping[str, int], fill: Callable[[FrameSpool], bool]
    ) -> Mapping[str, pl.DataFrame]:
        """Return the frames of an input larger than memory: from the cache, otherwise filled now and cached.

        Args:
            path: The input, as it was given.
            fingerprint: The fingerprint of its content.
            rows: The maximum number of rows of each frame.
            fill: Adds the rows; its exceptions are passed on. It returns whether the input is complete.

        Raises:
            OSError: The disk is full.
        """
        name = entry_name(path, None)
        if not self._renew and (cached := read_entry(name, path, fingerprint, self._results)) is not None:
            self.used[path] = cached
            set_low_memory()
            return cached.profile.frames
        is_kept = False

        def keep(
            folder: int, unfinished: str, entry: int, frames: dict[str, StoredFrame], names: EntryFile | None
        ) -> None:
            nonlocal is_kept
            # A path that is no valid text cannot be stored in JSON.
            with suppress(OSError, UnicodeEncodeError):
                size = write_manifest(entry, path, fingerprint, frames, names)
                if size <= (max_bytes := size_limit()):
                    evict(max_bytes=max_bytes - size)
                    remove_entry(folder, name)
                    os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
                    is_kept = True

        frames = spool_frames(rows, fill, keep)
        if is_kept:
            self._unwritten_results[name] = Content(path, fingerprint, Profile(frames, (path,)), {})
        return frames

    def is_pending(self, sources: Sequence[str]) -> bool:
        """Return whether a profile of these sources is of one file that is to be cached."""
        unwritten = (*self._unwritten_profiles.values(), *self._unwritten_results.values())
        return [content.path for content in unwritten] == list(sources)

    def add(self, path: str, results: Mapping[str, pl.DataFrame]) -> None:
        """Cache also frames computed from a file."""
        for pending in (self._unwritten_profiles, self._unwritten_results):
            for name, content in pending.items():
                if content.path == path:
                    pending[name] = replace(content, results=results)

    def write(self) -> None:
        """Write what was loaded to the cache; errors are ignored."""
        while self._unwritten_results and not self._stop.is_set():
            name, content = self._unwritten_results.popitem()
            with suppress(OSError, StoppedError, DamagedError, pl.exceptions.PolarsError, ValueError, MemoryError):
                add_results(name, content.results, self._stop.is_set)
        while self._unwritten_profiles and not self._stop.is_set():
            name, content = self._unwritten_profiles.popitem()
            with suppress(OSError, StoppedError, pl.exceptions.PolarsError, ValueError, struct.error, MemoryError):
                with open_cache_folder(make=True):
                    max_bytes = size_limit()
                size = sum(int(data.estimated_size()) for data in content.profile.frames.values())
                if size <= max_bytes:
                    # Also before writing: otherwise the disk would have to hold both.
                    evict(max_bytes=max_bytes - size)
                    write_entry(name, content, self._stop.is_set)
                    evict(max_bytes=max_bytes, keep=name)

    def write_behind(self, *before: Callable[[], object]) -> None:
        """Like `write`, in a low-priority thread; it also removes unfinished entries of killed runs.

        Args:
            before: Functions that the thread calls first, in order.
        """
        self._thread = threading.Thread(target=self._write_in_background, args=before, name="cache", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop writing; an unfinished entry is removed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_EXIT_TIMEOUT_S)

    def _write_in_background(self, *before: Callable[[], object]) -> None:
        if sys.platform == "linux":
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        remove_abandoned_entries()
        for function in before:
            # The view that needs the result reports its error.
            with suppress(ProftuiError, pl.exceptions.PolarsError, MemoryError):
                if not self._stop.is_set():
                    function()
        self.write()


def _is_reproducible(profile: Profile) -> bool:
    """Return whether loading the file again would give the same profile."""
    formats = set(profile["sessions"]["format"].to_list())
    return (
        can_cache(profile)
        and not formats & set(_UNCACHED_FORMATS)
        and "error" not in set(profile["issues"]["severity"])
    )
