"""A menu in a dialog: lines to choose one of, some of them dim with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.widgets.dialogs.base import Dialog, MenuLines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Key


WIDEST: Final = 100
"""Cells that a menu takes at most."""


def menu_width(screen: int) -> int:
    """Cells that a menu takes on a screen of so many.

    >>> menu_width(80), menu_width(200)
    (76, 100)
    """
    return min(WIDEST, screen * 96 // 100)


class MenuScreen(Dialog[str]):
    """Choose one line with ``enter``, or leave with ``esc`` or ``q``.

    Args:
        title: What is chosen.
        options: Id and text of every line.
        disabled: Ids that cannot be chosen.
        current: The id that the cursor begins on.
        is_at_end: Whether it begins at its end instead.
        keys: Keys that choose an id at once: those that its line begins with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,m", "leave", "Leave"),
        ("j", "down", "Down"),
        ("k", "up", "Up"),
        ("g", "first", "First"),
        ("G", "last", "Last"),
    ]
    DEFAULT_CSS = """
    MenuScreen {
        align: center middle;
        background: $background 60%;
        #menu {
            width: 96%; max-width: 100; height: auto; max-height: 100%;
            background: $surface; border: round $primary;
        }
        #menu-title { dock: top; padding: 0 1; text-style: bold; color: $accent; }
        OptionList {
            height: auto; max-height: 100%; border: none; background: $surface; padding: 0;
            text-wrap: nowrap; text-overflow: ellipsis;
            &:focus { border: none; }
        }
    }
    """

    def __init__(
        self,
        title: str,
        options: Sequence[tuple[str, Content]],
        *,
        disabled: frozenset[str] = frozenset(),
        current: str = "",
        keys: Mapping[str, str] | None = None,
        is_at_end: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._lines, self._dim, self._current = title, options, disabled, current
        self._keys = keys or {}
        self._is_at_end = is_at_end

    def compose(self) -> ComposeResult:
        """A title and the lines."""
        with Vertical(id="menu") as menu:
            menu.border_subtitle = "enter choose  esc leave"
            yield Static(Content(self._title), id="menu-title")
            yield MenuLines(*(Option(text, id=name, disabled=name in self._dim) for name, text in self._lines))

    def on_mount(self) -> None:
        """Begin on the current line."""
        names = [name for name, _ in self._lines]
        if self._is_at_end:
            self.action_last()
        elif self._current in names:
            self.query_one(OptionList).highlighted = names.index(self._current)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A line was chosen."""
        self.dismiss(event.option_id)

    def on_key(self, event: Key) -> None:
        """Choose by the key that stands before a line; of a dim one it is said why it cannot be gone to."""
        if event.key in self._keys:
            event.stop()
            self.dismiss(self._keys[event.key])

    def action_down(self) -> None:
        """A line down."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """A line up."""
        self.query_one(OptionList).action_cursor_up()

    def action_first(self) -> None:
        """The first line."""
        self.query_one(OptionList).action_first()

    def action_last(self) -> None:
        """The last line; those behind it that cannot be chosen are shown too."""
        lines = self.query_one(OptionList)
        lines.action_last()
        lines.scroll_end(animate=False)
