"""Group Ops: the trees of ops (by module, caller, NVTX range, layer or type), with the summed cost of each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import polars as pl

from tui.analysis.durations import sum_of_known, total
from tui.analysis.kernels import kernels
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.inferred_ops import activity_instances, inferred_instances
from tui.analysis.ops.op_attribution import (
    PASSES,
    activity_op_rows,
    op_tree,
    passes,
    recorded_sessions,
    training_sessions,
)
from tui.analysis.ops.op_costs import recorded_ops, self_times
from tui.analysis.ops.op_instances import UNATTRIBUTED
from tui.analysis.ops.op_type_rules import UNKNOWN, op_rules
from tui.analysis.ops.ops_by_name import inferred_ops, printed_op_sessions, printed_ops
from tui.analysis.tensor_core_efficiency import eligible_ops
from tui.analysis.tensor_core_use import verdicts_by_name
from tui.correlation.launches import add_launch_columns, enclosing_rows, nest
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE, Forest, build_forest
from tui.model.profile import session_rows
from tui.model.table_spec import UNINFORMATIVE_PRIORITY, TableSpec

if TYPE_CHECKING:
    from tui.model.forest import Ints
    from tui.model.profile import Profile


SEPARATOR: Final = "\x1f"
"""Between the groups of a place: names of ops can hold slashes."""

MAX_LEVELS: Final = 100
"""Deeper groups are merged into one row; real programs are a few dozen levels deep."""

SUMMED: Final = (
    *("calls", "launches", "untimed_launches", "gpu_ns", "cpu_own_ns", "cpu_overhead_ns", "gpu_idle_ns"),
    *("eligible_ops", "tc_ops"),
    *PASSES,
)
"""The columns that are summed over all descendants of a group."""

LEAVES: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "place": pl.String,
        "node": pl.String,
        **dict.fromkeys(SUMMED, pl.Int64),
        "op": pl.String,
        "op_type": pl.String,
        "op_source": pl.String,
    }
)
"""Ops with their groups, outermost first, separated by `SEPARATOR`; empty if in none."""

OP_FOREST: Final = TableSpec(
    "op_groups",
    "Groups and ops",
    (
        *columns("node", "gpu_ns", "time_pct", *PASSES),
        *columns("calls", "cpu_own_ns"),
        replace(COLUMNS["cpu_overhead_ns"], priority=4),
        *columns("launches", "gpu_idle_ns"),
        replace(COLUMNS["gpu_self_ns"], priority=6, help="GPU time of the row without nested rows."),
        *columns("eligible_ops", "tc_ops"),
        # The indentation of the name and the sign before it show both.
        *(replace(COLUMNS[name], priority=UNINFORMATIVE_PRIORITY) for name in ("level", "node_kind")),
        *columns("op_type", "op_source"),
        *columns("untimed_launches", "session", "path"),
    ),
    key=("session", "path", "node_kind"),
    sort=(("gpu_ns", True),),
    weight="gpu_self_ns",
    pinned="node",
    min_pinned_cells=40,
)


def op_forest(profile: Profile, leaves: pl.DataFrame) -> pl.DataFrame:
    """Return ops with their groups: one row per node, each followed by its children, the largest first.

    Columns: session, node (its name), path (names from the outermost on, ``/`` between), node_kind (group or op), level
    (1: a whole session), parent (the row of the parent, -1: none), `SUMMED` (with all descendants), time_pct (its share
    of the session's GPU time), gpu_self_ns (without rows below it), op, op_type and op_source (of ops).

    Args:
        profile: The profile of the sessions.
        leaves: As `LEAVES`; rows with the same place and node are summed.
    """
    position_sums = _sums_by_position(leaves)
    groups = _group_rows(position_sums, has_sessions=profile["sessions"].height > 1)
    # An op that contains other ops is a group with work of its own.
    also = position_sums.join(groups.filter(pl.col("key") != ""), on=["session", "key"], how="semi")
    groups = groups.join(
        also.select("session", "key", *SUMMED, "op", "op_type", "op_source"), on=["session", "key"], how="left",
        maintain_order="left",
    )  # fmt: skip
    position_sums = position_sums.join(also, on=["session", "key"], how="anti", maintain_order="left")
    rows = pl.concat([groups, position_sums], how="diagonal_relaxed").with_columns(pl.col("level").cast(pl.Int64))
    if rows.is_empty():
        return _empty()
    rows = rows.with_row_index("row")
    around = (
        rows.filter(pl.col("node_kind") == "group")
        .select("session", pl.col("key").alias("place"), pl.col("row").cast(pl.Int64).alias("parent"))
    )  # fmt: skip
    rows = rows.join(around, on=["session", "place"], how="left", maintain_order="left", nulls_equal=True)
    forest = build_forest(rows["parent"].fill_null(NONE).to_numpy().astype(np.int64))
    # A group without work of its own has self time 0 if the time of its children is known.
    unknown_rows = rows.select(pl.col("gpu_ns").is_null() & (pl.col("launches").fill_null(0) > 0)).to_series()
    self_ns = rows["gpu_ns"].fill_null(0).to_numpy().astype(np.int64)
    sums = [_sum(forest, rows[name], unknown_rows if name == "gpu_ns" else None) for name in SUMMED]
    rows = rows.with_columns(*sums).with_columns(
        pl.when(pl.col("gpu_ns").is_not_null() & ~pl.lit(unknown_rows))
        .then(pl.Series("gpu_self_ns", self_ns))
        .alias("gpu_self_ns"),
    )
    rank = rows.select(
        pl.struct(
            pl.col("gpu_ns").fill_null(0).neg(), pl.col("cpu_own_ns").fill_null(0).neg(), "session", "node", "node_kind"
        )
        .rank("ordinal")
        .cast(pl.Int64)
    ).to_series()
    order = forest.display_order(rank.to_numpy())
    moved = np.empty(len(order), np.int64)
    moved[order] = np.arange(len(order))
    parents = rows["parent"].fill_null(NONE).to_numpy().astype(np.int64)
    parent = np.where(parents == NONE, NONE, moved[parents])
    session_total = pl.col("gpu_self_ns").sum().over("session")
    return (
        rows.with_columns(pl.Series("parent", parent))
        .with_columns(pl.when(session_total > 0).then(100 * pl.col("gpu_ns") / session_total).alias("time_pct"))
        .select("session", "node", "path", "node_kind", "level", "parent", *SUMMED, "time_pct", "gpu_self_ns",
                "op", "op_type", "op_source")
        [order]
    )  # fmt: skip


def _empty() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "session": pl.UInt32, "node": pl.String, "path": pl.String, "node_kind": pl.String, "level": pl.Int64,
            "parent": pl.Int64, **dict.fromkeys(SUMMED, pl.Int64), "time_pct": pl.Float64, "gpu_self_ns": pl.Int64,
            "op": pl.String, "op_type": pl.String, "op_source": pl.String,
        }
    )  # fmt: skip


def _sums_by_position(leaves: pl.DataFrame) -> pl.DataFrame:
    """Return the sums of ops by session, position and name, with level and path."""
    sums = (sum_of_known(name).alias(name) for name in SUMMED)
    levels = pl.col("place").str.split(SEPARATOR)
    too_deep = levels.list.len() > MAX_LEVELS
    cut = pl.concat_list(levels.list.head(MAX_LEVELS - 1), levels.list.slice(MAX_LEVELS - 1).list.join("/")).list.join(
        SEPARATOR
    )
    path = pl.when(too_deep).then(cut).otherwise("place")
    depth = (
        pl.when(pl.col("place") == "").then(0).otherwise(pl.col("place").str.count_matches(SEPARATOR, literal=True) + 1)
    )
    return (
        leaves.with_columns(path.alias("place"))
        .group_by("session", "place", "node", maintain_order=True)
        .agg(*sums, pl.col("op", "op_type", "op_source").first())
        .with_columns(
            pl.lit("op").alias("node_kind"),
            pl.concat_str(
                pl.when(pl.col("place") != "").then("place"), "node", separator=SEPARATOR, ignore_nulls=True
            ).alias("key"),
            (depth + 2).alias("level"),
            pl.concat_str(pl.when(pl.col("place") != "").then("place"), "node", separator="/", ignore_nulls=True)
            .str.replace_all(SEPARATOR, "/", literal=True)
            .alias("path"),
        )
    )


def _group_rows(sums: pl.DataFrame, *, has_sessions: bool) -> pl.DataFrame:
    """Return all groups that ops are in, and their ancestors, with the parent of each; the session is the root.

    ``key`` is the place of the group, ``place`` that of its parent: null for a session, whose ``key`` is "".
    """
    paths = sums.select("session", "place").unique(maintain_order=True)
    roots = paths.select("session").unique(maintain_order=True).with_columns(
        pl.lit(None, pl.String).alias("place"), pl.lit("").alias("key"), pl.lit("").alias("path"),
        (pl.format("all of session {}", "session") if has_sessions else pl.lit("all")).alias("node"),
        pl.lit(1).alias("level"),
    )  # fmt: skip
    levels = pl.col("place").str.split(SEPARATOR)
    ancestors = (
        paths.filter(pl.col("place") != "")
        .with_columns(pl.int_ranges(1, levels.list.len() + 1).alias("depth"))
        .explode("depth")
        .with_columns(levels.list.head("depth").alias("names"))
        .select(
            "session",
            pl.col("names").list.head(pl.col("depth") - 1).list.join(SEPARATOR).alias("place"),
            pl.col("names").list.join(SEPARATOR).alias("key"),
            pl.col("names").list.join("/").alias("path"),
            pl.col("names").list.last().alias("node"),
            (pl.col("depth") + 1).alias("level"),
        )
        .unique(["session", "key"], maintain_order=True)
    )
    return pl.concat([roots, ancestors], how="vertical_relaxed").with_columns(pl.lit("group").alias("node_kind"))


def _sum(forest: Forest, values: pl.Series, unknown_rows: pl.Series | None = None) -> pl.Series:
    """Return subtree sums; null if nothing is known, or if unknown rows could change a sum of 0.

    Args:
        forest: The rows.
        values: The values to sum; null for rows without a value of their own.
        unknown_rows: Flags of rows that have a value which is not known.
    """
    sums = forest.subtree_sums(values.fill_null(0).to_numpy().astype(np.int64))
    total = pl.Series(values.name, sums)
    is_known = forest.subtree_sums(values.is_not_null().to_numpy().astype(np.int64)) > 0
    if unknown_rows is not None:
        is_known &= (sums != 0) | (forest.subtree_sums(unknown_rows.to_numpy().astype(np.int64)) == 0)
    return pl.select(pl.when(pl.lit(pl.Series(is_known))).then(pl.lit(total)).alias(values.name)).to_series()


INFERRED: Final = "(ops inferred from kernel names)"
"""The group of sessions without recorded ops, in trees that need them."""

NO_RANGE: Final = "(outside ranges)"

_FRAMES: Final = ("sessions", "devices", "ops", "activities", "api_calls", "ranges", "layers", "summary")

_AT_ONCE: Final = 1 << 20
"""Launches processed together."""


def numbered_paths(forest: Forest, names: pl.Series) -> tuple[pl.Series, Ints]:
    """Return the number of each row's place, the names from the root; and the texts of the places by number.

    Number 0 is no place. The loop runs once for each distinct place, not for each row.
    """
    texts, chain = [""], np.zeros(names.len(), np.int64)
    codes = names.cast(pl.Categorical).to_physical().fill_null(0).to_numpy().astype(np.int64)
    width = int(codes.max(initial=0)) + 1
    for depth, level in enumerate(forest.levels[:MAX_LEVELS]):
        parent_chain = chain[forest.parent[level]] if depth else np.zeros(len(level), np.int64)
        pairs, first, inverse = np.unique(parent_chain * width + codes[level], return_index=True, return_inverse=True)
        for pair, row in zip(pairs.tolist(), level[first].tolist(), strict=True):
            around = texts[pair // width]
            texts.append(f"{around}{SEPARATOR}{names[row]}" if around else str(names[row]))
        chain[level] = inverse + (len(texts) - len(pairs))
    return pl.Series("place", texts), chain


def _leaves(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with all columns of `LEAVES`."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in LEAVES.items()
    )


@once_per_profile(*_FRAMES)
def recorded_leaves(profile: Profile) -> pl.DataFrame:
    """Return every recorded op with its self times: the columns of `LEAVES`, group, and whether it is a call.

    ``eligible`` and ``on_tc`` are flags: whether the op can use tensor cores, and whether it does. In sessions with
    backward ops, the columns `PASSES` divide the GPU time; ``around`` is that of `passes`.
    """
    costs = self_times(profile)
    ops = profile["ops"]
    types = recorded_ops(profile).filter(pl.col("why_no_op").is_null())
    types = types.select("session", pl.col("op").cast(pl.String).alias("node"), pl.col("op_type").cast(pl.String))
    trains = pl.col("session").is_in(training_sessions(profile).implode())
    is_pass = {name: pl.when(pl.col("pass") == name).then(pl.col("gpu_ns")).otherwise(0) for name in PASSES}
    return (
        costs.rename({"op": "number"})
        .with_columns(
            ops["group"].cast(pl.String).alias("group"),
            ops["op_source"].cast(pl.String),
            ops["op_id"].cast(pl.String),
            eligible_ops(profile)["tc_eligible"].alias("eligible"),
            pl.Series("on_tc", _on_tensor_cores(profile)),
            (pl.col("call") == pl.col("number")).cast(pl.Int64).alias("calls"),
            pl.col("name").cast(pl.String).alias("node"),
        )
        .join(types, on=["session", "node"], how="left", maintain_order="left")
        .hstack(passes(profile))
        .with_columns(pl.when(trains).then(time).alias(name) for name, time in is_pass.items())
    )  # fmt: skip


def _on_tensor_cores(profile: Profile) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each recorded op whether a kernel that it launched itself uses tensor cores."""
    flags = np.zeros(profile["ops"].height, np.bool_)
    rows = activity_op_rows(profile)
    on_tensor_cores = (
        verdicts_by_name(profile).filter(pl.col("uses_tensor_core")).select("session", "kind", "name", on_tc=True)
    )
    work = profile["activities"].select("session", "kind", "name", "uses_tensor_core")
    for first, chunk in enumerate(work.iter_slices(_AT_ONCE)):
        uses = chunk.join(on_tensor_cores, on=["session", "kind", "name"], how="left", maintain_order="left").select(
            pl.coalesce("uses_tensor_core", "on_tc").fill_null(False)
        )
        op_rows = rows[first * _AT_ONCE : (first + 1) * _AT_ONCE]
        flags[op_rows[(op_rows != NONE) & uses.to_series().to_numpy()]] = True
    return flags


def _grouped_by_position(ops: pl.DataFrame, place: pl.Expr) -> pl.DataFrame:
    """Group recorded ops by position and name."""
    sums = tuple(name for name in SUMMED if name in ops.columns)
    op = pl.coalesce("op_id", "node")
    return _leaves(
        ops.with_columns(place.alias("place"))
        .group_by("session", "place", "node", maintain_order=True)
        .agg(
            *(sum_of_known(name).alias(name) for name in sums),
            op.filter(pl.col("eligible").fill_null(False)).n_unique().cast(pl.Int64).alias("eligible_ops"),
            op.filter("on_tc").n_unique().cast(pl.Int64).alias("tc_ops"),
            pl.col("node").first().alias("op"),
            pl.col("op_type", "op_source").first(),
        )
    )


def _without_op(profile: Profile) -> pl.DataFrame:
    """Return the GPU work without an op in sessions with recorded ops, by reason."""
    unattributed = recorded_ops(profile).filter(pl.col("why_no_op").is_not_null())
    trains = pl.col("session").is_in(training_sessions(profile).implode())
    return _leaves(
        unattributed.select(
            "session",
            *(pl.when(trains).then("gpu_self_ns" if name == PASSES[-1] else pl.lit(0)).alias(name) for name in PASSES),
            pl.lit("").alias("place"),
            pl.col("op").cast(pl.String).alias("node"),
            pl.col("op").cast(pl.String),
            "launches",
            "untimed_launches",
            pl.col("gpu_self_ns").alias("gpu_ns"),
        )
    )


def _inferred_leaves(profile: Profile, *around: str) -> pl.DataFrame:
    """Return ops of sessions without recorded calls, by kind of work and op; with the calls of their instances."""
    rules, printed = op_rules(), printed_ops(profile)
    # Several types and directions can have the same label.
    keys = ("session", "op_type", "direction")
    calls = inferred_instances(profile).group_by(keys).agg(pl.len().cast(pl.Int64).alias("calls"))
    op_type = pl.col("op_type").cast(pl.String)
    kind = op_type.replace_strict(rules.groups, default=op_type, return_dtype=pl.String)
    inferred = _leaves(
        inferred_ops(profile)
        .filter(~pl.col("session").is_in(printed_op_sessions(profile).implode()))
        .with_columns((pl.col("calls") - pl.col("timed_calls")).alias("untimed_launches"))
        .rename({"calls": "launches"})
        .join(calls, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.concat_str([*(pl.lit(name) for name in around), kind], separator=SEPARATOR).alias("place"))
        .rename({"total_ns": "gpu_ns"})
        .with_columns(pl.col("op").alias("node"))
    )  # fmt: skip
    names = printed.rename({"gpu_self_ns": "gpu_ns", "cpu_self_ns": "cpu_own_ns"}).with_columns(
        place=pl.when(pl.col("why_no_op").is_null())
        .then(pl.coalesce(pl.col("group").cast(pl.String), pl.lit(UNKNOWN)))
        .otherwise(pl.lit("")),
        node=pl.col("op"),
    )
    return pl.concat([inferred, _leaves(names)])


def _complete_forest(profile: Profile, recorded: pl.DataFrame, *around: str) -> pl.DataFrame:
    """Return the tree of recorded ops, of work without an op, and of sessions without recorded ops."""
    return op_forest(profile, pl.concat([recorded, _without_op(profile), _inferred_leaves(profile, *around)]))


@once_per_profile(*_FRAMES)
def by_path(profile: Profile) -> pl.DataFrame:
    """Return the tree of recorded ops by module, range or op; backward ops below those of their forward.

    If the forward's place is a range around the whole forward pass, named ``forward``, it is replaced by ``backward``.
    If autograd's sequence numbers identify the forward op of a backward op, both have the same place, as has a
    recomputed forward (activation checkpointing). Other work of the autograd engine is under `ENGINE`, that of
    distributed wrappers in backward under `HOOKS`, gradient clipping under `CLIPPING` (`op_attribution.passes`).
    """
    around = pl.col("around").str.replace_all("/", SEPARATOR, literal=True)
    return _complete_forest(profile, _grouped_by_position(recorded_leaves(profile), around), INFERRED)


@once_per_profile(*_FRAMES)
def by_caller(profile: Profile) -> pl.DataFrame:
    """Return the tree of recorded ops by caller, outermost first."""
    return _complete_forest(
        profile, _grouped_by_position(recorded_leaves(profile), pl.lit(caller_paths(profile))), INFERRED
    )


def caller_paths(profile: Profile) -> pl.Series:
    """Return for each recorded op the place of its callers."""
    tree = op_tree(profile["ops"])
    texts, chain = numbered_paths(tree, recorded_leaves(profile)["node"])
    around = np.where(tree.parent == NONE, 0, chain[tree.parent]) if len(chain) else chain
    return texts.gather(pl.Series(around, dtype=pl.UInt32))


@once_per_profile(*_FRAMES)
def by_type(profile: Profile) -> pl.DataFrame:
    """Return the tree of ops by kind of work, then op type."""
    return _complete_forest(profile, _grouped_by_position(recorded_leaves(profile), pl.lit(type_paths(profile))))


def type_paths(profile: Profile) -> pl.Series:
    """Return for each recorded op its kind of work and type."""
    op_type = pl.col("op_type").fill_null(UNKNOWN)
    kind = op_type.replace_strict(op_rules().groups, default=op_type, return_dtype=pl.String)
    path = pl.when(kind == op_type).then(op_type).otherwise(pl.concat_str(kind, op_type, separator=SEPARATOR))
    return recorded_leaves(profile).select(path.alias("place")).to_series()


@once_per_profile(*_FRAMES)
def by_range(profile: Profile) -> pl.DataFrame:
    """Return the tree of GPU work by the NVTX ranges and annotations around its launches, outermost first."""
    return activity_tree(profile, range_paths(profile), by_totals=True)


def range_paths(profile: Profile) -> pl.Series:
    """Return for each activity the ranges around its launch."""
    activities = profile["activities"]
    ranges = profile["ranges"].with_row_index("row").drop_nulls(["start_ns", "duration_ns"])
    # All steps of a loop share one place.
    step = pl.col("iteration").is_not_null()
    name = pl.col("name").cast(pl.String).fill_null("?")
    ranges = ranges.with_columns(pl.when(step).then(name.str.replace(r"[0-9]+$", "*")).otherwise(name).alias("name"))
    paths = pl.Series("place", [NO_RANGE]).new_from_index(0, activities.height)
    for session in ranges["session"].unique(maintain_order=True):
        session_ranges = ranges.filter(pl.col("session") == session)
        rows = np.flatnonzero((activities["session"] == session).to_numpy())
        calls = session_rows(profile["api_calls"], session)
        work = add_launch_columns(activities[rows].select("correlation"), calls)
        nesting = nest(session_ranges)
        enclosing = enclosing_rows(nesting, work["launch_pid"], work["launch_tid"], work["launch_ns"])
        texts, chain = numbered_paths(build_forest(nesting.parent.astype(np.int64)), session_ranges["name"])
        inside = enclosing.is_not_null()
        labels = texts.gather(pl.Series(chain[enclosing.filter(inside).to_numpy()], dtype=pl.UInt32))
        paths = paths.scatter(pl.Series(rows, dtype=pl.UInt32).filter(inside), labels)
    return paths


def activity_tree(profile: Profile, paths: pl.Series, *, by_totals: bool = False) -> pl.DataFrame:
    """Return the tree of GPU work by given places; ops are by name, or by the type of their kernels.

    Args:
        profile: The profile.
        paths: The place of each activity.
        by_totals: Whether totals of sessions without single activities are placed in the ranges that they were printed
            in.
    """
    activities = profile["activities"]
    op, node = activity_nodes(profile)
    single = (
        activities.select("session", paths.alias("place"), node.alias("node"), op.alias("op"), "duration_ns")
        .group_by("session", "place", "node", maintain_order=True)
        .agg(
            pl.col("op").first(),
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("duration_ns").null_count().cast(pl.Int64).alias("untimed_launches"),
            total().alias("gpu_ns"),
        )
    )
    in_ranges = _range_totals(profile) if by_totals else _leaves(pl.DataFrame(schema=LEAVES))
    sessions_with_ops = pl.concat([activities["session"].unique(), in_ranges["session"].unique()])
    printed = _inferred_leaves(profile).filter(~pl.col("session").is_in(sessions_with_ops.implode()))
    totals = _without_op(profile).filter(~pl.col("session").is_in(sessions_with_ops.implode()))
    return op_forest(profile, pl.concat([_leaves(single), in_ranges, printed, totals]))


@once_per_profile(*_FRAMES)
def _range_totals(profile: Profile) -> pl.DataFrame:
    """Return printed kernels by range, for sessions in which each kernel is printed in one range only.

    Proton prints a kernel only in its innermost scope; nvprof prints it in every range around it.
    """
    key = ["session", "name"]
    range_rows = profile["summary"].filter(pl.col("section").cast(pl.String) == "nvtx", pl.col("range").is_not_null())
    if range_rows.is_empty():
        return _leaves(range_rows)
    inside = range_rows.group_by(key).agg(
        pl.col("total_ns").sum().alias("inside_ns"), pl.col("calls").sum().alias("in")
    )
    totals = kernels(profile).select(*key, "short_name", "total_ns", "calls")
    joined = inside.join(totals, on=key, how="full", coalesce=True)
    repeated = joined.filter(pl.col("inside_ns") > pl.col("total_ns").fill_null(0))["session"].unique()
    has_remainder = pl.col("inside_ns").is_null() | (pl.col("inside_ns") < pl.col("total_ns"))
    remainder = joined.filter(has_remainder).select(
        *key,
        range=pl.lit(NO_RANGE),
        total_ns=pl.col("total_ns") - pl.col("inside_ns").fill_null(0),
        calls=pl.col("calls") - pl.col("in").fill_null(0),
    )
    rows = pl.concat([range_rows.select(remainder.columns), remainder], how="diagonal_relaxed").join(
        totals.select(*key, "short_name"), on=key, how="left", maintain_order="left"
    )
    node = pl.coalesce("short_name", "name").cast(pl.String)
    return _leaves(
        rows.filter(~pl.col("session").is_in(repeated.implode()), pl.col("session").is_in(inside["session"].implode()))
        .with_columns(place=pl.col("range").cast(pl.String).str.replace_all(" / ", SEPARATOR, literal=True), node=node)
        .rename({"total_ns": "gpu_ns", "calls": "launches"})
    )


def activity_nodes(profile: Profile) -> tuple[pl.Series, pl.Series]:
    """Return the op of each activity, recorded or inferred (null if none), and its label in trees."""
    ops, activities, instances = profile["ops"], profile["activities"], inferred_instances(profile)
    named = ops["name"].cast(pl.String).gather(nullable_rows(activity_op_rows(profile)))
    inferred = instances["op"].gather(nullable_rows(activity_instances(profile)))
    recorded = activities["session"].is_in(recorded_sessions(profile).implode())
    missing_label = pl.when(recorded).then(pl.lit("(no op)")).otherwise(pl.lit(UNATTRIBUTED))
    op = pl.select(pl.coalesce(named, inferred)).to_series()
    return op, pl.select(pl.coalesce(op, missing_label)).to_series()


def nullable_rows(rows: Ints) -> pl.Series:
    """Return row numbers, null if there is none."""
    numbers = pl.Series(rows)
    return numbers.set(numbers == NONE, None).cast(pl.UInt32)


@once_per_profile(*_FRAMES)
def by_layer(profile: Profile) -> pl.DataFrame:
    """Return the tree of inferred ops by layer of the network."""
    return activity_tree(profile, layer_paths(profile))


def layer_paths(profile: Profile) -> pl.Series:
    """Return for each activity the layer of its inferred op."""
    instances = inferred_instances(profile)
    return instances["layer"].gather(nullable_rows(activity_instances(profile))).fill_null("(no layer)")


@dataclass(frozen=True, slots=True)
class TreeGrouping:
    """A grouping of ops as a tree."""

    name: str
    """The name on the command line, as ``module``."""
    title: str
    """The title, as ``by module or range``."""
    tree: Callable[[Profile], pl.DataFrame]
    """The rows of the tree, as `op_forest`."""
    unavailable_reason: Callable[[Profile], str]
    """Return why the grouping is not available; empty if it is."""


def _no_ops(profile: Profile) -> str:
    return "" if profile["ops"].height else "ops not recorded"


def _no_callers(profile: Profile) -> str:
    parents = profile["ops"]["parent"]
    return "" if parents.len() > parents.null_count() else "callers of ops not recorded"


def _no_ranges(profile: Profile) -> str:
    if _range_totals(profile).height:
        return ""
    launched = profile["api_calls"].height > 0 and profile["activities"]["correlation"].count() > 0
    if profile["ranges"].is_empty():
        return "ranges not recorded"
    return "" if launched else "launches not linked to ranges in this profile"


def _no_layers(profile: Profile) -> str:
    if profile["layers"].is_empty():
        return "layers not recorded"
    return "" if inferred_instances(profile)["layer"].count() else "no op can be attributed to a layer"


TREES: Final = (
    TreeGrouping("module", "by module or range", by_path, _no_ops),
    TreeGrouping("caller", "by caller", by_caller, _no_callers),
    TreeGrouping("range", "by NVTX range", by_range, _no_ranges),
    TreeGrouping("layer", "by layer", by_layer, _no_layers),
    TreeGrouping("type", "by type", by_type, lambda _profile: ""),
)
"""The trees; the first one with data is the default."""


class NamedGrouping(Protocol):
    """A grouping of rows that a user selects by name."""

    @property
    def name(self) -> str:
        """The name that selects it, such as ``module``."""

    @property
    def title(self) -> str:
        """The title, such as ``by module or range``."""

    @property
    def unavailable_reason(self) -> Callable[[Profile], str]:
        """Return why the grouping is not available for a profile; empty if it is."""


GroupingT = TypeVar("GroupingT", bound=NamedGrouping)


def find_grouping(text: str, groupings: Sequence[GroupingT]) -> GroupingT | None:
    """Return the grouping whose name, or title without ``by``, starts with a text, ignoring case; else None.

    >>> texts = ("module or range", "Range", "nvtx", "t")
    >>> [tree.name for tree in (find_grouping(text, TREES) for text in texts) if tree]
    ['module', 'range', 'range', 'type']
    >>> find_grouping("", TREES) is None
    True
    """
    prefix = text.lower()
    names = (
        (name, grouping)
        for grouping in groupings
        for name in (grouping.name, grouping.title.removeprefix("by ").lower())
    )
    return next((candidate for name, candidate in names if prefix and name.startswith(prefix)), None)


def first_tree(profile: Profile) -> TreeGrouping:
    """Return the default tree of a profile: the first one with data."""
    return next(tree for tree in TREES if not tree.unavailable_reason(profile))


def group_ops(profile: Profile) -> pl.DataFrame:
    """Return the rows of the default tree."""
    return first_tree(profile).tree(profile)


def exported_forest(profile: Profile) -> pl.DataFrame:
    """Return `group_ops` without row numbers: ids and levels define the tree."""
    return group_ops(profile).drop("parent")
