"""Arranging a table: its order, columns and units; what of that is remembered from run to run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on, work

from tui.fmt import UNITS
from tui.state.arrangements import PLAIN, Arrangement, Arrangements
from tui.text import plain
from tui.widgets.column_chooser import ColumnChoice, ColumnChooser
from tui.widgets.frame_table import FrameTable
from tui.widgets.table_search import TableSearch

if TYPE_CHECKING:
    from tui.model.columns import Column
    from tui.model.view import TableSpec, TableState


class TableArranging(TableSearch):
    """A table that the user can sort, and whose columns they can choose; it is found again as it was left."""

    def __init__(self, spec: TableSpec, *, id: str | None = None, title: str = "") -> None:  # noqa: A002
        super().__init__(spec, id=id, title=title)
        self._arranged_as = ""
        """The table, by its name in what is remembered, that the arrangement was taken over of."""

    # --- order -------------------------------------------------------------------------------------------------------

    @on(FrameTable.HeaderClicked)
    def _header_clicked(self, event: FrameTable.HeaderClicked) -> None:
        event.stop()
        self.table.move_to_column(event.column)
        self._cycle_sort(event.column)

    def action_sort_column(self) -> None:
        """Sort by the column under the cursor: largest first, smallest first, as it came."""
        column = self.table.current_column()
        if column is not None:
            self._cycle_sort(column.name)

    def _cycle_sort(self, name: str) -> None:
        now = self._state.sort
        if now == ((name, True),):
            self.set_sort(((name, False),))
        elif now == ((name, False),):
            self.set_sort(None)
        else:
            self.set_sort(((name, True),))

    def action_sort_also(self) -> None:
        """Sort by the column under the cursor too, after those that are sorted by: largest, smallest first, not."""
        column = self.table.current_column()
        if column is None:
            return
        now = self.table.sort
        falls = dict(now).get(column.name)
        if falls is None:
            self.set_sort((*now, (column.name, True)))
        elif falls:
            self.set_sort(tuple((name, name != column.name and down) for name, down in now))
        else:
            rest = tuple(by for by in now if by[0] != column.name)
            self.set_sort(rest if rest and rest != self.spec.sort else None)

    def action_sort_left(self) -> None:
        """Sort by the column to the left of the one that is sorted by."""
        self._move_sort(-1)

    def action_sort_right(self) -> None:
        """Sort by the column to the right of the one that is sorted by."""
        self._move_sort(1)

    def _move_sort(self, step: int) -> None:
        sequence = self.table.table_layout.sequence
        name, falls = self.table.sort[0] if self.table.sort else (self.table.cursor_column, True)
        if name not in sequence:
            name = self.table.cursor_column
        if name not in sequence:
            # The rows are still being worked out.
            return
        place = sequence.index(name) + step
        if 0 <= place < len(sequence):
            self.table.move_to_column(sequence[place])
            self.set_sort(((sequence[place], falls),))

    # --- which rows --------------------------------------------------------------------------------------------------

    def action_toggle_small(self) -> None:
        """Hide the rows that hold next to nothing, or show them."""
        if self.spec.weight not in self.frame.columns:
            self.notify("this table has no time to tell small rows by", markup=False)
            return
        self.change(hides_small=not self._state.hides_small)

    def show_first(self, most_rows: int | None) -> None:
        """Show only so many rows, the first in the order shown; None shows all."""
        self.change(most_rows=most_rows)

    # --- looks -------------------------------------------------------------------------------------------------------

    def action_toggle_names(self) -> None:
        """Short names, or full ones."""
        self.change(full_names=not self._state.full_names)

    def action_cycle_units(self) -> None:
        """The next unit of time."""
        unit = UNITS[(UNITS.index(self._state.unit) + 1) % len(UNITS)]
        self.change(unit=unit)
        self.notify(f"times in {'the unit that fits' if unit == 'auto' else unit.replace('us', 'µs')}", markup=False)

    def action_toggle_share(self) -> None:
        """Durations as times, as shares of the total of all rows, as shares of the total of those shown."""
        if self.spec.weight not in self.frame.columns:
            self.notify("this table has no total to take shares of", markup=False)
            return
        state = self._state
        is_part = len(self.table.rows) < self.frame.height
        if not state.as_share:
            self.change(as_share=True, share_of_shown=False)
            if self.table.share_of is None and not self.is_pending:
                self.change(as_share=False)
                self.notify("these sessions do not add up: choose one with S to see its shares", markup=False)
        elif is_part and not state.share_of_shown:
            self.change(share_of_shown=True)
        else:
            self.change(as_share=False, share_of_shown=False)

    # --- columns -----------------------------------------------------------------------------------------------------

    def action_choose_columns(self) -> None:
        """Choose, order and pin the columns."""
        present = [column for column in self.spec.columns if column.name in self.frame.columns]
        state = self._state
        now = ColumnChoice(state.order, state.hidden, state.pinned, state.name_last)
        self.app.push_screen(ColumnChooser(present, now, always=self.spec.pinned), self._columns_chosen)

    def _columns_chosen(self, choice: ColumnChoice | None) -> None:
        if choice is not None:
            self.change(order=choice.order, hidden=choice.hidden, pinned=choice.pinned, name_last=choice.name_last)

    def action_hide_column(self) -> None:
        """Hide the column under the cursor."""
        column = self._column_to_move("stays: it tells the rows apart")
        if column is None:
            return
        sequence = self.table.table_layout.sequence
        place = sequence.index(column.name)
        self.table.move_to_column(sequence[place + 1] if place + 1 < len(sequence) else sequence[place - 1])
        self.change(hidden=self._state.hidden | {column.name})
        self.notify(plain(f"{column.title} is hidden: c brings it back"), markup=False)

    def action_pin_column(self) -> None:
        """Pin the column under the cursor, or let it scroll again."""
        column = self._column_to_move("is always in place")
        if column is None:
            return
        pinned = self._state.pinned
        is_pinned = column.name in pinned
        self.change(
            pinned=tuple(name for name in pinned if name != column.name) if is_pinned else (*pinned, column.name)
        )
        self.table.move_to_column(column.name)
        self.notify(plain(f"{column.title} {'scrolls again' if is_pinned else 'is pinned'}"), markup=False)

    def _column_to_move(self, why_not: str) -> Column | None:
        """The column under the cursor, if it is not the one that tells rows apart."""
        column = self.table.current_column()
        if column is not None and column.name == self.spec.pinned:
            self.notify(plain(f"{column.title} {why_not}"), markup=False)
            return None
        return column

    def action_name_last(self) -> None:
        """The names last, with all the room that the others leave, or first."""
        self.change(name_last=not self._state.name_last)
        if self._state.name_last and self.table.cursor_column == self.spec.pinned:
            # The names make the others vanish while the cursor is on them: not at once.
            self.table.action_cursor_first_column()

    # --- what is remembered ------------------------------------------------------------------------------------------

    def action_reset(self) -> None:
        """Columns, order, units and rows as the view came; nothing of them is remembered any more."""
        self.state = replace(PLAIN.on(self.state), hides_small=False)
        self.state_changed()
        self.notify("columns, order and units as the view came", markup=False)

    def arranged(self, state: TableState) -> TableState:
        """The state as the table was left in the last run, where it is shown for the first time in this one."""
        table, memory = self._remembered_as(), self._memory()
        if memory is None or table == self._arranged_as:
            return state
        self._arranged_as = table
        arrangement = memory.of(table)
        self._tell_complaint(memory)
        return state if arrangement == PLAIN else arrangement.on(state)

    def state_changed(self) -> None:
        """Remember the arrangement."""
        memory = self._memory()
        if memory is not None and memory.keep(self._remembered_as(), Arrangement.of(self._state)):
            self._write(memory)

    @work(thread=True, group="remember")
    def _write(self, memory: Arrangements) -> None:
        # A home directory can lie on a slow network: no key waits for it.
        memory.write()
        self.app.call_from_thread(self._tell_complaint, memory)

    def _tell_complaint(self, memory: Arrangements) -> None:
        if memory.complaint:
            said, memory.complaint = memory.complaint, ""
            self.notify(plain(said), severity="warning", markup=False)

    def _memory(self) -> Arrangements | None:
        """What remembers; None in an app that has nothing of the kind."""
        memory = getattr(self.app, "arrangements", None)
        return memory if isinstance(memory, Arrangements) else None

    def _remembered_as(self) -> str:
        """The table's name in what is remembered: the same frame is another table in another view."""
        return "/".join((getattr(self.screen, "VIEW", ""), self.id or "", self.spec.name))
