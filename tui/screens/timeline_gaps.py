"""Gaps in the lanes of a timeline: from one to the next, and the longest in a menu."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.analysis.timeline.lookup import TimeInterval, lane_of_gpu, longest_gaps, names_around
from tui.analysis.timeline.shown import title
from tui.analysis.timeline.window import distinct_times
from tui.fitting import cell_width
from tui.fmt import duration
from tui.labels import Cutter
from tui.screens.menus import MenuScreen, menu_width
from tui.screens.timeline_base import TimelineBase
from tui.text import plain
from tui.widgets.dialogs.base import open_dialog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.timeline.lookup import Gap
    from tui.model.profile import Profile
    from tui.widgets.timeline.view import TimelineView


AROUND: Final = 4
"""Cells of the menu's border and scroll bar, and a blank before the names end."""
GAPS_LISTED: Final = 100
GAP_SHARE: Final = 0.4
"""Of the screen, that a gap takes when it is gone to from the list."""


def gaps_menu(profile: Profile, view: TimelineView, gaps: Sequence[TimeInterval]) -> MenuScreen:
    """The menu; it gives the place of a gap in the list as text."""
    assert view.shown is not None, "gaps are of a lane"
    lane = view.shown.lanes[view.lane]
    arrow = " → "
    lengths = [duration(gap.length_ns) for gap in gaps]
    moments = distinct_times([gap.start_ns + view.shift(view.lane) for gap in gaps])
    begins = [plain(moment) for moment in moments]
    around = [[plain(name) for name in names_around(profile, lane, gap)] for gap in gaps]
    length_cells, begin_cells = (max(map(cell_width, texts), default=0) for texts in (lengths, begins))
    before = len(f"  {'':{length_cells}}  at {'':{begin_cells}}  ")
    room = menu_width(view.app.size.width) - AROUND - before - len(arrow)
    cutter = Cutter(lambda: list(dict.fromkeys(chain.from_iterable(around))), are_symbols=lane.on_gpu)
    lines = [
        (
            str(place),
            Content.assemble(
                (f" {length:>{length_cells}} ", "bold $accent"),
                f" at {begin:>{begin_cells}}  ",
                (arrow.join(_both(names, room, cutter)), "$text-muted"),
            ),
        )
        for place, (length, begin, names) in enumerate(zip(lengths, begins, around, strict=True))
    ]
    return MenuScreen(f"Longest gaps in {plain(title(lane))}", lines)


def _both(names: Sequence[str], room: int, cutter: Cutter) -> list[str]:
    """Two names in so many cells: what a short one leaves goes to the other."""
    half = room // 2
    shorter = min(half, *map(cell_width, names))
    return [cutter.cut(name, 2 * half - shorter) for name in names]


class TimelineGaps(TimelineBase):
    """The keys that go from gap to gap."""

    def action_next_gap(self, step: int) -> None:
        """The next gap of a cell or more, or the one before."""
        view = self.lanes
        if view.shown is None or view.window is None or not view.shown.lanes:
            return
        at_ns = view.in_gap_beside(step)
        if at_ns is None:
            self._say_below("no more gaps of a cell or longer this way: + shows shorter ones, I lists the longest")
        else:
            view.put_cursor(at_ns)

    def action_list_gaps(self) -> None:
        """The longest gaps of the lane, as soon as the lanes are there."""
        self._when_there(self._list_gaps)

    def _list_gaps(self) -> None:
        view = self.lanes
        if view.shown is None or not view.shown.lanes:
            return
        found = longest_gaps(view.shown.lanes[view.lane], GAPS_LISTED)
        if not found:
            self.explorer.say("no gap in this lane is long enough to measure")
            return

        def chosen(place: str | None) -> None:
            if place is not None:
                self._go_to_gap(found[int(place)])

        open_dialog(self.app, gaps_menu(self.profile, view, found), chosen)

    def show_gap(self, gap: Gap) -> None:
        """Show a gap of a GPU, the cursor in it, as soon as the lanes are there."""
        self._when_there(lambda: self._show_gap(gap))

    def _show_gap(self, gap: Gap) -> None:
        self._look_at_session(gap.session)
        view = self.lanes
        assert view.shown is not None, "gaps wait for the lanes"
        lane = lane_of_gpu(view.shown.lanes, gap.session, gap.device)
        if lane is not None:
            view.put_cursor(view.cursor_ns, lane=lane)
            self._go_to_gap(TimeInterval(gap.start_ns, gap.start_ns + gap.length_ns))

    def _go_to_gap(self, gap: TimeInterval) -> None:
        view = self.lanes
        shift = view.shift(view.lane)
        view.zoom_to(gap.start_ns + shift, gap.end_ns + shift, GAP_SHARE)
        view.put_cursor((gap.start_ns + gap.end_ns) // 2 + shift)
