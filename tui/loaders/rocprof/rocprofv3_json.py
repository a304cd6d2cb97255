"""Reads the JSON of rocprofv3 (``--output-format json``), and the trace events of rocprof: a session per process.

The document is cut into its lists without decoding them; each list is then read as columns at once. The numbers of
``kind`` and ``operation`` differ between versions of ROCm, so names go through ``strings.buffer_records``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl
from msgspec import Raw
from polars.exceptions import PolarsError

from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector, fit_to_model, link_run
from tui.loaders.raw_input import read_utf8
from tui.loaders.rocprof.rocprof_tables import ORIGIN_REASON, V1_JSON
from tui.model.errors import FORMATS_HINT, ProftuiError, first_line
from tui.model.names import copy_kind, short_name, without_descriptor
from tui.model.schema import NAME
from tui.text import map_distinct, number_in, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="rocprofv3-json",
    title="rocprofv3 JSON",
    recognized_by='JSON that begins with {"rocprofiler-sdk-tool": [',
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "metrics", "issues"),
    record_with="rocprofv3 --sys-trace --output-format json -d out -- ./app",
)

_GPU: Final = 2
"""``type`` of an agent that is a GPU."""
_CALLS, _MARKERS = "_api", "marker_api"
"""The end of the name of a list of API calls (hip_api, hsa_api, rccl_api, rocdecode_api), and the list of ranges."""
_XYZ: Final = pl.Struct({"x": pl.Int64, "y": pl.Int64, "z": pl.Int64})
_HANDLE: Final = pl.Struct({"handle": pl.UInt64})
_RECORD: Final = {
    "kind": pl.Int64,
    "operation": pl.Int64,
    "thread_id": pl.Int64,
    "correlation_id": pl.Struct({"internal": pl.UInt64}),
    "start_timestamp": pl.Int64,
    "end_timestamp": pl.Int64,
}
_DISPATCH_INFO: Final = pl.Struct(
    {
        "agent_id": _HANDLE,
        "queue_id": _HANDLE,
        "kernel_id": pl.Int64,
        "dispatch_id": pl.Int64,
        "private_segment_size": pl.Int64,
        "group_segment_size": pl.Int64,
        "workgroup_size": _XYZ,
        "grid_size": _XYZ,
    }
)
_DISPATCH: Final = {**_RECORD, "dispatch_info": _DISPATCH_INFO, "stream_id": _HANDLE}
_COPY: Final = {**_RECORD, "src_agent_id": _HANDLE, "dst_agent_id": _HANDLE, "bytes": pl.Int64, "stream_id": _HANDLE}
_COUNTER_RECORD: Final = {
    "thread_id": pl.Int64,
    "dispatch_data": pl.Struct(
        {
            "correlation_id": pl.Struct({"internal": pl.UInt64}),
            "start_timestamp": pl.Int64,
            "end_timestamp": pl.Int64,
            "dispatch_info": _DISPATCH_INFO,
        }
    ),
    "records": pl.List(pl.Struct({"counter_id": _HANDLE, "value": pl.Float64})),
}
_SYMBOL: Final = {
    "kernel_id": pl.Int64,
    "formatted_kernel_name": pl.String,
    "kernel_name": pl.String,
    "arch_vgpr_count": pl.Int64,
    "sgpr_count": pl.Int64,
}
_TEXT: Final = {"key": pl.UInt64, "value": pl.String}
_UNDEFINED: Final = (b"NaN", b"Infinity")
_NO_NUMBER: Final = re.compile(rb'(?<=":)\s*-?(?:%s)(?=\s*[,}])' % b"|".join(_UNDEFINED))
"""Values of counters that are divided by zero: they are no JSON."""


class _Process(msgspec.Struct):
    """One process of the document; its lists are not decoded yet."""

    metadata: dict[str, Any] = {}
    agents: list[dict[str, Any]] = []
    strings: dict[str, Raw] = {}
    kernel_symbols: Raw = Raw(b"[]")
    counters: list[dict[str, Any]] = []
    buffer_records: dict[str, Raw] = {}
    callback_records: dict[str, Raw] = {}


class _Document(msgspec.Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process]


class Rocprofv3JsonLoader:
    """Reads rocprofv3's JSON."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return certain by its first key."""
        return 0.97 if head.lstrip().removeprefix(b"{").lstrip().startswith(b'"rocprofiler-sdk-tool"') else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read every process.

        Raises:
            ProftuiError: It is not JSON of rocprofv3, or nothing was recorded.
        """
        source.set_on_progress(on_progress)
        data, undefined_count = read_utf8(source), 0
        if any(word in data for word in _UNDEFINED):
            data, undefined_count = _NO_NUMBER.subn(b"null", data)
        try:
            document = msgspec.json.decode(data, type=_Document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProftuiError(
                f"{source.display_name}: not valid JSON of rocprofv3: {error or 'nested too deep'}",
                source.cut_short or f"record it again: {FORMAT.record_with}",
            ) from error
        collector = Collector(source.name)
        for process in document.processes:
            _ProcessReader(process, collector).read()
            if not source.keep_going(collector.row_count):
                break
        if not collector.row_count:
            raise ProftuiError(f"{source.display_name}: no profile found: its lists of records are empty", FORMATS_HINT)
        if undefined_count:
            values = plural(undefined_count, "value is NaN or infinite", "values are NaN or infinite")
            collector.issue("info", None, "", f"{values}: shown as unknown")
        collector.add_issues(source.notes)
        return collector.profile(partial="stopped before its end" if source.stopped else "")


class _ProcessReader:
    """Reads one process."""

    def __init__(self, process: _Process, collector: Collector) -> None:
        self._process = process
        self._collector = collector
        self._devices = {
            handle: position
            for position, handle in enumerate(_handle(agent) for agent in process.agents if agent.get("type") == _GPU)
            if handle is not None
        }

    def read(self) -> None:
        """Open a session and fill it."""
        metadata = self._process.metadata
        pid, command, node = metadata.get("pid"), metadata.get("command"), metadata.get("node")
        arguments = [str(word) for word in command] if isinstance(command, list) else []
        session = self._collector.open_session(
            FORMAT.name, None, pid=pid if type(pid) is int else None, command=" ".join(arguments) or None
        )
        session.facts["tool"] = "rocprofv3"
        if isinstance(node, dict) and isinstance(node.get("hostname"), str):
            session.facts["host"] = node["hostname"]
        self._add_devices()
        kernels, copies, calls, ranges = self._kernels(), self._copies(), self._calls(), self._ranges()
        starts_ns = [frame["start_ns"].min() for frame in (kernels, copies, calls, ranges)]
        origin_ns = min((start for start in starts_ns if isinstance(start, int)), default=None)
        if origin_ns is not None:
            reason = ORIGIN_REASON.format(origin_ns)
            self._collector.issue("info", None, "", reason)
            self._collector.resolution(1)
        relative_start = (pl.col("start_ns") - (origin_ns or 0)).alias("start_ns")
        activities = pl.concat([kernels, copies], how="diagonal").with_columns(relative_start)
        self._collector.add_frames(
            link_run(
                fit_to_model("activities", activities, self._collector),
                fit_to_model("api_calls", calls.with_columns(relative_start), self._collector),
                fit_to_model("ranges", ranges.with_columns(relative_start), self._collector) if ranges.height else None,
                session,
                self._collector,
                range_kind="roctx range",
            )
        )
        self._add_counters(kernels)

    def _list(self, raw: Raw | None, columns: Mapping[str, Any], label: str) -> pl.DataFrame:
        """Return a list of objects as columns; missing columns are null, and an invalid list is reported."""
        schema = pl.Schema(columns)
        data = bytes(raw) if raw is not None else b"[]"
        if not data.strip(b"[] \t\r\n"):
            return pl.DataFrame(schema=schema)
        try:
            if not data.lstrip().startswith(b"["):
                raise ValueError("not a list")
            return pl.read_json(data, schema=schema).select(schema.names())
        except (PolarsError, ValueError) as error:
            self._collector.issue("error", None, label, f"unreadable list skipped: {first_line(error)}")
            return pl.DataFrame(schema=schema)

    def _records(self, name: str, columns: Mapping[str, Any]) -> pl.DataFrame:
        """Return records with ``start_ns``, ``duration_ns``, ``correlation`` and ``name`` (of the operation)."""
        return self._timed(self._list(self._process.buffer_records.get(name), columns, name))

    def _timed(self, rows: pl.DataFrame) -> pl.DataFrame:
        duration_ns = pl.col("end_timestamp") - pl.col("start_timestamp")
        return rows.join(self._operations(), on=["kind", "operation"], how="left", maintain_order="left").with_columns(
            pl.col("start_timestamp").alias("start_ns"),
            pl.when(duration_ns >= 0).then(duration_ns).alias("duration_ns"),
            pl.col("correlation_id").struct.field("internal").cast(pl.Int64, strict=False).alias("correlation"),
            pl.lit(self._collector.session.pid if self._collector.session else None, pl.Int64).alias("pid"),
            pl.col("thread_id").alias("tid"),
        )

    def _operations(self) -> pl.DataFrame:
        """Return the names of operations: columns kind, operation, name."""
        kinds = self._list(
            self._process.strings.get("buffer_records"),
            {"kind": pl.String, "operations": pl.List(pl.String)},
            "strings",
        )
        return (
            kinds.select(pl.int_range(pl.len()).alias("kind"), pl.col("operations").alias("name"))
            .explode("name")
            .with_columns(pl.int_range(pl.len()).over("kind").alias("operation"))
            .select("kind", "operation", pl.col("name").cast(NAME))
        )

    def _device(self, column: str) -> pl.Expr:
        return (
            pl.col(column).struct.field("handle").replace_strict(self._devices, default=None, return_dtype=pl.Int32)
            if self._devices
            else pl.lit(None, pl.Int32)
        )

    def _kernels(self) -> pl.DataFrame:
        """Return the dispatches; the grid is recorded in work items, blocks are grid / workgroup."""
        rows = self._records("kernel_dispatch", _DISPATCH)
        if rows.is_empty() and (counter_records := self._counter_records()).height:
            # --pmc without --kernel-trace: a dispatch may have several records, one for each of its counters.
            dispatches = counter_records.select("thread_id", "dispatch_data").unnest("dispatch_data")
            dispatches = dispatches.filter(pl.col("end_timestamp") > 0).with_columns(
                pl.lit(None, pl.Int64).alias("kind"),
                pl.lit(None, pl.Int64).alias("operation"),
                pl.lit(None, _HANDLE).alias("stream_id"),
            )
            number = pl.col("dispatch_info").struct.field("dispatch_id")
            rows = self._timed(dispatches.filter(number.is_first_distinct() | number.is_null()))
        rows = rows.drop("name").unnest("dispatch_info")
        symbols = self._list(self._process.kernel_symbols, _SYMBOL, "kernel_symbols").unique("kernel_id", keep="first")
        names = pl.coalesce(
            pl.col("formatted_kernel_name").replace("", None),
            pl.col("kernel_name"),
            pl.format("kernel {}", "kernel_id"),
        )
        rows = rows.join(symbols, on="kernel_id", how="left", maintain_order="left").with_columns(
            names.cast(NAME).alias("name")
        )
        name = map_distinct(rows["name"], without_descriptor, NAME)
        sizes = []
        for axis in "xyz":
            block = pl.col("workgroup_size").struct.field(axis)
            grid = pl.col("grid_size").struct.field(axis)
            sizes += [
                block.alias(f"block_{axis}"),
                pl.when(block > 0).then((grid + block - 1) // block).alias(f"grid_{axis}"),
            ]
        return rows.select(
            pl.lit("kernel", NAME).alias("kind"),
            name,
            map_distinct(name, short_name, NAME).alias("short_name"),
            *("start_ns", "duration_ns", "correlation"),
            self._device("agent_id").alias("device"),
            pl.coalesce(pl.col("stream_id").struct.field("handle"), pl.col("queue_id").struct.field("handle"))
            .cast(pl.Int64, strict=False)
            .alias("stream"),
            *sizes,
            pl.col("arch_vgpr_count").alias("registers"),
            pl.col("group_segment_size").alias("shared_bytes"),
            pl.format("Scratch: {} B; SGPRs: {}", "private_segment_size", "sgpr_count").cast(NAME).alias("arguments"),
            "dispatch_id",
        )

    def _copies(self) -> pl.DataFrame:
        rows = self._records("memory_copy", _COPY)
        source, target = self._device("src_agent_id"), self._device("dst_agent_id")
        ends = [pl.when(end.is_null()).then(pl.lit("H")).otherwise(pl.lit("D")) for end in (source, target)]
        known = pl.col("src_agent_id").is_not_null() & pl.col("dst_agent_id").is_not_null()
        kind = pl.when(known).then(pl.concat_str([ends[0], pl.lit("to"), ends[1]])).cast(NAME)
        return rows.select(
            pl.lit("memcpy", NAME).alias("kind"),
            pl.coalesce(pl.col("name"), pl.lit("memory copy", NAME)).alias("name"),
            pl.coalesce(pl.col("name"), pl.lit("memory copy", NAME)).alias("short_name"),
            *("start_ns", "duration_ns", "correlation"),
            pl.coalesce(target, source).alias("device"),
            pl.col("stream_id").struct.field("handle").cast(pl.Int64, strict=False).alias("stream"),
            pl.col("bytes").alias("size_bytes"),
            kind.alias("copy_kind"),
        )

    def _calls(self) -> pl.DataFrame:
        columns = ("name", "start_ns", "duration_ns", "pid", "tid", "correlation")
        names = [name for name in self._process.buffer_records if name.endswith(_CALLS) and name != _MARKERS]
        return pl.concat([self._records(name, _RECORD).select(columns) for name in (names or ["hip_api"])])

    def _ranges(self) -> pl.DataFrame:
        """Return the roctx ranges, whose texts are in a separate list by correlation id."""
        texts = self._list(self._process.strings.get(_MARKERS), _TEXT, _MARKERS).select(
            pl.col("key").cast(pl.Int64, strict=False).alias("correlation"), pl.col("value").cast(NAME).alias("text")
        )
        return (
            self._records(_MARKERS, _RECORD)
            .join(texts.unique("correlation", keep="first"), on="correlation", how="left", maintain_order="left")
            .select(pl.coalesce("text", "name").alias("name"), "start_ns", "duration_ns", "pid", "tid")
        )

    def _counter_records(self) -> pl.DataFrame:
        """Return the values of counters, with the dispatch that they are of."""
        return self._list(
            self._process.callback_records.get("counter_collection"), _COUNTER_RECORD, "counter_collection"
        )

    def _add_counters(self, kernels: pl.DataFrame) -> None:
        """Add counters by kernel; several values of one counter in a dispatch are summed."""
        rows = self._counter_records()
        if rows.is_empty():
            return
        names = {
            handle: name
            for counter in self._process.counters
            if (handle := _handle(counter)) is not None and isinstance(name := counter.get("name"), str)
        }
        counter = pl.col("records").struct.field("counter_id").struct.field("handle")
        values = (
            rows.select(pl.col("dispatch_data").struct.field("dispatch_info").struct.field("dispatch_id"), "records")
            .explode("records")
            .drop_nulls("records")
            .select(
                "dispatch_id",
                counter.replace_strict(names, default=pl.format("counter {}", counter), return_dtype=pl.String).alias(
                    "metric"
                ),
                pl.col("records").struct.field("value"),
            )
            .group_by("dispatch_id", "metric", maintain_order=True)
            .agg(pl.when(pl.col("value").null_count() == 0).then(pl.col("value").sum()).alias("value"))
            .join(kernels.unique("dispatch_id", keep="first"), on="dispatch_id", how="left", maintain_order="left")
        )
        sizes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
        metrics = values.group_by(pl.col("name").alias("kernel"), "device", *sizes, "metric", maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            pl.col("value").min().alias("min"),
            pl.col("value").max().alias("max"),
            pl.col("value").mean().alias("avg"),
        )
        metrics = metrics.with_columns(pl.col("device").cast(pl.String), pl.col("metric").cast(NAME))
        self._collector.add_frame("metrics", fit_to_model("metrics", metrics, self._collector))

    def _add_devices(self) -> None:
        for agent in self._process.agents:
            device = self._devices.get(_handle(agent) or -1)
            if device is None:
                continue
            name, architecture = agent.get("product_name"), agent.get("name")
            self._collector.add(
                "devices",
                {
                    "device": device,
                    "name": str(name or architecture or "") or None,
                    "compute_capability": str(architecture) if architecture else None,
                    **agent_facts(agent),
                },
            )


AGENT_FACTS: Final = ("sm_count", "max_threads_per_sm", "shared_memory_per_sm_bytes", "memory_bytes")
_MAX_PLAUSIBLE: Final = 1 << 50
"""A petabyte."""


def agent_facts(agent: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the `AGENT_FACTS` of a GPU, of rocprofv3's JSON or database."""
    banks = agent.get("mem_banks")
    banks = banks if isinstance(banks, list) else []
    sizes = [_count(bank.get("size_in_bytes")) for bank in banks if isinstance(bank, dict)]
    waves, width = _count(agent.get("max_waves_per_cu")), _count(agent.get("wave_front_size"))
    lds = _count(agent.get("lds_size_in_kb"))
    facts = (
        agent.get("cu_count"),
        waves * width if waves and width else None,
        lds * 1024 if lds else None,
        sum(size for size in sizes if size),
    )
    return dict(zip(AGENT_FACTS, map(_count, facts), strict=True))


def _count(value: object) -> int | None:
    """Return a count; None for 0 and for implausible values."""
    return value if type(value) is int and 0 < value < _MAX_PLAUSIBLE else None


_JSON_LIMIT: Final = 1 << 20


def map_json(texts: pl.Series, select: Callable[[Mapping[str, Any]], object]) -> list[object]:
    """Apply a function to each JSON object of a column; None for other texts. Each distinct text is parsed once."""
    values: dict[str, object] = {}
    for text in texts.unique().drop_nulls():
        try:
            value = json.loads(text) if len(text) <= _JSON_LIMIT else None
        except (ValueError, RecursionError):
            value = None
        values[text] = select(value) if isinstance(value, dict) else None
    return [values.get(text) for text in texts]


MAX_PROCESSES: Final = 256
"""The most processes of a file that become sessions."""
ProcessFrames = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame | None]
"""The activities, calls and ranges of a process."""


def add_processes(
    format_name: str,
    tool: str,
    frames: tuple[pl.DataFrame, ...],
    build: Callable[..., ProcessFrames],
    collector: Collector,
) -> None:
    """Add a session for each process in a column ``pid`` of the frames."""
    pids = pl.concat([frame["pid"] for frame in frames]).unique().sort(nulls_last=True).to_list()
    known_pids = [pid for pid in pids if pid is not None]
    # Rows without a process belong to the only process, if there is just one.
    processes = pids if len(known_pids) > 1 else known_pids or [None]
    for pid in processes[:MAX_PROCESSES]:
        session = collector.open_session(format_name, None, pid=pid)
        session.facts.update(tool=tool)
        in_process = pl.lit(True) if len(processes) == 1 else pl.col("pid").eq_missing(pl.lit(pid, pl.Int64))
        work, calls, ranges = build(*(frame.filter(in_process) for frame in frames))
        collector.add_frames(link_run(work, calls, ranges, session, collector, range_kind="roctx range"))
    if len(processes) > MAX_PROCESSES:
        reason = f"only the first {MAX_PROCESSES} processes are shown"
        collector.issue("error", None, f"{len(processes):,} processes", reason)


def _handle(agent: Mapping[str, Any]) -> int | None:
    identifier = agent.get("id")
    handle = identifier.get("handle") if isinstance(identifier, dict) else None
    return handle if type(handle) is int and 0 <= handle < 1 << 63 else None


TRACE_FORMAT: Final = Format(
    name=V1_JSON,
    title="rocprof trace (JSON)",
    recognized_by='trace events that begin with {}, with "BeginNs" as text',
    feeds=("sessions", "activities", "api_calls", "ranges", "ops", "issues"),
    record_with="rocprof --hip-trace ./app",
)

_EVENTS: Final = re.compile(rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}\s*,.*"BeginNs"\s*:\s*"', re.DOTALL)
_PARTS: Final = {
    "calls": r"\bAPI\b",
    "memcpy": r"\bCOPY\b",
    "kernel": r"\bGPU ?[0-9]",
    "ranges": r"(?i)marker|range|roctx",
}
"""What the events of a process are, by a pattern of its name."""


class RocprofTraceLoader:
    """Reads the trace events of rocprof's first version (results.json)."""

    formats: Final = (TRACE_FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return 0.97 if the first event is empty and times are texts, else 0."""
        return 0.97 if _EVENTS.match(head) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the trace: a session for each process.

        Raises:
            ProftuiError: It has no events.
        """
        # Not needed to recognize a file.
        from tui.loaders.chrome_trace.event_batches import Arg, ArgKind
        from tui.loaders.chrome_trace.read_trace import read_trace

        integers = {
            "device": "dev-id",
            "queue": "queue-id",
            "own_stream": "stream-id",
            "process": "pid",
            "thread": "tid",
        }
        texts = {"begin": "beginns", "end": "endns", "arguments": "args"}
        wanted = [Arg(column, (key,), ArgKind.INTEGER) for column, key in integers.items()]
        wanted += [Arg(column, (key,), ArgKind.TEXT) for column, key in texts.items()]
        trace = read_trace(source, tuple(wanted), on_progress)
        events = _rocprof_events(trace)
        if events.is_empty():
            hint = f"record it again: {TRACE_FORMAT.record_with}"
            raise ProftuiError(f"{source.display_name}: no profile found: a trace of rocprof without events", hint)
        collector = Collector(source.name)
        part = pl.col("part")

        def build(rows: pl.DataFrame) -> ProcessFrames:
            work, calls, ranges = (
                fit_to_model(frame, rows.filter(condition), collector)
                for frame, condition in (
                    ("activities", part.is_in(["kernel", "memcpy"])),
                    ("api_calls", part == "calls"),
                    ("ranges", part == "ranges"),
                )
            )
            return work, calls, ranges if ranges.height else None

        add_processes(V1_JSON, "rocprof", (events,), build, collector)
        collector.issue("info", None, "", ORIGIN_REASON.format(trace.origin_ns))
        collector.add_issues([*source.notes, *trace.notes])
        return collector.profile(partial=trace.partial)


def _rocprof_events(trace: Trace) -> pl.DataFrame:
    """Return the events with the columns of the model, and part (a key of `_PARTS`)."""
    names = trace.names.filter(pl.col("name").cast(pl.String) == "process_name").unique("pid", keep="first")
    part = pl.coalesce(pl.when(pl.col("value").str.contains(text)).then(pl.lit(name)) for name, text in _PARTS.items())
    begin, end = (pl.col(column).cast(pl.String).cast(pl.Int64, strict=False) for column in ("begin", "end"))
    is_work, is_call = pl.col("part").is_in(["kernel", "memcpy"]), pl.col("part") == "calls"
    rows = trace.complete.join(names.select("pid", part.alias("part")), on="pid", how="left", maintain_order="left")
    rows = _with_flows(rows, trace.flows).filter(pl.col("part").is_not_null())
    rows = rows.with_columns(
        pl.when(is_work).then("flow_in").otherwise("flow_out").alias("correlation"),
        map_distinct(rows["name"], without_descriptor, NAME).alias("name"),
        start_ns=pl.coalesce(begin - trace.origin_ns, "start_ns"),
        duration_ns=pl.coalesce(pl.when(end >= begin).then(end - begin), "duration_ns"),
        stream=pl.coalesce("own_stream", "queue"),
        size_bytes=number_in(pl.col("arguments").cast(pl.String), r"sizeBytes\(([0-9]{1,18})\)"),
        pid="process",
        tid="thread",
    )
    sizes = (
        rows.filter(is_call).select("correlation", copied="size_bytes").drop_nulls().unique("correlation", keep="none")
    )
    rows = rows.join(sizes, on="correlation", how="left", maintain_order="left")
    return rows.with_columns(
        pl.when(pl.col("part") == "memcpy").then("copied").alias("size_bytes"),
        pl.when(is_work).then("part").alias("kind"),
        pl.when(is_call).then("arguments").alias("arguments"),
        map_distinct(rows["name"], short_name, NAME).alias("short_name"),
        map_distinct(rows["name"], copy_kind, NAME).alias("copy_kind"),
    )


def _with_flows(rows: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Add the ids of the flows from calls (``flow_out``) and to their work (``flow_in``); null if ambiguous.

    A flow leads from the middle of a call to the start of its work, in whole microseconds, unless that is earlier.
    """
    start_us, middle_us = pl.col("start_ns") // 1000, (pl.col("start_ns") + pl.col("duration_ns") // 2) // 1000
    ends = flows.select(pl.col("ph").cast(pl.String), "pid", "tid", "id", at_us=start_us).drop_nulls("id").unique()
    ends = ends.filter(pl.col("ph").is_in(["s", "t"])).unique(["ph", "id"], keep="none")
    is_whole = pl.col("ph").n_unique().over("id") == 2
    for phase, column, at_us in (("t", "flow_in", start_us), ("s", "flow_out", middle_us)):
        keys = ["pid", "tid", "at_us"]
        known = ends.filter(is_whole & (pl.col("ph") == phase)).select(*keys, pl.col("id").alias(column))
        known = known.unique(keys, keep="none")
        rows = rows.with_columns(at_us=at_us).join(known, on=keys, how="left", maintain_order="left")
    return rows
