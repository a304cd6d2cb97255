"""GPUs and their streams: properties, utilization, and how much work of each stream overlapped others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.devices import device_facts
from tui.analysis.durations import total, total_where
from tui.analysis.gpu_time.breakdown import records_memory, utilization
from tui.analysis.gpu_time.interval_sets import IntervalSet, covered_by_at_least, interval_union
from tui.analysis.gpu_time.timelines import Timeline, WorkKind, covered_time, timelines, work_kinds
from tui.analysis.memo import once_per_profile
from tui.analysis.sessions import kernel_only_sessions
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


GPUS: Final = TableSpec(
    "gpus",
    "GPUs",
    (
        *columns("gpu_name", "session"),
        # Several GPUs of one name are distinguished by their numbers.
        replace(columns("device")[0], priority=2),
        *columns("gpu_activity"),
        replace(
            columns("busy_pct")[0],
            help="Busy time as a share of the session's wall time, as on the dashboard and in DLProf.",
        ),
        *columns("busy_ns"),
        replace(columns("idle_ns")[0], help="Wall time without work on this GPU."),
        *columns("gpu_ns", "kernel_ns", "copy_ns", "kernels_launched"),
        *columns("compute_capability", "sm_count", "memory_bytes", "memory_bandwidth", "shared_memory_per_sm_bytes"),
        *columns(
            "registers_per_sm", "max_threads_per_sm", "wall_ns", "span_ns", "facts_source", "vendor", "rank", "host"
        ),
    ),
    key=("session", "device"),
    pinned="gpu_name",
    min_pinned_cells=16,
)

RECORDED: Final = "recorded"
NONE_RECORDED: Final = "none recorded"


def gpu_summary(profile: Profile) -> pl.DataFrame:
    """Return one row per GPU of each session that the session names or uses; those with work first.

    A GPU without work that several ranks name has one row.

    Columns: session, rank, host, device, gpu_name, those of `tui.analysis.devices.device_facts`, gpu_activity (whether
    work of it is recorded, or none in a session that has work on other GPUs), kernels_launched, gpu_ns (summed
    durations of its work), kernel_ns (of kernels and whole graphs), copy_ns (of copies and memsets), busy_ns, idle_ns,
    busy_pct, wall_ns and span_ns (`tui.analysis.gpu_time.breakdown.utilization`). All figures are null for a GPU
    without recorded work, which the session may not have been able to use. A sum is also null if none of its durations
    is known, and copy_ns if the tool records only kernels.

    Args:
        profile: The profile.
    """
    keys = ("session", "device")
    is_kernel = (pl.col("kind") == "kernel") | (pl.col("kind") == "graph")
    work = (
        profile["activities"]
        .group_by(keys)
        .agg(
            is_kernel.sum().cast(pl.Int64).alias("kernels_launched"),
            total().alias("gpu_ns"),
            total_where(is_kernel).alias("kernel_ns"),
            total_where(~is_kernel).alias("copy_ns"),
        )
    )
    has_copies = pl.col("session").is_in(list(records_memory(profile) - kernel_only_sessions(profile)))
    has_work = pl.col("session").is_in(profile["activities"]["session"].unique().implode())
    is_used = pl.col("kernels_launched").is_not_null()
    busy = utilization(profile)
    spans = busy.select("session", "span_ns", "wall_ns").unique("session")
    return (
        device_facts(profile)
        .rename({"name": "gpu_name"})
        .join(profile["sessions"].select("session", "rank", "host"), on="session", how="left", maintain_order="left")
        .join(work, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .join(busy.select(*keys, "busy_ns"), on=keys, how="left", nulls_equal=True, maintain_order="left")
        .join(spans, on="session", how="left", maintain_order="left")
        .with_columns(
            pl.when(is_used).then(pl.lit(RECORDED)).when(has_work).then(pl.lit(NONE_RECORDED)).alias("gpu_activity"),
            *(pl.when(is_used).then(name).alias(name) for name in ("span_ns", "wall_ns")),
            pl.when(has_copies | (pl.col("copy_ns") > 0)).then("copy_ns").alias("copy_ns"),
        )
        .with_columns(
            (pl.col("wall_ns") - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(pl.col("wall_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("wall_ns")).alias("busy_pct"),
        )
        .sort(pl.col("gpu_activity") == NONE_RECORDED, maintain_order=True, nulls_last=False)
        .filter(~_is_named_again())
        .select(column.name for column in GPUS.columns)
    )


def _is_named_again() -> pl.Expr:
    """Return the condition for a GPU without work that an earlier row names too, for another rank."""
    first = pl.struct("host", "device", "gpu_name").is_first_distinct()
    return ~first & pl.col("rank").is_not_null() & (pl.col("gpu_activity") == NONE_RECORDED).fill_null(value=False)


def imbalance_pct(values: pl.Series) -> float | None:
    """Return 100 x (max - min) / mean of values; None for fewer than two, or if the mean is 0.

    >>> imbalance_pct(pl.Series([90, 110])), imbalance_pct(pl.Series([1])), imbalance_pct(pl.Series([0, 0]))
    (20.0, None, None)
    """
    known_values: list[float] = values.drop_nulls().cast(pl.Float64).to_list()
    if len(known_values) < 2 or not sum(known_values):
        return None
    return 100 * (max(known_values) - min(known_values)) * len(known_values) / sum(known_values)


STREAMS: Final = TableSpec(
    "streams",
    "Streams",
    (
        *columns("stream", "stream_work", "kernels_launched", "gpu_ns", "busy_ns"),
        replace(columns("busy_pct")[0], help="Busy time as a share of the wall time."),
        *columns("beside_ns"),
        *columns("beside_pct", "idle_ns", "comm_ns", "copies_ns"),
        replace(columns("start_ns")[0], priority=6),
        replace(columns("end_ns")[0], priority=6),
        *columns("device", "session"),
    ),
    key=("session", "device", "stream"),
    weight="gpu_ns",
    pinned="stream",
    min_pinned_cells=6,
)

_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "stream": pl.Int64,
        "stream_work": pl.Int64,
        "kernels_launched": pl.Int64,
        "gpu_ns": pl.Int64,
        "busy_ns": pl.Int64,
        "beside_ns": pl.Int64,
        "comm_ns": pl.Int64,
        "copies_ns": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "span_ns": pl.Int64,
    }
)


@once_per_profile("activities", "api_calls", "ops", "ranges", "sessions")
def streams(profile: Profile) -> pl.DataFrame:
    """Return one row per stream of each GPU of each session, of the work whose start and duration are known.

    Columns: session, device, stream (null: not recorded), stream_work (the number of activities), kernels_launched,
    gpu_ns (summed durations), busy_ns (time in which the stream had work), busy_pct (of the session's wall time,
    ``wall_ns``), beside_ns (busy time in which another stream of the GPU had work as well; null for work of unknown
    streams), beside_pct (of busy_ns), idle_ns (wall_ns - busy_ns), comm_ns and copies_ns (time of communication, of
    copies), start_ns and end_ns (first start, last end), span_ns (of the GPU).

    Overlaps shorter than ``sessions.start_resolution_ns`` may be due to rounding and count as none.
    """
    kinds, stream_numbers = work_kinds(profile), profile["activities"]["stream"]
    rows = [
        row for timeline in timelines(profile) for row in _stream_rows(timeline, timeline.take(kinds), stream_numbers)
    ]
    walls = utilization(profile).select("session", "wall_ns").unique("session")
    wall = pl.col("wall_ns")
    return (
        pl.DataFrame(rows, schema=_SCHEMA, orient="row")
        .join(walls, on="session", how="left", maintain_order="left")
        .with_columns(
            pl.when(wall > 0).then(100 * pl.col("busy_ns") / wall).alias("busy_pct"),
            (wall - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(pl.col("busy_ns") > 0).then(100 * pl.col("beside_ns") / pl.col("busy_ns")).alias("beside_pct"),
        )
        .sort("session", "device", "stream", nulls_last=True)
    )


def _stream_rows(timeline: Timeline, kinds: np.ndarray, stream_numbers: pl.Series) -> list[tuple[object, ...]]:
    named = timeline.gather_from(stream_numbers)
    rows_by_stream = (
        pl.DataFrame({"stream": named}).with_row_index("at").group_by("stream", maintain_order=True).agg("at")
    )
    row_sets = [row_set.to_numpy() for row_set in rows_by_stream["at"]]
    busy_sets = [interval_union(timeline.starts[row_set], timeline.ends[row_set]) for row_set in row_sets]
    shared = _shared_stream_time(busy_sets, timeline.resolution_ns)
    span = int(timeline.ends.max() - timeline.starts[0])
    rows: list[tuple[object, ...]] = []
    for row_set, busy in zip(row_sets, busy_sets, strict=True):
        starts, ends, kind = timeline.starts[row_set], timeline.ends[row_set], kinds[row_set]
        last, stream = int(ends.max()), named[int(row_set[0])]
        is_copy, communicates = kind == WorkKind.COPY, kind == WorkKind.COMMUNICATION
        rows.append(
            (
                timeline.session,
                timeline.device,
                stream,
                len(row_set),
                int((~is_copy & (kind != WorkKind.MEMSET)).sum()),
                int((ends - starts).sum()),
                min(covered_time(starts, ends, timeline.resolution_ns), last - int(starts[0])),
                None if stream is None else (busy & shared).length_ns if len(row_sets) > 1 else 0,
                covered_time(starts[communicates], ends[communicates], timeline.resolution_ns),
                covered_time(starts[is_copy], ends[is_copy], timeline.resolution_ns),
                int(starts[0]),
                last,
                span,
            )
        )
    return rows


def _shared_stream_time(busy_sets: list[IntervalSet], resolution_ns: int) -> IntervalSet:
    """Return the time in which at least two streams had work, without overlaps that rounding may cause."""
    starts = np.concatenate([busy.starts for busy in busy_sets])
    ends = np.concatenate([busy.ends for busy in busy_sets])
    return covered_by_at_least(starts, np.maximum(starts, ends - (resolution_ns - 1)), 2)
