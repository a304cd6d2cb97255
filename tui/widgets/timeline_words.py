"""What is said below the timeline: what is under the cursor, and what is on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.analysis.timeline.drawing import whole_percent
from tui.analysis.timeline.ruler import exactly, to_cells
from tui.analysis.timeline.shown import title
from tui.analysis.timeline.under import between, gap_at, items_at, name_of
from tui.fitting import cell_width, clip, shorten_symbol
from tui.fmt import count, duration, step

if TYPE_CHECKING:
    from tui.widgets.timeline_view import TimelineView

SEPARATOR = " · "
NAME_LEAST = 16
"""Cells that a name keeps beside what is said of it."""


def under_cursor(view: TimelineView, width: int) -> str:
    """The thing under the cursor with its start and duration, or the gap."""
    shown, window, profile = view.shown, view.window, view.profile
    if shown is None or window is None or profile is None or not shown.lanes:
        return ""
    lane, item, (first, last) = shown.lanes[view.lane], view.item, view.cell
    if item is None:
        gap = gap_at(lane, first) or gap_at(lane, (first + last) // 2)
        if gap is None:
            return clip(f"nothing here in {title(lane)}", width)
        begins = exactly(gap.start_ns + view.shift(view.lane))
        return clip(f"gap of {duration(gap.length_ns)} from {begins} in {title(lane)}", width)
    start = int(lane.starts[item])
    facts = [f"at {exactly(start + view.shift(view.lane))}", duration(int(lane.ends[item]) - start)]
    items = items_at(lane, first, last)
    among = here = ""
    if len(items) > 1:
        place = f"{count(int((items < item).sum()) + 1)} of {count(len(items))}"
        longest = "" if view.is_on_item else ", the longest"
        among, here = f"{place} in this cell{longest}", f"{place} here{longest}"
    # Where there is no room the lane goes first: a > stands before it.
    wordings = ((among, title(lane)), (among,), (here,))
    ends = [SEPARATOR.join(["", *filter(None, (*facts, *more))]) for more in wordings]
    name = name_of(profile, lane, item)

    def short(room: int) -> str:
        return shorten_symbol(name, room) if lane.on_gpu else clip(name, room)

    least = cell_width(short(NAME_LEAST))
    end = next((end for end in ends if least + cell_width(end) <= width), ends[-1])
    return clip(short(max(NAME_LEAST, width - cell_width(end))) + end, width)


def on_screen(view: TimelineView, needle: str, found_at: int | None, width: int) -> str:
    """The time on the screen, that of a cell, what was measured and found, and what is not shown.

    What matters least goes first where there is no room for all of it.
    """
    shown, window = view.shown, view.window
    if shown is None or window is None or not shown.lanes:
        return ""
    parts: list[tuple[int, str]] = []
    if needle and view.hits is not None:
        place = "" if found_at is None else f"{count(found_at + 1)}/"
        parts.append((1, f"find {clip(needle, NAME_LEAST)} {place}{count(len(view.hits.starts))}"))
    if view.mark_ns is not None:
        low, high = sorted((view.mark_ns, view.cursor_ns))
        lane, shift = shown.lanes[view.lane], view.shift(view.lane)
        part = between(lane, low - shift, high - shift)
        busy = f", busy {whole_percent(part.busy_ns, high - low)}, {count(part.begun)} begin" if high > low else ""
        parts.append((1, f"M to here {duration(high - low)}{busy}"))
    cell = window.cell_ns
    first, last = max(window.first_ns, window.begin_ns), min(window.last_ns, window.end_ns)
    parts += [(2, f"{to_cells(first, cell)} to {to_cells(last, cell)}"), (1, f"{duration(cell)} a cell")]
    if shown.resolution_ns > 1:
        parts.append((3, f"starts known to {step(shown.resolution_ns)}"))
    if shown.note:
        parts.append((4, shown.note))
    if view.hidden_lanes:
        parts.append((5, f"{view.hidden_lanes} deeper lane{'s' if view.hidden_lanes > 1 else ''}: x"))
    while len(parts) > 1 and cell_width(SEPARATOR.join(text for _, text in parts)) > width:
        parts.remove(max(parts, key=lambda part: part[0]))
    return SEPARATOR.join(text for _, text in parts)
