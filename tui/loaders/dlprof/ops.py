"""The ops of a DLProf database: what framework code ran, once for each time it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.dlprof.times import duration
from tui.loaders.notes import Note
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.dlprof.strings import Strings
    from tui.loaders.sqlite.database import Database

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
"""What ``tc_support_status`` says of tensor cores; 2 is that DLProf does not know."""


def path_columns(path: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Columns ``name`` (the last part) and ``group`` (what is before it) of an op's path.

    >>> row = pl.DataFrame({"path": ["/module/Net::forward/conv2d", "unassociated_cudaFree_v3020"]})
    >>> row.select(path_columns(pl.col("path"))).cast(pl.String).rows()
    [('conv2d', 'module/Net::forward'), ('unassociated_cudaFree_v3020', None)]
    """
    group = path.str.extract(r"(?s)^/*(.+?)/+[^/]+/*$", 1)
    return path.str.extract(r"(?s)([^/]+)/*$", 1).cast(NAME).alias("name"), group.cast(NAME).alias("group")


def stack_column(stack: pl.Expr) -> pl.Expr:
    """A stack trace as the model has it, innermost first: DLProf writes one line each, outermost first."""
    lines = stack.str.strip_chars().str.split("\n").list.reverse().list.join(";")
    return pl.when(lines != "").then(lines).cast(NAME).alias("stack")


def read_ops(database: Database, strings: Strings) -> pl.DataFrame:
    """One row per op instance, by start, with columns of the model and the keys that GPU work refers to it by.

    Those are ``read_only_ops_id`` and ``op_instance``, the number of the instance among those of its op, from 0. An op
    of which no instance is recorded has one row without times.
    """
    listed = database.frame("read_only_ops", _OPS)
    ops = listed.filter(pl.col("id").is_first_distinct() | pl.col("id").is_null())
    if again := listed.height - ops.height:
        reason = f"ops with the number of another one were left out: {again:,}"
        database.notes.append(Note("warning", None, "read_only_ops", reason))
    ops = strings.put(ops, "op_type", "data_type", "direction", of="ops")
    instances = database.frame("read_only_op_instances", _INSTANCES).sort("id", maintain_order=True)
    instances = strings.put(instances, "input_shapes", of="op instances").with_columns(
        pl.int_range(pl.len()).over("read_only_ops_id").alias("op_instance")
    )
    both = ops.rename({"id": "read_only_ops_id"}).join(
        instances.drop("id"), on="read_only_ops_id", how="full", coalesce=True, maintain_order="left_right"
    )
    path = pl.col("op_name")
    rows = both.select(
        "read_only_ops_id",
        pl.col("op_instance").fill_null(0),
        "op_id",
        *path_columns(path),
        "op_type",
        "direction",
        pl.col("cpu_start").alias("start_ns"),
        duration("cpu_start", "cpu_stop"),
        pl.col("process_id").alias("pid"),
        pl.col("thread_id").alias("tid"),
        pl.col("data_type").alias("dtype"),
        "input_shapes",
        stack_column(pl.col("stack_trace")),
        pl.col("tc_support_status")
        .replace_strict(_ELIGIBLE, default=None, return_dtype=pl.Boolean)
        .alias("tc_eligible"),
        pl.lit("recorded", NAME).alias("op_source"),
    )
    return (
        rows.sort("start_ns", nulls_last=True, maintain_order=True)
        .with_row_index("op")
        .with_columns(pl.col("op").cast(pl.UInt32))
    )


def with_op(data: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Fill ``op`` and ``op_join`` of GPU work by ``read_only_ops_id`` and ``op_instance``.

    An instance that the op does not have leads to its only one, and to none where it has several. Where the numbers
    contradict the times more often than not, the instance of the op that the launch (``launch_ns``) lies in counts.
    """
    by_instance = ops.select("read_only_ops_id", "op_instance", "op")
    alone = (
        by_instance.group_by("read_only_ops_id", maintain_order=True)
        .agg(pl.len().alias("instances"), pl.col("op").first().alias("only_op"))
        .filter(pl.col("instances") == 1)
        .select("read_only_ops_id", "only_op")
    )
    linked = (
        data.join(by_instance, on=["read_only_ops_id", "op_instance"], how="left", maintain_order="left")
        .join(alone, on="read_only_ops_id", how="left", maintain_order="left")
        .with_columns(pl.coalesce("op", "only_op").alias("op"), _op_around(data, ops))
    )
    around = pl.col("op_around")
    agrees = (pl.col("op") == around).fill_null(False)
    checked, right = linked.select(around.count().alias("checked"), agrees.sum().alias("right")).row(0)
    by_time = around.is_not_null() if right * 2 < checked else pl.lit(False)
    return linked.with_columns(pl.when(by_time).then(around).otherwise("op").alias("op")).with_columns(
        pl.when(by_time)
        .then(pl.lit("launch"))
        .when(pl.col("op").is_not_null())
        .then(pl.lit("recorded"))
        .otherwise(pl.lit("no op around the launch"))
        .cast(NAME)
        .alias("op_join")
    )


def _op_around(data: pl.DataFrame, ops: pl.DataFrame) -> pl.Series:
    """The instance of the op of each row that its launch lies in, as ``op_around``; null where it lies in none."""
    timed = ops.drop_nulls(("start_ns", "duration_ns")).select(
        "read_only_ops_id",
        pl.col("start_ns").alias("launch_ns"),
        (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
        pl.col("op").alias("op_around"),
    )
    found = (
        data.select("read_only_ops_id", "launch_ns")
        .with_row_index("row")
        .sort("launch_ns")
        .join_asof(
            timed.sort("launch_ns"), on="launch_ns", by="read_only_ops_id", strategy="backward", check_sortedness=False
        )
        .sort("row")
    )
    return found.select(pl.when(pl.col("launch_ns") <= pl.col("end_ns")).then("op_around")).to_series()
