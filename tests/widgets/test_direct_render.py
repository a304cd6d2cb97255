"""What draws its own lines draws what Textual would make of them, and a thumb stands where Textual would put it."""

from __future__ import annotations

import polars as pl
import pytest
from rich.segment import Segment
from textual.geometry import Region
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.widget import Widget

from tests.screens.explorer import app_of, open_explorer, press, run_line
from tests.widgets.tables import KERNELS, TableApp
from tui.widgets.charts.iteration_chart import IterationChart
from tui.widgets.table.model import TableRows
from tui.widgets.table.view import FrameTable
from tui.widgets.timeline.view import TimelineView

MANY = pl.concat([KERNELS] * 2_500)


def looks(widget: Widget, crop: Region, *, as_textual: bool) -> list[list[Segment]]:
    """The lines of a part of a widget, as its own method or as Textual's gives them."""
    strips = Widget.render_lines(widget, crop) if as_textual else widget.render_lines(crop)
    return [list(Segment.simplify(strip)) for strip in strips]


def compare(widget: Widget) -> None:
    """The whole widget and a part of it are the same in both ways."""
    width, height = widget.size.width + widget.styles.gutter.width, widget.outer_size.height
    assert height > 4
    widget._styles_cache.clear()
    part = Region(width // 30, 1, width - width // 10, height - 2)
    for crop in (Region(0, 0, width, height), part, Region(0, height - 1, width, 1)):
        assert looks(widget, crop, as_textual=False) == looks(widget, crop, as_textual=True)


def drawn_at(thumb: ScrollBar, position: float) -> list[Segment]:
    """A scrollbar as Textual draws it."""
    size = (thumb.size.height, thumb.window_virtual_size, thumb.window_size)
    return ScrollBarRender.render_bar(*size, position).segments


async def test_tables_are_drawn_as_textual_would() -> None:
    async with TableApp().run_test(size=(100, 20)) as pilot:
        for keys in ((), ("j", "l"), ("space",), ("slash", "s", "g", "enter")):
            await pilot.press(*keys)
            compare(pilot.app.query_one(FrameTable))
        table = pilot.app.query_one(FrameTable)
        table.styles.border = ("solid", "red")
        await pilot.pause()
        assert looks(table, table.size.region, as_textual=False) == looks(table, table.size.region, as_textual=True)


async def test_charts_are_drawn_as_textual_would() -> None:
    async with open_explorer("resnet50_training.csv") as pilot:
        for view, widget in (("iterations", IterationChart), ("timeline", TimelineView)):
            await run_line(pilot, view)
            await press(pilot, "right")
            compare(app_of(pilot).screen.query_one(widget))


@pytest.mark.parametrize("rows", [20, 300, 20_000])
async def test_the_thumb_stands_where_textual_would_put_it(rows: int) -> None:
    async with TableApp(MANY.head(rows)).run_test(size=(100, 20)) as pilot:
        table = pilot.app.query_one(FrameTable)
        thumb = table.vertical_scrollbar
        places = set()
        for place in (0.0, 0.0001, 0.01, 0.3, 0.31, 0.5, 0.77, 0.9999, 1.0):
            table.scroll_to(y=round(place * table.max_scroll_y), animate=False, immediate=True)
            await pilot.pause()
            assert drawn_at(thumb, thumb.position) == drawn_at(thumb, table.scroll_y)
            places.add(thumb.position)
            if place == 0.5:
                await pilot.resize_terminal(100, 12)
                await pilot.pause()
                assert drawn_at(thumb, thumb.position) == drawn_at(thumb, table.scroll_y)
                await pilot.resize_terminal(100, 20)
        assert len(places) > 1 + (rows > 20)


async def test_a_page_of_many_does_not_draw_the_scrollbar_again() -> None:
    async with TableApp(MANY).run_test(size=(100, 20)) as pilot:
        table = pilot.app.query_one(FrameTable)
        await pilot.press("pagedown")
        before = table.vertical_scrollbar.position
        compare(table.vertical_scrollbar)
        await pilot.press("pagedown")
        assert table.scroll_y > 0
        assert table.vertical_scrollbar.position == before
        table.model.show_rows(TableRows(MANY.head(60)))
        table.show_rows()
        assert table.vertical_scrollbar.position != before
