"""The timeline with a cursor that keys and mouse move."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.message import Message

from tui.analysis.timeline.drawing import whole_percent
from tui.analysis.timeline.lookup import between, gap_at, items_at, main_item, name_of
from tui.analysis.timeline.shown import title
from tui.analysis.timeline.window import exactly, to_cells
from tui.fitting import cell_width, clip, shorten_symbol
from tui.fmt import count, duration, step
from tui.keys import Scope, actions_of, bindings_for
from tui.widgets.timeline.canvas import TimelineCanvas
from tui.widgets.timeline.lanes import HEAD

if TYPE_CHECKING:
    from textual import events

    from tui.analysis.timeline.window import Window


MOVE_IDS: Final = frozenset(action.id for action in actions_of(Scope.TIMELINE) if action.group == "Movement")
JUMP_SHARE: Final = 0.3
"""A jump to something brings so close that it takes about this share of the screen, where that is not too close."""


class TimelineView(TimelineCanvas):
    """Lanes over time with a cursor: a cell of a lane, or one of the items in it."""

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TIMELINE) if getattr(binding, "id", "") in MOVE_IDS]

    class Moved(Message):
        """The cursor is somewhere else, or another part of the time is on the screen."""

    class Resized(Message):
        """The cells may be of other times, and there may be more or fewer of them."""

    class Opened(Message):
        """The item under the cursor was clicked twice."""

    _item: int | None = None
    """The item that the cursor was put on; None: it was put on a cell."""
    _main: tuple[tuple[int, int, int], int | None] = ((-1, -1, -1), None)
    """For a lane, a moment and a length the item that takes most of it."""

    @property
    def item(self) -> int | None:
        """The item under the cursor: the one that it was put on, else what takes most of the cell."""
        if self.shown is None or self.window is None or not self.shown.lanes:
            return None
        if self._item is not None:
            return self._item
        first, last = self.cell
        key = (self.lane, first, last)
        if self._main[0] != key:
            self._main = key, main_item(self.shown.lanes[self.lane], first, last)
        return self._main[1]

    @property
    def is_on_item(self) -> bool:
        """Whether the cursor was put on an item, rather than on a cell."""
        return self._item is not None

    # --- moving ------------------------------------------------------------------------------------------------------

    def look_at(self, window: Window) -> None:
        """Show another part of the time."""
        if window != self.window:
            self.window = window
            self.redraw_looks()

    def put_cursor(self, at_ns: int, *, lane: int | None = None, item: int | None = None) -> None:
        """Put the cursor on a moment by the ruler, in a lane, on an item of it."""
        if self.window is None or self.shown is None:
            return
        before = self.lane
        self.cursor_ns = min(max(at_ns, self.window.begin_ns), self.window.end_ns - 1)
        self._item = item
        self.lane = self.lane if lane is None else lane
        if self.lane not in self.reachable():
            self.all_depths = True
            self._reachable = None
        self.look_at(self.window.showing(self.cursor_ns))
        self.keep_lane_in_view()
        self.refresh_lane(before)
        self.refresh_lane(self.lane)
        self.post_message(self.Moved())

    def put_on_item(self, lane: int, item: int, *, closer: bool = False) -> None:
        """Put the cursor on an item; ``closer`` zooms in until it can be told from its neighbors."""
        assert self.shown is not None, "there are items"
        assert self.window is not None
        found, shift = self.shown.lanes[lane], self.shift(lane)
        start, end = int(found.starts[item]) + shift, int(found.ends[item]) + shift
        if closer:
            near = self.window.around(start, max(end, start + 1), JUMP_SHARE)
            if near.cell_ns < self.window.cell_ns or not self.window.first_ns <= start < self.window.last_ns:
                self.look_at(near)
        self.put_cursor(start, lane=lane, item=item)

    def zoom_to(self, start_ns: int, end_ns: int, share: float = 1.0) -> None:
        """Show a stretch of time by the ruler, as large as fits."""
        if self.window is not None:
            self.look_at(self.window.around(start_ns, max(end_ns, start_ns + 1), share))
            self.put_cursor(start_ns)

    def _by_cells(self, cells: int) -> None:
        if self.window is not None:
            cell = self.window.cell_of(self.cursor_ns) + cells
            self.put_cursor(self.window.first_ns + cell * self.window.cell_ns)

    def action_cell(self, cells: int) -> None:
        """Some cells to the right, or left where negative."""
        self._by_cells(cells)

    def action_page(self, pages: float) -> None:
        """Some widths of the screen later, or earlier where negative."""
        if self.window is None:
            return
        cells = round(pages * self.window.cells)
        at = self.cursor_ns + cells * self.window.cell_ns
        self.look_at(self.window.moved_to(self.window.first_ns + cells * self.window.cell_ns))
        self.put_cursor(at)

    def action_edge(self, end: bool) -> None:
        """To the first or the last thing of the lane."""
        if self.shown is not None and self.shown.lanes:
            lane = self.shown.lanes[self.lane]
            self.put_on_item(self.lane, len(lane.starts) - 1 if end else 0)

    def action_lane(self, step: int) -> None:
        """To the lane below, or above where negative; the time stays."""
        visible = self.reachable()
        if self.lane in visible:
            place = min(max(visible.index(self.lane) + step, 0), len(visible) - 1)
            self.put_cursor(self.cursor_ns, lane=visible[place])

    def zoom(self, step: int) -> None:
        """One step closer, or away where negative; what the cursor is on stays where it is on the screen."""
        if self.window is not None:
            zoomed = self.window.zoomed_in if step > 0 else self.window.zoomed_out
            self.look_at(zoomed(self.cursor_ns))
            self.post_message(self.Moved())

    def fit(self) -> None:
        """All of the time."""
        if self.window is not None:
            self.look_at(self.window.fitted())
            self.post_message(self.Moved())

    def on_resize(self) -> None:
        """What is said below the lanes has other room."""
        self.post_message(self.Resized())

    # --- mouse -------------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse points; a second click opens what is there."""
        visible, place = self.reachable(), event.y - HEAD + self._top
        if self.window is None or not 0 <= place < len(visible) or event.y < HEAD:
            return
        cell = event.x - self.label_cells
        if cell >= 0:
            self.put_cursor(self.window.first_ns + cell * self.window.cell_ns, lane=visible[place])
        if event.chain == 2:
            self.post_message(self.Opened())

    def on_mouse_scroll_down(self) -> None:
        """Away."""
        self.zoom(-1)

    def on_mouse_scroll_up(self) -> None:
        """Closer."""
        self.zoom(1)


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
