"""Temporary folders; those of a run that was killed are removed by the next run."""

from __future__ import annotations

import errno
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
"""The folders of this process that are there now, each with the descriptor that holds its lock."""


def exports_folder() -> Path:
    """Where exports of Nsight's reports are made and kept."""
    return platformdirs.user_cache_path("proftui") / "nsys"


def make_private(folder: Path) -> None:
    """Make a folder that is the user's alone; one of the user's that others may look into is closed to them.

    Raises:
        OSError: It cannot be made, or belongs to another user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = os.open(folder, _FOLDER)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the folder of exports belongs to another user", str(folder))
        if not is_private(status):
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def is_private(status: os.stat_result) -> bool:
    """Whether a file or folder is the user's alone."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _prefix() -> str:
    return f"proftui-{os.getuid()}-"


class Scratch:
    """A folder of the user's alone, there as long as this object, or until `close`.

    Args:
        within: Where it is made; None: where temporary files go.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, within: Path | None = None) -> None:
        place = Path(tempfile.gettempdir()) if within is None else within
        clear_abandoned(place)
        self.path = _made(place)
        """Where it lies."""
        self._end = weakref.finalize(self, _remove, self.path)

    def close(self) -> None:
        """Take it away, with all that is in it."""
        self._end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def _made(place: Path) -> Path:
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=_prefix(), dir=place))
        descriptor = os.open(path, _FOLDER)
        with suppress(OSError):  # not every file system knows locks: it then stays where the program is killed
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            _own[path] = descriptor
            return path
        # Another run took it for abandoned, before it was locked.
        os.close(descriptor)
    raise OSError("the temporary folder keeps disappearing")


def _remove(path: Path) -> None:
    descriptor = _own.pop(path, None)
    shutil.rmtree(path, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def clear_temp_folders() -> None:
    """Take away all folders of this process: it is about to end."""
    for path in list(_own):
        _remove(path)


def clear_abandoned_temp_folders() -> None:
    """Take away what earlier runs have left, wherever they could have."""
    for place in (Path(tempfile.gettempdir()), exports_folder()):
        clear_abandoned(place)


def clear_abandoned(place: Path) -> None:
    """Take away the user's folders that no process holds any more."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix()):
                with suppress(OSError):
                    _clear_if_abandoned(Path(entry.path))


def _clear_if_abandoned(path: Path) -> None:
    descriptor = os.open(path, _FOLDER)
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            # Held by a process that lives: this raises.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
