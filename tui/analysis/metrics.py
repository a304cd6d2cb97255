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

    By its full name; of a session in which no launch has that, by its name without template arguments and parameters:
    tools spell the same kernel in several ways. Of a metric that was measured launch by launch, those of the same grid
    and block.

    Args:
        profile: Where to look.
        row: Of `metrics`.
    """
    kernels = profile["activities"].lazy().filter(pl.col("kind") == "kernel", pl.col("name").is_not_null())
    names = kernels.select("session", "name").unique().collect().with_columns(pl.col("name").cast(pl.String))
    wanted = short_name(row["kernel"] or "")
    alike = [name for name in names["name"].unique() if short_name(name) == wanted]
    exact = names.filter(name=row["kernel"])["session"].to_list()
    by_short_name = names.filter(pl.col("name").is_in(alike), ~pl.col("session").is_in(exact))["session"].to_list()
    if not exact and not by_short_name:
        return gpu_work(profile)
    name, session = pl.col("name").cast(pl.String), pl.col("session")
    found = (name == row["kernel"]) | (session.is_in(by_short_name) & name.is_in(alike))
    same = [pl.col(axis) == row[axis] for axis in _SHAPE if row[axis] is not None]
    return gpu_work(profile, found, pl.col("kind") == "kernel", *same)


def metrics(profile: Profile) -> pl.DataFrame:
    """Metrics and events in the order of the input: the frame ``metrics``, its ``device`` called device_name.

    Values are in base units, which ``unit`` names.
    """
    return profile["metrics"].rename({"device": "device_name"})
