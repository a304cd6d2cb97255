"""Lines that go to the screen as their widget drew them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.widget import Widget
else:
    # A widget has the style sheets of its first base that is one.
    Widget = object


class DirectRender(Widget):
    """Stands before the other bases of a widget whose `render_line` draws every cell that it has.

    Textual wraps each line of a widget in its border, padding, tint and opacity, and looks all of them up for every
    line: that takes longer than to draw the line. Lines that are nothing but border or padding stay Textual's.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part of the widget, with the filters of the app applied (as for fewer colors)."""
        styles, gutter = self.styles, self.styles.gutter
        has_sides = any(edge for edge, _color in (styles.border_left, styles.border_right, *styles.outline))
        if has_sides or styles.tint.a or self.opacity != 1:
            return super().render_lines(crop)
        first, last = gutter.top, self.outer_size.height - gutter.bottom
        own = range(max(crop.y, first), min(crop.bottom, last))
        if not own:
            return super().render_lines(crop)
        strips = [self.render_line(y - first) for y in own]
        _, background = self.background_colors
        if gutter.width:
            blank = Style(bgcolor=background.rich_color)
            left, right = (Strip.blank(cells, blank) for cells in (gutter.left, gutter.right))
            strips = [Strip.join([left, strip, right]) for strip in strips]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        strips = [strip.crop(*crop.column_span) for strip in strips]
        above, below = own.start - crop.y, crop.bottom - own.stop
        return [
            *(super().render_lines(Region(crop.x, crop.y, crop.width, above)) if above else ()),
            *strips,
            *(super().render_lines(Region(crop.x, own.stop, crop.width, below)) if below else ()),
        ]

    def draw_ahead(self) -> bool:
        """Draw a little of what the next key may show, a few milliseconds' worth, and say whether there is more."""
        return False
