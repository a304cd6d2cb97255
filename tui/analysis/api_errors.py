"""API calls that did not succeed, by function and by the code that they returned."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

API_ERRORS: Final = TableSpec(
    "api_errors",
    "Calls that failed",
    columns("function", "result", "result_name", "calls", "start_ns", "end_ns", "session"),
    key=("session", "function", "result"),
    sort=(("calls", True),),
    pinned="function",
)


@cache
def _codes() -> dict[str, Any]:
    return tomllib.loads(files("tui.data").joinpath("cuda_errors.toml").read_text("utf-8"))


def failed() -> pl.Expr:
    """Whether a call returned an error; work that is not ready yet is none."""
    return pl.col("result").is_not_null() & ~pl.col("result").is_in(_codes()["not_an_error"])


def records_results(profile: Profile) -> bool:
    """Whether the input tells what calls returned."""
    results = profile["api_calls"]["result"]
    return results.len() > results.null_count()


@once_per_profile("api_calls")
def api_errors(profile: Profile) -> pl.DataFrame:
    """Calls that returned an error: one row per session, function and code, most calls first.

    Columns: session, function, result (the code), result_name (what CUDA calls it; null where the number alone is
    sure), calls, start_ns and end_ns (begin of the first, end of the last).
    """
    names = {int(code): name for code, name in _codes()["names"].items()}
    return (
        profile["api_calls"]
        .lazy()
        .filter(failed())
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
