"""What the input aggregated itself beside GPU work and API calls: unified memory, OpenACC, NVTX, CPU samples, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

OTHER_SUMMARIES: Final = TableSpec(
    "other_summaries",
    "Other summaries",
    columns(
        "name",
        "section",
        "total_ns",
        "time_pct",
        "calls",
        "avg_ns",
        "min_ns",
        "max_ns",
        "range",
        "repaired",
        "session",
        "line",
    ),
    key=("session", "section", "line"),
    weight="",
)


def other_summaries(profile: Profile) -> pl.DataFrame:
    """The rows of ``summary`` that are neither GPU work nor API calls, in the order of the input.

    Rows of different sections overlap in time, as do those of nested NVTX ranges: their times are not to be added up.
    """
    return profile["summary"].filter(~pl.col("section").cast(pl.String).is_in(["gpu", "api"]))
