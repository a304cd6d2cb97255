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
    found: npt.NDArray[np.int8] = np.where(kind == WorkKind.COMPUTE, by_name, kind)
    return found


def _kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
    by_name = {"memcpy": WorkKind.COPY, "um": WorkKind.COPY, "memset": WorkKind.MEMSET}
    return np.array([by_name.get(kind, WorkKind.COMPUTE) for kind in kinds.to_list()], np.int8)


def _by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    types = classify(names).select(pl.col("name").cast(pl.String), communicates=pl.col("op_type") == COMMUNICATION)
    found = names.alias("name").to_frame().join(types, on="name", how="left", maintain_order="left")["communicates"]
    return found.fill_null(False).cast(pl.Int8).to_numpy()


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
    kind = classify_values(activities["kind"], _use_of_kind)
    use = np.where(kind == GpuUse.NO, classify_values(activities["name"], _uses_by_name), kind)
    gpus = tensor_cores_by_device(profile)
    without = gpus.filter(pl.col("has_tensor_cores").eq(False))
    if without.height:
        gpu = pl.struct("session", "device")
        # Looking up the GPU of every launch is slow, and usually all are the same.
        all_ = without.height == gpus.height
        is_of_them = pl.lit(True) if all_ else gpu.is_in(without.select(gpu).to_series().implode())
        of_them = activities.select(is_of_them).to_series().to_numpy()
        use = np.where((kind == GpuUse.NO) & of_them, np.int8(GpuUse.NO), use)
    recorded_use = activities["uses_tensor_core"]
    if recorded_use.null_count() < len(recorded_use):
        recorded = recorded_use.cast(pl.Int8).fill_null(-1).to_numpy()
        verdict = np.where(recorded == 1, np.int8(GpuUse.YES), np.int8(GpuUse.NO))
        use = np.where((kind != GpuUse.MEMORY) & (recorded >= 0), verdict, use)
    found: npt.NDArray[np.int8] = use.astype(np.int8, copy=False)
    return found


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
    found = names.alias("name").to_frame().join(verdicts, on="name", how="left", maintain_order="left")["use"]
    return found.fill_null(int(GpuUse.UNKNOWN)).to_numpy()


def _use_of_kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
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

    def rows_at(self, places: npt.NDArray[np.integer[Any]]) -> Ints:
        """Return the rows in ``activities`` of the activities at some positions."""
        found: Ints = places.astype(np.int64, copy=False)
        return found + self.row_index if isinstance(self.row_index, int) else self.row_index[found]

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
    found = []
    for (session, device), rows, part in _parts(profile["activities"]):
        starts = part["start_ns"].to_numpy()
        ends = starts + part["duration_ns"].to_numpy()
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends, rows = starts[order], ends[order], rows[order]
            follow = False
        else:
            follow = int(rows[-1]) - int(rows[0]) == len(rows) - 1
        row_index = int(rows[0]) if follow else rows.astype(np.int64)
        found.append(Timeline(session, device, max(1, resolutions.get(session) or 1), row_index, starts, ends))
    return tuple(sorted(found, key=lambda line: (line.session, -1 if line.device is None else line.device)))


def _parts(activities: pl.DataFrame) -> Iterator[tuple[tuple[int, int | None], npt.NDArray[np.uint32], pl.DataFrame]]:
    """Yield session, device, rows and times of each GPU's activities with known times."""
    rows = activities.select(
        "session", "device", "start_ns", "duration_ns", row=pl.int_range(pl.len(), dtype=pl.UInt32)
    )
    for times in partition_by_session(rows).values():
        known = not times["start_ns"].null_count() and not times["duration_ns"].null_count()
        # If all times are known, use those of the frame without a copy.
        timed = times if known else times.drop_nulls(["start_ns", "duration_ns"])
        gpus = distinct_rows(timed, ("session", "device"))
        if gpus.height == 1:
            yield gpus.row(0), timed["row"].to_numpy(), timed
        elif gpus.height:
            parts = timed.partition_by("session", "device", as_dict=True)
            for (session, device), part in parts.items():
                yield (session, device), part["row"].to_numpy(), part


def classify_values(names: pl.Series, classify: Callable[[pl.Series], npt.NDArray[np.int8]]) -> npt.NDArray[np.int8]:
    """Return a number for each name of a column, computed once per distinct name.

    Args:
        names: A categorical column.
        classify: Maps distinct names, as texts, to one number each; a missing name is an empty text.
    """
    codes = names.to_physical()
    # A missing name is at the index after all others.
    last = int(codes.max() or 0) + 1  # type: ignore[arg-type]
    places = (codes.fill_null(last) if codes.null_count() else codes).to_numpy()
    if not len(places):
        return np.zeros(0, np.int8)
    is_used = np.zeros(last + 1, np.bool_)
    for block in blocks(len(places)):
        # Indices of 64 bits are looked up three times as fast, but would need much memory for all rows at once.
        is_used[places[block].astype(np.int64)] = True
    used = np.flatnonzero(is_used)
    texts = pl.Series(used, dtype=pl.UInt32).set(pl.Series(used == last), None).cat.to(names.dtype)
    table = np.zeros(last + 1, np.int8)
    table[used] = classify(texts.cast(pl.String).fill_null(""))
    found = np.empty(len(places), np.int8)
    for block in blocks(len(places)):
        table.take(places[block].astype(np.int64), out=found[block], mode="clip")
    return found


@once_per_profile("activities", "sessions")
def adjusted_timelines(profile: Profile) -> tuple[Timeline, ...]:
    """Return `timelines` without overlaps caused by rounded starts, for lengths of unions.

    An overlap that is shorter than the resolution of the starts is removed: the later work starts when the earlier one
    ends, and work that follows without a gap moves with it. All work stays between the first start and the last end,
    and its union is as long as in `tui.analysis.gpu_time.idle_gaps.busy_time`.
    """
    return tuple(_adjust_rounded_starts(line) for line in timelines(profile))


def _adjust_rounded_starts(line: Timeline) -> Timeline:
    if line.resolution_ns == 1:
        return line
    starts, ends = line.starts, line.ends
    before = np.concatenate((starts[:1], line.latest_ends()[:-1]))
    overlap = before - starts
    rounded = overlap < line.resolution_ns
    if not (rounded & (overlap > 0)).any():
        return line
    first, last = int(starts[0]), int(ends.max())
    # The busy time that each activity adds, one after the other.
    begun = np.where(rounded, starts, before)
    ended = np.maximum(ends, begun)
    until = np.cumsum(ended - begun)
    closed = until + np.maximum.accumulate(ended - until)
    # Activities at the end are moved before the last end.
    np.minimum(closed, last - (until[-1] - until), out=closed)
    closed -= ended
    starts, ends = np.maximum(starts + closed, first), np.maximum(ends + closed, first)
    if is_nondecreasing(starts):
        return replace(line, starts=starts, ends=ends)
    order = np.argsort(starts, kind="stable")
    return replace(line, row_index=line.rows[order], starts=starts[order], ends=ends[order])


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
        before, reached = self._reached.before(ends)
        if self._resolution_ns == 1:
            self.length_ns += int((reached - np.maximum(before, starts)).sum())
            return before
        begun = np.where(before < starts + self._resolution_ns, starts, before)
        self.length_ns += int((np.maximum(ends, begun) - begun).sum())
        return before


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
    line: Timeline, classes: Classes, sets: Sequence[Collection[int]], *, resolution_ns: int = 1
) -> list[int]:
    """Return the length of the union of the work of each set of classes.

    Args:
        line: The work.
        classes: The class of each activity of the line, from 0.
        sets: The sets of classes.
        resolution_ns: As in `covered_time`; above 1, the lengths of sets need not add up to the length of all.
    """
    all_of_them = range(int(classes.max(initial=-1)) + 1)
    present = frozenset(
        found for found in all_of_them if any((classes[block] == found).any() for block in blocks(len(classes)))
    )
    present_sets = [present.intersection(wanted) for wanted in sets]
    unions = {wanted: _Union(resolution_ns) for wanted in present_sets if wanted}
    for block in blocks(len(line.starts)):
        starts, ends, own = line.starts[block], line.ends[block], classes[block]
        for wanted, union in unions.items():
            if wanted == present:
                union.add(starts, ends)
            else:
                # Comparing with each class is quicker than a table lookup.
                on = np.logical_or.reduce([own == found for found in wanted])
                union.add(starts[on], ends[on])
    return [unions[wanted].length_ns if wanted else 0 for wanted in present_sets]


def unions_by_class(starts: Ints, ends: Ints, classes: Classes) -> dict[int, IntervalSet]:
    """Return the union of the intervals of each class, without class -1.

    Args:
        starts: The sorted starts of the intervals.
        ends: Their ends.
        classes: The class of each, from 0.
    """
    reached: dict[int, RunningLatestEnd] = {}
    opened: dict[int, list[Ints]] = {}
    closed: dict[int, list[Ints]] = {}
    for block in blocks(len(starts)):
        own = classes[block]
        for found in np.flatnonzero(np.bincount(own + 1)[1:]).tolist():
            of_class = own == found
            begun, ended = starts[block][of_class], ends[block][of_class]
            is_first = found not in reached
            before, _ = reached.setdefault(found, RunningLatestEnd()).before(ended)
            places = np.flatnonzero(begun > before)
            opened.setdefault(found, []).append(begun[places])
            closed.setdefault(found, []).append(before[places[1:] if is_first else places])
    return {
        found: from_disjoint(
            np.concatenate(opened[found]), np.append(np.concatenate(closed[found]), reached[found].latest)
        )
        for found in sorted(reached)
    }


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The concurrency of some work."""

    length_ns: int
    """How long two or more were active."""
    max_concurrent: int
    """The maximum number of concurrent activities; one that ends as another starts does not overlap it."""


def concurrency(line: Timeline, chosen: Flags) -> Concurrency:
    """Return how much of the chosen work ran concurrently, without overlaps that rounding may cause.

    Args:
        line: The work.
        chosen: The activities of the line to examine.
    """
    concurrent, reached = _Union(), RunningLatestEnd()
    overlapping = []
    waiting = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
    for block in blocks(len(line.starts)):
        starts, ends = line.starts[block][chosen[block]], line.ends[block][chosen[block]]
        if line.resolution_ns > 1:
            ends = ends - (line.resolution_ns - 1)
        long = ends > starts
        starts, ends = starts[long], ends[long]
        before, _ = reached.before(ends)
        late = before > starts
        # An activity overlaps with others from its start to the latest end before it.
        concurrent.add(starts[late], np.minimum(ends[late], before[late]))
        # The last activity waits for the next block, which shows its overlaps.
        starts, ends, late = (np.concatenate(parts) for parts in zip(waiting, (starts, ends, late), strict=True))
        overlaps = late[:-1] | (starts[1:] < ends[:-1])
        overlapping.append((starts[:-1][overlaps], ends[:-1][overlaps]))
        waiting = starts[-1:], ends[-1:], late[-1:]
    if not concurrent.length_ns:
        return Concurrency(0, int(chosen.any()))
    overlapping.append((waiting[0], waiting[1]))
    return Concurrency(
        concurrent.length_ns, max_concurrent(*(np.concatenate(column) for column in zip(*overlapping, strict=True)))
    )
