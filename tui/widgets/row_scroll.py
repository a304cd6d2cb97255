"""Scrolling through many rows: the screen is laid out, and the scrollbar drawn, only where that can be seen."""

from __future__ import annotations

from typing import Final

from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView

STEPS: Final = 8
"""Places of a thumb within a cell."""


def thumb_position(top: float, last: float, lines: int, height: int) -> float:
    """The line to tell a scrollbar, the same for all lines whose thumb is drawn alike: others would be drawn in vain.

    Args:
        top: The first line on the screen.
        last: The largest that this can be.
        lines: How many lines there are.
        height: How many of them the screen shows.

    >>> [round(thumb_position(top, 999_980, 1_000_000, 20)) for top in (0, 20, 40, 999_980)]
    [0, 3289, 3289, 999980]
    """
    places = STEPS * (height - max(1, height * height / max(1, lines)))
    step = last / max(1, places)
    # The middle between two steps: rounding leads to neither.
    return top if step < 1 or top <= 0 or top >= last else (top // step + 0.5) * step


class RowScroll(ScrollView):
    """A view of rows, each a line high."""

    virtual_size = Reactive(Size(0, 0))
    """As Textual's, but that the screen is not laid out anew for other rows."""

    def set_height(self, lines: int) -> None:
        """Tell how many lines there are; only where the scrollbar comes or goes the screen is laid out anew."""
        self.virtual_size = Size(self.size.width, lines)
        if self.show_vertical_scrollbar != (lines > self.container_size.height):
            self.refresh(layout=True)
        elif self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = lines
        self.scroll_y = self.validate_scroll_y(self.scroll_y)
        self._place_thumb()

    def on_resize(self) -> None:
        """Fit the thumb to the new height."""
        self._place_thumb()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw other rows, and the scrollbar only where its thumb is drawn elsewhere."""
        self._place_thumb()
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def _place_thumb(self) -> None:
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = thumb_position(
                self.scroll_y, self.max_scroll_y, self.virtual_size.height, self.size.height
            )
