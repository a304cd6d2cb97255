"""A line that offers something, over the last line of a view, until the next key."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tui.fitting import clip
from tui.text import plain


class OfferLine(Static):
    """Words in one line; what does not fit is cut in front of the key that takes the offer.

    Args:
        words: What is offered.
        how: How to take it.
    """

    DEFAULT_CSS = """
    OfferLine {
        dock: bottom; layer: offer; height: 1; margin: 0 0 1 0; padding: 0 1;
        background: $panel; color: $accent; text-style: bold;
    }
    """

    def __init__(self, words: str, how: str) -> None:
        super().__init__()
        self._words = words
        self._how = how

    def render(self) -> Content:
        """The line."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        how = f": {self._how}"
        words = plain(self._words, ascii_only=ascii_only)
        room = max(1, self.content_size.width - len(how))
        return Content(clip(words, room, ascii_only=ascii_only) + how)
