"""The dependency that determined the start of each GPU activity of a session: the input of critical paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.collectives import TURN, clock_alignment, is_synchronizing, matched_start_times
from tui.analysis.gpu_time.host_calls import ApiClass, api_classes
from tui.analysis.gpu_time.interval_sets import interval_union
from tui.analysis.gpu_time.timelines import WorkKind, classify_values, work_kinds
from tui.analysis.memo import once_per_profile
from tui.correlation.launches import SLACK_NS, launching_rows, thread_codes
from tui.correlation.nesting import NONE, Nesting, nest_intervals
from tui.model.profile import session_rows
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


class PathKind(IntEnum):
    """The kind of a segment of a path."""

    KERNEL = 0
    COPY = 1
    COMMUNICATION = 2
    KERNEL_GAP = 3
    LAUNCH_DELAY = 4
    SYNCHRONIZATION = 5
    CPU_OP = 6
    API_CALL = 7
    CPU_OUTSIDE = 8
    NOT_RECORDED = 9


TITLES: Final = {
    PathKind.KERNEL: "kernel",
    PathKind.COPY: "copy",
    PathKind.COMMUNICATION: "communication",
    PathKind.KERNEL_GAP: "kernel gap",
    PathKind.LAUNCH_DELAY: "launch delay",
    PathKind.SYNCHRONIZATION: "synchronization",
    PathKind.CPU_OP: "CPU op",
    PathKind.API_CALL: "API call",
    PathKind.CPU_OUTSIDE: "CPU outside ops",
    PathKind.NOT_RECORDED: "not recorded",
}
"""The titles of the kinds in tables."""
KIND_COLUMNS: Final = {kind: f"path_{title.lower().replace(' ', '_')}_ns" for kind, title in TITLES.items()}

GPU_WORK: Final = (PathKind.KERNEL, PathKind.COPY, PathKind.COMMUNICATION)

_BY_WORK_KIND: Final = {
    WorkKind.COMPUTE: PathKind.KERNEL,
    WorkKind.COMMUNICATION: PathKind.COMMUNICATION,
    WorkKind.MEMSET: PathKind.COPY,
    WorkKind.COPY: PathKind.COPY,
}
_STREAM_WAIT: Final = r"^(?:cuda|hip|cu)StreamWaitEvent"
_MAX_CLOCK_ERROR_NS: Final = 50_000
"""The most that awaited work ends after the call that waited for it: the clocks of CPU and GPU differ a little."""
_MAX_STEPS_BACK: Final = 64
"""The number of activities that end before a moment and are tried."""
_EARLIEST: Final = -(1 << 62)


class Start(IntEnum):
    """The kind of dependency that determined the start of an activity."""

    UNKNOWN = 0
    LAUNCH = 1
    """It started when its launch reached the GPU."""
    STREAM = 2
    """It started when the previous work on its stream ended."""
    WAIT = 3
    """It started when work on another stream ended."""


@dataclass(slots=True)
class Trace:
    """The activities and dependencies of one session.

    Times are of a clock that is common to all sessions of a path. Activities are numbered by their start, from 0.
    """

    session: int
    shift_ns: int
    """Added to the session's own times."""
    start: list[int]
    end: list[int]
    row: Ints
    """The row in ``activities``."""
    kind: list[int]
    """A `PathKind`."""
    iteration: list[int | None]
    launch: list[int]
    """The start of the launching call; `_EARLIEST` if unknown."""
    thread: list[int]
    """The thread of the launching call, as `thread_codes`."""
    decided_by: list[int]
    """A `Start`."""
    awaited: list[int]
    """The activity that it waited for; -1 for none."""
    inferred: list[bool]
    """Whether the dependency is inferred from times, not recorded."""
    previous: Ints
    """The activity before it on its stream; -1 for none."""
    waits: dict[int, list[int]]
    """The activities of other streams that had to end before an activity, recorded or inferred."""
    latency_ns: int
    """The shortest time from the begin of a launching call to the start of its work."""
    blocked: dict[int, tuple[list[int], list[int], list[int], list[int]]]
    """For each thread the calls that waited for GPU work, by end: their ends, begins, the activity, their rows."""
    bursts: dict[int, Bursts]
    """The CPU work of each thread that has ops or launches."""
    cpu_end: list[tuple[int, int]]
    """End and thread of all bursts, ascending."""
    meetings: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """For collectives that another rank joined later: when, which session, and its activity there."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """The times in which a thread was in an op or a call."""

    begins: list[int]
    ends: list[int]
    woken_by: list[tuple[int, int] | None]
    """The thread that handed over to each burst, and the end of that thread's work; None without a handover.

    A burst is handed over if a burst of another thread begins and ends in the pause before it. Python's thread waits
    for autograd's in this way.
    """
    handover: list[int]
    """The index of the last handed-over burst up to each burst; -1 for none."""


@dataclass(frozen=True, slots=True)
class CpuItems:
    """The nested ops and calls of a session in a time interval."""

    nesting: Nesting
    threads: Ints
    """The thread of each boundary."""
    bounds: Ints
    """Begins and ends of all of them, by thread and time."""
    names: pl.Series
    ops: int
    """The number of ops, which are the first items; the others are calls."""
    op_numbers: pl.Series

    def split(self, thread: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Split times of threads where ops and calls begin and end.

        Returns:
            For each piece the index of its time, its begin and end, and the innermost op or call; `NONE` outside of
            all.
        """
        if not len(thread):
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing, nothing
        codes = np.unique(np.concatenate((self.threads, thread)))
        origin = int(min(begin.min(), self.bounds.min() if len(self.bounds) else begin.min()))
        width = int(max(end.max(), self.bounds.max() if len(self.bounds) else end.max())) - origin + 1
        keys = np.searchsorted(codes, self.threads) * width + (self.bounds - origin)
        base = np.searchsorted(codes, thread) * width - origin
        first = np.searchsorted(keys, base + begin, side="right")
        last = np.searchsorted(keys, base + end, side="left")
        piece_counts = np.maximum(last - first, 0) + 1
        time_index = np.repeat(np.arange(len(thread)), piece_counts)
        piece_index = np.arange(len(time_index)) - np.repeat(np.cumsum(piece_counts) - piece_counts, piece_counts)
        inner_bounds = np.append(self.bounds, 0)
        boundary = np.repeat(first, piece_counts) + piece_index
        starts = np.where(
            piece_index == 0, begin[time_index], inner_bounds[np.minimum(boundary - 1, len(inner_bounds) - 1)]
        )
        ends = np.where(
            piece_index == piece_counts[time_index] - 1,
            end[time_index],
            inner_bounds[np.minimum(boundary, len(inner_bounds) - 1)],
        )
        # Times are doubled in the nesting, so that a moment between two boundaries is in neither.
        return time_index, starts, ends, self.nesting.innermost(thread[time_index], 2 * starts + 1)

    def kinds(self, item: Ints) -> Ints:
        """Return the kind of the innermost item of each piece."""
        kind = np.where(item < self.ops, int(PathKind.CPU_OP), int(PathKind.API_CALL))
        return np.where(item == NONE, int(PathKind.CPU_OUTSIDE), kind)

    def described(self, item: Ints) -> tuple[pl.Series, ...]:
        """Return kind, name and op of the innermost item of each piece: piece_kind, piece_name and piece_op."""
        rows = pl.Series(item).set(pl.Series(item == NONE), None).cast(pl.UInt32)
        names = self.names.gather(rows).cast(NAME)
        return (
            pl.Series("piece_kind", self.kinds(item)),
            names.alias("piece_name"),
            self.op_numbers.gather(rows).alias("piece_op"),
        )


def cpu_items(profile: Profile, trace: Trace, begin: int, end: int) -> CpuItems:
    """Return the ops and calls of a session that are active in an interval of the common clock."""
    shift = trace.shift_ns
    since, until_ns = begin - shift, end - shift
    active = (pl.col("start_ns") < until_ns) & (pl.col("start_ns") + pl.col("duration_ns") > since)
    timed = [
        session_rows(profile[name], trace.session).filter(active).drop_nulls(["start_ns", "duration_ns"])
        for name in ("ops", "api_calls")
    ]
    joined = pl.concat([frame.select("name", "start_ns", "duration_ns", "pid", "tid") for frame in timed])
    thread = thread_codes(joined["pid"], joined["tid"])
    begins = joined["start_ns"].to_numpy() + shift
    durations = np.maximum(joined["duration_ns"].to_numpy(), 0)
    ends = begins + durations
    nesting = nest_intervals(thread, 2 * begins, 2 * durations, slack=2 * SLACK_NS)
    has_length = ends > begins
    threads = np.concatenate((thread[has_length], thread[has_length]))
    bounds = np.concatenate((begins[has_length], ends[has_length]))
    order = np.lexsort((bounds, threads))
    numbers = timed[0]["op"].extend_constant(None, timed[1].height)
    return CpuItems(nesting, threads[order], bounds[order], joined["name"], timed[0].height, numbers)


@once_per_profile("activities", "api_calls", "ops", "sessions", "ranges")
def traces(profile: Profile) -> dict[int, Trace]:
    """Return the trace of every session whose GPU work has times.

    Args:
        profile: See `tui.analysis.critical_path.base_profile`.
    """
    origins = dict(profile["sessions"].select("session", "origin_ns").iter_rows())
    agree = sorted(clock_alignment(profile).agree) if profile["sessions"].height > 1 else []
    known_origins = [origins[session] or 0 for session in agree]
    shifts = {session: (origins[session] or 0) - min(known_origins) for session in agree}
    traces_by_session: dict[int, Trace] = {}
    kinds = work_kinds(profile)
    numbered = profile["activities"].with_row_index("row")
    for session in numbered["session"].unique().sort().to_list():
        is_session = pl.col("session") == session
        work = numbered.filter(is_session).drop_nulls(["start_ns", "duration_ns"])
        if work.is_empty():
            continue
        calls = profile["api_calls"].with_row_index("call_row").filter(is_session)
        traces_by_session[session] = _trace(
            session, shifts.get(session, 0), work, calls, profile["ops"].filter(is_session), kinds
        )
    if agree:
        _add_meetings(profile, traces_by_session, shifts)
    return traces_by_session


@dataclass(slots=True)
class _Starts:
    """The activities of a session by start, and the dependency that determined each start; names as in `Trace`."""

    start: Ints
    end: Ints
    stream: Ints
    """The number of its stream among those of all devices."""
    launch: Ints
    thread: Ints
    call: npt.NDArray[np.int32]
    previous: Ints
    ready: Ints
    """When the launch had arrived and the previous work on the stream had ended."""
    latency: int
    decided_by: Ints
    awaited: Ints
    inferred: npt.NDArray[np.bool_]
    waits: dict[int, list[int]] = field(default_factory=dict)


def _trace(
    session: int, shift: int, work: pl.DataFrame, calls: pl.DataFrame, ops: pl.DataFrame, kinds: npt.NDArray[np.int8]
) -> Trace:
    work = work.sort("start_ns", maintain_order=True)
    calls = calls.drop_nulls(["start_ns", "duration_ns"])
    activities = _starts(work, calls, shift)
    # The stream of another device may have the same number.
    streams = _stream_numbers(work) if work["device"].n_unique() == 1 else None
    recorded = _add_recorded_waits(activities, calls, streams, shift)
    _infer_stream_waits(activities, calls.clear() if recorded else calls, shift)
    bursts = _bursts(ops, calls, np.unique(activities.thread[activities.launch > _EARLIEST]), shift)
    row = work["row"].to_numpy().astype(np.int64)
    return Trace(
        session=session,
        shift_ns=shift,
        start=activities.start.tolist(),
        end=activities.end.tolist(),
        row=row,
        kind=np.array([int(_BY_WORK_KIND[kind]) for kind in WorkKind])[kinds[row]].tolist(),
        iteration=work["iteration"].to_list(),
        launch=activities.launch.tolist(),
        thread=activities.thread.tolist(),
        decided_by=activities.decided_by.tolist(),
        awaited=activities.awaited.tolist(),
        inferred=activities.inferred.tolist(),
        previous=activities.previous,
        waits=activities.waits,
        latency_ns=activities.latency,
        blocked=_blocked_calls(activities, calls, streams, shift),
        bursts=bursts,
        cpu_end=sorted((finish, code) for code, burst in bursts.items() for finish in burst.ends),
    )


def _starts(work: pl.DataFrame, calls: pl.DataFrame, shift: int) -> _Starts:
    start = work["start_ns"].to_numpy() + shift
    end = start + np.maximum(work["duration_ns"].to_numpy(), 0)
    call = launching_rows(work["correlation"], calls)
    call_start = np.append(calls["start_ns"].to_numpy() + shift, _EARLIEST)
    call_thread = np.append(thread_codes(calls["pid"], calls["tid"]), -1)
    launch, thread = call_start[call], call_thread[call]
    # Work that starts before its call is on another clock: ignore its launch.
    launch = np.where(launch <= start, launch, _EARLIEST)
    previous = _previous_on_stream(work)
    is_launch_known = (launch > _EARLIEST) & (_position_in_launch(call) == 0)
    delays = (start - launch)[is_launch_known]
    latency = int(delays[delays > 0].min()) if (delays > 0).any() else 0
    previous_end = np.where(previous >= 0, np.minimum(end[previous], start), _EARLIEST)
    launch_arrival = np.where(is_launch_known, np.minimum(launch + latency, start), launch)
    decided_by = np.select(
        [(launch > _EARLIEST) & (launch_arrival > previous_end), previous >= 0, launch > _EARLIEST],
        [int(Start.LAUNCH), int(Start.STREAM), int(Start.LAUNCH)],
        int(Start.UNKNOWN),
    )
    awaited = np.where(decided_by == Start.STREAM, previous, -1)
    ready, inferred = np.maximum(launch_arrival, previous_end), np.zeros(len(start), bool)
    streams = _stream_codes(work)
    return _Starts(start, end, streams, launch, thread, call, previous, ready, latency, decided_by, awaited, inferred)


def _stream_codes(work: pl.DataFrame) -> Ints:
    return work.select(pl.struct("device", "stream").rank("dense").cast(pl.Int64)).to_series().to_numpy()


def _previous_on_stream(work: pl.DataFrame) -> Ints:
    """Return the index of the previous activity on the stream of each, by start; -1 if none or unknown."""
    previous = pl.col("at").shift(1).over("device", "stream")
    indices = (
        work.select("device", "stream", pl.int_range(pl.len(), dtype=pl.Int64).alias("at"))
        .select(pl.when(pl.col("stream").is_not_null()).then(previous).fill_null(-1))
        .to_series()
    )
    return indices.to_numpy()


def _position_in_launch(call: npt.NDArray[np.int32]) -> Ints:
    """Return the position of each activity among those of its launch, by start: a graph's launch has many."""
    order = np.argsort(call, kind="stable")
    sorted_calls = call[order]
    first = np.concatenate(([True], sorted_calls[1:] != sorted_calls[:-1]))
    begin = np.maximum.accumulate(np.where(first, np.arange(len(call)), 0))
    positions = np.empty(len(call), np.int64)
    positions[order] = np.arange(len(call)) - begin
    return np.where(call >= 0, positions, 0)


class _LaunchOrder:
    """The activities of each stream in launch order, in which they also run."""

    def __init__(self, activities: _Starts, streams: Ints) -> None:
        self._streams, self._launch = streams, activities.launch
        self._order = np.lexsort((activities.end, activities.launch, streams))
        keys = pl.DataFrame({"stream": streams[self._order], "launch": activities.launch[self._order]})
        self._launches_by_stream = {
            int(stream): (int(part["at"][0]), part["launch"].to_numpy())
            for (stream,), part in keys.with_row_index("at").group_by("stream", maintain_order=True)
        }

    def last_before(self, stream: int, moment: int) -> int:
        """Return the last activity that was launched into a stream before a moment; -1 for none."""
        first, launches = self._launches_by_stream.get(stream, (0, np.zeros(0, np.int64)))
        position = int(np.searchsorted(launches, moment, side="left")) - 1
        return int(self._order[first + position]) if position >= 0 and launches[position] > _EARLIEST else -1

    def first_after(self, stream: int, moment: int) -> int:
        """Return the first activity that was launched into a stream after a moment; -1 for none."""
        first, launches = self._launches_by_stream.get(stream, (0, np.zeros(0, np.int64)))
        position = int(np.searchsorted(launches, moment, side="right"))
        return int(self._order[first + position]) if position < len(launches) else -1


def _stream_numbers(work: pl.DataFrame) -> Ints:
    return work["stream"].fill_null(-1).to_numpy().astype(np.int64)


def _add_recorded_waits(activities: _Starts, calls: pl.DataFrame, streams: Ints | None, shift: int) -> bool:
    """Add the recorded waits of activities for other streams.

    The first activity that is launched into the waiting stream after the wait waits for the last one that was launched
    into the other stream before the event was recorded.

    Args:
        activities: The activities; gets the waits.
        calls: The API calls, with what they waited for.
        streams: The stream of each activity; None if its number may be that of several.
        shift: The clock shift of the session.

    Returns:
        Whether the input records waits of streams.
    """
    waiting = calls.drop_nulls(["waiting_stream", "awaited_stream", "awaited_call"])
    if waiting.is_empty() or streams is None:
        return False
    record_rows = launching_rows(waiting["awaited_call"], calls)
    starts = calls["start_ns"].to_numpy() + shift
    by_launch = _LaunchOrder(activities, streams)
    columns = waiting.select(pl.col("start_ns") + shift, "waiting_stream", "awaited_stream").iter_rows()
    for (wait_ns, stream, awaited_stream), record_row in zip(columns, record_rows.tolist(), strict=True):
        if record_row < 0:
            continue
        activity, awaited = (
            by_launch.first_after(stream, wait_ns),
            by_launch.last_before(awaited_stream, starts[record_row]),
        )
        # Contradicting times mean that the link is wrong.
        if (
            activity < 0
            or awaited < 0
            or stream == awaited_stream
            or activities.end[awaited] > activities.start[activity]
        ):
            continue
        activities.waits.setdefault(activity, []).append(awaited)
        awaited_end = int(activities.end[awaited])
        if awaited_end > activities.ready[activity]:
            activities.ready[activity] = awaited_end
            activities.decided_by[activity], activities.awaited[activity] = Start.WAIT, awaited
    return True


def _infer_stream_waits(activities: _Starts, calls: pl.DataFrame, shift: int) -> None:
    """Infer by times which activities waited for another stream: within a graph, and after calls that wait.

    Args:
        activities: The activities; gets the waits.
        calls: The API calls, including waits whose target is not recorded.
        shift: The clock shift of the session.
    """
    start, end, launch, call = activities.start, activities.end, activities.launch, activities.call
    is_wait = calls["name"].cast(pl.String).str.contains(_STREAM_WAIT).fill_null(False).to_numpy()
    waits = np.flatnonzero(is_wait)
    by_end = np.argsort(end, kind="stable")
    ends = end[by_end]
    same_launch = np.flatnonzero(_position_in_launch(call) > 0)
    unexplained = set(same_launch[(activities.decided_by == Start.LAUNCH)[same_launch]].tolist())
    if len(waits):
        wait_threads = thread_codes(calls["pid"], calls["tid"])[waits]
        wait_times = calls["start_ns"].to_numpy()[waits] + shift
        order = np.lexsort((wait_times, wait_threads))
        wait_threads, wait_times = wait_threads[order], wait_times[order]
        candidates = np.flatnonzero((start - activities.ready > activities.latency) & (launch > _EARLIEST))
        for activity in candidates.tolist():
            low, high = (
                np.searchsorted(wait_threads, activities.thread[activity], "left"),
                np.searchsorted(wait_threads, activities.thread[activity], "right"),
            )
            wait_index = low + int(np.searchsorted(wait_times[low:high], launch[activity])) - 1
            previous_launch = launch[activities.previous[activity]] if activities.previous[activity] >= 0 else _EARLIEST
            if wait_index >= low and wait_times[wait_index] > previous_launch:
                unexplained.add(activity)
    for activity in sorted(unexplained):
        last_position = int(np.searchsorted(ends, start[activity], side="right")) - 1
        for position in range(last_position, max(last_position - _MAX_STEPS_BACK, -1), -1):
            candidate = int(by_end[position])
            is_same_launch = (
                call[candidate] == call[activity] and call[activity] >= 0 and start[candidate] < start[activity]
            )
            if end[candidate] <= activities.ready[activity] and not is_same_launch:
                break
            if activities.stream[candidate] != activities.stream[activity] and (
                launch[candidate] < launch[activity] or is_same_launch
            ):
                activities.decided_by[activity], activities.awaited[activity], activities.inferred[activity] = (
                    Start.WAIT,
                    candidate,
                    True,
                )
                activities.waits.setdefault(activity, []).append(candidate)
                break


def _blocked_calls(
    activities: _Starts, calls: pl.DataFrame, streams: Ints | None, shift: int
) -> dict[int, tuple[list[int], list[int], list[int], list[int]]]:
    """Return the calls that waited for GPU work: by thread, by end.

    The work is recorded (a stream, an event, or the device), or it is the work that ended last before the call
    returned. Recorded work may end up to `_MAX_CLOCK_ERROR_NS` later.
    """
    end, launch = activities.end, activities.launch
    classes = classify_values(calls["name"], api_classes)
    begins = calls["start_ns"].to_numpy() + shift
    finishes = begins + calls["duration_ns"].to_numpy()
    threads = thread_codes(calls["pid"], calls["tid"])
    rows = calls["call_row"].to_numpy()
    last_work = np.full(calls.height, -1, np.int64)
    has_call = activities.call >= 0
    by_end = np.argsort(end, kind="stable")
    last_work[activities.call[by_end][has_call[by_end]]] = by_end[has_call[by_end]]
    ends = end[by_end]
    recorded = {} if streams is None else _last_awaited_work(activities, calls, streams, shift)
    waits: list[tuple[int, int, int, int, int]] = []
    for call in np.flatnonzero((classes == ApiClass.SYNC) | ((classes == ApiClass.COPY) & (last_work >= 0))).tolist():
        begin, finish = int(begins[call]), int(finishes[call])
        latest_end = finish
        if classes[call] == ApiClass.COPY:
            work = int(last_work[call])
        elif call in recorded:
            work = recorded[call]
            latest_end += _MAX_CLOCK_ERROR_NS
        else:
            work = -1
            last_position = int(np.searchsorted(ends, finish, side="right")) - 1
            for position in range(last_position, max(last_position - _MAX_STEPS_BACK, -1), -1):
                if launch[by_end[position]] < begin:
                    work = int(by_end[position])
                    break
        if work >= 0 and begin < end[work] <= latest_end:
            waits.append((int(threads[call]), finish, begin, work, int(rows[call])))
    by_thread: dict[int, tuple[list[int], list[int], list[int], list[int]]] = {}
    for thread, finish, begin, work, row in sorted(waits):
        columns = by_thread.setdefault(thread, ([], [], [], []))
        for column, value in zip(columns, (finish, begin, work, row), strict=True):
            column.append(value)
    return by_thread


def _last_awaited_work(activities: _Starts, calls: pl.DataFrame, streams: Ints, shift: int) -> dict[int, int]:
    """Return the last work of the stream or event that each call waited for, as recorded; -1 for none.

    Waits for a whole device are not included: they wait for the work that ends last.
    """
    waiting = calls.with_row_index("at").filter(
        pl.col("waiting_stream").is_null(), pl.col("awaited_stream").is_not_null()
    )
    if waiting.is_empty():
        return {}
    by_launch = _LaunchOrder(activities, streams)
    record_rows = launching_rows(waiting["awaited_call"], calls)
    starts = calls["start_ns"].to_numpy() + shift
    last_work = {}
    for (call_index, stream, event), record_row in zip(
        waiting.select("at", "awaited_stream", "awaited_call").iter_rows(), record_rows.tolist(), strict=True
    ):
        if event is None or record_row >= 0:
            last_work[call_index] = by_launch.last_before(
                stream, int(starts[call_index if event is None else record_row])
            )
    return last_work


def _bursts(ops: pl.DataFrame, calls: pl.DataFrame, launching: Ints, shift: int) -> dict[int, Bursts]:
    """Return the CPU work of each thread with ops or launches."""
    frames = [
        frame.select("start_ns", "duration_ns", "pid", "tid").drop_nulls(["start_ns", "duration_ns"])
        for frame in (ops, calls)
    ]
    op_threads, call_threads = (thread_codes(frame["pid"], frame["tid"]) for frame in frames)
    starts = [frame["start_ns"].to_numpy() + shift for frame in frames]
    ends = [start + np.maximum(frame["duration_ns"].to_numpy(), 0) for start, frame in zip(starts, frames, strict=True)]
    threads = np.union1d(np.unique(op_threads), launching)
    busy = {}
    for thread in threads.tolist():
        is_thread = (op_threads == thread, call_threads == thread)
        outer = [
            interval_union(start[here], end[here]) for start, end, here in zip(starts, ends, is_thread, strict=True)
        ]
        busy[thread] = interval_union(
            np.concatenate([times.starts for times in outer]), np.concatenate([times.ends for times in outer])
        )
    code = np.concatenate(
        [np.full(len(burst.starts), thread) for thread, burst in busy.items()] or [np.zeros(0, np.int64)]
    )
    begin = np.concatenate([burst.starts for burst in busy.values()] or [np.zeros(0, np.int64)])
    end = np.concatenate([burst.ends for burst in busy.values()] or [np.zeros(0, np.int64)])
    by_end = np.argsort(end, kind="stable")
    bursts = {}
    for thread, burst in busy.items():
        previous_ends = np.concatenate(([_EARLIEST], burst.ends[:-1]))
        waker = np.full(len(burst.starts), -1, np.int64)
        position = np.searchsorted(end[by_end], burst.starts, side="right") - 1
        pending = np.flatnonzero(position >= 0)
        for _ in range(_MAX_STEPS_BACK):
            candidate = by_end[position[pending]]
            pending = pending[end[candidate] > previous_ends[pending]]
            if not len(pending):
                break
            candidate = by_end[position[pending]]
            is_handover = (
                (code[candidate] != thread)
                & (begin[candidate] >= previous_ends[pending])
                # Two calls without a duration at one time do not hand over to each other.
                & (begin[candidate] < burst.starts[pending])
            )
            waker[pending[is_handover]] = candidate[is_handover]
            pending = pending[~is_handover & (position[pending] > 0)]
            position[pending] -= 1
        indices = np.arange(len(waker))
        bursts[thread] = Bursts(
            burst.starts.tolist(),
            burst.ends.tolist(),
            [None if candidate < 0 else (int(code[candidate]), int(end[candidate])) for candidate in waker.tolist()],
            np.maximum.accumulate(np.where(waker >= 0, indices, -1)).tolist(),
        )
    return bursts


def _add_meetings(profile: Profile, traces_by_session: Mapping[int, Trace], shifts: Mapping[int, int]) -> None:
    """Add the rank that joined each collective last, if the clocks agree."""
    rows = matched_start_times(profile).filter(is_synchronizing(), pl.col("session").is_in(list(shifts)))
    zero = min((profile["sessions"].filter(pl.col("session").is_in(list(shifts)))["origin_ns"].fill_null(0)).to_list())
    rows = rows.with_columns((pl.col("begin_ns") - zero).alias("begin_ns")).filter(
        pl.len().over(TURN) > 1, pl.col("begin_ns").is_not_null().all().over(TURN)
    )
    numbers = profile["activities"].with_row_index("row").select("session", "activity", "row")
    rows = rows.join(numbers, on=["session", "activity"], how="left")
    activity_by_row = {
        session: dict(zip(trace.row.tolist(), range(len(trace.row)), strict=True))
        for session, trace in traces_by_session.items()
    }
    for _, group in rows.group_by(TURN, maintain_order=True):
        last_arrival = group.sort("begin_ns", "session").row(-1, named=True)
        last_activity = activity_by_row[last_arrival["session"]].get(last_arrival["row"])
        for session, row, begin in group.select("session", "row", "begin_ns").iter_rows():
            activity = activity_by_row[session].get(row)
            if (
                activity is not None
                and last_activity is not None
                and begin < last_arrival["begin_ns"] < traces_by_session[session].end[activity]
            ):
                traces_by_session[session].meetings[activity] = (
                    last_arrival["begin_ns"],
                    last_arrival["session"],
                    last_activity,
                )
