"""Any column at a glance: one key shows how its values are distributed, enter filters."""

from __future__ import annotations

from tests.screens.opening import app_of, opened, press
from tests.snapshots import screen_text


async def test_the_distribution_of_a_column_filters_the_table() -> None:
    async with opened("caffe_conv1.nvprof.log", view="kernels", size=(100, 30)) as pilot:
        screen = app_of(pilot).view_screen
        assert screen is not None
        assert screen.table is not None
        before = screen.table.model.shown_frame().height
        screen.table.table.move_to_column("calls")
        await press(pilot, "D")
        text = screen_text(pilot.app)
        assert "Calls: rows, Total of each" in text
        assert "p50" in text
        await press(pilot, "enter")
        shown = screen.table.model.shown_frame()
        assert 0 < shown.height < before
        assert screen.table.state.filter.startswith("calls>=2 calls<")
        await press(pilot, "escape", "D", "j", "q")
        assert screen.table.model.shown_frame().height == before
