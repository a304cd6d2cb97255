"""The screen that is there at once, while the files are read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import ProgressBar, Static

from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from tui.loaders.base import LoadProgress


HOW: Final = "esc stops and keeps what is there   Q quits"


class LoadingScreen(Screen[None]):
    """Says what is read, how far it has come, and how to stop.

    Args:
        paths: The files, as they were given.
    """

    DEFAULT_CSS = """
    LoadingScreen {
        align: center middle;
        #box { width: 100%; max-width: 76; height: auto; padding: 1 2; }
        #what { text-style: bold; }
        ProgressBar { margin: 1 0; }
        #how { color: $text-muted; }
    }
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__()
        self._paths = paths
        self._began = time.monotonic()

    def compose(self) -> ComposeResult:
        """One box in the middle."""
        with Vertical(id="box"):
            yield Static(Content(f"Reading {self._shown(self._paths[0])}"), id="what")
            yield ProgressBar(total=None, show_eta=False)
            yield Static(Content(HOW), id="how")

    @staticmethod
    def _shown(path: str) -> str:
        return "standard input" if path == "-" else plain(path)

    def show_progress(self, progress: LoadProgress) -> None:
        """Show how far the loader has come."""
        seconds = time.monotonic() - self._began
        self.query_one("#what", Static).update(Content(f"Reading {self._shown(progress.source)}"))
        self.query_one(ProgressBar).update(total=progress.bytes_total, progress=progress.bytes_read)
        self.query_one("#percentage").display = progress.bytes_total is not None
        rows = f"{progress.rows:,} rows   " if progress.rows else ""
        self.query_one("#how", Static).update(
            Content(f"{progress.bytes_read / 2**20:,.0f} MiB   {rows}{seconds:.0f} s   {HOW}")
        )
