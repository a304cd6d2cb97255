"""With few or no colors, the cursor, dim text and the focus are shown by text styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.command import CommandList
from textual.widgets import TextArea

from tests.screens.explorer import go_to, open_explorer, press, settle
from tests.waiting import wait_until
from tui.widgets.charts.iteration_chart import IterationChart
from tui.widgets.header_footer import TabBar
from tui.widgets.table.view import FrameTable

if TYPE_CHECKING:
    from textual.widget import Widget


def dim_text(widget: Widget) -> str:
    """Return the dim text on the first line of a widget."""
    return "".join(segment.text for segment in widget.render_line(0) if segment.style and segment.style.dim)


async def test_the_selected_line_of_the_palette_is_reversed() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", color="none") as pilot:
        await press(pilot, "ctrl+p")
        lines = pilot.app.screen.query_one(CommandList)
        await wait_until(pilot, lambda: lines.option_count > 1, "commands to choose from")
        await press(pilot, "down", "down")
        in_reverse = {
            segment.style.meta.get("option")
            for y in range(lines.size.height)
            for segment in lines.render_line(y)
            if segment.style is not None and segment.style.reverse
        }
        assert in_reverse == {lines.highlighted}


@pytest.mark.parametrize(("color", "theme"), [("none", "dark"), ("16", "dark"), ("16", "light")])
async def test_placeholders_of_editors_are_dim(color: str, theme: str) -> None:
    async with open_explorer("caffe_conv1.nvprof.log", color=color, theme=theme) as pilot:
        await go_to(pilot, "kernels")
        await press(pilot, "M")
        assert dim_text(pilot.app.screen.query_one(TextArea)) == "type a note"
        await press(pilot, "escape")
        await go_to(pilot, "sql")
        editor = pilot.app.screen.query_one(TextArea)
        assert dim_text(editor) == "SELECT name, total_ns FROM kernels ORDER BY total_ns DESC LIMIT 10"
        await press(pilot, *"sel")
        assert dim_text(editor) == "ect"


async def test_the_cursor_of_a_focused_chart_is_reversed() -> None:
    async with open_explorer("resnet50_training.nvprof.log", color="none") as pilot:
        await go_to(pilot, "iterations")
        chart, table = pilot.app.screen.query_one(IterationChart), pilot.app.screen.query_one(FrameTable)

        def in_reverse() -> str:
            lines = (chart.render_line(y) for y in range(chart.content_size.height))
            return "".join(part.text for line in lines for part in line if part.style and part.style.reverse)

        chart.focus()
        await settle(pilot)
        assert in_reverse() == "▲"
        # The span is not the pointer.
        await press(pilot, "b", "right", "right")
        assert in_reverse() == "▲"
        table.focus()
        await settle(pilot)
        assert in_reverse() == ""


@pytest.mark.parametrize(
    ("color", "theme", "layer", "looks"),
    [
        ("none", "dark", "(layer)", (True, "default")),
        ("16", "light", " layer ", (True, "default")),
        ("truecolor", "light", " layer ", (None, "#5f666c")),
        ("truecolor", "dark", " layer ", (None, "#8f979e")),
    ],
)
async def test_tabs_without_data_are_marked(color: str, theme: str, layer: str, looks: tuple[bool | None, str]) -> None:
    async with open_explorer("resnet50_training.nvprof.log", color=color, theme=theme) as pilot:
        await go_to(pilot, "group-ops")
        styles = {part.text: part.style for part in pilot.app.screen.query_one(TabBar).render_line(0)}
        style = styles[layer]
        assert style is not None
        assert style.color is not None
        assert (style.dim, style.color.name) == looks
