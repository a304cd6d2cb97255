"""A line to type a text to find in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tui.widgets.text_input import EnteredLine

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType


class FindBar(Horizontal):
    """Hidden until it is opened; gone when a text is entered or it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]
    DEFAULT_CSS = """
    FindBar {
        height: 1; display: none; background: $panel;
        &.-open { display: block; }
        Static { width: 7; color: $accent; text-style: bold; padding: 0 1; }
        Input { border: none; height: 1; padding: 0; background: $panel; width: 1fr; }
        Input:focus { border: none; background: $panel; }
    }
    """

    class Entered(Message):
        """A text was typed; `FindBar.entry_done` is to be called when it has been looked for."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Closed(Message):
        """The bar was left without a text."""

    def compose(self) -> ComposeResult:
        """A label and an input."""
        yield Static(Content("find"))
        yield EnteredLine(compact=True, select_on_focus=True)

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("-open")

    def open(self, text: str) -> None:
        """Show the bar and type into it."""
        self.add_class("-open")
        line = self.query_one(EnteredLine)
        line.begin()
        line.value = text
        # At once, not after the messages that wait: what is typed ahead belongs here.
        self.screen.set_focus(line)

    def close(self) -> None:
        """Hide the bar."""
        self.remove_class("-open")

    def entry_done(self) -> None:
        """The text has been looked for: what was typed after it goes to where it was found."""
        self.query_one(EnteredLine).entry.done()

    def action_leave(self) -> None:
        """Leave without a text."""
        self.close()
        self.post_message(self.Closed())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the text on."""
        event.stop()
        self.close()
        self.post_message(self.Entered(event.value))
