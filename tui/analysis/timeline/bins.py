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
LOOKED_AT: Final = 16
"""Of so many items that began one after another one is looked for that is on for all of a slice."""


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


def spanning(lane: Lane, edges: Ints, looks: Looks) -> Ints:
    """For each slice the item of its look that is on from its begin to its end; `NOTHING` where there is none.

    Of several it is the latest begun. Only the last `LOOKED_AT` that began before a slice are looked at.

    Args:
        lane: The lane.
        edges: Moments, in order.
        looks: Of each slice, see `Bins`.
    """
    found = np.full(len(edges) - 1, NOTHING, np.int64)
    at, until = np.searchsorted(lane.starts, edges[:-1], side="right") - 1, edges[1:]
    left = np.flatnonzero(at >= 0)
    for back in range(LOOKED_AT):
        items = at[left] - back
        # Where nothing reaches the end of a slice, nothing that began earlier does.
        going = (items >= 0) & (lane.reached[items] >= until[left])
        left, items = left[going], items[going]
        if not len(left):
            break
        there = (lane.ends[items] >= until[left]) & (lane.looks[items] == looks[left])
        found[left[there]] = items[there]
        left = left[~there]
    return found
