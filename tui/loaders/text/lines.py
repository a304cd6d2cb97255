"""Splits a stream of bytes into pieces of whole lines, limits the length of lines, and detects the encoding."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_FIRST: Final = 1 << 20
"""The size of the first piece, small so that work can start early; each next one is twice as large."""


@dataclass(frozen=True, slots=True)
class LinePiece:
    """Whole lines; all end with a newline, which is added to the last line of a stream if necessary."""

    data: bytes
    covered: int
    """The bytes of the stream that it stands for; not those of `data` if a line was cut or a newline added."""
    cut_line_size: int = 0
    """The full size of its last line if only its beginning is in `data`; otherwise 0."""
    ends_within_line: bool = False
    """Whether the stream ends here without a newline, so that the last one in `data` was added."""


def _never() -> bool:
    return False


def whole_lines(
    chunks: Iterable[bytes], *, piece_size: int, line_limit: int, is_late: Callable[[], bool] = _never
) -> Iterator[LinePiece]:
    """Split a stream into pieces of about ``piece_size`` bytes; the first ones are smaller.

    Of a line longer than ``line_limit`` bytes only the first are used, and its piece ends there. While the rest of such
    a line is skipped, an empty piece is returned for every chunk. If ``is_late`` returns True, a piece ends with the
    bytes received.
    """
    pending: list[bytes] = []
    held, wanted = 0, min(piece_size, _FIRST)
    beginning = b""  # of an overlong line that has not ended yet
    passed = 0  # bytes of that line
    for chunk in chunks:
        rest = chunk
        if beginning:
            end = chunk.find(b"\n")
            if end < 0:
                passed += len(chunk)
                yield LinePiece(b"", 0)
                continue
            passed += end
            yield LinePiece(beginning + b"\n", passed + 1, passed)
            beginning, rest = b"", chunk[end + 1 :]
        pending.append(rest)
        held += len(rest)
        if held < wanted and not is_late():
            continue
        wanted = min(piece_size, 2 * wanted)
        data, rest = _split(pending)
        yield from _with_lines_cut(data, line_limit)
        if len(rest) > line_limit:
            beginning, passed, rest = _beginning(rest, line_limit), len(rest), b""
        pending, held = [rest] if rest else [], len(rest)
    if beginning:
        yield LinePiece(beginning + b"\n", passed, passed)
        return
    data = b"".join(pending)
    if not data or data.endswith(b"\n"):
        yield from _with_lines_cut(data, line_limit)
        return
    *pieces, last = _with_lines_cut(data + b"\n", line_limit)
    yield from pieces
    yield replace(last, covered=last.covered - 1, ends_within_line=True)


def _split(parts: list[bytes]) -> tuple[bytes, bytes]:
    """The whole lines in some parts, and the rest; a single part of whole lines is not copied."""
    end = parts[-1].rfind(b"\n") + 1
    if end:
        # Joining bytes releases the GIL; joining views would not.
        return b"".join((*parts[:-1], parts[-1][:end])), parts[-1][end:]
    whole = b"".join(parts)
    end = whole.rfind(b"\n") + 1
    return whole[:end], whole[end:]


def _with_lines_cut(data: bytes, limit: int) -> Iterator[LinePiece]:
    """Whole lines as pieces; each overlong line ends a piece."""
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
    """The first bytes of a line, cut between characters."""
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


def encoding_of(head: bytes) -> Encoding:
    """The encoding of an input that begins with ``head``; UTF-8 by default.

    UTF-16 without a mark is recognized by zero bytes: every other byte of mostly Latin text.
    """
    if head.startswith(codecs.BOM_UTF8):
        return Encoding("utf-8", 3)
    if head.startswith(codecs.BOM_UTF16_LE):
        return Encoding("utf-16-le", 2)
    if head.startswith(codecs.BOM_UTF16_BE):
        return Encoding("utf-16-be", 2)
    first, second = head[:_SAMPLE:2], head[1:_SAMPLE:2]
    if len(second) >= 2:
        zeros_first, zeros_second = first.count(0) / len(first), second.count(0) / len(second)
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
    """Whether lines end with carriage returns alone, as in spreadsheets saved for classic Mac OS."""
    return head.count(b"\r") > 1 and b"\n" not in head and b"\0" not in head


def with_newlines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Convert carriage returns to newlines; CR LF becomes one newline."""
    held = b""
    for chunk in chunks:
        data = held + chunk
        held = b"\r" if data.endswith(b"\r") else b""
        yield _BARE_RETURN.sub(b"\n", data[: len(data) - len(held)])
    if held:
        yield b"\n"
