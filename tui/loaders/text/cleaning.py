"""What a terminal would not show of a text: escapes, carriage returns, backspaces, NUL and other control characters.

Logs are often captured from a terminal. Readers of a format see the text as a person would, so that a coloured header
is still a header; the Log view reads the input itself again.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor moves, erasing
    rb"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC (titles, links) and other strings
    rb"|[ -/]*[0-~]?"  # character sets, single functions
    rb")"
)
_LINE_END: Final = re.compile(rb"\r+(?=\n)")
_OVERWRITTEN_LINE: Final = re.compile(rb"^[^\n\r\x08]*[\r\x08][^\n]*", re.MULTILINE)
_BACKSPACES: Final = re.compile("(\x08+)")
_DROPPED: Final = bytes(code for code in (*range(32), 127) if code not in b"\t\n\r\x08")
_DROPPED_CHARACTERS: Final = dict.fromkeys([*(code for code in range(32) if code != 9), *range(0x7F, 0xA0), 0xFEFF])


def clean_bytes(data: bytes) -> bytes:
    r"""Make whole lines of UTF-8 readable; as many lines come back.

    Of a line that was overwritten by carriage returns the last state stays, as a progress bar means it; a backspace
    takes back the character before it.

    >>> clean_bytes(b"\x1b[31m==7== Profiling\x1b[0m\r\n 10%\r 20%\rdone\n|\b/\b-\n")
    b'==7== Profiling\ndone\n-\n'
    """
    if b"\r" in data:
        data = _LINE_END.sub(b"", data)
    if b"\x1b" in data:
        data = _ESCAPE.sub(b"", data)
    data = data.translate(None, _DROPPED)
    if b"\r" in data or b"\x08" in data:
        data = _OVERWRITTEN_LINE.sub(_last_state, data)
    return data


def clean_line(raw: bytes) -> str:
    """Decode one line that `clean_bytes` has seen: damaged bytes become U+FFFD, the last control characters go."""
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else text.translate(_DROPPED_CHARACTERS)


def _last_state(found: re.Match[bytes]) -> bytes:
    line = found.group().rstrip(b"\r")
    line = line[line.rfind(b"\r") + 1 :]
    if b"\x08" not in line:
        return line
    kept: list[str] = []
    for part in _BACKSPACES.split(line.decode("utf-8", "replace")):
        if not part.startswith("\x08"):
            kept.append(part)
            continue
        back = len(part)
        while back and kept:
            last = kept.pop()
            if len(last) > back:
                kept.append(last[:-back])
            back = max(0, back - len(last))
    return "".join(kept).encode()
