"""Reads the rows of a table: in bulk by threads straight into Polars, or one by one around damage and mixed types."""

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

from tui.loaders.sqlite.open_readonly import DAMAGE, SAFE_SETTINGS, immutable_uri

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import adbc_driver_manager


RANGE_ROWS: Final = 1 << 16
"""Row ids in a range: one batch of the driver, after which a stop takes effect."""
MAX_RANGES: Final = 4096
"""The maximum number of ranges of a table, however sparse its row ids are."""
_MAX_THREADS: Final = 4

Types = Mapping[str, pl.DataType | type[pl.DataType]]


def quote_identifier(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def ranges(first_id: int, last_id: int, max_rows: int) -> list[tuple[int, int]]:
    """Split row ids ``first_id`` to ``last_id`` into ranges, both ends included.

    There are no more ranges than ``max_rows``, which the table can have at most, could fill: sparse ids give wide ones.

    >>> ranges(1, 5, 100)
    [(1, 5)]
    """
    span = last_id - first_id + 1
    size = max(RANGE_ROWS, -(-span // min(MAX_RANGES, -(-max_rows // RANGE_ROWS))))
    return [(low, min(low + size - 1, last_id)) for low in range(first_id, last_id + 1, size)]


class TableBulkReader:
    """Reads ranges of a table in threads, each with its own connection."""

    def __init__(self, path: Path) -> None:
        """Open a file that is not being written."""
        self._path = path
        self._local = threading.local()
        self._connections: list[tuple[adbc_driver_manager.AdbcDatabase, adbc_driver_manager.AdbcConnection]] = []
        self._lock = threading.Lock()

    def read(
        self, table: str, rowid: str, types: Types, row_ranges: Sequence[tuple[int, int]]
    ) -> Iterator[pl.DataFrame | None]:
        """Yield the rows of each range, in order; None for a range that is unreadable or has another type.

        Args:
            table: The name of a table with row ids.
            rowid: The name of its row id column.
            types: The columns to read, all of which exist.
            row_ranges: The first and last row id of each range.
        """
        statement = _statement(table, rowid, types)
        threads = min(_MAX_THREADS, os.cpu_count() or 1)
        with ThreadPoolExecutor(threads) as pool:
            waiting = iter(row_ranges)
            # Only as many as there are threads, so that a stop takes effect soon.
            running: list[Future[pl.DataFrame | None]] = [
                pool.submit(self._range, statement, types, row_range) for row_range in islice(waiting, threads + 1)
            ]
            try:
                while running:
                    data = running.pop(0).result()
                    running.extend(
                        pool.submit(self._range, statement, types, row_range) for row_range in islice(waiting, 1)
                    )
                    yield data
            finally:
                for task in running:
                    task.cancel()

    def close(self) -> None:
        """Close the file."""
        for database, connection in self._connections:
            connection.close()
            database.close()
        self._connections.clear()

    def _range(self, statement: str, types: Types, row_range: tuple[int, int]) -> pl.DataFrame | None:
        """Return the rows of a range of row ids; None if it is unreadable or has another type."""
        import adbc_driver_manager

        try:
            query = adbc_driver_manager.AdbcStatement(self._connection())
            try:
                query.set_options(**{"adbc.sqlite.query.batch_rows": str(RANGE_ROWS)})
                query.set_sql_query(statement.format(*row_range))
                stream, _ = query.execute_query()
                data = pl.DataFrame(stream)
            finally:
                query.close()
        except (adbc_driver_manager.Error, pl.exceptions.PolarsError, OSError, RuntimeError):
            return None
        return _typed(data, types)

    def _connection(self) -> adbc_driver_manager.AdbcConnection:
        """Return the connection of this thread."""
        connection: adbc_driver_manager.AdbcConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            import adbc_driver_manager
            import adbc_driver_sqlite

            database = adbc_driver_sqlite.connect(immutable_uri(self._path))
            connection = adbc_driver_manager.AdbcConnection(database)
            for setting in SAFE_SETTINGS:
                pragma = adbc_driver_manager.AdbcStatement(connection)
                pragma.set_sql_query(f"PRAGMA {setting}")
                pragma.execute_update()
                pragma.close()
            self._local.connection = connection
            with self._lock:
                self._connections.append((database, connection))
        return connection


def is_text_column(dtype: pl.DataType | type[pl.DataType]) -> bool:
    """Return whether a column is read as text."""
    return dtype == pl.String or dtype == pl.Categorical


def _statement(table: str, rowid: str, types: Types) -> str:
    """Return the query, with placeholders for the first and the last row id."""
    columns = (
        ", ".join(_select_expression(name, dtype) for name, dtype in types.items())
        .replace("{", "{{")
        .replace("}", "}}")
    )
    name = quote_identifier(table).replace("{", "{{").replace("}", "}}")
    # A damaged index may contradict the table.
    query = f"SELECT {columns} FROM {name} NOT INDEXED WHERE {rowid} BETWEEN {{}} AND {{}}"
    if all(_sample(dtype) == "0" for dtype in types.values()):
        return query
    # The driver infers types from the first row: this sample row, removed afterwards, has them all. It also names the
    # columns, which must differ.
    sample = ", ".join(f"{_sample(dtype)} AS column_{number}" for number, dtype in enumerate(types.values()))
    return f"SELECT {sample} UNION ALL {query}"


def _select_expression(name: str, dtype: pl.DataType | type[pl.DataType]) -> str:
    # As bytes, since the text may not be valid UTF-8.
    return (
        f"CAST({quote_identifier(name)} AS BLOB)"
        if is_text_column(dtype) or dtype == pl.Binary
        else quote_identifier(name)
    )


def _sample(dtype: pl.DataType | type[pl.DataType]) -> str:
    if is_text_column(dtype) or dtype == pl.Binary:
        return "x'00'"
    return "0.5" if dtype.is_float() else "0"


def _typed(data: pl.DataFrame, types: Types) -> pl.DataFrame | None:
    """Name and cast the columns of the driver; None if a column has another type."""
    data.columns = list(types)
    samples = {_sample(dtype): dtype for dtype in types.values()}
    if set(samples) != {"0"}:
        data = data.slice(1)
    probe_types = {"0": pl.Int64, "0.5": pl.Float64, "x'00'": pl.Binary}
    if any(data.schema[name] != probe_types[_sample(dtype)] for name, dtype in types.items()):
        return None
    fitted = data.select(_cast(data[name], dtype) for name, dtype in types.items())
    return fitted if fitted.null_count().equals(data.null_count()) else None


def _cast(column: pl.Series, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    if not is_text_column(dtype):
        return column.cast(dtype, strict=False)
    try:
        return column.cast(pl.String).cast(dtype)
    except pl.exceptions.PolarsError:
        texts = [None if raw is None else str(raw, "utf-8", "replace") for raw in column.to_list()]
        return pl.Series(column.name, texts, pl.String).cast(dtype)


Rows = list[tuple[Any, ...]]

_CHUNK_ROWS: Final = 1 << 14
_MAX_QUERIES: Final = 4096
"""The maximum number of bisections of damaged ranges to find readable rows."""
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_MAX_EXACT_INTEGER: Final = 1 << 53
"""Smaller integers are exact as floats."""
_MIN_BISECTED_ROWS: Final = 8
"""Unreadable ranges of at most this many row ids are not bisected further."""


@dataclass(slots=True)
class Salvaged:
    """The readable rows of a range."""

    data: pl.DataFrame
    lost_row_ids: int = 0
    """The number of row ids in unreadable ranges: at most this many rows are lost."""
    reason: str = ""
    unfit: Counter[str] = field(default_factory=Counter)
    """The number of values of another type by column; they became null."""


def salvage_range(
    connection: sqlite3.Connection,
    table: str,
    rowid: str,
    types: Types,
    row_range: tuple[int, int],
    keep_going: Callable[[int], bool],
) -> Salvaged:
    """Return the readable rows of a range of row ids, in order.

    Args:
        connection: The database.
        table: A table with row ids.
        rowid: The name of its row id column.
        types: The columns to read, all of which exist; a value of another type becomes null.
        row_range: The first and last row id.
        keep_going: Gets the number of rows read; if it returns False, reading stops.
    """
    source = f"{quote_identifier(table)} NOT INDEXED"
    query = f"SELECT {_columns(types)} FROM {source} WHERE {rowid} BETWEEN ? AND ? ORDER BY {rowid}"
    frames_by_start: dict[int, pl.DataFrame] = {}
    result = Salvaged(pl.DataFrame(schema=dict(types)))
    pending = deque([row_range])
    queries = 0
    while pending:
        low, high = pending.popleft()
        queries += 1
        chunks: list[pl.DataFrame] = []
        unfit: Counter[str] = Counter()
        is_stopped = False
        try:
            for rows in _chunks(connection.execute(query, (low, high))):
                chunks.append(typed(rows, types, unfit))
                if not keep_going(len(rows)):
                    is_stopped = True
                    break
        except DAMAGE as error:
            is_stopped = _is_stop(error)
            if not is_stopped:
                result.reason = result.reason or str(error)
                if high - low < _MIN_BISECTED_ROWS or queries >= _MAX_QUERIES:
                    result.lost_row_ids += high - low + 1
                    continue
                middle = (low + high) // 2
                # The rows that were read before the damage are read again.
                pending.extend(((low, middle), (middle + 1, high)))
                continue
        result.unfit.update(unfit)
        if chunks:
            frames_by_start[low] = pl.concat(chunks)
        if is_stopped:
            break
    if frames_by_start:
        result.data = pl.concat(frames_by_start[low] for low in sorted(frames_by_start))
    return result


def salvage_table(
    connection: sqlite3.Connection, table: str, types: Types, keep_going: Callable[[int], bool]
) -> Salvaged:
    """Return the rows of a table without known row ids, up to the first unreadable one."""
    result = Salvaged(pl.DataFrame(schema=dict(types)))
    chunks: list[pl.DataFrame] = []
    try:
        for rows in _chunks(connection.execute(f"SELECT {_columns(types)} FROM {quote_identifier(table)} NOT INDEXED")):
            chunks.append(typed(rows, types, result.unfit))
            if not keep_going(len(rows)):
                break
    except DAMAGE as error:
        result.reason = "" if _is_stop(error) else str(error)
    if chunks:
        result.data = pl.concat(chunks)
    return result


def typed(rows: Rows, types: Types, unfit: Counter[str]) -> pl.DataFrame:
    """Return rows as a frame: a number in a text column becomes text, other values of a wrong type become null.

    ``unfit`` counts values of a wrong type by column.
    """
    columns = zip(*rows, strict=True) if rows else ((),) * len(types)
    fitted = []
    for (name, dtype), values in zip(types.items(), columns, strict=True):
        fitted.append(pl.Series(name, _fitting(values, dtype), _wide(dtype)).cast(dtype, strict=False))
        if lost := fitted[-1].null_count() - values.count(None):
            unfit[name] += lost
    return pl.DataFrame(fitted)


def _is_stop(error: Exception) -> bool:
    """Return whether a query was interrupted; errors that Python itself raises have no code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_INTERRUPT


def _chunks(cursor: sqlite3.Cursor) -> Iterator[Rows]:
    while rows := cursor.fetchmany(_CHUNK_ROWS):
        yield rows


def _columns(types: Types) -> str:
    return ", ".join(map(quote_identifier, types))


def _wide(dtype: pl.DataType | type[pl.DataType]) -> type[pl.DataType]:
    if is_text_column(dtype):
        return pl.String
    if dtype == pl.Binary:
        return pl.Binary
    return pl.Float64 if dtype.is_float() else pl.Int64


def _fitting(values: Sequence[Any], dtype: pl.DataType | type[pl.DataType]) -> list[Any]:
    if is_text_column(dtype):
        return [value if type(value) is str else _as_text(value) for value in values]
    if dtype == pl.Binary:
        return [value if type(value) is bytes else _as_bytes(value) for value in values]
    if dtype.is_float():
        return [float(value) if type(value) in (int, float) else None for value in values]
    return [value if type(value) is int else _as_integer(value) for value in values]


def _as_integer(value: Any) -> int | None:
    """Return an integer that was converted to text or float, as by a copy via CSV; None for other values."""
    if type(value) is float and value.is_integer() and abs(value) < _MAX_EXACT_INTEGER:
        return int(value)
    return int(value) if type(value) is str and _INTEGER.fullmatch(value) else None


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value, "utf-8", "replace") if type(value) is bytes else str(value)


def _as_bytes(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()
