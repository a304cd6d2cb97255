"""The command palette; where no color is sent its line under the cursor is in reverse, as the rows of tables are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.command import CommandList, CommandPalette, SearchIcon
from textual.widgets import Input

from tui.textual_patches.least_size import skip_small_layouts

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.strip import Strip


class ReversedLines(CommandList):
    """The commands, the one under the cursor in reverse: lists of Textual's own forget that of a theme."""

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        strip = super().render_line(y)
        first = next((segment.style for segment in strip if segment.style is not None), None)
        is_cursor = first is not None and self.highlighted is not None and first.meta.get("option") == self.highlighted
        return strip.apply_style(Style(reverse=True)) if is_cursor else strip


@skip_small_layouts
class Palette(CommandPalette):
    """Textual's own, without the picture of a lens, which few terminals have in black or in ASCII.

    Args:
        in_reverse: The line under the cursor is told by reverse, not by a color.
    """

    def __init__(self, *, in_reverse: bool) -> None:
        super().__init__(id="--command-palette")
        self._in_reverse = in_reverse

    def compose(self) -> ComposeResult:
        """As ever, with other lines, and a cursor that does not send bytes for ever by blinking."""
        for widget in super().compose():
            if isinstance(widget, Input):
                widget.cursor_blink = False
            if isinstance(widget, CommandList) and self._in_reverse:
                yield ReversedLines()
            elif not isinstance(widget, SearchIcon):
                yield widget
