"""Frames on disk: large columns of numbers and names are mapped, all others are read."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.cache.secure_files import (
    UNFINISHED_SUFFIX,
    DamagedError,
    EntryFile,
    HashedFile,
    MappedColumn,
    MappedFile,
    StoppedError,
    StoredFrame,
    map_file,
    new_file,
    open_cache_folder,
    open_entry,
    open_file,
    open_verified,
    read_all,
    remove_entry,
    seal_file,
)
from tui.cache.spill import (
    ColumnWriter,
    bytes_of,
    low_memory,
    mapped_column,
    null_column,
    set_low_memory,
    translate_codes,
    write_column,
)
from tui.loaders.temp_folders import Scratch
from tui.model.schema import FRAMES, NAME, empty

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager


MAPPED_ROWS: Final = 20_000
"""Columns of frames with at least this many rows are mapped."""

MAPPED_FILE_BYTES: Final = 32 << 20
"""The approximate size of a file of mapped columns; writing can be stopped between two files."""


class FrameWriter:
    """Writes the files of an entry.

    Args:
        entry: The folder, as a descriptor.
        stopped: If it returns True, writing stops with `StoppedError`.
    """

    def __init__(self, entry: int, stopped: Callable[[], bool]) -> None:
        self._entry = entry
        self._stopped = stopped
        self._names = pl.Series("names", [], pl.String)
        self._codes = np.zeros(0, np.uint32)

    def write_frame(self, name: str, data: pl.DataFrame) -> StoredFrame:
        """Write a frame."""
        present = [column for column in data if column.null_count() < data.height]
        is_large = data.height >= MAPPED_ROWS
        large = [column for column in present if is_large and bytes_of(data.height, column.dtype)]
        small = [column.name for column in present if not (is_large and bytes_of(data.height, column.dtype))]
        unmapped = self.write_unmapped(name, data.select(small)) if small else None
        mapped = tuple(
            self._write_mapped(f"{name}.{index}", group) for index, group in enumerate(_column_groups(large))
        )
        return StoredFrame(data.height, unmapped, mapped)

    def write_unmapped(self, name: str, data: pl.DataFrame) -> EntryFile:
        """Write a frame that will be read, not mapped."""
        if self._stopped():
            raise StoppedError
        file_name = f"{name}.arrow"
        with os.fdopen(new_file(self._entry, file_name), "wb") as file:
            data.write_ipc(file, compression="uncompressed")
        return seal_file(self._entry, file_name, self._stopped)

    def write_names(self) -> EntryFile | None:
        """Write the table of names that the frames refer to; called last."""
        return self.write_unmapped("names", self._names.to_frame()) if len(self._names) else None

    def _write_mapped(self, name: str, columns: list[pl.Series]) -> MappedFile:
        if self._stopped():
            raise StoppedError
        with HashedFile(self._entry, f"{name}.columns") as file:
            stored_columns = [
                write_column(file, self._name_indices(column) if column.dtype == NAME else column) for column in columns
            ]
        return MappedFile(file.finish(), tuple(stored_columns))

    def _name_indices(self, column: pl.Series) -> pl.Series:
        """Return names as indices of the table of names, adding new names to it."""
        distinct = column.drop_nulls().unique()
        codes = distinct.to_physical().to_numpy()
        new = ~np.isin(codes, self._codes)
        self._codes = np.concatenate((self._codes, codes[new]))
        self._names = pl.concat([self._names, distinct.filter(pl.Series(new)).cast(pl.String).rename("names")])
        table = np.zeros(int(self._codes.max(initial=0)) + 1, np.uint32)
        table[self._codes] = np.arange(len(self._codes), dtype=np.uint32)
        is_known = column.is_not_null()
        numbers = pl.Series(column.name, table[column.to_physical().fill_null(int(codes[0])).to_numpy()])
        return numbers if is_known.all() else pl.select(pl.when(is_known).then(numbers).alias(column.name)).to_series()


def _column_groups(columns: list[pl.Series]) -> Iterator[list[pl.Series]]:
    """Yield groups of columns, so that no file is much larger than `MAPPED_FILE_BYTES`."""
    group: list[pl.Series] = []
    size = 0
    for column in columns:
        column_bytes = bytes_of(len(column), column.dtype)
        if group and size + column_bytes > MAPPED_FILE_BYTES:
            yield group
            group, size = [], 0
        group.append(column)
        size += column_bytes
    if group:
        yield group


_LARGE_COLUMN_ROWS: Final = 1 << 20
"""Columns with at least this many rows are kept out of memory where possible."""


class FrameReader:
    """Reads the files of an entry; each is verified before use.

    Args:
        entry: The folder, as a descriptor.
        names: The table of names.
        opener: Opens a file and verifies its digest, unless this process has just written it.

    Raises:
        DamagedError: A file differs from what was written.
        OSError: A file cannot be read, or another user could have written it.
    """

    def __init__(
        self,
        entry: int,
        names: EntryFile | None,
        opener: Callable[[int, EntryFile], AbstractContextManager[int]] = open_verified,
    ) -> None:
        self._entry = entry
        self._open_file = opener
        self._names = pl.Series("names", [], NAME)
        if names is not None:
            # First, so that in a new process the category codes equal the indices in the files.
            self._names = self.read_unmapped(names, pl.Schema({"names": pl.String})).to_series().cast(NAME)
        self._codes = self._names.to_physical().to_numpy()
        self._codes_match = bool((self._codes == np.arange(len(self._codes))).all())

    def read_unmapped(self, file: EntryFile, schema: pl.Schema) -> pl.DataFrame:
        """Read a frame with exactly this schema."""
        with self._open_file(self._entry, file) as descriptor:
            data = pl.read_ipc(read_all(descriptor)).rechunk()
        if data.schema != schema:
            raise DamagedError(f"{file.name} has other columns")
        return data

    def read_frame(self, stored: StoredFrame, schema: pl.Schema) -> pl.DataFrame:
        """Read a frame with exactly this schema; its large columns are mapped."""
        if not 0 <= stored.rows < 1 << 32:
            raise DamagedError("the number of rows is invalid")
        columns: dict[str, pl.Series] = {}
        if stored.read is not None:
            mapped_names = {column.name for mapped_file in stored.mapped for column in mapped_file.columns}
            with self._open_file(self._entry, stored.read) as descriptor:
                columns |= {s.name: s for s in pl.read_ipc(read_all(descriptor)).rechunk()}
            if mapped_names & set(columns):
                raise DamagedError("a column appears twice")
        for mapped_file in stored.mapped:
            columns |= self._columns(mapped_file, stored.rows, schema)
        if not set(columns) <= set(schema):
            raise DamagedError("an unknown column")
        if any(len(series) != stored.rows or series.dtype != schema[name] for name, series in columns.items()):
            raise DamagedError("a column of another type or length")
        # Every index is checked against the table of names; a constant column is checked once.
        null_names = {
            name for name, dtype in schema.items() if dtype == NAME and name not in columns and not low_memory()
        }
        for name, dtype in schema.items():
            if name not in columns and name not in null_names:
                columns[name] = null_column(name, stored.rows, dtype)
        data = pl.DataFrame([columns[name].alias(name) for name in schema if name in columns])
        return data.select(pl.lit(None, NAME).alias(name) if name in null_names else name for name in schema)

    def _columns(self, mapped_file: MappedFile, rows: int, schema: pl.Schema) -> dict[str, pl.Series]:
        with self._open_file(self._entry, mapped_file.file) as descriptor:
            data = map_file(descriptor)
        return {
            column.name: self._column(data, column, rows, schema.get(column.name)) for column in mapped_file.columns
        }

    def _column(self, data: mmap.mmap, stored: MappedColumn, rows: int, dtype: pl.DataType | None) -> pl.Series:
        """Return a mapped column; the indices of names become categories."""
        if dtype is None:
            raise DamagedError("an unknown column")
        series = mapped_column(data, stored, rows, dtype)
        if dtype != NAME:
            return series
        largest = series.max()
        if isinstance(largest, int) and largest >= len(self._names):
            raise DamagedError("a name index outside the table of names")
        if not hasattr(series.cat, "to"):
            return self._names.gather(series).alias(stored.name)
        if not self._codes_match:
            if rows < _LARGE_COLUMN_ROWS:
                return self._names.gather(series).alias(stored.name)
            series = translate_codes(series, self._codes, rows)
        return series.cat.to(NAME)


class FrameSpool:
    """Writes rows to disk, frame by frame, in their final order.

    Args:
        entry: The folder to write to, as a descriptor.
        rows: The maximum number of rows of each frame.
    """

    def __init__(self, entry: int, rows: Mapping[str, int]) -> None:
        self._entry = entry
        self._unmapped: dict[str, list[pl.DataFrame]] = {}
        self._columns: dict[str, dict[str, _SpooledColumn]] = {}
        self._rows = dict.fromkeys(FRAMES, 0)
        self._small_frames = {name for name in FRAMES if rows.get(name, 0) < MAPPED_ROWS}
        self._max_name_code = -1

    def rows(self, frame: str) -> int:
        """Return the number of rows of a frame written so far."""
        return self._rows[frame]

    def add(self, frame: str, data: pl.DataFrame) -> None:
        """Add rows with exactly the frame's columns.

        Raises:
            OSError: They cannot be written.
        """
        self._rows[frame] += data.height
        can_map = {
            name for name, dtype in data.schema.items() if frame not in self._small_frames and bytes_of(8, dtype)
        }
        if unmapped_names := [name for name in data.columns if name not in can_map]:
            self._unmapped.setdefault(frame, []).append(data.select(unmapped_names))
        columns = self._columns.setdefault(frame, {})
        for series in data.select(can_map):
            if series.dtype == NAME:
                series = series.to_physical()
                largest = series.max()
                self._max_name_code = max(self._max_name_code, largest if isinstance(largest, int) else -1)
            if series.name not in columns:
                columns[series.name] = _SpooledColumn(self._entry, f"{frame}.{series.name}.column", series.name)
            columns[series.name].add(series)

    def abandon(self) -> None:
        """Close the files, finished or not."""
        for columns in self._columns.values():
            for column in columns.values():
                column.abandon()

    def close(self) -> tuple[dict[str, StoredFrame], EntryFile | None]:
        """Finish writing; return the layout of the frames, and the file of the table of names."""
        writer = FrameWriter(self._entry, lambda: False)
        frames: dict[str, StoredFrame] = {}
        for name, rows in self._rows.items():
            if not rows:
                continue
            unmapped = pl.concat(self._unmapped[name]) if name in self._unmapped else None
            if unmapped is not None:
                unmapped = unmapped.select(column for column in unmapped if column.null_count() < rows)
            read = writer.write_unmapped(name, unmapped) if unmapped is not None and unmapped.width else None
            mapped = [column.close() for column in self._columns.get(name, {}).values()]
            frames[name] = StoredFrame(
                rows, read, tuple(mapped_file for mapped_file in mapped if mapped_file is not None)
            )
        names = None
        if self._max_name_code >= 0:
            # In the order of their codes, so that category codes of this process are valid indices.
            numbers = pl.int_range(self._max_name_code + 1, dtype=pl.UInt32, eager=True)
            names = writer.write_unmapped("names", numbers.cat.to(NAME).cast(pl.String).rename("names").to_frame())
        return frames, names


class _SpooledColumn:
    """A column in its own file."""

    def __init__(self, entry: int, file_name: str, name: str) -> None:
        self._entry = entry
        self._file_name = file_name
        self._file: HashedFile | None = None
        self._writer = ColumnWriter(name, self._opened)

    def _opened(self) -> HashedFile:
        self._file = HashedFile(self._entry, self._file_name)
        return self._file

    def add(self, series: pl.Series) -> None:
        self._writer.add(series)

    def close(self) -> MappedFile | None:
        """Finish writing; return the file, or None if every value is null."""
        written = self._writer.close()
        return None if written is None or self._file is None else MappedFile(self._file.finish(), (written,))

    def abandon(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.finish()


def spool_frames(
    rows: Mapping[str, int],
    fill: Callable[[FrameSpool], bool],
    keep: Callable[[int, str, int, dict[str, StoredFrame], EntryFile | None], None] | None = None,
) -> dict[str, pl.DataFrame]:
    """Fill frames in parts, and map them.

    Args:
        rows: The maximum number of rows of each frame.
        fill: Adds the rows; its exceptions are passed on. It returns whether they may be cached.
        keep: Called with the folder of entries, the name and descriptor of the new entry, and its files; it may move
            the entry to its final name. Otherwise the entry is removed when this returns.

    Raises:
        OSError: The disk is full.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(_entries_or_temp_folder())
        unfinished = f"spool.{os.getpid()}.{os.urandom(4).hex()}{UNFINISHED_SUFFIX}"
        os.mkdir(unfinished, 0o700, dir_fd=folder)
        stack.callback(remove_entry, folder, unfinished)
        entry = stack.enter_context(open_entry(folder, unfinished))
        set_low_memory()
        spool = FrameSpool(entry, rows)
        stack.callback(spool.abandon)
        may_keep = fill(spool)
        files, names = spool.close()
        reader = FrameReader(entry, names, _open_unverified)
        frames = {
            name: reader.read_frame(files[name], schema) if name in files else empty(name)
            for name, schema in FRAMES.items()
        }
        if keep is not None and may_keep:
            keep(folder, unfinished, entry, files, names)
        return frames


@contextmanager
def _entries_or_temp_folder() -> Iterator[int]:
    """Open the folder of entries, or a temporary folder if that cannot be used."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(open_cache_folder(make=True))
        except OSError:
            # If this run is killed, the next one removes it.
            path = stack.enter_context(Scratch())
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
        yield folder


@contextmanager
def _open_unverified(entry: int, file: EntryFile) -> Iterator[int]:
    """Open a file that this process has just written."""
    with open_file(entry, file.name) as descriptor:
        yield descriptor
