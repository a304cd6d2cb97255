"""CUDA and HIP graphs: what each replays and how often, how long a replay takes, and the gaps in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.activities import filtered_activities
from tui.analysis.durations import total
from tui.analysis.grouping import unique_values
from tui.analysis.memo import once_per_profile
from tui.correlation.graph_replays import GRAPH_LAUNCH
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

GRAPHS: Final = TableSpec(
    "cuda_graphs",
    "CUDA graphs",
    columns(
        *("cuda_graph", "replays", "nodes", "gpu_ns", "time_pct", "replay_avg_ns", "replay_gap_ns", "replay_gap_pct"),
        *("named_nodes", "ops_from", "first_kernel", "session"),
    ),
    key=("session", "cuda_graph"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="cuda_graph",
    min_pinned_cells=10,
)

REPLAYS: Final = TableSpec(
    "graph_replays",
    "Replays",
    columns("iteration", "start_ns", "duration_ns", "gpu_ns", "replay_gap_ns", "nodes", "correlation", "session"),
    key=("session", "correlation"),
    weight="gpu_ns",
    pinned="iteration",
    min_pinned_cells=10,
)

_REPLAY: Final = ("session", "correlation")


@once_per_profile("activities", "api_calls")
def graph_replays(profile: Profile) -> pl.DataFrame:
    """Return one row per replay, in order of start.

    Columns: session, correlation (of the launch), cuda_graph (graphs of the same kernels in the same order are one;
    they are numbered by GPU time), iteration, start_ns, duration_ns (from the first start to the last end), gpu_ns
    (summed durations of its nodes), replay_gap_ns (time within it in which none of its nodes runs), nodes, named_nodes
    (those with an op), op_join (of most nodes), first_kernel.
    """
    end, name = pl.col("start_ns") + pl.col("duration_ns").fill_null(0), pl.col("name").cast(pl.String)
    rows = (
        _replayed_work(profile)
        .sort("session", "start_ns", maintain_order=True)
        .with_columns(end.cum_max().shift(1).over(_REPLAY).alias("reached"))
        .group_by(_REPLAY, maintain_order=True)
        .agg(
            pl.col("iteration").first(),
            pl.col("start_ns").first(),
            (end.max() - pl.col("start_ns").first()).alias("duration_ns"),
            total().alias("gpu_ns"),
            (pl.col("start_ns") - pl.col("reached")).clip(0).sum().alias("replay_gap_ns"),
            pl.len().cast(pl.Int64).alias("nodes"),
            pl.col("op").count().cast(pl.Int64).alias("named_nodes"),
            pl.col("op_join").mode(maintain_order=True).first(),
            name.first().alias("first_kernel"),
            # The same kernels in the same order have the same sum.
            (pl.col("name").cast(pl.String).hash() * (pl.int_range(pl.len()).cast(pl.UInt64) * 2 + 1))
            .sum()
            .alias("key"),
        )
        .collect()
    )
    keys = ["session", "nodes", "key"]
    graphs = (
        rows.group_by(keys, maintain_order=True)
        .agg(pl.col("gpu_ns").sum(), pl.col("start_ns").min())
        .sort("session", "gpu_ns", "start_ns", descending=[False, True, False])
        .with_columns(pl.format("graph {}", pl.int_range(1, pl.len() + 1).over("session")).alias("cuda_graph"))
    )
    return rows.join(graphs.select(*keys, "cuda_graph"), on=keys, how="left", maintain_order="left").drop("key")


def cuda_graphs(profile: Profile) -> pl.DataFrame:
    """Return one row per graph, most GPU time first.

    Columns: session, cuda_graph, replays, nodes (of a replay), gpu_ns (of all replays), time_pct (of the session's GPU
    time), replay_avg_ns (mean time from the first start to the last end of a replay), replay_gap_ns (mean time within a
    replay in which no node runs), replay_gap_pct, named_nodes (nodes of a replay with an op), ops_from (the ``op_join``
    of most), first_kernel.
    """
    work = profile["activities"].group_by("session").agg(pl.col("duration_ns").sum().alias("all_ns"))
    integer = pl.Int64
    return (
        graph_replays(profile)
        .group_by("session", "cuda_graph")
        .agg(
            pl.len().cast(integer).alias("replays"),
            pl.col("nodes").first(),
            total("gpu_ns").alias("gpu_ns"),
            pl.col("duration_ns").mean().round().cast(integer).alias("replay_avg_ns"),
            pl.col("replay_gap_ns").mean().round().cast(integer),
            pl.when(pl.col("duration_ns").sum() > 0)
            .then(100 * pl.col("replay_gap_ns").sum() / pl.col("duration_ns").sum())
            .alias("replay_gap_pct"),
            pl.col("named_nodes").max(),
            pl.col("op_join").mode(maintain_order=True).first().cast(pl.String).alias("ops_from"),
            pl.col("first_kernel").first(),
        )
        .join(work, on="session", how="left")
        .with_columns(pl.when(pl.col("all_ns") > 0).then(100 * pl.col("gpu_ns") / pl.col("all_ns")).alias("time_pct"))
        .sort("session", "gpu_ns", "cuda_graph", descending=[False, True, False])
        .select(column.name for column in GRAPHS.columns)
    )


def replays_in_graph(profile: Profile, row: Mapping[str, Any] | None) -> pl.DataFrame:
    """Return the replays of a graph, in order of time.

    Args:
        profile: The profile.
        row: A row of `cuda_graphs`; None: no replays.
    """
    rows = graph_replays(profile)
    if row is None:
        return rows.clear()
    return rows.filter(pl.col("session") == row["session"], pl.col("cuda_graph") == row["cuda_graph"])


def replay_nodes(profile: Profile, row: Mapping[str, Any] | None) -> pl.DataFrame:
    """Return the GPU work of a replay, with the columns of `filtered_activities`.

    Args:
        profile: The profile.
        row: A row of `graph_replays`; None: no rows.
    """
    if row is None:
        return filtered_activities(profile)
    is_in_replay = (pl.col("session") == row["session"]) & (pl.col("correlation") == row["correlation"])
    return filtered_activities(profile, is_in_replay)


def no_graphs(profile: Profile) -> str:
    """Return why there are no graphs; empty if there are."""
    return "" if _has_replays(profile) else "no CUDA graph launches with recorded kernels"


@once_per_profile("activities", "api_calls")
def _has_replays(profile: Profile) -> bool:
    """Return whether `graph_replays` has rows, without computing them: a screen asks before its first frame."""
    calls = unique_values(profile["api_calls"]["name"]).cast(pl.String)
    return calls.str.contains(GRAPH_LAUNCH).any() and not _replayed_work(profile).head(1).collect().is_empty()


def _replayed_work(profile: Profile) -> pl.LazyFrame:
    """Return the GPU work that launches of graphs started."""
    launches = (
        profile["api_calls"]
        .lazy()
        .filter(pl.col("name").cast(pl.String).str.contains(GRAPH_LAUNCH), pl.col("correlation").is_not_null())
        .select(_REPLAY)
        .unique()
    )
    return (
        profile["activities"]
        .lazy()
        .filter(pl.col("start_ns").is_not_null(), pl.col("kind") != "graph")
        .join(launches, on=_REPLAY, how="semi")
    )
