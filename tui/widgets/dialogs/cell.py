"""The dialog that shows the whole value of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.query.values import BASE_UNIT
from tui.text import plain
from tui.widgets.app_services import copy_text
from tui.widgets.dialogs.base import Dialog

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.model.columns import Column


class CellDialog(Dialog[None]):
    """Shows a cell's value whole, wrapped, with what its column means.

    Args:
        column: The column.
        text: Its value as it is copied: in full precision and base units.
        shown: The value as people read it, where that differs.
    """

    KEYS: ClassVar[str] = "y copy  esc leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q,v,enter", "leave", "Leave"),
        ("y", "copy", "Copy"),
        ("j,down", "scroll(1)", "Down"),
        ("k,up", "scroll(-1)", "Up"),
    ]
    DEFAULT_CSS = """
    CellDialog {
        & VerticalScroll { height: auto; max-height: 100%; }
        & #cell-help { color: $text-muted; padding: 1 0 0 0; height: auto; }
    }
    """

    def __init__(self, column: Column, text: str, *, shown: str = "") -> None:
        super().__init__()
        self._column = column
        self._text = text
        self._shown = shown

    def compose_body(self) -> ComposeResult:
        """The text, then the column's definition."""
        with VerticalScroll():
            if self._shown and self._shown != self._text:
                yield Static(Content(self._shown), id="cell-shown")
            # Line ends of the text are kept: here it stands alone.
            lines = [plain(line) for line in self._text.splitlines()]
            unit = BASE_UNIT.get(self._column.kind, "") if self._text else ""
            yield Static(Content(f"{chr(10).join(lines)} {unit}".rstrip() or " "), id="cell-text")
        yield Static(Content(f"{self._column.title}: {self._column.help}"), id="cell-help")

    def on_mount(self) -> None:
        """Name the column on the border."""
        self.query_one(".dialog--box").border_title = Content(self._column.title)

    def action_copy(self) -> None:
        """Copy the text as it stands in the input."""
        self.notify(copy_text(self.app, self._text), markup=False)

    def action_scroll(self, lines: int) -> None:
        """Scroll the text."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)
