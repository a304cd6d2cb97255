"""rocpd, the database of rocprofv3: every process of every recording in it is a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.linking.whole_run import linked
from tui.loaders.of_model import of_model
from tui.loaders.rocpd.agents import read_agents
from tui.loaders.rocpd.calls import read_calls
from tui.loaders.rocpd.counters import read_counters
from tui.loaders.rocpd.gpu_work import read_copies, read_kernels
from tui.loaders.rocpd.tables import Recording, recordings
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.source import Source
    from tui.loaders.sqlite.database import Database

FORMAT: Final = Format(
    name="rocpd",
    title="rocprofv3 database (rocpd)",
    recognised_by="an SQLite database with tables rocpd_string_..., rocpd_kernel_dispatch_...",
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
                f"{database.called}: a rocprofv3 database in which nothing was recorded: it has no kernels, copies, "
                "calls or ranges",
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
        found = linked(mine["activities"], mine["api_calls"], ranges_of_process, session, collector, kind="roctx range")
        found["metrics"] = mine["metrics"]
        collector.add_frames({"devices": of_model("devices", agents, collector), **_allof_model(found, collector)})
    if len(known) > 1:
        _tell_of_others(frames, [process["id"] for process in known], processes.height, collector)
    collector.issue("info", None, "", f"times count from the first event, at {origin} ns of the machine's own clock")
    allocations = recording.count("memory_allocate")
    if allocations:
        collector.issue(
            "info", None, "", f"the database also holds what no view shows: allocations of memory ({allocations})"
        )


def _tell_of_others(frames: Frames, shown: list[int], processes: int, collector: Collector) -> None:
    """Tell of rows of no process that is a session: they would be mixed with those of others."""
    others = pl.col("process_row").is_null() | ~pl.col("process_row").is_in(shown)
    count = sum(frame.select(others.sum()).item() for frame in frames.values())
    if count:
        named = f"{processes:,} processes, of which {len(shown)} are shown" if processes > len(shown) else ""
        session, collector.session = collector.session, None
        collector.issue("error", None, named, f"rows of no process that is shown were left out: {count:,}")
        collector.session = session


def _allof_model(frames: Frames, collector: Collector) -> Frames:
    return {name: of_model(name, data, collector) for name, data in frames.items()}


ROCPD: Final = _Rocpd()
