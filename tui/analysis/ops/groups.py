"""Groups of ops: the tree of modules, ranges or ops that recorded ops ran in, and what was spent in each part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.durations import total
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.instances import op_instances
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.model.profile import Profile


@once_per_profile("ops", "activities", "api_calls")
def op_groups(profile: Profile) -> pl.DataFrame:
    """What recorded ops cost by the group that they ran in: one row per session and path, sorted by path.

    Columns: session, path (``ops.group`` or a beginning of it, parts with ``/`` between; null for the ops that ran in
    no group), level (from 0; null likewise), calls (of ops), launches, gpu_self_ns, cpu_self_ns: of the ops right in
    the group; calls_within, launches_within, gpu_total_ns, cpu_total_ns: of those and of the groups below it.

    All times are sums of what each op spent itself, so every group is the sum of its parts, and the groups of level 0
    with the row of no group are all that ops launched. Work without an op is in none of them.
    """
    rows = pl.concat([op_instances(profile), profile["ops"].select(pl.col("group").alias("path"))], how="horizontal")
    own = (
        rows.group_by("session", "path")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total("launches").alias("launches"),
            total("gpu_self_ns").alias("gpu_self_ns"),
            total("cpu_self_ns").alias("cpu_self_ns"),
        )
        .with_columns(pl.col("path").cast(pl.String))
    )
    paths = own.select(pl.col("path").drop_nulls().unique())
    parts = pl.col("path").str.split("/")
    beginnings = (
        paths.with_columns(pl.int_ranges(0, parts.list.len()).alias("level"))
        .explode("level")
        .with_columns(parts.list.head(pl.col("level") + 1).list.join("/").alias("around"))
    )
    inside = beginnings.vstack(pl.DataFrame({"path": [None], "level": [None], "around": [None]}, beginnings.schema))
    sums = (
        own.join(inside, on="path", how="inner", nulls_equal=True)
        .group_by("session", pl.col("around").alias("path"), "level")
        .agg(
            total("calls").alias("calls_within"),
            total("launches").alias("launches_within"),
            total("gpu_self_ns").alias("gpu_total_ns"),
            total("cpu_self_ns").alias("cpu_total_ns"),
        )
    )
    return (
        sums.join(own, on=["session", "path"], how="left", nulls_equal=True)
        .select(
            "session",
            "path",
            "level",
            pl.col("calls").fill_null(0),
            *("launches", "gpu_self_ns", "cpu_self_ns"),
            *("calls_within", "launches_within", "gpu_total_ns", "cpu_total_ns"),
        )
        .sort("session", "path", nulls_last=True)
        .with_columns(pl.col("path").cast(NAME))
    )
