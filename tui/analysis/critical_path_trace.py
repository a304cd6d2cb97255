"""The dependency that determined the start of each GPU activity of a session: the input of critical paths."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.collectives import TURN, clock_alignment, is_synchronizing, matched_start_times
from tui.analysis.gpu_time.host_calls import ApiClass, api_classes
from tui.analysis.gpu_time.interval_sets import IntervalSet, union_of
from tui.analysis.gpu_time.timelines import WorkKind, classify_values, work_kinds
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.memo import once_per_profile
from tui.cache.spill import filter_rows
from tui.correlation.launches import SLACK_NS, launching_rows, thread_codes
from tui.correlation.nesting import NONE, Nesting, nest_intervals
from tui.model.profile import rows_of_session
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
COLUMN_OF_KIND: Final = {kind: f"path_{title.lower().replace(' ', '_')}_ns" for kind, title in TITLES.items()}

GPU_WORK: Final = (PathKind.KERNEL, PathKind.COPY, PathKind.COMMUNICATION)

_BY_WORK_KIND: Final = {
    WorkKind.COMPUTE: PathKind.KERNEL,
    WorkKind.COMMUNICATION: PathKind.COMMUNICATION,
    WorkKind.MEMSET: PathKind.COPY,
    WorkKind.COPY: PathKind.COPY,
}
_STREAM_WAIT: Final = r"^(?:cuda|hip|cu)StreamWaitEvent"
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
    """When the launching call began; `_EARLIEST` where it is not known."""
    thread: list[int]
    """The thread of the launching call, as `thread_codes`."""
    decided_by: list[int]
    """A `Start`."""
    before: list[int]
    """The activity that it waited for; -1 for none."""
    inferred: list[bool]
    """That it waited for it is inferred from times, not recorded."""
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
    """For each the thread that handed over to it, and the end of that thread's work; None if it went on by itself.

    Handed over is what begins after all of another thread's burst that lies in this thread's pause: as Python's thread
    waits for autograd's, which began when Python's called it.
    """
    handover: list[int]
    """The index of the last handed-over burst up to each burst; -1 for none."""
    busy: IntervalSet
    calls: IntervalSet
    """Times in API calls."""


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
        pieces = np.maximum(last - first, 0) + 1
        of = np.repeat(np.arange(len(thread)), pieces)
        within = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        inner = np.append(self.bounds, 0)
        at = np.repeat(first, pieces) + within
        starts = np.where(within == 0, begin[of], inner[np.minimum(at - 1, len(inner) - 1)])
        ends = np.where(within == pieces[of] - 1, end[of], inner[np.minimum(at, len(inner) - 1)])
        # Times are doubled in the nesting, so that a moment between two boundaries is in neither.
        return of, starts, ends, self.nesting.innermost(thread[of], 2 * starts + 1)

    def described(self, item: Ints) -> tuple[pl.Series, ...]:
        """Return kind, name and op of the innermost item of each piece: piece_kind, piece_name and piece_op."""
        kind = np.where(item < self.ops, int(PathKind.CPU_OP), int(PathKind.API_CALL))
        kind = np.where(item == NONE, int(PathKind.CPU_OUTSIDE), kind)
        at = pl.Series(item).set(pl.Series(item == NONE), None).cast(pl.UInt32)
        names = self.names.gather(at).cast(NAME)
        return pl.Series("piece_kind", kind), names.alias("piece_name"), self.op_numbers.gather(at).alias("piece_op")


def cpu_items(profile: Profile, trace: Trace, begin: int, end: int) -> CpuItems:
    """Return the ops and calls of a session that are active in an interval of the common clock."""
    shift = trace.shift_ns
    since, until = begin - shift, end - shift
    active = (pl.col("start_ns") < until) & (pl.col("start_ns") + pl.col("duration_ns") > since)
    timed = [
        rows_of_session(profile[name], trace.session).filter(active).drop_nulls(["start_ns", "duration_ns"])
        for name in ("ops", "api_calls")
    ]
    joined = pl.concat([frame.select("name", "start_ns", "duration_ns", "pid", "tid") for frame in timed])
    thread = thread_codes(joined["pid"], joined["tid"])
    begins = joined["start_ns"].to_numpy() + shift
    durations = np.maximum(joined["duration_ns"].to_numpy(), 0)
    ends = begins + durations
    nesting = nest_intervals(thread, 2 * begins, 2 * durations, slack=2 * SLACK_NS)
    lasts = ends > begins
    threads = np.concatenate((thread[lasts], thread[lasts]))
    bounds = np.concatenate((begins[lasts], ends[lasts]))
    order = np.lexsort((bounds, threads))
    numbers = timed[0]["op"].extend_constant(None, timed[1].height)
    return CpuItems(nesting, threads[order], bounds[order], joined["name"], timed[0].height, numbers)


MAX_ACTIVITIES: Final = 1_000_000
"""The most activities that are analyzed together; each takes about 300 bytes of memory."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The input of critical paths."""

    profile: Profile
    """With its iterations. What ran before an iteration decides when it can start: iterations that are not shown are
    part of it; of a very large profile only those around the iterations whose paths are computed."""
    left_out_note: str = ""
    """Which iterations have no path because the profile is very large, and how to see theirs."""


def base_profile(profile: Profile) -> Profile:
    """Return the profile that critical paths are computed from (`Basis`)."""
    whole = profile.all_iterations or profile
    if whole["activities"].height <= MAX_ACTIVITIES:
        return whole if whole.steps is not None else with_iterations(whole)
    return part_basis(profile).profile


@once_per_profile("activities", "api_calls", "ops", "sessions", "ranges")
def part_basis(profile: Profile) -> Basis:
    """Return the part of a very large profile around the iterations shown, or around one of them."""
    whole = profile.all_iterations or profile
    whole = whole if whole.steps is not None else with_iterations(whole)
    shown = profile.steps if profile.steps is not None else whole.steps
    assert shown is not None, "with_iterations fills it"
    shown = shown.drop_nulls(["iteration", "start_ns", "duration_ns"]).filter(pl.col("duration_ns") > 0)
    key = ["session", "iteration"]
    if shown.is_empty():
        return Basis(_part(whole, shown))
    if profile["activities"].height <= MAX_ACTIVITIES:
        made = _part(whole, shown)
        if made["activities"].height <= MAX_ACTIVITIES:
            return Basis(made)
    of_first = shown.filter(pl.col("session") == shown["session"][0]).sort("duration_ns", "iteration")
    middle = of_first.slice((of_first.height - 1) // 2, 1)
    made = _part(whole, middle)
    number, count = middle["iteration"][0], made["activities"].height
    if count > MAX_ACTIVITIES:
        what = "the run" if shown.height == 1 else f"iteration {number}"
        words = f"{what} has {count:,} GPU activities, more than the limit of {MAX_ACTIVITIES:,}"
        return Basis(_part(whole, middle.clear()), words)
    others = f"{shown.select(key).n_unique() - 1:,} other iterations"
    return Basis(made, f"iteration {number} has the median duration; for {others}, use --iterations or :iterations")


def _part(whole_profile: Profile, steps: pl.DataFrame) -> Profile:
    """Return all work in the time of some iterations and of the ones before, in the sessions whose clock is known."""
    frames = dict(whole_profile.frames)
    if steps.is_empty():
        frames |= {name: whole_profile[name].clear() for name in ("activities", "api_calls", "ops")}
        return replace(whole_profile, frames=frames, steps=steps, all_iterations=None)
    assert whole_profile.steps is not None, "part_basis fills it"
    origins = dict(whole_profile["sessions"].select("session", "origin_ns").iter_rows())
    times = []
    for (session,), own in steps.group_by("session", maintain_order=True):
        origin = origins[session]
        first, last = own.select(
            pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("duration_ns")).max().alias("last")
        ).row(0)
        of_session = pl.col("session") == session
        before = (
            whole_profile.steps.filter(of_session, pl.col("start_ns") < first).select(pl.col("start_ns").max()).item()
        )
        since = first if before is None else before
        shifts = (
            {session: 0} if origin is None else {other: origin - at for other, at in origins.items() if at is not None}
        )
        times += [(other, since + shift, last + shift) for other, shift in shifts.items()]
    span = (
        pl.DataFrame(times, schema=["session", "since", "until"], orient="row")
        .group_by("session")
        .agg(pl.col("since").min(), pl.col("until").max())
    )
    for name in ("activities", "api_calls", "ops"):
        inside = [
            (pl.col("session") == session)
            & (pl.col("start_ns") < until)
            & (pl.col("start_ns") + pl.col("duration_ns") > since)
            for session, since, until in span.iter_rows()
        ]
        chosen = pl.any_horizontal(inside)
        if name == "api_calls":
            # Work that was launched before the time and runs in it.
            launching = frames["activities"]["correlation"].drop_nulls().unique()
            chosen |= pl.col("correlation").is_in(launching.implode()) & pl.col("session").is_in(
                span["session"].implode()
            )
        frames[name] = filter_rows(whole_profile[name], chosen)
    return replace(whole_profile, frames=frames, steps=steps, all_iterations=None)


@once_per_profile("activities", "api_calls", "ops", "sessions", "ranges")
def traces(profile: Profile) -> dict[int, Trace]:
    """Return the trace of every session whose GPU work has times.

    Args:
        profile: See `base_profile`.
    """
    origins = dict(profile["sessions"].select("session", "origin_ns").iter_rows())
    agree = sorted(clock_alignment(profile).agree) if profile["sessions"].height > 1 else []
    known = [origins[session] or 0 for session in agree]
    shifts = {session: (origins[session] or 0) - min(known) for session in agree}
    made: dict[int, Trace] = {}
    kinds = work_kinds(profile)
    numbered = profile["activities"].with_row_index("row")
    for session in numbered["session"].unique().sort().to_list():
        one = pl.col("session") == session
        work = numbered.filter(one).drop_nulls(["start_ns", "duration_ns"])
        if work.is_empty():
            continue
        calls = profile["api_calls"].with_row_index("call_row").filter(one)
        made[session] = _trace(session, shifts.get(session, 0), work, calls, profile["ops"].filter(one), kinds)
    if agree:
        _add_meetings(profile, made, shifts)
    return made


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
    decided: Ints
    before: Ints
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
        decided_by=activities.decided.tolist(),
        before=activities.before.tolist(),
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
    is_known = (launch > _EARLIEST) & (_turn_in_launch(call) == 0)
    delays = (start - launch)[is_known]
    latency = int(delays[delays > 0].min()) if (delays > 0).any() else 0
    ended = np.where(previous >= 0, np.minimum(end[previous], start), _EARLIEST)
    arrived = np.where(is_known, np.minimum(launch + latency, start), launch)
    decided = np.select(
        [(launch > _EARLIEST) & (arrived > ended), previous >= 0, launch > _EARLIEST],
        [int(Start.LAUNCH), int(Start.STREAM), int(Start.LAUNCH)],
        int(Start.UNKNOWN),
    )
    before = np.where(decided == Start.STREAM, previous, -1)
    ready, inferred = np.maximum(arrived, ended), np.zeros(len(start), bool)
    streams = _stream_codes(work)
    return _Starts(start, end, streams, launch, thread, call, previous, ready, latency, decided, before, inferred)


def _stream_codes(work: pl.DataFrame) -> Ints:
    return work.select(pl.struct("device", "stream").rank("dense").cast(pl.Int64)).to_series().to_numpy()


def _previous_on_stream(work: pl.DataFrame) -> Ints:
    """Return the index of the previous activity on the stream of each, by start; -1 if none or unknown."""
    before = pl.col("at").shift(1).over("device", "stream")
    found = (
        work.select("device", "stream", pl.int_range(pl.len(), dtype=pl.Int64).alias("at"))
        .select(pl.when(pl.col("stream").is_not_null()).then(before).fill_null(-1))
        .to_series()
    )
    return found.to_numpy()


def _turn_in_launch(call: npt.NDArray[np.int32]) -> Ints:
    """Return the position of each activity among those of its launch, by start: a graph's launch has many."""
    order = np.argsort(call, kind="stable")
    sorted_calls = call[order]
    first = np.concatenate(([True], sorted_calls[1:] != sorted_calls[:-1]))
    begin = np.maximum.accumulate(np.where(first, np.arange(len(call)), 0))
    turn = np.empty(len(call), np.int64)
    turn[order] = np.arange(len(call)) - begin
    return np.where(call >= 0, turn, 0)


class _ByLaunch:
    """The activities of each stream in launch order, in which they also run."""

    def __init__(self, one: _Starts, streams: Ints) -> None:
        self._streams, self._launch = streams, one.launch
        self._order = np.lexsort((one.end, one.launch, streams))
        keys = pl.DataFrame({"stream": streams[self._order], "launch": one.launch[self._order]})
        self._parts = {
            int(stream): (int(part["at"][0]), part["launch"].to_numpy())
            for (stream,), part in keys.with_row_index("at").group_by("stream", maintain_order=True)
        }

    def last_before(self, stream: int, at: int) -> int:
        """Return the last activity that was launched into a stream before a moment; -1 for none."""
        first, launches = self._parts.get(stream, (0, np.zeros(0, np.int64)))
        place = int(np.searchsorted(launches, at, side="left")) - 1
        return int(self._order[first + place]) if place >= 0 and launches[place] > _EARLIEST else -1

    def first_after(self, stream: int, at: int) -> int:
        """Return the first activity that was launched into a stream after a moment; -1 for none."""
        first, launches = self._parts.get(stream, (0, np.zeros(0, np.int64)))
        place = int(np.searchsorted(launches, at, side="right"))
        return int(self._order[first + place]) if place < len(launches) else -1


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
    record = launching_rows(waiting["awaited_call"], calls)
    starts = calls["start_ns"].to_numpy() + shift
    by_launch = _ByLaunch(activities, streams)
    columns = waiting.select(pl.col("start_ns") + shift, "waiting_stream", "awaited_stream").iter_rows()
    for (at, stream, other_stream), recorded in zip(columns, record.tolist(), strict=True):
        if recorded < 0:
            continue
        activity, other = by_launch.first_after(stream, at), by_launch.last_before(other_stream, starts[recorded])
        # Contradicting times mean that the link is wrong.
        if activity < 0 or other < 0 or stream == other_stream or activities.end[other] > activities.start[activity]:
            continue
        activities.waits.setdefault(activity, []).append(other)
        ended = int(activities.end[other])
        if ended > activities.ready[activity]:
            activities.ready[activity] = ended
            activities.decided[activity], activities.before[activity] = Start.WAIT, other
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
    same_launch = np.flatnonzero(_turn_in_launch(call) > 0)
    unexplained = set(same_launch[(activities.decided == Start.LAUNCH)[same_launch]].tolist())
    if len(waits):
        wait_threads = thread_codes(calls["pid"], calls["tid"])[waits]
        wait_times = calls["start_ns"].to_numpy()[waits] + shift
        order = np.lexsort((wait_times, wait_threads))
        wait_threads, wait_times = wait_threads[order], wait_times[order]
        candidates = np.flatnonzero((start - activities.ready > activities.latency) & (launch > _EARLIEST))
        for at in candidates.tolist():
            low, high = (
                np.searchsorted(wait_threads, activities.thread[at], "left"),
                np.searchsorted(wait_threads, activities.thread[at], "right"),
            )
            place = low + int(np.searchsorted(wait_times[low:high], launch[at])) - 1
            own = launch[activities.previous[at]] if activities.previous[at] >= 0 else _EARLIEST
            if place >= low and wait_times[place] > own:
                unexplained.add(at)
    for at in sorted(unexplained):
        last = int(np.searchsorted(ends, start[at], side="right")) - 1
        for position in range(last, max(last - _MAX_STEPS_BACK, -1), -1):
            other = int(by_end[position])
            same = call[other] == call[at] and call[at] >= 0 and start[other] < start[at]
            if end[other] <= activities.ready[at] and not same:
                break
            if activities.stream[other] != activities.stream[at] and (launch[other] < launch[at] or same):
                activities.decided[at], activities.before[at], activities.inferred[at] = Start.WAIT, other, True
                activities.waits.setdefault(at, []).append(other)
                break


def _blocked_calls(
    activities: _Starts, calls: pl.DataFrame, streams: Ints | None, shift: int
) -> dict[int, tuple[list[int], list[int], list[int], list[int]]]:
    """Return the calls that waited for GPU work: by thread, by end.

    The work is recorded (a stream, an event, or the device), or it is the work that ended last before the call
    returned.
    """
    end, launch = activities.end, activities.launch
    classes = classify_values(calls["name"], api_classes)
    begins = calls["start_ns"].to_numpy() + shift
    finishes = begins + calls["duration_ns"].to_numpy()
    threads = thread_codes(calls["pid"], calls["tid"])
    rows = calls["call_row"].to_numpy()
    last_own = np.full(calls.height, -1, np.int64)
    own = activities.call >= 0
    by_end = np.argsort(end, kind="stable")
    last_own[activities.call[by_end][own[by_end]]] = by_end[own[by_end]]
    ends = end[by_end]
    recorded = {} if streams is None else _last_awaited_work(activities, calls, streams, shift)
    found: list[tuple[int, int, int, int, int]] = []
    for at in np.flatnonzero((classes == ApiClass.SYNC) | ((classes == ApiClass.COPY) & (last_own >= 0))).tolist():
        begin, finish = int(begins[at]), int(finishes[at])
        if classes[at] == ApiClass.COPY:
            work = int(last_own[at])
        elif at in recorded:
            work = recorded[at]
        else:
            work = -1
            last = int(np.searchsorted(ends, finish, side="right")) - 1
            for position in range(last, max(last - _MAX_STEPS_BACK, -1), -1):
                if launch[by_end[position]] < begin:
                    work = int(by_end[position])
                    break
        if work >= 0 and begin < end[work] <= finish:
            found.append((int(threads[at]), finish, begin, work, int(rows[at])))
    by_thread: dict[int, tuple[list[int], list[int], list[int], list[int]]] = {}
    for thread, finish, begin, work, row in sorted(found):
        into = by_thread.setdefault(thread, ([], [], [], []))
        for column, value in zip(into, (finish, begin, work, row), strict=True):
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
    by_launch = _ByLaunch(activities, streams)
    record = launching_rows(waiting["awaited_call"], calls)
    starts = calls["start_ns"].to_numpy() + shift
    found = {}
    for (at, stream, event), recorded in zip(
        waiting.select("at", "awaited_stream", "awaited_call").iter_rows(), record.tolist(), strict=True
    ):
        if event is None or recorded >= 0:
            found[at] = by_launch.last_before(stream, int(starts[at if event is None else recorded]))
    return found


def _bursts(ops: pl.DataFrame, calls: pl.DataFrame, launching: Ints, shift: int) -> dict[int, Bursts]:
    """Return the CPU work of each thread with ops or launches."""
    frames = [
        frame.select("start_ns", "duration_ns", "pid", "tid").drop_nulls(["start_ns", "duration_ns"])
        for frame in (ops, calls)
    ]
    of_ops, of_calls = (thread_codes(frame["pid"], frame["tid"]) for frame in frames)
    starts = [frame["start_ns"].to_numpy() + shift for frame in frames]
    ends = [start + np.maximum(frame["duration_ns"].to_numpy(), 0) for start, frame in zip(starts, frames, strict=True)]
    threads = np.union1d(np.unique(of_ops), launching)
    busy, in_calls = {}, {}
    for thread in threads.tolist():
        own_ops, own_calls = of_ops == thread, of_calls == thread
        in_calls[thread] = union_of(starts[1][own_calls], ends[1][own_calls])
        outer = union_of(starts[0][own_ops], ends[0][own_ops])
        busy[thread] = union_of(
            np.concatenate((outer.starts, in_calls[thread].starts)), np.concatenate((outer.ends, in_calls[thread].ends))
        )
    code = np.concatenate(
        [np.full(len(burst.starts), thread) for thread, burst in busy.items()] or [np.zeros(0, np.int64)]
    )
    begin = np.concatenate([burst.starts for burst in busy.values()] or [np.zeros(0, np.int64)])
    end = np.concatenate([burst.ends for burst in busy.values()] or [np.zeros(0, np.int64)])
    by_end = np.argsort(end, kind="stable")
    found = {}
    for thread, burst in busy.items():
        own_end = np.concatenate(([_EARLIEST], burst.ends[:-1]))
        woken = np.full(len(burst.starts), -1, np.int64)
        position = np.searchsorted(end[by_end], burst.starts, side="right") - 1
        left = np.flatnonzero(position >= 0)
        for _ in range(_MAX_STEPS_BACK):
            other = by_end[position[left]]
            left = left[end[other] > own_end[left]]
            if not len(left):
                break
            other = by_end[position[left]]
            good = (code[other] != thread) & (begin[other] >= own_end[left])
            woken[left[good]] = other[good]
            left = left[~good & (position[left] > 0)]
            position[left] -= 1
        at = np.arange(len(woken))
        found[thread] = Bursts(
            burst.starts.tolist(),
            burst.ends.tolist(),
            [None if other < 0 else (int(code[other]), int(end[other])) for other in woken.tolist()],
            np.maximum.accumulate(np.where(woken >= 0, at, -1)).tolist(),
            burst,
            in_calls[thread],
        )
    return found


def _add_meetings(profile: Profile, made: Mapping[int, Trace], shifts: Mapping[int, int]) -> None:
    """Add the rank that joined each collective last, if the clocks agree."""
    rows = matched_start_times(profile).filter(is_synchronizing(), pl.col("session").is_in(list(shifts)))
    zero = min((profile["sessions"].filter(pl.col("session").is_in(list(shifts)))["origin_ns"].fill_null(0)).to_list())
    rows = rows.with_columns((pl.col("begin_ns") - zero).alias("begin_ns")).filter(
        pl.len().over(TURN) > 1, pl.col("begin_ns").is_not_null().all().over(TURN)
    )
    numbers = profile["activities"].with_row_index("row").select("session", "activity", "row")
    rows = rows.join(numbers, on=["session", "activity"], how="left")
    places = {session: dict(zip(one.row.tolist(), range(len(one.row)), strict=True)) for session, one in made.items()}
    for _, group in rows.group_by(TURN, maintain_order=True):
        late = group.sort("begin_ns", "session").row(-1, named=True)
        there = places[late["session"]].get(late["row"])
        for session, row, begin in group.select("session", "row", "begin_ns").iter_rows():
            here = places[session].get(row)
            if here is not None and there is not None and begin < late["begin_ns"] < made[session].end[here]:
                made[session].meetings[here] = (late["begin_ns"], late["session"], there)
