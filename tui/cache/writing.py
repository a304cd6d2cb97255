"""Writing frames: large columns of numbers and names so that they can be mapped, all else to be read whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.cache.arrow_file import buffers
from tui.cache.files import Column, File, Frame, Mapped, StoppedError, mapped, seal
from tui.cache.place import new_file, opened_file
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAPPED_ROWS: Final = 20_000
"""Columns of frames with so many rows are mapped."""

PIECE_BYTES: Final = 32 << 20
"""A file of mapped columns has about so many at most: between two of them the writing can be stopped."""

_WIDTHS: Final = {pl.UInt32: 4, pl.Int32: 4, pl.Int64: 8, pl.Float64: 8, pl.Categorical: 4}
"""The types that are mapped, with their bytes; names are, as numbers of the table of names."""


class Writer:
    """Writes the files of an entry.

    Args:
        entry: The folder, as a descriptor.
        stopped: Whether to stop, which raises `StoppedError`.
    """

    def __init__(self, entry: int, stopped: Callable[[], bool]) -> None:
        self._entry = entry
        self._stopped = stopped
        self._names = pl.Series("names", [], pl.String)
        self._codes = np.zeros(0, np.uint32)

    def frame(self, name: str, data: pl.DataFrame) -> Frame:
        """Write a frame."""
        present = [column for column in data if column.null_count() < data.height]
        large = [column for column in present if _is_mapped(column.dtype, data.height)]
        small = [column.name for column in present if not _is_mapped(column.dtype, data.height)]
        read = self.whole(name, data.select(small)) if small else None
        pieces = tuple(self._mapped(f"{name}.{at}", piece) for at, piece in enumerate(_pieces(large)))
        return Frame(data.height, read, pieces)

    def whole(self, name: str, data: pl.DataFrame) -> File:
        """Write a frame that is read whole."""
        return self._written(name, data)

    def names(self) -> File | None:
        """Write the names that the frames refer to; the last of all."""
        return self._written("names", self._names.to_frame()) if len(self._names) else None

    def _mapped(self, name: str, columns: list[pl.Series]) -> Mapped:
        data = pl.DataFrame([self._numbered(column) if column.dtype == NAME else column for column in columns])
        file = self._written(name, data, record_batch_size=data.height)
        with opened_file(self._entry, file.name) as descriptor, mapped(descriptor) as held, memoryview(held) as view:
            places = buffers(view)
        parts = [
            Column(column.name, values[0], valid[0] if column.null_count() else None, column.null_count())
            for column, (valid, values) in zip(data, places, strict=True)
        ]
        return Mapped(file, tuple(parts))

    def _numbered(self, column: pl.Series) -> pl.Series:
        """Names as the numbers of their rows in the table of names, which grows."""
        own = column.drop_nulls().unique()
        codes = own.to_physical().to_numpy()
        new = ~np.isin(codes, self._codes)
        self._codes = np.concatenate((self._codes, codes[new]))
        self._names = pl.concat([self._names, own.filter(pl.Series(new)).cast(pl.String).rename("names")])
        table = np.zeros(int(self._codes.max(initial=0)) + 1, np.uint32)
        table[self._codes] = np.arange(len(self._codes), dtype=np.uint32)
        known = column.is_not_null()
        numbers = pl.Series(column.name, table[column.to_physical().fill_null(int(codes[0])).to_numpy()])
        return numbers if known.all() else pl.select(pl.when(known).then(numbers).alias(column.name)).to_series()

    def _written(self, name: str, data: pl.DataFrame, *, record_batch_size: int | None = None) -> File:
        if self._stopped():
            raise StoppedError
        name = f"{name}.arrow"
        with os.fdopen(new_file(self._entry, name), "wb") as file:
            data.write_ipc(file, compression="uncompressed", record_batch_size=record_batch_size)
        return seal(self._entry, name, self._stopped)


def _is_mapped(dtype: pl.DataType, rows: int) -> bool:
    return rows >= MAPPED_ROWS and type(dtype) in _WIDTHS


def _pieces(columns: list[pl.Series]) -> Iterator[list[pl.Series]]:
    """Columns in groups, so that no file is much larger than `PIECE_BYTES`."""
    piece: list[pl.Series] = []
    size = 0
    for column in columns:
        own = _WIDTHS[type(column.dtype)] * len(column)
        if piece and size + own > PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(column)
        size += own
    if piece:
        yield piece
