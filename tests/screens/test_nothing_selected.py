"""If no row is selected in a table, the linked tables show nothing."""

from __future__ import annotations

from tests.screens.explorer import open_explorer, press, screen_of, settle
from tests.snapshots import screen_text
from tui.screens.linked_tables import NO_ROW_ABOVE, LinkedTables


async def test_a_filter_without_matches_empties_the_linked_tables() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="ops-and-kernels") as pilot:
        screen = screen_of(pilot)
        tables = screen.query_one(LinkedTables)
        first = tables.pane(1).frame
        assert first.height
        await press(pilot, "f", *"nosuchop", "enter")
        await settle(pilot)
        assert [tables.pane(level).frame.height for level in (1, 2)] == [0, 0]
        assert NO_ROW_ABOVE in screen_text(pilot.app)
        await press(pilot, "escape")
        await settle(pilot)
        assert tables.pane(1).frame.equals(first)
        assert tables.pane(2).frame.height
