"""The words of an SQL text that is being typed: for completion, for names of columns and for messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class TokenKind(StrEnum):
    """What a piece of SQL is."""

    WORD = "word"
    QUOTED = "quoted"
    """A name in double quotes or backticks."""
    TEXT = "text"
    """A text in single quotes, or between two of ``$$`` or ``$word$``."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an SQL text."""

    kind: TokenKind
    text: str
    """As it stands; of a quoted name, what is in the quotes."""
    start: int
    """In characters from 0."""
    end: int
    """Behind its last character."""


_TOKENS: Final = re.compile(
    r"""(?P<comment>--[^\n]*|/\*)"""
    r"""|(?P<text>'(?:[^']|'')*(?:'|\Z)|(?P<fence>\$\w*\$).*?(?:(?P=fence)|\Z))"""
    r"""|(?P<quoted>"(?:[^"]|"")*(?:"|\Z)|`[^`]*(?:`|\Z))"""
    r"""|(?P<word>[^\W\d][\w$@#]*)"""
    r"""|(?P<other>\d[\w.]*|\S)""",
    re.DOTALL,
)
_COMMENT_ENDS: Final = re.compile(r"/\*|\*/")


def tokens(text: str) -> Iterator[Token]:
    r"""The pieces of an SQL text, without white space and comments; comments may hold others.

    >>> [str(token.text) for token in tokens("select 'a -- b' -- a word\nfrom /* /* x */ */ \"x\"")]
    ['select', "'a -- b'", 'from', 'x']
    """
    place = 0
    while found := _TOKENS.search(text, place):
        place = found.end()
        if found["comment"] == "/*":
            place = _end_of_comment(text, place)
        kind = next((name for name in TokenKind if found[name] is not None), None)
        if kind is not None:
            piece = found[kind][1:-1] if kind is TokenKind.QUOTED else found[kind]
            yield Token(kind, piece, found.start(), found.end())


def _end_of_comment(text: str, place: int) -> int:
    depth = 1
    for found in _COMMENT_ENDS.finditer(text, place):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    return len(text)


def names_in(text: str) -> set[str]:
    """Every name in an SQL text in lower case, of tables, columns and functions alike, and its key words."""
    return {token.text.lower() for token in tokens(text) if token.kind in (TokenKind.WORD, TokenKind.QUOTED)}
