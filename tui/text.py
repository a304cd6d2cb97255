"""The only door from the text of a profile to a screen or a terminal.

Names and messages in a profile are whatever the profiled program printed: they may hold terminal escapes, line ends or
characters that reverse the direction of writing. `plain` makes them harmless and keeps them visible.
"""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "·"
"""Stands for a character that must not reach a terminal."""

_CONTROL: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: with them go all escape sequences
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, bidi, line separators
    "\ud800-\udfff"  # lone surrogates, which no terminal encoding can write
    "\U000e0000-\U000e007f"  # tags
    "]"
)
_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e]")
_NEAREST: Final = str.maketrans({MARK: ".", "µ": "u", "×": "x", "…": "~", "→": ">", "–": "-"})
"""Signs that our own words use, and what stands for them where there is ASCII alone."""


def plain(text: str, *, ascii_only: bool = False) -> str:
    r"""The text with every control, invisible and direction character shown as ``·``.

    The result is one line, has as many characters as the input, and holds nothing that a terminal acts upon.

    Args:
        text: Anything that came out of a profile.
        ascii_only: Show what is not ASCII as ``?`` (and controls as ``.``), for terminals without UTF-8.

    >>> plain("a\x1b[31mred\tb")
    'a·[31mred·b'
    >>> plain("größe\n", ascii_only=True)
    'gr??e.'
    """
    safe = text if text.isprintable() else _CONTROL.sub(MARK, text)
    if ascii_only and not safe.isascii():
        return _NOT_ASCII.sub("?", safe.translate(_NEAREST))
    return safe
