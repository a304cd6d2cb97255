"""Calls that block the launching thread: synchronization, synchronous copies, garbage collection."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis import needs as data_needs
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    ADVISOR,
    NSIGHT,
    ROOT_CAUSES,
    duration,
    evidence_by_name,
    int_or_zero,
    known_sum,
    label,
    largest_rows,
    name_filter,
    percent,
    sort_by_largest,
    totals_by_name,
)
from tui.analysis.expert.in_use import LAUNCH_CALLS
from tui.analysis.expert.rule import Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.launch_costs import launch_waits
from tui.analysis.expert.rules.one_time_costs import as_start_up, start_up_calls
from tui.analysis.gpu_time.host_calls import SYNCHRONIZING
from tui.analysis.gpu_time.interval_sets import EMPTY, RunningLatestEnd, blocks, row_intervals
from tui.analysis.gpu_time.timelines import classify_values
from tui.correlation.launches import SLACK_NS, add_launch_columns
from tui.text import plural

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet


_PINNED: Final = "cudaMallocHost or cudaHostRegister"
COLLECTIONS: Final = r"(?i)^(?:python\s*)?gc(?:$|\W|\.collect)|garbage"


@rule("A1", "sync-calls", Family.LAUNCHES, needs.gpu_work, needs.api_times, link=ROOT_CAUSES)
def synchronizing_calls(case: Case) -> Verdict:
    """The CPU waits for the GPU in synchronizing calls."""
    rows, thread_rows = case.api_named(SYNCHRONIZING), longest_waits(case)
    threads = thread_rows.height
    longest = row_intervals(thread_rows) if threads else EMPTY
    if threads:
        by_name = totals_by_name(thread_rows, "calls", "duration_ns").rename({"duration_ns": "total_ns"})
        rows = sort_by_largest(by_name.with_columns(pl.col("name").cast(pl.String)), "total_ns")
    wait_ns = longest.length_ns if threads else known_sum(rows["total_ns"])
    share = case.share(wait_ns)
    lost = idle_after_waits(case, longest) if threads and case.span_ns else None
    calls = known_sum(rows["calls"])
    numbers = {"wait_ns": wait_ns, "share_pct": share, "calls": calls, "idle_ns": lost}
    if share > 100 and not threads:
        return NotApplicable(
            f"the totals of several threads add up to {duration(wait_ns)}, more than the GPU time: "
            f"{case.missing.get(data_needs.API_TRACE.name, '').partition(': ')[2]}"
        )
    if share < case.limit("A1", "share_pct") or wait_ns < case.limit("A1", "least_ns"):
        text = f"synchronizing calls take {duration(wait_ns)}, {percent(share)} of GPU time"
        return needs.clean_unless_cut(case, Clean(text, numbers))
    first = rows.row(0, named=True)
    if lost is None and calls < case.limit("A1", "totals_calls"):
        clean_text = f"the CPU waits {duration(wait_ns)} in {plural(calls, 'call')}"
        return Clean(f"{clean_text}, no longer than the GPU works", numbers)
    # Totals do not show whether the GPU was busy meanwhile.
    small = lost is None or 100 * lost <= case.limit("A1", "idle_pct") * case.wall_ns
    if small and lost is not None and 10 * lost <= wait_ns:
        return Clean(
            f"the CPU waits {duration(wait_ns)} in synchronizing calls, but the GPU is busy meanwhile", numbers
        )
    is_linked = not needs.launches_linked(case)
    after = f"after {'it' if calls == 1 else 'them'}{', waiting for launches' if is_linked else ''}"
    idle_sentence = "" if lost is None else f" The GPU is idle for {duration(lost)} {after}."
    idle_sentence += _op_sentence(case, thread_rows)
    share_clause = (
        f"{percent(100 * wait_ns / case.wall_ns)} of the wall time" if case.wall_ns else f"{percent(share)} of GPU time"
    )
    finding = Found(
        f"The CPU waits {duration(wait_ns)} ({share_clause}) in synchronizing calls, mostly "
        f"{label(first['name'])}, {plural(first['calls'] or 0, 'call')}.",
        _wait_less(case, thread_rows)
        + (" Waiting costs nothing while the GPU is busy; totals do not show whether it is." * (lost is None)),
        numbers,
        lost,
        "not estimated: work on the GPU goes on while the CPU waits"
        if lost is None
        else f"the idle time of a GPU {'before late launches' if is_linked else 'right'} after each wait, which is no "
        "longer than the wait itself",
        *evidence_by_name(rows, "calls", "total_ns", "line", view="api-calls"),
        Severity.INFO if small else None,
    )
    if threads:
        finding = as_start_up(case, finding, thread_rows)
    return replace(finding, problem=finding.problem + idle_sentence)


def _op_sentence(case: Case, waits: pl.DataFrame) -> str:
    """Return a sentence that names the innermost op around the longest wait; empty if there is none."""
    if waits.is_empty() or case.profile["ops"].is_empty():
        return ""
    wait = waits.sort("duration_ns", descending=True).row(0, named=True)
    end_ns = pl.col("start_ns") + pl.col("duration_ns")
    ops = case.profile["ops"].filter(
        pl.col("tid") == wait["tid"],
        (pl.col("pid") == wait["pid"]).fill_null(value=True),
        pl.col("start_ns") <= wait["start_ns"],
        end_ns + SLACK_NS >= wait["start_ns"] + wait["duration_ns"],
    )
    return f" The longest wait is in {label(ops.sort('duration_ns')['name'][0])}." if ops.height else ""


def _wait_less(case: Case, waits: pl.DataFrame) -> str:
    """Return how to wait less, by the copies that the waits follow."""
    copies = case.calls_named("(?i)memcpy", "pid", "tid", "correlation").drop_nulls(("tid", "correlation"))
    kinds = case.copies.select("correlation", "copy_kind").unique("correlation", keep="any")
    followed = (
        waits.drop_nulls("tid")
        .select(_process(), "tid", "start_ns", "duration_ns")
        .sort("start_ns")
        .join_asof(
            copies.select(_process(), "tid", "start_ns", "correlation").sort("start_ns"),
            on="start_ns",
            by=["pid", "tid"],
            tolerance=int(case.limit("T11", "within_ns")),
            check_sortedness=False,
        )
        .join(kinds, on="correlation", how="inner")
    )
    to_device = followed.filter(pl.col("copy_kind").cast(pl.String) == "HtoD")
    if 2 * known_sum(to_device["duration_ns"]) > known_sum(waits["duration_ns"]):
        return "The CPU waits mostly after copies to the GPU: " + (
            "create tensors on the GPU, or copy pinned memory with non_blocking=True."
            if case.is_torch
            else "copy pinned memory asynchronously, and do not wait for each copy."
        )
    return "Wait only where results are read, not after every step." + (
        " .item(), .cpu() and print wait too: read results back later." if case.is_torch else ""
    )


def longest_waits(case: Case) -> pl.DataFrame:
    """Return the synchronizing calls of the thread that waits longest, with name, start_ns, duration_ns, pid, tid."""
    calls = case.calls_named(SYNCHRONIZING, "pid", "tid", "line")
    threads = calls.partition_by("pid", "tid", maintain_order=True) if calls.height else [calls]
    return max(threads, key=lambda rows: row_intervals(rows).length_ns)


def idle_after_waits(case: Case, waits: IntervalSet) -> int:
    """Return the GPU idle time that some waits caused, ns, of the most affected GPU.

    While the CPU waits, it launches nothing ahead. Work that is launched late between one wait and the next could have
    been launched earlier by the duration of the wait. If launches are not linked, only the gap in which a wait ends
    counts.
    """
    if needs.launches_linked(case):
        return _idle_right_after(case, waits)
    lost: dict[int | None, npt.NDArray[np.int64]] = {}
    devices, starts = case.profile["activities"]["device"], case.profile["activities"]["start_ns"].to_numpy()
    for block in launch_waits(case):
        wait = np.searchsorted(waits.ends, starts[block.rows], side="right")
        idle_ns = np.bincount(wait, block.late_ns, len(waits.ends) + 1)[1:].astype(np.int64)
        device = devices[int(block.rows[0])]
        lost[device] = lost[device] + idle_ns if device in lost else idle_ns
    waited = waits.ends - waits.starts
    return max((int(np.minimum(waited, idle_ns).sum()) for idle_ns in lost.values()), default=0)


def _idle_right_after(case: Case, waits: IntervalSet) -> int:
    """Return the GPU idle time right after some waits, ns: at most the wait itself, of the most affected GPU."""
    lost = [0]
    for _, gaps in case.device_gaps:
        if not len(gaps.starts):
            continue
        gap_index = np.searchsorted(gaps.starts, waits.ends, side="right") - 1
        index = np.maximum(gap_index, 0)
        inside = (gap_index >= 0) & (waits.ends < gaps.ends[index])
        gap, first = np.unique(index[inside], return_index=True)
        waited = np.add.reduceat((waits.ends - waits.starts)[inside], first) if len(first) else np.zeros(0, np.int64)
        lost.append(int(np.minimum(waited, gaps.lengths_ns[gap]).sum()))
    return max(lost)


@rule("A13", "launch-blocking", Family.LAUNCHES, needs.api_trace, link=ADVISOR)
def launch_blocking(case: Case) -> Verdict:
    """Nearly every launch is followed by a synchronizing call."""
    waiting = case.names("api_calls", SYNCHRONIZING)
    calls = case.profile["api_calls"].select("pid", "tid", "start_ns", "duration_ns", does=pl.Series(_call_flags(case)))
    required = ("start_ns", "duration_ns", "tid")
    if any(calls.select(pl.col(required).null_count()).row(0)):
        calls = calls.drop_nulls(required)
    threads = calls.partition_by("pid", "tid", maintain_order=True) if _several_threads(calls) else [calls]
    launches, followed = (sum(column) for column in zip((0, 0), *map(_count_followed_launches, threads), strict=True))
    if not launches:
        return NotApplicable(
            "threads or times of calls are not recorded"
            if (_call_flags(case) & _LAUNCHES).any()
            else "calls that launch single kernels are not recorded"
        )
    if launches < case.limit("A13", "launches"):
        return NotApplicable(f"only {plural(launches, 'launch', 'launches')} recorded")
    share, max_pct = 100 * followed / launches, case.limit("A13", "launches_pct")
    numbers = {"launches": launches, "followed_pct": share}
    if share <= max_pct:
        return Clean(f"{percent(share)} of launches are followed by a synchronizing call", numbers)
    return Found(
        f"The CPU and the GPU take turns: {percent(share)} of {plural(launches, 'launch is', 'launches are')} "
        "followed by a synchronizing call.",
        "Remove synchronize calls that were added for debugging or timing, and unset CUDA_LAUNCH_BLOCKING if it is "
        "set.",
        numbers,
        idle_after_waits(case, row_intervals(case.calls_named(SYNCHRONIZING))) if case.span_ns else None,
        "the idle time of a GPU after these calls, which is no longer than the calls",
        view="api-calls",
        filter=name_filter(waiting),
    )


_LAUNCHES, _WAITS = 1, 2
"""Flags of what a call does; a call can do both."""


def _call_flags(case: Case) -> npt.NDArray[np.int8]:
    """Return flags for what each API call does, by its name: launch, wait or both."""

    def name_flags(names: pl.Series) -> npt.NDArray[np.int8]:
        patterns = ((_LAUNCHES, LAUNCH_CALLS), (_WAITS, SYNCHRONIZING))
        flags = [(names.str.contains(pattern) & (names != "")).cast(pl.Int8) * flag for flag, pattern in patterns]
        return (flags[0] + flags[1]).to_numpy()

    return classify_values(case.profile["api_calls"]["name"], name_flags)


def _several_threads(calls: pl.DataFrame) -> bool:
    """Return whether calls come from several threads, so that grouping them is worth the time."""
    unnamed, *differ = calls.select(
        pl.col("pid").null_count() > 0,
        *((pl.col(name).min() != pl.col(name).max()).alias(f"{name}s") for name in ("pid", "tid")),
    ).row(0)
    return bool(unnamed) or any(differ)


def _count_followed_launches(calls: pl.DataFrame) -> tuple[int, int]:
    """Return the number of launches, and how many of them are followed by a wait on the same thread."""
    if not calls["start_ns"].is_sorted():
        calls = calls.sort("start_ns", maintain_order=True)
    starts, lengths, flags = (calls[name].to_numpy() for name in ("start_ns", "duration_ns", "does"))
    latest_end = RunningLatestEnd()
    launches = followed = 0
    last = np.zeros(1, np.bool_)
    for block in blocks(len(starts)):
        previous_ends, _ = latest_end.latest_before(starts[block] + lengths[block])
        # A driver call nested in a runtime call is not the next call.
        outer = starts[block] >= previous_ends
        outer_flags = flags[block][outer]
        launching = np.concatenate((last, outer_flags & _LAUNCHES != 0))
        launches += int(launching[1:].sum())
        followed += int((launching[:-1] & (outer_flags & _WAITS != 0)).sum())
        last = launching[-1:]
    return launches, followed


@rule("A14", "garbage-collection", Family.LAUNCHES, needs.ops_or_ranges, link=ADVISOR)
def garbage_collection(case: Case) -> Verdict:
    """Python collects garbage while the GPU waits."""
    shown = ("name", "start_ns", "duration_ns", "line")
    # Ops that were made from NVTX ranges are recorded as ranges, too.
    ops = case.rows_named("ops", COLLECTIONS, *shown, "op_source").filter(pl.col("op_source").ne_missing("nvtx"))
    rows = pl.concat([case.rows_named("ranges", COLLECTIONS, *shown), ops.select(shown)])
    if rows.is_empty():
        return NotApplicable("garbage collection is not recorded: mark it with ranges (gc.callbacks)")
    long_runs = rows.filter(pl.col("duration_ns") >= case.limit("A14", "least_ns"))
    if long_runs.is_empty():
        return Clean(f"no garbage collection takes {duration(case.limit('A14', 'least_ns'))} or more")
    total_ns, worst = known_sum(long_runs["duration_ns"]), largest_rows(long_runs, "duration_ns", *shown)
    return Found(
        f"Python's garbage collector takes {duration(total_ns)} in {plural(long_runs.height, 'collection')}; the "
        "longest "
        f"takes {duration(worst['duration_ns'][0])}.",
        "Call gc.freeze() after set-up, and collect between steps (gc.disable, gc.collect).",
        {"collections": long_runs.height, "collect_ns": total_ns},
        total_ns,
        "all of these collections",
        worst,
        "ranges",
        name_filter(long_runs["name"].unique(maintain_order=True)),
    )


@rule("T7", "pageable-async", Family.TRANSFERS, needs.copies_recorded, needs.api_trace, link=NSIGHT)
def pageable_async(case: Case) -> Verdict:
    """Asynchronous copies of pageable memory block the CPU."""
    copies = case.copies
    if copies.is_empty():
        return Clean("there are no copies")
    if not copies["src_memory"].count() + copies["dst_memory"].count():
        return NotApplicable("pageable or pinned memory is not recorded")
    pageable = pl.any_horizontal(
        pl.col(column).cast(pl.String).str.to_lowercase().eq("pageable") for column in ("src_memory", "dst_memory")
    )
    asynchronous = _copy_calls(case, r"(?i)memcpy\w*async").with_columns(is_pageable=pageable)
    rows = asynchronous.filter("is_pageable")
    total_ns = known_sum(rows["duration_ns"])
    numbers = {"copies": rows.height, "copy_ns": total_ns}
    if rows.is_empty():
        if asynchronous.is_empty() and _copy_calls(case, "").is_empty():
            return NotApplicable("the calls that launched the copies are not recorded")
        if asynchronous["is_pageable"].null_count():
            return NotApplicable("pageable or pinned memory is not recorded")
        return Clean("no asynchronous copy has pageable memory", numbers)
    by_name = sort_by_largest(rows.group_by("name").agg(pl.col("duration_ns").sum()), "duration_ns")
    worst = largest_rows(
        rows, "duration_ns", "activity", "name", "call", "start_ns", "duration_ns", "size_bytes", "src_memory",
        "dst_memory", "line",
    )  # fmt: skip
    small = case.wall_pct(total_ns) <= case.limit("T7", "span_pct")
    finding = Found(
        f"{plural(rows.height, 'asynchronous copy', 'asynchronous copies')} of pageable memory "
        f"{'blocks' if rows.height == 1 else 'block'} the CPU; on the GPU "
        f"{'it takes' if rows.height == 1 else 'they take'} {duration(total_ns)}"
        f"{': ' if by_name.height == 1 else ', mostly '}{label(by_name['name'][0])}.",
        f"Use pinned memory: {'pin_memory=True of the DataLoader, or .pin_memory()' if case.is_torch else _PINNED}.",
        numbers,
        total_ns,
        "all of these copies, which could overlap with other work",
        worst,
        "kernels",
        name_filter(by_name["name"]),
        Severity.INFO if small else None,
        is_summed_over_gpus=True,
    )
    return as_start_up(case, finding, rows)


def _copy_calls(case: Case, pattern: str) -> pl.DataFrame:
    """Return copies with the name of their launching call, where that matches a regular expression."""
    calls = case.calls_named(pattern, "correlation").select("correlation", call="name")
    copies = case.copies
    return copies.drop_nulls("correlation").join(
        calls.drop_nulls("correlation").unique("correlation", keep="first", maintain_order=True),
        on="correlation",
        how="inner",
        maintain_order="left",
    )


@rule("T8", "sync-copy", Family.TRANSFERS, needs.gpu_work, needs.api_times, link=NSIGHT)
def synchronous_copies(case: Case) -> Verdict:
    """Synchronous copies block the CPU."""
    starting = start_up_calls(case)["name"]
    rows = case.api_named("(?i)memcpy").filter(
        ~pl.col("name").str.contains("(?i)async"), ~pl.col("name").is_in(starting.implode())
    )
    blocked_ns, calls = known_sum(rows["total_ns"]), known_sum(rows["calls"])
    single = case.calls_named("(?i)memcpy", "pid", "tid")
    single = single.filter(pl.col("name").cast(pl.String).is_in(rows["name"].implode()))
    threads = single.select("pid", "tid").n_unique() if single.height else 0
    kernel_wait_ns, period = 0, ""
    if threads:
        # Calls of several threads, and driver calls within runtime calls, are on at the same time.
        blocked = row_intervals(single)
        blocked_ns = _within_span(case, blocked) if case.span_ns else blocked.length_ns
        if 10 * blocked_ns < 9 * blocked.length_ns:
            period = " between the first and the last GPU work"
        # A call waits for kernels launched before it: that time is theirs.
        kernel_wait_ns = (blocked & _computing(case)).length_ns
    share = 100 * blocked_ns / case.cost_basis_ns
    numbers = {"calls": calls, "call_ns": blocked_ns, "share_pct": share}
    if share <= case.limit("T8", "span_pct"):
        text = f"blocking copies take {percent(share)} of the {case.cost_basis_text}"
        return needs.clean_unless_cut(case, Clean(text, numbers))
    cost = max(0, blocked_ns - (kernel_wait_ns if threads else case.kernel_ns))
    if 100 * cost / case.cost_basis_ns <= case.limit("T8", "span_pct"):
        return Clean(f"blocking copies wait for kernels: {duration(cost)} without any", numbers)
    first = rows.row(0, named=True)
    subject = (
        f"{label(first['name'])} blocks"
        if rows.height == 1
        else f"Synchronous copies, mostly {label(first['name'])}, block"
    )
    waits = f"; kernels run during {duration(kernel_wait_ns)} of it" if kernel_wait_ns else ""
    if not threads and 10 * (blocked_ns - cost) >= blocked_ns:
        waits = f"; up to {duration(blocked_ns - cost)} of it can be waits for kernels"
    return Found(
        f"{subject} the CPU for {duration(blocked_ns)} ({percent(share)} of the {case.cost_basis_text}) in "
        f"{plural(calls, 'call')}" + (f" of {threads} threads" if threads > 1 else "") + f"{period}{waits}.",
        _block_less(case, str(first["name"]), blocked_ns / max(calls, 1)),
        numbers,
        cost,
        "the time in these calls in which no kernel ran"
        if threads
        else "all time in these calls, without the time of kernels, for which they can wait",
        *evidence_by_name(rows, "calls", "total_ns", "line", view="api-calls"),
    )


def _block_less(case: Case, call: str, each_ns: float) -> str:
    """Return advice about blocking copies: short ones are too many, long ones move much data."""
    if each_ns < case.limit("T1", "short_ns"):
        return "Use fewer copies: pack small ones into one, keep values on the device, and read results back once."
    return f"Copy asynchronously from pinned memory{_asynchronous(case, call)}. Wait only where data is needed."


def _asynchronous(case: Case, call: str) -> str:
    """Return the asynchronous replacement of a call, in parentheses; empty if unknown."""
    if case.is_torch:
        return " (non_blocking=True)"
    return f" ({call.removesuffix('_v2')}Async)" if re.match("(?:cuda|cu|hip)Memcpy", call) else ""


def _computing(case: Case) -> IntervalSet:
    """Return when a kernel ran on any GPU."""
    rows = case.profile["activities"]
    kernels = rows.select("start_ns", "duration_ns").filter(pl.Series(case.is_kernel_timed))
    return row_intervals(kernels)


def _within_span(case: Case, blocked: IntervalSet) -> int:
    """Return the part of some time between the first start and the last end of GPU work, ns."""
    first, last = int_or_zero(case.busy["first_ns"].min()), int_or_zero(case.busy["last_ns"].max())
    return int(blocked.covered_within(np.array([first]), np.array([last]))[0])


@rule(
    "T9",
    "sync-memset",
    Family.TRANSFERS,
    needs.gpu_work,
    needs.api_trace,
    severity=Severity.INFO,
    link=NSIGHT,
)
def synchronous_sets(case: Case) -> Verdict:
    """Memsets of host memory block the CPU."""
    calls = case.calls_named(r"(?i)memset", "correlation")
    calls = calls.filter(~calls["name"].cast(pl.String).str.contains("(?i)async|setaccess"))
    if calls.is_empty():
        return Clean("there are no blocking calls of memset")
    shown = ("activity", "name", "start_ns", "duration_ns", "size_bytes", "correlation", "dst_memory", "src_memory")
    sets = case.profile["activities"].lazy().filter(pl.col("kind") == "memset").select(shown).collect()
    sets = sets.with_columns(memory=pl.coalesce("dst_memory", "src_memory").cast(pl.String).str.to_lowercase())
    if not sets["memory"].count():
        return NotApplicable("the kind of memory that was set is not recorded")
    launched = sets.join(
        calls.select("correlation").drop_nulls().unique(), on="correlation", how="semi", maintain_order="left"
    )
    if launched.is_empty():
        return NotApplicable("the memsets of blocking calls are not recorded")
    blocking = launched.filter(pl.col("memory").is_in(["pinned", "managed"]))
    total_ns = known_sum(blocking["duration_ns"])
    numbers = {"sets": blocking.height, "set_ns": total_ns}
    if blocking.is_empty():
        return Clean("no blocking memset is of pinned or managed memory", numbers)
    return Found(
        f"{plural(blocking.height, 'memset')} of pinned or managed memory "
        + (
            f"block the CPU; on the GPU they take {duration(total_ns)}."
            if blocking.height > 1
            else f"blocks the CPU; on the GPU it takes {duration(total_ns)}."
        ),
        "Use cudaMemsetAsync.",
        numbers,
        total_ns,
        "all of these memsets",
        largest_rows(blocking, "duration_ns", "activity", "name", "start_ns", "duration_ns", "size_bytes", "memory"),
        "kernels",
        "kind=memset",
        is_summed_over_gpus=True,
    )


def _process() -> pl.Expr:
    """Return ``pid``; -1 if it is not recorded, so that calls of one thread match."""
    return pl.col("pid").fill_null(-1)


@rule(
    "T11",
    "readback-stalls",
    Family.TRANSFERS,
    needs.sizes,
    needs.copy_directions,
    needs.launches_linked,
    link=ROOT_CAUSES,
)
def readbacks(case: Case) -> Verdict:
    """Small results are copied back and waited for."""
    copies = case.copies.filter(
        pl.col("copy_kind").cast(pl.String) == "DtoH",
        pl.col("size_bytes") <= case.limit("T11", "most_bytes"),
    )
    waits = case.calls_named(SYNCHRONIZING, "pid", "tid").select(
        "pid", "tid", wait_ns="start_ns", wait_for_ns="duration_ns"
    )
    if copies.is_empty() or waits.is_empty():
        return Clean(f"{plural(copies.height, 'small read-back')}, {plural(waits.height, 'wait')}")
    numbers = copies["correlation"].drop_nulls().unique()
    calls = (
        case.profile["api_calls"]
        .lazy()
        .select("pid", "tid", "start_ns", "correlation")
        .filter(pl.col("correlation").is_in(numbers.implode()))
        .collect()
    )
    launched = add_launch_columns(copies.drop_nulls("correlation"), calls).drop_nulls("launch_ns")
    rows = launched.rename({"launch_pid": "pid", "launch_tid": "tid"}).drop_nulls("tid").sort("launch_ns")
    waits = waits.drop_nulls("tid")
    if rows.is_empty() or waits.is_empty():
        return NotApplicable("the calls of the read-backs, or their threads, are not recorded")
    followed = (
        rows.with_columns(_process())
        .join_asof(
            waits.with_columns(_process()).sort("wait_ns"),
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
        return Clean("no small read-back is waited for")
    if case.iterations.is_empty():
        return NotApplicable(needs.iterations(case))
    wait_ns = known_sum(followed["wait_for_ns"])
    waits_per_iteration = followed.height / case.iterations.height
    figures = {"readbacks": followed.height, "per_iteration": waits_per_iteration, "wait_ns": wait_ns}
    if waits_per_iteration < case.limit("T11", "per_iteration"):
        return Clean(f"{plural(followed.height, 'small read-back')} waited for", figures)
    return Found(
        f"The CPU waits {duration(wait_ns)} for {plural(followed.height, 'small read-back')} "
        f"({f'{waits_per_iteration:,.1f}'.removesuffix('.0')} per iteration).",
        ("Avoid .item(), .cpu() and print(loss) in every step. " if case.is_torch else "")
        + "Keep results on the device and read them every n steps.",
        figures,
        wait_ns,
        "all of these waits",
        largest_rows(followed, "wait_for_ns", "activity", "name", "start_ns", "size_bytes", "wait_for_ns", "line"),
        "kernels",
        name_filter(followed["name"].unique(maintain_order=True)),
        Severity.INFO if 100 * wait_ns <= case.limit("T11", "span_pct") * case.wall_ns else None,
    )
