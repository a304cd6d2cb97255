"""Reads rows one by one: small tables, columns of mixed types, and rows around damaged pages."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.sqlite.bulk_read import Types, is_text, quoted
from tui.loaders.sqlite.open_readonly import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
