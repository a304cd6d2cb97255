"""How long a GPU was busy: the union of the intervals of its activities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.holes import busy_sets
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "activities": pl.Int64,
        "first_ns": pl.Int64,
        "last_ns": pl.Int64,
        "busy_ns": pl.Int64,
    }
)


@once_per_profile("activities", "sessions")
def busy_time(profile: Profile) -> pl.DataFrame:
    """Busy and idle time of each GPU of each session, from the activities whose start and duration are known.

    Columns: session, device, activities (how many were counted), first_ns (first start on this device), last_ns (last
    end), span_ns (first start to last end on any device of the session), busy_ns (union of the intervals of kernels,
    copies, memsets, unified memory work and whole CUDA graphs), idle_ns (span - busy), busy_pct.

    Start times are rounded to ``sessions.start_resolution_ns``: an overlap shorter than that may be none, and is
    counted as none. ``busy_ns`` is at most the time from the first start to the last end on the device.
    """
    rows = [
        (
            line.session,
            line.device,
            len(line.starts),
            int(line.starts[0]),
            int(line.ends.max()),
            busy.length,
        )
        for line, busy in zip(timelines(profile), busy_sets(profile), strict=True)
    ]
    return (
        pl.DataFrame(rows, schema=_SCHEMA, orient="row")
        .with_columns((pl.col("last_ns").max() - pl.col("first_ns").min()).over("session").alias("span_ns"))
        .select(
            "session",
            "device",
            "activities",
            "first_ns",
            "last_ns",
            "span_ns",
            "busy_ns",
            (pl.col("span_ns") - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(pl.col("span_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("span_ns")).alias("busy_pct"),
        )
    )


def busy_parts(line: Timeline) -> tuple[Ints, Ints]:
    """What each activity adds to the time that its device was busy: from when to when.

    The parts are what `busy_time` sums up. They lie apart, but for overlaps shorter than the resolution.
    """
    before = np.concatenate((line.starts[:1], line.reached()[:-1]))
    apart = before - line.starts < line.resolution_ns
    starts = np.where(apart, line.starts, np.maximum(line.starts, before))
    return starts, np.maximum(line.ends, starts)
