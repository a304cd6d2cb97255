"""Metrics: hardware metrics and events by kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import METRICS as NEEDED
from tui.analysis.metrics import METRICS, metrics
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class MetricsScreen(TableScreen):
    """One row per kernel and metric."""

    VIEW = "metrics"
    SPEC: ClassVar = METRICS
    HELP: ClassVar = (
        "Metrics and events as the profiler measured them, by kernel, over all its invocations.\n"
        "A level is the profiler's scale from 0 (idle) to 10 (max).\n"
        "Collecting metrics replays kernels: times of such a run mean nothing."
    )

    def rows(self) -> pl.DataFrame:
        """Every metric of every kernel."""
        return metrics(self.profile)

    def empty(self) -> str:
        """Why there are none."""
        return why_none(self.profile, NEEDED)
