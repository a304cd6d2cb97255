"""How many warps an SM can hold, and what limits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.configs import SHOWN, kernel_time, known, weighted, with_share
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called, counted
from tui.analysis.occupancy.theoretical import WARP, capabilities
from tui.fmt import percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

_LIMITER_ADVICE: Final = {
    "registers": "use fewer registers (__launch_bounds__, -maxrregcount, smaller tiles)",
    "shared memory": "use less shared memory per block",
    "blocks": "use larger blocks (128 to 256 threads)",
    "warps": "use blocks that divide the SM's threads",
}


@rule("L1", "low-occupancy", Family.CONFIGURATION, needs.occupancies, link=links.NSIGHT_COMPUTE)
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
        return Clean(f"theoretical occupancy is {percent(mean)} on average over {kernel_time(case)}", numbers)
    first = (heavy if heavy.height else low if low.height else below).row(0, named=True)
    tensor = low.filter(pl.col("name").is_in(_on_tensor_cores(case).implode()))
    mostly_tensor = 2 * total(tensor["total_ns"]) > total(low["total_ns"])
    return Found(
        f"{percent(share)} of {kernel_time(case)} runs below {low_pct:g}% theoretical occupancy; "
        f"{called(first['name'])} ({percent(first['share_pct'])} of GPU time) at {percent(first['occupancy_pct'])}, "
        f"limited by {first['limiter']}.",
        f"If the kernel is yours: {by_limiter(first['limiter'])}. Large tiles of GEMM and attention can be fast all "
        f"the same." + (" Most of these use tensor cores: look at other findings first." if mostly_tensor else ""),
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden yet",
        *behind(low if low.height else below, *SHOWN),
        Severity.INFO if mostly_tensor else None,
    )


def by_limiter(limiter: object) -> str:
    """What to do about what limits the occupancy."""
    parts = [advice for name, advice in _LIMITER_ADVICE.items() if name in str(limiter)]
    return " and ".join(parts) or "change the block size"


def _on_tensor_cores(case: Case) -> pl.Series:
    return case.kernels.filter(pl.col("uses_tensor_core").fill_null(False))["name"]


@rule("L6", "tiny-block", Family.CONFIGURATION, needs.occupancies, link=links.NSIGHT_COMPUTE)
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
        *behind(rows, *SHOWN),
    )


@rule("L7", "register-ceiling", Family.CONFIGURATION, needs.any_gpu_work, needs.launch_configs, severity=Severity.INFO)
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
        f"spill to memory ({percent(first['share_pct'])} of GPU time).",
        "Look for spills (-Xptxas -v, ncu); split the kernel, use smaller tiles or fewer live values.",
        numbers,
        None,
        "not estimated: the profile does not show spills",
        *behind(at_most, "grid", "block", "registers", "calls", "total_ns"),
    )


@rule(
    "L9",
    "achieved-occupancy",
    Family.CONFIGURATION,
    needs.occupancies,
    needs.sm_counts,
    severity=Severity.INFO,
    link=links.TENSORBOARD,
)
def achieved_occupancy(case: Case) -> Verdict:
    """Few warps are on the SMs, on average."""
    rows = known(case).drop_nulls("achieved_pct")
    mean = weighted(rows, "achieved_pct")
    numbers = {"achieved_pct": mean}
    if rows.is_empty() or mean >= case.limit("L9", "occupancy_pct"):
        return Clean(f"estimated achieved occupancy is {percent(mean)} on average over {kernel_time(case)}", numbers)
    low = rows.filter(pl.col("achieved_pct") < case.limit("L9", "occupancy_pct"))
    first = low.row(0, named=True)
    return Found(
        f"Estimated achieved occupancy is {percent(mean)} on average over {kernel_time(case)}; "
        f"{called(first['name'])} ({percent(first['share_pct'])} of GPU time) reaches "
        f"{percent(first['achieved_pct'])}.",
        "See L1 for what limits a kernel and L2 and L3 for grids that are too small.",
        numbers,
        None,
        "not estimated: more warps help only where latency is not hidden yet",
        *behind(low, *SHOWN, "achieved_pct"),
    )
