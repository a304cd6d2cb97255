"""The lanes of a timeline: how they come to the screen, and what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual import on, work
from textual.content import Content
from textual.widgets import Static

from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import START_TIMES
from tui.analysis.timeline.drawing import legend, signs
from tui.analysis.timeline.lookup import linked_rows, places_of, top_of_gpus
from tui.analysis.timeline.shown import Shown, iteration_marks, shown_lanes
from tui.fmt import count
from tui.screens.base import ViewScreen
from tui.screens.timeline_item import details_of_item
from tui.text import plain
from tui.widgets.app_services import later
from tui.widgets.details.pane import DetailPane, below_note
from tui.widgets.input_bars import FindBar
from tui.widgets.output_filters import LevelText
from tui.widgets.table import filtering
from tui.widgets.timeline.lanes import HEAD
from tui.widgets.timeline.top_work import TopWork
from tui.widgets.timeline.view import TimelineView, on_screen, under_cursor

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Iterable

    import polars as pl
    from textual.widget import Widget

    from tui.model.profile import Profile
    from tui.state.notes import RowPlace
    from tui.widgets.details.pane import Details


AT_ONCE: Final = 100_000
"""Up to so many launches and calls the lanes are made before the next key is looked at; more go to a thread."""


class TimelineBase(ViewScreen):
    """Lanes over time, and two lines on what is under the cursor and what is on the screen."""

    VIEW = "timeline"

    def __init__(self) -> None:
        super().__init__()
        self._session: int | None = None
        """The session that is looked at, where they do not go together."""
        self._needle = ""
        self._found_at: int | None = None
        self._then: Callable[[], None] | None = None
        """What is to be done as soon as the lanes are there."""
        self._settling: TimerHandle | None = None
        self._top_of: tuple[Profile, Shown, int, int, int] | None = None
        """What the top work was worked out of."""

    def compose_body(self) -> Iterable[Widget]:
        """The lanes, two lines below them, and a bar to find names."""
        yield TimelineView(id="lanes")
        yield TopWork(id="timeline-top")
        yield LevelText(id="timeline-item")
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

    def signs(self) -> list[tuple[str, str]]:
        """Every glyph of its lanes, from hardly to always busy, and the other signs."""
        shown = self.lanes.shown
        found = legend(shown.lanes if shown is not None else ())
        return [(glyphs, words) for _, glyphs, words in found] + signs()

    def item_details(self) -> Details:
        """What is under the cursor, below what the user wrote on it."""
        told = details_of_item(self, self.lanes)
        place = self.note_place()
        note = self.explorer.notes.note_at(place) if place is not None else None
        return told if note is None else below_note(note.text, self.explorer.notes.note_origin(note), told)

    def note_place(self) -> RowPlace | None:
        """Where a note on what is under the cursor is kept; None where nothing is."""
        view = self.lanes
        if view.item is None or view.shown is None:
            return None
        lane = view.shown.lanes[view.lane]
        if lane.on_gpu:
            number = int(self.profile["activities"]["activity"][int(lane.rows[view.item])])
            return self.explorer.notes.note_spot("activities", (lane.session, number))
        start_ns = int(lane.starts[view.item])
        return self.explorer.notes.note_spot(lane.frame, (lane.session, lane.pid, lane.tid, lane.depth, start_ns))

    def show_details_again(self) -> None:
        """Show the details anew, where they are open."""
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(self.item_details())

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

    def show_failure(self, words: str) -> None:
        """Leave no word that the lanes are being put in order."""
        if self.lanes.shown is None:
            self.lanes.message = words
            self.lanes.redraw()
        super().show_failure(words)

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
        self._show_top_work()
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

    @on(TimelineView.Resized)
    def _resized(self) -> None:
        self._show_status()
        self._show_top_work()
        if self.lanes.shown is not None:
            self.show_details_again()

    def _show_status(self) -> None:
        # Beside details the lanes have less than the screen.
        width = max(20, self.lanes.size.width - 2)
        self._say_below(under_cursor(self.lanes, width))
        self._say_below(on_screen(self.lanes, self._needle, self._found_at, width), line="place")

    def _say_below(self, text: str, *, line: str = "item") -> None:
        """Write a line below the lanes: it stays until the cursor moves, and is there sooner than a message."""
        content = Content(plain(text))
        self.query_one(f"#timeline-{line}", Static).update(
            content,
            # One line, whatever it says.
            layout=False,
        )

    @on(TimelineView.Moved)
    def _moved(self) -> None:
        self._show_status()
        if self._settling is not None:
            self._settling.cancel()
        self._settling = later(self, filtering.SETTLED_AFTER, self._settled)

    def _show_top_work(self) -> None:
        """What takes most of the GPU time on the screen, in the lines that the lanes do not need."""
        view, panel = self.lanes, self.query_one(TopWork)
        if view.shown is None or view.window is None:
            return
        needed = HEAD + len(view.reachable()) + 2
        panel.make_room(view.size.height + panel.lines - needed)
        looked_at = (self.profile, view.shown, view.window.first_ns, view.window.last_ns, panel.lines)
        if panel.lines and not self._is_top_of(looked_at):
            self._top_of = looked_at
            self._work_out_top(*looked_at[:4])

    def _is_top_of(self, looked_at: tuple[Profile, Shown, int, int, int]) -> bool:
        """Whether the top work was worked out of this: profiles and lanes are the same objects, not equal ones."""
        known = self._top_of
        return (
            known is not None and known[0] is looked_at[0] and known[1] is looked_at[1] and known[2:] == looked_at[2:]
        )

    @work(thread=True, exclusive=True, group="top work")
    def _work_out_top(self, profile: Profile, shown: Shown, first_ns: int, last_ns: int) -> None:
        rows = top_of_gpus(profile, shown, first_ns, last_ns)
        self.app.call_from_thread(self._take_top, shown, rows)

    def _take_top(self, shown: Shown, rows: pl.DataFrame) -> None:
        if self.is_attached and shown is self.lanes.shown:
            self.query_one(TopWork).show(rows)

    def _settled(self) -> None:
        """The cursor rests: what belongs to what is under it, and its details."""
        self._settling = None
        self._show_top_work()
        self._find_links()
        self.show_details_again()

    def _find_links(self) -> None:
        view = self.lanes
        links: list[tuple[int, int]] = []
        if view.shown is not None and view.item is not None:
            frame, rows = linked_rows(self.profile, view.shown.lanes[view.lane], view.item)
            links = places_of(self.profile, view.shown.lanes, frame, rows) if rows else []
        if tuple(links) != view.links:
            view.links = tuple(links)
            view.redraw_looks()
