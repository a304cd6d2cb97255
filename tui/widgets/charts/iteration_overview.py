"""Iterations as columns, as high as each is long, with what its time was used for."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widget import Widget

from tui.analysis.iterations.times import BarRows
from tui.fitting import ELLIPSIS, cell_width
from tui.fmt import brief_duration
from tui.widgets.app_services import services_of
from tui.widgets.charts.bars import LOOKS
from tui.widgets.charts.iteration_bars import (
    CUT,
    ON,
    SMOOTH,
    WHISKER,
    BarStyle,
    bar_width,
    column,
    round_scale_ns,
    shown_parts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from textual.geometry import Size

    from tui.widgets.charts.iteration_bars import Cell

TALL: Final = 7
SHORT: Final = 5
"""Lines of the columns, where there is room and where not: fewer would not show their parts."""
SCALE: Final = 10
"""Cells of the scale at the left, with a blank."""
APART_FROM: Final = 3
"""Columns of so many cells have a blank between them."""
ROOM_LEAST: Final = 8
"""Cells that the columns have at least."""
WORDS: Final = {
    "tensor": "tensor cores",
    "other": "other kernels",
    "unknown": "kernels",
    "memory": "memory",
    "dataloader": "data loading",
    "io": "files",
    "cpu": "CPU",
    "idle": "other",
    "whole": "use not known",
}
"""What the parts are called below them."""
SIGNS: Final = {
    WHISKER: "longest of several",
    CUT: "longer",
}


class TimesChart(Widget):
    """Columns from zero to the longest iteration; where there are more than cells, a column is the mean of several."""

    DEFAULT_CSS = """
    TimesChart { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rows: pl.DataFrame | None = None
        self._is_all = True

    def show(self, rows: pl.DataFrame | None, *, is_all: bool = True) -> None:
        """Show other iterations, or none.

        Args:
            rows: As `tui.analysis.iterations.times.BarRows` takes them, in order.
            is_all: What they were used for is not still being worked out.
        """
        self._rows, self._is_all = rows, is_all
        self.display = rows is not None and rows.height > 1
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The columns, the numbers of the first and last, and what the parts are."""
        return self._lines + 2

    @property
    def _lines(self) -> int:
        return TALL if self.screen.has_class("-tall") else SHORT

    def render(self) -> Content:
        """Draw the columns with their scale at the left, and below them their ends and their parts."""
        if self._rows is None:
            return Content("")
        colors = services_of(self).color
        room = max(ROOM_LEAST, self.content_size.width - SCALE)
        shown = BarRows(self._rows).bars(0, self._rows.height, room)
        longest = round_scale_ns(shown)
        look = BarStyle(self._lines, longest, smooth=colors in SMOOTH)
        columns = [column(bar, look) for bar in shown]
        cells = bar_width(len(shown), room)
        body = cells - (1 if cells >= APART_FROM else 0)
        scale = [brief_duration(longest), *[""] * (look.lines - 1)]
        lines = [
            Content.assemble(
                (f"{text:>{SCALE - 1}} ", "$text-muted"), *_drawn([of[line] for of in columns], cells, body)
            )
            for text, line in zip(scale, reversed(range(look.lines)), strict=True)
        ]
        first, last = (str(self._rows["iteration"][place]) for place in (0, -1))
        axis = first + last.rjust(cells * (len(shown) - 1) + body - cell_width(first))
        used = shown_parts(columns)
        parts = [(LOOKS[part].fill, LOOKS[part].color, WORDS[part]) for part in WORDS if part in used]
        signs = {character for of in columns for character, part in of if part == "sign"}
        if not self._is_all:
            parts = [(ELLIPSIS, "$text-muted", "")]
        parts += [(sign, "$foreground", words) for sign, words in SIGNS.items() if sign in signs]
        lines += [Content.styled(" " * SCALE + axis, "$text-muted"), *_legend(parts, self.content_size.width)]
        return Content("\n").join(lines)


def _drawn(line: Sequence[Cell], cells: int, body: int) -> list[tuple[str, str]]:
    """A line of the columns: texts and their styles, neighbors of one part as one."""
    runs = []
    for part, of in groupby(line, key=itemgetter(1)):
        colors = [LOOKS[shown].color for shown in part.split(ON) if shown in LOOKS]
        for character, _ in of:
            # Blanks between columns have no ground.
            runs += [(character * body, ON.join(colors) or "$foreground"), (" " * (cells - body), "")]
    return runs


def _legend(parts: Sequence[tuple[str, str, str]], width: int) -> list[Content]:
    """What signs of a color mean, as many as there is room for; no line where there are none."""
    pieces: list[tuple[str, str]] = []
    for sign, color, words in parts:
        piece = [(sign, color), (f" {words}  ", "$text-muted")]
        if sum(cell_width(text) for text, _ in [*pieces, *piece]) - 2 <= width:
            pieces += piece
    return [Content.assemble(*pieces)] if pieces else []
