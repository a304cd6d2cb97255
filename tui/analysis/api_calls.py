"""CUDA API calls: by name, by call, by thread, and calls that returned an error."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.durations import CALL_STATISTICS, call_statistics, call_statistics_by, share, total
from tui.analysis.kernels import BY_NAME, FIGURES_SHOWN, KERNEL_EXPORT, summary_rows
from tui.analysis.memo import once_per_profile
from tui.cache.spill import filter_rows
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


API: Final = TableSpec(
    "api",
    "API Calls",
    columns("name", *FIGURES_SHOWN, "session", "line"),
    key=("session", "name"),
    sort=(("total_ns", True),),
    weight="total_ns",
)

API_INSTANCES: Final = TableSpec(
    "api_instances",
    "Calls",
    columns("start_ns", "duration_ns", "pid", "tid", "result", "correlation", "line", "number"),
    key=("session", "number"),
    weight="duration_ns",
    pinned="start_ns",
)


@once_per_profile("api_calls", "summary")
def api(profile: Profile) -> pl.DataFrame:
    """Return CUDA API calls by name: one row per session and name, largest total first.

    The columns are those of `tui.analysis.kernels.kernels`; ``kind`` is api and ``uses_tensor_core`` is null.
    ``time_pct`` is the share of the session's API time, summed over all threads.
    """
    calls = profile["api_calls"]
    single = (
        call_statistics_by(calls, ("session", "name"))
        .with_columns(pl.lit(None, pl.Boolean).alias("uses_tensor_core"), share())
        .select("session", "name", *CALL_STATISTICS, "timed_calls", "uses_tensor_core", "line", "time_pct")
    )
    recorded = summary_rows(profile, "api", excluded=calls["session"]).drop("kind", "size_bytes")
    rows = pl.concat([single, recorded])
    return (
        rows.with_columns(pl.lit("api").cast(NAME).alias("kind"), pl.col("name").alias("short_name"))
        .select("session", "kind", "name", "short_name", *BY_NAME, "timed_calls", "line")
        .sort("total_ns", "name", "session", descending=[True, False, False], nulls_last=True)
    )


def exported_api(profile: Profile) -> pl.DataFrame:
    """Return `api` with the columns of the export."""
    return api(profile).select(KERNEL_EXPORT)


def api_instances(profile: Profile, *, session: int, name: str, condition: pl.Expr | None = None) -> pl.DataFrame:
    """Return the single calls of one API function of one session in log order; ``number`` is the row of each.

    Args:
        profile: The profile.
        session: Number of the session.
        name: The function.
        condition: A further condition on the frame ``api_calls``.
    """
    is_selected = (pl.col("session") == session) & (pl.col("name") == name)
    rows = profile["api_calls"].with_row_index("number")
    return filter_rows(rows, is_selected if condition is None else is_selected & condition)


API_ERRORS: Final = TableSpec(
    "api_errors",
    "Failed calls",
    columns("function", "result", "result_name", "calls", "start_ns", "end_ns", "session"),
    key=("session", "function", "result"),
    sort=(("calls", True),),
    pinned="function",
)


@cache
def _codes() -> dict[str, Any]:
    return tomllib.loads(files("tui.data").joinpath("cuda_errors.toml").read_text("utf-8"))


def is_failed() -> pl.Expr:
    """Return the condition for calls that returned an error; cudaErrorNotReady is not one."""
    return pl.col("result").is_not_null() & ~pl.col("result").is_in(_codes()["not_an_error"])


def records_results(profile: Profile) -> bool:
    """Return whether the input records what calls returned."""
    results = profile["api_calls"]["result"]
    return results.len() > results.null_count()


@once_per_profile("api_calls")
def api_errors(profile: Profile) -> pl.DataFrame:
    """Return calls that returned an error: one row per session, function and code, most calls first.

    Columns: session, function, result (the code), result_name (its name in CUDA; null if only the number is known),
    calls, start_ns and end_ns (begin of the first, end of the last).
    """
    names = {int(code): name for code, name in _codes()["names"].items()}
    return (
        profile["api_calls"]
        .lazy()
        .filter(is_failed())
        .group_by("session", pl.col("name").alias("function"), "result")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("start_ns").min(),
            (pl.col("start_ns") + pl.col("duration_ns")).max().alias("end_ns"),
        )
        .collect()
        .with_columns(pl.col("result").replace_strict(names, default=None, return_dtype=pl.String).alias("result_name"))
        .select(column.name for column in API_ERRORS.columns)
        .sort("calls", "session", "function", "result", descending=[True, False, False, False])
    )


MIN_THREAD: Final = len("process 4194304, thread 4294967295")
"""The width of the longest usual thread name: cut digits would name another thread."""

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
    min_pinned_cells=MIN_THREAD,
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
    """Return one row per session, process and thread that made calls, most time first.

    Columns: session, pid, tid (null if not recorded), thread (both as text), calls, total_ns, time_pct (share of the
    session's API time), functions (distinct names), max_ns, start_ns and end_ns (first start and last end).
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    label = pl.concat_str(
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
            .otherwise(label)
            .alias("thread"),
        )
        .collect()
        .select(column.name for column in API_THREADS.columns)
        .sort("total_ns", "session", "pid", "tid", descending=[True, False, False, False], nulls_last=True)
    )


def is_on_thread(pid: int | None, tid: int | None) -> pl.Expr:
    """Return the condition for the calls of a thread."""
    return pl.col("pid").eq_missing(pl.lit(pid, pl.Int64)) & pl.col("tid").eq_missing(pl.lit(tid, pl.Int64))


def thread_functions(profile: Profile, *, session: int, pid: int | None, tid: int | None) -> pl.DataFrame:
    """Return the calls of one thread by function, most time first.

    Columns: session, name, `CALL_STATISTICS`, time_pct (share of the thread), line.
    """
    return (
        profile["api_calls"]
        .lazy()
        .filter(pl.col("session") == session, is_on_thread(pid, tid))
        .group_by("session", "name")
        .agg(*call_statistics(), pl.col("line").min())
        .with_columns(share(group=None))
        .collect()
        .select("session", "name", *CALL_STATISTICS, "time_pct", "line")
        .sort("total_ns", "name", descending=[True, False], nulls_last=True)
    )
