"""The flame view: GPU time by group, op and kernel, each as wide as its time, with the sums of Group Ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.timelines import GpuUse, WorkKind, gpu_uses, work_kinds
from tui.analysis.iterations.iteration_table import sources
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.inferred_ops import activity_instances, inferred_instances
from tui.analysis.ops.op_attribution import activity_op_rows, op_tree, passes
from tui.analysis.ops.op_trees import (
    INFERRED,
    SEPARATOR,
    TREES,
    TreeGrouping,
    activity_nodes,
    activity_tree,
    caller_paths,
    first_tree,
    layer_paths,
    nullable_rows,
    range_paths,
    type_paths,
)
from tui.analysis.ops.op_type_rules import op_rules
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE, build_forest
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

_FRAMES: Final = ("sessions", "devices", "ops", "activities", "api_calls", "ranges", "layers", "summary")
KERNEL: Final = "kernel"
"""The ``what`` of a kernel, copy or memset."""

FLAME: Final = TableSpec(
    "flame",
    "GPU time by group, op and kernel",
    (
        *columns("node", "gpu_ns", "time_pct"),
        replace(COLUMNS["gpu_self_ns"], help="GPU time of the row without nested rows."),
        replace(COLUMNS["node_kind"], help="group, op or kernel (also copies and memsets)."),
        *columns("level", "session", "path"),
    ),
    key=("session", "path", "node_kind"),
    weight="gpu_self_ns",
    pinned="node",
    min_pinned_cells=40,
)


def nodes_around(rows: pl.DataFrame, row: int) -> pl.DataFrame:
    """Return a node with its ancestors and descendants, as the zoomed chart draws them.

    Args:
        rows: The result of `flame_by`.
        row: The index of the node.
    """
    starts, times = rows["offset_ns"].to_numpy(), rows["gpu_ns"].to_numpy()
    first, last = starts[row], starts[row] + times[row]
    keep = (starts < last) & (starts + times > first)
    positions = np.append(np.cumsum(keep) - 1, NONE)
    parents = positions[rows["parent"].to_numpy()]
    return rows.with_columns(pl.Series("parent", parents, dtype=rows.schema["parent"])).filter(pl.Series(keep))


@dataclass(frozen=True, slots=True)
class FlameGrouping(TreeGrouping):
    """A grouping of GPU time."""

    paths: Callable[[Profile], tuple[pl.Series, pl.Series]]
    """The position and name of each activity's op in the tree; null if unknown."""


def _op_paths(paths: Callable[[Profile], pl.Series], around: str) -> Callable[[Profile], tuple[pl.Series, pl.Series]]:
    """Return the positions of activities from those of recorded ops; inferred ops are below their kind of work."""

    def paths_and_nodes(profile: Profile) -> tuple[pl.Series, pl.Series]:
        rows = nullable_rows(activity_op_rows(profile))
        recorded = paths(profile).cast(NAME).gather(rows)
        instances = inferred_instances(profile)
        op_type = instances["op_type"].cast(pl.String)
        kind = op_type.replace_strict(op_rules().groups, default=op_type, return_dtype=pl.String)
        inferred = pl.select(
            pl.concat_str(*([pl.lit(around)] if around else []), kind, separator=SEPARATOR)
        ).to_series()
        inferred = inferred.cast(NAME).gather(nullable_rows(activity_instances(profile)))
        op, _node = activity_nodes(profile)
        return pl.select(pl.coalesce(recorded, inferred)).to_series(), op.cast(NAME)

    return paths_and_nodes


def _launch_paths(paths: Callable[[Profile], pl.Series]) -> Callable[[Profile], tuple[pl.Series, pl.Series]]:
    def paths_and_nodes(profile: Profile) -> tuple[pl.Series, pl.Series]:
        return paths(profile).cast(NAME), activity_nodes(profile)[1].cast(NAME)

    return paths_and_nodes


def _module_paths(profile: Profile) -> pl.Series:
    return passes(profile)["around"].cast(pl.String).fill_null("").str.replace_all("/", SEPARATOR, literal=True)


def _iteration_paths(profile: Profile) -> pl.Series:
    """Return for each activity its iteration and the part of the training step of its op."""
    activities = profile["activities"]
    step_pass = passes(profile)["pass"].cast(pl.String).str.strip_suffix("_gpu_ns")
    step_pass = step_pass.gather(nullable_rows(activity_op_rows(profile)))
    number = activities["iteration"]
    iteration = pl.when(number.is_null()).then(pl.lit("(no iteration)")).otherwise(pl.format("iteration {}", number))
    return pl.select(pl.concat_str(iteration, step_pass, separator=SEPARATOR, ignore_nulls=True)).to_series()


def _stack_paths(profile: Profile) -> pl.Series:
    """Return the call stack of each activity's op, outermost first, or that of the nearest op around it."""
    ops = profile["ops"]
    stacks = ops["stack"].cast(pl.String)
    texts = stacks.drop_nulls().unique().sort()
    numbers = (stacks.rank("dense").cast(pl.Int64) - 1).fill_null(NONE).to_numpy().copy()
    tree = op_tree(ops)
    for level in tree.levels[1:]:
        missing = level[numbers[level] == NONE]
        numbers[missing] = numbers[tree.parent[missing]]
    paths = texts.str.split(";").list.reverse().list.join(SEPARATOR)
    op_paths = paths.gather(nullable_rows(numbers)) if len(numbers) else pl.Series([], dtype=pl.String)
    return op_paths.gather(nullable_rows(activity_op_rows(profile))).fill_null("(no call stack)")


def _no_iterations(profile: Profile) -> str:
    divided = [source for source in sources(profile).values() if source != WHOLE_RUN]
    return "" if divided and profile["activities"]["iteration"].count() else "the run is not divided into iterations"


def _no_stacks(profile: Profile) -> str:
    return "" if profile["ops"]["stack"].count() else "call stacks not recorded (torch.profiler: with_stack=True)"


_FLAME_GROUPINGS: Final = {
    "module": _op_paths(_module_paths, INFERRED),
    "caller": _op_paths(caller_paths, INFERRED),
    "range": _launch_paths(range_paths),
    "layer": _launch_paths(layer_paths),
    "type": _op_paths(type_paths, ""),
}

GROUPINGS: Final = (
    *(
        FlameGrouping(tree.name, tree.title, tree.tree, tree.unavailable_reason, _FLAME_GROUPINGS[tree.name])
        for tree in TREES
    ),
    FlameGrouping(
        "iteration",
        "by iteration and phase",
        lambda profile: activity_tree(profile, _iteration_paths(profile)),
        _no_iterations,
        _launch_paths(_iteration_paths),
    ),
    FlameGrouping(
        "stack",
        "by CPU call stack",
        lambda profile: activity_tree(profile, _stack_paths(profile)),
        _no_stacks,
        _launch_paths(_stack_paths),
    ),
)
"""The groupings of the flame view: the trees of Group Ops, iterations and call stacks."""


def flame(profile: Profile) -> pl.DataFrame:
    """Return `flame_by` of the default grouping of Group Ops."""
    return flame_by(profile, first_tree(profile).name)


def exported_flame(profile: Profile) -> pl.DataFrame:
    """Return `flame` without row numbers."""
    return flame(profile).drop("parent")


def flame_by(profile: Profile, name: str) -> pl.DataFrame:
    """Return GPU time by group, op and kernel: one row per node, each followed by its children, the largest first.

    Columns: session, node, path, node_kind (group, op or kernel), level, parent (the row of the enclosing node, -1:
    none), gpu_ns (with all descendants), time_pct, gpu_self_ns (without rows below it), offset_ns (GPU time left of it,
    over all sessions), kernel_kind (of a kernel: a key of `tui.widgets.charts.bars.KIND_STYLES`). Nodes without GPU
    time are omitted.

    Args:
        profile: The profile.
        name: The name of one of `GROUPINGS`.
    """
    return _flames(profile)[name](profile)


@once_per_profile(*_FRAMES)
def _flames(_profile: Profile) -> dict[str, Callable[[Profile], pl.DataFrame]]:
    flames: dict[str, pl.DataFrame] = {}

    def maker(grouping: FlameGrouping) -> Callable[[Profile], pl.DataFrame]:
        def make(profile: Profile) -> pl.DataFrame:
            if grouping.name not in flames:
                flames[grouping.name] = _flame(profile, grouping)
            return flames[grouping.name]

        return make

    return {grouping.name: maker(grouping) for grouping in GROUPINGS}


def _flame(profile: Profile, grouping: FlameGrouping) -> pl.DataFrame:
    nodes = (
        grouping.tree(profile)
        .with_row_index("number")
        .select("number", "session", "node", "path", "node_kind", "level", "parent", "gpu_ns", "gpu_self_ns")
        .with_columns(pl.col("number").cast(pl.Int64), pl.lit(None, pl.String).alias("kernel_kind"))
        .filter(pl.col("gpu_ns") > 0)
    )
    kernels = _kernels(profile, grouping, nodes)
    rows = pl.concat([nodes, kernels], how="diagonal_relaxed")
    # Row numbers of the tree become indices of these rows.
    numbers = pl.Series("number", np.arange(nodes.height))
    path_numbers = pl.DataFrame({"parent": nodes["number"], "place": numbers})
    rows = rows.join(path_numbers, on="parent", how="left", maintain_order="left")
    parent = rows["place"].fill_null(NONE).to_numpy().astype(np.int64)
    forest = build_forest(parent)
    rank = rows.select(
        pl.struct("session", pl.col("gpu_ns").neg(), "node", "node_kind").rank("ordinal").cast(pl.Int64)
    ).to_series()
    order = forest.display_order(rank.to_numpy())
    moved = np.empty(len(order), np.int64)
    moved[order] = np.arange(len(order))
    parents = np.where(parent == NONE, NONE, moved[parent])[order]
    rows = rows[order].with_columns(pl.Series("parent", parents, dtype=pl.Int64))
    session_total = pl.col("gpu_ns").filter(pl.col("parent") == NONE).sum().over("session")
    kernel = pl.col("node_kind") == KERNEL
    kernel_sums = rows.filter(kernel).group_by("parent").agg(pl.col("gpu_ns").sum().alias("in_kernels"))
    own_rows = rows.with_row_index("row").select(pl.col("row").cast(pl.Int64).alias("parent")).join(
        kernel_sums, on="parent", how="left", maintain_order="left"
    )["in_kernels"]  # fmt: skip
    return rows.with_columns(
        (pl.col("gpu_self_ns") - own_rows.fill_null(0)).alias("gpu_self_ns"),
        (100 * pl.col("gpu_ns") / session_total).alias("time_pct"),
        pl.Series("offset_ns", _offsets(parents, rows["gpu_ns"].to_numpy()), dtype=pl.Int64),
    ).select(
        "session",
        "node",
        "path",
        "node_kind",
        "level",
        "parent",
        "gpu_ns",
        "time_pct",
        "gpu_self_ns",
        "offset_ns",
        "kernel_kind",
    )


def _offsets(parent: np.ndarray, gpu_ns: np.ndarray) -> np.ndarray:
    """Return the GPU time left of each row: the offset of its parent plus earlier siblings."""
    offsets = np.zeros(len(parent), np.int64)
    for level in build_forest(parent).levels:
        rows = np.sort(level)
        rows = rows[np.argsort(parent[rows], kind="stable")]
        earlier_ns = np.cumsum(gpu_ns[rows]) - gpu_ns[rows]
        parents = parent[rows]
        first = np.ones(len(rows), np.bool_)
        first[1:] = parents[1:] != parents[:-1]
        start = earlier_ns[first][np.cumsum(first) - 1] if len(rows) else earlier_ns
        around = np.where(parents == NONE, 0, offsets[parents])
        offsets[rows] = earlier_ns - start + around
    return offsets


_KERNEL_KINDS: Final = ("unknown", "tensor", "other", "memory", "memset", "communication")


def _kernels(profile: Profile, grouping: FlameGrouping, nodes: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels below the nodes whose own GPU time is exactly theirs."""
    activities = profile["activities"]
    activity_path, node = grouping.paths(profile)
    uses, kinds = gpu_uses(profile), work_kinds(profile)
    codes = np.full(len(uses), _KERNEL_KINDS.index("unknown"), np.int8)
    codes[uses == GpuUse.YES] = _KERNEL_KINDS.index("tensor")
    codes[uses == GpuUse.NO] = _KERNEL_KINDS.index("other")
    codes[uses == GpuUse.MEMORY] = _KERNEL_KINDS.index("memory")
    codes[kinds == WorkKind.MEMSET] = _KERNEL_KINDS.index("memset")
    codes[kinds == WorkKind.COMMUNICATION] = _KERNEL_KINDS.index("communication")
    path = pl.concat_str(pl.when(pl.col("place") != "").then("place"), "node", separator="/", ignore_nulls=True)
    rows = (
        pl.DataFrame(
            {
                "session": activities["session"],
                "place": activity_path,
                "node": node,
                "name": activities["name"],
                "gpu_ns": activities["duration_ns"],
                "kernel_kind": codes,
            }
        )
        .drop_nulls(["place", "node", "name", "gpu_ns"])
        .group_by("session", "place", "node", "name", maintain_order=True)
        .agg(pl.col("gpu_ns").sum(), pl.col("kernel_kind").first())
        .with_columns(pl.col("place", "node", "name").cast(pl.String))
        .with_columns(pl.col("kernel_kind").replace_strict(dict(enumerate(_KERNEL_KINDS)), return_dtype=pl.String))
        .with_columns(path.str.replace_all(SEPARATOR, "/", literal=True).alias("around"))
        .group_by("session", "around", "name", maintain_order=True)
        .agg(pl.col("gpu_ns").sum(), pl.col("kernel_kind").first())
        .filter(pl.col("gpu_ns") > 0)
    )
    single = pl.len().over("session", "path") == 1
    selected = nodes.filter(single, pl.col("gpu_self_ns") > 0).select(
        "session", pl.col("path").alias("around"), "number", "level", "gpu_self_ns"
    )
    rows = rows.join(selected, on=["session", "around"], how="inner", maintain_order="left")
    exact = pl.col("gpu_ns").sum().over("number") == pl.col("gpu_self_ns")
    return rows.filter(exact).select(
        "session",
        pl.col("name").alias("node"),
        pl.concat_str("around", "name", separator="/").alias("path"),
        pl.lit(KERNEL).alias("node_kind"),
        (pl.col("level") + 1).alias("level"),
        pl.col("number").alias("parent"),
        "gpu_ns",
        pl.col("gpu_ns").alias("gpu_self_ns"),
        "kernel_kind",
    )


def matching_nodes(rows: pl.DataFrame, text: str) -> tuple[pl.Series, int]:
    """Return the nodes whose name contains a text, and their GPU time without double counting.

    Args:
        rows: The result of `flame_by`.
        text: The text to find; a capital letter makes the search case-sensitive.
    """
    names = rows["node"] if text != text.lower() else rows["node"].str.to_lowercase()
    is_match = names.str.contains(text, literal=True) if text else pl.repeat(False, rows.height, eager=True)
    flags = is_match.fill_null(False).to_numpy()
    forest = build_forest(rows["parent"].to_numpy().astype(np.int64))
    inside = np.zeros(rows.height, np.bool_)
    for level in forest.levels[1:]:
        parents = forest.parent[level]
        inside[level] = inside[parents] | flags[parents]
    outermost = pl.Series(flags & ~inside)
    return pl.Series(flags), int(rows["gpu_ns"].filter(outermost).sum())


def with_growth(rows: pl.DataFrame, baseline: pl.DataFrame, per: tuple[int, int] = (1, 1)) -> pl.DataFrame:
    """Return a flame with the compared time of each node, and its change against a baseline.

    Its columns are compared_ns, growth_ns and growth_pct (null for new nodes).

    Args:
        rows: The candidate's `flame_by`.
        baseline: The baseline's, with the same grouping.
        per: The divisors of the times of candidate and baseline, such as their numbers of iterations.
    """
    baseline_ns = baseline.group_by("path", "node_kind").agg(pl.col("gpu_ns").sum().alias("before_ns"))
    candidate_ns = rows.group_by("path", "node_kind").agg(pl.col("gpu_ns").sum().alias("now_ns"))
    joined = rows.select("path", "node_kind").join(
        candidate_ns, on=["path", "node_kind"], how="left", maintain_order="left"
    )
    joined = joined.join(baseline_ns, on=["path", "node_kind"], how="left", maintain_order="left")
    candidate, base = pl.col("now_ns") / per[0], pl.col("before_ns") / per[1]
    growth = joined.select(
        candidate.round().cast(pl.Int64).alias("compared_ns"),
        (candidate - base.fill_null(0)).round().cast(pl.Int64).alias("growth_ns"),
        pl.when(base > 0).then(100 * (candidate - base) / base).alias("growth_pct"),
    )
    return rows.hstack(growth)
