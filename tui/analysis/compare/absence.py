"""What it means that a side has no row of something: that there was none of it, or that nothing tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.inputs.recording import records_copies
from tui.analysis.kernels import kernels

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Side
    from tui.model.profile import Profile

KINDS: Final = {"kernel": "kernels", "memcpy": "copies", "memset": "memsets"}
"""Kinds of GPU work whose time is a figure, and what several are called."""


def why_absent(side: Side, by: tuple[str, ...], section: str) -> pl.Expr:
    """Why it cannot be told whether a side that has no row of a name had none of it; null where it had none.

    Args:
        side: It has rows of other names.
        by: What names a row; a kind of GPU work where it is among it.
        section: gpu or api.
    """
    if _is_cut(side):
        return pl.lit("may be in the part that was not read")
    if lost_rows(side.profile, section):
        return pl.lit("may be in the rows that the printed table lacks")
    if "kind" not in by:
        return pl.lit(None, pl.String)
    return pl.when(pl.col("kind").is_in(perhaps_unrecorded(side))).then(pl.lit("may not have been recorded"))


def perhaps_unrecorded(side: Side) -> tuple[str, ...]:
    """The kinds of GPU work that are not there, though the run may have had some, where there is GPU work at all."""
    kinds = kernels(side.profile)["kind"].cast(pl.String).unique().to_list()
    if not kinds or (records_copies(side.profile) and not _is_cut(side) and not lost_rows(side.profile, "gpu")):
        return ()
    return tuple(kind for kind in KINDS if kind not in kinds)


def lost_rows(profile: Profile, section: str) -> bool:
    """Whether the percentages of a table that the input prints add up to less than all, so that rows are missing.

    As in `tui.analysis.kernels.aggregated`, which then takes shares as they are printed.
    """
    frame = "activities" if section == "gpu" else "api_calls"
    single = profile[frame]["session"].unique()
    printed = profile["summary"].filter(pl.col("section") == section, ~pl.col("session").is_in(single.implode()))
    sums = printed.group_by("session").agg(pl.col("time_pct").sum())
    return not sums.filter(pl.col("time_pct").is_between(1, 99, closed="left")).is_empty()


def _is_cut(side: Side) -> bool:
    """Whether a part of the run is missing; iterations that were read are whole."""
    return bool(side.profile.partial) and not side.iterations
