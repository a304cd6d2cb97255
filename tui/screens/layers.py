"""Layers: measured and predicted times of a model's layers, their totals, and the GPU work of a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from tui.analysis.activities import ACTIVITY_TABLE, filtered_activities
from tui.analysis.capabilities import missing_data_text
from tui.analysis.layers import LAYERS, layer_work, layers, total_layers
from tui.analysis.needs import LAYERS as NEEDED
from tui.fmt import duration, percent
from tui.keys import Scope, bindings_for
from tui.screens.base import ViewScreen
from tui.screens.kernels import launch_crumb, work_details
from tui.screens.linked_tables import Level, Row, registered_level
from tui.screens.tabs import Tab, TabbedView
from tui.widgets.details import with_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.table.pane import TablePane

MAX_OTHER_ROWS = 12
"""The number of further rows of the same layer in its details."""


def work_of_selected_layer(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the GPU work of the selected layer."""
    row = selected.get("layers")
    return filtered_activities(profile) if row is None else layer_work(profile, row)


def layers_of_selected_total(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the layers of the selected total."""
    row = selected.get("layer_totals")
    return layers(profile).clear() if row is None else total_layers(profile, row)


def no_layers(profile: Profile) -> str:
    """Return why there are no layers."""
    return missing_data_text(profile, NEEDED)


def no_work(profile: Profile) -> str:
    """Return why a layer has no GPU work."""
    if profile["activities"].is_empty():
        return (
            "this profile has layer times but no kernels: open it together with a profile of the same program that "
            "has NVTX ranges or ops named like the layers"
        )
    if profile["ops"].is_empty():
        return "kernel names do not identify the kernels of this layer"
    return "no op or NVTX range has the name of this layer"


def layer_crumb(row: Row) -> str:
    """Return a layer for the path."""
    return " ".join(str(part) for part in (row["layer"], row["phase"]) if part)


class LayersScreen(TabbedView, ViewScreen):
    """One row per layer, phase and executor; their totals."""

    VIEW = "layers"
    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    TABS: ClassVar = (
        Tab(
            "layers",
            "Layers",
            (
                Level("layers", *registered_level("layer_times"), layer_crumb, no_layers, 3),
                Level("layer_work", ACTIVITY_TABLE, work_of_selected_layer, launch_crumb, no_work, 1),
            ),
        ),
        Tab(
            "totals",
            "Totals by phase",
            (
                Level(
                    "layer_totals",
                    *registered_level("layer_totals"),
                    lambda row: f"{row['phase']}, {row['executor']}",
                    no_layers,
                    1,
                ),
                Level("layers_of_total", LAYERS, layers_of_selected_total, layer_crumb, no_layers, 2),
            ),
        ),
    )
    HELP: ClassVar = (
        "Times of a model's layers, measured by a framework or predicted by a model. . switches to the "
        "totals.\nPred/meas is predicted / measured time; unknown where one of them is not recorded.\nCaffe's "
        "times are averages per iteration. The GPU work below belongs to ops and ranges named like the layer; if "
        "none are recorded, to kernels whose names identify the layer."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return a layer with its other phases and executors."""
        row_part = work_details(self, pane, row)
        if pane.spec is not LAYERS:
            return row_part
        rows = layers(self.profile)
        rows = rows.filter(pl.col("session") == row["session"], pl.col("layer").eq_missing(pl.lit(row["layer"])))
        lines = [
            (
                str(other_row["phase"] or ""),
                duration(other_row["measured_ns"]),
                ", ".join(
                    part
                    for part in (
                        other_row["executor"],
                        f"{percent(other_row['time_pct'])} of its phase" if other_row["time_pct"] is not None else "",
                        f"predicted {duration(other_row['predicted_ns'])}"
                        if other_row["predicted_ns"] is not None
                        else "",
                    )
                    if part
                ),
            )
            for other_row in rows.head(MAX_OTHER_ROWS).iter_rows(named=True)
        ]
        return with_blocks(row_part, [("All rows of this layer", lines)])
