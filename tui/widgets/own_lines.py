"""Lines that go to the screen as their widget drew them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.geometry import Region
    from textual.strip import Strip
    from textual.widget import Widget
else:
    # A widget has the style sheets of its first base that is one.
    Widget = object


class OwnLines(Widget):
    """Stands before the other bases of a widget whose `render_line` draws every cell that it has.

    Textual wraps each line of a widget in its border, padding, tint and opacity, and looks all of them up for every
    line: where a widget has none of them, that takes longer than to draw the line.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part of the widget, with the filters of the app applied (as for fewer colours)."""
        styles = self.styles
        if styles.gutter or any(edge for edge, _color in styles.outline) or styles.tint.a or self.opacity != 1:
            return super().render_lines(crop)
        strips = [self.render_line(y) for y in crop.line_range]
        _, background = self.background_colors
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        left, right = crop.column_span
        return [strip.crop(left, right) for strip in strips]
