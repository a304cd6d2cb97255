"""The dashboard: where the time went. Values and frames, no drawing."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from tui.analysis.allocator import allocated_by, peak_by_call_site, peak_words
from tui.analysis.api_calls import api
from tui.analysis.capabilities import recordable_needs
from tui.analysis.copies import copy_sums, throughput
from tui.analysis.dashboard_facts import performance, system
from tui.analysis.devices import device_facts, session_vendor
from tui.analysis.durations import average, complete_sum, share, timed_calls, total
from tui.analysis.expert.finding_text import percent, size
from tui.analysis.expert.findings import findings, iterations_after_start_up
from tui.analysis.expert.findings_table import (
    HOT_KERNEL,
    MEASURED_KERNELS,
    SLOW_LAYERS,
    answers,
    counts,
    findings_summary,
    first_findings,
)
from tui.analysis.expert.rule import Cause, Severity, State
from tui.analysis.gpu_time.breakdown import breakdown, busy_intervals, utilization
from tui.analysis.gpu_time.idle_gaps import longest_gaps
from tui.analysis.grouping import unique_values
from tui.analysis.issues import issue_counts
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import iterations, sources
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.iterations.times import USES, iteration_times, iterations_with_uses
from tui.analysis.kernels import NOT_PRINTED, kernels, unprinted_ns
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import recorded_sessions
from tui.analysis.ops.op_type_rules import UNKNOWN
from tui.analysis.ops.op_types import gpu_time_by_op_type
from tui.analysis.ops.ops_by_name import all_ops_by_name, has_recorded_ops, inferred_ops, printed_op_sessions
from tui.analysis.sessions import left_out_sentence, replayed_sessions, session_labels, without_sessions
from tui.analysis.tensor_core_efficiency import tensor_core_time, tensor_core_use
from tui.analysis.tool_report import headlines
from tui.cache.spill import low_memory
from tui.model.errors import ProftuiError
from tui.model.profile import column_view
from tui.text import begin_sentence, plain, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tui.analysis.dashboard_facts import Fact
    from tui.analysis.needs import Need
    from tui.analysis.tensor_core_efficiency import TensorCoreUse
    from tui.model.profile import Profile


class GpuTimeUse(StrEnum):
    """A use of GPU time."""

    TENSOR_CORES = "Using tensor cores"
    OTHER_KERNELS = "All other kernels"
    UNKNOWN_KERNELS = "Kernels, tensor cores unknown"
    MEMCPY = "Copies"
    MEMSET = "Memsets"
    UNIFIED_MEMORY = "Unified memory"
    NOT_PRINTED = NOT_PRINTED


_KINDS = {"memcpy": str(GpuTimeUse.MEMCPY), "memset": str(GpuTimeUse.MEMSET), "um": str(GpuTimeUse.UNIFIED_MEMORY)}


def gpu_time_by_use(rows: pl.DataFrame, kernel_time: pl.DataFrame) -> pl.DataFrame:
    """Return GPU time by use: use, calls, total_ns, time_pct, in the order of `GpuTimeUse`, without empty rows.

    Whole CUDA graphs count as kernels. The rows add up to the GPU time. ``calls`` is null if any count is unknown.

    Args:
        rows: `tui.analysis.kernels.kernels`.
        kernel_time: `tui.analysis.tensor_core_efficiency.tensor_core_time`.
    """
    uses, kind = pl.col("uses_tensor_core"), pl.col("kind").cast(pl.String)
    kernel_use = (
        pl.when(uses).then(pl.lit(str(GpuTimeUse.TENSOR_CORES))).otherwise(pl.lit(str(GpuTimeUse.OTHER_KERNELS)))
    )
    kernel_rows = kernel_time.select(
        pl.when(uses.is_null()).then(pl.lit(str(GpuTimeUse.UNKNOWN_KERNELS))).otherwise(kernel_use).alias("use"),
        pl.col("launches").alias("calls"),
        "total_ns",
    )
    others = rows.filter(kind.is_in(list(_KINDS))).select(kind.replace_strict(_KINDS).alias("use"), "calls", "total_ns")
    sums = pl.concat([kernel_rows, others]).group_by("use").agg(complete_sum("calls"), pl.col("total_ns").sum())
    in_order = pl.DataFrame({"use": [str(use) for use in GpuTimeUse]})
    shown = in_order.join(sums, on="use", how="left", maintain_order="left").filter(pl.col("total_ns") > 0)
    return shown.with_columns(share(group=None))


SPLIT: Final = 7
"""Groups of the split that are shown by name; the others are one row."""

REMAINING: Final = "rest"
"""The name of that row."""

_ANSWERS: Final = ("uses_tensor_core", "tc_eligible")


def with_unprinted(rows: pl.DataFrame, unprinted_time_ns: int, name_column: str) -> pl.DataFrame:
    """Return parts of the GPU time with the time of rows that a printed table omits as the last part.

    Args:
        rows: The parts; if there are none, the whole is not divided.
        unprinted_time_ns: The time of the omitted rows.
        name_column: The column of the names of the parts.
    """
    if not unprinted_time_ns or rows.is_empty():
        return rows
    unprinted_row = pl.DataFrame({name_column: [NOT_PRINTED], "total_ns": [unprinted_time_ns]})
    return pl.concat([rows, unprinted_row], how="diagonal").with_columns(share(group=None))


def sum_over_sessions(rows: pl.DataFrame, *keys: str, total_ns: int | None = None) -> pl.DataFrame:
    """Return one row per name over all sessions, largest first.

    Shares are of ``total_ns``, by default the sum of the rows.

    Columns: ``keys``, kernels and launches (where the rows have them), calls (null if it is null in any row), total_ns,
    avg_ns (of the ``timed_calls`` of the rows), time_pct, and, if the rows have them, uses_tensor_core and tc_eligible:
    whether it is true in any session.
    """
    total_ns = int(rows["total_ns"].sum()) if total_ns is None else total_ns
    counted = [total(name).alias(name) for name in ("kernels", "launches") if name in rows.columns]
    mean = average(total("total_ns"), timed_calls("timed_calls"))
    if "avg_ns" in rows.columns:
        # As in the row: some calls may have no time.
        mean = pl.when(pl.len() == 1).then(pl.col("avg_ns").first()).otherwise(mean)
    answers = [pl.col(name).any(ignore_nulls=False) for name in _ANSWERS if name in rows.columns]
    return (
        rows.group_by(keys)
        .agg(
            *counted,
            complete_sum("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            mean.alias("avg_ns"),
            *answers,
        )
        .with_columns((100 * pl.col("total_ns") / (total_ns or None)).alias("time_pct"))
        .sort("total_ns", keys[0], descending=[True, False], nulls_last=True)
    )


def ops_over_sessions(profile: Profile, *, total_ns: int | None = None) -> pl.DataFrame:
    """Return ops by GPU time over all sessions: `sum_over_sessions`, with op_type, direction, group and op_source.

    ``calls`` counts calls of ops and is null if none are recorded; then ``launches`` is the number of launches, and
    ``avg_ns`` is per launch if no session records ops.
    """
    if not has_recorded_ops(profile):
        keys = ("op", "op_type", "direction", "group", "op_source")
        inferred = sum_over_sessions(inferred_ops(profile), *keys, total_ns=total_ns)
        return inferred.rename({"calls": "launches"}).with_columns(
            pl.lit(None, pl.Int64).alias("calls"), pl.lit(None, pl.Boolean).alias("tc_eligible")
        )
    rows = all_ops_by_name(profile).filter(pl.col("gpu_self_ns") > 0)
    classes = rows.group_by("op", "op_source").agg(pl.col("op_type", "direction", "group").drop_nulls().first())
    summed = rows.with_columns(pl.col("gpu_self_ns").alias("total_ns"))
    return sum_over_sessions(summed, "op", "op_source", total_ns=total_ns).join(
        classes, on=["op", "op_source"], how="left", nulls_equal=True, maintain_order="left"
    )


def largest_groups(kinds: pl.DataFrame) -> pl.DataFrame:
    """Return the largest groups by name, and the rest as one row; unclassified work is never in the rest."""
    groups = (
        kinds.with_columns(pl.col("group").cast(pl.String))
        .group_by("group")
        .agg(
            complete_sum("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            pl.len().cast(pl.Int64).alias("members"),
        )
        .sort("total_ns", "group", descending=[True, False], nulls_last=True)
    )
    named, unclaimed = groups.filter(pl.col("group") != UNKNOWN), groups.filter(pl.col("group") == UNKNOWN)
    shown, remaining = named.head(SPLIT - unclaimed.height), named.slice(SPLIT - unclaimed.height)
    if remaining.height == 1:
        shown, remaining = named, remaining.clear()
    shown = pl.concat([shown, unclaimed]).sort("total_ns", "group", descending=[True, False], nulls_last=True)
    if remaining.is_empty():
        return shown.with_columns(share(group=None))
    remaining_row = remaining.select(
        pl.lit(REMAINING).alias("group"),
        complete_sum("calls").alias("calls"),
        total("total_ns").alias("total_ns"),
        pl.col("members").sum(),
    )
    return pl.concat([shown, remaining_row]).with_columns(share(group=None))


def copies_over_sessions(profile: Profile) -> pl.DataFrame:
    """Return copies by direction over all sessions, with the columns of `Dashboard.copies`."""
    return (
        copy_sums(profile)
        .group_by("kind", "copy_kind")
        .agg(
            complete_sum("calls").alias("calls"),
            *(total(name).alias(name) for name in ("total_ns", "size_bytes", "moved_bytes", "moving_ns")),
        )
        .select("kind", "copy_kind", "calls", "total_ns", "size_bytes", throughput())
        .with_columns(share(group=None))
        .sort("total_ns", "copy_kind", descending=[True, False], nulls_last=True)
    )


TOP: Final = 10
"""The number of rows of the short tables."""

ORDERS: Final = ("total_ns", "calls", "avg_ns")
"""The columns by which the short tables can be sorted, largest first."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The figures of the dashboard, over all sessions of the profile."""

    performance: tuple[Fact, ...]
    """Performance summary."""

    split: pl.DataFrame
    """GPU time by kind of work (`tui.analysis.ops.op_types.gpu_time_by_op_type`), largest first: group, calls,
    total_ns, time_pct, members (op types that it sums). At most `SPLIT` rows and one called `REMAINING`; they add up to
    the GPU time."""

    ops: pl.DataFrame
    """Ops by GPU time, the largest first: op, op_type, direction, group, kernels, calls, launches, total_ns, avg_ns,
    time_pct, uses_tensor_core, tc_eligible, op_source. Of a recorded op ``total_ns`` is what it launched itself; work
    without an op is in the list as well. Of what is not recorded only launches are known, no calls."""

    ops_recorded: int
    """The number of sessions with GPU work whose ops are recorded."""

    ops_inferred: int
    """The number of sessions whose ops are inferred from the names of kernels."""

    kernels: pl.DataFrame
    """Kernels by GPU time, the largest first: name, short_name, calls, total_ns, avg_ns, time_pct, uses_tensor_core."""

    gpu_uses: pl.DataFrame
    """GPU time by what it went into (`gpu_time_by_use`): use, calls, total_ns, time_pct; adds up to all."""

    tensor_cores: TensorCoreUse
    """Kernel time that uses, or could use, tensor cores."""

    top_api: pl.DataFrame
    """The `TOP` API functions with most time: name, calls, total_ns, avg_ns, time_pct."""

    copies: pl.DataFrame
    """Copies by direction: kind, copy_kind, calls, total_ns, size_bytes, throughput, time_pct."""

    devices: pl.DataFrame
    """`tui.analysis.devices.device_facts`, with busy_ns, idle_ns and busy_pct where start times are known."""

    sessions: pl.DataFrame
    """The frame ``sessions``."""

    system: tuple[Fact, ...]
    """System configuration: only what the input records."""

    issues: Mapping[str, int]
    """Number of issues by severity."""

    missing: tuple[Need, ...]
    """What the input does not record, and how to record it."""

    layers: int
    """How many layer times there are."""

    tool_headlines: pl.DataFrame
    """The recording tool's own figures, the most important of it: `tui.analysis.tool_report.headlines`."""

    tool_rows: int
    """How many rows there are of that in all."""

    left_out: str
    """Which sessions the figures omit, and why; empty if none."""

    partial: str
    """Why the numbers are of a part of the input only, or empty."""

    @property
    def counted_ops(self) -> str:
        """The unit of the ops' counts: ``calls``, or ``launches`` if no ops are recorded."""
        return "calls" if self.ops_recorded else "launches"

    @property
    def top_ops(self) -> pl.DataFrame:
        """The `TOP` ops with most GPU time."""
        return top_rows(self.ops)

    @property
    def top_kernels(self) -> pl.DataFrame:
        """The `TOP` kernels with most GPU time."""
        return top_rows(self.kernels)


def top_rows(rows: pl.DataFrame, order: str = ORDERS[0]) -> pl.DataFrame:
    """Return the `TOP` rows of ops or kernels.

    Args:
        rows: The rows, largest total first.
        order: One of `ORDERS`, or another column; equal rows keep their order.
    """
    return rows.sort(order, descending=True, nulls_last=True, maintain_order=True).head(TOP)


def dashboard(profile: Profile) -> Dashboard:
    """Return all figures of the dashboard.

    Args:
        profile: The profile; several sessions are added up.

    Raises:
        ProftuiError: The GPU is unknown, or the user's op types cannot be read.
    """
    full_profile, replayed = profile, replayed_sessions(profile)
    profile = without_sessions(profile, replayed)
    rows, calls, busy = kernels(profile), api(profile), utilization(profile)
    kernel_time = tensor_core_time(profile)
    use = tensor_core_use(kernel_time, vendor=session_vendor(profile).name)
    unprinted = unprinted_ns(profile)
    total_ns = unprinted + int(rows["total_ns"].sum())
    printed = printed_op_sessions(profile)
    with_ops = pl.concat([recorded_sessions(profile), printed])
    # A printed table can have the GPU time of ops without any kernel.
    with_gpu_work = pl.concat([rows["session"], printed])
    return Dashboard(
        performance=performance(profile, rows, calls, busy, use),
        split=with_unprinted(
            largest_groups(sum_over_sessions(gpu_time_by_op_type(profile), "op_type", "direction", "group")),
            unprinted,
            "group",
        ),
        ops=ops_over_sessions(profile, total_ns=total_ns if unprinted else None),
        ops_recorded=with_ops.filter(with_ops.is_in(with_gpu_work.implode())).n_unique(),
        ops_inferred=inferred_ops(profile).filter(~pl.col("session").is_in(with_ops.implode()))["session"].n_unique(),
        kernels=sum_over_sessions(rows.filter(pl.col("kind") == "kernel"), "name", "short_name", total_ns=total_ns),
        gpu_uses=with_unprinted(gpu_time_by_use(rows, kernel_time), unprinted, "use"),
        tensor_cores=use,
        top_api=sum_over_sessions(calls, "name").head(TOP),
        copies=copies_over_sessions(profile),
        devices=device_facts(profile).join(
            busy.select("session", "device", "busy_ns", "idle_ns", "busy_pct"),
            on=["session", "device"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        ),
        sessions=full_profile["sessions"],
        system=system(full_profile),
        issues=issue_counts(full_profile),
        missing=tuple(recordable_needs(full_profile)),
        layers=profile["layers"].height,
        tool_headlines=headlines(full_profile),
        tool_rows=full_profile["tool_figures"].height + full_profile["tool_findings"].height,
        left_out=left_out_sentence(replayed),
        partial=profile.partial,
    )


def in_two_threads(makers: Sequence[Callable[[], Any]]) -> Iterator[Any]:
    """Yield the results of functions in order, computed by two threads; closing the generator cancels the rest.

    Closing it also skips the functions that have not started.

    >>> list(in_two_threads([lambda: "a", lambda: "b"]))
    ['a', 'b']
    """
    # Two results at once need the memory of both: compute one at a time for inputs larger than memory.
    pool = ThreadPoolExecutor(1 if low_memory() else 2, "analysis")
    try:
        futures: list[Future[Any]] = [pool.submit(make) for make in makers]
        for future in futures:
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


GAPS: Final = 5
"""The number of idle gaps shown."""


@once_per_profile("activities", "api_calls", "ops", "ranges", "sessions")
def idle_gaps(profile: Profile) -> pl.DataFrame:
    """Return the longest rows of `tui.analysis.gpu_time.idle_gaps.gaps`, with two more columns.

    Added are after_kind (the kind of the work after the gap) and wall_pct (its share of the wall time).
    """
    longest = longest_gaps(profile, GAPS)
    kinds = (
        profile["activities"]
        .lazy()
        .filter(pl.col("activity").is_in(longest["activity"].to_list()))
        .select("session", "activity", pl.col("kind").cast(pl.String).alias("after_kind"))
        .collect()
    )
    walls = utilization(profile).select("session", "wall_ns").unique("session")
    wall_pct = pl.when(pl.col("wall_ns") > 0).then(100 * pl.col("duration_ns") / pl.col("wall_ns"))
    return (
        longest.join(kinds, on=["session", "activity"], how="left", maintain_order="left")
        .join(walls, on="session", how="left", maintain_order="left")
        .with_columns(wall_pct=wall_pct)
        .drop("wall_ns")
    )


def wall_time(profile: Profile) -> pl.DataFrame:
    """Return the rows of `tui.analysis.gpu_time.breakdown.breakdown` of the sessions whose GPU work has times."""
    rows = breakdown(profile)
    activities = profile["activities"]
    with_work = unique_values(column_view(activities, "session").filter(activities["start_ns"].is_not_null()))
    return rows.filter(pl.col("session").is_in(with_work.implode()))


def iteration_spreads(profile: Profile) -> pl.DataFrame:
    """Return the rows of `iteration_times` of the sessions that are divided into iterations."""
    session_sources = sources(profile)
    rows = iteration_times(profile)
    return rows.filter([session_sources.get(session) != WHOLE_RUN for session in rows["session"]])


@dataclass(frozen=True, slots=True)
class IterationCourse:
    """The iterations of one session."""

    session: int
    source: str
    """How they are known: recorded, found or key."""
    times: pl.DataFrame
    """session, iteration, duration_ns, aggregated, and what the time was used for (`tui.analysis.iterations.times`), in
    time order; without those that are not counted."""
    spread: dict[str, object]
    """The session's row of `tui.analysis.iterations.times.iteration_times`."""


def iteration_courses(profile: Profile) -> list[IterationCourse]:
    """Return the iterations of every session that is divided into iterations, without their uses."""
    unused = [pl.lit(None, pl.Int64).alias(use) for use in USES]
    return _courses(profile, iterations(profile).with_columns(pl.lit(None, pl.Boolean).alias("aggregated"), *unused))


def iteration_courses_with_uses(profile: Profile) -> list[IterationCourse]:
    """Return `iteration_courses` with what the time of each iteration was used for, if known."""
    return _courses(profile, iterations_with_uses(profile))


def _courses(profile: Profile, rows: pl.DataFrame) -> list[IterationCourse]:
    session_sources = sources(profile)
    rows = rows.drop_nulls(["iteration", "duration_ns"])
    rows = rows.select("session", "iteration", "duration_ns", "aggregated", *USES)
    courses = []
    for spread in iteration_spreads(profile).iter_rows(named=True):
        session = spread["session"]
        session_rows = rows.filter(pl.col("session") == session)
        courses.append(IterationCourse(session, session_sources.get(session, "recorded"), session_rows, spread))
    return courses


class DashboardParts(NamedTuple):
    """A value for each part of the dashboard, in the order in which they become available."""

    board: Callable[..., Any]
    """`dashboard`."""
    courses: Callable[..., Any]
    """`iteration_courses`."""
    busy: Callable[..., Any]
    """`busy_intervals`: from then on `tui.analysis.gpu_time.breakdown.busy_over_time` is quick."""
    wall: Callable[..., Any]
    """`wall_time`."""
    gaps: Callable[..., Any]
    """`idle_gaps`."""
    advice: Callable[..., Any]
    """`advice`, or a text: why there is none."""
    uses: Callable[..., Any]
    """`iteration_courses_with_uses`."""


def dashboard_parts(profile: Profile) -> Iterator[Any]:
    """Return the value of each of `DashboardParts`, one after another, computed in two threads.

    Args:
        profile: The profile.

    Raises:
        ProftuiError: The GPU is unknown, or the user's op types cannot be read.
    """
    makers = DashboardParts(
        board=partial(dashboard, profile),
        courses=partial(iteration_courses, profile),
        busy=partial(busy_intervals, profile),
        wall=partial(wall_time, profile),
        gaps=partial(idle_gaps, profile),
        advice=partial(_advice, profile),
        uses=partial(iteration_courses_with_uses, profile),
    )
    return in_two_threads(makers)


def _advice(profile: Profile) -> Advice | str:
    try:
        return advice(profile)
    except ProftuiError as error:
        return str(error)


TOP_FINDINGS: Final = 3
"""The number of findings shown."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A summary of the findings."""

    counts: Mapping[str, int]
    """Number of findings by severity, and of rules that are clean or do not apply (`findings.counts`)."""

    top_findings: pl.DataFrame
    """The first finding of each of the `TOP_FINDINGS` most expensive causes: rows of `findings.first_findings`."""

    guidance: str
    """What to do first, about the most expensive cause; or why there is none."""

    summary: str
    """A text with the number of causes of each severity."""

    reasons: frozenset[str]
    """Why rules do not apply."""

    session_labels: Mapping[int, str]
    """The name of each session of a finding; none if there is only one session."""

    def with_session(self, row: Mapping[str, Any]) -> str:
        """Return the problem of a finding, after the name of its session if there are several."""
        label = self.session_labels.get(row["session"], "")
        return f"{label}: {row['problem']}" if label else str(row["problem"])


def advice(profile: Profile) -> Advice:
    """Return the most expensive findings, at most one a cause, and where to start.

    Args:
        profile: The profile.
    """
    rows = findings(profile)
    numbers = counts(rows)
    first = first_findings(rows).head(TOP_FINDINGS)
    reasons = rows.filter(pl.col("state") == State.NOT_APPLICABLE.value)["reason"].drop_nulls()
    labels = _labels(profile) if profile["sessions"].height > 1 else {}
    if first.height:
        first_line = guidance(rows, _advice_after_start_up(profile, first))
    else:
        first_line = _largest_allocation(profile) or guidance(rows)
    return Advice(numbers, first, first_line, findings_summary(rows), frozenset(reasons), labels)


def _advice_after_start_up(profile: Profile, first: pl.DataFrame) -> str:
    """Return what to do first in the iterations after start-up, if start-up is the first cause."""
    row = first.row(0, named=True)
    if row["cause"] != Cause.START_UP or row["severity"] == Severity.INFO.value:
        return ""
    chosen = iterations_after_start_up(profile, row["session"])
    if chosen is None:
        return ""
    later = first_findings(findings(select_iterations(profile, chosen))).filter(
        pl.col("session") == row["session"],
        pl.col("cause") != Cause.START_UP,
        pl.col("severity") != Severity.INFO.value,
        pl.col("recommendation") != "",
    )
    if later.is_empty():
        return ""
    return f" For iterations {chosen.first} to {chosen.last}: {later['recommendation'][0]}"


def _labels(profile: Profile) -> dict[int, str]:
    """Return the name of each session: its rank, else its number."""
    labels = session_labels(profile)
    return {number: label if label.startswith("rank ") else f"session {number}" for number, label in labels.items()}


def _largest_allocation(profile: Profile) -> str:
    """Return what holds most memory at the peak or the end of a memory snapshot, as a sentence; empty without one."""
    if profile["memory_segments"].is_empty():
        return ""
    peak = peak_by_call_site(profile)
    if peak.is_empty():
        return "No memory was allocated."
    first_gpu = [pl.col(name).eq_missing(pl.lit(peak[name][0])) for name in ("session", "device")]
    gpu_peak = peak.filter(first_gpu)
    with_stack = gpu_peak.filter(pl.col("call_site").is_not_null() | pl.col("stack").is_not_null())
    total_bytes, known_bytes = int(gpu_peak["size_bytes"].sum()), int(with_stack["size_bytes"].sum())
    unknown_bytes = total_bytes - known_bytes
    if 100 * known_bytes < total_bytes:
        return f"{size(total_bytes)} is allocated {peak_words(profile)}, without call stacks. {_RECORD_STACKS}"
    first = with_stack.row(0, named=True)
    largest = f"{size(first['size_bytes'])} ({percent(first['peak_pct'])})"
    name = plain(allocated_by(first["call_site"], first["stack"]))
    if unknown_bytes > first["size_bytes"]:
        return (
            f"{size(unknown_bytes)} of the {size(total_bytes)} {peak_words(profile)} has no call stack. "
            f"{_RECORD_STACKS} "
            f"The largest known call site: {largest}, {name}."
        )
    unknown_text = f" {size(unknown_bytes)} has no call stack." if unknown_bytes else ""
    return (
        f"Most memory {peak_words(profile)}: {largest} of {size(total_bytes)}, by {name}.{unknown_text} "
        "Memory lists all call sites."
    )


_RECORD_STACKS: Final = "torch.cuda.memory._record_memory_history() at the start of the program records call stacks."


def _busy_sentence(rows: pl.DataFrame) -> str:
    """Return a sentence about how busy the GPU is, if the rule on that is clean in the only session."""
    busy = rows.filter(pl.col("rule") == "U1")
    is_clean = busy.height == 1 and busy["state"][0] == State.CLEAN.value
    return f" {busy['reason'][0]}." if is_clean else ""


def _clean_verdicts_sentence(rows: pl.DataFrame) -> str:
    """Return that decode or the run is not launch-bound, and that no rank is a straggler, as far as that is known."""
    verdicts = answers(rows)
    # Whether each of several sessions is launch-bound is too much to read.
    judged = rows.filter(pl.col("rule") == "U6", pl.col("state") != State.NOT_APPLICABLE.value).height
    shown = verdicts.filter(pl.col("session").is_null() | (judged < 2))
    return "".join(f" {message}" for message in shown["message"])


def _top_kernel_sentence(rows: pl.DataFrame) -> str:
    """Return the share of the top kernel or slowest layer, if the rule on it is clean in the only session."""
    sentences = ""
    for rule, noun in ((HOT_KERNEL, "kernel,"), (SLOW_LAYERS, "layers,")):
        rule_rows = rows.filter(pl.col("rule") == rule)
        is_clean = rule_rows.height == 1 and rule_rows["state"][0] == State.CLEAN.value
        sentences += (
            f" {begin_sentence(rule_rows['reason'][0])}." if is_clean and noun in rule_rows["reason"][0] else ""
        )
    return sentences


def _hot_kernel_sentence(first: pl.DataFrame) -> str:
    """Return the finding about most GPU time in one kernel, if there is one among the first findings of causes."""
    problems = first.filter(pl.col("rule") == HOT_KERNEL)["problem"]
    return f" {problems[0]}" if problems.len() else ""


def _main_reason(rows: pl.DataFrame) -> str:
    """Return why most rules do not apply, with what to record, as a sentence; empty if most apply."""
    reasons = rows.filter(pl.col("state") == State.NOT_APPLICABLE.value)["reason"].drop_nulls()
    if 2 * reasons.len() < rows.height:
        return ""
    reason = str(reasons.mode().sort()[0])
    return f"{begin_sentence(reason)}."


def guidance(rows: pl.DataFrame, after_start_up: str = "") -> str:
    """Return what to do first, about the most expensive cause; or why there is none.

    Args:
        rows: The result of `tui.analysis.expert.findings.findings`.
        after_start_up: A sentence about the iterations after start-up, if start-up is the first cause.
    """
    first = first_findings(rows)
    if first.height:
        row = first.row(0, named=True)
        if row["severity"] == Severity.INFO.value and row["rule"] not in (HOT_KERNEL, SLOW_LAYERS, *MEASURED_KERNELS):
            besides = " apart from one-time costs" if row["cause"] == Cause.START_UP else ""
            sentences = _busy_sentence(rows) + (_top_kernel_sentence(rows) or _hot_kernel_sentence(first))
            return f"No large cost found{besides}.{sentences}{_clean_verdicts_sentence(rows)}"
        return f"Start here: {row['recommendation'] or row['problem']}{after_start_up}{_clean_verdicts_sentence(rows)}"
    if top := _top_kernel_sentence(rows):
        return f"No large cost found.{_busy_sentence(rows)}{top}{_clean_verdicts_sentence(rows)}"
    clean = counts(rows)[State.CLEAN.value]
    return _main_reason(rows) or (f"{plural(clean, 'rule')} found nothing." if clean else "")
