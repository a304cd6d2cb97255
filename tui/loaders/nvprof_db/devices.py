"""GPUs and processes of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from tui.loaders.nvprof_db.strings import Strings
    from tui.loaders.sqlite.database import Database

_DEVICE: Final = dict.fromkeys(
    (
        "id",
        "name",
        "computeCapabilityMajor",
        "computeCapabilityMinor",
        "numMultiprocessors",
        "globalMemorySize",
        "globalMemoryBandwidth",
        "maxWarpsPerMultiprocessor",
        "numThreadsPerWarp",
        "maxRegistersPerMultiprocessor",
        "maxSharedMemoryPerMultiprocessor",
    ),
    pl.Int64,
)
_NAME: Final = {"objectKind": pl.Int64, "objectId": pl.Binary, "name": pl.Int64}
_PROCESS: Final = 1


def read_devices(database: Database, strings: Strings) -> pl.DataFrame:
    """GPUs, columns of the model."""
    rows = database.frame("CUPTI_ACTIVITY_KIND_DEVICE", _DEVICE).unique("id", keep="first", maintain_order=True)
    threads = pl.col("maxWarpsPerMultiprocessor") * pl.col("numThreadsPerWarp")
    return rows.with_columns(strings.texts(rows["name"]).cast(pl.String).alias("called")).select(
        pl.col("id").cast(pl.Int32, strict=False).alias("device"),
        pl.col("called").alias("name"),
        pl.format("{}.{}", "computeCapabilityMajor", "computeCapabilityMinor").alias("compute_capability"),
        pl.col("numMultiprocessors").cast(pl.Int32, strict=False).alias("sm_count"),
        pl.col("globalMemorySize").alias("memory_bytes"),
        # It is told in thousands of bytes a second.
        (pl.col("globalMemoryBandwidth") * 1000.0).alias("memory_bandwidth"),
        threads.cast(pl.Int32, strict=False).alias("max_threads_per_sm"),
        pl.col("maxRegistersPerMultiprocessor").cast(pl.Int32, strict=False).alias("registers_per_sm"),
        pl.col("maxSharedMemoryPerMultiprocessor").alias("shared_memory_per_sm_bytes"),
    )


def read_commands(database: Database, strings: Strings) -> dict[int, str]:
    """What was run, by process id."""
    rows = database.frame("CUPTI_ACTIVITY_KIND_NAME", _NAME).filter(pl.col("objectKind") == _PROCESS).head(1000)
    commands: dict[int, str] = {}
    for blob, name in rows.select("objectId", "name").iter_rows():
        command = strings.text(name)
        if blob is not None and len(blob) >= 4 and command:
            commands.setdefault(int.from_bytes(blob[:4], "little"), command)
    return commands
