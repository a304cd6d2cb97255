"""GPU time by launch configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.launches.shapes import with_shapes
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.work_groups import TOTALS_ONLY, WorkGroups, grouped_by, summed, totals_only
from tui.fmt import size
from tui.model.columns import COLUMNS, columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

SHAPE: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"),
    *("static_shared_bytes", "dynamic_shared_bytes", "shared_bytes"),
)

CONFIGS: Final = TableSpec(
    "launch_configs",
    "Launch configs",
    (
        *columns("config", "total_ns", "time_pct", "calls", "avg_ns", "kernels", "max_ns", "min_ns"),
        *columns("uses_tensor_core", "session"),
        # All of it stands in the first column: these are to be filtered and sorted by.
        *(
            replace(COLUMNS[name], priority=9)
            for name in ("grid", "block", "registers", "static_shared_bytes", "dynamic_shared_bytes", "shared_bytes")
        ),
        *columns("line"),
    ),
    # Equal sizes of shared memory can be made up differently, and are rounded in words.
    key=("session", "config", "static_shared_bytes", "dynamic_shared_bytes", "shared_bytes"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="config",
    # Configurations differ in what stands last: registers and shared memory.
    pinned_least=48,
)


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def config_groups(profile: Profile) -> WorkGroups:
    """All GPU work by session and launch configuration; what has none stands under its kind."""
    activities = profile["activities"]
    none = pl.all_horizontal(pl.col(name).is_null() for name in SHAPE)
    kind = pl.col("kind").cast(pl.String)
    single = activities.select("session", *SHAPE, pl.when(none).then(kind).alias("without"))
    printed = totals_only(profile).select(
        "session",
        *(pl.lit(None, activities.schema[name]).alias(name) for name in SHAPE),
        pl.lit(TOTALS_ONLY).alias("without"),
    )
    return grouped_by(single, printed)


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def by_config(profile: Profile) -> pl.DataFrame:
    """GPU time by launch configuration: one row per session and configuration, the largest first.

    Columns: session, config (all of it in words; of work without one its kind), grid, block, registers,
    static_shared_bytes, dynamic_shared_bytes, shared_bytes and those of `tui.analysis.ops.work_groups.summed`.
    """
    rows = with_shapes(summed(profile, config_groups(profile)))
    shared = pl.coalesce(pl.col("static_shared_bytes") + pl.col("dynamic_shared_bytes"), "shared_bytes")
    amounts = rows.select(shared.alias("bytes"))["bytes"].unique().drop_nulls()
    words = pl.DataFrame(
        {"bytes": amounts, "shared_words": [f"{size(amount)} shared" for amount in amounts.to_list()]},
        schema={"bytes": pl.Int64, "shared_words": pl.String},
    )
    parts = [
        pl.format("({} {} {}) x ({} {} {})", *(pl.col(name).cast(pl.String).fill_null("?") for name in SHAPE[:6])),
        pl.format("{} regs", "registers"),
        pl.col("shared_words"),
    ]
    return (
        rows.with_columns(shared.alias("bytes"))
        .join(words, on="bytes", how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("without").is_null())
            .then(pl.concat_str(parts, separator=", ", ignore_nulls=True))
            .when(pl.col("without").str.starts_with("("))
            .then("without")
            .otherwise(pl.format("(none recorded: {})", "without"))
            .alias("config")
        )
        .drop("bytes", "shared_words")
        .sort("total_ns", "config", "session", descending=[True, False, False], nulls_last=True)
    )
