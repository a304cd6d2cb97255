"""The interfaces of text formats, and functions that tables share.

A text log is read once, top to bottom, by `text_log.py`. Each line goes to the open `Section` (a table) until it
declines; then to each format's `TextReader`, which may read the line, open a section with it, or decline: lines that
all decline are program output, shown only in the Log view.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tui.loaders.base import Format
    from tui.loaders.collector import Collector
    from tui.loaders.text.block import Block, Line


class Section(Protocol):
    """A table, or another group of lines, that is being read."""

    def take(self, line: Line) -> bool:
        """Read a line; False if it does not belong to this section, which is then closed."""

    def close(self) -> None:
        """End the section: add its rows to the collector."""


@runtime_checkable
class BulkSection(Section, Protocol):
    """A section that reads many rows at once."""

    def take_block(self, block: Block, start: int) -> int:
        """Read lines of a block from index ``start``, as long as they are plain rows of this section.

        Returns:
            The index of the first line that was not read; ``start`` if that line needs `take`.
        """


class TextReader(Protocol):
    """Reads the lines of one format in one text."""

    def begin(self, line: Line) -> Section | bool:
        """Read a line that no section took.

        Returns:
            The section that the line opens; True if the line was read; False if it is not of this format.
        """

    def finish(self) -> None:
        """Called at the end of the text, after every section is closed."""


class TextFormat(Protocol):
    """A format of text logs."""

    @property
    def format(self) -> Format:
        """The description of the format."""

    @property
    def cue(self) -> bytes:
        """A regular expression that matches in every line that `TextReader.begin` could read.

        Lines without a match are skipped at the speed of the regular expression engine, so it must miss nothing and
        should match little else. It is case-sensitive and searched in cleaned lines, with ``^`` and ``$`` at line
        ends, by Rust's engine: no look-around, no back-references.
        """

    def reader(self, collector: Collector) -> TextReader:
        """A reader for one text."""


MAX_STRAY_LINES: Final = 20
"""The most consecutive lines of program output within a table; after more, the table has ended."""

LINE: Final = "line"
"""The name of the column with the line of each row."""


class TableSink(Protocol):
    """Receives the rows of a table."""

    def add(self, cells: pl.DataFrame) -> None:
        """Add rows: a column of strings (null if empty) for each column of the table, and ``line``.

        Columns of integers may have an integer type.
        """

    def damaged(self, line: Line, reason: str) -> None:
        """Report a line that looks like a row and cannot be parsed."""

    def close(self) -> None:
        """Called at the end of the table."""


def split_cells(text: str, separator: str = ",") -> list[str]:
    """The cells of a line; empty if it is not separated values.

    >>> split_cells('1,"f<int, 4>",')
    ['1', 'f<int, 4>', '']
    """
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return []


def unique_names(names: Sequence[str]) -> list[str]:
    """Distinct names for columns: empty names, duplicates and ``line`` get a number.

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
