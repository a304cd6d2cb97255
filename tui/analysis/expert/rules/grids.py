"""Grids and blocks: whether a launch fills the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.configs import SHOWN, filled_pct, kernel_time, known, with_share
from tui.analysis.expert.figures import real, total
from tui.analysis.expert.model import EVIDENCE_ROWS, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called, counted
from tui.analysis.occupancy.theoretical import WARP
from tui.fmt import percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


@rule("L2", "grid-below-sms", Family.CONFIGURATION, needs.sm_counts, link=links.NSIGHT_COMPUTE)
def small_grids(case: Case) -> Verdict:
    """Grids have fewer blocks than the GPU has SMs."""
    rows = with_share(case, case.configs.filter(pl.col("blocks") < pl.col("sm_count")))
    by_name = rows.group_by("name").agg(pl.col("share_pct").sum())
    heavy = by_name.filter(pl.col("share_pct") >= case.limit("L2", "kernel_pct"))
    empty = pl.col("total_ns") * (1 - pl.col("blocks") / pl.col("sm_count"))
    small = _dearest(rows.join(heavy.select("name"), on="name", how="semi", maintain_order="left"), empty)
    numbers = {"kernels": heavy.height, "time_pct": real(heavy["share_pct"].sum())}
    if small.is_empty():
        return Clean("no kernel of weight has fewer blocks than there are SMs", numbers)
    first = small.row(0, named=True)
    have = "has" if heavy.height == 1 else "have"
    return Found(
        f"{called(first['name'])} launches {counted(first['blocks'], 'block')} on {first['sm_count']} SMs "
        f"({percent(first['share_pct'])} of GPU time); {counted(heavy.height, 'kernel')} of weight {have} fewer "
        "blocks than there are SMs.",
        "Launch more blocks: larger batches, smaller tiles, split-K; or run other kernels beside it.",
        numbers,
        int(real(small["gain_ns"].sum())),
        "the share of the SMs that is left free, over the time of these kernels",
        *behind(small, *SHOWN),
    )


def _dearest(rows: pl.DataFrame, gain_ns: pl.Expr) -> pl.DataFrame:
    """Configurations with what a full GPU would gain of each (``gain_ns``), the most first."""
    return rows.with_columns(gain_ns=gain_ns).sort("gain_ns", descending=True, maintain_order=True)


@rule("L3", "under-one-wave", Family.CONFIGURATION, needs.occupancies, needs.sm_counts, link=links.NSIGHT_COMPUTE)
def under_one_wave(case: Case) -> Verdict:
    """Kernels do not fill the GPU once."""
    rows = known(case).filter(pl.col("waves").is_not_null())
    small = _dearest(rows.filter(pl.col("waves") < 1), pl.col("total_ns") * (1 - pl.col("waves")))
    share = 100 * total(small["total_ns"]) / max(total(rows["total_ns"]), 1)
    numbers = {"time_pct": share, "kernels": small["name"].n_unique()}
    if share <= case.limit("L3", "time_pct"):
        return Clean(f"{percent(share)} of {kernel_time(case)} is in launches of less than one wave", numbers)
    first = small.row(0, named=True)
    return Found(
        f"{percent(share)} of {kernel_time(case)} is in launches that do not fill the GPU once; "
        f"{called(first['name'])} ({percent(first['share_pct'])} of GPU time) takes {first['waves']:.2f} waves.",
        "Give each launch more work: larger batches, more blocks; or run other kernels beside it.",
        numbers,
        int(real(small["gain_ns"].sum())),
        "the part of one wave that stays empty, over the time of these kernels",
        *behind(small, *SHOWN),
    )


@rule(
    "L4",
    "tail-effect",
    Family.CONFIGURATION,
    needs.occupancies,
    needs.sm_counts,
    severity=Severity.INFO,
    link=links.TAIL,
)
def tail_effect(case: Case) -> Verdict:
    """The last wave of a launch is nearly empty."""
    least = case.limit("L4", "tail_pct")
    rows = known(case).filter(pl.col("share_pct") >= case.limit("L4", "kernel_pct"))
    filled = pl.col("waves") - pl.col("full_waves")
    low = rows.filter(
        pl.col("tail_pct") > 0, pl.col("tail_pct") >= least, 100 * filled < case.limit("L4", "filled_pct")
    )
    tails = _dearest(low, pl.col("total_ns") * pl.col("tail_pct") / 100 * (1 - filled))
    numbers = {"kernels": tails["name"].n_unique()}
    if tails.is_empty():
        return Clean(f"no launch of weight spends {least:g}% or more on a last wave that is nearly empty", numbers)
    others = tails["name"].n_unique() - 1
    first = tails.row(0, named=True)
    return Found(
        f"{called(first['name'])} takes {first['waves']:.2f} waves: the last one runs a whole wave's time and fills "
        f"{percent(100 * (first['waves'] % 1))} of the GPU"
        + (
            f"; {counted(others, 'other kernel')} of weight {'has' if others == 1 else 'have'} such a tail."
            if others
            else "."
        ),
        "Choose a grid that is a multiple of blocks per SM x SMs, smaller blocks, or a persistent kernel.",
        numbers,
        total(tails["gain_ns"].cast(pl.Int64)),
        "the empty part of the last wave, if all blocks take the same time",
        *behind(tails, *SHOWN),
    )


@rule(
    "L5",
    "ragged-block",
    Family.CONFIGURATION,
    needs.any_gpu_work,
    needs.launch_configs,
    severity=Severity.INFO,
    link=links.NSIGHT_COMPUTE,
)
def ragged_blocks(case: Case) -> Verdict:
    """Blocks are no multiple of a warp."""
    rows = with_share(case, case.configs.filter(pl.col("threads_per_block") % WARP > 0)).filter(
        pl.col("share_pct") >= case.limit("L5", "kernel_pct")
    )
    numbers = {"kernels": rows["name"].n_unique()}
    if rows.is_empty():
        return Clean(f"the blocks of every kernel of weight are multiples of {WARP} threads", numbers)
    warps = (pl.col("threads_per_block") + WARP - 1) // WARP
    lost = pl.col("total_ns") * (1 - pl.col("threads_per_block") / (warps * WARP))
    first = rows.row(0, named=True)
    return Found(
        f"{called(first['name'])} has blocks of {counted(first['threads_per_block'], 'thread')} "
        f"({percent(first['share_pct'])} of GPU time): part of its last warp does nothing.",
        f"Round the block up to a multiple of {WARP}; 128 to 256 threads suit most kernels.",
        numbers,
        int(real(rows.select(lost.sum()).item())),
        "the share of lanes that no thread uses, over the time of these kernels",
        *behind(rows, "grid", "block", "threads_per_block", "calls", "total_ns"),
    )


@rule(
    "L8",
    "sm-efficiency",
    Family.CONFIGURATION,
    needs.start_times,
    needs.sm_counts,
    severity=Severity.INFO,
    link=links.TENSORBOARD,
)
def sm_efficiency(case: Case) -> Verdict:
    """SMs stand idle, over the whole run."""
    fill = filled_pct(case)
    busy = case.together("compute_ns")
    share = case.of_span(busy * fill / 100)
    numbers = {"sm_efficiency_pct": share, "fill_pct": fill, "kernel_time_pct": case.of_span(busy)}
    if share >= case.limit("L8", "fill_pct"):
        return Clean(f"estimated SM efficiency is {percent(share)}", numbers)
    return Found(
        f"Estimated SM efficiency is {percent(share)}: kernels that compute, and memsets, run for "
        f"{percent(case.of_span(busy))} of the span, and grids reach {percent(fill)} of the SMs.",
        "Larger batches fill both; where kernels run most of the time, look at their grids first (L2, L3).",
        numbers,
        int(case.span_of_all_ns * (1 - share / 100)),
        f"all SM time without a block{case.together_words}",
        known(case).sort("waves", "name", nulls_last=True).select("name", *SHOWN).head(EVIDENCE_ROWS),
        "kernels",
        "kind=kernel",
    )
