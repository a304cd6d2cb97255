"""Theoretical occupancy: how many warps of a launch configuration an SM can hold at once, and what limits it.

The formulas are those of NVIDIA's occupancy calculator (``cuda_occupancy.h``), at the largest setting of shared memory,
since the driver's choice is not in any profile: what they give is an upper bound.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.grouping import grouped
from tui.analysis.inputs.devices import device_facts
from tui.analysis.launches.shapes import with_shapes

if TYPE_CHECKING:
    from tui.model.profile import Profile

SHAPE: Final = (
    "session",
    "device",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "registers",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "shared_bytes",
)
"""Columns of ``activities`` that the occupancy of a launch depends on."""

LIMITS: Final = ("warps", "blocks", "registers", "shared memory")
"""What can keep a further block from an SM; the columns are ``limit_warps`` and so on."""

RESULTS: Final = (
    "threads_per_block",
    "limit_warps",
    "limit_blocks",
    "limit_registers",
    "limit_shared",
    "blocks_per_sm",
    "limiter",
    "occupancy_pct",
    "waves",
    "full_waves",
    "tail_pct",
    "achieved_pct",
    "sm_efficiency_pct",
    "occupancy_reason",
)
"""What `occupancies` adds to a launch configuration."""

WARP: Final = 32
MAX_THREADS_PER_BLOCK: Final = 1024
REGISTER_UNIT: Final = 256
"""Registers are given to a warp in lots of so many."""


@cache
def capabilities() -> pl.DataFrame:
    """The limits of each compute capability: the rows of ``compute_capabilities.toml``."""
    table = tomllib.loads(files("tui.data").joinpath("compute_capabilities.toml").read_text("utf-8"))
    return pl.DataFrame(table["capabilities"])


def _rounded_up(value: pl.Expr, unit: pl.Expr | int) -> pl.Expr:
    return (value + unit - 1) // unit * unit


def occupancies(configs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Occupancy of launch configurations.

    Args:
        configs: Rows with the columns of `SHAPE`.
        facts: `tui.analysis.inputs.devices.device_facts` of the same profile.

    Returns:
        The same rows, in order, with `RESULTS`: ``limit_*`` are the blocks that each resource would allow (null: it
        does not limit), ``limiter`` names the scarcest (several, where they are equally scarce), ``occupancy_pct`` is
        of the warps that an SM holds. The rest needs the number of SMs: ``waves`` are the blocks of the grid / (blocks
        per SM x SMs), ``full_waves`` how many of those are whole; ``tail_pct`` is the share of the time that a last,
        partial wave takes after whole ones, if it takes as long as they do: 1 / (full waves + 1), 0 where there is no
        such wave (Nsight Compute's tail effect); ``achieved_pct`` is Kineto's estimate of the achieved occupancy, min
        (blocks per SM, blocks / SMs) x threads per block / threads that an SM holds; ``sm_efficiency_pct`` is
        min (1, blocks / SMs), the share of SMs that get a block. Where the occupancy cannot be told it is null and
        ``occupancy_reason`` says why.
    """
    known = facts.select("session", "device", "compute_capability", "sm_count", "vendor").join(
        capabilities(), on="compute_capability", how="left"
    )
    c, whole = pl.col, pl.Int64
    warps = _rounded_up(c("threads_per_block"), WARP) // WARP
    per_warp = _rounded_up(c("registers").cast(whole) * WARP, REGISTER_UNIT)
    over = per_warp * _rounded_up(warps, c("partitions")) > c("registers_per_block")
    # The header repeats the test of 6.1, with four partitions, on 6.0.
    over |= (c("compute_capability") == "6.0") & (per_warp * _rounded_up(warps, 4) > c("registers_per_block"))
    by_registers = c("registers_of_sm") // c("partitions") // per_warp * c("partitions") // warps
    shared = _rounded_up(shared_memory() + c("shared_reserved"), c("shared_unit"))
    largest = c("shared_per_block_kb") * 1024 + c("shared_reserved")
    limit_columns = [f"limit_{name.split(' ')[0]}" for name in LIMITS]
    scarcest = [
        pl.when(c(column) == c("blocks_per_sm")).then(pl.lit(name))
        for column, name in zip(limit_columns, LIMITS, strict=True)
    ]
    unknown = c("occupancy_reason").is_not_null()
    blocks, threads = (_product(of) for of in ("grid", "block"))
    return (
        configs.join(known.rename({"registers": "registers_of_sm"}), on=["session", "device"], how="left",
                     nulls_equal=True, maintain_order="left")
        .with_columns(threads.alias("threads_per_block"))
        .with_columns(_reason().alias("occupancy_reason"))
        .with_columns(
            pl.when(c("threads_per_block") > MAX_THREADS_PER_BLOCK).then(0).otherwise(c("warps") // warps)
            .cast(whole).alias("limit_warps"),
            c("blocks").cast(whole).alias("limit_blocks"),
            pl.when((c("registers") > c("registers_per_thread")) | over).then(0)
            .when(c("registers") > 0).then(by_registers).cast(whole).alias("limit_registers"),
            pl.when(shared > largest).then(0)
            .when(shared > 0).then(c("shared_kb") * 1024 // shared).cast(whole).alias("limit_shared"),
        )
        .with_columns(pl.when(~unknown).then(pl.min_horizontal(limit_columns)).alias("blocks_per_sm"))
        .with_columns(
            pl.when(unknown).then("occupancy_reason").when(c("blocks_per_sm") == 0)
            .then(pl.format("such a launch does not fit compute capability {}", "compute_capability"))
            .alias("occupancy_reason")
        )
        .with_columns(
            *(pl.when(~unknown).then(c(column)).alias(column) for column in (*limit_columns, "blocks_per_sm"))
        )
        .with_columns(
            pl.when(~unknown).then(pl.concat_str(scarcest, separator=" and ", ignore_nulls=True)).alias("limiter"),
            (100 * c("blocks_per_sm") * warps / c("warps")).alias("occupancy_pct"),
            blocks.alias("grid_blocks"),
            (c("blocks_per_sm") * c("sm_count")).alias("wave_blocks"),
        )
        .with_columns(
            (c("grid_blocks") / c("wave_blocks")).alias("waves"),
            (c("grid_blocks") // c("wave_blocks")).alias("full_waves"),
            (c("grid_blocks") / c("sm_count")).alias("blocks_of_sm"),
            (c("warps") * WARP).alias("sm_threads"),
        )
        .with_columns(
            pl.when((c("grid_blocks") % c("wave_blocks") > 0) & (c("full_waves") > 0))
            .then(100 / (c("full_waves") + 1)).when(c("full_waves").is_not_null()).then(0.0).alias("tail_pct"),
            pl.when(c("blocks_of_sm").is_not_null() & c("blocks_per_sm").is_not_null())
            .then(pl.min_horizontal("blocks_per_sm", "blocks_of_sm") * c("threads_per_block") * 100 / c("sm_threads"))
            .alias("achieved_pct"),
            (100 * c("blocks_of_sm").clip(upper_bound=1)).alias("sm_efficiency_pct"),
        )
        .select(*configs.columns, *RESULTS)
    )  # fmt: skip


def _product(shape: str) -> pl.Expr:
    """Of the sides of a grid or block; null where they are none, as damaged ones."""
    x, y, z = (pl.col(f"{shape}_{axis}").cast(pl.Int64) for axis in "xyz")
    return pl.when(pl.min_horizontal(x, y, z) > 0).then(x * y * z)


def shared_memory() -> pl.Expr:
    """Shared memory of a block, static and dynamic together, however the input has it; null where it says too little.

    >>> rows = {"shared_bytes": [None, 7], "static_shared_bytes": [1, None], "dynamic_shared_bytes": [2, None]}
    >>> pl.DataFrame(rows).select(shared_memory())["shared_bytes"].to_list()
    [3, 7]
    """
    return pl.coalesce("shared_bytes", pl.col("static_shared_bytes") + pl.col("dynamic_shared_bytes"))


def _reason() -> pl.Expr:
    """Why the occupancy of a row cannot be told, or null."""
    c = pl.col
    return (
        pl.when(c("vendor").is_not_null())
        .then(pl.format("occupancy is worked out by NVIDIA's rules, and this GPU is {}'s", "vendor"))
        .when(c("threads_per_block").is_null())
        .then(pl.lit("the input has no block size"))
        .when(c("registers").is_null())
        .then(pl.lit("the input has no registers per thread"))
        .when(shared_memory().is_null())
        .then(pl.lit("the input has no shared memory"))
        .when(c("compute_capability").is_null())
        .then(pl.lit("nothing is known of this GPU: name it with --gpu"))
        .when(c("warps").is_null())
        .then(pl.format("nothing is known of compute capability {}", "compute_capability"))
    )


def with_occupancy(profile: Profile, activities: pl.DataFrame, *, gpu: str | None = None) -> pl.DataFrame:
    """Add what is known of the occupancy of each launch to activities: the columns of `RESULTS`, without the limits.

    Each distinct configuration is worked out once. Rows that are no kernels get nulls.
    """
    wanted = RESULTS[RESULTS.index("blocks_per_sm") :]
    launched = activities.lazy().filter(pl.col("kind") == "kernel").select(SHAPE).unique(maintain_order=True).collect()
    results = occupancies(launched, device_facts(profile, gpu=gpu)).select(*SHAPE, *wanted)
    return activities.join(
        results.with_columns(pl.lit("kernel").cast(activities.schema["kind"]).alias("kind")),
        on=[*SHAPE, "kind"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )


def occupancy(profile: Profile, *, gpu: str | None = None) -> pl.DataFrame:
    """Occupancy of every launch configuration of every kernel, the one with most GPU time first.

    One row per session, device, name and columns of `SHAPE`, with grid, block, calls, total_ns and `RESULTS`.
    """
    sums = [pl.len().cast(pl.Int64).alias("calls"), total().alias("total_ns")]
    configs = grouped(profile["activities"], ("kind", "name", *SHAPE), sums).filter(pl.col("kind") == "kernel")
    rows = occupancies(with_shapes(configs.drop("kind")), device_facts(profile, gpu=gpu))
    return rows.sort("total_ns", "name", "grid", descending=[True, False, False], nulls_last=True)
