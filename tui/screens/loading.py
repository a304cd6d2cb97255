"""The screen while files are read: progress, a preview of the totals, and the key that stops."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import ProgressBar, Static

from tui.fmt import brief_duration, brief_size, count
from tui.labels import Cutter
from tui.text import plain
from tui.text_width import bar, cell_width, clip, clip_middle, clip_parts, pad
from tui.textual_patches import skip_small_layouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from tui.loaders.base import FileProgress, LoadPreview, LoadProgress


_CALLS, _TIME, _SHARE = 12, 11, 7
"""Cells of the columns of figures."""
_MIN_NAME_CELLS: Final = 10
"""If there are fewer cells for names, only counts are shown."""
_LINES_ABOVE: Final = 3
"""Lines above the names."""


class PreviewTable(Static):
    """The GPU work with most time so far."""

    DEFAULT_CSS = """
    PreviewTable { height: auto; margin-top: 1; display: none; }
    """

    def show(
        self, preview: LoadPreview, share: float | None, width: int, height: int, *, is_past: bool = False
    ) -> None:
        """Show a preview.

        Args:
            preview: The preview.
            share: The share of the input that was read, from 0 to 1, if known.
            width: The width in cells.
            height: The number of lines.
            is_past: Whether more has been read since.
        """
        lines = load_preview_lines(preview, share, width, height, is_past=is_past)
        contents = [Content(line) for line in lines]
        self.update(Content("\n").join([*(title.stylize("bold") for title in contents[:1]), *contents[1:]]))
        self.display = bool(lines)


def load_preview_lines(
    preview: LoadPreview, share: float | None, width: int, height: int, *, is_past: bool = False
) -> list[str]:
    """Return the preview as at most ``height`` lines of at most ``width`` cells."""
    part = f"{100 * (share or 0):.0f}%"
    title = "Partial results" + ("" if share is None else f" (first {part})" if is_past else f" ({part} read)")
    lines = [title, *_counts(preview, width)]
    room = height - _LINES_ABOVE
    names = width - _CALLS - _TIME - _SHARE
    if not preview.names or room <= 0 or names < _MIN_NAME_CELLS:
        return [clip(line, max(0, width)) for line in lines[: max(0, height)]]
    lines.append(f"{'GPU work':<{names}}{'Calls':>{_CALLS}}{'Time':>{_TIME}}{'Share':>{_SHARE}}")
    shown = [(kernel, plain(kernel.name)) for kernel in preview.names[:room]]
    cutter = Cutter(lambda: [name for _, name in shown], are_symbols=True)
    for kernel, whole in shown:
        name = cutter.cut(whole, names - 1)
        part = f"{100 * kernel.total_ns / preview.total_ns:.1f}%" if preview.total_ns > 0 else ""
        time = brief_duration(kernel.total_ns)
        lines.append(f"{pad(name or '(no name)', names)}{count(kernel.calls):>{_CALLS}}{time:>{_TIME}}{part:>{_SHARE}}")
    return [clip(line, width) for line in lines]


def _counts(preview: LoadPreview, width: int) -> list[str]:
    """Return one line of counts, as many as fit."""
    parts = []
    if preview.calls:
        parts += [
            f"{preview.calls:,} kernels and copies",
            f"{brief_duration(preview.total_ns)} of GPU time",
        ]
        if preview.span_ns is not None:
            parts.append(f"over {brief_duration(preview.span_ns)}")
    parts += [f"{number:,} {what}" for what, number in preview.others]
    if not preview.calls:
        parts.append("no GPU work yet")
    return [clip_parts("  ".join(parts), width)]


_STATE_CELLS: Final = 9
"""The width of ``finishing``."""
_MIN_BAR_CELLS, _USUAL_BAR_CELLS, _MAX_BAR_CELLS = 8, 14, 30
_RANK: Final = 9
_LISTED_STATES: Final = ("reading", "skipped")
"""The files that are listed if there is no room for all."""
_STYLES: Final = {"skipped": "$text-error", "waiting": "$text-muted", "not read": "$warning-ink on $warning-ground"}


class FilesRead(Static):
    """One line for each file."""

    DEFAULT_CSS = """
    FilesRead { height: auto; margin-top: 1; display: none; }
    """

    def show(self, files: Sequence[FileProgress], width: int, height: int) -> None:
        """Show them.

        Args:
            files: The files.
            width: The width in cells.
            height: The number of lines.
        """
        lines = files_lines(files, width, height)
        self.update(Content("\n").join(lines))
        self.display = bool(lines)


def files_lines(files: Sequence[FileProgress], width: int, height: int) -> list[Content]:
    """Return at most ``height`` lines of at most ``width`` cells."""
    if height <= 0:
        return []
    shown = list(files)
    last = []
    if len(files) > height:
        shown = [file for state in _LISTED_STATES for file in files if file.state == state]
        more = len(shown) - height
        if more > 0:
            shown = shown[: height - 1]
            last = [Content(clip(f"and {more + 1} more", width)).stylize("$text-muted")]
    names = [plain(PurePath(one.path).name) for one in shown]
    name_width = min(
        max(map(cell_width, names), default=0), max(12, width - _RANK - _USUAL_BAR_CELLS - _STATE_CELLS - 4)
    )
    lines = [
        _line(one, clip_middle(name, name_width), name_width, width) for one, name in zip(shown, names, strict=True)
    ]
    return [*lines, *last]


def files_summary(files: Sequence[FileProgress]) -> str:
    """Return a summary, as ``57 of 100 files read, 2 skipped, 4 in progress, 37 waiting``."""
    counts = Counter(file.state for file in files)
    parts = [f"{counts['done']} of {len(files)} files read"]
    named = (("skipped", "skipped"), ("reading", "in progress"), ("waiting", "waiting"), ("not read", "not read"))
    return ", ".join([*parts, *(f"{counts[state]} {words}" for state, words in named if counts[state])])


def _line(file: FileProgress, name: str, name_width: int, width: int) -> Content:
    rank = "" if file.rank is None else f"rank {file.rank}"
    begin = f"{pad(name, name_width)}  {pad(_word(file), _STATE_CELLS)} "
    room = width - cell_width(begin)
    if file.state == "skipped":
        return Content(clip(begin + plain(file.why), width)).stylize(_STYLES[file.state])
    cells = min(_MAX_BAR_CELLS, room - _RANK)
    if cells < _MIN_BAR_CELLS:
        return Content(clip(begin + rank, width)).stylize(_STYLES.get(file.state, ""))
    share = min(1.0, file.bytes_read / file.bytes_total) if file.bytes_total else 0.0
    filled = bar(share, cells)
    line = Content(begin).stylize(_STYLES.get(file.state, ""))
    return line + Content(pad(filled, cells)).stylize("$primary") + Content(f" {rank}")


def _word(file: FileProgress) -> str:
    """Return the state, or the percentage that is read."""
    if file.state == "done":
        return "read"
    if file.state != "reading" or not file.bytes_total:
        return file.state
    percent = min(100, 100 * file.bytes_read // file.bytes_total)
    # After reading, tables are built, which takes as long again.
    return f"{percent}%" if percent < 100 else "finishing"


HOW: Final = "Esc: stop, keep partial data   Q: quit"
STOPPING: Final = "Stopping: building tables from the data read   Q: quit"
AT_END: Final = "file read; step 2 of 2: building tables…"
_MIN_SHARE_READ: Final = 0.15
"""The remaining time is estimated from here on."""
_REFRESH_S: Final = 0.5
"""The texts are updated this often, also if no progress is reported."""
_END_OF_FILE_S: Final = 1.0
"""A loader that reports nothing for this time has read the file."""
_PREVIEW_AFTER_S: Final = 0.8
"""Files that are read sooner have no preview."""
_OTHER_LINES: Final = 10
"""Lines of the screen around the table."""


@skip_small_layouts
class LoadingScreen(Screen[None]):
    """Shows the files that are read, progress, a preview of the totals, and the key that stops.

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
        /* Textual's own is the color of errors. */
        ProgressBar Bar > .bar--indeterminate { color: $primary; }
        #how { color: $text-muted; margin-top: 1; }
    }
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__()
        self._paths = paths
        self._began = time.monotonic()
        self._source_began = self._began
        self._received = self._began
        self._progress: LoadProgress | None = None
        self._is_stopping = False
        self._preview: LoadPreview | None = None
        """What is shown of it."""
        self._preview_share: float | None = None

    def compose(self) -> ComposeResult:
        """Yield one box in the middle."""
        with Vertical(id="box"):
            yield Static(Content(f"Reading {self._shown(self._paths[0])}"), id="what")
            bar = ProgressBar(total=None, show_eta=False)
            yield bar
            yield Static(id="state")
            yield PreviewTable()
            yield FilesRead()
            yield Static(Content(HOW), id="how")

    def on_mount(self) -> None:
        """Update the texts regularly: an unchanging screen looks dead."""
        self.set_interval(_REFRESH_S, self._show_state)

    @staticmethod
    def _shown(path: str) -> str:
        return "standard input" if path == "-" else plain(path)

    def show_progress(self, progress: LoadProgress) -> None:
        """Show the progress of the loader."""
        self._received = time.monotonic()
        if self._progress is None or progress.source != self._progress.source:
            self._source_began = self._began if self._progress is None else self._received
        self._progress = progress
        what = files_summary(progress.files) if progress.files else f"Reading {self._shown(progress.source)}"
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
        elif progress.preview is not self._preview and self._received - self._source_began >= _PREVIEW_AFTER_S:
            self._preview, self._preview_share = progress.preview, _share(progress)
            self._show_preview(is_past=False)

    def _show_preview(self, *, is_past: bool) -> None:
        if self._preview is not None:
            room = self.query_one("#state").size.width, self.size.height - _OTHER_LINES
            self.query_one(PreviewTable).show(self._preview, self._preview_share, *room, is_past=is_past)

    def show_stopping(self) -> None:
        """Show that reading stops."""
        self._is_stopping = True
        self.query_one("#how", Static).update(Content(STOPPING))

    def show_waiting(self, why: str) -> None:
        """Show that nothing can be read yet of a followed file."""
        self._progress = None
        self.query_one("#what", Static).update(Content(f"Waiting for {self._shown(self._paths[0])}"))
        self.query_one("#state", Static).update(Content(plain(f"{why}: read when there is more")))
        self.query_one("#how", Static).update(Content("Q: quit"))

    def _show_state(self) -> None:
        progress, now = self._progress, time.monotonic()
        if progress is None:
            return
        is_past = not self._is_stopping and now - self._received > _END_OF_FILE_S
        words = state_words(progress, self._received - self._source_began, now - self._source_began, is_past=is_past)
        # The second step has no share: 100% would be shown for seconds.
        self.query_one("#percentage").display = not (is_past or _is_read(progress) or progress.bytes_total is None)
        self.query_one("#state", Static).update(Content(words))
        if is_past or _is_read(progress):
            self._show_preview(is_past=True)
        if is_past:
            self.query_one("#how", Static).update(Content("Q: quit"))
        elif not self._is_stopping:
            self.query_one("#how", Static).update(Content(HOW))


def state_words(progress: LoadProgress, received_s: float, seconds: float, *, is_past: bool) -> str:
    """Return the amount read, the speed and the time; after the last byte the second step.

    Args:
        progress: The latest report of the loader.
        received_s: The time of the report, from the beginning.
        seconds: The time from the beginning to now.
        is_past: Whether reading seems to be over, because there was no report for long.
    """
    is_over = is_past or _is_read(progress)
    rows = [f"{progress.rows:,} rows"] if progress.rows and progress.preview is None else []
    pace = [brief_size(progress.bytes_read), AT_END] if is_over else [*_amount(progress), *_speed(progress, received_s)]
    return "   ".join([*pace, *rows, f"{seconds:.0f} s"])


def _is_read(progress: LoadProgress) -> bool:
    return progress.bytes_total is not None and progress.bytes_read >= progress.bytes_total


def _share(progress: LoadProgress) -> float | None:
    return min(1.0, progress.bytes_read / progress.bytes_total) if progress.bytes_total else None


def _amount(progress: LoadProgress) -> list[str]:
    read = brief_size(progress.bytes_read)
    return [read if progress.bytes_total is None else f"{read} of {brief_size(progress.bytes_total)}"]


def _speed(progress: LoadProgress, seconds: float) -> list[str]:
    """Return bytes per second, and the remaining time if it can be estimated."""
    if seconds < 1 or not progress.bytes_read:
        return []
    speed = progress.bytes_read / seconds
    left = (progress.bytes_total or 0) - progress.bytes_read
    is_known = left > 0 and (_share(progress) or 0) >= _MIN_SHARE_READ
    return [f"{brief_size(speed)}/s", *([f"about {_in_words(left / speed)} left"] if is_known else [])]


def _in_words(seconds: float) -> str:
    """Format a duration in words.

    >>> _in_words(0.3), _in_words(59.7), _in_words(130)
    ('1 s', '60 s', '2 min')
    """
    return f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} min"
