"""Links the activities, calls and ranges of one run, as far as the input allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.iteration_ranges import mark_steps
from tui.correlation.launches import iteration_at, link_ops, with_launch
from tui.correlation.nvtx_ops import ops_from_ranges
from tui.correlation.plausible_times import drop_outlier_times, dropped_times_text
from tui.model.schema import conform, empty

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session

LAUNCH: Final = ("launch_ns", "launch_pid", "launch_tid")
"""When and where an activity was launched: columns of activities that need no call to tell it."""


def link_run(
    activities: pl.DataFrame | None,
    calls: pl.DataFrame | None,
    ranges: pl.DataFrame | None,
    session: Session,
    collector: Collector,
    *,
    kind: str = "NVTX range",
) -> dict[str, pl.DataFrame]:
    """The frames of a run, as `tui.loaders.collector.Collector.add_frames` takes them.

    Ranges become ops, and those of a family iterations, which the session is told the source of. Activities get the op
    and the iteration that they were launched in. Ranges without length are marks: they are no ops.

    Args:
        activities: Columns of the model, and those of `LAUNCH` where the input tells them itself.
        calls: API calls, columns of the model.
        ranges: Columns of the model.
        session: What they are of.
        collector: Told of times that cannot be of the same run as the others, which become unknown.
        kind: What a range is called.
    """
    given = {"activities": activities, "calls": calls, "ranges": ranges}
    there = {
        name: conform("ranges", rows) if name == "ranges" else rows for name, rows in given.items() if rows is not None
    }
    near, dropped = drop_outlier_times(*there.values())
    kept = dict(zip(there, near, strict=True))
    activities, calls, ranges = (kept.get(name) for name in given)
    if dropped:
        collector.issue("warning", None, "", dropped_times_text(dropped))
    frames: dict[str, pl.DataFrame] = {}
    if calls is not None:
        frames["api_calls"] = calls
    if activities is not None and "correlation" not in activities.columns:
        activities = activities.with_columns(pl.lit(None, pl.Int64).alias("correlation"))
    if activities is not None and LAUNCH[0] not in activities.columns:
        activities = with_launch(activities, empty("api_calls") if calls is None else calls)
    if ranges is not None:
        marked = mark_steps(ranges, kind=kind)
        if marked.source:
            session.facts["iteration_source"] = marked.source
        is_mark = pl.col("duration_ns").eq_missing(0)
        found = ops_from_ranges(marked.ranges.filter(~is_mark))
        if found.fault:
            collector.issue("error", None, "", f"no ops were made of the {kind}s: {found.fault}")
        frames["ranges"] = pl.concat([found.ranges, marked.ranges.filter(is_mark)]).sort("line", maintain_order=True)
        frames["ops"] = found.ops
        if activities is not None:
            steps = marked.ranges.filter(pl.col("iteration").is_not_null())
            if found.ops.height:
                activities = link_ops(activities, found.ops, found.nesting)
            activities = activities.with_columns(iteration_at(steps, activities["launch_ns"]).alias("iteration"))
    if activities is not None:
        frames["activities"] = activities.drop(LAUNCH)
    return frames
