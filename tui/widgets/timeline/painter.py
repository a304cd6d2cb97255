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

from tui.analysis.timeline.drawing import NO_ITEM, GlyphSet, glyph_range, integer_percent, legend
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


MIN_HEAD_LINES: Final = 2
"""The lines above the lanes: the ruler and the iterations."""
SHARE_CELLS: Final = 5
"""The width of ``<1%`` and ``100%``, with a blank."""
MIN_LINES_WITH_LEGEND: Final = 12
"""From this height on, the last line explains the colors or characters."""

_IS_SOLID, _IS_HIT, _IS_LINK, _IS_CURSOR, _IS_MISS = (1 << bit for bit in range(5, 10))
"""Bits of a style number above those of the kind of item: how the cell is drawn."""

MISS_SHARE: Final = 0.65
"""The share of the background in the colors of items that were not found."""

MORE_ENTRIES: Final = "? more"
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

_STYLE_RULES: Final = {
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
PARTS: Final = tuple(_STYLE_RULES)
"""Parts with a style of their own: each is a component class of the widget."""
STYLES: Final = "\n".join(
    [
        "TimelineView { height: 1fr; }",
        *(f"TimelineView > .timeline--{name} {{ {look} }}" for name, look in _STYLE_RULES.items()),
    ]
)


@dataclass(frozen=True, slots=True)
class _CellRuns:
    """The cells of a line of a lane, in runs of one style."""

    texts: list[str]
    starts: list[int]
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
        self._head_lines = 0
        self._runs: dict[tuple[int, int, int], _CellRuns] = {}
        """Cached cells without the cursor, by lane, line and height."""
        self._strips: dict[tuple[int, int, int], Strip] = {}
        """Cached strips without the cursor, by lane, line and height."""
        self._labels: dict[tuple[int, int | None], str] = {}
        """Cached labels, by lane and the lane above."""
        self._styles: dict[int, Style] = {}
        self._part_styles: dict[str, Style] = {}

    def forget_lines(self) -> None:
        """Redraw all lanes."""
        self._runs.clear()
        self._strips.clear()

    def forget_lanes(self, indices: Collection[int]) -> None:
        """Redraw some lanes."""
        for cache in (self._runs, self._strips):
            for key in [key for key in cache if key[0] in indices]:
                del cache[key]

    def forget_labels(self) -> None:
        """Redraw all lanes, with other labels."""
        self.forget_lines()
        self._labels.clear()

    def forget_styles(self) -> None:
        """Look up the styles again."""
        self.forget_lines()
        self._styles.clear()
        self._part_styles.clear()

    def measure(self) -> None:
        """Note the size of the widget, which Textual computes on each access, for the lines that follow."""
        self._size = self._view.size
        self._head_lines = self._view.head_lines

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
        if y < self._head_lines:
            return self._track_line(*divmod(y - MIN_HEAD_LINES, view.track_lines))
        number = y - self._head_lines
        if number < len(view.lines):
            return self._lane_line(view.shown, view.window, number)
        return Strip.blank(width, self._combined_style(""))

    def _track_line(self, number: int, line: int) -> Strip:
        view = self._view
        track, lines = view.tracks[number], view.track_lines
        shares = view.track_shares(number)
        color = "track" if track.item_kind is None else track.item_kind.name.lower()
        cells = area_lines(shares.tolist(), lines)[line]
        label = plain(track.name) if line == (lines - 1) // 2 else ""
        head = pad(f" {clip(label, view.label_cells - 2)}", view.label_cells)
        return Strip(
            [Segment(head, self._combined_style("ruler")), Segment(cells, self._combined_style(color))],
            self._size.width,
        )

    def _lane_line(self, shown: ShownLanes, window: Window, number: int) -> Strip:
        view = self._view
        key = index, line, lines = view.lines[number]
        has_cursor = index == view.lane
        if not has_cursor and key in self._strips:
            return self._strips[key]
        drawn = view.drawn_lane(index, lines)
        if line == (lines - 1) // 2:
            lane_above = view.lines[number - line - 1][0] if number > line else None
            label = self._label_segment(shown, index, lane_above, drawn.busy_ns, has_cursor=has_cursor)
        else:
            label = Segment(" " * view.label_cells, self._label_style(has_cursor=has_cursor and not self._is_plain))
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = self._cell_runs(shown, index, drawn, line, window)
        if has_cursor:
            return Strip([label, *self._with_cursor(runs, window.cell_at(view.cursor_ns))], self._size.width)
        strip = self._strips[key] = Strip([label, *runs.segments], self._size.width)
        return strip

    def _cell_runs(self, shown: ShownLanes, index: int, drawn: DrawnLane, line: int, window: Window) -> _CellRuns:
        view, cells = self._view, drawn.cells
        texts, line_kinds = drawn.lines[line]
        looks = self._style_numbers(shown, index, cells, line_kinds, window)
        if view.hits is not None and len(view.hits.starts):
            hits = np.zeros(len(looks), np.bool_)
            if index in view.hits.by_lane:
                hits = view.hits.by_lane[index].in_cells(window.edges())
            # An underline would have the color of its bar: fade the other items.
            looks[~hits] |= _IS_MISS
            if view.glyph_set is not GlyphSet.FILLS:
                if line + 1 < len(drawn.lines):
                    # In a tall lane a match is underlined once, in the first line.
                    below = drawn.lines[line + 1][1]
                    hits = hits & (cells.solid | ((line_kinds == NO_ITEM) & (below != NO_ITEM)))
                looks[hits] |= _IS_HIT
        starts = [0, *(np.flatnonzero(looks[1:] != looks[:-1]) + 1).tolist()]
        styles = looks[starts].tolist()
        segments = [
            Segment("".join(texts[first_cell:end_cell]), self._style(style))
            for first_cell, end_cell, style in zip(starts, [*starts[1:], len(looks)], styles, strict=True)
        ]
        return _CellRuns(texts, starts, styles, segments)

    def _with_cursor(self, runs: _CellRuns, cell: int) -> list[Segment]:
        """Return the segments of a line with the cursor in a cell, if it is on the screen."""
        if not 0 <= cell < len(runs.texts):
            return runs.segments
        run = bisect_right(runs.starts, cell) - 1
        style = runs.styles[run]
        end_cell = runs.starts[run + 1] if run + 1 < len(runs.starts) else len(runs.texts)
        parts = (
            (runs.starts[run], cell, style),
            (cell, cell + 1, style | _IS_CURSOR),
            (cell + 1, end_cell, style),
        )
        return [
            *runs.segments[:run],
            *(
                Segment("".join(runs.texts[first_cell:end]), self._style(number))
                for first_cell, end, number in parts
                if first_cell < end
            ),
            *runs.segments[run + 1 :],
        ]

    def _style_numbers(
        self,
        shown: ShownLanes,
        index: int,
        cells: LaneCells,
        line_kinds: npt.NDArray[np.int8],
        window: Window,
    ) -> npt.NDArray[np.int64]:
        """Return the style number of each cell of a line; see `_style`."""
        view = self._view
        numbers = line_kinds.astype(np.int64) + 1
        numbers[cells.solid] |= _IS_SOLID
        lane, shift = shown.lanes[index], view.shift(index)
        for linked_lane, item in view.links:
            if linked_lane == index:
                first_cell = window.cell_at(int(lane.starts[item]) + shift)
                last_cell = window.cell_at(max(int(lane.ends[item]) - 1, int(lane.starts[item])) + shift)
                numbers[max(first_cell, 0) : max(last_cell + 1, 0)] |= _IS_LINK
        return numbers

    def _style(self, number: int) -> Style:
        style = self._styles.get(number)
        if style is None:
            style = self._combined_style("")
            kind = (number & (_IS_SOLID - 1)) - 1
            if kind != NO_ITEM:
                style += self._component(ItemKind(kind).name.lower())
                if number & _IS_MISS:
                    style += self._faded(style, is_solid=bool(number & _IS_SOLID))
            if number & _IS_HIT:
                style += self._component("hit")
            if number & _IS_LINK:
                style += self._component("link")
            reverse = bool(number & _IS_SOLID) != bool(number & _IS_LINK)
            if number & _IS_CURSOR:
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
        style = self._part_styles.get(name)
        if style is None:
            style = self._part_styles[name] = self._view.rich_style + (self._component(name) if name else Style())
        return style

    def _component(self, name: str) -> Style:
        return self._view.get_component_rich_style(f"timeline--{name}", partial=True)

    def _label_segment(
        self, shown: ShownLanes, index: int, lane_above: int | None, busy_ns: int, *, has_cursor: bool
    ) -> Segment:
        view = self._view
        assert view.window is not None, "there are lanes"
        lane, window = shown.lanes[index], view.window
        span = min(window.last_ns, window.end_ns) - max(window.first_ns, window.begin_ns)
        share = f"{integer_percent(busy_ns, span)} "
        label_cells = view.label_cells - SHARE_CELLS - 1
        cursor_mark = ">" if has_cursor else " "
        label = self._labels.get((index, lane_above))
        if label is None:
            label = self._labels[index, lane_above] = pad(
                fit_label(view.lane_label_text(index, lane_above), lane.tid, label_cells - 1), label_cells - 1
            )
        text = cursor_mark + label
        style = self._label_style(has_cursor=has_cursor)
        return Segment(text + pad(share, SHARE_CELLS + 1, right=True), style)

    @property
    def _is_plain(self) -> bool:
        """Return whether background colors are unreliable."""
        return self._view.glyph_set is not GlyphSet.FILLS

    def _label_style(self, *, has_cursor: bool) -> Style:
        if not has_cursor or not self._view.has_focus:
            return self._combined_style("label")
        return self._combined_style("label-reversed" if self._is_plain else "label-cursor")

    def _ruler_line(self, window: Window) -> Strip:
        view = self._view
        labels = ruler(window)
        base = exact_time(labels.base_ns) if labels.base_ns else ""
        moments = {view.cursor_ns: "▼"}
        if view.mark_ns is not None and view.mark_ns != view.cursor_ns:
            moments[view.mark_ns] = "M"
        marks_by_cell = {window.cell_at(time_ns): mark for time_ns, mark in moments.items()}
        line = place_labels(labels.ticks, window.cells, marks=marks_by_cell)
        return self._text_line(base, line)

    def _iterations_line(self, shown: ShownLanes, window: Window) -> Strip:
        view = self._view
        marks = view.iterations.get(shown.lanes[view.lane].session, ())
        first, last = (bisect_left(marks, time_ns, key=itemgetter(0)) for time_ns in (window.first_ns, window.last_ns))
        placed: list[tuple[int, str]] = []
        index = first
        while index < last:
            time_ns, text = marks[index]
            if not text:
                index += 1
                continue
            cell = window.cell_at(time_ns)
            placed.append((cell, text))
            # If several begin in one cell, only the first is shown.
            index = bisect_left(marks, window.first_ns + (cell + 1) * window.cell_ns, index + 1, key=itemgetter(0))
        running = marks[first - 1][1] if first else ""
        marks_by_cell = {}
        if running and (not placed or placed[0][0] > len(running) + 2):
            # The iteration at the left edge has no tick, since it begins earlier.
            placed.insert(0, (0, running))
            marks_by_cell[0] = " "
        line = place_labels(placed, window.cells, marks=marks_by_cell)
        return self._text_line("iterations" if marks else "", line)

    def _text_line(self, head: str, line: Sequence[str]) -> Strip:
        style, cells = self._combined_style("ruler"), self._view.label_cells
        text = pad(clip(f" {head}", cells), cells)
        return Strip([Segment(text + "".join(line), style)], self._size.width)

    def _legend_line(self, shown: ShownLanes) -> Strip:
        """Return the legend of the styles that are on the screen."""
        view = self._view
        indices = dict.fromkeys(index for index, _, _ in view.lines)
        segments, used = [Segment(" ", self._combined_style(""))], 1
        muted, width = self._combined_style("ruler"), self._size.width
        entries = legend([shown.lanes[index] for index in indices], view.glyph_set)
        if sum(len(glyph_range(glyphs)) + len(label) + 3 for _, glyphs, label in entries) > width - 1:
            entries = legend([shown.lanes[index] for index in indices], view.glyph_set, brief=True)
        for number, (kind, glyphs, label) in enumerate(entries):
            symbol, is_last = glyph_range(glyphs), number == len(entries) - 1
            cells = len(symbol) + len(label) + 3
            if used + cells + (0 if is_last else len(MORE_ENTRIES)) > width:
                segments.append(Segment(MORE_ENTRIES, muted))
                used += len(MORE_ENTRIES)
                break
            segments += [Segment(symbol, self._style(kind + 1)), Segment(f" {label}  ", muted)]
            used += cells
        segments.append(Segment(" " * (width - used), muted))
        return Strip(segments, width)
