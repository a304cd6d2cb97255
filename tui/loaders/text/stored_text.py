"""The lines of a text that was read, to be read again from any place."""

from __future__ import annotations

import bisect
import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPOOL_LIMIT: Final = 2 << 30
"""At most this many bytes of a compressed input or a pipe are kept in a temporary file for the Log view.

The temporary folder may be memory; half of its free space is the limit where that is less.
"""

LINE_LIMIT: Final = 20_000
"""Longer lines are cut when they are given out: no screen shows them."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some whole lines that lie in one piece in the file."""

    first_line: int
    line_count: int
    offset: int
    size: int
    edges: tuple[bytes, bytes]
    """Its first and last bytes, to know it again in a file that has grown."""

    def is_still(self, data: bytes) -> bool:
        """Whether ``data``, read at its place, has its shape; its last byte may be a newline that the input lacks."""
        return len(data) == self.size and _edges(data) == self.edges and _newlines(data) == self.line_count - 1


_EDGE: Final = 64


def _edges(data: bytes) -> tuple[bytes, bytes]:
    return data[:_EDGE][: len(data) - 1], data[-_EDGE - 1 : -1]


def _newlines(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data[:-1], np.uint8) == 10))


class StoredText:
    """Reads lines again, from the input itself or from the copy that was made of it while it was read.

    Any thread may read while the loader is still adding.
    """

    def __init__(self, name: str, fd: int | None, *, spool_limit: int = SPOOL_LIMIT) -> None:
        """Make a text without lines.

        Args:
            name: What messages call the input.
            fd: The input, a file of plain UTF-8, which is now this object's to close; None to keep a copy.
            spool_limit: At most this many bytes are copied.
        """
        self.name = name
        """What messages call the input."""
        self._is_copy = fd is None
        self._spool_left = 0
        if fd is None:
            with tempfile.TemporaryFile() as spool:
                fd = os.dup(spool.fileno())
            self._spool_left = min(spool_limit, shutil.disk_usage(tempfile.gettempdir()).free // 2)
        self._fd = fd
        weakref.finalize(self, os.close, fd)
        self._lock = Lock()
        self._stretches: list[Stretch] = []
        self._line_count = 0
        self._end = 0
        self._stamp = None if self._is_copy else self._file_stamp()
        self._cached: tuple[int, bytes, npt.NDArray[np.int64]] | None = None
        self.not_kept = ""
        """Why the text has no copy of some lines, or empty."""

    @classmethod
    def again(cls, name: str, fd: int, stretches: Sequence[Stretch], *, is_copy: bool) -> StoredText:
        """A text that was read before, from what was remembered of it.

        Args:
            name: What messages call the input.
            fd: The input, unchanged, or the copy that was made of it; it is now this object's to close.
            stretches: Those that it had.
            is_copy: Which of both ``fd`` is.
        """
        text = cls(name, fd)
        if is_copy:
            text._is_copy, text._stamp = True, None
        text._stretches = list(stretches)
        text._line_count = sum(stretch.line_count for stretch in stretches)
        return text

    @property
    def stretches(self) -> Sequence[Stretch]:
        """Where the lines lie, in the input or in the copy (`copied`)."""
        return tuple(self._stretches)

    @property
    def is_copy(self) -> bool:
        """Whether the lines lie in a copy."""
        return self._is_copy

    def copied(self) -> Iterator[bytes]:
        """The copy, in pieces."""
        offset = 0
        while data := os.pread(self._fd, 1 << 20, offset):
            yield data
            offset += len(data)

    @property
    def line_count(self) -> int:
        """How many lines have been read."""
        return self._line_count

    def add(self, data: bytes, line_count: int, offset: int) -> None:
        """Note that the next lines are these, found at an offset of the input."""
        if self._is_copy:
            offset, kept = self._end, self._copy(data)
            if not kept:
                self._line_count += line_count
                return
        stretch = Stretch(self._line_count + 1, line_count, offset, len(data), _edges(data))
        with self._lock:
            self._stretches.append(stretch)
            self._line_count += line_count

    def lines(self, first: int, count: int) -> list[str]:
        """Lines ``first`` (from 1) and those after it, as they stand in the input, cut at `LINE_LIMIT` characters.

        Where they can't be read again, the first of them says why and the others are empty.
        """
        last = min(first + count - 1, self._line_count)
        first = max(first, 1)
        lines: list[str] = []
        with self._lock:
            while first + len(lines) <= last:
                number = first + len(lines)
                try:
                    found = self._from_stretch(number, last)
                except OSError as error:
                    found = self._instead(number, last, f"cannot be read again: {error.strerror}")
                lines += found
        return lines

    def _from_stretch(self, number: int, last: int) -> list[str]:
        position = bisect.bisect_right(self._stretches, number, key=lambda stretch: stretch.first_line) - 1
        stretch = self._stretches[position] if position >= 0 else None
        if stretch is None or number >= stretch.first_line + stretch.line_count:
            return self._instead(number, last, self.not_kept)
        until = min(last, stretch.first_line + stretch.line_count - 1)
        changed = self._changed()
        if self._cached is None or self._cached[0] != position or changed:
            data = _read_at(self._fd, stretch.size, stretch.offset)
            starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1))
            if starts[-1] != len(data):
                starts = np.append(starts, len(data) + 1)
            if changed and not (self._grown() and stretch.is_still(data)):
                return self._instead(number, until, "has changed since it was read; this line is no longer in it")
            self._cached = position, data, starts
        _, data, starts = self._cached
        return [
            _shown(data[starts[index] : starts[index + 1] - 1])
            for index in range(number - stretch.first_line, until - stretch.first_line + 1)
        ]

    def _changed(self) -> bool:
        return self._stamp is not None and self._file_stamp() != self._stamp

    def _grown(self) -> bool:
        return self._stamp is not None and self._file_stamp()[0] > self._stamp[0]

    def _file_stamp(self) -> tuple[int, int]:
        stat = os.fstat(self._fd)
        return stat.st_size, stat.st_mtime_ns

    def _instead(self, number: int, until: int, reason: str) -> list[str]:
        return [f"({self.name} {reason})", *([""] * (until - number))]

    def _copy(self, data: bytes) -> bool:
        if self.not_kept:
            return False
        if len(data) > self._spool_left:
            self.not_kept = f"is not kept from line {self._line_count + 1} on: the temporary file has reached its limit"
            return False
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.not_kept = f"is not kept from line {self._line_count + 1} on: {error.strerror}"
            return False
        self._spool_left -= len(data)
        self._end += len(data)
        return True


def _read_at(fd: int, size: int, offset: int) -> bytes:
    parts: list[bytes] = []
    while size and (part := os.pread(fd, size, offset)):
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)


def _shown(raw: bytes) -> str:
    text = raw[: 4 * LINE_LIMIT + 4].decode("utf-8", "replace").removesuffix("\r")
    return text if len(text) <= LINE_LIMIT else text[:LINE_LIMIT] + "…"
