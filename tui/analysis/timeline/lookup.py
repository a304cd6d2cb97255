"""Lookup on the timeline: items at a position, gaps, neighbors, linked rows and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from tui.analysis.critical_path import base_profile, shown_paths
from tui.analysis.critical_path_trace import GPU_WORK, PathKind, traces
from tui.analysis.gpu_time.interval_sets import EMPTY, interval_union
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
    started: int
    """Items that started."""


def items_at(lane: Lane, first_ns: int, last_ns: int) -> Ints:
    """Return the items that are active between two moments, by start."""
    low = int(np.searchsorted(lane.latest_ends, first_ns, side="right"))
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
    overlaps = np.minimum(lane.ends[items], last_ns) - np.maximum(lane.starts[items], first_ns)
    return int(items[np.argmax(overlaps)])


def lane_activity(lane: Lane, first_ns: int, last_ns: int) -> LaneActivity:
    """Return the activity of a lane between two moments."""
    edges = np.array([first_ns, last_ns], np.int64)
    busy = lane.segments.time_before(edges).sum(axis=1)
    started = np.searchsorted(lane.starts, edges, side="left")
    return LaneActivity(int(busy[1] - busy[0]), int(started[1] - started[0]))


def next_gap(lane: Lane, at_ns: int, step: int, *, min_length_ns: int) -> TimeInterval | None:
    """Return the first gap of at least ``min_length_ns`` that starts after a moment, or (-1) the last before it."""
    min_ns = max(min_length_ns, lane.resolution_ns)
    # The gap before item i starts where all previous items have ended.
    side: Literal["left", "right"] = "right" if step > 0 else "left"
    first_item = int(np.searchsorted(lane.latest_ends, at_ns, side=side)) + 1
    for first, last in _ranges_with_gaps(lane, first_item, step, min_ns):
        lengths = lane.starts[first:last] - lane.latest_ends[first - 1 : last - 1]
        indices = np.flatnonzero(lengths >= min_ns)
        if len(indices):
            item = first + int(indices[0 if step > 0 else -1])
            return TimeInterval(int(lane.latest_ends[item - 1]), int(lane.starts[item]))
    return None


def _ranges_with_gaps(lane: Lane, item: int, step: int, min_length_ns: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of items that contain such a gap: forward from one item, or (-1) backward."""
    low, high = (item, len(lane.starts)) if step > 0 else (1, min(item, len(lane.starts)))
    blocks = np.flatnonzero(lane.widest_gaps_ns >= min_length_ns)
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
        min_length = np.partition(lengths, len(lengths) - count)[len(lengths) - count]
        chosen = np.flatnonzero(lengths >= min_length)
        starts, ends, lengths = starts[chosen], ends[chosen], lengths[chosen]
    order = np.argsort(-lengths, kind="stable")[:count]
    return [TimeInterval(int(starts[index]), int(ends[index])) for index in order]


def gap_at(lane: Lane, at_ns: int) -> TimeInterval | None:
    """Return the gap around a moment, as far as the resolution of the start times allows."""
    next_item = int(np.searchsorted(lane.starts, at_ns, side="right"))
    if not 0 < next_item < len(lane.starts):
        return None
    gap = TimeInterval(int(lane.latest_ends[next_item - 1]), int(lane.starts[next_item]))
    return gap if gap.start_ns <= at_ns and gap.length_ns >= lane.resolution_ns else None


def names_around(profile: Profile, lane: Lane, gap: TimeInterval) -> tuple[str, str]:
    """Return the name of the last work before a gap of a lane, and of the first work after it."""
    first = int(np.searchsorted(lane.latest_ends, gap.start_ns, side="left"))
    next_item = int(np.searchsorted(lane.starts, gap.end_ns, side="left"))
    last_item = first + int(np.flatnonzero(lane.ends[first:next_item] == gap.start_ns)[-1])
    return item_name(profile, lane, last_item), item_name(profile, lane, next_item)


def gpu_lane(lanes: Sequence[Lane], session: int, device: int | None) -> int | None:
    """Return the lane of all work of a GPU; None if it is not shown."""
    indices = (
        index for index, lane in enumerate(lanes) if lane.on_gpu and lane.session == session and lane.device == device
    )
    return next(indices, None)


def row_item(profile: Profile, lane: Lane, row: int) -> int | None:
    """Return the index in a lane of a row of its frame; None if it is not in the lane."""
    start = profile[lane.frame]["start_ns"][row]
    if start is None:
        return None
    first, last = (int(np.searchsorted(lane.starts, start, side=side)) for side in ("left", "right"))
    matches = np.flatnonzero(lane.rows[first:last] == row)
    return first + int(matches[0]) if len(matches) else None


def row_items(profile: Profile, lanes: Sequence[Lane], frame: str, rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the lanes of rows of a frame and their indices there, lanes of single streams first."""
    items = []
    for number, lane in enumerate(lanes):
        if lane.frame == frame:
            indices = [row_item(profile, lane, row) for row in rows]
            items += [(number, index) for index in indices if index is not None]
    return sorted(items, key=lambda index: lanes[index[0]].kind is LaneKind.GPU)


def names_in_slice(profile: Profile, lane: Lane, first_ns: int, last_ns: int) -> pl.DataFrame:
    """Return the names active in a slice of time, the longest first: name, count, time_ns (in the slice)."""
    items = items_at(lane, first_ns, last_ns)
    overlaps = np.minimum(lane.ends[items], last_ns) - np.maximum(lane.starts[items], first_ns)
    return (
        pl.DataFrame(
            {
                "name": profile[lane.frame]["name"].gather(pl.Series(lane.rows[items])),
                "time_ns": np.maximum(overlaps, 0),
            }
        )
        .group_by("name")
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("time_ns").sum())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("time_ns", "name", descending=[True, False])
    )


def longest_gpu_work(profile: Profile, shown: ShownLanes, first_ns: int, last_ns: int) -> pl.DataFrame:
    """Return the names of GPU work between two moments of the ruler, the longest first.

    Args:
        profile: The profile.
        shown: Its lanes.
        first_ns: The first moment.
        last_ns: The moment after the last.

    Returns:
        name, kind (`ItemKind`), count, time_ns (within the moments; of streams that overlap it adds up).
    """
    frames = []
    for lane in shown.lanes:
        # The lane of a whole GPU repeats the items of its streams.
        if lane.kind is not LaneKind.STREAM:
            continue
        shift = shown.shifts[lane.session]
        items = items_at(lane, first_ns - shift, last_ns - shift)
        overlaps = np.minimum(lane.ends[items], last_ns - shift) - np.maximum(lane.starts[items], first_ns - shift)
        names = profile[lane.frame]["name"].gather(pl.Series(lane.rows[items]))
        frames.append(pl.DataFrame({"name": names, "kind": lane.item_kinds[items], "time_ns": np.maximum(overlaps, 0)}))
    if not frames:
        return pl.DataFrame(schema={"name": pl.String, "kind": pl.Int8, "count": pl.Int64, "time_ns": pl.Int64})
    return (
        pl.concat(frames)
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
    linked_frame = "api_calls" if lane.on_gpu else "activities"
    if correlation is None:
        return linked_frame, []
    rows = profile[linked_frame].select(
        pl.arg_where((pl.col("correlation") == correlation) & (pl.col("session") == lane.session))
    )
    return linked_frame, rows.to_series().to_list()


@dataclass(frozen=True, slots=True)
class LaneHits:
    """The items of a lane whose name matches a search."""

    items: Ints
    starts: Ints
    latest_ends: Ints
    """The latest end of each and all before it; one that takes no time reaches a nanosecond."""

    def in_cells(self, edges: Ints) -> Flags:
        """Return flags for the cells that contain a hit."""
        started = np.searchsorted(self.starts, edges[1:], side="left")
        ended = np.searchsorted(self.latest_ends, edges[:-1], side="right")
        contains_hit: Flags = started > ended
        return contains_hit


@dataclass(frozen=True, slots=True)
class Hits:
    """All occurrences, in time order."""

    by_lane: Mapping[int, LaneHits]
    """The hits of each lane that has some, by lane index."""
    starts: Ints
    lanes: Ints
    items: Ints

    def step(self, at_ns: int, cursor: tuple[int, int] | None, direction: int) -> int | None:
        """Return the occurrence after (1) or before (-1) a moment, or the cursor's occurrence; wraps around."""
        if not len(self.starts):
            return None
        if cursor is not None:
            matches = np.flatnonzero((self.lanes == cursor[0]) & (self.items == cursor[1]))
            if len(matches):
                return int(matches[0] + direction) % len(self.starts)
        index = int(np.searchsorted(self.starts, at_ns, side="left"))
        return (index if direction > 0 else index - 1) % len(self.starts)


def find_name(profile: Profile, shown: ShownLanes, text: str, *, is_exact: bool = False) -> Hits:
    """Return the items whose name contains a text; a capital letter makes the search case-sensitive.

    A lane of all streams of a GPU is omitted: its items are those of the streams.

    Args:
        profile: The profile.
        shown: The lanes to search.
        text: The text to find.
        is_exact: Whether the text is the complete name.
    """
    matches: dict[str, npt.NDArray[np.int8]] = {}

    def matching(lane: Lane) -> Flags:
        if lane.frame not in matches:
            matches[lane.frame] = classify_values(
                profile[lane.frame]["name"], lambda names: _matching(names, text, is_exact=is_exact)
            )
        mask: Flags = matches[lane.frame][lane.rows] != 0
        return mask

    return _hits(shown, matching)


def find_critical_path(profile: Profile, shown: ShownLanes) -> Hits:
    """Return the GPU work, calls and ops on the critical paths of the iterations."""
    traces_by_session = traces(base_profile(profile))
    on_path: dict[int, set[int]] = {}
    cpu: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for segment in (segment for _, path in shown_paths(profile) for segment in path):
        trace = traces_by_session[segment.on_session]
        if segment.kind in GPU_WORK:
            on_path.setdefault(trace.session, set()).add(int(trace.row[segment.activity]))
        elif segment.kind == PathKind.CPU_OP or segment.call >= 0:
            # Also the end of a call that waited for GPU work.
            begins, ends = cpu.setdefault((trace.session, segment.thread), ([], []))
            begins.append(segment.start_ns - trace.shift_ns)
            ends.append(segment.end_ns - trace.shift_ns)
    times = {
        key: interval_union(np.array(begins, np.int64), np.array(ends, np.int64)) for key, (begins, ends) in cpu.items()
    }
    numbers = base_profile(profile)["activities"]["activity"]
    activities = {session: numbers.gather(sorted(rows)) for session, rows in on_path.items()}

    def matching(lane: Lane) -> Flags:
        if lane.on_gpu:
            lane_activities = profile["activities"]["activity"].gather(pl.Series(lane.rows))
            is_on_path: Flags = lane_activities.is_in(
                activities.get(lane.session, lane_activities.clear()).implode()
            ).to_numpy()
            return is_on_path
        thread = thread_codes(pl.Series([lane.pid], dtype=pl.Int64), pl.Series([lane.tid], dtype=pl.Int64))
        thread_times = times.get((lane.session, int(thread[0])), EMPTY)
        is_covered: Flags = thread_times.covered_within(lane.starts, lane.ends) > 0
        return is_covered if lane.kind is not LaneKind.RANGES else np.zeros(len(lane.starts), bool)

    return _hits(shown, matching)


def _hits(shown: ShownLanes, matching: Callable[[Lane], Flags]) -> Hits:
    """Return the matching items, without lanes of all streams of a GPU."""
    by_lane = {}
    for lane_index, lane in enumerate(shown.lanes):
        if lane.kind is LaneKind.GPU:
            continue
        items = np.flatnonzero(matching(lane))
        if len(items):
            shift = shown.shifts[lane.session]
            # An item of zero length is in the cell of its start.
            latest_ends = np.maximum.accumulate(np.maximum(lane.ends[items], lane.starts[items] + 1)) + shift
            by_lane[lane_index] = LaneHits(items, lane.starts[items] + shift, latest_ends)
    if not by_lane:
        none = np.zeros(0, np.int64)
        return Hits({}, none, none, none)
    starts = np.concatenate([lane_hits.starts for lane_hits in by_lane.values()])
    lanes = np.concatenate([np.full(len(lane_hits.items), lane_index) for lane_index, lane_hits in by_lane.items()])
    items = np.concatenate([lane_hits.items for lane_hits in by_lane.values()])
    # Starts are sorted within lanes: a stable sort is quick, and keeps the order of lanes.
    order = np.argsort(starts, kind="stable")
    return Hits(by_lane, starts[order], lanes[order], items[order])


def _matching(names: pl.Series, text: str, *, is_exact: bool) -> npt.NDArray[np.int8]:
    if is_exact:
        return (names == text).cast(pl.Int8).to_numpy()
    if text == text.lower():
        names = names.str.to_lowercase()
    return names.str.contains(text, literal=True).cast(pl.Int8).to_numpy()
