"""A titled part of a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from tui.text import plain

if TYPE_CHECKING:
    from textual.widget import Widget


class EdgePassed(Message):
    """The cursor is moved on from the last line of a panel, or back from its first.

    Args:
        step: 1 downwards, -1 upwards.
    """

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step


class Panel(Vertical):
    """A title on a rule, and what it heads.

    Args:
        title: Our own words.
        children: What it heads.
        note: Smaller words at the right of the rule.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    Panel {
        height: auto;
        border-top: solid $panel;
        border-title-color: $accent;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        padding: 0 1;
        margin: 0 0 1 0;
        &:focus-within { border-top: solid $primary; }
    }
    """

    def __init__(self, title: str, *children: Widget, note: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        self.title = title
        """Our own words."""
        self._note = note
        self._remark = ""
        self._show_title()

    def retitle(self, title: str) -> None:
        """Head it with other words.

        Args:
            title: As it stands on the screen: already made plain.
        """
        self.title = title
        self._show_title()

    def annotate(self, note: str) -> None:
        """Say something else in the smaller words."""
        self._note = note
        self._show_title()

    def remark(self, text: str) -> None:
        """Show what the user wrote on it, or nothing.

        Args:
            text: A line.
        """
        if text != self._remark:
            self._remark = text
            self._show_title()

    def _show_title(self) -> None:
        smaller = [(f"  {words}", "not bold $text-muted") for words in (self._note,) if words]
        # The sign of rows with a note.
        smaller += [(f"  # {plain(words)}", "not bold $warning") for words in (self._remark,) if words]
        self.border_title = Content.assemble(self.title, *smaller)
