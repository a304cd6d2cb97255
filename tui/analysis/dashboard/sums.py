"""Sums over all sessions: what adds up by nature, as time and calls by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import average, share, timed_calls, total, whole
from tui.analysis.ops.rules import UNKNOWN
from tui.analysis.ops.tables import by_name, has_recorded_ops, inferred_ops
from tui.analysis.transfers.copies import copy_sums, throughput

if TYPE_CHECKING:
    from tui.model.profile import Profile

SPLIT: Final = 7
"""Groups of the split that are shown by name; what is left is one row."""

REST: Final = "rest"
"""The name of that row."""

_ANSWERS: Final = ("uses_tensor_core", "tc_eligible")


def over_sessions(rows: pl.DataFrame, *by: str, of: pl.DataFrame | None = None) -> pl.DataFrame:
    """Rows of the same name in several sessions as one, largest first; shares are of the sum of ``of``.

    Columns: ``by``, kernels and launches (where the rows have them), calls (null where it is of any of the rows),
    total_ns, avg_ns (of the ``timed_calls`` of the rows), time_pct, and of uses_tensor_core and tc_eligible those that
    the rows have: whether it is so in any session.
    """
    whole_ns = (rows if of is None else of)["total_ns"].sum()
    counted = [total(name).alias(name) for name in ("kernels", "launches") if name in rows.columns]
    mean = average(total("total_ns"), timed_calls("timed_calls"))
    if "avg_ns" in rows.columns:
        # As the row itself has it: some of its calls may have no time.
        mean = pl.when(pl.len() == 1).then(pl.col("avg_ns").first()).otherwise(mean)
    answers = [pl.col(name).any(ignore_nulls=False) for name in _ANSWERS if name in rows.columns]
    return (
        rows.group_by(by)
        .agg(
            *counted,
            whole("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            mean.alias("avg_ns"),
            *answers,
        )
        .with_columns((100 * pl.col("total_ns") / (whole_ns or None)).alias("time_pct"))
        .sort("total_ns", by[0], descending=[True, False], nulls_last=True)
    )


def ops_over_sessions(profile: Profile) -> pl.DataFrame:
    """Ops by GPU time over all sessions: `over_sessions`, with op_type, direction, group and op_source.

    ``calls`` are of ops and null where none are recorded: there ``launches`` tells how often the GPU did it, and
    ``avg_ns`` is of a launch where no op is recorded at all.
    """
    if not has_recorded_ops(profile):
        inferred = over_sessions(inferred_ops(profile), "op", "op_type", "direction", "group", "op_source")
        return inferred.rename({"calls": "launches"}).with_columns(
            pl.lit(None, pl.Int64).alias("calls"), pl.lit(None, pl.Boolean).alias("tc_eligible")
        )
    rows = by_name(profile).filter(pl.col("gpu_self_ns") > 0)
    told = rows.group_by("op", "op_source").agg(pl.col("op_type", "direction", "group").drop_nulls().first())
    summed = rows.with_columns(pl.col("gpu_self_ns").alias("total_ns"))
    return over_sessions(summed, "op", "op_source").join(
        told, on=["op", "op_source"], how="left", nulls_equal=True, maintain_order="left"
    )


def split(kinds: pl.DataFrame) -> pl.DataFrame:
    """The largest groups by name, and the rest as one row; what nothing claims is never in the rest."""
    groups = (
        kinds.with_columns(pl.col("group").cast(pl.String))
        .group_by("group")
        .agg(
            whole("calls").alias("calls"), total("total_ns").alias("total_ns"), pl.len().cast(pl.Int64).alias("members")
        )
        .sort("total_ns", "group", descending=[True, False], nulls_last=True)
    )
    named, unclaimed = groups.filter(pl.col("group") != UNKNOWN), groups.filter(pl.col("group") == UNKNOWN)
    shown, left = named.head(SPLIT - unclaimed.height), named.slice(SPLIT - unclaimed.height)
    if left.height == 1:
        shown, left = named, left.clear()
    shown = pl.concat([shown, unclaimed]).sort("total_ns", "group", descending=[True, False], nulls_last=True)
    if left.is_empty():
        return shown.with_columns(share(of=None))
    rest = left.select(
        pl.lit(REST).alias("group"),
        whole("calls").alias("calls"),
        total("total_ns").alias("total_ns"),
        pl.col("members").sum(),
    )
    return pl.concat([shown, rest]).with_columns(share(of=None))


def copies_over_sessions(profile: Profile) -> pl.DataFrame:
    """Copies by direction over all sessions: kind, copy_kind, calls, total_ns, size_bytes, throughput, time_pct."""
    return (
        copy_sums(profile)
        .group_by("kind", "copy_kind")
        .agg(
            whole("calls").alias("calls"),
            *(total(name).alias(name) for name in ("total_ns", "size_bytes", "moved_bytes", "moving_ns")),
        )
        .select("kind", "copy_kind", "calls", "total_ns", "size_bytes", throughput())
        .with_columns(share(of=None))
        .sort("total_ns", "copy_kind", descending=[True, False], nulls_last=True)
    )
