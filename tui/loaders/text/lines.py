"""Text as whole lines of limited length in one encoding, without escapes, markup and tags of other programs.

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
    from collections.abc import Callable, Iterable, Iterator, Sequence

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


_LINE_TAGS: Final = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ?",
    rb"\[\d{1,9},\d{1,9}\](?:\[[^\]\n]{1,80}\])?<std(?:err|out|diag)>:?",
    rb"\d{1,7}: ",
)
_MPIRUN, _SRUN = 1, 2
_PROFILE: Final = (
    rb"(?:==\d+== (?:(?:NV|PG)PROF is|Profiling (?:app|result))|={8} Profiling"
    rb"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ caffe\.cpp:)"
)
_NSYS_OR_NCU_OUTPUT: Final = (
    rb"(?:[ \t]*\"?Time ?\(%\)\"?[ \t,]+\"?Total Time|[ \t]*\"?Start ?\([num]?s\)\"?[ \t,]"
    rb"|[ \t]*\*\* [^\n]{1,80} \(\w+\):|==(?:PROF|WARNING|ERROR)== |\"ID\",\"Process ID\")"
)
"""Output of nsys stats and ncu: unlike nvprof's, their lines do not name their process."""
_TIME_TAGGED: Final = re.compile(rb"^(%s|> ?)%s" % (_LINE_TAGS[0], _NSYS_OR_NCU_OUTPUT), re.MULTILINE)
_LABEL: Final = rb"(?:%s|%s|\[[A-Za-z_]{1,20}\d{1,6}\]: ?|[A-Za-z][\w.-]{0,60}[ \t]+\| ?)" % _LINE_TAGS[1:]
"""The rank or the container of a line."""
_LABELED: Final = re.compile(rb"^(%s)%s" % (_LABEL, _NSYS_OR_NCU_OUTPUT), re.MULTILINE)

_TAGGED_PROFILE: Final = re.compile(b"|".join(rb"^(%s)%s" % (tag, _PROFILE) for tag in _LINE_TAGS), re.MULTILINE)
_TAG_PATTERNS: Final = tuple(re.compile(rb"^" + tag, re.MULTILINE) for tag in _LINE_TAGS)

_RESULTS: Final = (b"= Profiling result:", b"Total Time (ns)", b"==PROF== ")
"""Texts in the first line of each result of nvprof, nsys stats and ncu."""
_OTHER_RESULTS: Final = (b" ===", b"[ns] ")
"""The same of unitrace and trtexec, and of unitrace's timeline."""
_PLAIN_NVPROF: Final = re.compile(rb"^(?:==\d+== |={8} |[ \t]*+Start[ \t]+Duration )", re.MULTILINE)
_HEADER: Final = (
    rb"[ \t]*(?:(?:Type[ \t]+)?Time\(%\)[ \t]|\"Time\(%\)\"|\"Type\"|Start[ \t]+Duration|\"Start\"|\"Device\""
    rb"|No (?:kernels|API activities|events/metrics) were)"
)
"""Headers below the title of a result of nvprof."""
_TIMELINE: Final = rb"(?:<PID:\d+> )?(?:Thread \d+ Device [^\n]{1,80}? : |Device Timeline \(queue: )"
_TITLES: Final = {
    "nvprof": (rb"(?:==\d+=|={7})= Profiling result:", _HEADER),
    "timing": (
        rb"=== (?:Device|API) Timing (?:Summary|Results:) ===",
        rb"[ \t]*(?:Total [\w ]+ \(ns\): |== [\w ]+ Backend|== Backend |(?:Kernel|Function), )",
    ),
    "timeline": (_TIMELINE, _TIMELINE),
    "trtexec": (
        rb"(?:\[[\d/: -]{6,30}\] )?(?:\[[A-Z]\] )?=== Profile \(\d+ iterations ?\) ===",
        rb"(?:\[[^\]\n]{1,30}\] )*[ \t]*(?:Layer|Time ?\(ms\))",
    ),
    "stats": (rb"[ \t]*\*\* [^\n]{1,80} \(\w+\):", rb"[ \t]*\"?(?:Time ?\(%\)|Start ?\([num]?s\))"),
    "ascend": (
        rb"(?:Device_id,|Step Id,|Op Name,|OP Type,|Level,API Name,|Component,Timestamp|Name,Size\(KB\),|Step,Comp"
        rb"|Step,Type,|Stream Id,Task Id,|Name,(?:Input Shapes|Type),)",
        rb"[^\n,]*,",
    ),
    "ncu": (rb"\"ID\",\"Process ID\",", rb"\"\d*\",\""),
}
"""What begins a result of each tool, and the next line of it that its tag must begin as well."""
_TITLE: Final = re.compile(
    rb"^(?P<tag>[^\n]{1,120}?)(?:%s)"
    % b"|".join(rb"(?P<%s>%s)" % (name.encode(), title) for name, (title, _) in _TITLES.items()),
    re.MULTILINE,
)

_PASTE_PREFIX: Final = rb"[ \t]*+(?:\d+,|[#*>|%]+|(?://)+)?[ \t]*+"
_SKIPPED_BY_READER: Final = {"nvprof": re.compile(_PASTE_PREFIX), "ncu": None}
"""Prefixes of pasted text, which the readers of formats skip themselves; those of others skip blanks."""
_BLANKS: Final = re.compile(rb"[ \t]*")

_UNTAGGED_TITLE: Final = re.compile(
    _PASTE_PREFIX + rb"(?:==\d+=|={7})|[ \t]*(?:=== |Thread \d|Device Timeline )[^\n]*|[ \t]*"
)
_MAX_TRIED: Final = 16
"""The maximum number of titles with a prefix that are tried in a block."""

_NUMBER: Final = re.compile(rb"\d+")
_TIME_OR_NUMBER: Final = re.compile(rb"\d+(?:[-:.,/T ]\d+){2,}Z?|\d{9,}(?:\.\d+)?")
"""A time, or a count of seconds or more: it differs from line to line of one process."""
_ANY_TIME: Final = rb"\d+(?:[-:.,/T ]\d+)*Z?"
_WORDS: Final = re.compile(rb"[ \t]+|[^ \t]+")
_HEADER_DISTANCE: Final = 1 << 16
"""The table of a result begins within this many bytes after its title."""


@dataclass(frozen=True, slots=True)
class Tag:
    """What a job runner, a container or a logger writes in front of each line of a text."""

    pattern: re.Pattern[bytes]
    """Matches the tag at the beginning of a line, and lines of other processes as a whole."""
    process_pattern: bytes = b""
    """The regular expression of the tag of this process; empty if lines of several processes need no separation."""
    text: bytes = b""
    """The tag of one line."""

    def remove_from(self, data: bytes) -> bytes:
        """Return whole lines without their tags; lines of other processes become empty."""
        return self.pattern.sub(b"", data)


def _process_tag(process_pattern: bytes, any_pattern: bytes, text: bytes) -> Tag:
    return Tag(
        re.compile(rb"^(?:%s|(?:%s)[^\n]*)" % (process_pattern, any_pattern), re.MULTILINE), process_pattern, text
    )


def _known_tag(shape: int, text: bytes, data: bytes) -> Tag:
    """Return the tag of one of the shapes in `_LINE_TAGS`: a time, the rank of mpirun, or the rank of srun."""
    if shape == _MPIRUN:
        # nvprof writes to both streams.
        rank = re.escape(text[: text.index(b"]") + 1])
        return _process_tag(rank + _LINE_TAGS[shape].partition(rb"\]")[2], _LINE_TAGS[shape], text)
    if shape == _SRUN and data.count(b"\n" + text):
        return _process_tag(re.escape(text), _LINE_TAGS[shape], text)
    return Tag(_TAG_PATTERNS[shape])  # a time, or the numbers of lines


def find_tag(data: bytes) -> Tag | None:
    r"""Return the tag before each line of a text, if the lines of a profile have one.

    A tag is recognized by its shape, or is the same, except for numbers, before the title of a result and the header
    below. If lines of several processes may alternate without naming their process, it is that of the first one.

    >>> tag = find_tag(b"[1,0]<stderr>:==7== Profiling result:")
    >>> tag.remove_from(b"[1,0]<stdout>:  50.00%  1.0us"), tag.remove_from(b"[1,1]<stderr>:  50.00%  1.0us")
    (b'  50.00%  1.0us', b'')
    >>> find_tag(b"gpu7 | ==7== Profiling result:\ngpu7 |   Start  Duration  Name").process_pattern
    b'gpu7[ \\t]+\\|(?:\\ |$)'
    >>> find_tag(b"0: hello") is None
    True
    """
    match = _TAGGED_PROFILE.search(data)
    if match is not None and match.lastindex is not None:
        return _known_tag(match.lastindex - 1, match[match.lastindex], data)
    if (match := _TIME_TAGGED.search(data)) is not None:
        return Tag(re.compile(rb"^(?:%s|> ?)" % _LINE_TAGS[0], re.MULTILINE))
    if (match := _LABELED.search(data)) is not None:
        return _process_tag(rb"%s ?" % re.escape(match[1].rstrip()), _LABEL, match[1])
    for title in _TITLE.finditer(data):
        tool = title.lastgroup or ""
        skipped = _SKIPPED_BY_READER.get(tool, _BLANKS)
        if skipped is not None and skipped.fullmatch(title["tag"]):
            continue
        header = _TITLES[tool][1]
        any_shape, process_shape = _tag_shape(title["tag"]), _tag_shape(title["tag"], _TIME_OR_NUMBER)
        if re.compile(rb"^" + process_shape + header, re.MULTILINE).search(data, title.end()):
            return _process_tag(process_shape, any_shape, title["tag"])
        if re.compile(rb"^" + any_shape + header, re.MULTILINE).search(data, title.end()):
            return Tag(re.compile(rb"^(?:" + any_shape + rb")", re.MULTILINE))
    return None


_MAX_PROCESSES: Final = 256
"""The maximum number of processes in a text whose lines are separated."""


class Processes:
    r"""Separates the lines of the processes of a text, by their tags, as far as they hold results.

    >>> processes = Processes(find_tag(b"0: === Device Timing Summary ===\n0: Kernel, Calls"))
    >>> text = b"0: Kernel, Calls\n1: === Device Timing Summary ===\n2: loss\nloss\n1: Kernel, Calls\n"
    >>> [lines for _tag, lines in processes.separate(text)]
    [b'Kernel, Calls\n\n\nloss\n\n', b'\n=== Device Timing Summary ===\n\n\nKernel, Calls\n']
    """

    def __init__(self, first: Tag) -> None:
        self._tags = [first]

    def separate(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return whole lines without tags for each process, with a tag of it; the lines of others are empty.

        Lines without a tag are those of the first process.
        """
        first_tag = self._tags[0]
        if not first_tag.process_pattern:
            return [(first_tag.text, first_tag.remove_from(data))]
        unassigned = _remove_lines(self._tags, data)
        while len(self._tags) < _MAX_PROCESSES and (tag := find_tag(unassigned)) is not None:
            remaining = _remove_lines([tag], unassigned)
            if not tag.process_pattern or remaining == unassigned:
                break
            self._tags.append(tag)
            unassigned = remaining
        other_tags = self._tags[1:]
        separated = [
            (tag.text, re.sub(rb"^(?:%s|[^\n]*)" % tag.process_pattern, b"", data, flags=re.MULTILINE))
            for tag in other_tags
        ]
        return [(first_tag.text, first_tag.remove_from(_remove_lines(other_tags, data))), *separated]


def _remove_lines(tags: Sequence[Tag], data: bytes) -> bytes:
    patterns = b"|".join(tag.process_pattern for tag in tags)
    return re.sub(rb"^(?:%s)[^\n]*" % patterns, b"", data, flags=re.MULTILINE) if patterns else data


_RANK_OF_TAG: Final = re.compile(rb"(?<![a-zA-Z])rank[-_.= ]?(\d{1,6})(?!\d)|^\[\d{1,9},(\d{1,6})\]", re.IGNORECASE)


def rank_in_tag(tag: bytes) -> int | None:
    """Return the rank that a tag names, as torchrun and mpirun write it; None if it names none.

    >>> rank_in_tag(b"[rank3]: "), rank_in_tag(b"[1,0]<stdout>:"), rank_in_tag(b"gpu3 | ")
    (3, 0, None)
    """
    match = _RANK_OF_TAG.search(tag)
    return None if match is None else int(match[1] or match[2])


def is_plain_nvprof(head: bytes) -> bool:
    """Return whether a text begins with output of nvprof without tags, which may be large.

    >>> is_plain_nvprof(b"==7== NVPROF is profiling"), is_plain_nvprof(b"0: ==7== NVPROF is profiling")
    (True, False)
    """
    return _PLAIN_NVPROF.search(head) is not None


def find_later_tag(data: bytes, *, is_nvprof: bool = False) -> Tag | None:
    """Return the tag of later lines of a text, as `find_tag`; only lines near results are searched.

    Args:
        data: Whole lines.
        is_nvprof: Whether the text is one of nvprof: results of unitrace and trtexec are not searched for.
    """
    for result in _RESULTS if is_nvprof else (*_RESULTS, *_OTHER_RESULTS):
        position, tried = -1, 0
        while tried < _MAX_TRIED and (position := data.find(result, position + 1)) >= 0:
            line_start = data.rfind(b"\n", 0, position) + 1
            if _UNTAGGED_TITLE.fullmatch(data[line_start:position][:_HEADER_DISTANCE]):
                continue
            tried += 1
            if (tag := find_tag(data[line_start : position + _HEADER_DISTANCE])) is not None:
                return tag
    return None


def _tag_shape(tag: bytes, varying: re.Pattern[bytes] = _NUMBER) -> bytes:
    """Return the pattern of a tag with any numbers or times; blanks at its end are optional at the line's end."""
    bare = tag.rstrip(b" \t")
    blanks = tag[len(bare) :]
    shape, end = b"", 0
    for match in (*varying.finditer(bare), None):
        fixed = bare[end : match.start() if match else len(bare)]
        shape += b"".join(rb"[ \t]+" if part.isspace() else re.escape(part) for part in _WORDS.findall(fixed))
        if match:
            shape, end = shape + (rb"\d+" if match[0].isdigit() else _ANY_TIME), match.end()
    if tag[:1] in b" \t":
        shape = shape.replace(rb"[ \t]+", rb"[ \t]*", 1)
    return shape + (rb"(?:%s|$)" % re.escape(blanks) if blanks else b"")
