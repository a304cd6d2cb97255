"""Table specifications and table states, shared by screens, reports and exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tui.model.columns import Column

Sort = tuple[tuple[str, bool], ...]
"""Column names, the most significant first; True sorts largest first."""

MIN_PINNED: Final = 24
"""The minimum width of a name."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table of the program: which columns of a frame it shows, in which order, and what identifies a row."""

    name: str
    """Its name on the command line and in saved settings, as ``kernels``."""

    title: str
    """Its heading."""

    columns: tuple[Column, ...]
    """In order of display. Each has a priority for narrow screens."""

    key: tuple[str, ...]
    """Columns that identify a row: the cursor and the marks are kept by it through sort, filter and reload."""

    sort: Sort = ()
    """The order of the frame as it comes, so that the heading can show it; empty: as in the input."""

    weight: str = ""
    """The column that shares are taken of (``total_ns``): the status line shows how much of it is visible."""

    pinned: str = "name"
    """The column that stays in place when the table scrolls sideways, and is never hidden."""

    pinned_least: int = MIN_PINNED
    """Cells that the pinned column keeps, if its texts are that long, before any other column is shown."""

    bars: tuple[str, ...] = ("time_pct",)
    """Percentages that are drawn as bars as well, where there is room."""


@dataclass(frozen=True, slots=True)
class TableState:
    """How the user has arranged a table."""

    filter: str = ""
    """In the filter language; rows that do not match are left out."""

    find: str = ""
    """In the same language; rows that match are highlighted."""

    sort: Sort | None = None
    """None: as the table comes."""

    hidden: frozenset[str] = frozenset()
    """Columns that the user does not want to see."""

    order: tuple[str, ...] = ()
    """Columns that the user moved, first to last; the others follow in their own order."""

    pinned: tuple[str, ...] = ()
    """Columns that stay in place next to the pinned column when the table scrolls sideways."""

    name_last: bool = False
    """The table's own pinned column stands last and takes all the room that the others leave."""

    most_rows: int | None = None
    """Only so many of the rows, the first ones in the order shown; None: all."""

    hides_small: bool = False
    """The smallest rows, which together hold next to nothing of the table's weight, are left out."""

    cursor_key: tuple[object, ...] | None = None
    """The row of the cursor, by the values of `TableSpec.key`; None: the first row."""

    cursor_column: str = ""
    """The column of the cursor; empty: the first."""

    marks: frozenset[tuple[object, ...]] = frozenset()
    """The marked rows, by key."""

    full_names: bool = False
    """C++ names as they stand, instead of short ones."""

    unit: str = "auto"
    """What times are written in: auto, s, ms, us or ns."""

    as_share: bool = False
    """Durations as a share of the table's total."""

    share_of_shown: bool = False
    """With ``as_share``: of the total of the rows shown, not of all."""
