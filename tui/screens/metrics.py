"""Metrics: the measured kernels with their key metrics; all hardware metrics and events, and launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from tui.analysis.activities import ACTIVITY_TABLE, filtered_activities
from tui.analysis.capabilities import missing_data_text, recording_advice
from tui.analysis.hardware_metrics import (
    KEY_METRICS,
    METRICS,
    kernel_key_metrics,
    key_metrics,
    launches_measured,
    measured_kernels,
)
from tui.analysis.needs import METRICS as NEEDED
from tui.analysis.needs import START_TIMES
from tui.fmt import metric
from tui.keys import Scope, bindings_for
from tui.model.names import short_name
from tui.screens.base import ViewScreen
from tui.screens.kernels import launch_crumb, work_details
from tui.screens.linked_tables import Level, Row, registered_level
from tui.screens.tabs import Tab, TabbedView
from tui.text_width import shorten_symbol
from tui.widgets.details import with_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.table.pane import TablePane


MAX_OTHER_METRICS = 40
"""The number of further metrics in the details of a kernel's metric."""


def launches_of_metric(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the launches of the selected metric's kernel."""
    row = selected.get("metrics")
    return filtered_activities(profile) if row is None else launches_measured(profile, row)


def metrics_of_kernel(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the key metrics of the selected kernel."""
    row = selected.get("measured")
    metrics = key_metrics(profile)
    return metrics.clear() if row is None else kernel_key_metrics(profile, row)


def no_key_metrics(_profile: Profile) -> str:
    """Return why a measured kernel has no key metrics."""
    return "key metrics not measured: see All metrics"


def _short_kernel(row: Row) -> str:
    return shorten_symbol(short_name(str(row["kernel"])), 32)


def _short_metric(row: Row) -> str:
    return str(row["label"])


def no_metrics(profile: Profile) -> str:
    """Return why there are no metrics."""
    return missing_data_text(profile, NEEDED)


def no_measured_launches(profile: Profile) -> str:
    """Return why there are no launches of a measured kernel."""
    if profile["activities"].is_empty():
        return (
            "this file has metrics but no launches: open it together with a trace of the same program; "
            + recording_advice(profile, START_TIMES)
        )
    return "launches of this kernel are not recorded"


class MetricsScreen(TabbedView, ViewScreen):
    """The measured kernels with their key metrics; all metrics, with the launches of the kernel under the cursor."""

    VIEW = "metrics"
    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    TABS: ClassVar = (
        Tab(
            "kernels",
            "Kernels",
            (
                Level("measured", *registered_level("measured_kernels"), _short_kernel, no_metrics, 1),
                Level("key_metrics", KEY_METRICS, metrics_of_kernel, _short_metric, no_key_metrics, 2),
            ),
            why_not=lambda profile: no_key_metrics(profile) if measured_kernels(profile).is_empty() else "",
        ),
        Tab(
            "metrics",
            "All metrics",
            (
                Level(
                    "metrics",
                    *registered_level("hardware_metrics"),
                    _short_kernel,
                    no_metrics,
                    3,
                ),
                Level(
                    "metric_launches",
                    ACTIVITY_TABLE,
                    launches_of_metric,
                    launch_crumb,
                    no_measured_launches,
                    1,
                ),
            ),
        ),
    )
    HELP: ClassVar = (
        "Kernels: share of the GPU's peaks (speed of light), bound, occupancy and top stall.\nAll metrics: all "
        "values that the profiler measured, by kernel; f filters, / finds a metric by name.\nCollecting metrics "
        "replays kernels and locks clocks: durations differ from a normal run."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return a metric with the others of its kernel."""
        row_part = work_details(self, pane, row)
        if pane.spec is not METRICS:
            return row_part
        other_metrics = [
            other
            for other in pane.frame.filter(
                pl.col("session") == row["session"],
                pl.col("kernel").cast(pl.String).eq_missing(pl.lit(row["kernel"], pl.String)),
            )
            .head(MAX_OTHER_METRICS + 1)
            .iter_rows(named=True)
            if other["metric"] != row["metric"]
        ]
        lines = [
            (str(other["metric"]), metric(other["avg"], other["unit"]), "")
            for other in other_metrics[:MAX_OTHER_METRICS]
        ]
        return with_blocks(row_part, [("Other metrics of this kernel", lines)])
