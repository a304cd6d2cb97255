"""Collects the rows of a trace and makes frames of them: kinds, devices, units of sizes, NVTX ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs
from polars.exceptions import PolarsError

from tui.correlation.nesting import nest_intervals
from tui.loaders.base import sum_by_name
from tui.loaders.nvprof.trace_cells import CELLS, MISSING, Cells
from tui.model.errors import first_line
from tui.model.names import copy_kind, kind_by_prefix, short_name
from tui.model.profile import compact_constants
from tui.model.schema import NAME
from tui.text import map_distinct, map_distinct_texts, plural

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session


MARK: Final = r"^\[(?:Range start|Range end|Marker)\](?: |$)"
"""A regular expression of the names of NVTX rows."""

_OPENACC: Final = r"^acc_\w+@"
"""A regular expression of the names of OpenACC constructs, which have their source line."""

_NVTX_MARK: Final = (
    r"(?s)^\[(?:Range start|Range end|Marker)\] ?(?P<name>.*?)(?: \(Domain: (?:<unnamed>|default|(?P<domain>.*))\))?$"
)
"""A regular expression of an NVTX row: its name, and its domain unless that is the default."""


def add_ranges(marks: pl.DataFrame, collector: Collector) -> None:
    """Pair starts with ends, and add the ranges to the collector.

    A trace has no thread ids: an end closes the last open range of its domain and name. Ranges without an end have
    no duration, like markers.

    Args:
        marks: line, start_ns and name (categorical) of the NVTX rows of one trace.
        collector: Gets the ``ranges``, and an issue if starts or ends are missing.
    """
    marks = marks.sort("start_ns", "line", maintain_order=True)
    texts = marks["name"]
    name = map_distinct_texts(texts, lambda distinct: distinct.str.extract(_NVTX_MARK, 1).cast(NAME), NAME)
    domain = map_distinct_texts(texts, lambda distinct: distinct.str.extract(_NVTX_MARK, 2).cast(NAME), NAME)
    is_start, is_end = (
        map_distinct_texts(texts, partial(_starts_with, prefix), pl.Boolean()).to_numpy()
        for prefix in ("[Range start]", "[Range end]")
    )
    steps = is_start.astype(np.int64) - is_end
    # A domain has a code; none is -1.
    domain_codes = domain.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    keys = (domain_codes << 32) + name.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    durations, is_orphan_end = _pair_ranges(keys, steps, marks["start_ns"].to_numpy())
    unpaired = int(is_orphan_end.sum() + (is_start & (durations == UNKNOWN_INTEGER)).sum())
    if unpaired:
        reason = f"{plural(unpaired, 'NVTX range')} in this trace without a start or an end: duration unknown"
        collector.issue("warning", int(marks["line"][int(is_orphan_end.argmax())]), "", reason)
    depths = np.cumsum(np.where(is_orphan_end, 0, steps)) - is_start
    ranges = marks.select(
        "start_ns",
        pl.Series("duration_ns", durations).replace(UNKNOWN_INTEGER, None),
        pl.Series("depth", depths.astype(np.int32)),
        name.alias("name"),
        domain.alias("domain"),
    )
    collector.add_frame("ranges", ranges.filter(~is_end))


def _starts_with(prefix: str, texts: pl.Series) -> pl.Series:
    return texts.str.starts_with(prefix)


def _pair_ranges(keys: Ints, steps: Ints, start_ns: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the durations of ranges, and which ends have no start.

    Args:
        keys: The name and domain of each row as a number.
        steps: 1 for a start, -1 for an end, 0 for a marker; an end closes the last open range with its key.
        start_ns: The time of each row, ascending.

    Returns:
        The duration by the row of the start, `UNKNOWN_INTEGER` for other rows; and a mask of ends.
    """
    order = np.argsort(keys, kind="stable")
    is_first = np.diff(keys[order], prepend=keys[order[:1]] - 1) != 0
    group, steps = np.cumsum(is_first) - 1, steps[order]
    balance = np.cumsum(steps)
    balance -= (balance - steps)[is_first][group]
    # Each group is shifted below the one before it, so that a running minimum begins anew.
    shift = group * (2 * len(keys) + 1)
    lowest = np.minimum.accumulate(np.minimum(balance, 0) - shift) + shift
    # An end without a start lowers the balance of its group to a new minimum below 0.
    is_orphan_end = (steps == -1) & (balance < np.where(is_first, 0, np.roll(lowest, 1)))
    # Starts and ends of one level alternate.
    level = balance - lowest + (steps == -1)
    paired = np.flatnonzero((steps != 0) & ~is_orphan_end)
    paired = paired[np.lexsort((level[paired], group[paired]))]
    first, second = paired[:-1], paired[1:]
    is_pair = (group[first] == group[second]) & (level[first] == level[second]) & (steps[first] == 1)
    starts, ends = order[first[is_pair]], order[second[is_pair]]
    durations = np.full(len(keys), UNKNOWN_INTEGER, np.int64)
    durations[starts] = start_ns[ends] - start_ns[starts]
    has_no_start = np.zeros(len(keys), np.bool_)
    has_no_start[order[is_orphan_end]] = True
    return durations, has_no_start


_DEVICE: Final = re.compile(r"(?P<name>.*\S) \((?P<device>[0-9]{1,4})(?P<end>\))?")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
UNKNOWN_INTEGER: Final = -1
"""The value for null in integer columns while a trace is read, like NaN in others."""

_BASES: Final = (1024, 1000)
_RATIO_TOLERANCE: Final = 0.008
"""The tolerance of size / duration = throughput that decides the base; 1024 and 1000 differ by three times as much."""
_MIN_PRECISE_VALUE: Final = 1e-4
"""Smaller numbers are too imprecise to decide the base: with six decimals, 0.000012 GB/s may be 4% off."""
_LARGEST: Final = float(2**62)


def build_activities(
    rows: pl.DataFrame, codes: npt.NDArray[np.int32], cells: pl.DataFrame, collector: Collector
) -> pl.DataFrame:
    """Return the ``activities`` of a table.

    Args:
        rows: line, start_ns, duration_ns, correlation.
        codes: For each row, its row in ``cells``.
        cells: Columns of `tui.loaders.nvprof.trace_cells.CELLS`.
        collector: Gets the devices, and issues about assumptions.
    """
    first_line = int(rows["line"][0])
    cells = cells.with_columns(
        pl.when(cs.integer() != UNKNOWN_INTEGER).then(cs.integer()).name.keep(),
        cs.float().fill_nan(None),
    )
    base = _size_base(rows, codes, cells, collector)
    columns = cells.lazy().select(
        # Of rows without a name, only kernels are used: their launch configuration identifies them.
        kind=map_distinct(cells["name"], kind_by_prefix, NAME).fill_null(pl.lit("kernel", NAME)),
        name="name",
        short_name=map_distinct(cells["name"], short_name, NAME),
        device=_device_numbers(cells, first_line, collector),
        context="context",
        stream="stream",
        grid_x="grid_x",
        grid_y="grid_y",
        grid_z="grid_z",
        block_x="block_x",
        block_y="block_y",
        block_z="block_z",
        registers="registers",
        static_shared_bytes=_bytes("static", base),
        dynamic_shared_bytes=_bytes("dynamic", base),
        size_bytes=_bytes("size", base),
        throughput=_scaled_to_bytes("throughput", base),
        copy_kind=map_distinct(cells["name"], copy_kind, NAME),
        src_memory="src_memory",
        dst_memory="dst_memory",
    )
    built = columns.collect()
    if len(codes) != built.height or not np.array_equal(codes, np.arange(len(codes))):
        # A constant column need not be gathered.
        built = compact_constants(built, 1)[codes]
    return pl.concat((rows, built), how="horizontal")


def _scaled_to_bytes(column: str, base: int) -> pl.Expr:
    return pl.col(column) * pl.lit(base, pl.Float64).pow(pl.col(f"{column}_power"))


def _bytes(column: str, base: int) -> pl.Expr:
    value = _scaled_to_bytes(column, base).round(mode="half_to_even")
    return pl.when(value < _LARGEST).then(value).cast(pl.Int64)


def _size_base(rows: pl.DataFrame, codes: npt.NDArray[np.int32], cells: pl.DataFrame, collector: Collector) -> int:
    """Return 1024 or 1000, by rows whose size and rate have different units: size / duration = rate."""
    decisive = cells.with_row_index("code").filter(
        pl.col("size") >= _MIN_PRECISE_VALUE,
        pl.col("throughput") >= _MIN_PRECISE_VALUE,
        pl.col("size_power") != pl.col("throughput_power"),
    )
    if decisive.is_empty():
        return _BASES[0]
    # A few thousand rows suffice; a log of copies has millions.
    is_decisive = np.zeros(cells.height, np.bool_)
    is_decisive[decisive["code"]] = True
    positions = np.flatnonzero(is_decisive[codes])[:4096]
    power = pl.col("throughput_power") - pl.col("size_power")
    ratio = pl.col("size") / (pl.col("duration_ns") * 1e-9) / pl.col("throughput")
    ratios = (
        rows[positions]
        .with_columns(code=pl.Series(codes[positions], dtype=pl.UInt32))
        .filter(pl.col("duration_ns") > 0)
        .join(decisive, on="code", how="left", maintain_order="left")
        .select("line", base=ratio.pow(1 / power.cast(pl.Float64)))
    )
    binary, decimal = (ratios.filter((pl.col("base") / base - 1).abs() < _RATIO_TOLERANCE) for base in _BASES)
    if decimal.is_empty() or binary.height >= 9 * decimal.height:
        return _BASES[0]
    is_decimal = decimal.height >= 9 * binary.height
    collector.issue(
        "info",
        int(decimal["line"][0]),
        "",
        (
            "KB, MB and GB are powers of 1000 in this trace (size / duration = throughput), as in the oldest nvprof "
            "versions"
        )
        if is_decimal
        else (
            f"throughput (size / duration) matches powers of 1000 in {decimal.height} rows and powers of 1024 in "
            f"{binary.height}: 1024 is used"
        ),
    )
    return _BASES[is_decimal]


def _device_numbers(cells: pl.DataFrame, first_line: int, collector: Collector) -> pl.Expr:
    """Return the device number of each row; adds the names to the collector.

    nvprof cuts the device cell at 15 characters, with the number: if all rows name one GPU and one context, and no
    copy is between GPUs, the only GPU is number 0; otherwise GPUs of one model cannot be distinguished. The oldest
    versions print only the number.
    """
    device_cells = cells.filter(pl.col("device").is_not_null()).select("device", "context").unique()
    texts = device_cells["device"].unique()
    names = [text for text in texts.cast(pl.String).sort() if not text.startswith("CPU")]
    numbers: dict[str, int] = {}
    clipped = []
    for text in names:
        match = _DEVICE.fullmatch(text)
        # More digits after "(1" may be cut off, but not after "(0".
        if match is not None and (match["end"] or match["device"] == "0"):
            numbers[text] = int(match["device"])
            collector.add_device(numbers[text], match["name"])
        elif _NUMBER.fullmatch(text):
            numbers[text] = int(text)
        else:
            clipped.append(text)
    if clipped:
        contexts = (
            device_cells.filter(~pl.col("device").cast(pl.String).str.starts_with("CPU"))["context"]
            .drop_nulls()
            .n_unique()
        )
        peers = cells["name"].cast(pl.String).str.contains("PtoP", literal=True).any()
        single = len(names) == 1 and contexts <= 1 and not peers
        if single:
            numbers[clipped[0]] = 0
            collector.add_device(0, clipped[0])
        outcome = "assumed to be device 0: the trace names one GPU and one context" if single else "shown as unknown"
        collector.issue("info", first_line, clipped[0], f"nvprof truncated the device number: {outcome}")
    device_numbers = pl.Series([numbers.get(text) for text in texts.cast(pl.String)], dtype=pl.Int32)
    if texts.is_empty():
        return pl.lit(None, pl.Int32)
    return pl.col("device").replace_strict(texts, device_numbers, default=None, return_dtype=pl.Int32)


Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_ROW_TYPES: Final = (np.uint32, np.int64, np.int64, np.int64, np.int32)
"""Line, start, duration, correlation id and code."""

Columns = Mapping[str, pl.Series | npt.NDArray[np.generic]]
"""Some columns of `CELLS`, of the same length."""

_CELLS_OF_A_FRAME: Final = 65_536
"""The number of distinct cells that are made into a frame at once."""

_NUMPY_TYPES: Final = {
    name: pl.Series(dtype=dtype).to_numpy().dtype for name, dtype in CELLS.items() if dtype.is_numeric()
}


class RowStore:
    """Line, start, duration, correlation id and code of many rows, in line order."""

    def __init__(self) -> None:
        self._chunks: list[list[npt.NDArray[np.integer]]] = []
        self._pending: list[tuple[int, int, int, int, int]] = []
        self._returned_chunks = 0
        self.count = 0

    def add(self, line: int, start_ns: int, duration_ns: int | None, correlation: int | None, code: int) -> None:
        """Add one row."""
        duration_ns = UNKNOWN_INTEGER if duration_ns is None else duration_ns
        self._pending.append(
            (line, start_ns, duration_ns, UNKNOWN_INTEGER if correlation is None else correlation, code)
        )
        self.count += 1

    def add_columns(self, line: Ints, start_ns: Ints, duration_ns: Ints, correlation: Ints, code: Codes) -> None:
        """Add rows whose lines may be between those of rows added one by one since the last call."""
        self.count += len(line)
        chunk = _typed((line, start_ns, duration_ns, correlation, code))
        if self._pending:
            chunk = [np.concatenate(pair) for pair in zip(self._take_pending(), chunk, strict=True)]
            order = np.argsort(chunk[0], kind="stable")
            chunk = [column[order] for column in chunk]
        self._chunks.append(chunk)

    def _take_pending(self) -> list[npt.NDArray[np.integer]]:
        columns = np.array(self._pending, np.int64).reshape(-1, len(_ROW_TYPES)).T
        self._pending.clear()
        return _typed(columns)

    def new_rows(self) -> list[list[npt.NDArray[np.integer]]]:
        """Return the columns of the rows since the last call, in parts."""
        if self._pending:
            self._chunks.append(self._take_pending())
        new, self._returned_chunks = self._chunks[self._returned_chunks :], len(self._chunks)
        return new

    def pop_all(self) -> tuple[pl.DataFrame, Codes]:
        """Return all rows (line, start_ns, duration_ns, correlation) and their codes; empties the store."""
        self._chunks.append(self._take_pending())
        line, start_ns, duration_ns, correlation, code = (
            np.concatenate([chunk[position] for chunk in self._chunks]) for position in range(len(_ROW_TYPES))
        )
        self._chunks.clear()
        self.count = self._returned_chunks = 0
        rows = pl.DataFrame(
            {"line": line, "start_ns": start_ns, "duration_ns": duration_ns, "correlation": correlation}
        )
        nullable = [
            name
            for name, values in (("duration_ns", duration_ns), ("correlation", correlation))
            if (values == UNKNOWN_INTEGER).any()
        ]
        return rows.with_columns(pl.when(pl.col(name) != UNKNOWN_INTEGER).then(name) for name in nullable), code


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
        self.duration_step_ns = 0
        """The resolution of durations in CSV, which has six decimals of any unit."""
        collector.before_profile(self.finish)
        collector.preview.watch(self._show)

    def note_step(self, step_ns: Decimal) -> None:
        """Note the resolution of a start time; the coarsest of the table counts."""
        self._step_ns = max(self._step_ns, step_ns)

    def cell_code(self, cells: Cells) -> int:
        """Return the code of the cells of one row."""
        code = self._cell_codes.get(cells)
        if code is None:
            self._flush_columns()
            code = self._cell_codes[cells] = self.cell_count
            self._new_cells.append(cells)
            self.cell_count += 1
        return code

    def add_cells(self, cells: pl.DataFrame) -> int:
        """Add distinct cells (columns of `CELLS`); returns the code of the first, the others are consecutive."""
        self._flush_cells()
        self._flush_columns()
        first = self.cell_count
        self._cells.append(cells)
        self.cell_count += cells.height
        return first

    def add_columns(self, columns: Columns, count: int) -> int:
        """Add ``count`` distinct cells as some columns of `CELLS`, the others missing; returns the code of the first.

        Calls are combined to one frame, since a frame costs more than a few hundred rows; all have the same columns.
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
        """Return the code of an API call's name."""
        return self._api_names.setdefault(name, len(self._api_names))

    def damaged(self, line: int, text: str, reason: str) -> None:
        """Report a row that could not be read completely."""
        self._collector.issue("warning", line, text, reason)

    def _show(self) -> None:
        """Add the GPU rows since the last call to the preview."""
        self._collector.preview.count("API calls", sum(len(part[0]) for part in self.api.new_rows()))
        new = self.gpu.new_rows()
        if not new:
            return
        start_ns, duration_ns, code = (np.concatenate([part[position] for part in new]) for position in (1, 2, 4))
        self._flush_cells()
        self._flush_columns()
        names = pl.concat([cells["name"] for cells in self._cells]).gather(code)
        lengths = np.where(duration_ns == UNKNOWN_INTEGER, 0, duration_ns)
        rows = pl.DataFrame({"name": names, "start_ns": start_ns, "duration_ns": lengths})
        self._collector.preview.add(sum_by_name(rows), clock=self.session.number)

    def finish(self) -> None:
        """Add all rows to the collector."""
        current, self._collector.session = self._collector.session, self.session
        try:
            self._add_frames()
        except (ValueError, OverflowError, PolarsError) as error:
            reason = f"the trace that ends here could not be used ({first_line(error)})"
            self._collector.issue("error", self.session.last_line, "", reason)
        finally:
            self._cell_codes.clear()
            self._collector.session = current

    def _add_frames(self) -> None:
        """Add the rows of both stores as frames, NVTX rows as ranges."""
        if self._collector.preview.is_wanted:
            self._show()
        if self._step_ns:
            self._collector.resolution(max(1, int(self._step_ns)))
        marks = []
        if self.api.count:
            rows, codes = self._in_order(self.api)
            names = pl.Series("name", list(self._api_names), dtype=pl.String).cast(NAME)
            rows, codes, found = _split(rows, codes, names, MARK)
            marks.append(found.drop("duration_ns"))
            self._collector.add_frame("api_calls", rows.with_columns(names.gather(codes)))
        if self.gpu.count:
            self._flush_cells()
            self._flush_columns()
            rows, codes = self._in_order(self.gpu)
            cells = pl.concat(self._cells)
            self._cells.clear()
            rows, codes, found = _split(rows, codes, cells["name"], MARK)
            marks.append(found.drop("duration_ns"))
            rows, codes, constructs = _split(rows, codes, cells["name"], _OPENACC)
            if constructs.height:
                self._collector.add_frame("ranges", _openacc_ranges(constructs))
            if rows.height:
                self._collector.add_frame("activities", build_activities(rows, codes, cells, self._collector))
        if any(found.height for found in marks):
            add_ranges(pl.concat(marks), self._collector)

    def _in_order(self, store: RowStore) -> tuple[pl.DataFrame, Codes]:
        """Return all rows of a store and their codes; reports rows that are not in order of their starts."""
        rows, codes = store.pop_all()
        zeros = rows.filter(pl.col("duration_ns") == 0)
        if zeros.height and self.duration_step_ns > 1:
            reason = (
                f"{plural(zeros.height, 'duration')} printed as 0.000000 s: shorter than {self.duration_step_ns // 2} "
                "ns and counted as 0 ns; to print nanoseconds: nvprof --csv -u ns"
            )
            self._collector.issue("info", int(zeros["line"][0]), "", reason)
        falls = np.flatnonzero(np.diff(rows["start_ns"].to_numpy()) < 0) + 1
        if len(falls):
            others = f" ({len(falls) - 1:,} more rows below do too)" if len(falls) > 1 else ""
            reason = (
                f"the row starts before the row above{others}, which never happens in one trace: its start is "
                "damaged, or another trace without a header begins here and is merged into this trace"
            )
            self._collector.issue("warning", int(rows["line"][int(falls[0])]), "", reason)
        return rows, codes

    def _flush_cells(self) -> None:
        if self._new_cells:
            self._cells.append(pl.DataFrame(self._new_cells, schema=CELLS, orient="row"))
            self._new_cells.clear()

    def _flush_columns(self) -> None:
        """Make one frame of the cells of `add_columns`."""
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


def _split(
    rows: pl.DataFrame, codes: Codes, names: pl.Series, pattern: str
) -> tuple[pl.DataFrame, Codes, pl.DataFrame]:
    """Return rows and codes without those whose names match a pattern; and these with their names."""
    matches = names.unique().drop_nulls()
    matches = matches.filter(matches.cast(pl.String).str.contains(pattern))
    if matches.is_empty():
        schema = {"line": pl.UInt32, "start_ns": pl.Int64, "duration_ns": pl.Int64, "name": NAME}
        return rows, codes, pl.DataFrame(schema=schema)
    is_match = names.is_in(matches.implode()).fill_null(False).to_numpy()
    is_match_row = is_match[codes]
    found = rows.filter(is_match_row).select("line", "start_ns", "duration_ns")
    found = found.with_columns(names.gather(codes[is_match_row]).alias("name"))
    return rows.filter(~is_match_row), codes[~is_match_row], found


def _openacc_ranges(constructs: pl.DataFrame) -> pl.DataFrame:
    """Return OpenACC constructs as ranges: nvprof prints them like kernels, but they are the program's own time."""
    start_ns, duration_ns = (constructs[column].fill_null(0).to_numpy() for column in ("start_ns", "duration_ns"))
    depth = nest_intervals(np.zeros(len(start_ns), np.int64), start_ns, duration_ns).depth
    return constructs.with_columns(pl.lit("OpenACC", NAME).alias("domain"), pl.Series("depth", depth, pl.Int32))
