"""Ranges that the program named: NVTX ranges and annotations, and the GPU work that was launched within them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import FIGURES, figures, merged_figures, total
from tui.analysis.launches.times import launched, with_launched_within
from tui.analysis.memo import once_per_profile
from tui.model.columns import ColumnKind, columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

# These names are words of the program, not C++ to be shortened.
_NAME: Final = replace(columns("name")[0], kind=ColumnKind.TEXT, help="What the program, or a library, calls it.")

RANGES: Final = TableSpec(
    "ranges_by_name",
    "Ranges",
    (
        _NAME,
        *columns(
            "session", "total_ns", "calls", "avg_ns", "range_gpu_ns", "range_kernels", "min_ns", "max_ns", "domain"
        ),
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
        "range_gpu_ns",
        "range_kernels",
        "iteration",
        "depth",
        "pid",
        "tid",
        "line",
        "number",
    ),
    key=("session", "number"),
    pinned="start_ns",
)

_OF_A_NAME: Final = ("session", "domain", "name")


@once_per_profile("ranges", "summary", "activities", "api_calls")
def ranges_by_name(profile: Profile) -> pl.DataFrame:
    """Ranges by name: one row per session, domain and name, largest total first.

    Columns: session, domain, name, calls, total_ns, avg_ns, min_ns, max_ns, median_ns, p90_ns, p99_ns, std_ns,
    range_gpu_ns (summed durations of the GPU work launched while a range of the name was open on the launching
    thread, each launch once however the ranges are nested), range_kernels (how many kernels that were), line. Both are
    null where the input does not tell which thread launched what. Times of nested ranges overlap: they are not to be
    added up. A session that holds its ranges as totals alone has the rows of its own table.
    """
    ranges = profile["ranges"]
    by_name = ranges.group_by(_OF_A_NAME, maintain_order=True).agg(*figures(), pl.col("line").min())
    open_ns = (
        ranges.select(*_OF_A_NAME, "pid", "tid", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .drop_nulls("end_ns")
        .sort("start_ns")
        .with_columns(pl.col("end_ns").cum_max().over(*_OF_A_NAME, "pid", "tid").alias("reached"))
        .with_columns(
            (pl.col("start_ns") > pl.col("reached").shift(1).over(*_OF_A_NAME, "pid", "tid"))
            .fill_null(True)
            .cum_sum()
            .over(*_OF_A_NAME, "pid", "tid")
            .alias("stretch")
        )
        .group_by(*_OF_A_NAME, "pid", "tid", "stretch")
        .agg(pl.col("start_ns").min(), (pl.col("end_ns").max() - pl.col("start_ns").min()).alias("duration_ns"))
    )
    within = (
        with_launched_within(open_ns, launched(profile))
        .group_by(_OF_A_NAME)
        .agg(total("gpu_ns").alias("range_gpu_ns"), total("kernels").alias("range_kernels"))
    )
    single = by_name.join(within, on=_OF_A_NAME, how="left", nulls_equal=True, maintain_order="left")
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


@once_per_profile("ranges", "activities", "api_calls")
def range_instances(profile: Profile) -> pl.DataFrame:
    """Every range with ``number`` (its row), ``range_gpu_ns`` and ``range_kernels``: the GPU work launched within it.

    That is what was launched on its own thread between its start and its end, so the work of ranges inside it counts
    for it as well.
    """
    rows = profile["ranges"].with_row_index("number")
    return with_launched_within(rows, launched(profile)).rename({"gpu_ns": "range_gpu_ns", "kernels": "range_kernels"})


def instances_of(profile: Profile, *, session: int, domain: str | None, name: str) -> pl.DataFrame:
    """The ranges of one name, in time order."""
    rows = range_instances(profile)
    return rows.filter(
        pl.col("session") == session,
        pl.col("domain").cast(pl.String).eq_missing(pl.lit(domain, pl.String)),
        pl.col("name") == name,
    ).sort("start_ns")
