"""Loads AMD's databases: rocpd of rocprofv3, ``results.db`` of the first rocprof, and the traces of rocmProfileData.

Each process is a session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.collector import fit_to_model, link_run
from tui.loaders.demangle import demangled
from tui.loaders.rocprof.rocprof_tables import ORIGIN_REASON, V1_DATABASE
from tui.loaders.rocprof.rocprofv3_json import (
    AGENT_FACTS,
    MAX_PROCESSES,
    ProcessFrames,
    add_processes,
    agent_facts,
    map_json,
)
from tui.loaders.sqlite.database import fold_case
from tui.model.errors import ProftuiError
from tui.model.names import DESCRIPTOR, copy_kind, short_name
from tui.model.schema import NAME
from tui.text import map_distinct, number_in, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.collector import Collector
    from tui.loaders.input_file import InputFile
    from tui.loaders.sqlite.database import Database


_VALUE: Final = {"event_id": pl.Int64, "pmc_id": pl.Int64, "value": pl.Float64}
_COUNTER: Final = {"id": pl.Int64, "name": pl.String, "description": pl.String, "units": pl.String}
_KERNEL: Final = ["device", "kernel", *(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")]


def read_counters(recording: RocpdRecording, kernels: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Return counters by kernel, grid and block: columns of the model, and ``process_row``.

    Values of the parts of a GPU are summed.
    """
    values = recording.frame("pmc_event", _VALUE)
    counters = recording.frame("info_pmc", _COUNTER).unique("id", keep="first").rename({"id": "pmc_id"})
    device_names = agents.select("device", device_name=pl.format("{} ({})", "name", "device")).unique(
        "device", keep="first"
    )
    kernel_columns = kernels.select(
        "event_id", "process_row", "device", pl.col("name").alias("kernel"), *_KERNEL[2:]
    ).unique("event_id", keep="first")
    return (
        values.join(counters, on="pmc_id", how="left", maintain_order="left")
        .with_columns(metric=pl.coalesce("name", pl.format("counter {}", "pmc_id")))
        .group_by("event_id", "metric", maintain_order=True)
        .agg(
            pl.when(pl.col("value").count() > 0).then(pl.col("value").sum()).alias("value"),
            pl.col("description").first(),
        )
        .join(kernel_columns, on="event_id", how="left", maintain_order="left")
        .join(device_names, on="device", how="left", maintain_order="left")
        .with_columns(device=pl.col("device_name"))
        .group_by("process_row", *_KERNEL, "metric", "description", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            pl.col("value").min().alias("min"),
            pl.col("value").max().alias("max"),
            pl.col("value").mean().alias("avg"),
        )
        .with_columns(pl.col("metric", "description").cast(NAME))
    )


_AGENT: Final = {
    "id": pl.Int64,
    "type": pl.String,
    "type_index": pl.Int64,
    "name": pl.String,
    "product_name": pl.String,
    "extdata": pl.String,
}


def read_agents(recording: RocpdRecording) -> pl.DataFrame:
    """Return the GPUs with columns of the model, and ``agent_id``; they are numbered as HIP numbers them."""
    rows = recording.frame("info_agent", _AGENT).filter(pl.col("type") == "GPU").unique("id", maintain_order=True)
    details = pl.DataFrame(
        [dict.fromkeys(AGENT_FACTS) if facts is None else facts for facts in map_json(rows["extdata"], agent_facts)],
        schema=dict.fromkeys(AGENT_FACTS, pl.Int64),
    )
    return rows.hstack(details).select(
        pl.col("id").alias("agent_id"),
        pl.col("type_index").alias("device"),
        pl.coalesce(pl.col("product_name").replace("", None), pl.col("name")).alias("name"),
        pl.col("name").alias("compute_capability"),
        *AGENT_FACTS,
    )


FORMAT: Final = Format(
    name="rocpd",
    title="rocprofv3 database (rocpd)",
    recognized_by="an SQLite database with tables rocpd_string_..., rocpd_kernel_dispatch_...",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "metrics", "issues"),
    record_with="rocprofv3 --kernel-trace --hip-trace --memory-copy-trace --marker-trace -f rocpd -- ./app",
)

_PROCESS: Final = {"id": pl.Int64, "pid": pl.Int64, "command": pl.String, "nid": pl.Int64}
_NODE: Final = {"id": pl.Int64, "hostname": pl.String}

Frames = dict[str, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class _Rocpd:
    """rocpd as a format of SQLite databases."""

    format: Format = FORMAT

    def claims(self, database: Database) -> bool:
        return any(f"rocpd_kernel_dispatch{suffix}" in database.tables for suffix in recordings(database))

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add each process as a session.

        Raises:
            ProftuiError: Nothing was recorded.
        """
        for suffix in recordings(database):
            _read_recording(RocpdRecording(database, suffix), collector)
            if not source.keep_going(collector.row_count):
                break
        if not collector.sessions and source.stopped:
            raise ProftuiError(f"{database.display_name}: stopped before anything was read")
        if not collector.sessions:
            raise ProftuiError(
                f"{database.display_name}: an empty rocprofv3 database: no kernels, memcpys, calls or ranges",
                f"profile again with: {FORMAT.record_with}",
            )


def _read_recording(recording: RocpdRecording, collector: Collector) -> None:
    """Add a recording: a session for each process that has rows."""
    events = recording.events()
    agents = read_agents(recording)
    kernels = read_kernels(recording, events, agents)
    copies = read_copies(recording, events, agents)
    calls, ranges = read_calls(recording, events)
    metrics = read_counters(recording, kernels, agents)
    work = pl.concat([kernels, copies], how="diagonal")
    starts = [start for frame in (work, calls, ranges) if isinstance(start := frame["start_ns"].min(), int)]
    if not starts:
        return
    origin = min(starts)
    frames = {
        name: frame.with_columns(pl.col("start_ns") - origin)
        for name, frame in (("activities", work), ("api_calls", calls), ("ranges", ranges))
    } | {"metrics": metrics}
    processes = recording.frame("info_process", _PROCESS).unique("id", keep="first", maintain_order=True)
    hosts = dict(recording.frame("info_node", _NODE).iter_rows())
    shown_processes = processes.head(MAX_PROCESSES).rows(named=True)
    for process in shown_processes or [dict.fromkeys(_PROCESS)]:
        in_process = pl.lit(True) if len(shown_processes) < 2 else pl.col("process_row") == process["id"]
        process_frames = {name: frame.filter(in_process).drop("process_row") for name, frame in frames.items()}
        if len(shown_processes) > 1 and not any(frame.height for frame in process_frames.values()):
            continue
        session = collector.open_session(FORMAT.name, None, pid=process["pid"], command=process["command"])
        session.facts.update(tool="rocprofv3", host=hosts.get(process["nid"]))
        ranges_of_process = process_frames["ranges"] if process_frames["ranges"].height else None
        linked = link_run(
            process_frames["activities"],
            process_frames["api_calls"],
            ranges_of_process,
            session,
            collector,
            range_kind="roctx range",
        )
        linked["metrics"] = process_frames["metrics"]
        collector.add_frames(
            {"devices": fit_to_model("devices", agents, collector), **_fit_all_to_model(linked, collector)}
        )
    if len(shown_processes) > 1:
        _report_other_processes(frames, [process["id"] for process in shown_processes], processes.height, collector)
    collector.issue("info", None, "", ORIGIN_REASON.format(origin))
    allocations = recording.count("memory_allocate")
    if allocations:
        collector.issue("info", None, "", f"in the database but not in any view: memory allocations ({allocations})")


def _report_other_processes(frames: Frames, shown_processes: list[int], processes: int, collector: Collector) -> None:
    """Report rows of processes that are not shown as sessions."""
    is_other = pl.col("process_row").is_null() | ~pl.col("process_row").is_in(shown_processes)
    count = sum(frame.select(is_other.sum()).item() for frame in frames.values())
    if count:
        count_text = (
            f"{processes:,} processes; {len(shown_processes)} are shown" if processes > len(shown_processes) else ""
        )
        session, collector.session = collector.session, None
        collector.issue("error", None, count_text, f"{plural(count, 'row')} of the other processes skipped")
        collector.session = session


def _fit_all_to_model(frames: Frames, collector: Collector) -> Frames:
    return {name: fit_to_model(name, data, collector) for name, data in frames.items()}


ROCPD: Final = _Rocpd()


_WORK: Final = dict.fromkeys(
    ("pid", "tid", "start", "end", "queue_id", "stream_id", "region_name_id", "event_id"), pl.Int64
)
_DISPATCH: Final = {
    **_WORK,
    "agent_id": pl.Int64,
    "kernel_id": pl.Int64,
    "private_segment_size": pl.Int64,
    "group_segment_size": pl.Int64,
    **{f"{shape}_size_{axis}": pl.Int64 for shape in ("workgroup", "grid") for axis in "xyz"},
}
_SYMBOL: Final = {
    "id": pl.Int64,
    "kernel_name": pl.String,
    "display_name": pl.String,
    "group_segment_size": pl.Int64,
    "arch_vgpr_count": pl.Int64,
    "accum_vgpr_count": pl.Int64,
    "sgpr_count": pl.Int64,
}
_COPY: Final = {**_WORK, "name_id": pl.Int64, "size": pl.Int64, "dst_agent_id": pl.Int64, "src_agent_id": pl.Int64}


def read_kernels(recording: RocpdRecording, events: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Return kernels with columns of the model, times as recorded, and ``event_id`` and ``process_row``."""
    rows = recording.frame("kernel_dispatch", _DISPATCH)
    symbols = recording.frame("info_kernel_symbol", _SYMBOL).unique("id", keep="first")
    # The display name is demangled already; a kernel without one has its symbol name.
    symbol_name = pl.coalesce(pl.col("display_name").replace("", None), "kernel_name").str.replace(DESCRIPTOR, "")
    symbols = symbols.with_columns(symbol_name.alias("display_name"))
    demangled_names = demangled(symbols["display_name"].drop_nulls())
    names = symbols["display_name"].replace(demangled_names) if demangled_names else symbols["display_name"]
    short_names = pl.Series([None if name is None else short_name(name) for name in names], dtype=pl.String)
    symbols = symbols.select(
        pl.col("id").alias("kernel_id"),
        names.cast(NAME).alias("name"),
        short_names.cast(NAME).alias("short_name"),
        pl.col("group_segment_size").alias("static"),
        "arch_vgpr_count",
        _launch_facts().cast(NAME).alias("details"),
    )
    joined = _join_agents(rows, events, agents, "agent_id").join(
        symbols, on="kernel_id", how="left", maintain_order="left"
    )
    total, static = pl.col("group_segment_size"), pl.col("static")
    is_splittable = total >= static
    return joined.select(
        pl.lit("kernel").cast(NAME).alias("kind"),
        "name",
        "short_name",
        *_common(),
        *(
            (pl.col(f"grid_size_{axis}") / pl.when(pl.col(f"workgroup_size_{axis}") > 0).then(f"workgroup_size_{axis}"))
            .ceil()
            .cast(pl.Int64, strict=False)
            .alias(f"grid_{axis}")
            for axis in "xyz"
        ),
        *(pl.col(f"workgroup_size_{axis}").alias(f"block_{axis}") for axis in "xyz"),
        registers=pl.col("arch_vgpr_count"),
        static_shared_bytes=pl.when(is_splittable).then(static),
        dynamic_shared_bytes=pl.when(is_splittable).then(total - static),
        shared_bytes=pl.when(~is_splittable.fill_null(False)).then(total),
        arguments=_region_facts(recording, joined),
    )


def read_copies(recording: RocpdRecording, events: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Return copies, as `read_kernels`; the GPU of a copy is its target if that is a GPU, otherwise its source."""
    rows = recording.frame("memory_copy", _COPY)
    name = recording.texts(rows["name_id"])
    source = agents.select(pl.col("agent_id").alias("src_agent_id"), pl.col("device").alias("source"))
    joined = _join_agents(rows.with_columns(name=name), events, agents, "dst_agent_id").join(
        source, on="src_agent_id", how="left", maintain_order="left"
    )
    directions = pl.col("name").cast(pl.String).str.extract_groups(r"(HOST|DEVICE)_TO_(HOST|DEVICE)")
    ends = [directions.struct.field(group).str.slice(0, 1) for group in ("1", "2")]
    return joined.with_columns(device=pl.coalesce("device", "source")).select(
        pl.lit("memcpy").cast(NAME).alias("kind"),
        pl.col("name"),
        pl.col("name").alias("short_name"),
        *_common(),
        size_bytes=pl.col("size"),
        copy_kind=(ends[0] + "to" + ends[1]).cast(NAME),
        arguments=_region_facts(recording, joined.with_columns(details=pl.lit(None, NAME))),
    )


def _join_agents(rows: pl.DataFrame, events: pl.DataFrame, agents: pl.DataFrame, agent: str) -> pl.DataFrame:
    """Return rows with the stack of their event and the device of an agent."""
    device = agents.select(pl.col("agent_id").alias(agent), "device")
    return rows.join(events.select("event_id", "stack"), on="event_id", how="left", maintain_order="left").join(
        device, on=agent, how="left", maintain_order="left"
    )


def _common() -> tuple[pl.Expr, ...]:
    return (
        pl.col("start").alias("start_ns"),
        (pl.col("end") - pl.col("start")).alias("duration_ns"),
        pl.col("device"),
        pl.coalesce("stream_id", "queue_id").alias("stream"),
        pl.col("stack").alias("correlation"),
        pl.col("event_id"),
        pl.col("pid").alias("process_row"),
    )


def _launch_facts() -> pl.Expr:
    """Return facts without a column of their own, as text."""
    details = (
        pl.when(pl.col(column) > 0).then(pl.format(f"{label}: {{}}", column))
        for label, column in (("Accumulation VGPRs", "accum_vgpr_count"), ("SGPRs", "sgpr_count"))
    )
    return pl.concat_str(*details, separator="; ", ignore_nulls=True).replace("", None)


def _region_facts(recording: RocpdRecording, rows: pl.DataFrame) -> pl.Series:
    """Return facts, with the roctx range that the recording assigns to the work."""
    table = pl.DataFrame({"details": rows["details"], "region": recording.texts(rows["region_name_id"])})
    distinct = table.unique(maintain_order=True)
    text = pl.concat_str(
        pl.col("details").cast(pl.String),
        pl.format("roctx range: {}", pl.col("region").cast(pl.String)),
        separator="; ",
        ignore_nulls=True,
    )
    texts = distinct.with_columns(text.replace("", None).cast(NAME).alias("text"))
    return table.join(texts, on=["details", "region"], how="left", nulls_equal=True, maintain_order="left")["text"]


_BASE: Final = "rocpd_"
_KEY: Final = "rocpd_string"
"""A table that every recording has."""
_MAX_RECORDINGS: Final = 1000


def recordings(database: Database) -> list[str]:
    """Return the suffix of the table names of each recording; empty for plain names."""
    return sorted(name[len(_KEY) :] for name in database.tables if fold_case(name).startswith(_KEY))[:_MAX_RECORDINGS]


class RocpdRecording:
    """The tables of one recording."""

    def __init__(self, database: Database, suffix: str) -> None:
        self._database = database
        self._suffix = suffix
        self._strings = self.strings("string")

    def frame(self, table: str, schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
        """Return columns of a table, by its name without ``rocpd_`` and suffix."""
        return self._database.frame(f"{_BASE}{table}{self._suffix}", schema)

    def count(self, table: str) -> int:
        """Return rows of a table."""
        return self._database.count(f"{_BASE}{table}{self._suffix}")

    def texts(self, numbers: pl.Series, strings: pl.DataFrame | None = None) -> pl.Series:
        """Return the strings of these ids as names; a missing or empty string is null.

        Args:
            numbers: The ids.
            strings: The table of strings, as `strings` returns it; None: the usual one.
        """
        strings = (self._strings if strings is None else strings).filter(
            pl.col("id").is_in(numbers.unique().drop_nulls().implode()), pl.col("string") != ""
        )
        names = strings.with_columns(pl.col("string").cast(NAME))
        return numbers.to_frame("id").join(names, on="id", how="left", maintain_order="left")["string"]

    def strings(self, table: str) -> pl.DataFrame:
        """Return a table of strings."""
        return self.frame(table, {"id": pl.Int64, "string": pl.String}).unique("id", keep="first")

    def events(self) -> pl.DataFrame:
        """Return the common columns of calls and GPU work: event, category, stack (null instead of 0), extdata.

        The stack is the number that a call shares with what it launched.
        """
        rows = self.frame(
            "event",
            {"id": pl.Int64, "category_id": pl.Int64, "stack_id": pl.Int64, "correlation_id": pl.Int64}
            | {"extdata": pl.String},
        ).unique("id", keep="first", maintain_order=True)
        stack = pl.coalesce(*(pl.when(pl.col(name) != 0).then(name) for name in ("stack_id", "correlation_id")))
        return rows.select(
            pl.col("id").alias("event_id"),
            self.texts(rows["category_id"]).cast(pl.String).alias("category"),
            stack.alias("stack"),
            "extdata",
        )

    def ids(self, table: str, number: str) -> pl.DataFrame:
        """Return the ids of processes or threads in the tables, and those of the system."""
        rows = self.frame(f"info_{table}", {"id": pl.Int64, number: pl.Int64})
        return rows.unique("id", keep="first").rename({"id": f"{table}_row", number: f"{table}_id"})


_REGION: Final = dict.fromkeys(("pid", "tid", "start", "end", "name_id", "event_id"), pl.Int64)
_SAMPLE: Final = {"track_id": pl.Int64, "timestamp": pl.Int64, "event_id": pl.Int64}
_TRACK: Final = {"id": pl.Int64, "pid": pl.Int64, "tid": pl.Int64, "name_id": pl.Int64}
_MARKERS: Final = r"(?i)marker|roctx"
_PROCESS_WIDE: Final = r"(?i)roctxRangeSt(?:art|op)"
"""Ranges that may begin and end on different threads, in any order."""


def read_calls(recording: RocpdRecording, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return calls and ranges, each with columns of the model, times as recorded, and ``process_row``."""
    regions = recording.frame("region", _REGION)
    # Events without duration are stored as samples of a track.
    tracks = recording.frame("track", _TRACK).unique("id", keep="first").rename({"id": "track_id"})
    samples = (
        recording.frame("sample", _SAMPLE)
        .join(tracks, on="track_id", how="left", maintain_order="left")
        .select("pid", "tid", start="timestamp", end="timestamp", name_id="name_id", event_id="event_id")
    )
    rows = pl.concat([regions, samples])
    threads = recording.ids("thread", "tid").rename({"thread_row": "tid", "thread_id": "thread"})
    processes = recording.ids("process", "pid").rename({"process_row": "pid", "process_id": "process"})
    rows = (
        rows.with_columns(name=recording.texts(rows["name_id"]))
        .join(events, on="event_id", how="left", maintain_order="left")
        .join(threads, on="tid", how="left", maintain_order="left")
        .join(processes, on="pid", how="left", maintain_order="left")
        .with_columns(
            start_ns=pl.col("start"),
            duration_ns=pl.col("end") - pl.col("start"),
            process_row=pl.col("pid"),
            correlation=pl.col("stack"),
        )
        .with_columns(pid=pl.col("process"), tid=pl.col("thread"))
    )
    is_marker = pl.col("category").str.contains(_MARKERS).fill_null(False)
    columns = ("name", "start_ns", "duration_ns", "pid", "tid", "process_row")
    calls = rows.filter(~is_marker).select(*columns, "correlation")
    markers = rows.filter(is_marker)
    message = pl.Series(map_json(markers["extdata"], lambda value: _message(value.get("message"))), dtype=pl.String)
    is_thread_range = ~pl.col("name").cast(pl.String).str.contains(_PROCESS_WIDE).fill_null(False)
    ranges = markers.with_columns(tid=pl.when(is_thread_range).then("tid"), message=message).with_columns(
        name=pl.coalesce("message", pl.col("name").cast(pl.String)).cast(NAME)
    )
    return calls, ranges.select(columns)


def _message(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


V1_FORMAT: Final = Format(
    name=V1_DATABASE,
    title="rocprof database",
    recognized_by="an SQLite database with rocprof's tables (HIP, OPS, COPY, KERN)",
    feeds=("sessions", "activities", "api_calls", "issues"),
    record_with="rocprof --hip-trace ./app",
)

_CALL: Final = {
    "BeginNs": pl.Int64,
    "EndNs": pl.Int64,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "Name": pl.String,
    "args": pl.String,
    "Index": pl.Int64,
}
_V1_WORK: Final = {
    "BeginNs": pl.Int64,
    "EndNs": pl.Int64,
    "dev-id": pl.Int64,
    "queue-id": pl.Int64,
    "stream-id": pl.Int64,
    "Name": pl.String,
    "pid": pl.Int64,
    "Index": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class _RocprofDatabase:
    """rocprof's results.db as a format of SQLite databases."""

    format: Format = V1_FORMAT

    def claims(self, database: Database) -> bool:
        return any(database.has(table, "BeginNs", "EndNs", "Name") for table in ("OPS", "COPY", "HIP"))

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add each process as a session.

        Raises:
            ProftuiError: Nothing was recorded.
        """
        calls = database.frame("HIP", _CALL)
        kernels, copies = database.frame("OPS", _V1_WORK), database.frame("COPY", _V1_WORK)
        starts = pl.concat([frame["BeginNs"] for frame in (calls, kernels, copies)]).drop_nulls()
        if starts.is_empty():
            raise ProftuiError(
                f"{database.display_name}: an empty rocprof database: no kernels, memcpys or calls",
                f"profile again with: {V1_FORMAT.record_with}",
            )
        origin = int(starts.min())  # type: ignore[arg-type]

        def build(calls: pl.DataFrame, kernels: pl.DataFrame, copies: pl.DataFrame) -> ProcessFrames:
            return *_work_and_calls(calls, kernels, copies, origin), None

        add_processes(V1_FORMAT.name, "rocprof", (calls, kernels, copies), build, collector)
        collector.issue("info", None, "", ORIGIN_REASON.format(origin))
        if kernels.height:
            collector.issue(
                "info", None, "", "the database has no grids, workgroups or registers: results.csv has them"
            )
        source.keep_going(collector.row_count)


def _work_and_calls(
    calls: pl.DataFrame, kernels: pl.DataFrame, copies: pl.DataFrame, origin: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the activities and API calls of one process, columns of the model."""
    # The arguments of a copy include its size; a call and the work it launched have the same index.
    sizes = calls.select("Index", size_bytes=number_in(pl.col("args"), r"sizeBytes\(([0-9]{1,18})\)"))
    sizes = sizes.drop_nulls().unique("Index", keep="none")
    short = {name: short_name(name) for name in kernels["Name"].unique().drop_nulls()}
    work = pl.concat(
        [
            kernels.select(
                *_common_v1_columns(origin),
                pl.lit("kernel").cast(NAME).alias("kind"),
                pl.col("Name").replace(short).cast(NAME).alias("short_name"),
            ),
            copies.join(sizes, on="Index", how="left", maintain_order="left").select(
                *_common_v1_columns(origin),
                "size_bytes",
                pl.lit("memcpy").cast(NAME).alias("kind"),
                pl.col("Name").cast(NAME).alias("short_name"),
                map_distinct(copies["Name"], copy_kind, NAME).alias("copy_kind"),
            ),
        ],
        how="diagonal",
    )
    names = pl.col("Name").cast(NAME).alias("name")
    return work, calls.select(names, *_span(origin), "pid", "tid", correlation="Index")


def _span(origin: int) -> tuple[pl.Expr, pl.Expr]:
    return (pl.col("BeginNs") - origin).alias("start_ns"), (pl.col("EndNs") - pl.col("BeginNs")).alias("duration_ns")


def _common_v1_columns(origin: int) -> tuple[pl.Expr, ...]:
    return (
        pl.col("Name").cast(NAME).alias("name"),
        *_span(origin),
        pl.col("dev-id").cast(pl.Int32, strict=False).alias("device"),
        pl.coalesce("stream-id", "queue-id").alias("stream"),
        pl.col("Index").alias("correlation"),
    )


ROCPROF_DATABASE: Final = _RocprofDatabase()

RPD_FORMAT: Final = Format(
    name="rpd",
    title="rocmProfileData trace (RPD)",
    recognized_by="an SQLite database with the tables rocpd_api, rocpd_op and rocpd_string",
    feeds=("sessions", "activities", "api_calls", "ops", "ranges", "issues"),
    record_with="runTracer.sh -o trace.rpd ./app",
)

_RPD_API: Final = dict.fromkeys(("id", "pid", "tid", "start", "end", "apiName_id", "args_id"), pl.Int64)
_RPD_OP: Final = dict.fromkeys(("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"), pl.Int64)
_RPD_LAUNCH: Final = {
    "api_ptr_id": "api_id",
    "kernelName_id": "description_id",
    **{f"workgroup{axis.upper()}": f"block_{axis}" for axis in "xyz"},
}
_RPD_KINDS: Final = {"barrier|marker": "barrier", "copy": "memcpy", "fill|memset": "memset"}
"""Kinds of the model, and barriers, by pattern of the type; all other types are kernels."""
_RPD_MARKER: Final = "UserMarker"


@dataclass(frozen=True, slots=True)
class _RpdTrace:
    """Traces of rocmProfileData as a format of SQLite databases."""

    format: Format = RPD_FORMAT

    def claims(self, database: Database) -> bool:
        return database.has("rocpd_api", "start", "apiName_id") and database.has("rocpd_op", "start", "opType_id")

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add each process as a session.

        Raises:
            ProftuiError: Nothing was recorded.
        """
        recording = RocpdRecording(database, "")
        api, work = recording.frame("api", _RPD_API), recording.frame("op", _RPD_OP)
        start = pl.concat([api["start"], work["start"]]).min()
        if not isinstance(start, int):
            raise ProftuiError(
                f"{database.display_name}: an empty rocmProfileData trace: no kernels, memcpys or calls",
                f"profile again with: {RPD_FORMAT.record_with}",
            )
        texts = recording.strings("ustring") if "rocpd_ustring" in database.tables else None
        span = (pl.col("start") - start).alias("start_ns"), (pl.col("end") - pl.col("start")).alias("duration_ns")
        api = api.with_columns(*span, name=recording.texts(api["apiName_id"])).rename({"id": "api_id"})
        is_marker = (pl.col("name").cast(pl.String) == _RPD_MARKER).fill_null(False)
        markers = api.filter(is_marker)
        ranges = markers.with_columns(name=recording.texts(markers["args_id"], texts))
        columns = ("name", "start_ns", "duration_ns", "pid", "tid")
        calls = api.filter(~is_marker).select(*columns, correlation="api_id")
        work = _rpd_work(recording, work.with_columns(*span), api.select("api_id", "pid"))
        is_barrier = pl.col("kind") == "barrier"
        barriers = work.filter(is_barrier).height

        def build(work: pl.DataFrame, calls: pl.DataFrame, ranges: pl.DataFrame) -> ProcessFrames:
            return work.drop("pid"), calls, ranges if ranges.height else None

        frames = (work.filter(~is_barrier), calls, ranges.select(columns))
        add_processes(RPD_FORMAT.name, "rocmProfileData", frames, build, collector)
        collector.issue("info", None, "", ORIGIN_REASON.format(start))
        if barriers:
            collector.issue("info", None, "", f"in the file but not in any view: barriers ({barriers})")
        if work["block_x"].count():
            reason = "no grids: the file does not say whether it counts blocks or threads"
            collector.issue("info", None, "", reason)
        source.keep_going(collector.row_count)


def _rpd_work(recording: RocpdRecording, rows: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Return activities with columns of the model, and ``pid``; and barriers, which are a kind of their own."""
    calls = recording.frame("api_ops", {"api_id": pl.Int64, "op_id": pl.Int64}).unique("op_id", keep="first")
    launches = recording.frame("kernelapi", dict.fromkeys(_RPD_LAUNCH, pl.Int64)).rename(_RPD_LAUNCH)
    copies = recording.frame("copyapi", {"api_ptr_id": pl.Int64, "size": pl.Int64}).rename({"api_ptr_id": "api_id"})
    types = recording.texts(rows["opType_id"])
    names = recording.texts(rows["description_id"]).fill_null(types)
    texts, launch = types.cast(pl.String), ["api_id", "description_id"]
    kinds = [pl.when(texts.str.contains(f"(?i){sign}")).then(pl.lit(kind)) for sign, kind in _RPD_KINDS.items()]
    rows = (
        rows.with_columns(
            name=names,
            kind=pl.coalesce(*kinds, pl.lit("kernel")).cast(NAME),
            copy_kind=map_distinct(types, copy_kind, NAME),
        )
        .join(calls, left_on="id", right_on="op_id", how="left", maintain_order="left")
        .join(processes.unique("api_id", keep="first"), on="api_id", how="left", maintain_order="left")
        .join(launches.unique(launch, keep="first"), on=launch, how="left", maintain_order="left")
        .join(copies.unique("api_id", keep="first"), on="api_id", how="left", maintain_order="left")
    )
    # The size is that of a call, which may have made several copies.
    is_whole = (pl.col("kind") == "memcpy") & (pl.len().over("api_id") == 1) & (pl.col("size") > 0)
    return rows.select(
        *("kind", "name", "start_ns", "duration_ns", "copy_kind", "pid", "block_x", "block_y", "block_z"),
        map_distinct(names, short_name, NAME).alias("short_name"),
        device=pl.col("gpuId").cast(pl.Int32, strict=False),
        stream="queueId",
        correlation="api_id",
        size_bytes=pl.when(is_whole).then("size"),
    )


RPD_TRACE: Final = _RpdTrace()
