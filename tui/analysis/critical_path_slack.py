"""What an iteration would gain from faster work, and the slack of work that is not on its critical path.

The iteration is a graph of moments: begins and ends of GPU work, launches, and where threads wait for the GPU or for
each other. An edge is the minimum time between two of them. With the recorded times of all edges, every moment computed
from the begin equals the recorded one; with shorter edges the iteration ends as early as its dependencies allow.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.critical_path import (
    PATH_NAME,
    IterationPeriod,
    base_profile,
    iteration_segments,
    median_iteration,
    paths_by_iteration,
)
from tui.analysis.critical_path_trace import GPU_WORK, TITLES, PathKind, Start, Trace, cpu_items, traces
from tui.correlation.nesting import NONE
from tui.model.columns import Column, ColumnKind, columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

K = ColumnKind

MAX_TRIED: Final = 80
"""The savings of half the time are computed for this number of names, those with most time on the path."""
_FOREVER: Final = 1 << 62
_NO_THREAD: Final = -(1 << 62)
"""The thread of CPU time outside of all ops and calls."""
_DELAYS: Final[Mapping[int, PathKind]] = {
    Start.LAUNCH: PathKind.LAUNCH_DELAY,
    Start.STREAM: PathKind.KERNEL_GAP,
    Start.WAIT: PathKind.SYNCHRONIZATION,
}
"""The time between what determined the start of work and that start."""


class Graph:
    """The moments of one iteration and the minimum times between them.

    Args:
        traces_by_session: See `critical_path_trace.traces`.
        period: The iteration.
        involved: The sessions that its path runs through.
    """

    def __init__(self, traces_by_session: Mapping[int, Trace], period: IterationPeriod, involved: list[int]) -> None:
        self.period = period
        self.times: list[int] = [period.begin]
        """When each moment was recorded; the first is the begin of the iteration."""
        self.edges: list[tuple[int, int, int]] = []
        """From, to, and the time that has to pass."""
        self.work_edges: list[tuple[int, int, int, PathKind, int]] = []
        """Edges of GPU work: edge, session, activity, kind, and the row of the call that waited (-1 for none)."""
        self.cpu_edges: list[tuple[int, int, int]] = []
        """Edges of CPU time: edge, session, thread."""
        self._points: dict[tuple[int, int, int], int] = {}
        self._thread_ends: dict[tuple[int, int], int] = {}
        """The moment at which each thread was last in an op or a call."""
        self._starts: dict[tuple[int, int], int] = {}
        self._ends: dict[tuple[int, int], int] = {}
        self._meetings: dict[tuple[int, int], int] = {}
        self.sink = -1
        for session in involved:
            self._add_threads(traces_by_session[session])
            self._add_moments(traces_by_session[session])
        for session in involved:
            self._add_work(traces_by_session[session], involved)
        self._add_end(traces_by_session[period.session])

    def _moment(self, time_ns: int) -> int:
        self.times.append(time_ns)
        return len(self.times) - 1

    def _edge(self, first: int, second: int, duration_ns: int) -> int:
        self.edges.append((first, second, duration_ns))
        return len(self.edges) - 1

    def _inside(self, trace: Trace) -> list[int]:
        """Return the activities that start before the end of the iteration, also those that end before its begin.

        One without a duration can be at the end.
        """
        end = self.period.end
        first, last = bisect_left(trace.start, end), bisect_right(trace.start, end)
        return [*range(first), *(activity for activity in range(first, last) if trace.end[activity] == end)]

    def _add_threads(self, trace: Trace) -> None:
        """Add the moments of each thread at which it launches, waits or continues, in order."""
        begin, end = self.period.begin, self.period.end
        moments_by_thread: dict[int, set[int]] = {thread: set() for thread in trace.bursts}
        for activity in self._inside(trace):
            if begin < trace.launch[activity] <= end:
                moments_by_thread.setdefault(trace.thread[activity], set()).add(trace.launch[activity])
        pauses: dict[tuple[int, int], int | None] = {}
        for thread, (finishes, begins, _, _) in trace.blocked.items():
            for index in range(bisect_right(finishes, begin), bisect_right(finishes, end)):
                since = max(begins[index], begin)
                moments_by_thread.setdefault(thread, set()).update((since, finishes[index]))
                pauses[thread, finishes[index]] = since
        handovers = []
        for thread, bursts in trace.bursts.items():
            for index in range(bisect_left(bursts.begins, begin), bisect_left(bursts.begins, end)):
                woken_by = bursts.woken_by[index]
                if woken_by is not None and woken_by[1] > begin:
                    moments_by_thread[thread].add(bursts.begins[index])
                    moments_by_thread.setdefault(woken_by[0], set()).add(woken_by[1])
                    handovers.append((woken_by, (thread, bursts.begins[index])))
                    if index and bursts.ends[index - 1] > begin:
                        moments_by_thread[thread].add(bursts.ends[index - 1])
                    pauses[thread, bursts.begins[index]] = None
        for thread, moments in moments_by_thread.items():
            last_point, since = 0, begin
            for moment in sorted(moments):
                point = self._points[trace.session, thread, moment] = self._moment(moment)
                waits = (thread, moment) in pauses and since >= (pauses[thread, moment] or begin)
                edge = self._edge(last_point, point, 0 if waits else moment - since)
                if not waits:
                    self.cpu_edges.append((edge, trace.session, thread))
                last_point, since = point, moment
            self._add_thread_end(trace, thread, last_point)
        for (thread, finish), (handed_to, moment) in handovers:
            first, second = (
                self._points[trace.session, key_thread, key_moment]
                for key_thread, key_moment in ((thread, finish), (handed_to, moment))
            )
            # The thread that waited was in no op or call.
            self.cpu_edges.append((self._edge(first, second, moment - finish), trace.session, _NO_THREAD))

    def _add_thread_end(self, trace: Trace, thread: int, last_point: int) -> None:
        """Add the CPU work of a thread after its last other moment."""
        bursts = trace.bursts.get(thread)
        latest = -1 if bursts is None else bisect_left(bursts.begins, self.period.end) - 1
        busy_until = self.period.begin if bursts is None or latest < 0 else min(bursts.ends[latest], self.period.end)
        if busy_until > self.times[last_point]:
            point = self._moment(busy_until)
            self.cpu_edges.append(
                (self._edge(last_point, point, busy_until - self.times[last_point]), trace.session, thread)
            )
            last_point = point
        if last_point:
            self._thread_ends[trace.session, thread] = last_point

    def _add_moments(self, trace: Trace) -> None:
        for activity in self._inside(trace):
            if trace.end[activity] > self.period.begin:
                key = (trace.session, activity)
                self._starts[key] = self._moment(max(trace.start[activity], self.period.begin))
                self._ends[key] = self._moment(trace.end[activity])

    def _add_work(self, trace: Trace, involved: list[int]) -> None:
        """Add the edges of GPU work: its dependencies, its duration, and the moments that depend on it."""
        begin, session = self.period.begin, trace.session
        for activity in self._inside(trace):
            key = (session, activity)
            if key not in self._starts:
                continue
            start = self._starts[key]
            self._add_duration(trace, activity, involved)
            since = self.times[start]
            decided_by = trace.decided_by[activity]
            launch_point = self._points.get((session, trace.thread[activity], trace.launch[activity]))
            if launch_point is not None and trace.launch[activity] <= since:
                delay = since - trace.launch[activity]
                is_cause = decided_by == Start.LAUNCH
                edge = self._edge(launch_point, start, delay if is_cause else min(delay, trace.latency_ns))
                if is_cause:
                    self.work_edges.append((edge, session, activity, PathKind.LAUNCH_DELAY, -1))
            dependencies = [(Start.STREAM, int(trace.previous[activity]))]
            dependencies += [(Start.WAIT, awaited) for awaited in trace.waits.get(activity, ())]
            for kind, awaited in dependencies:
                awaited_end = self._ends.get((session, awaited))
                is_cause = decided_by == kind and awaited == trace.awaited[activity]
                if awaited < 0 or awaited_end is None or (self.times[awaited_end] > since and not is_cause):
                    continue
                edge = self._edge(awaited_end, start, since - self.times[awaited_end] if is_cause else 0)
                if is_cause:
                    self.work_edges.append((edge, session, activity, _DELAYS[kind], -1))
            # The work that it waited for ran before the iteration, or is not recorded.
            is_free = self._is_free(trace, activity)
            edge = self._edge(0, start, since - begin if is_free else 0)
            if is_free and decided_by != Start.UNKNOWN:
                self.work_edges.append((edge, session, activity, _DELAYS[decided_by], -1))
        for thread, (finishes, _, works, calls) in trace.blocked.items():
            for finish, work, call in zip(finishes, works, calls, strict=True):
                point = self._points.get((session, thread, finish))
                if point is not None:
                    awaited_end = self._ends.get((session, work), 0)
                    # Negative by the error of the clocks, if the work ends after the call.
                    waited_ns = finish - self.times[awaited_end]
                    edge = self._edge(awaited_end, point, waited_ns)
                    if waited_ns > 0:
                        self.work_edges.append((edge, session, work, PathKind.SYNCHRONIZATION, call))

    def _is_free(self, trace: Trace, activity: int) -> bool:
        decided_by = trace.decided_by[activity]
        if decided_by == Start.LAUNCH:
            return (trace.session, trace.thread[activity], trace.launch[activity]) not in self._points
        return decided_by == Start.UNKNOWN or (trace.session, trace.awaited[activity]) not in self._ends

    def _add_duration(self, trace: Trace, activity: int, involved: list[int]) -> None:
        start, end = self._starts[trace.session, activity], self._ends[trace.session, activity]
        meeting = trace.meetings.get(activity)
        last_arrival = (
            None if meeting is None or meeting[1] not in involved else self._starts.get((meeting[1], meeting[2]))
        )
        if meeting is None or last_arrival is None:
            edge = self._edge(start, end, self.times[end] - self.times[start])
        else:
            # A collective begins when the last rank arrives.
            self._edge(start, end, 0)
            edge = self._edge(last_arrival, end, self.times[end] - self.times[last_arrival])
        self.work_edges.append((edge, trace.session, activity, PathKind(trace.kind[activity]), -1))

    def _add_end(self, trace: Trace) -> None:
        """Add the end of the iteration: after all of its work, or after the last CPU work."""
        period = self.period
        self.sink = self._moment(period.end)
        last = 0 if period.last is None else self._ends[period.session, period.last]
        for (session, activity), end in self._ends.items():
            is_own = session == period.session and trace.iteration[activity] == period.iteration
            if is_own and end != last and self.times[end] <= period.end:
                self._edge(end, self.sink, 0)
        rest_ns = period.end - self.times[last]
        edge = self._edge(last, self.sink, rest_ns if period.thread is None else 0)
        if period.thread is None and trace.cpu_end:
            self.cpu_edges.append((edge, period.session, _NO_THREAD))
        for (session, thread), point in self._thread_ends.items():
            if session == period.session and rest_ns:
                is_cause = thread == period.thread
                edge = self._edge(point, self.sink, period.end - self.times[point] if is_cause else 0)
                if is_cause:
                    self.cpu_edges.append((edge, session, thread))

    def order(self) -> list[int]:
        """Return the moments in topological order."""
        pending_counts = [0] * len(self.times)
        following: list[list[int]] = [[] for _ in self.times]
        for first, second, _ in self.edges:
            pending_counts[second] += 1
            following[first].append(second)
        ready = [moment for moment, count in enumerate(pending_counts) if not count]
        ordered = []
        while ready:
            moment = ready.pop()
            ordered.append(moment)
            for follower in following[moment]:
                pending_counts[follower] -= 1
                if not pending_counts[follower]:
                    ready.append(follower)
        return ordered


def earliest_times(graph: Graph, durations: Ints) -> Ints:
    """Return the earliest time of each moment if edges take other times: a column for each case.

    Args:
        graph: The moments.
        durations: The time of each edge in each case.
    """
    incoming: list[list[int]] = [[] for _ in graph.times]
    for edge, (_, second, _) in enumerate(graph.edges):
        incoming[second].append(edge)
    times = np.full((len(graph.times), durations.shape[1]), graph.period.begin, np.int64)
    firsts = [first for first, _, _ in graph.edges]
    for moment in graph.order():
        edges = incoming[moment]
        if edges:
            times[moment] = (times[[firsts[edge] for edge in edges]] + durations[edges]).max(axis=0)
    return times


def latest_times(graph: Graph) -> Ints:
    """Return the latest time of each moment that does not delay the iteration; `_FOREVER` if nothing depends on it."""
    times = [_FOREVER] * len(graph.times)
    times[graph.sink] = graph.times[graph.sink]
    outgoing: list[list[tuple[int, int]]] = [[] for _ in graph.times]
    for first, second, duration_ns in graph.edges:
        outgoing[first].append((second, duration_ns))
    for moment in reversed(graph.order()):
        for second, duration_ns in outgoing[moment]:
            if times[second] < _FOREVER:
                times[moment] = min(times[moment], times[second] - duration_ns)
    return np.array(times, np.int64)


def critical_path(profile: Profile, session: int | None = None, iteration: int | None = None) -> pl.DataFrame:
    """Return one row per kind and name of an iteration's work: its time on the path, and its slack elsewhere.

    Columns: session, iteration, path_kind, name, path_ns and path_pct (its time on the path, which add up to the
    iteration), on_path (segments), work_count and work_ns (all of it that the iteration has), slack_ns (the minimum
    slack of work that is not on the path: the time that it could end later without delaying the iteration; null if all
    work is on the path or nothing depends on it), half_saves_ns (what the iteration would gain if all of it took half
    as long; null if it was not tried, or its cause is not recorded).

    Args:
        profile: The profile.
        session: The session; None: the first that has a path.
        iteration: The number of the iteration; None: the one of median duration.
    """
    chosen = median_iteration(profile, session)
    if session is None or iteration is None:
        if chosen is None:
            return pl.DataFrame(schema=_SCHEMA)
        session, iteration = chosen
    full_profile = base_profile(profile)
    path_of_iteration = paths_by_iteration(full_profile).get((session, iteration))
    if path_of_iteration is None:
        return pl.DataFrame(schema=_SCHEMA)
    period, path = path_of_iteration
    graph = Graph(traces(full_profile), period, sorted({period.session, *(segment.on_session for segment in path)}))
    on_path = (
        iteration_segments(profile, session, iteration)
        .group_by(pl.col("path_kind").cast(pl.String), pl.col("name").cast(pl.String))
        .agg(pl.col("duration_ns").sum().alias("path_ns"), pl.len().cast(pl.Int64).alias("on_path"))
    )
    edge_times = _edge_times(full_profile, graph)
    key = ["path_kind", "name"]
    totals = edge_times.group_by(key).agg(
        pl.col("activity").drop_nulls().n_unique().cast(pl.Int64).alias("work_count"),
        pl.col("piece_ns").sum().alias("work_ns"),
        pl.col("slack_ns").filter(pl.col("slack_ns") > 0).min(),
    )
    savings = _half_savings(graph, edge_times, on_path)
    return (
        totals.join(on_path, on=key, how="full", coalesce=True, nulls_equal=True)
        .join(savings, on=key, how="left", nulls_equal=True)
        .with_columns(pl.col("path_ns", "on_path").fill_null(0), pl.col("work_count").replace(0, None))
        .with_columns(
            pl.when(pl.col("path_ns") == 0).then(0).otherwise("half_saves_ns").alias("half_saves_ns"),
            (100 * pl.col("path_ns") / (period.end - period.begin)).alias("path_pct"),
            pl.lit(session, pl.UInt32).alias("session"),
            pl.lit(iteration, pl.Int32).alias("iteration"),
        )
        .filter((pl.col("path_ns") > 0) | pl.col("path_kind").is_in([TITLES[kind] for kind in GPU_WORK]))
        .sort("path_ns", "work_ns", *key, descending=[True, True, False, False], nulls_last=True)
        .select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())
    )


_WAITS: Final = tuple(TITLES[kind] for kind in (PathKind.KERNEL_GAP, PathKind.LAUNCH_DELAY))
"""Waits that have the name of the kernel after them, which a faster kernel does not shorten."""


def half_as_long(work: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return what the iteration would gain if all work of each name took half as long, the largest gain first.

    Columns: session, iteration, name, work_ns, path_ns (its time on the path), half_saves_ns. Of a name that a kernel
    shares with the op that launches it, as in Triton, only the kernel counts.

    Args:
        work: The result of `critical_path`.
        names: The names of the work.
    """
    key = ["session", "iteration", "name"]
    is_gpu_work = pl.col("path_kind").is_in([TITLES[kind] for kind in GPU_WORK])
    return (
        work.with_columns(pl.col("name", "path_kind").cast(pl.String))
        .filter(pl.col("name").is_in(list(names)), ~pl.col("path_kind").is_in(_WAITS))
        .filter(is_gpu_work == is_gpu_work.any().over(key))
        .group_by(key)
        .agg(pl.col("work_ns", "path_ns", "half_saves_ns").sum())
        .sort("half_saves_ns", "name", descending=[True, False])
    )


_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "iteration": pl.Int32,
        "path_kind": NAME,
        "name": NAME,
        "path_ns": pl.Int64,
        "path_pct": pl.Float64,
        "on_path": pl.Int64,
        "work_count": pl.Int64,
        "work_ns": pl.Int64,
        "slack_ns": pl.Int64,
        "half_saves_ns": pl.Int64,
    }
)


def _edge_times(profile: Profile, graph: Graph) -> pl.DataFrame:
    """Return the time of the edges by work: edge, path_kind, name, piece_ns, slack_ns (null: unlimited), activity."""
    latest = latest_times(graph)
    slack = np.array(
        [latest[second] - duration_ns - graph.times[first] for first, second, duration_ns in graph.edges], np.int64
    )
    unlimited = np.array([latest[second] >= _FOREVER for _, second, _ in graph.edges], bool)
    joined = pl.concat([_work_times(profile, graph), *_cpu_times(profile, graph)])
    edge_index = joined["edge"].to_numpy()
    return joined.with_columns(pl.Series("slack_ns", slack[edge_index]).set(pl.Series(unlimited[edge_index]), None))


def _work_times(profile: Profile, graph: Graph) -> pl.DataFrame:
    """Return the time of the edges of GPU work: edge, path_kind, activity, name, piece_ns."""
    traces_by_session = traces(profile)
    durations = np.array([duration_ns for _, _, duration_ns in graph.edges], np.int64)
    after_end = np.array([max(graph.times[second] - graph.period.end, 0) for _, second, _ in graph.edges], np.int64)
    edges = np.array([edge for edge, *_ in graph.work_edges], np.int64)
    rows = np.array(
        [traces_by_session[session].row[activity] for _, session, activity, *_ in graph.work_edges], np.int64
    )
    calls = np.array([call for *_, call in graph.work_edges], np.int64)
    titles = [TITLES[kind] for *_, kind, _ in graph.work_edges]
    work_names = profile["activities"]["name"].gather(rows).cast(pl.String)
    waiting = profile["api_calls"]["name"].gather(pl.Series(calls).set(pl.Series(calls < 0), None).cast(pl.UInt32))
    return pl.DataFrame(
        {
            "edge": edges,
            "path_kind": pl.Series(titles, dtype=pl.String),
            "activity": np.where(calls < 0, rows, calls),
            "name": waiting.cast(pl.String).zip_with(pl.Series(calls >= 0), work_names),
            # In the iteration. Work can begin shortly before the previous work on its stream ends: there is no gap.
            "piece_ns": np.maximum(durations[edges] - after_end[edges], 0),
        }
    )


def _cpu_times(profile: Profile, graph: Graph) -> Iterator[pl.DataFrame]:
    """Yield the time of the edges of CPU time, by op or call, with the columns of `_work_times`."""
    traces_by_session = traces(profile)
    by_session: dict[int, list[tuple[int, int]]] = {}
    for edge, session, thread in graph.cpu_edges:
        by_session.setdefault(session, []).append((edge, thread))
    times = np.array(graph.times, np.int64)
    names = pl.Series([TITLES[kind] for kind in PathKind], dtype=pl.String)
    for session, session_edges in by_session.items():
        trace = traces_by_session[session]
        edges = np.array([edge for edge, _ in session_edges], np.int64)
        threads = np.array([thread for _, thread in session_edges], np.int64)
        begin = times[[graph.edges[edge][0] for edge in edges.tolist()]]
        end = times[[graph.edges[edge][1] for edge in edges.tolist()]]
        items = cpu_items(profile, trace, graph.period.begin, graph.period.end)
        time_index, starts, ends, item = items.split(threads, begin, end)
        # As in `walk_back`, what a thread did before its first op or call is not recorded.
        first_begins = np.array([_first_begin(trace, thread) for thread in threads.tolist()], np.int64)
        recorded = (item != NONE) | (starts >= first_begins[time_index])
        described = pl.DataFrame(items.described(item))
        yield pl.DataFrame(
            {
                "edge": edges[time_index],
                "path_kind": names.gather(described["piece_kind"]),
                "activity": pl.Series(-1 - item).set(pl.Series(item == NONE), None),
                "name": described["piece_name"].cast(pl.String),
                "piece_ns": ends - starts,
            }
        ).filter(recorded)


def _first_begin(trace: Trace, thread: int) -> int:
    """Return when a thread begins its first op or call; for `_NO_THREAD` a time before all."""
    if thread == _NO_THREAD:
        return -_FOREVER
    bursts = trace.bursts.get(thread)
    return bursts.begins[0] if bursts is not None and bursts.begins else _FOREVER


def _half_savings(graph: Graph, edge_times: pl.DataFrame, on_path: pl.DataFrame) -> pl.DataFrame:
    """Return what the iteration would gain if all work of a kind and name took half as long."""
    key = ["path_kind", "name"]
    candidates = (
        on_path.join(edge_times, on=key, how="semi", nulls_equal=True)
        .sort("path_ns", *key, descending=[True, False, False])
        .head(MAX_TRIED)
        .select(key)
        .with_row_index("case")
    )
    halved = edge_times.join(candidates, on=key, how="inner", nulls_equal=True)
    recorded = np.array([duration_ns for *_, duration_ns in graph.edges], np.int64)
    durations = np.repeat(recorded.reshape(-1, 1), max(candidates.height, 1), axis=1)
    cells = (halved["edge"].to_numpy(), halved["case"].to_numpy())
    # Work can begin shortly before the previous work on its stream ends: leave such an edge unchanged.
    minimum = np.minimum(durations, 0)
    np.subtract.at(durations, cells, halved["piece_ns"].to_numpy() // 2)
    ends = earliest_times(graph, np.maximum(durations, minimum))[graph.sink]
    savings = graph.period.end - ends[: candidates.height]
    return candidates.select(key).with_columns(pl.Series("half_saves_ns", savings))


CRITICAL_PATH: Final = TableSpec(
    "critical_path",
    "Critical path of an iteration",
    (
        PATH_NAME,
        Column("path_kind", "Kind", K.TEXT, "Kind of the time: kernel, launch delay, CPU op, ...", 1),
        Column("path_ns", "On path", K.DURATION, "Its time on the critical path; adds up to the iteration.", 1),
        Column("path_pct", "% of path", K.PERCENT, "Its share of the iteration.", 2),
        Column(
            "half_saves_ns",
            "Saved if 2x faster",
            K.DURATION,
            (
                "Time that the iteration would save if all of this took half as long, by the recorded dependencies; "
                "inferred."
            ),
            1,
        ),
        Column("on_path", "Segments", K.COUNT, "Segments on the path.", 4),
        Column("work_ns", "Total", K.DURATION, "Its time in the iteration, on or off the path.", 3),
        Column("work_count", "Count", K.COUNT, "Number of occurrences in the iteration.", 5),
        Column(
            "slack_ns",
            "Slack",
            K.DURATION,
            "Minimum delay of work off the path that makes the iteration longer; inferred.",
            3,
        ),
        replace(columns("iteration")[0], priority=3),
        *columns("session"),
    ),
    key=("session", "iteration", "path_kind", "name"),
    sort=(("path_ns", True),),
    weight="path_ns",
    bars=("path_pct",),
)
