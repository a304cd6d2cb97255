"""Writing a note on a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.state.notes import too_much
from tui.text import plain
from tui.widgets.dialogs.base import Dialog
from tui.widgets.text_input import PlainEditor

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType


class NoteEditor(PlainEditor):
    """A few lines of text: ``enter`` keeps them.

    Args:
        text: What stands there at first.
        id: The widget's id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "keep", "keep", priority=True),
        # Terminals tell ctrl+j from enter, where they send the same for enter with any other key.
        Binding("ctrl+j", "new_line", "new line", priority=True),
    ]
    DEFAULT_CSS = """
    NoteEditor { height: auto; min-height: 4; max-height: 14; border: none; padding: 0; }
    NoteEditor:focus { border: none; }
    """

    class Kept(Message):
        """The text is to be kept."""

    def __init__(self, text: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(text, placeholder="what you know of this row", id=id)

    def on_mount(self) -> None:
        """Write on behind the text that is there."""
        self.move_cursor(self.document.end)

    def action_keep(self) -> None:
        """Keep the text."""
        self.post_message(self.Kept())

    def action_new_line(self) -> None:
        """Begin a new line."""
        self.insert("\n")


class NoteDialog(Dialog[str]):
    """Gives the text of a note: empty to take it away.

    Args:
        row: What the row is called.
        text: The present note.
        about: What is to be said of the present note.
    """

    TITLE_TEXT: ClassVar[str] = "Note"
    KEYS: ClassVar[str] = "enter keep  ctrl+j new line  esc leave as it was"
    DEFAULT_CSS = """
    NoteDialog {
        & #note-row { color: $text-muted; height: auto; max-height: 3; padding: 0 0 1 0; }
        & #note-about { color: $text-muted; height: auto; padding: 1 0 0 0; }
        & #note-about.-wrong { color: $error; text-style: bold; }
    }
    """

    def __init__(self, row: str, text: str, about: str) -> None:
        super().__init__()
        self._row = row
        self._text = text
        self._about = about

    def compose_body(self) -> ComposeResult:
        """What it is on, the text, what is to be said of it."""
        yield Static(Content(plain(self._row)), id="note-row")
        # What was written by another program of the user must not act on the terminal either.
        yield NoteEditor("\n".join(plain(line) for line in self._text.splitlines()), id="note-text")
        yield Static(Content(plain(self._about)), id="note-about")

    @on(NoteEditor.Kept)
    def _keep(self) -> None:
        text = self.query_one(NoteEditor).text
        if why := too_much(text.strip()):
            about = self.query_one("#note-about", Static)
            about.add_class("-wrong")
            about.update(Content(why))
            return
        self.dismiss(text)
