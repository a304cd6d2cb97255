"""The type of a column, and how its values are formatted and compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


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
    is_prose: bool = False
    """Its texts are sentences: they are cut at the end, after quoted names are shortened."""
    sign: str = ""
    """What its heading on a screen shows after the title, in addition to the unit."""
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
