"""Reads what Intel's unitrace writes: text, and traces as JSON (``--chrome-kernel-logging`` and others).

The text holds times of kernels and API calls, kernel properties and metrics, a device timeline. The predecessors
onetrace, ze_tracer and cl_tracer print the same tables below other titles. One run prints several of these, which
belong to one session. Rows are split from the right, since names hold commas:
``"f<int, 4>[SIMD16 {56; 1; 1} {64; 8; 1}]", 1, 4706560, ...`` (before 2025 without the quotes).

In a trace, each device of a process is a process of its own, named ``DEVICE<host>0:4d:0:0 #0``, and each engine a
thread. The names follow all events. A flow leads from the start of a call to each kernel that it submits.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector, fit_to_model, link_run
from tui.loaders.text.section import MAX_STRAY_LINES, TextFormat
from tui.model.errors import ProftuiError
from tui.model.names import copy_kind, short_name

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.collector import Session, Value
    from tui.loaders.input_file import InputFile
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="unitrace",
    title="Intel unitrace",
    recognized_by="'=== Device Timing Summary ===', '=== API Timing Summary ===', or lines 'Thread … Device … [ns]'",
    feeds=("sessions", "activities", "summary", "metrics", "issues"),
    record_with="unitrace -d -h -t ./app 2> run.log",
)

_MAX_ROW_LENGTH: Final = 20_000
"""The longest row in characters."""

_TITLE: Final = re.compile(
    r"\s*={2,3} (?:(?P<timing>Device|API) Timing (?:Summary|Results:)"
    r"|(?P<submission>Kernel Submission) (?:Summary|Results:)|(?P<properties>Kernel Properties)"
    r"|(?P<metrics>Kernel Metrics|Device #(?P<device>[0-9]{1,4}) Metrics)) ={2,3}\s*"
)
_BACKEND: Final = re.compile(r"\s*== (?:[\w ]{1,40}? Backend|Backend [\w ]{1,40}?):? ==\s*")
_TOTAL: Final = re.compile(r"\s*Total (?P<what>[\w ]{1,60}) \(ns\):\s+(?P<ns>[0-9]{1,19})\s*")
_HEADER: Final = re.compile(r"\s*(?P<of>Kernel|Function)\s*,(?P<columns>.+)")
_COLUMNS: Final = {
    "Calls": "calls",
    "Time(ns)": "total_ns",
    "Execute(ns)": "total_ns",
    "Time(%)": "time_pct",
    "Execute(%)": "time_pct",
    "Average(ns)": "avg_ns",
    "Min(ns)": "min_ns",
    "Max(ns)": "max_ns",
}
"""Columns of a table of times in ``summary``, by their title without blanks."""
_SUBMISSION: Final = {"Append(ns)": "append time", "Submit(ns)": "submit time", "Execute(ns)": "execution time"}
_HANDLE: Final = r"(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,19})"
_TIMELINE_PLACE: Final = (
    rf"\s*(?:<PID:[0-9]{{1,9}}> )?"
    rf"(?:Thread [0-9]{{1,19}} Device (?P<device>{_HANDLE}[^:]{{0,40}}?) : "
    rf"|Device Timeline \(queue: (?P<queue>{_HANDLE})\): )"
)
_TIMELINE_START: Final = re.compile(_TIMELINE_PLACE)
_TIMELINE: Final = re.compile(
    _TIMELINE_PLACE + r'(?P<name>"?.+?"?) \[ns\] (?:= )?'
    r"(?P<append>[0-9]{1,19}) \((?:append|queued)\) (?P<submit>[0-9]{1,19}) \(submit\) "
    r"(?P<start>[0-9]{1,19}) \(start\) (?P<end>[0-9]{1,19}) \(end\)\s*"
)
"""unitrace names thread and device, which may be a part of one (a tile); its predecessors the queue."""
_LAUNCH_NUMBER: Final = re.compile(r"(?:<[0-9]+(?:\.[0-9]+)?>|\([0-9]+(?:\.[0-9]+)?\))$")
"""What the predecessors put behind the name of a kernel in the timeline: a number for each launch."""
_LAUNCHED: Final = re.compile(
    r"(?P<name>.+)\[SIMD[0-9]{1,4},? \{(?P<grid>[0-9;, ]{5,60})\},? \{(?P<block>[0-9;, ]{5,60})\}\]"
)
_COPIED: Final = re.compile(
    r"(?P<name>(?:zeCommandListAppendMemoryCopy|zeCommandListAppendMemoryFill|clEnqueue\w*(?:Buffer|Copy|Fill)\w*)[^\[]*)"
    r"(?:\[(?P<bytes>[0-9]{1,18})(?: bytes)?\])?"
)
_UNIT: Final = re.compile(r"(?P<name>[^\[]+)(?:\[(?P<unit>[^\]]*)\])?")
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?")


_OTHER_TABLE: Final = re.compile(
    r"\s*-{2,}(?:\s+-{2,})+\s*|(?:.*\s)?Name(?:\s{2,}|\t)\S.*|[A-Za-z][^,]{0,60}(?:,[A-Za-z][^,]{0,60}){3,}"
)
"""The header of a table of another tool: titles between commas, or those of PyTorch below a line of dashes."""

_NO_METRICS: Final = frozenset({"", "Device", "SubDeviceId", "SubDevice", "GlobalInstanceId", "IP[Address]"})
"""Columns of a table of metrics that are none."""


def _unquoted(name: str) -> str:
    """Return a name without its quotes."""
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]{1,18}", text)]


def _kind(name: str) -> str:
    if _COPIED.fullmatch(name):
        return "memset" if "Fill" in name else "memcpy"
    return "kernel"


def _columns(header: re.Match[str]) -> list[str]:
    """Return the titles after the name."""
    return [column.strip() for column in header["columns"].split(",")]


def _has_times(columns: list[str]) -> bool:
    """Return whether these are columns of a table of times."""
    titles = {column.replace(" ", "") for column in columns}
    return columns[0] == "Calls" and any(_COLUMNS.get(title) == "total_ns" for title in titles)


class _Table:
    """A part of unitrace's output, from its title to the next one."""

    def __init__(self, title: Line, match: re.Match[str], reader: _UnitraceReader) -> None:
        self._title = title
        self._reader = reader
        self._columns: list[str] = []
        if match.re is _TITLE:
            self._kind = match.lastgroup
            self._is_gpu = match["timing"] != "API"
            self._device = match["device"]
        else:
            self._columns = _columns(match)
            self._kind = "submission" if any(title.startswith("Append") for title in self._columns) else "timing"
            self._is_gpu = match["of"] == "Kernel"
            self._device = None
        self._totals: list[int] = []
        self._times: list[int] = []
        self._measured: dict[tuple[str, str, str | None], list[float]] = {}
        self._last_line = title.number
        self._stray = 0

    def take(self, line: Line) -> bool:
        """Read a total, a header, a row, or a line of the program in between."""
        text = line.text
        if len(text) > _MAX_ROW_LENGTH or _TITLE.fullmatch(text) or _TIMELINE.fullmatch(text):
            return False
        if total := _TOTAL.fullmatch(text):
            if total["what"] != "Execution Time" and total["what"] != "Total Execution Time":
                self._totals.append(int(total["ns"]))
            return True
        if not text.strip() or _BACKEND.fullmatch(text):
            return True
        if header := _HEADER.fullmatch(text):
            columns = _columns(header)
            if self._columns and _has_times(columns) and not self._continues(header):
                return False
            if self._kind in ("properties", "metrics") or "Calls" in columns:
                self._columns = columns
                return True
        if self._row(line):
            self._last_line, self._stray = line.number, 0
            return True
        self._stray += 1
        return bool(self._columns) and self._stray <= MAX_STRAY_LINES and not _OTHER_TABLE.fullmatch(text)

    def _continues(self, header: re.Match[str]) -> bool:
        """Return whether a header of times is that of another backend in this table, rather than of a next table."""
        return self._kind not in ("properties", "metrics") and self._is_gpu == (header["of"] == "Kernel")

    def _row(self, line: Line) -> bool:
        cells = line.text.rsplit(",", len(self._columns))
        if len(cells) != len(self._columns) + 1 or not self._columns:
            return False
        values = dict(zip(self._columns, map(str.strip, cells[1:]), strict=True))
        name = _unquoted(cells[0].strip())
        if self._kind in ("properties", "metrics"):
            if not any(_NUMBER.fullmatch(value) for value in values.values()):
                return False
            self._measure(name, values)
            return True
        figures = {title.replace(" ", ""): value for title, value in values.items() if title}
        if not name or not all(_NUMBER.fullmatch(value) for value in figures.values()):
            return False
        row: dict[str, Value] = {"name": name, "repaired": False, "line": line.number}
        row |= {_COLUMNS[title]: _figure(title, value) for title, value in figures.items() if title in _COLUMNS}
        if isinstance(total := row.get("total_ns"), int):
            self._times.append(total)
        if self._kind == "submission":
            self._reader.submitted.append({"section": "gpu", **row})
            self._submission(name, figures, line)
        else:
            self._reader.collector.add("summary", {"section": "gpu" if self._is_gpu else "api", **row})
            self._reader.has_gpu_times |= self._is_gpu
        return True

    def _submission(self, kernel: str, figures: dict[str, str], line: Line) -> None:
        calls = _int(figures.get("Calls", ""))
        for title, metric in _SUBMISSION.items():
            if title in figures:
                total = float(figures[title])
                row: dict[str, Value] = {"kernel": kernel, "metric": metric, "unit": "ns", "invocations": calls}
                average = total / calls if calls else None
                self._reader.collector.add("metrics", {**row, "avg": average, "total": total, "line": line.number})

    def _measure(self, kernel: str, values: dict[str, str]) -> None:
        """Add the values of one row to those of its kernel."""
        device = values.get("Device", self._device)
        for title, text in values.items():
            if title not in _NO_METRICS and _NUMBER.fullmatch(text):
                key = (kernel, title, device)
                value, (count, minimum, maximum, total) = (
                    float(text),
                    self._measured.get(key, (0, math.inf, -math.inf, 0)),
                )
                self._measured[key] = [count + 1, min(minimum, value), max(maximum, value), total + value]

    def close(self) -> None:
        """Add the measured values, and compare the rows with the totals above them."""
        for (kernel, title, device), (count, minimum, maximum, total) in self._measured.items():
            metric = _UNIT.fullmatch(title)
            unit = metric["unit"] if metric else None
            row: dict[str, Value] = {
                "device": device,
                "kernel": kernel,
                "invocations": int(count),
                "metric": metric["name"] if metric else title,
                "unit": "%" if unit == "%" else None,
                **{"min": minimum, "max": maximum, "avg": total / count},
                "line": self._title.number,
            }
            self._reader.collector.add("metrics", row)
        if self._times and sum(self._times) < sum(self._totals):
            reason = f"the rows add up to {sum(self._times)} ns, less than the printed {sum(self._totals)} ns: "
            self._reader.collector.issue("warning", self._last_line, "", f"{reason}rows may be missing")


class _Timeline:
    """Consecutive lines of the timeline."""

    def __init__(self, reader: _UnitraceReader) -> None:
        self._reader = reader

    def take(self, line: Line) -> bool:
        """Read a line of the timeline."""
        return self._reader.take_timeline(line)

    def close(self) -> None:
        """Do nothing: lines are read one by one."""


def _figure(title: str, value: str) -> Value:
    if title.endswith("(%)"):
        return float(value)
    return _int(value)


def _int(value: str) -> int | None:
    return int(value) if re.fullmatch("[0-9]+", value) else None


class _UnitraceReader:
    """Reads unitrace's lines in one text."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.submitted: list[dict[str, Value]] = []
        """Rows of times of submission, for runs without a table of kernels."""
        self.has_gpu_times = False
        """Whether the session has a table of kernels."""
        self._session: Session | None = None
        self._titles: set[str] = set()
        self._devices: dict[str, int] = {}
        self._queues: dict[str, int] = {}
        self._zero: int | None = None
        self._launches: dict[str, dict[str, Value]] = {}
        """What the names in the timeline tell."""

    def begin(self, line: Line) -> Section | bool:
        """Open the table that a title, or its header alone, begins, or the timeline."""
        if self.take_timeline(line):
            return _Timeline(self)
        if len(line.text) > _MAX_ROW_LENGTH:
            return False
        match = _TITLE.fullmatch(line.text) or _HEADER.fullmatch(line.text)
        if match is None or (match.re is _HEADER and not _has_times(_columns(match))):
            return False
        return self._open(match, line)

    def take_timeline(self, line: Line) -> bool:
        """Read a line of the timeline; False if it is none."""
        if len(line.text) > _MAX_ROW_LENGTH:
            return False
        if match := _TIMELINE.fullmatch(line.text):
            self._activity(match, line)
            return True
        if self._session is None or not _TIMELINE_START.match(line.text):
            return False
        self.collector.resume_session(self._session)
        reason = "not a complete line of the timeline: skipped"
        self.collector.issue("warning", line.number, line.text, reason)
        return True

    def _open(self, match: re.Match[str], line: Line) -> _Table:
        title = match["of"] if match.re is _HEADER else line.text.strip()
        if self._session is None or title in self._titles:
            self._begin_session(line)
        self._titles.add(title)
        assert self._session is not None
        self.collector.resume_session(self._session)
        return _Table(line, match, self)

    def _begin_session(self, line: Line) -> None:
        self.finish()
        self._session = self.collector.open_session(FORMAT.name, line.number)
        self._session.facts["tool"] = "unitrace"
        self._titles, self._devices, self._queues, self._zero = set(), {}, {}, None
        self.has_gpu_times = False

    def _activity(self, match: re.Match[str], line: Line) -> None:
        if self._session is None:
            self._begin_session(line)
        assert self._session is not None
        self.collector.resume_session(self._session)
        queue = match["queue"]
        start, end = int(match["start"]), int(match["end"])
        name = _unquoted(_LAUNCH_NUMBER.sub("", match["name"]) if queue else match["name"])
        launch = self._launches.get(name) or self._launches.setdefault(name, _launch(name))
        if self._zero is None:
            self._zero = min(start, int(match["append"]))
            reason = f"times count from the first event, at {self._zero} ns of the device clock"
            self.collector.issue("info", line.number, "", reason)
            self.collector.resolution(1)
        if end < start:
            self.collector.issue("warning", line.number, line.text, "the end is before the start: duration unknown")
        self.collector.add(
            "activities",
            {
                **launch,
                "start_ns": start - self._zero,
                "duration_ns": end - start if end >= start else None,
                # Devices and queues are identified by handles, which are numbered in the order of the file.
                "device": None if queue else self._devices.setdefault(match["device"], len(self._devices)),
                "stream": self._queues.setdefault(queue, len(self._queues)) if queue else None,
                "line": line.number,
            },
        )

    def finish(self) -> None:
        """Add the kernels of a run that reports only their submission."""
        if self.submitted and not self.has_gpu_times and self._session is not None:
            self.collector.resume_session(self._session)
            for row in self.submitted:
                self.collector.add("summary", row)
        self.submitted = []


def _launch(name: str) -> dict[str, Value]:
    """Return kind, name and configuration of a line of the timeline."""
    kind = _kind(name)
    if kind != "kernel":
        copied = _COPIED.fullmatch(name)
        size = copied["bytes"] if copied else None
        kernel_name = copied["name"] if copied else name
        return {
            "kind": kind,
            "name": kernel_name,
            "short_name": kernel_name,
            "size_bytes": int(size) if size else None,
            "copy_kind": copy_kind(kernel_name),
        }
    launched = _LAUNCHED.fullmatch(name)
    kernel_name = launched["name"] if launched else name
    fields: dict[str, Value] = {"kind": kind, "name": kernel_name, "short_name": short_name(kernel_name)}
    if launched and all(_numbers(launched["block"])):
        for shape in ("grid", "block"):
            sizes = _numbers(launched[shape])
            if len(sizes) == 3:
                fields |= {f"{shape}_{axis}": size for axis, size in zip("xyz", sizes, strict=True)}
    return fields


UNITRACE: Final = TextFormat(
    FORMAT,
    (
        rb"^[ \t]*(?:=== (?:(?:Device|API) Timing|Kernel Submission|Kernel Properties|Device #[0-9]+ Metrics)"
        rb"|== Kernel Metrics ==|(?:Kernel|Function)[ \t]*,[ \t]*Calls[ \t]*,)"
        rb"|^[ \t]*(?:<PID:[0-9]+> )?(?:Thread [0-9]+ Device .* : |Device Timeline \(queue: )"
    ),
    _UnitraceReader,
)
"""The format, for the list of text formats."""


TRACE_FORMAT: Final = Format(
    name="unitrace-json",
    title="Intel unitrace trace",
    recognized_by='trace events that begin with "ph", "tid", "pid", or are of the category gpu_op',
    feeds=("sessions", "activities", "api_calls", "ops", "ranges", "issues"),
    record_with="unitrace --chrome-kernel-logging --chrome-call-logging --chrome-itt-logging ./app",
)

_EVENT: Final = re.compile(rb'\{"ph": "[XstBER]", "tid": \d+, "pid": \d+, "|"cat": "gpu_op"')
_GPU_WORK: Final = "gpu_op"
_CALL: Final = r"^(?:ze|zes|zet|cl)[A-Z]\w*$"
"""Functions of Level Zero and OpenCL; other work of the host is of the program, SYCL, MPI and libraries."""
_TILE: Final = re.compile(r"Tile #[0-9]{1,4}: ")
_PROCESS: Final = (
    r"^(?:RANK (?P<rank>[0-9]{1,9}) )?(?P<place>HOST|DEVICE)<(?P<host>[^>]*)>"
    r"[^#]*(?:#(?P<device>[0-9]{1,4})(?:\.[0-9]+)?)?$"
)
"""The name of a process; a tile of a device has a second number, and devices of OpenCL have none."""


class UnitraceTraceLoader:
    """Reads the traces of unitrace."""

    formats: Final = (TRACE_FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return certain by the order of keys, or by the category of GPU work."""
        from tui.loaders.chrome_trace.stream import looks_like_trace  # not needed for the text

        return 0.96 if looks_like_trace(head) and _EVENT.search(head) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the trace: a session for each rank of a merged one.

        Raises:
            ProftuiError: It has no events.
        """
        # Not needed to recognize a file.
        from tui.loaders.chrome_trace.event_batches import Arg, ArgKind
        from tui.loaders.chrome_trace.read_trace import read_trace

        trace = read_trace(source, (Arg("kernel", ("id",), ArgKind.TEXT),), on_progress)
        if trace.complete.is_empty():
            hint = f"record it again: {TRACE_FORMAT.record_with}"
            raise ProftuiError(f"{source.display_name}: no profile found: a trace of unitrace without events", hint)
        collector = Collector(source.name)
        processes = _processes(trace)
        rows = trace.complete.with_columns(_text("pid"), _text("tid"), _text("cat"), _text("kernel"))
        rows = rows.join(processes, on="pid", how="left", maintain_order="left")
        for rank in rows["rank"].unique().sort(nulls_last=True):
            rank_rows = rows.filter(pl.col("rank").eq_missing(rank))
            _add_rank(rank_rows, rank, processes, trace, collector)
        collector.add_issues([*source.notes, *trace.notes])
        return collector.profile(partial=trace.partial)


def _text(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.String)


def _processes(trace: Trace) -> pl.DataFrame:
    """Return pid, rank, place (HOST or DEVICE), host and device of the processes that the trace names."""
    process_names = trace.names.filter(pl.col("name").cast(pl.String) == "process_name").select(_text("pid"), "value")
    groups = pl.col("value").str.extract_groups(_PROCESS)
    return process_names.unique("pid", keep="first", maintain_order=True).select(
        "pid",
        groups.struct.field("rank").cast(pl.Int32, strict=False),
        *(groups.struct.field(name) for name in ("place", "host")),
        groups.struct.field("device").cast(pl.Int32, strict=False),
    )


def _add_rank(
    rows: pl.DataFrame, rank: int | None, processes: pl.DataFrame, trace: Trace, collector: Collector
) -> None:
    is_gpu = pl.col("cat") == _GPU_WORK
    host = rows.filter(~is_gpu.fill_null(False)).with_columns(
        pl.col("pid").cast(pl.Int64, strict=False),
        pl.col("tid").cast(pl.Int64, strict=False),
        pl.col("name").cast(pl.String).str.contains(_CALL).fill_null(False).alias("is_call"),
    )
    pid = host["pid"].drop_nulls().first()
    session = collector.open_session(TRACE_FORMAT.name, None, pid=pid if isinstance(pid, int) else None)
    host_processes = processes.filter(pl.col("rank").eq_missing(rank), pl.col("place") == "HOST")
    host_name = host_processes["host"].first()
    host_name = host_name if isinstance(host_name, str) else None
    session.facts.update(tool="unitrace", rank=rank, host=host_name, origin_ns=trace.origin_ns)
    collector.resolution(1 if (rows["start_ns"] % 1000 != 0).any() else 1000)
    calls = host.filter("is_call").with_row_index("correlation")
    launched = _launched(calls, trace)
    work = rows.filter(is_gpu).join(launched, on="kernel", how="left", maintain_order="left")
    ranges = host.filter(~pl.col("is_call")).select("name", "start_ns", "duration_ns", "pid", "tid", "line")
    collector.add_frames(
        link_run(
            fit_to_model("activities", _activities(work, trace), collector),
            fit_to_model("api_calls", calls, collector),
            fit_to_model("ranges", ranges, collector) if ranges.height else None,
            session,
            collector,
            range_kind="range",
        )
    )


def _launched(calls: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Return the number of each kernel with the number of the call that submitted it: flows begin where calls do."""
    flows = trace.flows.filter(_text("ph") == "s", _text("cat").str.contains("Flow_H2D", literal=True))
    flow_starts = flows.select(
        _text("id").alias("kernel"),
        pl.col("start_ns"),
        *(_text(name).cast(pl.Int64, strict=False).alias(name) for name in ("pid", "tid")),
    )
    keys = ["pid", "tid", "start_ns"]
    return (
        flow_starts.join(calls.select(*keys, "correlation").unique(keys, keep="first"), on=keys, how="inner")
        .select("kernel", "correlation")
        .unique("kernel", keep="first", maintain_order=True)
    )


_NAME_SCHEMA: Final = pl.Schema(
    {
        **dict.fromkeys(("printed", "kind", "name", "short_name", "copy_kind"), pl.String),
        **dict.fromkeys(
            (*(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"), "size_bytes"), pl.Int64
        ),
    }
)
"""What the printed name of a kernel or copy tells."""


def _activities(work: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    names = work["name"].drop_nulls().unique().cast(pl.String).to_list()
    # Each name is parsed once.
    launches = [{"printed": name, **_launch(_TILE.sub("", name))} for name in names]
    facts = pl.DataFrame(launches, _NAME_SCHEMA)
    engines = trace.names.filter(_text("name") == "thread_name").select(
        _text("pid"), _text("tid"), pl.col("value").str.replace(r"^Thread [0-9]+ ", "").alias("engine")
    )
    engines = engines.unique(["pid", "tid"], keep="first", maintain_order=True)
    number = pl.col("engine").rank("dense").cast(pl.Int64) - 1
    return (
        work.with_columns(_text("name").alias("printed"))
        .drop("name")
        .join(facts, on="printed", how="left", maintain_order="left")
        .join(engines, on=["pid", "tid"], how="left", maintain_order="left")
        .with_columns(number.alias("stream"), pl.col("correlation").cast(pl.Int64))
    )
