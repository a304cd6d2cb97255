"""GPU work partitioned into groups: the sums of each group, and its kernels and launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.durations import average, call_statistics, complete_sum, share, timed_calls, timed_count, total
from tui.analysis.kernels import KERNELS, kernels
from tui.analysis.launch_calls import with_launched_by
from tui.analysis.occupancy import with_occupancy
from tui.analysis.ops.ops_by_name import classified_kernels
from tui.analysis.roofline import launch_rates
from tui.analysis.tensor_core_use import with_verdicts, with_verdicts_by_name
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


GROUP_KERNELS: Final = TableSpec(
    "group_kernels",
    "Kernels",
    (*KERNELS.columns, *columns("op_type", "direction", "rule")),
    key=KERNELS.key,
    sort=KERNELS.sort,
    weight="total_ns",
)

NO_GROUP: Final = -1
"""The number for no group."""

TOTALS_ONLY: Final = "(totals only)"
"""The name of the work of sessions without single launches."""


@dataclass(frozen=True, slots=True)
class WorkGroups:
    """A grouping of all GPU work."""

    keys: pl.DataFrame
    """One row a group: session, and what identifies it."""
    codes: Ints
    """The row of ``keys`` for each row of ``activities``."""
    total_codes: Ints
    """The same for each row of `totals_only`."""


def group_equal_rows(single: pl.DataFrame, printed: pl.DataFrame) -> WorkGroups:
    """Group equal rows.

    Args:
        single: The columns that identify the group of each row of ``activities``: session and others.
        printed: The same columns for each row of `totals_only`.
    """
    rows = pl.concat([single, printed.select(single.columns)], how="vertical_relaxed")
    first, codes = factorize(rows)
    return WorkGroups(rows[first], codes[: single.height], codes[single.height :])


def factorize(rows: pl.DataFrame) -> tuple[Ints, Ints]:
    """Return the first row of each group of equal rows, and the group of each row; nulls are equal.

    >>> first, kind = factorize(pl.DataFrame({"a": [7, 7, None, 7], "b": ["x", "y", "x", "x"]}))
    >>> sorted(first.tolist()), bool(kind[0] == kind[3])
    ([0, 1, 2], True)
    """
    kinds = np.zeros(rows.height, np.int64)
    for column in rows:
        numbers = column.cast(pl.Categorical) if column.dtype == pl.String else column
        values = numbers.to_physical().cast(pl.Int64)
        minimum = values.min()
        filled = values.fill_null((minimum if isinstance(minimum, int) else 0) - 1).to_numpy()
        codes = _dense(filled)
        kinds = _dense(codes + kinds * (int(codes.max(initial=0)) + 1))
    first = np.zeros(int(kinds.max(initial=-1)) + 1, np.int64)
    first[kinds[::-1]] = np.arange(rows.height)[::-1]
    return first, kinds


def _dense(values: Ints) -> Ints:
    """Return values renumbered from 0 without gaps, in the same order."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 1024:
        dense: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
        return dense
    is_used = np.bincount(values - low) > 0
    numbers: Ints = (np.cumsum(is_used) - 1)[values - low]
    return numbers


def totals_only(profile: Profile) -> pl.DataFrame:
    """Return the rows of `tui.analysis.kernels.kernels` of the sessions without single launches."""
    single = profile["activities"]["session"].unique()
    return kernels(profile).filter(~pl.col("session").is_in(single.implode()))


def sum_work_groups(profile: Profile, groups: WorkGroups) -> pl.DataFrame:
    """Return the sums of each group: one row per row of ``groups.keys``, in its order.

    Columns: those of the keys, calls (launches), total_ns, avg_ns (of the launches whose duration is known), min_ns,
    max_ns, time_pct (of the session's GPU time), kernels (distinct names), uses_tensor_core (whether any of them does),
    line (the first one), `tui.analysis.roofline.RATES`.
    """
    single = (
        profile["activities"]
        .lazy()
        .select("session", "kind", "name", "duration_ns", "uses_tensor_core", "line")
        .with_columns(pl.lit(pl.Series(groups.codes)).alias("group"))
        .group_by("group", "session", "kind", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            timed_count(),
            total().alias("total_ns"),
            pl.col("duration_ns").min().alias("min_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
            pl.col("uses_tensor_core").any(ignore_nulls=False),
            pl.col("line").min(),
        )
        .collect()
    )
    single = with_verdicts_by_name(profile, single)
    printed = totals_only(profile).with_columns(pl.Series("group", groups.total_codes, dtype=pl.Int64))
    rows = pl.concat([single, printed.select(single.columns)])
    sums = rows.group_by("group").agg(
        complete_sum("calls").alias("calls"),
        total("total_ns").alias("total_ns"),
        average(total("total_ns"), timed_calls("timed_calls")).alias("avg_ns"),
        pl.col("min_ns").min(),
        pl.col("max_ns").max(),
        pl.struct("kind", "name").n_unique().cast(pl.Int64).alias("kernels"),
        pl.col("uses_tensor_core").any(ignore_nulls=False),
        pl.col("line").min(),
    )
    coded = profile["activities"].select("activity", pl.Series("group", groups.codes, dtype=pl.Int64))
    return (
        groups.keys.with_row_index("group")
        .with_columns(pl.col("group").cast(pl.Int64))
        .join(sums, on="group", how="left", maintain_order="left")
        .join(launch_rates(profile, coded, "group"), on="group", how="left", maintain_order="left")
        .with_columns(share())
        .drop("group")
    )


def kernels_in(profile: Profile, groups: WorkGroups, group: int) -> pl.DataFrame:
    """Return the kernels and memory operations of a group, with the rule of each.

    Further columns: op_type, direction, group, rule (`tui.analysis.ops.ops_by_name.classified_kernels`), and
    `tui.analysis.roofline.RATES` of the launches that do the work of an op alone.
    """
    activities = profile["activities"]
    work = activities.filter(pl.Series(groups.codes == group))
    session_gpu_ns = activities.filter(pl.col("session").is_in(work["session"].unique().implode()))["duration_ns"].sum()
    rows = (
        work.lazy()
        .group_by("session", "kind", "name")
        .agg(
            *call_statistics(),
            timed_count(),
            pl.col("uses_tensor_core").any(ignore_nulls=False),
            pl.col("short_name").first(),
            pl.col("line").min(),
        )
        .with_columns((100 * pl.col("total_ns") / (session_gpu_ns or None)).alias("time_pct"))
        .collect()
    )
    rows = with_verdicts_by_name(profile, rows)
    printed = totals_only(profile).filter(pl.Series(groups.total_codes == group, dtype=pl.Boolean))
    classes = classified_kernels(profile).select("session", "kind", "name", "op_type", "direction", "group", "rule")
    return (
        pl.concat([rows, printed], how="diagonal")
        .join(classes, on=["session", "kind", "name"], how="left", nulls_equal=True)
        .join(launch_rates(profile, work, *KERNELS.key), on=KERNELS.key, how="left", nulls_equal=True)
        .sort("total_ns", "name", "session", descending=[True, False, False], nulls_last=True)
    )


def launches_in(profile: Profile, groups: WorkGroups, group: int, *, kind: str, name: str) -> pl.DataFrame:
    """Return the launches of one kernel in a group, as `tui.analysis.kernels.launches`."""
    is_in_group = pl.Series(groups.codes == group)
    is_selected = (
        is_in_group & profile["activities"].select((pl.col("kind") == kind) & (pl.col("name") == name)).to_series()
    )
    rows = with_verdicts(profile, with_launched_by(profile, profile["activities"].filter(is_selected.fill_null(False))))
    return with_occupancy(profile, with_shapes(rows))
