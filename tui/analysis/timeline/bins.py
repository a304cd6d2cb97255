"""What each slice of time of a lane holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.timeline.lanes import Lane

    Ints = npt.NDArray[np.int64]
    Looks = npt.NDArray[np.int8]

NOTHING: Final = -1
"""In place of a look or an item: there is none."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Slices of time of a lane, from left to right."""

    busy_ns: Ints
    """How much of each something was on."""
    looks: Looks
    """What took most of it, or what began first where nothing took time; `NOTHING` where there is none."""
    begun: Ints
    """How many items began in each."""


def bins(lane: Lane, edges: Ints) -> Bins:
    """What lies between each two neighbouring moments.

    The busy time of slices that cover all of a lane adds up to the lane's.

    Args:
        lane: The lane.
        edges: Moments, in order.
    """
    of_kinds = np.diff(lane.segments.until(edges), axis=0)
    busy = of_kinds.sum(axis=1)
    begun = np.searchsorted(lane.starts, edges, side="left")
    looks = np.full(len(edges) - 1, NOTHING, np.int8)
    if of_kinds.shape[1]:
        looks = np.where(busy > 0, lane.segments.kinds[of_kinds.argmax(axis=1)], np.int8(NOTHING))
    count = np.diff(begun)
    moments = np.flatnonzero((busy <= 0) & (count > 0))
    looks[moments] = lane.looks[begun[moments]]
    return Bins(busy, looks, count)


def spanning(lane: Lane, edges: Ints) -> Ints:
    """For each slice the item that is on from its begin to its end, the latest begun; `NOTHING` where there is none."""
    if not len(lane.starts):
        return np.full(len(edges) - 1, NOTHING, np.int64)
    at = np.searchsorted(lane.starts, edges[:-1], side="right") - 1
    there = (at >= 0) & (lane.ends[at] >= edges[1:])
    return np.where(there, at, NOTHING)
