"""Issues of an Nsight Systems export that users should know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.input_issues import missing_columns
from tui.loaders.nsys.cpu_events import failures
from tui.loaders.nsys.export_tables import ALWAYS_THERE, OVERHEAD, RANGES, SHOWN, STRINGS
from tui.loaders.nsys.nsys_activities import CPU_PAGE_FAULT
from tui.loaders.nsys.recording_facts import messages
from tui.loaders.sqlite.database import Names, folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.collector import Collector
    from tui.loaders.nsys.cpu_events import NvtxEvents
    from tui.loaders.nsys.export_tables import Tables

_MOST_FAILURES: Final = 20
_NAMED_TABLES: Final = 3
_KIND: Final = "CUPTI_ACTIVITY_KIND_"
"""How the names of most tables begin."""

_ABOUT: Final = (
    STRINGS,
    "ENUM_",
    "META_DATA_",
    "EXPORT_META_DATA",
    "TARGET_INFO_",
    "ANALYSIS_",
    "DIAGNOSTIC_EVENT",
    "PROCESSES",
    "Process",
    "ThreadNames",
    "NVTX_PAYLOAD",
    "sqlite_",
)
"""How the names of tables begin that tell of the recording, not of what was recorded."""


def report_call_issues(calls: pl.DataFrame, collector: Collector) -> None:
    """Which calls of a process failed, and how many have no times."""
    failed = failures(calls)
    for name, code, count in failed[:_MOST_FAILURES]:
        times = "once" if count == 1 else f"{count:,} times"
        collector.issue("warning", None, name, f"returned error {code} {times}")
    if len(failed) > _MOST_FAILURES:
        collector.issue(
            "warning", None, "", f"{len(failed) - _MOST_FAILURES:,} more calls and error codes are not listed"
        )
    no_time = calls["duration_ns"].null_count()
    if no_time:
        reason = f"{_counted(no_time, 'API call')} without times, or with an end before the start"
        collector.issue("warning", None, "", f"{reason}; listed without a duration")


def report_range_issues(ranges: pl.DataFrame, collector: Collector) -> None:
    """How many NVTX ranges of a process have no end or no text."""
    no_end = ranges.filter(pl.col("duration_ns").is_null())
    if no_end.height:
        collector.issue(
            "warning",
            None,
            str(no_end["name"].cast(pl.String)[0] or ""),
            f"{_counted(no_end.height, 'NVTX range')} without an end after the start, as where the recording ended "
            "within it; listed without a duration, and in no op",
        )
    no_name = ranges["name"].null_count()
    if no_name:
        collector.issue("warning", None, "NVTX_EVENTS", f"{_counted(no_name, 'NVTX range')} without a text")


def report_work_issues(work: pl.DataFrame, collector: Collector) -> None:
    """How much GPU work of a process has no times or no name."""
    is_moment = (pl.col("name") == CPU_PAGE_FAULT).fill_null(False) & pl.col("start_ns").is_not_null()
    no_time = work.filter(pl.col("duration_ns").is_null(), ~is_moment).height
    if no_time:
        collector.issue(
            "warning",
            None,
            "",
            f"{_counted(no_time, 'GPU activity')} without times, or with an end before the start; listed without a "
            "duration",
        )
    no_name = work["name"].null_count()
    if no_name:
        collector.issue("warning", None, STRINGS, f"{_counted(no_name, 'kernel')} whose name the export has lost")


def report_recording_issues(tables: Tables, collector: Collector, processes: Sequence[int]) -> None:
    """What the profiler itself reported, and which tables are not shown."""
    sessions = dict(zip(processes, collector.sessions, strict=False))
    for process, severity, text in messages(tables):
        session = sessions.get(process) if process is not None else None
        collector.session = session
        collector.issue(severity, None, text, "reported by Nsight Systems")
    collector.session = None
    shown, about = Names(SHOWN), tuple(map(folded, _ABOUT))
    others = sorted(
        table
        for table in tables.tables
        if table not in shown and not folded(table).startswith(about) and tables.count(table)
    )
    if others:
        # Copies of an export can have its names in other letters.
        short = [table[len(_KIND) :] if folded(table).startswith(folded(_KIND)) else table for table in others]
        named = ", ".join(short[:_NAMED_TABLES])
        more = f" and {len(others) - _NAMED_TABLES} more" if len(others) > _NAMED_TABLES else ""
        collector.issue("info", None, ", ".join(others), f"tables not shown in any view: {named}{more}")


def report_left_out_tables(
    tables: Tables, overhead: pl.DataFrame, events: NvtxEvents, processes: Sequence[int], collector: Collector
) -> None:
    """Which events no rows were made of, and which columns an export lacks that those of every version have.

    Args:
        tables: The export.
        overhead: Of all processes.
        events: The NVTX events.
        processes: Those that are sessions.
        collector: Gets the issues, which belong to no session.
    """
    for reason in events.left_out():
        collector.issue("info", None, RANGES, reason)
    others = overhead.filter(~pl.col("process").is_in(processes))["process"].n_unique()
    if others:
        reason = f"overhead of {_counted(others, 'process')} that did nothing else is left out"
        collector.issue("info", None, OVERHEAD, reason)
    no_time = overhead["duration_ns"].null_count()
    if no_time:
        collector.issue("info", None, OVERHEAD, f"{_counted(no_time, 'row')} of overhead without times left out")
    for table, reason in missing_columns(tables, ALWAYS_THERE):
        collector.issue("warning", None, table, reason)


def _counted(count: int, what: str) -> str:
    """As ``1 kernel`` or ``3 kernels``."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"1 {what}" if count == 1 else f"{count:,} {plural}"
