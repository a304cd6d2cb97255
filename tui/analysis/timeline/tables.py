"""The lanes of the timeline as a table: how much is in each, and how busy it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.timeline.lanes import lanes
from tui.analysis.timeline.shown import shown_lanes, title
from tui.model.columns import Column, ColumnKind, columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

TIMELINE_LANES: Final = TableSpec(
    "timeline_lanes",
    "Lanes",
    (
        Column("lane", "Lane", ColumnKind.TEXT, "A GPU, one of its streams, or what a thread did.", 1),
        *columns("session"),
        Column("count", "Things", ColumnKind.COUNT, "Launches, calls, ops or ranges with a start and a duration.", 2),
        replace(columns("busy_ns")[0], help="Time in which any of them was on.", priority=2),
        replace(
            columns("busy_pct")[0],
            help="Busy time as a share of all of the time in the timeline, GPUs and threads.",
            priority=2,
        ),
        Column("first_ns", "First", ColumnKind.TIME, "When the first one began.", 4),
        Column("last_ns", "Last", ColumnKind.TIME, "When the last one ended.", 5),
        replace(columns("span_ns")[0], help="From the first begin to the last end in the lane.", priority=4),
        *columns("device", "stream", "pid", "tid", "depth"),
    ),
    key=("session", "kind", "device", "stream", "pid", "tid", "depth"),
    pinned="lane",
)

_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "lane": pl.String,
        "kind": pl.String,
        "device": pl.Int32,
        "stream": pl.Int64,
        "pid": pl.Int64,
        "tid": pl.Int64,
        "depth": pl.Int32,
        "count": pl.Int64,
        "busy_ns": pl.Int64,
        "busy_pct": pl.Float64,
        "first_ns": pl.Int64,
        "last_ns": pl.Int64,
        "span_ns": pl.Int64,
    }
)


def timeline_lanes(profile: Profile) -> pl.DataFrame:
    """One row per lane, in the order of the timeline.

    Columns: session, lane (its title), kind (`lanes.LaneKind`), device, stream, pid, tid, depth (of ranges and ops: how
    many of their thread lie around them), count, busy_ns (time in which any of them was on; of a whole GPU the same as
    in `tui.analysis.gpu_time.intervals.busy_time`, of a stream as in
    `tui.analysis.gpu_time.streams.streams`), busy_pct (its share of the time from the first begin to the last end in
    any lane that is shown with it, see `shown_lanes`), first_ns, last_ns, span_ns (last - first).
    """
    together = shown_lanes(profile)
    rows = []
    for lane in lanes(profile):
        first, last = int(lane.starts[0]), int(lane.reached[-1])
        # Where starts are rounded, what cannot be told to overlap can add up to more than there is.
        busy = min(lane.segments.length, last - first)
        shown = together if lane.session in together.shifts else shown_lanes(profile, lane.session)
        span = shown.end_ns - shown.begin_ns
        rows.append(
            (
                lane.session,
                title(lane),
                lane.kind.value,
                lane.device,
                lane.stream,
                lane.pid,
                lane.tid,
                lane.depth,
                len(lane.starts),
                busy,
                100 * busy / span if span else None,
                first,
                last,
                last - first,
            )
        )
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
