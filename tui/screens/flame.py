"""Flame: GPU time to scale, by group, op and kernel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from tui.analysis.ops.flame import GROUPINGS, KERNEL, FlameGrouping, flame_by, matching_nodes, with_growth
from tui.analysis.ops.op_attribution import training_sessions
from tui.fmt import brief_duration, brief_percent
from tui.model.columns import ColumnKind
from tui.query.parse import equals_filter
from tui.screens.base import WORKING, ViewScreen
from tui.screens.group_ops import GroupedView, GroupingChoice
from tui.screens.help import LEGEND
from tui.screens.kernels import no_kernels
from tui.text import plain, plural
from tui.text_width import clip
from tui.widgets.app_services import services_of
from tui.widgets.charts.bars import kind_style
from tui.widgets.charts.flame import FlameChart
from tui.widgets.header_footer import TabBar
from tui.widgets.input_bars import FindBar
from tui.widgets.panel import NoteLine

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    from textual.widget import Widget

    from tui.analysis.ops.op_trees import TreeGrouping
    from tui.model.profile import Profile


BACKWARD: Final = "Backward ops are under the name of their forward op."


SHORT_NAMES: Final = {
    "tensor": "TC kernel",
    "other": "kernel",
    "unknown": "kernel, TC unknown",
    "memory": "memcpy",
    "memset": "memset",
    "communication": "comm",
}
"""Kinds of work in the legend, where there is little room."""


class FlameScreen(GroupedView[FlameGrouping], ViewScreen):
    """The flame chart, two lines about the node under the cursor, and a search bar."""

    VIEW = "flame"
    HELP: ClassVar = (
        "GPU time to scale: the total at the top, then groups, ops and kernels. Width is time.\n, and . change the "
        "grouping, enter zooms in, _ zooms out. / highlights a name and shows its share.\nThe sums match Group "
        "Ops: by module, backward ops count where their forward op ran. c colors changes against the baseline of "
        "the comparison (d)."
    )

    def __init__(self) -> None:
        super().__init__()
        self._groupings = GroupingChoice(self, GROUPINGS)
        self.compares = False
        """Whether growth against the comparison is colored."""
        self._text = ""

    def compose_body(self) -> Iterable[Widget]:
        """Yield the groupings, the chart, its legend, and two lines on the node under the cursor and the search."""
        yield TabBar([grouping.title.removeprefix("by ") for grouping in GROUPINGS], id="groupings")
        yield NoteLine(id="comparing")
        yield FlameChart(id="chart")
        yield Static(id="legend")
        yield Static(id="node")
        yield Static(id="found")
        yield FindBar()

    @property
    def chart(self) -> FlameChart:
        """The chart."""
        return self.query_one(FlameChart)

    @property
    def grouping(self) -> TreeGrouping:
        """The current grouping."""
        return self._groupings.current

    def populate(self) -> None:
        """Fill the chart."""
        grouping = self.grouping
        self._groupings.show(self.query_one("#groupings", TabBar))
        self.query_one("#comparing", NoteLine).show(WORKING)
        self.run_worker(partial(self._compute_rows, self.profile, grouping), thread=True, exclusive=True, group="flame")
        self.focus_table()

    def _compute_rows(self, profile: Profile, grouping: TreeGrouping) -> None:
        worker = get_current_worker()
        rows, note = self._rows(profile, grouping)
        empty = no_kernels(profile) if rows.is_empty() else ""
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_computed, profile, rows, note, empty)

    def _show_computed(self, profile: Profile, rows: pl.DataFrame, note: str, empty: str) -> None:
        if self.is_attached and profile is self.profile:
            self.query_one("#comparing", NoteLine).show(note)
            self.chart.show(rows, empty)
            self._find(self._text)

    def _rows(self, profile: Profile, grouping: TreeGrouping) -> tuple[pl.DataFrame, str]:
        sides = self.explorer.comparison.sides
        if not self.compares or sides is None:
            is_training = grouping.name == "module" and len(training_sessions(profile)) > 0
            return flame_by(profile, grouping.name), BACKWARD if is_training else ""
        for side in (sides.a, sides.b):
            if reason := grouping.unavailable_reason(side.profile):
                return flame_by(profile, grouping.name), f"Not compared: {reason} in {side.label}."
        counts = sides.a.count, sides.b.count
        if sides.per_iteration and None in counts:
            return flame_by(profile, grouping.name), "Not compared: sessions have different numbers of iterations."
        iterations = (sides.b.count or 1, sides.a.count or 1) if sides.per_iteration else (1, 1)
        rows = with_growth(
            flame_by(sides.b.profile, grouping.name), flame_by(sides.a.profile, grouping.name), iterations
        )
        basis = "per iteration" if sides.per_iteration else "whole runs"
        return rows, f"{sides.b.label} against {sides.a.label}, {basis}: red is slower, green faster, amber new."

    def focus_table(self) -> None:
        """Give the focus to the chart."""
        self.app.call_later(self.screen.set_focus, self.chart)

    def path(self) -> list[str]:
        """Return the title of the grouping."""
        return [self.grouping.title]

    # --- node under the cursor ---------------------------------------------------------------------------------------

    @on(FlameChart.Moved)
    def _moved(self) -> None:
        node = self.chart.current
        text = "" if node is None else self._node_text(node)
        width = max(10, self.size.width - 2)
        self.query_one("#node", Static).update(Content(clip(text, width)))
        legend = self._legend(width)
        self.query_one("#legend", Static).update(Content.assemble(" ", legend))
        self.query_one("#legend").display = bool(legend)

    def _node_text(self, node: dict[str, Any]) -> str:
        share = f"{brief_percent(node['time_pct'])} of GPU time"
        name = plain(str(node["node"]))
        if (growth_ns := node.get("growth_ns")) is not None:
            sides = self.explorer.comparison.sides
            suffix = " per iteration" if sides is not None and sides.per_iteration else ""
            change = f"{'+' if growth_ns >= 0 else '-'}{brief_duration(abs(growth_ns))} against the baseline"
            return f" {brief_duration(node['compared_ns'])}{suffix}, {change}  {share}  {name}"
        self_text = "" if node["node_kind"] == KERNEL else f"  self {brief_duration(node['gpu_self_ns'])}"
        return f" {brief_duration(node['gpu_ns'])}  {share}{self_text}  {name}"

    def _legend(self, width: int) -> Content:
        """Return the kinds of work on the screen, if colors mean them."""
        rows = self.chart.rows
        if rows is None or "growth_ns" in rows.columns or services_of(self).color == "none":
            return Content("")
        kernel_kinds = set(rows["kernel_kind"].drop_nulls())
        for short_names in ({}, SHORT_NAMES):
            entries = [
                (kind_style(kernel_kind).color, short_names.get(kernel_kind, label))
                for kernel_kind, label in LEGEND
                if kernel_kind in kernel_kinds
            ]
            content = Content("  ").join(
                Content.assemble(("█", color), (f" {label}", "$text-muted")) for color, label in entries
            )
            if content.cell_length < width:
                return content
        return Content("")

    # --- groupings, comparison ---------------------------------------------------------------------------------------

    def group_by(self, name: str) -> None:
        """Group by one of `GROUPINGS`."""
        self._groupings.choose(name)
        self.populate()
        self.show_crumbs()

    def action_color_growth(self) -> None:
        """Color growth against the comparison, or kinds of work."""
        if self.explorer.comparison.sides is None:
            self.explorer.say("No comparison yet. Press d.")
            return
        self.compares = not self.compares
        self.populate()

    # --- finding -----------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Open the search bar."""
        self.query_one(FindBar).open(self._text)

    @on(FindBar.Entered)
    def _entered(self, event: FindBar.Entered) -> None:
        event.stop()
        self._find(event.text)
        self.query_one(FindBar).entry_done()
        self.focus_table()

    @on(FindBar.Closed)
    def _find_closed(self) -> None:
        self.focus_table()

    def _find(self, text: str) -> None:
        self._text = text
        rows = self.chart.rows
        if rows is None:
            return
        matches, gpu_ns = matching_nodes(rows, text)
        self.chart.mark(matches)
        total_ns = int(rows.filter(rows["parent"] == -1)["gpu_ns"].sum())
        number = int(matches.sum())
        message = ""
        if text:
            match_text = plural(number, "place")
            share = brief_percent(100 * gpu_ns / total_ns) if total_ns else "0%"
            message = (
                f" {plain(text)}: {match_text}, {brief_duration(gpu_ns)}, {share} of GPU time   n next  esc clears"
            )
        self.query_one("#found", Static).update(clip(message, max(10, self.size.width - 2)).replace("[", r"\["))

    def action_step_match(self, step: int) -> None:
        """Go to the next or previous highlighted node."""
        rows = self.chart.marked_rows
        if not rows:
            self.explorer.say("Nothing is highlighted. / highlights a name.")
            return
        following = [row for row in rows if (row - self.chart.cursor) * step > 0]
        self.chart.move_to((following or rows)[0 if step > 0 else -1])

    def undo_smallest(self) -> bool:
        """Clear the highlights, then the zoom."""
        if super().undo_smallest():
            return True
        if self._text:
            self._find("")
            return True
        if self.chart.zoomed != -1:
            self.chart.action_zoom_all()
            return True
        return False

    def action_show_rows(self) -> None:
        """Go to the op or kernel in its table."""
        node = self.chart.current
        if node is None or node["node_kind"] == "group":
            self.explorer.say("A group has no row in a table. Choose an op or a kernel.")
            return
        is_kernel = node["node_kind"] == KERNEL
        column, name = ("name", "kernels") if is_kernel else ("op", "ops-and-kernels")
        query = equals_filter(column, node["node"], ColumnKind.SYMBOL if is_kernel else ColumnKind.TEXT)
        self.explorer.go(name, lambda screen: screen.show_only(query))
