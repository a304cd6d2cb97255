"""The measured analyses; each takes a path in the folder of `bench.generate_profile.stored_frames`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from bench.generate_profile import read_frames
from tui.analysis import copies
from tui.analysis import dashboard as dashboard_
from tui.analysis import kernels as kernels_
from tui.analysis import launch_calls as launch_delays
from tui.analysis.dashboard import dashboard_parts
from tui.analysis.expert.findings import findings
from tui.analysis.gpu_time import breakdown as breakdown_
from tui.analysis.gpu_time import breakdown as low_use_
from tui.analysis.gpu_time import idle_gaps
from tui.analysis.gpu_time import idle_gaps as gaps_
from tui.analysis.gpu_time import overlap as overlap_
from tui.analysis.iterations import iteration_table as iterations_
from tui.model.profile import Profile

Measured = tuple[int, float]
"""The number of activities, and seconds."""


def _measured(
    path: str, work: Callable[[Profile], object], before: Callable[[Profile], object] | None = None
) -> Measured:
    profile = read_frames(Path(path).parent)
    # The first operation in a process pays for starting threads.
    profile["activities"].head(1000).group_by("name").agg(pl.len())
    if before is not None:
        before(profile)
    began = time.perf_counter()
    work(profile)
    return profile["activities"].height, time.perf_counter() - began


def group_by(path: str) -> Measured:
    """Launches and time of each name."""
    return _measured(
        path,
        lambda profile: (
            profile["activities"].group_by("session", "kind", "name").agg(pl.len(), pl.col("duration_ns").sum())
        ),
    )


def kernels(path: str) -> Measured:
    """GPU work by name."""
    return _measured(path, kernels_.kernels)


def busy_time(path: str) -> Measured:
    """Busy and idle time of each GPU."""
    return _measured(path, idle_gaps.busy_time)


def breakdown(path: str) -> Measured:
    """Breakdown of the wall time."""
    return _measured(path, breakdown_.breakdown)


def overlap(path: str) -> Measured:
    """Overlap of GPU work."""
    return _measured(path, overlap_.overlap)


def idle_time(path: str) -> Measured:
    """Causes of idle time."""
    return _measured(path, gaps_.idle_time)


def low_use(path: str) -> Measured:
    """Intervals of low utilization."""
    return _measured(path, lambda profile: low_use_.low_utilization(profile, 50))


def gaps(path: str) -> Measured:
    """Every gap."""
    return _measured(path, gaps_.gaps)


def delays_by_name(path: str) -> Measured:
    """Launch delays by name."""
    return _measured(path, launch_delays.delays_by_name)


def transfers(path: str) -> Measured:
    """Copies by direction."""
    return _measured(path, copies.transfers)


def transfer_sizes(path: str) -> Measured:
    """Copies by size."""
    return _measured(path, copies.transfer_sizes)


def tiny_runs(path: str) -> Measured:
    """Runs of tiny copies."""
    return _measured(path, copies.tiny_runs)


def iterations_found(path: str) -> Measured:
    """Iterations found as a repeating pattern of launches."""
    return _measured(path, lambda profile: iterations_.iterations(_without_iterations(profile)))


def _without_iterations(profile: Profile) -> Profile:
    """The same work without iterations."""
    unmarked = profile["activities"].with_columns(pl.lit(None, pl.Int32).alias("iteration"))
    return Profile({**profile.frames, "activities": unmarked}, profile.sources)


def rules(path: str) -> Measured:
    """All rules."""
    return _measured(path, findings)


def rules_after_dashboard(path: str) -> Measured:
    """All rules after the Dashboard was shown, as in the explorer."""
    return _measured(path, findings, before=dashboard_.dashboard)


def dashboard(path: str) -> Measured:
    """The board of the Dashboard, which is shown first."""
    return _measured(path, dashboard_.dashboard)


def whole_dashboard(path: str) -> Measured:
    """All panels of the Dashboard."""
    return _measured(path, lambda profile: list(dashboard_parts(profile)))


def time_figures(path: str) -> Measured:
    """Busy time, breakdown, overlap, idle time and transfers, one after another."""
    return _measured(
        path,
        lambda profile: [
            work(profile)
            for work in (
                idle_gaps.busy_time,
                breakdown_.breakdown,
                overlap_.overlap,
                gaps_.idle_time,
                copies.transfers,
            )
        ],
    )
