"""The GPU work of each device in time order, by kind, as arrays, and sweeps over it: the input of GPU-time figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import (
    IntervalSet,
    RunningLatestEnd,
    blocks,
    from_disjoint,
    is_nondecreasing,
    max_concurrent,
)
from tui.analysis.grouping import distinct_rows, partition_by_session
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_type_rules import classify
from tui.analysis.tensor_core_use import tensor_cores_by_device, tensor_cores_by_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]
    Classes = npt.NDArray[np.int8]

LATE_NS: Final = 1_000_000
"""GPU work that begins this long after the CPU ended waited for unrecorded work, such as of an earlier step."""
COMMUNICATION: Final = "communication"
"""The op type of NCCL, RCCL, NVSHMEM and similar kernels (``op_types.toml``, and what users add to it)."""


class WorkKind(IntEnum):
    """The kind of an activity."""

    COMPUTE = 0
    """A kernel that does not communicate, or a whole CUDA graph."""
    COMMUNICATION = 1
    MEMSET = 2
    COPY = 3
    """A copy, or work of unified memory."""


@once_per_profile("activities")
def work_kinds(profile: Profile) -> npt.NDArray[np.int8]:
    """Return the `WorkKind` of each row of ``activities``."""
    activities = profile["activities"]
    kind = classify_values(activities["kind"], _kind)
    by_name = classify_values(activities["name"], _by_name)
    kinds: npt.NDArray[np.int8] = np.where(kind == WorkKind.COMPUTE, by_name, kind)
    return kinds


def _kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
    by_name = {"memcpy": WorkKind.COPY, "um": WorkKind.COPY, "memset": WorkKind.MEMSET}
    return np.array([by_name.get(kind, WorkKind.COMPUTE) for kind in kinds.to_list()], np.int8)


def _by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    types = classify(names).select(pl.col("name").cast(pl.String), communicates=pl.col("op_type") == COMMUNICATION)
    communicates = (
        names.alias("name").to_frame().join(types, on="name", how="left", maintain_order="left")["communicates"]
    )
    return communicates.fill_null(False).cast(pl.Int8).to_numpy()


class GpuUse(IntEnum):
    """The kind of an activity, in the precedence of the wall-time breakdown."""

    YES = 0
    NO = 1
    UNKNOWN = 2
    MEMORY = 3


@once_per_profile("activities", "devices", "sessions", "api_calls")
def gpu_uses(profile: Profile) -> npt.NDArray[np.int8]:
    """Return the `GpuUse` of each row of ``activities``.

    The verdicts are those of `tensor_core_use.with_verdicts`, computed for millions of launches at once: as recorded,
    else by the GPU, else by the kernel's name. They are unknown for whole CUDA graphs.
    """
    activities = profile["activities"]
    kind = classify_values(activities["kind"], _kind_uses)
    use = np.where(kind == GpuUse.NO, classify_values(activities["name"], _uses_by_name), kind)
    gpus = tensor_cores_by_device(profile)
    gpus_without = gpus.filter(pl.col("has_tensor_cores").eq(False))
    if gpus_without.height:
        gpu = pl.struct("session", "device")
        # Looking up the GPU of every launch is slow, and usually all are the same.
        all_ = gpus_without.height == gpus.height
        is_without = pl.lit(True) if all_ else gpu.is_in(gpus_without.select(gpu).to_series().implode())
        without_mask = activities.select(is_without).to_series().to_numpy()
        use = np.where((kind == GpuUse.NO) & without_mask, np.int8(GpuUse.NO), use)
    recorded_use = activities["uses_tensor_core"]
    if recorded_use.null_count() < len(recorded_use):
        recorded = recorded_use.cast(pl.Int8).fill_null(-1).to_numpy()
        verdict = np.where(recorded == 1, np.int8(GpuUse.YES), np.int8(GpuUse.NO))
        use = np.where((kind != GpuUse.MEMORY) & (recorded >= 0), verdict, use)
    uses: npt.NDArray[np.int8] = use.astype(np.int8, copy=False)
    return uses


def _uses_by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    verdicts = tensor_cores_by_name(names).select(
        pl.col("name").cast(pl.String),
        pl.when("uses_tensor_core")
        .then(int(GpuUse.YES))
        .when(~pl.col("uses_tensor_core"))
        .then(int(GpuUse.NO))
        .cast(pl.Int8)
        .alias("use"),
    )
    uses = names.alias("name").to_frame().join(verdicts, on="name", how="left", maintain_order="left")["use"]
    return uses.fill_null(int(GpuUse.UNKNOWN)).to_numpy()


def _kind_uses(kinds: pl.Series) -> npt.NDArray[np.int8]:
    by_kind = {"kernel": GpuUse.NO, "graph": GpuUse.UNKNOWN}
    return np.array([by_kind.get(kind, GpuUse.MEMORY) for kind in kinds.to_list()], np.int8)


Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The activities of one device whose start and duration are known, by start."""

    session: int
    device: int | None
    """None: the input does not name it."""
    resolution_ns: int
    """The coarsest step of its start times, at least 1: nothing shorter is known."""
    row_index: Ints | int
    """The row of each in ``activities``; of rows that follow each other the first one."""
    starts: Ints
    ends: Ints

    @property
    def rows(self) -> Ints:
        """The row of each in ``activities``: a full-length array, so prefer `take` and `rows_at`."""
        return (
            np.arange(self.row_index, self.row_index + len(self.starts))
            if isinstance(self.row_index, int)
            else self.row_index
        )

    def rows_at(self, positions: npt.NDArray[np.integer[Any]]) -> Ints:
        """Return the rows in ``activities`` of the activities at some positions."""
        rows: Ints = positions.astype(np.int64, copy=False)
        return rows + self.row_index if isinstance(self.row_index, int) else self.row_index[rows]

    def take(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Return the values of this device, from values of all rows of ``activities``; a view if possible."""
        if isinstance(self.row_index, int):
            return values[self.row_index : self.row_index + len(self.starts)]
        return values[self.row_index]

    def gather_from(self, values: pl.Series) -> pl.Series:
        """Return the values of this device from a column of ``activities``."""
        if isinstance(self.row_index, int):
            return values.slice(self.row_index, len(self.starts))
        return values.gather(pl.Series(self.row_index))

    def latest_ends(self) -> Ints:
        """Return the latest end up to each activity, itself included."""
        ends: Ints = np.maximum.accumulate(self.ends)
        return ends


@once_per_profile("activities", "sessions")
def timelines(profile: Profile) -> tuple[Timeline, ...]:
    """Return a timeline for each device of each session that has work with known times, by session and device."""
    resolutions = dict(profile["sessions"].select("session", "start_resolution_ns").iter_rows())
    result = []
    for (session, device), rows, times in _gpu_frames(profile["activities"]):
        starts = times["start_ns"].to_numpy()
        ends = starts + times["duration_ns"].to_numpy()
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends, rows = starts[order], ends[order], rows[order]
            follow = False
        else:
            follow = int(rows[-1]) - int(rows[0]) == len(rows) - 1
        row_index = int(rows[0]) if follow else rows.astype(np.int64)
        result.append(Timeline(session, device, max(1, resolutions.get(session) or 1), row_index, starts, ends))
    return tuple(
        sorted(result, key=lambda timeline: (timeline.session, -1 if timeline.device is None else timeline.device))
    )


def _gpu_frames(
    activities: pl.DataFrame,
) -> Iterator[tuple[tuple[int, int | None], npt.NDArray[np.uint32], pl.DataFrame]]:
    """Yield session, device, rows and times of each GPU's activities with known times."""
    rows = activities.select(
        "session", "device", "start_ns", "duration_ns", row=pl.int_range(pl.len(), dtype=pl.UInt32)
    )
    for times in partition_by_session(rows).values():
        are_known = not times["start_ns"].null_count() and not times["duration_ns"].null_count()
        # If all times are known, use those of the frame without a copy.
        timed = times if are_known else times.drop_nulls(["start_ns", "duration_ns"])
        gpus = distinct_rows(timed, ("session", "device"))
        if gpus.height == 1:
            yield gpus.row(0), timed["row"].to_numpy(), timed
        elif gpus.height:
            frames = timed.partition_by("session", "device", as_dict=True)
            for (session, device), frame in frames.items():
                yield (session, device), frame["row"].to_numpy(), frame


def classify_values(names: pl.Series, classify: Callable[[pl.Series], npt.NDArray[np.int8]]) -> npt.NDArray[np.int8]:
    """Return a number for each name of a column, computed once per distinct name.

    Args:
        names: A categorical column.
        classify: Maps distinct names, as texts, to one number each; a missing name is an empty text.
    """
    codes = names.to_physical()
    # A missing name is at the index after all others.
    last = int(codes.max() or 0) + 1  # type: ignore[arg-type]
    indices = (codes.fill_null(last) if codes.null_count() else codes).to_numpy()
    if not len(indices):
        return np.zeros(0, np.int8)
    is_used = np.zeros(last + 1, np.bool_)
    for block in blocks(len(indices)):
        # Indices of 64 bits are looked up three times as fast, but would need much memory for all rows at once.
        is_used[indices[block].astype(np.int64)] = True
    distinct = np.flatnonzero(is_used)
    texts = pl.Series(distinct, dtype=pl.UInt32).set(pl.Series(distinct == last), None).cat.to(names.dtype)
    table = np.zeros(last + 1, np.int8)
    table[distinct] = classify(texts.cast(pl.String).fill_null(""))
    classes = np.empty(len(indices), np.int8)
    for block in blocks(len(indices)):
        table.take(indices[block].astype(np.int64), out=classes[block], mode="clip")
    return classes


@once_per_profile("activities", "sessions")
def adjusted_timelines(profile: Profile) -> tuple[Timeline, ...]:
    """Return `timelines` without overlaps caused by rounded starts, for lengths of unions.

    An overlap that is shorter than the resolution of the starts is removed: the later work starts when the earlier one
    ends, and work that follows without a gap moves with it. All work stays between the first start and the last end,
    and its union is as long as in `tui.analysis.gpu_time.idle_gaps.busy_time`.
    """
    return tuple(_adjust_rounded_starts(timeline) for timeline in timelines(profile))


def _adjust_rounded_starts(timeline: Timeline) -> Timeline:
    if timeline.resolution_ns == 1:
        return timeline
    starts, ends = timeline.starts, timeline.ends
    previous_ends = np.concatenate((starts[:1], timeline.latest_ends()[:-1]))
    overlap = previous_ends - starts
    rounded = overlap < timeline.resolution_ns
    if not (rounded & (overlap > 0)).any():
        return timeline
    first, last = int(starts[0]), int(ends.max())
    # The busy time that each activity adds, one after the other.
    adjusted_starts = np.where(rounded, starts, previous_ends)
    adjusted_ends = np.maximum(ends, adjusted_starts)
    busy_before = np.cumsum(adjusted_ends - adjusted_starts)
    gap_free_ends = busy_before + np.maximum.accumulate(adjusted_ends - busy_before)
    # Activities at the end are moved before the last end.
    np.minimum(gap_free_ends, last - (busy_before[-1] - busy_before), out=gap_free_ends)
    gap_free_ends -= adjusted_ends
    starts, ends = np.maximum(starts + gap_free_ends, first), np.maximum(ends + gap_free_ends, first)
    if is_nondecreasing(starts):
        return replace(timeline, starts=starts, ends=ends)
    order = np.argsort(starts, kind="stable")
    return replace(timeline, row_index=timeline.rows[order], starts=starts[order], ends=ends[order])


class _Union:
    """The length of a union of intervals that are added in order of their starts.

    Args:
        resolution_ns: The resolution of the starts; shorter overlaps count as none.
    """

    def __init__(self, resolution_ns: int = 1) -> None:
        self._reached = RunningLatestEnd()
        self._resolution_ns = resolution_ns
        self.length_ns = 0

    def add(self, starts: Ints, ends: Ints) -> Ints:
        """Count the next intervals; return the latest end before each of them."""
        previous_ends, latest_ends = self._reached.latest_before(ends)
        if self._resolution_ns == 1:
            self.length_ns += int((latest_ends - np.maximum(previous_ends, starts)).sum())
            return previous_ends
        union_starts = np.where(previous_ends < starts + self._resolution_ns, starts, previous_ends)
        self.length_ns += int((np.maximum(ends, union_starts) - union_starts).sum())
        return previous_ends


def covered_time(starts: Ints, ends: Ints, resolution_ns: int) -> int:
    """Return the length of the union of some intervals.

    Args:
        starts: The sorted starts of the intervals.
        ends: Their ends.
        resolution_ns: The resolution of the starts; shorter overlaps count as none.
    """
    union = _Union(resolution_ns)
    for block in blocks(len(starts)):
        union.add(starts[block], ends[block])
    return union.length_ns


def lengths_by_class(
    timeline: Timeline, classes: Classes, sets: Sequence[Collection[int]], *, resolution_ns: int = 1
) -> list[int]:
    """Return the length of the union of the work of each set of classes.

    Args:
        timeline: The work.
        classes: The class of each activity of the line, from 0.
        sets: The sets of classes.
        resolution_ns: As in `covered_time`; above 1, the lengths of sets need not add up to the length of all.
    """
    class_range = range(int(classes.max(initial=-1)) + 1)
    present = frozenset(
        number for number in class_range if any((classes[block] == number).any() for block in blocks(len(classes)))
    )
    present_sets = [present.intersection(class_set) for class_set in sets]
    unions = {class_set: _Union(resolution_ns) for class_set in present_sets if class_set}
    for block in blocks(len(timeline.starts)):
        starts, ends, block_classes = timeline.starts[block], timeline.ends[block], classes[block]
        for class_set, union in unions.items():
            if class_set == present:
                union.add(starts, ends)
            else:
                # Comparing with each class is quicker than a table lookup.
                is_selected = np.logical_or.reduce([block_classes == number for number in class_set])
                union.add(starts[is_selected], ends[is_selected])
    return [unions[class_set].length_ns if class_set else 0 for class_set in present_sets]


def unions_by_class(starts: Ints, ends: Ints, classes: Classes) -> dict[int, IntervalSet]:
    """Return the union of the intervals of each class, without class -1.

    Args:
        starts: The sorted starts of the intervals.
        ends: Their ends.
        classes: The class of each, from 0.
    """
    latest_ends: dict[int, RunningLatestEnd] = {}
    opened: dict[int, list[Ints]] = {}
    closed: dict[int, list[Ints]] = {}
    for block in blocks(len(starts)):
        block_classes = classes[block]
        for number in np.flatnonzero(np.bincount(block_classes + 1)[1:]).tolist():
            is_class = block_classes == number
            class_starts, class_ends = starts[block][is_class], ends[block][is_class]
            is_first = number not in latest_ends
            previous_ends, _ = latest_ends.setdefault(number, RunningLatestEnd()).latest_before(class_ends)
            opening = np.flatnonzero(class_starts > previous_ends)
            opened.setdefault(number, []).append(class_starts[opening])
            closed.setdefault(number, []).append(previous_ends[opening[1:] if is_first else opening])
    return {
        number: from_disjoint(
            np.concatenate(opened[number]), np.append(np.concatenate(closed[number]), latest_ends[number].latest)
        )
        for number in sorted(latest_ends)
    }


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The concurrency of some work."""

    length_ns: int
    """How long two or more were active."""
    max_concurrent: int
    """The maximum number of concurrent activities; one that ends as another starts does not overlap it."""


def concurrency(timeline: Timeline, chosen: Flags) -> Concurrency:
    """Return how much of the chosen work ran concurrently, without overlaps that rounding may cause.

    Args:
        timeline: The work.
        chosen: The activities of the line to examine.
    """
    concurrent, latest_end = _Union(), RunningLatestEnd()
    overlapping = []
    waiting = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
    for block in blocks(len(timeline.starts)):
        starts, ends = timeline.starts[block][chosen[block]], timeline.ends[block][chosen[block]]
        if timeline.resolution_ns > 1:
            ends = ends - (timeline.resolution_ns - 1)
        has_length = ends > starts
        starts, ends = starts[has_length], ends[has_length]
        previous_ends, _ = latest_end.latest_before(ends)
        is_overlapping = previous_ends > starts
        # An activity overlaps with others from its start to the latest end before it.
        concurrent.add(starts[is_overlapping], np.minimum(ends[is_overlapping], previous_ends[is_overlapping]))
        # The last activity waits for the next block, which shows its overlaps.
        starts, ends, is_overlapping = (
            np.concatenate(parts) for parts in zip(waiting, (starts, ends, is_overlapping), strict=True)
        )
        overlaps = is_overlapping[:-1] | (starts[1:] < ends[:-1])
        overlapping.append((starts[:-1][overlaps], ends[:-1][overlaps]))
        waiting = starts[-1:], ends[-1:], is_overlapping[-1:]
    if not concurrent.length_ns:
        return Concurrency(0, int(chosen.any()))
    overlapping.append((waiting[0], waiting[1]))
    return Concurrency(
        concurrent.length_ns, max_concurrent(*(np.concatenate(column) for column in zip(*overlapping, strict=True)))
    )
