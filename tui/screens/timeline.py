"""Timeline: streams of the GPUs and threads of the CPU over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl
from textual import on, work
from textual.content import Content
from textual.widgets import Static

from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import START_TIMES
from tui.analysis.timeline.find import find_name
from tui.analysis.timeline.marks import iteration_marks
from tui.analysis.timeline.shown import Shown, shown_lanes
from tui.analysis.timeline.under import gap_at, linked_rows, longest_gaps, name_of, next_gap, places_of
from tui.fmt import count
from tui.keys import Scope, bindings_for
from tui.model.history import Place
from tui.screens.base import ViewScreen
from tui.screens.timeline_gaps import gaps_menu
from tui.screens.timeline_item import details_of_item
from tui.text import plain
from tui.widgets import table_view
from tui.widgets.ascii_text import in_ascii
from tui.widgets.copying import copy_text
from tui.widgets.detail_pane import DetailPane
from tui.widgets.find_bar import FindBar
from tui.widgets.timeline_view import JUMP_SHARE, MOVE_IDS, TimelineView
from tui.widgets.timeline_words import on_screen, under_cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.timer import Timer
    from textual.widget import Widget

    from tui.analysis.timeline.find import Hits
    from tui.analysis.timeline.under import Stretch
    from tui.model.profile import Profile

AT_ONCE: Final = 100_000
"""Up to so many launches and calls the lanes are made before the next key is looked at; more go to a thread."""
GAPS_LISTED: Final = 100
GAP_SHARE: Final = 0.4
"""Of the screen, that a gap takes when it is gone to from the list."""


class TimelineScreen(ViewScreen):
    """Lanes over time, and what is under the cursor."""

    VIEW = "timeline"
    BINDINGS: ClassVar = [
        binding for binding in bindings_for(Scope.TIMELINE) if getattr(binding, "id", "") not in MOVE_IDS
    ]
    HELP: ClassVar = (
        "A cell shows what took most of its time in the lane; the less of it was busy, the lighter. Blank: a gap.\n"
        "The % before a lane is how much of the time on the screen it was busy. Times are by the input's own clock.\n"
        "Sessions stand together where the input tells how their clocks compare; else S chooses which one is shown."
    )

    def __init__(self) -> None:
        super().__init__()
        self._session: int | None = None
        """The session that is looked at, where they do not go together."""
        self._needle = ""
        self._found_at: int | None = None
        self._then: Callable[[], None] | None = None
        """What is to be done as soon as the lanes are there."""
        self._settling: Timer | None = None

    def compose_body(self) -> Iterable[Widget]:
        """The lanes, two lines below them, and a bar to find names."""
        yield TimelineView(id="lanes")
        yield Static(id="timeline-item")
        yield Static(id="timeline-place")
        yield FindBar(id="find-bar")

    @property
    def lanes(self) -> TimelineView:
        """The lanes."""
        return self.query_one(TimelineView)

    def focus_table(self) -> None:
        """The lanes take the keys."""
        self.lanes.focus()

    def path(self) -> list[str]:
        """Which session is shown, where they do not go together."""
        shown = self.lanes.shown if self.is_mounted else None
        if shown is None or len(shown.sessions) < 2 or len(shown.shifts) > 1:
            return []
        return [f"session {shown.lanes[0].session}, by its own clock"]

    # --- filling -----------------------------------------------------------------------------------------------------

    def populate(self) -> None:
        """Show the lanes of the profile; many launches are put in order in a thread."""
        self.lanes.focus()
        rows = self.profile["activities"].height + self.profile["api_calls"].height
        if rows <= AT_ONCE:
            self._take(self.profile, shown_lanes(self.profile, self._session))
            return
        self.lanes.shown = None
        self.lanes.message = f"putting {count(rows)} launches and calls in order…"
        self.lanes.redraw()
        self._make_lanes(self.profile, self._session)

    @work(thread=True, exclusive=True, group="lanes")
    def _make_lanes(self, profile: Profile, session: int | None) -> None:
        shown = shown_lanes(profile, session)
        self.app.call_from_thread(self._take_if_wanted, profile, shown)

    def _take_if_wanted(self, profile: Profile, shown: Shown) -> None:
        # Another session or other iterations may have been chosen meanwhile.
        if profile is self.profile:
            self._take(profile, shown)

    def _take(self, profile: Profile, shown: Shown) -> None:
        view = self.lanes
        view.profile, view.shown = profile, shown
        view.iterations = {session: iteration_marks(profile, session, shift) for session, shift in shown.shifts.items()}
        view.message = "" if shown.lanes else why_none(profile, START_TIMES)
        view.window, view.hits, view.links, view.mark_ns, self._needle = None, None, (), None, ""
        view.lane = 0
        view.fit_width()
        if shown.lanes:
            view.put_on_item(0, 0)
        self._show_status()
        self.show_crumbs()
        then, self._then = self._then, None
        if then is not None:
            then()

    def _when_there(self, do: Callable[[], None]) -> None:
        """Do something now, or as soon as the lanes are there."""
        if self.lanes.window is not None and self.lanes.shown is not None:
            do()
        else:
            self._then = do

    def _look_at_session(self, session: int) -> None:
        """Show the lanes of a session, if they are not there."""
        shown = self.lanes.shown
        if shown is not None and session not in shown.shifts and session in shown.sessions:
            self._session = session
            self._take(self.profile, shown_lanes(self.profile, session))

    # --- what is said ------------------------------------------------------------------------------------------------

    def _show_status(self) -> None:
        width = max(20, self.size.width - 2)
        for name, text in (
            ("item", under_cursor(self.lanes, width)),
            ("place", on_screen(self.lanes, self._needle, self._found_at, width)),
        ):
            content = Content(plain(text))
            self.query_one(f"#timeline-{name}", Static).update(
                in_ascii(content) if self.program.ascii_only else content
            )

    @on(TimelineView.Moved)
    def _moved(self) -> None:
        self._show_status()
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(table_view.SETTLED_AFTER, self._settled)

    def _settled(self) -> None:
        """The cursor rests: what belongs to what is under it, and its details."""
        self._settling = None
        self._find_links()
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(details_of_item(self, self.lanes))

    def _find_links(self) -> None:
        view = self.lanes
        links: list[tuple[int, int]] = []
        if view.shown is not None and view.item is not None:
            frame, rows = linked_rows(self.profile, view.shown.lanes[view.lane], view.item)
            links = places_of(self.profile, view.shown.lanes, frame, rows) if rows else []
        if tuple(links) != view.links:
            view.links = tuple(links)
            view.redraw_looks()

    # --- details -----------------------------------------------------------------------------------------------------

    def action_toggle_detail(self) -> None:
        """Details that follow the cursor, or none."""
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
            self.lanes.focus()
        elif self.lanes.shown is not None and self.lanes.shown.lanes:
            detail.open(details_of_item(self, self.lanes))

    @on(TimelineView.Opened)
    def action_open_item(self) -> None:
        """Put the cursor on what takes most of the cell, and show its details."""
        view = self.lanes
        if view.item is None:
            self.program.say("nothing is on here: n goes to the next")
            return
        view.put_on_item(view.lane, view.item)
        self.query_one(DetailPane).open(details_of_item(self, view))

    def action_source_line(self) -> None:
        """The line of the input that the thing under the cursor comes from."""
        view = self.lanes
        if view.item is None or view.shown is None:
            self.program.say("nothing is on here")
            return
        lane = view.shown.lanes[view.lane]
        line = self.profile[lane.frame]["line"][int(lane.rows[view.item])]
        if line is None:
            self.program.say("this does not come from one line of the input", severity="warning")
        else:
            self.program.go_to_line(int(line), lane.session)

    def action_copy_item(self) -> None:
        """Copy the name of what is under the cursor."""
        view = self.lanes
        if view.item is not None and view.shown is not None:
            name = name_of(self.profile, view.shown.lanes[view.lane], view.item)
            self.program.say(copy_text(self.app, name))

    # --- moving ------------------------------------------------------------------------------------------------------

    def action_zoom_in(self) -> None:
        """Closer."""
        self.lanes.zoom(1)

    def action_zoom_out(self) -> None:
        """Away."""
        self.lanes.zoom(-1)

    def action_fit(self) -> None:
        """All of the time."""
        self.lanes.fit()

    def action_zoom_to(self) -> None:
        """As close as what was measured, else as what is under the cursor."""
        view = self.lanes
        if view.shown is None or view.window is None:
            return
        if view.mark_ns is not None and view.mark_ns != view.cursor_ns:
            view.zoom_to(*sorted((view.mark_ns, view.cursor_ns)))
        elif view.item is not None:
            lane, shift, item = view.shown.lanes[view.lane], view.shift(view.lane), view.item
            view.zoom_to(int(lane.starts[item]) + shift, int(lane.ends[item]) + shift, JUMP_SHARE)
            view.put_on_item(view.lane, item)

    def action_toggle_depths(self) -> None:
        """Ranges and ops of all depths, or as many as fit."""
        view = self.lanes
        view.all_depths = not view.all_depths
        view.redraw()
        view.keep_lane_in_view()
        self._show_status()

    def action_toggle_mark(self) -> None:
        """Measure from here; again: no more."""
        view = self.lanes
        view.mark_ns = None if view.mark_ns == view.cursor_ns else view.cursor_ns
        view.redraw_looks()
        self._show_status()

    def action_other_end(self) -> None:
        """From GPU work to the call that launched it, and back."""
        self._find_links()
        if not self.lanes.links:
            self.program.say("the input does not tell what this launched or was launched by")
            return
        self.lanes.put_on_item(*self.lanes.links[0])

    def action_next_item(self, step: int) -> None:
        """The next thing in the lane, or the next occurrence of what was found in any lane."""
        view = self.lanes
        if view.shown is None or not view.shown.lanes:
            return
        if view.hits is not None:
            self._next_hit(view.hits, step)
            return
        lane = view.shown.lanes[view.lane]
        if view.item is not None:
            item = view.item + step
        else:
            after = int(np.searchsorted(lane.starts, view.cell[0], side="left"))
            item = after if step > 0 else after - 1
        if 0 <= item < len(lane.starts):
            view.put_on_item(view.lane, item)
        else:
            self.program.say(f"this is the {'last' if step > 0 else 'first'} in the lane")

    # --- gaps --------------------------------------------------------------------------------------------------------

    def action_next_gap(self, step: int) -> None:
        """The next gap of a cell or more, or the one before."""
        view = self.lanes
        if view.shown is None or view.window is None or not view.shown.lanes:
            return
        lane, shift = view.shown.lanes[view.lane], view.shift(view.lane)
        at = view.cursor_ns - shift
        here = gap_at(lane, at)
        gap = next_gap(lane, here.start_ns if here is not None else at, step, least_ns=view.window.cell_ns)
        if gap is None:
            self.program.say("no more gaps of a cell or longer this way: + shows shorter ones, I lists the longest")
            return
        view.put_cursor(min(gap.start_ns + view.window.cell_ns, (gap.start_ns + gap.end_ns) // 2) + shift)

    def action_list_gaps(self) -> None:
        """The longest gaps of the lane."""
        view = self.lanes
        if view.shown is None or not view.shown.lanes:
            return
        found = longest_gaps(view.shown.lanes[view.lane], GAPS_LISTED)
        if not found:
            self.program.say("no gap in this lane is long enough to be told")
            return

        def chosen(place: str | None) -> None:
            if place is not None:
                self._go_to_gap(found[int(place)])

        self.app.push_screen(gaps_menu(self.profile, view, found), chosen)

    def _go_to_gap(self, gap: Stretch) -> None:
        view = self.lanes
        shift = view.shift(view.lane)
        view.zoom_to(gap.start_ns + shift, gap.end_ns + shift, GAP_SHARE)
        view.put_cursor((gap.start_ns + gap.end_ns) // 2 + shift)

    # --- finding -----------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Type a name to find."""
        self.query_one(FindBar).open(self._needle)

    def find_in_table(self, text: str) -> None:
        """Find a name, from the cursor on."""
        self._when_there(lambda: self._begin_to_find(text, whole=False))

    def filter_table(self, text: str) -> None:
        """Nothing is left out here: what is looked for is found."""
        self.find_in_table(text)

    def _begin_to_find(self, text: str, *, whole: bool) -> None:
        shown = self.lanes.shown
        self._needle, self._found_at = text, None
        if not text or shown is None:
            self._show_hits(None)
        else:
            self._search(self.profile, shown, text, whole)

    @work(thread=True, exclusive=True, group="timeline-find")
    def _search(self, profile: Profile, shown: Shown, text: str, whole: bool) -> None:
        hits = find_name(profile, shown, text, whole=whole)
        self.app.call_from_thread(self._found, shown, hits)

    def _found(self, shown: Shown, hits: Hits) -> None:
        if shown is not self.lanes.shown:
            return
        self._show_hits(hits)
        if len(hits.starts):
            self._next_hit(hits, 1)
        else:
            self.program.say(f"{plain(self._needle)} stands nowhere here")

    def _show_hits(self, hits: Hits | None) -> None:
        self.lanes.hits = hits
        self.lanes.redraw_looks()
        self._show_status()

    def _next_hit(self, hits: Hits, step: int) -> None:
        view = self.lanes
        here = (view.lane, view.item) if view.is_on_item and view.item is not None else None
        place = hits.step(view.cursor_ns, here, step)
        if place is None:
            return
        start = int(hits.starts[place])
        if (start < view.cursor_ns) if step > 0 else (start > view.cursor_ns):
            self.program.say("went round the end")
        self._found_at = place
        view.put_on_item(int(hits.lanes[place]), int(hits.items[place]))

    @on(FindBar.Entered)
    def _find_entered(self, event: FindBar.Entered) -> None:
        self.lanes.focus()
        self.find_in_table(event.text)

    @on(FindBar.Closed)
    def _find_closed(self) -> None:
        self.lanes.focus()

    # --- coming from elsewhere ---------------------------------------------------------------------------------------

    def show_row(self, row: dict[str, Any]) -> None:
        """Show the place of a table's row: a launch, anything with a start, or all that has its name."""
        self._when_there(lambda: self._show_row(row))

    def _show_row(self, row: dict[str, Any]) -> None:
        if isinstance(row.get("session"), int):
            self._look_at_session(row["session"])
        view = self.lanes
        assert view.shown is not None, "rows wait for the lanes"
        if isinstance(row.get("activity"), int):
            rows = self.profile["activities"].select(pl.arg_where(pl.col("activity") == row["activity"])).to_series()
            places = places_of(self.profile, view.shown.lanes, "activities", rows.to_list())
            if places:
                view.put_on_item(*places[0], closer=True)
                return
        elif isinstance(row.get("start_ns"), int) and row.get("session", 0) in view.shown.shifts:
            start = row["start_ns"] + view.shown.shifts[row.get("session", 0)]
            view.zoom_to(start, start + (row.get("duration_ns") or 0), JUMP_SHARE)
            return
        elif isinstance(row.get("name"), str):
            self._begin_to_find(row["name"], whole=True)
            return
        self.program.say("the input does not tell when this was", severity="warning")

    # --- place -------------------------------------------------------------------------------------------------------

    def undo_smallest(self) -> bool:
        """Close the bar, forget what was found, then what was measured."""
        if super().undo_smallest():
            return True
        bar, view = self.query_one(FindBar), self.lanes
        if bar.is_open:
            bar.action_leave()
        elif view.hits is not None or self._needle:
            self._begin_to_find("", whole=False)
        elif view.mark_ns is not None:
            view.mark_ns = None
            view.redraw_looks()
            self._show_status()
        else:
            return False
        return True

    def place(self) -> Place:
        """The cursor, and what is on the screen."""
        view = self.lanes if self.is_mounted else None
        if view is None or view.window is None or view.shown is None:
            return Place(self.VIEW)
        session = view.shown.lanes[view.lane].session
        return Place(self.VIEW, spot=(session, view.lane, view.cursor_ns, view.window.cell_ns, view.window.first_ns))

    def restore(self, place: Place) -> None:
        """Return to a cursor and a part of the time."""
        if place.spot:
            self._when_there(lambda: self._return_to(*place.spot))

    def _return_to(self, session: int, lane: int, cursor_ns: int, cell_ns: int, first_ns: int) -> None:
        self._look_at_session(session)
        view = self.lanes
        if view.window is None or view.shown is None or lane >= len(view.shown.lanes):
            return
        view.look_at(view.window.zoomed(cell_ns, view.cursor_ns).moved_to(first_ns))
        view.put_cursor(cursor_ns, lane=lane)
