"""The profiled processes of an input, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.analysis.durations import total
from tui.analysis.kernels import kernels

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile


def session_times(profile: Profile) -> pl.DataFrame:
    """One row per session, in order: session, format, command, pid, first_line, last_line, gpu_ns.

    ``gpu_ns`` is the summed time of its GPU activities; null where the log does not hold any.
    """
    times = kernels(profile).group_by("session").agg(total("total_ns").alias("gpu_ns"))
    sessions = profile["sessions"].select("session", "format", "command", "pid", "first_line", "last_line")
    return sessions.join(times, on="session", how="left", maintain_order="left").sort("session")
