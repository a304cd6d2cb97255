"""Breakdown of wall time into seven exclusive categories; GPU utilization, in total and over a session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import total
from tui.analysis.gpu_time.host_calls import HostPhase, call_intervals, phases_in
from tui.analysis.gpu_time.idle_gaps import busy_sets, busy_time
from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet, combined_length, row_intervals
from tui.analysis.gpu_time.timelines import (
    LATE_NS,
    GpuUse,
    Timeline,
    adjusted_timelines,
    gpu_uses,
    lengths_by_class,
    timelines,
)
from tui.analysis.grouping import distinct_rows, partition_by_session
from tui.analysis.memo import once_per_profile
from tui.analysis.needs import Tool, recording_tool
from tui.cache.spill import release_memory
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


class Category(StrEnum):
    """A use of wall time; if several are active at once, the first one counts."""

    TENSOR_CORES = "Using tensor cores"
    OTHER_KERNELS = "Not using tensor cores"
    UNKNOWN_KERNELS = "Kernels, tensor cores unknown"
    """Not a category of DLProf, which assigns every kernel; omitted if there are none."""
    MEMORY = "Memory"
    DATALOADER = "Dataloader"
    IO = "I/O"
    CPU = "CPU"
    OTHER = "Other"


BREAKDOWN: Final = TableSpec(
    "breakdown",
    "Wall time",
    columns("category", "wall_pct", "time_ns", "why", "wall_ns", "session"),
    key=("session", "category"),
    weight="time_ns",
    pinned="category",
)

_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "category": pl.String,
        "time_ns": pl.Int64,
        "wall_ns": pl.Int64,
        "why": pl.String,
    }
)

_NO_GPU_WORK: Final = "no GPU work with start times"
MIN_UNKNOWN_PCT: Final = 0.05
"""A smaller share of unknown time is not mentioned."""
_NOT_RECORDED: Final = {
    Category.DATALOADER: "data loading not recorded: no op or range has such a name",
    Category.IO: "I/O not recorded: no op or range has such a name",
    Category.CPU: "neither ops nor API calls recorded with times",
}


@dataclass(frozen=True, slots=True)
class _Host:
    """The host activity of a session, and the bounds of its wall time."""

    first_ns: int
    last_ns: int
    sets: dict[Category, IntervalSet]
    """The intervals of each category that the input records."""


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "ranges")
def breakdown_by_device(profile: Profile) -> pl.DataFrame:
    """Divide the wall time of each GPU by category: one row per session, device and `Category`.

    Columns: session, device (null if no GPU work is recorded), category, time_ns, wall_ns, wall_pct, why.

    Each instant belongs to the first category of `Category` that is active then: a kernel that uses tensor cores,
    another kernel, a copy or a memset, the loading of data, reading and writing of files (both by the names of ops and
    ranges, `gpu_time.host_calls`), an op or an API call on any thread; the rest is other. So the rows of a device add
    up to the wall time: from the start of the first iteration, op or GPU activity to the end of the last; in sessions
    with neither ops nor iterations, of the first and last API call or GPU activity.

    Categories that are not recorded are null, with the reason in ``why``, and their time is in Other.
    """
    use = gpu_uses(profile)
    memory_recorded = records_memory(profile)
    timelines_by_session: dict[int, list[tuple[Timeline, IntervalSet]]] = {}
    for timeline, busy in zip(adjusted_timelines(profile), busy_sets(profile), strict=True):
        timelines_by_session.setdefault(timeline.session, []).append((timeline, busy))
    bounds = wall_bounds(profile)
    in_calls = call_intervals(profile)
    frames = {name: partition_by_session(profile[name]) for name in ("ops", "ranges")}
    rows: list[tuple[object, ...]] = []
    for session in profile["sessions"]["session"].to_list():
        session_timelines = timelines_by_session.get(session, [])
        ops, ranges = (rows_by_session.get(session, profile[name].clear()) for name, rows_by_session in frames.items())
        if session not in bounds:
            continue
        host = _host(ops, in_calls.get(session, EMPTY), ranges, bounds[session])
        if not session_timelines:
            rows += _category_rows(session, None, EMPTY, host, use, memory_recorded=False)
        for timeline, busy in session_timelines:
            rows += _category_rows(session, timeline, busy, host, use, memory_recorded=session in memory_recorded)
    wall = pl.col("wall_ns")
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(
        pl.when(wall > 0).then(100 * pl.col("time_ns") / wall).alias("wall_pct")
    )


def breakdown(profile: Profile) -> pl.DataFrame:
    """Divide the wall time by category, as the mean over a session's GPUs with work: one row per session and category.

    Columns: session, category, time_ns, wall_ns, wall_pct, why (see `breakdown_by_device`). Times add up to the wall
    time, percentages to 100.
    """
    order = {str(category): index for index, category in enumerate(Category)}
    mean = (
        breakdown_by_device(profile)
        .group_by("session", "category")
        .agg(
            total("time_ns").alias("time_ns"),
            pl.col("wall_ns").first(),
            pl.col("why").drop_nulls().first(),
            pl.col("device").n_unique().alias("devices"),
        )
        .with_columns(pl.col("devices").max().over("session"))
        .sort("session", pl.col("category").replace_strict(order, return_dtype=pl.Int64))
    )
    # Rounding each running sum, not each part, keeps the sum of the parts.
    running = pl.col("time_ns").fill_null(0).cum_sum().over("session") / pl.col("devices")
    wall_ns = running.round().cast(pl.Int64)
    return (
        mean.with_columns(wall_ns.alias("until"))
        .with_columns(
            pl.when(pl.col("time_ns").is_not_null())
            .then(pl.col("until") - pl.col("until").shift(1).over("session").fill_null(0))
            .alias("time_ns"),
            pl.when(pl.col("wall_ns") > 0)
            .then(100 * pl.col("time_ns") / pl.col("devices") / pl.col("wall_ns"))
            .alias("wall_pct"),
        )
        .select("session", "category", "time_ns", "wall_ns", "wall_pct", "why")
    )


def _category_rows(
    session: int,
    timeline: Timeline | None,
    busy: IntervalSet,
    host: _Host,
    use: npt.NDArray[np.int8],
    *,
    memory_recorded: bool,
) -> list[tuple[object, ...]]:
    reasons: dict[Category, str | None] = {c: reason for c, reason in _NOT_RECORDED.items() if c not in host.sets}
    times: dict[Category, int | None] = dict.fromkeys(_GPU_CATEGORIES)
    covered, covered_ns = EMPTY, 0
    if timeline is None:
        reasons |= dict.fromkeys((Category.TENSOR_CORES, Category.OTHER_KERNELS, Category.MEMORY), _NO_GPU_WORK)
    else:
        classes = timeline.take(use)
        counts = np.bincount(classes, minlength=len(GpuUse))
        # Time that overlaps an earlier category counts there; all categories together are the busy time.
        kinds = list(_GPU_CATEGORIES.values())
        lengths = [*lengths_by_class(timeline, classes, [range(kind + 1) for kind in kinds[:-1]]), busy.length_ns]
        for (category, kind), length_ns in zip(_GPU_CATEGORIES.items(), lengths, strict=True):
            times[category] = 0
            if counts[kind]:
                times[category], covered_ns = length_ns - covered_ns, length_ns
        unknown_ns = times[Category.UNKNOWN_KERNELS] or 0
        kernel_ns = (times[Category.TENSOR_CORES] or 0) + (times[Category.OTHER_KERNELS] or 0) + unknown_ns
        if not counts[GpuUse.YES] and 100 * unknown_ns > MIN_UNKNOWN_PCT * kernel_ns:
            times[Category.TENSOR_CORES] = None
            reasons[Category.TENSOR_CORES] = "no kernel is known to use them, and for some it is unknown"
        if not counts[GpuUse.YES] and not counts[GpuUse.NO] and counts[GpuUse.UNKNOWN]:
            for category in (Category.TENSOR_CORES, Category.OTHER_KERNELS):
                times[category] = None
                reasons[category] = "tensor-core use of all kernels unknown"
        if not memory_recorded:
            times[Category.MEMORY] = None
            reasons[Category.MEMORY] = "only kernels recorded"
        covered = busy
    if times[Category.UNKNOWN_KERNELS]:
        reasons[Category.UNKNOWN_KERNELS] = "tensor-core use of these kernels unknown"
    else:
        times.pop(Category.UNKNOWN_KERNELS)
    wall = host.last_ns - host.first_ns
    for category in HOST_CATEGORIES:
        times[category] = None
        if category in host.sets:
            length_ns = combined_length(covered, host.sets[category])
            times[category], covered_ns = length_ns - covered_ns, length_ns
            if category != HOST_CATEGORIES[-1]:
                covered = covered | host.sets[category]
    times[Category.OTHER] = wall - covered_ns
    # Kernels whose use of tensor cores is unknown have a category of their own.
    elsewhere = (Category.TENSOR_CORES, Category.OTHER_KERNELS) if timeline is not None else ()
    missing = [str(category) for category in times if times[category] is None and category not in elsewhere]
    if missing:
        reasons[Category.OTHER] = f"includes categories that are not recorded: {', '.join(missing)}"
    device = timeline.device if timeline is not None else None
    return [(session, device, str(c), time, wall, reasons.get(c)) for c, time in times.items()]


HOST_CATEGORIES: Final = (Category.DATALOADER, Category.IO, Category.CPU)
"""Activities of the host, by priority, for time without GPU work."""
_GPU_CATEGORIES: Final = {
    Category.TENSOR_CORES: GpuUse.YES,
    Category.OTHER_KERNELS: GpuUse.NO,
    Category.UNKNOWN_KERNELS: GpuUse.UNKNOWN,
    Category.MEMORY: GpuUse.MEMORY,
}


COLLECTIVES: Final = "HCCL"
"""The domain of ranges that are collectives: Huawei's, which overlap the kernels that they wait for."""


def collective_ranges(profile: Profile) -> pl.DataFrame:
    """Return the collectives that are recorded as ranges, not as kernels."""
    return profile["ranges"].filter(pl.col("domain").cast(pl.String) == COLLECTIVES)


@once_per_profile("sessions", "activities", "api_calls", "ops", "ranges")
def wall_bounds(profile: Profile) -> dict[int, tuple[int, int]]:
    """Return the begin and end of the wall time of each session with known times (`breakdown_by_device`).

    Collectives that are recorded as ranges are work of the device.
    """
    marks = profile["ranges"].filter(pl.col("iteration").is_not_null())
    by_program = [*_bounds(profile["ops"]), *_bounds(marks)]
    recorded_sessions = {session for session, _, _ in by_program}
    by_calls = [bounds for bounds in _bounds(profile["api_calls"]) if bounds[0] not in recorded_sessions]
    by_gpu = [(timeline.session, int(timeline.starts[0]), int(timeline.ends.max())) for timeline in timelines(profile)]
    with_work = {session for session, _, _ in by_gpu}
    by_collectives = [bounds for bounds in _bounds(collective_ranges(profile)) if bounds[0] in with_work]
    # For a range of iterations these are their periods: CPU work ahead of them belongs to earlier ones.
    by_period = _bounds(_periods(profile))
    divided = {session for session, _, _ in by_period}
    by_host = [bounds for bounds in (*by_program, *by_calls) if bounds[0] not in divided]
    walls: dict[int, tuple[int, int]] = {}
    for session, first, last in (*by_host, *by_period, *by_gpu, *by_collectives):
        previous = walls.get(session, (first, last))
        walls[session] = min(first, previous[0]), max(last, previous[1])
    gpu_starts = {
        session: min(first for gpu_session, first, _ in by_gpu if gpu_session == session) for session, _, _ in by_gpu
    }
    host_ends = {
        session: max(last for gpu_session, _, last in by_host if gpu_session == session) for session, _, _ in by_host
    }
    for session, first in gpu_starts.items():
        if first - host_ends.get(session, first) >= LATE_NS:
            # Until then the GPU ran unrecorded work, which everything here waited for.
            walls[session] = first, walls[session][1]
    return walls


def _periods(profile: Profile) -> pl.DataFrame:
    """Return the recorded iterations of a profile of a part of its iterations; for others no rows."""
    steps = profile.steps
    if steps is None or not profile.aggregation.is_part:
        return pl.DataFrame(schema={"session": pl.UInt32, "start_ns": pl.Int64, "duration_ns": pl.Int64})
    return steps.filter(pl.col("source") == "recorded", pl.col("iteration").is_not_null())


def _bounds(rows: pl.DataFrame) -> list[tuple[int, int, int]]:
    """Return the first start and the last end of each session with known times."""
    times = (
        rows.lazy()
        .select("session", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .drop_nulls()
        .group_by("session")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    )
    return times.collect().rows()


@once_per_profile("sessions", "activities", "api_calls", "ops", "ranges")
def host_times(profile: Profile) -> dict[int, dict[Category, IntervalSet]]:
    """Return the times in which the host of each session loaded data, did I/O, or was in ops or API calls.

    The keys are `HOST_CATEGORIES` in order of precedence, without those that are not recorded.
    """
    bounds = wall_bounds(profile)
    in_calls = call_intervals(profile)
    frames = {name: partition_by_session(profile[name]) for name in ("ops", "ranges")}
    times: dict[int, dict[Category, IntervalSet]] = {}
    for session, limits in bounds.items():
        ops, ranges = (rows_by_session.get(session, profile[name].clear()) for name, rows_by_session in frames.items())
        sets = _host(ops, in_calls.get(session, EMPTY), ranges, limits).sets
        times[session] = {category: sets[category] for category in HOST_CATEGORIES if category in sets}
    return times


def _host(ops: pl.DataFrame, in_calls: IntervalSet, ranges: pl.DataFrame, bounds: tuple[int, int]) -> _Host:
    """Return the intervals of the host categories of a session, within its wall time."""
    first, last = bounds
    in_ops = row_intervals(ops)
    phases = phases_in(ops, ranges)
    release_memory()
    sets = {
        category: phases[phase]
        for category, phase in ((Category.DATALOADER, HostPhase.DATALOADER), (Category.IO, HostPhase.IO))
        if phase in phases
    }
    if len(in_ops.starts) or len(in_calls.starts):
        sets[Category.CPU] = in_ops | in_calls
    return _Host(first, last, {category: spans.clip_to(first, last) for category, spans in sets.items()})


_OMITTING_COPIES: Final = (Tool.ROCPROF, Tool.ASCEND, Tool.PERFETTO, Tool.PROTON, Tool.NCU)


def records_memory(profile: Profile) -> frozenset[int]:
    """Return the sessions in which copies would be recorded; some tools omit them, or can."""
    kinds = distinct_rows(profile["activities"], ("session", "kind"))
    copying = kinds.filter(pl.col("kind").cast(pl.String).is_in(["memcpy", "memset", "um"]))["session"].to_list()
    return frozenset(copying) | {
        session
        for session, format_name, tool in profile["sessions"].select("session", "format", "tool").iter_rows()
        if recording_tool(format_name, tool) not in _OMITTING_COPIES
    }


def utilization(profile: Profile) -> pl.DataFrame:
    """Return `busy_time` with the wall time of the session instead of the span of its GPU work.

    Columns: session, device, span_ns, busy_ns, wall_ns (`wall_bounds`: of ops, iterations and GPU work, else of API
    calls and GPU work; never shorter than the span), idle_ns (wall - busy), busy_pct (busy / wall). The mean of
    ``busy_pct`` over the GPUs is DLProf's GPU utilization.
    """
    bounds = wall_bounds(profile)
    walls = pl.DataFrame(
        [(session, last - first) for session, (first, last) in bounds.items()],
        schema={"session": pl.UInt32, "wall_ns": pl.Int64},
        orient="row",
    )
    wall = pl.col("wall_ns")
    return (
        busy_time(profile)
        .join(walls, on="session", how="left", maintain_order="left")
        .select(
            "session",
            "device",
            "span_ns",
            "busy_ns",
            "wall_ns",
            (wall - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(wall > 0).then(100 * pl.col("busy_ns") / wall).alias("busy_pct"),
        )
    )


CHUNKS: Final = 30
"""The default number of chunks, as in Nsight Systems' rule of GPU time utilization."""

_OVER_TIME_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "chunk": pl.Int64,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "busy_ns": pl.Int64,
    }
)


def utilization_in_chunks(profile: Profile, chunks: int = CHUNKS) -> pl.DataFrame:
    """Return the busy share of each GPU in equal chunks of the time from its first start to its last end.

    Columns: session, device, chunk (from 0), start_ns, duration_ns, busy_ns (union of its work), busy_pct (null in
    chunks without length). Chunks differ by 1 ns where the time cannot be divided.
    """
    frames = [pl.DataFrame(schema=_OVER_TIME_SCHEMA)]
    for timeline, working in zip(timelines(profile), busy_sets(profile), strict=True):
        first, last = int(timeline.starts[0]), int(timeline.ends.max())
        bounds = first + np.round((last - first) * np.arange(chunks + 1) / chunks).astype(np.int64)
        busy = np.diff(working.covered_before(bounds))
        frames.append(
            pl.DataFrame(
                {
                    "session": timeline.session,
                    "device": pl.Series([timeline.device] * chunks, dtype=pl.Int32),
                    "chunk": np.arange(chunks),
                    "start_ns": bounds[:-1],
                    "duration_ns": np.diff(bounds),
                    "busy_ns": busy,
                }
            ).cast(_OVER_TIME_SCHEMA)
        )
    return _with_share(pl.concat(frames))


def low_utilization(profile: Profile, below_pct: float) -> pl.DataFrame:
    """Return runs of chunks in which a GPU was busy for less than a share of the time, in time order.

    Columns: session, device, start_ns, duration_ns, busy_ns, busy_pct.
    """
    keys = ("session", "device")
    is_low = pl.col("busy_pct") < below_pct
    return _with_share(
        utilization_in_chunks(profile)
        .with_columns(is_low.fill_null(False).alias("low"))
        .with_columns(pl.col("low").rle_id().over(keys).alias("interval"))
        .filter("low")
        .group_by(*keys, "interval", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("duration_ns").sum(), pl.col("busy_ns").sum())
        .drop("interval")
    )


def _with_share(rows: pl.DataFrame) -> pl.DataFrame:
    share = pl.when(pl.col("duration_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("duration_ns"))
    return rows.with_columns(share.alias("busy_pct"))


def busy_intervals(profile: Profile) -> dict[tuple[int, int | None], IntervalSet]:
    """Return the busy intervals of each GPU, by session and device."""
    sets = zip(timelines(profile), busy_sets(profile), strict=True)
    return {(timeline.session, timeline.device): busy for timeline, busy in sets}


def busy_over_time(
    profile: Profile, *, session: int, device: int | None, first_ns: int, last_ns: int, bins: int
) -> npt.NDArray[np.float64]:
    """Return the busy share of a GPU in each of ``bins`` equal steps of time.

    Args:
        profile: The profile.
        session: The session.
        device: The GPU; None: activities without a recorded GPU.
        first_ns: The start of the first step.
        last_ns: The end of the last step.
        bins: The number of steps.

    Returns:
        ``bins`` values of 0 to 1; empty if there is no time to divide.
    """
    union = busy_intervals(profile).get((session, device), EMPTY)
    if bins <= 0 or last_ns <= first_ns or not len(union.starts):
        return np.zeros(max(0, bins) if last_ns > first_ns else 0)
    # Busy time up to a moment is piecewise linear between the edges of the union: its differences are the bins.
    moments = np.stack((union.starts, union.ends), axis=1).ravel()
    busy = np.stack((union.length_before, union.length_before + union.ends - union.starts), axis=1).ravel()
    edges = np.linspace(first_ns, last_ns, bins + 1)
    shares = np.diff(np.interp(edges, moments, busy)) / ((last_ns - first_ns) / bins)
    clipped: npt.NDArray[np.float64] = np.clip(shares, 0.0, 1.0)
    return clipped
