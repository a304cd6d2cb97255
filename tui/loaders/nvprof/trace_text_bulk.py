"""Reads the plain rows of a text trace many at once, from the places that the header gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.digits import CELL
from tui.loaders.nvprof.numbers import NS_PER_UNIT
from tui.loaders.nvprof.trace_bulk import ODD, BulkReader, Dictionary, Rows, strings
from tui.loaders.nvprof.trace_cells import api_name
from tui.loaders.nvprof.trace_layout import SIZE_UNITS, TextLayout
from tui.loaders.nvprof.trace_numbers import Figures, blank, cells_at, dimensions, figures, final_ids
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.digits import Bytes, Mask, Places
    from tui.loaders.nvprof.trace_table import TraceTable

_NARROWEST: Final = 5
"""A column must hold a blank, a digit and a unit such as ``B/s``."""

_WHOLE: Final = ("registers", "context", "stream")
_FIGURES: Final = ("grid", "block", *_WHOLE, "static", "dynamic", "size", "throughput")
_WORDS: Final = ("src_memory", "dst_memory", "device")


def bulk_reads(layout: TextLayout) -> bool:
    """Whether a layout is one that `TextBulk` can read."""
    widths = np.diff((len(layout.lead) - 1, *layout.edges))
    words = [place for place, column in enumerate(layout.columns) if column in _WORDS]
    side_by_side = not words or (words[0] > 1 and words[-1] - words[0] == len(words) - 1)
    return layout.lead.isascii() and int(widths.min()) >= _NARROWEST and layout.edges[0] >= CELL and side_by_side


class TextBulk(BulkReader):
    """The plain rows of one text table."""

    def __init__(self, layout: TextLayout, table: TraceTable) -> None:
        super().__init__(table)
        self._layout = layout
        self._lead = layout.lead.encode()
        self._edges = layout.edges
        self._name_start = layout.name_start
        self._api_names = Dictionary()
        self._names = Names()
        self._words = Words(layout)
        # So many characters in front of the cells are looked at with them: figures are read eight at a time.
        self._shift = CELL
        # API calls in a table of GPU activities have a dash in every other column.
        dashes = "".join("-".rjust(width) for width in np.diff(layout.edges)[1:])
        self._no_cells = dashes + " " * (layout.name_start - layout.edges[-1])

    def _rows(self, data: Bytes, begins: Places, ends: Places, ascii_lines: Mask | None) -> Rows:
        plain = ends - begins > self._name_start
        if ascii_lines is not None:
            # Columns are counted in characters.
            plain &= ascii_lines
        index = np.flatnonzero(plain)
        if len(index) < len(plain):
            begins, ends = begins[index], ends[index]
        ids, name_ends = self._ids(data, begins, ends)
        cells_begin = begins + self._edges[1]
        looked_up = self._looked_up(data, cells_begin, name_ends)
        start, duration, good = self._times(data, begins)
        codes = self._codes(data, cells_begin, name_ends, good, looked_up)
        is_api = codes & 1 == 1
        return Rows(index, start.as_ns(), duration.as_ns(), ids, is_api, codes >> 1, start.last_digit())

    def _times(self, data: Bytes, begins: Places) -> tuple[Figures, Figures, Mask]:
        """Start and duration of all rows, and which rows have both where the header says."""
        start_edge, duration_edge = self._edges[:2]
        cells = cells_at(data, begins, duration_edge)
        units = self._layout.units
        columns = ((len(self._lead), start_edge), (start_edge, duration_edge))
        read = figures(cells, columns, b"" if units else b"s")
        start, duration = read.column(0), read.column(1)
        # Only the start may begin without a blank: nothing stands before it but the lead of the paste.
        good = start.good & duration.good & ~start.dash & (cells[:, start_edge] == ord(" "))
        for place, sign in enumerate(self._lead):
            good &= cells[:, place] == sign
        if units:
            start.unit[:], duration.unit[:] = (len(str(NS_PER_UNIT[units[name]])) - 1 for name in ("start", "duration"))
        return start, duration, good

    def _ids(self, data: Bytes, begins: Places, ends: Places) -> tuple[Places, Places]:
        # The id of an API call stands within the brackets around the kernel's name.
        bracketed = np.flatnonzero(data[ends - 1] == ord(")"))
        if len(bracketed):
            begins, last = begins[bracketed] + self._edges[1], ends[bracketed] - 1
            bracketed = bracketed[(data[last - 1] == ord("]")) & self._is_api(self._cells(data, begins))]
        inner = ends
        if len(bracketed):
            inner = ends.copy()
            inner[bracketed] -= 1
        ids, name_ends = final_ids(data, inner)
        if len(bracketed):
            name_ends[ids < 0] = ends[ids < 0]
        return ids, name_ends

    def _cells(self, data: Bytes, cells_begin: Places) -> Bytes:
        """What stands between the times and the name of rows, with the name's first character."""
        return cells_at(data, cells_begin - self._shift, self._name_start - self._edges[1] + self._shift + 1)

    def _is_api(self, cells: Bytes) -> Mask:
        """API calls have no grid and are not one of nvprof's own names."""
        if self._layout.is_api:
            return np.ones(len(cells), np.bool_)
        if "grid" not in self._layout.columns:
            return np.zeros(len(cells), np.bool_)
        grid = self._edges[self._layout.columns.index("grid")] - self._edges[1] + self._shift
        is_api: Mask = (cells[:, grid - 1] == ord("-")) & (cells[:, -1] != ord("["))
        return is_api

    def _new_codes(self, data: Bytes, begins: Places, ends: Places) -> npt.NDArray[np.int32]:
        cells = self._cells(data, begins)
        is_api = self._is_api(cells)
        gap = self._layout.edges[-1] - self._edges[1] + self._shift
        plain = blank(cells, gap, cells.shape[1] - 1) & (cells[:, gap - 1] != ord(" ")) & (cells[:, -1] != ord(" "))
        plain &= (cells[:, self._shift] == ord(" ")) & (data[ends - 1] != ord("\t"))
        # A name such as "[7]" looks like an id.
        plain &= ends > begins + (self._name_start - self._edges[1])
        codes = np.full(len(ends), ODD, np.int32)
        for of_api, read in ((False, self._gpu_codes), (True, self._api_codes)):
            chosen = np.flatnonzero(plain & (is_api == of_api))
            if len(chosen):
                found = read(data, cells[chosen], begins[chosen], ends[chosen])
                codes[chosen] = np.where(found >= 0, 2 * found + of_api, ODD)
        return codes

    def _api_codes(self, data: Bytes, _: Bytes, begins: Places, ends: Places) -> npt.NDArray[np.int32]:
        texts = strings(data, begins, ends)
        own, codes, first = self._api_names.look_up(texts)
        if len(first):
            new = [self._api_code(text) for text in texts[first]]
            self._api_names.learn(own[first], np.array(new, np.int32))
            codes = self._api_names.translate(own)
        return codes

    def _api_code(self, text: str) -> int:
        if not text.startswith(self._no_cells) or "  " in text[len(self._no_cells) :]:
            return ODD
        return self._table.api_code(api_name(text[len(self._no_cells) :]))

    def _gpu_codes(self, data: Bytes, cells: Bytes, begins: Places, ends: Places) -> npt.NDArray[np.int32]:
        columns, good = read_cells(self._layout, cells, self._shift - self._edges[1], self._words)
        columns["name"], plain = self._names.read(strings(data, begins + (self._name_start - self._edges[1]), ends))
        good &= plain
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


class Names:
    """Names of what the GPU did: few different ones, each looked at once."""

    def __init__(self) -> None:
        self._known = Dictionary()
        self._names = pl.Series([""], dtype=NAME)

    def read(self, texts: pl.Series) -> tuple[pl.Series, Mask]:
        """The names as a column of `CELLS`, and which of them are plain."""
        own, codes, first = self._known.look_up(texts)
        if len(first):
            new = texts[first]
            # Two blanks in a name can be those before another row, where the end of a line was lost.
            is_odd = new.str.contains("  ", literal=True).to_numpy()
            meaning = np.where(is_odd, ODD, len(self._names) + np.arange(len(new)))
            self._known.learn(own[first], meaning.astype(np.int32))
            self._names.extend(new.cast(NAME))
            codes = self._known.translate(own)
        return self._names[pl.Series(np.maximum(codes, 0).astype(np.uint32))], codes >= 0


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

    def read(self, cells: Bytes, shift: int) -> tuple[dict[str, pl.Series], Mask]:
        """The columns, and which rows are plain in all of them; cells as for `read_cells`."""
        if not self.columns:
            return {}, np.ones(len(cells), np.bool_)
        begins = np.arange(self._left + shift, cells.size, cells.shape[1])
        texts = strings(cells.reshape(-1), begins, begins + (self._edges[-1] - self._left))
        own, codes, first = self._known.look_up(texts)
        if len(first):
            self._known.learn(own[first], np.array([self._learn(text) for text in texts[first]], np.int32))
            codes = self._known.translate(own)
            rows = self._rows or [(None,) * len(self.columns)]
            self._frame = pl.DataFrame(rows, dict.fromkeys(self.columns, NAME), orient="row")
        good: Mask = codes >= 0
        of_row = pl.Series(np.maximum(codes, 0).astype(np.uint32))
        return {column.name: column[of_row] for column in self._frame.get_columns()}, good

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
    layout: TextLayout, cells: Bytes, shift: int, words: Words
) -> tuple[dict[str, pl.Series | npt.NDArray[np.generic]], Mask]:
    """The cells of rows between their times and their names, as columns of `CELLS`, and which rows are plain in all.

    Args:
        layout: The table's columns.
        cells: The rows, from `CELL` characters before the first of the columns on.
        shift: What to add to the layout's places for those in ``cells``.
        words: Those of the table.
    """
    columns: dict[str, pl.Series | npt.NDArray[np.generic]] = {}
    read_words, good = words.read(cells, shift)
    columns.update(read_words)
    places = {
        column: (left + shift, edge + shift)
        for column, left, edge in zip(layout.columns[2:-1], layout.edges[1:], layout.edges[2:], strict=False)
    }
    for column, (begin, end) in places.items():
        if column not in _WORDS:
            good &= cells[:, begin] == ord(" ")
            if column in ("um", "address"):
                good &= (cells[:, end - 1] == ord("-")) & blank(cells, begin, end - 1)
            elif column not in _FIGURES:
                good &= cells[:, end - 1] != ord(" ")
    grids = [column for column in ("grid", "block") if column in places]
    if grids:
        parts, fits = dimensions(cells, [places[column] for column in grids])
        good &= fits.all(axis=0)
        columns.update({f"{grid}_{axis}": parts[i, j] for i, grid in enumerate(grids) for j, axis in enumerate("xyz")})
    # Columns with the same kind of unit are read together.
    together: dict[bytes, list[str]] = {}
    for column in _FIGURES:
        if column in places and column not in ("grid", "block"):
            suffix = b"" if column in _WHOLE or column in layout.units else b"B/s" if column == "throughput" else b"B"
            together.setdefault(suffix, []).append(column)
    for suffix, names in together.items():
        all_read = figures(cells, [places[column] for column in names], suffix)
        for place, column in enumerate(names):
            read = all_read.column(place)
            good &= read.good
            if column in _WHOLE:
                good &= read.decimals == 0
                columns[column] = read.as_whole()
                continue
            columns[column] = read.as_float()
            unit = layout.units.get(column, "").removesuffix("/s")
            power = np.int8(SIZE_UNITS.index(unit)) if unit else read.unit
            columns[f"{column}_power"] = np.where(read.dash, np.int8(-1), power)
    return columns, good
