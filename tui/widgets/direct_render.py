"""Lines that go to the screen as their widget drew them, and widgets that draw ahead of the next key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.widget import Widget


@runtime_checkable
class DrawsAhead(Protocol):
    """A widget that can draw what the next key may show."""

    def draw_ahead(self) -> bool:
        """Draw a little of what the next key may show, a few milliseconds' worth, and say whether there is more."""


def direct_lines(widget: Widget, crop: Region, usual: Callable[[Region], list[Strip]]) -> list[Strip]:
    """The lines of a part of a widget whose `render_line` draws every cell, with the filters of the app applied.

    Textual wraps each line of a widget in its border, padding, tint and opacity, and looks all of them up for every
    line: that takes longer than to draw the line. Lines that are nothing but border or padding stay Textual's.

    Args:
        widget: The widget.
        crop: The part.
        usual: `Widget.render_lines` of the class above.
    """
    styles, gutter = widget.styles, widget.styles.gutter
    has_sides = any(edge for edge, _color in (styles.border_left, styles.border_right, *styles.outline))
    if has_sides or styles.tint.a or widget.opacity != 1:
        return usual(crop)
    first, last = gutter.top, widget.outer_size.height - gutter.bottom
    own = range(max(crop.y, first), min(crop.bottom, last))
    if not own:
        return usual(crop)
    strips = [widget.render_line(y - first) for y in own]
    _, background = widget.background_colors
    if gutter.width:
        blank = Style(bgcolor=background.rich_color)
        left, right = (Strip.blank(cells, blank) for cells in (gutter.left, gutter.right))
        strips = [Strip.join([left, strip, right]) for strip in strips]
    for line_filter in widget.get_line_filters():
        strips = [strip.apply_filter(line_filter, background) for strip in strips]
    strips = [strip.crop(*crop.column_span) for strip in strips]
    above, below = own.start - crop.y, crop.bottom - own.stop
    return [
        *(usual(Region(crop.x, crop.y, crop.width, above)) if above else ()),
        *strips,
        *(usual(Region(crop.x, own.stop, crop.width, below)) if below else ()),
    ]
