"""How busy a GPU was over the course of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tui.analysis.gpu_time.holes import busy_sets
from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet
from tui.analysis.gpu_time.timelines import timelines

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile


def busy_stretches(profile: Profile) -> dict[tuple[int, int | None], IntervalSet]:
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
        first_ns: Where the first step begins.
        last_ns: Where the last step ends.
        bins: How many steps.

    Returns:
        ``bins`` values of 0 to 1; empty where there is no time to divide.
    """
    union = busy_stretches(profile).get((session, device), EMPTY)
    if bins <= 0 or last_ns <= first_ns or not len(union.starts):
        return np.zeros(max(0, bins) if last_ns > first_ns else 0)
    # Busy time up to a moment is a broken line through the edges of the union: its differences are the bins.
    moments = np.stack((union.starts, union.ends), axis=1).ravel()
    busy = np.stack((union.before, union.before + union.ends - union.starts), axis=1).ravel()
    edges = np.linspace(first_ns, last_ns, bins + 1)
    shares = np.diff(np.interp(edges, moments, busy)) / ((last_ns - first_ns) / bins)
    clipped: npt.NDArray[np.float64] = np.clip(shares, 0.0, 1.0)
    return clipped
