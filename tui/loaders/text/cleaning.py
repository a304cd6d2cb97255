"""Cleans text: terminal escapes, control characters, HTML markup, and the JSON strings of notebooks.

Logs are often captured from a terminal. Readers of a format see the text as a person would, so that a colored header
is still a header; the Log view reads the input itself again.
"""

from __future__ import annotations

import json
import re
from typing import Final

_ESCAPE: Final = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]?"  # CSI: colors, cursor moves, erasing
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


_SIGNS: Final = re.compile(rb"&[lg]t;|</?(?:pre|code|br|span)[ />]|<html|<!doctype html", re.IGNORECASE)
_TAGS: Final = rb"(?:</?(?:pre|code|br|span)(?: [^<>\n]{0,200})?/?>)+"
_AROUND: Final = re.compile(rb"^(?P<blanks>[ \t]*)%s|%s(?=[ \t\r]*$)" % (_TAGS, _TAGS), re.MULTILINE)
_ENTITY: Final = re.compile(rb"&(?:lt|gt|amp|quot|nbsp|#39|#x27);")
_MEANING: Final = {
    **{b"&lt;": b"<", b"&gt;": b">", b"&amp;": b"&", b"&quot;": b'"', b"&nbsp;": b" "},
    **dict.fromkeys((b"&#39;", b"&#x27;"), b"'"),
}


def has_markup(head: bytes) -> bool:
    """Whether an input that begins so is, or holds, HTML.

    >>> has_markup(b"<!DOCTYPE html>"), has_markup(b"f&lt;int&gt;"), has_markup(b"void f<int>(T&)")
    (True, True, False)
    """
    return _SIGNS.search(head) is not None


def without_markup(data: bytes) -> bytes:
    """Lines without the tags of preformatted text around them, entities as the characters that they mean.

    As many lines come back.

    >>> without_markup(b"<pre>  10.00%  f&lt;int&gt;(int)<br>")
    b'  10.00%  f<int>(int)'
    >>> without_markup(b"<pre>f<code>(int)</pre>")
    b'f<code>(int)'
    """
    return _ENTITY.sub(lambda found: _MEANING[found[0]], _AROUND.sub(rb"\g<blanks>", data))


_BEGINS: Final = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat|worksheets)"')
_QUOTED_LOG: Final = re.compile(
    rb'^[ \t]*"(?:==\d+==[ ]|={8}[ ]|[ ]*(?:Type[ ]+)?Time\(%\)[ ]|[ ]*Start[ ]+Duration[ ]).*\\n",?[ \t\r]*$',
    re.MULTILINE,
)
"""A line of a profile as a JSON string: the notebook around it may be missing."""

_STRING: Final = re.compile(rb'^[ \t]*("(?:[^"\\\n]|\\.)*+")[ \t]*,?[ \t\r]*$', re.MULTILINE)
_SEVERAL: Final = re.compile(rb'\\n(?!")')


def is_notebook(head: bytes) -> bool:
    r"""Whether an input that begins so is a notebook, or lines of one.

    >>> is_notebook(b'{\n "cells": [\n'), is_notebook(b'{"traceEvents": []}')
    (True, False)
    """
    return _BEGINS.match(head) is not None or _QUOTED_LOG.search(head) is not None


def unquoted(data: bytes) -> bytes:
    r"""Whole lines of a notebook with the strings that stand alone on a line as the text they mean.

    As many lines come back: a string of several lines stays as it is.

    >>> unquoted(b'  "text": [\n   "==7== \\"a\\"\\n",\n   "  12%  f\\u003cint\\u003e"\n')
    b'  "text": [\n==7== "a"\n  12%  f<int>\n'
    """
    return _STRING.sub(_meaning, data)


def _meaning(found: re.Match[bytes]) -> bytes:
    if _SEVERAL.search(found[1]):
        return found[0]
    try:
        text = json.loads(found[1].decode("utf-8", "surrogateescape"), strict=False)
    except ValueError:
        return found[0]
    assert isinstance(text, str)
    return text.removesuffix("\n").encode("utf-8", "surrogateescape" if text.isprintable() else "replace")
