"""File descriptors of inputs, and what is said where there is none."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from typing import BinaryIO


def opened(path: str) -> int:
    """A file, open for reading.

    Raises:
        ProftuiError: It is not there, or may not be read.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
