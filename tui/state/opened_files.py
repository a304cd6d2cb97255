"""The profiles that were opened before, with the first figures of each, for the home screen."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

import msgspec

from tui.state.store import MOST_TEXT, Store, folder

MOST_OPENED: Final = 200
"""The most files that are remembered."""
MOST_KERNELS: Final = 5
"""The most kernels of the first figures."""


class KernelTotal(msgspec.Struct, frozen=True):
    """A kernel, copy or memset with its total."""

    name: str
    calls: int | None
    total_ns: int | None


class FirstFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the home screen shows of a profile; None where the profile does not record it."""

    format: str
    gpu: str | None = None
    duration_ns: int | None = None
    sessions: int = 1
    launches: int | None = None
    gpu_ns: int | None = None
    ops: int = 0
    api_calls: int = 0
    top: tuple[KernelTotal, ...] = ()


class OpenedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it was when it was opened last."""

    opened: int
    """Seconds since 1970."""
    size: int
    modified_ns: int
    figures: FirstFigures | None = None


def _store() -> Store:
    return Store(folder() / "opened.json", version=1, most=MOST_OPENED)


def opened_files() -> dict[str, OpenedFile]:
    """The files that were opened before, by path, the latest last."""
    found: dict[str, OpenedFile] = {}
    for path, entry in _store().read().entries.items():
        with suppress(msgspec.ValidationError, RecursionError):
            found[path] = msgspec.convert(entry, OpenedFile)
    return dict(sorted(found.items(), key=lambda one: one[1].opened))


def remember_opened(path: str, figures: FirstFigures | None) -> str:
    """Remember that a file was opened now.

    Args:
        path: The file, or a folder of profiles.
        figures: Its first figures; None where they are unknown.

    Returns:
        Why it could not be stored, for the user; empty on success.
    """
    absolute = os.path.abspath(path)  # noqa: PTH100 (paths may be no valid text)
    try:
        absolute.encode()
        status = os.stat(absolute)  # noqa: PTH116
    except (OSError, UnicodeEncodeError):
        return ""
    if len(absolute) > MOST_TEXT:
        return ""
    entry = OpenedFile(int(time.time()), status.st_size, status.st_mtime_ns, figures)
    return _store().change({absolute: msgspec.to_builtins(entry)})


def forget_opened(path: str) -> str:
    """Forget a file; the result says why that failed, or is empty."""
    return _store().change({os.path.abspath(path): None})  # noqa: PTH100
