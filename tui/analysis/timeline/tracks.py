"""Tracks of the timeline: GPU utilization, copy throughput and allocated memory over the visible time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.timeline.lanes import ItemKind
from tui.fmt import brief_rate, brief_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tui.analysis.timeline.lanes import Lane
    from tui.analysis.timeline.shown import Shown
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Track:
    """A quantity over time."""

    name: str
    look: ItemKind | None
    """Whose color it has; None: that of shares."""
    shares: Callable[[Ints], Floats]
    """For moments by the ruler the mean between each two neighboring ones, from 0 to 1 (the scale's top)."""


def tracks(profile: Profile, shown: Shown) -> tuple[Track, ...]:
    """The tracks that the profile feeds, for the sessions that are shown."""
    return tuple(track for make in (_utilization, _copies, _memory) for track in make(profile, shown))


def _utilization(_: Profile, shown: Shown) -> Iterator[Track]:
    """The busy share of the GPUs; of a GPU with several streams the time that any of them was busy."""
    of_gpus: dict[tuple[int, int | None], Lane] = {}
    for lane in shown.lanes:
        if lane.on_gpu:
            # The lane of all streams, where there is one, stands before those of its streams.
            of_gpus.setdefault((lane.session, lane.device), lane)

    def shares(edges: Ints) -> Floats:
        busy = [
            np.diff(lane.segments.until(edges - shown.shifts[lane.session]).sum(axis=1)) for lane in of_gpus.values()
        ]
        found: Floats = np.clip(np.sum(busy, axis=0) / len(busy) / np.diff(edges), 0.0, 1.0)
        return found

    if of_gpus:
        several = f", mean of {len(of_gpus)}" if len(of_gpus) > 1 else ""
        yield Track(f"GPU utilization{several}", None, shares)


def _copies(profile: Profile, shown: Shown) -> Iterator[Track]:
    """Bytes copied per second."""
    rows = _by_ruler(
        profile["activities"].filter(
            pl.col("kind") == "memcpy", pl.col("start_ns").is_not_null(), pl.col("size_bytes") > 0
        ),
        shown,
        "duration_ns",
        "size_bytes",
    ).filter(pl.col("duration_ns") > 0)
    if rows.is_empty():
        return
    starts, lengths = rows["start_ns"].to_numpy(), rows["duration_ns"].to_numpy()
    rates = rows["size_bytes"].to_numpy() / lengths
    moments = np.concatenate((starts, starts + lengths))
    order = np.argsort(moments, kind="stable")
    levels = np.maximum(np.cumsum(np.concatenate((rates, -rates))[order]), 0.0)
    shares, most = _levels_over_time(moments[order], levels)
    yield Track(f"copies, peak {brief_rate(most * 1e9)}", ItemKind.COPY, shares)


def _memory(profile: Profile, shown: Shown) -> Iterator[Track]:
    """Memory of the GPUs that the framework's allocator has given out, of the device that holds most."""
    rows = _by_ruler(
        profile["memory_events"].filter(
            pl.col("place") == "GPU", pl.col("start_ns").is_not_null(), pl.col("allocated_bytes").is_not_null()
        ),
        shown,
        "device",
        "allocated_bytes",
    )
    if rows.is_empty():
        return
    top = rows.row(rows["allocated_bytes"].arg_max() or 0, named=True)
    of_device = rows.filter(
        pl.col("session") == top["session"], pl.col("device").eq_missing(pl.lit(top["device"], pl.Int32))
    ).sort("start_ns", maintain_order=True)
    levels = of_device["allocated_bytes"].to_numpy().astype(np.float64)
    shares, most = _levels_over_time(of_device["start_ns"].to_numpy(), levels)
    yield Track(f"allocated, peak {brief_size(most)}", None, shares)


def _by_ruler(rows: pl.DataFrame, shown: Shown, *more: str) -> pl.DataFrame:
    """The rows of the sessions that are shown, their starts by the ruler."""
    shift = pl.col("session").replace_strict(dict(shown.shifts), default=None, return_dtype=pl.Int64)
    return rows.select("session", *more, start_ns=pl.col("start_ns") + shift).drop_nulls("start_ns")


def _levels_over_time(moments: Ints, levels: Floats) -> tuple[Callable[[Ints], Floats], float]:
    """Of levels that each hold from a moment to the next one the means between edges, and the highest level."""
    most = float(levels.max(initial=0.0))
    summed = np.concatenate(([0.0], np.cumsum(levels[:-1] * np.diff(moments))))

    def shares(edges: Ints) -> Floats:
        if most <= 0:
            return np.zeros(len(edges) - 1)
        # Beyond the last moment its level holds.
        beyond = np.maximum(edges - moments[-1], 0) * levels[-1]
        means = np.diff(np.interp(edges, moments, summed) + beyond) / np.diff(edges)
        found: Floats = np.clip(means / most, 0.0, 1.0)
        return found

    return shares, most
