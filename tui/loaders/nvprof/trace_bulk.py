"""Reads the plain rows of a text trace many at once.

What repeats from launch to launch, everything between duration and correlation id, is looked up as one string and read
once for all rows that have it. A trace in which hardly anything repeats is read column by column instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl

from tui.loaders.nvprof.numbers import NS_PER_UNIT
from tui.loaders.nvprof.trace_cells import CELLS
from tui.loaders.nvprof.trace_layout import SIZE_UNITS, TextLayout
from tui.loaders.nvprof.trace_numbers import (
    Bytes,
    Figures,
    Mask,
    Places,
    blank,
    dimensions,
    figures,
    final_ids,
)

if TYPE_CHECKING:
    from tui.loaders.block import Block
    from tui.loaders.nvprof.trace_table import TraceTable
    from tui.loaders.section import Line

_FIRST_CHUNK: Final = 256
_NEW: Final = -1
_ODD: Final = -2
"""In place of the code of cells that the tolerant reader has to look at."""

_MISSING: Final = {
    name: np.nan if dtype == pl.Float64 else -1 if dtype.is_numeric() else None for name, dtype in CELLS.items()
}
"""Null in the columns that numpy makes; they become null when the table is complete."""

_ENOUGH: Final = 20_000
"""After so many rows it shows whether the cells of a trace repeat."""
_NARROWEST: Final = 5
"""A column must hold a blank, a digit and a unit such as ``B/s``."""


def strings(data: Bytes, starts: Places, ends: Places) -> pl.Series:
    """Pieces of a text as a series that points into it; they must not overlap and must be in order.

    The text is UTF-8: callers see to it.
    """
    offsets = np.empty(2 * len(starts) + 1, np.int64)
    offsets[:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = len(data)
    array = nanoarrow.c_array_from_buffers(nanoarrow.large_string(), len(offsets) - 1, [None, offsets, data])
    return pl.Series("", nanoarrow.Array(array)).gather_every(2)


class Dictionary:
    """Gives equal strings equal codes, of which the caller says what they mean."""

    def __init__(self) -> None:
        self._type = pl.Categorical(pl.Categories.random())
        self._meaning = np.empty(0, np.int32)
        self.rows = 0
        self.distinct = 0

    def look_up(self, texts: pl.Series) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32], Places]:
        """Own codes and meanings of strings (`_NEW` where there is none yet), and where each new string comes first."""
        own = texts.cast(self._type).to_physical().to_numpy()
        top = int(own.max(initial=0)) + 1
        if top > len(self._meaning):
            grown = np.full(max(top, 2 * len(self._meaning)), _NEW, np.int32)
            grown[: len(self._meaning)] = self._meaning
            self._meaning = grown
        meaning = self._meaning[own]
        new = np.flatnonzero(meaning == _NEW)
        first = new[np.unique(own[new], return_index=True)[1]]
        self.rows += len(own)
        self.distinct += len(first)
        return own, meaning, np.sort(first)

    def learn(self, own: npt.NDArray[np.uint32], meaning: npt.NDArray[np.int32]) -> None:
        """Say what codes mean."""
        self._meaning[own] = meaning

    def translate(self, own: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """What codes mean."""
        return self._meaning[own]


class TextBulk:
    """The plain rows of one table."""

    def __init__(self, layout: TextLayout, table: TraceTable) -> None:
        self._layout = layout
        self._table = table
        self._lead = layout.lead.encode()
        self._edges = layout.edges
        self._name_start = layout.name_start
        self._gpu = Dictionary()
        self._api = Dictionary()
        self._chunk = _FIRST_CHUNK
        widths = np.diff((len(layout.lead) - 1, *layout.edges))
        self._usable = (
            layout.lead.isascii()
            and int(widths.min(initial=_NARROWEST)) >= _NARROWEST
            and len(layout.edges) >= 2
            and not set(layout.units) - {"start", "duration", "static", "dynamic", "size", "throughput"}
        )

    def take(self, block: Block, start: int, take_one: Callable[[Line], bool]) -> int:
        """Read lines of a block from index ``start`` on; ``take_one`` reads those that are not plain.

        Returns:
            The index of the first line that is not of the table.
        """
        if not self._usable:
            return start
        # A table may end soon, so look at few lines first and then at more and more.
        while start < block.line_count:
            stop = min(start + self._chunk, block.line_count)
            read = self._take_chunk(block, start, stop, take_one)
            if read < stop:
                return read
            start, self._chunk = stop, self._chunk * 4
        return start

    def _take_chunk(self, block: Block, start: int, stop: int, take_one: Callable[[Line], bool]) -> int:
        data = block.array
        begins = block.starts[start:stop]
        ends = block.starts[start + 1 : stop + 1] - 1
        ends = _without_blanks(data, ends, begins)
        plain = self._plain(block, begins, ends)
        rows = np.flatnonzero(plain)
        begins, ends = begins[rows], ends[rows]
        start_cells = self._times(data, begins, 0)
        duration_cells = self._times(data, begins, 1)
        good = start_cells.good & ~start_cells.dash & duration_cells.good
        is_api = self._is_api(data, begins)
        codes = np.full(len(rows), _ODD, np.int32)
        ids, name_ends = self._ids(data, ends, is_api)
        for api in (False, True):
            chosen = np.flatnonzero(good & (is_api == api))
            if len(chosen):
                codes[chosen] = (self._api_codes if api else self._gpu_codes)(data, begins[chosen], name_ends[chosen])
        plain[rows[codes < 0]] = False
        read = stop
        for index in np.flatnonzero(~plain):
            if not take_one(block.line(start + int(index))):
                read = start + int(index)
                break
        kept = (codes >= 0) & (rows < read - start)
        if kept.any():
            self._keep(block.first_line + start + rows, kept, is_api, start_cells, duration_cells, ids, codes)
        return read

    def _keep(
        self,
        lines: Places,
        kept: Mask,
        is_api: Mask,
        start_cells: Figures,
        duration_cells: Figures,
        ids: Places,
        codes: npt.NDArray[np.int32],
    ) -> None:
        starts, durations = start_cells.as_ns(), duration_cells.as_ns()
        start_cells.good &= kept
        self._table.note_step_ns(start_cells.coarsest_step_ns())
        for api, store in ((False, self._table.gpu), (True, self._table.api)):
            chosen = kept & (is_api == api)
            if chosen.any():
                store.add_many(lines[chosen], starts[chosen], durations[chosen], ids[chosen], codes[chosen])

    def _plain(self, block: Block, begins: Places, ends: Places) -> Mask:
        """Rows whose columns end where the header says, with blanks between them, in ASCII."""
        data = block.array
        plain = ends - begins > self._name_start
        if not block.data.isascii():
            # Columns are counted in characters.
            high = np.flatnonzero(data >= 128)
            plain &= np.searchsorted(high, ends) == np.searchsorted(high, begins)
        safe = np.where(plain, begins, 0)
        limit = len(data) - 1
        for place, sign in enumerate(self._lead):
            plain &= data[np.minimum(safe + place, limit)] == sign
        last_edge = self._edges[-1]
        for place in (self._edges[0], self._edges[1], *range(last_edge, self._name_start)):
            plain &= data[np.minimum(safe + place, limit)] == ord(" ")
        for place in (self._edges[0] - 1, self._edges[1] - 1, last_edge - 1, self._name_start):
            plain &= data[np.minimum(safe + place, limit)] != ord(" ")
        return plain & (data[np.maximum(ends - 1, 0)] != ord("\t"))

    def _times(self, data: Bytes, begins: Places, which: int) -> Figures:
        """Start (0) or duration (1) of all rows."""
        left = len(self._lead) if which == 0 else self._edges[0]
        edge = self._edges[which]
        unit = self._layout.units.get(("start", "duration")[which])
        read = figures(data, begins + edge, edge - left, b"" if unit else b"s")
        # Only the start may begin without a blank: nothing stands before it but the lead of the paste.
        if which:
            read.good &= data[begins + left] == ord(" ")
        if unit:
            read.unit[:] = len(str(NS_PER_UNIT[unit])) - 1
        return read

    def _is_api(self, data: Bytes, begins: Places) -> Mask:
        """API calls have no grid and are not one of nvprof's own names."""
        if self._layout.is_api:
            return np.ones(len(begins), np.bool_)
        if "grid" not in self._layout.columns:
            return np.zeros(len(begins), np.bool_)
        grid = self._edges[self._layout.columns.index("grid")]
        return (data[begins + grid - 1] == ord("-")) & (data[begins + self._name_start] != ord("["))

    def _ids(self, data: Bytes, ends: Places, is_api: Mask) -> tuple[Places, Places]:
        if not len(ends):
            return ends, ends
        # The id of an API call stands within the brackets around the kernel's name.
        bracket = is_api & (data[ends - 1] == ord(")")) & (data[ends - 2] == ord("]"))
        ids, name_ends = final_ids(data, ends - bracket)
        return ids, np.where(ids >= 0, name_ends, ends)

    def _api_codes(self, data: Bytes, begins: Places, ends: Places) -> npt.NDArray[np.int32]:
        texts = strings(data, begins + self._name_start, ends)
        own, codes, first = self._api.look_up(texts)
        if len(first):
            names = [text.partition(" (")[0] for text in texts.gather(first)]
            self._api.learn(own[first], np.array([self._table.api_code(name) for name in names], np.int32))
            codes = self._api.translate(own)
        return codes

    def _gpu_codes(self, data: Bytes, begins: Places, ends: Places) -> npt.NDArray[np.int32]:
        known = self._gpu
        if known.rows > _ENOUGH and known.distinct > 0.5 * known.rows:
            return self._new_codes(data, begins, ends)
        own, codes, first = known.look_up(strings(data, begins + self._edges[1], ends))
        if len(first):
            known.learn(own[first], self._new_codes(data, begins[first], ends[first]))
            codes = known.translate(own)
        return codes

    def _new_codes(self, data: Bytes, begins: Places, ends: Places) -> npt.NDArray[np.int32]:
        """Read the cells of rows and give each row a code of its own; `_ODD` for cells that are not plain."""
        columns, good = read_cells(self._layout, data, begins, ends)
        codes = np.full(len(begins), _ODD, np.int32)
        count = int(np.count_nonzero(good))
        if count:
            cells = pl.DataFrame({name: columns.get(name, _MISSING[name]) for name in CELLS}, schema=CELLS)
            first = self._table.add_cells(cells if count == len(good) else cells.filter(good))
            codes[good] = np.arange(first, first + count)
        return codes


def _without_blanks(data: Bytes, ends: Places, begins: Places) -> Places:
    """Row ends before trailing blanks."""
    while True:
        blank = (ends > begins) & (data[np.maximum(ends - 1, 0)] == ord(" "))
        if not blank.any():
            return ends
        ends = ends - blank


_SIZES: Final = ("static", "dynamic", "size", "throughput")


def read_cells(
    layout: TextLayout, data: Bytes, begins: Places, ends: Places
) -> tuple[dict[str, pl.Series | npt.NDArray[np.generic]], Mask]:
    """The cells of rows behind their times, as columns of `CELLS`, and which rows are plain in all of them."""
    columns: dict[str, pl.Series | npt.NDArray[np.generic]] = {
        "name": strings(data, begins + layout.name_start, ends).cast(CELLS["name"])
    }
    good = np.ones(len(begins), np.bool_)
    left = layout.edges[1]
    for column, edge in zip(layout.columns[2:-1], layout.edges[2:], strict=True):
        width = edge - left
        at, edges = begins + left, begins + edge
        good &= data[at] == ord(" ")
        if column in ("grid", "block"):
            *parts, fits = dimensions(data, at, width)
            columns.update((f"{column}_{axis}", part) for axis, part in zip("xyz", parts, strict=True))
        elif column in ("registers", "context", "stream", *_SIZES):
            is_size = column in _SIZES
            unit = layout.units.get(column, "").removesuffix("/s")
            suffix = b"" if unit or not is_size else b"B/s" if column == "throughput" else b"B"
            read = figures(data, edges, width, suffix)
            fits = read.good
            if is_size:
                columns[column] = read.as_float()
                power = np.int8(SIZE_UNITS.index(unit)) if unit else read.unit
                columns[f"{column}_power"] = np.where(read.dash, np.int8(-1), power)
            else:
                fits &= read.decimals == 0
                columns[column] = read.as_whole()
        elif column in ("src_memory", "dst_memory", "device"):
            words = strings(data, at, edges).str.strip_chars(" ").replace("-", None)
            fits = data[edges - 1] != ord(" ")
            if column != "device":
                fits &= words.str.contains("^[A-Za-z]+$").fill_null(True).to_numpy()
                words = words.str.to_lowercase()
            columns[column] = words.cast(CELLS[column])
        elif column in ("um", "address"):
            fits = (data[edges - 1] == ord("-")) & blank(data, at, width - 1)
        else:
            fits = data[edges - 1] != ord(" ")
        good &= fits
        left = edge
    return columns, good
