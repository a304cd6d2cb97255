"""The dialog that offers what iterations could end with, the most regular first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import polars as pl
from textual import on, work
from textual.widgets import Input, Static

from tui.analysis.iterations.key_choices import KEY_CHOICES, holding, key_choices
from tui.text import plain
from tui.widgets.dialog import Dialog
from tui.widgets.frame_table import FrameTable
from tui.widgets.plain_line import PlainLine
from tui.widgets.table_view import TableView

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.model.profile import Profile

NONE = ""
"""What the dialog gives for no key: iterations as recorded, else as found."""


class KeyPicker(Dialog[str]):
    """Candidates in a table; what is typed narrows them.

    Args:
        profile: With all iterations.
        present: The key that cuts it now.
    """

    TITLE_TEXT = "Iterations end with"
    KEYS = "type to narrow  ↑ ↓ choose  enter take  ctrl+r no key  esc leave"
    KEYS_IN_ASCII = "type to narrow  up, down choose  enter take  ctrl+r no key  esc leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Leave"),
        ("down", "step(1)", "Down"),
        ("up", "step(-1)", "Up"),
        ("pagedown,ctrl+d", "step(10)", "Page down"),
        ("pageup,ctrl+u", "step(-10)", "Page up"),
        ("ctrl+r", "no_key", "As recorded or found"),
    ]
    DEFAULT_CSS = """
    KeyPicker {
        & > .dialog--box { max-width: 160; width: 96%; height: 90%; }
        #typed { border: none; height: 1; padding: 0; }
        #present { color: $text-muted; height: auto; }
        TableView { height: 1fr; }
    }
    """

    def __init__(self, profile: Profile, present: str | None) -> None:
        super().__init__()
        self._profile = profile
        self._present = present
        self._rows: pl.DataFrame | None = None

    def compose_body(self) -> ComposeResult:
        """What is the key now, the line to type in, and the candidates."""
        now = f"Now {plain(self._present)}" if self._present else "No key: iterations are as recorded, else as found"
        yield Static(now, id="present", markup=False)
        yield PlainLine(placeholder="part of a name", id="typed", compact=True)
        yield TableView(KEY_CHOICES, id="keys", title="Keys")

    def on_mount(self) -> None:
        """Look for candidates in a thread: of millions of launches that takes a while."""
        view = self.query_one(TableView)
        view.table.can_focus = False
        view.show(pl.DataFrame(schema={column.name: pl.String for column in KEY_CHOICES.columns}), empty="looking…")
        self.query_one(Input).focus()
        self._look()

    @work(thread=True, exclusive=True, group="keys")
    def _look(self) -> None:
        rows = key_choices(self._profile)
        self.app.call_from_thread(self._found, rows)

    def _found(self, rows: pl.DataFrame) -> None:
        if self.is_attached:
            self._rows = rows
            self._narrow(self.query_one(Input).value)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._narrow(event.value)

    def _narrow(self, text: str) -> None:
        if self._rows is None:
            return
        view = self.query_one(TableView)
        view.table.kept_row = None
        rows = holding(self._rows, text)
        empty = "nothing comes three times or more" if self._rows.is_empty() else "no name holds this"
        view.show(rows, empty=empty)

    @on(Input.Submitted)
    def _take(self) -> None:
        row = self.query_one(TableView).current_row if self._rows is not None else None
        if row is not None:
            self.dismiss(str(row["name"]))

    @on(FrameTable.RowClicked)
    def _clicked(self) -> None:
        self._take()

    def action_step(self, step: int) -> None:
        """So many rows down, or up where negative."""
        table = self.query_one(TableView).table
        table.move_to(table.cursor_row + step)

    def action_no_key(self) -> None:
        """Iterations as they were recorded or found."""
        self.dismiss(NONE)
