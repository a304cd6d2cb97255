"""Compilation of a query, for a set of columns, into a row mask; the global filter of all tables."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from operator import and_, or_
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.columns import Column, ColumnKind
from tui.query import text_search
from tui.query.facts import share_total
from tui.query.parse import parse, query_text
from tui.query.text_search import is_text
from tui.query.values import (
    BASE_UNIT,
    NO,
    UNITS,
    UNKNOWN,
    YES,
    And,
    Compare,
    Contains,
    Fuzzy,
    MatchAll,
    Node,
    Not,
    NumberRange,
    Operator,
    Or,
    Quantity,
    QueryError,
    Regex,
    Share,
    Span,
    quantity,
    typed_unit,
    unknown_mask,
)
from tui.text_width import clip

if TYPE_CHECKING:
    from tui.model.table_spec import TableSpec

Predicate = Callable[[text_search.TextRows], pl.Series]
"""A function from a frame to one boolean per row, never null."""

_SIGNS: Final = {
    Operator.CONTAINS: "=",
    Operator.EQUAL: "=",
    Operator.NOT_EQUAL: "≠",
    Operator.LESS: "<",
    Operator.AT_MOST: "≤",
    Operator.MORE: ">",
    Operator.AT_LEAST: "≥",
}
_ORDERS: Final = (Operator.LESS, Operator.AT_MOST, Operator.MORE, Operator.AT_LEAST)
_TOTALLED: Final = (ColumnKind.DURATION, ColumnKind.SIZE, ColumnKind.COUNT)
"""Kinds with a total, to which ``%`` refers."""

_SHOWN_NAME: Final = 40
"""The maximum number of characters of a mistyped column name in an error."""
_NAMED: Final = 5
"""Columns that an error suggests if none is similar."""


@dataclass(frozen=True, slots=True)
class Query:
    """A compiled query."""

    text: str
    """The text as typed."""

    node: Node
    """Its tree."""

    reading: str
    """The query as understood, as text: ``Duration > 1 ms``; empty for the empty query."""

    columns: frozenset[str]
    """The columns that it looks at."""

    _predicate: Predicate = field(repr=False, compare=False)

    @property
    def everything(self) -> bool:
        """Whether it is the empty query, which every row matches."""
        return isinstance(self.node, MatchAll)

    def mask(self, frame: pl.DataFrame) -> pl.Series:
        """Return one boolean per row of a frame with the compiled schema; never null."""
        return self._predicate(text_search.TextRows(frame))


def compile_query(
    text: str,
    *,
    columns: Sequence[Column],
    frame: pl.DataFrame,
    units: Mapping[str, str] | None = None,
    weight: str = "",
    searched: Collection[str] | None = None,
    excluded_sessions: Collection[int] = (),
) -> Query:
    """Compile a query for a table.

    Args:
        text: The query; an empty one matches every row.
        columns: The columns that a query can name, by the name in the frame, the title (in any case) or an alias.
        frame: The rows of the table: their types, and the totals that ``%`` refers to.
        units: For columns by name, the unit of a bare number (the displayed one).
        weight: The column whose total ``%`` refers to, for columns of its kind; others use their own.
        searched: The text columns that bare words search; None for all.
        excluded_sessions: Sessions that are excluded from the total that ``%`` refers to, if there are others.

    Raises:
        QueryError: It cannot be parsed; with the position.
    """
    compiler = _Compiler(columns, frame, units or {}, weight, searched, excluded_sessions)
    node = parse(text)
    predicate, reading = compiler.compile(node)
    return Query(text, node, reading, frozenset(compiler.used), predicate)


class _Compiler:
    """Turns nodes into predicates and readings."""

    def __init__(
        self,
        columns: Sequence[Column],
        frame: pl.DataFrame,
        units: Mapping[str, str],
        weight: str,
        searched: Collection[str] | None,
        excluded_sessions: Collection[int],
    ) -> None:
        self._columns = [column for column in columns if column.name in frame.columns]
        self._frame = frame
        self._units = units
        self._excluded_sessions = excluded_sessions
        self._weight = next((column for column in self._columns if column.name == weight), None)
        self._searched = [
            column.name
            for column in self._columns
            if text_search.is_text(frame.schema[column.name]) and (searched is None or column.name in searched)
        ]
        self.used: set[str] = set()

    def compile(self, node: Node) -> tuple[Predicate, str]:
        match node:
            case MatchAll():
                return (lambda rows: rows.all(True)), ""
            case Contains():
                test = text_search.contains(node.text, node.span)
                return self._anywhere(test, node.span), f"contains {_quoted(node.text)}"
            case Fuzzy():
                test = text_search.fuzzy(node.text, node.span)
                return self._anywhere(test, node.span), f"contains the letters {_quoted(node.text)} in order"
            case Regex():
                return self._regex(node)
            case Compare():
                return self._compare(node)
            case Not():
                inner, reading = self.compile(node.term)
                return (lambda rows: ~inner(rows)), f"not {_grouped(node.term, reading)}"
            case And():
                return self._combine(node.terms, and_, " and ")
            case Or():
                return self._combine(node.terms, or_, " or ")

    def _combine(
        self, terms: tuple[Node, ...], combine: Callable[[pl.Series, pl.Series], pl.Series], word: str
    ) -> tuple[Predicate, str]:
        compiled = [self.compile(term) for term in terms]
        reading = word.join(_grouped(term, reading) for term, (_, reading) in zip(terms, compiled, strict=True))
        return (lambda rows: reduce(combine, (predicate(rows) for predicate, _ in compiled))), reading

    def _anywhere(self, test: text_search.TextTest, span: Span) -> Predicate:
        searched = self._searched
        if not searched:
            raise QueryError("this table has no text to search", *span, hint="name a column, for example calls>10")
        self.used.update(searched)
        return lambda rows: rows.texts_anywhere(searched, test)

    def _regex(self, node: Regex) -> tuple[Predicate, str]:
        test = text_search.regex(node.pattern, node.span)
        if not node.column:
            return self._anywhere(test, node.span), f"matches /{node.pattern}/"
        column = self._column(node.column, node.column_span)
        if not self._is_text(column):
            hint = f"use {column.title} with = or !=, < or >"
            raise QueryError(f"{column.title} is not text: ~ searches text only", *node.column_span, hint=hint)
        return (lambda rows: rows.texts(column.name, test)), f"{column.title} matches /{node.pattern}/"

    def _compare(self, node: Compare) -> tuple[Predicate, str]:
        number = node.value.strip() if node.operator in _ORDERS else ""
        column = self._column(node.column, node.column_span, number=number if number[:1].isdecimal() else "")
        text = self._is_text(column)
        typed = node.value.strip().lower()
        is_unknown = typed in UNKNOWN if not text else typed == "?" and node.operator is not Operator.CONTAINS
        if is_unknown and not node.quoted:
            return self._compare_unknown(column, node)
        if text:
            return self._compare_text(column, node)
        if self._frame.schema[column.name] == pl.Boolean:
            return self._compare_flag(column, node, typed)
        return self._compare_number(column, node)

    def _compare_unknown(self, column: Column, node: Compare) -> tuple[Predicate, str]:
        if node.operator in _ORDERS:
            raise QueryError(
                f"{node.operator} compares numbers, and ? is not a number", *node.span, hint="use =? or !=?"
            )
        if node.operator is Operator.NOT_EQUAL:
            return (lambda rows: ~unknown_mask(rows.frame[column.name])), f"{column.title} is known"
        return (lambda rows: unknown_mask(rows.frame[column.name])), f"{column.title} is unknown"

    def _compare_text(self, column: Column, node: Compare) -> tuple[Predicate, str]:
        name, title, shown = column.name, column.title, _quoted(node.value)
        if node.operator in _ORDERS:
            message = f"{title} is text: {node.operator} compares numbers"
            raise QueryError(message, *node.column_span, hint='use : = != or ~, or put the text in "quotes"')
        if node.operator is Operator.CONTAINS:
            inside = text_search.contains(node.value, node.span)
            return (lambda rows: rows.texts(name, inside)), f"{title} contains {shown}"
        same = text_search.equals(node.value, exact=node.quoted)
        if node.operator is Operator.NOT_EQUAL:
            reading = f"{title} ≠ {shown}"
            return (lambda rows: rows.frame[name].is_not_null() & ~rows.texts(name, same)), reading
        return (lambda rows: rows.texts(name, same)), f"{title} = {shown}"

    def _compare_flag(self, column: Column, node: Compare, typed: str) -> tuple[Predicate, str]:
        if typed not in YES | NO or node.operator in _ORDERS:
            span = node.span if typed not in YES | NO else node.column_span
            raise QueryError(f"{column.title} is yes, no or ? (unknown)", *span, hint=f"for example {node.column}=yes")
        wants_true = (typed in YES) is not (node.operator is Operator.NOT_EQUAL)
        reading = f"{column.title} is {'yes' if wants_true else 'no'}"
        return (lambda rows: (rows.frame[column.name] == wants_true).fill_null(False)), reading

    def _compare_number(self, column: Column, node: Compare) -> tuple[Predicate, str]:
        dtype = self._frame.schema[column.name]
        if not dtype.is_numeric() and dtype != pl.Null:
            raise QueryError(f"{column.title} cannot be compared", *node.column_span)
        interval, reading = self._interval(column, node)
        name = column.name
        if node.operator is Operator.NOT_EQUAL:
            return (lambda rows: ~(unknown_mask(rows.frame[name]) | interval.holds(rows.frame[name]))), reading
        return (lambda rows: interval.holds(rows.frame[name])), reading

    def _interval(self, column: Column, node: Compare) -> tuple[NumberRange, str]:
        title, sign = column.title, _SIGNS[node.operator]
        if ".." in node.value and node.operator not in _ORDERS:
            return self._range(column, node)
        bound_quantity = self._quantity(column, node.value, node.span)
        value = bound_quantity.value
        interval = {
            Operator.LESS: NumberRange(high=value, high_open=True),
            Operator.AT_MOST: NumberRange(high=value),
            Operator.MORE: NumberRange(low=value, low_open=True),
            Operator.AT_LEAST: NumberRange(low=value),
        }.get(node.operator, NumberRange(low=value, high=value))
        return interval, f"{title} {sign} {bound_quantity.reading}"

    def _range(self, column: Column, node: Compare) -> tuple[NumberRange, str]:
        first, _, last = node.value.partition("..")
        start, end = node.span
        low_span, high_span = (start, start + len(first)), (end - len(last), end)
        if not first.strip() and not last.strip():
            raise QueryError("a range needs a limit", *node.span, hint="for example 10us..2ms, 10us.. or ..2ms")
        # In 10..20ms both are milliseconds.
        unit = typed_unit(last)
        low = self._quantity(column, first, low_span, unit=unit) if first.strip() else None
        high = self._quantity(column, last, high_span) if last.strip() else None
        if low and high and low.value > high.value:
            raise QueryError(f"the range is empty: {low.reading} is more than {high.reading}", *node.span)
        outside = "not " if node.operator is Operator.NOT_EQUAL else ""
        limits = f"from {low.reading} to {high.reading}" if low and high else ""
        if not limits:
            limits = f"at least {low.reading}" if low else f"at most {high.reading}" if high else ""
        interval = NumberRange(low=low.value if low else None, high=high.value if high else None)
        return interval, f"{column.title} {outside}{limits}"

    def _quantity(self, column: Column, text: str, span: Span, *, unit: str = "") -> Quantity:
        kind = _number_kind(column)
        share = self._share(column) if text.rstrip().endswith("%") or unit == "%" else None
        return quantity(
            text, kind, span, unit=unit or self._units.get(column.name, ""), share=share, title=column.title
        )

    def _share(self, column: Column) -> Share | None:
        if column.kind not in _TOTALLED:
            return None
        weight = self._weight if self._weight and self._weight.kind is column.kind else column
        total = share_total(self._frame, weight.name, self._excluded_sessions)
        return Share(total, BASE_UNIT.get(column.kind, "")) if total else None

    def _column(self, name: str, span: Span, *, number: str = "") -> Column:
        column = find_column(name, self._columns, weight=self._weight)
        if column is None:
            raise _no_column(name, span, self._columns, number)
        self.used.add(column.name)
        return column

    def _is_text(self, column: Column) -> bool:
        return text_search.is_text(self._frame.schema[column.name])


def find_column(name: str, columns: Sequence[Column], *, weight: Column | None = None) -> Column | None:
    """Return the column with a name, title (in any case) or alias.

    ``time`` is the column that shares refer to, if no column has that name.
    """
    lower = name.lower()
    exact = (column for column in columns if column.name == name)
    titled = (column for column in columns if lower in (column.title.lower(), column.name.lower()))
    aliased = (column for column in columns if lower in column.aliases)
    match = next(chain(exact, titled, aliased), None)
    if match is None and lower == "time":
        return weight
    return match


def _no_column(name: str, span: Span, columns: Sequence[Column], number: str) -> QueryError:
    unit = typed_unit(number).lower()
    fitting = [column for column in columns if not number or _takes_unit(column, unit)] or columns
    names = {spelling.lower(): spelling for column in fitting for spelling in reversed(spellings(column))}
    nearest = difflib.get_close_matches(name[:_SHOWN_NAME].lower(), names, n=1, cutoff=0.6)
    numbers = [spellings(column)[0] for column in fitting if _number_kind(column) is column.kind]
    if nearest:
        hint = f"did you mean {names[nearest[0]]}?"
    elif number and numbers:
        kind = "times" if unit in UNITS[ColumnKind.DURATION] else "numbers"
        hint = f"{kind} here: {', '.join(numbers[:_NAMED])}{', ...' if len(numbers) > _NAMED else ''}"
    else:
        hint = 'put text with : = < > ~ in "quotes"'
    return QueryError(f"no column {clip(name, _SHOWN_NAME)}", *span, hint=hint)


def _takes_unit(column: Column, unit: str) -> bool:
    """Return whether a column has numbers, which can have a unit (empty: none is typed)."""
    kind = _number_kind(column)
    has_unit = not unit or unit in UNITS.get(kind, ()) or (unit == "%" and kind in _TOTALLED)
    return kind is column.kind and has_unit


def spellings(column: Column) -> tuple[str, ...]:
    """Return the names of a column in queries, the shortest first."""
    return (*column.aliases, column.name, column.title)


def _number_kind(column: Column) -> ColumnKind:
    """Return the kind by which a number is parsed; a number in a text column is just a number."""
    return (
        column.kind if column.kind not in (ColumnKind.TEXT, ColumnKind.SYMBOL, ColumnKind.FLAG) else ColumnKind.NUMBER
    )


def _grouped(node: Node, reading: str) -> str:
    return f"({reading})" if isinstance(node, (And, Or)) else reading


def _quoted(text: str) -> str:
    return f'"{text}"{" (this case)" if text_search.smart_case(text) else ""}'


_ROW_TIME: Final = "time"
"""The name in queries of the column that shares refer to, in every table."""

_MEASURED: Final = (ColumnKind.DURATION, ColumnKind.TIME)
"""Kinds whose numbers without a unit have the unit of the shown column."""


def as_global_filter(text: str, *, columns: Sequence[Column], units: Mapping[str, str]) -> str:
    """Return a filter in a form for all tables: columns by frame name, times with their unit.

    Args:
        text: A filter of a table.
        columns: The columns of that table.
        units: For columns of times by name, the unit of a bare number.

    Raises:
        QueryError: It is not a query.

    >>> from tui.model.columns import columns
    >>> as_global_filter("total>100 gemm", columns=columns("name", "total_ns"), units={"total_ns": "ms"})
    'total_ns>100ms gemm'
    """
    return query_text(_spelled_out(parse(text), columns, units))


def apply_global_filter(
    text: str,
    frame: pl.DataFrame,
    spec: TableSpec,
    units: Mapping[str, str] | None = None,
    excluded_sessions: Collection[int] = (),
) -> tuple[pl.Series | None, str]:
    """Return the mask of a global filter for a table, or why it does not apply.

    It does not apply if the table lacks a column that the filter names, or has no names that its words could match.
    A table without columns has not been filled yet.
    """
    if not text or not frame.columns:
        return None, ""
    try:
        node = parse(text)
        if _has_words(node) and not _has_names(spec, frame):
            return None, "no names"
        query = compile_query(
            text,
            columns=spec.columns,
            frame=frame,
            units=units,
            weight=spec.weight,
            excluded_sessions=excluded_sessions,
        )
    except QueryError as error:
        return None, error.message
    return query.mask(frame), ""


def _has_names(spec: TableSpec, frame: pl.DataFrame) -> bool:
    """Return whether rows have names; otherwise a filter by name would match remarks."""
    return any(
        column.name in frame.columns
        and is_text(frame.schema[column.name])
        and (column.kind is ColumnKind.SYMBOL or column.name == spec.pinned)
        for column in spec.columns
    )


def _has_words(node: Node) -> bool:
    return any(
        isinstance(term, (Contains, Fuzzy)) or (isinstance(term, Regex) and not term.column) for term in _terms(node)
    )


def _terms(node: Node) -> Iterator[Node]:
    match node:
        case Not():
            yield from _terms(node.term)
        case And() | Or():
            for term in node.terms:
                yield from _terms(term)
        case _:
            yield node


def _spelled_out(node: Node, columns: Sequence[Column], units: Mapping[str, str]) -> Node:
    match node:
        case Not():
            return replace(node, term=_spelled_out(node.term, columns, units))
        case And() | Or():
            return replace(node, terms=tuple(_spelled_out(term, columns, units) for term in node.terms))
        case Compare():
            return _compare(node, columns, units)
        case Regex() if node.column:
            column = find_column(node.column, columns)
            return node if column is None else replace(node, column=column.name)
    return node


def _compare(node: Compare, columns: Sequence[Column], units: Mapping[str, str]) -> Compare:
    column = find_column(node.column, columns)
    if column is None:
        return node
    if node.column.lower() != _ROW_TIME:
        node = replace(node, column=column.name)
    if column.kind not in _MEASURED or node.quoted or node.value.strip().lower() in UNKNOWN:
        return node
    unit = units.get(column.name, BASE_UNIT[column.kind])
    ends = node.value.split("..")
    if typed_unit(ends[-1]):
        # In 10..20ms both are milliseconds.
        return node
    return replace(node, value="..".join(end if not end.strip() or typed_unit(end) else f"{end}{unit}" for end in ends))
