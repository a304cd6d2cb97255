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
    median_iteration,
    paths_by_iteration,
    segments_of_iteration,
)
from tui.analysis.critical_path_trace import GPU_WORK, TITLES, PathKind, Start, Trace, base_profile, cpu_items, traces
from tui.correlation.nesting import NONE
from tui.model.columns import Column, ColumnKind, columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

K = ColumnKind

MAX_TRIED: Final = 80
"""The savings of half the time are computed for this number of names, those with most time on the path."""
_FOREVER: Final = 1 << 62


class Graph:
    """The moments of one iteration and the minimum times between them.

    Args:
        found: See `critical_path_trace.traces`.
        window: The iteration.
        involved: The sessions that its path runs through.
    """

    def __init__(self, found: Mapping[int, Trace], window: IterationPeriod, involved: list[int]) -> None:
        self.window = window
        self.times: list[int] = [window.begin]
        """When each moment was recorded; the first is the begin of the iteration."""
        self.edges: list[tuple[int, int, int]] = []
        """From, to, and the time that has to pass."""
        self.of_work: list[tuple[int, int, int, PathKind]] = []
        """Edges that are of an activity: edge, session, activity, what they are."""
        self.of_cpu: list[tuple[int, int, int]] = []
        """Edges that are time of a thread: edge, session, thread."""
        self._points: dict[tuple[int, int, int], int] = {}
        self._starts: dict[tuple[int, int], int] = {}
        self._ends: dict[tuple[int, int], int] = {}
        self._meetings: dict[tuple[int, int], int] = {}
        self.sink = -1
        for session in involved:
            self._add_threads(found[session])
            self._add_moments(found[session])
        for session in involved:
            self._add_work(found[session], involved)
        self._add_end(found[window.session])

    def _moment(self, at: int) -> int:
        self.times.append(at)
        return len(self.times) - 1

    def _edge(self, first: int, second: int, passes: int) -> int:
        self.edges.append((first, second, passes))
        return len(self.edges) - 1

    def _inside(self, trace: Trace) -> range:
        """Return the activities that start before the end of the iteration, also those that end before its begin."""
        return range(bisect_left(trace.start, self.window.end))

    def _add_threads(self, trace: Trace) -> None:
        """Add the moments of each thread at which it launches, waits or continues, in order."""
        begin, end = self.window.begin, self.window.end
        at: dict[int, set[int]] = {thread: set() for thread in trace.bursts}
        for activity in self._inside(trace):
            if trace.end[activity] > begin and begin < trace.launch[activity] <= end:
                at.setdefault(trace.thread[activity], set()).add(trace.launch[activity])
        pauses: dict[tuple[int, int], int | None] = {}
        for thread, (finishes, begins, _, _) in trace.blocked.items():
            for place in range(bisect_right(finishes, begin), bisect_right(finishes, end)):
                since = max(begins[place], begin)
                at.setdefault(thread, set()).update((since, finishes[place]))
                pauses[thread, finishes[place]] = since
        handovers = []
        for thread, bursts in trace.bursts.items():
            for place in range(bisect_left(bursts.begins, begin), bisect_left(bursts.begins, end)):
                woken_by = bursts.woken_by[place]
                if woken_by is not None and woken_by[1] > begin:
                    at[thread].add(bursts.begins[place])
                    at.setdefault(woken_by[0], set()).add(woken_by[1])
                    handovers.append((woken_by, (thread, bursts.begins[place])))
                    if place and bursts.ends[place - 1] > begin:
                        at[thread].add(bursts.ends[place - 1])
                    pauses[thread, bursts.begins[place]] = None
        for thread, moments in at.items():
            last, since = 0, begin
            for moment in sorted(moments):
                point = self._points[trace.session, thread, moment] = self._moment(moment)
                waits = (thread, moment) in pauses and since >= (pauses[thread, moment] or begin)
                edge = self._edge(last, point, 0 if waits else moment - since)
                if not waits:
                    self.of_cpu.append((edge, trace.session, thread))
                last, since = point, moment
        for (thread, finish), (other, moment) in handovers:
            first, second = (
                self._points[trace.session, one, when] for one, when in ((thread, finish), (other, moment))
            )
            self.of_cpu.append((self._edge(first, second, moment - finish), trace.session, thread))

    def _add_moments(self, trace: Trace) -> None:
        for activity in self._inside(trace):
            if trace.end[activity] > self.window.begin:
                key = (trace.session, activity)
                self._starts[key] = self._moment(max(trace.start[activity], self.window.begin))
                self._ends[key] = self._moment(trace.end[activity])

    def _add_work(self, trace: Trace, involved: list[int]) -> None:
        """Add the edges of GPU work: its dependencies, its duration, and the moments that depend on it."""
        begin, session = self.window.begin, trace.session
        for activity in self._inside(trace):
            key = (session, activity)
            if key not in self._starts:
                continue
            start = self._starts[key]
            self._add_duration(trace, activity, involved)
            since = self.times[start]
            decided = trace.decided_by[activity]
            launched = self._points.get((session, trace.thread[activity], trace.launch[activity]))
            if launched is not None and trace.launch[activity] <= since:
                delay = since - trace.launch[activity]
                is_it = decided == Start.LAUNCH
                edge = self._edge(launched, start, delay if is_it else min(delay, trace.latency_ns))
                if is_it:
                    self.of_work.append((edge, session, activity, PathKind.LAUNCH_DELAY))
            others = [(Start.STREAM, int(trace.previous[activity]))]
            others += [(Start.WAIT, other) for other in trace.waits.get(activity, ())]
            for kind, other in others:
                before = self._ends.get((session, other))
                is_it = decided == kind and other == trace.before[activity]
                if other < 0 or before is None or (self.times[before] > since and not is_it):
                    continue
                edge = self._edge(before, start, since - self.times[before] if is_it else 0)
                if is_it:
                    gap = PathKind.KERNEL_GAP if kind == Start.STREAM else PathKind.SYNCHRONIZATION
                    self.of_work.append((edge, session, activity, gap))
            # The work that it waited for ran before the iteration, or is not recorded.
            self._edge(0, start, since - begin if self._is_free(trace, activity) else 0)
        for thread, (finishes, _, works, _) in trace.blocked.items():
            for finish, work in zip(finishes, works, strict=True):
                point, before = self._points.get((session, thread, finish)), self._ends.get((session, work))
                if point is not None and before is not None:
                    edge = self._edge(before, point, finish - self.times[before])
                    self.of_work.append((edge, session, work, PathKind.SYNCHRONIZATION))
                elif point is not None:
                    self._edge(0, point, finish - begin)

    def _is_free(self, trace: Trace, activity: int) -> bool:
        decided = trace.decided_by[activity]
        if decided == Start.LAUNCH:
            return (trace.session, trace.thread[activity], trace.launch[activity]) not in self._points
        return decided == Start.UNKNOWN or (trace.session, trace.before[activity]) not in self._ends

    def _add_duration(self, trace: Trace, activity: int, involved: list[int]) -> None:
        start, end = self._starts[trace.session, activity], self._ends[trace.session, activity]
        met = trace.meetings.get(activity)
        other = None if met is None or met[1] not in involved else self._starts.get((met[1], met[2]))
        if met is None or other is None:
            edge = self._edge(start, end, self.times[end] - self.times[start])
        else:
            # A collective begins when the last rank arrives.
            self._edge(start, end, 0)
            edge = self._edge(other, end, self.times[end] - self.times[other])
        self.of_work.append((edge, trace.session, activity, PathKind(trace.kind[activity])))

    def _add_end(self, trace: Trace) -> None:
        """Add the end of the iteration: after all of its work, or after the last CPU work."""
        window = self.window
        self.sink = self._moment(window.end)
        for (session, activity), end in self._ends.items():
            if session == window.session and self.times[end] <= window.end:
                if activity == window.last:
                    self._edge(end, self.sink, window.end - self.times[end])
                elif trace.iteration[activity] == window.iteration:
                    self._edge(end, self.sink, 0)
        last: dict[int, int] = {}
        for (session, thread, _), point in self._points.items():
            if session == window.session:
                last[thread] = max(last.get(thread, -1), point)
        if window.last is None or trace.end[window.last] < window.end:
            for thread, point in last.items():
                edge = self._edge(point, self.sink, window.end - self.times[point])
                self.of_cpu.append((edge, window.session, thread))
        if not last and window.last is None:
            self._edge(0, self.sink, window.end - window.begin)

    def order(self) -> list[int]:
        """Return the moments in topological order."""
        waits = [0] * len(self.times)
        following: list[list[int]] = [[] for _ in self.times]
        for first, second, _ in self.edges:
            waits[second] += 1
            following[first].append(second)
        ready = [moment for moment, count in enumerate(waits) if not count]
        ordered = []
        while ready:
            moment = ready.pop()
            ordered.append(moment)
            for other in following[moment]:
                waits[other] -= 1
                if not waits[other]:
                    ready.append(other)
        return ordered


def earliest_times(graph: Graph, passes: Ints) -> Ints:
    """Return the earliest time of each moment if edges take other times: a column for each case.

    Args:
        graph: The moments.
        passes: The time of each edge in each case.
    """
    into: list[list[int]] = [[] for _ in graph.times]
    for edge, (_, second, _) in enumerate(graph.edges):
        into[second].append(edge)
    at = np.full((len(graph.times), passes.shape[1]), graph.window.begin, np.int64)
    firsts = [first for first, _, _ in graph.edges]
    for moment in graph.order():
        edges = into[moment]
        if edges:
            at[moment] = (at[[firsts[edge] for edge in edges]] + passes[edges]).max(axis=0)
    return at


def latest_times(graph: Graph) -> Ints:
    """Return the latest time of each moment that does not delay the iteration; `_FOREVER` if nothing depends on it."""
    at = [_FOREVER] * len(graph.times)
    at[graph.sink] = graph.times[graph.sink]
    out: list[list[tuple[int, int]]] = [[] for _ in graph.times]
    for first, second, passes in graph.edges:
        out[first].append((second, passes))
    for moment in reversed(graph.order()):
        for second, passes in out[moment]:
            if at[second] < _FOREVER:
                at[moment] = min(at[moment], at[second] - passes)
    return np.array(at, np.int64)


def critical_path(profile: Profile, session: int | None = None, iteration: int | None = None) -> pl.DataFrame:
    """Return one row per kind and name of an iteration's work: its time on the path, and its slack elsewhere.

    Columns: session, iteration, path_kind, name, path_ns and path_pct (its time on the path, which add up to the
    iteration), on_path (segments), work_count and work_ns (all of it that the iteration has), slack_ns (the minimum
    slack of work that is not on the path: the time that it could end later without delaying the iteration; null if all
    work is on the path or nothing depends on it), half_saves_ns (what the iteration would gain if all of it took half
    as long; null if it was not tried).

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
    whole = base_profile(profile)
    found = paths_by_iteration(whole).get((session, iteration))
    if found is None:
        return pl.DataFrame(schema=_SCHEMA)
    window, path = found
    graph = Graph(traces(whole), window, sorted({window.session, *(segment.on_session for segment in path)}))
    on_path = (
        segments_of_iteration(profile, session, iteration)
        .group_by(pl.col("path_kind").cast(pl.String), pl.col("name").cast(pl.String))
        .agg(pl.col("duration_ns").sum().alias("path_ns"), pl.len().cast(pl.Int64).alias("on_path"))
    )
    pieces = _pieces(whole, graph)
    key = ["path_kind", "name"]
    total = pieces.group_by(key).agg(
        pl.col("activity").drop_nulls().n_unique().cast(pl.Int64).alias("work_count"),
        pl.col("piece_ns").sum().alias("work_ns"),
        pl.col("slack_ns").filter(pl.col("slack_ns") > 0).min(),
    )
    saved = _saved(graph, pieces, on_path)
    return (
        total.join(on_path, on=key, how="full", coalesce=True, nulls_equal=True)
        .join(saved, on=key, how="left", nulls_equal=True)
        .with_columns(pl.col("path_ns", "on_path").fill_null(0), pl.col("work_count").replace(0, None))
        .with_columns(
            pl.when(pl.col("path_ns") == 0).then(0).otherwise("half_saves_ns").alias("half_saves_ns"),
            (100 * pl.col("path_ns") / (window.end - window.begin)).alias("path_pct"),
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

    Columns: session, iteration, name, work_ns, path_ns (its time on the path), half_saves_ns.

    Args:
        work: The result of `critical_path`.
        names: The names of the work.
    """
    return (
        work.with_columns(pl.col("name").cast(pl.String))
        .filter(pl.col("name").is_in(list(names)), ~pl.col("path_kind").cast(pl.String).is_in(_WAITS))
        .group_by("session", "iteration", "name")
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


def _pieces(profile: Profile, graph: Graph) -> pl.DataFrame:
    """Return the time of the edges by work: edge, path_kind, name, piece_ns, slack_ns (null: unlimited), activity."""
    found = traces(profile)
    until = latest_times(graph)
    slack = np.array([until[second] - passes - graph.times[first] for first, second, passes in graph.edges], np.int64)
    passes = np.array([passes for _, _, passes in graph.edges], np.int64)
    unlimited = np.array([until[second] >= _FOREVER for _, second, _ in graph.edges], bool)
    edges = np.array([edge for edge, *_ in graph.of_work], np.int64)
    rows = np.array([found[session].row[activity] for _, session, activity, _ in graph.of_work], np.int64)
    titles = [TITLES[kind] for *_, kind in graph.of_work]
    parts = [
        pl.DataFrame({"edge": edges, "path_kind": pl.Series(titles, dtype=pl.String), "activity": rows}).with_columns(
            profile["activities"]["name"].gather(rows).cast(pl.String).alias("name"),
            pl.Series("piece_ns", passes[edges]),
        )
    ]
    by_session: dict[int, list[tuple[int, int]]] = {}
    for edge, session, thread in graph.of_cpu:
        by_session.setdefault(session, []).append((edge, thread))
    times = np.array(graph.times, np.int64)
    names = pl.Series([TITLES[kind] for kind in PathKind], dtype=pl.String)
    for session, own in by_session.items():
        trace = found[session]
        edges = np.array([edge for edge, _ in own], np.int64)
        threads = np.array([thread for _, thread in own], np.int64)
        begin = times[[graph.edges[edge][0] for edge in edges.tolist()]]
        end = times[[graph.edges[edge][1] for edge in edges.tolist()]]
        items = cpu_items(profile, trace, graph.window.begin, graph.window.end)
        of, starts, ends, item = items.split(threads, begin, end)
        described = pl.DataFrame(items.described(item))
        parts.append(
            pl.DataFrame(
                {
                    "edge": edges[of],
                    "piece_ns": ends - starts,
                    "activity": pl.Series(-1 - item).set(pl.Series(item == NONE), None),
                }
            ).select(
                "edge",
                names.gather(described["piece_kind"]).alias("path_kind"),
                "activity",
                described["piece_name"].cast(pl.String).alias("name"),
                "piece_ns",
            )
        )
    joined = pl.concat(parts)
    at = joined["edge"].to_numpy()
    return joined.with_columns(pl.Series("slack_ns", slack[at]).set(pl.Series(unlimited[at]), None))


def _saved(graph: Graph, pieces: pl.DataFrame, on_path: pl.DataFrame) -> pl.DataFrame:
    """Return what the iteration would gain if all work of a kind and name took half as long."""
    key = ["path_kind", "name"]
    tried = (
        on_path.sort("path_ns", *key, descending=[True, False, False])
        .head(MAX_TRIED)
        .select(key)
        .with_row_index("case")
    )
    shorter = pieces.join(tried, on=key, how="inner", nulls_equal=True)
    known = np.array([one for *_, one in graph.edges], np.int64)
    passes = np.repeat(known.reshape(-1, 1), max(tried.height, 1), axis=1)
    where = (shorter["edge"].to_numpy(), shorter["case"].to_numpy())
    # Work can begin shortly before the previous work on its stream ends: leave such an edge unchanged.
    least = np.minimum(passes, 0)
    np.subtract.at(passes, where, np.maximum(shorter["piece_ns"].to_numpy(), 0) // 2)
    ends = earliest_times(graph, np.maximum(passes, least))[graph.sink]
    saved = graph.window.end - ends[: tried.height]
    return tried.select(key).with_columns(pl.Series("half_saves_ns", saved))


CRITICAL_PATH: Final = TableSpec(
    "critical_path",
    "Critical path of an iteration",
    (
        PATH_NAME,
        Column("path_kind", "Kind", K.TEXT, "Kind of the time: kernel, launch delay, CPU op, ...", 1),
        Column("path_ns", "On the path", K.DURATION, "Its time on the critical path; adds up to the iteration.", 1),
        Column("path_pct", "Of path", K.PERCENT, "Its share of the iteration.", 2),
        Column(
            "half_saves_ns",
            "Saves at 2x",
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
