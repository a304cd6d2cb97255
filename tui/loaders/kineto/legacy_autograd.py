"""Loads the export of PyTorch's first profiler, ``torch.autograd.profiler``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.correlation.launches import nest, parents
from tui.correlation.plausible_times import drop_outlier_events
from tui.loaders.kineto.distinct_names import map_names
from tui.loaders.kineto.event_roles import CALL_TO_WORK, LEGACY
from tui.loaders.kineto.kineto_activities import plain_name
from tui.loaders.kineto.kineto_facts import FORMAT_NAME
from tui.model.names import kind_of, short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.trace import Trace
    from tui.loaders.collector import Collector

_CPU, _GPU = LEGACY


def is_legacy(trace: Trace) -> bool:
    """Whether the trace has the rows that this export calls its processes."""
    return trace.parts["legacy"].height > 0


def convert_legacy(trace: Trace, collector: Collector, *, called: str) -> None:
    """Put such a trace into the collector, as one session.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    parts, begin_ns = drop_outlier_events({"all": _rows(trace)}, called=called)
    rows = parts["all"]
    collector.open_session(FORMAT_NAME, None).facts = {"tool": "PyTorch autograd profiler", "framework": "PyTorch"}
    cpu = rows.filter(pl.col("pid") == _CPU).with_columns(pid=pl.lit(None, pl.Int64))
    cpu = cpu.sort("start_ns", "duration_ns", descending=[False, True], maintain_order=True)
    gpu = rows.filter(pl.col("pid") == _GPU)
    ops = cpu.select(
        "name",
        "start_ns",
        "duration_ns",
        "tid",
        "line",
        op=pl.int_range(pl.len(), dtype=pl.UInt32),
        parent=parents(nest(cpu)),
        op_source=pl.lit("recorded", NAME),
    )
    names = gpu["name"]
    activities = gpu.select(
        map_names(names, lambda name: kind_of(plain_name(name))).fill_null(pl.lit("kernel", NAME)).alias("kind"),
        map_names(names, plain_name).alias("name"),
        map_names(names, lambda name: short_name(plain_name(name))).alias("short_name"),
        "start_ns",
        "duration_ns",
        "line",
        # This export calls the GPU's number a thread.
        device=pl.col("tid").cast(pl.Int32, strict=False),
    )
    collector.add_frames(
        {"ops": ops, "activities": _linked(activities, ops, trace.flows.with_columns(pl.col("start_ns") - begin_ns))}
    )
    collector.issue(
        "info",
        None,
        "",
        "exports of torch.autograd.profiler hold ops and GPU times, but no launch configurations, streams or "
        "API calls; for those, record with torch.profiler.profile",
    )


def _rows(trace: Trace) -> pl.DataFrame:
    return trace.parts.pop("legacy").with_columns(
        pl.col("pid").cast(pl.String), pl.col("tid").cast(pl.String).cast(pl.Int64, strict=False)
    )


def _linked(activities: pl.DataFrame, ops: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Follow the arrows from the start of an op to the start of its GPU work."""
    if ops.is_empty():
        return activities
    arrows = flows.filter(pl.col("cat").cast(pl.String) == CALL_TO_WORK).select(
        "id", "start_ns", pl.col("ph").cast(pl.String), tid=pl.col("tid").cast(pl.String).cast(pl.Int64, strict=False)
    )
    innermost = ops.select("op", "tid", "start_ns").unique(("tid", "start_ns"), keep="last")
    begin = arrows.filter(pl.col("ph") == "s").join(innermost, on=("tid", "start_ns")).unique("id", keep="first")
    to_gpu = (
        arrows.filter(pl.col("ph") == "f")
        .join(begin.select("id", "op"), on="id")
        .select("start_ns", "op", device=pl.col("tid").cast(pl.Int32, strict=False))
        .unique(("device", "start_ns"), keep="first")
    )
    joined = activities.join(to_gpu, on=("device", "start_ns"), how="left", maintain_order="left")
    how = pl.when(pl.col("op").is_not_null()).then(pl.lit("recorded")).otherwise(pl.lit("launch not recorded"))
    return joined.with_columns(how.cast(NAME).alias("op_join"))
