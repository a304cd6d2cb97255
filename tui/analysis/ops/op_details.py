"""Details of a recorded op: its kernels, their launches, and the arguments of its calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.durations import figures
from tui.analysis.kernels import KERNELS, kernels
from tui.analysis.occupancy import with_occupancy
from tui.analysis.ops.op_attribution import (
    WITHOUT_OP,
    classified_work,
    names_at,
    op_row_of_activities,
    op_tree,
    unattributed_reason,
)
from tui.analysis.ops.recorded import recorded_ops
from tui.analysis.tensor_cores.verdicts import with_verdicts, with_verdicts_by_name
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE
from tui.model.profile import rows_of_session
from tui.model.view import TableSpec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tui.model.profile import Profile


KERNELS_OF_OP: Final = TableSpec(
    "op_kernels",
    "Kernels of the op",
    (
        *columns("name", "total_ns", "time_pct", "calls", "avg_ns"),
        replace(COLUMNS["launched_by"], priority=4),
        *(
            column
            for column in KERNELS.columns
            if column.name not in ("name", "total_ns", "time_pct", "calls", "avg_ns")
        ),
        *columns("op_type", "group", "rule"),
    ),
    key=("session", "launched_by", "kind", "name"),
    sort=(("total_ns", True),),
    weight="total_ns",
)
"""Kernels of a recorded op, those of the ops within it as well."""


@dataclass(frozen=True, slots=True)
class Value:
    """Something that calls of an op were recorded with."""

    text: str
    calls: int
    """How many of them."""


@dataclass(frozen=True, slots=True)
class Values:
    """What the calls of an op were recorded with, of one kind."""

    most: tuple[Value, ...]
    """The most frequent ones, most calls first."""
    others: int
    """How many further values there are."""


@dataclass(frozen=True, slots=True)
class OpCalls:
    """What the calls of a recorded op were like; empty where it is not recorded."""

    input_shapes: Values
    dtype: Values
    stack: Values
    """Source lines that called it, innermost first, with ``;`` between."""
    group: Values
    """Paths of modules, ranges or ops that it ran in."""
    parent: Values
    """Names of the ops that called it."""
    children: Values
    """Names of the ops that it called."""
    forward: Values
    """Names of the forward ops that a backward op belongs to."""
    backward: Values
    """Names of the backward ops that belong to a forward op."""
    direction: Values
    op_source: Values
    thread: Values
    """Threads that it ran on."""


def kernels_of_recorded_op(
    profile: Profile, *, session: int, op: str | None = None, why_no_op: str | None = None
) -> pl.DataFrame:
    """The kernels and memory operations that a recorded op launched, and those that ops within it did.

    Columns: those of `tui.analysis.kernels.kernels`, launched_by (the innermost op around the launch, null for work
    without an op), op_type, group and rule (`tui.analysis.ops.op_attribution.classified_work`). Each launch counts
    once, so they add up to the op's GPU total unless it runs within itself. ``time_pct`` is the share of the session's
    GPU time.

    Args:
        profile: Where to look.
        session: Number of the session.
        op: Name of the op.
        why_no_op: Instead, the reason why work has no op, as `tui.analysis.ops.op_attribution.work_by_op` says it.
    """
    if why_no_op == WITHOUT_OP[2]:
        rows = kernels(profile).filter(pl.col("session") == session).with_columns(pl.lit(None, pl.String).alias("op"))
    else:
        work = _work_of(profile, session=session, op=op, why_no_op=why_no_op)
        whole = rows_of_session(profile["activities"], session)["duration_ns"].sum()
        rows = (
            work.lazy()
            .group_by("session", "op", "kind", "name")
            .agg(
                *figures(),
                pl.col("uses_tensor_core").any(ignore_nulls=False),
                pl.col("short_name").first(),
                pl.col("line").min(),
            )
            .with_columns((100 * pl.col("total_ns") / (whole or None)).alias("time_pct"))
            .collect()
        )
        rows = with_verdicts_by_name(profile, rows)
    classes = classified_work(profile).filter(pl.col("session") == session)
    own = classes.select("op", "kind", "name", "why_no_op", "op_type", "group", "rule")
    own = own.filter(pl.col("why_no_op").is_null() if why_no_op is None else pl.col("why_no_op") == why_no_op)
    return (
        rows.with_columns(pl.col("op").cast(own.schema["op"]))
        .join(own.drop("why_no_op"), on=["op", "kind", "name"], how="left", nulls_equal=True)
        .rename({"op": "launched_by"})
        .sort("total_ns", "name", "session", descending=[True, False, False], nulls_last=True)
    )


def launches_of_recorded_op(
    profile: Profile,
    *,
    session: int,
    kind: str,
    name: str,
    launched_by: str | None,
    op: str | None = None,
    why_no_op: str | None = None,
    gpu: str | None = None,
) -> pl.DataFrame:
    """The launches of one kernel that `kernels_of_recorded_op` counts in one row, as `tui.analysis.kernels.launches`.

    Args:
        profile: Where to look.
        session: Number of the session.
        kind: Kind of the kernel.
        name: Its full name.
        launched_by: The innermost op around the launches.
        op: The op that they are examined from.
        why_no_op: Instead, the reason why they have no op.
        gpu: The name of the GPU, as the user gives it, where the input does not say enough.
    """
    work = _work_of(profile, session=session, op=op, why_no_op=why_no_op).filter(
        pl.col("kind").cast(pl.String) == kind,
        pl.col("name").cast(pl.String) == name,
        pl.col("op").cast(pl.String).eq_missing(pl.lit(launched_by, pl.String)),
    )
    work = with_verdicts(profile, work.rename({"op": "launched_by"}))
    return with_occupancy(profile, with_shapes(work), gpu=gpu)


def activities_of_recorded_op(
    profile: Profile, *, session: int, op: str | None = None, why_no_op: str | None = None
) -> pl.Series:
    """The numbers of the activities that `kernels_of_recorded_op` adds up."""
    return _work_of(profile, session=session, op=op, why_no_op=why_no_op)["activity"]


def _work_of(profile: Profile, *, session: int, op: str | None, why_no_op: str | None) -> pl.DataFrame:
    """The activities that a row of ops stands for, with ``op`` as the name of their innermost op."""
    activities, ops = profile["activities"], profile["ops"]
    rows = op_row_of_activities(profile)
    if op is None:
        wanted = pl.Series(rows == NONE)
        reason = activities.select(unattributed_reason(pl.lit(False)))["why_no_op"]
        wanted &= reason == (why_no_op or "")
    else:
        wanted = pl.Series(_within(profile, session, op)[rows] & (rows != NONE)) if ops.height else pl.Series(rows == 0)
    found = (wanted & (activities["session"] == session)).arg_true()
    return activities[found].with_columns(names_at(ops, rows[found.to_numpy()]))


def _within(profile: Profile, session: int, op: str) -> npt.NDArray[np.bool_]:
    """Which ops have this name, or run in one of them."""
    ops = profile["ops"]
    named = ops.select((pl.col("name") == op) & (pl.col("session") == session)).to_series().fill_null(False)
    flags = named.to_numpy().copy()
    row = recorded_ops(profile).filter(pl.col("op") == op, pl.col("session") == session, pl.col("why_no_op").is_null())
    # Mostly an op launches all of its work itself, and then there is no need to look into it.
    alone = row.height == 1 and row["gpu_self_ns"][0] == row["gpu_total_ns"][0] and row["untimed_launches"][0] == 0
    return flags if alone else op_tree(ops).below(flags)


def op_calls(profile: Profile, *, session: int, op: str, most: int = 5) -> OpCalls:
    """What the calls of a recorded op were like.

    Args:
        profile: Where to look.
        session: Number of the session.
        op: Name of the op.
        most: So many values of each kind are listed.
    """
    ops = rows_of_session(profile["ops"], session)
    called = ops.filter(pl.col("name") == op)
    numbers = called["op"]
    within = ops.filter(pl.col("parent").is_in(numbers.implode()))["name"]
    backward = ops.filter(pl.col("forward").is_in(numbers.implode()))["name"]
    return OpCalls(
        input_shapes=_values(most, called["input_shapes"]),
        dtype=_values(most, called["dtype"]),
        stack=_values(most, called["stack"]),
        group=_values(most, called["group"]),
        parent=_values(most, _names(ops, called["parent"])),
        children=_values(most, within),
        forward=_values(most, _names(ops, called["forward"])),
        backward=_values(most, backward),
        direction=_values(most, called["direction"]),
        op_source=_values(most, called["op_source"]),
        thread=_values(most, called["tid"]),
    )


def _names(ops: pl.DataFrame, numbers: pl.Series) -> pl.Series:
    """The names of the ops with these numbers."""
    wanted = pl.DataFrame({"op": numbers.drop_nulls()})
    return wanted.join(ops.select("op", "name"), on="op")["name"]


def _values(most: int, values: pl.Series) -> Values:
    """The most frequent values."""
    counted = (
        pl.DataFrame({"value": values.drop_nulls()})
        .group_by("value")
        .agg(pl.len().alias("calls"))
        .with_columns(pl.col("value").cast(pl.String))
        .sort("calls", "value", descending=[True, False])
    )
    head = counted.head(most)
    return Values(tuple(Value(text, calls) for text, calls in head.rows()), counted.height - head.height)
