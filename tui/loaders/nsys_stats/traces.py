"""Single GPU activities and calls of the reports with a row for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nsys_stats.rows import device_number
from tui.loaders.text.cell_values import NS_PER_UNIT, by_value
from tui.model.names import kind_of, short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.nsys_stats.state import Report

_COPY: Final = re.compile(r"\[CUDA (?:Unified Memory )?memcpy (?P<kind>[^\]]{1,40})\]")
_SIDE: Final = {"host": "H", "device": "D", "array": "A", "peer": "P"}
_HALF_KB: Final = 500
"""How far a size printed in MB to three decimals can be from the true one."""


def copy_kind(name: str) -> str | None:
    """The direction of a copy by its name, as HtoD.

    >>> copy_kind("[CUDA memcpy Host-to-Device]"), copy_kind("[CUDA memcpy DtoH]"), copy_kind("f(int)")
    ('HtoD', 'DtoH', None)
    """
    match = _COPY.fullmatch(name)
    if match is None:
        return None
    sides = re.split(r"-to-|to", match["kind"])
    if len(sides) != 2:
        return match["kind"]
    return "to".join(_SIDE.get(side.lower(), side) for side in sides)


def named(activities: pl.DataFrame) -> pl.DataFrame:
    """Add what the names tell: kind, short_name, copy_kind."""
    names = activities["name"]
    return activities.with_columns(
        by_value(names, kind_of, NAME).alias("kind"),
        by_value(names, short_name, NAME).alias("short_name"),
        by_value(names, copy_kind, NAME).alias("copy_kind"),
    )


def activities_of(report: Report, collector: Collector) -> pl.DataFrame:
    """The rows of ``cuda_gpu_trace`` as activities."""
    rows = report.frame
    devices = rows["device"]
    for text in devices.unique().drop_nulls().cast(pl.String).sort():
        name, number = device_number(text)
        if number is None:
            collector.issue("info", report.line, text, "this device has no number: which one it is stays unknown")
        else:
            collector.add_device(number, name)
    rows = rows.with_columns(
        by_value(devices, lambda text: device_number(text)[1], pl.Int32()).alias("device"),
        *(_lower(rows[column]) for column in ("src_memory", "dst_memory")),
    )
    collector.resolution(_step_ns(report.header.unit("start"), rows["decimals"]))
    return named(_sizes(rows.drop("decimals"), report, collector))


def _step_ns(unit: str | None, decimals: pl.Series) -> int:
    """How precisely start times are printed, by their unit and their decimals."""
    most = decimals.max()
    return max(1, NS_PER_UNIT.get(unit or "ns", 1) // int(10 ** (most if isinstance(most, int) else 0)))


def _lower(values: pl.Series) -> pl.Series:
    return by_value(values, str.lower, NAME)


def _sizes(rows: pl.DataFrame, report: Report, collector: Collector) -> pl.DataFrame:
    """Sizes that are printed in MB to three decimals, as exactly as the row tells them."""
    if report.header.unit("bytes") is None:
        return rows
    exact = (pl.col("throughput") * pl.col("duration_ns") * 1e-9).round()
    near = (exact - pl.col("size_bytes")).abs() <= _HALF_KB + 1e-6 * pl.col("size_bytes") + 1
    size = pl.when(near & (exact > 0)).then(exact.cast(pl.Int64)).otherwise("size_bytes")
    done = rows.with_columns(
        pl.when(size > 0).then(size).alias("size_bytes"),
        *(pl.when(pl.col(name) > 0).then(name).alias(name) for name in ("static_shared_bytes", "dynamic_shared_bytes")),
    )
    if rows["size_bytes"].count():
        reason = (
            f"{report.title} prints sizes to 0.001 MB only: where throughput x duration agrees with it, that is taken "
            "as the size of a copy"
        )
        collector.issue("info", report.line, "", reason)
    if rows["static_shared_bytes"].count() or rows["dynamic_shared_bytes"].count():
        reason = (
            f"{report.title} prints shared memory to 0.001 MB only: its sizes can be 500 bytes off, and 0.000 (0 to "
            "499 bytes) stays unknown, and with it the occupancy; the .sqlite of the run has the bytes"
        )
        collector.issue("info", report.line, "", reason)
    return done


def kernels_of_launches(rows: pl.DataFrame) -> pl.DataFrame:
    """The kernels of ``cuda_kern_exec_trace``, with their launch for `tui.loaders.linking.whole_run`."""
    wait = pl.format("Waited in the queue: {} ns", pl.col("queue_ns"))
    columns = ("name", "start_ns", "duration_ns", "device", "line")
    shapes = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
    return named(
        rows.select(
            *columns,
            *shapes,
            wait.alias("arguments"),
            launch_ns="api_start_ns",
            launch_pid="pid",
            launch_tid="tid",
        )
    )


def calls_of_launches(rows: pl.DataFrame) -> pl.DataFrame:
    """The API calls of ``cuda_kern_exec_trace``: one that launched several kernels comes once."""
    calls = rows.select(
        "pid",
        "tid",
        "line",
        name="api",
        start_ns="api_start_ns",
        duration_ns="api_ns",
        correlation=pl.lit(None, pl.Int64),
    )
    return calls.unique(["pid", "tid", "name", "start_ns", "duration_ns"], keep="first", maintain_order=True).select(
        "name", "start_ns", "duration_ns", "pid", "tid", "correlation", "line"
    )
