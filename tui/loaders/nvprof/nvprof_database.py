"""Loads nvprof's databases, versions 8 to 17: one session per process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.plausible_times import dropped_times_text
from tui.loaders.base import Format
from tui.loaders.collector import fit_to_model, link_run
from tui.loaders.cupti import add_overhead
from tui.loaders.nvprof.database_tables import (
    CHILDREN,
    SERIAL,
    TIMELINE,
    StringTable,
    read_calls,
    read_commands,
    read_copies,
    read_devices,
    read_graphs,
    read_kernels,
    read_memsets,
    read_metrics,
    read_overhead,
    read_ranges,
    read_unified_memory,
    relative_times,
)
from tui.loaders.sqlite.database import fold_case, missing_columns
from tui.model.errors import ProftuiError
from tui.text import plural

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.input_file import InputFile
    from tui.loaders.sqlite.database import Database

FORMAT: Final = Format(
    name="nvprof-database",
    title="nvprof database",
    recognized_by="an SQLite database with nvprof's tables (StringTable, Version, CUPTI_ACTIVITY_KIND_KERNEL, ...)",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "metrics", "tool_figures", "issues"),
    record_with="nvprof -o run.nvprof ./program",
)

_MAX_PROCESSES: Final = 256
"""The maximum number of processes; more are damage, and count as one."""

_REQUIRED_COLUMNS: Final = {
    **dict.fromkeys(
        (TIMELINE, SERIAL),
        ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "gridX", "blockX", "name"),
    ),
    **dict.fromkeys(
        (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("RUNTIME", "DRIVER")),
        ("cbid", "start", "end", "processId", "threadId", "correlationId"),
    ),
    **dict.fromkeys(
        (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("MEMCPY", "MEMSET")), ("bytes", "start", "end", "correlationId")
    ),
    "CUPTI_ACTIVITY_KIND_MARKER": ("flags", "timestamp", "id", "objectId", "name"),
    "CUPTI_ACTIVITY_KIND_OVERHEAD": ("overheadKind", "objectId", "start", "end"),
}
"""Columns of the tables in every version."""

_NOT_SHOWN: Final = {
    "CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS": "global memory accesses by source line",
    "CUPTI_ACTIVITY_KIND_SHARED_ACCESS": "shared memory accesses by source line",
    "CUPTI_ACTIVITY_KIND_BRANCH": "branches by source line",
    "CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION": "instructions by source line",
    "CUPTI_ACTIVITY_KIND_PC_SAMPLING": "PC samples",
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": "OpenACC data regions",
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": "OpenACC launches",
    "CUPTI_ACTIVITY_KIND_OPENACC_OTHER": "other OpenACC constructs",
    "CUPTI_ACTIVITY_KIND_OPENMP": "OpenMP regions",
}


@dataclass(frozen=True, slots=True)
class _NvprofDatabase:
    """nvprof's database as a format of SQLite databases."""

    format: Format = FORMAT

    def claims(self, database: Database) -> bool:
        return (
            database.has("StringTable", "_id_", "value")
            and "Version" in database.tables
            and any(fold_case(table).startswith("cupti_activity_kind_") for table in database.tables)
        )

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add each process as a session.

        Raises:
            ProftuiError: Nothing was recorded.
        """
        session = collector.open_session(FORMAT.name, None)
        strings = StringTable(database)
        devices = read_devices(database, strings)
        kernels, serialized = _read_kernels(database, strings, collector)
        metrics = read_metrics(database, kernels, devices)
        if replayed := serialized and metrics.height > 0:
            kernels = kernels.with_columns(start_ns=pl.lit(None, pl.Int64))
        activities = _read_activities(database, kernels, source)
        calls = read_calls(database)
        ranges, orphan_ends = read_ranges(database, strings)
        (activities, calls, ranges), origin, dropped = relative_times((activities, calls, ranges))
        overhead = read_overhead(database).with_columns(pl.col("start_ns") - (origin or 0))
        if not any(frame.height for frame in (activities, calls, ranges, metrics)):
            if source.stopped:
                return
            raise ProftuiError(
                f"{database.display_name}: an empty nvprof database{_version(database)}: no kernels, memcpys, "
                "CUDA calls or ranges",
                "profile again and let the program use the GPU and finish: nvprof -o run.nvprof ./program",
            )
        commands = read_commands(database, strings)
        owners = _owners(activities, calls, ranges, commands)
        for number, pid in enumerate(owners.pids):
            if number:
                session = collector.open_session(FORMAT.name, None)
            session.pid = pid
            session.command = commands.get(pid) if pid is not None else None
            session.facts.update(tool="nvprof", origin_ns=origin)
            if len(owners.pids) == 1:
                process_frames, process_overhead = (activities, calls, ranges), overhead
            else:
                process_frames = (
                    activities.filter(owners.activity_owners.eq_missing(pl.Series([pid], dtype=pl.Int64))),
                    calls.filter(pl.col("pid") == pid),
                    ranges.filter(pl.col("pid") == pid),
                )
                process_overhead = overhead.filter(pl.col("pid") == pid)
            _report_work_issues(process_frames[0], collector)
            frames = link_run(*process_frames, session, collector)
            frames["activities"] = fit_to_model("activities", frames["activities"], collector)
            add_overhead(process_overhead, process_frames[0], "nvprof", collector)
            if not number:
                frames["metrics"] = metrics
            collector.add_frames({"devices": devices, **frames})
            if not number:
                _report_issues(
                    database, collector, metrics.height, replayed=replayed, dropped=dropped, orphan_ends=orphan_ends
                )
                _report_unknown_processes(owners, calls, ranges, overhead, collector)


def _read_activities(database: Database, kernels: pl.DataFrame, source: InputFile) -> pl.DataFrame:
    """Return all GPU work, the kernels included; only the first kinds if reading is stopped."""
    parts = [kernels]
    for read in (read_copies, read_memsets, read_graphs, read_unified_memory):
        if not source.keep_going(sum(part.height for part in parts)):
            break
        parts.append(read(database))
    return pl.concat(parts, how="diagonal")


@dataclass(frozen=True, slots=True)
class _Owners:
    """The process of each row."""

    pids: tuple[int | None, ...]
    activity_owners: pl.Series
    ambiguous_count: int = 0
    """The number of activities assigned to the first process because their launch is ambiguous."""


def _owners(activities: pl.DataFrame, calls: pl.DataFrame, ranges: pl.DataFrame, commands: dict[int, str]) -> _Owners:
    """Assign GPU work to the process of its launching call, or to the first process without one."""
    pids = pl.concat([calls["pid"], ranges["pid"]]).drop_nulls().unique().sort().to_list()
    no_owner = pl.Series([None] * activities.height, dtype=pl.Int64)
    if len(pids) < 2 or len(pids) > _MAX_PROCESSES:
        only = pids[0] if len(pids) == 1 else next(iter(commands)) if len(commands) == 1 else None
        return _Owners((only,), no_owner)
    launching = (
        calls.group_by("correlation")
        .agg(pl.col("pid").n_unique().alias("processes"), pl.col("pid").first())
        .filter(pl.col("processes") == 1)
    )
    owner = activities.select("correlation", _owner_of_work(activities)).join(
        launching.select("correlation", "pid"), on="correlation", how="left", maintain_order="left"
    )
    owner_pid = pl.coalesce("owner", "pid")
    owners = owner.select(pl.when(owner_pid.is_in(pids)).then(owner_pid).alias("pid")).to_series()
    return _Owners(tuple(pids), owners.fill_null(pids[0]), owners.null_count())


def _owner_of_work(activities: pl.DataFrame) -> pl.Expr:
    return pl.col("owner") if "owner" in activities.columns else pl.lit(None, pl.Int64).alias("owner")


def _report_unknown_processes(
    owners: _Owners, calls: pl.DataFrame, ranges: pl.DataFrame, overhead: pl.DataFrame, collector: Collector
) -> None:
    """Report GPU work, calls, ranges and overhead whose process is unknown, if there are several processes."""
    if len(owners.pids) < 2:
        return
    if owners.ambiguous_count:
        reason = "their launching process is unknown: assigned to the first process"
        collector.issue("warning", None, f"GPU activities: {owners.ambiguous_count:,}", reason)
    skipped = calls["pid"].null_count() + ranges["pid"].null_count()
    if skipped:
        reason = f"{plural(skipped, 'call or range', 'calls and ranges')} without a process skipped"
        collector.issue("warning", None, "", reason)
    skipped_overhead = int((~overhead["pid"].is_in(owners.pids).fill_null(False)).sum())
    if skipped_overhead:
        records = plural(skipped_overhead, "overhead record")
        reason = f"{records} of no process with calls or ranges skipped: overhead is higher than shown"
        collector.issue("warning", None, "", reason)


def _read_kernels(database: Database, strings: StringTable, collector: Collector) -> tuple[pl.DataFrame, bool]:
    """Return kernels of all tables, and whether they were serialized, as for metrics."""
    timeline, serial, children = (read_kernels(database, strings, table) for table in (TIMELINE, SERIAL, CHILDREN))
    if timeline.height and serial.height:
        repeated = serial.join(timeline, on="correlation", how="semi", nulls_equal=False)
        if repeated.height:
            collector.issue(
                "info",
                None,
                "CUPTI_ACTIVITY_KIND_KERNEL",
                f"{plural(repeated.height, 'kernel')} of the timeline ran again for metrics: their time counts once",
            )
            serial = serial.join(timeline, on="correlation", how="anti", nulls_equal=False, maintain_order="left")
    return pl.concat([timeline, serial, children]), bool(serial.height) and not timeline.height


def _report_issues(
    database: Database, collector: Collector, metric_rows: int, *, replayed: bool, dropped: int, orphan_ends: int
) -> None:
    """Report limits of the figures."""
    if replayed:
        collector.issue(
            "warning",
            None,
            "",
            "kernels were serialized and replayed for each metric group: their start times form no timeline and "
            "are omitted",
        )
    if metric_rows:
        collector.issue(
            "info",
            None,
            "",
            "the database numbers metrics and events but has no names; to print the names: nvprof --import-profile "
            "FILE --csv",
        )
    if dropped:
        collector.issue("warning", None, "", dropped_times_text(dropped))
    if orphan_ends:
        collector.issue(
            "warning", None, "", f"{plural(orphan_ends, 'NVTX range')} without a start: recording began inside them"
        )
    for table, reason in missing_columns(database, _REQUIRED_COLUMNS):
        collector.issue("warning", None, table, reason)
    counts = {words: database.count(table) for table, words in _NOT_SHOWN.items()}
    if any(counts.values()):
        skipped = ", ".join(f"{words} ({count})" for words, count in counts.items() if count)
        collector.issue("info", None, "", f"in the database but not in any view: {skipped}")


def _report_work_issues(activities: pl.DataFrame, collector: Collector) -> None:
    """Report GPU work without times or names."""
    work = activities.filter(pl.col("kind").cast(pl.String).is_in(["kernel", "memcpy", "memset"]))
    for column, lost in (("duration_ns", "times"), ("name", "a name")):
        count = work[column].null_count()
        if count:
            activities_text = "1 GPU activity" if count == 1 else f"{count:,} GPU activities"
            collector.issue("warning", None, "", f"{activities_text} without {lost}")


def _version(database: Database) -> str:
    versions = database.frame("Version", {"version": pl.Int64})["version"].drop_nulls()
    return f" of version {versions[0]}" if len(versions) else ""


NVPROF_DATABASE: Final = _NvprofDatabase()
