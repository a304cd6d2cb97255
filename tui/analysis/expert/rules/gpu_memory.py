"""How much of the GPU's memory is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links
from tui.analysis.expert.model import Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.transfers.allocations import allocators
from tui.fmt import percent, size

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

_MOST_BATCH_FACTOR: Final = 4
_FULL: Final = 0.9


def memory_known(case: Case) -> str:
    """How much memory was used, and of how much."""
    if memory_use(case).height:
        return ""
    if _allocated(case).height:
        return "the size of the GPU's memory is not known"
    return "the input does not tell how much GPU memory was used"


@rule("I7", "memory-underused", Family.ITERATIONS, memory_known, severity=Severity.INFO, link=links.DLPROF)
def memory_underused(case: Case) -> Verdict:
    """Most of the GPU's memory is free."""
    most = memory_use(case).row(0, named=True)
    numbers = {"memory_pct": most["used_pct"], "used_bytes": int(most["used"]), "total_bytes": int(most["total"])}
    if most["used_pct"] >= case.limit("I7", "memory_pct"):
        return Clean(f"{percent(most['used_pct'])} of the memory is {_used(case)}", numbers)
    factor = min(_MOST_BATCH_FACTOR, int(_FULL * 100 / most["used_pct"])) if most["used_pct"] else _MOST_BATCH_FACTOR
    return Found(
        f"At most {size(int(most['used']))} of {size(int(most['total']))} of GPU memory is {_used(case)}: "
        f"{percent(most['used_pct'])}.",
        f"Try a batch {factor} times as large: launches get longer and fewer.",
        {**numbers, "factor": factor},
        None,
        "not estimated: it depends on how throughput grows with the batch",
        *_shown(case),
    )


def memory_use(case: Case) -> pl.DataFrame:
    """Memory of each GPU as the tool tells it, else what the framework's allocator took: gpu, total, used, used_pct."""
    rows = _of_tool(case)
    name = pl.col("name").str
    told = rows.select(
        name.extract(r"^GPU memory (.*): (?:Total|Used)$").alias("gpu"),
        pl.when(name.ends_with("Total")).then("value").alias("total"),
        pl.when(name.ends_with("Used")).then("value").alias("used"),
    )
    split = told if rows.height else _allocated(case)
    return (
        split.group_by("gpu")
        .agg(pl.col("total", "used").max())
        .filter(pl.col("total") > 0, pl.col("used").is_not_null())
        .with_columns((100 * pl.col("used") / pl.col("total")).alias("used_pct"))
        .sort("used_pct", "gpu", descending=[True, False])
    )


def _of_tool(case: Case) -> pl.DataFrame:
    """What the recording tool tells of the memory of GPUs."""
    rows = case.profile["tool_figures"]
    return rows.filter(pl.col("name").str.starts_with("GPU memory "), pl.col("value").is_not_null())


def _allocated(case: Case) -> pl.DataFrame:
    """The most that the framework's allocator took of each GPU: gpu, total (null: not known), used."""
    return (
        allocators(case.profile)
        .with_columns(used=pl.max_horizontal("reserved_peak_bytes", "peak_bytes"))
        .filter(pl.col("place").cast(pl.String) == "GPU", pl.col("used").is_not_null())
        .select(pl.format("GPU {}", "device").alias("gpu"), pl.col("memory_bytes").alias("total"), "used")
    )


def _used(case: Case) -> str:
    """How it is known of memory that it is not free."""
    return "used" if _of_tool(case).height else "taken by the framework's allocator"


def _shown(case: Case) -> tuple[pl.DataFrame, str, str, Severity | None, str]:
    """Evidence, view, filter, severity and part of what is about the memory of GPUs."""
    rows = memory_use(case)
    if _of_tool(case).height:
        return rows, "tool-report", "memory", None, ""
    return rows, "memory", "", None, "allocator"


@rule("I8", "memory-full", Family.ITERATIONS, memory_known, link=links.TENSORBOARD)
def memory_full(case: Case) -> Verdict:
    """Hardly any GPU memory is left."""
    most = memory_use(case).row(0, named=True)
    numbers = {"memory_pct": most["used_pct"], "used_bytes": int(most["used"]), "total_bytes": int(most["total"])}
    if most["used_pct"] <= case.limit("I8", "memory_pct"):
        return Clean(f"{percent(most['used_pct'])} of the memory is {_used(case)}", numbers)
    return Found(
        f"{size(int(most['used']))} of {size(int(most['total']))} of GPU memory is {_used(case)} "
        f"({percent(most['used_pct'])}): allocations may fail or wait.",
        "Activation checkpointing, mixed precision, a smaller batch with gradient accumulation.",
        numbers,
        None,
        "not estimated",
        *_shown(case),
    )
