"""Renders the timeline: a ruler, iterations, tracks, lanes of cells and a legend."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.color import Color, blend_rgb
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.analysis.timeline.drawing import NO_ITEM, Signs, glyph_range, integer_percent, legend
from tui.analysis.timeline.lanes import ItemKind
from tui.analysis.timeline.shown import fit_label
from tui.analysis.timeline.window import exact_time, place_labels, ruler
from tui.text import plain
from tui.text_width import clip, pad
from tui.widgets.app_services import services_of
from tui.widgets.charts.bars import area_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt
    from textual.geometry import Size

    from tui.analysis.timeline.drawing import LaneCells
    from tui.analysis.timeline.shown import ShownLanes
    from tui.analysis.timeline.window import Window
    from tui.widgets.timeline.view import DrawnLane, TimelineView


HEAD_LINES: Final = 2
"""The lines above the lanes: the ruler and the iterations."""
SHARE_CELLS: Final = 5
"""The width of ``<1%`` and ``100%``, with a blank."""
MIN_LINES_WITH_LEGEND: Final = 12
"""From this height on, the last line explains the colors or characters."""

_SOLID, _HIT, _LINK, _CURSOR, _MISS = (1 << bit for bit in range(5, 10))
"""What a cell is drawn as besides its look; a look takes the bits below."""

MISS_SHARE: Final = 0.65
"""How far the colors of what was not found go into the ground."""

MORE_SIGNS: Final = "? more"
"""The end of a legend that is cut."""

_REVERSED: Final = Style(reverse=True)
COLORS: Final = {
    ItemKind.TENSOR: "$kind-tensor",
    ItemKind.KERNEL: "$kind-other",
    ItemKind.GRAPH: "$kind-unknown",
    ItemKind.COMMUNICATION: "$kind-communication",
    ItemKind.TO_GPU: "$kind-memory",
    ItemKind.FROM_GPU: "$kind-memory",
    ItemKind.COPY: "$kind-memory",
    ItemKind.MEMSET: "$kind-memset",
    ItemKind.LAUNCH: "$kind-launch",
    ItemKind.SYNC: "$kind-sync",
    ItemKind.COPY_CALL: "$kind-memory",
    ItemKind.OTHER_CALL: "$kind-launch",
    ItemKind.OP: "$kind-cpu",
    ItemKind.RANGE: "$kind-range",
}
"""The theme's variable for the color of each kind of item."""

_LOOKS: Final = {
    "label": "color: $foreground;",
    "label-cursor": "background: $selection; text-style: bold;",
    "label-reversed": "text-style: bold reverse;",
    "ruler": "color: $text-muted;",
    "hit": "text-style: bold underline;",
    "link": "text-style: bold underline reverse;",
    "cursor": "text-style: bold;",
    "track": "color: $bar;",
    "miss": "color: $kind-idle;",
    **{look.name.lower(): f"color: {color};" for look, color in COLORS.items()},
}
PARTS: Final = tuple(_LOOKS)
"""Parts with a style of their own: each is a component class of the widget."""
STYLES: Final = "\n".join(
    [
        "TimelineView { height: 1fr; }",
        *(f"TimelineView > .timeline--{name} {{ {look} }}" for name, look in _LOOKS.items()),
    ]
)


@dataclass(frozen=True, slots=True)
class _CellRuns:
    """The cells of a line of a lane, in runs of one style."""

    texts: list[str]
    begins: list[int]
    """The first cell of each run."""
    styles: list[int]
    """The style number of each run; see `TimelinePainter._style`."""
    segments: list[Segment]


class TimelinePainter:
    """Renders the lines of a timeline, with a cache.

    Args:
        view: The timeline.
    """

    def __init__(self, view: TimelineView) -> None:
        self._view = view
        self._size: Size = view.size
        self._head = 0
        self._runs: dict[tuple[int, int, int], _CellRuns] = {}
        """Cached cells without the cursor, by lane, line and height."""
        self._strips: dict[tuple[int, int, int], Strip] = {}
        """Cached strips without the cursor, by lane, line and height."""
        self._labels: dict[tuple[int, int | None], str] = {}
        """Cached labels, by lane and the lane above."""
        self._styles: dict[int, Style] = {}
        self._named: dict[str, Style] = {}

    def forget_lines(self) -> None:
        """Redraw all lanes."""
        self._runs.clear()
        self._strips.clear()

    def forget_lanes(self, places: Collection[int]) -> None:
        """Redraw some lanes."""
        for cache in (self._runs, self._strips):
            for key in [key for key in cache if key[0] in places]:
                del cache[key]

    def forget_labels(self) -> None:
        """Redraw all lanes, with other labels."""
        self.forget_lines()
        self._labels.clear()

    def forget_styles(self) -> None:
        """Look up the styles again."""
        self.forget_lines()
        self._styles.clear()
        self._named.clear()

    def measure(self) -> None:
        """Note the size of the widget, which Textual computes on each access, for the lines that follow."""
        self._size = self._view.size
        self._head = self._view.head

    def line(self, y: int) -> Strip:
        """Render one line."""
        view = self._view
        width, height = self._size
        if view.shown is None or view.window is None or not view.shown.lanes:
            text = view.message if y == 0 else ""
            return Strip([Segment(pad(f" {clip(text, width - 1)}", width), self._style(NO_ITEM + 1))], width)
        if y == 0:
            return self._ruler_line(view.window)
        if y == 1:
            return self._iterations_line(view.shown, view.window)
        if y == height - 1 and height >= MIN_LINES_WITH_LEGEND:
            return self._legend_line(view.shown)
        if y < self._head:
            return self._track_line(*divmod(y - HEAD_LINES, view.track_lines))
        number = y - self._head
        if number < len(view.lines):
            return self._lane_line(view.shown, view.window, number)
        return Strip.blank(width, self._combined_style(""))

    def _track_line(self, number: int, line: int) -> Strip:
        view = self._view
        track, lines = view.tracks[number], view.track_lines
        shares = view.track_shares(number)
        color = "track" if track.item_kind is None else track.item_kind.name.lower()
        drawn = area_lines(shares.tolist(), lines)[line]
        label = plain(track.name) if line == (lines - 1) // 2 else ""
        head = pad(f" {clip(label, view.label_cells - 2)}", view.label_cells)
        return Strip(
            [Segment(head, self._combined_style("ruler")), Segment(drawn, self._combined_style(color))],
            self._size.width,
        )

    def _lane_line(self, shown: ShownLanes, window: Window, number: int) -> Strip:
        view = self._view
        key = place, line, lines = view.lines[number]
        has_cursor = place == view.lane
        if not has_cursor and key in self._strips:
            return self._strips[key]
        drawn = view.drawn(place, lines)
        if line == (lines - 1) // 2:
            above = view.lines[number - line - 1][0] if number > line else None
            label = self._label_segment(shown, place, above, drawn.busy_ns, has_cursor=has_cursor)
        else:
            label = Segment(" " * view.label_cells, self._label_style(has_cursor=has_cursor and not self._is_plain))
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = self._cell_runs(shown, place, drawn, line, window)
        if has_cursor:
            return Strip([label, *self._with_cursor(runs, window.cell_at(view.cursor_ns))], self._size.width)
        strip = self._strips[key] = Strip([label, *runs.segments], self._size.width)
        return strip

    def _cell_runs(self, shown: ShownLanes, place: int, drawn: DrawnLane, line: int, window: Window) -> _CellRuns:
        view, cells = self._view, drawn.cells
        texts, of_line = drawn.lines[line]
        looks = self._style_numbers(shown, place, cells, of_line, window)
        if view.hits is not None and len(view.hits.starts):
            hits = np.zeros(len(looks), np.bool_)
            if place in view.hits.by_lane:
                hits = view.hits.by_lane[place].in_cells(window.edges())
            # An underline would have the color of its bar: fade the other items.
            looks[~hits] |= _MISS
            if view.signs is not Signs.FILLS:
                if line + 1 < len(drawn.lines):
                    # In a tall lane a match is underlined once, in the first line.
                    below = drawn.lines[line + 1][1]
                    hits = hits & (cells.solid | ((of_line == NO_ITEM) & (below != NO_ITEM)))
                looks[hits] |= _HIT
        begins = [0, *(np.flatnonzero(looks[1:] != looks[:-1]) + 1).tolist()]
        styles = looks[begins].tolist()
        segments = [
            Segment("".join(texts[first:last]), self._style(style))
            for first, last, style in zip(begins, [*begins[1:], len(looks)], styles, strict=True)
        ]
        return _CellRuns(texts, begins, styles, segments)

    def _with_cursor(self, runs: _CellRuns, cell: int) -> list[Segment]:
        """Return the segments of a line with the cursor in a cell, if it is on the screen."""
        if not 0 <= cell < len(runs.texts):
            return runs.segments
        run = bisect_right(runs.begins, cell) - 1
        style = runs.styles[run]
        last = runs.begins[run + 1] if run + 1 < len(runs.begins) else len(runs.texts)
        parts = (
            (runs.begins[run], cell, style),
            (cell, cell + 1, style | _CURSOR),
            (cell + 1, last, style),
        )
        return [
            *runs.segments[:run],
            *(Segment("".join(runs.texts[begin:end]), self._style(look)) for begin, end, look in parts if begin < end),
            *runs.segments[run + 1 :],
        ]

    def _style_numbers(
        self,
        shown: ShownLanes,
        place: int,
        cells: LaneCells,
        of_line: npt.NDArray[np.int8],
        window: Window,
    ) -> npt.NDArray[np.int64]:
        """Return the style number of each cell of a line; see `_style`."""
        view = self._view
        looks = of_line.astype(np.int64) + 1
        looks[cells.solid] |= _SOLID
        lane, shift = shown.lanes[place], view.shift(place)
        for other, item in view.links:
            if other == place:
                first = window.cell_at(int(lane.starts[item]) + shift)
                last = window.cell_at(max(int(lane.ends[item]) - 1, int(lane.starts[item])) + shift)
                looks[max(first, 0) : max(last + 1, 0)] |= _LINK
        return looks

    def _style(self, number: int) -> Style:
        style = self._styles.get(number)
        if style is None:
            style = self._combined_style("")
            look = (number & (_SOLID - 1)) - 1
            if look != NO_ITEM:
                style += self._component(ItemKind(look).name.lower())
                if number & _MISS:
                    style += self._faded(style, is_solid=bool(number & _SOLID))
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

    def _faded(self, style: Style, *, is_solid: bool) -> Style:
        """Return the style of an item that was not found: its color, faded towards the background."""
        color, ground = style.color, style.bgcolor
        if self._is_plain or color is None or ground is None or color.triplet is None or ground.triplet is None:
            return Style(dim=True)
        faded = self._component("miss")
        if services_of(self._view).color != "256":
            faded = Style(color=Color.from_triplet(blend_rgb(color.triplet, ground.triplet, MISS_SHARE)))
        # In reverse this is the color of the name.
        return faded + Style(bgcolor=self._combined_style("ruler").color) if is_solid else faded

    def _combined_style(self, name: str) -> Style:
        """Return the style of a part, combined with the widget's, cached because Textual takes long to compute it."""
        style = self._named.get(name)
        if style is None:
            style = self._named[name] = self._view.rich_style + (self._component(name) if name else Style())
        return style

    def _component(self, name: str) -> Style:
        return self._view.get_component_rich_style(f"timeline--{name}", partial=True)

    def _label_segment(
        self, shown: ShownLanes, place: int, above: int | None, busy_ns: int, *, has_cursor: bool
    ) -> Segment:
        view = self._view
        assert view.window is not None, "there are lanes"
        lane, window = shown.lanes[place], view.window
        span = min(window.last_ns, window.end_ns) - max(window.first_ns, window.begin_ns)
        share = f"{integer_percent(busy_ns, span)} "
        room = view.label_cells - SHARE_CELLS - 1
        mark = ">" if has_cursor else " "
        words = self._labels.get((place, above))
        if words is None:
            words = self._labels[place, above] = pad(
                fit_label(view.label_of(place, above), lane.tid, room - 1), room - 1
            )
        text = mark + words
        style = self._label_style(has_cursor=has_cursor)
        return Segment(text + pad(share, SHARE_CELLS + 1, right=True), style)

    @property
    def _is_plain(self) -> bool:
        """Return whether background colors are unreliable."""
        return self._view.signs is not Signs.FILLS

    def _label_style(self, *, has_cursor: bool) -> Style:
        if not has_cursor or not self._view.has_focus:
            return self._combined_style("label")
        return self._combined_style("label-reversed" if self._is_plain else "label-cursor")

    def _ruler_line(self, window: Window) -> Strip:
        view = self._view
        found = ruler(window)
        base = exact_time(found.base_ns) if found.base_ns else ""
        moments = {view.cursor_ns: "▼"}
        if view.mark_ns is not None and view.mark_ns != view.cursor_ns:
            moments[view.mark_ns] = "M"
        signs = {window.cell_at(at): sign for at, sign in moments.items()}
        line = place_labels(found.ticks, window.cells, tick="╷", signs=signs)
        return self._head_line(base, line)

    def _iterations_line(self, shown: ShownLanes, window: Window) -> Strip:
        view = self._view
        marks = view.iterations.get(shown.lanes[view.lane].session, ())
        first, last = (bisect_left(marks, at, key=itemgetter(0)) for at in (window.first_ns, window.last_ns))
        placed: list[tuple[int, str]] = []
        place = first
        while place < last:
            at, text = marks[place]
            if not text:
                place += 1
                continue
            cell = window.cell_at(at)
            placed.append((cell, text))
            # If several begin in one cell, only the first is shown.
            place = bisect_left(marks, window.first_ns + (cell + 1) * window.cell_ns, place + 1, key=itemgetter(0))
        begun = marks[first - 1][1] if first else ""
        signs = {}
        if begun and (not placed or placed[0][0] > len(begun) + 2):
            # The iteration at the left edge has no tick, since it begins earlier.
            placed.insert(0, (0, begun))
            signs[0] = " "
        line = place_labels(placed, window.cells, tick="╷", signs=signs)
        return self._head_line("iterations" if marks else "", line)

    def _head_line(self, head: str, line: Sequence[str]) -> Strip:
        style, cells = self._combined_style("ruler"), self._view.label_cells
        text = pad(clip(f" {head}", cells), cells)
        return Strip([Segment(text + "".join(line), style)], self._size.width)

    def _legend_line(self, shown: ShownLanes) -> Strip:
        """Return the legend of the styles that are on the screen."""
        view = self._view
        places = dict.fromkeys(place for place, _, _ in view.lines)
        segments, used = [Segment(" ", self._combined_style(""))], 1
        muted, width = self._combined_style("ruler"), self._size.width
        found = legend([shown.lanes[place] for place in places], view.signs)
        if sum(len(glyph_range(glyphs)) + len(words) + 3 for _, glyphs, words in found) > width - 1:
            found = legend([shown.lanes[place] for place in places], view.signs, brief=True)
        for number, (look, glyphs, words) in enumerate(found):
            sign, is_last = glyph_range(glyphs), number == len(found) - 1
            cells = len(sign) + len(words) + 3
            if used + cells + (0 if is_last else len(MORE_SIGNS)) > width:
                segments.append(Segment(MORE_SIGNS, muted))
                used += len(MORE_SIGNS)
                break
            segments += [Segment(sign, self._style(look + 1)), Segment(f" {words}  ", muted)]
            used += cells
        segments.append(Segment(" " * (width - used), muted))
        return Strip(segments, width)
