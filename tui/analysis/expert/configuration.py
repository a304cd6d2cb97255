"""How kernels are launched: grids, blocks, registers, shared memory, and how much of the GPU they can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import needs
from tui.analysis.expert.figures import real, total
from tui.analysis.expert.launches import filled_pct
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.utilisation import TENSORBOARD
from tui.analysis.expert.words import called, counted, named
from tui.analysis.occupancy.theoretical import WARP, capabilities
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

CONFIGURATION: Final = Family.CONFIGURATION
NSIGHT_COMPUTE: Final = "https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html"
TAIL: Final = "https://developer.nvidia.com/blog/cuda-pro-tip-minimize-the-tail-effect/"

_SHOWN: Final = ("name", "grid", "block", "registers", "calls", "total_ns", "occupancy_pct", "limiter", "waves")
_LIMITER_ADVICE: Final = {
    "registers": "use fewer registers (__launch_bounds__, -maxrregcount, smaller tiles)",
    "shared memory": "use less shared memory per block",
    "blocks": "use larger blocks (128 to 256 threads)",
    "warps": "use blocks that divide the SM's threads",
}


def known(case: Case) -> pl.DataFrame:
    """Launch configurations whose occupancy is known, the most time first, with ``share_pct`` of the GPU time."""
    return with_share(case, case.configs.filter(pl.col("occupancy_pct").is_not_null(), pl.col("total_ns") > 0))


def with_share(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``share_pct``, of the GPU time."""
    return rows.with_columns((100 * pl.col("total_ns") / max(case.gpu_ns, 1)).alias("share_pct"))


def weighted(rows: pl.DataFrame, column: str) -> float:
    """The mean of a column over the time of kernels."""
    taken = total(rows["total_ns"])
    return real(rows.select((pl.col(column) * pl.col("total_ns")).sum()).item()) / taken if taken else 0.0


def by_limiter(limiter: object) -> str:
    """What to do about what limits the occupancy."""
    parts = [advice for name, advice in _LIMITER_ADVICE.items() if name in str(limiter)]
    return " and ".join(parts) or "change the block size"


@rule("L1", "low-occupancy", CONFIGURATION, needs.occupancies, link=NSIGHT_COMPUTE)
def low_occupancy(case: Case) -> Verdict:
    """Few warps can be on an SM at once."""
    rows = known(case)
    mean, low_pct = weighted(rows, "occupancy_pct"), case.limit("L1", "low_pct")
    low = rows.filter(pl.col("occupancy_pct") < low_pct)
    share = 100 * total(low["total_ns"]) / total(rows["total_ns"])
    below = rows.filter(pl.col("occupancy_pct") < case.limit("L1", "occupancy_pct"))
    heavy = low.filter(pl.col("share_pct") >= case.limit("L1", "kernel_pct"))
    numbers = {"mean_pct": mean, "low_time_pct": share, "low_kernels": low["name"].n_unique()}
    if mean >= case.limit("L1", "mean_pct") and heavy.is_empty():
        return Clean(f"theoretical occupancy is {percent(mean)} on average over kernel time", numbers)
    first = (heavy if heavy.height else low if low.height else below).row(0, named=True)
    tensor = low.filter(pl.col("name").is_in(_on_tensor_cores(case).implode()))
    mostly_tensor = 2 * total(tensor["total_ns"]) > total(low["total_ns"])
    return Found(
        f"{percent(share)} of the kernel time runs below {low_pct:g}% theoretical occupancy; "
        f"{called(first['name'])} "
        f"({percent(first['share_pct'])} of GPU time) at {percent(first['occupancy_pct'])}, limited by "
        f"{first['limiter']}.",
        f"If the kernel is yours: {by_limiter(first['limiter'])}. Large tiles of GEMM and attention can be fast all "
        f"the same." + (" Most of these use tensor cores: look at other findings first." if mostly_tensor else ""),
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden yet",
        (low if low.height else below).select(_SHOWN).head(10),
        "kernels",
        named((low if low.height else below)["name"].head(10).to_list()),
        Severity.INFO if mostly_tensor else None,
    )


def _on_tensor_cores(case: Case) -> pl.Series:
    return case.kernels.filter(pl.col("uses_tensor_core").fill_null(False))["name"]


@rule("L2", "grid-below-sms", CONFIGURATION, needs.sm_counts, link=NSIGHT_COMPUTE)
def small_grids(case: Case) -> Verdict:
    """Grids have fewer blocks than the GPU has SMs."""
    rows = with_share(case, case.configs.filter(pl.col("blocks") < pl.col("sm_count")))
    heavy = rows.group_by("name").agg(pl.col("share_pct").sum()).filter(
        pl.col("share_pct") >= case.limit("L2", "kernel_pct")
    )  # fmt: skip
    small = rows.join(heavy.select("name"), on="name", how="semi", maintain_order="left")
    numbers = {"kernels": heavy.height, "time_pct": real(heavy["share_pct"].sum())}
    if small.is_empty():
        return Clean("no kernel of weight has fewer blocks than there are SMs", numbers)
    gain = small.select((pl.col("total_ns") * (1 - pl.col("blocks") / pl.col("sm_count"))).sum()).item()
    first = small.row(0, named=True)
    return Found(
        f"{called(first['name'])} launches {counted(first['blocks'], 'block')} on {first['sm_count']} SMs"
        f" ({percent(first['share_pct'])} of GPU time); {counted(heavy.height, 'kernel')} of weight "
        f"{'does' if heavy.height == 1 else 'do'} so.",
        "Launch more blocks: larger batches, smaller tiles, split-K; or run other kernels beside it.",
        numbers,
        int(real(gain)),
        "the share of the SMs that is left free, over the time of these kernels",
        small.select(_SHOWN).head(10),
        "kernels",
        named(small["name"].head(10).to_list()),
    )


@rule("L3", "under-one-wave", CONFIGURATION, needs.occupancies, needs.sm_counts, link=NSIGHT_COMPUTE)
def under_one_wave(case: Case) -> Verdict:
    """Kernels do not fill the GPU once."""
    rows = known(case).filter(pl.col("waves").is_not_null())
    small = rows.filter(pl.col("waves") < 1)
    share = 100 * total(small["total_ns"]) / max(total(rows["total_ns"]), 1)
    numbers = {"time_pct": share, "kernels": small["name"].n_unique()}
    if share <= case.limit("L3", "time_pct"):
        return Clean(f"{percent(share)} of the kernel time is in launches of less than one wave", numbers)
    first = small.row(0, named=True)
    gain = small.select((pl.col("total_ns") * (1 - pl.col("waves"))).sum()).item()
    return Found(
        f"{percent(share)} of the kernel time is in launches that do not fill the GPU once; {called(first['name'])} "
        f"takes "
        f"{first['waves']:.2f} waves.",
        "Give each launch more work: larger batches, more blocks; or run other kernels beside it.",
        numbers,
        int(real(gain)),
        "the part of one wave that stays empty, over the time of these kernels",
        small.select(_SHOWN).head(10),
        "kernels",
        named(small["name"].head(10).to_list()),
    )


@rule("L4", "tail-effect", CONFIGURATION, needs.occupancies, needs.sm_counts, severity=Severity.INFO, link=TAIL)
def tail_effect(case: Case) -> Verdict:
    """The last wave of a launch is nearly empty."""
    least = case.limit("L4", "tail_pct") / 100
    rows = known(case).filter(pl.col("waves").is_not_null(), pl.col("share_pct") >= case.limit("L4", "kernel_pct"))
    full = pl.col("waves").floor()
    tails = rows.filter(full >= 1, pl.col("waves") > full, 1 / (full + 1) >= least).with_columns(
        (pl.col("total_ns") / (full + 1) * (1 - (pl.col("waves") - full))).alias("gain_ns")
    )
    numbers = {"kernels": tails["name"].n_unique()}
    if tails.is_empty():
        return Clean(f"no launch of weight spends {100 * least:g}% or more on a partial last wave", numbers)
    tails = tails.sort("gain_ns", descending=True)
    first = tails.row(0, named=True)
    return Found(
        f"{called(first['name'])} takes {first['waves']:.2f} waves: the last one runs a whole wave's time and fills "
        f"{percent(100 * (first['waves'] % 1))} of the GPU; {counted(tails['name'].n_unique(), 'kernel')} of weight "
        f"like it.",
        "Choose a grid that is a multiple of blocks per SM x SMs, smaller blocks, or a persistent kernel.",
        numbers,
        total(tails["gain_ns"].cast(pl.Int64)),
        "the empty part of the last wave, if all blocks take the same time",
        tails.select(_SHOWN).head(10),
        "kernels",
        named(tails["name"].head(10).to_list()),
    )


@rule(
    "L5",
    "ragged-block",
    CONFIGURATION,
    needs.any_gpu_work,
    needs.launch_configs,
    severity=Severity.INFO,
    link=NSIGHT_COMPUTE,
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
        rows.select("name", "grid", "block", "threads_per_block", "calls", "total_ns").head(10),
        "kernels",
        named(rows["name"].head(10).to_list()),
    )


@rule("L6", "tiny-block", CONFIGURATION, needs.occupancies, link=NSIGHT_COMPUTE)
def tiny_blocks(case: Case) -> Verdict:
    """Blocks are so small that their number is the limit."""
    rows = known(case).filter(
        pl.col("share_pct") >= case.limit("L6", "kernel_pct"),
        (pl.col("threads_per_block") <= WARP)
        | ((pl.col("limiter") == "blocks") & (pl.col("occupancy_pct") < case.limit("L6", "occupancy_pct"))),
    )
    numbers = {"kernels": rows["name"].n_unique()}
    if rows.is_empty():
        return Clean("no kernel of weight has blocks that small", numbers)
    first = rows.row(0, named=True)
    return Found(
        f"{called(first['name'])} ({percent(first['share_pct'])} of GPU time) has blocks of "
        f"{counted(first['threads_per_block'], 'thread')}: an SM holds {first['blocks_per_sm']} of them, "
        f"{percent(first['occupancy_pct'])} of its warps.",
        "Use larger blocks, 128 to 256 threads.",
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden yet",
        rows.select(_SHOWN).head(10),
        "kernels",
        named(rows["name"].head(10).to_list()),
    )


@rule("L7", "register-ceiling", CONFIGURATION, needs.any_gpu_work, needs.launch_configs, severity=Severity.INFO)
def register_ceiling(case: Case) -> Verdict:
    """Kernels use all registers that a thread can have."""
    most = capabilities().select("compute_capability", "registers_per_thread")
    rows = with_share(case, case.configs.filter(pl.col("registers").is_not_null())).join(
        most, on="compute_capability", how="left", maintain_order="left"
    )
    if rows.is_empty():
        return CannotTell("the input has no registers per thread")
    judged = rows.drop_nulls("registers_per_thread")
    if judged.is_empty():
        return CannotTell("nothing is known of this GPU: name it with --gpu")
    at_most = judged.filter(
        pl.col("registers") >= pl.col("registers_per_thread"), pl.col("share_pct") >= case.limit("L7", "kernel_pct")
    )
    numbers = {"kernels": at_most["name"].n_unique()}
    if at_most.is_empty():
        return Clean("no kernel of weight uses all registers that a thread can have", numbers)
    first = at_most.row(0, named=True)
    return Found(
        f"{called(first['name'])} uses {first['registers']} registers per thread, the most there are: values may "
        f"spill to "
        f"memory ({percent(first['share_pct'])} of GPU time).",
        "Look for spills (-Xptxas -v, ncu); split the kernel, use smaller tiles or fewer live values.",
        numbers,
        None,
        "not estimated: the profile does not show spills",
        at_most.select("name", "grid", "block", "registers", "calls", "total_ns").head(10),
        "kernels",
        named(at_most["name"].head(10).to_list()),
    )


@rule(
    "L8",
    "sm-efficiency",
    CONFIGURATION,
    needs.start_times,
    needs.sm_counts,
    severity=Severity.INFO,
    link=TENSORBOARD,
)
def sm_efficiency(case: Case) -> Verdict:
    """SMs stand idle, over the whole run."""
    fill = filled_pct(case)
    busy = sum(gpu.compute.length for gpu in case.gpus)
    share = case.of_span(busy * fill / 100)
    numbers = {"sm_efficiency_pct": share, "fill_pct": fill, "kernel_time_pct": case.of_span(busy)}
    if share >= case.limit("L8", "fill_pct"):
        return Clean(f"estimated SM efficiency is {percent(share)}", numbers)
    return Found(
        f"Estimated SM efficiency is {percent(share)}: kernels that compute run for {percent(case.of_span(busy))} of "
        f"the span, "
        f"and their "
        f"grids reach {percent(fill)} of the SMs.",
        "Larger batches fill both; where kernels run most of the time, look at their grids first (L2, L3).",
        numbers,
        int(case.span_of_all_ns * (1 - share / 100)),
        "all SM time without a block",
        known(case).sort("waves", nulls_last=True).select(_SHOWN).head(10),
        "kernels",
        "kind=kernel",
    )


@rule(
    "L9",
    "achieved-occupancy",
    CONFIGURATION,
    needs.occupancies,
    needs.sm_counts,
    severity=Severity.INFO,
    link=TENSORBOARD,
)
def achieved_occupancy(case: Case) -> Verdict:
    """Few warps are on the SMs, on average."""
    warps = capabilities().select("compute_capability", "warps")
    rows = (
        known(case)
        .join(warps, on="compute_capability", how="left", maintain_order="left")
        .with_columns(
            (
                pl.min_horizontal(pl.col("blocks_per_sm").cast(pl.Float64), pl.col("blocks") / pl.col("sm_count"))
                * pl.col("threads_per_block")
                / (pl.col("warps") * WARP)
                * 100
            ).alias("achieved_pct")
        )
        .drop_nulls("achieved_pct")
    )
    mean = weighted(rows, "achieved_pct")
    numbers = {"achieved_pct": mean}
    if rows.is_empty() or mean >= case.limit("L9", "occupancy_pct"):
        return Clean(f"estimated achieved occupancy is {percent(mean)} on average over kernel time", numbers)
    low = rows.filter(pl.col("achieved_pct") < case.limit("L9", "occupancy_pct"))
    first = low.row(0, named=True)
    return Found(
        f"Estimated achieved occupancy is {percent(mean)} on average over kernel time; {called(first['name'])} "
        f"({percent(first['share_pct'])} of GPU time) reaches {percent(first['achieved_pct'])}.",
        "See L1 for what limits a kernel and L2 and L3 for grids that are too small.",
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden yet",
        low.select(*_SHOWN, "achieved_pct").head(10),
        "kernels",
        named(low["name"].head(10).to_list()),
    )


@rule("L10", "uneven-kernel", CONFIGURATION, needs.gpu_work, needs.several_launches, severity=Severity.INFO)
def uneven_kernels(case: Case) -> Verdict:
    """One kernel in one configuration runs at very different speeds."""
    config = ("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    computing = pl.col("name").is_in(case.computing["name"].implode())
    rows = case.profile["activities"].filter(
        (pl.col("kind") == "kernel") & pl.col("duration_ns").is_not_null() & computing
    )
    if rows.is_empty():
        return CannotTell("no kernels that compute ran")
    if not rows["grid_x"].count():
        return CannotTell("the input has no grids: launches of one name may do different work")
    spread = (
        rows.lazy()
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
        .filter(pl.col("max_ns") > case.limit("L10", "times") * pl.col("median_ns"))
        .sort("excess_ns", descending=True)
        .collect()
    )
    uneven = spread.filter(100 * pl.col("excess_ns") > case.limit("L10", "excess_pct") * case.gpu_ns)
    numbers = {"kernels": uneven.height}
    if uneven.is_empty():
        return Clean("launches of one kernel in one configuration take about the same time", numbers)
    first, excess = uneven.row(0, named=True), int(real(uneven["excess_ns"].sum()))
    return Found(
        f"{called(first['name'])} takes {duration(first['median_ns'])} in the middle and up to "
        f"{duration(first['max_ns'])} in "
        f"the same configuration: {duration(first['excess_ns'])} above the median in all.",
        "Compare the slow launches with the others: contention with copies or other kernels, clocks, other data.",
        numbers,
        excess,
        "what these launches take above their median",
        uneven.select("name", "launches", "median_ns", "max_ns", "total_ns", "excess_ns", "line").head(10),
        "kernels",
        named(uneven["name"].head(10).to_list()),
    )
