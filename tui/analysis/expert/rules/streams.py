"""What could run at the same time and does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.configs import filled_pct
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.gpu_time.overlap import overlap
from tui.fmt import percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


@rule(
    "A11",
    "one-stream",
    Family.LAUNCHES,
    needs.streams,
    needs.single_kernels,
    severity=Severity.INFO,
    link=links.VISUAL_PROFILER,
)
def one_stream(case: Case) -> Verdict:
    """All work is in one stream."""
    gpus = overlap(case.profile).drop_nulls("kernel_streams").select("device", "kernel_streams", "kernels_ns")
    alone = gpus.filter(pl.col("kernel_streams") == 1)
    exposed = [rule for rule in ("T2", "C2") if case.found(rule)]
    numbers = {"gpus": gpus.height, "one_stream": alone.height}
    if alone.is_empty():
        return Clean("kernels run in several streams of every GPU", numbers)
    if not exposed:
        if reason := case.untold("T2", "C2"):
            return CannotTell(reason)
        return Clean("kernels run in one stream, and nothing waits that another stream could hide", numbers)
    what = " and ".join({"T2": "copies", "C2": "communication"}[rule] for rule in exposed)
    return Found(
        f"All kernels run in one stream, and {what} that could overlap with them {'are' if 'T2' in exposed else 'is'} "
        f"exposed ({', '.join(exposed)}).",
        f"Put {what} into a stream of their own.",
        numbers,
        None,
        f"counted by {' and '.join(exposed)}",
        alone,
        "kernels",
        "kind=kernel",
    )


@rule(
    "A12",
    "no-concurrency",
    Family.LAUNCHES,
    needs.streams,
    needs.sm_counts,
    severity=Severity.INFO,
    link=links.VISUAL_PROFILER,
)
def no_concurrency(case: Case) -> Verdict:
    """Kernels of several streams never run together."""
    gpus = overlap(case.profile).drop_nulls("kernel_streams").select("device", "kernel_streams", "concurrent_ns")
    busy = case.together("kernels_ns")
    streams = max(gpus["kernel_streams"].to_list(), default=0)
    if not busy or streams < 2:
        return Clean("kernels run in one stream")
    share, fill = 100 * case.together("concurrent_ns") / busy, filled_pct(case)
    numbers = {"together_pct": share, "fill_pct": fill, "streams": streams}
    if share >= case.limit("A12", "together_pct") or fill >= case.limit("A12", "fill_pct"):
        return Clean(
            f"two kernels are on in {percent(share)} of the time, and kernels fill {percent(fill)} of the SMs", numbers
        )
    return Found(
        f"Kernels in {streams} streams run together for {percent(share)} of their time only, and fill {percent(fill)} "
        "of the SMs.",
        "Look for hidden dependencies: the default stream, events, allocation and synchronization between launches.",
        numbers,
        int(busy * (1 - fill / 100)),
        f"the share of the SMs that is left free{case.together_words}, if other kernels could fill it",
        gpus,
        "kernels",
        "kind=kernel",
    )
