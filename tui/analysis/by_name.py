"""GPU work by name, the pass over all launches that several figures begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.durations import figures
from tui.analysis.grouping import grouped
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    from tui.model.profile import Profile


@once_per_profile("activities")
def activities_by_name(profile: Profile) -> pl.DataFrame:
    """Single activities by session, kind and name, in no particular order.

    Columns: those, `tui.analysis.durations.figures`, line (the first one), short_name.
    """
    return grouped(
        profile["activities"],
        ("session", "kind", "name"),
        [*figures(), pl.col("line").min(), pl.col("short_name").first()],
    )
