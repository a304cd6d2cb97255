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
from tui.text import plain, plural
from tui.text_width import bar, cell_width, clip, clip_middle, clip_parts, pad
from tui.textual_patches import skip_small_layouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from tui.loaders.base import FileProgress, LoadPreview, LoadProgress


_CALLS_CELLS, _TIME_CELLS, _SHARE_CELLS = 12, 11, 7
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
        self, preview: LoadPreview, share: float | None, width: int, height: int, *, is_outdated: bool = False
    ) -> None:
        """Show a preview.

        Args:
            preview: The preview.
            share: The share of the input that was read, from 0 to 1, if known.
            width: The width in cells.
            height: The number of lines.
            is_outdated: Whether more has been read since.
        """
        lines = load_preview_lines(preview, share, width, height, is_outdated=is_outdated)
        contents = [Content(line) for line in lines]
        self.update(Content("\n").join([*(title.stylize("bold") for title in contents[:1]), *contents[1:]]))
        self.display = bool(lines)


def load_preview_lines(
    preview: LoadPreview, share: float | None, width: int, height: int, *, is_outdated: bool = False
) -> list[str]:
    """Return the preview as at most ``height`` lines of at most ``width`` cells."""
    percentage = f"{100 * (share or 0):.0f}%"
    title = "Partial results" + (
        "" if share is None else f" (first {percentage})" if is_outdated else f" ({percentage} read)"
    )
    lines = [title, *_counts(preview, width)]
    max_rows = height - _LINES_ABOVE
    name_cells = width - _CALLS_CELLS - _TIME_CELLS - _SHARE_CELLS
    if not preview.names or max_rows <= 0 or name_cells < _MIN_NAME_CELLS:
        return [clip(line, max(0, width)) for line in lines[: max(0, height)]]
    lines.append(f"{'GPU work':<{name_cells}}{'Calls':>{_CALLS_CELLS}}{'Time':>{_TIME_CELLS}}{'Share':>{_SHARE_CELLS}}")
    rows = [(kernel, plain(kernel.name)) for kernel in preview.names[:max_rows]]
    cutter = Cutter(lambda: [name for _, name in rows], are_symbols=True)
    for kernel, full_name in rows:
        name = cutter.cut(full_name, name_cells - 1)
        percentage = f"{100 * kernel.total_ns / preview.total_ns:.1f}%" if preview.total_ns > 0 else ""
        time = brief_duration(kernel.total_ns)
        figures = f"{count(kernel.calls):>{_CALLS_CELLS}}{time:>{_TIME_CELLS}}{percentage:>{_SHARE_CELLS}}"
        lines.append(pad(name or "(no name)", name_cells) + figures)
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
    parts += [f"{number:,} {label}" for label, number in preview.others]
    if not preview.calls:
        parts.append("no GPU work yet")
    return [clip_parts("  ".join(parts), width)]


_STATE_CELLS: Final = 9
"""The width of ``finishing``."""
_MIN_BAR_CELLS, _PREFERRED_BAR_CELLS, _MAX_BAR_CELLS = 8, 14, 30
_RANK_CELLS: Final = 9
_LISTED_STATES: Final = ("reading", "skipped")
"""The files that are listed if there is no room for all."""
_STYLES: Final = {"skipped": "$text-error", "waiting": "$text-muted", "not read": "$warning-ink on $warning-background"}


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
    omitted_line = []
    if len(files) > height:
        shown = [file for state in _LISTED_STATES for file in files if file.state == state]
        omitted = len(shown) - height
        if omitted > 0:
            shown = shown[: height - 1]
            omitted_line = [Content(clip(f"and {omitted + 1} more", width)).stylize("$text-muted")]
    names = [plain(PurePath(file.path).name) for file in shown]
    name_width = min(
        max(map(cell_width, names), default=0), max(12, width - _RANK_CELLS - _PREFERRED_BAR_CELLS - _STATE_CELLS - 4)
    )
    lines = [
        _file_line(file, clip_middle(name, name_width), name_width, width)
        for file, name in zip(shown, names, strict=True)
    ]
    return [*lines, *omitted_line]


def files_summary(files: Sequence[FileProgress]) -> str:
    """Return a summary, as ``57 of 100 files read, 2 skipped, 4 in progress, 37 waiting``."""
    counts = Counter(file.state for file in files)
    parts = [f"{counts['done']} of {len(files)} files read"]
    labels = (("skipped", "skipped"), ("reading", "in progress"), ("waiting", "waiting"), ("not read", "not read"))
    return ", ".join([*parts, *(f"{counts[state]} {label}" for state, label in labels if counts[state])])


def _file_line(file: FileProgress, name: str, name_width: int, width: int) -> Content:
    rank = "" if file.rank is None else f"rank {file.rank}"
    start = f"{pad(name, name_width)}  {pad(_state_text(file), _STATE_CELLS)} "
    free_cells = width - cell_width(start)
    if file.state == "skipped":
        return Content(clip(start + plain(file.reason), width)).stylize(_STYLES[file.state])
    cells = min(_MAX_BAR_CELLS, free_cells - _RANK_CELLS)
    if cells < _MIN_BAR_CELLS:
        return Content(clip(start + rank, width)).stylize(_STYLES.get(file.state, ""))
    share = min(1.0, file.bytes_read / file.bytes_total) if file.bytes_total else 0.0
    filled = bar(share, cells)
    line = Content(start).stylize(_STYLES.get(file.state, ""))
    return line + Content(pad(filled, cells)).stylize("$primary") + Content(f" {rank}")


def _state_text(file: FileProgress) -> str:
    """Return the state, or the percentage that is read."""
    if file.state == "done":
        return "read"
    if file.state != "reading" or not file.bytes_total:
        return file.state
    percent = min(100, 100 * file.bytes_read // file.bytes_total)
    # After reading, tables are built, which takes as long again.
    return f"{percent}%" if percent < 100 else "finishing"


KEYS: Final = "Esc: stop, keep partial data   Q: quit"
STOPPING: Final = "Stopping: building tables from the data read   Q: quit"
BUILDING_TABLES: Final = "file read; step 2 of 2: building tables…"
_MIN_SHARE_READ: Final = 0.15
"""The remaining time is estimated from here on."""
_REFRESH_S: Final = 0.5
"""The texts are updated this often, also if no progress is reported."""
_NO_REPORT_S: Final = 1.0
"""A loader that has reported nothing for this time has read the file."""
_PREVIEW_AFTER_S: Final = 0.8
"""Files that are read sooner have no preview."""
_LINES_AROUND_TABLE: Final = 10
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
        #loading-title { text-style: bold; }
        ProgressBar { margin: 1 0; width: 100%; }
        ProgressBar Bar { width: 1fr; }
        /* Textual's own is the color of errors. */
        ProgressBar Bar > .bar--indeterminate { color: $primary; }
        #loading-keys { color: $text-muted; margin-top: 1; }
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
        """The latest preview on the screen."""
        self._preview_share: float | None = None

    def compose(self) -> ComposeResult:
        """Yield one box in the middle."""
        with Vertical(id="box"):
            yield Static(Content(f"Reading {self._source_text(self._paths[0])}"), id="loading-title")
            bar = ProgressBar(total=None, show_eta=False)
            yield bar
            yield Static(id="state")
            yield PreviewTable()
            yield FilesRead()
            yield Static(Content(KEYS), id="loading-keys")

    def on_mount(self) -> None:
        """Update the texts regularly: an unchanging screen looks dead."""
        self.set_interval(_REFRESH_S, self._show_state)

    @staticmethod
    def _source_text(path: str) -> str:
        return "standard input" if path == "-" else plain(path)

    def show_progress(self, progress: LoadProgress) -> None:
        """Show the progress of the loader."""
        self._received = time.monotonic()
        if self._progress is None or progress.source != self._progress.source:
            self._source_began = self._began if self._progress is None else self._received
        self._progress = progress
        title = files_summary(progress.files) if progress.files else f"Reading {self._source_text(progress.source)}"
        self.query_one("#loading-title", Static).update(Content(title))
        self.query_one(ProgressBar).update(total=progress.bytes_total, progress=progress.bytes_read)
        self._show_state()
        if progress.files:
            self.query_one(FilesRead).show(
                progress.files, self.query_one("#state").size.width, self.size.height - _LINES_AROUND_TABLE
            )
        table = self.query_one(PreviewTable)
        if progress.preview is None:
            table.display = False
        elif progress.preview is not self._preview and self._received - self._source_began >= _PREVIEW_AFTER_S:
            self._preview, self._preview_share = progress.preview, _share(progress)
            self._show_preview(is_outdated=False)

    def _show_preview(self, *, is_outdated: bool) -> None:
        if self._preview is not None:
            available = self.query_one("#state").size.width, self.size.height - _LINES_AROUND_TABLE
            self.query_one(PreviewTable).show(self._preview, self._preview_share, *available, is_outdated=is_outdated)

    def show_stopping(self) -> None:
        """Show that reading stops."""
        self._is_stopping = True
        self.query_one("#loading-keys", Static).update(Content(STOPPING))

    def show_waiting(self, reason: str) -> None:
        """Show that nothing can be read yet of a followed file."""
        self._progress = None
        self.query_one("#loading-title", Static).update(Content(f"Waiting for {self._source_text(self._paths[0])}"))
        self.query_one("#state", Static).update(Content(plain(f"{reason}: read when there is more")))
        self.query_one("#loading-keys", Static).update(Content("Q: quit"))

    def _show_state(self) -> None:
        progress, now = self._progress, time.monotonic()
        if progress is None:
            return
        is_outdated = not self._is_stopping and now - self._received > _NO_REPORT_S
        text = state_text(
            progress, self._received - self._source_began, now - self._source_began, is_outdated=is_outdated
        )
        # The second step has no share: 100% would be shown for seconds.
        self.query_one("#percentage").display = not (is_outdated or _is_read(progress) or progress.bytes_total is None)
        self.query_one("#state", Static).update(Content(text))
        if is_outdated or _is_read(progress):
            self._show_preview(is_outdated=True)
        if is_outdated:
            self.query_one("#loading-keys", Static).update(Content("Q: quit"))
        elif not self._is_stopping:
            self.query_one("#loading-keys", Static).update(Content(KEYS))


def state_text(progress: LoadProgress, received_s: float, seconds: float, *, is_outdated: bool) -> str:
    """Return the amount read, the speed and the time; after the last byte the second step.

    Args:
        progress: The latest report of the loader.
        received_s: The time of the report, from the beginning.
        seconds: The time from the beginning to now.
        is_outdated: Whether reading seems to be over, because there was no report for long.
    """
    is_read = is_outdated or _is_read(progress)
    rows = [plural(progress.rows, "row")] if progress.rows and progress.preview is None else []
    parts = (
        [brief_size(progress.bytes_read), BUILDING_TABLES]
        if is_read
        else [*_amount(progress), *_speed(progress, received_s)]
    )
    return "   ".join([*parts, *rows, f"{seconds:.0f} s"])


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
    remaining_bytes = (progress.bytes_total or 0) - progress.bytes_read
    has_estimate = remaining_bytes > 0 and (_share(progress) or 0) >= _MIN_SHARE_READ
    return [
        f"{brief_size(speed)}/s",
        *([f"about {_seconds_text(remaining_bytes / speed)} left"] if has_estimate else []),
    ]


def _seconds_text(seconds: float) -> str:
    """Format a duration in words.

    >>> _seconds_text(0.3), _seconds_text(59.7), _seconds_text(130)
    ('1 s', '60 s', '2 min')
    """
    return f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} min"
