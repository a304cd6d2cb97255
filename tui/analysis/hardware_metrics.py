"""Hardware metrics and events: by kernel, and those that Nsight Compute measured for similar launches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.activities import activity_row, filtered_activities, with_shapes
from tui.model.columns import Column, ColumnKind, columns
from tui.model.names import short_name
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.model.profile import Profile


_SHAPE: Final = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")

METRICS: Final = TableSpec(
    "metrics",
    "Metrics",
    columns(
        "kernel",
        "metric",
        "avg",
        "min",
        "max",
        "unit",
        "invocations",
        "total",
        "description",
        "device_name",
        "session",
        "line",
    ),
    # A database has no lines: kernel and launch configuration distinguish its rows.
    key=("session", "line", "device_name", "kernel", *_SHAPE, "metric"),
    pinned="kernel",
)


def launches_measured(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """Return the recorded launches of the kernel of a metric, in any session, in time order.

    Launches match by full name; if a session has none, by the name without template arguments and parameters, since
    tools spell names differently. For metrics per launch, grid and block must match as well.

    Args:
        profile: The profile.
        row: A row of `metrics`.
    """
    if row["kernel"] is None:
        return filtered_activities(profile)
    kernels = profile["activities"].lazy().filter(pl.col("kind") == "kernel", pl.col("name").is_not_null())
    names = kernels.select("session", "name").unique().collect().with_columns(pl.col("name").cast(pl.String))
    kernel_name = short_name(row["kernel"])
    same_kernel = [name for name in names["name"].unique() if short_name(name) == kernel_name]
    exact = names.filter(name=row["kernel"])["session"].to_list()
    is_inexact = pl.col("name").is_in(same_kernel) & ~pl.col("session").is_in(exact)
    by_short_name = names.filter(is_inexact)["session"].to_list()
    if not exact and not by_short_name:
        return filtered_activities(profile)
    name, session = pl.col("name").cast(pl.String), pl.col("session")
    is_match = (name == row["kernel"]) | (session.is_in(by_short_name) & name.is_in(same_kernel))
    same = [pl.col(axis) == row[axis] for axis in _SHAPE if row[axis] is not None]
    return filtered_activities(profile, is_match, pl.col("kind") == "kernel", *same)


def metrics(profile: Profile) -> pl.DataFrame:
    """Return the frame ``metrics`` in the order of the input; its column ``device`` is called device_name.

    Values are in base units, which ``unit`` names.
    """
    return profile["metrics"].rename({"device": "device_name"})


MAX_FALLBACK_METRICS: Final = 12
"""The number of other metrics shown if no key metric was measured."""

SPEED, MEMORY, OCCUPANCY, SCHEDULER, LAUNCH, STALLS = (
    "Speed of light", "Memory", "Occupancy", "Scheduler", "Launch", "Stall reasons",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyMetric:
    """A key metric, under one name for all tools."""

    section: str
    label: str
    names: tuple[str, ...]
    """The names in Nsight Compute, nvprof and rocprof."""
    column: str = ""
    """Its column in the table of measured kernels; also shown with launches of the kernel."""


_KEY_METRICS: Final = (
    KeyMetric(SPEED, "SM throughput", (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput",
        "Compute (SM) [%]", "SM [%]"), "sm_pct"),
    KeyMetric(SPEED, "memory throughput", (
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "Memory Throughput", "Memory [%]",
        ), "memory_pct"),
    KeyMetric(SPEED, "DRAM throughput", (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput"), "dram_pct"),
    KeyMetric(SPEED, "duration (replay)", ("gpu__time_duration.sum", "Duration"), "replayed_ns"),
    KeyMetric(SPEED, "SM active", ("sm_efficiency", "sm_activity")),
    KeyMetric(SPEED, "tensor pipe", (
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor_precision_fu_utilization"),
        "tensor_pct"),
    KeyMetric(SPEED, "vector ALU busy", ("VALUBusy",)),
    KeyMetric(MEMORY, "DRAM bytes read", ("dram__bytes_read.sum", "dram_read_bytes")),
    KeyMetric(MEMORY, "DRAM bytes written", ("dram__bytes_write.sum", "dram_write_bytes")),
    KeyMetric(MEMORY, "DRAM read throughput", ("dram__bytes_read.sum.per_second", "dram_read_throughput")),
    KeyMetric(MEMORY, "DRAM write throughput", ("dram__bytes_write.sum.per_second", "dram_write_throughput")),
    KeyMetric(MEMORY, "DRAM utilization", ("dram_utilization", "MemUnitBusy")),
    KeyMetric(MEMORY, "L1 hit rate", (
        "l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate", "global_hit_rate", "tex_cache_hit_rate"), "l1_hit_pct"),
    KeyMetric(MEMORY, "L2 hit rate", (
        "lts__t_sector_hit_rate.pct", "L2 Hit Rate", "l2_tex_hit_rate", "L2CacheHit"), "l2_hit_pct"),
    KeyMetric(MEMORY, "global load efficiency", ("gld_efficiency",)),
    KeyMetric(MEMORY, "global store efficiency", ("gst_efficiency",)),
    KeyMetric(OCCUPANCY, "achieved occupancy", (
        "sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy", "achieved_occupancy",
        "OccupancyPercent"), "achieved_pct"),
    KeyMetric(OCCUPANCY, "theoretical occupancy", (
        "sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy"), "theoretical_pct"),
    KeyMetric(OCCUPANCY, "block limit: registers", ("launch__occupancy_limit_registers", "Block Limit Registers")),
    KeyMetric(OCCUPANCY, "block limit: shared memory", (
        "launch__occupancy_limit_shared_mem", "Block Limit Shared Mem")),
    KeyMetric(OCCUPANCY, "block limit: warps", ("launch__occupancy_limit_warps", "Block Limit Warps")),
    KeyMetric(OCCUPANCY, "block limit: SM", ("launch__occupancy_limit_blocks", "Block Limit SM")),
    KeyMetric(SCHEDULER, "issue slots busy", (
        "sm__inst_issued.avg.pct_of_peak_sustained_active", "Issue Slots Busy", "issue_slot_utilization"), "issue_pct"),
    KeyMetric(SCHEDULER, "eligible warps per cycle", (
        "smsp__warps_eligible.avg.per_cycle_active", "Eligible Warps Per Scheduler", "eligible_warps_per_cycle")),
    KeyMetric(SCHEDULER, "instructions per cycle", (
        "sm__inst_executed.avg.per_cycle_active", "Executed Ipc Active", "ipc")),
    KeyMetric(LAUNCH, "waves per SM", ("launch__waves_per_multiprocessor", "Waves Per SM"), "waves"),
    KeyMetric(LAUNCH, "registers per thread", (
        "launch__registers_per_thread", "Registers Per Thread"), "registers_per_thread"),
)  # fmt: skip
"""The key metrics, speed of light first: how close the kernel is to the GPU's peaks, and what limits it."""

_STALL_NAMES: Final = (
    r"^smsp__average_warps_issue_stalled_(.+)_per_issue_active\.ratio$",
    r"^smsp__average_warp_latency_issue_stalled_(.+)\.ratio$",
    r"^smsp__pcsamp_warps_issue_stalled_(.+)$",
    r"^stall_(.+)$",
)
"""The tools' metric names of stall reasons: Nsight Compute by cycles and by samples, nvprof."""
_NO_STALL: Final = r"^selected$|_not_issued$"
"""Samples that issued, and samples that are counted twice."""
BOUND_PCT: Final = 60.0
"""Below this share of both peaks Nsight Compute calls a kernel latency-bound."""
BALANCED: Final = "both"
_BALANCED_PCT: Final = 10.0
_HIGH_PCT: Final = 80.0
"""Below this share of both peaks, and if they differ by less than the former, Nsight Compute calls them balanced."""

_KERNEL: Final = ("session", "device_name", "kernel", *_SHAPE)

MEASURED_KERNELS: Final = TableSpec(
    "measured_kernels",
    "Measured kernels",
    (
        *columns("kernel"),
        Column("bound", "Bound by", ColumnKind.TEXT,
               "compute or memory if at 60% of its peak or more, whichever is higher (both if below 80% and less than "
               "10 points apart); else latency.", 1),
        Column("sm_pct", "SM%", ColumnKind.PERCENT, "Compute throughput, share of the GPU's peak.", 1),
        Column("memory_pct", "Memory%", ColumnKind.PERCENT, "Memory throughput (caches and DRAM), share of peak.", 1),
        Column("dram_pct", "DRAM%", ColumnKind.PERCENT, "DRAM throughput, share of the GPU's peak.", 3),
        Column("achieved_pct", "Occupancy%", ColumnKind.PERCENT, "Achieved occupancy: mean share of active warps.", 2),
        Column("theoretical_pct", "Theor. occ.%", ColumnKind.PERCENT, "Theoretical occupancy of the launch.", 4),
        Column("stall", "Top stall", ColumnKind.TEXT, "Most frequent stall reason of warps.", 2),
        Column("stall_pct", "Stall%", ColumnKind.PERCENT, "Its share of all stalls.", 3),
        Column("l1_hit_pct", "L1 hit%", ColumnKind.PERCENT, "Hit rate of the L1 cache.", 4),
        Column("l2_hit_pct", "L2 hit%", ColumnKind.PERCENT, "Hit rate of the L2 cache.", 4),
        Column("tensor_pct", "Tensor pipe%", ColumnKind.PERCENT, "Tensor pipe, share of its peak.", 5),
        Column("issue_pct", "Issue slots%", ColumnKind.PERCENT, "Cycles with an instruction issued.", 5),
        Column("waves", "Waves", ColumnKind.RATIO, "Waves per SM.", 5),
        Column("registers_per_thread", "Registers", ColumnKind.NUMBER, "Registers per thread.", 6),
        Column("replayed_ns", "Duration", ColumnKind.DURATION,
               "Duration under Nsight Compute, which locks clocks and replays the kernel.", 3),
        # Rows of one kernel differ by them.
        replace(columns("grid")[0], priority=2),
        *columns("block", "invocations"),
        Column("metrics", "Metrics", ColumnKind.NUMBER, "Number of metrics measured.", 7),
        *columns("device_name", "session"),
    ),
    key=_KERNEL,
    pinned="kernel",
)  # fmt: skip

KEY_METRICS: Final = TableSpec(
    "key_metrics",
    "Key metrics",
    (
        Column("part", "Section", ColumnKind.TEXT, "Section, as in Nsight Compute.", 1),
        Column("label", "Metric", ColumnKind.TEXT, "What was measured.", 1),
        *columns("avg"),
        Column("stall_pct", "Stall%", ColumnKind.PERCENT, "Share of all stalls.", 2),
        # Values are written with a unit that suits each of them.
        replace(columns("unit")[0], title="Base unit", priority=8),
        Column("metric", "Profiler's name", ColumnKind.TEXT, "Metric or event, by the profiler's name.", 4),
    ),
    key=("part", "label"),
    pinned="part",
)


def _mean_metrics(profile: Profile) -> pl.DataFrame:
    """Return the metrics of each kernel, grid and block over its launches, which Nsight Compute lists one by one."""
    rows = metrics(profile).with_columns(pl.col("metric", "unit", "kernel").cast(pl.String))
    return rows.group_by(*_KERNEL, "metric", "unit", maintain_order=True).agg(
        _mean_over_launches(),
        pl.col("min").min(),
        pl.col("max").max(),
        pl.when(pl.col("invocations").is_not_null().any())
        .then(pl.col("invocations").fill_null(1).sum())
        .alias("invocations"),
    )


def _mean_over_launches() -> pl.Expr:
    """Return the mean of ``avg``, weighted by ``invocations``; null if no value is known."""
    weight, avg = pl.col("invocations").fill_null(1), pl.col("avg")
    mean = (avg * weight).sum() / weight.filter(avg.is_not_null()).sum()
    return pl.when(pl.len() == 1).then(avg.first()).when(avg.is_not_null().any()).then(mean).alias("avg")


def key_metrics(profile: Profile) -> pl.DataFrame:
    """Return the key metrics of every measured kernel, means over its launches, in sections; stall reasons by share.

    Columns: session, device_name, kernel, grid and block, invocations, part (the section), label, column, avg, min,
    max, unit, stall_pct (of stall reasons), metric.
    """
    known_metrics = [
        {"metric": name, "order": order, "name_order": number, "part": key.section, "label": key.label,
         "column": key.column}
        for order, key in enumerate(_KEY_METRICS)
        for number, name in enumerate(key.names)
    ]  # fmt: skip
    rows = _mean_metrics(profile)
    matched = rows.join(pl.DataFrame(known_metrics), on="metric", how="inner", maintain_order="left")
    # Of two metrics of one name (Memory Throughput in % and in bytes per second) Speed of Light shows the percentage.
    is_share = pl.col("column").str.ends_with("_pct")
    shares = pl.when(pl.col("metric") == "achieved_occupancy").then(pl.lit("%")).otherwise("unit")
    scale = pl.when((pl.col("metric") == "achieved_occupancy") & (pl.col("avg") <= 1)).then(100.0).otherwise(1.0)
    matched = (
        matched.with_columns(pl.col("avg", "min", "max") * scale, unit=shares)
        .filter(~is_share | (pl.col("unit") == "%"))
        .sort("name_order", maintain_order=True)
        .unique([*_KERNEL, "label"], keep="first", maintain_order=True)
        .sort("order", maintain_order=True)
    )
    chosen = [*_KERNEL, "invocations", "part", "label", "column", "avg", "min", "max", "unit", "stall_pct", "metric"]
    stalls = _stalls(rows)
    return pl.concat(
        [
            matched.with_columns(stall_pct=pl.lit(None, pl.Float64)).select(chosen),
            stalls.with_columns(part=pl.lit(STALLS), column=pl.lit("")).select(chosen),
        ]
    )


def _stalls(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the stall reasons of each kernel by one way of counting, most frequent first, with their shares."""
    reason = pl.coalesce(
        pl.when(pl.col("metric").str.contains(pattern)).then(pl.col("metric").str.extract(pattern))
        for pattern in _STALL_NAMES
    )
    counting_method = pl.coalesce(
        pl.when(pl.col("metric").str.contains(pattern)).then(pl.lit(index, pl.Int8))
        for index, pattern in enumerate(_STALL_NAMES)
    )
    stalls = rows.with_columns(label=reason, way=counting_method).filter(
        pl.col("label").is_not_null(), ~pl.col("label").str.contains(_NO_STALL), pl.col("avg").is_not_null()
    )
    return (
        stalls.filter(pl.col("way") == pl.col("way").min().over(_KERNEL), pl.col("avg") > 0)
        .with_columns(
            label=pl.col("label").str.replace_all("_", " "),
            stall_pct=100 * pl.col("avg") / pl.col("avg").sum().over(_KERNEL),
        )
        .sort("stall_pct", descending=True, maintain_order=True)
    )


def measured_kernels(profile: Profile) -> pl.DataFrame:
    """Return one row per measured kernel, grid and block: its shares of the GPU's peaks and its limits.

    The longest come first if durations are measured; kernels without a key metric are omitted. Columns: those of
    `MEASURED_KERNELS`.
    """
    rows = _mean_metrics(profile)
    kernels = rows.group_by(_KERNEL, maintain_order=True).agg(
        pl.col("invocations").max(), metrics=pl.col("metric").n_unique()
    )
    key = key_metrics(profile)
    named = [metric.column for metric in _KEY_METRICS if metric.column]
    values = key.group_by(_KERNEL).agg(
        *(pl.col("avg").filter(pl.col("column") == column).first().alias(column) for column in named),
        *(pl.col(name).filter(pl.col("part") == STALLS).first().alias(alias) for name, alias in (
            ("label", "stall"), ("stall_pct", "stall_pct"))),
    )  # fmt: skip
    max_pct = pl.max_horizontal("sm_pct", "memory_pct")
    limit = (
        pl.when(pl.col("sm_pct").is_null() | pl.col("memory_pct").is_null())
        .then(None)
        .when(max_pct < BOUND_PCT)
        .then(pl.lit("latency"))
        .when((max_pct < _HIGH_PCT) & ((pl.col("sm_pct") - pl.col("memory_pct")).abs() < _BALANCED_PCT))
        .then(pl.lit(BALANCED))
        .when(pl.col("sm_pct") >= pl.col("memory_pct"))
        .then(pl.lit("compute"))
        .otherwise(pl.lit("memory"))
    )
    return (
        kernels.join(values, on=_KERNEL, how="inner", nulls_equal=True, maintain_order="left")
        .filter(pl.any_horizontal(pl.col(*named, "stall").is_not_null()))
        .with_columns(bound=limit, registers_per_thread=pl.col("registers_per_thread").round().cast(pl.Int64))
        .sort("replayed_ns", descending=True, nulls_last=True, maintain_order=True)
        .pipe(with_shapes)
    )


def kernel_key_metrics(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """Return the key metrics of one of `measured_kernels`."""
    return key_metrics(profile).filter(pl.col(name).eq_missing(pl.lit(row[name])) for name in _KERNEL)


@dataclass(frozen=True, slots=True)
class MeasuredLaunch:
    """The metrics of launches of one kernel, grid and block."""

    source: str
    """The file with the measurements."""
    session: int
    """Its session."""
    launches: int
    """How many launches were measured; values are their mean."""
    exact_name: bool
    """The kernel has the same full name; else the names are the same without template arguments and parameters."""
    values: tuple[tuple[str, float, str | None], ...]
    """Name, value and unit of the most important metrics, the most important first."""
    others: int
    """How many further metrics there are."""


def measured_metrics(profile: Profile, activity: int) -> MeasuredLaunch | None:
    """Return the metrics that Nsight Compute measured for launches of this configuration; None if there are none.

    Raises:
        KeyError: There is no such activity.
    """
    launch = activity_row(profile, activity)
    shape = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    if launch["kind"] != "kernel" or any(launch[axis] is None for axis in shape):
        return None
    same_shape = profile["metrics"].filter(pl.col(axis) == launch[axis] for axis in shape)
    measured, exact = same_shape.filter(pl.col("kernel") == launch["name"]), True
    if measured.is_empty():
        short = short_name(launch["name"])
        same_kernel = [
            name for name in same_shape["kernel"].unique().drop_nulls().to_list() if short_name(name) == short
        ]
        measured, exact = same_shape.filter(pl.col("kernel").cast(pl.String).is_in(same_kernel)), False
    if measured.is_empty():
        return None
    # One session is enough, preferably the launch's own.
    sessions = measured["session"].unique(maintain_order=True).to_list()
    session = launch["session"] if launch["session"] in sessions else sessions[0]
    measured = measured.filter(pl.col("session") == session)
    means = (
        measured.group_by("metric", "unit", maintain_order=True)
        .agg(_mean_over_launches(), pl.col("invocations").fill_null(1).sum())
        .drop_nulls("avg")
    )
    values = list(_relevant(means))
    source = profile["sessions"].filter(pl.col("session") == session)["source"].item() or ""
    launches = max(means["invocations"].to_list(), default=0)
    return MeasuredLaunch(source, session, launches, exact, tuple(values), means.height - len(values))


def _relevant(means: pl.DataFrame) -> Iterator[tuple[str, float, str | None]]:
    """Yield the measured key metrics; without any, the first measured percentages."""
    rows = list(means.select("metric", "avg", "unit").iter_rows())
    has_key_metric = False
    for key in _KEY_METRICS:
        # Of two metrics of one name (Memory Throughput in % and in bytes per second) the percentage is the key metric.
        values = [(value, unit) for metric, value, unit in rows if metric in key.names and unit in ("%", "ns")]
        if values and key.column:
            has_key_metric = True
            yield (key.label, *values[0])
    if not has_key_metric:
        yield from [(metric, value, unit) for metric, value, unit in rows if unit == "%"][:MAX_FALLBACK_METRICS]
