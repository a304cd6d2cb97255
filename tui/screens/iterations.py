"""The Iterations view: their duration and composition, and the selection that applies to all views."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from textual import on, work
from textual.widgets import Input, Static

from tui.analysis.capabilities import missing_data_text
from tui.analysis.iterations.candidate_keys import KEY_CHOICES, key_choices, rows_containing
from tui.analysis.iterations.times import (
    ITERATIONS_WITH_USES,
    chart_rows,
    iteration_times,
    iterations_spec,
    iterations_with_uses,
)
from tui.analysis.needs import ITERATIONS as NEEDED
from tui.analysis.sessions import replayed_sessions
from tui.keys import Scope, bindings_for
from tui.model.aggregation import Aggregation
from tui.model.errors import CommandError
from tui.screens.base import WORKING, ViewScreen
from tui.screens.kernels_by_iteration import iterations_crumb, open_iteration
from tui.screens.linked_tables import LinkedTables
from tui.text import plain
from tui.widgets.charts.iteration_bars import ChartHeader
from tui.widgets.charts.iteration_chart import (
    MIN_ITERATIONS_SHOWN,
    IterationChart,
    iterations_summary,
    no_zoom,
    readout,
)
from tui.widgets.details import TALL_SCREEN_LINES, row_details
from tui.widgets.dialogs.base import Dialog, open_dialog
from tui.widgets.input_bars import PlainLine
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.dom import DOMNode
    from textual.widget import Widget

    from tui.analysis.iterations.times import Bar
    from tui.model.profile import Profile
    from tui.widgets.details import Details


MAX_ROWS_WITH_DETAILS: Final = 10
"""With at most this number of iterations, a tall screen has room for their details."""


class IterationsScreen(ViewScreen):
    """The chart of all iterations above a table of them; both have the same cursor."""

    VIEW = "iterations"
    AUTO_FOCUS = "FrameTable"
    BINDINGS: ClassVar = bindings_for(Scope.ITERATIONS)
    HELP: ClassVar = (
        "Recorded iterations, else detected iterations: the outermost loop of launches (E chooses another loop or "
        "a key).\nA bar is the time of an iteration: kernels and memory work on a GPU, else CPU work, else "
        "other.\nb starts and ends a span, a restricts every view to it, p to the steady iterations; A goes back."
    )

    DEFAULT_CSS = """
    IterationsScreen.-few.-wide.-tall IterationChart { height: 20; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._times: dict[int, dict[str, Any]] = {}
        self._session = 0
        self._slowest_index = 0
        """The rank of the next slowest iteration to show, from 0."""
        self._slowest: pl.Series | None = None
        """The rows of the table, slowest iteration first; None before the first request."""

    def compose_body(self) -> Iterable[Widget]:
        """Yield the chart and the table."""
        yield IterationChart(id="chart")
        yield TablePane(ITERATIONS_WITH_USES, id="table")

    @property
    def profile(self) -> Profile:
        """All iterations, whichever the other views show."""
        return self.explorer.profile_session.all_iterations

    @property
    def chart(self) -> IterationChart:
        """The chart."""
        return self.query_one(IterationChart)

    @property
    def _pane(self) -> TablePane:
        return self.query_one("#table", TablePane)

    def populate(self) -> None:
        """Fill chart and table, at once or as soon as a thread has computed what they need."""
        profile = self.profile
        if self.is_large:
            if self._pane.frame.is_empty():
                self._pane.show(self._pane.frame, empty=WORKING, is_loading=True)
            self._compute(profile)
        else:
            self._fill(profile)
        self._pane.focus_table()

    @work(thread=True, exclusive=True, group="iterations", description="iterations")
    def _compute(self, profile: Profile) -> None:
        # The result is cached with the profile.
        iterations_with_uses(profile)
        self.app.call_from_thread(self._fill_if_current, profile)

    def _fill_if_current(self, profile: Profile) -> None:
        if profile is self.profile and self.is_attached:
            self._fill(profile)

    def _fill(self, profile: Profile) -> None:
        rows = iterations_with_uses(profile, self.explorer.profile_session.aggregation)
        self._times = {row["session"]: row for row in iteration_times(profile).iter_rows(named=True)}
        self._slowest_index, self._slowest = 0, None
        self._pane.model.excluded_sessions = replayed_sessions(profile)
        was_empty = self._pane.frame.is_empty()
        self._pane.show(rows, empty=missing_data_text(profile, NEEDED) if rows.is_empty() else "")
        # Textual would update the styles of all widgets of the screen; only the chart changes.
        self.set_class(rows.height <= MAX_ROWS_WITH_DETAILS, "-few", update=False)
        self.app.stylesheet.update_nodes([self.chart])
        if was_empty and not self._pane.model.cursor_row:
            self._go_to_first_iteration()
        row = self._pane.current_row
        self._show_chart(row["session"] if row is not None else 0)  # type: ignore[arg-type]
        self._follow_table()

    def _go_to_first_iteration(self) -> None:
        """Start on the first iteration, not on work before it."""
        counted = self._pane.frame["iteration"].is_not_null().arg_true()
        row = self._pane.model.rows.shown_row(counted[0]) if len(counted) else None
        if row:
            self._pane.table.move_to(row)

    def _show_chart(self, session: int) -> None:
        """Show the iterations of a session."""
        self._session = session
        rows = self._pane.frame
        session_rows = chart_rows(rows.with_row_index("row"), session) if rows.height else rows
        chart = self.chart
        chart.display = session_rows.height > 0
        text = iterations_summary(
            self.profile, self._times.get(session), self.explorer.profile_session.aggregation, session=session
        )
        chart.show(session_rows, ChartHeader(text, self._readout))

    def _readout(self, bar: Bar) -> str:
        return readout(self.chart.rows, bar, self._times.get(self._session))

    def path(self) -> list[str]:
        """Return how iterations were found, if they are not recorded, shortened."""
        return iterations_crumb(self.profile)

    def _action_nodes(self) -> list[DOMNode]:
        """Return the widgets that may run an action, the chart last."""
        return [*super()._action_nodes(), self.chart]

    def undo_smallest(self) -> bool:
        """Clear the span before anything else."""
        return self.chart.forget_span() or super().undo_smallest()

    # --- synchronization of chart and table --------------------------------------------------------------------------

    @on(TablePane.RowHighlighted)
    def _table_moved(self) -> None:
        self._follow_table()

    def _follow_table(self) -> None:
        row, source_row = self._pane.current_row, self._pane.table.model.cursor_source_row
        if row is None:
            return
        if row["session"] != self._session:
            self._show_chart(row["session"])  # type: ignore[arg-type]
        source_row = (
            source_row
            if source_row is not None
            else self._pane.table.model.rows.source_row(self._pane.table.model.cursor_row)
        )
        chart_row = self._chart_row(source_row)
        if chart_row is not None:
            self.chart.follow(chart_row)

    def _chart_row(self, row: int) -> int | None:
        """Return the row of the chart for a row of the frame; None if it has no position in time."""
        numbers = self.chart.rows["row"] if self.chart.rows.height else pl.Series([], dtype=pl.UInt32)
        positions = (numbers == row).arg_true()
        return int(positions[0]) if len(positions) else None

    @on(IterationChart.Moved)
    def _chart_moved(self, event: IterationChart.Moved) -> None:
        self._go_to_row(int(self.chart.rows["row"][event.row]))

    def _go_to_row(self, row: int) -> None:
        """Move the cursor of the table to a row of the frame, unless it is filtered out."""
        shown_row = self._pane.table.model.rows.shown_row(row)
        if shown_row is not None:
            self._pane.table.move_to(shown_row)

    # --- keys --------------------------------------------------------------------------------------------------------

    def draw_ahead(self) -> bool:
        """Draw what a key may show next in the table or the chart, whichever has the focus."""
        return super().draw_ahead() or self.chart.draw_ahead()

    def action_zoom(self, step: int) -> None:
        """Show fewer iterations in the chart (1), or more (-1)."""
        chart = self.chart
        former_window = chart.window
        chart.zoom(step)
        if chart.window == former_window and chart.rows.height:
            self.explorer.say(no_zoom(chart.rows.height, step, MIN_ITERATIONS_SHOWN))

    def action_fit_chart(self) -> None:
        """Show all iterations in the chart, or only those that the other views show."""
        chart = self.chart
        shown_rows = chart.rows["aggregated"].arg_true() if chart.rows.height else pl.Series([], dtype=pl.UInt32)
        if chart.window == (0, chart.rows.height) and len(shown_rows):
            chart.show_window(int(shown_rows[0]), int(shown_rows[-1]) - int(shown_rows[0]) + 1)
            self._go_to_row(int(chart.rows["row"][int(shown_rows[0])]))
        else:
            chart.show_window(0, chart.rows.height)

    def action_go_to_slowest(self) -> None:
        """Go to the slowest iteration; repeated: to the next slowest."""
        if self._pane.frame.is_empty():
            return
        if self._slowest is None:
            numbered = self._pane.frame.with_row_index("row").drop_nulls(["iteration", "duration_ns"])
            self._slowest = numbered.sort("duration_ns", "row", descending=[True, False])["row"]
        if self._slowest.is_empty():
            self.explorer.say("Iteration times are not recorded.")
            return
        index = self._slowest_index % len(self._slowest)
        self._slowest_index += 1
        self._go_to_row(int(self._slowest[index]))
        self._follow_table()

    def action_mark_span(self) -> None:
        """Start a span of iterations at the cursor, or end it there."""
        self.chart.mark()

    def action_aggregate(self) -> None:
        """Show only the span in every view, or the iteration under the cursor without a span."""
        chart = self.chart
        if not chart.rows.height:
            return
        first, last = chart.marked or (chart.cursor, chart.cursor)
        numbers = chart.rows["iteration"].slice(first, last - first + 1).drop_nulls()
        if numbers.is_empty():
            self.explorer.say("This work is outside the iterations.", severity="warning")
            return
        first, last = int(numbers.min()), int(numbers.max())  # type: ignore[arg-type]
        self._choose(Aggregation(first, last, self.explorer.profile_session.aggregation.key))

    def action_aggregate_steady(self) -> None:
        """Show the longest stretch of steady iterations in every view."""
        times = self._times.get(self._session)
        if times is None or times["steady_first"] is None:
            self.explorer.say(
                "No steady interval: no three consecutive iterations take about the same time.", severity="warning"
            )
            return
        self._choose(
            Aggregation(times["steady_first"], times["steady_last"], self.explorer.profile_session.aggregation.key)
        )

    def action_pick_key(self) -> None:
        """Choose a loop or a name that marks the end of iterations."""

        def picked(key: str | None) -> None:
            if key is not None:
                self._choose(Aggregation(key=key or None))

        open_dialog(self.app, KeyPicker(self.profile, self.explorer.profile_session.aggregation.key), picked)

    def _choose(self, aggregation: Aggregation) -> None:
        self.chart.forget_span()
        try:
            self.explorer.profile_session.choose_iterations(aggregation)
        except CommandError as error:
            self.explorer.say(str(error), severity="error")
            return
        self.explorer.say(f"All views now show {aggregation.text or 'all iterations'}. A goes back.")

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Show only the span if there is one; else the work of the iteration."""
        self._open(row)

    @on(IterationChart.Opened)
    def _bar_opened(self) -> None:
        if self.chart.rows.height:
            self._open(self.chart.rows.row(self.chart.cursor, named=True))

    def _open(self, row: dict[str, Any]) -> None:
        """Show only the span if there is one; else the work of an iteration."""
        if self.chart.marked is not None:
            self.action_aggregate()
            return
        if row["aggregated"] is False:
            self.explorer.say("Other views exclude this iteration. a shows it, A shows all.")
            return
        session, iteration = row["session"], row["iteration"]

        def arrange(screen: ViewScreen) -> None:
            open_iteration(screen.query_one(LinkedTables), session, iteration)

        self.explorer.go("kernels-by-iteration", arrange)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the values of an iteration; whether it is selected if some are; for servers the batch."""
        omitted = {"aggregated"} if row["aggregated"] is None else set()
        if self.profile["sessions"].height == 1:
            omitted |= {"session", "rank"}
        columns = tuple(column for column in iterations_spec(self.profile).columns if column.name not in omitted)
        return row_details(replace(pane.spec, columns=columns), row, frame=pane.frame)

    def opens_details(self, pane: TablePane) -> bool:
        """Return whether there are few iterations, so that details have room."""
        return pane.frame.height <= MAX_ROWS_WITH_DETAILS and self.app.size.height >= TALL_SCREEN_LINES

    def action_toggle_row_detail(self) -> None:
        """Show or hide the details of the iteration under the cursor."""
        self._pane.action_toggle_detail()


NO_KEY = ""
"""The dialog's result for no key: recorded iterations, otherwise detected ones."""


class KeyPicker(Dialog[str]):
    """Candidates in a table, filtered by the typed text.

    Args:
        profile: The profile with all iterations.
        current_key: The current key.
    """

    TITLE_TEXT = "End of an iteration"
    KEYS = "type to filter  up down  enter choose  ctrl+r as recorded  esc cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Leave"),
        ("down", "step(1)", "Down"),
        ("up", "step(-1)", "Up"),
        ("pagedown,ctrl+d", "step(10)", "Page down"),
        ("pageup,ctrl+u", "step(-10)", "Page up"),
        ("ctrl+r", "no_key", "As recorded or detected"),
    ]
    DEFAULT_CSS = """
    KeyPicker {
        & > .dialog--box { max-width: 160; width: 96%; height: 90%; }
        #typed { border: none; height: 1; padding: 0; }
        #present { color: $text-muted; height: auto; }
    }
    """

    def __init__(self, profile: Profile, current_key: str | None) -> None:
        super().__init__()
        self._profile = profile
        self._current_key = current_key
        self._rows: pl.DataFrame | None = None

    def compose_body(self) -> ComposeResult:
        """Yield the current key, the input, and the candidates."""
        text = (
            f"Now: {plain(self._current_key)}"
            if self._current_key
            else "Current: as recorded, else the loop of launches"
        )
        yield Static(text, id="present", markup=False)
        yield PlainLine(placeholder="part of a name", id="typed", compact=True)
        yield TablePane(KEY_CHOICES, id="keys", title="Keys")

    def on_mount(self) -> None:
        """Find candidates in a thread: that takes a while for millions of launches."""
        view = self.query_one(TablePane)
        view.table.can_focus = False
        view.show(pl.DataFrame(schema={column.name: pl.String for column in KEY_CHOICES.columns}), empty="looking…")
        self.query_one(Input).focus()
        self._find_choices()

    @work(thread=True, exclusive=True, group="keys", description="keys")
    def _find_choices(self) -> None:
        rows = key_choices(self._profile)
        self.app.call_from_thread(self._show_choices, rows)

    def _show_choices(self, rows: pl.DataFrame) -> None:
        if self.is_attached:
            self._rows = rows
            self._filter_choices(self.query_one(Input).value)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._filter_choices(event.value)

    def _filter_choices(self, text: str) -> None:
        if self._rows is None:
            return
        view = self.query_one(TablePane)
        view.table.model.cursor_source_row = None
        rows = rows_containing(self._rows, text)
        empty = "No name repeats at least three times." if self._rows.is_empty() else "No name contains this."
        view.show(rows, empty=empty)

    @on(Input.Submitted)
    def _accept(self) -> None:
        row = self.query_one(TablePane).current_row if self._rows is not None else None
        if row is not None:
            self.dismiss(str(row["name"]))

    @on(TablePane.RowOpened)
    def _row_opened(self) -> None:
        self._accept()

    def action_step(self, step: int) -> None:
        """Move by rows, up if negative."""
        table = self.query_one(TablePane).table
        table.move_to(table.model.cursor_row + step)

    def action_no_key(self) -> None:
        """Show iterations as recorded or detected."""
        self.dismiss(NO_KEY)
