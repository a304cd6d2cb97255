"""Facts of the recording in an export (versions, machine, processes, GPUs, messages), and issues about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nsys.export_tables import (
    OVERHEAD,
    RANGES,
    REQUIRED_COLUMNS,
    SHOWN,
    STRINGS,
    StringIds,
    Tables,
    process_expr,
)
from tui.loaders.nsys.nsys_activities import CPU_PAGE_FAULT, failures
from tui.loaders.sqlite.database import CaselessNames, fold_case, missing_columns
from tui.model.schema import DEVICES, conform
from tui.text import plural, short_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.loaders.collector import Collector
    from tui.loaders.nsys.nsys_activities import NvtxEvents


_THREADS_PER_WARP: Final = 32
_MIB: Final = 1 << 20
_LAUNCHER: Final = "nsys-launcher"
"""Names of a process before it executes the program."""

_SEVERITIES: Final = {2: "warning", 3: "error"}
"""Severities of Nsight's diagnostic messages."""
_IGNORED_SEVERITIES: Final = (1, 4)
"""The numbers of informational and debug messages."""

_OLD_DRIVER: Final = re.compile(r"[0-9]{6,8}")
_CUDA: Final = re.compile(r"[0-9]{4,6}")


@dataclass(frozen=True, slots=True)
class Recording:
    """Facts common to all processes."""

    tool_version: str | None
    """The version of Nsight Systems that wrote the export."""
    host: str | None
    driver_version: str | None
    cuda_version: str | None
    """The newest CUDA version that the driver supports."""
    origin_ns: int | None
    """The Unix time of time 0 of the recording."""
    command: str | None
    """The program that was started, if it is known."""
    is_finished: bool
    """Whether the export has the tables that are written last; a failed one has not."""


def recording(tables: Tables) -> Recording:
    """Read the facts common to all processes."""
    exported = {**_pairs(tables, "EXPORT_META_DATA"), **_pairs(tables, "META_DATA_EXPORT")}
    captured = _pairs(tables, "META_DATA_CAPTURE")
    machine = _pairs(tables, "TARGET_INFO_SYSTEM_ENV")
    start = tables.frame("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": pl.Int64})["utcEpochNs"].drop_nulls()
    shift = _integer(exported.get("EXPORT_CONFIG_TIME_SHIFT")) or 0
    origin = start[0] - shift if len(start) else None
    return Recording(
        tool_version=exported.get("EXPORT_PRODUCT_VERSION") or None,
        host=machine.get("Hostname") or None,
        driver_version=driver_version(machine.get("NvDriverVersion")),
        cuda_version=cuda_version(machine.get("CudaDriverVersion")),
        origin_ns=origin if origin is not None and 0 <= origin < 1 << 62 else None,
        command=captured.get("PROCESS_0:COMMAND") if "PROCESS_1:COMMAND" not in captured else None,
        is_finished=bool(exported),
    )


def driver_version(text: str | None) -> str | None:
    """Return the version of a driver; older exports write it as one number.

    >>> driver_version("4508002"), driver_version("580.95.05"), driver_version("0")
    ('450.80.02', '580.95.05', None)
    """
    if text is not None and _OLD_DRIVER.fullmatch(text):
        number = int(text)
        return f"{number // 10000}.{number // 100 % 100:02}.{number % 100:02}"
    return text if text and text != "0" else None


def cuda_version(text: str | None) -> str | None:
    """Return a CUDA version from its number.

    >>> cuda_version("11070"), cuda_version("0")
    ('11.7', None)
    """
    if text is None or not _CUDA.fullmatch(text):
        return None
    return f"{int(text) // 1000}.{int(text) % 1000 // 10}"


def process_names(tables: Tables, strings: StringIds) -> Mapping[int, str]:
    """Return the program of each process, by process name or by the name of its first thread."""
    threads = tables.frame("ThreadNames", {"globalTid": pl.Int64, "nameId": pl.Int64})
    threads = threads.with_columns(strings.of(threads["nameId"]).cast(pl.String).alias("name")).filter(
        (pl.col("globalTid") & 0xFFFFFF) == ((pl.col("globalTid") // (1 << 24)) & 0xFFFFFF)
    )
    processes = tables.frame("PROCESSES", {"globalPid": pl.Int64, "name": pl.String}).filter(
        pl.col("name") != _LAUNCHER, pl.col("name") != ""
    )
    names = pl.concat(
        [
            processes.select(process_expr("globalPid"), "name"),
            threads.filter(pl.col("name") != _LAUNCHER).select(process_expr("globalTid"), "name"),
        ]
    )
    return dict(names.drop_nulls().reverse().iter_rows())


def gpus(tables: Tables, process: int, used: pl.Series) -> pl.DataFrame:
    """Return the GPUs that a process used, columns of ``devices``.

    Args:
        tables: The export.
        process: As in `tui.loaders.nsys.export_tables.process_expr`.
        used: Their CUDA device numbers in this process.
    """
    machine_gpus = _gpus_of_machine(tables)
    pid = (process >> 24) & 0xFFFFFF
    numbers = tables.frame("TARGET_INFO_CUDA_DEVICE", {"gpuId": pl.Int32, "cudaId": pl.Int32, "pid": pl.Int64}).filter(
        pl.col("pid") == pid
    )
    used_gpus = pl.DataFrame({"device": used.unique().drop_nulls().sort().cast(pl.Int32)})
    if numbers.height:
        # CUDA numbers the GPUs that a process sees, chosen by CUDA_VISIBLE_DEVICES.
        numbers = numbers.unique("cudaId", keep="first", maintain_order=True)
        used_gpus = used_gpus.join(
            numbers.select("gpuId", device="cudaId"), on="device", how="left", maintain_order="left"
        )
    else:
        used_gpus = used_gpus.with_columns(gpuId="device")
    return used_gpus.join(machine_gpus, on="gpuId", how="left", maintain_order="left").drop("gpuId")


def messages(tables: Tables) -> list[tuple[int | None, str, str]]:
    """Return the warnings and errors of the profiler: process, severity and text."""
    rows = tables.frame("DIAGNOSTIC_EVENT", {"globalPid": pl.Int64, "severity": pl.Int64, "text": pl.String})
    is_shown = pl.col("severity").is_in(list(_SEVERITIES)) | ~pl.col("severity").is_in(_IGNORED_SEVERITIES).fill_null(
        False
    )
    chosen = rows.filter(is_shown, pl.col("text").is_not_null())
    return [
        (process, _SEVERITIES.get(severity, "info"), " ".join(text.split()))
        for process, severity, text in chosen.select(process_expr("globalPid"), "severity", "text").iter_rows()
    ]


def _gpus_of_machine(tables: Tables) -> pl.DataFrame:
    """Return ``gpuId`` and columns of ``devices`` for each GPU of the machine."""
    if tables.has("TARGET_INFO_GPU", "id"):
        rows = tables.frame(
            "TARGET_INFO_GPU",
            {
                "id": pl.Int32,
                "name": pl.String,
                "computeMajor": pl.Int32,
                "computeMinor": pl.Int32,
                "smCount": pl.Int32,
                "totalMemory": pl.Int64,
                "memoryBandwidth": pl.Int64,
                "maxWarpsPerSm": pl.Int32,
                "maxRegistersPerSm": pl.Int32,
                "maxShmemPerSm": pl.Int64,
            },
        )
    else:
        rows = tables.frame(
            "TARGET_INFO_CUDA_GPU",
            {
                "deviceId": pl.Int32,
                "name": pl.String,
                "computeCapabilityMajor": pl.Int32,
                "computeCapabilityMinor": pl.Int32,
                "numMultiprocessors": pl.Int32,
                "globalMemorySize": pl.Int64,
                "globalMemoryBandwidth": pl.Int64,
                "maxWarpsPerMultiprocessor": pl.Int32,
                "maxRegistersPerMultiprocessor": pl.Int32,
                "maxSharedMemoryPerMultiprocessor": pl.Int64,
            },
        )
    rows.columns = ["gpuId", "name", "major", "minor", "sms", "memory", "bandwidth", "warps", "registers", "shared"]
    memory = pl.col("memory")
    devices = rows.filter(pl.col("gpuId").is_not_null()).select(
        "gpuId",
        "name",
        pl.when(pl.col("major") > 0)
        .then(pl.col("major").cast(pl.String) + "." + pl.col("minor").cast(pl.String))
        .alias("compute_capability"),
        _positive("sms").alias("sm_count"),
        # The oldest exports write it in MiB: no GPU of theirs has less than 16 MiB or more than 16 TiB.
        pl.when(memory >= 1 << 24).then(memory).when(memory > 0).then(memory * _MIB).alias("memory_bytes"),
        _positive("bandwidth").cast(pl.Float64).alias("memory_bandwidth"),
        (_positive("warps") * _THREADS_PER_WARP).alias("max_threads_per_sm"),
        _positive("registers").alias("registers_per_sm"),
        _positive("shared").alias("shared_memory_per_sm_bytes"),
    )
    return devices.unique("gpuId", keep="first", maintain_order=True)


def devices_frame(tables: Tables, process: int, used: pl.Series) -> pl.DataFrame:
    """Return the frame ``devices`` of a process."""
    used_gpus = gpus(tables, process, used)
    return conform("devices", used_gpus.select(name for name in DEVICES if name in used_gpus.columns))


def _positive(column: str) -> pl.Expr:
    """Return a positive value; exports write 0 for unknown."""
    return pl.when(pl.col(column) > 0).then(column)


def _pairs(tables: Tables, table: str) -> dict[str, str]:
    rows = tables.frame(table, {"name": pl.String, "value": pl.String}).drop_nulls()
    return dict(rows.reverse().iter_rows())


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None and len(text) < 20 else None
    except ValueError:
        return None


_MAX_FAILURES: Final = 20
_MAX_LISTED_TABLES: Final = 3
_KIND: Final = "CUPTI_ACTIVITY_KIND_"
"""The prefix of most tables."""

_METADATA_PREFIXES: Final = (
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
"""Prefixes of tables about the recording itself."""


def report_call_issues(calls: pl.DataFrame, collector: Collector) -> None:
    """Report the failed calls of a process, and the number of calls without times."""
    failed = failures(calls)
    for name, code, count in failed[:_MAX_FAILURES]:
        times = "once" if count == 1 else f"{count:,} times"
        collector.issue("warning", None, name, f"returned error {code} {times}")
    if len(failed) > _MAX_FAILURES:
        collector.issue("warning", None, "", f"{len(failed) - _MAX_FAILURES:,} more failed calls are not listed")
    no_time = calls["duration_ns"].null_count()
    if no_time:
        reason = f"{plural(no_time, 'API call')} with missing or reversed times"
        collector.issue("warning", None, "", f"{reason}; listed without a duration")


def report_range_issues(ranges: pl.DataFrame, collector: Collector) -> None:
    """Report NVTX ranges of a process without end or text."""
    no_end = ranges.filter(pl.col("duration_ns").is_null())
    if no_end.height:
        collector.issue(
            "warning",
            None,
            str(no_end["name"].cast(pl.String)[0] or ""),
            f"{plural(no_end.height, 'NVTX range')} without an end, probably still open when the recording "
            "stopped; listed without a duration and not in any op",
        )
    no_name = ranges["name"].null_count()
    if no_name:
        collector.issue("warning", None, "NVTX_EVENTS", f"{plural(no_name, 'NVTX range')} without a message")


def report_work_issues(work: pl.DataFrame, collector: Collector) -> None:
    """Report GPU work of a process without times or name."""
    is_moment = (pl.col("name") == CPU_PAGE_FAULT).fill_null(False) & pl.col("start_ns").is_not_null()
    no_time = work.filter(pl.col("duration_ns").is_null(), ~is_moment).height
    if no_time:
        collector.issue(
            "warning",
            None,
            "",
            f"{plural(no_time, 'GPU activity', 'GPU activities')} with missing or reversed times; listed without a "
            "duration",
        )
    no_name = work["name"].null_count()
    if no_name:
        collector.issue(
            "warning", None, STRINGS, f"{plural(no_name, 'kernel')} without a name: missing from the export"
        )


def report_recording_issues(tables: Tables, collector: Collector, processes: Sequence[int]) -> None:
    """Report the profiler's own messages, and the tables that are not shown."""
    sessions = dict(zip(processes, collector.sessions, strict=False))
    for process, severity, text in messages(tables):
        session = sessions.get(process) if process is not None else None
        collector.session = session
        collector.issue(severity, None, text, "reported by Nsight Systems")
    collector.session = None
    shown, about = CaselessNames(SHOWN), tuple(map(fold_case, _METADATA_PREFIXES))
    unread = sorted(
        table
        for table in tables.tables
        if table not in shown and not fold_case(table).startswith(about) and tables.count(table)
    )
    if unread:
        # A copy of an export can have its names in another letter case.
        short = [table[len(_KIND) :] if fold_case(table).startswith(fold_case(_KIND)) else table for table in unread]
        reason = f"tables not shown in any view: {short_list(short, _MAX_LISTED_TABLES)}"
        collector.issue("info", None, ", ".join(unread), reason)


def report_skipped_events(
    tables: Tables, overhead: pl.DataFrame, events: NvtxEvents, processes: Sequence[int], collector: Collector
) -> None:
    """Report events that are not shown, and columns that are missing although every version has them.

    Args:
        tables: The export.
        overhead: Of all processes.
        events: The NVTX events.
        processes: Those that are sessions.
        collector: Gets the issues, which belong to no session.
    """
    for reason in events.skipped_texts():
        collector.issue("info", None, RANGES, reason)
    other_processes = overhead.filter(~pl.col("process").is_in(processes))["process"].n_unique()
    if other_processes:
        reason = f"overhead of {plural(other_processes, 'process', 'processes')} without other records skipped"
        collector.issue("info", None, OVERHEAD, reason)
    no_time = overhead["duration_ns"].null_count()
    if no_time:
        collector.issue("info", None, OVERHEAD, f"{plural(no_time, 'row')} of overhead without times skipped")
    for table, reason in missing_columns(tables, REQUIRED_COLUMNS):
        collector.issue("warning", None, table, reason)
