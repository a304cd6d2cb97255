"""Pages of unified memory that move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Verdict, rule
from tui.analysis.inputs import needs as held
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


@rule("T13", "unified-memory", Family.TRANSFERS, needs.gpu_work, link=links.NSIGHT)
def unified_memory(case: Case) -> Verdict:
    """Pages of unified memory move to and fro."""
    single = case.profile["activities"].filter(pl.col("kind") == "um").select(
        "name", calls=pl.lit(1, pl.Int64), total_ns="duration_ns"
    )  # fmt: skip
    summed = case.profile["summary"].filter(pl.col("section") == "um").select("name", "calls", "total_ns")
    if single.is_empty() and summed.is_empty():
        if case.lacks.get(held.START_TIMES.name) and case.lacks.get(held.OTHER_SUMMARIES.name):
            return CannotTell(case.lacks[held.OTHER_SUMMARIES.name])
        return Clean("no unified memory was moved")
    by_name = (
        (single if single.height else summed)
        .group_by("name")
        .agg(pl.col("calls", "total_ns").sum())
        .sort("total_ns", "name", descending=[True, False])
    )
    fault_ns = total(by_name.filter(pl.col("name").cast(pl.String).str.contains("(?i)fault"))["total_ns"])
    moved_ns = total(by_name["total_ns"]) - fault_ns
    most, whole = max(fault_ns, moved_ns), case.span_of_all_ns or case.gpu_ns
    share = 100 * most / whole if whole else 0.0
    numbers = {"fault_ns": fault_ns, "moved_ns": moved_ns, "share_pct": share}
    if share <= case.limit("T13", "share_pct"):
        return Clean(f"unified memory takes {percent(share)} of the time", numbers)
    what = "Page faults" if fault_ns >= moved_ns else "Moves of pages"
    return Found(
        f"{what} of unified memory take {duration(most)}: {percent(share)} of the time.",
        "Prefetch what a kernel will need (cudaMemPrefetchAsync), and tell how it is used (cudaMemAdvise).",
        numbers,
        most,
        "all of it",
        by_name,
        "kernels" if single.height else "summaries",
        "kind=um" if single.height else "",
    )
