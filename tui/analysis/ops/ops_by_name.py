"""Ops by name, recorded or inferred from kernel names; the GPU time that is attributed to them, and the rest."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.durations import average, complete_sum, share, timed_calls, total
from tui.analysis.kernels import KERNELS, kernels, printed_totals
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import (
    NO_ACTIVITIES,
    NO_OP_PRINTED,
    WITHOUT_OP,
    classified_work,
    recorded_sessions,
    work_by_op,
)
from tui.analysis.ops.op_costs import NO_OP, RECORDED, recorded_ops
from tui.analysis.ops.op_type_rules import UNKNOWN, classify, op_rules
from tui.fmt import brief_duration, brief_percent
from tui.model.columns import COLUMNS, columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile


_LAUNCHES: Final = replace(
    COLUMNS["calls"],
    title="Launches",
    help="Number of kernels, copies and memsets launched by the op.",
    aliases=("launches", *COLUMNS["calls"].aliases),
)
"""The number of launches; for ops inferred from kernel names the number of calls is unknown."""

OPS: Final = TableSpec(
    "ops",
    "Ops",
    (
        *columns("op", "total_ns", "time_pct"),
        _LAUNCHES,
        *columns("avg_ns", "kernels", "max_ns", "min_ns", "op_type", "direction", "group"),
        *columns("uses_tensor_core", "op_source", "session", "line"),
    ),
    key=("session", "op_type", "direction"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="op",
)

RECORDED_OPS: Final = TableSpec(
    "ops",
    "Ops",
    columns(
        "op",
        "gpu_self_ns",
        "time_pct",
        "calls",
        "gpu_total_ns",
        "cpu_total_ns",
        "cpu_self_ns",
        "launches",
        "untimed_launches",
        "kernels",
        "op_type",
        "direction",
        "group",
        "gpu_avg_ns",
        "gpu_max_ns",
        "gpu_min_ns",
        "cpu_avg_ns",
        "api_ns",
        "uses_tensor_core",
        "tc_eligible",
        "dtype",
        "stack",
        "op_source",
        "session",
        "line",
    ),
    key=("session", "op", "direction"),
    sort=(("gpu_self_ns", True),),
    weight="gpu_self_ns",
    pinned="op",
)
"""The table if at least one session records ops."""

OP_KERNELS: Final = TableSpec(
    "op_kernels",
    "Kernels of the op",
    (*KERNELS.columns, *columns("rule")),
    key=KERNELS.key,
    sort=KERNELS.sort,
    weight="total_ns",
)

_DIRECTION_WORDS: Final = {"fprop": "forward", "bprop": "backward"}


def op_name() -> pl.Expr:
    """Return the op type and direction as one phrase.

    >>> frame = pl.DataFrame({"op_type": ["pooling", "convolution backward data"], "direction": ["bprop", "bprop"]})
    >>> frame.select(op_name())["op"].to_list()
    ['pooling backward', 'convolution backward data']
    """
    op_type = pl.col("op_type").cast(pl.String)
    direction_word = (
        pl.col("direction").cast(pl.String).replace_strict(_DIRECTION_WORDS, default=None, return_dtype=pl.String)
    )
    named = op_type.str.contains("(?:forward|backward)")
    return pl.when(direction_word.is_null() | named).then(op_type).otherwise(op_type + " " + direction_word).alias("op")


def classified_kernels(profile: Profile) -> pl.DataFrame:
    """Return the rows of `tui.analysis.kernels.kernels` with op, op_type, direction, group and rule."""
    rows = kernels(profile)
    rules = op_rules()
    classes = classify(rows["name"], rules.rules)
    types = classes["op_type"].unique().cast(pl.String).to_list()
    groups = pl.DataFrame(
        {"op_type": types, "group": [rules.group_name(op_type) for op_type in types]},
        schema={"op_type": NAME, "group": NAME},
    )
    return (
        rows.join(classes, on="name", how="left", maintain_order="left")
        .join(groups, on="op_type", how="left", maintain_order="left")
        .with_columns(op_name())
    )


def has_recorded_ops(profile: Profile) -> bool:
    """Return whether any session records ops, as calls or by their totals."""
    return profile["ops"].height > 0 or printed_ops(profile).height > 0


_NOT_OPS: Final = (
    r"^ProfilerStep|^\[memory\]$|^(?:Activity Buffer Request|Buffer Flush|Command Buffer Full|Driver Compiler"
    r"|Instrumentation|Lazy Function Loading|Runtime Triggered Module Loading|UVM Activity Init|Unrecognized)$"
)
"""Rows of PyTorch's tables that are steps, memory outside of ops, or overhead of the driver and the profiler."""


def kernels_in_scopes(profile: Profile) -> pl.DataFrame:
    """Return totals of kernels by the innermost scope of Proton around them: session, op, name, calls, total_ns."""
    proton_sessions = profile["sessions"].filter(pl.col("format").cast(pl.String) == "proton")["session"]
    in_scope = (pl.col("section").cast(pl.String) == "nvtx") & pl.col("range").is_not_null()
    return (
        profile["summary"]
        .filter(in_scope, pl.col("session").is_in(proton_sessions.implode()))
        .group_by("session", "range", "name", maintain_order=True)
        .agg(total("calls").alias("calls"), total("total_ns").alias("total_ns"))
        .with_columns(op=pl.col("range").cast(pl.String).str.split(" / ").list.last())
        .group_by("session", "op", "name", maintain_order=True)
        .agg(total("calls").alias("calls"), total("total_ns").alias("total_ns"))
    )


def _scopes(profile: Profile) -> pl.DataFrame:
    """Return the innermost scopes of Proton as ops; the type of each is that of its largest kernel."""
    scope_kernels = kernels_in_scopes(profile)
    types = classify(scope_kernels["name"].unique(), op_rules().rules).select("name", "op_type", "direction")
    return (
        scope_kernels.join(types, on="name", how="left", maintain_order="left")
        .sort("total_ns", descending=True, nulls_last=True, maintain_order=True)
        .group_by("session", "op", maintain_order=True)
        .agg(
            pl.col("op_type", "direction").first(),
            total("calls").alias("launches"),
            pl.len().cast(pl.Int64).alias("kernels"),
            total("total_ns").alias("gpu_self_ns"),
        )
        .with_columns(op_source=pl.lit("nvtx"))
    )


_ROUNDING: Final = 0.005
"""A smaller part of a printed total can be due to rounding."""


@once_per_profile("sessions", "devices", "activities", "api_calls", "summary", "tool_figures")
def printed_ops(profile: Profile) -> pl.DataFrame:
    """Return ops that the input has as totals (PyTorch's tables), with the columns of `recorded_ops`.

    GPU self time counts a kernel in the op that launched it, so the self times add up to the GPU time; if they are less
    than the kernels of the table, or its total, a row without an op has the rest. GPU rows of ranges, without CPU time,
    repeat kernels and are omitted. The innermost scopes of Proton's profiles count as ops.
    """
    has_scopes = (profile["sessions"]["format"] == "proton").any()
    # A quick check: this runs for every session of a log.
    if not has_scopes and not (profile["summary"]["section"] == "op").any():
        return pl.DataFrame(schema=RECORDED)
    time = {name: pl.col(name).fill_null(0) != 0 for name in ("total_ns", "cpu_self_ns", "gpu_self_ns", "gpu_total_ns")}
    on_cpu = time["total_ns"] | time["cpu_self_ns"]
    on_gpu = time["gpu_self_ns"] | time["gpu_total_ns"]
    name = pl.col("name").cast(pl.String)
    rows = (
        profile["summary"]
        .filter(pl.col("section").cast(pl.String) == "op", ~name.str.contains(_NOT_OPS))
        .filter(on_cpu | ~on_gpu | ~on_cpu.any().over("session"))
        # Names that the table truncates can be those of several ops.
        .group_by("session", "name", pl.when(name.str.ends_with("...")).then("line").alias("cut"), maintain_order=True)
        .agg(
            total("calls").alias("calls"),
            total("gpu_self_ns").alias("gpu_self_ns"),
            total("gpu_total_ns").alias("gpu_total_ns"),
            total("total_ns").alias("cpu_total_ns"),
            total("cpu_self_ns").alias("cpu_self_ns"),
            pl.col("stack").cast(pl.String).drop_nulls().first(),
            pl.col("line").min(),
        )
    )
    rules = op_rules()
    types = pl.col("op_type").cast(pl.String)
    classes = classify(rows["name"].unique(), rules.op_rules).select(
        "name", "direction", op_type=pl.when(types != UNKNOWN).then(types)
    )
    ops = rows.join(classes, on="name", how="left", maintain_order="left").with_columns(
        op=pl.col("name"),
        timed_calls=pl.when(pl.col("gpu_self_ns").is_not_null()).then("calls"),
        gpu_avg_ns=average(pl.col("gpu_self_ns"), pl.col("calls")),
        cpu_avg_ns=average(pl.col("cpu_total_ns"), pl.col("calls")),
        op_source=pl.lit("recorded"),
    )
    ops = pl.concat([ops, _scopes(profile)], how="diagonal_relaxed").with_columns(
        group=types.replace_strict(rules.groups, default=types, return_dtype=pl.String)
    )
    all_rows = pl.concat([ops, _unprinted_rest(profile, ops)], how="diagonal_relaxed")
    return with_schema(all_rows.with_columns(share("gpu_self_ns")), RECORDED)


def _unprinted_rest(profile: Profile, ops: pl.DataFrame) -> pl.DataFrame:
    """Return a row without an op for each session whose kernels, or their printed total, took longer than its ops."""
    kernel_totals = (
        kernels(profile)
        .group_by("session")
        .agg(kernels_ns=total("total_ns"), line=pl.col("line").min())
        .join(printed_totals(profile), on="session", how="full", coalesce=True)
        .select(
            "session",
            pl.max_horizontal("kernels_ns", "printed_ns").alias("kernels_ns"),
            pl.coalesce("line", "line_right").alias("line"),
            why_no_op=pl.when(pl.col("printed_ns").is_null())
            .then(pl.lit(NO_ACTIVITIES))
            .otherwise(pl.lit(NO_OP_PRINTED)),
            # Printed totals are rounded.
            least_ns=pl.col("printed_ns").fill_null(0) * _ROUNDING,
        )
    )
    return (
        ops.group_by("session")
        .agg(pl.col("gpu_self_ns").sum())
        .join(kernel_totals, on="session")
        .filter(pl.col("gpu_self_ns") > 0, pl.col("kernels_ns") - pl.col("gpu_self_ns") > pl.col("least_ns"))
        .select(
            "session",
            "line",
            "why_no_op",
            gpu_self_ns=pl.col("kernels_ns") - pl.col("gpu_self_ns"),
            op=pl.format(NO_OP, "why_no_op"),
        )
    )


def printed_op_sessions(profile: Profile) -> pl.Series:
    """Return the sessions whose GPU time is that of `printed_ops`."""
    return printed_ops(profile).filter(pl.col("gpu_self_ns") > 0)["session"].unique()


def ops_spec(profile: Profile) -> TableSpec:
    """Return the table of `ops`."""
    return RECORDED_OPS if has_recorded_ops(profile) else OPS


def ops(profile: Profile) -> pl.DataFrame:
    """Return ops by name, largest GPU time first.

    If no session records ops, these are `inferred_ops`. Else they are `recorded_ops`, `printed_ops`, and the inferred
    ops of the other sessions with the same columns, of which only GPU time and launches are known.
    """
    return all_ops_by_name(profile) if has_recorded_ops(profile) else inferred_ops(profile)


def all_ops_by_name(profile: Profile) -> pl.DataFrame:
    """Return ops of every session with the columns of `recorded_ops`, whether they are recorded or inferred."""
    inferred = inferred_ops(profile).select(
        "session",
        pl.col("op").cast(NAME),
        "op_type",
        "direction",
        "group",
        pl.col("total_ns").alias("gpu_self_ns"),
        "time_pct",
        pl.col("calls").alias("launches"),
        (pl.col("calls") - pl.col("timed_calls")).alias("untimed_launches"),
        "kernels",
        "uses_tensor_core",
        "op_source",
        "line",
    )
    frames = [inferred]
    if has_recorded_ops(profile):
        inferred = inferred.filter(~pl.col("session").is_in(printed_op_sessions(profile).implode()))
        frames = [recorded_ops(profile), printed_ops(profile), inferred]
    rows = pl.concat(frames, how="diagonal")
    order = ("gpu_self_ns", "gpu_total_ns", "cpu_total_ns", "op", "session")
    return with_schema(rows, RECORDED).sort(order, descending=[True, True, True, False, False], nulls_last=True)


def inferred_ops(profile: Profile) -> pl.DataFrame:
    """Return GPU time by op of the sessions without recorded ops: one row per session, op type and direction.

    Columns: session, op, op_type, direction, group, kernels (distinct names), calls, timed_calls (those whose duration
    is known), total_ns, avg_ns (of these), min_ns, max_ns, time_pct (as in `kernels`), uses_tensor_core (whether any of
    its kernels does), op_source, line (the first one in the input). The rows add up to those of
    `tui.analysis.kernels.kernels` exactly. Copies and memsets are ``recorded`` as such; the other ops are ``inferred``
    from the names of kernels.
    """
    return (
        classified_kernels(profile)
        .filter(~pl.col("session").is_in(recorded_sessions(profile).implode()))
        .group_by("session", "op_type", "direction")
        .agg(
            pl.col("op").first(),
            pl.col("group").first(),
            pl.len().cast(pl.Int64).alias("kernels"),
            complete_sum("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            # For a single kernel use the printed values, as in Kernels: a printed total is rounded.
            pl.when(pl.len() == 1)
            .then(pl.col("avg_ns").first())
            .otherwise(average(total("total_ns"), timed_calls("timed_calls")))
            .alias("avg_ns"),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            total("time_pct").alias("time_pct"),
            pl.when((pl.col("kind") != "kernel").all())
            .then(pl.lit("recorded"))
            .otherwise(pl.lit("inferred"))
            .cast(NAME)
            .alias("op_source"),
            pl.col("uses_tensor_core").any(ignore_nulls=False),
            timed_calls("timed_calls").alias("timed_calls"),
            pl.col("line").min(),
        )
        .select(
            "session",
            "op",
            "op_type",
            "direction",
            "group",
            "kernels",
            "calls",
            "timed_calls",
            "total_ns",
            "avg_ns",
            "min_ns",
            "max_ns",
            "time_pct",
            "uses_tensor_core",
            "op_source",
            "line",
        )
        .sort(
            *("total_ns", "op", "session", "op_type", "direction"),
            descending=[True, False, False, False, False],
            nulls_last=True,
        )
    )


def with_schema(rows: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows with all columns of a schema, in its order."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    )


def kernels_with_ops(profile: Profile) -> pl.DataFrame:
    """Return kernels and memory operations with the op that each belongs to.

    Sessions that record no ops have the rows of `classified_kernels`, the others one row per innermost op and kernel
    (`tui.analysis.ops.op_attribution.classified_work`): ``op`` is the op's recorded name, ``why_no_op`` is the reason
    why there is none.
    """
    inferred = classified_kernels(profile).filter(~pl.col("session").is_in(recorded_sessions(profile).implode()))
    if not has_recorded_ops(profile):
        return inferred.with_columns(why_no_op=pl.lit(None, pl.String))
    session_ns = pl.col("total_ns").sum().over("session")
    recorded = classified_work(profile).with_columns(
        pl.col("op").cast(pl.String),
        pl.col("launches").alias("calls"),
        average(pl.col("total_ns"), pl.col("timed_calls")).alias("avg_ns"),
        pl.when(session_ns > 0).then(100 * pl.col("total_ns") / session_ns).alias("time_pct"),
    )
    return pl.concat([inferred, recorded.drop("launches", "kernel_type")], how="diagonal_relaxed").sort(
        *("total_ns", "name", "session", "op", "why_no_op"),
        descending=[True, False, False, False, False],
        nulls_last=True,
    )


def inferred_op_kernels(profile: Profile, *, session: int, op_type: str, direction: str | None) -> pl.DataFrame:
    """Return the kernels of an op of a session, with the rule that classifies each."""
    return classified_kernels(profile).filter(
        pl.col("session") == session,
        pl.col("op_type").cast(pl.String) == op_type,
        pl.col("direction").cast(pl.String).eq_missing(pl.lit(direction, pl.String)),
    )


_GRAPH: Final = "whole CUDA graph"


@dataclass(frozen=True, slots=True)
class Coverage:
    """GPU time by the way its op is known; the parts add up to the total."""

    recorded_ns: int
    """The GPU time of recorded ops."""
    memory_ns: int
    """Copies, sets and the like of sessions that record no ops: they are recorded as what they are."""
    graph_ns: int
    """CUDA graphs of such sessions that are recorded whole: their content is unknown."""
    inferred_ns: int
    """The GPU time of ops that are inferred from kernel names."""
    no_op_ns: int
    """The GPU time outside of ops, in sessions that record ops."""
    unknown_ns: int
    """The time of kernels that no rule matches."""

    @property
    def total_ns(self) -> int:
        """All GPU time."""
        return sum(astuple(self))


def coverage(profile: Profile) -> Coverage:
    """Return how the GPU time of a profile is attributed."""
    printed = printed_ops(profile).filter(pl.col("gpu_self_ns") > 0)
    inferred = inferred_ops(profile).filter(~pl.col("session").is_in(printed["session"].unique().implode()))
    op_type = pl.col("op_type").cast(pl.String)
    unknown, graph = op_type == UNKNOWN, op_type == _GRAPH
    has_op = pl.col("why_no_op").is_null()
    recorded, no_op = printed.filter(has_op)["gpu_self_ns"], printed.filter(~has_op)["gpu_self_ns"]
    if len(recorded_sessions(profile)):
        work = work_by_op(profile)
        has_no_op = pl.col("why_no_op").is_in(WITHOUT_OP)
        recorded = recorded.append(work.filter(~has_no_op.fill_null(False))["total_ns"])
        no_op = no_op.append(work.filter(has_no_op)["total_ns"])
    classified = inferred.filter(pl.col("op_source") == "inferred")
    recorded_inferred = inferred.filter(pl.col("op_source") == "recorded")
    memory, graphs = recorded_inferred.filter(~graph)["total_ns"], recorded_inferred.filter(graph)["total_ns"]
    parts = (
        recorded,
        memory,
        graphs,
        classified.filter(~unknown)["total_ns"],
        no_op,
        classified.filter(unknown)["total_ns"],
    )
    return Coverage(*(int(part.sum()) for part in parts))


def coverage_note(profile: Profile) -> str:
    """Return a sentence about `coverage`; empty if there is no GPU time.

    As ``ops inferred from kernel names; 1.2 ms (0.3%) unclassified``.
    """
    covered = coverage(profile)
    if not covered.total_ns:
        return ""

    def share(part_ns: int) -> str:
        return f"{brief_duration(part_ns)} ({brief_percent(100 * part_ns / covered.total_ns)} of GPU time)"

    parts_text = []
    if covered.recorded_ns or covered.no_op_ns:
        is_scopes = printed_ops(profile)["op_source"].cast(pl.String) == "nvtx"
        subject = "scope" if is_scopes.any() and is_scopes.all() and not len(recorded_sessions(profile)) else "op"
        unattributed_text = f"; {share(covered.no_op_ns)} not attributed to any {subject}" if covered.no_op_ns else ""
        parts_text.append(f"{subject}s recorded{unattributed_text}")
    if covered.inferred_ns or covered.unknown_ns:
        unclassified_text = f"{share(covered.unknown_ns)} unclassified" if covered.unknown_ns else "all classified"
        parts_text.append(f"ops inferred from kernel names; {unclassified_text}")
    if covered.graph_ns:
        parts_text.append(
            f"{brief_percent(100 * covered.graph_ns / covered.total_ns)} of GPU time is in CUDA graphs recorded as a "
            "whole"
        )
    if not parts_text:
        parts_text.append("only memcpy and memset")
    text = "; ".join(parts_text)
    return text[0].upper() + text[1:]
