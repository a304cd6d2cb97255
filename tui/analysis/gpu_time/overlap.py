"""Overlap of computation, communication and copies on a GPU; exposed communication and copies; what work costs alone.

Estimated savings are the time saved if some GPU work were twice as fast, or absent. Only the time in which nothing else
keeps the GPU busy counts: work that overlaps other work saves nothing. All other work is assumed to run when it did. A
program that waits for the GPU therefore saves at least this much; one whose GPU waits for the CPU may save less.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.idle_gaps import busy_sets
from tui.analysis.gpu_time.interval_sets import FEW_STREAMS, distinct_values, interval_union
from tui.analysis.gpu_time.timelines import (
    Timeline,
    WorkKind,
    adjusted_timelines,
    classify_values,
    concurrency,
    lengths_by_class,
    timelines,
    work_kinds,
)
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.gpu_time.timelines import Flags
    from tui.model.profile import Profile

    Classes = npt.NDArray[np.int8]


_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "total_span_ns": pl.Int64,
        "compute_ns": pl.Int64,
        "exposed_comm_ns": pl.Int64,
        "exposed_copy_ns": pl.Int64,
        "busy_ns": pl.Int64,
        "idle_ns": pl.Int64,
        "comm_ns": pl.Int64,
        "copies_ns": pl.Int64,
        "kernels_ns": pl.Int64,
        "copies_hidden_ns": pl.Int64,
        "to_device_ns": pl.Int64,
        "from_device_ns": pl.Int64,
        "both_ways_ns": pl.Int64,
        "concurrent_ns": pl.Int64,
        "most_at_once": pl.Int64,
        "kernel_streams": pl.Int64,
    }
)

_DIRECTIONS: Final = {"HtoD": 1, "HtoA": 1, "DtoH": 2, "AtoH": 2}
_UNKNOWN_DIRECTION: Final = 3


@once_per_profile("activities", "sessions")
def overlap(profile: Profile) -> pl.DataFrame:
    """Return the overlap figures of each GPU of each session, for work with known times.

    Each figure in ns is the length of a union. With K the kernels (whole CUDA graphs and memsets among them), C those
    of them that communicate (`tui.analysis.gpu_time.timelines`) and M the copies and unified memory work:

    - total_span_ns: from the first start to the last end on the device
    - compute_ns: K - C, kernels that do not communicate
    - exposed_comm_ns: C without the time of compute; exposed_copy_ns: M without the time of compute and C
    - busy_ns: the three together; idle_ns: the rest of the span, so that the four add up to it (the terms are those of
      TraceLens: computation + exposed_comm + exposed_memcpy + idle = total)
    - comm_ns, copies_ns, kernels_ns: C, M and K; copies_hidden_ns: M and K at once
    - comm_hidden_pct: share of C that overlaps with compute; copy_hidden_pct: M and K at once as a share of the shorter
    - to_device_ns, from_device_ns, both_ways_ns: copies of each direction and of both at once; null, not 0, if a copy
      has no recorded direction; both_ways_pct: as a share of the shorter
    - concurrent_ns: two kernels or more at once; concurrent_pct: as a share of kernels_ns; most_at_once: the maximum
      number of concurrent kernels; kernel_streams: streams with kernels, null if not recorded

    A share of nothing is null. Overlaps shorter than ``sessions.start_resolution_ns`` may be none and are counted as
    none, as in `busy_time`; ``concurrent_ns`` counts only pairs that overlap by more.
    """
    kinds = work_kinds(profile)
    directions = classify_values(profile["activities"]["copy_kind"], _direction)
    if profile["activities"]["copy_kind"].null_count():
        without_direction = profile["activities"].select((pl.col("kind") == "memcpy") & pl.col("copy_kind").is_null())
        directions[without_direction.to_series().to_numpy()] = _UNKNOWN_DIRECTION
    streams = profile["activities"]["stream"]
    rows = [
        _row(timeline, busy.length_ns, timeline.take(kinds), timeline.take(directions), streams)
        for timeline, busy in zip(timelines(profile), busy_sets(profile), strict=True)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(
        _share(pl.col("comm_ns") - pl.col("exposed_comm_ns"), pl.col("comm_ns")).alias("comm_hidden_pct"),
        _share(pl.col("copies_hidden_ns"), pl.min_horizontal("copies_ns", "kernels_ns")).alias("copy_hidden_pct"),
        _share(pl.col("both_ways_ns"), pl.min_horizontal("to_device_ns", "from_device_ns")).alias("both_ways_pct"),
        _share(pl.col("concurrent_ns"), pl.col("kernels_ns")).alias("concurrent_pct"),
    )


def _share(part: pl.Expr, total: pl.Expr) -> pl.Expr:
    return pl.when(total > 0).then(100 * part / total)


def _direction(names: pl.Series) -> Classes:
    return np.array([_DIRECTIONS.get(name, 0) for name in names.to_list()], np.int8)


def _row(
    timeline: Timeline, busy_ns: int, kinds: Classes, directions: Classes, streams: pl.Series
) -> tuple[object, ...]:
    is_kernel = kinds != WorkKind.COPY
    computing = {WorkKind.COMPUTE, WorkKind.MEMSET}
    compute, comm, kernels, copies = lengths_by_class(
        timeline,
        kinds,
        (computing, {WorkKind.COMMUNICATION}, {*WorkKind} - {WorkKind.COPY}, {WorkKind.COPY}),
        resolution_ns=timeline.resolution_ns,
    )
    # With rounded starts, the sum of the parts can exceed the whole, each by less than the resolution.
    compute, comm, copies = (min(length_ns, busy_ns) for length_ns in (compute, comm, copies))
    kernels = min(max(kernels, compute), busy_ns)
    to_device, from_device, either = lengths_by_class(
        timeline, directions, ({1}, {2}, {1, 2}), resolution_ns=timeline.resolution_ns
    )
    both_ways = max(0, to_device + from_device - either)
    # A copy of unknown direction may be one of these.
    no_copies = None if (directions == _UNKNOWN_DIRECTION).any() else 0
    span = int(timeline.ends.max() - timeline.starts[0])
    at_once = concurrency(timeline, is_kernel)
    return (
        timeline.session,
        timeline.device,
        span,
        compute,
        kernels - compute,
        busy_ns - kernels,
        busy_ns,
        span - busy_ns,
        comm,
        copies,
        kernels,
        max(0, copies + kernels - busy_ns),
        to_device or no_copies,
        from_device or no_copies,
        both_ways or no_copies,
        at_once.length_ns,
        at_once.max_concurrent,
        _streams(timeline, is_kernel, streams),
    )


def _streams(timeline: Timeline, is_kernel: npt.NDArray[np.bool_], streams: pl.Series) -> int | None:
    """Return the number of streams with kernels; None if there are none, or some are unknown."""
    if streams.null_count():
        named = streams.gather(pl.Series(timeline.rows_at(np.flatnonzero(is_kernel))))
        return named.n_unique() if len(named) and not named.null_count() else None
    stream_numbers = timeline.take(streams.to_numpy())
    stream_count = len(list(islice(distinct_values(stream_numbers, is_kernel), FEW_STREAMS + 1)))
    return (stream_count if stream_count <= FEW_STREAMS else len(np.unique(stream_numbers[is_kernel]))) or None


@dataclass(frozen=True, slots=True)
class Saving:
    """The time that one GPU would save, in nanoseconds."""

    session: int
    device: int | None
    launches: int
    """The number of launches of the work, with a known start and duration."""
    time_ns: int
    """Summed durations of that work."""
    alone_ns: int
    """Time in which only that work kept the GPU busy: what the GPU would gain if it were not there."""
    half_ns: int
    """What the GPU would gain if each launch took half as long, from its start on."""
    busy_ns: int
    """The time in which the GPU had any work."""
    span_ns: int
    """The time from the first start to the last end of work on this GPU."""
    stream: int | None
    """The stream that most of the work ran on."""
    iterations: int | None
    """How many iterations the work was launched in; None if none is known."""
    alone_per_iteration_ns: float | None
    """What an iteration would gain, on average over those that the work was launched in, without the work of them."""
    half_per_iteration_ns: float | None
    """The same for work of half the duration."""


def estimated_savings(profile: Profile, activities: pl.Series) -> tuple[Saving, ...]:
    """Return what each GPU would save without these activities, and with them twice as fast; largest saving first.

    Empty if no start times are known. ``alone_ns`` is the union of the intervals of all work on the GPU less the union
    of those of all other work. It is at most the time of the work and the busy time of the GPU; savings of overlapping
    work do not add up. Overlaps that are only due to rounded starts are ignored (`tui.analysis.gpu_time.timelines`).

    Args:
        profile: The profile.
        activities: The numbers of the activities, the column ``activity``.
    """
    work = profile["activities"].select("activity", "duration_ns", "stream", "iteration")
    is_selected = work["activity"].is_in(activities.implode()).to_numpy()
    gains = (
        _saving(timeline, work, mask, busy_ns)
        for timeline, busy_ns in zip(adjusted_timelines(profile), _busy_ns(profile), strict=True)
        if (mask := timeline.take(is_selected)).any()
    )
    return tuple(sorted(gains, key=lambda gain: -gain.alone_ns))


@once_per_profile("activities", "sessions")
def _busy_ns(profile: Profile) -> tuple[int, ...]:
    """Return the busy time of each GPU, in the order of `adjusted_timelines`."""
    return tuple(interval_union(timeline.starts, timeline.ends).length_ns for timeline in adjusted_timelines(profile))


def _saving(timeline: Timeline, work: pl.DataFrame, mask: Flags, busy_ns: int) -> Saving:
    selected = work[timeline.rows_at(np.flatnonzero(mask))]
    streams = (
        selected.group_by("stream").agg(pl.col("duration_ns").sum()).sort("duration_ns", "stream", descending=True)
    )
    iterations = selected["iteration"].drop_nulls().n_unique()
    alone_ns, half_ns = inside = _saved_ns(timeline, mask)
    if iterations and selected["iteration"].null_count():
        in_iterations = timeline.take(work["iteration"].is_not_null().to_numpy())
        inside = _saved_ns(timeline, mask & in_iterations)
    return Saving(
        session=timeline.session,
        device=timeline.device,
        launches=selected.height,
        time_ns=int(selected["duration_ns"].sum()),
        alone_ns=alone_ns,
        half_ns=half_ns,
        busy_ns=busy_ns,
        span_ns=int(timeline.ends.max() - timeline.starts.min()),
        stream=streams["stream"][0],
        iterations=iterations or None,
        alone_per_iteration_ns=inside[0] / iterations if iterations else None,
        half_per_iteration_ns=inside[1] / iterations if iterations else None,
    )


def _saved_ns(timeline: Timeline, mask: Flags) -> tuple[int, int]:
    """Return the time saved without some work, and with half of it; only work that overlaps it matters."""
    first_ns, last_ns = timeline.starts[mask].min(), timeline.ends[mask].max()
    is_affected = mask | ((timeline.starts < last_ns) & (timeline.ends > first_ns))
    starts, ends, chosen = timeline.starts[is_affected], timeline.ends[is_affected], mask[is_affected]
    halved = np.where(chosen, ends - (ends - starts) // 2, ends)
    with_all, with_half = (interval_union(starts, stops).length_ns for stops in (ends, halved))
    return with_all - interval_union(starts[~chosen], ends[~chosen]).length_ns, with_all - with_half
