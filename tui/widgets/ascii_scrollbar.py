"""A scrollbar for terminals that show ASCII characters alone."""

from __future__ import annotations

from typing import ClassVar

from textual.scrollbar import ScrollBarRender


class AsciiScrollBarRender(ScrollBarRender):
    """A scrollbar of blanks in reverse: its ends move by whole cells."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8
