"""Applies the filter, search and order of a table; for many rows in a thread."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from textual.worker import get_current_worker

from tui.fmt import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

    from tui.model.table_spec import TableState
    from tui.query.apply import Applied
    from tui.widgets.table.pane import TablePane

CURSOR_DELAY_S: Final = 0.05
"""How long the cursor must rest before linked tables follow it: a held key must not start a query for each row."""
MESSAGE_AFTER_S: Final = 0.06
"""After this time, the status line says that the table is being filtered: each key is answered within 0.1 s."""
MAX_ROWS_FILTERED_AT_ONCE: Final = 50_000
"""More rows are filtered and sorted in a thread: a filter is applied at each letter typed."""

APPLY_GROUP: Final = "apply"
"""The group of the workers that filter and sort."""


class Filtering:
    """Applies the requested state of a table and shows the resulting rows.

    Args:
        pane: The table.
    """

    def __init__(self, pane: TablePane) -> None:
        self._pane = pane
        self._model = pane.model
        self.is_pending = False
        """Whether a filter, a search or an order is being applied."""
        self.message = ""
        """A description of the running work, if it takes a while."""
        self._request = 0
        self._timer: Timer | None = None

    def apply(self, *, keep_row: bool = False) -> None:
        """Apply the filter, search and order of the requested state.

        Args:
            keep_row: If the row under the cursor disappears, stay at the same position on the screen.
        """
        self._request += 1
        self.is_pending = True
        model, global_filter = self._model, self._pane.global_filter
        state = model.state
        is_cheap = not (
            state.filter or state.find or state.sort or state.hides_small or state.as_share or global_filter
        )
        if model.frame.height <= MAX_ROWS_FILTERED_AT_ONCE or is_cheap:
            self._show_result(model.apply(model.frame, state, model.units(), global_filter), keep_row=keep_row)
            return
        if self._timer is None and not self.message:
            self._timer = self._pane.set_timer(MESSAGE_AFTER_S, self._show_message)
        self._pane.run_worker(
            self._make_job(self._request, state, global_filter, keep_row=keep_row),
            thread=True,
            exclusive=True,
            group=APPLY_GROUP,
            exit_on_error=False,
        )

    def _make_job(self, request: int, state: TableState, global_filter: str, *, keep_row: bool) -> Callable[[], None]:
        model = self._model
        frame, units = model.frame, dict(model.units())

        def job() -> None:
            if get_current_worker().is_cancelled:
                return
            applied = model.apply(frame, state, units, global_filter)
            self._pane.app.call_from_thread(show, applied)

        def show(applied: Applied) -> None:
            # A later key requested something else meanwhile: do not show this result.
            if request == self._request and self._pane.is_mounted:
                self._show_result(applied, keep_row=keep_row)

        return job

    def _show_result(self, applied: Applied, *, keep_row: bool) -> None:
        self._reset_message()
        model = self._model
        model.applied = applied
        self._pane.search.answer(applied)
        if applied.error is None:
            model.valid_filter = model.state.filter
        elif model.frame is model.rows.frame:
            # The last valid result stays on the screen while the text is invalid.
            self._pane.show_status()
            return
        else:
            valid = replace(model.state, filter=model.valid_filter)
            applied = model.apply(model.frame, valid, model.units(), self._pane.global_filter)
        model.take(applied, keep_row=keep_row)
        self._pane.rows_applied()

    def cancel(self) -> None:
        """Cancel the running work, and return to the state of the rows on the screen."""
        self._request += 1
        self._model.state = self._model.shown_state
        self._reset_message()
        self._pane.show_status()

    def _reset_message(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self.message = ""
        self.is_pending = False

    def _show_message(self) -> None:
        self._timer = None
        self.message = f"working on {count(self._model.frame.height)} rows… esc cancels"
        self._pane.show_status()
