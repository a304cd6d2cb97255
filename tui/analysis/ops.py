"""Ops: what the GPU's time went into, as the input records it, else told from the names of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.kernels import KERNELS, kernels
from tui.analysis.op_rules import UNKNOWN, classify, op_rules
from tui.analysis.op_work import classified_work, op_classes, recorded_sessions
from tui.analysis.recorded_ops import RECORDED, recorded_ops
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

OPS: Final = TableSpec(
    "ops",
    "Ops",
    columns(
        "op",
        "total_ns",
        "time_pct",
        "calls",
        "avg_ns",
        "kernels",
        "max_ns",
        "min_ns",
        "op_type",
        "direction",
        "group",
        "op_source",
        "session",
        "line",
    ),
    key=("session", "op_type", "direction"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="op",
)

RECORDED_OPS: Final = TableSpec(
    "ops",
    "Ops",
    columns(
        "op",
        "gpu_self_ns",
        "time_pct",
        "calls",
        "gpu_total_ns",
        "cpu_total_ns",
        "cpu_self_ns",
        "launches",
        "kernels",
        "op_type",
        "direction",
        "group",
        "gpu_avg_ns",
        "gpu_max_ns",
        "gpu_min_ns",
        "cpu_avg_ns",
        "api_ns",
        "uses_tensor_core",
        "tc_eligible",
        "op_source",
        "session",
        "line",
    ),
    key=("session", "op", "direction"),
    sort=(("gpu_self_ns", True),),
    weight="gpu_self_ns",
    pinned="op",
)
"""Where at least one session records ops."""

OP_KERNELS: Final = TableSpec(
    "op_kernels",
    "Kernels of the op",
    (*KERNELS.columns, *columns("rule")),
    key=KERNELS.key,
    sort=KERNELS.sort,
    weight="total_ns",
)

_WORD: Final = {"fprop": "forward", "bprop": "backward"}


def op_name() -> pl.Expr:
    """Op type and direction as one phrase; a type that names its own direction stays as it is.

    >>> frame = pl.DataFrame({"op_type": ["pooling", "convolution backward data"], "direction": ["bprop", "bprop"]})
    >>> frame.select(op_name())["op"].to_list()
    ['pooling backward', 'convolution backward data']
    """
    op_type = pl.col("op_type").cast(pl.String)
    word = pl.col("direction").cast(pl.String).replace_strict(_WORD, default=None, return_dtype=pl.String)
    named = op_type.str.contains("(?:forward|backward)")
    return pl.when(word.is_null() | named).then(op_type).otherwise(op_type + " " + word).alias("op")


def classified_kernels(profile: Profile) -> pl.DataFrame:
    """The rows of `tui.analysis.kernels.kernels` with op, op_type, direction, group and rule."""
    rows = kernels(profile)
    rules = op_rules()
    classes = classify(rows["name"], rules.rules)
    types = classes["op_type"].unique().cast(pl.String).to_list()
    groups = pl.DataFrame(
        {"op_type": types, "group": [rules.group_of(op_type) for op_type in types]},
        schema={"op_type": NAME, "group": NAME},
    )
    return (
        rows.join(classes, on="name", how="left", maintain_order="left")
        .join(groups, on="op_type", how="left", maintain_order="left")
        .with_columns(op_name())
    )


def has_recorded_ops(profile: Profile) -> bool:
    """Whether any session records ops."""
    return profile["ops"].height > 0


def ops_spec(profile: Profile) -> TableSpec:
    """The table that `ops` is shown in."""
    return RECORDED_OPS if has_recorded_ops(profile) else OPS


def ops(profile: Profile) -> pl.DataFrame:
    """Ops by name, largest GPU time first.

    Where no session records ops, these are `inferred_ops`. Else they are `recorded_ops`, and those that are inferred
    for the other sessions with the same columns: of them only GPU time and launches are known.
    """
    return by_name(profile) if has_recorded_ops(profile) else inferred_ops(profile)


def by_name(profile: Profile) -> pl.DataFrame:
    """Ops of every session with the columns of `recorded_ops`, whether they are recorded or inferred."""
    inferred = inferred_ops(profile).select(
        "session",
        pl.col("op").cast(NAME),
        "op_type",
        "direction",
        "group",
        pl.col("total_ns").alias("gpu_self_ns"),
        "time_pct",
        pl.col("calls").alias("launches"),
        "kernels",
        "op_source",
        "line",
    )
    rows = inferred if not has_recorded_ops(profile) else pl.concat([recorded_ops(profile), inferred], how="diagonal")
    order = ("gpu_self_ns", "gpu_total_ns", "cpu_total_ns", "op")
    return _with(rows, RECORDED).sort(order, descending=[True, True, True, False], nulls_last=True)


def inferred_ops(profile: Profile) -> pl.DataFrame:
    """GPU time by op of the sessions that record no ops: one row per session, op type and direction, largest first.

    Columns: session, op, op_type, direction, group, kernels (distinct names), calls, total_ns, avg_ns, min_ns, max_ns,
    time_pct (as in `kernels`), op_source, line (the first one in the input). The rows add up to those of
    `tui.analysis.kernels.kernels` exactly. Copies and memsets are ``recorded`` as such; the other ops are ``inferred``
    from the names of kernels.
    """
    calls = total("calls")
    return (
        classified_kernels(profile)
        .filter(~pl.col("session").is_in(recorded_sessions(profile).implode()))
        .group_by("session", "op_type", "direction")
        .agg(
            pl.col("op").first(),
            pl.col("group").first(),
            pl.len().cast(pl.Int64).alias("kernels"),
            calls.alias("calls"),
            total("total_ns").alias("total_ns"),
            (total("total_ns") / calls).round().cast(pl.Int64).alias("avg_ns"),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            pl.when(pl.col("time_pct").count() > 0).then(pl.col("time_pct").sum()).alias("time_pct"),
            pl.when((pl.col("kind") != "kernel").all())
            .then(pl.lit("recorded"))
            .otherwise(pl.lit("inferred"))
            .cast(NAME)
            .alias("op_source"),
            pl.col("line").min(),
        )
        .select(
            "session",
            "op",
            "op_type",
            "direction",
            "group",
            "kernels",
            "calls",
            "total_ns",
            "avg_ns",
            "min_ns",
            "max_ns",
            "time_pct",
            "op_source",
            "line",
        )
        .sort("total_ns", "op", descending=[True, False], nulls_last=True)
    )


def kinds_of_work(profile: Profile) -> pl.DataFrame:
    """GPU time by op type and group: session, op_type, direction, group, calls (launches), total_ns.

    Copies and sets are what they are recorded as; a kernel counts as what its op does, where ops are recorded and the
    rules know the op's name, else as what its own name tells (see `tui.analysis.op_work.classified_work`). The rows add
    up to the GPU time.
    """
    work = classified_work(profile).select(
        "session", "op_type", "direction", "group", pl.col("launches").alias("calls"), "total_ns"
    )
    inferred = inferred_ops(profile).select(work.columns)
    return (
        pl.concat([work, inferred])
        .group_by("session", "op_type", "direction", "group")
        .agg(total("calls").alias("calls"), total("total_ns").alias("total_ns"))
        .sort("total_ns", "op_type", descending=[True, False], nulls_last=True)
    )


def op_types(profile: Profile) -> pl.DataFrame:
    """Ops by op type: one row per session, op type, direction and source, largest GPU time first.

    Columns: those of `inferred_ops`, ops (distinct names), launches, cpu_self_ns, cpu_total_ns. Of recorded ops
    ``total_ns`` is the GPU time that ops of the type launched themselves, ``avg_ns``, ``min_ns`` and ``max_ns`` the
    same of one call, and ``kernels`` is null, since ops can share kernels. ``cpu_self_ns`` adds up; ``cpu_total_ns``
    has the time of an op within another of its type in both. Work without an op keeps a row for each reason.
    """
    inferred = inferred_ops(profile).with_columns(pl.col("calls").alias("launches"))
    if not has_recorded_ops(profile):
        return _with(inferred, _OP_TYPES)
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
            total("gpu_self_ns").alias("total_ns"),
            (total("gpu_self_ns") / total("calls")).round().cast(pl.Int64).alias("avg_ns"),
            pl.col("gpu_min_ns").min().alias("min_ns"),
            pl.col("gpu_max_ns").max().alias("max_ns"),
            pl.when(pl.col("time_pct").count() > 0).then(pl.col("time_pct").sum()).alias("time_pct"),
            total("launches").alias("launches"),
            total("cpu_self_ns").alias("cpu_self_ns"),
            total("cpu_total_ns").alias("cpu_total_ns"),
            pl.col("line").min(),
        )
        .with_columns(op_name())
        .with_columns(pl.coalesce("no_op", "op").alias("op"))
    )
    return _with(pl.concat([recorded, inferred], how="diagonal_relaxed"), _OP_TYPES).sort(
        "total_ns", "op", descending=[True, False], nulls_last=True
    )


def _with(rows: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    """The rows with all columns of a schema, in its order."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    )


_OP_TYPES: Final = {
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
    "op_source": NAME,
    "line": pl.UInt32,
    "ops": pl.Int64,
    "launches": pl.Int64,
    "cpu_self_ns": pl.Int64,
    "cpu_total_ns": pl.Int64,
}


def kernels_with_ops(profile: Profile) -> pl.DataFrame:
    """Kernels and memory operations with the op that each belongs to.

    Of sessions that record no ops, the rows of `classified_kernels`. Of the others one row per innermost op and kernel
    (`tui.analysis.op_work.classified_work`): ``op`` is the op's recorded name, ``why_no_op`` says why there is none.
    """
    inferred = classified_kernels(profile).filter(~pl.col("session").is_in(recorded_sessions(profile).implode()))
    if not has_recorded_ops(profile):
        return inferred
    whole = pl.col("total_ns").sum().over("session")
    recorded = classified_work(profile).with_columns(
        pl.col("op").cast(pl.String),
        pl.col("launches").alias("calls"),
        (pl.col("total_ns") / pl.col("launches")).round().cast(pl.Int64).alias("avg_ns"),
        pl.when(whole > 0).then(100 * pl.col("total_ns") / whole).alias("time_pct"),
    )
    return pl.concat([inferred, recorded.drop("launches", "kernel_type")], how="diagonal_relaxed").sort(
        "total_ns", "name", descending=[True, False], nulls_last=True
    )


def kernels_of_op(profile: Profile, *, session: int, op_type: str, direction: str | None) -> pl.DataFrame:
    """The kernels that an op of a session is made of, with the rule that says so."""
    return classified_kernels(profile).filter(
        pl.col("session") == session,
        pl.col("op_type").cast(pl.String) == op_type,
        pl.col("direction").cast(pl.String).eq_missing(pl.lit(direction, pl.String)),
    )
