"""Reads an Nsight Systems export (SQLite or Parquet): one session per process."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.iteration_ranges import mark_steps
from tui.correlation.launches import add_launch_columns, add_wait_columns, iterations_at_times, link_ops
from tui.correlation.plausible_times import drop_outlier_times, dropped_times_text
from tui.loaders.base import Format
from tui.loaders.cupti import add_overhead
from tui.loaders.nsys.export_tables import CALLS, COPIES, KERNELS, STRINGS, StringIds, Tables, pid_of_process
from tui.loaders.nsys.export_tables import RANGES as NVTX_EVENTS
from tui.loaders.nsys.nsys_activities import NvtxEvents, api_calls, gpu_work, overhead, waits
from tui.loaders.nsys.recording_facts import (
    Recording,
    devices_frame,
    process_names,
    recording,
    report_call_issues,
    report_range_issues,
    report_recording_issues,
    report_skipped_events,
    report_work_issues,
)
from tui.loaders.nvtx_ops import ops_from_ranges
from tui.loaders.sqlite.database import CaselessNames
from tui.model.errors import ProftuiError
from tui.model.schema import ACTIVITIES, API_CALLS, RANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tui.loaders.collector import Collector
    from tui.loaders.input_file import InputFile
    from tui.loaders.sqlite.database import Database


TOOL: Final = "Nsight Systems"
_UNKNOWN_PROCESS: Final = -1
"""The process of rows without one."""
_SINCE_1970_NS: Final = 10**18
"""Later times (after 2001) are Unix times."""
_MAX_PROCESSES: Final = 1000
"""The maximum number of processes that are shown."""
_MAX_LISTED_TABLES: Final = 6


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of all processes, with ``process``."""

    work: pl.DataFrame
    calls: pl.DataFrame
    ranges: pl.DataFrame
    overhead: pl.DataFrame

    def by_process(self, processes: Sequence[int]) -> Iterator[_Rows]:
        """Yield the rows of each process, in the order of the processes."""
        if len(processes) == 1:
            yield self
            return
        split = [(part.partition_by("process", as_dict=True), part.clear()) for part in self.frames()]
        for process in processes:
            yield _Rows(*(parts.get((process,), none) for parts, none in split))

    def frames(self) -> tuple[pl.DataFrame, ...]:
        """Return the frames, in the order of the fields."""
        return self.work, self.calls, self.ranges, self.overhead


def read_export(
    tables: Tables, collector: Collector, format_name: str, keep_going: Callable[[int], bool], *, export_hint: str
) -> None:
    """Add the content of an export to a collector.

    Args:
        tables: The export.
        collector: Gets a session for each process with GPU work, API calls or NVTX ranges; those with GPU work first.
        format_name: The format of the sessions.
        keep_going: Gets the number of rows; if it returns False, reading stops and the profile is partial.
        export_hint: The command that exports again, for an error message.

    Raises:
        ProftuiError: It has no GPU work, API calls or ranges.
    """
    facts = recording(tables)
    strings = StringIds(tables)
    work, calls = gpu_work(tables, strings, collector.preview), api_calls(tables, strings)
    calls = add_wait_columns(calls, waits(tables, calls), keys=("process", "correlation"))
    events = NvtxEvents(tables, strings)
    rows = _Rows(work, calls, events.ranges, overhead(tables, strings))
    should_continue = keep_going(rows.work.height + rows.calls.height + rows.ranges.height)
    processes = _processes(rows)
    if not processes and not should_continue:
        raise ProftuiError(f"{tables.display_name}: stopped before anything was read")
    if not processes:
        raise _no_profile(tables, facts, export_hint)
    rows = _assign_processes(rows, processes)
    names = process_names(tables, strings)
    shown = processes[:_MAX_PROCESSES]
    for process, process_rows in zip(shown, rows.by_process(processes), strict=False):
        command = names.get(process) or (facts.command if len(processes) == 1 else None)
        session = collector.open_session(format_name, None, pid=_pid(process), command=command)
        session.facts.update(
            tool=TOOL,
            tool_version=facts.tool_version,
            host=facts.host,
            driver_version=facts.driver_version,
            cuda_version=facts.cuda_version,
            origin_ns=_origin(facts, process_rows),
        )
        collector.resolution(1)
        session.facts["iteration_source"] = _add_process(process_rows, process, collector)
        collector.add_frame("devices", devices_frame(tables, process, process_rows.work["device"]))
        keep_going(collector.row_count)
    if len(processes) > _MAX_PROCESSES:
        collector.session = None
        collector.issue(
            "error",
            None,
            f"{len(processes):,} processes",
            f"only the first {_MAX_PROCESSES:,} are shown",
        )
    report_recording_issues(tables, collector, processes)
    report_skipped_events(tables, rows.overhead, events, processes, collector)


def _add_process(rows: _Rows, process: int, collector: Collector) -> str | None:
    """Add the frames of one process; returns the source of its iterations."""
    pid = pl.lit(_pid(process), pl.Int64).alias("pid")
    plausible_frames, dropped = drop_outlier_times(*rows.frames())
    rows = _Rows(*plausible_frames)
    if dropped:
        collector.issue("warning", None, "", dropped_times_text(dropped))
    calls = rows.calls.with_columns(pid)
    report_call_issues(calls, collector)
    ranges = rows.ranges.with_columns(pid).sort("start_ns", nulls_last=True, maintain_order=True)
    steps = mark_steps(
        ranges.with_columns(pl.lit(None, pl.Int32).alias("iteration"), pl.lit(None, pl.Int32).alias("depth"))
    )
    marked = steps.ranges
    report_range_issues(marked, collector)
    work = rows.work if rows.work["start_ns"].is_sorted() else rows.work.sort("start_ns", nulls_last=True)
    work = add_launch_columns(work, calls)
    report_work_issues(work, collector)
    nvtx_ops = ops_from_ranges(marked.filter("push_pop").drop("process", "push_pop"))
    if nvtx_ops.error:
        collector.issue("error", None, "NVTX_EVENTS", f"NVTX ranges not converted to ops: {nvtx_ops.error}")
    ops = nvtx_ops.ops
    if ops.height:
        work = link_ops(work, ops, nvtx_ops.nesting)
    marked = pl.concat([nvtx_ops.ranges, marked.filter(~pl.col("push_pop")).select(nvtx_ops.ranges.columns)])
    marked = marked.sort("start_ns", nulls_last=True, maintain_order=True)
    marks = marked.filter(pl.col("iteration").is_not_null())
    if marks.height:
        work = work.with_columns(iterations_at_times(marks, work["launch_ns"]))
    frames = {
        "activities": work.select(name for name in ACTIVITIES if name in work.columns),
        "api_calls": calls.select(name for name in API_CALLS if name in calls.columns),
        "ranges": marked.select(name for name in RANGES if name in marked.columns),
    }
    if ops.height:
        frames["ops"] = ops.drop("session")
    collector.add_frames(frames)
    add_overhead(rows.overhead, work, TOOL, collector)
    return steps.source


def _processes(rows: _Rows) -> list[int]:
    """Return the processes with events, those with GPU work first."""
    counts = (
        pl.concat(
            [
                rows.work.select("process", work=1, all=1),
                rows.calls.select("process", work=0, all=1),
                rows.ranges.select("process", work=0, all=1),
            ]
        )
        .group_by("process")
        .agg((pl.col("work").sum() > 0).alias("worked"))
        .sort("worked", "process", descending=[True, False], nulls_last=True)
    )
    return [_UNKNOWN_PROCESS if process is None else process for process in counts["process"]]


def _assign_processes(rows: _Rows, processes: list[int]) -> _Rows:
    """Assign rows without a process to the only process, or to a separate one if there are several."""
    known_processes = [process for process in processes if process != _UNKNOWN_PROCESS]
    filled = pl.col("process").fill_null(known_processes[0] if len(known_processes) == 1 else _UNKNOWN_PROCESS)
    if len(known_processes) == 1:
        processes[:] = known_processes
    return _Rows(*(frame.with_columns(filled) for frame in rows.frames()))


def _pid(process: int) -> int | None:
    return None if process == _UNKNOWN_PROCESS else pid_of_process(process)


def _origin(facts: Recording, rows: _Rows) -> int | None:
    """Return the Unix time of time 0; exports with normalized times count from 1970."""
    starts = [frame["start_ns"].min() for frame in (rows.work, rows.calls, rows.ranges)]
    known_starts = [start for start in starts if isinstance(start, int)]
    return 0 if known_starts and min(known_starts) > _SINCE_1970_NS else facts.origin_ns


def _no_profile(tables: Tables, facts: Recording, export_hint: str) -> ProftuiError:
    table_names = ", ".join(sorted(tables.tables)[:_MAX_LISTED_TABLES]) or "none"
    if facts.is_finished:
        return ProftuiError(
            f"{tables.display_name}: no GPU work, API calls or NVTX ranges in this Nsight Systems export "
            f"(tables: {table_names})",
            "record again with: nsys profile --trace cuda,nvtx",
        )
    return ProftuiError(
        f"{tables.display_name}: an incomplete Nsight Systems export, without GPU work, API calls or NVTX ranges "
        f"(tables: {table_names})",
        f"export again: {export_hint}",
    )


FEEDS: Final = ("devices", "activities", "api_calls", "ops", "ranges", "tool_figures")

REPORT_SUFFIXES: Final = (".nsys-rep", ".qdrep")
_PACKED: Final = (".gz", ".bz2", ".xz", ".zst")

RECORD: Final = "nsys profile --trace cuda,nvtx -o run ./app; nsys export --type sqlite -o run.sqlite run.nsys-rep"


class NsysDatabase:
    """The SQLite export as a format of databases."""

    format: Final = Format(
        name="nsys-sqlite",
        title="Nsight Systems SQLite export",
        recognized_by="an SQLite database with the table StringIds, and CUPTI activity tables or NVTX_EVENTS",
        feeds=FEEDS,
        record_with=RECORD,
    )

    def claims(self, database: Database) -> bool:
        """Return whether the tables are of Nsight Systems; a failed export may have only the string table."""
        names = CaselessNames((*database.tables, *database.views, *database.virtual_tables))
        return (STRINGS in names and "StringTable" not in names) or all(
            table in names for table in (KERNELS, COPIES, CALLS, NVTX_EVENTS)
        )

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add the export to the collector.

        Raises:
            ProftuiError: It has no events: the export failed, or nothing was traced.
        """
        read_export(
            database, collector, self.format.name, source.keep_going, export_hint=export_command(source.display_name)
        )
        report = newer_report(Path(source.name))
        if report is not None:
            collector.session = None
            reason = (
                "the report is newer than this export, which may be of an earlier recording; export again: "
                f"{export_command(str(report))}"
            )
            collector.issue("warning", None, report.name, reason)


def newer_report(export: Path) -> Path | None:
    """Return the report beside an export that is newer than it."""
    for suffix in REPORT_SUFFIXES:
        try:
            report = export.with_suffix(suffix)
            if report != export and report.stat().st_mtime > export.stat().st_mtime:
                return report
        except (OSError, ValueError):
            continue
    return None


def export_command(name: str) -> str:
    """Return the command that writes the export of a report; the name is the report's or the export's.

    >>> export_command("runs/a.sqlite.gz")
    'nsys export --type sqlite --force-overwrite true -o runs/a.sqlite runs/a.nsys-rep'
    >>> export_command("-a b.qdrep")
    "nsys export --type sqlite --force-overwrite true -o './-a b.sqlite' './-a b.qdrep'"
    """
    path = Path(name)
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    report = path if path.suffix in REPORT_SUFFIXES else path.with_suffix(REPORT_SUFFIXES[0])
    names = [f"./{file}" if str(file).startswith("-") else str(file) for file in (path.with_suffix(".sqlite"), report)]
    return shlex.join(["nsys", "export", "--type", "sqlite", "--force-overwrite", "true", "-o", *names])


NSYS_DATABASE: Final = NsysDatabase()
