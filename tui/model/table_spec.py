"""Columns and tables: what a column is, which columns a table shows, and how the user has arranged it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ColumnKind(StrEnum):
    """How the values of a column are written and compared."""

    TEXT = "text"
    SYMBOL = "symbol"
    """A C++ name: can be shortened by dropping template arguments and parameters."""
    DURATION = "duration"
    """Nanoseconds."""
    TIME = "time"
    """Nanoseconds since the clock zero of the input."""
    SIZE = "size"
    """Bytes."""
    RATE = "rate"
    """Bytes per second."""
    COUNT = "count"
    """A number of things: can be summed."""
    NUMBER = "number"
    """An identifier or a plain quantity: is not summed."""
    PERCENT = "percent"
    """0 to 100."""
    RATIO = "ratio"
    MEASURE = "measure"
    """A value in the unit that the column ``unit`` of its row names."""
    FLAG = "flag"
    """True, false or unknown."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view."""

    name: str
    """Its name in the frame and in exports."""
    title: str
    """Its heading."""
    kind: ColumnKind
    help: str
    """Definition, unit and, where there is one, formula."""
    priority: int = 5
    """1 stays longest when the screen is narrow, 9 goes first."""
    aliases: tuple[str, ...] = ()
    """Further names in the filter language (``dur`` for ``duration_ns``)."""
    absent: str = ""
    """What a screen shows where there is no value, if that means more than that it is unknown."""
    ends_right: bool = False
    """Its texts are figures of several kinds: they end below each other, as numbers do."""
    is_signed: bool = False
    """A difference: more is written with a plus sign."""
    is_growth: bool = False
    """A difference of which more is worse: screens show more in red and less in green."""
    is_prose: bool = False
    """Its texts are sentences: they are cut at the end, after quoted names are shortened."""
    is_path: bool = False
    """Its texts are paths with a line: they are cut at the front."""
    sign: str = ""
    """What its heading on a screen shows after the title, in addition to the unit."""
    is_unit_in_title: bool = False
    """Its heading names the unit of its values, as ``TFLOP/s``: no sign follows them."""
    only_above_zero: bool = False
    """It is informative only where a row has a value above 0."""
    compared_with: tuple[str, ...] = ()
    """Columns of the same kind that it is read against: where a frame has them, one unit is for all of them, and those
    as important are shown together or not at all."""


def columns_by_priority(columns: Iterable[Column]) -> list[list[Column]]:
    """Columns by priority, in groups of those that are shown together or not at all: as ``Before`` and ``Now``."""
    groups: dict[tuple[object, ...], list[Column]] = {}
    for column in sorted(columns, key=lambda one: one.priority):
        groups.setdefault((column.priority, column.compared_with or column.name), []).append(column)
    return list(groups.values())


Sort = tuple[tuple[str, bool], ...]
"""Column names, the most significant first; True sorts largest first."""

UNINFORMATIVE_PRIORITY: Final = 99
"""The priority of a column that says nothing here, or nothing that another one does not."""
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

    behind: tuple[str, ...] = ()
    """Columns that stand behind the pinned one where that stands last: codes and ids."""


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
