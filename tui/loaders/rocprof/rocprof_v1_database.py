"""Loads ``results.db`` of the first rocprof: HIP calls, kernels and copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.collector import link_run
from tui.model.errors import ProftuiError
from tui.model.names import short_name
from tui.model.schema import NAME
from tui.model.text_numbers import number_in

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.source import Source
    from tui.loaders.sqlite.database import Database

FORMAT: Final = Format(
    name="rocprof-database",
    title="rocprof database",
    recognized_by="an SQLite database with rocprof's tables (HIP, OPS, COPY, KERN)",
    feeds=("sessions", "activities", "api_calls", "issues"),
    record_with="rocprof --hip-trace ./app",
)

_CALL: Final = {
    "BeginNs": pl.Int64,
    "EndNs": pl.Int64,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "Name": pl.String,
    "args": pl.String,
    "Index": pl.Int64,
}
_WORK: Final = {
    "BeginNs": pl.Int64,
    "EndNs": pl.Int64,
    "dev-id": pl.Int64,
    "queue-id": pl.Int64,
    "stream-id": pl.Int64,
    "Name": pl.String,
    "pid": pl.Int64,
    "Index": pl.Int64,
}
_MOST_PROCESSES: Final = 256
_DIRECTIONS: Final = {"CopyHostToDevice": "HtoD", "CopyDeviceToHost": "DtoH", "CopyDeviceToDevice": "DtoD"}


@dataclass(frozen=True, slots=True)
class _RocprofDatabase:
    """rocprof's results.db as a format of SQLite databases."""

    format: Format = FORMAT

    def claims(self, database: Database) -> bool:
        return any(database.has(table, "BeginNs", "EndNs", "Name") for table in ("OPS", "COPY", "HIP"))

    def read(self, database: Database, collector: Collector, source: Source) -> None:
        """Add each process as a session.

        Raises:
            ProftuiError: Nothing was recorded.
        """
        calls = database.frame("HIP", _CALL)
        kernels, copies = database.frame("OPS", _WORK), database.frame("COPY", _WORK)
        starts = pl.concat([frame["BeginNs"] for frame in (calls, kernels, copies)]).drop_nulls()
        if starts.is_empty():
            raise ProftuiError(
                f"{database.called}: a rocprof database without a record: no kernels, memcpys or calls",
                f"profile again with: {FORMAT.record_with}",
            )
        origin = int(starts.min())  # type: ignore[arg-type]
        pids = pl.concat([frame["pid"] for frame in (calls, kernels, copies)]).unique().sort(nulls_last=True).to_list()
        known = [pid for pid in pids if pid is not None]
        # Rows that name no process are those of the only one, where there is but one.
        processes = pids if len(known) > 1 else known or [None]
        for pid in processes[:_MOST_PROCESSES]:
            session = collector.open_session(FORMAT.name, None, pid=pid)
            session.facts.update(tool="rocprof")
            of_process = pl.lit(True) if len(processes) == 1 else pl.col("pid").eq_missing(pl.lit(pid, pl.Int64))
            mine = [frame.filter(of_process) for frame in (calls, kernels, copies)]
            work, api = _work_and_calls(mine[0], mine[1], mine[2], origin)
            collector.add_frames(link_run(work, api, None, session, collector))
        if len(processes) > _MOST_PROCESSES:
            reason = f"the first {_MOST_PROCESSES} processes are shown, the others left out"
            collector.issue("error", None, f"{len(processes):,} processes", reason)
        collector.issue(
            "info", None, "", f"times count from the first event, at {origin} ns of the machine's own clock"
        )
        if kernels.height:
            collector.issue("info", None, "", "the database holds no grid, workgroup and registers: results.csv does")
        source.keep_going(collector.row_count)


def _work_and_calls(
    calls: pl.DataFrame, kernels: pl.DataFrame, copies: pl.DataFrame, origin: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The activities and API calls of one process, columns of the model."""
    # The argument list of a copy has its size; a call and what it did have one index.
    sizes = calls.select("Index", size_bytes=number_in(pl.col("args"), r"sizeBytes\(([0-9]{1,18})\)"))
    sizes = sizes.drop_nulls().unique("Index", keep="none")
    short = {name: short_name(name) for name in kernels["Name"].unique().drop_nulls()}
    work = pl.concat(
        [
            kernels.select(
                *_common(origin),
                pl.lit("kernel").cast(NAME).alias("kind"),
                pl.col("Name").replace(short).cast(NAME).alias("short_name"),
            ),
            copies.join(sizes, on="Index", how="left", maintain_order="left").select(
                *_common(origin),
                "size_bytes",
                pl.lit("memcpy").cast(NAME).alias("kind"),
                pl.col("Name").cast(NAME).alias("short_name"),
                pl.col("Name").replace_strict(_DIRECTIONS, default=None, return_dtype=NAME).alias("copy_kind"),
            ),
        ],
        how="diagonal",
    )
    names = pl.col("Name").cast(NAME).alias("name")
    return work, calls.select(names, *_span(origin), "pid", "tid", correlation="Index")


def _span(origin: int) -> tuple[pl.Expr, pl.Expr]:
    return (pl.col("BeginNs") - origin).alias("start_ns"), (pl.col("EndNs") - pl.col("BeginNs")).alias("duration_ns")


def _common(origin: int) -> tuple[pl.Expr, ...]:
    return (
        pl.col("Name").cast(NAME).alias("name"),
        *_span(origin),
        pl.col("dev-id").cast(pl.Int32, strict=False).alias("device"),
        pl.coalesce("stream-id", "queue-id").alias("stream"),
        pl.col("Index").alias("correlation"),
    )


ROCPROF_DATABASE: Final = _RocprofDatabase()
