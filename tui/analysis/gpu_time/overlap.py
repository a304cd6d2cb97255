"""Overlap of computation, communication and copies on a GPU; exposed communication and copies."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.idle_gaps import busy_sets
from tui.analysis.gpu_time.interval_sets import FEW_STREAMS, distinct_values
from tui.analysis.gpu_time.timelines import (
    Timeline,
    WorkKind,
    classify_values,
    concurrency,
    lengths_by_class,
    timelines,
    work_kinds,
)
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import numpy.typing as npt

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
    - to_device_ns, from_device_ns, both_ways_ns: copies of each direction and of both at once; both_ways_pct: as a
      share of the shorter
    - concurrent_ns: two kernels or more at once; concurrent_pct: as a share of kernels_ns; most_at_once: the maximum
      number of concurrent kernels; kernel_streams: streams with kernels, null if not recorded

    A share of nothing is null. Overlaps shorter than ``sessions.start_resolution_ns`` may be none and are counted as
    none, as in `busy_time`; ``concurrent_ns`` counts only pairs that overlap by more.
    """
    kinds = work_kinds(profile)
    directions = classify_values(profile["activities"]["copy_kind"], _direction)
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
    # With rounded starts, the sum of the parts can exceed the whole by less than the resolution.
    compute = min(compute, busy_ns)
    kernels = min(max(kernels, compute), busy_ns)
    to_device, from_device, either = lengths_by_class(
        timeline, directions, ({1}, {2}, {1, 2}), resolution_ns=timeline.resolution_ns
    )
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
        to_device,
        from_device,
        max(0, to_device + from_device - either),
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
