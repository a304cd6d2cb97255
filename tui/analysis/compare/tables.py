"""What changed from one profile to another: kernels, ops, op types and API calls by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.api import api
from tui.analysis.compare.matching import families
from tui.analysis.kernels import kernels
from tui.analysis.ops.by_type import op_types
from tui.analysis.ops.tables import by_name
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Side, Sides
    from tui.model.profile import Profile

BOTH, NEW, GONE = "", "new", "gone"
"""What became of a row."""

_SHOWN: Final = (
    "change",
    "a_total_ns",
    "b_total_ns",
    "delta_ns",
    "delta_pct",
    "a_calls",
    "b_calls",
    "a_avg_ns",
    "b_avg_ns",
    "avg_delta_pct",
)


def _spec(name: str, title: str, *by: str, pinned: str = "name") -> TableSpec:
    return TableSpec(
        f"changed_{name}",
        title,
        columns(pinned, *_SHOWN, *(column for column in by if column != pinned)),
        key=by,
        sort=(),
        weight="b_total_ns",
        pinned=pinned,
    )


CHANGED_KERNELS: Final = _spec("kernels", "Kernels", "kind", "name")
CHANGED_OPS: Final = _spec("ops", "Ops", "op", pinned="op")
CHANGED_OP_TYPES: Final = _spec("op_types", "Op types", "op", pinned="op")
CHANGED_API: Final = _spec("api", "API calls", "name")


def changed_kernels(sides: Sides, *, tolerant: bool = False) -> pl.DataFrame:
    """GPU work by kind and name on both sides: see `changes` for the columns after kind and name."""
    return changes(sides, kernels, ("kind", "name"), "total_ns", "calls", tolerant=tolerant)


def changed_ops(sides: Sides) -> pl.DataFrame:
    """Ops by name, with the GPU time that each launched itself, or by type and direction where they are inferred.

    Columns: op, then those of `changes`; a_calls and b_calls count calls of recorded ops, launches of inferred ones.
    """

    def of(profile: Profile) -> pl.DataFrame:
        return by_name(profile).with_columns(pl.coalesce("calls", "launches").alias("calls"))

    return changes(sides, of, ("op",), "gpu_self_ns", "calls")


def changed_op_types(sides: Sides) -> pl.DataFrame:
    """Ops by type and direction: op, then the columns of `changes`."""
    return changes(sides, op_types, ("op",), "total_ns", "launches")


def changed_api(sides: Sides) -> pl.DataFrame:
    """API calls by name: name, then the columns of `changes`."""
    return changes(sides, api, ("name",), "total_ns", "calls")


def changes(
    sides: Sides,
    table: Callable[[Profile], pl.DataFrame],
    by: tuple[str, ...],
    time: str,
    count: str,
    *,
    tolerant: bool = False,
) -> pl.DataFrame:
    """A table of both sides, what changed most first.

    Columns: those of ``by``; change (`NEW`, `GONE` or `BOTH`), a_total_ns, b_total_ns, delta_ns (b - a; what
    is new or gone counts as 0 on the other side), delta_pct (of a; null for what is new), a_calls, b_calls, a_avg_ns,
    b_avg_ns (total / calls), avg_delta_pct. Totals and calls are sums over sessions, each divided by its iterations
    where the sides are compared per iteration: a_total_ns adds up to the time of a, delta_ns to the difference.

    Args:
        sides: What is compared.
        table: Gives a frame with session, the columns of ``by``, and the two below.
        by: What names a row.
        time: The column of times.
        count: The column of counts.
        tolerant: The last of ``by`` is a kernel's name, and kernels of one `families` are one row.
    """
    one, other = (
        _summed(side, table(side.profile), by, time, count, tolerant=tolerant).rename(
            {"total_ns": f"{prefix}_total_ns", "calls": f"{prefix}_calls", "there": f"{prefix}_there"}
        )
        for side, prefix in ((sides.a, "a"), (sides.b, "b"))
    )
    rows = one.join(other, on=by, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right")
    a_there, b_there = pl.col("a_there").fill_null(False), pl.col("b_there").fill_null(False)
    delta = pl.col("b_total_ns").fill_null(0) - pl.col("a_total_ns").fill_null(0)
    known = (pl.col("a_total_ns").is_not_null() | ~a_there) & (pl.col("b_total_ns").is_not_null() | ~b_there)
    per_call = [
        pl.when(pl.col(f"{side}_calls") > 0)
        .then(pl.col(f"{side}_total_ns") / pl.col(f"{side}_calls"))
        .alias(f"{side}_avg_ns")
        for side in "ab"
    ]
    return (
        rows.with_columns(
            pl.when(a_there & b_there)
            .then(pl.lit(BOTH))
            .otherwise(pl.when(b_there).then(pl.lit(NEW)).otherwise(pl.lit(GONE)))
            .alias("change"),
            pl.when(known).then(delta).alias("delta_ns"),
            *per_call,
        )
        .with_columns(
            pl.when(pl.col("a_total_ns") > 0).then(100 * pl.col("delta_ns") / pl.col("a_total_ns")).alias("delta_pct"),
            pl.when(pl.col("a_avg_ns") > 0)
            .then(100 * (pl.col("b_avg_ns") - pl.col("a_avg_ns")) / pl.col("a_avg_ns"))
            .alias("avg_delta_pct"),
        )
        .select(*by, *_SHOWN)
        .sort(pl.col("delta_ns").abs(), *by, descending=[True, *(False for _ in by)], nulls_last=True)
    )


def _summed(
    side: Side, rows: pl.DataFrame, by: tuple[str, ...], time: str, count: str, *, tolerant: bool
) -> pl.DataFrame:
    """Times and counts by name over all sessions, each per iteration of its own where that is how sides are told."""
    told = rows.select("session", *(pl.col(column).cast(pl.String) for column in by), time, count)
    if tolerant:
        told = told.with_columns(families(told[by[-1]]).alias(by[-1]))
    per = pl.lit(1)
    if side.iterations:
        told, per = told.join(side.divisors, on="session", how="left"), pl.col("per")
    values = [
        pl.when(pl.col(column).count() > 0).then((pl.col(column) / per).sum()).alias(name)
        for column, name in ((time, "total_ns"), (count, "calls"))
    ]
    return told.group_by(by, maintain_order=True).agg(*values, pl.lit(True).alias("there"))
