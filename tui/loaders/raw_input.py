"""The bytes of one input, from a file or a pipe, with progress; small inputs can be read whole, as bytes or JSON."""

from __future__ import annotations

import codecs
import io
import os
import re
import select
import stat
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from tui.fmt import brief_size
from tui.loaders.base import LoadProgress, PreviewBuilder, ProgressCallback, keep_going
from tui.loaders.input_issues import INVALID_CHARACTERS
from tui.loaders.text.lines import as_utf8, detect_encoding
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.loaders.input_file import InputFile


STANDARD_INPUT: Final = "-"

_DEFAULT_READ_BYTES: Final = 1 << 16
"""The default size of a read."""
_REPORT_EVERY_S: Final = 0.1
"""Seconds between progress reports: ten a second look smooth."""


class RawInput:
    """An open file or pipe; its bytes can be read once, from the beginning."""

    name: str
    """The path as given."""
    size: int | None
    """The size of the file on disk; None for a pipe."""
    bytes_read: int
    """The bytes read."""
    stopped: bool
    """Whether a progress callback has asked to stop."""

    def __init__(
        self, name: str, read: Callable[[int], bytes], *, fd: int | None, on_progress: ProgressCallback
    ) -> None:
        """Open the input.

        Args:
            name: The path as given.
            read: Returns up to the given number of bytes, none at the end.
            fd: The file or pipe that ``read`` reads; this object closes it.
            on_progress: Gets the progress, also while a pipe is idle; if it returns False, reading stops.

        Raises:
            ProftuiError: It is a directory or a device.
        """
        self.name = name
        self.size = None
        self.bytes_read = 0
        self.stopped = False
        self.preview = PreviewBuilder()
        self.set_on_progress(on_progress)
        self._reported = time.monotonic()
        self._rows = 0
        self._read = read
        self._fd = fd
        self._pipe: select.poll | None = None
        self._start_offset = 0
        self._status: os.stat_result | None = None
        self._pushed_back = b""
        if fd is not None:
            weakref.finalize(self, os.close, fd)
            self._check_kind(fd)

    @property
    def display_name(self) -> str:
        """The name for messages."""
        return "standard input" if self.name == STANDARD_INPUT else self.name

    def set_on_progress(self, on_progress: ProgressCallback) -> None:
        """Send progress to another function from now on."""
        self._on_progress = on_progress
        self.preview.is_wanted = on_progress is not keep_going

    def keep_going(self, rows: int = 0) -> bool:
        """Report progress, at most ten times a second; False once the callback has asked to stop.

        Only the thread that makes rows of the input may call it, since it takes a preview (`PreviewBuilder`).
        """
        self._rows = rows
        if self._is_to_report():
            self.preview.current()
            self._report_progress()
        return not self.stopped

    def _is_to_report(self) -> bool:
        return not self.stopped and time.monotonic() - self._reported >= _REPORT_EVERY_S

    def _report_progress(self) -> None:
        self._reported = time.monotonic()
        progress = LoadProgress(self.name, self.bytes_read, self.size, self._rows, self.preview.latest)
        self.stopped = not self._on_progress(progress)

    def give_up(self) -> None:
        """Stop waiting for input."""
        self.stopped = True

    def read(self, size: int = -1, /) -> bytes:
        """Read stored bytes: at most ``size``; none at the end, or when stopped."""
        size = _DEFAULT_READ_BYTES if size < 0 else size
        if self._pushed_back:
            data, self._pushed_back = self._pushed_back[:size], self._pushed_back[size:]
            return data
        while self._pipe is not None and not self._pipe.poll(1000 * _REPORT_EVERY_S):
            # Another thread may be making rows: no preview is taken here.
            if self._is_to_report():
                self._report_progress()
            if self.stopped:
                return b""
        data = self._read(size)
        self.bytes_read += len(data)
        return data

    @property
    def status(self) -> os.stat_result | None:
        """The status of the file when it was opened; None if it is no file."""
        return self._status

    def read_at(self, begin: int, end: int) -> bytes:
        """Return the bytes between two offsets of a seekable file, without moving `position`; fewer at its end."""
        assert self._fd is not None
        return os.pread(self._fd, end - begin, begin)

    def seek(self, position: int) -> None:
        """Continue reading at another offset of a seekable file."""
        assert self._fd is not None
        os.lseek(self._fd, position, os.SEEK_SET)
        self.bytes_read = position - self._start_offset

    def _check_kind(self, fd: int) -> None:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise ProftuiError(f"{self.display_name}: this is a directory", "give the names of the files in it")
        is_device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
        if is_device and not (self.name == STANDARD_INPUT and (os.isatty(fd) or _is_null_device(status))):
            # Some devices never end (/dev/zero).
            raise ProftuiError(
                f"{self.display_name}: this is a device, not a profile", "give the name of a file, or - to read a pipe"
            )
        if stat.S_ISREG(status.st_mode) and not status.st_size and _is_system_file(status):
            # Some system files never end (/proc/kmsg).
            raise ProftuiError(f"{self.display_name}: this is a system file (/proc or /sys), not a profile")
        if stat.S_ISREG(status.st_mode):
            self._status = status
            self._start_offset = os.lseek(fd, 0, os.SEEK_CUR)
            self.size = status.st_size - self._start_offset
        else:
            self._pipe = select.poll()
            self._pipe.register(fd, select.POLLIN)


def _is_null_device(status: os.stat_result) -> bool:
    return status.st_rdev == Path(os.devnull).stat().st_rdev


def _is_system_file(status: os.stat_result) -> bool:
    """Return whether a file without a size is on /proc or /sys."""
    for folder in ("/proc", "/sys", "/sys/kernel/debug", "/sys/kernel/tracing"):
        with suppress(OSError):
            if Path(folder).stat().st_dev == status.st_dev:
                return True
    return False


MAX_WHOLE_BYTES: Final = 2 << 30
"""The largest document that is read: as Python objects it takes several times its size."""


def read_bytes(source: InputFile) -> bytes:
    """Read a whole input.

    Raises:
        ProftuiError: It is larger than `MAX_WHOLE_BYTES`, or the reading was stopped.
    """
    data = bytearray()
    for chunk in source.chunks():
        data += chunk
        if len(data) > MAX_WHOLE_BYTES:
            raise ProftuiError(
                f"{source.display_name}: larger than {brief_size(MAX_WHOLE_BYTES)}, the limit for this format",
                "record a shorter run",
            )
        if not source.keep_going():
            raise ProftuiError(f"{source.display_name}: stopped before it was completely read")
    return bytes(data)


_PIECE_BYTES: Final = 1 << 20
"""Bytes that are decoded at once: as a Python string, a single character can make them four times as large."""


def read_utf8(source: InputFile) -> bytes:
    """Read a whole text, converted to UTF-8 without byte order mark; invalid characters are replaced and noted.

    Raises:
        ProftuiError: As for `read_bytes`.
    """
    data = read_bytes(source)
    data = b"".join(as_utf8(detect_encoding(data), [data]))
    if data.isascii():
        return data
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    valid = bytearray()
    for begin in range(0, len(data), _PIECE_BYTES):
        end = begin + _PIECE_BYTES
        valid += decoder.decode(data[begin:end], final=end >= len(data)).encode()
    if valid == data:
        return data
    source.notes.append(INVALID_CHARACTERS)
    return bytes(valid)


def read_json(source: InputFile, no_number: re.Pattern[bytes] | None = None) -> Any:
    """Read a whole input as JSON; values that match ``no_number`` count as null.

    Raises:
        ProftuiError: It is not JSON, is nested too deep, was cut short, or is larger than `MAX_WHOLE_BYTES`.
    """
    data = read_utf8(source)
    if no_number is not None:
        data = no_number.sub(b"null", data)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ProftuiError(
            f"{source.display_name}: not valid JSON: {problem}",
            source.cut_short or "record it again, or repair the file",
        ) from error


def open_for_reading(path: str) -> int:
    """Open a file for reading; a named pipe even if it has no writer yet.

    Raises:
        ProftuiError: It is missing, or may not be read.
    """
    try:
        # Opening a named pipe without a writer would block, and the thread could not be stopped.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return descriptor
    except FileNotFoundError as error:
        raise ProftuiError(f"{path}: no such file") from error
    except PermissionError as error:
        raise ProftuiError(f"{path}: permission denied", f"try: ls -l {path}") from error
    except (OSError, ValueError) as error:
        raise cannot_read_error(path, error) from error


def duplicate_descriptor(stream: BinaryIO) -> int | None:
    """Return a duplicate of a stream's file descriptor; None if it has none."""
    try:
        return os.dup(stream.fileno())
    except (io.UnsupportedOperation, AttributeError):
        return None


def cannot_read_error(name: str, error: Exception) -> ProftuiError:
    """Return the error for an input that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ProftuiError(f"{name}: cannot be read ({reason.lower()})")


def has_changed(descriptor: int, path: str | None, before: os.stat_result) -> bool:
    """Return whether a file was changed or replaced.

    Args:
        descriptor: The open file.
        path: Its path; None for standard input.
        before: Its earlier status.
    """
    status = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        return True
    return path is not None and is_replaced(path, before)


def is_replaced(path: str, before: os.stat_result) -> bool:
    """Return whether a path no longer leads to the file that was opened.

    Args:
        path: The path.
        before: The status of the opened file.
    """
    try:
        status = Path(path).stat()
    except OSError:
        return True
    return (status.st_dev, status.st_ino) != (before.st_dev, before.st_ino)
