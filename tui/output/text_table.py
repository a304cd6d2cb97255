"""Tables as text: aligned columns within a width, the longest names last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.fmt import format_column, heading, signed
from tui.labels import Cutter
from tui.model.columns import Column, ColumnKind, columns_by_priority
from tui.query.facts import magnitude
from tui.text import plain
from tui.text_width import cell_width, pad

if TYPE_CHECKING:
    import polars as pl

GAP: Final = "  "
MIN_NAME: Final = 24
NAME_SHARE: Final = 0.4
"""The minimum width of the name: this number of cells, or this share of the line."""
TEXT_WIDEST: Final = 32
"""The maximum width of a text column other than the name, unless there is spare room."""
_TEXTS: Final = (ColumnKind.TEXT, ColumnKind.SYMBOL)


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column with its values as texts."""

    column: Column
    heading: str
    """Its title with the unit of its values."""
    cells: Sequence[str]
    """One text a row."""

    @property
    def is_text(self) -> bool:
        """Whether it is aligned to the left."""
        return self.column.kind in _TEXTS


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table laid out for a width."""

    lines: tuple[str, ...]
    """The heading, then a line for each row."""
    left_out: tuple[str, ...]
    """Titles of the columns that there was no room for."""


def write_columns(columns: Sequence[Column], frame: pl.DataFrame) -> list[WrittenColumn]:
    """Format the values of the columns of a frame, compared columns in one unit; texts are safe for terminals."""
    result = []
    for column in columns:
        values = frame[column.name].to_list()
        if column.kind in _TEXTS:
            values = [None if value is None else plain(str(value)) for value in values]
        largest = None if column.kind in _TEXTS else magnitude(frame, column)
        unit, cells = format_column(column.kind, values, largest=largest)
        if column.is_signed:
            cells = [signed(cell, value or 0) for cell, value in zip(cells, values, strict=True)]
        if column.absent:
            cells = [column.absent if value is None else cell for cell, value in zip(cells, values, strict=True)]
        result.append(WrittenColumn(column, plain(heading(column.title, unit)), cells))
    return result


def lay_out_table(columns: Sequence[WrittenColumn], *, name: str, width: int) -> TextTable:
    """Lay out a table for a width.

    The columns with the lowest priority are omitted until the rest fits. A C++ name is last and is shortened to the
    remaining width; any other name comes first. Width that it does not need is used for the texts of other columns.

    Args:
        columns: In order of display, the name among them.
        name: The column that identifies a row.
        width: Cells of a line.
    """
    name_column = next(column for column in columns if column.column.name == name)
    others = [column for column in columns if column is not name_column]
    widths = {id(column): _width(column) for column in others}
    longest = max((cell_width(cell) for cell in (name_column.heading, *name_column.cells)), default=0)
    min_name_width = min(longest, max(MIN_NAME, int(NAME_SHARE * width)))
    room = width - min_name_width
    shown: list[WrittenColumn] = []
    by_name = {column.column.name: column for column in others}
    for names in columns_by_priority(column.column for column in others):
        group = [by_name[column.name] for column in names]
        needed = sum(widths[id(column)] + len(GAP) for column in group)
        if needed <= room:
            shown += group
            room -= needed
    in_order = [column for column in others if column in shown]
    name_width = min(longest, room + min_name_width)
    name_index = len(in_order) if name_column.column.kind is ColumnKind.SYMBOL else 0
    in_order.insert(name_index, name_column)
    widths[id(name_column)] = name_width
    spare = room + min_name_width - name_width
    for column in in_order:
        if column.is_text and column is not name_column:
            extra = min(spare, _widest(column) - widths[id(column)])
            widths[id(column)] += extra
            spare -= extra

    cutters = [_cutter(column, is_name=column is name_column) for column in in_order]

    def line(cells: Iterable[str]) -> str:
        padded = (
            pad(cutter.cut(cell, widths[id(column)]), widths[id(column)], right=not column.is_text)
            for cell, column, cutter in zip(cells, in_order, cutters, strict=True)
        )
        return GAP.join(padded).rstrip()

    lines = [line(column.heading for column in in_order)]
    lines += [line(cells) for cells in zip(*(column.cells for column in in_order), strict=True)]
    return TextTable(tuple(lines), tuple(column.heading for column in others if column not in shown))


def align_columns(rows: Sequence[Sequence[str]], *, right: slice = slice(1, None)) -> list[str]:
    """Return rows of texts as lines of aligned columns.

    Args:
        rows: As many texts each.
        right: The columns that are aligned to the right; by default all except the first.
    """
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    to_the_right = range(len(widths))[right]
    return [
        GAP.join(
            pad(cell, width, right=index in to_the_right)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cutter(column: WrittenColumn, *, is_name: bool) -> Cutter:
    """Return the cutter for the texts of a column, which keeps names distinct."""
    are_symbols = column.column.kind is ColumnKind.SYMBOL
    names = (lambda: list(dict.fromkeys(column.cells))) if is_name or are_symbols else tuple
    return Cutter(names, are_symbols=are_symbols)


def _width(column: WrittenColumn) -> int:
    widest = _widest(column)
    return min(widest, TEXT_WIDEST) if column.is_text else widest


def _widest(column: WrittenColumn) -> int:
    return max((cell_width(cell) for cell in (column.heading, *column.cells)), default=0)
