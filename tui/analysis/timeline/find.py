"""Where names occur on the timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.gpu_time.timelines import classes_of
from tui.analysis.timeline.lanes import LaneKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tui.analysis.timeline.shown import Shown
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LaneHits:
    """The items of a lane whose name was looked for."""

    items: Ints
    starts: Ints
    reached: Ints
    """The latest end of each and all before it; one that takes no time reaches a nanosecond."""

    def in_cells(self, edges: Ints) -> Flags:
        """Which cells hold a part of one."""
        begun = np.searchsorted(self.starts, edges[1:], side="left")
        ended = np.searchsorted(self.reached, edges[:-1], side="right")
        found: Flags = begun > ended
        return found


@dataclass(frozen=True, slots=True)
class Hits:
    """All occurrences, in order of time."""

    by_lane: Mapping[int, LaneHits]
    """For each lane that has some, by its place."""
    starts: Ints
    lanes: Ints
    items: Ints

    def step(self, at_ns: int, here: tuple[int, int] | None, by: int) -> int | None:
        """The occurrence after (1) or before (-1) a moment, or the one that the cursor is on; around the end."""
        if not len(self.starts):
            return None
        if here is not None:
            place = np.flatnonzero((self.lanes == here[0]) & (self.items == here[1]))
            if len(place):
                return int(place[0] + by) % len(self.starts)
        at = int(np.searchsorted(self.starts, at_ns, side="left"))
        return (at if by > 0 else at - 1) % len(self.starts)


def find_name(profile: Profile, shown: Shown, text: str, *, whole: bool = False) -> Hits:
    """The items whose name holds a text; a capital in it makes the case count.

    A lane of all streams of a GPU is left out: its items are those of the streams.

    Args:
        profile: What was read.
        shown: The lanes to look in.
        text: What to look for.
        whole: It is the whole name, as it stands.
    """
    wanted: dict[str, npt.NDArray[np.int8]] = {}
    by_lane = {}
    for place, lane in enumerate(shown.lanes):
        if lane.kind is LaneKind.GPU:
            continue
        if lane.frame not in wanted:
            wanted[lane.frame] = classes_of(
                profile[lane.frame]["name"], lambda names: _matching(names, text, whole=whole)
            )
        items = np.flatnonzero(wanted[lane.frame][lane.rows])
        if len(items):
            shift = shown.shifts[lane.session]
            # What takes no time is in the cell that it begins in.
            reached = np.maximum.accumulate(np.maximum(lane.ends[items], lane.starts[items] + 1)) + shift
            by_lane[place] = LaneHits(items, lane.starts[items] + shift, reached)
    if not by_lane:
        none = np.zeros(0, np.int64)
        return Hits({}, none, none, none)
    starts = np.concatenate([found.starts for found in by_lane.values()])
    lanes = np.concatenate([np.full(len(found.items), place) for place, found in by_lane.items()])
    items = np.concatenate([found.items for found in by_lane.values()])
    # Runs that are in order: this sort sees that, and leaves equal starts in the order of the lanes.
    order = np.argsort(starts, kind="stable")
    return Hits(by_lane, starts[order], lanes[order], items[order])


def _matching(names: pl.Series, text: str, *, whole: bool) -> npt.NDArray[np.int8]:
    if whole:
        return (names == text).cast(pl.Int8).to_numpy()
    if text == text.lower():
        names = names.str.to_lowercase()
    return names.str.contains(text, literal=True).cast(pl.Int8).to_numpy()
