"""Timeline: streams of the GPUs and threads of the CPU over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from textual import on

from tui.analysis.timeline.lookup import name_of, places_of
from tui.analysis.timeline.shown import title
from tui.analysis.timeline.window import exactly
from tui.keys import Scope, bindings_for
from tui.model.columns import ColumnKind
from tui.model.history import Place
from tui.query.write import equals_filter
from tui.screens.timeline_finding import TimelineFinding
from tui.screens.timeline_gaps import TimelineGaps
from tui.state.notes import RowPlace
from tui.widgets.app_services import copy_text
from tui.widgets.details.pane import DetailPane
from tui.widgets.input_bars import FindBar
from tui.widgets.timeline.view import JUMP_SHARE, MOVE_IDS, TimelineView

if TYPE_CHECKING:
    from collections.abc import Sequence


class TimelineScreen(TimelineGaps, TimelineFinding):
    """Lanes over time, and what is under the cursor."""

    BINDINGS: ClassVar = [
        binding for binding in bindings_for(Scope.TIMELINE) if getattr(binding, "id", "") not in MOVE_IDS
    ]
    HELP: ClassVar = (
        "A cell shows what took most of its time in the lane; the less of it was busy, the lighter. Blank: a gap.\n"
        "The legend lists every glyph, from hardly busy to busy all the time.\n"
        "The % before a lane is how much of the time on the screen it was busy. Times are by the input's own clock.\n"
        "Sessions stand together where the input tells how their clocks compare; else S chooses which one is shown."
    )

    # --- details -----------------------------------------------------------------------------------------------------

    def action_toggle_detail(self) -> None:
        """Details that follow the cursor, or none."""
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
            self.lanes.focus()
        elif self.lanes.shown is not None and self.lanes.shown.lanes:
            detail.open(self.item_details())

    @on(TimelineView.Opened)
    def action_open_item(self) -> None:
        """Put the cursor on what takes most of the cell, and show its details; of a gap what is around it."""
        view = self.lanes
        if view.shown is None or not view.shown.lanes:
            return
        if view.item is not None:
            view.put_on_item(view.lane, view.item)
        self.query_one(DetailPane).open(self.item_details())

    def action_source_line(self) -> None:
        """The line of the input that the thing under the cursor comes from."""
        view = self.lanes
        if view.item is None or view.shown is None:
            self.explorer.say("nothing is on here")
            return
        lane = view.shown.lanes[view.lane]
        line = self.profile[lane.frame]["line"][int(lane.rows[view.item])]
        if line is None:
            self.explorer.say("this does not come from one line of the input", severity="warning")
        else:
            self.explorer.navigator.go_to_line(int(line), lane.session)

    def action_show_row_of(self) -> None:
        """Go to the row of what is under the cursor: the launch, or the call, range or op by its name."""
        view = self.lanes
        if view.item is None or view.shown is None:
            self.explorer.say("nothing is on here: n goes to the next")
            return
        lane = view.shown.lanes[view.lane]
        row = self.profile[lane.frame].row(int(lane.rows[view.item]), named=True)
        if lane.frame == "ops":
            # Its row there has a direction, which is that of all of its calls.
            only = equals_filter("op", row["name"], ColumnKind.TEXT)
            self.explorer.go("ops-and-kernels", lambda screen: screen.show_only(only))
        else:
            self.explorer.notes.go_to_row(_row_place(lane.frame, row))

    def action_copy_item(self) -> None:
        """Copy the name of what is under the cursor."""
        view = self.lanes
        if view.item is not None and view.shown is not None:
            name = name_of(self.profile, view.shown.lanes[view.lane], view.item)
            self.explorer.say(copy_text(self.app, name))

    def action_write_note(self) -> None:
        """Ask for a note on what is under the cursor."""
        view, place = self.lanes, self.note_place()
        if place is None or view.item is None or view.shown is None:
            self.explorer.say("nothing is on here to write a note on: n goes to the next")
            return
        lane = view.shown.lanes[view.lane]
        at = exactly(int(lane.starts[view.item]) + view.shift(view.lane))
        self.explorer.notes.write_note(place, f"{name_of(self.profile, lane, view.item)}, {title(lane)}, at {at}")

    def show_spot(self, table: str, key: Sequence[object]) -> None:
        """Go to what a note is on."""
        session = key[0]
        if isinstance(session, int):
            self._when_there(lambda: self._show_spot(table, session, key))

    def _show_spot(self, table: str, session: int, key: Sequence[object]) -> None:
        if table == "activities":
            self._show_row({"session": session, "activity": key[1]})
            return
        self._look_at_session(session)
        assert self.lanes.shown is not None, "spots wait for the lanes"
        for place, lane in enumerate(self.lanes.shown.lanes):
            if lane.frame == table and (lane.session, lane.pid, lane.tid, lane.depth) == tuple(key[:4]):
                found = np.flatnonzero(lane.starts == key[4])
                if len(found):
                    self.lanes.put_on_item(place, int(found[0]), closer=True)
                    return
        self.explorer.say("that is not there any more", severity="warning")

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
            self.explorer.say("the input does not tell what this launched or was launched by")
            return
        self.lanes.put_on_item(*self.lanes.links[0])

    # --- coming from elsewhere ---------------------------------------------------------------------------------------

    def show_whole(self) -> None:
        """Show all of the time, as soon as the lanes are there."""
        self._when_there(self.action_fit)

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
        self.explorer.say("the input does not tell when this was", severity="warning")

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


def _row_place(frame: str, row: dict[str, Any]) -> RowPlace:
    """Where the row of GPU work, of an API call or of a range is."""
    session, name = row["session"], row["name"]
    if frame == "activities":
        kernel = ("kernels", "kernels", (session, row["kind"], name))
        return RowPlace("kernels", "launches", (kernel, ("launches", "launches", (session, row["activity"]))))
    if frame == "api_calls":
        return RowPlace("api-calls", "functions", (("functions", "api", (session, name)),))
    return RowPlace("ranges", "ranges", (("ranges", "ranges_by_name", (session, row["domain"], name)),))
