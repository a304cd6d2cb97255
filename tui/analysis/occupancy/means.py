"""Occupancy of kernels and devices: the means over their launches, weighted by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.occupancy.theoretical import occupancy

if TYPE_CHECKING:
    from tui.model.profile import Profile

LOW_PCT: Final = 50.0
"""Occupancy below this is counted as low."""

MEANS: Final = ("occupancy_pct", "achieved_pct", "sm_efficiency_pct", "waves", "tail_pct")


def _means() -> list[pl.Expr]:
    """Means of what is known, weighted by time, and how much time that is."""
    weight = pl.col("total_ns")
    known = pl.col("occupancy_pct").is_not_null()

    def mean(column: str) -> pl.Expr:
        there = pl.col(column).is_not_null()
        whole = weight.filter(there).sum()
        return pl.when(whole > 0).then((pl.col(column) * weight).sum() / whole).alias(column)

    low = weight.filter(pl.col("occupancy_pct") < LOW_PCT).sum()
    whole = weight.filter(known).sum()
    return [
        pl.col("calls").sum(),
        weight.sum(),
        whole.alias("known_ns"),
        *map(mean, MEANS),
        pl.when(whole > 0).then(100 * low / whole).alias("low_occupancy_pct"),
        pl.col("occupancy_reason").drop_nulls().first(),
    ]


def occupancy_by_kernel(profile: Profile) -> pl.DataFrame:
    """Mean occupancy of every kernel: one row per session, device and name, most time first.

    Columns: session, device, name, calls, total_ns, known_ns (of launches whose occupancy is known), the means of
    `MEANS` (`occupancy.theoretical.occupancies`) over these launches, each weighted by its time (null where none is
    known), low_occupancy_pct (share of ``known_ns`` below `LOW_PCT`), occupancy_reason (why the rest is not known).
    """
    by_kernel = occupancy(profile).group_by("session", "device", "name").agg(_means())
    return by_kernel.sort("total_ns", "name", descending=[True, False], nulls_last=True)


def occupancy_by_device(profile: Profile) -> pl.DataFrame:
    """The same for every GPU: one row per session and device, with the columns of `occupancy_by_kernel` but the name.

    ``achieved_pct`` and ``sm_efficiency_pct`` are the TensorBoard plugin's "Est. Achieved Occupancy" and "Est. SM
    Efficiency" of the time in which kernels ran.
    """
    return occupancy(profile).group_by("session", "device").agg(_means()).sort("session", "device")
