"""Hardware metrics and events by kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.gpu_work import gpu_work
from tui.model.columns import columns
from tui.model.names import short_name
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

_SHAPE: Final = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")

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
    # A database has no lines: there the kernel, and what it was launched with, tell rows apart.
    key=("session", "line", "device_name", "kernel", *_SHAPE, "metric"),
    pinned="kernel",
)


def launches_measured(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """The recorded launches of the kernel that a metric was measured on, of any session, in time order.

    By its full name; where no launch has that, by its name without template arguments and parameters. Of a metric that
    was measured launch by launch, those of the same grid and block.

    Args:
        profile: Where to look.
        row: Of `metrics`.
    """
    names = profile["activities"].lazy().filter(pl.col("kind") == "kernel").select("name").unique().collect()["name"]
    texts = names.drop_nulls().cast(pl.String).to_list()
    found = [name for name in texts if name == row["kernel"]]
    if not found:
        wanted = short_name(row["kernel"] or "")
        found = [name for name in texts if short_name(name) == wanted]
    if not found:
        return gpu_work(profile)
    same = [pl.col(axis) == row[axis] for axis in _SHAPE if row[axis] is not None]
    return gpu_work(profile, pl.col("name").cast(pl.String).is_in(found), pl.col("kind") == "kernel", *same)


def metrics(profile: Profile) -> pl.DataFrame:
    """Metrics and events in the order of the input: the frame ``metrics``, its ``device`` called device_name.

    Values are in base units, which ``unit`` names.
    """
    return profile["metrics"].rename({"device": "device_name"})
