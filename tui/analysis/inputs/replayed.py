"""Sessions whose kernels were replayed to measure them: their durations are of no run, and are added to none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.grouping import present
from tui.analysis.inputs.recording import Tool, tool_of
from tui.model.compact import looked_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile


def sessions_of_kernels_alone(profile: Profile) -> set[int]:
    """The sessions of Nsight Compute: of other GPU work than kernels they say nothing."""
    named = profile["sessions"].select("session", "format", "tool").iter_rows()
    return {session for session, format_name, tool in named if tool_of(format_name, tool) is Tool.NCU}


def replayed_sessions(profile: Profile) -> tuple[int, ...]:
    """The sessions of Nsight Compute, where another session holds GPU times of a real run; else none."""
    replayed = sessions_of_kernels_alone(profile)
    if not replayed:
        return ()
    in_summary = profile["summary"].filter(pl.col("section") == "gpu")["session"].unique()
    with_work = {*present(looked_at(profile["activities"], "session")).to_list(), *in_summary.to_list()}
    return tuple(sorted(replayed)) if with_work - replayed else ()


def without_sessions(profile: Profile, sessions: Sequence[int]) -> Profile:
    """The same profile without the rows of some sessions; numbers stay as they are."""
    if not sessions:
        return profile
    left = pl.col("session").is_in(list(sessions)).fill_null(False)
    frames = {name: data.filter(~left) for name, data in profile.frames.items()}
    steps = None if profile.steps is None else profile.steps.filter(~left)
    return replace(profile, frames=frames, steps=steps)


def why_left_out(sessions: Sequence[int]) -> str:
    """What to say of sessions that are not added up; empty where there are none.

    >>> why_left_out([1])
    'session 1 is of Nsight Compute, which replays kernels: its times are not added to those of the run'
    """
    if not sessions:
        return ""
    numbers = ", ".join(map(str, sessions))
    several = len(sessions) > 1
    return (
        f"session{'s' if several else ''} {numbers} {'are' if several else 'is'} of Nsight Compute, which replays "
        f"kernels: {'their' if several else 'its'} times are not added to those of the run"
    )
