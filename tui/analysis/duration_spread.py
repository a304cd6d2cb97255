"""Distribution of a kernel's launch durations, its variants, and where the slow launches are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.durations import figures
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.model.profile import Profile


SLOW: Final = 1.5
"""A launch is slow that took more than so many times the median."""

VARIANT: Final = ("grid", "block", "input_shapes")
"""What distinguishes the variants of a kernel: its launch configuration, and the shapes that its op was called with."""


@dataclass(frozen=True, slots=True)
class Bin:
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
    """How the durations of launches are spread, in nanoseconds."""

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
    """What they took more than if each had taken the median."""
    slow_iterations: tuple[SlowPart, ...]
    """Iterations with slow launches, most of them first; empty where no iteration is known."""
    slow_streams: tuple[SlowPart, ...]
    """Streams with slow launches, most of them first."""


def log_bins(durations_ns: pl.Series, bins: int) -> tuple[Bin, ...]:
    """How many durations fall into each of ``bins`` equal steps of a logarithmic scale.

    The scale runs from the shortest to the longest; durations of 0 count as 1 ns. One bin where all are the same.

    >>> [(round(bin.from_ns), round(bin.to_ns), bin.launches) for bin in log_bins(pl.Series([1, 9, 10, 90, 100]), 2)]
    [(1, 10, 2), (10, 100, 3)]
    """
    known = np.maximum(durations_ns.drop_nulls().to_numpy(), 1)
    if not len(known) or bins <= 0:
        return ()
    low, high = float(known.min()), float(known.max())
    if low == high:
        return (Bin(low, high, len(known)),)
    edges = np.geomspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    counts, _ = np.histogram(known, bins=edges)
    return tuple(
        Bin(float(first), float(last), int(count))
        for first, last, count in zip(edges[:-1], edges[1:], counts, strict=True)
    )


def spread(launches: pl.DataFrame) -> DurationSpread | None:
    """The spread of the durations of launches; None where no duration is known.

    Median, p90 and p99 are those of `tui.analysis.durations.figures`.

    Args:
        launches: Rows of ``activities``, of one kernel.
    """
    known = launches.select("duration_ns", "iteration", "stream").drop_nulls("duration_ns")
    if known.is_empty():
        return None
    statistics = known.select(figures()).row(0, named=True)
    median = statistics["median_ns"]
    slow = pl.col("duration_ns") > SLOW * median
    late = known.filter(slow)
    return DurationSpread(
        launches=statistics["calls"],
        total_ns=statistics["total_ns"],
        min_ns=statistics["min_ns"],
        median_ns=median,
        p90_ns=statistics["p90_ns"],
        p99_ns=statistics["p99_ns"],
        max_ns=statistics["max_ns"],
        slow=late.height,
        slow_ns=int(late["duration_ns"].sum()) - late.height * median,
        slow_iterations=_parts(known, slow, "iteration") if known["iteration"].count() else (),
        slow_streams=_parts(known, slow, "stream"),
    )


def _parts(known: pl.DataFrame, slow: pl.Expr, column: str) -> tuple[SlowPart, ...]:
    rows = (
        known.group_by(column)
        .agg(pl.len().cast(pl.Int64).alias("launches"), slow.sum().cast(pl.Int64).alias("slow"))
        .filter(pl.col("slow") > 0)
        .sort("slow", column, descending=[True, False], nulls_last=True)
    )
    return tuple(SlowPart(*row) for row in rows.iter_rows())


def variants(profile: Profile, launches: pl.DataFrame) -> pl.DataFrame:
    """The launches of a kernel by what they were launched with, most time first.

    Columns: those of `VARIANT` (null where it is not recorded), calls, total_ns and the other figures of
    `tui.analysis.durations.figures`.

    Args:
        profile: Whose launches they are.
        launches: Rows of ``activities``, of one kernel; other columns are ignored.
    """
    rows = launches.drop("grid", "block", "op", strict=False)
    shapes = profile["ops"].select("op", "input_shapes").drop_nulls()
    if shapes.height:
        ops = profile["activities"].lazy().select("activity", "op").drop_nulls()
        wanted = ops.filter(pl.col("activity").is_in(rows["activity"].implode())).collect()
        rows = rows.join(wanted.join(shapes, on="op").drop("op"), on="activity", how="left")
    else:
        rows = rows.with_columns(pl.lit(None, NAME).alias("input_shapes"))
    return (
        with_shapes(rows)
        .group_by(VARIANT)
        .agg(*figures())
        .sort("total_ns", *VARIANT, descending=[True, False, False, False], nulls_last=True)
    )
