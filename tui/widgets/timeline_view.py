"""The timeline with a cursor that keys and mouse move."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.message import Message

from tui.analysis.timeline.under import main_item
from tui.keys import Scope, actions_of, bindings_for
from tui.widgets.timeline_canvas import TimelineCanvas
from tui.widgets.timeline_lanes import HEAD

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
        """Put the cursor on an item; ``closer`` zooms in until it can be told from its neighbours."""
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
