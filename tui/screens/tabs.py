"""Views of several parts, each of linked tables: one part is shown at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work

from tui.analysis.activities import ACTIVITY_TABLE
from tui.keys import Scope, bindings_for
from tui.screens.kernels import LaunchScreen
from tui.screens.master_detail import Level, linked_pane
from tui.widgets.notices import Draw, HeadLines
from tui.widgets.tab_bar import TabBar
from tui.widgets.table.stack import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.widget import Widget

    from tui.model.history import Place
    from tui.model.profile import Profile
    from tui.model.view import TableState
    from tui.widgets.details.pane import Details
    from tui.widgets.table.pane import TablePane


def always(_profile: Profile) -> str:
    """A part that says itself why it is empty."""
    return ""


def no_head(_profile: Profile) -> Draw | None:
    """A part without lines above its tables."""
    return None


@dataclass(frozen=True, slots=True)
class Tab:
    """One part of a view."""

    name: str
    """As ``ranks``."""
    title: str
    """Its name for people."""
    levels: tuple[Level, ...]
    """Its tables; the names of levels are told apart over all parts of the view."""
    lacks: Callable[[Profile], str] = always
    """Why the input cannot feed it, told without working anything out; empty where it can."""
    head: Callable[[Profile], Draw | None] = no_head
    """What stands above the tables."""


class PartsScreen(LaunchScreen):
    """Parts on a line, the tables of one of them below; the keys of `Scope.PARTS` go from part to part."""

    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    DEFAULT_CSS = """
    PartsScreen TablePane.-elsewhere { display: none; }
    """
    PARTS: ClassVar[tuple[Tab, ...]]

    def __init__(self) -> None:
        super().__init__()
        self._part = 0
        self._arrived = 0
        """The part that a way from elsewhere led to: leaving it leaves the view."""
        self._filled: set[str] = set()
        """The parts that show the present profile."""
        self._levels_reached: dict[str, int] = {}
        self._states_left: dict[str, TableState] = {}
        """How tables were left of parts that have not been shown yet, by the ids of their panes."""

    @property
    def part(self) -> Tab:
        """The part that is shown."""
        return self.PARTS[self._part]

    @property
    def levels(self) -> tuple[Level, ...]:
        """The tables of the part that is shown."""
        return self.part.levels

    def compose_body(self) -> Iterable[Widget]:
        """The line of parts, what stands above the tables, and the tables of the part that is shown."""
        if len(self.PARTS) > 1:
            yield TabBar([part.title for part in self.PARTS], id="parts")
        yield HeadLines(id="head")
        yield from super().compose_body()

    def _make_panes(self) -> None:
        """Make the tables of the part that is shown, where they are not there yet."""
        tables = self.query_one("#tables")
        for level in self.levels:
            if not self.query(f"#{level.name}"):
                pane = linked_pane(level)
                pane.mount_in(tables)
                state = self._states_left.pop(level.name, None)
                if state is not None:
                    pane.state = state
                self.explorer.navigator.widgets_made()

    def populate(self) -> None:
        """Fill the part that is shown; the others when they are gone to."""
        self._filled.clear()
        self._selected.clear()
        if self._part == 0 and self.part.lacks(self.profile):
            # The view opens with the first part that the input feeds.
            fed = (place for place, part in enumerate(self.PARTS) if not part.lacks(self.profile))
            self._arrived = self._part = next(fed, 0)
        self._show_part(self._part)

    def show_part(self, name: str) -> None:
        """Show the part of a name, for who comes from another view."""
        self._arrived = next(place for place, part in enumerate(self.PARTS) if part.name == name)
        self._show_part(self._arrived)

    def _show_part(self, place: int) -> None:
        self._levels_reached[self.part.name] = self._level
        if self._filling is not None and place != self._part:
            # What is being made is not waited for: it is made when the part is shown again.
            self._filled.discard(self.part.name)
            for level in self.levels:
                self._selected.pop(level.name, None)
        self._part = place
        self._level = self._levels_reached.get(self.part.name, 0)
        self._make_panes()
        own = {level.name for level in self.levels}
        for pane in self.panes:
            pane.set_class(pane.id not in own, "-elsewhere")
            pane.remove_class(CURRENT)
        for bar in self.query(TabBar):
            bar.show(place, [not part.lacks(self.profile) for part in self.PARTS])
        if self.part.name not in self._filled:
            self._filled.add(self.part.name)
            self._level = 0
            self._make_head()
            self._fill(0)
        else:
            self._make_head()
        self._show_level(self._level)

    def to_first_part(self) -> None:
        """Show the part that the view opens with."""
        self._arrived = 0
        if self._part:
            self._show_part(0)

    @property
    def has_level_above(self) -> bool:
        """Whether there are details to close, a level above or a part to go back to."""
        return super().has_level_above or self._part not in (0, self._arrived)

    def leave_level(self) -> bool:
        """Close the details, go one level up, or back to the first part."""
        if super().leave_level():
            return True
        if not self.has_level_above:
            return False
        self._show_part(self._arrived)
        return True

    def action_next_part(self) -> None:
        """The next part; after the last the first."""
        self._show_part((self._part + 1) % len(self.PARTS))

    def action_previous_part(self) -> None:
        """The part before; before the first the last."""
        self._show_part((self._part - 1) % len(self.PARTS))

    @on(TabBar.Chosen)
    def _part_chosen(self, event: TabBar.Chosen) -> None:
        self._show_part(event.place)

    def path(self) -> list[str]:
        """The part, where it is not the first, and the rows that have been gone into."""
        return [*([self.part.title] if self._part else []), *super().path()]

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Of single GPU work its launch config, as in every view."""
        return self.launch(row["activity"]) if pane.spec is ACTIVITY_TABLE else super().details(pane, row)

    # --- what takes a while ------------------------------------------------------------------------------------------

    def _make_head(self) -> None:
        head = self.query_one(HeadLines)
        if self.part.head is no_head:
            head.show(None)
        elif self.is_large:
            head.show(None)
            self._draw_in_thread(self.part, self.profile)
        else:
            head.show(self.part.head(self.profile))

    @work(thread=True, exclusive=True, group="head")
    def _draw_in_thread(self, part: Tab, profile: Profile) -> None:
        draw = part.head(profile)
        self.app.call_from_thread(self._take_head, part, profile, draw)

    def _take_head(self, part: Tab, profile: Profile, draw: Draw | None) -> None:
        if self.is_attached and part is self.part and profile is self.profile:
            self.query_one(HeadLines).show(draw)

    # --- place -------------------------------------------------------------------------------------------------------

    def place(self) -> Place:
        """The place, with the tables that have not been made yet as they were left."""
        place = super().place()
        return replace(place, states=(*place.states, *self._states_left.items()))

    def arrange_pane(self, pane_id: str, state: TableState) -> None:
        """Arrange a table as it was left, or as soon as it is made."""
        if self.query(f"#{pane_id}"):
            super().arrange_pane(pane_id, state)
        else:
            self._states_left[pane_id] = state

    def restore(self, place: Place) -> None:
        """Return to a part and a level with its tables as they were."""
        for number, part in enumerate(self.PARTS):
            if place.level in {level.name for level in part.levels} and number != self._part:
                self._show_part(number)
        super().restore(place)
