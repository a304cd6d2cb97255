"""The panel below the lanes of a timeline: what takes most of the GPU time on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widget import Widget

from tui.analysis.timeline.lanes import ItemKind
from tui.fmt import brief_duration, count
from tui.widgets.charts.bars import BarRow, bar_columns, bar_lines

if TYPE_CHECKING:
    import polars as pl

MOST_LINES: Final = 12
LEAST_LINES: Final = 4
"""With fewer lines to spare there is no panel."""
PARTS: Final = {
    ItemKind.TENSOR: "tensor",
    ItemKind.KERNEL: "other",
    ItemKind.GRAPH: "unknown",
    ItemKind.COMMUNICATION: "communication",
    ItemKind.MEMSET: "memset",
}
"""How kinds of items look in charts; all others are memory copies."""


class TopWork(Widget):
    """Names with their time on the screen, in the lines that the lanes leave."""

    DEFAULT_CSS = """
    TopWork { height: auto; padding: 0 1; display: none; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.lines = 0
        """The lines that there are for it."""
        self._bars: list[BarRow] = []

    def make_room(self, spare: int) -> None:
        """Take so many lines, or none where they are too few."""
        lines = min(spare, MOST_LINES) if spare >= LEAST_LINES else 0
        if lines != self.lines:
            self.lines = lines
            self.display = lines > 0
            self.styles.height = lines

    def show(self, rows: pl.DataFrame) -> None:
        """Show other work.

        Args:
            rows: As `tui.analysis.timeline.lookup.top_of_gpus` returns them.
        """
        whole = int(rows["time_ns"].sum())
        largest = int(rows["time_ns"].max() or 0)  # type: ignore[arg-type]
        self._bars = [
            BarRow(
                str(place),
                row["name"] or "",
                row["time_ns"] / largest if largest else None,
                f"{count(row['count'])}×  {brief_duration(row['time_ns']):>8}",
                100 * row["time_ns"] / whole if whole else None,
                symbol=True,
                part=PARTS.get(ItemKind(row["kind"]), "memory"),
            )
            for place, row in enumerate(rows.head(max(0, self.lines - 1)).iter_rows(named=True))
        ]
        self.refresh()

    def render(self) -> Content:
        """The lines, in the width that the panel has now: it may have been opened just before its rows came."""
        title = Content.assemble(
            ("Top GPU work in this window", "bold $accent"), ("  share of GPU time", "$text-muted")
        )
        return Content("\n").join([title, *bar_lines(self._bars, bar_columns(self._bars, self.content_size.width))])
