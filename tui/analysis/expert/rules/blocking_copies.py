"""Copies and sets that keep the CPU waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total, whole
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.rules.waits import ANY_WAIT
from tui.analysis.expert.words import behind, called, counted, largest, named, ranked
from tui.analysis.gpu_time.interval_sets import spans_of
from tui.fmt import duration, percent
from tui.loaders.linking.launches import with_launch

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet


@rule("T7", "pageable-async", Family.TRANSFERS, needs.copies_recorded, needs.api_trace, link=links.NSIGHT)
def pageable_async(case: Case) -> Verdict:
    """Asynchronous copies that block, for their memory is pageable."""
    copies = case.copies
    if copies.is_empty():
        return Clean("there are no copies")
    if not copies["src_memory"].count() + copies["dst_memory"].count():
        return CannotTell("the input does not tell pageable memory from pinned")
    pageable = pl.any_horizontal(
        pl.col(side).cast(pl.String).str.to_lowercase().eq("pageable") for side in ("src_memory", "dst_memory")
    )
    rows = _copy_calls(case, r"(?i)memcpy\w*async").filter(pageable)
    taken = total(rows["duration_ns"])
    numbers = {"copies": rows.height, "copy_ns": taken}
    if rows.is_empty():
        return Clean("no asynchronous copy has pageable memory", numbers)
    by_name = ranked(rows.group_by("name").agg(pl.col("duration_ns").sum()), "duration_ns")
    worst = largest(
        rows, "duration_ns", "activity", "name", "call", "start_ns", "duration_ns", "size_bytes", "src_memory",
        "dst_memory", "line",
    )  # fmt: skip
    small = case.of_span(taken) <= case.limit("T7", "span_pct")
    return Found(
        f"{counted(rows.height, 'asynchronous copy', 'asynchronous copies')} of pageable memory "
        f"{'blocks' if rows.height == 1 else 'block'} like a synchronous one: {duration(taken)}, most of it "
        f"{called(by_name['name'][0])}.",
        "Use pinned memory: pin_memory=True, cudaMallocHost or cudaHostRegister.",
        numbers,
        taken,
        "all of these copies, which could run beside other work",
        worst,
        "kernels",
        named(by_name["name"]),
        Severity.INFO if small else None,
    )


def _copy_calls(case: Case, pattern: str) -> pl.DataFrame:
    """Copies with the name of the call that launched each, where a regular expression finds that."""
    calls = case.calls_named(pattern, "correlation").select("correlation", call="name", call_ns="duration_ns")
    copies = case.copies
    return copies.drop_nulls("correlation").join(
        calls.drop_nulls("correlation").unique("correlation", keep="first", maintain_order=True),
        on="correlation",
        how="inner",
        maintain_order="left",
    )


@rule("T8", "sync-copy", Family.TRANSFERS, needs.gpu_work, needs.api_work, link=links.NSIGHT)
def synchronous_copies(case: Case) -> Verdict:
    """Copies that block the CPU."""
    rows = case.api_named("(?i)memcpy").filter(~pl.col("name").str.contains("(?i)async"))
    taken, calls = total(rows["total_ns"]), total(rows["calls"])
    single = case.calls_named("(?i)memcpy", "pid", "tid")
    single = single.filter(~single["name"].cast(pl.String).str.contains("(?i)async"))
    threads = single.select("pid", "tid").n_unique() if single.height else 0
    if threads:
        # Calls of several threads, and driver calls within runtime calls, are on at the same time.
        blocked = spans_of(single)
        taken = _within_span(case, blocked) if case.span_ns else blocked.length
    of = case.span_ns or case.gpu_ns
    of_what = "span" if case.span_ns else "GPU time"
    share = 100 * taken / of if of else 0.0
    numbers = {"calls": calls, "call_ns": taken, "share_pct": share}
    if share <= case.limit("T8", "span_pct"):
        return Clean(f"blocking copies take {percent(share)} of the {of_what}", numbers)
    first = rows.row(0, named=True)
    return Found(
        f"{called(first['name'])} blocks the CPU: {counted(calls, 'call')}"
        + (f" of {threads} threads, at least one of which is in such a call for " if threads > 1 else ", ")
        + f"{duration(taken)} ({percent(share)} of the {of_what}"
        + ("; calls of all threads are added up)." if not threads and share > 100 else ")."),
        "Copy with pinned memory and asynchronously (cudaMemcpyAsync or hipMemcpyAsync, non_blocking=True), and wait "
        "only where the data is needed.",
        numbers,
        taken,
        f"all time {'of the span ' if threads and case.span_ns else ''}in these calls, which can include waits for "
        "kernels launched before",
        *behind(rows, "calls", "total_ns", "line", view="api-calls"),
    )


def _within_span(case: Case, blocked: IntervalSet) -> int:
    """How much of some time is between the first start and the last end of GPU work, ns."""
    first, last = whole(case.busy["first_ns"].min()), whole(case.busy["last_ns"].max())
    return int(blocked.within(np.array([first]), np.array([last]))[0])


@rule("T9", "sync-memset", Family.TRANSFERS, needs.gpu_work, needs.api_trace, severity=Severity.INFO, link=links.NSIGHT)
def synchronous_sets(case: Case) -> Verdict:
    """Sets of host memory that block the CPU."""
    calls = case.calls_named(r"(?i)memset", "correlation")
    calls = calls.filter(~calls["name"].cast(pl.String).str.contains("(?i)async|setaccess"))
    if calls.is_empty():
        return Clean("there are no blocking calls of memset")
    shown = ("activity", "name", "start_ns", "duration_ns", "size_bytes", "correlation", "dst_memory", "src_memory")
    sets = case.profile["activities"].lazy().filter(pl.col("kind") == "memset").select(shown).collect()
    sets = sets.with_columns(memory=pl.coalesce("dst_memory", "src_memory").cast(pl.String).str.to_lowercase())
    if not sets["memory"].count():
        return CannotTell("the input does not tell what memory was set")
    blocking = sets.filter(pl.col("memory").is_in(["pinned", "managed"])).join(
        calls.select("correlation").drop_nulls().unique(), on="correlation", how="semi", maintain_order="left"
    )
    taken = total(blocking["duration_ns"])
    numbers = {"sets": blocking.height, "set_ns": taken}
    if blocking.is_empty():
        return Clean("no blocking memset is of pinned or managed memory", numbers)
    return Found(
        f"{counted(blocking.height, 'memset')} of pinned or managed memory "
        f"{'block' if blocking.height > 1 else 'blocks'} the CPU for {duration(taken)}.",
        "Use cudaMemsetAsync.",
        numbers,
        taken,
        "all of these sets",
        largest(blocking, "duration_ns", "activity", "name", "start_ns", "duration_ns", "size_bytes", "memory"),
        "kernels",
        "kind=memset",
    )


@rule("T11", "readback-stalls", Family.TRANSFERS, needs.sizes, needs.launches_linked, link=links.ROOT_CAUSES)
def readbacks(case: Case) -> Verdict:
    """Small results are read back and waited for."""
    copies = case.copies.filter(
        pl.col("copy_kind").cast(pl.String) == "DtoH",
        pl.col("size_bytes") <= case.limit("T11", "most_bytes"),
    )
    waits = case.calls_named(ANY_WAIT, "pid", "tid").select("pid", "tid", wait_ns="start_ns", wait_for_ns="duration_ns")
    if copies.is_empty() or waits.is_empty():
        return Clean(f"{counted(copies.height, 'small read-back')}, {counted(waits.height, 'wait')}")
    numbers = copies["correlation"].drop_nulls().unique()
    calls = (
        case.profile["api_calls"]
        .lazy()
        .select("pid", "tid", "start_ns", "correlation")
        .filter(pl.col("correlation").is_in(numbers.implode()))
        .collect()
    )
    launched = with_launch(copies.drop_nulls("correlation"), calls).drop_nulls("launch_ns")
    rows = launched.rename({"launch_pid": "pid", "launch_tid": "tid"}).sort("launch_ns")
    followed = (
        rows.join_asof(
            waits.sort("wait_ns"),
            left_on="launch_ns",
            right_on="wait_ns",
            by=["pid", "tid"],
            strategy="forward",
            check_sortedness=False,
        )
        .filter(pl.col("wait_ns") - pl.col("launch_ns") <= case.limit("T11", "within_ns"))
        .unique("wait_ns", keep="first", maintain_order=True)
    )
    if followed.is_empty():
        return Clean("no small read-back has a wait after it")
    if case.iterations.is_empty():
        return CannotTell(needs.iterations(case))
    taken = total(followed["wait_for_ns"])
    each = followed.height / case.iterations.height
    figures = {"readbacks": followed.height, "per_iteration": each, "wait_ns": taken}
    if each < case.limit("T11", "per_iteration"):
        return Clean(f"{counted(followed.height, 'small read-back')} with a wait after it", figures)
    return Found(
        f"{counted(followed.height, 'small read-back')} ({each:,.1f} an iteration) with a wait right after: the CPU "
        f"waits {duration(taken)} for {'it' if followed.height == 1 else 'them'}.",
        "Do not call .item(), .cpu() or print(loss) in every step: keep results on the device and read them every n "
        "steps.",
        figures,
        taken,
        "all of these waits",
        largest(followed, "wait_for_ns", "activity", "name", "start_ns", "size_bytes", "wait_for_ns", "line"),
        "kernels",
        named(followed["name"].unique(maintain_order=True)),
        Severity.INFO if case.of_span(taken) <= case.limit("T11", "span_pct") else None,
    )
