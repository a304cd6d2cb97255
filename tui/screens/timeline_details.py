"""Texts of the timeline: the item under the cursor, the visible window, details, and the menu of gaps."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.analysis.gpu_time.host_calls import NO_CALL, calls_during
from tui.analysis.timeline.drawing import glyph_range, integer_percent
from tui.analysis.timeline.lanes import TITLES, ItemKind
from tui.analysis.timeline.lookup import gap_at, item_name, items_at, lane_activity, names_around, names_in_slice
from tui.analysis.timeline.shown import lane_title
from tui.analysis.timeline.window import distinct_times, exact_time, time_in_cell_precision
from tui.fmt import brief_duration, count, duration, step
from tui.labels import Cutter
from tui.model.columns import columns
from tui.model.table_spec import TableSpec
from tui.screens.kernels import details_of_launch
from tui.screens.menus import MenuScreen, menu_width
from tui.text import plain, plural
from tui.text_width import cell_width, clip, shorten_symbol
from tui.widgets.details import LABEL_GAP, Details, row_details, sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.timeline.lanes import Lane
    from tui.analysis.timeline.lookup import TimeInterval
    from tui.model.profile import Profile
    from tui.screens.base import ViewScreen
    from tui.widgets.details import Line
    from tui.widgets.timeline.view import TimelineView


SEPARATOR: Final = " · "
MIN_NAME_CELLS: Final = 16
"""The minimum width of a name beside its facts."""
MAX_NAMES: Final = 6
NAME_CELLS: Final = 40
ITEM: Final = TableSpec("item", "Item", columns("name", "duration_ns", "start_ns"), key=())
"""The first facts of a call, an op or a range; the rest of its row follows."""


BORDER_CELLS: Final = 4
"""The width of the menu's border and scroll bar, and of the blank after the names."""


def cursor_line(view: TimelineView, width: int) -> str:
    """Return the item under the cursor with start and duration, or the gap."""
    shown, window, profile = view.shown, view.window, view.profile
    if shown is None or window is None or profile is None or not shown.lanes:
        return ""
    lane, item, (first, last) = shown.lanes[view.lane], view.item, view.cell
    if item is None:
        gap = gap_at(lane, first) or gap_at(lane, (first + last) // 2)
        if gap is None:
            return clip(f"no work here in {lane_title(lane)}", width)
        start_time = exact_time(gap.start_ns + view.shift(view.lane))
        return clip(f"gap of {brief_duration(gap.length_ns)} from {start_time} in {lane_title(lane)}", width)
    start = int(lane.starts[item])
    facts = [f"at {exact_time(start + view.shift(view.lane))}", duration(int(lane.ends[item]) - start)]
    items = items_at(lane, first, last)
    position_text = short_position = ""
    if len(items) > 1:
        position = f"{count(int((items < item).sum()) + 1)} of {count(len(items))}"
        longest = "" if view.has_item else ", the longest"
        position_text, short_position = f"{position} in this cell{longest}", f"{position} here{longest}"
    # Without room the lane is dropped first: a > marks it on the screen.
    wordings = ((position_text, lane_title(lane)), (position_text,), (short_position,))
    ends = [SEPARATOR.join(["", *filter(None, (*facts, *facts_more))]) for facts_more in wordings]
    name = item_name(profile, lane, item)

    def short(room: int) -> str:
        return shorten_symbol(name, room) if lane.on_gpu else clip(name, room)

    min_name_cells = cell_width(short(MIN_NAME_CELLS))
    end = next((end for end in ends if min_name_cells + cell_width(end) <= width), ends[-1])
    return clip(short(max(MIN_NAME_CELLS, width - cell_width(end))) + end, width)


def window_line(view: TimelineView, needle: str, hit_index: int | None, width: int) -> str:
    """Return the visible time, the time per cell, measurement, search, and what is hidden.

    If there is not enough room, the least important parts are dropped.
    """
    shown, window = view.shown, view.window
    if shown is None or window is None or not shown.lanes:
        return ""
    parts: list[tuple[int, str]] = []
    if needle and view.hits is not None:
        position = "" if hit_index is None else f"{count(hit_index + 1)}/"
        parts.append(
            (1, f"find {clip(needle, max(MIN_NAME_CELLS, width // 4))} {position}{count(len(view.hits.starts))}")
        )
    if view.mark_ns is not None:
        low, high = sorted((view.mark_ns, view.cursor_ns))
        lane, shift = shown.lanes[view.lane], view.shift(view.lane)
        part = lane_activity(lane, low - shift, high - shift)
        busy = (
            f", busy {integer_percent(part.busy_ns, high - low)}, {count(part.started)} started" if high > low else ""
        )
        parts.append((1, f"M to here {brief_duration(high - low)}{busy}"))
    cell = window.cell_ns
    first, last = max(window.first_ns, window.begin_ns), min(window.last_ns, window.end_ns)
    parts += [
        (2, f"{time_in_cell_precision(first, cell)} to {time_in_cell_precision(last, cell)}"),
        (1, f"{brief_duration(cell)} per cell"),
    ]
    if shown.resolution_ns > 1:
        parts.append((3, f"start times rounded to {step(shown.resolution_ns)}"))
    if shown.note:
        parts.append((4, shown.note))
    if view.hidden_lanes:
        parts.append((5, f"x: show {plural(view.hidden_lanes, 'nested lane')}"))
    while len(parts) > 1 and cell_width(SEPARATOR.join(text for _, text in parts)) > width:
        parts.remove(max(parts, key=lambda part: part[0]))
    return SEPARATOR.join(text for _, text in parts)


def details_of_item(screen: ViewScreen, view: TimelineView) -> Details:
    """Return the details of an item: launch configuration or row; for a cell of several items their names."""
    shown = view.shown
    if shown is None or not shown.lanes:
        return Details(())
    lane, item, (first, last) = shown.lanes[view.lane], view.item, view.cell
    if item is None:
        return sections([(f"Nothing in {lane_title(lane)}", _gap_lines(screen.profile, view, lane, first))])
    row = int(lane.rows[item])
    kind = ItemKind(int(lane.item_kinds[item]))
    glyphs = glyph_range(view.glyph_set.glyphs(kind))
    if lane.on_gpu:
        details = details_of_launch(screen, int(screen.profile["activities"]["activity"][row]))
    else:
        frame = screen.profile[lane.frame]
        details = row_details(ITEM, frame.row(row, named=True), frame=frame)
    labels = max((indent for indent, _ in details.lines), default=0)
    glyph_lines = sections([("", [("Drawn as".ljust(labels - LABEL_GAP), glyphs, TITLES[kind])])])
    details = Details((*details.lines, *glyph_lines.lines))
    if view.has_item or len(items_at(lane, first, last)) == 1:
        return details
    return Details(
        (
            *_items_in_cell(screen, lane, first, last).lines,
            *sections([("Longest", [("", "", "")])]).lines,
            *details.lines,
        )
    )


def _gap_lines(profile: Profile, view: TimelineView, lane: Lane, time_ns: int) -> list[Line]:
    gap = gap_at(lane, time_ns)
    if gap is None:
        return [("", "before the first item, after the last, or shorter than the resolution of the start times", "")]
    shift = view.shift(view.lane)
    name_before, name_after = names_around(profile, lane, gap)
    return [
        ("Gap", duration(gap.length_ns), ""),
        ("From", exact_time(gap.start_ns + shift), ""),
        ("To", exact_time(gap.end_ns + shift), ""),
        # Above the names, which can take many lines.
        *_cpu_lines(profile, lane, gap),
        ("Ran before", name_before, ""),
        ("Ran after", name_after, ""),
    ]


def _cpu_lines(profile: Profile, lane: Lane, gap: TimeInterval) -> list[Line]:
    """Return what the CPU did in a gap of a GPU, if API calls are recorded."""
    if not lane.on_gpu:
        return []
    calls = calls_during(profile, session=lane.session, start_ns=gap.start_ns, end_ns=gap.end_ns)
    if calls is None:
        return []
    if calls["cpu_in"] == NO_CALL:
        return [("CPU", NO_CALL, f"API calls: {duration(calls['api_ns'])} of it" if calls["api_ns"] else "")]
    if calls["call"] is None:
        return [("CPU", calls["cpu_in"], "")]
    return [("CPU", calls["call"], f"{calls['cpu_in']}, {duration(calls['call_ns'])}")]


def _items_in_cell(screen: ViewScreen, lane: Lane, start_ns: int, end_ns: int) -> Details:
    names = names_in_slice(screen.profile, lane, start_ns, end_ns)
    lines: list[Line] = [
        (f"{count(number)} x", shorten_symbol(name or "", NAME_CELLS), duration(time_ns))
        for name, number, time_ns in names.head(MAX_NAMES).iter_rows()
    ]
    if names.height > MAX_NAMES:
        other_names = names[MAX_NAMES:]
        lines.append(
            (
                f"{count(int(other_names['count'].sum()))} x",
                f"{count(other_names.height)} other names",
                duration(int(other_names["time_ns"].sum())),
            )
        )
    return sections([(f"{count(int(names['count'].sum()))} in this cell of {duration(end_ns - start_ns)}", lines)])


def gaps_menu(profile: Profile, view: TimelineView, gaps: Sequence[TimeInterval]) -> MenuScreen:
    """Return the menu; its result is the index of a gap in the list as text."""
    assert view.shown is not None, "gaps belong to a lane"
    lane = view.shown.lanes[view.lane]
    arrow = " → "
    lengths = [duration(gap.length_ns) for gap in gaps]
    # Digits below a microsecond do not help to locate the gap.
    moments = distinct_times([round(gap.start_ns + view.shift(view.lane), -3) for gap in gaps])
    start_times = [plain(moment) for moment in moments]
    neighbors = [[plain(name) for name in names_around(profile, lane, gap)] for gap in gaps]
    length_cells, start_cells = (max(map(cell_width, texts), default=0) for texts in (lengths, start_times))
    prefix_cells = len(f"  {'':{length_cells}}  at {'':{start_cells}}  ")
    names_cells = menu_width(view.app.size.width) - BORDER_CELLS - prefix_cells - len(arrow)
    cutter = Cutter(lambda: list(dict.fromkeys(chain.from_iterable(neighbors))), are_symbols=lane.on_gpu)
    lines = [
        (
            str(index),
            Content.assemble(
                (f" {length:>{length_cells}} ", "bold $accent"),
                f" at {start_time:>{start_cells}}  ",
                (arrow.join(_shorten_pair(names, names_cells, cutter)), "$text-muted"),
            ),
        )
        for index, (length, start_time, names) in enumerate(zip(lengths, start_times, neighbors, strict=True))
    ]
    return MenuScreen(f"Longest gaps in {plain(lane_title(lane))}", lines)


def _shorten_pair(names: Sequence[str], width: int, cutter: Cutter) -> list[str]:
    """Shorten two names to a common width; a short one leaves room to the other."""
    half = width // 2
    shorter = min(half, *map(cell_width, names))
    return [cutter.cut(name, 2 * half - shorter) for name in names]
