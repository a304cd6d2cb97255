"""Hardware metrics and events: by kernel, and those that Nsight Compute measured for similar launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.activities import activities_where, activity_row
from tui.model.columns import columns
from tui.model.names import short_name
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    # A database has no lines: there the kernel, and what it was launched with, distinguish rows.
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
    same_kernel = [name for name in names["name"].unique() if short_name(name) == wanted]
    exact = names.filter(name=row["kernel"])["session"].to_list()
    is_inexact = pl.col("name").is_in(same_kernel) & ~pl.col("session").is_in(exact)
    by_short_name = names.filter(is_inexact)["session"].to_list()
    if not exact and not by_short_name:
        return activities_where(profile)
    name, session = pl.col("name").cast(pl.String), pl.col("session")
    found = (name == row["kernel"]) | (session.is_in(by_short_name) & name.is_in(same_kernel))
    same = [pl.col(axis) == row[axis] for axis in _SHAPE if row[axis] is not None]
    return activities_where(profile, found, pl.col("kind") == "kernel", *same)


def metrics(profile: Profile) -> pl.DataFrame:
    """Metrics and events in the order of the input: the frame ``metrics``, its ``device`` called device_name.

    Values are in base units, which ``unit`` names.
    """
    return profile["metrics"].rename({"device": "device_name"})


MOST: Final = 12
"""The number of metrics shown where no key metric was measured; the Metrics view has all."""

_KEY_METRICS: Final = (
    ("SM throughput", ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput", "SM [%]")),
    (
        "memory throughput",
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "Memory Throughput", "Memory [%]"),
    ),
    (
        "DRAM throughput",
        (
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "DRAM Throughput",
        ),
    ),
    ("achieved occupancy", ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")),
    ("theoretical occupancy", ("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy")),
    ("L2 hit rate", ("lts__t_sector_hit_rate.pct", "L2 Hit Rate")),
    ("L1 hit rate", ("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate")),
    ("tensor pipe", ("sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
                     "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active")),
    ("issue slots busy", ("sm__inst_issued.avg.pct_of_peak_sustained_active", "Issue Slots Busy")),
    ("duration when replayed", ("gpu__time_duration.sum", "Duration")),
)  # fmt: skip
"""The most important metrics first: what they are called here, and their names on Nsight Compute's pages."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of launches of one kernel, grid and block."""

    source: str
    """The file that says so."""
    session: int
    """Its session."""
    launches: int
    """How many launches were measured; values are their mean."""
    exact_name: bool
    """The kernel has the same full name; else the names are the same without template arguments and parameters."""
    values: tuple[tuple[str, float, str | None], ...]
    """Name, value and unit of the most important metrics, the most important first."""
    others: int
    """How many further metrics there are."""


def measured_metrics(profile: Profile, activity: int) -> Measured | None:
    """What Nsight Compute measured of launches like this one; None where it measured none.

    Raises:
        KeyError: There is no such activity.
    """
    launch = activity_row(profile, activity)
    shape = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    if launch["kind"] != "kernel" or any(launch[axis] is None for axis in shape):
        return None
    same_shape = profile["metrics"].filter(pl.col(axis) == launch[axis] for axis in shape)
    found, exact = same_shape.filter(pl.col("kernel") == launch["name"]), True
    if found.is_empty():
        short = short_name(launch["name"])
        same_kernel = [
            name for name in same_shape["kernel"].unique().drop_nulls().to_list() if short_name(name) == short
        ]
        found, exact = same_shape.filter(pl.col("kernel").cast(pl.String).is_in(same_kernel)), False
    if found.is_empty():
        return None
    # One file is enough, and that of the launch itself is the best.
    sessions = found["session"].unique(maintain_order=True).to_list()
    session = launch["session"] if launch["session"] in sessions else sessions[0]
    found = found.filter(pl.col("session") == session)
    means = (
        found.group_by("metric", "unit", maintain_order=True)
        .agg(pl.col("avg").mean(), pl.col("invocations").fill_null(1).sum())
        .drop_nulls("avg")
    )
    values = list(_relevant(means))
    source = profile["sessions"].filter(pl.col("session") == session)["source"].item() or ""
    launches = max(means["invocations"].to_list(), default=0)
    return Measured(source, session, launches, exact, tuple(values), means.height - len(values))


def _relevant(means: pl.DataFrame) -> Iterator[tuple[str, float, str | None]]:
    """The key metrics that were measured; where none was, the first shares that were."""
    rows = list(means.select("metric", "avg", "unit").iter_rows())
    found = False
    for label, names in _KEY_METRICS:
        # Of two metrics of one name (Memory Throughput in % and in bytes a second) the share is the important one.
        values = [(value, unit) for metric, value, unit in rows if metric in names and unit in ("%", "ns")]
        if values:
            found = True
            yield (label, *values[0])
    if not found:
        yield from [(metric, value, unit) for metric, value, unit in rows if unit == "%"][:MOST]
