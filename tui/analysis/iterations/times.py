"""How long iterations take: mean, spread, and the longest stretch of them that is steady."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.iterations.tables import iterations
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Floats = npt.NDArray[np.float64]

STEADY_CV: Final = 0.1
"""Iterations are steady where the standard deviation of their times is less than this part of the mean."""

LEAST_STEADY: Final = 3
"""Fewer iterations are no steady stretch."""

_ALL_LENGTHS: Final = 2048
"""Up to so many iterations every stretch is looked at; of more, lengths are halved until one is steady."""

_LOWER_BITS: Final = 20
"""Bits of the lower part of a time: squares of such parts add up without overflow for millions of iterations, and those
of the upper parts for weeks."""


@once_per_profile("sessions", "activities", "ops", "ranges")
def iteration_times(profile: Profile) -> pl.DataFrame:
    """One row per session with iterations whose times are known; those that are not counted are left out.

    Columns: session, iterations (how many), first and last (their numbers), total_ns, avg_ns, median_ns, p95_ns
    (interpolated linearly), min_ns, max_ns, slowest and fastest (their numbers, the first of several), std_ns (divided
    by n - 1; null for a single one), cv (std / mean),
    steady_first, steady_last and steady_iterations (the longest stretch of iterations one after the other whose cv is
    below `STEADY_CV`, the first of several; null where there is none of `LEAST_STEADY`), steady_avg_ns, steady_cv.
    """
    rows = iterations(profile).drop_nulls(["iteration", "duration_ns"])
    time = pl.col("duration_ns")
    whole = pl.Int64
    table = (
        rows.group_by("session", maintain_order=True)
        .agg(
            pl.len().cast(whole).alias("iterations"),
            pl.col("iteration").min().alias("first"),
            pl.col("iteration").max().alias("last"),
            time.sum().alias("total_ns"),
            time.mean().round().cast(whole).alias("avg_ns"),
            time.quantile(0.5, "linear").round().cast(whole).alias("median_ns"),
            time.quantile(0.95, "linear").round().cast(whole).alias("p95_ns"),
            time.min().alias("min_ns"),
            time.max().alias("max_ns"),
            pl.col("iteration").get(time.arg_max()).alias("slowest"),
            pl.col("iteration").get(time.arg_min()).alias("fastest"),
            time.std(ddof=1).round().cast(whole).alias("std_ns"),
            pl.when(time.mean() > 0).then(time.std(ddof=1) / time.mean()).alias("cv"),
        )
        .sort("session")
    )
    steady = []
    for session in table["session"].to_list():
        own = rows.filter(pl.col("session") == session).sort("iteration")
        found = steady_stretch(own["duration_ns"].cast(pl.Float64).to_numpy())
        if found is not None:
            part = own[found[0] : found[1]]
            times = part["duration_ns"].cast(pl.Float64).to_numpy()
            mean = float(times.mean())
            numbers = part["iteration"]
            steady.append((session, numbers[0], numbers[-1], part.height, round(mean), float(times.std(ddof=1)) / mean))
    stretches = pl.DataFrame(
        steady,
        schema={
            "session": pl.UInt32,
            "steady_first": pl.Int32,
            "steady_last": pl.Int32,
            "steady_iterations": pl.Int64,
            "steady_avg_ns": pl.Int64,
            "steady_cv": pl.Float64,
        },
        orient="row",
    )
    return table.join(stretches, on="session", how="left", maintain_order="left")


def steady_stretch(times: Floats, *, cv: float = STEADY_CV, least: int = LEAST_STEADY) -> tuple[int, int] | None:
    """The longest run of times whose deviation is less than a part of their mean: first and, exclusive, last place.

    Up to 2,048 times this is exact; of more, a length is taken to be possible where each shorter one that was tried
    is, so that the run found can fall short of the longest one.

    >>> steady_stretch(np.array([90.0, 10, 11, 10, 11, 10, 60]))
    (1, 6)
    """
    n = len(times)
    if n < least:
        return None
    # Less their middle, and squares in parts: sums of whole numbers are exact, so that a long pause takes no digits.
    middle = int(np.median(times))
    less = np.rint(times - middle).astype(np.int64)
    upper, lower = np.divmod(np.abs(less), 1 << _LOWER_BITS)
    sums, uppers, mixed, lowers = (
        np.concatenate(([0], np.cumsum(of))) for of in (less, upper**2, upper * lower, lower**2)
    )

    def first_of(length: int) -> int | None:
        total = (sums[length:] - sums[:-length]).astype(np.float64)
        squares = (lowers[length:] - lowers[:-length]).astype(np.float64)
        squares += (mixed[length:] - mixed[:-length]) * 2.0 ** (_LOWER_BITS + 1)
        squares += (uppers[length:] - uppers[:-length]) * 4.0**_LOWER_BITS
        deviation = np.sqrt(np.clip(squares - total**2 / length, 0, None) / (length - 1))
        places = np.flatnonzero(deviation < cv * (middle + total / length))
        return int(places[0]) if len(places) else None

    if n <= _ALL_LENGTHS:
        for length in range(n, least - 1, -1):
            place = first_of(length)
            if place is not None:
                return place, place + length
        return None
    if (place := first_of(n)) is not None:
        return place, place + n
    low, high = least, n
    best = first_of(least)
    if best is None:
        return None
    while high - low > 1:
        length = (low + high) // 2
        place = first_of(length)
        if place is None:
            high = length
        else:
            low, best = length, place
    return best, best + low
