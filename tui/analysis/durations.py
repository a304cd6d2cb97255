"""Statistics of durations: sums, extremes, percentiles and shares, by group; the distribution of single ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.gpu_time.interval_sets import blocks, is_nondecreasing
from tui.analysis.grouping import group_rows, is_constant
from tui.analysis.memo import once_per_profile
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


CALL_STATISTICS: Final = pl.Schema(
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
"""The statistics of many calls."""


def total(column: str = "duration_ns") -> pl.Expr:
    """Return the sum of the known values of a column; null, not 0, if none is known.

    >>> pl.DataFrame({"duration_ns": [None, None]}, schema={"duration_ns": pl.Int64}).select(total()).item() is None
    True
    """
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum())


def total_where(condition: pl.Expr, column: str = "duration_ns") -> pl.Expr:
    """Return `total` of the rows that meet a condition; 0 if there are none.

    >>> rows = pl.DataFrame({"kind": ["a", "a", "b"], "duration_ns": [1, None, None]})
    >>> rows.select(total_where(pl.col("kind") == kind).alias(kind) for kind in "abc").row(0)
    (1, None, 0)
    """
    values = pl.col(column).filter(condition)
    return pl.when((values.count() > 0) | (values.len() == 0)).then(values.sum())


def complete_sum(column: str) -> pl.Expr:
    """Return the sum of a column; null if any value is unknown.

    >>> pl.DataFrame({"calls": [3, None]}).select(complete_sum("calls")).item() is None
    True
    """
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum())


def sum_of_known(column: str) -> pl.Expr:
    """Return the sum of the known values; null if all known values are 0 and others are unknown.

    >>> parts = pl.DataFrame({"one": [0, 5, None], "other": [0, 0, None], "none": [0, 0, 0]})
    >>> parts.select(sum_of_known(name).alias(name) for name in parts.columns).row(0)
    (5, None, 0)
    """
    values = pl.col(column)
    return pl.when((values.sum() != 0) | (values.null_count() == 0)).then(values.sum())


def call_statistics() -> list[pl.Expr]:
    """Return the aggregations of the durations of a group of calls, as `CALL_STATISTICS`.

    ``calls`` counts all rows; the others are of the rows with a known duration, and null if there are none. Average,
    percentiles and deviation are rounded to whole nanoseconds. Percentiles are interpolated linearly between the two
    nearest calls (the 50th is the usual median). The deviation divides by n - 1 and is null for a single call.
    """
    duration = pl.col("duration_ns")
    return [
        pl.len().cast(pl.Int64).alias("calls"),
        total().alias("total_ns"),
        duration.mean().round().cast(pl.Int64).alias("avg_ns"),
        duration.min().alias("min_ns"),
        duration.max().alias("max_ns"),
        duration.quantile(0.50, "linear").round().cast(pl.Int64).alias("median_ns"),
        duration.quantile(0.90, "linear").round().cast(pl.Int64).alias("p90_ns"),
        duration.quantile(0.99, "linear").round().cast(pl.Int64).alias("p99_ns"),
        duration.std(ddof=1).round().cast(pl.Int64).alias("std_ns"),
    ]


def timed_count() -> pl.Expr:
    """Return the number of calls of a group with a known duration, as ``timed_calls``."""
    return pl.col("duration_ns").count().cast(pl.Int64).alias("timed_calls")


def merged_call_statistics() -> list[pl.Expr]:
    """Return the aggregations of `call_statistics` for rows of ``summary`` that are aggregated already.

    A single row keeps the printed average, median and deviation; the average of several rows is total divided by timed
    calls. Percentiles and deviation of several rows do not follow from aggregates: they are null.
    """
    is_single = pl.len() == 1
    return [
        complete_sum("calls").alias("calls"),
        total("total_ns").alias("total_ns"),
        pl.when(is_single)
        .then(pl.col("avg_ns").first())
        .otherwise(average(total("total_ns"), timed_calls()))
        .alias("avg_ns"),
        pl.col("min_ns").min(),
        pl.col("max_ns").max(),
        pl.when(is_single).then(pl.col("median_ns").first()).alias("median_ns"),
        *(pl.lit(None, pl.Int64).alias(name) for name in ("p90_ns", "p99_ns")),
        pl.when(is_single).then(pl.col("std_ns").first()).alias("std_ns"),
    ]


def timed_calls(calls: str = "calls") -> pl.Expr:
    """Return the number of calls in aggregated rows whose ``total_ns`` is known; null if a number is missing.

    >>> rows = pl.DataFrame({"calls": [3, 5], "total_ns": [30, None]})
    >>> rows.select(timed_calls()).item()
    3
    """
    timed = pl.when(pl.col("total_ns").is_null()).then(0).otherwise(pl.col(calls))
    return pl.when(timed.null_count() == 0).then(timed.sum())


def untimed_calls(calls: str = "calls") -> pl.Expr:
    """Return the number of calls in aggregated rows without a duration; null if a number is missing.

    >>> pl.DataFrame({"calls": [3, 5], "timed_calls": [3, 1]}).select(untimed_calls()).item()
    4
    """
    untimed = pl.col(calls) - pl.col("timed_calls")
    return pl.when(untimed.null_count() == 0).then(untimed.sum())


def average(total_ns: pl.Expr, calls: pl.Expr) -> pl.Expr:
    """Return total divided by calls, in whole nanoseconds; null if there were no calls."""
    return (total_ns / calls).round().cast(pl.Int64, strict=False)


def share(column: str = "total_ns", *, group: str | None = "session") -> pl.Expr:
    """Return the percentage of a column's sum in each group, or in all rows (None); null if the sum is 0 or unknown.

    >>> pl.DataFrame({"session": [0, 0, 1], "total_ns": [30, 10, 0]}).select(share())["time_pct"].to_list()
    [75.0, 25.0, None]
    """
    column_sum = pl.col(column).sum() if group is None else pl.col(column).sum().over(group)
    return pl.when(column_sum > 0).then(100 * pl.col(column) / column_sum).alias("time_pct")


MIN_ROWS_TO_SORT: Final = 200_000
"""The minimum number of rows for which sorting is faster."""

_KEYS: Final = 1 << 16
"""The most packed keys: a table of more would be mostly empty."""
_SMALL, _LARGE = 1 << 32, 1 << 62
_QUANTILES: Final = {"median_ns": 0.50, "p90_ns": 0.90, "p99_ns": 0.99}


def call_statistics_by(
    rows: pl.DataFrame, keys: Sequence[str], *first: str, min_rows_to_sort: int = MIN_ROWS_TO_SORT
) -> pl.DataFrame:
    """Group rows and return `call_statistics` of each group, in no particular order.

    Columns: ``keys``, `CALL_STATISTICS`, timed_calls, line (the lowest), and ``first`` of each group's first row.

    Args:
        rows: With ``duration_ns`` and ``line``.
        keys: Whole numbers or categories.
        first: Further columns.
        min_rows_to_sort: The number of rows from which they are sorted.
    """
    statistics = _statistics_by_sorting(rows, keys, first) if rows.height >= min_rows_to_sort else None
    if statistics is not None:
        return statistics
    return group_rows(
        rows, keys, [*call_statistics(), timed_count(), pl.col("line").min(), *(pl.col(name).first() for name in first)]
    )


def _statistics_by_sorting(rows: pl.DataFrame, keys: Sequence[str], first: Sequence[str]) -> pl.DataFrame | None:
    """Return the groups by sorting packed keys; None if keys cannot be packed or the lowest line is not the first."""
    durations, lines = rows["duration_ns"], rows.select("line").to_series()
    if durations.null_count() or not (is_constant(lines) or _rises(lines)):
        return None
    low, high = durations.min(), durations.max()
    if not isinstance(low, int) or not isinstance(high, int) or low < 0:
        return None
    varying = [key for key in keys if not is_constant(rows.select(key).to_series())]
    digits, count = _digits(rows, varying)
    if not count or count > _KEYS or count * (high + 1) > _LARGE:
        return None
    ordered, firsts = _packed_keys(digits, durations.to_numpy(), count, high + 1)
    codes = np.flatnonzero(firsts >= 0)
    ends = np.append(
        np.searchsorted(ordered, ordered.dtype.type(high + 1) * codes[1:].astype(ordered.dtype)), len(ordered)
    )
    first_rows = pl.Series(firsts[codes])
    described = rows.select(pl.col(*keys, *first, "line").gather(first_rows))
    return (
        _sorted_statistics(ordered, codes * (high + 1), ends)
        .hstack(described)
        .select(*keys, *CALL_STATISTICS, pl.col("calls").alias("timed_calls"), "line", *first)
    )


def _rises(lines: pl.Series) -> bool:
    return not lines.null_count() and is_nondecreasing(lines.to_numpy())


def _digits(rows: pl.DataFrame, keys: Sequence[str]) -> tuple[list[tuple[npt.NDArray[np.integer], int, int]], int]:
    """Return the numbers, minimum and place value of each key in a packed key; and the number of packed keys, or 0."""
    digits, count = [], 1
    for key in keys:
        column = rows[key].to_physical()
        low, high = column.min(), column.max()
        if column.null_count() or not isinstance(low, int) or not isinstance(high, int):
            return [], 0
        digits.append((column.to_numpy(), low, count))
        count *= high - low + 1
    return digits, count


def _packed_keys(
    digits: Sequence[tuple[npt.NDArray[np.integer], int, int]], durations: Ints, count: int, scale: int
) -> tuple[npt.NDArray[np.integer], Ints]:
    """Return key and duration of each row packed into one number, sorted; and the first row of each key, or -1."""
    dtype = np.uint32 if count * scale <= _SMALL else np.int64
    packed: npt.NDArray[np.integer] = np.empty(len(durations), dtype)
    firsts = np.full(count, -1, np.int64)
    # In reverse order, so that the first row of each key is written last.
    for block in reversed(list(blocks(len(durations)))):
        code = np.zeros(block.stop - block.start, np.int64)
        for numbers, low, weight in digits:
            code += (numbers[block].astype(np.int64) - low) * weight
        firsts[code[::-1]] = np.arange(block.stop - 1, block.start - 1, -1)
        code *= scale
        code += durations[block]
        packed[block] = code
    packed.sort()
    return packed, firsts


def _sorted_statistics(ordered: npt.NDArray[np.integer], bases: Ints, ends: Ints) -> pl.DataFrame:
    """Return `CALL_STATISTICS` of groups that follow each other.

    Args:
        ordered: Sorted numbers: the number of the group plus the duration.
        bases: The number of each group.
        ends: The end of each group.
    """
    calls = np.diff(ends, prepend=0)
    firsts = ends - calls
    totals, squares = np.empty(len(ends), np.int64), np.empty(len(ends), np.float64)
    for group, (begin, end, base) in enumerate(zip(firsts.tolist(), ends.tolist(), bases.tolist(), strict=True)):
        group_durations = ordered[begin:end] - ordered.dtype.type(base)
        totals[group] = group_durations.sum(dtype=np.int64)
        deviation = group_durations - totals[group] / (end - begin)
        deviation *= deviation
        squares[group] = deviation.sum()
    rounded = {"avg_ns": totals / calls}
    for name, share in _QUANTILES.items():
        quantile_positions = (calls - 1) * share
        low = np.floor(quantile_positions).astype(np.int64)
        lower, upper = (
            ordered[firsts + positions].astype(np.int64) - bases
            for positions in (low, np.ceil(quantile_positions).astype(np.int64))
        )
        rounded[name] = (quantile_positions - low) * (upper - lower) + lower
    rounded["std_ns"] = np.sqrt(squares / np.maximum(calls - 1, 1))
    columns = {
        "calls": calls,
        "total_ns": totals,
        "min_ns": ordered[firsts].astype(np.int64) - bases,
        "max_ns": ordered[ends - 1].astype(np.int64) - bases,
        **rounded,
    }
    return (
        pl.DataFrame(columns)
        .with_columns(pl.col(*rounded).round().cast(pl.Int64))
        .with_columns(pl.when(pl.col("calls") > 1).then("std_ns").alias("std_ns"))
        .select(pl.col(name).cast(dtype) for name, dtype in CALL_STATISTICS.items())
    )


@once_per_profile("activities")
def activities_by_name(profile: Profile) -> pl.DataFrame:
    """Return single activities by session, kind and name, in no particular order.

    Columns: those, `tui.analysis.durations.call_statistics`, line (the first one), short_name.
    """
    return call_statistics_by(profile["activities"], ("session", "kind", "name"), "short_name")


SLOW: Final = 1.5
"""A launch is slow if it took more than this multiple of the median."""

VARIANT: Final = ("grid", "block", "input_shapes")
"""What distinguishes the variants of a kernel: its launch configuration, and the shapes that its op was called with."""


@dataclass(frozen=True, slots=True)
class DurationBin:
    """Durations from one length to another."""

    from_ns: float
    to_ns: float
    launches: int


@dataclass(frozen=True, slots=True)
class SlowPart:
    """An iteration or a stream, with its slow launches."""

    number: int | None
    """None: the launches whose iteration or stream is not known, or which are in no iteration."""
    launches: int
    slow: int


@dataclass(frozen=True, slots=True)
class DurationSpread:
    """The distribution of the durations of launches, in nanoseconds."""

    launches: int
    """Those whose duration is known."""
    total_ns: int
    min_ns: int
    median_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int
    slow: int
    """Launches that took more than `SLOW` times the median."""
    slow_ns: int
    """The time of slow launches above the median."""
    slow_iterations: tuple[SlowPart, ...]
    """Iterations with slow launches, most of them first; empty if no iteration is known."""
    slow_streams: tuple[SlowPart, ...]
    """Streams with slow launches, most of them first."""


def log_bins(durations_ns: pl.Series, bins: int) -> tuple[DurationBin, ...]:
    """Count durations in ``bins`` equal steps of a logarithmic scale.

    The scale runs from the shortest to the longest; durations of 0 count as 1 ns. One bin where all are the same.

    >>> [(round(bin.from_ns), round(bin.to_ns), bin.launches) for bin in log_bins(pl.Series([1, 9, 10, 90, 100]), 2)]
    [(1, 10, 2), (10, 100, 3)]
    """
    known_ns = np.maximum(durations_ns.drop_nulls().to_numpy(), 1)
    if not len(known_ns) or bins <= 0:
        return ()
    low, high = float(known_ns.min()), float(known_ns.max())
    if low == high:
        return (DurationBin(low, high, len(known_ns)),)
    edges = np.geomspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    counts, _ = np.histogram(known_ns, bins=edges)
    return tuple(
        DurationBin(float(first), float(last), int(count))
        for first, last, count in zip(edges[:-1], edges[1:], counts, strict=True)
    )


def duration_spread(launches: pl.DataFrame) -> DurationSpread | None:
    """Return the spread of the durations of launches; None if no duration is known.

    Median, p90 and p99 are those of `tui.analysis.durations.call_statistics`.

    Args:
        launches: Rows of ``activities``, of one kernel.
    """
    timed = launches.select("duration_ns", "iteration", "stream").drop_nulls("duration_ns")
    if timed.is_empty():
        return None
    statistics = timed.select(call_statistics()).row(0, named=True)
    median = statistics["median_ns"]
    slow = pl.col("duration_ns") > SLOW * median
    slow_launches = timed.filter(slow)
    return DurationSpread(
        launches=statistics["calls"],
        total_ns=statistics["total_ns"],
        min_ns=statistics["min_ns"],
        median_ns=median,
        p90_ns=statistics["p90_ns"],
        p99_ns=statistics["p99_ns"],
        max_ns=statistics["max_ns"],
        slow=slow_launches.height,
        slow_ns=int(slow_launches["duration_ns"].sum()) - slow_launches.height * median,
        slow_iterations=_slow_parts(timed, slow, "iteration") if timed["iteration"].count() else (),
        slow_streams=_slow_parts(timed, slow, "stream"),
    )


def _slow_parts(timed: pl.DataFrame, slow: pl.Expr, column: str) -> tuple[SlowPart, ...]:
    rows = (
        timed.group_by(column)
        .agg(pl.len().cast(pl.Int64).alias("launches"), slow.sum().cast(pl.Int64).alias("slow"))
        .filter(pl.col("slow") > 0)
        .sort("slow", column, descending=[True, False], nulls_last=True)
    )
    return tuple(SlowPart(*row) for row in rows.iter_rows())


def variants(profile: Profile, launches: pl.DataFrame) -> pl.DataFrame:
    """Group the launches of a kernel by launch configuration and shapes, most time first.

    Columns: those of `VARIANT` (null if it is not recorded), calls, total_ns and the other figures of
    `tui.analysis.durations.call_statistics`.

    Args:
        profile: The profile of the launches.
        launches: Rows of ``activities``, of one kernel; other columns are ignored.
    """
    rows = launches.drop("grid", "block", "op", strict=False)
    shapes = profile["ops"].select("op", "input_shapes").drop_nulls()
    if shapes.height:
        ops = profile["activities"].lazy().select("activity", "op").drop_nulls()
        launching_ops = ops.filter(pl.col("activity").is_in(rows["activity"].implode())).collect()
        rows = rows.join(launching_ops.join(shapes, on="op").drop("op"), on="activity", how="left")
    else:
        rows = rows.with_columns(pl.lit(None, NAME).alias("input_shapes"))
    return (
        with_shapes(rows)
        .group_by(VARIANT)
        .agg(*call_statistics())
        .sort("total_ns", *VARIANT, descending=[True, False, False, False], nulls_last=True)
    )
