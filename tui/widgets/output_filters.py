"""Filters on drawn lines: solid fills where the terminal has the colors, ASCII where it has no other characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from textual.filter import LineFilter

from tui.text import to_ascii

if TYPE_CHECKING:
    from textual.color import Color


MANY_COLORS: Final = ("truecolor", "256")
"""What is drawn in one of many colors needs no pattern to be distinguished."""
PATTERNS: Final = "▓▞▒▦▩▨▤▧▚░▥"
_SOLID: Final = str.maketrans(dict.fromkeys(PATTERNS, "█"))
_ALLOWED: Final = frozenset(PATTERNS + "▁▂▃▄▅▆▇█ ")
"""Patterns, and what stands beside them in a bar."""


class SolidFills(LineFilter):
    """Draws the patterns of bars and legends as solid blocks; texts that hold such a character stay as they are."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace segments that are patterns alone."""
        return [
            Segment(text.translate(_SOLID), style, control)
            if not text.isascii() and _ALLOWED.issuperset(text)
            else segment
            for segment in segments
            for text, style, control in (segment,)
        ]


class AsciiOutput(LineFilter):
    """Draws every character that is not ASCII as one that comes close, in as many cells.

    Widgets draw Unicode whatever the terminal shows: this is the only place where that is known.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Translate segments that are not ASCII."""
        return [
            segment if segment.text.isascii() else Segment(_ascii_of(segment), segment.style, segment.control)
            for segment in segments
        ]


def _ascii_of(segment: Segment) -> str:
    """The text of a segment in ASCII; the thumb of a scroll bar, which is a ground without letters, ends in blanks."""
    is_scrollbar = segment.style is not None and "@mouse.down" in segment.style.meta
    return " " * segment.cell_length if is_scrollbar else to_ascii(segment.text)


def output_filters(color: str, *, ascii_only: bool) -> tuple[LineFilter, ...]:
    """The filters for a terminal.

    Args:
        color: truecolor, 256, 16 or none.
        ascii_only: The terminal shows ASCII characters alone.
    """
    if ascii_only:
        return (AsciiOutput(),)
    return (SolidFills(),) if color in MANY_COLORS else ()
