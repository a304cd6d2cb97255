"""A piece of a text: some megabytes of whole lines."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from tui.loaders.cleaning import clean_line
from tui.loaders.section import Line


class Block:
    """Whole lines of a text as UTF-8, free of escapes and control characters (`tui.loaders.cleaning`).

    Every line ends with a newline, also the last of the text; damaged UTF-8 is still in it.
    """

    def __init__(self, data: bytes, first_line: int) -> None:
        self.data = data
        self.first_line = first_line
        """The number of its first line in the text, from 1."""

    @cached_property
    def array(self) -> npt.NDArray[np.uint8]:
        """The same bytes as a read-only array."""
        return np.frombuffer(self.data, np.uint8)

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each line starts in `data`, and the length of `data` as the last entry."""
        return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(self.array == 10) + 1))

    @cached_property
    def line_count(self) -> int:
        """How many lines it holds."""
        return int(np.count_nonzero(self.array == 10))

    def line(self, index: int) -> Line:
        """One line as readers want it; ``index`` counts from 0 within the block."""
        return Line(clean_line(self.raw(index)), self.first_line + index)

    def raw(self, index: int) -> bytes:
        """The bytes of one line, without its newline."""
        return self.data[self.starts[index] : self.starts[index + 1] - 1]

    def index_at(self, position: int) -> int:
        """The index of the line that holds a byte position of `data`."""
        return int(np.searchsorted(self.starts, position, side="right")) - 1
