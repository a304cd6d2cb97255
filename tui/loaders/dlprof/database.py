"""Reads the database of DLProf, ``dlprof_dldb.sqlite``, of versions 1.3 to 1.8.

Its views are never asked: what they would say is worked out here from the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.dlprof.figures import put_figures, put_findings
from tui.loaders.dlprof.gpu_work import TOOL, read_gpu_work
from tui.loaders.dlprof.iterations import read_iterations
from tui.loaders.dlprof.ops import read_ops
from tui.loaders.dlprof.strings import Strings
from tui.loaders.missing_columns import missing_columns
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.source import Source
    from tui.loaders.sqlite.database import Database

FORMAT: Final = Format(
    name="dlprof-database",
    title="DLProf database",
    recognised_by="an SQLite database with DLProf's tables (dictionary, read_only_ops, ...)",
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
"""Columns whose values are missed on the screens."""

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
        """Put the database into one session.

        Raises:
            ProftuiError: It holds no ops, no GPU work and no figures.
        """
        session = collector.open_session(FORMAT.name, None)
        session.facts.update(_facts(database), tool=TOOL)
        session.command = _first(database, "read_only_system_config", "original_command")
        strings = Strings(database, collector)
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
                "ops": _of_model("ops", iterations.put(ops, "start_ns")),
                "activities": _of_model("activities", iterations.put(work, "launch_ns")),
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
                "the database holds ops and not one kernel or copy: what ran on the GPU was not recorded "
                "(another profiler may have been at work, or the program used no GPU)",
            )


def _facts(database: Database) -> dict[str, str | None]:
    version = _first(database, "read_only_system_config", "dlprof_version") or _first(
        database, "db_version", "original_version"
    )
    columns = ("framework", "cuda_version", "cudnn_version", "driver_version")
    facts = {column: _first(database, "read_only_system_config", column) for column in columns}
    return {**facts, "tool_version": version.removeprefix("v") if version else None}


def _first(database: Database, table: str, column: str) -> str | None:
    """The text in the first row; None where there is none."""
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


def _of_model(frame: str, data: pl.DataFrame) -> pl.DataFrame:
    return data.select(column for column in FRAMES[frame] if column in data.columns)


DLPROF_DATABASE: Final = _DlprofDatabase()
"""The format, for the list of database formats."""
