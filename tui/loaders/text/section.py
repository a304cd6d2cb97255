"""The interface of text formats: how the reader of a text log offers them lines, and what tables share.

A text log is read once, top to bottom, by `text_log.py`. Each line goes to the open `Section` (a table) until that
declines it; then to each format's `TextReader`, which may take the line, open a section with it, or leave it: what
nobody takes is program output, kept for the Log view only.
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
    """A table (or another run of lines) that is being read."""

    def take(self, line: Line) -> bool:
        """Read a line; False where it is not of this section, which is then closed and the line offered elsewhere."""

    def close(self) -> None:
        """The section has ended: hand what it holds to the collector."""


@runtime_checkable
class BulkSection(Section, Protocol):
    """A section that can read many rows at once."""

    def take_block(self, block: Block, start: int) -> int:
        """Read whole lines of a block from index ``start`` on, for as long as they are plain rows of this section.

        Returns:
            The index of the first line that it did not read; ``start`` where that line needs `take`.
        """


class TextReader(Protocol):
    """One format's part in reading one text."""

    def begin(self, line: Line) -> Section | bool:
        """Look at a line that no section took.

        Returns:
            The section that the line opens; True where the line was read on its own; False where it is not ours.
        """

    def finish(self) -> None:
        """The text has ended, and every section is closed."""


class TextFormat(Protocol):
    """A format that is found in text logs."""

    @property
    def format(self) -> Format:
        """What it declares of itself."""

    @property
    def cue(self) -> bytes:
        """A regular expression that finds a place in every line that `TextReader.begin` could take.

        Lines without it are passed over at the speed of the regular expression engine, so it must miss nothing and
        should match little else. It is searched case-sensitive in lines that have been cleaned, ``^`` and ``$`` at line
        ends, by Rust's engine: no look-around, no back-references.
        """

    def reader(self, collector: Collector) -> TextReader:
        """A reader for one text."""


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
