"""The flame chart: the width of a node is its GPU time, each level is a row, the root is at the top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.fmt import brief_duration, brief_percent
from tui.keys import Scope, bindings_for
from tui.model.forest import NONE
from tui.text import plain
from tui.text_width import cell_width, clip, pad, shorten_symbol
from tui.widgets.app_services import services_of

if TYPE_CHECKING:
    import polars as pl
    from textual import events

MIN_LABEL_CELLS: Final = 4
"""Narrower nodes have no label."""
EDGE: Final = "▏"
LINE: Final = "─"
KIND_STYLES: Final = ("tensor", "other", "unknown", "memory", "memset", "communication")
MAX_LEVEL_LINES: Final = 3
"""The maximum height of a level: the name, its time, and a blank line."""
MIN_CHANGE_PCT: Final = 1.0
"""Smaller changes against the baseline are not colored."""


class FlameChart(Widget, can_focus=True):
    """Draws the zoomed node, its ancestors and its descendants; the cursor selects a node."""

    BINDINGS: ClassVar = bindings_for(Scope.FLAME)
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"flamechart--{name}"
        for name in (
            *KIND_STYLES,
            "even",
            "odd",
            "small",
            "found",
            "cursor",
            "grew",
            "shrank",
            "same",
            "added",
            "empty",
        )
    }
    DEFAULT_CSS = """
    FlameChart {
        height: 1fr;
        & > .flamechart--tensor { background: $kind-tensor; color: $background; }
        & > .flamechart--other { background: $kind-other; color: $background; }
        & > .flamechart--unknown { background: $kind-unknown; color: $background; }
        & > .flamechart--memory { background: $kind-memory; color: $background; }
        & > .flamechart--memset { background: $kind-memset; color: $foreground; }
        & > .flamechart--communication { background: $kind-communication; color: $background; }
        & > .flamechart--even { background: $panel; color: $foreground; }
        & > .flamechart--odd { background: $kind-idle; color: $foreground; }
        & > .flamechart--small { background: $surface; color: $text-muted; }
        & > .flamechart--found { background: $accent; color: $background; text-style: bold; }
        & > .flamechart--cursor { text-style: reverse bold; }
        & > .flamechart--grew { background: $error; color: $background; }
        & > .flamechart--shrank { background: $success; color: $background; }
        & > .flamechart--added { background: $warning; color: $background; }
        & > .flamechart--same { background: $panel; color: $foreground; }
        & > .flamechart--empty { color: $text-muted; }
        &:light {
            & > .flamechart--memset { color: $background; }
        }
        &:ansi {
            & > .flamechart--tensor { background: ansi_default; color: $kind-tensor; }
            & > .flamechart--other { background: ansi_default; color: $kind-other; }
            & > .flamechart--unknown { background: ansi_default; color: ansi_default; }
            & > .flamechart--memory, & > .flamechart--memset { background: ansi_default; color: $kind-memory; }
            & > .flamechart--communication { background: ansi_default; color: $kind-communication; }
            & > .flamechart--even, & > .flamechart--odd { background: ansi_default; color: ansi_default; }
            & > .flamechart--small, & > .flamechart--same { background: ansi_default; color: ansi_default; }
            & > .flamechart--found { background: ansi_default; color: ansi_default; text-style: bold underline; }
            & > .flamechart--grew { background: ansi_default; color: $error; }
            & > .flamechart--shrank { background: ansi_default; color: $success; }
            & > .flamechart--added { background: ansi_default; color: $warning; }
        }
    }
    """

    class Moved(Message):
        """The cursor or the zoom moved to another node."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rows: pl.DataFrame | None = None
        self._empty = ""
        self._around = self._starts = self._times = self._depths = np.zeros(0, np.int64)
        self._marked = np.zeros(0, np.bool_)
        self._whole = 0
        self.zoomed = NONE
        """The row that is as wide as the chart; `NONE` for all."""
        self.cursor = 0
        self._top = 0
        """The first level that is shown."""

    def show(self, rows: pl.DataFrame, empty: str = "") -> None:
        """Show other nodes, rows of `tui.analysis.ops.flame.flame_by`, optionally `with_growth`."""
        before = self.current
        self._rows, self._empty = rows, empty
        self._around, self._starts = rows["parent"].to_numpy(), rows["offset_ns"].to_numpy()
        self._times = rows["gpu_ns"].to_numpy()
        self._depths = rows["level"].to_numpy() - 1
        self._marked = np.zeros(rows.height, np.bool_)
        self._whole = int(self._times[self._around == NONE].sum()) if rows.height else 0
        self.zoomed, self.cursor, self._top = NONE, 0, 0
        if before is not None:
            same = (rows["path"] == before["path"]) & (rows["what"] == before["what"])
            self.cursor = int(same.arg_max() or 0) if same.any() else 0
        self._moved()

    @property
    def _tall(self) -> int:
        """Return the height of each level; levels whose nodes are all too narrow to draw take no lines."""
        start, length = self._span
        if not length:
            return 1
        ends = self._starts + self._times
        is_seen = (self._starts < start + length) & (ends > start)
        is_seen &= 2 * self._times * self.size.width >= length
        levels = int(self._depths[is_seen].max(initial=0)) + 1
        return max(1, min(MAX_LEVEL_LINES, self.size.height // levels))

    @property
    def _span(self) -> tuple[int, int]:
        """Return the start and the time of the zoomed node."""
        if self.zoomed == NONE:
            return 0, self._whole
        return int(self._starts[self.zoomed]), int(self._times[self.zoomed])

    def mark(self, found: pl.Series) -> None:
        """Highlight these nodes."""
        self._marked = found.to_numpy()
        self.refresh()

    @property
    def rows(self) -> pl.DataFrame | None:
        """The rows of the chart."""
        return self._rows

    @property
    def found(self) -> list[int]:
        """The rows that are highlighted."""
        return [int(row) for row in np.flatnonzero(self._marked)]

    @property
    def current(self) -> dict[str, Any] | None:
        """The node under the cursor."""
        if self._rows is None or self._rows.is_empty():
            return None
        return self._rows.row(self.cursor, named=True)

    def move_to(self, row: int) -> None:
        """Put the cursor on a row; zoom out if it is outside the zoomed node."""
        self.cursor = row
        if self.zoomed != NONE and not self._is_within(row, self.zoomed):
            self.zoomed = NONE
        self._moved()

    def _is_within(self, row: int, around: int) -> bool:
        while row not in (NONE, around):
            row = int(self._around[row])
        return row == around

    def _moved(self) -> None:
        if len(self._depths):
            height = max(1, self.size.height // self._tall)
            level = int(self._depths[self.cursor])
            self._top = min(max(self._top, level - height + 1), level)
        self.refresh()
        self.post_message(self.Moved())

    # --- moving ------------------------------------------------------------------------------------------------------

    def action_level(self, step: int) -> None:
        """Move to the parent of the node, or to its largest child."""
        if step < 0:
            above = int(self._around[self.cursor]) if len(self._around) else NONE
            if above != NONE:
                self.move_to(above)
        else:
            inside = np.flatnonzero(self._around == self.cursor)
            if len(inside):
                self.move_to(int(inside[0]))

    def action_beside(self, step: int) -> None:
        """Move to the next or the previous node of the level."""
        if not len(self._depths):
            return
        level = np.flatnonzero(self._depths == self._depths[self.cursor])
        if self.zoomed != NONE:
            first = self._starts[self.zoomed]
            last = first + self._times[self.zoomed]
            level = level[(self._starts[level] >= first) & (self._starts[level] < last)]
        level = level[np.argsort(self._starts[level], kind="stable")]
        place = int(np.flatnonzero(level == self.cursor)[0]) if self.cursor in level else 0
        self.move_to(int(level[min(max(0, place + step), len(level) - 1)]))

    def action_zoom_in(self) -> None:
        """Make the node under the cursor as wide as the chart."""
        if len(self._depths):
            self.zoomed = self.cursor
            self._moved()

    def action_zoom_out(self) -> None:
        """Zoom out by one level."""
        if self.zoomed != NONE:
            self.zoomed = int(self._around[self.zoomed])
            self._moved()

    def action_zoom_all(self) -> None:
        """Show all."""
        self.zoomed = NONE
        self._moved()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the node that was clicked; a second click zooms."""
        row = self._node_at(event.x, event.y // self._tall + self._top)
        if row == self.cursor:
            self.action_zoom_in()
        elif row != NONE:
            self.move_to(row)

    def _node_at(self, x: int, level: int) -> int:
        for row, first, last in self._line(level):
            if first <= x < last:
                return row
        return NONE

    # --- drawing -----------------------------------------------------------------------------------------------------

    def _line(self, level: int) -> list[tuple[int, int, int]]:
        """Return the nodes of a level with their first cell and the one after their last; `NONE` for small ones."""
        width = self.size.width
        start, length = self._span
        rows = np.flatnonzero(self._depths == level)
        if not length or not len(rows) or not width:
            return []
        first = np.floor((self._starts[rows] - start) * width / length + 0.5).astype(np.int64).clip(0, width)
        last = np.floor((self._starts[rows] + self._times[rows] - start) * width / length + 0.5)
        last = last.astype(np.int64).clip(0, width)
        seen = (self._starts[rows] < start + length) & (self._starts[rows] + self._times[rows] > start)
        order = np.argsort(self._starts[rows], kind="stable")
        drawn: list[tuple[int, int, int]] = []
        for place in order[seen[order]].tolist():
            row, begin, end = int(rows[place]), int(first[place]), int(last[place])
            if end <= begin and row == self.cursor:
                begin, end = min(begin, width - 1), min(begin, width - 1) + 1
                if drawn and drawn[-1][2] > begin:
                    drawn[-1] = (drawn[-1][0], drawn[-1][1], begin)
            if end > begin:
                begin = max(begin, drawn[-1][2]) if drawn else begin
                if end > begin:
                    drawn.append((row, begin, end))
        return drawn

    def render_line(self, y: int) -> Strip:
        """Render one line of a level: names first, then times."""
        width = self.size.width
        blank = self.get_component_rich_style("flamechart--empty")
        if self._rows is None or self._rows.is_empty():
            text = self._empty if y == 0 else ""
            return Strip([Segment(pad(clip(plain(text), width), width), blank)], width)
        segments: list[Segment] = []
        used = 0
        level, line = divmod(y, self._tall)
        for row, first, last in self._line(level + self._top):
            if first > used:
                segments.append(Segment(" " * (first - used), blank))
            segments += self._segments(self._label(row, last - first, line), self._style(row, first))
            used = last
        segments.append(Segment(" " * (width - used), blank))
        return Strip(segments, width)

    def _segments(self, label: str, style: Style) -> list[Segment]:
        """Return the segments of a label: on white, the 16 colors are too pale for its text."""
        text = label[1:].rstrip(LINE)
        if services_of(self).color != "16" or self.app.current_theme.dark or not text.strip():
            return [Segment(label, style)]
        ink = style + Style(color="default")
        parts = (label[:1], style), (text, ink), (label[1 + len(text) :], style)
        return [Segment(part, of) for part, of in parts if part]

    def _label(self, row: int, width: int, line: int) -> str:
        assert self._rows is not None
        few_colors = services_of(self).color in ("16", "none")
        name, what = self._rows["node"][row], self._rows["what"][row]
        fill = LINE if few_colors and not line else " "
        if width < MIN_LABEL_CELLS:
            return (EDGE if few_colors or width > 1 else " ") + fill * (width - 1)
        if line:
            times = "compared_ns" if "compared_ns" in self._rows.columns else "gpu_ns"
            time = brief_duration(self._rows[times][row])
            words = f"{time}  {brief_percent(self._rows['time_pct'][row])}" if line == 1 else ""
            shown = words if len(words) < width else time if words and len(time) < width else ""
            return EDGE + pad(shown, width - 1)
        text = plain(str(name))
        if "growth_pct" in self._rows.columns:
            growth = self._rows["growth_pct"][row]
            change = "new" if growth is None else f"{growth:+.0f}%"
            if width > len(change) + MIN_LABEL_CELLS:
                text = f"{change} {text}"
        label = shorten_symbol(text, width - 1) if what == "kernel" else clip(text, width - 1)
        return EDGE + label + fill * max(0, width - 1 - cell_width(label))

    def _style(self, row: int, _first: int) -> Style:
        assert self._rows is not None
        if self._marked[row]:
            style = self.get_component_rich_style("flamechart--found")
        elif "growth_ns" in self._rows.columns:
            growth = self._rows["growth_pct"][row]
            name = (
                "added"
                if growth is None
                else "grew"
                if growth > MIN_CHANGE_PCT
                else "shrank"
                if growth < -MIN_CHANGE_PCT
                else "same"
            )
            style = self.get_component_rich_style(f"flamechart--{name}")
        else:
            shade = "odd" if (self._depths[row] + row) % 2 else "even"
            style = self.get_component_rich_style(f"flamechart--{self._rows['kernel_kind'][row] or shade}")
        if row == self.cursor:
            style += self.get_component_rich_style("flamechart--cursor", partial=True)
        return style
