"""A terminal that is too small for views and dialogs: they are not laid out, and a screen asks for more room.

Reason: in Textual 8.2.8 a container of a few cells can show its scroll bar, have room without it, hide it, need room,
and so on for ever, and an option list without any room raises ValueError. Screens below the request for a larger
terminal are laid out although nothing of them is seen.

Gain: a terminal that is made 4 cells wide and large again no longer ends or blocks the explorer.

Checked against Textual 8.2.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Resize
    from textual.geometry import Size
    from textual.screen import Screen


ScreenClass = TypeVar("ScreenClass", bound="type[Screen[Any]]")

MIN_WIDTH: Final = 60
MIN_HEIGHT: Final = 15
"""Below this size nothing is drawn but a request for more room."""


def is_too_small(size: Size) -> bool:
    """Whether a terminal is too small for views and dialogs."""
    return size.width < MIN_WIDTH or size.height < MIN_HEIGHT


def skip_small_layouts(screen_class: ScreenClass) -> ScreenClass:
    """Have the screens of a class laid out only as soon as there is room; a decorator."""
    usual = screen_class._refresh_layout

    def _refresh_layout(self: Screen[Any], size: Size | None = None, scroll: bool = False) -> None:
        if not is_too_small(self.app.size):
            usual(self, size, scroll)

    screen_class._refresh_layout = _refresh_layout  # type: ignore[method-assign]
    return screen_class


class TooSmallScreen(ModalScreen[None]):
    """Asks for a larger terminal, and shows how to quit; it closes when there is room."""

    BINDINGS: ClassVar[list[BindingType]] = [("Q,ctrl+q", "app.quit", "Quit")]
    DEFAULT_CSS = """
    TooSmallScreen {
        align: center middle;
        background: $background;
        Static { width: auto; max-width: 100%; text-align: center; }
    }
    """

    def compose(self) -> ComposeResult:
        """The request."""
        yield Static(self._words())

    def _words(self) -> Content:
        return Content(
            f"Terminal too small: {self.app.size.width}×{self.app.size.height} (need {MIN_WIDTH}×{MIN_HEIGHT})\nQ quits"
        )

    def on_resize(self, _event: Resize) -> None:
        """Keep the figures true."""
        self.query_one(Static).update(self._words())
