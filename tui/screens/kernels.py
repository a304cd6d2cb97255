"""Kernels: every kernel and memory operation by name, its launches, and the configuration of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from tui.analysis.activities import ACTIVITY_TABLE
from tui.analysis.duration_spread import spread, variants
from tui.analysis.estimated_savings import estimated_savings
from tui.analysis.hardware_metrics import measured_metrics
from tui.analysis.inputs.capabilities import how_to_record, why_none
from tui.analysis.inputs.needs import GPU_WORK, START_TIMES
from tui.analysis.kernels import LAUNCHES, kernels, launches
from tui.analysis.launches.config import launch_config
from tui.analysis.launches.origin import launch_origin, neighbors
from tui.analysis.launches.profiling_command import profiling_command
from tui.analysis.occupancy import advice_for
from tui.fitting import shorten_symbol
from tui.model.names import short_name
from tui.screens.base import ViewScreen
from tui.screens.linked_tables import Level, LinkedTables, Row, shown
from tui.widgets.charts.sparkline import histogram_line
from tui.widgets.details.kernel import below, gain_lines, next_lines, slow_lines, variant_lines
from tui.widgets.details.launch import launch_details
from tui.widgets.details.pane import row_details

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.analysis.inputs.needs import Need
    from tui.model.profile import Profile
    from tui.widgets.details.pane import Details, Line
    from tui.widgets.table.pane import TablePane


def details_of_launch(screen: ViewScreen, activity: int) -> Details:
    """Everything that is known of a launch.

    Args:
        screen: Whose profile it is of.
        activity: Its number, the column ``activity``.
    """
    profile = screen.profile
    config = launch_config(profile, activity, gpu=screen.explorer.options.gpu)
    # Another session may have measured it, whichever session is shown.
    measured = measured_metrics(screen.explorer.profile_session.whole_profile or profile, activity)
    return launch_details(
        config,
        launch_origin(profile, activity),
        *neighbors(profile, activity),
        measured,
        has_log=bool(profile.texts),
        advice=advice_for(config),
        gains=estimated_savings(profile, pl.Series([activity], dtype=pl.UInt32)),
        further=profiling_command(profile, activity),
    )


SPREAD_CELLS: Final = 56
"""Cells that the distribution of durations takes."""


def launches_of_kernel(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The launches of the selected kernel; none where no kernel is selected."""
    row = above.get("kernels")
    if row is None:
        return launches(profile, session=-1, name="", kind="")
    return launches(profile, session=row["session"], name=row["name"], kind=row["kind"])


def no_launches(profile: Profile) -> str:
    """Why there are no launches to show."""
    if kernels(profile).is_empty():
        return no_kernels(profile)
    what = "input" if profile["activities"].is_empty() else "session"
    return f"this {what} holds totals, not launches: {how_to_record(profile, START_TIMES)}"


def no_kernels(profile: Profile) -> str:
    """Why there are no kernels to show."""
    if profile["api_calls"].height or "api" in profile["summary"]["section"].cast(str).unique().to_list():
        return "no kernels in this input: it holds API calls only: press 0"
    return why_none(profile, GPU_WORK)


KERNEL_LEVEL = Level("kernels", *shown("kernels"), lambda row: short(row), no_kernels, 2)


def launch_crumb(row: Row) -> str:
    """A launch in the path."""
    return f"launch {row['activity']}"


def spread_not_known(profile: Profile, need: Need) -> list[tuple[str, list[Line]]]:
    """Why it is not known how the durations of a row of totals are spread, and what records it.

    Args:
        profile: What was read.
        need: What records single launches or calls.
    """
    line = ("p50, p90, p99, Std", "totals do not tell one from another", how_to_record(profile, need))
    return [("Not known", [line])]


LAUNCH_LEVEL = Level("launches", LAUNCHES, launches_of_kernel, launch_crumb, no_launches, 2)


def short(row: Row) -> str:
    """The name of a row, short enough for the path: without namespaces."""
    return shorten_symbol(short_name(str(row["name"])).rpartition("::")[2], 32)


def work_details(view: ViewScreen, pane: TablePane, row: dict[str, Any]) -> Details:
    """The launch config of single GPU work; of other rows their values."""
    if pane.spec is ACTIVITY_TABLE or pane.id == "launches":
        return details_of_launch(view, row["activity"])
    return row_details(pane.spec, row, frame_columns=pane.frame.columns)


def kernel_details(view: ViewScreen, pane: TablePane, row: Row, rows: pl.DataFrame) -> Details:
    """The values of a kernel, the distribution of its durations, and what its launches have in common.

    Args:
        view: The view that shows it.
        pane: Its table.
        row: The kernel.
        rows: Its launches.
    """
    profile = view.profile
    first = row_details(pane.spec, row, frame_columns=pane.frame.columns, more=_distribution(rows))
    if rows.is_empty():
        return below(first, spread_not_known(profile, START_TIMES))
    known = spread(rows)
    blocks = [
        ("Slow launches", slow_lines(known)),
        ("Variants with most time", variant_lines(variants(profile, rows))),
        ("If it were", gain_lines(estimated_savings(profile, rows["activity"]))),
    ]
    if row["kind"] == "kernel" and known is not None:
        # One that is like most of the others.
        near = rows.drop_nulls("duration_ns").sort((pl.col("duration_ns") - known.median_ns).abs(), "activity")
        further = profiling_command(profile, near["activity"][0])
        blocks.append(("To profile a typical launch in depth", next_lines(further)))
    return below(first, blocks)


def _distribution(rows: pl.DataFrame) -> list[Line]:
    """How the durations of a kernel are distributed; nothing where its launches are not known."""
    durations = rows["duration_ns"]
    if durations.len() < 2:
        return []
    line = histogram_line(durations, SPREAD_CELLS)
    differ = durations.drop_nulls().n_unique() > 1
    return [("Durations", line, "of its launches, on a logarithmic scale" if differ else "each of its launches")]


class KernelsScreen(ViewScreen):
    """Kernels, and the launches of the one under the cursor."""

    VIEW = "kernels"
    HELP: ClassVar = (
        "Kernels, copies and memsets by name; below, the launches of the selected one.\n"
        "Time% is the share of all GPU time of the session. Work of different streams can overlap.\n"
        "enter on a launch shows its configuration and theoretical occupancy; L shows its line in a log."
    )

    def make_body(self) -> LinkedTables:
        """Kernels and launches."""
        return LinkedTables((KERNEL_LEVEL, LAUNCH_LEVEL))

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """The launch config of a launch; of a kernel its values and the distribution of its durations."""
        if pane.id != "kernels":
            return work_details(self, pane, row)
        shown = self.query_one(LinkedTables).rows_below("kernels", row)
        rows = launches_of_kernel(self.profile, {"kernels": row}) if shown is None else shown
        return kernel_details(self, pane, row, rows)
