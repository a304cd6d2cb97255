"""Frames that memory may not hold, written piece by piece as columns that are mapped afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
import xxhash

from tui.cache.columns import bytes_of
from tui.cache.files import Column, File, Frame, Mapped
from tui.cache.parking import begin
from tui.cache.place import PART, new_file, opened_entry, opened_file, opened_folder, remove
from tui.cache.reading import Reader
from tui.cache.writing import MAPPED_ROWS, Writer
from tui.loaders.scratch import Scratch
from tui.model.schema import FRAMES, NAME, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import BufferedWriter

_ZEROS: Final = bytes(1 << 20)
_ALIGNED: Final = 64


class Spool:
    """Takes rows, frame by frame, in the order in which they are to stand.

    Args:
        entry: The folder to write to, as a descriptor.
        rows: How many rows each frame will have at most.
    """

    def __init__(self, entry: int, rows: Mapping[str, int]) -> None:
        self._entry = entry
        self._whole: dict[str, list[pl.DataFrame]] = {}
        self._columns: dict[str, dict[str, _Column]] = {}
        self._rows = dict.fromkeys(FRAMES, 0)
        self._few = {name for name in FRAMES if rows.get(name, 0) < MAPPED_ROWS}
        self._last_name = -1

    def rows(self, frame: str) -> int:
        """How many rows of a frame there are so far."""
        return self._rows[frame]

    def add(self, frame: str, data: pl.DataFrame) -> None:
        """Add rows of exactly the frame's columns.

        Raises:
            OSError: They cannot be written.
        """
        self._rows[frame] += data.height
        can_map = {name for name, dtype in data.schema.items() if frame not in self._few and bytes_of(8, dtype)}
        if others := [name for name in data.columns if name not in can_map]:
            self._whole.setdefault(frame, []).append(data.select(others))
        columns = self._columns.setdefault(frame, {})
        for series in data.select(can_map):
            if series.dtype == NAME:
                series = series.to_physical()
                largest = series.max()
                self._last_name = max(self._last_name, largest if isinstance(largest, int) else -1)
            if series.name not in columns:
                columns[series.name] = _Column(self._entry, f"{frame}.{series.name}.column", series.name)
            columns[series.name].add(series)

    def abandon(self) -> None:
        """Let go of the files, whether or not they were finished."""
        for columns in self._columns.values():
            for column in columns.values():
                column.abandon()

    def close(self) -> tuple[dict[str, Frame], File | None]:
        """Write what is left, and tell where all of it lies: the frames and the table of names."""
        writer = Writer(self._entry, lambda: False)
        frames: dict[str, Frame] = {}
        for name, rows in self._rows.items():
            if not rows:
                continue
            whole = pl.concat(self._whole[name]) if name in self._whole else None
            if whole is not None:
                whole = whole.select(column for column in whole if column.null_count() < rows)
            read = writer.whole(name, whole) if whole is not None and whole.width else None
            pieces = [column.close() for column in self._columns.get(name, {}).values()]
            frames[name] = Frame(rows, read, tuple(piece for piece in pieces if piece is not None))
        names = None
        if self._last_name >= 0:
            # In the order of their numbers, so that the numbers of this process can be written as they are.
            numbers = pl.int_range(self._last_name + 1, dtype=pl.UInt32, eager=True)
            names = writer.whole("names", numbers.cat.to(NAME).cast(pl.String).rename("names").to_frame())
        return frames, names


class _Column:
    """A file of the values of one column, and after them of bits that tell which are there."""

    def __init__(self, entry: int, file: str, name: str) -> None:
        self._entry = entry
        self._file_name = file
        self._name = name
        self._file: BufferedWriter | None = None
        self._digest = xxhash.xxh3_128()
        self._size = 0
        self._rows = self._nulls = 0
        self._valid = _Bits()
        self._truth = _Bits()

    def add(self, series: pl.Series) -> None:
        nulls = series.null_count()
        before = self._rows
        self._rows += len(series)
        self._nulls += nulls
        self._valid.add(np.zeros(len(series), bool) if nulls == len(series) else series.is_not_null().to_numpy())
        if nulls == len(series) and self._file is None:
            return
        filled = series.fill_null(False if series.dtype == pl.Boolean else 0).to_numpy()
        if self._file is None:
            self._file = os.fdopen(new_file(self._entry, self._file_name), "wb")
            if series.dtype == pl.Boolean:
                self._truth.add(np.zeros(before, bool))
            else:
                self._zeros(before * filled.itemsize)
        if series.dtype == pl.Boolean:
            self._truth.add(filled)
        else:
            self._write(np.ascontiguousarray(filled).data.cast("B"))

    def close(self) -> Mapped | None:
        """Where it lies; None where no value is there."""
        if self._file is None:
            return None
        self._write(self._truth.packed())
        bits = None
        if self._nulls:
            self._zeros(-self._size % _ALIGNED)
            bits = self._size
            self._write(self._valid.packed())
        self._file.close()
        file = File(self._file_name, self._size, self._digest.hexdigest())
        return Mapped(file, (Column(self._name, 0, bits, self._nulls),))

    def abandon(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _zeros(self, count: int) -> None:
        for first in range(0, count, len(_ZEROS)):
            self._write(_ZEROS[: count - first])

    def _write(self, data: bytes | memoryview) -> None:
        assert self._file is not None, "a file without a value is not begun"
        self._file.write(data)
        self._digest.update(data)
        self._size += len(data)


class _Bits:
    """Truth values, eight to a byte."""

    def __init__(self) -> None:
        self._bytes: list[bytes] = []
        self._rest = np.zeros(0, bool)

    def add(self, values: np.ndarray) -> None:
        values = np.concatenate((self._rest, values))
        whole = len(values) // 8 * 8
        self._bytes.append(np.packbits(values[:whole], bitorder="little").tobytes())
        self._rest = values[whole:].copy()

    def packed(self) -> bytes:
        return b"".join((*self._bytes, np.packbits(self._rest, bitorder="little").tobytes()))


def spooled(
    rows: Mapping[str, int],
    fill: Callable[[Spool], bool],
    keep: Callable[[int, str, int, dict[str, Frame], File | None], None] | None = None,
) -> dict[str, pl.DataFrame]:
    """Frames that are filled piece by piece, mapped.

    Args:
        rows: How many rows each frame will have at most.
        fill: Adds them; what it raises is raised. It returns whether they may be kept.
        keep: Told of the folder of entries, of the entry in it by its name and as a descriptor, and of its files; it
            takes the entry to where it stays. Of what it leaves nothing has a name any more when this returns.

    Raises:
        OSError: There is no room for them.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(_some_folder())
        making = f"spool.{os.getpid()}.{os.urandom(4).hex()}{PART}"
        os.mkdir(making, 0o700, dir_fd=folder)
        stack.callback(remove, folder, making)
        entry = stack.enter_context(opened_entry(folder, making))
        begin()
        spool = Spool(entry, rows)
        stack.callback(spool.abandon)
        may_keep = fill(spool)
        kept, names = spool.close()
        reader = Reader(entry, names, _unchecked)
        frames = {
            name: reader.frame(kept[name], schema) if name in kept else empty(name) for name, schema in FRAMES.items()
        }
        if keep is not None and may_keep:
            keep(folder, making, entry, kept, names)
        return frames


@contextmanager
def _some_folder() -> Iterator[int]:
    """The folder of entries, or one for temporary files where that cannot be used."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(opened_folder(make=True))
        except OSError:
            # Where this run is killed, the next one takes it away.
            path = stack.enter_context(Scratch())
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
        yield folder


@contextmanager
def _unchecked(entry: int, file: File) -> Iterator[int]:
    """A file that this process has just written."""
    with opened_file(entry, file.name) as descriptor:
        yield descriptor
