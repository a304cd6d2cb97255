"""A database that somebody else wrote: opened read-only, asked for its real tables alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import polars as pl

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from types import TracebackType

MAGIC: Final = b"SQLite format 3\0"


class Database:
    """An SQLite file, read-only."""

    tables: Mapping[str, tuple[str, ...]]
    """The columns of every table that holds rows itself; views and virtual tables are not among them."""
    views: frozenset[str]
    """The names of its views, which are never asked: a table that is missing here may be one of them."""

    def __init__(self, path: Path, called: str) -> None:
        """Open a file.

        Args:
            path: Where it lies.
            called: What messages call it.

        Raises:
            ProftuiError: It is no database, or damaged, or locked.
        """
        self.called = called
        try:
            self._connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
            objects = self._connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
            names = [name for kind, name, sql in objects if kind == "table" and not _is_virtual(sql)]
            self.tables = {name: self._columns(name) for name in names}
            self.views = frozenset(name for kind, name, _ in objects if kind == "view")
        except sqlite3.Error as error:
            raise ProftuiError(f"{called}: cannot be read as an SQLite database ({error})") from error

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with these columns."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def count(self, table: str) -> int:
        """Rows of a table; 0 where there is no such table."""
        if table not in self.tables:
            return 0
        return int(self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0])

    def frame(self, table: str, schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
        """Columns of a table in the order of its rows, with the types asked for.

        A column, or the whole table, that is missing gives nulls (no rows); a value of another type becomes null.
        """
        columns = [name for name in schema if name in self.tables.get(table, ())]
        if not columns:
            return pl.DataFrame(schema=dict(schema))
        wanted = ", ".join(map(_quoted, columns))
        rows = self._connection.execute(f"SELECT {wanted} FROM {_quoted(table)}").fetchall()
        data = pl.DataFrame(rows, schema={name: schema[name] for name in columns}, orient="row", strict=False)
        return data.select(
            pl.col(name) if name in columns else pl.lit(None, dtype).alias(name) for name, dtype in schema.items()
        )

    def _columns(self, table: str) -> tuple[str, ...]:
        return tuple(row[1] for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})"))


def _is_virtual(sql: str | None) -> bool:
    return sql is not None and sql.lstrip().upper().startswith("CREATE VIRTUAL")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


Rows = Sequence[tuple[Any, ...]]
