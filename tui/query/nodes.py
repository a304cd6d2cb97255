"""A query as a tree of values. Where a node stands in its text does not count when two are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Span = tuple[int, int]
"""Start and end in the text, in characters from 0."""


class Operator(StrEnum):
    """What stands between a column and its value."""

    CONTAINS = ":"
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Everything:
    """The empty query."""


@dataclass(frozen=True, slots=True)
class Contains:
    """A bare word or a phrase: any visible text column contains it."""

    text: str
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """The characters occur in this order in any visible text column."""

    text: str
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression in Rust's syntax; in one column, or in any visible text column where that is empty.

    A slash in the pattern stands for itself (it is escaped in the text only).
    """

    pattern: str
    column: str = ""
    span: Span = field(default=(0, 0), compare=False)
    column_span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """A column against a value, as it was typed."""

    column: str
    operator: Operator
    value: str
    quoted: bool = False
    """In quotes: a text as it stands, upper and lower case told apart, never "unknown" and never a range."""
    span: Span = field(default=(0, 0), compare=False)
    """Of the value."""
    column_span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Rows that the term does not match, those with unknown values among them."""

    term: Node


@dataclass(frozen=True, slots=True)
class Both:
    """Rows that all terms match."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Rows that any of the terms matches."""

    terms: tuple[Node, ...]


Node = Everything | Contains | Fuzzy | Regex | Compare | Not | Both | Either
