"""The interface of the cache: the profile of a file, read or from the cache, and writing what was read."""

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

from tui.cache.entry import Content, add_results, can_keep, clear_abandoned, evict, limit, read, sign, write
from tui.cache.fingerprint import Identity, identity_of, name_of
from tui.cache.frame_files import spooled
from tui.cache.secure_files import DamagedError, File, Frame, StoppedError, opened_folder, remove
from tui.cache.spill import set_low_memory
from tui.model.errors import ProftuiError
from tui.model.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tui.cache.frame_files import FrameSpool

LEAST_BYTES: Final = 8 << 20
"""Smaller files are read quickly enough."""

LEAST_SECONDS: Final = 0.25
"""So are those that take no longer."""

_SETTLED_NS: Final = 2 * 10**9
"""A file that changed so shortly before it was read may change again without showing it: clocks of disks are coarse."""

_FROM_ELSEWHERE: Final = ("nsys-report",)
"""Formats whose content is read from another file than the one that is opened."""

_NICE: Final = 10
_PATIENCE_SECONDS: Final = 1.0
"""So long the end of the program waits for a file that is being written."""


class Cache:
    """The cache as one opening of files uses it.

    Args:
        results: The frames that can be worked out of a profile and kept with it.
        renew: Believe nothing that is kept, and replace it.
        least_bytes: Smaller files are not kept.
        least_seconds: Nor are those that are read sooner.
    """

    def __init__(
        self,
        results: Mapping[str, pl.Schema] = MappingProxyType({}),
        *,
        renew: bool = False,
        least_bytes: int = LEAST_BYTES,
        least_seconds: float = LEAST_SECONDS,
    ) -> None:
        self._results = results
        self._renew = renew
        self._least_bytes = least_bytes
        self._least_seconds = least_seconds
        self._read: dict[str, Content] = {}
        self._spooled: dict[str, Content] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.used: dict[str, Content] = {}
        """What was kept and is used, by the path as given."""

    def profile(self, path: str, format_in: str | None, load: Callable[[], Profile]) -> Profile:
        """The profile of a file: what was kept of it, where that is believed; else as it is loaded.

        Args:
            path: The file.
            format_in: The format that it is read as, where that is not to be recognized.
            load: Reads it; what it raises is raised.
        """
        before = identity_of(path)
        if before is None or before.size < self._least_bytes:
            return load()
        name = name_of(path, format_in)
        if not self._renew and (kept := read(name, path, before, self._results)) is not None:
            self.used[path] = kept
            return kept.profile
        began, began_ns = time.monotonic(), time.time_ns()
        profile = load()
        is_slow = time.monotonic() - began >= self._least_seconds
        is_settled = began_ns - max(before.modified_ns, before.changed_ns) > _SETTLED_NS
        if is_slow and is_settled and _is_whole(profile) and identity_of(path) == before:
            self._read[name] = Content(path, before, profile, {})
        return profile

    def large(
        self, path: str, identity: Identity, rows: Mapping[str, int], fill: Callable[[FrameSpool], bool]
    ) -> Mapping[str, pl.DataFrame]:
        """The frames of an input that memory may not hold: as they were kept, else as they are filled now, and kept.

        Args:
            path: The input, as it was given.
            identity: What tells its content from any other.
            rows: How many rows each frame will have at most.
            fill: Adds the rows; what it raises is raised. It returns whether what it added is all of the input.

        Raises:
            OSError: There is no room for them, kept or not.
        """
        name = name_of(path, None)
        if not self._renew and (kept := read(name, path, identity, self._results)) is not None:
            self.used[path] = kept
            set_low_memory()
            return kept.profile.frames
        is_kept = False

        def keep(folder: int, making: str, entry: int, frames: dict[str, Frame], names: File | None) -> None:
            nonlocal is_kept
            # A name that is no text cannot be written down.
            with suppress(OSError, UnicodeEncodeError):
                size = sign(entry, path, identity, frames, names)
                if size <= (most := limit()):
                    evict(most=most - size)
                    remove(folder, name)
                    os.rename(making, name, src_dir_fd=folder, dst_dir_fd=folder)
                    is_kept = True

        frames = spooled(rows, fill, keep)
        if is_kept:
            self._spooled[name] = Content(path, identity, Profile(frames, (path,)), {})
        return frames

    def waits_for(self, sources: Sequence[str]) -> bool:
        """Whether a profile of these sources is that of one file, which is to be kept."""
        return [one.path for one in (*self._read.values(), *self._spooled.values())] == list(sources)

    def add(self, path: str, results: Mapping[str, pl.DataFrame]) -> None:
        """Keep also what was worked out of a file that was read."""
        for waiting in (self._read, self._spooled):
            for name, one in waiting.items():
                if one.path == path:
                    waiting[name] = replace(one, results=results)

    def write(self) -> None:
        """Keep what was read; nothing comes of what cannot be kept."""
        while self._spooled and not self._stop.is_set():
            name, one = self._spooled.popitem()
            with suppress(OSError, StoppedError, DamagedError, pl.exceptions.PolarsError, ValueError, MemoryError):
                add_results(name, one.results, self._stop.is_set)
        while self._read and not self._stop.is_set():
            name, one = self._read.popitem()
            with suppress(OSError, StoppedError, pl.exceptions.PolarsError, ValueError, struct.error, MemoryError):
                with opened_folder(make=True):
                    most = limit()
                size = sum(int(data.estimated_size()) for data in one.profile.frames.values())
                if size <= most:
                    # Before, too: else the disk would have to hold both.
                    evict(most=most - size)
                    write(name, one, self._stop.is_set)
                    evict(most=most, keep=name)

    def write_behind(self, *before: Callable[[], object]) -> None:
        """The same in a thread that stands back for others; what runs that were killed have left goes, too.

        Args:
            before: What the thread does first, one after the other.
        """
        self._thread = threading.Thread(target=self._write_in_background, args=before, name="cache", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more; what is half written goes."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def _write_in_background(self, *before: Callable[[], object]) -> None:
        if sys.platform == "linux":
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        clear_abandoned()
        for do in before:
            # What cannot be worked out is told by the view that asks for it.
            with suppress(ProftuiError, pl.exceptions.PolarsError, MemoryError):
                if not self._stop.is_set():
                    do()
        self.write()


def _is_whole(profile: Profile) -> bool:
    """Whether reading the file again would give the same."""
    formats = set(profile["sessions"]["format"].to_list())
    return (
        can_keep(profile) and not formats & set(_FROM_ELSEWHERE) and "error" not in set(profile["issues"]["severity"])
    )
