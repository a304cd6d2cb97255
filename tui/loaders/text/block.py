"""A piece of a text: some megabytes of whole lines."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from tui.loaders.text.cleaning import clean_bytes, clean_line
from tui.loaders.text.section import Line

_AT_ONCE: Final = 1 << 19
"""Bytes that are searched at once: they and what is found of them stay in the processor's cache."""


_NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}".encode()
"""What web pages put between the columns of a table that is copied from them."""


class Block:
    """Whole lines of a text as UTF-8, free of escapes and control characters (`tui.loaders.text.cleaning`).

    A no-break space is a space.

    Every line ends with a newline, also the last of the text; damaged UTF-8 is still in it.
    """

    def __init__(self, data: bytes, first_line: int, starts: npt.NDArray[np.int64]) -> None:
        """Take lines as they are; `Block.of` is the way to get one."""
        self.data = data
        self.first_line = first_line
        """The number of its first line in the text, from 1."""
        self.starts = starts
        """Where each line starts in `data`, and the length of `data` as the last entry."""
        self.line_count = len(starts) - 1
        """How many lines it holds."""
        self.is_ascii = False
        """Every character is known to be ASCII."""
        self.bytes_read = 0
        """How much of the input, as it lies on the disk, had been read when it was made."""

    @classmethod
    def of(cls, data: bytes, first_line: int) -> Block:
        """Make a block of whole lines, as they stand in the input, each with its newline."""
        array = np.frombuffer(data, np.uint8)
        # One pass finds the lines and, on the way, that there is hardly ever anything to clean, and that all is ASCII.
        places = _no_plain_characters(array)
        codes = array[places]
        ends = codes == 10
        is_ascii = True
        if not ends.all():
            is_ascii = int(codes.max()) < 128
            if ((codes != 10) & (codes != 9) & (codes < 128)).any():
                data = clean_bytes(data).replace(_NO_BREAK_SPACE, b" ")
                places = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
            elif not is_ascii and _NO_BREAK_SPACE in data:
                data = data.replace(_NO_BREAK_SPACE, b" ")
                places = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
            else:
                places = places[ends]
        starts = np.empty(len(places) + 1, np.int64)
        starts[0] = 0
        np.add(places, 1, out=starts[1:])
        block = cls(data, first_line, starts)
        block.is_ascii = is_ascii
        return block

    @cached_property
    def array(self) -> npt.NDArray[np.uint8]:
        """The same bytes as a read-only array."""
        return np.frombuffer(self.data, np.uint8)

    def line(self, index: int) -> Line:
        """One line as readers want it; ``index`` counts from 0 within the block."""
        return Line(clean_line(self.raw(index)), self.first_line + index)

    def raw(self, index: int) -> bytes:
        """The bytes of one line, without its newline."""
        return self.data[self.starts[index] : self.starts[index + 1] - 1]


def _no_plain_characters(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Where the control characters of a text are, and the bytes of characters that are not ASCII."""
    # As signed numbers the latter are below 32, too.
    signed = array.view(np.int8)
    flags = np.zeros(min(-(-len(array) // 8) * 8, _AT_ONCE), np.bool_)
    eights = flags.view(np.uint64)
    is_some = np.empty(len(eights), np.bool_)
    found = [np.zeros(0, np.int64)]
    for begin in range(0, len(array), _AT_ONCE):
        piece = signed[begin : begin + _AT_ONCE]
        np.less(piece, 32, out=flags[: len(piece)])
        flags[len(piece) :] = False
        # Lines are long: eight bytes are looked at as one, nearly all of which have no end of a line in them.
        at = np.flatnonzero(np.not_equal(eights, 0, out=is_some))
        hits = eights[at]
        if int(np.bitwise_count(hits).sum()) == len(hits):
            places = (at << 3) + (np.bitwise_count(hits - np.uint64(1)) >> 3)
        else:
            places = np.flatnonzero(flags)
        found.append(places + begin)
    return np.concatenate(found)
