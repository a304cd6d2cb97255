"""Small kernels that could be one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Verdict, rule
from tui.analysis.expert.words import behind, called, counted, ranked, tallied
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

ELEMENTWISE: Final = (
    "elementwise", "activation", "bias add", "bias", "dropout", "cast", "batch norm", "layer norm", "normalisation",
)  # fmt: skip
_OPTIMIZER_OPS: Final = r"(?i)addcdiv|addcmul|lerp_|_foreach|fused_?(?:adam|sgd)|adam|\bsgd|momentum|multi_tensor"


@rule("P7", "not-fused", Family.PRECISION, needs.gpu_work, needs.kernels, link=links.DLPROF)
def not_fused(case: Case) -> Verdict:
    """Elementwise work and normalisation run as many small kernels."""
    rows = case.kernels.filter(pl.col("op_type").is_in(ELEMENTWISE))
    taken, launches = total(rows["total_ns"]), total(rows["calls"])
    share, mean = case.share(taken), taken / launches if launches else 0.0
    numbers = {"time_ns": taken, "time_pct": share, "launches": launches, "mean_ns": mean}
    if share <= case.limit("P7", "time_pct") or mean >= case.limit("P7", "mean_ns"):
        return Clean(f"elementwise work and normalisation take {percent(share)} of the GPU time", numbers)
    return Found(
        f"Elementwise work and normalisation take {percent(share)} of GPU time in "
        f"{counted(launches, 'launch', 'launches')} of {duration(mean)} on average; most {called(rows['name'][0])}.",
        f"Fuse such kernels: {case.compiler}, or fused layers (LayerNorm, activation with bias, dropout with add).",
        numbers,
        taken // 2,
        "half of that time: fused kernels read and write the data once instead of each time",
        *behind(rows, "calls", "total_ns", "avg_ns", "line"),
    )


@rule("P8", "unfused-optimizer", Family.PRECISION, needs.gpu_work, needs.several_launches, needs.iterations)
def unfused_optimizer(case: Case) -> Verdict:
    """The optimizer launches one kernel for each parameter."""
    op_numbers = case.rows_named("ops", _OPTIMIZER_OPS, "op")["op"]
    kernel_names = case.kernels.filter(pl.col("op_type") == "optimizer")["name"]
    rows = case.profile["activities"].filter(
        pl.col("kind") == "kernel",
        pl.col("name").is_in(kernel_names.implode()) | pl.col("op").is_in(op_numbers.implode()).fill_null(False),
    )
    if rows.is_empty():
        return CannotTell("no op or kernel is named as an optimizer's")
    inside = rows.drop_nulls("iteration")
    if inside.is_empty():
        return CannotTell("the input does not tell which iteration the optimizer's kernels belong to")
    steps = inside["iteration"].n_unique()
    each, mean = inside.height / steps, total(inside["duration_ns"]) / inside.height
    numbers = {"per_iteration": each, "mean_ns": mean, "iterations": steps}
    if each <= case.limit("P8", "launches") or mean >= case.limit("P8", "mean_ns"):
        return Clean(f"{counted(each, 'launch', 'launches')} an iteration, {duration(mean)} on average", numbers)
    by_name = ranked(tallied(inside, "launches", "duration_ns"), "launches")
    return Found(
        f"The optimizer launches {counted(each, 'kernel')} of {duration(mean)} on average in each iteration, most "
        f"often {called(by_name['name'][0])}.",
        "Use fused=True or foreach=True of torch.optim, or a fused optimizer (Apex, DeepSpeed).",
        numbers,
        total(inside["duration_ns"]),
        "all of these kernels, and what the CPU spends on their launches on top",
        *behind(by_name),
    )
