"""Some lines above a table: a chart or a sentence, drawn anew for the room that there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from tui.text import plain

if TYPE_CHECKING:
    from textual.geometry import Size

Draw = Callable[[int, bool], Sequence[Content]]
"""Lines for so many cells; whether ASCII characters alone are to be used."""


def said_lines(said: Sequence[tuple[str, str]], width: int, *, ascii_only: bool) -> list[Content]:
    """Sentences with their styles, wrapped."""
    return [
        line
        for text, style in said
        for line in Content.styled(plain(text, ascii_only=ascii_only), style).wrap(max(20, width))
    ]


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
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        return self._draw(width, ascii_only) if self._draw is not None and width > 0 else ()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as are drawn."""
        return len(self._lines(width))

    def render(self) -> Content:
        """The lines."""
        return Content("\n").join(self._lines(self.content_size.width))
