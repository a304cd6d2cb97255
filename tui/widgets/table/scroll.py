"""The scrollbar of a table, drawn only where its thumb has moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.style import Style
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from tui.widgets.direct_render import DirectRender

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


class LineScrollBar(DirectRender, ScrollBar):
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
