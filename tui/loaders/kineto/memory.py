"""What PyTorch's allocator did: the ``[memory]`` events of a trace recorded with ``profile_memory=True``."""

from __future__ import annotations

from typing import Final

import polars as pl

from tui.loaders.kineto.categories import matching
from tui.loaders.possible_times import LONGEST_NS
from tui.model.schema import NAME

EVENT: Final = r"^\[memory\]$"
"""The name of such an event."""

OUT_OF_MEMORY: Final = r"^\[OutOfMemory\]$"
"""The name of one that tells of an allocation for which there was no room."""

CPU: Final = 0
"""The number of the CPU among PyTorch's types of devices; memory of all others is of GPUs."""


def is_far(begin_ns: int) -> pl.Expr:
    """Whether an event lies more than a week from where the recording begins: its time is broken."""
    return ~(pl.col("start_ns") - begin_ns).is_between(-LONGEST_NS, LONGEST_NS)


def memory_events(instants: pl.DataFrame, begin_ns: int) -> pl.DataFrame:
    """The allocations and releases of a trace, by time: columns of ``memory_events``.

    An event that does not say how much was allocated or released is left out, and so is one far from all ops and calls.

    Args:
        instants: `tui.loaders.chrome.trace.Trace.instants`.
        begin_ns: What 0 of the start times is in those of the trace.
    """
    is_cpu = pl.col("device_type") == CPU
    return (
        instants.filter(matching(instants["name"], EVENT), ~is_far(begin_ns))
        .drop_nulls("bytes")
        .select(
            pl.when(is_cpu)
            .then(pl.lit("CPU"))
            .when(is_cpu.is_not_null())
            .then(pl.lit("GPU"))
            .cast(NAME)
            .alias("place"),
            pl.when(~is_cpu & (pl.col("device_id") >= 0))
            .then("device_id")
            .cast(pl.Int32, strict=False)
            .alias("device"),
            pl.col("start_ns") - begin_ns,
            pl.col("bytes").alias("delta_bytes"),
            # The first versions that wrote them know no totals.
            *(
                pl.when(pl.col(column) >= 0).then(column).alias(name)
                for column, name in (("total_allocated", "allocated_bytes"), ("total_reserved", "reserved_bytes"))
            ),
            "address",
            "line",
        )
        .sort("start_ns", maintain_order=True)
    )
