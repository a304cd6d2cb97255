"""NVTX ranges and annotations: by name, by instance, by nesting depth, with the GPU work launched in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.activities import filtered_activities, launched_activities
from tui.analysis.durations import CALL_STATISTICS, call_statistics, merged_call_statistics, total
from tui.analysis.grouping import partition_by_session
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.iterations.segments import iteration_between
from tui.analysis.memo import once_per_profile
from tui.cache.spill import spill_to_disk
from tui.correlation.launches import add_launch_columns
from tui.model.columns import ColumnKind, columns
from tui.model.profile import session_rows
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    from collections.abc import Mapping


THREAD: Final = ("session", "pid", "tid")
"""Columns that distinguish threads."""
PROCESS: Final = ("session", "pid")
"""Columns that distinguish processes."""

_LAUNCHED_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "pid": pl.Int64,
        "tid": pl.Int64,
        "launch_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "is_kernel": pl.Boolean,
    }
)


@once_per_profile("activities", "api_calls")
def launched_work(profile: Profile) -> pl.DataFrame:
    """Return every GPU activity whose launching call and thread are known, by thread and time of that call.

    Columns: session, pid, tid, launch_ns, duration_ns, is_kernel (a kernel, or a whole CUDA graph).
    """
    columns = profile["activities"].select("session", "kind", "duration_ns", "correlation")
    # One session at a time into preallocated columns.
    frames = [
        spill_to_disk(
            _session_launched_work(work.drop_nulls("correlation"), session_rows(profile["api_calls"], session))
        )
        for session, work in sorted(partition_by_session(columns).items())
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=_LAUNCHED_SCHEMA)


def _session_launched_work(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return `launched_work` of one session."""
    is_kernel = (pl.col("kind") == "kernel") | (pl.col("kind") == "graph")
    return (
        add_launch_columns(work.select("session", "duration_ns", "correlation", is_kernel=is_kernel), calls)
        .rename({"launch_pid": "pid", "launch_tid": "tid"})
        .drop_nulls(["launch_ns", "pid", "tid"])
        .select(_LAUNCHED_SCHEMA.names())
        .cast(_LAUNCHED_SCHEMA)
        .sort("pid", "tid", "launch_ns")
    )


@once_per_profile("activities", "api_calls")
def launched_work_by_process(profile: Profile) -> pl.DataFrame:
    """Return `launched_work`, by process and time of the call."""
    return launched_work(profile).sort(*PROCESS, "launch_ns")


def with_launched_within(
    intervals: pl.DataFrame, work: pl.DataFrame, thread_columns: Sequence[str] = THREAD
) -> pl.DataFrame:
    """Add ``gpu_ns`` and ``kernels``: the GPU work launched in each interval, on its own thread.

    Both are null if the thread or the times of an interval are unknown, and in sessions without known launches;
    ``gpu_ns`` also if no duration of the work is known.

    Args:
        intervals: With the columns ``thread_columns``, start_ns and duration_ns.
        work: `launched_work` of the same profile, or `launched_work_by_process`.
        thread_columns: `THREAD`, or `PROCESS` for launches of any thread of the process.
    """
    # Launches are sorted by thread: number the threads in that order.
    is_next = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in thread_columns)
    is_first = work.select(is_next.fill_null(True).alias("first"))["first"]
    work_threads = (is_first.cum_sum() - 1).fill_null(0)
    threads = work.filter(is_first).select(thread_columns).with_row_index("thread")
    code = intervals.select(thread_columns).join(threads, on=thread_columns, how="left", maintain_order="left")[
        "thread"
    ]
    start = intervals["start_ns"].fill_null(0).to_numpy()
    end = start + intervals["duration_ns"].fill_null(0).to_numpy()
    first, last = _launch_bounds(work_threads, work["launch_ns"].to_numpy(), code.fill_null(0), start, end)
    is_known = pl.all_horizontal(pl.col(*thread_columns, "start_ns", "duration_ns").is_not_null()) & pl.col(
        "session"
    ).is_in(work["session"].unique().implode())
    launches_nothing = code.is_null().to_numpy()

    def interval_sums(values: pl.Series) -> Ints:
        sums = np.concatenate(([0], np.cumsum(values.fill_null(0).cast(pl.Int64).to_numpy())))
        return np.where(launches_nothing, 0, sums[last] - sums[first])

    durations = work["duration_ns"]
    gpu_ns, launches = interval_sums(durations), np.where(launches_nothing, 0, last - first)
    is_timed = (interval_sums(durations.is_not_null()) > 0) | (launches == 0)
    return intervals.with_columns(
        pl.when(is_known & pl.lit(pl.Series(is_timed))).then(pl.lit(pl.Series(gpu_ns))).alias("gpu_ns"),
        pl.when(is_known).then(pl.lit(pl.Series(interval_sums(work["is_kernel"])))).alias("kernels"),
    )


def _launch_bounds(
    interval_threads: pl.Series, launch: Ints, code: pl.Series, start: Ints, end: Ints
) -> tuple[Ints, Ints]:
    """Return the first launch and the one after the last of each interval; launches are sorted by thread and time."""
    threads, codes = interval_threads.to_numpy().astype(np.int64), code.to_numpy().astype(np.int64)
    moments = np.concatenate((launch, start, end))
    low, high = (int(moments.min()), int(moments.max())) if len(moments) else (0, 0)
    width = high - low + 1
    if width * (int(threads.max(initial=0)) + 1) >= 1 << 62:
        # If times do not fit into one number with the thread, use their ranks.
        _, ranks = np.unique(moments, return_inverse=True)
        launch, start, end = np.split(ranks.astype(np.int64), (len(launch), len(launch) + len(start)))
        low, width = 0, len(moments)
    keys = threads * width + (launch - low)
    first = np.searchsorted(keys, codes * width + (start - low), side="left")
    last = np.searchsorted(keys, codes * width + (end - low), side="right")
    return first, np.maximum(first, last)


WORK: Final = ("range_gpu_ns", "range_kernels", "meanwhile_gpu_ns", "meanwhile_kernels")
"""The columns that are added to ranges."""


def with_work(ranges: pl.DataFrame, profile: Profile) -> pl.DataFrame:
    """Add `WORK` to single ranges: the GPU work that was launched between start and end.

    ``range_`` columns are of launches by the range's own thread, ``meanwhile_`` columns of launches by other threads of
    its process. They are null if the thread or the times of the range are unknown, and in sessions without known
    launches.
    """
    launched = with_launched_within(ranges, launched_work(profile)).rename({"gpu_ns": WORK[0], "kernels": WORK[1]})
    return (
        with_launched_within(launched, launched_work_by_process(profile), thread_columns=PROCESS)
        .with_columns(
            (pl.col("gpu_ns") - pl.col(WORK[0])).alias(WORK[2]), (pl.col("kernels") - pl.col(WORK[1])).alias(WORK[3])
        )
        .drop("gpu_ns", "kernels")
    )


def work_while_open(ranges: pl.DataFrame, keys: Sequence[str], profile: Profile) -> pl.DataFrame:
    """Return `WORK` of groups of ranges; each launch counts once, even if ranges of a group are nested.

    ``range_`` columns are of work launched while a range of the group was open on the launching thread, ``meanwhile_``
    columns of work launched while one was open only on other threads of the process. Nulls are as in `with_work`.

    Args:
        ranges: Columns of the model.
        keys: The columns that identify a group, including ``session``.
        profile: The profile with the launches.
    """
    timed = ranges.filter(pl.all_horizontal(pl.col("start_ns", "duration_ns", "pid", "tid").is_not_null()))
    thread_work = with_launched_within(_intervals(timed, [*keys, "pid", "tid"]), launched_work(profile))
    process_work = with_launched_within(
        _intervals(timed, [*keys, "pid"]), launched_work_by_process(profile), thread_columns=PROCESS
    )
    return (
        thread_work.group_by(keys)
        .agg(total("gpu_ns").alias(WORK[0]), total("kernels").alias(WORK[1]))
        .join(
            process_work.group_by(keys).agg(total("gpu_ns").alias(WORK[2]), total("kernels").alias(WORK[3])),
            on=keys,
            nulls_equal=True,
        )
        .with_columns(pl.col(WORK[2]) - pl.col(WORK[0]), pl.col(WORK[3]) - pl.col(WORK[1]))
    )


def _intervals(ranges: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the disjoint intervals in which a range of a group is open, as start_ns and duration_ns."""
    return (
        ranges.select(*keys, "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .sort("start_ns")
        .with_columns(pl.col("end_ns").cum_max().over(keys).alias("reached"))
        .with_columns(
            (pl.col("start_ns") > pl.col("reached").shift(1).over(keys))
            .fill_null(True)
            .cum_sum()
            .over(keys)
            .alias("interval")
        )
        .group_by(*keys, "interval")
        .agg(pl.col("start_ns").min(), (pl.col("end_ns").max() - pl.col("start_ns").min()).alias("duration_ns"))
    )


# These names are the program's own words, not C++ names to shorten.
_NAME: Final = replace(columns("name")[0], kind=ColumnKind.TEXT, help="Name given by the program or a library.")
_TOTAL: Final = replace(
    columns("total_ns")[0],
    help="Sum of the durations of all calls, including nested ranges of the same name.",
)

RANGES: Final = TableSpec(
    "ranges_by_name",
    "Ranges",
    (
        _NAME,
        *columns("session"),
        _TOTAL,
        *columns("calls", "avg_ns", *WORK, "min_ns", "max_ns", "domain"),
        *columns("median_ns", "p90_ns", "std_ns", "line"),
    ),
    key=("session", "domain", "name"),
    sort=(("total_ns", True),),
)

RANGE_INSTANCES: Final = TableSpec(
    "range_instances",
    "Instances",
    columns(
        "start_ns",
        "duration_ns",
        *WORK,
        "iteration",
        "iteration_by",
        "depth",
        "pid",
        "tid",
        "line",
        "number",
    ),
    key=("session", "number"),
    pinned="start_ns",
)

RANGES_MEANWHILE: Final = TableSpec(
    "ranges_meanwhile",
    "Ranges by work of other threads",
    (
        _NAME,
        *columns("session"),
        replace(columns("meanwhile_gpu_ns")[0], priority=1, only_above_zero=False),
        *columns("meanwhile_kernels"),
        _TOTAL,
        *columns("calls", "avg_ns", "domain", "line"),
    ),
    key=RANGES.key,
    sort=(("meanwhile_gpu_ns", True),),
)

INSTANCES_MEANWHILE: Final = replace(
    RANGE_INSTANCES,
    name="instances_meanwhile",
    columns=tuple(column for column in RANGE_INSTANCES.columns if not column.name.startswith("range_")),
)

NAME_KEYS: Final = ("session", "domain", "name")
"""Columns that distinguish the names of ranges."""


@once_per_profile("ranges", "summary", "activities", "api_calls")
def ranges_by_name(profile: Profile) -> pl.DataFrame:
    """Return ranges by name: one row per session, domain and name, largest total first.

    Columns: session, domain, name, calls, total_ns, avg_ns, min_ns, max_ns, median_ns, p90_ns, p99_ns, std_ns,
    range_gpu_ns (summed durations of the GPU work launched while a range of the name was open on the launching thread,
    each launch once), range_kernels (the number of kernels in it), meanwhile_gpu_ns and meanwhile_kernels (the same for
    work launched while one was open only on other threads of the process), line. The four are null if the launching
    thread is not recorded. Times of nested ranges overlap and must not be added up. Sessions with totals only have the
    rows of their own table.
    """
    ranges = profile["ranges"]
    by_name = ranges.group_by(NAME_KEYS, maintain_order=True).agg(*call_statistics(), pl.col("line").min())
    open_work = work_while_open(ranges, NAME_KEYS, profile)
    single = by_name.join(open_work, on=NAME_KEYS, how="left", nulls_equal=True, maintain_order="left")
    return pl.concat([single, _printed_ranges(profile)], how="diagonal_relaxed").sort(
        "total_ns", "name", descending=[True, False], nulls_last=True
    )


def _printed_ranges(profile: Profile) -> pl.DataFrame:
    """Return the ranges of sessions that have them as totals."""
    recorded = profile["ranges"]["session"].unique().implode()
    return (
        profile["summary"]
        .filter(pl.col("section") == "nvtx", pl.col("range").is_null(), ~pl.col("session").is_in(recorded))
        .group_by("session", "name", maintain_order=True)
        .agg(*merged_call_statistics(), pl.col("line").min())
        .select(
            "session",
            pl.lit(None).cast(profile["ranges"].schema["domain"]).alias("domain"),
            "name",
            *CALL_STATISTICS,
            "line",
        )
    )


@once_per_profile("sessions", "ranges", "activities", "ops", "api_calls")
def range_instances(profile: Profile) -> pl.DataFrame:
    """Return every range with ``number`` (its row), the GPU work of `WORK`, and its iteration.

    Its work is all work launched on its thread between its start and end, including that of nested ranges.
    ``iteration`` is the one that it marks (``iteration_by``: recorded), else the one that contains it in time, on any
    thread (time); null if none or several do.
    """
    rows = with_work(profile["ranges"].with_row_index("number"), profile)
    steps = with_iterations(profile).steps
    assert steps is not None
    end_ns = rows["start_ns"] + rows["duration_ns"]
    around = pl.lit(iteration_between(steps, rows["session"], rows["start_ns"], end_ns))
    recorded, by_time = pl.col("iteration").is_not_null(), around.is_not_null()
    return rows.with_columns(
        pl.coalesce("iteration", around).alias("iteration"),
        pl.when(recorded).then(pl.lit("recorded")).when(by_time).then(pl.lit("time")).alias("iteration_by"),
    )


def concurrent_ranges(profile: Profile) -> pl.DataFrame:
    """Return `ranges_by_name`, most concurrent GPU work of other threads first."""
    return ranges_by_name(profile).sort("meanwhile_gpu_ns", descending=True, nulls_last=True, maintain_order=True)


def ranges_with_name(profile: Profile, *, session: int, domain: str | None, name: str) -> pl.DataFrame:
    """Return the ranges of one name, in time order."""
    rows = range_instances(profile)
    return rows.filter(
        pl.col("session") == session,
        pl.col("domain").cast(pl.String).eq_missing(pl.lit(domain, pl.String)),
        pl.col("name") == name,
    ).sort("start_ns")


RANGE_DEPTHS: Final = TableSpec(
    "range_depths",
    "Ranges by depth",
    columns("depth", "calls", "names", "total_ns", "self_ns", "avg_ns", "max_ns", *WORK, "session"),
    key=("session", "depth"),
    pinned="depth",
    min_pinned_cells=6,
)

NAMES_AT_DEPTH: Final = TableSpec(
    "names_at_depth",
    "Names at this depth",
    tuple(column for column in RANGES.columns if column.name != "line"),
    key=("session", "domain", "name"),
    sort=(("total_ns", True),),
)


@once_per_profile("ranges", "activities", "api_calls")
def ranges_by_depth(profile: Profile) -> pl.DataFrame:
    """Return one row per session and depth (ranges of the same thread around a range): outermost first.

    Columns: session, depth (null: not known), calls (ranges), names (distinct), total_ns, self_ns (total less that of
    the next depth: time without a nested range), avg_ns, max_ns, and the GPU work of
    `tui.analysis.ranges.work_while_open`. Ranges of one depth do not overlap on a thread, so their times add up; over
    several depths they do not, but all self times add up to the total of the outermost depth.
    """
    rows = profile["ranges"]
    deeper = (
        rows.drop_nulls("depth")
        .group_by("session", (pl.col("depth") - 1).alias("depth"))
        .agg(pl.col("duration_ns").sum().alias("inside_ns"))
    )
    return (
        rows.group_by("session", "depth")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.struct("domain", "name").n_unique().cast(pl.Int64).alias("names"),
            total().alias("total_ns"),
            pl.col("duration_ns").mean().round().cast(pl.Int64).alias("avg_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
        )
        .join(deeper, on=["session", "depth"], how="left")
        .join(
            work_while_open(rows, ("session", "depth"), profile), on=["session", "depth"], how="left", nulls_equal=True
        )
        .with_columns(
            # The self time of ranges that are not nested is unknown.
            pl.when(pl.col("depth").is_not_null() & (pl.col("total_ns") >= pl.col("inside_ns").fill_null(0)))
            .then(pl.col("total_ns") - pl.col("inside_ns").fill_null(0))
            .alias("self_ns")
        )
        .select(column.name for column in RANGE_DEPTHS.columns)
        .sort("session", "depth", nulls_last=True)
    )


def is_at_depth(depth: int | None) -> pl.Expr:
    """Return the condition for ranges of a depth."""
    return pl.col("depth").eq_missing(pl.lit(depth, pl.Int32))


def names_at_depth(profile: Profile, *, session: int, depth: int | None) -> pl.DataFrame:
    """Return the ranges of one depth by name, most time first, with the columns of `ranges_by_name` but line."""
    rows = profile["ranges"].filter(pl.col("session") == session, is_at_depth(depth))
    return (
        rows.group_by(NAME_KEYS, maintain_order=True)
        .agg(*call_statistics())
        .join(work_while_open(rows, NAME_KEYS, profile), on=NAME_KEYS, how="left", nulls_equal=True)
        .sort("total_ns", "name", descending=[True, False], nulls_last=True)
    )


def work_in_range(profile: Profile, row: Mapping[str, Any], *, meanwhile: bool = False) -> pl.DataFrame:
    """Return the GPU work that the thread of a range launched between its start and end, whenever it ran.

    Args:
        profile: The profile.
        row: A row of `tui.analysis.ranges.range_instances`.
        meanwhile: Return the launches of the other threads of its process instead.
    """
    if any(row[name] is None for name in ("pid", "tid", "start_ns", "duration_ns")):
        return filtered_activities(profile)
    is_same_thread = pl.col("tid") == row["tid"]
    calls = profile["api_calls"].filter(
        pl.col("session") == row["session"],
        pl.col("pid") == row["pid"],
        ~is_same_thread if meanwhile else is_same_thread,
        pl.col("start_ns").is_between(row["start_ns"], row["start_ns"] + row["duration_ns"]),
    )
    numbers = calls["correlation"].drop_nulls().unique().to_list()
    return launched_activities(profile, session=row["session"], correlations=numbers)


def ranges_around(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """Return the ranges of the same thread around a range, outermost first.

    Args:
        profile: The profile.
        row: A row of `tui.analysis.ranges.range_instances`.
    """
    if any(row[name] is None for name in ("start_ns", "duration_ns", "depth")):
        return profile["ranges"].clear()
    end = pl.col("start_ns") + pl.col("duration_ns")
    return (
        profile["ranges"]
        .filter(
            pl.col("session") == row["session"],
            pl.col("pid").eq_missing(pl.lit(row["pid"], pl.Int64)),
            pl.col("tid").eq_missing(pl.lit(row["tid"], pl.Int64)),
            pl.col("depth") < row["depth"],
            pl.col("start_ns") <= row["start_ns"],
            end >= row["start_ns"] + row["duration_ns"],
        )
        .sort("depth", "start_ns")
    )
