"""The profiled processes of an input, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.durations import total
from tui.analysis.kernels import kernels

if TYPE_CHECKING:
    from tui.model.profile import Profile


def rank_words() -> pl.Expr:
    """The rank of a session in words; null where it has none.

    >>> pl.DataFrame({"rank": [1, 0, None], "world_size": [2, None, 2]}).select(rank_words())["rank_words"].to_list()
    ['rank 1 of 2', 'rank 0', None]
    """
    rank = pl.format("rank {}", "rank")
    return pl.coalesce(rank + pl.format(" of {}", "world_size"), rank).alias("rank_words")


def session_times(profile: Profile) -> pl.DataFrame:
    """One row per session, in order: session, label, pid, rank_words, host, first_line, last_line, gpu_ns.

    ``label`` is the command that was profiled, else the file where there are several, else the format. ``gpu_ns`` is
    the summed time of its GPU activities; null where the log does not hold any. ``rank_words`` is its rank, as
    ``rank 1 of 2``.
    """
    file = pl.col("source").str.split("/").list.last()
    name = file if profile["sessions"]["source"].n_unique() > 1 else pl.col("format").cast(pl.String)
    label = pl.coalesce(pl.col("command").cast(pl.String), name).alias("label")
    times = kernels(profile).group_by("session").agg(total("total_ns").alias("gpu_ns"))
    sessions = profile["sessions"].select("session", label, "pid", rank_words(), "host", "first_line", "last_line")
    return sessions.join(times, on="session", how="left", maintain_order="left").sort("session")
