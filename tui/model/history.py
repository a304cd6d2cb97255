"""Navigation history: visited places and the way back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.model.table_spec import TableState


@dataclass(frozen=True, slots=True)
class Place:
    """A view with the state that is needed to return to it."""

    view: str
    """Its name, such as ``kernels``."""
    level: str = ""
    """The part of the view with the focus, such as ``kernels``; for the log: the source."""
    states: tuple[tuple[str, TableState], ...] = ()
    """The arrangement of each table."""
    line: int | None = None
    """For the log: the line shown."""
    text: str = ""
    """For SQL: the query; for Compare: the other profile."""
    timeline_position: tuple[int, ...] = ()
    """For the timeline: session, lane and time of the cursor, time per cell, and start of the window."""

    def is_same_position(self, other: Place) -> bool:
        """Return whether both show the same, apart from arrangement."""
        return (self.view, self.level, self.line) == (other.view, other.level, other.line)


@dataclass(slots=True)
class History:
    """The visited places, as in a browser, and the place in the previous view."""

    places: list[Place] = field(default_factory=list)
    """Earliest first."""
    index: int = -1
    """The index of the current place; -1 before the first."""
    previous: Place | None = None
    """The last place in the previous view."""

    @property
    def current(self) -> Place | None:
        """The current place."""
        return self.places[self.index] if self.places else None

    def visit(self, place: Place) -> None:
        """Go to a place; drop the places ahead."""
        current = self.current
        if current is not None and current.view != place.view:
            self.previous = current
        if current is not None and current.is_same_position(place):
            self.places[self.index] = place
            return
        del self.places[self.index + 1 :]
        self.places.append(place)
        self.index += 1

    def keep(self, place: Place) -> None:
        """Update the current place."""
        if self.places and self.places[self.index].view == place.view:
            self.places[self.index] = replace(place)

    @property
    def has_view_before(self) -> bool:
        """Whether `leave_view` finds a place."""
        current = self.current
        return current is not None and any(place.view != current.view for place in self.places[: self.index])

    def leave_view(self) -> Place | None:
        """Go back to the last place in another view; None if there is none."""
        current = self.current
        for index in range(self.index - 1, -1, -1):
            if current is not None and self.places[index].view != current.view:
                return self.step(index - self.index)
        return None

    def step(self, direction: int) -> Place | None:
        """Go back (-1) or forward (1); None at the end."""
        if not 0 <= self.index + direction < len(self.places):
            return None
        current = self.places[self.index]
        self.index += direction
        target = self.places[self.index]
        if target.view != current.view:
            self.previous = current
        return target
