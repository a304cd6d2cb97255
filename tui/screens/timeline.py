"""Timeline: streams of the GPUs and threads of the CPU over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl
from textual import on, work
from textual.content import Content
from textual.widgets import Static

from tui.analysis.capabilities import missing_data_text
from tui.analysis.needs import START_TIMES
from tui.analysis.timeline.drawing import extra_symbols, legend
from tui.analysis.timeline.lookup import (
    TimeInterval,
    find_critical_path,
    find_name,
    gpu_lane,
    item_name,
    linked_rows,
    longest_gpu_work,
    longest_lane_gaps,
    row_items,
)
from tui.analysis.timeline.shown import ShownLanes, iteration_marks, lane_title, shown_lanes
from tui.analysis.timeline.window import exact_time
from tui.fmt import count
from tui.keys import Scope, bindings_for
from tui.model.columns import ColumnKind
from tui.model.history import Place
from tui.query.parse import equals_filter
from tui.screens.base import ViewScreen
from tui.screens.timeline_details import cursor_line, details_of_item, gaps_menu, window_line
from tui.state.notes import RowPlace
from tui.text import plain
from tui.widgets.app_services import call_after, copy_text
from tui.widgets.details import DetailPane, below_note
from tui.widgets.dialogs.base import open_dialog
from tui.widgets.input_bars import FindBar
from tui.widgets.table import filtering
from tui.widgets.timeline.painter import COLORS
from tui.widgets.timeline.view import JUMP_SHARE, MOVE_IDS, TimelineView, TopWork

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from tui.analysis.timeline.lookup import Gap, Hits
    from tui.model.profile import Profile
    from tui.widgets.details import Details


CRITICAL_PATH: Final = "critical path"
"""The search while the critical path is underlined."""
MAX_LISTED_GAPS: Final = 100
GAP_SHARE: Final = 0.4
"""The share of the screen that a gap takes after a jump to it from the list."""
ROW_SHARE: Final = 0.8
"""The maximum share of the screen that an iteration, range or op takes after a jump from its row."""
NAME_COLUMNS: Final = ("name", "op", "node")
"""The columns with the name of what ran: of a kernel, range or call, of an op, of a node in a tree."""
NO_ROW_POSITION: Final = "This row is not in the timeline. Press T on an op, a kernel or a launch."


class TimelineScreen(ViewScreen):
    """Lanes over time, two lines about the cursor and the visible window, and the top GPU work."""

    VIEW = "timeline"
    BINDINGS: ClassVar = [
        binding for binding in bindings_for(Scope.TIMELINE) if getattr(binding, "id", "") not in MOVE_IDS
    ]
    HELP: ClassVar = (
        "Lanes show work over time. Height is the busy share of a cell, color the kind of work; blank is a "
        "gap.\nThe % of a lane is its busy share of the visible time. Times use the clock of the "
        "profile.\nSessions are aligned if their clocks are comparable; otherwise S selects a session."
    )

    def __init__(self) -> None:
        super().__init__()
        self._session: int | None = None
        """The shown session, if sessions have no common clock."""
        self._needle = ""
        self._hit_index: int | None = None
        self._cursor_timer: TimerHandle | None = None
        self._top_work_key: tuple[Profile, ShownLanes, int, int, int] | None = None
        """What the top work was computed from."""

    def compose_body(self) -> Iterable[Widget]:
        """Yield the lanes, two lines below them, and a search bar."""
        yield TimelineView(id="lanes")
        yield TopWork(id="timeline-top")
        yield Static(id="timeline-item")
        yield Static(id="timeline-place")
        yield FindBar(id="find-bar")

    @property
    def lanes(self) -> TimelineView:
        """The lanes."""
        return self.query_one(TimelineView)

    @property
    def visible_range(self) -> tuple[int, int] | None:
        """The first and the last moment on the screen, by the ruler; None if the whole time is visible."""
        window = self.lanes.window
        return None if window is None or window.cell_ns >= window.fit_ns else (window.first_ns, window.last_ns)

    def focus_table(self) -> None:
        """Focus the lanes."""
        self.lanes.focus()

    def path(self) -> list[str]:
        """Return the shown session, if sessions are not shown together."""
        shown = self.lanes.shown if self.is_mounted else None
        if shown is None or len(shown.sessions) < 2 or len(shown.shifts) > 1:
            return []
        return [f"session {shown.lanes[0].session}, by its own clock"]

    def legend(self) -> list[tuple[str, str, str]]:
        """Return the colors or glyphs of the lanes, and the other symbols."""
        view = self.lanes
        entries = legend(view.shown.lanes if view.shown is not None else (), view.glyph_set)
        entries_with_colors = [(glyphs, label, COLORS[kind]) for kind, glyphs, label in entries]
        return entries_with_colors + [(symbol, label, "") for symbol, label in extra_symbols()]

    def item_details(self) -> Details:
        """Return the details of the item under the cursor, below the user's note on it."""
        details = details_of_item(self, self.lanes)
        place = self.item_place()
        note = self.explorer.notes.note_at(place) if place is not None else None
        return details if note is None else below_note(note.text, self.explorer.notes.note_origin(note), details)

    def item_place(self) -> RowPlace | None:
        """Return the place of a note on the item under the cursor; None if there is no item."""
        view = self.lanes
        if view.item is None or view.shown is None:
            return None
        lane = view.shown.lanes[view.lane]
        if lane.on_gpu:
            number = int(self.profile["activities"]["activity"][int(lane.rows[view.item])])
            return self.explorer.notes.place_of_item("activities", (lane.session, number))
        start_ns = int(lane.starts[view.item])
        return self.explorer.notes.place_of_item(lane.frame, (lane.session, lane.pid, lane.tid, lane.depth, start_ns))

    def show_details_again(self) -> None:
        """Refresh the details, where they are open."""
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(self.item_details())

    # --- filling -----------------------------------------------------------------------------------------------------

    def populate(self) -> None:
        """Show the lanes of the profile; for many launches they are computed in a thread."""
        self.lanes.focus()
        if not self.is_large:
            self._show_lanes(self.profile, shown_lanes(self.profile, self._session))
            return
        rows = self.profile["activities"].height + self.profile["api_calls"].height
        self.lanes.shown = None
        self.lanes.message = f"Preparing {count(rows)} launches and calls…"
        self.lanes.redraw()
        self._make_lanes(self.profile, self._session)

    def show_failure(self, text: str) -> None:
        """Remove the message that lanes are being computed."""
        if self.lanes.shown is None:
            self.lanes.message = text
            self.lanes.redraw()
        super().show_failure(text)

    @work(thread=True, exclusive=True, group="lanes", description="lanes")
    def _make_lanes(self, profile: Profile, session: int | None) -> None:
        shown = shown_lanes(profile, session)
        self.app.call_from_thread(self._show_lanes_if_current, profile, shown)

    def _show_lanes_if_current(self, profile: Profile, shown: ShownLanes) -> None:
        # The selection may have changed meanwhile.
        if profile is self.profile:
            self._show_lanes(profile, shown)

    def _show_lanes(self, profile: Profile, shown: ShownLanes) -> None:
        view = self.lanes
        view.profile, view.shown = profile, shown
        view.iterations = {session: iteration_marks(profile, session, shift) for session, shift in shown.shifts.items()}
        view.message = "" if shown.lanes else missing_data_text(profile, START_TIMES)
        view.window, view.hits, view.links, view.mark_ns, self._needle = None, None, (), None, ""
        view.lane = 0
        view.fit_width()
        if shown.lanes:
            view.select_item(0, 0)
        self._show_status()
        self._show_top_work()
        self.show_crumbs()

    @property
    def is_filling(self) -> bool:
        """Whether the lanes are still being computed."""
        return self.explorer.profile_session.is_choosing or self.lanes.shown is None

    def _show_session(self, session: int) -> None:
        """Show the lanes of a session, if they are not shown."""
        shown = self.lanes.shown
        if shown is not None and session not in shown.shifts and session in shown.sessions:
            self._session = session
            self._show_lanes(self.profile, shown_lanes(self.profile, session))

    # --- status lines -------------------------------------------------------------------------------------------------

    @on(TimelineView.Resized)
    def _resized(self) -> None:
        self._show_status()
        self._show_top_work()
        if self.lanes.shown is not None:
            self.show_details_again()

    def _show_status(self) -> None:
        # The lanes are narrower than the screen if details are beside them.
        width = max(20, self.lanes.size.width - 2)
        self._write_line(cursor_line(self.lanes, width))
        self._write_line(window_line(self.lanes, self._needle, self._hit_index, width), line="place")

    def _write_line(self, text: str, *, line: str = "item") -> None:
        """Write a line below the lanes until the cursor moves; it appears sooner than a message."""
        content = Content(plain(text))
        self.query_one(f"#timeline-{line}", Static).update(
            content,
            # Always one line.
            layout=False,
        )

    @on(TimelineView.Moved)
    def _moved(self) -> None:
        self._show_status()
        if self._cursor_timer is not None:
            self._cursor_timer.cancel()
        self._cursor_timer = call_after(self, filtering.CURSOR_DELAY_S, self._cursor_rested)

    def _show_top_work(self) -> None:
        """Show the GPU work with most time on the screen, in lines that the lanes do not need."""
        view, panel = self.lanes, self.query_one(TopWork)
        if view.shown is None or view.window is None:
            return
        # Half of the spare lines make the lanes taller. Both heights are those of the last layout: the panel may have
        # changed since.
        panel.make_room((view.size.height + panel.region.height - view.needed_lines) // 2)
        key = (self.profile, view.shown, view.window.first_ns, view.window.last_ns, panel.lines)
        if panel.lines and not self._is_current_top_work(key):
            self._top_work_key = key
            self._compute_top_work(*key[:4])

    def _is_current_top_work(self, key: tuple[Profile, ShownLanes, int, int, int]) -> bool:
        """Return whether the top work was computed for this key; objects are compared by identity."""
        former = self._top_work_key
        return former is not None and former[0] is key[0] and former[1] is key[1] and former[2:] == key[2:]

    @work(thread=True, exclusive=True, group="top work", description="top work")
    def _compute_top_work(self, profile: Profile, shown: ShownLanes, first_ns: int, last_ns: int) -> None:
        rows = longest_gpu_work(profile, shown, first_ns, last_ns)
        self.app.call_from_thread(self._show_top_rows, shown, rows)

    def _show_top_rows(self, shown: ShownLanes, rows: pl.DataFrame) -> None:
        if self.is_attached and shown is self.lanes.shown:
            self.query_one(TopWork).show(rows)

    def _cursor_rested(self) -> None:
        """Update links and details when the cursor rests."""
        self._cursor_timer = None
        self._show_top_work()
        self._find_links()
        self.show_details_again()

    def _find_links(self) -> None:
        view = self.lanes
        links: list[tuple[int, int]] = []
        if view.shown is not None and view.item is not None:
            frame, rows = linked_rows(self.profile, view.shown.lanes[view.lane], view.item)
            links = row_items(self.profile, view.shown.lanes, frame, rows) if rows else []
        if tuple(links) != view.links:
            view.show_links(tuple(links))

    # --- details -----------------------------------------------------------------------------------------------------

    def action_toggle_detail(self) -> None:
        """Show or hide details that follow the cursor."""
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
            self.lanes.focus()
        elif self.lanes.shown is not None and self.lanes.shown.lanes:
            detail.open(self.item_details())

    @on(TimelineView.Opened)
    def action_open_item(self) -> None:
        """Move the cursor to the main item of the cell, and show its details; for a gap, the work around it."""
        view = self.lanes
        if view.shown is None or not view.shown.lanes:
            return
        if view.item is not None:
            view.select_item(view.lane, view.item)
        self.query_one(DetailPane).open(self.item_details())

    def action_source_line(self) -> None:
        """Show the source line of the item under the cursor."""
        view = self.lanes
        if view.item is None or view.shown is None:
            self.explorer.say("Nothing at the cursor.")
            return
        lane = view.shown.lanes[view.lane]
        line = self.profile[lane.frame]["line"][int(lane.rows[view.item])]
        if line is None:
            self.explorer.say("This item has no single source line.", severity="warning")
        else:
            self.explorer.navigator.go_to_line(int(line), lane.session)

    def action_show_row_of(self) -> None:
        """Open the row of the item under the cursor: the launch, or the call, range or op by name."""
        view = self.lanes
        if view.item is None or view.shown is None:
            self.explorer.say("Nothing at the cursor. Press n for the next item.")
            return
        lane = view.shown.lanes[view.lane]
        row = self.profile[lane.frame].row(int(lane.rows[view.item]), named=True)
        if lane.frame == "ops":
            # The op's row has the direction of all of its calls.
            query = equals_filter("op", row["name"], ColumnKind.TEXT)
            self.explorer.go("ops-and-kernels", lambda screen: screen.show_only(query))
        else:
            self.explorer.notes.go_to_row(_row_place(lane.frame, row))

    def action_copy_item(self) -> None:
        """Copy the name of the item under the cursor."""
        view = self.lanes
        if view.item is not None and view.shown is not None:
            name = item_name(self.profile, view.shown.lanes[view.lane], view.item)
            self.explorer.say(copy_text(self.app, name))

    def action_write_note(self) -> None:
        """Ask for a note on the item under the cursor."""
        view, place = self.lanes, self.item_place()
        if place is None or view.item is None or view.shown is None:
            self.explorer.say("Nothing at the cursor. Press n for the next item, then M for a note.")
            return
        lane = view.shown.lanes[view.lane]
        time = exact_time(int(lane.starts[view.item]) + view.shift(view.lane))
        self.explorer.notes.write_note(
            place, f"{item_name(self.profile, lane, view.item)}, {lane_title(lane)}, at {time}"
        )

    def show_item(self, kind: str, key: Sequence[object]) -> None:
        """Go to the item of a note."""
        session = key[0]
        if isinstance(session, int):
            self.when_filled(lambda: self._show_item(kind, session, key))

    def _show_item(self, kind: str, session: int, key: Sequence[object]) -> None:
        if kind == "activities":
            self._show_row({"session": session, "activity": key[1]})
            return
        self._show_session(session)
        assert self.lanes.shown is not None, "items wait for the lanes"
        for lane_index, lane in enumerate(self.lanes.shown.lanes):
            if lane.frame == kind and (lane.session, lane.pid, lane.tid, lane.depth) == tuple(key[:4]):
                items = np.flatnonzero(lane.starts == key[4])
                if len(items):
                    self.lanes.select_item(lane_index, int(items[0]), zooms_in=True)
                    return
        self.explorer.say("The item is not in this profile.", severity="warning")

    # --- moving ------------------------------------------------------------------------------------------------------

    def action_zoom_in(self) -> None:
        """Zoom in."""
        self.lanes.zoom(1)

    def action_zoom_out(self) -> None:
        """Zoom out."""
        self.lanes.zoom(-1)

    def action_fit(self) -> None:
        """Show all of the time."""
        self.lanes.fit()

    def action_zoom_to(self) -> None:
        """Zoom to the measured interval, else to the item under the cursor."""
        view = self.lanes
        if view.shown is None or view.window is None:
            return
        if view.mark_ns is not None and view.mark_ns != view.cursor_ns:
            view.zoom_to(*sorted((view.mark_ns, view.cursor_ns)))
        elif view.item is not None:
            lane, shift, item = view.shown.lanes[view.lane], view.shift(view.lane), view.item
            view.zoom_to(int(lane.starts[item]) + shift, int(lane.ends[item]) + shift, JUMP_SHARE)
            view.select_item(view.lane, item)

    def action_toggle_depths(self) -> None:
        """Show ranges and ops of all depths, or as many as fit."""
        view = self.lanes
        view.all_depths = not view.all_depths
        view.redraw()
        view.scroll_to_lane()
        self._show_status()

    def action_toggle_mark(self) -> None:
        """Start measuring at the cursor, or stop."""
        view = self.lanes
        view.mark_ns = None if view.mark_ns == view.cursor_ns else view.cursor_ns
        view.redraw_styles()
        self._show_status()

    def action_other_end(self) -> None:
        """Jump between GPU work and the call that launched it."""
        self._find_links()
        if not self.lanes.links:
            self.explorer.say("The profile does not link this item to a launch.")
            return
        self.lanes.select_item(*self.lanes.links[0])

    # --- links from other views --------------------------------------------------------------------------------------

    def show_all(self) -> None:
        """Show all of the time, when the lanes are ready."""
        self.when_filled(self.action_fit)

    def show_row(self, row: dict[str, Any]) -> None:
        """Show the position of a table's row: a launch, anything with a start, or everything with its name."""
        self.when_filled(lambda: self._show_row(row))

    def _show_row(self, row: dict[str, Any]) -> None:
        if isinstance(row.get("session"), int):
            self._show_session(row["session"])
        view = self.lanes
        assert view.shown is not None, "rows wait for the lanes"
        if isinstance(row.get("activity"), int):
            rows = self.profile["activities"].select(pl.arg_where(pl.col("activity") == row["activity"])).to_series()
            positions = row_items(self.profile, view.shown.lanes, "activities", rows.to_list())
            if positions:
                view.select_item(*positions[0], zooms_in=True)
                return
        elif isinstance(row.get("start_ns"), int) and row.get("session", 0) in view.shown.shifts:
            start = row["start_ns"] + view.shown.shifts[row.get("session", 0)]
            view.zoom_to(start, start + (row.get("duration_ns") or 0), ROW_SHARE)
            return
        elif name := next((row[key] for key in NAME_COLUMNS if isinstance(row.get(key), str)), ""):
            self._start_search(name, is_exact=True)
            return
        self.explorer.say(NO_ROW_POSITION, severity="warning")

    # --- place -------------------------------------------------------------------------------------------------------

    def undo_smallest(self) -> bool:
        """Close the search bar, clear the search, then the measurement."""
        if super().undo_smallest():
            return True
        bar, view = self.query_one(FindBar), self.lanes
        if bar.is_open:
            bar.action_cancel()
        elif view.hits is not None or self._needle:
            self._start_search("", is_exact=False)
        elif view.mark_ns is not None:
            view.mark_ns = None
            view.redraw_styles()
            self._show_status()
        else:
            return False
        return True

    def place(self) -> Place:
        """Return the cursor and the visible time."""
        view = self.lanes if self.is_mounted else None
        if view is None or view.window is None or view.shown is None:
            return Place(self.VIEW)
        session = view.shown.lanes[view.lane].session
        return Place(
            self.VIEW, timeline_position=(session, view.lane, view.cursor_ns, view.window.cell_ns, view.window.first_ns)
        )

    def restore(self, place: Place) -> None:
        """Return to a cursor and a visible time."""
        if place.timeline_position:
            self.when_filled(lambda: self._restore_position(*place.timeline_position))

    def _restore_position(self, session: int, lane: int, cursor_ns: int, cell_ns: int, first_ns: int) -> None:
        self._show_session(session)
        view = self.lanes
        if view.window is None or view.shown is None or lane >= len(view.shown.lanes):
            return
        view.show_window(view.window.zoomed(cell_ns, view.cursor_ns).moved_to(first_ns))
        view.move_cursor(cursor_ns, lane=lane)

    # --- finding -----------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Open the search bar."""
        self.query_one(FindBar).open(self._needle)

    def find_in_table(self, text: str) -> None:
        """Find a name, starting at the cursor."""
        self.when_filled(lambda: self._start_search(text, is_exact=False))

    def filter_table(self, text: str) -> None:
        """Find a text, since lanes cannot be filtered."""
        self.find_in_table(text)

    def _start_search(self, text: str, *, is_exact: bool) -> None:
        shown = self.lanes.shown
        self._needle, self._hit_index = text, None
        if not text or shown is None:
            self._show_hits(None)
            self._entry_done()
        else:
            self._search(self.profile, shown, text, is_exact)

    def action_show_path(self) -> None:
        """Underline the critical paths of the iterations, or remove the underlines."""
        shown = self.lanes.shown
        if shown is None:
            return
        if self._needle == CRITICAL_PATH:
            self._start_search("", is_exact=False)
            return
        self._needle, self._hit_index = CRITICAL_PATH, None
        self._search(self.profile, shown, CRITICAL_PATH, is_exact=False, is_path=True)

    @work(thread=True, exclusive=True, group="timeline-find", description="timeline-find")
    def _search(self, profile: Profile, shown: ShownLanes, text: str, is_exact: bool, is_path: bool = False) -> None:
        hits = find_critical_path(profile, shown) if is_path else find_name(profile, shown, text, is_exact=is_exact)
        self.app.call_from_thread(self._show_search_result, shown, text, hits)

    def _show_search_result(self, shown: ShownLanes, text: str, hits: Hits) -> None:
        # The lanes or the search may have changed meanwhile.
        if shown is not self.lanes.shown or text != self._needle:
            self._entry_done()
            return
        self._show_hits(hits)
        if len(hits.starts):
            self._next_hit(hits, 1)
        else:
            self.explorer.say(f"No match for {plain(self._needle)}.")
        self._entry_done()

    def _entry_done(self) -> None:
        self.query_one(FindBar).entry_done()

    def _show_hits(self, hits: Hits | None) -> None:
        self.lanes.hits = hits
        self.lanes.redraw_styles()
        self._show_status()

    def _next_hit(self, hits: Hits, step: int) -> None:
        view = self.lanes
        selected = (view.lane, view.item) if view.has_item and view.item is not None else None
        hit = hits.step(view.cursor_ns, selected, step)
        if hit is None:
            return
        start = int(hits.starts[hit])
        if (start < view.cursor_ns) if step > 0 else (start > view.cursor_ns):
            self.explorer.say("Search wrapped.")
        self._hit_index = hit
        view.select_item(int(hits.lanes[hit]), int(hits.items[hit]))

    @on(FindBar.Entered)
    def _find_entered(self, event: FindBar.Entered) -> None:
        self.lanes.focus()
        self.find_in_table(event.text)

    @on(FindBar.Closed)
    def _find_closed(self) -> None:
        self.lanes.focus()

    def action_next_item(self, step: int) -> None:
        """Go to the next item in the lane, or the next search hit in any lane."""
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
            next_item = int(np.searchsorted(lane.starts, view.cell[0], side="left"))
            item = next_item if step > 0 else next_item - 1
        if 0 <= item < len(lane.starts):
            view.select_item(view.lane, item)
        else:
            self.explorer.say(f"{'Last' if step > 0 else 'First'} item of the lane.")

    # --- gaps --------------------------------------------------------------------------------------------------------

    def action_next_gap(self, step: int) -> None:
        """Go to the next or previous gap of at least one cell."""
        view = self.lanes
        if view.shown is None or view.window is None or not view.shown.lanes:
            return
        time_ns = view.time_in_next_gap(step)
        if time_ns is None:
            self._write_line("No more gaps of at least one cell. Press + to zoom in, I for the longest gaps.")
        else:
            view.move_cursor(time_ns)

    def action_list_gaps(self) -> None:
        """List the longest gaps of the lane, when the lanes are ready."""
        self.when_filled(self._list_gaps)

    def _list_gaps(self) -> None:
        view = self.lanes
        if view.shown is None or not view.shown.lanes:
            return
        gaps = longest_lane_gaps(view.shown.lanes[view.lane], MAX_LISTED_GAPS)
        if not gaps:
            self.explorer.say("No gaps in this lane above the resolution of the start times.")
            return

        def chosen(index: str | None) -> None:
            if index is not None:
                self._go_to_gap(gaps[int(index)])

        open_dialog(self.app, gaps_menu(self.profile, view, gaps), chosen)

    def show_longest_gaps(self, session: int | None, gap: Gap | None) -> None:
        """Show the longest gap of a GPU and the list of gaps, when the lanes are ready.

        Args:
            session: The session; None: the shown one.
            gap: The longest gap; None: that of the session's first GPU.
        """
        self.when_filled(lambda: self._show_longest_gaps(session, gap))

    def _show_longest_gaps(self, session: int | None, gap: Gap | None) -> None:
        if session is not None:
            self._show_session(session)
        view = self.lanes
        assert view.shown is not None, "gaps wait for the lanes"
        if gap is None:
            gpu_lanes = (
                lane_index
                for lane_index, lane in enumerate(view.shown.lanes)
                if lane.on_gpu and session in (None, lane.session)
            )
            lane_index = next(gpu_lanes, None)
            gaps = longest_lane_gaps(view.shown.lanes[lane_index], 1) if lane_index is not None else []
            if lane_index is None or not gaps:
                self.explorer.say("No gaps in this lane above the resolution of the start times.")
                return
            view.move_cursor(view.cursor_ns, lane=lane_index)
            self._go_to_gap(gaps[0])
        else:
            self._show_gap(gap)
        self._list_gaps()

    def show_gap(self, gap: Gap) -> None:
        """Show a gap of a GPU with the cursor in it, when the lanes are ready."""
        self.when_filled(lambda: self._show_gap(gap))

    def _show_gap(self, gap: Gap) -> None:
        self._show_session(gap.session)
        view = self.lanes
        assert view.shown is not None, "gaps wait for the lanes"
        lane = gpu_lane(view.shown.lanes, gap.session, gap.device)
        if lane is not None:
            view.move_cursor(view.cursor_ns, lane=lane)
            self._go_to_gap(TimeInterval(gap.start_ns, gap.start_ns + gap.length_ns))

    def _go_to_gap(self, gap: TimeInterval) -> None:
        view = self.lanes
        shift = view.shift(view.lane)
        view.zoom_to(gap.start_ns + shift, gap.end_ns + shift, GAP_SHARE)
        view.move_cursor((gap.start_ns + gap.end_ns) // 2 + shift)


def _row_place(frame: str, row: dict[str, Any]) -> RowPlace:
    """Return the view and filter for the row of GPU work, an API call or a range."""
    session, name = row["session"], row["name"]
    if frame == "activities":
        kernel = ("kernels", "kernels", (session, row["kind"], name))
        return RowPlace("kernels", "launches", (kernel, ("launches", "launches", (session, row["activity"]))))
    if frame == "api_calls":
        return RowPlace("api-calls", "functions", (("functions", "api", (session, name)),))
    return RowPlace("ranges", "ranges", (("ranges", "ranges_by_name", (session, row["domain"], name)),))
