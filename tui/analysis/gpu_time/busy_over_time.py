"""How busy a GPU was over the course of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import union_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile


def busy_over_time(
    profile: Profile, *, session: int, device: int | None, first_ns: int, last_ns: int, bins: int
) -> npt.NDArray[np.float64]:
    """The share of each of ``bins`` equal steps of time in which a GPU had work.

    Args:
        profile: What was read.
        session: Of which session.
        device: Of which GPU; None: of the activities of which the input does not name the GPU.
        first_ns: Where the first step begins.
        last_ns: Where the last step ends.
        bins: How many steps.

    Returns:
        ``bins`` values of 0 to 1; empty where there is no time to divide.
    """
    timed = (
        profile["activities"]
        .lazy()
        .filter(pl.col("session") == session, pl.col("device").eq_missing(pl.lit(device, pl.Int32)))
        .select("start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .drop_nulls()
        .sort("start_ns")
        .collect()
    )
    if bins <= 0 or last_ns <= first_ns or timed.is_empty():
        return np.zeros(max(0, bins) if last_ns > first_ns else 0)
    union = union_of(timed["start_ns"].to_numpy(), timed["end_ns"].to_numpy())
    # Busy time up to a moment is a broken line through the edges of the union: its differences are the bins.
    moments = np.stack((union.starts, union.ends), axis=1).ravel()
    busy = np.stack((union.before, union.before + union.ends - union.starts), axis=1).ravel()
    edges = np.linspace(first_ns, last_ns, bins + 1)
    shares = np.diff(np.interp(edges, moments, busy)) / ((last_ns - first_ns) / bins)
    clipped: npt.NDArray[np.float64] = np.clip(shares, 0.0, 1.0)
    return clipped
