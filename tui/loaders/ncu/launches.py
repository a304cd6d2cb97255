"""From Nsight Compute's metrics to launches, devices, metrics and findings."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.ncu.tensor_pipe import tensor_cores
from tui.loaders.ncu.values import base_unit, looks_like_number, numbers
from tui.loaders.text.cell_values import by_value, decimal_sign
from tui.model.names import short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector

TOOL: Final = "Nsight Compute"

_ACTIVITY_METRICS: Final = MappingProxyType(
    {
        "duration_ns": ("gpu__time_duration.sum", "gpu__time_duration_measured_user.sum", "Duration"),
        "registers": ("launch__registers_per_thread", "Registers Per Thread"),
        "static_shared_bytes": ("launch__shared_mem_per_block_static", "Static Shared Memory Per Block"),
        "dynamic_shared_bytes": ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block"),
    }
)
"""The metrics of a launch that have a column of their own, by their names on the raw and the details page."""
_UNITS: Final = MappingProxyType({"duration_ns": "ns", "static_shared_bytes": "B", "dynamic_shared_bytes": "B"})
"""What their base unit must be: a number whose unit the text does not tell may be of any."""

_DEVICE_METRICS: Final = MappingProxyType(
    {
        "sm_count": ("device__attribute_multiprocessor_count", "launch__sm_count", "# SMs"),
        "max_threads_per_sm": ("device__attribute_max_threads_per_multiprocessor",),
        "registers_per_sm": ("device__attribute_max_registers_per_multiprocessor",),
        "shared_memory_per_sm_bytes": ("device__attribute_max_shared_memory_per_multiprocessor",),
    }
)
_DEVICE_NAME: Final = "device__attribute_display_name"
_OF_DEVICE: Final = r"^(?:device__attribute|nvlink|numa|c2clink|pcie)_"
"""Metrics that are facts of the machine, the same for each launch."""

_SEVERITIES: Final = MappingProxyType({"OPT": "warning", "WRN": "warning", "ERR": "error", "INF": "info"})
_ARGUMENTS_LIMIT: Final = 8
_SHAPE: Final = re.compile(r"\(?(\d{1,10}), *(\d{1,10}), *(\d{1,10})\)?")


def measured(rows: pl.DataFrame, columns: tuple[str, ...], collector: Collector, line: int) -> pl.DataFrame:
    """The rows with their values as numbers in base units (``<column>_number``) and with ``base_unit``."""
    texts = pl.concat([rows[column].drop_nulls() for column in columns])
    texts = texts.filter(looks_like_number(texts)).unique()
    sign = decimal_sign(texts)
    units = rows["unit"].unique()
    factors = {unit: base_unit(unit) for unit in units}
    factor = rows["unit"].replace_strict(units, [factors[unit][0] for unit in units], return_dtype=pl.Float64)
    base = rows["unit"].replace_strict(units, [factors[unit][1] for unit in units], return_dtype=pl.String)
    rows = rows.with_columns(base.alias("base_unit"))
    for column in columns:
        value = numbers(rows[column], sign)
        lost = rows.filter(looks_like_number(rows[column]) & value.is_null())
        if lost.height:
            why = (
                "the decimal sign of this file cannot be told"
                if sign is None
                else f"{sign} is the decimal sign of the other numbers"
            )
            reason = f"{lost.height} numbers like this one are ambiguous, since {why}: they stay unknown"
            collector.issue("warning", int(lost["line"][0]), str(lost[column][0]), reason)
        rows = rows.with_columns((value * factor).alias(f"{column}_number"))
    if sign == ",":
        collector.issue("info", line, "", "the numbers of this file have a decimal comma, and points between thousands")
    return rows


def shaped(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with grid_x to block_z instead of ``grid`` and ``block``; device, context and stream as numbers."""
    shapes = []
    for shape in ("grid", "block"):
        parts = rows[shape].str.extract_groups(_SHAPE.pattern)
        for place, axis in enumerate("xyz"):
            shapes.append(parts.struct.field(str(place + 1)).cast(pl.Int32, strict=False).alias(f"{shape}_{axis}"))
    return rows.drop("grid", "block").with_columns(
        *shapes,
        pl.col("device").str.extract(r"^(\d+)$").cast(pl.Int32, strict=False),
        pl.col("context").cast(pl.Int32, strict=False),
        pl.col("stream").cast(pl.Int64, strict=False),
    )


def add_launches(rows: pl.DataFrame, collector: Collector) -> None:
    """Add what the rows in long form (`shaped` and `measured`) tell: activities, devices, metrics, findings."""
    _tell_of_lost_units(rows, collector)
    launches = rows.group_by("id", maintain_order=True).agg(
        pl.col("kernel").first(),
        *(pl.col(name).drop_nulls().first() for name in ("context", "stream", "device")),
        *(pl.col(f"{shape}_{axis}").drop_nulls().first() for shape in ("grid", "block") for axis in "xyz"),
        *(_metric(names, _UNITS.get(column)).alias(column) for column, names in _ACTIVITY_METRICS.items()),
        _words().alias("arguments"),
        pl.col("line").min(),
    )
    launches = launches.join(tensor_cores(rows, TOOL), on="id", how="left", maintain_order="left")
    names = launches["kernel"].cast(NAME)
    whole = {column: pl.Int32 if column == "registers" else pl.Int64 for column in _ACTIVITY_METRICS}
    activities = launches.drop("id", "kernel").with_columns(
        pl.lit("kernel").alias("kind"),
        names.alias("name"),
        by_value(names, short_name, NAME).alias("short_name"),
        *(pl.col(column).round().cast(dtype, strict=False) for column, dtype in whole.items()),
        pl.col("arguments").list.join("; ").replace("", None),
    )
    collector.add_frame("activities", activities)
    _add_devices(rows, collector)
    _add_metrics(rows, collector)
    _add_findings(rows, collector)


def _tell_of_lost_units(rows: pl.DataFrame, collector: Collector) -> None:
    """Tell of durations without a unit, as where a raw page has lost its row of units."""
    lost = rows.filter(
        pl.col("metric").is_in(_ACTIVITY_METRICS["duration_ns"]),
        pl.col("value_number").is_not_null(),
        pl.col("base_unit").ne_missing("ns"),
    )
    if lost.height:
        metric = str(lost["metric"][0])
        reason = (
            f"the unit of this time is not told in {lost.height:,} rows: durations stay unknown; a raw page has its "
            "units in its second row"
        )
        collector.issue("warning", int(lost["line"][0]), metric, reason)


def _metric(names: tuple[str, ...], unit: str | None = None) -> pl.Expr:
    """The value of the first of some metrics that a launch has, in a unit or in any."""
    fits = pl.lit(True) if unit is None else (pl.col("base_unit") == unit).fill_null(False)
    return pl.coalesce(
        pl.col("value_number").filter((pl.col("metric") == name) & fits).drop_nulls().first() for name in names
    )


def _words() -> pl.Expr:
    """Facts of a launch that are no numbers."""
    wanted = (
        pl.col("value").is_not_null()
        & pl.col("value_number").is_null()
        & ~pl.col("value").is_in(["n/a", "N/A", "nan", "inf"])
        & ~pl.col("metric").str.contains(_OF_DEVICE)
        & (pl.col("value").str.len_chars() <= 80)
    )
    return (pl.col("metric") + pl.lit(": ") + pl.col("value")).filter(wanted.fill_null(False)).head(_ARGUMENTS_LIMIT)


def _add_devices(rows: pl.DataFrame, collector: Collector) -> None:
    devices = (
        rows.filter(pl.col("device").is_not_null())
        .group_by("device", maintain_order=True)
        .agg(
            pl.col("value").filter(pl.col("metric") == _DEVICE_NAME).first().alias("name"),
            pl.col("cc").drop_nulls().first().str.replace(",", ".", literal=True).alias("compute_capability"),
            *(
                _metric(names).round().cast(pl.Int64, strict=False).alias(column)
                for column, names in _DEVICE_METRICS.items()
            ),
        )
    )
    collector.add_frame("devices", devices)
    facts = rows.filter(pl.col("metric").str.contains(_OF_DEVICE), pl.col("metric") != _DEVICE_NAME)
    facts = facts.unique(["device", "metric"], keep="first", maintain_order=True)
    collector.add_frame(
        "tool_figures",
        facts.select(
            pl.lit(TOOL).alias("tool"),
            pl.format("device {}", pl.col("device").cast(pl.String).fill_null("?")).alias("section"),
            pl.col("metric").alias("name"),
            pl.col("value_number").alias("value"),
            pl.col("base_unit").alias("unit"),
            pl.when(pl.col("value_number").is_null()).then("value").alias("text"),
            "line",
        ),
    )


def _add_metrics(rows: pl.DataFrame, collector: Collector) -> None:
    is_fact = pl.col("metric").str.contains(_OF_DEVICE)
    values = rows.filter(pl.col("value_number").is_not_null(), ~is_fact)
    shapes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    collector.add_frame(
        "metrics",
        values.select(
            pl.col("device").cast(pl.String),
            "kernel",
            *shapes,
            pl.lit(1, pl.Int64).alias("invocations"),
            "metric",
            pl.col("section").alias("description"),
            *(pl.col("value_number").alias(column) for column in ("min", "max", "avg")),
            pl.col("base_unit").alias("unit"),
            "line",
        ),
    )


def _add_findings(rows: pl.DataFrame, collector: Collector) -> None:
    rules = rows.filter(pl.col("rule").is_not_null() & pl.col("rule_text").is_not_null())
    for row in rules.select(
        "id", "kernel", "rule", "rule_type", "rule_text", "speedup_type", "speedup", "line"
    ).iter_rows(named=True):
        text = row["rule_text"]
        if row["speedup"]:
            text += f" (estimated speedup, {row['speedup_type'] or 'as the tool sees it'}: {row['speedup']} %)"
        collector.add(
            "tool_findings",
            {
                "tool": TOOL,
                "severity": _SEVERITIES.get(row["rule_type"] or ""),
                "problem": f"{row['rule']} in {short_name(row['kernel'] or '?')} (launch {row['id']})",
                "recommendation": text,
                "line": row["line"],
            },
        )
