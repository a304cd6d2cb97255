"""The details of one launch, as every view that shows launches tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.launches.config import launch_config
from tui.analysis.launches.measured_metrics import measured_metrics
from tui.analysis.launches.neighbours import neighbours
from tui.analysis.launches.origin import launch_origin
from tui.analysis.launches.profile_next import profile_next
from tui.analysis.occupancy.advice import advice_for
from tui.analysis.what_if import what_if
from tui.widgets.launch_details import launch_details

if TYPE_CHECKING:
    from tui.screens.base import ViewScreen
    from tui.widgets.details import Details


def details_of_launch(screen: ViewScreen, activity: int) -> Details:
    """Everything that is known of a launch.

    Args:
        screen: Whose profile it is of.
        activity: Its number, the column ``activity``.
    """
    profile = screen.profile
    config = launch_config(profile, activity, gpu=screen.program.options.gpu)
    # Another session may have measured it, whichever session is shown.
    measured = measured_metrics(screen.program.whole_profile or profile, activity)
    return launch_details(
        config,
        launch_origin(profile, activity),
        *neighbours(profile, activity),
        measured,
        has_log=bool(profile.texts),
        advice=advice_for(config),
        gains=what_if(profile, pl.Series([activity], dtype=pl.UInt32)),
        further=profile_next(profile, activity),
    )
