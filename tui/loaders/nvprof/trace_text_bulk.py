"""Reads the plain rows of a text trace many at once, from the places that the header gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.nvprof.numbers import NS_PER_UNIT
from tui.loaders.nvprof.trace_bulk import ODD, BulkReader, Dictionary, Rows, strings
from tui.loaders.nvprof.trace_cells import api_name
from tui.loaders.nvprof.trace_layout import SIZE_UNITS, TextLayout
from tui.loaders.nvprof.trace_numbers import Figures, blank, dimensions, figures, final_ids
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.digits import Bytes, Mask, Places
    from tui.loaders.nvprof.trace_table import TraceTable

_NARROWEST: Final = 5
"""A column must hold a blank, a digit and a unit such as ``B/s``."""

_SIZES: Final = ("static", "dynamic", "size", "throughput")
_WORDS: Final = ("src_memory", "dst_memory", "device")


def bulk_reads(layout: TextLayout) -> bool:
    """Whether a layout is one that `TextBulk` can read."""
    widths = np.diff((len(layout.lead) - 1, *layout.edges))
    words = [place for place, column in enumerate(layout.columns) if column in _WORDS]
    side_by_side = not words or (words[0] > 1 and words[-1] - words[0] == len(words) - 1)
    return layout.lead.isascii() and int(widths.min()) >= _NARROWEST and side_by_side


class TextBulk(BulkReader):
    """The plain rows of one text table."""

    def __init__(self, layout: TextLayout, table: TraceTable) -> None:
        super().__init__(table)
        self._layout = layout
        self._lead = layout.lead.encode()
        self._edges = layout.edges
        self._name_start = layout.name_start
        self._api_names = Dictionary()
        self._words = Words(layout)
        # API calls in a table of GPU activities have a dash in every other column.
        dashes = "".join("-".rjust(width) for width in np.diff(layout.edges)[1:])
        self._no_cells = dashes + " " * (layout.name_start - layout.edges[-1])

    def _rows(self, data: Bytes, begins: Places, ends: Places, ascii_lines: Mask | None) -> Rows:
        plain = self._plain(data, begins, ends)
        if ascii_lines is not None:
            # Columns are counted in characters.
            plain &= ascii_lines
        index = np.flatnonzero(plain)
        begins, ends = begins[index], ends[index]
        start, duration = self._times(data, begins, 0), self._times(data, begins, 1)
        start.good &= ~start.dash
        good = start.good & duration.good
        is_api = self._is_api(data, begins)
        ids, name_ends = self._ids(data, ends, is_api)
        codes = np.full(len(index), ODD, np.int32)
        chosen = np.flatnonzero(good & ~is_api)
        if len(chosen):
            codes[chosen] = self._codes(data, begins[chosen] + self._edges[1], name_ends[chosen])
        chosen = np.flatnonzero(good & is_api)
        if len(chosen):
            codes[chosen] = self._api_codes(data, begins[chosen], name_ends[chosen])
        return Rows(index, start.as_ns(), duration.as_ns(), ids, is_api, codes, start.last_digit())

    def _plain(self, data: Bytes, begins: Places, ends: Places) -> Mask:
        """Rows whose columns end where the header says, with blanks between them."""
        plain: Mask = ends - begins > self._name_start
        limit = len(data) - 1
        last_edge = self._edges[-1]
        for place, sign in enumerate(self._lead):
            plain &= data[np.minimum(begins + place, limit)] == sign
        for place in (self._edges[0], self._edges[1], *range(last_edge, self._name_start)):
            plain &= data[np.minimum(begins + place, limit)] == ord(" ")
        for place in (self._edges[0] - 1, self._edges[1] - 1, last_edge - 1, self._name_start):
            plain &= data[np.minimum(begins + place, limit)] != ord(" ")
        plain &= data[np.maximum(ends - 1, 0)] != ord("\t")
        return plain

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
        no_grid: Mask = data[begins + (grid - 1)] == ord("-")
        no_grid &= data[begins + self._name_start] != ord("[")
        return no_grid

    def _ids(self, data: Bytes, ends: Places, is_api: Mask) -> tuple[Places, Places]:
        # The id of an API call stands within the brackets around the kernel's name.
        bracket = is_api & (data[ends - 1] == ord(")")) & (data[ends - 2] == ord("]"))
        ids, name_ends = final_ids(data, ends - bracket)
        return ids, np.where(ids >= 0, name_ends, ends)

    def _api_codes(self, data: Bytes, begins: Places, ends: Places) -> npt.NDArray[np.int32]:
        texts = strings(data, begins + self._edges[1], ends)
        own, codes, first = self._api_names.look_up(texts)
        if len(first):
            new = [self._api_code(text) for text in texts.gather(first)]
            self._api_names.learn(own[first], np.array(new, np.int32))
            codes = self._api_names.translate(own)
        return codes

    def _api_code(self, text: str) -> int:
        if not text.startswith(self._no_cells) or "  " in text[len(self._no_cells) :]:
            return ODD
        return self._table.api_code(api_name(text[len(self._no_cells) :]))

    def _new_codes(self, data: Bytes, cells_at: Places, ends: Places) -> npt.NDArray[np.int32]:
        columns, good = read_cells(self._layout, data, cells_at - self._edges[1], ends, self._words)
        # Two blanks in a name can be those before another row, where the end of a line was lost.
        good &= ~pl.Series(columns["name"]).cast(pl.String).str.contains("  ", literal=True).to_numpy()
        codes = np.full(len(ends), ODD, np.int32)
        count = int(np.count_nonzero(good))
        if count:
            if count < len(good):
                columns = {
                    name: values.filter(good) if isinstance(values, pl.Series) else values[good]
                    for name, values in columns.items()
                }
            first = self._table.add_columns(columns, count)
            codes[good] = np.arange(first, first + count)
        return codes


class Words:
    """Columns of words that stand side by side (kinds of memory, the device): few different ones, each read once."""

    def __init__(self, layout: TextLayout) -> None:
        places = [place for place, column in enumerate(layout.columns[:-1]) if column in _WORDS]
        self.columns = tuple(layout.columns[place] for place in places)
        self._edges = [layout.edges[place] for place in places]
        self._left = layout.edges[places[0] - 1] if places else 0
        self._known = Dictionary()
        self._rows: list[tuple[str | None, ...]] = []
        self._frame = pl.DataFrame()

    def read(self, data: Bytes, begins: Places) -> tuple[dict[str, pl.Series], Mask]:
        """The columns for rows that begin at places, and which rows are plain in all of them."""
        if not self.columns:
            return {}, np.ones(len(begins), np.bool_)
        texts = strings(data, begins + self._left, begins + self._edges[-1])
        own, codes, first = self._known.look_up(texts)
        if len(first):
            self._known.learn(own[first], np.array([self._learn(text) for text in texts.gather(first)], np.int32))
            codes = self._known.translate(own)
            rows = self._rows or [(None,) * len(self.columns)]
            self._frame = pl.DataFrame(rows, dict.fromkeys(self.columns, NAME), orient="row")
        good: Mask = codes >= 0
        of_row = pl.Series(np.maximum(codes, 0))
        return {column.name: column.gather(of_row) for column in self._frame.get_columns()}, good

    def _learn(self, text: str) -> int:
        cells, left = [], 0
        for column, edge in zip(self.columns, self._edges, strict=True):
            cell = text[left : edge - self._left]
            left = edge - self._left
            word = cell.strip(" ")
            if cell[0] != " " or cell[-1] == " " or (column != "device" and not (word == "-" or word.isalpha())):
                return ODD
            cells.append(None if word == "-" else word if column == "device" else word.lower())
        self._rows.append(tuple(cells))
        return len(self._rows) - 1


def read_cells(
    layout: TextLayout, data: Bytes, begins: Places, ends: Places, words: Words
) -> tuple[dict[str, pl.Series | npt.NDArray[np.generic]], Mask]:
    """The cells of rows behind their times, as columns of `CELLS`, and which rows are plain in all of them."""
    columns: dict[str, pl.Series | npt.NDArray[np.generic]] = {
        "name": strings(data, begins + layout.name_start, ends).cast(NAME)
    }
    read_words, good = words.read(data, begins)
    columns.update(read_words)
    left = layout.edges[1]
    for column, edge in zip(layout.columns[2:-1], layout.edges[2:], strict=True):
        width = edge - left
        at, edges = begins + left, begins + edge
        if column not in _WORDS:
            good &= data[at] == ord(" ")
            if column in ("grid", "block"):
                *parts, fits = dimensions(data, at, width)
                columns.update((f"{column}_{axis}", part) for axis, part in zip("xyz", parts, strict=True))
            elif column in ("um", "address"):
                fits = (data[edges - 1] == ord("-")) & blank(data, at, width - 1)
            elif column in _SIZES:
                unit = layout.units.get(column, "").removesuffix("/s")
                read = figures(data, edges, width, b"" if unit else b"B/s" if column == "throughput" else b"B")
                fits = read.good
                columns[column] = read.as_float()
                power = np.int8(SIZE_UNITS.index(unit)) if unit else read.unit
                columns[f"{column}_power"] = np.where(read.dash, np.int8(-1), power)
            elif column in ("registers", "context", "stream"):
                read = figures(data, edges, width, b"")
                fits = read.good & (read.decimals == 0)
                columns[column] = read.as_whole()
            else:
                fits = data[edges - 1] != ord(" ")
            good &= fits
        left = edge
    return columns, good
