"""Tabs of linked tables: one tab is shown at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on

from tui.screens.base import ViewBody
from tui.screens.linked_tables import CURRENT, Level, LinkedTables
from tui.widgets.header_footer import TabBar
from tui.widgets.panel import Draw, HeadLines
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from tui.model.profile import Profile
    from tui.model.table_spec import TableState


def always_available(_profile: Profile) -> str:
    """Return an empty text: the tables of the tab explain why they are empty."""
    return ""


def no_head(_profile: Profile) -> Draw | None:
    """Return None: nothing is drawn above the tables."""
    return None


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab of a view."""

    name: str
    """The name, as ``ranks``."""
    title: str
    """Its name for people."""
    levels: tuple[Level, ...]
    """Its tables; the names of levels are unique over all tabs of the view."""
    why_not: Callable[[Profile], str] = always_available
    """Why the input cannot feed it, found without computing rows; empty if it can."""
    head: Callable[[Profile], Draw | None] = no_head
    """The lines above the tables."""


class TabbedTables(ViewBody):
    """Tabs on a line, with the tables of the selected tab below.

    Args:
        tabs: The tabs.
    """

    DEFAULT_CSS = """
    TabbedTables TablePane.-other-tab { display: none; }
    """

    def __init__(self, tabs: Sequence[Tab]) -> None:
        super().__init__()
        self.tabs = tuple(tabs)
        self.tables = LinkedTables(self.tabs[0].levels)
        self._index = 0
        """The place of the tab that is shown."""
        self._entry_index = 0
        """The tab in which a link from another view ended: leaving it leaves the view."""
        self._filled: set[str] = set()
        """The names of the tabs that show the current profile."""
        self._current_levels: dict[str, int] = {}
        self._pending_states: dict[str, TableState] = {}
        """How tables were left of tabs that have not been shown yet, by the ids of their panes."""

    def compose(self) -> ComposeResult:
        """Yield the tabs, the head, and the tables of the current tab."""
        if len(self.tabs) > 1:
            yield TabBar([tab.title for tab in self.tabs], id="parts")
        yield HeadLines(id="head")
        yield self.tables

    @property
    def tab(self) -> Tab:
        """The tab that is shown."""
        return self.tabs[self._index]

    @property
    def table(self) -> TablePane | None:
        """The table of the current level."""
        return self.tables.table

    def populate(self) -> None:
        """Fill the current tab; others are filled when they are shown."""
        profile = self.view.profile
        self._filled.clear()
        self.tables.clear_selections()
        if self._index == 0 and self.tab.why_not(profile):
            self._entry_index = self._index = self._first_index()
        self._show(self._index)

    def show_tab(self, name: str) -> None:
        """Show the tab with a name, for links from other views."""
        self._entry_index = next(index for index, tab in enumerate(self.tabs) if tab.name == name)
        self._show(self._entry_index)

    def step(self, step: int) -> None:
        """Show the next tab (1) or the previous one (-1), wrapping around."""
        self._show((self._index + step) % len(self.tabs))

    def show_first_tab(self) -> None:
        """Show the initial tab."""
        self._entry_index = self._first_index()
        if self._index != self._entry_index:
            self._show(self._entry_index)

    def _first_index(self) -> int:
        """Return the place of the first tab that the input feeds."""
        return next((index for index, tab in enumerate(self.tabs) if not tab.why_not(self.view.profile)), 0)

    def _show(self, index: int) -> None:
        tables, profile = self.tables, self.view.profile
        self._current_levels[self.tab.name] = tables.current
        if tables.is_computing_rows and index != self._index:
            # Do not wait for pending rows: they are computed when the tab is shown again.
            self._filled.discard(self.tab.name)
            tables.clear_selections()
        self._index = index
        tables.switch(self.tab.levels, self._current_levels.get(self.tab.name, 0))
        for pane in tables.make_panes():
            state = self._pending_states.pop(pane.id or "", None)
            if state is not None:
                pane.state = state
            self.view.explorer.navigator.widgets_created()
        level_names = {level.name for level in tables.levels}
        for pane in tables.query_children(TablePane):
            pane.set_class(pane.id not in level_names, "-other-tab")
            pane.remove_class(CURRENT)
        for bar in self.query(TabBar):
            bar.show(index, [not tab.why_not(profile) for tab in self.tabs])
        self._show_head()
        if self.tab.name not in self._filled:
            self._filled.add(self.tab.name)
            tables.current = 0
            tables.fill(0)
        tables.show_level(tables.current)

    @on(TabBar.Chosen)
    def _tab_chosen(self, event: TabBar.Chosen) -> None:
        event.stop()
        self._show(event.index)

    def show_failure(self, text: str) -> None:
        """Show why rows could not be computed."""
        self.tables.show_failure(text)

    # --- lines above the tables --------------------------------------------------------------------------------------

    def _show_head(self) -> None:
        head, profile = self.query_one(HeadLines), self.view.profile
        if self.tab.head is no_head:
            head.show(None)
        elif self.view.is_large:
            head.show(None)
            compute = partial(self._compute_head, self.tab, profile)
            self.run_worker(compute, thread=True, exclusive=True, group="head")
        else:
            head.show(self.tab.head(profile))

    def _compute_head(self, tab: Tab, profile: Profile) -> None:
        draw = tab.head(profile)
        self.app.call_from_thread(self._show_computed_head, tab, profile, draw)

    def _show_computed_head(self, tab: Tab, profile: Profile, draw: Draw | None) -> None:
        if self.is_attached and tab is self.tab and profile is self.view.profile:
            self.query_one(HeadLines).show(draw)

    # --- position ----------------------------------------------------------------------------------------------------

    @property
    def is_filling(self) -> bool:
        """Whether rows of its tables are still being computed."""
        return self.tables.is_filling

    @property
    def has_level_above(self) -> bool:
        """Whether there is a level above, or a tab to go back to."""
        return self.tables.has_level_above or self._index not in (0, self._entry_index)

    def leave_level(self) -> bool:
        """Go one level up, or back to the first tab."""
        if self.tables.leave_level():
            return True
        if not self.has_level_above:
            return False
        self._show(self._entry_index)
        return True

    def path(self) -> list[str]:
        """Return the tab, unless it is the first, and the opened rows."""
        return [*([self.tab.title] if self._index else []), *self.tables.path()]

    @property
    def level(self) -> str:
        """The name of the level that the user is on."""
        return self.tables.level

    def restore_tab(self, level: str) -> None:
        """Return to the tab that a table is in."""
        for index, tab in enumerate(self.tabs):
            if index != self._index and level in {listed.name for listed in tab.levels}:
                self._show(index)

    def restore_level(self, level: str) -> None:
        """Return to a table."""
        self.tables.restore_level(level)

    def pending_states(self) -> tuple[tuple[str, TableState], ...]:
        """Return the states of tables that have not been created yet."""
        return tuple(self._pending_states.items())

    def keep_pending_state(self, pane_id: str, state: TableState) -> bool:
        """Store the state of a table whose tab has not been shown yet; return whether that is so."""
        if any(pane.id == pane_id for pane in self.tables.query_children(TablePane)):
            return False
        self._pending_states[pane_id] = state
        return True


class TabbedView:
    """A `ViewScreen` whose body is tabs, with the actions of the keys that go from tab to tab."""

    TABS: ClassVar[Sequence[Tab]]
    """The tabs."""

    body: ViewBody

    def make_body(self) -> TabbedTables:
        """Return the tabs."""
        return TabbedTables(self.TABS)

    def action_next_part(self) -> None:
        """Show the next tab; after the last the first."""
        cast("TabbedTables", self.body).step(1)

    def action_previous_part(self) -> None:
        """Show the previous tab; before the first the last."""
        cast("TabbedTables", self.body).step(-1)
