"""NVTX ranges and annotations: by name, by instance, by nesting depth, with the GPU work launched in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.activities import activities_of_calls, activities_where
from tui.analysis.durations import FIGURES, figures, merged_figures, total
from tui.analysis.iterations.segments import iteration_between
from tui.analysis.iterations.tables import with_iterations
from tui.analysis.memo import once_per_profile
from tui.analysis.range_work import WORK, with_work, work_while_open
from tui.model.columns import ColumnKind, columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile


# These names are words of the program, not C++ to be shortened.
_NAME: Final = replace(columns("name")[0], kind=ColumnKind.TEXT, help="Name given by the program or a library.")
_TOTAL: Final = replace(
    columns("total_ns")[0],
    help="Sum of the durations of all calls; nested ranges of the same name count as well.",
)

RANGES: Final = TableSpec(
    "ranges_by_name",
    "Ranges",
    (
        _NAME,
        *columns("session"),
        _TOTAL,
        *columns("calls", "avg_ns", *WORK, "min_ns", "max_ns", "domain"),
        *columns("median_ns", "p90_ns", "std_ns", "line"),
    ),
    key=("session", "domain", "name"),
    sort=(("total_ns", True),),
)

RANGE_INSTANCES: Final = TableSpec(
    "range_instances",
    "Instances",
    columns(
        "start_ns",
        "duration_ns",
        *WORK,
        "iteration",
        "iteration_by",
        "depth",
        "pid",
        "tid",
        "line",
        "number",
    ),
    key=("session", "number"),
    pinned="start_ns",
)

RANGES_MEANWHILE: Final = TableSpec(
    "ranges_meanwhile",
    "Ranges by work of other threads",
    (
        _NAME,
        *columns("session"),
        replace(columns("meanwhile_gpu_ns")[0], priority=1, only_above_zero=False),
        *columns("meanwhile_kernels"),
        _TOTAL,
        *columns("calls", "avg_ns", "domain", "line"),
    ),
    key=RANGES.key,
    sort=(("meanwhile_gpu_ns", True),),
)

INSTANCES_MEANWHILE: Final = replace(
    RANGE_INSTANCES,
    name="instances_meanwhile",
    columns=tuple(column for column in RANGE_INSTANCES.columns if not column.name.startswith("range_")),
)

OF_A_NAME: Final = ("session", "domain", "name")
"""Columns that tell the names of ranges apart."""


@once_per_profile("ranges", "summary", "activities", "api_calls")
def ranges_by_name(profile: Profile) -> pl.DataFrame:
    """Ranges by name: one row per session, domain and name, largest total first.

    Columns: session, domain, name, calls, total_ns, avg_ns, min_ns, max_ns, median_ns, p90_ns, p99_ns, std_ns,
    range_gpu_ns (summed durations of the GPU work launched while a range of the name was open on the launching
    thread, each launch once however the ranges are nested), range_kernels (how many kernels that were),
    meanwhile_gpu_ns and meanwhile_kernels (the same of what was launched while one was open on another thread of the
    process alone), line. The four are null where the input does not tell which thread launched what. Times of nested
    ranges overlap: they are not to be added up. A session that holds its ranges as totals alone has the rows of its own
    table.
    """
    ranges = profile["ranges"]
    by_name = ranges.group_by(OF_A_NAME, maintain_order=True).agg(*figures(), pl.col("line").min())
    within = work_while_open(ranges, OF_A_NAME, profile)
    single = by_name.join(within, on=OF_A_NAME, how="left", nulls_equal=True, maintain_order="left")
    return pl.concat([single, _printed(profile)], how="diagonal_relaxed").sort(
        "total_ns", "name", descending=[True, False], nulls_last=True
    )


def _printed(profile: Profile) -> pl.DataFrame:
    """The ranges of sessions that hold them as totals alone."""
    own = profile["ranges"]["session"].unique().implode()
    return (
        profile["summary"]
        .filter(pl.col("section") == "nvtx", pl.col("range").is_null(), ~pl.col("session").is_in(own))
        .group_by("session", "name", maintain_order=True)
        .agg(*merged_figures(), pl.col("line").min())
        .select(
            "session", pl.lit(None).cast(profile["ranges"].schema["domain"]).alias("domain"), "name", *FIGURES, "line"
        )
    )


@once_per_profile("sessions", "ranges", "activities", "ops", "api_calls")
def range_instances(profile: Profile) -> pl.DataFrame:
    """Every range with ``number`` (its row), the GPU work of `range_work.WORK`, and the iteration that it lies in.

    What was launched on its own thread between its start and its end counts for it, so the work of ranges inside it
    does as well. ``iteration`` is the one that it marks (``iteration_by``: recorded), else the one between whose start
    and end it lies, on whatever thread (time); null where it lies in none or in several.
    """
    rows = with_work(profile["ranges"].with_row_index("number"), profile)
    steps = with_iterations(profile).steps
    assert steps is not None
    end_ns = rows["start_ns"] + rows["duration_ns"]
    around = pl.lit(iteration_between(steps, rows["session"], rows["start_ns"], end_ns))
    recorded, by_time = pl.col("iteration").is_not_null(), around.is_not_null()
    return rows.with_columns(
        pl.coalesce("iteration", around).alias("iteration"),
        pl.when(recorded).then(pl.lit("recorded")).when(by_time).then(pl.lit("time")).alias("iteration_by"),
    )


def ranges_by_other_threads(profile: Profile) -> pl.DataFrame:
    """`ranges_by_name`, most GPU work of other threads meanwhile first."""
    return ranges_by_name(profile).sort("meanwhile_gpu_ns", descending=True, nulls_last=True, maintain_order=True)


def instances_of(profile: Profile, *, session: int, domain: str | None, name: str) -> pl.DataFrame:
    """The ranges of one name, in time order."""
    rows = range_instances(profile)
    return rows.filter(
        pl.col("session") == session,
        pl.col("domain").cast(pl.String).eq_missing(pl.lit(domain, pl.String)),
        pl.col("name") == name,
    ).sort("start_ns")


RANGE_DEPTHS: Final = TableSpec(
    "range_depths",
    "Ranges by depth",
    columns("depth", "calls", "names", "total_ns", "self_ns", "avg_ns", "max_ns", *WORK, "session"),
    key=("session", "depth"),
    pinned="depth",
    pinned_least=6,
)

NAMES_AT_DEPTH: Final = TableSpec(
    "names_at_depth",
    "Names at this depth",
    tuple(column for column in RANGES.columns if column.name != "line"),
    key=("session", "domain", "name"),
    sort=(("total_ns", True),),
)


@once_per_profile("ranges", "activities", "api_calls")
def ranges_by_depth(profile: Profile) -> pl.DataFrame:
    """One row per session and depth (ranges of the same thread around a range): outermost first.

    Columns: session, depth (null: not known), calls (ranges), names (distinct), total_ns, self_ns (total less that of
    the next depth: time in which no range lies within), avg_ns, max_ns, and the GPU work of
    `tui.analysis.range_work.work_while_open`. Ranges of one depth do not overlap on a thread, so their times add up;
    over several depths they do not, but all self times add up to the total of the outermost depth.
    """
    rows = profile["ranges"]
    deeper = (
        rows.drop_nulls("depth")
        .group_by("session", (pl.col("depth") - 1).alias("depth"))
        .agg(pl.col("duration_ns").sum().alias("inside_ns"))
    )
    return (
        rows.group_by("session", "depth")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.struct("domain", "name").n_unique().cast(pl.Int64).alias("names"),
            total().alias("total_ns"),
            pl.col("duration_ns").mean().round().cast(pl.Int64).alias("avg_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
        )
        .join(deeper, on=["session", "depth"], how="left")
        .join(
            work_while_open(rows, ("session", "depth"), profile), on=["session", "depth"], how="left", nulls_equal=True
        )
        .with_columns(
            # Ranges that are not nested have no time of their own that could be told.
            pl.when(pl.col("depth").is_not_null() & (pl.col("total_ns") >= pl.col("inside_ns").fill_null(0)))
            .then(pl.col("total_ns") - pl.col("inside_ns").fill_null(0))
            .alias("self_ns")
        )
        .select(column.name for column in RANGE_DEPTHS.columns)
        .sort("session", "depth", nulls_last=True)
    )


def at_depth(depth: int | None) -> pl.Expr:
    """The ranges of a depth."""
    return pl.col("depth").eq_missing(pl.lit(depth, pl.Int32))


def names_at_depth(profile: Profile, *, session: int, depth: int | None) -> pl.DataFrame:
    """The ranges of one depth by name, most time first: columns as `tui.analysis.ranges.ranges_by_name`, less line."""
    rows = profile["ranges"].filter(pl.col("session") == session, at_depth(depth))
    return (
        rows.group_by(OF_A_NAME, maintain_order=True)
        .agg(*figures())
        .join(work_while_open(rows, OF_A_NAME, profile), on=OF_A_NAME, how="left", nulls_equal=True)
        .sort("total_ns", "name", descending=[True, False], nulls_last=True)
    )


def work_in_range(profile: Profile, row: Mapping[str, Any], *, meanwhile: bool = False) -> pl.DataFrame:
    """The GPU work that the thread of a range launched between its start and its end, whenever it ran.

    Args:
        profile: Where to look.
        row: Of `tui.analysis.ranges.range_instances`.
        meanwhile: What the other threads of its process launched in that time instead.
    """
    if any(row[name] is None for name in ("pid", "tid", "start_ns", "duration_ns")):
        return activities_where(profile)
    own = pl.col("tid") == row["tid"]
    calls = profile["api_calls"].filter(
        pl.col("session") == row["session"],
        pl.col("pid") == row["pid"],
        ~own if meanwhile else own,
        pl.col("start_ns").is_between(row["start_ns"], row["start_ns"] + row["duration_ns"]),
    )
    numbers = calls["correlation"].drop_nulls().unique().to_list()
    return activities_of_calls(profile, session=row["session"], correlations=numbers)


def ranges_around(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """The ranges of the same thread that a range lies in, outermost first.

    Args:
        profile: Where to look.
        row: Of `tui.analysis.ranges.range_instances`.
    """
    if any(row[name] is None for name in ("start_ns", "duration_ns", "depth")):
        return profile["ranges"].clear()
    end = pl.col("start_ns") + pl.col("duration_ns")
    return (
        profile["ranges"]
        .filter(
            pl.col("session") == row["session"],
            pl.col("pid").eq_missing(pl.lit(row["pid"], pl.Int64)),
            pl.col("tid").eq_missing(pl.lit(row["tid"], pl.Int64)),
            pl.col("depth") < row["depth"],
            pl.col("start_ns") <= row["start_ns"],
            end >= row["start_ns"] + row["duration_ns"],
        )
        .sort("depth", "start_ns")
    )
