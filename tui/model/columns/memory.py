"""Columns of copies and allocations."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


MEMORY: Final = (
    Column(
        "achieved",
        "Achieved",
        K.RATE,
        "Size / duration of those of which both are known; those of copies that were too fast are left out.",
        3,
    ),
    Column(
        "ceiling", "Ceiling", K.RATE, "The most that the hardware can do; a copy within the GPU reads and writes.", 5
    ),
    Column("ceiling_pct", "Of ceiling", K.PERCENT, "Achieved rate as a share of the ceiling.", 5),
    Column(
        "impossible",
        "Too fast",
        K.COUNT,
        "Of those of known size and duration, how many were faster than the GPU's memory (by over 5 %): "
        "they are wrong.",
        7,
    ),
    Column("size_class", "Size", K.TEXT, "Bytes of one copy or set.", 1),
    Column("rate", "Rate", K.RATE, "Size divided by duration; in other views as the input says, where it does.", 4),
    Column(
        "is_impossible",
        "Too fast",
        K.FLAG,
        "Faster than the GPU's memory by over 5 %: left out of rates; unknown without size, duration or that limit.",
        5,
    ),
    Column("place", "Of", K.TEXT, "GPU or CPU, whose memory it is.", 2),
    Column("events", "Events", K.COUNT, "Allocations and releases.", 4),
    Column("peak_bytes", "Peak", K.SIZE, "The most that was allocated at once, after any of the events.", 1),
    Column("peak_at_ns", "Peak at", K.TIME, "When the peak was reached first, on the CPU's clock.", 3),
    Column("peak_iteration", "Peak in", K.NUMBER, "Iteration in which the peak was reached first.", 3),
    Column("reserved_peak_bytes", "Reserved", K.SIZE, "The most that the allocator held of the device at once.", 3),
    Column("first_bytes", "At first", K.SIZE, "Allocated before the first event.", 5),
    Column("last_bytes", "At last", K.SIZE, "Allocated after the last event.", 4),
    Column("growth_bytes", "Growth", K.SIZE, "Allocated at last less at first.", 4),
    Column("gained_bytes", "Allocated", K.SIZE, "Sum of all allocations in it.", 5),
    Column("delta_bytes", "Change", K.SIZE, "Bytes allocated, or released where negative.", 1),
    Column("allocated_bytes", "Allocated", K.SIZE, "Allocated in all after it.", 2),
    Column("reserved_bytes", "Reserved", K.SIZE, "What the allocator held of the device then.", 4),
    Column("address", "Address", K.NUMBER, "Where the block lies.", 7),
)
