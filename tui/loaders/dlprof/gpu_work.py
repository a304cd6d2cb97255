"""What ran on the GPU, and the CUDA calls, as a DLProf database keeps them.

It has one row for a kernel, copy or memset together with the call that launched it; further calls and synchronisations
have tables of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.cupti import COPY_KINDS
from tui.loaders.dlprof.ops import with_op
from tui.loaders.dlprof.times import duration
from tui.loaders.kernel_names import with_short_names
from tui.loaders.notes import Note
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.dlprof.strings import Strings
    from tui.loaders.source import Source
    from tui.loaders.sqlite.database import Database

TOOL: Final = "DLProf"

LAUNCH: Final = "[kernel launch]"
"""The call that launched a kernel: DLProf keeps its times and not its name."""

_LINK: Final = {
    "id": pl.Int64,
    "read_only_ops_id": pl.Int64,
    "op_instance": pl.Int64,
    "name_id": pl.Int64,
    "api_start": pl.Int64,
    "api_stop": pl.Int64,
    "process_id": pl.Int64,
    "thread_id": pl.Int64,
}
_ON_GPU: Final = {**_LINK, "gpu_start": pl.Int64, "gpu_stop": pl.Int64, "device_id": pl.Int64}
_KERNELS: Final = {
    **_ON_GPU,
    "long_name_id": pl.Int64,
    "uses_tc": pl.Int64,
    "grid_id": pl.Int64,
    "block_id": pl.Int64,
}
_COPIES: Final = {**_ON_GPU, "num_bytes": pl.Int64, "copy_kind": pl.Int64}
_MEMSETS: Final = {**_ON_GPU, "num_bytes": pl.Int64}

_CALL_TABLES: Final = ("read_only_cuda_calls", "read_only_cuda_syncs")


def read_gpu_work(
    database: Database, strings: Strings, ops: pl.DataFrame, collector: Collector, source: Source
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Activities and API calls, with columns of the model.

    Activities have ``kernel_id``, the row of a kernel in the database, and ``launch_ns``, when each was launched,
    besides. ``correlation`` ties each to its call: DLProf keeps both in one row, so the numbers are the loader's own.
    """
    parts: list[pl.DataFrame] = []
    for read in (_kernels, _copies, _memsets):
        parts.append(read(database, strings))
        if not source.keep_going(collector.row_count + sum(part.height for part in parts)):
            break
    work = pl.concat(parts, how="diagonal").with_row_index("correlation", offset=1)
    _tell_of_lost_times(work, collector)
    work = with_op(work, ops)
    by_time = int((work["op_join"] == "launch").sum())
    if by_time:
        reason = "the database's numbers of op instances contradict its times: the instance around the launch is taken"
        collector.issue("warning", None, f"{by_time} GPU activities", reason)
    lost = work["op"].null_count()
    if lost and ops.height:
        collector.issue(
            "warning",
            None,
            f"{lost} GPU activities",
            "the op that the database names for them is not in it; they are shown without an op",
        )
    return work, _calls(work, database, strings, collector)


def _kernels(database: Database, strings: Strings) -> pl.DataFrame:
    data = database.frame("read_only_kernels", _KERNELS)
    data = strings.put(data, "name", "long_name", of="kernels")
    shapes = database.frame("read_only_grid_block", {"id": pl.Int64, "x": pl.Int64, "y": pl.Int64, "z": pl.Int64})
    shapes = shapes.unique("id", keep="first", maintain_order=True)
    for what in ("grid", "block"):
        columns = {"id": f"{what}_id", **{axis: f"{what}_{axis}" for axis in "xyz"}}
        data = data.join(shapes.rename(columns), on=f"{what}_id", how="left", maintain_order="left")
    lost = data.select(pl.any_horizontal(*map(_is_lost, ("grid", "block"))).sum()).item()
    if lost:
        reason = "the database has no sizes for the numbers of their grids and blocks, so these stay unknown"
        database.notes.append(Note("warning", None, f"{lost:,} of {data.height:,} kernels", reason))
    name = pl.coalesce("long_name", "name")
    sizes = (pl.col(f"{what}_{axis}").cast(pl.Int32, strict=False) for what in ("grid", "block") for axis in "xyz")
    rows = data.select(
        *_common("kernel"),
        pl.col("id").alias("kernel_id"),
        name.alias("name"),
        *sizes,
        pl.col("uses_tc").replace_strict({0: False, 1: True}, default=None).cast(pl.Boolean).alias("uses_tensor_core"),
        pl.when(pl.col("uses_tc").is_in([0, 1])).then(pl.lit(TOOL)).cast(NAME).alias("tensor_core_reason"),
        pl.lit(LAUNCH, NAME).alias("call"),
    )
    return with_short_names(rows)


def _is_lost(what: str) -> pl.Expr:
    return pl.col(f"{what}_id").is_not_null() & pl.all_horizontal(pl.col(f"{what}_{axis}").is_null() for axis in "xyz")


def _copies(database: Database, strings: Strings) -> pl.DataFrame:
    data = strings.put(database.frame("read_only_memcpys", _COPIES), "name", of="copies")
    kind = pl.col("copy_kind").replace_strict(dict(COPY_KINDS), default=None, return_dtype=pl.String)
    name = pl.format("[CUDA memcpy {}]", kind).fill_null("[CUDA memcpy]").cast(NAME)
    return data.select(
        *_common("memcpy"),
        name.alias("name"),
        name.alias("short_name"),
        pl.when(pl.col("num_bytes") >= 0).then("num_bytes").alias("size_bytes"),
        kind.cast(NAME).alias("copy_kind"),
        pl.col("name").alias("call"),
    )


def _memsets(database: Database, strings: Strings) -> pl.DataFrame:
    data = strings.put(database.frame("read_only_memsets", _MEMSETS), "name", of="memsets")
    name = pl.lit("[CUDA memset]", NAME)
    return data.select(
        *_common("memset"),
        name.alias("name"),
        name.alias("short_name"),
        pl.when(pl.col("num_bytes") >= 0).then("num_bytes").alias("size_bytes"),
        pl.col("name").alias("call"),
    )


def _common(kind: str) -> tuple[pl.Expr, ...]:
    """What every kind of GPU work has. Where DLProf has no GPU times it writes 0 for both."""
    known = (pl.col("gpu_start") != 0) | (pl.col("gpu_stop") != 0)
    return (
        pl.lit(kind, NAME).alias("kind"),
        pl.when(known).then("gpu_start").alias("start_ns"),
        pl.when(known).then(duration("gpu_start", "gpu_stop")).alias("duration_ns"),
        pl.col("device_id").cast(pl.Int32, strict=False).alias("device"),
        pl.col("read_only_ops_id"),
        pl.col("op_instance"),
        pl.col("api_start").alias("launch_ns"),
        duration("api_start", "api_stop").alias("launch_duration_ns"),
        pl.col("process_id"),
        pl.col("thread_id"),
    )


def _tell_of_lost_times(work: pl.DataFrame, collector: Collector) -> None:
    lost = work["duration_ns"].null_count()
    if lost:
        collector.issue(
            "warning",
            None,
            f"{lost} of {work.height} GPU activities",
            "the database has no times for them that can be true, so their durations stay unknown",
        )


def _calls(work: pl.DataFrame, database: Database, strings: Strings, collector: Collector) -> pl.DataFrame:
    launches = work.select(
        pl.col("call").alias("name"),
        pl.col("launch_ns").alias("start_ns"),
        pl.col("launch_duration_ns").alias("duration_ns"),
        pl.col("process_id").alias("pid"),
        pl.col("thread_id").alias("tid"),
        pl.col("correlation").cast(pl.Int64),
    )
    others = [
        strings.put(database.frame(table, _LINK), "name", of="CUDA calls").select(
            "name",
            pl.col("api_start").alias("start_ns"),
            duration("api_start", "api_stop"),
            pl.col("process_id").alias("pid"),
            pl.col("thread_id").alias("tid"),
        )
        for table in _CALL_TABLES
    ]
    if (work["kind"] == "kernel").any():
        collector.issue(
            "info",
            None,
            LAUNCH,
            "DLProf records when a kernel was launched and not by which call: such calls are listed under this name",
        )
    # Nsight Systems, which DLProf records with, writes the version of the interface behind the name.
    plain = pl.col("name").cast(pl.String).str.replace(r"_v\d+$", "").cast(NAME)
    return pl.concat([launches, *others], how="diagonal").with_columns(plain).sort("start_ns", maintain_order=True)
