"""Filters on drawn lines: solid fills where the terminal has the colors, ASCII where it has no other characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from textual.filter import LineFilter
from textual.widgets import Static

from tui.text import to_ascii

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.color import Color


MANY_COLORS: Final = ("truecolor", "256")
"""What is drawn in one of many colors needs no pattern to be told apart."""
PATTERNS: Final = "▓▞▒▦▩▨▤▧▚░▥"
_SOLID: Final = str.maketrans(dict.fromkeys(PATTERNS, "█"))
_LEVELS: Final = str.maketrans("░▒▓", "▂▄▆")
_ALLOWED: Final = frozenset(PATTERNS + "▁▂▃▄▅▆▇█ ")
"""Patterns, and what stands beside them in a bar."""


class SolidFills(LineFilter):
    """Draws the patterns of bars and legends as solid blocks; texts that hold such a character stay as they are.

    Args:
        shades_are_levels: A shade says how full a cell is: it becomes a block of that height.
    """

    def __init__(self, *, shades_are_levels: bool = False) -> None:
        super().__init__()
        self._table = _SOLID | _LEVELS if shades_are_levels else _SOLID

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace segments that are patterns alone."""
        return [
            Segment(text.translate(self._table), style, control)
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


LEVELS: Final = SolidFills(shades_are_levels=True)
"""For the timeline, which draws how busy a cell is."""


def output_filters(color: str, *, ascii_only: bool) -> tuple[LineFilter, ...]:
    """The filters for a terminal.

    Args:
        color: truecolor, 256, 16 or none.
        ascii_only: The terminal shows ASCII characters alone.
    """
    if ascii_only:
        return (AsciiOutput(),)
    return (SolidFills(),) if color in MANY_COLORS else ()


class LevelText(Static):
    """Draws shades as the lanes do: as blocks as high as a cell is busy, where colors are many."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """As everywhere, but that shades become levels."""
        return [LEVELS if isinstance(each, SolidFills) else each for each in super().get_line_filters()]
