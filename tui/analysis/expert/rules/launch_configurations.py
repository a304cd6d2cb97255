"""Launch configurations: occupancy, waves, grids and blocks; launches of one configuration with unequal times."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    NSIGHT_COMPUTE,
    TAIL,
    TENSORBOARD,
    duration,
    evidence_by_name,
    float_or_zero,
    int_or_zero,
    known_sum,
    label,
    percent,
    sort_by_largest,
)
from tui.analysis.expert.rule import EVIDENCE_ROWS, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.gpu_time.timelines import COMMUNICATION
from tui.analysis.hardware_metrics import measured_kernels
from tui.analysis.occupancy import WARP, capabilities
from tui.cache.spill import release_mapped
from tui.model.schema import NAME
from tui.text import plural

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


LITTLE_PCT: Final = 1.0
"""Kernels with a smaller share of the wall time get no warning."""
SHOWN: Final = ("grid", "block", "registers", "calls", "total_ns", "occupancy_pct", "limiter", "waves")
"""The columns of a configuration in the evidence."""


def known_occupancies(case: Case) -> pl.DataFrame:
    """Return launch configurations with a known occupancy, most time first, with ``share_pct`` of the GPU time."""
    return with_share(case, case.configs.filter(pl.col("occupancy_pct").is_not_null(), pl.col("total_ns") > 0))


def kernel_time_description(case: Case) -> str:
    """Return a phrase for the kernel time of `known_occupancies`, which omits communication."""
    communicates = (case.kernels["op_type"] == COMMUNICATION).any()
    return "the time of compute kernels" if communicates else "kernel time"


def with_share(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``share_pct``, of the GPU time."""
    return rows.with_columns((100 * pl.col("total_ns") / max(case.gpu_ns, 1)).alias("share_pct"))


def time_weighted_mean(rows: pl.DataFrame, column: str) -> float:
    """Return the mean of a column, weighted by kernel time; 0 if there is none."""
    total_ns = known_sum(rows["total_ns"])
    return (
        float_or_zero(rows.select((pl.col(column) * pl.col("total_ns")).sum()).item()) / total_ns if total_ns else 0.0
    )


def filled_pct(case: Case) -> float:
    """Return the share of all SMs that the grids of kernels reach, weighted by kernel time."""
    return time_weighted_mean(case.configs.drop_nulls("sm_efficiency_pct"), "sm_efficiency_pct")


LIBRARY: Final = (
    r"(?i)cudnn|cublas|cutlass|nvjet|xmma|(?:kepler|maxwell|pascal|volta|turing|ampere|hopper)_\w*(?:gemm|cudnn|conv)"
    r"|^trt_|_trt$|at::native|2at6native|miopen|^cijk_|flash_(?:fwd|bwd|attn)|\bcub::|thrust::|tensorflow::|fbgemm"
)
"""Kernels of libraries and frameworks, whose launch configuration the user does not choose."""


def is_library_kernel(name: object) -> bool:
    """Return whether a kernel belongs to a library, by its name.

    >>> is_library_kernel("volta_sgemm_128x64_nt"), is_library_kernel("cuda_compute_flux(int, int*)")
    (True, False)
    """
    return re.search(LIBRARY, str(name)) is not None


def non_library_kernels(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of kernels that do not belong to a library."""
    return rows.filter(~pl.col("name").cast(pl.String).str.contains(LIBRARY))


_LIMITER_ADVICE: Final = {
    "registers": "use fewer registers (__launch_bounds__, -maxrregcount, smaller tiles)",
    "shared memory": "use less shared memory per block",
    "blocks": "use larger blocks (128 to 256 threads)",
    "warps": "use blocks that divide the SM's threads",
}


@rule("L1", "low-occupancy", Family.CONFIGURATION, needs.occupancies, link=NSIGHT_COMPUTE)
def low_occupancy(case: Case) -> Verdict:
    """Theoretical occupancy is low."""
    rows = known_occupancies(case)
    mean, low_pct = time_weighted_mean(rows, "occupancy_pct"), case.limit("L1", "low_pct")
    low = rows.filter(pl.col("occupancy_pct") < low_pct)
    share = 100 * known_sum(low["total_ns"]) / known_sum(rows["total_ns"])
    below_limit = rows.filter(pl.col("occupancy_pct") < case.limit("L1", "occupancy_pct"))
    heavy = low.filter(pl.col("share_pct") >= case.limit("L1", "kernel_pct"))
    numbers = {"mean_pct": mean, "low_time_pct": share, "low_kernels": low["name"].n_unique()}
    if mean >= case.limit("L1", "mean_pct") and heavy.is_empty():
        return Clean(
            f"theoretical occupancy is {percent(mean)} on average over {kernel_time_description(case)}", numbers
        )
    first = (heavy if heavy.height else low if low.height else below_limit).row(0, named=True)
    tensor = low.filter(pl.col("name").is_in(_on_tensor_cores(case).implode()))
    mostly_tensor = 2 * known_sum(tensor["total_ns"]) > known_sum(low["total_ns"])
    mostly_library = 2 * known_sum(non_library_kernels(low)["total_ns"]) < known_sum(low["total_ns"])
    return Found(
        f"{percent(share)} of {kernel_time_description(case)} runs below {low_pct:g}% theoretical occupancy. "
        f"{label(first['name'])} ({percent(first['share_pct'])} of GPU time) has {percent(first['occupancy_pct'])}, "
        f"limited by {first['limiter']}.",
        "Most of these use tensor cores, and are fast at low occupancy."
        if mostly_tensor
        else "Most of these belong to libraries, which choose their tiles for speed, not for occupancy."
        if mostly_library
        else f"In kernels of your own, {limiter_advice(first['limiter'])}.",
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden",
        *evidence_by_name(low if low.height else below_limit, *SHOWN),
        Severity.INFO if mostly_tensor or mostly_library or _is_negligible(case, low) else None,
    )


def _is_negligible(case: Case, rows: pl.DataFrame) -> bool:
    """Return whether kernels take too little of the wall time for a change to matter."""
    return bool(case.wall_ns) and case.wall_pct(known_sum(rows["total_ns"])) < LITTLE_PCT


def limiter_advice(limiter: object) -> str:
    """Return advice about what limits the occupancy."""
    sentences = [advice for name, advice in _LIMITER_ADVICE.items() if name in str(limiter)]
    return " and ".join(sentences) or "change the block size"


def _on_tensor_cores(case: Case) -> pl.Series:
    return case.kernels.filter(pl.col("uses_tensor_core").fill_null(False))["name"]


@rule("L6", "tiny-block", Family.CONFIGURATION, needs.occupancies, link=NSIGHT_COMPUTE)
def tiny_blocks(case: Case) -> Verdict:
    """Blocks are so small that their number limits occupancy."""
    rows = non_library_kernels(known_occupancies(case)).filter(
        pl.col("share_pct") >= case.limit("L6", "kernel_pct"),
        (pl.col("threads_per_block") <= WARP)
        | ((pl.col("limiter") == "blocks") & (pl.col("occupancy_pct") < case.limit("L6", "occupancy_pct"))),
    )
    numbers = {"kernels": rows["name"].n_unique()}
    if rows.is_empty():
        return Clean("no significant kernel has such small blocks", numbers)
    first = rows.row(0, named=True)
    return Found(
        f"{label(first['name'])} ({percent(first['share_pct'])} of GPU time) has blocks of "
        f"{plural(first['threads_per_block'], 'thread')}. {first['blocks_per_sm']} fit on an SM: "
        f"{percent(first['occupancy_pct'])} occupancy.",
        "Use larger blocks, 128 to 256 threads.",
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden",
        *evidence_by_name(rows, *SHOWN),
        Severity.INFO if _is_negligible(case, rows) else None,
    )


@rule("L7", "register-ceiling", Family.CONFIGURATION, needs.any_gpu_work, needs.launch_configs, severity=Severity.INFO)
def register_ceiling(case: Case) -> Verdict:
    """Kernels use the most registers a thread can have."""
    register_limits = capabilities().select("compute_capability", "registers_per_thread")
    rows = with_share(case, case.configs.filter(pl.col("registers").is_not_null())).join(
        register_limits, on="compute_capability", how="left", maintain_order="left"
    )
    if rows.is_empty():
        return NotApplicable("registers per thread are not recorded")
    judged = rows.drop_nulls("registers_per_thread")
    if judged.is_empty():
        return NotApplicable(needs.unknown_gpu_fact(case, "register limit"))
    at_limit = non_library_kernels(judged).filter(
        pl.col("registers") >= pl.col("registers_per_thread"), pl.col("share_pct") >= case.limit("L7", "kernel_pct")
    )
    numbers = {"kernels": at_limit["name"].n_unique()}
    if at_limit.is_empty():
        return Clean("no significant kernel uses the most registers a thread can have", numbers)
    first = at_limit.row(0, named=True)
    return Found(
        f"{label(first['name'])} ({percent(first['share_pct'])} of GPU time) uses {first['registers']} registers per "
        "thread, the most there are. Values may spill to memory.",
        "Check for spills (-Xptxas -v, ncu). Split the kernel, or use smaller tiles.",
        numbers,
        None,
        "not estimated: the profile does not show spills",
        *evidence_by_name(at_limit, "grid", "block", "registers", "calls", "total_ns"),
    )


@rule(
    "L9",
    "achieved-occupancy",
    Family.CONFIGURATION,
    needs.occupancies,
    needs.sm_counts,
    severity=Severity.INFO,
    link=TENSORBOARD,
)
def achieved_occupancy(case: Case) -> Verdict:
    """Estimated achieved occupancy is low."""
    rows = known_occupancies(case).drop_nulls("achieved_pct")
    if rows.is_empty():
        return NotApplicable("the estimated achieved occupancy is unknown for all kernels")
    mean = time_weighted_mean(rows, "achieved_pct")
    numbers = {"achieved_pct": mean}
    if mean >= case.limit("L9", "occupancy_pct"):
        return Clean(
            f"estimated achieved occupancy is {percent(mean)} on average over {kernel_time_description(case)}", numbers
        )
    low = rows.filter(pl.col("achieved_pct") < case.limit("L9", "occupancy_pct"))
    first = low.row(0, named=True)
    return Found(
        f"Estimated achieved occupancy is {percent(mean)} on average over {kernel_time_description(case)}. "
        f"{label(first['name'])} ({percent(first['share_pct'])} of GPU time) reaches "
        f"{percent(first['achieved_pct'])}.",
        "L1 shows what limits a kernel, L2 and L3 which grids are too small.",
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden",
        *evidence_by_name(low, *SHOWN, "achieved_pct"),
    )


@rule("L2", "grid-below-sms", Family.CONFIGURATION, needs.sm_counts, link=NSIGHT_COMPUTE)
def small_grids(case: Case) -> Verdict:
    """Grids have fewer blocks than the GPU has SMs."""
    rows = with_share(case, case.configs.filter(pl.col("blocks") < pl.col("sm_count")))
    by_name = rows.group_by("name").agg(pl.col("share_pct").sum())
    heavy = by_name.filter(pl.col("share_pct") >= case.limit("L2", "kernel_pct"))
    empty = pl.col("total_ns") * (1 - pl.col("blocks") / pl.col("sm_count"))
    small = _sort_by_gain(rows.join(heavy.select("name"), on="name", how="semi", maintain_order="left"), empty)
    numbers = {"kernels": heavy.height, "time_pct": float_or_zero(heavy["share_pct"].sum())}
    if small.is_empty():
        return Clean("no significant kernel has fewer blocks than there are SMs", numbers)
    first = _of_largest_gain(small)
    least, most = int_or_zero(first["blocks"].min()), int_or_zero(first["blocks"].max())
    blocks = plural(most, "block") if least == most else f"{least} to {plural(most, 'block')}"
    return Found(
        f"{plural(heavy.height, 'significant kernel has', 'significant kernels have')} fewer blocks than the GPU has "
        f"SMs. {label(first['name'][0])} ({percent(float_or_zero(first['share_pct'].sum()))} of GPU time) launches "
        f"{blocks} on {first['sm_count'][0]} SMs.",
        f"Launch more blocks ({'larger batch, ' if case.has_batches else ''}smaller tiles, split-K), or overlap other "
        "kernels.",
        numbers,
        int(float_or_zero(small["gain_ns"].sum())),
        "the share of the SMs left free, over the time of these kernels",
        *evidence_by_name(small, *SHOWN),
        is_summed_over_gpus=True,
    )


def _sort_by_gain(rows: pl.DataFrame, gain_ns: pl.Expr) -> pl.DataFrame:
    """Sort configurations by the time saved on a full GPU (``gain_ns``), the largest first."""
    return rows.with_columns(gain_ns=gain_ns).sort("gain_ns", descending=True, maintain_order=True)


def _of_largest_gain(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the configurations of the kernel with the largest gain in all of them (`_sort_by_gain`)."""
    by_name = rows.group_by("name", maintain_order=True).agg(pl.col("gain_ns").sum())
    return rows.filter(pl.col("name") == by_name.sort("gain_ns", descending=True, maintain_order=True)["name"][0])


@rule("L3", "under-one-wave", Family.CONFIGURATION, needs.occupancies, needs.sm_counts, link=NSIGHT_COMPUTE)
def less_than_one_wave(case: Case) -> Verdict:
    """Launches are smaller than one wave."""
    rows = known_occupancies(case).filter(pl.col("waves").is_not_null())
    small = _sort_by_gain(rows.filter(pl.col("waves") < 1), pl.col("total_ns") * (1 - pl.col("waves")))
    share = 100 * known_sum(small["total_ns"]) / max(known_sum(rows["total_ns"]), 1)
    numbers = {"time_pct": share, "kernels": small["name"].n_unique()}
    if share <= case.limit("L3", "time_pct"):
        return Clean(
            f"{percent(share)} of {kernel_time_description(case)} is in launches smaller than one wave", numbers
        )
    first = _of_largest_gain(small)
    on_average = " on average" if first.height > 1 else ""
    return Found(
        f"{percent(share)} of {kernel_time_description(case)} is in launches smaller than one wave. "
        f"{label(first['name'][0])} ({percent(float_or_zero(first['share_pct'].sum()))} of GPU time) "
        f"fills {percent(100 * time_weighted_mean(first, 'waves'))} of one{on_average}.",
        f"Give each launch more work ({'larger batch, ' if case.has_batches else ''}more blocks), or overlap other "
        "kernels.",
        numbers,
        int(float_or_zero(small["gain_ns"].sum())),
        "unused SM time in launches smaller than one wave",
        *evidence_by_name(small, *SHOWN),
        is_summed_over_gpus=True,
    )


@rule(
    "L4",
    "tail-effect",
    Family.CONFIGURATION,
    needs.occupancies,
    needs.sm_counts,
    severity=Severity.INFO,
    link=TAIL,
)
def tail_effect(case: Case) -> Verdict:
    """The last wave of a launch is nearly empty."""
    max_tail_pct = case.limit("L4", "tail_pct")
    rows = known_occupancies(case).filter(pl.col("share_pct") >= case.limit("L4", "kernel_pct"))
    filled = pl.col("waves") - pl.col("full_waves")
    low = rows.filter(
        pl.col("tail_pct") > 0, pl.col("tail_pct") >= max_tail_pct, 100 * filled < case.limit("L4", "filled_pct")
    ).pipe(_without_measured_high_occupancy, case)
    tails = _sort_by_gain(low, pl.col("total_ns") * pl.col("tail_pct") / 100 * (1 - filled))
    numbers = {"kernels": tails["name"].n_unique()}
    if tails.is_empty():
        return Clean(f"no significant launch spends {max_tail_pct:g}% or more on a nearly empty last wave", numbers)
    others = tails["name"].n_unique() - 1
    first = tails.row(0, named=True)
    return Found(
        f"{label(first['name'])} takes {first['waves']:.2f} waves; the last fills "
        f"{percent(100 * (first['waves'] % 1))} of the GPU."
        + (
            f" {plural(others, 'more significant kernel has', 'more significant kernels have')} a tail."
            if others
            else ""
        ),
        "Choose shapes whose blocks fill whole waves: another batch size, or padding."
        if is_library_kernel(first["name"])
        else "Choose a grid that is a multiple of blocks per SM times SMs, smaller blocks, or a persistent kernel.",
        numbers,
        known_sum(tails["gain_ns"].cast(pl.Int64)),
        "the empty part of the last wave, if all blocks take the same time",
        *evidence_by_name(tails, *SHOWN),
        is_summed_over_gpus=True,
    )


def _without_measured_high_occupancy(rows: pl.DataFrame, case: Case) -> pl.DataFrame:
    """Omit configurations whose measured occupancy is near the theoretical one, so that no tail can be long."""
    measured = measured_kernels(case.profile).drop_nulls("achieved_pct")
    if measured.is_empty():
        return rows
    achieved = measured.group_by(pl.col("kernel").cast(NAME).alias("name"), "grid", "block").agg(
        measured_pct=pl.col("achieved_pct").mean()
    )
    least_pct = pl.col("occupancy_pct") * case.limit("L4", "achieved_pct") / 100
    return rows.join(achieved, on=["name", "grid", "block"], how="left", maintain_order="left").filter(
        pl.col("measured_pct").is_null() | (pl.col("measured_pct") < least_pct)
    )


@rule(
    "L5",
    "ragged-block",
    Family.CONFIGURATION,
    needs.any_gpu_work,
    needs.launch_configs,
    severity=Severity.INFO,
    link=NSIGHT_COMPUTE,
)
def ragged_blocks(case: Case) -> Verdict:
    """Block sizes are not multiples of a warp."""
    if case.vendor != "NVIDIA":
        return NotApplicable(f"not applicable: the rule is about warps of {WARP} threads, which NVIDIA's GPUs have")
    rows = with_share(case, case.configs.filter(pl.col("threads_per_block") % WARP > 0)).filter(
        pl.col("share_pct") >= case.limit("L5", "kernel_pct")
    )
    numbers = {"kernels": rows["name"].n_unique()}
    if rows.is_empty():
        return Clean(f"block sizes of all significant kernels are multiples of {WARP} threads", numbers)
    warps = (pl.col("threads_per_block") + WARP - 1) // WARP
    lost = pl.col("total_ns") * (1 - pl.col("threads_per_block") / (warps * WARP))
    first = rows.row(0, named=True)
    threads, time_share = first["threads_per_block"], percent(first["share_pct"])
    return Found(
        f"{label(first['name'])} has blocks of {plural(threads, 'thread')} ({time_share} of GPU time): "
        f"{-threads % WARP} of {WARP} lanes of the {'only' if threads < WARP else 'last'} warp do nothing.",
        f"Round the block size up to a multiple of {WARP}; 128 to 256 threads suit most kernels.",
        numbers,
        int(float_or_zero(rows.select(lost.sum()).item())),
        "the share of unused lanes, over the time of these kernels",
        *evidence_by_name(rows, "grid", "block", "threads_per_block", "calls", "total_ns"),
        is_summed_over_gpus=True,
    )


@rule(
    "L8",
    "sm-efficiency",
    Family.CONFIGURATION,
    needs.start_times,
    needs.sm_counts,
    severity=Severity.INFO,
    link=TENSORBOARD,
)
def sm_efficiency(case: Case) -> Verdict:
    """Estimated SM efficiency is low."""
    fill = filled_pct(case)
    busy = case.overlap_ns("compute_ns")
    share = case.wall_pct(busy * fill / 100)
    numbers = {"sm_efficiency_pct": share, "fill_pct": fill, "kernel_time_pct": case.wall_pct(busy)}
    if share >= case.limit("L8", "fill_pct"):
        return Clean(f"estimated SM efficiency is {percent(share)}", numbers)
    return Found(
        f"Estimated SM efficiency is {percent(share)}: the GPU computes for {percent(case.wall_pct(busy))} of the "
        f"{case.wall_words}, and grids reach {percent(fill)} of the SMs.",
        ("Use larger batches. " if case.has_batches else "Give the GPU more work at a time. ")
        + "Where the GPU is busy most of the time, look at grids first (L2, L3).",
        numbers,
        int(busy * (1 - fill / 100)),
        "SM time without a block while kernels run; idle time is counted by U1",
        known_occupancies(case).sort("waves", "name", nulls_last=True).select("name", *SHOWN).head(EVIDENCE_ROWS),
        "kernels",
        "kind=kernel",
        is_summed_over_gpus=True,
    )


@rule(
    "L10",
    "uneven-kernel",
    Family.CONFIGURATION,
    needs.gpu_work,
    needs.several_launches,
    needs.iterations,
    severity=Severity.INFO,
)
def uneven_kernels(case: Case) -> Verdict:
    """A launch that each iteration repeats takes very different times.

    Launches of one configuration may do different work: each is compared with those at its place in other iterations.
    """
    configs = case.configs.select(*_CONFIGURATION, "calls", "total_ns")
    if configs.is_empty():
        return NotApplicable("no compute kernels are recorded")
    if not configs["grid_x"].count():
        return NotApplicable("grids are not recorded: launches of one name may do different work")
    least_ns = case.limit("L10", "excess_pct") / 100 * case.gpu_ns
    # Only configurations whose launches take more than this in total can exceed their median by it.
    heavy = (
        configs.group_by(_CONFIGURATION)
        .agg(pl.col("calls", "total_ns").sum())
        .filter(pl.col("calls") >= case.limit("L10", "launches"), pl.col("total_ns") > least_ns)
        .sort("total_ns", descending=True)
        .with_columns((pl.col("calls").cum_sum() // _LAUNCHES_AT_ONCE).alias("part"))
    )
    parts = [_spread_by_place(case, part) for part in heavy.partition_by("part", include_key=False)]
    spread = pl.concat(parts or [_spread_by_place(case, heavy)]).filter(
        pl.col("max_ns") > case.limit("L10", "times") * pl.col("median_ns"), pl.col("excess_ns") > least_ns
    )
    uneven = sort_by_largest(spread, "excess_ns")
    numbers = {"kernels": uneven.height}
    if uneven.is_empty():
        return Clean("launches at one place of the iterations take about the same time", numbers)
    first, excess = uneven.row(0, named=True), int(float_or_zero(uneven["excess_ns"].sum()))
    return Found(
        f"{label(first['name'])} takes {duration(first['max_ns'])} in one iteration, where it usually takes "
        f"{duration(first['median_ns'])}: {duration(first['excess_ns'])} beyond the usual time in all.",
        "Compare slow launches with the others: contention, clocks, different data.",
        numbers,
        excess,
        "what these launches take beyond the median of their place in the iteration",
        *evidence_by_name(uneven, "launches", "median_ns", "max_ns", "total_ns", "excess_ns", "line"),
        is_summed_over_gpus=True,
    )


_CONFIGURATION: Final = ("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_LAUNCHES_AT_ONCE: Final = 1 << 21
"""Launches of configurations that are compared at once, to bound the memory."""
_ACTIVITIES_AT_ONCE: Final = 1 << 20
"""Activities among which these launches are selected at once, for the same reason."""


def _spread_by_place(case: Case, configs: pl.DataFrame) -> pl.DataFrame:
    """Return how the launches of configurations differ from the median of their place in the iterations.

    Columns: the configuration, launches, median_ns and max_ns of the place with the largest ratio, total_ns, excess_ns
    (the sum of what launches take beyond the median of their place), line.
    """
    numbered = configs.select(_CONFIGURATION).with_row_index("config")
    duration_ns, usual = pl.col("duration_ns"), pl.col("usual_ns")
    parts = []
    activities = case.profile["activities"]
    for first in range(0, max(activities.height, 1), _ACTIVITIES_AT_ONCE):
        parts.append(
            activities.slice(first, _ACTIVITIES_AT_ONCE)
            .lazy()
            .filter(
                pl.col("kind") == "kernel",
                pl.col("name").is_in(configs["name"].unique().implode()),
                pl.col("iteration").is_not_null(),
            )
            .select(*_CONFIGURATION, "iteration", "start_ns", "duration_ns", "line")
            .drop_nulls(["duration_ns", "start_ns"])
            .join(numbered.lazy(), on=_CONFIGURATION, nulls_equal=True)
            .select("config", "iteration", "start_ns", "duration_ns", "line")
            .collect()
        )
        release_mapped()
    spread = (
        pl.concat(parts)
        .lazy()
        .sort("start_ns")
        .with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).over("iteration", "config").alias("place"))
        .drop("iteration", "start_ns")
        .with_columns(
            duration_ns.median().over("place", "config").alias("usual_ns"),
            pl.len().over("place", "config").alias("iterations"),
        )
        .filter(pl.col("iterations") >= case.limit("L10", "iterations"), usual > 0)
        .group_by("config")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            usual.get((duration_ns / usual).arg_max()).alias("median_ns"),
            duration_ns.get((duration_ns / usual).arg_max()).alias("max_ns"),
            duration_ns.sum().alias("total_ns"),
            (duration_ns - usual).clip(0).sum().alias("excess_ns"),
            pl.col("line").min(),
        )
        .collect()
    )
    return numbered.join(spread, on="config").drop("config")
