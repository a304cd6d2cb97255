"""Everything that the dashboard shows, in parts that are computed one after another."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from tui.analysis.dashboard import dashboard
from tui.analysis.dashboard_facts import WHOLE_RUN
from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import counts, leads, summary
from tui.analysis.expert.rule import Severity, State
from tui.analysis.gpu_time.breakdown import breakdown, utilization
from tui.analysis.gpu_time.idle_gaps import longest_gaps
from tui.analysis.gpu_time.utilization_over_time import busy_intervals
from tui.analysis.grouping import unique_values
from tui.analysis.iterations.iteration_table import iterations, sources
from tui.analysis.iterations.times import USES, iteration_times, iterations_with_uses
from tui.analysis.memo import once_per_profile
from tui.cache.spill import low_memory
from tui.fmt import count
from tui.model.errors import ProftuiError
from tui.model.profile import column_view
from tui.runtime import COLUMN_BYTES, keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tui.model.profile import Profile


def in_two_threads(makers: Sequence[Callable[[], Any]]) -> Iterator[Any]:
    """The results of functions in their order; each is started in its order, by whichever thread is free.

    Who stops asking stops those that have not started.

    >>> list(in_two_threads([lambda: "a", lambda: "b"]))
    ['a', 'b']
    """
    # Two at once take the memory of two, and so does what is kept: not of an input that memory may not hold.
    may_take = not low_memory()
    pool = ThreadPoolExecutor(2 if may_take else 1, "analysis")
    with keep_freed_memory(COLUMN_BYTES) if may_take else nullcontext():
        try:
            futures: list[Future[Any]] = [pool.submit(make) for make in makers]
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


GAPS: Final = 5
"""So many idle gaps are shown."""


@once_per_profile("activities", "api_calls", "ops", "ranges", "sessions")
def idle_gaps(profile: Profile) -> pl.DataFrame:
    """The longest rows of `tui.analysis.gpu_time.idle_gaps.gaps`, with more columns.

    after_kind (the kind of the work after each) and wall_pct (its share of the wall time).
    """
    found = longest_gaps(profile, GAPS)
    kinds = (
        profile["activities"]
        .lazy()
        .filter(pl.col("activity").is_in(found["activity"].to_list()))
        .select("session", "activity", pl.col("kind").cast(pl.String).alias("after_kind"))
        .collect()
    )
    walls = utilization(profile).select("session", "wall_ns").unique("session")
    wall_pct = pl.when(pl.col("wall_ns") > 0).then(100 * pl.col("duration_ns") / pl.col("wall_ns"))
    return (
        found.join(kinds, on=["session", "activity"], how="left", maintain_order="left")
        .join(walls, on="session", how="left", maintain_order="left")
        .with_columns(wall_pct=wall_pct)
        .drop("wall_ns")
    )


def wall_time(profile: Profile) -> pl.DataFrame:
    """The rows of `tui.analysis.gpu_time.breakdown.breakdown` of the sessions with GPU work of known times."""
    rows = breakdown(profile)
    activities = profile["activities"]
    with_work = unique_values(column_view(activities, "session").filter(activities["start_ns"].is_not_null()))
    return rows.filter(pl.col("session").is_in(with_work.implode()))


def iteration_spreads(profile: Profile) -> pl.DataFrame:
    """The rows of `tui.analysis.iterations.times.iteration_times` of the sessions that have more than the whole run."""
    known = sources(profile)
    rows = iteration_times(profile)
    return rows.filter([known.get(session) != WHOLE_RUN for session in rows["session"]])


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
    """The iterations of every session that has more than the whole run; what they were used for is left open."""
    unused = [pl.lit(None, pl.Int64).alias(use) for use in USES]
    return _courses(profile, iterations(profile).with_columns(pl.lit(None, pl.Boolean).alias("aggregated"), *unused))


def iteration_courses_with_uses(profile: Profile) -> list[IterationCourse]:
    """The same with what they were used for, where that is known."""
    return _courses(profile, iterations_with_uses(profile))


def _courses(profile: Profile, rows: pl.DataFrame) -> list[IterationCourse]:
    known = sources(profile)
    rows = rows.drop_nulls(["iteration", "duration_ns"])
    rows = rows.select("session", "iteration", "duration_ns", "aggregated", *USES)
    courses = []
    for spread in iteration_spreads(profile).iter_rows(named=True):
        session = spread["session"]
        own = rows.filter(pl.col("session") == session)
        courses.append(IterationCourse(session, known.get(session, "recorded"), own, spread))
    return courses


class DashboardParts(NamedTuple):
    """Something for each part, in the order in which they are there."""

    board: Callable[..., Any]
    """`dashboard`."""
    courses: Callable[..., Any]
    """`iteration_courses`."""
    busy: Callable[..., Any]
    """`busy_intervals`: from then on `tui.analysis.gpu_time.utilization_over_time.busy_over_time` is quick."""
    wall: Callable[..., Any]
    """`wall_time`."""
    gaps: Callable[..., Any]
    """`idle_gaps`."""
    advice: Callable[..., Any]
    """`advice`, or a text: why there is none."""
    uses: Callable[..., Any]
    """`iteration_courses_with_uses`."""


def parts(profile: Profile, *, gpu: str | None = None) -> Iterator[Any]:
    """The value of each of `DashboardParts`, one after another, computed in two threads.

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.

    Raises:
        ProftuiError: Nothing is known of ``gpu``, or the user's op types cannot be read.
    """
    makers = DashboardParts(
        board=partial(dashboard, profile, gpu=gpu),
        courses=partial(iteration_courses, profile),
        busy=partial(busy_intervals, profile),
        wall=partial(wall_time, profile),
        gaps=partial(idle_gaps, profile),
        advice=partial(_advice, profile, gpu),
        uses=partial(iteration_courses_with_uses, profile),
    )
    return in_two_threads(makers)


def _advice(profile: Profile, gpu: str | None) -> Advice | str:
    try:
        return advice(profile, gpu=gpu)
    except ProftuiError as error:
        return str(error)


TOP_FINDINGS: Final = 3
"""So many findings are shown."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the rules found, in short."""

    counts: Mapping[str, int]
    """Number of findings by severity, and of rules that are clean or do not apply (`findings_table.counts`)."""

    top_findings: pl.DataFrame
    """The first finding of each of the `TOP_FINDINGS` most expensive causes: rows of `findings_table.leads`."""

    guidance: str
    """What to do first, about the most expensive cause; or why there is none."""

    summary: str
    """How many causes there are of each severity, in words."""

    reasons: frozenset[str]
    """Why rules do not apply."""


def advice(profile: Profile, *, gpu: str | None = None) -> Advice:
    """The most expensive findings, at most one a cause, and where to start.

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.
    """
    rows = findings(profile, gpu=gpu)
    numbers = counts(rows)
    first = leads(rows).head(TOP_FINDINGS)
    reasons = rows.filter(pl.col("state") == State.NOT_APPLICABLE.value)["reason"].drop_nulls()
    return Advice(numbers, first, _guidance(first, numbers), summary(rows), frozenset(reasons))


def _guidance(first: pl.DataFrame, numbers: Mapping[str, int]) -> str:
    clean, not_applicable = numbers[State.CLEAN.value], numbers[State.NOT_APPLICABLE.value]
    if first.height:
        row = first.row(0, named=True)
        if row["severity"] == Severity.INFO.value:
            return "No large cost found."
        return f"Start here: {row['recommendation'] or row['problem']}"
    if clean:
        found_nothing = f"{count(clean)} rule{'s' if clean != 1 else ''} found nothing"
        return f"{found_nothing}; {count(not_applicable)} do not apply to this profile."
    return "No rule applies to this profile." if not_applicable else ""
