"""Columns of GPUs, of what they can hold, and of how full launches make them."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


HARDWARE: Final = (
    Column("compute_capability", "CC", K.TEXT, "Compute capability, as 3.5.", 3),
    Column("sm_count", "SMs", K.NUMBER, "Streaming multiprocessors.", 3),
    Column(
        "occupancy_pct",
        "Occ%",
        K.PERCENT,
        "Theoretical occupancy, an upper bound: resident warps of this launch configuration / warps that an SM holds.",
        4,
        ("occupancy",),
    ),
    Column(
        "limiter",
        "Limited by",
        K.TEXT,
        "What keeps more blocks from an SM: warps, blocks, registers, shared memory.",
        6,
    ),
    Column("waves", "Waves", K.RATIO, "Blocks of the grid / (blocks per SM x SMs).", 7),
    Column("gpu_name", "GPU", K.TEXT, "As the input names it.", 1),
    Column("memory_bytes", "Memory", K.SIZE, "Of the GPU.", 4),
    Column("memory_bandwidth", "Bandwidth", K.RATE, "Of the GPU's memory, at most.", 5),
    Column("max_threads_per_sm", "Threads/SM", K.COUNT, "Threads that an SM holds at most.", 8),
    Column("registers_per_sm", "Regs/SM", K.COUNT, "Registers of an SM.", 8),
    Column("shared_memory_per_sm_bytes", "Shared/SM", K.SIZE, "Shared memory of an SM.", 7),
    Column("facts_source", "Facts from", K.TEXT, "file, table (by the GPU's name), option (--gpu) or unknown.", 8),
    Column("vendor", "Vendor", K.TEXT, "Who made it, where it is not NVIDIA.", 7),
)
