"""CUDA API calls by the thread that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import FIGURES, figures, share, total
from tui.analysis.kernels import FIGURES_SHOWN
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

THREAD_LEAST: Final = len("process 4194304, thread 4294967295")
"""Cells of the longest usual name of a thread: one that lacks its last digits is that of another."""

API_THREADS: Final = TableSpec(
    "api_threads",
    "API calls by thread",
    columns(
        "thread", "calls", "total_ns", "time_pct", "functions", "max_ns", "start_ns", "end_ns", "pid", "tid", "session"
    ),
    key=("session", "pid", "tid"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="thread",
    pinned_least=THREAD_LEAST,
)

THREAD_FUNCTIONS: Final = TableSpec(
    "thread_functions",
    "Functions of the thread",
    columns("name", *FIGURES_SHOWN, "session", "line"),
    key=("session", "name"),
    sort=(("total_ns", True),),
    weight="total_ns",
)


@once_per_profile("api_calls")
def api_threads(profile: Profile) -> pl.DataFrame:
    """One row per session, process and thread that made calls, most time first.

    Columns: session, pid, tid (null where the input does not name them), thread (both in words), calls, total_ns,
    time_pct (share of the session's API time), functions (distinct names), max_ns, start_ns and end_ns (first begin and
    last end).
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    words = pl.concat_str(
        pl.format("process {}", "pid"), pl.format("thread {}", "tid"), separator=", ", ignore_nulls=True
    )
    return (
        profile["api_calls"]
        .lazy()
        .group_by("session", "pid", "tid")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total().alias("total_ns"),
            pl.col("name").n_unique().cast(pl.Int64).alias("functions"),
            pl.col("duration_ns").max().alias("max_ns"),
            pl.col("start_ns").min(),
            end.max().alias("end_ns"),
        )
        .with_columns(
            share(),
            pl.when(pl.col("pid").is_null() & pl.col("tid").is_null())
            .then(pl.lit("not recorded"))
            .otherwise(words)
            .alias("thread"),
        )
        .collect()
        .select(column.name for column in API_THREADS.columns)
        .sort("total_ns", "session", "pid", "tid", descending=[True, False, False, False], nulls_last=True)
    )


def of_thread(pid: int | None, tid: int | None) -> pl.Expr:
    """The calls of a thread."""
    return pl.col("pid").eq_missing(pl.lit(pid, pl.Int64)) & pl.col("tid").eq_missing(pl.lit(tid, pl.Int64))


def thread_functions(profile: Profile, *, session: int, pid: int | None, tid: int | None) -> pl.DataFrame:
    """The calls of one thread by function, most time first: session, name, `FIGURES`, time_pct (of it), line."""
    return (
        profile["api_calls"]
        .lazy()
        .filter(pl.col("session") == session, of_thread(pid, tid))
        .group_by("session", "name")
        .agg(*figures(), pl.col("line").min())
        .with_columns(share(of=None))
        .collect()
        .select("session", "name", *FIGURES, "time_pct", "line")
        .sort("total_ns", "name", descending=[True, False], nulls_last=True)
    )
