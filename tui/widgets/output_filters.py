"""The output of lines: lines rendered without Textual's wrapping, and filters for few colors and for ASCII."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter
from textual.geometry import Region
from textual.strip import Strip

from tui.text import to_ascii

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.color import Color
    from textual.widget import Widget


@runtime_checkable
class DrawsAhead(Protocol):
    """A widget that can render what the next key may show."""

    def draw_ahead(self) -> bool:
        """Render for a few milliseconds what the next key may show; return whether there is more."""


def direct_lines(widget: Widget, crop: Region, render_with_textual: Callable[[Region], list[Strip]]) -> list[Strip]:
    """Return lines of a widget whose `render_line` draws every cell, with the filters of the app applied.

    Textual wraps each line of a widget in its border, padding, tint and opacity, and looks them up for every line,
    which takes longer than drawing the line. Lines of border or padding are left to Textual.

    Args:
        widget: The widget.
        crop: The region.
        render_with_textual: `Widget.render_lines` of the base class.
    """
    styles, gutter = widget.styles, widget.styles.gutter
    has_sides = any(edge for edge, _color in (styles.border_left, styles.border_right, *styles.outline))
    if has_sides or styles.tint.a or widget.opacity != 1:
        return render_with_textual(crop)
    content_top, content_bottom = gutter.top, widget.outer_size.height - gutter.bottom
    content_lines = range(max(crop.y, content_top), min(crop.bottom, content_bottom))
    if not content_lines:
        return render_with_textual(crop)
    strips = [widget.render_line(y - content_top) for y in content_lines]
    _, background = widget.background_colors
    if gutter.width:
        blank = Style(bgcolor=background.rich_color)
        left, right = (Strip.blank(cells, blank) for cells in (gutter.left, gutter.right))
        strips = [Strip.join([left, strip, right]) for strip in strips]
    for line_filter in widget.get_line_filters():
        strips = [strip.apply_filter(line_filter, background) for strip in strips]
    strips = [strip.crop(*crop.column_span) for strip in strips]
    above, below = content_lines.start - crop.y, crop.bottom - content_lines.stop
    return [
        *(render_with_textual(Region(crop.x, crop.y, crop.width, above)) if above else ()),
        *strips,
        *(render_with_textual(Region(crop.x, content_lines.stop, crop.width, below)) if below else ()),
    ]


MANY_COLORS: Final = ("truecolor", "256")
"""Color modes in which parts differ by color and need no patterns."""
PATTERNS: Final = "▓▞▒▦▩▨▤▧▚░▥"
_SOLID: Final = str.maketrans(dict.fromkeys(PATTERNS, "█"))
_BAR_CHARACTERS: Final = frozenset(PATTERNS + "▁▂▃▄▅▆▇█ ")
"""Patterns, and the characters that occur next to them in bars."""


class SolidFills(LineFilter):
    """Replaces the patterns of bars and legends by solid blocks; texts with such characters stay unchanged."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace segments that consist of patterns."""
        return [
            Segment(text.translate(_SOLID), style, control)
            if not text.isascii() and _BAR_CHARACTERS.issuperset(text)
            else segment
            for segment in segments
            for text, style, control in (segment,)
        ]


class AsciiOutput(LineFilter):
    """Replaces every character that is not ASCII by a similar one of the same width.

    Widgets always draw Unicode: only this filter depends on the terminal's character set.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Translate segments that are not ASCII."""
        return [
            segment if segment.text.isascii() else Segment(_ascii_text(segment), segment.style, segment.control)
            for segment in segments
        ]


def _ascii_text(segment: Segment) -> str:
    """Return the text of a segment in ASCII."""
    is_scrollbar = segment.style is not None and "@mouse.down" in segment.style.meta
    return " " * segment.cell_length if is_scrollbar else to_ascii(segment.text)


def output_filters(color: str, *, ascii_only: bool) -> tuple[LineFilter, ...]:
    """Return the filters for a terminal.

    Args:
        color: truecolor, 256, 16 or none.
        ascii_only: Whether the terminal shows only ASCII characters.
    """
    if ascii_only:
        return (AsciiOutput(),)
    return (SolidFills(),) if color in MANY_COLORS else ()
