"""The flame view: zoom, find, groupings, and the way to the rows."""

from __future__ import annotations

from tests.screens.opening import app_of, opened, press
from tests.snapshots import screen_text
from tui.screens.copied_command import copied_command
from tui.screens.view_tables import view_table
from tui.widgets.charts.flame import FlameChart


async def test_a_story_in_the_flame() -> None:
    async with opened("caffe_conv1.nvprof.log", view="flame", size=(100, 24), notifications=True) as pilot:
        chart = pilot.app.screen.query_one(FlameChart)
        text = screen_text(pilot.app)
        assert "▏conv1" in text
        assert "754 ms  100.0% of GPU time  itself 0 ns  all" in text
        assert "▏260 ms  34.5%" in text
        await press(pilot, "j", "j", "l")
        assert (chart.current or {})["node"] == "convolution backward data"
        assert "260 ms  34.5% of GPU time" in screen_text(pilot.app)
        await press(pilot, "enter")
        assert chart.zoomed == chart.cursor
        await press(pilot, "slash", *"conv", "enter")
        assert "730 ms, 96.9% of GPU time" in screen_text(pilot.app)
        await press(pilot, "n")
        assert chart.cursor in chart.found
        await press(pilot, "escape")
        assert "96.9% of GPU time" not in screen_text(pilot.app)
        await press(pilot, "z", "b")
        assert "Flame ▸ by type" in screen_text(pilot.app)
        view = app_of(pilot).view_screen
        assert view is not None
        command = copied_command(view)
        assert command.endswith("caffe_conv1.nvprof.log --view flame --group-by type")
        tops = view_table(view.profile, "flame", group_by="type").rows.filter(level=1)
        assert tops["gpu_ns"].to_list() == [753_580_086]
        await press(pilot, "c")
        assert "No comparison yet." in screen_text(pilot.app)
        await press(pilot, "k", "k", "k", "j", "j", "j", "t")
        screen = app_of(pilot).view_screen
        assert screen is not None
        assert screen.VIEW in ("ops-and-kernels", "kernels")


async def test_without_colors_edges_tell_nodes_apart() -> None:
    async with opened("caffe_conv1.nvprof.log", view="flame", size=(80, 24), color="none", ascii_only=True) as pilot:
        lines = screen_text(pilot.app).splitlines()
        assert max(line.count("|") for line in lines) >= 3
