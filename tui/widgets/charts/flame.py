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
from tui.text_width import cell_width, clip, clip_name, pad, shorten_symbol, without_prefix
from tui.widgets.app_services import services_of

if TYPE_CHECKING:
    import polars as pl
    from textual import events

MIN_LABEL_CELLS: Final = 4
"""Narrower nodes have no label."""
LEFT_EDGE: Final = "▏"
RULE: Final = "─"
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
        self._parents = self._starts = self._times = self._depths = np.zeros(0, np.int64)
        self._is_marked = np.zeros(0, np.bool_)
        self._total_ns = 0
        self.zoomed = NONE
        """The row that is as wide as the chart; `NONE` for all."""
        self.cursor = 0
        self._top = 0
        """The first level that is shown."""

    def show(self, rows: pl.DataFrame, empty: str = "") -> None:
        """Show other nodes, rows of `tui.analysis.ops.flame.flame_by`, optionally `with_growth`."""
        former = self.current
        self._rows, self._empty = rows, empty
        self._parents, self._starts = rows["parent"].to_numpy(), rows["offset_ns"].to_numpy()
        self._times = rows["gpu_ns"].to_numpy()
        self._depths = rows["level"].to_numpy() - 1
        self._is_marked = np.zeros(rows.height, np.bool_)
        self._total_ns = int(self._times[self._parents == NONE].sum()) if rows.height else 0
        self.zoomed, self.cursor, self._top = NONE, 0, 0
        if former is not None:
            is_same = (rows["path"] == former["path"]) & (rows["node_kind"] == former["node_kind"])
            self.cursor = int(is_same.arg_max() or 0) if is_same.any() else 0
        self._moved()

    @property
    def _level_lines(self) -> int:
        """Return the height of each level; levels whose nodes are all too narrow to draw take no lines."""
        start, length = self._span
        if not length:
            return 1
        ends = self._starts + self._times
        is_visible = (self._starts < start + length) & (ends > start)
        is_visible &= 2 * self._times * self.size.width >= length
        levels = int(self._depths[is_visible].max(initial=0)) + 1
        return max(1, min(MAX_LEVEL_LINES, self.size.height // levels))

    @property
    def _span(self) -> tuple[int, int]:
        """Return the start and the time of the zoomed node."""
        if self.zoomed == NONE:
            return 0, self._total_ns
        return int(self._starts[self.zoomed]), int(self._times[self.zoomed])

    def mark(self, is_marked: pl.Series) -> None:
        """Highlight these nodes."""
        self._is_marked = is_marked.to_numpy()
        self.refresh()

    @property
    def rows(self) -> pl.DataFrame | None:
        """The rows of the chart."""
        return self._rows

    @property
    def marked_rows(self) -> list[int]:
        """The rows that are highlighted."""
        return [int(row) for row in np.flatnonzero(self._is_marked)]

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

    def _is_within(self, row: int, ancestor: int) -> bool:
        while row not in (NONE, ancestor):
            row = int(self._parents[row])
        return row == ancestor

    def _moved(self) -> None:
        if len(self._depths):
            height = max(1, self.size.height // self._level_lines)
            level = int(self._depths[self.cursor])
            self._top = min(max(self._top, level - height + 1), level)
        self.refresh()
        self.post_message(self.Moved())

    # --- moving ------------------------------------------------------------------------------------------------------

    def action_level(self, step: int) -> None:
        """Move to the parent of the node, or to its largest child."""
        if step < 0:
            parent = int(self._parents[self.cursor]) if len(self._parents) else NONE
            if parent != NONE:
                self.move_to(parent)
        else:
            children = np.flatnonzero(self._parents == self.cursor)
            if len(children):
                self.move_to(int(children[0]))

    def action_beside(self, step: int) -> None:
        """Move to the next or the previous node of the level."""
        if not len(self._depths):
            return
        level = np.flatnonzero(self._depths == self._depths[self.cursor])
        if self.zoomed != NONE:
            start_ns = self._starts[self.zoomed]
            end_ns = start_ns + self._times[self.zoomed]
            level = level[(self._starts[level] >= start_ns) & (self._starts[level] < end_ns)]
        level = level[np.argsort(self._starts[level], kind="stable")]
        index = int(np.flatnonzero(level == self.cursor)[0]) if self.cursor in level else 0
        self.move_to(int(level[min(max(0, index + step), len(level) - 1)]))

    def action_zoom_in(self) -> None:
        """Make the node under the cursor as wide as the chart."""
        if len(self._depths):
            self.zoomed = self.cursor
            self._moved()

    def action_zoom_out(self) -> None:
        """Zoom out by one level."""
        if self.zoomed != NONE:
            self.zoomed = int(self._parents[self.zoomed])
            self._moved()

    def action_zoom_all(self) -> None:
        """Show all."""
        self.zoomed = NONE
        self._moved()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the node that was clicked; a second click zooms."""
        row = self._node_at(event.x, event.y // self._level_lines + self._top)
        if row == self.cursor:
            self.action_zoom_in()
        elif row != NONE:
            self.move_to(row)

    def _node_at(self, x: int, level: int) -> int:
        for row, first_cell, end_cell in self._visible_nodes(level):
            if first_cell <= x < end_cell:
                return row
        return NONE

    # --- drawing -----------------------------------------------------------------------------------------------------

    def _visible_nodes(self, level: int) -> list[tuple[int, int, int]]:
        """Return the nodes of a level with their first cell and the one after their last; `NONE` for small ones."""
        width = self.size.width
        start, length = self._span
        rows = np.flatnonzero(self._depths == level)
        if not length or not len(rows) or not width:
            return []
        first_cells = np.floor((self._starts[rows] - start) * width / length + 0.5).astype(np.int64).clip(0, width)
        end_cells = np.floor((self._starts[rows] + self._times[rows] - start) * width / length + 0.5)
        end_cells = end_cells.astype(np.int64).clip(0, width)
        is_visible = (self._starts[rows] < start + length) & (self._starts[rows] + self._times[rows] > start)
        order = np.argsort(self._starts[rows], kind="stable")
        nodes: list[tuple[int, int, int]] = []
        for index in order[is_visible[order]].tolist():
            row, first_cell, end_cell = int(rows[index]), int(first_cells[index]), int(end_cells[index])
            if end_cell <= first_cell and row == self.cursor:
                first_cell, end_cell = min(first_cell, width - 1), min(first_cell, width - 1) + 1
                if nodes and nodes[-1][2] > first_cell:
                    nodes[-1] = (nodes[-1][0], nodes[-1][1], first_cell)
            if end_cell > first_cell:
                first_cell = max(first_cell, nodes[-1][2]) if nodes else first_cell
                if end_cell > first_cell:
                    nodes.append((row, first_cell, end_cell))
        return nodes

    def render_line(self, y: int) -> Strip:
        """Render one line of a level: names first, then times."""
        width = self.size.width
        blank = self.get_component_rich_style("flamechart--empty")
        if self._rows is None or self._rows.is_empty():
            text = self._empty if y == 0 else ""
            return Strip([Segment(pad(clip(plain(text), width), width), blank)], width)
        segments: list[Segment] = []
        used = 0
        level, line = divmod(y, self._level_lines)
        for row, first_cell, end_cell in self._visible_nodes(level + self._top):
            if first_cell > used:
                segments.append(Segment(" " * (first_cell - used), blank))
            segments += self._segments(self._label(row, end_cell - first_cell, line), self._style(row, first_cell))
            used = end_cell
        segments.append(Segment(" " * (width - used), blank))
        return Strip(segments, width)

    def _segments(self, label: str, style: Style) -> list[Segment]:
        """Return the segments of a label: on white, the 16 colors are too pale for its text."""
        text = label[1:].rstrip(RULE)
        if services_of(self).color != "16" or self.app.current_theme.dark or not text.strip():
            return [Segment(label, style)]
        ink = style + Style(color="default")
        parts = (label[:1], style), (text, ink), (label[1 + len(text) :], style)
        return [Segment(part, part_style) for part, part_style in parts if part]

    def _label(self, row: int, width: int, label_line: int) -> str:
        assert self._rows is not None
        few_colors = services_of(self).color in ("16", "none")
        name, kind = self._rows["node"][row], self._rows["node_kind"][row]
        fill = RULE if few_colors and not label_line else " "
        if width < MIN_LABEL_CELLS:
            return (LEFT_EDGE if few_colors or width > 1 else " ") + fill * (width - 1)
        if label_line:
            times = "compared_ns" if "compared_ns" in self._rows.columns else "gpu_ns"
            time = brief_duration(self._rows[times][row])
            figures = f"{time}  {brief_percent(self._rows['time_pct'][row])}" if label_line == 1 else ""
            text_shown = figures if len(figures) < width else time if figures and len(time) < width else ""
            return LEFT_EDGE + pad(text_shown, width - 1)
        text = without_prefix(plain(str(name)))
        if "growth_pct" in self._rows.columns:
            growth = self._rows["growth_pct"][row]
            change = "new" if growth is None else f"{growth:+.0f}%"
            if width > len(change) + MIN_LABEL_CELLS:
                text = f"{change} {text}"
        label = shorten_symbol(text, width - 1) if kind == "kernel" else clip_name(text, width - 1)
        return LEFT_EDGE + label + fill * max(0, width - 1 - cell_width(label))

    def _style(self, row: int, _first_cell: int) -> Style:
        assert self._rows is not None
        if self._is_marked[row]:
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
