"""Screens that are not laid out in a terminal that is too small for them.

Reason: in Textual 8.2.8 a container of a few cells can show its scroll bar, have room without it, hide it, lack room,
and so on for ever, and an option list without any room raises ValueError. Screens below the request for a larger
terminal are laid out although nothing of them is seen.

Gain: a terminal that is made 4 cells wide and large again no longer ends or blocks the explorer.

Checked against Textual 8.2.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
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
