"""Loads DLProf's database, ``dlprof_dldb.sqlite``, versions 1.3 to 1.8.

Its views are never read: their content is computed here from the tables.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.correlation.launches import iterations_at_times
from tui.loaders.base import Format
from tui.loaders.collector import model_columns
from tui.loaders.dlprof.dlprof_activities import TOOL, DlprofDictionary, duration_column, read_gpu_work, read_ops
from tui.loaders.input_issues import InputIssue
from tui.loaders.sqlite.database import missing_columns
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES, NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.loaders.collector import Collector
    from tui.loaders.input_file import InputFile
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
DATABASE_PARTS: Final = (("Total", "sum"), ("Avg.", "avg"), ("Min", "min"), ("Max", "max"))

SUMMARY: Final[Mapping[str, Any]] = {
    "aggr_id": pl.Int64,
    "domain_id": pl.Int64,
    "key_node_id": pl.Int64,
    **{column: pl.Float64 for _, column, _ in (*PERFORMANCE, *RESOURCES)},
    **{column: pl.Int64 for _, column in OPS},
}
"""The columns of ``model_summary`` that are read."""


_MAX_ROWS: Final = 1000
"""The maximum number of rows of a table that has one for each aggregation, GPU, op type or finding."""


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
        """Return all figures, with columns of ``tool_figures``."""
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
    columns = {"id": pl.Int64, **dict.fromkeys(("cpu_time", "gpu_time", "count"), pl.Float64)}
    categories = {row["id"]: row for row in _rows(database, "category_summary", columns, limit=100 * _MAX_ROWS)}
    kernel_categories = _kernel_categories(database)
    for row in _rows(database, "model_summary", SUMMARY):
        aggregation = row["aggr_id"]
        qualifier = "" if aggregation == latest else f" (aggregation {aggregation})"
        domain = _domain(database, strings, row["domain_id"])
        qualifier += f" (domain {domain})" if domain else ""
        figures.section = f"Performance Summary{qualifier}"
        for name, column, unit in PERFORMANCE:
            figures.number(name, row[column], unit)
        figures.text("Key Op", strings.text(row["key_node_id"]))
        figures.section = f"Resource Usage Breakdown{qualifier}"
        for name, column, unit in RESOURCES:
            figures.number(name, row[column], unit)
        figures.section = f"All Ops{qualifier}"
        for name, column in OPS:
            _put_category(figures, name, categories.get(row[column]), "# Ops")
        figures.section = f"All Kernels{qualifier}"
        _put_kernels(figures, categories, kernel_categories.get((aggregation, row["domain_id"]), {}))
    _put_op_types(database, strings, figures, latest)
    collector.add_frame("tool_figures", figures.frame())
    collector.add_frame("tool_figures", _iteration_rows(database, latest))


def put_findings(database: Database, collector: Collector, latest: int | None) -> None:
    """Add the advice of DLProf's Expert Systems on the latest aggregation."""
    schema = {"aggr_id": pl.Int64, "problem": pl.String, "recommendation": pl.String}
    is_wanted = pl.lit(latest is None) | pl.col("aggr_id").is_null() | (pl.col("aggr_id") == pl.lit(latest, pl.Int64))
    for row in _rows(database, "expert_systems_feedback", schema, is_wanted & (pl.col("problem") != "")):
        texts = {"problem": row["problem"], "recommendation": row["recommendation"] or None}
        collector.add("tool_findings", {"tool": TOOL, **texts})


def _rows(
    database: Database,
    table: str,
    schema: Mapping[str, Any],
    is_wanted: pl.Expr | None = None,
    *,
    limit: int = _MAX_ROWS,
) -> Iterator[dict[str, Any]]:
    """Return the rows of a small table, by column; too many rows are damage, which is reported."""
    data = database.frame(table, schema)
    data = data if is_wanted is None else data.filter(is_wanted)
    if data.height > limit:
        reason = f"only the first {limit:,} of {data.height:,} rows were read"
        database.notes.append(InputIssue("warning", None, table, reason))
    return data.head(limit).iter_rows(named=True)


def _domain(database: Database, strings: DlprofDictionary, number: int | None) -> str | None:
    """Return the name of a domain, if there are several."""
    domains = database.frame("read_only_domains", {"id": pl.Int64, "domain_name_id": pl.Int64})
    names = domains.filter(pl.col("id") == pl.lit(number, pl.Int64))["domain_name_id"].to_list()
    return strings.text(names[0]) if domains.height > 1 and names else None


def _put_category(figures: _Figures, name: str, category: Mapping[str, Any] | None, count: str) -> None:
    if category is not None:
        figures.number(f"{name}: GPU Time", category["gpu_time"], "ns")
        figures.number(f"{name}: CPU Time", category["cpu_time"], "ns")
        figures.number(f"{name}: {count}", category["count"], None)


def _kernel_categories(database: Database) -> dict[tuple[int | None, int | None], dict[str, int]]:
    """Return the rows of ``category_summary`` about kernels and memory, by aggregation and domain."""
    columns = ("kernels_total_id", "kernels_using_tc_id", "kernels_non_tc_id", "memory_time_id")
    numbers: defaultdict[tuple[int | None, int | None], dict[str, int]] = defaultdict(dict)
    for table in ("kernel_summary_metrics", "memory_summary_metrics"):
        for row in _rows(database, table, dict.fromkeys(("aggr_id", "domain_id", *columns), pl.Int64)):
            known = {column: row[column] for column in columns if row[column] is not None}
            numbers[row["aggr_id"], row["domain_id"]] |= known
    return numbers


def _put_kernels(
    figures: _Figures, categories: Mapping[int | None, Mapping[str, Any]], numbers: Mapping[str, int]
) -> None:
    """Add kernels and memory operations, by their rows of ``category_summary``; DLProf counts both as kernels."""
    kernels, memory = categories.get(numbers.get("kernels_total_id")), categories.get(numbers.get("memory_time_id"))
    if kernels is not None and memory is not None:
        sums = {column: _sum(kernels[column], memory[column]) for column in ("gpu_time", "cpu_time", "count")}
        _put_category(figures, "All kernels", sums, "# Kernels")
    for name, column in KERNELS:
        _put_category(figures, name, categories.get(numbers.get(column)), "# Kernels")


def _sum(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right


def _put_gpus(database: Database, figures: _Figures, latest: int | None) -> None:
    figures.section = "GPUs"
    schema = {"aggr_id": pl.Int64, "gpu_info_id": pl.Int64, "gpu_utilization": pl.Float64}
    gpus = database.frame("read_only_gpu_infos", {"id": pl.Int64, "device_id": pl.Int64})
    devices = dict(gpus.head(_MAX_ROWS).iter_rows())
    of_latest = pl.col("aggr_id").eq_missing(pl.lit(latest, pl.Int64))
    for row in _rows(database, "device_gpu_utilizations", schema, of_latest):
        if row["gpu_info_id"] in devices:
            figures.number(f"GPU {devices[row['gpu_info_id']]}: GPU Utilization", row["gpu_utilization"], "%")
    for row in _rows(database, "gpu_memories", {"id": pl.Int64, "total": pl.Int64, "used": pl.Int64}):
        figures.number(f"GPU memory {row['id']}: Total", row["total"], "B")
        figures.number(f"GPU memory {row['id']}: Used", row["used"], "B")


def _iteration_rows(database: Database, latest: int | None) -> pl.DataFrame:
    """Return one row per iteration of the latest aggregation and figure: there can be thousands."""
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
        .select(pl.format("Iteration {}", "iter_value").alias("iteration"), *columns)
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
        .unpivot(on=list(columns), index=["row", "iteration"], variable_name="column")
        .join(titles, on="column", how="left", maintain_order="left")
        .sort("row", maintain_order=True)
        .drop_nulls("value")
        .select(
            pl.lit(TOOL).alias("tool"),
            pl.lit("Iterations").alias("section"),
            pl.format("{}: {}", "iteration", "title").alias("name"),
            "value",
            "unit",
        )
    )


def _put_op_types(database: Database, strings: DlprofDictionary, figures: _Figures, latest: int | None) -> None:
    """Add times by op type; the definition of GPU idle time is DLProf's."""
    figures.section = "Op Types"
    numbers = ("aggr_id", "op_node_type_id", "op_type_metrics_id")
    schema = {**dict.fromkeys(numbers, pl.Int64), "num_nodes": pl.Float64, "num_calls": pl.Float64}
    types = list(_rows(database, "op_type_metrics", schema, pl.col("aggr_id") == pl.lit(latest, pl.Int64)))
    if not types:
        return
    times_ids = [row["op_type_metrics_id"] for row in types]
    times = database.frame("node_time_metrics", {"id": pl.Int64, **{column: pl.Int64 for _, column in TIMES}})
    by_type = {row["id"]: row for row in times.filter(pl.col("id").is_in(times_ids)).iter_rows(named=True)}
    metric = database.frame("metric", {"id": pl.Int64, **{column: pl.Float64 for _, column in DATABASE_PARTS}})
    metric_ids = [number for row in by_type.values() for _, column in TIMES if (number := row[column]) is not None]
    metrics = {row["id"]: row for row in metric.filter(pl.col("id").is_in(metric_ids)).iter_rows(named=True)}
    for row in types:
        name = strings.text(row["op_node_type_id"])
        figures.number(f"{name}: # Ops", row["num_nodes"], None)
        figures.number(f"{name}: # Calls", row["num_calls"], None)
        for title, column in TIMES:
            values = metrics.get(by_type.get(row["op_type_metrics_id"], {}).get(column), {})
            for processor, key in DATABASE_PARTS:
                figures.number(f"{name}: {processor} {title}", values.get(key), "ns")


_LIST: Final = {"aggr_id": pl.Int64, "iter_value": pl.Int64, "start_time": pl.Int64, "stop_time": pl.Int64}
_KERNEL_COLUMNS: Final = {"aggr_id": pl.Int64, "read_only_kernel_id": pl.Int64, "iter_value": pl.Int64}


@dataclass(frozen=True, slots=True)
class DlprofIterations:
    """The iterations of one aggregation."""

    aggregation: int | None
    """Its number in the database; None if there is none."""
    ranges: pl.DataFrame
    """One row per iteration, with columns of the frame ``ranges``, by start."""
    kernel_iterations: pl.DataFrame
    """Columns kernel_id and iteration: as DLProf assigned them."""
    source: str | None
    """The source of the iterations, for people; None if there are none."""

    def add_iteration(self, data: pl.DataFrame, time_column: str) -> pl.DataFrame:
        """Add ``iteration``: as DLProf assigned it to kernels, otherwise by the time in column ``time_column``."""
        by_time = iterations_at_times(self.ranges, data[time_column]) if self.ranges.height else pl.lit(None, pl.Int32)
        if "kernel_id" not in data.columns:
            return data.with_columns(by_time.alias("iteration"))
        return (
            data.with_columns(by_time.alias("by_time"))
            .join(self.kernel_iterations, on="kernel_id", how="left", maintain_order="left")
            .with_columns(pl.coalesce("iteration", "by_time").alias("iteration"))
        )


def read_iterations(database: Database, strings: DlprofDictionary, collector: Collector) -> DlprofIterations:
    """Find the iterations, and report problems with them."""
    listed = database.frame("iteration_list", _LIST).drop_nulls(("aggr_id", "iter_value"))
    numbers = _aggregations(listed, database)
    latest = numbers[-1] if numbers else None
    of_latest = pl.col("aggr_id") == pl.lit(latest, pl.Int64)
    if len(numbers) > 1:
        collector.issue(
            "info",
            None,
            f"aggregations {', '.join(map(str, numbers[:8]))}",
            f"the database has {len(numbers)} aggregations; the iterations of the latest, number {latest}, are shown",
        )
    rows = listed.filter(of_latest)
    ranges = (
        rows.select(
            pl.format("iteration {}", "iter_value").cast(NAME).alias("name"),
            pl.lit("DLProf", NAME).alias("domain"),
            pl.col("start_time").alias("start_ns"),
            duration_column("start_time", "stop_time"),
            pl.lit(0, pl.Int32).alias("depth"),
            pl.col("iter_value").cast(pl.Int32, strict=False).alias("iteration"),
        )
        .unique("iteration", keep="first", maintain_order=True)
        .drop_nulls()
        .sort("start_ns", maintain_order=True)
    )
    if ranges.height < rows.height:
        collector.issue(
            "warning",
            None,
            f"{rows.height - ranges.height} of {rows.height} iterations",
            "implausible times or a duplicate number: skipped",
        )
    kernel_iterations = (
        database.frame("kernel_iteration_node", _KERNEL_COLUMNS)
        .filter(of_latest)
        .select(
            pl.col("read_only_kernel_id").alias("kernel_id"),
            pl.col("iter_value").cast(pl.Int32, strict=False).alias("iteration"),
        )
        .unique("kernel_id", keep="first", maintain_order=True)
    )
    key = database.frame("iteration_key", {"aggr_id": pl.Int64, "key_node_id": pl.Int64})
    key_id = key.filter(of_latest)["key_node_id"].to_list()[:1]
    has_iterations = bool(ranges.height or kernel_iterations.height)
    source = _source(ranges.height, strings.text(key_id[0]) if key_id else None) if has_iterations else None
    return DlprofIterations(latest, ranges, kernel_iterations, source)


def _aggregations(listed: pl.DataFrame, database: Database) -> list[int]:
    """Return the numbers of the aggregations, the latest last."""
    summaries = database.frame("model_summary", {"aggr_id": pl.Int64})
    return sorted(pl.concat([listed["aggr_id"], summaries["aggr_id"]]).drop_nulls().unique().to_list())


def _source(count: int, key_op: str | None) -> str:
    if key_op is not None:
        return f"DLProf key op {key_op}"
    return "DLProf (no key op found)" if count == 1 else "DLProf"


FORMAT: Final = Format(
    name="dlprof-database",
    title="DLProf database",
    recognized_by="an SQLite database with DLProf's tables (dictionary, read_only_ops, ...)",
    feeds=(
        "sessions",
        "devices",
        "activities",
        "api_calls",
        "ops",
        "ranges",
        "tool_figures",
        "tool_findings",
        "issues",
    ),
    record_with="dlprof --mode=pytorch --reports=all python train.py",
)

_TABLES: Final = ("read_only_ops", "read_only_kernels", "read_only_op_instances")

_WRITTEN: Final = {
    "read_only_kernels": (
        *("read_only_ops_id", "name_id", "uses_tc", "api_start", "api_stop", "gpu_start", "gpu_stop"),
        *("grid_id", "block_id", "device_id"),
    ),
    "read_only_memcpys": ("api_start", "api_stop", "gpu_start", "gpu_stop", "device_id", "num_bytes", "copy_kind"),
    "read_only_memsets": ("api_start", "api_stop", "gpu_start", "gpu_stop", "device_id", "num_bytes"),
    "read_only_grid_block": ("id", "x", "y", "z"),
    "read_only_op_instances": ("read_only_ops_id", "cpu_start", "cpu_stop"),
}
"""Columns that the views need."""

_GPUS: Final = {
    "device_id": pl.Int64,
    "gpu_name": pl.String,
    "compute_capability_major": pl.Int64,
    "compute_capability_minor": pl.Int64,
    "sm_count": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class _DlprofDatabase:
    """DLProf's database as a format of SQLite databases."""

    format: Format = FORMAT

    def claims(self, database: Database) -> bool:
        return "dictionary" in database.tables and any(table in database.tables for table in _TABLES)

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add the database as one session.

        Raises:
            ProftuiError: It holds no ops, no GPU work and no figures.
        """
        session = collector.open_session(FORMAT.name, None)
        session.facts.update(_facts(database), tool=TOOL)
        session.command = _first_value(database, "read_only_system_config", "original_command")
        strings = DlprofDictionary(database, collector)
        ops = read_ops(database, strings)
        iterations = read_iterations(database, strings, collector)
        work, calls = read_gpu_work(database, strings, ops, collector, source)
        pids = pl.concat([ops["pid"], work["process_id"]]).drop_nulls().unique()
        session.pid = pids.item() if len(pids) == 1 else None
        session.facts["iteration_source"] = iterations.source
        put_figures(database, strings, collector, iterations.aggregation)
        put_findings(database, collector, iterations.aggregation)
        if not ops.height and not work.height and not collector.count("tool_figures"):
            raise ProftuiError(
                f"{database.display_name}: a DLProf database without ops, kernels or values",
                "the recording failed; profile again and let DLProf finish",
            )
        collector.add_frames(
            {
                "devices": _devices(database),
                "ops": model_columns("ops", iterations.add_iteration(ops, "start_ns")),
                "activities": model_columns("activities", iterations.add_iteration(work, "launch_ns")),
                "api_calls": calls,
                "ranges": iterations.ranges,
            }
        )
        for table, reason in missing_columns(database, _WRITTEN):
            collector.issue("warning", None, table, reason)
        if not work.height:
            collector.issue(
                "warning",
                None,
                "",
                "the database has ops but no kernels or memcpys: GPU work was not recorded (another profiler was "
                "active, or the program used no GPU)",
            )


def _facts(database: Database) -> dict[str, str | None]:
    version = _first_value(database, "read_only_system_config", "dlprof_version") or _first_value(
        database, "db_version", "original_version"
    )
    columns = ("framework", "cuda_version", "cudnn_version", "driver_version")
    facts = {column: _first_value(database, "read_only_system_config", column) for column in columns}
    return {**facts, "tool_version": version.removeprefix("v") if version else None}


def _first_value(database: Database, table: str, column: str) -> str | None:
    """Return the text in the first row; None if there is none."""
    texts = database.frame(table, {column: pl.String})[column].drop_nulls().str.strip_chars()
    return texts.item(0) or None if len(texts) else None


def _devices(database: Database) -> pl.DataFrame:
    gpus = database.frame("read_only_gpu_infos", _GPUS)
    return (
        gpus.select(
            pl.col("device_id").cast(pl.Int32, strict=False).alias("device"),
            pl.col("gpu_name").alias("name"),
            pl.format("{}.{}", "compute_capability_major", "compute_capability_minor").alias("compute_capability"),
            pl.col("sm_count").cast(pl.Int32, strict=False),
        )
        .drop_nulls("device")
        .unique("device", keep="first", maintain_order=True)
    )


DLPROF_DATABASE: Final = _DlprofDatabase()
"""The format, for the list of database formats."""
