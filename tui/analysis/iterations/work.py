"""The kernels of each iteration: their number and time, the single launches, and the sums by op."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.durations import total, total_where
from tui.analysis.gpu_time.interval_sets import interval_union
from tui.analysis.gpu_time.timelines import GpuUse, adjusted_timelines, gpu_uses
from tui.analysis.iterations.iteration_table import iterations, sources, unassigned_sessions
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.kernels import LAUNCHES
from tui.analysis.launch_calls import with_launched_by
from tui.analysis.memo import once_per_profile
from tui.analysis.occupancy import with_occupancy
from tui.analysis.ops.op_attribution import op_classes, op_rows, recorded_sessions, unattributed_reason
from tui.analysis.ops.op_costs import NO_OP
from tui.analysis.ops.op_type_rules import classify, op_rules
from tui.analysis.ops.ops_by_name import op_name
from tui.analysis.tensor_core_use import with_verdicts
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.profile import Profile


_SHARES: Final = {"kernel_pct": pl.Float64, "tc_pct": pl.Float64}

ITERATION_WORK: Final = TableSpec(
    "iteration_work",
    "Iterations",
    (
        # The row without a number is for work launched before, between or after the iterations.
        replace(COLUMNS["iteration"], absent="outside"),
        replace(COLUMNS["session"], priority=4),
        *columns("duration_ns", "kernels_launched", "tc_kernels"),
        replace(COLUMNS["kernel_ns"], priority=3),
        *columns("kernel_pct", "tc_ns", "tc_pct", "tc_unknown"),
        replace(COLUMNS["gpu_ns"], priority=6),
        replace(COLUMNS["start_ns"], priority=6),
        *columns("rank"),
    ),
    key=("session", "iteration"),
    weight="kernel_ns",
    pinned="iteration",
    min_pinned_cells=10,
    bars=("kernel_pct", "tc_pct"),
)

ITERATION_LAUNCHES: Final = TableSpec(
    "launches",
    "Launches in time order",
    (
        *columns("name", "start_ns", "duration_ns"),
        replace(COLUMNS["device"], priority=6),
        replace(COLUMNS["stream"], priority=3),
        *columns("grid", "block"),
        replace(COLUMNS["uses_tensor_core"], priority=3),
        replace(COLUMNS["launched_by"], priority=5),
        *(
            column
            for column in LAUNCHES.columns
            if column.name
            not in (
                "start_ns",
                "duration_ns",
                "device",
                "stream",
                "grid",
                "block",
                "uses_tensor_core",
                "launched_by",
                "iteration",
            )
        ),
        *columns("kind"),
    ),
    key=LAUNCHES.key,
    weight="duration_ns",
    min_pinned_cells=34,
)


def activity_iterations(profile: Profile) -> pl.Series:
    """Return the iteration in which each row of ``activities`` was launched; null outside of iterations.

    A run without repetition is iteration 0 as a whole.
    """
    whole_run_sessions = [session for session, source in sources(profile).items() if source == WHOLE_RUN]
    activities = profile["activities"]
    if not whole_run_sessions:
        return activities["iteration"]
    uncut = pl.col("session").is_in(whole_run_sessions) & pl.col("start_ns").is_not_null()
    return activities.select(pl.when(uncut).then(pl.lit(0, pl.Int32)).otherwise("iteration").alias("iteration"))[
        "iteration"
    ]


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "ranges")
def iteration_work(profile: Profile) -> pl.DataFrame:
    """Return one row per iteration, and one per session for work outside of iterations.

    Columns: session, rank, iteration (null outside), start_ns, duration_ns (as in `iterations`; outside: null),
    kernels_launched, tc_kernels (the kernels known to use tensor cores; null if unknown for all), tc_unknown (kernels
    for which it is unknown), kernel_ns (summed durations of its kernels and CUDA graphs, whenever they ran), kernel_pct
    (share of duration_ns in which a kernel ran, whichever iteration launched it: the mean over the GPUs of the session
    that had work), tc_ns and tc_pct (the same of those that use tensor cores), gpu_ns (with copies and memsets). They
    are null if a session records no GPU work, or none of its launches; times are also null if no duration is known.
    """
    use = pl.Series("use", gpu_uses(profile), dtype=pl.Int8)
    keys = ["session", "iteration"]
    by_use = (
        profile["activities"]
        .lazy()
        .select("session", activity_iterations(profile).alias("iteration"), use, "duration_ns")
        .group_by(*keys, "use")
        .agg(pl.len().cast(pl.Int64).alias("launches"), total().alias("ns"))
        .collect()
    )
    is_kernel, is_tc = pl.col("use") != int(GpuUse.MEMORY), pl.col("use") == int(GpuUse.YES)
    is_known = is_kernel & (pl.col("use") != int(GpuUse.UNKNOWN))
    any_known = is_known.any() | ~is_kernel.any()

    sums = by_use.group_by(keys).agg(
        pl.col("launches").filter(is_kernel).sum().alias("kernels_launched"),
        pl.when(any_known).then(pl.col("launches").filter(is_tc).sum()).alias("tc_kernels"),
        pl.col("launches").filter(is_kernel & ~is_known).sum().alias("tc_unknown"),
        total_where(is_kernel, "ns").alias("kernel_ns"),
        pl.when(any_known).then(total_where(is_tc, "ns")).alias("tc_ns"),
        total("ns").alias("gpu_ns"),
    )
    counted = ("kernels_launched", "tc_kernels", "tc_unknown", "kernel_ns", "tc_ns", "gpu_ns")
    # Work of other iterations shows that work is recorded.
    full_profile = profile.all_iterations or profile
    with_work = full_profile["activities"]["session"].unique().implode()
    is_assigned = ~pl.col("session").is_in(unassigned_sessions(full_profile))
    numbered = iterations(profile).filter(pl.col("iteration").is_not_null())
    outside = sums.filter(pl.col("iteration").is_null()).select(keys)
    ranks = profile["sessions"].select("session", "rank")
    return (
        pl.concat([numbered.select(*keys, "start_ns", "duration_ns"), outside], how="diagonal")
        .join(sums, on=keys, how="left", nulls_equal=True)
        .join(_shares(full_profile), on=keys, how="left", maintain_order="left")
        .join(ranks, on="session", how="left")
        .with_columns(
            pl.when(is_assigned & pl.col("session").is_in(with_work) & pl.col("kernels_launched").is_null())
            .then(pl.lit(0, pl.Int64))
            .otherwise(name)
            .alias(name)
            for name in counted
        )
        .with_columns(
            # Work without known durations has no share.
            pl.when(pl.col(time_column).is_not_null()).then(share).alias(share)
            for time_column, share in (("kernel_ns", "kernel_pct"), ("tc_ns", "tc_pct"))
        )
        .sort(*keys, nulls_last=True)
        .select("session", "rank", "iteration", "start_ns", "duration_ns", *counted, "kernel_pct", "tc_pct")
    )


def _shares(profile: Profile) -> pl.DataFrame:
    """Return the shares of each iteration's time in which kernels, and tensor-core kernels, ran on a GPU."""
    timelines_by_session: dict[int, list[Timeline]] = {}
    for timeline in adjusted_timelines(profile):
        timelines_by_session.setdefault(timeline.session, []).append(timeline)
    uses = gpu_uses(profile)
    rows = iterations(profile).select("session", "iteration", "start_ns", "duration_ns").drop_nulls()
    frames = [pl.DataFrame(schema={**rows.select("session", "iteration").schema, **_SHARES})]
    for (session,), session_rows in rows.filter(pl.col("duration_ns") > 0).group_by("session", maintain_order=True):
        session_timelines = timelines_by_session.get(int(session), [])
        if not session_timelines:
            continue
        starts = session_rows["start_ns"].to_numpy()
        lengths = session_rows["duration_ns"].to_numpy()
        shares = session_rows.select("session", "iteration")
        for name, max_use in (("kernel_pct", GpuUse.UNKNOWN), ("tc_pct", GpuUse.YES)):
            masks = [timeline.take(uses) <= max_use for timeline in session_timelines]
            ran = sum(
                interval_union(timeline.starts[rows_on], timeline.ends[rows_on]).covered_within(
                    starts, starts + lengths
                )
                for timeline, rows_on in zip(session_timelines, masks, strict=True)
            )
            shares = shares.with_columns(
                pl.Series(name, 100 * ran / lengths / len(session_timelines), dtype=pl.Float64)
            )
        frames.append(shares)
    return pl.concat(frames)


def slowest_iteration(profile: Profile) -> tuple[int, int] | None:
    """Return session and number of the iteration that took longest, the first of several; None if no time is known."""
    rows = iterations(profile).drop_nulls(["iteration", "duration_ns"])
    if rows.is_empty():
        return None
    row = rows.row(rows["duration_ns"].arg_max() or 0, named=True)
    return row["session"], row["iteration"]


def iteration_activities(profile: Profile, *, session: int, iteration: int | None) -> pl.DataFrame:
    """Return the rows of ``activities`` that were launched in an iteration; None: outside of iterations."""
    numbers = activity_iterations(profile)
    inside = numbers.is_null() if iteration is None else numbers == iteration
    return profile["activities"].filter(pl.col("session") == session, inside)


def iteration_launches(profile: Profile, *, session: int, iteration: int | None) -> pl.DataFrame:
    """Return all GPU work that was launched in an iteration, in time order, as `tui.analysis.kernels.launches`.

    Args:
        profile: The profile.
        session: Number of the session.
        iteration: The number of the iteration; None: work launched outside of iterations.
    """
    return as_launches(profile, iteration_activities(profile, session=session, iteration=iteration))


def as_launches(profile: Profile, activities: pl.DataFrame) -> pl.DataFrame:
    """Return activities with the columns of a table of launches, in time order."""
    rows = with_verdicts(profile, with_launched_by(profile, activities))
    return with_occupancy(profile, with_shapes(rows)).sort("start_ns", "activity", nulls_last=True)


def slowest_iteration_launches(profile: Profile) -> pl.DataFrame:
    """Return `iteration_launches` of the iteration that took longest."""
    slowest = slowest_iteration(profile)
    session, iteration = slowest if slowest is not None else (-1, None)
    return iteration_launches(profile, session=session, iteration=iteration)


ITERATION_OPS: Final = TableSpec(
    "iteration_ops",
    "Ops of the iteration",
    (
        *columns("op", "gpu_ns", "time_pct"),
        # Distinguishes ops of the backward pass with the same name.
        replace(COLUMNS["direction"], priority=2),
        replace(COLUMNS["kernels_launched"], priority=2),
        *columns("tc_kernels", "tc_ns"),
        replace(
            COLUMNS["launches"], title="GPU work", help="Kernels, copies and memsets that it launched.", priority=7
        ),
        *columns("op_source", "op_type", "data_type", "input_shapes", "stack", "why_no_op"),
        *columns("tc_unknown", "session", "iteration"),
    ),
    key=("session", "iteration", "op", "op_type", "direction", "why_no_op"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="op",
)

_MAX_TEXTS: Final = 3
"""The most distinct texts of an op's calls that are listed."""

_OP_KEYS: Final = ("op", "op_type", "direction", "why_no_op")
"""The key of the ops of an iteration."""


def iteration_ops(profile: Profile, *, session: int, iteration: int | None) -> pl.DataFrame:
    """Return the ops whose GPU work was launched in an iteration, largest GPU time first; they add up to all of it.

    Columns: session, iteration, op (its recorded name, else what rules infer from the name of the kernel: type and
    direction; ``(unattributed: reason)`` where a session records ops and this work has none), op_type, direction,
    op_source (recorded, nvtx, inferred), why_no_op, launches (kernels, memcpys, memsets), kernels_launched,
    tc_kernels and tc_ns (null if it is known of none of its kernels whether they use tensor cores), tc_unknown,
    gpu_ns, time_pct (share of the iteration's GPU time), data_type, input_shapes and stack (of the calls of a recorded
    op: up to three, most frequent first).

    Args:
        profile: The profile.
        session: Number of the session.
        iteration: The number of the iteration; None: work launched outside of iterations.
    """
    work = _with_ops(profile, iteration_activities(profile, session=session, iteration=iteration), session)
    work = with_verdicts(profile, work)
    is_kernel = pl.col("kind").cast(pl.String).is_in(["kernel", "graph"])
    uses = pl.col("uses_tensor_core")
    any_known = (uses.is_not_null() & is_kernel).any() | ~is_kernel.any()
    rows = (
        work.lazy()
        .group_by(*_OP_KEYS, "op_source")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            is_kernel.sum().cast(pl.Int64).alias("kernels_launched"),
            pl.when(any_known).then((is_kernel & uses).sum().cast(pl.Int64)).alias("tc_kernels"),
            (is_kernel & uses.is_null()).sum().cast(pl.Int64).alias("tc_unknown"),
            total().alias("gpu_ns"),
            pl.when(any_known).then(total_where(is_kernel & uses)).alias("tc_ns"),
        )
        .with_columns(
            pl.lit(session).cast(pl.UInt32, strict=False).alias("session"),
            pl.lit(iteration, pl.Int32).alias("iteration"),
            pl.when(pl.col("gpu_ns").sum() > 0).then(100 * pl.col("gpu_ns") / pl.col("gpu_ns").sum()).alias("time_pct"),
        )
        .collect()
    )
    for column in ("data_type", "input_shapes", "stack"):
        rows = rows.join(_most_frequent(work, column), on=_OP_KEYS, how="left", nulls_equal=True)
    return rows.select(column.name for column in ITERATION_OPS.columns).sort(
        "gpu_ns", *_OP_KEYS, descending=[True, False, False, False, False], nulls_last=True
    )


def iteration_op_launches(
    profile: Profile,
    *,
    session: int,
    iteration: int | None,
    op: str,
    op_type: str | None,
    direction: str | None,
    why_no_op: str | None,
) -> pl.DataFrame:
    """Return the GPU work that `iteration_ops` counts in one row, as `tui.analysis.kernels.launches`.

    Args:
        profile: The profile.
        session: Number of the session.
        iteration: The number of the iteration; None: work launched outside of iterations.
        op: As in the row.
        op_type: As in the row.
        direction: As in the row.
        why_no_op: As in the row.
    """
    work = iteration_activities(profile, session=session, iteration=iteration)
    ops = _with_ops(profile, work, session).select(_OP_KEYS)
    key = dict(zip(_OP_KEYS, (op, op_type, direction, why_no_op), strict=True))
    is_op = ops.select(
        pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in key.items())
    ).to_series()
    return as_launches(profile, work.filter(is_op))


def slowest_iteration_ops(profile: Profile) -> pl.DataFrame:
    """Return `iteration_ops` of the iteration that took longest."""
    slowest = slowest_iteration(profile)
    session, iteration = slowest if slowest is not None else (-1, None)
    return iteration_ops(profile, session=session, iteration=iteration)


def _with_ops(profile: Profile, work: pl.DataFrame, session: int) -> pl.DataFrame:
    """Return the GPU work of a session with the op of each, as text, as in `iteration_ops`."""
    if session in recorded_sessions(profile):
        return _with_recorded_ops(profile, work, session)
    is_kernel = pl.col("kind") == "kernel"
    return (
        work.drop("op")
        .join(classify(work["name"], op_rules().rules), on="name", how="left", maintain_order="left")
        .with_columns(op_name())
        .with_columns(
            pl.col("op_type", "direction").cast(pl.String),
            pl.when(is_kernel).then(pl.lit("inferred")).otherwise(pl.lit("recorded")).alias("op_source"),
            *(pl.lit(None, pl.String).alias(name) for name in ("why_no_op", "data_type", "input_shapes", "stack")),
        )
    )


def _with_recorded_ops(profile: Profile, work: pl.DataFrame, session: int) -> pl.DataFrame:
    ops = profile["ops"]
    rows = op_rows(work["op"], ops)
    row_numbers = pl.Series(rows)
    row_numbers = row_numbers.set(row_numbers == NONE, None).cast(pl.UInt32)
    recorded = ops.select(
        pl.col(name).gather(row_numbers)
        for name in ("session", "name", "direction", "dtype", "input_shapes", "stack", "op_source")
    ).select(
        pl.col("session").alias("op_session"),
        pl.col("name").cast(pl.String).alias("op"),
        pl.col("direction").cast(pl.String).alias("own_direction"),
        pl.col("dtype").cast(pl.String).alias("data_type"),
        pl.col("input_shapes", "stack", "op_source").cast(pl.String),
    )
    is_in_session = pl.col("op_session") == session
    recorded = recorded.select(
        pl.when(is_in_session).then(pl.col(name)).alias(name) for name in recorded.columns if name != "op_session"
    )
    classes = (
        op_classes(profile)
        .filter(pl.col("session") == session)
        .select(pl.col("op", "op_type").cast(pl.String), pl.col("direction").cast(pl.String).alias("of_name"))
    )
    return (
        work.drop("op")
        .hstack(recorded)
        .join(classes, on="op", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("own_direction", "of_name").alias("direction"), unattributed_reason(pl.col("op").is_not_null())
        )
        .with_columns(pl.coalesce("op", pl.format(NO_OP, "why_no_op")).alias("op"))
        .drop("own_direction", "of_name")
    )


def _most_frequent(work: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return up to ``_MAX_TEXTS`` distinct texts per op, the most frequent first, and the number of others."""
    more = pl.len().cast(pl.Int64) - _MAX_TEXTS
    texts = pl.col(column).head(_MAX_TEXTS)
    return (
        work.filter(pl.col(column).is_not_null())
        .group_by(*_OP_KEYS, column)
        .len()
        .sort("len", column, descending=[True, False])
        .group_by(_OP_KEYS, maintain_order=True)
        .agg(texts.alias("texts"), more.alias("more"))
        .select(
            *_OP_KEYS,
            pl.when(pl.col("more") > 0)
            .then(pl.format("{} | {} more", pl.col("texts").list.join(" | "), "more"))
            .otherwise(pl.col("texts").list.join(" | "))
            .alias(column),
        )
    )
