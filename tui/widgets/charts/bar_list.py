"""A bar chart with lines that can be opened."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, ClassVar, Final

from rich.segment import Segment
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.keys import Scope, bindings_for
from tui.text import plain
from tui.text_width import shaded
from tui.widgets.charts.bars import MIN_BAR_CELLS, BarRow, bar_columns, bar_lines
from tui.widgets.panel import EdgePassed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.geometry import Size
    from textual.visual import Visual

    from tui.widgets.details import Details


KEYS: Final = frozenset({"table.down", "table.up", "table.top", "table.bottom", "table.open", "table.detail"})


_BLOCKS: Final = frozenset("█▏▎▍▌▋▊▉ ")


class BarList(Widget, can_focus=True):
    """Lines of label, bar, value and share; every line is a link: ``enter`` follows it.

    Args:
        rows: The lines.
        empty: The text if there are none.
        id: The widget's id.
    """

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") in KEYS]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"barlist--cursor"}
    DEFAULT_CSS = """
    BarList {
        height: auto;
        & > .barlist--cursor { background: $selection; text-style: bold; }
        &:ansi > .barlist--cursor { background: ansi_default; text-style: reverse; }
    }
    """

    class _RowMessage(Message):
        def __init__(self, bars: BarList, key: str) -> None:
            super().__init__()
            self.bars = bars
            self.key = key
            """The key of the line."""

        @property
        def control(self) -> BarList:
            """The chart."""
            return self.bars

    class RowOpened(_RowMessage):
        """The user opened a line."""

    class RowHighlighted(_RowMessage):
        """The cursor moved to another line."""

    class DetailRequested(_RowMessage):
        """The user asked for the details of a line."""

    def __init__(self, rows: Sequence[BarRow] = (), *, empty: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rows = tuple(rows)
        self._empty = empty
        self.cursor = 0
        """The selected line."""
        self.is_waiting = False
        """Whether the lines are still being computed."""

    @property
    def rows(self) -> tuple[BarRow, ...]:
        """The lines."""
        return self._rows

    @property
    def has_lines(self) -> bool:
        """Whether there are lines to select."""
        return bool(self._rows)

    def wait(self, placeholder: str) -> None:
        """Show a placeholder until the lines are computed; the chart can keep the focus meanwhile."""
        self.show([], empty=placeholder)
        self.is_waiting = True

    def show(self, rows: Sequence[BarRow], *, empty: str = "") -> None:
        """Show other lines; the cursor stays on the line with the same key."""
        key = self._rows[self.cursor].key if self._rows else ""
        self.is_waiting = False
        self._rows = tuple(rows)
        self._empty = empty
        self.cursor = next((index for index, row in enumerate(self._rows) if row.key == key), 0)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows."""
        return len(self._rows) or len(self._empty.splitlines())

    def render(self) -> Visual:
        """Render the lines; the selected one is in reverse while the chart has the focus."""
        if not self._rows:
            return Content("\n").join(Content.styled(plain(line), "$text-muted") for line in self._empty.splitlines())
        columns = bar_columns(self._rows, self.content_size.width)
        return Content("\n").join(bar_lines(self._rows, columns))

    def render_line(self, y: int) -> Strip:
        """Render one line; the selected one is highlighted."""
        strip = super().render_line(y)
        if not (self._rows and self.has_focus and self.row_at(y) == self.cursor):
            return strip
        style = self.get_component_rich_style("barlist--cursor", partial=True)
        if style.reverse:
            # Reverse video uses a single color: several colors on a line could not be distinguished from the
            # background.
            texts = [shaded(segment.text) if _is_bar(segment.text) else segment.text for segment in strip]
            return Strip([Segment(text, self.rich_style + style) for text in texts], strip.cell_length)
        return Strip([Segment(segment.text, (segment.style or style) + style) for segment in strip], strip.cell_length)

    def row_at(self, line: int) -> int:
        """Return the row of a line."""
        return line

    def cursor_moved(self) -> None:
        """Handle a move of the cursor."""

    def _move_to(self, row: int) -> None:
        former = self.cursor
        self.cursor = max(0, min(row, len(self._rows) - 1))
        self.refresh()
        self.cursor_moved()
        if self._rows and self.cursor != former:
            self.post_message(self.RowHighlighted(self, self._rows[self.cursor].key))

    def action_cursor_down(self) -> None:
        """Move down; from the last line to the widget below."""
        if self.cursor + 1 >= len(self._rows):
            self.post_message(EdgePassed(1))
        self._move_to(self.cursor + 1)

    def action_cursor_up(self) -> None:
        """Move up; from the first line to the widget above."""
        if not self.cursor:
            self.post_message(EdgePassed(-1))
        self._move_to(self.cursor - 1)

    def action_cursor_top(self) -> None:
        """Move to the first line."""
        self._move_to(0)

    def action_cursor_bottom(self) -> None:
        """Move to the last line."""
        self._move_to(len(self._rows) - 1)

    def action_open_row(self) -> None:
        """Open the selected line."""
        if self._rows:
            self.post_message(self.RowOpened(self, self._rows[self.cursor].key))

    def action_toggle_detail(self) -> None:
        """Request the details of the selected line."""
        if self._rows:
            self.post_message(self.DetailRequested(self, self._rows[self.cursor].key))

    def on_click(self, event: events.Click) -> None:
        """Select the clicked line; open it on a double click."""
        offset = event.get_content_offset(self)
        if offset is not None and (row := self.row_at(offset.y)) < len(self._rows):
            self._move_to(row)
            if event.chain == 2:
                self.action_open_row()


def _is_bar(text: str) -> bool:
    """Return whether a segment of a line is a bar; color samples are shorter."""
    return len(text) >= MIN_BAR_CELLS and set(text) <= _BLOCKS


class SortableBarList(BarList):
    """A bar chart that can be sorted in several ways."""

    BINDINGS: ClassVar = [b for b in bindings_for(Scope.TABLE) if getattr(b, "id", "") == "table.sort"]

    class SortRequested(Message):
        """The user asked for another order."""

    def action_sort_column(self) -> None:
        """Request another order."""
        self.post_message(self.SortRequested())


class TextList(BarList):
    """A list like `BarList` of labels with values instead of bars; long ones are wrapped."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._texts: Sequence[Details] = ()

    def show_texts(self, rows: Sequence[BarRow], texts: Sequence[Details]) -> None:
        """Show other texts.

        Args:
            rows: The key and the short text of each.
            texts: The full text of each.
        """
        self._texts = texts
        self.show(rows)

    def _lines(self, width: int) -> list[list[Content]]:
        """Return the wrapped lines of each text."""
        return [list(text.wrapped(width)) for text in self._texts]

    def _end_lines(self) -> list[int]:
        """Return the line after the end of each text."""
        return list(itertools.accumulate(map(len, self._lines(self.content_size.width))))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of wrapped lines."""
        return sum(map(len, self._lines(width)))

    def render(self) -> Content:
        """Render all texts."""
        return Content("\n").join(itertools.chain.from_iterable(self._lines(self.content_size.width)))

    def row_at(self, line: int) -> int:
        """Return the text that a line belongs to."""
        return bisect.bisect_right(self._end_lines(), line)

    def cursor_moved(self) -> None:
        """Scroll to the selected text."""
        scroll_view = next((ancestor for ancestor in self.ancestors if isinstance(ancestor, VerticalScroll)), None)
        if scroll_view is not None and self._texts:
            end_lines = [0, *self._end_lines()]
            top = self.region.y - scroll_view.content_region.y + round(scroll_view.scroll_y) + end_lines[self.cursor]
            height = end_lines[self.cursor + 1] - end_lines[self.cursor]
            scroll_view.scroll_to_region(Region(0, top, 1, height), animate=False)
