"""Op types: GPU and CPU time of each, in total and per call (Op Type Summary), and by kind of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import average, complete_sum, share, sum_of_known, timed_calls, total, untimed_calls
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.inferred_ops import inferred_instances
from tui.analysis.ops.op_attribution import classified_work, op_classes
from tui.analysis.ops.op_costs import TIMES, call_times, recorded_ops
from tui.analysis.ops.op_type_rules import UNKNOWN, op_rules
from tui.analysis.ops.ops_by_name import (
    has_recorded_ops,
    inferred_ops,
    op_name,
    printed_op_sessions,
    printed_ops,
    with_schema,
)
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

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


def gpu_time_by_op_type(profile: Profile) -> pl.DataFrame:
    """Return GPU time by op type and group.

    Columns: session, op_type, direction, group, calls (launches), timed_calls (of known duration), total_ns.

    Types are those of `tui.analysis.ops.op_attribution.classified_work`, or ``unknown``. The rows add up to the GPU
    time.
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
            complete_sum("calls").alias("calls"),
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
    """Return ops by op type: one row per session, op type, direction and source, largest GPU time first.

    Columns: those of `inferred_ops`, ops (distinct names), launches, cpu_self_ns, cpu_total_ns, untimed_launches (those
    whose duration is not known). For recorded ops, ``total_ns`` is the GPU time that ops of the type launched
    themselves, ``avg_ns``, ``min_ns`` and ``max_ns`` are per call, and ``kernels`` is null, since ops can share
    kernels. ``cpu_self_ns`` adds up; in ``cpu_total_ns`` the time of an op nested in another of its type counts twice.
    Work without an op keeps a row for each reason.
    """
    inferred = inferred_ops(profile).with_columns(
        pl.col("calls").alias("launches"), (pl.col("calls") - pl.col("timed_calls")).alias("untimed_launches")
    )
    if not has_recorded_ops(profile):
        return with_schema(inferred, OP_TYPES)
    inferred = inferred.filter(~pl.col("session").is_in(printed_op_sessions(profile).implode()))
    rules = op_rules()
    groups = op_classes(profile).select("session", "op", pl.col("group").alias("own_group"))
    no_op = pl.col("why_no_op").is_not_null()
    by_kernel = pl.col("op_type").cast(pl.String)
    recorded = (
        pl.concat([recorded_ops(profile), printed_ops(profile)])
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
            sum_of_known("gpu_self_ns").alias("total_ns"),
            average(total("gpu_self_ns"), total("timed_calls")).alias("avg_ns"),
            pl.col("gpu_min_ns").min().alias("min_ns"),
            pl.col("gpu_max_ns").max().alias("max_ns"),
            total("time_pct").alias("time_pct"),
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
    return with_schema(pl.concat([recorded, inferred], how="diagonal_relaxed"), OP_TYPES).sort(
        *("total_ns", "op", "op_type", "direction", "op_source", "session"),
        descending=[True, False, False, False, False, False],
        nulls_last=True,
    )


@dataclass(frozen=True, slots=True)
class ColumnFold:
    """A group of columns; if it is folded, only the total is shown."""

    title: str
    total: str
    others: tuple[str, ...]

    def holds(self, column: str) -> bool:
        """Return whether a column belongs to the group."""
        return column == self.total or column in self.others


def _fold(title: str, total_column: str, stem: str) -> ColumnFold:
    return ColumnFold(title, total_column, tuple(f"{stem}_{figure}_ns" for figure in ("avg", "min", "max")))


FOLDS: Final = (
    _fold("GPU time", "gpu_ns", "gpu"),
    _fold("GPU busy", "gpu_busy_ns", "gpu_busy"),
    _fold("CPU time", "cpu_own_ns", "cpu_own"),
    _fold("CPU overhead", "cpu_overhead_ns", "cpu_overhead"),
    _fold("GPU idle", "gpu_idle_ns", "gpu_idle"),
)
"""The groups of columns, in the order of `TIMES`, without the names."""

_STEMS: Final = dict(zip(TIMES, ("gpu", "gpu_busy", "cpu_own", "cpu_overhead", "gpu_idle"), strict=True))

OP_TYPE_SUMMARY: Final = TableSpec(
    "op_type_summary",
    "Op types",
    columns(
        "op_type",
        "gpu_ns",
        "gpu_avg_ns",
        "gpu_min_ns",
        "gpu_max_ns",
        "time_pct",
        "ops",
        "calls",
        "launches",
        *(name for fold in FOLDS[1:] for name in (fold.total, *fold.others)),
        "direction",
        "op_source",
        "untimed_launches",
        "session",
    ),
    key=("session", "op_type", "op_source"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="op_type",
)


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "summary")
def op_type_summary(profile: Profile) -> pl.DataFrame:
    """Return the costs of ops by type: one row per session and op type, largest GPU time first.

    Columns: session, op_type, direction (`MIXED` where they differ), op_source, ops (distinct ones: by name, or by the
    id that DLProf gave them, or as inferred), calls, launches, untimed_launches (those whose duration is not known),
    time_pct, and for each of `TIMES` the total (its own name) and the values per call: ``..._avg_ns``, ``..._min_ns``,
    ``..._max_ns``. Times of recorded ops are self times (`call_times.self_times`), so types add up although ops are
    nested; work without an op has a row for each reason, with only its GPU time. In sessions that record no ops, calls
    are inferred op instances (`inferred_instances`), and their CPU time is null. Values per call are null for inputs
    with totals only. ``gpu_ns`` of all rows of a session adds up to its GPU time.
    """
    frames = [_inferred_types(profile)]
    if has_recorded_ops(profile):
        printed = printed_op_sessions(profile)
        frames = [frames[0].filter(~pl.col("session").is_in(printed.implode())), *_recorded_types(profile)]
        frames.append(_printed_types(profile))
    rows = pl.concat(frames, how="diagonal_relaxed")
    column_names = [column.name for column in OP_TYPE_SUMMARY.columns]
    missing = [pl.lit(None, pl.Int64).alias(name) for name in column_names if name not in (*rows.columns, "time_pct")]
    return (
        rows.with_columns(*missing)
        .with_columns(share("gpu_ns"))
        .select("session", *(name for name in column_names if name != "session"))
        .with_columns(pl.col("op_type", "direction", "op_source").cast(NAME))
        .sort(
            *("gpu_ns", "cpu_own_ns", "op_type", "op_source", "session"),
            descending=[True, True, False, False, False],
            nulls_last=True,
        )
    )


def _type_sums() -> list[pl.Expr]:
    """Return the aggregations total, average, minimum and maximum of each of `TIMES` over calls."""
    expressions = []
    for name, stem in _STEMS.items():
        time = pl.col(name)
        expressions += [
            sum_of_known(name).alias(name),
            time.mean().round().cast(pl.Int64).alias(f"{stem}_avg_ns"),
            time.min().alias(f"{stem}_min_ns"),
            time.max().alias(f"{stem}_max_ns"),
        ]
    return expressions


def _direction() -> pl.Expr:
    direction = pl.col("direction").cast(pl.String)
    is_uniform = direction.n_unique() == 1
    return pl.when(is_uniform).then(direction.first()).otherwise(pl.lit("mixed")).alias("direction")


def _recorded_types(profile: Profile) -> list[pl.DataFrame]:
    """Return recorded ops by type, and the work without an op."""
    by_name = recorded_ops(profile).with_columns(pl.col("op_type", "op").cast(pl.String))
    types = by_name.filter(pl.col("why_no_op").is_null()).select(
        "session", pl.col("op").alias("name"), pl.col("op_type").fill_null(UNKNOWN), "op_source", "direction"
    )
    ids = profile["ops"].select("op", "op_id")
    ops = (
        call_times(profile)
        .with_columns(pl.col("name").cast(pl.String))
        .join(types, on=["session", "name"], how="left", maintain_order="left")
        .join(ids, on="op", how="left", maintain_order="left")
        .group_by("session", "op_type", "op_source")
        .agg(
            pl.coalesce(pl.col("op_id").cast(pl.String), "name").n_unique().cast(pl.Int64).alias("ops"),
            pl.len().cast(pl.Int64).alias("calls"),
            total("launches").alias("launches"),
            total("untimed_launches").alias("untimed_launches"),
            _direction(),
            *_type_sums(),
        )
    )
    unattributed = by_name.filter(pl.col("why_no_op").is_not_null()).select(
        "session", pl.col("op").alias("op_type"), "launches", "untimed_launches", pl.col("gpu_self_ns").alias("gpu_ns")
    )
    return [ops, unattributed]


def _printed_types(profile: Profile) -> pl.DataFrame:
    """Return the types of ops that the input has as totals, and of work without an op."""
    no_op = pl.col("why_no_op").is_not_null()
    return (
        printed_ops(profile)
        .with_columns(pl.col("op", "op_type", "op_source").cast(pl.String))
        .with_columns(op_type=pl.when(no_op).then("op").otherwise(pl.col("op_type").fill_null(UNKNOWN)))
        .group_by("session", "op_type", "op_source")
        .agg(
            pl.when(~no_op.all()).then(pl.col("op").n_unique().cast(pl.Int64)).alias("ops"),
            total("calls").alias("calls"),
            _direction(),
            total("gpu_self_ns").alias("gpu_ns"),
            total("cpu_self_ns").alias("cpu_own_ns"),
        )
        .with_columns(
            gpu_avg_ns=average(pl.col("gpu_ns"), pl.col("calls")),
            cpu_own_avg_ns=average(pl.col("cpu_own_ns"), pl.col("calls")),
        )
    )


def _inferred_types(profile: Profile) -> pl.DataFrame:
    """Return the types of sessions without recorded ops, from instances, else from totals."""
    inferred = (
        inferred_ops(profile)
        .with_columns(pl.col("op_type", "op_source").cast(pl.String))
        .group_by("session", "op_type")
        .agg(
            _direction(),
            complete_sum("calls").alias("launches"),
            untimed_calls().alias("untimed_launches"),
            total("total_ns").alias("gpu_ns"),
            pl.col("op_source").first(),
        )
    )
    instances = (
        inferred_instances(profile)
        .with_columns(pl.col("op_type").cast(pl.String))
        .filter(pl.col("op_type") != UNKNOWN)
        .group_by("session", "op_type")
        .agg(
            # Work outside of the iterations has no id: count names if there is no other work.
            pl.max_horizontal(pl.col("op_id").drop_nulls().n_unique(), pl.col("op").n_unique())
            .cast(pl.Int64)
            .alias("ops"),
            pl.len().cast(pl.Int64).alias("calls"),
            *_type_sums(),
        )
    )
    return inferred.join(instances.drop("gpu_ns"), on=["session", "op_type"], how="left")
