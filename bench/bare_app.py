"""A minimal Textual application that shows lines; the latency of its keys is the floor for any other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.app import App
from textual.geometry import Size
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType


class Lines(ScrollView, can_focus=True):
    """Many lines with a cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [("j", "move(1)"), ("k", "move(-1)"), ("pagedown", "page(1)")]

    def __init__(self, word: str, lines: int) -> None:
        super().__init__()
        self.word = word
        self.cursor = 0
        self.virtual_size = Size(100, lines)

    def render_line(self, y: int) -> Strip:
        """A word and the number of the line."""
        line = y + self.scroll_offset.y
        text = f"{self.word} {line:>12,} ".ljust(self.size.width, ".")
        return Strip([Segment(text, self.rich_style)]) if line != self.cursor else Strip([Segment(text)])

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        before, self.cursor = self.cursor, max(0, self.cursor + step)
        top = self.scroll_offset.y
        if not top <= self.cursor < top + self.size.height:
            self.scroll_to(y=self.cursor, animate=False)
        for line in (before, self.cursor):
            self.refresh_line(line)

    def action_page(self, step: int) -> None:
        """Move the cursor by a page."""
        self.cursor += step * self.size.height
        self.scroll_to(y=self.cursor, animate=False)
        self.refresh()


class Page(Screen[None]):
    """A screen with lines."""

    def __init__(self, word: str, lines: int) -> None:
        super().__init__()
        self._lines = Lines(word, lines)

    def compose(self) -> ComposeResult:
        """The lines."""
        yield self._lines


class BareApp(App[None]):
    """Two screens of lines; 1 and 2 switch between them, s redraws all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("1", "switch_screen('one')"),
        ("2", "switch_screen('two')"),
        ("s", "redraw"),
        ("ctrl+l", "redraw"),
        ("q", "quit"),
    ]

    def __init__(self, lines: int) -> None:
        super().__init__()
        self._count = lines

    def on_mount(self) -> None:
        """Show the first screen."""
        self.install_screen(Page("line", self._count), "one")
        self.install_screen(Page("row", self._count), "two")
        self.push_screen("one")

    def action_redraw(self) -> None:
        """Draw other lines."""
        self.screen.refresh(layout=True)
        for lines in self.screen.query(Lines):
            lines.word = lines.word[1:] + lines.word[0]
            lines.refresh()


if __name__ == "__main__":
    BareApp(int(sys.argv[1])).run()
