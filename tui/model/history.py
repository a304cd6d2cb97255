"""Navigation history: visited places and the way back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.model.table_spec import TableState


@dataclass(frozen=True, slots=True)
class Place:
    """A view with everything that is needed to return to it as it was left."""

    view: str
    """Its name, as ``kernels``."""
    level: str = ""
    """The part of the view that has the focus, as ``kernels``."""
    states: tuple[tuple[str, TableState], ...] = ()
    """How each of its tables was arranged."""
    line: int | None = None
    """For the log: the line that is shown."""
    text: str = ""
    """For SQL: the query whose rows are shown; for Compare: what with."""
    spot: tuple[int, ...] = ()
    """For the timeline: lane and moment of the cursor, and where the screen starts and what a cell of it is."""

    def is_same_spot(self, other: Place) -> bool:
        """Whether both show the same thing, however arranged."""
        return (self.view, self.level, self.line) == (other.view, other.level, other.line)


@dataclass(slots=True)
class History:
    """The places visited, as a browser keeps them, and the view before this one."""

    places: list[Place] = field(default_factory=list)
    """The earliest first."""
    index: int = -1
    """Which of them is shown; -1 before the first."""
    previous: Place | None = None
    """Where the user was in the view before this one."""

    @property
    def current(self) -> Place | None:
        """The place where the user is."""
        return self.places[self.index] if self.places else None

    def visit(self, place: Place) -> None:
        """Go to a place; what lay ahead is forgotten."""
        here = self.current
        if here is not None and here.view != place.view:
            self.previous = here
        if here is not None and here.is_same_spot(place):
            self.places[self.index] = place
            return
        del self.places[self.index + 1 :]
        self.places.append(place)
        self.index += 1

    def keep(self, place: Place) -> None:
        """Remember how the current place looks now."""
        if self.places and self.places[self.index].view == place.view:
            self.places[self.index] = replace(place)

    @property
    def has_view_before(self) -> bool:
        """Whether `leave_view` finds one."""
        here = self.current
        return here is not None and any(place.view != here.view for place in self.places[: self.index])

    def leave_view(self) -> Place | None:
        """Go back to the last place in another view; None where there is none."""
        here = self.current
        for index in range(self.index - 1, -1, -1):
            if here is not None and self.places[index].view != here.view:
                return self.step(index - self.index)
        return None

    def step(self, by: int) -> Place | None:
        """Go back (-1) or forward (1); None where there is nothing in that direction."""
        if not 0 <= self.index + by < len(self.places):
            return None
        here = self.places[self.index]
        self.index += by
        there = self.places[self.index]
        if there.view != here.view:
            self.previous = here
        return there
