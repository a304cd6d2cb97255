"""How long a GPU was busy: the union of the intervals of its activities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Union:
    """Stretches of time that do not touch, in order: when at least one of many intervals was on."""

    starts: Ints
    ends: Ints
    before: Ints
    """How long all stretches before each one are together."""

    def until(self, moments: Ints) -> Ints:
        """How much of the time up to each moment the stretches cover.

        >>> union_of(np.array([0, 5, 30]), np.array([10, 20, 40])).until(np.array([-3, 7, 25, 35, 99])).tolist()
        [0, 7, 20, 25, 30]
        """
        if not len(self.starts):
            return np.zeros(len(moments), np.int64)
        at = np.searchsorted(self.starts, moments, side="right") - 1
        here = np.maximum(at, 0)
        covered: Ints = self.before[here] + np.clip(np.minimum(moments, self.ends[here]) - self.starts[here], 0, None)
        return covered


def union_of(starts: Ints, ends: Ints) -> Union:
    """The union of intervals, which are given by start."""
    if not len(starts):
        return Union(starts, ends, starts)
    reached = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.concatenate(([True], starts[1:] > reached[:-1])))
    union_starts, union_ends = starts[first], reached[np.append(first[1:] - 1, len(ends) - 1)]
    lengths = union_ends - union_starts
    return Union(union_starts, union_ends, np.cumsum(lengths) - lengths)


def busy_time(profile: Profile) -> pl.DataFrame:
    """Busy and idle time of each GPU of each session, from the activities whose start and duration are known.

    Columns: session, device, activities (how many were counted), first_ns (first start on this device), last_ns (last
    end), span_ns (first start to last end on any device of the session), busy_ns (union of the intervals of kernels,
    copies, memsets, unified memory work and whole CUDA graphs), idle_ns (span - busy), busy_pct.

    Start times are rounded to ``sessions.start_resolution_ns``: an overlap no longer than that may be none, and is
    counted as none. ``busy_ns`` is at most the span.
    """
    timed = (
        profile["activities"]
        .select("session", "device", "start_ns", "duration_ns")
        .drop_nulls(["start_ns", "duration_ns"])
        .sort("session", "device", "start_ns", maintain_order=True)
        .join(profile["sessions"].select("session", "start_resolution_ns"), on="session", how="left",
              maintain_order="left")
    )  # fmt: skip
    gpu = ("session", "device")
    end = pl.col("start_ns") + pl.col("duration_ns")
    before = pl.col("end_ns").cum_max().shift(1).over(gpu)
    overlap = (pl.col("before_ns") - pl.col("start_ns")).fill_null(0)
    apart = overlap <= pl.col("start_resolution_ns").fill_null(0)
    added = pl.when(apart).then("duration_ns").otherwise((pl.col("end_ns") - pl.col("before_ns")).clip(0))
    return (
        timed.with_columns(end.alias("end_ns"))
        .with_columns(before.alias("before_ns"))
        .group_by(gpu)
        .agg(
            pl.len().cast(pl.Int64).alias("activities"),
            pl.col("start_ns").min().alias("first_ns"),
            pl.col("end_ns").max().alias("last_ns"),
            added.sum().alias("busy_ns"),
        )
        .with_columns((pl.col("last_ns").max() - pl.col("first_ns").min()).over("session").alias("span_ns"))
        .with_columns(pl.min_horizontal("busy_ns", "span_ns").alias("busy_ns"))
        .select(
            *gpu,
            "activities",
            "first_ns",
            "last_ns",
            "span_ns",
            "busy_ns",
            (pl.col("span_ns") - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(pl.col("span_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("span_ns")).alias("busy_pct"),
        )
        .sort(gpu)
    )
