"""Relevance of columns: which ones carry information about the rows at hand, and their priority."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tui.model.columns import columns_by_priority
from tui.query.facts import facts_of

if TYPE_CHECKING:
    import polars as pl

    from tui.model.columns import Column
    from tui.model.view import TableSpec
    from tui.query.facts import ColumnFacts

CONTEXT_COLUMNS: Final = frozenset({"session", "kind"})
"""Columns that distinguish rows where they differ, and say nothing where they are the same in all rows."""

SESSION_NAME_COLUMN: Final = "who"
"""The column that names the session of a row, where a table has it."""
SESSION_PRIORITY: Final = 0
"""The priority of a session where there are several: no figure says anything without it."""
UNINFORMATIVE_PRIORITY: Final = 99
"""The priority of a column that says nothing here."""


def informative_columns(spec: TableSpec, rows: pl.DataFrame) -> tuple[list[Column], list[Column]]:
    """The columns of a table that say something, and those that are unknown in every row.

    Session and kind are left out where they are the same in all rows, and what tells something only where it is more
    than 0 where it is so in none.
    """
    shown, unknown = [], []
    for column in spec.columns:
        if column.name != spec.pinned and rows[column.name].null_count() == rows.height:
            unknown.append(column)
        elif _is_informative(column, facts_of(rows)[column.name]):
            shown.append(column)
    return shown, unknown


def _is_informative(column: Column, facts: ColumnFacts) -> bool:
    """Whether a column of which something is known says anything about the rows."""
    if column.only_above_zero:
        return (facts.extent[1] or 0) > 0
    return column.name not in CONTEXT_COLUMNS or facts.distinct_count > 1


def prioritized(spec: TableSpec, rows: pl.DataFrame) -> tuple[Column, ...]:
    """The columns of a table that the rows have, with the priority that they deserve for these rows.

    What says nothing here goes last, unless it is read against what does; a session, where there are several and no
    other column names it, stays with the names that it tells apart.
    """
    present = replace(spec, columns=tuple(column for column in spec.columns if column.name in rows.columns))
    if rows.is_empty():
        return present.columns
    telling = {column.name for column in informative_columns(present, rows)[0]}
    groups = columns_by_priority(present.columns)
    told = {column.name for group in groups for column in group if any(one.name in telling for one in group)}
    is_named = any(column.name == SESSION_NAME_COLUMN for column in present.columns)
    return tuple(
        replace(column, priority=UNINFORMATIVE_PRIORITY)
        if column.name not in told
        else replace(column, priority=SESSION_PRIORITY)
        if column.name == "session" and not is_named
        else column
        for column in present.columns
    )
