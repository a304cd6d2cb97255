"""Repairs or reports rows of nvprof tables that are split over several lines or damaged.

Text that was extracted from a PDF has the columns of a table as separate runs of cells, in an order that follows the
page. A row is accepted only if its figures are consistent: calls times average is the total, and the average is between
the minimum and the maximum.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.numbers import time_ns
from tui.loaders.nvprof.reader_state import Units
from tui.loaders.nvprof.summary_figures import SummaryRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

MAX_WINDOW: Final = 28
"""The maximum number of fragments that are combined: four split rows of seven cells."""

_MAX_READINGS: Final = 1024
"""The maximum number of assignments of cells to columns that are tried for a run of fragments."""

_MAX_TRIED: Final = 10_000
"""The maximum number of assignments that are tried for a table: program output can look like fragments."""

_NEXT_ROW: Final = re.compile(
    r"(?<=[A-Za-z)\]>])(?<![0-9]s)(?<![0-9][num]s)\s+(?=[0-9]+(?:\s+[0-9]+(?:\.[0-9]+)?[num]?s){3}\s+[\w\[])"
)
"""The position of another row after a name on the same line."""

_MIN_TABLE_CELLS: Final = 3
"""This many consecutive cells of these kinds are of a table, whatever follows."""

_COLUMNS: Final = ("time_pct", "total", "calls", "avg", "min", "max", "name")
_KINDS: Final = "PTNTTT"
_CELL: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?%)|([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?[num]?s)|([0-9]+)")


@dataclass(slots=True)
class RowFragment:
    """Consecutive cells of one row on a line, and the name after them, if any."""

    kinds: str
    """The kind of each cell: P percent, T time, N integer."""
    cells: tuple[str, ...]
    name: str
    line: int
    text: str

    def repeats(self, other: RowFragment) -> bool:
        """Return whether another fragment has the same cells, and the same name or its beginning."""
        if self.kinds not in other.kinds:
            return False
        width = len(self.cells)
        indices = range(len(other.cells) - width + 1)
        if not any(other.cells[index : index + width] == self.cells for index in indices):
            return False
        return not self.name or (bool(other.name) and self.name.startswith(other.name))

    @property
    def is_row_end(self) -> bool:
        """Whether it is calls, average, minimum, maximum and name, with consistent times."""
        if self.kinds != "NTTT" or not self.name:
            return False
        average, shortest, longest = (time_ns(cell) for cell in self.cells[1:])
        return shortest <= average <= longest


@cache
def _possible_columns(kinds: str, *, has_name: bool) -> tuple[int, ...]:
    """Return the columns that the first cell can belong to; a name follows the last column."""
    return tuple(
        start
        for start in range(len(_KINDS))
        if _KINDS.startswith(kinds, start) and (not has_name or start + len(kinds) == len(_KINDS))
    )


def parse_fragments(text: str, line: int) -> Sequence[RowFragment]:
    """Return the fragments of rows that a line consists of; empty if it contains anything else.

    >>> [fragment.name for fragment in parse_fragments("4 3.1us 3us 3.2us cuInit 35 2.7us 2us 7.86us cudaFree", 7)]
    ['cuInit', 'cudaFree']
    """
    fragments = [parse_fragment(row_text, line) for row_text in _NEXT_ROW.split(text)]
    return [fragment for fragment in fragments if fragment is not None] if None not in fragments else []


def parse_fragment(text: str, line: int) -> RowFragment | None:
    """Return the fragment of a row that a line is; None if it contains anything else.

    >>> parse_fragment("  352 2.6990us", 7).cells
    ('352', '2.6990us')
    >>> parse_fragment("777ns cudaPeekAtLastError", 7).name
    'cudaPeekAtLastError'
    >>> parse_fragment("12 bodies", 7), parse_fragment("1.2s and 3 more", 8)
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
    fragment = RowFragment(kinds, tuple(cells), name, line, text)
    if (
        not cells
        or not _possible_columns(kinds, has_name=bool(name))
        or (name and not _looks_like_name(name, len(cells)))
    ):
        return None
    return fragment


def _looks_like_name(name: str, cells: int) -> bool:
    """Return whether a text is one word or C++ with brackets, not prose."""
    if not (name[0].isalpha() or name[0] in "_[<~(?"):
        return False
    return (
        cells >= _MIN_TABLE_CELLS
        or " " not in name
        or name.startswith(("[", "void "))
        or any(mark in name for mark in "<(_")
    )


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """The result of `join_fragments`."""

    rows: Sequence[SummaryRow]
    unmatched: Sequence[Sequence[RowFragment]]
    """Runs of fragments that form no consistent row."""


def join_fragments(fragments: Sequence[RowFragment]) -> JoinedRows:
    """Join fragments, in the order of their lines, to rows.

    The smallest run of fragments that forms consistent rows is taken first; within it the cells of a column keep
    their order.
    """
    rows: list[SummaryRow] = []
    unmatched: list[list[RowFragment]] = []
    split_rows = _SplitRows(fragments)
    start, is_new_run = 0, True
    while start < len(fragments):
        end, solved = split_rows.smallest_run(start)
        if solved is None:
            if is_new_run:
                unmatched.append([])
            unmatched[-1].append(fragments[start])
        else:
            rows.extend(solved)
        start, is_new_run = end, solved is not None
    return JoinedRows(rows, unmatched)


class _SplitRows:
    """All fragments of a table, with the number of attempts left."""

    def __init__(self, fragments: Sequence[RowFragment]) -> None:
        self._fragments = fragments
        self._shapes = [_shape(fragment) for fragment in fragments]
        self._repeated: dict[int, list[int]] = {}
        self._tries = itertools.repeat(None, _MAX_TRIED)

    def smallest_run(self, start: int) -> tuple[int, list[SummaryRow] | None]:
        """Return the end of the smallest run of fragments that forms rows, and the rows; else the next index."""
        percents = numbers = times = names = 0
        shapes_seen: set[_Shape] = set()
        for end in range(start + 1, min(start + MAX_WINDOW, len(self._fragments)) + 1):
            shape = self._shapes[end - 1]
            shapes_seen.add(shape)
            percents += shape[0]
            numbers += shape[1]
            times += shape[2]
            names += shape[3]
            solved = None
            if 0 < percents == numbers == names and times == 4 * percents:
                solved = self._solve(range(start, end), percents)
            extra = {
                earlier
                for earlier in shapes_seen
                if 0 < percents - earlier[0] == numbers - earlier[1] == names - earlier[3]
                and times - earlier[2] == 4 * (percents - earlier[0])
            }
            if solved is None and extra:
                solved = self._solve_without_copy(range(start, end), extra)
            if solved is not None:
                return end, solved
        return start + 1, None

    def _solve(self, indices: Sequence[int], height: int) -> list[SummaryRow] | None:
        """Return the consistent rows that fragments with the cells of ``height`` rows form, or None."""
        fragments = [self._fragments[index] for index in indices]
        choices = (_possible_columns(fragment.kinds, has_name=bool(fragment.name)) for fragment in fragments)
        readings = itertools.islice(itertools.product(*choices), _MAX_READINGS)
        tried = (_read(fragments, reading, height) for _, reading in zip(self._tries, readings, strict=False))
        return next((rows for rows in tried if rows), None)

    def _solve_without_copy(self, indices: Sequence[int], extra: AbstractSet[_Shape]) -> list[SummaryRow] | None:
        """Return the consistent rows that fragments form without a duplicate one.

        Args:
            indices: The indices of the fragments.
            extra: The possible shapes of a duplicate fragment.
        """
        for copy in indices:
            if self._shapes[copy] not in extra:
                continue
            for original in self._repetitions(copy):
                if original not in indices:
                    continue
                remaining = [index for index in indices if index != copy]
                rows = self._solve(remaining, sum(self._shapes[index][0] for index in remaining))
                if rows is not None:
                    for row in rows:
                        if row.name == self._fragments[original].name and self._fragments[copy].name:
                            row.name = self._fragments[copy].name
                    return rows
                break
        return None

    def _repetitions(self, copy: int) -> list[int]:
        """Return the nearby fragments that repeat a fragment."""
        repetitions = self._repeated.get(copy)
        if repetitions is None:
            nearby = range(max(0, copy - MAX_WINDOW + 1), min(copy + MAX_WINDOW, len(self._fragments)))
            fragment = self._fragments[copy]
            repetitions = [index for index in nearby if index != copy and fragment.repeats(self._fragments[index])]
            self._repeated[copy] = repetitions
        return repetitions


_Shape = tuple[int, int, int, int]
"""The number of percentages, integers, times and names of a fragment."""


def _shape(fragment: RowFragment) -> _Shape:
    return fragment.kinds.count("P"), fragment.kinds.count("N"), fragment.kinds.count("T"), int(bool(fragment.name))


def _read(fragments: Sequence[RowFragment], starts: Sequence[int], height: int) -> list[SummaryRow] | None:
    """Return the rows of the cells from these columns; None if a column is incomplete or a row inconsistent."""
    columns: list[list[str]] = [[] for _ in _COLUMNS]
    for fragment, start in zip(fragments, starts, strict=True):
        for offset, cell in enumerate(fragment.cells):
            columns[start + offset].append(cell)
        if fragment.name:
            columns[-1].append(fragment.name)
    if any(len(column) != height for column in columns):
        return None
    rows = []
    for cells, fragment in zip(
        zip(*columns, strict=True), (fragment for fragment in fragments if fragment.name), strict=True
    ):
        time_pct, total, calls, avg, shortest, longest, name = cells
        row = SummaryRow(time_pct, total, calls, avg, shortest, longest, name, fragment.line)
        if not row.is_consistent(Units()):
            return None
        lines = f"lines {fragments[0].line} to {fragments[-1].line}"
        row.repairs.append(f"joined from {lines}: {calls} x {avg} = {total}")
        rows.append(row)
    return rows


_TIME: Final = re.compile(r"(?<![\w.])[0-9][0-9.]*(?:e[+-]?[0-9]+)?(?:ns|us|ms|s)(?!\w)")
_NUMBER: Final = re.compile(r"(?<![\w.])[0-9][0-9.]*(?:e[+-]?[0-9]+)?(?:[num]?s)?(?!\S)")
_PERCENT: Final = re.compile(r"[0-9]\.[0-9]+%(?!\S)")
_LAUNCH: Final = re.compile(r"\([0-9]+ [0-9]+ [0-9]+\)")
_DASH: Final = re.compile(r"(?<!\S)-(?!\S)")
_API: Final = re.compile(r"(?<!\S)cu(?:da)?[A-Z]\w+")
_SECOND_ROW: Final = re.compile(
    r"(?:(?<=  )|(?<=[\])>\w]))[0-9][0-9.]*(?:e[+-]?[0-9]+)?"
    r"(?:(?:ns|us|ms|s) ++(?:[0-9][0-9.]*(?:ns|us|ms|s)|-) ++(?:-|\([0-9]|cu|\[)"
    r"| ++[0-9][0-9.e+-]* ++(?:- |\([0-9]+ [0-9]+ [0-9]+\) ))"
)
"""Start, duration and what follows; without units in tables with a row of units."""

SUMMARY: Final = "this looks like a summary row, but some columns are unreadable: row skipped"
TRACE: Final = "this looks like a trace row, but some columns are unreadable: row skipped"


def looks_like_summary_row(text: str, *, has_units: bool) -> bool:
    """Return whether a line between the rows of a summary looks like a damaged row.

    Args:
        text: The line.
        has_units: Whether times have units; otherwise the table has a row of units, and rows only numbers.

    >>> looks_like_summary_row("0.0!%  110.00us  1  110.00us  110.0us  110.00us  f(int)", has_units=True)
    True
    >>> looks_like_summary_row("epoch 3 took 12.1s, loss 0.5", has_units=True)
    False
    """
    if has_units:
        times = len(_TIME.findall(text))
        return times >= 3 or (times >= 1 and _PERCENT.search(text) is not None)
    return len(_NUMBER.findall(text)) >= 5


def looks_like_trace_row(text: str) -> bool:
    r"""Return whether a line between the rows of a trace looks like a damaged row.

    >>> looks_like_trace_row("1.5\ufffdms  2.1000us  cudaFree"), looks_like_trace_row("step 3 took 12.1s")
    (True, False)
    """
    times = len(_TIME.findall(text))
    if _API.search(text):
        return times >= 1
    return len(_LAUNCH.findall(text)) + len(_DASH.findall(text)) >= (2 if times else 3)


def second_row_position(text: str, start: int = 0) -> int | None:
    """Return the position of another row of a trace after a name, if a newline is missing; otherwise None.

    >>> second_row_position("cudaFree     0ns  4.1870us  cudaMalloc"), second_row_position("f(int, int)")
    (13, None)
    """
    match = _SECOND_ROW.search(text, start)
    return match.start() if match else None
