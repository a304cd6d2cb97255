"""Waits, calls and launches: what the CPU spends before the GPU can begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import needs
from tui.analysis.expert.case import parts_of
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.transfers import RATELPROF, TRACELENS
from tui.analysis.expert.utilisation import ADVISOR, HTA, ROOT_CAUSES, VISUAL_PROFILER
from tui.analysis.expert.words import called, counted, largest, named, rounded
from tui.analysis.gpu_time.interval_sets import union_of
from tui.analysis.grouping import distinct
from tui.analysis.inputs import needs as held
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

LAUNCHES: Final = Family.LAUNCHES

WAITS: Final = r"(?i)(?:device|stream|event|ctx|thread)_?synchronize"
LAUNCH_CALLS: Final = r"(?i)launch(?:kernel|cooperative|grid|_?bykernel)|modulelaunch|cudaLaunch(?:_|$|Kernel)"
ALLOCATIONS: Final = r"(?i)^(?:cuda|cu|hip)_?(?:host)?_?(?:mem)?_?(?:malloc|alloc|free)"
LOADING: Final = r"(?i)moduleload|libraryload|nvrtc|linkcomplete|hiprtc"
STARTING: Final = (
    r"(?i)^(?:cuda|cu|hip)(?:free|malloc|streamcreate|memgetinfo|setdevice|devicegetattribute|ctxcreate|getdevice)"
)
_GPU_BOUND_PCT: Final = 90.0
"""A program waits for a GPU that always has work because there is nothing better to do."""


@rule("A1", "sync-calls", LAUNCHES, needs.gpu_work, needs.api_work, link=ROOT_CAUSES)
def waits(case: Case) -> Verdict:
    """The CPU waits for the GPU in synchronizing calls."""
    rows = case.api_named(WAITS)
    taken = total(rows["total_ns"])
    single = case.calls_named(WAITS)
    if single.height:
        threads = [
            union_of(start := part["start_ns"].to_numpy(), start + part["duration_ns"].to_numpy()).length
            for part in single.partition_by("pid", "tid")
        ]
        taken = max(threads)
    share = case.share(taken)
    numbers = {"wait_ns": taken, "share_pct": share, "calls": total(rows["calls"])}
    if share > 100 and not single.height:
        return CannotTell(
            f"the calls add up to {duration(taken)}, more than the GPU time: several threads wait, and the input "
            f"holds "
            f"totals alone: {case.lacks.get(held.API_TRACE.name, '').partition(': ')[2]}"
        )
    if share < case.limit("A1", "share_pct") or taken < case.limit("A1", "least_ns"):
        return Clean(f"waits take {duration(taken)}, {percent(share)} of the GPU time", numbers)
    first = rows.row(0, named=True)
    busy = 100 - case.of_span(case.span_of_all_ns - total(case.busy["busy_ns"])) if case.span_ns else 0.0
    bound = busy >= _GPU_BOUND_PCT
    return Found(
        f"{called(first['name'])} and the like keep {'a thread' if single.height else 'the CPU'} waiting for "
        f"{duration(taken)}, {percent(share)} of the GPU time: {counted(first['calls'] or 0, 'call')}"
        + (f" of the first. The GPU is {percent(busy)} busy: it is what is waited for." if bound else " of the first."),
        "Nothing is lost while the GPU has work; shorten its kernels."
        if bound
        else "Wait with events and stream waits instead; .item(), .cpu() and print wait too: read results back later.",
        numbers,
        taken,
        "all waits of the thread that waits longest; work on the GPU goes on in the meantime",
        rows.select("name", "calls", "total_ns", "line"),
        "api-calls",
        named(rows["name"].to_list()),
        Severity.INFO if bound else None,
    )


@rule("A2", "short-kernels", LAUNCHES, needs.gpu_work, needs.kernels, link=TRACELENS)
def short_kernels(case: Case) -> Verdict:
    """Most kernels are too short."""
    short = case.limit("A2", "short_ns")
    if case.profile["activities"].height:
        brief = pl.col("duration_ns") < short
        rows = (
            case.profile["activities"]
            .lazy()
            .group_by("name", "kind")
            .agg(
                pl.col("duration_ns").count().cast(pl.Int64).alias("all"),
                brief.sum().cast(pl.Int64).alias("launches"),
                pl.col("duration_ns").filter(brief).sum().alias("total_ns"),
            )
            .filter(pl.col("kind") == "kernel")
            .collect()
        )
        launches, number, taken, how = total(rows["all"]), total(rows["launches"]), total(rows["total_ns"]), ""
        by = (
            rows.filter(pl.col("launches") > 0)
            .select("name", "launches", "total_ns")
            .sort("launches", "total_ns", descending=True)
        )
    else:
        rows = case.kernels.drop_nulls("calls")
        launches = total(rows["calls"])
        few = rows.filter(pl.col("avg_ns") < short)
        number, taken, how = total(few["calls"]), total(few["total_ns"]), " on average"
        by = few.select("name", pl.col("calls").alias("launches"), "total_ns").sort("launches", descending=True)
    if not launches:
        return CannotTell("the input does not say how often kernels ran")
    share, of_time = 100 * number / launches, case.share(taken)
    idle = case.of_span(total(case.busy["idle_ns"])) if case.span_ns else None
    numbers = {"short": number, "launches": launches, "short_pct": share, "time_pct": of_time, "idle_pct": idle}
    matters = case.limit("A2", "time_pct")
    if share <= case.limit("A2", "launches_pct") or (of_time <= matters and (idle is None or idle <= matters)):
        return Clean(
            f"{percent(share)} of {counted(launches, 'launch', 'launches')} take less than {rounded(short)}{how}: "
            f"{percent(of_time)} of the GPU time",
            numbers,
        )
    return Found(
        f"{number:,} of {counted(launches, 'launch', 'launches')} ({percent(share)}) take less than "
        f"{duration(short)}{how}: "
        f"{percent(of_time)} of the GPU time; most often {called(by['name'][0])}.",
        "Fuse them (torch.compile, foreach optimizers), replay them as a CUDA graph, or give each more work.",
        numbers,
        total(case.busy["idle_ns"]) if case.span_ns else None,
        "all idle time between them" if case.span_ns else "not estimated: the input has no start times",
        by.head(10),
        "kernels",
        named(by["name"].head(10).to_list()),
    )


@rule("A3", "launch-bound", LAUNCHES, needs.launches_linked, link=HTA)
def launch_bound(case: Case) -> Verdict:
    """Launching takes longer than running."""
    rows = case.launched.filter(pl.col("is_kernel"), pl.col("call_end_ns").is_not_null()).with_columns(
        (pl.col("call_end_ns") - pl.col("launch_ns")).alias("call_ns")
    )
    if rows.is_empty():
        return CannotTell("no launching call has a duration")
    bound = rows.filter(pl.col("duration_ns") < pl.col("call_ns"))
    share = 100 * bound.height / rows.height
    numbers = {"launches": rows.height, "bound": bound.height, "bound_pct": share}
    if share <= case.limit("A3", "launches_pct"):
        return Clean(f"of {percent(share)} of the launches the call takes longer than the kernel", numbers)
    by = bound.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("launches"), pl.col("duration_ns").mean().alias("kernel_ns"),
        pl.col("call_ns").mean(),
    ).sort("launches", descending=True)  # fmt: skip
    lost = total(bound["call_ns"] - bound["duration_ns"])
    return Found(
        f"{bound.height:,} of {counted(rows.height, 'launch', 'launches')} ({percent(share)}) take the CPU longer "
        f"than their "
        f"kernel runs; most often {called(by['name'][0])}.",
        "The GPU cannot be kept busy so: CUDA graphs launch many kernels at once, fusing needs fewer of them.",
        numbers,
        lost,
        "what these calls take longer than their kernels",
        by.head(10),
        "kernels",
        named(by["name"].head(10).to_list()),
    )


@rule("A4", "slow-launches", LAUNCHES, needs.api_trace, link=HTA)
def slow_launches(case: Case) -> Verdict:
    """Some launch calls take very long."""
    calls = case.calls_named(LAUNCH_CALLS)
    if calls.is_empty():
        return CannotTell("no launch calls are recorded")
    slow = calls.filter(pl.col("duration_ns") > case.limit("A4", "call_ns"))
    share, taken = 100 * slow.height / calls.height, total(slow["duration_ns"])
    numbers = {"slow": slow.height, "calls": calls.height, "slow_pct": share, "slow_ns": taken}
    if share <= case.limit("A4", "calls_pct"):
        return Clean(
            f"{percent(share)} of {counted(calls.height, 'launch call takes', 'launch calls take')} longer than "
                     f"{rounded(case.limit('A4', 'call_ns'))}", numbers)  # fmt: skip
    worst = largest(slow, "duration_ns", "name", "start_ns", "duration_ns", "tid", "line")
    return Found(
        f"{slow.height:,} of {counted(calls.height, 'launch call', 'launch calls')} ({percent(share)}) take longer "
        f"than "
        f"{rounded(case.limit('A4', 'call_ns'))}, the longest {duration(worst['duration_ns'][0])}.",
        "The first launch of a kernel loads it: warm up. Else look for a full queue, locks, or little memory.",
        numbers,
        taken,
        "all of these calls",
        worst,
        "api-calls",
        named(slow["name"].unique().to_list()),
    )


@rule("A5", "launch-delay", LAUNCHES, needs.launches_linked, link=HTA)
def launch_delay(case: Case) -> Verdict:
    """Kernels start late on an idle GPU."""
    least = case.limit("A5", "delay_ns")
    late, number = [], 0
    for part in parts_of(case.launched, "device"):
        number += int((part["is_kernel"] & part["call_end_ns"].is_not_null()).sum())
        before = pl.col("end_ns").cum_max().shift(1).fill_null(pl.col("start_ns").min())
        ready = pl.max_horizontal("call_end_ns", before)
        late.append(
            part.lazy()
            .with_columns((pl.col("start_ns") - ready).alias("late_ns"))
            .filter(pl.col("late_ns") > least, pl.col("is_kernel"), pl.col("call_end_ns").is_not_null())
            .collect()
        )
    rows = pl.concat(late)
    if not number:
        return CannotTell("no launching call has a duration")
    share, taken = 100 * rows.height / number, total(rows["late_ns"])
    numbers = {"late": rows.height, "launches": number, "late_pct": share, "late_ns": taken}
    if share <= case.limit("A5", "launches_pct"):
        return Clean(
            f"{percent(share)} of the kernels start more than {rounded(least)} after both their call and the work "
                     "before them", numbers)  # fmt: skip
    worst = largest(rows, "late_ns", "activity", "name", "start_ns", "late_ns", "stream", "line")
    return Found(
        f"{rows.height:,} of {counted(number, 'kernel')} ({percent(share)}) start more than {rounded(least)} after "
        f"their "
        f"call ended, on an idle GPU; the latest {called(worst['name'][0])}, by {duration(worst['late_ns'][0])}.",
        "They wait for something that is not GPU work here: another stream or process, an event, or a lower priority.",
        numbers,
        taken,
        "all of these delays",
        worst,
        "kernels",
        named(worst["name"].to_list()),
    )


@rule("A6", "queue-full", LAUNCHES, needs.launches_linked, needs.streams, severity=Severity.INFO, link=HTA)
def full_queue(case: Case) -> Verdict:
    """A stream's queue is full."""
    most, where = 0, None
    for part in parts_of(case.launched.select("device", "stream", "launch_ns", "start_ns"), "device", "stream"):
        launch = np.sort(part["launch_ns"].to_numpy())
        waiting = np.arange(1, len(launch) + 1) - np.searchsorted(np.sort(part["start_ns"].to_numpy()), launch, "right")
        if len(waiting) and int(waiting.max()) > most:
            most, where = int(waiting.max()), part.row(0, named=True)
    numbers = {"waiting": most}
    if most < case.limit("A6", "waiting") or where is None:
        return Clean(f"at most {counted(most, 'launch waits', 'launches wait')} in a stream", numbers)
    return Found(
        f"Up to {most:,} launches wait in stream {where['stream']}: the CPU is far ahead of the GPU.",
        "Nothing is to be done on the CPU: the GPU is what limits; shorten its work.",
        numbers,
        None,
        "none: the GPU always has work then",
        view="api-calls",
    )


@rule("A7", "mergeable", LAUNCHES, needs.start_times, needs.kernels, severity=Severity.INFO, link=RATELPROF)
def mergeable(case: Case) -> Verdict:
    """One short kernel runs many times in a row."""
    short, least = case.limit("A7", "short_ns"), int(case.limit("A7", "run"))
    computing = pl.col("is_kernel") & ~pl.col("is_communication")
    parts = [
        _runs(part, short, least) for part in parts_of(case.timed.filter(computing), "device", "stream") if part.height
    ]
    if not parts:
        return CannotTell("no kernels that compute ran")
    runs = pl.concat(parts)
    taken = total(runs["duration_ns"])
    share = case.share(taken)
    numbers = {"runs": runs.height, "launches": total(runs["launches"]), "time_ns": taken, "time_pct": share}
    if share <= case.limit("A7", "time_pct"):
        return Clean(f"runs of one short kernel take {percent(share)} of the GPU time", numbers)
    by = runs.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("runs"), pl.col("launches", "duration_ns").sum(), pl.col("line").min()
    ).sort("duration_ns", descending=True)  # fmt: skip
    first = by.row(0, named=True)
    idle = total(runs["run_ns"] - runs["duration_ns"])
    return Found(
        f"{called(first['name'])} runs {first['launches'] / first['runs']:.0f} times in a row "
        f"({counted(first['runs'], 'such run')}); all runs of one short kernel take {percent(share)} of the GPU "
        f"time.",
        "Do it in one launch: batched or grouped GEMM, foreach and fused optimizers, one kernel over a list of "
        "tensors.",
        numbers,
        max(idle, 0),
        "the time between the launches of these runs",
        by.head(10),
        "kernels",
        named(by["name"].head(10).to_list()),
    )


def _runs(rows: pl.DataFrame, short: float, least: int) -> pl.DataFrame:
    """Runs of one short kernel in a stream: name, launches, duration_ns, run_ns (begin to end), line."""
    names = rows["name"].to_physical().to_numpy()
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    took = end - start
    begins = (names[1:] != names[:-1]) | (start[1:] - end[:-1] >= short) | (took[1:] >= short) | (took[:-1] >= short)
    first = np.concatenate(([0], np.flatnonzero(begins) + 1))
    last = np.append(first[1:], rows.height) - 1
    long = last - first + 1 >= least
    sums = np.concatenate(([0], np.cumsum(took)))
    first, last = first[long], last[long]
    return pl.DataFrame(
        {
            "name": rows["name"].gather(pl.Series(first)),
            "launches": last - first + 1,
            "duration_ns": sums[last + 1] - sums[first],
            "run_ns": end[last] - start[first],
            "line": rows["line"].gather(pl.Series(first)),
        }
    )


@rule("A8", "malloc-in-loop", LAUNCHES, needs.api_trace, needs.recorded_iterations, link=HTA)
def allocation_in_loop(case: Case) -> Verdict:
    """Memory is allocated in the loop."""
    steps = case.iterations
    if steps.height < 2:
        return CannotTell("there is one iteration only: the first one may allocate")
    begin, end = steps["start_ns"][1], int((steps["start_ns"] + steps["duration_ns"]).max())  # type: ignore[arg-type]
    calls = case.calls_named(ALLOCATIONS).filter(pl.col("start_ns").is_between(begin, end))
    taken, span = total(calls["duration_ns"]), end - begin
    share = 100 * taken / span if span else 0.0
    each = calls.height / (steps.height - 1)
    numbers = {"calls": calls.height, "per_iteration": each, "call_ns": taken, "share_pct": share}
    too_long = share > case.limit("A8", "span_pct") or taken > case.limit("A8", "total_ns")
    if each < 1 or not too_long:
        return Clean(
            f"{counted(calls.height, 'call')} after the first iteration, {percent(share)} of the time", numbers
        )
    by = calls.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("calls"), pl.col("duration_ns").sum(), pl.col("line").min()
    ).sort("duration_ns", descending=True)  # fmt: skip
    return Found(
        f"{counted(each, 'call')} an iteration allocate or free GPU memory: {duration(taken)} after the first "
        f"iteration "
        f"({percent(share)} of it), most in {called(by['name'][0])}.",
        "Allocate once before the loop, or use a caching allocator (cudaMallocAsync, PyTorch's own).",
        numbers,
        taken,
        "all of these calls",
        by,
        "api-calls",
        named(by["name"].to_list()),
    )


@rule("A9", "module-load", LAUNCHES, needs.gpu_work, needs.api_work, link=ROOT_CAUSES)
def loading(case: Case) -> Verdict:
    """Kernels are loaded or compiled while the run is measured."""
    rows = case.api_named(LOADING)
    taken, whole = total(rows["total_ns"]), case.span_ns or case.gpu_ns
    of_what = "span" if case.span_ns else "GPU time"
    if case.span_ns and rows.height:
        first, last = case.timed["start_ns"].min(), case.timed["end_ns"].max()
        single = case.calls_named(LOADING).filter(pl.col("start_ns").is_between(first, last))
        if case.profile["api_calls"].height:
            taken = total(single["duration_ns"])
    share = 100 * taken / whole if whole else 0.0
    numbers = {"load_ns": taken, "share_pct": share}
    if share <= case.limit("A9", "span_pct"):
        return Clean(f"loading and compiling take {percent(share)} of the {of_what}", numbers)
    return Found(
        f"{called(rows['name'][0])} and the like load or compile kernels for {duration(taken)}: "
        f"{percent(share)} of the {of_what}.",
        "Warm up before you measure, or leave the first iterations out; CUDA_MODULE_LOADING=EAGER loads at the start.",
        numbers,
        taken,
        "all of these calls",
        rows.select("name", "calls", "total_ns", "line"),
        "api-calls",
        named(rows["name"].to_list()),
    )


@rule("A10", "start-up", LAUNCHES, needs.api_work, severity=Severity.INFO)
def start_up(case: Case) -> Verdict:
    """Start-up stands first in the table of API calls."""
    rows = case.api.drop_nulls(["total_ns", "max_ns", "calls"])
    if rows.is_empty() or not case.api_ns:
        return CannotTell("the API calls have no durations")
    heavy = rows.with_columns((100 * pl.col("total_ns") / case.api_ns).alias("api_pct")).filter(
        pl.col("name").str.contains(STARTING),
        pl.col("api_pct") > case.limit("A10", "api_pct"),
        pl.col("calls") <= case.limit("A10", "calls"),
        (pl.col("max_ns") * pl.col("calls") >= case.limit("A10", "max_per_avg") * pl.col("total_ns"))
        | (pl.col("calls") == 1),
    )
    if heavy.is_empty():
        return Clean("no call that is made once at the start takes much of the API time")
    first = heavy.row(0, named=True)
    return Found(
        f"{called(first['name'])} takes {percent(first['api_pct'])} of the API time in "
        f"{counted(first['calls'], 'call')}, the longest {duration(first['max_ns'])}: that is CUDA starting up.",
        "It is paid once and is no cost of the loop: leave it out of what you compare.",
        {"api_pct": first["api_pct"], "calls": first["calls"], "max_ns": first["max_ns"]},
        total(heavy["max_ns"]),
        "the longest call of each; it is paid once",
        heavy.select("name", "calls", "total_ns", "max_ns", "api_pct", "line"),
        "api-calls",
        named(heavy["name"].to_list()),
    )


@rule("A11", "one-stream", LAUNCHES, needs.streams, severity=Severity.INFO, link=VISUAL_PROFILER)
def one_stream(case: Case) -> Verdict:
    """All work is in one stream."""
    used = distinct(case.timed, ["device", "stream", "is_kernel"]).filter("is_kernel")
    by = used.group_by("device").agg(pl.len().alias("streams"))
    alone = by.filter(pl.col("streams") == 1)
    exposed = [rule for rule in ("T2", "C2") if case.found(rule)]
    numbers = {"gpus": by.height, "one_stream": alone.height}
    if alone.is_empty():
        return Clean("kernels run in several streams of every GPU", numbers)
    if not exposed:
        return Clean("kernels run in one stream, and nothing waits that another stream could hide", numbers)
    what = " and ".join({"T2": "copies", "C2": "communication"}[rule] for rule in exposed)
    return Found(
        f"All kernels run in one stream, and {what} that could overlap with them "
        f"{'are' if 'T2' in exposed else 'is'} "
        f"exposed ({', '.join(exposed)}).",
        f"Put {what} into a stream of their own.",
        numbers,
        None,
        f"counted by {' and '.join(exposed)}",
        alone,
        "kernels",
    )


@rule("A12", "no-concurrency", LAUNCHES, needs.streams, needs.sm_counts, severity=Severity.INFO, link=VISUAL_PROFILER)
def no_concurrency(case: Case) -> Verdict:
    """Kernels of several streams never run together."""
    used = distinct(case.timed, ["device", "stream", "is_kernel"]).filter("is_kernel")
    streams = used.group_by("device").len()["len"].max()
    busy = sum(gpu.kernels.length for gpu in case.gpus)
    if not busy or not isinstance(streams, int) or streams < 2:
        return Clean("kernels run in one stream")
    together = sum(gpu.overlapping_kernels.length for gpu in case.gpus)
    share, fill = 100 * together / busy, filled_pct(case)
    numbers = {"together_pct": share, "fill_pct": fill, "streams": streams}
    if share >= case.limit("A12", "together_pct") or fill >= case.limit("A12", "fill_pct"):
        return Clean(
            f"two kernels are on in {percent(share)} of the time, and kernels fill {percent(fill)} of the SMs",
                     numbers)  # fmt: skip
    return Found(
        f"Kernels in {streams} streams run together for {percent(share)} of their time only, and fill "
        f"{percent(fill)} of "
        "the SMs.",
        "Look for hidden dependencies: the default stream, events, allocation and synchronization between launches.",
        numbers,
        int(busy * (1 - fill / 100)),
        "the share of the SMs that is left free, if other kernels could fill it",
        view="kernels",
    )


def filled_pct(case: Case) -> float:
    """SMs that the grids of kernels reach, by kernel time, as a share of all SMs."""
    known = case.configs.filter(pl.col("sm_count").is_not_null(), pl.col("blocks").is_not_null())
    taken = total(known["total_ns"])
    reach = pl.min_horizontal(pl.lit(1.0), pl.col("blocks") / pl.col("sm_count"))
    return 100 * float(known.select((pl.col("total_ns") * reach).sum()).item()) / taken if taken else 0.0


@rule("A13", "launch-blocking", LAUNCHES, needs.api_trace, link=ADVISOR)
def launch_blocking(case: Case) -> Verdict:
    """Nearly every launch is followed by a wait."""
    calls = case.profile["api_calls"].drop_nulls(["start_ns", "duration_ns", "tid"]).sort("pid", "tid", "start_ns")
    thread = ("pid", "tid")
    ends = pl.col("start_ns") + pl.col("duration_ns")
    # A driver call within a runtime call is not what comes next.
    outer = calls.with_columns(ends.cum_max().shift(1).over(thread).alias("reached")).filter(
        pl.col("reached").is_null() | (pl.col("start_ns") >= pl.col("reached"))
    )
    launch = outer["name"].is_in(_matching(case, LAUNCH_CALLS).implode())
    wait = outer["name"].is_in(_matching(case, "(?i)synchronize").implode())
    following = outer.with_columns(launch.alias("launch"), wait.alias("wait")).with_columns(
        pl.col("wait").shift(-1).over(thread).fill_null(False).alias("waits_next")
    )
    launches = following.filter("launch")
    if launches.is_empty():
        return CannotTell("no launch calls are recorded, or not on which thread")
    share = 100 * total(launches["waits_next"].cast(pl.Int64)) / launches.height
    numbers = {"launches": launches.height, "followed_pct": share}
    if share <= case.limit("A13", "launches_pct"):
        return Clean(f"{percent(share)} of the launches have a wait as the next call", numbers)
    names = _matching(case, "(?i)synchronize").cast(pl.String).to_list()
    return Found(
        f"{percent(share)} of {counted(launches.height, 'launch is', 'launches are')} followed by a wait: the CPU "
        f"and the "
        "GPU take turns.",
        "Unset CUDA_LAUNCH_BLOCKING, and take synchronize calls for debugging out.",
        numbers,
        total(case.api_named("(?i)synchronize")["total_ns"]),
        "all waits",
        view="api-calls",
        filter=named(names),
    )


def _matching(case: Case, pattern: str) -> pl.Series:
    names = case.profile["api_calls"]["name"].unique().drop_nulls()
    return names.filter(names.cast(pl.String).str.contains(pattern))


@rule("A14", "garbage-collection", LAUNCHES, needs.ops_or_ranges, link=ADVISOR)
def garbage_collection(case: Case) -> Verdict:
    """Python collects garbage while the GPU waits."""
    rows = [
        case.profile[frame]
        .filter(pl.col("name").cast(pl.String).str.contains(r"(?i)^(?:python\s*)?gc(?:$|\W|\.collect)|garbage"))
        .select(pl.col("name").cast(pl.String), "start_ns", "duration_ns", "line")
        for frame in ("ranges", "ops")
    ]
    long = pl.concat(rows).filter(pl.col("duration_ns") >= case.limit("A14", "least_ns"))
    if long.is_empty():
        if not pl.concat(rows).height:
            return CannotTell("the input records no garbage collection: mark it with NVTX ranges (gc.callbacks)")
        return Clean(f"no collection takes {rounded(case.limit('A14', 'least_ns'))} or more")
    taken = total(long["duration_ns"])
    return Found(
        f"Python's garbage collection stops the program {counted(long.height, 'time')} for {duration(taken)} in all, "
        f"the "
        f"longest {duration(long['duration_ns'].max())}.",  # type: ignore[arg-type]
        "Call gc.freeze() after set-up, and collect by hand between steps (gc.disable, gc.collect).",
        {"collections": long.height, "collect_ns": taken},
        taken,
        "all of these collections",
        largest(long, "duration_ns", "name", "start_ns", "duration_ns", "line"),
        "ranges",
    )
