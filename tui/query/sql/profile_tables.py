"""The tables of a profile that SQL can query: its frames, what is computed from them, and the user's notes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tui.model.profile import Profile
from tui.model.schema import empty
from tui.query.sql.run import Tables
from tui.tables import COMPUTED, MODEL_FRAMES, frame

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl


@cache
def _nothing() -> Profile:
    """A profile without a row: one for all, so that what several aggregates are made of is worked out once."""
    return Profile({name: empty(name) for name in MODEL_FRAMES}, ())


@cache
def _columns(name: str) -> tuple[str, ...]:
    """The columns of an aggregate, which are the same whatever there is to aggregate."""
    return tuple(frame(_nothing(), name).columns)


def sql_tables(profile: Profile, notes: Callable[[], pl.DataFrame], *, gpu: str | None = None) -> Tables:
    """Every frame as a table for SQL, each computed when it is named.

    Args:
        profile: What was read.
        notes: Gives the notes on its rows as they are now: `tui.analysis.notes.notes_frame`.
        gpu: The name of the GPU, as the user gives it.
    """
    recorded = {name: profile[name] for name in MODEL_FRAMES}
    return Tables(recorded, COMPUTED, lambda name: frame(profile, name, gpu=gpu), {"notes": notes}, _columns)
