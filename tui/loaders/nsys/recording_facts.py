"""Facts of the recording in an export: versions, machine, processes, GPUs, diagnostic messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nsys.export_tables import StringIds, Tables, process_of
from tui.model.schema import DEVICES, conform

if TYPE_CHECKING:
    from collections.abc import Mapping

_THREADS_A_WARP: Final = 32
_MIB: Final = 1 << 20
_LAUNCHER: Final = "nsys-launcher"
"""What a process is called before it becomes the program."""

_SEVERITIES: Final = {2: "warning", 3: "error"}
"""Nsight's numbers of what is to be told."""
_UNTOLD: Final = (1, 4)
"""Those of information, and of what is said to those who debug it."""

_OLD_DRIVER: Final = re.compile(r"[0-9]{6,8}")
_CUDA: Final = re.compile(r"[0-9]{4,6}")


@dataclass(frozen=True, slots=True)
class Recording:
    """What is true of all processes."""

    tool_version: str | None
    """Of the Nsight Systems that wrote the export."""
    host: str | None
    driver_version: str | None
    cuda_version: str | None
    """The newest that the driver can run."""
    origin_ns: int | None
    """Unix time of the recording's time 0."""
    command: str | None
    """The program that was started, where only one is known."""
    is_finished: bool
    """Whether the export has what is written last: a failed one has not."""


def recording(tables: Tables) -> Recording:
    """Read what is true of all processes."""
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
    """The version of a driver, which older exports write as one number.

    >>> driver_version("4508002"), driver_version("580.95.05"), driver_version("0")
    ('450.80.02', '580.95.05', None)
    """
    if text is not None and _OLD_DRIVER.fullmatch(text):
        number = int(text)
        return f"{number // 10000}.{number // 100 % 100:02}.{number % 100:02}"
    return text if text and text != "0" else None


def cuda_version(text: str | None) -> str | None:
    """The version in a number of CUDA's own.

    >>> cuda_version("11070"), cuda_version("0")
    ('11.7', None)
    """
    if text is None or not _CUDA.fullmatch(text):
        return None
    return f"{int(text) // 1000}.{int(text) % 1000 // 10}"


def process_names(tables: Tables, strings: StringIds) -> Mapping[int, str]:
    """What each process runs, where the export says it: by process, or by the name of its first thread."""
    threads = tables.frame("ThreadNames", {"globalTid": pl.Int64, "nameId": pl.Int64})
    threads = threads.with_columns(strings.of(threads["nameId"]).cast(pl.String).alias("name")).filter(
        (pl.col("globalTid") & 0xFFFFFF) == ((pl.col("globalTid") // (1 << 24)) & 0xFFFFFF)
    )
    processes = tables.frame("PROCESSES", {"globalPid": pl.Int64, "name": pl.String}).filter(
        pl.col("name") != _LAUNCHER, pl.col("name") != ""
    )
    named = pl.concat(
        [
            processes.select(process_of("globalPid"), "name"),
            threads.filter(pl.col("name") != _LAUNCHER).select(process_of("globalTid"), "name"),
        ]
    )
    return dict(named.drop_nulls().reverse().iter_rows())


def gpus(tables: Tables, process: int, used: pl.Series) -> pl.DataFrame:
    """The GPUs that a process used, columns of ``devices``.

    Args:
        tables: The export.
        process: As in `tui.loaders.nsys.export_tables.process_of`.
        used: The numbers that CUDA gives them in this process.
    """
    known = _gpus_of_machine(tables)
    pid = (process >> 24) & 0xFFFFFF
    numbers = tables.frame("TARGET_INFO_CUDA_DEVICE", {"gpuId": pl.Int32, "cudaId": pl.Int32, "pid": pl.Int64}).filter(
        pl.col("pid") == pid
    )
    wanted = pl.DataFrame({"device": used.unique().drop_nulls().sort().cast(pl.Int32)})
    if numbers.height:
        # CUDA counts the GPUs that a process may see, which CUDA_VISIBLE_DEVICES chooses.
        numbers = numbers.unique("cudaId", keep="first", maintain_order=True)
        wanted = wanted.join(numbers.select("gpuId", device="cudaId"), on="device", how="left", maintain_order="left")
    else:
        wanted = wanted.with_columns(gpuId="device")
    return wanted.join(known, on="gpuId", how="left", maintain_order="left").drop("gpuId")


def messages(tables: Tables) -> list[tuple[int | None, str, str]]:
    """Warnings and errors of the profiler: process, severity and text."""
    rows = tables.frame("DIAGNOSTIC_EVENT", {"globalPid": pl.Int64, "severity": pl.Int64, "text": pl.String})
    is_shown = pl.col("severity").is_in(list(_SEVERITIES)) | ~pl.col("severity").is_in(_UNTOLD).fill_null(False)
    chosen = rows.filter(is_shown, pl.col("text").is_not_null())
    return [
        (process, _SEVERITIES.get(severity, "info"), " ".join(text.split()))
        for process, severity, text in chosen.select(process_of("globalPid"), "severity", "text").iter_rows()
    ]


def _gpus_of_machine(tables: Tables) -> pl.DataFrame:
    """``gpuId`` and columns of ``devices``."""
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
        (_positive("warps") * _THREADS_A_WARP).alias("max_threads_per_sm"),
        _positive("registers").alias("registers_per_sm"),
        _positive("shared").alias("shared_memory_per_sm_bytes"),
    )
    return devices.unique("gpuId", keep="first", maintain_order=True)


def devices_frame(tables: Tables, process: int, used: pl.Series) -> pl.DataFrame:
    """The frame ``devices`` of a process."""
    found = gpus(tables, process, used)
    return conform("devices", found.select(name for name in DEVICES if name in found.columns))


def _positive(column: str) -> pl.Expr:
    """Where a machine did not say, exports have 0."""
    return pl.when(pl.col(column) > 0).then(column)


def _pairs(tables: Tables, table: str) -> dict[str, str]:
    rows = tables.frame(table, {"name": pl.String, "value": pl.String}).drop_nulls()
    return dict(rows.reverse().iter_rows())


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None and len(text) < 20 else None
    except ValueError:
        return None
