"""Iterations: how long each step of a training or inference loop took, and the GPU work that was launched in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import share, total
from tui.analysis.gpu_time.idle_gaps import busy_sets
from tui.analysis.gpu_time.interval_sets import EMPTY
from tui.analysis.gpu_time.timelines import LATE_NS, timelines
from tui.analysis.grouping import group_rows, unique_values
from tui.analysis.iterations.keys import Key, find_key, key_cut
from tui.analysis.iterations.repeating_pattern import pattern_cut
from tui.analysis.iterations.segments import (
    DETECTED,
    NO_PHASE,
    OUTSIDE,
    RECORDED,
    WHOLE_RUN,
    iteration_at,
    matching_rows,
    phase_table,
    take_rows,
)
from tui.analysis.launch_calls import launch_calls
from tui.analysis.memo import once_per_profile, store_result
from tui.cache.spill import release_memory
from tui.correlation.nesting import take
from tui.model.columns import ColumnKind, columns
from tui.model.profile import column_view, session_rows
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tui.model.profile import Profile


OUTSIDE_WORDS: Final = "outside of iterations"
"""The name of the row of work launched before, between or after iterations."""

KEYS: Final = ("session", "iteration")


def recorded_iterations(profile: Profile) -> pl.DataFrame:
    """Return one row per iteration, by session and number, and a last row per session for work outside of them.

    An iteration lasts from the later of its start on the CPU and the end of the GPU work launched before it, to the
    later of its end on the CPU and the end of the GPU work launched in it. Where the CPU runs ahead, this is the period
    of the loop: from the end of one iteration's GPU work to the end of the next one's. TensorBoard's PyTorch profiler
    measures steps in the same way. If the GPU begins the first one more than `LATE_NS` after its end on the CPU, it
    starts there: until then the GPU ran work of an unrecorded step.

    Columns: session, iteration (as recorded: it can start anywhere; null in the last row), phase (`RECORDED` or
    `OUTSIDE`), name (of the range that marks it, or `OUTSIDE_WORDS`), start_ns and duration_ns (as above), cpu_start_ns
    and cpu_end_ns (of the range that marks it, else of its ops: calls and ranges that start between them belong to it),
    kernels_launched, gpu_ns (null if no duration of such work is known). Both are null, not 0, if no launch of the
    session's work is known (`unassigned_sessions`). Sessions that record no iterations have no rows.
    """
    marks, op_iterations = _marks(profile), _op_iterations(profile)
    activities = profile["activities"]
    numbered = unique_values(
        column_view(activities, "session").filter(column_view(activities, "iteration").is_not_null())
    )
    recorded = pl.concat([frame["session"] for frame in (marks, op_iterations)] + [numbered]).unique()
    work = group_rows(
        activities,
        KEYS,
        [
            ((pl.col("kind") == "kernel") | (pl.col("kind") == "graph")).sum().cast(pl.Int64).alias("kernels_launched"),
            total().alias("gpu_ns"),
            pl.col("start_ns").min().alias("gpu_start_ns"),
            (pl.col("start_ns") + pl.col("duration_ns")).max().alias("gpu_end_ns"),
        ],
    ).filter(pl.col("session").is_in(recorded.implode()))
    named = pl.concat([frame.select(KEYS).drop_nulls("iteration") for frame in (marks, op_iterations, work)]).unique()
    outside = work.filter(pl.col("iteration").is_null()).select(KEYS)
    has_work = pl.col("session").is_in(unique_values(column_view(activities, "session")).implode())
    unassigned = unassigned_sessions(profile) if len(recorded) else []
    is_assigned = ~pl.col("session").is_in(unassigned)
    is_outside = pl.col("iteration").is_null()
    rows = (
        pl.concat([named, outside])
        .join(marks, on=KEYS, how="left", nulls_equal=True)
        .join(op_iterations, on=KEYS, how="left", nulls_equal=True)
        .join(work, on=KEYS, how="left", nulls_equal=True)
        .with_columns(
            pl.coalesce("start_ns", "op_start_ns").alias("cpu_start_ns"),
            pl.coalesce(pl.col("start_ns") + pl.col("duration_ns"), "op_end_ns").alias("cpu_end_ns"),
        )
    )
    return (
        _with_periods(rows, activities)
        .sort(*KEYS, nulls_last=True)
        .select(
            *KEYS,
            pl.when(is_outside).then(pl.lit(OUTSIDE)).otherwise(pl.lit(RECORDED)).alias("phase"),
            pl.when(is_outside).then(pl.lit(OUTSIDE_WORDS)).otherwise(pl.col("name").cast(pl.String)).alias("name"),
            "start_ns",
            "duration_ns",
            "cpu_start_ns",
            "cpu_end_ns",
            *(
                pl.when(has_work & is_assigned & pl.col("kernels_launched").is_null())
                .then(0)
                .otherwise(column)
                .alias(column)
                for column in ("kernels_launched", "gpu_ns")
            ),
        )
    )


def _marks(profile: Profile) -> pl.DataFrame:
    """Return the range that marks each iteration: `KEYS`, name, start_ns, duration_ns."""
    return (
        profile["ranges"]
        .drop_nulls("iteration")
        .group_by(KEYS)
        .agg(
            pl.col("name").first(),
            pl.col("start_ns").min(),
            ((pl.col("start_ns") + pl.col("duration_ns")).max() - pl.col("start_ns").min()).alias("duration_ns"),
        )
    )


def _op_iterations(profile: Profile) -> pl.DataFrame:
    """Return the time of the ops of each iteration: `KEYS`, op_start_ns, op_end_ns."""
    return (
        profile["ops"]
        .lazy()
        .drop_nulls("iteration")
        .group_by(KEYS)
        .agg(
            pl.col("start_ns").min().alias("op_start_ns"),
            (pl.col("start_ns") + pl.col("duration_ns")).max().alias("op_end_ns"),
        )
        .collect()
    )


def unassigned_sessions(profile: Profile) -> list[int]:
    """Return the sessions whose GPU work is in no recorded iteration because none of its launches is recorded."""
    activities = profile["activities"]
    sessions = column_view(activities, "session")
    numbered = unique_values(sessions.filter(column_view(activities, "iteration").is_not_null())).to_list()
    without = set(unique_values(sessions).to_list()) - set(numbered)
    if not without:
        return []
    launched = unique_values(sessions.filter(launch_calls(profile)["launch_ns"].is_not_null())).to_list()
    return sorted(without - set(launched))


def _with_periods(rows: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """Return iterations with start_ns and duration_ns of their period instead of the marking range.

    Args:
        rows: With start_ns and duration_ns of that range, cpu_end_ns, gpu_start_ns and gpu_end_ns.
        activities: All GPU work.
    """
    timed = pl.col("iteration").is_not_null() & pl.col("duration_ns").is_not_null()
    ordered = rows.filter(timed).sort("session", "start_ns")
    # In sessions without recorded iterations, all work is outside.
    marked = activities if ordered.height else activities.clear()
    outside = (
        marked.lazy()
        .filter(
            pl.col("session").is_in(ordered["session"].unique().implode()),
            pl.col("iteration").is_null(),
            pl.col("start_ns").is_not_null(),
            pl.col("duration_ns").is_not_null(),
        )
        .select("session", "start_ns", (pl.col("start_ns") + pl.col("duration_ns")).alias("outside_end_ns"))
        .sort("session", "start_ns")
        .with_columns(pl.col("outside_end_ns").cum_max().over("session"))
        .collect()
    )
    in_flight = (
        ordered.drop_nulls("gpu_start_ns")
        .select(*KEYS, "gpu_start_ns")
        .sort("gpu_start_ns")
        .join_asof(
            outside.sort("start_ns"),
            left_on="gpu_start_ns",
            right_on="start_ns",
            by="session",
            check_sortedness=False,
        )
        .drop_nulls("outside_end_ns")
        .select(*KEYS, pl.min_horizontal("outside_end_ns", "gpu_start_ns").alias("outside_end_ns"))
    )
    previous_end = pl.col("gpu_end_ns").cum_max().shift().over("session")
    previous_end = previous_end.forward_fill().over("session")
    is_first = previous_end.is_null() & pl.col("outside_end_ns").is_null()
    waited = is_first & (pl.col("gpu_start_ns") - pl.col("cpu_end_ns") >= LATE_NS)
    start = pl.max_horizontal("start_ns", previous_end, "outside_end_ns", pl.when(waited).then("gpu_start_ns"))
    end = pl.max_horizontal("cpu_end_ns", "gpu_end_ns")
    periods = (
        ordered.join(in_flight, on=KEYS, how="left", maintain_order="left")
        .with_columns(start.alias("from_ns"), end.alias("until_ns"))
        .filter(pl.col("until_ns") > pl.col("from_ns"))
        .select(*KEYS, "from_ns", (pl.col("until_ns") - pl.col("from_ns")).alias("period_ns"))
    )
    return rows.join(periods, on=KEYS, how="left").with_columns(
        pl.coalesce("from_ns", "start_ns").alias("start_ns"),
        pl.coalesce("period_ns", "duration_ns").alias("duration_ns"),
    )


# These names are the program's own words, not C++ names to shorten.
_NAME: Final = replace(
    columns("name")[0],
    title="Marked by",
    kind=ColumnKind.TEXT,
    help="The range or annotation that marks it, or the key that it ends with.",
    priority=2,
)

ITERATIONS: Final = TableSpec(
    "iterations",
    "Iterations",
    (
        # Rows without a number are for work launched before, between or after the iterations.
        replace(columns("iteration")[0], absent="outside"),
        *columns(
            "session",
            "phase",
            "duration_ns",
            "iteration_cpu_ns",
            "gpu_ns",
            "time_pct",
            "kernels_launched",
            "busy_ns",
            "busy_pct",
            "idle_ns",
        ),
        _NAME,
        replace(columns("start_ns")[0], priority=5),
        *columns("rank"),
    ),
    key=("session", "iteration", "phase"),
    weight="gpu_ns",
    pinned="iteration",
    min_pinned_cells=10,
)

_WORK: Final = (
    "session",
    "kind",
    "name",
    "short_name",
    "start_ns",
    "duration_ns",
    "device",
    "stream",
    "correlation",
)


_TABLE: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "iteration": pl.Int32,
        "phase": pl.String,
        "name": pl.String,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "cpu_start_ns": pl.Int64,
        "cpu_end_ns": pl.Int64,
        "kernels_launched": pl.Int64,
        "gpu_ns": pl.Int64,
        "source": pl.String,
    }
)


ITERATION_FRAMES: Final[Mapping[str, pl.Schema]] = MappingProxyType(
    {
        "steps": pl.Schema([*_TABLE.items(), ("busy_ns", pl.Int64), ("idle_ns", pl.Int64), ("busy_pct", pl.Float64)]),
        "reasons": pl.Schema({"session": pl.UInt32, "words": pl.String}),
        "iteration": pl.Schema({"iteration": pl.Int32}),
    }
)
"""The frames that hold what is found of the iterations: `Profile.steps`, how they were found in each session, and the
iteration of each activity where the profile does not record it."""


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of all sessions."""

    table: pl.DataFrame
    """The iterations, as `tui.model.profile.Profile.steps`."""
    numbers: pl.Series | None
    """The iteration of each activity, where it differs from the frame ``activities``."""
    sources: Mapping[int, str]
    """How iterations were found, for sessions that do not record them."""


def iterations(profile: Profile) -> pl.DataFrame:
    """Return one row per iteration, in time order, and rows for work outside of them.

    Columns: session, rank, iteration (its number: as recorded, which can start anywhere, else from 0; null if it is not
    counted), phase (one of `segments.PHASES`), name (of the range that marks it or the key that it ends with, or
    `OUTSIDE`), start_ns and duration_ns (of that range; by a key from one end of it to the next; as detected from its
    first launch on the GPU to the first of the next one; of the last one to the end of GPU work), kernels_launched,
    gpu_ns (summed durations of the GPU work that was launched in it, whenever it ran), time_pct (its share of the
    session's GPU time), busy_ns (time from its start to its end in which any GPU of the session had work, of whatever
    iteration), busy_pct, idle_ns (the rest of its duration). Kernels and GPU time of the rows of a session add up to
    those of the session.

    A session without recorded iterations has those that are found (`repeating_pattern`), or its whole run as one; a
    session without start times has none.
    """
    table = profile.steps if profile.steps is not None else _recorded_or_found(profile).table
    recorded = (pl.col("source") == "recorded") & pl.col("iteration").is_not_null()
    cpu_ns = pl.when(recorded).then(pl.col("cpu_end_ns") - pl.col("cpu_start_ns"))
    return (
        table.with_columns(cpu_ns.alias("iteration_cpu_ns"))
        .drop("cpu_start_ns", "cpu_end_ns", "source")
        .with_columns(share("gpu_ns"), pl.col("name").cast(NAME))
        .join(profile["sessions"].select("session", "rank"), on="session", how="left", maintain_order="left")
        .select(
            "session",
            "rank",
            "iteration",
            "phase",
            "name",
            "start_ns",
            "duration_ns",
            "iteration_cpu_ns",
            "kernels_launched",
            "gpu_ns",
            "time_pct",
            "busy_ns",
            "busy_pct",
            "idle_ns",
        )
    )


def cpu_leads(profile: Profile) -> pl.DataFrame:
    """Return how far the CPU runs ahead of the GPU in sessions with recorded iterations: session, cpu_lead_ns.

    The lead of an iteration is the time from its end on the CPU to the end of the GPU work launched in it; this is the
    median, and 0 if the CPU waits for the GPU.
    """
    table = profile.steps if profile.steps is not None else _recorded_or_found(profile).table
    lead = pl.col("start_ns") + pl.col("duration_ns") - pl.col("cpu_end_ns")
    recorded = table.filter(pl.col("source") == "recorded", pl.col("iteration").is_not_null())
    return recorded.group_by("session").agg(lead.median().round().cast(pl.Int64).alias("cpu_lead_ns"))


def sources(profile: Profile) -> dict[int, str]:
    """Return the source of each session's iterations: ``recorded``, ``detected``, ``key`` or ``whole run``."""
    table = profile.steps if profile.steps is not None else _recorded_or_found(profile).table
    return dict(table.select("session", "source").unique("session", maintain_order=True).iter_rows())


def reasons(profile: Profile) -> dict[int, str]:
    """Return for each session without recorded iterations how they were found, or why the whole run is one."""
    if profile.steps is None:
        return dict(_recorded_or_found(profile).sources)
    by_session = profile["sessions"].select("session", "iteration_source").iter_rows()
    session_sources = sources(profile)
    return {
        session: text for session, text in by_session if session_sources.get(session, "recorded") != "recorded" and text
    }


def with_iterations(profile: Profile, key: str | None = None) -> Profile:
    """Return the profile with iterations where its sessions record none, or with those that end with a key.

    It fills ``iteration`` of activities and ops (except if the whole run is one), ``sessions.iteration_source`` and
    `Profile.steps`, the table. A profile that has them is returned as it is.

    Args:
        profile: The profile.
        key: The name of a kernel, op, range or API call (`iterations.keys.find_key`), which divides all sessions, even
            those with recorded iterations.

    Raises:
        ProftuiError: There is no such key, or several names match.
    """
    if profile.steps is not None and key in (None, profile.aggregation.key):
        return profile
    result = _recorded_or_found(profile) if key is None else _divide_sessions(profile, find_key(profile, key))
    frames = dict(profile.frames)
    if result.numbers is not None:
        frames["activities"] = profile["activities"].with_columns(result.numbers)
        frames["ops"] = _with_iteration(profile["ops"], result)
    if key is not None:
        frames["ranges"] = profile["ranges"].with_columns(pl.lit(None, pl.Int32).alias("iteration"))
    if result.sources:
        source_text = pl.col("session").replace_strict(result.sources, default=None, return_dtype=pl.String)
        frames["sessions"] = profile["sessions"].with_columns(
            pl.coalesce(source_text, "iteration_source").alias("iteration_source")
        )
    chosen = profile.aggregation if key is None else replace(profile.aggregation, key=key)
    return replace(profile, frames=frames, steps=result.table, aggregation=chosen, all_iterations=None)


@once_per_profile("sessions", "ranges", "activities", "ops", "api_calls")
def _recorded_or_found(profile: Profile) -> Iterations:
    """Return the iterations as recorded, else as detected."""
    return _divide_sessions(profile, None)


def _divide_sessions(profile: Profile, key: Key | None) -> Iterations:
    """Return the iterations of every session: by a key, or as recorded, else as detected."""
    recorded = recorded_iterations(profile) if key is None else None
    frames = [] if recorded is None else [recorded.with_columns(pl.lit("recorded").alias("source"))]
    recorded_sessions = set() if recorded is None else set(recorded["session"].unique().to_list())
    work = profile["activities"].select(_WORK)
    timed = work.lazy().filter(pl.col("start_ns").is_not_null()).select(pl.col("session").unique()).collect()
    reasons_found: dict[int, str] = {}
    numbers: npt.NDArray[np.int32] | None = None
    for session in sorted(set(timed["session"].to_list()) - recorded_sessions):
        rows = matching_rows(work["session"] == session)
        session_work = take_rows(work, rows)
        calls = session_rows(profile["api_calls"], session)
        cut, phases = pattern_cut(session_work, calls) if key is None else key_cut(profile, session, key, session_work)
        release_memory()
        frames.append(
            phase_table(cut, session_work, phases).select(
                pl.lit(session, pl.UInt32).alias("session"), pl.all(), pl.lit(cut.source).alias("source")
            )
        )
        del session_work
        release_memory()
        reasons_found[session] = f"{cut.source}: {cut.reason}"
        if cut.source != WHOLE_RUN:
            numbers = np.full(work.height, NO_PHASE, np.int32) if numbers is None else numbers
            # `NO_PHASE` is -1, which indexes the appended value.
            numbers[rows] = take(np.append(cut.numbers, NO_PHASE).astype(np.int32), phases)
        del rows, phases
        release_memory()
    table = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema=_TABLE)
    numbers_found = None
    if numbers is not None:
        numbers_found = pl.Series("iteration", numbers)
        numbers_found = numbers_found.set(numbers_found == NO_PHASE, None)
        if recorded_sessions:
            numbers_found = pl.select(
                pl.coalesce(pl.Series(numbers_found), profile["activities"]["iteration"])
            ).to_series()
    return Iterations(_with_busy(profile, table.sort("session", maintain_order=True)), numbers_found, reasons_found)


def iteration_frames(profile: Profile) -> dict[str, pl.DataFrame]:
    """Return the iterations found in a profile as frames of `ITERATION_FRAMES`."""
    result = _recorded_or_found(profile)
    reasons_found = {"session": list(result.sources), "words": list(result.sources.values())}
    numbers = {} if result.numbers is None else {"iteration": result.numbers.to_frame("iteration")}
    return {
        "steps": result.table.select(*ITERATION_FRAMES["steps"]),
        "reasons": pl.DataFrame(reasons_found, ITERATION_FRAMES["reasons"]),
        **numbers,
    }


def store_iterations(profile: Profile, results: Mapping[str, pl.DataFrame]) -> None:
    """Store the frames of `iteration_frames` as the iterations of the same profile."""
    numbers = results["iteration"].to_series() if "iteration" in results else None
    if numbers is None or len(numbers) == profile["activities"].height:
        store_result(
            _recorded_or_found, profile, Iterations(results["steps"], numbers, dict(results["reasons"].iter_rows()))
        )


def _with_iteration(ops: pl.DataFrame, result: Iterations) -> pl.DataFrame:
    """Return ops with the iteration that they begin in, in the sessions where it is not recorded."""
    cut = result.table.filter(pl.col("source").is_in([DETECTED, "key"]))
    if ops.is_empty() or cut.is_empty():
        return ops
    return ops.with_columns(
        pl.when(pl.col("session").is_in(cut["session"].unique().implode()))
        .then(iteration_at(cut, ops["session"], ops["start_ns"]))
        .otherwise("iteration")
        .alias("iteration")
    )


def _with_busy(profile: Profile, rows: pl.DataFrame) -> pl.DataFrame:
    """Add busy_ns, busy_pct and idle_ns."""
    frames = []
    for (session,), group in rows.group_by("session", maintain_order=True):
        sets = zip(timelines(profile), busy_sets(profile), strict=True)
        gpus = [busy for timeline, busy in sets if timeline.session == session]
        busy_set = reduce(or_, gpus) if gpus else EMPTY
        starts = group["start_ns"].fill_null(0).to_numpy()
        ends = starts + group["duration_ns"].fill_null(0).to_numpy()
        busy = pl.Series("busy_ns", busy_set.covered_before(ends) - busy_set.covered_before(starts), dtype=pl.Int64)
        # The idle time of an iteration is unknown if its own work has no durations; not if that work is unknown.
        is_known = (
            pl.lit(bool(gpus))
            & pl.all_horizontal(pl.col(name).is_not_null() for name in ("start_ns", "duration_ns"))
            & (pl.col("gpu_ns").is_not_null() | pl.col("kernels_launched").is_null())
        )
        frames.append(group.with_columns(busy).with_columns(pl.when(is_known).then("busy_ns").alias("busy_ns")))
    with_busy = pl.concat(frames) if frames else rows.with_columns(pl.lit(None, pl.Int64).alias("busy_ns"))
    return with_busy.with_columns(
        (pl.col("duration_ns") - pl.col("busy_ns")).alias("idle_ns"),
        pl.when(pl.col("duration_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("duration_ns")).alias("busy_pct"),
    )
