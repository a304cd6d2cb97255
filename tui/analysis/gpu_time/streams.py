"""Streams of a GPU: how much work each had, when, and how much of it overlapped other streams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import IntervalSet, covered_at_least, union_of
from tui.analysis.gpu_time.sweeps import covered_time
from tui.analysis.gpu_time.timelines import Timeline, timelines
from tui.analysis.gpu_time.work_kinds import WorkKind, work_kinds
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


STREAMS: Final = TableSpec(
    "streams",
    "Streams",
    (
        *columns("stream", "stream_work", "kernels_launched", "gpu_ns", "busy_ns", "busy_pct", "beside_ns"),
        *columns("beside_pct", "idle_ns", "comm_ns", "copies_ns"),
        replace(columns("start_ns")[0], priority=6),
        replace(columns("end_ns")[0], priority=6),
        *columns("device", "session"),
    ),
    key=("session", "device", "stream"),
    weight="gpu_ns",
    pinned="stream",
    pinned_least=6,
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


@once_per_profile("activities", "sessions")
def streams(profile: Profile) -> pl.DataFrame:
    """One row per stream of each GPU of each session, of the work whose start and duration are known.

    Columns: session, device, stream (null: the input does not name it), stream_work (how much of any sort),
    kernels_launched, gpu_ns (summed durations), busy_ns (time in which the stream had work), busy_pct (of the GPU's
    span: first start to last end on it), beside_ns (busy time in which another stream of the GPU had work as well),
    beside_pct (of busy_ns), idle_ns (span - busy_ns), comm_ns and copies_ns (time of communication, of copies),
    start_ns and end_ns (first start, last end), span_ns (of the GPU).

    Overlaps shorter than ``sessions.start_resolution_ns`` may be none and are counted as none: of starts that are
    rounded, only what overlaps by more counts as beside.
    """
    kinds, of_stream = work_kinds(profile), profile["activities"]["stream"]
    rows = [row for line in timelines(profile) for row in _rows(line, line.of(kinds), of_stream)]
    span = pl.col("span_ns")
    return (
        pl.DataFrame(rows, schema=_SCHEMA, orient="row")
        .with_columns(
            pl.when(span > 0).then(100 * pl.col("busy_ns") / span).alias("busy_pct"),
            (span - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(pl.col("busy_ns") > 0).then(100 * pl.col("beside_ns") / pl.col("busy_ns")).alias("beside_pct"),
        )
        .sort("session", "device", "stream", nulls_last=True)
    )


def _rows(line: Timeline, kinds: np.ndarray, of_stream: pl.Series) -> list[tuple[object, ...]]:
    named = line.gathered(of_stream)
    of_each = pl.DataFrame({"stream": named}).with_row_index("at").group_by("stream", maintain_order=True).agg("at")
    parts = [part.to_numpy() for part in of_each["at"]]
    own = [union_of(line.starts[part], line.ends[part]) for part in parts]
    shared = _shared(own, line.resolution_ns)
    span = int(line.ends.max() - line.starts[0])
    rows: list[tuple[object, ...]] = []
    for part, busy in zip(parts, own, strict=True):
        starts, ends, kind = line.starts[part], line.ends[part], kinds[part]
        last = int(ends.max())
        is_copy, talks = kind == WorkKind.COPY, kind == WorkKind.COMMUNICATION
        rows.append(
            (
                line.session,
                line.device,
                named[int(part[0])],
                len(part),
                int((~is_copy & (kind != WorkKind.MEMSET)).sum()),
                int((ends - starts).sum()),
                min(covered_time(starts, ends, line.resolution_ns), last - int(starts[0])),
                (busy & shared).length if len(parts) > 1 else 0,
                covered_time(starts[talks], ends[talks], line.resolution_ns),
                covered_time(starts[is_copy], ends[is_copy], line.resolution_ns),
                int(starts[0]),
                last,
                span,
            )
        )
    return rows


def _shared(own: list[IntervalSet], resolution_ns: int) -> IntervalSet:
    """The time in which two streams or more had work; what only rounding makes overlap does not."""
    starts = np.concatenate([one.starts for one in own])
    ends = np.concatenate([one.ends for one in own])
    return covered_at_least(starts, np.maximum(starts, ends - (resolution_ns - 1)), 2)
