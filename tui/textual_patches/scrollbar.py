"""A scrollbar for terminals that show ASCII characters alone.

Reason: Textual 8.2.8 draws the ends of its scroll bars with block characters, whatever the terminal shows.

Gain: no replacement characters at the ends of scroll bars.

Checked against Textual 8.2.8.
"""

from __future__ import annotations

from typing import ClassVar

from textual.scrollbar import ScrollBar, ScrollBarRender


class AsciiScrollBarRender(ScrollBarRender):
    """A scrollbar of blanks in reverse: its ends move by whole cells."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def use_renderer(*, ascii_only: bool) -> None:
    """Draw the scrollbars of all widgets in ASCII, or as Textual does."""
    ScrollBar.renderer = AsciiScrollBarRender if ascii_only else ScrollBarRender
