"""GPU work by name, the pass over all launches that several figures begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.analysis.figures_by_key import figures_by
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile


@once_per_profile("activities")
def activities_by_name(profile: Profile) -> pl.DataFrame:
    """Single activities by session, kind and name, in no particular order.

    Columns: those, `tui.analysis.durations.figures`, line (the first one), short_name.
    """
    return figures_by(profile["activities"], ("session", "kind", "name"), "short_name")
