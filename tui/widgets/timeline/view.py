"""The timeline: lanes over time with a cursor, and tracks above them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.widget import Widget

from tui.analysis.timeline.drawing import GlyphSet, LaneCells, lane_cells
from tui.analysis.timeline.lanes import ItemKind
from tui.analysis.timeline.lookup import gap_at, item_name, items_at, main_item, next_gap
from tui.analysis.timeline.shown import ShownLanes, fitting_lanes, lane_label
from tui.analysis.timeline.window import Window, full_window, tracks
from tui.fmt import brief_duration, count
from tui.keys import Scope, actions_of, bindings_for
from tui.text import plain
from tui.text_width import cell_width
from tui.widgets.app_services import services_of
from tui.widgets.charts.bars import BarRow, bar_columns, bar_lines
from tui.widgets.output_filters import MANY_COLORS, AsciiOutput, direct_lines
from tui.widgets.timeline.painter import (
    MIN_HEAD_LINES,
    MIN_LINES_WITH_LEGEND,
    PARTS,
    SHARE_CELLS,
    STYLES,
    TimelinePainter,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import polars as pl
    from textual import events
    from textual.filter import LineFilter
    from textual.strip import Strip

    from tui.analysis.timeline.lanes import Lane
    from tui.analysis.timeline.lookup import Hits
    from tui.analysis.timeline.window import Track
    from tui.model.profile import Profile

MOVE_IDS: Final = frozenset(action.id for action in actions_of(Scope.TIMELINE) if action.group == "Movement")
JUMP_SHARE: Final = 0.3
"""The share of the screen that an item takes after a jump to it, unless that would zoom in too far."""
MAX_LABELS_SHARE: Final = 0.3
"""The maximum share of the width for the labels."""
MIN_SPARE_LINES_FOR_TRACKS: Final = 8
"""With this number of spare lines there are tracks; with twice as many, they have two lines each."""
GROWTH_STEPS: Final = ((True, 4), (False, 2), (True, 8), (False, 3), (True, 16), (False, 5), (True, 24))
"""The order in which lanes become taller: whether GPU lanes or the others grow, and to how many lines each."""

LANES_AHEAD: Final = 4
"""Lanes computed ahead at a time; few, so that a key does not wait."""
MAX_CACHED_WINDOWS: Final = 20
"""The number of time windows whose lanes are cached."""

Marks = tuple[tuple[int, str], ...]
"""Times on the ruler, with their labels."""


def lane_heights(lanes: Sequence[Lane], spare_lines: int) -> list[int]:
    """Return the height of each lane: one line and a share of the spare ones; lanes of a kind are equally tall.

    Args:
        lanes: The lanes on the screen.
        spare_lines: The number of lines beyond one for each.
    """
    heights = [1] * len(lanes)
    for is_gpu, max_height in GROWTH_STEPS:
        indices = [index for index, lane in enumerate(lanes) if lane.on_gpu is is_gpu]
        while indices and len(indices) <= spare_lines and heights[indices[0]] < max_height:
            spare_lines -= len(indices)
            for index in indices:
                heights[index] += 1
    return heights


class DrawnLane(NamedTuple):
    """A lane in a time window."""

    cells: LaneCells
    lines: list[tuple[list[str], npt.NDArray[np.int8]]]
    """The texts and kinds of each line."""
    busy_ns: int


class TimelineView(Widget, can_focus=True):
    """Lanes over time with a cursor, which selects a cell of a lane or an item in it.

    Only the lines on the screen are computed, from precomputed sums.
    """

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TIMELINE) if getattr(binding, "id", "") in MOVE_IDS]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timeline--{part}" for part in PARTS}
    DEFAULT_CSS = STYLES

    class Moved(Message):
        """The cursor moved, or another time window is shown."""

    class Resized(Message):
        """The times and the number of the cells may have changed."""

    class Opened(Message):
        """The selected item was double-clicked."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.profile: Profile | None = None
        self.shown: ShownLanes | None = None
        self.window: Window | None = None
        self.iterations: Mapping[int, Marks] = {}
        """The starts of iterations with their numbers, and their ends, by session."""
        self.message = ""
        """A text instead of the lanes."""
        self.lane = 0
        """The lane of the cursor, as its position in `shown`."""
        self.cursor_ns = 0
        """The time of the cursor on the ruler."""
        self.mark_ns: int | None = None
        """The mark from which time is measured."""
        self.hits: Hits | None = None
        self.links: tuple[tuple[int, int], ...] = ()
        """The items, with their lanes, that the selected item launched or that launched it."""
        self.all_depths = False
        """Whether ranges and ops of every depth have a lane, even without room."""
        self._item: int | None = None
        """The selected item; None if a cell is selected."""
        self._main_item: tuple[tuple[int, int, int], int | None] = ((-1, -1, -1), None)
        """The item with most time in a cell, by lane, time and length."""
        self._top = 0
        self._fitted_windows: tuple[Window | None, Window | None] = (None, None)
        """The requested window, and the window that the current width allows."""
        self._cached_lanes: dict[Window, dict[tuple[int, int], DrawnLane]] = {}
        """Drawn lanes by time window, lane and height."""
        self._reachable: list[int] | None = None
        self._label_cells: int | None = None
        self._lines: tuple[tuple[int, int, int], ...] | None = None
        self._tracks: tuple[ShownLanes, tuple[Track, ...]] | None = None
        self._track_shares: dict[Window, list[npt.NDArray[np.float64]]] = {}
        self._painter = TimelinePainter(self)

    # --- positions ---------------------------------------------------------------------------------------------------

    @property
    def glyph_set(self) -> GlyphSet:
        """The characters of kinds: plain blocks if there are many colors."""
        return GlyphSet.FILLS if services_of(self).color in MANY_COLORS else GlyphSet.PATTERNS

    @property
    def label_cells(self) -> int:
        """The width of the labels before the lanes."""
        if self.shown is None:
            return 0
        if self._label_cells is None:
            indices = range(len(self.shown.lanes))
            labels = (self.lane_label_text(index, index - 1 if index else None) for index in indices)
            longest = max(map(cell_width, labels), default=0)
            longest = max([longest, *(cell_width(track.name) - SHARE_CELLS for track in self.tracks)])
            self._label_cells = min(longest + SHARE_CELLS + 3, max(16, int(self.size.width * MAX_LABELS_SHARE)))
        return self._label_cells

    @property
    def needed_lines(self) -> int:
        """The number of lines with one line for each lane."""
        return MIN_HEAD_LINES + len(self.reachable()) + (self.size.height >= MIN_LINES_WITH_LEGEND)

    @property
    def _body_lines(self) -> int:
        """Return the number of lines for lanes and tracks."""
        return max(1, self.size.height - MIN_HEAD_LINES - (self.size.height >= MIN_LINES_WITH_LEGEND))

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The tracks of the profile: values over time."""
        if self.shown is None or self.profile is None:
            return ()
        if self._tracks is None or self._tracks[0] is not self.shown:
            self._tracks = self.shown, tracks(self.profile, self.shown)
            self._track_shares.clear()
        return self._tracks[1]

    @property
    def track_lines(self) -> int:
        """The height of each track; 0 if there is no room."""
        spare = self._body_lines - len(self.reachable())
        return 0 if spare < MIN_SPARE_LINES_FOR_TRACKS else 1 if spare < 2 * MIN_SPARE_LINES_FOR_TRACKS else 2

    @property
    def head_lines(self) -> int:
        """The number of lines above the lanes: the ruler, the iterations and the tracks."""
        return MIN_HEAD_LINES + self.track_lines * len(self.tracks)

    @property
    def lane_lines(self) -> int:
        """The number of lines for lanes."""
        return max(1, self._body_lines - (self.head_lines - MIN_HEAD_LINES))

    @property
    def lines(self) -> tuple[tuple[int, int, int], ...]:
        """For each line below the head: its lane's position in `shown`, its line within the lane, the lane's height."""
        if self._lines is None:
            assert self.shown is not None, "there are lanes"
            indices = self.reachable()[self._top : self._top + self.lane_lines]
            lanes = [self.shown.lanes[index] for index in indices]
            heights = lane_heights(lanes, self.lane_lines - len(indices))
            self._lines = tuple(
                (index, line, height) for index, height in zip(indices, heights, strict=True) for line in range(height)
            )
        return self._lines

    def reachable(self) -> list[int]:
        """Return the lanes that the cursor can reach, as positions in `shown`."""
        if self._reachable is None:
            lanes = self.shown.lanes if self.shown is not None else ()
            self._reachable = list(range(len(lanes))) if self.all_depths else fitting_lanes(lanes, self._body_lines)
        return self._reachable

    @property
    def hidden_lanes(self) -> int:
        """The number of lanes omitted because of their depth."""
        return (len(self.shown.lanes) if self.shown is not None else 0) - len(self.reachable())

    def shift(self, lane: int) -> int:
        """Return the offset of a lane's clock from the ruler."""
        assert self.shown is not None, "there are lanes"
        return self.shown.shifts[self.shown.lanes[lane].session]

    @property
    def cell(self) -> tuple[int, int]:
        """Return the time of the cursor's cell on the clock of its lane."""
        assert self.window is not None, "there are lanes"
        first = self.window.first_ns + self.window.cell_at(self.cursor_ns) * self.window.cell_ns
        shift = self.shift(self.lane)
        return first - shift, first - shift + self.window.cell_ns

    @property
    def is_in_gap(self) -> bool:
        """Whether the cursor's cell is idle."""
        assert self.shown is not None, "there are lanes"
        return not len(items_at(self.shown.lanes[self.lane], *self.cell))

    def time_in_next_gap(self, step: int) -> int | None:
        """Return a time in the next (1) or previous (-1) gap of the cursor's lane that is at least a cell wide."""
        assert self.window is not None, "there are lanes"
        assert self.shown is not None
        lane, shift = self.shown.lanes[self.lane], self.shift(self.lane)
        cursor_ns = self.cursor_ns - shift
        current = gap_at(lane, cursor_ns)
        gap = next_gap(
            lane, current.start_ns if current is not None else cursor_ns, step, min_length_ns=self.window.cell_ns
        )
        if gap is None:
            return None
        return min(gap.start_ns + self.window.cell_ns, (gap.start_ns + gap.end_ns) // 2) + shift

    # --- changing ----------------------------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Compute and draw everything again."""
        self._reachable = self._lines = None
        self._cached_lanes.clear()
        self._track_shares.clear()
        self._painter.forget_labels()
        self.refresh()

    def redraw_styles(self) -> None:
        """Redraw the lanes with the computed values."""
        self._painter.forget_lines()
        lines = self.head_lines + len(self.lines) if self.shown is not None and self.shown.lanes else self.size.height
        self.refresh(Region(0, 0, self.size.width, lines))

    def fit_width(self) -> None:
        """Fit the window to the width of the screen; the position stays, and so does a view of the whole time.

        A cursor in a gap stays in the gap. The window is the one that was chosen, in the current width, whatever widths
        there were in between.
        """
        if self.shown is None or not self.shown.lanes:
            return
        self._label_cells = None
        cells = max(1, self.size.width - self.label_cells)
        window = full_window(self.shown.begin_ns, self.shown.window_end_ns, cells, min_cell_ns=self.shown.resolution_ns)
        requested, fitted = self._fitted_windows
        former = requested if self.window is fitted else self.window
        if former is not None and (former.cell_ns < former.fit_ns or self.is_in_gap):
            window = Window(window.begin_ns, window.end_ns, window.min_cell_ns, cells, former.cell_ns, former.first_ns)
            window = window.zoomed(former.cell_ns, former.first_ns).moved_to(former.first_ns).showing(self.cursor_ns)
            self._fitted_windows = former, window
        else:
            self._fitted_windows = window, window
        self.window = window
        self.redraw()

    def on_resize(self) -> None:
        """Fit the cells to the new width."""
        self._reachable = self._lines = None
        self.fit_width()
        self.scroll_to_lane()
        self.post_message(self.Resized())

    def notify_style_update(self) -> None:
        """Look up the styles again after a change of theme."""
        super().notify_style_update()
        self._painter.forget_styles()

    def scroll_to_lane(self) -> None:
        """Scroll to the cursor's lane."""
        visible = self.reachable()
        if not visible:
            return
        if self.lane not in visible:
            self.lane = min(visible, key=lambda position: (abs(position - self.lane), position))
        position = visible.index(self.lane)
        top = min(max(self._top, position - self.lane_lines + 1), position, max(0, len(visible) - self.lane_lines))
        if top != self._top:
            self._top, self._lines = top, None
            self.refresh()

    def refresh_lane(self, lane: int, cell: int | None = None) -> None:
        """Redraw a lane, or only one cell of it, after the cursor moved."""
        lines = [(number, height) for number, (index, _, height) in enumerate(self.lines) if index == lane]
        if not lines:
            return
        (first_line, height), left, width = lines[0], 0, self.size.width
        if cell is not None:
            texts = self.drawn_lane(lane, height).cells.texts
            # A wide character is followed by an empty text.
            start = max(cell_index for cell_index in range(cell + 1) if texts[cell_index])
            end = next((cell_index for cell_index in range(cell + 1, len(texts)) if texts[cell_index]), len(texts))
            left, width = self.label_cells + start, end - start
        self.refresh(Region(left, self.head_lines + first_line, width, len(lines)))

    def show_links(self, links: tuple[tuple[int, int], ...]) -> None:
        """Show other items that launched the selected item or that it launched."""
        changed = {lane for lane, _ in (*self.links, *links)}
        self.links = links
        self._painter.forget_lanes(changed)
        for lane in changed:
            self.refresh_lane(lane)

    @property
    def item(self) -> int | None:
        """The selected item, otherwise the one with most time in the cell."""
        if self.shown is None or self.window is None or not self.shown.lanes:
            return None
        if self._item is not None:
            return self._item
        first, last = self.cell
        key = (self.lane, first, last)
        if self._main_item[0] != key:
            self._main_item = key, main_item(self.shown.lanes[self.lane], first, last)
        return self._main_item[1]

    @property
    def has_item(self) -> bool:
        """Whether an item is selected, rather than a cell."""
        return self._item is not None

    # --- moving ------------------------------------------------------------------------------------------------------

    def show_window(self, window: Window) -> None:
        """Show another time window."""
        if window != self.window:
            self.window = window
            self.redraw_styles()

    def move_cursor(self, time_ns: int, *, lane: int | None = None, item: int | None = None) -> None:
        """Move the cursor to a time on the ruler, a lane, and an item of it."""
        if self.window is None or self.shown is None:
            return
        window, former_lane, former_cell = self.window, self.lane, self.window.cell_at(self.cursor_ns)
        self.cursor_ns = min(max(time_ns, self.window.begin_ns), self.window.end_ns - 1)
        self._item = item
        self.lane = self.lane if lane is None else lane
        if self.lane not in self.reachable():
            self.all_depths = True
            self._reachable = self._lines = None
            self.refresh()
        self.show_window(self.window.showing(self.cursor_ns))
        self.scroll_to_lane()
        self.refresh(Region(0, 0, self.size.width, MIN_HEAD_LINES))
        new_cell = self.window.cell_at(self.cursor_ns)
        if self.window is window and self.lane == former_lane and 0 <= former_cell < window.cells:
            self.refresh_lane(former_lane, former_cell)
            self.refresh_lane(former_lane, new_cell)
        else:
            self.refresh_lane(former_lane)
            self.refresh_lane(self.lane)
        self.post_message(self.Moved())

    def select_item(self, lane: int, item: int, *, zooms_in: bool = False) -> None:
        """Select an item; ``zooms_in`` zooms in until it can be distinguished from its neighbors."""
        assert self.shown is not None, "there are items"
        assert self.window is not None
        lane_items, shift = self.shown.lanes[lane], self.shift(lane)
        start, end = int(lane_items.starts[item]) + shift, int(lane_items.ends[item]) + shift
        if zooms_in:
            window = self.window.around(start, max(end, start + 1), JUMP_SHARE)
            if window.cell_ns < self.window.cell_ns or not self.window.first_ns <= start < self.window.last_ns:
                self.show_window(window)
        self.move_cursor(start, lane=lane, item=item)

    def zoom_to(self, start_ns: int, end_ns: int, share: float = 1.0) -> None:
        """Zoom to a time window on the ruler."""
        if self.window is not None:
            self.show_window(self.window.around(start_ns, max(end_ns, start_ns + 1), share))
            self.move_cursor(start_ns)

    def _move_cells(self, cells: int) -> None:
        if self.window is not None:
            cell = self.window.cell_at(self.cursor_ns) + cells
            self.move_cursor(self.window.first_ns + cell * self.window.cell_ns)

    def action_cell(self, cells: int) -> None:
        """Move some cells to the right, or to the left if negative."""
        self._move_cells(cells)

    def action_page(self, pages: float) -> None:
        """Move some screen widths later, or earlier if negative."""
        if self.window is None:
            return
        cells = round(pages * self.window.cells)
        time_ns = self.cursor_ns + cells * self.window.cell_ns
        self.show_window(self.window.moved_to(self.window.first_ns + cells * self.window.cell_ns))
        self.move_cursor(time_ns)

    def action_edge(self, end: bool) -> None:
        """Move to the first or the last item of the lane."""
        if self.shown is not None and self.shown.lanes:
            lane = self.shown.lanes[self.lane]
            self.select_item(self.lane, len(lane.starts) - 1 if end else 0)

    def action_lane(self, step: int) -> None:
        """Move to the lane below, or above if negative; the time stays."""
        visible = self.reachable()
        if self.lane in visible:
            position = min(max(visible.index(self.lane) + step, 0), len(visible) - 1)
            self.move_cursor(self.cursor_ns, lane=visible[position])

    def zoom(self, step: int) -> None:
        """Zoom in by one step, or out if negative; the cursor keeps its place on the screen."""
        if self.window is not None:
            zoomed = self.window.zoomed_in if step > 0 else self.window.zoomed_out
            self.show_window(zoomed(self.cursor_ns))
            self.post_message(self.Moved())

    def fit(self) -> None:
        """Show the whole time."""
        if self.window is not None:
            self.show_window(self.window.fit())
            self.post_message(self.Moved())

    # --- mouse -------------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Select the clicked cell; a double click opens its item."""
        line = event.y - self.head_lines
        if self.window is None or self.shown is None or not 0 <= line < len(self.lines):
            return
        cell = event.x - self.label_cells
        if cell >= 0:
            self.move_cursor(self.window.first_ns + cell * self.window.cell_ns, lane=self.lines[line][0])
        if event.chain == 2:
            self.post_message(self.Opened())

    def on_mouse_scroll_down(self) -> None:
        """Zoom out."""
        self.zoom(-1)

    def on_mouse_scroll_up(self) -> None:
        """Zoom in."""
        self.zoom(1)

    # --- drawing
    # -------------------------------------------------------------------------------------------------------

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that may change a line: where colors distinguish kinds, only that for ASCII."""
        filters = super().get_line_filters()
        return (
            [line_filter for line_filter in filters if isinstance(line_filter, AsciiOutput)]
            if self.glyph_set is GlyphSet.FILLS
            else filters
        )

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render some lines, without Textual's wrapping."""
        self._painter.measure()
        return direct_lines(self, crop, super().render_lines)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        return self._painter.line(y)

    def track_shares(self, number: int) -> npt.NDArray[np.float64]:
        """Return the value of a track in each cell, as a share of its scale."""
        assert self.window is not None, "there are lanes"
        return self._shares_in(self.window)[number]

    def _shares_in(self, window: Window) -> list[npt.NDArray[np.float64]]:
        shares = self._track_shares.get(window)
        if shares is None:
            if len(self._track_shares) > MAX_CACHED_WINDOWS:
                self._track_shares.clear()
            edges = window.edges()
            shares = self._track_shares[window] = [track.shares(edges) for track in self.tracks]
        return shares

    def drawn_lane(self, index: int, height: int) -> DrawnLane:
        """Return a lane in the window on the screen.

        Args:
            index: The position of the lane in `shown`.
            height: The number of its lines.
        """
        assert self.window is not None
        return self._lane_in(self.window, index, height)

    def draw_ahead(self) -> bool:
        """Compute some lanes and tracks of the windows that the next key may show."""
        if self.window is None or self.shown is None or not self.shown.lanes:
            return False
        lanes = list(dict.fromkeys((index, height) for index, _, height in self.lines))
        missing = (
            (window, lane)
            for window in self._next_windows(self.window)
            for lane in lanes
            if lane not in self._cached_lanes.get(window, ())
        )
        next_lanes = list(islice(missing, LANES_AHEAD + 1))
        for window, (index, height) in next_lanes[:LANES_AHEAD]:
            self._lane_in(window, index, height)
            if self.track_lines:
                self._shares_in(window)
        return len(next_lanes) > LANES_AHEAD

    def _next_windows(self, window: Window) -> Iterator[Window]:
        """Return the windows that the keys would show."""
        yield window.zoomed_in(self.cursor_ns)
        yield window.zoomed_out(self.cursor_ns)
        width = window.cells * window.cell_ns
        for step in (1, -1):
            gap_ns = self.time_in_next_gap(step)
            if gap_ns is not None:
                yield window.showing(gap_ns)
            yield window.showing(window.last_ns if step > 0 else window.first_ns - 1)
            yield window.moved_to(window.first_ns + step * width)

    def _lane_in(self, window: Window, index: int, height: int) -> DrawnLane:
        # The most recently used comes last; the first is dropped if there are too many.
        lanes = self._cached_lanes[window] = self._cached_lanes.pop(window, {})
        if len(self._cached_lanes) > MAX_CACHED_WINDOWS:
            del self._cached_lanes[next(iter(self._cached_lanes))]
        drawn_lane = lanes.get((index, height))
        if drawn_lane is None:
            assert self.shown is not None
            assert self.profile is not None
            lane, profile = self.shown.lanes[index], self.profile
            edges = window.edges() - self.shift(index)
            cells = lane_cells(lane, edges, lambda item: item_name(profile, lane, item), glyph_set=self.glyph_set)
            busy_ns = lane.segments.time_before(edges[[0, -1]]).sum(axis=1)
            drawn_lane = lanes[index, height] = DrawnLane(cells, cells.tall(height), int(busy_ns[1] - busy_ns[0]))
        return drawn_lane

    def lane_label_text(self, index: int, above: int | None) -> str:
        """Return the label of a lane.

        Args:
            index: The index of the lane.
            above: The index of the lane above it, if any.
        """
        assert self.shown is not None, "there are lanes"
        lanes = self.shown.lanes
        label = lane_label(lanes[index], None if above is None else lanes[above])
        is_numbered = len(self.shown.shifts) > 1 and not label.startswith(" ")
        return plain(f"{lanes[index].session}: {label}" if is_numbered else label)


MAX_LINES: Final = 12
MIN_PANEL_LINES: Final = 4
"""With fewer spare lines there is no panel."""
_CHART_STYLES: Final = {
    ItemKind.TENSOR: "tensor",
    ItemKind.KERNEL: "other",
    ItemKind.GRAPH: "unknown",
    ItemKind.COMMUNICATION: "communication",
    ItemKind.MEMSET: "memset",
}
"""The style in charts of each kind of item; all others are memory copies."""


class TopWork(Widget):
    """The names with most time on the screen, in the lines below the lanes."""

    DEFAULT_CSS = """
    TopWork { height: auto; padding: 0 1; display: none; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.lines = 0
        """The number of lines."""
        self._bars: list[BarRow] = []

    def make_room(self, spare_lines: int) -> None:
        """Set the number of lines; none if they are too few."""
        lines = min(spare_lines, MAX_LINES) if spare_lines >= MIN_PANEL_LINES else 0
        if lines != self.lines:
            self.lines = lines
            self.display = lines > 0
            self.styles.height = lines

    def show(self, rows: pl.DataFrame) -> None:
        """Show other rows.

        Args:
            rows: The result of `tui.analysis.timeline.lookup.longest_gpu_work`.
        """
        total_ns = int(rows["time_ns"].sum())
        largest_ns = int(rows["time_ns"].max() or 0)  # type: ignore[arg-type]
        self._bars = [
            BarRow(
                str(index),
                row["name"] or "",
                row["time_ns"] / largest_ns if largest_ns else None,
                f"{count(row['count'])}×  {brief_duration(row['time_ns']):>8}",
                100 * row["time_ns"] / total_ns if total_ns else None,
                symbol=True,
                part=_CHART_STYLES.get(ItemKind(row["kind"]), "memory"),
            )
            for index, row in enumerate(rows.head(max(0, self.lines - 1)).iter_rows(named=True))
        ]
        self.refresh()

    def render(self) -> Content:
        """Render the rows."""
        title = Content.assemble(
            ("Top GPU work in this window", "bold $accent"), ("  share of GPU time", "$text-muted")
        )
        return Content("\n").join([title, *bar_lines(self._bars, bar_columns(self._bars, self.content_size.width))])
