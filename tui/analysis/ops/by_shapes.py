"""Recorded ops by what they were called with: input shapes and data types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import share, total, untimed_calls, whole
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.instances import op_instances
from tui.analysis.ops.recorded import NO_OP, by_name, recorded_ops
from tui.analysis.ops.tables import inferred_ops
from tui.analysis.ops.tree import rows_of_ops
from tui.analysis.ops.work import op_row_of_activities, recorded_sessions, why_without_op
from tui.analysis.ops.work_groups import WorkGroups, grouped_by, totals_only
from tui.model.columns import columns
from tui.model.forest import NONE
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

BY_SHAPES: Final = TableSpec(
    "op_shapes",
    "Ops by shape",
    columns(
        *("op", "input_shapes", "gpu_self_ns", "time_pct", "calls", "gpu_avg_ns", "dtype", "gpu_total_ns"),
        *(
            "cpu_total_ns",
            "cpu_self_ns",
            "launches",
            "untimed_launches",
            "op_type",
            "direction",
            "gpu_max_ns",
            "gpu_min_ns",
        ),
        *("tc_eligible", "op_source", "session", "line"),
    ),
    key=("session", "op", "input_shapes", "dtype"),
    sort=(("gpu_self_ns", True),),
    weight="gpu_self_ns",
    pinned="op",
)

NOT_RECORDED: Final = "(ops not recorded)"
"""The work of sessions that record no ops, and so no shapes."""


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def shape_groups(profile: Profile) -> WorkGroups:
    """All GPU work by session, op, and what the op was called with."""
    activities, ops = profile["activities"], profile["ops"]
    rows = op_row_of_activities(profile)
    # An op that does nothing but call one of its name counts with it.
    calls = rows_of_ops(op_instances(profile)["call"], ops)
    at = pl.Series(np.where(rows == NONE, NONE, calls[rows]) if ops.height else rows)
    at = at.set(at == NONE, None).cast(pl.UInt32)
    recorded = activities["session"].is_in(recorded_sessions(profile).implode())
    reason = pl.format(NO_OP, activities.select(why_without_op(pl.lit(False)))["why_no_op"])
    single = activities.select(
        "session",
        ops["name"].gather(at).alias("op"),
        ops["input_shapes"].gather(at).alias("input_shapes"),
        ops["dtype"].gather(at).alias("dtype"),
        pl.when(pl.lit(at.is_not_null()))
        .then(None)
        .when(pl.lit(recorded))
        .then(reason)
        .otherwise(pl.lit(NOT_RECORDED))
        .cast(NAME)
        .alias("without"),
    )
    printed = totals_only(profile)
    none = {name: pl.lit(None, single.schema[name]).alias(name) for name in ("op", "input_shapes", "dtype")}
    of_ops = pl.col("session").is_in(recorded_sessions(profile).implode())
    why = pl.when(of_ops).then(pl.lit(NO_OP.format("totals only"))).otherwise(pl.lit(NOT_RECORDED))
    return grouped_by(single, printed.select("session", *none.values(), why.cast(NAME).alias("without")))


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "summary")
def by_shapes(profile: Profile) -> pl.DataFrame:
    """What the recorded ops cost by session, name, input shapes and data types; largest GPU time first.

    Columns: those of `tui.analysis.ops.recorded.by_name`, op_type, time_pct. GPU work without an op has a row for each
    reason, that of sessions which record no ops one row: ``gpu_self_ns`` adds up to all GPU time.
    """
    known = recorded_ops(profile)
    types = known.filter(pl.col("why_no_op").is_null()).select("session", "op", "op_type")
    rest = known.filter(pl.col("why_no_op").is_not_null()).select(
        "session", "op", "gpu_self_ns", "launches", "untimed_launches", "line"
    )
    others = (
        inferred_ops(profile)
        .group_by("session")
        .agg(
            pl.lit(NOT_RECORDED).cast(NAME).alias("op"),
            total("total_ns").alias("gpu_self_ns"),
            whole("calls").alias("launches"),
            untimed_calls().alias("untimed_launches"),
            pl.col("line").min(),
        )
    )
    rows = by_name(profile, "input_shapes", "dtype").join(types, on=["session", "op"], how="left")
    return (
        pl.concat([rows, rest, others], how="diagonal_relaxed")
        .with_columns(share("gpu_self_ns"))
        .sort(
            *("gpu_self_ns", "gpu_total_ns", "cpu_total_ns"),
            *(pl.col(name).cast(pl.String) for name in ("op", "input_shapes", "dtype")),
            "session",
            descending=[True, True, True, False, False, False, False], nulls_last=True,
        )
    )  # fmt: skip
