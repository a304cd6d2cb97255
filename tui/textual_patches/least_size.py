"""Screens that are not laid out in a terminal that is too small for them.

Reason: in Textual 8.2.8 a container of a few cells can show its scroll bar, have room without it, hide it, lack room,
and so on for ever, and an option list without any room raises ValueError. Screens below the request for a larger
terminal are laid out although nothing of them is seen.

Gain: a terminal that is made 4 cells wide and large again no longer ends or blocks the explorer.

Checked against Textual 8.2.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from textual.geometry import Size
    from textual.screen import Screen

    Base = Screen[Any]
else:
    Base = object

MIN_WIDTH: Final = 60
MIN_HEIGHT: Final = 15
"""Below this size nothing is drawn but a request for more room."""


def is_too_small(size: Size) -> bool:
    """Whether a terminal is too small for views and dialogs."""
    return size.width < MIN_WIDTH or size.height < MIN_HEIGHT


class LeastSize(Base):
    """Mixed into a screen, before Textual's class: it is laid out as soon as there is room."""

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        if not is_too_small(self.app.size):
            super()._refresh_layout(size, scroll)
