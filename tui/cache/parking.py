"""What was worked out of an input that memory may not hold: put on the disk as well, and mapped."""

from __future__ import annotations

import dataclasses
import mmap
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import numpy as np
import polars as pl

from tui.cache.columns import bytes_of, column, is_mapped
from tui.cache.files import Column, mapped
from tui.cache.place import unnamed_file
from tui.model.schema import NAME

Result = TypeVar("Result")

LEAST_BYTES: Final = 1 << 18
"""What is smaller stays in memory."""

_AT_ONCE: Final = 1 << 20
_ALIGNED: Final = 64


class _Switch:
    is_on = False


def begin() -> None:
    """From now on large results are to be parked: an input was opened that memory may not hold."""
    _Switch.is_on = True


def is_on() -> bool:
    """Whether an input was opened that memory may not hold."""
    return _Switch.is_on


def parked(result: Result) -> Result:
    """The same with all large columns and arrays in it on the disk, which nobody may change; or itself.

    It looks into tuples, lists, dictionaries and dataclasses; those that can be changed are.
    """
    if not _Switch.is_on:
        return result
    # Where the disk is full, results stay where they are.
    with suppress(OSError):
        return cast("Result", _parked(result))
    return result


def rows_where(frame: pl.DataFrame, *which: pl.Expr) -> pl.DataFrame:
    """The rows of a frame that some conditions hold for; column by column and parked where it is large."""
    if not _Switch.is_on or frame.height < _AT_ONCE:
        return frame.lazy().filter(*which).collect()
    rows = frame.lazy().select(pl.arg_where(pl.all_horizontal(which))).collect().to_series()
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return frame.slice(int(rows[0]), len(rows))
    return pl.DataFrame([parked(column.gather(rows)) for column in frame.get_columns()])


def _parked(result: Any) -> Any:
    if isinstance(result, np.ndarray):
        return _array(result)
    if isinstance(result, pl.Series):
        return _series(result)
    if isinstance(result, pl.DataFrame):
        if all(bytes_of(result.height, dtype) < LEAST_BYTES for dtype in result.dtypes):
            return result
        return pl.DataFrame([_series(one) for one in result.get_columns()])
    if isinstance(result, tuple) and type(result) is tuple:
        return tuple(_parked(one) for one in result)
    if isinstance(result, list):
        result[:] = [_parked(one) for one in result]
    elif isinstance(result, dict):
        for key, value in result.items():
            result[key] = _parked(value)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            object.__setattr__(result, field.name, _parked(getattr(result, field.name)))
    return result


def _array(values: np.ndarray) -> np.ndarray:
    is_there = isinstance(values.base, mmap.mmap | memoryview)
    if values.nbytes < LEAST_BYTES or is_there or values.dtype.hasobject or values.ndim != 1:
        return values
    with unnamed_file() as file:
        for first in range(0, len(values), _AT_ONCE):
            file.write(np.ascontiguousarray(values[first : first + _AT_ONCE]).data)
        file.flush()
        return np.frombuffer(mapped(file.fileno()), values.dtype)


def _series(series: pl.Series) -> pl.Series:
    rows = len(series)
    if bytes_of(rows, series.dtype) < LEAST_BYTES or (series.dtype == NAME and not hasattr(series.cat, "to")):
        return series
    if is_mapped(series):
        return series
    numbers = series.to_physical() if series.dtype == NAME else series
    nulls = series.null_count()
    with unnamed_file() as file:
        # Eight rows are a byte of bits: parts begin with a byte.
        for part in _slices(numbers):
            values = part.fill_null(False if series.dtype == pl.Boolean else 0).to_numpy()
            packed = np.packbits(values, bitorder="little") if series.dtype == pl.Boolean else values
            file.write(np.ascontiguousarray(packed).data)
        bits = None
        if nulls:
            file.write(bytes(-file.tell() % _ALIGNED))
            bits = file.tell()
            for part in _slices(numbers):
                file.write(np.packbits(part.is_not_null().to_numpy(), bitorder="little").data)
        file.flush()
        data = mapped(file.fileno())
    found = column(data, Column(series.name, 0, bits, nulls), rows, numbers.dtype)
    return found.cat.to(NAME) if series.dtype == NAME else found


def _slices(series: pl.Series) -> list[pl.Series]:
    return [series.slice(first, _AT_ONCE) for first in range(0, len(series), _AT_ONCE)]
