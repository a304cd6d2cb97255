"""GPU work by when and where it was launched: what falls into stretches of time of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.by_session import by_session
from tui.analysis.memo import once_per_profile
from tui.cache.parking import parked
from tui.loaders.linking.launches import with_launch
from tui.model.profile import rows_of_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

THREAD: Final = ("session", "pid", "tid")
"""Columns that tell threads apart."""
PROCESS: Final = ("session", "pid")
"""Columns that tell processes apart."""

_SCHEMA: Final = pl.Schema(
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
def launched(profile: Profile) -> pl.DataFrame:
    """Every GPU activity whose launching call and thread are known, by thread and time of that call.

    Columns: session, pid, tid, launch_ns, duration_ns, is_kernel (a kernel, or a whole CUDA graph).
    """
    columns = profile["activities"].select("session", "kind", "duration_ns", "correlation")
    # One after the other goes where there is room for all of them.
    parts = [
        parked(_launched(work.drop_nulls("correlation"), rows_of_session(profile["api_calls"], session)))
        for session, work in sorted(by_session(columns).items())
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=_SCHEMA)


def _launched(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """`launched` of one session."""
    is_kernel = (pl.col("kind") == "kernel") | (pl.col("kind") == "graph")
    return (
        with_launch(work.select("session", "duration_ns", "correlation", is_kernel=is_kernel), calls)
        .rename({"launch_pid": "pid", "launch_tid": "tid"})
        .drop_nulls(["launch_ns", "pid", "tid"])
        .select(_SCHEMA.names())
        .cast(_SCHEMA)
        .sort("pid", "tid", "launch_ns")
    )


@once_per_profile("activities", "api_calls")
def launched_by_process(profile: Profile) -> pl.DataFrame:
    """`launched`, by process and time of the call."""
    return launched(profile).sort(*PROCESS, "launch_ns")


def with_launched_within(stretches: pl.DataFrame, work: pl.DataFrame, of: Sequence[str] = THREAD) -> pl.DataFrame:
    """Add ``gpu_ns`` and ``kernels``: the GPU work that was launched in each stretch of time, on its own thread.

    Both are null where the thread or the times of a stretch are not known, and in sessions of which no launch is.

    Args:
        stretches: With the columns ``of``, start_ns and duration_ns.
        work: `launched` of the same profile, or `launched_by_process`.
        of: `THREAD`, or `PROCESS` for what any thread of the process launched.
    """
    # Launches are in the order of threads: each has a number of its own for as long as its rows go on.
    is_next = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in of)
    is_first = work.select(is_next.fill_null(True).alias("first"))["first"]
    own = (is_first.cum_sum() - 1).fill_null(0)
    threads = work.filter(is_first).select(of).with_row_index("thread")
    code = stretches.select(of).join(threads, on=of, how="left", maintain_order="left")["thread"]
    start = stretches["start_ns"].fill_null(0).to_numpy()
    end = start + stretches["duration_ns"].fill_null(0).to_numpy()
    first, last = _places(own, work["launch_ns"].to_numpy(), code.fill_null(0), start, end)
    known = pl.all_horizontal(pl.col(*of, "start_ns", "duration_ns").is_not_null()) & pl.col("session").is_in(
        work["session"].unique().implode()
    )
    launches_nothing = code.is_null().to_numpy()

    def within(values: pl.Series) -> pl.Expr:
        sums = np.concatenate(([0], np.cumsum(values.fill_null(0).cast(pl.Int64).to_numpy())))
        return pl.when(known).then(pl.lit(pl.Series(np.where(launches_nothing, 0, sums[last] - sums[first]))))

    return stretches.with_columns(
        within(work["duration_ns"]).alias("gpu_ns"), within(work["is_kernel"]).alias("kernels")
    )


def _places(own: pl.Series, launch: Ints, code: pl.Series, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Where among launches, sorted by thread and time, the first and the one after the last of each stretch lie."""
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
