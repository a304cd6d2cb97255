"""Temporary folders; the next run removes those of a killed run."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

import platformdirs

_ATTEMPTS: Final = 5
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_own: dict[Path, int] = {}
"""The folders of this process, each with the descriptor that holds its lock."""


def exports_folder() -> Path:
    """Return the cache folder for exports of Nsight Systems reports."""
    return platformdirs.user_cache_path("proftui") / "nsys"


def _prefix() -> str:
    return f"proftui-{os.getuid()}-"


class Scratch:
    """A private temporary folder that exists as long as this object, or until `close`.

    Args:
        within: The parent folder; None: the folder for temporary files.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, within: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if within is None else within
        remove_abandoned_folders(parent)
        self.path = _made(parent)
        """Its path."""
        self._end = weakref.finalize(self, _remove, self.path)

    def close(self) -> None:
        """Remove it with its content."""
        self._end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def _made(parent: Path) -> Path:
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=_prefix(), dir=parent))
        descriptor = os.open(path, _FOLDER)
        with suppress(OSError):  # without locks the folder stays if the program is killed
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            _own[path] = descriptor
            return path
        # Another run removed it as abandoned before it was locked.
        os.close(descriptor)
    raise OSError("the temporary folder keeps disappearing")


def _remove(path: Path) -> None:
    descriptor = _own.pop(path, None)
    shutil.rmtree(path, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def clear_temp_folders() -> None:
    """Remove all folders of this process, before it exits."""
    for path in list(_own):
        _remove(path)


def clear_abandoned_temp_folders() -> None:
    """Remove folders of killed runs, in all parent folders."""
    for parent in (Path(tempfile.gettempdir()), exports_folder()):
        remove_abandoned_folders(parent)


def remove_abandoned_folders(parent: Path) -> None:
    """Remove the user's temporary folders that no process has locked."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix()):
                with suppress(OSError):
                    _clear_if_abandoned(Path(entry.path))


def _clear_if_abandoned(path: Path) -> None:
    descriptor = os.open(path, _FOLDER)
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            # Raises if a running process holds the lock.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
