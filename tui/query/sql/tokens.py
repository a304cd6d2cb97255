"""The words of an SQL text: which tables it names, and what it must not hold."""

from __future__ import annotations

import itertools
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
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)"""
    r"""|(?P<text>'(?:[^']|'')*(?:'|\Z)|(?P<fence>\$\w*\$).*?(?:(?P=fence)|\Z))"""
    r"""|(?P<quoted>"(?:[^"]|"")*(?:"|\Z)|`[^`]*(?:`|\Z))"""
    r"""|(?P<word>[^\W\d][\w$@#]*)"""
    r"""|(?P<other>\d[\w.]*|\S)""",
    re.DOTALL,
)


def tokens(text: str) -> Iterator[Token]:
    r"""The pieces of an SQL text, without white space and comments.

    >>> [str(token.text) for token in tokens("select 'a -- b' -- a word\nfrom \"x\"")]
    ['select', "'a -- b'", 'from', 'x']
    """
    for found in _TOKENS.finditer(text):
        kind = next((name for name in TokenKind if found[name] is not None), None)
        if kind is not None:
            piece = found[kind][1:-1] if kind is TokenKind.QUOTED else found[kind]
            yield Token(kind, piece, found.start(), found.end())


def names_in(text: str) -> set[str]:
    """Every name in an SQL text in lower case, of tables, columns and functions alike, and its key words."""
    return {token.text.lower() for token in tokens(text) if token.kind in (TokenKind.WORD, TokenKind.QUOTED)}


def called_functions(text: str) -> list[str]:
    """The names, in lower case, that a parenthesis follows."""
    found = list(tokens(text))
    return [
        token.text.lower()
        for token, after in itertools.pairwise(found)
        if after.text == "(" and token.kind in (TokenKind.WORD, TokenKind.QUOTED)
    ]
