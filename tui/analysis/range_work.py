"""GPU work of ranges: launched by the same thread, or by other threads of the process meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import total
from tui.analysis.grouping import partition_by_session
from tui.analysis.memo import once_per_profile
from tui.cache.spill import spill_to_disk
from tui.correlation.launches import with_launch
from tui.model.profile import rows_of_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


THREAD: Final = ("session", "pid", "tid")
"""Columns that distinguish threads."""
PROCESS: Final = ("session", "pid")
"""Columns that distinguish processes."""

_LAUNCHED_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "pid": pl.Int64,
        "tid": pl.Int64,
        "launch_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "is_kernel": pl.Boolean,
    }
)


@once_per_profile("activities", "api_calls")
def launched_work(profile: Profile) -> pl.DataFrame:
    """Every GPU activity whose launching call and thread are known, by thread and time of that call.

    Columns: session, pid, tid, launch_ns, duration_ns, is_kernel (a kernel, or a whole CUDA graph).
    """
    columns = profile["activities"].select("session", "kind", "duration_ns", "correlation")
    # One after the other goes where there is room for all of them.
    parts = [
        spill_to_disk(_launched(work.drop_nulls("correlation"), rows_of_session(profile["api_calls"], session)))
        for session, work in sorted(partition_by_session(columns).items())
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=_LAUNCHED_SCHEMA)


def _launched(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """`launched_work` of one session."""
    is_kernel = (pl.col("kind") == "kernel") | (pl.col("kind") == "graph")
    return (
        with_launch(work.select("session", "duration_ns", "correlation", is_kernel=is_kernel), calls)
        .rename({"launch_pid": "pid", "launch_tid": "tid"})
        .drop_nulls(["launch_ns", "pid", "tid"])
        .select(_LAUNCHED_SCHEMA.names())
        .cast(_LAUNCHED_SCHEMA)
        .sort("pid", "tid", "launch_ns")
    )


@once_per_profile("activities", "api_calls")
def launched_work_by_process(profile: Profile) -> pl.DataFrame:
    """`launched_work`, by process and time of the call."""
    return launched_work(profile).sort(*PROCESS, "launch_ns")


def with_launched_within(intervals: pl.DataFrame, work: pl.DataFrame, of: Sequence[str] = THREAD) -> pl.DataFrame:
    """Add ``gpu_ns`` and ``kernels``: the GPU work that was launched in each time interval, on its own thread.

    Both are null where the thread or the times of a interval are not known, and in sessions of which no launch is.

    Args:
        intervals: With the columns ``of``, start_ns and duration_ns.
        work: `launched_work` of the same profile, or `launched_work_by_process`.
        of: `THREAD`, or `PROCESS` for what any thread of the process launched.
    """
    # Launches are in the order of threads: each has a number of its own for as long as its rows go on.
    is_next = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in of)
    is_first = work.select(is_next.fill_null(True).alias("first"))["first"]
    own = (is_first.cum_sum() - 1).fill_null(0)
    threads = work.filter(is_first).select(of).with_row_index("thread")
    code = intervals.select(of).join(threads, on=of, how="left", maintain_order="left")["thread"]
    start = intervals["start_ns"].fill_null(0).to_numpy()
    end = start + intervals["duration_ns"].fill_null(0).to_numpy()
    first, last = _places(own, work["launch_ns"].to_numpy(), code.fill_null(0), start, end)
    known = pl.all_horizontal(pl.col(*of, "start_ns", "duration_ns").is_not_null()) & pl.col("session").is_in(
        work["session"].unique().implode()
    )
    launches_nothing = code.is_null().to_numpy()

    def within(values: pl.Series) -> pl.Expr:
        sums = np.concatenate(([0], np.cumsum(values.fill_null(0).cast(pl.Int64).to_numpy())))
        return pl.when(known).then(pl.lit(pl.Series(np.where(launches_nothing, 0, sums[last] - sums[first]))))

    return intervals.with_columns(
        within(work["duration_ns"]).alias("gpu_ns"), within(work["is_kernel"]).alias("kernels")
    )


def _places(own: pl.Series, launch: Ints, code: pl.Series, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Where among launches, sorted by thread and time, the first and the one after the last of each interval lie."""
    threads, codes = own.to_numpy().astype(np.int64), code.to_numpy().astype(np.int64)
    moments = np.concatenate((launch, start, end))
    low, high = (int(moments.min()), int(moments.max())) if len(moments) else (0, 0)
    width = high - low + 1
    if width * (int(threads.max(initial=0)) + 1) >= 1 << 62:
        # Times too far apart to be put into one number with the thread: their order does as well.
        _, ranks = np.unique(moments, return_inverse=True)
        launch, start, end = np.split(ranks.astype(np.int64), (len(launch), len(launch) + len(start)))
        low, width = 0, len(moments)
    keys = threads * width + (launch - low)
    first = np.searchsorted(keys, codes * width + (start - low), side="left")
    last = np.searchsorted(keys, codes * width + (end - low), side="right")
    return first, np.maximum(first, last)


WORK: Final = ("range_gpu_ns", "range_kernels", "meanwhile_gpu_ns", "meanwhile_kernels")
"""The columns that are added to ranges."""


def with_work(ranges: pl.DataFrame, profile: Profile) -> pl.DataFrame:
    """Add `WORK` to single ranges: the GPU work that was launched between start and end.

    ``range_`` is what the range's own thread launched, ``meanwhile_`` what the other threads of its process did. Null
    where the thread or the times of the range are not known, and in sessions of which no launch is.
    """
    own = with_launched_within(ranges, launched_work(profile)).rename({"gpu_ns": WORK[0], "kernels": WORK[1]})
    return (
        with_launched_within(own, launched_work_by_process(profile), of=PROCESS)
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
    own = with_launched_within(_intervals(timed, [*by, "pid", "tid"]), launched_work(profile))
    whole = with_launched_within(_intervals(timed, [*by, "pid"]), launched_work_by_process(profile), of=PROCESS)
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


def _intervals(ranges: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The times in which a range of a group is open: intervals that do not overlap, as start_ns and duration_ns."""
    return (
        ranges.select(*by, "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .sort("start_ns")
        .with_columns(pl.col("end_ns").cum_max().over(by).alias("reached"))
        .with_columns(
            (pl.col("start_ns") > pl.col("reached").shift(1).over(by))
            .fill_null(True)
            .cum_sum()
            .over(by)
            .alias("interval")
        )
        .group_by(*by, "interval")
        .agg(pl.col("start_ns").min(), (pl.col("end_ns").max() - pl.col("start_ns").min()).alias("duration_ns"))
    )
