"""The profile restricted to some of its iterations, before any view, report or export."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.iterations.segments import WHOLE_RUN, iteration_at
from tui.analysis.iterations.serving import with_phases
from tui.analysis.memo import once_per_profile
from tui.model.errors import ProftuiError
from tui.model.schema import conform
from tui.text import plural

if TYPE_CHECKING:
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile


def select_iterations(profile: Profile, selection: Aggregation) -> Profile:
    """Return the profile of the iterations that were chosen.

    GPU work belongs to the iteration that it was launched in, if known; calls, ops, ranges and allocations to the one
    that they began in (a call that launched work: to the iteration of that work). Op numbers do not change. Sums over
    the whole run are omitted, with an issue, and so are sessions without these iterations; metrics, layer times and
    the recording tool's own figures stay. Choosing all iterations omits nothing; choosing the same again changes
    nothing.

    Args:
        profile: The profile, or some iterations of it.
        selection: The range, and the key that iterations end with.

    Raises:
        ProftuiError: There is no such key or no such iteration.
    """
    full_profile = with_iterations(profile, selection.key)
    assert full_profile.steps is not None, "with_iterations fills it"
    if not selection.is_part:
        return full_profile
    steps = _chosen_steps(full_profile, selection)
    if steps.is_empty():
        raise ProftuiError(
            f"{_request_text(selection)} not found", _existing_range(full_profile.steps, full_profile["sessions"])
        )
    # A run of one iteration stays unchanged, with its summaries.
    uncut = steps.filter(pl.col("source") == WHOLE_RUN)["session"]
    frames = dict(full_profile.frames)
    phase_steps = None if selection.phase is None else steps
    is_shown = _is_chosen(selection, "iteration", phase_steps) | pl.col("session").is_in(uncut.implode())
    activities = full_profile["activities"]
    frames["activities"] = activities.filter(is_shown)
    frames["api_calls"] = _calls(full_profile, selection, phase_steps)
    for name in ("ops", "ranges"):
        frame = full_profile[name]
        iteration = pl.coalesce(
            "iteration", pl.lit(iteration_at(full_profile.steps, frame["session"], frame["start_ns"]))
        )
        frames[name] = (
            frame.with_columns(iteration.alias("of")).filter(_is_chosen(selection, "of", phase_steps)).drop("of")
        )
    memory = full_profile["memory_events"]
    began = iteration_at(full_profile.steps, memory["session"], memory["start_ns"])
    frames["memory_events"] = (
        memory.with_columns(began.alias("of")).filter(_is_chosen(selection, "of", phase_steps)).drop("of")
    )
    frames["summary"] = full_profile["summary"].filter(pl.col("session").is_in(uncut.implode()))
    frames["issues"] = pl.concat(
        [full_profile["issues"], _left_out_issues(full_profile, steps, frames["summary"], selection)]
    )
    chosen = replace(selection, key=full_profile.aggregation.key)
    unrestricted = full_profile.all_iterations or full_profile
    return replace(full_profile, frames=frames, steps=steps, aggregation=chosen, all_iterations=unrestricted)


def iterations_text(profile: Profile) -> str:
    """Return a text about the iterations of a profile, as ``iterations 3:7``; empty for all of them.

    Such as ``iterations 3:7`` and ``iterations 3:7 by the key global_step``.
    """
    chosen = profile.aggregation
    key_clause = f"by the key {chosen.key}" if chosen.key else ""
    return (
        f"{existing_range_text(profile) or 'all iterations'} {key_clause}".strip()
        if chosen.is_part or key_clause
        else ""
    )


def existing_range_text(profile: Profile) -> str:
    """Return a text about the chosen range, and which of its iterations exist if not all do.

    Such as ``iterations 3:7`` and ``iterations 3:7 (there are 3 to 4)``; empty for all.
    """
    chosen, steps = profile.aggregation, profile.steps
    numbers = None if steps is None else steps["iteration"].drop_nulls()
    if not chosen.is_part or numbers is None or numbers.is_empty():
        return chosen.text
    in_order = numbers.sort()
    first, last = in_order[0], in_order[-1]
    requested = (first if chosen.first is None else chosen.first, last if chosen.last is None else chosen.last)
    if requested == (first, last):
        return chosen.text
    return f"{chosen.text} (there {f'are {first} to {last}' if first != last else f'is {first}'})"


def _chosen_steps(full_profile: Profile, selection: Aggregation) -> pl.DataFrame:
    """Return the rows of `Profile.steps` that are chosen."""
    assert full_profile.steps is not None, "with_iterations fills it"
    steps = full_profile.steps.filter(_is_chosen(selection, "iteration"))
    if selection.phase is None:
        return steps
    phases = with_phases(full_profile, steps.select("session", "iteration", "name"))["step_phase"]
    return steps.filter((phases == selection.phase).fill_null(False))


def _is_chosen(selection: Aggregation, column: str | pl.Expr, steps: pl.DataFrame | None = None) -> pl.Expr:
    """Return the condition for iteration numbers in the range and, if steps are given, among those of the session."""
    number = pl.col(column) if isinstance(column, str) else column
    inside = number.is_not_null()
    if steps is not None:
        session_number = (pl.col("session").cast(pl.Int64) * (1 << 32)) + number.cast(pl.Int64)
        chosen = steps["session"].cast(pl.Int64) * (1 << 32) + steps["iteration"].cast(pl.Int64)
        inside &= session_number.is_in(chosen.implode())
    inside &= True if selection.first is None else number >= selection.first
    inside &= True if selection.last is None else number <= selection.last
    return inside


def _calls(full_profile: Profile, selection: Aggregation, steps: pl.DataFrame | None) -> pl.DataFrame:
    """Return the API calls of the iterations: those that began in them, or whose work belongs to them.

    In sessions that could not be cut by their launches, calls that launched work follow the work.
    """
    is_own = _is_chosen(selection, pl.lit(_first_iterations(full_profile)), steps)
    return full_profile["api_calls"].filter(is_own | _reaches_into(full_profile, selection))


def _reaches_into(full_profile: Profile, selection: Aggregation) -> pl.Expr:
    """Return the condition for calls with work in an earlier iteration and in the chosen ones."""
    if selection.first is None:
        return pl.lit(False)
    return (pl.lit(_first_iterations(full_profile)) < selection.first) & (
        pl.lit(_last_iterations(full_profile)) >= selection.first
    )


def _first_iterations(full_profile: Profile) -> pl.Series:
    """Return the first iteration of each call."""
    return _call_iterations(full_profile)[0]


def _last_iterations(full_profile: Profile) -> pl.Series:
    """Return the last iteration of each call."""
    return _call_iterations(full_profile)[1]


@once_per_profile("sessions", "activities", "api_calls", "ops", "ranges")
def _call_iterations(full_profile: Profile) -> tuple[pl.Series, pl.Series]:
    """Return the first and the last iteration of each call, of all iterations."""
    calls, steps = full_profile["api_calls"], full_profile.steps
    assert steps is not None, "with_iterations fills it"
    began = iteration_at(steps, calls["session"], calls["start_ns"])
    # Recorded iterations have CPU times, unless only their work is recorded; found ones may have only GPU times.
    by_gpu = (pl.col("source") != "recorded") & (pl.col("cpu_start_ns") == pl.col("start_ns"))
    by_work = (pl.col("source") == "recorded") & pl.col("cpu_start_ns").is_null() & pl.col("iteration").is_not_null()
    follow = steps.filter(by_gpu | by_work)["session"].unique()
    follow = follow.filter(follow.is_in(calls["session"].unique().implode()))
    if follow.is_empty():
        return began, began
    keys = ["session", "correlation"]
    launched = (
        full_profile["activities"]
        .lazy()
        .filter(pl.col("session").is_in(follow.implode()), pl.col("correlation").is_not_null())
        .group_by(keys)
        .agg(pl.col("iteration").min().alias("first"), pl.col("iteration").max().alias("last"))
        .with_columns(pl.lit(True).alias("is_launched"))
        .collect()
    )
    work_iterations = calls.select(keys).join(launched, on=keys, how="left", maintain_order="left")
    has_iteration = work_iterations["is_launched"].is_not_null()
    return began.zip_with(~has_iteration, work_iterations["first"]), began.zip_with(
        ~has_iteration, work_iterations["last"]
    )


def _left_out_issues(
    full_profile: Profile, steps: pl.DataFrame, summary: pl.DataFrame, selection: Aggregation
) -> pl.DataFrame:
    """Return issues about data that the selection drops in addition to other iterations."""
    rows = []
    lost = full_profile["summary"].group_by("session").len().join(summary, on="session", how="anti").sort("session")
    for session, rows_lost in lost.iter_rows():
        reason = (
            f"{plural(rows_lost, 'total')} of the whole run cannot be split by "
            f"iteration: not shown for {selection.text}"
        )
        rows.append({"session": session, "severity": "info", "reason": reason})
    with_work = set(full_profile["activities"]["session"].unique().to_list()) - set(steps["session"].unique().to_list())
    rows += [
        {
            "session": session,
            "severity": "info",
            "reason": f"no {_request_text(selection)} in this session: session skipped",
        }
        for session in sorted(with_work)
    ]
    return conform("issues", pl.DataFrame(rows, schema_overrides={"session": pl.UInt32}))


def _request_text(selection: Aggregation) -> str:
    """Return the requested range as text, to follow ``there is no``."""
    if selection.phase is not None:
        range_text = replace(selection, phase=None).text
        return f"{selection.phase} step in {range_text}" if range_text else f"{selection.phase} step"
    if selection.first == selection.last:
        return selection.text
    if selection.last is None:
        return f"iteration from {selection.first} on"
    return f"iteration {0 if selection.first is None else selection.first} to {selection.last}"


def _existing_range(steps: pl.DataFrame, sessions: pl.DataFrame) -> str:
    """Return a text about the iterations that exist, of the first few sessions if they differ."""
    ranges = (
        steps.drop_nulls("iteration")
        .group_by("session")
        .agg(pl.col("iteration").min().alias("first"), pl.col("iteration").max().alias("last"), pl.len().alias("count"))
        .sort("session")
    )
    if ranges.is_empty():
        return "no iterations: start times not recorded"
    texts = []
    for row in (
        ranges.unique(["first", "last", "count"], keep="first", maintain_order=True).head(3).iter_rows(named=True)
    ):
        text = (
            f"iterations: {row['first']} to {row['last']}"
            if row["count"] > 1
            else f"the only iteration is {row['first']}"
        )
        source = sessions.filter(pl.col("session") == row["session"])["iteration_source"][0]
        text += f" ({source})" if source else ""
        texts.append(text if sessions.height == 1 else f"session {row['session']}: {text}")
    return "; ".join(texts)
