"""Lanes over time: which of them and what part of the time is on the screen, and where in it the cursor is."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from textual.geometry import Region
from textual.widget import Widget

from tui.analysis.timeline.drawing import LaneCells, lane_cells
from tui.analysis.timeline.lookup import gap_at, items_at, name_of, next_gap
from tui.analysis.timeline.shown import Shown, fitting_lanes, label
from tui.analysis.timeline.window import Window, whole_window
from tui.fitting import cell_width
from tui.text import plain
from tui.widgets.direct_render import direct_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from textual.strip import Strip

    from tui.analysis.timeline.lookup import Hits
    from tui.model.profile import Profile


HEAD: Final = 2
"""Lines above the lanes: the ruler and the iterations."""
LABEL_MOST: Final = 0.3
"""Share of the width that the labels take at most."""
SHARE_CELLS: Final = 5
"""Cells of ``<1%`` and ``100%``, with a blank."""
LEGEND_FROM: Final = 12
"""With so many lines the last one tells what the glyphs mean."""

AHEAD_LANES: Final = 4
"""So many lanes are worked out ahead at a time: a key that comes meanwhile hardly waits."""
WINDOWS_KEPT: Final = 20
"""Parts of the time whose lanes are worked out, or were."""

Marks = tuple[tuple[int, str], ...]
"""Moments by the ruler, and what stands there."""


class TimelineLanes(Widget, can_focus=True):
    """What is looked at; how it is drawn is in `tui.widgets.timeline.canvas`."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.profile: Profile | None = None
        self.shown: Shown | None = None
        self.window: Window | None = None
        self.iterations: Mapping[int, Marks] = {}
        """For each session where its iterations begin, with their numbers, and where none is on any more."""
        self.message = ""
        """What stands in place of the lanes."""
        self.lane = 0
        """The lane of the cursor, as its place in `shown`."""
        self.cursor_ns = 0
        """Where the cursor is, by the ruler."""
        self.mark_ns: int | None = None
        """From where time is measured."""
        self.hits: Hits | None = None
        self.links: tuple[tuple[int, int], ...] = ()
        """What the item under the cursor launched, or what launched it: lanes and items."""
        self.all_depths = False
        """Ranges and ops of every depth have a lane, if there is room or not."""
        self._top = 0
        self._drawn: dict[Window, dict[int, tuple[LaneCells, int]]] = {}
        self._reachable: list[int] | None = None
        self._label_cells: int | None = None

    # --- what is where -----------------------------------------------------------------------------------------------

    @property
    def label_cells(self) -> int:
        """Cells before the lanes: their names and how busy they are."""
        if self.shown is None:
            return 0
        if self._label_cells is None:
            places = range(len(self.shown.lanes))
            labels = (self.label_of(place, place - 1 if place else None) for place in places)
            longest = max(map(cell_width, labels), default=0)
            self._label_cells = min(longest + SHARE_CELLS + 3, max(16, int(self.size.width * LABEL_MOST)))
        return self._label_cells

    @property
    def room(self) -> int:
        """Lines for lanes."""
        legend = self.size.height >= LEGEND_FROM
        return max(1, self.size.height - HEAD - legend)

    def reachable(self) -> list[int]:
        """The lanes that can be gone to, as places in `shown`; more than there is room for where they do not fit."""
        if self._reachable is None:
            found = self.shown.lanes if self.shown is not None else ()
            self._reachable = list(range(len(found))) if self.all_depths else fitting_lanes(found, self.room)
        return self._reachable

    @property
    def hidden_lanes(self) -> int:
        """How many lanes are left out because they lie deep."""
        return (len(self.shown.lanes) if self.shown is not None else 0) - len(self.reachable())

    def shift(self, lane: int) -> int:
        """How much later the zero of a lane's clock is than that of the ruler."""
        assert self.shown is not None, "there are lanes"
        return self.shown.shifts[self.shown.lanes[lane].session]

    @property
    def cell(self) -> tuple[int, int]:
        """The time of the cursor's cell, by the clock of its lane."""
        assert self.window is not None, "there are lanes"
        first = self.window.first_ns + self.window.cell_of(self.cursor_ns) * self.window.cell_ns
        shift = self.shift(self.lane)
        return first - shift, first - shift + self.window.cell_ns

    @property
    def is_in_gap(self) -> bool:
        """Whether nothing is on in the cursor's cell."""
        assert self.shown is not None, "there are lanes"
        return not len(items_at(self.shown.lanes[self.lane], *self.cell))

    def in_gap_beside(self, step: int) -> int | None:
        """A moment in the next gap of the cursor's lane (1) or the one before (-1) that takes a cell or more."""
        assert self.window is not None, "there are lanes"
        assert self.shown is not None
        lane, shift = self.shown.lanes[self.lane], self.shift(self.lane)
        at = self.cursor_ns - shift
        here = gap_at(lane, at)
        gap = next_gap(lane, here.start_ns if here is not None else at, step, least_ns=self.window.cell_ns)
        if gap is None:
            return None
        return min(gap.start_ns + self.window.cell_ns, (gap.start_ns + gap.end_ns) // 2) + shift

    # --- changing ----------------------------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Everything is worked out anew."""
        self._reachable = None
        self._drawn.clear()
        self.redraw_looks()
        self.refresh()

    def redraw_looks(self) -> None:
        """What is known of the lanes is drawn anew; below them nothing changes."""
        lines = min(HEAD + len(self.reachable()) - self._top, self.size.height)
        self.refresh(Region(0, 0, self.size.width, lines))

    def fit_width(self) -> None:
        """Take over the width of the screen; the place stays, or all of the time where all was to be seen.

        A cell in a gap stays what it is: in wider ones the gap could be beside the cursor.
        """
        if self.shown is None or not self.shown.lanes:
            return
        self._label_cells = None
        cells = max(1, self.size.width - self.label_cells)
        new = whole_window(self.shown.begin_ns, self.shown.until_ns, cells, least_ns=self.shown.resolution_ns)
        old = self.window
        if old is not None and (old.cell_ns < old.fit_ns or self.is_in_gap):
            new = Window(new.begin_ns, new.end_ns, new.least_ns, cells, old.cell_ns, old.first_ns)
            new = new.zoomed(old.cell_ns, old.first_ns).moved_to(old.first_ns).showing(self.cursor_ns)
        self.window = new
        self.redraw()

    def on_resize(self) -> None:
        """Fit the cells to the new width."""
        self._reachable = None
        self.fit_width()
        self.keep_lane_in_view()

    def keep_lane_in_view(self) -> None:
        """Scroll so that the cursor's lane is on the screen."""
        visible = self.reachable()
        if not visible:
            return
        if self.lane not in visible:
            self.lane = min(visible, key=lambda place: (abs(place - self.lane), place))
        place = visible.index(self.lane)
        top = min(max(self._top, place - self.room + 1), place, max(0, len(visible) - self.room))
        if top != self._top:
            self._top = top
            self.refresh()

    def refresh_lane(self, lane: int) -> None:
        """Draw a lane and the ruler anew: the cursor moved in it."""
        visible = self.reachable()
        if lane in visible:
            line = visible.index(lane) - self._top + HEAD
            if HEAD <= line < HEAD + self.room:
                self.refresh(Region(0, line, self.size.width, 1))
        self.refresh(Region(0, 0, self.size.width, HEAD))

    # --- what is worked out ------------------------------------------------------------------------------------------

    def drawn(self, place: int) -> tuple[LaneCells, int]:
        """A lane's cells, and how long it was busy on the screen."""
        assert self.window is not None
        return self._drawn_in(self.window, place)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part of it, as they are drawn."""
        return direct_lines(self, crop, super().render_lines)

    def draw_ahead(self) -> bool:
        """Work out some lanes of what lies closer, further away, at the gaps beside and to both sides."""
        if self.window is None or self.shown is None or not self.shown.lanes:
            return False
        places = self.reachable()[self._top : self._top + self.room]
        missing = (
            (window, place)
            for window in self._windows_near(self.window)
            for place in places
            if place not in self._drawn.get(window, ())
        )
        found = list(islice(missing, AHEAD_LANES + 1))
        for window, place in found[:AHEAD_LANES]:
            self._drawn_in(window, place)
        return len(found) > AHEAD_LANES

    def _windows_near(self, window: Window) -> Iterator[Window]:
        """What the keys that move the window would show."""
        yield window.zoomed_in(self.cursor_ns)
        yield window.zoomed_out(self.cursor_ns)
        width = window.cells * window.cell_ns
        for step in (1, -1):
            gap_ns = self.in_gap_beside(step)
            if gap_ns is not None:
                yield window.showing(gap_ns)
            yield window.showing(window.last_ns if step > 0 else window.first_ns - 1)
            yield window.moved_to(window.first_ns + step * width)

    def _drawn_in(self, window: Window, place: int) -> tuple[LaneCells, int]:
        # The latest asked for comes last, and the first goes where they are too many.
        lanes = self._drawn[window] = self._drawn.pop(window, {})
        if len(self._drawn) > WINDOWS_KEPT:
            del self._drawn[next(iter(self._drawn))]
        found = lanes.get(place)
        if found is None:
            assert self.shown is not None
            assert self.profile is not None
            lane, profile = self.shown.lanes[place], self.profile
            edges = window.edges() - self.shift(place)
            cells = lane_cells(lane, edges, lambda item: name_of(profile, lane, item))
            busy = lane.segments.until(edges[[0, -1]]).sum(axis=1)
            found = lanes[place] = cells, int(busy[1] - busy[0])
        return found

    def label_of(self, place: int, above: int | None) -> str:
        """The words before a lane.

        Args:
            place: Which lane.
            above: The lane that is drawn above it, if one is.
        """
        assert self.shown is not None, "there are lanes"
        lanes = self.shown.lanes
        words = label(lanes[place], None if above is None else lanes[above])
        several = len(self.shown.shifts) > 1 and not words.startswith(" ")
        return plain(f"{lanes[place].session}: {words}" if several else words)
