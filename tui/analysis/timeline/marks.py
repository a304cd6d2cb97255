"""Where iterations begin, for the line above the lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from tui.model.profile import Profile


def iteration_marks(profile: Profile, session: int, shift_ns: int = 0) -> tuple[tuple[int, str], ...]:
    """The begin of each iteration of a session with its number, in order of time.

    Args:
        profile: Whose iterations are known (`iterations.tables.with_iterations`); others have none.
        session: Which session.
        shift_ns: Added to the session's own times.
    """
    if profile.steps is None:
        return ()
    found = (
        profile.steps.filter(pl.col("session") == session, pl.col("source") != "whole run")
        .drop_nulls(["iteration", "start_ns"])
        .sort("start_ns")
    )
    return tuple((start + shift_ns, str(number)) for start, number in found.select("start_ns", "iteration").iter_rows())
