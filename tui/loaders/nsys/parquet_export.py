"""Reads the export of Nsight Systems as a folder with one Parquet file per table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format, LoadProgress, ProgressCallback, keep_going
from tui.loaders.collector import Collector
from tui.loaders.nsys.export_tables import CALLS, COPIES, KERNELS, RANGES, STRINGS, OnRows, Types
from tui.loaders.nsys.nsys_export import FEEDS, read_export
from tui.model.errors import ProftuiError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

_SUFFIX: Final = ".parquet"
_MAGIC: Final = b"PAR1"
_MAX_FILES: Final = 1000
"""The maximum number of files; Nsight writes a few dozen."""
_MIN_CHECKED_ROWS: Final = 1 << 20
_MAX_ROWS_PER_BYTE: Final = 16
"""The maximum number of rows per byte that compression reaches; a file that claims more is damaged."""

_UNREADABLE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
"""Exceptions of Polars for damaged files."""


class ParquetTables:
    """The tables of an export folder."""

    tables: Mapping[str, tuple[str, ...]]
    """The columns of each table."""
    damage: dict[str, str]
    """Why a table could not be read completely, by table."""

    def __init__(self, path: Path, keep_reading: Callable[[int, int], bool]) -> None:
        """Read the schemas of the files.

        Args:
            path: The folder.
            keep_reading: Gets the bytes and rows read; if it returns False, reading stops.
        """
        self.display_name = str(path)
        self.damage = {}
        self.bytes_read = 0
        self.rows_read = 0
        self._keep_reading = keep_reading
        self._stopped = False
        self._files: dict[str, Path] = {}
        tables: dict[str, tuple[str, ...]] = {}
        for file in _files(path):
            try:
                schema = _scan(file).collect_schema()
                rows = _scan(file).select(pl.len()).collect().item()
                size = file.stat().st_size
            except _UNREADABLE as error:
                self.damage[file.stem] = f"cannot be read ({first_line(error)})"
                continue
            if rows > max(_MIN_CHECKED_ROWS, _MAX_ROWS_PER_BYTE * size):
                self.damage[file.stem] = f"claims {rows:,} rows in {size:,} bytes and was not read"
                continue
            tables[file.stem] = tuple(name for name, dtype in schema.items() if _is_number_or_text(dtype))
            if unsupported := [f"{name} ({dtype})" for name, dtype in schema.items() if name not in tables[file.stem]]:
                self.damage[file.stem] = (
                    f"has columns that are neither numbers nor strings: {', '.join(unsupported)[:160]}"
                )
            self._files[file.stem] = file
        self.tables = tables

    def has(self, table: str, *columns: str) -> bool:
        """Return whether a table exists with these columns."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 if it does not exist."""
        if table not in self._files:
            return 0
        return int(_scan(self._files[table]).select(pl.len()).collect().item())

    def frame(self, table: str, schema: Types, on_rows: OnRows | None = None) -> pl.DataFrame:
        """Return columns of a table in row order; missing columns and values of another type become null."""
        columns = [name for name in schema if name in self.tables.get(table, ())]
        if not columns or self._stopped:
            return pl.DataFrame(schema=dict(schema))
        try:
            data = _scan(self._files[table]).select(columns).collect()
        except _UNREADABLE as error:
            self.damage[table] = f"cannot be read ({first_line(error)})"
            return pl.DataFrame(schema=dict(schema))
        self.bytes_read += self._files[table].stat().st_size
        self.rows_read += data.height
        self._stopped = not self._keep_reading(self.bytes_read, self.rows_read)
        typed = data.select(
            _cast_or_null(data[name], dtype) if name in columns else pl.lit(None, dtype).alias(name)
            for name, dtype in schema.items()
        )
        if on_rows is not None:
            on_rows(typed)
        return typed


class NsysFolderLoader:
    """Reads Parquet exports; a folder is not recognized by first bytes."""

    formats: Final = (
        Format(
            name="nsys-parquet",
            title="Nsight Systems Parquet export (a folder)",
            recognized_by="a folder with one Parquet file per Nsight Systems table (StringIds.parquet, ...)",
            feeds=FEEDS,
            record_with="nsys profile --trace cuda,nvtx -o run ./app; nsys export --type parquetdir run.nsys-rep",
        ),
    )

    def probe(self, head: bytes, name: str) -> float:
        """Return no confidence: a single file of an export is no profile."""
        return 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Refuse a single file of an export.

        Raises:
            ProftuiError: Always: the folder must be named.
        """
        raise ProftuiError(
            f"{source.display_name}: one table of an export", f"open the folder: {Path(source.name).parent}"
        )

    def load_folder(self, path: Path, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read a folder.

        Raises:
            ProftuiError: It holds no profile.
        """
        total = sum(file.stat().st_size for file in _files(path))
        stopped = False

        def keep_reading(bytes_read: int, rows: int) -> bool:
            nonlocal stopped
            stopped = stopped or not on_progress(LoadProgress(str(path), bytes_read, total, rows))
            return not stopped

        tables = ParquetTables(path, keep_reading)
        collector = Collector(str(path))
        export_command = f"nsys export --type parquetdir --force-overwrite true -o {path.name} {path.name}.nsys-rep"
        read_export(
            tables,
            collector,
            self.formats[0].name,
            lambda rows: keep_reading(tables.bytes_read, rows),
            export_hint=export_command,
        )
        for table, damage in tables.damage.items():
            collector.issue("error", None, table, f"the table {damage}")
        return collector.profile(partial="stopped before its end" if stopped else "")


def is_parquetdir(path: Path) -> bool:
    """Return whether a folder is such an export: it has the string table or a table of events as Parquet."""
    for table in (STRINGS, KERNELS, CALLS, RANGES, COPIES):
        file = path / f"{table}{_SUFFIX}"
        try:
            if file.is_file():
                with file.open("rb") as opened:
                    if opened.read(len(_MAGIC)) == _MAGIC:
                        return True
        except OSError:
            continue
    return False


def decline_arrowdir(path: Path) -> None:
    """Refuse an export with a file in Arrow's format for each table.

    Raises:
        ProftuiError: The folder is such an export.
    """
    if (path / f"{STRINGS}.arrow").is_file():
        raise ProftuiError(
            f"{path}: this is an Nsight Systems export as Arrow files, not supported",
            "export a database: nsys export --type sqlite run.nsys-rep",
        )


def _files(path: Path) -> list[Path]:
    try:
        files = sorted(file for file in path.iterdir() if file.suffix == _SUFFIX and file.is_file())
    except OSError as error:
        raise ProftuiError(f"{path}: cannot be listed ({(error.strerror or str(error)).lower()})") from error
    if len(files) > _MAX_FILES:
        raise ProftuiError(f"{path}: no profile found: a folder with more than {_MAX_FILES:,} Parquet files")
    return files


def _scan(file: Path) -> pl.LazyFrame:
    # Paths are literal: no glob patterns, no columns from ``key=value`` folders.
    return pl.scan_parquet(file, glob=False, hive_partitioning=False)


def _is_number_or_text(dtype: pl.DataType) -> bool:
    """Return whether a column has numbers or texts, as Nsight writes; others, such as lists, are not read."""
    numeric = dtype.is_integer() or dtype.is_float() or dtype == pl.Boolean
    return numeric or isinstance(dtype, (pl.String, pl.Categorical, pl.Enum, pl.Null))


def _cast_or_null(column: pl.Series, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    if column.dtype == pl.UInt64 and dtype == pl.Int64:
        # 64-bit ids, which are signed in SQLite.
        return column.reinterpret(signed=True)
    try:
        return column.cast(dtype, strict=False)
    except pl.exceptions.PolarsError:
        return pl.Series(column.name, [None] * len(column), dtype)


NSYS_FOLDER: Final = NsysFolderLoader()
