"""Spilling to disk: large results of inputs that may exceed memory are written to a file and mapped."""

from __future__ import annotations

import dataclasses
import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
import polars as pl

from tui.cache.columns import bytes_of, is_mapped, mapped_column, null_column, write_column
from tui.cache.secure_files import mapped, unnamed_file
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

Result = TypeVar("Result")

LEAST_BYTES: Final = 1 << 16
"""Smaller columns and arrays stay in memory."""

_AT_ONCE: Final = 1 << 20


class _Memory:
    is_low = False


def set_low_memory() -> None:
    """Spill large results to disk from now on: an input that may exceed memory was opened."""
    _Memory.is_low = True


def low_memory() -> bool:
    """Whether an input that may exceed memory was opened."""
    return _Memory.is_low


def spill_to_disk(result: Result) -> Result:
    """The result with its large columns and arrays mapped read-only from disk, if memory is low.

    Tuples, lists, dictionaries and dataclasses are traversed; mutable ones are changed in place.
    """
    if not _Memory.is_low:
        return result
    # If the disk is full, results stay in memory.
    with suppress(OSError):
        return cast("Result", _spilled(result))
    return result


def filter_rows(frame: pl.DataFrame, *which: pl.Expr) -> pl.DataFrame:
    """Filter a frame; a large one column by column, spilled to disk."""
    if not _Memory.is_low or frame.height < _AT_ONCE:
        return frame.lazy().filter(*which).collect()
    rows = frame.lazy().select(pl.arg_where(pl.all_horizontal(which))).collect().to_series()
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return frame.slice(int(rows[0]), len(rows))
    columns = (frame.select(name).to_series() for name in frame.columns)
    return pl.DataFrame([spill_to_disk(column.gather(rows)) for column in columns])


def held_bytes(result: Any) -> int:
    """The approximate memory of a result; mapped columns take none."""
    if isinstance(result, np.ndarray):
        return 0 if _is_mapped(result) else result.nbytes
    if isinstance(result, pl.Series):
        return 0 if _is_all_null(result) or is_mapped(result) else int(result.estimated_size())
    if isinstance(result, pl.DataFrame):
        return sum(held_bytes(result.select(name).to_series()) for name in result.columns)
    return sum(held_bytes(one) for one in _inside(result))


def _inside(result: Any) -> Iterable[Any]:
    """The parts of a result."""
    if isinstance(result, (tuple, list)):
        return result
    if isinstance(result, dict):
        return result.values()
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return (getattr(result, field.name) for field in dataclasses.fields(result))
    return ()


def _spilled(result: Any) -> Any:
    if isinstance(result, np.ndarray):
        return _array(result)
    if isinstance(result, pl.Series):
        return _columns([result])[0]
    if isinstance(result, pl.DataFrame):
        if all(bytes_of(result.height, dtype) < LEAST_BYTES for dtype in result.dtypes):
            return result
        return pl.DataFrame(_columns([result.select(name).to_series() for name in result.columns]))
    if isinstance(result, tuple) and type(result) is tuple:
        return tuple(_spilled(one) for one in result)
    if isinstance(result, list):
        result[:] = [_spilled(one) for one in result]
    elif isinstance(result, dict):
        for key, value in result.items():
            result[key] = _spilled(value)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            object.__setattr__(result, field.name, _spilled(getattr(result, field.name)))
    return result


def _is_mapped(values: np.ndarray) -> bool:
    base = values.base
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap | memoryview)


def _array(values: np.ndarray) -> np.ndarray:
    if values.nbytes < LEAST_BYTES or _is_mapped(values) or values.dtype.hasobject or not values.ndim:
        return values
    with unnamed_file() as file:
        at_once = max(1, _AT_ONCE * len(values) // values.size)
        for first in range(0, len(values), at_once):
            file.write(np.ascontiguousarray(values[first : first + at_once]).data)
        file.flush()
        return np.frombuffer(mapped(file.fileno()), values.dtype).reshape(values.shape)


def _columns(columns: list[pl.Series]) -> list[pl.Series]:
    """Spill columns to one file: every mapped file counts against the limit of open files."""
    large = {place: series for place, series in enumerate(columns) if _must_spill(series)}
    found = list(columns)
    if not large:
        return found
    with unnamed_file() as file:
        lying = {
            place: write_column(file, series.to_physical() if series.dtype == NAME else series)
            for place, series in large.items()
            if not _is_all_null(series)
        }
        file.flush()
        data = mapped(file.fileno()) if lying else None
    for place, series in large.items():
        if data is None or place not in lying:
            found[place] = null_column(series.name, len(series), series.dtype)
            continue
        numbers = pl.UInt32() if series.dtype == NAME else series.dtype
        there = mapped_column(data, lying[place], len(series), numbers)
        found[place] = there.cat.to(NAME) if series.dtype == NAME else there
    return found


def _must_spill(series: pl.Series) -> bool:
    if bytes_of(len(series), series.dtype) < LEAST_BYTES or (series.dtype == NAME and not hasattr(series.cat, "to")):
        return False
    return not is_mapped(series)


def _is_all_null(series: pl.Series) -> bool:
    return series.null_count() == len(series)
