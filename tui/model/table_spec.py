"""Columns and tables: the definition of a column, the columns of a table, and its arrangement by the user."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ColumnKind(StrEnum):
    """The kind of a column's values, which decides format and comparison."""

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
    """Definition, unit and, if there is one, formula."""
    priority: int = 5
    """On a narrow screen, columns with 9 are dropped first and columns with 1 last."""
    aliases: tuple[str, ...] = ()
    """Further names in the filter language (``dur`` for ``duration_ns``)."""
    absent: str = ""
    """The text on screens for a missing value, if it means more than unknown."""
    ends_right: bool = False
    """Its texts are numbers of several kinds, aligned to the right."""
    is_signed: bool = False
    """A difference, written with its sign."""
    is_growth: bool = False
    """A difference for which more is worse: growth is red, shrinkage green."""
    is_prose: bool = False
    """Its texts are sentences, cut at the end after quoted names are shortened."""
    is_path: bool = False
    """Its texts are paths with a line number, cut at the front."""
    sign: str = ""
    """Text after the title in the heading on screens, besides the unit."""
    is_unit_in_title: bool = False
    """Its heading contains the unit, such as ``TFLOP/s``, so values are written without."""
    only_above_zero: bool = False
    """It is shown only if a row has a value above 0."""
    compared_with: tuple[str, ...] = ()
    """Columns of the same kind to compare it with: they share one unit, and those with the same priority are shown
    together or not at all."""


def columns_by_priority(columns: Iterable[Column]) -> list[list[Column]]:
    """Return columns by priority, in groups that are shown together or not at all, such as ``Before`` and ``Now``."""
    groups: dict[tuple[object, ...], list[Column]] = {}
    for column in sorted(columns, key=lambda column: column.priority):
        groups.setdefault((column.priority, column.compared_with or column.name), []).append(column)
    return list(groups.values())


Sort = tuple[tuple[str, bool], ...]
"""Column names, the most significant first; True sorts largest first."""

UNINFORMATIVE_PRIORITY: Final = 99
"""The priority of a column that adds no information to the others."""
MIN_PINNED: Final = 24
"""The minimum width of a name."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table: the columns of a frame that it shows, their order, and the key of a row."""

    name: str
    """Its name on the command line and in saved settings, as ``kernels``."""

    title: str
    """Its heading."""

    columns: tuple[Column, ...]
    """In order of display. Each has a priority for narrow screens."""

    key: tuple[str, ...]
    """Columns that identify a row; cursor and marks follow it through sort, filter and reload."""

    sort: Sort = ()
    """The initial order of the frame, shown in the heading; empty: as in the input."""

    weight: str = ""
    """The column for shares (``total_ns``); the status line shows how much of it is visible."""

    pinned: str = "name"
    """The column that stays in place when the table scrolls horizontally, and is never hidden."""

    min_pinned_cells: int = MIN_PINNED
    """The cells that the pinned column gets, if its texts are that long, before any other column."""

    bars: tuple[str, ...] = ("time_pct",)
    """Percentages that are also drawn as bars if there is room."""

    trailing_columns: tuple[str, ...] = ()
    """Columns after the pinned column if that is last: codes and ids."""

    cursor_on: tuple[str, str] | None = None
    """Column and value of the row that the cursor is on at first, in the table's own order; None: the first row."""


@dataclass(frozen=True, slots=True)
class TableState:
    """The user's arrangement of a table."""

    filter: str = ""
    """The filter; rows that do not match are hidden."""

    find: str = ""
    """The search, in the filter language; rows that match are highlighted."""

    sort: Sort | None = None
    """None: the initial order."""

    hidden: frozenset[str] = frozenset()
    """Hidden columns."""

    order: tuple[str, ...] = ()
    """Columns that the user moved, in order; the others follow."""

    pinned: tuple[str, ...] = ()
    """Further columns that stay in place when the table scrolls horizontally."""

    name_last: bool = False
    """The pinned column is last and takes the remaining room."""

    max_rows: int | None = None
    """The maximum number of rows, in the order shown; None: all."""

    hides_small: bool = False
    """The smallest rows, which together hold next to nothing of the table's weight, are omitted."""

    cursor_key: tuple[object, ...] | None = None
    """The row of the cursor, by the values of `TableSpec.key`; None: the first row."""

    cursor_column: str = ""
    """The column of the cursor; empty: the first."""

    marks: frozenset[tuple[object, ...]] = frozenset()
    """The marked rows, by key."""

    full_names: bool = False
    """Whether C++ names are written in full."""

    unit: str = "auto"
    """What times are written in: auto, s, ms, us or ns."""

    as_share: bool = False
    """Durations as a share of the table's total."""

    share_of_shown: bool = False
    """With ``as_share``: of the total of the rows shown, not of all."""
