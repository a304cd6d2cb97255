"""Hardware metrics and events by kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile

METRICS: Final = TableSpec(
    "metrics",
    "Metrics",
    columns(
        "kernel",
        "metric",
        "avg",
        "min",
        "max",
        "unit",
        "invocations",
        "total",
        "description",
        "device_name",
        "session",
        "line",
    ),
    key=("session", "line", "metric"),
    pinned="kernel",
)


def metrics(profile: Profile) -> pl.DataFrame:
    """Metrics and events in the order of the input: the frame ``metrics``, its ``device`` called device_name.

    Values are in base units, which ``unit`` names.
    """
    return profile["metrics"].rename({"device": "device_name"})
