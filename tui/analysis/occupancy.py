"""Theoretical occupancy of launch configurations, its limiters, and changes that would raise it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.devices import device_facts
from tui.analysis.durations import total
from tui.analysis.grouping import group_rows

if TYPE_CHECKING:
    from tui.analysis.launch_config import LaunchConfig
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
"""The resources that limit the number of blocks on an SM; the columns are ``limit_warps`` and so on."""

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
"""The columns that `occupancies` adds to a launch configuration."""

WARP: Final = 32
MAX_THREADS_PER_BLOCK: Final = 1024
REGISTER_UNIT: Final = 256
"""The allocation unit of registers for a warp."""


@cache
def capabilities() -> pl.DataFrame:
    """Return the limits of each compute capability: the rows of ``compute_capabilities.toml``."""
    table = tomllib.loads(files("tui.data").joinpath("compute_capabilities.toml").read_text("utf-8"))
    return pl.DataFrame(table["capabilities"])


def _rounded_up(value: pl.Expr, unit: pl.Expr | int) -> pl.Expr:
    return (value + unit - 1) // unit * unit


def occupancies(configs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Compute the occupancy of launch configurations.

    Args:
        configs: Rows with the columns of `SHAPE`.
        facts: `tui.analysis.devices.device_facts` of the same profile.

    Returns:
        The same rows, in order, with `RESULTS`: ``limit_*`` are the blocks that each resource would allow (null: it
        does not limit), ``limiter`` names the scarcest (several, where they are equally scarce), ``occupancy_pct`` is
        of the warps that an SM holds. The rest needs the number of SMs: ``waves`` are the blocks of the grid / (blocks
        per SM x SMs), ``full_waves`` how many of those are whole; ``tail_pct`` is the share of the time that a last,
        partial wave takes after whole ones, if it takes as long as they do: 1 / (full waves + 1), 0 if there is no such
        wave (Nsight Compute's tail effect); ``achieved_pct`` is Kineto's estimate of the achieved occupancy, min
        (blocks per SM, blocks / SMs) x threads per block / threads that an SM holds; ``sm_efficiency_pct`` is min (1,
        blocks / SMs), the share of SMs that get a block. Unknown occupancies are null, with the reason in
        ``occupancy_reason``.
    """
    device_limits = facts.select("session", "device", "compute_capability", "sm_count", "vendor").join(
        capabilities(), on="compute_capability", how="left"
    )
    c, integer = pl.col, pl.Int64
    warps = _rounded_up(c("threads_per_block"), WARP) // WARP
    per_warp = _rounded_up(c("registers").cast(integer) * WARP, REGISTER_UNIT)
    exceeds_registers = per_warp * _rounded_up(warps, c("partitions")) > c("registers_per_block")
    # The header repeats the test of 6.1, with four partitions, on 6.0.
    exceeds_registers |= (c("compute_capability") == "6.0") & (
        per_warp * _rounded_up(warps, 4) > c("registers_per_block")
    )
    by_registers = c("registers_of_sm") // c("partitions") // per_warp * c("partitions") // warps
    shared = _rounded_up(shared_memory() + c("shared_reserved"), c("shared_unit"))
    largest = c("shared_per_block_kb") * 1024 + c("shared_reserved")
    limit_columns = [f"limit_{name.split(' ')[0]}" for name in LIMITS]
    scarcest = [
        pl.when(c(column) == c("blocks_per_sm")).then(pl.lit(name))
        for column, name in zip(limit_columns, LIMITS, strict=True)
    ]
    is_unknown = c("occupancy_reason").is_not_null()
    blocks, threads = (_product(shape) for shape in ("grid", "block"))
    return (
        configs.join(device_limits.rename({"registers": "registers_of_sm"}), on=["session", "device"], how="left",
                     nulls_equal=True, maintain_order="left")
        .with_columns(threads.alias("threads_per_block"))
        .with_columns(_reason().alias("occupancy_reason"))
        .with_columns(
            pl.when(c("threads_per_block") > MAX_THREADS_PER_BLOCK).then(0).otherwise(c("warps") // warps)
            .cast(integer).alias("limit_warps"),
            c("blocks").cast(integer).alias("limit_blocks"),
            pl.when((c("registers") > c("registers_per_thread")) | exceeds_registers).then(0)
            .when(c("registers") > 0).then(by_registers).cast(integer).alias("limit_registers"),
            pl.when(shared > largest).then(0)
            .when(shared > 0).then(c("shared_kb") * 1024 // shared).cast(integer).alias("limit_shared"),
        )
        .with_columns(pl.when(~is_unknown).then(pl.min_horizontal(limit_columns)).alias("blocks_per_sm"))
        .with_columns(
            pl.when(is_unknown).then("occupancy_reason").when(c("blocks_per_sm") == 0)
            .then(pl.format("launch configuration exceeds the limits of compute capability {}", "compute_capability"))
            .alias("occupancy_reason")
        )
        .with_columns(
            *(pl.when(~is_unknown).then(c(column)).alias(column) for column in (*limit_columns, "blocks_per_sm"))
        )
        .with_columns(
            pl.when(~is_unknown).then(pl.concat_str(scarcest, separator=" and ", ignore_nulls=True)).alias("limiter"),
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
    """Return the product of the sides of a grid or block; null for invalid sides."""
    x, y, z = (pl.col(f"{shape}_{axis}").cast(pl.Int64) for axis in "xyz")
    return pl.when(pl.min_horizontal(x, y, z) > 0).then(x * y * z)


def shared_memory() -> pl.Expr:
    """Return the shared memory of a block, static plus dynamic; null if incomplete.

    >>> rows = {"shared_bytes": [None, 7], "static_shared_bytes": [1, None], "dynamic_shared_bytes": [2, None]}
    >>> pl.DataFrame(rows).select(shared_memory())["shared_bytes"].to_list()
    [3, 7]
    """
    return pl.coalesce("shared_bytes", pl.col("static_shared_bytes") + pl.col("dynamic_shared_bytes"))


def _reason() -> pl.Expr:
    """Return why the occupancy of a row is unknown, or null."""
    c = pl.col
    return (
        pl.when(c("vendor").is_not_null())
        .then(pl.format("not applicable: the formula is for NVIDIA GPUs, not for {}", "vendor"))
        .when(c("threads_per_block").is_null())
        .then(pl.lit("block size not recorded"))
        .when(c("registers").is_null())
        .then(pl.lit("registers per thread not recorded"))
        .when(shared_memory().is_null())
        .then(pl.lit("shared memory not recorded"))
        .when(c("compute_capability").is_null())
        .then(pl.lit("unknown GPU: choose it with --gpu"))
        .when(c("warps").is_null())
        .then(pl.format("unknown compute capability {}", "compute_capability"))
    )


def with_occupancy(profile: Profile, activities: pl.DataFrame) -> pl.DataFrame:
    """Add the occupancy of each launch to activities: the columns of `RESULTS`, without the limits.

    Each distinct configuration is computed once. Rows that are no kernels get nulls.
    """
    result_columns = RESULTS[RESULTS.index("blocks_per_sm") :]
    launched = activities.lazy().filter(pl.col("kind") == "kernel").select(SHAPE).unique(maintain_order=True).collect()
    results = occupancies(launched, device_facts(profile)).select(*SHAPE, *result_columns)
    return activities.join(
        results.with_columns(pl.lit("kernel").cast(activities.schema["kind"]).alias("kind")),
        on=[*SHAPE, "kind"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )


def occupancy(profile: Profile) -> pl.DataFrame:
    """Return the occupancy of every launch configuration of every kernel, most GPU time first.

    One row per session, device, name and columns of `SHAPE`, with grid, block, calls, total_ns and `RESULTS`.
    """
    sums = [pl.len().cast(pl.Int64).alias("calls"), total().alias("total_ns")]
    configs = group_rows(profile["activities"], ("kind", "name", *SHAPE), sums).filter(pl.col("kind") == "kernel")
    rows = occupancies(with_shapes(configs.drop("kind")), device_facts(profile))
    return rows.sort("total_ns", "name", "grid", descending=[True, False, False], nulls_last=True)


REGISTER_STEP: Final = REGISTER_UNIT // WARP
"""The allocation unit of registers per thread."""


@dataclass(frozen=True, slots=True)
class OccupancyAdvice:
    """A change of a launch configuration and the theoretical occupancy that it would give; None: stays as it is."""

    occupancy_pct: float
    blocks_per_sm: int
    registers: int | None = None
    """Per thread, at most."""
    shared_bytes: int | None = None
    """Per block, at most, static and dynamic together."""
    threads_per_block: int | None = None
    """Exactly, with registers per thread and shared memory per block as they are."""


def occupancy_advice(
    compute_capability: str, threads_per_block: int, registers: int, shared_bytes: int
) -> tuple[OccupancyAdvice, ...]:
    """Return changes that would raise the theoretical occupancy of a launch configuration, if any.

    First the changes for one more block per SM with blocks of the same size, and for the maximum number of blocks (if
    that is another step); then the block size with the highest occupancy for unchanged registers and shared memory, the
    nearest one if there are several.

    Args:
        compute_capability: As ``8.0``; an unknown one gives no advice.
        threads_per_block: At least 1.
        registers: Per thread.
        shared_bytes: Per block, static and dynamic together.
    """
    current = _occupancy_rows(compute_capability, [(threads_per_block, registers, shared_bytes)])
    current_pct, blocks = current["occupancy_pct"][0], current["blocks_per_sm"][0]
    if current_pct is None:
        return ()
    max_blocks = min(current["limit_warps"][0], current["limit_blocks"][0])
    targets = [target for target in dict.fromkeys((blocks + 1, max_blocks)) if blocks < target <= max_blocks]
    steps = [_step(compute_capability, threads_per_block, registers, shared_bytes, target) for target in targets]
    sizes = [size for size in range(WARP, MAX_THREADS_PER_BLOCK + 1, WARP) if size != threads_per_block]
    others = _occupancy_rows(compute_capability, [(size, registers, shared_bytes) for size in sizes]).drop_nulls(
        "occupancy_pct"
    )
    advice = [step for step in steps if step is not None]
    best = others.filter(pl.col("occupancy_pct") == pl.col("occupancy_pct").max())
    if best.height and best["occupancy_pct"][0] > current_pct:
        nearest = best.sort((pl.col("threads_per_block") - threads_per_block).abs(), "threads_per_block").row(
            0, named=True
        )
        advice.append(
            OccupancyAdvice(
                nearest["occupancy_pct"],
                nearest["blocks_per_sm"],
                threads_per_block=nearest["threads_per_block"],
            )
        )
    return tuple(advice)


def advice_for(config: LaunchConfig) -> tuple[OccupancyAdvice, ...]:
    """Return `occupancy_advice` for a launch; empty if its occupancy is unknown."""
    shared = config.shared_bytes
    if shared is None and config.static_shared_bytes is not None and config.dynamic_shared_bytes is not None:
        shared = config.static_shared_bytes + config.dynamic_shared_bytes
    if config.occupancy_pct is None or config.compute_capability is None:
        return ()
    if config.threads_per_block is None or config.registers is None or shared is None:
        return ()
    return occupancy_advice(config.compute_capability, config.threads_per_block, config.registers, shared)


def _step(capability: str, threads: int, registers: int, shared: int, target: int) -> OccupancyAdvice | None:
    """Return the change that fits ``target`` blocks on an SM; None if neither registers nor shared memory can."""
    # At least 1: fewer registers than one allocation unit is no advice.
    fewer = [registers, *range(registers // REGISTER_STEP * REGISTER_STEP, 0, -REGISTER_STEP)]
    by_registers = _occupancy_rows(capability, [(threads, count, 0) for count in fewer]).filter(
        pl.col("blocks_per_sm") >= target
    )
    if registers and by_registers.is_empty():
        return None
    # Sorted by registers, descending.
    max_registers = int(by_registers["registers"][0]) if registers else 0
    max_shared = _max_shared_bytes(capability, target, shared)
    if max_shared is None:
        return None
    row = _occupancy_rows(capability, [(threads, max_registers, max_shared)]).row(0, named=True)
    if row["occupancy_pct"] is None:
        return None
    return OccupancyAdvice(
        row["occupancy_pct"],
        row["blocks_per_sm"],
        registers=max_registers if max_registers < registers else None,
        shared_bytes=max_shared if max_shared < shared else None,
    )


def _max_shared_bytes(capability: str, target: int, shared: int) -> int | None:
    """Return the largest shared memory of a block, at most ``shared``, that fits ``target`` blocks; else None."""
    limits = capabilities().filter(pl.col("compute_capability") == capability).row(0, named=True)
    block_bytes = limits["shared_kb"] * 1024 // target // limits["shared_unit"] * limits["shared_unit"]
    usable = int(block_bytes) - int(limits["shared_reserved"])
    return min(shared, usable) if usable >= 0 else None


def _occupancy_rows(capability: str, configs: list[tuple[int, int, int]]) -> pl.DataFrame:
    """Return `tui.analysis.occupancy.occupancies` of threads, registers and shared memory."""
    configs_frame = pl.DataFrame(
        {
            "block_x": pl.Series([threads for threads, _, _ in configs], dtype=pl.Int32),
            "registers": pl.Series([registers for _, registers, _ in configs], dtype=pl.Int32),
            "shared_bytes": pl.Series([shared for _, _, shared in configs], dtype=pl.Int64),
        }
    )
    ones = {name: pl.lit(1, pl.Int32) for name in ("grid_x", "grid_y", "grid_z", "block_y", "block_z")}
    unknown_columns = {name: pl.lit(None, pl.Int64) for name in ("static_shared_bytes", "dynamic_shared_bytes")}
    shape = configs_frame.with_columns(
        session=pl.lit(0, pl.UInt32), device=pl.lit(0, pl.Int32), **ones, **unknown_columns
    ).select(SHAPE)
    facts = pl.DataFrame(
        {"session": [0], "device": [0], "compute_capability": [capability], "sm_count": [1], "vendor": [None]},
        schema={
            "session": pl.UInt32,
            "device": pl.Int32,
            "compute_capability": pl.String,
            "sm_count": pl.Int32,
            "vendor": pl.String,
        },
    )
    return occupancies(shape, facts)
