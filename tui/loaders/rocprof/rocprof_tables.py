"""The tables of rocprof's CSV files: recognized by their headers, cells parsed to columns of the model.

AMD counts the grid in threads (work-items): blocks are grid / workgroup, rounded up. ``shared_bytes`` is the LDS of a
workgroup (group segment), ``registers`` the vector registers (VGPR) of a thread, ``stream`` the HIP stream or, where
that is not recorded, the queue. Scalar and accumulation registers and scratch memory are in ``arguments``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.text.section import NS_PER_UNIT, split_cells, unique_names
from tui.model.names import copy_kind, without_descriptor
from tui.model.schema import NAME
from tui.text import map_distinct

if TYPE_CHECKING:
    from tui.loaders.text.section import CellValues


_AGENT: Final = re.compile(r"(?:Agent |GPU[ -]?)?([0-9]{1,6})", re.IGNORECASE)

_FACTS: Final = (
    ("Accumulation VGPRs", "accum_vgpr_count", "accum_vgpr"),
    ("SGPRs", "sgpr_count", "sgpr"),
    ("Scratch bytes", "scratch_size", "private_segment_size", "scr"),
)
"""The facts in ``arguments``, with the columns that can have them."""

_FIXED: Final = frozenset(
    (
        *("index", "kernelname", "gpu_id", "queue_id", "queue_index", "pid", "tid", "grd", "wgr", "lds", "scr"),
        *("vgpr", "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "fbar", "sig", "obj", "correlation_id"),
        *("dispatchns", "beginns", "endns", "completens", "durationns"),
    )
)
"""Columns of results.csv that are not counters."""


def agent_number(text: str) -> int | None:
    """Return the number of an agent: ``4``, ``Agent 4``, ``GPU 1``."""
    match = _AGENT.fullmatch(text.strip())
    return int(match[1]) if match else None


def read_rows(header: RocprofHeader, cells: CellValues) -> pl.DataFrame:
    """Return the rows of a table; the columns depend on it."""
    if header.table == "kernel_trace":
        return _kernel_trace(cells)
    if header.table == "memory_copy_trace":
        return _memory_copy_trace(cells)
    if header.table == "api_trace":
        return _api_trace(cells)
    if header.table == "gpu_trace":
        return _gpu_trace(cells)
    if header.table == "stats":
        return _stats(header, cells)
    if header.table == "counters":
        return _counters(cells)
    if header.table == "results":
        return _results(header, cells)
    return cells.cells


def _span(cells: CellValues, begin: str, end: str) -> dict[str, pl.Series]:
    start, stop = _clock(cells, begin), _clock(cells, end)
    return {"start_ns": start, "duration_ns": stop - start}


def _clock(cells: CellValues, column: str) -> pl.Series:
    """Return a column of times; null if a spreadsheet rounded them, as in ``8.1097E+14``."""
    values = cells.integer(column)
    if column not in cells or cells.cells.schema[column] != pl.String:
        return values
    return values.set(cells.cells[column].str.contains("[eE]").fill_null(False), None)


def _correlation(cells: CellValues) -> pl.Series:
    """Return the id that links calls and activities; 0 is none."""
    ids = cells.integer("correlation_id")
    return ids.set(ids == 0, None)


def _names(cells: CellValues, column: str) -> pl.Series:
    return map_distinct(cells.name(column), without_descriptor, NAME).alias("name")


def _facts(cells: CellValues) -> pl.Series:
    """Return facts without a column of their own, as text; computed once for each combination."""
    present = [(label, column) for label, *columns in _FACTS if (column := cells.first_column(*columns)) in cells]
    if not present:
        return pl.Series([None] * cells.cells.height, dtype=NAME)
    columns = [column for _, column in present]
    table = cells.cells.select(columns)
    distinct = table.unique(maintain_order=True)
    details = [
        pl.when(pl.col(column).str.contains(r"^[0-9]+$") & (pl.col(column) != "0")).then(
            pl.format(label + ": {}", pl.col(column))
        )
        for label, column in present
    ]
    texts = distinct.with_columns(
        pl.concat_str(details, separator="; ", ignore_nulls=True).replace("", None).alias("details")
    )
    joined = table.join(texts, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["details"].cast(NAME)


def _kernel_trace(cells: CellValues) -> pl.DataFrame:
    """Return columns of ``activities``; ``device`` is unchanged."""
    shapes = {}
    for axis in "xyz":
        block = cells.integer(f"workgroup_size_{axis}", pl.Int32())
        grid = cells.integer(f"grid_size_{axis}", pl.Int64())
        shapes[f"block_{axis}"] = block
        shapes[f"grid_{axis}"] = ((grid + block - 1) // block.set(block <= 0, None)).cast(pl.Int32, strict=False)
    return pl.DataFrame(
        {
            "name": _names(cells, "kernel_name"),
            **_span(cells, "start_timestamp", "end_timestamp"),
            "device": cells.name("agent_id"),
            "stream": cells.integer(cells.first_column("stream_id", "queue_id")),
            **shapes,
            "registers": cells.integer("vgpr_count", pl.Int32()),
            "shared_bytes": cells.integer(cells.first_column("lds_block_size", "group_segment_size")),
            "correlation": _correlation(cells),
            "arguments": _facts(cells),
            "line": cells.line,
        }
    )


def _memory_copy_trace(cells: CellValues) -> pl.DataFrame:
    """Return columns of ``activities``; the size of a copy is not recorded. ``device`` is the GPU of its two agents."""
    kinds = map_distinct(cells.name("direction"), copy_kind, NAME)
    is_to_host = kinds.cast(pl.String).str.ends_with("toH").fill_null(False)
    source, target = cells.name("source_agent_id"), cells.name("destination_agent_id")
    return pl.DataFrame(
        {
            "name": cells.name("direction"),
            **_span(cells, "start_timestamp", "end_timestamp"),
            "device": source.cast(pl.String).zip_with(is_to_host, target.cast(pl.String)).cast(NAME),
            "copy_kind": kinds,
            "stream": cells.integer("stream_id"),
            "correlation": _correlation(cells),
            "line": cells.line,
        }
    )


def _api_trace(cells: CellValues) -> pl.DataFrame:
    """Return columns of ``api_calls``, and ``domain``: that of markers is of ranges."""
    return pl.DataFrame(
        {
            "domain": cells.name("domain"),
            "name": cells.name("function"),
            **_span(cells, "start_timestamp", "end_timestamp"),
            "pid": cells.integer("process_id"),
            "tid": cells.integer("thread_id"),
            "correlation": _correlation(cells),
            "line": cells.line,
        }
    )


def _gpu_trace(cells: CellValues) -> pl.DataFrame:
    """Return columns of ``activities`` of kernels and copies together; rows of neither, as barriers, are omitted."""
    operation, kernel_name = cells.name("operation"), _names(cells, "kernel_name")
    frame = pl.DataFrame(
        {
            "operation": operation,
            "kernel": kernel_name.set(kernel_name == "", None),
            "kind": map_distinct(operation, _kind_of_operation, NAME),
            **_span(cells, "start_timestamp", "stop_timestamp"),
            "copy_kind": map_distinct(operation, copy_kind, NAME),
            "correlation": _correlation(cells),
            "line": cells.line,
        }
    ).with_columns(pl.when(pl.col("kernel").is_null()).then("kind").otherwise(pl.lit("kernel", NAME)).alias("kind"))
    work = frame.filter(pl.col("kind").is_not_null())
    return work.with_columns(pl.coalesce("kernel", "operation").alias("name")).drop("operation", "kernel")


def _kind_of_operation(operation: str) -> str | None:
    if re.match(r"(?i)copy", operation):
        return "memcpy"
    if re.match(r"(?i)fill", operation):
        return "memset"
    return "kernel" if re.match(r"(?i)kernel|dispatch", operation) else None


def _stats(header: RocprofHeader, cells: CellValues) -> pl.DataFrame:
    """Return columns of ``summary``, and ``domain``, which printed tables have."""
    times = {
        target: cells.scale(column, header.time_unit_ns)
        for target, column in (
            *(("total_ns", "totaldurationns"), ("avg_ns", "averagens"), ("min_ns", "minns"), ("max_ns", "maxns")),
            ("std_ns", "stddev"),
        )
    }
    calls = cells.integer("calls")
    if header.is_printed:
        # The average has four digits.
        times["avg_ns"] = (times["total_ns"] / calls).round().cast(pl.Int64, strict=False)
    return pl.DataFrame(
        {
            "name": _names(cells, "name"),
            "domain": cells.text("domain"),
            "calls": calls,
            **times,
            # Printed shares are of all domains.
            "time_pct": None if header.is_printed else cells.number("percentage"),
            "line": cells.line,
        }
    )


def _counters(cells: CellValues) -> pl.DataFrame:
    """Return a counter of a dispatch in each row; grid and workgroup are numbers of threads, their shapes unknown."""
    return pl.DataFrame(
        {
            "dispatch": cells.integer("dispatch_id"),
            "name": _names(cells, "kernel_name"),
            **_span(cells, "start_timestamp", "end_timestamp"),
            "device": cells.name("agent_id"),
            "stream": cells.integer("queue_id"),
            "registers": cells.integer("vgpr_count", pl.Int32()),
            "shared_bytes": cells.integer("lds_block_size"),
            "correlation": _correlation(cells),
            "metric": cells.name("counter_name"),
            "value": cells.number("counter_value"),
            "arguments": _sizes(cells, "grid_size", "workgroup_size"),
            "line": cells.line,
        }
    )


def _sizes(cells: CellValues, grid: str, block: str) -> pl.Series:
    """Return grid and workgroup as text, if only their numbers of threads are known, and the other facts."""
    table = pl.DataFrame({"grid": cells.text(grid), "block": cells.text(block), "facts": _facts(cells)})
    distinct = table.unique(maintain_order=True)
    texts = distinct.with_columns(
        pl.concat_str(
            pl.format("Grid: {} threads", pl.col("grid")),
            pl.format("Workgroup: {} threads", pl.col("block")),
            pl.col("facts").cast(pl.String),
            separator="; ",
            ignore_nulls=True,
        ).alias("details")
    )
    joined = table.join(texts, on=["grid", "block", "facts"], how="left", nulls_equal=True, maintain_order="left")
    return joined["details"].cast(NAME)


def _results(header: RocprofHeader, cells: CellValues) -> pl.DataFrame:
    """Return columns of ``activities``, ``dispatch_ns``, and numbers of each counter, named ``counter `` and its title.

    Grid and workgroup are numbers of threads: their shapes are not recorded.
    """
    counters = {
        f"counter {title}": cells.number(column)
        for title, column in zip(header.titles, header.columns, strict=True)
        if column not in _FIXED
    }
    span = _span(cells, "beginns", "endns")
    if "durationns" in cells:
        span["duration_ns"] = span["duration_ns"].fill_null(cells.integer("durationns"))
    if set(header.columns).issuperset(_FIRST_V2_COLUMNS):
        # The first releases of rocprofv2 wrote ids in place of times.
        is_id = span["start_ns"] < _MIN_CLOCK_NS
        span = {name: series.set(is_id, None) for name, series in span.items()}
    return pl.DataFrame(
        {
            "name": _names(cells, "kernelname"),
            **span,
            "dispatch_ns": cells.integer("dispatchns"),
            "device": cells.name("gpu_id"),
            "stream": cells.integer("queue_id"),
            "registers": cells.integer(cells.first_column("arch_vgpr", "vgpr"), pl.Int32()),
            "shared_bytes": cells.integer("lds"),
            "pid": cells.integer("pid"),
            "arguments": _sizes(cells, "grd", "wgr"),
            **counters,
            "line": cells.line,
        }
    )


V1: Final = "rocprof-csv"
V3: Final = "rocprofv3-csv"
V1_DATABASE: Final = "rocprof-database"
V1_JSON: Final = "rocprof-json"
ORIGIN_REASON: Final = "times count from the first event, at {} ns of the machine clock"
"""The reason of the issue that records the origin of a file's times."""

_SPAN: Final = ("start_timestamp", "end_timestamp")

TABLES: Final = (
    ("kernel_trace", V3, ("kind", "agent_id", "kernel_name", *_SPAN)),
    ("counters", V3, ("dispatch_id", "agent_id", "kernel_name", "grid_size", "counter_name", "counter_value")),
    ("memory_copy_trace", V3, ("kind", "direction", "source_agent_id", "destination_agent_id", *_SPAN)),
    ("api_trace", V3, ("domain", "function", "process_id", "thread_id", *_SPAN)),
    ("agents", V3, ("node_id", "logical_node_id", "agent_type", "name")),
    ("other", V3, ("kind", "operation", *_SPAN)),
    ("stats", V3, ("name", "calls", "totaldurationns", "averagens", "percentage", "minns", "maxns")),
    ("stats", V1, ("name", "calls", "totaldurationns")),
    ("api_trace", V1, ("domain", "function", *_SPAN)),
    ("gpu_trace", V1, ("domain", "operation", "start_timestamp", "stop_timestamp")),
    ("other", V1, ("domain", "roctx_id", "message", "timestamp")),
    ("results", V1, ("kernelname", "gpu_id", "grd", "wgr")),
)
"""The tables, the version that writes each, and the columns that identify it; the first match counts."""

_ALIASES: Final = MappingProxyType(
    {
        "dispatch_id": "index",
        "kernel_name": "kernelname",
        "grid_size": "grd",
        "workgroup_size": "wgr",
        "lds_per_workgroup": "lds",
        "scratch_per_workitem": "scr",
        "start_timestamp": "beginns",
        "end_timestamp": "endns",
    }
)
"""Columns of rocprofv2, by the names of the first version."""
_COUNTER_ALIASES: Final = MappingProxyType(
    {
        "gpu_id": "agent_id",
        "lds_per_workgroup": "lds_block_size",
        "scratch_per_workitem": "scratch_size",
        "arch_vgpr": "vgpr_count",
        "accum_vgpr": "accum_vgpr_count",
        "sgpr": "sgpr_count",
    }
)
"""Columns of rocprof-compute's table of counters, by the names of rocprofv3."""
_V2_COLUMNS: Final = ("dispatch_id", "gpu_id", "kernel_name")

FIRST_CELL: Final = re.compile(r"(?i)Kind|Correlation_Id|Domain|Node_Id|Name|Index|KernelName|Dispatch_ID|GPU_ID|Guid")
"""The first cell of every header, and of no row."""

CUE: Final = (
    rb'^"?(?i:Guid"?,"?)?(?i:Kind"?,"?(?:Agent_Id|Direction|Operation)|Correlation_Id"?,"?Dispatch_Id'
    rb'|Domain"?,"?(?:Function|Operation|ROCTX_ID)|Node_Id"?,"?Logical_Node_Id|Name"?,"?Calls"?,"?TotalDurationNs'
    rb'|(?:Index"?,"?)?KernelName"?,"?gpu-id|Dispatch_ID"?,"?(?:GPU_ID|Kernel_Name)|GPU_ID"?,"?Dispatch_ID)'
    rb"|^\s*\| *(?:NAME *\| *DOMAIN|Name *\| *Calls *\| *TotalDurationNs) *\|"
)

INTEGER_COLUMNS: Final = frozenset(
    (
        *("start_timestamp", "end_timestamp", "correlation_id", "queue_id", "stream_id", "dispatch_id", "kernel_id"),
        *("thread_id", "process_id", "vgpr_count", "lds_block_size", "group_segment_size", "stop_timestamp"),
        *(f"{size}_{axis}" for size in ("workgroup_size", "grid_size") for axis in "xyz"),
        *("index", "queue_index", "pid", "tid", "beginns", "endns", "dispatchns", "completens", "durationns"),
    )
)
"""Columns of integers."""

_MAX_HEADER: Final = 1 << 16
_FIRST_V2_COLUMNS: Final = ("sig", "obj", "correlation_id")
"""Columns that only the first releases of rocprofv2 wrote together."""
_MIN_CLOCK_NS: Final = 10**9
"""A clock that counts from the start of the machine is later when a program runs."""


@dataclass(frozen=True, slots=True)
class RocprofHeader:
    """A parsed header."""

    table: str
    """The name in `TABLES`."""
    format: str
    """The version that writes it."""
    columns: tuple[str, ...]
    """The columns in lower case."""
    titles: tuple[str, ...]
    """The titles as written."""
    time_unit_ns: int = 1
    """The nanoseconds of a unit of its times."""
    separator: str = ","

    @property
    def is_printed(self) -> bool:
        """Whether ``rocprofv3 --summary`` printed it, for all domains."""
        return self.separator == BAR and "domain" in self.columns


def parse_header(text: str) -> RocprofHeader | None:
    """Return the header in a line, or None.

    >>> parse_header('"Name","Calls","TotalDurationNs","AverageNs","Percentage"').format
    'rocprof-csv'
    """
    text = text.strip()
    if text.startswith(BAR):
        return _printed_header(text)
    if "," not in text or len(text) > _MAX_HEADER:
        return None
    titles = [title.strip() for title in split_cells(text)]
    columns = [title.lower().replace("-", "_") for title in titles]
    if set(columns).issuperset(_V2_COLUMNS):
        aliases = _COUNTER_ALIASES if "counter_name" in columns else _ALIASES
        columns = [aliases.get(column, column) for column in columns]
    present = set(columns)
    for table, version, required in TABLES:
        if present.issuperset(required):
            return RocprofHeader(table, version, tuple(unique_names(columns)), tuple(titles))
    return None


BAR: Final = "|"
"""The character between the cells of a printed table."""
_PRINTED: Final = MappingProxyType(
    {
        **{"NAME": "name", "DOMAIN": "domain", "CALLS": "calls", "PERCENT (INC)": "percentage"},
        **{"DURATION": "totaldurationns", "AVERAGE": "averagens", "MIN": "minns", "MAX": "maxns", "STDDEV": "stddev"},
    }
)
"""The titles of the table that ``rocprofv3 --summary`` prints, without units."""
_UNIT: Final = re.compile(r" \((nsec|usec|msec|sec)\)$")


def _printed_header(text: str) -> RocprofHeader | None:
    """Return the header of a table that ``rocprofv3 --summary`` prints, with times of one unit, or None.

    Or that of sums that were rewritten in Markdown.
    """
    titles = [title.strip() for title in text.strip(BAR).split(BAR)]
    if titles[:3] == ["Name", "Calls", "TotalDurationNs"]:
        columns = [title.lower() for title in titles]
        return RocprofHeader("stats", V1, tuple(unique_names(columns)), tuple(titles), separator=BAR)
    columns = [_PRINTED.get(_UNIT.sub("", title), "") for title in titles]
    if not {"name", "domain", "calls", "totaldurationns"}.issubset(columns):
        return None
    units = {match[1] for title in titles if (match := _UNIT.search(title))}
    if len(units) != 1:
        return None
    return RocprofHeader("stats", V3, tuple(unique_names(columns)), tuple(titles), NS_PER_UNIT[units.pop()], BAR)
