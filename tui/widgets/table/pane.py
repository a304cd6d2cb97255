"""A table with its status line, query bar and actions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.actions import SkipAction
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from tui.fmt import count
from tui.keys import Scope, bindings_for
from tui.model.columns import Column, ColumnKind
from tui.output.export import About
from tui.query.distribution import COUNTED, distribution, pivot
from tui.text import begin_sentence, plain
from tui.views import VIEWS
from tui.widgets.app_services import HostsTables, call_after, copy_text, services_of
from tui.widgets.dialogs.base import open_dialog
from tui.widgets.dialogs.export import ExportDialog, file_name
from tui.widgets.dialogs.texts import CellDialog, ColumnDialog, DistributionDialog, PivotDialog
from tui.widgets.table import filtering
from tui.widgets.table.columns import ArrangementController
from tui.widgets.table.filtering import Filtering
from tui.widgets.table.model import Key, Row, TableModel
from tui.widgets.table.search import QueryBar, SearchController
from tui.widgets.table.status_line import StatusLine, StatusWriter, sorted_by
from tui.widgets.table.view import HEADER_LINES, MOVE_IDS, FrameTable

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Collection

    import polars as pl
    from textual.app import ComposeResult
    from textual.events import Resize
    from textual.widget import Widget

    from tui.model.table_spec import Sort, TableSpec, TableState

NO_MATCH_LINES: Final = 2
"""The lines for the text of a filter that leaves no rows."""
BAR_ACTIONS: Final = frozenset({"find", "filter", "filter_column"})
ROW_ACTIONS: Final = frozenset(
    {
        "open_row",
        "find",
        "filter",
        "sort_column",
        "toggle_detail",
        "show_in_timeline",
        "choose_columns",
        "export",
        "toggle_mark",
    }
)
"""Actions that the footer omits if there are no rows; their keys then say why there are none."""
QUERY_FIELDS: Final = frozenset(
    {"filter", "find", "sort", "max_rows", "hides_small", "as_share", "share_of_shown", "hidden"}
)
"""The fields of the state that decide which rows are shown, their order, and what shares refer to."""
MIN_ROW_LINES: Final = 3
"""With fewer lines only the status line is shown."""


def _delegate(method: Callable[[TablePane], Callable[[], None]]) -> Callable[[TablePane], None]:
    """Return an action of the pane that calls a method of a controller."""

    def action(pane: TablePane) -> None:
        method(pane)()

    return action


class TablePane(Vertical):
    """A table that can be searched, filtered, sorted, arranged, copied and exported.

    Args:
        spec: The table.
        id: The widget's id.
        title: The title for the status line, if there are several tables on the screen.
    """

    BINDINGS: ClassVar = [
        binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") not in MOVE_IDS
    ]
    DEFAULT_CSS = """
    TablePane { height: 1fr; }
    TablePane.-folded FrameTable { height: 0; }
    """

    class _RowMessage(Message):
        def __init__(self, pane: TablePane, row: Row | None) -> None:
            super().__init__()
            self.pane = pane
            self.row = row

        @property
        def control(self) -> TablePane:
            """The pane."""
            return self.pane

    class RowHighlighted(_RowMessage):
        """The cursor rests on a row, or there is none."""

    class RowOpened(_RowMessage):
        """The user opened a row."""

        row: Row

    class DetailRequested(_RowMessage):
        """The user asked for the details of a row."""

        row: Row

    class SourceLineRequested(_RowMessage):
        """The user asked for the input line of a row; None if there is no single one."""

        row: Row

        def __init__(self, pane: TablePane, line: int | None, row: Row) -> None:
            super().__init__(pane, row)
            self.line = line

    class TimelineRequested(_RowMessage):
        """The user asked for a row in the timeline."""

        row: Row

    class NoteRequested(_RowMessage):
        """The user asked to write a note on a row."""

        row: Row

    class StateChanged(Message):
        """The filter, search, order, columns or marks changed."""

        def __init__(self, pane: TablePane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> TablePane:
            """The pane."""
            return self.pane

    def __init__(self, spec: TableSpec, *, id: str | None = None, title: str = "") -> None:  # noqa: A002
        super().__init__(id=id)
        self.model = self.make_model(spec)
        self.table = self.make_table()
        """The rows, which get the focus."""
        self.status_line = StatusLine()
        self.filtering = Filtering(self)
        self.search = SearchController(self)
        self.arrangement = ArrangementController(self)
        self._status = StatusWriter(self.model, has_title=bool(title))
        self.has_had_no_rows = False
        """Whether `show` was called, but never with rows."""
        self.is_folded = False
        """Whether there is only room for the status line."""
        self.is_loading = True
        """Whether the rows, and so their number, are still being computed."""
        self._empty = ""
        self._lines_laid_out: int | None = None
        self._settle_timer: TimerHandle | None = None

    def make_model(self, spec: TableSpec) -> TableModel:
        """Return a new model of the table."""
        return TableModel(spec)

    def make_table(self) -> FrameTable:
        """Return a new view of the model."""
        return FrameTable(self.model)

    def compose(self) -> ComposeResult:
        """Yield the table above the status line."""
        yield from self._unattached()

    def _unattached(self) -> list[Widget]:
        return [widget for widget in (self.table, self.status_line) if not widget.is_attached]

    def mount_in(self, parent: Widget) -> None:
        """Mount the pane with its widgets, so that it can be filled immediately."""
        parent.mount(self)
        self.mount(*self._unattached())

    def on_resize(self, event: Resize) -> None:
        """Fold the table if there is no room for a row: the status line describes it."""
        is_folded = 0 < event.size.height < MIN_ROW_LINES
        if is_folded != self.is_folded:
            self.is_folded = is_folded
            self.set_class(is_folded, "-folded")
            self.show_status()

    def describe_folded(self, *, selected: str, keys_to_reach: str) -> None:
        """Set the text of the status line of a folded table.

        Args:
            selected: The selected row, or empty.
            keys_to_reach: The keys that lead to it.
        """
        if self._status.describe_folded(plain(selected), keys_to_reach):
            self.show_status()

    def focus_table(self) -> None:
        """Focus the table once it is mounted, unless details cover it or the user began to type meanwhile."""
        screen = self.screen
        focused_before = screen.focused

        def focus() -> None:
            is_typing = screen.focused is not focused_before and isinstance(screen.focused, Input)
            is_covered = not all(node.display for node in self.ancestors)
            if not (is_typing or is_covered) and self.is_attached:
                screen.set_focus(self.table)

        self.app.call_later(focus)

    # --- rows --------------------------------------------------------------------------------------------------------

    def show(
        self, frame: pl.DataFrame, *, empty: str = "", is_loading: bool = False, spec: TableSpec | None = None
    ) -> None:
        """Show a frame; filter, order, columns, marks and cursor stay.

        Args:
            frame: The rows, with the columns of the spec and those of its key.
            empty: The text if there are no rows: why, and what to record.
            is_loading: Whether rows are being computed.
            spec: The new table specification; None: unchanged.
        """
        model = self.model
        if spec is not None:
            model.spec = spec
        model.state = self.arrangement.remembered(model.state)
        had_no_rows = self.has_no_rows
        model.load(frame)
        self._adapt_height()
        self._empty, self.is_loading = begin_sentence(plain(empty)), is_loading
        if self.has_no_rows != had_no_rows:
            self.refresh_bindings()
        self.table.refresh()
        self.show_notes()
        self.filtering.apply()

    @property
    def spec(self) -> TableSpec:
        """The specification of the table."""
        return self.model.spec

    @property
    def frame(self) -> pl.DataFrame:
        """All rows."""
        return self.model.frame

    @property
    def current_row(self) -> Row | None:
        """The row under the cursor."""
        return self.model.current_row

    @property
    def has_no_rows(self) -> bool:
        """Whether the table has no rows, and none are being computed."""
        return self.frame.is_empty() and not self.is_loading

    @property
    def lines_of_use(self) -> int | None:
        """The number of lines that the shown rows need; None if there are no rows and the reason is shown."""
        if self.frame.is_empty():
            return None
        other_lines = sum(child.display for child in self.children if child is not self.table)
        return HEADER_LINES + (len(self.model.rows) or NO_MATCH_LINES) + other_lines

    def _adapt_height(self) -> None:
        if self._lines_laid_out != self.lines_of_use:
            self._lines_laid_out = self.lines_of_use
            self.refresh(layout=True)

    def rows_applied(self) -> None:
        """Draw the rows after a filter, search or sort."""
        self._adapt_height()
        self.table.empty_text = self.model.no_match(self.global_filter) if self.frame.height else self._empty
        self.table.show_rows()
        self.search.rows_applied()
        self.show_status()

    def show_notes(self) -> None:
        """Show the signs of rows that have notes."""
        keys = services_of(self).noted_keys(self)
        self.table.note(self.model.find_keys(keys) if keys else ())

    def show_status(self) -> None:
        """Update the status line."""
        self.status_line.status = self._status.status(
            self.table, self.global_filter, self.filtering.message, is_folded=self.is_folded, is_loading=self.is_loading
        )

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> TableState:
        """The user's arrangement of the table; setting it restores all of it."""
        return self.model.full_state()

    @state.setter
    def state(self, state: TableState) -> None:
        self.model.restore(state)
        self.model.shown_state = state
        self.table.redraw()
        self.filtering.apply()

    def change(self, *, keep_row: bool = False, **changes: object) -> None:
        """Change fields of the state.

        Args:
            keep_row: If the row under the cursor disappears, stay at the same position on the screen.
            **changes: The new values.
        """
        model = self.model
        model.state = replace(model.state, **changes)  # type: ignore[arg-type]
        if changes.keys() & QUERY_FIELDS:
            self.filtering.apply(keep_row=keep_row)
        else:
            model.shown_state = replace(model.shown_state, **changes)  # type: ignore[arg-type]
            self.table.redraw()
            self.show_status()
        self.state_changed()

    def set_sort(self, sort: Sort | None) -> None:
        """Sort by columns; None restores the original order."""
        self.change(sort=sort)

    def set_filter(self, text: str) -> None:
        """Filter the rows; an empty text removes the filter. The query bar shows errors."""
        self.search.set_filter(text)

    def set_find(self, text: str) -> None:
        """Highlight the matching rows and go to the first of them."""
        self.search.set_find(text)

    def state_changed(self) -> None:
        """Save the state for the next run, and post `StateChanged`."""
        self.arrangement.remember()
        self.post_message(self.StateChanged(self))

    @property
    def is_pending(self) -> bool:
        """Whether a filter, a search or an order is being applied."""
        return self.filtering.is_pending

    @property
    def global_filter(self) -> str:
        """The filter that applies to every view."""
        return services_of(self).global_filter

    def apply_again(self) -> None:
        """Filter again after the filter of all views changed."""
        self.filtering.apply()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show the failure of a filter, so that it does not look as if it were still running."""
        if event.state is WorkerState.ERROR and event.worker.group == filtering.APPLY_GROUP:
            event.stop()
            self._cancel_filtering()
            self.notify(plain(f"Failed: {event.worker.error}"), severity="error", markup=False)

    def _cancel_filtering(self) -> None:
        self.filtering.cancel()
        self.search.work_cancelled()

    def reach(self, key: Key) -> bool | None:
        """Select the row of a key; return False if it is not in the frame, None if it is filtered out."""
        model = self.model
        source_rows = model.find_keys([key])
        if not source_rows:
            return False
        row = model.rows.shown_row(source_rows[0]) if model.rows.frame is model.frame else None
        if row is None:
            return None
        self.table.move_to(row)
        return True

    def undo_smallest(self) -> bool:
        """Undo the smallest change by the user; False if there is none."""
        model = self.model
        if self.search.is_open:
            self.search.bar.action_cancel()
        elif self.is_pending:
            self._cancel_filtering()
        elif model.marks:
            model.marks = set()
            self.table.refresh()
            self.show_status()
            self.state_changed()
        elif model.state.find:
            self.change(find="")
        elif model.state.filter:
            self.change(filter="")
        else:
            return False
        return True

    # --- messages of the table and the query bar ---------------------------------------------------------------------

    @on(FrameTable.CursorMoved)
    def _cursor_moved(self, event: FrameTable.CursorMoved) -> None:
        event.stop()
        self.show_status()
        if self._settle_timer is not None:
            self._settle_timer.cancel()
        self._settle_timer = call_after(self, filtering.CURSOR_DELAY_S, self.cursor_settled)

    def cursor_settled(self) -> None:
        """Post the row on which the cursor rests."""
        self.post_message(self.RowHighlighted(self, self.current_row))

    @on(FrameTable.LayoutChanged)
    def _layout_changed(self, event: FrameTable.LayoutChanged) -> None:
        event.stop()
        self.show_status()

    @on(FrameTable.HeaderClicked)
    def _header_clicked(self, event: FrameTable.HeaderClicked) -> None:
        event.stop()
        self.table.move_to_column(event.column)
        self.arrangement.cycle_sort(event.column)

    @on(QueryBar.Changed)
    def _query_typed(self, event: QueryBar.Changed) -> None:
        event.stop()
        self.search.typed(event)

    @on(QueryBar.Switched)
    def _query_switched(self, event: QueryBar.Switched) -> None:
        event.stop()
        self.search.switched(event)

    @on(QueryBar.Accepted)
    def _query_accepted(self, event: QueryBar.Accepted) -> None:
        event.stop()
        self.search.accepted(event)

    @on(QueryBar.Cancelled)
    def _query_cancelled(self, event: QueryBar.Cancelled) -> None:
        event.stop()
        self.search.cancelled()

    action_find = _delegate(lambda pane: pane.search.open_find)
    action_filter = _delegate(lambda pane: pane.search.open_filter)
    action_filter_column = _delegate(lambda pane: pane.search.open_filter_of_column)
    action_carry_filter = _delegate(lambda pane: pane.search.toggle_global_filter)
    action_next_match = _delegate(lambda pane: pane.search.next_match)
    action_previous_match = _delegate(lambda pane: pane.search.previous_match)
    action_filter_equal = _delegate(lambda pane: pane.search.filter_equal)
    action_filter_not_equal = _delegate(lambda pane: pane.search.filter_not_equal)
    action_sort_column = _delegate(lambda pane: pane.arrangement.sort_column)
    action_sort_also = _delegate(lambda pane: pane.arrangement.sort_also)
    action_sort_left = _delegate(lambda pane: pane.arrangement.sort_left)
    action_sort_right = _delegate(lambda pane: pane.arrangement.sort_right)
    action_toggle_small = _delegate(lambda pane: pane.arrangement.toggle_small)
    action_toggle_names = _delegate(lambda pane: pane.arrangement.toggle_names)
    action_cycle_units = _delegate(lambda pane: pane.arrangement.cycle_units)
    action_toggle_share = _delegate(lambda pane: pane.arrangement.toggle_share)
    action_choose_columns = _delegate(lambda pane: pane.arrangement.choose_columns)
    action_hide_column = _delegate(lambda pane: pane.arrangement.hide_column)
    action_pin_column = _delegate(lambda pane: pane.arrangement.pin_column)
    action_name_last = _delegate(lambda pane: pane.arrangement.name_last)
    action_reset = _delegate(lambda pane: pane.arrangement.reset)

    # --- row actions -------------------------------------------------------------------------------------------------

    @on(FrameTable.RowClicked)
    def _row_clicked(self, event: FrameTable.RowClicked) -> None:
        event.stop()
        self.action_open_row()

    def _row_for_key(self) -> Row | None:
        """Return the selected row for an action that needs one; if there is none, a message says why."""
        row = self.current_row
        if row is None:
            missing = "Computing rows…" if self.is_loading else self._empty or "This table has no rows."
            filtered = "No row matches the filter. esc clears it."
            self.notify(missing if self.frame.is_empty() else filtered, severity="warning", markup=False)
        return row

    def action_open_row(self) -> None:
        """Open the selected row."""
        row = self._row_for_key()
        if row is not None:
            self.post_message(self.RowOpened(self, row))

    def action_toggle_detail(self) -> None:
        """Request the details of the selected row."""
        row = self._row_for_key()
        if row is not None:
            self.post_message(self.DetailRequested(self, row))

    def action_source_line(self) -> None:
        """Request the input line of the selected row."""
        row = self._row_for_key()
        if row is not None:
            line = row.get("line")
            self.post_message(self.SourceLineRequested(self, line if isinstance(line, int) else None, row))

    def action_show_in_timeline(self) -> None:
        """Request the selected row in the timeline.

        Raises:
            SkipAction: The table has no rows: the key opens the view.
        """
        if self.frame.is_empty() and not self.is_loading:
            raise SkipAction
        row = self._row_for_key()
        if row is not None:
            self.post_message(self.TimelineRequested(self, row))

    def action_write_note(self) -> None:
        """Request a note on the selected row."""
        row = self._row_for_key()
        if row is not None:
            self.post_message(self.NoteRequested(self, row))

    def action_show_distribution(self) -> None:
        """Show the distribution of the values of the selected column in the shown rows."""
        column = self.model.current_column()
        if column is None or self.model.shown_frame().is_empty():
            self.notify("No rows here.", markup=False)
            return
        rows, weight = self.model.shown_frame(), self.spec.weight
        self.run_worker(partial(self._distribute, rows, column, weight), thread=True, exclusive=True, group="values")

    def _distribute(self, rows: pl.DataFrame, column: Column, weight: str) -> None:
        values = distribution(rows, column, weight)
        weight_column = next(
            (column_of_spec for column_of_spec in self.spec.columns if column_of_spec.name == weight), None
        )
        self.app.call_from_thread(self._show_distribution, DistributionDialog(column, values, weight_column))

    def _show_distribution(self, dialog: DistributionDialog | PivotDialog) -> None:
        if self.is_attached:
            open_dialog(self.app, dialog, self._add_filter_term)

    def action_show_pivot(self) -> None:
        """Choose a second column, then show a pivot table of the selected column and the second one."""
        rows_column = self.model.current_column()
        choices = [column for column in self.model.columns() if column.kind in COUNTED and column is not rows_column]
        rows = self.model.shown_frame()
        if rows_column is None or rows_column.kind not in COUNTED or not choices or rows.is_empty():
            self.notify("This column cannot be pivoted. Choose a column of names, kinds or counts.", markup=False)
            return

        def chosen(name: str | None) -> None:
            columns_column = next((column for column in choices if column.name == name), None)
            if columns_column is not None:
                compute = partial(self._pivot, rows, rows_column, columns_column)
                self.run_worker(compute, thread=True, exclusive=True, group="values")

        open_dialog(self.app, ColumnDialog(f"Pivot: {rows_column.title} by", choices), chosen)

    def _pivot(self, rows: pl.DataFrame, rows_column: Column, columns_column: Column) -> None:
        weight = next((column for column in self.spec.columns if column.name == self.spec.weight), None)
        weight = weight if weight is not None and weight.name in rows.columns else None
        sums = pivot(rows, rows_column, columns_column, weight.name if weight is not None else "")
        self.app.call_from_thread(self._show_distribution, PivotDialog(rows_column, columns_column, sums, weight))

    def _add_filter_term(self, term: str | None) -> None:
        if term:
            self.search.narrow(term)

    def action_view_cell(self) -> None:
        """Show the whole text of the cell under the cursor."""
        column, row = self.model.current_column(), self._row_for_key()
        if column is not None and row is not None:
            value = row[column.name]
            shown = self.table.writer(column.name)
            open_dialog(self.app, CellDialog(column, self._copy_text(value), displayed=shown.with_unit(value)))

    @property
    def idle_actions(self) -> Collection[str]:
        """Return the actions that have no effect now."""
        return ROW_ACTIONS if self.has_no_rows else ()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that open the bar while a text is typed."""
        return not (action in BAR_ACTIONS and self.search.is_open)

    # --- marks, copies, exports --------------------------------------------------------------------------------------

    def action_toggle_mark(self) -> None:
        """Mark or unmark the row, and go to the next one."""
        if self._row_for_key() is None:
            return
        self.table.toggle_mark()
        self.table.action_cursor_down()
        self.show_status()
        self.state_changed()

    def action_copy_cell(self) -> None:
        """Copy the selected cell, in full precision and base units."""
        column, row = self.model.current_column(), self._row_for_key()
        if column is not None and row is not None:
            self.notify(copy_text(self.app, self._copy_text(row[column.name])), markup=False)

    def action_copy_rows(self) -> None:
        """Copy the marked rows, or the selected one, as tab-separated values with headings."""
        if self._row_for_key() is None:
            return
        marked = self.model.marked_rows(all_columns=False)
        rows = (
            marked
            if len(marked)
            else self.model.with_columns(self.model.rows.slice(self.model.cursor_row, 1), all_columns=False)
        )
        self.notify(copy_text(self.app, rows.write_csv(separator="\t")), markup=False)

    @staticmethod
    def _copy_text(value: object) -> str:
        return "" if value is None else str(value)

    def action_export(self) -> None:
        """Open the export dialog."""
        shown, total, marked = len(self.model.rows), self.frame.height, len(self.model.marks)
        scopes = [("shown", f"{count(shown)} shown", shown)]
        if marked:
            scopes.insert(0, ("marked", f"{count(marked)} marked", marked))
        if shown != total:
            scopes.append(("all", f"all {count(total)}", total))
        dialog = ExportDialog(
            file_name(services_of(self).opened_name, self.spec.name), scopes, self._scope_rows, self._scope_description
        )
        open_dialog(self.app, dialog, self._show_export_message)

    def _scope_rows(self, scope: str, all_columns: bool) -> pl.DataFrame:
        if scope == "marked":
            return self.model.marked_rows(all_columns=all_columns)
        if scope == "all":
            return self.model.with_columns(self.frame, all_columns=all_columns)
        return self.model.shown_frame(all_columns=all_columns)

    def _scope_description(self, scope: str) -> About:
        view_screen = self.screen if isinstance(self.screen, HostsTables) else None
        name = view_screen.VIEW if view_screen is not None else ""
        titles = [view.title for view in VIEWS if view.name == name]
        if self.spec.title not in titles:
            titles.append(self.spec.title)
        facts = view_screen.about(self.spec.title) if view_screen is not None else {}
        description = About(services_of(self).opened_name, ", ".join(titles), name, **facts)
        status = self.status_line.status
        if scope == "marked":
            return replace(description, rows=f"{count(len(self.model.marks))} marked of {count(status.total)} rows")
        if scope == "all":
            return replace(description, rows=f"all {count(status.total)} rows")
        global_filter = "" if status.global_filter_reason else status.global_filter
        small = f", {status.small} hidden" if status.small else ""
        return replace(
            description,
            rows=f"{'first ' if status.is_cut else ''}{count(status.shown)} of {count(status.total)} rows{small}",
            filter=" and ".join(text for text in (status.filter, global_filter) if text),
            order=sorted_by(self.spec, self.model.sort, with_words=True) if status.sorted_by else "",
        )

    def _show_export_message(self, message: str | None) -> None:
        if message is not None:
            self.notify(message, markup=False)

    # --- help --------------------------------------------------------------------------------------------------------

    def column_help(self) -> list[tuple[str, str]]:
        """Return the heading, with its unit, and the meaning of the selected column."""
        column = self.model.current_column()
        return [] if column is None else [(self.table.writer(column.name).title, _column_help(column))]

    def help_lines(self) -> list[tuple[str, str]]:
        """Return the heading and the meaning of each column."""
        return [
            (column.title, _column_help(column)) for column in self.spec.columns if column.name in self.frame.columns
        ]


def _column_help(column: Column) -> str:
    names = ", ".join((column.name, *column.aliases))
    unit = {ColumnKind.DURATION: "ns", ColumnKind.TIME: "ns", ColumnKind.SIZE: "bytes", ColumnKind.RATE: "bytes/s"}
    exported = f" in {unit[column.kind]}" if column.kind in unit else ""
    return f"{column.help} In filters: {names}{exported and f'; exported{exported}'}."
