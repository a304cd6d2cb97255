"""The syntax tree of a query, and the error that names the place of a mistake in its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tui.model.errors import ProftuiError

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
    """In quotes: a text as it stands, case-sensitive, never "unknown" and never a range."""
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


class QueryError(ProftuiError):
    """A query that cannot be understood.

    Args:
        message: One short line.
        start: Where the fault starts in the query, in characters from 0.
        end: Where it ends; never before ``start``.
        hint: What to write instead, or empty.
    """

    def __init__(self, message: str, start: int, end: int, *, hint: str = "") -> None:
        super().__init__(message, hint)
        self.start = start
        self.end = max(start, end)

    @property
    def column(self) -> int:
        """Where the fault starts, counted from 1."""
        return self.start + 1
