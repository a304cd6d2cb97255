"""What sessions that worked together are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.sessions import rank_words

if TYPE_CHECKING:
    from tui.model.profile import Profile


def labels(profile: Profile) -> dict[int, str]:
    """What each session is called: its rank, else its number and process."""
    session = pl.col("session")
    process = pl.format("session {} (pid {})", session, "pid")
    told = profile["sessions"].select("session", rank_words(), process.alias("process"))
    return {
        number: (rank or (process or f"session {number}")).partition(" of ")[0]
        for number, rank, process in told.iter_rows()
    }


def named(profile: Profile, session: str, name: str) -> pl.Expr:
    """A column of numbers of sessions as one of what they are called."""
    return pl.col(session).replace_strict(labels(profile), default=None, return_dtype=pl.String).alias(name)
