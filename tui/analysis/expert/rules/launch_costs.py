"""Launches and streams: what a launch call costs, how long work waits after it, what could run together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    HTA,
    NAMES_IN_FILTER,
    VISUAL_PROFILER,
    duration,
    evidence_by_name,
    known_sum,
    label,
    largest_rows,
    most_frequent_name,
    name_filter,
    percent,
)
from tui.analysis.expert.in_use import LAUNCH_CALLS, fewer_launches
from tui.analysis.expert.rule import Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.communication import communication_ranges
from tui.analysis.expert.rules.launch_configurations import filled_pct
from tui.analysis.expert.rules.one_time_costs import as_start_up
from tui.analysis.gpu_time.interval_sets import RunningLatestEnd, blocks, max_concurrent, row_intervals
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.launch_calls import launch_calls
from tui.model.schema import NAME
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.timelines import Timeline

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


WAITING_KERNELS: Final = "Check what the kernels wait for: another stream or process, an event, or a lower priority."
_FEW_SLOW: Final = 0.2
"""If at most this share of launches is slow, they are exceptions."""


@rule("A3", "launch-bound", Family.LAUNCHES, needs.launches_linked, link=HTA)
def launch_bound(case: Case) -> Verdict:
    """Launching kernels takes longer than running them."""
    launches, bound = _launches_longer_than_kernels(case)
    if not launches:
        return NotApplicable("durations of launch calls are not recorded")
    share = 100 * bound.height / launches
    numbers = {"launches": launches, "bound": bound.height, "bound_pct": share}
    if share <= case.limit("A3", "launches_pct"):
        return Clean(f"{percent(share)} of launches take longer on the CPU than their kernel", numbers)
    by_name = (
        bound.group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("duration_ns").mean().alias("kernel_ns"),
            pl.col("call_ns").mean(),
            pl.col("kernel").first(),
        )
        .sort("launches", "name", descending=[True, False])
    )
    if not case.has_finding("U6") and not case.inapplicable("U6"):
        return Clean(f"{percent(share)} of launches take longer than their kernels, but the GPU does not wait", numbers)
    gpu_waits = case.has_finding("U6")
    slow = pl.col("call_ns") > case.limit("A4", "call_ns")
    # A few slow calls load kernels, which A4 counts.
    is_few = bound.filter(slow).height <= _FEW_SLOW * bound.height
    ordinary = bound.filter(~slow) if is_few else bound
    exclusion = f", without calls of more than {duration(case.limit('A4', 'call_ns'))}" * (
        ordinary.height < bound.height
    )
    finding = Found(
        f"{percent(share)} of {plural(launches, 'launch', 'launches')} take longer on the CPU than their kernel on "
        f"the GPU{most_frequent_name(by_name, 'launches')}.",
        fewer_launches(case),
        numbers,
        known_sum(ordinary["call_ns"] - ordinary["duration_ns"]) if gpu_waits else None,
        f"call time minus kernel time{exclusion}" if gpu_waits else "not estimated",
        by_name.drop("kernel").head(NAMES_IN_FILTER),
        "kernels",
        name_filter(by_name["kernel"].head(NAMES_IN_FILTER)),
        None if gpu_waits else Severity.INFO,
    )
    excess_time = ordinary.select(start_ns="launch_ns", duration_ns=pl.col("call_ns") - pl.col("duration_ns"))
    return as_start_up(case, finding, excess_time) if gpu_waits else finding


def _launches_longer_than_kernels(case: Case) -> tuple[int, pl.DataFrame]:
    """Return the number of timed launch calls, and the launches whose call took longer than their kernels.

    The kernels of a graph have one call, to be compared with all of them.

    Columns: name (of the kernel, or of the call that launched several), kernel (the first that it launched),
    duration_ns, call_ns, launch_ns.
    """
    calls = launch_calls(case.profile)
    if calls.select(pl.col("launched_with").max()).item():
        rows = (
            case.launched.drop_nulls("call_ns")
            .sort("launched_with", maintain_order=True)
            .group_by("launch_ns", "call_ns", maintain_order=True)
            .agg(pl.col("name").first().alias("kernel"), pl.col("duration_ns").sum(), pl.len().alias("kernels"))
        )
        bound = rows.filter(pl.col("duration_ns") < pl.col("call_ns"))
        return rows.height, _with_call_names(case, bound)
    is_known, positions = case.is_kernel_timed, [np.zeros(0, np.int64)]
    if calls["launch_end_ns"].null_count():
        is_known = is_known & calls["launch_end_ns"].is_not_null().to_numpy()
    launch_starts, launch_ends = (calls[name].fill_null(0).to_numpy() for name in ("launch_ns", "launch_end_ns"))
    durations = case.profile["activities"]["duration_ns"].fill_null(0).to_numpy()
    for block in blocks(len(is_known)):
        block_positions = np.flatnonzero(
            (durations[block] < launch_ends[block] - launch_starts[block]) & is_known[block]
        )
        positions.append(block_positions + block.start)
    rows_ = np.concatenate(positions)
    rows = case.profile["activities"].select(pl.col("name", "duration_ns").gather(pl.Series(rows_)))
    return int(is_known.sum()), rows.with_columns(
        pl.Series("call_ns", launch_ends[rows_] - launch_starts[rows_], pl.Int64),
        pl.Series("launch_ns", launch_starts[rows_], pl.Int64),
        pl.col("name").alias("kernel"),
    )


def _with_call_names(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``name``: of the call if it launched several kernels, else of the kernel."""
    launched_several = pl.col("kernels") > 1
    call_starts = rows.filter(launched_several)["launch_ns"].unique()
    calls = (
        case.profile["api_calls"]
        .lazy()
        .filter(pl.col("start_ns").is_in(call_starts.implode()), pl.col("correlation").is_not_null())
        .select(launch_ns="start_ns", call_ns="duration_ns", call=pl.col("name").cast(pl.String))
        .collect()
        .unique(("launch_ns", "call_ns"), keep="first", maintain_order=True)
    )
    return rows.join(calls, on=["launch_ns", "call_ns"], how="left", maintain_order="left").with_columns(
        pl.coalesce(pl.when(launched_several).then("call"), pl.col("kernel").cast(pl.String)).alias("name")
    )


@rule("A4", "slow-launches", Family.LAUNCHES, needs.api_trace, link=HTA)
def slow_launches(case: Case) -> Verdict:
    """Some launch calls take long."""
    min_ns = case.limit("A4", "call_ns")
    calls, slow = case.calls_longer_than(LAUNCH_CALLS, min_ns, "tid", "line", "correlation")
    if not calls:
        return NotApplicable("calls that launch single kernels are not recorded")
    share, total_ns = 100 * slow.height / calls, row_intervals(slow).length_ns
    numbers = {"slow": slow.height, "calls": calls, "slow_pct": share, "slow_ns": total_ns}
    if share <= case.limit("A4", "calls_pct"):
        return Clean(f"{percent(share)} of {plural(calls, 'launch call')} take longer than {duration(min_ns)}", numbers)
    worst = largest_rows(slow, "duration_ns", "name", "start_ns", "duration_ns", "tid", "line")
    if not case.has_finding("U6") and not case.inapplicable("U6"):
        return Clean(f"{percent(share)} of launch calls are slow, but the GPU does not wait for them", numbers)
    is_loading = _is_mostly_loading(case, slow)
    return Found(
        f"1 of {plural(calls, 'launch call')} ({percent(share)}) takes {duration(total_ns)}, more than "
        f"{duration(min_ns)}."
        if slow.height == 1
        else f"{slow.height:,} of {plural(calls, 'launch call')} ({percent(share)}) take longer than "
        f"{duration(min_ns)}; the longest takes {duration(worst['duration_ns'][0])}.",
        "The first launch of a kernel loads it: warm up before you measure."
        if is_loading
        else "These are not first launches of kernels: check for a busy CPU, locks, a full queue, or little memory.",
        numbers,
        total_ns,
        "all of these calls",
        worst,
        "api-calls",
        name_filter(slow["name"].unique(maintain_order=True)),
        cause="" if is_loading else Cause.LAUNCH_BOUND,
    )


def _is_mostly_loading(case: Case, slow: pl.DataFrame) -> bool:
    """Return whether most of the time of slow launch calls is in the first launch of a kernel, as far as recorded."""
    kernels = (
        case.profile["activities"].lazy().filter(pl.col("kind") == "kernel").select("name", "correlation", "start_ns")
    )
    first = kernels.drop_nulls().sort("start_ns").unique("name", keep="first").collect()["correlation"]
    if first.is_empty():
        return True
    loading = slow.filter(pl.col("correlation").is_in(first.implode()))
    return 2 * known_sum(loading["duration_ns"]) >= known_sum(slow["duration_ns"])


@rule("A5", "launch-delay", Family.LAUNCHES, needs.launches_linked, link=HTA)
def launch_delay(case: Case) -> Verdict:
    """Kernels start late on an idle GPU."""
    min_ns = case.limit("A5", "delay_ns")
    launch_ends = launch_calls(case.profile)["launch_end_ns"].fill_null(-1).to_numpy()
    is_known = case.is_kernel_timed & (launch_ends >= 0)
    launches = int(is_known.sum())
    if not launches:
        return NotApplicable("durations of launch calls are not recorded")
    evidence_columns = ("name", "activity", "start_ns", "stream", "line")
    activities = case.profile["activities"].select(evidence_columns)
    frames = [activities.clear().with_columns(late_ns=pl.lit(None, pl.Int64))]
    for timeline in case.gpu_timelines:
        late, late_ns = _late_starts(timeline, timeline.take(launch_ends), timeline.take(is_known), min_ns)
        rows = activities.select(pl.all().gather(pl.Series(timeline.rows_at(late))))
        frames.append(rows.with_columns(pl.Series("late_ns", late_ns, pl.Int64)))
    late_rows = pl.concat(frames)
    starts_ns = late_rows["start_ns"].to_numpy()
    # Collectives that are not recorded as kernels keep a GPU busy, too.
    communicating = communication_ranges(case).covered_within(starts_ns - late_rows["late_ns"].to_numpy(), starts_ns)
    late_rows = late_rows.filter(2 * pl.Series(communicating) <= pl.col("late_ns"))
    share, total_ns = 100 * late_rows.height / launches, known_sum(late_rows["late_ns"])
    numbers = {"late": late_rows.height, "launches": launches, "late_pct": share, "late_ns": total_ns}
    if share <= case.limit("A5", "launches_pct"):
        subject = "after both their call and the work before them"
        return Clean(f"{percent(share)} of kernels start more than {duration(min_ns)} {subject}", numbers)
    worst = largest_rows(late_rows, "late_ns", "name", "activity", "start_ns", "late_ns", "stream", "line")
    return Found(
        f"{percent(share)} of {plural(launches, 'kernel')} start more than {duration(min_ns)} after their launch call, "
        f"on an idle GPU. The latest is {label(worst['name'][0])}, by {duration(worst['late_ns'][0])}.",
        WAITING_KERNELS,
        numbers,
        total_ns,
        "all of these delays",
        *evidence_by_name(worst),
        is_summed_over_gpus=True,
    )


def _late_starts(timeline: Timeline, launch_ends: Ints, is_known: Flags, min_ns: float) -> tuple[Ints, Ints]:
    """Return the positions of work that began late after both its call and the previous work, and the delays.

    Args:
        timeline: The work.
        launch_ends: When the call of each ended.
        is_known: Of which that is known.
        min_ns: What is late, ns.
    """
    latest_end = RunningLatestEnd()
    positions, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for block in blocks(len(timeline.starts)):
        starts = timeline.starts[block]
        previous_ends, _ = latest_end.latest_before(timeline.ends[block])
        if block.start == 0:
            previous_ends[0] = starts[0]
        late_ns = starts - np.maximum(launch_ends[block], previous_ends)
        late = np.flatnonzero((late_ns > min_ns) & is_known[block])
        positions.append(late + block.start)
        times.append(late_ns[late])
    return np.concatenate(positions), np.concatenate(times)


@rule(
    "A6",
    "queue-full",
    Family.LAUNCHES,
    needs.launches_linked,
    needs.streams,
    severity=Severity.INFO,
    link=HTA,
)
def full_queue(case: Case) -> Verdict:
    """The queue of a stream is full."""
    calls = launch_calls(case.profile)
    launch = calls["launch_ns"].fill_null(-1).to_numpy()
    # The kernels of one call (of a graph) wait together.
    first = launch >= 0
    if calls.select(pl.col("launched_with").max()).item():
        first &= (calls["launched_with"].fill_null(0) == 0).to_numpy()
    all_first = bool(first.all())
    max_waiting, stream = 0, None
    for sequence in case.sequences:
        positions, starts = sequence.positions, sequence.starts
        if not all_first:
            chosen = sequence.timeline.take(first)[positions]
            positions, starts = positions[chosen], starts[chosen]
        waiting = max_concurrent(sequence.timeline.take(launch)[positions], starts)
        if waiting > max_waiting:
            max_waiting, stream = waiting, case.profile["activities"]["stream"][sequence.first_row]
    numbers = {"waiting": max_waiting}
    if max_waiting < case.limit("A6", "waiting"):
        return Clean(f"at most {plural(max_waiting, 'launch waits', 'launches wait')} in one stream", numbers)
    return Found(
        f"The CPU runs far ahead of the GPU: up to {max_waiting:,} launches wait in stream {stream}.",
        "The GPU is the bottleneck: shorten its kernels.",
        numbers,
        None,
        "none: the GPU is busy meanwhile",
        view="api-calls",
        filter=name_filter(case.names("api_calls", LAUNCH_CALLS)),
    )


def kernel_streams(case: Case) -> str:
    """Require the streams of kernels."""
    missing = needs.streams(case)
    if missing or overlap(case.profile)["kernel_streams"].count():
        return missing
    return "streams of kernels are not recorded" if case.kernel_ns else "no kernels are recorded"


@rule(
    "A11",
    "one-stream",
    Family.LAUNCHES,
    kernel_streams,
    needs.single_kernels,
    severity=Severity.INFO,
    link=VISUAL_PROFILER,
)
def single_stream(case: Case) -> Verdict:
    """All work is in one stream."""
    gpus = overlap(case.profile).drop_nulls("kernel_streams").select("device", "kernel_streams", "kernels_ns")
    single_stream_gpus = gpus.filter(pl.col("kernel_streams") == 1)
    exposed_rules = [rule for rule in ("T2", "C2") if case.has_finding(rule)]
    numbers = {"gpus": gpus.height, "one_stream": single_stream_gpus.height}
    if single_stream_gpus.is_empty():
        return Clean("kernels run in several streams of every GPU", numbers)
    if not exposed_rules:
        if reason := case.inapplicable("T2", "C2"):
            return NotApplicable(reason)
        return Clean("kernels run in one stream, and no exposed work could overlap with them", numbers)
    subject = " and ".join({"T2": "copies", "C2": "communication"}[rule] for rule in exposed_rules)
    return Found(
        f"All kernels run in one stream. {subject[0].upper()}{subject[1:]} that could overlap with them "
        f"{'are' if 'T2' in exposed_rules else 'is'} exposed ({', '.join(exposed_rules)}).",
        f"Use a stream of its own for {subject}.",
        numbers,
        None,
        f"counted by {' and '.join(exposed_rules)}",
        single_stream_gpus,
        "kernels",
        "kind=kernel",
    )


@rule(
    "A12",
    "no-concurrency",
    Family.LAUNCHES,
    kernel_streams,
    needs.sm_counts,
    severity=Severity.INFO,
    link=VISUAL_PROFILER,
)
def no_concurrency(case: Case) -> Verdict:
    """Kernels of several streams never run together."""
    gpus = overlap(case.profile).drop_nulls("kernel_streams").select("device", "kernel_streams", "concurrent_ns")
    busy = case.overlap_ns("kernels_ns")
    streams = max(gpus["kernel_streams"].to_list(), default=0)
    if not busy or streams < 2:
        return Clean("kernels run in one stream")
    concurrent_pct, filled = 100 * case.overlap_ns("concurrent_ns") / busy, filled_pct(case)
    numbers = {"together_pct": concurrent_pct, "fill_pct": filled, "streams": streams}
    if concurrent_pct >= case.limit("A12", "together_pct") or filled >= case.limit("A12", "fill_pct"):
        return Clean(
            f"two kernels run together {percent(concurrent_pct)} of the time; kernels fill {percent(filled)} of the "
            "SMs",
            numbers,
        )
    return Found(
        f"Kernels of {streams} streams run together only {percent(concurrent_pct)} of their time, and fill "
        f"{percent(filled)} of "
        "the SMs.",
        "Check for hidden dependencies: the default stream, events, allocation or synchronization between launches.",
        numbers,
        int(busy * (1 - filled / 100)),
        "the share of the SMs left free, if other kernels could fill it",
        gpus,
        "kernels",
        "kind=kernel",
        is_summed_over_gpus=True,
    )


@dataclass(frozen=True, slots=True)
class LaunchWaits:
    """How the launches after some idle gaps explain them."""

    rows: npt.NDArray[np.int64]
    """The row in ``activities`` of the work after each gap."""
    gap_ns: npt.NDArray[np.int64]
    late_ns: npt.NDArray[np.int64]
    """The part of the gap until the launch call ended, where that began after the gap did; else 0."""
    queued_ns: npt.NDArray[np.int64]
    """The part in which the work was launched and did not start, if that is a long time; else 0."""
    is_long: npt.NDArray[np.bool_]
    """Whether U2 counts the gap."""


def launch_waits(case: Case) -> Iterator[LaunchWaits]:
    """Yield blocks of idle gaps with the part in which launches were late; nothing if launches are not linked."""
    if needs.launches_linked(case):
        return
    calls = launch_calls(case.profile)
    launch_starts, launch_ends = (calls[name].fill_null(-1).to_numpy() for name in ("launch_ns", "launch_end_ns"))
    for timeline, gaps in case.device_gaps:
        for block in blocks(len(gaps.next_work)):
            rows, start, end = timeline.rows_at(gaps.next_work[block]), gaps.starts[block], gaps.ends[block]
            is_late = launch_starts[rows] > start
            # A kernel starts some time after its call at best: that much belongs to the launch.
            waiting_ns = np.where(launch_ends[rows] >= 0, end - np.maximum(start, launch_ends[rows]), 0)
            queued = np.where(waiting_ns > case.limit("A5", "delay_ns"), waiting_ns, 0)
            yield LaunchWaits(
                rows,
                end - start,
                np.where(is_late, end - start - queued, 0),
                queued,
                end - start >= case.limit("U2", "gap_ns"),
            )


def late_by_name(case: Case) -> pl.DataFrame:
    """Return idle time before work that was launched after the previous work ended: name, waits, gap_ns, long_ns.

    Time in which the work was launched and did not start is A5's. The last is the part in gaps that U2 counts.
    """
    names, frames = case.profile["activities"]["name"], []
    for waits in launch_waits(case):
        late = waits.late_ns > 0
        rows = pl.DataFrame(
            {
                "name": names.gather(pl.Series(waits.rows[late])),
                "gap_ns": waits.late_ns[late],
                "is_long": waits.is_long[late],
            }
        )
        frames.append(
            rows.group_by("name").agg(
                pl.len().cast(pl.Int64).alias("waits"),
                pl.col("gap_ns").sum(),
                pl.col("gap_ns").filter("is_long").sum().alias("long_ns"),
            )
        )
    empty = pl.DataFrame(schema={"name": NAME, "waits": pl.Int64, "gap_ns": pl.Int64, "long_ns": pl.Int64})
    return pl.concat([empty, *frames]).group_by("name").sum()
