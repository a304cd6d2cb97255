"""Reads many rows of a table in bulk: ranges of row ids in threads, straight from SQLite into Polars."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.sqlite.open_readonly import DAMAGE, immutable_uri

if TYPE_CHECKING:
    from collections.abc import Callable
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


Rows = list[tuple[Any, ...]]

_CHUNK_ROWS: Final = 1 << 14
_MOST_QUERIES: Final = 4096
"""So often damaged parts of a table are cut in two to find what can be read around the damage."""
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_EXACT: Final = 1 << 53
"""Whole numbers below this are exact as floats."""
_FEW_ROWS: Final = 8
"""Parts of so few row ids are given up where they cannot be read."""


@dataclass(slots=True)
class Salvaged:
    """What a part of a table gave."""

    data: pl.DataFrame
    lost_row_ids: int = 0
    """How many row ids lie in what could not be read: as many rows at most."""
    why: str = ""
    stopped: bool = False
    unfit: Counter[str] = field(default_factory=Counter)
    """Columns with values of another type than was asked for, and how many: they became null."""


def read_part(
    connection: sqlite3.Connection,
    table: str,
    rowid: str,
    types: Types,
    part: tuple[int, int],
    keep_going: Callable[[int], bool],
) -> Salvaged:
    """The rows with some row ids, as far as they can be read, in order.

    Args:
        connection: Of the database.
        table: A table with row ids.
        rowid: What it calls them.
        types: The columns wanted, which the table has; a value of another type becomes null.
        part: First and last row id.
        keep_going: Told of rows read; its False ends the reading.
    """
    query = f"SELECT {_columns(types)} FROM {quoted(table)} NOT INDEXED WHERE {rowid} BETWEEN ? AND ? ORDER BY {rowid}"
    found: dict[int, pl.DataFrame] = {}
    result = Salvaged(pl.DataFrame(schema=dict(types)))
    parts = deque([part])
    queries = 0
    while parts:
        low, high = parts.popleft()
        queries += 1
        chunks: list[pl.DataFrame] = []
        try:
            for rows in _chunks(connection.execute(query, (low, high))):
                chunks.append(typed(rows, types, result.unfit))
                if not keep_going(len(rows)):
                    result.stopped = True
                    break
        except DAMAGE as error:
            if _is_stop(error):
                result.stopped = True
                found[low] = pl.concat([result.data, *chunks])
                break
            result.why = result.why or str(error)
            if high - low < _FEW_ROWS or queries >= _MOST_QUERIES:
                result.lost_row_ids += high - low + 1
                continue
            middle = (low + high) // 2
            parts.extend(((low, middle), (middle + 1, high)))
            continue
        if chunks:
            found[low] = pl.concat(chunks)
        if result.stopped:
            break
    if found:
        result.data = pl.concat(found[low] for low in sorted(found))
    return result


def read_whole(connection: sqlite3.Connection, table: str, types: Types, keep_going: Callable[[int], bool]) -> Salvaged:
    """The rows of a table without row ids, or whose row ids are not known, up to the first that cannot be read."""
    result = Salvaged(pl.DataFrame(schema=dict(types)))
    chunks: list[pl.DataFrame] = []
    try:
        for rows in _chunks(connection.execute(f"SELECT {_columns(types)} FROM {quoted(table)} NOT INDEXED")):
            chunks.append(typed(rows, types, result.unfit))
            if not keep_going(len(rows)):
                result.stopped = True
                break
    except DAMAGE as error:
        result.stopped = _is_stop(error)
        result.why = "" if result.stopped else str(error)
    if chunks:
        result.data = pl.concat(chunks)
    return result


def typed(rows: Rows, types: Types, unfit: Counter[str]) -> pl.DataFrame:
    """Rows as a frame: a number in a column of text becomes its text, anything else that does not fit null.

    ``unfit`` counts by column what did not fit.
    """
    columns = zip(*rows, strict=True) if rows else ((),) * len(types)
    fitted = []
    for (name, dtype), values in zip(types.items(), columns, strict=True):
        fitted.append(pl.Series(name, _fitting(values, dtype), _wide(dtype)).cast(dtype, strict=False))
        if lost := fitted[-1].null_count() - values.count(None):
            unfit[name] += lost
    return pl.DataFrame(fitted)


def _is_stop(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_INTERRUPT


def _chunks(cursor: sqlite3.Cursor) -> Iterator[Rows]:
    while rows := cursor.fetchmany(_CHUNK_ROWS):
        yield rows


def _columns(types: Types) -> str:
    return ", ".join(map(quoted, types))


def _wide(dtype: pl.DataType | type[pl.DataType]) -> type[pl.DataType]:
    if is_text(dtype):
        return pl.String
    if dtype == pl.Binary:
        return pl.Binary
    return pl.Float64 if dtype.is_float() else pl.Int64


def _fitting(values: Sequence[Any], dtype: pl.DataType | type[pl.DataType]) -> list[Any]:
    if is_text(dtype):
        return [value if type(value) is str else _as_text(value) for value in values]
    if dtype == pl.Binary:
        return [value if type(value) is bytes else _as_bytes(value) for value in values]
    if dtype.is_float():
        return [float(value) if type(value) in (int, float) else None for value in values]
    return [value if type(value) is int else _as_integer(value) for value in values]


def _as_integer(value: Any) -> int | None:
    """What a copy of a database by way of CSV or another program made of a whole number; None where it is none."""
    if type(value) is float and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return int(value) if type(value) is str and _INTEGER.fullmatch(value) else None


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value, "utf-8", "replace") if type(value) is bytes else str(value)


def _as_bytes(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()
