"""Critical path of each iteration: the chain of work and waits that decides when it ends, without a gap."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from tui.analysis.capabilities import recording_advice
from tui.analysis.critical_path_trace import (
    GPU_WORK,
    KIND_COLUMNS,
    TITLES,
    PathKind,
    Start,
    Trace,
    cpu_items,
    traces,
)
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.memo import once_per_profile
from tui.analysis.needs import API_TRACE, START_TIMES
from tui.cache.spill import filter_rows
from tui.model.columns import Column, ColumnKind, columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

K = ColumnKind


MAX_ACTIVITIES: Final = 1_000_000
"""The most activities that are analyzed together; each takes up to 1 kB of memory, with its ops and calls."""
_SPLIT_AT_ONCE: Final = 1 << 12
"""CPU segments that are split at once: they may have millions of pieces."""


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
    full_profile = profile.all_iterations or profile
    if full_profile["activities"].height <= MAX_ACTIVITIES:
        return full_profile if full_profile.steps is not None else with_iterations(full_profile)
    return partial_basis(profile).profile


@once_per_profile("activities", "api_calls", "ops", "sessions", "ranges")
def partial_basis(profile: Profile) -> Basis:
    """Return the part of a very large profile around the iterations shown, or around one of them."""
    full_profile = profile.all_iterations or profile
    full_profile = full_profile if full_profile.steps is not None else with_iterations(full_profile)
    shown = profile.steps if profile.steps is not None else full_profile.steps
    assert shown is not None, "with_iterations fills it"
    shown = shown.drop_nulls(["iteration", "start_ns", "duration_ns"]).filter(pl.col("duration_ns") > 0)
    key = ["session", "iteration"]
    if shown.is_empty():
        return Basis(_selected_part(full_profile, shown))
    if profile["activities"].height <= MAX_ACTIVITIES:
        part = _selected_part(full_profile, shown)
        if part["activities"].height <= MAX_ACTIVITIES:
            return Basis(part)
    first_session_steps = shown.filter(pl.col("session") == shown["session"][0]).sort("duration_ns", "iteration")
    middle = first_session_steps.slice((first_session_steps.height - 1) // 2, 1)
    part = _selected_part(full_profile, middle)
    number, count = middle["iteration"][0], part["activities"].height
    if count > MAX_ACTIVITIES:
        label = "the run" if shown.height == 1 else f"iteration {number}"
        note = f"{label} has {count:,} GPU activities, more than the limit of {MAX_ACTIVITIES:,}"
        return Basis(_selected_part(full_profile, middle.clear()), note)
    others = f"{shown.select(key).n_unique() - 1:,} other iterations"
    return Basis(part, f"iteration {number} has the median duration; for {others}, use --iterations or :iterations")


def _selected_part(full_profile: Profile, steps: pl.DataFrame) -> Profile:
    """Return all work in the time of some iterations and of the ones before, in the sessions whose clock is known."""
    frames = dict(full_profile.frames)
    if steps.is_empty():
        frames |= {name: full_profile[name].clear() for name in ("activities", "api_calls", "ops")}
        return replace(full_profile, frames=frames, steps=steps, all_iterations=None)
    assert full_profile.steps is not None, "partial_basis fills it"
    origins = dict(full_profile["sessions"].select("session", "origin_ns").iter_rows())
    times = []
    for (session,), session_steps in steps.group_by("session", maintain_order=True):
        origin = origins[session]
        first, last = session_steps.select(
            pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("duration_ns")).max().alias("last")
        ).row(0)
        is_session = pl.col("session") == session
        previous_start = (
            full_profile.steps.filter(is_session, pl.col("start_ns") < first).select(pl.col("start_ns").max()).item()
        )
        since = first if previous_start is None else previous_start
        shifts = (
            {session: 0}
            if origin is None
            else {
                other_session: origin - other_origin
                for other_session, other_origin in origins.items()
                if other_origin is not None
            }
        )
        times += [(other_session, since + shift, last + shift) for other_session, shift in shifts.items()]
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
        frames[name] = filter_rows(full_profile[name], chosen)
    return replace(full_profile, frames=frames, steps=steps, all_iterations=None)


class Segment(NamedTuple):
    """A segment of a critical path."""

    on_session: int
    kind: int
    start_ns: int
    end_ns: int
    activity: int
    """Its number in the `Trace`: that of work, that which was delayed; -1 for the CPU."""
    thread: int
    call: int
    """The row of the call that waited; -1 for others."""
    inferred: bool


# --- segments ---------------------------------------------------------------------------------------------------------


def ending_thread(trace: Trace, begin: int, end: int, last: int | None, resolution: int) -> int | None:
    """Return the thread whose CPU work ends an iteration; None if its GPU work does, or no CPU work is recorded.

    Args: as in `walk_back`.
    """
    gpu_end = begin if last is None else trace.end[last]
    latest = bisect_right(trace.cpu_end, (end, 1 << 62)) - 1
    if (last is not None and gpu_end >= end - resolution) or latest < 0 or trace.cpu_end[latest][0] <= gpu_end:
        return None
    return trace.cpu_end[latest][1]


def walk_back(
    all_traces: Mapping[int, Trace], session: int, begin: int, end: int, last: int | None, resolution: int
) -> list[Segment]:
    """Return the critical path of one iteration, last segment first, without gap or overlap.

    Args:
        all_traces: See `traces`.
        session: Whose iteration it is.
        begin: When it begins, in the common clock.
        end: When it ends.
        last: Its activity that ends last; None if it has none.
        resolution: The step of the times.
    """
    walk = _Walk(all_traces, all_traces[session], begin, end)
    walk.start(last, resolution)
    # Every step leads to an earlier activity or burst.
    for _ in range(2 * sum(len(trace.start) + len(trace.cpu_end) for trace in all_traces.values()) + 2):
        if walk.now <= begin or not walk.step():
            break
    return walk.finish()


class _Walk:
    """The state of `walk_back`: the moment it has come to, and the work or thread that the path runs through there."""

    def __init__(self, all_traces: Mapping[int, Trace], trace: Trace, begin: int, end: int) -> None:
        self._all_traces = all_traces
        self._trace = trace
        self._begin, self._end = begin, end
        self.now = end
        self._path: list[Segment] = []
        self._current = -1
        """The activity; -1 on a thread."""
        self._thread = -1

    def start(self, last: int | None, resolution: int) -> None:
        """Find what the iteration ends with."""
        trace = self._trace
        if last is not None and trace.end[last] >= self._end - resolution:
            self._current = last
            return
        last_thread = ending_thread(trace, self._begin, self._end, last, resolution)
        if last_thread is not None:
            self._thread = last_thread
            return
        kind = PathKind.CPU_OUTSIDE if trace.cpu_end else PathKind.NOT_RECORDED
        self._add(kind, self._begin if last is None else trace.end[last])
        self._current = -1 if last is None else last

    def step(self) -> bool:
        """Go back to what the current work or thread waited for; False if that is not recorded."""
        return self._leave_work(self._current) if self._current >= 0 else self._leave_thread()

    def finish(self) -> list[Segment]:
        """Return the path, whose beginning may not be recorded."""
        self._thread = -1
        self._add(PathKind.NOT_RECORDED, self._begin)
        return self._path

    def _add(self, kind: int, since: int, *, activity: int = -1, call: int = -1, inferred: bool = False) -> None:
        since = max(min(since, self.now), self._begin)
        if since < self.now:
            self._path.append(
                Segment(self._trace.session, kind, since, self.now, activity, self._thread, call, inferred)
            )
        self.now = since

    def _leave_work(self, current: int) -> bool:
        trace = self._trace
        meeting = trace.meetings.get(current)
        if meeting is not None and trace.start[current] < meeting[0] < self.now:
            self._add(trace.kind[current], meeting[0], activity=current)
            self._trace, self._current = self._all_traces[meeting[1]], meeting[2]
            return True
        self._add(trace.kind[current], trace.start[current], activity=current)
        decided_by, awaited = trace.decided_by[current], trace.awaited[current]
        if decided_by == Start.UNKNOWN:
            return False
        if decided_by == Start.LAUNCH:
            self._thread = trace.thread[current]
            self._add(PathKind.LAUNCH_DELAY, trace.launch[current], activity=current)
            self._current = -1
            return True
        kind = PathKind.KERNEL_GAP if decided_by == Start.STREAM else PathKind.SYNCHRONIZATION
        self._add(kind, trace.end[awaited], activity=current, inferred=trace.inferred[current])
        self._current = awaited
        return True

    def _leave_thread(self) -> bool:
        trace = self._trace
        bursts = trace.bursts.get(self._thread)
        burst_index = -1 if bursts is None else bisect_right(bursts.begins, self.now) - 1
        if bursts is None or burst_index < 0:
            return False
        handover = bursts.handover[burst_index]
        since = bursts.begins[max(handover, 0)]
        blocked = trace.blocked.get(self._thread)
        waited = -1 if blocked is None else bisect_right(blocked[0], self.now) - 1
        if blocked is not None and waited >= 0 and blocked[0][waited] > since:
            self._add(PathKind.CPU_OP, blocked[0][waited])
            self._current = blocked[2][waited]
            self._add(
                PathKind.SYNCHRONIZATION, trace.end[self._current], activity=self._current, call=blocked[3][waited]
            )
            return True
        self._add(PathKind.CPU_OP, since)
        woken_by = bursts.woken_by[handover] if handover >= 0 else None
        if woken_by is None:
            return False
        self._add(PathKind.CPU_OUTSIDE, woken_by[1], inferred=True)
        self._thread = woken_by[0]
        return True


class IterationPeriod(NamedTuple):
    """The time of an iteration, in the common clock."""

    session: int
    iteration: int
    begin: int
    end: int
    last: int | None
    """Its activity that ends last."""
    thread: int | None = None
    """The thread whose CPU work ends it: see `ending_thread`."""


def start_resolutions(profile: Profile) -> dict[int, int]:
    """Return the step of the start times of each session."""
    return dict(profile["sessions"].select("session", pl.col("start_resolution_ns").fill_null(1)).iter_rows())


def iteration_periods(profile: Profile) -> list[IterationPeriod]:
    """Return the periods of all iterations whose times are known."""
    traces_by_session = traces(profile)
    assert profile.steps is not None, "base_profile fills it"
    rows = profile.steps.drop_nulls(["iteration", "start_ns", "duration_ns"]).filter(pl.col("duration_ns") > 0)
    resolution = start_resolutions(profile)
    periods = []
    for session, steps in rows.sort("session", "start_ns").group_by("session", maintain_order=True):
        trace = traces_by_session.get(int(session[0]))
        if trace is None:
            continue
        last: dict[int | None, int] = {}
        for index, number in enumerate(trace.iteration):
            if number not in last or trace.end[index] > trace.end[last[number]]:
                last[number] = index
        is_whole_run = steps["source"].to_list() == [WHOLE_RUN] if "source" in steps.columns else False
        for number, start, duration in steps.select("iteration", "start_ns", "duration_ns").iter_rows():
            begin = start + trace.shift_ns
            last_activity = last.get(number)
            if last_activity is None and is_whole_run and trace.end:
                last_activity = int(np.argmax(trace.end))
            if last_activity is not None and not begin < trace.end[last_activity] <= begin + duration:
                last_activity = None
            end = begin + duration
            thread = ending_thread(trace, begin, end, last_activity, resolution[trace.session])
            periods.append(IterationPeriod(trace.session, number, begin, end, last_activity, thread))
    return periods


_SEGMENTS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "iteration": pl.Int32,
        "segment": pl.UInt32,
        "path_kind": NAME,
        "name": NAME,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "on_session": pl.UInt32,
        "activity": pl.UInt32,
        "op": pl.UInt32,
        "is_inferred": pl.Boolean,
    }
)


@once_per_profile("activities", "api_calls", "ops", "sessions", "ranges")
def paths_by_iteration(profile: Profile) -> dict[tuple[int, int], tuple[IterationPeriod, list[Segment]]]:
    """Return the critical path of each iteration; CPU time is not divided into ops yet.

    Args:
        profile: See `base_profile`.
    """
    traces_by_session = traces(profile)
    resolution = start_resolutions(profile)
    paths = {}
    for period in iteration_periods(profile):
        path = walk_back(
            traces_by_session, period.session, period.begin, period.end, period.last, resolution[period.session]
        )
        paths[period.session, period.iteration] = (period, path[::-1])
    return paths


class FlatSegments(NamedTuple):
    """The segments of several paths: the fields of `Segment` as arrays."""

    on_session: Ints
    kind: Ints
    start_ns: Ints
    end_ns: Ints
    activity: Ints
    thread: Ints
    call: Ints
    inferred: Ints


def _flat_segments(paths: Sequence[tuple[IterationPeriod, Sequence[Segment]]]) -> tuple[Ints, FlatSegments]:
    """Return the index of the path of each segment, and the segments of all paths."""
    path_index = np.repeat(np.arange(len(paths)), [len(path) for _, path in paths])
    values = np.array([segment for _, path in paths for segment in path], np.int64).reshape(-1, len(Segment._fields))
    return path_index, FlatSegments(*values.T)


def path_segments_frame(profile: Profile, paths: Sequence[tuple[IterationPeriod, Sequence[Segment]]]) -> pl.DataFrame:
    """Return segments with names, as `path_segments`; CPU segments are split where ops and calls begin and end."""
    path_index, flat = _flat_segments(paths)
    if not len(path_index):
        return pl.DataFrame(schema=_SEGMENTS)
    traces_by_session = traces(profile)
    on_session, kind, start, end, activity, _, call, inferred = flat
    row, shift = np.full(len(kind), -1, np.int64), np.zeros(len(kind), np.int64)
    for session in np.unique(on_session).tolist():
        trace = traces_by_session[session]
        is_here = on_session == session
        shift[is_here] = trace.shift_ns
        with_work = np.flatnonzero(is_here & (activity >= 0))
        row[with_work] = trace.row[activity[with_work]]
    activities = profile["activities"]
    work_rows = pl.Series(row).set(pl.Series(row < 0), None).cast(pl.UInt32)
    call_rows = pl.Series(call).set(pl.Series(call < 0), None).cast(pl.UInt32)
    titles = pl.Series([TITLES[period] for period in PathKind], dtype=NAME)
    segments = pl.DataFrame(
        {
            "order": np.arange(len(kind)),
            "session": np.array([period.session for period, _ in paths])[path_index],
            "iteration": np.array([period.iteration for period, _ in paths])[path_index],
            "kind": kind,
            "start_ns": start - shift,
            "duration_ns": end - start,
            "on_session": on_session,
            "is_inferred": inferred.astype(bool),
        }
    ).with_columns(
        activities["name"].gather(work_rows).alias("work_name"),
        activities["activity"].gather(work_rows).alias("activity"),
        activities["op"].gather(work_rows).alias("work_op"),
        profile["api_calls"]["name"].gather(call_rows).alias("call_name"),
    )
    if cpu_pieces := list(_cpu_pieces(profile, flat)):
        segments = segments.join(pl.concat(cpu_pieces), on="order", how="left", maintain_order="left_right")
    else:
        segments = segments.with_columns(
            piece_start=None, piece_ns=None, piece_kind=None, piece_name=None, piece_op=None
        )
    segments = segments.with_columns(
        pl.coalesce("piece_ns", "duration_ns").alias("duration_ns"), pl.coalesce("piece_kind", "kind").alias("kind")
    ).filter(pl.col("duration_ns") > 0)
    return segments.select(
        pl.col("session").cast(pl.UInt32),
        pl.col("iteration").cast(pl.Int32),
        pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).over("session", "iteration").alias("segment"),
        titles.gather(segments["kind"]).alias("path_kind"),
        pl.coalesce("piece_name", "call_name", "work_name").cast(NAME).alias("name"),
        pl.coalesce("piece_start", "start_ns").alias("start_ns"),
        "duration_ns",
        pl.col("on_session").cast(pl.UInt32),
        "activity",
        pl.coalesce("piece_op", "work_op").cast(pl.UInt32).alias("op"),
        "is_inferred",
    )


def _cpu_pieces(profile: Profile, flat: FlatSegments) -> Iterator[pl.DataFrame]:
    """Yield the ops and calls of the CPU segments: order (of the segment), piece_start, piece_ns, and what it is."""
    traces_by_session = traces(profile)
    for session in np.unique(flat.on_session).tolist():
        trace = traces_by_session[session]
        cpu = np.flatnonzero((flat.on_session == session) & (flat.kind == PathKind.CPU_OP))
        if not len(cpu):
            continue
        items = cpu_items(profile, trace, int(flat.start_ns[cpu].min()), int(flat.end_ns[cpu].max()))
        segment_index, starts, ends, item = items.split(flat.thread[cpu], flat.start_ns[cpu], flat.end_ns[cpu])
        yield pl.DataFrame(
            {"order": cpu[segment_index], "piece_start": starts - trace.shift_ns, "piece_ns": ends - starts}
        ).with_columns(*items.described(item))


def shown_paths(profile: Profile) -> list[tuple[IterationPeriod, list[Segment]]]:
    """Return the paths of the iterations that are shown."""
    full_profile = base_profile(profile)
    paths = paths_by_iteration(full_profile)
    if profile.steps is None or profile.all_iterations is None:
        return list(paths.values())
    shown = profile.steps.select("session", "iteration").drop_nulls().unique(maintain_order=True)
    return [paths[key] for key in shown.sort("session", "iteration").iter_rows() if key in paths]


def path_segments(profile: Profile) -> pl.DataFrame:
    """Return the segments of the path of each iteration shown, by session, iteration and time.

    Columns: session, iteration, segment (from 1), path_kind (`TITLES`), name (of the kernel, copy, op or call; of a gap
    or delay of the work that came later; of a synchronization the call that waited), start_ns (by the clock of
    on_session), duration_ns, on_session (where it ran: another rank's if a collective waited for it), activity, op,
    is_inferred.
    """
    return path_segments_frame(base_profile(profile), shown_paths(profile))


def iteration_segments(profile: Profile, session: int, iteration: int) -> pl.DataFrame:
    """Return `path_segments` of one iteration."""
    full_profile = base_profile(profile)
    path = paths_by_iteration(full_profile).get((session, iteration))
    return path_segments_frame(full_profile, [path] if path is not None else [])


@once_per_profile("activities", "api_calls", "ops", "sessions", "ranges")
def critical_paths(profile: Profile) -> pl.DataFrame:
    """Return one row per iteration: session, iteration, start_ns, duration_ns, and the time of each kind on its path.

    The kinds add up to the duration of the iteration.
    """
    full_profile, paths = base_profile(profile), shown_paths(profile)
    traces_by_session = traces(full_profile)
    sums = np.zeros((len(paths), len(PathKind)), np.int64)
    path_index, flat = _flat_segments(paths)
    length = flat.end_ns - flat.start_ns
    is_cpu = flat.kind == PathKind.CPU_OP
    np.add.at(sums, (path_index[~is_cpu], flat.kind[~is_cpu]), length[~is_cpu])
    for session in np.unique(flat.on_session[is_cpu]).tolist():
        cpu = np.flatnonzero(is_cpu & (flat.on_session == session))
        first, last = int(flat.start_ns[cpu].min()), int(flat.end_ns[cpu].max())
        items = cpu_items(full_profile, traces_by_session[session], first, last)
        for begin in range(0, len(cpu), _SPLIT_AT_ONCE):
            block = cpu[begin : begin + _SPLIT_AT_ONCE]
            segment, starts, ends, item = items.split(flat.thread[block], flat.start_ns[block], flat.end_ns[block])
            np.add.at(sums, (path_index[block[segment]], items.kinds(item)), ends - starts)
    sessions = np.array([period.session for period, _ in paths], np.int64)
    is_elsewhere = flat.on_session != sessions[path_index]
    other_ranks_ns = np.zeros(len(paths), np.int64)
    np.add.at(other_ranks_ns, path_index[is_elsewhere], length[is_elsewhere])
    shifts = [traces_by_session[period.session].shift_ns for period, _ in paths]
    gpu = pl.sum_horizontal(KIND_COLUMNS[kind] for kind in GPU_WORK)
    return pl.DataFrame(
        {
            "session": pl.Series(sessions, dtype=pl.UInt32),
            "iteration": pl.Series([period.iteration for period, _ in paths], dtype=pl.Int32),
            "start_ns": pl.Series(
                [period.begin - shift for (period, _), shift in zip(paths, shifts, strict=True)], dtype=pl.Int64
            ),
            "duration_ns": pl.Series([period.end - period.begin for period, _ in paths], dtype=pl.Int64),
            **{column: sums[:, kind] for kind, column in KIND_COLUMNS.items()},
            "path_other_rank_ns": other_ranks_ns,
        }
    ).select(
        "session",
        "iteration",
        "start_ns",
        "duration_ns",
        (100 * gpu / pl.col("duration_ns")).alias("path_gpu_pct"),
        *KIND_COLUMNS.values(),
        "path_other_rank_ns",
    )


def left_out_note(profile: Profile) -> str:
    """Return which iterations have no path because the profile is very large; empty if all have one."""
    full_profile = profile.all_iterations or profile
    return partial_basis(profile).left_out_note if full_profile["activities"].height > MAX_ACTIVITIES else ""


def no_path_reason(profile: Profile) -> str:
    """Return why there is no critical path; empty if there is one."""
    if left_out_note(profile) and base_profile(profile)["activities"].is_empty():
        return (
            f"{left_out_note(profile)}: proftui export --format chrome --iterations writes some iterations to a "
            "separate file"
        )
    if profile["activities"].drop_nulls(["start_ns", "duration_ns"]).is_empty():
        return f"no start times of GPU work: {recording_advice(profile, START_TIMES)}"
    if critical_paths(profile).is_empty():
        return "iteration times unknown"
    return ""


def missing_launches_note(profile: Profile) -> str:
    """Return what the path lacks if no launch is known; empty if some are."""
    if any(Start.LAUNCH in trace.decided_by for trace in traces(base_profile(profile)).values()):
        return ""
    if profile["api_calls"].height:
        return "no API call is linked to GPU work, and the path stays on the GPU"
    return f"launches are not recorded, and the path stays on the GPU: {recording_advice(profile, API_TRACE)}"


def median_iteration(profile: Profile, session: int | None = None) -> tuple[int, int] | None:
    """Return the session and iteration whose duration is the median; None if there is none."""
    rows = critical_paths(profile)
    if session is not None:
        rows = rows.filter(pl.col("session") == session)
    if rows.is_empty():
        return None
    first = rows.filter(pl.col("session") == rows["session"][0]).sort("duration_ns", "iteration")
    row: dict[str, Any] = first.row((first.height - 1) // 2, named=True)
    return int(row["session"]), int(row["iteration"])


def _kind_column(kind: PathKind, title: str, meaning: str, priority: int) -> Column:
    return Column(KIND_COLUMNS[kind], title, K.DURATION, meaning, priority, only_above_zero=True)


MAIN_KINDS: Final = 3
"""The number of kinds that have the priority of the share of GPU work."""


def critical_paths_spec(profile: Profile) -> TableSpec:
    """Return the table of `main_kinds_first`; its title names the iterations that are omitted."""
    spec, note = main_kinds_first(profile), left_out_note(profile)
    return replace(spec, title=f"{spec.title} ({note})") if note else spec


def main_kinds_first(profile: Profile) -> TableSpec:
    """Return `CRITICAL_PATHS` with the `MAIN_KINDS` that take most time hidden last on a narrow screen."""
    sums = critical_paths(profile).select(KIND_COLUMNS.values()).sum()
    largest = sorted(sums.columns, key=lambda name: -sums[name][0])[:MAIN_KINDS]
    shown = (replace(column, priority=2) if column.name in largest else column for column in CRITICAL_PATHS.columns)
    return replace(CRITICAL_PATHS, columns=tuple(shown))


CRITICAL_PATHS: Final = TableSpec(
    "critical-path",
    "Critical path by iteration",
    (
        *columns("iteration"),
        *columns("session"),
        Column("duration_ns", "Duration", K.DURATION, "Period of the iteration; the kinds add up to it.", 1),
        Column("path_gpu_pct", "GPU work%", K.PERCENT, "Kernels, copies and communication on the path.", 2),
        _kind_column(PathKind.KERNEL, "Kernels", "Kernels on the path.", 3),
        _kind_column(PathKind.COPY, "Copies", "Copies and memsets on the path.", 3),
        _kind_column(PathKind.COMMUNICATION, "Communication", "Collectives on the path.", 3),
        _kind_column(PathKind.KERNEL_GAP, "Kernel gaps", "Between kernels that were launched in time.", 3),
        _kind_column(
            PathKind.LAUNCH_DELAY, "Launch delay", "From the start of a launch call to the start of its work.", 3
        ),
        _kind_column(
            PathKind.SYNCHRONIZATION,
            "Sync",
            "From the end of GPU work to the return of the call, or the start of the stream, that waited for it.",
            4,
        ),
        _kind_column(PathKind.CPU_OP, "CPU ops", "CPU time in ops, outside of API calls.", 3),
        _kind_column(PathKind.API_CALL, "API calls", "CPU time in API calls that did not wait for the GPU.", 3),
        _kind_column(PathKind.CPU_OUTSIDE, "CPU outside ops", "CPU time between ops, in Python or idle.", 3),
        _kind_column(PathKind.NOT_RECORDED, "Not recorded", "The preceding work is not recorded.", 4),
        Column(
            "path_other_rank_ns",
            "Other ranks",
            K.DURATION,
            "Part of the path on other ranks, which arrived later at a collective.",
            4,
            only_above_zero=True,
        ),
    ),
    key=("session", "iteration"),
    pinned="iteration",
    min_pinned_cells=9,
    bars=(),
    weight="duration_ns",
)

PATH_NAME: Final = Column(
    "name",
    "Name",
    K.SYMBOL,
    "Kernel, copy, op or call; for a delay or gap, the work that followed.",
    1,
    absent="(no op)",
)
SEGMENTS: Final = TableSpec(
    "path_segments",
    "Segments of the path",
    (
        PATH_NAME,
        Column("path_kind", "Kind", K.TEXT, "Kind of the segment.", 1),
        *columns("start_ns"),
        Column("duration_ns", "Duration", K.DURATION, "Time of the segment on the path.", 1),
        Column("is_inferred", "Inferred", K.FLAG, "The dependency is inferred from times, not recorded.", 5),
        Column("on_session", "On session", K.NUMBER, "The session where it ran.", 6),
        Column("segment", "Segment", K.NUMBER, "From 1, by time.", 7),
        *columns("activity"),
    ),
    key=("session", "iteration", "segment"),
    weight="duration_ns",
)
