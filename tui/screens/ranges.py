"""Ranges: NVTX ranges and annotations by name, and every one of them, with the GPU work launched within."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.inputs.capabilities import how_to_record, why_none
from tui.analysis.inputs.needs import RANGES as NEEDED
from tui.analysis.ranges import RANGE_INSTANCES, RANGES, instances_of, ranges_by_name
from tui.fitting import clip_middle
from tui.screens.linked import Level, LinkedTablesScreen, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile

CRUMB_CELLS = 32
"""Cells of a range's name in the path."""


def instances_of_selected(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The ranges of the selected name; none where none is selected."""
    row = above.get("ranges")
    if row is None:
        return instances_of(profile, session=-1, domain=None, name="")
    return instances_of(profile, session=row["session"], domain=row["domain"], name=row["name"])


def no_ranges(profile: Profile) -> str:
    """Why there are no ranges to show."""
    return why_none(profile, NEEDED)


def no_instances(profile: Profile) -> str:
    """Why there are no single ranges to show."""
    if profile["ranges"].is_empty():
        return f"this input holds totals of ranges, not single ones: {how_to_record(profile, NEEDED)}"
    return "no range is selected"


def crumb(row: Row) -> str:
    """A row in the path: its name."""
    return clip_middle(str(row["name"]), CRUMB_CELLS)


class RangesScreen(LinkedTablesScreen):
    """Names, and the ranges of the name under the cursor."""

    VIEW = "ranges"
    LEVELS: ClassVar = (
        Level("ranges", RANGES, lambda profile, _above: ranges_by_name(profile), crumb, no_ranges, 3),
        Level("instances", RANGE_INSTANCES, instances_of_selected, lambda row: f"#{row['number']}", no_instances, 2),
    )
    HELP: ClassVar = (
        "NVTX ranges and annotations by name; below, each range of the name under the cursor. Times are CPU time.\n"
        "GPU time is of the work that the range's own thread launched between its start and its end, whenever it ran.\n"
        "Ranges lie within ranges: neither their times nor their GPU times are to be added up over names."
    )
