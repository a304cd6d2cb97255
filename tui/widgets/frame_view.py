"""A data frame drawn line by line, so that a million rows cost what a screenful costs."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import polars as pl
from textual.geometry import Region
from textual.message import Message

from tui.model.view import Sort, TableSpec, TableState
from tui.query.telling import weighed
from tui.widgets.ascii_scrollbar import AsciiScrollBarRender
from tui.widgets.cells import CellWriter, writers
from tui.widgets.own_lines import OwnLines
from tui.widgets.row_scroll import RowScroll
from tui.widgets.table_layout import TableLayout, lay_out
from tui.widgets.table_painter import PLAIN, RowLook, TablePainter, TableStyles
from tui.widgets.table_rows import TableRows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.style import Style
    from textual.strip import Strip

    from tui.model.columns import Column

HEADER: Final = 1
"""Lines that do not scroll."""
STRIPS_KEPT: Final = 400
"""Each is a dozen objects that the collector looks through: a few screens of them are enough."""
AHEAD_ROWS: Final = 8
"""So many rows are drawn ahead at a time: a key that comes meanwhile hardly waits."""


class FrameView(OwnLines, RowScroll, can_focus=True):
    """Rows of a frame below a heading, with a cursor that others move.

    Only the rows on the screen become Python values, and only the lines that change are drawn again.
    """

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
    }
    DEFAULT_CSS = """
    FrameView {
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .frametable--header { background: $panel; text-style: bold; }
        & > .frametable--header-cursor { background: $panel; text-style: bold underline; }
        & > .frametable--cursor { color: $primary; text-style: reverse; }
        & > .frametable--cursor-cell { color: $accent; text-style: reverse bold underline; }
        & > .frametable--blurred { background: $panel; text-style: bold; }
        & > .frametable--blurred-cell { background: $panel; text-style: bold underline; }
        & > .frametable--mark { color: $warning; text-style: bold; }
        & > .frametable--unknown { color: $text-muted; }
        & > .frametable--bar { color: $accent; }
        & > .frametable--hit { color: $accent; text-style: bold underline; }
    }
    """

    class _OfTable(Message):
        def __init__(self, table: FrameView) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> FrameView:
            """The table."""
            return self.table

    class CursorMoved(_OfTable):
        """The cursor stands on another row or column, or the rows are others."""

    class LayoutChanged(_OfTable):
        """Other columns fit on the line than before."""

    def __init__(self, spec: TableSpec, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.spec = spec
        self.arrangement = TableState()
        """Order, hidden columns, units and names; filter and cursor are not taken from it."""
        self.rows = TableRows(pl.DataFrame())
        self.share_of: float | None = None
        """What shares of durations are taken of; None where there is nothing to take them of."""
        self.marks: set[int] = set()
        """Marked rows, as row numbers of the frame."""
        self.noted: frozenset[int] = frozenset()
        """Rows with notes, as row numbers of the frame."""
        self.kept_row: int | None = None
        """The row number in the frame of the row that the user put the cursor on; None before they moved it."""
        # Rows are looked up in it for each line that is drawn: Polars takes a hundred times as long.
        self._found: NDArray[np.uint32] = np.empty(0, np.uint32)
        self._hits: re.Pattern[str] | None = None
        self.empty_text = ""
        self.cursor_row = 0
        self.cursor_column = ""
        self._first_column = 0
        self._columns: tuple[Column, ...] = ()
        self._shown_spec: TableSpec | None = None
        """The table that the columns are of."""
        self._writers: dict[str, CellWriter] = {}
        self._painter: TablePainter | None = None
        self._part_styles: TableStyles | None = None
        self._strips: dict[tuple[int, RowLook], Strip] = {}

    def on_mount(self) -> None:
        """Draw the scrollbar with what the terminal can show."""
        if self.ascii_only:
            # Textual documents setting it on one scrollbar, and types it as a class variable.
            self.vertical_scrollbar.renderer = AsciiScrollBarRender  # type: ignore[misc]

    # --- data --------------------------------------------------------------------------------------------------------

    def set_rows(
        self,
        rows: TableRows,
        *,
        cursor_row: int = 0,
        found: pl.Series | None = None,
        share_of: float | None = None,
    ) -> None:
        """Show these rows.

        Args:
            rows: What to show.
            cursor_row: The shown row that the cursor stands on.
            found: The shown rows that a search found, in ascending order.
            share_of: What shares of durations are taken of.
        """
        is_other = rows.frame is not self.rows.frame or self.spec is not self._shown_spec
        if is_other or share_of != self.share_of:
            self._writers.clear()
        self.share_of = share_of
        if is_other:
            self._columns = weighed(self.spec, rows.frame)
            self._shown_spec = self.spec
        self.rows = rows
        self._found = np.empty(0, np.uint32) if found is None else found.to_numpy()
        self.cursor_row = max(0, min(cursor_row, len(rows) - 1))
        self.set_height(len(rows) + HEADER)
        self._redraw()
        self._scroll_to_cursor()
        self.post_message(self.CursorMoved(self))

    def arrange_columns(self, state: TableState) -> None:
        """Take over order, hidden columns, sort markers, units and names."""
        before = self.arrangement
        looks = (before.unit, before.as_share, before.full_names)
        if (state.unit, state.as_share, state.full_names) != looks or before.hidden - state.hidden:
            self._writers.clear()
        elif not state.hidden >= before.hidden:
            # What was hidden from the beginning has no writer yet.
            self._writers.clear()
        self.arrangement = state
        self._redraw()

    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that the frame has and the user has not hidden, in the user's order."""
        order = {name: place for place, name in enumerate(self.arrangement.order)}
        present = [
            column
            for column in self._columns
            if column.name not in self.arrangement.hidden or column.name == self.spec.pinned
        ]
        return tuple(sorted(present, key=lambda column: order.get(column.name, len(order))))

    @property
    def sort(self) -> Sort:
        """The order of the rows, for the headings."""
        wanted = self.spec.sort if self.arrangement.sort is None else self.arrangement.sort
        return tuple(by for by in wanted if by[0] in self.rows.frame.columns)

    def current_column(self) -> Column | None:
        """The column under the cursor."""
        return next((column for column in self.columns() if column.name == self.cursor_column), None)

    def writer(self, name: str) -> CellWriter:
        """How a column's values are written."""
        self._ensure_writers()
        return self._writers[name]

    def mark(self, source_rows: Iterable[int]) -> None:
        """Set the marked rows."""
        self.marks = set(source_rows)
        self.refresh()

    def toggle_mark(self) -> None:
        """Mark the row under the cursor, or take its mark away."""
        self.marks = self.marks ^ {self.rows.source_row(self.cursor_row)}
        self._refresh_row(self.cursor_row)

    def note(self, source_rows: Iterable[int]) -> None:
        """Set the rows that have notes."""
        noted = frozenset(source_rows)
        if noted != self.noted:
            self.noted = noted
            self._strips.clear()
            self.refresh()

    def show_hits(self, pattern: re.Pattern[str] | None) -> None:
        """Underline what the pattern finds in the texts of the found rows."""
        if pattern != self._hits:
            self._hits = pattern
            self._strips.clear()
            self.refresh()

    @property
    def found_count(self) -> int:
        """How many rows the search found."""
        return len(self._found)

    def found_at(self, row: int) -> int | None:
        """Which of the found rows a shown row is, from 1; None where it is none of them."""
        place = bisect_left(self._found, row)
        return place + 1 if place < len(self._found) and self._found[place] == row else None

    def next_found(self, row: int, step: int) -> int | None:
        """The found row after (1) or before (-1) a shown row, around the end; None where nothing was found."""
        if not len(self._found):
            return None
        place = bisect_right(self._found, row) if step > 0 else bisect_left(self._found, row) - 1
        return int(self._found[place % len(self._found)])

    # --- layout ------------------------------------------------------------------------------------------------------

    @property
    def ascii_only(self) -> bool:
        """Whether the terminal can show ASCII characters alone."""
        return bool(getattr(self.app, "ascii_only", False))

    def _ensure_writers(self) -> None:
        if not self._writers:
            self._writers = writers(
                self.columns(),
                self.rows.frame,
                self.arrangement,
                share_of=self.share_of,
                pinned=self.spec.pinned,
                ascii_only=self.ascii_only,
            )

    def _ensure_painter(self) -> TablePainter:
        if self._painter is None:
            self._ensure_writers()
            columns = self.columns()
            # One cell stays free, so that the last column does not touch the scrollbar.
            width = max(0, self.scrollable_content_region.width - 1)
            layout = lay_out(
                columns,
                {column.name: self._writers[column.name].width_sorted_by(len(self.sort)) for column in columns},
                width,
                pinned=self.spec.pinned,
                pinned_least=self.spec.pinned_least,
                also_pinned=self.arrangement.pinned,
                name_last=self.arrangement.name_last,
                whole_name=self.cursor_column == self.spec.pinned,
                first=self._first_column,
                bar_columns=self.spec.bars,
                unknown={column.name for column in columns if self._is_unknown(column.name)},
            )
            self._first_column = layout.before
            if self.cursor_column not in layout.sequence and layout.sequence:
                self.cursor_column = layout.sequence[0]
            positions = {name: position for position, name in enumerate(self.rows.frame.columns)}
            self._painter = TablePainter(
                layout, self._writers, positions, self._looked_up(), width + 1, ascii_only=self.ascii_only
            )
            self.post_message(self.LayoutChanged(self))
        return self._painter

    def _is_unknown(self, name: str) -> bool:
        """Whether no row has a value of a column."""
        values = self.rows.frame[name]
        return 0 < len(values) == values.null_count()

    @property
    def table_layout(self) -> TableLayout:
        """The columns on the line, and how many lack the room."""
        return self._ensure_painter().layout

    def _looked_up(self) -> TableStyles:
        """The styles of the parts of a row, which take long to look up."""
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
        )
        return self._part_styles

    def _redraw(self) -> None:
        self._painter = None
        self._strips.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        """Look the component styles up again after a change of theme or focus."""
        super().notify_style_update()
        self._part_styles = None
        self._redraw()

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self._redraw()
        self._scroll_to_cursor()

    def watch_show_vertical_scrollbar(self) -> None:
        """Fit the columns to the width that the scrollbar leaves."""
        self._redraw()

    # --- drawing -----------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        painter = self._ensure_painter()
        if y < HEADER:
            return painter.header(self.sort, self.cursor_column)
        row = self.scroll_offset.y + y - HEADER
        if row >= len(self.rows):
            empty = self.empty_text if not len(self.rows) else ""
            return painter.message(empty, y - HEADER, self.size.height - HEADER)
        return self._row_strip(painter, row)

    def _row_strip(self, painter: TablePainter, row: int) -> Strip:
        look = self._look_of(row)
        strip = self._strips.get((row, look))
        if strip is None:
            if len(self._strips) >= STRIPS_KEPT:
                for old in list(islice(self._strips, STRIPS_KEPT // 8)):
                    del self._strips[old]
            strip = self._strips[row, look] = painter.row(self.rows.row(row), look, self._hits)
        return strip

    def draw_ahead(self) -> bool:
        """Draw some rows of the page below and of the page above; whether more are to be drawn."""
        if self._painter is None:
            return False
        top, page = self.scroll_offset.y, self.page_rows
        most = min(page, STRIPS_KEPT // 4)
        near = (*range(top + page, min(top + page + most, len(self.rows))), *range(max(0, top - most), top))
        missing = [row for row in near if (row, self._look_of(row)) not in self._strips]
        for row in missing[:AHEAD_ROWS]:
            self._row_strip(self._painter, row)
        return len(missing) > AHEAD_ROWS

    def _look_of(self, row: int) -> RowLook:
        on_cursor = row == self.cursor_row
        if not (on_cursor or self.marks or self.noted or len(self._found)):
            return PLAIN
        return RowLook(
            self.cursor_column if on_cursor else None,
            on_cursor and self.has_focus,
            bool(self.marks) and self.rows.source_row(row) in self.marks,
            self.found_at(row) is not None,
            bool(self.noted) and self.rows.source_row(row) in self.noted,
        )

    def _refresh_row(self, row: int) -> None:
        line = row - self.scroll_offset.y + HEADER
        if HEADER <= line < self.size.height:
            self.refresh(Region(0, line, self.size.width, 1))

    @property
    def page_rows(self) -> int:
        """Rows on the screen."""
        return max(1, self.scrollable_content_region.height - HEADER)

    def _scroll_to_cursor(self) -> None:
        top = self.scroll_offset.y
        if self.cursor_row < top:
            self.scroll_to(y=self.cursor_row, animate=False, immediate=True)
        elif self.cursor_row >= top + self.page_rows:
            self.scroll_to(y=self.cursor_row - self.page_rows + 1, animate=False, immediate=True)
