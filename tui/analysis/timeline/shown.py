"""Which lanes stand together over the same time: those of one session, or of all where their clocks compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.timeline.lanes import Lane, LaneKind, lanes
from tui.fitting import cell_width, clip, ellipsis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Shown:
    """Lanes over the same time."""

    lanes: tuple[Lane, ...]
    shifts: Mapping[int, int]
    """For each session that is shown how much later its clock's zero is than the zero of the ruler."""
    sessions: tuple[int, ...]
    """All sessions that have lanes."""
    note: str
    """Why not all of them are shown, or how they were put together; empty where there is one."""

    @property
    def begin_ns(self) -> int:
        """The first start, by the ruler."""
        return min((int(lane.starts[0]) + self.shifts[lane.session] for lane in self.lanes), default=0)

    @property
    def end_ns(self) -> int:
        """The last end, by the ruler."""
        return max((int(lane.reached[-1]) + self.shifts[lane.session] for lane in self.lanes), default=0)

    @property
    def until_ns(self) -> int:
        """Where a window over all of it ends: what takes no time has a nanosecond there to stand in."""
        ends = (max(int(lane.reached[-1]), int(lane.starts[-1]) + 1) + self.shifts[lane.session] for lane in self.lanes)
        return max(ends, default=0)

    @property
    def resolution_ns(self) -> int:
        """The coarsest step of the start times: nothing finer is shown."""
        return max((lane.resolution_ns for lane in self.lanes), default=1)


def shown_lanes(profile: Profile, session: int | None = None) -> Shown:
    """The lanes to show.

    Sessions have clocks of their own. They are shown together where the input tells the Unix time of the zero of each
    (``origin_ns``) and they ran at the same time; otherwise one is.

    Args:
        profile: What was read.
        session: The one to show where they do not go together; None: the first.
    """
    found = lanes(profile)
    sessions = tuple(sorted({lane.session for lane in found}))
    if len(sessions) < 2:
        return Shown(found, dict.fromkeys(sessions, 0), sessions, "")
    told = profile["sessions"].filter(pl.col("session").is_in(sessions)).select("session", "origin_ns")
    origins = {number: origin for number, origin in told.iter_rows() if origin is not None}
    why = "the input does not tell how their clocks compare"
    if len(origins) == len(sessions):
        zero = min(origins.values())
        shifts = {number: origin - zero for number, origin in origins.items()}
        if _overlap(found, shifts):
            return Shown(found, shifts, sessions, f"{len(sessions)} sessions by the clocks of their machines")
        why = "they did not run at the same time"
    chosen = session if session in sessions else sessions[0]
    own = tuple(lane for lane in found if lane.session == chosen)
    return Shown(own, {chosen: 0}, sessions, f"session {chosen} of {len(sessions)}: {why}")


def _overlap(found: Sequence[Lane], shifts: Mapping[int, int]) -> bool:
    """Whether all sessions were on at one time."""
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for lane in found:
        first, last = int(lane.starts[0]) + shifts[lane.session], int(lane.reached[-1]) + shifts[lane.session]
        begins[lane.session] = min(begins.get(lane.session, first), first)
        ends[lane.session] = max(ends.get(lane.session, last), last)
    return max(begins.values()) < min(ends.values())


def fitting_lanes(found: Sequence[Lane], room: int) -> list[int]:
    """The lanes to draw in so many lines: where there are too many, the deepest ranges and ops are left out.

    GPU lanes, API calls and the outermost ranges and ops of every thread are always among them.
    """
    depth = max((lane.depth for lane in found), default=0)
    chosen = list(range(len(found)))
    while len(chosen) > room and depth > 0:
        depth -= 1
        chosen = [place for place in chosen if found[place].depth <= depth]
    return chosen


def title(lane: Lane) -> str:
    """What a lane is called where nothing around it says whose it is."""
    if lane.on_gpu:
        gpu = f"GPU {_number(lane.device)}"
        if lane.kind is LaneKind.GPU:
            return gpu
        return f"{gpu} {'no stream' if lane.stream is None else f'stream {lane.stream}'}"
    thread = "" if lane.tid is None else f"thread {lane.tid} "
    level = f" {lane.depth + 1}" if lane.depth else ""
    return f"{thread}{'API calls' if lane.kind is LaneKind.CALLS else lane.kind.value}{level}"


def label(lane: Lane, above: Lane | None) -> str:
    """What stands before a lane, below the lane that is drawn above it: what that says already is left out."""
    prefix = ""
    if above is None or above.session != lane.session:
        same = False
    elif lane.on_gpu:
        same = above.on_gpu and above.device == lane.device
    else:
        same = above.thread == lane.thread
    whole = title(lane)
    if same:
        own = whole.removeprefix(f"GPU {_number(lane.device)} ").removeprefix(f"thread {lane.tid} ")
        return f"{prefix}  {own}"
    return whole


def within(words: str, tid: int | None, cells: int, *, ascii_only: bool = False) -> str:
    """The words of a lane in so many cells: what it holds stays whole, of a long thread number the end.

    >>> within("thread 410982080032 API calls", 410982080032, 17), within("thread 601 ranges", 601, 12)
    ('…080032 API calls', '601 ranges')
    """
    before, thread, holds = words.partition(f"thread {tid} ")
    room = cells - len(before) - len(holds) - 1
    if cell_width(words) > cells and thread and room > 1:
        number = str(tid) if len(str(tid)) <= room else f"{ellipsis(ascii_only=ascii_only)}{str(tid)[1 - room :]}"
        words = f"{before}{number} {holds}"
    return clip(words, cells, ascii_only=ascii_only)


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
