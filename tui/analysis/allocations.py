"""Memory of the framework's allocator: peak, its time, and growth by iteration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.iterations.segments import iteration_at
from tui.analysis.iterations.tables import with_iterations
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile


ALLOCATORS: Final = TableSpec(
    "allocators",
    "Allocator",
    columns(
        "place",
        "device",
        "peak_bytes",
        "peak_at_ns",
        "peak_iteration",
        "active_peak_bytes",
        "reserved_peak_bytes",
        "first_bytes",
        "last_bytes",
        "growth_bytes",
        "memory_bytes",
        "events",
        "session",
    ),
    key=("session", "place", "device"),
    pinned="place",
    pinned_least=4,
)

ALLOCATOR_ITERATIONS: Final = TableSpec(
    "allocator_iterations",
    "By iteration",
    (
        replace(columns("iteration")[0], absent="outside"),
        *columns("peak_bytes", "peak_at_ns", "first_bytes", "last_bytes", "growth_bytes", "gained_bytes", "events"),
        *columns("place", "device", "session"),
    ),
    key=("session", "place", "device", "iteration", "number"),
    pinned="iteration",
    pinned_least=10,
)

ALLOCATION_EVENTS: Final = TableSpec(
    "allocation_events",
    "Allocations",
    columns(
        *("start_ns", "action", "delta_bytes", "allocated_bytes", "active_bytes", "reserved_bytes", "call_site"),
        *("address", "stream", "place", "device", "stack", "session", "line"),
    ),
    key=("session", "number"),
    pinned="start_ns",
)

_OF: Final = ("session", "place", "device")


@once_per_profile("memory_events", "ranges", "activities", "ops", "api_calls", "sessions")
def allocations(profile: Profile) -> pl.DataFrame:
    """Every event of the frame ``memory_events`` with ``number`` (its row) and ``iteration`` (null: in none)."""
    rows = profile["memory_events"].with_row_index("number")
    steps = with_iterations(profile).steps
    if rows.is_empty() or steps is None:
        return rows.with_columns(pl.lit(None, pl.Int32).alias("iteration"))
    return rows.with_columns(iteration_at(steps, rows["session"], rows["start_ns"]))


def _figures() -> list[pl.Expr]:
    """What is told of the events of one memory, which are in order of time."""
    after, before = pl.col("allocated_bytes"), pl.col("allocated_bytes") - pl.col("delta_bytes")
    peak = after.arg_max()
    return [
        pl.len().cast(pl.Int64).alias("events"),
        after.max().alias("peak_bytes"),
        pl.col("start_ns").get(peak).alias("peak_at_ns"),
        pl.col("iteration").get(peak).alias("peak_iteration"),
        pl.col("active_bytes").max().alias("active_peak_bytes"),
        pl.col("reserved_bytes").max().alias("reserved_peak_bytes"),
        before.first().alias("first_bytes"),
        after.last().alias("last_bytes"),
        (after.last() - before.first()).alias("growth_bytes"),
        pl.col("delta_bytes").filter(pl.col("delta_bytes") > 0).sum().alias("gained_bytes"),
    ]


@once_per_profile("memory_events", "ranges", "activities", "ops", "api_calls", "sessions", "devices")
def allocators(profile: Profile) -> pl.DataFrame:
    """One row per memory (of a GPU, or of the CPU) of each session that the allocator worked on.

    Columns: session, place, device, events, peak_bytes (the most allocated after any event), peak_at_ns (when first),
    peak_iteration, active_peak_bytes, reserved_peak_bytes, first_bytes (allocated before the first event), last_bytes
    (after the last), growth_bytes (last - first: the sum of all changes), memory_bytes (of the GPU). Totals are null
    where the input has none.
    """
    sizes = profile["devices"].select("session", "device", "memory_bytes")
    return (
        allocations(profile)
        .group_by(_OF, maintain_order=True)
        .agg(_figures())
        .join(sizes, on=["session", "device"], how="left", maintain_order="left")
        .select(column.name for column in ALLOCATORS.columns)
        .sort("session", "place", "device", descending=[False, True, False])
    )


def allocator_iterations(
    profile: Profile, *, session: int | None = None, place: str | None = None, device: int | None = None
) -> pl.DataFrame:
    """The same for each iteration, in order of time; the rows without one are of what lies before, between or after.

    ``number`` is that of the first event (`allocations`).

    Args:
        profile: Where to look.
        session: Of which session; None: of all memories.
        place: Of the GPU or the CPU.
        device: Of which GPU.
    """
    rows = allocations(profile)
    if session is not None:
        rows = rows.filter(memory_of(session, place, device))
    # What lies between two iterations is apart from what lies after the last.
    interval = pl.col("iteration").ne_missing(pl.col("iteration").shift(1)).fill_null(True).cum_sum().over(_OF)
    return (
        rows.with_columns(interval.alias("interval"))
        .group_by(*_OF, "iteration", "interval", maintain_order=True)
        .agg(*_figures(), pl.col("number").first())
        .select(*(column.name for column in ALLOCATOR_ITERATIONS.columns), "number")
    )


def memory_of(session: int, place: str | None, device: int | None) -> pl.Expr:
    """The rows of one memory."""
    told = pl.col("place").cast(pl.String).eq_missing(pl.lit(place, pl.String))
    return (pl.col("session") == session) & told & pl.col("device").eq_missing(pl.lit(device, pl.Int32))


def memory_curve(
    profile: Profile, *, session: int, place: str | None, device: int | None, steps: int
) -> npt.NDArray[np.float64]:
    """The most that was allocated in each of so many equal steps of time, in bytes, from the first event to the last.

    NaN where the input has no totals; empty where there are fewer than two events.

    >>> from tui.model.profile import profile_of
    >>> events = {"session": [0, 0, 0], "start_ns": [0, 10, 100], "allocated_bytes": [5, 9, 2]}
    >>> rows = profile_of({"memory_events": pl.DataFrame({**events, "delta_bytes": [5, 4, -7]})}, source="")
    >>> memory_curve(rows, session=0, place=None, device=None, steps=4).tolist()
    [9.0, 9.0, 9.0, 9.0]
    """
    rows = profile["memory_events"].filter(memory_of(session, place, device))
    # Where there are no times, events are as far from each other as they are in order.
    at = (
        rows["start_ns"].drop_nulls().to_numpy()
        if rows["start_ns"].null_count() < rows.height
        else np.arange(rows.height)
    )
    rows = rows.filter(pl.col("start_ns").is_not_null() | pl.col("start_ns").is_null().all())
    if len(at) < 2 or at[-1] <= at[0] or steps < 1:
        return np.zeros(0)
    held = rows["allocated_bytes"].cast(pl.Float64).to_numpy()
    where = np.minimum(((at - at[0]) * (steps / (at[-1] - at[0]))).astype(np.int64), steps - 1)
    # A step starts with what the one before it ended with.
    most = np.full(steps, -1.0)
    np.maximum.at(most, where, held)
    last_before = np.searchsorted(where, np.arange(steps)) - 1
    carried = np.where(last_before >= 0, held[np.maximum(last_before, 0)], -1.0)
    found: npt.NDArray[np.float64] = np.maximum(most, carried)
    return found


def iteration_marks(profile: Profile, *, session: int) -> list[tuple[int, int]]:
    """Number and start of each iteration of a session on the clock of its CPU."""
    steps = with_iterations(profile).steps
    if steps is None:
        return []
    own = steps.filter(pl.col("session") == session).drop_nulls(["iteration", "cpu_start_ns"]).sort("cpu_start_ns")
    return list(own.select("iteration", "cpu_start_ns").iter_rows())
