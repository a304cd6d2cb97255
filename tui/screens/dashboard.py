"""Dashboard: where the time went, at a glance; every panel is a door to the rows behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content

from tui.analysis.dashboard import Dashboard, dashboard
from tui.analysis.gpu_time.busy_over_time import busy_over_time
from tui.analysis.gpu_time.intervals import busy_time
from tui.analysis.issues import issues
from tui.analysis.layers import layer_totals
from tui.analysis.sessions import session_times
from tui.analysis.summaries import other_summaries
from tui.fmt import duration, format_value, metric, rate, size
from tui.model.columns import ColumnKind
from tui.query.write import equals_filter, quoted
from tui.screens.base import ViewScreen
from tui.text import plain
from tui.widgets.bar_list import BarList
from tui.widgets.bars import BarRow
from tui.widgets.busy_chart import BusyChart, BusyLane
from tui.widgets.details import sections
from tui.widgets.fact_strip import FactStrip
from tui.widgets.needs import needs_text
from tui.widgets.panel import Panel, TextPanel
from tui.widgets.stacked import StackedBar

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    from textual.widget import Widget

SESSION_ROWS: Final = 6
"""Sessions that the dashboard shows; the menu of sessions shows all."""
ISSUE_ROWS: Final = 3
"""Issues that the dashboard spells out; the view behind them shows all."""
ALL_SESSIONS: Final = "all"
"""The key of the line that opens the menu of sessions."""

UNKNOWN_KIND: Final = "unknown direction"


class DashboardScreen(ViewScreen):
    """Panels in one, two or three columns."""

    VIEW = "dashboard"
    AUTO_FOCUS = ""
    HELP: ClassVar = (
        "The profile at a glance. tab goes from panel to panel, j and k within one, enter to the rows behind a line.\n"
        "GPU time adds up all kernels, copies and sets; GPU busy counts time in which several ran at once only once.\n"
        "What the log does not hold is unknown, and the last panel says which command records it."
    )

    def compose_body(self) -> Iterable[Widget]:
        """The facts above, the charts in columns below."""
        with VerticalScroll(id="dashboard", can_focus=False):
            yield FactStrip(id="performance")
            yield BusyChart(id="busy")
            with Container(id="columns"):
                with Vertical(id="first"):
                    yield Panel("Sessions", BarList(id="sessions"), id="sessions-panel")
                    yield Panel("Top 10 GPU ops", BarList(id="ops"), id="ops-panel")
                    yield Panel("Top 10 kernels", BarList(id="kernels"))
                with Horizontal(id="others"):
                    with Vertical(id="second"):
                        yield Panel(
                            "GPU time by kind of work",
                            StackedBar(id="split-bar"),
                            BarList(id="split"),
                            id="split-panel",
                        )
                        yield Panel("API calls", BarList(id="api"), note="CPU time, overlaps GPU time")
                    with Vertical(id="third"):
                        yield Panel("Copies", BarList(id="copies"))
                        yield Panel("Layers", BarList(id="layers"))
                        yield Panel("As the tool says", BarList(id="tool-report"))
                        yield Panel("Input", BarList(id="input"))
                        yield TextPanel("System", id="system")
                        yield TextPanel("What this log cannot say", id="missing")

    def populate(self) -> None:
        """Fill every panel."""
        board = dashboard(self.profile, gpu=self.program.options.gpu)
        self.query_one(FactStrip).show(board.performance)
        self._show_busy()
        self._show_sessions()
        self._bars("ops", board.top_ops, label="op", key="op")
        self.query_one("#ops-panel", Panel).annotate(_ops_note(board))
        self.query_one("#split-panel", Panel).annotate("by op, else by kernel name" if board.ops_recorded else "")
        self._bars("kernels", board.top_kernels, label="name", key="name")
        self._bars("api", board.top_api, label="name", key="name")
        self._show_split(board)
        self._show_copies(board)
        self._show_layers()
        self._show_tool(board)
        self._show_doors(board)
        self.query_one("#first").display = any(panel.display for panel in self.query("#first Panel"))
        self.query_one("#second").display = any(panel.display for panel in self.query("#second Panel"))
        self.query_one("#system", TextPanel).show(sections([("", _system_text(board))]))
        self.query_one("#missing", TextPanel).show(needs_text(board.missing))
        self.query_one("#missing").display = bool(board.missing)
        if self.focused is None:
            first = next((bars for bars in self.query(BarList) if bars.rows and bars.display), None)
            if first is not None:
                first.focus(scroll_visible=False)

    def _bars(self, panel: str, rows: pl.DataFrame, *, label: str, key: str, parts: bool = False) -> None:
        """One line a row; its bar is as long as its time is to the largest.

        Args:
            panel: The id of the chart.
            rows: With the columns total_ns and time_pct.
            label: The column of the labels.
            key: The column of the keys.
            parts: The rows are the parts of the stacked bar above them.
        """
        most = rows["total_ns"].max()
        lines = [
            BarRow(
                str(row[key]),
                str(row[label]),
                _fraction(row["total_ns"], most),
                duration(row["total_ns"]),
                row["time_pct"],
                symbol=label == "name",
                part=place if parts else None,
            )
            for place, row in enumerate(rows.iter_rows(named=True))
        ]
        bars = self.query_one(f"#{panel}", BarList)
        bars.show(lines)
        _panel_of(bars).display = bool(lines)

    def _show_busy(self) -> None:
        """A lane for each GPU; sessions have clocks of their own, so there are none over several."""
        busy = busy_time(self.profile)
        if busy.is_empty() or self.profile["sessions"].height > 1:
            self.query_one(BusyChart).show([], 0)
            return
        profile, first, last = self.profile, busy["first_ns"].min(), busy["last_ns"].max()
        assert isinstance(first, int)
        assert isinstance(last, int)

        def lane(row: dict[str, Any]) -> BusyLane:
            def shares(bins: int) -> list[float]:
                found: list[float] = busy_over_time(
                    profile, session=row["session"], device=row["device"], first_ns=first, last_ns=last, bins=bins
                ).tolist()
                return found

            number = row["device"] if row["device"] is not None else "?"
            return BusyLane(f"GPU {number}", row["busy_pct"], shares)

        lanes = [lane(row) for row in busy.iter_rows(named=True)]
        self.query_one(BusyChart).show(lanes, last - first)

    def _show_sessions(self) -> None:
        whole = self.program.whole_profile
        panel = self.query_one("#sessions-panel")
        panel.display = whole is not None and whole["sessions"].height > 1 and self.program.session is None
        if whole is None or not panel.display:
            return
        times = session_times(whole)
        most = times["gpu_ns"].max()
        largest = times.sort("gpu_ns", descending=True, nulls_last=True, maintain_order=True).head(SESSION_ROWS)
        lines = [
            BarRow(
                str(row["session"]),
                " ".join(part for part in (str(row["session"]), row["rank_words"] or "", row["label"]) if part),
                _fraction(row["gpu_ns"], most),
                duration(row["gpu_ns"]) if row["gpu_ns"] is not None else str(row["holds"]).partition(",")[0],
            )
            for row in largest.sort("session").iter_rows(named=True)
        ]
        if times.height > len(lines):
            lines.append(BarRow(ALL_SESSIONS, f"and {times.height - len(lines)} shorter ones", None, "S lists all"))
        self.query_one("#sessions", BarList).show(lines)

    def _show_split(self, board: Dashboard) -> None:
        self.query_one(StackedBar).show([row or 0 for row in board.split["total_ns"].to_list()])
        self._bars("split", board.split, label="group", key="group", parts=True)

    def _show_copies(self, board: Dashboard) -> None:
        lines = []
        for row in board.copies.iter_rows(named=True):
            figures = [duration(row["total_ns"])]
            if row["size_bytes"] is not None:
                figures.insert(0, size(row["size_bytes"]))
            if row["throughput"] is not None:
                figures.append(rate(row["throughput"]))
            direction = row["copy_kind"] or UNKNOWN_KIND
            lines.append(
                BarRow(
                    direction,
                    f"{direction} ×{row['calls']:,}",
                    _fraction(row["total_ns"], board.copies["total_ns"].max()),
                    "  ".join(figures),
                )
            )
        bars = self.query_one("#copies", BarList)
        bars.show(lines)
        _panel_of(bars).display = bool(lines)

    def _show_layers(self) -> None:
        """The time of all layers by phase and executor; where it was predicted as well, that too."""
        totals = layer_totals(self.profile)
        most = max((value for value in totals["measured_ns"] if value is not None), default=None)
        lines = []
        for row in totals.iter_rows(named=True):
            known = row["measured_ns"] is not None
            figures = duration(row["measured_ns"]) if known else "not measured"
            if row["predicted_ns"] is not None:
                figures += f"  predicted {duration(row['predicted_ns'])}"
            key = " ".join(
                equals_filter(column, row[column], ColumnKind.TEXT) for column in ("phase", "executor") if row[column]
            )
            lines.append(
                BarRow(key, f"{row['phase']}, {row['executor']}", _fraction(row["measured_ns"], most), figures)
            )
        bars = self.query_one("#layers", BarList)
        bars.show(lines)
        _panel_of(bars).display = bool(lines)

    def _show_tool(self, board: Dashboard) -> None:
        """What the recording tool says itself: its figures, then its findings, apart from ours."""
        lines = []
        for row in board.tool_says.iter_rows(named=True):
            is_share = row["unit"] == "%" and row["tool_value"] is not None
            lines.append(
                BarRow(
                    "tool-report",
                    row["tool_name"] or "",
                    row["tool_value"] / 100 if is_share else None,
                    metric(row["tool_value"], row["unit"]) if row["tool_value"] is not None else "",
                )
            )
        if lines and board.tool_rows > len(lines):
            lines.append(BarRow("tool-report", f"and {board.tool_rows - len(lines):,} more", None, ""))
        bars = self.query_one("#tool-report", BarList)
        bars.show(lines)
        panel = _panel_of(bars)
        tools = ", ".join(board.tool_says["tool"].drop_nulls().unique(maintain_order=True).to_list())
        panel.border_title = Content(f"As {plain(tools)} says")
        panel.display = bool(lines)

    def _show_doors(self, board: Dashboard) -> None:
        counts = [f"{number} {severity}" for severity, number in board.issues.items() if number]
        lines = []
        if board.left_out:
            lines.append(BarRow("metrics", "replayed kernels are left out", None, "see System"))
        if counts:
            lines.append(BarRow("issues", "issues: " + ", ".join(counts), None, ""))
            # The gravest in words: where a log holds no times, they are what there is to know.
            lines += [
                BarRow(
                    "issues",
                    "  " + ": ".join(part for part in (row["reason"], row["text"]) if part),
                    None,
                    f"line {row['line']:,}" if row["line"] is not None else "",
                )
                for row in issues(self.profile).head(ISSUE_ROWS).iter_rows(named=True)
            ]
        if metrics := self.profile["metrics"].height:
            lines.append(BarRow("metrics", "metrics and events", None, f"{metrics:,} rows"))
        if others := other_summaries(self.profile).height:
            lines.append(BarRow("summaries", "other summaries", None, f"{others:,} rows"))
        lines += [
            BarRow("log", f"log: {source.rsplit('/', 1)[-1]}", None, f"{text.line_count:,} lines")
            for source, text in self.profile.texts.items()
        ][:1]
        doors = self.query_one("#input", BarList)
        doors.show(lines)
        _panel_of(doors).display = bool(lines)

    # --- doors -------------------------------------------------------------------------------------------------------

    @on(BarList.RowOpened)
    def _open(self, event: BarList.RowOpened) -> None:
        match event.bars.id:
            case "sessions":
                if event.key == ALL_SESSIONS:
                    self.program.action_sessions_menu()
                else:
                    self.program.choose_session(int(event.key))
            case "ops":
                self._go_filtered("ops-and-kernels", equals_filter("op", event.key, ColumnKind.TEXT))
            case "split":
                rest = event.key == "rest"
                # A recorded op can do several kinds of work.
                has = f"group:{quoted(event.key)}"
                self._go_filtered("ops-and-kernels", "" if rest else has)
            case "kernels":
                self._go_filtered("kernels", equals_filter("name", event.key, ColumnKind.SYMBOL))
            case "api":
                self._go_filtered("api-calls", equals_filter("name", event.key, ColumnKind.SYMBOL))
            case "layers":
                self._go_filtered("layers", event.key)
            case "copies":
                known = event.key != UNKNOWN_KIND
                self._go_filtered("kernels", f"kind=memcpy {event.key}" if known else "kind=memcpy")
            case _:
                self.program.go(event.key)

    def _go_filtered(self, view: str, text: str) -> None:
        self.program.go(view, lambda screen: screen.filter_table(text))

    @on(FactStrip.Opened)
    def _open_fact(self, event: FactStrip.Opened) -> None:
        match event.fact.name:
            case "api_ns" | "api_calls":
                self._go_filtered("api-calls", "")
            case "tc_efficiency_pct" | "tc_share_pct":
                self._go_filtered("kernels", "kind=kernel uses_tensor_core=yes")
            case "tc_unknown_pct":
                self._go_filtered("kernels", "kind=kernel uses_tensor_core=?")
            case "kernel_ns" | "launches" | "kernels":
                self._go_filtered("kernels", "kind=kernel")
            case "memcpy_ns":
                self._go_filtered("kernels", "kind=memcpy")
            case "memset_ns":
                self._go_filtered("kernels", "kind=memset")
            case _:
                self._go_filtered("kernels", "")


def _panel_of(widget: Widget) -> Panel:
    panel = widget.parent
    assert isinstance(panel, Panel)
    return panel


def _ops_note(board: Dashboard) -> str:
    """Where the ops are from."""
    if not board.ops_recorded:
        return "inferred from kernel names"
    if not board.ops_inferred:
        return "recorded, GPU self time"
    return f"recorded in {board.ops_recorded} of {board.ops_recorded + board.ops_inferred} sessions"


def _fraction(value: float | None, most: object) -> float | None:
    return value / most if value is not None and isinstance(most, int | float) and most else None


def _system_text(board: Dashboard) -> list[tuple[str, str, str]]:
    """Labels and values of the system, the GPUs first."""
    lines = []
    for row in board.devices.iter_rows(named=True):
        facts = []
        if row["compute_capability"]:
            facts.append(f"cc {row['compute_capability']}")
        if row["sm_count"]:
            facts.append(f"{row['sm_count']} SMs")
        if row["facts_source"] == "table":
            facts.append("by its name")
        lines.append(
            (f"GPU {row['device'] if row['device'] is not None else '?'}", row["name"] or "unknown", ", ".join(facts))
        )
    lines += [(fact.label, format_value(fact.kind, fact.value), "") for fact in board.system]
    if board.left_out:
        lines.append(("Left out", board.left_out, ""))
    return list(dict.fromkeys(lines))
