"""Columns that a table of a profiler lacks, though the profiler writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol


class HasTables(Protocol):
    """Tables with columns and rows."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""

    def count(self, table: str) -> int:
        """Rows of a table."""


def missing_columns(held: HasTables, always: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Each table with rows that lacks columns, and what to say of them.

    Args:
        held: What the input holds.
        always: The columns that each table has as the profiler writes it.
    """
    for table, columns in always.items():
        lacking = [column for column in columns if column not in held.tables.get(table, columns)]
        if lacking and held.count(table):
            yield (
                table,
                f"the table lacks columns that the profiler writes ({', '.join(lacking)}): what they tell is unknown",
            )
