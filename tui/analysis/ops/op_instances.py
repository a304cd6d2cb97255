"""Op instances: every call of an op, the same op over all iterations, its kernels, launches and arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.durations import average, call_statistics, share, total
from tui.analysis.kernels import KERNELS, kernels
from tui.analysis.memo import once_per_profile
from tui.analysis.occupancy import with_occupancy
from tui.analysis.ops.inferred_ops import NO_INSTANCE, activity_instances, inferred_instances
from tui.analysis.ops.op_attribution import (
    NO_ACTIVITIES,
    NO_OP_PRINTED,
    activity_op_rows,
    classified_work,
    op_names_at,
    op_tree,
    recorded_sessions,
    unattributed_reason,
)
from tui.analysis.ops.op_costs import NO_OP, recorded_ops, self_times
from tui.analysis.ops.work_groups import TOTALS_ONLY, WorkGroups, factorize, sum_work_groups, totals_only
from tui.analysis.roofline import RATES, launch_rates, op_rates
from tui.analysis.tensor_core_use import with_verdicts, with_verdicts_by_name
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE
from tui.model.profile import session_rows
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile


UNATTRIBUTED: Final = "(unclassified)"
"""The label of GPU work whose op type is unknown."""

OUTSIDE: Final = "(outside iterations) {}"
"""Inferred ops that are in no iteration: it is unknown which of the iteration's ops they are."""

BY_INSTANCE: Final = TableSpec(
    "op_instances",
    "Op instances",
    columns(
        *("op_id", "op", "total_ns", "time_pct", "calls", "avg_ns", *RATES, "min_ns", "max_ns", "launches", "kernels"),
        *("direction", "op_type", "layer", "same_kernels", "uses_tensor_core", "op_source", "session", "line"),
    ),
    key=("session", "op_id"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="op_id",
)

_COLUMNS: Final = (
    *("session", "iteration", "op_id", "op", "op_type", "direction", "layer", "device", "stream", "start_ns"),
    *("launches", "gpu_ns", "gpu_busy_ns", "gpu_idle_ns", "cpu_own_ns", "cpu_overhead_ns", "op_source", "line"),
)


@once_per_profile("sessions", "activities", "ops", "layers", "api_calls", "devices", "summary")
def _instances_with_labels(profile: Profile) -> pl.DataFrame:
    """Return every op instance with GPU work: `_COLUMNS`, kernels_code and its label, inferred ones first."""
    inferred = inferred_instances(profile).with_columns(
        pl.coalesce("op_id", pl.format(OUTSIDE, "op")).alias("label"), pl.lit(None, pl.Int64).alias("row")
    )
    return pl.concat(
        [part.select(*_COLUMNS, "kernels_code", "label", "row") for part in (inferred, _recorded_instances(profile))],
        how="vertical_relaxed",
    )


def _recorded_instances(profile: Profile) -> pl.DataFrame:
    """Return recorded ops that launched GPU work themselves; ``row`` is their row in ``ops``.

    An op without a recorded id gets its name and its ordinal among the ops of that name in the iteration.
    """
    op_times = self_times(profile).with_row_index("row").filter(pl.col("launches") > 0)
    rows = activity_op_rows(profile)
    has_op = rows != NONE
    starts = (
        profile["activities"]
        .filter(pl.Series(has_op))
        .select(pl.Series("row", rows[has_op], dtype=pl.UInt32), "start_ns", "device", "stream")
        .group_by("row")
        .agg(pl.col("start_ns").min(), pl.col("device", "stream").first())
    )
    types = (
        recorded_ops(profile)
        .filter(pl.col("why_no_op").is_null())
        .select("session", pl.col("op").alias("name"), "op_type")
    )
    further = profile["ops"].with_row_index("row").select("row", "op_id", "direction", "iteration", "op_source", "line")
    return (
        op_times.join(starts, on="row", how="left", maintain_order="left")
        .join(further, on="row", how="left", maintain_order="left")
        .join(types, on=["session", "name"], how="left", maintain_order="left")
        .with_columns(
            pl.col("name").cast(pl.String).alias("op"),
            pl.int_range(1, pl.len() + 1).over("session", "iteration", "name").alias("place"),
            pl.lit(None, pl.String).alias("layer"),
            pl.lit(None, pl.UInt64).alias("kernels_code"),
            pl.col("row").cast(pl.Int64),
        )
        .with_columns(pl.coalesce(pl.col("op_id").cast(pl.String), pl.format("{} #{}", "op", "place")).alias("op_id"))
        .with_columns(pl.col("op_id").alias("label"))
    )


def instances(profile: Profile) -> pl.DataFrame:
    """Return every op instance with GPU work, and work without one: the rows add up to all GPU time.

    Columns: session, iteration, op_id, op (its name, or what was inferred), op_type, direction, layer, device, stream,
    start_ns (of its first work on the GPU), launches, gpu_ns, gpu_busy_ns, gpu_idle_ns, cpu_own_ns, cpu_overhead_ns
    (`call_times.self_times`), op_source (recorded, nvtx, inferred), line. Work without an instance has a row for each
    session and iteration, with `UNATTRIBUTED` or the reason in ``op`` and no ``op_source``.
    """
    unattributed = _unattributed_work(profile)
    return pl.concat(
        [_instances_with_labels(profile).select(_COLUMNS), unattributed.select(_COLUMNS)], how="vertical_relaxed"
    ).sort("session", "start_ns", nulls_last=True, maintain_order=True)


def _unattributed_work(profile: Profile) -> pl.DataFrame:
    """Return the GPU work without an instance, by session, iteration and reason."""
    activities = profile["activities"]
    unattributed = _without_instance(profile)
    printed = totals_only(profile)
    rows = pl.concat(
        [
            activities.filter(unattributed["open"]).select("session", "iteration", "duration_ns", "start_ns", "line")
            .with_columns(
                unattributed.filter(pl.col("open"))["why"].alias("op"), pl.lit(1, pl.Int64).alias("launches")
            ),
            printed.select(
                "session",
                pl.lit(None, pl.Int32).alias("iteration"),
                pl.col("total_ns").alias("duration_ns"),
                pl.lit(None, pl.Int64).alias("start_ns"),
                "line",
                pl.lit(TOTALS_ONLY).alias("op"),
                pl.col("calls").alias("launches"),
            ),
        ],
        how="vertical_relaxed",
    )  # fmt: skip
    return (
        rows.group_by("session", "iteration", "op")
        .agg(
            total("launches").alias("launches"),
            total("duration_ns").alias("gpu_ns"),
            pl.col("start_ns").min(),
            pl.col("line").min(),
            *(
                pl.lit(None, pl.Int64).alias(name)
                for name in ("gpu_busy_ns", "gpu_idle_ns", "cpu_own_ns", "cpu_overhead_ns", "stream")
            ),
            *(pl.lit(None, pl.String).alias(name) for name in ("op_id", "op_type", "direction", "layer", "op_source")),
            pl.lit(None, pl.Int32).alias("device"),
        )
        .with_columns(pl.col("op_type", "direction", "op_source").cast(NAME))
    )


def _without_instance(profile: Profile) -> pl.DataFrame:
    """Return for each activity whether it has no instance (``open``), and why."""
    activities = profile["activities"]
    recorded = activities["session"].is_in(recorded_sessions(profile).implode())
    inside = pl.Series(activity_instances(profile) != NO_INSTANCE) | pl.Series(activity_op_rows(profile) != NONE)
    reason = pl.format(NO_OP, activities.select(unattributed_reason(pl.lit(False)))["why_no_op"])
    return activities.select(
        pl.lit(~inside).alias("open"),
        pl.when(pl.lit(recorded)).then(reason).otherwise(pl.lit(UNATTRIBUTED)).alias("why"),
    )


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def instance_groups(profile: Profile) -> WorkGroups:
    """Group all GPU work by session and op, over all iterations."""
    named, activities = _instances_with_labels(profile), profile["activities"]
    unattributed, printed = _without_instance(profile), totals_only(profile)
    reasons = activities.filter(unattributed["open"]).select(
        "session", unattributed.filter(pl.col("open"))["why"].alias("label")
    )
    totals = printed.select("session", pl.lit(TOTALS_ONLY).alias("label"))
    keyed = pl.concat([named.select("session", "label"), reasons, totals], how="vertical_relaxed")
    first, kinds = factorize(keyed)
    codes = np.zeros(activities.height, np.int64)
    inferred = activity_instances(profile)
    codes[inferred != NO_INSTANCE] = kinds[inferred[inferred != NO_INSTANCE]]
    by_op = np.zeros(profile["ops"].height, np.int64)
    has_op = named["row"].is_not_null().to_numpy()
    by_op[named["row"].drop_nulls().to_numpy()] = kinds[: named.height][has_op]
    rows = activity_op_rows(profile)
    codes[rows != NONE] = by_op[rows[rows != NONE]]
    codes[unattributed["open"].to_numpy()] = kinds[named.height : named.height + reasons.height]
    return WorkGroups(keyed[first].rename({"label": "op_id"}), codes, kinds[named.height + reasons.height :])


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def by_instance(profile: Profile) -> pl.DataFrame:
    """Return GPU time by op, over all iterations: one row per session and id, the largest first.

    Columns: session, op_id, op, op_type, direction, layer, calls (the number of iterations with it, or of its runs),
    total_ns, avg_ns, min_ns and max_ns (of a call), time_pct, launches, kernels (distinct names), same_kernels (whether
    each call launched the same kernels in the same order; null if it ran once, or the op is recorded),
    uses_tensor_core, op_source, line. Work without an op has a row for each reason, without calls.
    """
    sums = sum_work_groups(profile, instance_groups(profile)).rename({"calls": "launches"})
    sums = sums.drop("avg_ns", "min_ns", "max_ns", *RATES)
    named = (
        _instances_with_labels(profile)
        .filter(pl.col("row").is_not_null())
        .select("session", "row", pl.col("label").alias("op_id"))
    )
    same = pl.col("kernels_code").n_unique() == 1
    calls = (
        _instances_with_labels(profile)
        .group_by("session", pl.col("label").alias("op_id"))
        .agg(
            pl.col("op", "op_type", "direction", "layer", "op_source").first(),
            pl.len().cast(pl.Int64).alias("calls"),
            average(total("gpu_ns"), pl.col("gpu_ns").count()).alias("avg_ns"),
            pl.col("gpu_ns").min().alias("min_ns"),
            pl.col("gpu_ns").max().alias("max_ns"),
            pl.when((pl.col("kernels_code").count() > 1) & (pl.col("op_id").count() > 0))
            .then(same)
            .alias("same_kernels"),
        )
    )
    return (
        sums.join(calls, on=["session", "op_id"], how="left", maintain_order="left")
        .join(op_rates(profile, named, "session", "op_id"), on=["session", "op_id"], how="left")
        .with_columns(share())
        .select("session", *(column.name for column in BY_INSTANCE.columns if column.name != "session"))
        .sort("total_ns", "op_id", "session", descending=[True, False, False], nulls_last=True)
    )


RECORDED_OP_KERNELS: Final = TableSpec(
    "op_kernels",
    "Kernels of the op",
    (
        *columns("name", "total_ns", "time_pct", "calls", "avg_ns"),
        replace(COLUMNS["launched_by"], priority=4),
        *(
            column
            for column in KERNELS.columns
            if column.name not in ("name", "total_ns", "time_pct", "calls", "avg_ns")
        ),
        *columns("op_type", "group", "rule"),
    ),
    key=("session", "launched_by", "kind", "name"),
    sort=(("total_ns", True),),
    weight="total_ns",
)
"""Kernels of a recorded op, those of the ops within it as well."""


@dataclass(frozen=True, slots=True)
class Value:
    """A recorded value of calls of an op, with the number of calls."""

    text: str
    calls: int
    """How many of them."""


@dataclass(frozen=True, slots=True)
class ArgumentValues:
    """The recorded values of one kind (such as shapes) of an op's calls."""

    frequent: tuple[Value, ...]
    """The most frequent ones, most calls first."""
    others: int
    """How many further values there are."""


@dataclass(frozen=True, slots=True)
class OpCalls:
    """The recorded arguments and context of an op's calls; empty if not recorded."""

    input_shapes: ArgumentValues
    dtype: ArgumentValues
    stack: ArgumentValues
    """Source lines that called it, innermost first, with ``;`` between."""
    group: ArgumentValues
    """Paths of modules, ranges or ops that it ran in."""
    parent: ArgumentValues
    """Names of the ops that called it."""
    children: ArgumentValues
    """Names of the ops that it called."""
    forward: ArgumentValues
    """Names of the forward ops that a backward op belongs to."""
    backward: ArgumentValues
    """Names of the backward ops that belong to a forward op."""
    direction: ArgumentValues
    op_source: ArgumentValues
    thread: ArgumentValues
    """Threads that it ran on."""


def recorded_op_kernels(
    profile: Profile, *, session: int, op: str | None = None, why_no_op: str | None = None
) -> pl.DataFrame:
    """Return the kernels and memory operations launched in a recorded op, including nested ops.

    Columns: those of `tui.analysis.kernels.kernels`, launched_by (the innermost op around the launch, null for work
    without an op), op_type, group and rule (`tui.analysis.ops.op_attribution.classified_work`), and
    `tui.analysis.roofline.RATES` of the launches that do the work of an op alone. Each launch counts once, so they add
    up to the op's GPU total unless it runs within itself. ``time_pct`` is the share of the session's GPU time.

    Args:
        profile: The profile.
        session: Number of the session.
        op: Name of the op.
        why_no_op: Instead, the reason why work has no op, as in `tui.analysis.ops.op_attribution.work_by_op`.
    """
    if why_no_op in (NO_ACTIVITIES, NO_OP_PRINTED):
        rows = kernels(profile).filter(pl.col("session") == session).with_columns(pl.lit(None, pl.String).alias("op"))
        rows = rows.with_columns(pl.lit(None).alias(name) for name in RATES)
    else:
        work = _op_activities(profile, session=session, op=op, why_no_op=why_no_op)
        session_gpu_ns = session_rows(profile["activities"], session)["duration_ns"].sum()
        rows = (
            work.lazy()
            .group_by("session", "op", "kind", "name")
            .agg(
                *call_statistics(),
                pl.col("uses_tensor_core").any(ignore_nulls=False),
                pl.col("short_name").first(),
                pl.col("line").min(),
            )
            .with_columns((100 * pl.col("total_ns") / (session_gpu_ns or None)).alias("time_pct"))
            .collect()
        )
        rows = with_verdicts_by_name(profile, rows)
        keys = ["op", "kind", "name"]
        rows = rows.join(launch_rates(profile, work, *keys), on=keys, how="left", nulls_equal=True)
    classes = classified_work(profile).filter(pl.col("session") == session)
    classified = classes.select("op", "kind", "name", "why_no_op", "op_type", "group", "rule")
    classified = classified.filter(
        pl.col("why_no_op").is_null() if why_no_op is None else pl.col("why_no_op") == why_no_op
    )
    return (
        rows.with_columns(pl.col("op").cast(classified.schema["op"]))
        .join(classified.drop("why_no_op"), on=["op", "kind", "name"], how="left", nulls_equal=True)
        .rename({"op": "launched_by"})
        .sort("total_ns", "name", "session", descending=[True, False, False], nulls_last=True)
    )


def recorded_op_launches(
    profile: Profile,
    *,
    session: int,
    kind: str,
    name: str,
    launched_by: str | None,
    op: str | None = None,
    why_no_op: str | None = None,
) -> pl.DataFrame:
    """Return the launches of one row of `recorded_op_kernels`, as `tui.analysis.kernels.launches`.

    Args:
        profile: The profile.
        session: Number of the session.
        kind: Kind of the kernel.
        name: Its full name.
        launched_by: The innermost op around the launches.
        op: The op whose kernels are examined.
        why_no_op: Instead, the reason why they have no op.
    """
    work = _op_activities(profile, session=session, op=op, why_no_op=why_no_op).filter(
        pl.col("kind").cast(pl.String) == kind,
        pl.col("name").cast(pl.String) == name,
        pl.col("op").cast(pl.String).eq_missing(pl.lit(launched_by, pl.String)),
    )
    work = with_verdicts(profile, work.rename({"op": "launched_by"}))
    return with_occupancy(profile, with_shapes(work))


def recorded_op_activities(
    profile: Profile, *, session: int, op: str | None = None, why_no_op: str | None = None
) -> pl.Series:
    """Return the activity numbers behind `recorded_op_kernels`."""
    return _op_activities(profile, session=session, op=op, why_no_op=why_no_op)["activity"]


def _op_activities(profile: Profile, *, session: int, op: str | None, why_no_op: str | None) -> pl.DataFrame:
    """Return the activities behind a row of ops, with ``op`` as the name of their innermost op."""
    activities, ops = profile["activities"], profile["ops"]
    rows = activity_op_rows(profile)
    if op is None:
        is_selected = pl.Series(rows == NONE)
        reason = activities.select(unattributed_reason(pl.lit(False)))["why_no_op"]
        is_selected &= reason == (why_no_op or "")
    else:
        is_selected = (
            pl.Series(_is_within_op(profile, session, op)[rows] & (rows != NONE))
            if ops.height
            else pl.Series(rows == 0)
        )
    selected_rows = (is_selected & (activities["session"] == session)).arg_true()
    return activities[selected_rows].with_columns(op_names_at(ops, rows[selected_rows.to_numpy()]))


def _is_within_op(profile: Profile, session: int, op: str) -> npt.NDArray[np.bool_]:
    """Return flags for the ops that have this name, or run in one of that name."""
    ops = profile["ops"]
    named = ops.select((pl.col("name") == op) & (pl.col("session") == session)).to_series().fill_null(False)
    flags = named.to_numpy().copy()
    # Most ops call no other op.
    calls_others = ops["parent"].is_in(ops["op"].filter(named).implode()).any()
    return op_tree(ops).with_descendants(flags) if calls_others else flags


def op_calls(profile: Profile, *, session: int, op: str, limit: int = 5) -> OpCalls:
    """Return the recorded arguments and context of the calls of an op.

    Args:
        profile: The profile.
        session: Number of the session.
        op: Name of the op.
        limit: The maximum number of values of each kind.
    """
    ops = session_rows(profile["ops"], session)
    called = ops.filter(pl.col("name") == op)
    numbers = called["op"]
    child_names = ops.filter(pl.col("parent").is_in(numbers.implode()))["name"]
    backward = ops.filter(pl.col("forward").is_in(numbers.implode()))["name"]
    return OpCalls(
        input_shapes=_values(limit, called["input_shapes"]),
        dtype=_values(limit, called["dtype"]),
        stack=_values(limit, called["stack"]),
        group=_values(limit, called["group"]),
        parent=_values(limit, _names(ops, called["parent"])),
        children=_values(limit, child_names),
        forward=_values(limit, _names(ops, called["forward"])),
        backward=_values(limit, backward),
        direction=_values(limit, called["direction"]),
        op_source=_values(limit, called["op_source"]),
        thread=_values(limit, called["tid"]),
    )


def _names(ops: pl.DataFrame, numbers: pl.Series) -> pl.Series:
    """Return the names of the ops with these numbers."""
    selected = pl.DataFrame({"op": numbers.drop_nulls()})
    return selected.join(ops.select("op", "name"), on="op")["name"]


def _values(limit: int, values: pl.Series) -> ArgumentValues:
    """Return the ``limit`` most frequent values."""
    counted = (
        pl.DataFrame({"value": values.drop_nulls()})
        .group_by("value")
        .agg(pl.len().alias("calls"))
        .with_columns(pl.col("value").cast(pl.String))
        .sort("calls", "value", descending=[True, False])
    )
    head = counted.head(limit)
    return ArgumentValues(tuple(Value(text, calls) for text, calls in head.rows()), counted.height - head.height)
