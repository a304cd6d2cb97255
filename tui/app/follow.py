"""Following files that are still being written: new data is read when it is complete, and the views stay."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.options import expand_user_path

if TYPE_CHECKING:
    from textual.app import App

    from tui.app.profile_session import ProfileSession

POLL_S: Final = 1.0
"""How often the files are checked."""
UNCHANGED_S: Final = 2.0
"""A file that has not changed for this time is complete, unless it is JSON without its end."""
MAX_WAIT_S: Final = 30.0
"""A text file that keeps changing is read this often anyway, up to its last whole line."""
PAUSE_FACTOR: Final = 9
"""Pause after reading, as a multiple of the time that it took: a growing text is read from its beginning."""
_TEXT_SUFFIXES: Final = (".log", ".txt", ".csv", ".out", ".err")
"""Files whose whole lines can be read while they grow."""
MAX_FILES: Final = 10_000
"""The maximum number of files of a folder that are checked."""
FOLLOWING: Final = "following"
"""The group of the thread that checks the files, and its label in the first line."""
_TAIL_BYTES: Final = 64

Stamps = Mapping[str, tuple[int, int]]
"""The size and modification time of each file."""


class FileChange(Enum):
    """The change of the files since they were read."""

    NOTHING = "nothing"
    GROWING = "growing"
    COMPLETE = "complete"


def stamps(paths: Sequence[str]) -> Stamps:
    """Return size and modification time of files, and of all files in folders; missing files have none."""
    stamps_by_path: dict[str, tuple[int, int]] = {}
    for path in map(expand_user_path, paths):
        if not path.is_dir():
            _add(stamps_by_path, path)
            continue
        for folder, _, names in os.walk(path):
            for name in sorted(names):
                if len(stamps_by_path) < MAX_FILES:
                    _add(stamps_by_path, Path(folder) / name)
    return stamps_by_path


def _add(stamps_by_path: dict[str, tuple[int, int]], path: Path) -> None:
    try:
        status = path.stat()
    except OSError:
        return
    stamps_by_path[str(path)] = (status.st_size, status.st_mtime_ns)


def lacks_end(path: str) -> bool:
    """Return whether a file is JSON that is not closed yet."""
    if not path.endswith(".json"):
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            end = file.read(_TAIL_BYTES).rstrip()
    except OSError:
        return False
    return not end.endswith((b"}", b"]"))


class FileWatch:
    """Detects when files have changed, and when the new data is complete.

    Args:
        paths: Files and folders.
        unchanged_s: How long a file must be unchanged.
        max_wait_s: A text is read after this time even if it keeps changing.
    """

    def __init__(self, paths: Sequence[str], unchanged_s: float = UNCHANGED_S, max_wait_s: float = MAX_WAIT_S) -> None:
        self._paths, self._unchanged_s, self._max_wait_s = paths, unchanged_s, max_wait_s
        self._read: Stamps = {}
        self._latest: Stamps = {}
        self._latest_s = self._changing_since_s = self._not_before_s = 0.0

    def pause_reading(self, now_s: float, duration_s: float) -> None:
        """Set the pause after the files were read.

        Args:
            now_s: When reading ended.
            duration_s: How long it took.
        """
        self._not_before_s = now_s + PAUSE_FACTOR * duration_s

    def mark_read(self, current: Stamps) -> None:
        """Mark the files as read.

        Args:
            current: Their stamps.
        """
        self._read = self._latest = current

    def current_stamps(self) -> Stamps:
        """Return the stamps of the files now."""
        return stamps(self._paths)

    def change(self, current: Stamps, now_s: float) -> FileChange:
        """Return how the files have changed.

        Args:
            current: The result of `current_stamps`.
            now_s: The time of the check.
        """
        if current == self._read:
            self._latest = current
            return FileChange.NOTHING
        if self._latest == self._read:
            self._changing_since_s = now_s
        if current != self._latest:
            self._latest, self._latest_s = current, now_s
        changed = [path for path, stamp in current.items() if self._read.get(path) != stamp]
        if any(map(lacks_end, changed)):
            return FileChange.GROWING
        is_unchanged = now_s - self._latest_s >= self._unchanged_s
        is_late = now_s - self._changing_since_s >= self._max_wait_s and all(
            path.endswith(_TEXT_SUFFIXES) for path in changed
        )
        return FileChange.COMPLETE if (is_unchanged or is_late) and now_s >= self._not_before_s else FileChange.GROWING


class Following:
    """Reads the files again when they have grown (``--follow``).

    Args:
        app: Runs timers and threads.
        paths: The followed files.
        session: Shows the progress in the header.
        is_reading: Whether the files are being read.
        read_again: Reads the files.
    """

    def __init__(
        self,
        app: App[None],
        paths: Sequence[str],
        session: ProfileSession,
        is_reading: Callable[[], bool],
        read_again: Callable[[], None],
    ) -> None:
        self._app, self._session = app, session
        self._is_reading, self._read_again = is_reading, read_again
        self._watch = FileWatch(paths, UNCHANGED_S, MAX_WAIT_S)
        self._is_checking = False
        self._reading_since_s = time.monotonic()

    def start(self) -> None:
        """Start watching the files; called before they are read for the first time."""
        self._watch.mark_read(self._watch.current_stamps())
        self._app.set_interval(POLL_S, self.check)

    def loaded(self) -> None:
        """Report that the files are followed, after they were read."""
        now_s = time.monotonic()
        self._watch.pause_reading(now_s, now_s - self._reading_since_s)
        self._say(f"following, read at {datetime.now().strftime('%H:%M:%S')}")

    def _say(self, text: str) -> None:
        self._session.show_progress(FOLLOWING, text)

    def check(self) -> None:
        """Check for changes of the files."""
        if not self._is_checking and not self._is_reading():
            self._is_checking = True
            self._app.run_worker(self._check_in_thread, thread=True, group=FOLLOWING)

    def _check_in_thread(self) -> None:
        current = self._watch.current_stamps()
        now_s = time.monotonic()
        change = self._watch.change(current, now_s)
        self._app.call_from_thread(partial(self._take, current, change))

    def _take(self, current: Stamps, change: FileChange) -> None:
        self._is_checking = False
        if self._is_reading():
            return
        if change is FileChange.GROWING:
            self._say("following: the file is growing")
        elif change is FileChange.COMPLETE:
            self._watch.mark_read(current)
            self._reading_since_s = time.monotonic()
            self._read_again()
