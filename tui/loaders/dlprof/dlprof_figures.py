"""Figures and recommendations that DLProf itself computed, unchanged.

They are shown as DLProf's, next to our own figures from single ops and kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.dlprof.dlprof_activities import TOOL
from tui.model.schema import FRAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.loaders.collector import Collector
    from tui.loaders.dlprof.dlprof_activities import DlprofDictionary
    from tui.loaders.sqlite.database import Database


Figure = tuple[str, str, str | None]
"""DLProf's name of a figure, its column, and its unit."""

MODEL_CONFIG: Final = (
    "num_workers",
    "pin_memory",
    "cudnn_benchmark_disabled",
    "detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "autograd_profile",
    "autograd_set_detect_anomaly",
    "emit_nvtx",
    "amp_enabled",
)
"""Settings of the model, by DLProf's names; 1 means yes."""
PERFORMANCE: Final[tuple[Figure, ...]] = (
    ("Wall Clock Time", "wall_time", "ns"),
    ("Tensor Core Kernel Efficiency", "tc_utilization", "%"),
    ("GPU Utilization", "gpu_utilization", "%"),
    ("Total Iterations", "iter_total", None),
    ("Profiled Iterations", "iter_aggregated", None),
    ("Start Iteration", "iter_start", None),
    ("Stop Iteration", "iter_stop", None),
    ("Average Iteration Time", "avg_iteration_time", "ns"),
    ("Iteration Time Standard Deviation", "iteration_time_std_dev", "ns"),
)
RESOURCES: Final[tuple[Figure, ...]] = (
    ("Using Tensor Cores", "tc_duration_pct", "%"),
    ("Not Using Tensor Cores", "non_tc_duration_pct", "%"),
    ("Memory", "memory_duration_pct", "%"),
    ("Dataloader", "dataloader_duration_pct", "%"),
    ("I/O", "io_duration_pct", "%"),
    ("CPU", "cpu_duration_pct", "%"),
    ("Other", "other_duration_pct", "%"),
)
OPS: Final = (
    ("All ops", "nodes_total_id"),
    ("Ops using TC", "nodes_using_tc_id"),
    ("Ops eligible for TC but not using", "nodes_tc_eligible_id"),
    ("All other ops", "nodes_other_id"),
)
"""Names of DLProf's summary report, and the column that refers to ``category_summary``."""
KERNELS: Final = (
    ("Kernels using TC", "kernels_using_tc_id"),
    ("Memory", "memory_time_id"),
    ("All other kernels", "kernels_non_tc_id"),
)
ITERATION: Final[tuple[Figure, ...]] = (
    ("Total Kernels", "total_count", None),
    ("TC Kernels", "uses_tc_count", None),
    ("Using Tensor Cores", "tc_duration", "ns"),
    ("Not Using Tensor Cores", "non_tc_duration", "ns"),
    ("Memory", "memory_duration", "ns"),
    ("Dataloader", "dataloader_duration", "ns"),
    ("I/O", "io_duration", "ns"),
    ("CPU", "cpu_duration", "ns"),
    ("Other", "other_duration", "ns"),
)
CONFIG: Final = (
    ("Profile Name", "profile_name"),
    ("GPU Count", "num_gpus"),
    ("CPU Model", "cpu_model"),
    ("GPU Driver Version", "driver_version"),
    ("Framework", "framework"),
    ("CUDA Version", "cuda_version"),
    ("cuDNN Version", "cudnn_version"),
    ("NSys Version", "nsys_version"),
    ("DLProf Version", "dlprof_version"),
    ("DLProf Build", "dlprof_build"),
    ("Mode", "mode_string"),
)
TIMES: Final = (
    ("CPU Time", "cpu_time_metric_id"),
    ("GPU Time", "gpu_time_metric_id"),
    ("CPU Overhead", "cpu_overhead_time_metric_id"),
    ("GPU Idle", "gpu_idle_time_metric_id"),
)
PARTS: Final = (("Total", "sum"), ("Avg.", "avg"), ("Min", "min"), ("Max", "max"))

SUMMARY: Final[Mapping[str, Any]] = {
    "aggr_id": pl.Int64,
    "domain_id": pl.Int64,
    "key_node_id": pl.Int64,
    **{column: pl.Float64 for _, column, _ in (*PERFORMANCE, *RESOURCES)},
    **{column: pl.Int64 for _, column in OPS},
}
"""The columns of ``model_summary`` that are read."""


_MOST: Final = 100
"""The most aggregations of a recording; more rows are damage."""


class _Figures:
    """Collects the figures, section by section."""

    def __init__(self) -> None:
        self.section = ""
        self._rows: list[dict[str, str | float | None]] = []

    def number(self, name: str, value: float | None, unit: str | None) -> None:
        if value is not None:
            self._add(name, {"value": float(value), "unit": unit})

    def text(self, name: str, text: str | None) -> None:
        if text:
            self._add(name, {"text": text})

    def _add(self, name: str, row: Mapping[str, str | float | None]) -> None:
        self._rows.append({"tool": TOOL, "section": self.section, "name": name, **row})

    def frame(self) -> pl.DataFrame:
        """All figures, with columns of ``tool_figures``."""
        columns = ("tool", "section", "name", "value", "unit", "text")
        schema = {column: FRAMES["tool_figures"][column] for column in columns}
        return pl.DataFrame(self._rows, schema=schema)


def put_figures(database: Database, strings: DlprofDictionary, collector: Collector, latest: int | None) -> None:
    """Add the figures of every aggregation; sections of older ones name the aggregation."""
    figures = _Figures()
    for row in _rows(database, "read_only_system_config", dict.fromkeys((c for _, c in CONFIG), pl.String)):
        figures.section = "System Config"
        for name, column in CONFIG:
            figures.text(name, row[column])
    for row in _rows(database, "read_only_model_config", dict.fromkeys(MODEL_CONFIG, pl.Int64)):
        figures.section = "Model Config"
        for name in MODEL_CONFIG:
            figures.number(name, row[name], None)
    for row in _rows(database, "db_version", {"current_version": pl.String}):
        figures.section = "System Config"
        figures.text("DLProf DB Version", row["current_version"])
    _put_gpus(database, figures, latest)
    categories = _by_number(database, "category_summary", ("cpu_time", "gpu_time", "count"))
    for row in _rows(database, "model_summary", SUMMARY):
        aggregation = row["aggr_id"]
        of = "" if aggregation == latest else f" (aggregation {aggregation})"
        domain = _domain(database, strings, row["domain_id"])
        of += f" (domain {domain})" if domain else ""
        figures.section = f"Performance Summary{of}"
        for name, column, unit in PERFORMANCE:
            figures.number(name, row[column], unit)
        figures.text("Key Op", strings.text(row["key_node_id"]))
        figures.section = f"Resource Usage Breakdown{of}"
        for name, column, unit in RESOURCES:
            figures.number(name, row[column], unit)
        figures.section = f"All Ops{of}"
        for name, column in OPS:
            _put_category(figures, name, categories.get(row[column]), "# Ops")
        figures.section = f"All Kernels{of}"
        _put_kernels(database, figures, categories, (aggregation, row["domain_id"]))
    _put_op_types(database, strings, figures, latest)
    collector.add_frame("tool_figures", figures.frame())
    collector.add_frame("tool_figures", _of_iterations(database, latest))


def put_findings(database: Database, collector: Collector, latest: int | None) -> None:
    """Add the advice of DLProf's Expert Systems on the latest aggregation."""
    schema = {"aggr_id": pl.Int64, "problem": pl.String, "recommendation": pl.String}
    for row in _rows(database, "expert_systems_feedback", schema):
        if row["problem"] and (latest is None or row["aggr_id"] in (None, latest)):
            texts = {"problem": row["problem"], "recommendation": row["recommendation"] or None}
            collector.add("tool_findings", {"tool": TOOL, **texts})


def _rows(database: Database, table: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return database.frame(table, schema).head(_MOST).iter_rows(named=True)


def _by_number(database: Database, table: str, columns: tuple[str, ...]) -> dict[int | None, dict[str, Any]]:
    data = database.frame(table, {"id": pl.Int64, **dict.fromkeys(columns, pl.Float64)})
    return {row["id"]: row for row in data.head(100 * _MOST).iter_rows(named=True)}


def _domain(database: Database, strings: DlprofDictionary, number: int | None) -> str | None:
    """The name of a domain, if there are several."""
    domains = database.frame("read_only_domains", {"id": pl.Int64, "domain_name_id": pl.Int64})
    names = domains.filter(pl.col("id") == number)["domain_name_id"].to_list()
    return strings.text(names[0]) if domains.height > 1 and names else None


def _put_category(figures: _Figures, name: str, category: Mapping[str, Any] | None, count: str) -> None:
    if category is not None:
        figures.number(f"{name}: GPU Time", category["gpu_time"], "ns")
        figures.number(f"{name}: CPU Time", category["cpu_time"], "ns")
        figures.number(f"{name}: {count}", category["count"], None)


def _put_kernels(
    database: Database,
    figures: _Figures,
    categories: Mapping[int | None, Mapping[str, Any]],
    of: tuple[int | None, int | None],
) -> None:
    """Kernels and memory operations; DLProf counts both as kernels."""
    numbers: dict[str, int | None] = {}
    for table in ("kernel_summary_metrics", "memory_summary_metrics"):
        columns = ("kernels_total_id", "kernels_using_tc_id", "kernels_non_tc_id", "memory_time_id")
        for row in _rows(database, table, dict.fromkeys(("aggr_id", "domain_id", *columns), pl.Int64)):
            if (row["aggr_id"], row["domain_id"]) == of:
                numbers |= {column: row[column] for column in columns if row[column] is not None}
    kernels, memory = categories.get(numbers.get("kernels_total_id")), categories.get(numbers.get("memory_time_id"))
    if kernels is not None and memory is not None:
        both = {column: _sum(kernels[column], memory[column]) for column in ("gpu_time", "cpu_time", "count")}
        _put_category(figures, "All kernels", both, "# Kernels")
    for name, column in KERNELS:
        _put_category(figures, name, categories.get(numbers.get(column)), "# Kernels")


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _put_gpus(database: Database, figures: _Figures, latest: int | None) -> None:
    figures.section = "GPUs"
    schema = {"aggr_id": pl.Int64, "gpu_info_id": pl.Int64, "gpu_utilization": pl.Float64}
    gpus = database.frame("read_only_gpu_infos", {"id": pl.Int64, "device_id": pl.Int64})
    device = dict(gpus.head(_MOST).iter_rows())
    for row in _rows(database, "device_gpu_utilizations", schema):
        if row["aggr_id"] == latest and row["gpu_info_id"] in device:
            figures.number(f"GPU {device[row['gpu_info_id']]}: GPU Utilization", row["gpu_utilization"], "%")
    for row in _rows(database, "gpu_memories", {"id": pl.Int64, "total": pl.Int64, "used": pl.Int64}):
        figures.number(f"GPU memory {row['id']}: Total", row["total"], "B")
        figures.number(f"GPU memory {row['id']}: Used", row["used"], "B")


def _of_iterations(database: Database, latest: int | None) -> pl.DataFrame:
    """One row per iteration of the latest aggregation and figure: there can be thousands."""
    columns = {column: pl.Float64 for _, column, _ in ITERATION}
    keys = {"aggr_id": pl.Int64, "iter_value": pl.Int64}
    durations = database.frame("iteration_aggregation_list", {**keys, **dict(list(columns.items())[2:])})
    counts = database.frame("kernel_iteration_stats", {**keys, **dict(list(columns.items())[:2])})
    rows = (
        durations.filter(pl.col("aggr_id") == pl.lit(latest, pl.Int64))
        .join(
            counts.unique(("aggr_id", "iter_value"), keep="first", maintain_order=True),
            on=["aggr_id", "iter_value"],
            how="left",
            maintain_order="left",
        )
        .select(pl.format("Iteration {}", "iter_value").alias("of"), *columns)
    )
    titles = pl.DataFrame(
        {
            "column": list(columns),
            "title": [name for name, _, _ in ITERATION],
            "unit": [unit for _, _, unit in ITERATION],
        }
    )
    return (
        rows.with_row_index("row")
        .unpivot(on=list(columns), index=["row", "of"], variable_name="column")
        .join(titles, on="column", how="left")
        .sort("row", maintain_order=True)
        .drop_nulls("value")
        .select(
            pl.lit(TOOL).alias("tool"),
            pl.lit("Iterations").alias("section"),
            pl.format("{}: {}", "of", "title").alias("name"),
            "value",
            "unit",
        )
    )


def _put_op_types(database: Database, strings: DlprofDictionary, figures: _Figures, latest: int | None) -> None:
    """Times by op type; the definition of GPU idle time is DLProf's."""
    figures.section = "Op Types"
    numbers = ("aggr_id", "op_node_type_id", "op_type_metrics_id")
    schema = {**dict.fromkeys(numbers, pl.Int64), "num_nodes": pl.Float64, "num_calls": pl.Float64}
    types = (
        database.frame("op_type_metrics", schema).filter(pl.col("aggr_id") == pl.lit(latest, pl.Int64)).head(10 * _MOST)
    )
    if types.is_empty():
        return
    wanted = types["op_type_metrics_id"].implode()
    times = database.frame("node_time_metrics", {"id": pl.Int64, **{column: pl.Int64 for _, column in TIMES}})
    by_type = {row["id"]: row for row in times.filter(pl.col("id").is_in(wanted)).iter_rows(named=True)}
    metric = database.frame("metric", {"id": pl.Int64, **{column: pl.Float64 for _, column in PARTS}})
    used = [number for row in by_type.values() for _, column in TIMES if (number := row[column]) is not None]
    metrics = {row["id"]: row for row in metric.filter(pl.col("id").is_in(used)).iter_rows(named=True)}
    for row in types.iter_rows(named=True):
        name = strings.text(row["op_node_type_id"])
        figures.number(f"{name}: # Ops", row["num_nodes"], None)
        figures.number(f"{name}: # Calls", row["num_calls"], None)
        for title, column in TIMES:
            values = metrics.get(by_type.get(row["op_type_metrics_id"], {}).get(column), {})
            for part, key in PARTS:
                figures.number(f"{name}: {part} {title}", values.get(key), "ns")
