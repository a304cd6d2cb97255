"""Stretches of time in which a GPU had little to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.holes import busy_sets
from tui.analysis.gpu_time.timelines import timelines

if TYPE_CHECKING:
    from tui.model.profile import Profile

CHUNKS: Final = 30
"""As in Nsight Systems' rule of GPU time utilisation."""
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


def use_in_chunks(profile: Profile, chunks: int = CHUNKS) -> pl.DataFrame:
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


def low_use(profile: Profile, chunks: int = CHUNKS, below_pct: float = LOW_PCT) -> pl.DataFrame:
    """Neighbouring chunks in which a GPU was busy for less than a share of the time, taken together, by time.

    Columns: session, device, start_ns, duration_ns, busy_ns, busy_pct.
    """
    by = ("session", "device")
    is_low = pl.col("busy_pct") < below_pct
    return _with_share(
        use_in_chunks(profile, chunks)
        .with_columns(is_low.fill_null(False).alias("low"))
        .with_columns(pl.col("low").rle_id().over(by).alias("stretch"))
        .filter("low")
        .group_by(*by, "stretch", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("duration_ns").sum(), pl.col("busy_ns").sum())
        .drop("stretch")
    )


def _with_share(rows: pl.DataFrame) -> pl.DataFrame:
    share = pl.when(pl.col("duration_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("duration_ns"))
    return rows.with_columns(share.alias("busy_pct"))
