"""Puts rows of a summary back together whose cells were torn onto lines of their own.

Text that was extracted from a PDF has the columns of a table as separate runs of cells, in an order that follows the
page. A row is accepted only where its figures prove it: calls times average is the total, and the average lies between
the shortest and the longest call.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tui.loaders.nvprof.figures import Row, Units
from tui.loaders.nvprof.numbers import time_ns

MAX_WINDOW: Final = 28
"""Pieces that are looked at together: four torn rows of seven cells."""

_MAX_READINGS: Final = 1024
"""Ways to give cells to columns that are tried for one run of pieces."""

_NEXT_ROW: Final = re.compile(
    r"(?<=[A-Za-z)\]>])(?<!\ds)(?<!\d[num]s)\s+(?=\d+(?:\s+\d+(?:\.\d+)?[num]?s){3}\s+[\w\[])"
)
"""Where the cells of another row follow a name on the same line."""

_CELLS_OF_ITS_OWN: Final = 3
"""So many cells of these kinds in a row are a table's, whatever stands behind them."""

_COLUMNS: Final = ("time_pct", "total", "calls", "avg", "min", "max", "name")
_KINDS: Final = "PTNTTT"
_CELL: Final = re.compile(r"(\d{1,3}(?:\.\d+)?%)|(\d+(?:\.\d+)?(?:e[+-]?\d+)?[num]?s)|(\d+)")


@dataclass(slots=True)
class Piece:
    """Cells of one row that stand together on a line, and the name after them if there is one."""

    kinds: str
    """What each cell can be: P percent, T time, N whole number."""
    cells: tuple[str, ...]
    name: str
    line: int
    text: str

    def repeats(self, other: Piece) -> bool:
        """Whether all it says stands in another piece too, where the name may be cut."""
        width = len(self.cells)
        places = range(len(other.cells) - width + 1)
        if not any(other.cells[place : place + width] == self.cells for place in places):
            return False
        return not self.name or (bool(other.name) and self.name.startswith(other.name))

    @property
    def ends_a_row(self) -> bool:
        """Whether it is calls, average, shortest and longest call and name, in the order that times can have."""
        if self.kinds != "NTTT" or not self.name:
            return False
        average, shortest, longest = (time_ns(cell) for cell in self.cells[1:])
        return shortest <= average <= longest

    @property
    def starts(self) -> tuple[int, ...]:
        """The columns that its first cell can belong to."""
        return tuple(
            start
            for start in range(len(_KINDS))
            if _KINDS.startswith(self.kinds, start) and (not self.name or start + len(self.kinds) == len(_KINDS))
        )


def pieces_of(text: str, line: int) -> Sequence[Piece]:
    """The pieces of rows that a line is made of; none where it holds anything else.

    >>> [piece.name for piece in pieces_of("4 3.1us 3us 3.2us cuInit 35 2.7us 2us 7.86us cudaFree", 7)]
    ['cuInit', 'cudaFree']
    """
    pieces = [piece_of(part, line) for part in _NEXT_ROW.split(text)]
    return [piece for piece in pieces if piece is not None] if None not in pieces else []


def piece_of(text: str, line: int) -> Piece | None:
    """The piece of a row that a line is, or None where it holds anything else.

    >>> piece_of("  352 2.6990us", 7).cells
    ('352', '2.6990us')
    >>> piece_of("777ns cudaPeekAtLastError", 7).name
    'cudaPeekAtLastError'
    >>> piece_of("12 bodies", 7), piece_of("1.2s and 3 more", 8)
    (None, None)
    """
    kinds, cells, position = "", [], 0
    stripped = text.strip()
    for word in re.finditer(r"\S+", stripped):
        cell = _CELL.fullmatch(word[0])
        if cell is None or len(kinds) == len(_KINDS):
            break
        kinds += "PTN"[(cell.lastindex or 0) - 1]
        cells.append(word[0])
        position = word.end()
    name = stripped[position:].strip()
    piece = Piece(kinds, tuple(cells), name, line, text)
    if not cells or not piece.starts or (name and not _looks_like_name(name, len(cells))):
        return None
    return piece


def _looks_like_name(name: str, cells: int) -> bool:
    """Names begin like an identifier, and are one word or C++ with brackets; prose is several words without."""
    if not (name[0].isalpha() or name[0] in "_[<~(?"):
        return False
    return (
        cells >= _CELLS_OF_ITS_OWN
        or " " not in name
        or name.startswith(("[", "void "))
        or any(mark in name for mark in "<(_")
    )


@dataclass(frozen=True, slots=True)
class Repaired:
    """What `rows_from` made of the pieces of a table."""

    rows: Sequence[Row]
    left: Sequence[Sequence[Piece]]
    """Runs of pieces that prove no row."""


def rows_from(pieces: Sequence[Piece]) -> Repaired:
    """Put rows together from pieces in the order of their lines.

    The smallest run of pieces that proves one or several rows is taken first; within it the cells of a column keep
    their order. A piece that belongs to no such run is left over.
    """
    rows: list[Row] = []
    left: list[list[Piece]] = []
    start, gap = 0, True
    while start < len(pieces):
        solved = None
        for end in range(start + 1, min(start + MAX_WINDOW, len(pieces)) + 1):
            solved = _solve(pieces[start:end]) or _solve_without_copy(pieces[start:end])
            if solved is not None:
                break
        if solved is None:
            if gap:
                left.append([])
            left[-1].append(pieces[start])
            gap = False
            start += 1
        else:
            rows.extend(solved)
            start = end
            gap = True
    return Repaired(rows, left)


def _solve(pieces: Sequence[Piece]) -> list[Row] | None:
    """The rows that all these pieces together prove, or None."""
    kinds = "".join(piece.kinds for piece in pieces)
    height = kinds.count("P")
    names = sum(bool(piece.name) for piece in pieces)
    if height == 0 or kinds.count("N") != height or names != height or kinds.count("T") != 4 * height:
        return None
    return next((rows for rows in _readings(pieces, height) if all(row.proven(Units()) for row in rows)), None)


def _solve_without_copy(pieces: Sequence[Piece]) -> list[Row] | None:
    """The rows that the pieces prove when one that stands there twice is taken once."""
    for index, copy in enumerate(pieces):
        others = [*pieces[:index], *pieces[index + 1 :]]
        for other in others:
            if copy.repeats(other) and (rows := _solve(others)) is not None:
                for row in rows:
                    if row.name == other.name and copy.name:
                        row.name = copy.name
                return rows
    return None


def _readings(pieces: Sequence[Piece], height: int) -> Iterator[list[Row]]:
    """Every way to give the cells to columns such that all columns are full."""
    for starts in itertools.islice(itertools.product(*(piece.starts for piece in pieces)), _MAX_READINGS):
        columns: list[list[str]] = [[] for _ in _COLUMNS]
        for piece, start in zip(pieces, starts, strict=True):
            for offset, cell in enumerate(piece.cells):
                columns[start + offset].append(cell)
            if piece.name:
                columns[-1].append(piece.name)
        if any(len(column) != height for column in columns):
            continue
        lines = f"lines {pieces[0].line} to {pieces[-1].line}"
        rows = []
        for cells, piece in zip(zip(*columns, strict=True), (piece for piece in pieces if piece.name), strict=True):
            time_pct, total, calls, avg, shortest, longest, name = cells
            row = Row(time_pct, total, calls, avg, shortest, longest, name, piece.line)
            times = "1 call" if calls == "1" else f"{calls} calls"
            row.repairs.append(f"put back together from {lines}: {times} of {avg} make {total}")
            rows.append(row)
        yield rows
