"""The view of a table: only the lines on the screen are rendered."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from tui.keys import Scope, actions_of, bindings_for
from tui.model.columns import ColumnKind
from tui.query.facts import frame_facts
from tui.widgets.output_filters import direct_lines
from tui.widgets.table.layout import TableLayout, lay_out
from tui.widgets.table.painter import PLAIN, WHOLE_PCT, RowState, TablePainter, TableStyles

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    import polars as pl
    from textual import events

    from tui.widgets.table.cells import CellWriter
    from tui.widgets.table.model import TableModel

MOVE_IDS: Final = frozenset(action.id for action in actions_of(Scope.TABLE) if action.group == "Movement")
HEADER_LINES: Final = 1
"""Lines that do not scroll."""
FULL_NAMES_SHARE: Final = 0.6
"""The minimum share of the width for a column of full names."""
SHARES: Final = ("time_pct", "path_pct")
"""Shares of a whole: the bar of the largest fills its cells."""
MAX_CACHED_STRIPS: Final = 400
"""A few screens; each strip is a dozen objects that the garbage collector must visit."""
AHEAD_ROWS: Final = 8
"""Rows rendered ahead at a time; few, so that a key does not wait."""


THUMB_STEPS: Final = 8
"""Positions of the scroll bar's thumb within a cell."""


def thumb_position(top: float, last: float, lines: int, height: int) -> float:
    """Return the position for a scrollbar; it is the same for all lines with the same picture of the thumb.

    Args:
        top: The first line on the screen.
        last: Its maximum.
        lines: The number of lines.
        height: The number of lines on the screen.

    >>> [round(thumb_position(top, 999_980, 1_000_000, 20)) for top in (0, 20, 40, 999_980)]
    [0, 3289, 3289, 999980]
    """
    places = THUMB_STEPS * (height - max(1, height * height / max(1, lines)))
    step = last / max(1, places)
    # The middle between two steps, so that rounding is safe.
    return top if step < 1 or top <= 0 or top >= last else (top // step + 0.5) * step


class LineScrollBar(ScrollBar):
    """A vertical scrollbar, one cell wide, that renders only the lines where its thumb moved."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render some lines."""
        self._lines = self._drawn()
        return direct_lines(self, crop, super().render_lines)

    def render_line(self, y: int) -> Strip:
        """Render one line; lines that a layout has added are blank until the bar gets its new size."""
        return self._lines[y] if y < len(self._lines) else Strip.blank(1)

    def _drawn(self) -> list[Strip]:
        bar = self.render()
        assert isinstance(bar, ScrollBarRender)
        style = bar.style
        assert isinstance(style, Style)
        assert style.color is not None
        assert style.bgcolor is not None
        drawn = bar.render_bar(
            self.size.height,
            bar.virtual_size,
            bar.window_size,
            bar.position,
            back_color=style.bgcolor,
            bar_color=style.color,
        )
        return [Strip([segment], 1) for segment in drawn.segments]


class FrameTable(ScrollView, can_focus=True):
    """The rows of a `TableModel` below a heading, with a cursor.

    Only the rows on the screen become Python values, and only the lines that change are drawn again.

    Args:
        model: The model of the table.
        id: The widget's id.
    """

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") in MOVE_IDS]

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "frametable--header",
        "frametable--header-cursor",
        "frametable--cursor",
        "frametable--cursor-cell",
        "frametable--blurred",
        "frametable--blurred-cell",
        "frametable--mark",
        "frametable--unknown",
        "frametable--bar",
        "frametable--hit",
        "frametable--error",
        "frametable--warning",
        "frametable--grew",
        "frametable--shrank",
    }
    DEFAULT_CSS = """
    FrameTable {
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .frametable--header { background: $panel; text-style: bold; }
        & > .frametable--header-cursor { background: $panel; text-style: bold underline; }
        & > .frametable--cursor { background: $selection; text-style: bold; }
        & > .frametable--cursor-cell { background: $selection-cell; text-style: bold underline; }
        &:ansi > .frametable--cursor { background: ansi_default; text-style: reverse; }
        &:ansi > .frametable--cursor-cell {
            background: ansi_default; text-style: reverse bold underline;
        }
        & > .frametable--blurred { background: $panel; text-style: bold; }
        & > .frametable--blurred-cell { background: $panel; text-style: bold underline; }
        & > .frametable--mark { color: $warning-ink; background: $warning-background; text-style: bold; }
        & > .frametable--unknown { color: $text-muted; }
        & > .frametable--bar { color: $bar; }
        & > .frametable--error { color: $error; text-style: bold; }
        & > .frametable--warning { color: $warning-ink; background: $warning-background; text-style: bold; }
        & > .frametable--grew { color: $error; }
        & > .frametable--shrank { color: $success; }
        & > .frametable--hit { color: $accent; text-style: bold underline; }
    }
    """

    class _OfTable(Message):
        def __init__(self, table: FrameTable) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> FrameTable:
            """The table."""
            return self.table

    class CursorMoved(_OfTable):
        """The cursor moved, or the rows changed."""

    class LayoutChanged(_OfTable):
        """Other columns fit on the line now."""

    class RowClicked(_OfTable):
        """A row was double-clicked."""

    class HeaderClicked(_OfTable):
        """A heading was clicked."""

        def __init__(self, table: FrameTable, column: str) -> None:
            super().__init__(table)
            self.column = column

    virtual_size = Reactive(Size(0, 0))
    """As in Textual, without a layout of the screen when the rows change."""

    def __init__(self, model: TableModel, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.model = model
        self.empty_text = ""
        """The text if there are no rows."""
        self._hits: re.Pattern[str] | None = None
        self._first_column = 0
        self._writers: dict[str, CellWriter] = {}
        self._written_frame: pl.DataFrame | None = None
        """The rows that the writers were made for."""
        self._written: tuple[object, ...] = ()
        """The row styles that the writers were made for."""
        self._painter: TablePainter | None = None
        self._painted_cells = 0
        """The width that the painter was made for."""
        self._part_styles: TableStyles | None = None
        self._strips: dict[tuple[int, RowState], Strip] = {}

    # --- what is shown -----------------------------------------------------------------------------------------------

    def show_rows(self) -> None:
        """Draw the changed rows of the model."""
        self.set_height(len(self.model.rows) + HEADER_LINES)
        self.redraw()
        self._scroll_to_cursor()
        self.post_message(self.CursorMoved(self))

    def writer(self, name: str) -> CellWriter:
        """Return the writer of a column."""
        return self._ensure_writers()[name]

    def toggle_mark(self) -> None:
        """Mark or unmark the selected row."""
        model = self.model
        model.marks = model.marks ^ {model.rows.source_row(model.cursor_row)}
        self._refresh_row(model.cursor_row)

    def note(self, source_rows: Iterable[int]) -> None:
        """Set the rows that have notes."""
        noted = frozenset(source_rows)
        if noted != self.model.noted:
            self.model.noted = noted
            self._strips.clear()
            self.refresh()

    def show_hits(self, pattern: re.Pattern[str] | None) -> None:
        """Underline the matches of a pattern in the found rows."""
        if pattern != self._hits:
            self._hits = pattern
            self._strips.clear()
            self.refresh()

    # --- layout ------------------------------------------------------------------------------------------------------

    def _ensure_writers(self) -> dict[str, CellWriter]:
        model, state = self.model, self.model.shown_state
        frame, written = model.rows.frame, (model.spec, model.share_of, state.unit, state.as_share, state.full_names)
        is_other = frame is not self._written_frame or written != self._written
        if is_other or any(column.name not in self._writers for column in model.columns()):
            self._writers = model.make_writers()
            self._written_frame, self._written = frame, written
        return self._writers

    def _ensure_painter(self) -> TablePainter:
        if self._painter is None:
            model, state = self.model, self.model.shown_state
            columns, written = model.columns(), self._ensure_writers()
            self._painted_cells = self.scrollable_content_region.width
            # One cell stays free, so that the last column does not touch the scrollbar.
            width = max(0, self._painted_cells - 1)
            widths = {column.name: written[column.name].width_sorted_by(len(model.sort)) for column in columns}
            has_full_names = state.full_names and any(
                column.kind is ColumnKind.SYMBOL for column in columns if column.name == model.spec.pinned
            )
            layout = lay_out(
                columns,
                {**widths, **model.widths_shown()},
                width,
                pinned=model.spec.pinned,
                min_pinned_cells=round(width * FULL_NAMES_SHARE) if has_full_names else model.spec.min_pinned_cells,
                preferred_pinned_cells=model.preferred_pinned_cells(width),
                also_pinned=state.pinned,
                name_last=state.name_last,
                trailing_columns=model.spec.trailing_columns,
                shows_full_name=model.cursor_column == model.spec.pinned,
                scrolled_out=self._first_column,
                bar_columns=() if has_full_names else model.spec.bars,
                unknown={column.name for column in columns if model.is_unknown(column.name)},
                keeps_order=bool(state.order),
            )
            self._first_column = layout.before
            if model.cursor_column not in layout.sequence and layout.sequence:
                model.cursor_column = layout.sequence[0]
            positions = {name: position for position, name in enumerate(model.rows.frame.columns)}
            # Shares of a whole are compared with each other; other percentages refer to a maximum.
            facts = frame_facts(model.rows.frame)
            full: dict[str, float] = {
                name: float(facts[name].extent[1] or WHOLE_PCT) for name in SHARES if name in positions
            }
            for column in columns:
                if column.is_growth and column.name in model.spec.bars and column.kind is not ColumnKind.PERCENT:
                    # The largest change fills its half of the bar.
                    low, high = facts[column.name].extent
                    full[column.name] = max(abs(low or 0), abs(high or 0)) or WHOLE_PCT
            self._painter = TablePainter(layout, written, positions, self._row_styles(), width + 1, full)
            self.post_message(self.LayoutChanged(self))
        return self._painter

    def _fit_width(self) -> None:
        """Lay out the columns again if the width is another one."""
        if self._painter is not None and self._painted_cells != self.scrollable_content_region.width:
            self._painter = None
            self._strips.clear()

    @property
    def table_layout(self) -> TableLayout:
        """The columns on the line, and the number of those that do not fit."""
        self._fit_width()
        return self._ensure_painter().layout

    def _row_styles(self) -> TableStyles:
        """Return the styles of the parts of a row, cached because they take long to look up."""
        if self._part_styles is not None:
            return self._part_styles
        base = self.rich_style

        def component(name: str) -> Style:
            return base + self.get_component_rich_style(f"frametable--{name}", partial=True)

        self._part_styles = TableStyles(
            row=base,
            header=component("header"),
            header_cursor=component("header-cursor"),
            cursor_row=component("cursor"),
            cursor_cell=component("cursor-cell"),
            blurred_row=component("blurred"),
            blurred_cell=component("blurred-cell"),
            mark=component("mark"),
            unknown=component("unknown"),
            bar=component("bar"),
            hit=component("hit"),
            error=component("error"),
            warning=component("warning"),
            grew=component("grew"),
            shrank=component("shrank"),
        )
        return self._part_styles

    def redraw(self) -> None:
        """Lay out the columns and redraw all lines."""
        self._painter = None
        self._strips.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        """Look up the component styles again after a change of theme or focus."""
        super().notify_style_update()
        self._part_styles = None
        self.redraw()

    def on_resize(self) -> None:
        """Place the thumb and the rows for the new height; the columns are laid out when they are drawn."""
        self._place_thumb()
        self._scroll_to_cursor()

    def watch_show_vertical_scrollbar(self) -> None:
        """Lay out the columns beside the scrollbar."""
        self.redraw()

    # --- drawing -----------------------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render some lines, without Textual's wrapping."""
        # Before the size is announced by an event, so that a view that opens has rows at once.
        self._fit_width()
        return direct_lines(self, crop, super().render_lines)

    def render_line(self, y: int) -> Strip:
        """Render one line."""
        painter = self._ensure_painter()
        if y < HEADER_LINES:
            return painter.header(self.model.sort, self.model.cursor_column)
        row = self.scroll_offset.y + y - HEADER_LINES
        if row >= len(self.model.rows):
            empty = self.empty_text if not len(self.model.rows) else ""
            return painter.message(empty, y - HEADER_LINES, self.size.height - HEADER_LINES)
        return self._row_strip(painter, row)

    def _row_strip(self, painter: TablePainter, row: int) -> Strip:
        row_state = self._row_state(row)
        strip = self._strips.get((row, row_state))
        if strip is None:
            if len(self._strips) >= MAX_CACHED_STRIPS:
                for old in list(islice(self._strips, MAX_CACHED_STRIPS // 8)):
                    del self._strips[old]
            strip = self._strips[row, row_state] = painter.row(self.model.rows.row(row), row_state, self._hits)
        return strip

    def draw_ahead(self) -> bool:
        """Render some rows of the next and the previous page; return whether there are more."""
        if self._painter is None:
            return False
        top, page = self.scroll_offset.y, self.page_rows
        most = min(page, MAX_CACHED_STRIPS // 4)
        near = (*range(top + page, min(top + page + most, len(self.model.rows))), *range(max(0, top - most), top))
        missing = [row for row in near if (row, self._row_state(row)) not in self._strips]
        for row in missing[:AHEAD_ROWS]:
            self._row_strip(self._painter, row)
        return len(missing) > AHEAD_ROWS

    def _row_state(self, row: int) -> RowState:
        model = self.model
        on_cursor = row == model.cursor_row
        if not (on_cursor or model.marks or model.noted or model.found_count):
            return PLAIN
        return RowState(
            model.cursor_column if on_cursor else None,
            on_cursor and self.has_focus,
            bool(model.marks) and model.rows.source_row(row) in model.marks,
            model.found_at(row) is not None,
            bool(model.noted) and model.rows.source_row(row) in model.noted,
        )

    def _refresh_row(self, row: int) -> None:
        line = row - self.scroll_offset.y + HEADER_LINES
        if HEADER_LINES <= line < self.size.height:
            self.refresh(Region(0, line, self.size.width, 1))

    @property
    def page_rows(self) -> int:
        """The number of rows on the screen."""
        return max(1, self.scrollable_content_region.height - HEADER_LINES)

    def _scroll_to_cursor(self) -> None:
        top = self.scroll_offset.y
        if self.model.cursor_row < top:
            self.scroll_to(y=self.model.cursor_row, animate=False, immediate=True)
        elif self.model.cursor_row >= top + self.page_rows:
            self.scroll_to(y=self.model.cursor_row - self.page_rows + 1, animate=False, immediate=True)

    # --- scrolling ---------------------------------------------------------------------------------------------------

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scrollbar, created on first use."""
        if self._vertical_scrollbar is None:
            bar = self._vertical_scrollbar = LineScrollBar(name="vertical", thickness=self.scrollbar_size_vertical)
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    def set_height(self, lines: int) -> None:
        """Set the number of lines; the screen is laid out again only if the scrollbar appears or disappears."""
        self.virtual_size = Size(self.size.width, lines)
        if self.show_vertical_scrollbar != (lines > self.container_size.height):
            self.refresh(layout=True)
        elif self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = lines
        self.scroll_y = self.validate_scroll_y(self.scroll_y)
        self._place_thumb()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Redraw the rows, and the scrollbar if its thumb moved."""
        self._place_thumb()
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def _place_thumb(self) -> None:
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = thumb_position(
                self.scroll_y, self.max_scroll_y, self.virtual_size.height, self.size.height
            )

    # --- cursor ------------------------------------------------------------------------------------------------------

    def move_to(self, row: int) -> None:
        """Select a row and scroll to it."""
        row = max(0, min(row, len(self.model.rows) - 1))
        if row == self.model.cursor_row:
            self._scroll_to_cursor()
            return
        previous, self.model.cursor_row = self.model.cursor_row, row
        self.model.cursor_source_row = self.model.rows.source_row(row)
        self._refresh_row(previous)
        self._refresh_row(row)
        self._scroll_to_cursor()
        self.post_message(self.CursorMoved(self))

    def move_to_column(self, name: str) -> None:
        """Select a column and scroll to it."""
        layout = self.table_layout
        if name not in layout.sequence:
            return
        left, self.model.cursor_column = self.model.cursor_column, name
        if self.model.shown_state.name_last and self.model.spec.pinned in (left, name) and left != name:
            # Names are shown whole while the cursor is on them.
            self.redraw()
            layout = self.table_layout
        if layout.find(name) is None:
            place = layout.sequence.index(name) - layout.still
            if place < layout.before:
                self._first_column = max(0, place)
                self.redraw()
            while self.table_layout.find(name) is None and self._first_column < place:
                self._first_column += 1
                self.redraw()
        self._refresh_row(self.model.cursor_row)
        self.refresh(Region(0, 0, self.size.width, HEADER_LINES))
        self.post_message(self.CursorMoved(self))

    def _step_column(self, step: int) -> None:
        sequence = self.table_layout.sequence
        if sequence:
            place = sequence.index(self.model.cursor_column) + step
            self.move_to_column(sequence[max(0, min(place, len(sequence) - 1))])

    def action_cursor_down(self) -> None:
        """Move one row down."""
        self.move_to(self.model.cursor_row + 1)

    def action_cursor_up(self) -> None:
        """Move one row up."""
        self.move_to(self.model.cursor_row - 1)

    def action_cursor_left(self) -> None:
        """Move one column to the left."""
        self._step_column(-1)

    def action_cursor_right(self) -> None:
        """Move one column to the right."""
        self._step_column(1)

    def action_cursor_top(self) -> None:
        """Move to the first row."""
        self.move_to(0)

    def action_cursor_bottom(self) -> None:
        """Move to the last row."""
        self.move_to(len(self.model.rows) - 1)

    def action_cursor_first_column(self) -> None:
        """Move to the first column."""
        self._step_column(-len(self.table_layout.sequence))

    def action_cursor_last_column(self) -> None:
        """Move to the last column."""
        self._step_column(len(self.table_layout.sequence))

    def _page(self, rows: int) -> None:
        top = self.scroll_offset.y
        self.scroll_to(y=max(0, min(top + rows, self.max_scroll_y)), animate=False, immediate=True)
        self.move_to(self.model.cursor_row + rows)

    def action_half_page_down(self) -> None:
        """Move half a page down."""
        self._page(max(1, self.page_rows // 2))

    def action_half_page_up(self) -> None:
        """Move half a page up."""
        self._page(-max(1, self.page_rows // 2))

    def action_page_down(self) -> None:
        """Page down."""
        self._page(self.page_rows)

    def action_page_up(self) -> None:
        """Page up."""
        self._page(-self.page_rows)

    def on_click(self, event: events.Click) -> None:
        """Select the cell, sort by the heading, or open the row on a double click."""
        placed = self.table_layout.column_at(event.x)
        if placed is None:
            return
        if event.y < HEADER_LINES:
            self.post_message(self.HeaderClicked(self, placed.column.name))
            return
        row = self.scroll_offset.y + event.y - HEADER_LINES
        if row >= len(self.model.rows):
            return
        self.move_to_column(placed.column.name)
        self.move_to(row)
        if event.chain == 2:
            self.post_message(self.RowClicked(self))
