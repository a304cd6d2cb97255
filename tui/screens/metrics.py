"""Metrics: hardware metrics and events by kernel, and the launches of that kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tui.analysis.activities import ACTIVITY_TABLE, activities_where
from tui.analysis.hardware_metrics import METRICS, launches_measured
from tui.analysis.inputs.capabilities import how_to_record, why_none
from tui.analysis.inputs.needs import METRICS as NEEDED
from tui.analysis.inputs.needs import START_TIMES
from tui.fitting import shorten_symbol
from tui.fmt import metric
from tui.keys import Scope, bindings_for
from tui.model.names import short_name
from tui.screens.base import ViewScreen
from tui.screens.kernels import launch_crumb, work_details
from tui.screens.linked_tables import Level, Row, shown
from tui.screens.tabs import Tab, TabbedTables, next_tab, previous_tab
from tui.widgets.details.kernel import below

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile
    from tui.widgets.details.pane import Details
    from tui.widgets.table.pane import TablePane


OTHERS_SHOWN = 40
"""Further metrics of a kernel that the details of one tell."""


def launches_of_metric(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The launches of the selected metric's kernel."""
    row = above.get("metrics")
    return activities_where(profile) if row is None else launches_measured(profile, row)


def no_metrics(profile: Profile) -> str:
    """Why there are no metrics."""
    return why_none(profile, NEEDED)


def no_launches(profile: Profile) -> str:
    """Why there are no launches of a measured kernel."""
    if profile["activities"].is_empty():
        return (
            "metrics alone hold no launches: open a trace of the same program together with this file; "
            + how_to_record(profile, START_TIMES)
        )
    return "no launch of this kernel is recorded"


class MetricsScreen(ViewScreen):
    """One row per kernel and metric, and the launches of the kernel under the cursor."""

    VIEW = "metrics"
    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    TABS: ClassVar = (
        Tab(
            "metrics",
            "Metrics",
            (
                Level(
                    "metrics",
                    *shown("hardware_metrics"),
                    lambda row: shorten_symbol(short_name(str(row["kernel"])), 32),
                    no_metrics,
                    3,
                ),
                Level(
                    "metric_launches",
                    ACTIVITY_TABLE,
                    launches_of_metric,
                    launch_crumb,
                    no_launches,
                    1,
                ),
            ),
        ),
    )
    HELP: ClassVar = (
        "Metrics and events as the profiler measured them, by kernel, over all its invocations; below, its launches.\n"
        "A level is the profiler's scale from 0 (idle) to 10 (max).\n"
        "Collecting metrics replays kernels: times of such a run mean nothing."
    )

    action_next_part, action_previous_part = next_tab, previous_tab

    def make_body(self) -> TabbedTables:
        """The tabs."""
        return TabbedTables(self.TABS)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Of a metric the others of its kernel."""
        first = work_details(self, pane, row)
        if pane.spec is not METRICS:
            return first
        of_kernel = [
            other
            for other in pane.frame.filter(
                (pane.frame["session"] == row["session"]) & (pane.frame["kernel"] == row["kernel"])
            )
            .head(OTHERS_SHOWN + 1)
            .iter_rows(named=True)
            if other["metric"] != row["metric"]
        ]
        lines = [(str(other["metric"]), metric(other["avg"], other["unit"]), "") for other in of_kernel[:OTHERS_SHOWN]]
        return below(first, [("Other metrics of this kernel", lines)])
