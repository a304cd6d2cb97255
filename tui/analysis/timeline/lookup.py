"""Lookup on the timeline: items at a position, gaps, neighbors, linked rows and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from tui.analysis.critical_path import shown_paths
from tui.analysis.critical_path_trace import GPU_WORK, PathKind, base_profile, traces
from tui.analysis.gpu_time.interval_sets import EMPTY, union_of
from tui.analysis.gpu_time.timelines import classify_values
from tui.analysis.timeline.lanes import GAP_BLOCK, LaneKind
from tui.correlation.launches import thread_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from tui.analysis.timeline.lanes import Lane
    from tui.analysis.timeline.shown import ShownLanes
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TimeInterval:
    """A time interval."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        """The duration."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Gap:
    """An interval without work on a GPU of a session, by the session's own clock."""

    session: int
    device: int | None
    start_ns: int
    length_ns: int


@dataclass(frozen=True, slots=True)
class LaneActivity:
    """The activity of a lane between two moments."""

    busy_ns: int
    begun: int
    """Items that started."""


def items_at(lane: Lane, first_ns: int, last_ns: int) -> Ints:
    """Return the items that are active between two moments, by start."""
    low = int(np.searchsorted(lane.reached, first_ns, side="right"))
    high = int(np.searchsorted(lane.starts, last_ns, side="left"))
    # An item of zero length counts at its start.
    low = min(low, int(np.searchsorted(lane.starts, first_ns, side="left")))
    ends, starts = lane.ends[low:high], lane.starts[low:high]
    return low + np.flatnonzero((ends > first_ns) | (starts >= first_ns))


def main_item(lane: Lane, first_ns: int, last_ns: int) -> int | None:
    """Return the item with most time in a slice, the earliest of equals; None if nothing is active."""
    items = items_at(lane, first_ns, last_ns)
    if not len(items):
        return None
    taken = np.minimum(lane.ends[items], last_ns) - np.maximum(lane.starts[items], first_ns)
    return int(items[np.argmax(taken)])


def lane_activity(lane: Lane, first_ns: int, last_ns: int) -> LaneActivity:
    """Return the activity of a lane between two moments."""
    edges = np.array([first_ns, last_ns], np.int64)
    busy = lane.segments.until(edges).sum(axis=1)
    begun = np.searchsorted(lane.starts, edges, side="left")
    return LaneActivity(int(busy[1] - busy[0]), int(begun[1] - begun[0]))


def next_gap(lane: Lane, at_ns: int, step: int, *, least_ns: int) -> TimeInterval | None:
    """Return the first gap of at least ``least_ns`` that starts after a moment, or (-1) the last before it."""
    least = max(least_ns, lane.resolution_ns)
    # The gap before item i starts where all previous items have ended.
    side: Literal["left", "right"] = "right" if step > 0 else "left"
    here = int(np.searchsorted(lane.reached, at_ns, side=side)) + 1
    for first, last in _ranges_with_gaps(lane, here, step, least):
        lengths = lane.starts[first:last] - lane.reached[first - 1 : last - 1]
        found = np.flatnonzero(lengths >= least)
        if len(found):
            after = first + int(found[0 if step > 0 else -1])
            return TimeInterval(int(lane.reached[after - 1]), int(lane.starts[after]))
    return None


def _ranges_with_gaps(lane: Lane, here: int, step: int, least_ns: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of items that contain such a gap: forward from one item, or (-1) backward."""
    low, high = (here, len(lane.starts)) if step > 0 else (1, min(here, len(lane.starts)))
    blocks = np.flatnonzero(lane.widest_gaps_ns >= least_ns)
    blocks = blocks[(blocks >= (low - 1) // GAP_BLOCK) & (blocks <= (high - 2) // GAP_BLOCK)]
    for block in blocks.tolist()[::step]:
        first = 1 + block * GAP_BLOCK
        yield max(low, first), min(high, first + GAP_BLOCK)


def longest_lane_gaps(lane: Lane, count: int) -> list[TimeInterval]:
    """Return the longest gaps of a lane, the longest first, the earlier of equals first."""
    starts, ends = lane.gaps()
    lengths = ends - starts
    if len(lengths) > count:
        # Keep all gaps as long as the last one: the earlier ones of equal gaps are chosen.
        least = np.partition(lengths, len(lengths) - count)[len(lengths) - count]
        chosen = np.flatnonzero(lengths >= least)
        starts, ends, lengths = starts[chosen], ends[chosen], lengths[chosen]
    order = np.argsort(-lengths, kind="stable")[:count]
    return [TimeInterval(int(starts[place]), int(ends[place])) for place in order]


def gap_at(lane: Lane, at_ns: int) -> TimeInterval | None:
    """Return the gap around a moment, as far as the resolution of the start times allows."""
    after = int(np.searchsorted(lane.starts, at_ns, side="right"))
    if not 0 < after < len(lane.starts):
        return None
    gap = TimeInterval(int(lane.reached[after - 1]), int(lane.starts[after]))
    return gap if gap.start_ns <= at_ns and gap.length_ns >= lane.resolution_ns else None


def names_around(profile: Profile, lane: Lane, gap: TimeInterval) -> tuple[str, str]:
    """Return the name of the last work before a gap of a lane, and of the first work after it."""
    first = int(np.searchsorted(lane.reached, gap.start_ns, side="left"))
    after = int(np.searchsorted(lane.starts, gap.end_ns, side="left"))
    before = first + int(np.flatnonzero(lane.ends[first:after] == gap.start_ns)[-1])
    return item_name(profile, lane, before), item_name(profile, lane, after)


def lane_of_gpu(lanes: Sequence[Lane], session: int, device: int | None) -> int | None:
    """Return the lane of all work of a GPU; None if it is not shown."""
    of_it = (
        place for place, lane in enumerate(lanes) if lane.on_gpu and lane.session == session and lane.device == device
    )
    return next(of_it, None)


def item_of_row(profile: Profile, lane: Lane, row: int) -> int | None:
    """Return the index in a lane of a row of its frame; None if it is not in the lane."""
    start = profile[lane.frame]["start_ns"][row]
    if start is None:
        return None
    first, last = (int(np.searchsorted(lane.starts, start, side=side)) for side in ("left", "right"))
    found = np.flatnonzero(lane.rows[first:last] == row)
    return first + int(found[0]) if len(found) else None


def items_of_rows(profile: Profile, lanes: Sequence[Lane], frame: str, rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the lanes of rows of a frame and their indices there, lanes of single streams first."""
    found = []
    for number, lane in enumerate(lanes):
        if lane.frame == frame:
            places = [item_of_row(profile, lane, row) for row in rows]
            found += [(number, place) for place in places if place is not None]
    return sorted(found, key=lambda place: lanes[place[0]].kind is LaneKind.GPU)


def names_in_slice(profile: Profile, lane: Lane, first_ns: int, last_ns: int) -> pl.DataFrame:
    """Return the names active in a slice of time, the longest first: name, count, time_ns (in the slice)."""
    items = items_at(lane, first_ns, last_ns)
    taken = np.minimum(lane.ends[items], last_ns) - np.maximum(lane.starts[items], first_ns)
    return (
        pl.DataFrame(
            {"name": profile[lane.frame]["name"].gather(pl.Series(lane.rows[items])), "time_ns": np.maximum(taken, 0)}
        )
        .group_by("name")
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("time_ns").sum())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("time_ns", "name", descending=[True, False])
    )


def top_of_gpus(profile: Profile, shown: ShownLanes, first_ns: int, last_ns: int) -> pl.DataFrame:
    """Return the names of GPU work between two moments of the ruler, the longest first.

    Args:
        profile: The profile.
        shown: Its lanes.
        first_ns: The first moment.
        last_ns: The moment after the last.

    Returns:
        name, kind (`ItemKind`), count, time_ns (within the moments; of streams that overlap it adds up).
    """
    parts = []
    for lane in shown.lanes:
        # The lane of a whole GPU repeats the items of its streams.
        if lane.kind is not LaneKind.STREAM:
            continue
        shift = shown.shifts[lane.session]
        items = items_at(lane, first_ns - shift, last_ns - shift)
        taken = np.minimum(lane.ends[items], last_ns - shift) - np.maximum(lane.starts[items], first_ns - shift)
        names = profile[lane.frame]["name"].gather(pl.Series(lane.rows[items]))
        parts.append(pl.DataFrame({"name": names, "kind": lane.item_kinds[items], "time_ns": np.maximum(taken, 0)}))
    if not parts:
        return pl.DataFrame(schema={"name": pl.String, "kind": pl.Int8, "count": pl.Int64, "time_ns": pl.Int64})
    return (
        pl.concat(parts)
        .group_by("name")
        .agg(pl.col("kind").first(), pl.len().cast(pl.Int64).alias("count"), pl.col("time_ns").sum())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("time_ns", "name", descending=[True, False])
    )


def item_name(profile: Profile, lane: Lane, item: int) -> str:
    """Return the name of an item of a lane."""
    name = profile[lane.frame]["name"][int(lane.rows[item])]
    return "" if name is None else str(name)


def linked_rows(profile: Profile, lane: Lane, item: int) -> tuple[str, list[int]]:
    """Return the API call that launched GPU work, or the GPU work that a call launched: its frame, and the rows.

    Both have the same number (``correlation``) in the same session. Ops and ranges have none.
    """
    frame = profile[lane.frame]
    if "correlation" not in frame.columns:
        return "", []
    row = int(lane.rows[item])
    correlation = frame["correlation"][row]
    other = "api_calls" if lane.on_gpu else "activities"
    if correlation is None:
        return other, []
    rows = profile[other].select(
        pl.arg_where((pl.col("correlation") == correlation) & (pl.col("session") == lane.session))
    )
    return other, rows.to_series().to_list()


@dataclass(frozen=True, slots=True)
class LaneHits:
    """The items of a lane whose name matches a search."""

    items: Ints
    starts: Ints
    reached: Ints
    """The latest end of each and all before it; one that takes no time reaches a nanosecond."""

    def in_cells(self, edges: Ints) -> Flags:
        """Return flags for the cells that contain a hit."""
        begun = np.searchsorted(self.starts, edges[1:], side="left")
        ended = np.searchsorted(self.reached, edges[:-1], side="right")
        found: Flags = begun > ended
        return found


@dataclass(frozen=True, slots=True)
class Hits:
    """All occurrences, in time order."""

    by_lane: Mapping[int, LaneHits]
    """The hits of each lane that has some, by lane index."""
    starts: Ints
    lanes: Ints
    items: Ints

    def step(self, at_ns: int, here: tuple[int, int] | None, by: int) -> int | None:
        """Return the occurrence after (1) or before (-1) a moment, or the cursor's occurrence; wraps around."""
        if not len(self.starts):
            return None
        if here is not None:
            place = np.flatnonzero((self.lanes == here[0]) & (self.items == here[1]))
            if len(place):
                return int(place[0] + by) % len(self.starts)
        at = int(np.searchsorted(self.starts, at_ns, side="left"))
        return (at if by > 0 else at - 1) % len(self.starts)


def find_name(profile: Profile, shown: ShownLanes, text: str, *, is_exact: bool = False) -> Hits:
    """Return the items whose name contains a text; a capital letter makes the search case-sensitive.

    A lane of all streams of a GPU is omitted: its items are those of the streams.

    Args:
        profile: The profile.
        shown: The lanes to search.
        text: The text to find.
        is_exact: Whether the text is the complete name.
    """
    wanted: dict[str, npt.NDArray[np.int8]] = {}

    def matching(lane: Lane) -> Flags:
        if lane.frame not in wanted:
            wanted[lane.frame] = classify_values(
                profile[lane.frame]["name"], lambda names: _matching(names, text, is_exact=is_exact)
            )
        found: Flags = wanted[lane.frame][lane.rows] != 0
        return found

    return _hits(shown, matching)


def find_critical_path(profile: Profile, shown: ShownLanes) -> Hits:
    """Return the GPU work, calls and ops on the critical paths of the iterations."""
    found = traces(base_profile(profile))
    on_path: dict[int, set[int]] = {}
    cpu: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for segment in (segment for _, path in shown_paths(profile) for segment in path):
        trace = found[segment.on_session]
        if segment.kind in GPU_WORK:
            on_path.setdefault(trace.session, set()).add(int(trace.row[segment.activity]))
        elif segment.kind == PathKind.CPU_OP:
            begins, ends = cpu.setdefault((trace.session, segment.thread), ([], []))
            begins.append(segment.start_ns - trace.shift_ns)
            ends.append(segment.end_ns - trace.shift_ns)
    times = {key: union_of(np.array(begins, np.int64), np.array(ends, np.int64)) for key, (begins, ends) in cpu.items()}
    numbers = base_profile(profile)["activities"]["activity"]
    activities = {session: numbers.gather(sorted(rows)) for session, rows in on_path.items()}

    def matching(lane: Lane) -> Flags:
        if lane.on_gpu:
            own = profile["activities"]["activity"].gather(pl.Series(lane.rows))
            wanted: Flags = own.is_in(activities.get(lane.session, own.clear()).implode()).to_numpy()
            return wanted
        thread = thread_codes(pl.Series([lane.pid], dtype=pl.Int64), pl.Series([lane.tid], dtype=pl.Int64))
        of_thread = times.get((lane.session, int(thread[0])), EMPTY)
        covered: Flags = of_thread.within(lane.starts, lane.ends) > 0
        return covered if lane.kind is not LaneKind.RANGES else np.zeros(len(lane.starts), bool)

    return _hits(shown, matching)


def _hits(shown: ShownLanes, matching: Callable[[Lane], Flags]) -> Hits:
    """Return the matching items, without lanes of all streams of a GPU."""
    by_lane = {}
    for place, lane in enumerate(shown.lanes):
        if lane.kind is LaneKind.GPU:
            continue
        items = np.flatnonzero(matching(lane))
        if len(items):
            shift = shown.shifts[lane.session]
            # An item of zero length is in the cell of its start.
            reached = np.maximum.accumulate(np.maximum(lane.ends[items], lane.starts[items] + 1)) + shift
            by_lane[place] = LaneHits(items, lane.starts[items] + shift, reached)
    if not by_lane:
        none = np.zeros(0, np.int64)
        return Hits({}, none, none, none)
    starts = np.concatenate([found.starts for found in by_lane.values()])
    lanes = np.concatenate([np.full(len(found.items), place) for place, found in by_lane.items()])
    items = np.concatenate([found.items for found in by_lane.values()])
    # Starts are sorted within lanes: a stable sort is quick, and keeps the order of lanes.
    order = np.argsort(starts, kind="stable")
    return Hits(by_lane, starts[order], lanes[order], items[order])


def _matching(names: pl.Series, text: str, *, is_exact: bool) -> npt.NDArray[np.int8]:
    if is_exact:
        return (names == text).cast(pl.Int8).to_numpy()
    if text == text.lower():
        names = names.str.to_lowercase()
    return names.str.contains(text, literal=True).cast(pl.Int8).to_numpy()
