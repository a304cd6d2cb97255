"""Recorded ops: CPU and GPU time of each call, and by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.durations import total, total_of_parts, untimed_calls, whole
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import classified_work, op_classes
from tui.analysis.ops.op_costs import op_instances
from tui.analysis.tensor_cores.eligible import eligible_ops
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.model.profile import Profile


NO_OP: Final = "(unattributed: {})"
"""What the rows of work without an op are called."""

MIXED: Final = "mixed"
"""The direction of a name that has calls of several."""


RECORDED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "session": pl.UInt32,
        "op": NAME,
        "op_type": NAME,
        "direction": NAME,
        "group": NAME,
        "calls": pl.Int64,
        "gpu_self_ns": pl.Int64,
        "time_pct": pl.Float64,
        "gpu_total_ns": pl.Int64,
        "gpu_avg_ns": pl.Int64,
        "gpu_min_ns": pl.Int64,
        "gpu_max_ns": pl.Int64,
        "cpu_total_ns": pl.Int64,
        "cpu_self_ns": pl.Int64,
        "cpu_avg_ns": pl.Int64,
        "api_ns": pl.Int64,
        "timed_calls": pl.Int64,
        "launches": pl.Int64,
        "untimed_launches": pl.Int64,
        "kernels": pl.Int64,
        "tc_eligible": pl.Boolean,
        "uses_tensor_core": pl.Boolean,
        "dtype": NAME,
        "stack": NAME,
        "op_source": NAME,
        "line": pl.UInt32,
        "why_no_op": pl.String,
    }
)
"""The columns of `recorded_ops`."""


def by_name(profile: Profile, *also: str) -> pl.DataFrame:
    """What the recorded ops cost by session and name, and by further columns of ``ops`` (``input_shapes``).

    Columns: session, op (the name), what was asked for, calls, gpu_self_ns, gpu_total_ns, gpu_avg_ns, gpu_min_ns,
    gpu_max_ns (of the calls' own GPU work), timed_calls (those of whose GPU work that is known), cpu_total_ns,
    cpu_self_ns, cpu_avg_ns, api_ns, launches, untimed_launches (those whose duration is not known), tc_eligible,
    direction and dtype (of its calls; `MIXED` where they differ), stack (of its calls; how many there are, where they
    differ), op_source, line.

    As in PyTorch's `key_averages`, an op that only calls one of the same name counts once with it (see
    `op_instances`), and a name that calls itself in other ways has the time of the inner call in both.
    """
    instances = op_instances(profile)
    further = tuple(dict.fromkeys(("direction", "dtype", "stack", "op_source", "line", *also)))
    of_calls = [
        one
        for one in (
            _one_or("direction", pl.lit(MIXED)),
            _one_or("dtype", pl.lit(MIXED)),
            _one_or("stack", pl.format("{} different", pl.col("stack").n_unique())),
        )
        if one.meta.output_name() not in also
    ]
    own = ("gpu_self_ns", "cpu_self_ns", "api_ns", "launches", "untimed_launches")
    eligible = eligible_ops(profile).select("tc_eligible")
    rows = pl.concat([instances, profile["ops"].select(further), eligible], how="horizontal")
    repeated = pl.col("call") != pl.col("op")
    calls = rows.filter(~repeated)
    if calls.height < rows.height:
        sums = rows.group_by(pl.col("call").alias("op")).agg(total_of_parts(column).alias(column) for column in own)
        calls = calls.drop(own).join(sums, on="op", how="left", maintain_order="left")
    gpu = pl.col("gpu_self_ns")
    return (
        calls.lazy()
        .group_by("session", pl.col("name").alias("op"), *also)
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total_of_parts("gpu_self_ns").alias("gpu_self_ns"),
            total_of_parts("gpu_total_ns").alias("gpu_total_ns"),
            gpu.count().cast(pl.Int64).alias("timed_calls"),
            gpu.mean().round().cast(pl.Int64).alias("gpu_avg_ns"),
            gpu.min().alias("gpu_min_ns"),
            gpu.max().alias("gpu_max_ns"),
            total("cpu_total_ns").alias("cpu_total_ns"),
            total("cpu_self_ns").alias("cpu_self_ns"),
            pl.col("cpu_total_ns").mean().round().cast(pl.Int64).alias("cpu_avg_ns"),
            total("api_ns").alias("api_ns"),
            total("launches").alias("launches"),
            total("untimed_launches").alias("untimed_launches"),
            pl.col("tc_eligible").any(ignore_nulls=False),
            *of_calls,
            pl.col("op_source").first(),
            pl.col("line").min(),
        )
        .collect()
    )


def _one_or(column: str, several: pl.Expr) -> pl.Expr:
    """The value of a column that all rows share, as text; else what is said of several."""
    values = pl.col(column)
    return (
        pl.when(values.n_unique() == 1).then(values.cast(pl.String).first()).otherwise(several).cast(NAME).alias(column)
    )


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "summary")
def recorded_ops(profile: Profile) -> pl.DataFrame:
    """Recorded ops by name, and the GPU work that has no op by its reason; largest GPU time first.

    Columns: session, op, op_type, direction, group, calls, gpu_self_ns, time_pct, gpu_total_ns, gpu_avg_ns, gpu_min_ns,
    gpu_max_ns, cpu_total_ns, cpu_self_ns, cpu_avg_ns, api_ns, timed_calls, launches, untimed_launches (as `by_name`),
    kernels (distinct names of what it launched itself), tc_eligible
    (`tui.analysis.tensor_cores.eligible.eligible_ops`, of any of its calls), uses_tensor_core (whether any of its own
    kernels does), dtype, stack, op_source, line. ``why_no_op`` is why work has no op, null for ops.

    ``gpu_self_ns`` of all rows of a session adds up to its GPU time; ``time_pct`` is the share of that. ``op_type`` is
    what the input records, else what its name tells, else what all its own kernels are; null where they differ.
    ``group`` names every kind of work that it did on the GPU, most time first.
    """
    work = classified_work(profile)
    groups = (
        work.group_by("session", "op", "why_no_op", "group")
        .agg(total("total_ns").alias("total_ns"))
        .sort("total_ns", "group", descending=[True, False], nulls_last=True)
        .group_by("session", "op", "why_no_op", maintain_order=True)
        .agg(pl.col("group").cast(pl.String).str.join(", ").alias("groups"))
    )
    of_kernels = work.group_by("session", "op", "why_no_op").agg(
        pl.col("name").n_unique().cast(pl.Int64).alias("kernels"),
        pl.col("uses_tensor_core").any(ignore_nulls=False),
        pl.when(pl.col("kernel_type").n_unique() == 1).then(pl.col("kernel_type").first()).alias("kernel_type"),
        whole("launches").alias("work_launches"),
        untimed_calls("launches").alias("work_untimed"),
        total("total_ns").alias("work_ns"),
        pl.col("line").min().alias("work_line"),
    )
    of_kernels = of_kernels.join(groups, on=["session", "op", "why_no_op"], how="left", nulls_equal=True)
    classes = op_classes(profile).rename({"direction": "named_direction"})
    ops = (
        by_name(profile)
        .join(classes, on=["session", "op"], how="left")
        .join(of_kernels.filter(pl.col("op").is_not_null()), on=["session", "op"], how="left")
        .with_columns(
            pl.coalesce("op_type", "kernel_type"),
            pl.coalesce("direction", "named_direction"),
            pl.coalesce("groups", pl.col("group").cast(pl.String)).cast(NAME).alias("group"),
            pl.when(pl.col("launches").is_not_null()).then(pl.col("kernels").fill_null(0)).alias("kernels"),
        )
    )
    rest = of_kernels.filter(pl.col("op").is_null()).select(
        "session",
        pl.format(NO_OP, "why_no_op").cast(NAME).alias("op"),
        pl.col("kernel_type").alias("op_type"),
        pl.col("groups").cast(NAME).alias("group"),
        pl.col("work_ns").alias("gpu_self_ns"),
        pl.col("work_launches").alias("launches"),
        pl.col("work_untimed").alias("untimed_launches"),
        "kernels",
        "uses_tensor_core",
        pl.col("work_line").alias("line"),
        "why_no_op",
    )
    session_ns = pl.col("gpu_self_ns").sum().over("session")
    return (
        pl.concat([ops, rest], how="diagonal")
        .with_columns(pl.when(session_ns > 0).then(100 * pl.col("gpu_self_ns") / session_ns).alias("time_pct"))
        .select(*RECORDED)
        .sort(
            "gpu_self_ns",
            "gpu_total_ns",
            "cpu_total_ns",
            "op",
            "session",
            descending=[True, True, True, False, False],
            nulls_last=True,
        )
    )
