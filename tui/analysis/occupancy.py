"""Theoretical occupancy: how many warps of a launch configuration an SM can hold at once, and what limits it.

The formulas are those of NVIDIA's occupancy calculator (``cuda_occupancy.h``), at the largest setting of shared memory,
since the driver's choice is not in any profile: what they give is an upper bound.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.devices import device_facts
from tui.analysis.durations import total
from tui.analysis.shapes import with_shapes

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
        facts: `tui.analysis.devices.device_facts` of the same profile.

    Returns:
        The same rows, in order, with `RESULTS`: ``limit_*`` are the blocks that each resource would allow (null: it
        does not limit), ``limiter`` names the scarcest (several, where they are equally scarce), ``occupancy_pct`` is
        of the warps that an SM holds, ``waves`` needs the number of SMs. Where the occupancy cannot be told it is null
        and ``occupancy_reason`` says why.
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
    return (
        configs.join(known.rename({"registers": "registers_of_sm"}), on=["session", "device"], how="left",
                     nulls_equal=True, maintain_order="left")
        .with_columns((c("block_x").cast(whole) * c("block_y") * c("block_z")).alias("threads_per_block"))
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
            (
                c("grid_x").cast(whole) * c("grid_y") * c("grid_z") / (c("blocks_per_sm") * c("sm_count"))
            ).alias("waves"),
        )
        .select(*configs.columns, *RESULTS)
    )  # fmt: skip


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
        .when(c("threads_per_block").is_null() | (c("threads_per_block") <= 0))
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
    """Add ``blocks_per_sm``, ``limiter``, ``occupancy_pct``, ``waves`` and ``occupancy_reason`` to activities.

    Each distinct configuration is worked out once. Rows that are no kernels get nulls.
    """
    wanted = ("blocks_per_sm", "limiter", "occupancy_pct", "waves", "occupancy_reason")
    launched = activities.filter(pl.col("kind") == "kernel").select(SHAPE).unique()
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
    configs = (
        profile["activities"]
        .lazy()
        .filter(pl.col("kind") == "kernel")
        .group_by("name", *SHAPE)
        .agg(pl.len().cast(pl.Int64).alias("calls"), total().alias("total_ns"))
        .collect()
    )
    rows = occupancies(with_shapes(configs), device_facts(profile, gpu=gpu))
    return rows.sort("total_ns", "name", "grid", descending=[True, False, False], nulls_last=True)


_AS_RECORDED: Final = (
    "session",
    "activity",
    "kind",
    "name",
    "start_ns",
    "duration_ns",
    "registers",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "shared_bytes",
    "size_bytes",
    "throughput",
    "copy_kind",
    "src_memory",
    "dst_memory",
    "device",
    "context",
    "stream",
    "correlation",
    "line",
    "occupancy_pct",
    "blocks_per_sm",
    "limiter",
    "waves",
)


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """One GPU activity with all that is known of it; None where the input does not say.

    What has no note of its own is the column of that name in the frame ``activities`` (`tui.model.schema`) or of
    `tui.analysis.devices.device_facts`.
    """

    session: int
    activity: int
    kind: str
    name: str
    start_ns: int | None
    duration_ns: int | None
    grid: tuple[int, int, int] | None
    """Blocks in x, y and z."""
    block: tuple[int, int, int] | None
    """Threads in x, y and z."""
    blocks: int | None
    """In the grid."""
    threads_per_block: int | None
    """Product of ``block``."""
    threads: int | None
    """Of the whole launch."""
    registers: int | None
    """Per thread."""
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    shared_bytes: int | None
    """Both together, where the input does not tell them apart."""
    size_bytes: int | None
    throughput: float | None
    """Bytes per second, as the input has it."""
    copy_kind: str | None
    src_memory: str | None
    dst_memory: str | None
    device: int | None
    device_name: str | None
    compute_capability: str | None
    sm_count: int | None
    facts_source: str
    """Where the compute capability is from: file, option, table, unknown."""
    context: int | None
    stream: int | None
    correlation: int | None
    occupancy_pct: float | None
    """Theoretical, an upper bound."""
    blocks_per_sm: int | None
    """Blocks resident on an SM at once, at most."""
    limits: tuple[tuple[str, int | None], ...]
    """For each of `LIMITS` the blocks that it allows on an SM; None where it does not limit or is not known."""
    limiter: str | None
    """What limits the occupancy: one or several of `LIMITS`, joined by ``and``."""
    waves: float | None
    """Blocks of the grid / (blocks per SM x SMs)."""
    occupancy_reason: str | None
    """Why the occupancy is not known."""
    line: int | None
    """First source line."""


def launch_config(profile: Profile, activity: int, *, gpu: str | None = None) -> LaunchConfig:
    """All that is known of one GPU activity.

    Args:
        profile: Where it is.
        activity: Its number, the column ``activity``.
        gpu: The name of the GPU, as the user gives it, where the input does not say enough.

    Raises:
        KeyError: There is no such activity.
    """
    rows = profile["activities"].filter(pl.col("activity") == activity)
    if rows.is_empty():
        raise KeyError(f"there is no activity {activity}")
    facts = device_facts(profile, gpu=gpu)
    row = occupancies(rows, facts).row(0, named=True)
    device = facts.filter(
        pl.col("session") == row["session"], pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32))
    ).row(0, named=True)
    grid, block = (_shape(row[f"{shape}_{axis}"] for axis in "xyz") for shape in ("grid", "block"))
    blocks = grid[0] * grid[1] * grid[2] if grid else None
    per_block = block[0] * block[1] * block[2] if block else None
    kernel = row["kind"] == "kernel"
    return LaunchConfig(
        **{column: row[column] for column in _AS_RECORDED},
        grid=grid,
        block=block,
        blocks=blocks,
        threads_per_block=per_block,
        threads=blocks * per_block if blocks is not None and per_block is not None else None,
        device_name=device["name"],
        compute_capability=device["compute_capability"],
        sm_count=device["sm_count"],
        facts_source=device["facts_source"],
        limits=tuple((name, row[f"limit_{name.split(' ')[0]}"]) for name in LIMITS),
        occupancy_reason=row["occupancy_reason"] if kernel else _NO_KERNEL.get(row["kind"], _NO_SM),
    )


_NO_SM: Final = "this work occupies no SM"
_NO_KERNEL: Final = {
    "memcpy": "a memcpy occupies no SM",
    "memset": "a memset occupies no SM",
    "graph": "the input records the graph as a whole: nsys profile --cuda-graph-trace=node records its kernels",
}
"""Why what is no kernel has no occupancy."""


def _shape(axes: Iterable[int | None]) -> tuple[int, int, int] | None:
    x, y, z = axes
    return None if x is None or y is None or z is None else (x, y, z)
