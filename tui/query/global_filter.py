"""The global filter: written so that it means the same in every view, and applied where it can be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tui.model.columns import Column, ColumnKind
from tui.query.compile import compile_query, find_column
from tui.query.nodes import Both, Compare, Contains, Either, Fuzzy, Node, Not, QueryError, Regex
from tui.query.parse import parse
from tui.query.texts import is_text
from tui.query.values import BASE_UNIT, UNKNOWN, unit_of
from tui.query.write import write

if TYPE_CHECKING:
    import polars as pl

    from tui.model.table_spec import TableSpec


_OF_THE_ROW: Final = "time"
"""What a query calls the column that shares are taken of, in every table."""

_MEASURED: Final = (ColumnKind.DURATION, ColumnKind.TIME)
"""Kinds whose bare numbers are in the unit that the column happens to be shown in."""


def as_global_filter(text: str, *, columns: Sequence[Column], units: Mapping[str, str]) -> str:
    """A filter as it is to be carried: columns by their own names, times with the unit that they are read in here.

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
    return write(_spelled_out(parse(text), columns, units))


def apply_global_filter(
    text: str,
    frame: pl.DataFrame,
    spec: TableSpec,
    units: Mapping[str, str] | None = None,
    excluded_sessions: Collection[int] = (),
) -> tuple[pl.Series | None, str]:
    """Which rows of a table a carried filter keeps, or why it does not apply to the table.

    It does not where the table lacks a column that the filter names, or has no names that its words could stand in.
    """
    if not text:
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
    """Whether rows go by names: a filter by name would else be looked for in remarks."""
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
        case Both() | Either():
            for term in node.terms:
                yield from _terms(term)
        case _:
            yield node


def _spelled_out(node: Node, columns: Sequence[Column], units: Mapping[str, str]) -> Node:
    match node:
        case Not():
            return replace(node, term=_spelled_out(node.term, columns, units))
        case Both() | Either():
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
    if node.column.lower() != _OF_THE_ROW:
        node = replace(node, column=column.name)
    if column.kind not in _MEASURED or node.quoted or node.value.strip().lower() in UNKNOWN:
        return node
    unit = units.get(column.name, BASE_UNIT[column.kind])
    ends = node.value.split("..")
    if unit_of(ends[-1]):
        # In 10..20ms both are milliseconds.
        return node
    return replace(node, value="..".join(end if not end.strip() or unit_of(end) else f"{end}{unit}" for end in ends))
