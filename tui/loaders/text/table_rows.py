"""What all readers of tables in a text share: the cells of a line, the names of columns, and where rows go."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import polars as pl

    from tui.loaders.text.section import Line

MAX_STRAY_LINES: Final = 20
"""So many lines of program output in a row can stand between the rows of a table before it counts as ended."""

LINE: Final = "line"
"""The column of the line that a row comes from."""


class TableSink(Protocol):
    """Where the rows of a table go."""

    def add(self, cells: pl.DataFrame) -> None:
        """Take rows: a column of strings (null where empty) for each column of the table, and ``line``.

        Columns of whole numbers can come as such.
        """

    def damaged(self, line: Line, reason: str) -> None:
        """Note a line that is a row by its looks and cannot be read."""

    def close(self) -> None:
        """The table has ended."""


def split_cells(text: str, separator: str = ",") -> list[str]:
    """The cells of a line; none where it is not separated values.

    >>> split_cells('1,"f<int, 4>",')
    ['1', 'f<int, 4>', '']
    """
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return []


def unique_names(names: Sequence[str]) -> list[str]:
    """Names for columns: those that are empty, come twice or are called ``line`` get a number.

    >>> unique_names(["name", "", "name", "line"])
    ['name', 'column 1', 'name 2', 'line 3']
    """
    made: list[str] = []
    taken = {LINE}
    for place, name in enumerate(names):
        unique = name or f"column {place}"
        if unique in taken:
            unique = f"{unique} {place}"
        while unique in taken:
            unique += "'"
        taken.add(unique)
        made.append(unique)
    return made
