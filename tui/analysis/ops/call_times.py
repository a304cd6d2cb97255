"""What each call of a recorded op spent itself: parts that add up, however deep ops lie within each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.durations import total, total_of_parts
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.instances import op_instances
from tui.analysis.ops.overheads import apart, filled
from tui.analysis.ops.work import op_row_of_activities
from tui.cache.parking import parked
from tui.model.forest import NONE

if TYPE_CHECKING:
    from tui.model.profile import Profile

TIMES = ("gpu_ns", "gpu_busy_ns", "cpu_own_ns", "cpu_overhead_ns", "gpu_idle_ns")
"""The times of a call."""


@once_per_profile("ops", "activities", "api_calls")
def own_times(profile: Profile) -> pl.DataFrame:
    """What each recorded op spent itself: one row per row of ``ops``, in its order.

    Columns: session, op, name, call, launches, untimed_launches (as in `op_instances`), and

    - ``gpu_ns``, summed durations of the GPU work that it launched itself; ``gpu_busy_ns``, the same with work that ran
      at once counted once (per GPU); ``gpu_idle_ns``, the time from the first begin to the last end of that work in
      which none of it ran. 0 where it launched nothing; null in sessions without GPU work, or without its times. Of
      work whose times are not known nothing is in the first two, which are null where there is no other work; the idle
      time is then null.
    - ``cpu_own_ns``, its CPU time without the ops that it called on its own thread; ``cpu_overhead_ns``, that without
      the CUDA calls that it made, null in sessions that record none.

    Of ops that lie in no other (as DLProf counts them) these are the CPU and GPU time, the overhead and the idle time.
    """
    instances, activities = op_instances(profile), profile["activities"]
    rows = op_row_of_activities(profile)
    timed = activities["start_ns"].is_not_null() & activities["duration_ns"].is_not_null()
    here = timed.to_numpy() & (rows != NONE)
    work = parked(
        activities.lazy()
        .select(
            pl.Series("op", rows),
            "device",
            pl.col("start_ns").alias("start"),
            (pl.col("start_ns") + pl.col("duration_ns")).alias("end"),
        )
        .filter(pl.Series(here))
        .collect()
    )
    busy, idle = np.zeros(instances.height, np.int64), np.zeros(instances.height, np.int64)
    per_gpu = pl.concat(
        [
            filled(part)
            .group_by("op", "device")
            .agg(
                (pl.col("end") - pl.col("start")).sum().alias("busy"), span=pl.col("end").max() - pl.col("start").min()
            )
            for part in apart(work)
        ]
    )
    at = per_gpu["op"].to_numpy()
    np.add.at(busy, at, per_gpu["busy"].to_numpy())
    np.add.at(idle, at, (per_gpu["span"] - per_gpu["busy"]).to_numpy())
    with_times = pl.col("session").is_in(activities["session"].filter(timed).unique().implode())
    untimed = np.bincount(rows[~timed.to_numpy() & (rows != NONE)], minlength=instances.height)
    nothing_known = (untimed > 0) & (untimed == instances["launches"].fill_null(0).to_numpy())
    return instances.select(
        "session",
        "op",
        "name",
        "call",
        "launches",
        "untimed_launches",
        pl.col("gpu_self_ns").alias("gpu_ns"),
        pl.when(with_times & ~pl.lit(pl.Series(nothing_known))).then(pl.lit(pl.Series(busy))).alias("gpu_busy_ns"),
        (pl.col("cpu_self_ns") + pl.col("api_ns").fill_null(0)).alias("cpu_own_ns"),
        pl.when(pl.col("api_ns").is_not_null()).then(pl.col("cpu_self_ns").clip(0)).alias("cpu_overhead_ns"),
        pl.when(with_times & pl.lit(pl.Series(untimed == 0))).then(pl.lit(pl.Series(idle))).alias("gpu_idle_ns"),
    )


def call_times(profile: Profile) -> pl.DataFrame:
    """The same with one row per call: an op that does nothing but call one of its name counts once with it."""
    own = own_times(profile)
    if (own["call"] == own["op"]).all():
        return own
    sums = own.group_by("call").agg(
        *(total(name).alias(name) for name in ("launches", "untimed_launches")),
        *(total_of_parts(name).alias(name) for name in TIMES),
    )
    return (
        own.filter(pl.col("call") == pl.col("op"))
        .select("session", "op", "name", "call")
        .join(sums, on="call", how="left", maintain_order="left")
    )
