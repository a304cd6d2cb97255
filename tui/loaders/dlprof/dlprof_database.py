"""Loads DLProf's database, ``dlprof_dldb.sqlite``, versions 1.3 to 1.8.

Its views are never read: their content is computed here from the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.launches import iteration_at
from tui.loaders.base import Format
from tui.loaders.dlprof.dlprof_activities import TOOL, DlprofDictionary, duration, read_gpu_work, read_ops
from tui.loaders.dlprof.dlprof_figures import put_figures, put_findings
from tui.loaders.input_issues import missing_columns
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES, NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.source import Source
    from tui.loaders.sqlite.database import Database


_LIST: Final = {"aggr_id": pl.Int64, "iter_value": pl.Int64, "start_time": pl.Int64, "stop_time": pl.Int64}
_OF_KERNELS: Final = {"aggr_id": pl.Int64, "read_only_kernel_id": pl.Int64, "iter_value": pl.Int64}


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of one aggregation."""

    aggregation: int | None
    """Its number in the database; None where there is none."""
    ranges: pl.DataFrame
    """One row per iteration, with columns of the frame ``ranges``, by start."""
    of_kernels: pl.DataFrame
    """Columns kernel_id and iteration: as DLProf assigned them."""
    source: str | None
    """The source of the iterations, for people; None if there are none."""

    def put(self, data: pl.DataFrame, at: str) -> pl.DataFrame:
        """Add ``iteration``: DLProf's own for kernels, otherwise the one that contains the time in column ``at``."""
        by_time = iteration_at(self.ranges, data[at]) if self.ranges.height else pl.lit(None, pl.Int32)
        if "kernel_id" not in data.columns:
            return data.with_columns(by_time.alias("iteration"))
        return (
            data.with_columns(by_time.alias("by_time"))
            .join(self.of_kernels, on="kernel_id", how="left", maintain_order="left")
            .with_columns(pl.coalesce("iteration", "by_time").alias("iteration"))
        )


def read_iterations(database: Database, strings: DlprofDictionary, collector: Collector) -> Iterations:
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
            f"the database holds {len(numbers)} aggregations; iterations are those of the latest, number {latest}",
        )
    rows = listed.filter(of_latest)
    ranges = (
        rows.select(
            pl.format("iteration {}", "iter_value").cast(NAME).alias("name"),
            pl.lit("DLProf", NAME).alias("domain"),
            pl.col("start_time").alias("start_ns"),
            duration("start_time", "stop_time"),
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
            "no plausible times, or a duplicate number; left out",
        )
    of_kernels = (
        database.frame("kernel_iteration_node", _OF_KERNELS)
        .filter(of_latest)
        .select(
            pl.col("read_only_kernel_id").alias("kernel_id"),
            pl.col("iter_value").cast(pl.Int32, strict=False).alias("iteration"),
        )
        .unique("kernel_id", keep="first", maintain_order=True)
    )
    key = database.frame("iteration_key", {"aggr_id": pl.Int64, "key_node_id": pl.Int64})
    key_id = key.filter(of_latest)["key_node_id"].to_list()[:1]
    any_found = bool(ranges.height or of_kernels.height)
    source = _source(ranges.height, strings.text(key_id[0]) if key_id else None) if any_found else None
    return Iterations(latest, ranges, of_kernels, source)


def _aggregations(listed: pl.DataFrame, database: Database) -> list[int]:
    """Their numbers, the latest last."""
    summed = database.frame("model_summary", {"aggr_id": pl.Int64})
    return sorted(pl.concat([listed["aggr_id"], summed["aggr_id"]]).drop_nulls().unique().to_list())


def _source(count: int, key_op: str | None) -> str:
    if key_op is not None:
        return f"DLProf's key op {key_op}"
    return "DLProf, which found no key op to divide by" if count == 1 else "DLProf"


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

    def read(self, database: Database, collector: Collector, source: Source) -> None:
        """Add the database as one session.

        Raises:
            ProftuiError: It holds no ops, no GPU work and no figures.
        """
        session = collector.open_session(FORMAT.name, None)
        session.facts.update(_facts(database), tool=TOOL)
        session.command = _first(database, "read_only_system_config", "original_command")
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
                f"{database.called}: a DLProf database without a single op, kernel or figure",
                "the recording failed: profile again, and let DLProf finish",
            )
        collector.add_frames(
            {
                "devices": _devices(database),
                "ops": _fit_to_model("ops", iterations.put(ops, "start_ns")),
                "activities": _fit_to_model("activities", iterations.put(work, "launch_ns")),
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
                "the database holds ops but no kernels or memcpys: GPU work was not recorded (another profiler "
                "was active, or the program used no GPU)",
            )


def _facts(database: Database) -> dict[str, str | None]:
    version = _first(database, "read_only_system_config", "dlprof_version") or _first(
        database, "db_version", "original_version"
    )
    columns = ("framework", "cuda_version", "cudnn_version", "driver_version")
    facts = {column: _first(database, "read_only_system_config", column) for column in columns}
    return {**facts, "tool_version": version.removeprefix("v") if version else None}


def _first(database: Database, table: str, column: str) -> str | None:
    """The text in the first row; None if there is none."""
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


def _fit_to_model(frame: str, data: pl.DataFrame) -> pl.DataFrame:
    return data.select(column for column in FRAMES[frame] if column in data.columns)


DLPROF_DATABASE: Final = _DlprofDatabase()
"""The format, for the list of database formats."""
