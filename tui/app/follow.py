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
SETTLED_S: Final = 2.0
"""A file that has not changed for this time is complete, unless it is JSON without its end."""
MAX_WAIT_S: Final = 30.0
"""A text file that keeps changing is read this often anyway, up to its last whole line."""
REST_FACTOR: Final = 9
"""Pause after reading, as a multiple of the time that it took: a growing text is read from its beginning."""
_TEXT_SUFFIXES: Final = (".log", ".txt", ".csv", ".out", ".err")
"""Files whose whole lines can be read while they grow."""
MAX_FILES: Final = 10_000
"""The maximum number of files of a folder that are checked."""
FOLLOWING: Final = "following"
"""The group of the thread that checks the files, and its label in the first line."""
_TAIL: Final = 64

Stamps = Mapping[str, tuple[int, int]]
"""The size and modification time of each file."""


class FileChange(Enum):
    """The change of the files since they were read."""

    NOTHING = "nothing"
    GROWING = "growing"
    COMPLETE = "complete"


def stamps(paths: Sequence[str]) -> Stamps:
    """Return size and modification time of files, and of all files in folders; missing files have none."""
    found: dict[str, tuple[int, int]] = {}
    for path in map(expand_user_path, paths):
        if not path.is_dir():
            _add(found, path)
            continue
        for folder, _, names in os.walk(path):
            for name in sorted(names):
                if len(found) < MAX_FILES:
                    _add(found, Path(folder) / name)
    return found


def _add(found: dict[str, tuple[int, int]], path: Path) -> None:
    try:
        status = path.stat()
    except OSError:
        return
    found[str(path)] = (status.st_size, status.st_mtime_ns)


def lacks_end(path: str) -> bool:
    """Return whether a file is JSON that is not closed yet."""
    if not path.endswith(".json"):
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            end = file.read(_TAIL).rstrip()
    except OSError:
        return False
    return not end.endswith((b"}", b"]"))


class FileWatch:
    """Detects when files have changed, and when the new data is complete.

    Args:
        paths: Files and folders.
        settled_s: How long a file must be unchanged.
        longest_s: It is read after this time even if it keeps changing.
    """

    def __init__(self, paths: Sequence[str], settled_s: float = SETTLED_S, longest_s: float = MAX_WAIT_S) -> None:
        self._paths, self._settled_s, self._longest_s = paths, settled_s, longest_s
        self._read: Stamps = {}
        self._seen: Stamps = {}
        self._seen_s = self._began_s = self._not_before_s = 0.0

    def rest(self, now_s: float, took_s: float) -> None:
        """Pause reading after a reading.

        Args:
            now_s: The end of the reading.
            took_s: Its duration.
        """
        self._not_before_s = now_s + REST_FACTOR * took_s

    def mark_read(self, seen: Stamps) -> None:
        """Mark the files as read in their current state, or in a given one."""
        self._read = self._seen = seen

    def current_stamps(self) -> Stamps:
        """Return the stamps of the files now."""
        return stamps(self._paths)

    def change(self, now: Stamps, now_s: float) -> FileChange:
        """Return how the files have changed.

        Args:
            now: The result of `current_stamps`.
            now_s: The time of the look.
        """
        if now == self._read:
            self._seen = now
            return FileChange.NOTHING
        if self._seen == self._read:
            self._began_s = now_s
        if now != self._seen:
            self._seen, self._seen_s = now, now_s
        changed = [path for path, stamp in now.items() if self._read.get(path) != stamp]
        if any(map(lacks_end, changed)):
            return FileChange.GROWING
        is_settled = now_s - self._seen_s >= self._settled_s
        is_late = now_s - self._began_s >= self._longest_s and all(path.endswith(_TEXT_SUFFIXES) for path in changed)
        return FileChange.COMPLETE if (is_settled or is_late) and now_s >= self._not_before_s else FileChange.GROWING


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
        self._watch = FileWatch(paths, SETTLED_S, MAX_WAIT_S)
        self._is_looking = False
        self._reading_since_s = time.monotonic()

    def start(self) -> None:
        """Start watching the files; called before they are read for the first time."""
        self._watch.mark_read(self._watch.current_stamps())
        self._app.set_interval(POLL_S, self.check)

    def loaded(self) -> None:
        """Report that the files are followed, after they were read."""
        now_s = time.monotonic()
        self._watch.rest(now_s, now_s - self._reading_since_s)
        self._say(f"following, read at {datetime.now().strftime('%H:%M:%S')}")

    def _say(self, words: str) -> None:
        self._session.show_progress(FOLLOWING, words)

    def check(self) -> None:
        """Check for changes of the files."""
        if not self._is_looking and not self._is_reading():
            self._is_looking = True
            self._app.run_worker(self._look_in_thread, thread=True, group=FOLLOWING)

    def _look_in_thread(self) -> None:
        now = self._watch.current_stamps()
        now_s = time.monotonic()
        change = self._watch.change(now, now_s)
        self._app.call_from_thread(partial(self._take, now, change))

    def _take(self, now: Stamps, change: FileChange) -> None:
        self._is_looking = False
        if self._is_reading():
            return
        if change is FileChange.GROWING:
            self._say("following: the file is growing")
        elif change is FileChange.COMPLETE:
            self._watch.mark_read(now)
            self._reading_since_s = time.monotonic()
            self._read_again()
