"""Cleans text: terminal escapes, control characters, HTML markup, JSON strings of notebooks, and tags before lines.

Logs are often captured from a terminal. Loaders see the text as a person would, so that a colored header
is still a header; the Log view reads the original input again.
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
    r"""Remove escapes and control characters of whole lines of UTF-8; the number of lines stays the same.

    Of a line overwritten by carriage returns, as by a progress bar, the last state remains; a backspace
    deletes the character before it.

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
    """Decode a line cleaned by `clean_bytes`: invalid bytes become U+FFFD, remaining control characters are removed."""
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else text.translate(_DROPPED_CHARACTERS)


def _last_state(found: re.Match[bytes]) -> bytes:
    line = found.group().rstrip(b"\r")
    line = line[line.rfind(b"\r") + 1 :]
    if b"\x08" not in line:
        return line
    result: list[str] = []
    for part in _BACKSPACES.split(line.decode("utf-8", "replace")):
        if not part.startswith("\x08"):
            result.append(part)
            continue
        back = len(part)
        while back and result:
            last = result.pop()
            if len(last) > back:
                result.append(last[:-back])
            back = max(0, back - len(last))
    return "".join(result).encode()


_SIGNS: Final = re.compile(rb"&[lg]t;|</?(?:pre|code|br|span)[ />]|<html|<!doctype html", re.IGNORECASE)
_MARKUP: Final = rb"(?:</?(?:pre|code|br|span)(?: [^<>\n]{0,200})?/?>)+"
_AROUND: Final = re.compile(rb"^(?P<blanks>[ \t]*)%s|%s(?=[ \t\r]*$)" % (_MARKUP, _MARKUP), re.MULTILINE)
_ENTITY: Final = re.compile(rb"&(?:lt|gt|amp|quot|nbsp|#39|#x27);")
_MEANING: Final = {
    **{b"&lt;": b"<", b"&gt;": b">", b"&amp;": b"&", b"&quot;": b'"', b"&nbsp;": b" "},
    **dict.fromkeys((b"&#39;", b"&#x27;"), b"'"),
}


def has_markup(head: bytes) -> bool:
    """Whether an input that begins with ``head`` is or contains HTML.

    >>> has_markup(b"<!DOCTYPE html>"), has_markup(b"f&lt;int&gt;"), has_markup(b"void f<int>(T&)")
    (True, True, False)
    """
    return _SIGNS.search(head) is not None


def without_markup(data: bytes) -> bytes:
    """Lines without the HTML tags of preformatted text around them, with entities decoded.

    The number of lines stays the same.

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
"""A line of a profile as a JSON string, with or without the notebook around it."""

_STRING: Final = re.compile(rb'^[ \t]*("(?:[^"\\\n]|\\.)*+")[ \t]*,?[ \t\r]*$', re.MULTILINE)
_SEVERAL: Final = re.compile(rb'\\n(?!")')


def is_notebook(head: bytes) -> bool:
    r"""Whether an input that begins with ``head`` is a notebook, or lines of one.

    >>> is_notebook(b'{\n "cells": [\n'), is_notebook(b'{"traceEvents": []}')
    (True, False)
    """
    return _BEGINS.match(head) is not None or _QUOTED_LOG.search(head) is not None


def unquoted(data: bytes) -> bytes:
    r"""Whole lines of a notebook; JSON strings that are alone on a line are decoded.

    The number of lines stays the same: a string of several lines is not decoded.

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


_LINE_TAGS: Final = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ?",
    rb"\[\d{1,9},\d{1,9}\](?:\[[^\]\n]{1,80}\])?<std(?:err|out|diag)>:?",
    rb"\d{1,7}: ",
)
_PROFILE: Final = (
    rb"(?:==\d+== (?:(?:NV|PG)PROF is|Profiling (?:app|result))|={8} Profiling"
    rb"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ caffe\.cpp:)"
)
_OTHER_PROFILE: Final = (
    rb"(?:[ \t]*\"?Time ?\(%\)\"?[ \t,]+\"?Total Time|[ \t]*\"?Start ?\([num]?s\)\"?[ \t,]"
    rb"|[ \t]*\*\* [^\n]{1,80} \(\w+\):|==(?:PROF|WARNING|ERROR)== |\"ID\",\"Process ID\")"
)
"""Output of nsys stats and ncu: unlike nvprof's, their lines do not name their process."""
_BEFORE_ALL: Final = re.compile(rb"^(%s|> ?)%s" % (_LINE_TAGS[0], _OTHER_PROFILE), re.MULTILINE)
_LABEL: Final = rb"(?:%s|%s|\[[A-Za-z_]{1,20}\d{1,6}\]: ?|[A-Za-z][\w.-]{0,60}[ \t]+\| ?)" % _LINE_TAGS[1:]
"""The rank or the container of a line."""
_LABELLED: Final = re.compile(rb"^(%s)%s" % (_LABEL, _OTHER_PROFILE), re.MULTILINE)

_ANY_TAGGED: Final = re.compile(b"|".join(rb"^(%s)%s" % (tag, _PROFILE) for tag in _LINE_TAGS), re.MULTILINE)
_EVERY: Final = tuple(re.compile(rb"^" + tag, re.MULTILINE) for tag in _LINE_TAGS)

_RESULTS: Final = (b"= Profiling result:", b"Total Time (ns)", b"==PROF== ")
_TITLE: Final = re.compile(rb"^([^\n]{1,120}?)(?:==\d+=|={7})= Profiling result:", re.MULTILINE)
_HEADER: Final = (
    rb"[ \t]*(?:(?:Type[ \t]+)?Time\(%\)[ \t]|\"Time\(%\)\"|\"Type\"|Start[ \t]+Duration|\"Start\"|\"Device\""
    rb"|No (?:kernels|API activities|events/metrics) were)"
)
"""Headers below the title of a result."""

_PASTE: Final = rb"[ \t]*+(?:\d+,|[#*>|%]+|(?://)+)?[ \t]*+"
_IN_A_PASTE: Final = re.compile(_PASTE)
"""Prefixes of pasted text, which the readers of formats skip themselves."""

_WITHOUT_TAG: Final = re.compile(_PASTE + rb"(?:==\d+=|={7})")
_MOST_TRIED: Final = 16
"""The most titles with a prefix that are tried in a block."""

_PARTS: Final = re.compile(rb"\d+|[ \t]+|[^\d \t]+")
_NEAR: Final = 1 << 16
"""The table of a result begins within this many bytes after its title."""


def tag_of(data: bytes) -> re.Pattern[bytes] | None:
    r"""The pattern of the tag before each line of a text, if the lines of a profile have one.

    A tag is recognized by its shape, or is the same, except for numbers, before the title of a result and the header
    below. If lines of several processes may alternate without naming their process, lines of other processes
    match as a whole (`lines_of_others`).

    >>> tag = tag_of(b"[1,0]<stderr>:==7== Profiling result:")
    >>> tag.sub(b"", b"[1,1]<stderr>:  50.00%  1.0us")
    b'  50.00%  1.0us'
    >>> tag_of(b"gpu7 | ==7== Profiling result:\ngpu7 |   Start  Duration  Name").pattern
    b'^(?:gpu\\d+[ \\t]+\\|(?:\\ |$))'
    >>> tag_of(b"0: hello") is None
    True
    """
    found = _ANY_TAGGED.search(data)
    if found is not None and found.lastindex is not None:
        return _EVERY[found.lastindex - 1]
    if (found := _BEFORE_ALL.search(data)) is not None:
        return re.compile(rb"^(?:%s|> ?)" % _LINE_TAGS[0], re.MULTILINE)
    if (found := _LABELLED.search(data)) is not None:
        of_one = re.escape(found[1].rstrip())
        return re.compile(rb"^(?:%s ?|(?P<other>%s)[^\n]*)" % (of_one, _LABEL), re.MULTILINE)
    for title in _TITLE.finditer(data):
        if _IN_A_PASTE.fullmatch(title[1]):
            continue
        shape = _shape_of(title[1])
        if re.compile(rb"^" + shape + _HEADER, re.MULTILINE).search(data, title.end()):
            return re.compile(rb"^(?:" + shape + rb")", re.MULTILINE)
    return None


def later_tag(data: bytes) -> re.Pattern[bytes] | None:
    """Like `tag_of`, for later lines of a text; only lines near results are searched."""
    for result in _RESULTS:
        at, tried = -1, 0
        while tried < _MOST_TRIED and (at := data.find(result, at + 1)) >= 0:
            begin = data.rfind(b"\n", 0, at) + 1
            if _WITHOUT_TAG.fullmatch(data[begin:at][:_NEAR]):
                continue
            tried += 1
            if (tag := tag_of(data[begin : at + _NEAR])) is not None:
                return tag
    return None


def lines_of_others(tag: re.Pattern[bytes], data: bytes) -> list[bytes]:
    """The tags of lines that are left out because they belong to another process, one per line."""
    if "other" not in tag.groupindex:
        return []
    return [found["other"] for found in tag.finditer(data) if found["other"] is not None]


def _shape_of(tag: bytes) -> bytes:
    """The pattern of a tag with any numbers; blanks at its end may be missing at the end of the line."""
    parts = _PARTS.findall(tag)
    blanks = parts.pop() if tag[-1:] in b" \t" else b""
    shape = b"".join(rb"\d+" if part.isdigit() else rb"[ \t]+" if part.isspace() else re.escape(part) for part in parts)
    if tag[:1] in b" \t":
        shape = shape.replace(rb"[ \t]+", rb"[ \t]*", 1)
    return shape + (rb"(?:%s|$)" % re.escape(blanks) if blanks else b"")
