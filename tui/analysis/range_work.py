"""The GPU work of ranges: what their own threads launched, and what other threads of the process launched meanwhile.

The two are never added up here. What a range's own thread launched between its start and its end was launched within
it. What other threads launched in that time is told by time alone: PyTorch's autograd thread launches the work of a
range ``backward`` that the main thread holds open, but a thread that loads data launches its copies then as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.launches.times import PROCESS, launched, launched_by_process, with_launched_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile

WORK: Final = ("range_gpu_ns", "range_kernels", "meanwhile_gpu_ns", "meanwhile_kernels")
"""The columns that are added to ranges."""


def with_work(ranges: pl.DataFrame, profile: Profile) -> pl.DataFrame:
    """Add `WORK` to single ranges: the GPU work that was launched between start and end.

    ``range_`` is what the range's own thread launched, ``meanwhile_`` what the other threads of its process did. Null
    where the thread or the times of the range are not known, and in sessions of which no launch is.
    """
    own = with_launched_within(ranges, launched(profile)).rename({"gpu_ns": WORK[0], "kernels": WORK[1]})
    return (
        with_launched_within(own, launched_by_process(profile), of=PROCESS)
        .with_columns(
            (pl.col("gpu_ns") - pl.col(WORK[0])).alias(WORK[2]), (pl.col("kernels") - pl.col(WORK[1])).alias(WORK[3])
        )
        .drop("gpu_ns", "kernels")
    )


def work_while_open(ranges: pl.DataFrame, by: Sequence[str], profile: Profile) -> pl.DataFrame:
    """`WORK` of groups of ranges, each launch once however the ranges of a group lie within and beside each other.

    ``range_`` is what was launched while a range of the group was open on the launching thread, ``meanwhile_`` what was
    launched while one was open on another thread of the process and none on the launching one. Null as in `with_work`.

    Args:
        ranges: Columns of the model.
        by: The columns that make a group; ``session`` is among them.
        profile: Where the launches are.
    """
    timed = ranges.filter(pl.all_horizontal(pl.col("start_ns", "duration_ns", "pid", "tid").is_not_null()))
    own = with_launched_within(_stretches(timed, [*by, "pid", "tid"]), launched(profile))
    whole = with_launched_within(_stretches(timed, [*by, "pid"]), launched_by_process(profile), of=PROCESS)
    return (
        own.group_by(by)
        .agg(total("gpu_ns").alias(WORK[0]), total("kernels").alias(WORK[1]))
        .join(
            whole.group_by(by).agg(total("gpu_ns").alias(WORK[2]), total("kernels").alias(WORK[3])),
            on=by,
            nulls_equal=True,
        )
        .with_columns(pl.col(WORK[2]) - pl.col(WORK[0]), pl.col(WORK[3]) - pl.col(WORK[1]))
    )


def _stretches(ranges: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The times in which a range of a group is open: stretches that do not overlap, as start_ns and duration_ns."""
    return (
        ranges.select(*by, "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .sort("start_ns")
        .with_columns(pl.col("end_ns").cum_max().over(by).alias("reached"))
        .with_columns(
            (pl.col("start_ns") > pl.col("reached").shift(1).over(by))
            .fill_null(True)
            .cum_sum()
            .over(by)
            .alias("stretch")
        )
        .group_by(*by, "stretch")
        .agg(pl.col("start_ns").min(), (pl.col("end_ns").max() - pl.col("start_ns").min()).alias("duration_ns"))
    )
