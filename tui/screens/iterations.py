"""Iterations: how long each one took and what for, and which of them all views show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
from textual import on, work

from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import ITERATIONS as NEEDED
from tui.analysis.inputs.replayed import replayed_sessions
from tui.analysis.iterations.chart import chart_rows
from tui.analysis.iterations.times import iteration_times
from tui.analysis.iterations.uses import ITERATIONS_WITH_USES, iterations_with_uses
from tui.commands import CommandError
from tui.keys import Scope, bindings_for
from tui.model.aggregation import Aggregation
from tui.screens.base import ViewScreen
from tui.screens.detailed import ROWS_AT_ONCE, WORKING
from tui.screens.kernels_by_iteration import KernelsByIterationScreen, found_words
from tui.widgets.details import row_details
from tui.widgets.iteration_chart import LEAST_SHOWN, IterationChart
from tui.widgets.iteration_drawing import Around
from tui.widgets.iteration_words import no_zoom, readout, summary
from tui.widgets.table_pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.dom import DOMNode
    from textual.widget import Widget

    from tui.analysis.iterations.chart import Bar
    from tui.model.profile import Profile
    from tui.widgets.details import Details


class IterationsScreen(ViewScreen):
    """The chart of all iterations above a table of them; both have the same cursor."""

    VIEW = "iterations"
    BINDINGS: ClassVar = bindings_for(Scope.ITERATIONS)
    HELP: ClassVar = (
        "All iterations as recorded, else found from 0 as the pattern of launches that repeats (K: by a key instead).\n"
        "A bar is the time from start to end: a GPU in kernels or memory work, else the CPU at work; other: the rest.\n"
        "b begins and ends a span, a shows only that in every view, p the steady iterations, A what was shown before."
    )

    def __init__(self) -> None:
        super().__init__()
        self._times: dict[int, dict[str, Any]] = {}
        self._session = 0
        self._worst = 0
        """How many times the next slowest iteration has been asked for."""
        self._slowest: pl.Series | None = None
        """The rows of the table with the slowest iteration first, once they have been asked for."""

    def compose_body(self) -> Iterable[Widget]:
        """The chart above the table."""
        yield IterationChart(id="chart")
        yield TablePane(ITERATIONS_WITH_USES, id="table")

    @property
    def profile(self) -> Profile:
        """All iterations, whichever the other views show."""
        return self.program.all_iterations

    @property
    def chart(self) -> IterationChart:
        """The chart."""
        return self.query_one(IterationChart)

    @property
    def _pane(self) -> TablePane:
        return self.query_one("#table", TablePane)

    def populate(self) -> None:
        """Fill chart and table, at once or as soon as a thread has worked out what they need."""
        profile = self.profile
        if profile["activities"].height > ROWS_AT_ONCE:
            if self._pane.frame.is_empty():
                self._pane.show(self._pane.frame, empty=WORKING, is_coming=True)
            self._work_out(profile)
        else:
            self._fill(profile)
        self._pane.focus_table()

    @work(thread=True, exclusive=True, group="iterations")
    def _work_out(self, profile: Profile) -> None:
        # What it finds is kept for as long as the profile is.
        iterations_with_uses(profile)
        self.app.call_from_thread(self._fill_if_wanted, profile)

    def _fill_if_wanted(self, profile: Profile) -> None:
        if profile is self.profile and self.is_attached:
            self._fill(profile)

    def _fill(self, profile: Profile) -> None:
        rows = iterations_with_uses(profile, self.program.aggregation)
        self._times = {row["session"]: row for row in iteration_times(profile).iter_rows(named=True)}
        self._worst, self._slowest = 0, None
        self._pane.apart = replayed_sessions(profile)
        self._pane.show(rows, empty=why_none(profile, NEEDED) if rows.is_empty() else "")
        row = self._pane.current_row
        self._show_chart(row["session"] if row is not None else 0)  # type: ignore[arg-type]
        self._follow_table()

    def _show_chart(self, session: int) -> None:
        """Show the iterations of a session."""
        self._session = session
        rows = self._pane.frame
        own = chart_rows(rows.with_row_index("row"), session) if rows.height else rows
        chart = self.chart
        chart.display = own.height > 0
        text = summary(self.profile, self._times.get(session), self.program.aggregation, session=session)
        chart.show(own, Around(text, self._readout))

    def _readout(self, bar: Bar) -> str:
        return readout(self.chart.rows, bar, self._times.get(self._session), ascii_only=self.program.ascii_only)

    def path(self) -> list[str]:
        """How they were found, where they are not recorded; the whole of it is in the reports."""
        return found_words(self.profile)

    def action_target(self, method: str) -> DOMNode | None:
        """The widget here that has an action of this name, the chart as well."""
        found = super().action_target(method)
        return found if found is not None else self.chart if hasattr(self.chart, f"action_{method}") else None

    def undo_smallest(self) -> bool:
        """Undo the span before anything else."""
        return self.chart.forget_span() or super().undo_smallest()

    # --- chart and table follow each other -------------------------------------------------------------------------

    @on(TablePane.RowHighlighted)
    def _table_moved(self) -> None:
        self._follow_table()

    def _follow_table(self) -> None:
        row, at = self._pane.current_row, self._pane.table.kept_row
        if row is None:
            return
        if row["session"] != self._session:
            self._show_chart(row["session"])  # type: ignore[arg-type]
        at = at if at is not None else self._pane.table.rows.source_row(self._pane.table.cursor_row)
        place = self._chart_row(at)
        if place is not None:
            self.chart.follow(place)

    def _chart_row(self, row: int) -> int | None:
        """The row of the chart that draws a row of the frame; None: it has no place in time."""
        numbers = self.chart.rows["row"] if self.chart.rows.height else pl.Series([], dtype=pl.UInt32)
        found = (numbers == row).arg_true()
        return int(found[0]) if len(found) else None

    @on(IterationChart.Moved)
    def _chart_moved(self, event: IterationChart.Moved) -> None:
        self._go_to_row(int(self.chart.rows["row"][event.row]))

    def _go_to_row(self, row: int) -> None:
        """Put the cursor of the table on a row of the frame, if the filter leaves it."""
        place = self._pane.table.rows.shown_row(row)
        if place is not None:
            self._pane.table.move_to(place)

    # --- keys --------------------------------------------------------------------------------------------------------

    def draw_ahead(self) -> bool:
        """Draw what a key may show next in the table and in the chart, whichever has the focus."""
        return super().draw_ahead() or self.chart.draw_ahead()

    def action_zoom(self, step: int) -> None:
        """Fewer iterations in the chart (1), or more (-1)."""
        chart = self.chart
        before = chart.window
        chart.zoom(step)
        if chart.window == before and chart.rows.height:
            self.program.say(no_zoom(chart.rows.height, step, LEAST_SHOWN))

    def action_fit_chart(self) -> None:
        """All iterations in the chart; where all are, only those that the other views show."""
        chart = self.chart
        inside = chart.rows["aggregated"].arg_true() if chart.rows.height else pl.Series([], dtype=pl.UInt32)
        if chart.window == (0, chart.rows.height) and len(inside):
            chart.show_window(int(inside[0]), int(inside[-1]) - int(inside[0]) + 1)
            self._go_to_row(int(chart.rows["row"][int(inside[0])]))
        else:
            chart.show_window(0, chart.rows.height)

    def action_go_to_slowest(self) -> None:
        """Go to the slowest iteration of all; again: to the next slowest."""
        if self._pane.frame.is_empty():
            return
        if self._slowest is None:
            numbered = self._pane.frame.with_row_index("row").drop_nulls(["iteration", "duration_ns"])
            self._slowest = numbered.sort("duration_ns", "row", descending=[True, False])["row"]
        if self._slowest.is_empty():
            self.program.say("no iteration has a time")
            return
        at = self._worst % len(self._slowest)
        self._worst += 1
        self._go_to_row(int(self._slowest[at]))
        self._follow_table()

    def action_mark_span(self) -> None:
        """Begin a span of iterations at the cursor, or end it there."""
        self.chart.mark()

    def action_aggregate(self) -> None:
        """Show only the span in every view, or the iteration under the cursor where there is none."""
        chart = self.chart
        if not chart.rows.height:
            return
        first, last = chart.marked or (chart.cursor, chart.cursor)
        numbers = chart.rows["iteration"].slice(first, last - first + 1).drop_nulls()
        if numbers.is_empty():
            self.program.say("this work belongs to no iteration", severity="warning")
            return
        self._choose(Aggregation(int(numbers.min()), int(numbers.max()), self.program.aggregation.key))  # type: ignore[arg-type]

    def action_aggregate_steady(self) -> None:
        """Show the longest stretch of steady iterations in every view."""
        times = self._times.get(self._session)
        if times is None or times["steady_first"] is None:
            self.program.say("no three iterations one after the other take about the same time", severity="warning")
            return
        self._choose(Aggregation(times["steady_first"], times["steady_last"], self.program.aggregation.key))

    def action_pick_key(self) -> None:
        """Choose what iterations end with."""
        from tui.screens.key_picker import KeyPicker

        def picked(key: str | None) -> None:
            if key is not None:
                self._choose(Aggregation(key=key or None))

        self.program.push_screen(KeyPicker(self.profile, self.program.aggregation.key), picked)

    def _choose(self, wanted: Aggregation) -> None:
        self.chart.forget_span()
        try:
            self.program.choose_iterations(wanted)
        except CommandError as error:
            self.program.say(str(error), severity="error")
            return
        self.program.say(f"every view shows {wanted.words or 'all iterations'}; A goes back")

    @on(TablePane.RowOpened)
    def _row_opened(self, event: TablePane.RowOpened) -> None:
        self._open(event.row)

    @on(IterationChart.Opened)
    def _bar_opened(self) -> None:
        if self.chart.rows.height:
            self._open(self.chart.rows.row(self.chart.cursor, named=True))

    def _open(self, row: dict[str, Any]) -> None:
        """Show only the span where there is one; else what ran in an iteration."""
        if self.chart.marked is not None:
            self.action_aggregate()
            return
        if row["aggregated"] is False:
            self.program.say("the other views leave this iteration out: a shows it, A shows all again")
            return
        session, iteration = row["session"], row["iteration"]

        def arrange(screen: ViewScreen) -> None:
            assert isinstance(screen, KernelsByIterationScreen)
            screen.open_iteration(session, iteration)

        self.program.go("kernels-by-iteration", arrange)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Every value of an iteration; whether it is chosen only where some are."""
        spec = pane.spec
        if row["aggregated"] is None:
            spec = replace(spec, columns=tuple(column for column in spec.columns if column.name != "aggregated"))
        return row_details(spec, row, frame_columns=pane.frame.columns)

    def action_toggle_row_detail(self) -> None:
        """Details of the iteration under the cursor."""
        self._pane.action_toggle_detail()
