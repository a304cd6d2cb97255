"""Arrangement of a table: sorting, columns and units, the dialog of columns, and saved arrangements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.fmt import UNITS
from tui.model.errors import CommandError
from tui.state.workspace import PLAIN, Arrangement, Arrangements
from tui.text import plain
from tui.text_width import pad
from tui.widgets.app_services import HostsTables, services_of
from tui.widgets.dialogs.base import Dialog, MenuLines, open_dialog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.model.columns import Column
    from tui.model.table_spec import TableState
    from tui.widgets.table.pane import TablePane


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The user's choice."""

    order: tuple[str, ...]
    hidden: frozenset[str]
    pinned: tuple[str, ...] = ()
    name_last: bool = False


class ColumnChooser(Dialog[ColumnChoice]):
    """A list of the columns: ``space`` shows or hides one, ``J`` and ``K`` move it, ``p`` pins it.

    Args:
        columns: All columns of the table, in the default order.
        choice: The current arrangement.
        fixed_column: The column that distinguishes the rows: it cannot be hidden, and is first or last.
    """

    TITLE_TEXT: ClassVar[str] = "Columns"
    KEYS: ClassVar[str] = "space show  J K move  p pin  n names last  r reset  enter accept"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "cursor(1)", "Down"),
        ("k", "cursor(-1)", "Up"),
        ("J,shift+down", "move(1)", "Move down"),
        ("K,shift+up", "move(-1)", "Move up"),
        ("space", "show_or_hide", "Show or hide"),
        ("p", "pin", "Pin"),
        ("n", "name_last", "Names last"),
        ("r", "reset", "Reset"),
        ("q,c", "leave", "Leave"),
    ]
    DEFAULT_CSS = """
    ColumnChooser OptionList {
        height: auto; max-height: 100%; border: none; padding: 0; background: transparent;
        text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1;
        &:focus { border: none; background: transparent; }
    }
    ColumnChooser #about { dock: bottom; height: 2; color: $text-muted; }
    """

    def __init__(self, columns: Sequence[Column], choice: ColumnChoice, *, fixed_column: str = "") -> None:
        super().__init__()
        self._default_columns = tuple(columns)
        self._fixed_column = fixed_column
        self._apply(choice)

    def _apply(self, choice: ColumnChoice) -> None:
        order = {name: index for index, name in enumerate(choice.order)}
        self._columns = sorted(self._default_columns, key=lambda column: order.get(column.name, len(order)))
        self._hidden = set(choice.hidden) - {self._fixed_column}
        self._pinned = list(choice.pinned)
        self._name_last = choice.name_last
        self._move_names()

    def _move_names(self) -> None:
        self._columns.sort(key=lambda column: (column.name == self._fixed_column) is not (not self._name_last))

    def compose_body(self) -> ComposeResult:
        """Yield the list, and the whole description of the column under the cursor."""
        yield MenuLines(*self._options())
        yield Static(id="about")

    def on_mount(self) -> None:
        """Begin on the first column."""
        self.query_one(OptionList).highlighted = 0

    def _options(self) -> list[Option]:
        title_width = max((len(column.title) for column in self._columns), default=0)
        return [
            Option(
                Content(
                    f"{self._sign(column)} {pad(column.title, title_width)}  {self._placement(column)}  {column.help}"
                ),
                id=column.name,
            )
            for column in self._columns
        ]

    def _sign(self, column: Column) -> str:
        return "[ ]" if column.name in self._hidden else "[x]"

    def _placement(self, column: Column) -> str:
        if column.name == self._fixed_column:
            return "last  " if self._name_last else "first "
        return "pinned" if column.name in self._pinned else "      "

    def _redraw(self, highlighted: int) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(self._options())
        options.highlighted = highlighted

    def _highlighted_index(self) -> int:
        return self.query_one(OptionList).highlighted or 0

    def _redraw_and_select(self, name: str) -> None:
        self._redraw(next(index for index, column in enumerate(self._columns) if column.name == name))

    def action_cursor(self, step: int) -> None:
        """Move down or up."""
        self.query_one(OptionList).highlighted = max(0, min(self._highlighted_index() + step, len(self._columns) - 1))

    def _changeable_column(self) -> str:
        """Return the column under the cursor; empty, with a message, if it cannot be hidden."""
        name = self._columns[self._highlighted_index()].name
        if name == self._fixed_column:
            self.notify("This column cannot be hidden. n moves it to the end or the start.", markup=False)
            return ""
        return name

    def action_show_or_hide(self) -> None:
        """Show or hide the column under the cursor."""
        name = self._changeable_column()
        if name:
            self._hidden ^= {name}
            self._redraw(self._highlighted_index())

    def action_pin(self) -> None:
        """Pin the column under the cursor, or let it scroll again; a pinned one is shown."""
        name = self._changeable_column()
        if name in self._pinned:
            self._pinned.remove(name)
        elif name:
            self._pinned.append(name)
            self._hidden.discard(name)
        self._redraw(self._highlighted_index())

    def action_name_last(self) -> None:
        """Move the names to the end, or to the beginning."""
        name = self._columns[self._highlighted_index()].name
        self._name_last = not self._name_last
        self._move_names()
        self._redraw_and_select(name)

    def action_reset(self) -> None:
        """Show all columns in the table's own order."""
        self._apply(ColumnChoice((), frozenset()))
        self._redraw(0)

    def action_move(self, step: int) -> None:
        """Move the column under the cursor."""
        index = self._highlighted_index()
        new_index = index + step
        if not 0 <= new_index < len(self._columns):
            return
        if self._fixed_column in (self._columns[index].name, self._columns[new_index].name):
            return
        self._columns[index], self._columns[new_index] = self._columns[new_index], self._columns[index]
        self._redraw(new_index)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the whole description of the column."""
        event.stop()
        self.query_one("#about", Static).update(Content(self._columns[event.option_index].help), layout=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Accept the choice."""
        event.stop()
        names = tuple(column.name for column in self._columns)
        is_default_order = [name for name in names if name != self._fixed_column] == [
            column.name for column in self._default_columns if column.name != self._fixed_column
        ]
        self.dismiss(
            ColumnChoice(
                () if is_default_order else names, frozenset(self._hidden), tuple(self._pinned), self._name_last
            )
        )


class ArrangementController:
    """Sorts a table, chooses its columns, and saves and restores the arrangement.

    Args:
        pane: The table.
    """

    def __init__(self, pane: TablePane) -> None:
        self._pane = pane
        self._model = pane.model
        self._restored_name = ""
        """The name of the saved arrangement that was applied."""

    # --- order -------------------------------------------------------------------------------------------------------

    def sort_column(self) -> None:
        """Sort by the column under the cursor: largest first, smallest first, original order."""
        column = self._model.current_column()
        if column is not None:
            self.cycle_sort(column.name)

    def cycle_sort(self, name: str) -> None:
        """Sort by a column: largest first, smallest first, original order."""
        sort = self._model.state.sort
        if sort == ((name, True),):
            self._pane.set_sort(((name, False),))
        elif sort == ((name, False),):
            self._pane.set_sort(None)
        else:
            self._pane.set_sort(((name, True),))

    def sort_also(self) -> None:
        """Add the column under the cursor to the sort order: largest first, smallest first, not at all."""
        column = self._model.current_column()
        if column is None:
            return
        sort = self._model.sort
        is_descending = dict(sort).get(column.name)
        if is_descending is None:
            self._pane.set_sort((*sort, (column.name, True)))
        elif is_descending:
            self._pane.set_sort(tuple((name, name != column.name and down) for name, down in sort))
        else:
            remaining = tuple(key for key in sort if key[0] != column.name)
            self._pane.set_sort(remaining if remaining and remaining != self._model.spec.sort else None)

    def sort_by_names(self, text: str) -> None:
        """Sort by column names separated by commas or blanks; ``-`` before one sorts largest first.

        Raises:
            CommandError: There is no such column.
        """
        columns = self._model.spec.columns
        sort = []
        for word in text.replace(",", " ").split():
            name = word.lstrip("-").lower()
            matches = [column for column in columns if name in (column.name, column.title.lower(), *column.aliases)]
            if not matches:
                raise CommandError(f"No column {name}. Columns: {', '.join(column.name for column in columns)}")
            sort.append((matches[0].name, word.startswith("-")))
        self._pane.set_sort(tuple(sort))

    def sort_left(self) -> None:
        """Sort by the column to the left of the sorted one."""
        self._move_sort(-1)

    def sort_right(self) -> None:
        """Sort by the column to the right of the sorted one."""
        self._move_sort(1)

    def _move_sort(self, step: int) -> None:
        sequence = self._pane.table.table_layout.sequence
        name, is_descending = self._model.sort[0] if self._model.sort else (self._model.cursor_column, True)
        if name not in sequence:
            name = self._model.cursor_column
        if name not in sequence:
            # The rows are still being computed.
            return
        index = sequence.index(name) + step
        if 0 <= index < len(sequence):
            self._pane.table.move_to_column(sequence[index])
            self._pane.set_sort(((sequence[index], is_descending),))

    # --- which rows --------------------------------------------------------------------------------------------------

    def toggle_small(self) -> None:
        """Hide or show rows with a negligible share."""
        if self._model.spec.weight not in self._model.frame.columns:
            self._pane.notify("This table has no times: no rows to hide.", markup=False)
            return
        self._pane.change(hides_small=not self._model.state.hides_small)

    # --- names and units
    # -----------------------------------------------------------------------------------------------

    def toggle_names(self) -> None:
        """Switch between short and full names."""
        self._pane.change(full_names=not self._model.state.full_names)

    def cycle_units(self) -> None:
        """Switch to the next unit of time."""
        unit = UNITS[(UNITS.index(self._model.state.unit) + 1) % len(UNITS)]
        self._pane.change(unit=unit)
        self._pane.notify(
            f"Times in {'the unit that fits' if unit == 'auto' else unit.replace('us', 'µs')}.", markup=False
        )

    def toggle_share(self) -> None:
        """Show durations as times, as shares of all rows, or as shares of the shown rows."""
        if self._model.spec.weight not in self._model.frame.columns:
            self._pane.notify("This table has no total: no shares.", markup=False)
            return
        state = self._model.state
        is_part = len(self._model.rows) < self._model.frame.height
        if not state.as_share:
            self._pane.change(as_share=True, share_of_shown=False)
            if self._model.share_of is None and not self._pane.is_pending:
                self._pane.change(as_share=False)
                self._pane.notify("Shares apply to one session: choose one with S.", markup=False)
        elif is_part and not state.share_of_shown:
            self._pane.change(share_of_shown=True)
        else:
            self._pane.change(as_share=False, share_of_shown=False)

    # --- columns -----------------------------------------------------------------------------------------------------

    def choose_columns(self) -> None:
        """Choose, order and pin the columns."""
        present = [column for column in self._model.spec.columns if column.name in self._model.frame.columns]
        state = self._model.state
        choice = ColumnChoice(state.order, state.hidden, state.pinned, state.name_last)
        open_dialog(
            self._pane.app, ColumnChooser(present, choice, fixed_column=self._model.spec.pinned), self._columns_chosen
        )

    def _columns_chosen(self, choice: ColumnChoice | None) -> None:
        if choice is not None:
            self._pane.change(
                order=choice.order, hidden=choice.hidden, pinned=choice.pinned, name_last=choice.name_last
            )

    def hide_column(self) -> None:
        """Hide the column under the cursor."""
        column = self._movable_column("cannot be hidden: it identifies the rows")
        if column is None:
            return
        sequence = self._pane.table.table_layout.sequence
        index = sequence.index(column.name)
        self._pane.table.move_to_column(sequence[index + 1] if index + 1 < len(sequence) else sequence[index - 1])
        self._pane.change(hidden=self._model.state.hidden | {column.name})
        self._pane.notify(plain(f"{column.title} is hidden: c shows it again"), markup=False)

    def pin_column(self) -> None:
        """Pin the column under the cursor, or let it scroll again."""
        column = self._movable_column("is always in place")
        if column is None:
            return
        pinned = self._model.state.pinned
        is_pinned = column.name in pinned
        self._pane.change(
            pinned=tuple(name for name in pinned if name != column.name) if is_pinned else (*pinned, column.name)
        )
        self._pane.table.move_to_column(column.name)
        self._pane.notify(plain(f"{column.title} {'scrolls again' if is_pinned else 'is pinned'}"), markup=False)

    def _movable_column(self, reason: str) -> Column | None:
        """Return the column under the cursor, unless it identifies rows."""
        column = self._model.current_column()
        if column is not None and column.name == self._model.spec.pinned:
            self._pane.notify(plain(f"{column.title} {reason}"), markup=False)
            return None
        return column

    def name_last(self) -> None:
        """Move the names to the end, with all the remaining width, or to the beginning."""
        self._pane.change(name_last=not self._model.state.name_last)
        if self._model.state.name_last and self._model.cursor_column == self._model.spec.pinned:
            # Names hide other columns while the cursor is on them: not immediately.
            self._pane.table.action_cursor_first_column()

    # --- saved arrangement
    # ---------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Restore the default columns, order, units and rows, and delete the saved arrangement."""
        self._pane.state = replace(PLAIN.apply_to(self._pane.state), sort=None, hides_small=False)
        self._pane.state_changed()
        self._pane.notify("Columns, order and units reset to defaults.", markup=False)

    def remembered(self, state: TableState) -> TableState:
        """Return the saved state, if the table is shown for the first time in this run."""
        table, arrangements = self._saved_name(), self._saved_arrangements()
        if arrangements is None or table == self._restored_name:
            return state
        self._restored_name = table
        arrangement = arrangements.get(table)
        self._show_warning(arrangements)
        return state if arrangement == PLAIN else arrangement.apply_to(state)

    def remember(self) -> None:
        """Save the arrangement for the next run."""
        arrangements = self._saved_arrangements()
        if arrangements is None or not arrangements.keep(self._saved_name(), Arrangement.from_state(self._model.state)):
            return

        def write() -> None:
            # A home directory can be on a slow network: save in a thread.
            arrangements.write()
            self._pane.app.call_from_thread(self._show_warning, arrangements)

        self._pane.run_worker(write, thread=True, group="remember")

    def _show_warning(self, arrangements: Arrangements) -> None:
        if arrangements.warning:
            message, arrangements.warning = arrangements.warning, ""
            self._pane.notify(plain(message), severity="warning", markup=False)

    def _saved_arrangements(self) -> Arrangements | None:
        """Return the saved arrangements; None if the app has none."""
        return services_of(self._pane).arrangements

    def _saved_name(self) -> str:
        """Return the name of the table's saved arrangement, which depends on the view."""
        screen = self._pane.screen
        view = screen.VIEW if isinstance(screen, HostsTables) else ""
        return "/".join((view, self._pane.id or "", self._model.spec.name))
