"""Where ops lie: by module or range, by caller, by NVTX range, by layer, by what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import total, total_of_parts
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.by_instance import UNCLAIMED
from tui.analysis.ops.call_times import own_times
from tui.analysis.ops.inferred_instances import inferred_instances, instance_of_activities
from tui.analysis.ops.op_forest import LEAVES, LEVELS_MOST, SEPARATOR, op_forest
from tui.analysis.ops.recorded import recorded_ops
from tui.analysis.ops.rules import UNKNOWN, op_rules
from tui.analysis.ops.tables import inferred_ops
from tui.analysis.ops.tree import op_tree
from tui.analysis.ops.work import op_row_of_activities, recorded_sessions
from tui.analysis.tensor_cores.eligible import eligible_ops
from tui.analysis.tensor_cores.verdicts import verdicts_by_name
from tui.loaders.linking.launches import nest, rows_around, with_launch
from tui.model.forest import NONE, forest_of
from tui.model.profile import rows_of_session

if TYPE_CHECKING:
    from tui.model.forest import Forest, Ints
    from tui.model.profile import Profile

INFERRED: Final = "(ops inferred from kernels)"
"""The group of what sessions without recorded ops hold, in trees that need those."""

NO_RANGE: Final = "(in no range)"

_FRAMES: Final = ("sessions", "devices", "ops", "activities", "api_calls", "ranges", "layers", "summary")

_AT_ONCE: Final = 1 << 20
"""Launches that are looked at together."""


def _chains(forest: Forest, names: pl.Series) -> tuple[pl.Series, Ints]:
    """The place that each row is: the names of the rows around it and its own; and those places as texts by number.

    Number 0 is no place at all. One step is taken for each different place, not for each row.
    """
    texts, chain = [""], np.zeros(names.len(), np.int64)
    codes = names.cast(pl.Categorical).to_physical().fill_null(0).to_numpy().astype(np.int64)
    width = int(codes.max(initial=0)) + 1
    for depth, level in enumerate(forest.levels[:LEVELS_MOST]):
        above = chain[forest.parent[level]] if depth else np.zeros(len(level), np.int64)
        pairs, first, which = np.unique(above * width + codes[level], return_index=True, return_inverse=True)
        for pair, row in zip(pairs.tolist(), level[first].tolist(), strict=True):
            around = texts[pair // width]
            texts.append(f"{around}{SEPARATOR}{names[row]}" if around else str(names[row]))
        chain[level] = which + (len(texts) - len(pairs))
    return pl.Series("place", texts), chain


def _leaves(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with all columns of `LEAVES`."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in LEAVES.items()
    )


@once_per_profile(*_FRAMES)
def _recorded(profile: Profile) -> pl.DataFrame:
    """Every recorded op with what it spent itself: the values of `LEAVES`, group, and whether it counts as a call.

    An op that can use tensor cores, or does, counts once with all its calls: ``eligible`` and ``on_tc`` are flags.
    """
    own = own_times(profile)
    ops = profile["ops"]
    types = recorded_ops(profile).filter(pl.col("why_no_op").is_null())
    types = types.select("session", pl.col("op").cast(pl.String).alias("node"), pl.col("op_type").cast(pl.String))
    return (
        own.rename({"op": "number"})
        .with_columns(
            ops["group"].cast(pl.String).alias("group"),
            ops["op_source"].cast(pl.String),
            ops["op_id"].alias("op_id"),
            eligible_ops(profile)["tc_eligible"].alias("eligible"),
            pl.Series("on_tc", _on_tensor_cores(profile)),
            (pl.col("call") == pl.col("number")).cast(pl.Int64).alias("calls"),
            pl.col("name").cast(pl.String).alias("node"),
        )
        .join(types, on=["session", "node"], how="left", maintain_order="left")
    )  # fmt: skip


def _on_tensor_cores(profile: Profile) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each recorded op whether any kernel that it launched itself uses tensor cores."""
    flags = np.zeros(profile["ops"].height, np.bool_)
    rows = op_row_of_activities(profile)
    told = verdicts_by_name(profile).filter(pl.col("uses_tensor_core")).select("session", "kind", "name", on_tc=True)
    work = profile["activities"].select("session", "kind", "name", "uses_tensor_core")
    for first, part in enumerate(work.iter_slices(_AT_ONCE)):
        uses = part.join(told, on=["session", "kind", "name"], how="left", maintain_order="left").select(
            pl.coalesce("uses_tensor_core", "on_tc").fill_null(False)
        )
        here = rows[first * _AT_ONCE : (first + 1) * _AT_ONCE]
        flags[here[(here != NONE) & uses.to_series().to_numpy()]] = True
    return flags


def _by_place(ops: pl.DataFrame, place: pl.Expr) -> pl.DataFrame:
    """Recorded ops, by name where they lie."""
    sums = ("calls", "launches", "untimed_launches", "gpu_ns", "cpu_own_ns", "cpu_overhead_ns", "gpu_idle_ns")
    one = pl.coalesce("op_id", "node")
    return _leaves(
        ops.with_columns(place.alias("place"))
        .group_by("session", "place", "node", maintain_order=True)
        .agg(
            *(total_of_parts(name).alias(name) for name in sums),
            one.filter(pl.col("eligible").fill_null(False)).n_unique().cast(pl.Int64).alias("eligible_ops"),
            one.filter("on_tc").n_unique().cast(pl.Int64).alias("tc_ops"),
            pl.col("node").first().alias("op"),
            pl.col("op_type", "op_source").first(),
        )
    )


def _without_op(profile: Profile) -> pl.DataFrame:
    """The GPU work of sessions with recorded ops that is in none of them, by reason."""
    rest = recorded_ops(profile).filter(pl.col("why_no_op").is_not_null())
    return _leaves(
        rest.select(
            "session",
            pl.lit("").alias("place"),
            pl.col("op").cast(pl.String).alias("node"),
            pl.col("op").cast(pl.String),
            "launches",
            "untimed_launches",
            pl.col("gpu_self_ns").alias("gpu_ns"),
        )
    )


def _inferred(profile: Profile, *around: str) -> pl.DataFrame:
    """Sessions that record no ops: kind of work, op; with the calls of their instances."""
    rules = op_rules()
    # Types of several names and directions can be called the same.
    keys = ("session", "op_type", "direction")
    calls = inferred_instances(profile).group_by(keys).agg(pl.len().cast(pl.Int64).alias("calls"))
    op_type = pl.col("op_type").cast(pl.String)
    kind = op_type.replace_strict(rules.groups, default=op_type, return_dtype=pl.String)
    return _leaves(
        inferred_ops(profile)
        .with_columns((pl.col("calls") - pl.col("timed_calls")).alias("untimed_launches"))
        .rename({"calls": "launches"})
        .join(calls, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.concat_str([*(pl.lit(name) for name in around), kind], separator=SEPARATOR).alias("place"))
        .rename({"total_ns": "gpu_ns"})
        .with_columns(pl.col("op").alias("node"))
    )  # fmt: skip


def _joined(profile: Profile, recorded: pl.DataFrame, *around: str) -> pl.DataFrame:
    """The tree of recorded ops where they lie, of the work without one, and of sessions that record none."""
    return op_forest(profile, pl.concat([recorded, _without_op(profile), _inferred(profile, *around)]))


@once_per_profile(*_FRAMES)
def by_path(profile: Profile) -> pl.DataFrame:
    """Recorded ops in the modules, ranges or ops that they ran in."""
    place = pl.col("group").fill_null("").str.replace_all("/", SEPARATOR, literal=True)
    return _joined(profile, _by_place(_recorded(profile), place), INFERRED)


@once_per_profile(*_FRAMES)
def by_caller(profile: Profile) -> pl.DataFrame:
    """Recorded ops in the ops that called them, outermost first."""
    tree = op_tree(profile["ops"])
    ops = _recorded(profile)
    texts, chain = _chains(tree, ops["node"])
    around = np.where(tree.parent == NONE, 0, chain[tree.parent]) if ops.height else chain
    callers = pl.lit(texts.gather(pl.Series(around, dtype=pl.UInt32)))
    return _joined(profile, _by_place(ops, callers), INFERRED)


@once_per_profile(*_FRAMES)
def by_type(profile: Profile) -> pl.DataFrame:
    """Ops in what they do: kind of work, then op type."""
    rules = op_rules()
    known = pl.col("op_type").fill_null(UNKNOWN)
    kind = known.replace_strict(rules.groups, default=known, return_dtype=pl.String)
    place = pl.when(kind == known).then(known).otherwise(pl.concat_str(kind, known, separator=SEPARATOR))
    return _joined(profile, _by_place(_recorded(profile), place))


@once_per_profile(*_FRAMES)
def by_range(profile: Profile) -> pl.DataFrame:
    """GPU work in the NVTX ranges and annotations that its launches lie in, outermost first."""
    activities = profile["activities"]
    ranges = profile["ranges"].with_row_index("row").drop_nulls(["start_ns", "duration_ns"])
    # Steps of a loop are one place, not as many as there are.
    step = pl.col("iteration").is_not_null()
    name = pl.col("name").cast(pl.String).fill_null("?")
    ranges = ranges.with_columns(pl.when(step).then(name.str.replace(r"\d+$", "*")).otherwise(name).alias("name"))
    place = pl.Series("place", [NO_RANGE]).new_from_index(0, activities.height)
    for session in ranges["session"].unique(maintain_order=True):
        here = ranges.filter(pl.col("session") == session)
        rows = np.flatnonzero((activities["session"] == session).to_numpy())
        calls = rows_of_session(profile["api_calls"], session)
        work = with_launch(activities[rows].select("correlation"), calls)
        nesting = nest(here)
        found = rows_around(nesting, work["launch_pid"], work["launch_tid"], work["launch_ns"])
        texts, chain = _chains(forest_of(nesting.parent), here["name"])
        inside = found.is_not_null()
        told = texts.gather(pl.Series(chain[found.filter(inside).to_numpy()], dtype=pl.UInt32))
        place = place.scatter(pl.Series(rows, dtype=pl.UInt32).filter(inside), told)
    return _of_activities(profile, place)


def _of_activities(profile: Profile, place: pl.Series) -> pl.DataFrame:
    """The tree of GPU work by places of its own, in which ops are by name, or by what their kernels do."""
    ops, activities, instances = profile["ops"], profile["activities"], inferred_instances(profile)
    named = ops["name"].cast(pl.String).gather(_or_null(op_row_of_activities(profile)))
    inferred = instances["op"].gather(_or_null(instance_of_activities(profile)))
    recorded = activities["session"].is_in(recorded_sessions(profile).implode())
    rest = pl.when(pl.lit(recorded)).then(pl.lit("(no op)")).otherwise(pl.lit(UNCLAIMED))
    op = pl.coalesce(pl.lit(named), pl.lit(inferred))
    single = (
        activities.select(
            "session", pl.lit(place).alias("place"), pl.coalesce(op, rest).alias("node"), op.alias("op"), "duration_ns"
        )
        .group_by("session", "place", "node", maintain_order=True)
        .agg(
            pl.col("op").first(),
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("duration_ns").null_count().cast(pl.Int64).alias("untimed_launches"),
            total().alias("gpu_ns"),
        )
    )
    held = activities["session"].unique()
    printed = _inferred(profile).filter(~pl.col("session").is_in(held.implode()))
    totals = _without_op(profile).filter(~pl.col("session").is_in(held.implode()))
    return op_forest(profile, pl.concat([_leaves(single), printed, totals]))


def _or_null(rows: Ints) -> pl.Series:
    """Row numbers, null where there is none."""
    numbers = pl.Series(rows)
    return numbers.set(numbers == NONE, None).cast(pl.UInt32)


@once_per_profile(*_FRAMES)
def by_layer(profile: Profile) -> pl.DataFrame:
    """Inferred ops in the layers of the network that they belong to."""
    instances = inferred_instances(profile)
    layer = instances["layer"].gather(_or_null(instance_of_activities(profile))).fill_null("(no layer)")
    return _of_activities(profile, layer)
