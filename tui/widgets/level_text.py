"""A text beside the timeline, in the glyphs that its lanes are drawn in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

from tui.widgets.output_filters import LEVELS, SolidFills

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.filter import LineFilter


class LevelText(Static):
    """Draws shades as the lanes do: as blocks as high as a cell is busy, where colors are many."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """As everywhere, but that shades become levels."""
        return [LEVELS if isinstance(each, SolidFills) else each for each in super().get_line_filters()]
