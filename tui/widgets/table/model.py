"""The model of a table, independent of Textual: rows, order, filter, marks, columns and cursor."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.model.table_spec import Sort, TableSpec, TableState
from tui.query.apply import Applied, apply
from tui.query.facts import frame_facts, prioritize
from tui.text import plain
from tui.widgets.table.cells import CellWriter, units_of, writers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tui.model.columns import Column

PAGE_ROWS: Final = 128
"""Rows converted to Python values at a time: two tall screens, so that page down mostly finds its rows converted."""
MAX_CACHED_PAGES: Final = 16
MAX_SINGLE_LOOKUPS: Final = 4
"""More keys are looked up with a join."""

NO_MATCH: Final = "No row matches the filter. Press esc to clear it."

Key = tuple[object, ...]
Row = dict[str, object]


class TableRows:
    """The rows of a frame, with an optional index; only pages that are used become Python values.

    Args:
        frame: The data.
        order: Row numbers of the frame in the order shown; None: all rows in the order of the frame.
    """

    def __init__(self, frame: pl.DataFrame, order: pl.Series | None = None) -> None:
        self.frame = frame
        self.order = order
        self._pages: dict[int, list[tuple[object, ...]]] = {}
        self._positions = {name: position for position, name in enumerate(frame.columns)}

    def __len__(self) -> int:
        return self.frame.height if self.order is None else len(self.order)

    def row(self, row: int) -> tuple[object, ...]:
        """Return the values of a shown row, in the order of the frame's columns."""
        page, offset = divmod(row, PAGE_ROWS)
        rows = self._pages.get(page)
        if rows is None:
            if len(self._pages) >= MAX_CACHED_PAGES:
                self._pages.pop(next(iter(self._pages)))
            rows = self._pages[page] = self.slice(page * PAGE_ROWS, PAGE_ROWS).rows()
        return rows[offset]

    def value(self, row: int, column: str) -> object:
        """Return one value of a shown row."""
        return self.row(row)[self._positions[column]]

    def record(self, row: int) -> dict[str, object]:
        """Return a shown row as a dictionary."""
        return dict(zip(self.frame.columns, self.row(row), strict=True))

    def slice(self, start: int, count: int) -> pl.DataFrame:
        """Return some of the shown rows."""
        if self.order is None:
            return self.frame.slice(start, count)
        return self.frame[self.order.slice(start, count)]

    def shown(self) -> pl.DataFrame:
        """Return all shown rows."""
        return self.frame if self.order is None else self.frame[self.order]

    def source_row(self, row: int) -> int:
        """Return the frame's row number of a shown row."""
        return row if self.order is None else int(self.order[row])

    def shown_row(self, source_row: int) -> int | None:
        """Return the position at which a row of the frame is shown; None if it is filtered out."""
        if self.order is None:
            return source_row if 0 <= source_row < self.frame.height else None
        positions = (self.order == source_row).arg_true()
        return int(positions[0]) if len(positions) else None

    def key(self, source_row: int, columns: Sequence[str]) -> Key:
        """Return the key of a row of the frame."""
        return tuple(self.frame[column][source_row] for column in columns)

    def keys(self, source_rows: Iterable[int], columns: Sequence[str]) -> frozenset[Key]:
        """Return the keys of several rows of the frame."""
        wanted = [column for column in columns if column in self._positions]
        picked = pl.Series(list(source_rows), dtype=pl.UInt32)
        return frozenset(self.frame.select(wanted)[picked].rows()) if wanted else frozenset()

    def _find_key(self, key: Key, columns: Sequence[str]) -> int | None:
        """Return the first row with a key; row numbers, which are last in keys, are compared first."""
        rows: np.ndarray[Any, np.dtype[np.intp]] | None = None
        for column, value in reversed(list(zip(columns, key, strict=True))):
            values = self.frame[column]
            values = values if rows is None else values.gather(pl.Series(rows))
            try:
                is_equal = (values.is_null() if value is None else values == value).fill_null(False).to_numpy()
            except (pl.exceptions.PolarsError, TypeError, OverflowError):
                # Keys saved with another input can have values of other types: they match nothing.
                return None
            rows = np.flatnonzero(is_equal) if rows is None else rows[is_equal]
        return int(rows[0]) if rows is not None and len(rows) else None

    def find_keys(self, keys: Collection[Key], columns: Sequence[str]) -> list[int]:
        """Return the frame's row numbers of keys (the first of equal ones); unknown keys are skipped."""
        complete = [key for key in keys if len(key) == len(columns)]
        if not complete or not columns or any(column not in self._positions for column in columns):
            return []
        if len(complete) <= MAX_SINGLE_LOOKUPS:
            return sorted({row for key in complete if (row := self._find_key(key, columns)) is not None})
        schema = {column: self.frame.schema[column] for column in columns}
        try:
            key_frame = pl.DataFrame(complete, schema=schema, orient="row")
        except (pl.exceptions.PolarsError, TypeError, OverflowError):
            # Keys that were saved with another input can hold values of another type: they match nothing here.
            middle = len(complete) // 2
            if not middle:
                return []
            return sorted({*self.find_keys(complete[:middle], columns), *self.find_keys(complete[middle:], columns)})
        numbered = self.frame.select(columns).with_row_index("row number")
        matches = numbered.join(key_frame, on=list(columns), how="semi", nulls_equal=True)
        return matches.unique(subset=list(columns), keep="first", maintain_order=True)["row number"].to_list()


class TableModel:
    """The rows of a table and the user's arrangement.

    The requested state can be ahead of the shown one: for many rows, filter and order are computed in a thread.

    Args:
        spec: The table.
    """

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self.frame = pl.DataFrame()
        """All rows."""
        self.excluded_sessions: Collection[int] = ()
        """Sessions whose times must not be added to those of others."""
        self.state = TableState()
        """The requested arrangement, without cursor and marks."""
        self.shown_state = TableState()
        """The arrangement of the shown rows."""
        self.applied: Applied | None = None
        """The result of the latest filter, search and order."""
        self.valid_filter = ""
        """The latest filter that could be parsed."""
        self.rows = TableRows(self.frame)
        """The shown rows, in order."""
        self.share_of: float | None = None
        """The total that shares of durations refer to; None if there is none."""
        self.shown_pct: float | None = None
        """The share of the weight in the shown rows, in percent."""
        self.marks: set[int] = set()
        """The frame's row numbers of marked rows."""
        self.noted: frozenset[int] = frozenset()
        """The frame's row numbers of rows with notes."""
        self.cursor_row = 0
        """The position of the cursor among the shown rows."""
        self.cursor_column = ""
        self.cursor_source_row: int | None = None
        """The frame's row number of the row that the user selected; None before the cursor was moved."""
        self._missing_cursor: Key | None = None
        """The key of a row to select once a frame has it."""
        self._missing_marks: frozenset[Key] = frozenset()
        # Used for each rendered line: Polars takes a hundred times as long.
        self._found: NDArray[np.uint32] = np.empty(0, np.uint32)
        self._columns: tuple[Column, ...] = ()
        self._columns_source: tuple[TableSpec, pl.DataFrame] | None = None

    # --- rows --------------------------------------------------------------------------------------------------------

    def load(self, frame: pl.DataFrame) -> None:
        """Replace the rows; cursor and marks stay, by key."""
        cursor, marks = self.cursor_key() or self._missing_cursor, self.mark_keys() or self._missing_marks
        self.frame = frame
        self.select_keys(cursor, marks)

    @property
    def current_row(self) -> Row | None:
        """The row under the cursor."""
        return self.rows.record(self.cursor_row) if len(self.rows) else None

    def shown_frame(self, *, all_columns: bool = True) -> pl.DataFrame:
        """Return the shown rows: filtered and sorted.

        Args:
            all_columns: All columns of the frame, or only those that the user has not hidden, in the user's order.
        """
        return self.with_columns(self.rows.shown(), all_columns=all_columns)

    def marked_rows(self, *, all_columns: bool = True) -> pl.DataFrame:
        """Return the marked rows, in the order of the frame."""
        picked = pl.Series(sorted(self.marks), dtype=pl.UInt32)
        return self.with_columns(self.frame[picked], all_columns=all_columns)

    def with_columns(self, frame: pl.DataFrame, *, all_columns: bool) -> pl.DataFrame:
        """Select all columns of the frame, or those that the user has not hidden."""
        return frame if all_columns else frame.select(column.name for column in self.columns())

    # --- columns -----------------------------------------------------------------------------------------------------

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the shown rows that the user has not hidden, in the user's order."""
        source = self._columns_source
        if source is None or source[0] is not self.spec or source[1] is not self.rows.frame:
            self._columns_source = self.spec, self.rows.frame
            self._columns = prioritize(self.spec, self.rows.frame)
        hidden = self.shown_state.hidden
        order = {name: position for position, name in enumerate(self.shown_state.order)}
        present = [column for column in self._columns if column.name not in hidden or column.name == self.spec.pinned]
        return tuple(sorted(present, key=lambda column: order.get(column.name, len(order))))

    def current_column(self) -> Column | None:
        """Return the column under the cursor."""
        return next((column for column in self.columns() if column.name == self.cursor_column), None)

    @property
    def sort(self) -> Sort:
        """The sort order of the shown rows."""
        keys = self.spec.sort if self.shown_state.sort is None else self.shown_state.sort
        return tuple(key for key in keys if key[0] in self.rows.frame.columns)

    def is_unknown(self, name: str) -> bool:
        """Return whether all values of a column are null."""
        values = self.rows.frame[name]
        return 0 < len(values) == values.null_count()

    def units(self) -> Mapping[str, str]:
        """Return the unit of each column of times, which numbers without a unit in a filter have, too."""
        return units_of(self.spec.columns, self.frame, self.state)

    def make_writers(self) -> dict[str, CellWriter]:
        """Return a writer for each column of the shown rows."""
        return writers(
            self.columns(),
            self.rows.frame,
            self.shown_state,
            share_total_ns=self.share_of,
            pinned=self.spec.pinned,
        )

    def widths_shown(self) -> dict[str, int]:
        """Return the widths of columns that need less for the rows on the screen than for all rows."""
        return {}

    def preferred_pinned_cells(self, width: int) -> int:
        """Return the width of the pinned column that has priority over less important columns."""
        return 0

    # --- filter, search, order ---------------------------------------------------------------------------------------

    def apply(self, frame: pl.DataFrame, state: TableState, units: Mapping[str, str], global_filter: str) -> Applied:
        """Filter, search and sort rows without showing them. May be called in a thread.

        Args:
            frame: All rows.
            state: Filter, search and order.
            units: The units of the columns of times, as of `units`.
            global_filter: The filter that applies to all views.
        """
        return apply(
            frame, self.spec, state, units=units, excluded_sessions=self.excluded_sessions, global_filter=global_filter
        )

    def take(self, applied: Applied, *, keep_row: bool) -> None:
        """Show the result of `apply`.

        Args:
            applied: The result.
            keep_row: If the row under the cursor is omitted, stay at the same position on the screen.
        """
        rows = TableRows(self.frame, applied.rows)
        position = (
            rows.shown_row(self.cursor_source_row)
            if self.cursor_source_row is not None
            else self._initial_position(rows)
        )
        if position is None:
            position = self.cursor_row if keep_row else 0
        self.shown_state = self.state
        self.shown_pct = applied.weight_shown_pct
        self.share_of = applied.share_base_shown if self.state.share_of_shown else applied.share_base
        self._found = applied.matches.to_numpy()
        self.show_rows(rows, cursor_row=position)

    def _initial_position(self, rows: TableRows) -> int:
        """Return the initial position of the cursor."""
        if self.spec.cursor_on is None or self.state.sort is not None or self.state.filter:
            return 0
        column, value = self.spec.cursor_on
        if column not in rows.frame.columns:
            # The rows are still being computed.
            return 0
        return next(iter((rows.shown()[column].cast(pl.String) == value).arg_true()), 0)

    def show_rows(self, rows: TableRows, *, cursor_row: int = 0) -> None:
        """Show these rows, with the cursor on one of them."""
        self.rows = rows
        self.cursor_row = max(0, min(cursor_row, len(rows) - 1))

    @property
    def found_count(self) -> int:
        """The number of shown rows that the search found."""
        return len(self._found)

    def found_at(self, row: int) -> int | None:
        """Return the number of a shown row among the found rows, from 1; None if it was not found."""
        position = bisect_left(self._found, row)
        return position + 1 if position < len(self._found) and self._found[position] == row else None

    def next_found(self, row: int, step: int) -> int | None:
        """Return the next (1) or previous (-1) found row, wrapping around; None if nothing was found."""
        if not len(self._found):
            return None
        position = bisect_right(self._found, row) if step > 0 else bisect_left(self._found, row) - 1
        return int(self._found[position % len(self._found)])

    @property
    def shows_first_only(self) -> bool:
        """Whether rows beyond the first few are omitted."""
        max_rows = self.shown_state.max_rows
        return max_rows is not None and self.applied is not None and self.applied.passed - self.applied.small > max_rows

    @property
    def shares_of(self) -> str:
        """The rows that shares of durations refer to, ``all`` or ``shown``; empty if times are shown."""
        if not self.state.as_share or self.share_of is None:
            return ""
        return "shown" if self.state.share_of_shown else "all"

    def total_weight(self) -> int | float | None:
        """Return the weight of all rows."""
        return frame_facts(self.frame)[self.spec.weight].total

    def no_match(self, global_filter: str) -> str:
        """Return the text if the filter leaves no rows."""
        if self.state.filter or not global_filter:
            return NO_MATCH
        return f"No row matches the filter of all views, {plain(global_filter)}. C removes it."

    # --- cursor and marks, by key ------------------------------------------------------------------------------------

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the key."""
        return tuple(column for column in self.spec.key if column in self.frame.columns)

    def row_key(self, row: Row) -> Key:
        """Return the key of a row."""
        return tuple(row[column] for column in self.key_columns)

    def full_state(self) -> TableState:
        """Return the requested state with cursor and marks."""
        return replace(
            self.state,
            cursor_key=self.cursor_key() or self._missing_cursor,
            cursor_column=self.cursor_column,
            marks=self.mark_keys() or self._missing_marks,
        )

    def restore(self, state: TableState) -> None:
        """Restore a state with its cursor and marks."""
        self.state = state
        if state.cursor_column:
            self.cursor_column = state.cursor_column
        self.select_keys(state.cursor_key, state.marks)

    def cursor_key(self) -> Key | None:
        """Return the key of the row that the user selected."""
        if self.cursor_source_row is None or self.cursor_source_row >= self.frame.height:
            return None
        return TableRows(self.frame).key(self.cursor_source_row, self.key_columns)

    def mark_keys(self) -> frozenset[Key]:
        """Return the keys of the marked rows."""
        return TableRows(self.frame).keys(self.marks, self.key_columns) if self.marks else frozenset()

    def select_keys(self, cursor: Key | None, marks: frozenset[Key]) -> None:
        """Find the cursor and marks of a state in the frame; missing ones wait for a frame that has them."""
        places = self.find_keys([cursor]) if cursor is not None else []
        self.cursor_source_row = places[0] if places else None
        self._missing_cursor = None if places else cursor
        marked = self.find_keys(marks)
        self.marks = set(marked)
        self._missing_marks = frozenset() if marked else marks

    def find_keys(self, keys: Collection[Key]) -> list[int]:
        """Return the frame's row numbers of keys; unknown keys are skipped."""
        return TableRows(self.frame).find_keys(keys, self.key_columns)

    def missing_of(self, state: TableState) -> tuple[bool, int]:
        """Return whether the cursor's row of a state is missing in the frame, and the number of missing marks."""
        cursor = [state.cursor_key] if state.cursor_key is not None else []
        return len(self.find_keys(cursor)) < len(cursor), len(state.marks) - len(self.find_keys(state.marks))
