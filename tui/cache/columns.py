"""Columns whose values stay where they lie, in a mapped file: they cost memory only where they are looked at."""

from __future__ import annotations

import mmap
import weakref
from typing import TYPE_CHECKING, Any, Final

import nanoarrow  # type: ignore[import-untyped]
import numpy as np
import polars as pl

from tui.cache.files import Column, DamagedError, mapped
from tui.cache.place import unnamed_file
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

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
"""What the values of a type are to numpy and to Arrow: truth is bits; names are numbers of rows of a table."""

_MAPPED: Final[dict[int, tuple[int, int, weakref.ref[mmap.mmap]]]] = {}
"""Where in memory files begin and end that are mapped."""

_AT_ONCE: Final = 1 << 20
"""Values that are renumbered at once."""


def bytes_of(rows: int, dtype: pl.DataType) -> int:
    """What the values of a column take in a file; 0 of a type that cannot be mapped.

    >>> bytes_of(100, pl.Int64()), bytes_of(100, pl.Boolean()), bytes_of(100, pl.String())
    (800, 13, 0)
    """
    number, _ = _NUMBERS.get(type(dtype), (None, None))
    if dtype == pl.Boolean:
        return (rows + 7) // 8
    return 0 if number is None else rows * np.dtype(number).itemsize


def column(data: mmap.mmap, kept: Column, rows: int, dtype: pl.DataType) -> pl.Series:
    """A column of a mapped file; names as their numbers.

    Raises:
        DamagedError: There is no such column in it.
    """
    try:
        number, arrow = _NUMBERS[type(dtype)]
        values = np.frombuffer(data, number or np.uint8, rows if number else (rows + 7) // 8, kept.values)
        _note(data)
        valid = None if kept.valid is None else np.frombuffer(data, np.uint8, (rows + 7) // 8, kept.valid)
        array = nanoarrow.c_array_from_buffers(arrow, rows, [valid, values], null_count=kept.nulls)
        return pl.Series(array).alias(kept.name)
    except (KeyError, ValueError, OverflowError, RuntimeError) as error:
        raise DamagedError(f"no column {kept.name}") from error


def _note(data: mmap.mmap) -> None:
    """Note where a file lies for as long as it is mapped: something else may come to lie there after that."""
    number = id(data)
    if number not in _MAPPED:
        first = np.frombuffer(data, np.uint8).ctypes.data
        _MAPPED[number] = first, first + len(data), weakref.ref(data, lambda _: _MAPPED.pop(number, None))


def is_mapped(series: pl.Series) -> bool:
    """Whether the values of a column lie in a file, as far as can be told: a part of such a column does as well."""
    if series.n_chunks() != 1 or type(series.dtype) not in _NUMBERS or series.dtype == pl.Boolean:
        return False
    physical = series.to_physical() if series.dtype == NAME else series
    there = physical.is_not_null().arg_max() if physical.null_count() < len(physical) else None
    if there is None:
        return False
    place = physical.slice(there, 1).to_numpy(allow_copy=False).ctypes.data
    return any(first <= place < end for first, end, _ in tuple(_MAPPED.values()))


def nothing(name: str, rows: int, dtype: pl.DataType) -> pl.Series:
    """A column without a value: nulls, which take no memory where the type allows."""
    if not rows or type(dtype) not in _NUMBERS:
        return pl.repeat(None, rows, dtype=dtype, eager=True).alias(name)
    # Pages that are never written to are one and the same page of zeros.
    zeros = mmap.mmap(-1, 8 * rows, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    numbers = column(zeros, Column(name, 0, 0, rows), rows, dtype)
    if dtype != NAME:
        return numbers
    if not hasattr(numbers.cat, "to"):
        return pl.Series(name, [None], NAME).new_from_index(0, rows)
    return numbers.cat.to(NAME)


def renumbered(numbers: pl.Series, table: np.ndarray[Any, Any], rows: int) -> pl.Series:
    """Numbers exchanged for those that a table gives them, in a file without a name: not in memory.

    Args:
        numbers: Numbers of rows of the table, or null.
        table: The new number of each.
        rows: How many numbers there are.
    """
    valid = numbers.is_not_null()
    with unnamed_file() as file:
        for first in range(0, rows, _AT_ONCE):
            part = numbers.slice(first, _AT_ONCE).fill_null(0).to_numpy()
            file.write(table[part].astype(np.uint32).tobytes())
        bits = None
        if numbers.null_count():
            bits = file.tell()
            file.write(np.packbits(valid.to_numpy(), bitorder="little").tobytes())
        file.flush()
        data = mapped(file.fileno())
    return column(data, Column(numbers.name, 0, bits, numbers.null_count()), rows, pl.UInt32())
