"""Completion of a query: column names, operators, values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.columns import Column, ColumnKind
from tui.query.compile import find_column, spellings
from tui.query.facts import ColumnFacts, frame_facts
from tui.query.parse import parse_tolerant, plain_or_quoted, quote, unquote
from tui.query.text_search import is_text

if TYPE_CHECKING:
    from lark import Token

_TEXT_OPERATORS: Final = (":", "=", "!=", "~")
_NUMBER_OPERATORS: Final = ("=", "!=", ">", ">=", "<", "<=")
_QUANTITY_OPERATORS: Final = (">", ">=", "<", "<=", "=", "!=")
_FLAG_OPERATORS: Final = ("=",)
_FLAGS: Final = ("yes", "no", "?")
_UNITS: Final = {
    ColumnKind.DURATION: ("ms", "us", "s", "ns"),
    ColumnKind.TIME: ("ms", "us", "s", "ns"),
    ColumnKind.SIZE: ("MiB", "KiB", "GiB", "B"),
    ColumnKind.RATE: ("GB/s", "MB/s", "GiB/s", "MiB/s"),
}
_MAX_NUMBERS: Final = 100
"""Numbers are offered only if a column has at most this many distinct ones."""

_PLAIN_NAME: Final = r"[^\W\d][\w.%]*"
"""A name that needs no quotes."""

_LONGEST: Final = 200
"""The most characters of a suggested value."""


class CompletionKind(StrEnum):
    """The kind of a completion."""

    COLUMN = "column"
    OPERATOR = "operator"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Completion:
    """A text that can complete a query."""

    text: str
    start: int
    """It replaces the query from here ..."""
    end: int
    """... to here, where the cursor is."""
    kind: CompletionKind
    help: str = ""
    """What it means (a column), or how many rows have it (a value)."""

    def apply_to(self, query: str) -> str:
        """Return the query with this completion."""
        return query[: self.start] + self.text + query[self.end :]


def complete(
    text: str, cursor: int, *, columns: Sequence[Column], frame: pl.DataFrame, limit: int = 20
) -> list[Completion]:
    """Return completions at the cursor, best first.

    Args:
        text: The query as typed so far.
        cursor: The position in it, in characters from 0.
        columns: The columns that the query can name.
        frame: The frame whose values are offered, those of most rows first.
        limit: The maximum number of results.
    """
    present = [column for column in columns if column.name in frame.columns]
    return list(islice(_completions(text[:cursor], present, frame), limit))


def best_completion(text: str, *, columns: Sequence[Column], frame: pl.DataFrame) -> str | None:
    """Return the query with the best completion that only appends to it, or None."""
    if not text or text[-1].isspace():
        return None
    for completion in complete(text, len(text), columns=columns, frame=frame, limit=50):
        longer = completion.apply_to(text)
        if longer.startswith(text) and longer != text:
            return longer
    return None


def column_term(column: Column, columns: Sequence[Column], frame: pl.DataFrame) -> tuple[str, str, frozenset[str]]:
    """Return the start of a term for a column, what can follow it, and how other operators begin.

    The term ends in an operator of one character, which another typed operator replaces.

    >>> from tui.model.columns import columns
    >>> some = columns("name", "calls")
    >>> column_term(some[1], some, pl.DataFrame({"name": ["a"], "calls": [1]}))[:2]
    ('calls>', 'a number, for example 10k; or < = =a..b')
    """
    present = [candidate for candidate in columns if candidate.name in frame.columns]
    plain = (name for name in (column.title.lower(), *spellings(column)) if re.fullmatch(_PLAIN_NAME, name))
    name = next((name for name in plain if find_column(name, present) is column), column.name)
    dtype = frame.schema[column.name]
    others = frozenset(operator[0] for operator in _operators(column, frame))
    if is_text(dtype):
        return f"{name}:", "part of the text; or = exact, ~ regex, !=", others
    if dtype == pl.Boolean:
        return f"{name}=", "1 yes, 0 no, ? unknown", others
    if column.kind in (ColumnKind.NUMBER, ColumnKind.MEASURE):
        return f"{name}=", "a number, ? unknown; or > < a..b", others
    example = {ColumnKind.PERCENT: "5%", ColumnKind.COUNT: "10k"}.get(column.kind)
    units = _UNITS.get(column.kind, ("",))
    return f"{name}>", f"a number, for example {example or f'1{units[0]}'}; or < = =a..b", others


def _completions(typed: str, columns: Sequence[Column], frame: pl.DataFrame) -> Iterator[Completion]:
    tokens, _, _ = parse_tolerant(typed)
    rest_start = _end(tokens[-1]) if tokens else 0
    remainder = typed[rest_start:].lstrip()
    types = [token.type for token in tokens[-3:]]
    if remainder:
        # Not valid so far: only an open quote after an operator can be completed.
        if remainder.startswith('"') and types[-1:] == ["OPERATOR"]:
            yield from _values(tokens[-2], remainder, len(typed), columns, frame)
    elif types[-1:] == ["OPERATOR"]:
        yield from _values(tokens[-2], "", len(typed), columns, frame)
    elif rest_start == len(typed) and types[-2:] in (["OPERATOR", "VALUE"], ["OPERATOR", "QUOTED"]):
        yield from _values(tokens[-3], str(tokens[-1]), len(typed), columns, frame)
    elif rest_start == len(typed) and types[-1:] == ["WORD"]:
        yield from _columns(str(tokens[-1]), len(typed), columns, frame)
        yield from _word_completions(str(tokens[-1]), len(typed), columns, frame)
    elif rest_start < len(typed) or not types or types[-1] in ("_OPEN", "_OR", "_NOT"):
        yield from _columns("", len(typed), columns, frame)


def _end(token: Token) -> int:
    return (token.start_pos or 0) + len(token)


def _columns(prefix: str, end: int, columns: Sequence[Column], frame: pl.DataFrame) -> Iterator[Completion]:
    start = end - len(prefix)
    named = find_column(prefix, columns)
    lower = prefix.lower()
    for column in columns:
        if column is named:
            continue
        # Titles of several words need quotes, but there is always a plain name.
        fitting = [name for name in spellings(column) if name.lower().startswith(lower)]
        plain = next((name for name in fitting if re.fullmatch(_PLAIN_NAME, name)), None)
        if plain is not None:
            same_case = plain.lower() if plain.lower().startswith(prefix) else plain
            yield Completion(same_case, start, end, CompletionKind.COLUMN, column.help)
    if named is not None:
        for operator in _operators(named, frame):
            yield Completion(prefix + operator, start, end, CompletionKind.OPERATOR)


def _operators(column: Column, frame: pl.DataFrame) -> tuple[str, ...]:
    dtype = frame.schema[column.name]
    if is_text(dtype):
        return _TEXT_OPERATORS
    if dtype == pl.Boolean:
        return _FLAG_OPERATORS
    return _NUMBER_OPERATORS if column.kind in (ColumnKind.NUMBER, ColumnKind.MEASURE) else _QUANTITY_OPERATORS


def _word_completions(prefix: str, end: int, columns: Sequence[Column], frame: pl.DataFrame) -> Iterator[Completion]:
    """Return values of the text columns that continue a bare word."""
    for column in columns:
        if is_text(frame.schema[column.name]):
            for value, count in _text_values(frame_facts(frame)[column.name], prefix, anywhere=False):
                yield Completion(plain_or_quoted(value), end - len(prefix), end, CompletionKind.VALUE, _rows(count))


def _values(
    column_token: Token, typed: str, end: int, columns: Sequence[Column], frame: pl.DataFrame
) -> Iterator[Completion]:
    name = unquote(column_token) if column_token.type == "QUOTED_COLUMN" else str(column_token)
    column = find_column(name, columns)
    if column is None:
        return
    start = end - len(typed)
    values = frame[column.name]
    if is_text(values.dtype):
        prefix = unquote(typed + '"') if typed.startswith('"') else typed
        for value, count in _text_values(frame_facts(frame)[column.name], prefix, anywhere=True):
            text = quote(value) if typed.startswith('"') else plain_or_quoted(value)
            yield Completion(text, start, end, CompletionKind.VALUE, _rows(count))
    elif values.dtype == pl.Boolean:
        yield from (
            Completion(flag, start, end, CompletionKind.VALUE) for flag in _FLAGS if flag.startswith(typed.lower())
        )
    elif column.kind in _UNITS:
        if typed[-1:].isdecimal():
            yield from (Completion(typed + unit, start, end, CompletionKind.VALUE) for unit in _UNITS[column.kind])
    else:
        yield from _numbers(frame_facts(frame)[column.name], typed, start, end)


def _numbers(facts: ColumnFacts, typed: str, start: int, end: int) -> Iterator[Completion]:
    if facts.distinct_values(_MAX_NUMBERS) is not None:
        counts = facts.values.drop_nulls().value_counts(sort=True, name="rows")
        for number, count in counts.iter_rows():
            if str(number).startswith(typed):
                yield Completion(str(number), start, end, CompletionKind.VALUE, _rows(count))


def _text_values(facts: ColumnFacts, prefix: str, *, anywhere: bool) -> Iterator[tuple[str, int]]:
    """Return distinct values that start with the typed text (then those that contain it), most frequent first."""
    texts = facts.counts.filter(pl.col("value").str.len_chars() <= _LONGEST)
    lower, typed = pl.col("value").str.to_lowercase(), prefix.lower()
    begins = lower.str.starts_with(typed)
    fitting = texts.filter(lower.str.contains(typed, literal=True) if anywhere else begins)
    yield from fitting.sort(begins, "rows", "value", descending=[True, True, False]).head(50).iter_rows()


def _rows(count: int) -> str:
    return f"{count:,} row" + "s" * (count != 1)
