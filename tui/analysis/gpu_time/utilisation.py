"""How much of the wall time each GPU had work, as DLProf tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.gpu_time.breakdown import wall_bounds
from tui.analysis.gpu_time.intervals import busy_time

if TYPE_CHECKING:
    from tui.model.profile import Profile


def utilisation(profile: Profile) -> pl.DataFrame:
    """`busy_time` with the wall time of the session in place of the span of its GPU work.

    Columns: session, device, span_ns, busy_ns, wall_ns (`wall_bounds`: of ops, iterations and GPU work, else of API
    calls and GPU work; never shorter than the span), idle_ns (wall - busy), busy_pct (busy / wall). The mean of
    ``busy_pct`` over the GPUs is DLProf's GPU utilisation.
    """
    bounds = wall_bounds(profile)
    walls = pl.DataFrame(
        [(session, last - first) for session, (first, last) in bounds.items()],
        schema={"session": pl.UInt32, "wall_ns": pl.Int64},
        orient="row",
    )
    wall = pl.col("wall_ns")
    return (
        busy_time(profile)
        .join(walls, on="session", how="left", maintain_order="left")
        .select(
            "session",
            "device",
            "span_ns",
            "busy_ns",
            "wall_ns",
            (wall - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(wall > 0).then(100 * pl.col("busy_ns") / wall).alias("busy_pct"),
        )
    )
