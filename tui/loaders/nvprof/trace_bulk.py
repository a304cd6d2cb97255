"""Reads the plain rows of a trace in bulk; shared by text and CSV.

Cells that repeat from launch to launch, all between duration and correlation id, are looked up as one string and parsed
once for all rows that have them. A trace with few repetitions is parsed column by column instead. Half a million rows
take 1.2 s of processor time where Polars' text functions take 3.1 s for the same cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import nanoarrow  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import polars as pl

from tui.loaders.digits import (
    CELL,
    CLEAR_AT_END,
    KEEP_LAST,
    TO_MASK,
    Bytes,
    Mask,
    Positions,
    Words,
    eight_digits,
    every,
    not_digits,
    words_at,
)
from tui.loaders.nvprof.reader_state import is_message
from tui.loaders.nvprof.trace_cells import SIZE_UNITS, csv_header, text_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from tui.loaders.nvprof.trace_table import TraceTable
    from tui.loaders.text.block import Block, Line

    LookedUp = list[Future[npt.NDArray[np.uint32]]]


ODD: Final = -2
"""The code of rows that need the tolerant parser."""

_NEW: Final = -1
_FIRST_CHUNK: Final = 256
_LOOK_UPS: Final = 2
"""Threads for the lookup of repeated cells, each for a part of the rows."""
_LOOK_AHEAD: Final = 16
"""The maximum number of lines of program output that are searched for the next row."""
_ENOUGH: Final = 20_000
"""The number of rows after which it is decided whether the cells of a trace repeat."""


def strings(data: Bytes, starts: Positions, ends: Positions) -> pl.Series:
    """Return parts of a text as a series without copying them; they must be in order and not overlap.

    The caller guarantees that the text is UTF-8.
    """
    offsets = np.empty(2 * len(starts) + 1, np.int64)
    offsets[:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = len(data)
    array = nanoarrow.c_array_from_buffers(nanoarrow.large_string(), len(offsets) - 1, [None, offsets, data])
    # Indexing is direct: methods such as gather_every start a query, ten times a block.
    return pl.Series("", nanoarrow.Array(array))[pl.Series(np.arange(0, 2 * len(starts), 2, dtype=np.uint32))]


def is_next_row(block: Block | None, line: Line, is_row: Callable[[str], bool]) -> bool:
    """Return whether a table continues after a line that is not of it: its rows can be interrupted by program output.

    Args:
        block: The block of the line, if known.
        line: The line that is not of the table.
        is_row: Whether a line is an undamaged row of the table.
    """
    if block is None or not 0 <= line.number - block.first_line < block.line_count:
        return False
    first = line.number - block.first_line
    for index in range(first, min(first + _LOOK_AHEAD, block.line_count)):
        text = block.line(index).text
        if is_message(text) or text_header(text) or csv_header(text):
            return False
        if index > first and is_row(text):
            return True
    return False


class Dictionary:
    """Assigns codes to distinct strings; the caller assigns a meaning to each code."""

    def __init__(self) -> None:
        self._type = pl.Categorical(pl.Categories.random())
        # Polars drops the codes of a category when no series refers to it.
        self._holds_codes = pl.Series([], dtype=self._type)
        self._meaning = np.empty(0, np.int32)

    def codes(self, texts: pl.Series) -> npt.NDArray[np.uint32]:
        """Return the codes of strings."""
        codes: npt.NDArray[np.uint32] = texts.cast(self._type).to_physical().to_numpy()
        return codes

    def meanings(self, own: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.int32], Positions]:
        """Return the meanings of codes (`_NEW` if not assigned yet), and the first row of each new code."""
        top = int(own.max(initial=0)) + 1
        if top > len(self._meaning):
            grown = np.full(max(top, 2 * len(self._meaning)), _NEW, np.int32)
            grown[: len(self._meaning)] = self._meaning
            self._meaning = grown
        meaning = self._meaning[own]
        new = np.flatnonzero(meaning == _NEW)
        first = new[np.unique(own[new], return_index=True)[1]]
        return meaning, np.sort(first)

    def look_up(self, texts: pl.Series) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32], Positions]:
        """Return the codes of strings, and their `meanings`."""
        own = self.codes(texts)
        return own, *self.meanings(own)

    def learn(self, own: npt.NDArray[np.uint32], meaning: npt.NDArray[np.int32]) -> None:
        """Assign meanings to codes."""
        self._meaning[own] = meaning

    def translate(self, own: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """Return the meanings of codes."""
        return self._meaning[own]


@dataclass(slots=True)
class BulkRows:
    """Rows that look plain, in line order; a row whose ``code`` is `ODD` is not plain after all."""

    index: Positions
    """The line of each row in the chunk."""
    start_ns: Positions
    duration_ns: Positions
    correlation: Positions
    is_api: Mask
    code: npt.NDArray[np.int32]
    last_digit: npt.NDArray[np.int64]
    """The power of ten, in nanoseconds, of the last digit of each start."""


class TraceBulkReader(ABC):
    """Reads the plain rows of one table."""

    def __init__(self, table: TraceTable) -> None:
        self._table = table
        self._known = Dictionary()
        self._pool = ThreadPoolExecutor(_LOOK_UPS, "look-up")
        self._gpu_rows = self._gpu_cells = 0
        self._chunk = _FIRST_CHUNK

    def take(self, block: Block, start: int, take_one: Callable[[Line], bool]) -> int:
        """Read lines of a block from index ``start``; ``take_one`` reads those that are not plain.

        Returns:
            The index of the first line that is not of the table.
        """
        # A table may end soon, so chunks of lines grow from a small one.
        while start < block.line_count:
            stop = min(start + self._chunk, block.line_count)
            read = self._take_chunk(block, start, stop, take_one)
            if read < stop:
                return read
            start, self._chunk = stop, self._chunk * 4
        return start

    @abstractmethod
    def _rows(self, data: Bytes, begins: Positions, ends: Positions, ascii_lines: Mask | None) -> BulkRows:
        """Read the plain rows of some lines.

        Args:
            data: The text of the lines.
            begins: The start of each line.
            ends: The index after each line's last character that is no blank.
            ascii_lines: Which lines are ASCII, or None if all are; others are not plain.
        """

    @abstractmethod
    def _new_codes(self, data: Bytes, cells_at: Positions, ends: Positions) -> npt.NDArray[np.int32]:
        """Parse new cells and return the code of each row.

        Returns:
            Twice its code, plus 1 for API calls; `ODD` if it is not plain.
        """

    def _start_lookup(self, data: Bytes, cells_at: Positions, ends: Positions) -> LookedUp | None:
        """Start the lookup of the cells between ``cells_at`` and ``ends``; None if too few of them repeat.

        It runs in threads: Polars releases the GIL, and the caller parses other columns meanwhile.
        """
        if self._gpu_rows > _ENOUGH and self._gpu_cells > 0.5 * self._gpu_rows:
            return None
        # A row that is not plain may end before its cells begin.
        ends = np.maximum(ends, cells_at)

        def look_up(part: slice) -> npt.NDArray[np.uint32]:
            return self._known.codes(strings(data, cells_at[part], ends[part]))

        size = max(_FIRST_CHUNK, -(-len(ends) // _LOOK_UPS))
        return [self._pool.submit(look_up, slice(begin, begin + size)) for begin in range(0, len(ends) or 1, size)]

    def _codes(
        self, data: Bytes, cells_at: Positions, ends: Positions, good: Mask, looked_up: LookedUp | None
    ) -> npt.NDArray[np.int32]:
        """Return the codes of rows, as `_new_codes` returns them; rows that are not ``good`` are `ODD`."""
        own = np.concatenate([part.result() for part in looked_up]) if looked_up else None
        if good.all():
            return self._good_codes(data, cells_at, ends, own)
        codes = np.full(len(ends), ODD, np.int32)
        chosen = np.flatnonzero(good)
        own = None if own is None else own[chosen]
        codes[chosen] = self._good_codes(data, cells_at[chosen], ends[chosen], own)
        return codes

    def _good_codes(
        self, data: Bytes, cells_at: Positions, ends: Positions, own: npt.NDArray[np.uint32] | None
    ) -> npt.NDArray[np.int32]:
        """Return the codes of good rows; ``own`` are their codes in the dictionary."""
        if own is None:
            return self._new_codes(data, cells_at, ends)
        found, first = self._known.meanings(own)
        if len(first):
            new = self._new_codes(data, cells_at[first], ends[first])
            self._known.learn(own[first], new)
            found = self._known.translate(own)
            self._gpu_cells += int(np.count_nonzero(new & 1 == 0))
        self._gpu_rows += len(found) - int(np.count_nonzero(found & 1))
        return found

    def _take_chunk(self, block: Block, start: int, stop: int, take_one: Callable[[Line], bool]) -> int:
        data = block.array
        begins = block.starts[start:stop]
        ends = _without_blanks(data, begins, block.starts[start + 1 : stop + 1] - 1)
        ascii_lines = None
        if not block.is_ascii:
            high = np.flatnonzero(data >= 128)
            ascii_lines = np.searchsorted(high, ends) == np.searchsorted(high, begins)
        rows = self._rows(data, begins, ends, ascii_lines)
        plain = rows.code >= 0
        odd = np.ones(stop - start, np.bool_)
        odd[rows.index[plain]] = False
        read = stop
        for index in np.flatnonzero(odd):
            if not take_one(block.line(start + int(index))):
                read = start + int(index)
                break
        plain &= rows.index < read - start
        if plain.any():
            self._keep(rows, plain, block.first_line + start)
        return read

    def _keep(self, rows: BulkRows, plain: Mask, first_line: int) -> None:
        self._table.note_step(Decimal(10) ** max(0, int(rows.last_digit[plain].max())))
        for is_api, store in ((False, self._table.gpu), (True, self._table.api)):
            chosen = np.flatnonzero(plain & (rows.is_api == is_api))
            if len(chosen):
                columns = (rows.index + first_line, rows.start_ns, rows.duration_ns, rows.correlation, rows.code)
                store.add_many(*(columns if len(chosen) == len(plain) else (column[chosen] for column in columns)))


def _without_blanks(data: Bytes, begins: Positions, ends: Positions) -> Positions:
    """Return row ends before trailing blanks."""
    while True:
        trailing = (ends > begins) & (data[np.maximum(ends - 1, 0)] == ord(" "))
        if not trailing.any():
            return ends
        ends = ends - trailing


_THREE, _SEVEN, _EIGHT, _TOP = (np.uint64(bits) for bits in (3, 7, 8, 56))
_POINTS, _BLANKS = every(ord(".")), every(ord(" "))
_BLANK: Final = np.uint64(ord(" "))
_SECOND_BYTE, _FIRST_BYTE_BITS, _SECOND_BYTE_BITS = np.uint64(0x0100), np.uint64(0xFF), np.uint64(0xFF00)
_FIRST_TWO_BYTES: Final = _FIRST_BYTE_BITS | _SECOND_BYTE_BITS
_POWERS: Final = 10 ** np.arange(19, dtype=np.int64)
_FLOAT_POWERS: Final = 10.0 ** np.arange(19)

_SECOND: Final = 9
_NO_UNIT: Final = -1


def _codes(units: dict[str, int]) -> npt.NDArray[np.int8]:
    table = np.full(256, _NO_UNIT, np.int8)
    for sign, code in units.items():
        table[ord(sign)] = code
    return table


_DIGITS: Final = "0123456789"
_TIME_PREFIX: Final = _codes({"n": 0, "u": 3, "m": 6, **dict.fromkeys(_DIGITS, _SECOND)})
_SIZE_PREFIX: Final = _codes(
    {**{unit[0]: power for power, unit in enumerate(SIZE_UNITS) if power}, **dict.fromkeys(_DIGITS, 0)}
)


@dataclass(slots=True)
class Figures:
    """The numbers of one or several columns; values of rows that are not ``good`` are meaningless."""

    digits: Positions
    """All digits as one integer."""
    decimals: npt.NDArray[np.int8]
    """The number of decimals."""
    unit: npt.NDArray[np.int8]
    """The power of the unit: of ten for times, of the base for sizes."""
    dash: Mask
    """The cell is ``-``."""
    good: Mask
    """The cell is a number with its unit, or ``-``."""

    def column(self, position: int) -> Figures:
        """Return the figures of one column of several."""
        return Figures(
            self.digits[position],
            self.decimals[position],
            self.unit[position],
            self.dash[position],
            self.good[position],
        )

    def as_float(self) -> npt.NDArray[np.float64]:
        """Return the numbers without units, NaN for ``-``."""
        value: npt.NDArray[np.float64] = np.where(self.dash, np.nan, self.digits / _FLOAT_POWERS[self.decimals])
        return value

    def as_whole(self) -> Positions:
        """Return integers, -1 for ``-``."""
        return np.where(self.dash, -1, self.digits)

    def as_ns(self) -> Positions:
        """Return times in nanoseconds, rounded half to even; -1 for ``-``."""
        power = self.unit - self.decimals
        value: Positions = self.digits * _POWERS.take(power, mode="clip")
        fine = np.flatnonzero(power < 0)
        if len(fine):
            value[fine] = np.rint(value[fine] / _FLOAT_POWERS[-power[fine]]).astype(np.int64)
        value[self.dash] = -1
        return value

    def last_digit(self) -> Positions:
        """Return the power of ten, in nanoseconds, of the last digit of times."""
        return self.unit - self.decimals


def cells_at(data: Bytes, at: Positions, width: int) -> Bytes:
    """Return the ``width`` characters from each offset, as rows of a table.

    They are copied together, so that all columns of a row are adjacent in the CPU cache.
    """
    if not len(at):
        return np.empty((0, width), np.uint8)
    pieces: npt.NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return pieces[at].view(np.uint8).reshape(-1, width)


def words_of(cells: Bytes, end: int) -> Words:
    """Return the eight characters before column ``end`` of cells of `cells_at`."""
    if not len(cells):
        return np.empty(0, np.uint64)
    strided: Words = np.ndarray((len(cells),), "<u8", cells, end - CELL, (cells.shape[1],))
    return np.ascontiguousarray(strided)


def are_blank(cells: Bytes, begin: int, end: int) -> Mask:
    """Return which rows have only blanks in columns ``begin`` to ``end`` (exclusive)."""
    result = np.ones(len(cells), np.bool_)
    while end - begin >= CELL:
        result &= words_of(cells, end) == _BLANKS
        end -= CELL
    for column in range(begin, end):
        result &= cells[:, column] == ord(" ")
    return result


def _shapes() -> tuple[npt.NDArray[np.uint64], ...]:
    """Return masks for words of eight characters, by the set of characters that are no digits (bit 0 is the first).

    Returns:
        The mask of the digits before the point, the mask of those after it (all digits if there is no point), the
        expected other bytes (a byte that occurs in no text where no value is valid), and the number of digits after
        the point. The last byte may be the letter of a unit, which is in none of them.
    """
    shapes = []
    for found in range(256):
        last = CELL - 1 if found >> (CELL - 1) else CELL
        first = next((position for position in range(last) if not found >> position & 1), last)
        point = next((position for position in range(first, last) if found >> position & 1), first - 1)
        fits = first < last and found >> (point + 1) & (1 << (last - point - 1)) - 1 == 0
        others = b" " * first + b"0" * (CELL - first)
        if point >= first:
            others = others[:point] + b"." + others[point + 1 :]
        positions = range(CELL)
        shapes.append(
            (
                _bytes_where(first <= position < point for position in positions),
                _bytes_where(point < position < last for position in positions),
                int.from_bytes(bytes(sign if sign != ord("0") else 0 for sign in others), "little") if fits else _NEVER,
                last - point - 1 if point >= first else 0,
            )
        )
    return tuple(np.array(column, np.uint64) for column in zip(*shapes, strict=True))


def _bytes_where(chosen: Iterable[bool]) -> int:
    return int.from_bytes(bytes(0xFF * flag for flag in chosen), "little")


_NEVER: Final = 0xFF
_BEFORE, _BEHIND, _OTHERS, _DECIMALS = _shapes()
_IS_OTHER: Final = ~(_BEFORE | _BEHIND | (np.arange(256, dtype=np.uint64) >> _SEVEN) * np.uint64(0xFF << 56))
_DECIMAL_COUNT: Final = _DECIMALS.astype(np.int8)


def read_numbers(cells: Bytes, columns: Sequence[tuple[int, int]], suffix: bytes) -> Figures:
    """Read columns of right-aligned numbers with a unit that ends as ``suffix`` says: ``s``, ``B``, ``B/s``, or none.

    Numbers of more than eight characters, including the unit, are not good.

    Args:
        cells: Cells of `cells_at`.
        columns: The start and end of each column, the end at 8 at least; columns are the first axis of the result.
        suffix: The end of the unit; a prefix (``u``, ``K``) may precede it.
    """
    rest = suffix[1:]
    words = np.empty((len(columns), len(cells)), np.uint64)
    good = np.empty(words.shape, np.bool_)
    dash = np.empty(words.shape, np.bool_)
    for column, (begin, end) in enumerate(columns):
        before_rest = end - len(rest)
        word = words_of(cells, before_rest)
        width = before_rest - begin
        if width < CELL:
            own = KEEP_LAST[width]
            word = (word & own) | (_BLANKS & ~own)
        words[column] = word
        good[column] = are_blank(cells, begin, before_rest - CELL)
        if rest:
            dash[column] = good[column] & (word == _BLANKS) & are_blank(cells, before_rest, end - 1)
            dash[column] &= cells[:, end - 1] == ord("-")
            for position, sign in enumerate(rest, before_rest):
                good[column] &= cells[:, position] == sign
    if not rest:
        dash = good & (words == _DASH)
    if suffix:
        good &= words >> _TOP == suffix[0]
        words = (words << _EIGHT) | _BLANK
    others = (not_digits(words) * TO_MASK) >> _TOP
    shape = others.view(np.int64)
    good &= (words & _IS_OTHER.take(shape)) == _OTHERS.take(shape)
    digits = words & _BEFORE.take(shape)
    digits <<= _EIGHT
    digits |= words & _BEHIND.take(shape)
    if suffix:
        # The letter of the unit leaves room for one more digit.
        digits <<= (others >> _SEVEN) << _THREE
        unit = (_TIME_PREFIX if suffix == b"s" else _SIZE_PREFIX).take((words >> _TOP).view(np.int64))
        good &= unit != _NO_UNIT
    else:
        unit = np.zeros(words.shape, np.int8)
        good &= shape <= _LAST_IS_DIGIT
    return Figures(eight_digits(digits), _DECIMAL_COUNT.take(shape), unit, dash, good | dash)


_LAST_IS_DIGIT: Final = 0x7F
_DASH: Final = np.frombuffer(b"       -", "<u8")[0]


def final_ids(data: Bytes, ends: Positions) -> tuple[Positions, Positions]:
    """Return the ids in ``name [123]`` at the end of rows.

    Args:
        data: The text.
        ends: The index after each row's last character, at least 20.

    Returns:
        The ids, -1 for none, and the index after each row's last character without the id.
    """
    cells = cells_at(data, ends - _LAST, _LAST)
    word = words_of(cells, _LAST - 1)
    count = CLEAR_AT_END.take(((not_digits(word) * TO_MASK) >> _TOP).view(np.int64))
    ids = eight_digits(word & KEEP_LAST.take(count))
    full = np.flatnonzero((count == CELL) & (cells[:, _LAST - 2 - CELL] != ord("[")))
    if len(full):
        word = words_of(cells[full], _LAST - 1 - CELL)
        further = CLEAR_AT_END[((not_digits(word) * TO_MASK) >> _TOP).view(np.int64)]
        ids[full] += eight_digits(word & KEEP_LAST[further]) * 10**CELL
        count[full] += further
    # Where the blank before the bracket must be, among all cells.
    before = np.arange(_LAST - 3, cells.size, _LAST) - count
    flat = cells.reshape(-1)
    found = (cells[:, -1] == ord("]")) & (count > 0) & (flat[before + 1] == ord("[")) & (flat[before] == ord(" "))
    if found.all():
        return ids, ends - 3 - count
    return np.where(found, ids, -1), np.where(found, ends - 3 - count, ends)


_LAST: Final = 20
"""The longest id with its blank and brackets, in characters."""


def six_decimals(data: Bytes, begins: Positions, ends: Positions) -> tuple[Positions, Mask]:
    """Return numbers such as ``215155.715000`` in millionths, and which parts of a text are such numbers."""
    length = ends - begins
    words = words_at(data, ends - CELL)
    good = (length >= CELL) & (length <= 2 * CELL) & (not_digits(words) == _SECOND_BYTE)
    good &= (words ^ _POINTS) & _SECOND_BYTE_BITS == 0
    # Seven digits: the one before the point is moved next to those after it.
    last = eight_digits(((words & _FIRST_BYTE_BITS) << _EIGHT) | (words & ~_FIRST_TWO_BYTES))
    keep = KEEP_LAST[np.clip(length - CELL, 0, CELL)]
    words = words_at(data, ends - 2 * CELL)
    good &= not_digits(words) & keep == 0
    return eight_digits(words & keep) * 10**7 + last, good


def dimensions(cells: Bytes, columns: Sequence[tuple[int, int]]) -> tuple[Positions, Mask]:
    """Read columns of right-aligned ``(x y z)``, given as for `read_numbers`.

    Returns:
        The figures by column, axis and row, -1 for ``-``; and which cells are valid, by column and row.
    """
    parts = np.empty((len(columns), 3, len(cells)), np.int64)
    fits = np.empty((len(columns), len(cells)), np.bool_)
    flat, rows = cells.reshape(-1), np.arange(0, cells.size, cells.shape[1])
    for column, (begin, end) in enumerate(columns):
        dash = cells[:, end - 1] == ord("-")
        good = cells[:, end - 1] == ord(")")
        at = rows + (end - 1)
        for axis, opening in zip((2, 1, 0), b"  (", strict=True):
            words = words_at(flat, at - CELL)
            count = CLEAR_AT_END[((not_digits(words) * TO_MASK) >> _TOP).view(np.int64)]
            parts[column, axis] = np.where(dash, -1, eight_digits(words & KEEP_LAST[count]))
            at = np.maximum(at - count - 1, rows + begin)
            good &= (count > 0) & (count < CELL) & (flat[at] == opening)
        opened = at - rows
        good &= opened > begin
        fits[column] = (good | dash) & _are_blank_until(cells, begin, end, np.where(dash, end - 1, opened))
    return parts, fits


def _are_blank_until(cells: Bytes, begin: int, end: int, until: Positions) -> Mask:
    """Return which rows have only blanks from column ``begin`` to their own end, which is before ``end``."""
    result = np.ones(len(cells), np.bool_)
    for last in range(end, begin, -CELL):
        mask = ~KEEP_LAST[CELL - np.clip(until - (last - CELL), 0, CELL)]
        if last - begin < CELL:
            mask &= KEEP_LAST[last - begin]
        result &= (words_of(cells, last) ^ _BLANKS) & mask == 0
    return result
