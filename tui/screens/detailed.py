"""The details of the row under the cursor: of many launches they are worked out in a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from textual import on, work
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import get_current_worker

from tui.cache.parking import is_on
from tui.loaders.freed_memory import give_back
from tui.screens.painting import SparingCompositor
from tui.widgets.detail_pane import DetailPane
from tui.widgets.details import Details, below_note, row_details, sections
from tui.widgets.table_pane import TablePane
from tui.widgets.table_view import BUSY_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.css.query import DOMQuery
    from textual.dom import DOMNode
    from textual.events import ScreenResume
    from textual.timer import Timer

    from tui.app import ProftuiApp
    from tui.model.profile import Profile

ROWS_AT_ONCE: Final = 300_000
"""Of more launches than this, rows and details are made in a thread."""
WORKING: Final = "working it out…"
NOTHING_ABOVE: Final = "nothing above to select"


class DetailedScreen(Screen[None]):
    """A screen with tables, and a pane that follows the cursor of the one that keys are for."""

    _detail_request: int = 0
    _detail_said: Timer | None = None

    _styled_for: tuple[object, ...] = ()
    """All that the styles of widgets depended on when the screen was last shown, or made."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = SparingCompositor()

    def on_mount(self) -> None:
        """Remember what the styles are of: every widget has looked them up when it came."""
        self._styled_for = self._styled_by()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Have styles looked up again only where they can be others: that takes as long as to draw all."""
        event.refresh_styles = event.refresh_styles and self._styled_by() != self._styled_for

    def _styled_by(self) -> tuple[object, ...]:
        return self.app.theme, self.app.app_focus, self.app.size, self.app.classes

    @property
    def program(self) -> ProftuiApp:
        """The application, by its own type."""
        return cast("ProftuiApp", self.app)

    @property
    def profile(self) -> Profile:
        """What to show."""
        return self.program.profile

    @property
    def is_large(self) -> bool:
        """Whether making rows can take longer than a key may."""
        profile = self.profile
        return max(profile["activities"].height, profile["api_calls"].height) > ROWS_AT_ONCE

    @property
    def panes(self) -> DOMQuery[TablePane]:
        """Its tables, shown or not."""
        return self.query(TablePane)

    @property
    def is_filling(self) -> bool:
        """Whether rows of its tables are still to come."""
        return any(not worker.is_finished and self in worker.node.ancestors_with_self for worker in self.workers)

    @property
    def table(self) -> TablePane | None:
        """The table that keys and commands are for: the focused one, or the first that is shown."""
        focused: DOMNode | None = self.focused
        while focused is not None:
            if isinstance(focused, TablePane):
                return focused
            focused = focused.parent
        return next((pane for pane in self.panes if pane.display), None)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """What the details pane says of a row: every value of it, whole. Called in a thread where there is much."""
        return row_details(pane.spec, row, frame_columns=pane.frame.columns)

    @on(TablePane.DetailRequested)
    def _toggle_detail(self, event: TablePane.DetailRequested) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
        elif event.row is not None:
            if self.is_large:
                detail.open(sections([("", [("", WORKING, "")])]))
            self._make_details(event.pane, event.row, self._open_details_pane)

    def _open_details_pane(self, details: Details) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(details)
        elif not self.is_large:
            detail.open(details)

    @on(TablePane.RowHighlighted)
    def _follow_row(self, event: TablePane.RowHighlighted) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open and event.row is not None and event.pane is self.table:
            self._make_details(event.pane, event.row, detail.show)

    def show_details_again(self) -> None:
        """Show the details anew, where they are open: what was written on the row is another."""
        detail, pane = self.query_one(DetailPane), self.table
        if detail.is_open and pane is not None and pane.current_row is not None:
            self._make_details(pane, pane.current_row, detail.show)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed, the key that finds is typed like all others."""
        return not (action == "find" and isinstance(self.focused, (Input, TextArea)))

    def on_screen_suspend(self) -> None:
        """Of an input that memory may not hold, a view that is left keeps no line that it has drawn."""
        self._styled_for = self._styled_by()
        if is_on():
            for widget in self.walk_children(Widget):
                widget.refresh()
            give_back()

    # --- what takes a while ------------------------------------------------------------------------------------------

    def _make_details(self, pane: TablePane, row: dict[str, Any], take: Callable[[Details], None]) -> None:
        """Work out the details of a row, below what the user wrote on it."""
        self._detail_request += 1
        if self._detail_said is not None:
            self._detail_said.stop()
        note = self.program.note_on(pane, row)
        above = None if note is None else (note.text, self.program.note_origin(note))
        if not self.is_large:
            take(_below(above, self.details(pane, row)))
            return
        # Details that are there soon replace those of the row before without a word in between.
        self._detail_said = self.set_timer(BUSY_AFTER, partial(self._say_detail_working, self._detail_request))
        # After the picture of the move, which a thread at work would hold up.
        make = partial(self._make_in_thread, self._detail_request, pane, row, above, take)
        self.call_after_refresh(self._make_if_wanted, self._detail_request, make)

    def _make_if_wanted(self, request: int, make: Callable[[], object]) -> None:
        # Of rows that the cursor has passed nothing is worked out.
        if request == self._detail_request:
            make()

    @work(thread=True, exclusive=True, group="details")
    def _make_in_thread(
        self,
        request: int,
        pane: TablePane,
        row: dict[str, Any],
        above: tuple[str, str] | None,
        take: Callable[[Details], None],
    ) -> None:
        if get_current_worker().is_cancelled:
            return
        details = _below(above, self.details(pane, row))
        self.app.call_from_thread(self._take_details, request, details, take)

    def _say_detail_working(self, request: int) -> None:
        if request == self._detail_request:
            self.query_one(DetailPane).show(sections([("", [("", WORKING, "")])]))

    def _take_details(self, request: int, details: Details, take: Callable[[Details], None]) -> None:
        # The cursor may stand on another row by now.
        if request == self._detail_request and self.is_attached:
            self._detail_request += 1
            take(details)


def _below(note: tuple[str, str] | None, details: Details) -> Details:
    """The details of a row below the note on it."""
    return details if note is None else below_note(*note, details)
