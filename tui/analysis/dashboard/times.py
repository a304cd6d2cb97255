"""What the dashboard says of the course of time: the use of wall time, the longest idle gaps, iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.dashboard.performance import WHOLE_RUN
from tui.analysis.gpu_time.breakdown import breakdown
from tui.analysis.gpu_time.gaps import longest_gaps
from tui.analysis.grouping import present
from tui.analysis.iterations.tables import iterations, sources
from tui.analysis.iterations.times import iteration_times
from tui.analysis.iterations.uses import USES, iterations_with_uses
from tui.analysis.memo import once_per_profile
from tui.model.compact import looked_at

if TYPE_CHECKING:
    from tui.model.profile import Profile

GAPS: Final = 5
"""So many idle gaps are shown."""


@once_per_profile("activities", "api_calls", "sessions")
def idle_gaps(profile: Profile) -> pl.DataFrame:
    """The longest rows of `tui.analysis.gpu_time.gaps.gaps`, with after_kind: the kind of the work after each."""
    found = longest_gaps(profile, GAPS)
    kinds = (
        profile["activities"]
        .lazy()
        .filter(pl.col("activity").is_in(found["activity"].to_list()))
        .select("session", "activity", pl.col("kind").cast(pl.String).alias("after_kind"))
        .collect()
    )
    return found.join(kinds, on=["session", "activity"], how="left", maintain_order="left")


def wall_time(profile: Profile) -> pl.DataFrame:
    """The rows of `tui.analysis.gpu_time.breakdown.breakdown` of the sessions with GPU work of known times."""
    rows = breakdown(profile)
    activities = profile["activities"]
    with_work = present(looked_at(activities, "session").filter(activities["start_ns"].is_not_null()))
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
    """session, iteration, duration_ns, aggregated, and what the time was used for (`tui.analysis.iterations.uses`), in
    order of time; those that are not counted are left out."""
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
