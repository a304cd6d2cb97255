"""Where SQL is typed: enter runs it, the arrows at its ends go through what was run before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding
from textual.message import Message

from tui.query.sql.sql_text import suggestion
from tui.widgets.text_input import Entry, PlainEditor

if TYPE_CHECKING:
    from textual import events
    from textual.binding import BindingType

    from tui.query.sql.run import SqlTables

HISTORY_KEPT = 100
EXAMPLE: Final = "SELECT name, total_ns FROM kernels ORDER BY total_ns DESC LIMIT 10"
"""What stands where nothing is typed, unless there are no kernels."""


class SqlEditor(PlainEditor):
    """A few lines of SQL.

    Args:
        id: The widget's id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "run", "run", key_display="enter"),
        Binding("right", "cursor_right", "complete", key_display="right"),
        Binding("up", "cursor_up", "before", key_display="up"),
        Binding("escape", "leave", "to the rows", key_display="esc"),
        Binding("tab", "leave", "to the rows", show=False),
    ]
    DEFAULT_CSS = """
    SqlEditor {
        height: auto; min-height: 3; max-height: 8; border: none; border-top: solid $panel;
        &:focus { border: none; border-top: solid $primary; }
        border-title-color: $accent; border-title-style: bold;
    }
    """

    class Run(Message):
        """The user wants the text run."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The user goes to the rows."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__("", placeholder=EXAMPLE, id=id)
        self.entry = Entry(self)
        self.border_title = "SQL"
        self.tables: SqlTables | None = None
        """What can be named, for completion."""
        self.lines_run: list[str] = []
        """What was run, the latest last."""
        self._recalled: int | None = None
        self._typed = ""

    def remember(self, text: str) -> None:
        """Add a text to the history."""
        self.lines_run = [*[kept for kept in self.lines_run if kept != text][-HISTORY_KEPT + 1 :], text]
        self._recalled = None

    def put(self, text: str) -> None:
        """Replace the text; the cursor goes behind it."""
        self.text = text
        self.move_cursor(self.document.end)

    def update_suggestion(self) -> None:
        """Offer what the word before the cursor could become; the right arrow takes it."""
        at_end = self.cursor_location == self.document.end
        self.suggestion = suggestion(self.text, self.tables) if self.tables is not None and at_end else ""

    async def _on_key(self, event: events.Key) -> None:
        if self.entry.is_pending and event.key == "escape":
            self.entry.cancel()
        elif event.key in ("enter", "tab") and not self.entry.is_pending:
            # Here and now: as bindings they would come before the keys typed ahead of them, or after those that follow.
            event.stop()
            event.prevent_default()
            if event.key == "enter":
                self.action_run()
            else:
                self.action_leave()

    def on_focus(self) -> None:
        """Type into it."""
        self.entry.cancel()

    def action_run(self) -> None:
        """Run the text."""
        text = self.text.strip()
        if text:
            self.remember(text)
            self.post_message(self.Run(text))

    def action_leave(self) -> None:
        """Go to the rows; `entry.done` is to be called when they are there."""
        self.entry.begin()
        self.post_message(self.Left())

    def action_cursor_up(self, select: bool = False) -> None:
        """A line up; from the first, the text that was run before."""
        if self.cursor_location[0] == 0 and not select and self.lines_run:
            self._recall(-1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """A line down; from the last, the text that was run after."""
        if self.cursor_location[0] == self.document.line_count - 1 and not select and self._recalled is not None:
            self._recall(1)
        else:
            super().action_cursor_down(select)

    def _recall(self, step: int) -> None:
        if self._recalled is None:
            self._typed = self.text
        place = (len(self.lines_run) if self._recalled is None else self._recalled) + step
        if 0 <= place <= len(self.lines_run):
            self.put(self._typed if place == len(self.lines_run) else self.lines_run[place])
            self._recalled = None if place == len(self.lines_run) else place
