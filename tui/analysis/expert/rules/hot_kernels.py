"""Kernels that take much time, and whether they have to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import real, total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called, counted, ranked
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


@rule("P4", "layout", Family.PRECISION, needs.gpu_work, needs.kernels, link=links.LAYOUT)
def layout(case: Case) -> Verdict:
    """Kernels only change the layout of data."""
    rows = case.kernels.filter(pl.col("op_type") == "layout")
    taken, share = case.weight(rows)
    numbers = {"time_ns": taken, "time_pct": share}
    if share <= case.limit("P4", "time_pct"):
        return Clean(f"changes of layout take {percent(share)} of the GPU time", numbers)
    first = rows.row(0, named=True)
    return Found(
        f"{called(first['name'])} and the like only change the layout: {percent(share)} of GPU time, "
        f"{counted(total(rows['calls']), 'launch', 'launches')}.",
        "Keep one layout from end to end: model and input .to(memory_format=torch.channels_last) with half precision.",
        numbers,
        taken,
        "all of these kernels",
        *behind(rows, "calls", "total_ns", "line"),
    )


@rule("P10", "hotspot", Family.PRECISION, needs.gpu_work, needs.kernels, severity=Severity.INFO, link=links.ROOT_CAUSES)
def hotspot(case: Case) -> Verdict:
    """One kernel takes most of the time."""
    if case.computing.is_empty():
        return Clean("no kernel computes")
    first = case.computing.row(0, named=True)
    share = case.share(first["total_ns"])
    numbers = {"time_pct": share, "total_ns": first["total_ns"], "calls": first["calls"]}
    if share <= case.limit("P10", "time_pct"):
        return Clean(f"the longest kernel, {called(first['name'])}, takes {percent(share)} of the GPU time", numbers)
    calls = f" in {counted(first['calls'], 'launch', 'launches')}" if first["calls"] else ""
    return Found(
        f"{called(first['name'])} takes {percent(share)} of GPU time: {duration(first['total_ns'])}{calls}.",
        f"Look at {called(first['name'])} first; ncu --set full shows what limits it.",
        numbers,
        first["total_ns"] // 2,
        "half of its time, if it were twice as fast",
        *behind(case.computing.head(1), "calls", "total_ns", "line"),
    )


@rule("L10", "uneven-kernel", Family.CONFIGURATION, needs.gpu_work, needs.several_launches, severity=Severity.INFO)
def uneven_kernels(case: Case) -> Verdict:
    """One kernel in one configuration runs at very different speeds."""
    config = ("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    configs = case.configs.select(*config, "calls", "total_ns")
    if configs.is_empty():
        return CannotTell("no kernels that compute ran")
    if not configs["grid_x"].count():
        return CannotTell("the input has no grids: launches of one name may do different work")
    least_ns = case.limit("L10", "excess_pct") / 100 * case.gpu_ns
    # Only launches that take more than this together can exceed their median by it.
    heavy = (
        configs.group_by(config)
        .agg(pl.col("calls", "total_ns").sum())
        .filter(pl.col("calls") >= case.limit("L10", "launches"), pl.col("total_ns") > least_ns)
    )
    spread = (
        case.profile["activities"]
        .lazy()
        .filter(pl.col("kind") == "kernel", pl.col("name").is_in(heavy["name"].unique().implode()))
        .select(*config, "duration_ns", "line")
        .drop_nulls("duration_ns")
        .join(heavy.lazy().select(config), on=config, how="semi", nulls_equal=True)
        .group_by(config)
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("duration_ns").median().alias("median_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
            pl.col("duration_ns").sum().alias("total_ns"),
            pl.col("line").min(),
        )
        .filter(pl.col("launches") >= case.limit("L10", "launches"), pl.col("median_ns") > 0)
        .with_columns((pl.col("total_ns") - pl.col("launches") * pl.col("median_ns")).clip(0).alias("excess_ns"))
        .filter(pl.col("max_ns") > case.limit("L10", "times") * pl.col("median_ns"), pl.col("excess_ns") > least_ns)
        .collect()
    )
    uneven = ranked(spread, "excess_ns")
    numbers = {"kernels": uneven.height}
    if uneven.is_empty():
        return Clean("launches of one kernel in one configuration take about the same time", numbers)
    first, excess = uneven.row(0, named=True), int(real(uneven["excess_ns"].sum()))
    return Found(
        f"{called(first['name'])} takes {duration(first['median_ns'])} in the middle and up to "
        f"{duration(first['max_ns'])} in the same configuration: {duration(first['excess_ns'])} above the median in "
        "all.",
        "Compare the slow launches with the others: contention with copies or other kernels, clocks, other data.",
        numbers,
        excess,
        "what these launches take above their median",
        *behind(uneven, "launches", "median_ns", "max_ns", "total_ns", "excess_ns", "line"),
    )
