"""The timeline as it is drawn: a ruler, iterations, and lanes of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.analysis.timeline.bins import NOTHING
from tui.analysis.timeline.drawing import LaneCells, lane_cells, legend, whole_percent
from tui.analysis.timeline.looks import Look
from tui.analysis.timeline.ruler import exactly, labelled, ruler
from tui.analysis.timeline.shown import Shown, fitting_lanes, label
from tui.analysis.timeline.under import name_of
from tui.analysis.timeline.window import Window, whole_window
from tui.fitting import cell_width, clip, pad
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tui.analysis.timeline.find import Hits
    from tui.model.profile import Profile

HEAD: Final = 2
"""Lines above the lanes: the ruler and the iterations."""
LABEL_MOST: Final = 0.3
"""Share of the width that the labels take at most."""
SHARE_CELLS: Final = 5
"""Cells of ``<1%`` and ``100%``, with a blank."""
LEGEND_FROM: Final = 12
"""With so many lines the last one tells what the glyphs mean."""

_SOLID, _HIT, _LINK, _CURSOR, _MARK = (1 << bit for bit in range(5, 10))
"""What a cell is drawn as besides its look; a look takes the bits below."""

_REVERSED: Final = Style(reverse=True)

Marks = tuple[tuple[int, str], ...]
"""Moments by the ruler, and what stands there."""


class TimelineCanvas(Widget, can_focus=True):
    """Lanes over time. Only the lines on the screen are worked out, each from sums that are there already."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "timeline--label",
        "timeline--label-cursor",
        "timeline--ruler",
        "timeline--hit",
        "timeline--link",
        "timeline--cursor",
        *(f"timeline--{look.name.lower()}" for look in Look),
    }
    DEFAULT_CSS = """
    TimelineCanvas {
        height: 1fr;
        & > .timeline--label { color: $foreground; }
        & > .timeline--label-cursor { text-style: bold reverse; }
        & > .timeline--ruler { color: $text-muted; }
        & > .timeline--hit { text-style: bold underline; }
        & > .timeline--link { text-style: bold underline reverse; }
        & > .timeline--cursor { text-style: bold; }
        & > .timeline--tensor { color: $primary; }
        & > .timeline--kernel { color: $secondary; }
        & > .timeline--graph { color: $accent; }
        & > .timeline--communication { color: $error; }
        & > .timeline--to_gpu { color: $warning; }
        & > .timeline--from_gpu { color: $warning; }
        & > .timeline--copy { color: $warning; }
        & > .timeline--memset { color: $foreground; }
        & > .timeline--launch { color: $primary; }
        & > .timeline--sync { color: $error; }
        & > .timeline--copy_call { color: $warning; }
        & > .timeline--other_call { color: $text-muted; }
        & > .timeline--op { color: $secondary; }
        & > .timeline--range { color: $accent; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.profile: Profile | None = None
        self.shown: Shown | None = None
        self.window: Window | None = None
        self.iterations: Mapping[int, Marks] = {}
        """For each session where its iterations begin, and their numbers."""
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
        self._drawn: dict[int, tuple[LaneCells, int]] = {}
        self._strips: dict[int, Strip] = {}
        self._styles: dict[int, Style] = {}
        self._named: dict[str, Style] = {}
        self._reachable: list[int] | None = None
        self._label_cells: int | None = None

    # --- what is where -----------------------------------------------------------------------------------------------

    @property
    def ascii_only(self) -> bool:
        """Whether the terminal can show ASCII characters alone."""
        return bool(getattr(self.app, "ascii_only", False))

    @property
    def label_cells(self) -> int:
        """Cells before the lanes: their names and how busy they are."""
        if self.shown is None:
            return 0
        if self._label_cells is None:
            places = range(len(self.shown.lanes))
            labels = (self._label(place, place - 1 if place else None) for place in places)
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

    # --- changing ----------------------------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Everything is worked out anew."""
        self._drawn.clear()
        self._reachable = None
        self.redraw_looks()

    def redraw_looks(self) -> None:
        """What is known of the lanes is drawn anew."""
        self._strips.clear()
        self.refresh()

    def fit_width(self) -> None:
        """Take over the width of the screen; the place stays, or all of the time where all was to be seen."""
        if self.shown is None or not self.shown.lanes:
            return
        self._label_cells = None
        cells = max(1, self.size.width - self.label_cells)
        new = whole_window(self.shown.begin_ns, self.shown.end_ns, cells, least_ns=self.shown.resolution_ns)
        old = self.window
        if old is not None and old.cell_ns < old.fit_ns:
            new = Window(new.begin_ns, new.end_ns, new.least_ns, cells, old.cell_ns, old.first_ns)
            new = new.zoomed(old.cell_ns, old.first_ns).moved_to(old.first_ns).showing(self.cursor_ns)
        self.window = new
        self.redraw()

    def on_resize(self) -> None:
        """Fit the cells to the new width."""
        self._reachable = None
        self.fit_width()
        self.keep_lane_in_view()

    def notify_style_update(self) -> None:
        """Look the styles up again after a change of theme."""
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()
        self._named.clear()

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

    # --- drawing -----------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        width = self.size.width
        if self.shown is None or self.window is None or not self.shown.lanes:
            text = self.message if y == 0 else ""
            return Strip([Segment(pad(f" {clip(text, width - 1)}", width), self._style(NOTHING + 1))], width)
        if y == 0:
            return self._ruler_line(self.window)
        if y == 1:
            return self._iterations_line(self.window)
        visible, place = self.reachable(), y - HEAD + self._top
        if y < HEAD + self.room and place < len(visible):
            return self._lane_line(visible, place)
        if y == self.size.height - 1 and self.size.height >= LEGEND_FROM:
            return self._legend_line()
        return Strip.blank(width, self._look_of(""))

    def drawn(self, place: int) -> tuple[LaneCells, int]:
        """A lane's cells, and how long it was busy on the screen."""
        found = self._drawn.get(place)
        if found is None:
            assert self.shown is not None
            assert self.window is not None
            assert self.profile is not None
            lane, profile = self.shown.lanes[place], self.profile
            edges = self.window.edges() - self.shift(place)
            cells = lane_cells(lane, edges, lambda item: name_of(profile, lane, item), ascii_only=self.ascii_only)
            busy = lane.segments.until(edges[[0, -1]]).sum(axis=1)
            found = self._drawn[place] = cells, int(busy[1] - busy[0])
        return found

    def _lane_line(self, visible: Sequence[int], line: int) -> Strip:
        place = visible[line]
        has_cursor = place == self.lane
        if not has_cursor and place in self._strips:
            return self._strips[place]
        assert self.window is not None
        assert self.shown is not None
        cells, busy_ns = self.drawn(place)
        looks = self._looks(place, cells, self.window)
        if has_cursor:
            cursor = self.window.cell_of(self.cursor_ns)
            if 0 <= cursor < len(looks):
                looks[cursor] |= _CURSOR
        changes = np.flatnonzero(np.diff(looks)) + 1
        firsts = [0, *changes.tolist()]
        lasts = [*changes.tolist(), len(looks)]
        above = visible[line - 1] if line > self._top else None
        segments = [self._label_segment(place, above, busy_ns, has_cursor=has_cursor)]
        segments += [
            Segment("".join(cells.texts[first:last]), self._style(int(looks[first])))
            for first, last in zip(firsts, lasts, strict=True)
        ]
        strip = Strip(segments, self.size.width)
        if not has_cursor:
            self._strips[place] = strip
        return strip

    def _looks(self, place: int, cells: LaneCells, window: Window) -> npt.NDArray[np.int64]:
        """How each cell of a lane is drawn, as a number for `_style`."""
        looks = cells.looks.astype(np.int64) + 1
        looks[cells.solid] |= _SOLID
        edges = window.edges()
        if self.hits is not None and place in self.hits.by_lane:
            looks[self.hits.by_lane[place].in_cells(edges)] |= _HIT
        assert self.shown is not None, "there are lanes"
        lane, shift = self.shown.lanes[place], self.shift(place)
        for other, item in self.links:
            if other == place:
                first = window.cell_of(int(lane.starts[item]) + shift)
                last = window.cell_of(max(int(lane.ends[item]) - 1, int(lane.starts[item])) + shift)
                looks[max(first, 0) : max(last + 1, 0)] |= _LINK
        return looks

    def _style(self, number: int) -> Style:
        style = self._styles.get(number)
        if style is None:
            style = self._look_of("")
            look = (number & (_SOLID - 1)) - 1
            if look != NOTHING:
                style += self._component(Look(look).name.lower())
            if number & _HIT:
                style += self._component("hit")
            if number & _LINK:
                style += self._component("link")
            reverse = bool(number & _SOLID) != bool(number & _LINK)
            if number & _CURSOR:
                style += self._component("cursor")
                reverse = not reverse
            style = self._styles[number] = style + (_REVERSED if reverse else Style())
        return style

    def _look_of(self, name: str) -> Style:
        """The style of a part, on the widget's own; Textual takes long to work it out."""
        style = self._named.get(name)
        if style is None:
            style = self._named[name] = self.rich_style + (self._component(name) if name else Style())
        return style

    def _component(self, name: str) -> Style:
        return self.get_component_rich_style(f"timeline--{name}", partial=True)

    def _label(self, place: int, above: int | None) -> str:
        assert self.shown is not None, "there are lanes"
        lanes = self.shown.lanes
        words = label(lanes[place], None if above is None else lanes[above])
        several = len(self.shown.shifts) > 1 and not words.startswith(" ")
        return plain(f"{lanes[place].session}: {words}" if several else words, ascii_only=self.ascii_only)

    def _label_segment(self, place: int, above: int | None, busy_ns: int, *, has_cursor: bool) -> Segment:
        assert self.window is not None, "there are lanes"
        span = min(self.window.last_ns, self.window.end_ns) - max(self.window.first_ns, self.window.begin_ns)
        share = f"{whole_percent(busy_ns, span)} "
        room = self.label_cells - SHARE_CELLS - 1
        mark = ">" if has_cursor else " "
        text = mark + pad(clip(self._label(place, above), room - 1, ascii_only=self.ascii_only), room - 1)
        style = self._look_of("label-cursor" if has_cursor and self.has_focus else "label")
        return Segment(text + pad(share, SHARE_CELLS + 1, right=True), style)

    def _ruler_line(self, window: Window) -> Strip:
        found = ruler(window, ascii_only=self.ascii_only)
        base = exactly(found.base_ns) if found.base_ns else ""
        moments = {self.cursor_ns: "v" if self.ascii_only else "▼"}
        if self.mark_ns is not None and self.mark_ns != self.cursor_ns:
            moments[self.mark_ns] = "M"
        signs = {window.cell_of(at): sign for at, sign in moments.items()}
        line = labelled(found.ticks, window.cells, tick="|" if self.ascii_only else "╷", signs=signs)
        return self._head_line(base, line)

    def _iterations_line(self, window: Window) -> Strip:
        assert self.shown is not None, "there are lanes"
        session = self.shown.lanes[self.lane].session
        marks = self.iterations.get(session, ())
        placed = [(window.cell_of(at), text) for at, text in marks if window.first_ns <= at < window.last_ns]
        begun = [text for at, text in marks if at < window.first_ns]
        if begun and (not placed or placed[0][0] > len(begun[-1]) + 2):
            # The iteration that the screen begins in.
            placed.insert(0, (0, begun[-1]))
        line = labelled(placed, window.cells, tick="|" if self.ascii_only else "╷")
        return self._head_line("iterations" if marks else "", line)

    def _head_line(self, head: str, line: Sequence[str]) -> Strip:
        style = self._look_of("ruler")
        text = pad(clip(f" {head}", self.label_cells, ascii_only=self.ascii_only), self.label_cells)
        return Strip([Segment(text + "".join(line), style)], self.size.width)

    def _legend_line(self) -> Strip:
        """The glyph of a busy cell of each look that is on the screen, and what it means."""
        assert self.shown is not None, "there are lanes"
        visible = self.reachable()[self._top : self._top + self.room]
        segments, used = [Segment(" ", self._look_of(""))], 1
        muted = self._look_of("ruler")
        for look, glyph, words in legend((self.shown.lanes[place] for place in visible), ascii_only=self.ascii_only):
            if used + len(words) + 4 > self.size.width:
                break
            segments += [Segment(glyph, self._style(look + 1)), Segment(f" {words}  ", muted)]
            used += len(words) + 4
        segments.append(Segment(" " * (self.size.width - used), muted))
        return Strip(segments, self.size.width)
