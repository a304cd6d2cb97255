"""What the input aggregated itself beside GPU work and API calls: unified memory, OpenACC, NVTX, CPU samples, ..."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.columns import ColumnKind, columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

# These names are words of the profiler and of the program, not C++ to be shortened.
_NAME: Final = replace(columns("name")[0], kind=ColumnKind.TEXT)
_RANGE: Final = replace(columns("range")[0], priority=2)
"""What a row of an NVTX range is about: nothing without it."""
_FIGURES: Final = ("total_ns", "time_pct", "calls", "avg_ns", "min_ns", "max_ns", "repaired", "session", "line")

OTHER_SUMMARIES: Final = TableSpec(
    "other_summaries",
    "Other summaries",
    (_NAME, columns("section")[0], _RANGE, *columns(*_FIGURES)),
    key=("session", "section", "line"),
    weight="",
)


def other_summaries(profile: Profile) -> pl.DataFrame:
    """The rows of ``summary`` that are neither GPU work nor API calls, in the order of the input.

    Rows of different sections overlap in time, as do those of nested NVTX ranges: their times are not to be added up.
    """
    return profile["summary"].filter(~pl.col("section").cast(pl.String).is_in(["gpu", "api"]))
