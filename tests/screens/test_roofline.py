"""The Roofline view: the plot, the ops by shape, their calls."""

from __future__ import annotations

from tests.screens.opening import app_of, opened, press, sample
from tests.snapshots import screen_text
from tui.analysis.roofline import op_work_by_shape
from tui.screens.linked_tables import LinkedTables
from tui.screens.roofline import RooflinePlot, RooflineScreen


async def test_the_plot_the_table_and_the_calls() -> None:
    async with opened(sample("resnet50_training.pt.trace.json.gz"), size=(120, 40), view="roofline") as pilot:
        screen = app_of(pilot).view_screen
        assert isinstance(screen, RooflineScreen)
        rows = op_work_by_shape(screen.profile)
        pane = screen.query_one(LinkedTables).pane(0)
        assert pane.model.shown_frame().height == rows.height
        text = screen_text(pilot.app)
        assert "of GPU time covered" in text
        assert "MFU" in text
        assert "H200, inferred" in text
        await press(pilot, "enter")
        top = pane.current_row
        assert top is not None
        details = str(screen.details(pane, top))
        assert "At 70% of the roof" in details
        assert "an iteration" in details
        assert screen.query_one(LinkedTables).pane(1).model.shown_frame().height == top["calls"]


async def test_a_short_screen_keeps_one_line_of_the_plot() -> None:
    async with opened(sample("resnet50_training.pt.trace.json.gz"), size=(80, 24), view="roofline") as pilot:
        screen = app_of(pilot).view_screen
        assert screen is not None
        assert screen.query_one(RooflinePlot).size.height == 1
