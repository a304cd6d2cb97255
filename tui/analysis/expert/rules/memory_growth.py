"""Memory that grows from iteration to iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.expert import links
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Verdict, rule
from tui.analysis.expert.words import counted
from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import ALLOCATIONS
from tui.analysis.transfers.allocations import allocator_iterations, allocators
from tui.fmt import percent, size

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


def allocations(case: Case) -> str:
    """What the framework's allocator gave out of a GPU's memory."""
    of_gpus = case.profile["memory_events"].filter(pl.col("place") == "GPU", pl.col("allocated_bytes").is_not_null())
    return "" if of_gpus.height else why_none(case.profile, ALLOCATIONS)


@rule("I9", "memory-grows", Family.ITERATIONS, allocations, link=links.SAGEMAKER)
def memory_grows(case: Case) -> Verdict:
    """More and more memory stays allocated."""
    window = int(case.limit("I9", "iterations"))
    sizes = allocators(case.profile).filter(pl.col("place") == "GPU").select("device", "memory_bytes")
    held = pl.col("last_bytes")
    steps = (
        allocator_iterations(case.profile)
        .filter(pl.col("place") == "GPU")
        .drop_nulls("iteration")
        .with_columns(held.rolling_mean(window).over("device").alias("mean_bytes"))
        .with_columns((pl.col("mean_bytes") - pl.col("mean_bytes").shift(window).over("device")).alias("rise_bytes"))
        .join(sizes, on="device", how="left", maintain_order="left")
        .with_columns((100 * pl.col("rise_bytes") / pl.col("memory_bytes")).alias("rise_pct"))
    )
    most = max(steps.group_by("device").len()["len"].to_list(), default=0)
    if most < 2 * window:
        return CannotTell(f"memory of {counted(most, 'iteration')} is recorded, {2 * window} are needed")
    if not sizes["memory_bytes"].count():
        return CannotTell("the size of the GPU's memory is not known")
    rising = steps.drop_nulls("rise_pct").sort("rise_pct", "iteration", descending=[True, False])
    first = rising.row(0, named=True)
    whole = steps.filter(pl.col("device").eq_missing(pl.lit(first["device"], pl.Int32)))
    growth = whole["last_bytes"][-1] - whole["first_bytes"][0]
    numbers = {"rise_pct": first["rise_pct"], "growth_bytes": growth, "iterations": whole.height}
    if first["rise_pct"] < case.limit("I9", "rise_pct"):
        return Clean(f"what stays allocated rises by {percent(max(0.0, first['rise_pct']))} of the memory", numbers)
    return Found(
        f"What stays allocated after an iteration rises by {size(int(first['rise_bytes']))}, "
        f"{percent(first['rise_pct'])} of the GPU's memory, within {window} iterations up to {first['iteration']}; "
        f"by {size(growth)} in {counted(whole.height, 'iteration')}.",
        "Find what is kept: losses collected without .item() or .detach(), growing caches, hidden states; "
        "torch.cuda.memory._record_memory_history() names the lines.",
        numbers,
        None,
        "none: it is memory, not time, until there is no more",
        rising.select("iteration", "last_bytes", "rise_bytes", "rise_pct"),
        "memory",
        part="allocator",
    )
