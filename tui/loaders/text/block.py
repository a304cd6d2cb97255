"""A block of text: some megabytes of whole lines, and the search for lines that a format can read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import nanoarrow  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import polars as pl

from tui.loaders.text.lines import clean_bytes, clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SEARCH_BYTES: Final = 1 << 19
"""Bytes that are searched at once: they and the results fit the CPU cache."""


_NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}".encode()
"""The separator of columns in a table copied from a web page."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text: decoded, with its indentation, without newline, terminal escapes and NUL bytes."""

    text: str
    number: int
    """The line number, from 1."""


class Block:
    """Whole lines of a text as UTF-8, free of escapes and control characters (`tui.loaders.text.lines`).

    No-break spaces are replaced by spaces.

    Every line ends with a newline, also the last of the text; invalid UTF-8 is not replaced.
    """

    def __init__(self, data: bytes, first_line: int, starts: npt.NDArray[np.int64]) -> None:
        """Make a block of clean lines; use `Block.from_data`."""
        self.data = data
        self.first_line = first_line
        """The number of its first line in the text, from 1."""
        self.starts = starts
        """Where each line starts in `data`, and the length of `data` as the last entry."""
        self.line_count = len(starts) - 1
        """The number of lines."""
        self.is_ascii = False
        """Whether every character is known to be ASCII."""
        self.bytes_read = 0
        """The stored bytes of the input that had been read when the block was made."""
        self.tag = b""
        """The tag of its process, which was in front of its lines."""
        self.other_processes: Sequence[Block] = ()
        """A block of the same lines for each further process; in each, the lines of others are empty."""

    @classmethod
    def from_data(cls, data: bytes, first_line: int) -> Block:
        """Make a block of whole lines of the input, each with its newline."""
        array = np.frombuffer(data, np.uint8)
        # One pass finds the lines, and whether there is anything to clean and anything but ASCII.
        positions = _special_character_offsets(array)
        codes = array[positions]
        is_newline = codes == 10
        is_ascii = True
        if not is_newline.all():
            is_ascii = int(codes.max()) < 128
            if ((codes != 10) & (codes != 9) & (codes < 128)).any():
                data = clean_bytes(data).replace(_NO_BREAK_SPACE, b" ")
                positions = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
            elif not is_ascii and _NO_BREAK_SPACE in data:
                data = data.replace(_NO_BREAK_SPACE, b" ")
                positions = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
            else:
                positions = positions[is_newline]
        starts = np.empty(len(positions) + 1, np.int64)
        starts[0] = 0
        np.add(positions, 1, out=starts[1:])
        block = cls(data, first_line, starts)
        block.is_ascii = is_ascii
        return block

    @cached_property
    def array(self) -> npt.NDArray[np.uint8]:
        """The bytes as a read-only array."""
        return np.frombuffer(self.data, np.uint8)

    def line(self, index: int) -> Line:
        """Return a line, decoded; ``index`` counts from 0 within the block."""
        return Line(clean_line(self.raw(index)), self.first_line + index)

    def raw(self, index: int) -> bytes:
        """Return the bytes of a line, without its newline."""
        return self.data[self.starts[index] : self.starts[index + 1] - 1]


def _special_character_offsets(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the offsets of control characters and of bytes that are not ASCII."""
    # As signed integers the latter are below 32, too.
    signed = array.view(np.int8)
    flags = np.zeros(min(-(-len(array) // 8) * 8, _SEARCH_BYTES), np.bool_)
    words = flags.view(np.uint64)
    is_nonzero = np.empty(len(words), np.bool_)
    offsets = [np.zeros(0, np.int64)]
    for offset in range(0, len(array), _SEARCH_BYTES):
        part = signed[offset : offset + _SEARCH_BYTES]
        np.less(part, 32, out=flags[: len(part)])
        flags[len(part) :] = False
        # Lines are long: eight bytes are tested at once, and most have no newline.
        word_indices = np.flatnonzero(np.not_equal(words, 0, out=is_nonzero))
        hits = words[word_indices]
        if int(np.bitwise_count(hits).sum()) == len(hits):
            positions = (word_indices << 3) + (np.bitwise_count(hits - np.uint64(1)) >> 3)
        else:
            positions = np.flatnonzero(flags)
        offsets.append(positions + offset)
    return np.concatenate(offsets)


class Cues:
    """The cues of several formats, searched together.

    Polars' engine searches all lines of a block at once, in time linear in the text, whatever the number of
    cues. (Python's ``re`` tries one cue after the other at every byte: 20 times slower on program output.)
    """

    def __init__(self, cues: Iterable[bytes]) -> None:
        self._pattern = "(?m)" + "|".join(f"(?:{cue.decode()})" for cue in cues)

    def indices(self, block: Block, first: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the indices of the lines with a cue, from ``first`` to before ``stop``."""
        if first >= stop:
            return np.zeros(0, np.int64)
        return first + np.flatnonzero(lines_as_strings(block, first, stop).str.contains(self._pattern).to_numpy())

    def match(self, head: bytes) -> bool:
        """Return whether the beginning of a text contains a cue."""
        block = Block.from_data(head + b"\n", 1)
        return bool(len(self.indices(block, 0, block.line_count)))


def lines_as_strings(block: Block, first: int, stop: int) -> pl.Series:
    """Return lines of a block as strings with newlines; invalid bytes become U+FFFD."""
    starts = block.starts[first : stop + 1]
    data = block.data[starts[0] : starts[-1]]
    starts = starts - starts[0]
    try:
        if not data.isascii():
            data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "replace").encode()
        starts = Block.from_data(data, 1).starts
    return pl.Series(nanoarrow.c_array_from_buffers(nanoarrow.large_string(), len(starts) - 1, [None, starts, data]))
