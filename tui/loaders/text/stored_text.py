"""The lines of a text log for the Log view: read again from the input, or from a temporary copy."""

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
"""The maximum number of bytes of a compressed input or a pipe that are copied to a temporary file for the Log view.

The folder for temporary files may be in memory; half of its free space is the limit if that is less.
"""

LINE_LIMIT: Final = 20_000
"""Lines are cut at this length."""


@dataclass(frozen=True, slots=True)
class LineRange:
    """Consecutive whole lines of the file."""

    first_line: int
    line_count: int
    offset: int
    size: int
    edges: tuple[bytes, bytes]
    """Its first and last bytes, to recognize it in a file that has grown."""

    def is_unchanged(self, data: bytes) -> bool:
        """Return whether ``data``, read at its position, is unchanged; the last newline may be missing in the input."""
        return len(data) == self.size and _edges(data) == self.edges and _newlines(data) == self.line_count - 1


_EDGE: Final = 64


def _edges(data: bytes) -> tuple[bytes, bytes]:
    return data[:_EDGE][: len(data) - 1], data[-_EDGE - 1 : -1]


def _newlines(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data[:-1], np.uint8) == 10))


class StoredText:
    """Reads lines again, from the input itself or from the copy made while it was loaded.

    Thread-safe: lines can be read while the loader is adding more.
    """

    def __init__(self, name: str, fd: int | None, *, spool_limit: int = SPOOL_LIMIT) -> None:
        """Make an empty text.

        Args:
            name: The name of the input, for messages.
            fd: The input, a file of plain UTF-8, which this object closes; None to make a copy.
            spool_limit: The most bytes that are copied.
        """
        self.name = name
        """The name of the input, for messages."""
        self._is_copy = fd is None
        self._spool_bytes_left = 0
        if fd is None:
            with tempfile.TemporaryFile() as spool:
                fd = os.dup(spool.fileno())
            self._spool_bytes_left = min(spool_limit, shutil.disk_usage(tempfile.gettempdir()).free // 2)
        self._fd = fd
        weakref.finalize(self, os.close, fd)
        self._lock = Lock()
        self._ranges: list[LineRange] = []
        self._line_count = 0
        self._end = 0
        self._stamp = None if self._is_copy else self._file_stamp()
        self._cached: tuple[int, bytes, npt.NDArray[np.int64]] | None = None
        self.not_copied = ""
        """Why some lines were not copied; empty if all were."""

    @classmethod
    def from_ranges(cls, name: str, fd: int, ranges: Sequence[LineRange], *, is_copy: bool) -> StoredText:
        """Return a text that was loaded before, from its stored description.

        Args:
            name: The name of the input, for messages.
            fd: The unchanged input, or its copy, which this object closes.
            ranges: The positions of its lines.
            is_copy: Whether ``fd`` is the copy.
        """
        text = cls(name, fd)
        if is_copy:
            text._is_copy, text._stamp = True, None
        text._ranges = list(ranges)
        text._line_count = sum(line_range.line_count for line_range in ranges)
        return text

    @property
    def ranges(self) -> Sequence[LineRange]:
        """The positions of the lines, in the input or in the copy."""
        return tuple(self._ranges)

    @property
    def is_copy(self) -> bool:
        """Whether the lines are read from a copy."""
        return self._is_copy

    def copied_chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the copy, in pieces."""
        offset = 0
        while data := os.pread(self._fd, 1 << 20, offset):
            yield data
            offset += len(data)

    @property
    def line_count(self) -> int:
        """The number of lines."""
        return self._line_count

    def add(self, data: bytes, line_count: int, offset: int) -> None:
        """Add the next lines, which begin at an offset of the input."""
        if self._is_copy:
            offset, copied = self._end, self._copy(data)
            if not copied:
                self._line_count += line_count
                return
        line_range = LineRange(self._line_count + 1, line_count, offset, len(data), _edges(data))
        with self._lock:
            self._ranges.append(line_range)
            self._line_count += line_count

    def lines(self, first: int, count: int) -> list[str]:
        """Return lines from number ``first`` (from 1), as in the input, cut at `LINE_LIMIT` characters.

        If they cannot be read again, the first of them gives the reason and the others are empty.
        """
        last = min(first + count - 1, self._line_count)
        first = max(first, 1)
        lines: list[str] = []
        with self._lock:
            while first + len(lines) <= last:
                number = first + len(lines)
                try:
                    block = self._lines_in_range(number, last)
                except OSError as error:
                    block = self._placeholder_lines(number, last, f"cannot be read again: {error.strerror}")
                lines += block
        return lines

    def _lines_in_range(self, number: int, last: int) -> list[str]:
        """Return the lines from a number on that are in the same range of the file, up to ``last``."""
        position = bisect.bisect_right(self._ranges, number, key=lambda line_range: line_range.first_line) - 1
        line_range = self._ranges[position] if position >= 0 else None
        if line_range is None or number >= line_range.first_line + line_range.line_count:
            return self._placeholder_lines(number, last, self.not_copied)
        last_line = min(last, line_range.first_line + line_range.line_count - 1)
        changed = self._changed()
        if self._cached is None or self._cached[0] != position or changed:
            data = _read_range(self._fd, line_range.size, line_range.offset)
            starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1))
            if starts[-1] != len(data):
                starts = np.append(starts, len(data) + 1)
            if changed and not (self._grown() and line_range.is_unchanged(data)):
                return self._placeholder_lines(
                    number, last_line, "has changed since it was read; this line is no longer in it"
                )
            self._cached = position, data, starts
        _, data, starts = self._cached
        return [
            _displayed(data[starts[index] : starts[index + 1] - 1])
            for index in range(number - line_range.first_line, last_line - line_range.first_line + 1)
        ]

    def _changed(self) -> bool:
        return self._stamp is not None and self._file_stamp() != self._stamp

    def _grown(self) -> bool:
        return self._stamp is not None and self._file_stamp()[0] > self._stamp[0]

    def _file_stamp(self) -> tuple[int, int]:
        stat = os.fstat(self._fd)
        return stat.st_size, stat.st_mtime_ns

    def _placeholder_lines(self, number: int, last_line: int, reason: str) -> list[str]:
        return [f"({self.name} {reason})", *([""] * (last_line - number))]

    def _copy(self, data: bytes) -> bool:
        """Append lines to the copy; return whether they fit."""
        if self.not_copied:
            return False
        if len(data) > self._spool_bytes_left:
            self.not_copied = f"is not available from line {self._line_count + 1}: the temporary file is full"
            return False
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.not_copied = f"is not available from line {self._line_count + 1}: {error.strerror}"
            return False
        self._spool_bytes_left -= len(data)
        self._end += len(data)
        return True


def _read_range(fd: int, size: int, offset: int) -> bytes:
    parts: list[bytes] = []
    while size and (part := os.pread(fd, size, offset)):
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)


def _displayed(raw: bytes) -> str:
    text = raw[: 4 * LINE_LIMIT + 4].decode("utf-8", "replace").removesuffix("\r")
    return text if len(text) <= LINE_LIMIT else text[:LINE_LIMIT] + "…"
