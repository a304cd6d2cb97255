"""File descriptors of inputs, and what is said where there is none."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from typing import BinaryIO


def opened(path: str) -> int:
    """A file, open for reading; a named pipe also before anybody has opened it for writing.

    Raises:
        ProftuiError: It is not there, or may not be read.
    """
    try:
        # Else a named pipe that nobody writes to yet would hold up the thread, which then could not be stopped.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return descriptor
    except FileNotFoundError as error:
        raise ProftuiError(f"{path}: no such file") from error
    except PermissionError as error:
        raise ProftuiError(f"{path}: may not be read (permission denied)", f"try: ls -l {path}") from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def number_of(stream: BinaryIO) -> int | None:
    """A file descriptor of its own for a stream that has one, so that nobody else's use of it matters."""
    try:
        return os.dup(stream.fileno())
    except (io.UnsupportedOperation, AttributeError):
        return None


def unreadable(name: str, error: OSError | ValueError) -> ProftuiError:
    """What to say of an input that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ProftuiError(f"{name}: cannot be read ({reason.lower()})")


def has_changed(descriptor: int, path: str | None, before: os.stat_result) -> bool:
    """Whether a file is another than it was, or another one has taken its place.

    Args:
        descriptor: The open file.
        path: Where it was opened; None for standard input.
        before: What it was like.
    """
    after = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return True
    return path is not None and is_replaced(path, before)


def is_replaced(path: str, before: os.stat_result) -> bool:
    """Whether another file, or none, has the name of one that was opened.

    Args:
        path: Where it was opened.
        before: What it was like.
    """
    try:
        now = Path(path).stat()
    except OSError:
        return True
    return (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino)
