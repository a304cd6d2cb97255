"""Traces of AMD GPUs: facts that stand on the launching call, and agent numbers in place of device numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

GRID: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_IN_THREADS: Final = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
"""The HIP launches whose grid counts threads, not blocks."""
_LARGEST_SIZE: Final = (1 << 31) - 1
"""What a grid of blocks can have along one axis."""


def launch_sizes() -> list[pl.Expr]:
    """Grids and blocks of which all three numbers can be true; else none of them."""
    return [
        pl.when(pl.all_horizontal(pl.col(axis).is_between(1, _LARGEST_SIZE) for axis in axes)).then(name).alias(name)
        for axes in (GRID[:3], GRID[3:])
        for name in axes
    ]


def with_facts_of_launches(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Fill grid, block, dynamic shared memory and size from the HIP call, where AMD's older traces have them.

    Newer traces repeat grid and block on the kernel as they stand on the call, so that those count threads, too.
    """
    axes = [pl.col(name) for name in GRID]
    launches = (
        calls.filter(pl.col("correlation") >= 1)
        .sort("start_ns", maintain_order=True)
        .unique("correlation", keep="first", maintain_order=True)
        .with_columns(launch_sizes())
        .select(
            "correlation",
            *(pl.col(name).alias(f"launch_{name}") for name in GRID),
            pl.col("name").cast(pl.String).is_in(_IN_THREADS).alias("is_in_threads"),
            # A launch asks for dynamic shared memory; what the kernel has by itself is not told.
            pl.when(pl.col("shared_bytes") >= 0).then("shared_bytes").alias("dynamic_shared_bytes"),
            pl.when(pl.col("bytes") >= 0).then("bytes").alias("launch_bytes"),
        )
    )
    is_kernel = pl.col("kind") == "kernel"
    # One launch of a graph runs many kernels: its own grid would be none of theirs.
    is_single = pl.col("correlation").is_first_distinct() & pl.col("correlation").is_last_distinct()
    is_told = is_kernel & is_single & pl.all_horizontal(axis.is_null() for axis in axes)
    work = work.join(launches, on="correlation", how="left", maintain_order="left").with_columns(
        pl.when(is_told).then(f"launch_{name}").otherwise(name).alias(name) for name in GRID
    )
    return work.with_columns(
        *(
            pl.when(is_kernel & is_single & pl.col("is_in_threads"))
            .then((pl.col(f"grid_{axis}") + pl.col(f"block_{axis}") - 1) // pl.col(f"block_{axis}"))
            .otherwise(f"grid_{axis}")
            .alias(f"grid_{axis}")
            for axis in "xyz"
        ),
        pl.when(is_kernel & is_single & pl.col("shared_bytes").is_null())
        .then("dynamic_shared_bytes")
        .alias("dynamic_shared_bytes"),
        pl.when(~is_kernel).then(pl.coalesce("bytes", "launch_bytes")).otherwise("bytes").alias("bytes"),
    )


def device_numbers(work: pl.DataFrame, calls: pl.DataFrame, listed: Sequence[int]) -> dict[int, int]:
    """The number in ``deviceProperties`` of each device that work ran on, where the two differ.

    Agents of the machine are numbered with processors among them: GPU 0 may be agent 2. Grids on the launches tell that
    these are agents; they are then taken in their order.

    Args:
        work: The GPU work, with ``device``.
        calls: The API calls.
        listed: The numbers in ``deviceProperties``.
    """
    used = sorted(work["device"].unique().drop_nulls().to_list())
    is_agent = calls["grid_x"].count() > 0 or not set(used) <= set(listed)
    if not is_agent or len(used) > len(listed):
        return {}
    numbers = dict(zip(used, sorted(listed), strict=False))
    return {} if all(agent == number for agent, number in numbers.items()) else numbers
