"""The command palette; where no colour is sent its line under the cursor is in reverse, as the rows of tables are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.command import CommandList, CommandPalette

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


class PlainPalette(CommandPalette):
    """The command palette without colours."""

    def compose(self) -> ComposeResult:
        """As ever, with other lines."""
        for widget in super().compose():
            yield ReversedLines() if isinstance(widget, CommandList) else widget
