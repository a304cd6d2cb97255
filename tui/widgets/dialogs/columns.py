"""Which columns a table shows, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.fitting import pad
from tui.widgets.dialogs.base import Dialog, MenuLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.model.columns import Column


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """What the user chose."""

    order: tuple[str, ...]
    hidden: frozenset[str]
    pinned: tuple[str, ...] = ()
    name_last: bool = False


class ColumnChooser(Dialog[ColumnChoice]):
    """A list of the columns: ``space`` shows or hides one, ``J`` and ``K`` move it, ``p`` pins it.

    Args:
        columns: All columns of the table, in the table's own order.
        choice: How they are arranged now.
        always: The column that distinguishes the rows: it cannot be hidden, and stands first or last.
    """

    TITLE_TEXT: ClassVar[str] = "Columns"
    KEYS: ClassVar[str] = "space show  J K move  p pin  n names last  r reset  enter accept"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "cursor(1)", "Down"),
        ("k", "cursor(-1)", "Up"),
        ("J,shift+down", "move(1)", "Move down"),
        ("K,shift+up", "move(-1)", "Move up"),
        ("space", "show_or_hide", "Show or hide"),
        ("p", "pin", "Pin"),
        ("n", "name_last", "Names last"),
        ("r", "reset", "Reset"),
        ("q,c", "leave", "Leave"),
    ]
    DEFAULT_CSS = """
    ColumnChooser OptionList {
        height: auto; max-height: 100%; border: none; padding: 0; background: transparent;
        text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1;
        &:focus { border: none; background: transparent; }
    }
    ColumnChooser #about { dock: bottom; height: 2; color: $text-muted; }
    """

    def __init__(self, columns: Sequence[Column], choice: ColumnChoice, *, always: str = "") -> None:
        super().__init__()
        self._of_the_table = tuple(columns)
        self._always = always
        self._take(choice)

    def _take(self, choice: ColumnChoice) -> None:
        order = {name: place for place, name in enumerate(choice.order)}
        self._columns = sorted(self._of_the_table, key=lambda column: order.get(column.name, len(order)))
        self._hidden = set(choice.hidden) - {self._always}
        self._pinned = list(choice.pinned)
        self._name_last = choice.name_last
        self._put_names()

    def _put_names(self) -> None:
        self._columns.sort(key=lambda column: (column.name == self._always) is not (not self._name_last))

    def compose_body(self) -> ComposeResult:
        """The list, and the whole description of the column under the cursor."""
        yield MenuLines(*self._options())
        yield Static(id="about")

    def on_mount(self) -> None:
        """Begin on the first column."""
        self.query_one(OptionList).highlighted = 0

    def _options(self) -> list[Option]:
        widest = max((len(column.title) for column in self._columns), default=0)
        return [
            Option(
                Content(f"{self._sign(column)} {pad(column.title, widest)}  {self._place_of(column)}  {column.help}"),
                id=column.name,
            )
            for column in self._columns
        ]

    def _sign(self, column: Column) -> str:
        return "[ ]" if column.name in self._hidden else "[x]"

    def _place_of(self, column: Column) -> str:
        if column.name == self._always:
            return "last  " if self._name_last else "first "
        return "pinned" if column.name in self._pinned else "      "

    def _redraw(self, highlighted: int) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(self._options())
        options.highlighted = highlighted

    def _place(self) -> int:
        return self.query_one(OptionList).highlighted or 0

    def _redraw_at(self, name: str) -> None:
        self._redraw(next(place for place, column in enumerate(self._columns) if column.name == name))

    def action_cursor(self, step: int) -> None:
        """Down or up."""
        self.query_one(OptionList).highlighted = max(0, min(self._place() + step, len(self._columns) - 1))

    def _changeable(self) -> str:
        """The column under the cursor; empty where it is the one that always stays, and a word of that."""
        name = self._columns[self._place()].name
        if name == self._always:
            self.notify("this column always stays; n puts it first or last", markup=False)
            return ""
        return name

    def action_show_or_hide(self) -> None:
        """Show or hide the column under the cursor."""
        name = self._changeable()
        if name:
            self._hidden ^= {name}
            self._redraw(self._place())

    def action_pin(self) -> None:
        """Pin the column under the cursor, or let it scroll again; a pinned one is shown."""
        name = self._changeable()
        if name in self._pinned:
            self._pinned.remove(name)
        elif name:
            self._pinned.append(name)
            self._hidden.discard(name)
        self._redraw(self._place())

    def action_name_last(self) -> None:
        """The names last, or first."""
        here = self._columns[self._place()].name
        self._name_last = not self._name_last
        self._put_names()
        self._redraw_at(here)

    def action_reset(self) -> None:
        """All columns, as the table has them."""
        self._take(ColumnChoice((), frozenset()))
        self._redraw(0)

    def action_move(self, step: int) -> None:
        """Move the column under the cursor."""
        here = self._place()
        there = here + step
        if not 0 <= there < len(self._columns):
            return
        if self._always in (self._columns[here].name, self._columns[there].name):
            return
        self._columns[here], self._columns[there] = self._columns[there], self._columns[here]
        self._redraw(there)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Say what the column is: a line of the list may have had to be cut."""
        event.stop()
        self.query_one("#about", Static).update(Content(self._columns[event.option_index].help), layout=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Accept with enter."""
        event.stop()
        names = tuple(column.name for column in self._columns)
        is_own_order = [name for name in names if name != self._always] == [
            column.name for column in self._of_the_table if column.name != self._always
        ]
        self.dismiss(
            ColumnChoice(() if is_own_order else names, frozenset(self._hidden), tuple(self._pinned), self._name_last)
        )
