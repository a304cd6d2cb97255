"""Copies: how much of the time they take, and whether kernels hide them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.model import Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called, counted
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

_STREAMS: Final = (
    "Copy in a stream of its own from pinned memory (non_blocking=True), the next batch while this one runs."
)


@rule("T1", "memcpy-dominates", Family.TRANSFERS, needs.copies_recorded, link=links.VISUAL_PROFILER)
def copies_dominate(case: Case) -> Verdict:
    """Copies cost as much as kernels."""
    copies = copies_by_name(case)
    copying, kernels = case.time_of("memcpy"), case.kernel_ns
    share = case.share(copying)
    ratio = kernels / copying if copying else None
    numbers = {"copy_ns": copying, "kernel_ns": kernels, "copy_pct": share, "kernel_per_copy": ratio}
    if not copying:
        return Clean("there are no copies", numbers)
    if share <= case.limit("T1", "copy_pct") and (ratio is None or ratio >= case.limit("T1", "kernel_per_copy")):
        return Clean(f"copies take {percent(share)} of the GPU time", numbers)
    first = copies.row(0, named=True)
    told = f"{called(first['name'])} takes {percent(case.share(first['total_ns']))} of GPU time"
    if first["calls"]:
        told += f": {counted(first['calls'], 'copy', 'copies')}, {duration(first['total_ns'] / first['calls'])}"
        told += " on average" if first["calls"] > 1 else ""
    if copies.height > 1:
        told += f"; all copies {percent(share)}"
    return Found(
        f"{told}.",
        "Keep data on the device; copy less often and more at a time, from pinned memory.",
        numbers,
        copying,
        "all copies; what is left of them depends on the data that has to move",
        *_all_copies(case),
    )


def copies_by_name(case: Case) -> pl.DataFrame:
    """Copies by name, longest first."""
    return case.work.filter(pl.col("kind") == "memcpy")


def _all_copies(case: Case) -> tuple[pl.DataFrame, str, str]:
    """Evidence, view and filter of what is about copies of any name."""
    return copies_by_name(case).select("name", "calls", "total_ns", "line"), "kernels", "kind=memcpy"


@rule("T2", "exposed-memcpy", Family.TRANSFERS, needs.timed_copies, link=links.TRACELENS)
def exposed_copies(case: Case) -> Verdict:
    """Copies that nothing hides."""
    exposed, copying = case.together("exposed_copy_ns"), case.together("copies_ns")
    share = case.of_span(exposed)
    numbers = {"exposed_ns": exposed, "exposed_pct": share, "copy_ns": copying}
    if share <= case.limit("T2", "exposed_pct"):
        return Clean(f"copies without a kernel beside them take {percent(share)} of the {case.spans}", numbers)
    return Found(
        f"Copies run alone for {duration(exposed)}, {percent(share)} of the {case.spans}: "
        f"{percent(100 * exposed / copying)} "
        "of their time no kernel hides them.",
        _STREAMS,
        numbers,
        exposed,
        f"all of the time in which only copies ran{case.together_words}",
        *_all_copies(case),
    )


@rule("T3", "no-copy-overlap", Family.TRANSFERS, needs.timed_copies, link=links.VISUAL_PROFILER)
def no_overlap(case: Case) -> Verdict:
    """Copies and kernels hardly ever overlap."""
    both, copying = case.together("copies_hidden_ns"), case.together("copies_ns")
    could = min(copying, case.together("kernels_ns"))
    share, of_span = (100 * both / could if could else 0.0), case.of_span(copying)
    numbers = {"overlap_pct": share, "overlap_ns": both, "copy_pct": of_span}
    if of_span <= case.limit("T3", "copy_pct"):
        return Clean(f"copies take {percent(of_span)} of the {case.spans}", numbers)
    if not could:
        return Clean("there are no kernels that copies could overlap with", numbers)
    if share >= case.limit("T3", "overlap_pct"):
        return Clean(f"{percent(share)} of what could overlap does", numbers)
    return Found(
        f"Copies take {percent(of_span)} of the {case.spans} and overlap with kernels for {duration(both)}: "
        f"{percent(share)} of what could overlap.",
        _STREAMS,
        numbers,
        could - both,
        f"what could overlap and does not{case.together_words}",
        *_all_copies(case),
    )


@rule(
    "T4", "no-two-way-copies", Family.TRANSFERS, needs.timed_copies, severity=Severity.INFO, link=links.VISUAL_PROFILER
)
def no_two_way_copies(case: Case) -> Verdict:
    """Copies to and from the device are never on together."""
    up, down, both = (case.together(name) for name in ("to_device_ns", "from_device_ns", "both_ways_ns"))
    numbers = {"overlap_ns": both, "up_pct": case.of_span(up), "down_pct": case.of_span(down)}
    least = case.limit("T4", "copy_pct")
    if case.of_span(up) <= least or case.of_span(down) <= least:
        return Clean(
            f"copies to the device take {percent(case.of_span(up))} of the {case.spans}, "
            f"back {percent(case.of_span(down))}",
            numbers,
        )
    could = min(up, down)
    share = 100 * both / could
    if share >= case.limit("T4", "overlap_pct"):
        return Clean(f"{percent(share)} of what could overlap does", numbers)
    return Found(
        f"Copies to the device ({duration(up)}) and back ({duration(down)}) are on together for {duration(both)} only.",
        "Use two streams: the GPU has an engine for each direction.",
        numbers,
        could - both,
        f"what could overlap and does not{case.together_words}",
        *_all_copies(case),
    )


@rule("T12", "peer-copies", Family.TRANSFERS, needs.copies_recorded)
def peer_copies(case: Case) -> Verdict:
    """Copies within or between devices take much time."""
    copies = copies_by_name(case)
    between = copies.filter(copies["name"].cast(pl.String).str.contains(r"(?i)[DPA]to[DPA]|device.*device|peer"))
    taken, share = case.weight(between)
    numbers = {"copy_ns": taken, "copy_pct": share}
    if share <= case.limit("T12", "copy_pct"):
        return Clean(f"copies from device to device take {percent(share)} of the GPU time", numbers)
    first = between.row(0, named=True)
    return Found(
        f"{called(first['name'])} takes {percent(case.share(first['total_ns']))} of GPU time: "
        f"{counted(first['calls'] or 0, 'copy', 'copies')}.",
        "Copy less: no .clone() or .contiguous() where a view does; check the path between GPUs (nvidia-smi topo -m).",
        numbers,
        taken,
        "all of these copies",
        *behind(between, "calls", "total_ns", "line"),
    )
