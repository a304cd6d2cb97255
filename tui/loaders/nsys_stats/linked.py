"""Kernels, calls and NVTX ranges of one run, linked where its reports tell enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.linking.launches import iteration_at, link_ops, with_launch
from tui.loaders.linking.nvtx_ops import ops_from_ranges
from tui.loaders.linking.steps import mark_steps
from tui.model.schema import conform, empty

if TYPE_CHECKING:
    from tui.loaders.collector import Session

_LAUNCH: Final = ("launch_ns", "launch_pid", "launch_tid")


def linked(
    activities: pl.DataFrame | None, calls: pl.DataFrame | None, ranges: pl.DataFrame | None, session: Session
) -> dict[str, pl.DataFrame]:
    """The frames of a run: activities with op and iteration where ranges and launches are known."""
    frames: dict[str, pl.DataFrame] = {}
    if calls is not None:
        frames["api_calls"] = calls
    if activities is not None and _LAUNCH[0] not in activities.columns:
        activities = with_launch(activities, empty("api_calls") if calls is None else calls)
    if ranges is not None:
        marked = mark_steps(conform("ranges", ranges))
        if marked.source:
            session.facts["iteration_source"] = marked.source
        found = ops_from_ranges(marked.ranges)
        frames["ranges"] = found.ranges
        frames["ops"] = found.ops
        if activities is not None:
            steps = marked.ranges.filter(pl.col("iteration").is_not_null())
            activities = link_ops(activities, found.ops, found.nesting).with_columns(
                iteration_at(steps, activities["launch_ns"]).alias("iteration")
            )
    if activities is not None:
        frames["activities"] = activities.drop(_LAUNCH)
    return frames
