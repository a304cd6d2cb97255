"""Columns with one value in every row (the only device, what the input does not record), stored as one value.

Columns with one value in every row where it is known share its memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

_MIN_ROWS: Final = 100_000
"""Rows; fewer take no memory to speak of."""

_WHOLE_NUMBERS: Final[Mapping[type[pl.DataType], tuple[Any, str]]] = {
    pl.Int32: (np.int32, "int32"),
    pl.Int64: (np.int64, "int64"),
    pl.UInt32: (np.uint32, "uint32"),
}
"""What they are to numpy and to Arrow."""


def compact_constants(data: pl.DataFrame, least: int = _MIN_ROWS) -> pl.DataFrame:
    """The same frame: a column whose values are all equal, or all null, costs nothing for a row.

    Columns of numbers that are equal wherever they are known share what they hold.

    Args:
        data: Any frame.
        least: Rows, at least 1; a frame of fewer is left as it is.

    >>> data = pl.DataFrame({"device": [0] * 100_000})
    >>> compact_constants(data).equals(data)
    True
    """
    if data.height < least:
        return data
    # Nearly every other column shows at once that it has several values.
    ends = data.select(pl.col(column).first().eq_missing(pl.col(column).last()) for column in data.columns).row(0)
    candidates = [column for column, equal in zip(data.columns, ends, strict=True) if equal]
    if not candidates:
        return data.with_columns(_shared(data))
    same = data.select(_is_one_value(column, data.schema[column]) for column in candidates).row(0)
    return data.with_columns(
        *_shared(data),
        *(
            pl.lit(data.item(0, column), data.schema[column]).alias(column)
            for column, holds in zip(candidates, same, strict=True)
            if holds
        ),
    )


def column_view(data: pl.DataFrame, column: str) -> pl.Series:
    """A column to look at once: a frame that is asked for it by its name keeps it at full size from then on.

    >>> column_view(pl.DataFrame({"device": [0, 1]}), "device").to_list()
    [0, 1]
    """
    return data.select(column).to_series()


def _shared(data: pl.DataFrame) -> list[pl.Series]:
    """The columns in which every number that is known is the same one, as 1 of all kernels and nothing of copies.

    What lies below an unknown value is of no matter: those of one number share it, and zeros are no memory at all.
    """
    if data.n_chunks() != 1 or data.height < _MIN_ROWS:
        return []
    wanted = [column for column, dtype in data.schema.items() if type(dtype) in _WHOLE_NUMBERS]
    unknown = dict(zip(wanted, data.select(pl.col(wanted).null_count()).row(0), strict=True)) if wanted else {}
    some = [column for column in wanted if 0 < unknown[column] < data.height]
    if not some:
        return []
    least, most = data.select(pl.col(some).min()).row(0), data.select(pl.col(some).max()).row(0)
    equal_columns: dict[tuple[type[pl.DataType], int], list[str]] = {}
    for column, number, last in zip(some, least, most, strict=True):
        if number == last:
            equal_columns.setdefault((type(data.schema[column]), number), []).append(column)
    # Imported here: most frames have no use for it.
    import nanoarrow  # type: ignore[import-untyped]

    found = []
    bits: dict[bytes, np.ndarray[Any, Any]] = {}
    for (dtype, number), columns in equal_columns.items():
        if number and len(columns) == 1:
            continue
        kind, arrow = _WHOLE_NUMBERS[dtype]
        values = np.full(data.height, number, kind) if number else np.zeros(data.height, kind)
        for column in columns:
            known = data.select(pl.col(column).is_not_null()).to_series().to_numpy()
            valid = np.packbits(known, bitorder="little")
            valid = bits.setdefault(valid.tobytes(), valid)
            buffers = [valid, values]
            array = nanoarrow.c_array_from_buffers(
                getattr(nanoarrow, arrow)(), data.height, buffers, null_count=unknown[column]
            )
            found.append(pl.Series(array).alias(column))
    return found


def _is_one_value(column: str, dtype: pl.DataType) -> pl.Expr:
    values = pl.col(column)
    same = values.null_count() == pl.len()
    if dtype.is_integer() or dtype in (pl.Boolean, pl.Categorical):
        codes = values.to_physical()
        same |= (values.null_count() == 0) & (codes.min() == codes.max())
    return same.alias(column)
