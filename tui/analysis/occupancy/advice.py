"""What would let more warps of a kernel stay on an SM: fewer registers, less shared memory, another block size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.occupancy.theoretical import (
    MAX_THREADS_PER_BLOCK,
    REGISTER_UNIT,
    SHAPE,
    WARP,
    capabilities,
    occupancies,
)

if TYPE_CHECKING:
    from tui.analysis.launches.config import LaunchConfig

REGISTER_STEP: Final = REGISTER_UNIT // WARP
"""Registers per thread are given out in so many."""


@dataclass(frozen=True, slots=True)
class Advice:
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
) -> tuple[Advice, ...]:
    """What would raise the theoretical occupancy of a launch configuration; empty where nothing would.

    First what it takes to hold one more block on an SM with blocks of the same size (the next step), and what it takes
    to hold as many as the SM has warps and places for (where that is another step); then the block size that gives most
    with registers and shared memory as they are, the nearest one where several do.

    Args:
        compute_capability: As ``8.0``; one of which nothing is known gives no advice.
        threads_per_block: At least 1.
        registers: Per thread.
        shared_bytes: Per block, static and dynamic together.
    """
    here = _rows(compute_capability, [(threads_per_block, registers, shared_bytes)])
    now, blocks = here["occupancy_pct"][0], here["blocks_per_sm"][0]
    if now is None:
        return ()
    most = min(here["limit_warps"][0], here["limit_blocks"][0])
    targets = [target for target in dict.fromkeys((blocks + 1, most)) if blocks < target <= most]
    steps = [_step(compute_capability, threads_per_block, registers, shared_bytes, target) for target in targets]
    sizes = [size for size in range(WARP, MAX_THREADS_PER_BLOCK + 1, WARP) if size != threads_per_block]
    others = _rows(compute_capability, [(size, registers, shared_bytes) for size in sizes]).drop_nulls("occupancy_pct")
    found = [step for step in steps if step is not None]
    best = others.filter(pl.col("occupancy_pct") == pl.col("occupancy_pct").max())
    if best.height and best["occupancy_pct"][0] > now:
        nearest = best.sort((pl.col("threads_per_block") - threads_per_block).abs(), "threads_per_block").row(
            0, named=True
        )
        found.append(
            Advice(
                nearest["occupancy_pct"],
                nearest["blocks_per_sm"],
                threads_per_block=nearest["threads_per_block"],
            )
        )
    return tuple(found)


def advice_for(config: LaunchConfig) -> tuple[Advice, ...]:
    """`occupancy_advice` for a launch; empty where its occupancy is not known."""
    shared = config.shared_bytes
    if shared is None and config.static_shared_bytes is not None and config.dynamic_shared_bytes is not None:
        shared = config.static_shared_bytes + config.dynamic_shared_bytes
    if config.occupancy_pct is None or config.compute_capability is None:
        return ()
    if config.threads_per_block is None or config.registers is None or shared is None:
        return ()
    return occupancy_advice(config.compute_capability, config.threads_per_block, config.registers, shared)


def _step(capability: str, threads: int, registers: int, shared: int, target: int) -> Advice | None:
    """What holds so many blocks on an SM; None where no registers or shared memory would."""
    # Never below 1: what needs less than a lot of registers is no advice.
    fewer = [registers, *range(registers // REGISTER_STEP * REGISTER_STEP, 0, -REGISTER_STEP)]
    by_registers = _rows(capability, [(threads, count, 0) for count in fewer]).filter(pl.col("blocks_per_sm") >= target)
    if registers and by_registers.is_empty():
        return None
    # They are in order, most registers first.
    wanted = int(by_registers["registers"][0]) if registers else 0
    less = _most_shared(capability, target, shared)
    if less is None:
        return None
    row = _rows(capability, [(threads, wanted, less)]).row(0, named=True)
    if row["occupancy_pct"] is None:
        return None
    return Advice(
        row["occupancy_pct"],
        row["blocks_per_sm"],
        registers=wanted if wanted < registers else None,
        shared_bytes=less if less < shared else None,
    )


def _most_shared(capability: str, target: int, shared: int) -> int | None:
    """The most shared memory of a block, at most what it has, with which an SM holds so many; None where none does."""
    limits = capabilities().filter(pl.col("compute_capability") == capability).row(0, named=True)
    each = limits["shared_kb"] * 1024 // target // limits["shared_unit"] * limits["shared_unit"]
    left = int(each) - int(limits["shared_reserved"])
    return min(shared, left) if left >= 0 else None


def _rows(capability: str, configs: list[tuple[int, int, int]]) -> pl.DataFrame:
    """`tui.analysis.occupancy.theoretical.occupancies` of threads, registers and shared memory."""
    given = pl.DataFrame(
        {
            "block_x": pl.Series([threads for threads, _, _ in configs], dtype=pl.Int32),
            "registers": pl.Series([registers for _, registers, _ in configs], dtype=pl.Int32),
            "shared_bytes": pl.Series([shared for _, _, shared in configs], dtype=pl.Int64),
        }
    )
    ones = {name: pl.lit(1, pl.Int32) for name in ("grid_x", "grid_y", "grid_z", "block_y", "block_z")}
    none = {name: pl.lit(None, pl.Int64) for name in ("static_shared_bytes", "dynamic_shared_bytes")}
    shape = given.with_columns(session=pl.lit(0, pl.UInt32), device=pl.lit(0, pl.Int32), **ones, **none).select(SHAPE)
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
