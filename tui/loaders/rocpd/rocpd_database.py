"""Loads rocpd, the database of rocprofv3: one session per process of every recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.collector import fit_to_model
from tui.loaders.link_run import link_run
from tui.loaders.rocpd.rocpd_events import Recording, from_json, read_calls, read_copies, read_kernels, recordings
from tui.model.errors import ProftuiError
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.collector import Collector
    from tui.loaders.source import Source
    from tui.loaders.sqlite.database import Database


_VALUE: Final = {"event_id": pl.Int64, "pmc_id": pl.Int64, "value": pl.Float64}
_COUNTER: Final = {"id": pl.Int64, "name": pl.String, "description": pl.String, "units": pl.String}
_KERNEL: Final = ["device", "kernel", *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")]


def read_counters(recording: Recording, kernels: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Counters by kernel, grid and block: columns of the model, and ``process_row``; null of what is no kernel's.

    Those of the parts of a GPU are summed up.
    """
    values = recording.frame("pmc_event", _VALUE)
    counters = recording.frame("info_pmc", _COUNTER).unique("id", keep="first").rename({"id": "pmc_id"})
    called = agents.select("device", called=pl.format("{} ({})", "name", "device")).unique("device", keep="first")
    of_launch = kernels.select(
        "event_id", "process_row", "device", pl.col("name").alias("kernel"), *_KERNEL[2:]
    ).unique("event_id", keep="first")
    return (
        values.join(counters, on="pmc_id", how="left", maintain_order="left")
        .with_columns(metric=pl.coalesce("name", pl.format("counter {}", "pmc_id")))
        .group_by("event_id", "metric", maintain_order=True)
        .agg(pl.col("value").sum(), pl.col("description").first())
        .join(of_launch, on="event_id", how="left", maintain_order="left")
        .join(called, on="device", how="left", maintain_order="left")
        .with_columns(device=pl.col("called"))
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
_TOO_MUCH: Final = 1 << 50
"""A petabyte."""
_FACTS: Final = ("sm_count", "max_threads_per_sm", "shared_memory_per_sm_bytes", "memory_bytes")


def read_agents(recording: Recording) -> pl.DataFrame:
    """GPUs with columns of the model, and ``agent_id``; they are numbered as HIP numbers them."""
    rows = recording.frame("info_agent", _AGENT).filter(pl.col("type") == "GPU").unique("id", maintain_order=True)
    facts = pl.DataFrame(
        [dict.fromkeys(_FACTS) if one is None else one for one in from_json(rows["extdata"], _facts)],
        schema=dict.fromkeys(_FACTS, pl.Int64),
    )
    return rows.hstack(facts).select(
        pl.col("id").alias("agent_id"),
        pl.col("type_index").alias("device"),
        pl.coalesce(pl.col("product_name").replace("", None), pl.col("name")).alias("name"),
        pl.col("name").alias("compute_capability"),
        *_FACTS,
    )


def _facts(agent: Mapping[str, Any]) -> dict[str, int | None]:
    banks = agent.get("mem_banks")
    banks = banks if isinstance(banks, list) else []
    sizes = [_whole(bank.get("size_in_bytes")) for bank in banks if isinstance(bank, dict)]
    waves, width = _whole(agent.get("max_waves_per_cu")), _whole(agent.get("wave_front_size"))
    lds = _whole(agent.get("lds_size_in_kb"))
    return {
        "sm_count": _whole(agent.get("cu_count")),
        "max_threads_per_sm": _whole(waves * width) if waves and width else None,
        "shared_memory_per_sm_bytes": _whole(lds * 1024) if lds else None,
        "memory_bytes": _whole(sum(size for size in sizes if size)),
    }


def _whole(value: object) -> int | None:
    """A count; 0 stands for what is not known, and so does what no machine has."""
    return value if isinstance(value, int) and 0 < value < _TOO_MUCH else None


FORMAT: Final = Format(
    name="rocpd",
    title="rocprofv3 database (rocpd)",
    recognized_by="an SQLite database with tables rocpd_string_..., rocpd_kernel_dispatch_...",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "metrics", "issues"),
    record_with="rocprofv3 --kernel-trace --hip-trace --memory-copy-trace --marker-trace -f rocpd -- ./app",
)

_PROCESS: Final = {"id": pl.Int64, "pid": pl.Int64, "command": pl.String, "nid": pl.Int64}
_NODE: Final = {"id": pl.Int64, "hostname": pl.String}
_MOST_PROCESSES: Final = 256

Frames = dict[str, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class _Rocpd:
    """rocpd as a format of SQLite databases."""

    format: Format = FORMAT

    def claims(self, database: Database) -> bool:
        return any(f"rocpd_kernel_dispatch{ending}" in database.tables for ending in recordings(database))

    def read(self, database: Database, collector: Collector, source: Source) -> None:
        """Put each process into a session.

        Raises:
            ProftuiError: Nothing was recorded.
        """
        for ending in recordings(database):
            _read_recording(Recording(database, ending), collector)
            if not source.keep_going(collector.row_count):
                break
        if not collector.sessions and source.stopped:
            raise ProftuiError(f"{database.called}: stopped before anything was read")
        if not collector.sessions:
            raise ProftuiError(
                f"{database.called}: a rocprofv3 database without a record: no kernels, memcpys, calls or ranges",
                f"profile again with: {FORMAT.record_with}",
            )


def _read_recording(recording: Recording, collector: Collector) -> None:
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
    known = processes.head(_MOST_PROCESSES).rows(named=True)
    for process in known or [dict.fromkeys(_PROCESS)]:
        of_process = pl.lit(True) if len(known) < 2 else pl.col("process_row") == process["id"]
        mine = {name: frame.filter(of_process).drop("process_row") for name, frame in frames.items()}
        if len(known) > 1 and not any(frame.height for frame in mine.values()):
            continue
        session = collector.open_session(FORMAT.name, None, pid=process["pid"], command=process["command"])
        session.facts.update(tool="rocprofv3", host=hosts.get(process["nid"]))
        ranges_of_process = mine["ranges"] if mine["ranges"].height else None
        found = link_run(
            mine["activities"], mine["api_calls"], ranges_of_process, session, collector, kind="roctx range"
        )
        found["metrics"] = mine["metrics"]
        collector.add_frames(
            {"devices": fit_to_model("devices", agents, collector), **_fit_all_to_model(found, collector)}
        )
    if len(known) > 1:
        _report_other_processes(frames, [process["id"] for process in known], processes.height, collector)
    collector.issue("info", None, "", f"times count from the first event, at {origin} ns of the machine's own clock")
    allocations = recording.count("memory_allocate")
    if allocations:
        collector.issue(
            "info", None, "", f"in the database, but not shown in any view: allocations of memory ({allocations})"
        )


def _report_other_processes(frames: Frames, shown: list[int], processes: int, collector: Collector) -> None:
    """Tell of rows of no process that is a session: they would be mixed with those of others."""
    others = pl.col("process_row").is_null() | ~pl.col("process_row").is_in(shown)
    count = sum(frame.select(others.sum()).item() for frame in frames.values())
    if count:
        named = f"{processes:,} processes, of which {len(shown)} are shown" if processes > len(shown) else ""
        session, collector.session = collector.session, None
        collector.issue("error", None, named, f"rows of processes that are not shown were left out: {count:,}")
        collector.session = session


def _fit_all_to_model(frames: Frames, collector: Collector) -> Frames:
    return {name: fit_to_model(name, data, collector) for name, data in frames.items()}


ROCPD: Final = _Rocpd()
