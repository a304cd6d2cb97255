"""The screen that is shown while the files are read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import ProgressBar, Static

from tui.fmt import size
from tui.text import plain
from tui.textual_patches.least_size import skip_small_layouts
from tui.widgets.load_preview import FilesRead, PreviewTable, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from tui.loaders.progress import LoadPreview, LoadProgress


HOW: Final = "Esc: stop, keep partial data   Q: quit"
STOPPING: Final = "Stopping: building tables from what was read   Q: quit"
AT_END: Final = "file read; step 2 of 2: building tables…"
_LEAST_SHARE: Final = 0.15
"""Before so much of a file is read, the time that is left is not estimated."""
_EVERY_S: Final = 0.5
"""After so long the words are brought up to date, also where no progress is reported."""
_SILENT_S: Final = 1.0
"""A loader that reports nothing for so long has read the file."""
_SHOWN_AFTER_S: Final = 0.8
"""A file that is read sooner shows no preview."""
_OTHER_LINES: Final = 10
"""Lines of the screen around the table."""


@skip_small_layouts
class LoadingScreen(Screen[None]):
    """Shows what is read, how far, a preview, and how to stop.

    Args:
        paths: The files, as they were given.
    """

    DEFAULT_CSS = """
    LoadingScreen {
        align: center middle;
        #box { width: 100%; max-width: 110; height: auto; padding: 1 2; }
        #what { text-style: bold; }
        ProgressBar { margin: 1 0; width: 100%; }
        ProgressBar Bar { width: 1fr; }
        #how { color: $text-muted; margin-top: 1; }
    }
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__()
        self._paths = paths
        self._began = time.monotonic()
        self._source_began = self._began
        self._heard = self._began
        self._progress: LoadProgress | None = None
        self._is_stopping = False
        self._so_far: LoadPreview | None = None
        """What is shown of it."""

    def compose(self) -> ComposeResult:
        """One box in the middle."""
        with Vertical(id="box"):
            yield Static(Content(f"Reading {self._shown(self._paths[0])}"), id="what")
            bar = ProgressBar(total=None, show_eta=False)
            yield bar
            yield Static(id="state")
            yield PreviewTable()
            yield FilesRead()
            yield Static(Content(HOW), id="how")

    def on_mount(self) -> None:
        """Bring the words up to date now and then: a screen on which nothing changes looks dead."""
        self.set_interval(_EVERY_S, self._show_state)

    @staticmethod
    def _shown(path: str) -> str:
        return "standard input" if path == "-" else plain(path)

    def show_progress(self, progress: LoadProgress) -> None:
        """Show how far the loader has come."""
        self._heard = time.monotonic()
        if self._progress is None or progress.source != self._progress.source:
            self._source_began = self._began if self._progress is None else self._heard
        self._progress = progress
        what = summary(progress.files) if progress.files else f"Reading {self._shown(progress.source)}"
        self.query_one("#what", Static).update(Content(what))
        self.query_one(ProgressBar).update(total=progress.bytes_total, progress=progress.bytes_read)
        self._show_state()
        if progress.files:
            self.query_one(FilesRead).show(
                progress.files, self.query_one("#state").size.width, self.size.height - _OTHER_LINES
            )
        table = self.query_one(PreviewTable)
        if progress.preview is None:
            table.display = False
        elif progress.preview is not self._so_far and self._heard - self._source_began >= _SHOWN_AFTER_S:
            self._so_far = progress.preview
            width = self.query_one("#state").size.width
            table.show(progress.preview, _share(progress), width, self.size.height - _OTHER_LINES)

    def show_stopping(self) -> None:
        """Say that no more is read."""
        self._is_stopping = True
        self.query_one("#how", Static).update(Content(STOPPING))

    def _show_state(self) -> None:
        progress, now = self._progress, time.monotonic()
        if progress is None:
            return
        is_past = not self._is_stopping and now - self._heard > _SILENT_S
        words = state_words(progress, self._heard - self._source_began, now - self._source_began, is_past=is_past)
        # The second step has no share: 100 % would stand there for seconds.
        self.query_one("#percentage").display = not (is_past or _is_read(progress) or progress.bytes_total is None)
        self.query_one("#state", Static).update(Content(words))
        if is_past:
            self.query_one("#how", Static).update(Content("Q: quit"))
        elif not self._is_stopping:
            self.query_one("#how", Static).update(Content(HOW))


def state_words(progress: LoadProgress, heard_s: float, seconds: float, *, is_past: bool) -> str:
    """How much has been read, how fast, and for how long; after the last byte the second step, and no speed.

    Args:
        progress: What the loader said last.
        heard_s: When it said so, from the beginning.
        seconds: The time from the beginning to now.
        is_past: Whether it has been silent for so long that the reading is over.
    """
    is_over = is_past or _is_read(progress)
    rows = [f"{progress.rows:,} rows"] if progress.rows and progress.preview is None else []
    pace = [size(progress.bytes_read), AT_END] if is_over else [*_amount(progress), *_speed(progress, heard_s)]
    return "   ".join([*pace, *rows, f"{seconds:.0f} s"])


def _is_read(progress: LoadProgress) -> bool:
    return progress.bytes_total is not None and progress.bytes_read >= progress.bytes_total


def _share(progress: LoadProgress) -> float | None:
    return min(1.0, progress.bytes_read / progress.bytes_total) if progress.bytes_total else None


def _amount(progress: LoadProgress) -> list[str]:
    read = size(progress.bytes_read)
    return [read if progress.bytes_total is None else f"{read} of {size(progress.bytes_total)}"]


def _speed(progress: LoadProgress, seconds: float) -> list[str]:
    """Bytes a second, and the time that is left at that speed, where that can be estimated."""
    if seconds < 1 or not progress.bytes_read:
        return []
    speed = progress.bytes_read / seconds
    left = (progress.bytes_total or 0) - progress.bytes_read
    is_known = left > 0 and (_share(progress) or 0) >= _LEAST_SHARE
    return [f"{size(speed)}/s", *([f"about {_in_words(left / speed)} left"] if is_known else [])]


def _in_words(seconds: float) -> str:
    """A time of waiting.

    >>> _in_words(0.3), _in_words(59.7), _in_words(130)
    ('1 s', '60 s', '2 min')
    """
    return f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} min"
