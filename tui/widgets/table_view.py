"""A table filtered, searched and sorted as its state says, and the line that says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from textual import on, work
from textual.worker import Worker, WorkerState, get_current_worker

from tui.fmt import count
from tui.query.apply import Applied, apply
from tui.query.facts import facts_of
from tui.text import plain
from tui.widgets.cells import units_of
from tui.widgets.frame_table import FrameTable
from tui.widgets.later import later
from tui.widgets.status_line import TableStatus
from tui.widgets.table_rows import TableRows
from tui.widgets.table_state import ArrangedTable
from tui.widgets.table_words import marks_in_words, small_in_words, sorted_by, weight_title

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Mapping

    import polars as pl
    from textual.timer import Timer

    from tui.model.view import TableSpec, TableState

SETTLED_AFTER: Final = 0.05
"""Seconds that the cursor rests before others are told of the row: holding a key down must not cost a query a row."""
BUSY_AFTER: Final = 0.15
"""Seconds before rows or details give way to words that others are being worked out."""
SAY_AFTER: Final = 0.06
"""Seconds before the status line says that it filters, searches or sorts: within a tenth of a second each key is
answered, by rows or by that."""
ROWS_AT_ONCE: Final = 50_000
"""Up to so many rows a filter or a sort is done before the next key is looked at; more go to a thread."""

APPLY: Final = "apply"
"""The group of the threads that filter and sort."""
NO_MATCH: Final = "No row matches the filter. esc takes it away."


class TableView(ArrangedTable):
    """A table that shows the rows of its state: of many rows they are found and sorted in a thread.

    Args:
        spec: What the table shows.
        id: The widget's id.
        title: What it holds, for the status line, where several tables stand on one screen.
    """

    DEFAULT_CSS = """
    TableView { height: 1fr; }
    """

    def __init__(self, spec: TableSpec, *, id: str | None = None, title: str = "") -> None:  # noqa: A002
        super().__init__(spec, id=id)
        self.applied: Applied | None = None
        """What came of the latest filter, search and order."""
        self.is_pending = False
        """Whether a filter, a search or an order is being applied."""
        self._shown_pct: float | None = None
        self._taken_state = self._state
        """The state whose rows are on the screen."""
        self._marks_said: tuple[set[int], pl.DataFrame, tuple[str, str]] | None = None
        self._good_filter = ""
        """The latest filter that could be understood."""
        self._request = 0
        self._busy = ""
        self._busy_timer: Timer | None = None
        self._settle_timer: TimerHandle | None = None
        self._title = title

    # --- applying filter, search and order ---------------------------------------------------------------------------

    def units(self) -> Mapping[str, str]:
        """For each column of times the unit that it is shown in: a bare number in a filter is read in it."""
        return units_of(self.spec.columns, self.frame, self._state)

    def apply_state(self, *, keep_row: bool = False) -> None:
        """Filter, search and order; of many rows in a thread."""
        self._request += 1
        self.is_pending = True
        state, carried = self._state, self.carried
        is_cheap = not (state.filter or state.find or state.sort or state.hides_small or state.as_share or carried)
        if self.frame.height <= ROWS_AT_ONCE or is_cheap:
            self._take(self._applied(self.frame, state, self.units(), carried), keep_row=keep_row)
            return
        if self._busy_timer is None and not self._busy:
            self._busy_timer = self.set_timer(SAY_AFTER, self._show_busy)
        self._apply_in_thread(self._request, self.frame, state, dict(self.units()), carried, keep_row)

    def _applied(self, frame: pl.DataFrame, state: TableState, units: Mapping[str, str], carried: str) -> Applied:
        return apply(frame, self.spec, state, units=units, apart=self.apart, carried=carried)

    @work(thread=True, exclusive=True, group=APPLY, exit_on_error=False)
    def _apply_in_thread(
        self,
        request: int,
        frame: pl.DataFrame,
        state: TableState,
        units: dict[str, str],
        carried: str,
        keep_row: bool,
    ) -> None:
        if get_current_worker().is_cancelled:
            return
        applied = self._applied(frame, state, units, carried)
        self.app.call_from_thread(self._take_if_wanted, request, applied, keep_row)

    def _take_if_wanted(self, request: int, applied: Applied, keep_row: bool) -> None:
        # A later key has asked for something else in the meantime: this result must not flash up.
        if request == self._request and self.is_mounted:
            self._take(applied, keep_row=keep_row)

    def cancel_pending(self) -> None:
        """Give up what takes a while, and go back to the state of the rows on the screen."""
        self._request += 1
        self._state = self._taken_state
        self._end_busy()
        self.show_status()

    def _end_busy(self) -> None:
        if self._busy_timer is not None:
            self._busy_timer.stop()
            self._busy_timer = None
        self._busy = ""
        self.is_pending = False

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A filter that broke down must not look like one that is still at work."""
        if event.state is WorkerState.ERROR and event.worker.group == APPLY:
            event.stop()
            self.cancel_pending()
            self.notify(plain(f"that did not work: {event.worker.error}"), severity="error", markup=False)

    def _show_busy(self) -> None:
        self._busy_timer = None
        self._busy = f"working on {count(self.frame.height)} rows… esc cancels"
        self.show_status()

    def _take(self, applied: Applied, *, keep_row: bool) -> None:
        self._end_busy()
        self.applied = applied
        self.answered(applied)
        if applied.error is None:
            self._good_filter = self._state.filter
        elif self.frame is self.table.rows.frame:
            # The last good result stays on the screen while the text is being mended.
            self.show_status()
            return
        else:
            good = replace(self._state, filter=self._good_filter)
            applied = self._applied(self.frame, good, self.units(), self.carried)
        self._taken_state = self._state
        self._shown_pct = applied.weight_shown_pct
        rows = TableRows(self.frame, applied.rows)
        place = rows.shown_row(self.table.kept_row) if self.table.kept_row is not None else 0
        if place is None:
            place = self.table.cursor_row if keep_row else 0
        self.table.arrange_columns(self._state)
        self.table.empty_text = self._no_match() if self.frame.height else self._empty
        share_of = applied.shared_out_shown if self._state.share_of_shown else applied.shared_out
        self.table.set_rows(rows, cursor_row=place, found=applied.matches, share_of=share_of)
        self.rows_taken()
        self.show_status()

    def _no_match(self) -> str:
        if self._state.filter or not self.carried:
            return NO_MATCH
        return f"No row matches the carried filter {plain(self.carried)}. C drops it."

    def rows_taken(self) -> None:
        """Called when the table shows the rows of the latest filter, search and order."""

    def answered(self, applied: Applied) -> None:
        """Called with what came of the latest filter, search and order."""

    # --- status ------------------------------------------------------------------------------------------------------

    def show_status(self) -> None:
        """Write the status line anew."""
        table = self.table
        layout = table.table_layout
        if self._marks_said is None or self._marks_said[0] is not table.marks or self._marks_said[1] is not self.frame:
            words = marks_in_words(
                self.frame, table.marks, self.spec, self.apart, self._weight_of_all, ascii_only=table.ascii_only
            )
            self._marks_said = (table.marks, self.frame, words)
        marks, average = self._marks_said[2]
        self.status_line.status = TableStatus(
            # What it shows can be another table by now, as other groups of ops are.
            title=self.spec.title if self._title else "",
            shown=len(table.rows),
            total=self.frame.height,
            is_coming=self.is_coming and self.frame.is_empty(),
            weight_share=self._shown_pct,
            weight_title=weight_title(self.spec),
            is_cut=self._shows_first_only,
            small=small_in_words(self.applied, self.spec, ascii_only=table.ascii_only) if self.applied else "",
            shares_of=self._shares_of(),
            filter=plain(self._good_filter),
            carried=plain(self.carried),
            carried_reason=plain(self.applied.carried_reason) if self.applied else "",
            find=plain(self._state.find),
            found=table.found_count,
            found_at=table.found_at(table.cursor_row),
            sorted_by="" if self.is_folded else sorted_by(self.spec, table.sort, ascii_only=table.ascii_only),
            at=self.folded_at if self.is_folded else "",
            way=self.folded_way if self.is_folded else "",
            marks=marks,
            marks_average=average,
            busy=self._busy,
            columns_before=layout.before,
            columns_after=layout.after,
        )

    def _weight_of_all(self) -> int | float | None:
        return facts_of(self.frame)[self.spec.weight].total

    @property
    def _shows_first_only(self) -> bool:
        most = self._taken_state.most_rows
        return most is not None and self.applied is not None and self.applied.passed - self.applied.small > most

    def _shares_of(self) -> str:
        if not self._state.as_share or self.table.share_of is None:
            return ""
        return "shown" if self._state.share_of_shown else "all"

    # --- messages of the table ---------------------------------------------------------------------------------------

    @on(FrameTable.CursorMoved)
    def _cursor_moved(self, event: FrameTable.CursorMoved) -> None:
        event.stop()
        self.show_status()
        if self._settle_timer is not None:
            self._settle_timer.cancel()
        self._settle_timer = later(self, SETTLED_AFTER, self.cursor_settled)

    def cursor_settled(self) -> None:
        """Called when the cursor has come to rest."""

    @on(FrameTable.LayoutChanged)
    def _layout_changed(self, event: FrameTable.LayoutChanged) -> None:
        event.stop()
        self.show_status()
