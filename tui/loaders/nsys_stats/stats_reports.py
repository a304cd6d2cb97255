"""The reports of ``nsys stats``: headers, units, parsing of cells, and the shared state of the reader.

Headers differ between versions (``Average``, ``Avg (ns)``), and CSV has no other identification. So a
header is compared by its columns, without case, blanks and units.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.text.section import NS_PER_UNIT, split_cells
from tui.text import map_distinct

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session
    from tui.loaders.text.section import CellValues


_UNIT: Final = re.compile(r"\s*\(([^()]*)\)\s*$")
_BLANKS: Final = re.compile(r"[\s_]+")

_ALIASES: Final = MappingProxyType(
    {
        "average": "avg",
        "minimum": "min",
        "maximum": "max",
        "median": "med",
        "thru": "throughput",
        "thruput": "throughput",
        "operations": "count",
        "calls": "numcalls",
        "totalbytes": "total",
        "corrid": "correlationid",
        "starttime": "start",
        "grdx": "gridx",
        "grdy": "gridy",
        "grdz": "gridz",
        "blkx": "blockx",
        "blky": "blocky",
        "blkz": "blockz",
        "queuestart": "qstart",
        "queuedur": "qdur",
    }
)

_SUM: Final = ("time", "totaltime", "avg", "min", "max")
_SHORT_SUM: Final = ("time", "totaltime")
"""The columns that tables shortened by hand keep, and enough to tell these reports from the others."""

REPORTS: Final = (
    ("kern_gb_sum", (*_SUM, "instances", "gridxyz", "blockxyz", "name")),
    ("gpu_sum", (*_SUM, "instances", "category", "operation")),
    ("mpi_event_sum", (*_SUM, "instances", "source", "name")),
    ("kern_sum", (*_SHORT_SUM, "instances", "name")),
    ("api_sum", (*_SHORT_SUM, "numcalls", "name")),
    ("nvtx_sum", (*_SUM, "instances", "style", "range")),
    ("nvtx_pushpop_sum", (*_SUM, "instances", "range")),
    ("mem_time_sum", (*_SHORT_SUM, "count", "operation")),
    ("count_sum", (*_SUM, "count", "name")),
    ("mem_size_sum", ("total", "count", "avg", "min", "max", "operation")),
    ("mem_size_sum", ("total", "count", "avg", "min", "max", "name")),
    ("um_total_sum", ("totalhtodmigrationsize", "totaldtohmigrationsize", "totalcpupagefaults", "totalgpupagefaults")),
    ("um_sum", ("virtualaddress", "htodmigrationsize", "dtohmigrationsize", "cpupagefaults", "gpupagefaults")),
    ("um_cpu_page_faults_sum", ("cpupagefaults", "cpuinstructionaddress")),
    ("gpu_trace", ("start", "duration", "correlationid", "gridx", "blockx", "device", "name")),
    ("api_trace", ("start", "duration", "name", "result", "correlationid", "pid", "tid")),
    ("kern_exec_trace", ("apistart", "apidur", "kernelstart", "kerneldur", "apifunction", "kernelname")),
    ("kern_exec_sum", ("pid", "tid", "devid", "count", "kavg", "apiname", "kernelname")),
    ("nvtx_pushpop_trace", ("start", "end", "duration", "name", "pid", "tid", "lvl")),
    ("nvtx_gpu_proj_trace", ("name", "projectedstart", "projectedduration", "origstart", "origduration")),
    ("nvtx_gpu_proj_sum", ("range", "totalprojtime", "totalrangetime", "rangeinstances")),
    ("nvtx_kern_sum", ("nvtxrange", "kerninst", "totaltime", "kernelname")),
)
"""The reports with columns that identify them; the first report whose columns all exist matches."""

TITLES: Final = MappingProxyType(
    {
        "kern_gb_sum": "cuda_gpu_kern_gb_sum",
        "gpu_sum": "cuda_gpu_sum or cuda_api_gpu_sum",
        "kern_sum": "cuda_gpu_kern_sum",
        "api_sum": "cuda_api_sum",
        "mem_time_sum": "cuda_gpu_mem_time_sum",
        "mem_size_sum": "cuda_gpu_mem_size_sum",
        "gpu_trace": "cuda_gpu_trace",
        "api_trace": "cuda_api_trace",
        "kern_exec_trace": "cuda_kern_exec_trace",
        "kern_exec_sum": "cuda_kern_exec_sum",
    }
)
"""Names of reports in newer versions, if different."""

FIRST_CELL: Final = re.compile(
    r"Time(?: ?\(%\))?|Start(?: Time)? ?\([a-z]+\)|API Start ?\([a-z]+\)"
    r"|Total(?: HtoD Migration Size| Bytes)?(?: ?\([A-Za-z]+\))?|PID|NVTX Range|Range|Name|Virtual Address"
    r"|CPU Page Faults"
)
"""Matches the first cell of every header that `parse_header` knows, and of no row."""

CUE: Final = (
    r'[ \t|]*"?(?:Time(?: ?\(%\))?"?[ ,\t|]+"?(?:Total Time|Time \(ns\))|Start(?: Time)? ?\([a-z]+\)"?[ ,\t|]'
    r"|API Start ?\([a-z]+\)"
    r'|Total(?: Bytes)?(?: ?\([A-Za-z]+\))?"?[ ,\t|]+"?(?:Operations|Count)|PID"?[ ,\t|]+"?TID"?[ ,\t|]+"?DevId'
    r'|NVTX Range"?[ ,\t|]+"?Style|Range"?[ ,\t|]+"?Style|Name"?[ ,\t|]+"?Projected Start'
    r'|Name"?[ ,\t|]+"?Time(?: ?\(%\))?"?[ ,\t|]+"?Total Time'
    r'|(?:Total|Virtual Address"?[ ,\t|]+"?)? ?HtoD Migration Size|CPU Page Faults"?[ ,\t|]+"?CPU Instruction)'
)
"""Matches in every line that `parse_header` accepts."""

_INTEGER_COLUMNS: Final = frozenset(
    (
        *("correlationid", "gridx", "gridy", "gridz", "blockx", "blocky", "blockz", "reg/trd", "ctx", "strm"),
        *("pid", "tid", "devid", "instances", "count", "numcalls", "lvl"),
    )
)
"""Columns of integers, besides times in nanoseconds."""

_TRAILING_DASHES: Final = re.compile(r"(?<![\s-])(?:\s++-{2,}+)++$")
"""The line of dashes, which some notebooks join to the header."""

_MAX_HEADER: Final = 4096
"""The longest header in characters."""


@dataclass(frozen=True, slots=True)
class StatsHeader:
    """A parsed header."""

    report: str
    """The name in `REPORTS`."""
    columns: tuple[str, ...]
    """Names of columns without case, blanks and unit."""
    units: tuple[str | None, ...]
    """The text in parentheses after each name."""
    separator: str | None
    """The separator of cells; None for aligned text columns, ``|`` for boxed text."""

    @property
    def integer_columns(self) -> frozenset[str]:
        """Columns of integers, by the header."""
        times = {
            name
            for name, unit in zip(self.columns, self.units, strict=True)
            if unit in ("ns", "nsec") and name not in ("avg", "med", "stddev")
        }
        return frozenset(times | _INTEGER_COLUMNS & set(self.columns))

    def unit(self, column: str) -> str | None:
        """Return the unit of a column; None if it has none or does not exist."""
        return dict(zip(self.columns, self.units, strict=True)).get(column)


def parse_header(text: str) -> StatsHeader | None:
    """Return the header in a line, or None.

    >>> header = parse_header("Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name")
    >>> header.report, header.columns[3], header.unit("totaltime")
    ('kern_sum', 'avg', 'ns')
    >>> parse_header("Time(%)      Time     Calls       Avg       Min       Max  Name") is None
    True
    """
    text = text.strip()
    if not text or len(text) > _MAX_HEADER:
        return None
    text = _TRAILING_DASHES.sub("", text)
    separator = _separator(text)
    if separator is None:
        cells = re.split(r"\s{2,}", text)
    elif separator == "|":
        cells = [cell.strip() for cell in text.strip("| ").split("|")]
    else:
        cells = split_cells(text, separator)
    columns: list[str] = []
    units: list[str | None] = []
    for cell in cells:
        unit = _UNIT.search(cell)
        normalized = _BLANKS.sub("", (cell[: unit.start()] if unit else cell).lower())
        # Versions of early 2019 print Time(%) and Time (ns); nvprof prints Time(%) and Time.
        is_total = normalized == "time" and columns == ["time"] and unit is not None
        columns.append("totaltime" if is_total else _ALIASES.get(normalized, normalized))
        units.append(unit[1].strip() if unit else None)
    if cells[0].startswith("Total Bytes"):
        # There, KB are 1024 bytes.
        units = [unit and unit.replace("KB", "KiB") for unit in units]
    present = set(columns)
    if not any(character.isalpha() for character in columns[0]):  # the sign of a comment is no column
        return None
    for report, required in REPORTS:
        if present.issuperset(required) and len(present) == len(columns):
            return StatsHeader(report, tuple(columns), tuple(units), separator)
    return None


def _separator(text: str) -> str | None:
    if "|" in text:
        return "|"
    if "\t" in text:
        return "\t"
    return "," if "," in text else None


FORMAT_NAME: Final = "nsys-stats"

_SHARED_KINDS: Final = frozenset({"nvtx_pushpop_sum", "other"})
"""Kinds that several reports have."""


@dataclass(slots=True)
class StatsReport:
    """One table."""

    header: StatsHeader
    kind: str
    """The kind of report: ``header.report``, or by the line above if the header is ambiguous."""
    title: str
    """The name by nsys if a line above has it, otherwise `kind`."""
    line: int
    """The line of the header."""
    rows: list[pl.DataFrame] = field(default_factory=list)
    """The rows, with the columns of its kind."""

    @property
    def frame(self) -> pl.DataFrame:
        """All rows."""
        return pl.concat(self.rows) if self.rows else pl.DataFrame()


@dataclass(slots=True)
class StatsRun:
    """The reports of one profiled run."""

    session: Session
    database: str | None
    """Its exported file, by the lines above the reports."""
    reports: list[StatsReport] = field(default_factory=list)

    def with_rows(self, *kinds: str) -> list[StatsReport]:
        """Return its reports of these kinds that have rows, in the order of the kinds."""
        return [report for kind in kinds for report in self.reports if report.kind == kind and report.rows]


@dataclass(slots=True)
class StatsState:
    """The state that the sections of one text share."""

    collector: Collector
    runs: list[StatsRun] = field(default_factory=list)
    current: StatsRun | None = None
    database: str | None = None
    """The file of the next report."""
    title: str | None = None
    """The name of the next report."""
    tool_version: str | None = None
    skipped: str = ""
    """Why a report has no rows, by nsys."""

    def run(self, line: int, kind: str, title: str | None = None) -> StatsRun:
        """Return the run that a report of a kind belongs to, which may be a new one.

        Reports of one file belong together. If no line names the file, a second report of one kind
        begins another run, except if the title is of another report with the same columns.
        """
        found = next((run for run in self.runs if run.database == self.database), None)
        if self.database is None:
            found = self.current if self.current is not None and self.current.database is None else None
            shared = title is not None and kind in _SHARED_KINDS
            if found is not None and any(
                report.kind == kind and report.rows and not (shared and report.title != title)
                for report in found.reports
            ):
                found = None
        if found is None:
            session = self.collector.open_session(FORMAT_NAME, line)
            session.facts["tool"] = "Nsight Systems"
            if self.tool_version:
                session.facts["tool_version"] = self.tool_version
            found = StatsRun(session, self.database)
            self.runs.append(found)
        self.current = found
        self.collector.resume_session(found.session)
        return found


BYTES_PER_UNIT: Final = MappingProxyType(
    {
        **{"b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
        **{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30},
    }
)
"""KB and MB are decimal in Nsight Systems."""

_SIZE_WITHOUT_UNIT: Final = 1 << 10
"""The oldest versions print sums of sizes in KiB without a unit; their trace prints bytes."""

_MAX_DECIMALS: Final = 9
"""The maximum number of decimals of seconds: nanoseconds."""

_SUMMED: Final = MappingProxyType(
    {"total_ns": "totaltime", "avg_ns": "avg", "median_ns": "med", "min_ns": "min", "max_ns": "max", "std_ns": "stddev"}
)
"""Columns of ``summary``, and those of the reports that sum times by name."""

_DEVICE_NUMBER: Final = re.compile(r"(?P<name>.*\S) \((?P<number>[0-9]{1,4})\)")


def bytes_per(unit: str | None) -> int | None:
    """Return bytes in a unit of sizes or, with ``/s`` or ``ps``, of rates."""
    return BYTES_PER_UNIT.get(re.sub(r"(?:/s|ps)$", "", (unit or "").lower()))


_TEXT_COLUMNS: Final = frozenset(
    {"name", "range", "operation", "kernelname", "apiname", "apifunction", "nvtxrange", "style", "category", "source"}
)
"""Columns that are never numbers."""
_WITH_UNIT: Final = (
    r"^\s*([0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|[0-9]+,[0-9]+)\s*([a-z\x{b5}\x{3bc}]{1,3}|[KMGT]?i?B(?:/s)?|%)\s*$"
)


def with_base_units(cells: pl.DataFrame, header: StatsHeader) -> tuple[pl.DataFrame, StatsHeader]:
    """Return cells with units of their own, as copied from nsys-ui, in ns and bytes, and the header with these units.

    nsys-ui prints numbers below 1000 with three decimals, so a single comma is a decimal separator. The start times of
    traces are too imprecise and remain unchanged.
    """
    if any(header.units) or header.report.endswith("_trace"):
        return cells, header
    converted: dict[str, pl.Series] = {}
    unit_by_column: dict[str, str] = {}
    for name in set(header.columns) - _TEXT_COLUMNS:
        texts = cells[name].cast(pl.String)
        groups = texts.str.extract_groups(_WITH_UNIT).struct
        numbers, units = groups.field("1"), groups.field("2")
        distinct = units.drop_nulls().unique()
        if distinct.is_empty():
            continue
        factors = {unit: 1 if unit == "%" else NS_PER_UNIT.get(unit) or bytes_per(unit) for unit in distinct}
        unit_by_column[name] = "%" if "%" in factors else "B" if any("B" in unit for unit in distinct) else "ns"
        has_comma_alone = ~numbers.str.contains(".", literal=True)
        numbers = numbers.str.replace(",", ".").zip_with(has_comma_alone, numbers.str.replace_all(",", ""))
        values = numbers.cast(pl.Float64, strict=False)
        values *= units.replace_strict(factors, default=None, return_dtype=pl.Float64)
        if "%" not in factors:
            values = values.round().cast(pl.Int64, strict=False)
        converted[name] = values.cast(pl.String).fill_null(texts)
    units_of_columns = tuple(unit_by_column.get(name) for name in header.columns)
    return cells.with_columns(**converted), replace(header, units=units_of_columns)


def device_number(text: str) -> tuple[str, int | None]:
    """Return the name and the number of a device from nsys's text.

    >>> device_number("Tesla V100-PCIE-32GB (0)")
    ('Tesla V100-PCIE-32GB', 0)
    """
    match = _DEVICE_NUMBER.fullmatch(text)
    return (match["name"], int(match["number"])) if match else (text, None)


def read_rows(report: str, header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return the rows of a report as numbers; the columns depend on the report."""
    if report == "gpu_trace":
        return _gpu_trace(header, cells)
    if report == "api_trace":
        return _api_trace(header, cells)
    if report == "kern_exec_trace":
        return _kern_exec_trace(header, cells)
    if report == "kern_exec_sum":
        return _kern_exec_sum(header, cells)
    if report in ("nvtx_pushpop_trace", "nvtx_gpu_proj_trace"):
        return _nvtx_trace(report, header, cells)
    if report == "nvtx_gpu_proj_sum":
        return _nvtx_gpu_proj_sum(header, cells)
    if report == "nvtx_kern_sum":
        return _nvtx_kern_sum(header, cells)
    if report == "mem_size_sum":
        return _mem_size_sum(header, cells)
    return _sum(header, cells)


def _times(header: StatsHeader, cells: CellValues, **columns: str) -> dict[str, pl.Series]:
    return {name: cells.time_ns(column, header.unit(column)) for name, column in columns.items()}


def _sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return columns of ``summary``, and category if there is one."""
    name = next(column for column in ("name", "operation", "range") if column in cells)
    calls = next(column for column in ("instances", "numcalls", "count") if column in cells)
    return pl.DataFrame(
        {
            "name": cells.name(name),
            "category": cells.text("category"),
            "calls": cells.integer(calls),
            **_times(header, cells, **_SUMMED),
            "time_pct": cells.number("time"),
            "line": cells.line,
        }
    )


def _nvtx_kern_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return kernels within each NVTX range: columns of ``summary``."""
    return pl.DataFrame(
        {
            "name": cells.name("kernelname"),
            "range": cells.name("nvtxrange"),
            "calls": cells.integer("kerninst"),
            **_times(header, cells, **_SUMMED),
            "line": cells.line,
        }
    )


def _nvtx_gpu_proj_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return NVTX ranges: their own time (total_ns) and that of the GPU work launched in them (projected_ns)."""
    return pl.DataFrame(
        {
            "name": cells.name("range"),
            "calls": cells.integer("rangeinstances"),
            **_times(header, cells, total_ns="totalrangetime", projected_ns="totalprojtime"),
            "line": cells.line,
        }
    )


def _mem_size_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return sizes of copies and memsets by name, in bytes."""
    sizes: dict[str, pl.Series | None] = {}
    for column in ("total", "avg", "min", "max"):
        unit = header.unit(column)
        factor = _SIZE_WITHOUT_UNIT if unit is None else bytes_per(unit)
        sizes[f"{column}_bytes"] = cells.number(column) * factor if factor else None
    name = "operation" if "operation" in cells else "name"
    return pl.DataFrame({"name": cells.name(name), "calls": cells.integer("count"), **sizes, "line": cells.line})


def _shape(cells: CellValues, column: str, prefix: str) -> dict[str, pl.Series]:
    """Return the three numbers of a cell as ``  22    1    1``."""
    numbers = cells.text(column).str.extract_all(r"[0-9]+")
    complete = numbers.set(numbers.list.len() != 3, None)
    return {
        f"{prefix}_{axis}": complete.list.get(i, null_on_oob=True).cast(pl.Int32, strict=False)
        for i, axis in enumerate("xyz")
    }


def _gpu_trace(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return columns of ``activities``; device is text, shared memory and sizes are as rounded as they are printed."""
    integers = {
        f"{shape}_{axis}": cells.integer(f"{shape}{axis}", pl.Int32()) for shape in ("grid", "block") for axis in "xyz"
    }
    sizes = {
        name: _size(header, cells, column)
        for name, column in (
            ("static_shared_bytes", "stcsmem"),
            ("dynamic_shared_bytes", "dymsmem"),
            ("size_bytes", "bytes"),
        )
    }
    rate = bytes_per(header.unit("throughput"))
    decimals = min(cells.decimals("start"), _MAX_DECIMALS)
    return pl.DataFrame(
        {
            "name": cells.name("name"),
            **_times(header, cells, start_ns="start", duration_ns="duration"),
            "device": cells.name("device"),
            "context": cells.integer("ctx", pl.Int32()),
            "stream": cells.integer("strm"),
            **integers,
            "registers": cells.integer("reg/trd", pl.Int32()),
            **sizes,
            "throughput": cells.number("throughput") * (rate or 1),
            "src_memory": cells.name("srcmemkd"),
            "dst_memory": cells.name("dstmemkd"),
            "correlation": cells.integer("correlationid"),
            "line": cells.line,
            "decimals": pl.Series([decimals], dtype=pl.Int8).new_from_index(0, cells.cells.height),
        }
    )


def _size(header: StatsHeader, cells: CellValues, column: str) -> pl.Series:
    unit = header.unit(column)
    factor = 1 if unit is None else bytes_per(unit)
    return cells.scale(column, factor) if factor else cells.integer(column).clear(cells.cells.height)


def _api_trace(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return columns of ``api_calls``."""
    return pl.DataFrame(
        {
            "name": cells.name("name"),
            **_times(header, cells, start_ns="start", duration_ns="duration"),
            "pid": cells.integer("pid"),
            "tid": cells.integer("tid"),
            "correlation": cells.integer("correlationid"),
            "line": cells.line,
        }
    )


def _kern_exec_trace(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return one row per launch: the call, the wait and the kernel."""
    return pl.DataFrame(
        {
            **_times(
                header,
                cells,
                api_start_ns="apistart",
                api_ns="apidur",
                queue_ns="qdur",
                start_ns="kernelstart",
                duration_ns="kerneldur",
            ),
            "pid": cells.integer("pid"),
            "tid": cells.integer("tid"),
            "device": cells.integer("devid", pl.Int32()),
            "api": cells.name("apifunction"),
            "name": cells.name("kernelname"),
            **_shape(cells, "gridxyz", "grid"),
            **_shape(cells, "blockxyz", "block"),
            "line": cells.line,
        }
    )


def _kern_exec_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return launches by thread, call and kernel: the average times of the calls, the waits and the kernels."""
    return pl.DataFrame(
        {
            "name": cells.name("kernelname"),
            "api": cells.name("apiname"),
            "calls": cells.integer("count"),
            "queued": cells.integer("qcount"),
            **_times(
                header,
                cells,
                api_avg_ns="aavg",
                queue_avg_ns="qavg",
                queue_max_ns="qmax",
                avg_ns="kavg",
                median_ns="kmed",
                min_ns="kmin",
                max_ns="kmax",
                std_ns="kstddev",
            ),
            "line": cells.line,
        }
    )


def _nvtx_trace(report: str, header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return columns of ``ranges``; those of the default domain lose the colon that newer versions put in front."""
    begin, length = ("start", "duration") if report == "nvtx_pushpop_trace" else ("origstart", "origduration")
    names = cells.text("name")
    return pl.DataFrame(
        {
            "name": strip_domain(names),
            **_times(header, cells, start_ns=begin, duration_ns=length),
            "pid": cells.integer("pid"),
            "tid": cells.integer("tid"),
            "depth": cells.integer("lvl", pl.Int32()),
            "line": cells.line,
        }
    )


def strip_domain(names: pl.Series) -> pl.Series:
    """Return names of NVTX ranges, without the colon of newer versions that separates an empty domain."""
    return map_distinct(names, lambda name: name[1:] if name[:1] == ":" != name[1:2] else name, pl.String())
