"""The Op Type Summary: what ops of each type cost, on the GPU and on the CPU, in all and by call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import share, total, total_of_parts, untimed_calls, whole
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.call_times import TIMES, call_times
from tui.analysis.ops.inferred_instances import inferred_instances
from tui.analysis.ops.recorded import recorded_ops
from tui.analysis.ops.rules import UNKNOWN
from tui.analysis.ops.tables import has_recorded_ops, inferred_ops
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class ColumnFold:
    """Columns of one thing: folded, only the total is shown."""

    title: str
    total: str
    others: tuple[str, ...]

    def holds(self, column: str) -> bool:
        """Whether a column is one of its own."""
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
"""The groups of columns, in order of `TIMES` but for the names."""

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
    """What ops of each type cost: one row per session and op type, largest GPU time first.

    Columns: session, op_type, direction (`MIXED` where they differ), op_source, ops (distinct ones: by name, or by the
    id that DLProf gave them, or as inferred), calls, launches, untimed_launches (those whose duration is not known),
    time_pct, and of each of `TIMES` the total (its own name) and what one call has:
    ``..._avg_ns``, ``..._min_ns``, ``..._max_ns``.

    Of recorded ops every time is what the ops of the type spent themselves (`call_times.own_times`), so that types add
    up although ops run within each other; work without an op has a row for each reason, with nothing but its GPU time.
    Of sessions that record no ops, calls are inferred op instances (`inferred_instances`), and their CPU time is null.
    Where an input holds totals alone, so is all that one call has. ``gpu_ns`` of all rows of a session adds up to its
    GPU time.
    """
    parts = [_inferred(profile)]
    if has_recorded_ops(profile):
        parts += _recorded(profile)
    rows = pl.concat(parts, how="diagonal_relaxed")
    wanted = [column.name for column in OP_TYPE_SUMMARY.columns]
    missing = [pl.lit(None, pl.Int64).alias(name) for name in wanted if name not in (*rows.columns, "time_pct")]
    return (
        rows.with_columns(*missing)
        .with_columns(share("gpu_ns"))
        .select("session", *(name for name in wanted if name != "session"))
        .with_columns(pl.col("op_type", "direction", "op_source").cast(NAME))
        .sort(
            *("gpu_ns", "cpu_own_ns", "op_type", "op_source", "session"),
            descending=[True, True, False, False, False],
            nulls_last=True,
        )
    )


def _figures() -> list[pl.Expr]:
    """Total, average, minimum and maximum of each of `TIMES` over calls."""
    expressions = []
    for name, stem in _STEMS.items():
        time = pl.col(name)
        expressions += [
            total_of_parts(name).alias(name),
            time.mean().round().cast(pl.Int64).alias(f"{stem}_avg_ns"),
            time.min().alias(f"{stem}_min_ns"),
            time.max().alias(f"{stem}_max_ns"),
        ]
    return expressions


def _direction() -> pl.Expr:
    direction = pl.col("direction").cast(pl.String)
    one = direction.n_unique() == 1
    return pl.when(one).then(direction.first()).otherwise(pl.lit("mixed")).alias("direction")


def _recorded(profile: Profile) -> list[pl.DataFrame]:
    """Recorded ops by type, and the work that has none."""
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
            pl.coalesce("op_id", "name").n_unique().cast(pl.Int64).alias("ops"),
            pl.len().cast(pl.Int64).alias("calls"),
            total("launches").alias("launches"),
            total("untimed_launches").alias("untimed_launches"),
            _direction(),
            *_figures(),
        )
    )
    rest = by_name.filter(pl.col("why_no_op").is_not_null()).select(
        "session", pl.col("op").alias("op_type"), "launches", "untimed_launches", pl.col("gpu_self_ns").alias("gpu_ns")
    )
    return [ops, rest]


def _inferred(profile: Profile) -> pl.DataFrame:
    """Sessions that record no ops, by type: their instances, else what their totals say."""
    known = (
        inferred_ops(profile)
        .with_columns(pl.col("op_type", "op_source").cast(pl.String))
        .group_by("session", "op_type")
        .agg(
            _direction(),
            whole("calls").alias("launches"),
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
            # Work outside of the iterations has no id: where there is no other, names are counted.
            pl.max_horizontal(pl.col("op_id").drop_nulls().n_unique(), pl.col("op").n_unique())
            .cast(pl.Int64)
            .alias("ops"),
            pl.len().cast(pl.Int64).alias("calls"),
            *_figures(),
        )
    )
    return known.join(instances.drop("gpu_ns"), on=["session", "op_type"], how="left")
