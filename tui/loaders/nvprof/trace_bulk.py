"""Bulk reading of the plain rows of a trace: what text and CSV share.

What repeats from launch to launch, everything between duration and correlation id, is looked up as one string and read
once for all rows that have it. A trace in which hardly anything repeats is read column by column instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import nanoarrow  # type: ignore[import-untyped]
import numpy as np
import polars as pl

from tui.loaders.nvprof.reader_state import is_message
from tui.loaders.nvprof.trace_layout import csv_header, text_header

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    import numpy.typing as npt

    from tui.loaders.digits import Bytes, Mask, Places
    from tui.loaders.nvprof.trace_table import TraceTable
    from tui.loaders.text.block import Block, Line

    LookedUp = list[Future[npt.NDArray[np.uint32]]]

ODD: Final = -2
"""In place of the code of cells that the tolerant reader has to look at."""

_NEW: Final = -1
_FIRST_CHUNK: Final = 256
_LOOK_UPS: Final = 2
"""Threads that look up what repeats, each a part of the rows."""
_LOOK_AHEAD: Final = 16
"""So many lines of program output are looked through for the next row."""
_ENOUGH: Final = 20_000
"""After so many rows it shows whether the cells of a trace repeat."""


def strings(data: Bytes, starts: Places, ends: Places) -> pl.Series:
    """Pieces of a text as a series that points into it; they must not overlap and must be in order.

    The text is UTF-8: callers see to it.
    """
    offsets = np.empty(2 * len(starts) + 1, np.int64)
    offsets[:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = len(data)
    array = nanoarrow.c_array_from_buffers(nanoarrow.large_string(), len(offsets) - 1, [None, offsets, data])
    # Indexing goes straight to the series: methods such as gather_every start a query, ten times a block.
    return pl.Series("", nanoarrow.Array(array))[pl.Series(np.arange(0, 2 * len(starts), 2, dtype=np.uint32))]


def is_next_row(block: Block | None, line: Line, is_row: Callable[[str], bool]) -> bool:
    """Whether a table goes on behind a line that is not of it: program output can stand between its rows.

    Args:
        block: The block that the line is in, where it is known.
        line: The line that is not of the table.
        is_row: Tells an undamaged row of the table.
    """
    if block is None or not 0 <= line.number - block.first_line < block.line_count:
        return False
    first = line.number - block.first_line
    for index in range(first, min(first + _LOOK_AHEAD, block.line_count)):
        text = block.line(index).text
        if is_message(text) or text_header(text) or csv_header(text):
            return False
        if index > first and is_row(text):
            return True
    return False


class Dictionary:
    """Gives equal strings equal codes, of which the caller says what they mean."""

    def __init__(self) -> None:
        self._type = pl.Categorical(pl.Categories.random())
        # Polars forgets the codes of a category as soon as no series holds it.
        self._holds_codes = pl.Series([], dtype=self._type)
        self._meaning = np.empty(0, np.int32)

    def codes(self, texts: pl.Series) -> npt.NDArray[np.uint32]:
        """Own codes of strings."""
        codes: npt.NDArray[np.uint32] = texts.cast(self._type).to_physical().to_numpy()
        return codes

    def meanings(self, own: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.int32], Places]:
        """What codes mean (`_NEW` where that is still to be said), and where each new one comes first."""
        top = int(own.max(initial=0)) + 1
        if top > len(self._meaning):
            grown = np.full(max(top, 2 * len(self._meaning)), _NEW, np.int32)
            grown[: len(self._meaning)] = self._meaning
            self._meaning = grown
        meaning = self._meaning[own]
        new = np.flatnonzero(meaning == _NEW)
        first = new[np.unique(own[new], return_index=True)[1]]
        return meaning, np.sort(first)

    def look_up(self, texts: pl.Series) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32], Places]:
        """Own codes of strings, and their `meanings`."""
        own = self.codes(texts)
        return own, *self.meanings(own)

    def learn(self, own: npt.NDArray[np.uint32], meaning: npt.NDArray[np.int32]) -> None:
        """Say what codes mean."""
        self._meaning[own] = meaning

    def translate(self, own: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """What codes mean."""
        return self._meaning[own]


@dataclass(slots=True)
class BulkRows:
    """Rows that look plain, in line order; those of which ``code`` is `ODD` were not, after all."""

    index: Places
    """Which line of the chunk each row is."""
    start: Places
    duration: Places
    correlation: Places
    is_api: Mask
    code: npt.NDArray[np.int32]
    last_digit: npt.NDArray[np.int64]
    """The power of ten, in nanoseconds, of the last digit of each start."""


class TraceBulkReader(ABC):
    """The plain rows of one table."""

    def __init__(self, table: TraceTable) -> None:
        self._table = table
        self._known = Dictionary()
        self._beside = ThreadPoolExecutor(_LOOK_UPS, "look-up")
        self._gpu_rows = self._gpu_cells = 0
        self._chunk = _FIRST_CHUNK

    def take(self, block: Block, start: int, take_one: Callable[[Line], bool]) -> int:
        """Read lines of a block from index ``start`` on; ``take_one`` reads those that are not plain.

        Returns:
            The index of the first line that is not of the table.
        """
        # A table may end soon, so look at few lines first and then at more and more.
        while start < block.line_count:
            stop = min(start + self._chunk, block.line_count)
            read = self._take_chunk(block, start, stop, take_one)
            if read < stop:
                return read
            start, self._chunk = stop, self._chunk * 4
        return start

    @abstractmethod
    def _rows(self, data: Bytes, begins: Places, ends: Places, ascii_lines: Mask | None) -> BulkRows:
        """Read the plain ones of some lines.

        Args:
            data: The text that the lines are in.
            begins: Where each line begins.
            ends: The index after each line's last character that is no blank.
            ascii_lines: Lines that are ASCII, or None where all are; others cannot be plain.
        """

    @abstractmethod
    def _new_codes(self, data: Bytes, cells_at: Places, ends: Places) -> npt.NDArray[np.int32]:
        """Read cells that were not seen before and say what each row is.

        Returns:
            Twice its code, and 1 more for API calls; `ODD` where it is not plain.
        """

    def _looked_up(self, data: Bytes, cells_at: Places, ends: Places) -> LookedUp | None:
        """Begin to look up the cells between ``cells_at`` and ``ends``; None where too few of them repeat.

        It is done in threads of its own: Polars needs no interpreter for it, and the caller has other columns to read.
        """
        if self._gpu_rows > _ENOUGH and self._gpu_cells > 0.5 * self._gpu_rows:
            return None
        # An odd row may seem to end before its cells begin.
        ends = np.maximum(ends, cells_at)

        def look_up(part: slice) -> npt.NDArray[np.uint32]:
            return self._known.codes(strings(data, cells_at[part], ends[part]))

        size = max(_FIRST_CHUNK, -(-len(ends) // _LOOK_UPS))
        return [self._beside.submit(look_up, slice(begin, begin + size)) for begin in range(0, len(ends) or 1, size)]

    def _codes(
        self, data: Bytes, cells_at: Places, ends: Places, good: Mask, looked_up: LookedUp | None
    ) -> npt.NDArray[np.int32]:
        """What rows are, as `_new_codes` says it; those that are not ``good`` are `ODD`."""
        own = np.concatenate([part.result() for part in looked_up]) if looked_up else None
        if good.all():
            return self._good_codes(data, cells_at, ends, own)
        codes = np.full(len(ends), ODD, np.int32)
        chosen = np.flatnonzero(good)
        own = None if own is None else own[chosen]
        codes[chosen] = self._good_codes(data, cells_at[chosen], ends[chosen], own)
        return codes

    def _good_codes(
        self, data: Bytes, cells_at: Places, ends: Places, own: npt.NDArray[np.uint32] | None
    ) -> npt.NDArray[np.int32]:
        """The same of rows that are good, of which ``own`` are the codes of the dictionary where it has them."""
        if own is None:
            return self._new_codes(data, cells_at, ends)
        found, first = self._known.meanings(own)
        if len(first):
            new = self._new_codes(data, cells_at[first], ends[first])
            self._known.learn(own[first], new)
            found = self._known.translate(own)
            self._gpu_cells += int(np.count_nonzero(new & 1 == 0))
        self._gpu_rows += len(found) - int(np.count_nonzero(found & 1))
        return found

    def _take_chunk(self, block: Block, start: int, stop: int, take_one: Callable[[Line], bool]) -> int:
        data = block.array
        begins = block.starts[start:stop]
        ends = _without_blanks(data, begins, block.starts[start + 1 : stop + 1] - 1)
        ascii_lines = None
        if not block.is_ascii:
            high = np.flatnonzero(data >= 128)
            ascii_lines = np.searchsorted(high, ends) == np.searchsorted(high, begins)
        rows = self._rows(data, begins, ends, ascii_lines)
        plain = rows.code >= 0
        odd = np.ones(stop - start, np.bool_)
        odd[rows.index[plain]] = False
        read = stop
        for index in np.flatnonzero(odd):
            if not take_one(block.line(start + int(index))):
                read = start + int(index)
                break
        plain &= rows.index < read - start
        if plain.any():
            self._keep(rows, plain, block.first_line + start)
        return read

    def _keep(self, rows: BulkRows, plain: Mask, first_line: int) -> None:
        self._table.note_step(Decimal(10) ** max(0, int(rows.last_digit[plain].max())))
        for is_api, store in ((False, self._table.gpu), (True, self._table.api)):
            kept = np.flatnonzero(plain & (rows.is_api == is_api))
            if len(kept):
                columns = (rows.index + first_line, rows.start, rows.duration, rows.correlation, rows.code)
                store.add_many(*(columns if len(kept) == len(plain) else (column[kept] for column in columns)))


def _without_blanks(data: Bytes, begins: Places, ends: Places) -> Places:
    """Row ends before trailing blanks."""
    while True:
        trailing = (ends > begins) & (data[np.maximum(ends - 1, 0)] == ord(" "))
        if not trailing.any():
            return ends
        ends = ends - trailing
