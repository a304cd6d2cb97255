"""Ranges: NVTX ranges and annotations by name and single ranges, with the GPU work launched in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from tui.analysis.activities import ACTIVITY_TABLE, filtered_activities
from tui.analysis.capabilities import missing_data_text, recording_advice
from tui.analysis.cuda_graphs import REPLAYS, no_graphs, replay_nodes, replays_in_graph
from tui.analysis.needs import API_TRACE
from tui.analysis.needs import RANGES as NEEDED
from tui.analysis.ranges import (
    INSTANCES_MEANWHILE,
    NAMES_AT_DEPTH,
    RANGE_INSTANCES,
    RANGES_MEANWHILE,
    concurrent_ranges,
    is_at_depth,
    names_at_depth,
    ranges_around,
    ranges_with_name,
    work_in_range,
)
from tui.fmt import count, duration
from tui.keys import Scope, bindings_for
from tui.model.names import short_name
from tui.screens.base import ViewScreen
from tui.screens.kernels import launch_crumb, work_details
from tui.screens.linked_tables import Level, Row, registered_level
from tui.screens.tabs import Tab, TabbedView
from tui.text_width import clip_middle
from tui.widgets.details import with_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.model.profile import Profile
    from tui.widgets.details import Details, Line
    from tui.widgets.table.pane import TablePane


MAX_NAMES: Final = 10
"""The number of kernels in the details of a range."""
CRUMB_CELLS: Final = 32
"""The maximum width of a range's name in the path."""
NO_WORK: Final = "this range launched no GPU work"


def instances_of_selected(level: str) -> Callable[[Profile, Mapping[str, Row]], pl.DataFrame]:
    """Return a function for the ranges of the selected name; none if none is selected."""

    def instances(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
        row = selected.get(level)
        if row is None:
            return ranges_with_name(profile, session=-1, domain=None, name="")
        return ranges_with_name(profile, session=row["session"], domain=row["domain"], name=row["name"])

    return instances


def no_ranges(profile: Profile) -> str:
    """Return why there are no ranges to show."""
    return missing_data_text(profile, NEEDED)


def no_instances(profile: Profile) -> str:
    """Return why there are no single ranges to show."""
    if profile["ranges"].is_empty():
        return f"this profile has totals of ranges, not individual ranges: {recording_advice(profile, NEEDED)}"
    return "no range is selected"


def range_name_crumb(row: Row) -> str:
    """Return the name of a row for the path."""
    return clip_middle(str(row["name"]), CRUMB_CELLS)


def names_of_depth(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the names at the selected depth."""
    row = selected.get("depths")
    if row is None:
        return names_at_depth(profile, session=-1, depth=None)
    return names_at_depth(profile, session=row["session"], depth=row["depth"])


def instances_at_depth(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the ranges of the selected name at the selected depth."""
    depth, row = selected.get("depths"), selected.get("depth_names")
    if depth is None or row is None:
        return ranges_with_name(profile, session=-1, domain=None, name="")
    rows = ranges_with_name(profile, session=row["session"], domain=row["domain"], name=row["name"])
    return rows.filter(is_at_depth(depth["depth"]))


def launched_in(level: str, *, meanwhile: bool = False) -> Callable[[Profile, Mapping[str, Row]], pl.DataFrame]:
    """Return a function for the GPU work that the thread of the selected range, or other threads, launched in it."""

    def work(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
        row = selected.get(level)
        return filtered_activities(profile) if row is None else work_in_range(profile, row, meanwhile=meanwhile)

    return work


def why_no_single_ranges(profile: Profile) -> str:
    """Return why there are no single ranges; empty if there are."""
    return no_instances(profile) if profile["ranges"].is_empty() else ""


def no_work(profile: Profile) -> str:
    """Return why a range has no GPU work."""
    if profile["api_calls"].is_empty():
        return f"this input does not record launching threads: {recording_advice(profile, API_TRACE)}"
    if profile["ranges"].height and profile["ranges"]["tid"].null_count() == profile["ranges"].height:
        return "this input does not record the threads of ranges: their GPU work is unknown"
    return NO_WORK


def no_work_meanwhile(profile: Profile) -> str:
    """Return why other threads launched no GPU work during a range."""
    reason = no_work(profile)
    if reason != NO_WORK:
        return reason
    return "no other thread of the process launched work during this range"


def range_crumb(row: Row) -> str:
    """Return a range for the path."""
    return f"#{row['number']}"


class RangesScreen(TabbedView, ViewScreen):
    """Names, the ranges of the name under the cursor, and the work launched in one; the same by depth."""

    VIEW = "ranges"
    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    TABS: ClassVar = (
        Tab(
            "names",
            "By name",
            (
                Level("ranges", *registered_level("ranges_by_name"), range_name_crumb, no_ranges, 3),
                Level("instances", RANGE_INSTANCES, instances_of_selected("ranges"), range_crumb, no_instances, 2),
                Level("range_work", ACTIVITY_TABLE, launched_in("instances"), launch_crumb, no_work, 2),
            ),
        ),
        Tab(
            "depths",
            "By depth",
            (
                Level(
                    "depths",
                    *registered_level("ranges_by_depth"),
                    lambda row: f"depth {row['depth']}",
                    no_instances,
                    2,
                ),
                Level("depth_names", NAMES_AT_DEPTH, names_of_depth, range_name_crumb, no_instances, 3),
                Level("depth_instances", RANGE_INSTANCES, instances_at_depth, range_crumb, no_instances, 2),
                Level("depth_work", ACTIVITY_TABLE, launched_in("depth_instances"), launch_crumb, no_work, 2),
            ),
            why_no_single_ranges,
        ),
        Tab(
            "meanwhile",
            "By other threads",
            (
                Level(
                    "meanwhile_ranges",
                    RANGES_MEANWHILE,
                    lambda profile, _above: concurrent_ranges(profile),
                    range_name_crumb,
                    no_instances,
                    3,
                ),
                Level(
                    "meanwhile_instances",
                    INSTANCES_MEANWHILE,
                    instances_of_selected("meanwhile_ranges"),
                    range_crumb,
                    no_instances,
                    2,
                ),
                Level(
                    "meanwhile_work",
                    ACTIVITY_TABLE,
                    launched_in("meanwhile_instances", meanwhile=True),
                    launch_crumb,
                    no_work_meanwhile,
                    2,
                ),
            ),
            why_no_single_ranges,
        ),
        Tab(
            "graphs",
            "CUDA graphs",
            (
                Level(
                    "cuda_graphs", *registered_level("cuda_graphs"), lambda row: str(row["cuda_graph"]), no_graphs, 2
                ),
                Level(
                    "replays",
                    REPLAYS,
                    lambda profile, above: replays_in_graph(profile, above.get("cuda_graphs")),
                    lambda row: f"launch {row['correlation']}",
                    no_graphs,
                    2,
                ),
                Level(
                    "nodes",
                    ACTIVITY_TABLE,
                    lambda profile, above: replay_nodes(profile, above.get("replays")),
                    launch_crumb,
                    no_graphs,
                    2,
                ),
            ),
            no_graphs,
        ),
    )
    HELP: ClassVar = (
        "NVTX ranges and annotations by name, their instances and their GPU work. . switches to "
        "depth and graphs.\nGPU time: work that the thread of the range launched in it, whenever it ran.\nOther "
        "threads: GPU time of work that other threads launched meanwhile, such as PyTorch's autograd thread. It "
        "is empty if one thread launches all work.\nRanges nest: do not add up their times or GPU times over names."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the ranges around a single range, and the work launched in it by name."""
        row_part = work_details(self, pane, row)
        if pane.spec not in (RANGE_INSTANCES, INSTANCES_MEANWHILE):
            return row_part
        enclosing: list[Line] = [
            (f"depth {outer['depth']}", str(outer["name"]), duration(outer["duration_ns"]))
            for outer in ranges_around(self.profile, row).iter_rows(named=True)
        ]
        launched, concurrent = (work_in_range(self.profile, row, meanwhile=meanwhile) for meanwhile in (False, True))
        return with_blocks(
            row_part,
            [
                ("Inside", enclosing),
                ("Launched in it", lines_by_name(launched) or [("nothing", "", no_work(self.profile))]),
                ("Launched meanwhile by other threads (matched by time)", lines_by_name(concurrent)),
            ],
        )


def lines_by_name(work: pl.DataFrame) -> list[Line]:
    """Return GPU work by name, most time first."""
    sums = (
        work.group_by("name")
        .agg(pl.len().alias("calls"), pl.col("duration_ns").sum())
        .sort("duration_ns", "name", descending=[True, False])
    )
    lines: list[Line] = [
        (duration(total), short_name(str(name)), f"{count(calls)} times" if calls > 1 else "once")
        for name, calls, total in sums.head(MAX_NAMES).iter_rows()
    ]
    if sums.height > MAX_NAMES:
        lines.append(("", f"and {count(sums.height - MAX_NAMES)} more", ""))
    return lines
