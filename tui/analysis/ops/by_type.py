"""Ops summed by what they do: by op type, and by kind of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import average, timed_calls, total, total_of_parts, whole
from tui.analysis.ops.recorded import recorded_ops
from tui.analysis.ops.rules import UNKNOWN, op_rules
from tui.analysis.ops.tables import has_recorded_ops, inferred_ops, op_name, with_columns_of
from tui.analysis.ops.work import classified_work, op_classes
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.model.profile import Profile

OP_TYPES: Final = {
    "session": pl.UInt32,
    "op": pl.String,
    "op_type": NAME,
    "direction": NAME,
    "group": NAME,
    "kernels": pl.Int64,
    "calls": pl.Int64,
    "total_ns": pl.Int64,
    "avg_ns": pl.Int64,
    "min_ns": pl.Int64,
    "max_ns": pl.Int64,
    "time_pct": pl.Float64,
    "uses_tensor_core": pl.Boolean,
    "op_source": NAME,
    "line": pl.UInt32,
    "ops": pl.Int64,
    "launches": pl.Int64,
    "cpu_self_ns": pl.Int64,
    "cpu_total_ns": pl.Int64,
    "untimed_launches": pl.Int64,
}
"""The columns of `op_types`."""


def kinds_of_work(profile: Profile) -> pl.DataFrame:
    """GPU time by op type and group.

    Columns: session, op_type, direction, group, calls (launches), timed_calls (of known duration), total_ns.

    Copies and sets are what they are recorded as; a kernel counts as what its op does, where ops are recorded and the
    rules know the op's name, else as what its own name tells (see `tui.analysis.ops.work.classified_work`), else as
    ``unknown``. The rows add up to the GPU time.
    """
    work = classified_work(profile).select(
        "session", "op_type", "direction", "group", pl.col("launches").alias("calls"), "timed_calls", "total_ns"
    )
    inferred = inferred_ops(profile).select(work.columns)
    return (
        pl.concat([work, inferred])
        .with_columns(pl.col("op_type", "group").cast(pl.String).fill_null(UNKNOWN).cast(NAME))
        .group_by("session", "op_type", "direction", "group")
        .agg(
            whole("calls").alias("calls"),
            timed_calls("timed_calls").alias("timed_calls"),
            total("total_ns").alias("total_ns"),
        )
        .sort(
            *("total_ns", "op_type", "direction", "group", "session"),
            descending=[True, False, False, False, False],
            nulls_last=True,
        )
    )


def op_types(profile: Profile) -> pl.DataFrame:
    """Ops by op type: one row per session, op type, direction and source, largest GPU time first.

    Columns: those of `inferred_ops`, ops (distinct names), launches, cpu_self_ns, cpu_total_ns, untimed_launches (those
    whose duration is not known). Of recorded ops
    ``total_ns`` is the GPU time that ops of the type launched themselves, ``avg_ns``, ``min_ns`` and ``max_ns`` the
    same of one call, and ``kernels`` is null, since ops can share kernels. ``cpu_self_ns`` adds up; ``cpu_total_ns``
    has the time of an op within another of its type in both. Work without an op keeps a row for each reason.
    """
    inferred = inferred_ops(profile).with_columns(
        pl.col("calls").alias("launches"), (pl.col("calls") - pl.col("timed_calls")).alias("untimed_launches")
    )
    if not has_recorded_ops(profile):
        return with_columns_of(inferred, OP_TYPES)
    rules = op_rules()
    groups = op_classes(profile).select("session", "op", pl.col("group").alias("own_group"))
    no_op = pl.col("why_no_op").is_not_null()
    by_kernel = pl.col("op_type").cast(pl.String)
    recorded = (
        recorded_ops(profile)
        .join(groups, on=["session", "op"], how="left", maintain_order="left")
        .with_columns(
            pl.when(no_op).then(pl.lit(None, NAME)).otherwise(pl.col("op_type").fill_null(UNKNOWN)).alias("op_type"),
            pl.when(no_op)
            .then(pl.col("group"))
            .otherwise(
                pl.coalesce(
                    pl.col("own_group").cast(pl.String),
                    by_kernel.fill_null(UNKNOWN).replace_strict(rules.groups, default=by_kernel),
                ).cast(NAME)
            )
            .alias("group"),
            pl.when(no_op).then(pl.col("op").cast(pl.String)).alias("no_op"),
        )
        .group_by("session", "op_type", "direction", "no_op", "op_source")
        .agg(
            pl.col("group").first(),
            pl.when(pl.col("calls").count() > 0).then(pl.len().cast(pl.Int64)).alias("ops"),
            total("calls").alias("calls"),
            total_of_parts("gpu_self_ns").alias("total_ns"),
            average(total("gpu_self_ns"), total("timed_calls")).alias("avg_ns"),
            pl.col("gpu_min_ns").min().alias("min_ns"),
            pl.col("gpu_max_ns").max().alias("max_ns"),
            pl.when(pl.col("time_pct").count() > 0).then(pl.col("time_pct").sum()).alias("time_pct"),
            total("launches").alias("launches"),
            total("untimed_launches").alias("untimed_launches"),
            pl.when((pl.col("launches") > 0).any())
            .then(pl.col("uses_tensor_core").filter(pl.col("launches") > 0).any(ignore_nulls=False))
            .alias("uses_tensor_core"),
            total("cpu_self_ns").alias("cpu_self_ns"),
            total("cpu_total_ns").alias("cpu_total_ns"),
            pl.col("line").min(),
        )
        .with_columns(op_name())
        .with_columns(pl.coalesce("no_op", "op").alias("op"))
    )
    return with_columns_of(pl.concat([recorded, inferred], how="diagonal_relaxed"), OP_TYPES).sort(
        *("total_ns", "op", "op_type", "direction", "op_source", "session"),
        descending=[True, False, False, False, False, False],
        nulls_last=True,
    )
