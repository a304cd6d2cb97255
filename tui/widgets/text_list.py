"""Texts of one line or more, each of which can be gone into."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region

from tui.widgets.ascii_text import in_ascii
from tui.widgets.bar_list import BarList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.geometry import Size

    from tui.widgets.bars import BarRow
    from tui.widgets.details import Details


class TextList(BarList):
    """What `BarList` is for bars, for labels with values, which are wrapped where they lack the room."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._texts: Sequence[Details] = ()

    def show_texts(self, rows: Sequence[BarRow], texts: Sequence[Details]) -> None:
        """Show other texts.

        Args:
            rows: The key of each, and what it is in short.
            texts: How each is written.
        """
        self._texts = texts
        self.show(rows)

    def _lines(self, width: int) -> list[list[Content]]:
        """The lines of each text."""
        is_ascii = getattr(self.app, "ascii_only", False)
        return [[in_ascii(line) if is_ascii else line for line in text.wrapped(width)] for text in self._texts]

    def _ends(self) -> list[int]:
        """After how many lines each text ends."""
        return list(itertools.accumulate(map(len, self._lines(self.content_size.width))))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as it takes."""
        return sum(map(len, self._lines(width)))

    def render(self) -> Content:
        """The lines of all texts."""
        return Content("\n").join(itertools.chain.from_iterable(self._lines(self.content_size.width)))

    def drawn_cells(self) -> list[int]:
        """None: there are words alone."""
        return []

    def row_at(self, line: int) -> int:
        """The text that a line belongs to."""
        return bisect.bisect_right(self._ends(), line)

    def cursor_seen(self) -> None:
        """Have the text under the cursor on the screen: together they may be longer than that."""
        box = next((each for each in self.ancestors if isinstance(each, VerticalScroll)), None)
        if box is not None and self._texts:
            ends = [0, *self._ends()]
            top = self.region.y - box.content_region.y + round(box.scroll_y) + ends[self.cursor]
            height = ends[self.cursor + 1] - ends[self.cursor]
            box.scroll_to_region(Region(0, top, 1, height), animate=False)
