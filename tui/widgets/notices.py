"""A line of our own words above a table: what its rows leave open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.fitting import clip
from tui.text import plain

if TYPE_CHECKING:
    from textual.geometry import Size


class NoteLine(Static):
    """Words, wrapped where the room is too small; without any it takes no line."""

    DEFAULT_CSS = """
    NoteLine { height: auto; max-height: 2; padding: 0 1; color: $text-muted; display: none; }
    """

    def show(self, words: str) -> None:
        """Say something else."""
        self.display = bool(words)
        self.update(Content(plain(words)))


class WarningLine(NoteLine):
    """What is missing, and what to do about it; without any it takes no line."""

    DEFAULT_CSS = """
    WarningLine { color: $text-error; }
    """


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
        how = f": {self._how}"
        words = plain(self._words)
        room = max(1, self.content_size.width - len(how))
        return Content(clip(words, room) + how)


Draw = Callable[[int], Sequence[Content]]
"""Lines for so many cells."""


def sentence_lines(sentences: Sequence[tuple[str, str]], width: int) -> list[Content]:
    """Sentences with their styles, wrapped."""
    return [line for text, style in sentences for line in Content.styled(plain(text), style).wrap(max(20, width))]


class HeadLines(Widget):
    """Lines that somebody draws; nothing where there are none."""

    DEFAULT_CSS = """
    HeadLines { height: auto; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._draw: Draw | None = None

    def show(self, draw: Draw | None) -> None:
        """Show other lines."""
        self._draw = draw
        self.display = draw is not None
        self.refresh(layout=True)

    def _lines(self, width: int) -> Sequence[Content]:
        return self._draw(width) if self._draw is not None and width > 0 else ()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as are drawn."""
        return len(self._lines(width))

    def render(self) -> Content:
        """The lines."""
        return Content("\n").join(self._lines(self.content_size.width))
