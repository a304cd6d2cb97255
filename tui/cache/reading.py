"""Reading frames that were kept: nothing of a file is used before all of it has been checked."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.cache.columns import column, nothing, renumbered
from tui.cache.files import Column, DamagedError, File, Frame, Mapped, checked, mapped, whole
from tui.cache.parking import is_on
from tui.model.schema import NAME

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

_MANY: Final = 1 << 20
"""Columns of so many rows are not held in memory where that can be helped."""


class Reader:
    """Reads the files of an entry, each checked before anything of it is used.

    Args:
        entry: The folder, as a descriptor.
        names: The table of names.
        opened: Opens a file; one that proves that it is what was written, unless nobody else can have had it.

    Raises:
        DamagedError: A file is not what was written.
        OSError: A file cannot be read, or somebody else could have written it.
    """

    def __init__(
        self, entry: int, names: File | None, opened: Callable[[int, File], AbstractContextManager[int]] = checked
    ) -> None:
        self._entry = entry
        self._opened = opened
        self._names = pl.Series("names", [], NAME)
        if names is not None:
            # First of all, so that in a fresh process the names get the numbers that they have in the files.
            self._names = self.whole(names, pl.Schema({"names": pl.String})).to_series().cast(NAME)
        self._codes = self._names.to_physical().to_numpy()
        self._as_stored = bool((self._codes == np.arange(len(self._codes))).all())

    def whole(self, file: File, schema: pl.Schema) -> pl.DataFrame:
        """A frame that is read whole, of exactly this schema."""
        with self._opened(self._entry, file) as descriptor:
            data = pl.read_ipc(whole(descriptor)).rechunk()
        if data.schema != schema:
            raise DamagedError(f"{file.name} has other columns")
        return data

    def frame(self, kept: Frame, schema: pl.Schema) -> pl.DataFrame:
        """A frame of exactly this schema."""
        if not 0 <= kept.rows < 1 << 32:
            raise DamagedError("no number of rows")
        columns: dict[str, pl.Series] = {}
        if kept.read is not None:
            others = {column.name for piece in kept.mapped for column in piece.columns}
            with self._opened(self._entry, kept.read) as descriptor:
                columns |= {s.name: s for s in pl.read_ipc(whole(descriptor)).rechunk()}
            if others & set(columns):
                raise DamagedError("a column is there twice")
        for piece in kept.mapped:
            columns |= self._columns(piece, kept.rows, schema)
        if not set(columns) <= set(schema):
            raise DamagedError("a column that no such frame has")
        if any(len(series) != kept.rows or series.dtype != schema[name] for name, series in columns.items()):
            raise DamagedError("a column of another type or length")
        # That each number is one of a name is looked at for every row: where memory suffices, one value stands for all.
        one_value = {name for name, dtype in schema.items() if dtype == NAME and name not in columns and not is_on()}
        for name, dtype in schema.items():
            if name not in columns and name not in one_value:
                columns[name] = nothing(name, kept.rows, dtype)
        data = pl.DataFrame([columns[name].alias(name) for name in schema if name in columns])
        return data.select(pl.lit(None, NAME).alias(name) if name in one_value else name for name in schema)

    def _columns(self, piece: Mapped, rows: int, schema: pl.Schema) -> dict[str, pl.Series]:
        with self._opened(self._entry, piece.file) as descriptor:
            data = mapped(descriptor)
        return {column.name: self._column(data, column, rows, schema.get(column.name)) for column in piece.columns}

    def _column(self, data: mmap.mmap, kept: Column, rows: int, dtype: pl.DataType | None) -> pl.Series:
        if dtype is None:
            raise DamagedError("a column that no such frame has")
        series = column(data, kept, rows, dtype)
        if dtype != NAME:
            return series
        largest = series.max()
        if isinstance(largest, int) and largest >= len(self._names):
            raise DamagedError("a name that the table lacks")
        if not hasattr(series.cat, "to"):
            return self._names.gather(series).alias(kept.name)
        if not self._as_stored:
            if rows < _MANY:
                return self._names.gather(series).alias(kept.name)
            series = renumbered(series, self._codes, rows)
        return series.cat.to(NAME)
