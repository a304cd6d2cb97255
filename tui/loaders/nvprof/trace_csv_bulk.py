"""Reads the plain rows of a CSV trace many at once: times and ids by their digits, the cells between them once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.digits import Bytes, Mask, Places, final_digits
from tui.loaders.nvprof.numbers import NS_PER_UNIT
from tui.loaders.nvprof.trace_bulk import ODD, BulkReader, Rows, strings
from tui.loaders.nvprof.trace_cells import CELLS, MISSING, api_name
from tui.loaders.nvprof.trace_layout import SIZE_UNITS, CsvLayout
from tui.loaders.nvprof.trace_numbers import cells_at, final_ids, six_decimals

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.nvprof.trace_table import TraceTable

_TIMES_WIDTH: Final = 40
"""Start and duration end within so many characters; longer ones are not nvprof's."""

_SIZES: Final = ("static", "dynamic", "size", "throughput")
_WHOLE: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers", "context", "stream"),
)
_NUMBER: Final = r"^[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?$"


def bulk_reads(layout: CsvLayout) -> bool:
    """Whether a layout is one that `CsvBulk` can read: as nvprof prints it, with nothing in front of the rows."""
    names = layout.columns[2:-1] if layout.columns[-1] == "correlation" else layout.columns[2:]
    return (
        layout.columns[:2] == ("start", "duration")
        and bool(names)
        and names[-1] == "name"
        and layout.lead.fullmatch("") is not None
        and layout.lead.fullmatch("0") is None
        and {"start", "duration"} <= set(layout.units)
    )


class CsvBulk(BulkReader):
    """The plain rows of one CSV table.

    Whether cells are those of an API call shows only when they are read: the codes of the dictionary say it in their
    lowest bit.
    """

    def __init__(self, layout: CsvLayout, table: TraceTable) -> None:
        super().__init__(table)
        self._layout = layout
        self._has_ids = layout.columns[-1] == "correlation"
        self._columns = layout.columns[2:-1] if self._has_ids else layout.columns[2:]
        # Cells that every reader of CSV splits alike.
        self._regular = rf'^(?:(?:"[^"]*"|[^",]*),){{{len(self._columns) - 1}}}"[^"]*"$'

    def _rows(self, data: Bytes, begins: Places, ends: Places, ascii_lines: Mask | None) -> Rows:
        # Nothing is looked at beyond the data: a last row that is so short is not plain.
        whole = int(np.searchsorted(begins, len(data) - _TIMES_WIDTH, "right"))
        begins, ends = begins[:whole], ends[:whole]
        times = cells_at(data, begins, _TIMES_WIDTH)
        commas = times == ord(",")
        first = commas.argmax(axis=1)
        commas[np.arange(whole), first] = False
        second = commas.argmax(axis=1)
        plain = (first > 0) & (second > first) & (begins + second < ends - 1) & (len(data) > 2 * _TIMES_WIDTH)
        if ascii_lines is not None:
            plain &= ascii_lines[:whole]
        index = np.flatnonzero(plain)
        if len(index) < whole:
            begins, ends, first, second = begins[index], ends[index], first[index], second[index]
        cells_begin = begins + second + 1
        ids, cell_ends, good = self._ids(data, cells_begin, ends)
        looked_up = self._looked_up(data, cells_begin, cell_ends)
        # Of the rows, times are side by side: those of a block stay in the cache.
        times, at = times.reshape(-1), index * _TIMES_WIDTH
        start, fits = six_decimals(times, at, at + first)
        good &= fits
        duration, fits = six_decimals(times, at + first + 1, at + second)
        no_duration = second == first + 1
        good &= fits | no_duration
        codes = self._codes(data, cells_begin, cell_ends, good, looked_up)
        is_api = (codes >= 0) & (codes & 1 == 1)
        units = self._layout.units
        return Rows(
            index,
            _in_ns(start, units["start"]),
            np.where(no_duration, -1, _in_ns(duration, units["duration"])),
            ids,
            is_api,
            np.where(codes >= 0, codes >> 1, ODD),
            np.full(len(index), len(str(NS_PER_UNIT[units["start"]])) - 1 - 6),
        )

    def _ids(self, data: Bytes, cells_begin: Places, ends: Places) -> tuple[Places, Places, Mask]:
        """Correlation ids, where the name before them ends (without its quotation mark), and which rows are plain."""
        ids = np.full(len(ends), -1, np.int64)
        good: Mask = np.ones(len(ends), np.bool_)
        if self._has_ids:
            ids, count = final_digits(data, ends)
            ids[count == 0] = -1
            ends = ends - count - 1
            good = data[ends] == ord(",")
        good &= data[ends - 1] == ord('"')
        # An API call, which has no grid, has the id within the brackets around the kernel's name.
        last = data[ends - 2]
        bracket = (last == ord(")")) & (data[ends - 3] == ord("]"))
        if not self._layout.is_api:
            bracket &= data[cells_begin] == ord(",")
        name_ends = ends - 1
        may_have = np.flatnonzero(bracket | (last == ord("]")))
        if len(may_have):
            in_name, before = final_ids(data, name_ends[may_have] - bracket[may_have])
            has_id = in_name >= 0
            found = may_have[has_id]
            name_ends[found] = before[has_id]
            ids[found] = np.where(ids[found] < 0, in_name[has_id], ids[found])
        return ids, name_ends, good & (name_ends > cells_begin)

    def _new_codes(self, data: Bytes, cells_begin: Places, ends: Places) -> npt.NDArray[np.int32]:
        codes = np.full(len(ends), ODD, np.int32)
        # The name's closing quotation mark stands behind the id.
        rows = strings(data, cells_begin, ends) + '"'
        regular = rows.str.contains(self._regular)
        if not regular.all():
            which = np.flatnonzero(regular)
            if len(which):
                codes[which] = self._new_codes(data, cells_begin[which], ends[which])
            return codes
        read = pl.read_csv("\n".join(rows).encode(), has_header=False, schema=dict.fromkeys(self._columns, pl.String))
        plain = read.select(pl.all_horizontal(self._checks()).fill_null(False)).to_series()
        is_api = read.select(self._is_api()).to_series()
        names = read["name"].filter(plain & is_api)
        codes[(plain & is_api).to_numpy()] = [2 * self._table.api_code(api_name(name)) + 1 for name in names]
        cells = read.filter(plain & ~is_api).select(self._cells())
        if cells.height:
            first = self._table.add_cells(cells)
            codes[(plain & ~is_api).to_numpy()] = 2 * np.arange(first, first + cells.height)
        return codes

    def _is_api(self) -> pl.Expr:
        if self._layout.is_api:
            return pl.col("name").is_not_null()
        if "grid_x" not in self._columns:
            return pl.col("name").is_null()
        on_gpu = pl.col("device").is_not_null() if "device" in self._columns else pl.lit(False)
        return pl.col("grid_x").is_null() & ~on_gpu & ~pl.col("name").str.starts_with("[")

    def _checks(self) -> list[pl.Expr]:
        """What has to be true of the cells of a plain row."""
        checks = [pl.col("name").is_not_null(), pl.col("name").str.strip_chars() == pl.col("name")]
        for column in self._columns[:-1]:
            cell = pl.col(column)
            if column in _WHOLE:
                checks.append(cell.is_null() | cell.str.contains("^[0-9]{1,9}$"))
            elif column in _SIZES:
                checks.append(cell.is_null() | (cell.str.contains(_NUMBER) & (column in self._layout.units)))
            elif column == "um":
                checks.append(cell.is_null() | ~cell.str.contains("[B.]") | cell.str.contains(_NUMBER))
            else:
                checks.append(cell.is_null() | ((cell.str.strip_chars() == cell) & (cell != "-")))
        return checks

    def _cells(self) -> list[pl.Expr]:
        """The columns of `CELLS`."""
        made = {column: pl.col(column) for column in self._columns if column in CELLS}
        units = self._layout.units
        for column in _SIZES:
            if column in made:
                place = SIZE_UNITS.index(units.get(column, "B").removesuffix("/s"))
                made[f"{column}_power"] = pl.when(made[column].is_not_null()).then(place)
        if "um" in self._columns and "um" in units:
            # The column also holds program counters and counts of pages.
            size = pl.when(pl.col("um").str.contains(".", literal=True)).then("um")
            power = pl.when(size.is_not_null()).then(SIZE_UNITS.index(units["um"]))
            made["size"] = pl.coalesce(made["size"], size) if "size" in made else size
            made["size_power"] = pl.coalesce(made["size_power"], power) if "size_power" in made else power
        for column in ("src_memory", "dst_memory"):
            if column in made:
                made[column] = made[column].str.to_lowercase()
        return [
            made[name].cast(dtype).alias(name) if name in made else pl.lit(MISSING[name], dtype).alias(name)
            for name, dtype in CELLS.items()
        ]


def _in_ns(millionths: Places, unit: str) -> Places:
    factor = NS_PER_UNIT[unit]
    if factor >= 10**6:
        return millionths * (factor // 10**6)
    return np.rint(millionths / (10**6 // factor)).astype(np.int64)
