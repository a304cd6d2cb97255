"""The only way for text of a profile to reach a screen or a terminal.

Names and messages in a profile are whatever the profiled program printed: they may hold terminal escapes, line ends or
characters that reverse the direction of writing. `plain` makes them harmless and keeps them visible.
"""

from __future__ import annotations

import re
from typing import Final

from tui.fitting import cell_width

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

ASCII_SIGNS: Final = {
    **{MARK: ".", "µ": "u", "×": "x", "…": "~", "→": ">", "–": "-", "←": "<", "↑": "^", "↓": "v", "⌫": "<"},
    **{"▼": "v", "▾": "v", "▸": ">", "•": "*", "≥": ">", "≤": "<", "±": "~", "−": "-", "—": "-"},
    # Fills of bars, each unlike the others.
    **dict(zip("█▓▞▒▦▩▨▤▧▚░▥", "#%k+su@dfc.n", strict=True)),
    # Bars that end within a cell.
    **dict.fromkeys("▏▎▍▕", "|"),
    **dict.fromkeys("▌▋▊▉▐▛▜▙▟▗▖▝▘", "#"),
    **dict(zip("▁▂▃▄▅▆▇▔▀", "__--oo#-#", strict=True)),
    # The timeline.
    **dict(zip("◦○●›»►‹«◄◇◆□■▵▲≈▫▪", '"O@}]>{[<:XzZ`^%cC', strict=True)),
    # Frames and rulers.
    **dict.fromkeys("─╌┄┈", "-"),
    **dict.fromkeys("═━╸╺", "="),
    **dict.fromkeys("╍┅┉", "~"),
    **dict.fromkeys("│┃║╎╏┆┊╵╷", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝╠╣╦╩╬┏┓┗┛╴╶", "+"),
}
"""Signs that the program draws, and what stands for each in as many cells where there is ASCII alone."""
_TO_ASCII: Final = str.maketrans(ASCII_SIGNS)


def to_ascii(text: str) -> str:
    """A text as a terminal without UTF-8 can show it, in as many cells; unknown characters are ``?``.

    >>> to_ascii("12 µs · 行")
    '12 us . ??'
    """
    translated = text.translate(_TO_ASCII)
    if translated.isascii():
        return translated
    return "".join(sign if sign.isascii() else "?" * cell_width(sign) for sign in translated)


def plain(text: str) -> str:
    r"""The text with every control, invisible and direction character shown as ``·``.

    The result is one line, has as many characters as the input, and holds nothing that a terminal acts upon.

    Args:
        text: Anything that came out of a profile.

    >>> plain("a\x1b[31mred\tb")
    'a·[31mred·b'
    """
    return text if text.isprintable() else _CONTROL.sub(MARK, text)


def printable(text: str) -> str:
    r"""Lines for a terminal: as they are where they hold line ends, tabs and styles alone, else `plain` with these.

    The last filter for what commands print. Text of a profile is made harmless before, by `plain`, where text and
    layout can still be distinguished. Here a style that a profile wrote looks like one of ours.

    >>> printable("\x1b[1ma\x1b[0m\n\x1b]52;c;x\x07\tb")
    '\x1b[1ma\x1b[0m\n·]52;c;x·\tb'
    """
    return _NOT_LAYOUT.sub(MARK, text)


_NOT_LAYOUT: Final = re.compile(r"(?!\x1b\[[0-9;]{0,40}m)(?![\n\t])" + _CONTROL.pattern)
"""A character that `plain` replaces, except line ends, tabs and the beginning of a style."""
