"""GPU activities, CUDA calls and ops of a DLProf database.

It has one row for a kernel, copy or memset together with the call that launched it; further calls and synchronizations
have tables of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.plausible_times import MAX_NS
from tui.loaders.collector import with_short_names
from tui.loaders.cupti import COPY_KINDS
from tui.loaders.input_issues import InputIssue
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.input_file import InputFile
    from tui.loaders.sqlite.database import Database


def duration_column(start: str, stop: str) -> pl.Expr:
    """Return the column ``duration_ns``; null if start and stop are inconsistent."""
    ns = pl.col(stop) - pl.col(start)
    return pl.when(ns.is_between(0, MAX_NS)).then(ns).alias("duration_ns")


_OPS: Final = {
    "id": pl.Int64,
    "op_id_id": pl.Int64,
    "op_id": pl.String,
    "op_name": pl.String,
    "op_type_id": pl.Int64,
    "tc_support_status": pl.Int64,
    "data_type_id": pl.Int64,
    "direction_id": pl.Int64,
    "stack_trace": pl.String,
}
_INSTANCES: Final = {
    "id": pl.Int64,
    "read_only_ops_id": pl.Int64,
    "cpu_start": pl.Int64,
    "cpu_stop": pl.Int64,
    "process_id": pl.Int64,
    "thread_id": pl.Int64,
    "input_shapes_id": pl.Int64,
}

_ELIGIBLE: Final = {0: True, 3: False}
"""Tensor-core eligibility by ``tc_support_status``; 2 is unknown."""


def path_columns(path: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return columns ``name`` (the last part) and ``group`` (the parts before it) of an op's path.

    >>> row = pl.DataFrame({"path": ["/module/Net::forward/conv2d", "unassociated_cudaFree_v3020"]})
    >>> row.select(path_columns(pl.col("path"))).cast(pl.String).rows()
    [('conv2d', 'module/Net::forward'), ('unassociated_cudaFree_v3020', None)]
    """
    group = path.str.extract(r"(?s)^/*(.+?)/+[^/]+/*$", 1)
    return path.str.extract(r"(?s)([^/]+)/*$", 1).cast(NAME).alias("name"), group.cast(NAME).alias("group")


def stack_column(stack: pl.Expr) -> pl.Expr:
    """Return a stack trace as the model has it, innermost first: DLProf writes one line each, outermost first."""
    lines = stack.str.strip_chars().str.split("\n").list.reverse().list.join(";")
    return pl.when(lines != "").then(lines).cast(NAME).alias("stack")


def read_ops(database: Database, strings: DlprofDictionary) -> pl.DataFrame:
    """Return one row per op instance, by start, with columns of the model and the keys by which GPU work refers to it.

    Those are ``read_only_ops_id`` and ``op_instance``, the number of the instance among those of its op, from 0. An op
    without a recorded instance has one row without times.
    """
    listed = database.frame("read_only_ops", _OPS)
    ops = listed.filter(pl.col("id").is_first_distinct() | pl.col("id").is_null())
    if duplicates := listed.height - ops.height:
        reason = f"ops with a duplicate number skipped: {duplicates:,}"
        database.notes.append(InputIssue("warning", None, "read_only_ops", reason))
    ops = strings.add_texts(ops, "op_type", "data_type", "direction", row_kind="ops").select(
        pl.col("id").alias("read_only_ops_id"),
        "op_id",
        *path_columns(pl.col("op_name")),
        "op_type",
        "direction",
        pl.col("data_type").alias("dtype"),
        stack_column(pl.col("stack_trace")),
        pl.col("tc_support_status")
        .replace_strict(_ELIGIBLE, default=None, return_dtype=pl.Boolean)
        .alias("tc_eligible"),
    )
    instances = database.frame("read_only_op_instances", _INSTANCES).sort("id", maintain_order=True)
    instances = strings.add_texts(instances, "input_shapes", row_kind="op instances").with_columns(
        pl.int_range(pl.len()).over("read_only_ops_id").alias("op_instance")
    )
    rows = ops.join(
        instances.drop("id"), on="read_only_ops_id", how="full", coalesce=True, maintain_order="left_right"
    ).select(
        *ops.columns,
        pl.col("op_instance").fill_null(0),
        pl.col("cpu_start").alias("start_ns"),
        duration_column("cpu_start", "cpu_stop"),
        pl.col("process_id").alias("pid"),
        pl.col("thread_id").alias("tid"),
        "input_shapes",
        pl.lit("recorded", NAME).alias("op_source"),
    )
    return (
        rows.sort("start_ns", nulls_last=True, maintain_order=True)
        .with_row_index("op")
        .with_columns(pl.col("op").cast(pl.UInt32))
    )


def with_op(data: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Fill ``op`` and ``op_join`` of GPU work by ``read_only_ops_id`` and ``op_instance``.

    A missing instance is replaced by the only one of its op, if there is one. If the numbers
    contradict the times in most cases, the instance whose time contains the launch (``launch_ns``) counts.
    """
    by_instance = ops.select("read_only_ops_id", "op_instance", "op")
    only_instances = (
        by_instance.group_by("read_only_ops_id", maintain_order=True)
        .agg(pl.len().alias("instances"), pl.col("op").first().alias("only_op"))
        .filter(pl.col("instances") == 1)
        .select("read_only_ops_id", "only_op")
    )
    linked = (
        data.join(by_instance, on=["read_only_ops_id", "op_instance"], how="left", maintain_order="left")
        .join(only_instances, on="read_only_ops_id", how="left", maintain_order="left")
        .with_columns(pl.coalesce("op", "only_op").alias("op"), _op_around(data, ops))
    )
    op_around = pl.col("op_around")
    agrees = (pl.col("op") == op_around).fill_null(False)
    comparable, equal = linked.select(op_around.count().alias("comparable"), agrees.sum().alias("equal")).row(0)
    by_time = op_around.is_not_null() if equal * 2 < comparable else pl.lit(False)
    return linked.with_columns(pl.when(by_time).then(op_around).otherwise("op").alias("op")).with_columns(
        pl.when(by_time)
        .then(pl.lit("launch"))
        .when(pl.col("op").is_not_null())
        .then(pl.lit("recorded"))
        .otherwise(pl.lit("launched outside any op"))
        .cast(NAME)
        .alias("op_join")
    )


def _op_around(data: pl.DataFrame, ops: pl.DataFrame) -> pl.Series:
    """Return the instance of each row's op that contains its launch, as ``op_around``; null if none does."""
    timed_ops = ops.drop_nulls(("start_ns", "duration_ns")).select(
        "read_only_ops_id",
        pl.col("start_ns").alias("launch_ns"),
        (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
        pl.col("op").alias("op_around"),
    )
    preceding = (
        data.select("read_only_ops_id", "launch_ns")
        .with_row_index("row")
        .sort("launch_ns")
        .join_asof(
            timed_ops.sort("launch_ns"),
            on="launch_ns",
            by="read_only_ops_id",
            strategy="backward",
            check_sortedness=False,
        )
        .sort("row")
    )
    return preceding.select(pl.when(pl.col("launch_ns") <= pl.col("end_ns")).then("op_around")).to_series()


TOOL: Final = "DLProf"

LAUNCH: Final = "[kernel launch]"
"""The name for the call that launched a kernel: DLProf records its times but not its name."""

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
    database: Database, strings: DlprofDictionary, ops: pl.DataFrame, collector: Collector, source: InputFile
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return activities and API calls, with columns of the model.

    Activities also have ``kernel_id``, the row of a kernel in the database, and ``launch_ns``, the time of the launch.
    ``correlation`` links each to its call: DLProf has both in one row, so the loader assigns the numbers.
    """
    parts: list[pl.DataFrame] = []
    for read in (_kernels, _copies, _memsets):
        parts.append(read(database, strings))
        if not source.keep_going(collector.row_count + sum(part.height for part in parts)):
            break
    work = pl.concat(parts, how="diagonal").with_row_index("correlation", offset=1)
    _report_lost_times(work, collector)
    work = with_op(work, ops)
    by_time = int((work["op_join"] == "launch").sum())
    if by_time:
        reason = "op instance numbers contradict the times: the instance that encloses the launch is used"
        collector.issue("warning", None, f"{by_time} GPU activities", reason)
    lost = work["op"].null_count()
    if lost and ops.height:
        collector.issue(
            "warning",
            None,
            f"{lost} GPU activities",
            "their op is missing from the database: shown without an op",
        )
    return work, _calls(work, database, strings, collector)


def _kernels(database: Database, strings: DlprofDictionary) -> pl.DataFrame:
    """Return kernels with the columns of `_common_columns`, names, shapes, and the use of tensor cores."""
    data = database.frame("read_only_kernels", _KERNELS)
    data = strings.add_texts(data, "name", "long_name", row_kind="kernels")
    shapes = database.frame("read_only_grid_block", {"id": pl.Int64, "x": pl.Int64, "y": pl.Int64, "z": pl.Int64})
    shapes = shapes.unique("id", keep="first", maintain_order=True)
    for shape in ("grid", "block"):
        columns = {"id": f"{shape}_id", **{axis: f"{shape}_{axis}" for axis in "xyz"}}
        data = data.join(shapes.rename(columns), on=f"{shape}_id", how="left", maintain_order="left")
    lost = data.select(pl.any_horizontal(*map(_has_no_shape, ("grid", "block"))).sum()).item()
    if lost:
        reason = "their grid and block IDs are missing from the database: grid and block are unknown"
        database.notes.append(InputIssue("warning", None, f"{lost:,} of {data.height:,} kernels", reason))
    name = pl.coalesce("long_name", "name")
    sizes = (pl.col(f"{shape}_{axis}").cast(pl.Int32, strict=False) for shape in ("grid", "block") for axis in "xyz")
    rows = data.select(
        *_common_columns("kernel"),
        pl.col("id").alias("kernel_id"),
        name.alias("name"),
        *sizes,
        pl.col("uses_tc").replace_strict({0: False, 1: True}, default=None).cast(pl.Boolean).alias("uses_tensor_core"),
        pl.when(pl.col("uses_tc").is_in([0, 1])).then(pl.lit(TOOL)).cast(NAME).alias("tensor_core_reason"),
        pl.lit(LAUNCH, NAME).alias("call"),
    )
    return with_short_names(rows)


def _has_no_shape(shape: str) -> pl.Expr:
    return pl.col(f"{shape}_id").is_not_null() & pl.all_horizontal(
        pl.col(f"{shape}_{axis}").is_null() for axis in "xyz"
    )


def _copies(database: Database, strings: DlprofDictionary) -> pl.DataFrame:
    data = strings.add_texts(database.frame("read_only_memcpys", _COPIES), "name", row_kind="copies")
    kind = pl.col("copy_kind").replace_strict(dict(COPY_KINDS), default=None, return_dtype=pl.String)
    name = pl.format("[CUDA memcpy {}]", kind).fill_null("[CUDA memcpy]").cast(NAME)
    return data.select(
        *_common_columns("memcpy"),
        name.alias("name"),
        name.alias("short_name"),
        pl.when(pl.col("num_bytes") >= 0).then("num_bytes").alias("size_bytes"),
        kind.cast(NAME).alias("copy_kind"),
        pl.col("name").alias("call"),
    )


def _memsets(database: Database, strings: DlprofDictionary) -> pl.DataFrame:
    data = strings.add_texts(database.frame("read_only_memsets", _MEMSETS), "name", row_kind="memsets")
    name = pl.lit("[CUDA memset]", NAME)
    return data.select(
        *_common_columns("memset"),
        name.alias("name"),
        name.alias("short_name"),
        pl.when(pl.col("num_bytes") >= 0).then("num_bytes").alias("size_bytes"),
        pl.col("name").alias("call"),
    )


def _common_columns(kind: str) -> tuple[pl.Expr, ...]:
    """Return the common columns of GPU work. DLProf writes 0 for both times if it has none."""
    known = (pl.col("gpu_start") != 0) | (pl.col("gpu_stop") != 0)
    return (
        pl.lit(kind, NAME).alias("kind"),
        pl.when(known).then("gpu_start").alias("start_ns"),
        pl.when(known).then(duration_column("gpu_start", "gpu_stop")).alias("duration_ns"),
        pl.col("device_id").cast(pl.Int32, strict=False).alias("device"),
        pl.col("read_only_ops_id"),
        pl.col("op_instance"),
        pl.col("api_start").alias("launch_ns"),
        duration_column("api_start", "api_stop").alias("launch_duration_ns"),
        pl.col("process_id"),
        pl.col("thread_id"),
    )


def _report_lost_times(work: pl.DataFrame, collector: Collector) -> None:
    lost = work["duration_ns"].null_count()
    if lost:
        collector.issue(
            "warning",
            None,
            f"{lost} of {work.height} GPU activities",
            "missing or implausible times: durations are unknown",
        )


def _calls(work: pl.DataFrame, database: Database, strings: DlprofDictionary, collector: Collector) -> pl.DataFrame:
    """Return the launching calls of GPU work and all other calls, by start."""
    launches = work.select(
        pl.col("call").alias("name"),
        pl.col("launch_ns").alias("start_ns"),
        pl.col("launch_duration_ns").alias("duration_ns"),
        pl.col("process_id").alias("pid"),
        pl.col("thread_id").alias("tid"),
        pl.col("correlation").cast(pl.Int64),
    )
    others = [
        strings.add_texts(database.frame(table, _LINK), "name", row_kind="CUDA calls").select(
            "name",
            pl.col("api_start").alias("start_ns"),
            duration_column("api_start", "api_stop"),
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
            "DLProf records the time of a launch but not its API call: such calls are listed under this name",
        )
    # Nsight Systems, with which DLProf records, appends the version of the interface to the name.
    plain = pl.col("name").cast(pl.String).str.replace(r"_v[0-9]+$", "").cast(NAME)
    return pl.concat([launches, *others], how="diagonal").with_columns(plain).sort("start_ns", maintain_order=True)


_EMPTY_TEXTS: Final = ("", "null", '[""]')
"""DLProf's texts for unknown; the latter two are JSON."""


class DlprofDictionary:
    """The dictionary of a database."""

    def __init__(self, database: Database, collector: Collector) -> None:
        self._collector = collector
        texts = database.frame("dictionary", {"id": pl.Int64, "string": pl.String})
        text = pl.col("string").str.strip_chars()
        self._texts = (
            texts.drop_nulls()
            .unique("id", keep="first", maintain_order=True)
            .select("id", pl.when(~text.is_in(_EMPTY_TEXTS)).then(text).cast(NAME).alias("text"))
        )

    def add_texts(self, data: pl.DataFrame, *columns: str, row_kind: str) -> pl.DataFrame:
        """Add for each column ``<name>_id`` the text as ``<name>``; null if there is none.

        Args:
            data: With the columns of numbers.
            columns: The names of the texts.
            row_kind: The kind of rows, for the issue about missing texts.
        """
        for name in columns:
            number = f"{name}_id"
            known = self._texts["id"].implode()
            lost = data.select((pl.col(number).is_not_null() & ~pl.col(number).is_in(known)).sum()).item()
            if lost:
                self._collector.issue(
                    "warning",
                    None,
                    f"{number} of {lost} {row_kind}",
                    "the number is missing from the dictionary of the database: this text is unknown",
                )
            data = data.join(
                self._texts.rename({"id": number, "text": name}), on=number, how="left", maintain_order="left"
            )
        return data

    def text(self, number: int | None) -> str | None:
        """Return the text with a number; None if there is none."""
        texts = self._texts.filter(pl.col("id") == number)["text"] if number is not None else None
        return texts.cast(pl.String).item() if texts is not None and len(texts) else None
