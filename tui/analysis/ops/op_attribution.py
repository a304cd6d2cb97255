"""Attribution of GPU work to recorded ops: the op of each activity, its kind, or why it has none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import timed_count, total
from tui.analysis.gpu_time.interval_sets import blocks
from tui.analysis.grouping import group_rows, unique_values
from tui.analysis.kernels import kernels
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_type_rules import UNKNOWN, classify, op_rules
from tui.analysis.tensor_core_use import with_verdicts_by_name
from tui.correlation.graph_replays import NO_CAPTURE, SEVERAL
from tui.model.forest import NONE, Forest, build_forest
from tui.model.profile import column_view
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.forest import Ints
    from tui.model.profile import Profile


def op_rows(numbers: pl.Series, ops: pl.DataFrame) -> Ints:
    """Return the row of each op number in a frame of ops, or `NONE`; op numbers must be ascending."""
    known = ops["op"].to_numpy()
    rows = np.full(len(numbers), NONE, np.int64)
    if not len(known) or numbers.null_count() == len(numbers):
        return rows
    are_consecutive = int(known[-1]) - int(known[0]) == len(known) - 1
    for block in blocks(len(numbers)):
        wanted = numbers[block].cast(pl.Int64).fill_null(NONE).to_numpy()
        found = wanted - int(known[0]) if are_consecutive else np.searchsorted(known, wanted)
        is_row = (wanted != NONE) & (found >= 0) & (found < len(known))
        rows[block][is_row] = found[is_row]
        if not are_consecutive:
            rows[block][known[rows[block]] != wanted] = NONE
    return rows


def op_tree(ops: pl.DataFrame) -> Forest:
    """Return the tree of a frame of ops.

    Parents in another session and cycles are ignored.
    """
    parent = op_rows(ops["parent"], ops)
    session = column_view(ops, "session").to_numpy()
    for block in blocks(len(parent)):
        parent[block][session[parent[block]] != session[block]] = NONE
    return build_forest(parent)


MEMORY: Final = ("memcpy", "memset", "um")
"""Kinds of activities that need no classification."""

NO_ACTIVITIES: Final = "totals only"
"""The input has no single activities."""
NO_OP_PRINTED: Final = "no op printed"
"""The printed table does not have all ops."""
_NO_REASON: Final = "reason not recorded"
WITHOUT_OP: Final = (
    *("launch not recorded", "launched outside any op", NO_CAPTURE, SEVERAL),
    *(NO_ACTIVITIES, NO_OP_PRINTED, _NO_REASON),
)
"""Why work has no op: reasons of `tui.model.schema.OP_JOINS`, then those of inputs without joins."""


def recorded_sessions(profile: Profile) -> pl.Series:
    """Return the sessions that record ops."""
    return profile["ops"]["session"].unique().sort()


def activity_op_rows(profile: Profile) -> Ints:
    """Return for each row of ``activities`` the row of ``ops`` that launched it, or `NONE`."""
    activities, ops = profile["activities"], profile["ops"]
    rows = op_rows(activities["op"], ops)
    if ops.is_empty():
        return rows
    op_session, session = (column_view(frame, "session").to_numpy() for frame in (ops, activities))
    for block in blocks(len(rows)):
        rows[block][op_session[rows[block]] != session[block]] = NONE
    return rows


def inner_calls(profile: Profile, outer: Sequence[str], inner: Sequence[str]) -> pl.DataFrame:
    """Return the calls inside ops of some names: row (of ``ops``), inner (JSON: name, shapes, types and values).

    Args:
        profile: The profile.
        outer: The names of the ops.
        inner: The names of the calls in them, however deep.
    """
    ops = profile["ops"]
    name = ops["name"].cast(pl.String)
    around = name.is_in(outer).fill_null(False).to_numpy()
    if not around.any():
        return pl.DataFrame(schema={"row": pl.UInt32, "inner": pl.String})
    tree = op_tree(ops)
    owner = np.where(around, np.arange(ops.height), NONE)
    for level in tree.levels[1:]:
        owner[level] = np.where(around[level], level, owner[tree.parent[level]])
    rows = np.flatnonzero((owner != NONE) & name.is_in(inner).fill_null(False).to_numpy())
    texts = ops[rows].select(
        pl.Series("row", owner[rows], dtype=pl.UInt32),
        pl.concat_list(pl.col("name", "input_shapes", "input_types", "input_values").cast(pl.String)).alias("call"),
    )
    calls_by_row = texts.group_by("row", maintain_order=True).agg("call")
    return calls_by_row.select(
        "row", pl.Series("inner", [json.dumps(calls) for calls in calls_by_row["call"].to_list()], pl.String)
    )


def op_names_at(ops: pl.DataFrame, rows: Ints) -> pl.Series:
    """Return the name of the op at each row; null for `NONE`."""
    numbers = pl.Series(rows)
    return ops["name"].gather(numbers.set(numbers == NONE, None).cast(pl.UInt32)).alias("op")


def unattributed_reason(has_op: pl.Expr) -> pl.Expr:
    """Return why work has no op, one of `WITHOUT_OP`; null if it has one."""
    join = pl.col("op_join").cast(pl.String)
    recorded_reason = pl.when(join.is_in(WITHOUT_OP)).then(join).otherwise(pl.lit(_NO_REASON))
    return pl.when(~has_op).then(recorded_reason).alias("why_no_op")


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "summary")
def work_by_op(profile: Profile) -> pl.DataFrame:
    """Return GPU work of sessions with recorded ops: one row per session, op name (or reason) and kernel.

    Columns: session, op (name of the innermost op, null if there is none), why_no_op (then one of `WITHOUT_OP`),
    kind, name, short_name, launches, timed_calls (those whose duration is known), total_ns, min_ns, max_ns,
    uses_tensor_core, line (first one in the input).
    """
    sessions = recorded_sessions(profile)
    activities = profile["activities"] if len(sessions) else profile["activities"].clear()
    names = op_names_at(profile["ops"], activity_op_rows(profile) if len(sessions) else np.zeros(0, np.int64))
    single = (
        activities.lazy()
        .select("session", "kind", "name", "short_name", "duration_ns", "op_join", "uses_tensor_core", "line")
        .with_columns(names)
        .filter(pl.col("session").is_in(sessions.implode()))
        .with_columns(unattributed_reason(pl.col("op").is_not_null()))
        .group_by("session", "op", "why_no_op", "kind", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            timed_count(),
            total().alias("total_ns"),
            pl.col("duration_ns").min().alias("min_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
            pl.col("uses_tensor_core").any(ignore_nulls=False),
            pl.col("short_name").first(),
            pl.col("line").min(),
        )
        .collect()
    )
    single = with_verdicts_by_name(profile, single)
    printed = kernels(profile).filter(
        pl.col("session").is_in(sessions.implode()),
        ~pl.col("session").is_in(unique_values(column_view(activities, "session")).implode()),
    )
    totals = printed.select(
        "session",
        pl.lit(None, NAME).alias("op"),
        pl.lit(NO_ACTIVITIES).alias("why_no_op"),
        "kind",
        "name",
        pl.col("calls").alias("launches"),
        "timed_calls",
        "total_ns",
        "min_ns",
        "max_ns",
        "uses_tensor_core",
        "tensor_core_reason",
        "short_name",
        "line",
    )
    return pl.concat([single, totals.select(single.columns)]).sort(
        *("session", "total_ns", "name", "op", "why_no_op", "kind"),
        descending=[False, True, False, False, False, False],
        nulls_last=True,
    )


def op_classes(profile: Profile) -> pl.DataFrame:
    """Return the types of recorded ops: session, op, op_type, direction, group.

    The type is as recorded, else inferred from the name by the op rules; null if neither is known. The direction is
    inferred from the name; that of an instance (``ops.direction``) is more reliable.
    """
    rules = op_rules()
    ops = profile["ops"].select("session", pl.col("name").alias("op"), "op_type")
    names = group_rows(ops, ("session", "op"), [pl.col("op_type").first(ignore_nulls=True)])
    by_name = {}
    for column in ("op", "op_type"):
        by_name[column] = classify(names[column], rules.op_rules).select(
            pl.col("name").alias(column),
            pl.when(pl.col("op_type").cast(pl.String) != UNKNOWN).then(pl.col("op_type")).alias(f"{column}_rule_type"),
            pl.col("direction").alias(f"{column}_direction"),
        )
    typed = names.join(by_name["op"], on="op", how="left").join(by_name["op_type"], on="op_type", how="left")
    recorded = pl.col("op_type").cast(pl.String)
    rule_type = pl.coalesce("op_type_rule_type", "op_rule_type").cast(pl.String)
    groups = rules.groups
    return typed.select(
        "session",
        "op",
        pl.coalesce(recorded, rule_type).cast(NAME).alias("op_type"),
        pl.coalesce("op_type_direction", "op_direction").alias("direction"),
        pl.coalesce(
            recorded.replace_strict(groups, default=None, return_dtype=pl.String),
            rule_type.replace_strict(groups, default=rule_type, return_dtype=pl.String),
        )
        .cast(NAME)
        .alias("group"),
    )


def classified_work(profile: Profile) -> pl.DataFrame:
    """Return `work_by_op` with op_type and group of the work, direction and rule.

    Copies and memsets have their recorded type. A kernel has the type of its op; if that is unknown, or there is no op,
    the type inferred from the kernel's own name (``kernel_type``). Its group is that of the inferred type if the
    recorded type is in no group.
    """
    rules = op_rules()
    work = work_by_op(profile)
    by_kernel = classify(work["name"], rules.rules).rename({"op_type": "kernel_type", "direction": "kernel_direction"})
    by_op = op_classes(profile).rename({"op_type": "own_type", "direction": "own_direction", "group": "own_group"})
    joined = work.join(by_kernel, on="name", how="left", maintain_order="left").join(
        by_op, on=["session", "op"], how="left", maintain_order="left"
    )
    kernel_type = pl.col("kernel_type").cast(pl.String)
    kernel_group = kernel_type.replace_strict(rules.groups, default=kernel_type, return_dtype=pl.String)
    by_op_first = ~pl.col("kind").cast(pl.String).is_in(MEMORY) & pl.col("own_type").is_not_null()
    return joined.with_columns(
        pl.when(by_op_first)
        .then(pl.col("own_type").cast(pl.String))
        .otherwise(kernel_type)
        .cast(NAME)
        .alias("op_type"),
        pl.when(by_op_first)
        .then(pl.coalesce(pl.col("own_group").cast(pl.String), kernel_group))
        .otherwise(kernel_group)
        .cast(NAME)
        .alias("group"),
        pl.when(by_op_first).then("own_direction").otherwise("kernel_direction").alias("direction"),
        pl.when(by_op_first).then(None).otherwise("rule").alias("rule"),
    ).drop("own_type", "own_group", "own_direction", "kernel_direction")


# --- passes -----------------------------------------------------------------------------------------------------------

PASSES: Final = ("forward_gpu_ns", "backward_gpu_ns", "recompute_gpu_ns", "optimizer_gpu_ns", "outside_gpu_ns")
"""The parts of the GPU time of a training step, which add up to all of it."""

ENGINE: Final = "(autograd engine, no forward op)"
"""The group of work of autograd's engine outside of ops: gradient accumulation, hooks."""
HOOKS: Final = "(DDP and FSDP hooks)"
"""The group of work of distributed wrappers during backward: gradient reduction, parameter gathering."""
CLIPPING: Final = "(gradient clipping)"
"""The group of gradient norms and scaling outside of the optimizer's step."""
_FORWARD_RANGE: Final = r"(?i)(^|/)(?:forward|fwd)(?:[ _]pass)?(/|$)"
"""A range around the whole forward pass; backward ops are in a separate one."""
_OPTIMIZER: Final = r"(?:^|/)Optimizer\.(?:step|zero_grad)#"
_HOOK: Final = (
    r"(?:^|/)torch\.distributed\.ddp\.reducer::|(?:^|/)FSDP::(?:pre_backward|post_backward|root_post_backward)|"
    r"(?:^|/)FullyShardedDataParallel\._(?:pre|post)_backward"
)
_COMMUNICATION: Final = r"(?:^|/)(?:c10d::|record_param_comms|nccl:)"
_ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
_CLIPPING: Final = r"clip_grad|(?:^|/)aten::_foreach_norm(?:/|$)"
_IN_ENGINE: Final = "autograd::engine::evaluate_function: "
_CHECKPOINT: Final = r"CheckpointFunctionBackward"
_MODULE_IN_ENGINE: Final = r"autograd::engine::evaluate_function: [^/]*(?:/[A-Za-z0-9_:]*Backward[0-9]*)?/(.*)$"
"""Names inside an op of the engine: the modules of a recomputed forward."""


@once_per_profile("ops")
def training_sessions(profile: Profile) -> pl.Series:
    """Return sessions with backward ops."""
    return profile["ops"].filter(pl.col("direction") == "bprop")["session"].unique()


def _group_facts(groups: pl.Series) -> pl.DataFrame:
    """Return what the path of each group says of its ops, such as ``in_engine`` and ``within`` (its modules there)."""
    # A recomputed forward runs inside the engine, in the checkpoint's backward op or in modules of its own.
    return pl.DataFrame({"group": groups}).with_columns(
        pl.col("group").str.contains(_IN_ENGINE, literal=True).alias("in_engine"),
        pl.col("group").str.count_matches(_IN_ENGINE, literal=True).alias("engines"),
        pl.col("group").str.contains(_OPTIMIZER).alias("in_optimizer"),
        pl.col("group").str.contains(_HOOK).alias("in_hook"),
        pl.col("group").str.contains(_CLIPPING).alias("in_clipping"),
        pl.col("group").str.contains(_COMMUNICATION).alias("in_communication"),
        pl.col("group").str.contains(_ACCUMULATE, literal=True).alias("in_accumulate"),
        (
            pl.col("group").str.contains(_CHECKPOINT) & ~pl.col("group").str.contains(_CHECKPOINT + r".*" + _IN_ENGINE)
        ).alias("in_checkpoint"),
        pl.col("group").str.extract(_MODULE_IN_ENGINE).fill_null("").alias("within"),
    )


def _with_pass(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``pass``, ``hooks`` and ``clips`` to kinds of ops with `_group_facts`; ``in_engine`` includes its own ops."""
    in_engine = pl.col("in_engine") | pl.col("name").str.starts_with(_IN_ENGINE)
    is_recomputed = (pl.col("in_checkpoint") | (pl.col("in_engine") & (pl.col("within") != ""))) & (
        (pl.col("direction") == "fprop") & ~pl.col("has_forward")
    )
    name = pl.col("name")
    optimizes = pl.col("in_optimizer") | name.str.contains(_OPTIMIZER)
    reduces = pl.col("in_accumulate") & (pl.col("in_communication") | name.str.contains(_COMMUNICATION))
    # Gradient clipping computes norms, then multiplies each gradient.
    scales = (name == "aten::_foreach_mul_") & (name == "aten::_foreach_norm").any()
    clips = pl.col("in_clipping") | pl.col("calls_clipping") | name.str.contains(_CLIPPING) | scales
    rows = rows.with_columns(
        (pl.col("in_hook") | name.str.contains(_HOOK) | reduces).alias("hooks"),
        (clips & ~optimizes & ~in_engine).alias("clips"),
    )
    return rows.with_columns(
        pl.when(optimizes | pl.col("clips"))
        .then(pl.lit("optimizer_gpu_ns"))
        .when("hooks")
        .then(pl.lit("backward_gpu_ns"))
        .when(is_recomputed)
        .then(pl.lit("recompute_gpu_ns"))
        .when((pl.col("direction") == "bprop") | in_engine)
        .then(pl.lit("backward_gpu_ns"))
        .when(pl.col("direction") == "fprop")
        .then(pl.lit("forward_gpu_ns"))
        .otherwise(pl.lit("outside_gpu_ns"))
        .alias("pass"),
        in_engine.alias("in_engine"),
    )


def _with_recomputed_modules(rows: pl.DataFrame, group_facts: pl.DataFrame) -> pl.DataFrame:
    """Add ``around``, the group; of a recomputation, the modules of the forward whose path ends with its own."""
    model_groups = group_facts.filter(~pl.col("in_engine"), pl.col("group") != "").select("group")
    ends = model_groups.with_columns(
        pl.int_ranges(0, pl.col("group").str.count_matches("/", literal=True) + 1).alias("at")
    ).explode("at")
    ends = (
        ends.with_columns(pl.col("group").str.split("/").list.slice("at").list.join("/").alias("within"))
        .group_by("within")
        .agg(pl.col("group").n_unique().alias("places"), pl.col("group").first().alias("known_place"))
        .filter(pl.col("places") == 1)
        .select("within", "known_place")
    )
    rows = rows.join(ends, on="within", how="left", maintain_order="left")
    recomputed = pl.coalesce("known_place", "within")
    return rows.with_columns(
        pl.when(pl.col("pass") == "recompute_gpu_ns").then(recomputed).otherwise("group").alias("around")
    )


@once_per_profile("ops")
def passes(profile: Profile) -> pl.DataFrame:
    """Return the ``pass`` of each recorded op (one of `PASSES`) and ``around``: its modules, ranges or ops."""
    ops = profile["ops"]
    # Apart from the forward op, a million ops have a few thousand distinct values.
    alike = ops.select("group", "name", "direction", "stack", pl.col("forward").is_not_null().alias("has_forward"))
    kinds = alike.unique(maintain_order=True).with_row_index("kind")
    kind = alike.join(kinds, on=alike.columns, how="left", nulls_equal=True, maintain_order="left")["kind"]
    own_kinds = kinds.select(
        pl.col("group").cast(pl.String).fill_null("").alias("group"),
        pl.col("name").cast(pl.String),
        pl.col("direction").cast(pl.String),
        "has_forward",
        pl.col("stack").cast(pl.String).str.contains("clip_grad").fill_null(False).alias("calls_clipping"),
    )
    texts = own_kinds["group"].unique()
    group_facts = _group_facts(texts)
    rows = _with_pass(own_kinds.join(group_facts, on="group", how="left", maintain_order="left"))
    rows = _with_recomputed_modules(rows, group_facts)
    # A forward op that contains other ops is itself a group.
    called = pl.concat_str(pl.when(pl.col("around") != "").then("around"), "name", separator="/", ignore_nulls=True)
    inside = rows.select(pl.when(called.is_in(texts.implode())).then(called).otherwise("around")).to_series()
    bare = pl.col("around").str.replace_all(_IN_ENGINE, "", literal=True)
    is_named_pass = pl.col("clips") | pl.col("hooks")
    pass_name = pl.when("clips").then(pl.lit(CLIPPING)).otherwise(pl.lit(HOOKS))
    around = (
        pl.when(is_named_pass)
        .then(pl.concat_str(pass_name, pl.when(bare != "").then(bare), separator="/", ignore_nulls=True))
        .when((pl.col("pass") == "backward_gpu_ns") & pl.col("in_engine"))
        .then(
            pl.concat_str(
                pl.lit(ENGINE), pl.when(pl.col("around") != "").then("around"), separator="/", ignore_nulls=True
            )
        )
        .otherwise("around")
    )
    passes_by_kind = rows.select(
        "pass",
        around.alias("around"),
        (~is_named_pass & (pl.col("pass") == "backward_gpu_ns")).alias("follows_forward"),
        pl.lit(inside.str.replace(_FORWARD_RANGE, "${1}backward${2}")).alias("as_backward"),
    )
    forward = pl.Series(op_rows(ops["forward"], ops))
    partner = passes_by_kind["as_backward"].gather(kind.gather(forward.set(forward == NONE, None).cast(pl.UInt32)))
    return passes_by_kind[kind].select(
        "pass",
        pl.when(pl.col("follows_forward") & pl.lit(partner).is_not_null())
        .then(pl.lit(partner))
        .otherwise("around")
        .alias("around"),
    )
