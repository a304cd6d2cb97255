"""Launch configuration of a GPU activity and everything known of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.activities import activity_rows
from tui.analysis.inputs.devices import device_facts
from tui.analysis.occupancy import LIMITS, occupancies

if TYPE_CHECKING:
    from tui.model.profile import Profile


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
    "full_waves",
    "tail_pct",
    "achieved_pct",
    "sm_efficiency_pct",
)


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """One GPU activity with all that is known of it; None where it is not recorded.

    What has no note of its own is the column of that name in the frame ``activities`` (`tui.model.schema`) or of
    `tui.analysis.inputs.devices.device_facts`.
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
    """Both together, where the input does not distinguish them."""
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
    full_waves: int | None
    """How many of them are whole."""
    tail_pct: float | None
    """Share of the time that a last, partial wave takes; 0 where there is none after whole ones."""
    achieved_pct: float | None
    """Kineto's estimate of the achieved occupancy."""
    sm_efficiency_pct: float | None
    """Share of the SMs that get a block."""
    occupancy_reason: str | None
    """Why the occupancy is not known."""
    line: int | None
    """First source line."""


def launch_config(profile: Profile, activity: int, *, gpu: str | None = None) -> LaunchConfig:
    """All that is known of one GPU activity.

    Args:
        profile: Where it is.
        activity: Its number, the column ``activity``.
        gpu: The name of the GPU, as the user gives it, where the input does not record it.

    Raises:
        KeyError: There is no such activity.
    """
    rows = activity_rows(profile, activity)
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


_NO_SM: Final = "not applicable: this work occupies no SM"
_NO_KERNEL: Final = {
    "memcpy": "not applicable: a memcpy occupies no SM",
    "memset": "not applicable: a memset occupies no SM",
    "graph": "CUDA graph recorded as a whole: record its kernels with nsys profile --cuda-graph-trace=node",
}
"""Why what is no kernel has no occupancy."""


def _shape(axes: Iterable[int | None]) -> tuple[int, int, int] | None:
    x, y, z = axes
    return None if x is None or y is None or z is None else (x, y, z)
