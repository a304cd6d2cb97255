"""What ops cost beside their GPU work: CPU time that is no CUDA call, and GPU time between their own GPU work."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import total_of_parts
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.instances import op_instances
from tui.analysis.ops.tree import op_tree
from tui.analysis.ops.work import op_row_of_activities
from tui.model.forest import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.forest import Flags, Forest, Ints
    from tui.model.profile import Profile

WORK_LIMIT: Final = 100
"""So many levels of ops are looked at as if each held all GPU work; ops of real programs hold less the deeper they lie.
"""

_AT_ONCE: Final = 1 << 18
"""Spans that are sorted together."""


@once_per_profile("ops", "activities", "api_calls")
def op_overheads(profile: Profile) -> pl.DataFrame:
    """What each recorded op cost beside its GPU work: one row per row of ``ops``, in its order.

    Columns: session, op, name, cpu_total_ns, api_total_ns, cpu_overhead_ns, gpu_total_ns, gpu_idle_ns.

    - api_total_ns is the CPU time of the CUDA calls made in it, those in ops within it included; cpu_overhead_ns is the
      rest of its CPU time (DLProf: CPU time - CUDA API time). Null in sessions that record no calls.
    - gpu_idle_ns is the time from the first begin to the last end of the GPU work that it launched, ops within it
      included, in which none of that work ran, summed over the GPUs (as DLProf has it). 0 where it launched nothing,
      null in sessions without GPU work with its times, where times of that work are not known, and of the outermost ops
      where they lie so deep in each other that it would take too long (`WORK_LIMIT`).
    """
    ops = profile["ops"]
    tree = op_tree(ops)
    instances = op_instances(profile)
    api = tree.sums(instances["api_ns"].fill_null(0).to_numpy().astype(np.int64))
    idle, told = _gpu_idle(profile, tree)
    timed = (profile["activities"].lazy().drop_nulls(["start_ns", "duration_ns"]).select("session").unique().collect())[
        "session"
    ]
    return (
        instances.select("session", "op", "name", "cpu_total_ns", "gpu_total_ns", "api_ns")
        .with_columns(
            pl.when(pl.col("api_ns").is_not_null()).then(pl.lit(pl.Series(api))).alias("api_total_ns"),
            pl.when(pl.col("session").is_in(timed.implode()) & pl.lit(pl.Series(told)))
            .then(pl.lit(pl.Series(idle)))
            .alias("gpu_idle_ns"),
        )
        .with_columns((pl.col("cpu_total_ns") - pl.col("api_total_ns")).clip(0).alias("cpu_overhead_ns"))
        .select(
            "session",
            "op",
            "name",
            "cpu_total_ns",
            "api_total_ns",
            "cpu_overhead_ns",
            "gpu_total_ns",
            "gpu_idle_ns",
        )
    )


def overheads_by_name(profile: Profile) -> pl.DataFrame:
    """The same by session and name of the op, most CPU overhead first.

    Columns: session, op (the name), calls, cpu_total_ns, api_total_ns, cpu_overhead_ns, overhead_pct (of cpu_total_ns),
    gpu_total_ns, gpu_idle_ns. An op that calls itself counts in both calls.
    """
    sums = ("cpu_total_ns", "api_total_ns", "cpu_overhead_ns", "gpu_total_ns", "gpu_idle_ns")
    cpu = pl.col("cpu_total_ns")
    return (
        op_overheads(profile)
        .lazy()
        .group_by("session", pl.col("name").alias("op"))
        .agg(pl.len().cast(pl.Int64).alias("calls"), *(total_of_parts(column).alias(column) for column in sums))
        .with_columns(pl.when(cpu > 0).then(100 * pl.col("cpu_overhead_ns") / cpu).alias("overhead_pct"))
        .select("session", "op", "calls", *sums[:3], "overhead_pct", *sums[3:])
        .sort("cpu_overhead_ns", "cpu_total_ns", "op", descending=[True, True, False], nulls_last=True)
        .collect()
    )


def _gpu_idle(profile: Profile, tree: Forest) -> tuple[Ints, Flags]:
    """For each op the time between its first and last GPU work, of all ops within it, in which none of it ran.

    And whether that was found out.

    From the innermost ops outwards, each hands the stretches that its work fills to the op around it.
    """
    activities = profile["activities"]
    rows = op_row_of_activities(profile)
    timed = (activities["start_ns"].is_not_null() & activities["duration_ns"].is_not_null()).to_numpy() & (rows != NONE)
    untimed = np.bincount(rows[~timed & (rows != NONE)], minlength=len(tree.parent)).astype(np.int64)
    start = activities["start_ns"].fill_null(0).to_numpy()[timed]
    spans = pl.DataFrame(
        {
            "op": rows[timed],
            "device": activities["device"].filter(pl.Series(timed)),
            "start": start,
            "end": start + activities["duration_ns"].fill_null(0).to_numpy()[timed],
        }
    )
    depth = np.zeros(len(tree.parent), np.int64)
    for level, ops in enumerate(tree.levels):
        depth[ops] = level
    by_level = spans.with_columns(pl.Series("level", depth[spans["op"].to_numpy()]))
    own = {level: part.drop("level") for (level,), part in by_level.partition_by("level", as_dict=True).items()}
    idle, told = np.zeros(len(tree.parent), np.int64), tree.sums(untimed) == 0
    left = WORK_LIMIT * (spans.height + 1000)
    handed = spans.clear()
    for level in range(len(tree.levels) - 1, -1, -1):
        here = pl.concat([own.get(level, spans.clear()), handed])
        if here.is_empty():
            continue
        left -= here.height
        if left < 0:
            told[np.concatenate(tree.levels[: level + 1])] = False
            break
        stretches = filled(here)
        sums = stretches.group_by("op", "device").agg(
            (pl.col("end").max() - pl.col("start").min() - (pl.col("end") - pl.col("start")).sum()).alias("idle")
        )
        np.add.at(idle, sums["op"].to_numpy(), sums["idle"].to_numpy())
        around = tree.parent[stretches["op"].to_numpy()]
        handed = stretches.with_columns(pl.Series("op", around)).filter(pl.Series(around != NONE))
    return idle, told


def filled(spans: pl.DataFrame) -> pl.DataFrame:
    """The union of the spans of each op and device."""
    return pl.concat([_filled(part) for part in apart(spans)])


def apart(spans: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Spans in parts that are small enough to be sorted and grouped without much memory, each op in one of them."""
    if spans.height <= _AT_ONCE:
        yield spans
        return
    op = spans["op"].to_numpy()
    edges = np.unique(np.quantile(op, np.linspace(0, 1, 2 + spans.height // _AT_ONCE), method="nearest"))
    edges[-1] += 1
    for first, end in pairwise(edges.tolist()):
        yield spans.filter(pl.Series((op >= first) & (op < end)))


def _filled(spans: pl.DataFrame) -> pl.DataFrame:
    op, device = spans["op"].to_numpy(), spans["device"].fill_null(-1).to_numpy()
    start, end = spans["start"].to_numpy(), spans["end"].to_numpy()
    order = np.lexsort((start, device, op))
    if not len(order):
        return spans
    op, device, start, end = op[order], device[order], start[order], end[order]
    is_new = np.concatenate(([True], (op[1:] != op[:-1]) | (device[1:] != device[:-1])))
    # Ends by their places in order, so that they and the groups fit into one number however long the run is.
    by_end = np.argsort(end, kind="stable")
    place = np.empty_like(by_end)
    place[by_end] = np.arange(len(end))
    before = np.cumsum(is_new) * len(end)
    reached = end[by_end[np.maximum.accumulate(before + place) - before]]
    first = np.flatnonzero(is_new | np.concatenate(([True], start[1:] > reached[:-1])))
    return (
        spans[order[first]]
        .select("op", "device")
        .with_columns(pl.Series("start", start[first]), pl.Series("end", np.maximum.reduceat(end, first)))
    )
