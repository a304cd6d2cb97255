"""Columns on disk, written once and mapped; large results are spilled there if memory is low.

Mapped columns use memory only where they are read. This is the only layout of columns on disk: the values,
aligned to 64 bytes, followed by a validity bit per row if some are null.
"""

from __future__ import annotations

import dataclasses
import mmap
import weakref
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import nanoarrow  # type: ignore[import-untyped]
import numpy as np
import polars as pl

from tui.cache.secure_files import DamagedError, MappedColumn, map_file, unnamed_file
from tui.model.schema import NAME
from tui.runtime import release_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    Codes = npt.NDArray[Any]

_NUMBERS: Final[Mapping[Any, tuple[Any, Any]]] = {
    pl.UInt8: (np.uint8, nanoarrow.uint8()),
    pl.Int8: (np.int8, nanoarrow.int8()),
    pl.UInt32: (np.uint32, nanoarrow.uint32()),
    pl.Int32: (np.int32, nanoarrow.int32()),
    pl.Int64: (np.int64, nanoarrow.int64()),
    pl.Float64: (np.float64, nanoarrow.float64()),
    pl.Boolean: (None, nanoarrow.bool_()),
    pl.Categorical: (np.uint32, nanoarrow.uint32()),
}
"""The types of values for numpy and Arrow: booleans are bits; names are indices of a table of names."""

_MAPPED: Final[dict[int, tuple[int, int, weakref.ref[mmap.mmap]]]] = {}
"""The memory ranges of mapped files."""

_WRITTEN_AT_ONCE: Final = 1 << 20
"""Rows per write."""
_ALIGNMENT: Final = 64
_ZEROS: Final = bytes(1 << 20)


def bytes_of(rows: int, dtype: pl.DataType) -> int:
    """Return the bytes of a column's values in a file; 0 for a type that cannot be mapped.

    >>> bytes_of(100, pl.Int64()), bytes_of(100, pl.Boolean()), bytes_of(100, pl.String())
    (800, 13, 0)
    """
    number, _ = _NUMBERS.get(type(dtype), (None, None))
    if dtype == pl.Boolean:
        return (rows + 7) // 8
    return 0 if number is None else rows * np.dtype(number).itemsize


def mapped_column(data: mmap.mmap, layout: MappedColumn, rows: int, dtype: pl.DataType) -> pl.Series:
    """Return a column of a mapped file; names are indices of a table of names.

    Raises:
        DamagedError: There is no such column in it.
    """
    try:
        number, arrow = _NUMBERS[type(dtype)]
        values = np.frombuffer(data, number or np.uint8, rows if number else (rows + 7) // 8, layout.values)
        _register_mapping(data)
        valid = None if layout.valid is None else np.frombuffer(data, np.uint8, (rows + 7) // 8, layout.valid)
        array = nanoarrow.c_array_from_buffers(arrow, rows, [valid, values], null_count=layout.nulls)
        return pl.Series(array).alias(layout.name)
    except (KeyError, ValueError, OverflowError, RuntimeError) as error:
        raise DamagedError(f"no column {layout.name}") from error


def _register_mapping(data: mmap.mmap) -> None:
    """Register the memory range of a mapped file until it is unmapped."""
    number = id(data)
    if number not in _MAPPED:
        first = np.frombuffer(data, np.uint8).ctypes.data
        _MAPPED[number] = first, first + len(data), weakref.ref(data, lambda _: _MAPPED.pop(number, None))


def is_mapped(series: pl.Series) -> bool:
    """Return whether the values of a column are in a mapped file; also true for a slice of such a column."""
    if series.n_chunks() != 1 or type(series.dtype) not in _NUMBERS or series.dtype == pl.Boolean:
        return False
    physical = series.to_physical() if series.dtype == NAME else series
    first_known = physical.is_not_null().arg_max() if physical.null_count() < len(physical) else None
    if first_known is None:
        return False
    return _is_mapped(physical.slice(first_known, 1).to_numpy(allow_copy=False))


def _is_mapped(values: np.ndarray) -> bool:
    position = values.ctypes.data
    return any(first <= position < end for first, end, _ in tuple(_MAPPED.values()))


def null_column(name: str, rows: int, dtype: pl.DataType) -> pl.Series:
    """Return a column of nulls; numbers take no memory."""
    if not rows or type(dtype) not in _NUMBERS:
        return pl.repeat(None, rows, dtype=dtype, eager=True).alias(name)
    # Pages that are never written share one page of zeros.
    zeros = mmap.mmap(-1, 8 * rows, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    numbers = mapped_column(zeros, MappedColumn(name, 0, 0, rows), rows, dtype)
    if dtype != NAME:
        return numbers
    if not hasattr(numbers.cat, "to"):
        return pl.Series(name, [None], NAME).new_from_index(0, rows)
    return numbers.cat.to(NAME)


class ColumnFile(Protocol):
    """A file to append columns to."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Append bytes."""

    def tell(self) -> int:
        """Return the number of bytes written."""


class ColumnWriter:
    """Writes a column part by part: its values, then a validity bit per row.

    Args:
        name: The column.
        open_file: Opens the file to append to; called at the first value.
    """

    def __init__(self, name: str, open_file: Callable[[], ColumnFile]) -> None:
        self._name = name
        self._open_file = open_file
        self._file: ColumnFile | None = None
        self._first = 0
        self._rows = self._nulls = 0
        self._valid = _BitPacker()
        self._truth = _BitPacker()

    def add(self, series: pl.Series) -> None:
        """Append rows: numbers or booleans; names as indices.

        Raises:
            OSError: They cannot be written.
        """
        nulls, before = series.null_count(), self._rows
        self._rows += len(series)
        self._nulls += nulls
        is_truth = series.dtype == pl.Boolean
        self._valid.add(np.zeros(len(series), bool) if nulls == len(series) else series.is_not_null().to_numpy())
        if nulls == len(series) and self._file is None:
            return
        values = series.fill_null(False if is_truth else 0).to_numpy()
        if self._file is None:
            self._file = self._open_file()
            self._align(self._file)
            self._first = self._file.tell()
            if is_truth:
                self._truth.add(np.zeros(before, bool))
            else:
                self._zeros(self._file, before * values.itemsize)
        if is_truth:
            self._truth.add(values)
        else:
            self._file.write(np.ascontiguousarray(values).data.cast("B"))

    def close(self) -> MappedColumn | None:
        """Finish writing; return the position of the column in the file, or None if every value is null.

        Raises:
            OSError: It cannot be written.
        """
        if self._file is None:
            return None
        self._file.write(self._truth.to_bytes())
        bits = None
        if self._nulls:
            self._align(self._file)
            bits = self._file.tell()
            self._file.write(self._valid.to_bytes())
        return MappedColumn(self._name, self._first, bits, self._nulls)

    def _align(self, file: ColumnFile) -> None:
        self._zeros(file, -file.tell() % _ALIGNMENT)

    @staticmethod
    def _zeros(file: ColumnFile, count: int) -> None:
        for first in range(0, count, len(_ZEROS)):
            file.write(_ZEROS[: count - first])


class _BitPacker:
    """Packs booleans into bits."""

    def __init__(self) -> None:
        self._bytes: list[bytes] = []
        self._rest = np.zeros(0, bool)

    def add(self, values: np.ndarray[Any, Any]) -> None:
        values = np.concatenate((self._rest, values))
        whole = len(values) // 8 * 8
        self._bytes.append(np.packbits(values[:whole], bitorder="little").tobytes())
        self._rest = values[whole:].copy()

    def to_bytes(self) -> bytes:
        return b"".join((*self._bytes, np.packbits(self._rest, bitorder="little").tobytes()))


def write_column(file: ColumnFile, series: pl.Series) -> MappedColumn:
    """Append a column with at least one value; return its position in the file.

    Raises:
        OSError: It cannot be written.
    """
    writer = ColumnWriter(series.name, lambda: file)
    for first in range(0, len(series), _WRITTEN_AT_ONCE):
        writer.add(series.slice(first, _WRITTEN_AT_ONCE))
    written = writer.close()
    assert written is not None, "a column with a value"
    return written


def translate_codes(numbers: pl.Series, table: np.ndarray[Any, Any], rows: int) -> pl.Series:
    """Translate codes by a lookup table; the result is in an unnamed file instead of memory.

    Args:
        numbers: Indices of the table, or null; at least one is not null.
        table: The new code by index.
        rows: The number of codes.
    """
    with unnamed_file() as file:
        writer = ColumnWriter(numbers.name, lambda: file)
        for first in range(0, rows, _WRITTEN_AT_ONCE):
            part = numbers.slice(first, _WRITTEN_AT_ONCE)
            new = pl.Series(table[part.fill_null(0).to_numpy()].astype(np.uint32))
            writer.add(pl.select(pl.when(part.is_not_null()).then(new)).to_series())
        written = writer.close()
        file.flush()
        if written is None:
            return null_column(numbers.name, rows, pl.UInt32())
        data = map_file(file.fileno())
    return mapped_column(data, written, rows, pl.UInt32())


Result = TypeVar("Result")

MIN_BYTES: Final = 1 << 16
"""Smaller columns and arrays stay in memory."""

_AT_ONCE: Final = 1 << 20
"""Rows that are gathered at once; smaller frames are gathered in memory."""


class _Memory:
    is_low = False


def set_low_memory() -> None:
    """Spill large results to disk from now on: an input that may exceed memory was opened."""
    _Memory.is_low = True


def low_memory() -> bool:
    """Return whether an input that may exceed memory was opened."""
    return _Memory.is_low


def spill_to_disk(result: Result) -> Result:
    """Map the large columns and arrays of a result read-only from disk, if memory is low.

    Tuples, lists, dictionaries and dataclasses are traversed; mutable ones are changed in place.
    """
    if not _Memory.is_low:
        return result
    # If the disk is full, results stay in memory.
    with suppress(OSError):
        return cast("Result", _spill(result))
    return result


def filter_rows(frame: pl.DataFrame, *which: pl.Expr) -> pl.DataFrame:
    """Filter a frame; a large one column by column, spilled to disk."""
    if not _Memory.is_low or frame.height < _AT_ONCE:
        return frame.lazy().filter(*which).collect()
    rows = frame.lazy().select(pl.arg_where(pl.all_horizontal(which))).collect().to_series()
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return frame.slice(int(rows[0]), len(rows))
    return gather_rows(frame, rows)


def gather_rows(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """Return rows of a frame by position; of a large one column by column, spilled to disk."""
    if not _Memory.is_low or len(rows) < _AT_ONCE:
        return frame.select(pl.all().gather(rows))
    return pl.DataFrame([_gather_column(frame.select(name).to_series(), rows) for name in frame.columns])


def _gather_column(column: pl.Series, rows: pl.Series) -> pl.Series:
    """Return values of a column by position, on disk."""
    if column.null_count() == len(column):
        return null_column(column.name, len(rows), column.dtype)
    blocks = (column.gather(rows.slice(first, _AT_ONCE)) for first in range(0, len(rows), _AT_ONCE))
    # If the disk is full, they stay in memory.
    with suppress(OSError):
        return _write_parts(column.name, column.dtype, len(rows), blocks)
    return column.gather(rows)


def sort_rows(frame: pl.DataFrame, by: str) -> pl.DataFrame:
    """Sort a frame by a column of numbers without nulls, equal ones in their order; a large frame as `gather_rows`."""
    if frame[by].is_sorted():
        return frame
    if not _Memory.is_low or frame.height < _AT_ONCE:
        return frame.sort(by, maintain_order=True)
    order = np.argsort(frame[by].to_numpy(), kind="stable").astype(np.uint32)
    return gather_rows(frame, pl.Series(order))


def release_mapped() -> None:
    """Release the memory of mapped columns if memory is low; what is used again is read from their files."""
    for file in tuple(_MAPPED.values()) if _Memory.is_low else ():
        data = file[2]()
        if data is not None:
            data.madvise(mmap.MADV_DONTNEED)


def release_memory() -> None:
    """Release mapped columns and freed memory if memory is low; called between the steps of reading a large input."""
    if _Memory.is_low:
        release_mapped()
        release_freed_memory()


_PIECE_ROWS: Final = 1 << 19
"""Rows of a large frame that are kept in memory before they are spilled."""
_LARGE_ROWS: Final = 1 << 19
"""Frames with fewer rows stay in memory."""


class PieceCollector:
    """Collects a frame that arrives in pieces; if it becomes large, its pieces are spilled to disk.

    Args:
        columns: The names and types of all columns; where a piece lacks one, it is null.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = pl.Schema(columns)
        self._new: list[pl.DataFrame] = []
        self._new_rows = 0
        self._spilled: list[pl.DataFrame] = []
        self.height = 0

    def add(self, piece: pl.DataFrame) -> None:
        """Append rows."""
        self._new.append(piece.select(column for column in piece if column.null_count() < len(column)))
        self._new_rows += piece.height
        self.height += piece.height
        if self._new_rows >= _PIECE_ROWS and (low_memory() or self.height >= _LARGE_ROWS):
            set_low_memory()
            self._spilled.append(spill_to_disk(pl.concat(self._new, how="diagonal", rechunk=True)))
            self._new, self._new_rows = [], 0

    def frame(self) -> pl.DataFrame:
        """Return all rows once; columns without values take no memory."""
        pieces = [*self._spilled, *self._new]
        self._spilled, self._new = [], []
        if not pieces:
            return pl.DataFrame(schema=self._columns)
        present = {name: dtype for name, dtype in self._columns.items() if any(name in piece for piece in pieces)}
        missing = (pl.lit(None, dtype).alias(name) for name, dtype in self._columns.items() if name not in present)
        found = None
        if low_memory():
            release_memory()
            # If the disk is full, the rows stay in memory.
            with suppress(OSError):
                found = pl.DataFrame([_join_column(pieces, name, dtype) for name, dtype in present.items()])
        found = pl.concat(pieces, how="diagonal") if found is None else found
        return found.with_columns(*missing).select(*self._columns)


def _join_column(pieces: Sequence[pl.DataFrame], name: str, dtype: pl.DataType) -> pl.Series:
    """Return a column of several frames, in which it may be missing, on disk."""
    parts = (
        piece[name] if name in piece.columns else pl.repeat(None, piece.height, dtype=dtype, eager=True).alias(name)
        for piece in pieces
    )
    return _write_parts(name, dtype, sum(piece.height for piece in pieces), parts)


def _write_parts(name: str, dtype: pl.DataType, rows: int, parts: Iterable[pl.Series]) -> pl.Series:
    """Return a column of several parts, which are written to disk one by one.

    Raises:
        OSError: It cannot be written.
    """
    if not _can_spill(pl.Series(name, [], dtype)):
        return pl.concat(parts)
    with unnamed_file() as file:
        writer = ColumnWriter(name, lambda: file)
        for part in parts:
            writer.add(part.to_physical() if dtype == NAME else part)
            release_mapped()
        layout = writer.close()
        file.flush()
        if layout is None:
            return null_column(name, rows, dtype)
        numbers = mapped_column(map_file(file.fileno()), layout, rows, pl.UInt32() if dtype == NAME else dtype)
    return numbers.cat.to(NAME) if dtype == NAME else numbers


def held_bytes(result: Any) -> int:
    """Return the approximate memory of a result; mapped columns take none."""
    if isinstance(result, np.ndarray):
        return 0 if _is_mapped(result) else result.nbytes
    if isinstance(result, pl.Series):
        return 0 if _is_all_null(result) or is_mapped(result) else int(result.estimated_size())
    if isinstance(result, pl.DataFrame):
        return sum(held_bytes(result.select(name).to_series()) for name in result.columns)
    return sum(held_bytes(part) for part in _inside(result))


def _inside(result: Any) -> Iterable[Any]:
    """Return the parts of a result."""
    if isinstance(result, (tuple, list)):
        return result
    if isinstance(result, dict):
        return result.values()
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return (getattr(result, field.name) for field in dataclasses.fields(result))
    return ()


def _spill(result: Any) -> Any:
    """Return a result with its large columns and arrays mapped from disk."""
    if isinstance(result, np.ndarray):
        return _spill_array(result)
    if isinstance(result, pl.Series):
        return _spill_columns([result])[0]
    if isinstance(result, pl.DataFrame):
        if all(bytes_of(result.height, dtype) < MIN_BYTES for dtype in result.dtypes):
            return result
        return pl.DataFrame(_spill_columns(result.select(name).to_series() for name in result.columns))
    if isinstance(result, tuple) and type(result) is tuple:
        return tuple(_spill(part) for part in result)
    if isinstance(result, list):
        result[:] = [_spill(part) for part in result]
    elif isinstance(result, dict):
        for key, value in result.items():
            result[key] = _spill(value)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            object.__setattr__(result, field.name, _spill(getattr(result, field.name)))
    return result


def _spill_array(values: np.ndarray) -> np.ndarray:
    if values.nbytes < MIN_BYTES or _is_mapped(values) or values.dtype.hasobject or not values.ndim:
        return values
    with unnamed_file() as file:
        at_once = max(1, _AT_ONCE * len(values) // values.size)
        for first in range(0, len(values), at_once):
            file.write(np.ascontiguousarray(values[first : first + at_once]).data)
        file.flush()
        data = map_file(file.fileno())
        _register_mapping(data)
        return np.frombuffer(data, values.dtype).reshape(values.shape)


def _spill_columns(columns: Iterable[pl.Series]) -> list[pl.Series]:
    """Spill columns one by one to one file: every mapped file counts against the limit of open files."""
    found: list[pl.Series] = []
    written: dict[int, tuple[MappedColumn, int, pl.DataType]] = {}
    with ExitStack() as stack:
        file: IO[bytes] | None = None
        for position, series in enumerate(columns):
            if not _must_spill(series):
                found.append(series)
            elif _is_all_null(series):
                found.append(null_column(series.name, len(series), series.dtype))
            else:
                file = file or stack.enter_context(unnamed_file())
                layout = write_column(file, series.to_physical() if series.dtype == NAME else series)
                written[position] = layout, len(series), series.dtype
                found.append(series.clear())
        if file is not None:
            file.flush()
            data = map_file(file.fileno())
    for position, (layout, rows, dtype) in written.items():
        column = mapped_column(data, layout, rows, pl.UInt32() if dtype == NAME else dtype)
        found[position] = column.cat.to(NAME) if dtype == NAME else column
    return found


def _must_spill(series: pl.Series) -> bool:
    return bytes_of(len(series), series.dtype) >= MIN_BYTES and _can_spill(series) and not is_mapped(series)


def _can_spill(series: pl.Series) -> bool:
    return type(series.dtype) in _NUMBERS and (series.dtype != NAME or hasattr(series.cat, "to"))


def _is_all_null(series: pl.Series) -> bool:
    return series.null_count() == len(series)


_BLOCK_ROWS: Final = 1 << 19
"""Rows that are looked up at once, to bound the memory."""
_LARGEST_TABLE: Final = 1 << 26
"""Entries of a lookup table; above it, codes are sorted."""


def number_distinct(
    frame: pl.DataFrame, further_keys: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Number the distinct rows as they first occur; memory is bounded.

    Args:
        frame: As for `row_codes`.
        further_keys: Further numbers by row, not negative.

    Returns:
        The first row of each, and the number of each row.
    """
    if not len(further_keys):
        return np.zeros(0, np.uint32), np.zeros(0, np.uint32)
    keys, count = row_codes(frame)
    for block in _blocks(len(keys)):
        keys[block] += further_keys[block] * count
    if (keys[1:] > keys[:-1]).all():
        rows = np.arange(len(keys), dtype=np.uint32)
        return rows, rows
    order = np.argsort(keys, kind="stable").astype(np.uint32)
    keys = keys[order]
    is_new = np.concatenate(([True], keys[1:] != keys[:-1]))
    del keys
    first_rows = order[is_new]
    order_of_first = np.argsort(first_rows)
    number = np.empty(len(first_rows), np.uint32)
    number[order_of_first] = np.arange(len(first_rows), dtype=np.uint32)
    numbers = np.empty(len(order), np.uint32)
    numbers[order] = number[np.cumsum(is_new, dtype=np.uint32) - 1]
    return first_rows[order_of_first], numbers


def row_codes(frame: pl.DataFrame) -> tuple[npt.NDArray[np.int64], int]:
    """Return a number for each row that rows with the same values share, and how many numbers there are.

    Args:
        frame: Names and numbers that are null or at least 0.
    """
    codes, count = np.zeros(frame.height, np.int64), 1
    for name in frame.columns:
        column = frame[name]
        if column.null_count() == len(column):
            continue
        physical = column.to_physical() if column.dtype == NAME else column
        size = int(cast("int", physical.max())) + 2
        column_codes: Codes = np.empty(frame.height, np.uint32 if size < 1 << 32 else np.int64)
        for block in _blocks(frame.height):
            column_codes[block] = physical[block].cast(pl.Int64).fill_null(-1).to_numpy() + 1
        size = _make_dense(column_codes, size)
        codes *= size
        codes += column_codes
        count = _make_dense(codes, count * size)
    return codes, count


def _make_dense(codes: Codes, size: int) -> int:
    """Renumber codes below ``size`` from 0 without gaps, in place; return the number of distinct ones."""
    if size <= _LARGEST_TABLE:
        is_used = np.zeros(size, np.bool_)
        for block in _blocks(len(codes)):
            is_used[codes[block]] = True
        used_codes = np.flatnonzero(is_used)
    else:
        used_codes = np.unique(codes)
    for block in _blocks(len(codes)):
        codes[block] = np.searchsorted(used_codes, codes[block])
    return len(used_codes)


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK_ROWS, rows)) for start in range(0, rows, _BLOCK_ROWS))
