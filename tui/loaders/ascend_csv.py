r"""Reads the CSV files of Ascend's profilers: ``ASCEND_PROFILER_OUTPUT/`` of torch_npu, and those of msprof.

Times are decimal microseconds since 1970, in quotes, followed by a tab (``"1736413971558972.912\t"``): too many digits
for a float, so they are parsed as two integers. Communication (HCCL) overlaps the kernels that it waits for; it becomes
ranges, so that sums over kernels stay meaningful.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector
from tui.loaders.raw_input import read_json
from tui.loaders.text.csv_table import CsvTable
from tui.loaders.text.section import CellValues, TextFormat, split_cells
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.names import short_name
from tui.model.schema import NAME, conform
from tui.text import map_distinct, number_in, plural, short_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tui.loaders.collector import Session, Value
    from tui.loaders.input_file import InputFile
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section
    from tui.model.profile import Profile


CSV_FORMAT: Final = Format(
    name="ascend-csv",
    title="Ascend CSV",
    recognized_by="a header with Name, Accelerator Core, Duration(us), or OP Type, Core Type, Total Time(us), "
    "in any order",
    feeds=("sessions", "activities", "ranges", "summary", "metrics", "memory_events", "tool_figures", "issues"),
    record_with="torch_npu.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.NPU], "
    "on_trace_ready=torch_npu.profiler.tensorboard_trace_handler('out'))",
)

NPU_TOOL: Final = "Ascend PyTorch Profiler"
MSPROF: Final = "Ascend msprof"
TRACE_TOOLS: Final = (NPU_TOOL, MSPROF)
"""The profilers whose traces the loader of PyTorch's traces reads."""
HCCL: Final = "HCCL"
"""Huawei's library of collective operations, and the domain of its ranges here."""

_KIBI, _MEBI = 1 << 10, 1 << 20
_GRAPH_ENGINE: Final = "cann::"
"""The beginning of names of ops that run in graphs: they have an allocator of their own."""
_TASK_TYPE: Final = "Task type: "
"""The beginning of the arguments of tasks, which other tables list with more facts."""
IS_KERNEL: Final = pl.col("kind") == "kernel"
IS_TASK: Final = pl.col("arguments").cast(pl.String).str.starts_with(_TASK_TYPE).fill_null(False)
"""Whether an activity is of task_time.csv, which repeats the kernels of kernel_details.csv and op_summary.csv."""
_COMPONENTS: Final = ("PTA+GE", "PTA", "MindSpore+GE", "MindSpore", "GE")
"""The components whose memory is shown: the first that the table has."""
_TIME: Final = r"^([0-9]{1,16})(?:\.([0-9]{1,12}))?$"
_NEVER_MATCHES: Final = re.compile(r"\x00")
"""Matches nothing: these files contain no program output."""


def _nanoseconds(cells: CellValues, column: str) -> pl.Series:
    """Return a column of decimal microseconds in nanoseconds; null if a cell is invalid."""
    digits = cells.text(column).str.strip_chars().str.extract_groups(_TIME).struct.unnest()
    seconds_part, fraction = digits.to_series(0), digits.to_series(1)
    nanoseconds = fraction.fill_null("").str.slice(0, 3).str.pad_end(3, "0").cast(pl.Int64, strict=False)
    return (1000 * seconds_part.cast(pl.Int64, strict=False) + nanoseconds).alias(column)


@dataclass(slots=True)
class _Rows:
    """The rows of all tables of a text, with times as in the file."""

    activities: list[pl.DataFrame] = field(default_factory=list)
    tasks: list[pl.DataFrame] = field(default_factory=list)
    ranges: list[pl.DataFrame] = field(default_factory=list)
    memory_records: list[pl.DataFrame] = field(default_factory=list)
    memory_of_ops: list[pl.DataFrame] = field(default_factory=list)
    call_levels: list[pl.DataFrame] = field(default_factory=list)


def _kernels(cells: CellValues, rows: _Rows, _collector: Collector) -> None:
    """Read kernel_details.csv and op_summary.csv: one row per kernel or collective operation."""
    core = cells.text(cells.first_column("Accelerator Core", "Task Type", "Accelerator Core Type"))
    kind = cells.text(cells.first_column("Type", "OP Type"))
    name = cells.name(cells.first_column("Name", "Op Name"))
    frame = pl.DataFrame(
        {
            "name": name,
            "short_name": map_distinct(name, short_name, NAME),
            "start_ns": _nanoseconds(
                cells, cells.first_column("Start Time(us)", "Task Start Time(us)", "Task Start Time")
            ),
            "duration_ns": _nanoseconds(cells, cells.first_column("Duration(us)", "Task Duration(us)")),
            "device": cells.integer("Device_id", pl.Int32()),
            "stream": cells.integer("Stream ID"),
            "grid_x": cells.integer(cells.first_column("Block Dim", "Block Num"), pl.Int32()),
            "iteration": cells.integer("Step Id", pl.Int32()),
            "type": kind,
            "core": core,
            "input_shapes": cells.text("Input Shapes"),
            "line": cells.line,
        }
    )
    # Without the column of cores, the names of Huawei's library tell.
    by_name = pl.col("type").str.starts_with("hcom_") | pl.col("name").cast(pl.String).str.starts_with("hcom_")
    is_collective = pl.coalesce(pl.col("core").str.contains("(?i)hccl|communication"), by_name).fill_null(False)
    rows.ranges.append(
        frame.filter(is_collective).select(
            "name", pl.lit(HCCL, NAME).alias("domain"), "start_ns", "duration_ns", "line"
        )
    )
    rows.activities.append(
        frame.filter(~is_collective).select(
            pl.lit("kernel", NAME).alias("kind"),
            *("name", "short_name", "start_ns", "duration_ns", "device", "stream", "grid_x", "iteration"),
            pl.concat_str(
                pl.format("Type: {}", "type"),
                pl.format("Core: {}", "core"),
                pl.format("Input shapes: {}", "input_shapes"),
                separator="; ",
                ignore_nulls=True,
            )
            .cast(NAME)
            .alias("arguments"),
            "line",
        )
    )


def _tasks(cells: CellValues, rows: _Rows, _collector: Collector) -> None:
    """Read task_time.csv: one row per task of the device; events, waits and other tasks without work have no kind."""
    kind = cells.text("kernel_type")
    name = cells.text("kernel_name").replace("N/A", None).fill_null(kind)
    frame = pl.DataFrame(
        {
            "kind": map_distinct(kind, kind_of_task, NAME),
            "name": name.cast(NAME),
            "short_name": map_distinct(name, short_name, NAME),
            "start_ns": _nanoseconds(cells, "task_start(us)"),
            "duration_ns": _nanoseconds(cells, "task_time(us)"),
            "device": cells.integer("Device_id", pl.Int32()),
            "stream": cells.integer("stream_id"),
            "arguments": pl.select(pl.format(_TASK_TYPE + "{}", pl.lit(kind))).to_series().cast(NAME),
            "line": cells.line,
        }
    )
    rows.tasks.append(frame)


def _work_of_tasks(tasks: pl.DataFrame, collector: Collector) -> pl.DataFrame:
    """Return the tasks that are kernels or copies, and report the others."""
    is_work = pl.col("kind").is_not_null()
    if (skipped := tasks.filter(~is_work)).height:
        reason = f"{plural(skipped.height, 'task')} skipped: not kernels or copies"
        collector.issue("info", int(skipped["line"][0]), str(skipped["name"][0]), reason)
    return tasks.filter(is_work)


def kind_of_task(task_type: str) -> str | None:
    """Return the kind of activity that a type of task is; None for events, waits and other tasks without work."""
    if re.search("MEMCPY|SDMA|PCIE_DMA", task_type):
        return "memcpy"
    return "kernel" if re.match("(?:KERNEL_)?(?:MIX_)?AI_?(?:C|V|CORE|CPU|VECTOR_CORE|VEC)$|FFTS", task_type) else None


def _op_statistic(cells: CellValues, _rows: _Rows, collector: Collector) -> None:
    """Read op_statistic.csv: sums by type of op and core, without communication."""
    collector.add_frame("summary", _summary(cells, "gpu", cells.name("OP Type"), "Total Time(us)", " Time(us)"))


def _api_statistic(cells: CellValues, rows: _Rows, collector: Collector) -> None:
    """Read api_statistic.csv: sums by API call."""
    rows.call_levels.append(pl.DataFrame({"level": cells.text("Level"), "line": cells.line}).drop_nulls())
    collector.add_frame("summary", _summary(cells, "api", cells.name("API Name"), "Time(us)", "(us)"))


def _report_levels(calls: pl.DataFrame, collector: Collector) -> None:
    """Report that the times of calls overlap, if they are of several levels."""
    levels = calls["level"].unique().sort().to_list()
    if len(levels) > 1:
        names = short_list(levels)
        reason = f"calls of one level contain calls of others, so their times overlap (levels {names})"
        collector.issue("info", int(calls["line"][0]) - 1, "", reason)


def _communication_statistic(cells: CellValues, _rows: _Rows, collector: Collector) -> None:
    """Read communication_statistic.csv: sums by type of collective operation."""
    collector.add_frame("summary", _summary(cells, "nvtx", cells.name("OP Type"), "Total Time(us)", " Time(us)"))


def _summary(cells: CellValues, section: str, name: pl.Series, total: str, suffix: str) -> pl.DataFrame:
    times = {"total_ns": total, "avg_ns": f"Avg{suffix}", "min_ns": f"Min{suffix}", "max_ns": f"Max{suffix}"}
    return pl.DataFrame(
        {
            "name": name,
            "calls": cells.integer("Count"),
            **{target: _nanoseconds(cells, column) for target, column in times.items()},
            "time_pct": cells.number("Ratio(%)"),
            "line": cells.line,
        }
    ).with_columns(pl.lit(section, NAME).alias("section"), pl.lit(False).alias("repaired"))


def _operator_details(cells: CellValues, _rows: _Rows, collector: Collector) -> None:
    """Read operator_details.csv: calls of ops of the framework, with their times on the CPU and on the device."""
    times = {
        "total_ns": "Host Total Duration(us)",
        "cpu_self_ns": "Host Self Duration(us)",
        "gpu_total_ns": "Device Total Duration(us)",
        "gpu_self_ns": "Device Self Duration(us)",
    }
    frame = pl.DataFrame(
        {
            "name": cells.name("Name"),
            **{target: _nanoseconds(cells, column) for target, column in times.items()},
            "input_shapes": cells.text("Input Shapes"),
            "stack": cells.text("Call Stack").str.replace_all(r";?\r?\n", ";"),
            "line": cells.line,
        }
    ).with_columns(
        pl.lit("op", NAME).alias("section"), pl.lit(1, pl.Int64).alias("calls"), pl.lit(False).alias("repaired")
    )
    collector.add_frame("summary", frame)
    if frame["name"].cast(pl.String).str.starts_with("aten::").any():
        _set_pytorch(collector)


def _set_pytorch(collector: Collector) -> None:
    """Note that PyTorch ran it: other frameworks write tables of the same names."""
    assert collector.session is not None, "rows need a session"
    collector.session.facts["framework"] = "PyTorch"


def _device_column(cells: CellValues) -> pl.Series:
    return number_in(cells.text(cells.first_column("Device Type", "Device")), "NPU:([0-9]{1,4})$", dtype=pl.Int32)


def _size(cells: CellValues, title: str) -> pl.Series:
    """Return a column of sizes: torch_npu writes MB, msprof KB."""
    return cells.scale(f"{title}(KB)", _KIBI) if f"{title}(KB)" in cells else cells.scale(f"{title}(MB)", _MEBI)


def _memory_record(cells: CellValues, rows: _Rows, collector: Collector) -> None:
    """Read memory_record.csv: allocated and reserved memory over time, by component."""
    frame = pl.DataFrame(
        {
            "component": cells.text("Component"),
            "device": _device_column(cells),
            "start_ns": _nanoseconds(cells, "Timestamp(us)"),
            "allocated_bytes": _size(cells, "Total Allocated"),
            "reserved_bytes": _size(cells, "Total Reserved"),
            "line": cells.line,
        }
    ).filter(pl.col("component").is_in(_COMPONENTS), pl.col("allocated_bytes").is_not_null())
    if frame["component"].str.starts_with("PTA").any():
        _set_pytorch(collector)  # PTA is its adapter
    rows.memory_records.append(frame)


def _changes_of_records(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records of the first of `_COMPONENTS` that has any, with the changes between them."""
    components = set(records["component"])
    shown = next(component for component in _COMPONENTS if component in components)
    chosen = records.filter(pl.col("component") == shown).sort("start_ns", maintain_order=True)
    return chosen.with_columns(memory_change()).drop("component")


def memory_change() -> pl.Expr:
    """Return the change of allocated memory since the record before; that of the first record is unknown."""
    return pl.col("allocated_bytes").diff().over("device").alias("delta_bytes")


def memory_timeline(events: pl.DataFrame) -> pl.DataFrame:
    """Return the records of all memory if there are any, otherwise the memory of ops: both have the same changes."""
    totals = events.filter(pl.col("size_bytes").is_null())
    return totals if totals.height else events


def _operator_memory(cells: CellValues, rows: _Rows, _collector: Collector) -> None:
    """Read operator_memory.csv: when each op's memory was allocated and released."""
    size = cells.scale("Size(KB)", _KIBI)
    allocated_at = _nanoseconds(cells, "Allocation Time(us)")
    released_at = (
        _nanoseconds(cells, "Release Time(us)")
        if "Release Time(us)" in cells
        else allocated_at + _nanoseconds(cells, "Duration(us)")
    )
    for phase, sign, start_ns in (("Allocation", 1, allocated_at), ("Release", -1, released_at)):
        frame = pl.DataFrame(
            {
                "is_of_graph": cells.text("Name").str.starts_with(_GRAPH_ENGINE).fill_null(False),
                "device": _device_column(cells),
                "start_ns": start_ns,
                "delta_bytes": sign * size,
                "size_bytes": size,
                "allocated_bytes": _size(cells, f"{phase} Total Allocated"),
                "reserved_bytes": _size(cells, f"{phase} Total Reserved"),
                "line": cells.line,
            }
        )
        rows.memory_of_ops.append(frame.drop_nulls(["start_ns", "size_bytes"]))


def _memory_of_framework(events: pl.DataFrame, collector: Collector) -> pl.DataFrame:
    """Return the memory of the framework's ops; that of ops in graphs if there is no other."""
    is_of_graph = events["is_of_graph"]
    events = events.drop("is_of_graph")
    if not is_of_graph.any() or is_of_graph.all():
        return events
    allocations = int((is_of_graph & (events["delta_bytes"] > 0)).sum())
    reason = "skipped: its totals are not those of the framework"
    skipped = f"{plural(allocations, 'allocation')} of the graph engine ({_GRAPH_ENGINE})"
    collector.issue("info", None, "", f"{skipped} {reason}")
    return events.filter(~is_of_graph)


def _memory_events(rows: _Rows, collector: Collector) -> pl.DataFrame | None:
    """Return the memory events of both kinds of tables; None without any."""
    records, of_ops = map(_concat_or_none, (rows.memory_records, rows.memory_of_ops))
    events = [] if records is None else [_changes_of_records(records)]
    events += [] if of_ops is None else [_memory_of_framework(of_ops, collector)]
    return _concat_or_none(events)


def _step_trace(cells: CellValues, _rows: _Rows, collector: Collector) -> None:
    """Read step_trace_time.csv: the breakdown of each step's time, as computed by the tool."""
    time_columns = [
        column for column in cells.cells.columns if column not in ("Step", "Type", "Index", "Device_id", "line")
    ]
    # In a file of a cluster each row is of a rank or a stage, and of all steps if no step is named.
    step, kind, number = (pl.lit(cells.text(column)) for column in ("Step", "Type", "Index"))
    label_columns = (pl.format("step {}", step), pl.format("{} {}", kind, number))
    rows = pl.select(pl.concat_str(label_columns, separator=", ", ignore_nulls=True)).to_series()
    for part in time_columns:
        _add_step_figures(cells, part, rows, collector)


def _iteration_trace(cells: CellValues, _rows: _Rows, collector: Collector) -> None:
    """Read step_trace.csv of msprof: the times of each iteration, as computed by the tool."""
    iteration = pl.lit(cells.text("Iteration ID"))
    model = pl.format("model {}", pl.lit(cells.text("Model ID")))
    labels = pl.concat_str(pl.format("iteration {}", iteration), model, separator=", ", ignore_nulls=True)
    for part in ("Iteration Time", "FP to BP Time", "Iteration Refresh", "Data Aug Bound"):
        _add_step_figures(cells, f"{part}(us)", pl.select(labels).to_series(), collector)


def _add_step_figures(cells: CellValues, part: str, rows: pl.Series, collector: Collector) -> None:
    """Add a column of times, in microseconds, of the steps named in ``rows``."""
    title = part.strip().removesuffix("(us)")
    frame = pl.DataFrame(
        {
            "name": pl.select(pl.format("{}: {}", pl.lit(rows), pl.lit(title))).to_series(),
            "value": cells.scale(part, 1000).cast(pl.Float64),
            "line": cells.line,
        }
    ).filter(pl.col("value").is_not_null())
    collector.add_frame(
        "tool_figures",
        frame.with_columns(
            pl.lit("Ascend").alias("tool"), pl.lit("Step trace").alias("section"), pl.lit("ns").alias("unit")
        ),
    )


def _l2_cache(cells: CellValues, _rows: _Rows, collector: Collector) -> None:
    """Read l2_cache.csv: the L2 cache hit rate of each kernel."""
    for column in ("Hit Rate", "Victim Rate"):
        value = cells.number(column)
        collector.add_frame(
            "metrics",
            pl.DataFrame(
                {
                    "kernel": cells.name("Op Name"),
                    "invocations": pl.repeat(1, len(value), dtype=pl.Int64, eager=True),
                    "metric": pl.repeat(f"L2 {column}", len(value), dtype=NAME, eager=True),
                    **dict.fromkeys(("min", "max", "avg"), value),
                    "line": cells.line,
                }
            ).filter(pl.col("avg").is_not_null()),
        )


@dataclass(frozen=True, slots=True)
class _Title:
    """What a header of a table has, in any order."""

    required: frozenset[str]
    any_of: frozenset[str]
    """At least one of these, which only Ascend's tools write in such a table."""
    take: Callable[[CellValues, _Rows, Collector], None]

    def matches(self, columns: frozenset[str]) -> bool:
        return self.required <= columns and not self.any_of.isdisjoint(columns)


_CALL_COLUMNS: Final = frozenset(("Process ID", "Thread ID"))
"""Columns of calls on the host, which have a name, a type and times like kernels."""
_KERNEL_COLUMNS: Final = frozenset(
    (
        *("Accelerator Core", "Accelerator Core Type", "OP State", "HF32 Eligible", "Wait Time(us)", "Start Time(us)"),
        *("Block Dim", "Block Num", "Mix Block Dim", "Mix Block Num", "Step Id", "Task ID", "Stream ID"),
        *("Input Formats", "aicore_time(us)", "cube_utilization(%)"),
    )
)
_TABLES: Final = tuple(
    _Title(frozenset(needed), frozenset(any_of), take)
    for needed, any_of, take in (
        (("Name", "Duration(us)"), _KERNEL_COLUMNS, _kernels),
        (("Op Name", "Task Duration(us)"), ("Task Duration(us)",), _kernels),
        (("kernel_name", "task_time(us)"), ("kernel_type",), _tasks),
        (("OP Type", "Total Time(us)"), ("Core Type",), _op_statistic),
        (("OP Type", "Count", "Total Time(us)", "Avg Time(us)"), ("Ratio(%)",), _communication_statistic),
        (("API Name", "Time(us)"), ("API Name",), _api_statistic),
        (("Name", "Host Self Duration(us)"), ("Host Self Duration(us)",), _operator_details),
        (("Component", "Timestamp(us)"), ("Total Allocated(MB)", "Total Allocated(KB)"), _memory_record),
        (("Size(KB)", "Allocation Time(us)"), ("Allocation Time(us)",), _operator_memory),
        (("Computing", "Free"), ("Communication(Not Overlapped)", "Communication", "Overlapped"), _step_trace),
        (("Iteration ID", "Iteration Time(us)"), ("FP to BP Time(us)",), _iteration_trace),
        (("Op Name",), ("Hit Rate", "Victim Rate"), _l2_cache),
    )
)


_FIRST_TITLES: Final = (
    *("Step Id", "Device_id", "Model ID", "Model Name", "Op Name", "OP Type", "Level", "Name", "Component", "Step"),
    *("Stream Id", "Task Id", "kernel_name", "Iteration ID"),
)
"""The first columns of tables as Ascend's tools write them: the next table in a text begins with one of these."""


class _Sink:
    """Passes the rows of one table to its function."""

    def __init__(self, reader: _AscendCsvReader, take: Callable[[CellValues, _Rows, Collector], None]) -> None:
        self._reader = reader
        self._take = take

    def add(self, cells: pl.DataFrame) -> None:
        # A pasted table may be indented.
        cells = cells.with_columns(pl.first().str.strip_chars())
        self._take(CellValues(cells, self._reader.collector), self._reader.rows, self._reader.collector)

    def damaged(self, line: Line, reason: str) -> None:
        self._reader.collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        """Keep rows with times until all tables are read."""


class _AscendCsvReader:
    """Reads Ascend's tables in one text."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.rows = _Rows()
        self._session: Session | None = None

    def begin(self, line: Line) -> Section | bool:
        """Begin a table if the line is a header."""
        separator = "\t" if line.text.count("\t") > line.text.count(",") else ","
        columns = [cell.strip() for cell in split_cells(line.text, separator)]
        titles = frozenset(columns)
        take = next((table.take for table in _TABLES if table.matches(titles)), None)
        if take is None or (take is _kernels and not _CALL_COLUMNS.isdisjoint(titles)):
            return False
        if self._session is None:
            self._session = self.collector.open_session(CSV_FORMAT.name, line.number)
            self._session.facts["tool"] = "Ascend"
        self.collector.resume_session(self._session)
        return CsvTable(
            columns,
            _Sink(self, take),
            separator=separator,
            header=re.compile("|".join(map(re.escape, (columns[0], *_FIRST_TITLES)))),
            end_pattern=_NEVER_MATCHES,
        )

    def finish(self) -> None:
        """Add all rows, with times counted from the first one."""
        if self._session is None:
            return
        self.collector.resume_session(self._session)
        rows = self.rows
        if (calls := _concat_or_none(rows.call_levels)) is not None:
            _report_levels(calls, self.collector)
        kernels, tasks, ranges = map(_concat_or_none, (rows.activities, rows.tasks, rows.ranges))
        if tasks is not None:
            tasks = _work_of_tasks(tasks, self.collector)
            tasks = tasks if kernels is None else tasks.filter(~IS_KERNEL)
        activities = _concat_or_none([frame for frame in (kernels, tasks) if frame is not None])
        memory = _memory_events(rows, self.collector)
        starts = [frame["start_ns"].min() for frame in (activities, ranges, memory) if frame is not None]
        zero = min((start for start in starts if isinstance(start, int)), default=None)
        if zero is None:
            if activities is not None:  # older tables have durations alone
                self.collector.add_frame("activities", activities)
            placed = sum(frame.height for frame in (ranges, memory) if frame is not None)
            if placed:
                skipped = plural(
                    placed, "collective operation or memory event", "collective operations and memory events"
                )
                reason = f"the times of this table are unreadable: {skipped} skipped"
                self.collector.issue("warning", self._session.first_line, "", reason)
            return
        self._session.facts["origin_ns"] = zero
        self.collector.resolution(1)
        if kernels is not None and kernels["iteration"].null_count() < kernels.height:
            self._session.facts["iteration_source"] = "the file's Step Id"
        relative_start = (pl.col("start_ns") - zero).alias("start_ns")
        if activities is not None:
            self.collector.add_frame("activities", activities.with_columns(relative_start))
        if ranges is not None:
            self.collector.add_frame("ranges", ranges.with_columns(relative_start, pl.lit(0, pl.Int32).alias("depth")))
            reason = (
                f"collective operations ({ranges.height:,}) overlap the kernels: shown as {HCCL} ranges, not kernels"
            )
            self.collector.issue("info", None, "", reason)
        if memory is not None:
            events = memory.with_columns(relative_start, pl.lit("GPU", NAME).alias("place")).sort(
                "start_ns", maintain_order=True
            )
            self.collector.add_frame("memory_events", memory_timeline(conform("memory_events", events)))


def _concat_or_none(frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    rows = [frame for frame in frames if frame.height]
    return pl.concat(rows, how="diagonal") if rows else None


ASCEND_CSV: Final = TextFormat(
    CSV_FORMAT,
    (
        # In any order, between commas or tabs, and a spreadsheet may have put quotation marks around titles.
        rb"(?:Accelerator Core|Accelerator Core Type|Duration\(us\)|Core Type|API Name|Total Allocated\([MK]B\)"
        rb"|Allocation Time\(us\)|Computing|Hit Rate|Victim Rate|task_time\(us\)|Total Time\(us\)"
        rb"|Iteration Time\(us\))\"? ?(?:[,\t]|$)"
    ),
    _AscendCsvReader,
)
"""The format, for the list of text formats."""


COMMUNICATION_FORMAT: Final = Format(
    name="ascend-communication",
    title="Ascend communication.json",
    recognized_by='JSON of operations with "Communication Time Info", mostly by step, then "p2p" and "collective"',
    feeds=("sessions", "ranges", "tool_figures", "issues"),
    record_with="torch_npu.profiler.profile(...) in a multi-rank run",
)

_HEAD: Final = re.compile(
    rb'\s*\{\s*(?:"[^"]{1,40}"\s*:\s*\{\s*"(?:p2p|collective)"|"[^"]{1,200}"\s*:\s*\{\s*"Communication Time Info")\s*:'
)
"""By steps, or without them, as ``msprof --analyze`` writes it."""
_INFO: Final = "Communication Time Info"
_TIME_PARTS: Final = ("Transit Time(ms)", "Wait Time(ms)", "Synchronization Time(ms)", "Idle Time(ms)")
_LARGEST: Final = 1 << 53


class AscendCommunicationLoader:
    """Reads the times of collective operations."""

    formats: Final = (COMMUNICATION_FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return 0.9 for a file with the first two keys and the name of the times, else 0."""
        return 0.9 if _HEAD.match(head) and _INFO.encode() in head else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the times.

        Raises:
            ProftuiError: It is not JSON, or no operation in it has a time.
        """
        source.set_on_progress(on_progress)
        operations = list(_operations(read_json(source)))
        starts = [start for start, _, _ in operations]
        if not operations:
            raise ProftuiError(
                f"{source.display_name}: no profile found: every collective operation lacks a time", FORMATS_HINT
            )
        collector = Collector(source.name)
        session = collector.open_session(COMMUNICATION_FORMAT.name, None)
        session.facts.update(tool="Ascend", origin_ns=min(starts))
        sums: dict[str, list[int | None]] = {kind: [] for kind in _TIME_PARTS}
        for start, name, info in operations:
            row: dict[str, Value] = {
                "name": name,
                "domain": HCCL,
                "start_ns": start - min(starts),
                "duration_ns": _number(info, "Elapse Time(ms)", 1_000_000),
                "depth": 0,
            }
            collector.add("ranges", row)
            for kind in _TIME_PARTS:
                sums[kind].append(_number(info, kind, 1_000_000))
        for kind, times in sums.items():
            known = [time for time in times if time is not None]
            value = float(sum(known)) if len(known) == len(times) else None
            figure: dict[str, Value] = {"tool": "Ascend", "section": "Communication", "unit": "ns", "value": value}
            collector.add("tool_figures", {**figure, "name": kind.removesuffix("(ms)")})
        collector.add_issues(source.notes)
        return collector.profile()


def _operations(document: Any) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield start in nanoseconds, name and figures of each operation, without sums over all of them."""
    for kind in (document, *(kind for step in _values(document) for kind in _values(step))):
        for name, operation in kind.items() if isinstance(kind, dict) else ():
            info = operation.get(_INFO) if isinstance(operation, dict) else None
            start = _number(info, "Start Timestamp(us)", 1000) if isinstance(info, dict) else None
            if isinstance(info, dict) and start:
                yield start, str(name).partition("@")[0], info


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _number(info: dict[str, Any], key: str, factor: int) -> int | None:
    value = info.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LARGEST:
        return None
    # As a decimal: a float would lose digits of times since 1970.
    return int((Decimal(str(value)) * factor).to_integral_value())
