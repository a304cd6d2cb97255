"""The timeline as it is drawn: a ruler, iterations, and lanes of cells."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.analysis.timeline.drawing import NOTHING, LaneCells, in_short, legend, whole_percent
from tui.analysis.timeline.lanes import ItemKind
from tui.analysis.timeline.shown import within
from tui.analysis.timeline.window import exactly, labeled, ruler
from tui.fitting import clip, pad
from tui.widgets.app_services import services_of
from tui.widgets.output_filters import LEVELS, SolidFills
from tui.widgets.timeline.lanes import HEAD, LEGEND_FROM, SHARE_CELLS, TimelineLanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from textual.filter import LineFilter

    from tui.analysis.timeline.window import Window


_SOLID, _HIT, _LINK, _CURSOR, _MARK = (1 << bit for bit in range(5, 10))
"""What a cell is drawn as besides its look; a look takes the bits below."""

MORE_SIGNS: Final = "? more"
"""What stands in the legend where there is no room for all of it."""

_REVERSED: Final = Style(reverse=True)
_ON_RED: Final = (ItemKind.COMMUNICATION, ItemKind.SYNC)


class TimelineCanvas(TimelineLanes):
    """Lanes over time. Only the lines on the screen are worked out, each from sums that are there already."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "timeline--label",
        "timeline--label-cursor",
        "timeline--ruler",
        "timeline--hit",
        "timeline--link",
        "timeline--cursor",
        *(f"timeline--{look.name.lower()}" for look in ItemKind),
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
        & > .timeline--tensor { color: $kind-tensor; }
        & > .timeline--kernel { color: $kind-other; }
        & > .timeline--graph { color: $kind-unknown; }
        & > .timeline--communication { color: $kind-communication; }
        & > .timeline--to_gpu { color: $kind-memory; }
        & > .timeline--from_gpu { color: $kind-memory; }
        & > .timeline--copy { color: $kind-memory; }
        & > .timeline--memset { color: $kind-memset; }
        & > .timeline--launch { color: $kind-launch; }
        & > .timeline--sync { color: $kind-sync; }
        & > .timeline--copy_call { color: $kind-memory; }
        & > .timeline--other_call { color: $kind-launch; }
        & > .timeline--op { color: $kind-cpu; }
        & > .timeline--range { color: $kind-range; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._strips: dict[int, Strip] = {}
        self._styles: dict[int, Style] = {}
        self._named: dict[str, Style] = {}

    def get_line_filters(self) -> Sequence[LineFilter]:
        """As everywhere, but that shades become blocks as high as the cell is busy."""
        return [LEVELS if isinstance(each, SolidFills) else each for each in super().get_line_filters()]

    def redraw_looks(self) -> None:
        """What is known of the lanes is drawn anew."""
        self._strips.clear()
        super().redraw_looks()

    def notify_style_update(self) -> None:
        """Look the styles up again after a change of theme."""
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()
        self._named.clear()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        # Asked for once: Textual works it out anew each time.
        width, height = self.size
        if self.shown is None or self.window is None or not self.shown.lanes:
            text = self.message if y == 0 else ""
            return Strip([Segment(pad(f" {clip(text, width - 1)}", width), self._style(NOTHING + 1))], width)
        if y == 0:
            return self._ruler_line(self.window)
        if y == 1:
            return self._iterations_line(self.window)
        visible, place = self.reachable(), y - HEAD + self._top
        if y == height - 1 and height >= LEGEND_FROM:
            return self._legend_line()
        if place < len(visible):
            return self._lane_line(visible, place)
        return Strip.blank(width, self._look_of(""))

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
                style += self._component(ItemKind(look).name.lower())
            if number & _HIT:
                style += self._component("hit")
            if number & _LINK:
                style += self._component("link")
            reverse = bool(number & _SOLID) != bool(number & _LINK)
            if reverse and not number & _LINK and self._has_sixteen_colors and look in _ON_RED:
                # Black, as behind all other names, is hardly told from the red of most terminals.
                style, reverse = style + Style(color="bright_white", bgcolor=style.color), False
            if number & _CURSOR:
                style += self._component("cursor")
                reverse = not reverse
            style = self._styles[number] = style + (_REVERSED if reverse else Style())
        return style

    @property
    def _has_sixteen_colors(self) -> bool:
        return services_of(self).color == "16"

    def _look_of(self, name: str) -> Style:
        """The style of a part, on the widget's own; Textual takes long to work it out."""
        style = self._named.get(name)
        if style is None:
            style = self._named[name] = self.rich_style + (self._component(name) if name else Style())
        return style

    def _component(self, name: str) -> Style:
        return self.get_component_rich_style(f"timeline--{name}", partial=True)

    def _label_segment(self, place: int, above: int | None, busy_ns: int, *, has_cursor: bool) -> Segment:
        assert self.window is not None, "there are lanes"
        assert self.shown is not None
        lane = self.shown.lanes[place]
        span = min(self.window.last_ns, self.window.end_ns) - max(self.window.first_ns, self.window.begin_ns)
        share = f"{whole_percent(busy_ns, span)} "
        room = self.label_cells - SHARE_CELLS - 1
        mark = ">" if has_cursor else " "
        words = within(self.label_of(place, above), lane.tid, room - 1)
        text = mark + pad(words, room - 1)
        style = self._look_of("label-cursor" if has_cursor and self.has_focus else "label")
        return Segment(text + pad(share, SHARE_CELLS + 1, right=True), style)

    def _ruler_line(self, window: Window) -> Strip:
        found = ruler(window)
        base = exactly(found.base_ns) if found.base_ns else ""
        moments = {self.cursor_ns: "▼"}
        if self.mark_ns is not None and self.mark_ns != self.cursor_ns:
            moments[self.mark_ns] = "M"
        signs = {window.cell_of(at): sign for at, sign in moments.items()}
        line = labeled(found.ticks, window.cells, tick="╷", signs=signs)
        return self._head_line(base, line)

    def _iterations_line(self, window: Window) -> Strip:
        assert self.shown is not None, "there are lanes"
        session = self.shown.lanes[self.lane].session
        marks = self.iterations.get(session, ())
        first, last = (bisect_left(marks, at, key=itemgetter(0)) for at in (window.first_ns, window.last_ns))
        placed: list[tuple[int, str]] = []
        place = first
        while place < last:
            at, text = marks[place]
            if not text:
                place += 1
                continue
            cell = window.cell_of(at)
            placed.append((cell, text))
            # Of those that begin in one cell only the first has room.
            place = bisect_left(marks, window.first_ns + (cell + 1) * window.cell_ns, place + 1, key=itemgetter(0))
        begun = marks[first - 1][1] if first else ""
        signs = {}
        if begun and (not placed or placed[0][0] > len(begun) + 2):
            # The iteration that the screen begins in: without a tick, since it does not begin there.
            placed.insert(0, (0, begun))
            signs[0] = " "
        line = labeled(placed, window.cells, tick="╷", signs=signs)
        return self._head_line("iterations" if marks else "", line)

    def _head_line(self, head: str, line: Sequence[str]) -> Strip:
        style = self._look_of("ruler")
        text = pad(clip(f" {head}", self.label_cells), self.label_cells)
        return Strip([Segment(text + "".join(line), style)], self.size.width)

    def _legend_line(self) -> Strip:
        """The glyphs of each look that is on the screen, from hardly to always busy, and what it means."""
        assert self.shown is not None, "there are lanes"
        visible = self.reachable()[self._top : self._top + self.room]
        segments, used = [Segment(" ", self._look_of(""))], 1
        muted = self._look_of("ruler")
        found = legend(self.shown.lanes[place] for place in visible)
        for number, (look, glyphs, words) in enumerate(found):
            sign, is_last = in_short(glyphs), number == len(found) - 1
            cells = len(sign) + len(words) + 3
            if used + cells + (0 if is_last else len(MORE_SIGNS)) > self.size.width:
                segments.append(Segment(MORE_SIGNS, muted))
                used += len(MORE_SIGNS)
                break
            segments += [Segment(sign, self._style(look + 1)), Segment(f" {words}  ", muted)]
            used += cells
        segments.append(Segment(" " * (self.size.width - used), muted))
        return Strip(segments, self.size.width)
