"""The screen of the dashboard and its panels, which are computed in a thread."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.events import DescendantFocus
from textual.worker import get_current_worker

from tui.analysis.dashboard import ORDERS, DashboardParts, dashboard_parts, iteration_spreads
from tui.analysis.dashboard_facts import definition
from tui.analysis.gpu_time.breakdown import busy_over_time, utilization, wall_bounds
from tui.analysis.sessions import replayed_sessions, without_sessions
from tui.keys import Scope, bindings_for
from tui.screens.base import ViewBody, ViewScreen
from tui.screens.dashboard import entries as input_entries
from tui.screens.dashboard import panel_entries
from tui.screens.dashboard.entries import Link, fact_link
from tui.screens.dashboard.panels import ChartPanel, Guidance, StatPanel, StatStrip
from tui.text import plain
from tui.widgets.charts.bar_list import BarList, SortableBarList
from tui.widgets.charts.bars import BusyChart, BusyLane
from tui.widgets.charts.iteration_chart import TimesChart
from tui.widgets.details import DetailPane
from tui.widgets.input_bars import KeysReady
from tui.widgets.panel import Columns, EdgePassed, Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import polars as pl
    from textual.app import ComposeResult
    from textual.events import ScreenResume
    from textual.widget import Widget

    from tui.analysis.dashboard import Advice, Dashboard, IterationCourse
    from tui.analysis.dashboard_facts import Fact
    from tui.model.profile import Profile
    from tui.screens.dashboard.entries import Entry
    from tui.state.notes import RowPlace


LINE_KEYS: Final = frozenset(
    key
    for binding in (*StatStrip.BINDINGS, *SortableBarList.BINDINGS)
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
)
"""Keys that act on the selected line or move the selection."""


class DashboardPanels(ViewBody):
    """Panels in one, two or three columns, filled from a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.board: Dashboard | None = None
        """The figures; None until they are computed."""
        self._request = 0
        self._is_computing = True
        """Whether some panels are still being computed."""
        self._courses: Sequence[IterationCourse] = ()
        """The iterations of each session."""
        self._has_uses = False
        """Whether the uses of the iterations have been computed."""

    def compose(self) -> ComposeResult:
        """Yield the findings, then all other panels in columns, the most informative first."""
        with VerticalScroll(id="dashboard", can_focus=False):
            yield ChartPanel("Expert Systems", "findings", id="findings-panel", above=Guidance())
            with Columns(id="columns"):
                yield ChartPanel("Sessions", "sessions", id="sessions-panel")
                yield ChartPanel("GPU memory", "", id="memory-panel")
                yield ChartPanel("Resource usage", "breakdown", stacked=True, id="wall-panel")
                yield StatPanel("Performance summary", id="performance-panel")
                yield ChartPanel("Top 10 GPU ops", "top_ops", sortable=True, id="ops-panel")
                yield ChartPanel("Iterations", "iteration_times", id="iterations-panel", above=TimesChart())
                yield ChartPanel("Total GPU time", "gpu_uses", stacked=True, id="uses-panel")
                yield ChartPanel("Tensor cores", "tc_efficiency_pct", id="tensor-cores-panel")
                yield ChartPanel("GPU utilization", "busy_pct", id="utilization-panel", below=BusyChart(id="busy"))
                yield ChartPanel("Top 10 kernels", "top_kernels", sortable=True, id="kernels-panel")
                yield ChartPanel("Longest idle gaps", "gaps", id="gaps-panel")
                yield ChartPanel("GPU time by kind of work", "split", stacked=True, id="split-panel")
                yield ChartPanel("Copies", "copies", id="copies-panel")
                yield ChartPanel("API calls", "top_api", id="api-panel")
                yield ChartPanel("Layers", "layers", id="layers-panel")
                yield ChartPanel("Recording tool", "tool_headlines", id="tool-report-panel")
                yield ChartPanel("Input", "", id="input-panel")
                yield ChartPanel("System", "", id="system-panel", as_text=True)
                yield ChartPanel("Not recorded in this profile", "", id="missing-panel", as_text=True)

    def populate(self) -> None:
        """Compute all panels; placeholders are shown until then."""
        self._request += 1
        self.board = None
        self._is_computing = True
        for panel in self.query(ChartPanel):
            panel.fill([])
        for panel_id, lines in (("findings", 5), ("wall", 7), ("ops", 10)):
            self._panel(panel_id).wait(lines)
        self.query_one(StatPanel).wait()
        if self.screen.focused is None:
            self._panel("findings").bars.focus(scroll_visible=False)
        compute = partial(self._compute, self._request, self.view.profile)
        self.run_worker(compute, thread=True, exclusive=True, group="dashboard")

    def _compute(self, request: int, profile: Profile) -> None:
        """Compute one part after another, the quick ones first, and show each when it is ready."""
        show_functions = DashboardParts(
            board=self._show_board,
            courses=lambda courses: self._show_iterations(courses, has_uses=False),
            busy=lambda _: self._show_busy(profile),
            wall=self._show_wall,
            gaps=self._show_gaps,
            advice=self._show_advice,
            uses=self._show_iterations,
        )
        worker = get_current_worker()
        for show, result in zip(show_functions, dashboard_parts(profile), strict=True):
            if worker.is_cancelled:
                return
            self.app.call_from_thread(self._show_part, request, show, result)

    def _show_part(self, request: int, show: Callable[[Any], None], result: Any) -> None:
        # The session or the profile may have changed meanwhile.
        if request == self._request and self.is_attached:
            show(result)

    def _panel(self, name: str) -> ChartPanel:
        return self.query_one(f"#{name}-panel", ChartPanel)

    @property
    def _has_several_sessions(self) -> bool:
        return self.view.profile["sessions"].height > 1

    def _show_board(self, board: Dashboard) -> None:
        self.board = board
        if self._has_several_sessions and self.view.explorer.profile_session.session is None:
            self._panel("sessions").fill(input_entries.session_entries(self.view.profile), subtitle="GPU time")
        self.query_one(StatPanel).show(board.performance)
        self.show_top("ops", board, ORDERS[0])
        self.show_top("kernels", board, ORDERS[0])
        self._panel("uses").fill(panel_entries.use_entries(board))
        self._panel("tensor-cores").fill(
            panel_entries.tensor_core_entries(board), subtitle=panel_entries.tensor_core_subtitle(board)
        )
        self._panel("utilization").fill(
            panel_entries.utilization_entries(board.devices, several_sessions=self._has_several_sessions),
            subtitle="of each session's wall time" if self._has_several_sessions else "of the wall time",
        )
        self._panel("split").fill(
            panel_entries.split_entries(board),
            subtitle="by op, else by kernel name" if board.ops_recorded else "by kernel name",
        )
        self._panel("copies").fill(panel_entries.copy_entries(board))
        counted = panel_entries.counted_subtitle("calls", ORDERS[0])
        self._panel("api").fill(panel_entries.api_entries(board), subtitle=f"CPU time, overlaps GPU time, {counted}")
        self._panel("memory").fill(input_entries.memory_entries(self.view.profile))
        self._panel("layers").fill(
            input_entries.layer_entries(self.view.profile), subtitle=input_entries.layers_subtitle(self.view.profile)
        )
        self._show_tool(board)
        self._panel("input").fill(input_entries.input_entries(board, self.view.profile))
        self._show_texts(board)
        self._keep_focus()

    def show_top(self, name: str, board: Dashboard, order: str) -> None:
        """Show the top ops or kernels in an order."""
        if name == "ops":
            entries = panel_entries.op_entries(board, order)
            subtitle = panel_entries.ops_subtitle(board, order)
        else:
            entries = panel_entries.kernel_entries(board, order)
            subtitle = panel_entries.counted_subtitle("launches", order)
        self._panel(name).fill(entries, subtitle=subtitle)

    def _show_tool(self, board: Dashboard) -> None:
        panel = self._panel("tool-report")
        panel.fill(input_entries.tool_entries(board))
        tools = ", ".join(board.tool_headlines["tool"].drop_nulls().unique(maintain_order=True).to_list())
        panel.change_title(f"Reported by {plain(tools)}")

    def _show_texts(self, board: Dashboard) -> None:
        self._panel("system").fill_texts(*input_entries.system_entries(board))
        self._show_missing(frozenset())

    def _show_missing(self, reasons: Collection[str]) -> None:
        if self.board is not None:
            self._panel("missing").fill_texts(*input_entries.need_entries(self.board.missing, reasons))

    def _show_iterations(self, courses: Sequence[IterationCourse], *, has_uses: bool = True) -> None:
        panel = self._panel("iterations")
        panel.fill(panel_entries.iteration_entries(courses))
        self._courses, self._has_uses = courses, has_uses
        session = panel.current.values.get("session") if panel.current is not None else None
        selected = [course for course in courses if course.session == session]
        self._draw_iterations(next(iter([*selected, *courses]), None))

    @on(ChartPanel.Highlighted)
    def _session_highlighted(self, event: ChartPanel.Highlighted) -> None:
        """Draw the iterations of the session under the cursor."""
        if event.panel is self._panel("iterations") and len(self._courses) > 1:
            session = event.entry.values["session"]
            self._draw_iterations(next(course for course in self._courses if course.session == session))

    def _draw_iterations(self, course: IterationCourse | None) -> None:
        self._panel("iterations").change_subtitle(panel_entries.iteration_subtitle(self._courses, course))
        self.query_one(TimesChart).show(course.times if course is not None else None, has_uses=self._has_uses)

    def _show_busy(self, profile: Profile) -> None:
        """Show a lane for each GPU of one session; clocks of several sessions differ."""
        busy = utilization(profile)
        chart = self.query_one(BusyChart)
        if busy.is_empty() or self._has_several_sessions:
            chart.show([], 0)
            return
        start_ns, end_ns = wall_bounds(profile)[busy["session"][0]]

        def lane(row: dict[str, Any]) -> BusyLane:
            def shares(bins: int) -> list[float]:
                fractions: list[float] = busy_over_time(
                    profile, session=row["session"], device=row["device"], first_ns=start_ns, last_ns=end_ns, bins=bins
                ).tolist()
                return fractions

            return BusyLane(f"GPU {row['device'] if row['device'] is not None else '?'}", row["busy_pct"], shares)

        chart.show([lane(row) for row in busy.iter_rows(named=True)], end_ns - start_ns)

    def _show_wall(self, rows: pl.DataFrame) -> None:
        panel = self._panel("wall")
        if rows["session"].n_unique() > 1:
            panel.fill(panel_entries.wall_of_sessions(rows, self.view.profile), subtitle="of each session's wall time")
        else:
            panel.fill(
                panel_entries.wall_entries(rows, self.view.profile),
                subtitle=panel_entries.wall_subtitle(rows),
            )
        self._keep_focus()

    def _show_gaps(self, rows: pl.DataFrame) -> None:
        self._panel("gaps").fill(
            panel_entries.gap_entries(rows, has_several_sessions=self._has_several_sessions),
            subtitle=panel_entries.gaps_subtitle(rows),
        )

    def _show_advice(self, advice: Advice | str) -> None:
        panel, guidance = self._panel("findings"), self.query_one(Guidance)
        if isinstance(advice, str):
            panel.fill([])
            guidance_text = advice
        else:
            entries = panel_entries.finding_entries(advice)
            panel.fill(entries, subtitle=panel_entries.findings_subtitle(advice))
            guidance_text = advice.guidance
            is_available = self.view.explorer.navigator.availability.get("expert-systems", "ok") == "ok"
            self._show_missing(advice.reasons if is_available else ())
        guidance.show(guidance_text)
        panel.display = bool(guidance_text or panel.entries)
        self._keep_focus()
        self._finish()

    def _keep_focus(self) -> None:
        """Focus the first chart with lines, if the focused panel is hidden or empty."""
        focused = self.screen.focused
        if focused is None or (isinstance(focused, BarList) and not (focused.rows or focused.is_waiting)):
            bars = next((p.bars for p in self.query(ChartPanel) if p.entries and p.display), None)
            if bars is not None:
                bars.focus(scroll_visible=False)
        self.app.post_message(KeysReady())

    def must_wait(self, key: str) -> bool:
        """Return whether a key is for lines of a panel that is still empty."""
        focused = self.screen.focused
        has_no_lines = focused is None or (isinstance(focused, BarList | StatStrip) and not focused.has_lines)
        return self._is_computing and has_no_lines and key in LINE_KEYS

    def show_failure(self, text: str) -> None:
        """Release keys that wait for lines that could not be computed."""
        self._finish()

    def _finish(self) -> None:
        self._is_computing = False
        self.app.post_message(KeysReady())


class DashboardScreen(ViewScreen):
    """The dashboard: lines are links, have details, and can be sorted in several orders."""

    VIEW = "dashboard"
    AUTO_FOCUS = ""
    HELP: ClassVar = (
        "The profile at a glance. j and k move by line, tab by panel; enter opens the rows behind a line.\ni "
        "explains a metric and how it is computed. s sorts the top ops and kernels by time, calls or average.\nThe "
        "last panel lists data that this profile lacks, with the commands that record it."
    )

    BINDINGS: ClassVar = [
        replace(binding, show=True, description="next panel")
        for binding in bindings_for(Scope.APP)
        if isinstance(binding, Binding) and binding.id == "app.next-pane"
    ] + [binding for binding in bindings_for(Scope.APP) if getattr(binding, "id", "") == "app.write-note"]

    def make_body(self) -> DashboardPanels:
        """Return the panels."""
        return DashboardPanels()

    @property
    def panels(self) -> DashboardPanels:
        """The panels."""
        return self.query_one(DashboardPanels)

    def must_wait(self, key: str) -> bool:
        """Return whether a key is for lines that have not been computed yet."""
        panels = self.query(DashboardPanels)
        return panels.first().must_wait(key) if panels else key in LINE_KEYS

    def links(self) -> list[Link]:
        """Return every link on the dashboard."""
        entries = [entry.link for panel in self.query(ChartPanel) if panel.display for entry in panel.entries]
        facts = [self._fact_link(fact) for fact in self.query_one(StatPanel).facts]
        return [link for link in (*entries, *facts) if link is not None]

    @on(EdgePassed)
    def _move_to_next_panel(self, event: EdgePassed) -> None:
        panels = [widget for widget in self.focus_chain if isinstance(widget, BarList | StatStrip)]
        index = next((index for index, panel in enumerate(panels) if panel is self.focused), None)
        if index is None or not 0 <= index + event.step < len(panels):
            return
        panel = panels[index + event.step]
        panel.focus()
        if event.step > 0:
            panel.action_cursor_top()
        else:
            panel.action_cursor_bottom()

    @on(ChartPanel.Opened)
    def _open(self, event: ChartPanel.Opened) -> None:
        if event.entry.link is None:
            self.explorer.say("No rows behind this line. i explains it.")
        else:
            event.entry.link.go(self.explorer)

    @on(StatPanel.Opened)
    def _open_fact(self, event: StatPanel.Opened) -> None:
        self._fact_link(event.fact).go(self.explorer)

    def _fact_link(self, fact: Fact) -> Link:
        board = self.panels.board
        facts = board.performance if board is not None else ()
        omitted = replayed_sessions(self.profile)
        # If several sessions have iterations, the figures are not those of a single session.
        sessions = iteration_spreads(without_sessions(self.profile, omitted))["session"]
        return fact_link(
            fact, facts, omitted_sessions=omitted, iterated_session=sessions[0] if len(sessions) == 1 else None
        )

    @on(ChartPanel.SortRequested)
    def _sort(self, event: ChartPanel.SortRequested) -> None:
        board = self.panels.board
        if board is not None:
            name = (event.panel.id or "").removesuffix("-panel")
            self.panels.show_top(name, board, event.panel.next_order(ORDERS))

    @on(ChartPanel.DetailRequested)
    @on(StatPanel.DetailRequested)
    def _toggle_details(self, event: ChartPanel.DetailRequested | StatPanel.DetailRequested) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
        else:
            self._details_widget = self.focused
            detail.open(event.details)

    @on(ChartPanel.Highlighted)
    @on(StatPanel.Highlighted)
    def _follow(self, event: ChartPanel.Highlighted | StatPanel.Highlighted) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(event.details)

    @on(DescendantFocus)
    def _follow_to_panel(self) -> None:
        detail = self.query_one(DetailPane)
        panel = next(
            (candidate for candidate in self.query("ChartPanel, StatPanel") if candidate.has_focus_within), None
        )
        if detail.is_open and isinstance(panel, ChartPanel | StatPanel) and panel.details is not None:
            self._details_widget = self.focused
            detail.show(panel.details)

    _details_widget: Widget | None = None
    """The widget with the line that the details describe."""

    def leave_level(self) -> bool:
        """Close the details, and return to their line."""
        closed = super().leave_level()
        if closed and self._details_widget is not None and self._details_widget.focusable:
            self._details_widget.focus()
        return closed

    def on_detail_pane_uncovered(self) -> None:
        """Return to the line of the details."""
        if self._details_widget is not None and self._details_widget.focusable:
            self._details_widget.focus()

    # --- notes -------------------------------------------------------------------------------------------------------

    def action_write_note(self) -> None:
        """Ask for a note on the focused panel."""
        panel = next((panel for panel in self.query(Panel) if panel.has_focus_within), None)
        if panel is None:
            self.explorer.action_write_note()
        else:
            self.explorer.notes.write_note(self._note_place(panel), panel.title)

    def _note_place(self, panel: Panel) -> RowPlace:
        return self.explorer.notes.place_of_item("panels", (panel.id,), self.VIEW)

    def show_item(self, _kind: str, key: Sequence[object]) -> None:
        """Go to the panel of a note."""
        for panel in self.query(Panel):
            lines = next(iter(panel.query("BarList, StatStrip")), None)
            if panel.id == key[0] and panel.display and lines is not None:
                lines.focus()
                return
        self.explorer.say("This profile does not have that panel.", severity="warning")

    def show_details_again(self) -> None:
        """Update the notes on panels."""
        super().show_details_again()
        self._show_notes()

    def populate(self) -> None:
        """Compute everything; notes on panels are shown at once."""
        super().populate()
        self._show_notes()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Update the notes on panels, which may have changed in another view."""
        if self.has_widgets:
            self._show_notes()

    def _show_notes(self) -> None:
        for panel in self.query(Panel):
            note = self.explorer.notes.note_at(self._note_place(panel))
            panel.show_note(note.text.splitlines()[0] if note is not None else "")

    def focused_figures(self) -> list[str]:
        """Return the names of the focused figures, for the help."""
        focused = self.focused
        for panel in self.query(ChartPanel):
            if panel.bars is focused and panel.metric:
                entry: Entry | None = panel.current
                entry_metric = [entry.metric] if entry is not None and entry.metric else []
                return list(dict.fromkeys([*entry_metric, panel.metric]))
        fact = self.query_one(StatPanel).current
        return [fact.name] if self.query_one(StatPanel).has_focus_within and fact is not None else []

    def help_entries(self) -> list[tuple[str, str]]:
        """Return the meaning of the figure under the cursor."""
        return [
            entry
            for figure in map(definition, self.focused_figures())
            for entry in (
                (figure.title, figure.means),
                ("", f"= {figure.formula}"),
                ("", f"{f'{figure.unit}; ' if figure.unit else ''}{figure.source}"),
            )
        ]
