"""Which part of the time is on the screen: whole cells of whole nanoseconds, so that nothing flickers as it moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Cells of equal time, side by side."""

    begin_ns: int
    """Where the time begins that can be looked at."""
    end_ns: int
    """Where it ends."""
    least_ns: int
    """A cell has at least so much time: the coarsest step of the start times."""
    cells: int
    """Cells on the screen."""
    cell_ns: int
    """Time of a cell."""
    first_ns: int
    """Where the first cell begins."""

    @property
    def last_ns(self) -> int:
        """Where the last cell ends."""
        return self.first_ns + self.cells * self.cell_ns

    @property
    def fit_ns(self) -> int:
        """Time of a cell where all of it is on the screen."""
        return max(self.least_ns, -(-(self.end_ns - self.begin_ns) // self.cells), 1)

    def edges(self) -> Ints:
        """Where the cells begin, and where the last one ends."""
        return self.first_ns + self.cell_ns * np.arange(self.cells + 1, dtype=np.int64)

    def cell_of(self, at_ns: int) -> int:
        """The cell that a moment lies in; below 0 or from ``cells`` on where it is not on the screen."""
        return (at_ns - self.first_ns) // self.cell_ns

    def moved_to(self, first_ns: int) -> Window:
        """The window from about another moment on, a whole number of cells away from here and within the time."""
        last = max(self.begin_ns, self.end_ns - self.cells * self.cell_ns)
        wanted = min(max(first_ns, self.begin_ns), last)
        if wanted in (self.begin_ns, last):
            return replace(self, first_ns=wanted)
        return replace(self, first_ns=self.first_ns + round((wanted - self.first_ns) / self.cell_ns) * self.cell_ns)

    def zoomed(self, cell_ns: int, at_ns: int) -> Window:
        """The window with other cells, in which a moment stays where it is on the screen."""
        cell_ns = min(max(cell_ns, self.least_ns, 1), self.fit_ns)
        place = min(max(self.cell_of(at_ns), 0), self.cells - 1)
        return replace(self, cell_ns=cell_ns).moved_to(at_ns - place * cell_ns - (at_ns - self.first_ns) % cell_ns)

    def zoomed_in(self, at_ns: int) -> Window:
        """One step closer."""
        return self.zoomed(step_below(self.cell_ns), at_ns)

    def zoomed_out(self, at_ns: int) -> Window:
        """One step further away."""
        return self.zoomed(step_above(self.cell_ns), at_ns)

    def fitted(self) -> Window:
        """All of the time."""
        return replace(self, cell_ns=self.fit_ns, first_ns=self.begin_ns)

    def around(self, start_ns: int, end_ns: int, share: float) -> Window:
        """The window in whose middle a stretch takes at most a share of the cells, and as much as steps allow."""
        cell_ns = max(1, self.least_ns)
        while cell_ns < self.fit_ns and (end_ns - start_ns) > share * self.cells * cell_ns:
            cell_ns = step_above(cell_ns)
        cell_ns = min(cell_ns, self.fit_ns)
        middle = (start_ns + end_ns) // 2
        return replace(self, cell_ns=cell_ns, first_ns=middle - self.cells * cell_ns // 2).moved_to(
            middle - self.cells * cell_ns // 2
        )

    def showing(self, at_ns: int) -> Window:
        """The window moved so that a moment is on the screen; where it jumps, the moment comes to lie in the middle."""
        cell = self.cell_of(at_ns)
        if 0 <= cell < self.cells:
            return self
        near = -self.cells // 2 <= cell < self.cells * 3 // 2
        if not near:
            return self.moved_to(at_ns - self.cells * self.cell_ns // 2)
        # A quarter of the screen at once: the lanes are drawn anew less often than the cursor moves.
        by = max(1, self.cells // 4)
        first = self.first_ns + (cell - self.cells + by if cell >= self.cells else cell - by + 1) * self.cell_ns
        return self.moved_to(first)


def whole_window(begin_ns: int, end_ns: int, cells: int, *, least_ns: int) -> Window:
    """A window over all of the time."""
    return Window(begin_ns, max(end_ns, begin_ns + 1), max(1, least_ns), max(1, cells), 1, begin_ns).fitted()


def step_above(value: int) -> int:
    """The next larger of 1, 2, 5, 10, 20, 50, ...

    >>> [step_above(value) for value in (1, 2, 3, 5, 700)]
    [2, 5, 5, 10, 1000]
    """
    scale: int = 10 ** (len(str(value)) - 1)
    return next(step * scale for step in (1, 2, 5, 10) if step * scale > value)


def step_below(value: int) -> int:
    """The next smaller of them, at least 1.

    >>> [step_below(value) for value in (1, 2, 3, 10, 700)]
    [1, 1, 2, 5, 500]
    """
    scale: int = 10 ** (len(str(max(1, value - 1))) - 1)
    return next((step * scale for step in (5, 2, 1) if step * scale < value), 1)
