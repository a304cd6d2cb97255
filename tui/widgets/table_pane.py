"""A table with all that can be done in it: going into rows, arranging, marking, copying and exporting."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.message import Message

from tui.fmt import count
from tui.keys import Scope, bindings_for
from tui.model.columns import Column, ColumnKind
from tui.output.about import About
from tui.views import VIEWS
from tui.widgets.cell_dialog import CellDialog
from tui.widgets.copying import copy_text
from tui.widgets.export_dialog import ExportDialog, file_name
from tui.widgets.frame_table import MOVE_IDS, FrameTable
from tui.widgets.table_arranging import TableArranging
from tui.widgets.table_words import sorted_by

if TYPE_CHECKING:
    from collections.abc import Collection

    import polars as pl

    from tui.widgets.table_rows import Key, Row

OPENS_BAR: Final = frozenset({"find", "filter", "filter_column"})
OF_ROWS: Final = frozenset({"open_row", "find", "filter", "sort_column"})
"""What the footer does not offer where there are no rows; pressed all the same, a key says why there are none."""


class TablePane(TableArranging):
    """A table that can be searched, filtered, sorted, arranged, copied and exported."""

    BINDINGS: ClassVar = [
        binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") not in MOVE_IDS
    ]

    class _OfRow(Message):
        def __init__(self, pane: TablePane, row: Row | None) -> None:
            super().__init__()
            self.pane = pane
            self.row = row

        @property
        def control(self) -> TablePane:
            """The pane."""
            return self.pane

    class RowHighlighted(_OfRow):
        """The cursor has come to rest on a row, or there is none."""

    class RowOpened(_OfRow):
        """The user goes into a row."""

        row: Row

    class DetailRequested(_OfRow):
        """The user wants the details of a row."""

        row: Row

    class SourceLineRequested(_OfRow):
        """The user wants to see the line of the input that a row comes from; None where there is no single one."""

        row: Row

        def __init__(self, pane: TablePane, line: int | None, row: Row) -> None:
            super().__init__(pane, row)
            self.line = line

    class TimelineRequested(_OfRow):
        """The user wants to see a row in the timeline."""

        row: Row

    class NoteRequested(_OfRow):
        """The user wants to write a note on a row."""

        row: Row

    class StateChanged(Message):
        """Filter, search, order, columns or marks have changed."""

        def __init__(self, pane: TablePane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> TablePane:
            """The pane."""
            return self.pane

    def cursor_settled(self) -> None:
        """Tell of the row that the cursor has come to rest on."""
        self.post_message(self.RowHighlighted(self, self.current_row))

    def state_changed(self) -> None:
        """Tell that the table is arranged otherwise."""
        super().state_changed()
        self.post_message(self.StateChanged(self))

    # --- going in ----------------------------------------------------------------------------------------------------

    @on(FrameTable.RowClicked)
    def _row_clicked(self, event: FrameTable.RowClicked) -> None:
        event.stop()
        self.action_open_row()

    def _asked_row(self) -> Row | None:
        """The row under the cursor for a key that needs one; where there is none, it is said why."""
        row = self.current_row
        if row is None:
            missing = (
                "its rows are still being worked out" if self.is_coming else self._empty or "this table has no rows"
            )
            filtered = "no row matches the filter; esc takes it away"
            self.notify(missing if self.frame.is_empty() else filtered, severity="warning", markup=False)
        return row

    def action_open_row(self) -> None:
        """Go into the row under the cursor."""
        row = self._asked_row()
        if row is not None:
            self.post_message(self.RowOpened(self, row))

    def action_toggle_detail(self) -> None:
        """Ask for the details of the row under the cursor."""
        row = self._asked_row()
        if row is not None:
            self.post_message(self.DetailRequested(self, row))

    def action_source_line(self) -> None:
        """Ask for the line of the input that the row comes from."""
        row = self._asked_row()
        if row is not None:
            line = row.get("line")
            self.post_message(self.SourceLineRequested(self, line if isinstance(line, int) else None, row))

    def action_show_in_timeline(self) -> None:
        """Ask for the place of the row in the timeline."""
        row = self._asked_row()
        if row is not None:
            self.post_message(self.TimelineRequested(self, row))

    def action_write_note(self) -> None:
        """Ask for a note on the row under the cursor."""
        row = self._asked_row()
        if row is not None:
            self.post_message(self.NoteRequested(self, row))

    def noted_keys(self) -> Collection[Key]:
        """The rows that the user has written notes on."""
        keys_of = getattr(self.app, "noted_keys", None)
        return keys_of(self) if keys_of is not None else ()

    def row_key(self, row: Row) -> Key:
        """What tells a row from the others of the table."""
        return tuple(row[column] for column in self._key_columns())

    def action_view_cell(self) -> None:
        """Show the whole text of the cell under the cursor."""
        column, row = self.table.current_column(), self._asked_row()
        if column is not None and row is not None:
            value = row[column.name]
            shown = self.table.writer(column.name)
            self.app.push_screen(CellDialog(column, self._copied(value), shown=shown.with_unit(value)))

    @property
    def idle_actions(self) -> Collection[str]:
        """What the footer offers in vain."""
        return OF_ROWS if self.is_bare else ()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed, keys that open the bar are typed like all others."""
        return not (action in OPENS_BAR and self.is_typed_into)

    # --- marks, copies, exports --------------------------------------------------------------------------------------

    def action_toggle_mark(self) -> None:
        """Mark the row, or take its mark away, and go to the next."""
        table = self.table
        if self._asked_row() is None:
            return
        table.toggle_mark()
        table.action_cursor_down()
        self.show_status()
        self.state_changed()

    def action_copy_cell(self) -> None:
        """Copy the cell under the cursor, in full precision and base units."""
        column, row = self.table.current_column(), self._asked_row()
        if column is not None and row is not None:
            self.notify(copy_text(self.app, self._copied(row[column.name])), markup=False)

    def action_copy_rows(self) -> None:
        """Copy the marked rows, or the one under the cursor, as tab-separated values with a heading."""
        if self._asked_row() is None:
            return
        marked = self.marked_rows(all_columns=False)
        rows = (
            marked
            if len(marked)
            else self._with_columns(self.table.rows.slice(self.table.cursor_row, 1), all_columns=False)
        )
        self.notify(copy_text(self.app, rows.write_csv(separator="\t")), markup=False)

    @staticmethod
    def _copied(value: object) -> str:
        return "" if value is None else str(value)

    def action_export(self) -> None:
        """Ask what to export and where to."""
        shown, whole, marked = len(self.table.rows), self.frame.height, len(self.table.marks)
        scopes = [("shown", f"{count(shown)} shown", shown)]
        if marked:
            scopes.insert(0, ("marked", f"{count(marked)} marked", marked))
        if shown != whole:
            scopes.append(("all", f"all {count(whole)}", whole))
        profile = str(getattr(self.app, "opened_name", ""))
        dialog = ExportDialog(file_name(profile, self.spec.name), scopes, self._rows_of, self._about)
        self.app.push_screen(dialog, self._exported)

    def _rows_of(self, scope: str, all_columns: bool) -> pl.DataFrame:
        if scope == "marked":
            return self.marked_rows(all_columns=all_columns)
        if scope == "all":
            return self._with_columns(self.frame, all_columns=all_columns)
        return self.shown_frame(all_columns=all_columns)

    def _about(self, scope: str) -> About:
        name = getattr(self.screen, "VIEW", "")
        titles = [view.title for view in VIEWS if view.name == name]
        if self.spec.title not in titles:
            titles.append(self.spec.title)
        tells = getattr(self.screen, "about", None)
        facts = tells(self.spec.title) if tells is not None else {}
        about = About(str(getattr(self.app, "opened_name", "")), ", ".join(titles), name, **facts)
        status = self.status_line.status
        if scope == "marked":
            return replace(about, rows=f"{count(len(self.table.marks))} marked of {count(status.total)} rows")
        if scope == "all":
            return replace(about, rows=f"all {count(status.total)} rows")
        carried = "" if status.carried_reason else status.carried
        small = f", {status.small} left out" if status.small else ""
        return replace(
            about,
            rows=f"{'first ' if status.is_cut else ''}{count(status.shown)} of {count(status.total)} rows{small}",
            filter=" and ".join(text for text in (status.filter, carried) if text),
            order=sorted_by(self.spec, self.table.sort, in_words=True) if status.sorted_by else "",
        )

    def _exported(self, said: str | None) -> None:
        if said is not None:
            self.notify(said, markup=False)

    # --- help --------------------------------------------------------------------------------------------------------

    def column_help(self) -> list[tuple[str, str]]:
        """What the column under the cursor is: its heading with the unit that it is shown in, and what it means."""
        column = self.table.current_column()
        return [] if column is None else [(self.table.writer(column.name).title, _help(column))]

    def help_lines(self) -> list[tuple[str, str]]:
        """For each column its heading and what it means."""
        return [(column.title, _help(column)) for column in self.spec.columns if column.name in self.frame.columns]


def _help(column: Column) -> str:
    names = ", ".join((column.name, *column.aliases))
    unit = {ColumnKind.DURATION: "ns", ColumnKind.TIME: "ns", ColumnKind.SIZE: "bytes", ColumnKind.RATE: "bytes/s"}
    exported = f" in {unit[column.kind]}" if column.kind in unit else ""
    return f"{column.help} In filters: {names}{exported and f'; exported{exported}'}."
