"""The tables of each view, for reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tui.analysis import (
    api,
    api_errors,
    api_threads,
    gpus,
    issues,
    kernels,
    layers,
    metrics,
    range_depths,
    ranges,
    summaries,
    tool_report,
)
from tui.analysis.gpu_time import streams
from tui.analysis.iterations import op_work as iteration_ops
from tui.analysis.iterations import uses as iteration_uses
from tui.analysis.iterations import work as iteration_work
from tui.analysis.ops import op_forest, trees, type_summary
from tui.analysis.ops import tables as ops
from tui.analysis.ranks import spread as rank_spread
from tui.analysis.ranks import tables as ranks
from tui.analysis.ranks import waits as rank_waits
from tui.analysis.timeline import tables as lane_tables
from tui.analysis.transfers import allocations as allocators
from tui.analysis.transfers import copy_runs, unified
from tui.analysis.transfers import tables as transfers
from tui.output.report_lanes import lane_picture

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile
    from tui.model.view import TableSpec
    from tui.output.report import Style


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a view."""

    spec: TableSpec
    make: Callable[..., pl.DataFrame]
    """The analysis function that makes its frame."""
    summed: bool = False
    """Its weights add up to something that has a meaning."""
    spec_for: Callable[[Profile], TableSpec] | None = None
    """Where the columns depend on what the input holds: the table for a profile."""
    by_gpu: bool = False
    """The function takes the name of the GPU, as the user gives it."""

    def rows(self, profile: Profile, gpu: str | None) -> pl.DataFrame:
        """Its rows."""
        return self.make(profile, gpu=gpu) if self.by_gpu else self.make(profile)


@dataclass(frozen=True, slots=True)
class TableView:
    """A view that is made of tables."""

    capability: str
    """The name under which `tui.analysis.inputs.capabilities` says whether the input feeds it."""
    table: Table
    """The first table; below it stand those of the others that have rows."""
    others: tuple[Table, ...] = ()
    picture: Callable[[Profile, Style], list[str]] | None = None
    """What is drawn as text before the tables."""


VIEWS: Final[Mapping[str, TableView]] = {
    "op-types": TableView("op-types", Table(type_summary.OP_TYPE_SUMMARY, type_summary.op_type_summary, summed=True)),
    "group-ops": TableView("group-ops", Table(op_forest.OP_FOREST, trees.group_ops)),
    "ops": TableView("ops-and-kernels", Table(ops.OPS, ops.ops, summed=True, spec_for=ops.ops_spec)),
    "kernels": TableView("kernels", Table(kernels.KERNELS, kernels.kernels, summed=True)),
    "api": TableView(
        "api-calls",
        Table(api.API, api.api, summed=True),
        (
            Table(api_threads.API_THREADS, api_threads.api_threads),
            Table(api_errors.API_ERRORS, api_errors.api_errors),
        ),
    ),
    "layers": TableView(
        "layers", Table(layers.LAYERS, layers.layers), (Table(layers.LAYER_TOTALS, layers.layer_totals),)
    ),
    "metrics": TableView("metrics", Table(metrics.METRICS, metrics.metrics)),
    "iterations": TableView(
        "iterations", Table(iteration_uses.ITERATIONS_WITH_USES, iteration_uses.iterations_with_uses, summed=True)
    ),
    "kernels-by-iteration": TableView(
        "kernels-by-iteration",
        Table(iteration_work.ITERATION_WORK, iteration_work.iteration_work, summed=True),
        (
            Table(
                replace(iteration_work.ITERATION_LAUNCHES, title="Launches of the slowest iteration"),
                iteration_work.launches_of_slowest,
            ),
        ),
    ),
    "kernels-by-op": TableView(
        "kernels-by-op",
        Table(iteration_work.ITERATION_WORK, iteration_work.iteration_work, summed=True),
        (
            Table(
                replace(iteration_ops.ITERATION_OPS, title="Ops of the slowest iteration"),
                iteration_ops.ops_of_slowest,
            ),
        ),
    ),
    "ranges": TableView(
        "ranges",
        Table(ranges.RANGES, ranges.ranges_by_name),
        (Table(range_depths.RANGE_DEPTHS, range_depths.ranges_by_depth),),
    ),
    "gpus": TableView(
        "gpus",
        Table(gpus.GPUS, gpus.gpus, by_gpu=True),
        (
            Table(streams.STREAMS, streams.streams),
            Table(ranks.RANKS, ranks.ranks),
            Table(ranks.RANK_ITERATIONS, ranks.rank_iterations),
        ),
    ),
    "ranks": TableView(
        "gpus",
        Table(ranks.RANKS, ranks.ranks),
        (
            Table(rank_spread.SLOWEST_RANKS, rank_spread.slowest_ranks),
            Table(rank_spread.OP_TYPE_RANKS, rank_spread.op_type_ranks),
            Table(rank_spread.OP_RANKS, rank_spread.op_ranks),
            Table(rank_waits.COLLECTIVE_KINDS, rank_waits.collective_kinds),
        ),
    ),
    "memory": TableView(
        "memory",
        Table(transfers.TRANSFERS, transfers.transfers, summed=True),
        (
            Table(transfers.TRANSFER_SIZES, transfers.transfer_sizes),
            Table(copy_runs.TINY_RUNS, copy_runs.tiny_runs),
            Table(unified.UNIFIED, unified.unified_memory),
            Table(allocators.ALLOCATORS, allocators.allocators),
            Table(allocators.ALLOCATOR_ITERATIONS, allocators.allocator_iterations),
        ),
    ),
    "timeline": TableView(
        "timeline", Table(lane_tables.TIMELINE_LANES, lane_tables.timeline_lanes), picture=lane_picture
    ),
    "summaries": TableView("summaries", Table(summaries.OTHER_SUMMARIES, summaries.other_summaries)),
    "tool-report": TableView("tool-report", Table(tool_report.TOOL_REPORT, tool_report.tool_report)),
    "issues": TableView("issues", Table(issues.ISSUES, issues.issues)),
}
