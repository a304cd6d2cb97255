"""Finding and filtering in a table: the query bar, the matches, and what undoes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on

from tui.query.carry import carriable
from tui.query.complete import begun, suggestion
from tui.query.errors import QueryError
from tui.query.write import equals_filter, narrowed
from tui.text import plain
from tui.widgets.hits import hit_pattern
from tui.widgets.query_bar import QueryBar, QueryMode
from tui.widgets.table_view import TableView

if TYPE_CHECKING:
    from tui.model.view import TableSpec
    from tui.query.apply import Applied


class TableSearch(TableView):
    """A table that can be searched and filtered."""

    def __init__(self, spec: TableSpec, *, id: str | None = None, title: str = "") -> None:  # noqa: A002
        super().__init__(spec, id=id, title=title)
        self._bar: QueryBar | None = None
        self._before = {QueryMode.FIND: "", QueryMode.FILTER: ""}
        """What stood in each mode when the bar was opened."""
        self._origin: int | None = None
        """Where the cursor was when the bar was opened."""
        self._goes_to_match = False
        self._closes_bar = False
        """Whether the bar closes when the text that was accepted turns out to be understood."""

    @property
    def query_bar(self) -> QueryBar:
        """The bar to type into; most tables are never searched, so that it is made when it is first asked for."""
        if self._bar is None:
            self._bar = QueryBar(self._complete)
        return self._bar

    @property
    def is_typed_into(self) -> bool:
        """Whether the bar is open."""
        return self._bar is not None and self._bar.is_open

    # --- what the screens use ----------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Keep the rows that match; an empty text keeps all. What is wrong with a text is said in the query bar."""
        self._set(QueryMode.FILTER, text)
        self.query_bar.remember(text)

    def set_find(self, text: str) -> None:
        """Highlight the rows that match and go to the first of them."""
        self._goes_to_match = True
        self._set(QueryMode.FIND, text)
        self.query_bar.remember(text)

    def undo_smallest(self) -> bool:
        """Undo the smallest thing that the user did here; False when there is nothing left."""
        if self.is_typed_into:
            self.query_bar.action_cancel()
        elif self.is_pending:
            self.cancel_pending()
        elif self.table.marks:
            self.table.mark(())
            self.show_status()
            self.state_changed()
        elif self._state.find:
            self.change(find="")
        elif self._state.filter:
            self.change(filter="")
        else:
            return False
        return True

    # --- the bar -----------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Open the bar to find."""
        self._open(QueryMode.FIND)

    def action_filter(self) -> None:
        """Open the bar to filter."""
        self._open(QueryMode.FILTER)

    def action_filter_column(self) -> None:
        """Open the bar to filter by the column under the cursor, besides what is filtered by."""
        column = self.table.current_column()
        if column is None:
            return
        term, hint, others = begun(column, self.spec.columns, self.frame)
        try:
            text = narrowed(self._state.filter, term)
        except QueryError:
            # What stands there is not finished: it is to be mended first.
            self.action_filter()
            return
        self._open(QueryMode.FILTER)
        self.query_bar.open(QueryMode.FILTER, text, others=others)
        self.query_bar.answer(plain(f"{column.title}: {hint}"))

    def action_carry_filter(self) -> None:
        """Carry the filter of this table into every view; without one, carry nothing any longer."""
        carry = getattr(self.app, "carry_filter", None)
        if carry is None:
            return
        own, carried = self._state.filter, self.carried
        if not own:
            carry("")
            said = "the filter is no longer carried" if carried else "no filter to carry: f sets one"
            self.notify(said, markup=False)
            return
        try:
            spelled_out = carriable(own, columns=self.spec.columns, units=self.units())
            carry(narrowed(carried, spelled_out) if carried else spelled_out)
        except QueryError as error:
            self.notify(plain(f"the filter is not finished: {error}"), severity="warning", markup=False)
            return
        # It is lifted out of this table: it goes with the user, and C drops it everywhere at once.
        self.change(filter="")
        self.notify(plain(f"every view is filtered by {self.carried}; C drops it"), markup=False)

    def _open(self, mode: QueryMode) -> None:
        if not self.query_bar.is_attached:
            self.mount(self.query_bar, after=self.table)
        if not self.query_bar.is_open:
            self._before = {QueryMode.FIND: self._state.find, QueryMode.FILTER: self._state.filter}
            self._origin = self.table.kept_row
        self.query_bar.open(mode, self._before[mode])

    def _set(self, mode: QueryMode, text: str) -> None:
        if (self._state.find if mode is QueryMode.FIND else self._state.filter) == text:
            return
        if mode is QueryMode.FIND:
            self.change(find=text)
        else:
            self.change(filter=text)

    @on(QueryBar.Changed)
    def _typed(self, event: QueryBar.Changed) -> None:
        event.stop()
        self._goes_to_match = event.mode is QueryMode.FIND
        self._set(event.mode, event.text)

    @on(QueryBar.Switched)
    def _switched(self, event: QueryBar.Switched) -> None:
        event.stop()
        self._goes_to_match = event.mode is QueryMode.FIND
        self._set(event.mode.other, self._before[event.mode.other])
        self._set(event.mode, event.text)

    @on(QueryBar.Accepted)
    def _accepted(self, event: QueryBar.Accepted) -> None:
        event.stop()
        self._goes_to_match = event.mode is QueryMode.FIND
        self._closes_bar = True
        self._set(event.mode, event.text)
        if self._closes_bar and not self.is_pending:
            self._close_unless_wrong(self.applied)

    @on(QueryBar.Cancelled)
    def _cancelled(self, event: QueryBar.Cancelled) -> None:
        event.stop()
        self._goes_to_match = False
        self.table.kept_row = self._origin
        self.query_bar.close()
        before = self._before
        self.change(find=before[QueryMode.FIND], filter=before[QueryMode.FILTER])
        self.focus_table()

    def answered(self, applied: Applied) -> None:
        """Say in the bar how the text was read or what is wrong with it; an error opens the bar."""
        if self._bar is None and not applied.error and not applied.find_error:
            return
        bar = self.query_bar
        if not bar.is_open and (applied.error or applied.find_error):
            self._open(QueryMode.FILTER if applied.error else QueryMode.FIND)
            bar.open(bar.mode, self._state.filter if applied.error else self._state.find)
            # Nobody typed the text into the bar: what esc gives back is what could be understood before it.
            self._before = {
                QueryMode.FIND: "" if applied.find_error else self._state.find,
                QueryMode.FILTER: self._good_filter,
            }
        error = applied.error if bar.mode is QueryMode.FILTER else applied.find_error
        if error is not None:
            bar.answer(plain(str(error)), fault=(error.start, error.end), wrong=True)
        else:
            bar.answer(plain(applied.reading if bar.mode is QueryMode.FILTER else applied.find_reading))
        if self._closes_bar:
            self._close_unless_wrong(applied)

    def _close_unless_wrong(self, applied: Applied | None) -> None:
        self._closes_bar = False
        mode = self.query_bar.mode
        if applied is None or (applied.error if mode is QueryMode.FILTER else applied.find_error) is None:
            self.query_bar.close()
            self.focus_table()
            self.query_bar.pass_on()
        else:
            self.query_bar.type_on()

    def cancel_pending(self) -> None:
        """Give up what takes a while; what was accepted can be typed on."""
        super().cancel_pending()
        if self.is_typed_into:
            self._closes_bar = False
            self.query_bar.type_on()

    def rows_taken(self) -> None:
        """Underline the hits, and go to the first match at or after the row that the search began at."""
        self.table.show_hits(hit_pattern(self._state.find))
        if not self._goes_to_match or not self._state.find:
            return
        self._goes_to_match = False
        origin = self.table.rows.shown_row(self._origin) if self._origin is not None else None
        row = self.table.next_found((origin or 0) - 1, 1)
        if row is not None:
            self.table.move_to(row)

    def _complete(self, text: str) -> str | None:
        return suggestion(text, columns=self.spec.columns, frame=self.frame)

    # --- matches and equal values ------------------------------------------------------------------------------------

    def action_next_match(self) -> None:
        """Go to the next match."""
        self._go_to_match(1)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._go_to_match(-1)

    def _go_to_match(self, step: int) -> None:
        here = self.table.cursor_row
        row = self.table.next_found(here, step)
        if row is None:
            said = "no match" if self._state.find else "nothing to find yet: / begins a search"
            self.notify(said, markup=False)
            return
        self.table.move_to(row)
        if (row <= here) if step > 0 else (row >= here):
            self.notify("wrapped to the first match" if step > 0 else "wrapped to the last match", markup=False)

    def action_filter_equal(self) -> None:
        """Keep the rows with the value under the cursor."""
        self._filter_by_cell(keep=True)

    def action_filter_not_equal(self) -> None:
        """Leave out the rows with the value under the cursor."""
        self._filter_by_cell(keep=False)

    def _filter_by_cell(self, *, keep: bool) -> None:
        column = self.table.current_column()
        row = self.current_row
        if column is None or row is None:
            return
        term = equals_filter(column.name, row[column.name], column.kind)
        try:
            text = narrowed(self._state.filter, term if keep else f"!{term}")
        except QueryError as error:
            self.notify(f"the filter is not finished: {error}", severity="warning", markup=False)
            return
        self.change(keep_row=True, filter=text)
