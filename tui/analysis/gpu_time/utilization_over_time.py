"""GPU utilization over the course of a session, and intervals of low utilization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.idle_gaps import busy_sets
from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet
from tui.analysis.gpu_time.timelines import timelines

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile


CHUNKS: Final = 30
"""As in Nsight Systems' rule of GPU time utilization."""
LOW_PCT: Final = 50.0

_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "chunk": pl.Int64,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "busy_ns": pl.Int64,
    }
)


def utilization_in_chunks(profile: Profile, chunks: int = CHUNKS) -> pl.DataFrame:
    """How busy each GPU was in equal chunks of the time from its first start to its last end.

    Columns: session, device, chunk (from 0), start_ns, duration_ns, busy_ns (union of its work), busy_pct (null in
    chunks without length). Chunks differ by 1 ns where the time cannot be divided.
    """
    parts = [pl.DataFrame(schema=_SCHEMA)]
    for line, working in zip(timelines(profile), busy_sets(profile), strict=True):
        first, last = int(line.starts[0]), int(line.ends.max())
        edges = first + (last - first) * np.arange(chunks + 1, dtype=np.float64) / chunks
        bounds = np.round(edges - first).astype(np.int64) + first
        busy = np.diff(working.until(bounds))
        parts.append(
            pl.DataFrame(
                {
                    "session": line.session,
                    "device": pl.Series([line.device] * chunks, dtype=pl.Int32),
                    "chunk": np.arange(chunks),
                    "start_ns": bounds[:-1],
                    "duration_ns": np.diff(bounds),
                    "busy_ns": busy,
                }
            ).cast(_SCHEMA)
        )
    return _with_share(pl.concat(parts))


def low_utilization(profile: Profile, chunks: int = CHUNKS, below_pct: float = LOW_PCT) -> pl.DataFrame:
    """Neighboring chunks in which a GPU was busy for less than a share of the time, taken together, by time.

    Columns: session, device, start_ns, duration_ns, busy_ns, busy_pct.
    """
    by = ("session", "device")
    is_low = pl.col("busy_pct") < below_pct
    return _with_share(
        utilization_in_chunks(profile, chunks)
        .with_columns(is_low.fill_null(False).alias("low"))
        .with_columns(pl.col("low").rle_id().over(by).alias("interval"))
        .filter("low")
        .group_by(*by, "interval", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("duration_ns").sum(), pl.col("busy_ns").sum())
        .drop("interval")
    )


def _with_share(rows: pl.DataFrame) -> pl.DataFrame:
    share = pl.when(pl.col("duration_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("duration_ns"))
    return rows.with_columns(share.alias("busy_pct"))


def busy_intervals(profile: Profile) -> dict[tuple[int, int | None], IntervalSet]:
    """For each session and GPU when it had work."""
    sets = zip(timelines(profile), busy_sets(profile), strict=True)
    return {(line.session, line.device): busy for line, busy in sets}


def busy_over_time(
    profile: Profile, *, session: int, device: int | None, first_ns: int, last_ns: int, bins: int
) -> npt.NDArray[np.float64]:
    """The share of each of ``bins`` equal steps of time in which a GPU had work.

    Args:
        profile: What was read.
        session: Of which session.
        device: Of which GPU; None: of the activities of which the input does not name the GPU.
        first_ns: Where the first step starts.
        last_ns: Where the last step ends.
        bins: How many steps.

    Returns:
        ``bins`` values of 0 to 1; empty where there is no time to divide.
    """
    union = busy_intervals(profile).get((session, device), EMPTY)
    if bins <= 0 or last_ns <= first_ns or not len(union.starts):
        return np.zeros(max(0, bins) if last_ns > first_ns else 0)
    # Busy time up to a moment is a broken line through the edges of the union: its differences are the bins.
    moments = np.stack((union.starts, union.ends), axis=1).ravel()
    busy = np.stack((union.before, union.before + union.ends - union.starts), axis=1).ravel()
    edges = np.linspace(first_ns, last_ns, bins + 1)
    shares = np.diff(np.interp(edges, moments, busy)) / ((last_ns - first_ns) / bins)
    clipped: npt.NDArray[np.float64] = np.clip(shares, 0.0, 1.0)
    return clipped
