"""Puts rows of a summary back together whose cells were torn onto lines of their own.

Text that was extracted from a PDF has the columns of a table as separate runs of cells, in an order that follows the
page. A row is accepted only where its figures prove it: calls times average is the total, and the average lies between
the shortest and the longest call.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Final

from tui.loaders.nvprof.figures import Row, Units
from tui.loaders.nvprof.numbers import time_ns

MAX_WINDOW: Final = 28
"""Pieces that are looked at together: four torn rows of seven cells."""

_MAX_READINGS: Final = 1024
"""Ways to give cells to columns that are tried for one run of pieces."""

_MAX_TRIED: Final = 10_000
"""Ways that are tried for all the pieces of a table: program output can look like pieces, and proves nothing."""

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
        if self.kinds not in other.kinds:
            return False
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


@cache
def _starts(kinds: str, *, named: bool) -> tuple[int, ...]:
    """The columns that the first of some cells can belong to; a name stands behind the last column."""
    return tuple(
        start
        for start in range(len(_KINDS))
        if _KINDS.startswith(kinds, start) and (not named or start + len(kinds) == len(_KINDS))
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
    if not cells or not _starts(kinds, named=bool(name)) or (name and not _looks_like_name(name, len(cells))):
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
    puzzle = _Puzzle(pieces)
    start, gap = 0, True
    while start < len(pieces):
        end, solved = puzzle.smallest_run(start)
        if solved is None:
            if gap:
                left.append([])
            left[-1].append(pieces[start])
        else:
            rows.extend(solved)
        start, gap = end, solved is not None
    return Repaired(rows, left)


class _Puzzle:
    """All pieces of a table, and how often more rows may be tried to be made of them."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._shapes = [_shape(piece) for piece in pieces]
        self._repeated: dict[int, list[int]] = {}
        self._tries = itertools.repeat(None, _MAX_TRIED)

    def smallest_run(self, start: int) -> tuple[int, list[Row] | None]:
        """The end of the smallest run from a piece on that proves rows, and those; else the next piece, and None."""
        percents = numbers = times = names = 0
        seen: set[_Shape] = set()
        for end in range(start + 1, min(start + MAX_WINDOW, len(self._pieces)) + 1):
            shape = self._shapes[end - 1]
            seen.add(shape)
            percents += shape[0]
            numbers += shape[1]
            times += shape[2]
            names += shape[3]
            solved = None
            if 0 < percents == numbers == names and times == 4 * percents:
                solved = self._solve(range(start, end), percents)
            extra = {
                one
                for one in seen
                if 0 < percents - one[0] == numbers - one[1] == names - one[3]
                and times - one[2] == 4 * (percents - one[0])
            }
            if solved is None and extra:
                solved = self._solve_without_copy(range(start, end), extra)
            if solved is not None:
                return end, solved
        return start + 1, None

    def _solve(self, places: Sequence[int], height: int) -> list[Row] | None:
        """The rows that all these pieces together prove, or None; they have the cells of so many rows."""
        pieces = [self._pieces[place] for place in places]
        choices = (_starts(piece.kinds, named=bool(piece.name)) for piece in pieces)
        ways = itertools.islice(itertools.product(*choices), _MAX_READINGS)
        tried = (_read(pieces, way, height) for _, way in zip(self._tries, ways, strict=False))
        return next((rows for rows in tried if rows), None)

    def _solve_without_copy(self, places: Sequence[int], extra: AbstractSet[_Shape]) -> list[Row] | None:
        """The rows that pieces prove when one that stands there twice is taken once.

        Args:
            places: Where the pieces are.
            extra: What a piece can have of which the others have the cells of whole rows.
        """
        for copy in places:
            if self._shapes[copy] not in extra:
                continue
            for other in self._repeated_by(copy):
                if other not in places:
                    continue
                others = [place for place in places if place != copy]
                rows = self._solve(others, sum(self._shapes[place][0] for place in others))
                if rows is not None:
                    for row in rows:
                        if row.name == self._pieces[other].name and self._pieces[copy].name:
                            row.name = self._pieces[copy].name
                    return rows
                break
        return None

    def _repeated_by(self, copy: int) -> list[int]:
        """The pieces near a piece that say all that it says."""
        found = self._repeated.get(copy)
        if found is None:
            near = range(max(0, copy - MAX_WINDOW + 1), min(copy + MAX_WINDOW, len(self._pieces)))
            piece = self._pieces[copy]
            found = [place for place in near if place != copy and piece.repeats(self._pieces[place])]
            self._repeated[copy] = found
        return found


_Shape = tuple[int, int, int, int]
"""How many percentages, whole numbers, times and names a piece has."""


def _shape(piece: Piece) -> _Shape:
    return piece.kinds.count("P"), piece.kinds.count("N"), piece.kinds.count("T"), int(bool(piece.name))


def _read(pieces: Sequence[Piece], starts: Sequence[int], height: int) -> list[Row] | None:
    """The rows that the cells make from these columns on; None where columns are not full or a row is not proven."""
    columns: list[list[str]] = [[] for _ in _COLUMNS]
    for piece, start in zip(pieces, starts, strict=True):
        for offset, cell in enumerate(piece.cells):
            columns[start + offset].append(cell)
        if piece.name:
            columns[-1].append(piece.name)
    if any(len(column) != height for column in columns):
        return None
    rows = []
    for cells, piece in zip(zip(*columns, strict=True), (piece for piece in pieces if piece.name), strict=True):
        time_pct, total, calls, avg, shortest, longest, name = cells
        row = Row(time_pct, total, calls, avg, shortest, longest, name, piece.line)
        if not row.proven(Units()):
            return None
        times, verb = ("1 call", "makes") if calls == "1" else (f"{calls} calls", "make")
        lines = f"lines {pieces[0].line} to {pieces[-1].line}"
        row.repairs.append(f"put back together from {lines}: {times} of {avg} {verb} {total}")
        rows.append(row)
    return rows
