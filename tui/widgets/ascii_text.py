"""Text for terminals that show ASCII characters alone."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from tui.text import plain

SPELLED: Final = str.maketrans({"←": "left", "→": "right", "↑": "up", "↓": "down", "⌫": "backspace"})
"""Keys whose signs a terminal without Unicode does not show."""

_LOOKS_LIKE: Final = str.maketrans("…µ·×–▸•", "~u.x->*")


def in_ascii(content: Content) -> Content:
    """The same text with its styles, each character that is not ASCII as one that comes close, else as ``?``.

    >>> in_ascii(Content("12 µs · 3×4 …")).plain
    '12 us . 3x4 ~'
    """
    return Content(plain(content.plain.translate(_LOOKS_LIKE), ascii_only=True), spans=list(content.spans))
