"""Where iterations begin and end, for the line above the lanes."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from tui.model.profile import Profile


def iteration_marks(profile: Profile, session: int, shift_ns: int = 0) -> tuple[tuple[int, str], ...]:
    """The begin of each iteration of a session with its number, and where none is on any more an empty text, by time.

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
        .select("start_ns", "iteration", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
    )
    # Of an iteration whose end is not known nothing says that it is over.
    latest = found.with_columns(latest=pl.col("end_ns").cum_max(), after=pl.col("start_ns").shift(-1))
    is_over = pl.col("after").is_null() | (pl.col("latest") < pl.col("after"))
    ended = latest.filter(pl.col("end_ns").is_not_null() & is_over)["latest"]
    begun = ((start, str(number)) for start, number, _ in found.iter_rows())
    marks = sorted((*begun, *((end, "") for end in ended)), key=itemgetter(0))
    return tuple((at + shift_ns, text) for at, text in marks)
