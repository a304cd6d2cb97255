"""Names in a timeline, found and gone to one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from textual import on, work

from tui.analysis.timeline.lookup import find_name
from tui.text import plain
from tui.widgets.input_bars import FindBar

if TYPE_CHECKING:
    from tui.analysis.timeline.lookup import Hits
    from tui.analysis.timeline.shown import Shown
    from tui.model.profile import Profile


from tui.screens.timeline_base import TimelineBase


class TimelineFinding(TimelineBase):
    """The keys that find, and go to the next thing."""

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
            self._entry_done()
        else:
            self._search(self.profile, shown, text, whole)

    @work(thread=True, exclusive=True, group="timeline-find")
    def _search(self, profile: Profile, shown: Shown, text: str, whole: bool) -> None:
        hits = find_name(profile, shown, text, whole=whole)
        self.app.call_from_thread(self._found, shown, text, hits)

    def _found(self, shown: Shown, text: str, hits: Hits) -> None:
        # Other lanes may be shown by now, or another name, or none, be looked for.
        if shown is not self.lanes.shown or text != self._needle:
            self._entry_done()
            return
        self._show_hits(hits)
        if len(hits.starts):
            self._next_hit(hits, 1)
        else:
            self.explorer.say(f"{plain(self._needle)} stands nowhere here")
        self._entry_done()

    def _entry_done(self) -> None:
        self.query_one(FindBar).entry_done()

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
            self.explorer.say("went round the end")
        self._found_at = place
        view.put_on_item(int(hits.lanes[place]), int(hits.items[place]))

    @on(FindBar.Entered)
    def _find_entered(self, event: FindBar.Entered) -> None:
        self.lanes.focus()
        self.find_in_table(event.text)

    @on(FindBar.Closed)
    def _find_closed(self) -> None:
        self.lanes.focus()

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
            self.explorer.say(f"this is the {'last' if step > 0 else 'first'} in the lane")
