"""Renders the lines of a table from values; independent of keys, scrolling and frames."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.model.columns import ColumnKind
from tui.text_width import bar, cell_width, clip, growth_bar, pad, shaded
from tui.widgets.table.cells import UNIT_COLUMN
from tui.widgets.table.layout import COLUMN_GAP, GUTTER_CELLS, PlacedColumn, TableLayout

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

    from tui.model.table_spec import Sort
    from tui.widgets.table.cells import CellWriter


WHOLE_PCT: Final = 100.0
"""The percentage of the whole."""
NOTE_MARK: Final = "#"
"""The mark of a row with a note."""
UNDERLINE: Final = Style(underline=True)
MAX_CACHED_TEXTS: Final = 1_024
"""Cell texts cached for each column: in most columns a few values fill all rows."""
STATUS_COLUMNS: Final = frozenset({"verdict", "severity"})
"""Columns with the severity of a row."""
FINDING_SEVERITIES: Final = frozenset({"error", "warning", "info"})
"""Severities of findings; rows with another status are dim."""
_CACHED_TYPES: Final = frozenset({int, float, str, bool, type(None)})
"""Types whose values have the same text in every row; the text of a name in a tree depends on its depth."""


@dataclass(frozen=True, slots=True)
class TableStyles:
    """The component styles of a table, looked up once."""

    row: Style
    header: Style
    header_cursor: Style
    cursor_row: Style
    cursor_cell: Style
    blurred_row: Style
    blurred_cell: Style
    mark: Style
    unknown: Style
    bar: Style
    hit: Style
    error: Style
    warning: Style
    grew: Style
    shrank: Style


@dataclass(frozen=True, slots=True)
class RowState:
    """The properties of a row, other than values and layout, that change its rendering; part of the cache key."""

    cursor_column: str | None = None
    """The column under the cursor when the cursor is on this row."""
    is_focused: bool = False
    is_marked: bool = False
    is_found: bool = False
    is_noted: bool = False


PLAIN: Final = RowState()
"""The style of most rows."""


class TablePainter:
    """Renders the header and rows for one layout.

    Args:
        layout: The columns on the line.
        writers: The writer of each column.
        positions: The index of each column in a row of values.
        styles: The component styles.
        width: Cells of the line.
        full: The value of a full bar by column; 100 by default.
    """

    def __init__(
        self,
        layout: TableLayout,
        writers: Mapping[str, CellWriter],
        positions: Mapping[str, int],
        styles: TableStyles,
        width: int,
        full: Mapping[str, float] | None = None,
    ) -> None:
        self.layout = layout
        self._full = full or {}
        self.writers = writers
        self.styles = styles
        self.width = width
        self._cells = [_Cell(placed, writers[placed.column.name], positions) for placed in layout.placed]
        self._status = next((cell for cell in self._cells if cell.placed.column.name in STATUS_COLUMNS), None)
        self._blanks_behind = " " * max(
            0, width - GUTTER_CELLS - sum(cell.placed.end - cell.placed.x + COLUMN_GAP for cell in self._cells)
        )

    def header(self, sort: Sort, cursor_column: str) -> Strip:
        """Render the headings, with the sort order and the selected column."""
        directions = dict(sort)
        order = {name: number if len(sort) > 1 else 0 for number, (name, _) in enumerate(sort, 1)}
        runs = _Runs(self.styles.header)
        runs.add(" " * GUTTER_CELLS)
        for placed in self.layout.placed:
            name = placed.column.name
            title, width = self.writers[name].title, placed.width
            if name in directions:
                sign = f"{'▼' if directions[name] else '▲'}{order[name] or ''}"
                # Separated from the unit; the blank may use a cell of the gap.
                gap = " " if placed.end < self.width else ""
                width = max(width, min(width + len(gap), cell_width(f"{title}{gap}{sign}")))
                title = f"{title}{gap}{sign}"
            title = clip(title, width)
            style = self.styles.header_cursor if name == cursor_column else None
            blank = " " * (width - cell_width(title))
            if not placed.is_left_aligned:
                runs.add(blank)
            runs.add(title, style)
            if placed.is_left_aligned:
                runs.add(blank)
            runs.add(" " * (placed.end - placed.x - width + COLUMN_GAP))
        return runs.strip(self.width)

    def row(self, values: Sequence[object], state: RowState, hits: re.Pattern[str] | None = None) -> Strip:
        """Render a row.

        Args:
            values: Its values, in the order of the frame.
            state: Cursor, mark and whether a search found it.
            hits: The pattern of the search, which is underlined in the texts of a found row.
        """
        styles = self.styles
        on_cursor = state.cursor_column is not None
        cursor_style = self._cursor_style(state)
        base = styles.row if cursor_style is None else cursor_style
        status = values[self._status.position] if self._status is not None else None
        if isinstance(status, str) and status not in FINDING_SEVERITIES and not on_cursor:
            base = styles.unknown
        runs = _Runs(base)
        mark = "•" if state.is_marked else ""
        # The sign of a note takes the place of a missing mark, which separates it from the name.
        signs = f"{mark}{NOTE_MARK if state.is_noted else ''}"
        runs.add(signs, styles.mark if not on_cursor else None)
        runs.add(" " * (GUTTER_CELLS - len(signs)))
        hit = (base + UNDERLINE if on_cursor else styles.hit) if state.is_found else None
        hit_is_shown = False
        for cell in self._cells:
            placed = cell.placed
            value = values[cell.position]
            style: Style | None = None
            if on_cursor:
                style = self._cursor_cell_style(cell, value, state, base)
            elif value is None:
                style = styles.unknown
            elif placed.column.is_growth and isinstance(value, (int, float)):
                style = styles.grew if value > 0 else styles.shrank if value < 0 else None
            elif cell is self._status:
                style = self._severity(value)
            if hit and hits and cell.writer.is_text and (spans := cell.spans(value, values, hits)):
                hit_is_shown = True
                text = cell.fitted(value, values)
                runs.add_spans(text, spans, style, hit if style is None else style + UNDERLINE)
                runs.add(" " * (placed.width - cell_width(text)), style)
            else:
                runs.add(cell.filled(value, values), style)
            if placed.bar:
                self._add_bar(runs, placed, value, state)
            runs.add(" " * COLUMN_GAP)
        runs.add(self._blanks_behind)
        if hit and not hit_is_shown:
            # The match is cut off, or a number: highlight the whole row.
            return runs.strip(self.width).apply_style(UNDERLINE)
        return runs.strip(self.width)

    def _cursor_cell_style(self, cell: _Cell, value: object, state: RowState, base: Style) -> Style | None:
        """Return the style of a value in the row under the cursor; None: that of the row."""
        style: Style | None = None
        if state.cursor_column == cell.placed.column.name:
            style = self.styles.cursor_cell if state.is_focused else self.styles.blurred_cell
        if cell is self._status and not base.reverse and (severity := self._severity(value)):
            return (style or base) + Style(color=severity.color)
        return style

    def _add_bar(self, runs: _Runs, placed: PlacedColumn, value: object, state: RowState) -> None:
        """Add the bar of a value: its share of the largest, or its growth to the left or right of the middle."""
        share = value / self._full.get(placed.column.name, WHOLE_PCT) if isinstance(value, (int, float)) else 0.0
        runs.add(" ")
        if placed.column.is_growth:
            shrank, middle, grew = (self._drawn(part, state) for part in growth_bar(share, placed.bar))
            runs.add(shrank, self._bar_style(state, self.styles.shrank))
            runs.add(middle, self._bar_style(state, self.styles.unknown))
            runs.add(grew, self._bar_style(state, self.styles.grew))
            runs.add(" " * ((placed.bar - 1) % 2))
        else:
            runs.add(
                pad(self._drawn(bar(share, placed.bar), state), placed.bar), self._bar_style(state, self.styles.bar)
            )

    def _severity(self, status: object) -> Style | None:
        return {"error": self.styles.error, "warning": self.styles.warning}.get(str(status))

    def _cursor_style(self, state: RowState) -> Style | None:
        """Return the style of the row under the cursor; None for other rows."""
        if state.cursor_column is None:
            return None
        return self.styles.cursor_row if state.is_focused else self.styles.blurred_row

    def _bar_style(self, state: RowState, style: Style) -> Style | None:
        """Return the style of a bar: in reverse as the text, otherwise in its color on the row's background."""
        base = self._cursor_style(state)
        if base is None:
            return style
        return None if base.reverse else base + Style(color=style.color)

    def _drawn(self, text: str, state: RowState) -> str:
        """Return a bar or a part of one, adapted to the background of the row."""
        base = self._cursor_style(state)
        return shaded(text) if base is not None and base.reverse else text

    def message(self, text: str, line: int, room: int) -> Strip:
        """Return a line of the wrapped text for a table without rows; line 0 is blank if there is room.

        Commands are not wrapped at the hyphens of their options.
        """
        lines = wrap(text, max(8, self.width - 2 * GUTTER_CELLS), break_on_hyphens=False)
        if len(lines) < room:
            lines.insert(0, "")
        runs = _Runs(self.styles.row)
        if line < len(lines):
            runs.add(" " * GUTTER_CELLS + lines[line], self.styles.unknown)
        return runs.strip(self.width)


class _Cell:
    """A column at its position on the line, with its values as texts of its width."""

    def __init__(self, placed: PlacedColumn, writer: CellWriter, positions: Mapping[str, int]) -> None:
        self.placed = placed
        self.writer = writer
        self.position = positions[placed.column.name]
        self._unit_position = positions.get(UNIT_COLUMN) if writer.column.kind is ColumnKind.MEASURE else None
        self._ends_right = not placed.is_left_aligned
        # The writer outlives the painter: most columns keep their width when others scroll into view.
        self._cached = writer.filled.setdefault((placed.width, self._ends_right), {})

    def fitted(self, value: object, values: Sequence[object]) -> str:
        """Return a value of a row, in at most the width of the column."""
        if self._unit_position is None:
            return self.writer.fitted(value, self.placed.width)
        text = self.writer.measure(value, values[self._unit_position])
        return clip(text, self.placed.width)

    def spans(self, value: object, values: Sequence[object], hits: re.Pattern[str]) -> list[tuple[int, int]]:
        """Return the spans of a value's text that a search found."""
        return [found.span() for found in hits.finditer(self.fitted(value, values))]

    def filled(self, value: object, values: Sequence[object]) -> str:
        """Return a value of a row, in exactly the width of the column."""
        is_cached = self._unit_position is None and type(value) in _CACHED_TYPES
        text = self._cached.get(value) if is_cached else None
        if text is None:
            text = pad(self.fitted(value, values), self.placed.width, right=self._ends_right)
            if is_cached:
                if len(self._cached) >= MAX_CACHED_TEXTS:
                    self._cached.clear()
                self._cached[value] = text
        return text


class _Runs:
    """Collects texts and joins neighbors of the same style: every segment costs time and bytes."""

    def __init__(self, base: Style) -> None:
        self._base = base
        self._segments: list[Segment] = []
        self._texts: list[str] = []
        self._style = base

    def add(self, text: str, style: Style | None = None) -> None:
        wanted = self._base if style is None else style
        if wanted is not self._style:
            self._flush()
            self._style = wanted
        self._texts.append(text)

    def add_spans(self, text: str, spans: Sequence[tuple[int, int]], style: Style | None, marked: Style) -> None:
        """Add a text with highlighted spans."""
        end = 0
        for start, stop in spans:
            self.add(text[end:start], style)
            self.add(text[start:stop], marked)
            end = stop
        self.add(text[end:], style)

    def _flush(self) -> None:
        text = "".join(self._texts)
        if text:
            self._segments.append(Segment(text, self._style))
        self._texts.clear()

    def strip(self, width: int) -> Strip:
        self._flush()
        return Strip(self._segments).adjust_cell_length(width, self._base)
