"""Scrolling through many rows: the screen is laid out, and the scrollbar drawn, only where that can be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.style import Style
from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from tui.widgets.own_lines import OwnLines

if TYPE_CHECKING:
    from textual.geometry import Region

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


class LineScrollBar(OwnLines, ScrollBar):
    """A vertical scrollbar of a cell that hands its lines to the screen as they are."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part of it."""
        self._lines = self._drawn()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        return self._lines[y]

    def _drawn(self) -> list[Strip]:
        bar = self.render()
        assert isinstance(bar, ScrollBarRender)
        style = bar.style
        assert isinstance(style, Style)
        assert style.color is not None
        assert style.bgcolor is not None
        drawn = bar.render_bar(
            self.size.height,
            bar.virtual_size,
            bar.window_size,
            bar.position,
            back_color=style.bgcolor,
            bar_color=style.color,
        )
        return [Strip([segment], 1) for segment in drawn.segments]


class RowScroll(ScrollView):
    """A view of rows, each a line high."""

    virtual_size = Reactive(Size(0, 0))
    """As Textual's, but that the screen is not laid out anew for other rows."""

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scrollbar, made when it is first asked for."""
        if self._vertical_scrollbar is None:
            bar = self._vertical_scrollbar = LineScrollBar(name="vertical", thickness=self.scrollbar_size_vertical)
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

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
