"""Text as whole lines of limited length in one encoding, without escapes and markup.

Logs are often captured from a terminal. Loaders see the text as a person would, so that a colored header
is still a header; the Log view reads the original input again.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_FIRST_PIECE_BYTES: Final = 1 << 20
"""The size of the first piece, small so that work can start early; each next one is twice as large."""


@dataclass(frozen=True, slots=True)
class LinePiece:
    """Whole lines; all end with a newline, which is added to the last line of a stream if necessary."""

    data: bytes
    covered: int
    """The number of bytes of the stream; differs from `data` if a line was cut or a newline added."""
    cut_line_size: int = 0
    """The full size of its last line if only its beginning is in `data`; otherwise 0."""
    ends_within_line: bool = False
    """Whether the stream ends here without a newline, so that the last one in `data` was added."""


def _never_late() -> bool:
    return False


def whole_lines(
    chunks: Iterable[bytes], *, piece_size: int, line_limit: int, is_late: Callable[[], bool] = _never_late
) -> Iterator[LinePiece]:
    """Split a stream into pieces of about ``piece_size`` bytes; the first ones are smaller.

    Of a line longer than ``line_limit`` bytes only the first are used, and its piece ends there. While the rest of such
    a line is skipped, an empty piece is returned for every chunk. If ``is_late`` returns True, a piece ends with the
    bytes received.
    """
    pending: list[bytes] = []
    pending_bytes, target_bytes = 0, min(piece_size, _FIRST_PIECE_BYTES)
    beginning = b""  # of an overlong line that has not ended yet
    line_bytes = 0  # bytes of that line
    for chunk in chunks:
        remainder = chunk
        if beginning:
            end = chunk.find(b"\n")
            if end < 0:
                line_bytes += len(chunk)
                yield LinePiece(b"", 0)
                continue
            line_bytes += end
            yield LinePiece(beginning + b"\n", line_bytes + 1, line_bytes)
            beginning, remainder = b"", chunk[end + 1 :]
        pending.append(remainder)
        pending_bytes += len(remainder)
        if pending_bytes < target_bytes and not is_late():
            continue
        target_bytes = min(piece_size, 2 * target_bytes)
        data, remainder = _split(pending)
        yield from _with_lines_cut(data, line_limit)
        if len(remainder) > line_limit:
            beginning, line_bytes, remainder = _beginning(remainder, line_limit), len(remainder), b""
        pending, pending_bytes = [remainder] if remainder else [], len(remainder)
    if beginning:
        yield LinePiece(beginning + b"\n", line_bytes, line_bytes)
        return
    data = b"".join(pending)
    if not data or data.endswith(b"\n"):
        yield from _with_lines_cut(data, line_limit)
        return
    *pieces, last_piece = _with_lines_cut(data + b"\n", line_limit)
    yield from pieces
    yield replace(last_piece, covered=last_piece.covered - 1, ends_within_line=True)


def _split(parts: list[bytes]) -> tuple[bytes, bytes]:
    """Return the whole lines in some parts, and the rest; a single part of whole lines is not copied."""
    end = parts[-1].rfind(b"\n") + 1
    if end:
        # Joining bytes releases the GIL; joining views would not.
        return b"".join((*parts[:-1], parts[-1][:end])), parts[-1][end:]
    joined = b"".join(parts)
    end = joined.rfind(b"\n") + 1
    return joined[:end], joined[end:]


def _with_lines_cut(data: bytes, limit: int) -> Iterator[LinePiece]:
    """Yield whole lines as pieces; each overlong line ends a piece."""
    start = position = 0
    while len(data) - position > limit + 1:
        newline = data.rfind(b"\n", position, position + limit + 1)
        if newline >= 0:
            position = newline + 1
            continue
        end = data.index(b"\n", position + limit)
        beginning = data[start:position] + _beginning(data[position:end], limit) + b"\n"
        yield LinePiece(beginning, end + 1 - start, end - position)
        start = position = end + 1
    if start < len(data):
        yield LinePiece(data[start:], len(data) - start)


def _beginning(line: bytes, limit: int) -> bytes:
    """Return the first bytes of a line, cut between characters."""
    end = limit
    while limit - end < 3 and line[end] & 0xC0 == 0x80:
        end -= 1
    return line[:end]


_SAMPLE: Final = 4096
"""The number of bytes in which zeros are counted."""
_BARE_RETURN: Final = re.compile(rb"\r(?!\n)")


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding and the length of the byte order mark."""

    name: str
    """utf-8, utf-16-le or utf-16-be."""
    mark_size: int = 0
    """The size of the byte order mark; 0 if there is none."""


def detect_encoding(head: bytes) -> Encoding:
    """Return the encoding of an input that begins with ``head``; UTF-8 by default.

    UTF-16 without a mark is recognized by zero bytes: every other byte of mostly Latin text.
    """
    if head.startswith(codecs.BOM_UTF8):
        return Encoding("utf-8", 3)
    if head.startswith(codecs.BOM_UTF16_LE):
        return Encoding("utf-16-le", 2)
    if head.startswith(codecs.BOM_UTF16_BE):
        return Encoding("utf-16-be", 2)
    even_bytes, odd_bytes = head[:_SAMPLE:2], head[1:_SAMPLE:2]
    if len(odd_bytes) >= 2:
        zeros_first, zeros_second = even_bytes.count(0) / len(even_bytes), odd_bytes.count(0) / len(odd_bytes)
        if zeros_second > 0.6 and zeros_first < 0.1:
            return Encoding("utf-16-le")
        if zeros_first > 0.6 and zeros_second < 0.1:
            return Encoding("utf-16-be")
    return Encoding("utf-8")


def as_utf8(encoding: Encoding, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Convert a text to UTF-8 without byte order mark; UTF-8 passes unchanged, valid or not."""
    skip = encoding.mark_size
    decoder = None if encoding.name == "utf-8" else codecs.getincrementaldecoder(encoding.name)("replace")
    for chunk in chunks:
        data = chunk[skip:] if skip else chunk
        skip = max(0, skip - len(chunk))
        yield data if decoder is None else decoder.decode(data).encode()
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode()


def has_bare_returns(head: bytes) -> bool:
    """Return whether lines end with carriage returns alone, as in spreadsheets saved for classic Mac OS."""
    return head.count(b"\r") > 1 and b"\n" not in head and b"\0" not in head


def normalize_newlines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Convert carriage returns to newlines; CR LF becomes one newline."""
    pending = b""
    for chunk in chunks:
        data = pending + chunk
        pending = b"\r" if data.endswith(b"\r") else b""
        yield _BARE_RETURN.sub(b"\n", data[: len(data) - len(pending)])
    if pending:
        yield b"\n"


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
        data = _OVERWRITTEN_LINE.sub(_apply_overwrites, data)
    return data


def clean_line(raw: bytes) -> str:
    """Decode a line cleaned by `clean_bytes`: invalid bytes become U+FFFD, remaining control characters are removed."""
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else text.translate(_DROPPED_CHARACTERS)


def _apply_overwrites(match: re.Match[bytes]) -> bytes:
    """Return the last state of a line with carriage returns or backspaces."""
    line = match.group().rstrip(b"\r")
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
            previous = result.pop()
            if len(previous) > back:
                result.append(previous[:-back])
            back = max(0, back - len(previous))
    return "".join(result).encode()


_HTML_SIGNS: Final = re.compile(rb"&[lg]t;|</?(?:pre|code|br|span)[ />]|<html|<!doctype html", re.IGNORECASE)
_MARKUP: Final = rb"(?:</?(?:pre|code|br|span|html|body|div|p)(?: [^<>\n]{0,200})?/?>)+"
_SURROUNDING_MARKUP: Final = re.compile(rb"^(?P<blanks>[ \t]*)%s|%s(?=[ \t\r]*$)" % (_MARKUP, _MARKUP), re.MULTILINE)
_ENTITY: Final = re.compile(rb"&(?:lt|gt|amp|quot|nbsp|#39|#x27);")
_ENTITY_CHARACTERS: Final = {
    **{b"&lt;": b"<", b"&gt;": b">", b"&amp;": b"&", b"&quot;": b'"', b"&nbsp;": b" "},
    **dict.fromkeys((b"&#39;", b"&#x27;"), b"'"),
}


def has_markup(head: bytes) -> bool:
    """Return whether an input that begins with ``head`` is or contains HTML.

    >>> has_markup(b"<!DOCTYPE html>"), has_markup(b"f&lt;int&gt;"), has_markup(b"void f<int>(T&)")
    (True, True, False)
    """
    return _HTML_SIGNS.search(head) is not None


def strip_markup(data: bytes) -> bytes:
    """Return lines without the HTML tags of preformatted text around them, with entities decoded.

    The number of lines stays the same.

    >>> strip_markup(b"<pre>  10.00%  f&lt;int&gt;(int)<br>")
    b'  10.00%  f<int>(int)'
    >>> strip_markup(b"<pre>f<code>(int)</pre>")
    b'f<code>(int)'
    """
    return _ENTITY.sub(lambda match: _ENTITY_CHARACTERS[match[0]], _SURROUNDING_MARKUP.sub(rb"\g<blanks>", data))


_NOTEBOOK_START: Final = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat|worksheets)"')
_QUOTED_LOG: Final = re.compile(
    rb'^[ \t]*"(?:==\d+==[ ]|={8}[ ]|[ ]*(?:Type[ ]+)?Time\(%\)[ ]|[ ]*Start[ ]+Duration[ ]).*\\n",?[ \t\r]*$',
    re.MULTILINE,
)
"""A line of a profile as a JSON string, with or without the notebook around it."""

_STRING: Final = re.compile(rb'^[ \t]*("(?:[^"\\\n]|\\.)*+")[ \t]*,?[ \t\r]*$', re.MULTILINE)
_SEVERAL_LINES: Final = re.compile(rb'(?<!\\)(?:\\\\)*\\n(?!")')


def is_notebook(head: bytes) -> bool:
    r"""Return whether an input that begins with ``head`` is a notebook, or lines of one.

    >>> is_notebook(b'{\n "cells": [\n'), is_notebook(b'{"traceEvents": []}')
    (True, False)
    """
    return _NOTEBOOK_START.match(head) is not None or _QUOTED_LOG.search(head) is not None


def decode_notebook(data: bytes) -> bytes:
    r"""Decode JSON strings that are alone on a line, in whole lines of a notebook.

    The number of lines stays the same: a string of several lines is not decoded.

    >>> decode_notebook(b'  "text": [\n   "==7== \\"a\\"\\n",\n   "  12%  f\\u003cint\\u003e"\n')
    b'  "text": [\n==7== "a"\n  12%  f<int>\n'
    """
    return _STRING.sub(_decode_json_line, data)


def _decode_json_line(match: re.Match[bytes]) -> bytes:
    if _SEVERAL_LINES.search(match[1]):
        return match[0]
    try:
        text = json.loads(match[1].decode("utf-8", "surrogateescape"), strict=False)
    except ValueError:
        return match[0]
    assert isinstance(text, str)
    return text.removesuffix("\n").encode("utf-8", "surrogateescape" if text.isprintable() else "replace")


_LOG_KEYS: Final = (
    rb'"(?:log|message|msg|MESSAGE|textPayload|text|text/plain|line|data|output|stdout|stderr|body|content|source)"'
)
"""Keys of JSON whose strings are lines of text, also where they hold a single one."""
_JSON_LINES: Final = re.compile(
    rb'\s*\{\s*(?:"[^"\\\n]{1,200}+"\s*:\s*(?:"(?:[^"\\\n]|\\.)*+"|[-+.\w]++)\s*,\s*){0,40}?'
    rb'"(?:log|message|msg|MESSAGE|textPayload)"\s*:\s*"'
)
"""The first record of a log with one JSON object a line, as Docker and structured loggers write it."""
_TEXT_IN_JSON: Final = re.compile(
    rb"\\n *(?:Name +Self [A-Z]|==\d+== |={8} |=== (?:Device|API) Timing|Thread \d+ Device "
    rb"|(?:\[[^]\n]*\] )*=== Profile \()"
)
"""The first line of a table within a JSON string."""
_JSON_STRING: Final = re.compile(rb'("(?:[^"\\\n]|\\[^\n])*+")(\s*:)?')
_LONGEST_STRING: Final = 1 << 26
"""Bytes of a JSON string, or of a record, that are held until it ends."""
_SPLIT_RECORD: Final = 1 << 14
"""Docker writes longer lines as several records of this many bytes."""
_MAX_PLAIN_ESCAPES: Final = 2
"""Escaped newlines that a line of a plain text can have."""
_REPR: Final = re.compile(rb"""b?(?P<quote>['"])(?P<text>[^\n]*\\n[^\n]*)(?P=quote)\n?""")
_ESCAPE_SEQUENCES: Final = re.compile(rb"""\\([nt\\'"])""")


class JsonText:
    r"""Text in JSON strings: a notebook on one line, or a log with one JSON object per line.

    >>> list(JsonText.from_head(b'{"log":"==7== a\\n"}').text([b'{"log":"==7==', b' a\\n"}\nplain\n']))
    [b'==7== a\nplain\n']
    >>> notebook = b'{"cells":[{"text":["a\\n","b"]}],"x":"y"}'
    >>> b"".join(JsonText.from_head(notebook).text([notebook[:20], notebook[20:]]))
    b'a\nb\n'
    >>> JsonText.from_head(b'{"traceEvents": []}') is None
    True
    """

    def __init__(self, *, is_lines: bool) -> None:
        self._is_lines = is_lines
        self._key = b""

    @classmethod
    def from_head(cls, head: bytes) -> JsonText | None:
        """Return how to read an input that begins with ``head``; None if it has no text in JSON strings."""
        if b'"traceEvents"' in head:
            return None
        if head.lstrip()[:1] not in (b"{", b"[", b'"'):
            return cls(is_lines=True) if _TEXT_IN_JSON.search(head) else None
        if _JSON_LINES.match(head):
            return cls(is_lines=True)
        has_text = _TEXT_IN_JSON.search(head) or (_NOTEBOOK_START.match(head) and _SEVERAL_LINES.search(head))
        first_line = head.lstrip().partition(b"\n")[0]
        return cls(is_lines=False) if has_text or (_NOTEBOOK_START.match(head) and first_line.count(b'"') > 2) else None

    def text(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the text in the chunks of the input, as whole lines."""
        pending = self._key = b""
        for chunk in chunks:
            data = pending + chunk
            if self._is_lines:
                end = data.rfind(b"\n", len(pending)) + 1
                decoded = b"".join(self._record(line) for line in data[:end].splitlines(keepends=True))
            else:
                end = self._end_of_strings(data)
                decoded = self._strings(data[:end])
            pending = data[end:]
            if len(pending) > _LONGEST_STRING:
                decoded, pending = decoded + pending, b""
            if decoded:
                yield decoded
        if remainder := self._record(pending) if self._is_lines else self._strings(pending):
            yield remainder

    def _record(self, line: bytes) -> bytes:
        """Return the text of a line that is a JSON object or a Python string literal; any other line unchanged."""
        if not line.lstrip().startswith(b"{"):
            return _ESCAPE_SEQUENCES.sub(_unescape, line) if line.count(b"\\n") > _MAX_PLAIN_ESCAPES else line
        self._key = b""
        return self._strings(line) or line

    @staticmethod
    def _end_of_strings(data: bytes) -> int:
        """Return the length of ``data`` up to a string that continues, or that may be a key."""
        end = 0
        for match in _JSON_STRING.finditer(data):
            if match.end() == len(data):
                return match.start()
            end = match.end()
        open_quote = data.find(b'"', end)
        return len(data) if open_quote < 0 else open_quote

    def _strings(self, data: bytes) -> bytes:
        lines = []
        for match in _JSON_STRING.finditer(data):
            string, colon = match.groups()
            if colon:
                self._key = string
            elif b"\\n" in string or _LOGGED_KEY.fullmatch(self._key):
                lines.append(_decode_string(string))
        return b"".join(lines)


_LOGGED_KEY: Final = re.compile(_LOG_KEYS)


def _unescape(match: re.Match[bytes]) -> bytes:
    return {b"n": b"\n", b"t": b"\t"}.get(match[1], match[1])


def _decode_string(string: bytes) -> bytes:
    """Return the lines of a JSON string, also if its value is a Python string literal."""
    try:
        text = json.loads(string.decode("utf-8", "surrogateescape"), strict=False)
    except ValueError:
        return string + b"\n"
    assert isinstance(text, str)
    data = text.encode("utf-8", "surrogateescape" if text.isprintable() else "replace")
    if shown := _REPR.fullmatch(data):
        data = _ESCAPE_SEQUENCES.sub(_unescape, shown["text"])
    return data if data.endswith(b"\n") or len(data) == _SPLIT_RECORD else data + b"\n"
