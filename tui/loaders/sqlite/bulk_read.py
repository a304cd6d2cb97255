"""Reads many rows of a table in bulk: ranges of row ids in threads, straight from SQLite into Polars."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.sqlite.open_readonly import immutable_uri

if TYPE_CHECKING:
    from pathlib import Path

    import adbc_driver_manager

RANGE_ROWS: Final = 1 << 16
"""Row ids in a range: hundredths of a second of work, after which a stop is heard, and one batch of the driver."""
MOST_RANGES: Final = 4096
"""However far apart the row ids of a table are."""
_MOST_THREADS: Final = 4

Types = Mapping[str, pl.DataType | type[pl.DataType]]


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def ranges(first: int, last: int) -> list[tuple[int, int]]:
    """Cut row ids ``first`` to ``last`` into ranges, both ends of each included.

    >>> ranges(1, 5)
    [(1, 5)]
    """
    span = last - first + 1
    size = max(RANGE_ROWS, -(-span // MOST_RANGES))
    return [(low, min(low + size - 1, last)) for low in range(first, last + 1, size)]


class TableBulkReader:
    """Reads ranges of a table; each thread has a connection of its own."""

    def __init__(self, path: Path) -> None:
        """Read a file, which nobody writes to."""
        self._path = path
        self._local = threading.local()
        self._connections: list[tuple[adbc_driver_manager.AdbcDatabase, adbc_driver_manager.AdbcConnection]] = []
        self._lock = threading.Lock()

    def read(
        self, table: str, rowid: str, types: Types, parts: Sequence[tuple[int, int]]
    ) -> Iterator[pl.DataFrame | None]:
        """The rows of each part, in order; None for one with a value of another type, or that cannot be read.

        Args:
            table: Its name; it is a table with row ids.
            rowid: What it calls them.
            types: The columns wanted, which the table has.
            parts: Row ids, first and last.
        """
        statement = _statement(table, rowid, types)
        threads = min(_MOST_THREADS, os.cpu_count() or 1)
        with ThreadPoolExecutor(threads) as pool:
            waiting = iter(parts)
            # No further ahead than the threads can work: a stop then has little to wait for.
            running: list[Future[pl.DataFrame | None]] = [
                pool.submit(self._range, statement, types, part) for part in islice(waiting, threads + 1)
            ]
            try:
                while running:
                    done = running.pop(0).result()
                    running.extend(pool.submit(self._range, statement, types, part) for part in islice(waiting, 1))
                    yield done
            finally:
                for one in running:
                    one.cancel()

    def close(self) -> None:
        """Let go of the file."""
        for database, connection in self._connections:
            connection.close()
            database.close()
        self._connections.clear()

    def _range(self, statement: str, types: Types, part: tuple[int, int]) -> pl.DataFrame | None:
        import adbc_driver_manager

        try:
            asked = adbc_driver_manager.AdbcStatement(self._connection())
            try:
                asked.set_options(**{"adbc.sqlite.query.batch_rows": str(RANGE_ROWS)})
                asked.set_sql_query(statement.format(*part))
                stream, _ = asked.execute_query()
                data = pl.DataFrame(stream)
            finally:
                asked.close()
        except (adbc_driver_manager.Error, pl.exceptions.PolarsError, OSError, RuntimeError):
            return None
        return _typed(data, types)

    def _connection(self) -> adbc_driver_manager.AdbcConnection:
        connection: adbc_driver_manager.AdbcConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            import adbc_driver_manager
            import adbc_driver_sqlite

            database = adbc_driver_sqlite.connect(immutable_uri(self._path))
            connection = adbc_driver_manager.AdbcConnection(database)
            for setting in ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON"):
                asked = adbc_driver_manager.AdbcStatement(connection)
                asked.set_sql_query(f"PRAGMA {setting}")
                asked.execute_update()
                asked.close()
            self._local.connection = connection
            with self._lock:
                self._connections.append((database, connection))
        return connection


def is_text(dtype: pl.DataType | type[pl.DataType]) -> bool:
    """Whether a column is read as text."""
    return dtype == pl.String or dtype == pl.Categorical


def _statement(table: str, rowid: str, types: Types) -> str:
    """The query, with room for the first and the last row id."""
    columns = ", ".join(_asked_as(name, dtype) for name, dtype in types.items()).replace("{", "{{").replace("}", "}}")
    name = quoted(table).replace("{", "{{").replace("}", "}}")
    # An index may say other things than the table.
    query = f"SELECT {columns} FROM {name} NOT INDEXED WHERE {rowid} BETWEEN {{}} AND {{}}"
    if all(_sample(dtype) == "0" for dtype in types.values()):
        return query
    # The driver tells types by the first rows: this one, which is taken away again, has them all.
    return f"SELECT {', '.join(_sample(dtype) for dtype in types.values())} UNION ALL {query}"


def _asked_as(name: str, dtype: pl.DataType | type[pl.DataType]) -> str:
    # As bytes, since nobody has looked whether the text of the file is UTF-8.
    return f"CAST({quoted(name)} AS BLOB)" if is_text(dtype) or dtype == pl.Binary else quoted(name)


def _sample(dtype: pl.DataType | type[pl.DataType]) -> str:
    if is_text(dtype) or dtype == pl.Binary:
        return "x'00'"
    return "0.5" if dtype.is_float() else "0"


def _typed(data: pl.DataFrame, types: Types) -> pl.DataFrame | None:
    """Name and cast what the driver gave; None where a column is not of the type that was asked for."""
    data.columns = list(types)
    samples = {_sample(dtype): dtype for dtype in types.values()}
    if set(samples) != {"0"}:
        data = data.slice(1)
    given = {"0": pl.Int64, "0.5": pl.Float64, "x'00'": pl.Binary}
    if any(data.schema[name] != given[_sample(dtype)] for name, dtype in types.items()):
        return None
    fitted = data.select(_cast(data[name], dtype) for name, dtype in types.items())
    return fitted if fitted.null_count().equals(data.null_count()) else None


def _cast(column: pl.Series, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    if not is_text(dtype):
        return column.cast(dtype, strict=False)
    try:
        return column.cast(pl.String).cast(dtype)
    except pl.exceptions.PolarsError:
        texts = [None if raw is None else str(raw, "utf-8", "replace") for raw in column.to_list()]
        return pl.Series(column.name, texts, pl.String).cast(dtype)
