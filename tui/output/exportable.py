"""Every frame that can be exported, by its name: the frames of the model and what is aggregated from them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from tui.model.profile import Profile
    from tui.query.sql.run import Tables

MODEL_FRAMES: Final = (
    "sessions",
    "devices",
    "activities",
    "api_calls",
    "ops",
    "ranges",
    "summary",
    "metrics",
    "layers",
    "tool_figures",
    "tool_findings",
    "memory_events",
    "issues",
)
"""The frames of `tui.model.schema`, which is not imported here: the command line names them before polars is needed."""

AGGREGATES: Final = (
    "kernels",
    "api",
    "ops_by_name",
    "op_types",
    "op_type_summary",
    "op_instances",
    "op_forest",
    "op_kernels",
    "occupancy",
    "iterations",
    "iteration_work",
    "iteration_times",
    "key_choices",
    "ranges_by_name",
    "range_instances",
    "gpus",
    "layer_times",
    "layer_totals",
    "findings",
    "breakdown",
    "idle_time",
    "gaps",
    "gap_summary",
    "overlap",
    "launch_delays",
    "delays_by_name",
    "op_overheads",
    "transfers",
    "transfer_sizes",
    "tiny_runs",
    "timeline_lanes",
    "single_transfers",
    "unified_memory",
    "allocators",
    "allocator_iterations",
    "streams",
    "ranks",
    "rank_iterations",
    "slowest_ranks",
    "op_type_ranks",
    "op_ranks",
    "ranks_of_op",
    "collective_kinds",
    "collectives",
    "collective_ranks",
    "api_threads",
    "api_errors",
    "ranges_by_depth",
)
"""What is computed: GPU work and API calls by name, ops by name and by type, kernels with the op that each belongs to,
launch configurations with their theoretical occupancy, iterations, ranges by name and one by one with the GPU work
launched within them, GPUs with their use, layer times measured and predicted side by side, what the rules of the
Expert System say; where wall time went, what idle time is made of, gaps one by one and summed, what ran at once, how
long launches waited one by one and by name, what ops cost beside their GPU work, copies by direction and by size, and
runs of tiny ones; copies one by one, unified memory by name, what the framework's allocator gave out in all and by
iteration; iterations by their kernels, how long they take, and what could be their key; streams, ranks side by side,
their iterations, ops and collectives, API calls by thread and those that failed, ranges by depth; the lanes of the
timeline.
"""

NAMES: Final = (*MODEL_FRAMES, *AGGREGATES)


def frame(profile: Profile, name: str, *, gpu: str | None = None) -> pl.DataFrame:
    """A frame to export.

    Args:
        profile: What was read.
        name: One of `NAMES`.
        gpu: The name of the GPU, as the user gives it.
    """
    if name in MODEL_FRAMES:
        return profile[name]
    from tui.analysis import api, api_errors, api_threads, gpus, kernels, layers, range_depths, ranges
    from tui.analysis.expert import findings
    from tui.analysis.gpu_time import breakdown, gaps, overlap, streams
    from tui.analysis.iterations import key_choices
    from tui.analysis.iterations import times as iteration_times
    from tui.analysis.iterations import uses as iteration_uses
    from tui.analysis.iterations import work as iteration_work
    from tui.analysis.launches import delays as launch_delays
    from tui.analysis.occupancy import theoretical as occupancy
    from tui.analysis.ops import by_instance, trees, type_summary
    from tui.analysis.ops import by_type as op_types
    from tui.analysis.ops import overheads as op_overheads
    from tui.analysis.ops import tables as ops
    from tui.analysis.ranks import spread as rank_spread
    from tui.analysis.ranks import tables as ranks
    from tui.analysis.ranks import waits as rank_waits
    from tui.analysis.timeline.tables import timeline_lanes
    from tui.analysis.transfers import allocations, copy_runs, moves, unified
    from tui.analysis.transfers import tables as transfers

    aggregates: dict[str, Callable[[], pl.DataFrame]] = {
        "kernels": lambda: kernels.kernels(profile).select(kernels.KERNEL_EXPORT),
        "api": lambda: api.api(profile).select(kernels.KERNEL_EXPORT),
        "ops_by_name": lambda: ops.by_name(profile),
        "op_types": lambda: op_types.op_types(profile),
        "op_type_summary": lambda: type_summary.op_type_summary(profile),
        "op_instances": lambda: by_instance.instances(profile),
        "op_forest": lambda: trees.group_ops(profile).drop("parent"),
        "op_kernels": lambda: ops.kernels_with_ops(profile),
        "occupancy": lambda: occupancy.occupancy(profile, gpu=gpu),
        "iterations": lambda: iteration_uses.iterations_with_uses(profile).drop("aggregated"),
        "iteration_work": lambda: iteration_work.iteration_work(profile),
        "iteration_times": lambda: iteration_times.iteration_times(profile),
        "key_choices": lambda: key_choices.key_choices(profile),
        "ranges_by_name": lambda: ranges.ranges_by_name(profile),
        "range_instances": lambda: ranges.range_instances(profile),
        "gpus": lambda: gpus.gpus(profile, gpu=gpu),
        "layer_times": lambda: layers.layers(profile),
        "layer_totals": lambda: layers.layer_totals(profile),
        "findings": lambda: findings.findings(profile, gpu=gpu),
        "breakdown": lambda: breakdown.breakdown(profile),
        "idle_time": lambda: gaps.idle_time(profile),
        "gaps": lambda: gaps.gaps(profile),
        "gap_summary": lambda: gaps.gap_summary(profile),
        "overlap": lambda: overlap.overlap(profile),
        "launch_delays": lambda: launch_delays.launch_delays(profile),
        "delays_by_name": lambda: launch_delays.delays_by_name(profile),
        "op_overheads": lambda: op_overheads.overheads_by_name(profile),
        "transfers": lambda: transfers.transfers(profile),
        "transfer_sizes": lambda: transfers.transfer_sizes(profile),
        "tiny_runs": lambda: copy_runs.tiny_runs(profile),
        "timeline_lanes": lambda: timeline_lanes(profile),
        "single_transfers": lambda: moves.single_transfers(profile),
        "unified_memory": lambda: unified.unified_memory(profile),
        "allocators": lambda: allocations.allocators(profile),
        "allocator_iterations": lambda: allocations.allocator_iterations(profile),
        "streams": lambda: streams.streams(profile),
        "ranks": lambda: ranks.ranks(profile),
        "rank_iterations": lambda: ranks.rank_iterations(profile),
        "slowest_ranks": lambda: rank_spread.slowest_ranks(profile),
        "op_type_ranks": lambda: rank_spread.op_type_ranks(profile),
        "op_ranks": lambda: rank_spread.op_ranks(profile),
        "ranks_of_op": lambda: rank_spread.ranks_of_op(profile),
        "collective_kinds": lambda: rank_waits.collective_kinds(profile),
        "collectives": lambda: rank_waits.matched_collectives(profile),
        "collective_ranks": lambda: rank_waits.collective_ranks(profile),
        "api_threads": lambda: api_threads.api_threads(profile),
        "api_errors": lambda: api_errors.api_errors(profile),
        "ranges_by_depth": lambda: range_depths.ranges_by_depth(profile),
    }
    return aggregates[name]()


@cache
def _nothing() -> Profile:
    """A profile without a row: one for all, so that what several aggregates are made of is worked out once."""
    from tui.model.profile import Profile
    from tui.model.schema import empty

    return Profile({name: empty(name) for name in MODEL_FRAMES}, ())


@cache
def _columns(name: str) -> tuple[str, ...]:
    """The columns of an aggregate, which are the same whatever there is to aggregate."""
    return tuple(frame(_nothing(), name).columns)


def sql_tables(profile: Profile, notes: Callable[[], pl.DataFrame], *, gpu: str | None = None) -> Tables:
    """Every frame as a table for SQL, each computed when it is named.

    Args:
        profile: What was read.
        notes: Gives the notes on its rows as they are now: `tui.analysis.notes.notes_frame`.
        gpu: The name of the GPU, as the user gives it.
    """
    from tui.query.sql.run import Tables

    recorded = {name: profile[name] for name in MODEL_FRAMES}
    return Tables(recorded, AGGREGATES, lambda name: frame(profile, name, gpu=gpu), {"notes": notes}, _columns)
