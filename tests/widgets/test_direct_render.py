"""Widgets that render their own lines render what Textual would, and place the scrollbar thumb like it."""

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


def rendered_lines(widget: Widget, crop: Region, *, as_textual: bool) -> list[list[Segment]]:
    """Return the lines of a part of a widget, by its own method or by Textual's."""
    strips = Widget.render_lines(widget, crop) if as_textual else widget.render_lines(crop)
    return [list(Segment.simplify(strip)) for strip in strips]


def assert_drawn_like_textual(widget: Widget) -> None:
    """Check that both ways give the same for the whole widget and for a part of it."""
    width, height = widget.size.width + widget.styles.gutter.width, widget.outer_size.height
    assert height > 4
    widget._styles_cache.clear()
    part = Region(width // 30, 1, width - width // 10, height - 2)
    for crop in (Region(0, 0, width, height), part, Region(0, height - 1, width, 1)):
        assert rendered_lines(widget, crop, as_textual=False) == rendered_lines(widget, crop, as_textual=True)


def scrollbar_at(thumb: ScrollBar, position: float) -> list[Segment]:
    """Return a scrollbar as Textual draws it."""
    size = (thumb.size.height, thumb.window_virtual_size, thumb.window_size)
    return ScrollBarRender.render_bar(*size, position).segments


async def test_tables_are_drawn_like_textual() -> None:
    async with TableApp().run_test(size=(100, 20)) as pilot:
        for keys in ((), ("j", "l"), ("space",), ("slash", "s", "g", "enter")):
            await pilot.press(*keys)
            assert_drawn_like_textual(pilot.app.query_one(FrameTable))
        table = pilot.app.query_one(FrameTable)
        table.styles.border = ("solid", "red")
        await pilot.pause()
        assert rendered_lines(table, table.size.region, as_textual=False) == rendered_lines(
            table, table.size.region, as_textual=True
        )


async def test_charts_are_drawn_like_textual() -> None:
    async with open_explorer("resnet50_training.csv") as pilot:
        for view, widget in (("iterations", IterationChart), ("timeline", TimelineView)):
            await run_line(pilot, view)
            await press(pilot, "right")
            assert_drawn_like_textual(app_of(pilot).screen.query_one(widget))


@pytest.mark.parametrize("rows", [20, 300, 20_000])
async def test_the_thumb_is_placed_like_textual(rows: int) -> None:
    async with TableApp(MANY.head(rows)).run_test(size=(100, 20)) as pilot:
        table = pilot.app.query_one(FrameTable)
        thumb = table.vertical_scrollbar
        places = set()
        for place in (0.0, 0.0001, 0.01, 0.3, 0.31, 0.5, 0.77, 0.9999, 1.0):
            table.scroll_to(y=round(place * table.max_scroll_y), animate=False, immediate=True)
            await pilot.pause()
            assert scrollbar_at(thumb, thumb.position) == scrollbar_at(thumb, table.scroll_y)
            places.add(thumb.position)
            if place == 0.5:
                await pilot.resize_terminal(100, 12)
                await pilot.pause()
                assert scrollbar_at(thumb, thumb.position) == scrollbar_at(thumb, table.scroll_y)
                await pilot.resize_terminal(100, 20)
        assert len(places) > 1 + (rows > 20)


async def test_paging_does_not_redraw_an_unchanged_scrollbar() -> None:
    async with TableApp(MANY).run_test(size=(100, 20)) as pilot:
        table = pilot.app.query_one(FrameTable)
        await pilot.press("pagedown")
        before = table.vertical_scrollbar.position
        assert_drawn_like_textual(table.vertical_scrollbar)
        await pilot.press("pagedown")
        assert table.scroll_y > 0
        assert table.vertical_scrollbar.position == before
        table.model.show_rows(TableRows(MANY.head(60)))
        table.show_rows()
        assert table.vertical_scrollbar.position != before
