"""GPU activities by name, and single launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.durations import (
    CALL_STATISTICS,
    activities_by_name,
    complete_sum,
    merged_call_statistics,
    share,
    timed_calls,
)
from tui.analysis.grouping import unique_values
from tui.analysis.launch_calls import with_launched_by
from tui.analysis.memo import once_per_profile
from tui.analysis.occupancy import with_occupancy
from tui.analysis.tensor_core_use import verdicts_by_name, with_verdicts
from tui.model.columns import columns
from tui.model.names import kind_by_name, short_name
from tui.model.schema import GPU_TOTAL, NAME, PRINTED_TOTALS
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


BY_NAME: Final = (*CALL_STATISTICS, "time_pct", "uses_tensor_core")
"""The figures of the calls of one name."""

KERNEL_EXPORT: Final = ("session", "kind", "name", *BY_NAME)
"""Columns of the exports of kernels and API calls, in order."""

FIGURES_SHOWN: Final = (
    "total_ns",
    "time_pct",
    "calls",
    "avg_ns",
    "max_ns",
    "min_ns",
    "median_ns",
    "p90_ns",
    "p99_ns",
    "std_ns",
)
"""The figures of a name in the order that tables show them."""

KERNELS: Final = TableSpec(
    "kernels",
    "Kernels",
    columns("name", *FIGURES_SHOWN, "kind", "uses_tensor_core", "session", "line"),
    key=("session", "kind", "name"),
    sort=(("total_ns", True),),
    weight="total_ns",
    # Copies can take longer than any kernel; this filter leaves them out.
    cursor_on=("kind", "kernel"),
)

LAUNCHES: Final = TableSpec(
    "launches",
    "Launches",
    columns(
        "start_ns",
        "duration_ns",
        "grid",
        "block",
        "registers",
        "static_shared_bytes",
        "dynamic_shared_bytes",
        "shared_bytes",
        "occupancy_pct",
        "limiter",
        "waves",
        "uses_tensor_core",
        "launched_by",
        "iteration",
        "delay_ns",
        "launch_ns",
        "size_bytes",
        "throughput",
        "src_memory",
        "dst_memory",
        "device",
        "context",
        "stream",
        "correlation",
        "graph_node",
        "arguments",
        "line",
        "activity",
    ),
    key=("session", "activity"),
    sort=(),
    weight="duration_ns",
    pinned="start_ns",
)


@once_per_profile("sessions", "devices", "activities", "api_calls", "summary")
def kernels(profile: Profile) -> pl.DataFrame:
    """Return GPU activities by name: one row per session, kind and name, largest total first.

    Sessions with single activities are summed from these. Sessions with aggregates only have the rows of the log, with
    nulls for figures that are not recorded.

    Columns: session, kind, name, short_name, calls, total_ns, avg_ns, min_ns, max_ns, median_ns, p90_ns, p99_ns, std_ns
    (`tui.analysis.durations.call_statistics`), time_pct, uses_tensor_core and tensor_core_reason
    (`tui.analysis.tensor_core_use.verdicts_by_name`), timed_calls (those whose duration is known; null if totals do not
    show it), line (first one in the input). ``time_pct`` is the share of the session's GPU time: the summed durations
    of its kernels, copies, memsets, unified memory work and whole CUDA graphs. If rows are missing from the log's table
    (its percentages do not add up to 100), the printed percentages are used.
    """
    activities = profile["activities"]
    single = activities_by_name(profile).with_columns(share())
    printed = summary_rows(profile, "gpu", excluded=activities["session"]).drop("uses_tensor_core")
    rows = pl.concat([single, printed], how="diagonal")
    missing = _short_names(rows.filter(pl.col("short_name").is_null())["name"])
    return (
        rows.join(missing, on="name", how="left", suffix="_made")
        .with_columns(pl.coalesce("short_name", "short_name_made"))
        .join(verdicts_by_name(profile), on=["session", "kind", "name"], how="left", nulls_equal=True)
        .select("session", "kind", "name", "short_name", *BY_NAME, "timed_calls", "tensor_core_reason", "line")
        .sort("total_ns", "name", "session", descending=[True, False, False], nulls_last=True)
    )


NOT_PRINTED: Final = "Rows not printed"
"""The GPU work of rows that a limit keeps out of a printed table."""


def printed_totals(profile: Profile) -> pl.DataFrame:
    """Return the GPU time that tables print below rows without all kernels: session, printed_ns, line."""
    section, name = (pl.col(column).cast(pl.String) for column in ("section", "name"))
    totals = profile["tool_figures"].filter(section == PRINTED_TOTALS, name == GPU_TOTAL)
    return totals.select("session", pl.col("value").cast(pl.Int64).alias("printed_ns"), "line")


def unprinted(profile: Profile) -> pl.DataFrame:
    """Return the GPU time of the kernels that printed tables omit: their totals minus the kernels that they list.

    Columns: session, unprinted_ns (above 0).
    """
    listed = kernels(profile).group_by("session").agg(listed_ns=pl.col("total_ns").sum())
    return (
        printed_totals(profile)
        .join(listed, on="session", how="left")
        .select("session", unprinted_ns=pl.col("printed_ns") - pl.col("listed_ns").fill_null(0))
        .filter(pl.col("unprinted_ns") > 0)
    )


def unprinted_ns(profile: Profile) -> int:
    """Return the GPU time of the rows that printed tables omit, of all sessions."""
    return int(unprinted(profile)["unprinted_ns"].sum())


def exported_kernels(profile: Profile) -> pl.DataFrame:
    """Return `kernels` with the columns of the export."""
    return kernels(profile).select(KERNEL_EXPORT)


def _short_names(names: pl.Series) -> pl.DataFrame:
    """Return the short form of each distinct name: columns ``name`` and ``short_name``."""
    distinct = names.unique().drop_nulls()
    texts = [short_name(text) for text in distinct.cast(pl.String).to_list()]
    return pl.DataFrame(
        {"name": distinct, "short_name": pl.Series(texts, dtype=pl.String)},
        schema={"name": names.dtype, "short_name": NAME},
    )


def summary_rows(profile: Profile, section: str, *, excluded: pl.Series) -> pl.DataFrame:
    """Return the rows of a section of ``summary`` by session and name, without the sessions in ``excluded``."""
    rows = profile["summary"].filter(
        pl.col("section") == section, ~pl.col("session").is_in(unique_values(excluded).implode())
    )
    return (
        rows.group_by("session", "name")
        .agg(
            *merged_call_statistics(),
            timed_calls().alias("timed_calls"),
            pl.col("time_pct").sum().alias("printed"),
            complete_sum("size_bytes").alias("size_bytes"),
            pl.col("line").min(),
        )
        .with_columns(kind_by_name().cast(rows.schema["name"]), pl.lit(None, pl.Boolean).alias("uses_tensor_core"))
        .with_columns(
            pl.when(pl.col("printed").sum().over("session").is_between(1, 99, closed="left"))
            .then(pl.col("printed"))
            .otherwise(share())
            .alias("time_pct")
        )
        .select(
            *("session", "kind", "name", *CALL_STATISTICS, "timed_calls", "uses_tensor_core", "line", "time_pct"),
            "size_bytes",
        )
    )


def launches(profile: Profile, *, session: int, name: str, kind: str | None = None) -> pl.DataFrame:
    """Return the activities of one name of one session, in time order.

    Columns: their own, with the verdict on tensor cores completed (`tensor_core_use.with_verdicts`), ``grid`` and
    ``block`` as text, as ``(27848 1 1)``, the occupancy of each launch (`tui.analysis.occupancy.with_occupancy`), and
    when and by which op it was launched (`tui.analysis.launch_calls.with_launched_by`).

    Args:
        profile: The profile.
        session: Number of the session.
        name: The full name.
        kind: One of `tui.model.schema.KINDS`; by default any.
    """
    is_selected = (pl.col("session") == session) & (pl.col("name") == name)
    if kind is not None:
        is_selected &= pl.col("kind") == kind
    rows = with_verdicts(profile, with_launched_by(profile, profile["activities"].filter(is_selected)))
    return with_occupancy(profile, with_shapes(rows))
