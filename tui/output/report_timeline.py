"""The timeline lanes drawn as text, for reports."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tui.analysis.timeline.drawing import lane_cells, legend, whole_percent
from tui.analysis.timeline.lookup import name_of
from tui.analysis.timeline.shown import Shown, fitting_lanes, iteration_marks, label, shown_lanes, within
from tui.analysis.timeline.window import labeled, ruler, whole_window
from tui.fitting import cell_width, pad
from tui.text import plain

if TYPE_CHECKING:
    from tui.model.profile import Profile
    from tui.output.report import Style


LANES_MOST: Final = 40
"""So many lanes of a session are drawn; the deepest ranges and ops are left out first. The table has all."""
LABEL_MOST: Final = 0.35
CELLS_LEAST: Final = 20


def lane_picture(profile: Profile, style: Style) -> list[str]:
    """The lanes as on the screen, at the width of the report; sessions below each other where they do not compare."""
    shown = shown_lanes(profile)
    if not shown.lanes:
        return []
    lines = _drawn(profile, shown, style)
    for session in shown.sessions:
        if session not in shown.shifts:
            lines += ["", *_drawn(profile, shown_lanes(profile, session), style)]
    return lines


def _drawn(profile: Profile, shown: Shown, style: Style) -> list[str]:
    places = fitting_lanes(shown.lanes, LANES_MOST)[:LANES_MOST]
    labels, above = [], None
    for place in places:
        lane = shown.lanes[place]
        words = label(lane, above)
        several = len(shown.shifts) > 1 and not words.startswith(" ")
        labels.append(plain(f"{lane.session}: {words}" if several else words, ascii_only=style.ascii_only))
        above = lane
    room = min(max(map(cell_width, labels)), int(style.width * LABEL_MOST))
    cells = max(CELLS_LEAST, style.width - room - 6)
    window = whole_window(shown.begin_ns, shown.until_ns, cells, least_ns=shown.resolution_ns)
    tick = "|" if style.ascii_only else "╷"
    lines = [*style.wrapped(shown.note)] if shown.note else []
    lines.append(_line("", "", labeled(ruler(window, ascii_only=style.ascii_only).ticks, cells, tick=tick), room))
    session = shown.lanes[places[0]].session
    found = iteration_marks(profile, session, shown.shifts[session])
    marks = [(window.cell_of(at), text) for at, text in found if text]
    if marks:
        lines.append(_line("iterations", "", labeled(marks, cells, tick=tick), room))
    for place, words in zip(places, labels, strict=True):
        lane = shown.lanes[place]
        edges = window.edges() - shown.shifts[lane.session]
        drawn = lane_cells(lane, edges, partial(name_of, profile, lane), ascii_only=style.ascii_only)
        share = whole_percent(lane.segments.length, shown.end_ns - shown.begin_ns)
        shown_words = within(words, lane.tid, room, ascii_only=style.ascii_only)
        lines.append(_line(shown_words, share, drawn.texts, room))
    told = legend((shown.lanes[place] for place in places), ascii_only=style.ascii_only)
    lines += style.wrapped("  ".join(f"{glyph} {words}" for _look, glyph, words in told))
    left_out = len(shown.lanes) - len(places)
    if left_out:
        lines += style.wrapped(f"Not drawn: {left_out} more lanes of nested ranges and ops, or of other threads.")
    return lines


def _line(words: str, share: str, cells: list[str], room: int) -> str:
    return f"{pad(words, room)} {pad(share, 4, right=True)} {''.join(cells)}".rstrip()
