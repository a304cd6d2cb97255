"""Which encoding a text has, told from its first bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = 4096
"""Bytes in which zeros are counted."""
_BARE_RETURN: Final = re.compile(rb"\r(?!\n)")


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding, and the length of the byte order mark that the input begins with."""

    name: str
    """utf-8, utf-16-le or utf-16-be."""
    mark_size: int = 0
    """Bytes of the mark; 0 where there is none."""


def encoding_of(head: bytes) -> Encoding:
    """The encoding of an input that begins with ``head``; UTF-8 where nothing speaks for another.

    UTF-16 without a mark is known by its zero bytes: every other byte of mostly Latin text.
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
    """The same text as UTF-8 without the mark; UTF-8 itself passes through, damaged or not."""
    skip = encoding.mark_size
    decoder = None if encoding.name == "utf-8" else codecs.getincrementaldecoder(encoding.name)("replace")
    for chunk in chunks:
        data = chunk[skip:] if skip else chunk
        skip = max(0, skip - len(chunk))
        yield data if decoder is None else decoder.decode(data).encode()
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode()


def has_bare_returns(head: bytes) -> bool:
    """Whether carriage returns alone end the lines of a text that begins so, as spreadsheets save it for old Macs."""
    return head.count(b"\r") > 1 and b"\n" not in head and b"\0" not in head


def with_newlines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text with newlines for carriage returns; where both stand together, the newline is enough."""
    held = b""
    for chunk in chunks:
        data = held + chunk
        held = b"\r" if data.endswith(b"\r") else b""
        yield _BARE_RETURN.sub(b"\n", data[: len(data) - len(held)])
    if held:
        yield b"\n"
