"""The ops of one iteration by the GPU work that they launched, and the launches of one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.iterations.work import activities_of_iteration, as_launches, slowest_iteration
from tui.analysis.ops.recorded import NO_OP
from tui.analysis.ops.rules import classify, op_rules
from tui.analysis.ops.tables import op_name
from tui.analysis.ops.tree import rows_of_ops
from tui.analysis.ops.work import op_classes, recorded_sessions, why_without_op
from tui.analysis.tensor_cores.verdicts import with_verdicts
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

ITERATION_OPS: Final = TableSpec(
    "iteration_ops",
    "Ops of the iteration",
    (
        *columns("op", "gpu_ns", "time_pct"),
        # Of the same name it tells the ops of the backward pass apart.
        replace(COLUMNS["direction"], priority=2),
        replace(COLUMNS["kernels_launched"], priority=2),
        *columns("tc_kernels", "tc_ns"),
        replace(COLUMNS["launches"], title="GPU work", help="Kernels, copies and sets that it launched.", priority=7),
        *columns("op_source", "op_type", "data_type", "input_shapes", "stack", "why_no_op"),
        *columns("tc_unknown", "session", "iteration"),
    ),
    key=("session", "iteration", "op", "op_type", "direction", "why_no_op"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="op",
)

_MOST_TEXTS: Final = 3
"""So many different texts of the calls of an op are written out."""

_OF_OP: Final = ("op", "op_type", "direction", "why_no_op")
"""What tells the ops of an iteration apart."""


def ops_of_iteration(profile: Profile, *, session: int, iteration: int | None) -> pl.DataFrame:
    """The ops whose GPU work was launched in an iteration, largest GPU time first; they add up to all of it.

    Columns: session, iteration, op (its recorded name, else what the name of the kernel tells by rules: type and
    direction; ``(no op: reason)`` where a session records ops and this work has none), op_type, direction, op_source
    (recorded, nvtx, inferred), why_no_op, launches (of kernels, copies and sets), kernels_launched, tc_kernels and
    tc_ns (null where it is known of none of its kernels whether they use tensor cores), tc_unknown, gpu_ns, time_pct
    (share of the iteration's GPU time), data_type, input_shapes and stack (of the calls of a recorded op: up to three,
    most frequent first).

    Args:
        profile: Where to look.
        session: Number of the session.
        iteration: Its number; None: what was launched in none.
    """
    work = _with_ops(profile, activities_of_iteration(profile, session=session, iteration=iteration), session)
    work = with_verdicts(profile, work)
    is_kernel = pl.col("kind").cast(pl.String).is_in(["kernel", "graph"])
    uses = pl.col("uses_tensor_core")
    any_known = (uses.is_not_null() & is_kernel).any() | ~is_kernel.any()
    on_tc = pl.col("duration_ns").filter(is_kernel & uses)
    any_time = (on_tc.count() > 0) | (on_tc.len() == 0)
    rows = (
        work.lazy()
        .group_by(*_OF_OP, "op_source")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            is_kernel.sum().cast(pl.Int64).alias("kernels_launched"),
            pl.when(any_known).then((is_kernel & uses).sum().cast(pl.Int64)).alias("tc_kernels"),
            (is_kernel & uses.is_null()).sum().cast(pl.Int64).alias("tc_unknown"),
            total().alias("gpu_ns"),
            pl.when(any_known & any_time).then(on_tc.sum()).alias("tc_ns"),
        )
        .with_columns(
            pl.lit(session).cast(pl.UInt32, strict=False).alias("session"),
            pl.lit(iteration, pl.Int32).alias("iteration"),
            pl.when(pl.col("gpu_ns").sum() > 0).then(100 * pl.col("gpu_ns") / pl.col("gpu_ns").sum()).alias("time_pct"),
        )
        .collect()
    )
    for column in ("data_type", "input_shapes", "stack"):
        rows = rows.join(_most_frequent(work, column), on=_OF_OP, how="left", nulls_equal=True)
    return rows.select(column.name for column in ITERATION_OPS.columns).sort(
        "gpu_ns", *_OF_OP, descending=[True, False, False, False, False], nulls_last=True
    )


def launches_of_iteration_op(
    profile: Profile,
    *,
    session: int,
    iteration: int | None,
    op: str,
    op_type: str | None,
    direction: str | None,
    why_no_op: str | None,
    gpu: str | None = None,
) -> pl.DataFrame:
    """The GPU work that `ops_of_iteration` counts in one row, as `tui.analysis.kernels.launches`.

    Args:
        profile: Where to look.
        session: Number of the session.
        iteration: Its number; None: what was launched in none.
        op: As in the row.
        op_type: As in the row.
        direction: As in the row.
        why_no_op: As in the row.
        gpu: The name of the GPU, as the user gives it, where the input does not say enough.
    """
    work = activities_of_iteration(profile, session=session, iteration=iteration)
    told = _with_ops(profile, work, session).select(_OF_OP)
    wanted = dict(zip(_OF_OP, (op, op_type, direction, why_no_op), strict=True))
    own = told.select(
        pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in wanted.items())
    ).to_series()
    return as_launches(profile, work.filter(own), gpu=gpu)


def ops_of_slowest(profile: Profile) -> pl.DataFrame:
    """`ops_of_iteration` of the iteration that took longest."""
    slowest = slowest_iteration(profile)
    session, iteration = slowest if slowest is not None else (-1, None)
    return ops_of_iteration(profile, session=session, iteration=iteration)


def _with_ops(profile: Profile, work: pl.DataFrame, session: int) -> pl.DataFrame:
    """GPU work of a session with what `ops_of_iteration` says of the op of each, as texts."""
    if session in recorded_sessions(profile):
        return _with_recorded_ops(profile, work, session)
    is_kernel = pl.col("kind") == "kernel"
    return (
        work.drop("op")
        .join(classify(work["name"], op_rules().rules), on="name", how="left", maintain_order="left")
        .with_columns(op_name())
        .with_columns(
            pl.col("op_type", "direction").cast(pl.String),
            pl.when(is_kernel).then(pl.lit("inferred")).otherwise(pl.lit("recorded")).alias("op_source"),
            *(pl.lit(None, pl.String).alias(name) for name in ("why_no_op", "data_type", "input_shapes", "stack")),
        )
    )


def _with_recorded_ops(profile: Profile, work: pl.DataFrame, session: int) -> pl.DataFrame:
    ops = profile["ops"]
    rows = rows_of_ops(work["op"], ops)
    at = pl.Series(rows)
    at = at.set(at == NONE, None).cast(pl.UInt32)
    told = ops.select(
        pl.col(name).gather(at)
        for name in ("session", "name", "direction", "dtype", "input_shapes", "stack", "op_source")
    ).select(
        pl.col("session").alias("op_session"),
        pl.col("name").cast(pl.String).alias("op"),
        pl.col("direction").cast(pl.String).alias("own_direction"),
        pl.col("dtype").cast(pl.String).alias("data_type"),
        pl.col("input_shapes", "stack", "op_source").cast(pl.String),
    )
    here = pl.col("op_session") == session
    told = told.select(pl.when(here).then(pl.col(name)).alias(name) for name in told.columns if name != "op_session")
    classes = (
        op_classes(profile)
        .filter(pl.col("session") == session)
        .select(pl.col("op", "op_type").cast(pl.String), pl.col("direction").cast(pl.String).alias("of_name"))
    )
    return (
        work.drop("op")
        .hstack(told)
        .join(classes, on="op", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("own_direction", "of_name").alias("direction"), why_without_op(pl.col("op").is_not_null())
        )
        .with_columns(pl.coalesce("op", pl.format(NO_OP, "why_no_op")).alias("op"))
        .drop("own_direction", "of_name")
    )


def _most_frequent(work: pl.DataFrame, column: str) -> pl.DataFrame:
    """For each op up to so many different texts of its calls, the most frequent first, and how many more there are."""
    more = pl.len().cast(pl.Int64) - _MOST_TEXTS
    texts = pl.col(column).head(_MOST_TEXTS)
    return (
        work.filter(pl.col(column).is_not_null())
        .group_by(*_OF_OP, column)
        .len()
        .sort("len", column, descending=[True, False])
        .group_by(_OF_OP, maintain_order=True)
        .agg(texts.alias("texts"), more.alias("more"))
        .select(
            *_OF_OP,
            pl.when(pl.col("more") > 0)
            .then(pl.format("{} | {} more", pl.col("texts").list.join(" | "), "more"))
            .otherwise(pl.col("texts").list.join(" | "))
            .alias(column),
        )
    )
