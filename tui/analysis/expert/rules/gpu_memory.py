"""How much of the GPU's memory is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links
from tui.analysis.expert.model import Clean, Family, Found, Severity, Verdict, rule
from tui.fmt import percent, size

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

_MOST_BATCH_FACTOR: Final = 4
_FULL: Final = 0.9


def memory_known(case: Case) -> str:
    """How much memory was used."""
    return "" if memory_use(case).height else "the input does not tell how much GPU memory was used"


@rule("I7", "memory-underused", Family.ITERATIONS, memory_known, severity=Severity.INFO, link=links.DLPROF)
def memory_underused(case: Case) -> Verdict:
    """Most of the GPU's memory is free."""
    most = memory_use(case).row(0, named=True)
    numbers = {"memory_pct": most["used_pct"], "used_bytes": int(most["used"]), "total_bytes": int(most["total"])}
    if most["used_pct"] >= case.limit("I7", "memory_pct"):
        return Clean(f"{percent(most['used_pct'])} of the memory is used", numbers)
    factor = min(_MOST_BATCH_FACTOR, int(_FULL * 100 / most["used_pct"])) if most["used_pct"] else _MOST_BATCH_FACTOR
    return Found(
        f"At most {size(int(most['used']))} of {size(int(most['total']))} of GPU memory is used: "
        f"{percent(most['used_pct'])}.",
        f"Try a batch {factor} times as large: launches get longer and fewer.",
        {**numbers, "factor": factor},
        None,
        "not estimated: it depends on how throughput grows with the batch",
        memory_use(case),
        "tool-report",
        "memory",
    )


def memory_use(case: Case) -> pl.DataFrame:
    """Memory of each GPU as the tool tells it: gpu, total, used (bytes), used_pct."""
    name = pl.col("name").str
    rows = case.profile["tool_figures"].filter(name.starts_with("GPU memory "), pl.col("value").is_not_null())
    if rows.is_empty():
        return pl.DataFrame(schema={"gpu": pl.String, "total": pl.Float64, "used": pl.Float64, "used_pct": pl.Float64})
    split = rows.select(
        name.extract(r"^GPU memory (.*): (?:Total|Used)$").alias("gpu"),
        pl.when(name.ends_with("Total")).then("value").alias("total"),
        pl.when(name.ends_with("Used")).then("value").alias("used"),
    )
    return (
        split.group_by("gpu")
        .agg(pl.col("total", "used").max())
        .filter(pl.col("total") > 0, pl.col("used").is_not_null())
        .with_columns((100 * pl.col("used") / pl.col("total")).alias("used_pct"))
        .sort("used_pct", "gpu", descending=[True, False])
    )


@rule("I8", "memory-full", Family.ITERATIONS, memory_known, link=links.TENSORBOARD)
def memory_full(case: Case) -> Verdict:
    """Hardly any GPU memory is left."""
    most = memory_use(case).row(0, named=True)
    numbers = {"memory_pct": most["used_pct"], "used_bytes": int(most["used"]), "total_bytes": int(most["total"])}
    if most["used_pct"] <= case.limit("I8", "memory_pct"):
        return Clean(f"{percent(most['used_pct'])} of the memory is used", numbers)
    return Found(
        f"{size(int(most['used']))} of {size(int(most['total']))} of GPU memory is used "
        f"({percent(most['used_pct'])}): allocations may fail or wait.",
        "Activation checkpointing, mixed precision, a smaller batch with gradient accumulation.",
        numbers,
        None,
        "not estimated",
        memory_use(case),
        "tool-report",
        "memory",
    )
