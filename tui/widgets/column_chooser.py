"""Which columns a table shows, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.fitting import pad
from tui.widgets.dialog import Dialog

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.model.columns import Column


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """What the user chose."""

    order: tuple[str, ...]
    hidden: frozenset[str]


class ColumnChooser(Dialog[ColumnChoice]):
    """A list of the columns: ``space`` shows or hides one, ``J`` and ``K`` move it.

    Args:
        columns: All columns of the table, in their present order.
        hidden: Those that are hidden now.
        pinned: The column that cannot be hidden, and stays first.
    """

    TITLE_TEXT: ClassVar[str] = "Columns"
    KEYS: ClassVar[str] = "space show/hide  J K move  enter accept  esc leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "cursor(1)", "Down"),
        ("k", "cursor(-1)", "Up"),
        ("J,shift+down", "move(1)", "Move down"),
        ("K,shift+up", "move(-1)", "Move up"),
        ("space", "show_or_hide", "Show or hide"),
        ("q,c", "leave", "Leave"),
    ]
    DEFAULT_CSS = """
    ColumnChooser OptionList {
        height: auto; max-height: 100%; border: none; padding: 0; background: transparent;
        text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1;
        &:focus { border: none; background: transparent; }
    }
    """

    def __init__(self, columns: Sequence[Column], hidden: frozenset[str], *, pinned: str = "") -> None:
        super().__init__()
        self._columns = sorted(columns, key=lambda column: column.name != pinned)
        self._hidden = set(hidden) - {pinned}
        self._pinned = pinned

    def compose_body(self) -> ComposeResult:
        """The list."""
        yield OptionList(*self._options())

    def on_mount(self) -> None:
        """Begin on the first column."""
        self.query_one(OptionList).highlighted = 0

    def _options(self) -> list[Option]:
        widest = max((len(column.title) for column in self._columns), default=0)
        return [
            Option(
                Content(
                    f"{'[ ]' if column.name in self._hidden else '[x]'} {pad(column.title, widest)}  "
                    f"{'(pinned) ' if column.name == self._pinned else ''}{column.help}"
                ),
                id=column.name,
            )
            for column in self._columns
        ]

    def _redraw(self, highlighted: int) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(self._options())
        options.highlighted = highlighted

    def _place(self) -> int:
        return self.query_one(OptionList).highlighted or 0

    def action_cursor(self, step: int) -> None:
        """Down or up."""
        self.query_one(OptionList).highlighted = max(0, min(self._place() + step, len(self._columns) - 1))

    def action_show_or_hide(self) -> None:
        """Show or hide the column under the cursor."""
        name = self._columns[self._place()].name
        if name == self._pinned:
            self.notify("this column always stays", markup=False)
            return
        self._hidden ^= {name}
        self._redraw(self._place())

    def action_move(self, step: int) -> None:
        """Move the column under the cursor."""
        here = self._place()
        there = here + step
        first = 1 if self._columns[0].name == self._pinned else 0
        if here < first or not first <= there < len(self._columns):
            return
        self._columns[here], self._columns[there] = self._columns[there], self._columns[here]
        self._redraw(there)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Accept with enter."""
        event.stop()
        self.dismiss(ColumnChoice(tuple(column.name for column in self._columns), frozenset(self._hidden)))
