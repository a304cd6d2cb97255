"""A line of our own words above a table: what its rows leave open."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tui.text import plain


class NoteLine(Static):
    """Words, wrapped where they lack the room; without any it takes no line."""

    DEFAULT_CSS = """
    NoteLine { height: auto; max-height: 2; padding: 0 1; color: $text-muted; display: none; }
    """

    def show(self, words: str) -> None:
        """Say something else."""
        self.display = bool(words)
        self.update(Content(plain(words, ascii_only=bool(getattr(self.app, "ascii_only", False)))))
