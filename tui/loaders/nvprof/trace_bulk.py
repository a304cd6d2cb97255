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
    GATHER_FLAGS,
    LAST_BYTES_MASKS,
    TRAILING_DIGIT_COUNTS,
    WORD_BYTES,
    Bytes,
    Mask,
    Positions,
    Words,
    eight_digits,
    non_digit_flags,
    repeat_byte,
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


IRREGULAR: Final = -2
"""The code of rows that need the tolerant parser."""

_NEW: Final = -1
_FIRST_CHUNK_LINES: Final = 256
_LOOKUP_THREADS: Final = 2
"""Threads for the lookup of repeated cells, each for a part of the rows."""
_MAX_OUTPUT_LINES: Final = 16
"""The maximum number of lines of program output that are searched for the next row."""
_SAMPLE_ROWS: Final = 20_000
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
    for index in range(first, min(first + _MAX_OUTPUT_LINES, block.line_count)):
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
        self._values = np.empty(0, np.int32)

    def codes(self, texts: pl.Series) -> npt.NDArray[np.uint32]:
        """Return the codes of strings."""
        codes: npt.NDArray[np.uint32] = texts.cast(self._type).to_physical().to_numpy()
        return codes

    def values(self, codes: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.int32], Positions]:
        """Return the meanings of codes (`_NEW` if not assigned yet), and the first row of each new code."""
        size = int(codes.max(initial=0)) + 1
        if size > len(self._values):
            grown = np.full(max(size, 2 * len(self._values)), _NEW, np.int32)
            grown[: len(self._values)] = self._values
            self._values = grown
        values_ = self._values[codes]
        new = np.flatnonzero(values_ == _NEW)
        first_rows = new[np.unique(codes[new], return_index=True)[1]]
        return values_, np.sort(first_rows)

    def encode(self, texts: pl.Series) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32], Positions]:
        """Return the codes of strings, and their `values`."""
        codes = self.codes(texts)
        return codes, *self.values(codes)

    def assign(self, codes: npt.NDArray[np.uint32], values_: npt.NDArray[np.int32]) -> None:
        """Assign meanings to codes."""
        self._values[codes] = values_

    def decode(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """Return the meanings of codes."""
        return self._values[codes]


@dataclass(slots=True)
class BulkRows:
    """Rows that look plain, in line order; a row whose ``code`` is `IRREGULAR` is not plain after all."""

    index: Positions
    """The line of each row in the chunk."""
    start_ns: Positions
    duration_ns: Positions
    correlation: Positions
    is_api: Mask
    code: npt.NDArray[np.int32]
    last_digit_power: npt.NDArray[np.int64]
    """The power of ten, in nanoseconds, of the last digit of each start."""


class TraceBulkReader(ABC):
    """Reads the plain rows of one table."""

    def __init__(self, table: TraceTable) -> None:
        self._table = table
        self._dictionary = Dictionary()
        self._pool = ThreadPoolExecutor(_LOOKUP_THREADS, "look-up")
        self._gpu_rows = self._gpu_cells = 0
        self._chunk_lines = _FIRST_CHUNK_LINES

    def take(self, block: Block, start: int, take_line: Callable[[Line], bool]) -> int:
        """Read lines of a block from index ``start``; ``take_line`` reads those that are not plain.

        Returns:
            The index of the first line that is not of the table.
        """
        # A table may end soon, so chunks of lines grow from a small one.
        while start < block.line_count:
            stop = min(start + self._chunk_lines, block.line_count)
            read = self._take_chunk(block, start, stop, take_line)
            if read < stop:
                return read
            start, self._chunk_lines = stop, self._chunk_lines * 4
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
    def _parse_codes(self, data: Bytes, cell_starts: Positions, ends: Positions) -> npt.NDArray[np.int32]:
        """Parse new cells and return the code of each row.

        Returns:
            Twice its code, plus 1 for API calls; `IRREGULAR` if it is not plain.
        """

    def _start_lookup(self, data: Bytes, cell_starts: Positions, ends: Positions) -> LookedUp | None:
        """Start the lookup of the cells from ``cell_starts`` to ``ends``; None if too few of them repeat.

        It runs in threads: Polars releases the GIL, and the caller parses other columns meanwhile.
        """
        if self._gpu_rows > _SAMPLE_ROWS and self._gpu_cells > 0.5 * self._gpu_rows:
            return None
        # A row that is not plain may end before its cells begin.
        ends = np.maximum(ends, cell_starts)

        def encode(rows: slice) -> npt.NDArray[np.uint32]:
            return self._dictionary.codes(strings(data, cell_starts[rows], ends[rows]))

        size = max(_FIRST_CHUNK_LINES, -(-len(ends) // _LOOKUP_THREADS))
        return [self._pool.submit(encode, slice(start, start + size)) for start in range(0, len(ends) or 1, size)]

    def _row_codes(
        self, data: Bytes, cell_starts: Positions, ends: Positions, is_regular: Mask, looked_up: LookedUp | None
    ) -> npt.NDArray[np.int32]:
        """Return the codes of rows, as `_parse_codes` returns them; rows that are not regular are `IRREGULAR`."""
        text_codes = np.concatenate([future.result() for future in looked_up]) if looked_up else None
        if is_regular.all():
            return self._regular_codes(data, cell_starts, ends, text_codes)
        codes = np.full(len(ends), IRREGULAR, np.int32)
        regular = np.flatnonzero(is_regular)
        text_codes = None if text_codes is None else text_codes[regular]
        codes[regular] = self._regular_codes(data, cell_starts[regular], ends[regular], text_codes)
        return codes

    def _regular_codes(
        self, data: Bytes, cell_starts: Positions, ends: Positions, text_codes: npt.NDArray[np.uint32] | None
    ) -> npt.NDArray[np.int32]:
        """Return the codes of regular rows; ``text_codes`` are their codes in the dictionary."""
        if text_codes is None:
            return self._parse_codes(data, cell_starts, ends)
        row_codes, first_rows = self._dictionary.values(text_codes)
        if len(first_rows):
            new = self._parse_codes(data, cell_starts[first_rows], ends[first_rows])
            self._dictionary.assign(text_codes[first_rows], new)
            row_codes = self._dictionary.decode(text_codes)
            self._gpu_cells += int(np.count_nonzero(new & 1 == 0))
        self._gpu_rows += len(row_codes) - int(np.count_nonzero(row_codes & 1))
        return row_codes

    def _take_chunk(self, block: Block, start: int, stop: int, take_line: Callable[[Line], bool]) -> int:
        """Read some lines in bulk, then those that are not plain one by one; return the index after the last read."""
        data = block.array
        begins = block.starts[start:stop]
        ends = _strip_trailing_blanks(data, begins, block.starts[start + 1 : stop + 1] - 1)
        ascii_lines = None
        if not block.is_ascii:
            non_ascii = np.flatnonzero(data >= 128)
            ascii_lines = np.searchsorted(non_ascii, ends) == np.searchsorted(non_ascii, begins)
        rows = self._rows(data, begins, ends, ascii_lines)
        is_regular = rows.code >= 0
        is_irregular = np.ones(stop - start, np.bool_)
        is_irregular[rows.index[is_regular]] = False
        read = stop
        for index in np.flatnonzero(is_irregular):
            if not take_line(block.line(start + int(index))):
                read = start + int(index)
                break
        is_regular &= rows.index < read - start
        if is_regular.any():
            self._add_rows(rows, is_regular, block.first_line + start)
        return read

    def _add_rows(self, rows: BulkRows, is_regular: Mask, first_line: int) -> None:
        self._table.note_step(Decimal(10) ** max(0, int(rows.last_digit_power[is_regular].max())))
        for is_api, store in ((False, self._table.gpu), (True, self._table.api)):
            chosen = np.flatnonzero(is_regular & (rows.is_api == is_api))
            if len(chosen):
                columns = (rows.index + first_line, rows.start_ns, rows.duration_ns, rows.correlation, rows.code)
                store.add_columns(
                    *(columns if len(chosen) == len(is_regular) else (column[chosen] for column in columns))
                )


def _strip_trailing_blanks(data: Bytes, begins: Positions, ends: Positions) -> Positions:
    """Return row ends before trailing blanks."""
    while True:
        trailing = (ends > begins) & (data[np.maximum(ends - 1, 0)] == ord(" "))
        if not trailing.any():
            return ends
        ends = ends - trailing


_THREE, _SEVEN, _EIGHT, _TOP = (np.uint64(bits) for bits in (3, 7, 8, 56))
_POINTS, _BLANKS = repeat_byte(ord(".")), repeat_byte(ord(" "))
_BLANK: Final = np.uint64(ord(" "))
_SECOND_BYTE, _FIRST_BYTE_BITS, _SECOND_BYTE_BITS = np.uint64(0x0100), np.uint64(0xFF), np.uint64(0xFF00)
_FIRST_TWO_BYTES: Final = _FIRST_BYTE_BITS | _SECOND_BYTE_BITS
_POWERS: Final = 10 ** np.arange(19, dtype=np.int64)
_FLOAT_POWERS: Final = 10.0 ** np.arange(19)

_SECOND: Final = 9
_NO_UNIT: Final = -1


def _prefix_table(units: dict[str, int]) -> npt.NDArray[np.int8]:
    table = np.full(256, _NO_UNIT, np.int8)
    for sign, code in units.items():
        table[ord(sign)] = code
    return table


_DIGITS: Final = "0123456789"
_TIME_PREFIX: Final = _prefix_table({"n": 0, "u": 3, "m": 6, **dict.fromkeys(_DIGITS, _SECOND)})
_SIZE_PREFIX: Final = _prefix_table(
    {**{unit[0]: power for power, unit in enumerate(SIZE_UNITS) if power}, **dict.fromkeys(_DIGITS, 0)}
)


@dataclass(slots=True)
class Figures:
    """The numbers of one or several columns; values of rows that are not ``is_valid`` are meaningless."""

    digits: Positions
    """All digits as one integer."""
    decimals: npt.NDArray[np.int8]
    """The number of decimals."""
    unit: npt.NDArray[np.int8]
    """The power of the unit: of ten for times, of the base for sizes."""
    is_dash: Mask
    """The cell is ``-``."""
    is_valid: Mask
    """The cell is a number with its unit, or ``-``."""

    def column(self, position: int) -> Figures:
        """Return the figures of one column of several."""
        return Figures(
            self.digits[position],
            self.decimals[position],
            self.unit[position],
            self.is_dash[position],
            self.is_valid[position],
        )

    def floats(self) -> npt.NDArray[np.float64]:
        """Return the numbers without units, NaN for ``-``."""
        value: npt.NDArray[np.float64] = np.where(self.is_dash, np.nan, self.digits / _FLOAT_POWERS[self.decimals])
        return value

    def integers(self) -> Positions:
        """Return integers, -1 for ``-``."""
        return np.where(self.is_dash, -1, self.digits)

    def nanoseconds(self) -> Positions:
        """Return times in nanoseconds, rounded half to even; -1 for ``-``."""
        power = self.unit - self.decimals
        value: Positions = self.digits * _POWERS.take(power, mode="clip")
        fine = np.flatnonzero(power < 0)
        if len(fine):
            value[fine] = np.rint(value[fine] / _FLOAT_POWERS[-power[fine]]).astype(np.int64)
        value[self.is_dash] = -1
        return value

    def last_digit_power(self) -> Positions:
        """Return the power of ten, in nanoseconds, of the last digit of times."""
        return self.unit - self.decimals


def fixed_width_cells(data: Bytes, offsets: Positions, width: int) -> Bytes:
    """Return the ``width`` characters from each offset, as rows of a table.

    They are copied together, so that all columns of a row are adjacent in the CPU cache.
    """
    if not len(offsets):
        return np.empty((0, width), np.uint8)
    windows: npt.NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return windows[offsets].view(np.uint8).reshape(-1, width)


def cell_words(cells: Bytes, end: int) -> Words:
    """Return the eight characters before column ``end`` of cells of `fixed_width_cells`."""
    if not len(cells):
        return np.empty(0, np.uint64)
    strided: Words = np.ndarray((len(cells),), "<u8", cells, end - WORD_BYTES, (cells.shape[1],))
    return np.ascontiguousarray(strided)


def are_blank(cells: Bytes, begin: int, end: int) -> Mask:
    """Return which rows have only blanks in columns ``begin`` to ``end`` (exclusive)."""
    result = np.ones(len(cells), np.bool_)
    while end - begin >= WORD_BYTES:
        result &= cell_words(cells, end) == _BLANKS
        end -= WORD_BYTES
    for column in range(begin, end):
        result &= cells[:, column] == ord(" ")
    return result


def _number_shapes() -> tuple[npt.NDArray[np.uint64], ...]:
    """Return masks for words of eight characters, by the set of characters that are no digits (bit 0 is the first).

    Returns:
        The mask of the digits before the point, the mask of those after it (all digits if there is no point), the
        expected other bytes (a byte that occurs in no text where no value is valid), and the number of digits after
        the point. The last byte may be the letter of a unit, which is in none of them.
    """
    shapes = []
    for non_digits in range(256):
        end = WORD_BYTES - 1 if non_digits >> (WORD_BYTES - 1) else WORD_BYTES
        first_digit = next((position for position in range(end) if not non_digits >> position & 1), end)
        point = next((position for position in range(first_digit, end) if non_digits >> position & 1), first_digit - 1)
        is_number = first_digit < end and non_digits >> (point + 1) & (1 << (end - point - 1)) - 1 == 0
        expected = b" " * first_digit + b"0" * (WORD_BYTES - first_digit)
        if point >= first_digit:
            expected = expected[:point] + b"." + expected[point + 1 :]
        positions = range(WORD_BYTES)
        shapes.append(
            (
                _byte_mask(first_digit <= position < point for position in positions),
                _byte_mask(point < position < end for position in positions),
                int.from_bytes(bytes(sign if sign != ord("0") else 0 for sign in expected), "little")
                if is_number
                else _IMPOSSIBLE_BYTE,
                end - point - 1 if point >= first_digit else 0,
            )
        )
    return tuple(np.array(column, np.uint64) for column in zip(*shapes, strict=True))


def _byte_mask(flags: Iterable[bool]) -> int:
    return int.from_bytes(bytes(0xFF * flag for flag in flags), "little")


_IMPOSSIBLE_BYTE: Final = 0xFF
_INTEGER_MASKS, _DECIMAL_MASKS, _EXPECTED_BYTES, _DECIMALS = _number_shapes()
_NON_DIGIT_MASKS: Final = ~(
    _INTEGER_MASKS | _DECIMAL_MASKS | (np.arange(256, dtype=np.uint64) >> _SEVEN) * np.uint64(0xFF << 56)
)
_DECIMAL_COUNT: Final = _DECIMALS.astype(np.int8)


def read_numbers(cells: Bytes, columns: Sequence[tuple[int, int]], suffix: bytes) -> Figures:
    """Read columns of right-aligned numbers with a unit that ends as ``suffix`` says: ``s``, ``B``, ``B/s``, or none.

    Numbers of more than eight characters, including the unit, are not valid.

    Args:
        cells: Cells of `fixed_width_cells`.
        columns: The start and end of each column, the end at 8 at least; columns are the first axis of the result.
        suffix: The end of the unit; a prefix (``u``, ``K``) may precede it.
    """
    unit_tail = suffix[1:]
    words = np.empty((len(columns), len(cells)), np.uint64)
    is_valid = np.empty(words.shape, np.bool_)
    is_dash = np.empty(words.shape, np.bool_)
    for column, (begin, end) in enumerate(columns):
        number_end = end - len(unit_tail)
        word = cell_words(cells, number_end)
        width = number_end - begin
        if width < WORD_BYTES:
            mask = LAST_BYTES_MASKS[width]
            word = (word & mask) | (_BLANKS & ~mask)
        words[column] = word
        is_valid[column] = are_blank(cells, begin, number_end - WORD_BYTES)
        if unit_tail:
            is_dash[column] = is_valid[column] & (word == _BLANKS) & are_blank(cells, number_end, end - 1)
            is_dash[column] &= cells[:, end - 1] == ord("-")
            for position, sign in enumerate(unit_tail, number_end):
                is_valid[column] &= cells[:, position] == sign
    if not unit_tail:
        is_dash = is_valid & (words == _DASH)
    if suffix:
        is_valid &= words >> _TOP == suffix[0]
        words = (words << _EIGHT) | _BLANK
    non_digits = (non_digit_flags(words) * GATHER_FLAGS) >> _TOP
    shape = non_digits.view(np.int64)
    is_valid &= (words & _NON_DIGIT_MASKS.take(shape)) == _EXPECTED_BYTES.take(shape)
    digits = words & _INTEGER_MASKS.take(shape)
    digits <<= _EIGHT
    digits |= words & _DECIMAL_MASKS.take(shape)
    if suffix:
        # The letter of the unit leaves room for one more digit.
        digits <<= (non_digits >> _SEVEN) << _THREE
        unit = (_TIME_PREFIX if suffix == b"s" else _SIZE_PREFIX).take((words >> _TOP).view(np.int64))
        is_valid &= unit != _NO_UNIT
    else:
        unit = np.zeros(words.shape, np.int8)
        is_valid &= shape <= _LAST_IS_DIGIT
    return Figures(eight_digits(digits), _DECIMAL_COUNT.take(shape), unit, is_dash, is_valid | is_dash)


_LAST_IS_DIGIT: Final = 0x7F
_DASH: Final = np.frombuffer(b"       -", "<u8")[0]


def trailing_ids(data: Bytes, ends: Positions) -> tuple[Positions, Positions]:
    """Return the ids in ``name [123]`` at the end of rows.

    Args:
        data: The text.
        ends: The index after each row's last character, at least 20.

    Returns:
        The ids, -1 for none, and the index after each row's last character without the id.
    """
    cells = fixed_width_cells(data, ends - _MAX_ID_WIDTH, _MAX_ID_WIDTH)
    word = cell_words(cells, _MAX_ID_WIDTH - 1)
    count = TRAILING_DIGIT_COUNTS.take(((non_digit_flags(word) * GATHER_FLAGS) >> _TOP).view(np.int64))
    ids = eight_digits(word & LAST_BYTES_MASKS.take(count))
    full_rows = np.flatnonzero((count == WORD_BYTES) & (cells[:, _MAX_ID_WIDTH - 2 - WORD_BYTES] != ord("[")))
    if len(full_rows):
        word = cell_words(cells[full_rows], _MAX_ID_WIDTH - 1 - WORD_BYTES)
        more_digits = TRAILING_DIGIT_COUNTS[((non_digit_flags(word) * GATHER_FLAGS) >> _TOP).view(np.int64)]
        ids[full_rows] += eight_digits(word & LAST_BYTES_MASKS[more_digits]) * 10**WORD_BYTES
        count[full_rows] += more_digits
    # Where the blank before the bracket must be, among all cells.
    blank_positions = np.arange(_MAX_ID_WIDTH - 3, cells.size, _MAX_ID_WIDTH) - count
    flat = cells.reshape(-1)
    has_id = (
        (cells[:, -1] == ord("]"))
        & (count > 0)
        & (flat[blank_positions + 1] == ord("["))
        & (flat[blank_positions] == ord(" "))
    )
    if has_id.all():
        return ids, ends - 3 - count
    return np.where(has_id, ids, -1), np.where(has_id, ends - 3 - count, ends)


_MAX_ID_WIDTH: Final = 20
"""The longest id with its blank and brackets, in characters."""


def read_millionths(data: Bytes, begins: Positions, ends: Positions) -> tuple[Positions, Mask]:
    """Return numbers such as ``215155.715000`` in millionths, and which parts of a text are such numbers."""
    length = ends - begins
    words = words_at(data, ends - WORD_BYTES)
    is_valid = (length >= WORD_BYTES) & (length <= 2 * WORD_BYTES) & (non_digit_flags(words) == _SECOND_BYTE)
    is_valid &= (words ^ _POINTS) & _SECOND_BYTE_BITS == 0
    # Seven digits: the one before the point is moved next to those after it.
    lower_digits = eight_digits(((words & _FIRST_BYTE_BITS) << _EIGHT) | (words & ~_FIRST_TWO_BYTES))
    leading_mask = LAST_BYTES_MASKS[np.clip(length - WORD_BYTES, 0, WORD_BYTES)]
    words = words_at(data, ends - 2 * WORD_BYTES)
    is_valid &= non_digit_flags(words) & leading_mask == 0
    return eight_digits(words & leading_mask) * 10**7 + lower_digits, is_valid


def read_dimensions(cells: Bytes, columns: Sequence[tuple[int, int]]) -> tuple[Positions, Mask]:
    """Read columns of right-aligned ``(x y z)``, given as for `read_numbers`.

    Returns:
        The figures by column, axis and row, -1 for ``-``; and which cells are valid, by column and row.
    """
    parts = np.empty((len(columns), 3, len(cells)), np.int64)
    is_valid = np.empty((len(columns), len(cells)), np.bool_)
    flat, rows = cells.reshape(-1), np.arange(0, cells.size, cells.shape[1])
    for column, (begin, end) in enumerate(columns):
        is_dash = cells[:, end - 1] == ord("-")
        is_tuple = cells[:, end - 1] == ord(")")
        positions = rows + (end - 1)
        for axis, opening in zip((2, 1, 0), b"  (", strict=True):
            words = words_at(flat, positions - WORD_BYTES)
            count = TRAILING_DIGIT_COUNTS[((non_digit_flags(words) * GATHER_FLAGS) >> _TOP).view(np.int64)]
            parts[column, axis] = np.where(is_dash, -1, eight_digits(words & LAST_BYTES_MASKS[count]))
            positions = np.maximum(positions - count - 1, rows + begin)
            is_tuple &= (count > 0) & (count < WORD_BYTES) & (flat[positions] == opening)
        open_columns = positions - rows
        is_tuple &= open_columns > begin
        is_valid[column] = (is_tuple | is_dash) & _are_blank_before(
            cells, begin, end, np.where(is_dash, end - 1, open_columns)
        )
    return parts, is_valid


def _are_blank_before(cells: Bytes, begin: int, end: int, stops: Positions) -> Mask:
    """Return which rows have only blanks from column ``begin`` to their own end, which is before ``end``."""
    result = np.ones(len(cells), np.bool_)
    for word_end in range(end, begin, -WORD_BYTES):
        mask = ~LAST_BYTES_MASKS[WORD_BYTES - np.clip(stops - (word_end - WORD_BYTES), 0, WORD_BYTES)]
        if word_end - begin < WORD_BYTES:
            mask &= LAST_BYTES_MASKS[word_end - begin]
        result &= (cell_words(cells, word_end) ^ _BLANKS) & mask == 0
    return result
