"""An SQLite database of a profiler: opened read-only; only real tables are read, no views or virtual tables."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import polars as pl

from tui.loaders.base import keep_going
from tui.loaders.collector import Collector
from tui.loaders.input_issues import FILE_CHANGED, InputIssue
from tui.loaders.sqlite.open_readonly import DAMAGE, MAGIC, open_database
from tui.loaders.sqlite.read_rows import (
    Salvaged,
    TableBulkReader,
    Types,
    quote_identifier,
    ranges,
    salvage_range,
    salvage_table,
)
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tui.loaders.base import Format, ProgressCallback
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile


Value = TypeVar("Value")


def fold_case(name: str) -> str:
    """Return a name in the case folding of SQLite (ASCII only).

    >>> fold_case("StringIds") == fold_case("STRINGIDS"), fold_case("\u00c4") == fold_case("\u00e4")
    (True, False)
    """
    return str(name.encode("utf-8", "surrogatepass").lower(), "utf-8", "surrogatepass")


class CaselessNames(tuple[str, ...]):
    """Names as in the file; membership ignores letter case."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and fold_case(name) in map(fold_case, self)


class CaselessMapping(Mapping[str, Value]):
    """Values by names as in the file; lookup ignores letter case."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Store the values."""
        self._values = {fold_case(name): value for name, value in values.items()}
        self._names = tuple(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[fold_case(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_MIN_BULK_ROWS: Final = 20_000
"""The bulk reader pays off from this many rows."""
_MAX_OBJECTS: Final = 10_000
"""The maximum number of tables and views; profilers make a few dozen."""
_STEPS_PER_CHECK: Final = 1_000_000
"""Steps of SQLite's virtual machine between checks for a stop."""
_BYTES_PER_VALUE: Final = 3
"""Estimated bytes of a value in the file, for progress."""

_ROW_ID_NAMES: Final = ("rowid", "_rowid_", "oid")


def _keep_going(_rows: int) -> bool:
    return True


class Database:
    """An SQLite file, read-only."""

    tables: Mapping[str, CaselessNames]
    """The columns of every real table, without views and virtual tables.

    Lookup ignores letter case, as in SQLite.
    """
    views: CaselessNames
    """The names of its views, which are never read; a missing table may be one of them."""
    virtual_tables: CaselessNames
    """The names of its virtual tables, which are never read."""
    notes: list[InputIssue]
    """Problems: a log beside it, damage, a view in place of a table; complete after reading."""
    rows_read: int
    """Rows read, in all tables."""
    bytes_read: int
    """The estimated bytes of these rows in the file."""
    keep_going: Callable[[int], bool]
    """Gets the number of rows read; if it returns False, reading stops and the rows read are used."""

    def __init__(self, path: Path, display_name: str, *, keep_going: Callable[[int], bool] = _keep_going) -> None:
        """Open a file.

        Args:
            path: Its path.
            display_name: Its name for messages.
            keep_going: Gets the number of rows read; if it returns False, reading stops and the rows read are used.

        Raises:
            ProftuiError: It is no database, is unreadable, or another process is writing to it.
        """
        self.display_name = display_name
        self.rows_read = 0
        self.bytes_read = 0
        self.keep_going = keep_going
        self._stopped = False
        self._bulk: TableBulkReader | None = None
        self._reported: set[str] = set()
        self._unfit: Counter[str] = Counter()
        self._opened = open_database(path, display_name)
        self.notes = self._opened.notes
        self._connection = self._opened.connection
        self._connection.set_progress_handler(self._should_stop, _STEPS_PER_CHECK)
        try:
            self._read_table_names()
        except (sqlite3.Error, *DAMAGE) as error:
            self._opened.close()
            raise ProftuiError(f"{display_name}: cannot be read as an SQLite database ({error})") from error
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bulk is not None:
            self._bulk.close()
        if self._opened.has_changed():
            self.notes.append(FILE_CHANGED)
        self._opened.close()

    def has(self, table: str, *columns: str) -> bool:
        """Return whether a table exists with these columns."""
        return table in self.tables and all(column in self.tables[table] for column in columns)

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 if it does not exist or is unreadable."""
        if table not in self.tables or self._stopped:
            return 0
        try:
            return int(
                self._connection.execute(f"SELECT count(*) FROM {quote_identifier(table)} NOT INDEXED").fetchone()[0]
            )
        except DAMAGE:
            return sum(data.height for data in self._row_blocks(table, {self.tables[table][0]: pl.Binary}))

    def frame(self, table: str, schema: Types, on_rows: Callable[[pl.DataFrame], None] | None = None) -> pl.DataFrame:
        """Return columns of a table in row order, with the given types.

        A missing column gives nulls, a missing table no rows; a value of another type becomes null. Rows
        that are damaged are omitted. `notes` reports both. ``on_rows`` gets parts of the existing
        columns while the rest is read.
        """
        self._report_views(table)
        columns = {name: dtype for name, dtype in schema.items() if name in self.tables.get(table, ())}
        if not columns:
            return pl.DataFrame(schema=dict(schema))
        self._unfit.clear()
        frames = []
        for block in self._row_blocks(table, columns):
            frames.append(block)
            if on_rows is not None:
                on_rows(block)
        self._report_unfit(table)
        data = pl.concat(frames) if frames else pl.DataFrame(schema=columns)
        return data.select(
            pl.col(name) if name in columns else pl.lit(None, dtype).alias(name) for name, dtype in schema.items()
        )

    def _row_blocks(self, table: str, types: Types) -> Iterator[pl.DataFrame]:
        """Yield the rows of a table, in parts."""
        if self._should_stop():
            return
        rowid = next((name for name in _ROW_ID_NAMES if name not in self.tables[table]), None)
        span = self._row_ids(table, rowid) if rowid is not None else None
        if rowid is None or span is None:
            yield self._salvage(table, salvage_table(self._connection, table, types, self._progress_check(table)))
            return
        first_id, last_id = span
        if last_id < first_id:
            return
        parts = ranges(first_id, last_id, self._max_rows())
        if last_id - first_id < _MIN_BULK_ROWS or self._opened.is_damaged or not self._is_plain:
            bulk_frames: Iterator[pl.DataFrame | None] = iter([None] * len(parts))
        else:
            if self._bulk is None:
                self._bulk = TableBulkReader(self._opened.path)
            bulk_frames = self._bulk.read(table, rowid, types, parts)
        count_rows = self._progress_check(table)
        for row_range, data in zip(parts, bulk_frames, strict=True):
            if data is None:
                data = self._salvage(
                    table,
                    salvage_range(self._connection, table, rowid, types, row_range, count_rows),
                    row_range=row_range,
                )
                yield data
                if self._should_stop():
                    return
            else:
                yield data
                if not count_rows(data.height):
                    return

    def _row_ids(self, table: str, rowid: str) -> tuple[int, int] | None:
        """Return the first and the last row id; None if there are none or they are unreadable."""
        name = quote_identifier(table)
        try:
            # Two queries: each reads only one end of the table.
            first_id = self._connection.execute(f"SELECT min({rowid}) FROM {name}").fetchone()[0]
            last_id = self._connection.execute(f"SELECT max({rowid}) FROM {name}").fetchone()[0]
        except sqlite3.OperationalError:
            return None
        except DAMAGE:
            # One end is unreadable. Row ids count from 1.
            return 1, self._max_rows()
        return (1, 0) if type(first_id) is not int or type(last_id) is not int else (first_id, last_id)

    def _max_rows(self) -> int:
        """Return how many rows the file can have at most: each takes some bytes."""
        return max(1, self._opened.size // 4)

    def _progress_check(self, table: str) -> Callable[[int], bool]:
        """Return a function that counts rows of a table and checks for a stop."""
        width = _BYTES_PER_VALUE * len(self.tables[table])

        def count_rows(rows: int) -> bool:
            self.rows_read += rows
            self.bytes_read += rows * width
            if not self._stopped and not self.keep_going(self.rows_read):
                self._stopped = True
            return not self._stopped

        return count_rows

    def _should_stop(self) -> bool:
        if not self._stopped and not self.keep_going(self.rows_read):
            self._stopped = True
        return self._stopped

    def _salvage(self, table: str, result: Salvaged, *, row_range: tuple[int, int] | None = None) -> pl.DataFrame:
        self._unfit.update(result.unfit)
        if result.reason and not self._stopped:
            rows = f"up to {result.lost_row_ids:,} rows" if row_range is not None else "the rows after those shown"
            self.notes.append(
                InputIssue("error", None, table, f"damaged table ({result.reason}): {rows} could not be read")
            )
        return result.data

    def _report_unfit(self, table: str) -> None:
        for column, count in self._unfit.items():
            name = f"{table}.{column}"
            if name not in self._reported:
                self._reported.add(name)
                reason = f"{plural(count, 'value')} of the wrong type or too large: skipped"
                self.notes.append(InputIssue("warning", None, name, reason))

    def _report_views(self, table: str) -> None:
        kind = "a view" if table in self.views else "a virtual table" if table in self.virtual_tables else ""
        if kind and table not in self._reported:
            self._reported.add(table)
            self.notes.append(
                InputIssue("warning", None, table, f"this is {kind}, not a table as profilers write: not read")
            )

    def _read_table_names(self) -> None:
        """Read the names of tables, their columns, and the names of views."""
        objects = self._connection.execute(
            f"SELECT type, name, substr(sql, 1, 40) FROM sqlite_master "
            f"WHERE type IN ('table', 'view') LIMIT {_MAX_OBJECTS + 1}"
        ).fetchall()
        if len(objects) > _MAX_OBJECTS:
            raise ProftuiError(
                f"{self.display_name}: no profile found: a database with more than {_MAX_OBJECTS:,} tables"
            )
        self.views = CaselessNames(name for kind, name, _ in objects if kind == "view")
        tables = {name: _is_virtual(sql) for kind, name, sql in objects if kind == "table"}
        self.virtual_tables = CaselessNames(name for name, is_virtual in tables.items() if is_virtual)
        columns = {name: self._columns(name) for name, is_virtual in tables.items() if not is_virtual}
        self.tables = CaselessMapping({name: names for name, names in columns.items() if names})
        # The bulk reader reads text as stored in the file.
        self._is_plain = self._connection.execute("PRAGMA encoding").fetchone()[0] == "UTF-8"

    def _columns(self, table: str) -> CaselessNames:
        """Return the stored columns, without generated ones."""
        try:
            table_columns = self._connection.execute(f"PRAGMA table_xinfo({quote_identifier(table)})").fetchall()
        except DAMAGE:
            return CaselessNames()
        return CaselessNames(row[1] for row in table_columns if not row[6])


def _is_virtual(sql: str | None) -> bool:
    return sql is not None and sql.lstrip().upper().startswith("CREATE VIRTUAL")


class HasTables(Protocol):
    """Tables with columns and rows."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""

    def count(self, table: str) -> int:
        """Return rows of a table."""


def missing_columns(database: HasTables, required_columns: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield each table that has rows but not all columns, with the reason for an issue.

    Args:
        database: The tables of the input.
        required_columns: The columns that the profiler always writes.
    """
    for table, columns in required_columns.items():
        missing = [column for column in columns if column not in database.tables.get(table, columns)]
        if missing and database.count(table):
            yield (
                table,
                f"columns missing from the table ({', '.join(missing)}): their values are unknown",
            )


class DatabaseFormat(Protocol):
    """A format whose files are SQLite databases."""

    @property
    def format(self) -> Format:
        """The description of the format."""

    def claims(self, database: Database) -> bool:
        """Return whether the tables are of this format."""

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add the database to the collector as one or more sessions.

        It calls ``source.keep_going(rows)`` between tables and stops reading if that returns False.

        Raises:
            ProftuiError: The tables hold no profile.
        """


class DatabaseLoader:
    """Reads SQLite databases of any number of formats."""

    def __init__(self, database_formats: Sequence[DatabaseFormat]) -> None:
        self._database_formats = tuple(database_formats)

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that this loader recognizes."""
        return tuple(candidate.format for candidate in self._database_formats)

    def only(self, format_name: str) -> DatabaseLoader | None:
        """Return a loader restricted to one of its formats, or None."""
        matching = [candidate for candidate in self._database_formats if candidate.format.name == format_name]
        return DatabaseLoader(matching) if matching else None

    def probe(self, head: bytes, name: str) -> float:
        """Return certain by the first bytes."""
        return 1.0 if head.startswith(MAGIC) else 0.0

    def claimed_format(self, source: InputFile) -> str:
        """Return the name of the format of a database by its tables; empty if none of them claims it.

        A compressed one is not unpacked for that.
        """
        if source.compression is not None:
            return "compressed SQLite"
        with Database(source.file(), source.display_name, keep_going=source.keep_going) as database:
            return next(
                (candidate.format.name for candidate in self._database_formats if candidate.claims(database)), ""
            )

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the database.

        Raises:
            ProftuiError: It cannot be read, or no format claims it.
        """
        source.set_on_progress(on_progress)
        path = source.file()
        unpacked = path != Path(source.name)

        def keep_going(rows: int) -> bool:
            if not unpacked and source.size is not None:
                # The position in the file is unknown; the size of the rows read is an estimate.
                source.bytes_read = max(source.bytes_read, min(database.bytes_read, source.size))
            return source.keep_going(rows)

        database = Database(path, source.display_name, keep_going=source.keep_going)
        with database:
            database.keep_going = keep_going
            database_format = next(
                (candidate for candidate in self._database_formats if candidate.claims(database)), None
            )
            if database_format is None:
                tables = ", ".join(sorted(database.tables)[:8]) or "no tables"
                raise ProftuiError(
                    f"{source.display_name}: no profile found: an SQLite database with {tables}", FORMATS_HINT
                )
            collector = Collector(source.name, source.preview)
            try:
                database_format.read(database, collector, source)
            except ProftuiError as error:
                raise _damage_error(error, source, database) from error
        collector.add_issues([*source.notes, *database.notes])
        return collector.profile(partial=source.partial)


def _damage_error(error: ProftuiError, source: InputFile, database: Database) -> ProftuiError:
    """Return the error for an unusable database; for a damaged one it names the damage."""
    damage = next((note for note in (*source.notes, *database.notes) if note.severity == "error"), None)
    if damage is None:
        return error
    damage_text = damage.reason.partition("; the readable ")[0]
    return ProftuiError(f"{source.display_name}: cannot be read: {damage_text}", "copy or export it again")
