"""How the durations of many calls become one row: sums, extremes, percentiles, shares."""

from __future__ import annotations

from typing import Final

import polars as pl

FIGURES: Final = pl.Schema(
    {
        "calls": pl.Int64,
        "total_ns": pl.Int64,
        "avg_ns": pl.Int64,
        "min_ns": pl.Int64,
        "max_ns": pl.Int64,
        "median_ns": pl.Int64,
        "p90_ns": pl.Int64,
        "p99_ns": pl.Int64,
        "std_ns": pl.Int64,
    }
)
"""What is told of many calls."""


def total(column: str = "duration_ns") -> pl.Expr:
    """Sum of the known values of a column; null, not 0, where none is known.

    >>> pl.DataFrame({"duration_ns": [None, None]}, schema={"duration_ns": pl.Int64}).select(total()).item() is None
    True
    """
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum())


def whole(column: str) -> pl.Expr:
    """Sum of a column; null where a value of it is not known.

    >>> pl.DataFrame({"calls": [3, None]}).select(whole("calls")).item() is None
    True
    """
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum())


def total_of_parts(column: str) -> pl.Expr:
    """Sum of the known values of a column where 0 is that there is none; null where nothing more is known of others.

    >>> parts = pl.DataFrame({"one": [0, 5, None], "other": [0, 0, None], "none": [0, 0, 0]})
    >>> parts.select(total_of_parts(name).alias(name) for name in parts.columns).row(0)
    (5, None, 0)
    """
    values = pl.col(column)
    return pl.when((values.sum() != 0) | (values.null_count() == 0)).then(values.sum())


def figures(column: str = "duration_ns") -> list[pl.Expr]:
    """Aggregations of the durations of a group of calls, as `FIGURES`.

    ``calls`` counts all rows; the rest is of the rows with a known duration, and null where there are none. Average,
    percentiles and deviation are rounded to whole nanoseconds. Percentiles are interpolated linearly between the two
    nearest calls (the 50th is the usual median). The deviation divides by n - 1 and is null for a single call.
    """
    duration = pl.col(column)
    return [
        pl.len().cast(pl.Int64).alias("calls"),
        total(column).alias("total_ns"),
        duration.mean().round().cast(pl.Int64).alias("avg_ns"),
        duration.min().alias("min_ns"),
        duration.max().alias("max_ns"),
        duration.quantile(0.50, "linear").round().cast(pl.Int64).alias("median_ns"),
        duration.quantile(0.90, "linear").round().cast(pl.Int64).alias("p90_ns"),
        duration.quantile(0.99, "linear").round().cast(pl.Int64).alias("p99_ns"),
        duration.std(ddof=1).round().cast(pl.Int64).alias("std_ns"),
    ]


def timed(column: str = "duration_ns") -> pl.Expr:
    """How many calls of a group have a known duration: ``timed_calls``."""
    return pl.col(column).count().cast(pl.Int64).alias("timed_calls")


def merged_figures() -> list[pl.Expr]:
    """The same columns where rows are already aggregated (columns of ``summary``) and one name has several rows.

    A single row keeps the average, median and deviation that were printed; several get total divided by the calls that
    it is of.
    Percentiles and the deviation of several rows cannot be known from aggregates: they are null.
    """
    alone = pl.len() == 1
    return [
        whole("calls").alias("calls"),
        total("total_ns").alias("total_ns"),
        pl.when(alone)
        .then(pl.col("avg_ns").first())
        .otherwise(average(total("total_ns"), timed_calls()))
        .alias("avg_ns"),
        pl.col("min_ns").min(),
        pl.col("max_ns").max(),
        pl.when(alone).then(pl.col("median_ns").first()).alias("median_ns"),
        *(pl.lit(None, pl.Int64).alias(name) for name in ("p90_ns", "p99_ns")),
        pl.when(alone).then(pl.col("std_ns").first()).alias("std_ns"),
    ]


def timed_calls(calls: str = "calls") -> pl.Expr:
    """Sum of the calls of aggregated rows whose ``total_ns`` is known; null where one of these does not tell its calls.

    >>> rows = pl.DataFrame({"calls": [3, 5], "total_ns": [30, None]})
    >>> rows.select(timed_calls()).item()
    3
    """
    timed = pl.when(pl.col("total_ns").is_null()).then(0).otherwise(pl.col(calls))
    return pl.when(timed.null_count() == 0).then(timed.sum())


def untimed_calls(calls: str = "calls") -> pl.Expr:
    """How many calls of aggregated rows have no known duration; null where one of these does not tell its calls.

    >>> pl.DataFrame({"calls": [3, 5], "timed_calls": [3, 1]}).select(untimed_calls()).item()
    4
    """
    untimed = pl.col(calls) - pl.col("timed_calls")
    return pl.when(untimed.null_count() == 0).then(untimed.sum())


def average(total_ns: pl.Expr, calls: pl.Expr) -> pl.Expr:
    """Total divided by calls, in whole nanoseconds; null where there were no calls."""
    return (total_ns / calls).round().cast(pl.Int64, strict=False)


def share(column: str = "total_ns", *, of: str | None = "session") -> pl.Expr:
    """Percentage of the sum of a column within each group, or in all rows (None); null where the sum is 0 or unknown.

    >>> pl.DataFrame({"session": [0, 0, 1], "total_ns": [30, 10, 0]}).select(share())["time_pct"].to_list()
    [75.0, 25.0, None]
    """
    whole = pl.col(column).sum() if of is None else pl.col(column).sum().over(of)
    return pl.when(whole > 0).then(100 * pl.col(column) / whole).alias("time_pct")
