"""Lanes of the timeline: GPUs, streams, and per thread ranges, ops and API calls; the kinds of their items."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.host_calls import ApiClass, api_classes
from tui.analysis.gpu_time.idle_gaps import busy_contributions
from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet, interval_union, overlapping_pairs
from tui.analysis.gpu_time.timelines import GpuUse, Timeline, WorkKind, classify_values, gpu_uses, work_kinds
from tui.analysis.grouping import partition_by_session
from tui.analysis.memo import once_per_profile
from tui.cache.spill import spill_to_disk
from tui.correlation.nesting import nest_intervals

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Kinds = npt.NDArray[np.int8]
    from collections.abc import Iterator, Sequence

    Ints = npt.NDArray[np.int64]


class ItemKind(IntEnum):
    """The kind of an item, shown by glyph and color."""

    TENSOR = 0
    """A kernel that uses tensor cores."""
    KERNEL = 1
    """A kernel that does not use tensor cores, or for which it is unknown."""
    GRAPH = 2
    """A whole CUDA graph."""
    COMMUNICATION = 3
    TO_GPU = 4
    FROM_GPU = 5
    COPY = 6
    """A copy within a GPU or between GPUs, of unified memory, or of unknown direction."""
    MEMSET = 7
    LAUNCH = 8
    SYNC = 9
    COPY_CALL = 10
    OTHER_CALL = 11
    OP = 12
    RANGE = 13


TITLES: Final = {
    ItemKind.TENSOR: "tensor-core kernel",
    ItemKind.KERNEL: "other kernel",
    ItemKind.GRAPH: "CUDA graph",
    ItemKind.COMMUNICATION: "communication",
    ItemKind.TO_GPU: "copy to GPU",
    ItemKind.FROM_GPU: "copy from GPU",
    ItemKind.COPY: "other copy",
    ItemKind.MEMSET: "memset",
    ItemKind.LAUNCH: "launch",
    ItemKind.SYNC: "sync",
    ItemKind.COPY_CALL: "copy call",
    ItemKind.OTHER_CALL: "other call",
    ItemKind.OP: "op",
    ItemKind.RANGE: "range",
}
"""The titles in the legend."""

COMPUTES: Final = (ItemKind.TENSOR, ItemKind.KERNEL, ItemKind.GRAPH)

_CALL_KINDS: Final = {
    ApiClass.SYNC: ItemKind.SYNC,
    ApiClass.COPY: ItemKind.COPY_CALL,
    ApiClass.LAUNCH: ItemKind.LAUNCH,
    ApiClass.MEMORY: ItemKind.OTHER_CALL,
    ApiClass.LOADING: ItemKind.OTHER_CALL,
    ApiClass.OTHER: ItemKind.OTHER_CALL,
}


def activity_kinds(profile: Profile) -> Kinds:
    """Return the `ItemKind` of each row of ``activities``."""
    kinds, uses = work_kinds(profile), gpu_uses(profile)
    item_kinds = np.full(len(kinds), ItemKind.KERNEL, np.int8)
    item_kinds[uses == GpuUse.YES] = ItemKind.TENSOR
    item_kinds[kinds == WorkKind.COMMUNICATION] = ItemKind.COMMUNICATION
    item_kinds[kinds == WorkKind.MEMSET] = ItemKind.MEMSET
    activities = profile["activities"]
    copies = kinds == WorkKind.COPY
    if copies.any():
        item_kinds[copies] = classify_values(activities["copy_kind"], _copy_direction_kinds)[copies]
    item_kinds[classify_values(activities["kind"], _is_graph) == 1] = ItemKind.GRAPH
    return item_kinds


def call_kinds(calls: pl.DataFrame) -> Kinds:
    """Return the `ItemKind` of each API call."""
    kinds_by_class = np.array([_CALL_KINDS[api_class] for api_class in ApiClass], np.int8)
    return classify_values(calls["name"], lambda names: kinds_by_class[api_classes(names)])


def _copy_direction_kinds(directions: pl.Series) -> Kinds:
    by_direction = {"HtoD": ItemKind.TO_GPU, "DtoH": ItemKind.FROM_GPU}
    return np.array([by_direction.get(direction, ItemKind.COPY) for direction in directions.to_list()], np.int8)


def _is_graph(kinds: pl.Series) -> Kinds:
    return np.array([kind == "graph" for kind in kinds.to_list()], np.int8)


BLOCK: Final = 32
"""The number of segments per stored sum; the remainder is summed on request."""

SEGMENTS_AT_ONCE: Final = 1 << 17
"""Intervals that are processed together, to bound the memory."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Sorted intervals, each of one kind; they do not overlap by more than the resolution."""

    starts: Ints
    ends: Ints
    item_kinds: Kinds
    kinds: Kinds
    """The distinct kinds."""
    _kind_positions: Kinds
    """The position of each kind in ``kinds``."""
    _sums: Ints
    """The time of each kind in all earlier blocks."""

    @property
    def length_ns(self) -> int:
        """The total length."""
        return int(self._sums[-1].sum()) if len(self._sums) else 0

    def time_before(self, moments: Ints) -> Ints:
        """Return the time of each kind before each moment."""
        count = len(self.kinds)
        if not count:
            return np.zeros((len(moments), 0), np.int64)
        started = np.searchsorted(self.starts, moments, side="left")
        block = np.maximum(started - 1, 0) // BLOCK
        positions = block[:, None] * BLOCK + np.arange(BLOCK)
        inside = positions < started[:, None]
        positions = np.minimum(positions, len(self.starts) - 1)
        lengths = np.minimum(self.ends[positions], moments[:, None]) - self.starts[positions]
        cells = np.arange(len(moments))[:, None] * count + self._kind_positions[self.item_kinds[positions]]
        # The sums of a block are far below 2**53: as floats they are exact.
        partial = np.bincount(
            cells.ravel(), np.where(inside, lengths, 0).ravel(), minlength=len(moments) * count
        ).astype(np.int64)
        times: Ints = self._sums[block] + partial.reshape(len(moments), count)
        return times


def disjoint_segments(starts: Ints, ends: Ints, item_kinds: Kinds) -> Segments:
    """Build segments from sorted intervals that do not overlap."""
    kinds = np.flatnonzero(np.bincount(item_kinds)).astype(np.int8)
    kind_positions = np.zeros(int(kinds.max(initial=0)) + 1, np.int8)
    kind_positions[kinds] = np.arange(len(kinds))
    sums = np.zeros((-(-len(starts) // BLOCK) + 1, len(kinds)), np.int64)
    # A few blocks at a time, which bounds the memory of intermediate results.
    for first in range(0, len(starts), SEGMENTS_AT_ONCE):
        chunk = slice(first, first + SEGMENTS_AT_ONCE)
        lengths, chunk_kinds = ends[chunk] - starts[chunk], item_kinds[chunk]
        firsts = np.arange(0, len(lengths), BLOCK)
        chunk_sums = sums[1 + first // BLOCK :][: len(firsts)]
        for position, kind in enumerate(kinds):
            chunk_sums[:, position] = np.add.reduceat(np.where(chunk_kinds == kind, lengths, 0), firsts)
    np.cumsum(sums, axis=0, out=sums)
    return Segments(starts, ends, item_kinds, kinds, kind_positions, sums)


def flatten(
    starts: Ints, ends: Ints, item_kinds: Kinds, *, resolution_ns: int, precedence: Sequence[Sequence[int]] = ()
) -> Segments:
    """Build segments from sorted intervals; where several overlap, the first one counts.

    Their total length is that of `busy_time`.

    Args:
        starts: The sorted starts.
        ends: The end of each.
        item_kinds: The kind of each.
        resolution_ns: Overlaps shorter than this may be due to rounding.
        precedence: Kinds that take precedence over others that were active earlier, the most important first.
    """
    latest_ends = np.maximum.accumulate(ends) if len(ends) else ends
    if not len(starts) or not (latest_ends[:-1] - starts[1:] >= resolution_ns).any():
        return disjoint_segments(starts, ends, item_kinds)
    if resolution_ns > 1 or not precedence:
        return disjoint_segments(*_segment_parts(starts, ends, item_kinds, resolution_ns))
    parts = [
        _important_segments(starts[part], ends[part], item_kinds[part], precedence)
        for part in _parts_between_pauses(starts, latest_ends)
    ]
    del latest_ends
    joined = [np.concatenate(values) for values in zip(*parts, strict=True)]
    del parts
    return disjoint_segments(*joined)


def _parts_between_pauses(starts: Ints, latest_ends: Ints) -> Iterator[slice]:
    """Yield consecutive intervals, about `SEGMENTS_AT_ONCE` together; no interval reaches from one part into the next.

    Args:
        starts: In order.
        latest_ends: The latest end of each interval and all before it.
    """
    pauses = np.flatnonzero(starts[1:] >= latest_ends[:-1]) + 1
    pause_indices = np.searchsorted(pauses, np.arange(SEGMENTS_AT_ONCE, len(starts), SEGMENTS_AT_ONCE))
    edges = np.unique(pauses[pause_indices[pause_indices < len(pauses)]]).tolist()
    yield from (slice(first, last) for first, last in pairwise([0, *edges, len(starts)]))


def _segment_parts(starts: Ints, ends: Ints, item_kinds: Kinds, resolution_ns: int) -> tuple[Ints, Ints, Kinds]:
    timeline = Timeline(0, None, resolution_ns, np.zeros(0, np.int64), starts, ends)
    first, last = busy_contributions(timeline)
    has_length = last > first
    first, last, item_kinds = first[has_length], last[has_length], item_kinds[has_length]
    if (first[1:] < first[:-1]).any():
        order = np.argsort(first, kind="stable")
        first, last, item_kinds = first[order], last[order], item_kinds[order]
    return first, last, item_kinds


def _important_segments(
    starts: Ints, ends: Ints, item_kinds: Kinds, precedence: Sequence[Sequence[int]]
) -> tuple[Ints, Ints, Kinds]:
    """Build segments in which important kinds cover others; the others get the remaining time."""
    importance = np.full(int(item_kinds.max()) + 1, len(precedence), np.int8)
    for rank, group in enumerate(precedence):
        importance[[kind for kind in group if kind < len(importance)]] = rank
    ranks = importance[item_kinds]
    covered, parts = EMPTY, []
    for rank in range(len(precedence) + 1):
        chosen = ranks == rank
        if not chosen.any():
            continue
        first, last, chosen_kinds = _segment_parts(starts[chosen], ends[chosen], item_kinds[chosen], 1)
        if len(covered.starts) and len(first):
            free = covered.gaps(int(first[0]), int(last[-1]))
            positions, free_positions = overlapping_pairs(IntervalSet(first, last, np.cumsum(last - first)), free)
            first = np.maximum(first[positions], free.starts[free_positions])
            last = np.minimum(last[positions], free.ends[free_positions])
            chosen_kinds = chosen_kinds[positions]
        covered = covered | interval_union(first, last)
        parts.append((first, last, chosen_kinds))
    first, last, chosen_kinds = (np.concatenate(values) for values in zip(*parts, strict=True))
    order = np.argsort(first, kind="stable")
    return first[order], last[order], chosen_kinds[order]


COVERING_KINDS: Final = (COMPUTES, (ItemKind.COMMUNICATION,))
"""Kinds that cover others when several streams are drawn in one lane."""


GAP_BLOCK: Final = 1 << 10
"""The number of gaps per stored maximum."""
GAPS_AT_ONCE: Final = 1 << 17
"""Gaps processed together: a multiple of the block."""


class LaneKind(StrEnum):
    """The contents of a lane."""

    GPU = "gpu"
    """All streams of a GPU."""
    STREAM = "stream"
    RANGES = "ranges"
    OPS = "ops"
    CALLS = "calls"


FRAMES: Final = {
    LaneKind.GPU: "activities",
    LaneKind.STREAM: "activities",
    LaneKind.RANGES: "ranges",
    LaneKind.OPS: "ops",
    LaneKind.CALLS: "api_calls",
}
"""The frame of the items of a lane."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Items by start, with little or no overlap."""

    kind: LaneKind
    session: int
    resolution_ns: int
    """The coarsest step of its start times, at least 1."""
    rows: Ints
    """The row of each item in its frame."""
    starts: Ints
    ends: Ints
    latest_ends: Ints
    """The latest end of each item and all before it."""
    item_kinds: Kinds
    segments: Segments
    """When the lane was busy, and with what."""
    widest_gaps_ns: Ints
    """The longest gap before one of the items, for each `GAP_BLOCK` of them from the second on."""
    device: int | None = None
    stream: int | None = None
    pid: int | None = None
    tid: int | None = None
    depth: int = 0
    """The number of enclosing items of the same kind and thread."""

    @property
    def frame(self) -> str:
        """The frame that its items are rows of."""
        return FRAMES[self.kind]

    @property
    def on_gpu(self) -> bool:
        """Whether its items are GPU work."""
        return self.kind in (LaneKind.GPU, LaneKind.STREAM)

    @property
    def thread(self) -> tuple[int, int | None, int | None] | None:
        """The thread that it belongs to; None for GPU work."""
        return None if self.on_gpu else (self.session, self.pid, self.tid)

    def gaps(self) -> tuple[Ints, Ints]:
        """Return start and end of the gaps between the items.

        Gaps shorter than the resolution of the start times are unknown and omitted.
        """
        indices = np.flatnonzero(self.starts[1:] - self.latest_ends[:-1] >= self.resolution_ns) + 1
        return self.latest_ends[indices - 1], self.starts[indices]


@once_per_profile("activities", "api_calls", "ops", "ranges", "sessions", "devices")
def lanes(profile: Profile) -> tuple[Lane, ...]:
    """Return every lane: by session its GPUs with their streams, then its threads, those with most API calls first.

    They contain only items with a start and a duration. A GPU with several streams has a lane of all streams before
    theirs.
    """
    resolutions = dict(profile["sessions"].select("session", "start_resolution_ns").iter_rows())
    steps = {session: max(1, step or 1) for session, step in resolutions.items()}
    all_lanes = [*_gpu_lanes(profile, steps), *_thread_lanes(profile, steps)]
    return tuple(sorted(all_lanes, key=lambda lane: (lane.session, not lane.on_gpu)))


def _lane(kind: LaneKind, times: pl.DataFrame, item_kinds: Kinds, steps: dict[int, int], **fields: int | None) -> Lane:
    """Return a lane of rows with ``row``, ``start_ns`` and ``duration_ns``; kinds are of the whole frame."""
    session = fields.pop("session")
    assert session is not None, "every row has its session"
    starts, rows = times["start_ns"].to_numpy(), times["row"].to_numpy()
    ends = starts + times["duration_ns"].to_numpy()
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends, rows = starts[order], ends[order], rows[order]
    latest_ends = ends if not (ends[1:] < ends[:-1]).any() else np.maximum.accumulate(ends)
    lane_kinds, step = item_kinds[rows], steps.get(session, 1)
    flat = flatten(
        starts, ends, lane_kinds, resolution_ns=step, precedence=COVERING_KINDS if kind is LaneKind.GPU else ()
    )
    # One part at a time into preallocated arrays.
    widest = _widest_gaps_ns(starts, latest_ends)
    lane = Lane(kind, session, step, rows, starts, ends, latest_ends, lane_kinds, flat, widest, **fields)  # type: ignore[arg-type]
    return spill_to_disk(lane)


def _widest_gaps_ns(starts: Ints, latest_ends: Ints) -> Ints:
    blocks = [np.zeros(0, np.int64)]
    for first in range(1, len(starts), GAPS_AT_ONCE):
        lengths = (
            starts[first : first + GAPS_AT_ONCE]
            - latest_ends[first - 1 : first - 1 + GAPS_AT_ONCE][: len(starts) - first]
        )
        blocks.append(np.maximum.reduceat(lengths, np.arange(0, len(lengths), GAP_BLOCK)))
    return np.concatenate(blocks)


def _rows_with_times(frame: pl.DataFrame, *keys: str) -> Iterator[pl.DataFrame]:
    """Yield the rows with known times of each session, with ``row`` and the keys."""
    rows = frame.select(*keys, "start_ns", "duration_ns", pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
    for _, session_rows in sorted(partition_by_session(rows).items()):
        are_known = not session_rows["start_ns"].null_count() and not session_rows["duration_ns"].null_count()
        # Avoid a copy if all times are known.
        yield session_rows if are_known else session_rows.drop_nulls(["start_ns", "duration_ns"])


def _gpu_lanes(profile: Profile, steps: dict[int, int]) -> Iterator[Lane]:
    """Yield for each GPU a lane of all its streams, if there are several, and a lane per stream."""
    item_kinds = activity_kinds(profile)
    for timed in _rows_with_times(profile["activities"], "session", "device", "stream"):
        for (session, device), gpu_rows in _partition_sorted(timed, "session", "device"):
            gpu = {"session": session, "device": device}
            if gpu_rows.select(pl.col("stream").n_unique()).item() > 1:
                yield _lane(LaneKind.GPU, gpu_rows, item_kinds, steps, **gpu)
            for (stream,), stream_rows in _partition_sorted(gpu_rows.drop("session", "device"), "stream"):
                yield _lane(LaneKind.STREAM, stream_rows, item_kinds, steps, **gpu, stream=stream)


def _thread_lanes(profile: Profile, steps: dict[int, int]) -> list[Lane]:
    """Yield for each thread its ranges and ops by depth, then its API calls."""
    thread = ("session", "pid", "tid")
    by_thread: dict[tuple[int | None, ...], list[Lane]] = {}
    weight: dict[tuple[int | None, ...], int] = {}
    for kind, item_kind in ((LaneKind.RANGES, ItemKind.RANGE), (LaneKind.OPS, ItemKind.OP)):
        frame = profile[FRAMES[kind]]
        item_kinds = np.full(frame.height, item_kind, np.int8)
        for timed in _rows_with_times(frame, *thread):
            for key, rows in _partition_sorted(timed, *thread):
                thread_fields = dict(zip(thread, key, strict=True))
                for depth, level in _levels(rows):
                    lane = _lane(kind, level, item_kinds, steps, **thread_fields, depth=depth)
                    by_thread.setdefault(key, []).append(lane)
    calls = profile["api_calls"]
    item_kinds = call_kinds(calls)
    for timed in _rows_with_times(calls, *thread):
        for key, rows in _partition_sorted(timed, *thread):
            thread_fields = dict(zip(thread, key, strict=True))
            by_thread.setdefault(key, []).append(_lane(LaneKind.CALLS, rows, item_kinds, steps, **thread_fields))
            weight[key] = rows.height
    order = sorted(
        by_thread, key=lambda key: (key[0], -weight.get(key, 0), *(-1 if rows is None else rows for rows in key))
    )
    return [lane for key in order for lane in by_thread[key]]


def _levels(rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the rows of one thread by nesting depth."""
    nesting = nest_intervals(
        np.zeros(rows.height, np.int64), rows["start_ns"].to_numpy(), rows["duration_ns"].to_numpy()
    )
    levels = rows.with_columns(pl.Series("depth", nesting.depth))
    for (depth,), level in sorted(_partition_sorted(levels, "depth")):
        assert depth is not None, "nested gives every interval a depth"
        yield depth, level


def _partition_sorted(frame: pl.DataFrame, *keys: str) -> Sequence[tuple[tuple[int | None, ...], pl.DataFrame]]:
    """Return the rows of each combination of values, smallest values first, nulls before them."""
    if frame.is_empty():
        return []
    if frame.select(keys).unique().height == 1:
        return [(frame.select(keys).row(0), frame)]
    parts = frame.partition_by(keys, as_dict=True)
    order = sorted(parts, key=lambda key: [(value is not None, value or 0) for value in key])
    return [(key, parts[key]) for key in order]
