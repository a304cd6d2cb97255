"""Following files that are still being written: what is new is read when it is complete, and the views stay."""

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
"""So often the files are looked at."""
SETTLED_S: Final = 2.0
"""A file that has not changed for so long is complete, unless it is JSON whose end is missing."""
LONGEST_S: Final = 30.0
"""A text that never rests is read so often all the same: its whole lines."""
REST: Final = 9
"""For so many times as long as reading took, nothing is read again: a growing text is read from its beginning."""
_TEXTS: Final = (".log", ".txt", ".csv", ".out", ".err")
"""Endings of files whose whole lines can be read while they grow."""
MAX_FILES: Final = 10_000
"""Files of a folder that are looked at."""
FOLLOWING: Final = "following"
"""The group of the thread that looks at the files, and what is under way in the first line."""
_TAIL: Final = 64

Stamps = Mapping[str, tuple[int, int]]
"""The size of each file, and when it was written."""


class FileChange(Enum):
    """What has come about since the files were read."""

    NOTHING = "nothing"
    GROWING = "growing"
    COMPLETE = "complete"


def stamps(paths: Sequence[str]) -> Stamps:
    """The stamps of files, and of all files in folders and below; a file that is not there has none."""
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
    """Whether a file is JSON that is not closed yet."""
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
    """Tells when files have changed, and when what is new is complete.

    Args:
        paths: Files and folders.
        settled_s: For how long a file has to rest.
        longest_s: After so long it is read although it does not rest.
    """

    def __init__(self, paths: Sequence[str], settled_s: float = SETTLED_S, longest_s: float = LONGEST_S) -> None:
        self._paths, self._settled_s, self._longest_s = paths, settled_s, longest_s
        self._read: Stamps = {}
        self._seen: Stamps = {}
        self._seen_s = self._began_s = self._not_before_s = 0.0

    def rest(self, now_s: float, took_s: float) -> None:
        """Read nothing for a while after a reading.

        Args:
            now_s: When that ended.
            took_s: How long it took.
        """
        self._not_before_s = now_s + REST * took_s

    def mark_read(self, seen: Stamps) -> None:
        """The files are read as they are now, or were when they were looked at."""
        self._read = self._seen = seen

    def look(self) -> Stamps:
        """The stamps of the files now."""
        return stamps(self._paths)

    def news(self, now: Stamps, now_s: float) -> FileChange:
        """What has come about.

        Args:
            now: From `look`.
            now_s: When that was.
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
        rests = now_s - self._seen_s >= self._settled_s
        is_late = now_s - self._began_s >= self._longest_s and all(path.endswith(_TEXTS) for path in changed)
        return FileChange.COMPLETE if (rests or is_late) and now_s >= self._not_before_s else FileChange.GROWING


class Following:
    """Reads the files again when they have grown.

    Args:
        app: Runs timers and threads.
        paths: The files that are followed.
        session: Shows how far it is in the first line.
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
        self._watch = FileWatch(paths, SETTLED_S, LONGEST_S)
        self._is_looking = False
        self._reading_since_s = time.monotonic()

    def start(self) -> None:
        """Look at the files from now on; before they are read for the first time."""
        self._watch.mark_read(self._watch.look())
        self._app.set_interval(POLL_S, self.look)

    def loaded(self) -> None:
        """The files have been read: say that they are followed."""
        now_s = time.monotonic()
        self._watch.rest(now_s, now_s - self._reading_since_s)
        self._say(f"following, read at {datetime.now().strftime('%H:%M:%S')}")

    def _say(self, words: str) -> None:
        self._session.show_progress(FOLLOWING, words)

    def look(self) -> None:
        """See whether there is something new."""
        if not self._is_looking and not self._is_reading():
            self._is_looking = True
            self._app.run_worker(self._look_in_thread, thread=True, group=FOLLOWING)

    def _look_in_thread(self) -> None:
        now = self._watch.look()
        now_s = time.monotonic()
        news = self._watch.news(now, now_s)
        self._app.call_from_thread(partial(self._take, now, news))

    def _take(self, now: Stamps, news: FileChange) -> None:
        self._is_looking = False
        if self._is_reading():
            return
        if news is FileChange.GROWING:
            self._say("following: new data is being written")
        elif news is FileChange.COMPLETE:
            self._watch.mark_read(now)
            self._reading_since_s = time.monotonic()
            self._read_again()
