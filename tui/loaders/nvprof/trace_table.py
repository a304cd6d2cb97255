"""The rows of one trace while they are read, and the frames they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from tui.loaders.nvprof.trace_cells import CELLS, MISSING, Cells
from tui.loaders.nvprof.trace_finish import UNKNOWN, activities_of
from tui.loaders.nvprof.trace_ranges import MARK, add_ranges
from tui.loaders.preview import summed
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_ROW_TYPES: Final = (np.uint32, np.int64, np.int64, np.int64, np.int32)
"""Line, start, duration, correlation id and code."""

Columns = Mapping[str, pl.Series | npt.NDArray[np.generic]]
"""Some columns of `CELLS`, of the same length."""

_CELLS_OF_A_FRAME: Final = 65_536
"""So many distinct cells are worth a frame of their own: more would be held twice for too long."""

_NUMPY_TYPES: Final = {
    name: pl.Series(dtype=dtype).to_numpy().dtype for name, dtype in CELLS.items() if dtype.is_numeric()
}


class RowStore:
    """Line, start, duration, correlation id and code of many rows, in line order."""

    def __init__(self) -> None:
        self._parts: list[list[npt.NDArray[np.integer]]] = []
        self._waiting: list[tuple[int, int, int, int, int]] = []
        self._looked_at = 0
        self.count = 0

    def add(self, line: int, start: int, duration: int | None, correlation: int | None, code: int) -> None:
        """Add one row."""
        duration = UNKNOWN if duration is None else duration
        self._waiting.append((line, start, duration, UNKNOWN if correlation is None else correlation, code))
        self.count += 1

    def add_many(self, line: Ints, start: Ints, duration: Ints, correlation: Ints, code: Codes) -> None:
        """Add rows whose lines may lie between those of rows that were added one by one since the last call."""
        self.count += len(line)
        part = _typed((line, start, duration, correlation, code))
        if self._waiting:
            part = [np.concatenate(pair) for pair in zip(self._take_waiting(), part, strict=True)]
            order = np.argsort(part[0], kind="stable")
            part = [column[order] for column in part]
        self._parts.append(part)

    def _take_waiting(self) -> list[npt.NDArray[np.integer]]:
        columns = np.array(self._waiting, np.int64).reshape(-1, len(_ROW_TYPES)).T
        self._waiting.clear()
        return _typed(columns)

    def new_rows(self) -> list[list[npt.NDArray[np.integer]]]:
        """The columns of the rows that came since the last call, in parts."""
        if self._waiting:
            self._parts.append(self._take_waiting())
        new, self._looked_at = self._parts[self._looked_at :], len(self._parts)
        return new

    def take_all(self) -> tuple[pl.DataFrame, Codes]:
        """All rows (line, start_ns, duration_ns, correlation) and their codes; the store is empty then."""
        self._parts.append(self._take_waiting())
        line, start, duration, correlation, code = (
            np.concatenate([part[place] for part in self._parts]) for place in range(len(_ROW_TYPES))
        )
        self._parts.clear()
        self.count = self._looked_at = 0
        rows = pl.DataFrame({"line": line, "start_ns": start, "duration_ns": duration, "correlation": correlation})
        with_unknown = [
            name
            for name, values in (("duration_ns", duration), ("correlation", correlation))
            if (values == UNKNOWN).any()
        ]
        return rows.with_columns(pl.when(pl.col(name) != UNKNOWN).then(name) for name in with_unknown), code


def _typed(columns: Iterable[npt.NDArray[np.integer]]) -> list[npt.NDArray[np.integer]]:
    return [column.astype(dtype, copy=False) for column, dtype in zip(columns, _ROW_TYPES, strict=True)]


class TraceTable:
    """One table: GPU rows, API rows, the distinct cells of the GPU rows, the distinct names of the API rows."""

    def __init__(self, collector: Collector, session: Session) -> None:
        self.session = session
        self._collector = collector
        self.gpu = RowStore()
        self.api = RowStore()
        self._cells: list[pl.DataFrame] = []
        self._new_cells: list[Cells] = []
        self._new_columns: list[Columns] = []
        self._new_count = 0
        self._cell_codes: dict[Cells, int] = {}
        self.cell_count = 0
        self._api_names: dict[str, int] = {}
        self._step_ns = Decimal(0)
        collector.before_profile(self.finish)
        collector.preview.watch(self._show)

    def note_step(self, step_ns: Decimal) -> None:
        """Note how precisely a start time is known; the table keeps the coarsest step."""
        self._step_ns = max(self._step_ns, step_ns)

    def cell_code(self, cells: Cells) -> int:
        """The code of the cells of one row."""
        code = self._cell_codes.get(cells)
        if code is None:
            self._flush_columns()
            code = self._cell_codes[cells] = self.cell_count
            self._new_cells.append(cells)
            self.cell_count += 1
        return code

    def add_cells(self, cells: pl.DataFrame) -> int:
        """Add many distinct cells (columns of `CELLS`); returns the code of the first, the others follow it."""
        self._flush_cells()
        self._flush_columns()
        first = self.cell_count
        self._cells.append(cells)
        self.cell_count += cells.height
        return first

    def add_columns(self, columns: Columns, count: int) -> int:
        """Add ``count`` distinct cells as some columns of `CELLS`, the others missing; returns the code of the first.

        A frame costs more than a few hundred rows do, so it is made of many calls; all name the same columns.
        """
        self._flush_cells()
        first = self.cell_count
        narrow = {
            name: values if isinstance(values, pl.Series) else values.astype(_NUMPY_TYPES[name], copy=False)
            for name, values in columns.items()
        }
        self._new_columns.append(narrow)
        self._new_count += count
        self.cell_count += count
        if self._new_count >= _CELLS_OF_A_FRAME:
            self._flush_columns()
        return first

    def api_code(self, name: str) -> int:
        """The code of an API call's name."""
        return self._api_names.setdefault(name, len(self._api_names))

    def damaged(self, line: int, text: str, reason: str) -> None:
        """Note a row that could not be read as it stood."""
        self._collector.issue("warning", line, text, reason)

    def _show(self) -> None:
        """Add the GPU rows that came since the last time to what is shown while the rest is read."""
        self._collector.preview.count("API calls", sum(len(part[0]) for part in self.api.new_rows()))
        new = self.gpu.new_rows()
        if not new:
            return
        start, duration, code = (np.concatenate([part[place] for part in new]) for place in (1, 2, 4))
        self._flush_cells()
        self._flush_columns()
        names = pl.concat([cells["name"] for cells in self._cells]).gather(code)
        lengths = np.where(duration == UNKNOWN, 0, duration)
        rows = pl.DataFrame({"name": names, "start_ns": start, "duration_ns": lengths})
        self._collector.preview.add(summed(rows), clock=self.session.number)

    def finish(self) -> None:
        """Hand everything to the collector."""
        current, self._collector.session = self._collector.session, self.session
        try:
            self._hand_over()
        except (ValueError, OverflowError, PolarsError) as error:
            reason = f"the trace that ends here could not be used ({(str(error).splitlines() or [''])[0][:80]})"
            self._collector.issue("error", self.session.last_line, "", reason)
        finally:
            self._cell_codes.clear()
            self._collector.session = current

    def _hand_over(self) -> None:
        if self._collector.preview.is_wanted:
            self._show()
        if self._step_ns:
            self._collector.resolution(max(1, int(self._step_ns)))
        marks = []
        if self.api.count:
            rows, codes = self._in_order(self.api)
            names = pl.Series("name", list(self._api_names), dtype=pl.String).cast(NAME)
            rows, codes, found = _without_marks(rows, codes, names)
            marks.append(found)
            self._collector.add_frame("api_calls", rows.with_columns(names.gather(codes)))
        if self.gpu.count:
            self._flush_cells()
            self._flush_columns()
            rows, codes = self._in_order(self.gpu)
            cells = pl.concat(self._cells)
            self._cells.clear()
            rows, codes, found = _without_marks(rows, codes, cells["name"])
            marks.append(found)
            if rows.height:
                self._collector.add_frame("activities", activities_of(rows, codes, cells, self._collector))
        if any(found.height for found in marks):
            add_ranges(pl.concat(marks), self._collector)

    def _in_order(self, store: RowStore) -> tuple[pl.DataFrame, Codes]:
        """All rows of a store and their codes; told where they are not in the order of their starts, as of one run."""
        rows, codes = store.take_all()
        falls = np.flatnonzero(np.diff(rows["start_ns"].to_numpy()) < 0) + 1
        if len(falls):
            others = f" ({len(falls) - 1:,} more rows below do)" if len(falls) > 1 else ""
            reason = (
                f"the row starts before the one above it{others}, as none of one trace does: its start is damaged, or "
                "rows of another trace begin here without their header, and are read as rows of this one"
            )
            self._collector.issue("warning", int(rows["line"][int(falls[0])]), "", reason)
        return rows, codes

    def _flush_cells(self) -> None:
        if self._new_cells:
            self._cells.append(pl.DataFrame(self._new_cells, schema=CELLS, orient="row"))
            self._new_cells.clear()

    def _flush_columns(self) -> None:
        if not self._new_columns:
            return
        joined = {
            name: pl.concat([pl.Series(columns[name]) for columns in self._new_columns]).cast(CELLS[name])
            if isinstance(values, pl.Series)
            else np.concatenate([columns[name] for columns in self._new_columns])
            for name, values in self._new_columns[0].items()
        }
        self._new_columns.clear()
        self._new_count = 0
        self._cells.append(pl.DataFrame({name: joined.get(name, MISSING[name]) for name in CELLS}, schema=CELLS))


def _without_marks(rows: pl.DataFrame, codes: Codes, names: pl.Series) -> tuple[pl.DataFrame, Codes, pl.DataFrame]:
    """Rows and codes without the marks of NVTX, and those with their names."""
    marks_by_name = names.unique().drop_nulls()
    marks_by_name = marks_by_name.filter(marks_by_name.cast(pl.String).str.contains(MARK))
    if marks_by_name.is_empty():
        return rows, codes, pl.DataFrame(schema={"line": pl.UInt32, "start_ns": pl.Int64, "name": pl.String})
    is_mark = names.is_in(marks_by_name.implode()).fill_null(False).to_numpy()
    of_mark = is_mark[codes]
    marks = rows.filter(of_mark).select("line", "start_ns")
    marks = marks.with_columns(names.cast(pl.String).gather(codes[of_mark]).alias("name"))
    return rows.filter(~of_mark), codes[~of_mark], marks
