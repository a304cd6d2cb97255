"""The panels of the dashboard, and how they are filled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.worker import get_current_worker

from tui.analysis.dashboard import ORDERS
from tui.analysis.dashboard_parts import DashboardParts, parts
from tui.analysis.gpu_time.breakdown import utilization, wall_bounds
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.gpu_time.utilization_over_time import busy_over_time
from tui.screens.base import ViewBody
from tui.screens.dashboard import input_entries as of_input
from tui.screens.dashboard import time_entries as of_time
from tui.screens.dashboard import work_entries as of_work
from tui.screens.dashboard.panels import ChartPanel, Guidance, StatPanel
from tui.text import plain
from tui.widgets.charts.bar_list import BarList, SortableBarList
from tui.widgets.charts.iteration_overview import TimesChart
from tui.widgets.charts.sparkline import BusyChart, BusyLane
from tui.widgets.panel import Columns
from tui.widgets.stat_strip import StatStrip
from tui.widgets.text_input import KeysReady

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import polars as pl
    from textual.app import ComposeResult

    from tui.analysis.dashboard import Dashboard
    from tui.analysis.dashboard_parts import Advice, IterationCourse
    from tui.model.profile import Profile


KEYS_OF_LINES: Final = frozenset(
    key
    for binding in (*StatStrip.BINDINGS, *SortableBarList.BINDINGS)
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
)
"""What does something with the line under the cursor, or goes to another one."""


class DashboardPanels(ViewBody):
    """Panels in one, two or three columns; what takes a while is filled in from a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.board: Dashboard | None = None
        """The figures, once they are there."""
        self._request = 0
        self._is_computing = True
        """Some of it is still being computed."""
        self._courses: Sequence[IterationCourse] = ()
        """The iterations of each session."""
        self._are_uses_known = False
        """Whether it is computed what the iterations were used for."""

    def compose(self) -> ComposeResult:
        """Findings above, all else in columns, the most informative first."""
        with VerticalScroll(id="dashboard", can_focus=False):
            yield ChartPanel("Expert Systems", "findings", id="findings-panel", above=Guidance())
            with Columns(id="columns"):
                yield ChartPanel("Sessions", "sessions", id="sessions-panel")
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
                yield ChartPanel("As the tool says", "tool_headlines", id="tool-report-panel")
                yield ChartPanel("Input", "", id="input-panel")
                yield ChartPanel("System", "", id="system-panel", as_text=True)
                yield ChartPanel("Not recorded in this profile", "", id="missing-panel", as_text=True)

    def populate(self) -> None:
        """Have everything computed; until it is there, a sign stands in its place."""
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
        compute = partial(self._compute, self._request, self.view.profile, self.view.explorer.options.gpu)
        self.run_worker(compute, thread=True, exclusive=True, group="dashboard")

    def _compute(self, request: int, profile: Profile, gpu: str | None) -> None:
        """Compute one part after another, the quick ones first; each is shown as soon as it is there."""
        shows = DashboardParts(
            board=self._show_board,
            courses=lambda courses: self._show_iterations(courses, is_all=False),
            busy=lambda _: self._show_busy(profile),
            wall=self._show_wall,
            gaps=self._show_gaps,
            advice=self._show_advice,
            uses=self._show_iterations,
        )
        worker = get_current_worker()
        for show, made in zip(shows, parts(profile, gpu=gpu), strict=True):
            if worker.is_cancelled:
                return
            self.app.call_from_thread(self._take, request, show, made)

    def _take(self, request: int, show: Callable[[Any], None], made: Any) -> None:
        # Another session may have been chosen, or the file read again, in the meantime.
        if request == self._request and self.is_attached:
            show(made)

    def _panel(self, name: str) -> ChartPanel:
        return self.query_one(f"#{name}-panel", ChartPanel)

    @property
    def _several(self) -> bool:
        return self.view.profile["sessions"].height > 1

    def _show_board(self, board: Dashboard) -> None:
        self.board = board
        whole = self.view.explorer.profile_session.whole_profile
        if whole is not None and whole["sessions"].height > 1 and self.view.explorer.profile_session.session is None:
            self._panel("sessions").fill(of_input.session_entries(whole), note="GPU time")
        self.query_one(StatPanel).show(board.performance)
        self.show_top("ops", board, ORDERS[0])
        self.show_top("kernels", board, ORDERS[0])
        self._panel("uses").fill(of_work.use_entries(board))
        self._panel("tensor-cores").fill(of_work.tensor_core_entries(board), note=of_work.tensor_core_note(board))
        self._panel("utilization").fill(
            of_time.utilization_entries(board.devices, several_sessions=self._several),
            note="of each session's wall time" if self._several else "of the wall time",
        )
        self._panel("split").fill(
            of_work.split_entries(board),
            note="by op, else by kernel name" if board.ops_recorded else "by kernel name",
        )
        self._panel("copies").fill(of_work.copy_entries(board))
        counted = of_work.counted_note("calls", ORDERS[0])
        self._panel("api").fill(of_work.api_entries(board), note=f"CPU time, overlaps GPU time, {counted}")
        self._panel("layers").fill(
            of_input.layer_entries(self.view.profile), note=of_input.layers_note(self.view.profile)
        )
        self._show_tool(board)
        self._panel("input").fill(of_input.input_entries(board, self.view.profile))
        self._show_texts(board)
        self._keep_focus()

    def show_top(self, name: str, board: Dashboard, order: str) -> None:
        """The top ops or kernels in an order."""
        if name == "ops":
            entries = of_work.op_entries(board, order)
            note = of_work.ops_note(board, order)
        else:
            entries = of_work.kernel_entries(board, order)
            note = of_work.counted_note("launches", order)
        self._panel(name).fill(entries, note=note)

    def _show_tool(self, board: Dashboard) -> None:
        panel = self._panel("tool-report")
        panel.fill(of_input.tool_entries(board))
        tools = ", ".join(board.tool_headlines["tool"].drop_nulls().unique(maintain_order=True).to_list())
        panel.retitle(f"As {plain(tools)} says")

    def _show_texts(self, board: Dashboard) -> None:
        self._panel("system").fill_texts(*of_input.system_entries(board))
        self._show_missing(frozenset())

    def _show_missing(self, reasons: Collection[str]) -> None:
        if self.board is not None:
            self._panel("missing").fill_texts(*of_input.need_entries(self.board.missing, reasons))

    def _show_iterations(self, courses: Sequence[IterationCourse], *, is_all: bool = True) -> None:
        panel = self._panel("iterations")
        panel.fill(of_time.iteration_entries(courses))
        self._courses, self._are_uses_known = courses, is_all
        session = panel.current.values.get("session") if panel.current is not None else None
        here = [course for course in courses if course.session == session]
        self._draw_iterations(next(iter([*here, *courses]), None))

    @on(ChartPanel.Highlighted)
    def _session_highlighted(self, event: ChartPanel.Highlighted) -> None:
        """Draw the iterations of the session under the cursor."""
        if event.panel is self._panel("iterations") and len(self._courses) > 1:
            session = event.entry.values["session"]
            self._draw_iterations(next(course for course in self._courses if course.session == session))

    def _draw_iterations(self, course: IterationCourse | None) -> None:
        self._panel("iterations").annotate(of_time.iteration_note(self._courses, course))
        self.query_one(TimesChart).show(course.times if course is not None else None, is_all=self._are_uses_known)

    def _show_busy(self, profile: Profile) -> None:
        """A lane for each GPU; sessions have clocks of their own, so there are none over several."""
        busy = busy_time(profile)
        chart = self.query_one(BusyChart)
        if busy.is_empty() or self._several:
            chart.show([], 0)
            return
        # Over the wall time, which the share in front of the lane is of.
        first, last = wall_bounds(profile)[busy["session"][0]]
        busy = busy.update(utilization(profile), on=["session", "device"])

        def lane(row: dict[str, Any]) -> BusyLane:
            def shares(bins: int) -> list[float]:
                found: list[float] = busy_over_time(
                    profile, session=row["session"], device=row["device"], first_ns=first, last_ns=last, bins=bins
                ).tolist()
                return found

            return BusyLane(f"GPU {row['device'] if row['device'] is not None else '?'}", row["busy_pct"], shares)

        chart.show([lane(row) for row in busy.iter_rows(named=True)], last - first)

    def _show_wall(self, rows: pl.DataFrame) -> None:
        panel = self._panel("wall")
        if rows["session"].n_unique() > 1:
            panel.fill(of_time.wall_of_sessions(rows, self.view.profile), note="of each session's wall time")
        else:
            panel.fill(
                of_time.wall_entries(rows, self.view.profile),
                note=of_time.wall_note(rows),
            )
        self._keep_focus()

    def _show_gaps(self, rows: pl.DataFrame) -> None:
        self._panel("gaps").fill(
            of_time.gap_entries(rows, several=self._several),
            note=of_time.gaps_note(rows),
        )

    def _show_advice(self, found: Advice | str) -> None:
        panel, guidance = self._panel("findings"), self.query_one(Guidance)
        if isinstance(found, str):
            panel.fill([])
            words = found
        else:
            entries = of_time.finding_entries(found, several=self._several)
            panel.fill(entries, note=found.summary)
            words = found.guidance
            there = self.view.explorer.navigator.availability.get("expert-systems", "ok") == "ok"
            self._show_missing(found.reasons if there else ())
        guidance.show(words)
        panel.display = bool(words or panel.entries)
        self._keep_focus()
        self._is_filled()

    def _keep_focus(self) -> None:
        """Where what had the focus has gone away, or has no lines, the first chart with lines has it."""
        focused = self.screen.focused
        if focused is None or (isinstance(focused, BarList) and not (focused.rows or focused.is_waiting)):
            first = next((p.bars for p in self.query(ChartPanel) if p.entries and p.display), None)
            if first is not None:
                first.focus(scroll_visible=False)
        self.app.post_message(KeysReady())

    def has_to_wait(self, key: str) -> bool:
        """Whether a key is for lines, and what has the focus has none yet."""
        focused = self.screen.focused
        is_empty = focused is None or (isinstance(focused, BarList | StatStrip) and not focused.has_lines)
        return self._is_computing and is_empty and key in KEYS_OF_LINES

    def show_failure(self, words: str) -> None:
        """No key waits for what does not come."""
        self._is_filled()

    def _is_filled(self) -> None:
        self._is_computing = False
        self.app.post_message(KeysReady())
