"""Where no row is selected in a table, the tables below it show nothing."""

from __future__ import annotations

from tests.screens.opening import app_of, opened, press, settled
from tests.snapshots import screen_text
from tui.screens.base import NOTHING_ABOVE
from tui.screens.linked_tables import LinkedTables


async def test_a_filter_that_keeps_no_row_empties_the_tables_below() -> None:
    async with opened("caffe_conv1.nvprof.log", view="ops-and-kernels") as pilot:
        screen = app_of(pilot).view_screen
        assert screen is not None
        tables = screen.query_one(LinkedTables)
        first = tables.pane(1).frame
        assert first.height
        await press(pilot, "f", *"nosuchop", "enter")
        await settled(pilot)
        assert [tables.pane(level).frame.height for level in (1, 2)] == [0, 0]
        assert NOTHING_ABOVE in screen_text(pilot.app)
        await press(pilot, "escape")
        await settled(pilot)
        assert tables.pane(1).frame.equals(first)
        assert tables.pane(2).frame.height
