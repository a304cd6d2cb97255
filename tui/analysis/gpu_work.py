"""Single GPU work of any sort with its name: what stands below streams, copies, API calls, ranges and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.cache.parking import rows_where
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile

GPU_WORK: Final = TableSpec(
    "gpu_work",
    "GPU work",
    columns(
        "name",
        "start_ns",
        "duration_ns",
        "stream",
        "kind",
        "size_bytes",
        "throughput",
        "copy_kind",
        "src_memory",
        "dst_memory",
        "iteration",
        "device",
        "correlation",
        "session",
        "line",
        "activity",
    ),
    key=("session", "activity"),
    weight="duration_ns",
)


def gpu_work(profile: Profile, *which: pl.Expr) -> pl.DataFrame:
    """The activities that some conditions hold for, in time order: the frame's own columns.

    Args:
        profile: Where to look.
        which: Conditions on the frame ``activities``; none: no rows.
    """
    if not which:
        return profile["activities"].clear()
    return rows_where(profile["activities"], *which)


def work_of_calls(profile: Profile, *, session: int, correlations: Sequence[int]) -> pl.DataFrame:
    """The activities that API calls of a session launched, by the numbers that link them."""
    numbers = pl.Series(correlations, dtype=pl.Int64)
    return gpu_work(profile, pl.col("session") == session, pl.col("correlation").is_in(numbers.implode()))
