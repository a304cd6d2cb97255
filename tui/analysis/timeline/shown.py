"""Lanes shown together: of one session, or of all with comparable clocks; iteration marks; the lane table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.timeline.lanes import Lane, LaneKind, lanes
from tui.model.columns import Column, ColumnKind, columns
from tui.model.table_spec import TableSpec
from tui.text_width import ELLIPSIS, cell_width, clip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class ShownLanes:
    """Lanes over the same time."""

    lanes: tuple[Lane, ...]
    shifts: Mapping[int, int]
    """For each shown session, the offset of its clock's zero from the zero of the ruler."""
    sessions: tuple[int, ...]
    """All sessions that have lanes."""
    note: str
    """Why not all sessions are shown, or how they were combined; empty if there is one."""

    @property
    def begin_ns(self) -> int:
        """The first start, by the ruler."""
        return min((int(lane.starts[0]) + self.shifts[lane.session] for lane in self.lanes), default=0)

    @property
    def end_ns(self) -> int:
        """The last end, by the ruler."""
        return max((int(lane.latest_ends[-1]) + self.shifts[lane.session] for lane in self.lanes), default=0)

    @property
    def window_end_ns(self) -> int:
        """The end of a window over everything; an item without duration gets a nanosecond."""
        ends = (
            max(int(lane.latest_ends[-1]), int(lane.starts[-1]) + 1) + self.shifts[lane.session] for lane in self.lanes
        )
        return max(ends, default=0)

    @property
    def resolution_ns(self) -> int:
        """The coarsest resolution of the start times, which limits the zoom."""
        return max((lane.resolution_ns for lane in self.lanes), default=1)


def shown_lanes(profile: Profile, session: int | None = None) -> ShownLanes:
    """Return the lanes to show.

    Sessions have their own clocks. They are shown together if the Unix time of each clock's zero (``origin_ns``) is
    recorded and they ran at the same time; otherwise only one is shown.

    Args:
        profile: The profile.
        session: The session to show if they cannot be shown together; None: the first.
    """
    all_lanes = lanes(profile)
    sessions = tuple(sorted({lane.session for lane in all_lanes}))
    if len(sessions) < 2:
        return ShownLanes(all_lanes, dict.fromkeys(sessions, 0), sessions, "")
    clock_origins = profile["sessions"].filter(pl.col("session").is_in(sessions)).select("session", "origin_ns")
    origins = {number: origin for number, origin in clock_origins.iter_rows() if origin is not None}
    reason = "their clocks are not comparable"
    if len(origins) == len(sessions):
        zero = min(origins.values())
        shifts = {number: origin - zero for number, origin in origins.items()}
        if _overlap(all_lanes, shifts):
            return ShownLanes(
                all_lanes, shifts, sessions, f"{len(sessions)} sessions, aligned by the clocks of their machines"
            )
        reason = "they did not run at the same time"
    chosen = session if session in sessions else sessions[0]
    session_lanes = tuple(lane for lane in all_lanes if lane.session == chosen)
    return ShownLanes(session_lanes, {chosen: 0}, sessions, f"session {chosen} of {len(sessions)}: {reason}")


def _overlap(all_lanes: Sequence[Lane], shifts: Mapping[int, int]) -> bool:
    """Return whether all sessions were active at the same time."""
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for lane in all_lanes:
        first, last = int(lane.starts[0]) + shifts[lane.session], int(lane.latest_ends[-1]) + shifts[lane.session]
        begins[lane.session] = min(begins.get(lane.session, first), first)
        ends[lane.session] = max(ends.get(lane.session, last), last)
    return max(begins.values()) < min(ends.values())


EXTRA_GPU_LANE_LINES: Final = 3
"""Lines that a GPU lane is to have besides its one."""


def fitting_lanes(all_lanes: Sequence[Lane], room: int) -> list[int]:
    """Return the lanes to draw in ``room`` lines: the deepest ranges and ops are dropped first.

    GPU lanes, API calls and the outermost ranges and ops of every thread are always among them. If there are few GPU
    lanes, they get up to a quarter of the lines in addition, to be taller than the others.
    """
    depth = max((lane.depth for lane in all_lanes), default=0)
    chosen = list(range(len(all_lanes)))
    gpu_count = sum(lane.on_gpu for lane in all_lanes) or 1
    room -= min(EXTRA_GPU_LANE_LINES, room // 4 // gpu_count) * gpu_count
    while len(chosen) > room and depth > 0:
        depth -= 1
        chosen = [index for index in chosen if all_lanes[index].depth <= depth]
    return chosen


def lane_title(lane: Lane) -> str:
    """Return the full name of a lane, outside of its group."""
    if lane.on_gpu:
        gpu = f"GPU {_number(lane.device)}"
        if lane.kind is LaneKind.GPU:
            return gpu
        return f"{gpu} {'no stream' if lane.stream is None else f'stream {lane.stream}'}"
    thread = "" if lane.tid is None else f"thread {lane.tid} "
    level = f" {lane.depth + 1}" if lane.depth else ""
    return f"{thread}{'API calls' if lane.kind is LaneKind.CALLS else lane.kind.value}{level}"


def lane_label(lane: Lane, above: Lane | None) -> str:
    """Return the label of a lane, without the part that it shares with the lane above."""
    prefix = ""
    if above is None or above.session != lane.session:
        same = False
    elif lane.on_gpu:
        same = above.on_gpu and above.device == lane.device
    else:
        same = above.thread == lane.thread
    title = lane_title(lane)
    if same:
        remaining = title.removeprefix(f"GPU {_number(lane.device)} ").removeprefix(f"thread {lane.tid} ")
        return f"{prefix}  {remaining}"
    return title


def fit_label(label: str, tid: int | None, cells: int) -> str:
    """Shorten the label of a lane to a number of cells; the end of a long thread number stays, and so does a stream.

    >>> fit_label("thread 410982080032 API calls", 410982080032, 17), fit_label("thread 601 ranges", 601, 12)
    ('…080032 API calls', '601 ranges')
    >>> fit_label("0: GPU 0 stream 17", None, 17), fit_label("0: GPU 0 stream 7", None, 17)
    ('0: …stream 17', '0: GPU 0 stream 7')
    """
    prefix, thread, holds = label.partition(f"thread {tid} ")
    room = cells - len(prefix) - len(holds) - 1
    if cell_width(label) > cells and thread and room > 1:
        number = str(tid) if len(str(tid)) <= room else f"{ELLIPSIS}{str(tid)[1 - room :]}"
        label = f"{prefix}{number} {holds}"
    gpu, stream, number = label.rpartition("stream ")
    if cell_width(label) > cells and gpu.strip():
        session = "".join(gpu.partition(": ")[:2]) if ": " in gpu else ""
        label = f"{session}{ELLIPSIS}{stream}{number}"
    return clip(label, cells)


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def iteration_marks(profile: Profile, session: int, shift_ns: int = 0) -> tuple[tuple[int, str], ...]:
    """Return the start and number of each iteration of a session by time; an empty text marks an end.

    Args:
        profile: A profile with iterations (`iterations.iteration_table.with_iterations`); others have no marks.
        session: The session.
        shift_ns: Added to the session's times.
    """
    if profile.steps is None:
        return ()
    steps = (
        profile.steps.filter(pl.col("session") == session, pl.col("source") != WHOLE_RUN)
        .drop_nulls(["iteration", "start_ns"])
        .sort("start_ns")
        .select("start_ns", "iteration", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
    )
    # An iteration with unknown end may not be over.
    latest = steps.with_columns(latest=pl.col("end_ns").cum_max(), after=pl.col("start_ns").shift(-1))
    is_over = pl.col("after").is_null() | (pl.col("latest") < pl.col("after"))
    ended = latest.filter(pl.col("end_ns").is_not_null() & is_over)["latest"]
    starts = ((start, str(number)) for start, number, _ in steps.iter_rows())
    marks = sorted((*starts, *((end, "") for end in ended)), key=itemgetter(0))
    return tuple((time_ns + shift_ns, text) for time_ns, text in marks)


TIMELINE_LANES: Final = TableSpec(
    "timeline_lanes",
    "Lanes",
    (
        Column("lane", "Lane", ColumnKind.TEXT, "A GPU, a stream, or a thread's calls, ops or ranges.", 1),
        *columns("session"),
        Column("count", "Items", ColumnKind.COUNT, "Launches, calls, ops or ranges with a start and a duration.", 2),
        replace(columns("busy_ns")[0], help="Time with any of them active.", priority=2),
        replace(
            columns("busy_pct")[0],
            help="Busy time as a share of the whole timeline.",
            priority=2,
        ),
        Column("first_ns", "First", ColumnKind.TIME, "Start of the first one.", 4),
        Column("last_ns", "Last", ColumnKind.TIME, "End of the last one.", 5),
        replace(columns("span_ns")[0], help="From the first start to the last end in the lane.", priority=4),
        *columns("device", "stream", "pid", "tid", "depth"),
    ),
    key=("session", "kind", "device", "stream", "pid", "tid", "depth"),
    pinned="lane",
)

_LANE_SCHEMA: Final = pl.Schema(
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
    """Return one row per lane, in the order of the timeline.

    Columns: session, lane (its title), kind (`lanes.LaneKind`), device, stream, pid, tid, depth (of ranges and ops: how
    many of their thread lie around them), count, busy_ns (time in which any of them was active; of a whole GPU the same
    as in `tui.analysis.gpu_time.idle_gaps.busy_time`, of a stream as in `tui.analysis.gpus.streams`),
    busy_pct (its share of the time from the first start to the last end in any lane that is shown with it, see
    `shown_lanes`), first_ns, last_ns, span_ns (last - first).
    """
    together = shown_lanes(profile)
    rows = []
    for lane in lanes(profile):
        first, last = int(lane.starts[0]), int(lane.latest_ends[-1])
        # With rounded starts, possible overlaps can add up to more than the total.
        busy = min(lane.segments.length_ns, last - first)
        shown = together if lane.session in together.shifts else shown_lanes(profile, lane.session)
        span = shown.end_ns - shown.begin_ns
        rows.append(
            (
                lane.session,
                lane_title(lane),
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
    return pl.DataFrame(rows, schema=_LANE_SCHEMA, orient="row")
