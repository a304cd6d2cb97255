"""Whether all GPUs that a program has do their part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.expert import needs
from tui.analysis.expert.figures import real
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Verdict, rule
from tui.analysis.expert.words import counted, gpu_called
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


@rule(
    "U4",
    "gpu-unused",
    Family.UTILISATION,
    needs.gpu_work,
    link="https://docs.nvidia.com/deeplearning/frameworks/dlprof-user-guide/",
)
def unused_gpus(case: Case) -> Verdict:
    """A GPU that the program sees has no work."""
    seen = case.profile["devices"]
    if seen.is_empty():
        return CannotTell("the input does not say which GPUs the program saw")
    source = case.about["source"]
    together = case.whole["sessions"].filter(pl.col("source").eq_missing(pl.lit(source, pl.String)))["session"].unique()
    used = case.whole["activities"].filter(pl.col("session").is_in(together.implode()))["device"].unique()
    idle = seen.filter(~pl.col("device").is_in(used.drop_nulls().implode()))
    if ((case.about["world_size"] or 1) > 1 or case.about["rank"] is not None) and idle.height:
        return CannotTell("this is one rank of several: the other GPUs are for the others to use")
    if not seen["device"].is_in(used.drop_nulls().implode()).any():
        return CannotTell("the input does not say which GPU its work ran on")
    numbers = {"gpus": seen["device"].n_unique(), "unused": idle["device"].n_unique()}
    if idle.is_empty():
        return Clean(f"{counted(seen['device'].n_unique(), 'GPU')} seen, and used", numbers)
    numbered = ", ".join(map(str, idle["device"].unique().sort()))
    return Found(
        f"{idle['device'].n_unique()} of {seen['device'].n_unique()} GPUs did nothing: {numbered}.",
        "Check what the container, the framework and the launcher are told (CUDA_VISIBLE_DEVICES, "
        "HIP_VISIBLE_DEVICES, --gpus, nproc), or give the GPU to someone else.",
        numbers,
        None,
        "not estimated: it depends on how well the work can be divided",
        idle.select("device", "name"),
        "gpus",
        " | ".join(f"device={device}" for device in idle["device"].unique().sort()),
    )


@rule("U5", "gpu-imbalance", Family.UTILISATION, needs.start_times)
def unequal_gpus(case: Case) -> Verdict:
    """GPUs have unequal work."""
    if case.busy.height < 2:
        return Clean("one GPU has work")
    ordered = case.busy.sort("busy_ns", descending=True)
    most, least = ordered.row(0, named=True), ordered.row(-1, named=True)
    spread = 100 * (most["busy_ns"] - least["busy_ns"]) / most["busy_ns"] if most["busy_ns"] else 0.0
    numbers = {"spread_pct": spread, "most_ns": most["busy_ns"], "least_ns": least["busy_ns"]}
    if spread <= case.limit("U5", "spread_pct"):
        return Clean(f"the GPU with least work has {percent(spread)} less than the one with most", numbers)
    return Found(
        f"{gpu_called(least['device'], 2)} is busy for {duration(least['busy_ns'])}, {gpu_called(most['device'], 2)} "
        f"for {duration(most['busy_ns'])}: {percent(spread)} less.",
        "Divide batches or pipeline stages by the time that they take, not by their number.",
        numbers,
        int(most["busy_ns"] - real(ordered["busy_ns"].mean())),
        "what the busiest GPU has more than the mean",
        ordered.select("device", "busy_ns", "busy_pct"),
        "gpus",
    )
