"""Reads the CSV files of rocprof and rocprofv3, and builds the frames of a run from its tables."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import compress
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.collector import Collector, link_run
from tui.loaders.input_file import InputFile
from tui.loaders.rocprof.rocprof_tables import (
    BAR,
    CUE,
    FIRST_CELL,
    INTEGER_COLUMNS,
    ORIGIN_REASON,
    V1,
    V1_DATABASE,
    V1_JSON,
    V3,
    RocprofHeader,
    agent_number,
    parse_header,
    read_rows,
)
from tui.loaders.text.csv_table import CsvTable
from tui.loaders.text.section import LINE_COLUMN, CellValues, TextFormat
from tui.loaders.text.text_log import TextLogLoader
from tui.model.names import short_name
from tui.model.profile import merge_tables, with_other_formats
from tui.model.schema import NAME
from tui.text import map_distinct, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.collector import Session
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section
    from tui.model.profile import Profile


_MARKERS: Final = r"(?i)marker|roctx"
_API: Final = re.compile(r"(?:__)?hip[A-Z]|hsa_|rccl|nccl[A-Z]|roctx|rocDec")
_KIND: Final = r"^(?:__)?(hip)[A-Z]|^(hsa)_|^(Copy)(?:Device|Host)"
"""Sections of the sums of rocprof v1 by file name; kernels by default."""
_DOMAIN: Final = re.compile(r"(?:KERNEL_DISPATCH|MEMORY_COPY|MEMORY_ALLOCATION|SCRATCH_MEMORY|[A-Z]+(?:_[A-Z]+)*_API)")
_DOMAIN_FIGURES: Final = MappingProxyType(
    {"total_ns": "total", "avg_ns": "average", "min_ns": "minimum", "max_ns": "maximum", "calls": "calls"}
)
_MATRIX: Final = r"MFMA"
"""A part of the names of counters of matrix instructions."""


@dataclass(slots=True)
class RocprofTable:
    """One table."""

    header: RocprofHeader
    line: int
    """The line of the header."""
    file: str
    """The name of the file it is in."""
    rows: list[pl.DataFrame] = field(default_factory=list)

    @property
    def frame(self) -> pl.DataFrame:
        """All rows, with the columns of its kind."""
        return pl.concat(self.rows, how="diagonal")


@dataclass(slots=True)
class RocprofRun:
    """The tables of one profiled run."""

    session: Session
    tables: list[RocprofTable] = field(default_factory=list)

    def tables_of_kind(self, kind: str) -> list[RocprofTable]:
        """Return the tables of a kind that have rows."""
        return [table for table in self.tables if table.header.table == kind and table.rows]


def is_of_another_run(table: RocprofTable, rows: pl.DataFrame, run: RocprofRun) -> bool:
    """Return whether a table of sums is of another run: a run has each sum only once."""
    if table.header.table != "stats":
        return False
    identities = _kinds if table.header.format == V1 else _names
    existing = set().union(
        *(
            identities(frame)
            for other_table in run.tables_of_kind("stats")
            if other_table is not table
            for frame in other_table.rows
        )
    )
    return not existing.isdisjoint(identities(rows))


def _without_printed_rows(rows: pl.DataFrame, run: RocprofRun) -> pl.DataFrame:
    """Return the rows of a printed table that no other printed table of the run has: they are by domain or of all."""
    identity = ("name", "domain", "calls", "total_ns")
    printed = [
        frame.select(identity) for table in run.tables_of_kind("stats") for frame in table.rows if "domain" in frame
    ]
    if not printed:
        return rows
    return rows.join(pl.concat(printed), on=identity, how="anti", nulls_equal=True, maintain_order="left")


def _names(rows: pl.DataFrame) -> set[str]:
    return set(rows["name"].drop_nulls().cast(pl.String))


def _kinds(rows: pl.DataFrame) -> set[str]:
    names = pl.Series(list(_names(rows)), dtype=pl.String)
    kinds = names.str.extract_groups(_KIND).struct.unnest()
    return set(kinds.select(pl.coalesce(pl.all()).fill_null("kernel")).to_series())


def build_frames(run: RocprofRun, collector: Collector) -> None:
    """Add the rows of a run to the collector."""
    for table in run.tables_of_kind("agents"):
        _devices(table, run, collector)
    _activities(run, collector)
    for table in run.tables_of_kind("stats"):
        _stats(table, run, collector)
    for table in run.tables_of_kind("other"):
        kind = "memory allocations or scratch memory" if table.header.format == V3 else "marks of roctx, without ends"
        reason = f"no view shows this trace ({kind}): its rows are in the log only"
        collector.issue("info", table.line, "", reason)


def _activities(run: RocprofRun, collector: Collector) -> None:
    """Add kernels, copies, calls and ranges, linked, with times from the first event."""
    kernels = [table.frame for table in run.tables_of_kind("kernel_trace")]
    counted_dispatches = [_dispatches(table, collector) for table in run.tables_of_kind("counters")]
    results = [_results(table, run, collector) for table in run.tables_of_kind("results")]
    if not kernels:
        kernels = [frame for frame in counted_dispatches if frame.height]
    traced = [table.frame for table in run.tables_of_kind("gpu_trace")]
    if any(has_times(frame) for frame in results):
        # A results.csv has the same kernels, and says more about each.
        traced = [frame.filter(pl.col("kind") != "kernel") for frame in traced]
    elif any((frame["kind"] == "kernel").any() for frame in traced):
        results = []
    kernels = [
        _with_short_names(frame.with_columns(pl.lit("kernel", NAME).alias("kind"))) for frame in (*kernels, *results)
    ]
    copies = [
        *(
            table.frame.with_columns(pl.lit("memcpy", NAME).alias("kind"))
            for table in run.tables_of_kind("memory_copy_trace")
        ),
        *map(_with_short_names, traced),
    ]
    for table in run.tables_of_kind("memory_copy_trace"):
        reason = "rocprofv3 writes no memcpy sizes to CSV: they are unknown; the rocpd database has them"
        collector.issue("info", table.line, "", reason)
    calls = [table.frame for table in run.tables_of_kind("api_trace")]
    activities = pl.concat([*kernels, *copies], how="diagonal") if kernels or copies else None
    if activities is not None and "device" in activities:
        numbers = map_distinct(activities["device"], agent_number, pl.Int32())
        activities = activities.with_columns(numbers.alias("device"))
    api = pl.concat(calls) if calls else None
    origin_ns = _earliest_start_ns(activities, api)
    if origin_ns:
        collector.issue("info", run.tables[0].line, "", ORIGIN_REASON.format(origin_ns))
    is_marker = pl.col("domain").cast(pl.String).str.contains(_MARKERS).fill_null(False)
    ranges = None if api is None else _relative_to(api.filter(is_marker), origin_ns).drop("correlation", "domain")
    if api is not None:
        api = _relative_to(api.filter(~is_marker), origin_ns).drop("domain")
        _note_pid(api if api.height else ranges, run)
    frames = link_run(
        None if activities is None else _relative_to(activities, origin_ns),
        api,
        None if ranges is None or ranges.is_empty() else ranges,
        run.session,
        collector,
        range_kind="roctx range",
    )
    collector.add_frames(frames)
    if origin_ns is not None:
        collector.resolution(1)


def _with_short_names(work: pl.DataFrame) -> pl.DataFrame:
    return work.with_columns(map_distinct(work["name"], short_name, NAME).alias("short_name"))


def has_times(rows: pl.DataFrame) -> bool:
    """Return whether any row has a start time."""
    return rows["start_ns"].null_count() < rows.height


def _earliest_start_ns(*frames: pl.DataFrame | None) -> int | None:
    starts_ns = [frame["start_ns"].min() for frame in frames if frame is not None]
    return min((start for start in starts_ns if isinstance(start, int)), default=None)


def _relative_to(frame: pl.DataFrame, origin_ns: int | None) -> pl.DataFrame:
    return frame if origin_ns is None else frame.with_columns(pl.col("start_ns") - origin_ns)


def _note_pid(calls: pl.DataFrame | None, run: RocprofRun) -> None:
    """Set the process id if all calls are of one process."""
    pids = [] if calls is None else calls["pid"].drop_nulls().unique().to_list()
    if run.session.pid is None and len(pids) == 1:
        run.session.pid = pids[0]


def _dispatches(table: RocprofTable, collector: Collector) -> pl.DataFrame:
    """Add the counters of a table; its dispatches become activities if it has their times."""
    rows = table.frame
    _add_metrics(rows.select("name", "device", "metric", "value", "line"), collector)
    matrix = pl.col("metric").cast(pl.String).str.contains(_MATRIX) & pl.col("value").is_not_null()
    dispatches = rows.group_by("dispatch", maintain_order=True).agg(
        pl.exclude("metric", "value", "line").first(),
        pl.col("line").min(),
        pl.when(matrix.any()).then((pl.col("value").filter(matrix) > 0).any()).alias("uses_tensor_core"),
        pl.when(matrix.any())
        .then(pl.lit("rocprof: ") + pl.col("metric").cast(pl.String).filter(matrix).first())
        .alias("tensor_core_reason"),
    )
    if not has_times(rows):
        reason = "this table has counters but no times: durations are unknown; record a --kernel-trace as well"
        collector.issue("info", table.line, "", reason)
    return dispatches.drop("dispatch")


def _results(table: RocprofTable, run: RocprofRun, collector: Collector) -> pl.DataFrame:
    """Add the counters of a results.csv; its rows become activities."""
    rows = table.frame
    counters = [name for name in rows.columns if name.startswith("counter ")]
    if counters:
        values = rows.select("name", "device", "line", *counters).unpivot(
            counters, index=["name", "device", "line"], variable_name="metric", value_name="value"
        )
        values = values.with_columns(pl.col("metric").str.strip_prefix("counter ")).sort("line", maintain_order=True)
        _add_metrics(values, collector)
    _note_pid(rows, run)
    is_wrong = _has_wrong_begin(rows)
    if is_wrong.any():
        reason = (
            f"{plural(int(is_wrong.sum()), 'kernel begins', 'kernels begin')} before being dispatched, which rocprof "
            "writes with some counters: these times are wrong and shown as unknown; record times without counters"
        )
        collector.issue("warning", int(rows["line"].filter(is_wrong)[0]), "", reason)
        rows = rows.with_columns(rows[name].set(is_wrong, None) for name in ("start_ns", "duration_ns"))
    elif not has_times(rows):
        reason = (
            "this table has no times, or a spreadsheet rounded them: durations are unknown; record them with rocprof "
            "--timestamp on, or with rocprofv3 --kernel-trace"
        )
        collector.issue("info", table.line, "", reason)
    return rows.drop("pid", "dispatch_ns", *counters)


def _has_wrong_begin(rows: pl.DataFrame) -> pl.Series:
    """Return which kernels have the end of the previous kernel as their begin, before their own dispatch.

    rocprof writes it with some counters. The first kernel of such a sequence begins at an arbitrary time.
    """
    is_early = rows["start_ns"] < rows["dispatch_ns"]
    is_copy = rows["start_ns"] == (rows["start_ns"] + rows["duration_ns"]).shift(1)
    wrong: pl.Series = is_early & (is_copy | is_copy.shift(-1))
    return wrong.fill_null(False)


def _add_metrics(rows: pl.DataFrame, collector: Collector) -> None:
    values = rows.filter(pl.col("value").is_not_null())
    collector.add_frame(
        "metrics",
        values.select(
            pl.col("device").cast(pl.String),
            pl.col("name").alias("kernel"),
            pl.lit(1, pl.Int64).alias("invocations"),
            "metric",
            *(pl.col("value").alias(column) for column in ("min", "max", "avg")),
            "line",
        ),
    )


def _stats(table: RocprofTable, run: RocprofRun, collector: Collector) -> None:
    """Add sums, with the section by file name or names."""
    rows = table.frame
    texts = rows["name"].cast(pl.String)
    if texts.drop_nulls().len() and all(_DOMAIN.fullmatch(text) for text in texts.drop_nulls()):
        _add_domain_figures(rows, run, collector)
        return
    if table.header.is_printed:
        section = map_distinct(rows["domain"], _section_of_domain, pl.String())
        if section.null_count():
            reason = "sums of memory allocations and scratch memory are in no view: they are in the log only"
            collector.issue("info", table.line, "", reason)
    else:
        section = map_distinct(rows["name"], lambda name: _section(table.file, name), pl.String())
    sums = rows.drop("domain").with_columns(section.alias("section"))
    collector.add_frame("summary", sums.filter(pl.col("section").is_not_null()))
    if run.tables_of_kind("kernel_trace") and (section == "gpu").any():
        reason = "totals of activities that are traced above: the trace is used"
        collector.issue("info", table.line, "", reason)


def _add_domain_figures(rows: pl.DataFrame, run: RocprofRun, collector: Collector) -> None:
    """Add the sums of whole domains as figures of the tool: other tables list their parts by name."""
    for column, title in _DOMAIN_FIGURES.items():
        figures = rows.select(
            pl.format("{}: {}", pl.col("name").cast(pl.String), pl.lit(title)).alias("name"),
            pl.col(column).cast(pl.Float64).alias("value"),
            pl.lit(None if column == "calls" else "ns", pl.String).alias("unit"),
            pl.lit(str(run.session.facts["tool"])).alias("tool"),
            pl.lit("Domains").alias("section"),
            "line",
        )
        collector.add_frame("tool_figures", figures.filter(pl.col("value").is_not_null()))


def _section_of_domain(domain: str) -> str | None:
    if domain in ("KERNEL_DISPATCH", "MEMORY_COPY"):
        return "gpu"
    if domain.startswith("MARKER"):
        return "nvtx"
    return "api" if domain.endswith("_API") else None


def _section(file: str, name: str) -> str:
    if re.search(r"marker", file):
        return "nvtx"
    return "api" if _API.match(name) else "gpu"


def _devices(table: RocprofTable, run: RocprofRun, collector: Collector) -> None:
    """Add the GPUs, with the numbers that the other tables use."""
    cells = CellValues(table.frame, collector)
    texts = {
        text for table in run.tables for frame in table.rows if "device" in frame for text in frame["device"].unique()
    }
    absolute = not any(re.match(r"(?i)agent|gpu", text) for text in texts if text)
    has_kind = any(re.match(r"(?i)gpu", text) for text in texts if text)
    rows = pl.DataFrame(
        {
            "type": cells.text("agent_type"),
            "device": cells.integer("node_id" if absolute else "logical_node_id", pl.Int32()),
            "name": cells.text("product_name").fill_null(cells.text("name")),
            "compute_capability": cells.text("name"),
            "sm_count": cells.integer("cu_count", pl.Int32()),
            "max_threads_per_sm": (cells.integer("max_waves_per_cu") * cells.integer("wave_front_size")).cast(
                pl.Int32, strict=False
            ),
            "shared_memory_per_sm_bytes": cells.integer("lds_size_in_kb") * 1024,
            "memory_bytes": cells.integer("local_mem_size"),
        }
    ).filter(pl.col("type") == "GPU")
    sizes = ("sm_count", "max_threads_per_sm", "shared_memory_per_sm_bytes", "memory_bytes")
    rows = rows.with_columns(pl.when(pl.col(name) > 0).then(name).alias(name) for name in sizes)
    if has_kind:
        rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("device"))
    collector.add_frame("devices", rows.drop("type"))


FORMAT_V3: Final = Format(
    name=V3,
    title="rocprofv3 CSV",
    recognized_by="""the header '"Kind","Agent_Id",…', '"Domain","Function",…' or '"Name","Calls",…,"MinNs"', """
    "or the table of rocprofv3 --summary",
    feeds=(
        "sessions",
        "devices",
        "activities",
        "api_calls",
        "ops",
        "ranges",
        "summary",
        "metrics",
        "tool_figures",
        "issues",
    ),
    record_with=(
        "rocprofv3 --kernel-trace --hip-trace --memory-copy-trace --marker-trace --output-format csv -d out -- ./app"
    ),
)
FORMAT_V1: Final = Format(
    name=V1,
    title="rocprof CSV",
    recognized_by="""the header 'Index,KernelName,gpu-id,…' or '"Name","Calls","TotalDurationNs",…'; of rocprofv2 """
    "'Dispatch_ID,GPU_ID,…' or 'Domain,Function,Start_Timestamp,…'",
    feeds=("sessions", "activities", "api_calls", "summary", "metrics", "issues"),
    record_with="rocprof --stats --hip-trace ./app",
)

_END_OF_PRINTED: Final = re.compile(r"\s*[^|\s]")
_RULE: Final = "^[-:]*$"
"""A cell of the line below a printed header."""
_END_OF_TABLE: Final = re.compile(r"\s*(?:==\w+==|={8}|[IWEF][0-9]{4} [0-9][0-9]:)")
_PID: Final = re.compile(r"(?:out_?|results_?)?([0-9]{1,10})_")
_SINGLE_TABLES: Final = ("kernel_trace", "memory_copy_trace", "counters", "results")
"""Tables that a run has once: a second one belongs to another run."""


class _RocprofSink:
    """Parses the rows of one table as they are read, and stores them."""

    def __init__(self, reader: _RocprofReader, run: RocprofRun, table: RocprofTable) -> None:
        self._reader = reader
        self._collector = reader.collector
        self._run = run
        self._table = table

    def add(self, cells: pl.DataFrame) -> None:
        self._collector.resume_session(self._run.session)
        header = self._table.header
        if header.separator == BAR:
            cells = cells.select(pl.col(header.columns).str.strip_chars(), LINE_COLUMN).filter(
                ~pl.col("name").str.contains(_RULE).fill_null(True)
            )
        rows = read_rows(header, CellValues(cells, self._collector))
        if header.is_printed:
            rows = _without_printed_rows(rows, self._run)
        if rows.is_empty():
            return
        if not self._table.rows and is_of_another_run(self._table, rows, self._run):
            self._run = self._reader.move_to_new_run(self._table, self._run)
        self._table.rows.append(rows)
        self._run.session.last_line = max(self._run.session.last_line or 0, int(cells["line"][-1]))

    def damaged(self, line: Line, reason: str) -> None:
        self._collector.resume_session(self._run.session)
        self._collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        """Do nothing: rows are converted when all tables are read."""


class _RocprofReader:
    """Reads the tables of one version in one text."""

    def __init__(self, collector: Collector, version: str) -> None:
        self.collector = collector
        self._version = version
        self._runs: list[RocprofRun] = []
        self._file = PurePosixPath(collector.source).name

    def begin(self, line: Line) -> Section | bool:
        """Open a table if the line is its header."""
        header = parse_header(line.text)
        if header is None or header.format != self._version:
            return False
        run = self._run(header, line)
        table = RocprofTable(header, line.number, self._file)
        if run.tables and not run.tables[-1].rows:
            # A table without rows.
            run.tables.pop()
        run.tables.append(table)
        if header.separator == BAR:
            return CsvTable(
                ("", *header.columns, ""),
                _RocprofSink(self, run, table),
                separator=BAR,
                header=FIRST_CELL,
                end_pattern=_END_OF_PRINTED,
            )
        return CsvTable(
            header.columns,
            _RocprofSink(self, run, table),
            header=FIRST_CELL,
            end_pattern=_END_OF_TABLE,
            integer_columns=INTEGER_COLUMNS,
        )

    def _run(self, header: RocprofHeader, line: Line) -> RocprofRun:
        run = self._runs[-1] if self._runs else None
        if run is None or (
            header.table in _SINGLE_TABLES
            and any(table.header.table == header.table and table.rows for table in run.tables)
        ):
            run = self._open_run(header, line.number)
        self.collector.resume_session(run.session)
        return run

    def _open_run(self, header: RocprofHeader, line: int) -> RocprofRun:
        pid = _PID.match(self._file)
        session = self.collector.open_session(header.format, line, pid=int(pid[1]) if pid else None)
        session.facts["tool"] = "rocprofv3" if header.format == V3 else "rocprof"
        self._runs.append(RocprofRun(session))
        return self._runs[-1]

    def move_to_new_run(self, table: RocprofTable, run: RocprofRun) -> RocprofRun:
        """Move a table to a new run."""
        run.tables.remove(table)
        new_run = self._open_run(table.header, table.line)
        new_run.tables.append(table)
        return new_run

    def finish(self) -> None:
        """Add the rows of all tables."""
        for run in self._runs:
            self.collector.resume_session(run.session)
            build_frames(run, self.collector)


ROCPROFV3_CSV: Final = TextFormat(FORMAT_V3, CUE, lambda collector: _RocprofReader(collector, FORMAT_V3.name))
"""The files of rocprofv3, for the list of text formats."""

ROCPROF_CSV: Final = TextFormat(FORMAT_V1, CUE, lambda collector: _RocprofReader(collector, FORMAT_V1.name))
"""The files of rocprof's first version (and rocprofv2), for the list of text formats."""


_V3_FILE: Final = re.compile(
    r"(?P<run>.*?)(?:^|_)(?P<table>counter_collection|agent_info|(?:domain|kernel|memory_copy|memory_allocation"
    r"|scratch_memory|(?:hip(?:_runtime|_compiler?)?|hsa(?:_core|_amd|_image|_finalizer)?|marker|rccl|roc[a-z]{1,20}"
    r"|ompt)(?:_api)?)_(?:trace|stats))\.csv(?P<packing>\.[a-z0-9]{1,4})?"
)
"""The names of rocprofv3's files: the process id or a name that the user chose, then the table."""
_V1_FILE: Final = re.compile(
    r"(?P<run>.+?)(?P<table>\.(?:[a-z]{1,20}_)?stats)?\.(?:csv|db|json)(?P<packing>\.[a-z0-9]{1,4})?"
)
"""The names of the files of rocprof's first version: a name that the user chose, then the table."""
_RECORDED_MARKERS: Final = ("name", "start_ns", "duration_ns", "pid", "tid", "line")


def run_of_table(profile: Profile) -> tuple[str, ...] | None:
    """Return what identifies the run of a file with one of its tables, from the names that rocprof gives them.

    Returns:
        Equal for the tables of a run; None if the profile is not such a file, or its name does not say.
    """
    if len(profile.sources) != 1 or profile["sessions"].height != 1:
        return None
    path, name = PurePosixPath(profile.sources[0]), profile["sessions"].item(0, "format")
    is_v3 = name == V3
    file = (_V3_FILE if is_v3 else _V1_FILE).fullmatch(path.name)
    if file is None or not (is_v3 or name in (V1, V1_DATABASE, V1_JSON)):
        return None
    if not is_v3 and not file["table"] and not _kernel_count(profile):
        return None
    return (str(path.parent), str(is_v3), file["run"], file["packing"] or "")


def _kernel_count(profile: Profile) -> int:
    return int((profile["activities"]["kind"] == "kernel").sum())


_EXPORTS: Final = ("rocpd", "rocprofv3-json", "perfetto")
"""Formats of rocprofv3 that have all that its tables have, the most complete first."""
_EXPORT_FILE: Final = re.compile(r"(?P<run>.*?)(?:^|_)results\.(?:db|json|pftrace)(?:\.[a-z0-9]{1,4})?")


def _run_of_export(profile: Profile) -> tuple[str, ...] | None:
    """Return what identifies the run of a file with all of it, equal to that of its tables; None for other files."""
    path = PurePosixPath(profile.sources[0]) if len(profile.sources) == 1 else PurePosixPath()
    file = _EXPORT_FILE.fullmatch(path.name)
    is_export = file is not None and profile["sessions"]["format"].is_in(_EXPORTS).all()
    return (str(path.parent), str(True), file["run"], "") if file is not None and is_export else None


def merge_rocprof_files(profiles: Sequence[Profile]) -> list[Profile]:
    """Merge the tables of a run, each in a file of its own, into one session; in the order of their first files.

    Tables of several processes under one name are not merged. Of several exports of a run (``-f rocpd csv json``), only
    the most complete one is kept.
    """
    files_by_run: dict[object, list[Profile]] = {}
    for profile in profiles:
        files_by_run.setdefault(_run_of_export(profile) or run_of_table(profile) or id(profile), []).append(profile)
    merged: list[Profile] = []
    for files in files_by_run.values():
        exports = [profile for profile in files if _run_of_export(profile) is not None]
        exports.sort(key=lambda profile: _EXPORTS.index(profile["sessions"].item(0, "format")))
        tables = _with_one_trace([profile for profile in files if _run_of_export(profile) is None])
        pids = {pid for table in tables for pid in table["sessions"]["pid"].drop_nulls()}
        runs = [*exports, *([_merge_run(tables)] if len(tables) > 1 and len(pids) < 2 else tables)]
        merged += _without_repeated(runs) if exports else runs
    return merged


def _with_one_trace(tables: Sequence[Profile]) -> Sequence[Profile]:
    """Return files of a run of the first version without its JSON, which repeats the database."""
    by_format = {table["sessions"].item(0, "format"): table for table in tables if table["sessions"].height == 1}
    if not {V1_DATABASE, V1_JSON} <= by_format.keys():
        return tables
    traces = [by_format[V1_DATABASE], by_format[V1_JSON]]
    return [*_without_repeated(traces), *(table for table in tables if not any(table is trace for trace in traces))]


def _without_repeated(exports: Sequence[Profile]) -> list[Profile]:
    """Return exports of a run without those that have the kernels of the first one, or none."""
    first, *others = exports
    kernels = _kernel_totals(first)
    is_repeated = [_kernel_totals(profile) in ((0, 0), kernels) for profile in others]
    kept = compress(others, map(operator.not_, is_repeated))
    return [with_other_formats(first, list(compress(others, is_repeated))), *kept]


def _kernel_totals(profile: Profile) -> tuple[int, int]:
    """Return the number of kernels, and their durations in all."""
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    return kernels.height, int(kernels["duration_ns"].sum())


def _merge_run(tables: Sequence[Profile]) -> Profile:
    """Return one session with the rows of all tables, linked as those of one text are.

    Kernels are those of one table: counters and databases repeat them. The session's source is its file.
    """
    with_kernels = [index for index, table in enumerate(tables) if _kernel_count(table)]
    main = min(
        with_kernels or range(len(tables)),
        key=lambda index: (tables[index]["api_calls"].is_empty(), tables[index]["metrics"].height > 0),
    )
    is_kernel = pl.col("kind") == "kernel"
    kept = [
        table
        if index == main
        else replace(table, frames={**table.frames, "activities": table["activities"].filter(~is_kernel)})
        for index, table in enumerate(tables)
    ]
    is_origin = pl.col("reason").str.extract(ORIGIN_REASON.replace("{}", "([0-9]+)")).cast(pl.Int64, strict=False)
    origins = pl.concat([table["issues"].select(is_origin.max()).to_series() for table in kept])
    run = merge_tables(kept, main, origins)
    collector = Collector(tables[main].sources[0])
    session = collector.open_session(run["sessions"].item(0, "format"), None)
    for name in ("summary", "metrics", "tool_figures"):
        collector.add_frame(name, run[name])
    collector.add_frame("devices", _numbered_devices(tables) if run["devices"].height else run["devices"])
    collector.add_frame("issues", run["issues"].filter(is_origin.is_null()))
    origin = origins.min()
    if isinstance(origin, int):
        collector.issue("info", None, "", ORIGIN_REASON.format(origin))
    markers = run["ranges"].select(_RECORDED_MARKERS)
    linked = link_run(
        run["activities"].drop("op", "op_join", "iteration"),
        run["api_calls"],
        markers if markers.height else None,
        session,
        collector,
        range_kind="roctx range",
    )
    collector.add_frames(linked)
    merged = collector.profile()
    source = pl.lit(merged["sessions"].item(0, "iteration_source"), pl.String).alias("iteration_source")
    return replace(run, frames={**merged.frames, "sessions": run["sessions"].with_columns(source)})


def _numbered_devices(tables: Sequence[Profile]) -> pl.DataFrame:
    """Return the GPUs with the numbers that the other tables use, which depend on how their first rows name a GPU."""
    lines = [
        line
        for table in tables
        for text in table.texts.values()
        for line in text.lines(1, text.line_count if table["devices"].height else 2)
    ]
    text = BytesIO("\n".join(lines).encode())
    return TextLogLoader((ROCPROFV3_CSV,)).load(InputFile.open("", stream=text))["devices"]
